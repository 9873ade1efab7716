// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for packed and mixed-precision ops, dot products, and pairs of ops in one instruction.

mod wmma;

pub use wmma::Element;

use crate::machine::{Case, Float, Machine, State, VCC, format, implemented};
use crate::num::{self, BF16, F16, F32};
use crate::reference::{self, In, wide};
use crate::vector::{SOURCES, fill};
use random::Random;
use sim_isa::{Format, Op, Target, Ty};

const DST: usize = 16;

/// Modifiers of a VOP3P op, one bit for each source.
#[derive(Clone, Copy)]
struct Modifiers {
    op_sel: u8,
    op_sel_hi: u8,
    neg_lo: u8,
    neg_hi: u8,
    clamp: bool,
}

pub fn list(name: &str, bits: u8, count: usize, default: u8) -> String {
    let digits: Vec<_> = (0..count).map(|at| (bits >> at & 1).to_string()).collect();
    if bits == default & ((1 << count) - 1) as u8 { String::new() } else { format!(" {name}:[{}]", digits.join(",")) }
}

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    if machine.has(Op::VPkMulBf16) {
        cases.extend(bf16_constants(machine, random));
    }
    for op in implemented(machine).filter(move |op| format(machine, *op) == Some(Format::Vop3p)) {
        let name = op.name();
        for turn in 0..10 {
            if op == Op::VPkMovB32 || name.ends_with("_f32") && name.starts_with("v_pk_") {
                cases.push(pair(machine, op, turn, random));
            } else if name.starts_with("v_pk_") {
                cases.extend(packed(machine, op, turn, random));
            } else if name.starts_with("v_fma_mix") {
                cases.push(mixed(machine, name, random));
            } else if name.starts_with("v_dot4_f32") {
                cases.push(small_dot(machine, name, turn, random));
            } else if name.starts_with("v_dot") {
                cases.push(dot(machine, name, turn, random));
            } else if op.has_matrix_formats() || op.loads_scales() {
                // Elsewhere.
            } else if name.starts_with("v_mfma") {
                cases.push(crate::matrix::case(machine, op, random));
            } else if name.starts_with("v_smfmac") {
                cases.push(crate::matrix::sparse(machine, op, random));
            } else if name.starts_with("v_wmma_bf16f32") {
                cases.push(crate::gfx1250::narrowed(machine, random));
            } else if name.starts_with("v_swmmac") && turn < 3 {
                cases.push(crate::swmmac::case(machine, op, random));
            } else if op.takes_scales() || op.loads_scales() {
                // Elsewhere.
            } else if name.starts_with("v_wmma") && turn < 3 {
                cases.push(wmma::case(machine, op, random));
            }
        }
    }
    for _ in 0..10 {
        if machine.has(Op::VPkFmacF16) {
            cases.push(packed_fmac(machine, random));
        }
        if machine.has(Op::VCvtPkFp8F32) {
            cases.push(upper_small_floats(machine, random));
        }
        if machine.has(Op::VCvtF32Fp8Gfx12) {
            cases.push(byte_converted(machine, random));
        }
        let by_chance = [Op::VCvtSrFp8F32, Op::VCvtSrBf8F32, Op::VCvtSrFp8F32Gfx12, Op::VCvtSrBf8F32Gfx12];
        for op in by_chance.into_iter().filter(|op| machine.has(*op)) {
            cases.push(stochastic(machine, op, random));
        }
        for op in [Op::VDot2cI32I16, Op::VDot4cI32I8, Op::VDot8cI32I4].into_iter().filter(|op| machine.has(*op)) {
            cases.push(accumulating_dot(machine, op, random));
        }
        for op in [Op::VAccvgprReadB32].into_iter().filter(|op| machine.has(*op)) {
            cases.push(accumulation_registers(machine, op, random));
        }
    }
    if !machine.wave64() {
        cases.extend(dual(machine, random));
        if machine.has(Op::VDot2accF32Bf16) {
            cases.extend((0..10).map(|_| bfloat_dot(machine, random)));
        }
    }
    cases
}

