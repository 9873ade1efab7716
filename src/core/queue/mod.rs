// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One hardware queue: its rings, its epoch signal and its completion thread.
//!
//! Locks, in the order in which they may be taken: submission, then a semaphore's own; the state of the drain alone;
//! the lists of ready and deferred submissions alone. No HAL object is released and no callback runs under any of them.

pub mod complete;
pub mod deferred;
mod drain;
pub mod host_worker;
mod last_signal;
pub mod operation;
pub mod pm4;
pub mod resources;
pub mod semaphore;
pub mod shared;
mod spare;
pub mod submit;
pub mod timeline;
pub mod trace;
pub mod waits;

use std::hint::spin_loop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

use hsa_abi::{HsaSignal, HsaSignalCondition, HsaWaitState};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::core::gpu::{DeviceWait, Gpu};
use crate::core::queue::complete::{Record, RingEnds};
use crate::core::queue::deferred::{DeferredList, Ready};
use crate::core::queue::drain::Drain;
use crate::core::queue::host_worker::HostTask;
use crate::core::queue::operation::Demand;
use crate::core::queue::shared::{DeviceShared, Epochs, new_value};
use crate::core::queue::spare::Spare;
use crate::core::queue::timeline::{SignalList, Timeline};
use crate::core::queue::trace::SpareTraces;
use crate::core::queue::waits::EpochWait;
use crate::ffi::{Frontier, FrontierTracker, MAX_QUEUES, Resource, Result, Semaphore, Status, thunk};
use crate::hsa;
use crate::ring::{
    AqlMemory, AqlRing, EPOCH_INITIAL_VALUE, EpochProducer, EpochRing, KERNARG_ALIGNMENT, KernargReclaimer,
    KernargRing, epoch_threshold,
};

/// Where the queue ordinal is in the axis of a queue (`iree/async/frontier.h`).
pub const QUEUE_AXIS_SHIFT: u32 = 24;

/// Bytes of the ring of PM4 commands: enough for a wait for every other queue, many times.
const COMMAND_CAPACITY: u64 = 64 << 10;
const _: () = assert!(COMMAND_CAPACITY >= 8 * MAX_QUEUES as u64 * KERNARG_ALIGNMENT);

/// How often a thread looks for the submission lock before it sleeps: some microseconds.
const LOCK_SPINS: u32 = 200;

/// How soon a full ring is looked at again when nothing is in flight.
const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The producer's side of a queue, under the submission lock.
#[derive(Debug)]
pub struct Submission {
    /// Packets.
    pub aql: AqlRing,
    /// Their arguments.
    pub kernargs: KernargRing,
    /// PM4 commands, for packet processors that take them.
    pub commands: Option<KernargRing>,
    /// The notification ring's end for records of epochs to come.
    pub records: EpochProducer<Record>,
    /// Highest epoch of every other queue that this queue has waited for.
    pub waited: Box<[u64; MAX_QUEUES]>,
    /// Nobody takes records out any more, so none may come in: the device is lost or the completion thread has ended.
    pub closed: bool,
}

impl Submission {
    /// True when an earlier submission of this queue is behind the same epoch or a later one.
    pub fn has_waited_for(&self, wait: &EpochWait) -> bool {
        self.waited[wait.queue as usize] >= wait.epoch
    }
}

/// One hardware queue of a logical device.
#[derive(Debug)]
pub struct Queue {
    // First, so that the hardware has stopped before anything goes that its packets may use: records, kernargs,
    // signals.
    hardware: hsa::HardwareQueue,
    ordinal: u32,
    axis: u64,
    gpu: Arc<Gpu>,
    shared: Arc<DeviceShared>,
    tracker: FrontierTracker,
    submission: Mutex<Submission>,
    records: Arc<EpochRing<Record>>,
    /// The queues that this queue has waited for, a bit for each. Changes under the submission lock.
    waited_queues: AtomicU64,
    /// The epoch of the last submission with work of its own.
    last_work: AtomicU64,
    drain: Mutex<Drain>,
    drained: Condvar,
    reclaimer: KernargReclaimer,
    command_reclaimer: Option<KernargReclaimer>,
    kernarg_capacity: u64,
    aql_capacity: u32,
    ready: Mutex<Vec<Ready>>,
    /// How many of them wait for room in the rings.
    line: Arc<AtomicUsize>,
    deferred: Mutex<DeferredList>,
    spare_resources: Spare<Option<Resource>>,
    spare_addresses: Spare<u64>,
    spare_traces: SpareTraces,
    stopping: AtomicBool,
    inactivated: Once,
    epoch_signal: Arc<hsa::Signal>,
    wake_signal: Arc<hsa::Signal>,
    interrupt_signal: Arc<hsa::Signal>,
    _kernarg_memory: hsa::Allocation,
    _command_memory: Option<hsa::Allocation>,
}

