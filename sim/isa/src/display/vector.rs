// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! VOP1, VOP2, VOPC, VOP3, VOP3P, VOPD and VOPD3.

use std::fmt::{self, Formatter};

use super::operand::{Half, List, Source, Text};
use crate::encoding::{Format, Ty};
use crate::flags::Flags;
use crate::inst::{Dpp, Inst, Matrix, Operand, Select, Unused};
use crate::op::Op;

/// The `_e32`, `_e64`, `_dpp` LLVM appends: sizes only where there are two.
fn suffix(inst: &Inst) -> &'static str {
    let dpp = match inst.dpp {
        Dpp::None => false,
        Dpp::Row { .. } | Dpp::Lanes8 { .. } => true,
    };
    let short = matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc);
    match (inst.format, dpp) {
        _ if inst.sdwa.is_some() => "_sdwa",
        (Format::Vop3p, false) => "",
        (Format::Vopc, true) => "",
        (_, true) if short => "_dpp",
        (_, true) => "_e64_dpp",
        // LLVM names both sizes alike.
        _ if matches!(inst.op, Op::VCvtPkF16Fp8 | Op::VCvtPkF16Bf8) => "",
        _ if !inst.op.has_two_sizes(inst.target) || inst.op.info().src.is_empty() => "",
        _ if short => "_e32",
        _ => "_e64",
    }
}

pub(super) fn vector(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    write!(f, "{}{}", inst.op.name_on(inst.target), suffix(inst))?;
    let mut list = List::new(f, inst);
    // `v_cmpx_*` do not name EXEC.
    if !(info.dst == Ty::Mask && inst.dst == Operand::ExecLo && inst.op.has(Flags::WRITES_EXEC)) && info.dst != Ty::None
    {
        list.item(Half {
            text: Text::new(inst.dst, info.dst, inst.target),
            target: inst.target,
            high: inst.op_sel & 8 != 0,
        })?;
    }
    list.operand(inst.sdst, info.sdst)?;
    for (at, operand) in inst.src[..info.src.len()].iter().enumerate() {
        let ty = inst.src_ty(at);
        let half_constant = inst.op.has(Flags::MIX) && inst.op_sel_hi >> at & 1 != 0 && operand.is_constant();
        list.item(Source { inst, at, operand: *operand, ty: if half_constant { inst.op.mixed_half() } else { ty } })?;
    }
    truth_table(inst, f)?;
    packed_bits(inst, f)?;
    matrix(inst, f)?;
    if inst.clamp {
        f.write_str(" clamp")?;
    }
    f.write_str(["", " mul:2", " mul:4", " div:2"][usize::from(inst.omod)])?;
    sdwa(inst, f)?;
    dpp(inst, f)
}

/// The table of `v_bitop3_b32` and its like.
fn truth_table(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    match inst.simm {
        0 => Ok(()),
        table @ 1..=10 => write!(f, " bitop3:{table}"),
        table => write!(f, " bitop3:{table:#x}"),
    }
}

/// `cbsz`, `abid` and `blgp`, or `neg` in place of the last.
fn matrix(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    if !inst.op.has(Flags::MATRIX) {
        return Ok(());
    }
    let Matrix { cbsz, abid, blgp } = inst.matrix;
    for (name, value) in [("cbsz", cbsz), ("abid", abid), ("blgp", blgp)] {
        if value != 0 {
            write!(f, " {name}:{value}")?;
        }
    }
    if inst.neg == 0 {
        return Ok(());
    }
    write!(f, " neg:[{},{},{}]", inst.neg & 1, inst.neg >> 1 & 1, inst.neg >> 2)
}

fn sdwa(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let Some(sdwa) = inst.sdwa else { return Ok(()) };
    if inst.format != Format::Vopc && !inst.op.has(Flags::FP8_SOURCE) {
        write!(f, " dst_sel:{}", part(sdwa.dst))?;
        f.write_str(match sdwa.unused {
            Unused::Pad => " dst_unused:UNUSED_PAD",
            Unused::Sext => " dst_unused:UNUSED_SEXT",
            Unused::Preserve => " dst_unused:UNUSED_PRESERVE",
        })?;
    }
    write!(f, " src0_sel:{}", part(sdwa.src[0]))?;
    if inst.op.info().src.len() > 1 {
        write!(f, " src1_sel:{}", part(sdwa.src[1]))?;
    }
    Ok(())
}

