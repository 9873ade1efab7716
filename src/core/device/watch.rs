// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Watches devices whose GPUs may fault without a report.
//!
//! ROCR reports the first memory fault and the first reset of all of a process's GPUs, and no later ones. With
//! HSA_ENABLE_INTERRUPT=0 it reports none (docs/sim/rocr.md). A faulted GPU runs nothing afterwards, so that its
//! packets and their waiters would wait for ever. From the first fault on, each device of the process has a thread that
//! checks, less and less often, that queues with work in flight progress. A GPU with a queue that does not is given a
//! packet on a new queue ([`responds`]). A GPU that runs a long kernel still runs that packet; a faulted GPU does not.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use amdgpu_ffi::{thread, thunk};
use amdgpu_gpu::Gpu;
use amdgpu_queue::probe::responds;
use amdgpu_queue::shared::DeviceShared;

/// The time between two checks while queues progress.
const SHORTEST: Duration = Duration::from_millis(250);

/// The longest time between two checks, while the GPUs respond but their queues complete nothing.
const LONGEST: Duration = Duration::from_secs(8);

/// The watch thread of a device, once there is one. Dropped, it ends the thread.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Watch {
    /// Starts the thread, if there is none: for the queues of `device` on `gpus`, of which each has `queues_per_gpu`.
    /// The queues may be made later. Waits for nothing; may be called on a thread of the HSA runtime.
    pub fn start(&self, device: &Arc<DeviceShared>, gpus: &[Arc<Gpu>], queues_per_gpu: usize) {
        let mut thread = self.0.lock();
        if thread.is_some() {
            return;
        }
        let (stop, stopped) = channel();
        let mut watcher = Watcher::new(device, gpus, queues_per_gpu);
        let run = move || {
            let result = thunk::catch(|| watcher.run(&stopped));
            // Without this thread, waits for work behind a fault would never end: the device is lost.
            if let (Err(panic), Some(device)) = (result, watcher.device.upgrade()) {
                device.mark_lost(panic);
            }
        };
        // Without a thread the device is as without a watch.
        *thread = thread::spawn("amdgpu_rs-watch".into(), run).ok().map(|run| (stop, run));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.get_mut().take() {
            drop(stop);
            // It catches its panics.
            let _ = thread.join();
        }
    }
}

/// The state of a watch's thread.
struct Watcher {
    device: Weak<DeviceShared>,
    gpus: Vec<Arc<Gpu>>,
    queues_per_gpu: usize,
    /// [`DeviceShared::unfinished`] at the last check; empty before the first check, and while there are no queues.
    seen: Vec<Option<u64>>,
    /// The time to the next check.
    interval: Duration,
}

impl Watcher {
    fn new(device: &Arc<DeviceShared>, gpus: &[Arc<Gpu>], queues_per_gpu: usize) -> Self {
        let device = Arc::downgrade(device);
        Self { device, gpus: gpus.to_vec(), queues_per_gpu, seen: Vec::new(), interval: SHORTEST }
    }

    /// Checks the queues until `stopped` is disconnected, or the device is lost or gone.
    fn run(&mut self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(self.interval) == Err(RecvTimeoutError::Timeout) && self.look() {}
    }

    /// Checks the queues once and marks the device lost if one of its GPUs has stopped. Returns false if no more checks
    /// are needed.
    fn look(&mut self) -> bool {
        let Some(device) = self.device.upgrade().filter(|device| device.lost_status.get().is_none()) else {
            return false;
        };
        let now = device.unfinished();
        let is_stuck = |queue: &usize| now[*queue].is_some() && self.seen.get(*queue) == Some(&now[*queue]);
        for (index, gpu) in self.gpus.iter().enumerate() {
            let queues = index * self.queues_per_gpu..(index + 1) * self.queues_per_gpu;
            // Fewer while the device's queues are being made.
            let queues = queues.start.min(now.len())..queues.end.min(now.len());
            if queues.clone().any(|queue| is_stuck(&queue)) && !responds(gpu) {
                let busy = queues.filter(|queue| now[*queue].is_some());
                device.mark_lost(gpu.describe_silence(busy.fold(0, |bits, queue| bits | 1 << queue)));
                return false;
            }
        }
        self.interval = if now == self.seen { (2 * self.interval).min(LONGEST) } else { SHORTEST };
        self.seen = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_queue::testing::Rig;

    /// A device is watched from before its queues are made if another GPU has faulted by then.
    #[test]
    fn a_device_may_be_watched_before_it_has_queues() {
        let rig = Rig::open();
        let queue = rig.queue();
        let device = Arc::new(DeviceShared::new(u64::MAX, 1));
        let mut watcher = Watcher::new(&device, &[queue.gpu().clone()], 1);
        assert!(watcher.look() && watcher.look());
        assert_eq!(watcher.interval, 4 * SHORTEST, "nothing has happened");
        let epochs = queue.epochs();
        assert!(device.epochs.set([epochs].into()).is_ok());
        assert!(watcher.look());
        assert_eq!((&*watcher.seen, watcher.interval), (&[None][..], SHORTEST));
        assert!(device.lost_status.get().is_none());
    }
}
