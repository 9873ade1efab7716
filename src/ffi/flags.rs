// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's sets of flags as types: unknown flags from C are refused, and messages have the flags' names.

use std::fmt;

use bitflags::{Flags, bitflags};

use super::thunk::Argument;
use super::{Result, Status, raw, status, strings};

/// Defines sets of flags with all of IREE's names, as C may pass them. As parameters of vtable functions, they have
/// only known flags.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident: $raw:ty, $what:literal {
        $($(#[$cfg:ident $($when:tt)*])* $flag:ident = $value:ident,)*
    })*) => {$(
        bitflags! {
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name: $raw {
                $(
                    $(#[$cfg $($when)*])*
                    #[doc = concat!("`", stringify!($value), "`.")]
                    const $flag = raw::$value as $raw;
                )*
            }
        }

        impl $name {
            /// These bits, if all are known.
            ///
            /// # Errors
            /// INVALID_ARGUMENT with the unknown flags and the names of the known ones.
            #[inline]
            pub fn known(bits: $raw) -> Result<Self> {
                Self::from_bits(bits).ok_or_else(|| unknown::<Self>($what, u64::from(bits & !Self::all().bits())))
            }
        }

        // SAFETY: the integer that C has for the set.
        unsafe impl Argument for $name {
            type C = $raw;

            #[inline]
            unsafe fn from_c(bits: &$raw) -> Result<Self> {
                Self::known(*bits)
            }
        }
    )*};
}

/// The error for `bits`, which are not flags of `F`.
#[cold]
fn unknown<F: Flags>(what: &str, bits: u64) -> Status {
    let names: Vec<_> = F::all().iter_names().map(|(name, _)| name).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    status!(INVALID_ARGUMENT, "unknown {what} flags {bits:#x}; known are {known}")
}

