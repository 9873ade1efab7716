// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Collective operations among ranks, on host memory.
//!
//! A [`World`](world::World) connects the ranks of one rendezvous: the devices of one process ([`local`]), or processes
//! by TCP ([`tcp`]) or MPI ([`mpi`]). It moves [frames](world::Frame): bytes with a key, which the receiver's
//! mailbox keeps until an operation takes them. A [`Communicator`] is a group of ranks of a world in which
//! operations run in the order of their submission, on a thread of its own. The algorithms ([`algorithms`]) and
//! reductions (`reduce`) are the same for every transport, so that results are equal bit for bit.
//!
//! [`rccl`] replaces the algorithms by RCCL's between processes, on GPU memory. Nothing else here knows of GPUs.
//! `amdgpu_core::collectives` orders the operations behind and in front of device work. The device itself orders RCCL's
//! where it can (`rccl/gates.rs`).

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod algorithms;
pub mod bootstrap;
pub mod communicator;
mod line;
pub mod local;
mod mailbox;
pub mod mpi;
pub mod operation;
pub mod rccl;
mod reduce;
pub mod tcp;
pub mod world;

pub use communicator::{Communicator, Membership};
pub use operation::{Element, Kind, Operation, Plan, Reduction};
