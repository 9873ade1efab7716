// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A device's whole life: it is made, gets memory in every way there is, loads an executable, runs all kinds of work on
//! two queues, and goes; and a short one that ends with a fault. Every step can fail, and the objects made by then go
//! as they do after a success.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, SemaphoreRef, WHOLE_BUFFER, iree, raw, strings};

use crate::large;
use crate::support::recording::{self, Recording};
use crate::support::{BufferRef, ExecutableRef, List, Points, Rig, params, wait, workgroups};

/// A kernel and a variable; `testdata/scenario.c` says how it was built.
const CODE: &[u8] = include_bytes!("../testdata/scenario.gfx1100.co");

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("../testdata/faults.gfx1100.co");

const HOST: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const VISIBLE: u32 = DEVICE | raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE;
const USAGE: u32 = raw::IREE_HAL_BUFFER_USAGE_DEFAULT;
const MAPPED: u32 = USAGE | raw::IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED;

const GPUS: u64 = 2;
const QUEUES_PER_GPU: u64 = 2;
const QUEUES: u64 = GPUS * QUEUES_PER_GPU;

const LENGTH: usize = 1024;
/// More than a range of the device's pools, whose length is an option.
const OVERSIZE: usize = 3 << 20;
const OPTIONS: &[(&str, &str)] = &[
    // As many as QUEUES_PER_GPU.
    ("hardware_queues_per_gpu", "2"),
    ("aql_queue_capacity", "64"),
    ("kernarg_capacity", "128"),
    ("notification_capacity", "64"),
    ("default_pool_range_length", "1048576"),
];

/// Objects that the device uses but does not own. They outlive the device.
pub struct Fixtures {
    allocator: raw::iree_allocator_t,
    host: Box<[u64; LENGTH / 8]>,
    file: OwnedFd,
    is_large: bool,
}

impl Fixtures {
    /// The objects that the device makes for IREE come from `allocator`. `is_large` has it do large work, too.
    pub fn new(allocator: raw::iree_allocator_t, is_large: bool) -> Self {
        // SAFETY: a NUL-terminated name; the fresh descriptor is nothing else's.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"amdgpu_rs-test".as_ptr(), 0);
            assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(descriptor)
        };
        // SAFETY: a live descriptor.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 2 * LENGTH as i64) }, 0);
        Self { allocator, host: Box::new([0; LENGTH / 8]), file, is_large }
    }

    /// Goes through the scenario.
    ///
    /// # Errors
    /// The first that a step returned or that a semaphore failed with.
    pub fn run(&mut self) -> Result<()> {
        let rig = Rig::open_with(self.allocator, "", OPTIONS)?;
        let mut life = Life { rig: &rig, done: rig.try_semaphore()?, value: 0 };
        let buffers = Buffers::new(&rig, &mut self.host)?;
        let executable = rig.executable(CODE)?;
        life.transfer(&buffers)?;
        life.dispatch(&buffers, &executable)?;
        life.record(&buffers, &executable)?;
        life.call_host()?;
        life.allocate(LENGTH, true, &buffers)?;
        life.allocate(OVERSIZE, false, &buffers)?;
        life.read_and_write(&self.file, self.allocator, &buffers)?;
        life.wait()?;
        if self.is_large {
            let target = rig.try_buffer(HOST, MAPPED, 4 * LENGTH)?;
            large::run(&rig, &executable, &target)?;
        }
        // SAFETY: a live device.
        unsafe { iree!(raw::iree_hal_device_trim(rig.device.as_ptr())) }?;
        // Left behind: work whose wait never ends, and is cancelled.
        let (never, cancelled) = (rig.try_semaphore()?, rig.try_semaphore()?);
        rig.fill(2, &[(&never, 1)], &[(&cancelled, 1)], &buffers.device, (0, 4), &[1])?;
        drop((buffers, executable, life));
        drop(rig);
        self.lose()
    }

    /// Loses a device: its kernel traps. A fault of memory would be the end of the GPU for the process.
    fn lose(&self) -> Result<()> {
        let rig = Rig::open_with(self.allocator, "", OPTIONS)?;
        let faults = rig.executable(FAULTS)?;
        let (done, buffer) = (rig.try_semaphore()?, rig.try_buffer(DEVICE, USAGE, LENGTH)?);
        rig.dispatch(1, &[], &[(&done, 1)], (&faults, "trap"), &[], &[&buffer])?;
        match wait(&done, 1) {
            Err(status) if status.code() == Code::DATA_LOSS => Ok(()),
            other => other,
        }
    }
}

