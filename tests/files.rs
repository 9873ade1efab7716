// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Transfers between files and buffers through the C API.

#[path = "support/files.rs"]
mod files;
#[path = "support/hold.rs"]
mod hold;
mod support;

use std::io::{Read, Seek, Write};

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, iree, raw};
use files::{File, import, memory_handle, native_handle};
use hold::{Hold, pass_time};
use support::{BufferRef, List, Points, Rig, failure, params, wait};

const READ: u16 = raw::IREE_HAL_MEMORY_ACCESS_READ as u16;
const READ_WRITE: u16 = READ | raw::IREE_HAL_MEMORY_ACCESS_WRITE as u16;

const ASYNC: u32 = raw::IREE_IO_FILE_MODE_ASYNC;
const SYNC: u32 = raw::IREE_IO_FILE_MODE_NONE;

/// More than two staging slots of 4 MiB, and no multiple of anything.
const LONG: usize = (9 << 20) + 12345;

/// Setting of a device with one queue.
const ONE_QUEUE: (&str, &str) = ("hardware_queues_per_gpu", "1");

/// A file of the file system without a name, with `bytes` in it, and its import.
fn native(rig: &Rig, bytes: &[u8], access: u16) -> (std::fs::File, File) {
    native_with(rig, ASYNC, bytes, access)
}

/// Imports a file whose descriptor was opened in `mode`. Only asynchronous descriptors get a handle for that.
fn native_with(rig: &Rig, mode: u32, bytes: &[u8], access: u16) -> (std::fs::File, File) {
    // SAFETY: a NUL-terminated name.
    let descriptor = unsafe { libc::memfd_create(c"amdgpu_rs-test".as_ptr(), 0) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: a fresh descriptor that nothing else owns.
    let mut file = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(descriptor) };
    file.write_all(bytes).unwrap();
    let imported = import(rig, &native_handle(&file, mode), access, 0).unwrap();
    // SAFETY: a live file.
    let has_async_handle = unsafe { !raw::iree_hal_file_async_handle(imported.as_ptr()).is_null() };
    assert_eq!(has_async_handle, mode == ASYNC);
    (file, imported)
}

fn contents(file: &mut std::fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Memory of the device that the host does not see.
fn device_buffer(rig: &Rig, size: usize) -> BufferRef {
    // SAFETY: all-zero parameters are the defaults.
    let mut params: raw::iree_hal_buffer_params_t = unsafe { std::mem::zeroed() };
    params.type_ = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
    params.usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT;
    let mut buffer = std::ptr::null_mut();
    // SAFETY: a live device and valid parameters.
    unsafe {
        let allocator = rig.allocator();
        iree!(raw::iree_hal_allocator_allocate_buffer(allocator, params, size, &raw mut buffer)).unwrap();
        HalRef::from_owned(buffer).expect("a buffer that was made")
    }
}

fn queue_read(
    rig: &Rig,
    points: (Points<'_>, Points<'_>),
    file: (&File, u64),
    buffer: (&BufferRef, usize),
    length: usize,
) -> Result<()> {
    queue_read_on(QUEUE_AFFINITY_ANY, rig, points, file, buffer, length)
}

fn queue_read_on(
    queue: u64,
    rig: &Rig,
    (waits, signals): (Points<'_>, Points<'_>),
    (file, file_offset): (&File, u64),
    (buffer, offset): (&BufferRef, usize),
    length: usize,
) -> Result<()> {
    let (waits, signals) = (List::new(waits), List::new(signals));
    let (device, file, buffer) = (rig.device.as_ptr(), file.as_ptr(), buffer.as_ptr());
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_read(
            device,
            queue,
            waits.raw(),
            signals.raw(),
            file,
            file_offset,
            buffer,
            offset,
            length,
            0
        ))
    }
}

