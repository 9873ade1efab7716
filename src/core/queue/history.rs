// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What a queue's submissions come after: its own earlier ones, and those of other queues that it has waited for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::queue::Queue;
use crate::core::queue::waits::EpochWait;
use crate::ffi::{Frontier, FrontierTracker};

/// Where the queue ordinal is in the axis of a queue (`iree/async/frontier.h`).
pub const QUEUE_AXIS_SHIFT: u32 = 24;

/// What a queue has behind it.
#[derive(Debug)]
pub(super) struct History {
    /// Of its epochs, in IREE's frontiers.
    axis: u64,
    tracker: FrontierTracker,
    /// The queues that this queue has waited for, a bit for each. Changes under the submission lock.
    waited_queues: AtomicU64,
    /// The epoch of the last submission with work of its own.
    last_work: AtomicU64,
}

impl History {
    /// Of a new queue, whose axis the tracker knows from now on.
    ///
    /// # Errors
    /// What the tracker said.
    pub(super) fn new(axis: u64, tracker: FrontierTracker) -> crate::ffi::Result<Self> {
        tracker.register_axis(axis)?;
        Ok(Self { axis, tracker, waited_queues: AtomicU64::new(0), last_work: AtomicU64::new(0) })
    }

    /// Nothing more comes: who waits for an epoch that has not passed fails.
    pub(super) fn retire(&self) {
        self.tracker.retire_axis(self.axis, crate::status!(CANCELLED, "the queue was destroyed"));
    }
}

impl Queue {
    /// The axis of the queue's epochs.
    pub fn axis(&self) -> u64 {
        self.history.axis
    }

    /// Knows which epochs have passed.
    pub fn tracker(&self) -> &FrontierTracker {
        &self.history.tracker
    }

    /// The axis of the queue `ordinal` of the same logical device.
    pub fn axis_of(&self, ordinal: u32) -> u64 {
        self.history.axis & !(u64::from(u8::MAX) << QUEUE_AXIS_SHIFT) | u64::from(ordinal) << QUEUE_AXIS_SHIFT
    }

    /// Axis and epoch of the queue's last submission, when nothing else is what everything submitted behind `waits`
    /// from now on comes after: no submission has waited for another queue. A frontier may claim less than is true, so
    /// that submissions of other threads do not matter.
    #[inline]
    pub fn only_epoch(&self, waits: &[EpochWait]) -> Option<(u64, u64)> {
        let is_alone = waits.is_empty() && self.history.waited_queues.load(Ordering::Relaxed) == 0;
        is_alone.then(|| (self.history.axis, self.rings.records.last_epoch()))
    }

    /// What everything submitted behind `waits` from now on comes after: this queue's last epoch and those of other
    /// queues that it waited for or that `waits` are for.
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

    /// A submission waits for the queue `ordinal`; under the submission lock.
    pub fn note_wait(&self, ordinal: u32) {
        let waited = self.history.waited_queues.load(Ordering::Relaxed);
        self.history.waited_queues.store(waited | 1 << ordinal, Ordering::Relaxed);
    }

    /// Tells the frontier tracker that `epoch` is complete.
    pub fn advance_frontier(&self, epoch: u64) {
        self.history.tracker.advance(self.history.axis, epoch);
    }

    /// Says that the submission of this epoch has work of its own.
    #[inline]
    pub fn note_work(&self, epoch: u64) {
        self.history.last_work.store(epoch, Ordering::Relaxed);
    }

    /// How many submissions are in flight up to the last one with work of its own: those behind it are over with it.
    pub fn work_in_flight(&self) -> u64 {
        self.history.last_work.load(Ordering::Relaxed).saturating_sub(self.rings.records.drained_epoch())
    }

    /// True when the host has seen to the completion of this epoch.
    pub fn has_completed(&self, epoch: u64) -> bool {
        self.rings.records.drained_epoch() >= epoch
    }
}
