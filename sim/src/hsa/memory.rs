// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Regions, memory pools, allocation, access, locking.

use std::ffi::{c_int, c_void};

use hsa_abi::{
    HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED,
    HsaAgent, HsaAgentMemoryPoolInfo, HsaAmdSegment, HsaCoherencyType, HsaLinkType, HsaMemoryPool, HsaMemoryPoolAccess,
    HsaMemoryPoolInfo, HsaMemoryPoolLinkInfo, HsaMemoryPoolLocation, HsaPointerInfo, HsaPointerType, HsaRegion,
    HsaRegionInfo, HsaStatus,
};

use super::{Out, Value, check_signatures, guard, proceed, slice};
use crate::machine::Machine;
use crate::machine::agent::Agent;
use crate::machine::agent_id::{self, AgentIndex, AgentMask, CPU, Pool};
use crate::machine::lifecycle::machine;
use crate::machine::memory::allocation::DEVICE_BLOCK;
use crate::machine::memory::allocation::{AllocationInfo, PAGE};
use crate::machine::product::rocr::Release;
use crate::machine::product::target::TargetInfo;

check_signatures! {
    hsa_agent_iterate_regions hsa_region_get_info hsa_amd_agent_iterate_memory_pools
    hsa_amd_memory_pool_get_info hsa_amd_agent_memory_pool_get_info hsa_amd_memory_pool_allocate
    hsa_amd_memory_pool_free hsa_amd_agents_allow_access hsa_amd_memory_lock hsa_amd_memory_unlock
    hsa_amd_pointer_info hsa_amd_pointer_info_set_userdata hsa_amd_memory_lock_to_pool
    hsa_memory_register hsa_memory_deregister hsa_amd_coherency_set_type
}

/// See [`hsa_sim_memory_part_gap`]. An access one row beyond a small matrix still ends in the gap.
const PART_GAP: usize = 4096;

/// Regions are the agent's pools under another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_iterate_regions(
    agent: HsaAgent,
    callback: Option<unsafe extern "C" fn(region: HsaRegion, data: *mut c_void) -> HsaStatus>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        for pool in machine()?.agent(agent)?.pools() {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(pool.region(), data) })?;
        }
        Ok(())
    })
}

/// See HSA Runtime 2.7.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_region_get_info(
    region: HsaRegion,
    attribute: HsaRegionInfo,
    value: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let pool = machine.region(region)?;
        // The attributes that both have share their numbers and types.
        let attribute = match attribute {
            HsaRegionInfo::SEGMENT => HsaMemoryPoolInfo::SEGMENT,
            HsaRegionInfo::GLOBAL_FLAGS => HsaMemoryPoolInfo::GLOBAL_FLAGS,
            HsaRegionInfo::SIZE => HsaMemoryPoolInfo::SIZE,
            HsaRegionInfo::ALLOC_MAX_SIZE => HsaMemoryPoolInfo::ALLOC_MAX_SIZE,
            HsaRegionInfo::RUNTIME_ALLOC_ALLOWED => HsaMemoryPoolInfo::RUNTIME_ALLOC_ALLOWED,
            HsaRegionInfo::RUNTIME_ALLOC_GRANULE => HsaMemoryPoolInfo::RUNTIME_ALLOC_GRANULE,
            HsaRegionInfo::RUNTIME_ALLOC_ALIGNMENT => HsaMemoryPoolInfo::RUNTIME_ALLOC_ALIGNMENT,
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        };
        // SAFETY: `value` is null or the caller's, with room for the attribute's type.
        unsafe { pool_info(&machine, pool, attribute, Value::new(value)?) }
    })
}

/// See [`Agent::pools`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_agent_iterate_memory_pools(
    agent: HsaAgent,
    callback: Option<unsafe extern "C" fn(pool: HsaMemoryPool, data: *mut c_void) -> HsaStatus>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        for pool in machine()?.agent(agent)?.pools() {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(pool.handle(), data) })?;
        }
        Ok(())
    })
}

/// See `hsa_ext_amd.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_pool_get_info(
    pool: HsaMemoryPool,
    attribute: HsaMemoryPoolInfo,
    value: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let pool = machine.pool(pool)?;
        // SAFETY: `value` is null or the caller's, with room for the attribute's type.
        unsafe { pool_info(&machine, pool, attribute, Value::new(value)?) }
    })
}

