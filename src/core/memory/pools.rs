// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The default pools of queue-ordered allocation: for each GPU, IREE's TLSF pools over coarse device memory and fine
//! host memory, and pass-through pools for what is larger than a range or of the rarer fine device memory.
//!
//! Buffers borrow their pool and pools borrow what answers their epoch queries, so by IREE's contract
//! (`iree/hal/pool.h`) the device outlives its buffers. Where an application breaks it, pools with live reservations
//! are leaked rather than pulled from under them.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::core::gpu::options::Options;
use crate::core::memory::heaps::{HeapKind, Heaps, canonicalize};
use crate::core::memory::slab_provider::SlabProvider;
use crate::ffi::{
    Allocator, Borrowed, BufferUsage, FrontierTracker, HalRef, MemoryType, Result, iree, raw, status, strings, thunk,
};

/// A pool of any kind.
pub type Pool<'a> = Borrowed<'a, raw::iree_hal_pool_t>;

/// A reference to one.
pub type PoolRef = HalRef<raw::iree_hal_pool_t>;

/// Wakes who waits for memory of `pool`. Pools do so when memory comes back, which may be long before its last use is over; they do not hear
/// when it is.
pub fn wake_waiters(pool: Pool<'_>) {
    // SAFETY: the pool lives and keeps its notification.
    unsafe {
        let notification = raw::iree_hal_pool_notification(pool.as_ptr());
        if !notification.is_null() {
            raw::iree_async_notification_signal_if_observed(notification, i32::MAX);
        }
    }
}

type SlabRef = HalRef<SlabProvider>;

/// Priorities in the pool set: a range first, and what does not fit one passes through.
const RANGE_PRIORITY: i32 = 1;
const OVERSIZE_PRIORITY: i32 = 0;

/// Answers whether an epoch has passed, for pools.
#[derive(Debug, Default)]
struct EpochClock(RwLock<Option<FrontierTracker>>);

impl EpochClock {
    unsafe extern "C" fn has_passed(user_data: *mut c_void, axis: u64, epoch: u64) -> bool {
        // SAFETY: the clock outlives the pools that ask it.
        let clock = unsafe { &*user_data.cast::<Self>() };
        // Not knowing is the safe answer.
        thunk::catch(|| clock.0.read().as_ref().is_some_and(|tracker| tracker.has_passed(axis, epoch))).unwrap_or(false)
    }
}

/// The pools of a logical device.
#[derive(Debug)]
pub struct DeviceMemory {
    gpus: Vec<GpuMemory>,
    clock: Arc<EpochClock>,
}

impl DeviceMemory {
    /// Makes the pools of every GPU of `heaps`. Their notifications belong to `proactor`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; INVALID_ARGUMENT when the options ask for more alignment than HSA's memory has.
    ///
    /// # Safety
    /// The proactor outlives the pools.
    pub unsafe fn new(
        heaps: &Heaps,
        options: &Options,
        proactor: *mut raw::iree_async_proactor_t,
        host_allocator: Allocator,
    ) -> Result<Self> {
        let clock = Arc::default();
        let mut gpus = Vec::with_capacity(heaps.gpu_count());
        for gpu in 0..heaps.gpu_count() {
            // SAFETY: the caller's contract.
            gpus.push(unsafe { GpuMemory::new(heaps, gpu, options, proactor, host_allocator, &clock) }?);
        }
        Ok(Self { gpus, clock })
    }

    /// Says which tracker knows the epochs of the device's queues.
    pub fn set_tracker(&self, tracker: Option<FrontierTracker>) {
        let previous = std::mem::replace(&mut *self.clock.0.write(), tracker);
        drop(previous);
    }

    /// The pools of GPU `index`.
    pub fn gpu(&self, index: usize) -> &GpuMemory {
        &self.gpus[index]
    }

