// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A device through IREE's C API, for tests of the driver as its users see it. It runs on the software runtime, or on the library that
//! `AMDGPU_RS_TEST_HSA` names; one that is missing fails the test.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod recording;

use std::path::PathBuf;

use amdgpu_rs::api::driver::iree_hal_amdgpu_rs_driver_create;
pub use amdgpu_rs::ffi::SemaphoreRef;
use amdgpu_rs::ffi::{Allocator, HalRef, QUEUE_AFFINITY_ANY, Result, Status, WHOLE_BUFFER, iree, raw, strings};
use iree_test_runtime as _;

pub type BufferRef = HalRef<raw::iree_hal_buffer_t>;
pub type ExecutableRef = HalRef<raw::iree_hal_executable_t>;

/// The library to test on.
pub fn library_path() -> PathBuf {
    if let Some(path) = std::env::var_os("AMDGPU_RS_TEST_HSA") {
        return PathBuf::from(path);
    }
    // Tests are in `<target>/<profile>/deps`, the library in `<target>/<profile>`.
    let program = std::env::current_exe().expect("a test has a file");
    program.ancestors().nth(2).expect("a test is two directories deep").join("libhsa_runtime64.so")
}

pub fn pair(key: &str, value: &str) -> raw::iree_string_pair_t {
    raw::iree_string_pair_t {
        __bindgen_anon_1: raw::iree_string_pair_t__bindgen_ty_1 { key: strings::view(key) },
        __bindgen_anon_2: raw::iree_string_pair_t__bindgen_ty_2 { value: strings::view(value) },
    }
}

/// A device in a device group of its own.
pub struct Rig {
    pub device: HalRef<raw::iree_hal_device_t>,
    group: *mut raw::iree_hal_device_group_t,
    tracker: *mut raw::iree_async_frontier_tracker_t,
    pool: *mut raw::iree_async_proactor_pool_t,
}

// SAFETY: the group is only held for its release; HAL devices may be used from any thread.
unsafe impl Sync for Rig {}
// SAFETY: as above.
unsafe impl Send for Rig {}

