// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory: the heap for a request ([`heaps`]), the pools of queue-ordered allocation ([`pools`]) over the driver's
//! [`slab_provider`], and the device addresses of buffers.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod buffer;
mod epochs;
pub mod heaps;
pub mod one_shot;
pub mod pools;
pub mod range_pool;
mod ranges;
pub mod slab_provider;
pub mod statistics;
pub mod transient;

use crate::buffer::DeviceBuffer;
use crate::transient::Transient;
use amdgpu_ffi::{Borrowed, Buffer, BufferHandle, MemoryType, Result, Status, status};
use amdgpu_gpu::Gpu;

/// The device address of byte `offset` of `buffer` for `gpu`. The buffer may be a span of another one or
/// queue-allocated.
///
/// # Errors
/// OUT_OF_RANGE for an offset past the end. INVALID_ARGUMENT for a buffer that the GPU has no access to, or that
/// `queue_dealloca` has given back; FAILED_PRECONDITION for a queue-allocated one that has no memory yet.
#[inline(always)]
pub fn device_address(buffer: Buffer<'_>, offset: usize, gpu: &Gpu) -> Result<u64> {
    match own_address(buffer, offset) {
        Some(address) => Ok(address),
        None => other_address(buffer, offset, Some(gpu)),
    }
}

/// The device address of byte `offset` of `buffer`, for GPUs that have access to it.
///
/// # Errors
/// OUT_OF_RANGE for an offset past the end; INVALID_ARGUMENT for a buffer of another driver or one that was given back;
/// FAILED_PRECONDITION for a queue-allocated buffer that has no memory yet.
pub fn address_of(buffer: Buffer<'_>, offset: usize) -> Result<u64> {
    other_address(buffer, offset, None)
}

/// The device address of byte `offset` of a buffer of this driver's that was not queue-allocated and that every GPU of
/// the process has access to; none if it is past the end.
#[inline(always)]
pub fn own_address(buffer: Buffer<'_>, offset: usize) -> Option<u64> {
    let base = buffer.as_ptr();
    // SAFETY: the buffer lives; these fields do not change, and it keeps the one it is a span of alive, or is its own.
    let (allocated, byte_offset, byte_length) =
        unsafe { (Borrowed::from_raw((*base).allocated_buffer), (*base).byte_offset, (*base).byte_length) };
    let device = allocated?.downcast::<DeviceBuffer>()?;
    (offset <= byte_length).then(|| device.device_address() + (byte_offset + offset) as u64)
}

/// As [`device_address`], for any buffer.
#[inline(never)]
fn other_address(buffer: Buffer<'_>, offset: usize, gpu: Option<&Gpu>) -> Result<u64> {
    match locate(buffer, offset, gpu)? {
        Location::Own(address) | Location::Lent(address, _) => Ok(address),
        Location::Awaited(..) => Err(status!(
            FAILED_PRECONDITION,
            "the buffer has no memory yet: its queue_alloca waits; wait for what that signals before using the buffer"
        )),
    }
}

