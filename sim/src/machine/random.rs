// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Choices that a seed makes.

/// A small generator (xorshift64*): the same seed makes the same choices.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Begins anew.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }
}
