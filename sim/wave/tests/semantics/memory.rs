// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for loads, stores and atomics of all memories.

use crate::machine::{Case, Float, M0, Machine, State, format, implemented};
use crate::num::{BF16, F16};
use random::Random;
use sim_isa::{Format, Op, Target, Ty};

/// Bytes of memory, LDS, or a lane's scratch that a case has.
const SIZE: usize = 4096;
pub const DATA: usize = 4;
pub const COMPARE: usize = 8;
pub const DST: usize = 16;
/// Scalar registers: address or buffer resource, and an offset.
const BASE: usize = 44;
const OFFSET: usize = 42;

/// Where the bytes are that a lane's access touches, and what it moves.
struct Moved {
    bytes: usize,
    signed: bool,
    /// Only half of the register: low or high.
    half: Option<bool>,
}

/// Reads a load's or store's type off its mnemonic.
fn moved(name: &str) -> Moved {
    let ty = name
        .split('_')
        .find(|part| part.len() >= 2 && "buif".contains(&part[..1]) && part[1..].parse::<usize>().is_ok());
    let ty = ty.unwrap_or_else(|| panic!("type of {name}"));
    let half = if name.contains("d16_hi") { Some(true) } else { name.contains("d16").then_some(false) };
    Moved { bytes: ty[1..].parse::<usize>().unwrap() / 8, signed: ty.starts_with('i'), half }
}

fn dwords(state: &State, first: usize, lane: usize, count: usize) -> Vec<u32> {
    (first..first + count).map(|n| state.v[n][lane]).collect()
}

