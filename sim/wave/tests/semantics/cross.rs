// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for data that crosses lanes or is chosen by register number: DPP, permutes, lane reads and writes, swaps,
//! relative moves.

use crate::machine::{Case, Float, M0, Machine, State, VCC};
use crate::num::F32;
use crate::reference::{self, In, wide};
use random::Random;
use sim_isa::{Op, Target};

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for _ in 0..12 {
        cases.extend(lane_reads(machine, random));
        cases.extend(permutes(machine, random));
        cases.extend(lds_crossings(machine, random));
        cases.extend(swaps_and_moves(machine, random));
    }
    for _ in 0..6 {
        if machine.before_gfx11() {
            cases.extend(short_dpp(machine, random));
            cases.extend(sub_dwords(machine, random));
        } else {
            cases.extend(dpp(machine, random));
        }
        if machine.gfx9() {
            cases.extend(indexed_moves(machine, random));
        }
    }
    cases
}

fn lane_reads(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut before = State::random(machine, random);
    if random.one_in(4) {
        before.exec = 0;
    }
    let mut after = before.clone();
    let first = if before.exec == 0 { 0 } else { before.exec.trailing_zeros() as usize };
    after.s[20] = before.v[3][first];
    cases.push(Case::new("v_readfirstlane_b32 s20, v3", before, after));

    // Only the lane number's low bits count, and EXEC does not.
    let before = State::random(machine, random);
    let mut after = before.clone();
    after.s[20] = before.v[3][before.s[21] as usize % machine.lanes];
    cases.push(Case::new("v_readlane_b32 s20, v3, s21", before.clone(), after));
    let mut after = before.clone();
    after.s[VCC] = before.v[3][9];
    cases.push(Case::new("v_readlane_b32 vcc_lo, v3, 9", before.clone(), after));
    let mut after = before.clone();
    // GFX9 reads one scalar register in an instruction.
    let data = if machine.gfx9() { 21 } else { 22 };
    after.v[16][before.s[21] as usize % machine.lanes] = before.s[data];
    cases.push(Case::new(format!("v_writelane_b32 v16, s{data}, s21"), before.clone(), after));
    let mut after = before.clone();
    after.v[16][machine.lanes - 1] = -9i32 as u32;
    cases.push(Case::new(format!("v_writelane_b32 v16, -9, {}", machine.lanes - 1), before, after));
    cases
}

fn permutes(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    if machine.gfx9() {
        return cases;
    }
    for (name, other_row) in [("v_permlane16_b32", 0), ("v_permlanex16_b32", 16)] {
        for (flags, fetch, zero) in [("", false, false), (" op_sel:[1,0]", true, false), (" op_sel:[0,1]", false, true)]
        {
            let before = State::random(machine, random);
            let selectors = before.s64(40);
            let mut after = before.clone();
            for lane in before.active_lanes() {
                let from = (lane & !15 | (selectors >> (4 * (lane % 16))) as usize & 15) ^ other_row;
                if fetch || before.active(from) {
                    after.v[16][lane] = before.v[3][from];
                } else if zero {
                    after.v[16][lane] = 0;
                }
            }
            cases.push(Case::new(format!("{name} v16, v3, s40, s41{flags}"), before, after));
        }
    }
    for (name, other_row) in [("v_permlane16_var_b32", 0), ("v_permlanex16_var_b32", 16)] {
        if !machine.has(Op::VPermlane16VarB32) {
            break;
        }
        for (flags, fetch, zero) in [("", false, false), (" op_sel:[1,0]", true, false), (" op_sel:[0,1]", false, true)]
        {
            let before = State::random(machine, random);
            let mut after = before.clone();
            for lane in before.active_lanes() {
                let from = (lane & !15 | before.v[4][lane] as usize & 15) ^ other_row;
                if fetch || before.active(from) {
                    after.v[16][lane] = before.v[3][from];
                } else if zero {
                    after.v[16][lane] = 0;
                }
            }
            cases.push(Case::new(format!("{name} v16, v3, v4{flags}"), before, after));
        }
    }
    if !machine.has(Op::VPermlane64B32) {
        return cases;
    }
    // It does nothing in wave32.
    let before = State::random(machine, random);
    let mut after = before.clone();
    for lane in before.active_lanes().filter(|_| machine.wave64()) {
        after.v[16][lane] = before.v[3][lane ^ 32];
    }
    cases.push(Case::new("v_permlane64_b32 v16, v3", before, after));
    cases
}