/// What a queue is made with.
#[derive(Debug)]
pub struct QueueParams {
    /// Position in the logical device; the bit of its queue affinity.
    pub ordinal: u32,
    /// The axis of its epochs in IREE's frontiers.
    pub axis: u64,
    /// Packets in the AQL ring, a power of two.
    pub aql_capacity: u32,
    /// Bytes of the kernarg ring, a power of two.
    pub kernarg_capacity: u64,
    /// Epochs in flight.
    pub notification_capacity: u32,
}

impl Queue {
    /// Creates the hardware queue and starts its completion thread, which has its part of `listeners` until it ends.
    ///
    /// # Errors
    /// What HSA said; nothing is left behind.
    pub fn create(
        params: &QueueParams,
        gpu: Arc<Gpu>,
        shared: Arc<DeviceShared>,
        tracker: FrontierTracker,
        listeners: Arc<Vec<hsa::FaultListener>>,
    ) -> Result<(Arc<Self>, JoinHandle<()>)> {
        let library = gpu.agent().library();
        let epoch_signal = Arc::new(hsa::Signal::new(library, EPOCH_INITIAL_VALUE, &[], 0)?);
        let wake_signal = Arc::new(hsa::Signal::new(library, 0, &[], 0)?);
        let interrupt_signal = Arc::new(hsa::Signal::new(library, 0, &[], 0)?);
        let on_error = {
            let (shared, gpu, ordinal) = (shared.clone(), gpu.clone(), params.ordinal);
            move |error: hsa::Error| shared.lose(gpu.describe_queue_error(ordinal, error))
        };
        let hardware = hsa::HardwareQueue::new(gpu.agent(), params.aql_capacity, Box::new(on_error))?;
        let kernarg_memory = gpu.allocate_kernargs(params.kernarg_capacity as usize)?;
        // SAFETY: the allocation has this size and lives as long as the queue.
        let kernargs = unsafe { ring_over(&kernarg_memory, params.kernarg_capacity) }?;
        let takes_pm4 = gpu.device_wait() == Some(DeviceWait::Pm4);
        let command_memory = takes_pm4.then(|| gpu.allocate_commands(COMMAND_CAPACITY as usize)).transpose()?;
        // SAFETY: the allocation has COMMAND_CAPACITY bytes and lives as long as the queue.
        let commands =
            command_memory.as_ref().map(|memory| unsafe { ring_over(memory, COMMAND_CAPACITY) }).transpose()?;
        // SAFETY: the queue's memory lives as long as `hardware`; this is its only producer.
        let aql = unsafe { AqlRing::new(AqlMemory::of_queue(hardware.as_ptr(), hardware.doorbell())) };
        let (records, producer) = EpochRing::new(params.notification_capacity as usize);
        tracker.register_axis(params.axis)?;
        let queue = Arc::new(Self {
            ordinal: params.ordinal,
            axis: params.axis,
            gpu,
            shared,
            tracker,
            reclaimer: kernargs.reclaimer(),
            command_reclaimer: commands.as_ref().map(KernargRing::reclaimer),
            kernarg_capacity: params.kernarg_capacity,
            aql_capacity: aql.size(),
            submission: Mutex::new(Submission {
                aql,
                kernargs,
                commands,
                records: producer,
                waited: Box::new([0; MAX_QUEUES]),
                closed: false,
            }),
            records,
            waited_queues: AtomicU64::new(0),
            last_work: AtomicU64::new(0),
            drain: Mutex::default(),
            drained: Condvar::new(),
            ready: Mutex::new(Vec::new()),
            line: Arc::default(),
            deferred: Mutex::default(),
            spare_resources: Spare::default(),
            spare_addresses: Spare::default(),
            spare_traces: SpareTraces::default(),
            stopping: AtomicBool::new(false),
            inactivated: Once::new(),
            hardware,
            epoch_signal,
            wake_signal,
            interrupt_signal,
            _kernarg_memory: kernarg_memory,
            _command_memory: command_memory,
        });
        queue.shared.wake_signals.lock().extend([queue.wake_signal.clone(), queue.interrupt_signal.clone()]);
        let thread = {
            let queue = queue.clone();
            std::thread::Builder::new()
                .name(format!("amdgpu_rs-q{}", params.ordinal))
                .spawn(move || {
                    // What a panic was about to do has failed by its drop; the rest fails with the device.
                    while let Err(panic) = thunk::catch(|| complete::run(&queue)) {
                        queue.shared.lose(panic);
                    }
                    // The last one waits for calls under way, so that no thread of the runtime's has the last part of
                    // the GPU behind this.
                    drop(listeners);
                })
                .map_err(|error| {
                    crate::status!(RESOURCE_EXHAUSTED, "starting the completion thread of a queue: {error}")
                })?
        };
        Ok((queue, thread))
    }

