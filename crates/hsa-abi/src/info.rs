// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Attributes of the system, agents and instruction sets (HSA Runtime 2.2, 2.3, 2.8;
//! `hsa_ext_amd.h`). Each attribute's line gives the type that its query writes.

c_enum! {
    /// `hsa_system_info_t`.
    HsaSystemInfo: u32 {
        /// `u16`.
        VERSION_MAJOR = 0,
        /// `u16`.
        VERSION_MINOR = 1,
        /// `u64` ticks.
        TIMESTAMP = 2,
        /// `u64` Hz.
        TIMESTAMP_FREQUENCY = 3,
        /// `u64` ticks.
        SIGNAL_MAX_WAIT = 4,
        /// [`HsaEndianness`].
        ENDIANNESS = 5,
        /// [`HsaMachineModel`].
        MACHINE_MODEL = 6,
        /// `[u8; 128]`: a bit for each extension.
        EXTENSIONS = 7,
        /// `*const c_char`.
        AMD_BUILD_VERSION = 0x200,
        /// `bool`: shared virtual memory.
        AMD_SVM_SUPPORTED = 0x201,
        /// `bool`: all host memory is accessible to every agent without registration.
        AMD_SVM_ACCESSIBLE_BY_DEFAULT = 0x202,
        /// `bool`.
        AMD_MWAITX_ENABLED = 0x203,
        /// `bool`.
        AMD_DMABUF_SUPPORTED = 0x204,
        /// `bool`.
        AMD_VIRTUAL_MEM_API_SUPPORTED = 0x205,
        /// `bool`: retryable page faults.
        AMD_XNACK_ENABLED = 0x206,
        /// `u16`.
        AMD_EXT_VERSION_MAJOR = 0x207,
        /// `u16`.
        AMD_EXT_VERSION_MINOR = 0x208,
    }
}

c_enum! {
    /// `hsa_endianness_t`.
    HsaEndianness: u32 {
        /// Little endian.
        LITTLE = 0,
        /// Big endian.
        BIG = 1,
    }
}

c_enum! {
    /// `hsa_machine_model_t`.
    HsaMachineModel: u32 {
        /// 32-bit addresses.
        SMALL = 0,
        /// 64-bit addresses.
        LARGE = 1,
    }
}

c_enum! {
    /// `hsa_profile_t`.
    HsaProfile: u32 {
        /// Base profile.
        BASE = 0,
        /// Full profile.
        FULL = 1,
    }
}

c_enum! {
    /// `hsa_default_float_rounding_mode_t`.
    HsaFloatRoundingMode: u32 {
        /// The mode that the code chooses.
        DEFAULT = 0,
        /// Toward zero.
        ZERO = 1,
        /// To nearest even.
        NEAR = 2,
    }
}

c_enum! {
    /// `hsa_device_type_t`.
    HsaDeviceType: u32 {
        /// Host processor.
        CPU = 0,
        /// GPU.
        GPU = 1,
        /// Signal processor.
        DSP = 2,
        /// AI engine (AMD).
        AIE = 3,
    }
}

/// `hsa_agent_feature_t` bit: kernel dispatch packets.
pub const HSA_AGENT_FEATURE_KERNEL_DISPATCH: u32 = 1;
/// `hsa_agent_feature_t` bit: agent dispatch packets.
pub const HSA_AGENT_FEATURE_AGENT_DISPATCH: u32 = 2;

