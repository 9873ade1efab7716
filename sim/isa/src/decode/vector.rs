// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P, VOPD and VOPD3, with their DPP variants.

use super::reader::{Reader, SRC_LITERAL, SRC_LITERAL64, SRC_SDWA, modifier_mask};
use crate::bits::{bit, bits};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::flags::Flags;
use crate::inst::{Inst, Operand};
use crate::op::Op;
use crate::target::Target;

impl Reader<'_> {
    /// VOP1, VOP2 or VOPC: `word` has bit 31 clear.
    pub(super) fn vop_short(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let (format, code) = match bits(word, 25, 6) {
            0b11_1111 => (Format::Vop1, bits(word, 9, 8)),
            0b11_1110 => (Format::Vopc, bits(word, 17, 8)),
            code => (Format::Vop2, code),
        };
        let op = self.lookup(format, code)?;
        let mut inst = Inst::new(self.target, op, format);
        let info = op.info();
        if format == Format::Vopc {
            inst.dst =
                if op.has(Flags::WRITES_EXEC) && !self.target.is_gfx9() { Operand::ExecLo } else { Operand::VccLo };
        } else {
            self.short_dst(&mut inst, bits(word, 17, 8))?;
        }
        if info.sdst == Ty::Mask {
            inst.sdst = Operand::VccLo;
        }
        if info.src.is_empty() {
            return Ok(inst);
        }
        if bits(word, 0, 9) == SRC_SDWA && self.target.is_before_gfx11() {
            self.sdwa(&mut inst, bits(word, 9, 8))?;
            return Ok(inst);
        }
        let src0 = self.dpp(&mut inst, bits(word, 0, 9))?;
        // The one-register field goes to the first slot after source 0 that is not a constant or an implied mask.
        self.short_source(&mut inst, 0, src0)?;
        for at in 1..info.src.len() {
            match info.src[at] {
                Ty::Mask => inst.src[at] = Operand::VccLo,
                Ty::K32 | Ty::K16 => inst.src[at] = self.literal()?,
                ty @ Ty::K64 => inst.src[at] = self.literal64(inst.op, ty)?,
                _ => self.short_source(&mut inst, at, 256 + bits(word, 9, 8))?,
            }
        }
        Ok(inst)
    }

    /// The destination of a short encoding: a VGPR, half of one, or an SGPR.
    fn short_dst(&mut self, inst: &mut Inst, code: u32) -> Result<(), DecodeFault> {
        inst.dst = match inst.op.info().dst {
            Ty::None => Operand::None,
            Ty::S32 => self.scalar_register(inst.op, code)?,
            _ if inst.op == Op::VAccvgprMovB32 => Operand::Agpr(code as u8),
            ty if ty.is_16() && !self.target.is_before_gfx11() => {
                inst.op_sel |= (bits(code, 7, 1) << 3) as u8;
                Operand::Vgpr(bits(code, 0, 7) as u8)
            }
            _ => Operand::Vgpr(code as u8),
        };
        Ok(())
    }

    /// Source `at` of a short encoding, where bit 7 of a 16-bit VGPR's number selects its half.
    fn short_source(&mut self, inst: &mut Inst, at: usize, code: u32) -> Result<(), DecodeFault> {
        let ty = inst.op.info().src[at];
        inst.src[at] = self.source(inst.op, code, ty)?;
        if let Operand::Vgpr(register) = inst.src[at]
            && inst.op == Op::VAccvgprMovB32
        {
            inst.src[at] = Operand::Agpr(register);
        }
        if let Operand::Vgpr(register) = &mut inst.src[at]
            && ty.is_16()
            && !self.target.is_before_gfx11()
        {
            inst.op_sel |= (*register >> 7) << at;
            *register &= 0x7f;
        }
        Ok(())
    }

    pub(super) fn vop3(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Vop3, bits(word, 16, 10))?;
        let high = self.word()?;
        let info = op.info();
        let mut inst = Inst::new(self.target, op, if info.sdst == Ty::None { Format::Vop3 } else { Format::Vop3sd });
        inst.dst = match info.dst {
            Ty::None => Operand::None,
            // From gfx10 on the field is not looked at: LLVM has 126 in it, up to 15 it had 0.
            Ty::Mask if op.has(Flags::WRITES_EXEC) && !self.target.is_gfx9() => Operand::ExecLo,
            Ty::Mask | Ty::S32 => self.scalar_tuple(op, bits(word, 0, 8), info.dst)?,
            _ => Operand::Vgpr(word as u8),
        };
        if info.sdst == Ty::None {
            inst.abs = bits(word, 8, 3) as u8;
            inst.op_sel = bits(word, 11, 4) as u8 & op_sel_mask(op, self.target);
        } else {
            inst.sdst = self.scalar_tuple(op, bits(word, 8, 7), info.sdst)?;
        }
        inst.clamp = bit(word, 15);
        inst.omod = bits(high, 27, 2) as u8;
        inst.neg = bits(high, 29, 3) as u8;
        if matches!(op, Op::VBitop3B32 | Op::VBitop3B16) {
            // Its truth table is where others have modifiers.
            inst.simm = (inst.omod << 6 | inst.abs << 3 | inst.neg) as i16;
            (inst.omod, inst.abs, inst.neg) = (0, 0, 0);
        }
        self.three_sources(&mut inst, high)?;
        Ok(inst)
    }

    pub(super) fn vop3p(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        if bits(word, 24, 2) != 0 && !self.target.is_gfx9() {
            return Err(DecodeFault::Encoding);
        }
        let width = if self.target == Target::Gfx1250 { 8 } else { 7 };
        let op = self.lookup(Format::Vop3p, bits(word, 16, width))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Vop3p);
        inst.dst = Operand::Vgpr(word as u8);
        inst.op_sel = bits(word, 11, 3) as u8;
        inst.op_sel_hi = (bits(high, 27, 2) | bits(word, 14, 1) << 2) as u8;
        inst.clamp = bit(word, 15);
        inst.neg = bits(high, 29, 3) as u8;
        if op.has(Flags::MIX) {
            inst.abs = bits(word, 8, 3) as u8;
        } else if op.has(Flags::NO_SIGNS) {
            inst.neg = 0;
        } else {
            inst.neg_hi = bits(word, 8, 3) as u8;
        }
        self.three_sources(&mut inst, high)?;
        match op {
            Op::VMfmaLdScaleB32 => self.scaled9(&mut inst)?,
            _ if op.loads_scales() => self.scaled(&mut inst, high)?,
            _ => {}
        }
        Ok(inst)
    }

    /// The matrix op that the scales in `inst` are for, if it follows.
    fn scaled(&mut self, inst: &mut Inst, high: u32) -> Result<(), DecodeFault> {
        // No literal fits in. LLVM 22 puts the code of v0 where others have a third source, LLVM 23 the code of 0.
        let third = bits(high, 18, 9);
        if bits(high, 0, 9) == SRC_LITERAL || bits(high, 9, 9) == SRC_LITERAL || !matches!(third, 128 | 256) {
            return Err(DecodeFault::Operand { op: inst.op, code: third as u16 });
        }
        inst.dst = Operand::None;
        let rest = &self.words[self.taken..];
        let is_vop3p = |word: &&u32| **word >> 24 == 0b1100_1100;
        let next = rest.first().filter(is_vop3p).map(|word| self.lookup(Format::Vop3p, bits(*word, 16, 8)));
        if next.is_some_and(|op| op.is_ok_and(Op::takes_scales)) {
            let mut reader = Reader::new(self.target, rest);
            let word = reader.word()?;
            let product = reader.vop3p(word)?;
            let mut product = reader.finish(product)?;
            self.taken += usize::from(product.size) / 4;
            product.size = 0;
            inst.dual = Some(Box::new(product));
        }
        Ok(())
    }

    /// The three 9-bit sources of the 64-bit encodings. Fields beyond the row's sources are ignored, as hardware does.
    pub(super) fn three_sources(&mut self, inst: &mut Inst, high: u32) -> Result<(), DecodeFault> {
        let src0 = bits(high, 0, 9);
        let (neg, abs) = (inst.neg, inst.abs);
        // DPP came here with gfx11, literals with gfx10: before, their codes are reserved.
        let gfx9 = self.target.is_gfx9();
        let may_cross = !inst.op.info().src.is_empty() && !self.target.is_before_gfx11();
        let src0 = if may_cross { self.dpp(inst, src0)? } else { src0 };
        (inst.neg, inst.abs) = (neg, abs);
        let codes = [src0, bits(high, 9, 9), bits(high, 18, 9)];
        let refused = if gfx9 { SRC_LITERAL } else { SRC_LITERAL64 };
        if codes[..inst.op.info().src.len()].contains(&refused) {
            return Err(DecodeFault::Operand { op: inst.op, code: refused as u16 });
        }
        for (at, (code, ty)) in codes.into_iter().zip(inst.op.info().src).enumerate() {
            inst.src[at] = match *ty {
                Ty::Mask => self.scalar_tuple(inst.op, code, Ty::Mask)?,
                // A half-precision source of a mixed op: constants are 16 bits wide.
                _ if inst.op.has(Flags::MIX) && inst.op_sel_hi >> at & 1 != 0 => {
                    self.source(inst.op, code, inst.op.mixed_half())?
                }
                ty => self.source(inst.op, code, ty)?,
            };
        }
        Ok(())
    }

    /// Two halves; Y's destination is the register of the other parity.
    pub(super) fn vopd(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let high = self.word()?;
        let dst_x = bits(high, 24, 8);
        let dst_y = bits(high, 17, 7) << 1 | (!dst_x & 1);
        let mut x = self.vopd_half(bits(word, 22, 4), dst_x, bits(word, 0, 9), bits(word, 9, 8))?;
        let y = self.vopd_half(bits(word, 17, 5), dst_y, bits(high, 0, 9), bits(high, 9, 8))?;
        x.dual = Some(Box::new(y));
        Ok(x)
    }

    fn vopd_half(&mut self, code: u32, dst: u32, src0: u32, vsrc1: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Vopd, code)?;
        let mut inst = Inst::new(self.target, op, Format::Vopd);
        inst.dst = Operand::Vgpr(dst as u8);
        for (at, ty) in op.info().src.iter().enumerate() {
            inst.src[at] = match (at, ty) {
                (0, _) => self.source(op, src0, *ty)?,
                (_, Ty::Mask) => Operand::VccLo,
                (_, Ty::K32) => self.literal()?,
                _ => Operand::Vgpr(vsrc1 as u8),
            };
        }
        Ok(inst)
    }

    /// Two halves that share no field. Literals do not fit in. Some ops are only ever the first half or the second.
    pub(super) fn vopd3(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let (high, last) = (self.word()?, self.word()?);
        if bits(word, 9, 3) != 0 || bit(high, 15) {
            return Err(DecodeFault::Encoding);
        }
        let (code_x, code_y) = (bits(word, 18, 6), bits(word, 12, 6));
        let sources = [bits(word, 0, 9), bits(high, 16, 8), bits(high, 24, 8)];
        let mut x = self.vopd3_half(code_x, bits(last, 0, 8), sources, bits(high, 9, 3))?;
        let sources = [bits(high, 0, 9), bits(last, 8, 8), bits(last, 16, 8)];
        let y = self.vopd3_half(code_y, bits(last, 24, 8), sources, bits(high, 12, 3))?;
        let misplaced = if matches!(x.op, Op::VBitop2B32 | Op::VMaxI32 | Op::VMinI32) {
            Some(code_x)
        } else {
            (y.op.info().dst == Ty::F64).then_some(code_y)
        };
        if let Some(code) = misplaced {
            return Err(DecodeFault::Opcode { format: Format::Vopd3, code: code as u16 });
        }
        x.dual = Some(Box::new(y));
        Ok(x)
    }

    fn vopd3_half(&mut self, code: u32, dst: u32, sources: [u32; 3], neg: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Vopd3, code)?;
        let mut inst = Inst::new(self.target, op, Format::Vopd3);
        inst.dst = Operand::Vgpr(dst as u8);
        inst.neg = neg as u8 & modifier_mask(op, self.target);
        if op == Op::VBitop2B32 {
            // Its truth table is where others have a third source.
            inst.simm = sources[2] as i16;
        }
        for (at, (code, ty)) in sources.into_iter().zip(op.info().src).enumerate() {
            inst.src[at] = match (at, ty) {
                (_, Ty::Mask) => self.scalar_tuple(op, code, Ty::Mask)?,
                (0, _) if code == SRC_LITERAL => return Err(DecodeFault::Operand { op, code: code as u16 }),
                (0, _) => self.source(op, code, *ty)?,
                _ => Operand::Vgpr(code as u8),
            };
        }
        Ok(inst)
    }
}