/// Applies `pick`, which tells each lane where it reads, to `ds_*` crossings; inactive lanes read as zero.
fn crossed(text: String, before: State, source: usize, pick: impl Fn(usize) -> usize) -> Case {
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let from = pick(lane);
        after.v[16][lane] = if before.active(from) { before.v[source][from] } else { 0 };
    }
    Case::new(text, before, after)
}

fn lds_crossings(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let before = State::random(machine, random);
    let offset = 4 * random.below(40) as usize;
    let addresses = before.v[3];
    let text = format!("ds_bpermute_b32 v16, v3, v4 offset:{offset}");
    // Not between the halves of a wave64 on gfx10 and gfx11.
    let target = |lane: usize| {
        let at = (addresses[lane] as usize + offset) / 4;
        if machine.gfx9() || machine.target.is_gfx12() { at % machine.lanes } else { lane & 32 | (at % 32) }
    };
    cases.push(crossed(text, before.clone(), 4, target));
    if machine.target.is_gfx12() {
        // From inactive lanes as well.
        let mut after = before.clone();
        for lane in before.active_lanes() {
            after.v[16][lane] = before.v[4][target(lane)];
        }
        cases.push(Case::new(format!("ds_bpermute_fi_b32 v16, v3, v4 offset:{offset}"), before.clone(), after));
    }

    let mut after = before.clone();
    let mut sent = [0; 64];
    for lane in before.active_lanes() {
        sent[target(lane)] = before.v[4][lane];
    }
    for lane in before.active_lanes() {
        after.v[16][lane] = sent[lane];
    }
    cases.push(Case::new(format!("ds_permute_b32 v16, v3, v4 offset:{offset}"), before.clone(), after));

    let (and, or, xor) = (random.below(32) as usize, random.below(32) as usize, random.below(32) as usize);
    let pattern = and | or << 5 | xor << 10;
    let text = format!("ds_swizzle_b32 v16, v3 offset:{pattern}");
    cases.push(crossed(text, before.clone(), 3, |lane| (lane & (32 | and) | or) ^ xor));
    let quad = random.below(256) as usize;
    let text = format!("ds_swizzle_b32 v16, v3 offset:{}", 0x8000 | quad);
    cases.push(crossed(text, before, 3, |lane| lane & !3 | quad >> (2 * (lane & 3)) & 3));
    cases
}

fn swaps_and_moves(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut before = State::random(machine, random);
    before.s[M0] = random.below(8);
    let m0 = before.s[M0] as usize;
    let mut push = |text: &str, change: &dyn Fn(&mut State, usize)| {
        let mut after = before.clone();
        for lane in before.active_lanes() {
            change(&mut after, lane);
        }
        cases.push(Case::new(text, before.clone(), after));
    };
    push("v_swap_b32 v3, v4", &|state, lane| {
        (state.v[3][lane], state.v[4][lane]) = (state.v[4][lane], state.v[3][lane]);
    });
    if machine.has(Op::VSwapB16) {
        push("v_swap_b16 v3.l, v4.h", &|state, lane| {
            let (a, b) = (state.v[3][lane], state.v[4][lane]);
            state.v[3][lane] = a & 0xffff_0000 | b >> 16;
            state.v[4][lane] = b & 0xffff | a << 16;
        });
    }
    if machine.has(Op::VMovrelsB32) {
        push("v_movrels_b32_e32 v16, v3", &|state, lane| state.v[16][lane] = state.v[3 + m0][lane]);
        push("v_movreld_b32_e32 v16, v3", &|state, lane| state.v[16 + m0][lane] = state.v[3][lane]);
        push("v_movrelsd_b32_e32 v16, v3", &|state, lane| state.v[16 + m0][lane] = state.v[3 + m0][lane]);
    }
    cases.extend(scalar_moves(before.clone()));
    if machine.has(Op::VSwaprelB32) {
        cases.extend(double_relative(before, random));
    }
    cases.push(masked_sums(machine, random));
    cases
}

/// Moves and exchanges with fields of M0 added to the numbers of both registers.
fn double_relative(mut before: State, random: &mut Random) -> Vec<Case> {
    let (from, to) = (random.below(8) as usize, random.below(8) as usize);
    before.s[M0] = (to << 16 | from) as u32;
    let mut moved = before.clone();
    let mut swapped = before.clone();
    for lane in before.active_lanes() {
        moved.v[16 + to][lane] = before.v[3 + from][lane];
        swapped.v[16 + to][lane] = before.v[3 + from][lane];
        swapped.v[3 + from][lane] = before.v[16 + to][lane];
    }
    let mut scalar = before.clone();
    scalar.s[20 + to] = before.s[40 + from];
    vec![
        Case::new("v_movrelsd_2_b32 v16, v3", before.clone(), moved),
        Case::new("v_swaprel_b32 v16, v3", before.clone(), swapped),
        Case::new("s_movrelsd_2_b32 s20, s40", before, scalar),
    ]
}

