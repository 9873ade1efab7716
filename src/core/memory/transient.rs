// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-allocated buffers: IREE's transient buffer (`iree/hal/local/transient_buffer.h`), a handle that is there
//! before its memory.
//!
//! `stage` gives it memory that queue operations use; `commit` shows that memory to the host once the allocation's
//! signals are due; `decommit` takes it away. The pool reservation belongs to the handle from `stage` on until it is
//! released, which may be earlier than the `decommit`, and is at the latest when the handle is destroyed.

use parking_lot::Mutex;

use crate::core::memory::pools::PoolRef;
use crate::ffi::{Allocator, Borrowed, Buffer, Frontier, HalRef, Result, iree, raw, status};

/// Held by who shows memory to the host or takes it away: an allocation and its deallocation on different queues, whose order the GPU keeps
/// by itself, may be found complete by two threads at once.
static CHANGING: Mutex<()> = Mutex::new(());

/// A buffer that is a transient one.
#[derive(Clone, Copy, Debug)]
pub struct Transient<'a>(Buffer<'a>);

impl<'a> Transient<'a> {
    /// Makes one without memory. `placement` has the flag ASYNCHRONOUS.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(
        placement: raw::iree_hal_buffer_placement_t,
        params: raw::iree_hal_buffer_params_t,
        size: usize,
        host_allocator: Allocator,
    ) -> Result<HalRef<raw::iree_hal_buffer_t>> {
        let mut buffer = std::ptr::null_mut();
        // SAFETY: plain values; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_local_transient_buffer_create(
                placement,
                params,
                size,
                size,
                host_allocator.to_raw(),
                &raw mut buffer
            ))?;
            HalRef::from_owned(buffer).ok_or_else(|| status!(INTERNAL, "IREE made no transient buffer"))
        }
    }

    /// `buffer` as a transient one, if it is.
    pub fn of(buffer: Buffer<'a>) -> Option<Self> {
        // SAFETY: the buffer lives.
        unsafe { raw::iree_hal_local_transient_buffer_isa(buffer.as_ptr()) }.then_some(Self(buffer))
    }

    /// The buffer.
    pub fn buffer(self) -> Buffer<'a> {
        self.0
    }

    /// The memory that queue operations use; none before it is staged and after it was decommitted.
    ///
    /// The order of semaphores keeps it: who uses the buffer comes after the allocation and before the deallocation.
    pub fn backing(self) -> Option<Buffer<'a>> {
        // SAFETY: a transient buffer that lives.
        unsafe { Borrowed::from_raw(raw::iree_hal_local_transient_buffer_backing_buffer(self.0.as_ptr())) }
    }

    /// Whether a deallocation was accepted.
    pub fn is_dealloca_queued(self) -> bool {
        // SAFETY: as for `backing`.
        unsafe { raw::iree_hal_local_transient_buffer_is_dealloca_queued(self.0.as_ptr()) }
    }

    /// Claims the one deallocation; false when it is taken.
    pub fn begin_dealloca(self) -> bool {
        // SAFETY: as for `backing`.
        unsafe { raw::iree_hal_local_transient_buffer_begin_dealloca(self.0.as_ptr()) }
    }

    /// Gives the claim back: the deallocation will not run.
    pub fn abort_dealloca(self) {
        // SAFETY: as for `backing`.
        unsafe { raw::iree_hal_local_transient_buffer_abort_dealloca(self.0.as_ptr()) }
    }

    /// Gives the buffer, which has none, its reservation of `pool` and the memory of it.
    pub fn stage(
        self,
        pool: Borrowed<'_, raw::iree_hal_pool_t>,
        reservation: &raw::iree_hal_pool_reservation_t,
        backing: Buffer<'_>,
    ) {
        // SAFETY: as for `backing`; the pool outlives the buffer by IREE's contract, the backing is retained by the
        // call.
        unsafe {
            raw::iree_hal_local_transient_buffer_attach_reservation(self.0.as_ptr(), pool.as_ptr(), reservation);
            raw::iree_hal_local_transient_buffer_stage_backing(self.0.as_ptr(), backing.as_ptr());
        }
    }

    /// Shows the staged memory to the host, unless a deallocation has taken it away already.
    pub fn commit(self) {
        let _changing = CHANGING.lock();
        if self.backing().is_some() {
            // SAFETY: as for `backing`.
            unsafe { raw::iree_hal_local_transient_buffer_commit(self.0.as_ptr()) }
        }
    }

    /// Takes the memory away: nothing uses it any more.
    pub fn decommit(self) {
        let backing = {
            let _changing = CHANGING.lock();
            let backing = self.backing().map(Borrowed::retain);
            // SAFETY: as for `backing`.
            unsafe { raw::iree_hal_local_transient_buffer_decommit(self.0.as_ptr()) };
            backing
        };
        // Which may free it: under no lock.
        drop(backing);
    }

    /// The pool that the buffer has a reservation of, if it has one.
    pub fn pool(self) -> Option<PoolRef> {
        let mut pool = std::ptr::null_mut();
        // SAFETY: as for `backing`; the result goes to a local, and pools outlive their reservations.
        unsafe {
            let (buffer, reservation) = (self.0.as_ptr(), std::ptr::null_mut());
            raw::iree_hal_local_transient_buffer_query_reservation(buffer, &raw mut pool, reservation);
            PoolRef::retain(pool)
        }
    }

    /// Gives the reservation back, if the buffer has it still. The memory's last use is over when `death` has passed.
    pub fn release(self, death: &Frontier) {
        // SAFETY: as for `backing`; the frontier is valid during the call.
        unsafe { raw::iree_hal_local_transient_buffer_release_reservation(self.0.as_ptr(), death.as_ptr()) };
    }
}
