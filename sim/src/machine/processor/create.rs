// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Creation of queues: memory, doorbell and the thread of the processor.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use hsa_abi::{AmdSignalKind, HsaQueueCallback, HsaSignal, HsaStatus};

use crate::machine::Machine;
use crate::machine::agent_id::AgentIndex;
use crate::machine::processor;
use crate::machine::queue::{Queue, QueueMemory, Request};

/// Creates a queue and starts its processor.
///
/// # Errors
/// OUT_OF_RESOURCES.
pub fn create(
    machine: &Arc<Machine>,
    request: Request,
    callback: Option<HsaQueueCallback>,
    callback_data: *mut c_void,
) -> Result<Arc<Queue>, HsaStatus> {
    let mut queue = Queue::allocate(&machine.memory, identity(machine, request.agent), &request)?;
    let doorbell = machine.create_signal(AmdSignalKind::DOORBELL, queue.doorbell_address() as i64, false)?;
    queue.set_doorbell_signal(doorbell, false);
    queue.set_callback(callback, callback_data);
    queue.initialize(&request);
    // SAFETY: the signal was just made for this queue, and no other code has it yet.
    unsafe { (*doorbell.as_ptr()).queue_ptr = queue.address() };
    start(machine, queue)
}

/// Creates a queue from a program's memory: `amd_queue_t`, ring and doorbell stay the program's, and must outlive the
/// queue.
///
/// # Errors
/// OUT_OF_RESOURCES when the processor's thread cannot be started.
pub fn adopt(
    machine: &Arc<Machine>,
    agent: AgentIndex,
    size: u32,
    memory: QueueMemory,
) -> Result<Arc<Queue>, HsaStatus> {
    let queue = Queue::new(identity(machine, agent), agent, size, memory, None);
    queue.doorbell().store(u64::MAX, Ordering::Relaxed);
    start(machine, queue)
}

/// Creates a queue whose packets the host program processes, with the program's own doorbell.
///
/// # Errors
/// OUT_OF_RESOURCES.
pub fn create_soft(
    machine: &Arc<Machine>,
    request: Request,
    doorbell_signal: HsaSignal,
) -> Result<Arc<Queue>, HsaStatus> {
    let mut queue = Queue::allocate(&machine.memory, identity(machine, request.agent), &request)?;
    queue.set_doorbell_signal(doorbell_signal, true);
    queue.initialize(&request);
    let queue = Arc::new(queue);
    machine.add_queue(Arc::clone(&queue));
    Ok(queue)
}

/// Number of a new queue, and the name of its agent's instruction set.
fn identity(machine: &Machine, agent: AgentIndex) -> (u64, &'static str) {
    let target = machine.agents[agent.0].target().map_or("cpu", |target| target.name);
    (machine.next_queue_id(), target)
}

/// Starts the processor of a queue and adds the queue to the machine.
fn start(machine: &Arc<Machine>, queue: Queue) -> Result<Arc<Queue>, HsaStatus> {
    let queue = Arc::new(queue);
    let thread = thread::Builder::new()
        .name(format!("hsa-sim-q{}", queue.id))
        .spawn({
            let (machine, queue) = (Arc::clone(machine), Arc::clone(&queue));
            move || processor::run(&machine, &queue)
        })
        .map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
    queue.set_thread(thread);
    machine.add_queue(Arc::clone(&queue));
    Ok(queue)
}
