// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A pool of one block that compares frontiers strictly. It notifies waiters when the block is released, and never
//! because an epoch has passed.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use amdgpu_rs::ffi::{Allocator, Frontier, HalObject, HalRef, Header, Result, iree, raw, status, thunk};

use super::Rig;

/// Treatment of a request while the block may still be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Gives the block to requesters that accept a wait frontier.
    Waitable,
    /// Keeps the block until its last use has completed.
    Kept,
    /// Gives the block, then fails to make a buffer of it.
    Broken,
}

/// The pool. Its memory is a slab of the device.
#[repr(C)]
pub struct OneBlock {
    header: Header,
    slab: raw::iree_hal_slab_t,
    // Owned by the device, which outlives the pool.
    provider: *mut raw::iree_hal_slab_provider_t,
    notification: HalRef<raw::iree_async_notification_t>,
    query: raw::iree_hal_pool_epoch_query_t,
    policy: Policy,
    block: Mutex<Block>,
    exhausted: AtomicUsize,
    /// Called at the first request.
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// The block and its history.
#[derive(Default)]
struct Block {
    is_taken: bool,
    /// Frontier of the last release. The next owner must wait for it.
    death: Box<Option<Frontier>>,
    /// The death frontier of each release.
    deaths: Vec<Vec<(u64, u64)>>,
}

// SAFETY: the slab and the query are C's values, usable from any thread; the rest is guarded.
unsafe impl Send for OneBlock {}
// SAFETY: shared access changes guarded fields only.
unsafe impl Sync for OneBlock {}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for OneBlock {
    type Raw = raw::iree_hal_pool_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        Allocator::system()
    }
}

static VTABLE: raw::iree_hal_pool_vtable_t = raw::iree_hal_pool_vtable_t {
    destroy: thunk::destroy::<OneBlock, _>(),
    acquire_reservation: thunk::method(OneBlock::acquire),
    release_reservation: thunk::method(OneBlock::release),
    materialize_reservation: thunk::method(OneBlock::materialize),
    query_capabilities: thunk::method(OneBlock::capabilities),
    query_stats: thunk::method(|_: &OneBlock, stats: *mut raw::iree_hal_pool_stats_t| {
        // SAFETY: the caller's place for the result, for which all-zero is valid.
        unsafe { stats.write(std::mem::zeroed()) }
    }),
    trim: thunk::method(|_: &OneBlock| Ok(())),
    notification: thunk::method(|this: &OneBlock| this.notification.as_ptr()),
};

impl OneBlock {
    /// A pool with one block of `size` bytes of the first GPU.
    pub fn new(rig: &Rig, policy: Policy, size: usize) -> HalRef<Self> {
        // SAFETY: a live device; results go to locals; the provider lives as long as the slab.
        unsafe {
            let mut backend: raw::iree_hal_queue_pool_backend_t = std::mem::zeroed();
            iree!(raw::iree_hal_device_query_queue_pool_backend(rig.device.as_ptr(), 1, &raw mut backend)).unwrap();
            let mut slab = std::mem::zeroed();
            iree!(raw::iree_hal_slab_provider_acquire_slab(backend.slab_provider, size, &raw mut slab)).unwrap();
            let pool = Self {
                header: Header::new::<Self>(),
                slab,
                provider: backend.slab_provider,
                notification: HalRef::retain(backend.notification).unwrap(),
                query: backend.epoch_query,
                policy,
                block: Mutex::default(),
                exhausted: AtomicUsize::new(0),
                before: Mutex::default(),
            };
            HalRef::new(pool).unwrap()
        }
    }

    /// Calls `before` at the first request, on the requesting thread.
    pub fn call_first(&self, before: impl FnOnce() + Send + 'static) {
        *self.before.lock().unwrap() = Some(Box::new(before));
    }

    /// Number of requests that found the block taken.
    pub fn exhausted(&self) -> usize {
        self.exhausted.load(Ordering::Acquire)
    }

    /// The death frontiers of the block, one for each release.
    pub fn deaths(&self) -> Vec<Vec<(u64, u64)>> {
        self.block.lock().unwrap().deaths.clone()
    }

    /// True if the block is allocated.
    pub fn is_taken(&self) -> bool {
        self.block.lock().unwrap().is_taken
    }

