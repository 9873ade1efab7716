// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Checks of instructions that do not depend on their op: required register ranges, and unsupported fields.

use crate::fault::FaultKind;
use crate::hardware::slot;
use crate::hwreg;
use crate::operand::{Registers, Upper};
use crate::setup;
use sim_isa::{Flags, Format, Inst, Op, Operand, Ty};

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
    for (at, Slice { operand, first, dwords }) in slices::<L>(inst, upper).into_iter().enumerate() {
        setup::check(inst.target, operand, dwords, at >= 4)?;
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
    hwreg::check(inst)?;
    check_scaled(inst)?;
    check_signs(inst)
}

/// Refuses `scale_offset` without the register that it scales: one beside a scalar base, or in scratch.
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
    let is_pair = matches!(inst.op, Op::VCvtPkFp8F16 | Op::VCvtPkBf8F16)
        || inst.op.info().flags.intersects(Flags::DST_BYTE | Flags::DST_WORD)
            && matches!(inst.op.info().src[0], Ty::V2F16 | Ty::V2BF16);
    if is_pair && (inst.neg | inst.abs) & 1 != 0 {
        return Err(FaultKind::NotImplemented(format!("{} with neg or abs", inst.op.name())));
    }
    Ok(())
}
