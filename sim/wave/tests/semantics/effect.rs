// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Effects of memory ops on memory and registers, and initial states for their cases.

use crate::machine::{Case, Float, Machine, State};
use crate::num::{BF16, F16};
use random::Random;
use sim_isa::{Op, Target, Ty};

/// Bytes of memory, LDS, or a lane's scratch that a case has.
pub const SIZE: usize = 4096;
pub const DATA: usize = 4;
pub const COMPARE: usize = 8;
pub const DST: usize = 16;
/// Scalar registers: address or buffer resource, and an offset.
pub const BASE: usize = 44;
pub const OFFSET: usize = 42;

/// Bytes that a lane's access reads or writes, and the value that it moves.
pub struct Moved {
    pub bytes: usize,
    pub signed: bool,
    /// Only half of the register: low or high.
    pub half: Option<bool>,
}

/// Reads a load's or store's type off its mnemonic.
pub fn moved(name: &str) -> Moved {
    let ty = name
        .split('_')
        .find(|part| part.len() >= 2 && "buif".contains(&part[..1]) && part[1..].parse::<usize>().is_ok());
    let ty = ty.unwrap_or_else(|| panic!("type of {name}"));
    let half = if name.contains("d16_hi") { Some(true) } else { name.contains("d16").then_some(false) };
    Moved { bytes: ty[1..].parse::<usize>().unwrap() / 8, signed: ty.starts_with('i'), half }
}

pub fn dwords(state: &State, first: usize, lane: usize, count: usize) -> Vec<u32> {
    (first..first + count).map(|n| state.v[n][lane]).collect()
}

/// Writes a load's result to a lane's registers.
pub fn load(name: &str, bytes: &[u8], state: &mut State, first: usize, lane: usize) {
    let moved = moved(name);
    if moved.bytes >= 4 {
        for (at, dword) in bytes[..moved.bytes].chunks_exact(4).enumerate() {
            state.v[first + at][lane] = u32::from_le_bytes(dword.try_into().unwrap());
        }
        return;
    }
    let mut value = u32::from(bytes[0]) | if moved.bytes == 2 { u32::from(bytes[1]) << 8 } else { 0 };
    if moved.signed {
        let unused = 32 - 8 * moved.bytes;
        value = ((value << unused) as i32 >> unused) as u32;
    }
    let word = &mut state.v[first][lane];
    *word = match moved.half {
        None => value,
        Some(false) => *word & 0xffff_0000 | value & 0xffff,
        Some(true) => *word & 0xffff | value << 16,
    };
}

/// The bytes that a store writes.
pub fn stored(name: &str, data: &[u32]) -> Vec<u8> {
    let moved = moved(name);
    let shift = if moved.half == Some(true) { 16 } else { 0 };
    let first = (data[0] >> shift).to_le_bytes();
    let rest = data[1..].iter().flat_map(|dword| dword.to_le_bytes());
    first.into_iter().chain(rest).take(moved.bytes).collect()
}

