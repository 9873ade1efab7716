// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rust's allocator in this program, the driver's among it, of which one allocation finds no memory. Those that are
//! smaller than [`LEAST`] always do: objects of a fixed size, of which Rust's library ends the process when there is no
//! memory for them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of these allocations in lists of failing functions.
pub const NAME: &str = "rust-allocation";

/// Bytes of the smallest that fails.
const LEAST: usize = 2 << 10;

static CALLS: AtomicU64 = AtomicU64::new(0);
static FAILING: AtomicU64 = AtomicU64::new(0);

/// Has allocation `call` from now on fail, counted from 1; none with 0.
pub fn fail(call: u64) {
    FAILING.store(call, Ordering::SeqCst);
    CALLS.store(0, Ordering::SeqCst);
}

/// Allocations since [`fail`].
pub fn calls() -> u64 {
    CALLS.load(Ordering::SeqCst)
}

/// Returns true if an allocation of `size` bytes is to fail.
fn fails(size: usize) -> bool {
    size >= LEAST && CALLS.fetch_add(1, Ordering::SeqCst) + 1 == FAILING.load(Ordering::SeqCst)
}

struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

// SAFETY: the system's allocator, or no memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same contract.
        if fails(layout.size()) { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same contract.
        if fails(layout.size()) { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the same contract.
        if fails(size) { null_mut() } else { unsafe { System.realloc(pointer, layout, size) } }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
