// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory of machine code.

use std::io;
use std::ptr::NonNull;

/// Machine code, in pages of its own that are never writable and executable at once. Dropping it unmaps them.
pub struct Code {
    start: NonNull<u8>,
    /// Bytes of the mapping.
    size: usize,
}

// SAFETY: the pages are not written after `new`, and belong to no thread.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Copies `bytes` to new pages, and makes these executable.
    ///
    /// # Errors
    /// The system's, if it has no memory or forbids executable memory.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        let size = bytes.len().max(1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping touches no other memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("code mapped at address 0"))?;
        let code = Code { start, size };
        // SAFETY: the mapping has at least so many bytes, is writable, and no other code knows it.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        // SAFETY: the range is the mapping's.
        if unsafe { libc::mprotect(start.as_ptr().cast(), size, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(code)
    }

    /// Address of a byte of the code, valid as long as this lives.
    pub fn at(&self, offset: usize) -> *const u8 {
        assert!(offset < self.size, "byte {offset} of {} bytes of code", self.size);
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Bytes of the code.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping's, and by the contract of `at` it is not used any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}
