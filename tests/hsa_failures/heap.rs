// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Counts the blocks that are allocated in this process, by whomever: the C allocator's functions, defined in the
//! program, take the place of the C library's.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

static LIVE: AtomicI64 = AtomicI64::new(0);

/// Blocks that are allocated now.
pub fn live() -> i64 {
    LIVE.load(Ordering::SeqCst)
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(pointer: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(pointer: *mut c_void);
}

fn counted(pointer: *mut c_void) -> *mut c_void {
    if !pointer.is_null() {
        LIVE.fetch_add(1, Ordering::Relaxed);
    }
    pointer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    counted(unsafe { __libc_malloc(size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    counted(unsafe { __libc_calloc(count, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    let result = unsafe { __libc_realloc(pointer, size) };
    match (pointer.is_null(), size) {
        (true, _) => counted(result),
        (false, 0) if result.is_null() => {
            LIVE.fetch_sub(1, Ordering::Relaxed);
            result
        }
        _ => result,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    counted(unsafe { __libc_memalign(alignment, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    counted(unsafe { __libc_memalign(alignment, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    // SAFETY: the same contract.
    let pointer = counted(unsafe { __libc_memalign(alignment, size) });
    if pointer.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's place for the result.
    unsafe { out.write(pointer) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut c_void) {
    if !pointer.is_null() {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
    // SAFETY: the same contract.
    unsafe { __libc_free(pointer) };
}
