// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One hardware queue: its rings, its epoch signal and its two threads.
//!
//! A hardware queue is a ring of AQL packets. The driver writes packets and stores an index to the queue's doorbell;
//! the GPU's packet processor runs the packets up to that index. Epochs number the submissions of a queue. The last
//! packet of a submission decrements the queue's epoch signal, whose value tells the host which epochs are complete.
//!
//! A submission is called; deferred while a wait needs the host, parked while a ring is full, or blocked while its pool
//! has no memory; reserved, when it has its ring space; submitted, when the doorbell is rung; and complete.
//! `docs/design/submission.md` has the thread that moves it from each state.
//!
//! Locks, in the order in which they may be taken: submission, then a semaphore's own; the state of the drain alone;
//! the lists of ready and deferred submissions alone. No HAL object is released and no callback runs under any of them.
//!
//! [`Queue`] has the methods that need two of its parts; others are on the part (`queue.rings`, `queue.drain`, ...).
//! Plain data is below the parts, completion and submission are above the queue (`docs/design/submission.md`,
//! "Modules").

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod backlog;
pub mod blocked;
pub mod complete;
pub mod deferred;
pub mod demand;
pub mod device_queues;
mod drain;
pub mod emitter;
mod epoch_signal;
pub mod epoch_wait;
mod frontier;
pub mod gate;
pub mod groups;
pub mod host_call;
pub mod host_worker;
pub mod kernargs;
mod last_signal;
pub mod operation;
pub mod pm4;
pub mod probe;
pub mod record;
pub mod resume;
pub mod retained;
mod rings;
pub mod semaphore;
pub mod shared;
pub mod signal_list;
mod signals;
pub mod submit;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod threads;
pub mod timeline;
pub mod trace;
pub mod vec_pool;
pub mod waits;
pub mod wakeup;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use hsa_abi::HsaSignal;

use crate::backlog::Backlog;
use crate::deferred::PendingSubmission;
use crate::demand::{Demand, RingLimits};
use crate::drain::Drain;
use crate::epoch_signal::EpochSignal;
use crate::epoch_wait::EpochWait;
use crate::frontier::QueueFrontier;
use crate::host_worker::HostTask;
use crate::rings::Rings;
use crate::shared::{DeviceShared, Epochs};
use crate::signal_list::SignalList;
use crate::trace::TracePool;
use crate::vec_pool::VecPools;
use crate::wakeup::Wakeup;
use amdgpu_ffi::{Frontier, Result, Status};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::options::Options;
use amdgpu_hsa as hsa;
use amdgpu_ring::KERNARG_ALIGNMENT;

pub use rings::Submission;

/// The interval in which a thread that waits for an epoch checks for the loss of the device.
const LOSS_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// One hardware queue of a logical device.
#[derive(Debug)]
pub struct Queue {
    // First, so that the hardware has stopped before anything goes that its packets may use: records, kernargs,
    // signals.
    hardware: hsa::HardwareQueue,
    ordinal: u32,
    gpu: Arc<Gpu>,
    shared: Arc<DeviceShared>,
    rings: Rings,
    frontier: QueueFrontier,
    drain: Drain,
    backlog: Backlog,
    vec_pools: VecPools,
    traces: TracePool,
    stopping: AtomicBool,
    inactivated: Once,
    /// Each submission decrements it.
    epoch: EpochSignal,
    /// The wake-up flag of the submission thread.
    wakeup: Arc<Wakeup>,
}

/// The parameters of a queue.
#[derive(Debug)]
pub struct QueueParams {
    /// Position in the logical device; the bit of its queue affinity.
    pub ordinal: u32,
    /// Packets in the AQL ring, a power of two.
    pub aql_capacity: u32,
    /// Bytes of the kernarg ring, a power of two.
    pub kernarg_capacity: u64,
    /// Epochs in flight.
    pub notification_capacity: u32,
    /// Bytes of the largest vector that is kept for reuse by later operations.
    pub recycle_limit: usize,
}

impl QueueParams {
    /// The parameters that `options` give to the queue `ordinal`.
    pub fn new(ordinal: u32, options: &Options) -> Self {
        Self {
            ordinal,
            aql_capacity: options.aql_queue_capacity,
            kernarg_capacity: u64::from(options.kernarg_capacity) * KERNARG_ALIGNMENT,
            notification_capacity: options.notification_capacity,
            recycle_limit: options.host_block_pool_small_size,
        }
    }
}

