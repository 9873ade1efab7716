// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Every row of the table against LLVM: words with the row's opcode and random other fields are disassembled by both.

mod gfx10;
mod gfx1250;
mod gfx9;
mod opcodes;

use std::collections::BTreeMap;

use random::Random;
use sim_isa::{DecodeFault, Encoding, Flags, Format, Op, Target, Ty, decode};
use sim_llvm::{assemble, disassemble};

/// Samples for each encoding of each row.
const SAMPLES: usize = 40;

/// A way to write an op: its encoding, and how source 0 crosses lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Short,
    Long,
    Dpp16,
    Dpp8,
    LongDpp16,
    LongDpp8,
    Sdwa,
}

fn forms(target: Target, op: Op, format: Format) -> &'static [Form] {
    match format {
        _ if target.is_gfx9() => gfx9::forms(op, format),
        _ if target.is_before_gfx11() => gfx10::forms(op, format),
        // LLVM 22 misreads the control of these: bit 7 of it as 0.
        Format::Vop3p if matches!(op, Op::VFmaMixloF16 | Op::VFmaMixhiF16 | Op::VFmaMixloBf16 | Op::VFmaMixhiBf16) => {
            &[Form::Long]
        }
        Format::Vop3 if matches!(op, Op::VCvtPkFp8F32Gfx12 | Op::VCvtPkBf8F32Gfx12) => &[Form::Long],
        // Lanes of nothing to cross: llvm-mc crashes on gfx12's v_pipeflush with DPP.
        Format::Vop1 if op.info().src.is_empty() => &[Form::Short, Form::Long],
        Format::Vop1 | Format::Vop2 | Format::Vopc => {
            &[Form::Short, Form::Long, Form::Dpp16, Form::Dpp8, Form::LongDpp16, Form::LongDpp8]
        }
        Format::Vop3 | Format::Vop3sd | Format::Vop3p => &[Form::Long, Form::LongDpp16, Form::LongDpp8],
        _ => &[Form::Short],
    }
}

/// A scalar source code, mostly one that names something.
fn scalar(random: &mut Random) -> u32 {
    match random.below(10) {
        0..=3 => random.below(26) * 4,
        4 => 106 + random.below(2) * 20,
        5 => 124 + random.below(2),
        6 => 128 + random.below(81),
        7 => 240 + random.below(9),
        8 => 255,
        // Reserved codes stay out: some crash llvm-mc.
        _ => [106, 107, 108, 112, 126, 127, 235, 236, 237, 238, 239, 251, 252, 253][random.below(14) as usize],
    }
}

/// A vector source code.
fn vector(random: &mut Random) -> u32 {
    if random.one_in(2) { scalar(random) } else { 256 + random.below(256) }
}

/// A field that is zero most of the time, so that a rarely legal combination of modifiers does not spoil each sample.
fn sparse(random: &mut Random, bits: u32) -> u32 {
    if random.one_in(3) { random.below(1 << bits) } else { 0 }
}

/// The scalar register or VGPR a VOP3 destination field holds.
fn vop3_dst(random: &mut Random, ty: Ty) -> u32 {
    match ty {
        Ty::Mask if random.one_in(2) => 126,
        Ty::Mask | Ty::S32 => random.below(54) * 2,
        _ => random.below(256),
    }
}

