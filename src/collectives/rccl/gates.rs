// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations that the device orders.
//!
//! A gate is two words of HIP's signal memory, each of which is the value of an HSA signal. The driver's queue lowers
//! the first from 1 to 0 when the work before an operation is complete, and the stream waits for that. The stream sets
//! the second to 0 behind the operation, and the queue goes on. The host only submits both sides, in advance.
//!
//! **Order.** A queue is blocked from the moment at which it opens a gate. So a gate must not wait for anything that
//! comes behind it. An operation takes a gate when its waits are over or are packets of rings already, and when the
//! host orders no earlier operation of the GPU, in any group. A gate's calls must not wait for other ranks. RCCL
//! connects ranks when they join, and for messages at the first one between them, which the host orders. There are
//! [`COUNT`] gates for a group; without a free one the host orders. Ranks decide this for themselves: RCCL's calls are
//! the same.
//!
//! **Several groups.** Streams share HIP's few hardware queues, so that a stream which waits may hold up any other one
//! of its GPU. Each rank therefore gives operations to HIP in the order in which it submitted them, over all groups:
//!
//! * Gates of a GPU are taken, put into rings and given to HIP under one lock and by one thread.
//! * Operations that the host orders have [turns](super::turns): one is given to HIP when all earlier ones of the GPU
//!   have ended, and the calls of all earlier gates.
//! * A split has a turn, too, in which the ranks of a new group join, behind all earlier gates.
//! * No gate is taken while a turn is outstanding, so that none overtakes one.
//!
//! There is no deadlock then, if ranks submit and split in one order, and no wait of a submission needs a later one.
//! Take all operations, each at its place in an order that agrees with that of every rank, and the first one that never
//! ends. On each of its ranks everything that it depends on comes earlier, and so has ended: its waits, the packets
//! before it in the ring, the streams before it in HIP's hardware queues, the earlier turns, and the calls before its
//! own. So it has begun on all of its ranks, and RCCL ends it.
//!
//! **Failure.** The stream of an aborted operation goes on with wrong data, and opens the queue's way for work that may
//! be in the ring already. So the queue stops for good first: its device is lost, and its semaphores fail. Then the
//! gates are opened, since RCCL and HIP wait for their stream, and RCCL is told to abort.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::library::{Handle, Rccl};
use super::{ABORT, Device, DeviceOperation, Group, Joined, LEFT, LOOK, Others, Submission};
use amdgpu_ffi::{Result, Status, status, thread};

/// Gates of a group.
const COUNT: usize = 16;

/// The time for which the thread that looks at gates waits for the next one.
const IDLE: Duration = Duration::from_secs(2);

/// `hipMallocSignalMemory`, which gives memory for one word.
const SIGNAL_MEMORY: u32 = 2;

/// `hipStreamWaitValueEq`.
const EQUAL: u32 = 1;

/// `hipErrorNotReady`.
const NOT_READY: c_int = 600;

/// The offset of an HSA signal's value (`amd_signal_t`).
const VALUE_OFFSET: u64 = 8;

/// The queue that waits for an operation, and the operation's buffers, which it releases when the queue goes on.
pub trait Waiting: Send + Sync {
    /// True when the queue has gone on.
    fn is_over(&self) -> bool;

    /// The failure that has stopped the queue.
    fn failure(&self) -> Option<Status>;

    /// Stops the queue for good. Nothing that waits for the operation runs, and its semaphores fail with `status`.
    fn stop(&self, status: &Status);
}

/// Two words of HIP's signal memory, by their addresses. They are never freed: streams of an aborted group may wait.
#[derive(Clone, Copy)]
struct Gate {
    /// 0 when the work before the operation is complete.
    begin: usize,
    /// 0 when the operation is complete.
    end: usize,
}

impl Gate {
    fn new(rccl: &Rccl) -> Result<Self> {
        let memory = &rccl.signal_memory()?;
        let mut words = [0; 2];
        for word in &mut words {
            // SAFETY: the result goes to a local.
            rccl.check_hip("hipExtMallocWithFlags", unsafe { (memory.malloc)(word, 8, SIGNAL_MEMORY) })?;
        }
        let [begin, end] = words;
        Ok(Self { begin, end })
    }

    fn word(address: usize) -> &'static AtomicI64 {
        // SAFETY: an aligned word that is never freed, and that the host and the GPU change atomically.
        unsafe { AtomicI64::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
    }

    fn close(self) {
        for address in [self.begin, self.end] {
            Self::word(address).store(1, Ordering::Release);
        }
    }

    /// Lets the stream go on.
    fn open(self) {
        Self::word(self.begin).store(0, Ordering::Release);
    }

    fn has_begun(self) -> bool {
        Self::word(self.begin).load(Ordering::Acquire) == 0
    }
}

/// An operation whose calls are made or will be.
pub(super) struct Flight {
    gate: Gate,
    /// The result of the calls.
    issued: Receiver<Result<()>>,
    waiting: Arc<dyn Waiting>,
    /// The time at which the operation was first seen to have begun.
    begun: Option<Instant>,
}

