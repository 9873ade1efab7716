// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The binary interface between an HSA program, an HSA runtime and an AMD GPU.
//!
//! Everything here is a layout or a number fixed by someone else: the HSA Runtime Programmer's Reference Manual 1.2
//! ("HSA Runtime"), the HSA Platform System Architecture Specification 1.2 ("HSA SysArch"), ROCR's public headers
//! `hsa.h`, `hsa_ext_amd.h`, `hsa_ven_amd_loader.h`, `amd_hsa_queue.h`, `amd_hsa_signal.h`, and LLVM's "User Guide for
//! AMDGPU Backend" ("AMDGPUUsage"). Sizes and offsets are asserted at compile time for 64-bit little-endian hosts, the
//! only ones ROCR supports ("large machine model").
//!
//! C enumerations are open here: a transparent integer with associated constants, so that a value
//! this crate does not know is still a valid value of the type.

#![no_std]

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!("hsa-abi describes the HSA large machine model: 64-bit little-endian hosts only");

/// Declares a C enumeration as a transparent integer with named values.
macro_rules! c_enum {
    (
        $(#[$meta:meta])*
        $name:ident: $repr:ty {
            $($(#[$value_meta:meta])* $value_name:ident = $value:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The value as C sees it.
            pub $repr,
        );

        impl $name {
            $($(#[$value_meta])* pub const $value_name: Self = Self($value);)*
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Self::$value_name => f.write_str(stringify!($value_name)),)*
                    #[allow(unreachable_patterns)]
                    Self(value) => write!(f, concat!(stringify!($name), "({:#x})"), value),
                }
            }
        }
    };
}

/// Asserts the size of a `repr(C)` type and the offsets of its fields.
macro_rules! assert_layout {
    ($type:ty, size $size:expr $(, $($field:ident).+ @ $offset:expr)* $(,)?) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $($field).+) == $offset);)*
        };
    };
}

pub mod aqlprofile;
pub mod compute;
mod event;
mod handle;
mod info;
mod kernel;
mod loader;
mod memory;
mod packet;
pub mod performance;
pub mod pfn;
mod queue;
mod signal;
mod status;
pub mod thread_trace;

pub use event::*;
pub use handle::*;
pub use info::*;
pub use kernel::*;
pub use loader::*;
pub use memory::*;
pub use packet::*;
pub use queue::*;
pub use signal::*;
pub use status::*;
