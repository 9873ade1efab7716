// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host calls of a timeline, one behind the other.
//!
//! Programs have one timeline, on which each call waits for what the one before it signals. Such a call is not deferred
//! but stands in its queue's line, behind the call that it waits for: the thread that makes that one goes on with it.
//! So it costs the submitting thread a lock of the line and nothing that the other thread writes: no semaphore, no
//! timepoint, no thread to wake.
//!
//! That is a shortcut and nothing relies on it. When a call's turn comes, its wait is looked at; if it is not reached,
//! as the call before has left the semaphore to somebody else, it is deferred, and so are those behind it. And if
//! somebody else advances the semaphore while a call still runs, those behind it are deferred at once
//! ([`HostLine::break_at`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::core::queue::Queue;
use crate::core::queue::deferred::{Deferred, Work};
use crate::core::queue::host_call::{HostCall, device_is_gone};
use crate::core::queue::semaphore::payload;
use crate::core::queue::timeline::SignalList;
use crate::ffi::{HalRef, RawDevice, Result, Semaphore, SemaphoreRef, Status, WeakDevice, raw, status};

/// Room for so many calls is kept for later ones.
const KEPT: usize = 256;

/// The line of a queue, which is of one timeline at a time.
#[derive(Debug, Default)]
pub struct HostLine {
    state: Apart<Mutex<State>>,
    /// There are calls in it that nobody has begun with, for who has not the lock.
    has_calls: Apart<AtomicBool>,
}

/// In cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Debug, Default)]
struct State {
    /// None while nothing can stand in it.
    links: Option<Arc<Links>>,
    /// What the last call, or the one before the first, signals.
    tail: u64,
    calls: VecDeque<Call>,
    /// Room for calls.
    spare: VecDeque<Call>,
}

/// A call in the line, which waits for a payload of the line's semaphore and signals another one.
struct Call {
    call: HostCall,
    wait: u64,
    value: u64,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("wait", &self.wait).field("value", &self.value).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Links {
    line: Arc<HostLine>,
    semaphore: SemaphoreRef,
    /// As long as nothing runs, calls do not keep alive what they are for.
    device: WeakDevice,
    queue: Weak<Queue>,
    /// Calls that the running thread has begun with, in front of those in the line. Locked behind the line.
    begun: Mutex<VecDeque<Call>>,
}

/// The right to make the calls of a line that come behind another one. Dropped before it has ended, it defers them.
#[derive(Debug)]
pub struct Chain(Arc<Links>);

/// A place behind the last call of a line.
#[derive(Debug)]
pub struct Place<'a> {
    line: &'a HostLine,
    state: MutexGuard<'a, State>,
}

/// What a running call keeps alive.
type Held = Option<HalRef<RawDevice>>;

impl HostLine {
    /// The place behind the call that brings `wait`'s semaphore to its value, if that is the last one.
    #[inline]
    pub fn behind(&self, queue: &Queue, (semaphore, value): (Semaphore<'_>, u64)) -> Option<Place<'_>> {
        let state = self.state.0.lock();
        let links = state.links.as_ref()?;
        // Under the lock: a queue that stops empties its line after it has said so.
        let fits = links.semaphore.as_ptr() == semaphore.as_ptr() && state.tail == value && !queue.is_stopping();
        fits.then_some(Place { line: self, state })
    }

    /// Somebody else than the line's calls has brought `semaphore` to `value`: what waits for that in the line of `queue`
    /// is deferred.
    pub fn break_at(&self, queue: &Arc<Queue>, semaphore: *mut raw::iree_hal_semaphore_t, value: u64) {
        let state = self.state.0.lock();
        let Some(links) = state.links.as_ref().filter(|links| links.semaphore.as_ptr() == semaphore) else { return };
        let first = links.begun.lock().front().map(|call| call.wait);
        let first = first.or(state.calls.front().map(|call| call.wait)).unwrap_or(state.tail);
        if first <= value {
            defer(queue, state);
        }
    }

    /// Cancels all calls: the queue is stopping.
    pub fn cancel(&self) {
        let (links, calls) = end(&mut self.state.0.lock());
        cancel(links, calls, queue_has_stopped);
    }
}

impl Place<'_> {
    /// Puts `call` there, which brings the semaphore to `value`.
    #[inline]
    pub fn take(mut self, call: HostCall, value: u64) {
        if self.state.calls.is_empty() {
            self.line.has_calls.0.store(true, Ordering::Relaxed);
        }
        let wait = std::mem::replace(&mut self.state.tail, value);
        self.state.calls.push_back(Call { call, wait, value });
    }
}

impl Chain {
    /// What comes behind the call of `queue` that brings `semaphore` to `value`, if nothing is in the queue's line and
    /// the queue's device made the semaphore.
    pub fn begin(queue: &Arc<Queue>, semaphore: Semaphore<'_>, value: u64, device: &WeakDevice) -> Option<Self> {
        let timeline = queue.timeline_of(semaphore)?;
        let line = queue.host_line();
        let mut state = line.state.0.lock();
        if state.links.is_some() || queue.is_stopping() {
            return None;
        }
        let begun = std::mem::take(&mut state.spare);
        let links = Arc::new(Links {
            line: line.clone(),
            semaphore: semaphore.retain(),
            device: device.clone(),
            queue: Arc::downgrade(queue),
            begun: Mutex::new(begun),
        });
        timeline.begin_line();
        state.tail = value;
        state.links = Some(links.clone());
        Some(Self(links))
    }