impl Flight {
    /// Stops the queue.
    pub(super) fn stop(&self, status: &Status) {
        self.waiting.stop(status);
    }

    /// Lets the stream go on.
    pub(super) fn open(&self) {
        self.gate.open();
    }

    /// Waits for the end of the calls.
    pub(super) fn wait(&self) {
        // An error means that they have ended, too.
        let _ = self.issued.recv();
    }
}

/// The gates of a group.
pub(super) struct Gates {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    free: Vec<Gate>,
    /// Oldest first.
    flights: VecDeque<Flight>,
    /// A thread looks at the flights.
    is_watched: bool,
    is_closed: bool,
}

impl State {
    /// Takes out the operations behind which queues have gone on, and frees their gates. The caller drops them without
    /// the lock.
    fn finish(&mut self) -> Vec<Flight> {
        let mut finished = Vec::new();
        // Not in order: several queues may wait.
        for index in (0..self.flights.len()).rev() {
            if self.flights[index].waiting.is_over()
                && let Some(flight) = self.flights.remove(index)
            {
                self.free.push(flight.gate);
                finished.push(flight);
            }
        }
        finished
    }
}

impl Gates {
    /// # Errors
    /// UNAVAILABLE if HIP has no signal memory; its error.
    pub fn new(rccl: &Rccl) -> Result<Self> {
        let free = (0..COUNT).map(|_| Gate::new(rccl)).collect::<Result<_>>()?;
        Ok(Self { state: Mutex::new(State { free, ..State::default() }), changed: Condvar::new() })
    }

    /// True if an operation has not ended.
    pub fn are_busy(&self) -> bool {
        let mut state = self.state.lock();
        let finished = state.finish();
        let is_busy = !state.flights.is_empty();
        drop(state);
        drop(finished);
        is_busy
    }

    /// Takes out the operations that have not ended.
    pub fn take_flights(&self) -> Vec<Flight> {
        let mut state = self.state.lock();
        let finished = state.finish();
        let flights = state.flights.drain(..).collect();
        drop(state);
        drop(finished);
        flights
    }

    /// Ends the thread that looks at operations, and waits for its end.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |state| state.is_watched, ABORT);
    }

    /// A free gate, closed, and whether a thread must be started to look at it.
    fn take(&self) -> Option<(Gate, bool)> {
        let mut state = self.state.lock();
        let finished = state.finish();
        let gate = if state.is_closed { None } else { state.free.pop() };
        let starts = gate.is_some() && !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        drop(finished);
        let gate = gate?;
        gate.close();
        Some((gate, starts))
    }

    fn give_back(&self, gate: Gate) {
        self.state.lock().free.push(gate);
    }

    fn end_watch(&self) {
        self.state.lock().is_watched = false;
        self.changed.notify_all();
    }

    /// Waits for the next look. Returns false if the thread is to end.
    fn wait_for_look(&self) -> bool {
        let mut state = self.state.lock();
        let finished = state.finish();
        let is_idle = state.flights.is_empty();
        let timed_out = match state.is_closed {
            true => false,
            false => self.changed.wait_for(&mut state, if is_idle { IDLE } else { LOOK }).timed_out(),
        };
        let ends = state.flights.is_empty() && (state.is_closed || is_idle && timed_out);
        if ends {
            state.is_watched = false;
            self.changed.notify_all();
        }
        drop(state);
        drop(finished);
        !ends
    }

    /// The failure of an operation that has not ended, or of its calls. `rccl` looks at RCCL and the other ranks.
    fn look(&self, timeout: Duration, rccl: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        let finished = state.finish();
        let result = state.flights.iter_mut().try_for_each(|flight| flight.check(timeout));
        let is_busy = !state.flights.is_empty();
        drop(state);
        drop(finished);
        result?;
        if is_busy { rccl() } else { Ok(()) }
    }
}

impl Flight {
    fn check(&mut self, timeout: Duration) -> Result<()> {
        if let Some(failure) = self.waiting.failure() {
            return Err(failure);
        }
        match self.issued.try_recv() {
            Ok(Err(status)) => return Err(status),
            Ok(Ok(())) | Err(TryRecvError::Empty | TryRecvError::Disconnected) => (),
        }
        if self.begun.is_none() && self.gate.has_begun() {
            self.begun = Some(Instant::now());
        }
        if self.begun.is_some_and(|begun| begun.elapsed() >= timeout) {
            return Err(super::timed_out(timeout));
        }
        Ok(())
    }
}

/// The right to put an operation into a ring, and to give it to HIP, before any other of the GPU.
pub struct Entry<'a> {
    _order: MutexGuard<'a, ()>,
    group: &'a Group,
    gates: &'a Arc<Gates>,
    joined: Joined,
    gate: Option<Gate>,
}