/// Shows flags as IREE does.
macro_rules! shown_by_iree {
    ($($name:ident: $format:ident,)*) => {$(
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

flags! {
    /// `iree_hal_fill_flags_t`.
    FillFlags: u64, "fill" {}
    /// `iree_hal_update_flags_t`.
    UpdateFlags: u64, "update" {}
    /// `iree_hal_copy_flags_t`.
    CopyFlags: u64, "copy" {}
    /// `iree_hal_read_flags_t`.
    ReadFlags: u64, "read" {}
    /// `iree_hal_write_flags_t`.
    WriteFlags: u64, "write" {}
    /// `iree_hal_event_flags_t`.
    EventFlags: u32, "event" {}
    /// `iree_hal_external_file_flags_t`.
    ExternalFileFlags: u32, "external file" {}
    /// `iree_hal_external_buffer_flags_t`.
    ExternalBufferFlags: u32, "external buffer" {}
    /// `iree_hal_execution_barrier_flags_t`.
    ExecutionBarrierFlags: u64, "execution barrier" {}
    /// `iree_hal_execution_stage_t`.
    ExecutionStages: u32, "execution stage" {
        COMMAND_ISSUE = IREE_HAL_EXECUTION_STAGE_COMMAND_ISSUE,
        COMMAND_PROCESS = IREE_HAL_EXECUTION_STAGE_COMMAND_PROCESS,
        DISPATCH = IREE_HAL_EXECUTION_STAGE_DISPATCH,
        TRANSFER = IREE_HAL_EXECUTION_STAGE_TRANSFER,
        COMMAND_RETIRE = IREE_HAL_EXECUTION_STAGE_COMMAND_RETIRE,
        HOST = IREE_HAL_EXECUTION_STAGE_HOST,
    }
    /// `iree_hal_access_scope_t`.
    AccessScopes: u32, "access scope" {
        INDIRECT_COMMAND_READ = IREE_HAL_ACCESS_SCOPE_INDIRECT_COMMAND_READ,
        CONSTANT_READ = IREE_HAL_ACCESS_SCOPE_CONSTANT_READ,
        DISPATCH_READ = IREE_HAL_ACCESS_SCOPE_DISPATCH_READ,
        DISPATCH_WRITE = IREE_HAL_ACCESS_SCOPE_DISPATCH_WRITE,
        TRANSFER_READ = IREE_HAL_ACCESS_SCOPE_TRANSFER_READ,
        TRANSFER_WRITE = IREE_HAL_ACCESS_SCOPE_TRANSFER_WRITE,
        HOST_READ = IREE_HAL_ACCESS_SCOPE_HOST_READ,
        HOST_WRITE = IREE_HAL_ACCESS_SCOPE_HOST_WRITE,
        MEMORY_READ = IREE_HAL_ACCESS_SCOPE_MEMORY_READ,
        MEMORY_WRITE = IREE_HAL_ACCESS_SCOPE_MEMORY_WRITE,
    }
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
    /// `iree_async_wait_flags_t`.
    WaitFlags: u32, "wait" {
        YIELD = IREE_ASYNC_WAIT_FLAG_YIELD,
        ACTIVE = IREE_ASYNC_WAIT_FLAG_ACTIVE,
    }
    /// `iree_hal_command_category_t`.
    CommandCategories: u32, "command category" {
        TRANSFER = IREE_HAL_COMMAND_CATEGORY_TRANSFER,
        DISPATCH = IREE_HAL_COMMAND_CATEGORY_DISPATCH,
    }
    /// `iree_hal_memory_type_t`.
    MemoryType: u32, "memory type" {
        OPTIMAL = IREE_HAL_MEMORY_TYPE_OPTIMAL,
        HOST_VISIBLE = IREE_HAL_MEMORY_TYPE_HOST_VISIBLE,
        HOST_COHERENT = IREE_HAL_MEMORY_TYPE_HOST_COHERENT,
        HOST_CACHED = IREE_HAL_MEMORY_TYPE_HOST_CACHED,
        HOST_LOCAL = IREE_HAL_MEMORY_TYPE_HOST_LOCAL,
        DEVICE_VISIBLE = IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
        DEVICE_LOCAL = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
    }
    /// `iree_hal_buffer_usage_t`.
    BufferUsage: u32, "buffer usage" {
        TRANSFER_SOURCE = IREE_HAL_BUFFER_USAGE_TRANSFER_SOURCE,
        TRANSFER_TARGET = IREE_HAL_BUFFER_USAGE_TRANSFER_TARGET,
        TRANSFER = IREE_HAL_BUFFER_USAGE_TRANSFER,
        DISPATCH_INDIRECT_PARAMETERS = IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS,
        DISPATCH_UNIFORM_READ = IREE_HAL_BUFFER_USAGE_DISPATCH_UNIFORM_READ,
        DISPATCH_STORAGE_READ = IREE_HAL_BUFFER_USAGE_DISPATCH_STORAGE_READ,
        DISPATCH_STORAGE_WRITE = IREE_HAL_BUFFER_USAGE_DISPATCH_STORAGE_WRITE,
        DISPATCH_STORAGE = IREE_HAL_BUFFER_USAGE_DISPATCH_STORAGE,
        DISPATCH_IMAGE_READ = IREE_HAL_BUFFER_USAGE_DISPATCH_IMAGE_READ,
        DISPATCH_IMAGE_WRITE = IREE_HAL_BUFFER_USAGE_DISPATCH_IMAGE_WRITE,
        DISPATCH = IREE_HAL_BUFFER_USAGE_DISPATCH,
        SHARING_EXPORT = IREE_HAL_BUFFER_USAGE_SHARING_EXPORT,
        SHARING_REPLICATE = IREE_HAL_BUFFER_USAGE_SHARING_REPLICATE,
        SHARING_CONCURRENT = IREE_HAL_BUFFER_USAGE_SHARING_CONCURRENT,
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
    MemoryAccess: u16, "memory access" {
        READ = IREE_HAL_MEMORY_ACCESS_READ,
        WRITE = IREE_HAL_MEMORY_ACCESS_WRITE,
        DISCARD = IREE_HAL_MEMORY_ACCESS_DISCARD,
        MAY_ALIAS = IREE_HAL_MEMORY_ACCESS_MAY_ALIAS,
        UNALIGNED = IREE_HAL_MEMORY_ACCESS_UNALIGNED,
        ANY = IREE_HAL_MEMORY_ACCESS_ANY,
        ALL = IREE_HAL_MEMORY_ACCESS_ALL,
    }
    /// `iree_hal_buffer_placement_flags_t`.
    PlacementFlags: u32, "buffer placement" {
        ASYNCHRONOUS = IREE_HAL_BUFFER_PLACEMENT_FLAG_ASYNCHRONOUS,
        INDETERMINATE_LIFETIME = IREE_HAL_BUFFER_PLACEMENT_FLAG_INDETERMINATE_LIFETIME,
    }
    /// `iree_hal_command_buffer_mode_t`.
    CommandBufferMode: u32, "command buffer mode" {
        ONE_SHOT = IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT,
        ALLOW_INLINE_EXECUTION = IREE_HAL_COMMAND_BUFFER_MODE_ALLOW_INLINE_EXECUTION,
        UNVALIDATED = IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED,
        UNRETAINED = IREE_HAL_COMMAND_BUFFER_MODE_UNRETAINED,
        RETAIN_PROFILE_METADATA = IREE_HAL_COMMAND_BUFFER_MODE_RETAIN_PROFILE_METADATA,
        #[cfg(iree_retain_dispatch_metadata)]
        RETAIN_DISPATCH_METADATA = IREE_HAL_COMMAND_BUFFER_MODE_RETAIN_DISPATCH_METADATA,
    }
}

shown_by_iree! {
    MemoryType: iree_hal_memory_type_format,
    BufferUsage: iree_hal_buffer_usage_format,
    MemoryAccess: iree_hal_memory_access_format,
    CommandBufferMode: iree_hal_command_buffer_mode_format,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    /// All flags of one set are known, the bit behind them is refused by its value, and the known ones are named.
    #[test]
    fn what_is_unknown_is_refused_by_its_value() {
        macro_rules! refusals {
            ($($name:ident: $flag:literal,)*) => {$(
                assert_eq!($name::known($name::all().bits()).unwrap(), $name::all());
                assert_eq!($name::known(0).unwrap(), $name::empty());
                let unknown = ($name::all().bits() + 1).next_power_of_two();
                let refused = $name::known($name::all().bits() | unknown).unwrap_err();
                assert_eq!(refused.code(), Code::INVALID_ARGUMENT);
                let message = refused.to_string();
                assert!(message.contains(&format!(" flags {unknown:#x}; known are ")), "{message}");
                assert!(message.contains($flag), "{message}");
            )*};
        }
        refusals! {
            FillFlags: "known are none",
            UpdateFlags: "known are none",
            CopyFlags: "known are none",
            ReadFlags: "known are none",
            WriteFlags: "known are none",
            EventFlags: "known are none",
            ExternalFileFlags: "known are none",
            ExternalBufferFlags: "known are none",
            ExecutionBarrierFlags: "known are none",
            ExecutionStages: "COMMAND_ISSUE, COMMAND_PROCESS, DISPATCH",
            AccessScopes: "INDIRECT_COMMAND_READ, CONSTANT_READ, DISPATCH_READ",
            DispatchFlags: "CUSTOM_DIRECT_ARGUMENTS",
            ExecuteFlags: "BORROW_BINDING_TABLE_LIFETIME",
            HostCallFlags: "WAIT_ACTIVE",
            AllocaFlags: "INDETERMINATE_LIFETIME",
            DeallocaFlags: "PREFER_ORIGIN",
            SemaphoreFlags: "SINGLE_PRODUCER",
            WaitFlags: "YIELD, ACTIVE",
            CommandCategories: "TRANSFER, DISPATCH",
            MemoryType: "OPTIMAL, HOST_VISIBLE",
            BufferUsage: "TRANSFER_SOURCE, TRANSFER_TARGET, DISPATCH_INDIRECT_PARAMETERS",
            MemoryAccess: "READ, WRITE, DISCARD, MAY_ALIAS, UNALIGNED, ANY",
            PlacementFlags: "ASYNCHRONOUS",
            CommandBufferMode: "ONE_SHOT, ALLOW_INLINE_EXECUTION, UNVALIDATED, UNRETAINED",
        }
    }
}
