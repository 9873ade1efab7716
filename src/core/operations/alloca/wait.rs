// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What an allocation takes from its pool, and what it waits for when it cannot.

use std::time::Duration;

use smallvec::SmallVec;

use crate::core::profile::memory::PoolTrace;
use crate::core::queue::Queue;
use crate::core::queue::deferred::Resumption;
use crate::core::queue::operation::Prepared;
use crate::core::queue::timeline::SignalList;
use crate::core::queue::waits::EpochWait;
use crate::ffi::pool::{Pool, RawReservation};
use crate::ffi::{BufferParams, Frontier, FrontierTracker, HalRef, Result, iree, raw, status};

/// How often a wait looks whether the device is going away.
const SLICE: Duration = Duration::from_millis(20);

/// Where an allocation is in the order of its device's queues.
pub struct Position {
    frontier: Frontier,
    edge: Edge,
}

/// When these epochs have passed, so has all that an allocation comes after: the last epoch of its queue, which comes
/// after everything that the queue has waited for, and those that the allocation itself waits for.
pub type Edge = SmallVec<[(u64, u64); 2]>;

impl Position {
    /// That of a submission to `queue` behind `waits`.
    pub fn new(queue: &Queue, waits: &[EpochWait]) -> Self {
        if let Some((axis, epoch)) = queue.only_epoch(waits) {
            let entry = std::iter::once((axis, epoch)).filter(|(_, epoch)| *epoch != 0);
            return Self { frontier: Frontier::new(entry.clone()), edge: entry.collect() };
        }
        let frontier = queue.frontier(waits);
        let is_edge = |axis| axis == queue.axis() || waits.iter().any(|wait| queue.axis_of(wait.queue) == axis);
        let edge = frontier.entries().filter(|(axis, _)| is_edge(*axis)).collect();
        Self { frontier, edge }
    }
}

/// Memory taken from a pool, to which somebody gives it back.
pub struct Reservation {
    /// What the pool knows it by.
    pub reservation: RawReservation,
    // When its last use is over; null when that is before now on the queue. The pool's, valid until the memory goes
    // back.
    wait_frontier: *const raw::iree_async_frontier_t,
    /// What it may be given away after, unused.
    pub edge: Edge,
}

// SAFETY: the frontier is only read, and pools may be used from any thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Takes `size` bytes for an allocation at `position`, of which `trace` tells; the pool may allocate. None when it
    /// has nothing to give; else the edge of the position is the reservation's.
    ///
    /// # Errors
    /// What the pool said: an alignment it does not have, or memory that cannot be had.
    pub fn acquire(
        pool: Pool<'_>,
        size: usize,
        alignment: usize,
        position: &mut Position,
        trace: Option<&PoolTrace>,
    ) -> Result<Option<Self>> {
        // SAFETY: all-zero is valid for both plain structs, which the call fills; the pool lives.
        let (reservation, info, result) = unsafe {
            let mut reservation: RawReservation = std::mem::zeroed();
            let mut info: raw::iree_hal_pool_acquire_info_t = std::mem::zeroed();
            let mut result = raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED;
            iree!(raw::iree_hal_pool_acquire_reservation(
                pool.as_ptr(),
                size,
                alignment.max(1),
                position.frontier.as_ptr(),
                raw::IREE_HAL_POOL_RESERVE_FLAG_ALLOW_WAIT_FRONTIER,
                &raw mut reservation,
                &raw mut info,
                &raw mut result
            ))?;
            (reservation, info, result)
        };
        if let Some(trace) = trace {
            let is_exhausted =
                matches!(result, raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED | raw::IREE_HAL_POOL_ACQUIRE_OVER_BUDGET);
            trace.reserve(pool, alignment.max(1), result, (!is_exhausted).then_some(&reservation));
        }
        let wait_frontier = match result {
            raw::IREE_HAL_POOL_ACQUIRE_OK | raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH => std::ptr::null(),
            raw::IREE_HAL_POOL_ACQUIRE_OK_NEEDS_WAIT => info.wait_frontier,
            raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED | raw::IREE_HAL_POOL_ACQUIRE_OVER_BUDGET => return Ok(None),
            other => return Err(status!(INTERNAL, "the pool answered {other}, which is no result of a reservation")),
        };
        Ok(Some(Self { reservation, wait_frontier, edge: std::mem::take(&mut position.edge) }))
    }

    /// Whether something that this queue does not come after was using the memory.
    pub fn needs_wait(&self) -> bool {
        !self.wait_frontier.is_null()
    }

    /// What must still happen before the memory may be used, if anything.
    pub fn not_passed(&self, tracker: &FrontierTracker) -> Option<Frontier> {
        if !self.needs_wait() {
            return None;
        }
        // SAFETY: null or valid while the reservation is held.
        let entries = unsafe { Frontier::entries_of(self.wait_frontier) }.iter().map(|entry| (entry.axis, entry.epoch));
        let left = Frontier::new(entries.filter(|(axis, epoch)| !tracker.has_passed(*axis, *epoch)));
        (left.entries().count() != 0).then_some(left)
    }

    /// A buffer over the memory, which is of `pool`, which does not own the reservation.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn materialize(&self, pool: Pool<'_>, params: BufferParams) -> Result<HalRef<raw::iree_hal_buffer_t>> {
        let mut buffer = std::ptr::null_mut();
        // SAFETY: a live reservation of the pool; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_pool_materialize_reservation(
                pool.as_ptr(),
                params,
                &raw const self.reservation,
                raw::IREE_HAL_POOL_MATERIALIZE_FLAG_NONE,
                &raw mut buffer
            ))?;
            HalRef::from_owned(buffer).ok_or_else(|| status!(INTERNAL, "the pool made no buffer"))
        }
    }

    /// Gives it back to `pool`, which it is of, with what its next user must come after: whatever used it before may
    /// still do so.
    pub fn give_back(self, pool: Pool<'_>) {
        let edge = Frontier::new(self.edge.iter().copied());
        let death = if self.needs_wait() { self.wait_frontier } else { edge.as_ptr() };
        // SAFETY: reserved and not given back; IREE allows the pool's own frontier here.
        unsafe { raw::iree_hal_pool_release_reservation(pool.as_ptr(), &raw const self.reservation, death) };
    }
}

