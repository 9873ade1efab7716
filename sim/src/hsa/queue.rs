// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Queues and profiling.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hsa_abi::{
    AmdSignalKind, HSA_QUEUE_FEATURE_AGENT_DISPATCH, HSA_QUEUE_FEATURE_KERNEL_DISPATCH, HsaAgent,
    HsaProfilingDispatchTime, HsaQueue, HsaQueueCallback, HsaQueueInfo, HsaQueuePriority, HsaQueueType, HsaRegion,
    HsaSignal, HsaStatus,
};

use parking_lot::Mutex;

use super::{Out, Value, check_signatures, guard, slice};
use crate::machine::agent_id::{self, AgentIndex, CPU};
use crate::machine::lifecycle::machine;
use crate::machine::processor::create;
use crate::machine::queue::{MAX_SIZE, MIN_SIZE, Queue, Request};
use crate::machine::{Machine, signal};

/// Maximum bytes of scratch of a work-item.
const MAX_PRIVATE_SEGMENT: u32 = 262_128;

/// The address of a queue for functions that refuse null as an argument, not as a queue.
fn address_of(queue: *mut HsaQueue) -> Result<u64, HsaStatus> {
    Ok(Out::new(queue)?.0.addr() as u64)
}

check_signatures! {
    hsa_queue_create hsa_soft_queue_create hsa_queue_destroy hsa_queue_inactivate
    hsa_amd_queue_get_info hsa_amd_queue_cu_set_mask hsa_amd_queue_set_priority
    hsa_amd_profiling_set_profiler_enabled hsa_amd_profiling_get_dispatch_time
}

/// The queue is an `amd_queue_t` in host memory. Its doorbell is a polled word, so that bare stores work. It supports
/// any number of producers, whatever the type argument. The segment sizes are unused hints. The callback runs on a
/// thread of the runtime and must not destroy the queue: ROCR would wait forever for the end of the callback. Without a
/// callback an error ends the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_create(
    agent: HsaAgent,
    size: u32,
    queue_type: HsaQueueType,
    callback: Option<HsaQueueCallback>,
    data: *mut c_void,
    private_segment_size: u32,
    _group_segment_size: u32,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(queue)?;
        if !size.is_power_of_two() || queue_type.0 > HsaQueueType::COOPERATIVE.0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let agent = machine.agent(agent)?;
        if agent.gpu.is_none() {
            return Err(HsaStatus::ERROR);
        }
        let is_cooperative = queue_type == HsaQueueType::COOPERATIVE;
        if is_cooperative && !agent.has_cooperative_queues(machine.config.rocr) {
            return Err(HsaStatus::ERROR_INVALID_QUEUE_CREATION);
        }
        if size > MAX_SIZE || private_segment_size > MAX_PRIVATE_SEGMENT && private_segment_size != u32::MAX {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        if size < MIN_SIZE {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
        let request = Request { agent: agent.index, size, queue_type: HsaQueueType::MULTI, features };
        let create = || create::create(&machine, request, callback, data);
        let queue = if is_cooperative { cooperative(&machine, agent.index, create)? } else { create()? };
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(queue.amd_queue().cast()) };
        Ok(())
    })
}

/// The GPU's one queue of cooperative dispatches: they may use the same resource of global wave sync, so that two must
/// not run at the same time. `create` makes it.
fn cooperative(
    machine: &Machine,
    agent: AgentIndex,
    create: impl FnOnce() -> Result<Arc<Queue>, HsaStatus>,
) -> Result<Arc<Queue>, HsaStatus> {
    static CREATING: Mutex<()> = Mutex::new(());
    let _creating = CREATING.lock();
    let there = machine.queues.read().iter().find(|queue| queue.agent == agent && queue.share()).cloned();
    if let Some(queue) = there {
        return Ok(queue);
    }
    let queue = create()?;
    queue.set_cooperative();
    Ok(queue)
}

