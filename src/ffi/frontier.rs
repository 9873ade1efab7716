// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Frontiers (`iree/async/frontier.h`) and the tracker that knows which
//! epochs have passed (`iree/async/frontier_tracker.h`).

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};
use core::time::Duration;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use super::Allocator;
use super::object::HalRef;
use super::semaphore::Listener;
use super::status::{Result, Status};
use super::{raw, thunk};

/// Most entries the driver puts into one frontier: one for each queue of a logical device.
pub const FRONTIER_CAPACITY: usize = 64;

/// Words of a frontier's header and of each entry (`iree/async/frontier.h`).
const HEADER_WORDS: usize = size_of::<raw::iree_async_frontier_t>() / size_of::<u64>();
const ENTRY_WORDS: usize = size_of::<raw::iree_async_frontier_entry_t>() / size_of::<u64>();
const _: () = assert!(HEADER_WORDS == 1 && ENTRY_WORDS == 2);

/// A frontier of up to [`FRONTIER_CAPACITY`] entries in C's layout: a word whose first byte is their number, then axis
/// and epoch of each. Entries of a few queues are stored in place.
#[derive(Clone)]
pub struct Frontier(SmallVec<[u64; HEADER_WORDS + 4 * ENTRY_WORDS]>);

impl Frontier {
    /// A frontier of the given (axis, epoch) pairs, in ascending order of their axes. Pairs that exceed the capacity
    /// are left out: a frontier may claim less than is true.
    #[inline]
    pub fn new(entries: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut words = SmallVec::new();
        words.push(0);
        let mut count = 0;
        for (axis, epoch) in entries.take(FRONTIER_CAPACITY) {
            words.push(axis);
            words.push(epoch);
            count += 1;
        }
        words[0] = u64::from_ne_bytes([count, 0, 0, 0, 0, 0, 0, 0]);
        Self(words)
    }

    /// The entries of a frontier of C, of any capacity.
    ///
    /// # Safety
    /// `frontier` is null (the empty one) or valid for `'a`.
    pub unsafe fn entries_of<'a>(
        frontier: *const raw::iree_async_frontier_t,
    ) -> &'a [raw::iree_async_frontier_entry_t] {
        if frontier.is_null() {
            return &[];
        }
        // SAFETY: the caller's contract: as many entries as it says follow the header.
        unsafe {
            let count = usize::from((*frontier).entry_count);
            let first = frontier.add(1);
            core::slice::from_raw_parts(first.cast(), count)
        }
    }

    /// The (axis, epoch) pairs.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0[HEADER_WORDS..].chunks_exact(ENTRY_WORDS).map(|entry| (entry[0], entry[1]))
    }

    /// The frontier as C takes it.
    #[inline]
    pub fn as_ptr(&self) -> *const raw::iree_async_frontier_t {
        self.0.as_ptr().cast()
    }
}

impl core::fmt::Debug for Frontier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.entries()).finish()
    }
}

/// The tracker of the device group.
pub type FrontierTracker = HalRef<raw::iree_async_frontier_tracker_t>;

impl FrontierTracker {
    /// Returns true if both are references to one tracker.
    pub fn is(&self, other: &Self) -> bool {
        self.as_ptr() == other.as_ptr()
    }

    /// Returns true if this is the only reference to the tracker, so that no other code can wait in it.
    ///
    /// IREE has no function for this, and no callback for the end of a device group. IREE's macros let counted objects
    /// begin with their count (`iree_atomic_ref_count_t`). If a tracker has another layout, which is tested once, this
    /// is always false.
    pub fn is_unshared(&self) -> bool {
        static COUNT_IS_FIRST: OnceLock<bool> = OnceLock::new();
        *COUNT_IS_FIRST.get_or_init(|| count_is_first().unwrap_or(false)) && self.first_word() == 1
    }

    /// The first word of the tracker.
    fn first_word(&self) -> i32 {
        // SAFETY: the tracker lives, is larger than this, and aligned to at least as much (`iree/base/allocator.h`);
        // the word is an atomic of C or does not change.
        unsafe { AtomicI32::from_ptr(self.as_ptr().cast()) }.load(Ordering::Acquire)
    }

    /// Registers an axis, which must be new to the tracker.
    ///
    /// # Errors
    /// ALREADY_EXISTS; RESOURCE_EXHAUSTED when the tracker is full.
    pub fn register_axis(&self, axis: u64) -> Result<()> {
        // SAFETY: the tracker lives; no semaphore is bridged.
        unsafe {
            Status::check(raw::iree_async_frontier_tracker_register_axis(self.as_ptr(), axis, core::ptr::null_mut()))
        }
    }

