// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's files (`iree/hal/file.h`).

use super::lists::Buffer;
use super::object::{Borrowed, HalRef};
use super::status::Result;
use super::{BufferHandle, MemoryAccess, iree, raw};

/// A file of any kind.
pub type File<'a> = Borrowed<'a, raw::iree_hal_file_t>;

/// An owned reference to a file.
pub type FileRef = HalRef<raw::iree_hal_file_t>;

impl File<'_> {
    /// Checks that the file allows `access`.
    ///
    /// # Errors
    /// PERMISSION_DENIED.
    pub fn check_access(self, access: MemoryAccess) -> Result<()> {
        // SAFETY: the file lives.
        unsafe { iree!(raw::iree_hal_file_validate_access(self.as_ptr(), access.bits())) }
    }

    /// The length in bytes.
    pub fn length(self) -> u64 {
        // SAFETY: the file lives.
        unsafe { raw::iree_hal_file_length(self.as_ptr()) }
    }

    /// The buffer over the file's contents, if there is one. It keeps the memory alive without the file.
    pub fn storage(self) -> Option<BufferHandle> {
        // SAFETY: the file lives, and its buffer with it.
        unsafe { HalRef::retain(raw::iree_hal_file_storage_buffer(self.as_ptr())) }
    }

    /// True if [`Self::read`] and [`Self::write`] are supported.
    pub fn has_synchronous_access(self) -> bool {
        // SAFETY: the file lives.
        unsafe { raw::iree_hal_file_supports_synchronous_io(self.as_ptr()) }
    }

    /// Reads `length` bytes from `offset` to `target_offset` of `target`, which is mapped for that.
    ///
    /// # Errors
    /// The error of the file or of the mapping.
    pub fn read(self, offset: u64, (target, target_offset): (Buffer<'_>, usize), length: usize) -> Result<()> {
        // SAFETY: file and buffer live; the range is checked when it is mapped.
        unsafe { iree!(raw::iree_hal_file_read(self.as_ptr(), offset, target.as_ptr(), target_offset, length)) }
    }

    /// Writes `length` bytes of `source` from `source_offset` on to `offset`.
    ///
    /// # Errors
    /// The error of the file or of the mapping.
    pub fn write(self, offset: u64, (source, source_offset): (Buffer<'_>, usize), length: usize) -> Result<()> {
        // SAFETY: file and buffer live; the range is checked when it is mapped.
        unsafe { iree!(raw::iree_hal_file_write(self.as_ptr(), offset, source.as_ptr(), source_offset, length)) }
    }
}
