// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for features that gfx1250 has and gfx1201 lacks, or that differ (AMDGPUUsage, and the uses of `scale_offset`
//! and signed offsets of global accesses in LLVM).

mod memory;

use crate::machine::{Case, Float, Machine, State};
use crate::num::{BF16, F16, F32, Format};
use crate::reference::{small_float, to_small_float, wide};
use random::Random;
use sim_isa::Target;

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    if machine.target != Target::Gfx1250 {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for _ in 0..20 {
        cases.extend([fused(machine, random), exchanged(machine, random), chosen(machine, random)]);
        cases.extend([tabled_pair(machine, random), crossed(machine, random)]);
        cases.extend([extremes(machine, random), tabled_halves(machine, random)]);
        cases.extend([4, 6, 8].map(|bits| looked_up(machine, bits, random)));
        for name in ["bcast", "up", "down", "xor"] {
            cases.push(grouped(machine, name, random));
        }
        cases.extend([clamped_sum(machine, random), clamped_pair(machine, random)]);
        cases.extend([(16, BF16), (13, F16)].map(|(lost, format)| pair_by_chance(machine, lost, format, random)));
        cases.extend([3, 2].map(|mantissa| half_by_chance(machine, mantissa, random)));
        cases.push(byte_to_half(machine, random));
        cases.extend(beyond(machine, random));
        cases.extend([rows_exchanged(machine, random), places(machine, random)]);
        for op in ["fma", "add", "mul", "max_num", "min_num"] {
            cases.push(doubles(machine, op, random));
        }
        cases.push(tabled(machine, random));
        cases.extend(memory::cases(machine, random));
    }
    for small in SMALL.iter().cycle().take(20) {
        for (wide, chance) in
            [("f32", F32), ("f16", F16), ("bf16", BF16)].into_iter().flat_map(|w| [(w, false), (w, true)])
        {
            cases.push(scaled(machine, small, wide, chance, random));
        }
    }
    cases.extend(registers(machine, random));
    cases.push(literals(machine, random));
    cases
}

/// VOPD3 with three sources and signs, its destinations in registers of one parity.
fn fused(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    for n in 0..8 {
        for lane in before.lanes() {
            before.v[n][lane] = (random.below(2000) as f32 / 8.0 - 100.0).to_bits();
        }
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let get = |n: usize| f32::from_bits(before.v[n][lane]);
        after.v[8][lane] = get(0).mul_add(get(1), -get(2)).to_bits();
        after.v[10][lane] = (-get(5)).mul_add(-get(6), get(7)).to_bits();
    }
    let mut case = Case::new("v_dual_fma_f32 v8, v0, v1, -v2 :: v_dual_fma_f32 v10, -v5, -v6, v7", before, after);
    case.floats = vec![(8, Float::F32), (10, Float::F32)];
    case
}

/// Both operations of a VOPD3 read before either writes.
fn exchanged(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        after.v[4][lane] = before.v[6][lane];
        after.v[6][lane] = before.v[6][lane].wrapping_sub(before.v[4][lane]);
    }
    Case::new("v_dual_mov_b32 v4, v6 :: v_dual_sub_nc_u32 v6, v6, v4", before, after)
}

/// Each of VOPD3's operations has a lane mask of its own.
fn chosen(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let pick = |mask: usize, no: u32, yes: u32| if before.s[mask] >> lane & 1 != 0 { yes } else { no };
        after.v[4][lane] = pick(20, before.v[0][lane], before.v[1][lane]);
        after.v[6][lane] = pick(23, before.v[5][lane], before.v[3][lane]);
    }
    Case::new("v_dual_cndmask_b32 v4, v0, v1, s20 :: v_dual_cndmask_b32 v6, v5, v3, s23", before, after)
}

