// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hazards: instructions that need others between them. Lines with a `?` in a case are the needed ones. Without them,
//! or with fewer wait states than they have, the check must report the hazard; with them it must report nothing.

use super::{ONE_WAVE, With, run_with, target};

/// Findings in a kernel without active lanes: instruction and text of each.
fn found(cpu: &str, text: &str, wide: bool) -> Vec<(String, String)> {
    let wave64 = wide || target(cpu).is_gfx9();
    let exec = if wave64 { "s_mov_b64 exec, 0" } else { "s_mov_b32 exec_lo, 0" };
    // The wait states needed behind the write of EXEC are there.
    let text = format!("{exec}\ns_nop 7\n{text}\ns_endpgm");
    let with = With { items: if wave64 { 64 } else { 32 }, hazard: true, wide, ..ONE_WAVE };
    let (result, found, _) = run_with(cpu, &text, with);
    result.unwrap_or_else(|fault| panic!("{cpu}: {fault} in {text}"));
    assert!(found.iter().all(|(finding, _)| finding.check == "hazard"), "{found:?}");
    found.into_iter().map(|(finding, _)| (finding.line.text, finding.what)).collect()
}

/// Asserts that the lines with a `?` before the last line are needed, and that they suffice.
#[track_caller]
fn needs_wide(cpu: &str, text: &str, what: &str, wide: bool) {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let plain = |line: &str| line.trim_start_matches('?').trim().to_owned();
    let right: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    let kept = found(cpu, &right.join("\n"), wide);
    assert!(kept.is_empty(), "{cpu}: {kept:?} in {text}");
    let missed = |without: &[String]| {
        let found = found(cpu, &without.join("\n"), wide);
        let [(line, said)] = &found[..] else { panic!("{cpu}: found {found:?} in {without:?}") };
        let mnemonic = |line: &str| {
            let word = line.split(' ').next().unwrap();
            ["_e32", "_dpp"].into_iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
        };
        assert_eq!(mnemonic(line), mnemonic(right.last().unwrap()), "{cpu}: {said}");
        assert!(said.contains(what), "{cpu}: {said}");
    };
    let without: Vec<String> = lines.iter().filter(|line| !line.starts_with('?')).map(|line| plain(line)).collect();
    missed(&without);
    // One wait state is too few, too.
    for (at, line) in right.iter().enumerate() {
        if let Some(n) = line.strip_prefix("s_nop ").map(|n| n.parse::<u32>().unwrap()) {
            let mut fewer = right.clone();
            match n {
                0 => drop(fewer.remove(at)),
                n => fewer[at] = format!("s_nop {}", n - 1),
            }
            missed(&fewer);
        }
    }
}

#[track_caller]
fn needs(cpu: &str, text: &str, what: &str) {
    needs_wide(cpu, text, what, false);
}

#[test]
fn gfx9_leaves_wait_states_to_software() {
    for cpu in ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"] {
        needs(
            cpu,
            "v_readfirstlane_b32 s4, v0
             ? s_nop 4
             global_load_dword v2, v3, s[4:5]",
            "s[4:5] is written by vector arithmetic and read by a memory access: 5 wait states",
        );
        needs(
            cpu,
            "v_mov_b32_e32 v1, v0
             ? s_nop 1
             v_mov_b32_dpp v2, v1 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf",
            "read with DPP: 2 wait states",
        );
        needs(
            cpu,
            "v_cmpx_eq_u32_e64 s[4:5], v0, v1
             ? s_nop 4
             v_mov_b32_dpp v2, v5 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf",
            "exec is written by vector arithmetic before DPP: 5 wait states",
        );
        needs(
            cpu,
            "v_cmp_eq_u32_e32 vcc, v0, v1
             ? s_nop 3
             v_div_fmas_f32 v2, v3, v4, v5",
            "read by v_div_fmas: 4 wait states",
        );
        needs(
            cpu,
            "v_readfirstlane_b32 s4, v0
             ? s_nop 3
             v_readlane_b32 s6, v5, s4",
            "selects a lane: 4 wait states",
        );
        needs(
            cpu,
            "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0
             ? s_nop 1
             s_getreg_b32 s4, hwreg(HW_REG_MODE, 4, 4)",
            "hardware register 1 is set, and set or read again: 2 wait states",
        );
        needs(
            cpu,
            "s_mov_b32 m0, 0
             ? s_nop 0
             s_movrels_b32 s4, s6",
            "m0 is written, and read where nothing waits for it: 1 wait state is",
        );
        let wide = if is_late(cpu) { "? s_nop 1" } else { "? s_nop 0" };
        needs(
            cpu,
            &format!(
                "global_store_dwordx4 v[2:3], v[4:7], off
                 {wide}
                 v_mov_b32_e32 v5, v0"
            ),
            "v5 is stored with others",
        );
        // Hardware keeps 64 bits, and before gfx942 the data of a buffer access with its offset in a register.
        assert_eq!(found(cpu, "global_store_dwordx2 v[2:3], v[4:5], off\nv_mov_b32_e32 v5, v0", false), []);
        let offset = "buffer_store_dwordx4 v[4:7], v2, s[8:11], s4 offen\nv_mov_b32_e32 v5, v0";
        assert_eq!(found(cpu, offset, false).len(), usize::from(is_late(cpu)));
    }
}