/// # Safety
/// `value` has room for the attribute's type.
unsafe fn pool_info(
    machine: &Machine,
    pool: Pool,
    attribute: HsaMemoryPoolInfo,
    value: Value,
) -> Result<(), HsaStatus> {
    let global = pool.segment == HsaAmdSegment::GLOBAL;
    let size = match global {
        true => machine.agents[pool.owner.0].memory as usize,
        false => machine.agents[pool.owner.0].target().map_or(0, TargetInfo::lds_bytes) as usize,
    };
    let granule = if pool.allocatable() { PAGE } else { 0 };
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaMemoryPoolInfo::SEGMENT => value.put(pool.segment),
            HsaMemoryPoolInfo::GLOBAL_FLAGS => value.put(pool.global_flags),
            HsaMemoryPoolInfo::SIZE => value.put(size),
            HsaMemoryPoolInfo::RUNTIME_ALLOC_ALLOWED => value.put(pool.allocatable()),
            HsaMemoryPoolInfo::RUNTIME_ALLOC_GRANULE | HsaMemoryPoolInfo::RUNTIME_ALLOC_ALIGNMENT => value.put(granule),
            HsaMemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE => {
                let device = pool.allocatable() && pool.owner != CPU;
                value.put(if device { DEVICE_BLOCK } else { granule });
            }
            HsaMemoryPoolInfo::ACCESSIBLE_BY_ALL => value.put(global && pool.owner == CPU),
            HsaMemoryPoolInfo::ALLOC_MAX_SIZE => {
                value.put(if pool.allocatable() { size } else { 0 });
            }
            HsaMemoryPoolInfo::LOCATION if global => value.put(match pool.owner {
                CPU => HsaMemoryPoolLocation::CPU,
                _ => HsaMemoryPoolLocation::GPU,
            }),
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
    Ok(())
}

/// Between an agent and another agent's pool that it may access there is always one hop, as in ROCR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_agent_memory_pool_get_info(
    agent: HsaAgent,
    pool: HsaMemoryPool,
    attribute: HsaAgentMemoryPoolInfo,
    value: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let agent = machine.agent(agent)?;
        let pool = machine.pool(pool)?;
        let value = Value::new(value)?;
        let owner = &machine.agents[pool.owner.0];
        let access = agent.access_to(pool, owner);
        let is_linked = pool.owner != agent.index && access != HsaMemoryPoolAccess::NEVER_ALLOWED;
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match attribute {
                HsaAgentMemoryPoolInfo::ACCESS => value.put(access),
                HsaAgentMemoryPoolInfo::NUM_LINK_HOPS => value.put(u32::from(is_linked)),
                HsaAgentMemoryPoolInfo::LINK_INFO if is_linked => value.put(link(agent, owner)),
                // ROCR writes one link even where there is none.
                HsaAgentMemoryPoolInfo::LINK_INFO => value.put([0_u8; size_of::<HsaMemoryPoolLinkInfo>()]),
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            }
        }
        Ok(())
    })
}

/// Link between two agents, at least one of which is a GPU: XGMI in a hive, and between MI300A's CPU and GPU (the
/// kernel driver's `connected_to_cpu`; other APUs are on PCI).
fn link(agent: &Agent, owner: &Agent) -> HsaMemoryPoolLinkInfo {
    let xgmi = match (&agent.gpu, &owner.gpu) {
        (Some(_), Some(gpu)) => agent.is_in_hive_with(gpu),
        (Some(gpu), None) | (None, Some(gpu)) => gpu.memory.is_none() && gpu.target.in_hive(),
        (None, None) => false,
    };
    HsaMemoryPoolLinkInfo {
        min_latency: 0,
        max_latency: 0,
        min_bandwidth: 0,
        max_bandwidth: 0,
        atomic_support_32bit: true,
        atomic_support_64bit: true,
        coherent_support: true,
        link_type: if xgmi { HsaLinkType::XGMI } else { HsaLinkType::PCIE },
        numa_distance: if xgmi { 15 } else { 20 },
    }
}

