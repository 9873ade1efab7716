// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Functions of the library beside HSA's: findings, costs, and a hold of all GPUs.

use std::ffi::{c_char, c_void};

use crate::machine::Machine;
use crate::machine::lifecycle::machine;
use crate::machine::memory::allocation::AllocationInfo;

/// Not part of HSA. Returns the number of different findings since `hsa_init`, by kernel and instructions; 0 without
/// `hsa_init`.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_sim_findings() -> u64 {
    machine().map_or(0, |machine| machine.findings.len() as u64)
}

impl Machine {
    /// Bytes of allocations in GPUs' own memory.
    fn vram(&self) -> u64 {
        let owned =
            |range: &AllocationInfo| self.agents[range.owner.0].gpu.as_ref().is_some_and(|gpu| gpu.memory.is_some());
        self.memory.allocations().iter().filter(|range| owned(range)).map(|range| range.size).sum()
    }

    /// Holds all queues, which then take no further packets, or releases them.
    fn hold(&self, is_held: bool) {
        self.costs.begin();
        for queue in &*self.queues.read() {
            if !is_held {
                queue.mark_late();
            }
        }
        self.costs.set_held(is_held);
        for queue in &*self.queues.read() {
            queue.unpark();
        }
    }
}

/// Not part of HSA. While `is_held`, queues take no packets, but complete those in progress. The first call turns
/// counting on. Packets that are written after the release count as the host's round trips, until the next hold.
///
/// Does nothing without `hsa_init`.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_sim_hold(is_held: bool) {
    if let Ok(machine) = machine() {
        machine.hold(is_held);
    }
}

/// Not part of HSA. Calls `callback` with the name of each cost and its count since `hsa_init`, and with `vram_bytes`,
/// the current size of allocations in GPUs' own memory. Names are NUL-terminated and valid during the callback. Without
/// `hsa_init` there are none.
///
/// # Safety
/// `callback` accepts `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_iterate_costs(
    callback: unsafe extern "C" fn(name: *const c_char, count: u64, data: *mut c_void),
    data: *mut c_void,
) {
    let Ok(machine) = machine() else { return };
    for (name, count) in machine.costs.iter().chain([("vram_bytes", machine.vram())]) {
        // Names have no NUL.
        let name = std::ffi::CString::new(name).unwrap_or_default();
        // SAFETY: the caller passed this callback for this data.
        unsafe { callback(name.as_ptr(), count, data) };
    }
}
