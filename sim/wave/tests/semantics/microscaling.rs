// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for gfx1250's floats of 4, 6 and 8 bits that share scales: conversions to more bits, transposing loads, matrix
//! ops (CDNA5 ISA 7.12.6 and 10.9; for the places of conversions' scales MLIR's `amdgpu.scaled_ext_packed_matrix`).

use crate::machine::{Case, Float, Machine, State};
use crate::num::{BF16, F16, F32, Format};
use random::Random;
use sim_isa::Target;

/// A format of few bits: its name, those of its mantissa, its exponent's bias.
#[derive(Clone, Copy)]
pub struct Small {
    pub name: &'static str,
    pub bits: usize,
    pub mantissa: u32,
    bias: i32,
}

pub const FORMATS: [Small; 5] = [
    Small { name: "FP8", bits: 8, mantissa: 3, bias: 7 },
    Small { name: "BF8", bits: 8, mantissa: 2, bias: 15 },
    Small { name: "FP6", bits: 6, mantissa: 3, bias: 1 },
    Small { name: "BF6", bits: 6, mantissa: 2, bias: 3 },
    Small { name: "FP4", bits: 4, mantissa: 1, bias: 1 },
];

impl Small {
    /// The value of a code that is a number.
    pub fn value(self, code: u32) -> f64 {
        let magnitude = code & ((1 << (self.bits - 1)) - 1);
        let (exponent, fraction) = (magnitude >> self.mantissa, f64::from(magnitude & ((1 << self.mantissa) - 1)));
        let whole = f64::from(1 << self.mantissa);
        let significand = if exponent == 0 { fraction } else { fraction + whole };
        let value = significand / whole * 2f64.powi(exponent.max(1) as i32 - self.bias);
        if code >> (self.bits - 1) & 1 != 0 { -value } else { value }
    }

    /// A code that is a number between -8 and 8.
    pub fn random(self, random: &mut Random) -> u32 {
        loop {
            let code = random.below(1 << self.bits);
            let magnitude = code & 0x7f;
            if (self.bits < 8 || magnitude < if self.mantissa == 3 { 0x7f } else { 0x7c })
                && self.value(code).abs() < 8.0
            {
                return code;
            }
        }
    }
}

/// Bits of a lane's registers.
pub fn put(state: &mut State, first: usize, lane: usize, at: usize, bits: usize, value: u32) {
    for bit in 0..bits {
        let word = &mut state.v[first + (at + bit) / 32][lane];
        *word = *word & !(1 << ((at + bit) % 32)) | (value >> bit & 1) << ((at + bit) % 32);
    }
}

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    if machine.target != Target::Gfx1250 {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for _ in 0..4 {
        for (small, (name, wide)) in
            FORMATS.iter().flat_map(|small| [("f32", F32), ("f16", F16), ("bf16", BF16)].map(|wide| (*small, wide)))
        {
            cases.push(converted(machine, small, name, wide, random));
        }
        cases.extend([4, 6, 8].map(|bits| transposed(machine, bits, false, random)));
        cases.extend([4, 6, 8].map(|bits| transposed(machine, bits, true, random)));
        cases.extend(unsigned(machine, random));
    }
    for turn in 0..24 {
        cases.push(multiplied(machine, turn, random));
    }
    cases
}

/// E5M3, which has no sign and one NaN.
const UNSIGNED: Small = Small { name: "E5M3", bits: 9, mantissa: 3, bias: 15 };

/// The code of E5M3 nearest to the magnitude of a number, the even one of two.
fn nearest(value: f64) -> u32 {
    // Half a unit beyond the greatest number it is the NaN.
    let far =
        |code: &u32| (if *code == 0xff { 2f64.powi(16) * 1.875 } else { UNSIGNED.value(*code) } - value.abs()).abs();
    (0..=0xff).min_by(|a, b| far(a).total_cmp(&far(b)).then((a & 1).cmp(&(b & 1)))).unwrap()
}

