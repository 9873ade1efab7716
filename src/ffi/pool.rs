// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's memory pools (`iree/hal/pool.h`), sets of them (`iree/hal/pool_set.h`), and functions that create them.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use super::object::{Borrowed, HalRef};
use super::semaphore::Listener;
use super::status::{Result, Status};
use super::{Allocator, BufferHandle, BufferParams, Frontier, iree, raw, status, thunk, tlsf};

/// A pool of any kind.
pub type Pool<'a> = Borrowed<'a, raw::iree_hal_pool_t>;

/// An owned reference to a pool.
pub type PoolRef = HalRef<raw::iree_hal_pool_t>;

/// The notification that wakes waiters for memory.
pub type NotificationRef = HalRef<raw::iree_async_notification_t>;

/// The callback with which pools query passed epochs.
pub type EpochQuery = raw::iree_hal_pool_epoch_query_t;

/// The backend with which applications make pools for a queue.
pub type QueueBackend = raw::iree_hal_queue_pool_backend_t;

/// The memory type of a pool, and its limits.
pub type Capabilities = raw::iree_hal_pool_capabilities_t;

/// A pool's statistics.
pub type Statistics = raw::iree_hal_pool_stats_t;

/// A reservation of pool memory as a C value.
pub type RawReservation = raw::iree_hal_pool_reservation_t;

/// Knows which epochs have passed.
pub trait Epochs: Send + Sync {
    /// True if `epoch` of `axis` is known to have passed.
    fn has_passed(&self, axis: u64, epoch: u64) -> bool;
}

impl Pool<'_> {
    /// Wakes the waiters for memory of the pool. Pools do so when memory comes back, which may be long before its last
    /// use is over; they are not told when it is.
    pub fn wake_waiters(self) {
        // SAFETY: the pool lives and keeps its notification.
        unsafe {
            let notification = raw::iree_hal_pool_notification(self.as_ptr());
            if !notification.is_null() {
                raw::iree_async_notification_signal_if_observed(notification, i32::MAX);
            }
        }
    }

    /// Returns true if memory that came back behind a frontier goes only to requesters ordered after it. Memory may go
    /// back to other pools only when it is unused.
    #[inline]
    pub fn keeps_frontiers(self) -> bool {
        !tlsf::forgets(self)
    }

    /// Releases unused memory.
    ///
    /// # Errors
    /// The error of the pool.
    pub fn trim(self) -> Result<()> {
        // SAFETY: the pool lives.
        unsafe { iree!(raw::iree_hal_pool_trim(self.as_ptr())) }
    }

    /// The memory type and limits of the pool.
    #[inline]
    pub fn capabilities(self) -> Capabilities {
        // SAFETY: the pool lives; all-zero capabilities are valid, and the call fills them.
        unsafe {
            let mut capabilities: Capabilities = std::mem::zeroed();
            raw::iree_hal_pool_query_capabilities(self.as_ptr(), &raw mut capabilities);
            capabilities
        }
    }

    /// Requests `size` bytes, at a multiple of `alignment` (1 or more), for a requester ordered after `frontier`. The
    /// pool may allocate, and may return memory that is still in use ([`Reservation::needs_wait`]).
    ///
    /// # Errors
    /// The error of the pool: an unsupported alignment, or no memory; INTERNAL for an unknown result.
    #[inline]
    pub fn reserve(self, size: usize, alignment: usize, frontier: &Frontier) -> Result<Answer> {
        // SAFETY: all-zero is valid for both plain structs, which the call fills; the pool and the frontier live.
        let (reservation, info, result) = unsafe {
            let mut reservation: RawReservation = std::mem::zeroed();
            let mut info: raw::iree_hal_pool_acquire_info_t = std::mem::zeroed();
            let mut result = raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED;
            iree!(raw::iree_hal_pool_acquire_reservation(
                self.as_ptr(),
                size,
                alignment,
                frontier.as_ptr(),
                raw::IREE_HAL_POOL_RESERVE_FLAG_ALLOW_WAIT_FRONTIER,
                &raw mut reservation,
                &raw mut info,
                &raw mut result
            ))?;
            (reservation, info, result)
        };
        let wait_frontier = match result {
            raw::IREE_HAL_POOL_ACQUIRE_OK | raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH => std::ptr::null(),
            raw::IREE_HAL_POOL_ACQUIRE_OK_NEEDS_WAIT => info.wait_frontier,
            raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED | raw::IREE_HAL_POOL_ACQUIRE_OVER_BUDGET => {
                return Ok(Answer { result, reservation: None });
            }
            other => return Err(status!(INTERNAL, "the pool answered {other}, which is no result of a reservation")),
        };
        let reservation = Reservation { raw: reservation, pool: self.as_ptr(), wait_frontier };
        Ok(Answer { result, reservation: Some(reservation) })
    }

    /// Begins to observe the pool: [listeners](Observation::listen) are told of releases from now on, and of
    /// [`Pool::wake_waiters`].
    ///
    /// # Errors
    /// INTERNAL for a pool without notification.
    pub fn observe(self) -> Result<Observation> {
        // SAFETY: the pool lives and keeps its notification.
        unsafe {
            let notification = HalRef::retain(raw::iree_hal_pool_notification(self.as_ptr()))
                .ok_or_else(|| status!(INTERNAL, "the pool has no notification"))?;
            let token = raw::iree_async_notification_begin_observe(notification.as_ptr());
            Ok(Observation { notification, token })
        }
    }

    /// The pool's statistics.
    pub fn statistics(self) -> Statistics {
        // SAFETY: the pool lives; all-zero statistics are valid.
        unsafe {
            let mut stats: raw::iree_hal_pool_stats_t = std::mem::zeroed();
            raw::iree_hal_pool_query_stats(self.as_ptr(), &raw mut stats);
            stats
        }
    }

    /// True if buffers may still refer to the pool: by a reservation, or to a slab of a pass-through pool, which keeps
    /// no free slabs.
    pub fn is_in_use(self) -> bool {
        let stats = self.statistics();
        stats.reservation_count != 0 || (stats.slab_count != 0 && stats.bytes_free == 0)
    }
}

