// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What GFX9 encodes its own way: the choice of encoding, SDWA, matrix instructions and memory.
//!
//! Vega ISA, chapter 13 "Microcode Formats"; CDNA3 ISA, chapter 13, for matrices, AGPRs and the cache bits.

use super::memory::{flat_format, returns_with_glc, src_ty, vgpr};
use super::{DecodeFault, Reader, SRC_LITERAL, bit, bits};
use crate::inst::{Format, Inst, Matrix, Operand, Sdwa, Select, Unused};
use crate::op::{Op, Target, Ty};

/// Whether the op is `v_mfma_*`, `v_smfmac_*`, `v_accvgpr_read_b32` or `v_accvgpr_write_b32`.
pub(crate) fn is_matrix(op: Op) -> bool {
    let name = op.name();
    name.starts_with("v_mfma_") || name.starts_with("v_smfmac_") || is_accvgpr(op)
}

fn is_accvgpr(op: Op) -> bool {
    matches!(op, Op::VAccvgprReadB32 | Op::VAccvgprWriteB32)
}

/// Whether SDWA selects part of the source, but not of the destination.
pub(crate) fn is_fp8_source(op: Op) -> bool {
    matches!(op, Op::VCvtF32Fp8 | Op::VCvtF32Bf8 | Op::VCvtPkF32Fp8 | Op::VCvtPkF32Bf8)
}

/// The VOP3 ops that choose halves of registers with `op_sel` before gfx11; all other 16-bit ones use low halves.
pub(super) fn is_opsel(op: Op, target: Target) -> bool {
    // VOP2 on GFX9.
    let long_on_gfx10 = matches!(
        op,
        Op::VMulLoU16
            | Op::VMaxU16
            | Op::VMaxI16
            | Op::VMinU16
            | Op::VMinI16
            | Op::VLshlrevB16
            | Op::VLshrrevB16
            | Op::VAshrrevI16
            | Op::VAddNcU16
            | Op::VSubNcU16
    );
    long_on_gfx10 && !target.is_gfx9()
        || matches!(
            op,
            Op::VMadF16
                | Op::VMadU16
                | Op::VMadI16
                | Op::VFmaF16
                | Op::VDivFixupF16
                | Op::VMin3F16
                | Op::VMin3I16
                | Op::VMin3U16
                | Op::VMax3F16
                | Op::VMax3I16
                | Op::VMax3U16
                | Op::VMed3F16
                | Op::VMed3I16
                | Op::VMed3U16
                | Op::VAddNcI16
                | Op::VSubNcI16
                | Op::VPackB32F16
                | Op::VCvtPkNormI16F16
                | Op::VCvtPkNormU16F16
                | Op::VMadU32U16
                | Op::VAlignbitB32
                | Op::VAlignbyteB32
                | Op::VMadI32I16
                | Op::VCvtPkFp8F32
                | Op::VCvtPkBf8F32
                | Op::VCvtSrFp8F32
                | Op::VCvtSrBf8F32
        )
}