/// What a load puts into a lane's registers.
fn load(name: &str, bytes: &[u8], state: &mut State, first: usize, lane: usize) {
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
fn stored(name: &str, data: &[u32]) -> Vec<u8> {
    let moved = moved(name);
    let shift = if moved.half == Some(true) { 16 } else { 0 };
    let first = (data[0] >> shift).to_le_bytes();
    let rest = data[1..].iter().flat_map(|dword| dword.to_le_bytes());
    first.into_iter().chain(rest).take(moved.bytes).collect()
}

/// The value an atomic leaves in memory. `data2` is what `cmpswap` and the like compare with.
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
fn effect(op: Op, bytes: &mut [u8], at: usize, before: &State, after: &mut State, lane: usize, returns: bool) {
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

/// Makes some lanes' operands equal to what memory holds, or near it, so that comparisons hold at times.
fn match_memory(op: Op, before: &mut State, bytes_at: impl Fn(usize) -> (bool, usize), random: &mut Random) {
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

fn data_text(op: Op, first: usize, ty: Ty) -> String {
    assert!(ty != Ty::None, "{} has no data", op.name());
    match ty.dwords(false) {
        1 => format!("v{first}"),
        n => format!("v[{first}:{}]", first + usize::from(n) - 1),
    }
}

/// Loads name their destination first, stores and atomics their data after the address; `returns` puts both.
fn operands(op: Op, address: &str, returns: bool) -> Vec<String> {
    let info = op.info();
    let is_load = op.name().contains("load");
    let mut items = Vec::new();
    if is_load || returns {
        items.push(data_text(op, DST, info.dst));
    }
    items.push(address.to_owned());
    if !is_load {
        items.push(data_text(op, DATA, info.src[1]));
    }
    items
}

/// How a returning atomic is asked for.
fn returned(machine: Machine, returns: bool) -> &'static str {
    match (returns, machine.target) {
        (false, _) => "",
        (true, Target::Gfx1200 | Target::Gfx1250) => " th:TH_ATOMIC_RETURN",
        (true, Target::Gfx942) => " sc0",
        (true, _) => " glc",
    }
}

fn is_atomic(op: Op) -> bool {
    op.name().contains("_atomic_")
}

/// Atomics are tried with and without return.
fn returning(machine: Machine, op: Op) -> &'static [bool] {
    match (is_atomic(op), op) {
        (
            true,
            Op::BufferAtomicAddF32 | Op::GlobalAtomicAddF32 | Op::BufferAtomicPkAddF16 | Op::GlobalAtomicPkAddF16,
        ) if machine.target == Target::Gfx908 => &[false],
        // Without return it has another encoding.
        (true, Op::GlobalAtomicCsubU32 | Op::BufferAtomicCsubU32) => &[true],
        (true, _) => &[false, true],
        _ => &[false],
    }
}

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    // Prefetches move nothing; those that transpose have cases of their own.
    let elsewhere = ["prefetch", "_load_tr", "_async_", "_format_", "_probe", "_discard"];
    let here = |op: &Op| !elsewhere.iter().any(|part| op.name().contains(part));
    for op in implemented(machine).filter(here) {
        for turn in 0..4 {
            for returns in returning(machine, op) {
                match format(machine, op) {
                    _ if op.name().contains("_addtid_") && format(machine, op) == Some(Format::Global) => {
                        cases.push(by_lane(machine, op, turn, random))
                    }
                    _ if op.name().ends_with("_block") => cases.push(block(machine, op, turn, random)),
                    Some(Format::Smem) if is_atomic(op) => {
                        cases.push(scalar_atomic(machine, op, turn, *returns, random));
                    }
                    Some(Format::Smem) if op.name().contains("_store_") => {
                        cases.push(scalar_store(machine, op, turn, random))
                    }
                    _ if op.name().contains("_lds_") => cases.push(to_lds(machine, op, turn, random)),
                    Some(Format::Global | Format::Flat) if !op.info().src.is_empty() => {
                        for scalar in [false, true] {
                            cases.extend(global(machine, op, turn, scalar, *returns, random));
                        }
                    }
                    Some(Format::Mubuf) if !op.info().src.is_empty() => {
                        for mode in 0..5 {
                            cases.push(buffer(machine, op, turn, mode, *returns, random));
                        }
                    }
                    Some(Format::Scratch) => cases.push(scratch(machine, op, turn, random)),
                    Some(Format::Smem) if !op.info().src.is_empty() => {
                        cases.push(scalar_load(machine, op, turn, random))
                    }
                    _ => {}
                }
            }
        }
    }
    if machine.gfx9() {
        for op in [Op::BufferLoadU8, Op::BufferLoadI8, Op::BufferLoadU16, Op::BufferLoadI16, Op::BufferLoadB32] {
            cases.push(to_lds(machine, op, 1, random));
        }
    }
    cases.extend(crate::typed::cases(machine, random));
    if machine.target == Target::Gfx1200 && !machine.wave64() {
        for op in [Op::GlobalLoadTrB64, Op::GlobalLoadTrB128] {
            cases.push(transposed(machine, op, random));
        }
    }
    cases
}

/// What is loaded goes to a dword of LDS for each lane, past M0 and the immediate offset.
fn to_lds(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let base = before.memory.as_ptr() as u64;
    let immediate = 16 * turn;
    before.s[M0] = 256;
    let name = op.name_on(machine.target);
    let (places, text): (Vec<usize>, String) = match format(machine, op).unwrap() {
        Format::Global => {
            for lane in 0..64 {
                before.v[0][lane] = place(lane, turn) as u32;
            }
            before.set_s64(BASE, base - immediate as u64);
            let text = format!("{name} v0, s[{BASE}:{}] offset:{immediate}", BASE + 1);
            ((0..64).map(|lane| place(lane, turn)).collect(), text)
        }
        Format::Mubuf => {
            for lane in 0..64 {
                before.v[0][lane] = place(lane, turn) as u32;
            }
            (before.s[BASE], before.s[BASE + 1]) = (base as u32, (base >> 32) as u32);
            (before.s[BASE + 2], before.s[BASE + 3]) = (SIZE as u32, 0x27 << 12);
            let text = format!("{name} v0, s[{BASE}:{}], 0 offen offset:{immediate} lds", BASE + 3);
            ((0..64).map(|lane| place(lane, turn) + immediate).collect(), text)
        }
        _ => {
            // From scratch: a dword that was put there.
            for lane in 0..64 {
                before.v[0][lane] = 16;
            }
            let text = format!("scratch_store_dword v0, v4, off offset:{immediate}\n{name} v0, off offset:{immediate}");
            (Vec::new(), text)
        }
    };
    let moved = moved(&op.name().replace("_lds", ""));
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let bytes = match places.get(lane) {
            Some(at) => before.memory[*at..*at + 4].to_vec(),
            None => before.v[DATA][lane].to_le_bytes().to_vec(),
        };
        let mut registers = before.clone();
        let name = format!("load_{}{}", if moved.signed { "i" } else { "u" }, 8 * moved.bytes).replace("u32", "b32");
        load(&name, &bytes, &mut registers, DST, lane);
        let at = 256 + immediate + 4 * lane;
        after.lds[at..at + 4].copy_from_slice(&registers.v[DST][lane].to_le_bytes());
    }
    Case::new(text, before, after)
}

