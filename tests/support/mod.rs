// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A device through IREE's C API, for tests of the driver as its users see it. It runs on the software runtime, or on
//! the library that `AMDGPU_RS_TEST_HSA` names; one that is missing fails the test.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod one_block;
pub mod recording;
mod rig;

use std::ffi::c_void;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};

use amdgpu_rs::ffi::{
    self, HalRef, Listener, QUEUE_AFFINITY_ANY, Result, Status, Timepoint, WHOLE_BUFFER, iree, raw, strings,
};
pub use amdgpu_rs::ffi::{BufferHandle as BufferRef, SemaphoreRef};
use amdgpu_rs::iree_hal_amdgpu_rs_driver_create;
pub use rig::*;

pub type ExecutableRef = HalRef<raw::iree_hal_executable_t>;

/// Runs `test`, which is all of the test function `name`, in a process of its own, whose GPUs are `agents`: a memory
/// fault is the end of a GPU for its process. Returns how the process ended and its output on standard error; none in
/// the process itself.
pub fn alone(name: &str, agents: &str, test: impl FnOnce()) -> Option<(ExitStatus, String)> {
    const ALONE: &str = "AMDGPU_RS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        test();
        return None;
    }
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", name, "--nocapture"])
        .envs([(ALONE, "1"), ("HSA_SIM_AGENTS", agents)])
        .output()
        .expect("a process of its own");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "no test {name}: {said}");
    Some((output.status, String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// As [`alone`], of a test that passes. Returns its output.
pub fn passes_alone(name: &str, agents: &str, test: impl FnOnce()) -> Option<String> {
    let (status, said) = alone(name, agents, test)?;
    assert!(status.success(), "{said}");
    Some(said)
}

/// CPU time of this thread, in seconds: the time of other threads and processes does not count.
pub fn own_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Rig {
    /// The slabs of coarse memory that the first GPU's slab provider has acquired and released.
    pub fn slabs(&self) -> (u64, u64) {
        // SAFETY: a live device, whose provider it keeps; all-zero is valid for the results.
        unsafe {
            let mut backend: raw::iree_hal_queue_pool_backend_t = std::mem::zeroed();
            iree!(raw::iree_hal_device_query_queue_pool_backend(self.device.as_ptr(), 1, &raw mut backend)).unwrap();
            let (mut visited, mut stats) = std::mem::zeroed();
            raw::iree_hal_slab_provider_query_stats(backend.slab_provider, &raw mut visited, &raw mut stats);
            (stats.total_acquired, stats.total_released)
        }
    }

    /// Memory that host and device see.
    pub fn buffer(&self, size: usize) -> BufferRef {
        self.buffer_for(raw::IREE_HAL_BUFFER_USAGE_DEFAULT, size)
    }

    /// Memory that host and device see, for `usage` and mapping.
    pub fn buffer_for(&self, usage: u32, size: usize) -> BufferRef {
        let memory_type = raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE
            | raw::IREE_HAL_MEMORY_TYPE_HOST_COHERENT
            | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
        self.try_buffer(memory_type, usage | raw::IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED, size).expect("a buffer")
    }

    /// Memory of the types and for the usage that the bits name.
    pub fn try_buffer(&self, memory_type: u32, usage: u32, size: usize) -> Result<BufferRef> {
        self.allocate(params(memory_type, usage), size)
    }

    /// Where a buffer of host memory is on the device: where it is on the host.
    pub fn device_address(&self, buffer: &BufferRef) -> u64 {
        // SAFETY: a live buffer and a place for the result, whose handle is the one of the type asked for.
        unsafe {
            let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
            iree!(raw::iree_hal_allocator_export_buffer(
                self.allocator(),
                buffer.as_ptr(),
                raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION,
                raw::IREE_HAL_EXTERNAL_BUFFER_FLAG_NONE as _,
                &raw mut external
            ))
            .expect("host memory can be exported");
            external.handle.host_allocation.ptr as u64
        }
    }

    pub fn write(&self, buffer: &BufferRef, offset: usize, bytes: &[u8]) {
        // SAFETY: a live buffer and bytes of the stated length.
        unsafe { iree!(raw::iree_hal_buffer_map_write(buffer.as_ptr(), offset, bytes.as_ptr().cast(), bytes.len())) }
            .expect("the buffer is mappable");
    }

    pub fn read(&self, buffer: &BufferRef, offset: usize, length: usize) -> Vec<u8> {
        map_read(buffer, offset, length).expect("the buffer is mappable")
    }

    pub fn fill(
        &self,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        target: &BufferRef,
        (offset, length): (usize, usize),
        pattern: &[u8],
    ) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects; the pattern is captured during the call.
        unsafe {
            iree!(raw::iree_hal_device_queue_fill(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                target.as_ptr(),
                offset,
                length,
                pattern.as_ptr().cast(),
                pattern.len(),
                0
            ))
        }
    }

    pub fn copy(
        &self,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        (source, source_offset): (&BufferRef, usize),
        (target, target_offset): (&BufferRef, usize),
        length: usize,
    ) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects.
        unsafe {
            iree!(raw::iree_hal_device_queue_copy(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                source.as_ptr(),
                source_offset,
                target.as_ptr(),
                target_offset,
                length,
                0
            ))
        }
    }

    pub fn update(
        &self,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        bytes: &[u8],
        target: &BufferRef,
    ) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects; the bytes are captured during the call.
        unsafe {
            iree!(raw::iree_hal_device_queue_update(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                bytes.as_ptr().cast(),
                0,
                target.as_ptr(),
                0,
                bytes.len(),
                0
            ))
        }
    }

    /// Prepares an executable; its format is inferred.
    pub fn executable(&self, data: &[u8]) -> Result<ExecutableRef> {
        let mut format = [0_u8; 128];
        let mut executable = std::ptr::null_mut();
        // SAFETY: live objects, spans and places; the cache is released at the end.
        unsafe {
            let mut cache = std::ptr::null_mut();
            iree!(raw::iree_hal_executable_cache_create(self.device.as_ptr(), strings::view("test"), &raw mut cache))?;
            let cache = HalRef::from_owned(cache).expect("a cache that was made");
            let span = raw::iree_const_byte_span_t { data: data.as_ptr(), data_length: data.len() };
            let mut size = 0;
            iree!(raw::iree_hal_executable_cache_infer_format(
                cache.as_ptr(),
                0,
                span,
                format.len(),
                format.as_mut_ptr().cast(),
                &raw mut size
            ))?;
            let format = std::ffi::CStr::from_bytes_until_nul(&format).expect("a text").to_str().expect("in UTF-8");
            let mut params: raw::iree_hal_executable_params_t = std::mem::zeroed();
            params.queue_affinity = QUEUE_AFFINITY_ANY;
            params.executable_format = strings::view(format);
            params.executable_data = span;
            iree!(raw::iree_hal_executable_cache_prepare_executable(
                cache.as_ptr(),
                &raw const params,
                &raw mut executable
            ))?;
            Ok(HalRef::from_owned(executable).expect("an executable that was made"))
        }
    }

    /// Launches one workgroup of the function `name`.
    pub fn dispatch(
        &self,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        kernel: (&ExecutableRef, &str),
        constants: &[u8],
        bindings: &[&BufferRef],
    ) -> Result<()> {
        let bindings: Vec<_> = bindings.iter().map(|buffer| recording::direct(buffer, 0, WHOLE_BUFFER)).collect();
        self.dispatch_with(affinity, waits, signals, kernel, workgroups(1), constants, &bindings, 0)
    }

    #[allow(clippy::too_many_arguments, reason = "the call's arguments")]
    pub fn dispatch_with(
        &self,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        (executable, name): (&ExecutableRef, &str),
        config: raw::iree_hal_dispatch_config_t,
        constants: &[u8],
        bindings: &[raw::iree_hal_buffer_ref_t],
        flags: u32,
    ) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects and spans of the stated lengths.
        unsafe {
            iree!(raw::iree_hal_device_queue_dispatch(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                executable.as_ptr(),
                function(executable, name)?,
                config,
                raw::iree_const_byte_span_t { data: constants.as_ptr(), data_length: constants.len() },
                raw::iree_hal_buffer_ref_list_t { count: bindings.len(), values: bindings.as_ptr() },
                flags.into()
            ))
        }
    }

    /// Allocates device memory of the default pool.
    pub fn alloca(&self, affinity: u64, waits: Points<'_>, signals: Points<'_>, size: usize) -> Result<BufferRef> {
        self.alloca_from(std::ptr::null_mut(), affinity, waits, signals, (size, 0))
    }

    /// Allocates device memory of `pool`: so many bytes, with `iree_hal_alloca_flags_t` bits.
    pub fn alloca_from(
        &self,
        pool: *mut raw::iree_hal_pool_t,
        affinity: u64,
        waits: Points<'_>,
        signals: Points<'_>,
        (size, flags): (usize, u32),
    ) -> Result<BufferRef> {
        let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS;
        let params = params(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, usage);
        self.alloca_of(params, pool, affinity, (waits, signals), (size, flags.into()))
    }

    /// Calls a function that does nothing.
    pub fn host_call(&self, affinity: u64, waits: Points<'_>, signals: Points<'_>) -> Result<()> {
        unsafe extern "C" fn nothing(
            _user_data: *mut c_void,
            _args: *const u64,
            _context: *mut raw::iree_hal_host_call_context_t,
        ) -> raw::iree_status_t {
            std::ptr::null_mut()
        }
        let (waits, signals) = (List::new(waits), List::new(signals));
        let call = raw::iree_hal_host_call_t { fn_: Some(nothing), user_data: std::ptr::null_mut() };
        // SAFETY: live objects; the arguments are read during the call.
        unsafe {
            iree!(raw::iree_hal_device_queue_host_call(
                self.device.as_ptr(),
                affinity,
                waits.raw(),
                signals.raw(),
                call,
                [0; 4].as_ptr(),
                0
            ))
        }
    }
}

