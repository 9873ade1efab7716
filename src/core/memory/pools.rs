// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The default pools of queue-ordered allocation. Each GPU has [range pools](RangePool) over coarse device memory and
//! fine host memory, and IREE's pass-through pools for allocations larger than a range or of fine device memory, which
//! is rarer.
//!
//! Buffers borrow their pool, and pools borrow the device's epoch queries, so that the device has to outlive its
//! buffers by IREE's contract (`iree/hal/pool.h`). If an application breaks it, pools with live reservations are
//! leaked.

use std::sync::{Arc, Weak};

use crate::epochs::EpochClock;
use crate::heaps::{HeapKind, Heaps, canonicalize};
use crate::range_pool::{RangeOptions, RangePool};
use crate::slab_provider::SlabProvider;
use crate::statistics::Statistics;
use crate::transient::Transient;
use amdgpu_ffi::pool::{Epochs, NotificationRef, Pool, PoolRef, PoolSet, QueueBackend, create};
use amdgpu_ffi::{Allocator, Blocks, BufferParams, BufferUsage, HalRef, MemoryType, ProactorPtr, Result, status};
use amdgpu_gpu::options::Options;
use amdgpu_profile::Profiler;

type SlabRef = HalRef<SlabProvider>;

/// Priorities in the pool set: ranges first; larger allocations pass through.
const RANGE_PRIORITY: i32 = 1;
const OVERSIZE_PRIORITY: i32 = 0;

/// The pools of a logical device.
#[derive(Debug)]
pub struct DeviceMemory {
    gpus: Vec<GpuMemory>,
    transients: Arc<Blocks>,
    statistics: Arc<Statistics>,
}

impl DeviceMemory {
    /// Makes the pools of every GPU of `heaps`. Their notifications belong to `proactor`; `queues` answers epoch
    /// queries; `profiler` logs their slabs; `statistics` counts the memory of queue allocations.
    /// # Errors
    /// RESOURCE_EXHAUSTED; INVALID_ARGUMENT for more alignment than HSA's memory has.
    ///
    /// # Safety
    /// The proactor outlives the pools.
    pub unsafe fn new(
        heaps: &Heaps,
        options: &Options,
        proactor: ProactorPtr,
        host_allocator: Allocator,
        queues: Weak<dyn Epochs>,
        profiler: &Arc<Profiler>,
        statistics: Arc<Statistics>,
    ) -> Result<Self> {
        let clock = Arc::new(EpochClock::new(queues));
        let mut gpus = Vec::with_capacity(heaps.gpu_count());
        for gpu in 0..heaps.gpu_count() {
            // SAFETY: the caller's contract.
            gpus.push(unsafe { GpuMemory::new(heaps, gpu, options, proactor, host_allocator, &clock, profiler) }?);
        }
        Ok(Self { gpus, transients: Transient::blocks(host_allocator), statistics })
    }

    /// The pools of GPU `index`.
    pub fn gpu(&self, index: usize) -> &GpuMemory {
        &self.gpus[index]
    }

    /// The blocks that buffers of queue allocations are allocated in.
    #[inline]
    pub fn transients(&self) -> &Arc<Blocks> {
        &self.transients
    }

    /// The counters of queue allocations' memory.
    #[inline]
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Gives unused memory back to HSA.
    ///
    /// # Errors
    /// The first error of a pool; the others are trimmed all the same.
    pub fn trim(&self) -> Result<()> {
        let pools = self.gpus.iter().flat_map(|gpu| &gpu.pools);
        let results = pools.map(|pool| pool.borrow().trim());
        results.reduce(Result::and).unwrap_or(Ok(()))
    }
}

/// The pools of one GPU.
#[derive(Debug)]
pub struct GpuMemory {
    set: PoolSet,
    kinds: Vec<HeapKind>,
    pools: Vec<PoolRef>,
    provider: HalRef<SlabProvider>,
    notification: NotificationRef,
    clock: Arc<EpochClock>,
}

