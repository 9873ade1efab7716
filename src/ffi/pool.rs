// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's memory pools (`iree/hal/pool.h`), sets of them (`iree/hal/pool_set.h`), and how they are made.

use super::object::{Borrowed, HalRef};
use super::status::Result;
use super::{Allocator, BufferParams, iree, raw};

/// A pool of any kind.
pub type Pool<'a> = Borrowed<'a, raw::iree_hal_pool_t>;

/// A reference to one.
pub type PoolRef = HalRef<raw::iree_hal_pool_t>;

/// What wakes those who wait for memory.
pub type NotificationRef = HalRef<raw::iree_async_notification_t>;

/// What pools ask whether an epoch has passed.
pub type EpochQuery = raw::iree_hal_pool_epoch_query_t;

/// What applications make pools of a queue's with.
pub type QueueBackend = raw::iree_hal_queue_pool_backend_t;

/// How a range pool divides memory.
pub type RangeOptions = raw::iree_hal_memory_tlsf_options_t;

/// A pool's statistics.
pub type Statistics = raw::iree_hal_pool_stats_t;

/// Memory of a pool that belongs to somebody.
pub type RawReservation = raw::iree_hal_pool_reservation_t;

/// Knows which epochs have passed.
pub trait Epochs: Send + Sync {
    /// Whether `epoch` of `axis` has passed, as far as is known.
    fn has_passed(&self, axis: u64, epoch: u64) -> bool;
}

impl Pool<'_> {
    /// Wakes who waits for memory of the pool. Pools do so when memory comes back, which may be long before its last
    /// use is over; they do not hear when it is.
    pub fn wake_waiters(self) {
        // SAFETY: the pool lives and keeps its notification.
        unsafe {
            let notification = raw::iree_hal_pool_notification(self.as_ptr());
            if !notification.is_null() {
                raw::iree_async_notification_signal_if_observed(notification, i32::MAX);
            }
        }
    }

    /// Gives unused memory back.
    ///
    /// # Errors
    /// The pool's.
    pub fn trim(self) -> Result<()> {
        // SAFETY: the pool lives.
        unsafe { iree!(raw::iree_hal_pool_trim(self.as_ptr())) }
    }

    /// What the pool says of itself.
    pub fn statistics(self) -> Statistics {
        // SAFETY: the pool lives; all-zero statistics are valid.
        unsafe {
            let mut stats: raw::iree_hal_pool_stats_t = std::mem::zeroed();
            raw::iree_hal_pool_query_stats(self.as_ptr(), &raw mut stats);
            stats
        }
    }

    /// Whether buffers may still refer to the pool: by a reservation, or to a slab of a pass-through pool, which has no
    /// free ones.
    pub fn is_in_use(self) -> bool {
        let stats = self.statistics();
        stats.reservation_count != 0 || (stats.slab_count != 0 && stats.bytes_free == 0)
    }
}

/// Makers of pools and of what they need.
pub mod create {
    use std::ffi::c_void;
    use std::sync::Arc;

    use super::*;
    use crate::ffi::object::HalObject;
    use crate::ffi::{ProactorPtr, status, strings, thunk};

    /// A notification of `proactor`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    ///
    /// # Safety
    /// The proactor lives and outlives the notification.
    pub unsafe fn notification(proactor: ProactorPtr) -> Result<NotificationRef> {
        let mut notification = std::ptr::null_mut();
        // SAFETY: the caller's contract; the result goes to a local, with its reference.
        unsafe {
            let flags = raw::IREE_ASYNC_NOTIFICATION_FLAG_NONE;
            iree!(raw::iree_async_notification_create(proactor, flags, &raw mut notification))?;
            HalRef::from_owned(notification).ok_or_else(|| status!(INTERNAL, "IREE made no notification"))
        }
    }

