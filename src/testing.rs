// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Support for unit tests: the [`Rig`] of `tests/`, which uses the driver as C does, and further helpers.

#[path = "../tests/support/rig.rs"]
mod rig;

use std::ptr::null_mut;
use std::sync::Arc;

use crate::core::queue::Queue;
use crate::core::queue::semaphore::timeline;
use crate::ffi::{self, Allocator, BufferHandle, Result, SemaphoreRef, iree, raw};
use crate::iree_hal_amdgpu_rs_driver_create;

pub(crate) use rig::{List, Rig, map_read, params, wait};

/// The first queue of the rig's device after an operation, and the semaphore that the operation has signaled to 1.
pub(crate) fn queue(rig: &Rig) -> (Arc<Queue>, SemaphoreRef) {
    let semaphore = rig.semaphore();
    rig.barrier(1, &[], &[(&semaphore, 1)]).unwrap();
    let (queue, _) = timeline(semaphore.borrow()).and_then(|timeline| timeline.submission_of(1)).unwrap();
    wait(&semaphore, 1).unwrap();
    (queue, semaphore)
}

/// Fills all of a mappable buffer from the host.
pub(crate) fn map_fill(buffer: &BufferHandle, value: u8) -> Result<()> {
    // SAFETY: the buffer and the pattern live.
    unsafe { iree!(raw::iree_hal_buffer_map_fill(buffer.as_ptr(), 0, usize::MAX, (&raw const value).cast(), 1)) }
}

/// A span of `buffer`.
pub(crate) fn span(buffer: &BufferHandle, offset: usize, length: usize) -> BufferHandle {
    let mut result = null_mut();
    // SAFETY: the buffer lives; the result goes to a local, with its reference.
    unsafe {
        let allocator = Allocator::system().to_raw();
        iree!(raw::iree_hal_buffer_subspan(buffer.as_ptr(), offset, length, allocator, &raw mut result))
            .expect("a span");
        BufferHandle::from_owned(result).expect("a span")
    }
}

/// The device address of a byte of `buffer`.
pub(crate) fn address(buffer: &BufferHandle, offset: usize) -> Result<u64> {
    crate::core::memory::address_of(buffer.borrow(), offset)
}
