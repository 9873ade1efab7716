// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Random numbers from a seed, for tests and for the programs that they run.

/// A random sequence (xorshift64*), given by its state, which is not zero.
pub struct Random(pub u64);

impl Random {
    /// The sequence of a seed. Neighbouring seeds have different sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// The next 32 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// The next number, below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }

    /// True with a probability of 1/`n`.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}