/// Half of a VOPD that adds a dot product of bfloat16 to its destination.
fn bfloat_dot(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.lanes() {
        let [a, b, c, d, e] = std::array::from_fn(|_| f64::from(random.below(13) as i32 - 6));
        let pair = |low: f64, high: f64| (BF16.round(low) | BF16.round(high) << 16) as u32;
        for state in [&mut before, &mut after] {
            (state.v[0][lane], state.v[2][lane], state.v[4][lane]) = (pair(a, b), pair(c, d), F32.round(e) as u32);
        }
        if before.active(lane) {
            after.v[4][lane] = F32.round(a * c + b * d + e) as u32;
            after.v[9][lane] = before.v[5][lane];
        }
    }
    Case::new("v_dual_dot2acc_f32_bf16 v4, v0, v2 :: v_dual_mov_b32 v9, v5", before, after)
}

fn modifiers(turn: usize, count: usize, random: &mut Random) -> Modifiers {
    let all = (1 << count) - 1;
    let bits = |random: &mut Random| random.below(8) as u8 & all;
    let zero = Modifiers { op_sel: 0, op_sel_hi: all, neg_lo: 0, neg_hi: 0, clamp: false };
    match turn % 5 {
        0 | 1 => zero,
        2 => Modifiers { op_sel: bits(random), op_sel_hi: bits(random), ..zero },
        3 => Modifiers { neg_lo: bits(random), neg_hi: bits(random), ..zero },
        _ => Modifiers { clamp: true, ..zero },
    }
}

