// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Cases for branches, calls, MODE, and ops that change nothing a wave can see.

use crate::machine::{Case, M0, Machine, State, VCC, machine_code, run};
use random::Random;
use sim_isa::{Op, Target};
use sim_wave::{FaultKind, Jit};

/// Ops that do nothing here: waits (memory is never late), hints, cache and trace control.
const NOTHING: &[&str] = &[
    "s_nop 0",
    "s_nop 15",
    "s_sleep 3",
    "s_wakeup",
    "s_setprio 3",
    "s_incperflevel 1",
    "s_decperflevel 1",
    "s_ttracedata",
    "s_icache_inv",
    "s_dcache_inv",
    "v_nop",
    "ds_nop",
];

const NOTHING_ON_RDNA: &[&str] = &[
    "s_clause 0x2",
    "s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(TRANS32_DEP_1)",
    "s_wait_idle",
    "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)",
    "s_ttracedata_imm 0x1",
    "s_version 0x1",
    "s_round_mode 0x0",
    "v_pipeflush",
];

const NOTHING_ON_GFX10: &[&str] = &[
    "s_sendmsg sendmsg(MSG_INTERRUPT)",
    "s_wait_idle",
    "s_dcache_wb",
    "v_clrexcp",
    "s_clause 0x2",
    "s_inst_prefetch 0x1",
    "s_ttracedata_imm 0x1",
    "s_version 0x1",
    "s_round_mode 0x0",
    "v_pipeflush",
    "s_setreg_b32 hwreg(HW_REG_FLAT_SCR_LO), s20",
    "s_setreg_b32 hwreg(HW_REG_FLAT_SCR_HI), s20",
];

const NOTHING_ON_GFX9: &[&str] = &[
    "s_sendmsg sendmsg(MSG_INTERRUPT)",
    "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)",
    "s_barrier",
    "s_dcache_wb",
    "s_dcache_inv_vol",
    "s_dcache_wb_vol",
    "v_clrexcp",
    "s_cbranch_cdbgsys 1\ns_nop 1",
    "s_cbranch_cdbguser 1\ns_nop 1",
    "s_cbranch_cdbgsys_or_user 1\ns_nop 1",
    "s_cbranch_cdbgsys_and_user 1\ns_nop 1",
];

/// Cache control, and the targets of GFX9 that have it.
const CACHES_ON_GFX9: &[(&str, &[Target])] = &[
    ("buffer_wbinvl1", &[Target::Gfx900, Target::Gfx906, Target::Gfx908, Target::Gfx90a]),
    ("buffer_wbinvl1_vol", &[Target::Gfx900, Target::Gfx906, Target::Gfx908, Target::Gfx90a]),
    ("buffer_wbl2", &[Target::Gfx90a]),
    ("buffer_invl2", &[Target::Gfx90a]),
    ("buffer_wbl2 sc1", &[Target::Gfx942, Target::Gfx950]),
    ("buffer_inv sc0 sc1", &[Target::Gfx942, Target::Gfx950]),
];

const NOTHING_ON_GFX11: &[&str] = &[
    "s_set_inst_prefetch_distance 0x1",
    "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)",
    "s_waitcnt_depctr 0xfffe",
    "s_waitcnt_vscnt null, 0x0",
    "s_waitcnt_vmcnt null, 0x0",
    "s_waitcnt_expcnt null, 0x0",
    "s_waitcnt_lgkmcnt null, 0x0",
    "s_gl1_inv",
    "s_barrier",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    // No debugger is attached.
    "s_cbranch_cdbgsys 1\ns_nop 1",
    "s_cbranch_cdbguser 1\ns_nop 1",
    "s_cbranch_cdbgsys_or_user 1\ns_nop 1",
    "s_cbranch_cdbgsys_and_user 1\ns_nop 1",
];

