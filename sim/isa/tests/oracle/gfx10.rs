// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Random words in GFX10's encodings, where they are not GFX9's.

use sim_isa::{Encoding, Format, Op, Target, Ty};

use crate::{Form, gfx9, halves, sparse, vector};
use random::Random;

pub fn forms(op: Op, format: Format) -> &'static [Form] {
    match format {
        // Lanes of nothing to cross, or to select from.
        Format::Vop1 if op.info().src.is_empty() => &[Form::Short, Form::Long],
        Format::Vop1 | Format::Vop2 => &[Form::Short, Form::Long, Form::Dpp16, Form::Dpp8, Form::Sdwa],
        Format::Vopc => &[Form::Short, Form::Long, Form::Sdwa],
        Format::Vop3 | Format::Vop3sd | Format::Vop3p => &[Form::Long],
        _ => &[Form::Short],
    }
}

/// Words of `encoding` in `form` with random operands, followed by words for a literal.
pub fn sample(target: Target, op: Op, encoding: &Encoding, form: Form, random: &mut Random) -> Vec<u32> {
    let code = u32::from(encoding.code);
    let info = op.info();
    let even = |random: &mut Random| random.below(53) * 2;
    match (encoding.format, form) {
        (Format::Vop1 | Format::Vop2 | Format::Vopc, Form::Short | Form::Dpp16 | Form::Dpp8 | Form::Sdwa) => {
            gfx9::sample(target, op, encoding, form, random)
        }
        (Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3sd, _) => {
            let base = match encoding.format {
                Format::Vop1 => 0x180,
                Format::Vop2 => 0x100,
                _ => 0,
            };
            let low = if info.sdst == Ty::Mask {
                even(random) << 8 | sparse(random, 1) << 15
            } else {
                sparse(random, 3) << 8 | (sparse(random, 4) & halves(op)) << 11 | sparse(random, 1) << 15
            };
            let dst = match info.dst {
                // Old compilers have 0 there.
                Ty::Mask if op.name().starts_with("v_cmpx_") => [126, 0][random.below(2) as usize],
                Ty::Mask | Ty::S32 => even(random),
                _ => random.below(256),
            };
            let scalars = matches!(op, Op::VReadlaneB32 | Op::VWritelaneB32 | Op::VPermlane16B32 | Op::VPermlanex16B32);
            let mut high = sparse(random, 2) << 27 | sparse(random, 3) << 29;
            for (at, ty) in info.src.iter().enumerate() {
                let source = match ty {
                    Ty::Mask => even(random),
                    _ if scalars && (at > 0 || op == Op::VWritelaneB32) => even(random),
                    _ if scalars => 256 + random.below(256),
                    // LLVM prints float constants as such in this 16-bit operand only.
                    Ty::I16 if matches!(op, Op::VAlignbitB32 | Op::VAlignbyteB32) => 256 + random.below(256),
                    _ => vector(random),
                };
                high |= source << (9 * at);
            }
            vec![0xd400_0000 | (base + code) << 16 | low | dst, high]
        }
        (Format::Vop3p, _) => {
            let op_sel_hi = if op.name().starts_with("v_fma_mix") || random.one_in(2) { 7 } else { random.below(8) };
            let low = sparse(random, 3) << 8 | sparse(random, 3) << 11 | op_sel_hi >> 2 << 14 | sparse(random, 1) << 15;
            let mut high = (op_sel_hi & 3) << 27 | sparse(random, 3) << 29;
            for at in 0..info.src.len() {
                high |= vector(random) << (9 * at);
            }
            vec![0xcc00_0000 | code << 16 | low | random.below(256), high]
        }
        (Format::Smem, _) if info.src.is_empty() => vec![0xf400_0000 | code << 18 | even(random) << 6, 0],
        (Format::Smem, _) => {
            let low = (random.below(26) * 2)
                | (random.below(13) * 4) << 6
                | sparse(random, 1) << 14
                | sparse(random, 1) << 16;
            let register = if random.one_in(2) { 125 } else { random.below(106) };
            vec![0xf400_0000 | code << 18 | low, register << 25 | sparse(random, 21)]
        }
        (Format::Ds, _) => {
            let mut high = 0;
            for at in 0..3 {
                if info.src.get(at).is_some_and(|ty| *ty != Ty::None) {
                    high |= random.below(256) << (8 * at);
                }
            }
            if info.dst != Ty::None {
                high |= random.below(256) << 24;
            }
            vec![0xd800_0000 | code << 18 | sparse(random, 1) << 17 | sparse(random, 16), high]
        }
        (Format::Mubuf, _) if info.src.is_empty() => vec![0xe000_0000 | code << 18, 0],
        (Format::Mubuf | Format::Mtbuf, _) => {
            let soffset = [4, 44, 100, 106, 124, 125, 128, 131, 193, 242][random.below(10) as usize];
            let lds = encoding.format == Format::Mubuf && info.src[1] == Ty::None && random.one_in(4);
            let (low, opcode_bit) = match encoding.format {
                Format::Mubuf => (0xe000_0000 | code << 18 | u32::from(lds) << 16, 0),
                _ => (0xe800_0000 | (code & 7) << 16 | random.below(128) << 19, code >> 3),
            };
            let addressing = random.below(4);
            let vaddr = if addressing != 0 { random.below(256) } else { 0 };
            let data = if lds { 0 } else { random.below(256) };
            let high =
                vaddr | data << 8 | random.below(26) << 16 | opcode_bit << 21 | sparse(random, 2) << 22 | soffset << 24;
            vec![low | sparse(random, 12) | addressing << 12 | random.below(4) << 14, high]
        }
        (Format::Flat | Format::Global | Format::Scratch, _) => {
            let segment = match encoding.format {
                Format::Flat => 0,
                Format::Scratch => 1,
                _ => 2,
            };
            let saddr = match random.below(4) {
                0 if segment == 1 && target == Target::Gfx1030 => 127,
                2.. if segment != 0 => even(random),
                _ => 125,
            };
            let offset = sparse(random, if segment == 0 { 11 } else { 12 });
            let vaddr = if segment == 1 && saddr != 125 { 0 } else { random.below(256) };
            let data = if info.src[1] == Ty::None { 0 } else { random.below(256) << 8 };
            let dst = if info.dst == Ty::None { 0 } else { random.below(256) << 24 };
            let low = segment << 14 | offset | sparse(random, 1) << 12 | sparse(random, 2) << 16;
            vec![0xdc00_0000 | code << 18 | low, vaddr | data | saddr << 16 | dst]
        }
        _ => gfx9::sample(target, op, encoding, form, random),
    }
}