#[test]
fn wait_states_are_those_that_a_wave_comes_through() {
    // Five instructions are five wait states, whatever they are; a branch is one.
    let text = |between: &str| format!("v_readfirstlane_b32 s4, v0\n{between}\nglobal_load_dword v2, v3, s[4:5]");
    let five = ["s_mov_b32 s6, 0"; 5].join("\n");
    assert_eq!(found("gfx90a", &text(&five), false), []);
    // The branch goes over two of them.
    let branch = format!("{}\ns_branch 2\ns_nop 7\ns_nop 7\ns_mov_b32 s6, 0", ["s_mov_b32 s6, 0"; 2].join("\n"));
    let found_behind = found("gfx90a", &text(&branch), false);
    assert_eq!(found_behind.len(), 1);
    assert!(found_behind[0].1.ends_with("and there are 4"), "{found_behind:?}");
}

/// True for CDNA3 and CDNA4.
fn is_late(cpu: &str) -> bool {
    matches!(cpu, "gfx942" | "gfx950")
}

#[test]
fn gfx942_and_gfx950_forward_less() {
    ["gfx942", "gfx950"].into_iter().for_each(forwards_less);
}

fn forwards_less(cpu: &str) {
    needs(
        cpu,
        "v_rcp_f32_e32 v1, v0
         ? s_nop 0
         v_add_f32_e32 v2, v1, v0",
        "v1 is written by a transcendental and read by another op: 1 wait state is",
    );
    assert_eq!(found(cpu, "v_rcp_f32_e32 v1, v0\nv_rcp_f32_e32 v2, v1", false), []);
    needs(
        cpu,
        "v_mov_b32_sdwa v1, v0 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD
         ? s_nop 0
         v_add_f32_e32 v2, v1, v0",
        "v1 is written in part, with bits moved, and read: 1 wait state is",
    );
    needs(
        cpu,
        "v_readfirstlane_b32 s4, v0
         ? s_nop 1
         v_add_f32_e32 v2, s4, v0",
        "s4 is written by vector arithmetic and read by vector arithmetic: 2 wait states",
    );
    needs(
        cpu,
        "v_cmp_eq_u32_e32 vcc, v0, v1
         ? s_nop 1
         v_cndmask_b32_e32 v2, v3, v4, vcc",
        "vcc is written by vector arithmetic and read by vector arithmetic: 2 wait states",
    );
    needs(
        cpu,
        "v_mov_b32_e32 v1, v0
         ? s_nop 0
         v_readfirstlane_b32 s4, v1",
        "v1 is written by vector arithmetic and read from one lane: 1 wait state is",
    );
    needs(
        cpu,
        "v_cmpx_eq_u32_e64 s[4:5], v0, v1
         ? s_nop 3
         v_writelane_b32 v5, s8, 0",
        "exec is written by vector arithmetic before one lane is accessed: 4 wait states",
    );
    assert_eq!(found("gfx90a", "v_rcp_f32_e32 v1, v0\nv_add_f32_e32 v2, v1, v0", false), []);
}