fn queue_write(
    rig: &Rig,
    (waits, signals): (Points<'_>, Points<'_>),
    (buffer, offset): (&BufferRef, usize),
    (file, file_offset): (&File, u64),
    length: usize,
) -> Result<()> {
    let (waits, signals) = (List::new(waits), List::new(signals));
    let (device, file, buffer) = (rig.device.as_ptr(), file.as_ptr(), buffer.as_ptr());
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_write(
            device,
            QUEUE_AFFINITY_ANY,
            waits.raw(),
            signals.raw(),
            buffer,
            offset,
            file,
            file_offset,
            length,
            0
        ))
    }
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn files_are_staged_to_and_from_device_memory() {
    for mode in [ASYNC, SYNC] {
        let rig = Rig::new();
        let (on_device, visible) = (device_buffer(&rig, LONG + 7), rig.buffer(LONG));
        let bytes = noise(LONG + 3);
        let (_source, source) = native_with(&rig, mode, &bytes, READ);
        let (mut target_file, target) = native_with(&rig, mode, &vec![0; LONG + 5], READ_WRITE);
        let done = rig.semaphore();
        queue_read(&rig, (&[], &[(&done, 1)]), (&source, 3), (&on_device, 7), LONG).unwrap();
        rig.copy(1, &[(&done, 1)], &[(&done, 2)], (&on_device, 7), (&visible, 0), LONG).unwrap();
        queue_write(&rig, (&[(&done, 2)], &[(&done, 3)]), (&on_device, 7), (&target, 5), LONG).unwrap();
        wait(&done, 3).unwrap();
        assert!(rig.read(&visible, 0, LONG) == bytes[3..], "what was read differs from the file");
        let written = contents(&mut target_file);
        assert!(written[..5] == [0; 5] && written[5..] == bytes[3..], "what was written differs from what was read");
    }
}

/// Bytes of host memory that the device has allocated and freed until now.
fn host_bytes(rig: &Rig) -> (usize, usize) {
    // SAFETY: device and allocator live; all-zero statistics are valid.
    let statistics = unsafe {
        let mut statistics: raw::iree_hal_allocator_statistics_t = std::mem::zeroed();
        let allocator = rig.allocator();
        raw::iree_hal_allocator_query_statistics(allocator, &raw mut statistics);
        statistics
    };
    (statistics.host_bytes_allocated, statistics.host_bytes_freed)
}

#[test]
fn staging_memory_is_kept_for_the_next_transfer_until_it_is_trimmed() {
    let rig = Rig::with(&[ONE_QUEUE]);
    let buffer = device_buffer(&rig, LONG);
    let (_file, source) = native(&rig, &noise(LONG), READ);
    let done = rig.semaphore();
    let read = |from: u64, length| {
        queue_read(&rig, (&[(&done, from)], &[(&done, from + 1)]), (&source, 0), (&buffer, 0), length).unwrap();
        wait(&done, from + 1).unwrap();
    };
    let (before, _) = host_bytes(&rig);
    read(0, LONG);
    let (first, freed) = host_bytes(&rig);
    assert!(first > before, "{before}");
    read(1, LONG);
    read(2, 100);
    assert_eq!(host_bytes(&rig), (first, freed), "another staging buffer, or one that was let go");
    // SAFETY: the device lives.
    unsafe { iree!(raw::iree_hal_device_trim(rig.device.as_ptr())) }.unwrap();
    assert_eq!(host_bytes(&rig), (first, freed + first - before));
    read(3, LONG);
}

#[test]
fn a_knob_says_how_much_is_moved_at_a_time() {
    const LENGTH: usize = 20 << 20;
    let (most, bytes) = (1_u64 << 63, noise(LENGTH));
    for (knob, expected) in [(0, 8 << 20), (128 << 10, 16 << 20), (most, 32 << 20)] {
        // Each queue has staging memory of its own, and the write takes the queue with the least work.
        let rig = Rig::with(&[("host_block_pool_large_size", &knob.to_string()), ONE_QUEUE]);
        let (on_device, done) = (device_buffer(&rig, LENGTH), rig.semaphore());
        let (_source, source) = native(&rig, &bytes, READ);
        let (mut target_file, target) = native(&rig, &vec![0; LENGTH], READ_WRITE);
        let (before, _) = host_bytes(&rig);
        queue_read(&rig, (&[], &[(&done, 1)]), (&source, 0), (&on_device, 0), LENGTH).unwrap();
        queue_write(&rig, (&[(&done, 1)], &[(&done, 2)]), (&on_device, 0), (&target, 0), LENGTH).unwrap();
        wait(&done, 2).unwrap();
        assert!(contents(&mut target_file) == bytes, "{knob}: what was written differs from what was read");
        // Two slots, or the next power of two behind the transfer's length; both transfers use the same.
        assert_eq!(host_bytes(&rig).0 - before, expected, "{knob}");
    }
}

