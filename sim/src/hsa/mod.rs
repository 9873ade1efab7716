// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The exported HSA functions. Each checks its arguments, calls the [machine](crate::machine) and turns the result into
//! a status. None lets a panic out.
//!
//! HSA Runtime 1.2 and, for `hsa_amd_*`, `hsa_ext_amd.h` specify the functions. Their documentation here only describes
//! this runtime's own behaviour. The signatures are those of [`hsa_abi::pfn`]; the compiler checks them.
//!
//! # Safety
//!
//! As in C: pointers must be valid for the reads and writes that the specification describes, and handles must have
//! come from this runtime. Handles of agents, pools, regions, instruction sets, readers, executables, symbols and
//! queues are checked and may be garbage. Handles of signals are followed by everything except creation, destruction
//! and packets.

#![allow(clippy::missing_safety_doc, reason = "the module's documentation has it, once for all")]

mod agent;
mod copy;
mod executable;
mod image;
mod index;
mod memory;
mod queue;
mod share;
mod signal;
mod system;
mod vmem;

use std::ffi::{c_char, c_void};
use std::panic::{self, AssertUnwindSafe};

use hsa_abi::HsaStatus;

use crate::inject;

pub use agent::*;
pub use copy::*;
pub use executable::*;
pub use image::*;
pub use index::*;
pub use memory::*;
pub use queue::*;
pub use share::*;
pub use signal::*;
pub use system::*;
pub use vmem::*;

/// Declares that functions have the types that [`hsa_abi::pfn`] gives them.
macro_rules! check_signatures {
    ($($name:ident)*) => {$(
        const _: hsa_abi::pfn::$name = $name;
    )*};
}
use check_signatures;

/// Runs the body of an exported function and turns its outcome into a status. The body is a closure in that function,
/// by which fault injection ([`inject`]) knows its name.
fn guard<Body: FnOnce() -> Result<(), HsaStatus>>(body: Body) -> HsaStatus {
    if let Some(status) = inject::status_of::<Body>() {
        return status;
    }
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => HsaStatus::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => HsaStatus::ERROR,
    }
}

/// Turns a callback's status into a result: anything but success ends an iteration.
fn proceed(status: HsaStatus) -> Result<(), HsaStatus> {
    if status == HsaStatus::SUCCESS { Ok(()) } else { Err(status) }
}

/// An output argument.
struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks that the argument is not null.
    fn new(pointer: *mut T) -> Result<Self, HsaStatus> {
        if pointer.is_null() { Err(HsaStatus::ERROR_INVALID_ARGUMENT) } else { Ok(Self(pointer)) }
    }

    /// Writes the result.
    ///
    /// # Safety
    /// The pointer is valid for a write of `T`; it need not be aligned.
    unsafe fn write(self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// The `value` argument of a `get_info` function. The attribute decides its type.
struct Value(*mut c_void);

impl Value {
    /// Checks that the argument is not null.
    fn new(pointer: *mut c_void) -> Result<Self, HsaStatus> {
        Out::new(pointer).map(|out| Self(out.0))
    }

    /// Writes the attribute.
    ///
    /// # Safety
    /// The pointer is valid for a write of `T`; it need not be aligned.
    unsafe fn put<T: Copy>(self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.cast::<T>().write_unaligned(value) }
    }

    /// Writes the bytes of a string without a NUL.
    ///
    /// # Safety
    /// The pointer is valid for a write of as many bytes.
    unsafe fn put_bytes(self, text: &str) {
        // SAFETY: the caller's promise; a caller's buffer does not overlap ours.
        unsafe { self.0.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) }
    }

    /// Writes a string as `N` bytes, cut to fit and padded with at least one NUL.
    ///
    /// # Safety
    /// The pointer is valid for a write of `N` bytes.
    unsafe fn put_text<const N: usize>(self, text: &str) {
        let mut bytes = [0; N];
        let length = text.len().min(N - 1);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        // SAFETY: the caller's promise.
        unsafe { self.put(bytes) }
    }
}

/// Elements of an array argument, which may be null if there are none.
///
/// # Safety
/// The pointer is valid for reads of `count` aligned elements for as long as the slice is used.
unsafe fn slice<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], HsaStatus> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A string argument.
///
/// # Safety
/// The pointer is null or a NUL-terminated string that stays valid while the result is used.
unsafe fn string<'a>(pointer: *const c_char) -> Result<&'a str, HsaStatus> {
    if pointer.is_null() {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)
}
