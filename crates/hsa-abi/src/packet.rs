// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! AQL packets (HSA SysArch 2.9, HSA Runtime 2.6; AMD's own from `hsa_ext_amd.h` and ROCR).
//!
//! Every packet is 64 bytes and begins with a 16-bit header. A producer writes the rest of the packet first and
//! publishes it by a release store of the header, best together with the following 16 bits as one 32-bit store.

use crate::{HsaSignal, HsaSignalCondition, HsaSignalValue};

/// Bytes in every AQL packet.
pub const AQL_PACKET_SIZE: usize = 64;

c_enum! {
    /// `hsa_packet_type_t`: bits 0–7 of a header.
    HsaPacketType: u8 {
        /// An [`AmdFormat`] packet on AMD hardware.
        VENDOR_SPECIFIC = 0,
        /// Not published yet: the packet processor stops in front of it.
        INVALID = 1,
        /// [`KernelDispatchPacket`].
        KERNEL_DISPATCH = 2,
        /// [`BarrierAndPacket`].
        BARRIER_AND = 3,
        /// [`AgentDispatchPacket`].
        AGENT_DISPATCH = 4,
        /// [`BarrierAndPacket`], complete when any of its signals is zero.
        BARRIER_OR = 5,
    }
}

c_enum! {
    /// `hsa_fence_scope_t`: the scope of a packet's acquire or release fence.
    HsaFenceScope: u8 {
        /// No fence.
        NONE = 0,
        /// Other work on the same agent.
        AGENT = 1,
        /// Every agent.
        SYSTEM = 2,
    }
}

/// The 16-bit header of a packet (`hsa_packet_header_t`): type in bits 0–7, barrier in bit 8,
/// acquire fence scope in bits 9–10, release fence scope in bits 11–12.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader(
    /// The header's bits.
    pub u16,
);

impl PacketHeader {
    /// The header of a slot that holds no packet yet.
    pub const INVALID: Self = Self(HsaPacketType::INVALID.0 as u16);

    /// A header from its parts.
    pub const fn new(
        packet_type: HsaPacketType,
        barrier: bool,
        acquire: HsaFenceScope,
        release: HsaFenceScope,
    ) -> Self {
        Self(packet_type.0 as u16 | (barrier as u16) << 8 | (acquire.0 as u16 & 3) << 9 | (release.0 as u16 & 3) << 11)
    }

    /// Type of the packet.
    pub const fn packet_type(self) -> HsaPacketType {
        HsaPacketType(self.0 as u8)
    }

    /// True if the packet starts only when all earlier packets of its queue are complete.
    pub const fn barrier(self) -> bool {
        self.0 & (1 << 8) != 0
    }

    /// Scope of the fence applied before the packet runs.
    pub const fn acquire_scope(self) -> HsaFenceScope {
        HsaFenceScope((self.0 >> 9) as u8 & 3)
    }

    /// Scope of the fence applied before the packet completes.
    pub const fn release_scope(self) -> HsaFenceScope {
        HsaFenceScope((self.0 >> 11) as u8 & 3)
    }

    /// Bits 13–15, which must be zero.
    pub const fn reserved(self) -> u16 {
        self.0 >> 13
    }
}

/// `hsa_kernel_dispatch_packet_t`: runs a kernel over a grid. Aligned as in C, for lists of prepared packets; in a ring
/// it is aligned to its size as all packets are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelDispatchPacket {
    /// Header.
    pub header: PacketHeader,
    /// Number of grid dimensions, 1 to 3, in bits 0–1; the rest is zero.
    pub setup: u16,
    /// Work-items in a workgroup, per dimension; 1 in unused dimensions.
    pub workgroup_size: [u16; 3],
    /// Zero.
    pub reserved0: u16,
    /// Work-items in the grid, per dimension; 1 in unused dimensions.
    pub grid_size: [u32; 3],
    /// Bytes of private memory for each work-item.
    pub private_segment_size: u32,
    /// Bytes of group memory for each workgroup, static and dynamic.
    pub group_segment_size: u32,
    /// Address of the kernel's [`KernelDescriptor`](crate::KernelDescriptor).
    pub kernel_object: u64,
    /// Address of the arguments, at least 16-byte aligned; unchanged until the packet completes.
    pub kernarg_address: u64,
    /// Zero.
    pub reserved2: u64,
    /// Decremented when the dispatch is complete; may be null.
    pub completion_signal: HsaSignal,
}

assert_layout!(KernelDispatchPacket, size 64,
    header @ 0, setup @ 2, workgroup_size @ 4, grid_size @ 12, private_segment_size @ 24,
    group_segment_size @ 28, kernel_object @ 32, kernarg_address @ 40, completion_signal @ 56);

