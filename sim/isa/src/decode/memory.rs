// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! DS, MUBUF, MTBUF, FLAT, GLOBAL and SCRATCH encodings, and RDNA4's replacements for them.

use super::reader::{Reader, SRC_LITERAL};
use crate::bits::{bit, bits};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::flags::Flags;
use crate::inst::{Inst, Operand};
use crate::op::Op;
use crate::target::Target;

/// The VGPR a field names, if the row has the slot.
pub(super) fn vgpr(ty: Ty, code: u32) -> Operand {
    if ty == Ty::None { Operand::None } else { Operand::Vgpr(code as u8) }
}

/// Type of source `at`, `None` past the end of the row.
pub(super) fn src_ty(op: Op, at: usize) -> Ty {
    op.info().src.get(at).copied().unwrap_or(Ty::None)
}

/// A register of a lane: of the accumulation file if `acc`.
pub(super) fn lane_register(operand: Operand, acc: bool) -> Operand {
    match operand {
        Operand::Vgpr(register) if acc => Operand::Agpr(register),
        other => other,
    }
}

/// The segment that an instruction of the FLAT encodings accesses.
pub(super) fn flat_format(segment: u32) -> Result<Format, DecodeFault> {
    match segment {
        0 => Ok(Format::Flat),
        1 => Ok(Format::Scratch),
        2 => Ok(Format::Global),
        _ => Err(DecodeFault::Encoding),
    }
}

/// True if the op is an atomic that returns the old value only with `glc`.
pub(super) fn returns_with_glc(op: Op) -> bool {
    op.has(Flags::ATOMIC)
}

/// True if the op is on global wave sync.
pub(super) fn is_gws(op: Op) -> bool {
    matches!(op, Op::DsGwsInit | Op::DsGwsBarrier)
}