/// What an operation waits for or signals.
pub type Points<'a> = &'a [(&'a SemaphoreRef, u64)];

impl Rig {
    /// The default device with default options.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// The default device with `options`.
    pub fn with(options: &[(&str, &str)]) -> Self {
        Self::open("", options).expect("a device on the library to test on (build it with `cargo build -p hsa-sim`)")
    }

    /// The device at `path`.
    pub fn open(path: &str, options: &[(&str, &str)]) -> Result<Self> {
        let library = library_path();
        let library = library.to_str().expect("a path in UTF-8");
        let mut pairs = vec![pair("libhsa_search_path", library)];
        pairs.extend(options.iter().map(|(key, value)| pair(key, value)));
        let allocator = Allocator::system().to_raw();
        // SAFETY: valid arguments; each object made is owned by the rig or released here.
        unsafe {
            let mut driver = std::ptr::null_mut();
            let name = strings::view("amdgpu_rs");
            iree!(iree_hal_amdgpu_rs_driver_create(name, pairs.len(), pairs.as_ptr(), allocator, &raw mut driver))?;
            let driver = HalRef::from_owned(driver).expect("a driver that was made");
            let mut pool = std::ptr::null_mut();
            iree!(raw::iree_async_proactor_pool_create(
                1,
                std::ptr::null(),
                raw::iree_async_proactor_pool_options_default(),
                allocator,
                &raw mut pool
            ))?;
            let mut params = raw::iree_hal_device_create_params_default();
            params.proactor_pool = pool;
            let mut device = std::ptr::null_mut();
            let created = iree!(raw::iree_hal_driver_create_device_by_path(
                driver.as_ptr(),
                name,
                strings::view(path),
                0,
                std::ptr::null(),
                &raw const params,
                allocator,
                &raw mut device,
            ));
            if let Err(status) = created {
                raw::iree_async_proactor_pool_release(pool);
                return Err(status);
            }
            let device = HalRef::from_owned(device).expect("a device that was made");
            let mut tracker = std::ptr::null_mut();
            let tracker_options = raw::iree_async_frontier_tracker_options_default();
            iree!(raw::iree_async_frontier_tracker_create(tracker_options, allocator, &raw mut tracker))?;
            let mut group = std::ptr::null_mut();
            iree!(raw::iree_hal_device_group_create_from_device(device.as_ptr(), tracker, allocator, &raw mut group))?;
            Ok(Self { device, group, tracker, pool })
        }
    }

    /// A semaphore at 0.
    pub fn semaphore(&self) -> SemaphoreRef {
        let mut semaphore = std::ptr::null_mut();
        // SAFETY: a live device and a place for the result.
        unsafe {
            iree!(raw::iree_hal_semaphore_create(
                self.device.as_ptr(),
                QUEUE_AFFINITY_ANY,
                0,
                u64::from(raw::IREE_HAL_SEMAPHORE_FLAG_DEFAULT),
                &raw mut semaphore
            ))
            .expect("a semaphore");
            HalRef::from_owned(semaphore).expect("a semaphore that was made")
        }
    }

    /// Memory that host and device see.
    pub fn buffer(&self, size: usize) -> BufferRef {
        self.buffer_for(raw::IREE_HAL_BUFFER_USAGE_DEFAULT, size)
    }

    /// Memory that host and device see, for `usage` and mapping.
    pub fn buffer_for(&self, usage: u32, size: usize) -> BufferRef {
        // SAFETY: all-zero parameters are the defaults.
        let mut params: raw::iree_hal_buffer_params_t = unsafe { std::mem::zeroed() };
        params.type_ = (raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE
            | raw::IREE_HAL_MEMORY_TYPE_HOST_COHERENT
            | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE) as _;
        params.usage = (usage | raw::IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED) as _;
        let mut buffer = std::ptr::null_mut();
        // SAFETY: a live device and valid parameters.
        unsafe {
            iree!(raw::iree_hal_allocator_allocate_buffer(
                raw::iree_hal_device_allocator(self.device.as_ptr()),
                params,
                size,
                &raw mut buffer
            ))
            .expect("a buffer");
            HalRef::from_owned(buffer).expect("a buffer that was made")
        }
    }

    pub fn write(&self, buffer: &BufferRef, offset: usize, bytes: &[u8]) {
        // SAFETY: a live buffer and bytes of the stated length.
        unsafe { iree!(raw::iree_hal_buffer_map_write(buffer.as_ptr(), offset, bytes.as_ptr().cast(), bytes.len())) }
            .expect("the buffer is mappable");
    }

    pub fn read(&self, buffer: &BufferRef, offset: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        // SAFETY: a live buffer and room for the stated length.
        unsafe { iree!(raw::iree_hal_buffer_map_read(buffer.as_ptr(), offset, bytes.as_mut_ptr().cast(), length)) }
            .expect("the buffer is mappable");
        bytes
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

    pub fn barrier(&self, affinity: u64, waits: Points<'_>, signals: Points<'_>) -> Result<()> {
        let (waits, signals) = (List::new(waits), List::new(signals));
        // SAFETY: live objects.
        unsafe {
            iree!(raw::iree_hal_device_queue_barrier(self.device.as_ptr(), affinity, waits.raw(), signals.raw(), 0))
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SAFETY: owned; the device itself is released by its reference.
        unsafe {
            raw::iree_hal_device_group_release(self.group);
            raw::iree_async_frontier_tracker_release(self.tracker);
            raw::iree_async_proactor_pool_release(self.pool);
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

/// Waits without limit.
pub fn wait(semaphore: &SemaphoreRef, value: u64) -> Result<()> {
    // SAFETY: a live semaphore.
    unsafe { iree!(raw::iree_hal_semaphore_wait(semaphore.as_ptr(), value, raw::iree_infinite_timeout(), 0)) }
}

/// The failure of a semaphore that is expected to fail.
pub fn failure(semaphore: &SemaphoreRef, value: u64) -> Status {
    wait(semaphore, value).expect_err("the semaphore fails")
}

/// A semaphore list for one call.
pub struct List(Vec<*mut raw::iree_hal_semaphore_t>, Vec<u64>);

impl List {
    pub fn new(points: Points<'_>) -> Self {
        Self(
            points.iter().map(|(semaphore, _)| semaphore.as_ptr()).collect(),
            points.iter().map(|(_, value)| *value).collect(),
        )
    }

    pub fn raw(&self) -> raw::iree_hal_semaphore_list_t {
        raw::iree_hal_semaphore_list_t {
            count: self.0.len(),
            semaphores: self.0.as_ptr().cast_mut(),
            payload_values: self.1.as_ptr().cast_mut(),
        }
    }
}
