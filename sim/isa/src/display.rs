// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! LLVM's assembler syntax for [`Inst`].

use std::fmt::{self, Display, Formatter, Write};

use crate::decode::{
    has_immediate_data, is_fp8_source, is_matrix, is_mix, is_permlane, is_scalar_prefetch, mixed_half,
};
use crate::immediate;
use crate::inst::{Dpp, Format, Inst, Matrix, Mem, Operand, Select, Unused};
use crate::op::{Op, Target, Ty};

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => scalar(self, f),
            Format::Smem => smem(self, f),
            Format::Vopd | Format::Vopd3 => vopd(self, f),
            Format::Vop3p if self.op.loads_scales() => scales(self, f),
            Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3sd | Format::Vop3p => {
                vector(self, f)
            }
            Format::Ds => ds(self, f),
            Format::Mubuf | Format::Mtbuf => buffer(self, f),
            Format::Flat | Format::Global | Format::Scratch => flat(self, f),
            Format::Vimage => tensor(self, f),
        }
    }
}

/// Writes `, `-separated operands after the mnemonic.
struct List<'a, 'b> {
    f: &'a mut Formatter<'b>,
    target: Target,
    first: bool,
}

impl<'a, 'b> List<'a, 'b> {
    fn new(f: &'a mut Formatter<'b>, inst: &Inst) -> Self {
        List { f, target: inst.target, first: true }
    }

    fn item(&mut self, item: impl Display) -> fmt::Result {
        let separator = if self.first { " " } else { ", " };
        self.first = false;
        write!(self.f, "{separator}{item}")
    }

    /// An operand, or nothing if the row has no such slot.
    fn operand(&mut self, operand: Operand, ty: Ty) -> fmt::Result {
        if ty == Ty::None { Ok(()) } else { self.item(Text::new(operand, ty, self.target)) }
    }
}

/// An operand of known width.
struct Text {
    operand: Operand,
    dwords: u8,
    ty: Ty,
}

impl Text {
    fn new(operand: Operand, ty: Ty, target: Target) -> Self {
        Text { operand, dwords: ty.dwords(target.is_gfx9()), ty }
    }

    fn tuple(&self, f: &mut Formatter<'_>, prefix: &str, first: u8) -> fmt::Result {
        match self.dwords {
            0 | 1 => write!(f, "{prefix}{first}"),
            n => write!(f, "{prefix}[{first}:{}]", u16::from(first) + u16::from(n) - 1),
        }
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let wide = self.dwords >= 2;
        f.write_str(match self.operand {
            Operand::None => "off",
            Operand::Sgpr(n) => return self.tuple(f, "s", n),
            Operand::Vgpr(n) => return self.tuple(f, "v", n),
            Operand::Agpr(n) => return self.tuple(f, "a", n),
            Operand::Ttmp(n) => return self.tuple(f, "ttmp", n),
            Operand::FlatScratchBaseLo => "src_flat_scratch_base_lo",
            Operand::FlatScratchBaseHi => "src_flat_scratch_base_hi",
            Operand::FlatScratchLo if wide => "flat_scratch",
            Operand::FlatScratchLo => "flat_scratch_lo",
            Operand::FlatScratchHi => "flat_scratch_hi",
            Operand::XnackMaskLo if wide => "xnack_mask",
            Operand::XnackMaskLo => "xnack_mask_lo",
            Operand::XnackMaskHi => "xnack_mask_hi",
            Operand::VccLo if wide => "vcc",
            Operand::VccLo => "vcc_lo",
            Operand::VccHi => "vcc_hi",
            Operand::ExecLo if wide => "exec",
            Operand::ExecLo => "exec_lo",
            Operand::ExecHi => "exec_hi",
            Operand::M0 => "m0",
            Operand::Null => "null",
            Operand::Scc => "src_scc",
            Operand::Vccz => "src_vccz",
            Operand::Execz => "src_execz",
            Operand::SharedBase => "src_shared_base",
            Operand::SharedLimit => "src_shared_limit",
            Operand::PrivateBase => "src_private_base",
            Operand::PrivateLimit => "src_private_limit",
            Operand::PopsExitingWaveId => "src_pops_exiting_wave_id",
            Operand::LdsDirect => "src_lds_direct",
            Operand::Inline(bits) => return inline(f, bits, self.ty),
            Operand::Literal(bits) => return literal(f, bits, self.ty),
            Operand::Literal64(bits) if matches!(self.ty, Ty::F64 | Ty::K64) && bits as u32 == 0 => {
                return write!(f, "{:#x}", bits >> 32);
            }
            Operand::Literal64(bits) if u32::try_from(bits).is_ok() => return write!(f, "lit64({bits:#x})"),
            Operand::Literal64(bits) => return write!(f, "{bits:#x}"),
        })
    }
}