    /// Gives unused memory back to HSA.
    ///
    /// # Errors
    /// The first that a pool reports; the others are trimmed all the same.
    pub fn trim(&self) -> Result<()> {
        let pools = self.gpus.iter().flat_map(|gpu| &gpu.pools);
        // SAFETY: the pools live.
        let results = pools.map(|pool| unsafe { iree!(raw::iree_hal_pool_trim(pool.as_ptr())) });
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
    notification: HalRef<raw::iree_async_notification_t>,
    clock: Arc<EpochClock>,
}

impl GpuMemory {
    /// # Safety
    /// The proactor outlives the pools.
    unsafe fn new(
        heaps: &Heaps,
        gpu: usize,
        options: &Options,
        proactor: *mut raw::iree_async_proactor_t,
        host_allocator: Allocator,
        clock: &Arc<EpochClock>,
    ) -> Result<Self> {
        let mut providers = Vec::new();
        for kind in HeapKind::ALL {
            if let Some(pool) = heaps.pool(gpu, kind) {
                // Every GPU of the device that has a way to the memory may use its buffers.
                let agents = heaps.agents(kind, gpu, heaps.all_queues());
                providers.push((
                    kind,
                    SlabProvider::create(host_allocator, kind, pool.clone(), agents, heaps.flush(gpu, kind))?,
                ));
            }
        }
        let (kinds, pools) = (providers.iter().map(|(kind, _)| *kind).collect(), Vec::new());
        let provider = providers[0].1.clone();
        let set = PoolSet::new(host_allocator)?;
        // SAFETY: the caller's contract.
        let notification = unsafe { create_notification(proactor) }?;
        let mut memory = Self { set, kinds, pools, provider, notification, clock: clock.clone() };
        // Blocks whose death frontier has no room for every queue that used a part of them are never given again.
        let queues = heaps.all_queues().count_ones() as u8;
        let options = Options {
            default_pool_frontier_capacity: options.default_pool_frontier_capacity.max(queues),
            ..options.clone()
        };
        for (kind, provider) in providers {
            if kind != HeapKind::DeviceVisible {
                memory.add_range_pool(&provider, &options, host_allocator)?;
            }
            memory.add_oversize_pool(&provider, host_allocator)?;
        }
        Ok(memory)
    }

    /// The default pool for `size` bytes of what `params` ask for, which become what the buffer will have.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for what the GPU's memory does not have.
    pub fn select(&self, params: &mut raw::iree_hal_buffer_params_t, size: usize) -> Result<Pool<'_>> {
        canonicalize(params, self.kinds.iter().copied())?;
        // SAFETY: the set lives; the pool does as long as the set.
        unsafe { Borrowed::from_raw(raw::iree_hal_pool_set_select(&raw const *self.set.0, *params, size)) }.ok_or_else(
            || {
                let types = MemoryType::from_bits_retain(params.type_);
                let usage = BufferUsage::from_bits_retain(params.usage);
                status!(NOT_FOUND, "no default pool has {size} bytes of the memory types {types} for {usage}")
            },
        )
    }

    /// What applications make pools of their own with; borrowed from the device.
    pub fn backend(&self) -> raw::iree_hal_queue_pool_backend_t {
        raw::iree_hal_queue_pool_backend_t {
            slab_provider: self.provider.as_raw(),
            notification: self.notification.as_ptr(),
            epoch_query: self.epoch_query(),
        }
    }

    fn epoch_query(&self) -> raw::iree_hal_pool_epoch_query_t {
        let user_data = Arc::as_ptr(&self.clock).cast_mut().cast();
        raw::iree_hal_pool_epoch_query_t { fn_: Some(EpochClock::has_passed), user_data }
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
        let tlsf_options = raw::iree_hal_memory_tlsf_options_t {
            range_length: range_length & !(alignment - 1),
            alignment,
            initial_block_capacity: 0,
            frontier_capacity: options.default_pool_frontier_capacity,
        };
        let options = raw::iree_hal_tlsf_pool_options_t {
            tlsf_options,
            budget_limit: 0,
            trace_name: strings::view("amdgpu_rs-ranges"),
        };
        let mut pool = std::ptr::null_mut();
        // SAFETY: the pool retains provider and notification; the clock outlives it (see `drop`); the result goes to a
        // local.
        unsafe {
            iree!(raw::iree_hal_tlsf_pool_create(
                options,
                provider.as_raw(),
                self.notification.as_ptr(),
                self.epoch_query(),
                host_allocator.to_raw(),
                &raw mut pool
            ))?;
            self.register(pool, RANGE_PRIORITY)
        }
    }