#[test]
fn matrices_take_their_time() {
    for cpu in ["gfx908", "gfx90a", "gfx942", "gfx950"] {
        needs(
            cpu,
            &format!("v_cmpx_eq_u32_e64 s[4:5], v0, v1\n? s_nop 3\n{} a[0:3], v4, v5, a[0:3]", small(cpu)),
            "exec is written by vector arithmetic before a matrix op: 4 wait states",
        );
        needs(
            cpu,
            &format!("v_mov_b32_e32 v4, v0\n? s_nop 1\n{} a[0:3], v4, v5, a[0:3]", small(cpu)),
            "v4 is written by vector arithmetic and read by a matrix op: 2 wait states",
        );
    }
    // Passes, the wait states until a factor may be read, and until the addend may be.
    let ops = [
        ("gfx90a", "v_mfma_f32_4x4x1f32 a[0:3], v4, v5, a[4:7]", 5, 2),
        ("gfx90a", "v_mfma_f32_16x16x4f32 a[0:3], v4, v5, a[4:7]", 11, 8),
        ("gfx90a", "v_mfma_f32_32x32x2f32 a[0:15], v4, v5, a[16:31]", 19, 16),
        ("gfx942", "v_mfma_f32_4x4x1_16b_f32 a[0:3], v4, v5, a[4:7]", 4, 2),
        ("gfx942", "v_mfma_f32_16x16x4_f32 a[0:3], v4, v5, a[4:7]", 10, 8),
        ("gfx942", "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[4:5], v[6:7], a[4:7]", 5, 3),
        ("gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[4:7]", 7, 5),
        ("gfx942", "v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], a[16:31]", 11, 9),
        ("gfx942", "v_smfmac_f32_16x16x32_f16 a[0:3], v[4:5], v[6:9], v10", 7, 5),
        // From here on as LLVM 22's `post-RA-hazard-rec` has them.
        ("gfx950", "v_mfma_f32_4x4x1_16b_f32 a[0:3], v4, v5, a[4:7]", 4, 2),
        ("gfx950", "v_mfma_f32_16x16x4_f32 a[0:3], v4, v5, a[4:7]", 10, 8),
        ("gfx950", "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[4:5], v[6:7], a[4:7]", 5, 4),
        ("gfx950", "v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[4:7]", 8, 6),
        ("gfx950", "v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], a[16:31]", 12, 10),
        ("gfx950", "v_mfma_f32_16x16x32_f16 a[0:3], v[4:7], v[20:23], a[4:7]", 8, 6),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[4:11], v[20:27], a[4:7]", 12, 10),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[4:7], v[20:25], a[4:7] cbsz:4 blgp:2", 8, 6),
        ("gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[4:7], v[20:23], a[4:7], v12, v13 cbsz:4 blgp:4", 8, 6),
        ("gfx950", "v_smfmac_f32_16x16x64_f16 a[0:3], v[4:7], v[20:27], v10", 8, 6),
    ];
    for (cpu, op, factor, addend) in ops {
        let same = small(cpu);
        // The next op reads the result as a factor, then as an addend.
        needs(cpu, &format!("{op}\n{}\n{same} a[8:11], a0, v5, a[8:11]", nops(factor)), "read by the next");
        needs(cpu, &format!("{op}\n{}\n{same} a[8:11], v4, v5, a[2:5]", nops(addend)), "read by the next");
        needs(cpu, &format!("{op}\n{}\nv_accvgpr_read_b32 v1, a2", nops(factor)), "and read");
        needs(cpu, &format!("{op}\n{}\nglobal_store_dword v[2:3], a2, off", nops(factor)), "and read");
        needs(cpu, &format!("{op}\n{}\nv_accvgpr_write_b32 a2, v1", nops(factor)), "and overwritten");
        needs(cpu, &format!("{op}\n{}\nglobal_load_dword a2, v[2:3], off", nops(factor)), "and overwritten");
        // Adding to all of it goes on.
        let whole = op.split(' ').next().unwrap();
        if !(whole.starts_with("v_smfmac") || is_late(cpu) && whole.contains("4x4")) {
            let again = op.replace("a[4:7]", "a[0:3]").replace("a[16:31]", "a[0:15]");
            assert_eq!(found(cpu, &format!("{op}\n{again}"), false), []);
        }
    }
    for (cpu, op, states) in [
        ("gfx90a", "v_mfma_f32_16x16x4f32 a[0:3], v4, v5, a[4:7]", 7),
        ("gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], a[4:7]", 3),
    ] {
        let text = format!("{op}\n{}\nv_accvgpr_write_b32 a5, v1", nops(states));
        needs(cpu, &text, "added to by a matrix op and overwritten");
    }
    // For f32, gfx942 has read the addend.
    let early = "v_mfma_f32_16x16x4_f32 a[0:3], v4, v5, a[4:7]\nv_accvgpr_write_b32 a5, v1";
    assert_eq!(found("gfx942", early, false), []);
}

/// A matrix op of two passes that is done as f32.
fn small(cpu: &str) -> &'static str {
    if is_late(cpu) { "v_mfma_f32_4x4x1_16b_f32" } else { "v_mfma_f32_4x4x1f32" }
}

/// So many wait states, which are needed.
fn nops(states: u32) -> String {
    let of = |states: u32| format!("? s_nop {}\n", states - 1);
    (0..states / 8).map(|_| of(8)).chain((!states.is_multiple_of(8)).then(|| of(states % 8))).collect()
}

