// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory.

use crate::ffi::{Buffer, Result, status};

/// The device address of byte `offset` of `buffer`.
pub fn device_address(_buffer: Buffer<'_>, _offset: usize) -> Result<u64> {
    Err(status!(UNIMPLEMENTED, "device_address"))
}
