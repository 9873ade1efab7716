// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for loads, stores and atomics of global memory and scratch.

use crate::effect::*;
use crate::machine::{Case, M0, Machine, format, implemented};
use crate::scalar_memory;
use random::Random;
use sim_isa::{Format, Op, Target};

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
        (true, Target::Gfx942 | Target::Gfx950) => " sc0",
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
                        cases.push(scalar_memory::updated(machine, op, turn, *returns, random));
                    }
                    Some(Format::Smem) if op.name().contains("_store_") => {
                        cases.push(scalar_memory::stores(machine, op, turn, random))
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
                        cases.push(scalar_memory::loaded(machine, op, turn, random))
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
    if machine.target == Target::Gfx950 {
        cases.extend([Op::BufferLoadB96, Op::BufferLoadB128].map(|op| to_lds(machine, op, 1, random)));
    }
    cases.extend(crate::typed::cases(machine, random));
    if machine.target == Target::Gfx1200 && !machine.wave64() {
        for op in [Op::GlobalLoadTrB64, Op::GlobalLoadTrB128] {
            cases.push(transposed(machine, op, random));
        }
    }
    cases
}

/// The loaded data goes to a dword of LDS for each lane, past M0 and the immediate offset.
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
        if moved.bytes > 4 {
            let (from, to) = (places[lane], 256 + immediate + moved.bytes * lane);
            after.lds[to..to + moved.bytes].copy_from_slice(&before.memory[from..from + moved.bytes]);
            continue;
        }
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

/// `scratch_*`: each lane's bytes are set, worked on, and read back.
fn scratch(machine: Machine, op: Op, turn: usize, random: &mut Random) -> Case {
    let mut before = state(machine, op, random);
    // gfx12's registers are signed: two cases have negative offsets, in lanes and in the scalar register.
    let signed = matches!(machine.target, Target::Gfx1200 | Target::Gfx1250);
    let immediate: i64 = [0, -16, if signed { 1024 } else { 16 }, if signed { 2048 } else { 32 }][turn];
    let scalar = turn == 3;
    before.s[OFFSET] = (80 - immediate) as u32;
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
    // Scratch returns the stored data.
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
