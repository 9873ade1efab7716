// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One hardware queue: its rings, its epoch signal and its two threads.
//!
//! Locks, in the order in which they may be taken: submission, then a semaphore's own; the state of the drain alone;
//! the lists of ready and deferred submissions alone. No HAL object is released and no callback runs under any of them.

mod backlog;
pub mod blocked;
pub mod complete;
pub mod deferred;
mod drain;
mod frontier;
pub mod groups;
pub mod host_call;
pub mod host_worker;
mod kernargs;
mod last_signal;
pub mod operation;
pub mod pm4;
pub mod probe;
pub mod resume;
pub mod retained;
mod rings;
pub mod semaphore;
pub mod shared;
mod signals;
pub mod submit;
pub mod timeline;
pub mod trace;
mod vec_pool;
pub mod waits;
pub mod wakeup;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;

use crate::core::gpu::Gpu;
use crate::core::queue::backlog::Backlog;
use crate::core::queue::drain::Drain;
use crate::core::queue::frontier::QueueFrontier;
use crate::core::queue::host_worker::HostTask;
use crate::core::queue::rings::Rings;
use crate::core::queue::shared::DeviceShared;
use crate::core::queue::timeline::{SignalList, Timeline};
use crate::core::queue::vec_pool::VecPools;
use crate::core::queue::wakeup::Wakeup;
use crate::ffi::{Result, Semaphore, Status, thread, thunk};
use crate::hsa;
use crate::ring::EPOCH_INITIAL_VALUE;

pub use rings::Submission;

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
    history: QueueFrontier,
    drain: Drain,
    backlog: Backlog,
    vec_pools: VecPools,
    stopping: AtomicBool,
    inactivated: Once,
    /// Each submission decrements it.
    epoch: Arc<hsa::Signal>,
    /// The completion thread has to end.
    has_ended: AtomicBool,
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

impl Queue {
    /// Creates the hardware queue and starts its threads. Both hold `listener` until they end. Returns the handle of
    /// the thread that ends last.
    ///
    /// # Errors
    /// The error of HSA; nothing is left behind.
    pub fn create(
        params: &QueueParams,
        gpu: Arc<Gpu>,
        shared: Arc<DeviceShared>,
        listener: Arc<hsa::FaultListener>,
    ) -> Result<(Arc<Self>, JoinHandle<()>)> {
        let library = gpu.agent().library();
        let epoch = Arc::new(hsa::Signal::new(library, EPOCH_INITIAL_VALUE, &[], 0)?);
        let on_error = {
            let (shared, gpu, ordinal) = (shared.clone(), gpu.clone(), params.ordinal);
            move |error: hsa::Error| shared.mark_lost(gpu.describe_queue_error(ordinal, &error))
        };
        let hardware = hsa::HardwareQueue::new(gpu.agent(), params.aql_capacity, Box::new(on_error))?;
        let rings = Rings::new(params, &gpu, &hardware)?;
        let history = QueueFrontier::new(shared.groups.axis(params.ordinal));
        let queue = Arc::new(Self {
            ordinal: params.ordinal,
            gpu,
            shared,
            rings,
            history,
            drain: Drain::default(),
            backlog: Backlog::default(),
            vec_pools: VecPools::new(params.recycle_limit),
            stopping: AtomicBool::new(false),
            inactivated: Once::new(),
            hardware,
            epoch,
            has_ended: AtomicBool::new(false),
            wakeup: Arc::default(),
        });
        queue.shared.wakeups.lock().push(queue.wakeup.clone());
        let thread = start_threads(&queue, listener).map_err(|error| {
            crate::status!(RESOURCE_EXHAUSTED, "starting the threads of queue {}: {error}", params.ordinal)
        })?;
        Ok((queue, thread))
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

    /// The driver's part of `semaphore`, when the queue's logical device made it.
    #[inline]
    pub fn timeline_of<'a>(&self, semaphore: Semaphore<'a>) -> Option<&'a Timeline> {
        semaphore::timeline(semaphore).filter(|timeline| timeline.device_id() == self.shared.id)
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
        let stopped = || crate::status!(FAILED_PRECONDITION, "the queue has stopped: its device was destroyed");
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
        let mut place = 0;
        while let Some(submission) = self.deferred_from(place) {
            place = submission.place() + 1;
            submission.cancel();
        }
        self.end_blocked();
        self.wakeup.call();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.groups.retire(self.ordinal);
    }
}

/// Starts the completion thread and the submission thread, which outlives it.
fn start_threads(queue: &Arc<Queue>, listener: Arc<hsa::FaultListener>) -> std::io::Result<JoinHandle<()>> {
    let completion = start(queue, "q", |queue| complete::run(queue), || ())?;
    let (joined, ended) = (queue.clone(), queue.clone());
    let end = move || {
        joined.end_completion();
        // One that panicked has nothing more to tell.
        let _ = completion.join();
        // The last one waits for calls under way, so that no thread of the runtime's has the last part of the GPU
        // behind this.
        drop(listener);
    };
    start(queue, "s", resume::run, end).inspect_err(|_| ended.end_completion())
}

/// Starts a thread of `queue`, with `prefix` in its name, that runs `body` and then `end`.
fn start(
    queue: &Arc<Queue>,
    prefix: &str,
    body: fn(&Arc<Queue>),
    end: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let name = format!("amdgpu_rs-{prefix}{}", queue.ordinal);
    let queue = queue.clone();
    thread::spawn(name, move || {
        // The submission in work at a panic was failed by its drop; the others fail with the device.
        while let Err(panic) = thunk::catch(|| body(&queue)) {
            queue.shared.mark_lost(panic);
        }
        end();
    })
}
