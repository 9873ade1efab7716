// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The way back: epoch signal -> drain -> semaphores -> reclaim. The only room that signals semaphores after device work.
//!
//! Each hardware queue has one completion thread. It sleeps until the epoch signal falls or the wake signal is set, takes the records of
//! complete epochs out of the notification ring, publishes their semaphores, releases what they kept alive, and then goes on with
//! submissions that became ready. Host threads that wait for a semaphore may drain too ([`drain`]). Nothing here takes the submission lock
//! while it holds the drain lock, and no callback runs under either.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::core::alloca::CompletionAction;
use crate::core::queue::HostQueue;
use crate::core::semaphore::SignalList;
use crate::core::submit::{self, operation::Resources};
use crate::ffi::Status;
use crate::ring::completed_epoch;

/// What the completion of one epoch brings about.
#[derive(Debug)]
pub struct Record {
    /// Semaphores to advance.
    pub signals: SignalList,
    /// Objects to release.
    pub keep: Resources,
    /// What happens before the semaphores advance.
    pub action: CompletionAction,
    /// Kernarg ring position to reclaim up to.
    pub kernarg_end: u64,
}

impl Record {
    /// The record of a part that signals nothing: more parts of its operation follow.
    pub fn part(kernarg_end: u64) -> Self {
        Self { signals: SignalList::default(), keep: Resources::new(), action: CompletionAction::None, kernarg_end }
    }

    fn complete(self, queue: &HostQueue, epoch: u64) {
        self.action.complete(queue.axis(), epoch);
        self.signals.publish(queue.axis(), epoch);
    }

    fn fail(self, failure: &Status) {
        self.action.fail();
        self.signals.fail(failure.clone());
    }
}

/// Handles every epoch that is complete now.
pub fn drain(queue: &HostQueue) {
    let completed = completed_epoch(queue.epoch_value());
    drain_through(queue, completed, |record, epoch| record.complete(queue, epoch));
}

/// Takes out the records up to epoch `completed`, in batches, and hands each to `finish` outside the drain lock.
fn drain_through(queue: &HostQueue, completed: u64, finish: impl Fn(Record, u64)) {
    loop {
        let mut batch: SmallVec<[(u64, Record); 8]> = SmallVec::new();
        {
            let _drain = queue.lock_drain();
            while batch.len() < batch.inline_size() {
                // SAFETY: the drain lock is held.
                let Some(entry) = (unsafe { queue.records().pop(completed) }) else { break };
                batch.push(entry);
            }
            // In the order of epochs, so under the lock.
            if let Some((_, last)) = batch.last() {
                queue.reclaim_kernargs(last.kernarg_end);
            }
        }
        let Some((epoch, _)) = batch.last() else { return };
        queue.advance_frontier(*epoch);
        for (epoch, record) in batch {
            finish(record, epoch);
        }
    }
}

/// The completion thread's life.
pub fn run(queue: &Arc<HostQueue>) {
    loop {
        // Read before draining, and waited on after it: what completes in between, or before this thread first ran, is not missed.
        let seen = queue.epoch_value();
        drain(queue);
        if let Some(failure) = queue.failure() {
            drain_through(queue, u64::MAX, |record, _| record.fail(failure));
        }
        let mut parked = Vec::new();
        for ready in queue.take_ready() {
            parked.extend(submit::resume(queue, ready));
        }
        queue.park(parked);
        if queue.is_stopping() && queue.is_idle() {
            return;
        }
        queue.wait_for_event(seen);
    }
}
