// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reading attributes and iterations of the HSA runtime without trusting their sizes.

use std::ffi::{CStr, c_char, c_void};

use hsa_abi::{HsaAgent, HsaStatus};

use super::error::{Result, check, check_with};

/// The value of an attribute: the bytes that a query wrote. Every fixed-size attribute of HSA fits (the largest are bit
/// sets of 128 bytes). Bytes that were not written are zero.
#[repr(C, align(16))]
pub(super) struct Value([u8; Self::SIZE]);

impl Value {
    /// The size of the buffer in bytes.
    pub const SIZE: usize = 256;

    /// Has `query` write a value; `what` names the attribute if it fails.
    pub fn read(
        call: &'static str,
        what: impl FnOnce() -> String,
        query: impl FnOnce(*mut c_void) -> HsaStatus,
    ) -> Result<Self> {
        let mut value = Self([0; Self::SIZE]);
        let status = query(value.0.as_mut_ptr().cast());
        check_with(call, status, what)?;
        Ok(value)
    }

    fn first<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|i| self.0[i])
    }

    pub fn bool(&self) -> bool {
        self.0[0] != 0
    }

    pub fn u16(&self) -> u16 {
        u16::from_ne_bytes(self.first())
    }

    pub fn u32(&self) -> u32 {
        u32::from_ne_bytes(self.first())
    }

    pub fn u64(&self) -> u64 {
        u64::from_ne_bytes(self.first())
    }

    pub fn usize(&self) -> usize {
        self.usize_at(0)
    }

    /// Word `index` of a value of several words.
    pub fn usize_at(&self, index: usize) -> usize {
        usize::from_ne_bytes(std::array::from_fn(|i| self.0[index * size_of::<usize>() + i]))
    }

    pub fn agent(&self) -> HsaAgent {
        HsaAgent { handle: self.u64() }
    }

    /// The text that a value points to; none for null and for an empty text.
    ///
    /// # Safety
    /// The value is a `const char *`: null, or a C string that lives during the call.
    pub unsafe fn string(&self) -> Option<String> {
        let pointer: *const c_char = std::ptr::with_exposed_provenance(self.usize());
        if pointer.is_null() {
            return None;
        }
        // SAFETY: the caller's contract.
        let text = unsafe { CStr::from_ptr(pointer) }.to_string_lossy();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A string of at most `limit` bytes, ended by NUL or `limit`, without white space around it.
    pub fn text(&self, limit: usize) -> String {
        let bytes = &self.0[..limit.min(Self::SIZE)];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    }
}

/// Runs an iteration of the runtime and returns the items that it passed to the callback, in order.
///
/// `iterate` gets a callback and its data, to be passed on as they are and used only during the call.
pub(super) fn collect<T: Copy>(
    call: &'static str,
    iterate: impl FnOnce(unsafe extern "C" fn(T, *mut c_void) -> HsaStatus, *mut c_void) -> HsaStatus,
) -> Result<Vec<T>> {
    unsafe extern "C" fn push<T>(item: T, data: *mut c_void) -> HsaStatus {
        // SAFETY: `data` is the vector below, which nothing else touches during the iteration.
        unsafe { &mut *data.cast::<Vec<T>>() }.push(item);
        HsaStatus::SUCCESS
    }
    let mut items = Vec::new();
    let status = iterate(push::<T>, (&raw mut items).cast());
    check(call, status)?;
    Ok(items)
}
