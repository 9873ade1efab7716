// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rings shared with the device, and the ring that ties submissions to their completion.
//!
//! This is the only room that holds device-shared pointers and touches them, with volatile or atomic accesses and never
//! through references. Each ring states in its head comment who writes, who reads and in which order. The rings run on
//! plain host memory in tests; [`epoch::EpochRing`], whose both ends are ours, also runs under `loom`
//! (`RUSTFLAGS="--cfg loom" cargo test -p amdgpu_rs --lib loom_tests`).

pub mod aql;
pub mod epoch;
pub mod kernarg;

pub use aql::{AqlMemory, AqlRing, AqlRoom, HeaderWord, PacketBody, Reservation, body_of, body_of_dispatch};
pub use epoch::{EPOCH_INITIAL_VALUE, EpochProducer, EpochRing, Vacancy, completed_epoch, epoch_threshold};
pub use kernarg::{KERNARG_ALIGNMENT, KernargReclaimer, KernargRing, KernargSpan, bytes_of, bytes_of_mut};

/// Atomics of what only host threads share: loom's under `--cfg loom`.
pub(crate) mod sync {
    #[cfg(loom)]
    pub use loom::cell::UnsafeCell;
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
    #[cfg(loom)]
    pub use loom::thread::yield_now;

    #[cfg(not(loom))]
    pub use std::sync::atomic::{AtomicU64, Ordering, fence};
    #[cfg(not(loom))]
    pub use std::thread::yield_now;

    /// `std`'s cell under the interface of loom's.
    #[cfg(not(loom))]
    #[derive(Debug)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}