/// A truth table of two sources: that of three, with zeros as the third.
fn tabled_pair(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let table = random.below(256);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let bit = |n: usize, at: usize| before.v[n][lane] >> at & 1;
        after.v[4][lane] = before.v[6][lane];
        after.v[7][lane] = (0..32).map(|at| (table >> (4 * bit(1, at) + 2 * bit(3, at)) & 1) << at).sum();
    }
    Case::new(format!("v_dual_mov_b32 v4, v6 :: v_dual_bitop2_b32 v7, v1, v3 bitop3:{table:#x}"), before, after)
}

/// Registers from v256 on: bits 0 and 1 are those of source 0, then come sources 1 and 2, bits 6 and 7 are the
/// destination's. An op that adds to its destination reads it there.
fn beyond(machine: Machine, random: &mut Random) -> [Case; 2] {
    let mut before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.lanes() {
        let [a, b, c] = std::array::from_fn(|_| f64::from(random.below(100)));
        for state in [&mut before, &mut after] {
            for (n, value) in [(1, a), (2, b), (3, c)] {
                state.v[n][lane] = F32.round(value) as u32;
            }
        }
        if before.active(lane) {
            after.v[16][lane] = F32.round(a + b * c - b) as u32;
            after.v[17][lane] = after.v[16][lane];
            after.v[18][lane] = before.v[5][lane];
        }
    }
    let lines = [
        // v257 = a, then a + b·c.
        "s_set_vgpr_msb 0x40",
        "v_mov_b32 v1, v1",
        "v_fmac_f32 v1, v2, v3",
        // Source 0 of both operations is above, the others are not.
        "s_set_vgpr_msb 1",
        "v_dual_sub_f32 v16, v1, v2 :: v_dual_sub_f32 v17, v1, v2",
        "s_set_vgpr_msb 0",
        "v_mov_b32 v18, v5",
    ];
    let floats = |mut case: Case| {
        case.floats = vec![(16, Float::F32), (17, Float::F32)];
        case
    };
    // The bits are in each constant that MODE is set by, from bit 12 on, those of the destination first.
    let mut by_mode = after.clone();
    by_mode.mode |= 1 << 25;
    let set = |bits: u32| format!("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 25, 1), {:#x}", bits << 12 | 1);
    let in_mode = [set(1), lines[1].into(), lines[2].into(), set(4), lines[4].into(), set(0), lines[6].into()];
    [floats(Case::new(lines.join("\n"), before.clone(), after)), floats(Case::new(in_mode.join("\n"), before, by_mode))]
}

/// The second rows of one register and the first ones of another change places.
fn rows_exchanged(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    before.exec = u64::MAX >> (64 - machine.lanes);
    let mut after = before.clone();
    for lane in 0..16 {
        after.v[3][lane + 16] = before.v[5][lane];
        after.v[5][lane] = before.v[3][lane + 16];
    }
    Case::new("v_permlane16_swap_b32 v3, v5", before, after)
}