/// The `op_sel` bits of 16-bit operands: LLVM falls back to other instructions where others are set.
fn halves(op: Op) -> u32 {
    if op.name().starts_with("v_permlane") {
        return 0b11;
    }
    const PARTS: [(Flags, u32); 4] =
        [(Flags::SRC_WORD, 1), (Flags::SRC_BYTE, 3), (Flags::DST_WORD, 8), (Flags::DST_BYTE, 12)];
    let parts = PARTS.iter().filter(|(flag, _)| op.has(*flag)).fold(0, |mask, (_, bits)| mask | bits);
    if parts != 0 {
        return parts;
    }
    match op {
        Op::VCvtPkFp8F32 | Op::VCvtPkBf8F32 => return 0b1000,
        Op::VCvtSrFp8F32 | Op::VCvtSrBf8F32 => return 0b1100,
        Op::VAshrPkI8I32 | Op::VAshrPkU8I32 => return 0b1000,
        Op::VCvtF16Fp8 | Op::VCvtF16Bf8 => return 0b1011,
        Op::VCvtSrFp8F16 | Op::VCvtSrBf8F16 => return 0b1101,
        _ => {}
    }
    let info = op.info();
    let sources = info.src.iter().enumerate().map(|(at, ty)| u32::from(ty.is_16()) << at).sum::<u32>();
    sources | u32::from(info.dst.is_16()) << 3
}

fn dpp_word(random: &mut Random, dpp8: bool) -> u32 {
    if dpp8 {
        // LLVM 22 reads the smallest lane lists of some ops as if they were source operands.
        let word = random.next();
        return if word >> 17 == 0 { !word } else { word };
    }
    const CONTROLS: [u32; 8] = [0x1b, 0x105, 0x11f, 0x121, 0x140, 0x141, 0x15f, 0x163];
    let control = if random.one_in(3) { random.below(256) } else { CONTROLS[random.below(8) as usize] };
    random.below(256) | control << 8 | sparse(random, 2) << 18 | sparse(random, 4) << 20 | random.below(256) << 24
}

/// A literal, at times one that an inline constant could say.
fn literal(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => [0, 5, 0xffff_fff8, 0xffff_ffff, 0x3f80_0000, 0x3c00, 0xbc00, 0x3118][random.below(8) as usize],
        _ => random.next(),
    }
}

