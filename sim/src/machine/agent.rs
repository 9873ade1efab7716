// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Agents, their memory pools, and the handles for both.

use std::ops::BitOr;

use hsa_abi::{
    HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED,
    HSA_GLOBAL_FLAG_KERNARG, HsaAgent, HsaAmdSegment, HsaCache, HsaIsa, HsaMemoryPool, HsaMemoryPoolAccess, HsaRegion,
};

use parking_lot::Mutex;
use sim_wave::Gws;

use crate::machine::memory::caches::AgentCaches;
use crate::machine::memory::hdp::Registers;
use crate::machine::memory::scalar_cache::ScalarCache;
use crate::machine::product::gpu::Gpu;
use crate::machine::product::performance::Performance;
use crate::machine::product::rocr::Release;
use crate::machine::product::target::TargetInfo;
use crate::machine::product::thread_trace::ThreadTrace;

/// Position of an agent in the machine: 0 is the CPU, GPUs follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentIndex(pub usize);

/// The CPU agent.
pub const CPU: AgentIndex = AgentIndex(0);

/// A set of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentMask(u64);

impl AgentMask {
    /// Every agent.
    pub const ALL: Self = Self(u64::MAX);

    /// One agent.
    pub const fn of(agent: AgentIndex) -> Self {
        Self(1 << agent.0)
    }

    /// The set without the agents of another set.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Number of agents in the set.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if the set contains `agent`.
    pub const fn has(self, agent: AgentIndex) -> bool {
        self.0 & Self::of(agent).0 != 0
    }
}

impl BitOr for AgentMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

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

/// A memory pool of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The agent whose memory it is.
    pub owner: AgentIndex,
    /// Position among the agent's pools.
    pub slot: usize,
    /// Segment.
    pub segment: HsaAmdSegment,
    /// `HSA_GLOBAL_FLAG_*`; zero for other segments.
    pub global_flags: u32,
}

/// Flags of a CPU's global pools, in ROCR's order (`CpuAgent::InitRegionList`). 6.2 has no pool of extended scope. An
/// APU's CPU is a node of its own in the kernel driver's topology, so it has a coarse-grained pool as well.
pub fn cpu_pools(release: Release) -> Vec<u32> {
    let extended = (release >= Release::Rocm7_0).then_some(HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED);
    let coarse = Some(HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let kernarg = HSA_GLOBAL_FLAG_KERNARG | HSA_GLOBAL_FLAG_FINE_GRAINED;
    [Some(HSA_GLOBAL_FLAG_FINE_GRAINED), extended, Some(kernarg), coarse].into_iter().flatten().collect()
}

// Handles are a tag in the upper half, so that a handle of one kind is never taken for another.
const AGENT_TAG: u64 = 0x4147_454e << 32;
const POOL_TAG: u64 = 0x504f_4f4c << 32;
const REGION_TAG: u64 = 0x5245_474e << 32;
const ISA_TAG: u64 = 0x4953_4100 << 32;
const CACHE_TAG: u64 = 0x4341_4348 << 32;

/// Splits a handle into agent and slot; `None` if its tag is not `tag`.
fn untag(handle: u64, tag: u64) -> Option<(AgentIndex, usize)> {
    let value = handle ^ tag;
    (value >> 32 == 0).then_some((AgentIndex((value >> 8) as usize), (value & 0xff) as usize))
}

fn tagged(tag: u64, agent: AgentIndex, slot: usize) -> u64 {
    tag | (agent.0 as u64) << 8 | slot as u64
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

impl Pool {
    /// The pool's handle.
    pub fn handle(self) -> HsaMemoryPool {
        HsaMemoryPool { handle: tagged(POOL_TAG, self.owner, self.slot) }
    }

    /// The handle of the same memory as an HSA region.
    pub fn region(self) -> HsaRegion {
        HsaRegion { handle: tagged(REGION_TAG, self.owner, self.slot) }
    }

    /// True if memory can be allocated from the pool.
    pub fn allocatable(self) -> bool {
        self.segment == HsaAmdSegment::GLOBAL
    }
}

/// The handle of the agent at `index`.
pub fn agent_handle(index: AgentIndex) -> HsaAgent {
    HsaAgent { handle: tagged(AGENT_TAG, index, 0) }
}

/// The agent that a handle may name; the caller checks that there is one.
pub fn agent_index(handle: HsaAgent) -> Option<AgentIndex> {
    untag(handle.handle, AGENT_TAG).map(|(agent, _)| agent)
}

/// The agent and slot that a pool handle may name.
pub fn pool_index(handle: HsaMemoryPool) -> Option<(AgentIndex, usize)> {
    untag(handle.handle, POOL_TAG)
}

/// The agent and slot that a region handle may name.
pub fn region_index(handle: HsaRegion) -> Option<(AgentIndex, usize)> {
    untag(handle.handle, REGION_TAG)
}

/// The handle of an agent's `slot`-th instruction set.
pub fn isa_handle(agent: AgentIndex, slot: usize) -> HsaIsa {
    HsaIsa { handle: tagged(ISA_TAG, agent, slot) }
}

/// The agent and slot that an instruction set handle may name.
pub fn isa_index(handle: HsaIsa) -> Option<(AgentIndex, usize)> {
    untag(handle.handle, ISA_TAG)
}

/// The handle of an agent's cache of level `slot + 1`.
pub fn cache_handle(agent: AgentIndex, slot: usize) -> HsaCache {
    HsaCache { handle: tagged(CACHE_TAG, agent, slot) }
}

/// The agent and slot that a cache handle may name.
pub fn cache_index(handle: HsaCache) -> Option<(AgentIndex, usize)> {
    untag(handle.handle, CACHE_TAG)
}
