// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Queues and profiling.

use std::ffi::{c_int, c_void};

use hsa_abi::{HsaAgent, HsaProfilingDispatchTime, HsaQueue, HsaQueueCallback, HsaQueueType, HsaSignal, HsaStatus};

use super::{Out, check_signatures, guard};
use crate::machine::queue::{MAX_SIZE, MIN_SIZE, Queue};
use crate::machine::{machine, signal};

check_signatures! {
    hsa_queue_create hsa_queue_destroy hsa_queue_inactivate
    hsa_amd_profiling_set_profiler_enabled hsa_amd_profiling_get_dispatch_time
}

/// The queue is an `amd_queue_t` in host memory, its doorbell a word that is watched, so that bare
/// stores work. The segment sizes are hints that nothing here needs. The callback runs on the queue's
/// own thread and may destroy the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_create(
    agent: HsaAgent,
    size: u32,
    queue_type: HsaQueueType,
    callback: Option<HsaQueueCallback>,
    data: *mut c_void,
    _private_segment_size: u32,
    _group_segment_size: u32,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let agent = machine.agent(agent)?;
        let out = Out::new(queue)?;
        if !size.is_power_of_two() || queue_type.0 > HsaQueueType::COOPERATIVE.0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if agent.gpu.is_none() || !(MIN_SIZE..=MAX_SIZE).contains(&size) {
            return Err(HsaStatus::ERROR_INVALID_QUEUE_CREATION);
        }
        let queue = Queue::create(&machine, agent.index, size, queue_type, callback, data)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(queue.amd_queue().cast()) };
        Ok(())
    })
}

/// Stops the queue after the packet in progress; packets after it are not processed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_destroy(queue: *mut HsaQueue) -> HsaStatus {
    guard(|| machine()?.destroy_queue(queue.addr() as u64))
}

/// See HSA Runtime 2.5.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_inactivate(queue: *mut HsaQueue) -> HsaStatus {
    guard(|| {
        machine()?.queue(queue.addr() as u64)?.inactivate();
        Ok(())
    })
}

/// Completion signals of packets that complete from now on are stamped, or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_profiling_set_profiler_enabled(queue: *mut HsaQueue, enable: c_int) -> HsaStatus {
    guard(|| {
        machine()?.queue(queue.addr() as u64)?.set_profiling(enable != 0);
        Ok(())
    })
}

/// Agents tick like the system, in nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_profiling_get_dispatch_time(
    agent: HsaAgent,
    signal: HsaSignal,
    time: *mut HsaProfilingDispatchTime,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.agent(agent)?;
        let out = Out::new(time)?;
        if !machine.signals.is_live(signal) {
            return Err(HsaStatus::ERROR_INVALID_SIGNAL);
        }
        let (start, end) = signal::stamps(signal);
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(HsaProfilingDispatchTime { start, end }) };
        Ok(())
    })
}