/// Words of `encoding` in `form` with random operands, followed by words for a literal.
fn sample(target: Target, op: Op, encoding: &Encoding, form: Form, random: &mut Random) -> Vec<u32> {
    if target.is_gfx9() {
        return gfx9::sample(target, op, encoding, form, random);
    }
    if target.is_before_gfx11() {
        return gfx10::sample(target, op, encoding, form, random);
    }
    let code = u32::from(encoding.code);
    let info = op.info();
    let mut words = match (encoding.format, form) {
        (Format::Vop1 | Format::Vop2 | Format::Vopc, Form::Short | Form::Dpp16 | Form::Dpp8) => {
            let src0 = match form {
                Form::Dpp16 => 250,
                Form::Dpp8 => 233 + random.below(2),
                _ => vector(random),
            };
            let dst = if info.dst == Ty::S32 { random.below(54) * 2 } else { random.below(256) };
            let src1 = random.below(256);
            let word = match encoding.format {
                Format::Vop1 if info.src.is_empty() => 0x7e00_0000 | code << 9,
                Format::Vop1 => 0x7e00_0000 | dst << 17 | code << 9 | src0,
                Format::Vopc => 0x7c00_0000 | code << 17 | src1 << 9 | src0,
                _ => code << 25 | dst << 17 | src1 << 9 | src0,
            };
            vec![word]
        }
        (Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3sd, _) => {
            let base = match encoding.format {
                Format::Vop1 => 0x180,
                Format::Vop2 => 0x100,
                _ => 0,
            };
            let low = if info.sdst == Ty::Mask {
                random.below(54) << 9 | sparse(random, 1) << 15
            } else {
                sparse(random, 3) << 8 | (sparse(random, 4) & halves(op)) << 11 | sparse(random, 1) << 15
            };
            let mut high = sparse(random, 2) << 27 | sparse(random, 3) << 29;
            let lane_numbers = matches!(op, Op::VPermlane16B32 | Op::VPermlanex16B32);
            let lanes_from_sgprs = lane_numbers || op.name().starts_with("v_permlane_") || random.one_in(3);
            for at in 0..3 {
                let source = match (info.src.get(at), form) {
                    (None, _) => 0,
                    (_, Form::LongDpp16) if at == 0 => 250,
                    (_, Form::LongDpp8) if at == 0 => 233 + random.below(2),
                    (Some(Ty::Mask), _) => random.below(54) * 2,
                    (_, Form::LongDpp16 | Form::LongDpp8) => 256 + random.below(256),
                    (Some(ty), _) if ty.dwords(false) > 2 || op.name().starts_with("v_perm_pk16") => {
                        256 + random.below(256)
                    }
                    _ if at > 0 && lanes_from_sgprs => scalar(random),
                    _ => vector(random),
                };
                // Permutes take VGPRs only.
                let source = if op.name().ends_with("_var_b32") { 256 | source & 0xff } else { source };
                high |= source << (9 * at);
            }
            vec![0xd400_0000 | (base + code) << 16 | low | vop3_dst(random, info.dst), high]
        }
        (Format::Vop3p, _) => {
            // LLVM cuts literals of mixed ops to 16 bits even where `op_sel_hi` says the source has 32: only 16-bit
            // ones there.
            let op_sel_hi = if op.name().starts_with("v_fma_mix") || random.one_in(2) { 7 } else { random.below(8) };
            // Of matrix formats five are known.
            let (op_sel, op_sel_hi) = match op {
                Op::VWmmaF3216x16x128F8f6f4 => (random.below(5), random.below(5)),
                _ if op.loads_scales() => (random.below(8) & 0b101, random.below(8) & 0b101),
                _ => (sparse(random, 3), op_sel_hi),
            };
            let low = sparse(random, 3) << 8 | op_sel << 11 | op_sel_hi >> 2 << 14 | sparse(random, 1) << 15;
            let mut high = (op_sel_hi & 3) << 27 | sparse(random, 3) << 29;
            for at in 0..3 {
                let source = match (info.src.get(at), form) {
                    // Scales have v0 there.
                    (None, _) if at == 2 && op.loads_scales() => 256,
                    (None, _) => 0,
                    (_, Form::LongDpp16) if at == 0 => 250,
                    (_, Form::LongDpp8) if at == 0 => 233 + random.below(2),
                    (_, Form::LongDpp16 | Form::LongDpp8) => 256 + random.below(256),
                    // Factors of matrices are VGPRs: make them so often enough.
                    _ if target.is_gfx12() && op.name().starts_with("v_wmma") && (at < 2 || !random.one_in(4)) => {
                        256 + random.below(256)
                    }
                    _ if op.name().starts_with("v_swmmac") => 256 + random.below(256),
                    _ => vector(random),
                };
                high |= source << (9 * at);
            }
            vec![0xcc00_0000 | code << 16 | low | random.below(256), high]
        }
        // Barriers are named by a small number or M0; other operands crash llvm-mc.
        (Format::Sop1, _) if op.name().contains("_barrier") => {
            let barrier = if random.one_in(2) { 125 } else { 128 + random.below(81) };
            vec![0xbe80_0000 | random.below(54) << 17 | code << 8 | barrier]
        }
        (Format::Sop1, _) => vec![0xbe80_0000 | random.below(54) << 17 | code << 8 | scalar(random)],
        (Format::Sop2, _) => {
            vec![0x8000_0000 | code << 23 | random.below(54) << 17 | scalar(random) << 8 | scalar(random)]
        }
        (Format::Sopc, _) => vec![0xbf00_0000 | code << 16 | scalar(random) << 8 | scalar(random)],
        (Format::Sopk, _) if matches!(op, Op::SSetregImm32B32 | Op::SVersion) => {
            vec![0xb000_0000 | code << 23 | random.below(0x1_0000)]
        }
        (Format::Sopk, _) => {
            let register = if random.one_in(4) { 124 } else { random.below(54) * 2 };
            vec![0xb000_0000 | code << 23 | register << 16 | random.below(0x1_0000)]
        }
        // LLVM prints the registers of the following instructions by their full numbers.
        (Format::Sopp, _) if op == Op::SSetVgprMsb => vec![0xbf80_0000 | code << 16],
        (Format::Sopp, _) => vec![0xbf80_0000 | code << 16 | sparse(random, 16)],
        (Format::Smem, _) if target.is_gfx12() => {
            let base = if info.src.first() == Some(&Ty::None) { 0 } else { random.below(26) * 2 };
            let low = base | random.below(13) << 9 | sparse(random, 4) << 21;
            let register = if random.one_in(2) { 124 } else { random.below(126) };
            vec![0xf400_0000 | code << 13 | low, register << 25 | sparse(random, 24)]
        }
        (Format::Smem, _) => {
            let low = (random.below(26) * 2) | random.below(13) << 9 | sparse(random, 2) << 13;
            let register = if random.one_in(2) { 124 } else { random.below(126) };
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
            let gds = if target.is_gfx11() { sparse(random, 1) << 17 } else { 0 };
            vec![0xd800_0000 | code << 18 | gds | sparse(random, 16), high]
        }
        (Format::Mubuf | Format::Mtbuf, _) if target.is_gfx12() => {
            let addressing = random.below(4);
            let vaddr = if addressing != 0 { random.below(256) } else { 0 };
            let format = if encoding.format == Format::Mtbuf { random.below(128) << 23 } else { 0 };
            let soffset = [4, 44, 100, 106, 124, 125][random.below(6) as usize];
            let high = random.below(256) | random.below(26) << 11 | sparse(random, 5) << 18 | format | addressing << 30;
            vec![0xc400_0000 | code << 14 | sparse(random, 1) << 22 | soffset, high, vaddr | sparse(random, 23) << 8]
        }
        (Format::Flat | Format::Global | Format::Scratch, _) if target.is_gfx12() => {
            let segment = match encoding.format {
                Format::Flat => 0,
                Format::Scratch => 1,
                _ => 2,
            };
            let no_scalar = segment == 0 && target != Target::Gfx1250 || random.one_in(2);
            let saddr = if no_scalar { 124 } else { random.below(54) * 2 };
            let low = 0xec00_0000 | segment << 24 | code << 14;
            if info.src.is_empty() {
                vec![low | 124, sparse(random, 2) << 18, 0]
            } else {
                let vaddr = if segment == 1 { random.below(2) << 17 } else { 0 };
                let high = random.below(256) | vaddr | sparse(random, 5) << 18 | random.below(256) << 23;
                vec![low | saddr, high, random.below(256) | sparse(random, 24) << 8]
            }
        }
        (Format::Mubuf | Format::Mtbuf, _) => {
            let low = match encoding.format {
                Format::Mubuf => 0xe000_0000 | code << 18,
                _ => 0xe800_0000 | code << 15 | random.below(128) << 19,
            };
            let addressing = random.below(8);
            let soffset = [4, 44, 100, 106, 124, 125, 128, 131, 193, 242][random.below(10) as usize];
            let vaddr = if addressing >> 1 != 0 { random.below(256) } else { 0 };
            let high = if info.src.is_empty() {
                0
            } else {
                vaddr | random.below(256) << 8 | random.below(26) << 16 | addressing << 21 | soffset << 24
            };
            vec![low | if info.src.is_empty() { 0 } else { sparse(random, 12) | random.below(8) << 12 }, high]
        }
        (Format::Flat | Format::Global | Format::Scratch, _) => {
            let segment = match encoding.format {
                Format::Flat => 0,
                Format::Scratch => 1,
                _ => 2,
            };
            let saddr = if segment == 0 || random.one_in(2) { 124 } else { random.below(54) * 2 };
            let scratch_vaddr = if segment == 1 { random.below(2) << 23 } else { 0 };
            let low = sparse(random, 13) | random.below(8) << 13 | segment << 16;
            vec![
                0xdc00_0000 | code << 18 | low,
                random.below(0x1_0000) | saddr << 16 | scratch_vaddr | random.below(256) << 24,
            ]
        }
        (Format::Vimage, _) => {
            let (first, more) = (random.below(25) * 4, random.below(26) * 4);
            let groups = if random.one_in(2) { 0x7c7c_0000 } else { more << 24 | more << 16 };
            let hint = random.below(4) << 18 | random.below(8) << 20;
            let nv = sparse(random, 1) << 7;
            vec![0xd040_0001 | code << 14 | nv, 0x7c00_0000 | hint, first | (random.below(24) * 4) << 8 | groups]
        }
        (Format::Vopd | Format::Vopd3, _) => unreachable!("VOPD has its own tests"),
    };
    let of_matrices = op.name().starts_with("v_wmma");
    if target == Target::Gfx1250 && form == Form::Long && (of_matrices || random.one_in(2)) {
        even_registers(&mut words);
    }
    if matches!(form, Form::Dpp16 | Form::LongDpp16) {
        words.push(dpp_word(random, false));
    } else if matches!(form, Form::Dpp8 | Form::LongDpp8) {
        words.push(dpp_word(random, true));
    }
    words
}

