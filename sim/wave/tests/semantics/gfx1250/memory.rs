// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Accesses to memory, LDS and scratch that gfx1250 has and gfx1201 has not, or makes otherwise.

use crate::machine::{Case, Machine, State};
use random::Random;

/// SGPRs of a base address, and of an offset beside it.
const BASE: usize = 40;
const OFFSET: usize = 42;
/// Bytes of memory.
const SIZE: usize = 4096;

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend([1, 4, 8, 16].map(|bytes| to_lds(machine, bytes, random)));
    cases.extend([1, 4, 8, 16].map(|bytes| from_lds(machine, bytes, random)));
    cases.extend([false, true].map(|local| transposed(machine, local, random)));
    cases.extend([flat(machine, random), beyond(machine, random)]);
    for (dwords, scaled) in [(1, false), (2, true), (3, true), (4, true), (4, false)] {
        cases.push(loaded(machine, dwords, scaled, random));
        cases.push(stored(machine, dwords, scaled, random));
    }
    cases.extend([scalar(machine, random), scratch(machine, random), flat_scratch(machine, random)]);
    cases
}

/// A state with memory, a base in its middle, and in v0 offsets of `unit` bytes to both sides of it, one for each lane.
fn around(machine: Machine, unit: usize, random: &mut Random) -> State {
    let mut before = State::random(machine, random);
    before.memory = (0..SIZE).map(|_| random.next() as u8).collect();
    before.set_s64(BASE, before.memory.as_ptr() as u64 + SIZE as u64 / 2);
    for lane in 0..machine.lanes {
        before.v[0][lane] = (unit as i32 * (lane as i32 * 3 - 48)) as u32;
    }
    before
}

/// Where a lane's offset leads to in memory, with 16 bytes of immediate offset.
fn place(before: &State, lane: usize, scale: usize) -> usize {
    (SIZE as i32 / 2 + before.v[0][lane] as i32 * scale as i32 + 16) as usize
}

fn suffix(dwords: usize, scaled: bool) -> (String, &'static str) {
    let data = if dwords == 1 { "v16".to_owned() } else { format!("v[16:{}]", 15 + dwords) };
    (data, if scaled { " scale_offset" } else { "" })
}

/// A load from a scalar base and an offset with a sign, in bytes or elements.
fn loaded(machine: Machine, dwords: usize, scaled: bool, random: &mut Random) -> Case {
    let (unit, scale) = if scaled { (1, 4 * dwords) } else { (4 * dwords, 1) };
    let before = around(machine, unit, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        for n in 0..dwords {
            let at = place(&before, lane, scale) + 4 * n;
            after.v[16 + n][lane] = u32::from_le_bytes(before.memory[at..at + 4].try_into().unwrap());
        }
    }
    let (data, scaled) = suffix(dwords, scaled);
    let text = format!("global_load_b{} {data}, v0, s[{BASE}:{}] offset:16{scaled}", 32 * dwords, BASE + 1);
    Case::new(text, before, after)
}

/// A store likewise.
fn stored(machine: Machine, dwords: usize, scaled: bool, random: &mut Random) -> Case {
    let (unit, scale) = if scaled { (1, 4 * dwords) } else { (4 * dwords, 1) };
    let before = around(machine, unit, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        for n in 0..dwords {
            let at = place(&before, lane, scale) + 4 * n;
            after.memory[at..at + 4].copy_from_slice(&before.v[16 + n][lane].to_le_bytes());
        }
    }
    let (data, scaled) = suffix(dwords, scaled);
    let text = format!("global_store_b{} v0, {data}, s[{BASE}:{}] offset:16{scaled} nv", 32 * dwords, BASE + 1);
    Case::new(text, before, after)
}

/// A scalar load of an element.
fn scalar(machine: Machine, random: &mut Random) -> Case {
    let mut before = around(machine, 4, random);
    before.s[OFFSET] = random.below(100);
    let mut after = before.clone();
    let at = SIZE / 2 + 8 + 8 * before.s[OFFSET] as usize;
    after.set_s64(64, u64::from_le_bytes(before.memory[at..at + 8].try_into().unwrap()));
    let text = format!("s_load_b64 s[64:65], s[{BASE}:{}], s{OFFSET} offset:0x8 scale_offset", BASE + 1);
    Case::new(text, before, after)
}

/// An element of scratch that is written by its number and read by its bytes.
fn scratch(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    for lane in before.lanes() {
        let element = random.below(16);
        (before.v[0][lane], before.v[1][lane]) = (element, 8 * element);
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        after.set_v64(20, lane, before.v64(16, lane));
    }
    let text = "scratch_store_b64 v0, v[16:17], off offset:8 scale_offset\nscratch_load_b64 v[20:21], v1, off offset:8";
    Case::new(text, before, after)
}

/// Private pointers as flat ones, by the instructions that LLVM makes of the conversion and of
/// `llvm.amdgcn.is.private`.
fn flat_scratch(machine: Machine, random: &mut Random) -> Case {
    let before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        (after.v[0][lane], after.v[1][lane]) = (0, 1);
        after.set_v64(20, lane, before.v64(16, lane));
    }
    let lines = [
        "v_mbcnt_lo_u32_b32 v1, -1, 0",
        "v_lshlrev_b32 v1, 20, v1",
        "v_mov_b32 v0, 24",
        "v_add_nc_u64 v[0:1], src_flat_scratch_base_lo, v[0:1]",
        "flat_store_b64 v[0:1], v[16:17]",
        "scratch_load_b32 v20, off, off offset:24",
        "flat_load_b32 v21, v[0:1] offset:4",
        "v_subrev_nc_u32 v0, 24, v0",
        "v_subrev_nc_u32 v0, src_flat_scratch_base_lo, v0",
        "v_xor_b32 v1, src_flat_scratch_base_hi, v1",
        "v_cmp_gt_u32 vcc_lo, 0x4000000, v1",
        "v_cndmask_b32 v1, 0, 1, vcc_lo",
    ];
    after.s[106] = before.active_lanes().map(|lane| 1 << lane).sum();
    Case::new(lines.join("\n"), before, after)
}

