// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Calls of IREE's C API that the tests' support does not have.

use std::ffi::c_void;
use std::io::Write as _;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use amdgpu_rs::ffi::{FrontierTracker, HalRef, QUEUE_AFFINITY_ANY, Result, WHOLE_BUFFER, iree, raw};

use crate::heap;
use crate::model::noise;
use crate::program::{FileKind, Heap, Kernel, Mode, Work};
use crate::support::recording::{Recording, direct};
use crate::support::{BufferRef, ExecutableRef, List, Points, Rig, workgroups};

/// A device and the kernels on it.
pub struct Device {
    /// The sessions that are kept.
    pub sessions: Mutex<Vec<Session>>,
    pub rig: Rig,
    pub kernels: ExecutableRef,
}

/// A session's device group on a device.
pub struct Session(*mut raw::iree_hal_device_group_t);

// SAFETY: a group is released from any thread.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: owned.
        unsafe { raw::iree_hal_device_group_release(self.0) };
    }
}

impl Device {
    /// Makes a session as `iree_runtime_session_create_with_device` does, beside those that there are.
    pub fn make_session(&self, is_kept: bool) -> Result<()> {
        let (device, allocator) = (self.rig.device.as_ptr(), heap::allocator());
        let (mut tracker, mut group) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a live device and places for the results, which are owned at once.
        unsafe {
            let options = raw::iree_async_frontier_tracker_options_default();
            iree!(raw::iree_async_frontier_tracker_create(options, allocator, &raw mut tracker))?;
            let tracker: FrontierTracker = HalRef::from_owned(tracker).expect("a tracker that was made");
            iree!(raw::iree_hal_device_group_create_from_device(device, tracker.as_ptr(), allocator, &raw mut group))?;
        }
        let session = Session(group);
        if is_kept {
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
        Ok(())
    }
}

/// A part of a buffer.
pub type Part = (BufferRef, usize, usize);

/// Where and when an operation runs.
pub struct Turn<'a> {
    pub affinity: u64,
    pub waits: Points<'a>,
    pub signals: Points<'a>,
}

pub fn buffer(rig: &Rig, heap: Heap, size: usize) -> Result<BufferRef> {
    let (visible, device) = (raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE, raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL);
    let memory_type = match heap {
        Heap::Host => visible | raw::IREE_HAL_MEMORY_TYPE_HOST_COHERENT | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
        Heap::Visible => visible | device,
        Heap::Device | Heap::Queue => device,
    };
    let mapping = if heap.is_mappable() { raw::IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED } else { 0 };
    rig.try_buffer(memory_type, raw::IREE_HAL_BUFFER_USAGE_DEFAULT | mapping, size)
}

pub fn map_write(buffer: &BufferRef, offset: usize, bytes: &[u8]) -> Result<()> {
    // SAFETY: a live buffer and bytes of the stated length.
    unsafe { iree!(raw::iree_hal_buffer_map_write(buffer.as_ptr(), offset, bytes.as_ptr().cast(), bytes.len())) }
}

fn launch(kernel: Kernel, factor: u32, target: usize) -> (&'static str, raw::iree_hal_dispatch_config_t, Vec<u8>) {
    let count = target as u32 / 4;
    let name = match kernel {
        Kernel::Combine => "combine",
        Kernel::Gather => "gather",
    };
    let mut config = workgroups(count.div_ceil(64));
    config.workgroup_size = [64, 1, 1];
    (name, config, [factor.to_le_bytes(), count.to_le_bytes()].concat())
}

/// Submits work of its own.
pub fn submit(device: &Device, turn: &Turn<'_>, work: &Work<Part>) -> Result<()> {
    let (rig, Turn { affinity, waits, signals }) = (&device.rig, turn);
    match work {
        Work::Fill { target: (buffer, offset, length), pattern } => {
            rig.fill(*affinity, waits, signals, buffer, (*offset, *length), pattern)
        }
        Work::Copy { source, target } => {
            rig.copy(*affinity, waits, signals, (&source.0, source.1), (&target.0, target.1), target.2)
        }
        Work::Update { target: (buffer, offset, length), noise: seed } => {
            let (waits, signals, bytes) = (List::new(waits), List::new(signals), noise(*seed, *length));
            // SAFETY: live objects; the bytes are captured during the call.
            unsafe {
                iree!(raw::iree_hal_device_queue_update(
                    rig.device.as_ptr(),
                    *affinity,
                    waits.raw(),
                    signals.raw(),
                    bytes.as_ptr().cast(),
                    0,
                    buffer.as_ptr(),
                    *offset,
                    *length,
                    0
                ))
            }
        }
        Work::Dispatch { kernel, target, sources, factor } => {
            let (name, config, constants) = launch(*kernel, *factor, target.2);
            let all = std::iter::once(target).chain(sources);
            let bindings: Vec<_> = all.map(|(buffer, offset, length)| direct(buffer, *offset, *length)).collect();
            rig.dispatch_with(*affinity, waits, signals, (&device.kernels, name), config, &constants, &bindings, 0)
        }
    }
}