/// The memory is page-aligned and need not be zero. Agents may access exactly `size` bytes of it. The only effective
/// flag is the one for executable memory: packet processors take commands from no other memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_pool_allocate(
    pool: HsaMemoryPool,
    size: usize,
    flags: u32,
    ptr: *mut *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(ptr)?;
        if size == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let executable = flags & HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG != 0;
        let base = machine.allocate(machine.pool(pool)?, size, executable)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(std::ptr::with_exposed_provenance_mut(base as usize)) };
        Ok(())
    })
}

/// Freeing null does nothing. A running kernel that accesses the memory from now on faults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_pool_free(ptr: *mut c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if ptr.is_null() {
            return Ok(());
        }
        machine.host_writes.forget(ptr.addr() as u64);
        let address = ptr.addr() as u64;
        if machine.memory.find(address).is_some_and(|range| range.base == address && is_imported(range.pointer_type)) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let removed = machine.memory.remove(address, |range| range.from_pool);
        removed.map(drop).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)
    })
}

/// True for memory of another process or library, which is neither freed nor given to further agents here.
fn is_imported(pointer_type: HsaPointerType) -> bool {
    matches!(pointer_type, HsaPointerType::IPC | HsaPointerType::GRAPHICS)
}

/// Not part of HSA. Returns the number of bytes to leave unused behind each suballocation, so that an access beyond its
/// end does not hit the next one; 0 without the check `bounds`, when suballocations need not be announced.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_sim_memory_part_gap() -> usize {
    machine().map_or(0, |machine| if machine.config.checks.set.bounds { PART_GAP } else { 0 })
}

/// Not part of HSA. Announces that `size` bytes from `ptr` on are a suballocation in use. With the check `bounds`,
/// kernels may then access no other bytes of the allocation than suballocations, and each access only one; with the
/// check `init`, the suballocation counts as uninitialized. Without these checks, this does nothing. Programs that
/// suballocate look the function up by its name.
///
/// # Safety
/// None is needed: the addresses are only compared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_memory_part_begin(ptr: *const c_void, size: usize) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let start = ptr.addr() as u64;
        let range = machine.memory.find(start).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        let end = start.checked_add(size as u64).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // Earlier contents of these addresses belonged to another allocation.
        machine.memory.unwritten.renew(start..end);
        machine.race.forget(start..end);
        if !machine.config.checks.set.bounds {
            return Ok(());
        }
        machine.memory.parts.add(start..end, range.base..range.base + range.size)?;
        machine.memory.changed();
        Ok(())
    })
}

/// Not part of HSA. Announces that the suballocation that begins at `ptr` is no longer in use.
///
/// # Safety
/// As [`hsa_sim_memory_part_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_memory_part_end(ptr: *const c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if !machine.config.checks.set.bounds {
            return Ok(());
        }
        let was_there = machine.memory.parts.remove(ptr.addr() as u64);
        machine.memory.changed();
        if was_there { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_ALLOCATION) }
    })
}

/// Replaces the set of agents that may access the allocation which starts at `ptr`. Its owner always may. The CPU can
/// be named for every pool. In releases that know it, agents also get read and write access to mapped virtual memory
/// around `ptr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_agents_allow_access(
    agent_count: u32,
    agents: *const HsaAgent,
    flags: *const u32,
    ptr: *const c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if agent_count == 0 || ptr.is_null() || !flags.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: `agents` is null or the caller's `agent_count` elements, which do not change meanwhile.
        let agents = unsafe { slice(agents, agent_count as usize)? };
        let address = ptr.addr() as u64;
        let range = machine.memory.find(address).filter(|range| range.base == address);
        let allocated = range.is_some_and(|range| range.pointer_type != HsaPointerType::HSA_VMEM);
        if range.is_some_and(|range| is_imported(range.pointer_type)) {
            // Its access was given with its mapping.
            machine.agent_mask(agents)?;
            return Ok(());
        }
        match machine.config.rocr {
            Release::Rocm6_2 if !allocated => Err(HsaStatus::ERROR),
            _ if !allocated => {
                let rights: Vec<_> = agents
                    .iter()
                    .map(|&agent| Ok((machine.agent(agent)?.index, true, true)))
                    .collect::<Result<_, HsaStatus>>()?;
                machine.vmem.allow(&machine.memory, address, &rights)
            }
            _ => {
                let mask = machine.agent_mask(agents)?;
                let owner = machine.memory.find(address).map_or(CPU, |range| range.owner);
                let mut gpus = machine.agents.iter().filter(|agent| agent.index != CPU && mask.has(agent.index));
                if gpus.any(|gpu| !gpu.is_linked_to(&machine.agents[owner.0])) {
                    return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
                }
                machine.memory.set_access(address, mask)?;
                machine.follow_host_writes(address);
                Ok(())
            }
        }
    })
}

