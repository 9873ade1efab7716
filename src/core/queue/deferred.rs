// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that wait for something only the host can see.
//!
//! A deferred submission owns its operation and semaphores and hangs on one timepoint for each wait that was not reached. Whoever resolves
//! the last one puts it on its queue's ready list and wakes the queue's completion thread, which submits it. Timepoint callbacks run on
//! whatever thread signals a semaphore, so they do no more than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::core::queue::Queue;
use crate::core::queue::operation::Operation;
use crate::core::queue::timeline::SignalList;
use crate::core::queue::waits::EpochWaits;
use crate::ffi::{Result, SemaphoreList, SemaphoreRef, Status, Timepoint};

/// Work that runs on a host thread once its waits are reached (host calls, file transfers). It takes the semaphores to signal.
pub type HostTask = Box<dyn FnOnce(SignalList) + Send>;

/// What runs once the waits are reached.
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

/// A submission whose waits are over, or that waits for room in a ring.
#[derive(Debug)]
pub struct Ready {
    /// What to run.
    pub work: Work,
    /// Waits that become packets in front of it.
    pub waits: EpochWaits,
    /// What to signal.
    pub signals: SignalList,
    /// Why it must not run: the failure of a wait.
    pub failure: Option<Status>,
    /// What is submitted after it stays behind it: it waits for room in a ring.
    pub place: Option<PlaceInLine>,
}

impl Ready {
    /// Whether it wants room in the rings.
    pub fn wants_room(&self) -> bool {
        self.failure.is_none() && matches!(self.work, Work::Packets(_))
    }
}

/// One that waits for room in the rings of a queue. As long as there are any, others do not overtake them: what is small would else keep
/// what is large from ever finding room.
#[derive(Debug)]
pub struct PlaceInLine(Arc<AtomicUsize>);

impl PlaceInLine {
    /// Another one, counted in `line`.
    pub fn new(line: &Arc<AtomicUsize>) -> Self {
        line.fetch_add(1, Ordering::Relaxed);
        Self(line.clone())
    }
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A submission that waits for something other than semaphores and rings. Dropped, it fails its semaphores.
#[derive(Debug)]
pub struct Resumption {
    queue: Arc<Queue>,
    ready: Ready,
}

impl Resumption {
    pub(super) fn new(queue: Arc<Queue>, ready: Ready) -> Self {
        Self { queue, ready }
    }

    /// The queue it is for.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Lets the submission go on, or fail when what it waited for failed.
    pub fn resume(mut self, result: Result<()>) {
        self.ready.failure = result.err();
        self.queue.add_ready(self.ready);
    }
}

/// A submission with waits outstanding.
#[derive(Debug)]
pub struct Deferred {
    /// Unique in the process, in the order of submission.
    id: u64,
    queue: Arc<Queue>,
    /// Waits outstanding, and one more while they are being armed.
    outstanding: AtomicUsize,
    ready: Mutex<Option<Ready>>,
    timepoints: Mutex<Vec<(SemaphoreRef, Timepoint)>>,
}

impl Deferred {
    /// Arms a timepoint for each wait; the work becomes ready on `queue` when all are reached or one fails. The queue keeps the
    /// submission on its list of deferred ones, so that shutdown can cancel it.
    ///
    /// # Errors
    /// Nothing was armed, and `work` and `signals` are dropped without touching the semaphores.
    pub fn arm(queue: &Arc<Queue>, work: Work, waits: SemaphoreList<'_>, signals: SignalList) -> Result<()> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let deferred = Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            queue: queue.clone(),
            outstanding: AtomicUsize::new(1),
            ready: Mutex::new(Some(Ready { work, waits: EpochWaits::new(), signals, failure: None, place: None })),
            timepoints: Mutex::new(Vec::with_capacity(waits.len())),
        });
        queue.add_deferred(deferred.clone());
        for (semaphore, value) in waits.iter() {
            deferred.outstanding.fetch_add(1, Ordering::Relaxed);
            let callback = deferred.clone();
            match Timepoint::acquire(semaphore, value, move |result| callback.resolved(result)) {
                Ok(timepoint) => deferred.timepoints.lock().push((semaphore.retain(), timepoint)),
                // The callback was dropped unfired: this wait is resolved here.
                Err(status) => deferred.resolved(Err(status)),
            }
        }
        // The queue may have been told to stop when not all timepoints were there to be cancelled.
        if queue.is_stopping() {
            deferred.cancel();
        }
        deferred.resolved(Ok(()));
        Ok(())
    }

    /// Unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// One wait is over.
    fn resolved(self: &Arc<Self>, result: Result<()>) {
        if let Err(status) = result
            && let Some(ready) = self.ready.lock().as_mut()
        {
            ready.failure.get_or_insert(status);
        }
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            let ready = self.ready.lock().take();
            if let Some(ready) = ready {
                self.queue.add_ready(ready);
            }
            // Only now: a queue that stops, or its completion thread, finds the submission in one place or the other.
            self.queue.remove_deferred(self);
        }
    }

    /// Cancels the waits that are still outstanding; the submission becomes ready with the failure CANCELLED.
    pub fn cancel(self: &Arc<Self>) {
        let timepoints = std::mem::take(&mut *self.timepoints.lock());
        for (semaphore, timepoint) in timepoints {
            if timepoint.cancel(semaphore.borrow()) {
                self.resolved(Err(crate::status!(
                    CANCELLED,
                    "the device was destroyed while the operation waited for its semaphores"
                )));
            }
        }
    }
}
