// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Regions, memory pools, links and pointers (HSA Runtime 2.7; `hsa_ext_amd.h`).

use core::ffi::c_void;

use crate::HsaAgent;

c_enum! {
    /// `hsa_region_segment_t`.
    HsaRegionSegment: u32 {
        /// Global memory.
        GLOBAL = 0,
        /// Read-only memory.
        READONLY = 1,
        /// Private (scratch) memory.
        PRIVATE = 2,
        /// Group memory (LDS).
        GROUP = 3,
        /// Kernel arguments.
        KERNARG = 4,
    }
}

c_enum! {
    /// `hsa_amd_segment_t`.
    HsaAmdSegment: u32 {
        /// Global memory.
        GLOBAL = 0,
        /// Read-only memory.
        READONLY = 1,
        /// Private (scratch) memory.
        PRIVATE = 2,
        /// Group memory (LDS).
        GROUP = 3,
    }
}

/// Global flag of regions and pools: fit for kernel arguments.
pub const HSA_GLOBAL_FLAG_KERNARG: u32 = 1;
/// Global flag of regions and pools: fine-grained (coherent while kernels run).
pub const HSA_GLOBAL_FLAG_FINE_GRAINED: u32 = 2;
/// Global flag of regions and pools: coarse-grained (coherent at kernel boundaries).
pub const HSA_GLOBAL_FLAG_COARSE_GRAINED: u32 = 4;
/// Global flag of regions and pools: fine-grained with extended scope.
pub const HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED: u32 = 8;

c_enum! {
    /// `hsa_region_info_t`.
    HsaRegionInfo: u32 {
        /// [`HsaRegionSegment`].
        SEGMENT = 0,
        /// `u32` of `HSA_GLOBAL_FLAG_*`.
        GLOBAL_FLAGS = 1,
        /// `usize` bytes.
        SIZE = 2,
        /// `usize` bytes.
        ALLOC_MAX_SIZE = 4,
        /// `bool`.
        RUNTIME_ALLOC_ALLOWED = 5,
        /// `usize` bytes.
        RUNTIME_ALLOC_GRANULE = 6,
        /// `usize` bytes.
        RUNTIME_ALLOC_ALIGNMENT = 7,
        /// `u32` bytes.
        ALLOC_MAX_PRIVATE_WORKGROUP_SIZE = 8,
    }
}

c_enum! {
    /// `hsa_amd_memory_pool_info_t`.
    HsaMemoryPoolInfo: u32 {
        /// [`HsaAmdSegment`].
        SEGMENT = 0,
        /// `u32` of `HSA_GLOBAL_FLAG_*`.
        GLOBAL_FLAGS = 1,
        /// `usize` bytes.
        SIZE = 2,
        /// `bool`.
        RUNTIME_ALLOC_ALLOWED = 5,
        /// `usize` bytes.
        RUNTIME_ALLOC_GRANULE = 6,
        /// `usize` bytes.
        RUNTIME_ALLOC_ALIGNMENT = 7,
        /// `bool`: every agent may access the pool's memory by default.
        ACCESSIBLE_BY_ALL = 15,
        /// `usize` bytes.
        ALLOC_MAX_SIZE = 16,
        /// [`HsaMemoryPoolLocation`].
        LOCATION = 17,
        /// `usize` bytes: the granule at which allocations waste nothing.
        RUNTIME_ALLOC_REC_GRANULE = 18,
    }
}

c_enum! {
    /// `hsa_amd_memory_pool_location_t`.
    HsaMemoryPoolLocation: u32 {
        /// Host memory.
        CPU = 0,
        /// Device memory.
        GPU = 1,
    }
}

/// `hsa_amd_memory_pool_flag_t`: the memory may hold code.
pub const HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG: u32 = 1 << 2;

c_enum! {
    /// `hsa_amd_agent_memory_pool_info_t`.
    HsaAgentMemoryPoolInfo: u32 {
        /// [`HsaMemoryPoolAccess`].
        ACCESS = 0,
        /// `u32`: links between the agent and the pool; 0 when they are the same device.
        NUM_LINK_HOPS = 1,
        /// [`HsaMemoryPoolLinkInfo`] for each hop.
        LINK_INFO = 2,
    }
}

