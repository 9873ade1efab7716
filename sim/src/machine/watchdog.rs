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
    runs: Mutex<Runs>,
    slow: Mutex<Duration>,
}

#[derive(Default)]
struct Runs {
    /// In the order in which they began.
    all: Vec<Arc<Run>>,
    /// Whether those that begin are to stop at once.
    cancelled: bool,
}

struct Run {
    kernel: Arc<Kernel>,
    start: Instant,
    cancel: AtomicBool,
}

/// A kernel under way, until it is dropped.
pub struct Running<'a> {
    watchdog: &'a Watchdog,
    run: Arc<Run>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self { runs: Mutex::default(), slow: Mutex::new(SLOW) }
    }
}

impl Watchdog {
    /// The queue begins a kernel.
    pub fn begin(&self, kernel: &Arc<Kernel>) -> Running<'_> {
        let mut runs = self.runs.lock();
        let cancel = AtomicBool::new(runs.cancelled);
        let run = Arc::new(Run { kernel: Arc::clone(kernel), start: Instant::now(), cancel });
        runs.all.push(Arc::clone(&run));
        Running { watchdog: self, run }
    }

    /// Stops the kernels under way and all later ones.
    pub fn cancel(&self) {
        let mut runs = self.runs.lock();
        runs.cancelled = true;
        runs.all.iter().for_each(|run| run.cancel.store(true, Ordering::Relaxed));
    }

    /// Stops the kernel that runs longest, if that is `limit`; returns what is to be said of it when it has run for
    /// long.
    pub fn look(&self, limit: Option<Duration>) -> Option<String> {
        let longest = self.runs.lock().all.first().cloned()?;
        let time = longest.start.elapsed();
        if limit.is_some_and(|limit| time >= limit) {
            longest.cancel.store(true, Ordering::Relaxed);
            return None;
        }
        let is_due = is_due(&mut self.slow.lock(), time);
        is_due.then(|| {
            let ends = match limit {
                None => "HSA_SIM_TIMEOUT=<seconds> would end it".to_owned(),
                Some(limit) => format!("HSA_SIM_TIMEOUT ends it after {} s", limit.as_secs()),
            };
            format!("kernel {} has been running for {} s; {ends}", longest.kernel.name, time.as_secs())
        })
    }
}

impl Running<'_> {
    /// What the kernel looks at to stop early.
    pub fn flag(&self) -> &AtomicBool {
        &self.run.cancel
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.watchdog.runs.lock().all.retain(|run| !Arc::ptr_eq(run, &self.run));
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