#[test]
fn matrices_of_f64_and_dot_products_too() {
    let needed = |cpu: &str, lines: &[&str], states: u32, last: &str| {
        needs(cpu, &format!("{}\n{}\n{last}", lines.join("\n"), nops(states)), "");
    };
    let (small, large) = ("v_mfma_f64_4x4x4f64 v[8:9], v[4:5], v[6:7], v[10:11]", "v_mfma_f64_16x16x4f64");
    let large = format!("{large} v[8:15], v[4:5], v[6:7], v[16:23]");
    for (op, factor, addend, memory) in [(small, 6, 4, 9), (&large, 11, 9, 18)] {
        needed("gfx90a", &[op], factor, "v_mfma_f32_4x4x1f32 a[0:3], v8, v5, a[0:3]");
        needed("gfx90a", &[op], factor, "v_mov_b32_e32 v1, v8");
        needed("gfx90a", &[op], memory, "global_store_dword v[2:3], v8, off");
        needed("gfx90a", &[op], factor, "v_mov_b32_e32 v8, v1");
        needed("gfx90a", &[op], addend, "v_mfma_f64_16x16x4f64 v[24:31], v[4:5], v[6:7], v[2:9]");
    }
    needed("gfx90a", &[small], 2, "v_fma_f64 v[20:21], v[22:23], v[24:25], v[26:27]");
    needed("gfx90a", &["v_mov_b32_e32 v20, v1", small], 1, "global_store_dword v[2:3], v20, off");
    for cpu in ["gfx90a", "gfx942", "gfx950"] {
        let dot = "v_dot4_i32_i8 v1, v2, v3, v1";
        needed(cpu, &[dot], 3, "v_mov_b32_e32 v5, v1");
        needed(cpu, &[dot], 3, "v_mov_b32_e32 v1, v5");
        needed(cpu, &[dot], 3, "v_dot4_i32_i8 v4, v1, v3, v4");
        assert_eq!(found(cpu, &format!("{dot}\n{dot}"), false), []);
    }
}

#[test]
fn accumulation_registers_of_gfx908_are_apart() {
    let needed = |first: &str, states: u32, last: &str| {
        needs("gfx908", &format!("{first}\n{}\n{last}", nops(states)), "");
    };
    let small = "v_mfma_f32_4x4x1f32 a[0:3], v4, v5, a[4:7]";
    let large = "v_mfma_f32_32x32x2f32 a[0:15], v4, v5, a[16:31]";
    let middle = "v_mfma_f32_16x16x4f32 a[0:3], v4, v5, a[4:7]";
    for (op, read, written) in [(small, 4, 1), (middle, 10, 7), (large, 18, 15)] {
        needed(op, read, "v_accvgpr_read_b32 v1, a2");
        needed(op, written, "v_accvgpr_write_b32 a2, v1");
        needed(op, 4, "v_mfma_f32_4x4x1f32 a[8:11], a2, v5, a[8:11]");
        needed(op, 2, "v_mfma_f32_4x4x1f32 a[8:11], v4, v5, a[2:5]");
    }
    needed(middle, 5, "v_accvgpr_write_b32 a5, v1");
    needed(large, 13, "v_accvgpr_write_b32 a20, v1");
    needed("v_accvgpr_write_b32 a0, v1", 1, "v_mfma_f32_4x4x1f32 a[0:3], v4, v5, a[0:3]");
    needed("v_accvgpr_write_b32 a0, v1", 3, "v_accvgpr_read_b32 v4, a0");
    needed("v_accvgpr_read_b32 v4, a0", 2, "global_store_dword v[2:3], v4, off");
    let between = "v_mov_b32_e32 v4, v1\nv_accvgpr_read_b32 v5, a0";
    needed(between, 1, "global_store_dword v[2:3], v4, off");
}

#[test]
fn gfx1010_has_hazards_that_gfx1030_has_not() {
    let cases = [
        (
            "global_load_dword v1, v0, s[4:5]
             ? s_waitcnt_depctr 0xffe3
             s_mov_b32 s4, 0",
            "s4 is read by a memory access and overwritten",
        ),
        (
            "s_load_dword s6, s[0:1], 0x0
             ? s_mov_b32 s7, 0
             v_readfirstlane_b32 s0, v0",
            "s0 is read by a scalar load and overwritten",
        ),
        (
            "s_mov_b32 s4, exec_lo
             ? s_waitcnt_depctr 0xfffe
             v_cmpx_eq_u32_e32 v0, v1",
            "exec is read and overwritten by vector arithmetic",
        ),
        (
            "ds_read_b32 v1, v0
             s_branch 0
             ? s_waitcnt_vscnt null, 0x0
             global_load_dword v2, v[4:5], off",
            "LDS and memory are accessed on the two sides of a branch",
        ),
    ];
    for (text, what) in cases {
        needs("gfx1010", text, what);
        let without: Vec<&str> = text.lines().filter(|line| !line.contains('?')).collect();
        assert_eq!(found("gfx1030", &without.join("\n"), false), []);
    }
}

