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
pub struct Blocks(Arc<Shared>);

/// What an object in a block gives it back to, which may be there longer than the [`Blocks`].
#[derive(Debug)]
pub struct Home(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    allocator: Allocator,
    length: usize,
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Each with the reference to what they share that its object had: the next object gets that, so that no count
    /// changes, which threads would take from each other.
    blocks: Vec<NonNull<u8>>,
    /// Most that are kept.
    most: usize,
}

// SAFETY: blocks are memory of an allocator of any thread's, and nobody uses the free ones.
unsafe impl Send for Shared {}
// SAFETY: the list of free blocks is locked, and the rest does not change.
unsafe impl Sync for Shared {}

impl Blocks {
    /// Blocks of `length` bytes, none of which is there yet. Those of an application's own allocator are not kept: it
    /// sees each object come and go, as it may count them. With a sanitizer, which is to see uses of what is gone, none
    /// are.
    pub fn new(allocator: Allocator, length: usize) -> Arc<Self> {
        let most = if allocator.is_system() && !cfg!(sanitized) { MOST } else { 0 };
        let free = Mutex::new(Free { blocks: Vec::new(), most });
        Arc::new(Self(Arc::new(Shared { allocator, length, free })))
    }

    /// What they are allocated from.
    pub fn allocator(&self) -> Allocator {
        self.0.allocator
    }

    /// Bytes of each.
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// A block, aligned as all of the allocator's memory, of whose contents nothing is known, and what it is given back
    /// to.
    ///
    /// # Errors
    /// Those of [`Allocator::allocate_uninitialized`].
    #[inline(always)]
    pub(super) fn take(&self) -> Result<(NonNull<u8>, Home)> {
        let kept = self.0.free.lock().blocks.pop();
        match kept {
            // SAFETY: the reference that was kept with the block.
            Some(block) => Ok((block, Home(unsafe { Arc::from_raw(Arc::as_ptr(&self.0)) }))),
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Result<(NonNull<u8>, Home)> {
        Ok((self.0.allocator.allocate_uninitialized(self.0.length)?, Home(self.0.clone())))
    }
}

impl Home {
    /// What the block was allocated from.
    pub fn allocator(&self) -> Allocator {
        self.0.allocator
    }

    /// Takes the block back.
    ///
    /// # Safety
    /// It came with this, and nobody uses it again.
    pub(super) unsafe fn give(self, block: NonNull<u8>) {
        {
            let mut free = self.0.free.lock();
            if free.blocks.len() < free.most {
                free.blocks.push(block);
                drop(free);
                return std::mem::forget(self);
            }
        }
        // SAFETY: the caller's contract; blocks are of this allocator.
        unsafe { self.0.allocator.free(block) };
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let blocks = {
            let mut free = self.0.free.lock();
            free.most = 0;
            std::mem::take(&mut free.blocks)
        };
        for block in blocks {
            // SAFETY: of this allocator, and nobody uses it; the reference that was kept with it.
            unsafe {
                self.0.allocator.free(block);
                drop(Arc::from_raw(Arc::as_ptr(&self.0)));
            }
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
        let (first, home) = blocks.take().unwrap();
        let give = |(block, home): (NonNull<u8>, Home)| {
            // SAFETY: of these blocks, and not used again.
            unsafe { home.give(block) };
        };
        give((first, home));
        let again = blocks.take().unwrap();
        assert_eq!(again.0, first);
        let more: Vec<_> = (0..2 * MOST).map(|_| blocks.take().unwrap()).collect();
        assert!(more.iter().all(|(block, _)| *block != first), "given once");
        more.into_iter().chain([again]).for_each(give);
        assert_eq!(blocks.0.free.lock().blocks.len(), MOST);
    }

    #[test]
    fn blocks_that_are_out_outlive_the_others() {
        let blocks = Blocks::new(Allocator::system(), 100);
        let (kept, last) = (blocks.take().unwrap(), blocks.take().unwrap());
        // SAFETY: of these blocks, and not used again.
        unsafe { kept.1.give(kept.0) };
        let shared = Arc::downgrade(&blocks.0);
        drop(blocks);
        assert_eq!(shared.strong_count(), 1, "that of the one that is out");
        // SAFETY: of these blocks, and not used again.
        unsafe { last.1.give(last.0) };
        assert_eq!(shared.strong_count(), 0);
    }
}
