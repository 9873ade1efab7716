// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What of an instruction must be so, or is not simulated, whatever its op does.

use crate::fault::FaultKind;
use crate::hardware::{hwreg, slot};
use crate::operand::{Registers, Upper};
use sim_isa::{Flags, Format, Inst, Op, Operand, Target};

/// Registers that an instruction names.
pub(crate) struct Slice {
    pub operand: Operand,
    /// The number of the first one in its file.
    pub first: usize,
    pub dwords: usize,
}

/// The registers of an instruction's operands: its four sources, the destination, the scalar one. Of other operands
/// than registers of lanes and SGPRs `first` means nothing.
pub(crate) fn slices<const L: usize>(inst: &Inst, upper: Upper) -> [Slice; 6] {
    let info = inst.op.info();
    // Tiles of WMMA, for which the row has the registers of wave32, are spread over more lanes in wave64; factors on
    // gfx11 are copied.
    let spread = L > 32 && inst.op.has(Flags::TILES);
    let first_spread = if inst.target.is_gfx12() { 0 } else { 2 };
    let (upper, of_destination) = upper.of(inst);
    std::array::from_fn(|at| {
        let (operand, ty, spread, upper) = match at {
            0..4 => (inst.src[at], inst.src_ty(at), spread && at >= first_spread, upper[at]),
            4 => (inst.dst, info.dst, spread, of_destination),
            _ => (inst.sdst, info.sdst, false, 0),
        };
        let dwords = usize::from(ty.dwords(L > 32)).div_ceil(if spread { 2 } else { 1 }).max(1);
        let first = match operand {
            Operand::Vgpr(n) => usize::from(n) + usize::from(upper),
            Operand::Agpr(n) | Operand::Sgpr(n) => usize::from(n),
            _ => 0,
        };
        Slice { operand, first, dwords }
    })
}

/// Every register an instruction names must exist.
pub(crate) fn registers<const L: usize>(inst: &Inst, registers: Registers, upper: Upper) -> Result<(), FaultKind> {
    for Slice { operand, first, dwords } in slices::<L>(inst, upper) {
        let (limit, file) = match operand {
            Operand::Vgpr(_) => (registers.vector, 'v'),
            Operand::Agpr(_) => (registers.accumulation, 'a'),
            Operand::Sgpr(_) => (slot::SGPRS + 2, 's'),
            _ => continue,
        };
        if first + dwords > limit {
            let last = first + dwords - 1;
            return Err(FaultKind::RegisterOutOfRange(format!("{file}{last}, the kernel has {limit}")));
        }
    }
    Ok(())
}

/// Fields with values that are not simulated.
pub(crate) fn fields(inst: &Inst) -> Result<(), FaultKind> {
    check_hardware_register(inst)?;
    check_scaled(inst)?;
    check_signs(inst)
}

/// The numbers of hardware registers other than MODE mean something else on gfx12, where of them only the counter of
/// cycles is simulated. On gfx1250 there is what kernels begin with: bit 25 of MODE, how memory accesses are repeated
/// after page faults (there are none), and bits 6 to 9 of IB_STS2. Its MODE also has upper bits of register numbers.
fn check_hardware_register(inst: &Inst) -> Result<(), FaultKind> {
    let simm = inst.simm as u16;
    let (register, first, width) = (simm & 0x3f, simm >> 6 & 0x1f, (simm >> 11) + 1);
    if !inst.target.is_gfx12() || !matches!(inst.op, Op::SGetregB32 | Op::SSetregB32 | Op::SSetregImm32B32) {
        return Ok(());
    }
    let known = match (inst.target, register) {
        (Target::Gfx1250, hwreg::MODE) => first + width <= 8 || (first, width) == (25, 1),
        (Target::Gfx1250, hwreg::GFX1250_IB_STS2) => inst.op == Op::SGetregB32 && (first, width) == (6, 4),
        (_, hwreg::SHADER_CYCLES | hwreg::GFX12_SHADER_CYCLES_HI) => inst.op == Op::SGetregB32,
        (_, register) => register == hwreg::MODE,
    };
    if known {
        return Ok(());
    }
    let what = format!("{width} bits from {first} of hardware register {register} of {:?}", inst.target);
    Err(FaultKind::NotImplemented(what))
}

/// Elements are counted by the register beside a scalar base, or in scratch; without one `scale_offset` means nothing.
fn check_scaled(inst: &Inst) -> Result<(), FaultKind> {
    let offset = match inst.format {
        Format::Smem => inst.src[1],
        Format::Flat | Format::Global if !inst.src[2].is_none() => inst.src[0],
        Format::Scratch => inst.src[0],
        _ => Operand::None,
    };
    if inst.mem.scale_offset && offset.is_none() {
        let what = format!("{} with scale_offset but no offset in a register", inst.op.name());
        return Err(FaultKind::NotImplemented(what));
    }
    Ok(())
}

/// One bit is for the signs of both of a pair of f16 (CDNA5 ISA, V_CVT_PK_FP8_F16), which no compiler has emitted yet.
fn check_signs(inst: &Inst) -> Result<(), FaultKind> {
    if matches!(inst.op, Op::VCvtPkFp8F16 | Op::VCvtPkBf8F16) && inst.neg | inst.abs != 0 {
        return Err(FaultKind::NotImplemented(format!("{} with neg or abs", inst.op.name())));
    }
    Ok(())
}