#[test]
fn arrivals_behind_asynchronous_loads_stand_alone() {
    let wait = "? s_wait_alu depctr_vm_vsrc(0)";
    for text in [
        format!("ds_load_b32 v3, v2\n{wait}\nds_atomic_async_barrier_arrive_b64 v2"),
        format!("ds_atomic_async_barrier_arrive_b64 v2\n{wait}\nglobal_load_b32 v1, v0, s[4:5]"),
    ] {
        needs("gfx1250", &text, "ds_atomic_async_barrier_arrive_b64 is beside another access");
    }
}

#[test]
fn registers_of_accesses_that_gfx1250_may_make_again_are_kept() {
    for text in [
        "s_load_b64 s[4:5], s[0:1], 0x0
         ? s_wait_xcnt 0x0
         s_mov_b32 s0, 0",
        "s_load_b64 s[4:5], s[0:1], 0x0
         s_load_b64 s[6:7], s[0:1], 0x0
         ? s_wait_kmcnt 0x0
         s_mov_b32 s1, 0",
        "global_load_b32 v1, v0, s[4:5]
         ? s_wait_xcnt 0x0
         s_mov_b32 s4, 0",
        // Translations are in order; so are loads, and their data come behind them.
        "global_load_b32 v1, v0, s[4:5]
         global_load_b32 v2, v3, s[4:5]
         ? s_wait_xcnt 0x1
         v_mov_b32_e32 v0, 0",
        "global_load_b32 v1, v0, s[4:5]
         global_load_b32 v2, v3, s[4:5]
         ? s_wait_loadcnt 0x1
         v_mov_b32_e32 v0, 0",
        // Vector memory is behind scalar memory.
        "global_load_b32 v1, v0, s[4:5]
         ? s_load_b32 s8, s[0:1], 0x0
         v_mov_b32_e32 v0, 0",
    ] {
        needs("gfx1250", text, "may have to be made again");
    }
    let too_high = "global_load_b32 v1, v0, s[4:5]\ns_wait_xcnt 0x1\nv_mov_b32_e32 v0, 0";
    assert_eq!(found("gfx1250", too_high, false).len(), 1);
    // Vector memory itself is in order, and code that waits for registers waits for their reads.
    let behind = "global_load_b32 v1, v0, s[4:5]\nglobal_load_b32 v0, v3, s[4:5]";
    assert_eq!(found("gfx1250", behind, false), []);
    // These wait by themselves.
    for ends in ["s_barrier_signal -1", "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 23, 1), 1"] {
        let text = format!("global_load_b32 v1, v0, s[4:5]\n{ends}\ns_mov_b32 s4, 0");
        assert_eq!(found("gfx1250", &text, false), [], "{ends}");
    }
    let expert = "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2
                  global_load_b32 v1, v0, s[4:5]
                  v_mov_b32_e32 v0, 0";
    assert_eq!(found("gfx1250", expert, false), []);
    assert_eq!(found("gfx1201", "global_load_b32 v1, v0, s[4:5]\nv_mov_b32_e32 v0, 0", false), []);
    // Transfers to LDS are not waited for, and do not stand for other accesses.
    let transfer = "global_load_async_to_lds_b32 v3, v1, s[4:5]";
    assert_eq!(found("gfx1250", &format!("{transfer}\ns_mov_b32 s4, 0\nv_mov_b32_e32 v3, 0"), false), []);
    let between = format!("global_load_b32 v1, v0, s[4:5]\n{transfer}\n? s_wait_xcnt 0x0\nv_mov_b32_e32 v0, 0");
    needs("gfx1250", &between, "s_wait_xcnt 0x0 is needed");
}

#[test]
fn a_permutation_behind_v_cmpx_needs_vector_arithmetic() {
    for cpu in ["gfx1010", "gfx1100", "gfx1151", "gfx1201", "gfx1250"] {
        needs(
            cpu,
            "v_cmpx_eq_u32_e32 v0, v1
             v_nop
             ? v_mov_b32_e32 v2, v2
             v_permlane16_b32 v1, v1, s4, s5",
            "exec is written by v_cmpx before a permutation",
        );
    }
}