c_enum! {
    /// `hsa_amd_memory_pool_access_t`.
    HsaMemoryPoolAccess: u32 {
        /// The agent can never access the pool.
        NEVER_ALLOWED = 0,
        /// The agent can access every allocation of the pool.
        ALLOWED_BY_DEFAULT = 1,
        /// The agent can access an allocation after `hsa_amd_agents_allow_access`.
        DISALLOWED_BY_DEFAULT = 2,
    }
}

c_enum! {
    /// `hsa_amd_link_info_type_t`.
    HsaLinkType: u32 {
        /// HyperTransport.
        HYPERTRANSPORT = 0,
        /// QPI.
        QPI = 1,
        /// PCI Express.
        PCIE = 2,
        /// InfiniBand.
        INFINIBAND = 3,
        /// XGMI (Infinity Fabric).
        XGMI = 4,
    }
}

/// `hsa_amd_memory_pool_link_info_t`: one hop between an agent and a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaMemoryPoolLinkInfo {
    /// Nanoseconds.
    pub min_latency: u32,
    /// Nanoseconds.
    pub max_latency: u32,
    /// MB/s.
    pub min_bandwidth: u32,
    /// MB/s.
    pub max_bandwidth: u32,
    /// 32-bit atomics cross the link.
    pub atomic_support_32bit: bool,
    /// 64-bit atomics cross the link.
    pub atomic_support_64bit: bool,
    /// The link is coherent.
    pub coherent_support: bool,
    /// Kind of link.
    pub link_type: HsaLinkType,
    /// NUMA distance.
    pub numa_distance: u32,
}

assert_layout!(HsaMemoryPoolLinkInfo, size 28,
    min_latency @ 0, max_bandwidth @ 12, atomic_support_32bit @ 16, link_type @ 20,
    numa_distance @ 24);

c_enum! {
    /// `hsa_amd_pointer_type_t`.
    HsaPointerType: u32 {
        /// Memory unknown to the runtime.
        UNKNOWN = 0,
        /// Allocated from a pool or region.
        HSA = 1,
        /// Host memory locked with `hsa_amd_memory_lock`.
        LOCKED = 2,
        /// From a graphics API.
        GRAPHICS = 3,
        /// From another process.
        IPC = 4,
        /// Reserved with the virtual memory API, nothing mapped.
        RESERVED_ADDR = 5,
        /// Mapped with the virtual memory API.
        HSA_VMEM = 6,
    }
}

/// `hsa_amd_pointer_info_t`. The caller sets `size` to the bytes it has room for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaPointerInfo {
    /// Bytes of this structure that the caller knows; the callee writes no more.
    pub size: u32,
    /// Type of the pointer.
    pub pointer_type: HsaPointerType,
    /// Base address of the allocation for agents.
    pub agent_base_address: *mut c_void,
    /// Base address of the allocation for the host; null when the host has no access.
    pub host_base_address: *mut c_void,
    /// Bytes of the allocation.
    pub size_in_bytes: usize,
    /// As set by `hsa_amd_pointer_info_set_userdata`.
    pub user_data: *mut c_void,
    /// The agent whose pool the memory is from.
    pub agent_owner: HsaAgent,
    /// `HSA_GLOBAL_FLAG_*` of the pool.
    pub global_flags: u32,
}

assert_layout!(HsaPointerInfo, size 56,
    size @ 0, pointer_type @ 4, agent_base_address @ 8, host_base_address @ 16, size_in_bytes @ 24,
    user_data @ 32, agent_owner @ 40, global_flags @ 48);

c_enum! {
    /// `hsa_amd_memory_type_t`.
    HsaVmemMemoryType: u32 {
        /// Pageable.
        NONE = 0,
        /// Pinned.
        PINNED = 1,
    }
}

