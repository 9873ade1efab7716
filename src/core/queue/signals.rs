// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The epoch signal of a queue: the GPU's progress, on which the completion thread sleeps.
//!
//! Nothing waits for two signals at once: from 2025-03 to 2026-07 ROCR wrote past the end of a list of its own in
//! `hsa_amd_signal_wait_any` when such a wait ended by another signal than the first (`docs/sim/rocr.md`). So the
//! completion thread wakes for one reason only, and host threads call the submission thread instead.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hsa_abi::{HsaSignal, HsaSignalCondition, HsaWaitState};

use crate::core::queue::Queue;
use crate::core::queue::shared::Epochs;
use crate::hsa;
use crate::ring::epoch_threshold;

/// The interval in which a thread that waits for an epoch checks for the loss of the device.
const LOSS_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The value of the epoch signal of a lost queue that has ended. No packet that waits for one of its epochs starts.
const NEVER: i64 = i64::MAX;

impl Queue {
    /// The epochs that the queue has submitted and completed.
    pub fn epochs(&self) -> Epochs {
        Epochs { signal: self.epoch.clone(), records: self.rings.records.clone() }
    }

    /// The signal that each submission decrements.
    #[inline]
    pub fn epoch_signal(&self) -> &Arc<hsa::Signal> {
        &self.epoch
    }

    /// The epoch signal's value now.
    pub fn epoch_value(&self) -> i64 {
        self.epoch.load()
    }

    /// The epoch signal of the queue `ordinal` of the same logical device.
    pub fn epoch_signal_of(&self, ordinal: u32) -> HsaSignal {
        self.shared.epochs.get().map_or(HsaSignal::NULL, |epochs| epochs[ordinal as usize].signal.handle())
    }

    /// True if the hardware has completed `epoch`.
    pub fn is_complete(&self, epoch: u64) -> bool {
        self.epoch_value() < epoch_threshold(epoch)
    }

    /// Sleeps until `epoch` is complete or the device is lost, which is detected within [`LOSS_CHECK_INTERVAL`].
    /// Returns true if the epoch is complete. For threads that do not need its completion to be handled.
    pub fn wait_for_epoch(&self, epoch: u64) -> bool {
        let threshold = epoch_threshold(epoch);
        while !self.is_complete(epoch) && self.failure().is_none() {
            self.epoch.wait(HsaSignalCondition::LT, threshold, Some(LOSS_CHECK_INTERVAL), HsaWaitState::BLOCKED);
        }
        self.is_complete(epoch)
    }

    /// Sleeps until the epoch signal differs from `seen`. For the completion thread.
    pub fn wait_for_change(&self, seen: i64) {
        self.epoch.wait(HsaSignalCondition::NE, seen, None, HsaWaitState::BLOCKED);
    }

    /// Ends the completion thread after one more look. Nobody else writes to the epoch signal any more: nothing is in
    /// flight or will be submitted, or the device is lost and the queue's hardware has stopped.
    pub(super) fn end_completion(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // Packets of other queues may still be about to look whether an epoch is complete, all of which are.
        self.epoch.store(if self.failure().is_some() { NEVER } else { self.epoch_value() - 1 });
    }

    /// Returns true if the completion thread is to end; true once the epoch signal has changed for the last time.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}
