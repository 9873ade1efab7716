// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Queues: rings of AQL packets in ROCR's memory, and the reports of their errors.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hsa_abi::{AQL_PACKET_SIZE, AmdQueue, HSA_AMD_MEMORY_FAULT_READ_ONLY, HsaStatus};
use hsa_runtime64::machine::Machine;
use hsa_runtime64::machine::agent::Agent;
use hsa_runtime64::machine::agent_id::{AgentMask, CPU};
use hsa_runtime64::machine::memory::allocation::{Allocation, AllocationInfo, Mapping, PAGE};
use hsa_runtime64::machine::processor::create;
use hsa_runtime64::machine::queue::packet::Failure;
use hsa_runtime64::machine::queue::{Queue, QueueMemory};
use parking_lot::Mutex;

use super::abi::*;
use super::{Interrupts, Kfd, guard, kfd, put};

/// Destination of a queue's errors.
struct Errors {
    /// Address of the signal's value that receives the error bits.
    reason: u64,
    /// Event that the signal's waiters sleep on.
    event: Option<u32>,
}

/// Queues of the process.
#[derive(Default)]
pub struct Queues {
    /// Destinations of errors, by the address of the `amd_queue_t`.
    errors: Mutex<HashMap<u64, Errors>>,
}

impl Kfd {
    /// Creates a queue for an `amd_queue_t` and a ring. Returns the address of its doorbell.
    fn create_queue(&self, node: u32, ring: u64, bytes: u64, queue: u64) -> Result<u64, Status> {
        let agent = self.gpu(node)?;
        let size = bytes / AQL_PACKET_SIZE as u64;
        if !size.is_power_of_two() || size > u64::from(u32::MAX) {
            return Err(Status::INVALID_PARAMETER);
        }
        for (what, base, size) in [("ring", ring, bytes), ("amd_queue_t", queue, size_of::<AmdQueue>() as u64)] {
            if !self.accessible(agent, base, size) {
                eprintln!("hsakmt-sim: hsaKmtCreateQueue: the {what} at {base:#x} is not mapped for node {node}");
                return Err(Status::INVALID_PARAMETER);
            }
        }
        let page = Mapping::new(PAGE).map_err(|_| Status::NO_MEMORY)?;
        let doorbell = page.base() as u64;
        self.machine.memory.insert(Allocation {
            mapping: Some(page),
            ..AllocationInfo::new(doorbell, PAGE as u64, CPU, AgentMask::ALL).into()
        });
        let memory = QueueMemory { queue, ring, doorbell };
        create::adopt(&self.machine, agent.index, size as u32, memory).map_err(|_| Status::NO_MEMORY)?;
        Ok(doorbell)
    }

    fn queue(&self, id: u64) -> Result<Arc<Queue>, Status> {
        self.machine.queue(id).map_err(|_| Status::INVALID_HANDLE)
    }

    fn accessible(&self, agent: &Agent, base: u64, size: u64) -> bool {
        let range = self.machine.memory.find(base).filter(|range| range.access.has(agent.index));
        range.is_some_and(|range| range.base + range.size - base >= size)
    }
}

/// Bit of `HsaQueueResource::ErrorReason` for a failure (`KFD_EC_QUEUE_*` of Linux's `kfd_ioctl.h`).
fn error_code(status: HsaStatus) -> u32 {
    const WAVE_TRAP: u32 = 2;
    const WAVE_ILLEGAL_INSTRUCTION: u32 = 4;
    const WAVE_APERTURE_VIOLATION: u32 = 6;
    const PACKET_DISPATCH_CODE_INVALID: u32 = 18;
    const PACKET_UNSUPPORTED: u32 = 20;
    const PREEMPTION_ERROR: u32 = 31;
    match status {
        HsaStatus::ERROR_EXCEPTION => WAVE_TRAP,
        HsaStatus::ERROR_ILLEGAL_INSTRUCTION => WAVE_ILLEGAL_INSTRUCTION,
        HsaStatus::ERROR_MEMORY_APERTURE_VIOLATION => WAVE_APERTURE_VIOLATION,
        HsaStatus::ERROR_INVALID_CODE_OBJECT => PACKET_DISPATCH_CODE_INVALID,
        HsaStatus::ERROR_INVALID_PACKET_FORMAT => PACKET_UNSUPPORTED,
        _ => PREEMPTION_ERROR,
    }
}