/// An inline constant: the integers are -16..=64, all else is one of nine floats.
fn inline(f: &mut Formatter<'_>, bits: u64, ty: Ty) -> fmt::Result {
    let value = match ty.dwords(false) {
        _ if ty.is_16() => i64::from(bits as i16),
        2 => bits as i64,
        _ if ty == Ty::V4F64 => bits as i64,
        _ => i64::from(bits as i32),
    };
    if (-16..=64).contains(&value) {
        return write!(f, "{value}");
    }
    match crate::decode::float_constant(bits, ty) {
        Some(_) if ty == Ty::I16 => write!(f, "{bits:#x}"),
        Some(8) if matches!(ty, Ty::F64 | Ty::B64 | Ty::I64 | Ty::V4F64) => f.write_str("0.15915494309189532"),
        Some(8) => f.write_str("0.15915494"),
        Some(at) => f.write_str(["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"][at]),
        None => write!(f, "{bits:#x}"),
    }
}

/// Whether LLVM marks a literal with `lit(...)`: its value could be an inline constant.
fn could_be_inline(bits: u32, ty: Ty) -> bool {
    let small = |value: i64| (-16..=64).contains(&value);
    let float = |bits: u32, ty| crate::decode::float_constant(u64::from(bits), ty).is_some();
    match ty {
        Ty::K32 | Ty::K16 | Ty::F64 => false,
        Ty::B64 | Ty::I64 => small(i64::from(bits)),
        Ty::F16 => small(i64::from(bits as i16)) || float(bits & 0xffff, ty),
        Ty::BF16 => small(i64::from(bits as i16)) || float(bits & 0xffff, ty),
        Ty::I16 => small(i64::from(bits as i32)) || float(bits, Ty::B32),
        _ => small(i64::from(bits as i32)) || float(bits, ty),
    }
}

fn literal(f: &mut Formatter<'_>, bits: u32, ty: Ty) -> fmt::Result {
    match ty {
        _ if could_be_inline(bits, ty) => write!(f, "lit({bits:#x})"),
        Ty::F64 if bits == 0 => f.write_str("0"),
        Ty::I16 | Ty::F16 => write!(f, "{:#x}", bits & 0xffff),
        _ => write!(f, "{bits:#x}"),
    }
}

fn scalar(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    // `s_setreg*` name the hardware register before the source.
    if matches!(inst.op, Op::SSetregB32 | Op::SSetregImm32B32) {
        list.item(immediate::Text(inst))?;
        return list.operand(inst.src[0], info.src[0]);
    }
    list.operand(inst.dst, info.dst)?;
    for (operand, ty) in inst.src.iter().zip(info.src) {
        list.operand(*operand, *ty)?;
    }
    let mut text = String::new();
    write!(text, "{}", immediate::Text(inst))?;
    if text.is_empty() { Ok(()) } else { list.item(text) }
}