/// The program processes the packets itself. The queue only holds them and its indices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_soft_queue_create(
    region: HsaRegion,
    size: u32,
    queue_type: HsaQueueType,
    features: u32,
    doorbell_signal: HsaSignal,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(queue)?;
        let known = HSA_QUEUE_FEATURE_KERNEL_DISPATCH | HSA_QUEUE_FEATURE_AGENT_DISPATCH;
        let valid = machine.region(region)?.allocatable()
            && size.is_power_of_two()
            && size <= MAX_SIZE
            && queue_type.0 <= HsaQueueType::SINGLE.0
            && features != 0
            && features & !known == 0
            && machine.signals.is_live(doorbell_signal)
            && signal::kind(doorbell_signal) == AmdSignalKind::USER;
        if !valid {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let request = Request { agent: CPU, size, queue_type, features };
        let queue = create::create_soft(&machine, request, doorbell_signal)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(queue.amd_queue().cast()) };
        Ok(())
    })
}

/// See `hsa_ext_amd.h`. Queues that the program processes itself have neither attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_queue_get_info(
    queue: *mut HsaQueue,
    attribute: HsaQueueInfo,
    value: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let queue = machine()?.hardware_queue(queue.addr() as u64)?;
        let value = Value::new(value)?;
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match attribute {
                HsaQueueInfo::AGENT => value.put(agent_id::agent_handle(queue.agent)),
                HsaQueueInfo::DOORBELL_ID => value.put(queue.doorbell_address()),
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            }
        }
        Ok(())
    })
}

/// Only checks the mask: kernels cannot tell on which compute unit they run. Targets with wave32 enable compute units
/// in pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_queue_cu_set_mask(
    queue: *const HsaQueue,
    bit_count: u32,
    mask: *const u32,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let queue = machine.hardware_queue(queue.addr() as u64)?;
        // SAFETY: `mask` is null or the caller's `bit_count` bits, which do not change meanwhile.
        let mask = unsafe { slice(mask, bit_count as usize / 32)? };
        let pairs = machine.agents[queue.agent.0].target().is_some_and(|target| target.wave_size == 32);
        let split = |word: &u32| (word ^ word >> 1) & 0x5555_5555 != 0;
        if !bit_count.is_multiple_of(32) || pairs && mask.iter().any(split) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        Ok(())
    })
}

/// Only checks the priority: every queue has a processor of its own. A queue that failed cannot get another priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_queue_set_priority(queue: *mut HsaQueue, priority: HsaQueuePriority) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let queue = machine.hardware_queue(address_of(queue)?)?;
        // A queue that failed was suspended.
        if queue.fault().is_some() {
            return Err(HsaStatus::ERROR_INVALID_QUEUE);
        }
        if priority.0 > HsaQueuePriority::HIGH.0 { Err(HsaStatus::ERROR_INVALID_ARGUMENT) } else { Ok(()) }
    })
}

/// Stops the queue after the packet in progress; packets after it are not processed. A queue whose error callback runs
/// on this thread cannot be destroyed: ROCR waits for the callback to return, and so waits for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_destroy(queue: *mut HsaQueue) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.destroy_queue(address_of(queue)?)
    })
}

/// See HSA Runtime 2.5.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_inactivate(queue: *mut HsaQueue) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.queue(address_of(queue)?)?.inactivate();
        Ok(())
    })
}

/// Enables or disables timestamps in the completion signals of packets that complete from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_profiling_set_profiler_enabled(queue: *mut HsaQueue, enable: c_int) -> HsaStatus {
    guard(|| {
        machine()?.queue(queue.addr() as u64)?.set_profiling(enable != 0);
        Ok(())
    })
}

/// Translates the GPU's timestamps in the signal to the system's clock. Does not check that there are any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_profiling_get_dispatch_time(
    agent: HsaAgent,
    signal: HsaSignal,
    time: *mut HsaProfilingDispatchTime,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(time)?;
        let agent = machine.agent(agent)?;
        if signal.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if !machine.signals.is_live(signal) {
            return Err(HsaStatus::ERROR_INVALID_SIGNAL);
        }
        if agent.gpu.is_none() {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        let (start, end) = signal::stamps(signal);
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(HsaProfilingDispatchTime { start, end }) };
        Ok(())
    })
}