impl GpuMemory {
    /// # Safety
    /// The proactor outlives the pools.
    unsafe fn new(
        heaps: &Heaps,
        gpu: usize,
        options: &Options,
        proactor: ProactorPtr,
        host_allocator: Allocator,
        clock: &Arc<EpochClock>,
        profiler: &Arc<Profiler>,
    ) -> Result<Self> {
        let mut providers = Vec::new();
        for kind in HeapKind::ALL {
            if let Some(pool) = heaps.pool(gpu, kind) {
                let grant = heaps.grant(kind, gpu).clone();
                let (flush, place) = (heaps.flush(gpu, kind), (gpu, profiler.clone()));
                providers.push((kind, SlabProvider::create(host_allocator, kind, pool.clone(), grant, flush, place)?));
            }
        }
        let (kinds, pools) = (providers.iter().map(|(kind, _)| *kind).collect(), Vec::new());
        let provider = providers[0].1.clone();
        let set = PoolSet::new(host_allocator)?;
        // SAFETY: the caller's contract.
        let notification = unsafe { create::notification(proactor) }?;
        let mut memory = Self { set, kinds, pools, provider, notification, clock: clock.clone() };
        // Blocks whose death frontier has no room for every queue that used a part of them are never given again.
        let queues = heaps.all_queues().count_ones() as u8;
        let options = Options {
            default_pool_frontier_capacity: options.default_pool_frontier_capacity.max(queues),
            ..options.clone()
        };
        for (kind, provider) in providers {
            if !matches!(kind, HeapKind::DeviceVisible | HeapKind::DeviceFine) {
                memory.add_range_pool(&provider, &options, host_allocator)?;
            }
            memory.add_oversize_pool(&provider, host_allocator)?;
        }
        Ok(memory)
    }

    /// The default pool for `size` bytes of memory as in `params`, which become the buffer's.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for memory that the GPU does not have.
    pub fn select(&self, params: &mut BufferParams, size: usize) -> Result<Pool<'_>> {
        canonicalize(params, &self.kinds)?;
        self.set.select(params, size).ok_or_else(|| {
            let types = MemoryType::from_bits_retain(params.type_);
            let usage = BufferUsage::from_bits_retain(params.usage);
            status!(NOT_FOUND, "no default pool has {size} bytes of the memory types {types} for {usage}")
        })
    }

    /// The backend with which applications make pools; borrowed from the device.
    pub fn backend(&self) -> QueueBackend {
        QueueBackend {
            slab_provider: self.provider.as_raw(),
            notification: self.notification.as_ptr(),
            epoch_query: create::epoch_query(&self.clock),
        }
    }

    /// A pool that divides ranges of memory.
    fn add_range_pool(&mut self, provider: &SlabRef, options: &Options, host_allocator: Allocator) -> Result<()> {
        let memory = provider.pool().info();
        let alignment = options.default_pool_alignment as usize;
        if alignment > memory.alignment {
            return Err(status!(
                INVALID_ARGUMENT,
                "option default_pool_alignment={alignment} is more than the {} bytes that HSA's memory is aligned to",
                memory.alignment
            ));
        }
        let range_length = options.default_pool_range_length.min(memory.alloc_max_size as u64) as usize;
        let ranges = RangeOptions {
            length: range_length & !(alignment - 1),
            alignment,
            frontier_capacity: options.default_pool_frontier_capacity,
        };
        let pool = RangePool::create(host_allocator, ranges, provider, &self.notification, &self.clock)?;
        self.register(pool.into_any(), RANGE_PRIORITY)
    }

    /// A pool with a slab for each reservation.
    fn add_oversize_pool(&mut self, provider: &SlabRef, host_allocator: Allocator) -> Result<()> {
        let pool = create::oversize_pool("amdgpu_rs-oversize", provider, &self.notification, host_allocator)?;
        self.register(pool, OVERSIZE_PRIORITY)
    }

    fn register(&mut self, pool: PoolRef, priority: i32) -> Result<()> {
        self.set.register(pool.borrow(), priority)?;
        self.pools.push(pool);
        Ok(())
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        for pool in self.pools.drain(..) {
            if pool.borrow().is_in_use() {
                std::mem::forget(pool);
                std::mem::forget(self.clock.clone());
            }
        }
    }
}
