// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The statistics of an allocator (`iree_hal_allocator_statistics_t`).

use super::raw;

/// The statistics of an allocator, in IREE's layout with `IREE_STATISTICS_ENABLE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorStatistics {
    /// Host memory.
    pub host: HeapStatistics,
    /// Device memory.
    pub device: HeapStatistics,
}

/// The statistics of one kind of memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStatistics {
    /// The most memory in use at a time.
    pub peak: raw::iree_device_size_t,
    /// All memory that was ever allocated.
    pub allocated: raw::iree_device_size_t,
    /// All memory that was freed.
    pub freed: raw::iree_device_size_t,
}

impl AllocatorStatistics {
    /// The C value; empty if IREE was built without statistics.
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
