// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for gfx950: conversions with scales, matrix ops with formats and scales, transposing loads, exchanged rows
//! (CDNA4 ISA, V_CVT_SCALEF32_PK_FP8_F32, V_PERMLANE32_SWAP_B32 and their like; AMD's "Matrix Core Programming on CDNA3
//! and CDNA4" for the places of elements; Triton's kernels for transposing loads).

use crate::machine::{Case, Float, Machine, State};
use crate::microscaling::{FORMATS, Small, put};
use crate::num::{BF16, F16, F32, Format};
use random::Random;
use sim_isa::{Op, Target};

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    if machine.target != Target::Gfx950 {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for op in Op::all().filter(|op| machine.has(*op) && op.name().starts_with("v_cvt_scalef32_")) {
        cases.extend((0..3).map(|_| Conversion::of(op).case(machine, random)));
    }
    for _ in 0..4 {
        cases.extend([("f16", F16, 10), ("bf16", BF16, 7)].map(|to| rounded_by_chance(machine, to, random)));
        cases.extend([16, 32].map(|row| rows_exchanged(machine, row, random)));
        cases.extend([4, 6, 8, 16].map(|bits| transposed(machine, bits, random)));
        cases.push(bfloat_dot(machine, random));
        cases.push(tabled(machine, random));
        cases.push(tabled_halves(machine, random));
    }
    cases.extend((0..20).map(|turn| multiplied(machine, turn, random)));
    cases
}

/// Parsed mnemonic: `v_cvt_scalef32_sr_pk_fp4_bf16`.
struct Conversion {
    name: &'static str,
    small: Small,
    wide: Format,
    packs: bool,
    chance: bool,
    count: usize,
}

impl Conversion {
    fn of(op: Op) -> Conversion {
        let rest = op.name().strip_prefix("v_cvt_scalef32_").unwrap();
        let parts: Vec<&str> = rest.split('_').collect();
        let small = |name: &str| FORMATS.into_iter().find(|small| small.name.eq_ignore_ascii_case(name));
        let wide = |name: &str| match name {
            "f32" => F32,
            "f16" => F16,
            _ => BF16,
        };
        let (to, from) = (parts[parts.len() - 2], parts[parts.len() - 1]);
        let packs = small(to).is_some();
        Conversion {
            name: op.name(),
            small: small(to).or(small(from)).unwrap(),
            wide: wide(if packs { from } else { to }),
            packs,
            chance: parts[0] == "sr",
            count: match rest {
                _ if rest.contains("pk32") || rest.contains("pk16") => 32,
                _ if rest.contains("pk_") => 2,
                _ => 1,
            },
        }
    }

    /// A code whose value every format has, times any of the scales.
    fn code(&self, random: &mut Random) -> u32 {
        loop {
            let code = self.small.random(random);
            let most = (1 << (self.small.bits - 1)) - 1;
            let is_denormal = code & most < 1 << self.small.mantissa;
            // By chance only those that are not are rounded alike everywhere, and there is one more.
            let has_next = !is_denormal && code & most != most;
            if self.small.value(code).abs() >= 1.0 / 64.0 && (!self.chance || has_next) {
                return code;
            }
        }
    }

    fn case(&self, machine: Machine, random: &mut Random) -> Case {
        if self.packs { self.packed(machine, random) } else { self.unpacked(machine, random) }
    }

