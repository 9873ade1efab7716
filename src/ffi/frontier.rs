// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Frontiers (`iree/async/frontier.h`) and the tracker that knows which
//! epochs have passed (`iree/async/frontier_tracker.h`).

use super::object::HalRef;
use super::raw;
use super::status::{Result, Status};

/// Most entries the driver puts into one frontier: one for each queue of a
/// logical device.
pub const FRONTIER_CAPACITY: usize = 64;

/// A frontier of up to [`FRONTIER_CAPACITY`] entries, in the layout of C.
#[repr(C, align(8))]
#[derive(Clone)]
pub struct Frontier {
    count: u8,
    reserved: [u8; 7],
    entries: [raw::iree_async_frontier_entry_t; FRONTIER_CAPACITY],
}

impl Frontier {
    /// A frontier of the given (axis, epoch) pairs, which come in ascending
    /// order of their axes. What exceeds the capacity is left out: a frontier
    /// may claim less than is true.
    pub fn new(entries: impl Iterator<Item = (u64, u64)>) -> Self {
        let empty = raw::iree_async_frontier_entry_t { axis: 0, epoch: 0 };
        let mut this = Self {
            count: 0,
            reserved: [0; 7],
            entries: [empty; FRONTIER_CAPACITY],
        };
        for ((axis, epoch), slot) in entries.zip(&mut this.entries) {
            *slot = raw::iree_async_frontier_entry_t { axis, epoch };
            this.count += 1;
        }
        this
    }

    /// Copies a frontier of C.
    ///
    /// # Safety
    /// `frontier` is null (the empty one) or valid.
    pub unsafe fn copy(frontier: *const raw::iree_async_frontier_t) -> Self {
        if frontier.is_null() {
            return Self::new(core::iter::empty());
        }
        // SAFETY: the caller's contract: as many entries as it says follow
        // the header.
        let entries = unsafe {
            let count = usize::from((*frontier).entry_count);
            let first = frontier
                .byte_add(core::mem::offset_of!(Self, entries))
                .cast::<raw::iree_async_frontier_entry_t>();
            core::slice::from_raw_parts(first, count)
        };
        Self::new(entries.iter().map(|entry| (entry.axis, entry.epoch)))
    }

    /// The (axis, epoch) pairs.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries[..usize::from(self.count)]
            .iter()
            .map(|entry| (entry.axis, entry.epoch))
    }

    /// The frontier as C takes it.
    pub fn as_ptr(&self) -> *const raw::iree_async_frontier_t {
        (&raw const *self).cast()
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
    /// Registers an axis, which must be new to the tracker.
    ///
    /// # Errors
    /// ALREADY_EXISTS; RESOURCE_EXHAUSTED when the tracker is full.
    pub fn register_axis(&self, axis: u64) -> Result<()> {
        // SAFETY: the tracker lives; no semaphore is bridged.
        unsafe {
            Status::check(raw::iree_async_frontier_tracker_register_axis(
                self.as_ptr(),
                axis,
                core::ptr::null_mut(),
            ))
        }
    }

    /// Says that `epoch` of `axis` has passed. Waiters are called here.
    pub fn advance(&self, axis: u64, epoch: u64) {
        // SAFETY: the tracker lives.
        unsafe { raw::iree_async_frontier_tracker_advance(self.as_ptr(), axis, epoch) };
    }

    /// Whether `epoch` of `axis` has passed.
    pub fn has_passed(&self, axis: u64, epoch: u64) -> bool {
        // SAFETY: the tracker lives.
        unsafe { raw::iree_async_frontier_tracker_query_epoch(self.as_ptr(), axis, epoch) }
    }

    /// Fails waiters of an axis whose queue is lost.
    pub fn fail_axis(&self, axis: u64, status: Status) {
        // SAFETY: the tracker lives and takes the status.
        unsafe {
            raw::iree_async_frontier_tracker_fail_axis(self.as_ptr(), axis, status.into_raw())
        }
    }

    /// Retires an axis whose queue is gone; waiters get `status`.
    pub fn retire_axis(&self, axis: u64, status: Status) {
        // SAFETY: the tracker lives and takes the status.
        unsafe {
            raw::iree_async_frontier_tracker_retire_axis(self.as_ptr(), axis, status.into_raw())
        }
    }
}
