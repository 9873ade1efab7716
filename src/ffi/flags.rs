// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's sets of flags as types: unknown ones are refused where C hands them in, and messages name them.

use std::fmt;

use bitflags::bitflags;

use super::{Result, raw, status, strings};

/// Sets of flags of what the HAL is asked for.
macro_rules! operation_flags {
    ($($(#[$doc:meta])* $name:ident: $raw:ty, $what:literal { $($flag:ident = $value:ident,)* })*) => {$(
        bitflags! {
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name: $raw {
                $(
                    #[doc = concat!("`", stringify!($value), "`.")]
                    const $flag = raw::$value as $raw;
                )*
            }
        }

        impl $name {
            /// These bits, if all are known.
            ///
            /// # Errors
            /// INVALID_ARGUMENT.
            pub fn known(bits: $raw) -> Result<Self> {
                Self::from_bits(bits).ok_or_else(|| {
                    let unknown = bits & !Self::all().bits();
                    status!(INVALID_ARGUMENT, concat!("unknown ", $what, " flags {:#x}"), unknown)
                })
            }
        }
    )*};
}

operation_flags! {
    /// `iree_hal_dispatch_flags_t`.
    DispatchFlags: u64, "dispatch" {
        DYNAMIC_INDIRECT_PARAMETERS = IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS,
        STATIC_INDIRECT_PARAMETERS = IREE_HAL_DISPATCH_FLAG_STATIC_INDIRECT_PARAMETERS,
        CUSTOM_DIRECT_ARGUMENTS = IREE_HAL_DISPATCH_FLAG_CUSTOM_DIRECT_ARGUMENTS,
        DYNAMIC_INDIRECT_ARGUMENTS = IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_ARGUMENTS,
        STATIC_INDIRECT_ARGUMENTS = IREE_HAL_DISPATCH_FLAG_STATIC_INDIRECT_ARGUMENTS,
        ALLOW_INLINE_EXECUTION = IREE_HAL_DISPATCH_FLAG_ALLOW_INLINE_EXECUTION,
        BORROW_RESOURCE_LIFETIMES = IREE_HAL_DISPATCH_FLAG_BORROW_RESOURCE_LIFETIMES,
    }
    /// `iree_hal_execute_flags_t`.
    ExecuteFlags: u64, "execute" {
        BORROW_BINDING_TABLE_LIFETIME = IREE_HAL_EXECUTE_FLAG_BORROW_BINDING_TABLE_LIFETIME,
    }
    /// `iree_hal_host_call_flags_t`.
    HostCallFlags: u64, "host call" {
        NON_BLOCKING = IREE_HAL_HOST_CALL_FLAG_NON_BLOCKING,
        WAIT_ACTIVE = IREE_HAL_HOST_CALL_FLAG_WAIT_ACTIVE,
        RELAXED = IREE_HAL_HOST_CALL_FLAG_RELAXED,
    }
    /// `iree_hal_alloca_flags_t`.
    AllocaFlags: u64, "alloca" {
        INDETERMINATE_LIFETIME = IREE_HAL_ALLOCA_FLAG_INDETERMINATE_LIFETIME,
        ALLOW_POOL_WAIT_FRONTIER = IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER,
    }
    /// `iree_hal_dealloca_flags_t`.
    DeallocaFlags: u64, "dealloca" {
        PREFER_ORIGIN = IREE_HAL_DEALLOCA_FLAG_PREFER_ORIGIN,
    }
    /// `iree_hal_semaphore_flags_t`.
    SemaphoreFlags: u64, "semaphore" {
        DEVICE_LOCAL = IREE_HAL_SEMAPHORE_FLAG_DEVICE_LOCAL,
        HOST_INTERRUPT = IREE_HAL_SEMAPHORE_FLAG_HOST_INTERRUPT,
        EXPORTABLE = IREE_HAL_SEMAPHORE_FLAG_EXPORTABLE,
        EXPORTABLE_TIMEPOINTS = IREE_HAL_SEMAPHORE_FLAG_EXPORTABLE_TIMEPOINTS,
        SINGLE_PRODUCER = IREE_HAL_SEMAPHORE_FLAG_SINGLE_PRODUCER,
    }
    /// `iree_hal_command_category_t`.
    CommandCategories: u32, "command category" {
        TRANSFER = IREE_HAL_COMMAND_CATEGORY_TRANSFER,
        DISPATCH = IREE_HAL_COMMAND_CATEGORY_DISPATCH,
    }
}

/// Sets of flags that IREE has names for, and of which other versions of it have more.
macro_rules! named_flags {
    ($($(#[$doc:meta])* $name:ident: $raw:ty, $format:ident { $($flag:ident = $value:ident,)* })*) => {$(
        bitflags! {
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name: $raw {
                $(
                    #[doc = concat!("`", stringify!($value), "`.")]
                    const $flag = raw::$value as $raw;
                )*
                // Those that another version of IREE may have.
                const _ = !0;
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // SAFETY: all-zero text storage is valid and outlives its use; the text is copied.
                let text = unsafe {
                    let mut storage: raw::iree_bitfield_string_temp_t = std::mem::zeroed();
                    strings::text(raw::$format(self.bits(), &raw mut storage)).into_owned()
                };
                f.write_str(&text)
            }
        }
    )*};
}

named_flags! {
    /// `iree_hal_memory_type_t`.
    MemoryType: u32, iree_hal_memory_type_format {
        OPTIMAL = IREE_HAL_MEMORY_TYPE_OPTIMAL,
        HOST_VISIBLE = IREE_HAL_MEMORY_TYPE_HOST_VISIBLE,
        HOST_COHERENT = IREE_HAL_MEMORY_TYPE_HOST_COHERENT,
        HOST_LOCAL = IREE_HAL_MEMORY_TYPE_HOST_LOCAL,
        DEVICE_VISIBLE = IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
        DEVICE_LOCAL = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
    }
    /// `iree_hal_buffer_usage_t`.
    BufferUsage: u32, iree_hal_buffer_usage_format {
        TRANSFER_SOURCE = IREE_HAL_BUFFER_USAGE_TRANSFER_SOURCE,
        TRANSFER_TARGET = IREE_HAL_BUFFER_USAGE_TRANSFER_TARGET,
        TRANSFER = IREE_HAL_BUFFER_USAGE_TRANSFER,
        DISPATCH_INDIRECT_PARAMETERS = IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS,
        DISPATCH_STORAGE = IREE_HAL_BUFFER_USAGE_DISPATCH_STORAGE,
        DISPATCH = IREE_HAL_BUFFER_USAGE_DISPATCH,
        SHARING_REPLICATE = IREE_HAL_BUFFER_USAGE_SHARING_REPLICATE,
        SHARING_CONCURRENT = IREE_HAL_BUFFER_USAGE_SHARING_CONCURRENT,
        SHARING_EXPORT = IREE_HAL_BUFFER_USAGE_SHARING_EXPORT,
        SHARING_IMMUTABLE = IREE_HAL_BUFFER_USAGE_SHARING_IMMUTABLE,
        MAPPING_SCOPED = IREE_HAL_BUFFER_USAGE_MAPPING_SCOPED,
        MAPPING_PERSISTENT = IREE_HAL_BUFFER_USAGE_MAPPING_PERSISTENT,
        MAPPING_OPTIONAL = IREE_HAL_BUFFER_USAGE_MAPPING_OPTIONAL,
        MAPPING_ACCESS_RANDOM = IREE_HAL_BUFFER_USAGE_MAPPING_ACCESS_RANDOM,
        MAPPING_ACCESS_SEQUENTIAL_WRITE = IREE_HAL_BUFFER_USAGE_MAPPING_ACCESS_SEQUENTIAL_WRITE,
        MAPPING = IREE_HAL_BUFFER_USAGE_MAPPING,
        DEFAULT = IREE_HAL_BUFFER_USAGE_DEFAULT,
    }
    /// `iree_hal_memory_access_t`.
    MemoryAccess: u16, iree_hal_memory_access_format {
        READ = IREE_HAL_MEMORY_ACCESS_READ,
        WRITE = IREE_HAL_MEMORY_ACCESS_WRITE,
        ALL = IREE_HAL_MEMORY_ACCESS_ALL,
        ANY = IREE_HAL_MEMORY_ACCESS_ANY,
    }
    /// `iree_hal_command_buffer_mode_t`.
    CommandBufferMode: u32, iree_hal_command_buffer_mode_format {
        ONE_SHOT = IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT,
        UNVALIDATED = IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED,
        UNRETAINED = IREE_HAL_COMMAND_BUFFER_MODE_UNRETAINED,
    }
}