/// The `op_sel` bits that mean something: of 16-bit sources, and bit 3 of a 16-bit destination.
/// `v_permlane16` and `v_permlanex16` have two flags there instead.
fn op_sel_mask(op: Op, target: Target) -> u8 {
    if op.has(Flags::PERMLANE) || matches!(op, Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32) {
        return 0b11;
    }
    let parts = [(Flags::SRC_WORD, 0b1), (Flags::SRC_BYTE, 0b11), (Flags::DST_WORD, 0b1000), (Flags::DST_BYTE, 0b1100)];
    let parts = parts.into_iter().filter(|(flag, _)| op.has(*flag)).fold(0, |mask, (_, bits)| mask | bits);
    if parts != 0 {
        return parts;
    }
    if matches!(op, Op::VAshrPkI8I32 | Op::VAshrPkU8I32) {
        return 0b1000;
    }
    if target.is_before_gfx11() && !chooses_halves(op, target) {
        return 0;
    }
    match op {
        Op::VCvtPkFp8F32 | Op::VCvtPkBf8F32 => return 0b1000,
        Op::VCvtSrFp8F32 | Op::VCvtSrBf8F32 | Op::VCvtSrFp8F32Gfx12 | Op::VCvtSrBf8F32Gfx12 => return 0b1100,
        Op::VCvtF32Fp8Gfx12 | Op::VCvtF32Bf8Gfx12 => return 0b11,
        Op::VCvtF16Fp8 | Op::VCvtF16Bf8 => return 0b1011,
        Op::VCvtSrFp8F16 | Op::VCvtSrBf8F16 => return 0b1101,
        _ if op.has(Flags::SCALE_SEL) => return 0b1111,
        _ => {}
    }
    let info = op.info();
    if info.dst == Ty::S32 {
        // Scalars have no halves.
        return 0;
    }
    let sources = info.src.iter().enumerate().map(|(at, ty)| u8::from(ty.is_16()) << at).sum::<u8>();
    sources | u8::from(info.dst.is_16()) << 3
}

/// True if a VOP3 op before gfx11 chooses halves of registers.
fn chooses_halves(op: Op, target: Target) -> bool {
    op.has(Flags::HALVES) && op.encodings(target).all(|encoding| encoding.format == Format::Vop3)
}
