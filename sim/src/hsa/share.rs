// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Memory and signals of other processes and other libraries. There are none: everything simulated lives in this
//! process. These functions check their arguments, and then fail with ROCR's status for a kernel driver that cannot
//! share.

use std::ffi::{c_int, c_void};

use hsa_abi::{HsaAgent, HsaIpcHandle, HsaSignal, HsaStatus};

use super::{check_signatures, guard};
use crate::machine::agent::CPU;
use crate::machine::machine;

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

/// Fails with `ERROR_INVALID_ARGUMENT`: memory cannot be shared with other processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_memory_create(
    _ptr: *mut c_void,
    _len: usize,
    _handle: *mut HsaIpcHandle,
) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
}

/// Fails with `ERROR_INVALID_ARGUMENT`: no handle is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_memory_attach(
    _handle: *const HsaIpcHandle,
    _len: usize,
    _agent_count: u32,
    _mapping_agents: *const HsaAgent,
    _mapped_ptr: *mut *mut c_void,
) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
}

/// Fails with `ERROR_INVALID_ARGUMENT`: nothing was attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_memory_detach(_mapped_ptr: *mut c_void) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
}

/// Fails with `ERROR_INVALID_ARGUMENT`: signals cannot be shared with other processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_signal_create(_signal: HsaSignal, _handle: *mut HsaIpcHandle) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
}

/// Fails with `ERROR_INVALID_ARGUMENT`: no handle is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_ipc_signal_attach(_handle: *const HsaIpcHandle, _signal: *mut HsaSignal) -> HsaStatus {
    guard(|| refuse(HsaStatus::ERROR_INVALID_ARGUMENT))
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
