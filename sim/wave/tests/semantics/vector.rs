// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for lane-wise vector ops: each op with operands from everywhere, modifiers, and values that go wrong easily.

use crate::machine::{Case, Float, Machine, State, VCC, implemented};
use crate::num::{self, BF16, F16, F32, F64};
use crate::reference::{self, In, Out};
use random::Random;
use sim_isa::{Encoding, Format, Op, OpInfo, Target, Ty};

/// First register of source `n`: room for four dwords each.
pub const SOURCES: [usize; 3] = [0, 4, 8];
pub const DST: usize = 16;
/// MODE's bit.
pub const IEEE: u32 = 1 << 9;
/// Scalar register that a source is taken from, and those of the masks read and written.
const SCALAR: usize = 40;
const MASK_IN: usize = 22;
const MASK_OUT: usize = 20;

/// Encoding, operands and modifiers of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variant {
    /// The shortest encoding, VGPRs only.
    Short,
    /// The 64-bit encoding, VGPRs only.
    Long,
    /// Source `n` is an SGPR, an inline integer, an inline float or a literal.
    Scalar(usize),
    Integer(usize),
    Float(usize),
    Literal(usize),
    /// `neg` and `abs` of source `n`.
    Neg(usize),
    Abs(usize),
    NegAbs(usize),
    Clamp,
    Omod(u32),
    /// In a mode that has no output modifiers: denormals are kept, or (2) IEEE.
    IgnoredOmod(u32),
    /// High halves of 16-bit operands, by bit; bit 3 is the destination.
    Halves(u8),
    /// The destination is also the first source.
    Overlap,
    /// Denormals flushed.
    Flush,
}

/// The types of an op's float results, by destination.
pub fn float_result(name: &str, info: &OpInfo) -> Option<Float> {
    let stem = name.strip_prefix("v_")?;
    if stem.starts_with("frexp_exp") || stem.starts_with("cmp") || matches!(info.dst, Ty::I16 | Ty::Mask) {
        return None;
    }
    if stem.starts_with("cvt_pk_rtz_f16") || info.dst == Ty::V2F16 {
        return Some(Float::F16(3));
    }
    if info.dst == Ty::V2BF16 {
        return Some(Float::Bf16(3));
    }
    if stem.starts_with("cvt_")
        && !["cvt_f16", "cvt_f32", "cvt_f64", "cvt_off_f32"].iter().any(|to| stem.starts_with(to))
    {
        return None;
    }
    match info.dst {
        Ty::F16 => Some(Float::F16(3)),
        Ty::BF16 => Some(Float::Bf16(3)),
        Ty::F64 => Some(Float::F64),
        Ty::B32 if stem.starts_with("cvt_f32") || stem.ends_with("f32") || stem.contains("_f32_") => Some(Float::F32),
        _ => None,
    }
}

fn format_of(float: Float) -> num::Format {
    match float {
        Float::F16(_) => F16,
        Float::Bf16(_) => BF16,
        Float::F32 => F32,
        Float::F64 => F64,
    }
}

/// The float format of a source, if modifiers and constants treat it as one.
fn source_format(ty: Ty) -> num::Format {
    match ty {
        Ty::F16 | Ty::I16 | Ty::V2F16 => F16,
        Ty::BF16 | Ty::V2BF16 => BF16,
        Ty::F64 | Ty::B64 | Ty::I64 => F64,
        _ => F32,
    }
}

/// A value of type `ty`, often at an edge.
pub fn interesting(random: &mut Random, ty: Ty) -> u64 {
    let pick = |random: &mut Random, values: &[u64]| values[random.below(values.len() as u32) as usize];
    let format = source_format(ty);
    let random_bits = (u64::from(random.next()) << 32 | u64::from(random.next())) & format.mask();
    match random.below(8) {
        0..=2 => {
            let one = format.round(1.0);
            let edge = [
                0,
                1,
                format.infinity(),
                format.infinity() - 1,
                format.infinity() + 1,
                format.quiet(format.infinity()),
                1 << format.mantissa,
                (1 << format.mantissa) - 1,
                one,
                one + 1,
                one - 1,
                format.round(0.5),
                format.round(1.5),
                format.round(2.5),
                format.round(3.0),
                format.round(-2.0),
                format.round(0.1),
                format.round(100.7),
            ];
            let value = pick(random, &edge);
            if random.one_in(2) { value } else { value | format.sign() }
        }
        3 => {
            let edge = [0, 1, 2, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7f_ffff, 0x80_0000];
            let value = pick(random, &edge);
            if random.one_in(2) { value } else { value.wrapping_neg() & format.mask() }
        }
        4 => {
            pick(random, &[0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x4f00_0000, 0xcf00_0000, 0x4f80_0000])
                & format.mask()
        }
        // Small magnitudes, so that sums and products stay in range.
        5 => format.round(f64::from(random.next() as i32) / f64::from(1 << 28)),
        6 => format.round(f64::from(random.next() as i32 >> 20)),
        _ => random_bits,
    }
}