/// Agents have the memory at its host address, unless the kernel driver has no shared virtual memory for one of the
/// GPUs (`svm=no`). Without a list of agents, all may access it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_lock(
    host_ptr: *mut c_void,
    size: usize,
    agents: *mut HsaAgent,
    agent_count: c_int,
    agent_ptr: *mut *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        // SAFETY: `agents` is null or the caller's `agent_count`; `agent_ptr` is null or its place for the result.
        unsafe { lock(&machine, (host_ptr, size), (agents, agent_count), HSA_GLOBAL_FLAG_FINE_GRAINED, agent_ptr) }
    })
}

/// As [`hsa_amd_memory_lock`], with the properties of a host pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_lock_to_pool(
    host_ptr: *mut c_void,
    size: usize,
    agents: *mut HsaAgent,
    agent_count: c_int,
    pool: HsaMemoryPool,
    flags: u32,
    agent_ptr: *mut *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let pool = machine.pool(pool)?;
        if pool.owner != CPU {
            return Err(HsaStatus::ERROR_INVALID_MEMORY_POOL);
        }
        if flags != 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: `agents` is null or the caller's `agent_count`; `agent_ptr` is null or its place for the result.
        unsafe { lock(&machine, (host_ptr, size), (agents, agent_count), pool.global_flags, agent_ptr) }
    })
}

