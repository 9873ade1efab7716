// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE's host allocator: a value of two words that is copied freely and outlives its allocations.

use core::ffi::c_void;
use core::ptr::NonNull;

use super::raw;
use super::status::{Result, Status};

/// The alignment every IREE allocator gives, in bytes (that of C's `malloc`).
pub const MAX_ALIGNMENT: usize = 16;

/// `iree_allocator_t`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Allocator(raw::iree_allocator_t);

impl core::fmt::Debug for Allocator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Allocator@{:p}", self.0.self_)
    }
}

// SAFETY: IREE's contract for allocators: their control function may be called from any thread.
unsafe impl Send for Allocator {}
// SAFETY: IREE's contract for allocators: several threads may call the control function at once.
unsafe impl Sync for Allocator {}

impl Allocator {
    /// Wraps a value from C.
    ///
    /// # Safety
    /// It is a valid allocator as long as copies of the result or their memory exist.
    pub const unsafe fn from_raw(allocator: raw::iree_allocator_t) -> Self {
        Self(allocator)
    }

    /// The process's default allocator.
    pub fn system() -> Self {
        // SAFETY: returns a constant.
        Self(unsafe { raw::iree_allocator_system() })
    }

    /// True for the process's default allocator.
    pub fn is_system(self) -> bool {
        let parts = |allocator: Self| (allocator.0.self_, allocator.0.ctl.map(|control| control as usize));
        parts(self) == parts(Self::system())
    }

    /// The value for C.
    pub const fn to_raw(self) -> raw::iree_allocator_t {
        self.0
    }

    /// Zeroed memory of `size` bytes, aligned to [`MAX_ALIGNMENT`].
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, or the error of the allocator.
    pub fn allocate(self, size: usize) -> Result<NonNull<u8>> {
        self.allocate_by(size, raw::iree_allocator_malloc)
    }

    /// Memory of `size` bytes with undefined contents, aligned to [`MAX_ALIGNMENT`].
    ///
    /// # Errors
    /// As for [`Self::allocate`].
    pub fn allocate_uninitialized(self, size: usize) -> Result<NonNull<u8>> {
        self.allocate_by(size, raw::iree_allocator_malloc_uninitialized)
    }

    fn allocate_by(
        self,
        size: usize,
        function: unsafe extern "C" fn(raw::iree_allocator_t, usize, *mut *mut c_void) -> raw::iree_status_t,
    ) -> Result<NonNull<u8>> {
        let mut pointer: *mut c_void = core::ptr::null_mut();
        // SAFETY: a function of the allocator, which is valid, and a place for its result.
        unsafe { Status::check(function(self.0, size, &raw mut pointer)) }?;
        NonNull::new(pointer.cast())
            .ok_or_else(|| crate::status!(RESOURCE_EXHAUSTED, "allocator returned no memory for {size} bytes"))
    }

    /// Frees memory of this allocator.
    ///
    /// # Safety
    /// `pointer` came from this allocator and is not used again.
    #[inline]
    pub unsafe fn free(self, pointer: NonNull<u8>) {
        // SAFETY: the caller vouches for the pointer.
        unsafe { raw::iree_allocator_free(self.0, pointer.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_aligned() {
        let allocator = Allocator::system();
        let memory = allocator.allocate(100).unwrap();
        assert_eq!(memory.addr().get() % MAX_ALIGNMENT, 0);
        // SAFETY: 100 bytes were just allocated and zeroed.
        let bytes = unsafe { core::slice::from_raw_parts(memory.as_ptr(), 100) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        // SAFETY: allocated above.
        unsafe { allocator.free(memory) };
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Allocator::system().allocate(usize::MAX).is_err());
    }
}
