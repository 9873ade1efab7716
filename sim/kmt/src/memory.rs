// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Buffers: system memory, GPU memory and registered program memory, with the GPUs that have it mapped.
//!
//! The machine's memory map holds the access of each GPU that a buffer is mapped for. All memory is host memory, at the
//! same address everywhere. The host also reaches GPU memory, as through a BAR of full size.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::ptr;

use hsa_runtime64::machine::agent_id::{AgentIndex, AgentMask, CPU};
use hsa_runtime64::machine::memory::allocation::{Allocation, AllocationInfo, Mapping, PAGE};
use parking_lot::Mutex;

use super::abi::*;
use super::{Kfd, guard, kfd, put, slice};

/// Size from which GPU memory is aligned to this size, as for large page-table entries.
const LARGE: usize = 2 << 20;

/// Allocated memory, or registered program memory.
#[derive(Default)]
struct Buffer {
    size: u64,
    node: u32,
    flags: u32,
    /// Number of registrations; 0 for allocated memory.
    registrations: usize,
    /// Number of mappings of registered memory.
    mappings: usize,
    mapped: Vec<u32>,
    user_data: usize,
}

/// All buffers of the process.
#[derive(Default)]
pub struct Buffers {
    allocated: Mutex<BTreeMap<u64, Buffer>>,
    registered: Mutex<BTreeMap<u64, Buffer>>,
    mmio: Mutex<HashMap<usize, Mapping>>,
}

/// Returns the buffer that contains `address`.
fn containing(buffers: &mut BTreeMap<u64, Buffer>, address: u64) -> Option<(u64, &mut Buffer)> {
    let (&base, buffer) = buffers.range_mut(..=address).next_back()?;
    (address - base < buffer.size).then_some((base, buffer))
}

fn mask(nodes: &[u32]) -> AgentMask {
    nodes.iter().fold(AgentMask::of(CPU), |mask, &node| mask | AgentMask::of(AgentIndex(node as usize)))
}

impl Buffers {
    /// Page with the registers that flush host writes to a GPU's memory.
    pub fn mmio(&self, agent: AgentIndex) -> Result<u64, Status> {
        let mut pages = self.mmio.lock();
        if let Some(page) = pages.get(&agent.0) {
            return Ok(page.base() as u64);
        }
        let page = Mapping::new(PAGE).map_err(|_| Status::NO_MEMORY)?;
        let base = page.base() as u64;
        pages.insert(agent.0, page);
        Ok(base)
    }
}

impl Kfd {
    fn allocate(&self, node: u32, size: u64, flags: u32, wanted: u64) -> Result<u64, Status> {
        let agent = self.node(node)?;
        if size == 0 || !size.is_multiple_of(PAGE as u64) {
            return Err(Status::INVALID_PARAMETER);
        }
        let scratch = flags & MEM_SCRATCH != 0;
        let fixed = flags & MEM_FIXED_ADDRESS != 0;
        let mut allocated = self.buffers.allocated.lock();
        if !scratch {
            let of_node = allocated.values().filter(|buffer| buffer.node == node && buffer.flags & MEM_SCRATCH == 0);
            let used: u64 = of_node.map(|buffer| buffer.size).sum();
            if size > agent.memory.saturating_sub(used) {
                return Err(Status::NO_MEMORY);
            }
        }
        let alignment = if agent.gpu.is_some() && size >= LARGE as u64 { LARGE } else { PAGE };
        let mapping =
            Mapping::reserve(size as usize, alignment, fixed.then_some(wanted)).map_err(|_| Status::NO_MEMORY)?;
        let base = mapping.base() as u64;
        if fixed && base != wanted {
            return Err(Status::NO_MEMORY);
        }
        mapping.allow(size as usize).map_err(|_| Status::NO_MEMORY)?;
        let access = if scratch { mask(&[node]) } else { AgentMask::of(CPU) };
        self.machine.memory.insert(Allocation {
            mapping: Some(mapping),
            ..AllocationInfo::new(base, size, agent.index, access).into()
        });
        allocated.insert(base, Buffer { size, node, flags, ..Buffer::default() });
        Ok(base)
    }

    fn free(&self, base: u64) -> Result<(), Status> {
        let mut allocated = self.buffers.allocated.lock();
        let buffer = allocated.get(&base).ok_or(Status::MEMORY_NOT_REGISTERED)?;
        if !buffer.mapped.is_empty() {
            // As the driver, which is busy with it.
            return Err(Status::ERROR);
        }
        self.machine.code.forget(base, buffer.size);
        allocated.remove(&base);
        self.machine.memory.remove(base, |_| true);
        Ok(())
    }

