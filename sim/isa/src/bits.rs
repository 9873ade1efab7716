// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Bit fields of instruction words.

/// Takes bits `low..low + width` of `word`.
pub(crate) fn bits(word: u32, low: u32, width: u32) -> u32 {
    (word >> low) & ((1u64 << width) - 1) as u32
}

/// Takes one bit of `word`.
pub(crate) fn bit(word: u32, at: u32) -> bool {
    (word >> at) & 1 != 0
}
