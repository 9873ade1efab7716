// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Waits of a submission that are packets in front of it, and the submission's order in its queue.

use hsa_abi::HsaSignal;
use smallvec::SmallVec;

/// A wait by the packet processor until the epoch signal of another queue is below a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochWait {
    /// Ordinal of the queue waited for, within the logical device.
    pub queue: u32,
    /// Epoch signal of the queue that is waited for.
    pub signal: HsaSignal,
    /// The epoch waited for.
    pub epoch: u64,
}

/// Epoch waits of one submission: at most one for each queue.
pub type EpochWaits = SmallVec<[EpochWait; 4]>;

/// The position of a submission in the order of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueOrdering {
    /// Behind all that was submitted before.
    AfterPrior,
    /// Packets may start at any time; the epoch still comes after earlier ones.
    Unordered,
}