    /// Maps a buffer for exactly these GPUs.
    fn map(&self, address: u64, nodes: &[u32]) -> Result<(), Status> {
        for &node in nodes {
            self.gpu(node)?;
        }
        if let Some((base, buffer)) = containing(&mut self.buffers.allocated.lock(), address) {
            if buffer.flags & MEM_SCRATCH == 0 {
                buffer.mapped = nodes.to_vec();
                self.machine.memory.set_rights(base, &self.rights(nodes));
            }
            return Ok(());
        }
        let mut registered = self.buffers.registered.lock();
        let buffer = registered.get_mut(&address).ok_or(Status::INVALID_PARAMETER)?;
        buffer.mappings += 1;
        buffer.mapped = nodes.to_vec();
        let lock = self.machine.memory.lock((address, buffer.size), mask(nodes), CPU, 0, false);
        lock.map(drop).map_err(|_| Status::NO_MEMORY)
    }

    /// Access of each GPU to a buffer that these nodes have mapped.
    fn rights(&self, nodes: &[u32]) -> Vec<(AgentIndex, bool, bool)> {
        let right = |agent: AgentIndex| {
            let mapped = nodes.contains(&(agent.0 as u32));
            (agent, mapped, mapped)
        };
        self.gpus().map(right).collect()
    }

    fn unmap(&self, address: u64) -> Result<(), Status> {
        if let Some((base, buffer)) = containing(&mut self.buffers.allocated.lock(), address) {
            if buffer.flags & MEM_SCRATCH == 0 {
                buffer.mapped.clear();
                self.machine.memory.set_rights(base, &self.rights(&[]));
            }
            return Ok(());
        }
        let mut registered = self.buffers.registered.lock();
        let buffer = registered.get_mut(&address).ok_or(Status::INVALID_PARAMETER)?;
        if buffer.mappings > 0 {
            buffer.mappings -= 1;
            self.machine.memory.unlock(address).map_err(|_| Status::ERROR)?;
        }
        if buffer.mappings == 0 {
            buffer.mapped.clear();
        }
        Ok(())
    }

    fn deregister(&self, address: u64) -> Result<(), Status> {
        let mut registered = self.buffers.registered.lock();
        let Some(buffer) = registered.get_mut(&address) else {
            let mut allocated = self.buffers.allocated.lock();
            return containing(&mut allocated, address).map(drop).ok_or(Status::MEMORY_NOT_REGISTERED);
        };
        buffer.registrations -= 1;
        if buffer.registrations == 0 {
            for _ in 0..buffer.mappings {
                self.machine.memory.unlock(address).map_err(|_| Status::ERROR)?;
            }
            registered.remove(&address);
        }
        Ok(())
    }
}

