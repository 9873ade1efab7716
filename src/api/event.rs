// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Events order commands within a queue (`iree/hal/event.h`). They have no state here: packets of a queue start in the order in which they
//! were recorded, and a wait is a barrier after all that came before it, the signal among it.

use std::ffi::c_void;

use crate::ffi::{Allocator, HalObject, HalRef, Header, Result, raw, thunk};

/// `iree_hal_event_t` of this driver.
#[repr(C)]
pub struct Event {
    header: Header,
    host_allocator: Allocator,
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
    /// An event.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(host_allocator: Allocator) -> Result<HalRef<Self>> {
        HalRef::new(Self { header: Header::new::<Self>(), host_allocator })
    }
}