    /// Numbers between two codes, times the scale. Random bits decide, or which is nearer.
    fn packed(&self, machine: Machine, random: &mut Random) -> Case {
        let Conversion { small, wide, count, chance, .. } = *self;
        let (seed, scale, dst) = (32, 33, 34);
        let is_f32 = wide.width == 32;
        let mut before = State::random(machine, random);
        let mut after = before.clone();
        let part = random.below(match count * small.bits {
            8 => 4,
            16 => 2,
            _ => 1,
        });
        for lane in before.lanes() {
            let exponent = random.below(7) as i32 - 3;
            before.v[scale][lane] = random.next() & 0x807f_ffff | ((127 + exponent) as u32) << 23;
            let mut bits = before.v[seed][lane];
            let mut codes = Vec::new();
            for i in 0..count {
                let code = self.code(random);
                let lost = 23 - small.mantissa;
                let fraction = random.below(16);
                let step = small.value(code).abs().log2().floor().exp2() / f64::from(1 << small.mantissa);
                let (value, code) = match chance {
                    true => {
                        let carries = (u64::from(fraction) << (lost - 4)) + u64::from(bits >> (32 - lost)) >= 1 << lost;
                        let magnitude = small.value(code).abs() + f64::from(fraction) / 16.0 * step;
                        (magnitude.copysign(small.value(code)), code + u32::from(carries))
                    }
                    // Less than half a step up or down, also where the next one is half as long.
                    false => (small.value(code) * (1.0 + (f64::from(random.below(3)) - 1.0) / 128.0), code),
                };
                bits = bits.wrapping_mul(2) ^ if bits >> 31 != 0 { 197 } else { 0 };
                let number = wide.round(value * 2f64.powi(exponent)) as u32;
                // Of 32 floats the sources have every other one; two have a source each unless a seed follows.
                let (first, place) = match (is_f32 && !chance, count) {
                    (true, 32) => (i % 2 * 16, i / 2),
                    (true, 2) => (i, 0),
                    _ => (0, i),
                };
                put(&mut before, first, lane, place * wide.width as usize, wide.width as usize, number);
                codes.push(code);
            }
            after.v[scale][lane] = before.v[scale][lane];
            for n in 0..32 {
                after.v[n][lane] = before.v[n][lane];
            }
            if before.active(lane) {
                for (i, code) in codes.into_iter().enumerate() {
                    let at = part as usize * count * small.bits + i * small.bits;
                    put(&mut after, dst, lane, at, small.bits, code);
                }
            }
        }
        let bits = count * wide.width as usize;
        let sources = match (is_f32 && !chance, count) {
            (true, 32) => "v[0:15], v[16:31]".to_owned(),
            (true, 2) => "v0, v1".to_owned(),
            _ => tuple(0, bits),
        };
        let seed = if chance { format!(", v{seed}") } else { String::new() };
        let count_sources = 2 + usize::from(is_f32 && !chance && count > 1) + usize::from(chance);
        let select = match (part, count * small.bits) {
            (0, _) => String::new(),
            (part, 8) => format!(" op_sel:[0,0,{},{}]", part & 1, part >> 1),
            _ if count_sources == 3 => " op_sel:[0,0,0,1]".to_owned(),
            _ => " op_sel:[0,0,1]".to_owned(),
        };
        let to = tuple(dst, (count * small.bits).max(32));
        Case::new(format!("{} {to}, {sources}{seed}, v{scale}{select}", self.name), before, after)
    }

    /// Codes times the scale, which every format has exactly.
    fn unpacked(&self, machine: Machine, random: &mut Random) -> Case {
        let Conversion { small, wide, count, .. } = *self;
        let (scale, dst) = (6, 8);
        let mut before = State::random(machine, random);
        let size = count * small.bits;
        let part = random.below(match size {
            8 => 4,
            16 => 2,
            _ => 1,
        }) as usize;
        let high = count == 1 && wide.width == 16 && random.one_in(2);
        let mut results = Vec::new();
        for lane in before.lanes() {
            let exponent = random.below(7) as i32 - 3;
            before.v[scale][lane] = random.next() & 0x807f_ffff | ((127 + exponent) as u32) << 23;
            for i in 0..count {
                let code = self.code(random);
                put(&mut before, 0, lane, part * size + i * small.bits, small.bits, code);
                results.push((lane, i, wide.round(small.value(code) * 2f64.powi(exponent)) as u32));
            }
        }
        let mut after = before.clone();
        for (lane, i, bits) in results.into_iter().filter(|(lane, ..)| before.active(*lane)) {
            let at = (i + usize::from(high)) * wide.width as usize;
            put(&mut after, dst, lane, at, wide.width as usize, bits);
        }
        let select = match (part, size) {
            (0, _) if !high => String::new(),
            (part, 8) => format!(" op_sel:[{},{},{}]", part & 1, part >> 1, u8::from(high)),
            _ => " op_sel:[1,0,0]".to_owned(),
        };
        let (to, from) = (tuple(dst, (count * wide.width as usize).max(32)), tuple(0, size.max(32)));
        Case::new(format!("{} {to}, {from}, v{scale}{select}", self.name), before, after)
    }
}

