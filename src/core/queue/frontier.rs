// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The frontier of a queue: its own earlier submissions, and those of other queues that it has waited for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::queue::Queue;
use crate::core::queue::waits::EpochWait;
use crate::ffi::Frontier;

/// The state from which a queue's frontiers are made.
#[derive(Debug)]
pub(super) struct QueueFrontier {
    /// The axis of the queue's epochs in IREE's frontiers.
    axis: u64,
    /// One bit for each queue that this queue has waited for. Changes under the submission lock.
    waited_queues: AtomicU64,
    /// The epoch of the last submission with work of its own.
    last_work: AtomicU64,
}

impl QueueFrontier {
    /// The history of a new queue with this axis.
    pub(super) fn new(axis: u64) -> Self {
        Self { axis, waited_queues: AtomicU64::new(0), last_work: AtomicU64::new(0) }
    }
}

impl Queue {
    /// The axis of the queue's epochs in frontiers that the driver makes.
    pub fn axis(&self) -> u64 {
        self.history.axis
    }

    /// The axis of the queue `ordinal` of the same logical device.
    pub fn axis_of(&self, ordinal: u32) -> u64 {
        self.shared.groups.axis(ordinal)
    }

    /// The axis and epoch of the queue's last submission, if that is the whole frontier of submissions behind `waits`:
    /// neither they nor earlier submissions have waited for another queue. A frontier may claim less than is true, so
    /// that concurrent submissions of other threads do not matter.
    #[inline]
    pub fn single_entry_frontier(&self, waits: &[EpochWait]) -> Option<(u64, u64)> {
        let is_alone = waits.is_empty() && self.history.waited_queues.load(Ordering::Relaxed) == 0;
        is_alone.then(|| (self.history.axis, self.rings.records.last_epoch()))
    }

    /// The frontier of submissions behind `waits`: this queue's last epoch, and the epochs of other queues that it
    /// waited for or that are in `waits`.
    pub fn frontier(&self, waits: &[EpochWait]) -> Frontier {
        // Copied: a frontier of many queues allocates, which is not for the submission lock.
        let (waited, waited_queues) = {
            let submission = self.rings.submission.lock();
            (*submission.waited, self.history.waited_queues.load(Ordering::Relaxed))
        };
        let mut ordinals = waited_queues | 1 << self.ordinal;
        for wait in waits {
            ordinals |= 1 << wait.queue;
        }
        let epoch = |ordinal: u32| {
            let epoch =
                if ordinal == self.ordinal { self.rings.records.last_epoch() } else { waited[ordinal as usize] };
            let waits = waits.iter().filter(|wait| wait.queue == ordinal).map(|wait| wait.epoch);
            waits.fold(epoch, u64::max)
        };
        let next = || {
            let ordinal = (ordinals != 0).then(|| ordinals.trailing_zeros())?;
            ordinals &= ordinals - 1;
            Some((self.axis_of(ordinal), epoch(ordinal)))
        };
        let entries = std::iter::from_fn(next);
        Frontier::new(entries.filter(|(_, epoch)| *epoch != 0))
    }

    /// Notes that a submission waits for the queue `ordinal`. Under the submission lock.
    pub fn record_wait(&self, ordinal: u32) {
        let waited = self.history.waited_queues.load(Ordering::Relaxed);
        self.history.waited_queues.store(waited | 1 << ordinal, Ordering::Relaxed);
    }

    /// Notes that the submission of this epoch has work of its own.
    #[inline]
    pub fn record_work(&self, epoch: u64) {
        self.history.last_work.store(epoch, Ordering::Relaxed);
    }

    /// The number of submissions in flight up to the last one with work of its own. Later ones complete with it.
    pub fn work_in_flight(&self) -> u64 {
        self.history.last_work.load(Ordering::Relaxed).saturating_sub(self.rings.records.drained_epoch())
    }

    /// The last epoch whose completion the host has begun to handle.
    #[inline]
    pub fn drained_epoch(&self) -> u64 {
        self.rings.records.drained_epoch()
    }

    /// True if the host has handled the completion of this epoch.
    pub fn has_completed(&self, epoch: u64) -> bool {
        self.drained_epoch() >= epoch
    }
}