    /// A pool with a slab for each reservation.
    fn add_oversize_pool(&mut self, provider: &SlabRef, host_allocator: Allocator) -> Result<()> {
        let options = raw::iree_hal_passthrough_pool_options_t { trace_name: strings::view("amdgpu_rs-oversize") };
        let mut pool = std::ptr::null_mut();
        // SAFETY: the pool retains provider and notification; the result goes to a local.
        unsafe {
            iree!(raw::iree_hal_passthrough_pool_create(
                options,
                provider.as_raw(),
                self.notification.as_ptr(),
                host_allocator.to_raw(),
                &raw mut pool
            ))?;
            self.register(pool, OVERSIZE_PRIORITY)
        }
    }

    /// # Safety
    /// The caller owns a reference to the pool, which this takes.
    unsafe fn register(&mut self, pool: *mut raw::iree_hal_pool_t, priority: i32) -> Result<()> {
        // SAFETY: the caller's contract; the set retains the pool.
        unsafe {
            let pool = HalRef::from_owned(pool).ok_or_else(|| status!(INTERNAL, "IREE made no pool"))?;
            iree!(raw::iree_hal_pool_set_register(&raw mut *self.set.0, priority, pool.as_ptr()))?;
            self.pools.push(pool);
        }
        Ok(())
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        for pool in self.pools.drain(..) {
            if is_in_use(&pool) {
                std::mem::forget(pool);
                std::mem::forget(self.clock.clone());
            }
        }
    }
}

/// Whether buffers may still refer to the pool: by a reservation, or to a slab of a pass-through pool, which has no free ones.
fn is_in_use(pool: &PoolRef) -> bool {
    // SAFETY: the pool lives; all-zero statistics are valid.
    let stats = unsafe {
        let mut stats: raw::iree_hal_pool_stats_t = std::mem::zeroed();
        raw::iree_hal_pool_query_stats(pool.as_ptr(), &raw mut stats);
        stats
    };
    stats.reservation_count != 0 || (stats.slab_count != 0 && stats.bytes_free == 0)
}

/// # Safety
/// The proactor lives and outlives the notification.
unsafe fn create_notification(
    proactor: *mut raw::iree_async_proactor_t,
) -> Result<HalRef<raw::iree_async_notification_t>> {
    let mut notification = std::ptr::null_mut();
    // SAFETY: the caller's contract; the result goes to a local, with its reference.
    unsafe {
        iree!(raw::iree_async_notification_create(
            proactor,
            raw::IREE_ASYNC_NOTIFICATION_FLAG_NONE,
            &raw mut notification
        ))?;
        HalRef::from_owned(notification).ok_or_else(|| status!(INTERNAL, "IREE made no notification"))
    }
}

/// IREE's list of pools by what they hold, with its own references to them.
struct PoolSet(Box<raw::iree_hal_pool_set_t>);

// SAFETY: read from any thread once it is filled; pools are thread-safe.
unsafe impl Send for PoolSet {}
// SAFETY: as above.
unsafe impl Sync for PoolSet {}

impl PoolSet {
    fn new(host_allocator: Allocator) -> Result<Self> {
        // SAFETY: all-zero is valid for the plain struct, which the call fills; a failure leaves nothing in it.
        unsafe {
            let mut set: Box<raw::iree_hal_pool_set_t> = Box::new(std::mem::zeroed());
            iree!(raw::iree_hal_pool_set_initialize(8, host_allocator.to_raw(), &raw mut *set))?;
            Ok(Self(set))
        }
    }
}

impl std::fmt::Debug for PoolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolSet").field("pools", &self.0.entry_count).finish()
    }
}

impl Drop for PoolSet {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after.
        unsafe { raw::iree_hal_pool_set_deinitialize(&raw mut *self.0) };
    }
}