/// Launches a kernel that goes wrong.
pub fn submit_fault(device: &Device, turn: &Turn<'_>, kernel: &str, target: &BufferRef) -> Result<()> {
    // An element that is far from every allocation.
    let constants = (1_u64 << 40).to_le_bytes();
    let constants = if kernel == "trap" { &[][..] } else { &constants[..] };
    let mut config = workgroups(1);
    config.workgroup_size = [64, 1, 1];
    let bindings = [direct(target, 0, WHOLE_BUFFER)];
    let Turn { affinity, waits, signals } = turn;
    device.rig.dispatch_with(*affinity, waits, signals, (&device.kernels, kernel), config, constants, &bindings, 0)
}

/// Records commands.
pub fn record(
    device: &Device,
    affinity: u64,
    mode: Mode,
    slots: usize,
    commands: &[(bool, Work<raw::iree_hal_buffer_ref_t>)],
) -> Result<Recording> {
    let mode = match mode {
        Mode::OneShot => raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT,
        Mode::Reusable => 0,
        Mode::Unvalidated => raw::IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED,
    };
    let recording = Recording::create(&device.rig, affinity, mode, slots)?;
    // SAFETY: a live command buffer.
    unsafe { iree!(raw::iree_hal_command_buffer_begin(recording.as_ptr())) }?;
    for (is_after_barrier, work) in commands {
        if *is_after_barrier {
            recording.barrier_with(0, 0, 0, &[])?;
        }
        record_one(device, &recording, work)?;
    }
    // SAFETY: a live command buffer.
    unsafe { iree!(raw::iree_hal_command_buffer_end(recording.as_ptr())) }?;
    Ok(recording)
}

fn record_one(device: &Device, recording: &Recording, work: &Work<raw::iree_hal_buffer_ref_t>) -> Result<()> {
    match work {
        Work::Fill { target, pattern } => {
            let (commands, pattern, length) = (recording.as_ptr(), pattern.as_ptr().cast(), pattern.len());
            // SAFETY: live objects; the pattern is captured during the call.
            unsafe { iree!(raw::iree_hal_command_buffer_fill_buffer(commands, *target, pattern, length, 0)) }
        }
        Work::Copy { source, target } => recording.copy(*source, *target),
        Work::Update { target, noise: seed } => {
            let bytes = noise(*seed, target.length);
            let (commands, source) = (recording.as_ptr(), bytes.as_ptr().cast());
            // SAFETY: live objects; the bytes are captured during the call.
            unsafe { iree!(raw::iree_hal_command_buffer_update_buffer(commands, source, 0, *target, 0)) }
        }
        Work::Dispatch { kernel, target, sources, factor } => {
            let (name, config, constants) = launch(*kernel, *factor, target.length);
            let bindings: Vec<_> = std::iter::once(*target).chain(sources.iter().copied()).collect();
            recording.dispatch((&device.kernels, name), config, &constants, &bindings, 0)
        }
    }
}

/// A file and its memory or descriptor.
pub struct File {
    pub hal: Option<HalRef<raw::iree_hal_file_t>>,
    storage: Storage,
    /// Ends when the driver has let go of the storage.
    released: Receiver<()>,
}

enum Storage {
    Native(std::fs::File),
    /// Aligned, and touched by the driver until the file is gone.
    Memory(Box<[u128]>, usize),
}

impl File {
    /// A file with `bytes` in it.
    pub fn new(rig: &Rig, kind: FileKind, bytes: &[u8], allocator: raw::iree_allocator_t) -> Result<Self> {
        let mut storage = match kind {
            FileKind::Asynchronous | FileKind::Synchronous => {
                // SAFETY: a NUL-terminated name; a fresh descriptor that nothing else owns.
                let mut file = unsafe {
                    let descriptor = libc::memfd_create(c"amdgpu_rs-soak".as_ptr(), 0);
                    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
                    std::fs::File::from_raw_fd(descriptor)
                };
                file.write_all(bytes).expect("room in memory");
                Storage::Native(file)
            }
            FileKind::Memory => {
                let padded = bytes.chunks(16).map(|chunk| {
                    let mut word = [0; 16];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u128::from_ne_bytes(word)
                });
                Storage::Memory(padded.collect(), bytes.len())
            }
        };
        let (holder, released) = channel();
        let hal = import(rig, &mut storage, (kind, holder), allocator)?;
        Ok(Self { hal: Some(hal), storage, released })
    }

    /// Waits until nothing uses the file any more, and returns its contents. The program may regard the device as
    /// destroyed while a transfer of another file, on a thread of the driver, still keeps it.
    pub fn contents(&self, size: usize) -> Vec<u8> {
        assert!(self.hal.is_none());
        let _ = self.released.recv();
        match &self.storage {
            Storage::Native(file) => {
                let mut bytes = vec![0; size];
                file.read_exact_at(&mut bytes, 0).expect("as long as it was");
                bytes
            }
            Storage::Memory(words, length) => words.iter().flat_map(|word| word.to_ne_bytes()).take(*length).collect(),
        }
    }
}