    /// Whether there are calls to go on with.
    #[inline]
    pub fn has_calls(&self) -> bool {
        self.0.line.has_calls.0.load(Ordering::Relaxed)
    }

    /// Makes all calls that there are.
    pub fn go_on(&self) {
        let mut device = None;
        while let Some((call, is_last)) = self.next() {
            self.make(call, &mut device, is_last);
        }
    }

    /// Ends it, unless there are calls.
    pub fn end(&self) -> bool {
        let mut state = self.0.line.state.0.lock();
        if !self.is_of(&state) {
            return true;
        }
        if !state.calls.is_empty() {
            return false;
        }
        let ended = end(&mut state);
        drop(state);
        drop(ended);
        true
    }

    fn is_of(&self, state: &State) -> bool {
        state.links.as_ref().is_some_and(|links| Arc::ptr_eq(links, &self.0))
    }

    /// The next call, and whether it is the last one for now.
    fn next(&self) -> Option<(Call, bool)> {
        {
            let mut begun = self.0.begun.lock();
            if let Some(call) = begun.pop_front() {
                return Some((call, begun.is_empty()));
            }
        }
        let mut state = self.0.line.state.0.lock();
        if !self.is_of(&state) {
            return None;
        }
        let mut begun = self.0.begun.lock();
        std::mem::swap(&mut state.calls, &mut begun);
        self.0.line.has_calls.0.store(false, Ordering::Relaxed);
        drop(state);
        let call = begun.pop_front()?;
        Some((call, begun.is_empty()))
    }

    /// Makes a call whose turn has come. The device is kept for those that follow, unless nobody else has it any more.
    fn make(&self, call: Call, device: &mut Held, is_last: bool) {
        let signals = SignalList::one(self.0.semaphore.clone(), call.value);
        match self.is_reached(call.wait, device) {
            Ok(true) => call.call.run(device, signals, |device| is_last || device.is_only_reference()),
            Ok(false) => {
                signals.forget();
                self.0.begun.lock().push_front(call);
                self.defer();
            }
            Err(failure) => {
                *device = None;
                drop(call);
                signals.fail(failure);
            }
        }
    }

    /// Whether the wait for `value` is over and the device there, as `device` has it then.
    ///
    /// # Errors
    /// Why what waits for it must not run.
    fn is_reached(&self, value: u64, device: &mut Held) -> Result<bool> {
        let now = payload(self.0.semaphore.borrow())?;
        if device.is_none() {
            *device = self.0.device.upgrade();
        }
        let queue = self.0.queue.upgrade().filter(|_| device.is_some()).ok_or_else(device_is_gone)?;
        queue.check_not_lost()?;
        if queue.is_stopping() || queue.shared().worker.is_closing() {
            return Err(queue_has_stopped());
        }
        Ok(now >= value)
    }

    /// Has the calls that there are wait for the semaphore by themselves, and ends.
    fn defer(&self) {
        let mut state = self.0.line.state.0.lock();
        if !self.is_of(&state) {
            return;
        }
        match self.0.queue.upgrade() {
            Some(queue) => defer(&queue, state),
            None => {
                let (links, calls) = end(&mut state);
                drop(state);
                cancel(links, calls, device_is_gone);
            }
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.defer();
    }
}

/// Ends the chain that the line is of, and gives the calls that nobody has begun to make, first things first.
fn end(state: &mut State) -> (Option<Arc<Links>>, VecDeque<Call>) {
    let Some(links) = state.links.take() else { return Default::default() };
    if let Some(timeline) = crate::core::queue::semaphore::timeline(links.semaphore.borrow()) {
        timeline.end_line();
    }
    links.line.has_calls.0.store(false, Ordering::Relaxed);
    let mut calls = std::mem::take(&mut *links.begun.lock());
    if calls.is_empty() && state.calls.is_empty() {
        if calls.capacity() <= KEPT {
            state.spare = calls;
        }
        return (Some(links), VecDeque::new());
    }
    calls.append(&mut state.calls);
    (Some(links), calls)
}

/// Has the calls of the line of `queue` wait for the semaphore by themselves.
#[cold]
fn defer(queue: &Arc<Queue>, mut state: MutexGuard<'_, State>) {
    let (links, calls) = end(&mut state);
    let Some(links) = links else { return };
    if queue.is_stopping() {
        drop(state);
        return cancel(Some(links), calls, queue_has_stopped);
    }
    // Listed under the lock, so that a queue that stops finds each of them in one place or the other.
    let listed: Vec<_> = calls.into_iter().map(|call| links.list(queue, call)).collect();
    drop(state);
    for deferred in listed {
        deferred.arm();
    }
}

impl Links {
    /// The call as a deferred submission.
    fn list(&self, queue: &Arc<Queue>, Call { call, wait, value }: Call) -> Arc<Deferred> {
        let device = self.device.clone();
        let task = move |signals: SignalList| {
            call.run(&mut device.upgrade(), signals, |_| true);
            None
        };
        let waits = std::iter::once((self.semaphore.borrow(), wait));
        Deferred::list(queue, Work::Host(Box::new(task)), waits, SignalList::one(self.semaphore.clone(), value))
    }
}

/// Fails what `calls` were to signal.
fn cancel(links: Option<Arc<Links>>, calls: VecDeque<Call>, why: fn() -> Status) {
    let Some(links) = links else { return };
    for Call { call, value, .. } in calls {
        drop(call);
        SignalList::one(links.semaphore.clone(), value).fail(why());
    }
}

fn queue_has_stopped() -> Status {
    status!(CANCELLED, "the device was destroyed while the host call waited for its semaphore")
}
