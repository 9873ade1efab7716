// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Operations on semaphores of any kind, and timepoints on them (`iree/async/semaphore.h`).

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::constants::{SEMAPHORE_FAILURE_STATUS_BIT, SEMAPHORE_FAILURE_VALUE};
use super::lists::Semaphore;
use super::object::HalRef;
use super::status::{Code, Result, Status};
use super::thunk;
use super::{iree, raw};

/// An owned semaphore of any driver.
pub type SemaphoreRef = HalRef<raw::iree_hal_semaphore_t>;

/// One entry of an [`iree_async_frontier_t`](raw::iree_async_frontier_t).
#[repr(C)]
struct SingleFrontier {
    entry_count: u8,
    reserved: [u8; 7],
    entry: raw::iree_async_frontier_entry_t,
}

impl Semaphore<'_> {
    fn as_async(self) -> *mut raw::iree_async_semaphore_t {
        self.as_ptr().cast()
    }

    /// The current payload.
    ///
    /// # Errors
    /// A copy of the semaphore's failure, if it has failed.
    #[inline]
    pub fn query(self) -> Result<u64> {
        // SAFETY: the semaphore lives.
        let value = unsafe { raw::iree_async_semaphore_query(self.as_async()) };
        if value < SEMAPHORE_FAILURE_VALUE {
            return Ok(value);
        }
        if value & SEMAPHORE_FAILURE_STATUS_BIT == 0 {
            return Err(Status::from_code(Code::INTERNAL));
        }
        // SAFETY: a failed query's other bits are the status, borrowed from the semaphore; this makes a copy.
        unsafe { Status::check(raw::iree_hal_semaphore_failure_as_status(value)) }?;
        Err(Status::from_code(Code::INTERNAL))
    }

    /// Advances the payload because device work of `epoch` on `axis` is complete. A second call has no effect.
    ///
    /// # Errors
    /// The semaphore's failure.
    pub fn publish(self, value: u64, axis: u64, epoch: u64) -> Result<()> {
        let frontier = SingleFrontier {
            entry_count: 1,
            reserved: [0; 7],
            entry: raw::iree_async_frontier_entry_t { axis, epoch },
        };
        // SAFETY: the frontier has the layout of one with one entry and is only read during the call.
        unsafe {
            Status::check(raw::iree_async_semaphore_publish_untainted(
                self.as_async(),
                value,
                (&raw const frontier).cast(),
            ))
        }
    }

    /// Advances the payload from the host.
    ///
    /// # Errors
    /// The semaphore's failure; INVALID_ARGUMENT if it has reached `value` already.
    pub fn signal(self, value: u64) -> Result<()> {
        // SAFETY: the semaphore lives; no frontier.
        unsafe { Status::check(raw::iree_hal_semaphore_signal(self.as_ptr(), value, core::ptr::null())) }
    }

    /// Blocks until the semaphore has reached `value`.
    ///
    /// # Errors
    /// The semaphore's failure.
    pub fn wait(self, value: u64) -> Result<()> {
        // SAFETY: the semaphore lives.
        unsafe { iree!(raw::iree_hal_semaphore_wait(self.as_ptr(), value, raw::iree_infinite_timeout(), 0)) }
    }

    /// Fails the semaphore; the first failure stays.
    pub fn fail(self, status: Status) {
        // SAFETY: the semaphore lives and takes the status.
        unsafe { raw::iree_hal_semaphore_fail(self.as_ptr(), status.into_raw()) }
    }
}

/// A waiter for semaphores.
pub trait Listener: Send + Sync + 'static {
    /// Called when a semaphore has reached the value of one of the listener's timepoints, or failed: once for each
    /// timepoint that was acquired and not cancelled, on the signaling thread or inside [`Timepoint::acquire`].
    fn reached(self: Arc<Self>, result: Result<()>);
}

/// A single wait for one value of one semaphore. It is a part of its [`Listener`] and has no memory of its own. The
/// semaphore must outlive it or its firing. Dropping it does not cancel it; the listener lives at least until it fires
/// or is cancelled.
pub struct Timepoint {
    /// The state: bits of [`TAKEN`], [`ACQUIRED`] and [`CANCELLED`].
    state: AtomicU8,
    timepoint: UnsafeCell<MaybeUninit<raw::iree_async_semaphore_timepoint_t>>,
}

/// The timepoint is being acquired.
const TAKEN: u8 = 1;
/// IREE has it, or had it.
const ACQUIRED: u8 = 2;
/// It is cancelled.
const CANCELLED: u8 = 4;