/// Makes the registers of a 64-bit vector encoding even, so that those of ops with many tuples are all aligned at
/// times.
fn even_registers(words: &mut [u32]) {
    words[0] &= !1;
    for at in [0, 9, 18] {
        if words[1] >> (at + 8) & 1 != 0 {
            words[1] &= !(1 << at);
        }
    }
}

/// Adds the one or two dwords of a literal if the decoder misses them.
fn with_literal(target: Target, mut words: Vec<u32>, mut literal: u32) -> Vec<u32> {
    while decode(target, &words).is_err_and(|error| error.fault == DecodeFault::Truncated) {
        words.push(literal);
        literal = !literal;
    }
    words
}

/// Ops whose immediate LLVM prints by name where we print the number: our text must assemble to the same words instead.
fn has_named_immediate(op: Op) -> bool {
    let name = op.name();
    name.starts_with("tbuffer_")
        || matches!(
            op,
            Op::SGetregB32
                | Op::SSetregB32
                | Op::SSetregImm32B32
                | Op::SVersion
                | Op::SSendmsg
                | Op::SSendmsghalt
                | Op::SSendmsgRtnB32
                | Op::SSendmsgRtnB64
                | Op::SWaitcntDepctr
                | Op::SBarrierWait
                | Op::DsSwizzleB32
        )
}