/// A tile of 16×16 whose rows lanes load comes as its columns: lane *l* and the one 16 further have halves of row, then
/// of column, *l*.
fn transposed(machine: Machine, op: Op, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    before.exec = 0xffff_ffff;
    let base = before.memory.as_ptr() as u64;
    let size = if op == Op::GlobalLoadTrB64 { 1 } else { 2 };
    let at = |row: usize, column: usize| 512 + 96 * row + column * size;
    for lane in 0..32 {
        before.set_v64(0, lane, base + at(lane % 16, lane / 16 * 8) as u64);
    }
    let mut after = before.clone();
    for lane in 0..32 {
        let bytes: Vec<u8> =
            (0..8).flat_map(|n| before.memory[at(lane / 16 * 8 + n, lane % 16)..][..size].to_vec()).collect();
        for (n, dword) in bytes.chunks_exact(4).enumerate() {
            after.v[DST + n][lane] = u32::from_le_bytes(dword.try_into().unwrap());
        }
    }
    Case::new(format!("{} v[{DST}:{}], v[0:1], off", op.name(), DST + 2 * size - 1), before, after)
}

/// `global_*` and `flat_*`; with `scalar` an SGPR base and 32-bit offsets, or for flat the LDS aperture.
fn global(machine: Machine, op: Op, turn: usize, scalar: bool, returns: bool, random: &mut Random) -> Option<Case> {
    let flat = format(machine, op) == Some(Format::Flat);
    let mut before = state(machine, op, random);
    match_memory(op, &mut before, |lane| (flat && scalar, place(lane, turn)), random);
    // gfx10 has a bit less.
    let most = if machine.before_gfx11() && !machine.gfx9() { 2047 } else { 4095 };
    let immediate: i64 = if flat { [0, 4, most, 64][turn] } else { [0, -1 - most, most, 16][turn] };
    let base = before.memory.as_ptr() as u64;
    if scalar && !flat {
        before.set_s64(BASE, base.wrapping_sub(256).wrapping_add_signed(-immediate));
    }
    for lane in 0..64 {
        let at = place(lane, turn) as u64;
        let address = match (scalar, flat) {
            (false, _) => base.wrapping_add(at).wrapping_add_signed(-immediate),
            (true, false) => at + 256,
            (true, true) => at.wrapping_add_signed(-immediate) & 0xffff_ffff,
        };
        before.set_v64(0, lane, address);
    }
    let mut after = before.clone();
    let mut lines = Vec::new();
    let (address, base_text) = if scalar && !flat {
        ("v0", format!(", s[{BASE}:{}]", BASE + 1))
    } else {
        ("v[0:1]", if flat { String::new() } else { ", off".into() })
    };
    if scalar && flat {
        // Below the aperture's start an address is not LDS.
        if immediate > 512 {
            return None;
        }
        lines.push(format!("s_mov_b64 s[{BASE}:{}], src_shared_base", BASE + 1));
        lines.push(format!("v_mov_b32 v1, s{}", BASE + 1));
    }
    let glc = returned(machine, returns);
    let offset = if immediate == 0 { String::new() } else { format!(" offset:{immediate}") };
    lines.push(format!(
        "{} {}{base_text}{offset}{glc}",
        op.name_on(machine.target),
        operands(op, address, returns).join(", ")
    ));
    if scalar && flat {
        for n in [BASE, BASE + 1] {
            lines.push(format!("s_mov_b32 s{n}, {:#x}", before.s[n]));
        }
        lines.push("v_mov_b32 v1, 0".into());
    }
    for lane in before.active_lanes() {
        if scalar && flat {
            after.v[1][lane] = 0;
        }
        let mut bytes = std::mem::take(if scalar && flat { &mut after.lds } else { &mut after.memory });
        effect(op, &mut bytes, place(lane, turn), &before, &mut after, lane, returns);
        *(if scalar && flat { &mut after.lds } else { &mut after.memory }) = bytes;
    }
    Some(finished(op, lines.join("\n"), before, after))
}

