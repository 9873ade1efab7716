// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Types of the thunk's interface, `hsakmttypes.h` of ROCm 5.2, which AMD's HSA runtime passes to `libhsakmt`. The
//! header packs them to four bytes; sizes are asserted.

use std::ffi::c_void;

/// `HSAKMT_STATUS`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    pub const SUCCESS: Self = Self(0);
    pub const ERROR: Self = Self(1);
    pub const INVALID_PARAMETER: Self = Self(3);
    pub const INVALID_HANDLE: Self = Self(4);
    pub const INVALID_NODE_UNIT: Self = Self(5);
    pub const NO_MEMORY: Self = Self(6);
    pub const NOT_SUPPORTED: Self = Self(11);
    pub const OUT_OF_RESOURCES: Self = Self(13);
    pub const KERNEL_IO_CHANNEL_NOT_OPENED: Self = Self(20);
    pub const WAIT_TIMEOUT: Self = Self(31);
    pub const MEMORY_NOT_REGISTERED: Self = Self(36);
}

/// `HsaVersionInfo`.
#[repr(C)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

/// `HsaSystemProperties`.
#[repr(C)]
pub struct SystemProperties {
    pub nodes: u32,
    pub platform: [u32; 3],
}

// Bits of `HSA_CAPABILITY`, and where one has its field.
pub const CAP_QUEUE_SIZE_POWER_OF_TWO: u32 = 1 << 3;
pub const CAP_QUEUE_SIZE_32BIT: u32 = 1 << 4;
pub const CAP_DOORBELL_TYPE: u32 = 12;
pub const CAP_SRAM_EDC: u32 = 1 << 26;

/// `HsaNodeProperties`.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct NodeProperties {
    pub cpu_cores: u32,
    pub simds: u32,
    pub memory_banks: u32,
    pub caches: u32,
    pub io_links: u32,
    pub cpu_id_low: u32,
    pub simd_id_low: u32,
    pub capability: u32,
    pub waves_per_simd: u32,
    pub lds_kib: u32,
    pub gds_kib: u32,
    pub wave_size: u32,
    pub shader_banks: u32,
    pub arrays: u32,
    pub cu_per_array: u32,
    pub simd_per_cu: u32,
    pub scratch_slots_per_cu: u32,
    /// Microcode 10 bits, major 6, minor 8, stepping 8.
    pub engine_id: u32,
    pub vendor_id: u16,
    pub device_id: u16,
    pub location_id: u32,
    pub local_memory: u64,
    pub clock_mhz: u32,
    pub cpu_clock_mhz: u32,
    pub drm_render_minor: i32,
    pub marketing_name: [u16; 64],
    pub amd_name: [u8; 64],
    pub engine_version: u32,
    pub debug_properties: u64,
    pub hive_id: u64,
    pub sdma_engines: u32,
    pub sdma_xgmi_engines: u32,
    pub sdma_queues_per_engine: u8,
    pub compute_queues: u8,
    pub gws: u8,
    pub reserved2: u8,
    pub domain: u32,
    pub unique_id: u64,
    pub vgpr_bytes_per_cu: u32,
    pub sgpr_bytes_per_cu: u32,
    pub reserved: [u8; 12],
}

const _: () = assert!(size_of::<NodeProperties>() == 356);

// `HSA_HEAPTYPE`.
pub const HEAP_SYSTEM: u32 = 0;
pub const HEAP_FRAME_BUFFER_PUBLIC: u32 = 1;
/// GPU memory without host access.
pub const HEAP_FRAME_BUFFER_PRIVATE: u32 = 2;
pub const HEAP_LDS: u32 = 4;
pub const HEAP_SCRATCH: u32 = 5;
pub const HEAP_MMIO_REMAP: u32 = 7;

/// `HsaMemoryProperties`.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Default)]
pub struct MemoryProperties {
    pub heap: u32,
    pub size: u64,
    pub flags: u32,
    pub width: u32,
    pub clock_mhz: u32,
    pub virtual_base: u64,
}

const _: () = assert!(size_of::<MemoryProperties>() == 32);

// `HsaCacheType`.
pub const CACHE_DATA: u32 = 1 << 0;
pub const CACHE_CPU: u32 = 1 << 2;
pub const CACHE_GPU: u32 = 1 << 3;

/// `HsaCacheProperties`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CacheProperties {
    pub processor_id_low: u32,
    pub level: u32,
    pub kib: u32,
    pub line: u32,
    pub lines_per_tag: u32,
    pub associativity: u32,
    pub latency: u32,
    pub kind: u32,
    pub siblings: [u32; 256],
}