#[test]
fn memory_that_the_host_sees_needs_no_staging() {
    for mode in [ASYNC, SYNC] {
        let rig = Rig::new();
        let buffer = rig.buffer(16);
        rig.write(&buffer, 0, &[0xAA; 16]);
        let (mut file, imported) = native_with(&rig, mode, b"0123456789", READ_WRITE);
        let done = rig.semaphore();
        queue_read(&rig, (&[], &[(&done, 1)]), (&imported, 2), (&buffer, 4), 6).unwrap();
        queue_write(&rig, (&[(&done, 1)], &[(&done, 2)]), (&buffer, 3), (&imported, 0), 4).unwrap();
        wait(&done, 2).unwrap();
        assert_eq!(rig.read(&buffer, 2, 10), b"\xAA\xAA234567\xAA\xAA");
        assert_eq!(contents(&mut file), b"\xAA234456789");
    }
}

/// The deallocation waits for it, and is submitted before the file is read.
#[test]
fn a_buffer_whose_deallocation_is_submitted_is_read_into_as_ever() {
    let rig = Rig::new();
    let (_file, imported) = native(&rig, b"0123456789", READ);
    let (gate, done, target) = (rig.semaphore(), rig.semaphore(), rig.buffer(16));
    let usage = raw::IREE_HAL_BUFFER_USAGE_TRANSFER | raw::IREE_HAL_BUFFER_USAGE_MAPPING;
    let mapped = params(raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE, usage);
    let (waits, no_pool) = ([(&gate, 1)], std::ptr::null_mut());
    let buffer = rig.alloca_of(mapped, no_pool, 1, (&waits, &[(&done, 1)]), (16, 0)).unwrap();
    queue_read(&rig, (&[(&done, 1)], &[(&done, 2)]), (&imported, 2), (&buffer, 4), 6).unwrap();
    rig.copy(1, &[(&done, 2)], &[(&done, 3)], (&buffer, 4), (&target, 0), 6).unwrap();
    rig.dealloca(1, &[(&done, 3)], &[(&done, 4)], &buffer).unwrap();
    gate.borrow().signal(1).unwrap();
    wait(&done, 4).unwrap();
    assert_eq!(rig.read(&target, 0, 6), b"234567");
}

#[test]
fn files_in_memory_are_read_and_written() {
    let rig = Rig::new();
    let mut memory = vec![0_u8; 4096 + 8];
    let start = memory.as_ptr().align_offset(128).min(8);
    memory[start..].copy_from_slice(&noise(4096 + 8 - start));
    let expected = memory[start..][100..200].to_vec();
    let file = import(&rig, &memory_handle(&mut memory[start..][..4096]), READ_WRITE, 0).unwrap();
    let buffer = device_buffer(&rig, 200);
    let done = rig.semaphore();
    queue_read(&rig, (&[], &[(&done, 1)]), (&file, 100), (&buffer, 50), 100).unwrap();
    queue_write(&rig, (&[(&done, 1)], &[(&done, 2)]), (&buffer, 50), (&file, 1000), 100).unwrap();
    wait(&done, 2).unwrap();
    drop(file);
    assert_eq!(memory[start..][1000..1100], expected);
}