/// `buffer_*` through a raw buffer (modes 0 to 2) or one with a stride, with lanes out of bounds. In mode 0 offsets of
/// lanes are negative: their sum with the immediate one wraps around before it is compared with the bounds (LLVM's
/// `splitBufferOffsets` relies on it).
fn buffer(machine: Machine, op: Op, turn: usize, mode: usize, returns: bool, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let (offen, idxen) = [(true, false), (false, false), (true, false), (false, true), (true, true)][mode];
    let stride: u64 = if idxen { 48 } else { 0 };
    let immediate = [0, 16, 4095, 32][turn] as u64;
    let soffset = if mode == 2 { 128u64 } else { 0 };
    before.s[OFFSET] = soffset as u32;
    // gfx1250 adds them in more bits.
    let wraps = mode == 0 && machine.target != Target::Gfx1250;
    // The buffer starts so that lane places come out right with the immediate offset.
    let start = before.memory.as_ptr() as u64 + 512 - soffset - if idxen || wraps { 0 } else { immediate };
    let records: u64 = match (idxen, wraps) {
        (true, _) => 28,
        (false, true) => 48 * 28,
        (false, false) => 48 * 28 + immediate,
    };
    before.s[BASE] = start as u32;
    before.s[BASE + 1] = (start >> 32) as u32 | (stride as u32) << 16;
    before.s[BASE + 2] = records as u32;
    // Index against records for strided buffers, raw bytes for others.
    // GFX9 chooses by the index alone.
    before.s[BASE + 3] = match (machine.gfx9(), idxen) {
        (true, _) => 0x27 << 12,
        (false, true) => 0x16 << 12 | 1 << 28,
        (false, false) => 0x16 << 12 | 3 << 28,
    };
    if machine.target == Target::Gfx1250 {
        resource1250(&mut before, start, records, stride);
    }
    let immediate = if idxen { immediate.min(16) } else { immediate };
    let slot = |lane: usize| (lane * 7 + turn) % 32;
    match_memory(op, &mut before, |lane| (false, place(lane, turn)), random);
    for lane in 0..64 {
        let at = slot(lane) as u32;
        (before.v[0][lane], before.v[1][lane]) = match (offen, idxen) {
            (true, true) => (at, 0),
            (_, true) => (at, before.v[1][lane]),
            _ if wraps => ((48 * at).wrapping_sub(immediate as u32), before.v[1][lane]),
            _ => (48 * at, before.v[1][lane]),
        };
    }
    let one_lane = !offen && !idxen;
    if one_lane {
        // All lanes have the same address: let one be active.
        before.exec = 1 << random.below(machine.lanes as u32);
    }
    let mut after = before.clone();
    let vaddr = match (offen, idxen) {
        (true, true) => "v[0:1]",
        (false, false) => "off",
        _ => "v0",
    };
    let mut text = format!(
        "{} {}, {vaddr}, s[{BASE}:{}], ",
        op.name_on(machine.target),
        operands(op, "", returns)[usize::from(!op.name().contains("load"))..].join(""),
        BASE + 3
    );
    if op.name().contains("load") {
        text = format!(
            "{} {}, {vaddr}, s[{BASE}:{}], ",
            op.name_on(machine.target),
            data_text(op, DST, op.info().dst),
            BASE + 3
        );
    } else if is_atomic(op) || op.name().contains("store") {
        text = format!(
            "{} {}, {vaddr}, s[{BASE}:{}], ",
            op.name_on(machine.target),
            data_text(op, DATA, op.info().src[1]),
            BASE + 3
        );
    }
    text += &if mode == 2 {
        format!("s{OFFSET}")
    } else if machine.target.is_gfx12() {
        "null".into()
    } else {
        "0".into()
    };
    for (set, flag) in [(idxen, " idxen"), (offen, " offen")] {
        text += if set { flag } else { "" };
    }
    if immediate != 0 {
        text += &format!(" offset:{immediate}");
    }
    text += returned(machine, returns);
    for lane in before.active_lanes() {
        let at = if one_lane { 0 } else { slot(lane) };
        let place = 512 + 48 * at + if idxen { immediate as usize } else { 0 };
        let mut result = after.clone();
        let mut bytes = std::mem::take(&mut after.memory);
        if at < 28 {
            effect(op, &mut bytes, place, &before, &mut result, lane, returns);
        } else {
            // Out of bounds: reads zero, writes nothing.
            let mut zeros = vec![0; 64];
            effect(op, &mut zeros, 0, &before, &mut result, lane, returns);
        }
        after.v = result.v;
        after.memory = bytes;
    }
    if returns {
        // The old value comes back in the data register.
        let count = usize::from(op.info().dst.dwords(false));
        for n in 0..count {
            for lane in before.active_lanes() {
                after.v[DATA + n][lane] = after.v[DST + n][lane];
                after.v[DST + n][lane] = before.v[DST + n][lane];
            }
        }
    }
    finished(op, text, before, after)
}

