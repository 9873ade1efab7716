// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How tests launch kernels.

use hsa_abi::{HsaSignal, KernelDispatchPacket, PacketHeader};
use sim_wave::{Jit, Launch};

/// A launch of `grid` work-items in workgroups of `group`, on one thread, that nothing watches. It has the address of
/// `arguments`, which must stay where they are until it is over.
pub fn launch<'a, T>(grid: [u32; 3], group: [u16; 3], arguments: &[T]) -> Launch<'a> {
    Launch {
        packet: KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: 3,
            workgroup_size: group,
            reserved0: 0,
            grid_size: grid,
            private_segment_size: 0,
            group_segment_size: 0,
            kernel_object: 0,
            kernarg_address: arguments.as_ptr().expose_provenance() as u64,
            reserved2: 0,
            completion_signal: HsaSignal::default(),
        },
        packet_addr: 0,
        queue_addr: 0,
        dispatch_id: 0,
        user_registers: None,
        threads: 1,
        resident: 64,
        gws: None,
        cancel: None,
        jit: Jit::ALWAYS,
        watch: None,
    }
}