impl Entry<'_> {
    /// The handles of the HSA signals that the queue lowers to 0, and for whose 0 it waits.
    pub fn signals(&self) -> (u64, u64) {
        let handle = |address: usize| address as u64 - VALUE_OFFSET;
        self.gate.map_or((0, 0), |gate| (handle(gate.begin), handle(gate.end)))
    }

    /// Gives the operations, whose packets are submitted, to HIP. Does not wait.
    pub fn issue(mut self, operations: Vec<DeviceOperation>, waiting: Arc<dyn Waiting>) {
        let Some(gate) = self.gate.take() else { return };
        let (sender, issued) = channel();
        self.gates.state.lock().flights.push_back(Flight { gate, issued, waiting, begun: None });
        self.gates.changed.notify_all();
        let (device, joined, failed) = (self.group.device.clone(), self.joined, self.group.failed.clone());
        let job = move || {
            let result = match *failed.lock() {
                true => Err(status!(ABORTED, "the collective was aborted before it began")),
                false => Ok(()),
            };
            let result = result.and_then(|()| issue(&device, joined, gate, &operations));
            // Without a receiver the operation has been aborted.
            let _ = sender.send(result);
        };
        let lane = &self.group.device.gated;
        if let Err(error) = lane.run(lane.draw(), Box::new(job), "amdgpu_rs-gates") {
            // The operation has no end, which the thread that looks at it is told by a failed call.
            let (sender, issued) = channel();
            let _ = sender.send(Err(status!(RESOURCE_EXHAUSTED, "starting a thread for RCCL: {error}")));
            if let Some(flight) = self.gates.state.lock().flights.back_mut() {
                flight.issued = issued;
            }
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            self.gates.give_back(gate);
        }
    }
}

/// Has the stream wait for the gate, perform operations and let the queue go on.
fn issue(device: &Device, joined: Joined, gate: Gate, operations: &[DeviceOperation]) -> Result<()> {
    device.make_current()?;
    let (rccl, stream): (_, Handle) = (device.rccl, joined.stream);
    let memory = rccl.signal_memory()?;
    // SAFETY: a stream of this group's, and signal memory.
    let code: c_int = unsafe { (memory.wait)(stream, gate.begin, 0, EQUAL, u64::MAX) };
    rccl.check_hip("hipStreamWaitValue64", code)?;
    let submission = Submission { rccl, joined, copies: Vec::new() };
    submission.group(|submission| operations.iter().try_for_each(|operation| submission.submit(operation)))?;
    // SAFETY: as above.
    rccl.check_hip("hipStreamWriteValue64", unsafe { (memory.write)(stream, gate.end, 0, 0) })?;
    // HIP keeps commands that have ended, and an HSA signal for each kernel of RCCL's, until the stream is looked at.
    // SAFETY: as above.
    match unsafe { (memory.query)(stream) } {
        NOT_READY => Ok(()),
        code => rccl.check_hip("hipStreamQuery", code),
    }
}

impl Group {
    /// A gate for operations whose waits are over or are packets of rings. `may_enter` is asked when no other operation
    /// can take one. None if the host is to order the operations, as it does while it orders earlier ones of the GPU.
    pub fn enter(
        &self,
        operations: &[DeviceOperation],
        watch: impl FnOnce() -> std::io::Result<()>,
        may_enter: impl FnOnce() -> bool,
    ) -> Option<Entry<'_>> {
        let (joined, gates) = self.joined.get().copied().zip(self.gates.get())?;
        if !operations.iter().all(|operation| !operation.is_copied() && self.has_met(&operation.plan)) {
            return None;
        }
        let order = self.device.order.lock();
        // What the host orders comes first, whatever its communicator.
        if *self.failed.lock() || !self.device.turns.are_over() || !may_enter() {
            return None;
        }
        let (gate, starts) = gates.take()?;
        if starts && watch().is_err() {
            gates.end_watch();
            gates.give_back(gate);
            return None;
        }
        Some(Entry { _order: order, group: self, gates, joined, gate: Some(gate) })
    }

    /// Looks at the operations behind gates until there is none for a while, or the group is released. `fail` is called
    /// with the failure of one.
    pub fn watch(&self, timeout: Duration, others: &dyn Others, fail: impl Fn(Status)) {
        let Some(gates) = self.gates.get() else { return };
        let mut left_since = None;
        while gates.wait_for_look() {
            let look = || {
                others.failure().map_or(Ok(()), Err)?;
                self.check_asynchronous()?;
                match others.left() {
                    Some(left) if left_since.get_or_insert_with(Instant::now).elapsed() >= LEFT => Err(left),
                    _ => Ok(()),
                }
            };
            if let Err(status) = gates.look(timeout, look) {
                fail(others.failure().unwrap_or(status));
            }
        }
    }
}

/// Starts the thread that looks at gates.
///
/// # Errors
/// The thread could not be started.
pub(crate) fn start_watch(watch: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::spawn("amdgpu_rs-gated".to_owned(), watch).map(drop)
}