    /// Position of the queue in its logical device.
    #[inline]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The axis of the queue's epochs.
    pub fn axis(&self) -> u64 {
        self.axis
    }

    /// Knows which epochs have passed.
    pub fn tracker(&self) -> &FrontierTracker {
        &self.tracker
    }

    /// The axis of the queue `ordinal` of the same logical device.
    pub fn axis_of(&self, ordinal: u32) -> u64 {
        self.axis & !(u64::from(u8::MAX) << QUEUE_AXIS_SHIFT) | u64::from(ordinal) << QUEUE_AXIS_SHIFT
    }

    /// Axis and epoch of the queue's last submission, when nothing else is what everything submitted behind `waits`
    /// from now on comes after: no submission has waited for another queue. A frontier may claim less than is true, so
    /// that submissions of other threads do not matter.
    #[inline]
    pub fn only_epoch(&self, waits: &[EpochWait]) -> Option<(u64, u64)> {
        let is_alone = waits.is_empty() && self.waited_queues.load(Ordering::Relaxed) == 0;
        is_alone.then(|| (self.axis, self.records.last_epoch()))
    }

    /// What everything submitted behind `waits` from now on comes after: this queue's last epoch and those of other
    /// queues that it waited for or that `waits` are for.
    pub fn frontier(&self, waits: &[EpochWait]) -> Frontier {
        // Copied: a frontier of many queues allocates, which is not for the submission lock.
        let (waited, waited_queues) = {
            let submission = self.submission.lock();
            (*submission.waited, self.waited_queues.load(Ordering::Relaxed))
        };
        let mut ordinals = waited_queues | 1 << self.ordinal;
        for wait in waits {
            ordinals |= 1 << wait.queue;
        }
        let epoch = |ordinal: u32| {
            let epoch = if ordinal == self.ordinal { self.records.last_epoch() } else { waited[ordinal as usize] };
            let waits = waits.iter().filter(|wait| wait.queue == ordinal).map(|wait| wait.epoch);
            waits.fold(epoch, u64::max)
        };
        let next = || {
            let ordinal = (ordinals != 0).then(|| ordinals.trailing_zeros())?;
            ordinals &= ordinals - 1;
            Some((self.axis_of(ordinal), epoch(ordinal)))
        };
        let entries = std::iter::from_fn(next);
        Frontier::new(entries.filter(|(_, epoch)| *epoch != 0))
    }

    /// True once the queue was told to stop.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The GPU the queue belongs to.
    #[inline]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Whether operations may be PM4 commands: where packet processors take them, and nothing is profiled.
    #[inline]
    pub fn takes_commands(&self) -> bool {
        self.command_reclaimer.is_some() && !self.shared.profiler.is_active()
    }

    /// What the queues of the logical device share.
    #[inline]
    pub fn shared(&self) -> &Arc<DeviceShared> {
        &self.shared
    }

    /// What it has submitted and completed.
    pub fn epochs(&self) -> Epochs {
        Epochs { signal: self.epoch_signal.clone(), records: self.records.clone() }
    }

    /// The signal that each submission decrements.
    #[inline]
    pub fn epoch_signal(&self) -> &Arc<hsa::Signal> {
        &self.epoch_signal
    }

    /// The epoch signal's value now.
    pub fn epoch_value(&self) -> i64 {
        self.epoch_signal.load()
    }

    /// The epoch signal of the queue `ordinal` of the same logical device.
    pub fn epoch_signal_of(&self, ordinal: u32) -> HsaSignal {
        self.shared.epochs.get().map_or(HsaSignal::NULL, |epochs| epochs[ordinal as usize].signal.handle())
    }