/// A format of few bits: its name, those of its mantissa, its exponent's bias, and how many of it an instruction makes.
type Small = (&'static str, usize, u32, u32, usize);
const SMALL: [Small; 5] =
    [("fp8", 8, 3, 7, 8), ("bf8", 8, 2, 15, 8), ("fp4", 4, 1, 1, 8), ("fp6", 6, 3, 1, 16), ("bf6", 6, 2, 3, 16)];

/// Numbers from 1 to 4, times a power of two that is their scale, to the nearest of few bits or by chance.
fn scaled(
    machine: Machine,
    &(name, bits, mantissa, bias, count): &Small,
    (wide, format): (&str, Format),
    chance: bool,
    random: &mut Random,
) -> Case {
    let dwords = if format == F32 { count } else { count / 2 };
    let mut before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.lanes() {
        let scale = random.below(8) as i32 - 4;
        // Of the scale only the exponent counts.
        before.v[42][lane] = F32.round(2f64.powi(scale)) as u32 | random.next() & 0x007f_ffff;
        after.v[42][lane] = before.v[42][lane];
        let mut seed = before.v[40][lane];
        let mut code_bits = vec![];
        for i in 0..count {
            // Seven bits of mantissa, which all formats have.
            let (fraction, exponent, negative) = (random.below(128), random.below(2), random.one_in(2));
            let value = f64::from(128 + fraction) / 128.0 * 2f64.powi(exponent as i32 + scale);
            let element = format.round(if negative { -value } else { value }) as u32;
            let (register, shift) = if format == F32 { (i, 0) } else { (i / 2, 16 * (i % 2)) };
            let mask = if format == F32 { 0 } else { 0xffff_0000 >> shift };
            for state in [&mut before, &mut after] {
                state.v[register][lane] = state.v[register][lane] & mask | element << shift;
            }
            // The lost ones of 23 bits.
            let lost = 23 - mantissa;
            let rest = fraction << 16 & ((1 << lost) - 1);
            let odd = fraction >> (7 - mantissa) & 1 != 0;
            let up = match chance {
                true => rest + (seed >> (16 * (i % 2)) << 16 >> (32 - lost)) >= 1 << lost,
                false => rest > 1 << (lost - 1) || rest == 1 << (lost - 1) && odd,
            };
            let magnitude = ((exponent + bias) << mantissa) + (fraction >> (7 - mantissa)) + u32::from(up);
            let code = magnitude | u32::from(negative) << (bits - 1);
            code_bits.extend((0..bits).map(|at| code >> at & 1));
            // Sixteen bits for each of two.
            if i % 2 == 1 {
                seed = seed.wrapping_mul(2) ^ if seed >> 31 != 0 { 197 } else { 0 };
            }
        }
        for (n, dword) in code_bits.chunks(32).enumerate().filter(|_| before.active(lane)) {
            after.v[44 + n][lane] = dword.iter().enumerate().map(|(at, bit)| bit << at).sum();
        }
    }
    let registers = count * bits / 32;
    let dst = if registers == 1 { "v44".to_owned() } else { format!("v[44:{}]", 43 + registers) };
    let (kind, seed) = if chance { ("sr_", "v40, ") } else { ("", "") };
    let text = format!("v_cvt_scalef32_{kind}pk{count}_{name}_{wide} {dst}, v[0:{}], {seed}v42", dwords - 1);
    Case::new(text, before, after)
}

/// A product of bfloat16 whose sum has 32 bits before and 16 after.
pub fn narrowed(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    before.exec = u64::MAX >> (64 - machine.lanes);
    let whole = |random: &mut Random| f64::from(random.below(13) as i32 - 6);
    let mut tiles = [[[0.0; 32]; 16]; 2];
    for (at, row, k) in (0..2).flat_map(|at| (0..16).flat_map(move |row| (0..32).map(move |k| (at, row, k)))) {
        tiles[at][row][k] = whole(random);
        // Eights by turns in lanes 16 apart.
        let (lane, place) = (row + k / 8 % 2 * 16, k / 16 * 8 + k % 8);
        let word = &mut before.v[8 * at + place / 2][lane];
        let bits = BF16.round(tiles[at][row][k]) as u32;
        *word = if place % 2 == 0 { *word & 0xffff_0000 | bits } else { *word & 0xffff | bits << 16 };
    }
    for (lane, r) in before.lanes().flat_map(|lane| (0..8).map(move |r| (lane, r))) {
        before.v[24 + r][lane] = F32.round(whole(random)) as u32;
    }
    let mut after = before.clone();
    for (lane, r) in before.lanes().flat_map(|lane| (0..8).map(move |r| (lane, r))) {
        let (row, column) = (r + 8 * (lane / 16), lane % 16);
        let products = (0..32).map(|k| tiles[0][row][k] * tiles[1][column][k]);
        let sum = products.sum::<f64>() + F32.get(before.v[24 + r][lane].into());
        let word = &mut after.v[32 + r / 2][lane];
        let bits = BF16.round(sum) as u32;
        *word = if r % 2 == 0 { *word & 0xffff_0000 | bits } else { *word & 0xffff | bits << 16 };
    }
    Case::new("v_wmma_bf16f32_16x16x32_bf16 v[32:35], v[0:7], v[8:15], v[24:31]", before, after)
}

/// A truth table of halves of registers.
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
    Case::new(format!("v_bitop3_b16 v16.h, v0.l, v4.h, v8.l bitop3:{table:#x}"), before, after)
}

