// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Encodings that are particular to GFX10 (RDNA1 and RDNA2): memory. Its vector encodings are RDNA3's with GFX9's SDWA.
//!
//! AMD "RDNA 2 Instruction Set Architecture", chapter 13 "Microcode Formats".

use super::memory::{flat_format, returns_with_glc, src_ty, vgpr};
use super::reader::Reader;
use crate::bits::{bit, bits};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::inst::{Inst, Operand};
use crate::target::Target;

impl Reader<'_> {
    pub(super) fn encoding10(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        match word >> 26 {
            0b11_0101 => self.vop3(word),
            0b11_0011 => self.vop3p(word),
            0b11_0110 => self.ds(word),
            0b11_0111 => self.flat10(word),
            0b11_1000 => self.mubuf10(word),
            0b11_1010 => self.mtbuf10(word),
            0b11_1101 => self.smem10(word),
            code if code >= 0b11_0000 => Err(DecodeFault::Encoding),
            0b10_0000..=0b10_1111 => self.scalar(word),
            _ => self.vop_short(word),
        }
    }

    fn smem10(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Smem, bits(word, 18, 8))?;
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Smem);
        let info = op.info();
        self.scalar_dst(&mut inst, bits(word, 6, 7))?;
        if info.src.is_empty() {
            return Ok(inst);
        }
        inst.src[0] = self.scalar_tuple(op, bits(word, 0, 6) * 2, info.src[0])?;
        inst.src[1] = match self.scalar_register(op, bits(high, 25, 7))? {
            Operand::Null => Operand::None,
            register => register,
        };
        inst.mem.offset = (bits(high, 0, 21) << 11) as i32 >> 11;
        inst.mem.dlc = bit(word, 14);
        inst.mem.glc = bit(word, 16);
        self.scalar_data(&mut inst, bits(word, 6, 7))?;
        Ok(inst)
    }

    /// The offset is 12 signed bits, or 11 for FLAT. A null `saddr` means none; scratch then has a vector address,
    /// unless `saddr` is 127, which means that there is neither (RDNA2).
    fn flat10(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let format = flat_format(bits(word, 14, 2))?;
        let op = self.lookup(format, bits(word, 18, 7))?;
        let high = self.word()?;
        // Bit 13 sends loads to LDS; bit 11 is no part of FLAT's offset.
        if bit(word, 13) || bit(word, 11) && format == Format::Flat {
            return Err(DecodeFault::Encoding);
        }
        let mut inst = Inst::new(self.target, op, format);
        let info = op.info();
        inst.mem.dlc = bit(word, 12);
        inst.mem.glc = bit(word, 16);
        inst.mem.slc = bit(word, 17);
        inst.mem.offset = match format {
            Format::Flat => bits(word, 0, 11) as i32,
            _ => (bits(word, 0, 12) << 20) as i32 >> 20,
        };
        if !returns_with_glc(op) || inst.mem.glc {
            inst.dst = vgpr(info.dst, bits(high, 24, 8));
        }
        let saddr = bits(high, 16, 7);
        let no_address = format == Format::Scratch && saddr == 127 && self.target == Target::Gfx1030;
        if format != Format::Flat && !no_address {
            inst.src[2] = match self.scalar_register(op, saddr)? {
                Operand::Null => Operand::None,
                _ => self.scalar_tuple(op, saddr, info.src[2])?,
            };
        }
        if format != Format::Scratch || inst.src[2].is_none() && !no_address {
            inst.src[0] = vgpr(src_ty(op, 0), bits(high, 0, 8));
        }
        inst.src[1] = vgpr(src_ty(op, 1), bits(high, 8, 8));
        Ok(inst)
    }

    fn mubuf10(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Mubuf, bits(word, 18, 8))?;
        let mut inst = Inst::new(self.target, op, Format::Mubuf);
        let high = self.word()?;
        if op.info().src.is_empty() {
            return Ok(inst);
        }
        inst.mem.dlc = bit(word, 15);
        inst.mem.lds = bit(word, 16);
        inst.mem.slc = bit(high, 22);
        if inst.mem.lds && src_ty(op, 1) != Ty::None {
            return Err(DecodeFault::Encoding);
        }
        self.gcn_buffer(word, high, inst)
    }

    fn mtbuf10(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let high = self.word()?;
        let op = self.lookup(Format::Mtbuf, bits(word, 16, 3) | bits(high, 21, 1) << 3)?;
        let mut inst = Inst::new(self.target, op, Format::Mtbuf);
        inst.mem.buffer_format = bits(word, 19, 7) as u8;
        inst.mem.dlc = bit(word, 15);
        inst.mem.slc = bit(high, 22);
        self.gcn_buffer(word, high, inst)
    }
}
