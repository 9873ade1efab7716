// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Random words in GFX9's encodings.

use sim_isa::{Encoding, Format, Op, Target, Ty};

use crate::{Form, halves, sparse};
use random::Random;

pub fn forms(op: Op, format: Format) -> &'static [Form] {
    match format {
        // LLVM has the fields of `neg` and `abs` here, but prints neither.
        _ if op == Op::VPkFmacF16 => &[Form::Short, Form::Long],
        Format::Vop1 | Format::Vop2 => &[Form::Short, Form::Long, Form::Dpp16, Form::Sdwa],
        Format::Vopc => &[Form::Short, Form::Long, Form::Sdwa],
        Format::Vop3 | Format::Vop3sd | Format::Vop3p => &[Form::Long],
        _ => &[Form::Short],
    }
}

/// A scalar source code, mostly one that names something.
fn scalar(random: &mut Random) -> u32 {
    match random.below(10) {
        0..=3 => random.below(25) * 4,
        4 => 102 + random.below(2) * 2,
        5 => 124,
        6 => 128 + random.below(81),
        7 => 240 + random.below(9),
        8 => 255,
        _ => [106, 107, 108, 112, 126, 127, 235, 236, 237, 238, 239, 251, 252, 253][random.below(14) as usize],
    }
}

/// A vector source code. Literals are for the short encodings only.
fn vector(random: &mut Random, literal: bool) -> u32 {
    match random.below(2) {
        0 => Some(scalar(random)).filter(|code| literal || *code != 255).unwrap_or(129),
        _ => 256 + register(random),
    }
}

/// An even register, as most tuples want, or any.
fn register(random: &mut Random) -> u32 {
    if random.one_in(4) { random.below(256) } else { random.below(112) * 2 }
}

fn dpp_word(random: &mut Random) -> u32 {
    const CONTROLS: [u32; 11] = [0x1b, 0x105, 0x11f, 0x121, 0x130, 0x134, 0x138, 0x13c, 0x140, 0x142, 0x143];
    let control = match random.below(4) {
        0 => random.below(256),
        1 => 0x150 + random.below(16),
        _ => CONTROLS[random.below(11) as usize],
    };
    register(random) | control << 8 | sparse(random, 1) << 19 | sparse(random, 4) << 20 | random.below(256) << 24
}

fn sdwa_word(random: &mut Random, compare: bool) -> u32 {
    let result = if compare {
        random.below(2) << 15 | (random.below(50) * 2) << 8
    } else {
        random.below(7) << 8 | random.below(3) << 11 | sparse(random, 3) << 13
    };
    let sources = random.below(7) << 16 | random.below(7) << 24;
    let modifiers = match random.below(3) {
        0 => random.below(2) << 19 | random.below(2) << 27,
        1 => sparse(random, 2) << 20 | sparse(random, 2) << 28,
        _ => 0,
    };
    let scalars = random.below(2) << 23 | random.below(2) << 31;
    let src0 = if scalars & 1 << 23 != 0 { random.below(102) } else { random.below(256) };
    src0 | result | sources | modifiers | scalars
}

