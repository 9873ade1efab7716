// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What the queues of a logical device share, and how they are found.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::core::gpu::Gpu;
use crate::core::profile::Profiler;
use crate::core::queue::Queue;
use crate::core::queue::complete::Record;
use crate::core::queue::host_worker::HostWorker;
use crate::ffi::Status;
use crate::hsa;
use crate::ring::{EpochRing, completed_epoch};

/// The queues of a logical device: those of each device group that it was in, one after the other. They stay until the
/// device goes, so that a submission finds its queue without a lock and without a reference of its own; rings and
/// signals of stopped ones, too.
#[derive(Debug, Default)]
pub struct DeviceQueues(OnceLock<Box<Generation>>);

/// The queues of a logical device from one time that it joined a device group until the next.
#[derive(Debug)]
struct Generation {
    queues: Box<[Arc<Queue>]>,
    next: DeviceQueues,
}

impl DeviceQueues {
    /// The newest queues, by their ordinals, stopped ones if the device has left its group; empty before it is in one.
    #[inline]
    pub fn newest(&self) -> &[Arc<Queue>] {
        let Some(mut generation) = self.0.get() else { return &[] };
        while let Some(next) = generation.next.0.get() {
            generation = next;
        }
        &generation.queues
    }

    /// Adds the queues of another group. One thread at a time.
    pub fn add(&self, queues: Box<[Arc<Queue>]>) {
        let mut place = self;
        while let Some(generation) = place.0.get() {
            place = &generation.next;
        }
        // Nobody else adds.
        let _ = place.0.set(Box::new(Generation { queues, next: Self::default() }));
    }
}

/// What all queues of a logical device share.
#[derive(Debug)]
pub struct DeviceShared {
    /// Unique in the process.
    pub id: u64,
    /// Epochs by queue ordinal; set once all queues exist. They outlive every queue, whose packets may wait for each
    /// other's.
    pub epochs: OnceLock<Box<[Epochs]>>,
    /// Why the device is lost.
    pub loss: OnceLock<Status>,
    /// Wake and interrupt signals of the queues: a loss is the end of all of them.
    pub wake_signals: Mutex<Vec<Arc<hsa::Signal>>>,
    /// Runs host calls and file transfers.
    pub worker: HostWorker,
    /// Knows whether operations are profiled.
    pub profiler: Arc<Profiler>,
}

/// A value other than 0 that no signal was given before.
pub(super) fn new_value() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a queue has submitted and completed.
#[derive(Debug, Clone)]
pub struct Epochs {
    /// Which each submission decrements.
    pub(super) signal: Arc<hsa::Signal>,
    pub(super) records: Arc<EpochRing<Record>>,
}

impl Epochs {
    /// Whether they are those of `queue`.
    pub fn are_of(&self, queue: &Queue) -> bool {
        std::ptr::eq(&*self.records, queue.records())
    }

    /// Whether the queue has completed `epoch`.
    pub fn has_passed(&self, epoch: u64) -> bool {
        completed_epoch(self.signal.load()) >= epoch
    }
}

impl DeviceShared {
    /// Marks the device lost and has the completion thread of each queue fail what it has.
    pub fn lose(&self, status: Status) {
        // The first loss stays.
        let _ = self.loss.set(status);
        for wake in self.wake_signals.lock().iter() {
            wake.store(new_value());
        }
    }

    /// Loses the device to a fault of its GPU `gpu`, whose queues have the affinity bits `mask`. Returns what there is
    /// to say of the fault if it is one that the device takes on: an access that a queue of its own may have made, or
    /// one that nobody can be blamed for. What another library did on the GPU is left to that library, or to the
    /// runtime's default.
    ///
    /// For the runtime's event thread: this waits for nothing and releases no queue.
    pub fn lose_to_fault(&self, gpu: &Gpu, mask: u64, fault: &hsa::Fault) -> Option<String> {
        let epochs = self.epochs.get().map_or(&[][..], |epochs| epochs);
        let is_busy = |epochs: &Epochs| epochs.records.last_epoch() > completed_epoch(epochs.signal.load());
        let bit = |(ordinal, epochs)| u64::from(is_busy(epochs)) << ordinal;
        let busy = epochs.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit) & mask;
        let status = gpu.describe_fault(fault, busy);
        let is_taken_on = busy != 0 || fault.kind != hsa::FaultKind::Memory;
        let text = is_taken_on.then(|| status.to_string());
        self.lose(status);
        text
    }
}
