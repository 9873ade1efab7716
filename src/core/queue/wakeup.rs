// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The wake-up flag on which a submission thread sleeps.

// From the standard library: waking a thread costs a tenth of parking_lot's wake-up.
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes one thread. Calls while the thread is awake count as one: its next [`Self::wait`] returns at once.
#[derive(Debug, Default)]
pub struct Wakeup {
    is_called: Mutex<bool>,
    called: Condvar,
}

impl Wakeup {
    /// Wakes the thread. Waits for nothing.
    pub fn call(&self) {
        *self.lock() = true;
        self.called.notify_one();
    }

    /// Sleeps until another thread has called since the last time, or `timeout` has passed.
    pub fn wait(&self, timeout: Option<Duration>) {
        let is_silent = |is_called: &mut bool| !*is_called;
        let mut is_called = match timeout {
            None => self.called.wait_while(self.lock(), is_silent).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.called.wait_timeout_while(self.lock(), timeout, is_silent);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *is_called = false;
    }

    /// The flag. No panic leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_called.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