    /// Advances `axis` to `epoch`, which has passed. Calls waiters back.
    pub fn advance(&self, axis: u64, epoch: u64) {
        // SAFETY: the tracker lives.
        unsafe { raw::iree_async_frontier_tracker_advance(self.as_ptr(), axis, epoch) };
    }

    /// True if `epoch` of `axis` has passed.
    pub fn has_passed(&self, axis: u64, epoch: u64) -> bool {
        // SAFETY: the tracker lives.
        unsafe { raw::iree_async_frontier_tracker_query_epoch(self.as_ptr(), axis, epoch) }
    }

    /// Has `listener` called when all of `frontier` has passed or one of its axes has failed, possibly before this
    /// returns. The thread that advances or fails the axis calls it, under no lock of the tracker.
    ///
    /// # Errors
    /// NOT_FOUND for an axis that the tracker does not know; the listener is not called.
    pub fn listen(&self, frontier: &Frontier, listener: Arc<dyn Listener>) -> Result<FrontierListening> {
        // SAFETY: all-zero is a valid waiter, which IREE fills.
        let place = UnsafeCell::new(unsafe { core::mem::zeroed() });
        let waiter = Arc::new(Waiter { frontier: frontier.clone(), place, listener: Mutex::new(Some(listener)) });
        let shared = Arc::into_raw(waiter.clone());
        // SAFETY: the waiter and its frontier stay where they are until the callback was called or the wait is
        // cancelled, as the tracker has a count of them.
        let begun = unsafe {
            Status::check(raw::iree_async_frontier_tracker_wait(
                self.as_ptr(),
                waiter.frontier.as_ptr(),
                Some(frontier_passed),
                shared.cast_mut().cast(),
                waiter.place.get(),
            ))
        };
        if let Err(status) = begun {
            // SAFETY: refused, so the callback is never called: take its count back.
            drop(unsafe { Arc::from_raw(shared) });
            return Err(status);
        }
        Ok(FrontierListening { tracker: self.clone(), waiter })
    }

    /// Starts a wait until all of `frontier` has passed.
    ///
    /// # Errors
    /// NOT_FOUND for an axis that the tracker does not know.
    pub fn wait(&self, frontier: &Frontier) -> Result<FrontierWait> {
        let outcome = Arc::<Outcome>::default();
        Ok(FrontierWait { _listening: self.listen(frontier, outcome.clone())?, outcome })
    }

    /// Fails the waiters of an axis whose queue is lost.
    pub fn fail_axis(&self, axis: u64, status: Status) {
        // SAFETY: the tracker lives and takes the status.
        unsafe { raw::iree_async_frontier_tracker_fail_axis(self.as_ptr(), axis, status.into_raw()) }
    }

    /// Retires an axis whose queue is gone; its waiters fail with `status`.
    pub fn retire_axis(&self, axis: u64, status: Status) {
        // SAFETY: the tracker lives and takes the status.
        unsafe { raw::iree_async_frontier_tracker_retire_axis(self.as_ptr(), axis, status.into_raw()) }
    }
}

/// Returns true if the first word of a tracker counts its references. Tests that on a new tracker.
fn count_is_first() -> Result<bool> {
    let mut tracker = core::ptr::null_mut();
    // SAFETY: plain options; the result goes to a local, with its reference.
    let tracker = unsafe {
        let options =
            raw::iree_async_frontier_tracker_options_t { axis_table_capacity: 0, session_epoch: 0, machine_index: 0 };
        let allocator = Allocator::system().to_raw();
        Status::check(raw::iree_async_frontier_tracker_create(options, allocator, &raw mut tracker))?;
        FrontierTracker::from_owned(tracker)
    };
    let Some(tracker) = tracker else { return Ok(false) };
    let alone = tracker.first_word();
    let other = tracker.clone();
    let shared = tracker.first_word();
    drop(other);
    Ok([alone, shared, tracker.first_word()] == [1, 2, 1])
}

/// A listener's registration in a tracker.
struct Waiter {
    frontier: Frontier,
    place: UnsafeCell<raw::iree_async_frontier_waiter_t>,
    /// None once it was called, or is cancelled.
    listener: Mutex<Option<Arc<dyn Listener>>>,
}