/// The function `name` of `executable`.
pub fn function(executable: &ExecutableRef, name: &str) -> Result<raw::iree_hal_executable_function_t> {
    let mut function = raw::iree_hal_executable_function_t { value: 0 };
    // SAFETY: a live executable and a place for the result.
    unsafe {
        iree!(raw::iree_hal_executable_lookup_function_by_name(
            executable.as_ptr(),
            strings::view(name),
            &raw mut function
        ))?;
    }
    Ok(function)
}

/// So many workgroups in x, of the function's own size.
pub fn workgroups(count: u32) -> raw::iree_hal_dispatch_config_t {
    // SAFETY: all-zero is the default.
    let mut config: raw::iree_hal_dispatch_config_t = unsafe { std::mem::zeroed() };
    config.workgroup_count = [count, 1, 1];
    config
}

/// The failure of a semaphore that is expected to fail.
pub fn failure(semaphore: &SemaphoreRef, value: u64) -> Status {
    wait(semaphore, value).expect_err("the semaphore fails")
}

/// A function to be called once.
type Function = Box<dyn FnOnce(Result<()>) + Send>;

struct Callback {
    timepoint: Timepoint,
    function: Mutex<Option<Function>>,
}

impl Listener for Callback {
    fn reached(self: Arc<Self>, result: Result<()>) {
        let function = self.function.lock().unwrap().take();
        function.expect("it is called once")(result);
    }
}

/// Has `function` called on the thread that brings `semaphore`, which lives until then, to `value`.
pub fn when(semaphore: &SemaphoreRef, value: u64, function: impl FnOnce(Result<()>) + Send + 'static) {
    let callback =
        Arc::new(Callback { timepoint: Timepoint::default(), function: Mutex::new(Some(Box::new(function))) });
    Timepoint::acquire(&callback, |callback| &callback.timepoint, semaphore.borrow(), value).expect("a timepoint");
}
