// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The right to take the records of complete epochs out of a queue, which one thread has at a time.

use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};

use crate::core::queue::Queue;
use crate::core::queue::groups::Seen;

/// The drain of a queue.
#[derive(Debug, Default)]
pub(super) struct Drain {
    state: Mutex<State>,
    drained: Condvar,
}

/// The state of the drain.
#[derive(Debug, Default)]
struct State {
    by: Option<ThreadId>,
    /// The submission thread is to be called at the end of the current drain.
    asked: bool,
    /// The device groups known to the last drain. Taken by the draining thread during a drain.
    groups: Seen,
}

/// The right to take records out. One thread has it at a time, so that the host sees epochs in order.
#[derive(Debug)]
pub struct DrainGuard<'a> {
    queue: &'a Queue,
    groups: Seen,
    /// Records were taken out.
    has_progress: bool,
}

impl<'a> DrainGuard<'a> {
    fn new(queue: &'a Queue, state: &mut State) -> Self {
        state.by = Some(std::thread::current().id());
        Self { queue, groups: std::mem::take(&mut state.groups), has_progress: false }
    }

    /// The queue that is drained.
    #[inline]
    pub fn queue(&self) -> &'a Queue {
        self.queue
    }

    /// Notes that records were taken out: submissions may wait for their ring space.
    #[inline]
    pub fn note_progress(&mut self) {
        self.has_progress = true;
    }

    /// Reports the completion of `epoch` to the device's groups. Calls their waiters back.
    #[inline]
    pub fn report_to_groups(&mut self, epoch: u64) {
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
        let mut drain = queue.drain.state.lock();
        drain.by = None;
        drain.groups = std::mem::take(&mut self.groups);
        let asked = std::mem::take(&mut drain.asked);
        drop(drain);
        queue.drain.drained.notify_all();
        // Behind the lock, under which the submission thread looked whether anything was in flight.
        if asked || self.has_progress && (queue.has_ring_waiters() || queue.is_stopping()) {
            queue.wakeup.call();
        }
    }
}

impl Queue {
    /// Waits for the right to take records out and takes it.
    pub fn begin_drain(&self) -> DrainGuard<'_> {
        let mut drain = self.drain.state.lock();
        while drain.by.is_some() {
            self.drain.drained.wait(&mut drain);
        }
        DrainGuard::new(self, &mut drain)
    }

    /// The right to take records out; none while another thread has it.
    pub fn try_drain(&self) -> Option<DrainGuard<'_>> {
        let mut drain = self.drain.state.lock();
        drain.by.is_none().then(|| DrainGuard::new(self, &mut drain))
    }

    /// As [`Self::try_drain`]; if it is none, the submission thread is called at the end of the other thread's drain.
    pub fn try_drain_or_ask(&self) -> Option<DrainGuard<'_>> {
        let mut drain = self.drain.state.lock();
        drain.asked |= drain.by.is_some();
        drain.by.is_none().then(|| DrainGuard::new(self, &mut drain))
    }

    /// True if this thread has the right to take records out: it is in a completion callback.
    pub fn is_drained_by_this_thread(&self) -> bool {
        self.drain.state.lock().by == Some(std::thread::current().id())
    }

    /// Waits until everything pushed before is taken out and handled. Does not wait in a completion callback.
    pub fn wait_until_drained(&self) {
        let epoch = self.rings.records.last_epoch();
        let this_thread = std::thread::current().id();
        let mut drain = self.drain.state.lock();
        while drain.by != Some(this_thread) && (drain.by.is_some() || self.rings.records.drained_epoch() < epoch) {
            self.drain.drained.wait(&mut drain);
        }
    }

    /// True if all records were taken out.
    fn is_drained(&self) -> bool {
        self.rings.records.drained_epoch() == self.rings.records.last_epoch()
    }

    /// True if nothing is in flight or being completed. Otherwise the submission thread is called at the end of a drain
    /// if submissions wait for ring space or the queue is stopping.
    pub fn is_quiet(&self) -> bool {
        let mut drain = self.drain.state.lock();
        drain.asked |= drain.by.is_some();
        drain.by.is_none() && self.is_drained()
    }

    /// True when nothing is in flight, being completed, ready, deferred or blocked.
    pub fn is_idle(&self) -> bool {
        // A submission is ready before it is not deferred or blocked any more.
        self.is_quiet()
            && self.backlog.deferred.lock().is_empty()
            && self.backlog.blocked.lock().is_empty()
            && self.backlog.ready.lock().is_empty()
    }
}
