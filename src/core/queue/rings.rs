// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The rings of a queue: packets, their arguments and commands, and the records of submissions.

use std::hint::spin_loop;
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::demand::RingLimits;
use crate::epoch_wait::EpochWait;
use crate::record::{Record, RingEnds};
use amdgpu_ffi::fallible::exhausted;
use amdgpu_ffi::{MAX_QUEUES, Result};
use amdgpu_gpu::{DeviceWait, Gpu};
use amdgpu_hsa as hsa;
use amdgpu_ring::{AqlMemory, AqlRing, EpochProducer, EpochRing, KERNARG_ALIGNMENT, KernargReclaimer, KernargRing};

/// Bytes of the ring of PM4 commands: enough for many waits for every other queue.
const COMMAND_CAPACITY: u64 = 64 << 10;
const _: () = assert!(COMMAND_CAPACITY >= 8 * MAX_QUEUES as u64 * KERNARG_ALIGNMENT);

/// Attempts to take the submission lock before the thread sleeps: some microseconds.
const LOCK_SPINS: u32 = 200;

/// The producer's side of a queue, under the submission lock.
#[derive(Debug)]
pub struct Submission {
    /// Packets.
    pub aql: AqlRing,
    /// Kernel arguments.
    pub kernargs: KernargRing,
    /// PM4 commands, for packet processors that take them.
    pub commands: Option<KernargRing>,
    /// The producer's end of the notification ring, for records of future epochs.
    pub records: EpochProducer<Record>,
    /// Highest epoch of every other queue that this queue has waited for.
    pub waited: Box<[u64; MAX_QUEUES]>,
    /// Closed: records are no longer taken out, so none may be pushed. The device is lost or the queue has stopped.
    pub closed: bool,
}

impl Submission {
    /// True when an earlier submission of this queue is behind the same epoch or a later one.
    pub fn has_waited_for(&self, wait: &EpochWait) -> bool {
        self.waited[wait.queue as usize] >= wait.epoch
    }
}

/// A queue's rings and their memory.
#[derive(Debug)]
pub(super) struct Rings {
    submission: Mutex<Submission>,
    pub(super) records: Arc<EpochRing<Record>>,
    kernarg_reclaimer: KernargReclaimer,
    command_reclaimer: Option<KernargReclaimer>,
    limits: RingLimits,
    _kernarg_memory: hsa::Allocation,
    _command_memory: Option<hsa::Allocation>,
}

impl Rings {
    /// Makes the rings of `hardware`, which outlives them: `kernarg_capacity` bytes of kernargs, a power of two, and
    /// `notification_capacity` epochs in flight.
    ///
    /// # Errors
    /// The error of HSA; nothing is left behind.
    pub(super) fn new(
        (kernarg_capacity, notification_capacity): (u64, u32),
        gpu: &Gpu,
        hardware: &hsa::HardwareQueue,
    ) -> Result<Self> {
        let kernarg_memory = gpu.allocate_kernargs(kernarg_capacity as usize)?;
        // SAFETY: the allocation has this size and lives as long as the rings.
        let kernargs = unsafe { ring_over(&kernarg_memory, kernarg_capacity) }?;
        let takes_pm4 = gpu.device_wait() == Some(DeviceWait::Pm4);
        let command_memory = takes_pm4.then(|| gpu.allocate_commands(COMMAND_CAPACITY as usize)).transpose()?;
        // SAFETY: the allocation has COMMAND_CAPACITY bytes and lives as long as the rings.
        let commands =
            command_memory.as_ref().map(|memory| unsafe { ring_over(memory, COMMAND_CAPACITY) }).transpose()?;
        // SAFETY: the queue's memory lives as long as `hardware`, and so longer than the rings; this is its only
        // producer.
        let aql = unsafe {
            AqlRing::new(AqlMemory::of_queue(hardware.as_ptr(), hardware.doorbell(), hardware.is_on_agent()))
        };
        let capacity = notification_capacity as usize;
        let (records, producer) =
            EpochRing::new(capacity).ok_or_else(|| exhausted(capacity.saturating_mul(size_of::<Record>())))?;
        Ok(Self {
            kernarg_reclaimer: kernargs.reclaimer(),
            command_reclaimer: commands.as_ref().map(KernargRing::reclaimer),
            limits: RingLimits { packets: aql.size(), kernarg_bytes: kernarg_capacity },
            submission: Mutex::new(Submission {
                aql,
                kernargs,
                commands,
                records: producer,
                waited: Box::new([0; MAX_QUEUES]),
                closed: false,
            }),
            records,
            _kernarg_memory: kernarg_memory,
            _command_memory: command_memory,
        })
    }

    /// The submission lock.
    #[inline(always)]
    pub(super) fn lock(&self) -> MutexGuard<'_, Submission> {
        self.submission.try_lock().unwrap_or_else(|| self.wait_for_submission())
    }

    /// Spins for the submission lock, which another thread holds while it writes some packets: that is shorter than to
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

    /// Closes the rings for submissions.
    pub(super) fn close(&self) {
        self.submission.lock().closed = true;
    }

    /// True if all records were taken out.
    pub(super) fn are_drained(&self) -> bool {
        self.records.drained_epoch() == self.records.last_epoch()
    }

    /// Reclaims the rings up to these positions; the caller has the right to drain.
    pub(super) fn reclaim(&self, ends: RingEnds) {
        self.kernarg_reclaimer.reclaim(ends.kernargs);
        if let Some(reclaimer) = &self.command_reclaimer {
            reclaimer.reclaim(ends.commands);
        }
    }

    /// True if there is a ring for PM4 commands: packet processors run them.
    #[inline]
    pub(super) fn takes_commands(&self) -> bool {
        self.command_reclaimer.is_some()
    }

    /// The sizes of the rings.
    #[inline]
    pub(super) fn limits(&self) -> RingLimits {
        self.limits
    }
}

/// A ring over `capacity` bytes of `memory`.
///
/// # Errors
/// RESOURCE_EXHAUSTED for memory without an address.
///
/// # Safety
/// The memory has `capacity` bytes, a power of two, outlives the ring, and only the ring uses it.
unsafe fn ring_over(memory: &hsa::Allocation, capacity: u64) -> Result<KernargRing> {
    let base = NonNull::new(memory.as_ptr())
        .ok_or_else(|| amdgpu_ffi::status!(RESOURCE_EXHAUSTED, "the memory of a queue's ring has no address"))?;
    // SAFETY: the caller's promise; HSA's allocations are page-aligned, and this one's agents have access.
    Ok(unsafe { KernargRing::new(base, capacity) })
}