    /// A query that asks `epochs`, which must outlive it.
    pub fn epoch_query<E: Epochs>(epochs: &Arc<E>) -> EpochQuery {
        unsafe extern "C" fn has_passed<E: Epochs>(user_data: *mut c_void, axis: u64, epoch: u64) -> bool {
            // SAFETY: who is asked outlives the query.
            let epochs = unsafe { &*user_data.cast::<E>() };
            thunk::catch(|| epochs.has_passed(axis, epoch)).unwrap_or(false)
        }
        EpochQuery { fn_: Some(has_passed::<E>), user_data: Arc::as_ptr(epochs).cast_mut().cast() }
    }

    /// A pool that divides ranges of memory of `provider`.
    ///
    /// # Errors
    /// IREE's.
    ///
    /// # Safety
    /// Whom the query asks outlives the pool.
    pub unsafe fn range_pool<P: HalObject<Raw = raw::iree_hal_slab_provider_t>>(
        name: &'static str,
        ranges: RangeOptions,
        provider: &HalRef<P>,
        (notification, epochs): (&NotificationRef, EpochQuery),
        host_allocator: Allocator,
    ) -> Result<PoolRef> {
        let options = raw::iree_hal_tlsf_pool_options_t {
            tlsf_options: ranges,
            budget_limit: 0,
            trace_name: strings::view(name),
        };
        let mut pool = std::ptr::null_mut();
        // SAFETY: the pool retains provider and notification; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_tlsf_pool_create(
                options,
                provider.as_raw(),
                notification.as_ptr(),
                epochs,
                host_allocator.to_raw(),
                &raw mut pool
            ))?;
            owned(pool)
        }
    }

    /// A pool with a slab of `provider` for each reservation.
    ///
    /// # Errors
    /// IREE's.
    pub fn oversize_pool<P: HalObject<Raw = raw::iree_hal_slab_provider_t>>(
        name: &'static str,
        provider: &HalRef<P>,
        notification: &NotificationRef,
        host_allocator: Allocator,
    ) -> Result<PoolRef> {
        let options = raw::iree_hal_passthrough_pool_options_t { trace_name: strings::view(name) };
        let mut pool = std::ptr::null_mut();
        // SAFETY: the pool retains provider and notification; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_passthrough_pool_create(
                options,
                provider.as_raw(),
                notification.as_ptr(),
                host_allocator.to_raw(),
                &raw mut pool
            ))?;
            owned(pool)
        }
    }

    /// # Safety
    /// The caller owns a reference to the pool, which this takes.
    unsafe fn owned(pool: *mut raw::iree_hal_pool_t) -> Result<PoolRef> {
        // SAFETY: the caller's contract.
        unsafe { HalRef::from_owned(pool) }.ok_or_else(|| status!(INTERNAL, "IREE made no pool"))
    }
}

/// IREE's list of pools by what they hold, with its own references to them.
pub struct PoolSet(Box<raw::iree_hal_pool_set_t>);

// SAFETY: read from any thread once it is filled; pools are thread-safe.
unsafe impl Send for PoolSet {}
// SAFETY: through `&self` the list is only read, and pools are thread-safe.
unsafe impl Sync for PoolSet {}

impl PoolSet {
    /// An empty set.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn new(host_allocator: Allocator) -> Result<Self> {
        // SAFETY: all-zero is valid for the plain struct, which the call fills; a failure leaves nothing in it.
        unsafe {
            let mut set: Box<raw::iree_hal_pool_set_t> = Box::new(std::mem::zeroed());
            iree!(raw::iree_hal_pool_set_initialize(8, host_allocator.to_raw(), &raw mut *set))?;
            Ok(Self(set))
        }
    }

    /// Adds `pool`; those of higher priority are asked first.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn register(&mut self, pool: Pool<'_>, priority: i32) -> Result<()> {
        // SAFETY: the set lives, and retains the pool.
        unsafe { iree!(raw::iree_hal_pool_set_register(&raw mut *self.0, priority, pool.as_ptr())) }
    }

    /// The first pool that has `size` bytes of what `params` ask for.
    pub fn select(&self, params: &BufferParams, size: usize) -> Option<Pool<'_>> {
        // SAFETY: the set lives; the pool does as long as the set.
        unsafe { Borrowed::from_raw(raw::iree_hal_pool_set_select(&raw const *self.0, *params, size)) }
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
