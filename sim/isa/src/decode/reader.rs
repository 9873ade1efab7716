// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Common part of all encodings: dwords, literals, operands by their codes, and the checks after all fields are read.

use super::lookup::lookup;
use crate::constant::{float, integer};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::inst::{Inst, Operand};
use crate::op::Op;
use crate::target::Target;

/// The dwords of one instruction, taken front to back.
pub(super) struct Reader<'a> {
    pub(super) target: Target,
    pub(super) words: &'a [u32],
    pub(super) taken: usize,
    /// The literal, once read: an instruction has at most one, which several operands may name.
    literal: Option<u32>,
    /// The 64-bit literal, once read.
    literal64: Option<u64>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(target: Target, words: &'a [u32]) -> Self {
        Reader { target, words, taken: 0, literal: None, literal64: None }
    }

    pub(super) fn word(&mut self) -> Result<u32, DecodeFault> {
        let word = *self.words.get(self.taken).ok_or(DecodeFault::Truncated)?;
        self.taken += 1;
        Ok(word)
    }

    pub(super) fn literal(&mut self) -> Result<Operand, DecodeFault> {
        if self.literal.is_none() {
            self.literal = Some(self.word()?);
        }
        Ok(Operand::Literal(self.literal.unwrap_or_default()))
    }

    /// The 64-bit literal that gfx1250 takes in 64-bit operands of scalar and short vector encodings.
    pub(super) fn literal64(&mut self, op: Op, ty: Ty) -> Result<Operand, DecodeFault> {
        if self.target != Target::Gfx1250
            || self.literal.is_some()
            || !matches!(ty, Ty::B64 | Ty::I64 | Ty::F64 | Ty::K64)
        {
            return Err(DecodeFault::Operand { op, code: SRC_LITERAL64 as u16 });
        }
        if self.literal64.is_none() {
            self.literal64 = Some(u64::from(self.word()?) | u64::from(self.word()?) << 32);
        }
        Ok(Operand::Literal64(self.literal64.unwrap_or_default()))
    }

    pub(super) fn lookup(&self, format: Format, code: u32) -> Result<Op, DecodeFault> {
        lookup(self.target, format, code).ok_or(DecodeFault::Opcode { format, code: code as u16 })
    }

    /// Completes the instruction after all fields are read.
    pub(super) fn finish(&self, mut inst: Inst) -> Result<Inst, DecodeFault> {
        let keep = modifier_mask(inst.op, self.target);
        inst.neg &= keep;
        inst.abs &= keep;
        inst.size = (self.taken * 4) as u8;
        tuples_fit(&inst)?;
        Ok(inst)
    }

    /// A scalar register or special value by its 7-bit code, as destinations and addresses use it.
    pub(super) fn scalar_register(&self, op: Op, code: u32) -> Result<Operand, DecodeFault> {
        if self.target.is_gfx9() {
            return Self::scalar_register9(op, code);
        }
        let before_gfx11 = self.target.is_before_gfx11();
        Ok(match code {
            124 if before_gfx11 => Operand::M0,
            125 if before_gfx11 => Operand::Null,
            0..=105 => Operand::Sgpr(code as u8),
            106 => Operand::VccLo,
            107 => Operand::VccHi,
            108..=123 => Operand::Ttmp(code as u8 - 108),
            124 => Operand::Null,
            125 => Operand::M0,
            126 => Operand::ExecLo,
            127 => Operand::ExecHi,
            _ => return Err(DecodeFault::Operand { op, code: code as u16 }),
        })
    }

    /// A scalar register or special value by its 7-bit code on GFX9.
    fn scalar_register9(op: Op, code: u32) -> Result<Operand, DecodeFault> {
        Ok(match code {
            0..=101 => Operand::Sgpr(code as u8),
            102 => Operand::FlatScratchLo,
            103 => Operand::FlatScratchHi,
            104 => Operand::XnackMaskLo,
            105 => Operand::XnackMaskHi,
            106 => Operand::VccLo,
            107 => Operand::VccHi,
            108..=123 => Operand::Ttmp(code as u8 - 108),
            124 => Operand::M0,
            126 => Operand::ExecLo,
            127 => Operand::ExecHi,
            _ => return Err(DecodeFault::Operand { op, code: code as u16 }),
        })
    }

    /// The scalar register that starts a tuple of type `ty`: pairs are even, wider ones multiples of four.
    pub(super) fn scalar_tuple(&self, op: Op, code: u32, ty: Ty) -> Result<Operand, DecodeFault> {
        let alignment = match ty.dwords(self.target.is_gfx9()) {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        };
        let operand = self.scalar_register(op, code)?;
        let aligned = match operand {
            Operand::Sgpr(n) | Operand::Ttmp(n) => n % alignment == 0,
            Operand::VccHi | Operand::ExecHi | Operand::FlatScratchHi | Operand::XnackMaskHi => alignment == 1,
            _ => true,
        };
        if aligned { Ok(operand) } else { Err(DecodeFault::Operand { op, code: code as u16 }) }
    }

    /// A source by its 8-bit (scalar) or 9-bit (vector) code.
    pub(super) fn source(&mut self, op: Op, code: u32, ty: Ty) -> Result<Operand, DecodeFault> {
        Ok(match code {
            0..=127 => self.scalar_tuple(op, code, ty)?,
            128..=192 => Operand::Inline(integer(i64::from(code) - 128, ty)),
            193..=208 => Operand::Inline(integer(192 - i64::from(code), ty)),
            230 if self.target == Target::Gfx1250 => Operand::FlatScratchBaseLo,
            231 if self.target == Target::Gfx1250 && ty.dwords(false) == 1 => Operand::FlatScratchBaseHi,
            235 => Operand::SharedBase,
            236 => Operand::SharedLimit,
            237 => Operand::PrivateBase,
            238 => Operand::PrivateLimit,
            239 => Operand::PopsExitingWaveId,
            240..=248 => {
                // Of dot products before gfx1250 only LLVM's output is known: bf16 in the low half.
                let is_low = ty == Ty::V2BF16 && self.target != Target::Gfx1250;
                Operand::Inline(float(code as usize - 240, if is_low { Ty::BF16 } else { ty }))
            }
            251 => Operand::Vccz,
            252 => Operand::Execz,
            253 => Operand::Scc,
            SRC_LITERAL64 => self.literal64(op, ty)?,
            SRC_LITERAL => self.literal()?,
            256..=511 => Operand::Vgpr(code as u8),
            _ => return Err(DecodeFault::Operand { op, code: code as u16 }),
        })
    }
}

