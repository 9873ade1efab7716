// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Events order commands within a queue (`iree/hal/event.h`). They have no state here: packets of a queue start in the
//! order in which they were recorded, and a wait is a barrier behind everything before it, including the signal.

use std::ffi::c_void;

use amdgpu_ffi::{Allocator, HalObject, HalRef, Header, Result, raw, status, thunk};

/// `iree_hal_event_t` of this driver.
#[repr(C)]
pub struct Event {
    header: Header,
    host_allocator: Allocator,
    /// The affinity bits of the queues it may be used on.
    affinity: u64,
}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for Event {
    type Raw = raw::iree_hal_event_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_event_vtable_t = raw::iree_hal_event_vtable_t { destroy: thunk::destroy::<Event, _>() };

impl Event {
    /// An event for the queues `affinity`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(host_allocator: Allocator, affinity: u64) -> Result<HalRef<Self>> {
        HalRef::new(Self { header: Header::new::<Self>(), host_allocator, affinity })
    }

    /// Checks that commands for the queues `affinity` may use the event.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it was made for other queues.
    pub fn check_queues(&self, affinity: u64) -> Result<()> {
        if self.affinity & affinity == 0 {
            let own = self.affinity;
            return Err(status!(
                INVALID_ARGUMENT,
                "an event for queues {own:#x} in commands for queues {affinity:#x}; events order commands within a queue"
            ));
        }
        Ok(())
    }
}
