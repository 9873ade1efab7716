// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

use super::reader::Reader;
use crate::bits::{bit, bits};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::inst::{Inst, Operand};
use crate::op::Op;
use crate::target::Target;

impl Reader<'_> {
    /// Any of the SOP encodings: `word` starts with bits `10`.
    pub(super) fn scalar(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        match bits(word, 23, 7) {
            0b111_1101 => self.sop1(word),
            0b111_1110 => self.sopc(word),
            0b111_1111 => self.sopp(word),
            0b110_0000..=0b111_1100 => self.sopk(word),
            _ => self.sop2(word),
        }
    }

    fn sop1(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Sop1, bits(word, 8, 8))?;
        let mut inst = Inst::new(self.target, op, Format::Sop1);
        self.scalar_dst(&mut inst, bits(word, 16, 7))?;
        match op {
            Op::SSendmsgRtnB32 | Op::SSendmsgRtnB64 => inst.simm = bits(word, 0, 8) as i16,
            _ => self.scalar_sources(&mut inst, [bits(word, 0, 8), 0])?,
        }
        Ok(inst)
    }

    fn sop2(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let mut inst = Inst::new(self.target, self.lookup(Format::Sop2, bits(word, 23, 7))?, Format::Sop2);
        self.scalar_dst(&mut inst, bits(word, 16, 7))?;
        self.scalar_sources(&mut inst, [bits(word, 0, 8), bits(word, 8, 8)])?;
        Ok(inst)
    }

    fn sopc(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let mut inst = Inst::new(self.target, self.lookup(Format::Sopc, bits(word, 16, 7))?, Format::Sopc);
        if inst.op == Op::SSetGprIdxOn {
            inst.simm = bits(word, 8, 8) as i16;
        }
        self.scalar_sources(&mut inst, [bits(word, 0, 8), bits(word, 8, 8)])?;
        Ok(inst)
    }

    fn sopp(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let mut inst = Inst::new(self.target, self.lookup(Format::Sopp, bits(word, 16, 7))?, Format::Sopp);
        inst.simm = word as i16;
        Ok(inst)
    }

    /// The register field is the destination, or for ops without one the source.
    fn sopk(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Sopk, bits(word, 23, 5))?;
        let mut inst = Inst::new(self.target, op, Format::Sopk);
        inst.simm = word as i16;
        let register = bits(word, 16, 7);
        self.scalar_dst(&mut inst, register)?;
        match op.info().src {
            [] => {}
            [Ty::K32] => inst.src[0] = self.literal()?,
            _ => inst.src[0] = self.scalar_register(op, register)?,
        }
        Ok(inst)
    }

    /// Data is an SGPR tuple, the base an even SGPR, the offset 21 signed bits plus a register.
    pub(super) fn smem(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Smem, bits(word, 18, 8))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Smem);
        self.scalar_dst(&mut inst, bits(word, 6, 7))?;
        if op.info().src.is_empty() {
            return Ok(inst);
        }
        inst.src[0] = self.scalar_tuple(op, bits(word, 0, 6) * 2, op.info().src[0])?;
        inst.src[1] = match self.scalar_register(op, bits(high, 25, 7))? {
            Operand::Null => Operand::None,
            register => register,
        };
        inst.mem.offset = (bits(high, 0, 21) << 11) as i32 >> 11;
        inst.mem.dlc = bit(word, 13);
        inst.mem.glc = bit(word, 14);
        self.scalar_data(&mut inst, bits(word, 6, 7))?;
        Ok(inst)
    }

    /// RDNA4: the offset is 24 signed bits plus a register, and caching is asked for by hint and scope.
    pub(super) fn smem12(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Smem, bits(word, 13, 6))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Smem);
        if op.info().src.is_empty() {
            return Ok(inst);
        }
        self.scalar_dst(&mut inst, bits(word, 6, 7))?;
        if op.info().src[0] != Ty::None {
            inst.src[0] = self.scalar_tuple(op, bits(word, 0, 6) * 2, op.info().src[0])?;
        }
        inst.src[1] = match self.scalar_register(op, bits(high, 25, 7))? {
            Operand::Null => Operand::None,
            register => register,
        };
        inst.mem.offset = (high << 8) as i32 >> 8;
        inst.mem.scope = bits(word, 21, 2) as u8;
        inst.mem.th = bits(word, 23, 2) as u8;
        self.scalar_data(&mut inst, bits(word, 6, 7))?;
        if self.target == Target::Gfx1250 {
            inst.mem.nv = bit(word, 20);
            inst.mem.scale_offset = bit(high, 24);
        }
        Ok(inst)
    }

    /// The data of stores, atomics, prefetches and probes; an atomic has a destination only if it returns the old
    /// value.
    pub(super) fn scalar_data(&mut self, inst: &mut Inst, code: u32) -> Result<(), DecodeFault> {
        let info = inst.op.info();
        if inst.op.has_immediate_data() {
            inst.simm = code as i16;
        }
        if let Some(data) = info.src.get(2) {
            inst.src[2] = self.scalar_tuple(inst.op, code, *data)?;
            if !inst.mem.glc {
                inst.dst = Operand::None;
            }
        } else if info.dst == Ty::None {
            // Instructions without data ignore these fields.
            (inst.mem.glc, inst.mem.dlc, inst.mem.scope, inst.mem.th) = (false, false, 0, 0);
        }
        Ok(())
    }

    pub(super) fn scalar_dst(&mut self, inst: &mut Inst, code: u32) -> Result<(), DecodeFault> {
        let ty = inst.op.info().dst;
        if ty != Ty::None {
            inst.dst = self.scalar_tuple(inst.op, code, ty)?;
        }
        Ok(())
    }

    fn scalar_sources(&mut self, inst: &mut Inst, codes: [u32; 2]) -> Result<(), DecodeFault> {
        let op = inst.op;
        let mut codes = codes.into_iter();
        for (slot, ty) in inst.src.iter_mut().zip(op.info().src) {
            *slot = match *ty {
                Ty::K32 => self.literal()?,
                ty => self.source(op, codes.next().unwrap_or_default(), ty)?,
            };
        }
        Ok(())
    }
}
