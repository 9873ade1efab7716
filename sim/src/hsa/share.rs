// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Memory and signals of other processes; see [`ipc`] and [`dmabuf`].

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;

use hsa_abi::{HsaAgent, HsaIpcHandle, HsaSignal, HsaStatus};

use super::{Out, check_signatures, guard, slice};
use crate::machine::agent_id::{AgentMask, CPU};
use crate::machine::lifecycle::machine;
use crate::machine::memory::dmabuf::{self, DmaBuf};
use crate::machine::memory::ipc;

check_signatures! {
    hsa_amd_interop_map_buffer hsa_amd_interop_unmap_buffer
    hsa_amd_ipc_memory_create hsa_amd_ipc_memory_attach hsa_amd_ipc_memory_detach
    hsa_amd_ipc_signal_create hsa_amd_ipc_signal_attach
    hsa_amd_portable_export_dmabuf hsa_amd_portable_close_dmabuf
}

/// Contents of the metadata of every DMA-BUF, none of which is from a graphics API. ROCR has as many bytes of room.
static METADATA: [u8; 64] = [0; 64];

/// Maps the block of the DMA-BUF, which is at least the exported memory, for the listed GPUs alone. The descriptor
/// stays the caller's. `ERROR` if it is not of device memory, `ERROR_OUT_OF_RESOURCES` for an agent that cannot access
/// it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_interop_map_buffer(
    agent_count: u32,
    agents: *mut HsaAgent,
    interop_handle: c_int,
    flags: u32,
    size: *mut usize,
    ptr: *mut *mut c_void,
    metadata_size: *mut usize,
    metadata: *mut *const c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (size, ptr) = (Out::new(size)?, Out::new(ptr)?);
        if agents.is_null() || flags != 0 || agent_count == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: the caller's `agent_count` elements, which do not change meanwhile.
        let access = machine.agent_mask(unsafe { slice(agents, agent_count as usize)? })?;
        let buffer = DmaBuf::open(interop_handle)?;
        let owner = machine.agents.get(buffer.owner.0).ok_or(HsaStatus::ERROR)?;
        let mut users = machine.agents.iter().filter(|agent| access.has(agent.index));
        if users.any(|agent| agent.index == CPU || !agent.is_linked_to(owner)) {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        let (base, bytes) = buffer.map(&machine.memory, access)?;
        // SAFETY: checked for null, or here; the rest is the caller's contract.
        unsafe {
            size.write(bytes);
            ptr.write(std::ptr::with_exposed_provenance_mut(base as usize));
            if let Some(metadata_size) = metadata_size.as_mut() {
                *metadata_size = 0;
            }
            if let Some(metadata) = metadata.as_mut() {
                *metadata = METADATA.as_ptr().cast();
            }
        }
        Ok(())
    })
}

/// Succeeds where nothing is mapped, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_interop_unmap_buffer(ptr: *mut c_void) -> HsaStatus {
    guard(|| {
        dmabuf::unmap(&machine()?.memory, ptr.addr() as u64);
        Ok(())
    })
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

/// The caller owns the descriptor. `ERROR_INVALID_ALLOCATION` for a range that is not in one allocation,
/// `ERROR_INVALID_AGENT` for host memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_portable_export_dmabuf(
    ptr: *const c_void,
    size: usize,
    dmabuf: *mut c_int,
    offset: *mut u64,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (address, fd, offset) = (Out::new(ptr.cast_mut())?.0.addr(), Out::new(dmabuf)?, Out::new(offset)?);
        if size == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if !machine.has_dmabufs() {
            return Err(machine.config.rocr.without_dmabufs());
        }
        let (descriptor, at) = dmabuf::export(&machine.ipc, &machine.memory, address as u64, size as u64)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe {
            fd.write(descriptor.into_raw_fd());
            offset.write(at);
        }
        Ok(())
    })
}

/// Closes any descriptor of the process, before `hsa_init`, too. `ERROR_RESOURCE_FREE` for one that is not open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_portable_close_dmabuf(dmabuf: c_int) -> HsaStatus {
    // SAFETY: the caller's descriptor; a bad one makes the call fail.
    guard(|| if unsafe { libc::close(dmabuf) } == 0 { Ok(()) } else { Err(HsaStatus::ERROR_RESOURCE_FREE) })
}