/// Registers from `first` on, for so many bits.
fn tuple(first: usize, bits: usize) -> String {
    match bits.div_ceil(32) {
        1 => format!("v{first}"),
        registers => format!("v[{first}:{}]", first + registers - 1),
    }
}

/// An f32 between two neighbours of 16 bits: the upper random bits decide. The other half of the register stays.
fn rounded_by_chance(machine: Machine, (name, format, mantissa): (&str, Format, u32), random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let mut after = before.clone();
    let high = random.one_in(2);
    let lost = 23 - mantissa;
    for lane in before.lanes() {
        let steps = (1 << mantissa) + random.below(1 << mantissa);
        let fraction = random.below(16);
        let scale = 2f64.powi(random.below(8) as i32 - 4 - mantissa as i32);
        let carries = (fraction << (lost - 4)) + (before.v[4][lane] >> (32 - lost)) >= 1 << lost;
        let exact = (f64::from(steps) + f64::from(fraction) / 16.0) * scale;
        before.v[0][lane] = F32.round(-exact) as u32;
        after.v[0][lane] = before.v[0][lane];
        if before.active(lane) {
            let bits = format.round(-f64::from(steps + u32::from(carries)) * scale) as u32;
            put(&mut after, 16, lane, if high { 16 } else { 0 }, 16, bits);
        }
    }
    let select = if high { " op_sel:[0,0,1]" } else { "" };
    Case::new(format!("v_cvt_sr_{name}_f32 v16, v0, v4{select}"), before, after)
}

/// The odd rows of `row` lanes of one register and the even ones of another change places.
fn rows_exchanged(machine: Machine, row: usize, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    before.exec = u64::MAX;
    let mut after = before.clone();
    for lane in (0..64).filter(|lane| (lane / row).is_multiple_of(2)) {
        after.v[3][lane + row] = before.v[5][lane];
        after.v[5][lane] = before.v[3][lane + row];
    }
    Case::new(format!("v_permlane{row}_swap_b32 v3, v5"), before, after)
}

/// Halves of two registers multiplied, in bfloat16, and added to a float.
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
        }
    }
    Case::new("v_dot2c_f32_bf16 v4, v0, v2", before, after)
}

/// Each bit of the result is an entry of a truth table.
fn tabled(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let table = random.below(256);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let bit = |n: usize, at: usize| before.v[n][lane] >> at & 1;
        after.v[16][lane] = (0..32).map(|at| (table >> (4 * bit(0, at) + 2 * bit(4, at) + bit(8, at)) & 1) << at).sum();
    }
    Case::new(format!("v_bitop3_b32 v16, v0, v4, v8 bitop3:{table:#x}"), before, after)
}

/// Tables of halves of registers.
fn tabled_halves(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let table = random.below(256);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let sources = [before.v[0][lane], before.v[4][lane] >> 16, before.v[8][lane]];
        let bit = |n: usize, at: usize| sources[n] >> at & 1;
        let value: u32 = (0..16).map(|at| (table >> (4 * bit(0, at) + 2 * bit(1, at) + bit(2, at)) & 1) << at).sum();
        after.v[16][lane] = before.v[16][lane] & 0xffff | value << 16;
    }
    Case::new(format!("v_bitop3_b16 v16, v0, v4, v8 bitop3:{table:#x} op_sel:[0,1,0,1]"), before, after)
}

/// Each 16 lanes load a tile with columns of 16 elements one after the other: each lane gets a row.
fn transposed(machine: Machine, bits: usize, random: &mut Random) -> Case {
    const OFFSET: usize = 16;
    let size = if bits == 6 { 96 } else { 64 };
    let columns = size / bits;
    let mut before = State::random(machine, random);
    before.exec = u64::MAX;
    before.lds = (0..1024).map(|_| random.next() as u8).collect();
    for lane in 0..64 {
        before.v[0][lane] = (lane * size / 8) as u32;
    }
    let mut after = before.clone();
    for (lane, k) in (0..64).flat_map(|lane| (0..columns).map(move |k| (lane, k))) {
        let code = (0..bits).map(|bit| {
            let at = lane / 16 * 16 * size + (k * 16 + lane % 16) * bits + bit;
            u32::from(before.lds[OFFSET + at / 8] >> (at % 8) & 1) << bit
        });
        put(&mut after, 16, lane, k * bits, bits, code.sum());
    }
    Case::new(format!("ds_read_b{size}_tr_b{bits} {}, v0 offset:{OFFSET}", tuple(16, size)), before, after)
}