fn smem(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    match info.src.get(2) {
        // What an atomic returns goes where its data was.
        Some(data) => list.operand(inst.src[2], *data)?,
        None => list.operand(inst.dst, info.dst)?,
    }
    if is_scalar_prefetch(inst.op) {
        list.operand(inst.src[0], info.src[0])?;
        list.item(Hex(inst.mem.offset))?;
        let register = if inst.src[1].is_none() { Operand::Null } else { inst.src[1] };
        list.operand(register, Ty::B32)?;
        return list.item(small(inst.simm));
    }
    if has_immediate_data(inst.op) {
        list.item(small(inst.simm))?;
    }
    if !info.src.is_empty() {
        list.operand(inst.src[0], info.src[0])?;
        match (inst.src[1], inst.mem.offset) {
            (Operand::None, 0) if !inst.target.is_gfx9() && !inst.target.is_gfx12() => list.item("null")?,
            (Operand::None, offset) => list.item(Hex(offset))?,
            (register, 0) if !inst.target.is_gfx12() => list.operand(register, Ty::B32)?,
            (register, offset) => {
                list.item(format_args!("{} offset:{}", Text::new(register, Ty::B32, inst.target), Hex(offset)))?
            }
        }
    }
    cache_bits(inst, f)
}

/// A number as LLVM prints it where an inline constant could stand.
fn small(value: i16) -> String {
    if value > 64 { Hex(value.into()).to_string() } else { value.to_string() }
}

/// A signed number in hexadecimal.
struct Hex(i32);

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:#x}", if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs())
    }
}

fn cache_bits(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    if inst.target.is_gfx12() {
        return hints(inst, f);
    }
    let Mem { glc, slc, dlc, scc, .. } = inst.mem;
    let names = match inst.target {
        Target::Gfx942 if inst.format != Format::Smem => [" sc0", " nt", "", " sc1"],
        _ => [" glc", " slc", " dlc", " scc"],
    };
    for (set, name) in [glc, slc, dlc, scc].into_iter().zip(names) {
        f.write_str(if set { name } else { "" })?;
    }
    Ok(())
}

