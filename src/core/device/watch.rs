// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A look at devices whose GPUs may fault without anybody being told.
//!
//! ROCR tells a process of the first memory fault and of the first reset of all its GPUs, and of no later ones; with
//! HSA_ENABLE_INTERRUPT=0 of none (docs/rocr.md). Afterwards a faulted GPU runs nothing, so that its packets, and all
//! who wait for them, would wait for ever. From the first fault on, each device of the process has a thread that looks,
//! less and less often, whether queues with work in flight go on. A GPU of which one does not is given a packet on a
//! queue of its own ([`responds`]): a kernel that takes long leaves it running that, a fault does not.

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
