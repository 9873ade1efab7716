// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The semaphores that a submission signals, as its caller lends them or as they are retained for later.

use crate::signal_list::SignalList;
use crate::{Queue, semaphore};
use amdgpu_ffi::{Semaphore, SemaphoreList, Status};

/// The semaphores that a submission signals: the caller's list, or a retained one if the submission is resumed later.
pub(super) trait Signals {
    /// Records on each semaphore that epoch `epoch` of `queue` will signal it.
    fn record_submission(&self, queue: &Queue, epoch: u64);

    /// Retains the semaphores for a record. Of a caller's list at most [`SignalList::FEW`] are retained, which takes no
    /// memory.
    fn retain(self) -> SignalList;

    /// Retains the semaphores for later.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn retain_for_later(self) -> std::result::Result<SignalList, (Status, Self)>
    where
        Self: Sized;
}

impl Signals for SemaphoreList<'_> {
    #[inline(always)]
    fn record_submission(&self, queue: &Queue, epoch: u64) {
        let mut each = self.iter();
        if let Some((semaphore, value)) = each.next() {
            semaphore::record_submission(semaphore, value, queue, epoch);
        }
        if each.len() > 0 {
            record_submissions(each, queue, epoch);
        }
    }

    #[inline(always)]
    fn retain(self) -> SignalList {
        SignalList::retain_few(self)
    }

    fn retain_for_later(self) -> std::result::Result<SignalList, (Status, Self)> {
        SignalList::retain(self).map_err(|status| (status, self))
    }
}

impl Signals for SignalList {
    fn record_submission(&self, queue: &Queue, epoch: u64) {
        record_submissions(self.iter().map(|(semaphore, value)| (semaphore.borrow(), value)), queue, epoch);
    }

    fn retain(self) -> SignalList {
        self
    }

    fn retain_for_later(self) -> std::result::Result<SignalList, (Status, Self)> {
        Ok(self)
    }
}

#[inline(never)]
fn record_submissions<'a>(signals: impl Iterator<Item = (Semaphore<'a>, u64)>, queue: &Queue, epoch: u64) {
    for (semaphore, value) in signals {
        semaphore::record_submission(semaphore, value, queue, epoch);
    }
}
