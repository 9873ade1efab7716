// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Semaphores: IREE's timeline (`iree/async/semaphore.h`) and the driver's record of pending signals.
//!
//! A semaphore has a payload that only grows, or has failed. A submission that will signal it leaves its queue, epoch
//! and value in the [`Timeline`] ([`record_submission`]). A later submission can then wait for that epoch on the GPU,
//! and a host thread for that queue's epoch signal, in place of the payload. The payload advances when the epoch is
//! drained ([`complete`]). IREE's lock guards the payload and the timepoints; the submission lock is taken before it.

use std::ffi::c_void;
use std::hint::spin_loop;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use crate::Queue;
use crate::complete::{self, DrainGuard};
use crate::device_queues::DeviceQueues;
use crate::last_signal::LastSignal;
use crate::timeline::{Timeline, Waiter};
use amdgpu_ffi::{
    Allocator, Blocks, Borrowed, FRONTIER_CAPACITY, HalObject, HalRef, Home, Result, Semaphore, TIME_INFINITE_FUTURE,
    Timepoint, WaitFlags, iree, raw, status, thunk, vtable,
};

/// Time for which a thread that waits for submitted work spins, and handles the completion itself, before it sleeps and
/// leaves that to the completion thread. As long as ROCR's own waits spin before they sleep.
const SPIN: Duration = Duration::from_micros(200);

/// A semaphore of a logical device, which it may outlive. Applications and submissions hold references.
#[repr(C)]
pub struct DeviceSemaphore {
    base: raw::iree_async_semaphore_t,
    home: ManuallyDrop<Home>,
    timeline: Timeline,
    // The base names it, and the semaphore may outlive its device.
    _proactor: HalRef<raw::iree_async_proactor_t>,
}

// SAFETY: the base is IREE's own thread-safe semaphore; the rest is Send and Sync.
unsafe impl Send for DeviceSemaphore {}
// SAFETY: IREE's semaphore locks itself, the timeline is Sync, and the rest does not change.
unsafe impl Sync for DeviceSemaphore {}

// SAFETY: repr(C), the C base is first and initialised with VTABLE, which is used here only.
unsafe impl HalObject for DeviceSemaphore {
    type Raw = raw::iree_hal_semaphore_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.home.allocator()
    }

    fn home(&self) -> Option<&ManuallyDrop<Home>> {
        Some(&self.home)
    }
}

static VTABLE: raw::iree_hal_semaphore_vtable_t = raw::iree_hal_semaphore_vtable_t {
    async_: raw::iree_async_semaphore_vtable_t {
        destroy: thunk::destroy::<DeviceSemaphore, _>(),
        query: thunk::method(DeviceSemaphore::query),
        signal: thunk::method(DeviceSemaphore::signal),
        ..vtable::empty()
    },
    wait: thunk::method(DeviceSemaphore::wait),
    import_timepoint: thunk::method(DeviceSemaphore::import_timepoint),
    export_timepoint: thunk::method(DeviceSemaphore::export_timepoint),
};

/// The payload of `semaphore` now.
///
/// # Errors
/// A copy of its failure, when it has failed.
#[inline]
pub fn payload(semaphore: Semaphore<'_>) -> Result<u64> {
    Ok(payload_and_timeline(semaphore)?.0)
}

/// The payload of `semaphore` now, and the driver's part of it if this driver made it.
///
/// # Errors
/// As for [`payload`].
#[inline(always)]
pub fn payload_and_timeline<'a>(semaphore: Semaphore<'a>) -> Result<(u64, Option<&'a Timeline>)> {
    let own = semaphore.downcast::<DeviceSemaphore>();
    let payload = match own {
        // Not through its vtable.
        Some(own) if !own.has_failed() => own.value(),
        _ => query(semaphore)?,
    };
    Ok((payload, own.map(|own| &own.timeline)))
}

/// Queries a foreign or failed semaphore through its vtable.
#[cold]
fn query(semaphore: Semaphore<'_>) -> Result<u64> {
    semaphore.query()
}

/// The driver's part of `semaphore`, when this driver made it.
#[inline]
pub fn timeline(semaphore: Semaphore<'_>) -> Option<&Timeline> {
    semaphore.downcast::<DeviceSemaphore>().map(|semaphore| &semaphore.timeline)
}