/// A register of a lane: of the accumulation file if `acc`.
fn lane_register(operand: Operand, acc: bool) -> Operand {
    match operand {
        Operand::Vgpr(register) if acc => Operand::Agpr(register),
        other => other,
    }
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

    /// A scalar register or special value by its 7-bit code.
    pub(super) fn scalar_register9(op: Op, code: u32) -> Result<Operand, DecodeFault> {
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

    /// Checks a DPP control: which exist, and that from gfx90a on 64-bit operands come with `row_newbcast` only.
    pub(super) fn dpp_control9(&self, op: Op, control: u16) -> Result<(), DecodeFault> {
        let unified = self.target.has_unified_registers();
        let broadcast = (0x150..=0x15f).contains(&control) && unified;
        let shift = (0x101..=0x12f).contains(&control) && control & 0xf != 0;
        let wave = matches!(control, 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143);
        let narrow = op.info().src.iter().chain([&op.info().dst]).all(|ty| ty.dwords(false) <= 1);
        if broadcast || (narrow || !unified) && (control < 0x100 || shift || wave) {
            Ok(())
        } else {
            Err(DecodeFault::Operand { op, code: control })
        }
    }

    /// The rest of an SDWA instruction, whose second source field is `src1`.
    pub(super) fn sdwa(&mut self, inst: &mut Inst, src1: u32) -> Result<(), DecodeFault> {
        let (op, info) = (inst.op, inst.op.info());
        let word = self.word()?;
        let reserved = |code: u32| DecodeFault::Operand { op, code: code as u16 };
        let one_dword = |ty: &Ty| matches!(ty, Ty::Mask | Ty::None) || ty.dwords(false) == 1;
        if !info.src.iter().chain([&info.dst]).all(one_dword) && !is_fp8_source(op)
            || info.src.iter().any(|ty| matches!(ty, Ty::K32 | Ty::K16))
        {
            return Err(reserved(super::SRC_SDWA));
        }
        let select = |low: u32| {
            Ok(match bits(word, low, 3) {
                0 => Select::Byte0,
                1 => Select::Byte1,
                2 => Select::Byte2,
                3 => Select::Byte3,
                4 => Select::Word0,
                5 => Select::Word1,
                6 => Select::Dword,
                code => return Err(reserved(code)),
            })
        };
        let mut sdwa = Sdwa {
            dst: Select::Dword,
            unused: Unused::Pad,
            src: [select(16)?, Select::Dword],
            sext: bits(word, 19, 1) as u8,
        };
        inst.neg = bits(word, 20, 1) as u8;
        inst.abs = bits(word, 21, 1) as u8;
        let mut source = |code: u32, scalar: u32, ty: Ty| match (bit(word, scalar), code) {
            (false, _) => Ok(Operand::Vgpr(code as u8)),
            (true, SRC_LITERAL) => Err(reserved(code)),
            (true, _) => self.source(op, code, ty),
        };
        inst.src[0] = source(bits(word, 0, 8), 23, info.src[0])?;
        if info.src.len() > 1 {
            inst.src[1] = source(src1, 31, info.src[1])?;
            sdwa.src[1] = select(24)?;
            sdwa.sext |= (bits(word, 27, 1) << 1) as u8;
            inst.neg |= (bits(word, 28, 1) << 1) as u8;
            inst.abs |= (bits(word, 29, 1) << 1) as u8;
        }
        if info.src.get(2) == Some(&Ty::Mask) {
            inst.src[2] = Operand::VccLo;
        }
        if inst.format == Format::Vopc {
            if bit(word, 15) && inst.dst != Operand::ExecLo {
                inst.dst = self.scalar_tuple(op, bits(word, 8, 7), Ty::Mask)?;
            }
        } else {
            if !is_fp8_source(op) {
                sdwa.dst = select(8)?;
                sdwa.unused = match bits(word, 11, 2) {
                    0 => Unused::Pad,
                    1 => Unused::Sext,
                    2 => Unused::Preserve,
                    code => return Err(reserved(code)),
                };
            }
            inst.clamp = bit(word, 13);
            inst.omod = bits(word, 14, 2) as u8;
        }
        inst.sdwa = Some(sdwa);
        Ok(())
    }

    fn vop3p9(&mut self, word: u32) -> Result<Inst, DecodeFault> {
        let op = self.lookup(Format::Vop3p, bits(word, 16, 7))?;
        if is_matrix(op) { self.matrix(word, op) } else { self.vop3p(word) }
    }

    /// Matrix instructions. `acc` bits of the fields choose the register file; on gfx908 accumulators are AGPRs always.
    fn matrix(&mut self, word: u32, op: Op) -> Result<Inst, DecodeFault> {
        let high = self.word()?;
        let mut inst = Inst::new(self.target, op, Format::Vop3p);
        self.three_sources(&mut inst, high)?;
        let acc_cd = bit(word, 15) || self.target == Target::Gfx908;
        let sparse = op.name().starts_with("v_smfmac_");
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
        if self.target == Target::Gfx942 && op.info().src[0] == Ty::F64 {
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
        if bit(word, if unified { 16 } else { 25 }) {
            return Err(DecodeFault::Encoding);
        }
        Ok(inst)
    }

    /// Offset is 12 bits for FLAT, else 13 signed bits; `saddr` 127 means none. Without it, scratch has a vector address; gfx942 says
    /// by a bit of its own whether it does.
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
            (Format::Scratch, Target::Gfx942) => bit(word, 13),
            (Format::Scratch, _) => no_scalar,
            _ => true,
        };
        let reserved = bit(word, 13) && !(format == Format::Scratch && self.target == Target::Gfx942)
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
            // What is in the fields of gfx942's cache control is its scope.
            inst.mem.glc = bit(word, 14) && self.target == Target::Gfx942;
            inst.mem.scc = bit(word, 15) && self.target == Target::Gfx942;
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

    /// The fields MUBUF and MTBUF share, on gfx10 too.
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
}