/// A resource of gfx1250: 57 bits of base, 45 of records, and the stride from bit 108 on.
fn resource1250(state: &mut State, base: u64, records: u64, stride: u64) {
    state.set_s64(BASE, base | records << 57);
    state.set_s64(BASE + 2, records >> 7 | stride << 44);
}

/// `scratch_*`: each lane's bytes are set, worked on, and read back.
fn scratch(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let immediate: i64 = [0, -16, 16, 32][turn];
    before.s[OFFSET] = 48;
    let scalar = turn == 3;
    for lane in 0..64 {
        before.v[0][lane] = (if scalar { 0 } else { 16 * (2 + (lane as i64 + turn as i64) % 4) - immediate }) as u32;
        before.v[1][lane] = if scalar { 80 } else { before.v[0][lane].wrapping_add(immediate as u32) };
    }
    let (vaddr, saddr) = if scalar { ("off", format!("s{OFFSET}")) } else { ("v0", "off".into()) };
    let fill = 20;
    let dump = 24;
    let text = format!(
        "{} v1, v[{fill}:{}], off\n{} {}, {saddr} offset:{immediate}\n{} v[{dump}:{}], v1, off",
        Op::ScratchStoreB128.name_on(machine.target),
        fill + 3,
        op.name_on(machine.target),
        operands(op, vaddr, false).join(", "),
        Op::ScratchLoadB128.name_on(machine.target),
        dump + 3,
    );
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let mut bytes: Vec<u8> = dwords(&before, fill, lane, 4).into_iter().flat_map(u32::to_le_bytes).collect();
        effect(op, &mut bytes, 0, &before, &mut after, lane, false);
        load("load_b128", &bytes, &mut after, dump, lane);
    }
    Case::new(text, before, after)
}