c_enum! {
    /// `hsa_agent_info_t` and `hsa_amd_agent_info_t`.
    HsaAgentInfo: u32 {
        /// `[c_char; 64]`, NUL-terminated; `gfx1100` and such on GPUs.
        NAME = 0,
        /// `[c_char; 64]`, NUL-terminated.
        VENDOR_NAME = 1,
        /// `u32` of `HSA_AGENT_FEATURE_*`.
        FEATURE = 2,
        /// [`HsaMachineModel`].
        MACHINE_MODEL = 3,
        /// [`HsaProfile`].
        PROFILE = 4,
        /// [`HsaFloatRoundingMode`].
        DEFAULT_FLOAT_ROUNDING_MODE = 5,
        /// `u32` lanes.
        WAVEFRONT_SIZE = 6,
        /// `[u16; 3]`.
        WORKGROUP_MAX_DIM = 7,
        /// `u32` work-items.
        WORKGROUP_MAX_SIZE = 8,
        /// `[u32; 3]`.
        GRID_MAX_DIM = 9,
        /// `u32` work-items.
        GRID_MAX_SIZE = 10,
        /// `u32`.
        FBARRIER_MAX_SIZE = 11,
        /// `u32`.
        QUEUES_MAX = 12,
        /// `u32` packets.
        QUEUE_MIN_SIZE = 13,
        /// `u32` packets.
        QUEUE_MAX_SIZE = 14,
        /// [`HsaQueueType`](crate::HsaQueueType).
        QUEUE_TYPE = 15,
        /// `u32`: NUMA node.
        NODE = 16,
        /// [`HsaDeviceType`].
        DEVICE = 17,
        /// `[u32; 4]` bytes of each cache level.
        CACHE_SIZE = 18,
        /// [`HsaIsa`](crate::HsaIsa).
        ISA = 19,
        /// `[u8; 128]`: a bit for each extension.
        EXTENSIONS = 20,
        /// `u16`.
        VERSION_MAJOR = 21,
        /// `u16`.
        VERSION_MINOR = 22,
        /// [`HsaFloatRoundingMode`].
        BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES = 23,
        /// `bool`.
        FAST_F16_OPERATION = 24,
        /// `u32` elements. ROCR writes 32 bits for all attributes of images; `hsa_ext_image.h` says `size_t`.
        IMAGE_1D_MAX_ELEMENTS = 0x3000,
        /// `u32` elements.
        IMAGE_1DA_MAX_ELEMENTS = 0x3001,
        /// `u32` elements.
        IMAGE_1DB_MAX_ELEMENTS = 0x3002,
        /// `[u32; 2]` elements.
        IMAGE_2D_MAX_ELEMENTS = 0x3003,
        /// `[u32; 2]` elements.
        IMAGE_2DA_MAX_ELEMENTS = 0x3004,
        /// `[u32; 2]` elements.
        IMAGE_2DDEPTH_MAX_ELEMENTS = 0x3005,
        /// `[u32; 2]` elements.
        IMAGE_2DADEPTH_MAX_ELEMENTS = 0x3006,
        /// `[u32; 3]` elements.
        IMAGE_3D_MAX_ELEMENTS = 0x3007,
        /// `u32` layers.
        IMAGE_ARRAY_MAX_LAYERS = 0x3008,
        /// `u32`: read-only images at once.
        MAX_IMAGE_RD_HANDLES = 0x3009,
        /// `u32`: writable images at once.
        MAX_IMAGE_RORW_HANDLES = 0x300A,
        /// `u32`: samplers at once.
        MAX_SAMPLER_HANDLERS = 0x300B,
        /// `u32`: PCI device id.
        AMD_CHIP_ID = 0xA000,
        /// `u32` bytes.
        AMD_CACHELINE_SIZE = 0xA001,
        /// `u32`.
        AMD_COMPUTE_UNIT_COUNT = 0xA002,
        /// `u32` MHz.
        AMD_MAX_CLOCK_FREQUENCY = 0xA003,
        /// `u32`: the kernel driver's node.
        AMD_DRIVER_NODE_ID = 0xA004,
        /// `u32`: ranges of addresses that a debugger can watch at once.
        AMD_MAX_ADDRESS_WATCH_POINTS = 0xA005,
        /// `u32`: PCI bus (bits 8–15), device (3–7) and function (0–2).
        AMD_BDFID = 0xA006,
        /// `u32` bits.
        AMD_MEMORY_WIDTH = 0xA007,
        /// `u32` MHz.
        AMD_MEMORY_MAX_FREQUENCY = 0xA008,
        /// `[c_char; 64]`, NUL-terminated: the marketing name.
        AMD_PRODUCT_NAME = 0xA009,
        /// `u32`.
        AMD_MAX_WAVES_PER_CU = 0xA00A,
        /// `u32`.
        AMD_NUM_SIMDS_PER_CU = 0xA00B,
        /// `u32`.
        AMD_NUM_SHADER_ENGINES = 0xA00C,
        /// `u32`.
        AMD_NUM_SHADER_ARRAYS_PER_SE = 0xA00D,
        /// [`HsaAmdHdpFlush`].
        AMD_HDP_FLUSH = 0xA00E,
        /// `u32`: PCI domain.
        AMD_DOMAIN = 0xA00F,
        /// `bool`.
        AMD_COOPERATIVE_QUEUES = 0xA010,
        /// `[c_char; 21]`, NUL-terminated: `GPU-` and 16 hexadecimal digits, or `GPU-XX`.
        AMD_UUID = 0xA011,
        /// `u32`.
        AMD_ASIC_REVISION = 0xA012,
        /// `bool`: the host can access this agent's memory directly.
        AMD_SVM_DIRECT_HOST_ACCESS = 0xA013,
        /// `u32`: compute units that cooperative dispatches may use.
        AMD_COOPERATIVE_COMPUTE_UNIT_COUNT = 0xA014,
        /// `u64` bytes.
        AMD_MEMORY_AVAIL = 0xA015,
        /// `u64` Hz of the agent's clock, in which signals are stamped.
        AMD_TIMESTAMP_FREQUENCY = 0xA016,
        /// `u32`.
        AMD_ASIC_FAMILY_ID = 0xA107,
        /// `u32`: firmware version of the packet processor.
        AMD_UCODE_VERSION = 0xA108,
        /// `u32`: firmware version of the DMA engines.
        AMD_SDMA_UCODE_VERSION = 0xA109,
        /// `u32`.
        AMD_NUM_SDMA_ENG = 0xA10A,
        /// `u32`: further engines for copies between GPUs of a hive.
        AMD_NUM_SDMA_XGMI_ENG = 0xA10B,
        /// `u32`: 0 none, 2 version 2.
        AMD_IOMMU_SUPPORT = 0xA110,
        /// `u32`.
        AMD_NUM_XCC = 0xA111,
        /// `u32`: the kernel driver's unique id (`/dev/dri/renderD<id>`).
        AMD_DRIVER_UID = 0xA112,
        /// [`HsaAgent`](crate::HsaAgent): the closest CPU.
        AMD_NEAREST_CPU = 0xA113,
        /// `[u8; 8]`, bits: 0 for a GPU that shares the host's memory (APU).
        AMD_MEMORY_PROPERTIES = 0xA114,
        /// `[u8; 8]`, bits: no extension of AQL has one.
        AMD_AQL_EXTENSIONS = 0xA115,
    }
}

