// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What the driver knows of its semaphores beyond IREE's timeline: which submission will advance them next.

use std::sync::Arc;
use std::time::Instant;

use hsa_abi::HsaWaitState;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::core::queue::{HostQueue, RunningQueues};
use crate::ffi::{SemaphoreList, SemaphoreRef, Status};

/// The newest submission that signals a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSignal {
    /// Ordinal of the queue, within the logical device that made the semaphore.
    pub queue: u32,
    /// The submission's epoch.
    pub epoch: u64,
    /// The payload it signals.
    pub value: u64,
}

/// The driver's part of a semaphore: what is submitted but not complete.
#[derive(Debug)]
pub struct Timeline {
    device_id: u64,
    queues: Arc<RunningQueues>,
    last: Mutex<Option<LastSignal>>,
}

impl Timeline {
    /// The part for a semaphore of the logical device `device_id`.
    pub fn new(device_id: u64, queues: Arc<RunningQueues>) -> Self {
        Self { device_id, queues, last: Mutex::new(None) }
    }

    /// Waits on the epoch signal of the submission that is to signal `value`, when one is in a ring; true when that epoch is complete
    /// and its semaphores are being advanced. False when there is none, it failed, `is_over` says so or `deadline` passed.
    pub fn wait_for_submission(
        &self,
        value: u64,
        deadline: Option<Instant>,
        state: HsaWaitState,
        is_over: impl Fn() -> bool,
    ) -> bool {
        let Some(last) = self.last_signal().filter(|last| last.value >= value) else { return false };
        self.queues.get(last.queue).is_some_and(|queue| queue.wait_for_epoch(last.epoch, deadline, state, is_over))
    }

    /// The logical device that made the semaphore.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// The newest submission that signals the semaphore, when a queue of its own device made one.
    pub fn last_signal(&self) -> Option<LastSignal> {
        *self.last.lock()
    }

    fn note(&self, signal: LastSignal) {
        let mut last = self.last.lock();
        // Submissions on other queues may be noted out of the payloads' order: the larger payload is the later promise.
        if last.is_none_or(|last| last.value <= signal.value) {
            *last = Some(signal);
        }
    }
}

/// Semaphores and the payloads they are to reach; owned. Dropped before it was signaled or failed, it fails them: work that vanishes
/// must not leave waiters behind.
#[derive(Debug, Default)]
pub struct SignalList(SmallVec<[(SemaphoreRef, u64); 2]>);

impl SignalList {
    /// Retains the semaphores of `list`.
    pub fn retain(list: SemaphoreList<'_>) -> Self {
        Self(list.iter().map(|(semaphore, value)| (semaphore.retain(), value)).collect())
    }

    /// Records on each semaphore that epoch `epoch` of `queue` will signal it.
    pub fn note_submitted(&self, queue: &HostQueue, epoch: u64) {
        for (semaphore, value) in &self.0 {
            if let Some(timeline) = queue.timeline_of(semaphore.borrow()) {
                timeline.note(LastSignal { queue: queue.ordinal(), epoch, value: *value });
            }
        }
    }

    /// Advances the semaphores: device work of epoch `epoch` on `axis` is complete.
    pub fn publish(mut self, axis: u64, epoch: u64) {
        for (semaphore, value) in self.0.drain(..) {
            if let Err(status) = semaphore.borrow().publish(value, axis, epoch) {
                semaphore.borrow().fail(status);
            }
        }
    }

    /// Advances the semaphores from the host.
    pub fn signal(mut self) {
        for (semaphore, value) in self.0.drain(..) {
            if let Err(status) = semaphore.borrow().signal(value) {
                semaphore.borrow().fail(status);
            }
        }
    }

    /// Fails the semaphores, each with its own copy of `status`.
    pub fn fail(mut self, status: Status) {
        for (semaphore, _) in self.0.drain(..) {
            semaphore.borrow().fail(status.clone());
        }
    }

    /// Lets go of the semaphores without touching them: somebody else has promised to signal them.
    pub fn forget(mut self) {
        self.0.clear();
    }

    /// The semaphores and payloads.
    pub fn iter(&self) -> impl Iterator<Item = (&SemaphoreRef, u64)> {
        self.0.iter().map(|(semaphore, value)| (semaphore, *value))
    }
}

impl Drop for SignalList {
    fn drop(&mut self) {
        for (semaphore, _) in self.0.drain(..) {
            semaphore.borrow().fail(crate::status!(CANCELLED, "the operation was dropped before it ran"));
        }
    }
}
