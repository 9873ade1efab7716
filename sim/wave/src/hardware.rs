// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Numbers that kernels see: scalar registers, bits of MODE, places in the flat address space.

use sim_isa::Target;

/// Slots in `Wave::s`, numbered as scalar operands are encoded (RDNA3 ISA, table "Scalar operands").
pub(crate) mod slot {
    pub const SGPRS: usize = 106;
    /// GFX9 has these in place of its last SGPRs.
    pub const FLAT_SCRATCH: usize = 102;
    pub const XNACK_MASK: usize = 104;
    pub const VCC: usize = 106;
    pub const TTMP: usize = 108;
    pub const NULL: usize = 124;
    pub const M0: usize = 125;
    pub const EXEC: usize = 126;
    /// Slots that exist.
    pub const COUNT: usize = 128;
    /// Slots that can be read beyond, as the upper part of a wide operand.
    pub const PADDED: usize = COUNT + 16;
}

/// Float modes in the MODE register (RDNA3 ISA 3.3.2): round in bits 0–3, denormals in bits 4–7.
pub(crate) mod mode {
    pub const ROUND: u32 = 0xf;
    pub const DENORM_32: u32 = 3 << 4;
    pub const DENORM_16_64: u32 = 3 << 6;
    pub const DX10_CLAMP: u32 = 1 << 8;
    pub const IEEE: u32 = 1 << 9;
    /// FP16_OVFL, which all targets have.
    pub const FP16_OVERFLOW: u32 = 1 << 23;
}

/// High dword of the flat aperture where LDS appears to flat instructions. No host mapping has such addresses, which
/// are not canonical ones of a user.
pub const SHARED_APERTURE: u32 = 0x0001_0000;
/// High dword of the one where scratch appears.
pub const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// gfx1250: high dword of a wave's scratch in the flat address space. Bits 20 to 24 are the lane's number, and the
/// upper six bits mark a scratch address (as in LLVM's code for conversions from and to private pointers, and for
/// `llvm.amdgcn.is.private`). Hardware gives each wave's scratch its own address; here all waves have the same one,
/// through which each reaches its own.
pub(crate) const FLAT_SCRATCH_BASE: u32 = 0x0800_0000;

/// The resource through which kernels before gfx942 reach their scratch (AMDGPUUsage, "Private Segment Buffer"):
/// swizzled by lane in elements of four bytes, 64 lanes each. Its base is where no host mapping is.
pub(crate) const PRIVATE_BUFFER: [u64; 2] =
    [PRIVATE_BUFFER_BASE | 1 << 63, 0xffff_ffff | (1 << 23 | 3 << 21 | 1 << 19 | 4 << 15 | 7 << 12) << 32];
pub(crate) const PRIVATE_BUFFER_BASE: u64 = 0x8000_0000_0000;

/// Bytes of LDS that a workgroup may have.
pub const fn lds_bytes(target: Target) -> u32 {
    match target {
        Target::Gfx950 => 160 << 10,
        Target::Gfx1250 => 320 << 10,
        _ => 64 << 10,
    }
}

/// The bits of M0 that are an address in LDS: as many as there is LDS for.
pub(crate) const fn lds_mask(target: Target) -> u32 {
    lds_bytes(target).next_power_of_two() - 1
}
