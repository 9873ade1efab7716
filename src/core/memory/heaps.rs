// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The kinds of memory of a logical device, and the choice of a kind for a request.
//!
//! A request names required memory types, wanted usage, and the queues that will use the memory. The GPU of the lowest
//! of these queues owns the memory. Every GPU of the process that can be given access gets it ([`Grant`]).

use std::sync::Arc;

use hsa_abi::HsaAgent;

use crate::buffer::Access;
use amdgpu_ffi::{BufferParams, BufferUsage, MAX_QUEUES, MemoryAccess, MemoryType, Result, Status, status};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::coherent::CoherentUse;
use amdgpu_gpu::topology::HostAccess;
use amdgpu_hsa::{Agent, HdpFlush, MemoryPool, MemoryPoolInfo};

/// Kinds of memory, in the order in which heaps are listed and tried for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapKind {
    /// GPU memory, coherent at kernel boundaries.
    DeviceCoarse,
    /// As `DeviceCoarse`, and mapped by the host, which flushes its writes. Not every GPU has it.
    DeviceVisible,
    /// CPU memory, coherent while kernels run.
    HostFine,
    /// GPU memory, mapped by the host and coherent while kernels run, which slows them. Not every GPU has it.
    DeviceFine,
}

const USAGE: BufferUsage = BufferUsage::TRANSFER
    .union(BufferUsage::DISPATCH)
    .union(BufferUsage::SHARING_EXPORT)
    .union(BufferUsage::SHARING_REPLICATE)
    .union(BufferUsage::SHARING_CONCURRENT)
    .union(BufferUsage::SHARING_IMMUTABLE);
const MAPPING: BufferUsage = BufferUsage::MAPPING_SCOPED
    .union(BufferUsage::MAPPING_PERSISTENT)
    .union(BufferUsage::MAPPING_OPTIONAL)
    .union(BufferUsage::MAPPING_ACCESS_RANDOM)
    .union(BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE);

impl HeapKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::DeviceCoarse, Self::DeviceVisible, Self::HostFine, Self::DeviceFine];

    /// The memory type of this kind.
    pub const fn memory_type(self) -> MemoryType {
        match self {
            Self::DeviceCoarse => MemoryType::DEVICE_LOCAL,
            Self::DeviceVisible => MemoryType::DEVICE_LOCAL.union(MemoryType::HOST_VISIBLE),
            Self::HostFine => MemoryType::HOST_LOCAL.union(MemoryType::DEVICE_VISIBLE),
            Self::DeviceFine => Self::DeviceVisible.memory_type().union(MemoryType::HOST_COHERENT),
        }
    }

    /// The usage that this kind allows.
    pub const fn allowed_usage(self) -> BufferUsage {
        if self.is_host_visible() { USAGE.union(MAPPING) } else { USAGE }
    }

    /// Allowed usage of memory of pools. Buffers of pools cannot be exported, as their memory goes back to the pool.
    pub const fn pooled_usage(self) -> BufferUsage {
        self.allowed_usage().difference(BufferUsage::SHARING_EXPORT)
    }

    /// True if the host can map it.
    pub const fn is_host_visible(self) -> bool {
        self.memory_type().contains(MemoryType::HOST_VISIBLE)
    }

    /// True if it is GPU memory.
    pub const fn is_device_local(self) -> bool {
        !matches!(self, Self::HostFine)
    }
}

/// Chooses the first of `kinds` that has all required memory types of `params`. Sets `params` to the buffer's: the
/// kind's memory type, and without mapping if that was optional and is unavailable.
///
/// If the host has no access to GPU memory, or not as coherent as required, host memory serves requests for
/// device-local memory that is visible to the host, as in IREE's CUDA and HIP drivers. Kernels access it more slowly.
///
/// # Errors
/// INVALID_ARGUMENT for memory types that no kind has, with a list of the kinds, or for flags that IREE has no names
/// for.
#[inline(always)]
pub fn canonicalize(params: &mut BufferParams, kinds: &[HeapKind]) -> Result<HeapKind> {
    let required = MemoryType::known(params.type_)? - MemoryType::OPTIMAL;
    let mut usage = BufferUsage::known(params.usage)?;
    MemoryAccess::known(params.access)?;
    let kind = match first_with(required, kinds) {
        Some(kind) => kind,
        None => other_with(required, kinds)?,
    };
    if !kind.is_host_visible() && usage.contains(BufferUsage::MAPPING_OPTIONAL) {
        usage -= MAPPING;
    }
    let missing = usage - kind.allowed_usage();
    if !missing.is_empty() {
        return Err(not_used_so(kind, missing));
    }
    params.type_ = kind.memory_type().bits();
    params.usage = usage.bits();
    Ok(kind)
}

