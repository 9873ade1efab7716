// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Protocol between a packet processor and the HSA runtime for scratch memory (ROCR's `amd_aql_queue.cpp`).
//!
//! A queue begins without scratch memory. A dispatch that needs more than the queue has stops the processor until the
//! runtime has provided it. The processor notifies another HSA runtime by the queue's `queue_inactive_signal`. The
//! runtime allocates the memory, describes it in the `amd_queue_t` and sets the signal to zero. Memory that it lends
//! for one dispatch is returned in the same way. This crate's runtime provides memory on the thread of callbacks, and
//! keeps it. Kernels use the simulator's own scratch memory, but the memory of the protocol must be large enough for
//! them.

use std::sync::atomic::Ordering;

use hsa_abi::{AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE, HsaStatus, KernelDispatchPacket};

use crate::machine::Machine;
use crate::machine::queue::Queue;
use crate::machine::queue::packet::Failure;
use crate::machine::signal::{self, Condition, Waiting};

// Reasons that the packet processor stores to the queue's inactive signal.
const TOO_LITTLE_WAVE64: i64 = 1;
const TOO_LITTLE_WAVE32: i64 = 0x400;
const USED_ONCE: i64 = 0x200;

/// Makes the runtime provide the scratch memory for `packet`'s waves of `lanes`.
pub fn acquire(machine: &Machine, queue: &Queue, packet: &KernelDispatchPacket, lanes: u32) -> Result<(), Failure> {
    let wave = u64::from(packet.private_segment_size) * u64::from(lanes);
    let enough = || wave <= 64 * u64::from(queue.scratch_wave64_lane());
    if !enough() && machine.driver().is_none() {
        machine.events.provide_scratch(|| queue.active());
        queue.set_scratch_wave64_lane(u32::try_from(wave.div_ceil(64)).unwrap_or(u32::MAX));
    } else if !enough() {
        ask(machine, queue, if lanes == 32 { TOO_LITTLE_WAVE32 } else { TOO_LITTLE_WAVE64 })?;
    }
    if enough() {
        return Ok(());
    }
    let text = format!("the HSA runtime gave the queue less scratch memory than the {wave} bytes of a wave");
    Err(Failure::new(HsaStatus::ERROR_OUT_OF_RESOURCES, text))
}

/// Returns memory that was lent for one dispatch.
pub fn release(machine: &Machine, queue: &Queue) -> Result<(), Failure> {
    match machine.driver().is_some() && queue.has_property(AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE) {
        true => ask(machine, queue, USED_ONCE),
        false => Ok(()),
    }
}

/// Notifies the runtime, and waits for its answer.
fn ask(machine: &Machine, queue: &Queue, what: i64) -> Result<(), Failure> {
    let inactive = queue.inactive_signal();
    if inactive.is_null() {
        let text = "the queue has no queue_inactive_signal to ask for scratch memory by";
        return Err(Failure::new(HsaStatus::ERROR_INVALID_QUEUE, text));
    }
    signal::value(inactive).store(what, Ordering::Release);
    machine.announce(inactive);
    let answered =
        machine.signals.wait_any(Waiting::Polling, &[Condition::zero(inactive)], None, || {}, || !queue.active());
    answered.map(drop).ok_or_else(|| {
        Failure::new(
            HsaStatus::ERROR_OUT_OF_RESOURCES,
            "the HSA runtime stopped the queue, which waited for scratch memory",
        )
    })
}