impl Queue {
    /// Creates the hardware queue, without its [threads].
    ///
    /// # Errors
    /// The error of HSA; nothing is left behind.
    pub fn new(params: &QueueParams, gpu: Arc<Gpu>, shared: Arc<DeviceShared>) -> Result<Arc<Self>> {
        let epoch = EpochSignal::new(gpu.agent().library())?;
        let on_error = {
            let (shared, gpu, ordinal) = (shared.clone(), gpu.clone(), params.ordinal);
            move |error: hsa::Error| shared.mark_lost(gpu.describe_queue_error(ordinal, &error))
        };
        let hardware = hsa::HardwareQueue::new(gpu.agent(), params.aql_capacity, Box::new(on_error))?;
        let rings = Rings::new((params.kernarg_capacity, params.notification_capacity), &gpu, &hardware)?;
        let frontier = QueueFrontier::new(params.ordinal, shared.groups.axis(params.ordinal));
        let queue = Arc::new(Self {
            ordinal: params.ordinal,
            gpu,
            shared,
            rings,
            frontier,
            drain: Drain::default(),
            backlog: Backlog::default(),
            vec_pools: VecPools::new(params.recycle_limit),
            traces: TracePool::default(),
            stopping: AtomicBool::new(false),
            inactivated: Once::new(),
            hardware,
            epoch,
            wakeup: Arc::default(),
        });
        queue.shared.wakeups.lock().push(queue.wakeup.clone());
        Ok(queue)
    }

    /// Position of the queue in its logical device.
    #[inline]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
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

    /// The state shared by the queues of the logical device.
    #[inline]
    pub fn shared(&self) -> &Arc<DeviceShared> {
        &self.shared
    }

    /// Enables or disables time stamps of the packet processor in the completion signals of packets.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the runtime has no such function; otherwise its error.
    pub fn set_profiling(&self, enabled: bool) -> Result<()> {
        Ok(self.hardware.set_profiling(enabled)?)
    }

    /// Stops the hardware for good, whatever it is executing. Closes the queue for submissions first: packets of an
    /// inactive queue are undefined (HSA Runtime 1.2, `hsa_queue_inactivate`). Takes the submission lock.
    pub fn inactivate(&self) {
        self.close();
        self.inactivated.call_once(|| self.hardware.inactivate());
    }

    /// The failure that lost the device; none while it is not lost.
    #[inline]
    pub fn failure(&self) -> Option<&Status> {
        self.shared.lost_status.get()
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

    /// The error for a submission that is not accepted.
    #[cold]
    fn refusal(&self) -> Status {
        let stopped = || amdgpu_ffi::status!(FAILED_PRECONDITION, "the queue has stopped: its device was destroyed");
        self.check_not_lost().err().unwrap_or_else(stopped)
    }

    /// Runs `task` on the device's host worker.
    pub fn run_on_host(&self, task: HostTask, signals: SignalList) {
        // A task that finds no thread is dropped with its signals, which fails them.
        let _ = self.shared.worker.run(task, signals);
    }

    /// Calls the submission thread to report the queue's progress to groups that the device has joined.
    pub fn report_to_new_groups(&self) {
        self.wakeup.call();
    }

    /// Cancels submissions that wait for semaphores or memory. The queue's threads end once the work in flight is
    /// complete.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let first_from = |place| self.backlog.deferred.lock().first_from(place);
        let mut place = 0;
        while let Some(submission) = first_from(place) {
            place = submission.place() + 1;
            submission.cancel();
        }
        self.end_blocked();
        self.wakeup.call();
    }

    /// Ends the waits of all blocked submissions if the device is lost or going away.
    pub fn end_blocked(&self) {
        let cancelled = || {
            amdgpu_ffi::status!(CANCELLED, "the device was destroyed while queue_alloca waited for memory of its pool")
        };
        let failure = self.check_not_lost().err().or_else(|| self.is_stopping().then(cancelled));
        if let Some(failure) = failure {
            self.backlog.end_blocked(&failure);
        }
    }

    /// Puts a submission on the ready list and calls the submission thread, which goes on with it.
    pub fn add_ready(&self, pending: PendingSubmission) {
        self.backlog.push_ready(pending);
        self.wakeup.call();
    }

    /// The vectors that operations reuse.
    #[inline]
    pub fn vec_pools(&self) -> &VecPools {
        &self.vec_pools
    }

    /// Drops the unused traces: the session is over.
    pub fn drop_unused_traces(&self) {
        self.traces.clear();
    }

    /// The sizes of the rings.
    #[inline]
    pub fn limits(&self) -> RingLimits {
        self.rings.limits()
    }

    /// Refuses an operation that could never fit the rings.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the figures.
    #[inline]
    pub fn check_fits(&self, demand: Demand, waits: u32) -> Result<()> {
        self.limits().check_fits(demand, waits)
    }

    /// The most packets and kernarg bytes of one part of a long operation: half of the rings, so that the next part can
    /// be written while one runs.
    #[inline]
    pub fn part_limits(&self) -> (u32, u64) {
        let RingLimits { packets, kernarg_bytes } = self.limits();
        // Each packet may be a launch that is counted, or traced.
        (packets / 2 / (1 + self.shared.profiler.packets_around()), kernarg_bytes / 2)
    }