#[inline(always)]
fn first_with(types: MemoryType, kinds: &[HeapKind]) -> Option<HeapKind> {
    kinds.iter().copied().find(|kind| kind.memory_type().contains(types))
}

/// The kind for a request of which no kind has all `required` types.
#[cold]
fn other_with(required: MemoryType, kinds: &[HeapKind]) -> Result<HeapKind> {
    const LOCAL_ONLY: MemoryType = MemoryType::DEVICE_LOCAL.difference(MemoryType::DEVICE_VISIBLE);
    let for_host = required.contains(MemoryType::HOST_VISIBLE) && !required.contains(MemoryType::HOST_LOCAL);
    let kind = first_with(required - LOCAL_ONLY, kinds).filter(|_| for_host);
    kind.ok_or_else(|| no_memory(required, kinds))
}

fn no_memory(required: MemoryType, kinds: &[HeapKind]) -> Status {
    let there_is: Vec<_> = kinds.iter().map(|kind| kind.memory_type().to_string()).collect();
    let there_is = there_is.join(", ");
    status!(INVALID_ARGUMENT, "no memory has all of the memory types {required}; there is {there_is}")
}

#[cold]
fn not_used_so(kind: HeapKind, missing: BufferUsage) -> Status {
    let memory_type = kind.memory_type();
    status!(INVALID_ARGUMENT, "memory of the types {memory_type} cannot be used for {missing}")
}

/// The bytes to allocate from `pool` for `size`: at least one granule.
///
/// # Errors
/// INVALID_ARGUMENT for an invalid alignment or one that the pool does not have; OUT_OF_RANGE for a size past its
/// limit.
#[inline(always)]
pub fn fit(pool: &MemoryPoolInfo, size: usize, min_alignment: usize) -> Result<usize> {
    if min_alignment != 0 && (!min_alignment.is_power_of_two() || min_alignment > pool.alignment) {
        return Err(misaligned(pool, min_alignment));
    }
    let (size, granule) = (size.max(1), pool.granule.max(1));
    // As all are: without a division.
    let rounded = if granule.is_power_of_two() {
        size.checked_add(granule - 1).map(|end| end & !(granule - 1))
    } else {
        size.checked_next_multiple_of(granule)
    };
    rounded.filter(|rounded| *rounded <= pool.alloc_max_size).ok_or_else(|| too_large(pool, size))
}

#[cold]
fn misaligned(pool: &MemoryPoolInfo, alignment: usize) -> Status {
    if !alignment.is_power_of_two() {
        return status!(INVALID_ARGUMENT, "alignment {alignment} is not a power of two");
    }
    let most = pool.alignment;
    status!(INVALID_ARGUMENT, "alignment {alignment} is more than the {most} bytes of the memory pool")
}

#[cold]
fn too_large(pool: &MemoryPoolInfo, size: usize) -> Status {
    let most = pool.alloc_max_size;
    status!(OUT_OF_RANGE, "{size} bytes are more than the {most} of the largest allocation of the memory pool")
}

/// A GPU's pools, and the access grants of its memory.
#[derive(Debug)]
struct GpuHeaps {
    agent: HsaAgent,
    coarse: MemoryPool,
    /// None if the host has no access, or its writes are not known to arrive.
    fine: Option<MemoryPool>,
    host_access: HostAccess,
    host: MemoryPool,
    /// The kinds of memory that the GPU has.
    kinds: Vec<HeapKind>,
    /// By kind, in the order of [`HeapKind::ALL`].
    grants: Vec<Grant>,
}

/// Agents that get access to memory: every GPU of the process that can, whatever its logical device, because modules
/// for several devices use memory of one on all; and the CPUs of the memory's own device if the host may access it.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The agents for HSA's access call.
    pub agents: Arc<[HsaAgent]>,
    /// The access as buffers record it.
    pub access: Access,
}

impl GpuHeaps {
    #[inline]
    fn pool(&self, kind: HeapKind) -> Option<&MemoryPool> {
        match kind {
            HeapKind::DeviceCoarse => Some(&self.coarse),
            HeapKind::HostFine => Some(&self.host),
            HeapKind::DeviceVisible => Some(&self.coarse).filter(|_| self.host_access.is_some()),
            HeapKind::DeviceFine => self.fine.as_ref(),
        }
    }
}