fn part(select: Select) -> &'static str {
    match select {
        Select::Byte0 => "BYTE_0",
        Select::Byte1 => "BYTE_1",
        Select::Byte2 => "BYTE_2",
        Select::Byte3 => "BYTE_3",
        Select::Word0 => "WORD_0",
        Select::Word1 => "WORD_1",
        Select::Dword => "DWORD",
    }
}

/// `op_sel`, `op_sel_hi`, `neg_lo` and `neg_hi`, each where it differs from its default.
fn packed_bits(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    let sources = info.src.len();
    let list = |f: &mut Formatter<'_>, name: &str, bits: u8, count: usize| -> fmt::Result {
        let digits: Vec<_> = (0..count).map(|at| if bits >> at & 1 != 0 { "1" } else { "0" }).collect();
        write!(f, " {name}:[{}]", digits.join(","))
    };
    let all = (1u8 << sources) - 1;
    match inst.format {
        Format::Vop3 if inst.op_sel != 0 && inst.op != Op::VCndmaskB16 => {
            if matches!(inst.op, Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32) {
                f.write_str(if inst.op_sel & 2 != 0 { " bound_ctrl:1" } else { "" })?;
                return f.write_str(if inst.op_sel & 1 != 0 { " fi:1" } else { "" });
            }
            // `v_fmac_f16` reads its destination as a third source.
            let sources = if inst.op == Op::VFmacF16 { 3 } else { sources };
            let no_dst = info.dst == Ty::Mask && (inst.dpp != Dpp::None || inst.op.has(Flags::WRITES_EXEC));
            let byte = match inst.op {
                Op::VCvtSrFp8F32Gfx12 | Op::VCvtSrBf8F32Gfx12 => Some(inst.op_sel >> 2),
                Op::VCvtSrFp8F16 | Op::VCvtSrBf8F16 => Some(inst.op_sel >> 2),
                // Its bits are reversed.
                Op::VCvtF32Fp8Gfx12 | Op::VCvtF32Bf8Gfx12 | Op::VCvtF16Fp8 | Op::VCvtF16Bf8 => {
                    Some(inst.op_sel >> 1 & 1 | (inst.op_sel & 1) << 1)
                }
                _ => None,
            };
            if inst.op.has(Flags::SCALE_SEL) {
                return write!(f, " scale_sel:{}", inst.op_sel);
            }
            if let Some(byte) = byte {
                match inst.op {
                    Op::VCvtSrFp8F16 | Op::VCvtSrBf8F16 if inst.op_sel & 1 != 0 => f.write_str(" op_sel:[1,0,0]")?,
                    Op::VCvtF16Fp8 | Op::VCvtF16Bf8 if inst.op_sel & 8 != 0 => f.write_str(" op_sel:[0,1]")?,
                    _ => {}
                }
                return if byte == 0 { Ok(()) } else { write!(f, " byte_sel:{byte}") };
            }
            if matches!(inst.op, Op::VCvtSrFp8F32 | Op::VCvtSrBf8F32) || inst.op.has(Flags::DST_BYTE) {
                return list(f, "op_sel", inst.op_sel, 4);
            }
            if inst.op.has(Flags::SRC_BYTE) {
                return list(f, "op_sel", inst.op_sel & 3 | inst.op_sel >> 1 & 4, 3);
            }
            let count = if inst.op.has(Flags::PERMLANE) { 2 } else { sources + usize::from(!no_dst) };
            list(f, "op_sel", inst.op_sel & all | (inst.op_sel >> 3 & 1) << sources, count)
        }
        Format::Vop3p if inst.op.has(Flags::MATRIX) => Ok(()),
        Format::Vop3p if inst.op.takes_scales() => {
            matrix_formats(inst, f)?;
            c_signs(inst, f)
        }
        Format::Vop3p => {
            let halves = inst.op.has(Flags::MIX)
                || matches!(inst.op, Op::VWmmaF1616x16x16F16 | Op::VWmmaBf1616x16x16Bf16)
                || info.src.iter().any(|ty| matches!(ty, Ty::V2F16 | Ty::V2BF16 | Ty::V2I16 | Ty::V2F32));
            if inst.op.has(Flags::TILES.union(Flags::SPARSE)) {
                let sets = if inst.op.has(Flags::REUSES) { 3 } else { 7 };
                match inst.op_sel & sets {
                    0 => {}
                    set => write!(f, " index_key:{set}")?,
                }
            }
            if inst.op.has(Flags::REUSES) {
                f.write_str(if inst.op_sel & 4 != 0 { " matrix_a_reuse" } else { "" })?;
                f.write_str(if inst.op_sel_hi & 4 != 0 { " matrix_b_reuse" } else { "" })?;
            } else if inst.op_sel & all != 0 && !inst.op.has(Flags::SPARSE) {
                list(f, "op_sel", inst.op_sel, sources)?;
            }
            if halves && inst.op_sel_hi & all != if inst.op.has(Flags::MIX) { 0 } else { all } {
                list(f, "op_sel_hi", inst.op_sel_hi, sources)?;
            }
            if inst.neg & all != 0 && !inst.op.has(Flags::MIX) {
                list(f, "neg_lo", inst.neg, sources)?;
            }
            if inst.neg_hi & all != 0 {
                list(f, "neg_hi", inst.neg_hi, sources)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A's and B's formats, if the op can choose.
fn matrix_formats(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    if inst.op == Op::VWmmaF3232x16x128F4 {
        return Ok(());
    }
    for (matrix, format) in [('a', inst.op_sel), ('b', inst.op_sel_hi)] {
        match ["", "BF8", "FP6", "BF6", "FP4"].get(usize::from(format)) {
            Some(&"") => {}
            Some(name) => write!(f, " matrix_{matrix}_fmt:MATRIX_FMT_{name}")?,
            None => write!(f, " matrix_{matrix}_fmt:{format}")?,
        }
    }
    Ok(())
}

/// The signs of C.
fn c_signs(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(if inst.neg & 4 != 0 { " neg_lo:[0,0,1]" } else { "" })?;
    f.write_str(if inst.neg_hi & 4 != 0 { " neg_hi:[0,0,1]" } else { "" })
}

/// [`scales`] of gfx950.
fn scales9(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let third = match &inst.dual {
        None => {
            f.write_str(inst.op.name())?;
            ""
        }
        Some(product) => {
            let name = product.op.name();
            write!(f, "v_mfma_scale{}", name.strip_prefix("v_mfma").unwrap_or(name))?;
            let mut list = List::new(f, inst);
            list.operand(product.dst, product.op.info().dst)?;
            for at in 0..3 {
                list.operand(product.src[at], product.src_ty(at))?;
            }
            for (operand, ty) in inst.src.iter().zip(inst.op.info().src) {
                list.operand(*operand, *ty)?;
            }
            ",0"
        }
    };
    if inst.dual.is_none() {
        let mut list = List::new(f, inst);
        for (operand, ty) in inst.src.iter().zip(inst.op.info().src) {
            list.operand(*operand, *ty)?;
        }
    }
    let (low, high) = (inst.op_sel, inst.op_sel_hi);
    if low != 0 {
        write!(f, " op_sel:[{},{}{third}]", low & 1, low >> 1)?;
    }
    if inst.dual.is_some() || high != 3 {
        write!(f, " op_sel_hi:[{},{}{third}]", high & 1, high >> 1)?;
    }
    inst.dual.as_deref().map_or(Ok(()), |product| matrix(product, f))
}

/// Scales, and the matrix op that has them if it is there: LLVM prints the two as one.
pub(super) fn scales(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let list_scales = |list: &mut List<'_, '_>| -> fmt::Result {
        for (operand, ty) in inst.src.iter().zip(inst.op.info().src) {
            list.operand(*operand, *ty)?;
        }
        Ok(())
    };
    if inst.op == Op::VMfmaLdScaleB32 {
        return scales9(inst, f);
    }
    match &inst.dual {
        None => {
            f.write_str(inst.op.name_on(inst.target))?;
            list_scales(&mut List::new(f, inst))?;
        }
        Some(product) => {
            let name = product.op.name();
            let wide = if inst.op == Op::VWmmaLdScale16PairedB64 { "16" } else { "" };
            write!(f, "v_wmma_scale{wide}{}", name.strip_prefix("v_wmma").unwrap_or(name))?;
            let mut list = List::new(f, inst);
            list.operand(product.dst, product.op.info().dst)?;
            for at in 0..3 {
                list.operand(product.src[at], product.src_ty(at))?;
            }
            list_scales(&mut list)?;
            matrix_formats(product, f)?;
        }
    }
    for (matrix, upper) in [('a', inst.op_sel), ('b', inst.op_sel_hi)] {
        if upper & 1 != 0 {
            write!(f, " matrix_{matrix}_scale:MATRIX_SCALE_ROW1")?;
        }
    }
    for (matrix, format) in [('a', inst.neg & 3), ('b', inst.neg_hi & 3)] {
        match format {
            0 => {}
            1 => write!(f, " matrix_{matrix}_scale_fmt:MATRIX_SCALE_FMT_E5M3")?,
            2 => write!(f, " matrix_{matrix}_scale_fmt:MATRIX_SCALE_FMT_E4M3")?,
            other => write!(f, " matrix_{matrix}_scale_fmt:{other}")?,
        }
    }
    f.write_str(if inst.op_sel & 4 != 0 { " matrix_a_reuse" } else { "" })?;
    f.write_str(if inst.op_sel_hi & 4 != 0 { " matrix_b_reuse" } else { "" })?;
    inst.dual.as_ref().map_or(Ok(()), |product| c_signs(product, f))
}

fn dpp(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    match inst.dpp {
        Dpp::None => Ok(()),
        Dpp::Row { ctrl, row_mask, bank_mask, bound_ctrl, fetch_inactive } => {
            dpp_ctrl(ctrl, inst.target.is_gfx9(), f)?;
            write!(f, " row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}")?;
            f.write_str(if bound_ctrl { " bound_ctrl:1" } else { "" })?;
            f.write_str(if fetch_inactive { " fi:1" } else { "" })
        }
        Dpp::Lanes8 { sel, fetch_inactive } => {
            let lanes: Vec<_> = (0..8).map(|lane| (sel >> (3 * lane) & 7).to_string()).collect();
            write!(f, " dpp8:[{}]", lanes.join(","))?;
            f.write_str(if fetch_inactive { " fi:1" } else { "" })
        }
    }
}

/// RDNA3 ISA, "DPP16 control" table.
fn dpp_ctrl(ctrl: u16, gfx9: bool, f: &mut Formatter<'_>) -> fmt::Result {
    let low = ctrl & 0xf;
    match ctrl {
        0..=0xff => write!(f, " quad_perm:[{},{},{},{}]", ctrl & 3, ctrl >> 2 & 3, ctrl >> 4 & 3, ctrl >> 6),
        0x101..=0x10f => write!(f, " row_shl:{low}"),
        0x111..=0x11f => write!(f, " row_shr:{low}"),
        0x121..=0x12f => write!(f, " row_ror:{low}"),
        0x130 => f.write_str(" wave_shl:1"),
        0x134 => f.write_str(" wave_rol:1"),
        0x138 => f.write_str(" wave_shr:1"),
        0x13c => f.write_str(" wave_ror:1"),
        0x142 => f.write_str(" row_bcast:15"),
        0x143 => f.write_str(" row_bcast:31"),
        0x150..=0x15f if gfx9 => write!(f, " row_newbcast:{low}"),
        0x140 => f.write_str(" row_mirror"),
        0x141 => f.write_str(" row_half_mirror"),
        0x150..=0x15f => write!(f, " row_share:{low}"),
        0x160..=0x16f => write!(f, " row_xmask:{low}"),
        _ => write!(f, " dpp_ctrl:{ctrl:#x}"),
    }
}

pub(super) fn vopd(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    vopd_half(inst, f)?;
    match &inst.dual {
        Some(dual) => {
            f.write_str(" :: ")?;
            vopd_half(dual, f)
        }
        None => Ok(()),
    }
}

fn vopd_half(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    let name = inst.op.name_on(inst.target);
    write!(f, "v_dual_{}", name.strip_prefix("v_").unwrap_or(name))?;
    let mut list = List::new(f, inst);
    list.operand(inst.dst, info.dst)?;
    // VOPD's mask is always VCC.
    let named = |ty: Ty| ty != Ty::Mask || inst.format == Format::Vopd3;
    for (at, (operand, ty)) in inst.src.iter().zip(info.src).enumerate().filter(|(_, (_, ty))| named(**ty)) {
        list.item(Source { inst, at, operand: *operand, ty: *ty })?;
    }
    truth_table(inst, f)
}
