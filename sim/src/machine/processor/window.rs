// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Limits and random delays of packets and commands that run at the same time.

use std::time::Duration;

use crate::machine::product::random::Random;

/// Maximum number of packets that run together.
pub const WINDOW: u64 = 8;
/// Delays of packets' starts with a seed, long enough for packets behind them to complete, and of completions.
pub const START: (usize, usize) = (2, 256);

/// Random delay: in one of `cases` cases, less than `most` microseconds.
pub fn pause(random: &mut Random, (cases, most): (usize, usize)) -> Duration {
    let most = if random.below(cases) == 0 { most } else { 1 };
    Duration::from_micros(random.below(most) as u64)
}
