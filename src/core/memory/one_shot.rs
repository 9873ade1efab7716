// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A value that one thread publishes, once, and one of several threads takes, without a lock.

use std::mem::MaybeUninit;

use amdgpu_sync::{AtomicBool, Ordering, UnsafeCell};

/// A value of two parts. One thread publishes it, once. From then on any thread may read the plain part until the value
/// is taken. The thread that takes the value gets the owned part, too; every other thread finds nothing to take.
pub struct OneShot<P, O> {
    /// There is a value that was not taken.
    is_here: AtomicBool,
    /// Written before `is_here` is set, and never again.
    plain: UnsafeCell<MaybeUninit<P>>,
    /// Written before `is_here` is set, and emptied by the thread that clears it.
    owned: UnsafeCell<Option<O>>,
}

// SAFETY: the owned part goes from one thread to another; `is_here` orders its accesses. The plain part is shared.
unsafe impl<P: Send + Sync, O: Send> Sync for OneShot<P, O> {}

impl<P, O> Default for OneShot<P, O> {
    /// Makes a slot that has no value yet.
    fn default() -> Self {
        Self {
            is_here: AtomicBool::new(false),
            plain: UnsafeCell::new(MaybeUninit::uninit()),
            owned: UnsafeCell::new(None),
        }
    }
}

impl<P: Copy, O> OneShot<P, O> {
    /// Publishes the value.
    ///
    /// # Safety
    /// The slot's only call of this function, ever: neither another thread nor this one calls it as well, before,
    /// meanwhile or after.
    pub unsafe fn publish(&self, plain: P, owned: O) {
        // SAFETY: no other call writes the cells, by the contract, and none reads them before `is_here` is set.
        self.plain.with_mut(|place| unsafe { (*place).write(plain) });
        // SAFETY: as above.
        self.owned.with_mut(|place| unsafe { *place = Some(owned) });
        self.is_here.store(true, Ordering::Release);
    }

    /// The plain part, if the value was published and not taken.
    pub fn get(&self) -> Option<P> {
        // SAFETY: the plain part was written before `is_here` was set.
        self.is_here.load(Ordering::Acquire).then(|| unsafe { *self.published() })
    }

    /// Takes the value, if it was published and no thread has taken it. Returns the plain part and the owned one.
    pub fn take(&self) -> Option<(&P, O)> {
        // Mostly it was taken before: no exchange for that.
        if !self.is_here.load(Ordering::Acquire) || !self.is_here.swap(false, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: the cells were written before `is_here` was set, and this thread alone has cleared it.
        let owned = self.owned.with_mut(|place| unsafe { (*place).take() })?;
        // SAFETY: as above.
        Some((unsafe { self.published() }, owned))
    }

    /// The plain part.
    ///
    /// # Safety
    /// The caller has seen `is_here` set.
    unsafe fn published(&self) -> &P {
        // SAFETY: the caller's contract; the part is not written again.
        self.plain.with(|place| unsafe { (*place).assume_init_ref() })
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use amdgpu_sync::Arc;

    /// Two threads take, one of them after a look, while a third publishes.
    #[test]
    fn one_thread_takes_what_another_publishes() {
        loom::model(|| {
            let slot = Arc::new(OneShot::<u32, Box<u32>>::default());
            let takers: Vec<_> = [false, true]
                .map(|looks| {
                    let slot = slot.clone();
                    loom::thread::spawn(move || {
                        if looks {
                            assert!(slot.get().is_none_or(|plain| plain == 1), "a part of another value");
                        }
                        slot.take().map(|(plain, owned)| (*plain, owned))
                    })
                })
                .into();
            // SAFETY: the only call.
            unsafe { slot.publish(1, Box::new(2)) };
            let mut taken: Vec<_> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
            taken.extend(slot.take().map(|(plain, owned)| (*plain, owned)));
            assert_eq!(taken, [(1, Box::new(2))], "taken once");
            assert_eq!(slot.get(), None);
        });
    }
}
