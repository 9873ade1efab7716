// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operands, and lists of them.

use std::fmt::{self, Display, Formatter};

use crate::constant::float_constant;
use crate::encoding::{Format, Ty};
use crate::flags::Flags;
use crate::inst::{Inst, Operand};
use crate::target::Target;

/// Writes `, `-separated operands after the mnemonic.
pub(super) struct List<'a, 'b> {
    f: &'a mut Formatter<'b>,
    target: Target,
    first: bool,
}

impl<'a, 'b> List<'a, 'b> {
    pub fn new(f: &'a mut Formatter<'b>, inst: &Inst) -> Self {
        List { f, target: inst.target, first: true }
    }

    pub fn item(&mut self, item: impl Display) -> fmt::Result {
        let separator = if self.first { " " } else { ", " };
        self.first = false;
        write!(self.f, "{separator}{item}")
    }

    /// An operand, or nothing if the row has no such slot.
    pub fn operand(&mut self, operand: Operand, ty: Ty) -> fmt::Result {
        if ty == Ty::None { Ok(()) } else { self.item(Text::new(operand, ty, self.target)) }
    }
}

/// An operand of known width.
pub(super) struct Text {
    pub operand: Operand,
    pub dwords: u8,
    pub ty: Ty,
}

impl Text {
    pub fn new(operand: Operand, ty: Ty, target: Target) -> Self {
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
    let low = || float_constant(bits, Ty::BF16).filter(|_| ty == Ty::V2BF16);
    match float_constant(bits, ty).or_else(low) {
        Some(_) if ty == Ty::I16 => write!(f, "{bits:#x}"),
        Some(8) if matches!(ty, Ty::F64 | Ty::B64 | Ty::I64 | Ty::V4F64) => f.write_str("0.15915494309189532"),
        Some(8) => f.write_str("0.15915494"),
        Some(at) => f.write_str(["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"][at]),
        None => write!(f, "{bits:#x}"),
    }
}

/// True if LLVM marks a literal with `lit(...)`: its value could be an inline constant.
fn could_be_inline(bits: u32, ty: Ty) -> bool {
    let small = |value: i64| (-16..=64).contains(&value);
    let float = |bits: u32, ty| float_constant(u64::from(bits), ty).is_some();
    match ty {
        Ty::K32 | Ty::K16 | Ty::F64 => false,
        Ty::B64 | Ty::I64 => small(i64::from(bits)),
        Ty::F16 => small(i64::from(bits as i16)) || float(bits & 0xffff, ty),
        Ty::BF16 => small(i64::from(bits as i16)) || float(bits & 0xffff, ty),
        Ty::V2BF16 => small(i64::from(bits as i32)) || float(bits, Ty::BF16),
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

/// A register of which a half may be named.
pub(super) struct Half {
    pub text: Text,
    pub target: Target,
    pub high: bool,
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
pub(super) struct Source<'a> {
    pub inst: &'a Inst,
    pub at: usize,
    pub operand: Operand,
    pub ty: Ty,
}

impl Display for Source<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let set = |mask: u8| mask >> self.at & 1 != 0;
        let inst = self.inst;
        let neg = set(inst.neg) && (inst.format != Format::Vop3p || inst.op.has(Flags::MIX));
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
