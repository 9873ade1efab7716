// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that a queue has accepted and that are not in its rings yet.

use std::collections::{BTreeMap, LinkedList};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::blocked::{Blocked, Releases};
use crate::deferred::{DeferredList, PendingSubmission};
use amdgpu_ffi::Status;

/// The submissions of a queue that are not in its rings.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Submissions for the submission thread, oldest first. Each owns a list node, so that no push needs a large
    /// allocation.
    ready: Mutex<LinkedList<PendingSubmission>>,
    /// The number of submissions that wait for ring space.
    ring_waiters: Arc<AtomicUsize>,
    /// Submissions that wait for semaphores.
    pub(super) deferred: Mutex<DeferredList>,
    /// Submissions that wait for memory, by their addresses.
    pub(super) blocked: Mutex<BTreeMap<usize, Arc<Blocked>>>,
    /// The listeners to their pools.
    pub(super) releases: Arc<Releases>,
}

impl Backlog {
    /// Puts a submission on the ready list.
    pub(super) fn push_ready(&self, pending: PendingSubmission) {
        self.ready.lock().push_back(pending);
    }

    /// True if submissions wait for ring space. Later submissions must not overtake them.
    #[inline]
    pub(super) fn has_ring_waiters(&self) -> bool {
        self.ring_waiters.load(Ordering::Relaxed) != 0
    }

    /// The number of submissions that wait for ring space.
    pub(super) fn ring_waiters(&self) -> &Arc<AtomicUsize> {
        &self.ring_waiters
    }

    /// The submissions to go on with, oldest first.
    pub(super) fn take_ready(&self) -> LinkedList<PendingSubmission> {
        std::mem::take(&mut *self.ready.lock())
    }

    /// Puts back, at the front of the ready list, submissions that wait for the next drain.
    pub(super) fn park(&self, mut parked: LinkedList<PendingSubmission>) {
        if !parked.is_empty() {
            let mut ready = self.ready.lock();
            parked.append(&mut ready);
            *ready = parked;
        }
    }

    /// Ends the waits of all blocked submissions with `failure`.
    pub(super) fn end_blocked(&self, failure: &Status) {
        let blocked: Vec<_> = self.blocked.lock().values().cloned().collect();
        for blocked in blocked {
            blocked.cancel(failure.clone());
        }
        self.releases.end();
    }

    /// True if no submission is ready, deferred or blocked.
    pub(super) fn is_empty(&self) -> bool {
        // A submission is ready before it is not deferred or blocked any more.
        self.deferred.lock().is_empty() && self.blocked.lock().is_empty() && self.ready.lock().is_empty()
    }
}
