// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The pool that divides ranges of memory among the queue allocations of a GPU (`iree/hal/pool.h`).
//!
//! Deallocations give memory back with the epoch of their queue, long before that has passed. `Ranges` keeps for each
//! free byte the epochs that must pass before it is used again. IREE's TLSF pool forgets them when it divides a block
//! (docs/status/findings.md), so that two queues may get the same memory.
//!
//! A request first gets memory that is ordered before the requester, or whose last use has passed; otherwise memory of
//! a new slab of the provider; otherwise, if the request allows it, memory that the requester has to wait for.
//!
//! Locks: `growth` before `state`. Slabs are acquired and released under `growth` alone, as HSA takes its time.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::epochs::EpochClock;
use crate::ranges::{Ranges, Taken};
use crate::slab_provider::SlabProvider;
use amdgpu_ffi::pool::{Capabilities, Epochs, NotificationRef, RawReservation, Statistics};
use amdgpu_ffi::{Allocator, BufferParams, Frontier, HalObject, HalRef, Header, Out, Result, iree, raw, status, thunk};

/// How a range pool divides memory.
#[derive(Clone, Copy, Debug)]
pub struct RangeOptions {
    /// Bytes of each range, a multiple of the alignment.
    pub length: usize,
    /// Alignment of each reservation in bytes, a power of two.
    pub alignment: usize,
    /// The most axes of a frontier that memory may wait for. Memory that comes back with more is not used again.
    pub frontier_capacity: u8,
}

/// `iree_hal_pool_t` of ranges.
#[repr(C)]
pub struct RangePool {
    header: Header,
    host_allocator: Allocator,
    provider: HalRef<SlabProvider>,
    notification: NotificationRef,
    clock: Arc<EpochClock>,
    options: RangeOptions,
    growth: Mutex<()>,
    state: Mutex<State>,
}

/// The division of the slabs into blocks, and the counters.
struct State {
    ranges: Ranges,
    /// The slabs with their first blocks, by index in [`Ranges`].
    slabs: Vec<Option<(u32, raw::iree_hal_slab_t)>>,
    /// Frontiers that requesters were told to wait for, by block, until the block comes back.
    #[allow(clippy::vec_box, reason = "C keeps pointers to them")]
    waits: Vec<(u32, Box<Frontier>)>,
    statistics: Statistics,
}

// SAFETY: slabs are C's plain values, usable from any thread; the rest is guarded or thread-safe.
unsafe impl Send for RangePool {}
// SAFETY: shared access changes only guarded fields.
unsafe impl Sync for RangePool {}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for RangePool {
    type Raw = raw::iree_hal_pool_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_pool_vtable_t = raw::iree_hal_pool_vtable_t {
    destroy: thunk::destroy::<RangePool, _>(),
    acquire_reservation: thunk::method(RangePool::acquire_reservation),
    release_reservation: thunk::method(RangePool::release_reservation),
    materialize_reservation: thunk::method(RangePool::materialize_reservation),
    query_capabilities: thunk::method(RangePool::query_capabilities),
    query_stats: thunk::method(RangePool::query_stats),
    trim: thunk::method(RangePool::trim),
    notification: thunk::method(|this: &RangePool| this.notification.as_ptr()),
};

/// The answer to a request for memory.
enum Answer {
    /// Memory that can be used at once.
    Ready(Taken),
    /// Memory that can be used when this frontier has passed. The pool keeps the frontier.
    Waits(Taken, *const raw::iree_async_frontier_t),
    /// No memory without another slab.
    Exhausted,
}

impl RangePool {
    /// A pool with one slab of `provider`. `notification` is signaled when memory comes back.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(
        host_allocator: Allocator,
        options: RangeOptions,
        provider: &HalRef<SlabProvider>,
        notification: &NotificationRef,
        clock: &Arc<EpochClock>,
    ) -> Result<HalRef<Self>> {
        let ranges = Ranges::new(options.alignment, options.frontier_capacity);
        // SAFETY: all-zero is valid for the plain struct.
        let statistics = unsafe { std::mem::zeroed() };
        let pool = HalRef::new(Self {
            header: Header::new::<Self>(),
            host_allocator,
            provider: provider.clone(),
            notification: notification.clone(),
            clock: clock.clone(),
            options,
            growth: Mutex::new(()),
            state: Mutex::new(State { ranges, slabs: Vec::new(), waits: Vec::new(), statistics }),
        })?;
        pool.grow()?;
        Ok(pool)
    }

