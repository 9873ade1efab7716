// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The doorbell watcher: one thread that polls for bare stores.
//!
//! A doorbell is rung by a bare store, so a thread must poll it. A queue's own processor looks at it between packets
//! and for a while after the last one, and then parks. From then on this thread polls all doorbells together. Its
//! intervals are a quarter of the time for which the queue that parked last has been idle, or since a thread was woken,
//! from `SHORT` to `LONG`: a thread that wakes up each 100 us costs a tenth of a processor. A host thread that begins
//! to wait for a signal polls once as well, so that the long intervals delay only programs that ring and never wait.
//!
//! The watcher also re-checks waiting threads, whose signals a kernel or the host may change by a bare store
//! ([`Signals::need_polling`](crate::machine::signal::Signals::need_polling)), and registers of flushes. With nothing
//! to poll it looks for kernels that run long, and without queues and waiters it sleeps until there are some.

use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::machine::processor::LINGER;

const SHORT: Duration = Duration::from_micros(20);
const LONG: Duration = Duration::from_millis(1);
/// Interval of checks of long-running kernels.
const KERNELS: Duration = Duration::from_millis(100);

/// Body of the watcher's thread.
pub fn watch(machine: &Machine) {
    precise_sleep();
    let mut last_found = Instant::now();
    let mut last_kernels = Instant::now();
    let mut parked = 0;
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
        let parked_before = std::mem::replace(&mut parked, machine.parked_queues());
        if parked > parked_before {
            last_found = last_found.max(Instant::now() - LINGER);
        }
        if last_kernels.elapsed() > KERNELS {
            last_kernels = Instant::now();
            machine.watch_kernels();
        }
        if parked > 0 || machine.needs_polling() {
            thread::sleep((last_found.elapsed() / 4).clamp(SHORT, LONG));
        } else {
            thread::park_timeout(KERNELS);
            if machine.needs_polling() {
                last_found = Instant::now();
            }
        }
    }
}

/// Makes this thread's short sleeps end on time, instead of up to 50 us late.
pub fn precise_sleep() {
    // SAFETY: this only sets the calling thread's timer slack, in nanoseconds.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}