/// `hsa_amd_hdp_flush_t`: registers that flush the host data path; null where not needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaAmdHdpFlush {
    /// Flushes host writes to device memory.
    pub mem_flush_cntl: *mut u32,
    /// Flushes register writes.
    pub reg_flush_cntl: *mut u32,
}

assert_layout!(HsaAmdHdpFlush, size 16, mem_flush_cntl @ 0, reg_flush_cntl @ 8);

c_enum! {
    /// `hsa_isa_info_t`.
    HsaIsaInfo: u32 {
        /// `u32` bytes with the NUL.
        NAME_LENGTH = 0,
        /// `[c_char; NAME_LENGTH]`: `amdgcn-amd-amdhsa--gfx1100` and such.
        NAME = 1,
        /// `[bool; 2]`: small, large.
        MACHINE_MODELS = 5,
        /// `[bool; 2]`: base, full.
        PROFILES = 6,
        /// `[bool; 3]`: default, zero, near.
        DEFAULT_FLOAT_ROUNDING_MODES = 7,
        /// `[bool; 3]`: default, zero, near.
        BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES = 8,
        /// `bool`.
        FAST_F16_OPERATION = 9,
        /// `[u16; 3]`.
        WORKGROUP_MAX_DIM = 12,
        /// `u32` work-items.
        WORKGROUP_MAX_SIZE = 13,
        /// `[u32; 3]`.
        GRID_MAX_DIM = 14,
        /// `u64` work-items.
        GRID_MAX_SIZE = 16,
        /// `u32`.
        FBARRIER_MAX_SIZE = 17,
    }
}

