// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Encodings that are particular to GFX9: the choice of encoding, matrix instructions and memory.
//!
//! Vega ISA, chapter 13 "Microcode Formats"; CDNA3 ISA, chapter 13, for matrices, AGPRs and the cache bits.

use super::memory::{flat_format, is_gws, lane_register, returns_with_glc, src_ty, vgpr};
use super::reader::Reader;
use crate::bits::{bit, bits};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::flags::Flags;
use crate::inst::{Inst, Matrix, Operand};
use crate::op::Op;
use crate::target::Target;

fn is_accvgpr(op: Op) -> bool {
    matches!(op, Op::VAccvgprReadB32 | Op::VAccvgprWriteB32)
}

impl Reader<'_> {
    pub(super) fn encoding9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        match word >> 26 {
            0b11_0100 if bits(word, 23, 3) == 0b111 => self.vop3p9(word),
            0b11_0100 => self.vop3(word),
            0b11_0000 => self.smem9(word),
            0b11_0110 => self.ds9(word),
            0b11_0111 => self.flat9(word),
            0b11_1000 => self.mubuf9(word),
            0b11_1010 => self.mtbuf9(word),
            code if code >= 0b11_0000 => Err(DecodeFault::Encoding),
            0b10_0000..=0b10_1111 => self.scalar(word),
            _ => self.vop_short(word),
        }
    }

    fn vop3p9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Vop3p, bits(word, 16, 7))?;
        if !op.has(Flags::MATRIX) {
            return self.vop3p(word);
        }
        let inst = self.matrix(word, op)?;
        // The field says here that scales come before.
        if op.has_matrix_formats() && inst.matrix.abid != 0 { Err(DecodeFault::Encoding) } else { Ok(inst) }
    }

    /// The matrix op that the scales in `inst` are for, if it follows (CDNA4 ISA, "VOP3PX2").
    pub(super) fn scaled9(&mut self, inst: &mut Inst) -> Result<(), DecodeFault> {
        (inst.dst, inst.clamp) = (Operand::None, false);
        inst.op_sel &= 0b11;
        inst.op_sel_hi &= 0b11;
        let rest = &self.words[self.taken..];
        let has_scales = |word: &u32| word >> 23 == 0b1_1010_0111 && bits(*word, 11, 4) == 1;
        let Some(&word) = rest.first().filter(|word| has_scales(word)) else { return Ok(()) };
        let Some(op) = self.lookup(Format::Vop3p, bits(word, 16, 7)).ok().filter(|op| op.takes_scales()) else {
            return Ok(());
        };
        let mut reader = Reader::new(self.target, rest);
        let word = reader.word()?;
        let mut product = reader.matrix(word, op)?;
        product.matrix.abid = 0;
        let mut product = reader.finish(product)?;
        self.taken += usize::from(product.size) / 4;
        product.size = 0;
        inst.dual = Some(Box::new(product));
        Ok(())
    }

    /// Matrix instructions. `acc` bits of the fields choose the register file; on gfx908 accumulators are AGPRs always.
    fn matrix(&mut self, word: u32, op: Op) -> Result<Inst, DecodeFault> {
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Vop3p);
        self.three_sources(&mut inst, high)?;
        let acc_cd = bit(word, 15) || self.target == Target::Gfx908;
        let sparse = op.has(Flags::SPARSE);
        inst.dst = lane_register(Operand::Vgpr(word as u8), acc_cd && !is_accvgpr(op) || op == Op::VAccvgprWriteB32);
        inst.src[0] =
            lane_register(inst.src[0], bit(high, 27) && op != Op::VAccvgprWriteB32 || op == Op::VAccvgprReadB32);
        inst.src[1] = lane_register(inst.src[1], bit(high, 28));
        inst.src[2] = lane_register(inst.src[2], acc_cd && !sparse);
        if is_accvgpr(op) {
            return Ok(inst);
        }
        // A, B and the index of a sparse A are registers of lanes; C may be a constant instead.
        for (at, operand) in inst.src[..3].iter().enumerate() {
            let is_register = matches!(operand, Operand::Vgpr(_) | Operand::Agpr(_));
            let may_be_constant = at == 2 && !sparse;
            if !(is_register || may_be_constant && operand.is_constant()) {
                return Err(DecodeFault::Operand { op, code: bits(high, 9 * at as u32, 9) as u16 });
            }
        }
        inst.matrix =
            Matrix { cbsz: bits(word, 8, 3) as u8, abid: bits(word, 11, 4) as u8, blgp: bits(high, 29, 3) as u8 };
        if self.target.is_cdna3_or_later() && op.info().src[0] == Ty::F64 {
            inst.neg = std::mem::take(&mut inst.matrix.blgp);
        }
        Ok(inst)
    }

    /// The offset is 21 signed bits, a register, or (`soffset_en`) the sum of both.
    fn smem9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Smem, bits(word, 18, 8))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Smem);
        let info = op.info();
        self.scalar_dst(&mut inst, bits(word, 6, 7))?;
        if info.src.is_empty() {
            return Ok(inst);
        }
        inst.src[0] = self.scalar_tuple(op, bits(word, 0, 6) * 2, info.src[0])?;
        let (immediate, register) = (bit(word, 17), bit(word, 14));
        if immediate {
            inst.mem.offset = (bits(high, 0, 21) << 11) as i32 >> 11;
        }
        if register {
            inst.src[1] = self.scalar_register(op, bits(high, 25, 7))?;
        } else if !immediate {
            inst.src[1] = self.scalar_register(op, bits(high, 0, 7))?;
        }
        inst.mem.glc = bit(word, 16);
        self.scalar_data(&mut inst, bits(word, 6, 7))?;
        Ok(inst)
    }

    fn ds9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Ds, bits(word, 17, 8))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Ds);
        let unified = self.target.has_unified_registers();
        let acc = bit(word, 25) && unified;
        inst.dst = lane_register(vgpr(op.info().dst, bits(high, 24, 8)), acc);
        for at in 0..3 {
            inst.src[at] = lane_register(vgpr(src_ty(op, at), bits(high, 8 * at as u32, 8)), acc && at > 0);
        }
        inst.mem.offset = bits(word, 0, 16) as i32;
        inst.mem.gds = bit(word, 16);
        // Without a global data share, only its wave sync is left.
        let is_gws = is_gws(op);
        let has_bad_bit = if unified { inst.mem.gds && !is_gws } else { bit(word, 25) };
        if has_bad_bit || is_gws && (!inst.mem.gds || acc) {
            return Err(DecodeFault::Encoding);
        }
        Ok(inst)
    }

    /// Offset is 12 bits for FLAT, else 13 signed bits; `saddr` 127 means none. Without it, scratch has a vector
    /// address; gfx942 says by a bit of its own whether it does.
    fn flat9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let format = flat_format(bits(word, 14, 2))?;
        let op = self.lookup(format, bits(word, 18, 7))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, format);
        let info = op.info();
        inst.mem.glc = bit(word, 16);
        inst.mem.slc = bit(word, 17);
        inst.mem.scc = bit(word, 25) && self.target.has_unified_registers();
        inst.mem.offset = match format {
            Format::Flat => bits(word, 0, 12) as i32,
            _ => (bits(word, 0, 13) << 19) as i32 >> 19,
        };
        let acc = bit(high, 23) && self.target.has_unified_registers();
        let no_scalar = bits(high, 16, 7) == 127;
        let has_vaddr = match (format, self.target) {
            (Format::Scratch, target) if target.is_cdna3_or_later() => bit(word, 13),
            (Format::Scratch, _) => no_scalar,
            _ => true,
        };
        let reserved = bit(word, 13) && !(format == Format::Scratch && self.target.is_cdna3_or_later())
            || bit(word, 12) && format == Format::Flat
            || bit(high, 23) && !self.target.has_unified_registers();
        if reserved {
            return Err(DecodeFault::Encoding);
        }
        if !returns_with_glc(op) || inst.mem.glc {
            inst.dst = lane_register(vgpr(info.dst, bits(high, 24, 8)), acc);
        }
        if has_vaddr {
            inst.src[0] = vgpr(src_ty(op, 0), bits(high, 0, 8));
        }
        inst.src[1] = lane_register(vgpr(src_ty(op, 1), bits(high, 8, 8)), acc);
        if format != Format::Flat && !no_scalar {
            inst.src[2] = self.scalar_tuple(op, bits(high, 16, 7), info.src[2])?;
        }
        Ok(inst)
    }

    fn mubuf9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Mubuf, bits(word, 18, 7))?;
        let mut inst = Inst::new(self.target, op, Format::Mubuf);
        let high = self.word()?;
        let unified = self.target.has_unified_registers();
        if op.info().src.is_empty() {
            // On gfx942 these fields are the scope of the cache control.
            inst.mem.glc = bit(word, 14) && self.target.is_cdna3_or_later();
            inst.mem.scc = bit(word, 15) && self.target.is_cdna3_or_later();
            return Ok(inst);
        }
        inst.mem.scc = bit(word, 15) && unified;
        inst.mem.lds = bit(word, 16);
        inst.mem.slc = bit(word, 17);
        if inst.mem.lds && src_ty(op, 1) != Ty::None {
            return Err(DecodeFault::Encoding);
        }
        self.gcn_buffer(word, high, inst)
    }

    fn mtbuf9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Mtbuf, bits(word, 15, 4))?;
        let mut inst = Inst::new(self.target, op, Format::Mtbuf);
        let high = self.word()?;
        inst.mem.buffer_format = bits(word, 19, 7) as u8;
        inst.mem.scc = bit(high, 21) && self.target.has_unified_registers();
        inst.mem.slc = bit(high, 22);
        self.gcn_buffer(word, high, inst)
    }
}
