// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Who takes the records of complete epochs out: one thread at a time.

use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};

use crate::core::queue::Queue;

/// The right to take a queue's records out.
#[derive(Debug, Default)]
pub(super) struct Drain {
    state: Mutex<State>,
    drained: Condvar,
}

/// Whether a thread takes records out, and whether another one has asked to meanwhile.
#[derive(Debug, Default)]
struct State {
    by: Option<ThreadId>,
    asked: bool,
}

/// The right to take records out, of one thread at a time, so that epochs come to the host in their order.
#[derive(Debug)]
pub struct Draining<'a>(&'a Queue);

impl<'a> Draining<'a> {
    /// The queue whose records they are.
    pub fn queue(&self) -> &'a Queue {
        self.0
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        let mut drain = self.0.drain.state.lock();
        drain.by = None;
        let asked = std::mem::take(&mut drain.asked);
        drop(drain);
        self.0.drain.drained.notify_all();
        if asked {
            self.0.wake();
        }
    }
}

impl Queue {
    /// The right to take records out; none while another thread has it, which then wakes the completion thread when it
    /// is done.
    pub fn begin_drain(&self) -> Option<Draining<'_>> {
        let mut drain = self.drain.state.lock();
        if drain.by.is_some() {
            drain.asked = true;
            return None;
        }
        drain.by = Some(std::thread::current().id());
        Some(Draining(self))
    }

    /// As [`Self::begin_drain`], for who only lends a hand: nobody is woken when it is none.
    pub fn try_drain(&self) -> Option<Draining<'_>> {
        let mut drain = self.drain.state.lock();
        drain.by.is_none().then(|| {
            drain.by = Some(std::thread::current().id());
            Draining(self)
        })
    }

    /// Whether this thread has the right to take records out: it is in a callback of what it completes.
    pub fn is_drained_by_this_thread(&self) -> bool {
        self.drain.state.lock().by == Some(std::thread::current().id())
    }

    /// Waits until everything that was pushed before is out and handled; not when this thread is in a callback of that.
    pub fn wait_until_drained(&self) {
        let epoch = self.rings.records.last_epoch();
        let this_thread = std::thread::current().id();
        let mut drain = self.drain.state.lock();
        while drain.by != Some(this_thread) && (drain.by.is_some() || self.rings.records.drained_epoch() < epoch) {
            self.drain.drained.wait(&mut drain);
        }
    }

    /// True when every record was taken out.
    pub fn is_drained(&self) -> bool {
        self.rings.records.drained_epoch() == self.rings.records.last_epoch()
    }

    /// True when nothing is in flight, being completed, ready or deferred. When a thread is completing something, it
    /// wakes the completion thread afterwards.
    pub fn is_idle(&self) -> bool {
        {
            let mut drain = self.drain.state.lock();
            if drain.by.is_some() {
                drain.asked = true;
                return false;
            }
        }
        // A deferred submission is ready before it is not deferred any more.
        self.is_drained() && self.backlog.deferred.lock().is_empty() && self.backlog.ready.lock().is_empty()
    }
}
