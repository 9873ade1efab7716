// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that a queue has accepted and that are not in its rings yet.

use std::collections::{BTreeMap, LinkedList};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::core::queue::Queue;
use crate::core::queue::blocked::{Blocked, Releases};
use crate::core::queue::deferred::{DeferredList, PendingSubmission};

/// The submissions of a queue that are not in its rings.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Submissions for the submission thread, oldest first. Each owns a list node, so that no push needs a large
    /// allocation.
    pub(super) ready: Mutex<LinkedList<PendingSubmission>>,
    /// The number of submissions that wait for ring space.
    ring_waiters: Arc<AtomicUsize>,
    /// Submissions that wait for semaphores.
    pub(super) deferred: Mutex<DeferredList>,
    /// Submissions that wait for memory, by their addresses.
    pub(super) blocked: Mutex<BTreeMap<usize, Arc<Blocked>>>,
    /// The listeners to their pools.
    releases: Arc<Releases>,
}

impl Queue {
    /// The submissions that wait for memory.
    pub(super) fn blocked(&self) -> &Mutex<BTreeMap<usize, Arc<Blocked>>> {
        &self.backlog.blocked
    }

    /// The listeners to the pools that blocked submissions wait for.
    pub(super) fn releases(&self) -> &Arc<Releases> {
        &self.backlog.releases
    }

    /// Puts a submission on the ready list and calls the submission thread, which goes on with it.
    pub fn add_ready(&self, ready: PendingSubmission) {
        self.backlog.ready.lock().push_back(ready);
        self.wakeup.call();
    }

    /// True if submissions wait for ring space. Later submissions must not overtake them.
    #[inline]
    pub fn has_ring_waiters(&self) -> bool {
        self.backlog.ring_waiters.load(Ordering::Relaxed) != 0
    }

    /// The number of submissions that wait for ring space.
    pub fn ring_waiters(&self) -> &Arc<AtomicUsize> {
        &self.backlog.ring_waiters
    }

    /// The submissions to go on with, oldest first.
    pub fn take_ready(&self) -> LinkedList<PendingSubmission> {
        std::mem::take(&mut *self.backlog.ready.lock())
    }

    /// Puts back, at the front of the ready list, submissions that wait for the next drain.
    pub fn park(&self, mut parked: LinkedList<PendingSubmission>) {
        if !parked.is_empty() {
            let mut ready = self.backlog.ready.lock();
            parked.append(&mut ready);
            *ready = parked;
        }
    }
}