/// Differences from a window of bytes that slides, where the reference byte is not zero.
fn masked_sums(machine: Machine, random: &mut Random) -> Case {
    let mut before = State::random(machine, random);
    for lane in 0..64 {
        before.v[4][lane] &= [u32::MAX, 0xff00_ffff, 0xffff, 0][random.below(4) as usize];
    }
    let mut after = before.clone();
    for lane in before.active_lanes() {
        let bytes: Vec<u8> = [2, 3].iter().flat_map(|n| before.v[*n][lane].to_le_bytes()).collect();
        for n in 0..4 {
            let pairs = bytes[n..].iter().zip(before.v[4][lane].to_le_bytes());
            let sum: u32 = pairs.filter(|(_, mask)| *mask != 0).map(|(a, b)| u32::from(a.abs_diff(b))).sum();
            after.v[16 + n][lane] = before.v[8 + n][lane].wrapping_add(sum);
        }
    }
    Case::new("v_mqsad_u32_u8 v[16:19], v[2:3], v4, v[8:11]", before, after)
}

/// Scalar moves with M0 added to a register's number.
fn scalar_moves(mut before: State) -> Vec<Case> {
    let mut cases = Vec::new();
    before.s[M0] &= !1;
    let m0 = before.s[M0] as usize;
    let mut push = |text: &str, change: &dyn Fn(&mut State)| {
        let mut after = before.clone();
        change(&mut after);
        cases.push(Case::new(text, before.clone(), after));
    };
    push("s_movrels_b32 s20, s40", &|state| state.s[20] = state.s[40 + m0]);
    push("s_movrels_b64 s[20:21], s[40:41]", &|state| state.set_s64(20, state.s64(40 + m0)));
    push("s_movreld_b32 s20, s40", &|state| state.s[20 + m0] = state.s[40]);
    push("s_movreld_b64 s[20:21], s[40:41]", &|state| state.set_s64(20 + m0, state.s64(40)));
    cases
}

/// Where a lane reads under `control`, if that is in its row of 16.
fn row_lane(control: &str, lane: usize) -> Option<usize> {
    let (name, value) = control.split_once(':').unwrap_or((control, "0"));
    let (row, at) = (lane & !15, lane % 16);
    let n: usize = value.parse().unwrap_or(0);
    let from = match name {
        "quad_perm" => {
            let digits: Vec<usize> =
                value.trim_matches(['[', ']']).split(',').map(|digit| digit.parse().unwrap()).collect();
            at & !3 | digits[at & 3]
        }
        "row_shl" => at + n,
        "row_shr" => at.checked_sub(n)?,
        "row_ror" => (at + 16 - n) % 16,
        "wave_shl" => return Some(lane + 1).filter(|from| *from < 64),
        "wave_rol" => return Some((lane + 1) % 64),
        "wave_shr" => return lane.checked_sub(1),
        "wave_ror" => return Some((lane + 63) % 64),
        // The last lane of the row before, or of the first half.
        "row_bcast" if value == "15" => return row.checked_sub(1),
        "row_bcast" => return (lane >= 32).then_some(31),
        "row_newbcast" => n,
        "row_mirror" => 15 - at,
        "row_half_mirror" => at ^ 7,
        "row_share" => n,
        "row_xmask" => at ^ n,
        other => panic!("control {other}"),
    };
    (from < 16).then_some(row | from)
}

