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

use crate::core::gpu::Gpu;
use crate::core::queue::probe::responds;
use crate::core::queue::shared::DeviceShared;

/// How soon queues are looked at, while they go on.
const SHORTEST: Duration = Duration::from_millis(250);

/// How seldom, while the GPUs run but their queues have nothing new.
const LONGEST: Duration = Duration::from_secs(8);

/// The thread of a device that looks at its queues, once there is one. Dropped, it ends the thread.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Watch {
    /// Starts the thread, if there is none: for the queues of `device` on `gpus`, of which each has `queues_per_gpu`.
    /// Waits for nothing; may be called on a thread of the HSA runtime.
    pub fn start(&self, device: &Arc<DeviceShared>, gpus: &[Arc<Gpu>], queues_per_gpu: usize) {
        let mut thread = self.0.lock();
        if thread.is_some() {
            return;
        }
        let (stop, stopped) = channel();
        let (device, gpus) = (Arc::downgrade(device), gpus.to_vec());
        let run = move || look_on(&device, &gpus, queues_per_gpu, &stopped);
        // Without a thread the device is as without a watch.
        *thread = std::thread::Builder::new().name("amdgpu_rs-watch".into()).spawn(run).ok().map(|run| (stop, run));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.get_mut().take() {
            drop(stop);
            // One that panicked has nothing more to tell.
            let _ = thread.join();
        }
    }
}

fn look_on(device: &Weak<DeviceShared>, gpus: &[Arc<Gpu>], queues_per_gpu: usize, stopped: &Receiver<()>) {
    let (mut interval, mut seen) = (SHORTEST, Vec::new());
    while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let Some(device) = device.upgrade().filter(|device| device.loss.get().is_none()) else { return };
        let now = device.unfinished();
        let stuck = |index: usize| now[index].is_some() && seen.get(index) == Some(&now[index]);
        let is_stuck = |gpu: usize| (gpu * queues_per_gpu..(gpu + 1) * queues_per_gpu).any(stuck);
        let silent = gpus.iter().enumerate().find(|(index, gpu)| is_stuck(*index) && !responds(gpu));
        if let Some((index, gpu)) = silent {
            let queues = (index * queues_per_gpu..(index + 1) * queues_per_gpu).filter(|queue| now[*queue].is_some());
            device.lose(gpu.describe_silence(queues.fold(0, |bits, queue| bits | 1 << queue)));
            return;
        }
        interval = if now == seen { (2 * interval).min(LONGEST) } else { SHORTEST };
        seen = now;
    }
}
