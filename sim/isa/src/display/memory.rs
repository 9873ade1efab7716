// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! SMEM, DS, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF and VIMAGE.

use std::fmt::{self, Display, Formatter};

use super::immediate;
use super::operand::{List, Text};
use crate::encoding::{Format, Ty};
use crate::flags::Flags;
use crate::inst::{Inst, Mem, Operand};
use crate::op::Op;

pub(super) fn smem(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    match info.src.get(2) {
        // An atomic returns into the registers of its data.
        Some(data) => list.operand(inst.src[2], *data)?,
        None => list.operand(inst.dst, info.dst)?,
    }
    if inst.op.has(Flags::PREFETCH) {
        list.operand(inst.src[0], info.src[0])?;
        list.item(Hex(inst.mem.offset))?;
        let register = if inst.src[1].is_none() { Operand::Null } else { inst.src[1] };
        list.operand(register, Ty::B32)?;
        return list.item(small(inst.simm));
    }
    if inst.op.has_immediate_data() {
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
        target if target.is_cdna3_or_later() && inst.format != Format::Smem => [" sc0", " nt", "", " sc1"],
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
    let store = inst.op.has(Flags::STORE);
    let written_back = match (scope, store) {
        (3, _) => "BYPASS",
        (_, true) => "WB",
        (_, false) => "LU",
    };
    let plain = ["RT", "NT", "HT", written_back, "NT_RT", "RT_NT", "NT_HT", "NT_WB"][usize::from(th)];
    let atomic = ["RT", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "CASCADE_RT", "CASCADE_NT", "CASCADE_NT"];
    match inst.op.has(Flags::ATOMIC) {
        _ if th == 0 => {}
        true if th >= 4 && scope < 2 => write!(f, " th:TH_ATOMIC_{th:#x}")?,
        true => write!(f, " th:TH_ATOMIC_{}", atomic[usize::from(th)])?,
        false if th == 7 && !store => write!(f, " th:{th:#x}")?,
        false => write!(f, " th:TH_{}_{plain}", if store { "STORE" } else { "LOAD" })?,
    }
    f.write_str(["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][usize::from(scope)])?;
    f.write_str(if nv { " nv" } else { "" })
}

pub(super) fn ds(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let info = inst.op.info();
    let name = inst.op.name_on(inst.target);
    f.write_str(name)?;
    let mut list = List::new(f, inst);
    list.operand(inst.dst, info.dst)?;
    for (operand, ty) in inst.src.iter().zip(info.src) {
        list.operand(*operand, *ty)?;
    }
    let offset = inst.mem.offset;
    if inst.op.has(Flags::TWO_OFFSETS) {
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
pub(super) fn flat(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
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

pub(super) fn tensor(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(inst.op.name_on(inst.target))?;
    let mut list = List::new(f, inst);
    for (operand, ty) in inst.src.iter().zip(inst.op.info().src).filter(|(operand, _)| !operand.is_none()) {
        list.operand(*operand, *ty)?;
    }
    cache_bits(inst, f)
}

pub(super) fn buffer(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
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
