// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Messages on standard error of a process that runs programs, and the watchdog for hanging programs.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Prefix of the lines for the parent process.
pub const MARK: &str = "soak: ";

/// The program under way.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Writes a line to standard error in one piece, past the test harness.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A program begins.
pub fn begin(seed: u64) {
    SEED.store(seed, Ordering::SeqCst);
    say(&format!("{MARK}begins {seed}"));
}

/// The program under way went wrong: the end of the process, whatever other threads are at.
pub fn fail(what: &str) -> ! {
    say(&format!("{MARK}failed {} {}", SEED.load(Ordering::SeqCst), what.replace('\n', "; ")));
    // SAFETY: ends the process without handlers, which would report leaks.
    unsafe { libc::_exit(1) }
}

/// Current activities of a program's threads.
#[derive(Default)]
pub struct Progress {
    doing: Mutex<Vec<String>>,
    steps: AtomicU64,
}

impl Progress {
    /// Something happens.
    pub fn tick(&self) {
        self.steps.fetch_add(1, Ordering::SeqCst);
    }

    /// A thread begins something.
    pub fn doing(&self, thread: usize, what: impl FnOnce() -> String) {
        self.tick();
        let mut doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        if doing.len() <= thread {
            doing.resize(thread + 1, String::new());
        }
        doing[thread] = what();
    }

    /// Ends the process when nothing happens for so long.
    pub fn watch(self: &Arc<Self>, limit: Duration) {
        let progress = self.clone();
        std::thread::spawn(move || {
            let mut last = (0, Instant::now());
            loop {
                std::thread::park_timeout(Duration::from_millis(200));
                let steps = progress.steps.load(Ordering::SeqCst);
                if steps != last.0 {
                    last = (steps, Instant::now());
                } else if last.1.elapsed() > limit {
                    let doing = progress.doing.lock().unwrap_or_else(PoisonError::into_inner).join(" | ");
                    fail(&format!("nothing happened for {limit:?} while threads were at: {doing}"));
                }
            }
        });
    }
}