/// # Safety
/// The agents are null or as many as said; the output is null or valid.
unsafe fn lock(
    machine: &Machine,
    (host_ptr, size): (*mut c_void, usize),
    (agents, agent_count): (*const HsaAgent, c_int),
    global_flags: u32,
    agent_ptr: *mut *mut c_void,
) -> Result<(), HsaStatus> {
    let out = Out::new(agent_ptr)?;
    if agents.is_null() != (agent_count == 0) {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let base = host_ptr.addr() as u64;
    let count = usize::try_from(agent_count).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
    if host_ptr.is_null() || size == 0 || base.checked_add(size as u64).is_none() {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let mask = match agents.is_null() {
        true => AgentMask::ALL,
        // SAFETY: the caller's promise.
        false => machine.agent_mask(unsafe { slice(agents, count)? })?,
    };
    if !is_mapped(base, size) {
        return Err(HsaStatus::ERROR);
    }
    // Kernels reach the memory through an integer address.
    let _ = host_ptr.expose_provenance();
    let moves = machine.moves_locked_memory();
    let agent_base = machine.memory.lock((base, size as u64), mask, CPU, global_flags, moves);
    let agent_base = agent_base.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
    // SAFETY: checked for null; the rest is the caller's promise.
    unsafe { out.write(std::ptr::with_exposed_provenance_mut(agent_base as usize)) };
    Ok(())
}

/// True if the process has mapped all pages of a range, which the kernel driver requires for registration.
fn is_mapped(base: u64, size: usize) -> bool {
    let start = base as usize / PAGE * PAGE;
    let bytes = (base as usize - start).saturating_add(size);
    // SAFETY: with MS_ASYNC the kernel only looks whether the pages are mapped.
    unsafe { libc::msync(std::ptr::with_exposed_provenance_mut(start), bytes, libc::MS_ASYNC) == 0 }
}

/// Undoes one `hsa_amd_memory_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_unlock(host_ptr: *mut c_void) -> HsaStatus {
    guard(|| machine()?.memory.unlock(host_ptr.addr() as u64))
}

/// See `hsa_ext_amd.h`. As in ROCR (`Runtime::PtrInfo`), memory from pools has a host address even without host access,
/// memory of extended scope counts as fine-grained, and the CPU is not listed. Locked memory is known only if locking
/// moves it, by either address: with shared virtual memory only the kernel driver knows of it. Reserved addresses with
/// nothing mapped have a base and a size, and no owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_pointer_info(
    ptr: *const c_void,
    info: *mut HsaPointerInfo,
    alloc: Option<unsafe extern "C" fn(size: usize) -> *mut c_void>,
    accessible_count: *mut u32,
    accessible: *mut *mut HsaAgent,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (_, info) = (Out::new(ptr.cast_mut())?, Out::new(info)?.0);
        // SAFETY: the caller set the size of its structure.
        let room = unsafe { (&raw const (*info).size).read_unaligned() } as usize;
        let size = room.min(size_of::<HsaPointerInfo>());
        if room == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let asked = ptr.addr() as u64;
        let found = machine.memory.find(asked).or_else(|| machine.memory.find_locked(asked));
        let is_known =
            |range: &AllocationInfo| range.pointer_type != HsaPointerType::LOCKED || machine.moves_locked_memory();
        let found = found.filter(is_known);
        let address = |base: u64| std::ptr::with_exposed_provenance_mut(base as usize);
        let mut result = HsaPointerInfo {
            size: size as u32,
            pointer_type: HsaPointerType::UNKNOWN,
            agent_base_address: std::ptr::null_mut(),
            host_base_address: std::ptr::null_mut(),
            size_in_bytes: 0,
            user_data: std::ptr::null_mut(),
            agent_owner: HsaAgent::NULL,
            global_flags: 0,
        };
        if let Some(range) = found {
            result.pointer_type = range.pointer_type;
            result.agent_base_address = address(range.base);
            if range.access.has(CPU) || range.pointer_type == HsaPointerType::HSA {
                result.host_base_address = address(range.host);
            }
            result.size_in_bytes = range.size as usize;
            result.user_data = address(range.user_data as u64);
            result.agent_owner = agent_id::agent_handle(range.owner);
            result.global_flags = match range.global_flags {
                HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED => HSA_GLOBAL_FLAG_FINE_GRAINED,
                flags => flags,
            };
        } else if let Some((base, size)) = machine.vmem.reservation(ptr.addr() as u64) {
            result.pointer_type = HsaPointerType::RESERVED_ADDR;
            result.agent_base_address = address(base);
            result.size_in_bytes = size;
        }
        // SAFETY: the caller's structure has at least `size` bytes, ours too.
        unsafe {
            info.cast::<u8>().copy_from_nonoverlapping((&raw const result).cast(), size);
        }
        let Some(alloc) = alloc.filter(|_| result.pointer_type != HsaPointerType::UNKNOWN) else { return Ok(()) };
        let (count, list) = (Out::new(accessible_count)?, Out::new(accessible)?);
        let mask = found.map_or(AgentMask::default(), |range| range.access);
        let agents: Vec<_> = (0..machine.agents.len())
            .map(AgentIndex)
            .filter(|&index| index != CPU && mask.has(index))
            .map(agent_id::agent_handle)
            .collect();
        // SAFETY: `alloc` is the caller's allocator; it returns null or that many bytes.
        unsafe {
            let memory: *mut HsaAgent = alloc(size_of_val(&*agents)).cast();
            if memory.is_null() {
                return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
            }
            memory.copy_from_nonoverlapping(agents.as_ptr(), agents.len());
            count.write(agents.len() as u32);
            list.write(memory);
        }
        Ok(())
    })
}

/// Attaches a pointer of the program to the allocation that starts at `ptr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_pointer_info_set_userdata(ptr: *const c_void, user_data: *mut c_void) -> HsaStatus {
    guard(|| {
        let known = machine()?.memory.set_user_data(ptr.addr() as u64, user_data.expose_provenance());
        if known { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_ARGUMENT) }
    })
}

/// Only checks its arguments, as in ROCR: agents of the full profile need no registration, and others lock memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_memory_register(ptr: *mut c_void, size: usize) -> HsaStatus {
    guard(|| {
        machine()?;
        if size == 0 && !ptr.is_null() { Err(HsaStatus::ERROR_INVALID_ARGUMENT) } else { Ok(()) }
    })
}

/// Does nothing, as in ROCR.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_memory_deregister(_ptr: *mut c_void, _size: usize) -> HsaStatus {
    guard(|| machine().map(drop))
}

/// Only checks its arguments: the setting has an effect on Kaveri alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_coherency_set_type(agent: HsaAgent, coherency: HsaCoherencyType) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let agent = machine.agent(agent)?;
        if coherency.0 > HsaCoherencyType::NONCOHERENT.0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if agent.gpu.is_some() { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_AGENT) }
    })
}