/// Two independent 16-bit ops: `op_sel` and `op_sel_hi` choose halves for the low and the high one.
fn packed(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Option<Case> {
    let (name, info) = (op.name(), op.info());
    let count = info.src.len();
    let float = name.ends_with("f16");
    let format = if name.ends_with("bf16") { BF16 } else { F16 };
    let mut m = modifiers(turn, count, random);
    if !float {
        (m.neg_lo, m.neg_hi) = (0, 0);
    }
    let mut before = State::random(machine, random);
    if random.one_in(2) {
        before.mode &= !(1 << 9);
    }
    let ieee = before.mode >> 9 & 1 != 0 && !machine.target.is_gfx12();
    for (at, ty) in info.src.iter().enumerate() {
        fill(&mut before, SOURCES[at], *ty, random);
    }
    let mut after = before.clone();
    // The single op: `v_pk_add_u16` does `v_add_nc_u16` twice.
    let single = name.replace("v_pk_", "v_");
    let integer_sum = (single.starts_with("v_add_") || single.starts_with("v_sub_")) && count == 2 && !float;
    let single =
        if integer_sum { single.replacen("_u16", "_nc_u16", 1).replacen("_i16", "_nc_i16", 1) } else { single };
    for lane in before.active_lanes() {
        let half = |select: u8, neg: u8| {
            let get = |at: usize| {
                let shift = 16 * u32::from(select >> at & 1);
                let value = u64::from(before.v[SOURCES[at]][lane] >> shift) & 0xffff;
                value ^ if neg >> at & 1 != 0 { 0x8000 } else { 0 }
            };
            let input = In { a: get(0), b: get(1), c: if count == 3 { get(2) } else { 0 }, ieee, ..In::default() };
            let value = reference::value(&single, &input)?.value;
            Some(match (m.clamp, float) {
                (true, true) => num::clamp(format, value),
                (true, false) => {
                    let (exact, least, most) = reference::saturating(&single, &input)?;
                    exact.clamp(least, most) as u64 & 0xffff
                }
                _ => value,
            })
        };
        let (low, high) = (half(m.op_sel, m.neg_lo)?, half(m.op_sel_hi, m.neg_hi)?);
        after.v[DST][lane] = (low | high << 16) as u32;
    }
    let sources: Vec<_> = SOURCES[..count].iter().map(|n| format!("v{n}")).collect();
    let text = format!(
        "{} v{DST}, {}{}{}{}{}{}",
        op.name_on(machine.target),
        sources.join(", "),
        list("op_sel", m.op_sel, count, 0),
        list("op_sel_hi", m.op_sel_hi, count, 7),
        list("neg_lo", m.neg_lo, count, 0),
        list("neg_hi", m.neg_hi, count, 0),
        if m.clamp { " clamp" } else { "" }
    );
    let mut case = Case::new(text, before, after);
    case.optional = m.clamp;
    if float {
        case.floats.push((DST, if format == BF16 { Float::Bf16(3) } else { Float::F16(3) }));
    }
    Some(case)
}

/// Two f32 results, or two dwords moved: `op_sel` and `op_sel_hi` choose dwords for the low and the high one.
fn pair(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let count = op.info().src.len();
    let mut m = modifiers(turn, count, random);
    let moves = op == Op::VPkMovB32;
    if moves {
        m = Modifiers { neg_lo: 0, neg_hi: 0, clamp: false, ..m };
    }
    let mut before = State::random(machine, random);
    for register in [0, 1, 4, 5, 8, 9] {
        fill(&mut before, register, Ty::B32, random);
    }
    let mut after = before.clone();
    // An inline constant stands in both halves.
    let constant = (turn >= 5 && !moves).then(|| random.below(count as u32) as usize);
    for lane in before.active_lanes() {
        let result = |select: u8, neg: u8| {
            let get = |at: usize| {
                let value = u64::from(before.v[SOURCES[at] + usize::from(select >> at & 1)][lane]);
                let value = if constant == Some(at) { 0x3f00_0000 } else { value };
                value ^ if neg >> at & 1 != 0 { 1 << 31 } else { 0 }
            };
            let (x, y) = (F32.get(get(0)), F32.get(get(1)));
            let value = match op {
                Op::VPkAddF32 => F32.round(x + y),
                Op::VPkMulF32 => F32.round(x * y),
                _ => num::fma(F32, get(0), get(1), get(2)),
            };
            (if m.clamp { num::clamp(F32, value) } else { value }) as u32
        };
        let dword = |at: usize| before.v[SOURCES[at] + usize::from(m.op_sel >> at & 1)][lane];
        (after.v[DST][lane], after.v[DST + 1][lane]) =
            if moves { (dword(0), dword(1)) } else { (result(m.op_sel, m.neg_lo), result(m.op_sel_hi, m.neg_hi)) };
    }
    let mut sources: Vec<_> = SOURCES[..count].iter().map(|n| format!("v[{n}:{}]", n + 1)).collect();
    if let Some(at) = constant {
        sources[at] = "0.5".to_owned();
    }
    let text = format!(
        "{} v[{DST}:{}], {}{}{}{}{}{}",
        op.name(),
        DST + 1,
        sources.join(", "),
        list("op_sel", m.op_sel, count, 0),
        list("op_sel_hi", m.op_sel_hi, count, 7),
        list("neg_lo", m.neg_lo, count, 0),
        list("neg_hi", m.neg_hi, count, 0),
        if m.clamp { " clamp" } else { "" }
    );
    let mut case = Case::new(text, before, after);
    case.optional = m.clamp;
    if !moves {
        case.floats.extend([(DST, Float::F32), (DST + 1, Float::F32)]);
    }
    case
}

/// Four products of 8-bit floats; the third source may be negated.
fn small_dot(machine: Machine, name: &str, turn: usize, random: &mut Random) -> Case {
    let parts: Vec<&str> = name.split('_').collect();
    let factors = [Element::of(parts[3]), Element::of(parts[4])];
    let mut before = State::random(machine, random);
    for lane in 0..64 {
        for (first, element) in [0, 4].into_iter().zip(factors) {
            before.v[first][lane] = (0..4).map(|n| (element.random(random) as u32) << (8 * n)).sum();
        }
        before.v[8][lane] = F32.round(f64::from(random.below(100))) as u32;
    }
    let negated = turn % 2 == 1;
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let get = |at: usize, n: usize| factors[at].get(u64::from(before.v[4 * at][lane] >> (8 * n)), true);
        let start = F32.get(before.v[8][lane].into()) * if negated { -1.0 } else { 1.0 };
        after.v[DST][lane] = F32.round((0..4).map(|n| get(0, n) * get(1, n)).sum::<f64>() + start) as u32;
    }
    let neg = if negated { " neg_lo:[0,0,1]" } else { "" };
    let mut case = Case::new(format!("{name} v{DST}, v0, v4, v8{neg}"), before, after);
    case.floats.push((DST, Float::F32));
    case
}

