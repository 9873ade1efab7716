// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! What the driver does with semaphores of any kind, and timepoints on them
//! (`iree/async/semaphore.h`).

use core::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::constants::{SEMAPHORE_FAILURE_STATUS_BIT, SEMAPHORE_FAILURE_VALUE};
use super::lists::Semaphore;
use super::object::HalRef;
use super::raw;
use super::status::{Code, Result, Status};
use super::thunk;

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

    /// The payload now.
    ///
    /// # Errors
    /// A copy of its failure, when it has failed.
    pub fn query(self) -> Result<u64> {
        // SAFETY: the semaphore lives.
        let value = unsafe { raw::iree_async_semaphore_query(self.as_async()) };
        if value < SEMAPHORE_FAILURE_VALUE {
            return Ok(value);
        }
        if value & SEMAPHORE_FAILURE_STATUS_BIT == 0 {
            return Err(Status::from_code(Code::INTERNAL));
        }
        // SAFETY: a failed query's other bits are the status, borrowed from
        // the semaphore; this makes a copy.
        unsafe { Status::check(raw::iree_hal_semaphore_failure_as_status(value)) }?;
        Err(Status::from_code(Code::INTERNAL))
    }

    /// Advances the payload because device work of `epoch` on `axis` is
    /// complete; doing so twice changes nothing.
    ///
    /// # Errors
    /// The semaphore's failure.
    pub fn publish(self, value: u64, axis: u64, epoch: u64) -> Result<()> {
        let frontier = SingleFrontier {
            entry_count: 1,
            reserved: [0; 7],
            entry: raw::iree_async_frontier_entry_t { axis, epoch },
        };
        // SAFETY: the frontier has the layout of one with one entry and is
        // only read during the call.
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
    /// The semaphore's failure; INVALID_ARGUMENT when it is there already.
    pub fn signal(self, value: u64) -> Result<()> {
        // SAFETY: the semaphore lives; no frontier.
        unsafe { Status::check(raw::iree_hal_semaphore_signal(self.as_ptr(), value, core::ptr::null())) }
    }

    /// Fails it; the first failure stays.
    pub fn fail(self, status: Status) {
        // SAFETY: the semaphore lives and takes the status.
        unsafe { raw::iree_hal_semaphore_fail(self.as_ptr(), status.into_raw()) }
    }
}

/// Called once when a semaphore reaches a value or fails, on whatever thread
/// does that, or inside [`Timepoint::acquire`].
type Callback = Box<dyn FnOnce(Result<()>) + Send>;

struct Node {
    timepoint: core::cell::UnsafeCell<raw::iree_async_semaphore_timepoint_t>,
    // Boxed twice so that it is one word; taken by whoever fires or cancels.
    callback: AtomicPtr<Callback>,
}

// SAFETY: `timepoint` belongs to IREE between acquire and fire or cancel and
// is touched by nobody else; the callback is taken atomically.
unsafe impl Sync for Node {}
// SAFETY: as above; the callback is Send.
unsafe impl Send for Node {}

impl Node {
    fn take_callback(&self) -> Option<Callback> {
        let callback = self.callback.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Box::into_raw` and was
        // swapped out once.
        (!callback.is_null()).then(|| *unsafe { Box::from_raw(callback) })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.take_callback());
    }
}

/// A wait on one value of one semaphore. The semaphore must outlive it or
/// its firing. Dropping it does not cancel it.
pub struct Timepoint(Arc<Node>);

impl core::fmt::Debug for Timepoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Timepoint")
    }
}

impl Timepoint {
    /// Has `callback` called when `semaphore` reaches `value` or fails,
    /// possibly before this returns.
    ///
    /// # Errors
    /// IREE refused; the callback was dropped uncalled.
    pub fn acquire(
        semaphore: Semaphore<'_>,
        value: u64,
        callback: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Self> {
        // SAFETY: all-zero is a valid timepoint; IREE fills the links.
        let mut timepoint: raw::iree_async_semaphore_timepoint_t = unsafe { core::mem::zeroed() };
        timepoint.callback = Some(fired);
        let callback: Callback = Box::new(callback);
        let node =
            Arc::new(Node { timepoint: timepoint.into(), callback: AtomicPtr::new(Box::into_raw(Box::new(callback))) });
        let shared = Arc::into_raw(node.clone());
        // SAFETY: not shared yet.
        unsafe { (*node.timepoint.get()).user_data = shared.cast_mut().cast() };
        // SAFETY: the node lives until it has fired or is cancelled, by the
        // count that `shared` stands for.
        let acquired = unsafe {
            Status::check(raw::iree_async_semaphore_acquire_timepoint(
                semaphore.as_async(),
                value,
                node.timepoint.get(),
            ))
        };
        if let Err(status) = acquired {
            // SAFETY: a refused timepoint never fires: take its count back.
            drop(unsafe { Arc::from_raw(shared) });
            return Err(status);
        }
        Ok(Self(node))
    }

    /// Cancels the wait; false when it has fired or is about to.
    pub fn cancel(&self, semaphore: Semaphore<'_>) -> bool {
        let timepoint = self.0.timepoint.get();
        // SAFETY: both live; IREE looks the node up in the semaphore's list.
        let cancelled = unsafe { raw::iree_async_semaphore_cancel_timepoint(semaphore.as_async(), timepoint) };
        if cancelled {
            drop(self.0.take_callback());
            // SAFETY: it will not fire: take back the count it held.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.0)) };
        }
        cancelled
    }
}

unsafe extern "C" fn fired(
    user_data: *mut c_void,
    _timepoint: *mut raw::iree_async_semaphore_timepoint_t,
    status: raw::iree_status_t,
) {
    // SAFETY: the count that `acquire` gave away.
    let node = unsafe { Arc::from_raw(user_data.cast::<Node>()) };
    // SAFETY: the callback owns the status.
    let result = unsafe { Status::check(status) };
    if let Some(callback) = node.take_callback() {
        // A panic has nowhere to go; what the callback held fails by its drop.
        let _ = thunk::catch(|| callback(result));
    }
}
