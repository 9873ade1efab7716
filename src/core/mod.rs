// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Logical devices, executables and collectives. The layers below are crates in folders of this one
//! (`docs/design/architecture.md`).

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod collectives;
pub mod device;
pub mod executable;