/// Words of `encoding` in `form` with random operands.
pub fn sample(target: Target, op: Op, encoding: &Encoding, form: Form, random: &mut Random) -> Vec<u32> {
    let code = u32::from(encoding.code);
    let info = op.info();
    let even = |random: &mut Random| random.below(50) * 2;
    match (encoding.format, form) {
        (Format::Vop1 | Format::Vop2 | Format::Vopc, Form::Short | Form::Dpp16 | Form::Dpp8 | Form::Sdwa) => {
            let src0 = match form {
                Form::Dpp16 => 250,
                Form::Dpp8 => 233 + random.below(2),
                Form::Sdwa => 249,
                _ => vector(random, true),
            };
            let dst = if info.dst == Ty::S32 { even(random) } else { register(random) };
            let sdwa = sdwa_word(random, encoding.format == Format::Vopc);
            let src1 = if form == Form::Sdwa && sdwa >> 31 != 0 { random.below(102) } else { register(random) };
            let word = match encoding.format {
                Format::Vop1 if info.src.is_empty() => return vec![0x7e00_0000 | code << 9],
                Format::Vop1 => 0x7e00_0000 | dst << 17 | code << 9 | src0,
                Format::Vopc => 0x7c00_0000 | code << 17 | src1 << 9 | src0,
                _ => code << 25 | dst << 17 | src1 << 9 | src0,
            };
            match form {
                Form::Dpp16 if target.is_gfx9() => vec![word, dpp_word(random)],
                Form::Dpp16 | Form::Dpp8 => vec![word, crate::dpp_word(random, form == Form::Dpp8)],
                // Bits of a source that VOP1 does not have.
                Form::Sdwa if encoding.format == Format::Vop1 => vec![word, sdwa & 0x00ff_ffff],
                Form::Sdwa => vec![word, sdwa],
                _ => vec![word],
            }
        }
        (Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3sd, _) => {
            let base = match encoding.format {
                Format::Vop1 => 0x140,
                Format::Vop2 => 0x100,
                _ => 0,
            };
            let low = if info.sdst == Ty::Mask {
                even(random) << 8 | sparse(random, 1) << 15
            } else {
                sparse(random, 3) << 8 | (sparse(random, 4) & halves(op)) << 11 | sparse(random, 1) << 15
            };
            let dst = match info.dst {
                Ty::Mask | Ty::S32 => even(random),
                _ => register(random),
            };
            let lanes_from_sgprs = op == Op::VReadlaneB32 || op == Op::VWritelaneB32;
            let mut high = sparse(random, 2) << 27 | sparse(random, 3) << 29;
            for (at, ty) in info.src.iter().enumerate() {
                let source = match ty {
                    Ty::Mask => even(random),
                    // No scalars are as wide.
                    _ if ty.dwords(true) > 4 => 256 + random.below(112) * 2,
                    _ if lanes_from_sgprs && at == 1 && random.one_in(2) => 128 + random.below(65),
                    _ if lanes_from_sgprs && (at == 1 || op == Op::VWritelaneB32) => even(random),
                    // LLVM prints float constants as such in this 16-bit operand only.
                    Ty::I16 if matches!(op, Op::VAlignbitB32 | Op::VAlignbyteB32) => 256 + register(random),
                    _ if info.dst == Ty::S32 => 256 + register(random),
                    _ => vector(random, false),
                };
                high |= source << (9 * at);
            }
            vec![0xd000_0000 | (base + code) << 16 | low | dst, high]
        }
        (Format::Vop3p, _) if op.name().starts_with("v_accvgpr") => {
            let source = if op == Op::VAccvgprReadB32 { 256 + register(random) } else { vector(random, false) };
            let acc = u32::from(op == Op::VAccvgprReadB32) << 27;
            vec![0xd380_4000 | code << 16 | register(random), source | acc]
        }
        (Format::Vop3p, _) if op.loads_scales() => {
            let load = [
                0xd3ac_0000 | random.below(4) << 11,
                (256 + register(random)) | (256 + register(random)) << 9 | random.below(4) << 27,
            ];
            let accumulator = if random.one_in(2) { 128 + random.below(81) } else { 256 + random.below(112) * 2 };
            let product = [
                0xd3ad_0800
                    | random.below(2) << 16
                    | random.below(5) << 8
                    | random.below(2) << 15
                    | (random.below(112) * 2),
                (256 + random.below(120) * 2)
                    | (256 + random.below(120) * 2) << 9
                    | accumulator << 18
                    | random.below(4) << 27
                    | random.below(5) << 29,
            ];
            [load, product].concat()
        }
        (Format::Vop3p, _) if op.has_matrix_formats() => {
            let accumulator = if random.one_in(2) { 128 + random.below(81) } else { 256 + random.below(112) * 2 };
            let low = random.below(5) << 8 | random.below(2) << 15 | (random.below(112) * 2);
            let high = (256 + random.below(120) * 2) | (256 + random.below(120) * 2) << 9 | accumulator << 18;
            vec![0xd380_0000 | code << 16 | low, high | random.below(4) << 27 | random.below(5) << 29]
        }
        (Format::Vop3p, _) if op.name().starts_with("v_mfma") || op.name().starts_with("v_smfmac") => {
            let accumulator = match random.below(2) {
                0 if !op.name().starts_with("v_smfmac") => 128 + random.below(81),
                _ => 256 + random.below(112) * 2,
            };
            let low = sparse(random, 3) << 8 | sparse(random, 4) << 11 | random.below(2) << 15;
            let high = (256 + register(random)) | (256 + register(random)) << 9 | accumulator << 18;
            let high = high | random.below(4) << 27 | sparse(random, 3) << 29;
            vec![0xd380_0000 | code << 16 | low | (random.below(112) * 2), high]
        }
        (Format::Vop3p, _) => {
            let op_sel_hi = if op.name().starts_with("v_fma_mix") || random.one_in(2) { 7 } else { random.below(8) };
            let low = sparse(random, 3) << 8 | sparse(random, 3) << 11 | op_sel_hi >> 2 << 14 | sparse(random, 1) << 15;
            let mut high = (op_sel_hi & 3) << 27 | sparse(random, 3) << 29;
            for at in 0..info.src.len() {
                high |= vector(random, false) << (9 * at);
            }
            vec![0xd380_0000 | code << 16 | low | register(random), high]
        }
        (Format::Sop1, _) => vec![0xbe80_0000 | random.below(50) << 17 | code << 8 | scalar(random)],
        (Format::Sop2, _) => {
            vec![0x8000_0000 | code << 23 | random.below(50) << 17 | scalar(random) << 8 | scalar(random)]
        }
        (Format::Sopc, _) if op == Op::SSetGprIdxOn => {
            vec![0xbf00_0000 | code << 16 | random.below(16) << 8 | even(random)]
        }
        (Format::Sopc, _) => vec![0xbf00_0000 | code << 16 | scalar(random) << 8 | scalar(random)],
        (Format::Sopk, _) if matches!(op, Op::SSetregImm32B32 | Op::SVersion) => {
            vec![0xb000_0000 | code << 23 | random.below(0x1_0000)]
        }
        (Format::Sopk, _) => vec![0xb000_0000 | code << 23 | even(random) << 16 | random.below(0x1_0000)],
        (Format::Sopp, _) => vec![0xbf80_0000 | code << 16 | sparse(random, 16)],
        (Format::Smem, _) if info.src.is_empty() => vec![0xc000_0000 | code << 18 | even(random) << 6, 0],
        (Format::Smem, _) => {
            let low = (random.below(25) * 2) | (random.below(13) * 4) << 6 | sparse(random, 1) << 16;
            let (addressing, high) = match random.below(3) {
                0 => (1 << 17, sparse(random, 21)),
                1 => (1 << 14, random.below(102) << 25),
                _ => (1 << 17 | 1 << 14, random.below(102) << 25 | random.below(1 << 20)),
            };
            vec![0xc000_0000 | code << 18 | low | addressing, high]
        }
        (Format::Ds, _) => {
            let mut high = 0;
            for at in 0..3 {
                if info.src.get(at).is_some_and(|ty| *ty != Ty::None) {
                    high |= register(random) << (8 * at);
                }
            }
            if info.dst != Ty::None {
                high |= register(random) << 24;
            }
            let is_gws = matches!(op, Op::DsGwsInit | Op::DsGwsBarrier);
            let acc = if target.has_unified_registers() && !is_gws { sparse(random, 1) << 25 } else { 0 };
            let gds = match is_gws {
                true => 1 << 16,
                false if target.has_unified_registers() => 0,
                false => sparse(random, 1) << 16,
            };
            vec![0xd800_0000 | code << 17 | gds | acc | sparse(random, 16), high]
        }
        (Format::Mubuf | Format::Mtbuf, _) => {
            let low = match encoding.format {
                Format::Mubuf => {
                    let lds = if info.src.get(1) == Some(&Ty::None) { sparse(random, 1) << 16 } else { 0 };
                    0xe000_0000 | code << 18 | lds | sparse(random, 1) << 15 | sparse(random, 1) << 17
                }
                _ => 0xe800_0000 | code << 15 | random.below(128) << 19,
            };
            let soffset = [4, 44, 100, 102, 106, 124, 128, 131, 193, 242][random.below(10) as usize];
            if info.src.is_empty() {
                let scope = if target.is_cdna3_or_later() { random.below(4) << 14 } else { 0 };
                return vec![0xe000_0000 | code << 18 | scope, 0];
            }
            let addressing = random.below(4);
            let vaddr = if addressing != 0 { register(random) } else { 0 };
            let last = match encoding.format {
                Format::Mtbuf if target.has_unified_registers() => sparse(random, 3) << 21,
                Format::Mtbuf => sparse(random, 2) << 22,
                _ => sparse(random, 1) << 23,
            };
            let lds = low & 1 << 16 != 0 && encoding.format == Format::Mubuf;
            let data = if lds { 0 } else { register(random) };
            let high = vaddr | data << 8 | random.below(25) << 16 | last | soffset << 24;
            vec![low | sparse(random, 12) | addressing << 12 | random.below(2) << 14, high]
        }
        (Format::Flat | Format::Global | Format::Scratch, _) => {
            let segment = match encoding.format {
                Format::Flat => 0,
                Format::Scratch => 1,
                _ => 2,
            };
            let offset = sparse(random, if segment == 0 { 12 } else { 13 });
            let no_scalar = segment == 0 || random.one_in(2);
            let has_vaddr = if target.is_cdna3_or_later() { random.one_in(2) } else { no_scalar };
            let vector_bit = u32::from(segment == 1 && target.is_cdna3_or_later() && has_vaddr) << 13;
            let vaddr = if segment != 1 || has_vaddr { register(random) } else { 0 };
            let saddr = match segment {
                0 => 0,
                _ if no_scalar => 127,
                _ => even(random),
            };
            let unified = target.has_unified_registers();
            let (scc, acc) = if unified { (sparse(random, 1) << 25, sparse(random, 1) << 23) } else { (0, 0) };
            let data = if info.src[1] == Ty::None { 0 } else { register(random) << 8 };
            let dst = if info.dst == Ty::None { 0 } else { register(random) << 24 };
            let low = segment << 14 | offset | vector_bit | sparse(random, 2) << 16 | scc;
            vec![0xdc00_0000 | code << 18 | low, vaddr | data | saddr << 16 | acc | dst]
        }
        (Format::Vopd | Format::Vopd3 | Format::Vimage, _) => unreachable!("none of GFX9's"),
    }
}