impl Reader<'_> {
    pub(super) fn ds(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Ds, bits(word, 18, 8))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Ds);
        inst.dst = vgpr(op.info().dst, bits(high, 24, 8));
        for at in 0..3 {
            inst.src[at] = vgpr(src_ty(op, at), bits(high, 8 * at as u32, 8));
        }
        inst.mem.offset = bits(word, 0, 16) as i32;
        inst.mem.gds = bit(word, 17) && !self.target.is_gfx12();
        if is_gws(op) && !inst.mem.gds {
            return Err(DecodeFault::Encoding);
        }
        Ok(inst)
    }

    /// Offset is 13 bits, unsigned for FLAT; a null `saddr` means none.
    pub(super) fn flat(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let format = flat_format(bits(word, 16, 2))?;
        let op = self.lookup(format, bits(word, 18, 7))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, format);
        let info = op.info();
        inst.mem.glc = bit(word, 14);
        inst.mem.slc = bit(word, 15);
        inst.mem.dlc = bit(word, 13);
        inst.mem.offset = match format {
            Format::Flat => bits(word, 0, 13) as i32,
            _ => (bits(word, 0, 13) << 19) as i32 >> 19,
        };
        if !returns_with_glc(op) || inst.mem.glc {
            inst.dst = vgpr(info.dst, bits(high, 24, 8));
        }
        let has_vaddr = format != Format::Scratch || bit(high, 23);
        if has_vaddr {
            inst.src[0] = vgpr(src_ty(op, 0), bits(high, 0, 8));
        }
        inst.src[1] = vgpr(src_ty(op, 1), bits(high, 8, 8));
        if format != Format::Flat {
            inst.src[2] = match self.scalar_register(op, bits(high, 16, 7))? {
                Operand::Null => Operand::None,
                register => register,
            };
        }
        Ok(inst)
    }

    pub(super) fn mubuf(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Mubuf, bits(word, 18, 8))?;
        self.buffer(word, Inst::new(self.target, op, Format::Mubuf))
    }

    pub(super) fn mtbuf(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Mtbuf, bits(word, 15, 4))?;
        let mut inst = Inst::new(self.target, op, Format::Mtbuf);
        inst.mem.buffer_format = bits(word, 19, 7) as u8;
        self.buffer(word, inst)
    }

    /// The fields MUBUF and MTBUF share on gfx11.
    fn buffer(&mut self, word: u32, mut inst: Inst) -> Result<Inst, DecodeFault> {
        let high = self.word()?;
        let op = inst.op;
        let info = op.info();
        inst.mem.offset = bits(word, 0, 12) as i32;
        inst.mem.slc = bit(word, 12);
        inst.mem.dlc = bit(word, 13);
        inst.mem.glc = bit(word, 14);
        if info.src.is_empty() {
            return Ok(inst);
        }
        inst.mem.tfe = bit(high, 21);
        inst.mem.offen = bit(high, 22);
        inst.mem.idxen = bit(high, 23);
        let data = bits(high, 8, 8);
        if !returns_with_glc(op) || inst.mem.glc {
            inst.dst = vgpr(info.dst, data);
        }
        if inst.mem.offen || inst.mem.idxen {
            inst.src[0] = Operand::Vgpr(high as u8);
        }
        inst.src[1] = vgpr(src_ty(op, 1), data);
        inst.src[2] = self.scalar_register(op, bits(high, 16, 5) * 4)?;
        inst.src[3] = match self.source(op, bits(high, 24, 8), Ty::B32)? {
            Operand::Literal(_) => return Err(DecodeFault::Operand { op, code: 255 }),
            operand => operand,
        };
        Ok(inst)
    }

    /// The fields MUBUF and MTBUF share on GFX9 and GFX10.
    pub(super) fn gcn_buffer(&mut self, word: u32, high: u32, mut inst: Inst) -> Result<Inst, DecodeFault> {
        let op = inst.op;
        let info = op.info();
        inst.mem.glc = bit(word, 14);
        inst.mem.offset = bits(word, 0, 12) as i32;
        inst.mem.offen = bit(word, 12);
        inst.mem.idxen = bit(word, 13);
        let unified = self.target.has_unified_registers();
        let acc = bit(high, 23) && unified;
        inst.mem.tfe = bit(high, 23) && !unified;
        let data = bits(high, 8, 8);
        if (!returns_with_glc(op) || inst.mem.glc) && !inst.mem.lds {
            inst.dst = lane_register(vgpr(info.dst, data), acc);
        }
        if inst.mem.offen || inst.mem.idxen {
            inst.src[0] = Operand::Vgpr(high as u8);
        }
        inst.src[1] = lane_register(vgpr(src_ty(op, 1), data), acc);
        inst.src[2] = self.scalar_tuple(op, bits(high, 16, 5) * 4, Ty::B128)?;
        inst.src[3] = match bits(high, 24, 8) {
            SRC_LITERAL => return Err(DecodeFault::Operand { op, code: SRC_LITERAL as u16 }),
            code => self.source(op, code, Ty::B32)?,
        };
        Ok(inst)
    }

    /// RDNA4: one encoding of three dwords for typed (opcodes from 0x80) and untyped buffers.
    pub(super) fn vbuffer(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let code = bits(word, 14, 8);
        let format = if code < 0x80 { Format::Mubuf } else { Format::Mtbuf };
        let op = self.lookup(format, code)?;
        let (high, last) = (self.word()?, self.word()?);
        let mut inst = Inst::new(self.target, op, format);
        let info = op.info();
        self.hints(&mut inst, [word, high, last]);
        inst.mem.tfe = bit(word, 22);
        inst.mem.offen = bit(high, 30);
        inst.mem.idxen = bit(high, 31);
        if format == Format::Mtbuf {
            inst.mem.buffer_format = bits(high, 23, 7) as u8;
        }
        let data = bits(high, 0, 8);
        if !returns_with_glc(op) || inst.mem.glc {
            inst.dst = vgpr(info.dst, data);
        }
        if inst.mem.offen || inst.mem.idxen {
            inst.src[0] = Operand::Vgpr(last as u8);
        }
        inst.src[1] = vgpr(src_ty(op, 1), data);
        inst.src[2] = self.scalar_tuple(op, bits(high, 9, 9), Ty::B128)?;
        inst.src[3] = self.scalar_register(op, bits(word, 0, 7))?;
        Ok(inst)
    }

    /// RDNA4: FLAT, GLOBAL and SCRATCH in three dwords.
    pub(super) fn vflat(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let format = flat_format(bits(word, 24, 2))?;
        let op = self.lookup(format, bits(word, 14, 8))?;
        let (high, last) = (self.word()?, self.word()?);
        let mut inst = Inst::new(self.target, op, format);
        let info = op.info();
        self.hints(&mut inst, [word, high, last]);
        if info.src.is_empty() {
            return Ok(inst);
        }
        if !returns_with_glc(op) || inst.mem.glc {
            inst.dst = vgpr(info.dst, bits(high, 0, 8));
        }
        if format != Format::Scratch || bit(high, 17) {
            inst.src[0] = vgpr(src_ty(op, 0), bits(last, 0, 8));
        }
        inst.src[1] = vgpr(src_ty(op, 1), bits(high, 23, 8));
        let base = bits(word, 0, 7);
        if format != Format::Flat {
            inst.src[2] = match self.scalar_register(op, base)? {
                Operand::Null => Operand::None,
                register => register,
            };
        } else if self.target == Target::Gfx1250 {
            // Here it may have one too.
            inst.src[2] = match self.scalar_tuple(op, base, Ty::B64)? {
                Operand::Null => Operand::None,
                register => register,
            };
        }
        Ok(inst)
    }

    /// gfx1250: tensor transfers, whose descriptor is in scalar registers. Most fields of the image encoding have one
    /// allowed value.
    pub(super) fn vimage(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        const FIXED: [u32; 3] = [0xd040_0001, 0x7c00_0000, 0];
        let op = self.lookup(Format::Vimage, bits(word, 14, 8))?;
        let words = [word, self.word()?, self.word()?];
        let chosen = [0x003f_c080, 0x007c_0000, u32::MAX];
        if words.iter().zip(chosen).zip(FIXED).any(|((word, chosen), fixed)| word & !chosen != fixed) {
            return Err(DecodeFault::Encoding);
        }
        let mut inst = Inst::new(self.target, op, Format::Vimage);
        for (at, ty) in op.info().src.iter().enumerate() {
            inst.src[at] = self.scalar_tuple(op, bits(words[2], 8 * at as u32, 8), *ty)?;
        }
        if inst.src[2..] == [Operand::Null; 2] {
            inst.src[2..].fill(Operand::None);
        }
        inst.mem.scope = bits(words[1], 18, 2) as u8;
        inst.mem.th = bits(words[1], 20, 3) as u8;
        inst.mem.nv = bit(word, 7);
        Ok(inst)
    }

    /// The 24-bit offset, hint and scope of VBUFFER and VFLAT, and gfx1250's additional fields.
    fn hints(&self, inst: &mut Inst, [word, high, last]: [u32; 3]) {
        inst.mem.offset = last as i32 >> 8;
        inst.mem.scope = bits(high, 18, 2) as u8;
        inst.mem.th = bits(high, 20, 3) as u8;
        inst.mem.glc = returns_with_glc(inst.op) && inst.mem.th & 1 != 0;
        if self.target == Target::Gfx1250 {
            inst.mem.nv = bit(word, 7);
            inst.mem.scale_offset = bit(high, 16);
        }
    }
}