/// Memory of each kind.
struct Buffers {
    device: BufferRef,
    visible: BufferRef,
    host: BufferRef,
    /// Pinned memory of the host program.
    pinned: BufferRef,
    /// The memory of `device` once more, by its address.
    again: BufferRef,
}

impl Buffers {
    fn new(rig: &Rig, host: &mut [u64; LENGTH / 8]) -> Result<Self> {
        let device = rig.try_buffer(DEVICE, USAGE, LENGTH)?;
        // SAFETY: live objects, a place for the result; the host's memory outlives the device.
        unsafe {
            let allocator = rig.allocator();
            let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
            let kind = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION;
            iree!(raw::iree_hal_allocator_export_buffer(allocator, device.as_ptr(), kind, 0, &raw mut external))?;
            let again = import(allocator, DEVICE, external)?;
            let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
            external.type_ = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION;
            external.handle.host_allocation.ptr = host.as_mut_ptr().cast();
            external.size = LENGTH;
            let pinned = import(allocator, HOST, external)?;
            let (visible, host) = (rig.try_buffer(VISIBLE, MAPPED, LENGTH)?, rig.try_buffer(HOST, MAPPED, LENGTH)?);
            Ok(Self { device, visible, host, pinned, again })
        }
    }
}

/// # Safety
/// A live allocator, and memory that outlives the buffer.
unsafe fn import(
    allocator: *mut raw::iree_hal_allocator_t,
    memory_type: u32,
    mut external: raw::iree_hal_external_buffer_t,
) -> Result<BufferRef> {
    let mut buffer = null_mut();
    let no_release = raw::iree_hal_buffer_release_callback_t { fn_: None, user_data: null_mut() };
    // SAFETY: the caller's contract; the result goes to a local.
    unsafe {
        let (params, external) = (params(memory_type, USAGE), &raw mut external);
        iree!(raw::iree_hal_allocator_import_buffer(allocator, params, external, no_release, &raw mut buffer))?;
        Ok(HalRef::from_owned(buffer).expect("a buffer that was imported"))
    }
}

/// A device at work: each operation comes after the one before it.
struct Life<'a> {
    rig: &'a Rig,
    done: SemaphoreRef,
    value: u64,
}