/// Sixteen elements of a table whose upper part is the first source (AMD's tests of its libraries pass the parts so).
fn looked_up(machine: Machine, bits: usize, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let (high, low) = match bits {
        4 => (vec![0], vec![4]),
        6 => (vec![0], vec![4, 5]),
        _ => (vec![0, 1], vec![4, 5]),
    };
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let table: Vec<u32> = low.iter().chain(&high).map(|n| before.v[*n][lane]).collect();
        let bit = |at: usize| table[at / 32] >> (at % 32) & 1;
        for at in 0..16 * bits {
            let chosen = (before.v64(8, lane) >> (4 * (at / bits)) & 15) as usize;
            let word = &mut after.v[16 + at / 32][lane];
            *word = *word & !(1 << (at % 32)) | bit(chosen * bits + at % bits) << (at % 32);
        }
    }
    let tuple = |registers: &[usize]| match registers {
        [one] => format!("v{one}"),
        several => format!("v[{}:{}]", several[0], several[several.len() - 1]),
    };
    let text = format!("v_perm_pk16_b{bits}_u4 v[16:{}], {}, {}, v[8:9]", 15 + bits / 2, tuple(&high), tuple(&low));
    Case::new(text, before, after)
}

/// Lanes within groups read each other; where there is none in the group, themselves (CDNA5 ISA, V_PERMLANE_UP_B32 and
/// its like).
fn grouped(machine: Machine, name: &str, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let width = 1 << random.below(6);
    let by = random.below(width + 2);
    (before.s[20], before.s[21]) = (by, width);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let (start, at) = (lane as u32 / width * width, lane as u32 % width);
        let from = match name {
            "bcast" => Some(by % width),
            "up" => at.checked_sub(by),
            "down" => Some(at + by),
            _ => Some(at ^ by),
        };
        let from = from.filter(|from| *from < width).unwrap_or(at);
        after.v[16][lane] = before.v[3][(start + from) as usize];
    }
    Case::new(format!("v_permlane_{name}_b32 v16, v3, s20, s21"), before, after)
}

/// Addresses of lanes within groups, for `ds_bpermute_b32` (CDNA5 ISA, V_PERMLANE_IDX_GEN_B32).
fn places(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let width = 1 << random.below(6);
    before.s[20] = width;
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let start = lane as u32 / width * width;
        after.v[16][lane] = 4 * (start + before.v[3][lane] % 64 % width);
    }
    Case::new("v_permlane_idx_gen_b32 v16, v3, s20", before, after)
}

/// The sum is saturated whether there is a clamp bit or not, which makes negative results zero (llvm/llvm-project pull
/// requests 164731, 164881).
fn clamped_sum(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let (name, signed) =
        [("max_i32", true), ("min_u32", false), ("min_i32", true), ("max_u32", false)][random.below(4) as usize];
    let clamp = random.one_in(2);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let [a, b, c] = [0, 4, 8].map(|n| wide(before.v[n][lane].into(), 32, signed));
        let (least, most) = if signed { (i32::MIN.into(), i32::MAX.into()) } else { (0, u32::MAX.into()) };
        let sum: i128 = (a + b).clamp(least, most);
        let value = if name.starts_with("max") { sum.max(c) } else { sum.min(c) };
        after.v[16][lane] = if clamp { value.max(0) } else { value } as u32;
    }
    Case::new(format!("v_add_{name} v16, v0, v4, v8{}", if clamp { " clamp" } else { "" }), before, after)
}

