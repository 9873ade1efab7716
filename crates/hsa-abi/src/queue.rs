// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! User-mode queues (HSA Runtime 2.5, HSA SysArch 2.8; `amd_hsa_queue.h`).

use core::ffi::c_void;

use crate::{HsaSignal, HsaStatus};

c_enum! {
    /// `hsa_queue_type32_t`.
    HsaQueueType: u32 {
        /// Any number of producers.
        MULTI = 0,
        /// One producer at a time.
        SINGLE = 1,
        /// Cooperative dispatches, AMD.
        COOPERATIVE = 2,
    }
}

/// `hsa_queue_feature_t` bit: the queue takes kernel dispatch packets.
pub const HSA_QUEUE_FEATURE_KERNEL_DISPATCH: u32 = 1;
/// `hsa_queue_feature_t` bit: the queue takes agent dispatch packets.
pub const HSA_QUEUE_FEATURE_AGENT_DISPATCH: u32 = 2;

/// `hsa_queue_t`: the public part of a queue; read-only for its users.
#[repr(C)]
#[derive(Debug)]
pub struct HsaQueue {
    /// Single or multiple producers.
    pub queue_type: HsaQueueType,
    /// `hsa_queue_feature_t` bits.
    pub features: u32,
    /// The ring: `size` packets of 64 bytes, 64-byte aligned.
    pub base_address: *mut c_void,
    /// Rung with the id of the last packet published.
    pub doorbell_signal: HsaSignal,
    /// Capacity in packets, a power of two.
    pub size: u32,
    /// Zero.
    pub reserved1: u32,
    /// Unique over the life of the process.
    pub id: u64,
}

assert_layout!(HsaQueue, size 40,
    queue_type @ 0, features @ 4, base_address @ 8, doorbell_signal @ 16, size @ 24, id @ 32);

c_enum! {
    /// `hsa_queue_info_attribute_t`.
    HsaQueueInfo: u32 {
        /// [`HsaAgent`](crate::HsaAgent): whose queue it is.
        AGENT = 0,
        /// `u64`: address of the hardware doorbell.
        DOORBELL_ID = 1,
    }
}

c_enum! {
    /// `hsa_amd_queue_priority_t`.
    HsaQueuePriority: u32 {
        /// Below the others.
        LOW = 0,
        /// Default of queues.
        NORMAL = 1,
        /// Above the others.
        HIGH = 2,
    }
}

/// `hsa_queue_create`'s error callback: runs on a thread of the runtime when the queue stops.
pub type HsaQueueCallback = unsafe extern "C" fn(status: HsaStatus, queue: *mut HsaQueue, data: *mut c_void);

/// `amd_queue_t`: the object behind an `hsa_queue_t*` made by ROCR, 64-byte aligned.
///
/// `write_dispatch_id` and `read_dispatch_id` are shared with other host threads and the packet
/// processor and must only be accessed atomically.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct AmdQueue {
    /// The public part.
    pub hsa_queue: HsaQueue,
    /// `amd_queue_capabilities32_t` bits.
    pub caps: u32,
    /// Reserved.
    pub reserved1: [u32; 3],
    /// Id of the next packet that a producer may reserve; monotonic, advanced by producers.
    pub write_dispatch_id: u64,
    /// Upper half of the base address of the LDS aperture.
    pub group_segment_aperture_base_hi: u32,
    /// Upper half of the base address of the scratch aperture.
    pub private_segment_aperture_base_hi: u32,
    /// Largest compute unit id.
    pub max_cu_id: u32,
    /// Largest wave id on a compute unit.
    pub max_wave_id: u32,
    /// For doorbells of gfx8 and older.
    pub max_legacy_doorbell_dispatch_id_plus_1: u64,
    /// For doorbells of gfx8 and older.
    pub legacy_doorbell_lock: u32,
    /// Reserved.
    pub reserved2: [u32; 9],
    /// Id of the next packet to be processed; slots below are free. Advanced by the packet processor.
    pub read_dispatch_id: u64,
    /// Offset in bytes of `read_dispatch_id` from the start of the queue.
    pub read_dispatch_id_field_base_byte_offset: u32,
    /// `COMPUTE_TMPRING_SIZE`.
    pub compute_tmpring_size: u32,
    /// Buffer resource descriptor of the scratch memory.
    pub scratch_resource_descriptor: [u32; 4],
    /// Address of the scratch memory.
    pub scratch_backing_memory_location: u64,
    /// Bytes of scratch memory.
    pub scratch_backing_memory_byte_size: u64,
    /// Bytes of scratch a lane of a 64-wide wave has.
    pub scratch_wave64_lane_byte_size: u32,
    /// `AMD_QUEUE_PROPERTIES_*` bits.
    pub queue_properties: u32,
    /// For asynchronous scratch reclaim.
    pub scratch_last_used_index: u64,
    /// Set to non-zero by the packet processor when the queue stops with an error.
    pub queue_inactive_signal: HsaSignal,
    /// Reserved.
    pub reserved4: [u32; 2],
    /// For asynchronous scratch reclaim.
    pub alt_scratch_last_used_index: u64,
    /// For asynchronous scratch reclaim.
    pub alt_scratch_backing_memory_location: u64,
    /// For asynchronous scratch reclaim.
    pub alt_scratch_backing_memory_byte_size: u64,
    /// For asynchronous scratch reclaim.
    pub alt_scratch_dispatch_limit: [u32; 3],
    /// For asynchronous scratch reclaim.
    pub alt_scratch_wave64_lane_byte_size: u32,
    /// For asynchronous scratch reclaim.
    pub alt_compute_tmpring_size: u32,
    /// Reserved.
    pub reserved5: u32,
}

assert_layout!(AmdQueue, size 256,
    hsa_queue @ 0, caps @ 40, write_dispatch_id @ 56, group_segment_aperture_base_hi @ 64,
    private_segment_aperture_base_hi @ 68, max_cu_id @ 72, max_wave_id @ 76,
    max_legacy_doorbell_dispatch_id_plus_1 @ 80, legacy_doorbell_lock @ 88, read_dispatch_id @ 128,
    read_dispatch_id_field_base_byte_offset @ 136, compute_tmpring_size @ 140,
    scratch_resource_descriptor @ 144, scratch_backing_memory_location @ 160,
    scratch_backing_memory_byte_size @ 168, scratch_wave64_lane_byte_size @ 176,
    queue_properties @ 180, scratch_last_used_index @ 184, queue_inactive_signal @ 192,
    alt_scratch_last_used_index @ 208, alt_scratch_dispatch_limit @ 232);

/// `AMD_QUEUE_PROPERTIES_IS_PTR64` bit of [`AmdQueue::queue_properties`].
pub const AMD_QUEUE_PROPERTIES_IS_PTR64: u32 = 1 << 1;
/// `AMD_QUEUE_PROPERTIES_ENABLE_PROFILING` bit of [`AmdQueue::queue_properties`]: completion signals
/// get start and end ticks.
pub const AMD_QUEUE_PROPERTIES_ENABLE_PROFILING: u32 = 1 << 3;
/// `AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE` bit of [`AmdQueue::queue_properties`]: the scratch memory is for one
/// dispatch.
pub const AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE: u32 = 1 << 4;
