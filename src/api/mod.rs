// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The HAL objects that IREE calls: one file each. They check arguments, translate, and hand on to [`amdgpu_core`] and
//! the crates below it.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod allocator;
mod channel;
mod command_buffer;
mod device;
mod driver;
mod event;
mod executable;
mod profiling;
mod queue;
#[cfg(test)]
mod testing;
mod topology;

pub use allocator::{SharedMemory, iree_hal_amdgpu_rs_buffer_attach, iree_hal_amdgpu_rs_buffer_share};
pub use driver::iree_hal_amdgpu_rs_driver_create;
