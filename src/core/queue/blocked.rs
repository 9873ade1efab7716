// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Submissions that wait for memory of a pool.
//!
//! A blocked submission listens to a frontier tracker or to the notification of a pool. The thread that ends its wait
//! puts it on its queue's ready list, for the completion thread. Until then it is on the queue's list of blocked
//! submissions, so that the loss or the end of the device ends the wait. No thread is held and none polls.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::deferred::Resumption;
use amdgpu_ffi::frontier::FrontierListening;
use amdgpu_ffi::pool::{NotificationRef, Observation, ReleaseListening};
use amdgpu_ffi::{Frontier, Listener, Result, Status};

/// A submission that waits for memory.
pub struct Blocked {
    /// None once the wait is over.
    resumption: Mutex<Option<Resumption>>,
    /// The listening to a frontier tracker, if the submission waits for a frontier.
    listening: Mutex<Option<FrontierListening>>,
}

/// The listeners to pools for the blocked submissions of a queue. There is one for each notification, because its
/// proactor has room for a limited number of waits.
#[derive(Debug, Default)]
pub struct Releases(Mutex<Vec<Arc<PoolRelease>>>);

/// Submissions that wait for a release to pools of one notification.
#[derive(Debug)]
struct PoolRelease {
    all: Arc<Releases>,
    notification: NotificationRef,
    /// Changes under the lock of `all`.
    waiting: Mutex<Vec<Arc<Blocked>>>,
    listening: Mutex<Option<ReleaseListening>>,
}

impl Releases {
    /// Ends the wait of `blocked` at the next release, or now if there was one since `observation` began.
    fn join(self: &Arc<Self>, observation: Observation, blocked: &Arc<Blocked>) {
        let release = {
            let mut releases = self.0.lock();
            let notification = observation.notification();
            if let Some(release) =
                releases.iter().find(|release| release.notification.as_ptr() == notification.as_ptr())
            {
                // It began to listen before, and hears of all that this would.
                release.waiting.lock().push(blocked.clone());
                return;
            }
            let (waiting, listening) = (Mutex::new(vec![blocked.clone()]), Mutex::default());
            let release = PoolRelease { all: self.clone(), notification: notification.clone(), waiting, listening };
            releases.push(Arc::new(release));
            releases[releases.len() - 1].clone()
        };
        match observation.listen(release.clone()) {
            Ok(listening) => *release.listening.lock() = Some(listening),
            Err(status) => release.reached(Err(status)),
        }
    }

    /// Stops listening.
    pub(super) fn end(&self) {
        for release in std::mem::take(&mut *self.0.lock()) {
            let listening = release.listening.lock().take();
            drop(listening);
        }
    }
}

impl Listener for PoolRelease {
    fn reached(self: Arc<Self>, result: Result<()>) {
        let waiting = {
            let mut releases = self.all.0.lock();
            releases.retain(|release| !Arc::ptr_eq(release, &self));
            std::mem::take(&mut *self.waiting.lock())
        };
        for blocked in waiting {
            blocked.end(result.clone());
        }
    }
}

impl std::fmt::Debug for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocked").field("resumption", &*self.resumption.lock()).finish()
    }
}

impl Blocked {
    /// Lets the submission go on when its pool has got something back since `observation` began.
    pub fn until_release(resumption: Resumption, observation: Observation) {
        let releases = resumption.queue().backlog.releases.clone();
        Self::begin(resumption, |blocked| releases.join(observation, blocked));
    }

    /// Lets the submission go on when `frontier` has passed.
    pub fn until_passed(resumption: Resumption, frontier: &Frontier) {
        let shared = resumption.queue().shared().clone();
        Self::begin(resumption, |blocked| match shared.groups.listen(frontier, blocked) {
            Ok(listening) => *blocked.listening.lock() = Some(listening),
            Err(status) => blocked.end(Err(status)),
        });
    }

    fn begin(resumption: Resumption, listen: impl FnOnce(&Arc<Self>)) {
        let queue = resumption.queue().clone();
        let blocked = Arc::new(Self { resumption: Mutex::new(Some(resumption)), listening: Mutex::default() });
        queue.backlog.blocked.lock().insert(blocked.key(), blocked.clone());
        listen(&blocked);
        // The queue may have ended all that was blocked before this was on the list, or listened.
        queue.end_blocked();
    }

    /// The key of the submission on the queue's list: its address.
    fn key(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }

    /// Resumes the submission: its wait is over.
    fn end(self: &Arc<Self>, result: Result<()>) {
        let Some(resumption) = self.resumption.lock().take() else { return };
        let queue = resumption.queue().clone();
        resumption.resume(result);
        // Only now: a queue that stops finds the submission in one place or the other.
        let removed = queue.backlog.blocked.lock().remove(&self.key());
        drop(removed);
        if queue.is_stopping() {
            queue.wakeup.call();
        }
    }

    /// Ends the wait with `failure`, unless it is over, and stops listening.
    pub(super) fn cancel(self: &Arc<Self>, failure: Status) {
        self.end(Err(failure));
        let listening = self.listening.lock().take();
        drop(listening);
    }
}

impl Listener for Blocked {
    fn reached(self: Arc<Self>, result: Result<()>) {
        self.end(result);
    }
}
