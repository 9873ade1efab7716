// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reuse of the memory of objects.

use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use super::Result;
use super::allocator::Allocator;
use amdgpu_sync::{Arc, AtomicPtr, AtomicUsize, Ordering};

/// The most blocks that are kept. Few in a loom model, which tries all thread interleavings.
const MOST: usize = if cfg!(loom) { 2 } else { 64 };

/// The slots that are tried, starting at the counted position: other threads may use it at the same time.
const LOOKS: usize = if cfg!(loom) { 2 } else { 4 };

/// Marks a slot that takes no block. Not the address of a block.
const CLOSED: *mut u8 = ptr::without_provenance_mut(1);

/// Allocates memory of this many bytes.
type Allocate = fn(Allocator, usize) -> Result<NonNull<u8>>;

/// Blocks of one length from a host allocator. Objects that are made and destroyed in each invocation of a program,
/// partly on different threads, would cost more in the allocator than everything else about them.
#[derive(Debug)]
pub struct Blocks(Arc<Shared>);

/// The return address of an object's block. It may outlive the [`Blocks`].
#[derive(Debug)]
pub struct Home(Arc<Shared>);

/// Free blocks are in slots that are used in turn, so that taking and giving back each need one locked instruction. A
/// free block keeps the reference to this struct that its object had, and its next object gets it. So no reference
/// count changes, on which threads would contend.
#[derive(Debug)]
struct Shared {
    allocator: Allocator,
    length: usize,
    /// Allocates a block of this many bytes.
    allocate: Allocate,
    /// Free blocks; null in empty slots.
    slots: [AtomicPtr<u8>; MOST],
    /// Counts taken blocks: roughly the next slot to take from; `given` is the next to give to. If they are wrong, a
    /// block is allocated anew or freed.
    taken: CachePadded<AtomicUsize>,
    given: CachePadded<AtomicUsize>,
}

impl Blocks {
    /// Blocks of `length` bytes, none at first. Blocks of an application's own allocator are not kept: it may count
    /// objects and sees each one. AddressSanitizer detects uses of free blocks (`poison`).
    pub fn new(allocator: Allocator, length: usize) -> std::sync::Arc<Self> {
        Self::with(allocator, length, allocator.is_system(), Allocator::allocate_uninitialized)
    }

    /// Blocks that are zeroed when taken, and not kept.
    pub fn zeroed(allocator: Allocator, length: usize) -> std::sync::Arc<Self> {
        Self::with(allocator, length, false, Allocator::allocate)
    }

    fn with(allocator: Allocator, length: usize, keeps: bool, allocate: Allocate) -> std::sync::Arc<Self> {
        let slots = std::array::from_fn(|_| AtomicPtr::new(if keeps { ptr::null_mut() } else { CLOSED }));
        let (taken, given) = Default::default();
        std::sync::Arc::new(Self(Arc::new(Shared { allocator, length, allocate, slots, taken, given })))
    }

    /// The allocator of the blocks.
    pub fn allocator(&self) -> Allocator {
        self.0.allocator
    }

