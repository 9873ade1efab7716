// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The driver in programs that link IREE's runtime through this crate.

use crate::ffi::{Result, iree, raw};

/// Adds the driver to IREE's registry of this process, under the names `amdgpu_rs` and `amdgpu`. To be called once in a
/// program, on any thread, before it makes a device. Does not look for GPUs or HSA libraries yet.
///
/// # Errors
/// `ALREADY_EXISTS` when the driver is registered.
pub fn register() -> Result<()> {
    // SAFETY: the registry is a static of IREE with a lock of its own.
    unsafe { iree!(raw::iree_hal_amdgpu_rs_driver_module_register(raw::iree_hal_driver_registry_default())) }
}