/// `hsa_agent_dispatch_packet_t`: asks an agent for a built-in function.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct AgentDispatchPacket {
    /// Header.
    pub header: PacketHeader,
    /// The function.
    pub dispatch_type: u16,
    /// Zero.
    pub reserved0: u32,
    /// Address of the function's results.
    pub return_address: u64,
    /// Arguments.
    pub arg: [u64; 4],
    /// Zero.
    pub reserved2: u64,
    /// Decremented when the function is complete; may be null.
    pub completion_signal: HsaSignal,
}

assert_layout!(AgentDispatchPacket, size 64,
    header @ 0, dispatch_type @ 2, return_address @ 8, arg @ 16, completion_signal @ 56);

/// `hsa_barrier_and_packet_t`: completes when all its signals are zero.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct BarrierAndPacket {
    /// Header.
    pub header: PacketHeader,
    /// Zero.
    pub reserved0: u16,
    /// Zero.
    pub reserved1: u32,
    /// Signals that must reach zero; null ones are met.
    pub dep_signal: [HsaSignal; 5],
    /// Zero.
    pub reserved2: u64,
    /// Decremented when the packet is complete; may be null.
    pub completion_signal: HsaSignal,
}

assert_layout!(BarrierAndPacket, size 64, header @ 0, dep_signal @ 8, completion_signal @ 56);

c_enum! {
    /// `hsa_amd_packet_type8_t`: the kind of a vendor-specific packet of AMD.
    AmdFormat: u8 {
        /// [`AmdPm4IbPacket`].
        PM4_IB = 1,
        /// [`AmdBarrierValuePacket`].
        BARRIER_VALUE = 2,
    }
}

/// `hsa_amd_vendor_packet_header_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AmdVendorHeader {
    /// Header, of type [`HsaPacketType::VENDOR_SPECIFIC`].
    pub header: PacketHeader,
    /// The kind of AMD packet.
    pub format: AmdFormat,
    /// Zero.
    pub reserved: u8,
}

assert_layout!(AmdVendorHeader, size 4, header @ 0, format @ 2);

/// `hsa_amd_barrier_value_packet_t`: completes when `(signal & mask) cond value`.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct AmdBarrierValuePacket {
    /// Header.
    pub header: AmdVendorHeader,
    /// Zero.
    pub reserved0: u32,
    /// The signal; null is met.
    pub signal: HsaSignal,
    /// The operand, which is not masked.
    pub value: HsaSignalValue,
    /// Mask that is first applied to the signal's value.
    pub mask: HsaSignalValue,
    /// The comparison.
    pub condition: HsaSignalCondition,
    /// Zero.
    pub reserved1: u32,
    /// Zero.
    pub reserved2: [u64; 2],
    /// Decremented when the packet is complete; may be null.
    pub completion_signal: HsaSignal,
}

assert_layout!(AmdBarrierValuePacket, size 64,
    header @ 0, signal @ 8, value @ 16, mask @ 24, condition @ 32, completion_signal @ 56);

/// ROCR's PM4 indirect buffer packet: the packet processor executes PM4 commands from memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct AmdPm4IbPacket {
    /// Header.
    pub header: AmdVendorHeader,
    /// A PM4 `INDIRECT_BUFFER` command: header, address low, address high, size and flags.
    pub ib_jump_command: [u32; 4],
    /// Dwords after the inline command, 0xA.
    pub dw_cnt_remain: u32,
    /// Zero.
    pub reserved: [u32; 8],
    /// Decremented when the packet is complete; may be null.
    pub completion_signal: HsaSignal,
}

assert_layout!(AmdPm4IbPacket, size 64,
    header @ 0, ib_jump_command @ 4, dw_cnt_remain @ 20, reserved @ 24, completion_signal @ 56);

impl AmdPm4IbPacket {
    /// Fixed value of [`dw_cnt_remain`](Self::dw_cnt_remain).
    pub const DW_CNT_REMAIN: u32 = 0xa;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_their_bits_where_the_specification_puts_them() {
        let header =
            PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, true, HsaFenceScope::AGENT, HsaFenceScope::SYSTEM);
        assert_eq!(header.0, 2 | 1 << 8 | 1 << 9 | 2 << 11);
        assert_eq!(header.packet_type(), HsaPacketType::KERNEL_DISPATCH);
        assert!(header.barrier());
        assert_eq!(header.acquire_scope(), HsaFenceScope::AGENT);
        assert_eq!(header.release_scope(), HsaFenceScope::SYSTEM);
        assert_eq!(header.reserved(), 0);
        assert_eq!(PacketHeader(0xe000).reserved(), 7);
    }

    #[test]
    fn conditions_compare_signed_values() {
        assert_eq!(HsaSignalCondition::LT.evaluate(-1, 0), Some(true));
        assert_eq!(HsaSignalCondition::GTE.evaluate(0, 0), Some(true));
        assert_eq!(HsaSignalCondition::EQ.evaluate(1, 0), Some(false));
        assert_eq!(HsaSignalCondition::NE.evaluate(1, 0), Some(true));
        assert_eq!(HsaSignalCondition(4).evaluate(0, 0), None);
    }
}
