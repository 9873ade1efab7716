// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Bounds-checked little-endian reads at 64-bit offsets.

use crate::error::{Error, Result};

/// The `size` bytes at `offset`.
pub(crate) fn slice<'a>(bytes: &'a [u8], offset: u64, size: u64, what: &'static str) -> Result<&'a [u8]> {
    offset
        .checked_add(size)
        .filter(|end| *end <= bytes.len() as u64)
        .map(|end| &bytes[offset as usize..end as usize])
        .ok_or(Error::Truncated { what, offset, size, available: bytes.len() as u64 })
}

fn array<const N: usize>(bytes: &[u8], offset: u64, what: &'static str) -> Result<[u8; N]> {
    let mut value = [0; N];
    value.copy_from_slice(slice(bytes, offset, N as u64, what)?);
    Ok(value)
}

/// The 16-bit word at `offset`.
pub(crate) fn u16_at(bytes: &[u8], offset: u64, what: &'static str) -> Result<u16> {
    array(bytes, offset, what).map(u16::from_le_bytes)
}

/// The 32-bit word at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: u64, what: &'static str) -> Result<u32> {
    array(bytes, offset, what).map(u32::from_le_bytes)
}

/// The 64-bit word at `offset`.
pub(crate) fn u64_at(bytes: &[u8], offset: u64, what: &'static str) -> Result<u64> {
    array(bytes, offset, what).map(u64::from_le_bytes)
}
