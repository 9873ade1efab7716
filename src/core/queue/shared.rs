// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The state that the queues of a logical device share.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::groups::Groups;
use crate::host_worker::HostWorker;
use crate::record::Record;
use crate::wakeup::Wakeup;
use amdgpu_ffi::{Status, pool};
use amdgpu_gpu::Gpu;
use amdgpu_hsa as hsa;
use amdgpu_profile::Profiler;
use amdgpu_ring::{EpochRing, completed_epoch};

/// The state shared by all queues of a logical device.
#[derive(Debug)]
pub struct DeviceShared {
    /// Unique in the process.
    pub id: u64,
    /// The epochs by queue ordinal; set once all queues exist. The signals outlive every queue: packets of one queue
    /// may wait for epochs of another.
    pub epochs: OnceLock<Box<[Epochs]>>,
    /// The failure that lost the device.
    pub lost_status: OnceLock<Status>,
    /// The wake-up flags of the queues' submission threads: a loss ends all of them.
    pub wakeups: Mutex<Vec<Arc<Wakeup>>>,
    /// Runs host calls and file transfers.
    pub worker: HostWorker,
    /// Knows whether operations are profiled.
    pub profiler: Arc<Profiler>,
    /// The device groups that hear of the queues' progress.
    pub groups: Groups,
}

impl pool::Epochs for DeviceShared {
    /// Returns false for an epoch that it does not know: the safe answer.
    fn has_passed(&self, axis: u64, epoch: u64) -> bool {
        match self.groups.queue_of(axis) {
            None => self.groups.know_passed(axis, epoch),
            Some(ordinal) => {
                self.epochs.get().is_some_and(|epochs| epochs[ordinal as usize].records.drained_epoch() >= epoch)
            }
        }
    }
}

/// The epochs that a queue has submitted and completed.
#[derive(Debug, Clone)]
pub struct Epochs {
    /// The epoch signal, which each submission decrements.
    pub(super) signal: Arc<hsa::Signal>,
    pub(super) records: Arc<EpochRing<Record>>,
}

impl Epochs {
    /// The last complete epoch; none if no later one is in flight.
    fn unfinished(&self) -> Option<u64> {
        let completed = completed_epoch(self.signal.load());
        (self.records.last_epoch() > completed).then_some(completed)
    }

    /// True if the queue has completed `epoch`.
    pub fn has_passed(&self, epoch: u64) -> bool {
        completed_epoch(self.signal.load()) >= epoch
    }
}

impl DeviceShared {
    /// Makes the state of the device `id`, which will have `queue_count` queues.
    pub fn new(id: u64, queue_count: u32) -> Self {
        Self {
            id,
            epochs: OnceLock::new(),
            lost_status: OnceLock::new(),
            wakeups: Mutex::default(),
            worker: HostWorker::default(),
            profiler: Arc::default(),
            groups: Groups::new(id, queue_count),
        }
    }

    /// The last complete epoch of each queue that has work in flight, by their ordinals.
    pub fn unfinished(&self) -> Vec<Option<u64>> {
        let epochs = self.epochs.get().map_or(&[][..], |epochs| epochs);
        epochs.iter().map(Epochs::unfinished).collect()
    }

    /// Marks the device lost and calls the submission thread of each queue, which fails its work in flight.
    pub fn mark_lost(&self, status: Status) {
        // The first loss stays.
        let _ = self.lost_status.set(status);
        for wakeup in self.wakeups.lock().iter() {
            wakeup.call();
        }
    }

    /// Marks the device lost by a fault of its GPU `gpu`, whose queues have the affinity bits `mask`. Returns a
    /// description of the fault if the device takes it on: an access that one of its own queues may have made, or a
    /// fault that has no known cause. A fault of another library's work on the GPU is left to that library or to the
    /// runtime's default.
    ///
    /// Called on the runtime's event thread: does not block and releases no queue.
    pub fn mark_lost_by_fault(&self, gpu: &Gpu, mask: u64, fault: &hsa::Fault) -> Option<String> {
        let bit = |(ordinal, unfinished): (usize, Option<u64>)| u64::from(unfinished.is_some()) << ordinal;
        let busy = self.unfinished().into_iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit) & mask;
        let status = gpu.describe_fault(fault, busy);
        let is_taken_on = busy != 0 || fault.kind != hsa::FaultKind::Memory;
        let text = is_taken_on.then(|| status.to_string());
        self.mark_lost(status);
        text
    }
}