    /// The driver's part of `semaphore`, when the queue's logical device made it.
    #[inline]
    pub fn timeline_of<'a>(&self, semaphore: Semaphore<'a>) -> Option<&'a Timeline> {
        semaphore::timeline(semaphore).filter(|timeline| timeline.device_id() == self.shared.id)
    }

    /// A submission waits for the queue `ordinal`; under the submission lock.
    pub fn note_wait(&self, ordinal: u32) {
        let waited = self.waited_queues.load(Ordering::Relaxed);
        self.waited_queues.store(waited | 1 << ordinal, Ordering::Relaxed);
    }

    /// The submission lock.
    #[inline(always)]
    pub fn lock_submission(&self) -> MutexGuard<'_, Submission> {
        self.submission.try_lock().unwrap_or_else(|| self.wait_for_submission())
    }

    /// The same, when another thread has it: for as long as it takes to write some packets, which is shorter than to
    /// sleep and be woken.
    #[cold]
    fn wait_for_submission(&self) -> MutexGuard<'_, Submission> {
        for _ in 0..LOCK_SPINS {
            spin_loop();
            if !self.submission.is_locked()
                && let Some(submission) = self.submission.try_lock()
            {
                return submission;
            }
        }
        self.submission.lock()
    }

    /// Ends submission: what is pushed is all there will be. Returns whether all of it is out.
    pub fn close(&self) -> bool {
        self.submission.lock().closed = true;
        self.is_idle()
    }

    /// Has the packet processor stamp the completion signals of packets with their start and end, or not.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the runtime has no such function; what it said.
    pub fn set_profiling(&self, enabled: bool) -> Result<()> {
        Ok(self.hardware.set_profiling(enabled)?)
    }

    /// Stops the hardware for good, whatever it is at.
    pub fn inactivate(&self) {
        self.inactivated.call_once(|| self.hardware.inactivate());
    }

    /// The notification ring.
    #[inline]
    pub fn records(&self) -> &EpochRing<Record> {
        &self.records
    }

    /// Gives back the rings up to these positions; the caller has the right to drain.
    pub fn reclaim(&self, ends: RingEnds) {
        self.reclaimer.reclaim(ends.kernargs);
        if let Some(reclaimer) = &self.command_reclaimer {
            reclaimer.reclaim(ends.commands);
        }
    }

    /// Tells the frontier tracker that `epoch` is complete.
    pub fn advance_frontier(&self, epoch: u64) {
        self.tracker.advance(self.axis, epoch);
    }

    /// Whether the hardware has completed `epoch`.
    pub fn is_complete(&self, epoch: u64) -> bool {
        self.epoch_value() < epoch_threshold(epoch)
    }

    /// Sleeps until `epoch` is complete, the device is lost or waits are interrupted, which may also be for somebody
    /// else; not at all when `is_over`, and an interrupt after that was asked is not missed. Returns whether the epoch
    /// is complete.
    pub fn wait_for_epoch(&self, epoch: u64, state: HsaWaitState, is_over: impl FnOnce() -> bool) -> bool {
        let seen = self.interrupt_signal.load();
        if !self.is_complete(epoch) && self.failure().is_none() && !is_over() {
            let operand = epoch_threshold(epoch);
            hsa::wait_any(
                [
                    hsa::Wait { signal: &self.epoch_signal, condition: HsaSignalCondition::LT, operand },
                    hsa::Wait { signal: &self.interrupt_signal, condition: HsaSignalCondition::NE, operand: seen },
                ],
                state,
            );
        }
        self.is_complete(epoch)
    }

    /// Has all threads in [`Self::wait_for_epoch`] return.
    pub fn interrupt_waits(&self) {
        self.interrupt_signal.store(new_value());
    }

    /// Why the device is lost.
    #[inline]
    pub fn failure(&self) -> Option<&Status> {
        self.shared.loss.get()
    }

    /// Refuses work on a lost device.
    ///
    /// # Errors
    /// The failure that lost it.
    #[inline]
    pub fn check_not_lost(&self) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some(failure) => Err(failure.clone().annotate("the device is lost")),
        }
    }

    /// Refuses work on a lost device, or on a queue that has stopped.
    ///
    /// # Errors
    /// The failure that lost it; FAILED_PRECONDITION.
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        if self.failure().is_none() && !self.is_stopping() { Ok(()) } else { Err(self.refusal()) }
    }

    /// Why no work is accepted.
    #[cold]
    fn refusal(&self) -> Status {
        let stopped = || {
            crate::status!(
                FAILED_PRECONDITION,
                "the queue has stopped: its device was destroyed or left its device group"
            )
        };
        self.check_not_lost().err().unwrap_or_else(stopped)
    }

    /// Refuses an operation that could never fit the rings.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the figures.
    #[inline]
    pub fn check_fits(&self, demand: Demand, waits: u32) -> Result<()> {
        let packets = u64::from(demand.packets) + u64::from(waits) + 1;
        let kernarg_bytes = demand.kernarg_bytes;
        if packets > u64::from(self.aql_capacity) || kernarg_bytes > self.kernarg_capacity {
            return Err(self.never_fits(packets, kernarg_bytes));
        }
        Ok(())
    }

    #[cold]
    fn never_fits(&self, packets: u64, kernarg_bytes: u64) -> Status {
        crate::status!(
            RESOURCE_EXHAUSTED,
            "the operation needs {packets} packets and {kernarg_bytes} bytes of kernargs in one piece, the queue has {} and {}; \
             raise --amdgpu_rs_aql_queue_capacity or --amdgpu_rs_kernarg_capacity",
            self.aql_capacity,
            self.kernarg_capacity
        )
    }

    /// Most packets and kernarg bytes of one part of a long operation: half of the rings, so that the next part is
    /// written while one runs.
    #[inline]
    pub fn part_limits(&self) -> (u32, u64) {
        let (packets, kernarg_bytes) = (self.aql_capacity / 2, self.kernarg_capacity / 2);
        // Each packet may be a launch that is counted, or traced.
        (packets / (1 + self.shared.profiler.packets_around()), kernarg_bytes)
    }

    /// Puts a submission on the ready list and wakes the completion thread, which goes on with it.
    pub fn add_ready(&self, ready: Ready) {
        self.ready.lock().push(ready);
        self.wake_signal.store(1);
    }

    /// Whether submissions wait for room in the rings, behind which others stay.
    #[inline]
    pub fn has_line(&self) -> bool {
        self.line.load(Ordering::Relaxed) != 0
    }

    /// Counts them.
    pub fn line(&self) -> &Arc<AtomicUsize> {
        &self.line
    }

    /// The submissions to go on with, oldest first.
    pub fn take_ready(&self) -> Vec<Ready> {
        std::mem::take(&mut *self.ready.lock())
    }

    /// Puts back, in front, submissions that wait for the next drain.
    pub fn park(&self, parked: Vec<Ready>) {
        if !parked.is_empty() {
            self.ready.lock().splice(0..0, parked);
        }
    }

    /// Runs `task` on the device's host worker.
    pub fn run_on_host(&self, task: HostTask, signals: SignalList) {
        // A task that finds no thread is dropped with its signals, which fails them.
        let _ = self.shared.worker.run(task, signals);
    }

    /// Sleeps until the epoch signal falls below `seen` or the queue is woken.
    pub fn wait_for_event(&self, seen: i64) {
        hsa::wait_any(
            [
                hsa::Wait { signal: &self.epoch_signal, condition: HsaSignalCondition::LT, operand: seen },
                hsa::Wait { signal: &self.wake_signal, condition: HsaSignalCondition::NE, operand: 0 },
            ],
            HsaWaitState::BLOCKED,
        );
        self.wake_signal.store(0);
    }

    /// Sleeps until the queue is woken or a full ring is worth another look, for when no epoch is left whose end would
    /// say so: the packet processor may free the slots of the last packets after it has signaled them.
    pub fn wait_for_room(&self) {
        self.wake_signal.wait(HsaSignalCondition::NE, 0, Some(ROOM_CHECK_INTERVAL), HsaWaitState::BLOCKED);
        self.wake_signal.store(0);
    }

    /// Says that the submission of this epoch has work of its own.
    #[inline]
    pub fn note_work(&self, epoch: u64) {
        self.last_work.store(epoch, Ordering::Relaxed);
    }

    /// How many submissions are in flight up to the last one with work of its own: those behind it are over with it.
    pub fn work_in_flight(&self) -> u64 {
        self.last_work.load(Ordering::Relaxed).saturating_sub(self.records.drained_epoch())
    }

    /// True when the host has seen to the completion of this epoch.
    pub fn has_completed(&self, epoch: u64) -> bool {
        self.records.drained_epoch() >= epoch
    }

    /// Cancels what waits for semaphores and lets the completion thread end once what is in flight is complete.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let deferred = self.deferred.lock().all();
        for submission in deferred {
            submission.cancel();
        }
        self.wake_signal.store(1);
    }
}

/// A ring over `capacity` bytes of `memory`.
///
/// # Errors
/// RESOURCE_EXHAUSTED for memory without an address.
///
/// # Safety
/// The memory is as long, a power of two, and outlives the ring; nobody else uses it.
unsafe fn ring_over(memory: &hsa::Allocation, capacity: u64) -> Result<KernargRing> {
    let base = NonNull::new(memory.as_ptr())
        .ok_or_else(|| crate::status!(RESOURCE_EXHAUSTED, "the memory of a queue's ring has no address"))?;
    // SAFETY: the caller's promise; HSA's allocations are page-aligned, and this one's agents have access.
    Ok(unsafe { KernargRing::new(base, capacity) })
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.tracker.retire_axis(self.axis, crate::status!(CANCELLED, "the queue was destroyed"));
    }
}
