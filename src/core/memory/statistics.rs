// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What an allocator has handed out (`iree_hal_allocator_statistics_t`).

use parking_lot::Mutex;

use crate::ffi::MemoryType;
use crate::ffi::statistics::{AllocatorStatistics, HeapStatistics};

/// Counters of one allocator; the buffers it made keep them to count their end.
#[derive(Debug, Default)]
pub struct Statistics(Mutex<AllocatorStatistics>);

impl Statistics {
    /// Counts a new allocation of `size` bytes of `memory_type`.
    pub fn allocated(&self, memory_type: MemoryType, size: usize) {
        self.change(memory_type, |usage| {
            usage.allocated += size;
            usage.peak = usage.peak.max(usage.allocated - usage.freed);
        });
    }

    /// Counts the end of one.
    pub fn freed(&self, memory_type: MemoryType, size: usize) {
        self.change(memory_type, |usage| usage.freed += size);
    }

    fn change(&self, memory_type: MemoryType, change: impl FnOnce(&mut HeapStatistics)) {
        let mut counts = self.0.lock();
        change(if memory_type.contains(MemoryType::HOST_LOCAL) { &mut counts.host } else { &mut counts.device });
    }

    /// The counts now.
    pub fn query(&self) -> AllocatorStatistics {
        *self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_device_are_counted_apart_and_peaks_stay() {
        let statistics = Statistics::default();
        let device = MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE;
        statistics.allocated(device, 100);
        statistics.freed(device, 100);
        statistics.allocated(device, 40);
        statistics.allocated(MemoryType::HOST_LOCAL, 7);
        let counts = statistics.query().to_raw();
        let device = (counts.device_bytes_peak, counts.device_bytes_allocated, counts.device_bytes_freed);
        let host = (counts.host_bytes_peak, counts.host_bytes_allocated, counts.host_bytes_freed);
        assert_eq!((device, host), ((100, 140, 100), (7, 7, 0)));
    }
}