// SAFETY: the timepoint is written by the one that has set TAKEN, and belongs to IREE from ACQUIRED on.
unsafe impl Sync for Timepoint {}
// SAFETY: IREE has the timepoint's address from ACQUIRED on only, and the timepoint is borrowed, hence not moved, by
// then.
unsafe impl Send for Timepoint {}

impl Default for Timepoint {
    fn default() -> Self {
        Self { state: AtomicU8::new(0), timepoint: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

impl core::fmt::Debug for Timepoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Timepoint")
    }
}

impl Timepoint {
    /// Has `listener` called when `semaphore` reaches `value` or fails, possibly before this returns. `timepoint`
    /// selects the timepoint of the listener.
    ///
    /// # Errors
    /// It was cancelled already, or the error of IREE: the listener is not called.
    ///
    /// # Panics
    /// If it was acquired before.
    pub fn acquire<L: Listener>(
        listener: &Arc<L>,
        timepoint: impl for<'a> Fn(&'a L) -> &'a Self,
        semaphore: Semaphore<'_>,
        value: u64,
    ) -> Result<()> {
        let this = timepoint(listener);
        assert!(this.state.fetch_or(TAKEN, Ordering::Relaxed) & TAKEN == 0, "a timepoint is acquired once");
        let shared = Arc::into_raw(listener.clone());
        // SAFETY: taken by this thread alone; all-zero is a valid timepoint, of which IREE fills the links. It stays
        // where it is until it has fired or is cancelled, as the listener has it, of which `shared` is a count.
        let acquired = unsafe {
            let place = this.place();
            place.write(core::mem::zeroed());
            (*place).callback = Some(fired::<L>);
            (*place).user_data = shared.cast_mut().cast();
            Status::check(raw::iree_async_semaphore_acquire_timepoint(semaphore.as_async(), value, place))
        };
        if let Err(status) = acquired {
            // SAFETY: a refused timepoint never fires: take its count back.
            drop(unsafe { Arc::from_raw(shared) });
            return Err(status);
        }
        // The second of this and `cancel` cancels it.
        if this.state.fetch_or(ACQUIRED, Ordering::AcqRel) & CANCELLED != 0 && this.take_back(listener, semaphore) {
            return Err(Status::from_code(Code::CANCELLED));
        }
        Ok(())
    }

    /// Cancels the wait. Returns false if it has fired or is about to, or if it is being acquired, which fails then.
    pub fn cancel<L: Listener>(
        listener: &Arc<L>,
        timepoint: impl for<'a> Fn(&'a L) -> &'a Self,
        semaphore: Semaphore<'_>,
    ) -> bool {
        let this = timepoint(listener);
        let state = this.state.fetch_or(CANCELLED, Ordering::AcqRel);
        state & (ACQUIRED | CANCELLED) == ACQUIRED && this.take_back(listener, semaphore)
    }

    fn place(&self) -> *mut raw::iree_async_semaphore_timepoint_t {
        self.timepoint.get().cast()
    }

    /// Cancels a wait that was acquired for `listener`, unless it has fired or is about to.
    fn take_back<L: Listener>(&self, listener: &Arc<L>, semaphore: Semaphore<'_>) -> bool {
        // SAFETY: written before it was acquired, and not changed since.
        let user_data = unsafe { (&raw const (*self.place()).user_data).read() };
        assert!(std::ptr::eq(user_data.cast(), Arc::as_ptr(listener)), "a timepoint is its own listener's");
        // SAFETY: it was acquired; IREE looks it up in the semaphore's list.
        let cancelled = unsafe { raw::iree_async_semaphore_cancel_timepoint(semaphore.as_async(), self.place()) };
        if cancelled {
            // SAFETY: it will not fire: take back the count it held, which is of this listener.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(listener)) };
        }
        cancelled
    }
}

unsafe extern "C" fn fired<L: Listener>(
    user_data: *mut c_void,
    _timepoint: *mut raw::iree_async_semaphore_timepoint_t,
    status: raw::iree_status_t,
) {
    // SAFETY: the count that `acquire` gave away.
    let listener = unsafe { Arc::from_raw(user_data.cast_const().cast::<L>()) };
    // SAFETY: the callback owns the status.
    let result = unsafe { Status::check(status) };
    // A panic ends here; objects that the listener held fail by their drop.
    let _ = thunk::catch(|| listener.reached(result));
}
