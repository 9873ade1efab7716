// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's TLSF pools (`iree/hal/memory/tlsf_pool.h`), which applications make over a queue's memory.
//!
//! When such a pool divides a free block whose last use is not over, the rest of the block loses that information
//! (`tlsf.c`). The pool also divides blocks for requesters that it then refuses, so that the next request of any
//! requester finds memory that seems unused (docs/status/findings.md has the steps). Memory may go back to such a pool
//! only when it is unused. The driver detects the defect by a test on a pool without memory.

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use std::sync::OnceLock;

use super::object::{HalObject, HalRef, Header};
use super::pool::{Pool, PoolRef};
use super::status::Result;
use super::{Allocator, Frontier, Out, iree, raw, status, thunk};

/// Returns true if `pool` may return memory to a requester that is not ordered after the frontier of its last use.
pub fn forgets(pool: Pool<'_>) -> bool {
    /// The vtable of the pools with the defect; null if IREE's have none.
    static VTABLE: OnceLock<usize> = OnceLock::new();
    let vtable = vtable_of(pool.as_ptr());
    if let Some(known) = VTABLE.get() {
        return vtable == *known;
    }
    // SAFETY: the pool lives and keeps its notification.
    let notification = unsafe { raw::iree_hal_pool_notification(pool.as_ptr()) };
    if notification.is_null() {
        // TLSF pools have one.
        return false;
    }
    // Without memory to try it, this pool is taken for one.
    let Ok((tlsf, forgets)) = try_out(notification) else { return true };
    vtable == *VTABLE.get_or_init(|| if forgets { tlsf } else { 0 })
}

fn vtable_of(pool: *const raw::iree_hal_pool_t) -> usize {
    // SAFETY: pools begin with a count and a vtable that does not change (`iree/hal/resource.h`).
    unsafe { (*pool.cast::<raw::iree_hal_resource_t>()).vtable as usize }
}

/// The vtable of IREE's TLSF pools, and true if they have the defect. Gives all of a pool back behind an epoch, and
/// requests a part of it for a requester that is not ordered after that.
fn try_out(notification: *mut raw::iree_async_notification_t) -> Result<(usize, bool)> {
    const SIZE: usize = 4096;
    let provider = HalRef::new(NoMemory { header: Header::new::<NoMemory>() })?;
    // SAFETY: all-zero is valid for the plain structs; the pool retains provider and notification, which live; results
    // go to locals; each reservation goes back once.
    unsafe {
        let mut options: raw::iree_hal_tlsf_pool_options_t = core::mem::zeroed();
        options.tlsf_options.range_length = SIZE;
        let (query, allocator) = (raw::iree_hal_pool_epoch_query_null(), Allocator::system().to_raw());
        let mut pool = null_mut();
        iree!(raw::iree_hal_tlsf_pool_create(
            options,
            provider.as_raw(),
            notification,
            query,
            allocator,
            &raw mut pool
        ))?;
        let pool = PoolRef::from_owned(pool).ok_or_else(|| status!(INTERNAL, "IREE made no pool"))?;
        let take = |size| -> Result<Option<raw::iree_hal_pool_reservation_t>> {
            let mut reservation: raw::iree_hal_pool_reservation_t = core::mem::zeroed();
            let mut info: raw::iree_hal_pool_acquire_info_t = core::mem::zeroed();
            let mut result = raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED;
            let flags = raw::IREE_HAL_POOL_RESERVE_FLAG_DISALLOW_GROWTH;
            let place = (&raw mut reservation, &raw mut info, &raw mut result);
            iree!(raw::iree_hal_pool_acquire_reservation(
                pool.as_ptr(),
                size,
                1,
                null(),
                flags,
                place.0,
                place.1,
                place.2
            ))?;
            let is_taken = matches!(result, raw::IREE_HAL_POOL_ACQUIRE_OK | raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH);
            Ok(is_taken.then_some(reservation))
        };
        let give = |reservation: raw::iree_hal_pool_reservation_t, death: *const raw::iree_async_frontier_t| {
            raw::iree_hal_pool_release_reservation(pool.as_ptr(), &raw const reservation, death);
        };
        let all = take(SIZE)?.ok_or_else(|| status!(INTERNAL, "a new pool is exhausted"))?;
        give(all, Frontier::new(core::iter::once((1, 1))).as_ptr());
        let early = take(SIZE / 4)?;
        if let Some(early) = early {
            give(early, null());
        }
        Ok((vtable_of(pool.as_ptr()), early.is_some()))
    }
}

/// A slab provider whose slabs must not be accessed.
#[repr(C)]
struct NoMemory {
    header: Header,
}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for NoMemory {
    type Raw = raw::iree_hal_slab_provider_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        Allocator::system()
    }
}

static VTABLE: raw::iree_hal_slab_provider_vtable_t = raw::iree_hal_slab_provider_vtable_t {
    destroy: thunk::destroy::<NoMemory, _>(),
    acquire_slab: thunk::method(|_: &NoMemory, length: usize, out: Out<'_, raw::iree_hal_slab_t>| {
        // Pools add offsets to it.
        out.set(raw::iree_hal_slab_t {
            base_ptr: core::ptr::without_provenance_mut(length),
            length,
            provider_handle: 0,
        });
        Ok(())
    }),
    release_slab: thunk::method(|_: &NoMemory, _: *const raw::iree_hal_slab_t| ()),
    query_properties: thunk::method(|_: &NoMemory, memory_type: *mut u32, usage: *mut u32| {
        // SAFETY: the caller's places for the results.
        unsafe {
            memory_type.write(0);
            usage.write(0);
        }
    }),
    ..super::vtable::empty()
};