const NOTHING_ON_GFX12: &[&str] = &[
    "s_wait_alu 0xfffe",
    "s_wait_loadcnt 0x0",
    "s_wait_storecnt 0x0",
    "s_wait_dscnt 0x0",
    "s_wait_kmcnt 0x0",
    "s_wait_loadcnt_dscnt 0x0",
    "s_wait_storecnt_dscnt 0x0",
    "s_sleep_var s20",
    "s_barrier_signal -1",
    "s_barrier_wait -1",
    "global_wb scope:SCOPE_DEV",
    "global_inv scope:SCOPE_SYS",
    "global_wbinv scope:SCOPE_SYS",
];

/// Prefetches and probes, which change nothing a kernel sees.
const HINTS: &[&str] = &[
    "s_prefetch_inst s[20:21], 0x0, s22, 7",
    "s_prefetch_inst_pc_rel 0x40, null, 7",
    "s_prefetch_data s[20:21], 0x40, null, 31",
    "s_prefetch_data_pc_rel 0x40, s22, 1",
    "s_buffer_prefetch_data s[20:23], 0x40, null, 1",
    "s_atc_probe 7, s[20:21], 0x40",
    "s_atc_probe_buffer 7, s[20:23], 0x40",
    "s_dcache_discard s[20:21], 0x40",
    "s_dcache_discard_x2 s[20:21], s22",
];

const NOTHING_ON_GFX1200: &[&str] =
    &["s_wait_samplecnt 0x0", "s_wait_bvhcnt 0x0", "s_wait_expcnt 0x0", "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)"];

const NOTHING_ON_GFX1250: &[&str] = &[
    "s_wait_xcnt 0x0",
    "s_wait_asynccnt 0x0",
    "s_wait_tensorcnt 0x0",
    "s_monitor_sleep 1",
    "s_setprio_inc_wg 1",
    "global_prefetch_b8 v0, s[20:21] scope:SCOPE_SE",
    "flat_prefetch_b8 v[0:1]",
    "s_wakeup_barrier 1",
    // There are no clusters, and the trap handler's barrier is not a kernel's.
    "s_barrier_signal -3",
    "s_barrier_wait -3",
    "s_barrier_signal -2",
    "s_barrier_wait -2",
    // Nor is barrier 0 one, nor are those that the kernel has not asked for.
    "s_barrier_signal 0",
    "s_barrier_wait 0",
    "s_barrier_init 9",
    "s_barrier_signal 9",
];

/// Ops that end the program with a fault, checked by [`faults`].
pub const FAULTING: [Op; 1] = [Op::STrap];

pub fn cases(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    let caches = CACHES_ON_GFX9.iter().filter(|(_, targets)| targets.contains(&machine.target)).map(|(text, _)| text);
    let others: [&[&str]; 3] = match machine.target {
        Target::Gfx1200 => [NOTHING_ON_RDNA, NOTHING_ON_GFX12, NOTHING_ON_GFX1200],
        Target::Gfx1250 => [NOTHING_ON_RDNA, NOTHING_ON_GFX12, NOTHING_ON_GFX1250],
        Target::Gfx11 | Target::Gfx1150 => [NOTHING_ON_RDNA, NOTHING_ON_GFX11, &[]],
        Target::Gfx1010 | Target::Gfx1030 => [NOTHING_ON_GFX10, NOTHING_ON_GFX11, &[]],
        _ => [NOTHING_ON_GFX9, &[], &[]],
    };
    for text in NOTHING.iter().chain(HINTS).chain(others.into_iter().flatten()).chain(caches) {
        let state = State::random(machine, random);
        let mut case = Case::new(*text, state.clone(), state);
        // Not every target has every debugging branch and cache.
        case.optional = machine.before_gfx11() || HINTS.contains(text);
        cases.push(case);
    }
    cases.extend(clocks(machine, random));
    if machine.target.is_gfx12() {
        // A single wave is no workgroup (RDNA4 ISA, S_BARRIER_SIGNAL_ISFIRST).
        let before = State::random(machine, random);
        let mut after = before.clone();
        after.scc = false;
        let text = "s_barrier_signal_isfirst -1\ns_barrier_wait -1\ns_barrier_signal_isfirst -1\ns_barrier_wait -1";
        cases.push(Case::new(text, before, after));
    }
    if machine.target == Target::Gfx1010 {
        let before = State::random(machine, random);
        let mut after = before.clone();
        after.s[20] = 0;
        cases.push(Case::new("s_get_waveid_in_workgroup s20", before, after));
    }
    if machine.target == Target::Gfx1250 {
        cases.extend(named_barriers(machine, random));
    }
    for _ in 0..8 {
        cases.extend(branches(machine, random));
        cases.extend(modes(machine, random));
    }
    cases.extend(calls(machine, random));
    cases
}

