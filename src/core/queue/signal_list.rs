// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The semaphores that a submission signals at its completion.

use smallvec::SmallVec;

use amdgpu_ffi::{Result, Semaphore, SemaphoreList, SemaphoreRef, Status, fallible};

/// Semaphores, retained, and the payloads they are to reach. If dropped before they were signaled or failed, it fails
/// them: lost work must not leave waiters behind.
#[derive(Debug, Default)]
pub struct SignalList {
    /// Usually the only one.
    first: Option<(SemaphoreRef, u64)>,
    more: More,
}

/// The signals of a list after the first.
type More = SmallVec<[(SemaphoreRef, u64); 1]>;

impl SignalList {
    /// The number of semaphores that need no memory of their own.
    pub const FEW: usize = 2;

    /// Retains the semaphores of `list`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    #[inline(always)]
    pub fn retain(list: SemaphoreList<'_>) -> Result<Self> {
        if list.len() > Self::FEW { Self::retain_many(list) } else { Ok(Self::retain_few(list)) }
    }

    /// Retains the semaphores of `list`, of which there are at most [`Self::FEW`].
    #[inline(always)]
    pub fn retain_few(list: SemaphoreList<'_>) -> Self {
        debug_assert!(list.len() <= Self::FEW);
        let mut each = list.iter();
        let first = each.next().map(|(semaphore, value)| (semaphore.retain(), value));
        Self { first, more: if each.len() > 0 { Self::retain_more(each) } else { SmallVec::new() } }
    }

    #[inline(never)]
    fn retain_more<'a>(list: impl Iterator<Item = (Semaphore<'a>, u64)>) -> More {
        list.map(|(semaphore, value)| (semaphore.retain(), value)).collect()
    }

    #[cold]
    #[inline(never)]
    fn retain_many(list: SemaphoreList<'_>) -> Result<Self> {
        let mut more = SmallVec::new();
        fallible::make_room(&mut more, list.len())?;
        more.extend(list.iter().map(|(semaphore, value)| (semaphore.retain(), value)));
        Ok(Self { first: None, more })
    }

    /// Advances the semaphores: device work of epoch `epoch` on `axis` is complete.
    pub fn publish(mut self, axis: u64, epoch: u64) {
        for (semaphore, value) in self.drain() {
            if let Err(status) = semaphore.borrow().publish(value, axis, epoch) {
                semaphore.borrow().fail(status);
            }
        }
    }

    /// Advances the semaphores from the host.
    pub fn signal(mut self) {
        for (semaphore, value) in self.drain() {
            if let Err(status) = semaphore.borrow().signal(value) {
                semaphore.borrow().fail(status);
            }
        }
    }

    /// Fails the semaphores, each with its own copy of `status`.
    pub fn fail(mut self, status: Status) {
        for (semaphore, _) in self.drain() {
            semaphore.borrow().fail(status.clone());
        }
    }

    /// Releases the semaphores without signaling them: another owner signals them.
    pub fn release_unsignaled(mut self) {
        drop(self.drain());
    }

    /// The semaphores and payloads.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&SemaphoreRef, u64)> {
        self.first.iter().chain(&self.more).map(|(semaphore, value)| (semaphore, *value))
    }

    /// Takes the signals out.
    fn drain(&mut self) -> impl Iterator<Item = (SemaphoreRef, u64)> {
        self.first.take().into_iter().chain(self.more.drain(..))
    }
}

impl Drop for SignalList {
    fn drop(&mut self) {
        for (semaphore, _) in self.drain() {
            semaphore.borrow().fail(amdgpu_ffi::status!(CANCELLED, "the operation was dropped before it ran"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{List, Rig};
    use amdgpu_ffi::Code;

    #[test]
    fn work_that_is_dropped_fails_its_semaphores() {
        let rig = Rig::open();
        let semaphore = rig.semaphore();
        let points = [(&semaphore, 1)];
        let list = List::new(&points);
        let list = list.get();
        SignalList::retain(list).unwrap().release_unsignaled();
        assert_eq!(semaphore.borrow().query().unwrap(), 0, "whoever forgets them leaves them to somebody else");
        drop(SignalList::retain(list).unwrap());
        assert_eq!(semaphore.borrow().query().unwrap_err().code(), Code::CANCELLED);
    }
}
