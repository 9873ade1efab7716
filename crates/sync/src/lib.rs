// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Building blocks of the host's lock-free structures: the standard library's types, and loom's under `--cfg loom`.
//!
//! A structure that threads share without a lock uses these types and has a module `loom_tests`, which
//! `RUSTFLAGS="--cfg loom" cargo test -p amdgpu-ffi -p amdgpu-memory -p amdgpu-queue -p amdgpu-ring --lib loom_tests`
//! runs in every order that loom finds.
//! `xtask/src/lock_free.rs` lists these structures, and all other uses of atomics with the reason why they need no
//! model. `cargo xtask check` compares the sources with that list.

#[cfg(loom)]
pub use loom::cell::UnsafeCell;
#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::Arc;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::thread::yield_now;

#[cfg(not(loom))]
pub use std::hint::spin_loop;
#[cfg(not(loom))]
pub use std::sync::Arc;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub use std::thread::yield_now;

/// The standard library's cell with the interface of loom's.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell with `value`.
    #[inline]
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to read through.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to read and write through.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
