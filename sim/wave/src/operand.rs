// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operands, resolved to registers, scalar slots and constants.

use crate::fault::FaultKind;
use crate::hardware::{FLAT_SCRATCH_BASE, PRIVATE_APERTURE, SHARED_APERTURE, slot};
use sim_isa::{Format, Inst, Operand, Ty};

/// Source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SrcKind {
    /// Unused.
    None,
    /// Vector register [`Src::reg`].
    Vgpr,
    /// Scalar slot [`Src::reg`].
    Scalar,
    /// [`Src::value`].
    Const,
    /// Scalar condition code.
    Scc,
    /// VCC is zero.
    Vccz,
    /// EXEC is zero.
    Execz,
}

/// A resolved source operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Src {
    pub kind: SrcKind,
    /// Bits to shift right: 16 for the high half of a register.
    pub shift: u8,
    pub reg: u16,
    pub value: u64,
}

impl Src {
    pub const NONE: Src = Src { kind: SrcKind::None, shift: 0, reg: 0, value: 0 };
}

/// The vector registers of a kernel's lanes. In a wave the accumulation registers follow the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// `v0` and up.
    pub vector: usize,
    /// `a0` and up.
    pub accumulation: usize,
}

impl Registers {
    pub fn total(self) -> usize {
        self.vector + self.accumulation
    }

    /// A resolved source.
    pub fn source(self, operand: Operand, ty: Ty, high: bool) -> Result<Src, FaultKind> {
        match operand {
            Operand::Agpr(n) => {
                let reg = (self.vector + usize::from(n)) as u16;
                Ok(Src { kind: SrcKind::Vgpr, shift: 0, reg, value: 0 })
            }
            other => source(other, ty, high),
        }
    }

    /// The register or slot of a destination.
    pub fn destination(self, operand: Operand) -> Result<u16, FaultKind> {
        match operand {
            Operand::None => Ok(slot::NULL as u16),
            Operand::Vgpr(n) => Ok(u16::from(n)),
            Operand::Agpr(n) => Ok((self.vector + usize::from(n)) as u16),
            other => scalar_slot(other)
                .map(|slot| slot as u16)
                .ok_or_else(|| FaultKind::NotImplemented(format!("destination {other:?}"))),
        }
    }
}

/// The two upper bits of gfx1250's VGPR numbers, as `s_set_vgpr_msb` gave them last: of sources 0 to 2 and the
/// destination. Compilers put zeros back before a block ends, so that they are known when code is decoded; a jump with
/// others is refused.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Upper(pub u8);

impl Upper {
    const DESTINATION: usize = 3;

    /// Offsets to add to the register numbers of an instruction's sources and destination (LLVM's
    /// `getVGPRLoweringOperandTables`).
    pub fn of(self, inst: &Inst) -> ([u16; 4], u16) {
        let bits = |slot: usize| u16::from(self.0 >> (2 * slot) & 3) * 256;
        let destination = bits(Self::DESTINATION);
        match inst.format {
            // Scales of matrix ops are never above.
            _ if inst.op.loads_scales() => ([0; 4], 0),
            // The data of a buffer access, loaded or stored, is its destination.
            Format::Mubuf | Format::Mtbuf => ([bits(0), destination, 0, 0], destination),
            _ => ([bits(0), bits(1), bits(2), 0], destination),
        }
    }
}

/// The slot of a scalar register.
pub(crate) fn scalar_slot(operand: Operand) -> Option<usize> {
    Some(match operand {
        Operand::Sgpr(n) => usize::from(n),
        Operand::Ttmp(n) => slot::TTMP + usize::from(n),
        Operand::VccLo => slot::VCC,
        Operand::VccHi => slot::VCC + 1,
        Operand::ExecLo => slot::EXEC,
        Operand::ExecHi => slot::EXEC + 1,
        Operand::M0 => slot::M0,
        Operand::FlatScratchLo => slot::FLAT_SCRATCH,
        Operand::FlatScratchHi => slot::FLAT_SCRATCH + 1,
        Operand::XnackMaskLo => slot::XNACK_MASK,
        Operand::XnackMaskHi => slot::XNACK_MASK + 1,
        Operand::Null => slot::NULL,
        _ => return None,
    })
}

fn source(operand: Operand, ty: Ty, high: bool) -> Result<Src, FaultKind> {
    let shift = if high && ty.is_16() { 16 } else { 0 };
    let register = |kind, reg: usize| Src { kind, shift, reg: reg as u16, value: 0 };
    let constant = |value| Src { kind: SrcKind::Const, shift: 0, reg: 0, value };
    let aperture = |high: u32, low: u32| {
        let value = u64::from(high) << 32 | u64::from(low);
        constant(if ty.dwords(false) > 1 { value } else { u64::from(high) })
    };
    if let Some(value) = operand.constant(ty) {
        // Both halves of a packed 32-bit operand read the same constant.
        return Ok(constant(if ty == Ty::V2F32 { value & 0xffff_ffff | value << 32 } else { value }));
    }
    if let Some(slot) = scalar_slot(operand) {
        return Ok(register(SrcKind::Scalar, slot));
    }
    Ok(match operand {
        Operand::None => Src::NONE,
        Operand::Vgpr(n) => register(SrcKind::Vgpr, usize::from(n)),
        Operand::Scc => register(SrcKind::Scc, 0),
        Operand::Vccz => register(SrcKind::Vccz, 0),
        Operand::Execz => register(SrcKind::Execz, 0),
        Operand::SharedBase => aperture(SHARED_APERTURE, 0),
        Operand::SharedLimit => aperture(SHARED_APERTURE, u32::MAX),
        Operand::FlatScratchBaseLo if ty.dwords(false) == 1 => constant(0),
        Operand::FlatScratchBaseLo | Operand::FlatScratchBaseHi => aperture(FLAT_SCRATCH_BASE, 0),
        Operand::PrivateBase => aperture(PRIVATE_APERTURE, 0),
        Operand::PrivateLimit => aperture(PRIVATE_APERTURE, u32::MAX),
        other => return Err(FaultKind::NotImplemented(format!("operand {other:?}"))),
    })
}