/// The text of an operand in VGPRs. Before gfx11 halves have no names.
pub fn vgpr(machine: Machine, first: usize, ty: Ty, high: bool) -> String {
    match ty.dwords(false) {
        1 if ty.is_16() && !machine.before_gfx11() => format!("v{first}.{}", if high { 'h' } else { 'l' }),
        1 => format!("v{first}"),
        n => format!("v[{first}:{}]", first + usize::from(n) - 1),
    }
}

fn sgpr(first: usize, ty: Ty) -> String {
    if ty.dwords(false) == 2 { format!("s[{first}:{}]", first + 1) } else { format!("s{first}") }
}

/// One source: its text, and its value in each lane before modifiers.
pub struct Source {
    text: String,
    values: Vec<u64>,
}

pub fn source(machine: Machine, state: &State, at: usize, ty: Ty, variant: Variant) -> Source {
    let same = |text: String, value: u64| Source { text, values: vec![value & mask_of(ty); 64] };
    let format = source_format(ty);
    let high = matches!(variant, Variant::Halves(bits) if bits >> at & 1 != 0);
    match variant {
        Variant::Scalar(n) if n == at => {
            let wide = ty.dwords(false) == 2;
            same(sgpr(SCALAR, ty), if wide { state.s64(SCALAR) } else { state.s[SCALAR].into() })
        }
        Variant::Integer(n) if n == at => same("-7".into(), -7i64 as u64),
        Variant::Float(n) if n == at => same("-0.5".into(), format.round(-0.5)),
        Variant::Literal(n) if n == at => {
            let literal: u64 = if format.width == 16 { 0xb9a7 } else { 0xc349_1234 };
            let value = match ty {
                Ty::F64 => literal << 32,
                Ty::I64 => i64::from(literal as i32) as u64,
                _ => literal,
            };
            same(format!("{literal:#x}"), value)
        }
        Variant::Overlap if at == 0 => {
            Source { text: vgpr(machine, DST, ty, high), values: read(state, DST, ty, high) }
        }
        _ => Source { text: vgpr(machine, SOURCES[at], ty, high), values: read(state, SOURCES[at], ty, high) },
    }
}

fn read(state: &State, first: usize, ty: Ty, high: bool) -> Vec<u64> {
    let shift = if high && ty.is_16() { 16 } else { 0 };
    let one =
        |lane: usize| if ty.dwords(false) >= 2 { state.v64(first, lane) } else { u64::from(state.v[first][lane]) };
    (0..64).map(|lane| one(lane) >> shift & mask_of(ty)).collect()
}

fn mask_of(ty: Ty) -> u64 {
    u64::MAX >> (64 - if ty.is_16() { 16 } else { 32 * u32::from(ty.dwords(false).min(2)) })
}

/// The op's encoding on the target, if it is one of the lane-wise formats.
fn encoding(target: Target, op: Op) -> Option<&'static Encoding> {
    let found = op.encodings(target).next()?;
    matches!(found.format, Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Vop3sd).then_some(found)
}

/// Cases for every implemented op that [`reference::value`] knows.
pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for op in implemented(machine) {
        let Some(encoding) = encoding(machine.target, op) else { continue };
        if reference::value(op.name(), &In::default()).is_none() {
            continue;
        }
        use Variant::*;
        let mut variants = vec![Short, Short, Short, Long, Long, Clamp, Clamp, Overlap, Flush];
        variants.extend([1, 2, 3].map(Omod));
        variants.extend([1, 2].map(IgnoredOmod));
        // A second destination takes the place of the `abs` bits.
        let has_abs = op.info().sdst == Ty::None;
        for at in 0..op.info().src.len() {
            variants.extend([Scalar(at), Integer(at), Float(at), Literal(at), Neg(at)]);
            variants.extend([Abs(at), NegAbs(at)].into_iter().filter(|_| has_abs));
        }
        if op.info().dst.is_16() || op.info().src.iter().any(|ty| ty.is_16()) {
            variants.extend((1..16).map(Halves));
        }
        if is_exact(op.name()) {
            // Their operands are chosen.
            variants.retain(|variant| matches!(variant, Short | Long | Scalar(_) | Overlap | Halves(_)));
        }
        cases.extend(variants.into_iter().filter_map(|variant| case(machine, op, encoding, variant, random)));
    }
    cases
}