/// The location of a byte of a buffer on the device.
#[derive(Clone, Copy)]
pub enum Location<'a> {
    /// At this address, for as long as the buffer lives.
    Own(u64),
    /// At this address, until the queue-allocated buffer is [gone](Transient::is_gone).
    Lent(u64, &'a Transient),
    /// This many bytes into a queue-allocated buffer that has no memory yet.
    Awaited(usize, &'a Transient),
}

/// Locates byte `offset` of `buffer`, which may be a span of another one or queue-allocated, for `gpu` if there is one.
///
/// # Errors
/// The errors of [`device_address`], except those for memory that is not allocated yet.
pub fn locate<'a>(buffer: Buffer<'a>, offset: usize, gpu: Option<&Gpu>) -> Result<Location<'a>> {
    let base = buffer.as_ptr();
    // SAFETY: the buffer lives, and none of these fields changes after it was made.
    let (allocated, byte_offset, byte_length) =
        unsafe { ((*base).allocated_buffer, (*base).byte_offset, (*base).byte_length) };
    if offset > byte_length {
        return Err(status!(OUT_OF_RANGE, "offset {offset} is past the end of a buffer of {byte_length} bytes"));
    }
    // SAFETY: a buffer keeps the one it is a span of alive, or is its own.
    let allocated = unsafe { Borrowed::from_raw(allocated) }
        .ok_or_else(|| status!(INVALID_ARGUMENT, "the buffer has no allocation behind it"))?;
    let offset = byte_offset + offset;
    if let Some(device) = DeviceBuffer::of(allocated) {
        return Ok(Location::Own(address_for(gpu, device)? + offset as u64));
    }
    let transient = Transient::of(allocated).ok_or_else(|| foreign(allocated))?;
    if transient.is_gone() {
        return Err(transient.gone());
    }
    if let Some(address) = transient.device_address() {
        return Ok(Location::Lent(address + offset as u64, transient));
    }
    // It has its memory since, or not of this driver, or has lost it since.
    match transient.backing() {
        Some(backing) => match DeviceBuffer::of(backing.borrow()) {
            Some(device) => Ok(Location::Lent(address_for(gpu, device)? + offset as u64, transient)),
            None => Err(foreign(backing.borrow())),
        },
        None if transient.is_gone() => Err(transient.gone()),
        None => Ok(Location::Awaited(offset, transient)),
    }
}

/// The address of `buffer` for `gpu`.
fn address_for(gpu: Option<&Gpu>, buffer: &DeviceBuffer) -> Result<u64> {
    match gpu.filter(|gpu| !buffer.is_accessible_to(gpu.agent().handle())) {
        None => Ok(buffer.device_address()),
        Some(gpu) => Err(out_of_reach(gpu, buffer)),
    }
}

#[cold]
fn out_of_reach(gpu: &Gpu, buffer: &DeviceBuffer) -> Status {
    let (place, address) = (gpu.place(), buffer.device_address());
    status!(
        INVALID_ARGUMENT,
        "{place} has no access to the memory of the buffer at {address:#x}, which is another GPU's: the links between \
         the GPUs do not allow it, or the program that allocated the memory did not; use memory of the types \
         HOST_LOCAL|DEVICE_VISIBLE, or copy through such memory"
    )
}

/// The buffer for the driver to map in place of `buffer`, and the position of byte `offset` in it. For a
/// queue-allocated buffer it is the memory, which an operation may use until the buffer is [gone](Transient::is_gone);
/// the application may map it only until the deallocation is submitted.
///
/// # Errors
/// INVALID_ARGUMENT if the buffer is gone.
pub fn mappable(buffer: Buffer<'_>, offset: usize) -> Result<(BufferHandle, usize)> {
    let base = buffer.as_ptr();
    // SAFETY: the buffer lives; these fields do not change, and it keeps the one it is a span of alive, or is its own.
    let (allocated, byte_offset) = unsafe { (Borrowed::from_raw((*base).allocated_buffer), (*base).byte_offset) };
    let transient = allocated.and_then(Transient::of);
    if let Some(gone) = transient.filter(|transient| transient.is_gone()) {
        return Err(gone.gone());
    }
    Ok(match transient.and_then(Transient::backing) {
        Some(backing) => (backing, byte_offset + offset),
        None => (buffer.retain(), offset),
    })
}

/// The error for a buffer of another driver.
fn foreign(buffer: Buffer<'_>) -> amdgpu_ffi::Status {
    let remedy = if buffer.memory_type().contains(MemoryType::HOST_VISIBLE) {
        "import its memory into the device's allocator as a HOST_ALLOCATION first"
    } else {
        "copy it through host memory"
    };
    status!(
        INVALID_ARGUMENT,
        "the buffer was made by another driver, and the GPU has no access to its memory; {remedy}"
    )
}
