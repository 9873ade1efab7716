// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Numbers that a seed decides.

/// A sequence of numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    /// The sequence of a seed; neighbouring seeds have unlike ones.
    pub fn new(seed: u64) -> Self {
        // The state must not be zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// The next number, below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32 % end
    }
}
