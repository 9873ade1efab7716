// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Probes a GPU for a response to packets of this process.

use std::time::{Duration, Instant};

use hsa_abi::{HsaSignalCondition, HsaWaitState};

use crate::emitter::SinglePacket;
use crate::epoch_wait::QueueOrdering;
use amdgpu_ffi::{Code, Result, Status};
use amdgpu_gpu::Gpu;
use amdgpu_hsa as hsa;
use amdgpu_ring::{AqlMemory, AqlRing};

/// How long a packet that waits for nothing may take on a queue of its own. It needs no compute unit; where there are
/// more queues than the hardware has places for, they take turns of some milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns true if the packet processor of `gpu` runs a packet on a new hardware queue, whatever the state of its other
/// queues. A GPU without room for another queue is taken to do so.
pub fn responds(gpu: &Gpu) -> bool {
    run_packet(gpu).unwrap_or_else(|status| status.code() == Code::RESOURCE_EXHAUSTED)
}

fn run_packet(gpu: &Gpu) -> Result<bool> {
    let agent = gpu.agent();
    // Declared before the queue, whose end is also that of its packet.
    let signal = hsa::Signal::new(agent.library(), 1, &[], 0)?;
    let queue = hsa::HardwareQueue::new(agent, agent.info().queue_min_size, Box::new(|_| ()))?;
    // SAFETY: the queue outlives the ring, which is its only producer.
    let mut ring = unsafe { AqlRing::new(AqlMemory::of_queue(queue.as_ptr(), queue.doorbell(), queue.is_on_agent())) };
    let no_room = || Status::from_code(Code::INTERNAL);
    let mut packet = ring.room(1).ok_or_else(no_room)?.reserve();
    let (body, header) = SinglePacket::Barrier.packet(QueueOrdering::Unordered, signal.handle());
    packet.write(&body, Some(header));
    packet.publish();
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // May return early.
        if signal.wait(HsaSignalCondition::LT, 1, Some(left), HsaWaitState::BLOCKED) < 1 {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}
