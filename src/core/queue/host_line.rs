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
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

use crate::core::queue::Queue;
use crate::core::queue::deferred::{Deferred, Work};
use crate::core::queue::host_call::{HostCall, device_is_gone};
use crate::core::queue::semaphore::{payload, timeline};
use crate::core::queue::timeline::SignalList;
use crate::ffi::{HalRef, RawDevice, RawSemaphore, Result, Semaphore, SemaphoreRef, Status, WeakDevice, status};

/// Room for so many calls is kept for later ones.
const KEPT: usize = 256;

/// The line of a queue, which is of one timeline at a time.
#[derive(Debug, Default)]
pub struct HostLine {
    state: CachePadded<Mutex<State>>,
    /// There are calls in it that nobody has begun with, for who has not the lock.
    has_calls: CachePadded<AtomicBool>,
    /// Calls that the running thread has begun with, in front of those in the line, and the chain that they are of.
    /// Locked behind the line.
    begun: CachePadded<Mutex<(u64, VecDeque<Call>)>>,
    /// What calls are for. As long as nothing runs, they do not keep it alive.
    target: OnceLock<(Weak<Queue>, WeakDevice)>,
}

#[derive(Debug, Default)]
struct State {
    /// What the calls wait for and signal; none while nothing can stand in line. The chain has a reference to it as
    /// long as it is here.
    semaphore: Option<NonNull<RawSemaphore>>,
    /// Which chain it is of; counts them.
    chain: u64,
    /// What the last call, or the one before the first, signals.
    tail: u64,
    calls: VecDeque<Call>,
}

// SAFETY: semaphores may be used from any thread.
unsafe impl Send for State {}

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

/// The right to make the calls of a line that come behind another one. Dropped before it has ended, it defers them.
#[derive(Debug)]
pub struct Chain {
    line: Arc<HostLine>,
    semaphore: SemaphoreRef,
    id: u64,
}

/// A place behind the last call of a line.
#[derive(Debug)]
pub struct Place<'a> {
    line: &'a HostLine,
    state: MutexGuard<'a, State>,
}

/// What a running call keeps alive.
type Held = Option<HalRef<RawDevice>>;

impl HostLine {
    /// Says what calls of `queue` are for: `device`.
    #[inline]
    pub fn set_target(&self, queue: &Arc<Queue>, device: impl FnOnce() -> WeakDevice) {
        self.target.get_or_init(|| (Arc::downgrade(queue), device()));
    }

    /// The device, if it is still there.
    pub fn device(&self) -> Option<HalRef<RawDevice>> {
        self.target.get()?.1.upgrade()
    }

    /// The queue, if it is still there.
    fn queue(&self) -> Option<Arc<Queue>> {
        self.target.get()?.0.upgrade()
    }