    /// True if each entry of `death` is dominated by `requester` or has completed.
    fn is_over(&self, death: &Frontier, requester: *const raw::iree_async_frontier_t) -> bool {
        // SAFETY: the caller's frontier or null; the device answers its own query.
        unsafe {
            let requester = Frontier::entries_of(requester);
            death.entries().all(|(axis, epoch)| {
                requester.iter().any(|entry| entry.axis == axis && entry.epoch >= epoch)
                    || self.query.fn_.is_some_and(|query| query(self.query.user_data, axis, epoch))
            })
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn acquire(
        &self,
        size: usize,
        _alignment: usize,
        requester: *const raw::iree_async_frontier_t,
        flags: u32,
        reservation: *mut raw::iree_hal_pool_reservation_t,
        info: *mut raw::iree_hal_pool_acquire_info_t,
        result: *mut u32,
    ) -> Result<()> {
        assert!((1..=self.slab.length).contains(&size));
        if let Some(before) = self.before.lock().unwrap().take() {
            before();
        }
        let mut block = self.block.lock().unwrap();
        let is_over = block.death.as_ref().as_ref().is_none_or(|death| self.is_over(death, requester));
        let may_wait = flags & raw::IREE_HAL_POOL_RESERVE_FLAG_ALLOW_WAIT_FRONTIER != 0;
        let answer = match () {
            () if block.is_taken => raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED,
            () if is_over => raw::IREE_HAL_POOL_ACQUIRE_OK,
            () if may_wait && self.policy == Policy::Waitable => raw::IREE_HAL_POOL_ACQUIRE_OK_NEEDS_WAIT,
            () => raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED,
        };
        let waits_for = match block.death.as_ref() {
            Some(death) if answer == raw::IREE_HAL_POOL_ACQUIRE_OK_NEEDS_WAIT => death.as_ptr(),
            _ => std::ptr::null(),
        };
        block.is_taken = block.is_taken || answer != raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED;
        // SAFETY: the caller's places for the results, for which all-zero is valid.
        unsafe {
            info.write(std::mem::zeroed());
            (*info).wait_frontier = waits_for;
            reservation.write(std::mem::zeroed());
            (*reservation).length = self.slab.length;
            result.write(answer);
        }
        if answer == raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED {
            self.exhausted.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    fn release(&self, _reservation: *const raw::iree_hal_pool_reservation_t, death: *const raw::iree_async_frontier_t) {
        // SAFETY: the caller's frontier, null or this pool's own.
        let entries: Vec<_> =
            unsafe { Frontier::entries_of(death) }.iter().map(|entry| (entry.axis, entry.epoch)).collect();
        let mut block = self.block.lock().unwrap();
        assert!(block.is_taken, "the block came back twice");
        block.is_taken = false;
        *block.death = Some(Frontier::new(entries.iter().copied()));
        block.deaths.push(entries);
        drop(block);
        // SAFETY: a live notification.
        unsafe { raw::iree_async_notification_signal_if_observed(self.notification.as_ptr(), i32::MAX) };
    }

    fn materialize(
        &self,
        params: raw::iree_hal_buffer_params_t,
        _reservation: *const raw::iree_hal_pool_reservation_t,
        _flags: u32,
        buffer: *mut *mut raw::iree_hal_buffer_t,
    ) -> Result<()> {
        if self.policy == Policy::Broken {
            return Err(status!(INTERNAL, "a pool that makes no buffers"));
        }
        let slab = &raw const self.slab;
        let none = raw::iree_hal_buffer_release_callback_t { fn_: None, user_data: std::ptr::null_mut() };
        // SAFETY: a live provider and its slab; the result goes to the caller's place.
        unsafe {
            let length = self.slab.length;
            iree!(raw::iree_hal_slab_provider_wrap_buffer(self.provider, slab, 0, length, params, none, buffer))
        }
    }

    fn capabilities(&self, capabilities: *mut raw::iree_hal_pool_capabilities_t) {
        // SAFETY: the caller's place for the result, for which all-zero is valid; a live provider.
        unsafe {
            capabilities.write(std::mem::zeroed());
            let (memory_type, usage) = (&raw mut (*capabilities).memory_type, &raw mut (*capabilities).supported_usage);
            raw::iree_hal_slab_provider_query_properties(self.provider, memory_type, usage);
            (*capabilities).max_allocation_size = self.slab.length;
        }
    }
}

impl Drop for OneBlock {
    fn drop(&mut self) {
        assert!(!self.is_taken(), "the pool went before its block came back");
        // SAFETY: acquired in `new`; the pool is not used any more.
        unsafe { raw::iree_hal_slab_provider_release_slab(self.provider, &raw const self.slab) };
    }
}