/// The memory of a logical device.
#[derive(Debug)]
pub struct Heaps {
    gpus: Vec<GpuHeaps>,
    queues_per_gpu: usize,
    /// The affinity bits of all queues.
    all_queues: u64,
    /// All GPUs that the HSA runtime shows.
    visible: Vec<HsaAgent>,
}

/// The memory that serves a request.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// Kind of memory.
    pub kind: HeapKind,
    /// The pool to allocate from.
    pub pool: &'a MemoryPool,
    /// The index of the GPU that owns the memory or whose CPU does.
    pub gpu: usize,
}

impl Heaps {
    /// The memory of `gpus`.
    ///
    /// # Errors
    /// The error of HSA's access queries.
    pub fn new(gpus: &[Arc<Gpu>], queues_per_gpu: usize) -> Result<Self> {
        let mut agents = gpus[0].agent().library().agents()?;
        agents.retain(Agent::is_gpu);
        let mut cpus: Vec<_> = gpus.iter().map(|gpu| gpu.cpu().agent.handle()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let heaps = |gpu: &Arc<Gpu>| {
            let info = gpu.info();
            let mut heaps = GpuHeaps {
                agent: info.agent.handle(),
                coarse: info.coarse.clone(),
                fine: info.fine.clone().filter(|_| info.fine_is_host_visible && info.host_access.is_some()),
                host_access: info.host_access,
                host: gpu.cpu().fine.clone(),
                kinds: Vec::new(),
                grants: HeapKind::ALL
                    .into_iter()
                    .map(|kind| grant(gpu, kind, &agents, &cpus))
                    .collect::<Result<_>>()?,
            };
            heaps.kinds = HeapKind::ALL.into_iter().filter(|kind| heaps.pool(*kind).is_some()).collect();
            Ok(heaps)
        };
        let all_queues = u64::MAX >> (MAX_QUEUES - queues_per_gpu * gpus.len());
        let visible = agents.iter().map(Agent::handle).collect();
        Ok(Self { gpus: gpus.iter().map(heaps).collect::<Result<_>>()?, queues_per_gpu, all_queues, visible })
    }

    /// The number of GPUs.
    pub fn gpu_count(&self) -> usize {
        self.gpus.len()
    }

    /// The affinity bits of the queues of GPU `gpu`.
    pub fn queues_of(&self, gpu: usize) -> u64 {
        (u64::MAX >> (MAX_QUEUES - self.queues_per_gpu)) << (gpu * self.queues_per_gpu)
    }

    /// The GPU of the lowest queue of `affinity`, which names queues of the device.
    #[inline]
    pub fn gpu_of(&self, affinity: u64) -> usize {
        affinity.trailing_zeros() as usize / self.queues_per_gpu
    }

    /// The affinity bits of all queues.
    #[inline]
    pub fn all_queues(&self) -> u64 {
        self.all_queues
    }

    /// The index of the GPU with this agent.
    pub fn find_gpu(&self, agent: HsaAgent) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.agent == agent)
    }

    /// The agent of GPU `gpu`.
    pub fn agent(&self, gpu: usize) -> HsaAgent {
        self.gpus[gpu].agent
    }

    /// The access to memory that these agents have.
    pub fn access_of(&self, agents: &[HsaAgent]) -> Access {
        let agents: Vec<_> = self.visible.iter().filter(|agent| agents.contains(agent)).copied().collect();
        if agents.len() == self.visible.len() { Access::All } else { Access::Only(agents.into()) }
    }

    /// The pool of `kind` of GPU `gpu`, if it has one.
    pub fn pool(&self, gpu: usize, kind: HeapKind) -> Option<&MemoryPool> {
        self.gpus[gpu].pool(kind)
    }

    /// The flush for host writes to memory of `kind` of GPU `gpu`; none if none is needed.
    pub fn flush(&self, gpu: usize, kind: HeapKind) -> Option<HdpFlush> {
        match self.gpus[gpu].host_access {
            HostAccess::Flushed(flush) if kind.is_device_local() && kind.is_host_visible() => Some(flush),
            _ => None,
        }
    }

    /// Keeps an allocation of `kind` of GPU `gpu` coherent while the returned value lives. None if the memory is
    /// coherent by itself, or need not be.
    pub fn coherent_use(&self, gpu: usize, kind: HeapKind) -> Option<CoherentUse> {
        self.flush(gpu, kind).filter(|_| kind == HeapKind::DeviceFine).map(CoherentUse::begin)
    }

    /// The kinds that every GPU has, with the smallest maximal allocation and the smallest alignment of their pools, in
    /// bytes.
    pub fn list(&self) -> impl Iterator<Item = (HeapKind, usize, usize)> {
        HeapKind::ALL.into_iter().filter_map(|kind| {
            let pools: Option<Vec<_>> = self.gpus.iter().map(|gpu| gpu.pool(kind)).collect();
            let pools = pools?;
            let least = |figure: fn(&MemoryPoolInfo) -> usize| pools.iter().map(|pool| figure(pool.info())).min();
            Some((kind, least(|pool| pool.alloc_max_size)?, least(|pool| pool.alignment)?))
        })
    }

    /// Chooses the memory for a request and sets `params` to the buffer's.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for unavailable properties, or for queues that the device does not have.
    #[inline(always)]
    pub fn place(&self, params: &mut BufferParams) -> Result<Placement<'_>> {
        let affinity = self.select(params)?;
        let gpu = self.gpu_of(affinity);
        let heaps = &self.gpus[gpu];
        let kind = canonicalize(params, &heaps.kinds)?;
        let pool = heaps.pool(kind).ok_or_else(not_there)?;
        Ok(Placement { kind, pool, gpu })
    }

    /// Reduces the affinity of `params` to queues that exist and returns it; 0 and ANY are all of them.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when none is left.
    #[inline]
    pub fn select(&self, params: &mut BufferParams) -> Result<u64> {
        let (asked, all) = (params.queue_affinity, self.all_queues());
        params.queue_affinity = if asked == 0 { all } else { asked & all };
        match params.queue_affinity {
            0 => Err(no_queue(asked, all)),
            affinity => Ok(affinity),
        }
    }

    /// The agents that are given access to memory of `kind` of GPU `owner`.
    #[inline]
    pub fn grant(&self, kind: HeapKind, owner: usize) -> &Grant {
        &self.gpus[owner].grants[kind as usize]
    }
}