/// The value an atomic leaves in memory. `data2` is the comparand of `cmpswap` and the like.
pub fn atomic(target: Target, name: &str, old: u64, data: u64, data2: u64) -> u64 {
    let stem = name.replace("_rtn", "");
    let (stem, ty) = stem.rsplit_once('_').unwrap();
    let op = stem.rsplit_once('_').unwrap().1;
    let mask = if ty.ends_with("64") { u64::MAX } else { 0xffff_ffff };
    let signed = |x: u64| if mask == u64::MAX { x as i64 } else { i64::from(x as u32 as i32) };
    let float = |x: u64| if ty == "f64" { f64::from_bits(x) } else { f64::from(f32::from_bits(x as u32)) };
    let result = match (op, &ty[..1]) {
        ("swap" | "storexchg", _) => data,
        ("cmpst", "f") => {
            if float(old) == float(data) {
                data2
            } else {
                old
            }
        }
        ("cmpst", _) => {
            if old == data {
                data2
            } else {
                old
            }
        }
        ("add", "f") if name.contains("pk_add") => {
            let format = if ty == "bf16" { BF16 } else { F16 };
            let half = |shift: u32| {
                let get = |x: u64| format.get(x >> shift & 0xffff);
                format.round(get(old) + get(data)) << shift
            };
            half(0) | half(16)
        }
        ("add", "b") => {
            let half =
                |shift: u32| BF16.round(BF16.get(old >> shift & 0xffff) + BF16.get(data >> shift & 0xffff)) << shift;
            half(0) | half(16)
        }
        ("add", "f") if ty == "f64" => (float(old) + float(data)).to_bits(),
        ("cmpswap" | "cmpstore", "f") if float(old) == float(data2) => data,
        ("cmpswap" | "cmpstore", "b") if old == data2 => data,
        ("cmpswap" | "cmpstore", _) => old,
        ("add", "f") => u64::from((float(old) as f32 + float(data) as f32).to_bits()),
        ("add", _) => old.wrapping_add(data),
        ("sub", _) if name.contains("cond_sub") => old.checked_sub(data).unwrap_or(old),
        ("sub", _) => old.wrapping_sub(data),
        ("rsub", _) => data.wrapping_sub(old),
        ("csub" | "clamp", _) => old.saturating_sub(data),
        ("min", "i") => {
            if signed(data) < signed(old) {
                data
            } else {
                old
            }
        }
        ("max", "i") => {
            if signed(data) > signed(old) {
                data
            } else {
                old
            }
        }
        ("min", "u") => data.min(old),
        ("max", "u") => data.max(old),
        // The number of a number and a NaN.
        ("min" | "max", "f") if target.is_gfx12() && float(data).is_nan() => old,
        ("min" | "max", "f") if target.is_gfx12() && float(old).is_nan() => data,
        ("min", "f") => {
            if float(data) < float(old) {
                data
            } else {
                old
            }
        }
        ("max", "f") => {
            if float(data) > float(old) {
                data
            } else {
                old
            }
        }
        ("and", _) => old & data,
        ("or", _) => old | data,
        ("xor", _) => old ^ data,
        ("inc", _) => {
            if old >= data {
                0
            } else {
                old + 1
            }
        }
        ("dec", _) => {
            if old == 0 || old > data {
                data
            } else {
                old - 1
            }
        }
        ("mskor", _) => old & !data | data2,
        ("wrap", _) => {
            if old >= data {
                old - data
            } else {
                old.wrapping_add(data2)
            }
        }
        other => panic!("atomic {other:?} of {name}"),
    };
    result & mask
}

/// The bytes a memory op works on, at `at`; then its effect on registers and bytes of one lane.
pub fn effect(op: Op, bytes: &mut [u8], at: usize, before: &State, after: &mut State, lane: usize, returns: bool) {
    let (name, info) = (op.name(), op.info());
    if name.contains("load") {
        load(name, &bytes[at..], after, DST, lane);
        return;
    }
    if name.contains("store_") && !name.contains("cmpstore") && !name.contains("atomic") {
        let written = stored(name, &dwords(before, DATA, lane, 4));
        bytes[at..at + written.len()].copy_from_slice(&written);
        return;
    }
    let wide = name.ends_with("64");
    let size = if wide { 8 } else { 4 };
    let value = |dwords: &[u32]| u64::from(dwords[0]) | if wide { u64::from(dwords[1]) << 32 } else { 0 };
    let data = dwords(before, DATA, lane, 4);
    // Vector memory has the value to compare after the new one, LDS in its second operand.
    let data2 = if name.starts_with("ds_") { dwords(before, COMPARE, lane, 2) } else { data[size / 4..].to_vec() };
    let mut old = [0; 8];
    old[..size].copy_from_slice(&bytes[at..at + size]);
    let old = u64::from_le_bytes(old);
    let new = atomic(before.target, name, old, value(&data), if data2.len() * 4 >= size { value(&data2) } else { 0 });
    bytes[at..at + size].copy_from_slice(&new.to_le_bytes()[..size]);
    if returns && info.dst != Ty::None {
        after.v[DST][lane] = old as u32;
        if wide {
            after.v[DST + 1][lane] = (old >> 32) as u32;
        }
    }
}