/// The decoder's result for `words`, as text; an error or a wrong length is part of it.
fn decoded(target: Target, words: &[u32]) -> String {
    match decode(target, words) {
        Ok(inst) if usize::from(inst.size) == words.len() * 4 => inst.to_string(),
        Ok(inst) => format!("{inst} ({} bytes)", inst.size),
        Err(error) => format!("({error})"),
    }
}

/// True if a tuple of lane registers starts with an odd one. LLVM disassembles such a tuple but does not assemble it.
fn has_odd_tuple(text: &str) -> bool {
    let starts = text.match_indices("v[").chain(text.match_indices("a["));
    starts.into_iter().any(|(at, _)| {
        let first: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
        first.parse::<u32>().is_ok_and(|first| first % 2 == 1)
    })
}

/// Compares decoder and LLVM on `samples`: the same text, and where LLVM assembles that text, words that decode to it
/// again. Returns, by op, how many samples LLVM disassembles and how many it assembles.
fn compare(target: Target, cpu: &str, samples: &[(Op, Vec<u32>)]) -> BTreeMap<Op, (usize, usize)> {
    let words: Vec<_> = samples.iter().map(|(_, words)| words.clone()).collect();
    let mut wrong = Vec::new();
    let mut taken = Vec::new();
    for ((op, words), theirs) in samples.iter().zip(disassemble(cpu, &words)) {
        // Texts that LLVM itself calls malformed are no oracle, nor are tuples that it lets run past v255.
        // LLVM 22 puts the bar of an absolute value in the wrong place in gfx12's v_cndmask_b32_dpp.
        let misprinted = |text: &str| text.starts_with("v_cndmask_b32_dpp") && text.contains(", vcc_lo|");
        let malformed = |text: &str| {
            text.contains("Invalid")
                || text.contains("is not supported on")
                || text.contains("only supports row_newbcast")
                || misprinted(text)
                || (256..288).any(|n| text.contains(&format!(":{n}]")))
                || target.has_aligned_tuples() && has_odd_tuple(text)
        };
        let Some(theirs) = theirs.filter(|text| !malformed(text)) else { continue };
        let ours = decoded(target, words);
        // LLVM does not mark all literals of these that an inline constant could say, nor is it of one mind about how
        // wide they are.
        let wmma_literal = op.name().starts_with("v_wmma") && words.len() == 3;
        // Nor does it cut the literals of scalar f16 ops to the bits that count, or mark them; in compares it prints
        // constants in hex.
        let compare = op.name().starts_with("s_cmp_");
        let scalar_half = op.name().starts_with("s_") && op.name().contains("f16") && (words.len() == 2 || compare);
        // Nor, before gfx11, those of f16 classes.
        let class = matches!(op, Op::VCmpClassF16 | Op::VCmpxClassF16) && target.is_before_gfx11();
        let class_literal = class && (words.len() == 3 || words[0] as u8 == 255);
        // Nor does it read the constants of these as pairs of f16.
        let pair = matches!(op, Op::VCvtPkFp8F16 | Op::VCvtPkBf8F16) && matches!(words[1] & 0x1ff, 128..=255);
        let fmac = *op == Op::VPkFmacF16 && ours.contains("lit(");
        // It takes literals of bf16 mixes for bf16 when it marks them, and for f32 when it reads them.
        let mix = matches!(op, Op::VFmaMixF32Bf16 | Op::VFmaMixloBf16 | Op::VFmaMixhiBf16) && theirs.contains("lit(");
        let unmarked = mix || wmma_literal || scalar_half || class_literal || fmac || pair;
        if ours != theirs && !unmarked && !has_named_immediate(*op) {
            wrong.push((*op, format!("{words:08x?}\n  LLVM {theirs}\n  ours {ours}")));
        }
        taken.push((*op, words, ours));
    }
    let lines: Vec<_> = taken.iter().map(|(_, _, ours)| ours.clone()).collect();
    let mut counts = BTreeMap::new();
    for ((op, words, ours), again) in taken.iter().zip(assemble(cpu, &lines)) {
        let (read, written) = counts.entry(*op).or_insert((0, 0));
        *read += 1;
        *written += usize::from(again.is_some());
        let same = match &again {
            Some(again) if has_named_immediate(*op) => again == *words,
            // The assembler prefers an inline constant to a literal of the same value, and the reverse in
            // `v_pk_fmac_f16`.
            Some(again) if ours.contains("lit(") || again.len() != words.len() => true,
            Some(_) if op.name().starts_with("v_wmma") && words.len() == 3 => true,
            Some(again) => decoded(target, again) == *ours,
            // Not every hint is one that the assembler takes.
            None => !has_named_immediate(*op) || ours.contains(" th:"),
        };
        if !same {
            wrong.push((*op, format!("{words:08x?}\n  ours {ours}\n  assembles to {again:08x?}")));
        }
    }
    let count = wrong.len();
    wrong.dedup_by_key(|(op, _)| *op);
    let first: Vec<_> = wrong.into_iter().map(|(_, text)| text).take(600).collect();
    assert!(count == 0, "{count} of {} differ, the first of each op:\n{}", samples.len(), first.join("\n"));
    counts
}