/// `HSA_IOLINKTYPE_PCIEXPRESS`.
pub const LINK_PCIE: u32 = 2;

/// `HsaIoLinkProperties`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct IoLinkProperties {
    pub kind: u32,
    pub version: [u32; 2],
    pub from: u32,
    pub to: u32,
    pub weight: u32,
    pub latency_ns: [u32; 2],
    pub bandwidth_mb: [u32; 2],
    pub transfer_size: u32,
    pub flags: u32,
}

const _: () = assert!(size_of::<IoLinkProperties>() == 48);

// Bits of `HsaMemFlags`.
pub const MEM_NON_PAGED: u32 = 1 << 0;
pub const MEM_PAGE_SIZE: u32 = 4;
pub const MEM_HOST_ACCESS: u32 = 1 << 6;
pub const MEM_SCRATCH: u32 = 1 << 9;
pub const MEM_COARSE_GRAIN: u32 = 1 << 13;
pub const MEM_FIXED_ADDRESS: u32 = 1 << 15;

// `HSA_POINTER_TYPE`.
pub const POINTER_UNKNOWN: u32 = 0;
pub const POINTER_ALLOCATED: u32 = 1;
pub const POINTER_REGISTERED_USER: u32 = 2;

/// `HsaPointerInfo`.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct PointerInfo {
    pub kind: u32,
    pub node: u32,
    pub flags: u32,
    pub cpu_address: u64,
    pub gpu_address: u64,
    pub size: u64,
    pub registered_count: u32,
    pub mapped_count: u32,
    pub registered_nodes: *const u32,
    pub mapped_nodes: *const u32,
    pub user_data: *mut c_void,
}

const _: () = assert!(size_of::<PointerInfo>() == 68);

/// `HSA_QUEUE_COMPUTE_AQL`.
pub const QUEUE_COMPUTE_AQL: u32 = 21;

/// `HsaQueueResource`. The caller fills in the addresses of the indices and of the error signal; the driver the rest.
#[repr(C)]
pub struct QueueResource {
    pub id: u64,
    pub doorbell: u64,
    pub write_index: u64,
    pub read_index: u64,
    /// Address of a signal's value. The driver sets bits for exceptions in it.
    pub error_reason: *mut i64,
}

// `HSA_EVENTTYPE`.
pub const EVENT_SIGNAL: u32 = 0;
pub const EVENT_DEBUG: u32 = 5;
pub const EVENT_MEMORY: u32 = 8;
pub const EVENT_TYPES: u32 = 9;

/// `HsaEventDescriptor`.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct EventDescriptor {
    pub kind: u32,
    pub node: u32,
    pub sync_var: [u64; 2],
}

/// `HsaMemoryAccessFault`.
#[repr(C, packed(4))]
#[derive(Clone, Copy, Default)]
pub struct MemoryAccessFault {
    pub node: u32,
    pub address: u64,
    /// `HsaAccessAttributeFailure`.
    pub failure: u32,
    /// `HSA_EVENTID_MEMORYFLAGS`.
    pub flags: u32,
}

/// `HSA_EVENTID_MEMORY_FATAL_PROCESS`.
pub const MEMORY_FATAL_PROCESS: u32 = 1;

// Bits of `HsaAccessAttributeFailure`.
pub const FAILURE_NOT_PRESENT: u32 = 1 << 0;
pub const FAILURE_READ_ONLY: u32 = 1 << 1;

/// Details of an event, by its type.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub union EventDetail {
    pub sync_var: [u64; 2],
    pub memory_fault: MemoryAccessFault,
}

/// `HsaEvent`.
#[repr(C, packed(4))]
pub struct Event {
    pub id: u32,
    pub kind: u32,
    pub detail: EventDetail,
    /// Driver's handle of the event.
    pub handle: u64,
    /// Address of the event's mailbox.
    pub mailbox: u64,
    /// Value that a device stores to the mailbox.
    pub trigger: u32,
}

const _: () = assert!(size_of::<Event>() == 48);

/// `HsaClockCounters`.
#[repr(C)]
pub struct ClockCounters {
    pub gpu: u64,
    pub cpu: u64,
    pub system: u64,
    pub system_hz: u64,
}

/// `HsaGpuTileConfig`. The caller sets the pointers, and the counts to the room there.
#[repr(C)]
pub struct TileConfig {
    pub tiles: *mut u32,
    pub macro_tiles: *mut u32,
    pub tile_count: u32,
    pub macro_tile_count: u32,
    pub address_config: u32,
    pub banks: u32,
    pub ranks: u32,
    pub reserved: [u32; 7],
}