/// `s_load_*` and `s_buffer_load_*`.
fn scalar_load(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let buffer = op.name().starts_with("s_buffer");
    let count = usize::from(op.info().dst.dwords(false));
    let immediate: i64 = if buffer { [0, 32, 64, 100][turn] } else { [0, -64, 1024, 4][turn] };
    let register = [0, 0, 128, 60][turn];
    before.s[OFFSET] = register as u32;
    before.set_s64(BASE, before.memory.as_ptr() as u64 + 256);
    // The buffer ends within what some of the loads read.
    let records = if turn == 3 { 168 } else { 1024 };
    if buffer {
        (before.s[BASE + 2], before.s[BASE + 3]) =
            (records, if machine.gfx9() { 0x27 << 12 } else { 0x16 << 12 | 3 << 28 });
    }
    if buffer && machine.target == Target::Gfx1250 {
        let base = before.memory.as_ptr() as u64 + 256;
        resource1250(&mut before, base, records.into(), 0);
    }
    let mut after = before.clone();
    if moved(op.name()).bytes < 4 {
        let at = (256 + immediate + register) as usize;
        let mut registers = after.clone();
        load(op.name(), &before.memory[at..], &mut registers, 0, 0);
        after.s[64] = registers.v[0][0];
        return Case::new(scalar_text(machine, op, immediate, register), before, after);
    }
    for n in 0..count {
        let at = immediate + register + 4 * n as i64;
        let start = (256 + at) as usize;
        let bytes = before.memory[start..start + 4].try_into().unwrap();
        let outside = buffer && at + 4 > i64::from(records);
        after.s[64 + n] = if outside { 0 } else { u32::from_le_bytes(bytes) };
    }
    Case::new(scalar_text(machine, op, immediate, register), before, after)
}

/// Each lane has four bytes after a scalar address.
fn by_lane(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let immediate = [0, -64, 100, 4][turn];
    before.set_s64(BASE, before.memory.as_ptr() as u64 + 256);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let at = (256 + immediate) as usize + 4 * lane;
        if op == Op::GlobalLoadAddtidB32 {
            after.v[DST][lane] = u32::from_le_bytes(before.memory[at..at + 4].try_into().unwrap());
        } else {
            after.memory[at..at + 4].copy_from_slice(&before.v[DATA][lane].to_le_bytes());
        }
    }
    let register = if op == Op::GlobalLoadAddtidB32 { DST } else { DATA };
    let name = op.name_on(machine.target);
    Case::new(format!("{name} v{register}, s[{BASE}:{}] offset:{immediate}", BASE + 1), before, after)
}

/// Registers whose bits in M0 are set, in memory or scratch.
fn block(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let immediate = [0i64, 16, 32, 48][turn];
    let scratch = op.name().starts_with("scratch");
    let load = op.name().contains("load");
    before.s[M0] = random.next() & if scratch { 0xfff } else { u32::MAX };
    let base = before.memory.as_ptr() as u64;
    for lane in 0..64 {
        let address = base.wrapping_add(place(lane, turn) as u64).wrapping_add_signed(-immediate);
        before.set_v64(0, lane, if scratch { 64 } else { address });
    }
    let bits: Vec<usize> = (0..32).filter(|n| before.s[M0] >> n & 1 != 0).collect();
    let (dst, data) = (32, 16);
    let mut after = before.clone();
    let name = op.name_on(machine.target);
    let address = if scratch { "v0, off" } else { "v[0:1], off" };
    let offset = if immediate == 0 { String::new() } else { format!(" offset:{immediate}") };
    // Of scratch, what was stored comes back.
    let text = match (scratch, load) {
        (false, true) => format!("{name} v[{dst}:{}], {address}{offset}", dst + 31),
        (false, false) => format!("{name} {}, v[{data}:{}], off{offset}", "v[0:1]", data + 31),
        _ => format!(
            "scratch_store_block v0, v[{data}:{}], off{offset}\nscratch_load_block v[{dst}:{}], {address}{offset}",
            data + 31,
            dst + 31
        ),
    };
    for lane in before.active_lanes() {
        for n in &bits {
            let at = place(lane, turn) + 4 * n;
            match (scratch, load) {
                (true, _) => after.v[dst + n][lane] = before.v[data + n][lane],
                (false, true) => {
                    after.v[dst + n][lane] = u32::from_le_bytes(before.memory[at..at + 4].try_into().unwrap());
                }
                (false, false) => {}
            }
        }
    }
    if !scratch && !load {
        // Lanes' blocks overlap: registers go one by one, each of all lanes.
        for n in &bits {
            for lane in before.active_lanes() {
                let at = place(lane, turn) + 4 * n;
                after.memory[at..at + 4].copy_from_slice(&before.v[data + n][lane].to_le_bytes());
            }
        }
    }
    Case::new(text, before, after)
}