    /// The place behind the call that brings `wait`'s semaphore to its value, if that is the last one.
    #[inline]
    pub fn behind(&self, queue: &Queue, (semaphore, value): (Semaphore<'_>, u64)) -> Option<Place<'_>> {
        let state = self.state.lock();
        let is_here = state.semaphore.is_some_and(|here| here.as_ptr() == semaphore.as_ptr());
        // Under the lock: a queue that stops empties its line after it has said so.
        let fits = is_here && state.tail == value && !queue.is_stopping();
        fits.then_some(Place { line: self, state })
    }

    /// Somebody else than the line's calls has brought `semaphore` to `value`: what waits for that in the line of
    /// `queue` is deferred.
    pub fn break_at(&self, queue: &Arc<Queue>, semaphore: Semaphore<'_>, value: u64) {
        let state = self.state.lock();
        if state.semaphore.is_none_or(|here| here.as_ptr() != semaphore.as_ptr()) {
            return;
        }
        let first = self.begun.lock().1.front().map(|call| call.wait);
        let first = first.or(state.calls.front().map(|call| call.wait)).unwrap_or(state.tail);
        if first <= value {
            self.defer(queue, state);
        }
    }

    /// Cancels all calls: the queue is stopping.
    pub fn cancel(&self) {
        let ended = self.end(&mut self.state.lock());
        cancel(ended, queue_has_stopped);
    }

    /// Ends the chain that the line is of, if it is of one, and gives its semaphore and the calls that nobody has begun
    /// to make, first things first.
    fn end(&self, state: &mut State) -> Ended {
        // SAFETY: its chain, which takes it away before it lets go of it, has not done so, and cannot under the lock.
        let semaphore = state.semaphore.take().and_then(|here| unsafe { HalRef::retain(here.as_ptr()) })?;
        if let Some(timeline) = timeline(semaphore.borrow()) {
            timeline.end_line();
        }
        self.has_calls.store(false, Ordering::Relaxed);
        let mut begun = self.begun.lock();
        let mut calls = VecDeque::new();
        calls.extend(begun.1.drain(..));
        calls.extend(state.calls.drain(..));
        for room in [&mut begun.1, &mut state.calls] {
            room.shrink_to(KEPT);
        }
        Some((semaphore, calls))
    }

    /// Has the calls that there are wait for the semaphore by themselves, and ends the chain.
    #[cold]
    fn defer(&self, queue: &Arc<Queue>, mut state: MutexGuard<'_, State>) {
        let ended = self.end(&mut state);
        if queue.is_stopping() {
            drop(state);
            return cancel(ended, queue_has_stopped);
        }
        let Some((semaphore, calls)) = ended else { return };
        // Listed under the lock, so that a queue that stops finds each of them in one place or the other.
        let listed: Vec<_> = calls.into_iter().map(|call| list(queue, &semaphore, call)).collect();
        drop(state);
        for deferred in listed {
            deferred.arm();
        }
    }
}

/// The semaphore of a chain that has ended, and the calls that were left.
type Ended = Option<(SemaphoreRef, VecDeque<Call>)>;

impl Place<'_> {
    /// Puts `call` there, which brings the semaphore to `value`.
    #[inline]
    pub fn take(mut self, call: HostCall, value: u64) {
        if self.state.calls.is_empty() {
            self.line.has_calls.store(true, Ordering::Relaxed);
        }
        let wait = std::mem::replace(&mut self.state.tail, value);
        self.state.calls.push_back(Call { call, wait, value });
    }
}

impl Chain {
    /// What comes behind the call of `queue` that brings `semaphore` to `value`, if nothing is in the queue's line and
    /// the queue's device made the semaphore.
    pub fn begin(queue: &Queue, semaphore: Semaphore<'_>, value: u64) -> Option<Self> {
        let timeline = queue.timeline_of(semaphore)?;
        let line = queue.host_line();
        let mut state = line.state.lock();
        if state.semaphore.is_some() || queue.is_stopping() {
            return None;
        }
        timeline.begin_line();
        state.semaphore = NonNull::new(semaphore.as_ptr());
        state.chain += 1;
        state.tail = value;
        Some(Self { line: line.clone(), semaphore: semaphore.retain(), id: state.chain })
    }

    /// The device, if it is still there.
    pub fn device(&self) -> Option<HalRef<RawDevice>> {
        self.line.device()
    }

    /// Whether there are calls to go on with.
    #[inline]
    pub fn has_calls(&self) -> bool {
        self.line.has_calls.load(Ordering::Relaxed)
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
        let mut state = self.line.state.lock();
        if !self.is_of(&state) {
            return true;
        }
        if !state.calls.is_empty() {
            return false;
        }
        let ended = self.line.end(&mut state);
        drop(state);
        drop(ended);
        true
    }

    fn is_of(&self, state: &State) -> bool {
        state.semaphore.is_some() && state.chain == self.id
    }

    /// The next call, and whether it is the last one for now.
    fn next(&self) -> Option<(Call, bool)> {
        {
            let mut begun = self.line.begun.lock();
            if begun.0 == self.id
                && let Some(call) = begun.1.pop_front()
            {
                return Some((call, begun.1.is_empty()));
            }
        }
        let mut state = self.line.state.lock();
        if !self.is_of(&state) {
            return None;
        }
        let mut begun = self.line.begun.lock();
        begun.0 = self.id;
        std::mem::swap(&mut state.calls, &mut begun.1);
        self.line.has_calls.store(false, Ordering::Relaxed);
        drop(state);
        let call = begun.1.pop_front()?;
        Some((call, begun.1.is_empty()))
    }

    /// Makes a call whose turn has come. The device is kept for those that follow, unless nobody else has it any more.
    fn make(&self, call: Call, device: &mut Held, is_last: bool) {
        match self.is_reached(call.wait, device) {
            Ok(true) => {
                let signals = SignalList::one(self.semaphore.clone(), call.value);
                call.call.run(device, signals, |device| is_last || device.is_only_reference());
            }
            Ok(false) => self.defer_all(call),
            Err(failure) => {
                *device = None;
                drop(call.call);
                self.semaphore.borrow().fail(failure);
            }
        }
    }