#[test]
fn gfx11_forwards_some_results_wrongly() {
    needs(
        "gfx1100",
        "v_rcp_f32_e32 v1, v0
         v_mov_b32_e32 v5, v0
         ? s_waitcnt_depctr 0xfff
         v_add_f32_e32 v2, v1, v0",
        "v1 is written by a transcendental and read",
    );
    // Not on RDNA 3.5 (LLVM's `FeatureVALUTransUseHazard`).
    assert_eq!(found("gfx1151", "v_rcp_f32_e32 v1, v0\nv_add_f32_e32 v2, v1, v0", false), []);
    let six = ["v_mov_b32_e32 v5, v0"; 6].join("\n");
    assert_eq!(found("gfx1100", &format!("v_rcp_f32_e32 v1, v0\n{six}\nv_add_f32_e32 v2, v1, v0"), false), []);
    let forwarding = "v_mov_b32_e32 v1, v0
         s_mov_b64 exec, 0
         v_mov_b32_e32 v2, v0
         ? s_waitcnt_depctr 0xfff
         v_add_f32_e32 v3, v1, v2";
    needs_wide("gfx1100", forwarding, "v1 is written before exec is", true);
    needs_wide("gfx1151", forwarding, "v1 is written before exec is", true);
    let mask = "v_cndmask_b32_e32 v1, v2, v3, vcc_lo
         s_mov_b32 vcc_lo, 0
         ? s_waitcnt_depctr 0xfffe
         s_mov_b32 s6, vcc_lo";
    needs_wide("gfx1100", mask, "vcc was a mask of lanes", true);
    needs_wide("gfx1151", mask, "vcc was a mask of lanes", true);
    // A constant that vector arithmetic reads, or another register, makes it well.
    let constant =
        "v_cndmask_b32_e32 v1, v2, v3, vcc_lo\nv_add_f32_e32 v1, 0x1234, v2\ns_mov_b32 vcc_lo, 0\ns_mov_b32 s6, vcc_lo";
    assert_eq!(found("gfx1100", constant, true), []);
    // In waves of 32 lanes neither is there.
    for text in [forwarding.replace("s_mov_b64 exec,", "s_mov_b32 exec_lo,"), mask.to_owned()] {
        let without: Vec<&str> = text.lines().filter(|line| !line.contains('?')).collect();
        assert_eq!(found("gfx1100", &without.join("\n"), false), []);
    }
    needs(
        "gfx1100",
        "v_wmma_f32_16x16x16_f16 v[8:15], v[0:7], v[0:7], v[8:15]
         ? v_nop
         v_wmma_f32_16x16x16_f16 v[16:23], v[8:15], v[0:7], v[16:23]",
        "v[8:15] is written by a matrix op and is a factor of the next",
    );
}

#[test]
fn gfx12_waits_for_scalar_registers_that_were_read() {
    for (text, what) in [
        (
            "v_add_f32_e32 v1, s4, v0
             s_mov_b32 s4, 0
             ? s_wait_alu depctr_sa_sdst(0)
             v_add_f32_e32 v2, s4, v0",
            "s4 was read by vector arithmetic before, is written by scalar arithmetic",
        ),
        (
            "v_add_f32_e32 v1, s4, v0
             v_readfirstlane_b32 s4, v0
             ? s_wait_alu depctr_va_sdst(0)
             v_add_f32_e32 v2, s4, v0",
            "s4 was read by vector arithmetic before, is written by vector arithmetic",
        ),
        (
            "v_cndmask_b32_e32 v1, v2, v3, vcc_lo
             v_cmp_eq_u32_e32 vcc_lo, v0, v1
             ? s_wait_alu depctr_va_vcc(0)
             v_cndmask_b32_e32 v1, v2, v3, vcc_lo",
            "depctr_va_vcc(0) is needed",
        ),
    ] {
        needs("gfx1201", text, what);
    }
    // No instruction has read it before.
    assert_eq!(found("gfx1201", "s_mov_b32 s4, 0\nv_add_f32_e32 v2, s4, v0", false), []);
    // Scalar arithmetic waits for vector arithmetic.
    let scalar = "v_add_f32_e32 v1, s4, v0\nv_readfirstlane_b32 s4, v0\ns_mov_b32 s6, s4";
    assert_eq!(found("gfx1201", scalar, false), []);
}

