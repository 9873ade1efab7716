// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Vtables: statics filled by field name, so that a checkout with other slots still compiles, and a check that C has
//! the same struct layouts.

use super::raw;

/// A struct of nullable function pointers and nothing else.
///
/// # Safety
/// All-zero bytes are a valid value: every slot empty.
pub unsafe trait Vtable: Sized {}

macro_rules! vtables {
    ($($type:ident),* ; $($other:ident),* $(,)?) => {
        $(
            // SAFETY: bindgen makes each slot an `Option` of a function.
            unsafe impl Vtable for raw::$type {}
        )*

        /// Name and size in bytes, as the bindings have them, of every vtable
        /// the driver fills and of the structs it embeds.
        pub const SIZES: &[(&str, usize)] = &[
            $((stringify!($type), size_of::<raw::$type>()),)*
            $((stringify!($other), size_of::<raw::$other>())),*
        ];
    };
}

vtables!(
    iree_async_semaphore_vtable_t,
    iree_hal_allocator_vtable_t,
    iree_hal_buffer_vtable_t,
    iree_hal_command_buffer_vtable_t,
    iree_hal_device_vtable_t,
    iree_hal_driver_vtable_t,
    iree_hal_event_vtable_t,
    iree_hal_executable_cache_vtable_t,
    iree_hal_executable_vtable_t,
    iree_hal_pool_vtable_t,
    iree_hal_semaphore_vtable_t,
    iree_hal_slab_provider_vtable_t;
    iree_async_semaphore_t,
    iree_hal_allocator_statistics_t,
    iree_hal_buffer_t,
    iree_hal_command_buffer_t,
);

/// IREE's function that records a command on one buffer.
pub type BufferCommand = unsafe extern "C" fn(
    *mut raw::iree_hal_command_buffer_t,
    raw::iree_hal_buffer_ref_t,
) -> *mut raw::iree_status_handle_t;

/// IREE's commands `flush_buffer` and `invalidate_buffer`; empty for IREE 3.12, which has neither.
pub const CACHE_COMMANDS: &[BufferCommand] = &[
    #[cfg(iree_command_buffer_flush)]
    raw::iree_hal_command_buffer_flush_buffer,
    #[cfg(iree_command_buffer_flush)]
    raw::iree_hal_command_buffer_invalidate_buffer,
];

/// `vtable` with its slots `flush_buffer` and `invalidate_buffer` filled, where IREE has them.
pub const fn with_cache_commands(
    vtable: raw::iree_hal_command_buffer_vtable_t,
    flush: Option<BufferCommand>,
    invalidate: Option<BufferCommand>,
) -> raw::iree_hal_command_buffer_vtable_t {
    #[cfg(iree_command_buffer_flush)]
    return raw::iree_hal_command_buffer_vtable_t { flush_buffer: flush, invalidate_buffer: invalidate, ..vtable };
    #[cfg(not(iree_command_buffer_flush))]
    {
        let _ = (flush, invalidate);
        vtable
    }
}

/// A vtable without any method, for `..vtable::empty()`.
pub const fn empty<V: Vtable>() -> V {
    // SAFETY: the trait's contract.
    unsafe { core::mem::zeroed() }
}