// SAFETY: the place is the tracker's, which has a lock for it.
unsafe impl Sync for Waiter {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Waiter {}

/// Keeps a listener registered while it lives. A call may be in progress at its drop.
pub struct FrontierListening {
    tracker: FrontierTracker,
    waiter: Arc<Waiter>,
}

impl Drop for FrontierListening {
    fn drop(&mut self) {
        let Some(listener) = self.waiter.listener.lock().take() else { return };
        // SAFETY: the tracker lives; it finds the waiter in its list or not.
        if unsafe { raw::iree_async_frontier_tracker_cancel_wait(self.tracker.as_ptr(), self.waiter.place.get()) } {
            // SAFETY: the callback will not be called: take its count back.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.waiter)) };
        }
        drop(listener);
    }
}

unsafe extern "C" fn frontier_passed(user_data: *mut c_void, status: raw::iree_status_t) {
    // SAFETY: the count that `listen` gave away, and a status that is ours.
    let (waiter, result) = unsafe { (Arc::from_raw(user_data.cast::<Waiter>()), Status::check(status)) };
    let listener = waiter.listener.lock().take();
    if let Some(listener) = listener {
        // A panic ends here; objects that the listener held fail by their drop.
        let _ = thunk::catch(|| listener.reached(result));
    }
}

/// The result of a wait, once it ended.
#[derive(Default)]
struct Outcome {
    result: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Listener for Outcome {
    fn reached(self: Arc<Self>, result: Result<()>) {
        *self.result.lock() = Some(result);
        self.changed.notify_all();
    }
}

/// A wait for a frontier. Cancelled when dropped.
pub struct FrontierWait {
    _listening: FrontierListening,
    outcome: Arc<Outcome>,
}

impl FrontierWait {
    /// Waits for at most `timeout`. Returns true if the frontier has passed.
    ///
    /// # Errors
    /// The failure of one of its axes.
    pub fn wait_for(&self, timeout: Duration) -> Result<bool> {
        let mut result = self.outcome.result.lock();
        if result.is_none() {
            self.outcome.changed.wait_for(&mut result, timeout);
        }
        match &*result {
            None => Ok(false),
            Some(result) => result.clone().map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allocator, Code};

    fn tracker(axes: &[u64]) -> FrontierTracker {
        let mut tracker = core::ptr::null_mut();
        // SAFETY: plain options; the result goes to a local, with its reference.
        let tracker = unsafe {
            let options = raw::iree_async_frontier_tracker_options_default();
            let allocator = Allocator::system().to_raw();
            Status::check(raw::iree_async_frontier_tracker_create(options, allocator, &raw mut tracker)).unwrap();
            FrontierTracker::from_owned(tracker).unwrap()
        };
        for axis in axes {
            tracker.register_axis(*axis).unwrap();
        }
        tracker
    }

    #[test]
    fn a_tracker_knows_when_it_has_one_reference() {
        let tracker = tracker(&[]);
        assert!(count_is_first().unwrap(), "IREE's trackers do not begin with their count any more");
        assert!(tracker.is_unshared());
        let other = tracker.clone();
        assert!(!tracker.is_unshared() && tracker.is(&other));
        drop(other);
        assert!(tracker.is_unshared());
    }

    #[test]
    fn a_wait_ends_when_all_axes_have_passed() {
        let tracker = tracker(&[1, 2]);
        let frontier = Frontier::new([(1, 5), (2, 1)].into_iter());
        let wait = tracker.wait(&frontier).unwrap();
        tracker.advance(1, 5);
        assert!(!wait.wait_for(Duration::ZERO).unwrap());
        tracker.advance(2, 3);
        assert!(wait.wait_for(Duration::ZERO).unwrap());
        assert!(tracker.wait(&frontier).unwrap().wait_for(Duration::ZERO).unwrap(), "it has passed already");
    }

    #[test]
    fn a_wait_ends_with_the_failure_of_an_axis_and_can_be_given_up() {
        let tracker = tracker(&[1]);
        let frontier = Frontier::new([(1, 5)].into_iter());
        let (failing, given_up) = (tracker.wait(&frontier).unwrap(), tracker.wait(&frontier).unwrap());
        drop(given_up);
        tracker.fail_axis(1, crate::status!(DATA_LOSS, "lost"));
        assert_eq!(failing.wait_for(Duration::ZERO).unwrap_err().code(), Code::DATA_LOSS);
        let unknown = Frontier::new([(9, 1)].into_iter());
        assert_eq!(tracker.wait(&unknown).map(drop).unwrap_err().code(), Code::NOT_FOUND);
    }
}
