// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for what gfx1250 has and gfx1201 has not, or does otherwise (AMDGPUUsage, and what LLVM's `scale_offset` and signed offsets
//! of global accesses are made for).

use crate::llvm::Random;
use crate::machine::{Case, Float, Machine, State};
use sim_isa::Target;

/// SGPRs of a base address, and of an offset beside it.
const BASE: usize = 40;
const OFFSET: usize = 42;
/// Bytes of memory.
const SIZE: usize = 4096;

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    if machine.target != Target::Gfx1250 {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for _ in 0..20 {
        cases.extend([fused(machine, random), exchanged(machine, random), chosen(machine, random)]);
        for (dwords, scaled) in [(1, false), (2, true), (3, true), (4, true), (4, false)] {
            cases.push(loaded(machine, dwords, scaled, random));
            cases.push(stored(machine, dwords, scaled, random));
        }
        cases.extend([scalar(machine, random), scratch(machine, random), tabled(machine, random)]);
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

/// Each bit of the result is an entry of a truth table (LLVM's `BITOP3`: bits 0xf0, 0xcc and 0xaa are the sources themselves).
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

/// What kernels begin with: there are no clusters, and how accesses are repeated after page faults is told to MODE.
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