fn dpp(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let controls = [
        "quad_perm:[1,0,3,2]",
        "quad_perm:[3,3,0,1]",
        "row_shl:1",
        "row_shl:15",
        "row_shr:1",
        "row_shr:8",
        "row_ror:4",
        "row_ror:15",
        "row_mirror",
        "row_half_mirror",
        "row_share:0",
        "row_share:13",
        "row_xmask:1",
        "row_xmask:10",
    ];
    for control in controls {
        let (rows, banks) = if random.one_in(2) { (15, 15) } else { (random.below(16), random.below(16)) };
        let (bound, fetch) = (random.one_in(2), random.one_in(2));
        let before = State::random(machine, random);
        let flags = format!(
            "{control} row_mask:{rows:#x} bank_mask:{banks:#x}{}{}",
            if bound { " bound_ctrl:1" } else { "" },
            if fetch { " fi:1" } else { "" }
        );
        // Each written lane and its source; `None` reads zero.
        let lanes: Vec<(usize, Option<usize>)> = before
            .active_lanes()
            .filter(|lane| rows >> (lane / 16) & 1 != 0 && banks >> (lane % 16 / 4) & 1 != 0)
            .map(|lane| (lane, row_lane(control, lane).filter(|from| fetch || before.active(*from))))
            .filter(|(_, from)| bound || from.is_some())
            .collect();
        cases.extend(dpp_cases(machine, &before, &flags, &lanes));
    }
    // Within eight lanes.
    let before = State::random(machine, random);
    let picks: [usize; 8] = std::array::from_fn(|_| random.below(8) as usize);
    let fetch = random.one_in(2);
    let text: Vec<String> = picks.iter().map(usize::to_string).collect();
    let flags = format!("dpp8:[{}]{}", text.join(","), if fetch { " fi:1" } else { "" });
    let lanes: Vec<_> = before
        .active_lanes()
        .map(|lane| (lane, Some(lane & !7 | picks[lane & 7]).filter(|from| fetch || before.active(*from))))
        .collect();
    cases.extend(dpp_cases(machine, &before, &flags, &lanes));
    cases
}

/// The crossings of GFX9 and gfx10, in the short encodings that have them.
fn short_dpp(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut controls = vec![
        "quad_perm:[1,0,3,2]",
        "quad_perm:[3,3,0,1]",
        "row_shl:1",
        "row_shl:15",
        "row_shr:1",
        "row_shr:8",
        "row_ror:4",
        "row_mirror",
        "row_half_mirror",
    ];
    if machine.gfx9() {
        controls.extend(["wave_shl:1", "wave_rol:1", "wave_shr:1", "wave_ror:1", "row_bcast:15", "row_bcast:31"]);
    } else {
        controls.extend(["row_share:5", "row_xmask:9"]);
    }
    if machine.target.has_unified_registers() {
        controls.extend(["row_newbcast:0", "row_newbcast:13"]);
    }
    for control in controls {
        let (rows, banks) = if random.one_in(2) { (15, 15) } else { (random.below(16), random.below(16)) };
        let bound = random.one_in(2);
        let before = State::random(machine, random);
        let flags =
            format!("{control} row_mask:{rows:#x} bank_mask:{banks:#x}{}", if bound { " bound_ctrl:1" } else { "" });
        let lanes: Vec<(usize, Option<usize>)> = before
            .active_lanes()
            .filter(|lane| rows >> (lane / 16) & 1 != 0 && banks >> (lane % 16 / 4) & 1 != 0)
            .map(|lane| (lane, row_lane(control, lane).filter(|from| before.active(*from))))
            .filter(|(_, from)| bound || from.is_some())
            .collect();
        let crossed = |register: usize, from: Option<usize>| from.map_or(0, |from| before.v[register][from]);
        let mut with = |text: &str, change: &dyn Fn(&mut State, usize, Option<usize>)| {
            let mut after = before.clone();
            lanes.iter().for_each(|(lane, from)| change(&mut after, *lane, *from));
            cases.push(Case::new(format!("{text} {flags}"), before.clone(), after));
        };
        with("v_mov_b32_dpp v16, v3", &|state, lane, from| state.v[16][lane] = crossed(3, from));
        with(&format!("{}_dpp v3, v3, v4", Op::VAddNcU32.name_on(machine.target)), &|state, lane, from| {
            state.v[3][lane] = crossed(3, from).wrapping_add(before.v[4][lane]);
        });
        with("v_xor_b32_dpp v16, v3, v4", &|state, lane, from| {
            state.v[16][lane] = crossed(3, from) ^ before.v[4][lane];
        });
        if control.starts_with("row_newbcast") && machine.target.is_cdna3_or_later() {
            with("v_mov_b64_dpp v[16:17], v[2:3]", &|state, lane, from| {
                (state.v[16][lane], state.v[17][lane]) = (crossed(2, from), crossed(3, from));
            });
        }
    }
    cases
}

