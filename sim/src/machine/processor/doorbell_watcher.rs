// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The doorbell watcher: one thread that polls for bare stores.
//!
//! A doorbell is rung by a bare store, so a thread must poll it. A queue's own processor polls for a while after its
//! last packet and then parks. From then on this thread polls all doorbells together. Its intervals are a quarter of
//! the time since it last found something, from `SHORT` to `LONG`: a thread that wakes up each 100 us costs a tenth of
//! a processor. A host thread that begins to wait for a signal polls once as well, so that the long intervals delay
//! only programs that ring and never wait.
//!
//! The watcher also re-checks waiting threads, whose signals a kernel or the host may change by a bare store, and
//! long-running kernels. Without queues and waiters it sleeps until there are some.

use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Machine;

const SHORT: Duration = Duration::from_micros(20);
const LONG: Duration = Duration::from_millis(1);
/// Interval of checks of long-running kernels.
const KERNELS: Duration = Duration::from_millis(100);

/// Body of the watcher's thread.
pub fn watch(machine: &Machine) {
    precise_sleep();
    let mut last_found = Instant::now();
    let mut last_kernels = Instant::now();
    while !machine.stopping() {
        machine.see_flushes();
        let rung = machine.wake_rung_queues();
        let woken = machine.signals.recheck();
        if machine.signals.waiters() == 0 && machine.queues.read().is_empty() {
            thread::park();
            continue;
        }
        if rung || woken {
            last_found = Instant::now();
        }
        if last_kernels.elapsed() > KERNELS {
            last_kernels = Instant::now();
            machine.watch_kernels();
        }
        thread::sleep((last_found.elapsed() / 4).clamp(SHORT, LONG));
    }
}

/// Makes this thread's short sleeps end on time, instead of up to 50 us late.
pub fn precise_sleep() {
    // SAFETY: this only sets the calling thread's timer slack, in nanoseconds.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}
