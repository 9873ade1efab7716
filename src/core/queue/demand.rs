// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The ring space that an operation asks for, and the most that a queue has.

use amdgpu_ffi::{Result, Status};

/// The ring space that the next part of an operation needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// Packets that the operation will write, exactly.
    pub packets: u32,
    /// Bytes of kernargs that it will take, each span rounded up to a multiple of
    /// [`amdgpu_ring::KERNARG_ALIGNMENT`].
    pub kernarg_bytes: u64,
    /// The submission will write a packet of PM4 commands.
    pub has_commands: bool,
    /// The packets may overlap each other: a barrier packet after them carries the epoch. Otherwise the last packet
    /// does, so it must have the barrier bit.
    pub overlapping: bool,
}

/// The sizes of a queue's rings, which do not change.
#[derive(Debug, Clone, Copy)]
pub struct RingLimits {
    /// Packets in the AQL ring.
    pub packets: u32,
    /// Bytes of the kernarg ring.
    pub kernarg_bytes: u64,
}

impl RingLimits {
    /// Refuses an operation that could never fit the rings: `demand` behind `waits` packets that wait.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the figures.
    #[inline]
    pub fn check_fits(&self, demand: Demand, waits: u32) -> Result<()> {
        let packets = u64::from(demand.packets) + u64::from(waits) + 1;
        let kernarg_bytes = demand.kernarg_bytes;
        if packets > u64::from(self.packets) || kernarg_bytes > self.kernarg_bytes {
            return Err(self.never_fits(packets, kernarg_bytes));
        }
        Ok(())
    }

    #[cold]
    fn never_fits(&self, packets: u64, kernarg_bytes: u64) -> Status {
        amdgpu_ffi::status!(
            RESOURCE_EXHAUSTED,
            "the operation needs {packets} packets and {kernarg_bytes} bytes of kernargs in one piece, the queue has {} and {}; \
             raise --amdgpu_rs_aql_queue_capacity or --amdgpu_rs_kernarg_capacity",
            self.packets,
            self.kernarg_bytes
        )
    }
}
