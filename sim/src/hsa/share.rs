// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Memory and signals of other processes and other libraries. Memory and signals can be shared between processes; see
//! [`ipc`]. The functions for other libraries check their arguments, and then fail with ROCR's status for a kernel
//! driver that cannot share.

use std::ffi::{c_int, c_void};

use hsa_abi::{HsaAgent, HsaIpcHandle, HsaSignal, HsaStatus};

use super::{Out, check_signatures, guard, slice};
use crate::machine::agent_id::{AgentMask, CPU};
use crate::machine::lifecycle::machine;
use crate::machine::memory::ipc;

check_signatures! {
    hsa_amd_interop_map_buffer hsa_amd_interop_unmap_buffer
    hsa_amd_ipc_memory_create hsa_amd_ipc_memory_attach hsa_amd_ipc_memory_detach
    hsa_amd_ipc_signal_create hsa_amd_ipc_signal_attach
    hsa_amd_portable_export_dmabuf hsa_amd_portable_close_dmabuf
}

/// Result of an unsupported function, after the check that HSA is initialized.
fn refuse(status: HsaStatus) -> Result<(), HsaStatus> {
    machine()?;
    Err(status)
}

/// Fails with `ERROR_INVALID_ARGUMENT`: no buffer of another library can be mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_interop_map_buffer(
    _agent_count: u32,
    _agents: *mut HsaAgent,
    _interop_handle: c_int,
    _flags: u32,
    _size: *mut usize,
    _ptr: *mut *mut c_void,
    _metadata_size: *mut usize,
    _metadata: *mut *const c_void,
) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
}

/// Fails with `ERROR_INVALID_ARGUMENT`: nothing was mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_interop_unmap_buffer(_ptr: *mut c_void) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
}

/// Only whole allocations have a handle. [`ipc`] describes its lifetime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_memory_create(
    ptr: *mut c_void,
    len: usize,
    handle: *mut HsaIpcHandle,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (base, out) = (Out::new(ptr)?.0.addr() as u64, Out::new(handle)?);
        let handle = ipc::create(&machine.ipc, &machine.memory, base, len)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Without a list of agents all have access. The process that made the handle must still run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_memory_attach(
    handle: *const HsaIpcHandle,
    len: usize,
    agent_count: u32,
    mapping_agents: *const HsaAgent,
    mapped_ptr: *mut *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(mapped_ptr)?;
        // SAFETY: null or the caller's, which does not change meanwhile.
        let handle = unsafe { handle.as_ref() }.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: null or the caller's `agent_count` elements, which do not change meanwhile.
        let agents = unsafe { slice(mapping_agents, agent_count as usize)? };
        let access = if agents.is_empty() { AgentMask::ALL } else { machine.agent_mask(agents)? };
        let base = ipc::attach(&machine.memory, machine.agents.len(), handle, len, access)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(std::ptr::with_exposed_provenance_mut(base as usize)) };
        Ok(())
    })
}

/// `ERROR_INVALID_ARGUMENT` if nothing is attached there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_memory_detach(mapped_ptr: *mut c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        ipc::detach(&machine.memory, Out::new(mapped_ptr)?.0.addr() as u64)
    })
}

/// Only signals that were created for other processes have a handle. It is valid until this process destroys the
/// signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_signal_create(signal: HsaSignal, handle: *mut HsaIpcHandle) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(handle)?;
        if signal.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let handle = machine.signals.share(signal)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// The process that made the handle must still have the signal. The new signal is destroyed by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_signal_attach(handle: *const HsaIpcHandle, signal: *mut HsaSignal) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        // SAFETY: null or the caller's, which does not change meanwhile.
        let handle = unsafe { handle.as_ref() }.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let out = Out::new(signal)?;
        let signal = machine.attach_signal(handle)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(signal) };
        Ok(())
    })
}

/// Fails with `ERROR` for device memory (`AMD_DMABUF_SUPPORTED` is false), with
/// `ERROR_INVALID_ALLOCATION` for a range that is not in one allocation, with `ERROR_INVALID_AGENT` for
/// host memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_portable_export_dmabuf(
    ptr: *const c_void,
    size: usize,
    dmabuf: *mut c_int,
    offset: *mut u64,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if ptr.is_null() || dmabuf.is_null() || offset.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let address = ptr.addr() as u64;
        let inside = machine.memory.find(address).filter(|range| range.base + range.size - address >= size as u64);
        let range = inside.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        Err(if range.owner == CPU { HsaStatus::ERROR_INVALID_AGENT } else { HsaStatus::ERROR })
    })
}

/// Fails with `ERROR_RESOURCE_FREE`: no descriptor was exported, and the program's others are its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_portable_close_dmabuf(_dmabuf: c_int) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_RESOURCE_FREE))
}
