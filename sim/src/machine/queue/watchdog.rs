// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Watchdog for long-running kernels. A kernel that runs for some seconds is named on standard error. A kernel that
//! exceeds `HSA_SIM_TIMEOUT` is stopped, which fails its queue. Time counts only while the process has a processor:
//! kernels that wait for others use theirs, so that a busy machine ends no kernel, and each that hangs is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::machine::clock::process_cpu_time;
use crate::machine::code::kernel::Kernel;

/// Time after which a queue's kernel is named first. The time doubles with each message of the queue.
const SLOW: Duration = Duration::from_secs(10);

/// Running kernels of a queue, with their start times.
pub struct Watchdog {
    runs: Mutex<Runs>,
    slow: Mutex<Duration>,
}

#[derive(Default)]
struct Runs {
    /// Running kernels, in the order in which they began.
    all: Vec<Arc<Run>>,
    /// True if kernels that begin must stop at once.
    cancelled: bool,
}

struct Run {
    kernel: Arc<Kernel>,
    start: Start,
    cancel: AtomicBool,
}

/// A moment from which time is counted.
struct Start {
    real: Instant,
    /// Nanoseconds of CPU time that the process had used.
    cpu: u64,
}

impl Start {
    fn now() -> Self {
        Self { real: Instant::now(), cpu: process_cpu_time() }
    }

    /// The real time since then, or the process's CPU time, whichever is less.
    fn elapsed(&self) -> Duration {
        self.real.elapsed().min(Duration::from_nanos(process_cpu_time().saturating_sub(self.cpu)))
    }
}

/// A running kernel, until dropped.
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
    /// Records that the queue begins a kernel.
    pub fn begin(&self, kernel: &Arc<Kernel>) -> Running<'_> {
        let mut runs = self.runs.lock();
        let cancel = AtomicBool::new(runs.cancelled);
        let run = Arc::new(Run { kernel: Arc::clone(kernel), start: Start::now(), cancel });
        runs.all.push(Arc::clone(&run));
        Running { watchdog: self, run }
    }

    /// Stops the running kernels and all later ones.
    pub fn cancel(&self) {
        let mut runs = self.runs.lock();
        runs.cancelled = true;
        runs.all.iter().for_each(|run| run.cancel.store(true, Ordering::Relaxed));
    }

    /// Stops the longest-running kernel if it exceeds `limit`. Returns a message about a kernel that has run for long.
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
    /// Flag that the kernel polls to stop early.
    pub fn flag(&self) -> &AtomicBool {
        &self.run.cancel
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.watchdog.runs.lock().all.retain(|run| !Arc::ptr_eq(run, &self.run));
    }
}

/// True if a message about a kernel that has run for `time` is due. Then doubles the time until the next message.
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

    #[test]
    fn time_counts_while_the_process_runs_and_no_faster() {
        let begin = Instant::now();
        let before = begin.checked_sub(SLOW).expect("the system has run for longer");
        let waited = Start { real: before, cpu: process_cpu_time() };
        assert!(waited.elapsed() < SLOW);
        let worked = Start { real: before, cpu: 0 };
        assert!(worked.elapsed() > Duration::ZERO);
        let just_begun = Start { real: begin, cpu: 0 };
        let time = just_begun.elapsed();
        assert!(time <= begin.elapsed());
    }
}
