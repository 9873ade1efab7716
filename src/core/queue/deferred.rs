// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that wait for semaphores that only the host can see.
//!
//! A deferred submission owns its operation and semaphores. It has one timepoint for each wait that was not reached.
//! The thread that resolves the last timepoint puts the submission on its queue's ready list and calls the queue's
//! submission thread, which submits it; host work goes to the host worker. Timepoint callbacks run on whatever thread
//! signals a semaphore, so they do no more than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::Queue;
use crate::epoch_wait::EpochWaits;
use crate::host_worker::HostTask;
use crate::operation::Operation;
use crate::retained::RetainedSet;
use crate::signal_list::SignalList;
use amdgpu_ffi::{
    Fallible, Listener, Result, Semaphore, SemaphoreList, SemaphoreRef, Status, Timepoint, fallible, zone,
};

/// The work of a submission, to run once its waits are reached.
pub enum Work {
    /// Goes to the hardware queue.
    Packets(Box<dyn Operation>),
    /// Goes to the host worker.
    Host(HostTask),
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Packets(_) => "Packets",
            Self::Host(_) => "Host",
        })
    }
}

/// A submission whose waits are over, or that waits for ring space.
#[derive(Debug)]
pub struct PendingSubmission {
    /// The work.
    pub work: Work,
    /// Waits that become packets in front of it.
    pub waits: EpochWaits,
    /// The semaphores to signal.
    pub signals: SignalList,
    /// The objects that the work keeps alive; none if it was not asked for them yet.
    pub retained: Option<RetainedSet>,
    /// The failure of a wait: the work must not run.
    pub failure: Option<Status>,
    /// Set while the submission waits for ring space: later submissions must not overtake it.
    pub waiter: Option<RingWaiter>,
}

impl PendingSubmission {
    /// True if the submission needs ring space.
    pub fn wants_room(&self) -> bool {
        self.failure.is_none() && matches!(self.work, Work::Packets(_))
    }
}

/// Counts a submission that waits for ring space while it lives. While there are any, later submissions do not overtake
/// them: otherwise small submissions could keep a large one out of the rings for ever.
#[derive(Debug)]
pub struct RingWaiter(Arc<AtomicUsize>);

impl RingWaiter {
    /// Counts one more submission in `waiters`.
    pub fn new(waiters: &Arc<AtomicUsize>) -> Self {
        waiters.fetch_add(1, Ordering::Relaxed);
        Self(waiters.clone())
    }
}

impl Drop for RingWaiter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A submission that waits for something other than semaphores and rings. Dropped, it fails its semaphores.
#[derive(Debug)]
pub struct Resumption {
    queue: Arc<Queue>,
    ready: PendingSubmission,
}

impl Resumption {
    pub(super) fn new(queue: Arc<Queue>, ready: PendingSubmission) -> Self {
        Self { queue, ready }
    }

    /// The queue of the submission.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Resumes the submission; fails it if `result` is a failure.
    pub fn resume(mut self, result: Result<()>) {
        self.ready.failure = result.err();
        self.queue.add_ready(self.ready);
    }
}

/// A submission with outstanding waits.
#[derive(Debug)]
pub struct Deferred {
    queue: Arc<Queue>,
    /// The index of the submission in the queue's list of deferred submissions, under whose lock it is used.
    place: AtomicUsize,
    /// Outstanding waits, plus one while they are being armed.
    outstanding: AtomicUsize,
    ready: Mutex<Option<PendingSubmission>>,
    waits: SmallVec<[Wait; 2]>,
}

/// One wait of a deferred submission.
#[derive(Debug)]
struct Wait {
    semaphore: SemaphoreRef,
    value: u64,
    timepoint: Timepoint,
}

impl Deferred {
    /// Puts the work that `make` gives on the ready list of `queue` when all `waits` are reached or one fails.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, or the error of `make`; the signal semaphores are untouched.
    pub fn arm_all(
        queue: &Arc<Queue>,
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
        make: impl FnOnce() -> Result<Work>,
    ) -> Result<()> {
        zone!("defer");
        let (work, mut list) = (make()?, SmallVec::new());
        fallible::make_room(&mut list, waits.len())?;
        let signals = SignalList::retain(signals)?;
        let wait = |(semaphore, value): (Semaphore<'_>, u64)| Wait {
            semaphore: semaphore.retain(),
            value,
            timepoint: Timepoint::default(),
        };
        list.extend(waits.iter().map(wait));
        let deferred = Arc::new(Self {
            queue: queue.clone(),
            place: AtomicUsize::new(0),
            outstanding: AtomicUsize::new(1),
            ready: Mutex::new(Some(PendingSubmission {
                work,
                waits: EpochWaits::new(),
                signals,
                retained: None,
                failure: None,
                waiter: None,
            })),
            waits: list,
        });
        // Where shutdown finds it.
        let inserted = queue.backlog.deferred.lock().insert(&deferred);
        if let Err(status) = inserted {
            if let Some(ready) = deferred.ready.lock().take() {
                ready.signals.release_unsignaled();
            }
            return Err(status);
        }
        deferred.arm();
        Ok(())
    }