/// Clocks do not run backwards.
fn clocks(machine: Machine, random: &mut Random) -> Vec<Case> {
    const TIME: &str = ", sendmsg(MSG_RTN_GET_REALTIME)";
    let mut later = |name: &str, message: &str| {
        let before = State::random(machine, random);
        let mut after = before.clone();
        after.scc = true;
        for n in [20, 21, 22, 23] {
            after.s[n] = 0;
        }
        // The upper dwords are equal, the lower ones in order.
        let clear = "s_mov_b64 s[20:21], 0\ns_mov_b64 s[22:23], 0";
        let [first, second] = if name.ends_with("b32") { ["s20", "s22"] } else { ["s[20:21]", "s[22:23]"] };
        let text = format!("{name} {first}{message}\n{name} {second}{message}\ns_cmp_ge_u32 s22, s20\n{clear}");
        Case::new(text, before, after)
    };
    match machine.target {
        Target::Gfx11 | Target::Gfx1150 | Target::Gfx1200 | Target::Gfx1250 => {
            let mut cases = vec![later("s_sendmsg_rtn_b64", TIME), later("s_sendmsg_rtn_b32", TIME)];
            if machine.target == Target::Gfx1250 {
                cases.push(later("s_get_shader_cycles_u64", ""));
            }
            if machine.target.is_gfx12() {
                cases.push(later("s_getreg_b32", ", hwreg(HW_REG_SHADER_CYCLES_LO)"));
                cases.push(later("s_getreg_b32", ", hwreg(HW_REG_SHADER_CYCLES_HI)"));
            }
            cases
        }
        _ => vec![later("s_memtime", ""), later("s_memrealtime", "")],
    }
}

/// Named barriers as a single wave sees them. The state has 8 barriers, in fours from bit 24 on, signals from bit 16,
/// members from bit 4, and a valid bit (CDNA5 ISA 5.6.3).
fn named_barriers(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut before = State::random(machine, random);
    let mut case = |text: &str, m0: u32, scc: Option<bool>, states: &[u32]| {
        before.s[M0] = m0;
        let mut after = before.clone();
        after.scc = scc.unwrap_or(before.scc);
        after.s[20..20 + states.len()].copy_from_slice(states);
        Case::new(text, before.clone(), after)
    };
    let state = |signals: u32, members: u32| 2 << 24 | signals << 16 | members << 4 | 1;
    vec![
        // Three members, of which two signal; the third signal begins anew.
        case(
            "s_barrier_init m0\ns_barrier_signal 5\ns_get_barrier_state s20, 5\ns_barrier_signal m0\n\
             s_get_barrier_state s21, m0\ns_barrier_signal 5\ns_get_barrier_state s22, 5",
            3 << 16 | 5,
            None,
            &[state(1, 3), state(2, 3), state(0, 3)],
        ),
        // The first to signal is told, and the next round's.
        case("s_barrier_init m0\ns_barrier_signal_isfirst 2", 2 << 16 | 2, Some(true), &[]),
        case("s_barrier_init m0\ns_barrier_signal 2\ns_barrier_signal_isfirst 2", 2 << 16 | 2, Some(false), &[]),
        case(
            "s_barrier_init m0\ns_barrier_signal 2\ns_barrier_signal 2\ns_barrier_signal_isfirst 2",
            2 << 16 | 2,
            Some(true),
            &[],
        ),
        // Waves that leave no longer count as members. SCC tells the last member, and a wave that was none.
        case(
            "s_barrier_init m0\ns_barrier_signal 3\ns_barrier_join 3\ns_barrier_leave\ns_get_barrier_state s20, 3",
            2 << 16 | 3,
            Some(false),
            &[state(0, 1)],
        ),
        case(
            "s_barrier_init m0\ns_barrier_join m0\ns_barrier_leave\ns_get_barrier_state s20, 3",
            1 << 16 | 3,
            Some(true),
            &[state(0, 0)],
        ),
        case("s_barrier_leave", 0, Some(true), &[]),
        // A single wave has no barrier of the workgroup.
        case("s_get_barrier_state s20, -1", 0, None, &[2 << 24]),
        // There are eight.
        case("s_get_barrier_state s20, 9\ns_get_barrier_state s21, 0", 0, None, &[0, 0]),
    ]
}