impl Life<'_> {
    /// Does an operation on the queue after that of the last operation, when that is done.
    fn then(&mut self, operation: impl FnOnce(&Rig, u64, Points<'_>, Points<'_>) -> Result<()>) -> Result<()> {
        let (waits, signals) = ([(&self.done, self.value)], [(&self.done, self.value + 1)]);
        operation(self.rig, 1 << (self.value % QUEUES), &waits[usize::from(self.value == 0)..], &signals)?;
        self.value += 1;
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        wait(&self.done, self.value)
    }

    /// Checks the word at the start of `buffer`, which the host sees, when all is done.
    fn expect(&self, buffer: &BufferRef, expected: u32) -> Result<()> {
        self.wait()?;
        let mut word = 0_u32;
        // SAFETY: a live buffer and a place for the result.
        unsafe { iree!(raw::iree_hal_buffer_map_read(buffer.as_ptr(), 0, (&raw mut word).cast(), 4)) }?;
        assert_eq!(word, expected, "{word:#x} is not {expected:#x}");
        Ok(())
    }

    fn transfer(&mut self, buffers: &Buffers) -> Result<()> {
        let Buffers { device, visible, host, pinned, again } = buffers;
        self.then(|rig, queue, waits, signals| rig.update(queue, waits, signals, &7_u32.to_le_bytes(), pinned))?;
        for (source, target) in [(pinned, device), (again, host), (host, visible)] {
            self.then(|rig, queue, waits, signals| rig.copy(queue, waits, signals, (source, 0), (target, 0), LENGTH))?;
        }
        self.then(|rig, queue, waits, signals| rig.fill(queue, waits, signals, device, (0, LENGTH), &[9, 0, 0, 0]))?;
        self.expect(visible, 7)
    }

    /// `host = device + summand + 100`, where `summand` becomes 9.
    fn dispatch(&mut self, buffers: &Buffers, executable: &ExecutableRef) -> Result<()> {
        let Buffers { device, host, .. } = buffers;
        for gpu in [1, 1 << QUEUES_PER_GPU] {
            let mut summand = null_mut();
            // SAFETY: a live executable; the result goes to a local.
            let summand = unsafe {
                let (executable, name) = (executable.as_ptr(), strings::view("summand"));
                iree!(raw::iree_hal_executable_lookup_global_by_name(executable, name, gpu, &raw mut summand))?;
                HalRef::from_owned(summand).expect("a variable's buffer")
            };
            self.then(|rig, queue, waits, signals| rig.copy(queue, waits, signals, (device, 0), (&summand, 0), 4))?;
        }
        let constant = 100_u32.to_le_bytes();
        self.then(|rig, queue, waits, signals| {
            rig.dispatch(queue, waits, signals, (executable, "add"), &constant, &[host, device])
        })?;
        self.expect(host, 118)
    }

    /// Runs the work from a command buffer, twice: `device` is `visible`'s 7 first, then the sum.
    fn record(&mut self, buffers: &Buffers, executable: &ExecutableRef) -> Result<()> {
        let Buffers { device, visible, .. } = buffers;
        let whole = |buffer| recording::direct(buffer, 0, WHOLE_BUFFER);
        let recording = Recording::create(self.rig, QUEUE_AFFINITY_ANY, 0, 0)?;
        // SAFETY: a live command buffer.
        unsafe { iree!(raw::iree_hal_command_buffer_begin(recording.as_ptr())) }?;
        recording.copy(whole(visible), whole(device))?;
        recording.barrier_with(0, 0, 0, &[])?;
        let (constant, bindings) = (1000_u32.to_le_bytes(), [whole(visible), whole(device)]);
        recording.dispatch((executable, "add"), workgroups(1), &constant, &bindings, 0)?;
        // SAFETY: a live command buffer.
        unsafe { iree!(raw::iree_hal_command_buffer_end(recording.as_ptr())) }?;
        for _ in 0..2 {
            self.then(|rig, queue, waits, signals| recording.execute(rig, queue, waits, signals, &[]))?;
        }
        self.expect(visible, 7 + 2 * 1009)
    }

    fn call_host(&mut self) -> Result<()> {
        unsafe extern "C" fn called(
            _user_data: *mut c_void,
            _args: *const u64,
            _context: *mut raw::iree_hal_host_call_context_t,
        ) -> raw::iree_status_t {
            null_mut()
        }
        self.then(|rig, queue, waits, signals| {
            let (waits, signals) = (List::new(waits), List::new(signals));
            let call = raw::iree_hal_host_call_t { fn_: Some(called), user_data: null_mut() };
            let (device, args) = (rig.device.as_ptr(), [0_u64; 4]);
            // SAFETY: a live device; the call has no data.
            unsafe {
                let (waits, signals) = (waits.raw(), signals.raw());
                iree!(raw::iree_hal_device_queue_host_call(device, queue, waits, signals, call, args.as_ptr(), 0))
            }
        })
    }

    /// Queue-ordered memory, used and given back; two allocations come from one range.
    ///
    /// Memory is reserved when the allocation's waits are over: by the call if it is made `at_once`, that is when all
    /// is done, else on the completion thread.
    fn allocate(&mut self, size: usize, at_once: bool, buffers: &Buffers) -> Result<()> {
        let mut allocated: Vec<BufferRef> = Vec::new();
        for memory_type in [DEVICE, DEVICE, HOST] {
            self.then(|rig, queue, waits, signals| {
                let (waits, signals) = (List::new(waits), List::new(signals));
                let (device, params) = (rig.device.as_ptr(), params(memory_type, USAGE));
                let mut buffer = null_mut();
                let out = &raw mut buffer;
                // SAFETY: a live device; the result goes to a local.
                unsafe {
                    let (waits, signals) = (waits.raw(), signals.raw());
                    let flags = raw::IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER.into();
                    iree!(raw::iree_hal_device_queue_alloca(
                        device,
                        queue,
                        waits,
                        signals,
                        null_mut(),
                        params,
                        size,
                        flags,
                        out
                    ))?;
                    allocated.push(HalRef::from_owned(buffer).expect("a buffer that was allocated"));
                }
                Ok(())
            })?;
            if at_once {
                self.wait()?;
            }
        }
        for buffer in &allocated {
            let source = &buffers.visible;
            self.then(|rig, queue, waits, signals| rig.copy(queue, waits, signals, (source, 0), (buffer, 0), LENGTH))?;
            self.then(|rig, queue, waits, signals| {
                let (waits, signals) = (List::new(waits), List::new(signals));
                let (device, buffer) = (rig.device.as_ptr(), buffer.as_ptr());
                // SAFETY: live objects.
                unsafe {
                    let (waits, signals) = (waits.raw(), signals.raw());
                    iree!(raw::iree_hal_device_queue_dealloca(device, queue, waits, signals, buffer, 0))
                }
            })?;
        }
        Ok(())
    }

    /// Memory that the host does not see goes to the file and back: staged.
    fn read_and_write(&mut self, file: &OwnedFd, allocator: raw::iree_allocator_t, buffers: &Buffers) -> Result<()> {
        let primitive = raw::iree_io_file_handle_primitive_t {
            type_: raw::IREE_IO_FILE_HANDLE_TYPE_FD as _,
            value: raw::iree_io_file_handle_primitive_value_t { fd: file.as_raw_fd() },
        };
        let no_release = raw::iree_io_file_handle_release_callback_t { fn_: None, user_data: null_mut() };
        let (mut handle, mut imported) = (null_mut(), null_mut());
        // SAFETY: a live device and descriptor, which outlives the device; results go to locals.
        let file: HalRef<raw::iree_hal_file_t> = unsafe {
            let access = raw::IREE_IO_FILE_ACCESS_READ | raw::IREE_IO_FILE_ACCESS_WRITE;
            let (mode, out) = (raw::IREE_IO_FILE_MODE_ASYNC, &raw mut handle);
            iree!(raw::iree_io_file_handle_wrap(access as _, mode as _, primitive, no_release, allocator, out))?;
            let handle: HalRef<_> = HalRef::from_owned(handle).expect("a handle that was made");
            let access = raw::IREE_HAL_MEMORY_ACCESS_READ | raw::IREE_HAL_MEMORY_ACCESS_WRITE;
            let (device, handle, out) = (self.rig.device.as_ptr(), handle.as_ptr(), &raw mut imported);
            iree!(raw::iree_hal_file_import(device, QUEUE_AFFINITY_ANY, access as _, handle, 0, out))?;
            HalRef::from_owned(imported).expect("a file that was imported")
        };
        let (file, buffer) = (file.as_ptr(), buffers.device.as_ptr());
        self.then(|rig, queue, waits, signals| {
            let (waits, signals, device) = (List::new(waits), List::new(signals), rig.device.as_ptr());
            // SAFETY: live objects.
            unsafe {
                let (waits, signals) = (waits.raw(), signals.raw());
                iree!(raw::iree_hal_device_queue_write(device, queue, waits, signals, buffer, 0, file, 3, LENGTH, 0))
            }
        })?;
        self.then(|rig, queue, waits, signals| {
            let (waits, signals, device) = (List::new(waits), List::new(signals), rig.device.as_ptr());
            // SAFETY: live objects.
            unsafe {
                let (waits, signals) = (waits.raw(), signals.raw());
                iree!(raw::iree_hal_device_queue_read(device, queue, waits, signals, file, 3, buffer, 0, LENGTH, 0))
            }
        })?;
        let (source, target) = (&buffers.device, &buffers.host);
        self.then(|rig, queue, waits, signals| rig.copy(queue, waits, signals, (source, 0), (target, 0), LENGTH))?;
        self.expect(target, 7 + 1009)
    }
}