/// RDNA4's temporal hint and scope (RDNA4 ISA, "Temporal hints").
fn hints(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let Mem { th, scope, scale_offset, nv, .. } = inst.mem;
    f.write_str(if scale_offset { " scale_offset" } else { "" })?;
    let name = inst.op.name();
    let store = name.contains("_store_");
    let written_back = match (scope, store) {
        (3, _) => "BYPASS",
        (_, true) => "WB",
        (_, false) => "LU",
    };
    let plain = ["RT", "NT", "HT", written_back, "NT_RT", "RT_NT", "NT_HT", "NT_WB"][usize::from(th)];
    let atomic = ["RT", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "CASCADE_RT", "CASCADE_NT", "CASCADE_NT"];
    match name.contains("_atomic_") {
        _ if th == 0 => {}
        true if th >= 4 && scope < 2 => write!(f, " th:TH_ATOMIC_{th:#x}")?,
        true => write!(f, " th:TH_ATOMIC_{}", atomic[usize::from(th)])?,
        false if th == 7 && !store => write!(f, " th:{th:#x}")?,
        false => write!(f, " th:TH_{}_{plain}", if store { "STORE" } else { "LOAD" })?,
    }
    f.write_str(["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][usize::from(scope)])?;
    f.write_str(if nv { " nv" } else { "" })
}

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

fn vector(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    write!(f, "{}{}", inst.op.name_on(inst.target), suffix(inst))?;
    let mut list = List::new(f, inst);
    // `v_cmpx_*` do not name EXEC.
    if !(info.dst == Ty::Mask && inst.dst == Operand::ExecLo && inst.op.name().starts_with("v_cmpx_"))
        && info.dst != Ty::None
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
        let half_constant = is_mix(inst.op) && inst.op_sel_hi >> at & 1 != 0 && operand.is_constant();
        list.item(Source { inst, at, operand: *operand, ty: if half_constant { mixed_half(inst.op) } else { ty } })?;
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
    if !is_matrix(inst.op) {
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
    if inst.format != Format::Vopc && !is_fp8_source(inst.op) {
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

/// A register of which a half may be named.
struct Half {
    text: Text,
    target: Target,
    high: bool,
}

impl Display for Half {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)?;
        match (self.text.operand, self.text.ty) {
            _ if self.target.is_before_gfx11() => Ok(()),
            (Operand::Vgpr(_), Ty::I16 | Ty::F16 | Ty::BF16) => f.write_str(if self.high { ".h" } else { ".l" }),
            _ => Ok(()),
        }
    }
}

/// A source with its `neg` and `abs`.
struct Source<'a> {
    inst: &'a Inst,
    at: usize,
    operand: Operand,
    ty: Ty,
}

impl Display for Source<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let set = |mask: u8| mask >> self.at & 1 != 0;
        let inst = self.inst;
        let neg = set(inst.neg) && (inst.format != Format::Vop3p || is_mix(inst.op));
        let abs = set(inst.abs);
        let half =
            Half { text: Text::new(self.operand, self.ty, inst.target), target: inst.target, high: set(inst.op_sel) };
        let constant = match self.operand {
            Operand::Inline(_) => true,
            Operand::Literal(bits) => !could_be_inline(bits, self.ty),
            _ => false,
        };
        if inst.sdwa.is_some_and(|sdwa| set(sdwa.sext)) {
            return write!(f, "sext({half})");
        }
        match (neg, abs) {
            (false, false) => half.fmt(f),
            (false, true) => write!(f, "|{half}|"),
            (true, false) if constant => write!(f, "neg({half})"),
            (true, false) => write!(f, "-{half}"),
            (true, true) => write!(f, "-|{half}|"),
        }
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
            if inst.op == Op::VPermlane16SwapB32 {
                f.write_str(if inst.op_sel & 2 != 0 { " bound_ctrl:1" } else { "" })?;
                return f.write_str(if inst.op_sel & 1 != 0 { " fi:1" } else { "" });
            }
            // `v_fmac_f16` reads its destination as a third source.
            let sources = if inst.op == Op::VFmacF16 { 3 } else { sources };
            let no_dst = info.dst == Ty::Mask && (inst.dpp != Dpp::None || inst.op.name().starts_with("v_cmpx_"));
            let byte = match inst.op {
                Op::VCvtSrFp8F32Gfx12 | Op::VCvtSrBf8F32Gfx12 => Some(inst.op_sel >> 2),
                Op::VCvtSrFp8F16 | Op::VCvtSrBf8F16 => Some(inst.op_sel >> 2),
                // Its bits are reversed.
                Op::VCvtF32Fp8Gfx12 | Op::VCvtF32Bf8Gfx12 | Op::VCvtF16Fp8 | Op::VCvtF16Bf8 => {
                    Some(inst.op_sel >> 1 & 1 | (inst.op_sel & 1) << 1)
                }
                _ => None,
            };
            if inst.op.name().starts_with("v_cvt_scale_pk") {
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
            if matches!(inst.op, Op::VCvtSrFp8F32 | Op::VCvtSrBf8F32) {
                return list(f, "op_sel", inst.op_sel, 4);
            }
            let count = if is_permlane(inst.op) { 2 } else { sources + usize::from(!no_dst) };
            list(f, "op_sel", inst.op_sel & all | (inst.op_sel >> 3 & 1) << sources, count)
        }
        Format::Vop3p if is_matrix(inst.op) => Ok(()),
        Format::Vop3p if inst.op.takes_scales() => {
            matrix_formats(inst, f)?;
            c_signs(inst, f)
        }
        Format::Vop3p => {
            let halves = is_mix(inst.op)
                || matches!(inst.op, Op::VWmmaF1616x16x16F16 | Op::VWmmaBf1616x16x16Bf16)
                || info.src.iter().any(|ty| matches!(ty, Ty::V2F16 | Ty::V2BF16 | Ty::V2I16 | Ty::V2F32));
            if inst.op.name().starts_with("v_swmmac_") {
                match inst.op_sel {
                    0 => {}
                    set => write!(f, " index_key:{set}")?,
                }
            } else if reuses(inst.op) {
                f.write_str(if inst.op_sel & 4 != 0 { " matrix_a_reuse" } else { "" })?;
                f.write_str(if inst.op_sel_hi & 4 != 0 { " matrix_b_reuse" } else { "" })?;
            } else if inst.op_sel & all != 0 {
                list(f, "op_sel", inst.op_sel, sources)?;
            }
            if halves && inst.op_sel_hi & all != if is_mix(inst.op) { 0 } else { all } {
                list(f, "op_sel_hi", inst.op_sel_hi, sources)?;
            }
            if inst.neg & all != 0 && !is_mix(inst.op) {
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

/// Scales, and the matrix op that has them if it is there: LLVM prints the two as one.
fn scales(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let list_scales = |list: &mut List<'_, '_>| -> fmt::Result {
        for (operand, ty) in inst.src.iter().zip(inst.op.info().src) {
            list.operand(*operand, *ty)?;
        }
        Ok(())
    };
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

/// Whether the op's factors may be told to be those of the one before: matrix ops of gfx1250 alone.
fn reuses(op: Op) -> bool {
    op.name().starts_with("v_wmma_")
        && op.encodings(Target::Gfx1250).next().is_some_and(|encoding| encoding.code >= 0x50)
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

fn vopd(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
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

fn ds(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    let name = inst.op.name_on(inst.target);
    f.write_str(name)?;
    let mut list = List::new(f, inst);
    list.operand(inst.dst, info.dst)?;
    for (operand, ty) in inst.src.iter().zip(info.src) {
        list.operand(*operand, *ty)?;
    }
    let offset = inst.mem.offset;
    if inst.op.name().contains("_2addr_") {
        for (label, value) in [("offset0", offset & 0xff), ("offset1", offset >> 8)] {
            if value != 0 {
                write!(f, " {label}:{value}")?;
            }
        }
    } else if inst.op == Op::DsSwizzleB32 {
        immediate::swizzle(offset as u16, f)?;
    } else if offset != 0 {
        write!(f, " offset:{offset}")?;
    }
    f.write_str(if inst.mem.gds { " gds" } else { "" })
}

/// Data first for loads and returning atomics, address first for stores and plain atomics.
fn flat(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    if !inst.dst.is_none() {
        list.operand(inst.dst, info.dst)?;
    }
    if info.src.is_empty() {
        return cache_bits(inst, f);
    }
    let scalar = inst.src[2];
    if info.src[0] != Ty::None {
        list.operand(inst.src[0], inst.src_ty(0))?;
    }
    list.operand(inst.src[1], info.src[1])?;
    if inst.format != Format::Flat {
        list.operand(scalar, info.src[2])?;
    } else if !scalar.is_none() {
        list.operand(scalar, Ty::B64)?;
    }
    if inst.mem.offset != 0 {
        write!(f, " offset:{}", inst.mem.offset)?;
    }
    cache_bits(inst, f)
}

fn tensor(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    for (operand, ty) in inst.src.iter().zip(inst.op.info().src).filter(|(operand, _)| !operand.is_none()) {
        list.operand(*operand, *ty)?;
    }
    cache_bits(inst, f)
}

fn buffer(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    f.write_str(inst.op.name_on(inst.target))?;
    if info.src.is_empty() {
        return cache_bits(inst, f);
    }
    let mut list = List::new(f, inst);
    let (data, ty) = if info.src[1] == Ty::None { (inst.dst, info.dst) } else { (inst.src[1], info.src[1]) };
    let dwords = ty.dwords(false) + u8::from(inst.mem.tfe);
    if !inst.mem.lds {
        list.item(Text { operand: data, dwords, ty })?;
    }
    list.operand(inst.src[0], inst.src_ty(0))?;
    list.operand(inst.src[2], info.src[2])?;
    list.operand(inst.src[3], info.src[3])?;
    if inst.format == Format::Mtbuf {
        write!(f, " format:{}", inst.mem.buffer_format)?;
    }
    for (set, name) in [(inst.mem.idxen, " idxen"), (inst.mem.offen, " offen")] {
        if set {
            f.write_str(name)?;
        }
    }
    if inst.mem.offset != 0 {
        write!(f, " offset:{}", inst.mem.offset)?;
    }
    cache_bits(inst, f)?;
    f.write_str(if inst.mem.tfe { " tfe" } else { "" })?;
    f.write_str(if inst.mem.lds { " lds" } else { "" })
}