unsafe extern "C" fn released(holder: *mut c_void, _: raw::iree_io_file_handle_primitive_t) {
    // SAFETY: `import` gave it, for one call.
    drop(unsafe { Box::<Sender<()>>::from_raw(holder.cast()) });
}

/// The file; `holder` is dropped when it is not in use any more.
fn import(
    rig: &Rig,
    storage: &mut Storage,
    (kind, holder): (FileKind, Sender<()>),
    allocator: raw::iree_allocator_t,
) -> Result<HalRef<raw::iree_hal_file_t>> {
    let access = (raw::IREE_IO_FILE_ACCESS_READ | raw::IREE_IO_FILE_ACCESS_WRITE) as _;
    let holder = Box::into_raw(Box::new(holder)).cast();
    let release = raw::iree_io_file_handle_release_callback_t { fn_: Some(released), user_data: holder };
    let (mut handle, mut imported) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: descriptor and memory outlive the handle and the file, whose end the program waits for.
    unsafe {
        match storage {
            Storage::Native(file) => {
                let primitive = raw::iree_io_file_handle_primitive_t {
                    type_: raw::IREE_IO_FILE_HANDLE_TYPE_FD as _,
                    value: raw::iree_io_file_handle_primitive_value_t { fd: file.as_raw_fd() },
                };
                let mode = match kind {
                    FileKind::Asynchronous => raw::IREE_IO_FILE_MODE_ASYNC,
                    _ => raw::IREE_IO_FILE_MODE_NONE,
                };
                let (mode, out) = (mode as _, &raw mut handle);
                iree!(raw::iree_io_file_handle_wrap(access, mode, primitive, release, allocator, out))?;
            }
            Storage::Memory(words, length) => {
                let span = raw::iree_byte_span_t { data: words.as_mut_ptr().cast(), data_length: *length };
                let out = &raw mut handle;
                iree!(raw::iree_io_file_handle_wrap_host_allocation(access, span, release, allocator, out))?;
            }
        }
        let access = raw::IREE_HAL_MEMORY_ACCESS_READ | raw::IREE_HAL_MEMORY_ACCESS_WRITE;
        let (device, out) = (rig.device.as_ptr(), &raw mut imported);
        let result = iree!(raw::iree_hal_file_import(device, QUEUE_AFFINITY_ANY, access as _, handle, 0, out));
        raw::iree_io_file_handle_release(handle);
        result?;
        Ok(HalRef::from_owned(imported).expect("a file that was imported"))
    }
}

pub fn read(
    device: &Device,
    turn: &Turn<'_>,
    file: (&HalRef<raw::iree_hal_file_t>, usize),
    target: &Part,
) -> Result<()> {
    let (waits, signals, device) = (List::new(turn.waits), List::new(turn.signals), device.rig.device.as_ptr());
    let ((file, file_offset), (buffer, offset, length)) = (file, target);
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_read(
            device,
            turn.affinity,
            waits.raw(),
            signals.raw(),
            file.as_ptr(),
            file_offset as u64,
            buffer.as_ptr(),
            *offset,
            *length,
            0
        ))
    }
}

pub fn write(
    device: &Device,
    turn: &Turn<'_>,
    source: &Part,
    file: (&HalRef<raw::iree_hal_file_t>, usize),
) -> Result<()> {
    let (waits, signals, device) = (List::new(turn.waits), List::new(turn.signals), device.rig.device.as_ptr());
    let ((file, file_offset), (buffer, offset, length)) = (file, source);
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_write(
            device,
            turn.affinity,
            waits.raw(),
            signals.raw(),
            buffer.as_ptr(),
            *offset,
            file.as_ptr(),
            file_offset as u64,
            *length,
            0
        ))
    }
}

/// Has `function` called with `user_data` and `argument`, its first.
pub fn host_call(
    device: &Device,
    turn: &Turn<'_>,
    function: unsafe extern "C" fn(
        *mut c_void,
        *const u64,
        *mut raw::iree_hal_host_call_context_t,
    ) -> raw::iree_status_t,
    user_data: *mut c_void,
    argument: u64,
) -> Result<()> {
    let (waits, signals, device) = (List::new(turn.waits), List::new(turn.signals), device.rig.device.as_ptr());
    let call = raw::iree_hal_host_call_t { fn_: Some(function), user_data };
    let arguments = [argument, 0, 0, 0];
    // SAFETY: live objects; the arguments are read during the call; the caller keeps the function's data.
    unsafe {
        let (waits, signals) = (waits.raw(), signals.raw());
        iree!(raw::iree_hal_device_queue_host_call(device, turn.affinity, waits, signals, call, arguments.as_ptr(), 0))
    }
}
