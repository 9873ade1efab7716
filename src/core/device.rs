// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A logical device: one or more GPUs of a kind and their hardware queues.
//!
//! Queues are made when the device first joins a device group and exist until it is destroyed, whatever other groups it
//! joins and leaves. The bit of queue `q` of GPU `g` in a queue affinity is `g * queues_per_gpu + q`.

mod profiling;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::device::watch::Watch;
use amdgpu_ffi::{FrontierTracker, MAX_QUEUES, Result, SemaphoreList, Status, status};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::options::Options;
use amdgpu_gpu::topology::Selection;
use amdgpu_hsa as hsa;
use amdgpu_profile::Profiler;
use amdgpu_queue::device_queues::DeviceQueues;
use amdgpu_queue::groups::Member;
use amdgpu_queue::shared::DeviceShared;
use amdgpu_queue::{Queue, QueueParams, semaphore, threads};

/// Queues and the threads that complete their work.
#[derive(Debug, Default)]
struct Queues {
    queues: Vec<Arc<Queue>>,
    threads: Vec<JoinHandle<()>>,
}

/// The driver's part of a logical device.
#[derive(Debug)]
pub struct LogicalDevice {
    id: u64,
    options: Options,
    gpus: Vec<Arc<Gpu>>,
    queue_mask: u64,
    /// The affinity bits of the queues that submissions choose from: all, or none while a profiling session directs
    /// them to the first queue of a GPU.
    open_mask: AtomicU64,
    shared: Arc<DeviceShared>,
    queues: Arc<DeviceQueues>,
    /// The completion threads of `queues`. Locked while the queues are made.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The watch for faults that the runtime does not report, on which the completion threads may wait.
    watch: Arc<Watch>,
}

impl LogicalDevice {
    /// Prepares the GPUs of `selection`; queues follow at [`Self::join`].
    ///
    /// # Errors
    /// As for [`Gpu::new`]; OUT_OF_RANGE for more queues than an affinity has bits.
    pub fn new(selection: &Selection, options: Options) -> Result<Self> {
        selection.verify(&options)?;
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let queue_count = selection.gpus.len() * options.hardware_queues_per_gpu;
        if queue_count > MAX_QUEUES {
            return Err(status!(
                OUT_OF_RANGE,
                "{} GPUs with {} hardware queues each are {queue_count} queues; a queue affinity has {MAX_QUEUES} bits",
                selection.gpus.len(),
                options.hardware_queues_per_gpu
            ));
        }
        let mut gpus = Vec::with_capacity(selection.gpus.len());
        for (index, gpu) in selection.gpus.iter().enumerate() {
            gpus.push(Gpu::new(index, gpu, &selection.cpus[gpu.cpu], &options)?);
        }
        let queue_mask = u64::MAX >> (MAX_QUEUES - queue_count);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(DeviceShared::new(id, queue_count as u32));
        Ok(Self {
            id,
            options,
            gpus,
            queue_mask,
            open_mask: AtomicU64::new(queue_mask),
            shared,
            queues: Arc::default(),
            threads: Mutex::default(),
            watch: Arc::default(),
        })
    }

