// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The epoch signal of a queue: the GPU's progress, on which the completion thread sleeps.
//!
//! Nothing waits for two signals at once: from 2025-03 to 2026-07 ROCR wrote past the end of a list of its own in
//! `hsa_amd_signal_wait_any` when such a wait ended by another signal than the first (`docs/sim/rocr.md`). So the
//! completion thread wakes for one reason only, and host threads call the submission thread instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hsa_abi::{HsaSignal, HsaSignalCondition, HsaWaitState};

use amdgpu_ffi::Result;
use amdgpu_hsa as hsa;
use amdgpu_ring::{EPOCH_INITIAL_VALUE, epoch_threshold};

/// The value of the epoch signal of a lost queue that has ended. No packet that waits for one of its epochs starts.
const NEVER: i64 = i64::MAX;

/// The signal that each submission of a queue decrements. The packet processor writes it; once it has stopped, the host
/// writes it once more.
#[derive(Debug)]
pub(super) struct EpochSignal {
    signal: Arc<hsa::Signal>,
    /// The completion thread has to end.
    has_ended: AtomicBool,
}

impl EpochSignal {
    /// The signal of a new queue.
    ///
    /// # Errors
    /// The error of HSA.
    pub(super) fn new(library: &Arc<hsa::Library>) -> Result<Self> {
        let signal = Arc::new(hsa::Signal::new(library, EPOCH_INITIAL_VALUE, &[], 0)?);
        Ok(Self { signal, has_ended: AtomicBool::new(false) })
    }

    /// The signal.
    pub(super) fn signal(&self) -> &Arc<hsa::Signal> {
        &self.signal
    }

    /// The signal's handle, for packets.
    #[inline]
    pub(super) fn handle(&self) -> HsaSignal {
        self.signal.handle()
    }

    /// The value now.
    pub(super) fn value(&self) -> i64 {
        self.signal.load()
    }

    /// True if the hardware has completed `epoch`.
    pub(super) fn is_complete(&self, epoch: u64) -> bool {
        self.value() < epoch_threshold(epoch)
    }

    /// Sleeps until `epoch` is complete or `timeout` has passed. May return early.
    pub(super) fn wait_for(&self, epoch: u64, timeout: Duration) {
        self.signal.wait(HsaSignalCondition::LT, epoch_threshold(epoch), Some(timeout), HsaWaitState::BLOCKED);
    }

    /// Sleeps until the value differs from `seen`. For the completion thread.
    pub(super) fn wait_for_change(&self, seen: i64) {
        self.signal.wait(HsaSignalCondition::NE, seen, None, HsaWaitState::BLOCKED);
    }

    /// Ends the completion thread after one more look. The signal has no other writer any more: nothing is in flight
    /// or will be submitted, or the device `is_lost` and the queue's hardware has stopped.
    pub(super) fn end(&self, is_lost: bool) {
        self.has_ended.store(true, Ordering::Relaxed);
        // Packets of other queues may still be about to look whether an epoch is complete, all of which are.
        self.signal.store(if is_lost { NEVER } else { self.value() - 1 });
    }

    /// Returns true if the completion thread is to end; true once the signal has changed for the last time.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_hsa::testing::library;

    #[test]
    fn an_epoch_is_complete_with_its_own_decrement() {
        let epochs = EpochSignal::new(&library()).expect("a signal");
        epochs.signal().store(EPOCH_INITIAL_VALUE - 1);
        assert_eq!([1, 2].map(|epoch| epochs.is_complete(epoch)), [true, false]);
    }
}
