// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The memory that users of a logical device hold (`iree_hal_allocator_statistics_t`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use amdgpu_ffi::MemoryType;
use amdgpu_ffi::statistics::{AllocatorStatistics, HeapStatistics};

/// Counters of one logical device: buffers of its allocator in bytes that HSA allocated, and queue allocations in bytes
/// that their pool reserved. Memory that pools keep for reuse is not counted. Shared by the device and every
/// [`Counted`]. Without a lock: concurrent allocations and frees may make a peak too low or too high.
#[derive(Debug, Default)]
pub struct Statistics {
    host: Counters,
    device: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    peak: AtomicUsize,
    allocated: AtomicUsize,
    freed: AtomicUsize,
}

/// Memory that is counted as held until this is dropped.
#[derive(Debug)]
pub struct Counted {
    statistics: Arc<Statistics>,
    size: usize,
    is_host: bool,
}

impl Statistics {
    /// Counts `size` bytes of `memory_type` as held.
    pub fn count(self: Arc<Self>, memory_type: MemoryType, size: usize) -> Counted {
        let is_host = memory_type.contains(MemoryType::HOST_LOCAL);
        let counters = self.counters(is_host);
        let allocated = counters.allocated.fetch_add(size, Ordering::Relaxed) + size;
        let held = allocated.wrapping_sub(counters.freed.load(Ordering::Relaxed));
        if held > counters.peak.load(Ordering::Relaxed) {
            counters.peak.fetch_max(held, Ordering::Relaxed);
        }
        Counted { statistics: self, size, is_host }
    }

    fn counters(&self, is_host: bool) -> &Counters {
        if is_host { &self.host } else { &self.device }
    }

    /// The counts now.
    pub fn query(&self) -> AllocatorStatistics {
        let of = |counters: &Counters| HeapStatistics {
            peak: counters.peak.load(Ordering::Relaxed),
            // Before the count that it is compared to: users subtract one from the other.
            freed: counters.freed.load(Ordering::Relaxed),
            allocated: counters.allocated.load(Ordering::Relaxed),
        };
        AllocatorStatistics { host: of(&self.host), device: of(&self.device) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.statistics.counters(self.is_host).freed.fetch_add(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_device_are_counted_apart_and_peaks_stay() {
        let statistics = Arc::<Statistics>::default();
        let device = MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE;
        let count = |memory_type, size| statistics.clone().count(memory_type, size);
        drop(count(device, 100));
        let _held = [count(device, 40), count(MemoryType::HOST_LOCAL, 7)];
        let counts = statistics.query().to_raw();
        let device = (counts.device_bytes_peak, counts.device_bytes_allocated, counts.device_bytes_freed);
        let host = (counts.host_bytes_peak, counts.host_bytes_allocated, counts.host_bytes_freed);
        assert_eq!((device, host), ((100, 140, 100), (7, 7, 0)));
    }
}
