// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The HSA runtime (`libhsa-runtime64`), found and loaded while the program runs.
//!
//! The types of this crate own HSA resources. An object keeps the runtime up while it lives, and releases its resource
//! when dropped. Unless a type says otherwise it may be used on any thread. Memory shared with devices (rings, signal
//! values, kernel arguments) is only available as raw pointers.
//!
//! Semantics are those of the HSA Runtime Programmer's Reference Manual 1.2 and of ROCR's `hsa_ext_amd.h`.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod agent;
pub mod aqlprofile;
mod copy;
pub mod discovery;
mod error;
mod events;
mod executable;
mod library;
mod memory;
mod queue;
mod signal;
mod symbols;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod value;

pub use agent::{Agent, AgentInfo, HdpFlush};
pub use copy::MemoryCopy;
pub use error::{Error, Result};
pub use events::{Fault, FaultKind, FaultListener, fault_of, listen, tells_faults};
pub use executable::{Executable, Kernel, LoadRange, Variable};
pub use library::Library;
pub use memory::{
    Allocation, Attachment, HostLock, MappedDmaBuf, MemoryPool, MemoryPoolInfo, Part, PointerInfo, export_dmabuf,
    lock_host, pointer_info, share_memory,
};
pub use queue::HardwareQueue;
pub use signal::Signal;

#[cfg(test)]
#[path = "runtime_test.rs"]
mod tests;