/// Reports a failed queue to ROCR. A memory fault is an event of the GPU and stops all of its queues; other errors
/// belong to the queue.
pub fn fault(interrupts: &Interrupts, machine: &Machine, queue: &Queue, failure: &Failure) {
    if let Some((address, reason)) = failure.memory_fault {
        machine.evict(queue.agent);
        let read_only = reason == HSA_AMD_MEMORY_FAULT_READ_ONLY;
        interrupts.events.set_memory(MemoryAccessFault {
            node: queue.agent.0 as u32,
            // Faults are known by their page.
            address: address & !(PAGE as u64 - 1),
            failure: if read_only { FAILURE_READ_ONLY } else { FAILURE_NOT_PRESENT },
            flags: MEMORY_FATAL_PROCESS,
        });
        return;
    }
    let errors = interrupts.queues.errors.lock();
    let Some(&Errors { reason, event }) = errors.get(&queue.address()) else { return };
    if reason != 0 {
        // SAFETY: `hsaKmtCreateQueue` was given the value of a signal that lives as long as the queue.
        unsafe { AtomicI64::from_ptr(std::ptr::with_exposed_provenance_mut(reason as usize)) }
            .fetch_or(1 << (error_code(failure.status) - 1), Ordering::Release);
    }
    if let Some(event) = event {
        interrupts.events.set(event);
    }
}

/// The queue's number is the address of its `amd_queue_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtCreateQueue(
    node: u32,
    kind: u32,
    _percentage: u32,
    _priority: i32,
    ring: *mut c_void,
    bytes: u64,
    event: *const Event,
    resource: *mut QueueResource,
) -> Status {
    guard(|| {
        let kfd = kfd()?;
        kfd.gpu(node)?;
        if kind != QUEUE_COMPUTE_AQL {
            return Err(Status::NOT_SUPPORTED);
        }
        if resource.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        // SAFETY: not null, and the caller's contract.
        let resource = unsafe { &mut *resource };
        // SAFETY: null or an event, by the caller's contract.
        let event = unsafe { event.as_ref() }.map(|event| event.id);
        let queue = resource.read_index.wrapping_sub(offset_of!(AmdQueue, read_dispatch_id) as u64);
        let errors = Errors { reason: resource.error_reason.expose_provenance() as u64, event };
        kfd.interrupts.queues.errors.lock().insert(queue, errors);
        match kfd.create_queue(node, ring.expose_provenance() as u64, bytes, queue) {
            Ok(doorbell) => {
                (resource.id, resource.doorbell) = (queue, doorbell);
                Ok(())
            }
            Err(status) => {
                kfd.interrupts.queues.errors.lock().remove(&queue);
                Err(status)
            }
        }
    })
}

/// A percentage of 0 suspends the queue for good: ROCR does so before it destroys a failed queue.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtUpdateQueue(
    id: u64,
    percentage: u32,
    _priority: i32,
    _ring: *mut c_void,
    _bytes: u64,
    _event: *const Event,
) -> Status {
    guard(|| {
        let queue = kfd()?.queue(id)?;
        if percentage == 0 {
            queue.inactivate();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtDestroyQueue(id: u64) -> Status {
    guard(|| {
        let kfd = kfd()?;
        let doorbell = kfd.queue(id)?.doorbell_address();
        kfd.machine.destroy_queue(id).map_err(|_| Status::INVALID_HANDLE)?;
        kfd.machine.memory.remove(doorbell, |_| true);
        kfd.interrupts.queues.errors.lock().remove(&id);
        Ok(())
    })
}

/// Only checks the mask: kernels cannot tell on which compute unit they run.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSetQueueCUMask(id: u64, count: u32, _mask: *const u32) -> Status {
    guard(|| {
        kfd()?.queue(id)?;
        if count.is_multiple_of(32) { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    })
}

/// Every queue may use the GPU's global wave sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtAllocQueueGWS(id: u64, _count: u32, first: *mut u32) -> Status {
    guard(|| {
        kfd()?.queue(id)?;
        // SAFETY: `first` is null or the caller's place for the result.
        unsafe { put(first, 0) }
    })
}
