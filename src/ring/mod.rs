// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rings shared with the device, and the ring that links submissions to their completion.
//!
//! Only this crate accesses memory shared with devices, through raw pointers with volatile or atomic accesses, never
//! through references. The head comment of each ring names its writer, its reader and their memory order. In tests the
//! rings run on plain host memory. Structures of which the host has both ends, [`epoch::EpochRing`] and the reclaiming
//! of a [`KernargRing`], also run under `loom` (see [`amdgpu_sync`]).

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod aql;
pub mod epoch;
pub mod kernarg;

pub use aql::{AqlMemory, AqlRing, AqlRoom, HeaderWord, PacketBody, Reservation, body_of, body_of_dispatch};
pub use epoch::{EPOCH_INITIAL_VALUE, EpochProducer, EpochRing, Vacancy, completed_epoch, epoch_threshold};
pub use kernarg::{KERNARG_ALIGNMENT, KernargReclaimer, KernargRing, KernargSpan, bytes_of, bytes_of_mut};