fn case(machine: Machine, op: Op, encoding: &Encoding, variant: Variant, random: &mut Random) -> Option<Case> {
    let (info, name) = (op.info(), op.name());
    let short = variant == Variant::Short || !op_has_long_form(op, encoding);
    if short && !matches!(variant, Variant::Short | Variant::Scalar(0) | Variant::Literal(0) | Variant::Halves(_)) {
        return None;
    }
    let float = float_result(name, info);
    let mut before = State::random(machine, random);
    for (at, ty) in info.src.iter().enumerate().filter(|(at, _)| *at < 3) {
        fill(&mut before, SOURCES[at], *ty, random);
    }
    fill(&mut before, DST, info.dst, random);
    if random.one_in(2) && !matches!(variant, Variant::IgnoredOmod(_)) {
        before.mode &= !IEEE;
    }
    if is_exact(name) {
        exact(&mut before, info, random);
    }
    if name == "v_perm_b32" && random.one_in(2) {
        // Compilers pack low halves so.
        before.s[SCALAR] = 0x0504_0100;
    }
    if name.starts_with("v_div_scale") {
        // Source 0 is one of the others.
        let same = if random.one_in(2) { SOURCES[1] } else { SOURCES[2] };
        (before.v[0], before.v[1]) = (before.v[same], before.v[same + 1]);
    }
    if matches!(variant, Variant::Omod(_) | Variant::Flush) {
        before.mode = 1 << 8;
    }
    if matches!(variant, Variant::Omod(_) | Variant::IgnoredOmod(_)) && float.is_none() {
        return None;
    }
    if variant == Variant::IgnoredOmod(2) && !machine.target.is_gfx12() {
        // Denormals flushed, but IEEE mode.
        before.mode = 1 << 8 | IEEE;
    }
    // Mask operands are VCC in the short encoding.
    let (mask_in, mask_out) = if short { (VCC, VCC) } else { (MASK_IN, MASK_OUT) };
    let mask_in = if name.starts_with("v_div_fmas") { VCC } else { mask_in };
    let mut items = Vec::new();
    let high_dst = matches!(variant, Variant::Halves(bits) if bits & 8 != 0);
    items.push(vgpr(machine, DST, info.dst, high_dst));
    if info.sdst == Ty::Mask {
        items.push(if short { machine.vcc().into() } else { machine.mask(mask_out) });
    }
    let mut values = Vec::new();
    let mut constant = false;
    for (at, ty) in info.src.iter().enumerate() {
        let text = match ty {
            Ty::Mask => {
                if short {
                    machine.vcc().into()
                } else {
                    machine.mask(mask_in)
                }
            }
            Ty::K16 | Ty::K32 | Ty::K64 => {
                constant = true;
                let literal: u64 = match ty {
                    Ty::K16 => 0x3e71,
                    Ty::K32 => 0x3fe1_2345,
                    _ => 0x3fe1_2345_6789_abcd,
                };
                values.push(vec![literal; 64]);
                format!("{literal:#x}")
            }
            _ => {
                let source = source(machine, &before, at, *ty, variant);
                let (values_with, text) = modified(source, at, *ty, variant);
                values.push(values_with);
                text
            }
        };
        items.push(text);
    }
    if constant && matches!(variant, Variant::Literal(_)) {
        return None;
    }
    values.resize(3, vec![0; 64]);
    let suffix = match encoding.format {
        Format::Vop1 | Format::Vop2 if op_has_long_form(op, encoding) => {
            if short {
                "_e32"
            } else {
                "_e64"
            }
        }
        _ => "",
    };
    let tail = match variant {
        Variant::Clamp => " clamp",
        Variant::Omod(n) | Variant::IgnoredOmod(n) => ["", " mul:2", " mul:4", " div:2"][n as usize],
        Variant::Halves(bits) if machine.before_gfx11() => {
            // Halves are a modifier of some VOP3 ops.
            let bit = |at: usize| (bits >> at & 1).to_string();
            let list: Vec<_> = (0..info.src.len()).chain([3]).map(bit).collect();
            &format!(" op_sel:[{}]", list.join(","))
        }
        _ => "",
    };
    let text = format!("{}{suffix} {}{tail}", encoding.name, items.join(", "));
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let old = read(&before, DST, info.dst, high_dst)[lane];
        let input = In {
            a: values[0][lane],
            b: values[1][lane],
            c: values[2][lane],
            old,
            bit: before.mask(mask_in) >> lane & 1 != 0,
            ieee: before.mode & IEEE != 0 && !machine.target.is_gfx12(),
            ocp: machine.has_ocp_floats(),
            lane: lane as u32,
        };
        let out = finished(name, info, variant, input)?;
        write(&mut after, lane, info.dst, high_dst, out.value);
        if let Some(bit) = out.bit {
            after.set_mask(mask_out, after.mask(mask_out) & !(1 << lane) | u64::from(bit) << lane);
        }
    }
    if machine.gfx9() && info.dst.is_16() && clears_high_half(name, encoding) {
        for lane in before.active_lanes() {
            after.v[DST][lane] &= 0xffff;
        }
    }
    if info.sdst == Ty::Mask {
        // Inactive lanes read as zero in a written mask.
        after.set_mask(mask_out, after.mask(mask_out) & before.exec);
    }
    let mut case = Case::new(text, before, after);
    case.floats = float.map(|float| (DST, float)).into_iter().collect();
    if info.dst == Ty::V2F32 {
        case.floats.extend([(DST, Float::F32), (DST + 1, Float::F32)]);
    }
    case.ulps = reference::ulps(name);
    case.optional = variant != Variant::Short;
    Some(case)
}