/// Conversions whose clamp bit stands for E5M3.
fn unsigned(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut before = State::random(machine, random);
    for lane in before.lanes() {
        before.v[0][lane] = random.next();
        // Numbers around those that the format has, of either sign; infinities and NaNs.
        for register in [4, 5] {
            let small = (random.below(36) as i32 - 18) as f32;
            let value = (1.0 + random.below(1 << 10) as f32 / 1024.0) * small.exp2();
            let sign = if random.one_in(2) { -1.0 } else { 1.0 };
            before.v[register][lane] = (sign * if random.one_in(8) { 0.0 } else { value }).to_bits();
        }
        if random.one_in(16) {
            before.v[4][lane] = [f32::INFINITY, f32::NAN, 1e9][random.below(3) as usize].to_bits();
        }
        // Pairs of f16.
        before.v[6][lane] = [4, 5].into_iter().rev().fold(0, |pair, register| {
            pair << 16 | F16.round(f64::from(f32::from_bits(before.v[register][lane]))) as u32
        });
    }
    let code = |value: f64| if value.is_finite() { nearest(value) } else { 0xff };
    let single = |state: &State, register: usize, lane: usize| f64::from(f32::from_bits(state.v[register][lane]));
    let mut wide = before.clone();
    let [mut packed, mut halves] = [(); 2].map(|()| before.clone());
    for lane in before.active_lanes() {
        let low = before.v[0][lane] & 0xff;
        let value = if low == 0xff { f64::NAN } else { UNSIGNED.value(low) };
        wide.v[1][lane] = (value as f32).to_bits();
        let pair = code(single(&before, 4, lane)) | code(single(&before, 5, lane)) << 8;
        packed.v[1][lane] = packed.v[1][lane] & 0xffff_0000 | pair;
        let of_half = |shift: u32| code(F16.get(u64::from(before.v[6][lane] >> shift & 0xffff)));
        halves.v[1][lane] = halves.v[1][lane] & 0xffff_0000 | of_half(0) | of_half(16) << 8;
    }
    let mut first = Case::new("v_cvt_f32_fp8_e64 v1, v0 clamp", before.clone(), wide);
    first.floats.push((1, Float::F32));
    vec![
        first,
        Case::new("v_cvt_pk_fp8_f32 v1.l, v4, v5 clamp", before.clone(), packed),
        Case::new("v_cvt_pk_fp8_f16 v1.l, v6 clamp", before, halves),
    ]
}

/// Numbers times the power of two in a byte of the scales: lanes 16 apart have theirs in one dword, of the half of the
/// wave that the highest bit of `scale_sel` says, in bytes side by side if the elements have less than eight bits.
fn converted(machine: Machine, small: Small, name: &str, wide: Format, random: &mut Random) -> Case {
    let count = if small.bits == 6 { 16 } else { 8 };
    let select = 2 * random.below(if small.bits == 8 { 8 } else { 4 });
    let mut before = State::random(machine, random);
    let scalar = random.one_in(4);
    for lane in before.lanes() {
        for i in 0..count {
            put(&mut before, 0, lane, i * small.bits, small.bits, small.random(random));
        }
        // Exponents that no format overflows with.
        before.v[42][lane] = (0..4).map(|byte| (124 + random.below(7)) << (8 * byte)).sum();
    }
    before.s[20] = before.v[42][0];
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let (half, byte) = match small.bits {
            8 => (select as usize / 8, select as usize / 2 % 4),
            _ => (select as usize / 4, (select & 2) as usize + lane / 16),
        };
        let scales = if scalar { before.s[20] } else { before.v[42][half * 16 + lane % 16] };
        let scale = 2f64.powi((scales >> (8 * byte) & 0xff) as i32 - 127);
        for i in 0..count {
            let code = (0..small.bits).map(|bit| {
                let at = i * small.bits + bit;
                (before.v[at / 32][lane] >> (at % 32) & 1) << bit
            });
            let value = small.value(code.sum()) * scale;
            let bits = wide.width as usize;
            put(&mut after, 44, lane, i * bits, bits, wide.round(value) as u32);
        }
    }
    let tuple = |first: usize, bits: usize| match bits / 32 {
        1 => format!("v{first}"),
        registers => format!("v[{first}:{}]", first + registers - 1),
    };
    let (to, from) = (tuple(44, count * wide.width as usize), tuple(0, count * small.bits));
    let scale = if scalar { "s20" } else { "v42" };
    let select = if select == 0 { String::new() } else { format!(" scale_sel:{select}") };
    Case::new(
        format!("v_cvt_scale_pk{count}_{name}_{} {to}, {from}, {scale}{select}", small.name.to_lowercase()),
        before,
        after,
    )
}