/// `s_atomic_*`, and `s_buffer_atomic_*` within a buffer and beyond it.
fn scalar_atomic(machine: Machine, op: Op, turn: usize, returns: bool, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let buffer = op.name().starts_with("s_buffer");
    let size = if op.name().ends_with("64") { 8 } else { 4 };
    let offset = [0, 64, 1024, 160][turn];
    before.set_s64(BASE, before.memory.as_ptr() as u64 + 256);
    if buffer {
        (before.s[BASE + 2], before.s[BASE + 3]) =
            (168, if machine.gfx9() { 0x27 << 12 } else { 0x16 << 12 | 3 << 28 });
    }
    let at = 256 + offset;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let old = word(&before.memory[at..at + size]);
    if random.one_in(2) && op.name().contains("cmpswap") {
        before.s[64 + size / 4] = old as u32;
        before.s[64 + size / 2 - 1] = (old >> (8 * (size - 4))) as u32;
    }
    let operand = |first: usize| if size == 8 { before.s64(first) } else { before.s[first].into() };
    let (data, compare) = (operand(64), operand(64 + size / 4));
    let inside = !buffer || offset + size <= 168;
    let mut after = before.clone();
    if inside {
        let new = atomic(machine.target, op.name(), old, data, compare);
        after.memory[at..at + size].copy_from_slice(&new.to_le_bytes()[..size]);
    }
    for n in (0..size / 4).filter(|_| returns) {
        after.s[64 + n] = if inside { (old >> (32 * n)) as u32 } else { 0 };
    }
    let count = usize::from(op.info().src[2].dwords(false));
    let registers = if count == 1 { "s64".into() } else { format!("s[64:{}]", 63 + count) };
    let base = format!("s[{BASE}:{}]", BASE + if buffer { 3 } else { 1 });
    let glc = if returns { " glc" } else { "" };
    Case::new(format!("{} {registers}, {base}, {offset:#x}{glc}", op.name_on(machine.target)), before, after)
}

/// `s_store_*`, and `s_buffer_store_*` across a buffer's end.
fn scalar_store(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let buffer = op.name().starts_with("s_buffer");
    let count = usize::from(op.info().src[2].dwords(false));
    let offset = [0, 64, 1024, 160][turn];
    before.set_s64(BASE, before.memory.as_ptr() as u64 + 256);
    if buffer {
        (before.s[BASE + 2], before.s[BASE + 3]) =
            (168, if machine.gfx9() { 0x27 << 12 } else { 0x16 << 12 | 3 << 28 });
    }
    let mut after = before.clone();
    for n in (0..count).filter(|n| !buffer || offset + 4 * n + 4 <= 168) {
        let at = 256 + offset + 4 * n;
        after.memory[at..at + 4].copy_from_slice(&before.s[64 + n].to_le_bytes());
    }
    let data = if count == 1 { "s64".into() } else { format!("s[64:{}]", 63 + count) };
    let base = format!("s[{BASE}:{}]", BASE + if buffer { 3 } else { 1 });
    Case::new(format!("{} {data}, {base}, {offset:#x}", op.name_on(machine.target)), before, after)
}

fn scalar_text(machine: Machine, op: Op, immediate: i64, register: i64) -> String {
    let buffer = op.name().starts_with("s_buffer");
    let count = usize::from(op.info().dst.dwords(false));
    let dst = if count == 1 { "s64".into() } else { format!("s[64:{}]", 63 + count) };
    let base = format!("s[{BASE}:{}]", BASE + if buffer { 3 } else { 1 });
    let offset = if register == 0 { format!("{immediate:#x}") } else { format!("s{OFFSET} offset:{immediate:#x}") };
    let offset = offset.replace("0xffffffffffffffc0", "-0x40");
    format!("{} {dst}, {base}, {offset}", op.name_on(machine.target))
}

