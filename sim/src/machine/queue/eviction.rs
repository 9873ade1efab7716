// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Eviction of queues: after a memory fault or a reset, the kernel driver takes all queues of the process off the agent
//! (`kfd_dqm_evict_pasid`) until the process ends.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::agent_id::AgentIndex;

/// Agents, as bits, whose queues are evicted for this process.
static EVICTED: AtomicU64 = AtomicU64::new(0);

/// Evicts the process's queues from `agent`. The caller wakes the processors.
pub fn evict(agent: AgentIndex) {
    EVICTED.fetch_or(1 << agent.0, Ordering::SeqCst);
}

/// Lets queues run again on all agents, as a new process would find them. For a program that links this crate, after
/// `hsa_shut_down`: a program that loads the library has a GPU for as long as it lives, or until a fault.
pub fn readmit() {
    EVICTED.store(0, Ordering::SeqCst);
}

/// True if the process's queues are evicted from `agent`.
pub fn is_evicted(agent: AgentIndex) -> bool {
    EVICTED.load(Ordering::SeqCst) & 1 << agent.0 != 0
}