/// A byte that is a float, chosen by `byte_sel`.
fn byte_converted(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let mut after = before.clone();
    let byte = random.below(4);
    let (name, mantissa) = if random.one_in(2) { ("fp8", 3) } else { ("bf8", 2) };
    for lane in before.active_lanes() {
        let value = reference::small_float((before.v[0][lane] >> (8 * byte)) as u8, mantissa, true);
        after.v[DST][lane] = F32.round(value) as u32;
    }
    let mut case = Case::new(format!("v_cvt_f32_{name}_e64 v{DST}, v0 byte_sel:{byte}"), before, after);
    case.floats.push((DST, Float::F32));
    case
}

/// Rounding by chance: the cut-off bits are below or above the random bits. The values are between two neighbours, so
/// that both are seen.
fn stochastic(machine: Machine, op: Op, random: &mut Random) -> Case {
    let ocp = machine.has_ocp_floats();
    let mantissa = if op.name().contains("fp8") { 3 } else { 2 };
    let mut before = State::random(machine, random);
    let byte = random.below(4);
    let mut after = before.clone();
    for lane in 0..64 {
        // A normal number and a fraction of its last place.
        let steps = (1 << mantissa) + random.below(1 << mantissa);
        let fraction = random.below(1 << 12);
        let scale = 2f64.powi(random.below(8) as i32 - 4);
        let sign = if random.one_in(2) { -1.0 } else { 1.0 };
        let exact = sign * (f64::from(steps) + f64::from(fraction) / 4096.0) * scale;
        before.v[0][lane] = F32.round(exact) as u32;
        let up = u64::from(fraction) << 20 >> 20 << (23 - mantissa - 12);
        let chance = u64::from(before.v[4][lane] >> (32 - (23 - mantissa)));
        let carried = up + chance >= 1 << (23 - mantissa);
        let rounded = sign * f64::from(steps + u32::from(carried)) * scale;
        let code = reference::to_small_float(rounded, mantissa, ocp) as u32;
        (after.v[0][lane], after.v[4][lane]) = (before.v[0][lane], before.v[4][lane]);
        if before.active(lane) {
            let word = before.v[DST][lane];
            after.v[DST][lane] = word & !(0xff << (8 * byte)) | code << (8 * byte);
        }
    }
    let select = match (machine.target.is_gfx12(), byte) {
        (_, 0) => String::new(),
        (true, byte) => format!(" byte_sel:{byte}"),
        (false, byte) => format!(" op_sel:[0,0,{},{}]", byte & 1, byte >> 1),
    };
    Case::new(format!("{} v{DST}, v0, v4{select}", op.name()), before, after)
}

/// Small floats that go to the upper half of a register.
fn upper_small_floats(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    fill(&mut before, 0, Ty::B32, random);
    fill(&mut before, 4, Ty::B32, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let ocp = machine.has_ocp_floats();
        let input = In { a: before.v[0][lane].into(), b: before.v[4][lane].into(), ocp, ..In::default() };
        let pair = reference::value("v_cvt_pk_fp8_f32", &input).unwrap().value as u32;
        after.v[DST][lane] = before.v[DST][lane] & 0xffff | pair << 16;
    }
    Case::new(format!("v_cvt_pk_fp8_f32 v{DST}, v0, v4 op_sel:[0,0,1]"), before, after)
}

/// Dot products of signed integers that add to their destination.
fn accumulating_dot(machine: Machine, op: Op, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let bits = match op {
        Op::VDot2cI32I16 => 16,
        Op::VDot4cI32I8 => 8,
        _ => 4,
    };
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let part = |n: usize, at: u32| wide(u64::from(before.v[n][lane] >> (bits * at)), bits, true);
        let products = (0..32 / bits).map(|at| part(0, at) * part(4, at));
        after.v[DST][lane] = (products.sum::<i128>() + wide(before.v[DST][lane].into(), 32, true)) as u32;
    }
    Case::new(format!("{} v{DST}, v0, v4", op.name()), before, after)
}

