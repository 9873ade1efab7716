// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory of objects that are gone, for those to come.

use core::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::Result;
use super::allocator::Allocator;

/// Most blocks that are kept.
const MOST: usize = 64;

/// How many slots are looked at, from where others last were on: threads may be there at the same time.
const LOOKS: usize = 4;

/// In a slot that no block is to be put in. No block's address.
const CLOSED: *mut u8 = ptr::without_provenance_mut(1);

/// Blocks of one length, of a host allocator. Objects that come and go with each invocation of a program, some of them
/// on another thread than they came from, would cost more in the allocator than all else about them.
#[derive(Debug)]
pub struct Blocks(Arc<Shared>);

/// What an object in a block gives it back to, which may be there longer than the [`Blocks`].
#[derive(Debug)]
pub struct Home(Arc<Shared>);

/// The free blocks are in slots that are gone through in turns, so that each way takes one locked instruction. Each is
/// there with the reference to this that its object had: the next object gets that, so that no count changes, which
/// threads would take from each other.
#[derive(Debug)]
struct Shared {
    allocator: Allocator,
    length: usize,
    /// Free blocks; null in the others.
    slots: [AtomicPtr<u8>; MOST],
    /// Counts slots: about where the next block is taken from, and where the next one is put. If that is wrong, a block
    /// is made anew or not kept.
    taken: CachePadded<AtomicUsize>,
    given: CachePadded<AtomicUsize>,
}

impl Blocks {
    /// Blocks of `length` bytes, none of which is there yet. Those of an application's own allocator are not kept: it
    /// sees each object come and go, as it may count them. With a sanitizer, which is to see uses of what is gone, none
    /// are.
    pub fn new(allocator: Allocator, length: usize) -> Arc<Self> {
        let keeps = allocator.is_system() && !cfg!(sanitized);
        let slots = std::array::from_fn(|_| AtomicPtr::new(if keeps { ptr::null_mut() } else { CLOSED }));
        let (taken, given) = Default::default();
        Arc::new(Self(Arc::new(Shared { allocator, length, slots, taken, given })))
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
        match self.0.take() {
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
    /// The block of a slot, which is the caller's then.
    #[inline(always)]
    fn take(&self) -> Option<NonNull<u8>> {
        let next = self.taken.load(Ordering::Relaxed);
        for at in (0..LOOKS).map(|look| next.wrapping_add(look)) {
            let slot = &self.slots[at % MOST];
            let block = NonNull::new(slot.load(Ordering::Relaxed)).filter(|block| block.as_ptr() != CLOSED);
            let Some(block) = block else { continue };
            if slot.compare_exchange(block.as_ptr(), ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
                self.taken.store(at.wrapping_add(1), Ordering::Relaxed);
                return Some(block);
            }
        }
        None
    }

    /// Puts `block` in a slot; whether it is there.
    #[inline(always)]
    fn put(&self, block: NonNull<u8>) -> bool {
        let (next, none) = (self.given.load(Ordering::Relaxed), ptr::null_mut());
        for at in (0..LOOKS).map(|look| next.wrapping_add(look)) {
            let slot = &self.slots[at % MOST];
            if slot.load(Ordering::Relaxed).is_null()
                && slot.compare_exchange(none, block.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
            {
                self.given.store(at.wrapping_add(1), Ordering::Relaxed);
                return true;
            }
        }
        false
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
        if self.0.put(block) {
            return std::mem::forget(self);
        }
        // SAFETY: the caller's contract; blocks are of this allocator.
        unsafe { self.0.allocator.free(block) };
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for slot in &self.0.slots {
            let block = NonNull::new(slot.swap(CLOSED, Ordering::Acquire));
            let Some(block) = block.filter(|block| block.as_ptr() != CLOSED) else { continue };
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
        assert_eq!(std::iter::from_fn(|| blocks.0.take()).count(), MOST);
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