/// The driver's part of `semaphore`, when the logical device of `queue` made it.
#[inline]
pub fn timeline_of<'a>(queue: &Queue, semaphore: Semaphore<'a>) -> Option<&'a Timeline> {
    timeline(semaphore).filter(|timeline| timeline.device_id() == queue.shared().id)
}

/// Records on `semaphore` that epoch `epoch` of `queue` will bring it to `value`.
#[inline(always)]
pub fn record_submission(semaphore: Semaphore<'_>, value: u64, queue: &Queue, epoch: u64) {
    if let Some(timeline) = timeline_of(queue, semaphore) {
        timeline.note(LastSignal { queue: queue.ordinal(), epoch, value });
    }
}

impl DeviceSemaphore {
    /// Offset of the frontier (a header and its entries), which follows the other fields.
    const FRONTIER_OFFSET: usize = size_of::<Self>().next_multiple_of(8);

    /// The blocks that semaphores are allocated in.
    pub fn blocks(host_allocator: Allocator) -> Arc<Blocks> {
        let frontier =
            size_of::<raw::iree_async_frontier_t>() + FRONTIER_CAPACITY * size_of::<raw::iree_async_frontier_entry_t>();
        Blocks::new(host_allocator, Self::FRONTIER_OFFSET + frontier)
    }

    /// A semaphore of the logical device `device_id` with the queues `queues`, at payload `initial_value`, in one of
    /// [`Self::blocks`].
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; OUT_OF_RANGE for a payload past the largest.
    pub fn create(
        blocks: &Arc<Blocks>,
        (device_id, queues): (u64, Weak<DeviceQueues>),
        proactor: Borrowed<'_, raw::iree_async_proactor_t>,
        initial_value: u64,
    ) -> Result<HalRef<Self>> {
        if initial_value > amdgpu_ffi::SEMAPHORE_MAX_VALUE {
            return Err(status!(OUT_OF_RANGE, "semaphores cannot start at {initial_value}"));
        }
        // SAFETY: the closure initialises every field; the frontier has as much room as the capacity says, and no
        // entries yet.
        unsafe {
            HalRef::new_in_block(blocks, move |semaphore: *mut Self, home| {
                // IREE leaves some fields as they are.
                (&raw mut (*semaphore).base).write_bytes(0, 1);
                raw::iree_async_semaphore_initialize(
                    Self::vtable().cast(),
                    proactor.as_ptr(),
                    initial_value,
                    Self::FRONTIER_OFFSET,
                    FRONTIER_CAPACITY as u8,
                    &raw mut (*semaphore).base,
                );
                (&raw mut (*semaphore).home).write(home);
                (&raw mut (*semaphore).timeline).write(Timeline::new(device_id, queues));
                (&raw mut (*semaphore)._proactor).write(proactor.retain());
            })
        }
    }

    fn base(&self) -> *mut raw::iree_async_semaphore_t {
        (&raw const self.base).cast_mut()
    }

    /// The semaphore's failure, a status that it owns; 0 if there is none.
    #[inline]
    fn failure(&self) -> isize {
        // SAFETY: the semaphore lives; the word is an atomic of IREE's.
        let failure = unsafe { AtomicIsize::from_ptr((&raw mut (*self.base()).failure_status).cast()) };
        failure.load(Ordering::Acquire)
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.failure() != 0
    }

    /// The payload, if the semaphore has not failed.
    #[inline]
    fn value(&self) -> u64 {
        // SAFETY: the semaphore lives; the word is an atomic of IREE's.
        let timeline = unsafe { AtomicU64::from_ptr((&raw mut (*self.base()).timeline_value).cast()) };
        timeline.load(Ordering::Acquire)
    }

    /// Returns true if the semaphore has neither failed nor reached `value`.
    fn is_pending(&self, value: u64) -> bool {
        !self.has_failed() && self.value() < value
    }

    fn query(&self) -> u64 {
        match self.failure() {
            0 => self.value(),
            // SAFETY: a status of the semaphore's, which only becomes another form of itself.
            failure => unsafe {
                raw::iree_hal_status_as_semaphore_failure(std::ptr::with_exposed_provenance_mut(failure as usize))
            },
        }
    }