/// Writes to an accumulation register and reads of it, in active lanes.
fn accumulation_registers(machine: Machine, _: Op, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let mut after = before.clone();
    let moves = machine.has(Op::VAccvgprMovB32);
    for lane in before.active_lanes() {
        after.v[DST][lane] = before.v[4][lane];
    }
    let (copy, from) = if moves { ("\nv_accvgpr_mov_b32 a9, a7", 9) } else { ("", 7) };
    let text = format!("v_accvgpr_write_b32 a7, v4{copy}\nv_accvgpr_read_b32 v{DST}, a{from}");
    Case::new(text, before, after)
}

/// An inline constant beside bf16 is an f32, whose high half is the bf16: `op_sel` chooses it.
fn bf16_constants(machine: Machine, random: &mut Random) -> [Case; 2] {
    let mut before = State::random(machine, random);
    let whole = |random: &mut Random| BF16.round(f64::from(random.below(100))) as u32;
    for lane in before.lanes() {
        before.v[0][lane] = whole(random) | whole(random) << 16;
        before.v[4][lane] = F32.round(f64::from(random.below(100))) as u32;
    }
    let (mut packed, mut mixed) = (before.clone(), before.clone());
    for lane in before.active_lanes() {
        let half = |shift: u32| BF16.get(u64::from(before.v[0][lane] >> shift) & 0xffff);
        let product = |shift: u32| BF16.round(half(shift) * 0.5) as u32;
        packed.v[DST][lane] = product(0) | product(16) << 16;
        mixed.v[DST][lane] = F32.round(half(0) * 2.0 + F32.get(before.v[4][lane].into())) as u32;
    }
    [
        Case::new(format!("v_pk_mul_bf16 v{DST}, v0, 0.5 op_sel:[0,1]"), before.clone(), packed),
        Case::new(format!("v_fma_mix_f32_bf16 v{DST}, v0, 2.0, v4 op_sel:[0,1,0] op_sel_hi:[1,1,0]"), before, mixed),
    ]
}

fn packed_fmac(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    for n in [0, 4, DST] {
        fill(&mut before, n, Ty::V2F16, random);
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let half = |shift: u32| {
            let get = |n: usize| u64::from(before.v[n][lane] >> shift) & 0xffff;
            num::fma(F16, get(0), get(4), get(DST))
        };
        after.v[DST][lane] = (half(0) | half(16) << 16) as u32;
    }
    let mut case = Case::new(format!("v_pk_fmac_f16 v{DST}, v0, v4"), before, after);
    case.floats.push((DST, Float::F16(3)));
    case
}

/// `v_fma_mix*`: each source is an f32, or one half of a register.
fn mixed(machine: Machine, name: &str, random: &mut Random) -> Case {
    let (sel, hi) = (random.below(8) as u8, random.below(8) as u8);
    let (neg, abs) = (random.below(8) as u8, random.below(8) as u8);
    let clamp = random.one_in(4);
    let mut before = State::random(machine, random);
    let (format, narrow) = if name.ends_with("bf16") { (BF16, Ty::V2BF16) } else { (F16, Ty::V2F16) };
    for (at, first) in SOURCES.into_iter().enumerate() {
        fill(&mut before, first, if hi >> at & 1 != 0 { narrow } else { Ty::B32 }, random);
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let get = |at: usize| {
            let word = before.v[SOURCES[at]][lane];
            let value = match (hi >> at & 1 != 0, sel >> at & 1 != 0) {
                (false, _) => u64::from(word),
                (true, high) => F32.round(format.get(u64::from(word >> if high { 16 } else { 0 }) & 0xffff)),
            };
            let value = if abs >> at & 1 != 0 { value & 0x7fff_ffff } else { value };
            value ^ if neg >> at & 1 != 0 { 0x8000_0000 } else { 0 }
        };
        let result = num::fma(F32, get(0), get(1), get(2));
        let word = &mut after.v[DST][lane];
        let half = |value: u64| {
            let value = format.round(F32.get(value));
            (if clamp { num::clamp(format, value) } else { value }) as u32
        };
        *word = match name {
            "v_fma_mix_f32" | "v_fma_mix_f32_bf16" => (if clamp { num::clamp(F32, result) } else { result }) as u32,
            "v_fma_mixlo_f16" | "v_fma_mixlo_bf16" => *word & 0xffff_0000 | half(result),
            _ => *word & 0xffff | half(result) << 16,
        };
    }
    let sources: Vec<_> = (0..3)
        .map(|at| {
            let register = format!("v{}", SOURCES[at]);
            let register = if abs >> at & 1 != 0 { format!("|{register}|") } else { register };
            if neg >> at & 1 != 0 { format!("-{register}") } else { register }
        })
        .collect();
    let text = format!(
        "{name} v{DST}, {}{}{}{}",
        sources.join(", "),
        list("op_sel", sel, 3, 0),
        list("op_sel_hi", hi, 3, 0),
        if clamp { " clamp" } else { "" }
    );
    let mut case = Case::new(text, before, after);
    // The half results may be rounded once or twice.
    let half = if name.contains("hi") { 2 } else { 1 };
    let wide = name.starts_with("v_fma_mix_f32");
    case.floats.push(match (wide, format) {
        (true, _) => (DST, Float::F32),
        (_, BF16) => (DST, Float::Bf16(half)),
        _ => (DST, Float::F16(half)),
    });
    case.ulps = u64::from(!wide);
    case
}

