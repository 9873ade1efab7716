// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The right to take the records of complete epochs out of a queue, which one thread has at a time.

use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};

use crate::groups::Seen;

/// The drain of a queue. The thread that has begun it has the device groups known to the last drain, until it ends it.
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

impl State {
    fn begin(&mut self) -> Seen {
        self.by = Some(std::thread::current().id());
        std::mem::take(&mut self.groups)
    }
}

impl Drain {
    /// Waits until no thread drains, and begins.
    pub(super) fn begin(&self) -> Seen {
        let mut state = self.state.lock();
        while state.by.is_some() {
            self.drained.wait(&mut state);
        }
        state.begin()
    }

    /// Begins, unless another thread drains.
    pub(super) fn try_begin(&self) -> Option<Seen> {
        let mut state = self.state.lock();
        state.by.is_none().then(|| state.begin())
    }

    /// As [`Self::try_begin`]; if it is none, the other thread is asked to call the submission thread at its end.
    pub(super) fn try_begin_or_ask(&self) -> Option<Seen> {
        let mut state = self.state.lock();
        state.asked |= state.by.is_some();
        state.by.is_none().then(|| state.begin())
    }

    /// Ends this thread's drain, which knew of `groups`. Returns true if the submission thread is to be called.
    pub(super) fn end(&self, groups: Seen) -> bool {
        let mut state = self.state.lock();
        state.by = None;
        state.groups = groups;
        let asked = std::mem::take(&mut state.asked);
        drop(state);
        self.drained.notify_all();
        asked
    }

    /// True if this thread drains: it is in a completion callback.
    pub(super) fn is_by_this_thread(&self) -> bool {
        self.state.lock().by == Some(std::thread::current().id())
    }

    /// Waits until no thread drains and `is_drained`. Does not wait in a completion callback.
    pub(super) fn wait_until(&self, is_drained: impl Fn() -> bool) {
        let this_thread = std::thread::current().id();
        let mut state = self.state.lock();
        while state.by != Some(this_thread) && (state.by.is_some() || !is_drained()) {
            self.drained.wait(&mut state);
        }
    }

    /// True if no thread drains and `is_drained`. Otherwise the draining thread is asked to call the submission thread.
    pub(super) fn is_quiet(&self, is_drained: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        state.asked |= state.by.is_some();
        state.by.is_none() && is_drained()
    }
}