#[test]
fn gfx1250_runs_transcendentals_beside_others() {
    for last in ["v_add_f32_e32 v2, v1, v0", "v_mov_b32_e32 v0, v3"] {
        needs("gfx1250", &format!("v_rcp_f32_e32 v1, v0\n? v_nop\n{last}"), "is a register of a transcendental");
    }
    assert_eq!(found("gfx1250", "v_rcp_f32_e32 v1, v0\nv_rcp_f32_e32 v2, v1", false), []);
    let transfer = "v_rcp_f32_e32 v1, v0\nglobal_load_async_to_lds_b32 v3, v4, s[4:5]\nv_mov_b32_e32 v2, v1";
    assert_eq!(found("gfx1250", transfer, false), []);
}

#[test]
fn gfx1250_runs_vector_arithmetic_beside_matrix_ops() {
    let matrix = |op: &str, factor: u32| {
        let last = 16 + factor - 1;
        format!("v_wmma_{op} v[48:55], v[16:{last}], v[16:{last}], v[48:55]")
    };
    let scaled = "v_wmma_scale_f32_16x16x128_f8f6f4 v[48:55], v[16:31], v[16:31], v[48:55], v1, v2";
    for (first, vectors) in [
        (matrix("f32_16x16x32_f16", 8), 4),
        (matrix("f32_16x16x64_fp8_fp8", 8), 1),
        (matrix("i32_16x16x64_iu8", 8), 8),
        (matrix("f32_16x16x128_f8f6f4", 16), 4),
        (scaled.to_owned(), 4),
        (matrix("f32_16x16x128_f8f6f4", 8) + " matrix_a_fmt:MATRIX_FMT_FP4 matrix_b_fmt:MATRIX_FMT_FP4", 1),
    ] {
        for last in ["v_add_f32_e32 v0, v49, v1", "v_mov_b32_e32 v50, v1", "v_mov_b32_e32 v17, v1"] {
            counts_vectors(&first, vectors, last);
        }
        let next = matrix("f32_16x16x32_f16", 8).replace("16:23", "48:55").replacen("48:55", "56:63", 1);
        counts_vectors(&first, vectors + 1, &next);
        // An op that adds to the result needs no distance, nor does an unrelated op.
        for last in [matrix("f32_16x16x32_f16", 8), "v_mov_b32_e32 v0, v1".to_owned()] {
            assert_eq!(found("gfx1250", &format!("{first}\n{last}"), false), [], "{first}");
        }
    }
    let sparse = "v_swmmac_f32_16x16x64_f16 v[48:55], v[16:23], v[32:47], v2";
    for last in ["v_add_f32_e32 v0, v49, v1", "v_mov_b32_e32 v2, v1"] {
        counts_vectors(sparse, 2, last);
    }
    // A transfer between memory and LDS counts as a vector op, an access to LDS does not.
    let nops = "v_nop\n".repeat(3);
    for (between, count) in [("global_load_async_to_lds_b32 v3, v4, s[4:5]", 0), ("ds_load_b32 v3, v4", 1)] {
        let first = matrix("f32_16x16x32_f16", 8);
        let text = format!("{first}\n{between}\n{nops}v_mov_b32_e32 v17, v1");
        assert_eq!(found("gfx1250", &text, false).len(), count, "{between}");
    }
    // f32 is no matter of the unit that others are done by.
    let plain = "v_wmma_f32_16x16x4_f32 v[48:55], v[16:17], v[18:19], v[48:55]\nv_mov_b32_e32 v49, v1";
    assert_eq!(found("gfx1250", plain, false), []);
}

/// Asserts that so many vector ops are needed between two instructions of gfx1250.
#[track_caller]
fn counts_vectors(first: &str, vectors: usize, last: &str) {
    let with = |count: usize| found("gfx1250", &format!("{first}\n{}{last}", "v_nop\n".repeat(count)), false);
    assert_eq!(with(vectors), [], "{first}, {last}");
    for count in 0..vectors {
        let found = with(count);
        let [(_, said)] = &found[..] else { panic!("{first}, {count} and {last}: {found:?}") };
        assert!(said.contains(&format!("{vectors} vector ops, v_nop or others, are needed")), "{said}");
    }
}