    fn this(&self) -> Semaphore<'_> {
        // SAFETY: this object is a live semaphore.
        unsafe { Semaphore::from_raw(self.base().cast()) }.expect("an object is not null")
    }

    fn signal(&self, value: u64, frontier: *const raw::iree_async_frontier_t) -> Result<()> {
        // SAFETY: the semaphore lives, the frontier is null or valid during the call.
        unsafe {
            iree!(raw::iree_async_semaphore_advance_timeline(self.base(), value, frontier))?;
            raw::iree_async_semaphore_dispatch_timepoints(self.base(), value);
        }
        Ok(())
    }

    fn wait(&self, value: u64, timeout: raw::iree_timeout_t, flags: WaitFlags) -> Result<()> {
        let this = self.this();
        if this.query()? >= value {
            return Ok(());
        }
        // SAFETY: a pure function of the timeout.
        let deadline = instant_of(unsafe { raw::iree_timeout_as_deadline_ns(timeout) });
        if deadline.is_none_or(|deadline| deadline > Instant::now()) {
            let submission = self.timeline.submission_of(value);
            if flags.contains(WaitFlags::ACTIVE) {
                self.spin(value, submission, deadline, spin_loop);
            } else {
                if submission.is_some() {
                    let soon = Instant::now() + SPIN;
                    self.spin(value, submission, Some(deadline.map_or(soon, |it| it.min(soon))), yield_now);
                }
                if self.is_pending(value) {
                    block(this, value, deadline)?;
                }
            }
            if this.query()? >= value {
                return Ok(());
            }
        }
        Err(status!(DEADLINE_EXCEEDED, "the semaphore did not reach {value} in time"))
    }

    /// Polls the semaphore until it has reached `value` or failed, or `deadline` has passed, with a `pause` between
    /// polls. If `submission` (a queue and an epoch) is to signal it, this thread handles that epoch's completion,
    /// unless another thread does.
    ///
    /// IREE's own active wait ends at once for a deadline (`iree_notification_commit_wait`), and it does not drain.
    fn spin(&self, value: u64, submission: Option<(Arc<Queue>, u64)>, deadline: Option<Instant>, pause: impl Fn()) {
        while self.is_pending(value) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            if let Some((queue, epoch)) = &submission
                && queue.is_complete(*epoch)
                && let Some(mut draining) = DrainGuard::try_begin(queue)
            {
                complete::drain(&mut draining, *epoch);
            }
            pause();
        }
    }

    fn import_timepoint(
        &self,
        _value: u64,
        _affinity: u64,
        _timepoint: raw::iree_hal_external_timepoint_t,
    ) -> Result<()> {
        Err(status!(UNIMPLEMENTED, "amdgpu_rs semaphores import no CUDA or HIP events"))
    }

    fn export_timepoint(
        &self,
        _value: u64,
        _affinity: u64,
        _requested_type: raw::iree_hal_external_timepoint_type_t,
        _flags: u32,
        _out: *mut raw::iree_hal_external_timepoint_t,
    ) -> Result<()> {
        Err(status!(UNIMPLEMENTED, "amdgpu_rs semaphores export no CUDA or HIP events"))
    }
}

/// Sleeps until `semaphore` reaches `value` or fails, or `deadline` has passed.
///
/// Not IREE's own wait: that ends by spinning until the callback that woke it has returned, which on a busy machine
/// takes until the callback's thread is scheduled again. Here the callback owns everything that it touches, so that the
/// waiter need not wait for it.
///
/// # Errors
/// The error of IREE for the timepoint.
fn block(semaphore: Semaphore<'_>, value: u64, deadline: Option<Instant>) -> Result<()> {
    let waiter = Arc::new(Waiter::default());
    Timepoint::acquire(&waiter, Waiter::timepoint, semaphore, value)?;
    waiter.wait(deadline);
    Timepoint::cancel(&waiter, Waiter::timepoint, semaphore);
    Ok(())
}

/// A deadline of IREE's clock as one of Rust's; none for never.
fn instant_of(deadline_ns: i64) -> Option<Instant> {
    if deadline_ns == TIME_INFINITE_FUTURE {
        return None;
    }
    // SAFETY: reads the clock.
    let left = deadline_ns.saturating_sub(unsafe { raw::iree_time_now() });
    Instant::now().checked_add(Duration::from_nanos(left.max(0) as u64))
}

impl Drop for DeviceSemaphore {
    fn drop(&mut self) {
        // SAFETY: initialised by IREE; nothing refers to it any more.
        unsafe { raw::iree_async_semaphore_deinitialize(&raw mut self.base) };
    }
}