    #[allow(clippy::too_many_arguments, reason = "the slot's arguments")]
    fn acquire_reservation(
        &self,
        size: usize,
        alignment: usize,
        requester: *const raw::iree_async_frontier_t,
        flags: u32,
        out_reservation: Out<'_, RawReservation>,
        out_info: Out<'_, raw::iree_hal_pool_acquire_info_t>,
        out_result: Out<'_, u32>,
    ) -> Result<()> {
        self.check(size, alignment)?;
        // SAFETY: null or a frontier that the caller keeps during the call.
        let requester = unsafe { Frontier::entries_of(requester) };
        let (reservation, wait_frontier, result) = match self.acquire(size, requester, flags)? {
            Answer::Ready(taken) if taken.was_used => {
                (reservation_of(taken), std::ptr::null(), raw::IREE_HAL_POOL_ACQUIRE_OK)
            }
            Answer::Ready(taken) => (reservation_of(taken), std::ptr::null(), raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH),
            Answer::Waits(taken, death) => (reservation_of(taken), death, raw::IREE_HAL_POOL_ACQUIRE_OK_NEEDS_WAIT),
            Answer::Exhausted => (NO_RESERVATION, std::ptr::null(), raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED),
        };
        let needs_growth = result == raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED;
        let flags = if needs_growth { raw::IREE_HAL_POOL_ACQUIRE_FLAG_GROWTH_REQUIRED } else { 0 };
        out_reservation.set(reservation);
        out_info.set(raw::iree_hal_pool_acquire_info_t { wait_frontier, flags, reserved: 0 });
        out_result.set(result);
        Ok(())
    }

    fn check(&self, size: usize, alignment: usize) -> Result<()> {
        let RangeOptions { length, alignment: most, .. } = self.options;
        if size == 0 {
            return Err(status!(INVALID_ARGUMENT, "a reservation of no bytes"));
        }
        if !alignment.is_power_of_two() || alignment > most {
            return Err(status!(
                INVALID_ARGUMENT,
                "a reservation aligned to {alignment} bytes, of a pool with powers of two up to {most} \
                 (option default_pool_alignment)"
            ));
        }
        if size > length {
            return Err(status!(
                OUT_OF_RANGE,
                "a reservation of {size} bytes, of a pool with ranges of {length} (option default_pool_range_length)"
            ));
        }
        Ok(())
    }

    #[inline]
    fn acquire(&self, size: usize, requester: &[raw::iree_async_frontier_entry_t], flags: u32) -> Result<Answer> {
        match self.try_acquire(size, requester)? {
            Some(taken) => Ok(Answer::Ready(taken)),
            None => self.acquire_more(size, requester, flags),
        }
    }

    /// Takes memory that is ordered before `requester`, or whose last use has passed.
    fn try_acquire(&self, size: usize, requester: &[raw::iree_async_frontier_entry_t]) -> Result<Option<Taken>> {
        let is_over = |axis, epoch| {
            requester.iter().any(|entry| entry.axis == axis && entry.epoch >= epoch)
                || self.clock.has_passed(axis, epoch)
        };
        let mut state = self.state.lock();
        let taken = state.ranges.take(size, is_over).map_err(|_| no_memory())?;
        if let Some(taken) = &taken {
            let statistics = &mut state.statistics;
            note_taken(statistics, taken.length);
            if taken.was_used { statistics.reuse_count += 1 } else { statistics.fresh_count += 1 }
        }
        Ok(taken)
    }

    /// Takes memory if none was usable at once, unless some came back meanwhile.
    #[cold]
    fn acquire_more(&self, size: usize, requester: &[raw::iree_async_frontier_entry_t], flags: u32) -> Result<Answer> {
        let grown = match flags & raw::IREE_HAL_POOL_RESERVE_FLAG_DISALLOW_GROWTH {
            0 => self.acquire_and_grow(size, requester),
            _ => Ok(Answer::Exhausted),
        };
        if matches!(grown, Ok(Answer::Ready(_))) {
            return grown;
        }
        let may_wait = flags & raw::IREE_HAL_POOL_RESERVE_FLAG_ALLOW_WAIT_FRONTIER != 0;
        if may_wait && let Some(waits) = self.acquire_waiting(size)? {
            return Ok(waits);
        }
        self.state.lock().statistics.exhausted_count += u64::from(grown.is_ok());
        grown
    }

    /// Takes memory of a new slab.
    fn acquire_and_grow(&self, size: usize, requester: &[raw::iree_async_frontier_entry_t]) -> Result<Answer> {
        let _growth = self.growth.lock();
        loop {
            // Another thread may have got a slab, and others may take the slab of this one.
            if let Some(taken) = self.try_acquire(size, requester)? {
                return Ok(Answer::Ready(taken));
            }
            self.grow_locked()?;
        }
    }