c_enum! {
    /// `hsa_access_permission_t`.
    HsaAccessPermission: u32 {
        /// No access.
        NONE = 0,
        /// Read.
        RO = 1,
        /// Write.
        WO = 2,
        /// Read and write.
        RW = 3,
    }
}

/// `hsa_amd_memory_access_desc_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaMemoryAccessDesc {
    /// Access of the agent.
    pub permissions: HsaAccessPermission,
    /// The agent.
    pub agent_handle: HsaAgent,
}

assert_layout!(HsaMemoryAccessDesc, size 16, permissions @ 0, agent_handle @ 8);

c_enum! {
    /// `hsa_amd_svm_attribute_t`. Each line gives the type of the value and the functions that take it.
    HsaSvmAttribute: u64 {
        /// [`HsaSvmModel`]; set and get.
        GLOBAL_FLAG = 0,
        /// `bool`; set and get.
        READ_ONLY = 1,
        /// `bool`; set and get.
        HIVE_LOCAL = 2,
        /// Binary logarithm of pages; set and get.
        MIGRATION_GRANULARITY = 3,
        /// [`HsaAgent`] or null; set and get.
        PREFERRED_LOCATION = 4,
        /// [`HsaAgent`] of the last prefetch or null; get.
        PREFETCH_LOCATION = 5,
        /// `bool`; set and get.
        READ_MOSTLY = 6,
        /// `bool`; set and get.
        GPU_EXEC = 7,
        /// [`HsaAgent`]; set.
        AGENT_ACCESSIBLE = 0x200,
        /// [`HsaAgent`]; set.
        AGENT_ACCESSIBLE_IN_PLACE = 0x201,
        /// [`HsaAgent`]; set.
        AGENT_NO_ACCESS = 0x202,
        /// [`HsaAgent`]; get, which replaces this attribute by one of the three above.
        ACCESS_QUERY = 0x203,
    }
}

c_enum! {
    /// `hsa_amd_svm_model_t`.
    HsaSvmModel: u64 {
        /// Coherent while kernels run.
        FINE_GRAINED = 0,
        /// Coherent at kernel boundaries.
        COARSE_GRAINED = 1,
        /// A range that has both.
        INDETERMINATE = 2,
    }
}

/// `hsa_amd_svm_attribute_pair_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HsaSvmAttributePair {
    /// Which attribute.
    pub attribute: HsaSvmAttribute,
    /// Value of the attribute.
    pub value: u64,
}

assert_layout!(HsaSvmAttributePair, size 16, attribute @ 0, value @ 8);

/// `hsa_amd_ipc_memory_t` and `hsa_amd_ipc_signal_t`: names memory or a signal for other processes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HsaIpcHandle {
    /// Opaque.
    pub handle: [u32; 8],
}

assert_layout!(HsaIpcHandle, size 32, handle @ 0);

/// `hsa_dim3_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HsaDim3 {
    /// Bytes, where a copy is described.
    pub x: u32,
    /// Rows.
    pub y: u32,
    /// Slices.
    pub z: u32,
}

assert_layout!(HsaDim3, size 12, x @ 0, y @ 4, z @ 8);

/// `hsa_pitched_ptr_t`: memory of rows and slices. All fields are multiples of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaPitchedPtr {
    /// First byte.
    pub base: *mut c_void,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Bytes from one slice to the next.
    pub slice: usize,
}

assert_layout!(HsaPitchedPtr, size 24, base @ 0, pitch @ 8, slice @ 16);

c_enum! {
    /// `hsa_amd_copy_direction_t`.
    HsaCopyDirection: u32 {
        /// From host to host.
        HOST_TO_HOST = 0,
        /// From host to device.
        HOST_TO_DEVICE = 1,
        /// From device to host.
        DEVICE_TO_HOST = 2,
        /// From device to device.
        DEVICE_TO_DEVICE = 3,
    }
}

c_enum! {
    /// `hsa_amd_coherency_type_t`.
    HsaCoherencyType: u32 {
        /// Memory without an own setting is coherent.
        COHERENT = 0,
        /// Memory without an own setting is not coherent.
        NONCOHERENT = 1,
    }
}