fn finished(op: Op, text: String, before: State, after: State) -> Case {
    let mut case = Case::new(text, before, after);
    if op.name().contains("_f32") {
        case.floats.push((DST, Float::F32));
    }
    case
}

/// `ds_*` ops that touch LDS at addresses of their own.
pub fn lds_cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let crossing = ["ds_swizzle", "ds_permute", "ds_bpermute", "ds_nop"];
    for op in implemented(machine).filter(move |op| format(machine, *op) == Some(Format::Ds)) {
        if op.name().contains("_load_tr") || crate::lds::is_here(op) {
            continue;
        }
        if crossing.iter().any(|name| op.name().starts_with(name)) {
            continue;
        }
        for turn in 0..5 {
            cases.push(if op.name().contains("_2addr_") {
                two_addresses(machine, op, turn, random)
            } else {
                lds(machine, op, turn, random)
            });
        }
    }
    cases.extend(crate::lds::cases(machine, random));
    cases
}

fn lds(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let info = op.info();
    let mut before = state(machine, op, random);
    match_memory(op, &mut before, |lane| (true, place(lane, turn)), random);
    let immediate = [0u32, 16, 512, 255, 256][turn] / 16 * 16;
    for lane in 0..64 {
        before.v[0][lane] = place(lane, turn) as u32 - immediate;
    }
    let mut after = before.clone();
    let mut items = Vec::new();
    if info.dst != Ty::None {
        items.push(data_text(op, DST, info.dst));
    }
    items.push("v0".to_owned());
    for (ty, first) in info.src[1..].iter().zip([DATA, COMPARE]) {
        items.push(data_text(op, first, *ty));
    }
    let offset = if immediate == 0 { String::new() } else { format!(" offset:{immediate}") };
    for lane in before.active_lanes() {
        let mut bytes = std::mem::take(&mut after.lds);
        effect(op, &mut bytes, place(lane, turn), &before, &mut after, lane, true);
        after.lds = bytes;
    }
    finished(op, format!("{} {}{offset}", op.name_on(machine.target), items.join(", ")), before, after)
}

/// Two elements at offsets counted in elements, or in 64 of them.
fn two_addresses(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let info = op.info();
    let mut before = state(machine, op, random);
    before.lds = (0..SIZE * 4).map(|_| random.next() as u8).collect();
    let size = if op.name().ends_with("64") { 8 } else { 4 };
    let step = size * if op.name().contains("stride64") { 64 } else { 1 };
    let (first, second) = [(0, 1), (2, 5), (3, 1), (1, 4), (6, 0)][turn];
    for lane in 0..64 {
        before.v[0][lane] = 64 * ((lane * 5 + turn) % 32) as u32;
    }
    let mut after = before.clone();
    let is_load = op.name().contains("load");
    let items = if is_load {
        format!("{}, v0", data_text(op, DST, info.dst))
    } else {
        format!("v0, {}, {}", data_text(op, DATA, info.src[1]), data_text(op, COMPARE, info.src[2]))
    };
    let text = format!("{} {items} offset0:{first} offset1:{second}", op.name_on(machine.target));
    for lane in before.active_lanes() {
        for (n, offset) in [first, second].into_iter().enumerate() {
            let at = before.v[0][lane] as usize + offset * step;
            if is_load {
                load(
                    if size == 8 { "load_b64" } else { "load_b32" },
                    &before.lds[at..],
                    &mut after,
                    DST + n * size / 4,
                    lane,
                );
            } else {
                let data = dwords(&before, [DATA, COMPARE][n], lane, 2);
                let bytes = stored(if size == 8 { "store_b64" } else { "store_b32" }, &data);
                after.lds[at..at + size].copy_from_slice(&bytes);
            }
        }
    }
    Case::new(text, before, after)
}
