// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What an allocator tells that it has handed out (`iree_hal_allocator_statistics_t`).

use super::raw;

/// The statistics of an allocator, in the layout that IREE's have with `IREE_STATISTICS_ENABLE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorStatistics {
    /// Of the host's memory.
    pub host: HeapStatistics,
    /// Of the devices' memory.
    pub device: HeapStatistics,
}

/// Those of one kind of memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStatistics {
    /// The most that was in use at a time.
    pub peak: raw::iree_device_size_t,
    /// All that was ever handed out.
    pub allocated: raw::iree_device_size_t,
    /// All that came back.
    pub freed: raw::iree_device_size_t,
}

impl AllocatorStatistics {
    /// They as C takes them; nothing when IREE was built without statistics.
    pub fn to_raw(self) -> raw::iree_hal_allocator_statistics_t {
        // SAFETY: all-zero statistics are valid in both configurations.
        let mut result: raw::iree_hal_allocator_statistics_t = unsafe { std::mem::zeroed() };
        if size_of_val(&result) == size_of::<Self>() {
            // SAFETY: of the same size, IREE's struct has the fields of this one in their order.
            unsafe { (&raw mut result).cast::<Self>().write(self) };
        }
        result
    }
}
