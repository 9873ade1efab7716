// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue operations.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod alloca;
pub mod counting;
pub mod dispatch;
pub mod files;
pub mod launch;
pub mod transfer;
