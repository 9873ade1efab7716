// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The HAL objects that IREE calls: one file each. They check arguments, translate, and hand on to [`amdgpu_core`] and
//! the crates below it.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod allocator;
pub mod channel;
pub mod command_buffer;
pub mod device;
pub mod driver;
pub mod event;
pub mod executable;
mod profiling;
mod queue;
#[cfg(test)]
mod testing;
mod topology;