/// A pool's answer to a request for memory.
pub struct Answer {
    /// `iree_hal_pool_acquire_result_t`.
    pub result: u32,
    /// None if the pool has no memory.
    pub reservation: Option<Reservation>,
}

/// Memory reserved from a pool. It is not given back on drop: [`Reservation::give_back`] does that, or the new owner
/// after [`Reservation::into_raw`].
pub struct Reservation {
    raw: RawReservation,
    /// The pool. It may be gone; only its address is compared.
    pool: *const raw::iree_hal_pool_t,
    /// The end of the memory's last use; null if that is before the requester's frontier. Owned by the pool and valid
    /// until the memory goes back.
    wait_frontier: *const raw::iree_async_frontier_t,
}

// SAFETY: the frontier is only read, and pools may be used from any thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// The pool's reservation.
    #[inline]
    pub fn raw(&self) -> &RawReservation {
        &self.raw
    }

    /// The pool's reservation, for a new owner that gives the memory back.
    #[inline]
    pub fn into_raw(self) -> RawReservation {
        self.raw
    }

    /// True if the memory may still be in use by work that the requester is not ordered after.
    #[inline]
    pub fn needs_wait(&self) -> bool {
        !self.wait_frontier.is_null()
    }

    /// The frontier that must pass before the memory may be used, without the epochs that `epochs` knows to have
    /// passed; none if nothing is left. `pool` is its own pool.
    #[inline]
    pub fn not_passed(&self, pool: Pool<'_>, epochs: &impl Epochs) -> Option<Frontier> {
        if !self.needs_wait() {
            return None;
        }
        self.check(pool);
        // SAFETY: of a pool that lives, and valid as the reservation is held.
        let entries = unsafe { Frontier::entries_of(self.wait_frontier) }.iter().map(|entry| (entry.axis, entry.epoch));
        let left = Frontier::new(entries.filter(|(axis, epoch)| !epochs.has_passed(*axis, *epoch)));
        (left.entries().count() != 0).then_some(left)
    }

    /// A buffer over the memory, which does not own the reservation. `pool` is its own pool.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    #[inline]
    pub fn materialize(&self, pool: Pool<'_>, params: BufferParams) -> Result<BufferHandle> {
        self.check(pool);
        let mut buffer = std::ptr::null_mut();
        // SAFETY: a reservation of the pool, which lives; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_pool_materialize_reservation(
                pool.as_ptr(),
                params,
                &raw const self.raw,
                raw::IREE_HAL_POOL_MATERIALIZE_FLAG_NONE,
                &raw mut buffer
            ))?;
            HalRef::from_owned(buffer).ok_or_else(|| status!(INTERNAL, "the pool made no buffer"))
        }
    }

    /// Gives the memory back, unused, to `pool`, its own pool, for requesters ordered after `death`. If the memory had
    /// to be waited for, that frontier is used instead, because the previous use may not be over. A pool that does not
    /// keep frontiers only has unused memory.
    pub fn give_back(self, pool: Pool<'_>, death: &Frontier) {
        self.check(pool);
        let death = match () {
            () if self.needs_wait() => self.wait_frontier,
            () if pool.keeps_frontiers() => death.as_ptr(),
            () => std::ptr::null(),
        };
        // SAFETY: a reservation of the pool, not given back before, as this takes it; IREE allows the pool's own
        // frontier here.
        unsafe { raw::iree_hal_pool_release_reservation(pool.as_ptr(), &raw const self.raw, death) };
    }

    #[inline]
    fn check(&self, pool: Pool<'_>) {
        assert!(self.pool == pool.as_ptr(), "a reservation belongs to the pool that gave it");
    }
}

/// An observation of a pool's notification, from [`Pool::observe`].
#[derive(Debug)]
pub struct Observation {
    notification: NotificationRef,
    token: u32,
}

