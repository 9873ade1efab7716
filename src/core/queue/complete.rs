// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Completion: epoch signal -> drain -> semaphores -> reclaim. The only module that signals semaphores after device
//! work.
//!
//! Each hardware queue has one completion thread. It sleeps until the epoch signal falls, takes the records of complete
//! epochs out of the notification ring, publishes their semaphores, releases the resources that they retain, and calls
//! the submission thread ([`resume`]) if submissions wait for ring space. Host threads that wait for a semaphore may
//! drain too ([`drain`]), one thread at a time: a thread that sees the semaphore of an epoch sees those of all earlier
//! ones. A host thread stops at the epoch that it waits for, because callbacks of later epochs may take locks that its
//! caller holds. No callback runs under a lock of the driver.
//!
//! [`resume`]: crate::core::queue::resume

use smallvec::SmallVec;

use crate::core::memory::transient::Transient;
use crate::core::queue::Queue;
use crate::core::queue::drain::DrainGuard;
use crate::core::queue::retained::RetainedSet;
use crate::core::queue::timeline::SignalList;
use crate::core::queue::trace::Trace;
use crate::ffi::{Frontier, HalRef, Status, zone};
use crate::ring::completed_epoch;

/// The action of a submission at its completion, before its semaphores advance.
#[derive(Debug)]
pub enum CompletionAction {
    /// Nothing.
    None,
    /// Shows a queue-allocated buffer's memory to the host.
    Commit(HalRef<Transient>),
    /// Takes a queue-allocated buffer's memory away.
    Decommit(HalRef<Transient>),
    /// Logs the submission's profile events and performs its own action.
    Log(Box<Trace>),
}

impl CompletionAction {
    /// The submission completed at `epoch` of `queue`.
    pub fn complete(self, queue: &Queue, epoch: u64) {
        match self {
            Self::None => {}
            Self::Commit(buffer) => buffer.commit(),
            Self::Decommit(buffer) => {
                buffer.decommit();
                // The thread that submitted the deallocation may not have come to it yet.
                buffer.release(&Frontier::new([(queue.axis(), epoch)].into_iter()));
                buffer.pool().wake_waiters();
                buffer.end();
            }
            Self::Log(trace) => trace.complete(queue, epoch),
        }
    }

    /// Handles a failed submission. A buffer keeps memory that the GPU may still use until the buffer is destroyed.
    /// Memory that a deallocation gave back stays behind an epoch that never passes.
    pub fn fail(self, failure: &Status) {
        if let Self::Log(trace) = self {
            trace.fail(failure);
        }
    }
}

/// Positions in a queue's rings behind the space that a submission uses.
#[derive(Debug, Clone, Copy)]
pub struct RingEnds {
    /// In the kernarg ring.
    pub kernargs: u64,
    /// In the ring of PM4 commands.
    pub commands: u64,
}

/// The completion record of one epoch.
#[derive(Debug)]
pub struct Record {
    /// Semaphores to advance.
    pub signals: SignalList,
    /// Objects to release.
    pub retained: RetainedSet,
    /// The action before the semaphores advance.
    pub action: CompletionAction,
    /// Positions to reclaim up to.
    pub ends: RingEnds,
}

impl Record {
    /// The record of a part that signals nothing: more parts of its operation follow.
    pub fn part(ends: RingEnds) -> Self {
        Self { signals: SignalList::default(), retained: RetainedSet::NONE, action: CompletionAction::None, ends }
    }

    fn complete(self, queue: &Queue, epoch: u64) {
        self.action.complete(queue, epoch);
        self.signals.publish(queue.axis(), epoch);
        queue.release(self.retained);
    }

    fn fail(self, failure: &Status) {
        self.action.fail(failure);
        self.signals.fail(failure.clone());
    }
}

/// Handles the epochs that are complete now, up to `last`.
pub fn drain(draining: &mut DrainGuard<'_>, last: u64) {
    zone!("drain");
    let queue = draining.queue();
    draining.report_to_new_groups();
    let completed = completed_epoch(queue.epoch_value()).min(last);
    while let Some((epoch, batch)) = take_batch(draining, completed) {
        draining.report_to_groups(epoch);
        for (epoch, record) in batch {
            record.complete(queue, epoch);
        }
    }
}

/// Handles the epochs that completed on a lost device and fails all others in flight. If another thread is draining,
/// calls the submission thread after that drain.
pub fn fail_all(queue: &Queue, failure: &Status) {
    if let Some(mut draining) = queue.try_drain_or_ask() {
        drain(&mut draining, u64::MAX);
    }
    // Nothing is pushed after this, and the hardware lets go of what the records keep before they go.
    queue.inactivate();
    queue.shared().groups.fail(queue.ordinal(), failure);
    queue.end_blocked();
    let Some(mut draining) = queue.try_drain_or_ask() else { return };
    while let Some((_, batch)) = take_batch(&mut draining, u64::MAX) {
        for (_, record) in batch {
            record.fail(failure);
        }
    }
}

type Batch = SmallVec<[(u64, Record); 8]>;

/// Takes out the next few records up to epoch `completed`. Returns them with the last one's epoch; none if there are
/// none.
fn take_batch(draining: &mut DrainGuard<'_>, completed: u64) -> Option<(u64, Batch)> {
    let queue = draining.queue();
    let mut batch = Batch::new();
    while batch.len() < batch.inline_size() {
        // SAFETY: the right to drain is one thread's at a time, and passes from one to the next under a lock.
        let Some(entry) = (unsafe { queue.records().pop(completed) }) else { break };
        batch.push(entry);
    }
    let (epoch, last) = batch.last()?;
    queue.reclaim(last.ends);
    draining.note_progress();
    Some((*epoch, batch))
}

/// The body of the completion thread.
pub fn run(queue: &Queue) {
    loop {
        // Read before draining, and waited on after it: what completes in between, or before this thread first ran, is
        // not missed.
        let seen = queue.epoch_value();
        drain(&mut queue.begin_drain(), u64::MAX);
        if queue.has_ended() {
            return;
        }
        queue.wait_for_change(seen);
    }
}