/// D = A·B + C. Lanes of a row have 32 elements one after the other, those of 8 bits runs of 16 by turns. With scales,
/// each lane has, in a byte of a dword, the one of the block of 32 whose number is its place among them.
fn multiplied(machine: Machine, turn: u32, random: &mut Random) -> Case {
    let m = if turn.is_multiple_of(2) { 16 } else { 32 };
    let (k, scaled) = (2048 / m, !turn.is_multiple_of(3));
    let formats = [(); 2].map(|()| random.below(5) as usize);
    let bytes = [(); 2].map(|()| random.below(4) as usize);
    let (first, c_at, d_at, scales_at) = ([0, 8], 16, 32, [48, 49]);
    let mut before = State::random(machine, random);
    for (lane, scale) in (0..64).flat_map(|lane| scales_at.map(|scale| (lane, scale))) {
        before.v[scale][lane] = (0..4).map(|byte| (125 + random.below(5)) << (8 * byte)).sum();
    }
    let mut factors = [(); 2].map(|()| vec![vec![0.0; k]; m]);
    for i in 0..2 {
        let small = FORMATS[formats[i]];
        let run = if small.bits == 8 { 16 } else { 32 };
        for (row, at) in (0..m).flat_map(|row| (0..k).map(move |at| (row, at))) {
            let code = small.random(random);
            let (lane, place) = (row + at / run % (k / 32) * m, at / run / (k / 32) * run + at % run);
            put(&mut before, first[i], lane, place * small.bits, small.bits, code);
            let scale = before.v[scales_at[i]][row + at / 32 * m] >> (8 * bytes[i]) & 0xff;
            factors[i][row][at] = small.value(code) * if scaled { 2f64.powi(scale as i32 - 127) } else { 1.0 };
        }
    }
    let registers = m * m / 64;
    let constant = random.one_in(3);
    for (n, lane) in (0..registers).flat_map(|n| (0..64).map(move |lane| (n, lane))) {
        before.v[c_at + n][lane] = F32.round(f64::from(random.below(64) as i32 - 32)) as u32;
    }
    let mut after = before.clone();
    for (i, j) in (0..m).flat_map(|i| (0..m).map(move |j| (i, j))) {
        // Strips of four rows lie in the lanes one after the other, then in further registers.
        let beside = 64 / m;
        let (n, lane) = (i / (4 * beside) * 4 + i % 4, i / 4 % beside * m + j);
        let products = factors[0][i].iter().zip(&factors[1][j]).map(|(a, b)| a * b);
        let start = if constant { -2.0 } else { F32.get(before.v[c_at + n][lane].into()) };
        after.v[d_at + n][lane] = F32.round(products.sum::<f64>() + start) as u32;
    }
    let factor = |i: usize| tuple(first[i], 32 * FORMATS[formats[i]].bits);
    let c = if constant { "-2.0".to_owned() } else { tuple(c_at, 32 * registers) };
    let mut text = format!(
        "v_mfma{}_f32_{m}x{m}x{k}_f8f6f4 {}, {}, {}, {c}",
        if scaled { "_scale" } else { "" },
        tuple(d_at, 32 * registers),
        factor(0),
        factor(1),
    );
    if scaled {
        let [a, b] = bytes;
        let low = format!(" op_sel:[{},{},0]", a & 1, b & 1);
        text += &format!(", v{}, v{}{low} op_sel_hi:[{},{},0]", scales_at[0], scales_at[1], a >> 1, b >> 1);
    }
    text += &format!(" cbsz:{} blgp:{}", formats[0], formats[1]);
    let mut case = Case::new(text, before, after);
    case.floats = (d_at..d_at + registers).map(|n| (n, Float::F32)).collect();
    case
}