    /// Whether the wait for `value` is over and the device there, as `device` has it then.
    ///
    /// # Errors
    /// Why what waits for it must not run.
    fn is_reached(&self, value: u64, device: &mut Held) -> Result<bool> {
        let now = payload(self.semaphore.borrow())?;
        if device.is_none() {
            *device = self.device();
        }
        let queue = self.line.queue().filter(|_| device.is_some()).ok_or_else(device_is_gone)?;
        queue.check_not_lost()?;
        if queue.is_stopping() || queue.shared().worker.is_closing() {
            return Err(queue_has_stopped());
        }
        Ok(now >= value)
    }

    /// Has `call`, whose turn it is, and those behind it wait for the semaphore by themselves.
    #[cold]
    fn defer_all(&self, call: Call) {
        let Some(queue) = self.line.queue() else {
            return cancel(Some((self.semaphore.clone(), [call].into())), device_is_gone);
        };
        let state = self.line.state.lock();
        if self.is_of(&state) {
            self.line.begun.lock().1.push_front(call);
            return self.line.defer(&queue, state);
        }
        // Somebody else has ended the chain.
        if queue.is_stopping() {
            drop(state);
            return cancel(Some((self.semaphore.clone(), [call].into())), queue_has_stopped);
        }
        let deferred = list(&queue, &self.semaphore, call);
        drop(state);
        deferred.arm();
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let mut state = self.line.state.lock();
        if !self.is_of(&state) {
            return;
        }
        match self.line.queue() {
            Some(queue) => self.line.defer(&queue, state),
            None => {
                let ended = self.line.end(&mut state);
                drop(state);
                cancel(ended, device_is_gone);
            }
        }
    }
}

/// The call as a deferred submission.
fn list(queue: &Arc<Queue>, semaphore: &SemaphoreRef, Call { call, wait, value }: Call) -> Arc<Deferred> {
    let line = queue.host_line().clone();
    let task = move |signals: SignalList| {
        call.run(&mut line.device(), signals, |_| true);
        None
    };
    let waits = std::iter::once((semaphore.borrow(), wait));
    Deferred::list(queue, Work::Host(Box::new(task)), waits, SignalList::one(semaphore.clone(), value))
}

/// Fails what calls were to signal.
fn cancel(ended: Ended, why: fn() -> Status) {
    if let Some((semaphore, calls)) = ended
        && !calls.is_empty()
    {
        drop(calls);
        semaphore.borrow().fail(why());
    }
}

fn queue_has_stopped() -> Status {
    status!(CANCELLED, "the device was destroyed while the host call waited for its semaphore")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::queue::trace::host::HostTrace;
    use crate::ffi::host_call::HostFunction;
    use crate::ffi::{Code, DeviceAnchor};
    use crate::testing::{Rig, queue, wait};

    fn call() -> HostCall {
        // SAFETY: there is no function to be called.
        let function = unsafe { HostFunction::new(std::mem::zeroed()) };
        HostCall::new(function, [0; 4], 1, false, HostTrace::default())
    }

    #[test]
    fn a_line_that_is_cancelled_fails_what_its_calls_signal() {
        let rig = Rig::new();
        let (queue, semaphore) = queue(&rig);
        let chain = Chain::begin(&queue, semaphore.borrow(), 2).unwrap();
        queue.host_line().behind(&queue, (semaphore.borrow(), 2)).unwrap().take(call(), 3);
        assert!(queue.host_line().behind(&queue, (semaphore.borrow(), 2)).is_none(), "behind the last one only");
        queue.host_line().cancel();
        assert_eq!(semaphore.borrow().query().unwrap_err().code(), Code::CANCELLED);
        assert!(chain.end());
    }

    #[test]
    fn a_chain_that_is_dropped_ends_and_defers_its_calls() {
        let rig = Rig::new();
        let (queue, semaphore) = queue(&rig);
        // Of a device that is gone.
        queue.host_line().set_target(&queue, || DeviceAnchor::default().weak());
        let chain = Chain::begin(&queue, semaphore.borrow(), 2).unwrap();
        queue.host_line().behind(&queue, (semaphore.borrow(), 2)).unwrap().take(call(), 3);
        assert!(!chain.end(), "there is a call");
        drop(chain);
        assert_eq!(semaphore.borrow().query().unwrap(), 1, "its calls wait");
        assert!(Chain::begin(&queue, semaphore.borrow(), 2).is_some_and(|chain| chain.end()));
        semaphore.borrow().signal(2).unwrap();
        assert_eq!(wait(&semaphore, 3).unwrap_err().code(), Code::CANCELLED);
    }
}
