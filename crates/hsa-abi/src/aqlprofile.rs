// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! ROCm's aqlprofile library, which makes packets that count events on a GPU or trace its waves: types of its functions
//! and their arguments (`aql_profile_v2.h`, version 1 of the library).

#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_void};

use crate::{AmdPm4IbPacket, HsaAgent, HsaStatus};

/// The library's version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AqlProfileVersion {
    /// Changes with the interface; 1 is described here.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

assert_layout!(AqlProfileVersion, size 12, major @ 0, minor @ 4, patch @ 8);

/// A registered agent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AqlProfileAgent {
    /// Opaque.
    pub handle: u64,
}

/// Packets made by the library, and their memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AqlProfileHandle {
    /// Opaque.
    pub handle: u64,
}

c_enum! {
    /// The version of the struct that describes an agent.
    AqlProfileAgentVersion: u32 {
        /// [`AqlProfileAgentInfo`].
        V1 = 2,
    }
}

/// Properties of a GPU for the library: answers of `hsa_agent_get_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AqlProfileAgentInfo {
    /// Name of the agent, as `gfx1100`.
    pub agent_gfxip: *const c_char,
    /// Dies.
    pub xcc_num: u32,
    /// Shader engines over all dies.
    pub se_num: u32,
    /// Compute units.
    pub cu_num: u32,
    /// Shader arrays of an engine.
    pub shader_arrays_per_se: u32,
    /// PCI domain.
    pub domain: u32,
    /// PCI bus, device and function.
    pub location_id: u32,
}

assert_layout!(AqlProfileAgentInfo, size 32,
    agent_gfxip @ 0, xcc_num @ 8, se_num @ 12, cu_num @ 16, shader_arrays_per_se @ 20, domain @ 24, location_id @ 28);

c_enum! {
    /// A block of the hardware that counts events (`hsa_ven_amd_aqlprofile_block_name_t`).
    AqlProfileBlock: u32 {
        /// Launcher of waves.
        SPI = 5,
        /// The sequencers of waves.
        SQ = 6,
        /// Texture addresser of each compute unit, the first stage for addresses of lanes.
        TA = 10,
        /// The cache of each compute unit.
        TCP = 13,
    }
}

/// An event to count.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqlProfileEvent {
    /// The instance of the block.
    pub block_index: u32,
    /// The event's number in the block.
    pub event_id: u32,
    /// Ways of counting; 0 for none.
    pub flags: u32,
    /// The block.
    pub block_name: AqlProfileBlock,
}

assert_layout!(AqlProfileEvent, size 16, block_index @ 0, event_id @ 4, flags @ 8, block_name @ 12);

/// Events to count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AqlProfileRequest {
    /// The agent.
    pub agent: AqlProfileAgent,
    /// The events, which are copied.
    pub events: *const AqlProfileEvent,
    /// The number of events.
    pub event_count: u32,
}

assert_layout!(AqlProfileRequest, size 24, agent @ 0, events @ 8, event_count @ 16);

/// Packets that count: their headers and completion signals are the caller's to fill in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AqlProfilePackets {
    /// Resets the counters and starts them.
    pub start: AmdPm4IbPacket,
    /// Stops the counters.
    pub stop: AmdPm4IbPacket,
    /// Copies the counters to memory.
    pub read: AmdPm4IbPacket,
}

assert_layout!(AqlProfilePackets, size 192, start @ 0, stop @ 64, read @ 128);

c_enum! {
    /// Parameter of a trace: `hsa_ven_amd_aqlprofile_parameter_name_t`, and from 11 on
    /// `aqlprofile_att_parameter_name_ext_t`.
    AqlTraceParameterName: u32 {
        /// The compute unit, or work-group processor, whose instructions are traced.
        COMPUTE_UNIT_TARGET = 0,
        /// The shader engines that are traced, as bits.
        SE_MASK = 5,
        /// The SIMD units whose instructions are traced, as bits; from gfx10 on the number of one.
        SIMD_SELECTION = 8,
        /// Bytes of memory for it: the lower 32 bits.
        BUFFER_SIZE = 10,
        /// Bytes of memory for it: the upper 32 bits.
        BUFFER_SIZE_HIGH = 11,
        /// Timestamps of the system-wide clock: 2 for none.
        RT_TIMESTAMP = 12,
    }
}

/// A parameter of a trace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqlTraceParameter {
    /// The parameter.
    pub name: AqlTraceParameterName,
    /// The value.
    pub value: u32,
}

assert_layout!(AqlTraceParameter, size 8, name @ 0, value @ 4);

/// Parameters of a trace.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AqlTraceRequest {
    /// The agent.
    pub agent: HsaAgent,
    /// The parameters, which are copied.
    pub parameters: *const AqlTraceParameter,
    /// The number of parameters.
    pub parameter_count: u32,
}

assert_layout!(AqlTraceRequest, size 24, agent @ 0, parameters @ 8, parameter_count @ 16);

/// Packets that trace: their headers and completion signals are the caller's to fill in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AqlTracePackets {
    /// Begins a trace.
    pub start: AmdPm4IbPacket,
    /// Ends the trace.
    pub stop: AmdPm4IbPacket,
}

