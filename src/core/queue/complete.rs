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
//! [`resume`]: crate::resume

use smallvec::SmallVec;

use crate::Queue;
use crate::groups::Seen;
use crate::record::{CompletionAction, Record};
use amdgpu_ffi::{Frontier, Status, zone};
use amdgpu_ring::completed_epoch;

/// Performs the action of a submission that completed at `epoch` of `queue`.
fn complete_action(action: CompletionAction, queue: &Queue, epoch: u64) {
    match action {
        CompletionAction::None => {}
        CompletionAction::Commit(buffer) => buffer.commit(),
        CompletionAction::Decommit(buffer) => {
            buffer.decommit();
            // The thread that submitted the deallocation may not have come to it yet.
            buffer.release(&Frontier::new([(queue.axis(), epoch)].into_iter()));
            buffer.pool().wake_waiters();
            buffer.end();
        }
        CompletionAction::Gate(gate) => gate.end(),
        CompletionAction::Log(mut trace) => {
            complete_action(trace.take_action(), queue, epoch);
            trace.log_completion((queue.gpu(), queue.ordinal()), &queue.shared().profiler);
            queue.traces.recycle(trace);
        }
    }
}

/// Handles a failed submission. A buffer keeps memory that the GPU may still use until the buffer is destroyed. Memory
/// that a deallocation gave back stays behind an epoch that never passes. A gate keeps its buffers.
fn fail_action(action: CompletionAction, failure: &Status) {
    if let CompletionAction::Log(mut trace) = action {
        fail_action(trace.take_action(), failure);
        trace.log_failure(failure);
    }
}

fn complete_record(record: Record, queue: &Queue, epoch: u64) {
    complete_action(record.action, queue, epoch);
    record.signals.publish(queue.axis(), epoch);
    record.retained.release(&queue.vec_pools);
}

fn fail_record(record: Record, failure: &Status) {
    fail_action(record.action, failure);
    record.signals.fail(failure.clone());
}

/// The right to take records out of a queue. One thread has it at a time, so that the host sees epochs in order. Its
/// drop passes the right on, and calls the submission thread if that was asked for, or waits for ring space.
#[derive(Debug)]
pub struct DrainGuard<'a> {
    queue: &'a Queue,
    groups: Seen,
    /// Records were taken out.
    has_progress: bool,
}

impl<'a> DrainGuard<'a> {
    fn new(queue: &'a Queue, groups: Seen) -> Self {
        Self { queue, groups, has_progress: false }
    }

    /// Waits for the right to take records out and takes it.
    pub fn begin(queue: &'a Queue) -> Self {
        Self::new(queue, queue.drain.begin())
    }

    /// The right to take records out; none while another thread has it.
    pub fn try_begin(queue: &'a Queue) -> Option<Self> {
        queue.drain.try_begin().map(|groups| Self::new(queue, groups))
    }

    /// As [`Self::try_begin`]; if it is none, the submission thread is called at the end of the other thread's drain.
    pub fn try_begin_or_ask(queue: &'a Queue) -> Option<Self> {
        queue.drain.try_begin_or_ask().map(|groups| Self::new(queue, groups))
    }

    /// Reports the completion of `epoch` to the device's groups. Calls their waiters back.
    #[inline]
    fn report_to_groups(&mut self, epoch: u64) {
        self.queue.shared.groups.tell(&mut self.groups, self.queue.ordinal, epoch);
    }

    /// Reports the queue's progress to groups that the device joined since the last drain.
    #[inline]
    pub fn report_to_new_groups(&mut self) {
        if !self.queue.shared.groups.are(&self.groups) {
            self.report_to_groups(self.queue.drained_epoch());
        }
    }
}

impl Drop for DrainGuard<'_> {
    fn drop(&mut self) {
        let queue = self.queue;
        let asked = queue.drain.end(std::mem::take(&mut self.groups));
        // Behind the lock, under which the submission thread looked whether anything was in flight.
        if asked || self.has_progress && (queue.backlog.has_ring_waiters() || queue.is_stopping()) {
            queue.wakeup.call();
        }
    }
}

/// Handles the epochs that are complete now, up to `last`.
pub fn drain(draining: &mut DrainGuard<'_>, last: u64) {
    zone!("drain");
    let queue = draining.queue;
    draining.report_to_new_groups();
    let completed = completed_epoch(queue.epoch.value()).min(last);
    while let Some((epoch, batch)) = take_batch(draining, completed) {
        draining.report_to_groups(epoch);
        for (epoch, record) in batch {
            complete_record(record, queue, epoch);
        }
    }
}

/// Handles the epochs that completed on a lost device and fails all others in flight. If another thread is draining,
/// calls the submission thread after that drain.
pub fn fail_all(queue: &Queue, failure: &Status) {
    if let Some(mut draining) = DrainGuard::try_begin_or_ask(queue) {
        drain(&mut draining, u64::MAX);
    }
    // Nothing is pushed after this, and the hardware releases the records' resources before the records go.
    queue.inactivate();
    queue.shared().groups.fail(queue.ordinal(), failure);
    queue.end_blocked();
    let Some(mut draining) = DrainGuard::try_begin_or_ask(queue) else { return };
    while let Some((_, batch)) = take_batch(&mut draining, u64::MAX) {
        for (_, record) in batch {
            fail_record(record, failure);
        }
    }
}

type Batch = SmallVec<[(u64, Record); 8]>;

/// Takes out the next few records up to epoch `completed`. Returns them with the last one's epoch; none if there are
/// none.
fn take_batch(draining: &mut DrainGuard<'_>, completed: u64) -> Option<(u64, Batch)> {
    let queue = draining.queue;
    let mut batch = Batch::new();
    while batch.len() < batch.inline_size() {
        // SAFETY: the right to drain is one thread's at a time, and passes from one to the next under a lock.
        let Some(entry) = (unsafe { queue.rings.records.pop(completed) }) else { break };
        batch.push(entry);
    }
    let (epoch, last) = batch.last()?;
    queue.rings.reclaim(last.ends);
    draining.has_progress = true;
    Some((*epoch, batch))
}

/// The body of the completion thread.
pub fn run(queue: &Queue) {
    loop {
        // Read before draining, and waited on after it: an epoch that completes in between, or before this thread first
        // ran, is not missed.
        let seen = queue.epoch.value();
        drain(&mut DrainGuard::begin(queue), u64::MAX);
        if queue.epoch.has_ended() {
            return;
        }
        queue.epoch.wait_for_change(seen);
    }
}