    /// True if operations may be PM4 commands: packet processors run them, and nothing is profiled.
    #[inline]
    pub fn takes_commands(&self) -> bool {
        self.rings.takes_commands() && !self.shared.profiler.is_active()
    }

    /// Closes the rings for submissions. Returns true if nothing is left to do.
    pub fn close(&self) -> bool {
        self.rings.close();
        self.is_idle()
    }

    /// True if nothing is in flight or being completed. Otherwise the submission thread is called at the end of a drain
    /// if submissions wait for ring space or the queue is stopping.
    pub fn is_quiet(&self) -> bool {
        self.drain.is_quiet(|| self.rings.are_drained())
    }

    /// True when nothing is in flight, being completed, ready, deferred or blocked.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && self.backlog.is_empty()
    }

    /// True if this thread has the right to take records out: it is in a completion callback.
    pub fn is_drained_by_this_thread(&self) -> bool {
        self.drain.is_by_this_thread()
    }

    /// Waits until everything pushed before is taken out and handled. Does not wait in a completion callback.
    pub fn wait_until_drained(&self) {
        let epoch = self.rings.records.last_epoch();
        self.drain.wait_until(|| self.has_completed(epoch));
    }

    /// The epochs that the queue has submitted and completed.
    pub fn epochs(&self) -> Epochs {
        Epochs { signal: self.epoch.signal().clone(), records: self.rings.records.clone() }
    }

    /// True if `epochs` are this queue's.
    pub fn owns(&self, epochs: &Epochs) -> bool {
        Arc::ptr_eq(&epochs.records, &self.rings.records)
    }

    /// The last submitted epoch.
    #[inline]
    pub fn last_epoch(&self) -> u64 {
        self.rings.records.last_epoch()
    }

    /// The last epoch whose completion the host has begun to handle.
    #[inline]
    pub fn drained_epoch(&self) -> u64 {
        self.rings.records.drained_epoch()
    }

    /// True if the host has handled the completion of this epoch.
    pub fn has_completed(&self, epoch: u64) -> bool {
        self.drained_epoch() >= epoch
    }

    /// True if the hardware has completed `epoch`.
    pub fn is_complete(&self, epoch: u64) -> bool {
        self.epoch.is_complete(epoch)
    }

    /// Sleeps until `epoch` is complete or the device is lost, which is detected within `LOSS_CHECK_INTERVAL`.
    /// Returns true if the epoch is complete. For threads that do not need its completion to be handled.
    pub fn wait_for_epoch(&self, epoch: u64) -> bool {
        while !self.is_complete(epoch) && self.failure().is_none() {
            self.epoch.wait_for(epoch, LOSS_CHECK_INTERVAL);
        }
        self.is_complete(epoch)
    }

    /// The epoch signal of the queue `ordinal` of the same logical device.
    pub fn epoch_signal_of(&self, ordinal: u32) -> HsaSignal {
        self.shared.epochs.get().map_or(HsaSignal::NULL, |epochs| epochs[ordinal as usize].signal.handle())
    }

    /// Ends the completion thread after one more look.
    fn end_completion(&self) {
        self.epoch.end(self.failure().is_some());
    }

    /// The axis of the queue's epochs in frontiers that the driver makes.
    pub fn axis(&self) -> u64 {
        self.frontier.axis()
    }

    /// The axis of the queue `ordinal` of the same logical device.
    pub fn axis_of(&self, ordinal: u32) -> u64 {
        self.shared.groups.axis(ordinal)
    }

    /// The axis and epoch of the queue's last submission, if that is the whole frontier of submissions behind `waits`:
    /// neither they nor earlier submissions have waited for another queue. A frontier may claim less than is true, so
    /// that concurrent submissions of other threads do not matter.
    #[inline]
    pub fn single_entry_frontier(&self, waits: &[EpochWait]) -> Option<(u64, u64)> {
        self.frontier.is_single(waits).then(|| (self.axis(), self.last_epoch()))
    }

    /// The frontier of submissions behind `waits`: this queue's last epoch, and the epochs of other queues that it
    /// waited for or that are in `waits`.
    pub fn frontier(&self, waits: &[EpochWait]) -> Frontier {
        // Copied: a frontier of many queues allocates, which is not for the submission lock.
        let (waited, waited_queues) = {
            let submission = self.rings.lock();
            (*submission.waited, self.frontier.waited_queues())
        };
        self.frontier.behind(waits, self.last_epoch(), (&waited, waited_queues), |ordinal| self.axis_of(ordinal))
    }

    /// The number of submissions in flight up to the last one with work of its own. Later ones complete with it.
    pub fn work_in_flight(&self) -> u64 {
        self.frontier.last_work().saturating_sub(self.drained_epoch())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.groups.retire(self.ordinal);
    }
}
