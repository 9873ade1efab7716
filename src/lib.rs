// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE HAL driver for AMD GPUs over HSA. `docs/architecture.md` describes
//! the rooms; each module names what it may touch.

// Panics stop where C called in (`ffi::thunk`), which needs unwinding.
#[cfg(not(panic = "unwind"))]
compile_error!("amdgpu_rs needs `panic = \"unwind\"`: a panic must not end the program that loaded the driver");

// The unit tests link IREE's runtime; see `crates/iree-test-runtime`.
#[cfg(test)]
use iree_test_runtime as _;

pub mod api;
pub mod core;
pub mod ffi;
pub mod hsa;
pub mod ring;
