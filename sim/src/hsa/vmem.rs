// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Virtual memory: see [`crate::machine::memory::vmem`].

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;

use hsa_abi::{
    HsaAccessPermission, HsaAgent, HsaMemoryAccessDesc, HsaMemoryPool, HsaPointerType, HsaStatus, HsaVmemAllocHandle,
    HsaVmemMemoryType,
};

use super::{Out, check_signatures, guard, slice};
use crate::machine::agent_id::AgentMask;
use crate::machine::lifecycle::machine;

check_signatures! {
    hsa_amd_vmem_address_reserve_align hsa_amd_vmem_address_free
    hsa_amd_vmem_handle_create hsa_amd_vmem_handle_release
    hsa_amd_vmem_map hsa_amd_vmem_unmap hsa_amd_vmem_set_access
    hsa_amd_vmem_address_reserve hsa_amd_vmem_get_access
    hsa_amd_vmem_export_shareable_handle hsa_amd_vmem_import_shareable_handle
}

/// `HSA_AMD_VMEM_ADDRESS_NO_REGISTER`, the only flag. It has no effect here.
const NO_REGISTER: u64 = 1;

/// Nothing can access the addresses yet. Another range is reserved when `address` is not free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_address_reserve_align(
    va: *mut *mut c_void,
    size: usize,
    address: u64,
    alignment: u64,
    flags: u64,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(va)?;
        let alignment = usize::try_from(alignment).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
        if flags & !NO_REGISTER != 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let base = machine.vmem.reserve(size, alignment, Some(address).filter(|&address| address != 0))?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(std::ptr::with_exposed_provenance_mut(base as usize)) };
        Ok(())
    })
}

/// As [`hsa_amd_vmem_address_reserve_align`], aligned to a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_address_reserve(
    va: *mut *mut c_void,
    size: usize,
    address: u64,
    flags: u64,
) -> HsaStatus {
    // SAFETY: the same contract.
    unsafe { hsa_amd_vmem_address_reserve_align(va, size, address, 0, flags) }
}

/// `ERROR_RESOURCE_FREE` while something is mapped in the range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_address_free(va: *mut c_void, size: usize) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.vmem.free(&machine.memory, va.addr() as u64, size)
    })
}

/// All memory is the same here, pinned or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_handle_create(
    pool: HsaMemoryPool,
    size: usize,
    memory_type: HsaVmemMemoryType,
    flags: u64,
    memory_handle: *mut HsaVmemAllocHandle,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let pool = machine.pool(pool)?;
        let out = Out::new(memory_handle)?;
        if flags != 0 || memory_type.0 > HsaVmemMemoryType::PINNED.0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let handle = machine.vmem.create(pool, size, machine.agents[pool.owner.0].memory)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// The memory stays until its last mapping is undone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_handle_release(memory_handle: HsaVmemAllocHandle) -> HsaStatus {
    guard(|| machine()?.vmem.release(memory_handle))
}

/// Only whole memory can be mapped. No agent, nor the host, has access yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_map(
    va: *mut c_void,
    size: usize,
    in_offset: usize,
    memory_handle: HsaVmemAllocHandle,
    flags: u64,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if va.is_null() || size == 0 || in_offset != 0 || flags != 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        machine.vmem.map(&machine.memory, va.addr() as u64, size, memory_handle)
    })
}

/// Only a whole mapping can be undone. A running kernel that accesses it from now on faults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_unmap(va: *mut c_void, size: usize) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.vmem.unmap(&machine.memory, va.addr() as u64, size)
    })
}

/// Kernels are limited to the access of their agent. The host program can read and write as soon as any agent can.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_set_access(
    va: *mut c_void,
    size: usize,
    desc: *const HsaMemoryAccessDesc,
    desc_count: usize,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        // SAFETY: `desc` is null or the caller's `desc_count` elements, which do not change meanwhile.
        let desc = unsafe { slice(desc, desc_count)? };
        let right = |desc: &HsaMemoryAccessDesc| {
            let agent = machine.agent(desc.agent_handle)?.index;
            let HsaAccessPermission(bits @ 0..=3) = desc.permissions else {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            };
            Ok((agent, bits & HsaAccessPermission::RO.0 != 0, bits & HsaAccessPermission::WO.0 != 0))
        };
        let rights = desc.iter().map(right).collect::<Result<Vec<_>, _>>()?;
        machine.vmem.set_access(&machine.memory, va.addr() as u64, size, &rights)
    })
}

/// Access of a GPU to the mapping around `va`: none until it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_get_access(
    va: *mut c_void,
    permissions: *mut HsaAccessPermission,
    agent: HsaAgent,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (va, out) = (Out::new(va)?.0.addr() as u64, Out::new(permissions)?);
        let range = machine.memory.find(va).filter(|range| range.pointer_type == HsaPointerType::HSA_VMEM);
        let range = range.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        let agent = machine.agent(agent)?;
        if agent.gpu.is_none() {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        let has = |denied: AgentMask| range.access.has(agent.index) && !denied.has(agent.index);
        let read = if has(range.write_only) { HsaAccessPermission::RO.0 } else { 0 };
        let write = if has(range.read_only) { HsaAccessPermission::WO.0 } else { 0 };
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(HsaAccessPermission(read | write)) };
        Ok(())
    })
}

/// The caller owns the descriptor, which other processes can import, too. Flags have no meaning yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_export_shareable_handle(
    fd: *mut c_int,
    handle: HsaVmemAllocHandle,
    _flags: u64,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(fd)?;
        let file = machine.vmem.export(handle)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(file.into_raw_fd()) };
        Ok(())
    })
}

/// The descriptor stays the caller's. `ERROR_INCOMPATIBLE_ARGUMENTS` for a file that is not this runtime's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_import_shareable_handle(fd: c_int, handle: *mut HsaVmemAllocHandle) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(handle)?;
        if fd < 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let handle = machine.vmem.import(|owner, slot| machine.agents.get(owner)?.pools().nth(slot), fd)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(handle) };
        Ok(())
    })
}