#[test]
fn many_transfers_at_once_all_arrive() {
    let rig = Rig::new();
    const COUNT: usize = 100;
    let buffer = device_buffer(&rig, COUNT);
    let visible = rig.buffer(COUNT);
    let bytes = noise(COUNT);
    let (_file, file) = native(&rig, &bytes, READ);
    let (gate, done) = (rig.semaphore(), rig.semaphore());
    let each: Vec<_> = (0..COUNT).map(|_| rig.semaphore()).collect();
    for (index, semaphore) in each.iter().enumerate() {
        let points: (Points<'_>, Points<'_>) = (&[(&gate, 1)], &[(semaphore, 1)]);
        queue_read(&rig, points, (&file, index as u64), (&buffer, index), 1).unwrap();
    }
    let all: Vec<_> = each.iter().map(|semaphore| (semaphore, 1)).collect();
    rig.copy(1, &all, &[(&done, 1)], (&buffer, 0), (&visible, 0), COUNT).unwrap();
    gate.borrow().signal(1).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&visible, 0, COUNT), bytes);
}

#[test]
fn what_cannot_be_transferred_is_refused_by_the_call() {
    let rig = Rig::new();
    let buffer = rig.buffer(16);
    let (_file, file) = native(&rig, &[1; 16], READ);
    let done = rig.semaphore();
    let signals: Points<'_> = &[(&done, 1)];
    let code = |result: Result<()>| result.unwrap_err().code();
    assert_eq!(code(queue_read(&rig, (&[], signals), (&file, 10), (&buffer, 0), 7)), Code::OUT_OF_RANGE);
    assert_eq!(code(queue_read(&rig, (&[], signals), (&file, u64::MAX), (&buffer, 0), 7)), Code::OUT_OF_RANGE);
    assert_eq!(code(queue_read(&rig, (&[], signals), (&file, 0), (&buffer, 10), 7)), Code::OUT_OF_RANGE);
    assert_eq!(code(queue_write(&rig, (&[], signals), (&buffer, 0), (&file, 0), 4)), Code::PERMISSION_DENIED);
    assert_eq!(done.borrow().query().unwrap(), 0);
    // Nothing at the very end is legal, and signals.
    queue_read(&rig, (&[], signals), (&file, 16), (&buffer, 16), 0).unwrap();
    wait(&done, 1).unwrap();
}

#[test]
fn a_file_that_shrank_fails_what_the_transfer_signals() {
    let rig = Rig::new();
    let (on_device, visible) = (device_buffer(&rig, LONG), rig.buffer(LONG));
    let (shrinking, file) = native(&rig, &vec![1; LONG], READ);
    shrinking.set_len(5 << 20).unwrap();
    for buffer in [&on_device, &visible] {
        let done = rig.semaphore();
        queue_read(&rig, (&[], &[(&done, 1)]), (&file, 0), (buffer, 0), LONG).unwrap();
        assert_eq!(failure(&done, 1).code(), Code::OUT_OF_RANGE);
        let status = done.borrow().query().unwrap_err();
        assert!(status.to_string().contains("of a file"), "{status}");
    }
}

#[test]
fn a_transfer_that_waits_when_the_device_goes_is_cancelled() {
    let rig = Rig::new();
    let buffer = rig.buffer(4);
    let (_file, file) = native(&rig, &[1; 4], READ);
    let (gate, done) = (rig.semaphore(), rig.semaphore());
    queue_read(&rig, (&[(&gate, 1)], &[(&done, 1)]), (&file, 0), (&buffer, 0), 4).unwrap();
    drop((buffer, file));
    drop(rig);
    assert_eq!(failure(&done, 1).code(), Code::CANCELLED);
}

#[test]
fn a_read_is_over_when_its_last_copy_is() {
    let rig = Rig::new();
    let (_fd, file) = native(&rig, &[7; 4096], READ);
    let (buffer, held, done) = (device_buffer(&rig, 4096), rig.semaphore(), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[(&held, 1)]);
    queue_read_on(1, &rig, (&[], &[(&done, 1)]), (&file, 0), (&buffer, 0), 4096).unwrap();
    pass_time(&rig, 2);
    assert_eq!(done.borrow().query().unwrap(), 0, "its copy is behind the kernel that runs");
    drop(hold);
    wait(&done, 1).unwrap();
}
