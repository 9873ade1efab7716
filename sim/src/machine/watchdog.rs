// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernels that run long: one that takes some seconds is named on standard error, one that takes longer than
//! `HSA_SIM_TIMEOUT` allows is stopped, which fails its queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::execute::Kernel;

/// A queue's kernel is named after this time; the queue's next one, or the same again, after twice that, and so on.
const SLOW: Duration = Duration::from_secs(10);

/// What a queue runs, and since when.
pub struct Watchdog {
    running: Mutex<Option<(Arc<Kernel>, Instant)>>,
    slow: Mutex<Duration>,
    cancel: AtomicBool,
}

/// A kernel under way, until it is dropped.
pub struct Running<'a>(&'a Watchdog);

impl Default for Watchdog {
    fn default() -> Self {
        Self { running: Mutex::default(), slow: Mutex::new(SLOW), cancel: AtomicBool::new(false) }
    }
}

impl Watchdog {
    /// The queue begins a kernel.
    pub fn begin(&self, kernel: &Arc<Kernel>) -> Running<'_> {
        *self.running.lock() = Some((Arc::clone(kernel), Instant::now()));
        Running(self)
    }

    /// What the queue's kernels look at to stop early.
    pub fn flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// Stops the kernel under way and all later ones.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Stops a kernel that has run for `limit`; returns what is to be said of one that has run for long.
    pub fn look(&self, limit: Option<Duration>) -> Option<String> {
        let (kernel, time) =
            self.running.lock().as_ref().map(|(kernel, start)| (Arc::clone(kernel), start.elapsed()))?;
        if limit.is_some_and(|limit| time >= limit) {
            self.cancel();
            return None;
        }
        let is_due = is_due(&mut self.slow.lock(), time);
        is_due.then(|| {
            let ends = match limit {
                None => "HSA_SIM_TIMEOUT=<seconds> would end it".to_owned(),
                Some(limit) => format!("HSA_SIM_TIMEOUT ends it after {} s", limit.as_secs()),
            };
            format!("kernel {} has been running for {} s; {ends}", kernel.name, time.as_secs())
        })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running.lock() = None;
    }
}

/// Whether `time` is long enough to be told; then only twice as long is, the next time.
fn is_due(slow: &mut Duration, time: Duration) -> bool {
    let is_due = time >= *slow;
    if is_due {
        *slow *= 2;
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_kernels_are_told_less_and_less_often() {
        let mut slow = SLOW;
        let told: Vec<u64> = (0..100).filter(|&second| is_due(&mut slow, Duration::from_secs(second))).collect();
        assert_eq!(told, [10, 20, 40, 80]);
    }
}