/// Saturated sum, then maximum or minimum, in both halves of registers.
fn clamped_pair(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let (name, signed) =
        [("max_i16", true), ("min_u16", false), ("min_i16", true), ("max_u16", false)][random.below(4) as usize];
    let clamp = random.one_in(2);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let half = |shift: u32| {
            let [a, b, c] = [0, 4, 8].map(|n| wide((before.v[n][lane] >> shift).into(), 16, signed));
            let (least, most) = if signed { (-0x8000, 0x7fff) } else { (0, 0xffff) };
            let sum = (a + b).clamp(least, most);
            let value = if name.starts_with("max") { sum.max(c) } else { sum.min(c) };
            (if clamp { value.max(0) } else { value }) as u32 & 0xffff
        };
        after.v[16][lane] = half(0) | half(16) << 16;
    }
    Case::new(format!("v_pk_add_{name} v16, v0, v4, v8{}", if clamp { " clamp" } else { "" }), before, after)
}

/// Rounding by chance: up if the random bits and those that are cut off carry. The second number of a pair has the
/// generator's next one.
fn pair_by_chance(machine: Machine, lost: u32, format: Format, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let normal = |random: &mut Random| random.next() & 0x807f_ffff | (120 + random.below(8)) << 23;
    for lane in before.lanes() {
        (before.v[0][lane], before.v[4][lane]) = (normal(random), normal(random));
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let seed = before.v[8][lane];
        let half = |bits: u32, random: u32| {
            let carries = (bits & ((1 << lost) - 1)) + (random >> (32 - lost)) >= 1 << lost;
            let cut = format.truncate(F32.get(bits.into()));
            // The next code is the next number away from zero.
            cut as u32 + u32::from(carries)
        };
        after.v[16][lane] = half(before.v[0][lane], seed << 16) | half(before.v[4][lane], seed & 0xffff_0000) << 16;
    }
    let name = if format == BF16 { "bf16" } else { "f16" };
    Case::new(format!("v_cvt_sr_pk_{name}_f32 v16, v0, v4, v8"), before, after)
}

/// An f16 rounded by chance to a byte.
fn half_by_chance(machine: Machine, mantissa: u32, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let byte = random.below(4);
    for lane in before.lanes() {
        before.v[0][lane] = random.next() & 0x83ff_ffff | (12 + random.below(8)) << 26;
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let bits = before.v[0][lane] >> 16;
        // The lost ones of ten bits of mantissa, beside as many random bits.
        let lost = 10 - mantissa;
        let carries = (bits & ((1 << lost) - 1)) + (before.v[4][lane] >> (32 - lost)) >= 1 << lost;
        let kept = F16.get(u64::from(bits >> lost << lost));
        let step = F16.get(u64::from((bits >> lost) + 1) << lost);
        let code = to_small_float(if carries { step } else { kept }, mantissa, true) as u32;
        let word = before.v[16][lane];
        after.v[16][lane] = word & !(0xff << (8 * byte)) | code << (8 * byte);
    }
    let name = if mantissa == 3 { "fp8" } else { "bf8" };
    let select = if byte == 0 { String::new() } else { format!(" byte_sel:{byte}") };
    Case::new(format!("v_cvt_sr_{name}_f16 v16, v0.h, v4{select}"), before, after)
}

/// A byte that is a float, to either half of a register.
fn byte_to_half(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let byte = random.below(4);
    let (name, mantissa) = if random.one_in(2) { ("fp8", 3) } else { ("bf8", 2) };
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let value = F16.round(small_float((before.v[0][lane] >> (8 * byte)) as u8, mantissa, true)) as u32;
        after.v[16][lane] = before.v[16][lane] & 0xffff | value << 16;
    }
    let mut case = Case::new(format!("v_cvt_f16_{name}_e64 v16.h, v0 byte_sel:{byte}"), before, after);
    case.floats.push((16, Float::F16(2)));
    case
}

