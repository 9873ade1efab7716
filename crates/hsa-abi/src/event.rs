// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! System events (`hsa_ext_amd.h`, `hsa_amd_register_system_event_handler`).

use core::ffi::c_void;

use crate::{HsaAgent, HsaStatus};

c_enum! {
    /// `hsa_amd_event_type_t`.
    HsaAmdEventType: u32 {
        /// A GPU accessed memory it may not: [`HsaAmdEventData::memory_fault`].
        GPU_MEMORY_FAULT = 0,
        /// A GPU hung or was reset: [`HsaAmdEventData::hw_exception`].
        GPU_HW_EXCEPTION = 1,
        /// Memory in use was in error: [`HsaAmdEventData::memory_error`].
        GPU_MEMORY_ERROR = 2,
    }
}

/// `HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT`: nothing is mapped at the address, or not for this agent.
pub const HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT: u32 = 1 << 0;
/// `HSA_AMD_MEMORY_FAULT_READ_ONLY`: a write to read-only memory.
pub const HSA_AMD_MEMORY_FAULT_READ_ONLY: u32 = 1 << 1;
/// `HSA_AMD_MEMORY_FAULT_NX`: memory that may not be executed.
pub const HSA_AMD_MEMORY_FAULT_NX: u32 = 1 << 2;
/// `HSA_AMD_MEMORY_FAULT_HOST_ONLY`: only the host may access the address.
pub const HSA_AMD_MEMORY_FAULT_HOST_ONLY: u32 = 1 << 3;
/// `HSA_AMD_MEMORY_FAULT_IMPRECISE`: the address is not exact.
pub const HSA_AMD_MEMORY_FAULT_IMPRECISE: u32 = 1 << 5;

/// `hsa_amd_gpu_memory_fault_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaAmdMemoryFault {
    /// The agent whose access failed.
    pub agent: HsaAgent,
    /// The address; ROCR rounds it down to a page.
    pub virtual_address: u64,
    /// `HSA_AMD_MEMORY_FAULT_*` bits.
    pub fault_reason_mask: u32,
}

assert_layout!(HsaAmdMemoryFault, size 24, agent @ 0, virtual_address @ 8, fault_reason_mask @ 16);

/// `hsa_amd_gpu_hw_exception_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaAmdHwException {
    /// The agent.
    pub agent: HsaAgent,
    /// `hsa_amd_hw_exception_reset_type_t` bits.
    pub reset_type: u32,
    /// `hsa_amd_hw_exception_reset_cause_t` bits.
    pub reset_cause: u32,
}

assert_layout!(HsaAmdHwException, size 16, agent @ 0, reset_type @ 8, reset_cause @ 12);

/// `hsa_amd_gpu_memory_error_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaAmdMemoryError {
    /// The agent.
    pub agent: HsaAgent,
    /// The address.
    pub virtual_address: u64,
    /// `hsa_amd_memory_error_reason_t` bits.
    pub error_reason_mask: u32,
}

assert_layout!(HsaAmdMemoryError, size 24, agent @ 0, virtual_address @ 8, error_reason_mask @ 16);

/// The union in `hsa_amd_event_t`; [`HsaAmdEvent::event_type`] says which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union HsaAmdEventData {
    /// For [`HsaAmdEventType::GPU_MEMORY_FAULT`].
    pub memory_fault: HsaAmdMemoryFault,
    /// For [`HsaAmdEventType::GPU_HW_EXCEPTION`].
    pub hw_exception: HsaAmdHwException,
    /// For [`HsaAmdEventType::GPU_MEMORY_ERROR`].
    pub memory_error: HsaAmdMemoryError,
}

/// `hsa_amd_event_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HsaAmdEvent {
    /// Which event.
    pub event_type: HsaAmdEventType,
    /// Data of the event.
    pub data: HsaAmdEventData,
}

assert_layout!(HsaAmdEvent, size 32, event_type @ 0, data @ 8);

/// `hsa_amd_system_event_callback_t`: runs on a thread of the runtime.
pub type HsaAmdSystemEventCallback = unsafe extern "C" fn(event: *const HsaAmdEvent, data: *mut c_void) -> HsaStatus;
