// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE HAL driver for AMD GPUs over HSA. `docs/design/architecture.md` describes the modules; the head of each module
//! says what it owns.
//!
//! With the feature `standalone` the crate brings IREE's runtime with it: a Rust program calls `register` and uses
//! IREE's C API through [`ffi`]. The program `examples/embed.rs` shows it.

// Messages go out through `ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

// Panics stop where C called in (`ffi::thunk`), which needs unwinding.
#[cfg(not(panic = "unwind"))]
compile_error!("amdgpu_rs needs `panic = \"unwind\"`: a panic must not end the program that loaded the driver");

#[cfg(feature = "standalone")]
mod standalone;

// For programs with the feature `standalone` and for `tests/`, which call IREE through it.
pub use amdgpu_ffi as ffi;

pub use amdgpu_api::{
    SharedMemory, iree_hal_amdgpu_rs_buffer_attach, iree_hal_amdgpu_rs_buffer_share, iree_hal_amdgpu_rs_driver_create,
};
pub use amdgpu_memory::address_of as device_address;
#[cfg(feature = "standalone")]
pub use standalone::register;
