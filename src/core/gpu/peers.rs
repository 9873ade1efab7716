// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What GPUs of different logical devices can do with each other's memory, for IREE's device topology
//! (`iree/hal/topology.h`).
//!
//! Allocations are made accessible to the GPUs of their own logical device only. Another one's GPUs reach them just
//! where the runtime gives every agent access by default; anywhere else data goes through host memory.

use std::sync::Arc;

use hsa_abi::HsaMemoryPoolAccess;

use crate::core::gpu::Gpu;
use crate::ffi::Result;

/// Whether every GPU of either list has access to the device-local memory of every GPU of the other without being given
/// it.
///
/// # Errors
/// What HSA said.
pub fn reach_each_other(ours: &[Arc<Gpu>], theirs: &[Arc<Gpu>]) -> Result<bool> {
    for a in ours {
        for b in theirs {
            if !(reaches(a, b)? && reaches(b, a)?) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn reaches(gpu: &Gpu, owner: &Gpu) -> Result<bool> {
    Ok(gpu.agent().access_to(&owner.info().coarse)?.access == HsaMemoryPoolAccess::ALLOWED_BY_DEFAULT)
}
