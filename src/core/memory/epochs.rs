// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queries of passed epochs of a device's queues, for pools.

use std::sync::Weak;

use amdgpu_ffi::pool::Epochs;

/// Answers if an epoch has passed. Shared by the pools of a device, which may outlive the queues. Any thread may ask.
pub struct EpochClock(Weak<dyn Epochs>);

impl EpochClock {
    /// A clock that asks `queues`.
    pub fn new(queues: Weak<dyn Epochs>) -> Self {
        Self(queues)
    }
}

impl std::fmt::Debug for EpochClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EpochClock")
    }
}

impl Epochs for EpochClock {
    /// Returns false for an epoch that it does not know: the safe answer.
    fn has_passed(&self, axis: u64, epoch: u64) -> bool {
        self.0.upgrade().is_some_and(|queues| queues.has_passed(axis, epoch))
    }
}