/// Extremes of integers are the second of two.
fn extremes(machine: Machine, random: &mut Random) -> Case {
    let name = if random.one_in(2) { "max" } else { "min" };
    let before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let (x, y) = (before.v[5][lane] as i32, before.v[7][lane] as i32);
        after.v[4][lane] = before.v[6][lane];
        after.v[9][lane] = if name == "max" { x.max(y) } else { x.min(y) } as u32;
    }
    Case::new(format!("v_dual_mov_b32 v4, v6 :: v_dual_{name}_i32 v9, v5, v7"), before, after)
}

/// An operation on pairs of registers beside one on single ones, one of which is often among the pair's.
fn doubles(machine: Machine, op: &str, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    let number = |random: &mut Random| f64::from(random.next() as i32) / 1024.0;
    for (lane, first) in before.lanes().flat_map(|lane| [4, 8, 14].map(|first| (lane, first))) {
        before.set_v64(first, lane, number(random).to_bits());
    }
    // The other half reads the register that this one writes, or does not.
    let from = [18, 19, 31][random.below(3) as usize];
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let [a, b, c] = [4, 8, 14].map(|first| f64::from_bits(before.v64(first, lane)));
        let value = match op {
            "fma" => a.mul_add(-b, c),
            "add" => a - b,
            "mul" => a * -b,
            "max_num" => a.max(-b),
            _ => a.min(-b),
        };
        after.set_v64(18, lane, value.to_bits());
        after.v[21][lane] = before.v[from][lane];
    }
    let third = if op == "fma" { ", v[14:15]" } else { "" };
    let text = format!("v_dual_{op}_f64 v[18:19], v[4:5], -v[8:9]{third} :: v_dual_mov_b32 v21, v{from}");
    Case::new(text, before, after)
}

/// Each half writes a register that the other reads, one of them a pair of registers.
fn crossed(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    for lane in before.lanes() {
        before.set_v64(4, lane, f64::from(random.next() as i32).to_bits());
        before.set_v64(8, lane, f64::from(random.next() as i32).to_bits());
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let [a, b] = [4, 8].map(|first| f64::from_bits(before.v64(first, lane)));
        after.set_v64(18, lane, (a + b).to_bits());
        after.v[5][lane] = before.v[19][lane];
    }
    Case::new("v_dual_add_f64 v[18:19], v[4:5], v[8:9] :: v_dual_mov_b32 v5, v19", before, after)
}

/// Each bit of the result is an entry of a truth table (LLVM's `BITOP3`: bits 0xf0, 0xcc and 0xaa are the sources
/// themselves).
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

/// Literals of 64 bits.
fn literals(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let mut after = before.clone();
    after.set_s64(20, before.s64(22).wrapping_add(0x1122_3344_5566_7788));
    for lane in before.active_lanes() {
        after.set_v64(4, lane, 0x8877_6655_4433_2211);
    }
    let scalar = "s_add_nc_u64 s[20:21], s[22:23], 0x1122334455667788";
    Case::new(format!("{scalar}\nv_mov_b64 v[4:5], 0x8877665544332211"), before, after)
}

/// Initial registers of kernels: there are no clusters, and MODE states how accesses are repeated after page faults.
fn registers(machine: Machine, random: &mut Random) -> Vec<Case> {
    let before = State::random(machine, random);
    let mut after = before.clone();
    after.s[20] = 0;
    let cluster = Case::new("s_getreg_b32 s20, hwreg(HW_REG_IB_STS2, 6, 4)", before.clone(), after);
    let mut after = before.clone();
    after.mode |= 1 << 25;
    after.s[20] = 1;
    let set = "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 25, 1), 1";
    let replay = Case::new(format!("{set}\ns_getreg_b32 s20, hwreg(HW_REG_WAVE_MODE, 25, 1)"), before, after);
    vec![cluster, replay]
}
