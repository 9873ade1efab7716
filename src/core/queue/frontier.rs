// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The frontier of a queue: its own earlier submissions, and those of other queues that it has waited for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::epoch_wait::EpochWait;
use amdgpu_ffi::{Frontier, MAX_QUEUES};

/// The state from which a queue's frontiers are made.
#[derive(Debug)]
pub(super) struct QueueFrontier {
    ordinal: u32,
    /// The axis of the queue's epochs in IREE's frontiers.
    axis: u64,
    /// One bit for each queue that this queue has waited for. Changes under the submission lock.
    waited_queues: AtomicU64,
    /// The epoch of the last submission with work of its own.
    last_work: AtomicU64,
}

impl QueueFrontier {
    /// The frontier of the new queue `ordinal` with this axis.
    pub(super) fn new(ordinal: u32, axis: u64) -> Self {
        Self { ordinal, axis, waited_queues: AtomicU64::new(0), last_work: AtomicU64::new(0) }
    }

    /// The axis of the queue's epochs in frontiers that the driver makes.
    #[inline]
    pub(super) fn axis(&self) -> u64 {
        self.axis
    }

    /// True if neither this queue's submissions nor `waits` have waited for another queue.
    #[inline]
    pub(super) fn is_single(&self, waits: &[EpochWait]) -> bool {
        waits.is_empty() && self.waited_queues() == 0
    }

    /// One bit for each queue that this queue has waited for.
    #[inline]
    pub(super) fn waited_queues(&self) -> u64 {
        self.waited_queues.load(Ordering::Relaxed)
    }

    /// The frontier of submissions behind `waits`, after the submission of `last_epoch`: that epoch, and the epochs of
    /// other queues that are in `waits` or that the queue has waited for (`waited`, those with a bit in
    /// `waited_queues`). `axis_of` is the axis of a queue of the device.
    pub(super) fn behind(
        &self,
        waits: &[EpochWait],
        last_epoch: u64,
        (waited, waited_queues): (&[u64; MAX_QUEUES], u64),
        axis_of: impl Fn(u32) -> u64,
    ) -> Frontier {
        let mut ordinals = waited_queues | 1 << self.ordinal;
        for wait in waits {
            ordinals |= 1 << wait.queue;
        }
        let epoch = |ordinal: u32| {
            let epoch = if ordinal == self.ordinal { last_epoch } else { waited[ordinal as usize] };
            let waits = waits.iter().filter(|wait| wait.queue == ordinal).map(|wait| wait.epoch);
            waits.fold(epoch, u64::max)
        };
        let next = || {
            let ordinal = (ordinals != 0).then(|| ordinals.trailing_zeros())?;
            ordinals &= ordinals - 1;
            Some((axis_of(ordinal), epoch(ordinal)))
        };
        let entries = std::iter::from_fn(next);
        Frontier::new(entries.filter(|(_, epoch)| *epoch != 0))
    }

    /// Records that a submission waits for the queue `ordinal`. Under the submission lock.
    pub(super) fn record_wait(&self, ordinal: u32) {
        let waited = self.waited_queues.load(Ordering::Relaxed);
        self.waited_queues.store(waited | 1 << ordinal, Ordering::Relaxed);
    }

    /// Records that the submission of this epoch has work of its own.
    #[inline]
    pub(super) fn record_work(&self, epoch: u64) {
        self.last_work.store(epoch, Ordering::Relaxed);
    }

    /// The epoch of the last submission with work of its own.
    #[inline]
    pub(super) fn last_work(&self) -> u64 {
        self.last_work.load(Ordering::Relaxed)
    }
}
