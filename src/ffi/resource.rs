// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Any HAL object, kept alive without knowing its type.

use core::ptr::NonNull;

use super::object::{Borrowed, Counted, HalRef};
use super::raw;

// SAFETY: IREE's own functions for any HAL object (`iree/hal/resource.h`).
unsafe impl Counted for raw::iree_hal_resource_t {
    unsafe fn retain(this: NonNull<Self>) {
        // SAFETY: the caller's contract.
        unsafe { raw::iree_hal_resource_retain(this.as_ptr().cast()) }
    }

    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the caller's contract.
        unsafe { raw::iree_hal_resource_release(this.as_ptr().cast()) }
    }
}

/// A reference to a HAL object of any type.
pub type Resource = HalRef<raw::iree_hal_resource_t>;

impl<T: Counted> Borrowed<'_, T> {
    /// An owned reference that forgets the type. `T` must begin with
    /// `iree_hal_resource_t`, as all counted objects of `iree/hal` do.
    pub fn retain_resource(self) -> Resource {
        self.retain().into_resource()
    }
}

impl<T: Counted> HalRef<T> {
    /// The same reference without the type; see
    /// [`Borrowed::retain_resource`].
    pub fn into_resource(self) -> Resource {
        // SAFETY: the object begins with count and vtable, whose first slot
        // is what the resource's release calls; the reference moves.
        unsafe { Resource::from_owned(self.into_ptr().cast()) }.expect("a reference is not null")
    }
}