/// True if GFX9 clears the upper half of a register that gets a 16-bit result.
fn clears_high_half(name: &str, encoding: &Encoding) -> bool {
    let keeps = ["v_mac_f16", "v_madak_f16", "v_madmk_f16"].contains(&name);
    name.contains("legacy") || !keeps && matches!(encoding.format, Format::Vop1 | Format::Vop2)
}

/// True if the op has a 64-bit encoding.
fn op_has_long_form(op: Op, encoding: &Encoding) -> bool {
    let constant = op.info().src.iter().any(|ty| matches!(ty, Ty::K32 | Ty::K16));
    !constant && !matches!(op, Op::VDot2accF32F16 | Op::VDot2accF32Bf16 | Op::VAccvgprMovB32)
        || matches!(encoding.format, Format::Vop3 | Format::Vop3sd)
}

pub fn fill(state: &mut State, first: usize, ty: Ty, random: &mut Random) {
    for lane in 0..64 {
        match ty.dwords(false) {
            0 => {}
            // Both halves matter: one may be selected, the other must stay.
            1 if ty.is_16() || matches!(ty, Ty::V2F16 | Ty::V2BF16 | Ty::V2I16) => {
                let half = if matches!(ty, Ty::V2BF16) { Ty::BF16 } else { Ty::F16 };
                let (low, high) = (interesting(random, half), interesting(random, half));
                state.v[first][lane] = (low | high << 16) as u32;
            }
            1 => state.v[first][lane] = interesting(random, ty) as u32,
            _ => state.set_v64(first, lane, interesting(random, ty)),
        }
    }
}

/// Ops that are given small whole numbers: how they round, or treat NaNs and zeros, is not documented in full.
fn is_exact(name: &str) -> bool {
    ["v_cvt_pk_u8_f32", "v_cvt_pkaccum_u8_f32"].contains(&name) || name.starts_with("v_dot2")
}

/// Small whole numbers, so that the order and precision of intermediate results do not matter.
fn exact(state: &mut State, info: &OpInfo, random: &mut Random) {
    let whole = source_format(info.src[0]).round(f64::from(random.below(5))) as u32;
    state.s[SCALAR] = whole | if info.src[0] == Ty::B32 { 0 } else { whole << 16 };
    let types = info.src.iter().copied().zip(SOURCES).chain([(info.dst, DST)]);
    for (ty, first) in types {
        for lane in 0..64 {
            let mut whole = |format: num::Format| format.round(f64::from(random.below(13) as i32 - 6)) as u32;
            state.v[first][lane] = match ty {
                Ty::V2F16 | Ty::F16 => whole(F16) | whole(F16) << 16,
                Ty::V2BF16 | Ty::BF16 => whole(BF16) | whole(BF16) << 16,
                _ => whole(F32),
            };
        }
    }
}

