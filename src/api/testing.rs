// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Support for unit tests: the `Rig` of `tests/`, which uses the driver as C does, and further helpers.

#[allow(dead_code, reason = "the tests of this crate use a part of it")]
#[path = "../../tests/support/rig.rs"]
mod rig;

use std::ptr::null_mut;

use crate::driver::iree_hal_amdgpu_rs_driver_create;
use amdgpu_ffi::{self as ffi, Allocator, BufferHandle, Result, iree, raw};

pub(crate) use rig::{Rig, map_fill, map_read, params};

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
    amdgpu_memory::address_of(buffer.borrow(), offset)
}