    /// Arms a timepoint for each wait.
    fn arm(self: Arc<Self>) {
        for (index, wait) in self.waits.iter().enumerate() {
            self.outstanding.fetch_add(1, Ordering::Relaxed);
            let (semaphore, value) = (wait.semaphore.borrow(), wait.value);
            // Refused or cancelled, this wait is resolved here.
            if let Err(status) = Timepoint::acquire(&self, |it| &it.waits[index].timepoint, semaphore, value) {
                self.resolved(Err(status));
            }
        }
        // The queue may have been told to stop before the submission was on its list.
        if self.queue.is_stopping() {
            self.cancel();
        }
        self.resolved(Ok(()));
    }

    /// The index of the submission in the queue's list.
    pub fn place(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    /// Ends one wait. If it failed, ends the other waits, too.
    fn resolved(self: &Arc<Self>, result: Result<()>) {
        if let Err(status) = result
            && self.note_failure(status)
        {
            self.end_waits(|| Ok(()));
        }
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            let ready = self.ready.lock().take();
            if let Some(ready) = ready {
                self.go_on(ready);
            }
            // Only now: a queue that stops, or its submission thread, finds the submission in one place or the other.
            let removed = self.queue.backlog.deferred.lock().remove(self);
            // It may hold the last reference to the queue: not under the lock.
            drop(removed);
            if self.queue.is_stopping() {
                // The submission thread may have gone on with it already, and wait for this.
                self.queue.wakeup.call();
            }
        }
    }

    /// Keeps the first failure. Returns true if `status` is the first.
    fn note_failure(&self, status: Status) -> bool {
        let mut ready = self.ready.lock();
        let Some(ready) = ready.as_mut().filter(|ready| ready.failure.is_none()) else { return false };
        ready.failure = Some(status);
        true
    }

    /// Passes on the submission: all its waits are over. A failed one is failed by the submission thread, because that
    /// may fail submissions that wait for it, and so on.
    fn go_on(&self, ready: PendingSubmission) {
        match ready {
            PendingSubmission { work: Work::Host(task), failure: None, signals, .. }
                if self.queue.failure().is_none() =>
            {
                self.queue.run_on_host(task, signals);
            }
            ready => self.queue.add_ready(ready),
        }
    }

    /// Cancels the outstanding waits; the submission becomes ready with the failure CANCELLED.
    pub fn cancel(self: &Arc<Self>) {
        self.end_waits(|| {
            Err(amdgpu_ffi::status!(
                CANCELLED,
                "the device was destroyed while the operation waited for its semaphores"
            ))
        });
    }

    /// Ends each outstanding wait with the result of `result`. A wait that is being armed ends itself.
    fn end_waits(self: &Arc<Self>, result: impl Fn() -> Result<()>) {
        for (index, wait) in self.waits.iter().enumerate() {
            if Timepoint::cancel(self, |it| &it.waits[index].timepoint, wait.semaphore.borrow()) {
                self.resolved(result());
            }
        }
    }
}

impl Listener for Deferred {
    fn reached(self: Arc<Self>, result: Result<()>) {
        self.resolved(result);
    }
}

/// The deferred submissions of a queue, by index.
#[derive(Debug, Default)]
pub(super) struct DeferredList {
    places: Vec<Option<Arc<Deferred>>>,
    free: Vec<usize>,
}

impl DeferredList {
    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }

    /// Puts a deferred submission at a free index, so that shutdown can cancel it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn insert(&mut self, deferred: &Arc<Deferred>) -> Result<()> {
        let Self { places, free } = self;
        let place = match free.pop() {
            Some(place) => place,
            None => {
                places.try_push(None)?;
                // There is none free: room for all of them, which are given back when no error can be.
                free.make_room(places.len()).inspect_err(|_| drop(places.pop()))?;
                places.len() - 1
            }
        };
        deferred.place.store(place, Ordering::Relaxed);
        places[place] = Some(deferred.clone());
        Ok(())
    }

    /// The first deferred submission at `place` or a higher index.
    pub(super) fn first_from(&self, place: usize) -> Option<Arc<Deferred>> {
        self.places.iter().skip(place).flatten().next().cloned()
    }

    /// Removes a deferred submission whose waits are over.
    fn remove(&mut self, deferred: &Deferred) -> Option<Arc<Deferred>> {
        self.free.push(deferred.place());
        self.places[deferred.place()].take()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;
    use amdgpu_ffi::{Code, iree, raw, status};

    #[test]
    fn a_failed_wait_fails_the_submission_although_others_are_outstanding() {
        const SOON_NS: i64 = 10_000_000_000;
        let rig = Rig::open();
        let [early, failing, late, signaled] = [(); 4].map(|()| rig.semaphore());
        rig.barrier(&[(&early, 1), (&failing, 1), (&late, 1)], &[(&signaled, 1)]).unwrap();
        failing.borrow().fail(status!(ABORTED, "on purpose"));
        let soon = raw::iree_timeout_t { type_: raw::IREE_TIMEOUT_RELATIVE, nanos: SOON_NS };
        // SAFETY: the semaphore lives.
        let waited = unsafe { iree!(raw::iree_hal_semaphore_wait(signaled.as_ptr(), 1, soon, 0)) };
        assert_eq!(waited.unwrap_err().code(), Code::ABORTED);
        // The submission's other semaphores know nothing of it any more.
        early.borrow().signal(1).unwrap();
        late.borrow().signal(1).unwrap();
    }
}