/// Checks that no register tuple runs past the end of its file, and that tuples of lane registers start with an even
/// one where they must.
fn tuples_fit(inst: &Inst) -> Result<(), DecodeFault> {
    let info = inst.op.info();
    let fits = |operand: Operand, ty: Ty| {
        let (first, size) = match operand {
            // These are the numbers' lowest bits, and the others of the first: a tuple may pass a multiple of 256.
            Operand::Vgpr(first) if inst.target == Target::Gfx1250 => (first, 1024),
            Operand::Vgpr(first) | Operand::Agpr(first) => (first, 256),
            Operand::Sgpr(first) if inst.target.is_gfx9() => (first, 102),
            Operand::Sgpr(first) => (first, 106),
            Operand::Ttmp(first) => (first, 16),
            _ => return Ok(()),
        };
        let dwords = ty.dwords(inst.target.is_gfx9());
        let lane = matches!(operand, Operand::Vgpr(_) | Operand::Agpr(_));
        let aligned = !lane || dwords < 2 || first % 2 == 0 || !inst.target.has_aligned_tuples();
        if aligned && u16::from(first) + u16::from(dwords) <= size {
            Ok(())
        } else {
            Err(DecodeFault::Operand { op: inst.op, code: u16::from(first) })
        }
    };
    fits(inst.dst, info.dst)?;
    for (at, operand) in inst.src.iter().enumerate() {
        fits(*operand, inst.src_ty(at))?;
    }
    Ok(())
}

/// The sources that take `neg` and `abs`; hardware ignores the bits of others.
pub(super) fn modifier_mask(op: Op, target: Target) -> u8 {
    match op {
        Op::VCmpClassF16 | Op::VCmpxClassF16 if target.is_before_gfx11() => 0b01,
        Op::VCndmaskB16 => 0b11,
        Op::VLdexpF16 => 0b01,
        Op::VCvtPkF32Fp8Gfx12 | Op::VCvtPkF32Bf8Gfx12 => 0,
        Op::VDot2cI32I16 => 0,
        _ => op.info().src.iter().enumerate().map(|(at, ty)| u8::from(!matches!(ty, Ty::I16 | Ty::I32)) << at).sum(),
    }
}

/// Source 0 codes that stand for a DPP dword.
pub(super) const SRC_DPP8: u32 = 233;
pub(super) const SRC_DPP8_FI: u32 = 234;
pub(super) const SRC_DPP16: u32 = 250;
/// Before gfx11: the source 0 code that stands for an SDWA dword.
pub(super) const SRC_SDWA: u32 = 249;
/// gfx1250: the source code that stands for a literal of 64 bits.
pub(super) const SRC_LITERAL64: u32 = 254;
/// The source code that stands for a literal.
pub(super) const SRC_LITERAL: u32 = 255;