    /// Bytes of a block.
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Takes a block with undefined contents, aligned as all memory of the allocator, and its home.
    ///
    /// # Errors
    /// As for [`Allocator::allocate_uninitialized`].
    #[inline(always)]
    pub(super) fn take(&self) -> Result<(NonNull<u8>, Home)> {
        match self.0.take() {
            Some(block) => {
                poison::end(block, self.0.length);
                // SAFETY: the reference that was kept with the block.
                Ok((block, Home(unsafe { Arc::from_raw(Arc::as_ptr(&self.0)) })))
            }
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Result<(NonNull<u8>, Home)> {
        Ok(((self.0.allocate)(self.0.allocator, self.0.length)?, Home(self.0.clone())))
    }
}

impl Shared {
    /// Takes the block of a slot.
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

    /// Puts `block` in a slot. Returns true if it is kept. The reference to `this` then belongs to the next taker of
    /// the block. It may be the last one, so that `this` may be gone.
    ///
    /// # Safety
    /// The caller gives away its reference with the block.
    #[inline(always)]
    unsafe fn put(this: *const Self, block: NonNull<u8>) -> bool {
        // SAFETY: there until the block is in a slot, which ends this.
        let (slots, given) = unsafe { (&(*this).slots, &(*this).given) };
        let (next, none) = (given.load(Ordering::Relaxed), ptr::null_mut());
        for at in (0..LOOKS).map(|look| next.wrapping_add(look)) {
            let slot = &slots[at % MOST];
            if slot.load(Ordering::Relaxed).is_null() {
                given.store(at.wrapping_add(1), Ordering::Relaxed);
                if slot.compare_exchange(none, block.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok() {
                    return true;
                }
            }
        }
        false
    }
}

impl Home {
    /// The allocator of the block.
    pub fn allocator(&self) -> Allocator {
        self.0.allocator
    }

    /// Gives the block back.
    ///
    /// # Safety
    /// The block came with this home, and is not used again.
    pub(super) unsafe fn give(self, block: NonNull<u8>) {
        let this = ManuallyDrop::new(self);
        let (shared, allocator, length) = (Arc::as_ptr(&this.0), this.0.allocator, this.0.length);
        poison::begin(block, length);
        // SAFETY: the reference of this, which is not dropped; if the block is in a slot, nothing here is used again.
        if unsafe { Shared::put(shared, block) } {
            return;
        }
        poison::end(block, length);
        // SAFETY: the caller's contract; blocks are of this allocator.
        unsafe { allocator.free(block) };
        drop(ManuallyDrop::into_inner(this));
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for slot in &self.0.slots {
            let block = NonNull::new(slot.swap(CLOSED, Ordering::Acquire));
            let Some(block) = block.filter(|block| block.as_ptr() != CLOSED) else { continue };
            poison::end(block, self.0.length);
            // SAFETY: of this allocator, and no longer used; the reference that was kept with it.
            unsafe {
                self.0.allocator.free(block);
                drop(Arc::from_raw(Arc::as_ptr(&self.0)));
            }
        }
    }
}

/// Poisoning of free blocks for AddressSanitizer.
mod poison {
    use core::ptr::NonNull;

    #[cfg(address_sanitizer)]
    unsafe extern "C" {
        fn __asan_poison_memory_region(start: *const core::ffi::c_void, length: usize);
        fn __asan_unpoison_memory_region(start: *const core::ffi::c_void, length: usize);
    }

    /// Poisons `block`: an access from now on is a fault.
    #[inline(always)]
    pub fn begin(block: NonNull<u8>, length: usize) {
        let _ = (block, length);
        #[cfg(address_sanitizer)]
        // SAFETY: changes only the sanitizer's reports.
        unsafe {
            __asan_poison_memory_region(block.as_ptr().cast(), length);
        }
    }

    /// Unpoisons `block`, which is in use again.
    #[inline(always)]
    pub fn end(block: NonNull<u8>, length: usize) {
        let _ = (block, length);
        #[cfg(address_sanitizer)]
        // SAFETY: changes only the sanitizer's reports.
        unsafe {
            __asan_unpoison_memory_region(block.as_ptr().cast(), length);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use amdgpu_sync::UnsafeCell;

    impl Drop for Shared {
        fn drop(&mut self) {
            // Another thread's accesses to these happen before, as loom checks.
            self.taken.with_mut(|_| ());
            self.given.with_mut(|_| ());
            self.slots.iter_mut().for_each(|slot| slot.with_mut(|_| ()));
        }
    }

    /// Shared blocks. Loom sees which thread releases them last.
    fn blocks() -> Arc<std::sync::Arc<Blocks>> {
        Arc::new(Blocks::new(Allocator::system(), 100))
    }

    #[test]
    fn the_last_to_leave_is_whoever_gives_or_whoever_drops() {
        loom::model(|| {
            let blocks = blocks();
            let (block, home) = blocks.take().unwrap();
            // SAFETY: of these blocks, and not used again.
            let giver = loom::thread::spawn(move || unsafe { home.give(block) });
            drop(blocks);
            giver.join().unwrap();
        });
    }

    #[test]
    fn a_block_is_one_threads_at_a_time() {
        loom::model(|| {
            let blocks = blocks();
            let (block, home) = blocks.take().unwrap();
            // SAFETY: of these blocks, and not used again.
            unsafe { home.give(block) };
            // The contents, as loom sees them.
            let contents = Arc::new(UnsafeCell::new(()));
            let address = block.as_ptr() as usize;
            let use_one = move |blocks: Arc<std::sync::Arc<Blocks>>, contents: Arc<UnsafeCell<()>>| {
                let (block, home) = blocks.take().unwrap();
                if block.as_ptr() as usize == address {
                    contents.with_mut(|_| ());
                }
                // SAFETY: of these blocks, and not used again.
                unsafe { home.give(block) };
            };
            let other = {
                let (blocks, contents) = (blocks.clone(), contents.clone());
                loom::thread::spawn(move || use_one(blocks, contents))
            };
            use_one(blocks, contents);
            other.join().unwrap();
        });
    }
}