/// Picks the agents that get access to memory of `kind` of `owner`, among the process's GPUs `agents` and the device's
/// `cpus`.
fn grant(owner: &Gpu, kind: HeapKind, agents: &[Agent], cpus: &[HsaAgent]) -> Result<Grant> {
    let mut reached = Vec::new();
    for agent in agents {
        let is_reached = match kind {
            _ if agent.handle() == owner.agent().handle() => true,
            HeapKind::DeviceCoarse | HeapKind::DeviceVisible => owner.info().is_accessible_to(agent)?,
            HeapKind::DeviceFine => owner.info().fine_is_accessible_to(agent)?,
            HeapKind::HostFine => true,
        };
        if is_reached {
            reached.push(agent.handle());
        }
    }
    let are_all = reached.len() == agents.len();
    let access = if are_all { Access::All } else { Access::Only(reached.as_slice().into()) };
    if kind.is_host_visible() {
        reached.extend(cpus);
    }
    Ok(Grant { agents: reached.into(), access })
}

#[cold]
fn not_there() -> Status {
    status!(INTERNAL, "the chosen memory is not there")
}

#[cold]
fn no_queue(asked: u64, all: u64) -> Status {
    status!(INVALID_ARGUMENT, "queue affinity {asked:#x} names none of the device's queues {all:#x}")
}

#[cfg(test)]
mod tests {
    use hsa_abi::HsaAmdSegment;

    use super::*;
    use amdgpu_ffi::Code;

    const HIDDEN: [HeapKind; 2] = [HeapKind::DeviceCoarse, HeapKind::HostFine];
    const INCOHERENT: [HeapKind; 3] = [HeapKind::DeviceCoarse, HeapKind::DeviceVisible, HeapKind::HostFine];

    fn chosen(memory_type: MemoryType, usage: BufferUsage, kinds: &[HeapKind]) -> Result<(HeapKind, BufferUsage)> {
        let (usage, type_, access) = (usage.bits(), memory_type.bits(), MemoryAccess::ALL.bits());
        let mut params = BufferParams { usage, access, type_, queue_affinity: 0, min_alignment: 0 };
        let kind = canonicalize(&mut params, kinds)?;
        assert_eq!(params.type_, kind.memory_type().bits());
        Ok((kind, BufferUsage::from_bits_retain(params.usage)))
    }

