// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rings shared with the device, and the ring that ties submissions to their completion.
//!
//! This is the only room that holds device-shared pointers and touches them, with volatile or atomic accesses and never
//! through references. Each ring states in its head comment who writes, who reads and in which order. The rings run on
//! plain host memory in tests; what the host has both ends of, [`epoch::EpochRing`] and the reclaiming of a
//! [`KernargRing`], also runs under `loom` (see [`crate::sync`]).

pub mod aql;
pub mod epoch;
pub mod kernarg;

pub use aql::{AqlMemory, AqlRing, AqlRoom, HeaderWord, PacketBody, Reservation, body_of, body_of_dispatch};
pub use epoch::{EPOCH_INITIAL_VALUE, EpochProducer, EpochRing, Vacancy, completed_epoch, epoch_threshold};
pub use kernarg::{KERNARG_ALIGNMENT, KernargReclaimer, KernargRing, KernargSpan, bytes_of, bytes_of_mut};