/// A look at a pool's notification: every release since wakes [`Observation::wait`], and so does
/// [`Pool::wake_waiters`].
#[derive(Debug)]
pub struct Observation {
    notification: HalRef<raw::iree_async_notification_t>,
    token: u32,
}

impl Observation {
    /// Begins to observe the releases of `pool`.
    ///
    /// # Errors
    /// INTERNAL for a pool without notification.
    pub fn begin(pool: Pool<'_>) -> Result<Self> {
        // SAFETY: the pool lives and keeps its notification.
        unsafe {
            let notification = HalRef::retain(raw::iree_hal_pool_notification(pool.as_ptr()))
                .ok_or_else(|| status!(INTERNAL, "the pool has no notification"))?;
            let token = raw::iree_async_notification_begin_observe(notification.as_ptr());
            Ok(Self { notification, token })
        }
    }

    /// Waits for a release since the observation began, at most one slice; whether there was one.
    fn wait(&self) -> bool {
        // SAFETY: observed until the drop.
        unsafe {
            let timeout = raw::iree_make_timeout_ms(SLICE.as_millis() as i64);
            raw::iree_async_notification_wait_for_token(self.notification.as_ptr(), self.token, timeout)
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        // SAFETY: begun once, ended once.
        unsafe { raw::iree_async_notification_end_observe(self.notification.as_ptr()) };
    }
}

/// Blocks an allocation until its pool got something back, or the last use of what it got is over.
pub fn wait_for_release(queue: &Queue, observation: Observation) -> Prepared {
    block(queue, move |is_over| {
        while !observation.wait() {
            is_over()?;
        }
        Ok(())
    })
}

/// Blocks an allocation until `frontier` has passed.
pub fn wait_for_frontier(queue: &Queue, frontier: Frontier) -> Prepared {
    let tracker = queue.tracker().clone();
    block(queue, move |is_over| {
        let wait = tracker.wait(&frontier)?;
        while !wait.wait_for(SLICE)? {
            is_over()?;
        }
        Ok(())
    })
}

/// Runs `wait` on a thread of the device's worker and lets the allocation go on when it returns. `wait` calls its
/// argument now and then, which fails once the device is going away.
fn block(queue: &Queue, wait: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<()> + Send + 'static) -> Prepared {
    let worker = queue.shared().worker.clone();
    Prepared::Blocked(Box::new(move |resumption: Resumption| {
        let closing = worker.clone();
        let task = move |_| {
            let is_over = || {
                resumption.queue().check_not_lost()?;
                if closing.is_closing() || resumption.queue().is_stopping() {
                    return Err(status!(
                        CANCELLED,
                        "the device was destroyed while queue_alloca waited for memory of its pool"
                    ));
                }
                Ok(())
            };
            let result = wait(&is_over);
            resumption.resume(result);
            None
        };
        // Without a thread the task is dropped, and the resumption fails what it was to signal.
        let _ = worker.run(Box::new(task), SignalList::default());
    }))
}
