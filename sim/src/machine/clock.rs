// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The clocks: the system's, which counts nanoseconds since boot, and the GPUs', which they write to signals and
//! memory.
//!
//! With `HSA_SIM_CLOCK=instructions`, a GPU's clock stands still in a packet but for its kernels, of which each
//! executed instruction takes a nanosecond: [`CountedTime`].

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks of [`now`] in a second.
pub const CLOCK_HZ: u64 = 1_000_000_000;

/// Ticks of a GPU's clock in a second. GPUs write its time to signals and memory.
pub const DEVICE_CLOCK_HZ: u64 = 100_000_000;
/// Start of the GPUs' clocks, in ticks of the system's clock: before any program ran.
const DEVICE_CLOCK_START: u64 = CLOCK_HZ;

/// Converts ticks of the system's clock to ticks of a GPU's.
pub fn device_ticks(system: u64) -> u64 {
    system.saturating_sub(DEVICE_CLOCK_START) / (CLOCK_HZ / DEVICE_CLOCK_HZ)
}

/// Converts ticks of a GPU's clock to ticks of the system's.
pub fn system_ticks(device: u64) -> u64 {
    DEVICE_CLOCK_START + device * (CLOCK_HZ / DEVICE_CLOCK_HZ)
}

/// Nanoseconds since boot: the system's clock.
pub fn now() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds of CPU time that all threads of the process have used.
pub fn process_cpu_time() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * CLOCK_HZ + time.tv_nsec as u64
}

/// Time of a queue that counts instructions, in ticks of the GPU's clock.
#[derive(Debug, Default)]
pub struct CountedTime(AtomicU64);

impl CountedTime {
    /// Begins a packet, not before now and not before the end of the last one.
    pub fn begin(&self) {
        self.0.fetch_max(device_ticks(now()), Ordering::Relaxed);
    }

    /// Adds the time of a kernel: whole ticks, so that it does not depend on when the kernel began.
    pub fn add(&self, instructions: u64) {
        self.0.fetch_add(instructions.div_ceil(CLOCK_HZ / DEVICE_CLOCK_HZ), Ordering::Relaxed);
    }

    /// The time, in ticks of the system's clock.
    pub fn get(&self) -> u64 {
        system_ticks(self.0.load(Ordering::Relaxed))
    }
}
