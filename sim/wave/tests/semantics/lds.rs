// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for LDS.

use crate::effect::*;
use crate::machine::{Case, M0, Machine, State, format, implemented};
use random::Random;
use sim_isa::{Format, Op, Ty};

/// Ops of global wave sync, which need a cooperative dispatch: `tests/launch` runs them.
pub const COOPERATIVE: [Op; 2] = [Op::DsGwsInit, Op::DsGwsBarrier];

/// All `ds_*` ops that touch LDS.
pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let crossing = ["ds_swizzle", "ds_permute", "ds_bpermute", "ds_nop"];
    for op in implemented(machine).filter(move |op| format(machine, *op) == Some(Format::Ds)) {
        if op.name().contains("_load_tr") || is_special(op) {
            continue;
        }
        if crossing.iter().any(|name| op.name().starts_with(name)) || COOPERATIVE.contains(&op) {
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
    special(machine, random, &mut cases);
    cases.extend(outside(machine, random));
    cases
}

/// Lanes whose addresses are beyond the group segment, or whose last byte is: they read zero, and write nothing.
fn outside(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut before = State::random(machine, random);
    before.lds = (0..4 * 64).map(|_| random.next() as u8).collect();
    let inside = |lane: usize| lane.is_multiple_of(3);
    for lane in 0..64 {
        before.v[0][lane] = [4 * lane as u32, 0x7fff_ffff, 4 * 64 - 3][lane % 3];
    }
    let name = |op: Op| op.name_on(machine.target);
    let word = |state: &State, lane: usize| u32::from_le_bytes(state.lds[4 * lane..][..4].try_into().unwrap());
    let (mut loaded, mut stored, mut added) = (before.clone(), before.clone(), before.clone());
    for lane in before.active_lanes() {
        loaded.v[2][lane] = if inside(lane) { word(&before, lane) } else { 0 };
        added.v[2][lane] = loaded.v[2][lane];
        if inside(lane) {
            stored.lds[4 * lane..][..4].copy_from_slice(&before.v[1][lane].to_le_bytes());
            let sum = word(&before, lane).wrapping_add(before.v[1][lane]);
            added.lds[4 * lane..][..4].copy_from_slice(&sum.to_le_bytes());
        }
    }
    vec![
        Case::new(format!("{} v2, v0", name(Op::DsLoadB32)), before.clone(), loaded),
        Case::new(format!("{} v0, v1", name(Op::DsStoreB32)), before.clone(), stored),
        Case::new(format!("{} v2, v0, v1", name(Op::DsAddRtnU32)), before, added),
    ]
}

/// True if the op's addresses are in M0, if it has two of them, or if it has one for an operand in LDS as well.
fn is_special(op: Op) -> bool {
    let kinds = ["_src2_", "storexchg_2addr", "addtid", "ds_append", "ds_consume", "condxchg", "_arrive_"];
    kinds.iter().any(|kind| op.name().contains(kind))
}

/// Ops whose addresses are not one to a lane.
fn special(machine: Machine, random: &mut Random, cases: &mut Vec<Case>) {
    let here = |op: &Op| format(machine, *op) == Some(Format::Ds) && is_special(*op);
    for op in implemented(machine).filter(here) {
        for turn in 0..4 {
            let (name, before) = (op.name(), state(machine, op, random));
            cases.push(match name {
                _ if name.contains("_src2_") => by_itself(machine, op, turn, before),
                _ if name.contains("2addr") => exchange(machine, op, turn, before),
                _ if name.contains("_arrive_") => arrival(machine, op, turn, before),
                _ if name.contains("condxchg") => conditional(machine, op, turn, before),
                _ => by_m0(machine, op, turn, before),
            });
        }
    }
}

/// One arrival of the wave at the barrier that its first active lane names. The state has the number of pending
/// arrivals less one in 29 bits, the phase in three bits, and the initial value of the pending count.
fn arrival(machine: Machine, op: Op, turn: usize, mut before: State) -> Case {
    // Pending, phase, all; number of arrivals; pending and phase afterwards.
    let ((pending, phase, all), count, (left, next)) =
        [((3, 0, 3), 1, (2, 0)), ((0, 2, 3), 1, (3, 1)), ((1, 0, 5), 2, (5, 7)), ((2, 5, 2), 8, (0, 3))][turn];
    let returns = op.info().dst != Ty::None;
    let (count, left, next) = match (returns, turn) {
        (false, 2) => (1, 0, 0),
        (false, 3) => (1, 1, 5),
        _ => (count, left, next),
    };
    let state = |pending: u64, phase: u64| pending | phase << 29 | all << 32;
    before.lds = vec![0; 64];
    before.lds[16..24].copy_from_slice(&state(pending, phase).to_le_bytes());
    before.exec |= 2;
    for lane in 0..64 {
        before.v[0][lane] = 8;
        before.set_v64(2, lane, count);
    }
    let mut after = before.clone();
    after.lds[16..24].copy_from_slice(&state(left, next).to_le_bytes());
    if returns {
        for lane in before.active_lanes() {
            after.set_v64(4, lane, state(pending, phase));
        }
    }
    let operands = if returns { "v[4:5], v0, v[2:3]" } else { "v0" };
    Case::new(format!("{} {operands} offset:8", op.name_on(machine.target)), before, after)
}

fn lds(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let info = op.info();
    let mut before = state(machine, op, random);
    match_memory(op, &mut before, |lane| (true, place(lane, turn)), random);
    // The last one makes the address register negative: sums wrap around.
    let immediate = [0u32, 16, 512, 240, 0xfff0][turn];
    for lane in 0..64 {
        before.v[0][lane] = (place(lane, turn) as u32).wrapping_sub(immediate);
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
    let places =
        |lane: usize| [first, second].map(|offset| pair_start(lane, turn, 64, step).wrapping_add(offset * step));
    for lane in 0..64 {
        before.v[0][lane] = pair_start(lane, turn, 64, step) as u32;
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
        for (n, at) in places(lane).into_iter().enumerate() {
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

/// The address that a lane adds the offsets of its two elements to. In the fourth turn, whose first offset is one step,
/// it is negative for the first of the lanes: the sums wrap around.
fn pair_start(lane: usize, turn: usize, apart: usize, step: usize) -> usize {
    let start = apart * ((lane * 5 + turn) % 32);
    if turn == 3 { start.wrapping_sub(step) } else { start }
}

fn word(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// The other operand is some dwords away, before or after.
fn by_itself(machine: Machine, op: Op, turn: usize, mut before: State) -> Case {
    let size = if op.name().ends_with("64") { 8 } else { 4 };
    let distance: isize = [2, 6, -2, -4][turn];
    // The last time it is in the address.
    let own = turn == 3;
    for lane in 0..64 {
        before.v[0][lane] = place(lane, turn) as u32 | if own { (distance as u32) << 17 } else { 0 };
    }
    let mut after = before.clone();
    let plain = op.name().replace("_src2", "").replace("_store_", "_swap_");
    for lane in before.active_lanes() {
        let at = place(lane, turn);
        let other = word(&after.lds, at.wrapping_add_signed(4 * distance), size);
        let new = atomic(machine.target, &plain, word(&after.lds, at, size), other, 0);
        put(&mut after.lds, at, size, new);
    }
    let field = if own { 0x8000 } else { distance & 0x7fff };
    let text = format!("{} v0 offset:{field}", op.name_on(machine.target));
    Case::new(text, before, after)
}

/// Two elements are read, then written.
fn exchange(machine: Machine, op: Op, turn: usize, mut before: State) -> Case {
    let size = if op.name().ends_with("64") { 8 } else { 4 };
    let step = if op.name().contains("stride64") { 64 * size } else { size };
    let (first, second) = [(0, 1), (2, 5), (3, 1), (1, 4)][turn];
    let places =
        |lane: usize| [first, second].map(|offset| pair_start(lane, turn, 16, step).wrapping_add(offset * step));
    for lane in 0..64 {
        before.v[0][lane] = pair_start(lane, turn, 16, step) as u32;
    }
    let mut after = before.clone();
    let dwords = size / 4;
    for lane in before.active_lanes() {
        let places = places(lane);
        let old = places.map(|at| word(&after.lds, at, size));
        for (n, at) in places.into_iter().enumerate() {
            let data = [DATA, COMPARE][n];
            put(&mut after.lds, at, size, if size == 8 { before.v64(data, lane) } else { before.v[data][lane].into() });
            (0..dwords).for_each(|i| after.v[DST + n * dwords + i][lane] = (old[n] >> (32 * i)) as u32);
        }
    }
    let tuple = |first: usize, count: usize| match count {
        1 => format!("v{first}"),
        _ => format!("v[{first}:{}]", first + count - 1),
    };
    let (dst, data, data2) = (tuple(DST, 2 * dwords), tuple(DATA, dwords), tuple(COMPARE, dwords));
    let name = op.name_on(machine.target);
    Case::new(format!("{name} {dst}, v0, {data}, {data2} offset0:{first} offset1:{second}"), before, after)
}

/// Dwords whose data has the highest bit set are written, without it.
fn conditional(machine: Machine, op: Op, turn: usize, mut before: State) -> Case {
    for lane in 0..64 {
        before.v[0][lane] = place(lane, turn) as u32;
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        for n in 0..2 {
            let (at, data) = (place(lane, turn) + 8 + 4 * n, before.v[DATA + n][lane]);
            after.v[DST + n][lane] = word(&after.lds, at, 4) as u32;
            if data & 0x8000_0000 != 0 {
                put(&mut after.lds, at, 4, (data & 0x7fff_ffff).into());
            }
        }
    }
    // The lowest bits of the sum do not count.
    let text = format!("{} v[{DST}:{}], v0, v[{DATA}:{}] offset:13", op.name_on(machine.target), DST + 1, DATA + 1);
    Case::new(text, before, after)
}

/// M0 has the address: of a counter for all lanes, or of the first lane's dword.
fn by_m0(machine: Machine, op: Op, turn: usize, mut before: State) -> Case {
    let immediate = [0, 16, 100, 256][turn];
    before.s[M0] = 64 + 4 * turn as u32;
    let at = before.s[M0] as usize + immediate;
    let mut after = before.clone();
    let active: Vec<usize> = before.active_lanes().collect();
    let old = word(&before.lds, at, 4) as u32;
    for lane in &active {
        match op {
            Op::DsAppend | Op::DsConsume => after.v[DST][*lane] = old,
            Op::DsLoadAddtidB32 => after.v[DST][*lane] = word(&before.lds, at + 4 * lane, 4) as u32,
            _ => put(&mut after.lds, at + 4 * lane, 4, before.v[DATA][*lane].into()),
        }
    }
    let count = active.len() as u32;
    match op {
        Op::DsAppend => put(&mut after.lds, at, 4, old.wrapping_add(count).into()),
        Op::DsConsume => put(&mut after.lds, at, 4, old.wrapping_sub(count).into()),
        _ => {}
    }
    let register = if op == Op::DsStoreAddtidB32 { DATA } else { DST };
    let offset = if immediate == 0 { String::new() } else { format!(" offset:{immediate}") };
    Case::new(format!("{} v{register}{offset}", op.name_on(machine.target)), before, after)
}