    /// Unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The options of the device.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The GPUs, in the order of the device path.
    pub fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus
    }

    /// Hardware queues on all GPUs.
    #[inline]
    pub fn queue_count(&self) -> usize {
        self.gpus.len() * self.options.hardware_queues_per_gpu
    }

    /// The affinity bits of all queues.
    #[inline]
    pub fn queue_mask(&self) -> u64 {
        self.queue_mask
    }

    /// The affinity bits of the queues of GPU `index`.
    pub fn gpu_mask(&self, index: usize) -> u64 {
        let per_gpu = self.options.hardware_queues_per_gpu;
        (u64::MAX >> (MAX_QUEUES - per_gpu)) << (index * per_gpu)
    }

    /// The affinity as bits of existing queues, lowest first in use; 0 and ANY are all queues.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it names no queue of the device.
    #[inline]
    pub fn canonical_affinity(&self, affinity: u64) -> Result<u64> {
        let mask = self.queue_mask();
        match if affinity == 0 { mask } else { affinity & mask } {
            0 => Err(status!(
                INVALID_ARGUMENT,
                "queue affinity {affinity:#x} names none of the device's queues {mask:#x}"
            )),
            bits => Ok(bits),
        }
    }

    /// The ordinal of the queue that `affinity` selects: always the lowest of its bits, so that equal affinities share
    /// a queue.
    ///
    /// # Errors
    /// As for [`Self::canonical_affinity`].
    pub fn select_ordinal(&self, affinity: u64) -> Result<usize> {
        Ok(self.canonical_affinity(affinity)?.trailing_zeros() as usize)
    }

    /// The GPU that `affinity` selects.
    ///
    /// # Errors
    /// As for [`Self::canonical_affinity`].
    pub fn select_gpu(&self, affinity: u64) -> Result<&Arc<Gpu>> {
        Ok(&self.gpus[self.select_ordinal(affinity)? / self.options.hardware_queues_per_gpu])
    }

    /// Chooses the queue for a submission behind `waits`, among the queues of `affinity` that are on the GPU of its
    /// lowest bit:
    ///
    /// * the queue of a pending wait, if there is one: work of the same queue needs no packet to wait;
    /// * otherwise the queue with the least work in flight, so that independent submissions overlap. Allocations and
    ///   barriers do not count as work, so that a submission that waits for several of them finds them on one queue;
    /// * the lowest queue where queues cannot wait for each other on the device.
    ///
    /// # Errors
    /// As for [`Self::canonical_affinity`]; FAILED_PRECONDITION before the device is in a device group.
    #[inline(always)]
    pub fn select_queue(&self, affinity: u64, waits: SemaphoreList<'_>) -> Result<&Arc<Queue>> {
        let queues = self.queues.list();
        let open = self.open_mask.load(Ordering::Relaxed);
        let bits = if affinity == 0 { open } else { affinity & open };
        if bits == 0 {
            return self.select_first(queues, affinity);
        }
        let queue = queues.get(bits.trailing_zeros() as usize).ok_or_else(no_queues)?;
        if bits.is_power_of_two() { Ok(queue) } else { Ok(self.select_among(queues, queue, bits, waits)) }
    }

    /// Chooses the first queue of the affinity's GPU, while a session counts hardware events in kernels: the counters
    /// are the GPU's, so that kernels on two of its queues would disturb each other's counts. Also called for an
    /// affinity that names no queue, which is an error.
    #[cold]
    fn select_first<'a>(&self, queues: &'a [Arc<Queue>], affinity: u64) -> Result<&'a Arc<Queue>> {
        let queues_per_gpu = self.options.hardware_queues_per_gpu;
        let gpu = self.select_ordinal(affinity)? / queues_per_gpu;
        queues.get(gpu * queues_per_gpu).ok_or_else(no_queues)
    }

    /// Chooses among several queues as [`Self::select_queue`] says; `queue` is the lowest of `bits`.
    fn select_among<'a>(
        &'a self,
        queues: &'a [Arc<Queue>],
        queue: &'a Arc<Queue>,
        bits: u64,
        waits: SemaphoreList<'_>,
    ) -> &'a Arc<Queue> {
        if queue.gpu().device_wait().is_none() {
            return queue;
        }
        let candidates = bits & self.gpu_mask(queue.gpu().index());
        let pending = |(semaphore, value)| {
            let last = semaphore::timeline_of(queue, semaphore)?.last_signal()?;
            let queue = queues.get(last.queue as usize)?;
            let is_pending =
                last.value >= value && candidates >> last.queue & 1 == 1 && !queue.has_completed(last.epoch);
            is_pending.then_some(queue)
        };
        if let Some(queue) = waits.iter().find_map(pending) {
            return queue;
        }
        let all = queues.iter().enumerate().filter(|(ordinal, _)| candidates >> ordinal & 1 == 1);
        let chosen = all.map(|(_, queue)| queue).min_by_key(|queue| queue.work_in_flight());
        chosen.unwrap_or(queue)
    }

    /// The queues, for semaphores that wait for their epochs and for profiles.
    pub fn queues(&self) -> &Arc<DeviceQueues> {
        &self.queues
    }

    /// The state that the device's queues share.
    pub fn shared(&self) -> &Arc<DeviceShared> {
        &self.shared
    }

    /// Joins a device group: `tracker` is told of the queues' progress from now on, on `base_axis` with the queue
    /// ordinal in its bits 24 to 31 (`iree/async/frontier.h`). The first call creates the hardware queues. Does not
    /// wait for submissions or affect them.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when a fault has ended a GPU for this process; the failure that lost the device; as for
    /// [`Groups::join`]; the error of HSA. The device is unchanged.
    ///
    /// [`Groups::join`]: amdgpu_queue::groups::Groups::join
    pub fn join(&self, tracker: &FrontierTracker, base_axis: u64) -> Result<Arc<Member>> {
        let mut threads = self.threads.lock();
        if self.queues.list().is_empty() {
            let made = self.create_queues()?;
            let member = match self.shared.groups.join(tracker, base_axis) {
                Ok(member) => member,
                Err(status) => return Err(self.discard(made, status)),
            };
            let _ = self.shared.epochs.set(made.queues.iter().map(|queue| queue.epochs()).collect());
            self.queues.set(made.queues.into());
            *threads = made.threads;
            self.begin_zones();
            return Ok(member);
        }
        drop(threads);
        let queues = self.queues.list();
        queues[0].check_not_lost()?;
        let member = self.shared.groups.join(tracker, base_axis)?;
        for queue in queues {
            self.shared.groups.catch_up(&member, queue.ordinal(), queue.drained_epoch());
            // A drain under way may have told of an epoch without knowing of the group, and not be seen here.
            queue.report_to_new_groups();
            if let Some(loss) = queue.failure() {
                self.shared.groups.fail(queue.ordinal(), loss);
            }
        }
        Ok(member)
    }

    /// Creates the hardware queues.
    ///
    /// # Errors
    /// As for [`Self::join`]; no queue is left.
    fn create_queues(&self) -> Result<Queues> {
        let shared = &self.shared;
        let (library, queues_per_gpu) = (self.gpus[0].agent().library(), self.options.hardware_queues_per_gpu);
        let masks: Vec<_> = self.gpus.iter().map(|gpu| self.gpu_mask(gpu.index())).collect();
        let (gpus, device, watch) = (self.gpus.clone(), Arc::downgrade(shared), Arc::downgrade(&self.watch));
        let listener = hsa::listen(library, move |fault| {
            let device = device.upgrade()?;
            match gpus.iter().zip(&masks).find(|(gpu, _)| gpu.agent().handle() == fault.agent) {
                Some((gpu, mask)) => device.mark_lost_by_fault(gpu, *mask, fault),
                None => {
                    watch.upgrade()?.start(&device, &gpus, queues_per_gpu);
                    None
                }
            }
        });
        // Held by the completion threads: faults must be reported until the last of them has ended.
        let listener = Arc::new(listener);
        for gpu in &self.gpus {
            gpu.check_alive()?;
        }
        if !hsa::tells_faults(library) {
            self.watch.start(shared, &self.gpus, queues_per_gpu);
        }
        let mut made = Queues::default();
        for ordinal in 0..self.queue_count() {
            let params = QueueParams::new(ordinal as u32, &self.options);
            let gpu = self.gpus[ordinal / self.options.hardware_queues_per_gpu].clone();
            let queue = Queue::new(&params, gpu, shared.clone());
            match queue.and_then(|queue| Ok((threads::start(&queue, listener.clone())?, queue))) {
                Ok((thread, queue)) => {
                    made.queues.push(queue);
                    made.threads.push(thread);
                }
                Err(status) => return Err(self.discard(made, status)),
            }
        }
        Ok(made)
    }

    /// Ends unused queues because of `status`, which it returns.
    fn discard(&self, made: Queues, status: Status) -> Status {
        stop(made);
        self.shared.wakeups.lock().clear();
        status
    }

    /// The device's profiler.
    pub fn profiler(&self) -> &Arc<Profiler> {
        &self.shared.profiler
    }
}

impl Drop for LogicalDevice {
    /// Stops the queues: cancels submissions that wait for semaphores, and completes those in flight. Host tasks finish
    /// first. Ends a profiling session that the caller has not ended.
    fn drop(&mut self) {
        // No caller is left for the error.
        let _ = self.end_session();
        self.shared.worker.close();
        let threads = std::mem::take(self.threads.get_mut());
        stop(Queues { queues: self.queues.list().to_vec(), threads });
    }
}

#[cold]
fn no_queues() -> Status {
    status!(
        FAILED_PRECONDITION,
        "the device has no queues yet: it must be added to a device group (iree_hal_device_group_create) first"
    )
}

/// Stops queues.
fn stop(made: Queues) {
    for queue in &made.queues {
        queue.stop();
    }
    for (queue, thread) in made.queues.iter().zip(made.threads) {
        // The last reference to the device may go in a callback of completed work, on a completion thread or one that
        // waits: then the completion thread ends by itself after that.
        if thread.thread().id() != std::thread::current().id() && !queue.is_drained_by_this_thread() {
            // A completion thread that panicked has nothing more to tell.
            let _ = thread.join();
        }
    }
}
