// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The driver's record of its semaphores beyond IREE's timeline: the submissions that will advance them next.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::Queue;
use crate::device_queues::DeviceQueues;
use crate::last_signal::{LastSignal, LastSignalCell};
use amdgpu_ffi::{Listener, Result, Timepoint};

/// The driver's part of a semaphore: its newest submission.
#[derive(Debug)]
pub struct Timeline {
    device_id: u64,
    queues: Weak<DeviceQueues>,
    pending: LastSignalCell,
}

impl Timeline {
    /// The part for a semaphore of the logical device `device_id`.
    pub fn new(device_id: u64, queues: Weak<DeviceQueues>) -> Self {
        Self { device_id, queues, pending: LastSignalCell::default() }
    }

    /// The queue and epoch of the submission that brings the semaphore to `value`, if it is the newest one and in a
    /// ring. None if the queue is stopping.
    pub fn submission_of(&self, value: u64) -> Option<(Arc<Queue>, u64)> {
        let (newest, before) = self.pending.read()?;
        if value <= before || value > newest.value {
            return None;
        }
        let queues = self.queues.upgrade()?;
        let queue = queues.list().get(newest.queue as usize)?.clone();
        (!queue.is_stopping()).then_some((queue, newest.epoch))
    }

    /// The logical device that made the semaphore.
    #[inline]
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// The newest submission that signals the semaphore, when a queue of its own device made one.
    #[inline]
    pub fn last_signal(&self) -> Option<LastSignal> {
        self.pending.read().map(|(newest, _)| newest)
    }

    /// Records a submission that signals the semaphore.
    #[inline(always)]
    pub fn note(&self, signal: LastSignal) {
        self.pending.write(signal);
    }
}

/// A host thread that sleeps until a semaphore reaches a payload or fails, which a timepoint reports.
#[derive(Debug, Default)]
pub struct Waiter {
    is_over: Mutex<bool>,
    over: Condvar,
    timepoint: Timepoint,
}

impl Listener for Waiter {
    fn reached(self: Arc<Self>, _result: Result<()>) {
        *self.is_over.lock() = true;
        self.over.notify_one();
    }
}

impl Waiter {
    /// The timepoint for the semaphore.
    pub fn timepoint(&self) -> &Timepoint {
        &self.timepoint
    }

    /// Waits until the timepoint was reached or `deadline` has passed.
    pub fn wait(&self, deadline: Option<Instant>) {
        let mut is_over = self.is_over.lock();
        while !*is_over {
            match deadline {
                None => self.over.wait(&mut is_over),
                Some(deadline) if self.over.wait_until(&mut is_over, deadline).timed_out() => return,
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semaphore::timeline;
    use crate::testing::Rig;

    #[test]
    fn a_payload_is_brought_by_the_submission_that_promised_it() {
        let rig = Rig::open();
        let semaphore = rig.semaphore();
        let timeline = timeline(semaphore.borrow()).unwrap();
        for (epoch, value) in [(5, 1), (7, 3), (6, 2)] {
            timeline.note(LastSignal { queue: 0, epoch, value });
        }
        let submission_of = |value| timeline.submission_of(value).map(|(_, epoch)| epoch);
        assert_eq!([1, 2, 3, 4].map(submission_of), [None, Some(7), Some(7), None]);
    }
}
