// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for scalar loads, stores and atomics.

use crate::effect::*;
use crate::machine::{Case, Machine};
use random::Random;
use sim_isa::{Op, Target};

/// `s_load_*` and `s_buffer_load_*`.
pub fn loaded(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    let buffer = op.name().starts_with("s_buffer");
    let count = usize::from(op.info().dst.dwords(false));
    let immediate: i64 = if buffer { [0, 32, 64, 100][turn] } else { [0, -64, 1024, 4][turn] };
    let register = [0, 0, 128, 60][turn];
    before.s[OFFSET] = register as u32;
    before.set_s64(BASE, before.memory.as_ptr() as u64 + 256);
    // The buffer ends within the bytes that some of the loads read.
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

/// `s_atomic_*`, and `s_buffer_atomic_*` within a buffer and beyond it.
pub fn updated(machine: Machine, op: Op, turn: usize, returns: bool, random: &mut Random) -> Case {
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
pub fn stores(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
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