/// Small whole numbers in both halves.
fn whole_pair(format: num::Format, random: &mut Random) -> u32 {
    let mut one = || format.round(f64::from(random.below(13) as i32 - 6)) as u32;
    one() | one() << 16
}

/// Dot products; `neg_lo` of the integer ones tells which operands are signed.
fn dot(machine: Machine, name: &str, turn: usize, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let floats = match name {
        "v_dot2_f32_f16" => Some(F16),
        "v_dot2_f32_bf16" => Some(BF16),
        _ => None,
    };
    let mut neg = if name.contains("_iu") { random.below(4) as u8 } else { 0 };
    let clamp = turn % 4 == 3 && floats.is_none();
    // Products of two halves take any of them.
    let (sel, sel_hi) = match name.starts_with("v_dot2") && turn > 2 {
        true => (random.below(4) as u8, random.below(4) as u8),
        false => (0, 3),
    };
    for lane in 0..64 {
        if let Some(format) = floats {
            (before.v[0][lane], before.v[4][lane]) = (whole_pair(format, random), whole_pair(format, random));
            before.v[8][lane] = F32.round(f64::from(random.below(100))) as u32;
        } else if random.one_in(3) {
            before.v[8][lane] = [0, 0x7fff_fff0, 0x8000_0000, 0xffff_fff0][random.below(4) as usize];
        }
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let c = before.v[8][lane];
        let [a, b] = [0, 1].map(|at: usize| {
            let word = before.v[SOURCES[at]][lane];
            let half = |select: u8| if select >> at & 1 != 0 { word >> 16 } else { word & 0xffff };
            half(sel) | half(sel_hi) << 16
        });
        after.v[DST][lane] = if let Some(format) = floats {
            reference::dot2(format, F32, &In { a: a.into(), b: b.into(), c: c.into(), ..In::default() }) as u32
        } else {
            let bits = match &name[..6] {
                "v_dot2" => 16,
                "v_dot4" => 8,
                _ => 4,
            };
            // Where no operand may be unsigned, the ones of GFX9, there is no modifier for it.
            let neg = if name.contains("_iu") {
                neg
            } else if name.contains("_i") {
                3
            } else {
                0
            };
            let part = |x: u32, at: u32, signed: bool| wide(u64::from(x >> (bits * at)), bits, signed);
            let products = (0..32 / bits).map(|at| part(a, at, neg & 1 != 0) * part(b, at, neg & 2 != 0));
            let signed = name.contains("_i32");
            let sum = products.sum::<i128>() + wide(c.into(), 32, signed);
            let (least, most) = if signed { (i32::MIN.into(), i32::MAX.into()) } else { (0, i128::from(u32::MAX)) };
            (if clamp { sum.clamp(least, most) } else { sum }) as u32
        };
    }
    if floats.is_some() {
        neg = 0;
    }
    let clamp = if clamp { " clamp" } else { "" };
    // The third source has no halves; its bits count for nothing.
    let halves = format!("{}{}", list("op_sel", sel, 3, 0), list("op_sel_hi", sel_hi | 4, 3, 7));
    let text = format!("{name} v{DST}, v0, v4, v8{halves}{}{clamp}", list("neg_lo", neg, 3, 0));
    let mut case = Case::new(text, before, after);
    // LLVM knows no halves of these from gfx11 on.
    case.optional = !clamp.is_empty() || (sel, sel_hi) != (0, 3);
    if floats.is_some() {
        case.floats.push((DST, Float::F32));
    }
    case
}

