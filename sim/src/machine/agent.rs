// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Agents and their memory pools.

use hsa_abi::{
    HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED,
    HSA_GLOBAL_FLAG_KERNARG, HsaAgent, HsaAmdSegment, HsaMemoryPoolAccess,
};

use parking_lot::Mutex;
use sim_wave::Gws;

use crate::machine::agent_id::{AgentIndex, Pool, agent_handle};
use crate::machine::memory::caches::AgentCaches;
use crate::machine::memory::hdp::Registers;
use crate::machine::memory::scalar_cache::ScalarCache;
use crate::machine::product::gpu::Gpu;
use crate::machine::product::performance::Performance;
use crate::machine::product::rocr::Release;
use crate::machine::product::target::TargetInfo;
use crate::machine::product::thread_trace::ThreadTrace;

/// A device.
#[derive(Debug)]
pub struct Agent {
    /// Position of the agent in the machine.
    pub index: AgentIndex,
    /// Index among the machine's GPUs, including invisible ones, from 0.
    pub ordinal: usize,
    /// Properties of the GPU; `None` for the CPU.
    pub gpu: Option<Gpu>,
    /// Size of the agent's memory in bytes.
    pub memory: u64,
    /// Flags of the global pools, in ROCR's order: `HSA_GLOBAL_FLAG_*`.
    pub global_pools: Vec<u32>,
    /// A GPU's registers that flush host writes, if the host can access them.
    pub hdp: Option<Registers>,
    /// Global wave sync of a GPU.
    pub gws: Gws,
    /// Model of the scalar cache's lines of kernel arguments.
    pub scalar_cache: Mutex<ScalarCache>,
    /// A GPU's performance counters.
    pub performance: Performance,
    /// A GPU's thread traces.
    pub thread_trace: ThreadTrace,
    /// A GPU's caches, if memory is strict.
    pub caches: Option<AgentCaches>,
}

/// Flags of a CPU's global pools, in ROCR's order (`CpuAgent::InitRegionList`). 6.2 has no pool of extended scope. An
/// APU's CPU is a node of its own in the kernel driver's topology, so it has a coarse-grained pool as well.
pub fn cpu_pools(release: Release) -> Vec<u32> {
    let extended = (release >= Release::Rocm7_0).then_some(HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED);
    let coarse = Some(HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let kernarg = HSA_GLOBAL_FLAG_KERNARG | HSA_GLOBAL_FLAG_FINE_GRAINED;
    [Some(HSA_GLOBAL_FLAG_FINE_GRAINED), extended, Some(kernarg), coarse].into_iter().flatten().collect()
}

impl Agent {
    /// The agent's handle.
    pub fn handle(&self) -> HsaAgent {
        agent_handle(self.index)
    }

    /// The GPU's product; `None` for the CPU.
    pub fn target(&self) -> Option<&'static TargetInfo> {
        self.gpu.as_ref().map(|gpu| gpu.target)
    }

    /// True if it has cooperative queues with a release of ROCm.
    pub fn has_cooperative_queues(&self, release: Release) -> bool {
        let since = self.target().and_then(TargetInfo::cooperative_since);
        since.is_some_and(|since| since <= release)
    }

    /// The agent's pools: global ones, then a GPU's group memory.
    pub fn pools(&self) -> impl Iterator<Item = Pool> {
        let group = self.gpu.is_some().then_some((HsaAmdSegment::GROUP, 0));
        let global = self.global_pools.iter().map(|&flags| (HsaAmdSegment::GLOBAL, flags));
        global.chain(group).enumerate().map(|(slot, (segment, global_flags))| Pool {
            owner: self.index,
            slot,
            segment,
            global_flags,
        })
    }

    /// The agent's access to a pool of `owner` (`hsa_amd_memory_pool_access_t`), as ROCR reports it
    /// (`MemoryRegion::GetAccessInfo`).
    pub fn access_to(&self, pool: Pool, owner: &Agent) -> HsaMemoryPoolAccess {
        let fine = pool.global_flags & HSA_GLOBAL_FLAG_FINE_GRAINED != 0;
        // The host is never in a hive.
        let same_hive = |owner: &Gpu| self.gpu.is_some() || !owner.target.in_hive();
        match &owner.gpu {
            _ if self.index == pool.owner => HsaMemoryPoolAccess::ALLOWED_BY_DEFAULT,
            _ if pool.segment != HsaAmdSegment::GLOBAL || !self.is_linked_to(owner) => {
                HsaMemoryPoolAccess::NEVER_ALLOWED
            }
            Some(owner) if fine && !same_hive(owner) => HsaMemoryPoolAccess::NEVER_ALLOWED,
            _ => HsaMemoryPoolAccess::DISALLOWED_BY_DEFAULT,
        }
    }

    /// True if the kernel driver's topology has a link from this agent to `owner`'s memory: always to the host's, to a
    /// GPU's if all of its memory is in the PCI aperture, or over XGMI.
    pub fn is_linked_to(&self, owner: &Agent) -> bool {
        match (&self.gpu, &owner.gpu) {
            (_, None) => true,
            (None, Some(owner)) => owner.is_host_visible(),
            (Some(gpu), Some(owner)) => {
                gpu.device == owner.device
                    || gpu.peers && owner.peers && (owner.is_host_visible() || self.is_in_hive_with(owner))
            }
        }
    }

    /// True if XGMI links this GPU with another.
    pub fn is_in_hive_with(&self, other: &Gpu) -> bool {
        self.target().is_some_and(|target| target.in_hive() && target.name == other.target.name)
    }
}
