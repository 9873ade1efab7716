// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Any HAL object, kept alive without knowing its type.

use core::ptr::NonNull;

use super::object::{Borrowed, Counted, HalObject, HalRef};
use super::raw;

// SAFETY: IREE's own functions for any HAL object (`iree/hal/resource.h`).
unsafe impl Counted for raw::iree_hal_resource_t {
    #[inline]
    unsafe fn retain(this: NonNull<Self>) {
        // SAFETY: the resource is alive (`Counted::retain`).
        unsafe { raw::iree_hal_resource_retain(this.as_ptr().cast()) }
    }

    #[inline]
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the caller owns the reference that goes (`Counted::release`).
        unsafe { raw::iree_hal_resource_release(this.as_ptr().cast()) }
    }
}

/// A counted object that can become a [`Resource`].
///
/// # Safety
/// It begins with `iree_hal_resource_t`, and the first slot of its vtable destroys it: `iree_hal_resource_retain` and
/// `iree_hal_resource_release` are equivalent to its own functions.
pub unsafe trait HalResource: Counted {}

// SAFETY: such an object begins with count and vtable, whose first slot is the function that its own release calls.
unsafe impl<T: HalObject> HalResource for T {}

macro_rules! resources {
    ($($type:ident)*) => {$(
        // SAFETY: every implementation begins with `iree_hal_resource_t` (`iree/hal`).
        unsafe impl HalResource for raw::$type {}
    )*};
}

resources! { iree_hal_buffer_t iree_hal_command_buffer_t iree_hal_executable_t iree_hal_pool_t }

/// A reference to a HAL object of any type.
pub type Resource = HalRef<raw::iree_hal_resource_t>;

impl<T: HalResource> Borrowed<'_, T> {
    /// An owned reference without the type.
    pub fn retain_resource(self) -> Resource {
        self.retain().into_resource()
    }
}

impl<T: HalResource> HalRef<T> {
    /// The reference without the type.
    pub fn into_resource(self) -> Resource {
        // SAFETY: the trait promises that the resource's functions are the object's own; the reference moves.
        unsafe { Resource::from_owned(self.into_ptr().cast()) }.expect("a reference is not null")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles only while the types are not [`HalResource`]: otherwise both implementations would apply.
    #[test]
    fn counted_objects_without_a_resource_s_head_are_no_resources() {
        trait NotResource<Marker> {
            const COUNTED: bool = true;
        }
        struct Any;
        impl<T> NotResource<Any> for T {}
        impl<T: HalResource> NotResource<()> for T {}
        fn counted<T: Counted + NotResource<Marker>, Marker>() -> bool {
            T::COUNTED
        }
        // A fence's second word is an allocator, an I/O handle's first ones are its own.
        assert!(counted::<raw::iree_hal_fence_t, _>() && counted::<raw::iree_io_file_handle_t, _>());
    }
}