c_enum! {
    /// `hsa_cache_info_t`.
    HsaCacheInfo: u32 {
        /// `u32` bytes without the NUL.
        NAME_LENGTH = 0,
        /// `[c_char; NAME_LENGTH + 1]`, NUL-terminated.
        NAME = 1,
        /// `u8`: 1 for the closest.
        LEVEL = 2,
        /// `u32` bytes.
        SIZE = 3,
    }
}

c_enum! {
    /// `hsa_executable_symbol_info_t` (HSA Runtime 2.8).
    HsaExecutableSymbolInfo: u32 {
        /// [`HsaSymbolKind`].
        TYPE = 0,
        /// `u32` bytes without a NUL.
        NAME_LENGTH = 1,
        /// `[c_char; NAME_LENGTH]`, not NUL-terminated.
        NAME = 2,
        /// `u32`: 0 module linkage, 1 program linkage.
        LINKAGE = 5,
        /// `u32`: 0 agent allocation, 1 program allocation.
        VARIABLE_ALLOCATION = 6,
        /// `u32`: 0 global, 1 read-only.
        VARIABLE_SEGMENT = 7,
        /// `u32` bytes.
        VARIABLE_ALIGNMENT = 8,
        /// `u32` bytes.
        VARIABLE_SIZE = 9,
        /// `bool`.
        VARIABLE_IS_CONST = 10,
        /// `u32` bytes.
        KERNEL_KERNARG_SEGMENT_SIZE = 11,
        /// `u32` bytes.
        KERNEL_KERNARG_SEGMENT_ALIGNMENT = 12,
        /// `u32` bytes.
        KERNEL_GROUP_SEGMENT_SIZE = 13,
        /// `u32` bytes.
        KERNEL_PRIVATE_SEGMENT_SIZE = 14,
        /// `bool`.
        KERNEL_DYNAMIC_CALLSTACK = 15,
        /// `bool`.
        IS_DEFINITION = 17,
        /// [`HsaAgent`](crate::HsaAgent).
        AGENT = 20,
        /// `u64`.
        VARIABLE_ADDRESS = 21,
        /// `u64`: for [`KernelDispatchPacket::kernel_object`](crate::KernelDispatchPacket).
        KERNEL_OBJECT = 22,
    }
}

c_enum! {
    /// `hsa_symbol_kind_t`.
    HsaSymbolKind: u32 {
        /// A variable.
        VARIABLE = 0,
        /// A kernel.
        KERNEL = 1,
        /// An indirect function.
        INDIRECT_FUNCTION = 2,
    }
}

c_enum! {
    /// `hsa_extension_t`; 16 bits wide where functions take one.
    HsaExtension: u16 {
        /// Finalizer.
        FINALIZER = 0,
        /// Images.
        IMAGES = 1,
        /// Performance counters.
        PERFORMANCE_COUNTERS = 2,
        /// Profiling events.
        PROFILING_EVENTS = 3,
        /// `hsa_ven_amd_loader.h`.
        AMD_LOADER = 0x201,
        /// `hsa_ven_amd_aqlprofile.h`.
        AMD_AQLPROFILE = 0x202,
    }
}