    /// Takes memory whose last use may not have passed.
    fn acquire_waiting(&self, size: usize) -> Result<Option<Answer>> {
        let mut state = self.state.lock();
        state.waits.try_reserve(1).map_err(|_| no_memory())?;
        let Some((taken, death)) = state.ranges.take_waiting(size).map_err(|_| no_memory())? else {
            return Ok(None);
        };
        let death = Box::new(Frontier::new(death.into_iter()));
        let pointer = death.as_ptr();
        state.waits.push((taken.block, death));
        note_taken(&mut state.statistics, taken.length);
        state.statistics.wait_count += 1;
        Ok(Some(Answer::Waits(taken, pointer)))
    }

    fn grow(&self) -> Result<()> {
        let _growth = self.growth.lock();
        self.grow_locked()
    }

    /// Acquires another slab. The caller holds the lock `growth`.
    fn grow_locked(&self) -> Result<()> {
        // SAFETY: all-zero is valid for the plain struct, which the call fills; the provider lives.
        let slab = unsafe {
            let mut slab: raw::iree_hal_slab_t = std::mem::zeroed();
            iree!(raw::iree_hal_slab_provider_acquire_slab(
                self.provider.as_raw(),
                self.options.length,
                &raw mut slab
            ))?;
            slab
        };
        let added = self.state.lock().add(slab);
        if added.is_err() {
            self.release_slab(&slab);
        }
        added
    }

    fn release_slab(&self, slab: &raw::iree_hal_slab_t) {
        // SAFETY: a slab of the provider, which is no longer used and has no other owner.
        unsafe { raw::iree_hal_slab_provider_release_slab(self.provider.as_raw(), slab) };
    }

    fn release_reservation(&self, reservation: *const RawReservation, death: *const raw::iree_async_frontier_t) {
        // SAFETY: the caller's reservation; null or a frontier of the caller's or, until the end of this function, the
        // pool's own.
        let (reservation, death) = unsafe { (reservation.read(), Frontier::entries_of(death)) };
        let block = reservation.block_handle as u32;
        let mut state = self.state.lock();
        if death.len() <= usize::from(self.options.frontier_capacity) {
            state.ranges.give_back(block, death.iter().map(|entry| (entry.axis, entry.epoch)));
        } else {
            self.give_back_late(&mut state.ranges, block, death);
        }
        let statistics = &mut state.statistics;
        statistics.bytes_reserved -= reservation.length;
        statistics.bytes_free += reservation.length;
        statistics.reservation_count -= 1;
        statistics.release_count += 1;
        let waiting = state.waits.iter().position(|(waiting, _)| *waiting == block);
        let waited = waiting.map(|waiting| state.waits.swap_remove(waiting));
        drop(state);
        drop(waited);
        // SAFETY: the pool keeps its notification.
        unsafe { raw::iree_async_notification_signal_if_observed(self.notification.as_ptr(), i32::MAX) };
    }

    /// Gives back memory with a frontier of too many axes: axes that have passed are dropped.
    #[cold]
    fn give_back_late(&self, ranges: &mut Ranges, block: u32, death: &[raw::iree_async_frontier_entry_t]) {
        let left: Vec<_> = death
            .iter()
            .map(|entry| (entry.axis, entry.epoch))
            .filter(|(axis, epoch)| !self.clock.has_passed(*axis, *epoch))
            .collect();
        ranges.give_back(block, left.into_iter());
    }

    fn materialize_reservation(
        &self,
        params: BufferParams,
        reservation: *const RawReservation,
        flags: u32,
        out: Out<'_, *mut raw::iree_hal_buffer_t>,
    ) -> Result<()> {
        // SAFETY: the caller's reservation.
        let reservation = unsafe { reservation.read() };
        let slab = self.state.lock().slabs.get(usize::from(reservation.slab_index)).copied().flatten();
        let Some((_, slab)) = slab else {
            return Err(status!(INTERNAL, "a reservation of slab {}, which is gone", reservation.slab_index));
        };
        let is_owner = flags & raw::IREE_HAL_POOL_MATERIALIZE_FLAG_TRANSFER_RESERVATION_OWNERSHIP != 0;
        let owned = is_owner.then(|| {
            let pool = (&raw const *self).cast_mut().cast();
            Box::into_raw(Box::new(Owned { pool, reservation }))
        });
        let release = raw::iree_hal_buffer_release_callback_t {
            fn_: owned.is_some().then_some(release_owned),
            user_data: owned.map_or(std::ptr::null_mut(), <*mut Owned>::cast),
        };
        // SAFETY: a slab of the provider's that the reservation keeps; the place is the caller's.
        let made = unsafe {
            iree!(raw::iree_hal_slab_provider_wrap_buffer(
                self.provider.as_raw(),
                &raw const slab,
                reservation.offset,
                reservation.length,
                params,
                release,
                out.as_ptr()
            ))
        };
        if let (Err(_), Some(owned)) = (&made, owned) {
            // SAFETY: made above; there is no buffer that would give it back.
            drop(unsafe { Box::from_raw(owned) });
        }
        made
    }

