// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The driver's record of its semaphores beyond IREE's timeline: the submissions that will advance them next.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::core::queue::Queue;
use crate::core::queue::last_signal::{LastSignal, LastSignalCell};
use crate::core::queue::shared::DeviceQueues;
use crate::ffi::{Listener, Result, Semaphore, SemaphoreList, SemaphoreRef, Status, Timepoint, fallible};

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

    #[inline(always)]
    fn note(&self, signal: LastSignal) {
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

/// Semaphores, retained, and the payloads they are to reach. If dropped before they were signaled or failed, it fails
/// them: lost work must not leave waiters behind.
#[derive(Debug, Default)]
pub struct SignalList {
    /// Usually the only one.
    first: Option<(SemaphoreRef, u64)>,
    more: More,
}

/// The signals of a list after the first.
type More = SmallVec<[(SemaphoreRef, u64); 1]>;

impl SignalList {
    /// The number of semaphores that need no memory of their own.
    pub const FEW: usize = 2;

    /// Retains the semaphores of `list`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    #[inline(always)]
    pub fn retain(list: SemaphoreList<'_>) -> Result<Self> {
        if list.len() > Self::FEW { Self::retain_many(list) } else { Ok(Self::retain_few(list)) }
    }

    /// Retains the semaphores of `list`, of which there are at most [`Self::FEW`].
    #[inline(always)]
    pub fn retain_few(list: SemaphoreList<'_>) -> Self {
        debug_assert!(list.len() <= Self::FEW);
        let mut each = list.iter();
        let first = each.next().map(|(semaphore, value)| (semaphore.retain(), value));
        Self { first, more: if each.len() > 0 { Self::retain_more(each) } else { SmallVec::new() } }
    }

    #[inline(never)]
    fn retain_more<'a>(list: impl Iterator<Item = (Semaphore<'a>, u64)>) -> More {
        list.map(|(semaphore, value)| (semaphore.retain(), value)).collect()
    }

    #[cold]
    #[inline(never)]
    fn retain_many(list: SemaphoreList<'_>) -> Result<Self> {
        let mut more = SmallVec::new();
        fallible::make_room(&mut more, list.len())?;
        more.extend(list.iter().map(|(semaphore, value)| (semaphore.retain(), value)));
        Ok(Self { first: None, more })
    }

    /// Advances the semaphores: device work of epoch `epoch` on `axis` is complete.
    pub fn publish(mut self, axis: u64, epoch: u64) {
        for (semaphore, value) in self.drain() {
            if let Err(status) = semaphore.borrow().publish(value, axis, epoch) {
                semaphore.borrow().fail(status);
            }
        }
    }

    /// Advances the semaphores from the host.
    pub fn signal(mut self) {
        for (semaphore, value) in self.drain() {
            if let Err(status) = semaphore.borrow().signal(value) {
                semaphore.borrow().fail(status);
            }
        }
    }

    /// Fails the semaphores, each with its own copy of `status`.
    pub fn fail(mut self, status: Status) {
        for (semaphore, _) in self.drain() {
            semaphore.borrow().fail(status.clone());
        }
    }

    /// Releases the semaphores without signaling them: another owner signals them.
    pub fn release_unsignaled(mut self) {
        drop(self.drain());
    }

    /// The semaphores and payloads.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&SemaphoreRef, u64)> {
        self.first.iter().chain(&self.more).map(|(semaphore, value)| (semaphore, *value))
    }

    /// Takes the signals out.
    fn drain(&mut self) -> impl Iterator<Item = (SemaphoreRef, u64)> {
        self.first.take().into_iter().chain(self.more.drain(..))
    }
}

/// Records on `semaphore` that epoch `epoch` of `queue` will bring it to `value`.
#[inline(always)]
pub fn note_submitted(semaphore: Semaphore<'_>, value: u64, queue: &Queue, epoch: u64) {
    if let Some(timeline) = queue.timeline_of(semaphore) {
        timeline.note(LastSignal { queue: queue.ordinal(), epoch, value });
    }
}

impl Drop for SignalList {
    fn drop(&mut self) {
        for (semaphore, _) in self.drain() {
            semaphore.borrow().fail(crate::status!(CANCELLED, "the operation was dropped before it ran"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::queue::semaphore::timeline;
    use crate::ffi::Code;
    use crate::testing::{List, Rig};

    #[test]
    fn work_that_is_dropped_fails_its_semaphores() {
        let rig = Rig::new();
        let semaphore = rig.semaphore();
        let list = List::new(&[(&semaphore, 1)]);
        let list = list.raw();
        // SAFETY: the list and its semaphore live as long as this.
        let list = unsafe { SemaphoreList::from_raw(&list) }.unwrap();
        SignalList::retain(list).unwrap().release_unsignaled();
        assert_eq!(semaphore.borrow().query().unwrap(), 0, "whoever forgets them leaves them to somebody else");
        drop(SignalList::retain(list).unwrap());
        assert_eq!(semaphore.borrow().query().unwrap_err().code(), Code::CANCELLED);
    }

    #[test]
    fn a_payload_is_brought_by_the_submission_that_promised_it() {
        let rig = Rig::new();
        let semaphore = rig.semaphore();
        let timeline = timeline(semaphore.borrow()).unwrap();
        for (epoch, value) in [(5, 1), (7, 3), (6, 2)] {
            timeline.note(LastSignal { queue: 0, epoch, value });
        }
        let submission_of = |value| timeline.submission_of(value).map(|(_, epoch)| epoch);
        assert_eq!([1, 2, 3, 4].map(submission_of), [None, Some(7), Some(7), None]);
    }
}
