// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The doorbell watcher: one thread that polls for bare stores.
//!
//! A doorbell is rung by a bare store, so a thread must poll it. A queue's own processor polls for a while after its
//! last packet and then parks. From then on this thread polls all doorbells together, at intervals that double from
//! `FIRST` to `RECENT` after a doorbell was rung, and to `LONG` when none was rung for `QUIET`. A host thread that
//! begins to wait for a signal polls once as well, so that the long intervals delay only programs that ring and never
//! wait.
//!
//! The watcher also re-checks waiting threads, whose signals a kernel or the host may change by a bare store, and
//! long-running kernels. Without queues and waiters it sleeps until there are some.

use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Machine;

const FIRST: Duration = Duration::from_micros(20);
const RECENT: Duration = Duration::from_micros(100);
const LONG: Duration = Duration::from_millis(1);
const QUIET: Duration = Duration::from_millis(200);
/// Interval of checks of long-running kernels.
const KERNELS: Duration = Duration::from_millis(100);

/// Body of the watcher's thread.
pub fn watch(machine: &Machine) {
    precise_sleep();
    let mut interval = FIRST;
    let mut last_rung = Instant::now();
    let mut last_kernels = Instant::now();
    while !machine.stopping() {
        machine.see_flushes();
        let rung = machine.wake_rung_queues();
        let waiters = machine.signals.recheck();
        if !waiters && machine.queues.read().is_empty() {
            thread::park();
            continue;
        }
        if rung {
            last_rung = Instant::now();
            interval = FIRST;
        }
        if last_kernels.elapsed() > KERNELS {
            last_kernels = Instant::now();
            machine.watch_kernels();
        }
        thread::sleep(interval);
        let longest = if last_rung.elapsed() < QUIET { RECENT } else { LONG };
        interval = (interval * 2).min(longest);
    }
}

/// Makes this thread's short sleeps end on time, instead of up to 50 us late.
pub fn precise_sleep() {
    // SAFETY: this only sets the calling thread's timer slack, in nanoseconds.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}