    fn query_capabilities(&self, out: Out<'_, Capabilities>) {
        let (mut memory_type, mut supported_usage) = (0, 0);
        // SAFETY: the provider lives; the results go to locals.
        unsafe {
            raw::iree_hal_slab_provider_query_properties(
                self.provider.as_raw(),
                &raw mut memory_type,
                &raw mut supported_usage,
            );
        }
        let max_allocation_size = self.options.length;
        out.set(Capabilities { memory_type, supported_usage, min_allocation_size: 1, max_allocation_size });
    }

    fn query_stats(&self, out: Out<'_, Statistics>) {
        let state = self.state.lock();
        out.set(Statistics { reuse_miss_count: state.ranges.misses(), ..state.statistics });
    }

    /// Releases the slabs that are unused.
    fn trim(&self) -> Result<()> {
        let _growth = self.growth.lock();
        let mut index = 0;
        while let Some(slab) = self.state.lock().remove_from(&mut index, &self.clock) {
            self.release_slab(&slab);
        }
        Ok(())
    }
}

impl Drop for RangePool {
    fn drop(&mut self) {
        for (_, slab) in std::mem::take(&mut self.state.get_mut().slabs).into_iter().flatten() {
            self.release_slab(&slab);
        }
    }
}

impl State {
    fn add(&mut self, slab: raw::iree_hal_slab_t) -> Result<()> {
        let index = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        let range = u16::try_from(index)
            .map_err(|_| status!(RESOURCE_EXHAUSTED, "a pool of {index} ranges, which is the most there may be"))?;
        if index == self.slabs.len() {
            self.slabs.try_reserve(1).map_err(|_| no_memory())?;
            self.slabs.push(None);
        }
        let first = self.ranges.add(range, slab.length).map_err(|_| no_memory())?;
        self.slabs[index] = Some((first, slab));
        self.statistics.slab_count += 1;
        self.statistics.bytes_committed += slab.length;
        self.statistics.bytes_free += slab.length;
        Ok(())
    }

    /// Takes out the first unused slab from `index` on, and moves `index` behind it.
    fn remove_from(&mut self, index: &mut usize, clock: &EpochClock) -> Option<raw::iree_hal_slab_t> {
        while let Some(place) = self.slabs.get_mut(*index) {
            *index += 1;
            if let Some((first, slab)) = *place
                && self.ranges.remove(first, |axis, epoch| clock.has_passed(axis, epoch))
            {
                *place = None;
                self.statistics.slab_count -= 1;
                self.statistics.bytes_committed -= slab.length;
                self.statistics.bytes_free -= slab.length;
                return Some(slab);
            }
        }
        None
    }
}

/// Counts a reservation.
fn note_taken(statistics: &mut Statistics, length: usize) {
    statistics.bytes_reserved += length;
    statistics.bytes_free -= length;
    statistics.reservation_count += 1;
    statistics.reserve_count += 1;
}

/// A reservation owned by a buffer.
struct Owned {
    pool: *mut raw::iree_hal_pool_t,
    reservation: RawReservation,
}

/// The release callback of a buffer: nothing uses its memory any more.
unsafe extern "C" fn release_owned(user_data: *mut c_void, _buffer: *mut raw::iree_hal_buffer_t) {
    // SAFETY: made by `materialize_reservation` for this one call; the pool outlives its buffers (`iree/hal/pool.h`).
    unsafe {
        let owned = Box::from_raw(user_data.cast::<Owned>());
        raw::iree_hal_pool_release_reservation(owned.pool, &raw const owned.reservation, std::ptr::null());
    }
}

const NO_RESERVATION: RawReservation =
    RawReservation { offset: 0, length: 0, block_handle: 0, slab_index: 0, reserved: [0; 3] };

fn reservation_of(taken: Taken) -> RawReservation {
    RawReservation {
        offset: taken.offset,
        length: taken.length,
        block_handle: u64::from(taken.block),
        slab_index: taken.range,
        reserved: [0; 3],
    }
}

#[cold]
fn no_memory() -> amdgpu_ffi::Status {
    status!(RESOURCE_EXHAUSTED, "no memory of the host to divide a pool with")
}

#[cfg(test)]
#[path = "range_pool_test.rs"]
mod tests;