/// Fails unless LLVM both read and wrote each of `ops` at least once.
fn all_seen(ops: impl Iterator<Item = Op>, counts: &BTreeMap<Op, (usize, usize)>) {
    let unseen: Vec<_> =
        ops.filter(|op| !counts.get(op).is_some_and(|(read, written)| *read > 0 && *written > 0)).collect();
    assert!(unseen.is_empty(), "LLVM did not read or did not write any sample of {unseen:?}");
}

/// The targets, and LLVM's name for a processor of each.
const RDNA: [(Target, &str); 4] = [
    (Target::Gfx11, "gfx1100"),
    (Target::Gfx1150, "gfx1151"),
    (Target::Gfx1200, "gfx1201"),
    (Target::Gfx1250, "gfx1250"),
];
const GFX9: [(Target, &str); 6] = [
    (Target::Gfx900, "gfx90c"),
    (Target::Gfx906, "gfx906"),
    (Target::Gfx908, "gfx908"),
    (Target::Gfx90a, "gfx90a"),
    (Target::Gfx942, "gfx942"),
    (Target::Gfx950, "gfx950"),
];
const GFX10: [(Target, &str); 2] = [(Target::Gfx1010, "gfx1010"), (Target::Gfx1030, "gfx1030")];

#[test]
fn every_row_reads_as_llvm_reads_it() {
    every_row(&RDNA);
}