/// Each branch over a marker, taken or not.
fn branches(machine: Machine, random: &mut Random) -> Vec<Case> {
    let mut before = State::random(machine, random);
    if random.one_in(2) {
        before.set_mask(VCC, 0);
    }
    if random.one_in(2) {
        before.exec = 0;
    }
    let conditions = [
        ("s_branch", true),
        ("s_cbranch_scc0", !before.scc),
        ("s_cbranch_scc1", before.scc),
        ("s_cbranch_vccz", before.mask(VCC) == 0),
        ("s_cbranch_vccnz", before.mask(VCC) != 0),
        ("s_cbranch_execz", before.exec == 0),
        ("s_cbranch_execnz", before.exec != 0),
    ];
    let mut cases = Vec::new();
    for (name, taken) in conditions {
        let mut after = before.clone();
        if !taken {
            after.s[20] = 1;
        }
        after.s[21] = 2;
        let text = format!("{name} 1\ns_mov_b32 s20, 1\ns_mov_b32 s21, 2");
        cases.push(Case::new(text, before.clone(), after));
    }
    // Backward: three turns.
    let mut after = before.clone();
    (after.s[20], after.s[21], after.scc) = (0, 3, false);
    let text = "s_mov_b32 s20, 3\ns_mov_b32 s21, 0\ns_addk_i32 s21, 0x1\ns_addk_i32 s20, 0xffff\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 65532";
    cases.push(Case::new(text, before.clone(), after));
    // Code behind the end is not run.
    cases.push(Case::new("s_endpgm\ns_mov_b32 s20, 1", before.clone(), before));
    cases
}

/// Denormal bits are 4 to 7 of MODE.
fn modes(machine: Machine, random: &mut Random) -> Vec<Case> {
    let before = State::random(machine, random);
    let mut cases = Vec::new();
    let bits = random.below(16);
    let mut after = before.clone();
    after.mode = before.mode & !0xf0 | bits << 4;
    if !machine.gfx9() {
        cases.push(Case::new(format!("s_denorm_mode {bits}"), before.clone(), after.clone()));
    }
    cases.push(Case::new(
        format!("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), {bits:#x}"),
        before.clone(),
        after.clone(),
    ));
    let mut with_register = before.clone();
    with_register.s[40] = bits | 0xabc0;
    after.s[40] = with_register.s[40];
    cases.push(Case::new("s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s40", with_register, after));
    // gfx1250 has upper bits of register numbers where others have modes of floats.
    let width = if machine.target == Target::Gfx1250 { 4 } else { 6 };
    let mut after = before.clone();
    after.s[20] = before.mode >> 4 & ((1 << width) - 1);
    cases.push(Case::new(format!("s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, {width})"), before, after));
    cases.extend(overflows(machine, random));
    cases
}

