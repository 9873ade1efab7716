// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory of objects that are gone, for those to come.

use core::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

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
    /// A free block: what comes and goes one at a time takes one locked instruction each way. Null without one,
    /// [`CLOSED`] if there is never to be one.
    first: AtomicPtr<u8>,
    /// The other free blocks.
    free: Mutex<Free>,
}

/// No block's address.
const CLOSED: *mut u8 = ptr::without_provenance_mut(1);

#[derive(Debug)]
struct Free {
    /// Each with the reference to what they share that its object had: the next object gets that, so that no count
    /// changes, which threads would take from each other.
    blocks: Vec<NonNull<u8>>,
    /// Most that are kept here.
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
        let keeps = allocator.is_system() && !cfg!(sanitized);
        let (first, most) = if keeps { (ptr::null_mut(), MOST - 1) } else { (CLOSED, 0) };
        let free = Mutex::new(Free { blocks: Vec::new(), most });
        Arc::new(Self(Arc::new(Shared { allocator, length, first: AtomicPtr::new(first), free })))
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
        match self.0.take_first().or_else(|| self.0.free.lock().blocks.pop()) {
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

impl Shared {
    #[inline(always)]
    fn take_first(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Ordering::Relaxed)).filter(|first| first.as_ptr() != CLOSED)?;
        let taken = self.first.compare_exchange(first.as_ptr(), ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(first)
    }

    /// Whether `block` is the first one now.
    #[inline(always)]
    fn put_first(&self, block: NonNull<u8>) -> bool {
        let none = ptr::null_mut();
        self.first.load(Ordering::Relaxed).is_null()
            && self.first.compare_exchange(none, block.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
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
        if self.0.put_first(block) {
            return std::mem::forget(self);
        }
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
        let first = NonNull::new(self.0.first.swap(CLOSED, Ordering::Acquire));
        let first = first.filter(|first| first.as_ptr() != CLOSED);
        let blocks = {
            let mut free = self.0.free.lock();
            free.most = 0;
            std::mem::take(&mut free.blocks)
        };
        for block in first.into_iter().chain(blocks) {
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
        assert_eq!(blocks.0.free.lock().blocks.len() + 1, MOST);
        assert!(blocks.0.take_first().is_some_and(|block| !blocks.0.free.lock().blocks.contains(&block)));
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