#[test]
fn every_gfx9_row_reads_as_llvm_reads_it() {
    every_row(&GFX9);
}

#[test]
fn every_gfx10_row_reads_as_llvm_reads_it() {
    every_row(&GFX10);
}

fn every_row(targets: &[(Target, &str)]) {
    for &(target, cpu) in targets {
        // gfx1250 wants more of an instruction's fields: even tuples, no signs, VGPRs alone.
        let turns = if target == Target::Gfx1250 { 2 * SAMPLES } else { SAMPLES };
        let mut random = Random(0x5eed);
        let mut samples = Vec::new();
        let mut ops = Vec::new();
        for op in Op::all() {
            for encoding in op.encodings(target).filter(|e| !matches!(e.format, Format::Vopd | Format::Vopd3)) {
                // LLVM reads few loads of scales without their product: those have a test of their own.
                if !op.loads_scales() {
                    ops.push(op);
                }
                for form in forms(target, op, encoding.format) {
                    for _ in 0..turns {
                        let words = sample(target, op, encoding, *form, &mut random);
                        samples.push((op, with_literal(target, words, literal(&mut random))));
                    }
                }
            }
        }
        all_seen(ops.into_iter(), &compare(target, cpu, &samples));
    }
}

#[test]
fn both_halves_of_vopd_read_as_llvm_reads_them() {
    for (target, cpu) in RDNA {
        vopd(target, cpu);
    }
}

fn vopd(target: Target, cpu: &str) {
    let mut random = Random(0xd0a1);
    let halves: Vec<(Op, u32)> = Op::all()
        .flat_map(|op| op.encodings(target).map(move |encoding| (op, encoding)))
        .filter(|(_, encoding)| encoding.format == Format::Vopd)
        .map(|(op, encoding)| (op, u32::from(encoding.code)))
        .collect();
    let mut samples = Vec::new();
    for &(x, code_x) in halves.iter().filter(|(_, code)| *code < 16) {
        for &(y, code_y) in &halves {
            for _ in 0..SAMPLES {
                let low = 0xc800_0000 | code_x << 22 | code_y << 17 | random.below(256) << 9 | vector(&mut random);
                let high = random.below(0x8000) << 17 | random.below(256) << 9 | vector(&mut random);
                let words = with_literal(target, vec![low, high], random.next());
                samples.push((x, words.clone()));
                samples.push((y, words));
            }
        }
    }
    all_seen(halves.into_iter().map(|(op, _)| op), &compare(target, cpu, &samples));
}