/// Columns of a tile that lanes load become rows in the registers of the lanes that matrix ops want them in. The
/// addresses are those that AMD's simulator has for a tile with columns of 16 elements one after the other.
fn transposed(machine: Machine, bits: usize, local: bool, random: &mut Random) -> Case {
    const OFFSET: usize = 16;
    let columns = if bits == 8 { 16 } else { 32 };
    let mut before = State::random(machine, random);
    before.exec = u64::MAX >> (64 - machine.lanes);
    before.memory = (0..1024).map(|_| random.next() as u8).collect();
    before.lds = (0..1024).map(|_| random.next() as u8).collect();
    before.set_s64(40, before.memory.as_ptr() as u64);
    for lane in before.lanes() {
        before.v[0][lane] = match bits {
            8 => (lane % 4 + lane / 8 * 4) * 16 + lane / 4 % 2 * 8,
            6 => (lane / 8 * 4 + lane % 4 + lane / 4 % 2 * 16) * 12,
            _ => lane * 8,
        } as u32;
    }
    let mut after = before.clone();
    let bytes = if local { &before.lds } else { &before.memory };
    for (row, k) in (0..16).flat_map(|row| (0..columns).map(move |k| (row, k))) {
        let code = (0..bits).map(|bit| {
            let at = (k * 16 + row) * bits + bit;
            u32::from(bytes[OFFSET + at / 8] >> (at % 8) & 1) << bit
        });
        let (lane, place) = match bits {
            8 => (row + k / 8 * 16, k % 8),
            6 => (row + k / 16 * 16, k % 16),
            _ => (row + k / 8 % 2 * 16, k % 8 + k / 16 * 8),
        };
        put(&mut after, 16, lane, place * bits, bits, code.sum());
    }
    let size = if bits == 6 { 96 } else { 64 };
    let to = format!("v[16:{}]", 15 + size / 32);
    let text = match local {
        true => format!("ds_load_tr{bits}_b{size} {to}, v0 offset:{OFFSET}"),
        false => format!("global_load_tr{bits}_b{size} {to}, v0, s[40:41] offset:{OFFSET}"),
    };
    Case::new(text, before, after)
}

/// The value of a scale in one of its formats.
fn scale_value(code: u32, format: usize) -> f64 {
    match format {
        0 => 2f64.powi(code as i32 - 127),
        1 => Small { name: "", bits: 9, mantissa: 3, bias: 15 }.value(code),
        _ => Small { name: "", bits: 8, mantissa: 3, bias: 7 }.value(code & 0x7f),
    }
}