    #[test]
    fn the_first_heap_with_the_required_types_serves() {
        let transfer = BufferUsage::TRANSFER;
        let kind = |memory_type, kinds: &[HeapKind]| chosen(memory_type, transfer, kinds).map(|(kind, _)| kind);
        let visible = MemoryType::HOST_VISIBLE;
        let device = MemoryType::DEVICE_LOCAL;
        let coherent = MemoryType::HOST_COHERENT;
        for (memory_type, with_all, without) in [
            (MemoryType::OPTIMAL, HeapKind::DeviceCoarse, HeapKind::DeviceCoarse),
            (MemoryType::OPTIMAL | device, HeapKind::DeviceCoarse, HeapKind::DeviceCoarse),
            (MemoryType::DEVICE_VISIBLE, HeapKind::DeviceCoarse, HeapKind::DeviceCoarse),
            (visible, HeapKind::DeviceVisible, HeapKind::HostFine),
            (visible | device, HeapKind::DeviceVisible, HeapKind::HostFine),
            (visible | coherent, HeapKind::HostFine, HeapKind::HostFine),
            (visible | coherent | device, HeapKind::DeviceFine, HeapKind::HostFine),
            (MemoryType::HOST_LOCAL, HeapKind::HostFine, HeapKind::HostFine),
        ] {
            assert_eq!(kind(memory_type, &HeapKind::ALL).unwrap(), with_all, "{memory_type}");
            assert_eq!(kind(memory_type, &HIDDEN).unwrap(), without, "{memory_type} without visible memory");
        }
        assert_eq!(kind(visible | coherent | device, &INCOHERENT).unwrap(), HeapKind::HostFine);
    }

    #[test]
    fn a_refusal_says_what_memory_there_is() {
        let device = MemoryType::DEVICE_LOCAL;
        let both = MemoryType::HOST_LOCAL | device;
        let refused = chosen(both, BufferUsage::TRANSFER, &HIDDEN).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
        let there_is = "there is DEVICE_LOCAL, HOST_LOCAL|DEVICE_VISIBLE";
        assert!(refused.to_string().contains(there_is), "{refused}");
        let import = chosen(device | MemoryType::HOST_VISIBLE, BufferUsage::TRANSFER, &[HeapKind::DeviceCoarse]);
        assert_eq!(import.unwrap_err().code(), Code::INVALID_ARGUMENT, "nothing else can serve");
    }

    #[test]
    fn optional_mapping_is_dropped_and_required_mapping_refused_on_coarse_memory() {
        let device = MemoryType::DEVICE_LOCAL;
        let storage = BufferUsage::DISPATCH_STORAGE;
        let mapping = BufferUsage::MAPPING;
        let optional = BufferUsage::MAPPING_OPTIONAL;
        assert_eq!(
            chosen(device, storage | mapping | optional, &HeapKind::ALL).unwrap(),
            (HeapKind::DeviceCoarse, storage)
        );
        let refused = chosen(device, storage | mapping, &HeapKind::ALL).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
        assert!(refused.to_string().contains("MAPPING"), "{refused}");
        let visible = device | MemoryType::HOST_VISIBLE;
        let kept = storage | mapping | optional;
        assert_eq!(chosen(visible, kept, &HeapKind::ALL).unwrap(), (HeapKind::DeviceVisible, kept));
    }

    #[test]
    fn sizes_are_rounded_to_granules_within_limits() {
        let pool = MemoryPoolInfo {
            segment: HsaAmdSegment::GLOBAL,
            global_flags: 0,
            size: 1 << 30,
            alloc_allowed: true,
            granule: 4096,
            block: 4096,
            alignment: 4096,
            alloc_max_size: 1 << 20,
            accessible_by_all: false,
        };
        assert_eq!(fit(&pool, 0, 0).unwrap(), 4096, "empty buffers have an address");
        assert_eq!(fit(&pool, 4097, 4096).unwrap(), 8192);
        assert_eq!(fit(&pool, 1 << 20, 16).unwrap(), 1 << 20);
        for size in [(1 << 20) + 1, usize::MAX - 5000, usize::MAX] {
            assert_eq!(fit(&pool, size, 0).unwrap_err().code(), Code::OUT_OF_RANGE);
        }
        for alignment in [3, 8192] {
            assert_eq!(fit(&pool, 1, alignment).unwrap_err().code(), Code::INVALID_ARGUMENT);
        }
    }
}