#[test]
fn gfx1250_leaves_registers_of_its_own_to_software() {
    needs(
        "gfx1250",
        "v_mov_b32_e32 v0, v1
         ? v_nop
         ? v_nop
         s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 1), 0",
        "two v_nop are needed in front of s_setreg",
    );
    let one = "v_mov_b32_e32 v0, v1\nv_nop\ns_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 1), 0";
    assert_eq!(found("gfx1250", one, false).len(), 1);
    // Other fields LLVM sets behind vector arithmetic.
    let other = "v_mov_b32_e32 v0, v1\ns_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 23, 1), 1";
    assert_eq!(found("gfx1250", other, false), []);
    // No vector arithmetic has begun.
    assert_eq!(found("gfx1250", "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 1), 0", false), []);
    needs(
        "gfx1250",
        "s_mov_b32 s103, 0
         ? s_wait_alu depctr_sa_sdst(0) depctr_va_sdst(0)
         s_mov_b32 s4, src_flat_scratch_base_hi",
        "the base of scratch is written and read",
    );
    let later = format!("s_mov_b32 s102, 0\n{}s_mov_b32 s4, src_flat_scratch_base_lo", "s_mov_b32 s5, 0\n".repeat(10));
    assert_eq!(found("gfx1250", &later, false), []);
}

#[test]
fn gfx950_waits_longer_behind_f64_and_before_exchanges() {
    let cpu = "gfx950";
    let large = "v_mfma_f64_16x16x4_f64 v[8:15], v[4:5], v[6:7], v[16:23]";
    // LLVM 22's `post-RA-hazard-rec`.
    for (states, last) in [
        (19, "v_mov_b32_e32 v1, v8"),
        (18, "global_store_dword v[2:3], v8, off"),
        (11, "v_mov_b32_e32 v8, v1"),
        (17, "v_mfma_f64_16x16x4_f64 v[24:31], v[4:5], v[6:7], v[2:9]"),
        (19, "v_mfma_f64_16x16x4_f64 v[24:31], v[8:9], v[6:7], v[24:31]"),
    ] {
        needs(cpu, &format!("{large}\n{}\n{last}", nops(states)), "written by a matrix op");
    }
    for (first, states, what) in [
        ("v_mov_b32_e32 v1, v0", 2, "v1 is written by vector arithmetic and exchanged with other lanes"),
        ("v_mov_b32_e32 v2, v0", 2, "v2 is written by vector arithmetic and exchanged with other lanes"),
        ("v_cmpx_eq_u32_e64 s[4:5], v0, v0", 4, "exec is written by v_cmpx"),
    ] {
        // All lanes must be active.
        let text = format!("s_mov_b64 exec, -1\n{first}\n{}\nv_permlane32_swap_b32 v1, v2", nops(states));
        needs(cpu, &text, what);
    }
    for part in [
        "v_cvt_scalef32_pk_fp4_f32 v1, v2, v3, v4 op_sel:[0,0,1,0]",
        "v_cvt_scalef32_sr_pk_fp4_f16 v1, v2, v3, v4",
        "v_cvt_sr_bf16_f32 v1, v2, v3 op_sel:[0,0,1]",
    ] {
        needs(cpu, &format!("{part}\n? s_nop 0\nv_mov_b32_e32 v5, v1"), "v1 is written in part");
    }
    let scale = "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[4:11], v[20:27], a[0:3], v12, v13";
    needs(cpu, &format!("v_mov_b32_e32 v13, v0\n? s_nop 1\n{scale}"), "v13 is written by vector arithmetic and read");
}

#[test]
fn registers_that_are_added_to_count_for_their_last_writer() {
    for (cpu, long, short) in [
        ("gfx90a", "v_mfma_f32_16x16x4f32", "v_mfma_f32_4x4x1f32"),
        ("gfx942", "v_mfma_f32_16x16x4_f32", "v_mfma_f32_4x4x1_16b_f32"),
    ] {
        // The second writes all that the third adds to.
        let chain = format!(
            "{long} v[12:15], v20, v28, v[12:15]
             {long} v[10:13], v21, v29, v[12:15]
             {long} v[8:11], v8, v16, v[10:13]"
        );
        assert_eq!(found(cpu, &chain, false), [], "{cpu}");
        // The second writes half of it, the first the other half.
        let halves = format!(
            "{long} v[8:11], v20, v28, v[8:11]
             {short} v[12:15], v21, v29, v[12:15]
             v_mov_b32_e32 v24, v25
             v_mov_b32_e32 v26, v27
             ? s_nop 4
             {long} v[10:13], v4, v5, v[10:13]"
        );
        needs(cpu, &halves, "v[10:13] is written by a matrix op and read by the next: 8 wait states");
    }
}

#[test]
fn gfx942_stores_with_offsets_in_registers() {
    needs(
        "gfx942",
        "buffer_store_dwordx4 v[4:7], v0, s[8:11], s4 offen
         ? s_nop 0
         v_mov_b32_e32 v5, v0",
        "v5 is stored with others",
    );
}
