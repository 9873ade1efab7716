// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The signals of a queue: how far the GPU is, and what its threads sleep on.

use std::sync::Arc;
use std::time::Duration;

use hsa_abi::{HsaSignal, HsaSignalCondition, HsaWaitState};

use crate::core::queue::Queue;
use crate::core::queue::shared::{Epochs, new_value};
use crate::ffi::Result;
use crate::hsa;
use crate::ring::{EPOCH_INITIAL_VALUE, epoch_threshold};

/// How soon a full ring is looked at again when nothing is in flight.
const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// A queue's signals.
#[derive(Debug)]
pub(super) struct QueueSignals {
    /// Each submission decrements it.
    pub(super) epoch: Arc<hsa::Signal>,
    /// The completion thread is to look at its queue.
    pub(super) wake: Arc<hsa::Signal>,
    /// Waits for epochs are to end.
    pub(super) interrupt: Arc<hsa::Signal>,
}

impl QueueSignals {
    /// New ones.
    ///
    /// # Errors
    /// What HSA said.
    pub(super) fn new(library: &Arc<hsa::Library>) -> Result<Self> {
        let signal = |value| Ok::<_, hsa::Error>(Arc::new(hsa::Signal::new(library, value, &[], 0)?));
        Ok(Self { epoch: signal(EPOCH_INITIAL_VALUE)?, wake: signal(0)?, interrupt: signal(0)? })
    }
}

impl Queue {
    /// Has the completion thread look at the queue.
    pub(super) fn wake(&self) {
        self.signals.wake.store(1);
    }

    /// What it has submitted and completed.
    pub fn epochs(&self) -> Epochs {
        Epochs { signal: self.signals.epoch.clone(), records: self.rings.records.clone() }
    }

    /// The signal that each submission decrements.
    #[inline]
    pub fn epoch_signal(&self) -> &Arc<hsa::Signal> {
        &self.signals.epoch
    }

    /// The epoch signal's value now.
    pub fn epoch_value(&self) -> i64 {
        self.signals.epoch.load()
    }

    /// The epoch signal of the queue `ordinal` of the same logical device.
    pub fn epoch_signal_of(&self, ordinal: u32) -> HsaSignal {
        self.shared.epochs.get().map_or(HsaSignal::NULL, |epochs| epochs[ordinal as usize].signal.handle())
    }

    /// Whether the hardware has completed `epoch`.
    pub fn is_complete(&self, epoch: u64) -> bool {
        self.epoch_value() < epoch_threshold(epoch)
    }

    /// Sleeps until `epoch` is complete, the device is lost or waits are interrupted, which may also be for somebody
    /// else; not at all when `is_over`, and an interrupt after that was asked is not missed. Returns whether the epoch
    /// is complete.
    pub fn wait_for_epoch(&self, epoch: u64, state: HsaWaitState, is_over: impl FnOnce() -> bool) -> bool {
        let seen = self.signals.interrupt.load();
        if !self.is_complete(epoch) && self.failure().is_none() && !is_over() {
            let operand = epoch_threshold(epoch);
            hsa::wait_any(
                [
                    hsa::Wait { signal: &self.signals.epoch, condition: HsaSignalCondition::LT, operand },
                    hsa::Wait { signal: &self.signals.interrupt, condition: HsaSignalCondition::NE, operand: seen },
                ],
                state,
            );
        }
        self.is_complete(epoch)
    }

    /// Has all threads in [`Self::wait_for_epoch`] return.
    pub fn interrupt_waits(&self) {
        self.signals.interrupt.store(new_value());
    }

    /// Sleeps until the epoch signal falls below `seen` or the queue is woken.
    pub fn wait_for_event(&self, seen: i64) {
        hsa::wait_any(
            [
                hsa::Wait { signal: &self.signals.epoch, condition: HsaSignalCondition::LT, operand: seen },
                hsa::Wait { signal: &self.signals.wake, condition: HsaSignalCondition::NE, operand: 0 },
            ],
            HsaWaitState::BLOCKED,
        );
        self.signals.wake.store(0);
    }

    /// Sleeps until the queue is woken or a full ring is worth another look, for when no epoch is left whose end would
    /// say so: the packet processor may free the slots of the last packets after it has signaled them.
    pub fn wait_for_room(&self) {
        self.signals.wake.wait(HsaSignalCondition::NE, 0, Some(ROOM_CHECK_INTERVAL), HsaWaitState::BLOCKED);
        self.signals.wake.store(0);
    }
}
