// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Names of agents and memory pools: positions, sets and handles.

use std::ops::BitOr;

use hsa_abi::{HsaAgent, HsaAmdSegment, HsaCache, HsaIsa, HsaMemoryPool, HsaRegion};

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