assert_layout!(AqlTracePackets, size 128, start @ 0, stop @ 64);

/// A code object that is announced to a trace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqlTraceCodeObject {
    /// Identifier in the trace.
    pub id: u64,
    /// The difference of loaded addresses and its own addresses.
    pub address: u64,
    /// The size in memory in bytes.
    pub length: u64,
    /// The agent.
    pub agent: HsaAgent,
    /// [`Self::UNLOAD`], [`Self::FROM_START`].
    pub flags: u32,
}

assert_layout!(AqlTraceCodeObject, size 40, id @ 0, address @ 8, length @ 16, agent @ 24, flags @ 32);

impl AqlTraceCodeObject {
    /// The code object is unloaded.
    pub const UNLOAD: u32 = 1;
    /// The code object was loaded before the trace began.
    pub const FROM_START: u32 = 2;
}

/// Purpose of memory that the library requests.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqlProfileBuffer(pub u32);

impl AqlProfileBuffer {
    /// The GPU accesses it.
    pub const DEVICE_ACCESS: u32 = 1 << 0;
    /// The host accesses it.
    pub const HOST_ACCESS: u32 = 1 << 1;
    /// [`hint`](Self::hint): no requirement for caches.
    pub const NO_HINT: u32 = 0;
    /// [`hint`](Self::hint): host memory.
    pub const HOST: u32 = 1;
    /// [`hint`](Self::hint): no cache of the GPU may keep it.
    pub const UNCACHED: u32 = 2;
    /// [`hint`](Self::hint): the GPU may cache it; for commands.
    pub const NONCOHERENT: u32 = 4;

    /// The flags for memory with these accesses and this hint.
    pub const fn new(access: u32, hint: u32) -> Self {
        Self(access | hint << 2)
    }

    /// True if all of `access` is requested.
    pub const fn has(self, access: u32) -> bool {
        self.0 & access == access
    }

    /// `aqlprofile_memory_hint_t`.
    pub const fn hint(self) -> u32 {
        self.0 >> 2 & 0x3f
    }
}

/// Allocates memory.
pub type AqlProfileAllocate =
    unsafe extern "C" fn(memory: *mut *mut c_void, size: u64, flags: AqlProfileBuffer, data: *mut c_void) -> HsaStatus;

/// Frees the memory.
pub type AqlProfileFree = unsafe extern "C" fn(memory: *mut c_void, data: *mut c_void);

/// Copies to the memory.
pub type AqlProfileCopy =
    unsafe extern "C" fn(target: *mut c_void, source: *const c_void, size: usize, data: *mut c_void) -> HsaStatus;

/// Receives one value of an event. There is one for each instance that counts it.
pub type AqlProfileTake =
    unsafe extern "C" fn(event: AqlProfileEvent, instance: u64, value: u64, data: *mut c_void) -> HsaStatus;

/// Receives the trace of a shader engine.
pub type AqlTraceTake =
    unsafe extern "C" fn(shader_engine: u32, bytes: *mut c_void, length: u64, data: *mut c_void) -> HsaStatus;

/// Declares the type of a function under the function's own name.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        #[doc = concat!("Type of `", stringify!($name), "`.")]
        pub type $name = unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?;
    )*};
}

functions! {
    fn aqlprofile_get_version(version: *mut AqlProfileVersion) -> HsaStatus;
    fn aqlprofile_register_agent_info(
        agent: *mut AqlProfileAgent, info: *const c_void, version: AqlProfileAgentVersion,
    ) -> HsaStatus;
    fn aqlprofile_validate_pmc_event(
        agent: AqlProfileAgent, event: *const AqlProfileEvent, result: *mut bool,
    ) -> HsaStatus;
    fn aqlprofile_pmc_create_packets(
        handle: *mut AqlProfileHandle, packets: *mut AqlProfilePackets, request: AqlProfileRequest,
        allocate: AqlProfileAllocate, free: AqlProfileFree, copy: AqlProfileCopy, data: *mut c_void,
    ) -> HsaStatus;
    fn aqlprofile_pmc_delete_packets(handle: AqlProfileHandle);
    fn aqlprofile_pmc_iterate_data(handle: AqlProfileHandle, take: AqlProfileTake, data: *mut c_void) -> HsaStatus;
    fn aqlprofile_att_create_packets(
        handle: *mut AqlProfileHandle, packets: *mut AqlTracePackets, request: AqlTraceRequest,
        allocate: AqlProfileAllocate, free: AqlProfileFree, copy: AqlProfileCopy, data: *mut c_void,
    ) -> HsaStatus;
    fn aqlprofile_att_delete_packets(handle: AqlProfileHandle);
    fn aqlprofile_att_iterate_data(handle: AqlProfileHandle, take: AqlTraceTake, data: *mut c_void) -> HsaStatus;
    fn aqlprofile_att_codeobj_marker(
        packet: *mut AmdPm4IbPacket, handle: *mut AqlProfileHandle, code_object: AqlTraceCodeObject,
        allocate: AqlProfileAllocate, free: AqlProfileFree, data: *mut c_void,
    ) -> HsaStatus;
    fn hsa_ven_amd_aqlprofile_error_string(text: *mut *const c_char) -> HsaStatus;
}
