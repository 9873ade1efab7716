// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Source 0 from other lanes, and operands that are parts of registers: DPP and SDWA dwords.

use super::reader::{Reader, SRC_DPP8, SRC_DPP8_FI, SRC_DPP16, SRC_LITERAL, SRC_SDWA};
use crate::bits::{bit, bits};
use crate::encoding::{Format, Ty};
use crate::error::DecodeFault;
use crate::flags::Flags;
use crate::inst::{Dpp, Inst, Operand, Sdwa, Select, Unused};
use crate::op::Op;

impl Reader<'_> {
    /// Takes the DPP dword if `src0` asks for one; returns the code of the true source 0.
    pub(super) fn dpp(&mut self, inst: &mut Inst, src0: u32) -> Result<u32, DecodeFault> {
        match src0 {
            SRC_DPP8 | SRC_DPP8_FI | SRC_DPP16 if inst.format == Format::Vopc && self.target.is_before_gfx11() => {
                Err(DecodeFault::Operand { op: inst.op, code: src0 as u16 })
            }
            SRC_DPP16 => {
                let (register, dpp, neg, abs) = self.dpp16()?;
                if let Dpp::Row { ctrl, .. } = dpp
                    && self.target.is_gfx9()
                {
                    self.dpp_control9(inst.op, ctrl)?;
                }
                inst.dpp = dpp;
                inst.neg |= neg;
                inst.abs |= abs;
                Ok(256 + register)
            }
            SRC_DPP8 | SRC_DPP8_FI if !self.target.is_gfx9() => {
                let (register, dpp) = self.dpp8(src0)?;
                inst.dpp = dpp;
                Ok(256 + register)
            }
            _ => Ok(src0),
        }
    }

    /// Reads the DPP16 dword: source 0's register, the control, and `(neg, abs)` of the short encodings.
    fn dpp16(&mut self) -> Result<(u32, Dpp, u8, u8), DecodeFault> {
        let word = self.word()?;
        let dpp = Dpp::Row {
            ctrl: bits(word, 8, 9) as u16,
            row_mask: bits(word, 28, 4) as u8,
            bank_mask: bits(word, 24, 4) as u8,
            bound_ctrl: bit(word, 19),
            fetch_inactive: bit(word, 18) && !self.target.is_gfx9(),
        };
        let neg = bits(word, 20, 1) | bits(word, 22, 1) << 1;
        let abs = bits(word, 21, 1) | bits(word, 23, 1) << 1;
        Ok((bits(word, 0, 8), dpp, neg as u8, abs as u8))
    }

    /// Reads the DPP8 dword: source 0's register and the control.
    fn dpp8(&mut self, code: u32) -> Result<(u32, Dpp), DecodeFault> {
        let word = self.word()?;
        Ok((bits(word, 0, 8), Dpp::Lanes8 { sel: bits(word, 8, 24), fetch_inactive: code == SRC_DPP8_FI }))
    }

    /// Checks a DPP control: which exist, and that from gfx90a on 64-bit operands come with `row_newbcast` only.
    fn dpp_control9(&self, op: Op, control: u16) -> Result<(), DecodeFault> {
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
        if !info.src.iter().chain([&info.dst]).all(one_dword) && !op.has(Flags::FP8_SOURCE)
            || info.src.iter().any(|ty| matches!(ty, Ty::K32 | Ty::K16))
        {
            return Err(reserved(SRC_SDWA));
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
            if !op.has(Flags::FP8_SOURCE) {
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
}