/// D = A·B + C: parts of 16 elements of 8 bits, or 32 of less, are by turns in lanes 16 apart. With scales, each of 16
/// or 32 elements has one: lane *m* has those of row or column *m*, from the lowest byte on, or the lane 16 further
/// where a half is chosen.
fn multiplied(machine: Machine, turn: u32, random: &mut Random) -> Case {
    const K: usize = 128;
    let wide = turn % 4 == 3;
    let scaled = !turn.is_multiple_of(3);
    let sixteen = random.one_in(2);
    let [a, b] = if wide { [FORMATS[4]; 2] } else { [(); 2].map(|()| FORMATS[random.below(5) as usize]) };
    // E4M3 and E5M3 are for fp4.
    let formats = if a.bits == 4 && b.bits == 4 { [random.below(3) as usize; 2] } else { [0, 0] };
    let halves = [!wide && random.one_in(2), random.one_in(2)];
    let rows = if wide { 32 } else { 16 };
    let mut before = State::random(machine, random);
    before.exec = u64::MAX >> (64 - machine.lanes);
    let (a_at, b_at, c_at, d_at, scales_at) = (0, 16, 32, 48, [34, 36]);
    // Scales have registers of their own, which C leaves free by being a constant.
    for scale in scales_at.iter().flat_map(|first| [*first, first + 1]) {
        for lane in before.lanes() {
            before.v[scale][lane] = match formats[0] {
                // Powers of two near to one.
                0 => (0..4).map(|byte| (125 + random.below(5)) << (8 * byte)).sum(),
                1 => (0..4).map(|byte| (13 * 8 + random.below(32)) << (8 * byte)).sum(),
                _ => (0..4).map(|byte| (5 * 8 + random.below(32)) << (8 * byte)).sum(),
            };
        }
    }
    let mut factors = [vec![[0.0; K]; rows], vec![[0.0; K]; 16]];
    for (i, (first, small)) in [(a_at, a), (b_at, b)].into_iter().enumerate() {
        for (m, k) in (0..factors[i].len()).flat_map(|m| (0..K).map(move |k| (m, k))) {
            let code = small.random(random);
            let part = if small.bits == 8 { 16 } else { 32 };
            let (lane, place) = (m % 16 + k / part % 2 * 16, k / part / 2 * part + k % part);
            put(&mut before, first + m / 16 * 8, lane, place * small.bits, small.bits, code);
            let block = k / if sixteen { 16 } else { 32 };
            let lane = if halves[i] { m + 16 } else { m };
            let scale = before.v[scales_at[i] + block / 4][lane] >> (8 * (block % 4)) & 0xff;
            factors[i][m][k] = small.value(code) * if scaled { scale_value(scale, formats[i]) } else { 1.0 };
        }
    }
    let constant = scaled || random.one_in(2);
    if !constant {
        for (n, lane) in (0..rows / 2).flat_map(|n| (0..machine.lanes).map(move |lane| (n, lane))) {
            before.v[c_at + n][lane] = F32.round(f64::from(random.below(64) as i32 - 32)) as u32;
        }
    }
    let mut after = before.clone();
    for (n, lane) in (0..rows / 2).flat_map(|n| (0..machine.lanes).map(move |lane| (n, lane))) {
        let row = &factors[0][n / 8 * 16 + n % 8 + lane / 16 * 8];
        let products = row.iter().zip(&factors[1][lane % 16]).map(|(a, b)| a * b);
        let start = if constant { -2.0 } else { F32.get(before.v[c_at + n][lane].into()) };
        after.v[d_at + n][lane] = F32.round(products.sum::<f64>() + start) as u32;
    }
    let registers = |first: usize, count: usize| format!("v[{first}:{}]", first + count - 1);
    let count = |small: Small| small.bits * 2;
    let c = if constant { "-2.0".to_owned() } else { registers(c_at, rows / 2) };
    let shape = if wide { "32x16x128_f4" } else { "16x16x128_f8f6f4" };
    let mut text = format!(
        "v_wmma{}_f32_{shape} {}, {}, {}, {c}",
        match (scaled, sixteen) {
            (false, _) => "",
            (true, false) => "_scale",
            (true, true) => "_scale16",
        },
        registers(d_at, rows / 2),
        registers(a_at, if wide { 16 } else { count(a) }),
        registers(b_at, count(b)),
    );
    if scaled {
        let scale = |first: usize| if sixteen { registers(first, 2) } else { format!("v{first}") };
        text += &format!(", {}, {}", scale(scales_at[0]), scale(scales_at[1]));
    }
    if !wide {
        text += &format!(" matrix_a_fmt:MATRIX_FMT_{} matrix_b_fmt:MATRIX_FMT_{}", a.name, b.name);
    }
    if scaled {
        for (matrix, half) in ["a", "b"].into_iter().zip(halves) {
            text += &if half { format!(" matrix_{matrix}_scale:MATRIX_SCALE_ROW1") } else { String::new() };
        }
        for (matrix, format) in ["a", "b"].into_iter().zip(formats) {
            text += &format!(" matrix_{matrix}_scale_fmt:MATRIX_SCALE_FMT_{}", ["E8", "E5M3", "E4M3"][format]);
        }
    }
    let mut case = Case::new(text, before, after);
    case.floats = (d_at..d_at + rows / 2).map(|n| (n, Float::F32)).collect();
    case
}