impl Observation {
    /// The observed notification. Several pools may share one.
    pub fn notification(&self) -> &NotificationRef {
        &self.notification
    }

    /// Has `listener` called at the first release since the observation began, on a thread of the notification's
    /// proactor.
    ///
    /// # Errors
    /// The proactor's error; the listener is not called.
    pub fn listen(self, listener: Arc<dyn Listener>) -> Result<ReleaseListening> {
        // SAFETY: all-zero is a valid operation, which is filled below.
        let operation = UnsafeCell::new(unsafe { std::mem::zeroed() });
        let notification = self.notification.clone();
        let waiter = Arc::new(ReleaseWaiter { operation, notification, listener: Mutex::new(Some(listener)) });
        let shared = Arc::into_raw(waiter.clone());
        // SAFETY: the operation stays where it is until the callback was called, as the proactor has a count of it; the
        // notification knows its proactor, which outlives it. It is observed until this has been submitted.
        let begun = unsafe {
            let operation: *mut raw::iree_async_notification_wait_operation_t = waiter.operation.get();
            let base = &raw mut (*operation).base;
            let kind = raw::IREE_ASYNC_OPERATION_TYPE_NOTIFICATION_WAIT as u8;
            raw::iree_async_operation_initialize(base, kind, 0, Some(released), shared.cast_mut().cast());
            (*operation).notification = self.notification.as_ptr();
            (*operation).wait_flags = raw::IREE_ASYNC_NOTIFICATION_WAIT_FLAG_USE_WAIT_TOKEN as _;
            (*operation).wait_token = self.token;
            let proactor = (*self.notification.as_ptr()).proactor;
            iree!(raw::iree_async_proactor_submit_one(proactor, base))
        };
        if let Err(status) = begun {
            // SAFETY: refused, so the callback is never called: take its count back.
            drop(unsafe { Arc::from_raw(shared) });
            return Err(status);
        }
        Ok(ReleaseListening(waiter))
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        // SAFETY: begun once, ended once.
        unsafe { raw::iree_async_notification_end_observe(self.notification.as_ptr()) };
    }
}

/// A listener's registration with a proactor.
struct ReleaseWaiter {
    operation: UnsafeCell<raw::iree_async_notification_wait_operation_t>,
    notification: NotificationRef,
    /// None once it was called, or is cancelled.
    listener: Mutex<Option<Arc<dyn Listener>>>,
}

// SAFETY: the operation is the proactor's from its submission on.
unsafe impl Sync for ReleaseWaiter {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for ReleaseWaiter {}

/// Keeps a listener registered while it lives. A call may be in progress at its drop.
pub struct ReleaseListening(Arc<ReleaseWaiter>);

impl std::fmt::Debug for ReleaseListening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReleaseListening")
    }
}

impl Drop for ReleaseListening {
    fn drop(&mut self) {
        let listener = self.0.listener.lock().take();
        if listener.is_some() {
            // Ends the operation. Others that listen look at the pool once more.
            // SAFETY: the notification lives.
            unsafe { raw::iree_async_notification_signal(self.0.notification.as_ptr(), i32::MAX) };
        }
    }
}

unsafe extern "C" fn released(
    user_data: *mut c_void,
    _operation: *mut raw::iree_async_operation_t,
    status: raw::iree_status_t,
    _flags: raw::iree_async_completion_flags_t,
) {
    // SAFETY: the count that `listen` gave away, and a status that is ours. The proactor does not use the operation
    // after its last callback, which this is.
    let (waiter, result) = unsafe { (Arc::from_raw(user_data.cast::<ReleaseWaiter>()), Status::check(status)) };
    let listener = waiter.listener.lock().take();
    if let Some(listener) = listener {
        // A panic ends here; objects that the listener held fail by their drop.
        let _ = thunk::catch(|| listener.reached(result));
    }
}

/// Functions that create pools and the objects that pools need.
pub mod create {
    use super::*;
    use crate::object::HalObject;
    use crate::{ProactorPtr, strings};

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
            // SAFETY: the object behind `user_data` outlives the query.
            let epochs = unsafe { &*user_data.cast::<E>() };
            thunk::catch(|| epochs.has_passed(axis, epoch)).unwrap_or(false)
        }
        EpochQuery { fn_: Some(has_passed::<E>), user_data: Arc::as_ptr(epochs).cast_mut().cast() }
    }

    /// A pool with a slab of `provider` for each reservation.
    ///
    /// # Errors
    /// The error of IREE.
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

/// IREE's list of pools by memory type, with its own references to them.
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

    /// Adds `pool`. Pools of higher priority are tried first.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn register(&mut self, pool: Pool<'_>, priority: i32) -> Result<()> {
        // SAFETY: the set lives, and retains the pool.
        unsafe { iree!(raw::iree_hal_pool_set_register(&raw mut *self.0, priority, pool.as_ptr())) }
    }

    /// The first pool that serves `size` bytes of memory as in `params`.
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
