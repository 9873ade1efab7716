// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory of objects that are gone, for those to come.

use core::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Result;
use super::allocator::Allocator;

/// Most blocks that are kept.
const MOST: usize = 64;

/// Blocks of one length, of a host allocator. Objects that come and go with each invocation of a program, some of them
/// on another thread than they came from, would cost more in the allocator than all else about them.
#[derive(Debug)]
pub struct Blocks {
    allocator: Allocator,
    length: usize,
    /// Most that are kept.
    most: usize,
    free: Mutex<Vec<NonNull<u8>>>,
}

// SAFETY: blocks are memory of an allocator of any thread's, and nobody uses the free ones.
unsafe impl Send for Blocks {}
// SAFETY: the list of free blocks is locked, and the rest does not change.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// Blocks of `length` bytes, none of which is there yet. Those of an application's own allocator are not kept: it
    /// sees each object come and go, as it may count them. With a sanitizer, which is to see uses of what is gone, none
    /// are.
    pub fn new(allocator: Allocator, length: usize) -> Arc<Self> {
        let most = if allocator.is_system() && !cfg!(sanitized) { MOST } else { 0 };
        Arc::new(Self { allocator, length, most, free: Mutex::default() })
    }

    /// What they are allocated from.
    pub fn allocator(&self) -> Allocator {
        self.allocator
    }

    /// Bytes of each.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A block, aligned as all of the allocator's memory, of whose contents nothing is known.
    ///
    /// # Errors
    /// Those of [`Allocator::allocate_uninitialized`].
    #[inline(always)]
    pub(super) fn take(&self) -> Result<NonNull<u8>> {
        let kept = self.free.lock().pop();
        match kept {
            Some(block) => Ok(block),
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Result<NonNull<u8>> {
        self.allocator.allocate_uninitialized(self.length)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// It came from [`Self::take`], and nobody uses it again.
    pub(super) unsafe fn give(&self, block: NonNull<u8>) {
        {
            let mut free = self.free.lock();
            if free.len() < self.most {
                return free.push(block);
            }
        }
        // SAFETY: the caller's contract; blocks are of this allocator.
        unsafe { self.allocator.free(block) };
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for block in self.free.get_mut().drain(..) {
            // SAFETY: of this allocator, and nobody uses it.
            unsafe { self.allocator.free(block) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(sanitized))]
    #[test]
    fn blocks_come_again_and_few_are_kept() {
        let blocks = Blocks::new(Allocator::system(), 100);
        let first = blocks.take().unwrap();
        // SAFETY: of these blocks, and not used again.
        unsafe { blocks.give(first) };
        assert_eq!(blocks.take().unwrap(), first);
        let more: Vec<_> = (0..2 * MOST).map(|_| blocks.take().unwrap()).collect();
        assert!(!more.contains(&first), "given once");
        for block in more.into_iter().chain([first]) {
            // SAFETY: of these blocks, and not used again.
            unsafe { blocks.give(block) };
        }
        assert_eq!(blocks.free.lock().len(), MOST);
    }
}