/// FP16_OVFL, which is bit 23 of MODE: results in f16 and in floats of eight bits are the greatest numbers where they
/// would overflow. Infinities stay infinite in f16, and become the greatest number in eight bits.
fn overflows(machine: Machine, random: &mut Random) -> Vec<Case> {
    const BIT: u32 = 1 << 23;
    // Numbers that overflow in f16 and in bf8, numbers that overflow in fp8, and others; in f32 and f16.
    let values = [1e6f32, -1e6, 65519.0, 500.0, -500.0, 300.0, 2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let mut before = State::random(machine, random);
    before.exec = u64::MAX >> (64 - machine.lanes);
    before.mode |= BIT;
    for lane in before.lanes() {
        before.v[1][lane] = values[lane % values.len()].to_bits();
        // 60000, infinity, 2 as f16 in both halves.
        before.v[3][lane] = [0x7b53_7b53, 0x7c00_7c00, 0x4000_4000][lane % 3];
    }
    let result = |text: &str, of: &dyn Fn(usize) -> u32| {
        let mut after = before.clone();
        before.lanes().for_each(|lane| after.v[2][lane] = of(lane));
        Case::new(text, before.clone(), after)
    };
    let value = |lane: usize| values[lane % values.len()];
    let nan_or = |lane: usize, nan: u32, code: u32| if value(lane).is_nan() { nan } else { code };
    let pair = |word: u32| word & 0xffff | word << 16;
    let mut cases = Vec::new();
    let half = |lane: usize| match lane % values.len() {
        0 | 2 => 0x7bff,
        1 => 0xfbff,
        3 => 0x5fd0,
        4 => 0xdfd0,
        5 => 0x5cb0,
        6 => 0x4000,
        7 => 0x7c00,
        8 => 0xfc00,
        _ => 0x7e00,
    };
    // 60000 + 60000; the upper half is another instruction's.
    let sum = |lane: usize| [0x7bff, 0x7c00, 0x4400][lane % 3];
    let half_of = |n: usize| if machine.before_gfx11() { format!("v{n}") } else { format!("v{n}.l") };
    let (low, two) = (half_of(2), half_of(3));
    cases.push(result(&format!("v_cvt_f16_f32 {low}, v1\nv_and_b32 v2, 0xffff, v2"), &half));
    cases.push(result("v_pk_add_f16 v2, v3, v3", &|lane| pair(sum(lane))));
    cases.push(result(&format!("v_add_f16 {low}, {two}, {two}\nv_and_b32 v2, 0xffff, v2"), &sum));
    let is_eight = machine.target.is_gfx12() || machine.target.is_cdna3_or_later();
    if !is_eight {
        return cases;
    }
    // The codes of 500, 300 and 2; then the greatest number and NaN.
    let codes = |lane: usize, [five, three, two, most, nan]: [u32; 5]| {
        let sign = if value(lane) < 0.0 { 0x80 } else { 0 };
        let code = match value(lane).abs() {
            500.0 => five,
            300.0 => three,
            2.0 => two,
            _ => most,
        };
        nan_or(lane, nan, code | sign)
    };
    let (fp8, bf8) = match machine.target {
        Target::Gfx942 => ([0x7f, 0x7f, 0x48, 0x7f, 0x80], [0x64, 0x61, 0x44, 0x7f, 0x80]),
        _ => ([0x7e, 0x79, 0x40, 0x7e, 0x7f], [0x60, 0x5d, 0x40, 0x7b, 0x7f]),
    };
    let both = |code: u32| code | code << 8;
    // bf8 rounds 65519 up beyond its greatest number, 57344.
    for (name, format) in [("fp8", fp8), ("bf8", bf8)] {
        let text = format!("v_cvt_pk_{name}_f32 {low}, v1, v1\nv_and_b32 v2, 0xffff, v2");
        cases.push(result(&text, &|lane| both(codes(lane, format))));
        let text = format!("v_mov_b32 v2, 0\nv_cvt_sr_{name}_f32 v2, v1, 0");
        // bf8 has 448 and 256 below 500 and 300, which are cut off.
        let cut = if name == "bf8" { [format[0] - 1, format[1] - 1, format[2], format[3], format[4]] } else { format };
        cases.push(result(&text, &|lane| codes(lane, cut)));
    }
    cases
}

/// Jumps by address. The code is at address 0.
fn calls(machine: Machine, random: &mut Random) -> Vec<Case> {
    let marks = "s_mov_b32 s22, 1\ns_mov_b32 s23, 2";
    let mut before = State::random(machine, random);
    let mut cases = Vec::new();
    let mut push = |text: &str, before: &State, change: &dyn Fn(&mut State)| {
        let mut after = before.clone();
        change(&mut after);
        cases.push(Case::new(format!("{text}\n{marks}"), before.clone(), after));
    };
    push("s_getpc_b64 s[20:21]", &before, &|state| {
        state.set_s64(20, 4);
        (state.s[22], state.s[23]) = (1, 2);
    });
    push("s_call_b64 s[20:21], 1", &before, &|state| {
        state.set_s64(20, 4);
        state.s[23] = 2;
    });
    if machine.target == Target::Gfx1250 {
        // Over the first mark, which the literal makes a dword longer.
        push("s_add_pc_i64 0x4", &before, &|state| state.s[23] = 2);
        let mut by_register = before.clone();
        by_register.set_s64(40, 4);
        push("s_add_pc_i64 s[40:41]", &by_register, &|state| state.s[23] = 2);
        by_register.set_s64(40, 0u64.wrapping_sub(8));
        push("s_branch 1\ns_branch 2\ns_add_pc_i64 s[40:41]\ns_nop 0", &by_register, &|state| {
            (state.s[22], state.s[23]) = (1, 2);
        });
    }
    before.set_s64(40, 8);
    push("s_setpc_b64 s[40:41]", &before, &|state| state.s[23] = 2);
    push("s_swappc_b64 s[20:21], s[40:41]", &before, &|state| {
        state.set_s64(20, 4);
        state.s[23] = 2;
    });
    // A literal that is, as an instruction, `s_set_gpr_idx_on s8, gpr_idx(DST)` or `s_set_vgpr_msb 0x41`: nothing comes
    // to it.
    let literal: u32 = if machine.target == Target::Gfx1250 { 0xbf86_0041 } else { 0xbf11_0808 };
    before.set_s64(40, 4);
    let text = format!("s_setpc_b64 s[40:41]\nv_mov_b32 v16, {literal:#x}\nv_mov_b32 v17, v3");
    push(&text, &before, &|state| {
        for lane in before.active_lanes() {
            (state.v[16][lane], state.v[17][lane]) = (literal, before.v[3][lane]);
        }
        (state.s[22], state.s[23]) = (1, 2);
    });
    if machine.target == Target::Gfx1250 {
        // Registers lead to no instruction between two settings of the bits.
        let lines = [
            "s_setpc_b64 s[40:41]",
            "s_set_vgpr_msb 0x40",
            "v_mov_b32 v20, v3",
            "s_set_vgpr_msb 1",
            "v_mov_b32 v16, v20",
            "s_set_vgpr_msb 0",
        ];
        push(&lines.join("\n"), &before, &|state| {
            for lane in before.active_lanes() {
                state.v[16][lane] = before.v[3][lane];
            }
            (state.s[22], state.s[23]) = (1, 2);
        });
    }
    // A subroutine that returns: call, mark, end; mark, return.
    let mut after = before.clone();
    after.set_s64(20, 4);
    (after.s[22], after.s[23]) = (1, 2);
    let text = "s_call_b64 s[20:21], 2\ns_mov_b32 s22, 1\ns_endpgm\ns_mov_b32 s23, 2\ns_setpc_b64 s[20:21]";
    cases.push(Case::new(text, before, after));
    cases
}

/// Programs that must fault, and how.
pub fn faults() {
    let mut random = Random(0xa3);
    let gfx11 = Machine { target: Target::Gfx11, lanes: 32 };
    let gfx12 = Machine { target: Target::Gfx1200, lanes: 32 };
    let mut state = State::random(gfx11, &mut random);
    state.set_s64(40, 0x1000);
    let fault_on = |machine: Machine, text: &str| {
        let case = Case::new(text, state.clone(), state.clone());
        let code = machine_code(machine, &[case]).remove(0).unwrap();
        run(machine, &mut state.clone(), &code, Some(Jit::CHECK)).unwrap_err()
    };
    let fault = |text: &str| fault_on(gfx11, text);
    for text in [
        "s_getreg_b32 s20, hwreg(HW_REG_WAVE_STATUS, 0, 20)",
        "s_barrier_init 1",
        "s_barrier_join 1",
        "s_barrier_leave",
        "s_barrier_signal 1",
        "s_barrier_signal -3",
        "s_barrier_wait 1",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0x1",
    ] {
        assert!(matches!(fault_on(gfx12, text), FaultKind::NotImplemented(_)), "{text}");
    }
    let gfx1250 = Machine { target: Target::Gfx1250, lanes: 32 };
    for text in [
        "s_getreg_b32 s20, hwreg(HW_REG_IB_STS2, 0, 4)",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 8), 0x1",
        "v_cvt_scale_pk8_f32_fp8 v[0:7], v[8:9], v10 scale_sel:1",
        "v_cvt_scale_pk8_f32_fp4 v[0:7], v8, v10 scale_sel:1",
        "v_swmmac_bf16f32_16x16x64_bf16 v[24:31], v[0:7], v[8:23], v32",
        "v_swmmac_f32_16x16x64_f16 v[24:31], v[0:7], v[8:23], v32 index_key:1",
        "v_swmmac_i32_16x16x128_iu8 v[24:31], v[0:7], v[8:23], v[32:33] index_key:1",
        "v_wmma_ld_scale_paired_b32 v0, v1",
        "v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], v[8:23], v[24:39], 0, 1.0, v2",
    ] {
        assert!(matches!(fault_on(gfx1250, text), FaultKind::NotImplemented(_)), "{text}");
    }
    let refused = fault_on(gfx1250, "s_alloc_vgpr s4");
    assert!(matches!(&refused, FaultKind::NotImplemented(what) if what.contains("s_alloc_vgpr")), "{refused}");
    // Graphics is left out, but not without a name.
    for (target, lanes, text) in [
        (Target::Gfx906, 64, "image_load v0, v0, s[8:15] dmask:0x1 unorm"),
        (Target::Gfx908, 64, "exp mrt0 v0, v0, v0, v0"),
        (Target::Gfx1010, 32, "v_interp_p1_f32 v0, v0, attr0.x"),
        (Target::Gfx1030, 32, "image_bvh_intersect_ray v[4:7], v[9:19], s[4:7]"),
        (Target::Gfx11, 32, "image_sample v0, v[0:1], s[8:15], s[16:19] dmask:0x1 dim:SQ_RSRC_IMG_2D"),
        (Target::Gfx11, 32, "lds_param_load v0, attr0.x"),
        (Target::Gfx1200, 32, "image_load v0, v0, s[8:15] dmask:0x1 dim:SQ_RSRC_IMG_1D"),
        (Target::Gfx1200, 32, "image_sample v0, [v0, v1], s[8:15], s[16:19] dmask:0x1 dim:SQ_RSRC_IMG_2D"),
        (Target::Gfx1200, 32, "global_atomic_ordered_add_b64 v[0:1], v[0:1], v[2:3], off th:TH_ATOMIC_RETURN"),
    ] {
        let fault = fault_on(Machine { target, lanes }, text);
        let name = text.split(' ').next().unwrap();
        assert!(matches!(&fault, FaultKind::NotImplemented(what) if what.contains(name)), "{text}: {fault}");
    }
    assert_eq!(fault("s_trap 3"), FaultKind::Trap(3));
    assert_eq!(fault("s_setpc_b64 s[40:41]"), FaultKind::PcOutOfRange(0x1000));
    assert!(matches!(fault("s_round_mode 0x1"), FaultKind::NotImplemented(_)));
    assert!(matches!(fault("s_getreg_b32 s20, hwreg(HW_REG_GPR_ALLOC, 0, 32)"), FaultKind::NotImplemented(_)));
    assert!(matches!(fault("s_sethalt 1"), FaultKind::NotImplemented(_)));
    // Nothing is mapped at random addresses.
    assert!(matches!(fault("global_load_b32 v0, v[0:1], off"), FaultKind::MemoryViolation { .. }));
    assert!(matches!(fault("s_load_b32 s0, s[40:41], 0x0"), FaultKind::MemoryViolation { .. }));
    assert!(matches!(fault("scratch_load_b32 v0, v1, off"), FaultKind::ScratchOutOfBounds { .. }));
}