/// VOPD: both halves read before either writes.
fn dual(machine: Machine, random: &mut Random) -> Vec<Case> {
    let names = |random: &mut Random, y: bool| {
        let x = [
            "v_mov_b32",
            "v_add_f32",
            "v_sub_f32",
            "v_mul_f32",
            "v_fmac_f32",
            "v_max_f32",
            "v_min_f32",
            "v_cndmask_b32",
        ];
        let more = ["v_subrev_f32", "v_mul_dx9_zero_f32", "v_dot2acc_f32_f16", "v_fmaak_f32", "v_fmamk_f32"];
        // Not each target has all of them.
        let only_y = [
            "v_add_nc_u32",
            "v_lshlrev_b32",
            "v_and_b32",
            "v_sub_nc_u32",
            "v_lshrrev_b32",
            "v_ashrrev_i32",
            "v_max_i32",
            "v_min_i32",
        ];
        let all: Vec<_> = x.into_iter().chain(more).chain(only_y.into_iter().filter(|_| y)).collect();
        all[random.below(all.len() as u32) as usize]
    };
    let mut cases = Vec::new();
    for _ in 0..400 {
        let pair = [names(random, false), names(random, true)];
        // The second sources must differ in parity of bank; the destinations in their lowest bit. Often a half reads
        // a register that the other writes.
        let mut dsts = [4 + 2 * random.below(3) as usize, 5 + 2 * random.below(3) as usize];
        // Of one parity they are of VOPD3.
        if machine.target == Target::Gfx1250 && random.one_in(2) {
            dsts[1] ^= 1;
            dsts[0] ^= if dsts[0] == dsts[1] { 2 } else { 0 };
        }
        let firsts = [4 * random.below(3) as usize, 1 + 4 * random.below(3) as usize];
        let seconds = [2 + 4 * random.below(2) as usize, 3 + 4 * random.below(2) as usize];
        let mut before = State::random(machine, random);
        before.mode &= !(1 << 9);
        let halves = pair.contains(&"v_dot2acc_f32_f16");
        for n in 0..12 {
            fill(&mut before, n, Ty::B32, random);
            for lane in 0..64 {
                before.v[n][lane] = if halves { whole_pair(F16, random) } else { before.v[n][lane] };
            }
        }
        let mut after = before.clone();
        let mut texts = Vec::new();
        for half in 0..2 {
            let name = pair[half];
            let (dst, first, second) = (dsts[half], firsts[half], seconds[half]);
            const LITERAL: u32 = 0x40a1_2345;
            let operands = match name {
                "v_mov_b32" => format!("v{first}"),
                "v_fmaak_f32" => format!("v{first}, v{second}, {LITERAL:#x}"),
                "v_fmamk_f32" => format!("v{first}, {LITERAL:#x}, v{second}"),
                _ => format!("v{first}, v{second}"),
            };
            texts.push(format!("{} v{dst}, {operands}", name.replace("v_", "v_dual_")));
            for lane in before.active_lanes() {
                let get = |n: usize| u64::from(before.v[n][lane]);
                let (b, c) = match name {
                    "v_fmaak_f32" => (get(second), LITERAL.into()),
                    "v_fmamk_f32" => (LITERAL.into(), get(second)),
                    _ => (get(second), 0),
                };
                let bit = before.s[VCC] >> lane & 1 != 0;
                let input = In { a: get(first), b, c, old: get(dst), bit, lane: lane as u32, ..In::default() };
                after.v[dst][lane] = reference::value(name, &input).unwrap().value as u32;
            }
        }
        let mut case = Case::new(texts.join(" :: "), before, after);
        case.floats = dsts.map(|dst| (dst, Float::F32)).to_vec();
        case.ulps = u64::from(halves);
        case.optional = true;
        cases.push(case);
    }
    cases
}