/// Bytes between memory and LDS without registers: the immediate offset counts on both sides. Addresses in v1 are those
/// in LDS.
fn around_lds(machine: Machine, bytes: usize, random: &mut Random) -> State {
    let mut before = around(machine, bytes, random);
    before.lds = (0..SIZE).map(|_| random.next() as u8).collect();
    for lane in before.lanes() {
        // The first sum wraps around.
        before.v[1][lane] = (32 * (lane as u32 * 5 % 32)).wrapping_sub(16);
    }
    // Nothing is accessed for a lane whose place in LDS is out of range.
    before.v[1][DROPPED] = 0x7fff_ffff;
    before.v[0][DROPPED] = 0x7000_0000;
    before
}

/// A lane that an access between memory and LDS drops.
const DROPPED: usize = 11;

fn to_lds(machine: Machine, bytes: usize, random: &mut Random) -> Case {
    let before = around_lds(machine, bytes, random);
    let mut after = before.clone();
    for lane in before.active_lanes().filter(|lane| *lane != DROPPED) {
        let (from, to) = (place(&before, lane, 1), before.v[1][lane].wrapping_add(16) as usize);
        after.lds[to..to + bytes].copy_from_slice(&before.memory[from..from + bytes]);
    }
    let kind = if random.one_in(2) { "global" } else { "cluster" };
    let base = format!("s[{BASE}:{}]", BASE + 1);
    Case::new(format!("{kind}_load_async_to_lds_b{} v1, v0, {base} offset:16", 8 * bytes), before, after)
}

fn from_lds(machine: Machine, bytes: usize, random: &mut Random) -> Case {
    let before = around_lds(machine, bytes, random);
    let mut after = before.clone();
    for lane in before.active_lanes().filter(|lane| *lane != DROPPED) {
        let (to, from) = (place(&before, lane, 1), before.v[1][lane].wrapping_add(16) as usize);
        after.memory[to..to + bytes].copy_from_slice(&before.lds[from..from + bytes]);
    }
    let base = format!("s[{BASE}:{}]", BASE + 1);
    Case::new(format!("global_store_async_from_lds_b{} v0, v1, {base} offset:16", 8 * bytes), before, after)
}

/// Eight lanes load eight rows and get eight columns, of memory or LDS.
fn transposed(machine: Machine, local: bool, random: &mut Random) -> Case {
    let mut before = around(machine, 16, random);
    before.exec = u64::MAX >> (64 - machine.lanes);
    before.lds = (0..SIZE).map(|_| random.next() as u8).collect();
    for lane in before.lanes().filter(|_| local) {
        before.v[0][lane] = 64 * (lane as u32 * 7 % 32);
    }
    let mut after = before.clone();
    for (lane, n) in before.lanes().flat_map(|lane| (0..8).map(move |n| (lane, n))) {
        let row = lane / 8 * 8 + n;
        let (bytes, at) = match local {
            true => (&before.lds, before.v[0][row] as usize + 16),
            false => (&before.memory, place(&before, row, 1)),
        };
        let at = at + 2 * (lane % 8);
        let value = u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let word = &mut after.v[16 + n / 2][lane];
        *word = if n % 2 == 0 { value } else { *word | value << 16 };
    }
    let text = match local {
        true => "ds_load_tr16_b128 v[16:19], v0 offset:16".to_owned(),
        false => format!("global_load_tr16_b128 v[16:19], v0, s[{BASE}:{}] offset:16", BASE + 1),
    };
    Case::new(text, before, after)
}

/// A flat access with a scalar base.
fn flat(machine: Machine, random: &mut Random) -> Case {
    let before = around(machine, 4, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let at = place(&before, lane, 1);
        after.v[16][lane] = u32::from_le_bytes(before.memory[at..at + 4].try_into().unwrap());
    }
    Case::new(format!("flat_load_b32 v16, v0, s[{BASE}:{}] offset:16", BASE + 1), before, after)
}

/// Registers from v256 on: addresses are source 0, stored data is source 1, and loaded data is the
/// destination.
fn beyond(machine: Machine, random: &mut Random) -> Case {
    let before = around(machine, 16, random);
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let at = place(&before, lane, 1);
        after.memory[at..at + 4].copy_from_slice(&before.v[4][lane].to_le_bytes());
        after.v[16][lane] = before.v[4][lane];
    }
    let base = format!("s[{BASE}:{}]", BASE + 1);
    let lines = [
        "s_set_vgpr_msb 0x40".to_owned(),
        "v_mov_b32 v20, v0".to_owned(),
        "v_mov_b32 v21, v4".to_owned(),
        "s_set_vgpr_msb 5".to_owned(),
        format!("global_store_b32 v20, v21, {base} offset:16"),
        "s_set_vgpr_msb 0x41".to_owned(),
        format!("global_load_b32 v22, v20, {base} offset:16"),
        "s_set_vgpr_msb 1".to_owned(),
        "v_mov_b32 v16, v22".to_owned(),
    ];
    Case::new(lines.join("\n"), before, after)
}
