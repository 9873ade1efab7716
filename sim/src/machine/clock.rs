// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The clocks: the system's, which counts nanoseconds since boot, and the GPUs', which they write to signals and memory.

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
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * CLOCK_HZ + time.tv_nsec as u64
}