pub fn modified(source: Source, at: usize, ty: Ty, variant: Variant) -> (Vec<u64>, String) {
    let format = source_format(ty);
    let sign = format.sign();
    let map = |f: &dyn Fn(u64) -> u64| source.values.iter().map(|value| f(*value)).collect();
    let text = &source.text;
    match variant {
        Variant::Neg(n) if n == at => (map(&|x| x ^ sign), format!("-{text}")),
        Variant::Abs(n) if n == at => (map(&|x| x & !sign), format!("|{text}|")),
        Variant::NegAbs(n) if n == at => (map(&|x| x | sign), format!("-|{text}|")),
        _ => (source.values, source.text),
    }
}

/// The result with flushing, output modifiers and clamping.
fn finished(name: &str, info: &OpInfo, variant: Variant, input: In) -> Option<Out> {
    let float = float_result(name, info);
    let ieee_flush = variant == Variant::IgnoredOmod(2) && input.ieee;
    if variant == Variant::Flush || matches!(variant, Variant::Omod(_)) || ieee_flush {
        return flushed(name, info, variant, input);
    }
    // gfx1250's clamp bit stands for another format, which has cases of its own; elsewhere there is none.
    if variant == Variant::Clamp && name == "v_cvt_f32_fp8" {
        return None;
    }
    if variant == Variant::Clamp && info.sdst == Ty::Mask && info.dst == Ty::B32 && float.is_none() {
        // The carry is told all the same.
        let mut out = reference::value(name, &input)?;
        if out.bit == Some(true) {
            out.value = if name.starts_with("v_add") { u32::MAX.into() } else { 0 };
        }
        return Some(out);
    }
    if variant == Variant::Clamp && float.is_none() {
        let (exact, least, most) = reference::saturating(name, &input)?;
        return Some(Out { value: exact.clamp(least, most) as u64 & mask_of(info.dst), bit: None });
    }
    let mut out = reference::value(name, &input)?;
    if let (Variant::Clamp, Some(float)) = (variant, float) {
        if name.starts_with("v_cvt_pk_rtz") {
            out.value = num::clamp(F16, out.value & 0xffff) | num::clamp(F16, out.value >> 16) << 16;
            return Some(out);
        }
        if info.dst == Ty::B32 && float != Float::F32 || name.starts_with("v_cvt_pk") || name.starts_with("v_div_scale")
        {
            return None;
        }
        out.value = num::clamp(format_of(float), out.value);
    }
    Some(out)
}

/// The result where MODE flushes denormals: only ops whose operands and result have one plain float format, and compute
/// something.
fn flushed(name: &str, info: &OpInfo, variant: Variant, input: In) -> Option<Out> {
    let arithmetic = ["add", "sub", "subrev", "mul", "fma", "fmac", "min", "max", "floor", "ceil", "trunc", "rndne"];
    let (stem, format) = reference::suffix(name)?;
    if !arithmetic.contains(&stem) || info.src.len() > 3 {
        return None;
    }
    // Whether f16 results overflow before or after they are scaled is not documented.
    if format == F16
        && matches!(variant, Variant::Omod(_))
        && ["add", "sub", "subrev", "mul", "fma", "fmac"].contains(&stem)
    {
        return None;
    }
    let flush = |bits: u64| if format.is_denormal(bits) { bits & format.sign() } else { bits };
    let input = In { a: flush(input.a), b: flush(input.b), c: flush(input.c), old: flush(input.old), ..input };
    let value = reference::value(name, &input)?.value;
    let value = match variant {
        Variant::Omod(n) => {
            let factor = [1.0, 2.0, 4.0, 0.5][n as usize];
            let scaled = flush(format.round(format.get(value) * factor));
            // No -0 comes out.
            if scaled == format.sign() { 0 } else { scaled }
        }
        _ => value,
    };
    Some(Out { value: flush(value), bit: None })
}

fn write(state: &mut State, lane: usize, ty: Ty, high: bool, value: u64) {
    let word = &mut state.v[DST][lane];
    match ty.dwords(false) {
        1 if ty.is_16() && high => *word = *word & 0xffff | (value as u32) << 16,
        1 if ty.is_16() => *word = *word & 0xffff_0000 | value as u32 & 0xffff,
        1 => *word = value as u32,
        _ => state.set_v64(DST, lane, value),
    }
}
