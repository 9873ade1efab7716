// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory as C asks for it and reads it, for the tests in `src` (`src/testing.rs`), too.

// By way of the module around this one, which knows the driver's name.
use super::ffi::{BufferHandle, Result, iree, raw};

/// A request for memory of the types and for the usage that the bits name.
pub fn params(memory_type: u32, usage: u32) -> raw::iree_hal_buffer_params_t {
    raw::iree_hal_buffer_params_t { usage, access: 0, type_: memory_type, queue_affinity: 0, min_alignment: 0 }
}

/// Reads `length` bytes of a mappable buffer from `offset` on.
pub fn map_read(buffer: &BufferHandle, offset: usize, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    // SAFETY: the buffer lives, and the target has this many bytes.
    unsafe { iree!(raw::iree_hal_buffer_map_read(buffer.as_ptr(), offset, bytes.as_mut_ptr().cast(), length)) }?;
    Ok(bytes)
}