/// A state with memory and LDS, and data that atomics find interesting.
pub fn state(machine: Machine, op: Op, random: &mut Random) -> State {
    let mut state = State::random(machine, random);
    state.memory = (0..SIZE).map(|_| random.next() as u8).collect();
    state.lds = (0..SIZE).map(|_| random.next() as u8).collect();
    if op.name().contains("pk_add") {
        let format = if op.name().contains("bf16") { BF16 } else { F16 };
        let mut pair = || {
            let mut one = || format.round(f64::from(random.below(64) as i32 - 32)) as u32;
            one() | one() << 16
        };
        for at in (0..SIZE).step_by(4) {
            let bytes = pair().to_le_bytes();
            state.memory[at..at + 4].copy_from_slice(&bytes);
            state.lds[at..at + 4].copy_from_slice(&bytes);
        }
        state.v[DATA].iter_mut().for_each(|word| *word = pair());
    }
    if op.name().contains("_f32") || op.name().contains("_f64") {
        // Numbers, small ones: NaNs and rounding are not the point here.
        let wide = op.name().ends_with("64");
        let nans = op.name().contains("_min_") || op.name().contains("_max_");
        let number = |random: &mut Random| {
            let number = f64::from(random.below(64) as i32 - 32);
            if nans && random.one_in(8) { f64::NAN } else { number }
        };
        let step = if wide { 8 } else { 4 };
        for at in (0..SIZE).step_by(step) {
            let value = number(random);
            let bytes = if wide { value.to_le_bytes().to_vec() } else { (value as f32).to_le_bytes().to_vec() };
            state.memory[at..at + step].copy_from_slice(&bytes);
            state.lds[at..at + step].copy_from_slice(&bytes);
        }
        for lane in 0..64 {
            for n in [DATA, DATA + 2, COMPARE] {
                if wide {
                    state.set_v64(n, lane, number(random).to_bits());
                } else {
                    state.v[n][lane] = (number(random) as f32).to_bits();
                    state.v[n + 1][lane] = (number(random) as f32).to_bits();
                }
            }
        }
    }
    state
}

/// Makes some lanes' operands equal to the value in memory, or near it, so that comparisons hold at times.
pub fn match_memory(op: Op, before: &mut State, bytes_at: impl Fn(usize) -> (bool, usize), random: &mut Random) {
    let wide = op.name().ends_with("64");
    let cmp = if op.name().starts_with("ds_") { COMPARE } else { DATA + 1 + usize::from(wide) };
    for lane in 0..64 {
        let (lds, at) = bytes_at(lane);
        let bytes = if lds { &before.lds } else { &before.memory };
        let Some(bytes) = bytes.get(at..at + 8) else { continue };
        let value = u64::from_le_bytes(bytes.try_into().unwrap());
        let near = value.wrapping_add(u64::from(random.below(3))).wrapping_sub(1);
        let register = if random.one_in(2) { cmp } else { DATA };
        if random.one_in(2) && op.name().contains("cmp") {
            // GFX9's LDS has the value to compare first.
            let cmp = if op.name().contains("cmpst_") { DATA } else { cmp };
            before.v[cmp][lane] = value as u32;
            if wide {
                before.v[cmp + 1][lane] = (value >> 32) as u32;
            }
        } else if random.one_in(4) && !op.name().contains("_f") && !op.name().contains("pk_add") {
            before.v[register][lane] = near as u32;
            if wide {
                before.v[register + 1][lane] = (near >> 32) as u32;
            }
        }
    }
}

/// A lane's place among the bytes: its own, aligned for the widest access.
pub fn place(lane: usize, turn: usize) -> usize {
    512 + 48 * ((lane * 7 + turn) % 32)
}

pub fn data_text(op: Op, first: usize, ty: Ty) -> String {
    assert!(ty != Ty::None, "{} has no data", op.name());
    match ty.dwords(false) {
        1 => format!("v{first}"),
        n => format!("v[{first}:{}]", first + usize::from(n) - 1),
    }
}

/// A resource of gfx1250: 57 bits of base, 45 of records, and the stride from bit 108 on.
pub fn resource1250(state: &mut State, base: u64, records: u64, stride: u64) {
    state.set_s64(BASE, base | records << 57);
    state.set_s64(BASE + 2, records >> 7 | stride << 44);
}

pub fn finished(op: Op, text: String, before: State, after: State) -> Case {
    let mut case = Case::new(text, before, after);
    if op.name().contains("_f32") {
        case.floats.push((DST, Float::F32));
    }
    case
}
