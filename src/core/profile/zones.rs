// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! GPU zones: kernels in the trace of an IREE build that traces devices, as Tracy shows them.
//!
//! In such a build the driver runs a session of its own on each device without one of the application's, with dispatch
//! events and no sink. Each dispatch of any session with such events becomes a zone. Each hardware queue has a row of
//! zones, made at its first kernel. Zones of a row must be added in the order in which they begin. The kernels of one
//! queue are; those of several are not.

use std::sync::OnceLock;

use amdgpu_ffi::tracing::GpuContext;
use amdgpu_hsa as hsa;

/// The rows of a logical device, by queue ordinal.
#[derive(Debug, Default)]
pub struct Zones(OnceLock<Box<[OnceLock<Option<GpuContext>>]>>);

impl Zones {
    /// Adds a kernel that the queue `ordinal`, of `queue_count`, ran from the tick `start` to the tick `end` of the HSA
    /// system clock. Only the thread that drains the queue calls this. A queue whose row cannot be made, because the
    /// clock cannot be read, has no zones.
    pub fn add(&self, library: &hsa::Library, (ordinal, queue_count): (u32, usize), name: &str, ticks: (u64, u64)) {
        let rows = self.0.get_or_init(|| (0..queue_count).map(|_| OnceLock::new()).collect());
        let row = rows[ordinal as usize].get_or_init(|| {
            let tick = library.timestamp().ok()?;
            let frequency = library.system().timestamp_frequency;
            Some(GpuContext::new(&format!("amdgpu_rs queue {ordinal}"), tick, frequency))
        });
        if let Some(row) = row {
            row.zone(name, ticks);
        }
    }
}