/// Bytes and words of registers as operands.
fn sub_dwords(machine: Machine, random: &mut Random) -> Vec<Case> {
    const PARTS: [(&str, u32, u32); 7] = [
        ("BYTE_0", 0, 8),
        ("BYTE_1", 8, 8),
        ("BYTE_2", 16, 8),
        ("BYTE_3", 24, 8),
        ("WORD_0", 0, 16),
        ("WORD_1", 16, 16),
        ("DWORD", 0, 32),
    ];
    const UNUSED: [&str; 3] = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"];
    let read = |word: u32, (_, first, width): (&str, u32, u32), signed: bool| {
        wide(u64::from(word >> first), width, signed) as u64 & 0xffff_ffff
    };
    let mut cases = Vec::new();
    let ops = [
        (Op::VAddNcU32.name_on(machine.target), "v_add_nc_u32", 2),
        ("v_mul_u32_u24", "v_mul_u32_u24", 2),
        ("v_lshlrev_b32", "v_lshlrev_b32", 2),
        ("v_mul_lo_u16", "v_mul_lo_u16", 2),
        ("v_not_b32", "v_not_b32", 1),
        ("v_cvt_f32_f16", "v_cvt_f32_f16", 1),
        ("v_mov_b32", "v_mov_b32", 1),
    ];
    for (name, op, count) in ops {
        let float = name.contains("f16");
        let before = State::random(machine, random);
        let pick = |random: &mut Random| PARTS[random.below(7) as usize];
        let (to, unused) = (pick(random), UNUSED[random.below(3) as usize]);
        let mut from = [pick(random), pick(random)];
        if float {
            from[0] = PARTS[4 + random.below(2) as usize];
        }
        let signed = [random.one_in(3) && !float, random.one_in(3)];
        // One source may be a scalar.
        let scalar = random.one_in(4);
        let mut after = before.clone();
        for lane in before.active_lanes() {
            let first = if scalar { before.s[40] } else { before.v[3][lane] };
            let input = In {
                a: read(first, from[0], signed[0]),
                b: read(before.v[4][lane], from[1], signed[1]),
                ..In::default()
            };
            let value = reference::value(op, &input).unwrap().value as u32;
            let (_, start, width) = to;
            let mask = (u64::MAX >> (64 - width) << start) as u32;
            let placed = ((u64::from(value) << start) as u32) & mask;
            let above = !mask & !((1u64 << start) - 1) as u32;
            let sign = placed >> (start + width - 1) & 1 != 0;
            after.v[16][lane] = match unused {
                "UNUSED_PRESERVE" => before.v[16][lane] & !mask | placed,
                "UNUSED_SEXT" if sign => placed | above,
                _ => placed,
            };
        }
        let source = |at: usize, text: &str| if signed[at] { format!("sext({text})") } else { text.to_owned() };
        let mut operands = vec!["v16".to_owned(), source(0, if scalar { "s40" } else { "v3" })];
        let mut selects = format!("dst_sel:{} dst_unused:{unused} src0_sel:{}", to.0, from[0].0);
        if count == 2 {
            operands.push(source(1, "v4"));
            selects += &format!(" src1_sel:{}", from[1].0);
        }
        let mut case = Case::new(format!("{name}_sdwa {} {selects}", operands.join(", ")), before, after);
        if float && to.0 == "DWORD" {
            case.floats.push((16, crate::machine::Float::F32));
        }
        // A NaN's bits are not defined, so that parts of one are not either.
        case.optional = true;
        if !float || to.0 == "DWORD" {
            cases.push(case);
        }
    }
    let before = State::random(machine, random);
    let (a, b) = (PARTS[random.below(7) as usize], PARTS[random.below(7) as usize]);
    let below = |lane: usize| read(before.v[3][lane], a, false) < read(before.v[4][lane], b, false);
    let mut after = before.clone();
    after.set_mask(20, before.active_lanes().map(|lane| u64::from(below(lane)) << lane).sum());
    let text = format!("v_cmp_lt_u32_sdwa {}, v3, v4 src0_sel:{} src1_sel:{}", machine.mask(20), a.0, b.0);
    cases.push(Case::new(text, before.clone(), after.clone()));
    if !machine.gfx9() {
        return cases;
    }
    // Compares that write EXEC write their destination too, which is VCC here.
    let mask = after.mask(20);
    let mut after = before.clone();
    after.set_mask(VCC, mask);
    after.exec = mask;
    let text = format!("v_cmpx_lt_u32_sdwa vcc, v3, v4 src0_sel:{} src1_sel:{}", a.0, b.0);
    cases.push(Case::new(text, before, after));
    cases
}