fn address(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtAllocMemory(node: u32, size: u64, flags: u32, memory: *mut *mut c_void) -> Status {
    guard(|| {
        // SAFETY: `memory` is null or the caller's place of an address.
        let wanted = unsafe { slice(memory.cast_const(), 1)? }[0];
        let base = kfd()?.allocate(node, size, flags, address(wanted))?;
        // SAFETY: `memory` is null or the caller's place for the result.
        unsafe { put(memory, ptr::with_exposed_provenance_mut(base as usize)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtFreeMemory(memory: *mut c_void, _size: u64) -> Status {
    guard(|| kfd()?.free(address(memory)))
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtRegisterMemoryWithFlags(memory: *mut c_void, size: u64, flags: u32) -> Status {
    guard(|| {
        let kfd = kfd()?;
        if flags & MEM_HOST_ACCESS == 0 || flags & MEM_NON_PAGED != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let address = address(memory);
        if containing(&mut kfd.buffers.allocated.lock(), address).is_some() {
            return Ok(());
        }
        let mut registered = kfd.buffers.registered.lock();
        let buffer = registered.entry(address).or_default();
        if buffer.registrations > 0 && buffer.size != size {
            return Err(Status::INVALID_PARAMETER);
        }
        buffer.registrations += 1;
        (buffer.size, buffer.flags) = (size, flags);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtDeregisterMemory(memory: *mut c_void) -> Status {
    guard(|| kfd()?.deregister(address(memory)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtMapMemoryToGPU(memory: *mut c_void, size: u64, alternate: *mut u64) -> Status {
    let all: Vec<u32> = match kfd() {
        Ok(kfd) => kfd.gpus().map(|agent| agent.0 as u32).collect(),
        Err(status) => return status,
    };
    // SAFETY: the nodes are a vector, and the caller's contract.
    unsafe { hsaKmtMapMemoryToGPUNodes(memory, size, alternate, 0, all.len() as u64, all.as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtMapMemoryToGPUNodes(
    memory: *mut c_void,
    _size: u64,
    alternate: *mut u64,
    _flags: u32,
    count: u64,
    nodes: *const u32,
) -> Status {
    guard(|| {
        // SAFETY: `nodes` is null or the caller's `count` elements, which do not change meanwhile.
        let nodes = unsafe { slice(nodes, count as usize)? };
        kfd()?.map(address(memory), nodes)?;
        // SAFETY: `alternate` is null or the caller's place for the result.
        unsafe { put(alternate, address(memory)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtUnmapMemoryToGPU(memory: *mut c_void) -> Status {
    guard(|| kfd()?.unmap(address(memory)))
}

/// The arrays of nodes stay valid until the buffer is mapped again, unmapped or freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtQueryPointerInfo(pointer: *const c_void, info: *mut PointerInfo) -> Status {
    guard(|| {
        let kfd = kfd()?;
        let describe = |kind, (base, buffer): (u64, &mut Buffer)| PointerInfo {
            kind,
            node: buffer.node,
            flags: buffer.flags,
            cpu_address: base,
            gpu_address: base,
            size: buffer.size,
            registered_count: 0,
            mapped_count: buffer.mapped.len() as u32,
            registered_nodes: ptr::null(),
            mapped_nodes: if buffer.mapped.is_empty() { ptr::null() } else { buffer.mapped.as_ptr() },
            user_data: ptr::with_exposed_provenance_mut(buffer.user_data),
        };
        let address = address(pointer);
        if let Some(found) = containing(&mut kfd.buffers.allocated.lock(), address) {
            // SAFETY: `info` is null or the caller's place for the result.
            return unsafe { put(info, describe(POINTER_ALLOCATED, found)) };
        }
        if let Some(found) = containing(&mut kfd.buffers.registered.lock(), address) {
            // SAFETY: `info` is null or the caller's place for the result.
            return unsafe { put(info, describe(POINTER_REGISTERED_USER, found)) };
        }
        // SAFETY: `info` is null or the caller's place for the result.
        unsafe { put(info, describe(POINTER_UNKNOWN, (0, &mut Buffer::default())))? };
        Err(Status::ERROR)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSetMemoryUserData(pointer: *const c_void, data: *mut c_void) -> Status {
    guard(|| {
        let kfd = kfd()?;
        for buffers in [&kfd.buffers.allocated, &kfd.buffers.registered] {
            if let Some((_, buffer)) = containing(&mut buffers.lock(), address(pointer)) {
                buffer.user_data = data.expose_provenance();
                return Ok(());
            }
        }
        Err(Status::ERROR)
    })
}

/// Memory is coherent here, whatever the policy.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSetMemoryPolicy(
    node: u32,
    _default: u32,
    _alternate: u32,
    _alternate_base: *mut c_void,
    _alternate_size: u64,
) -> Status {
    guard(|| kfd()?.gpu(node).map(drop))
}

/// Shared virtual memory is not offered: no node has the capability.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSVMSetAttr(_base: *mut c_void, _size: u64, _count: u32, _attributes: *mut c_void) -> Status {
    Status::NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSVMGetAttr(_base: *mut c_void, _size: u64, _count: u32, _attributes: *mut c_void) -> Status {
    Status::NOT_SUPPORTED
}

/// Refused, as the following functions: memory is not shared between processes.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtShareMemory(_memory: *mut c_void, _size: u64, _handle: *mut c_void) -> Status {
    Status::NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtRegisterSharedHandle(
    _handle: *const c_void,
    _memory: *mut *mut c_void,
    _size: *mut u64,
) -> Status {
    Status::NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtRegisterSharedHandleToNodes(
    _handle: *const c_void,
    _memory: *mut *mut c_void,
    _size: *mut u64,
    _count: u64,
    _nodes: *mut u32,
) -> Status {
    Status::NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtRegisterGraphicsHandleToNodes(
    _handle: u64,
    _info: *mut c_void,
    _count: u64,
    _nodes: *mut u32,
) -> Status {
    Status::NOT_SUPPORTED
}