/// Moves between `s_set_gpr_idx_on` and `_off`.
fn indexed_moves(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut before = State::random(machine, random);
    before.s[40] = random.below(8);
    before.s[41] = random.below(8);
    let (index, next) = (before.s[40] as usize, before.s[41] as usize);
    let mut push = |text: &str, m0: u32, change: &dyn Fn(&mut State, usize)| {
        let mut after = before.clone();
        before.active_lanes().for_each(|lane| change(&mut after, lane));
        // The other bits of M0 stay.
        after.s[M0] = before.s[M0] & !0xf0ff | m0;
        cases.push(Case::new(text, before.clone(), after));
    };
    let text = "s_set_gpr_idx_on s40, gpr_idx(SRC0)\nv_mov_b32 v16, v3\ns_set_gpr_idx_off\nv_mov_b32 v17, v3";
    push(text, before.s[40] | 1 << 12, &|state, lane| {
        state.v[16][lane] = before.v[3 + index][lane];
        state.v[17][lane] = before.v[3][lane];
    });
    let text = "s_set_gpr_idx_on s40, gpr_idx(SRC0)\ns_set_gpr_idx_mode gpr_idx(DST)\ns_set_gpr_idx_idx s41\n\
                v_mov_b32 v16, v3\ns_set_gpr_idx_off";
    push(text, before.s[41] | 8 << 12, &|state, lane| state.v[16 + next][lane] = before.v[3][lane]);
    cases
}

/// Cases of one crossing, in ops of several encodings.
fn dpp_cases(machine: Machine, before: &State, flags: &str, lanes: &[(usize, Option<usize>)]) -> Vec<Case> {
    let crossed = |register: usize, from: Option<usize>| from.map_or(0, |from| before.v[register][from]);
    let with = |text: &str, change: &dyn Fn(&mut State, usize, u32)| {
        let mut after = before.clone();
        for (lane, from) in lanes {
            change(&mut after, *lane, crossed(3, *from));
        }
        Case::new(format!("{text} {flags}"), before.clone(), after)
    };
    let mut cases = vec![
        with("v_mov_b32_dpp v16, v3", &|state, lane, source| state.v[16][lane] = source),
        with("v_add_nc_u32_dpp v16, v3, v4", &|state, lane, source| {
            state.v[16][lane] = source.wrapping_add(before.v[4][lane]);
        }),
        with("v_xad_u32_e64_dpp v3, v3, v4, v5", &|state, lane, source| {
            state.v[3][lane] = (source ^ before.v[4][lane]).wrapping_add(before.v[5][lane]);
        }),
    ];
    // LLVM's feature `DPPSrc1SGPR`: source 1 of a long encoding is a scalar or a constant.
    if machine.target == Target::Gfx1150 || machine.target.is_gfx12() {
        cases.push(with("v_xad_u32_e64_dpp v16, v3, s40, v5", &|state, lane, source| {
            state.v[16][lane] = (source ^ before.s[40]).wrapping_add(before.v[5][lane]);
        }));
        cases.push(with("v_add_nc_u32_e64_dpp v16, v3, 7", &|state, lane, source| {
            state.v[16][lane] = source.wrapping_add(7);
        }));
        cases.push(with("v_mad_u32_u24_e64_dpp v16, v3, s40, s41", &|state, lane, source| {
            let product = (source & 0xff_ffff).wrapping_mul(before.s[40] & 0xff_ffff);
            state.v[16][lane] = product.wrapping_add(before.s[41]);
        }));
    }
    let mut max = with("v_max_f32_e64_dpp v16, -v3, |v4|", &|state, lane, source| {
        let (a, b) = (u64::from(source ^ 1 << 31), u64::from(before.v[4][lane] & !(1 << 31)));
        state.v[16][lane] = crate::num::extremum(F32, a, b, false, false) as u32;
    });
    (max.before.mode, max.after.mode) = (1 << 8, 1 << 8);
    max.before.mode |= 0xf0;
    max.after.mode |= 0xf0;
    max.floats.push((16, Float::F32));
    cases.push(max);
    // Lanes that are not written lose their bit, as inactive ones do.
    let mut compare = with(&format!("v_cmp_lt_u32 {}, v3, v4", machine.vcc()), &|_, _, _| {});
    let below = |(lane, from): &(usize, Option<usize>)| u64::from(crossed(3, *from) < before.v[4][*lane]) << lane;
    compare.after.set_mask(VCC, lanes.iter().map(below).sum());
    cases.push(compare);
    cases
}
