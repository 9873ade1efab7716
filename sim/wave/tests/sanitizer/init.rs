// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Decisions that depend on uninitialized data. Each case is run with a write of the data, too, without a
//! finding.

use super::{ONE_WAVE, With, run_with};
use sim_wave::{Finding, PAGE, Page, Unwritten};
use std::sync::{Arc, Mutex};

/// A page of uninitialized memory.
pub struct OneBuffer {
    memory: Box<Aligned>,
    page: Arc<Page>,
    is_forgotten: Mutex<bool>,
}

#[repr(align(4096))]
struct Aligned([u8; PAGE as usize]);

impl OneBuffer {
    pub fn new() -> Self {
        let memory = Box::new(Aligned([0; PAGE as usize]));
        OneBuffer { memory, page: Arc::new(Page::unwritten()), is_forgotten: Mutex::new(false) }
    }

    pub fn address(&self) -> u64 {
        self.memory.0.as_ptr().expose_provenance() as u64
    }
}

impl Unwritten for OneBuffer {
    fn page(&self, number: u64, _: bool) -> Option<Arc<Page>> {
        let is_it = number == self.address() / PAGE && !*self.is_forgotten.lock().unwrap();
        is_it.then(|| self.page.clone())
    }

    fn forget(&self) {
        *self.is_forgotten.lock().unwrap() = true;
    }
}

const INIT: With = With { init: true, scratch: 64, ..ONE_WAVE };

/// `s[4:5]` is a buffer, `s[6:7]` the uninitialized one, `v1` four times the item's number.
fn found(cpu: &str, lines: &[&str]) -> Vec<Finding> {
    let (load, wait, items) = match cpu {
        "gfx1100" => ("s_load_b128", "s_waitcnt lgkmcnt(0)", 32),
        "gfx1201" => ("s_load_b128", "s_wait_kmcnt 0x0", 32),
        _ => ("s_load_dwordx4", "s_waitcnt lgkmcnt(0)", 64),
    };
    let lines = lines.join("\n");
    let text = format!("{load} s[4:7], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\n{wait}\n{lines}\ns_endpgm");
    let (result, found, _) = run_with(cpu, &text, With { items, ..INIT });
    result.unwrap_or_else(|fault| panic!("{cpu}: {fault}"));
    found.into_iter().map(|(finding, _)| finding).collect()
}

/// Asserts that there is one finding, at the instruction `line`, whose text contains `what`.
#[track_caller]
fn finds(cpu: &str, lines: &[&str], line: &str, what: &str) -> Finding {
    let found = found(cpu, lines);
    let [finding] = &found[..] else { panic!("{cpu}: found {found:#?} in {lines:#?}") };
    assert_eq!((finding.check, finding.line.text.as_str()), ("init", line), "{cpu}: {finding}");
    assert!(finding.what.contains(what), "{cpu}: {finding}");
    finding.clone()
}

#[track_caller]
fn finds_nothing(cpu: &str, lines: &[&str]) {
    let found = found(cpu, lines);
    assert!(found.is_empty(), "{cpu}: {} in {lines:#?}", found[0]);
}

/// Asserts that something is found where the line `without` is left out, and nothing with it.
#[track_caller]
fn needs(cpu: &str, lines: &[&str], without: usize, line: &str, what: &str) -> Finding {
    finds_nothing(cpu, lines);
    let mut lines = lines.to_vec();
    lines.remove(without);
    finds(cpu, &lines, line, what)
}

/// A branch on whether `v5` is zero in the first lane.
const BRANCH: [&str; 3] = ["v_readfirstlane_b32 s20, v5", "s_cmp_eq_u32 s20, 0", "s_cbranch_scc1 0"];

fn then_branch<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    lines.iter().chain(&BRANCH).copied().collect()
}

#[test]
fn registers_are_written_before_a_branch() {
    let branch = ": the branch condition depends on it";
    for cpu in ["gfx1100", "gfx1201", "gfx90a"] {
        let finding = needs(cpu, &then_branch(&["v_mov_b32 v5, 3"]), 0, "s_cbranch_scc1 0", branch);
        assert!(finding.what.contains("use of uninitialized v5: "), "{finding}");
        assert_eq!(finding.other.unwrap().text, "v_readfirstlane_b32 s20, v5");
        let lines = ["s_mov_b32 s20, 3", "s_cmp_lt_u32 s20, 7", "s_cbranch_scc0 0"];
        let finding = needs(cpu, &lines, 0, "s_cbranch_scc0 0", branch);
        assert!(finding.what.contains("use of uninitialized s20: "), "{finding}");
        needs(cpu, &["s_cmp_eq_u32 s0, s0", "s_cbranch_scc0 0"], 0, "s_cbranch_scc0 0", "use of uninitialized scc: ");
    }
    let lines = ["v_mov_b32 v5, 3", "v_cmp_gt_u32_e32 vcc_lo, 9, v5", "s_cbranch_vccz 0"];
    let finding = needs("gfx1100", &lines, 0, "s_cbranch_vccz 0", branch);
    assert_eq!(finding.lanes, 0xffff_ffff);
}

#[test]
fn registers_are_written_before_they_are_addresses() {
    for cpu in ["gfx1100", "gfx1201"] {
        let lines = ["v_mov_b32 v5, 0", "global_load_b32 v6, v5, s[4:5]"];
        let finding = needs(cpu, &lines, 0, lines[1], "use of uninitialized v5: the address depends on it");
        assert_eq!((finding.lanes, finding.other), (0xffff_ffff, None));
        needs(
            cpu,
            &["v_mov_b32 v5, 0", "ds_load_b32 v6, v5"],
            0,
            "ds_load_b32 v6, v5",
            "use of uninitialized v5: the address depends on it",
        );
        let lines = ["v_mov_b32 v5, 0", "v_add_nc_u32 v6, v5, v1", "ds_store_b32 v6, v1"];
        let finding = needs(cpu, &lines, 0, lines[2], "use of uninitialized v5: the address depends on it");
        assert_eq!(finding.other.unwrap().text, "v_add_nc_u32_e32 v6, v5, v1");
        let text =
            if cpu == "gfx1100" { "s_load_b32 s21, s[4:5], s20" } else { "s_load_b32 s21, s[4:5], s20 offset:0x0" };
        needs(cpu, &["s_mov_b32 s20, 0", text], 0, text, "use of uninitialized s20: the address depends on it");
    }
    let lines = ["v_mov_b32 v5, 0", "global_load_dword v6, v5, s[4:5]"];
    needs("gfx90a", &lines, 0, lines[1], "use of uninitialized v5: the address depends on it");
}

#[test]
fn registers_are_written_before_they_choose_lanes() {
    let lines = ["v_mov_b32 v5, 0", "v_cmp_eq_u32_e32 vcc_lo, 0, v5", "s_and_saveexec_b32 s20, vcc_lo"];
    let finding =
        needs("gfx1100", &lines, 0, lines[2], "use of uninitialized v5: the mask of active lanes depends on it");
    assert_eq!(finding.other.unwrap().text, "v_cmp_eq_u32_e32 vcc_lo, 0, v5");
    let lines = ["v_mov_b32 v5, 0", "v_cmpx_gt_u32_e32 5, v5"];
    needs("gfx1100", &lines, 0, lines[1], "use of uninitialized v5: the mask of active lanes depends on it");
    let lines = ["v_mov_b32 v5, 0", "v_cmp_eq_u32_e32 vcc, 0, v5", "s_and_saveexec_b64 s[20:21], vcc"];
    needs("gfx90a", &lines, 0, lines[2], "use of uninitialized v5: the mask of active lanes depends on it");
    // Lanes that do not come so far do not count.
    let guarded = [
        "v_cmp_gt_u32_e64 s20, 8, v0",
        "s_mov_b32 s21, exec_lo",
        "s_mov_b32 exec_lo, s20",
        "v_mov_b32 v5, 7",
        "s_mov_b32 exec_lo, s21",
        "v_cmp_eq_u32_e32 vcc_lo, 7, v5",
        "s_and_b32 s22, s20, vcc_lo",
        "s_and_saveexec_b32 s20, s22",
    ];
    needs(
        "gfx1100",
        &guarded,
        6,
        "s_and_saveexec_b32 s20, s22",
        "use of uninitialized s22: the mask of active lanes depends on it",
    );
}

#[test]
fn lds_is_written_before_it_is_read() {
    for cpu in ["gfx1100", "gfx1201"] {
        let lines = then_branch(&["ds_store_b32 v1, v0", "ds_load_b32 v5, v1"]);
        let finding = needs(cpu, &lines, 0, "s_cbranch_scc1 0", "uninitialized LDS byte 0x0");
        assert_eq!(finding.other.unwrap().text, "ds_load_b32 v5, v1");
        // Another byte of the dword is not the one.
        let lines = then_branch(&["ds_store_b8 v1, v0 offset:1", "ds_load_u8 v5, v1 offset:1"]);
        needs(cpu, &lines, 0, "s_cbranch_scc1 0", "uninitialized LDS byte 0x1");
        let lines = then_branch(&["ds_store_b8 v1, v0", "ds_load_u8 v5, v1 offset:1"]);
        finds(cpu, &lines, "s_cbranch_scc1 0", "uninitialized LDS byte 0x1");
        let lines = ["ds_store_b32 v1, v0", "ds_store_b32 v1, v0 offset:1024"];
        let lines = [&lines[..], &["ds_load_2addr_stride64_b32 v[4:5], v1 offset1:4"]].concat();
        needs(cpu, &then_branch(&lines), 1, "s_cbranch_scc1 0", "uninitialized LDS byte 0x400");
    }
    let lines = then_branch(&["ds_write_b64 v1, v[0:1]", "ds_read_b32 v5, v1"]);
    needs("gfx90a", &lines, 0, "s_cbranch_scc1 0", "uninitialized LDS byte 0x0");
    let lines = then_branch(&["v_mov_b32 v6, 1", "ds_add_u32 v1, v6", "ds_load_b32 v5, v1"]);
    finds("gfx1100", &lines, "s_cbranch_scc1 0", "uninitialized LDS byte 0x0");
}

#[test]
fn scratch_is_written_before_it_is_read() {
    let lines = then_branch(&["scratch_store_b32 off, v0, off offset:8", "scratch_load_b32 v5, off, off offset:8"]);
    for cpu in ["gfx1100", "gfx1201"] {
        needs(cpu, &lines, 0, "s_cbranch_scc1 0", "uninitialized scratch byte 0x8");
    }
    // In the lanes alone that have written it.
    let lines = [
        "s_mov_b32 exec_lo, 2",
        "scratch_store_b32 off, v0, off offset:8",
        "s_mov_b32 exec_lo, -1",
        "scratch_load_b32 v5, off, off offset:8",
    ];
    finds("gfx1100", &then_branch(&lines), "s_cbranch_scc1 0", "uninitialized scratch byte 0x8");
    let lines = [&lines[..], &["s_mov_b32 exec_lo, 2"]].concat();
    finds_nothing("gfx1100", &then_branch(&lines));
}

#[test]
fn memory_is_written_before_it_is_read() {
    let lines = then_branch(&["global_store_b32 v1, v0, s[6:7]", "global_load_b32 v5, v1, s[6:7]"]);
    for cpu in ["gfx1100", "gfx1201"] {
        let finding = needs(cpu, &lines, 0, "s_cbranch_scc1 0", "uninitialized memory byte 0x");
        assert_eq!(finding.other.unwrap().text, "global_load_b32 v5, v1, s[6:7]");
    }
    let lines = ["v_mov_b32 v4, 0", "global_store_dword v4, v4, s[6:7]", "s_load_dword s20, s[6:7], 0x0"];
    let lines = [&lines[..], &["s_waitcnt lgkmcnt(0)", "s_cmp_eq_u32 s20, 0", "s_cbranch_scc1 0"]].concat();
    needs("gfx90a", &lines, 1, "s_cbranch_scc1 0", "uninitialized memory byte 0x");
    // The other buffer is the host's.
    finds_nothing("gfx1100", &then_branch(&["global_load_b32 v5, v1, s[4:5]"]));
    // Bytes stay uninitialized through copies by memory and LDS.
    let lines = ["global_store_b32 v1, v0, s[6:7]", "global_load_b32 v6, v1, s[6:7]", "ds_store_b32 v1, v6"];
    let lines = [&lines[..], &["ds_load_b32 v7, v1", "global_store_b32 v1, v7, s[6:7] offset:512"]].concat();
    let lines = then_branch(&[&lines[..], &["global_load_b32 v5, v1, s[6:7] offset:512"]].concat());
    needs("gfx1100", &lines, 0, "s_cbranch_scc1 0", "uninitialized memory byte 0x");
    let lines = ["v_mov_b32 v5, 1", "global_atomic_add_u32 v1, v5, s[4:5]"];
    needs("gfx1100", &lines, 0, lines[1], "use of uninitialized v5: the operand of an atomic depends on it");
}

/// Copies, and results that do not depend on the uninitialized data.
#[test]
fn what_decides_nothing_is_no_finding() {
    let copies = ["v_mov_b32 v6, v5", "v_add_f32 v7, v6, v6", "global_store_b32 v1, v7, s[4:5]", "s_mov_b32 s21, s20"];
    finds_nothing("gfx1100", &copies);
    for lines in [
        &["v_xor_b32 v5, v5, v5"][..],
        &["v_sub_nc_u32 v5, v6, v6"],
        &["v_and_b32 v5, 0, v6"],
        &["v_and_b32 v5, 0xff, v6", "v_lshrrev_b32 v5, 8, v5"],
        &["v_mov_b32 v7, 1", "v_cndmask_b32_e64 v5, v6, v7, exec_lo"],
        &["v_or_b32 v5, -1, v6"],
        &["v_mov_b32 v7, 0x1234", "v_perm_b32 v5, v7, v6, 0x07060504"],
        &["ds_store_b8 v1, v0", "ds_load_b32 v6, v1", "v_and_b32 v5, 0xff, v6"],
        &["v_lshl_or_b32 v6, v6, 16, v0", "v_bfe_u32 v5, v6, 0, 16"],
        &["v_mov_b32 v5, v0", "v_mov_b32_dpp v5, v6 row_shr:1 row_mask:0x0 bank_mask:0xf"],
        &["v_writelane_b32 v6, 5, 3", "v_readlane_b32 s21, v6, 3", "v_mov_b32 v5, s21"],
        &["v_mov_b32 v6, 7", "v_mov_b16_e32 v7.l, v6.l", "v_and_b32 v5, 0xffff, v7"],
    ] {
        finds_nothing("gfx1100", &then_branch(lines));
    }
    for lines in [
        &["v_and_b32 v5, 0x100, v6"][..],
        &[
            "v_mov_b32 v5, v0",
            "v_mov_b32_dpp v5, v6 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
            "v_readlane_b32 s21, v5, 1",
            "v_mov_b32 v5, s21",
        ],
        &["v_writelane_b32 v6, 5, 3", "v_readlane_b32 s21, v6, 4", "v_mov_b32 v5, s21"],
        &["v_mov_b32 v7, 0", "v_perm_b32 v5, v7, v6, 0x03060504"],
        &["v_mov_b32 v6, 0", "v_mov_b16_e32 v7.l, v6.l", "v_mov_b32 v5, v7"],
    ] {
        finds("gfx1100", &then_branch(lines), "s_cbranch_scc1 0", "use of uninitialized ");
    }
    // Bits that are written tell them apart.
    finds_nothing("gfx1100", &["s_or_b32 s20, s20, 1", "s_cmp_eq_u32 s20, 0", "s_cbranch_scc1 0"]);
    finds_nothing("gfx1100", &["v_or_b32 v5, 1, v5", "v_cmp_ne_u32_e32 vcc_lo, 0, v5", "s_cbranch_vccz 0"]);
    finds("gfx1100", &["s_cmp_eq_u32 s20, 0x1234567", "s_cbranch_scc1 0"], "s_cbranch_scc1 0", "s20");
}

/// Rows that were never loaded are no matter of the others.
#[test]
fn matrices_are_followed_by_element() {
    let lines = [
        "s_mov_b64 exec, 0xffff",
        "v_mov_b32 v2, 1.0",
        "v_mov_b32 v3, 1.0",
        "s_mov_b64 exec, -1",
        "v_mfma_f32_4x4x1f32 v[8:11], v2, v3, 0",
        "s_nop 4",
    ];
    let lines = [&lines[..], &["v_mov_b32 v5, v8"]].concat();
    finds_nothing("gfx90a", &then_branch(&lines));
    let last = ["v_readlane_b32 s20, v8, 63", "s_cmp_eq_u32 s20, 0", "s_cbranch_scc1 0"];
    finds("gfx90a", &[&lines[..], &last].concat(), "s_cbranch_scc1 0", "use of uninitialized ");
}

#[test]
fn results_are_what_they_are_without_the_check() {
    // Comparisons are tried with their sources equal, of which the second has a register behind it that is unwritten.
    let text = "s_load_b128 s[4:7], s[0:1], 0x0
        v_lshlrev_b32 v1, 2, v0
        v_mov_b32 v2, 5
        v_mov_b32 v3, 7
        s_waitcnt lgkmcnt(0)
        global_load_b64 v[8:9], v1, s[6:7]
        s_waitcnt vmcnt(0)
        v_cmp_eq_u32 vcc_lo, v8, v2
        global_store_b32 v1, v9, s[4:5]
        s_endpgm";
    let (result, _, buffer) = run_with("gfx1100", text, With { items: 32, ..INIT });
    result.unwrap();
    // As the memory has it.
    assert_eq!(buffer[..32], [0; 32]);
}

#[test]
fn what_the_host_may_read_is_told_on_request() {
    let told = |result: bool, store: &str| {
        let text = format!(
            "s_load_b128 s[4:7], s[0:1], 0x0
            v_lshlrev_b32 v1, 2, v0
            v_mov_b32 v3, 7
            s_waitcnt lgkmcnt(0)
            global_load_b32 v2, v1, s[6:7]
            s_waitcnt vmcnt(0)
            v_and_b32 v4, 0xff00, v2
            {store}
            s_endpgm"
        );
        let (ended, found, _) = run_with("gfx1100", &text, With { items: 32, result, ..INIT });
        ended.unwrap();
        found.into_iter().map(|(finding, _)| finding.what).collect::<Vec<_>>()
    };
    let found = told(true, "global_store_b32 v1, v2, s[4:5]");
    let what = "use of uninitialized memory byte 0x";
    assert!(found.len() == 1 && found[0].starts_with(what), "{found:?}");
    assert_eq!(told(true, "global_store_b8 v1, v4, s[4:5]"), [""; 0]);
    assert_eq!(told(true, "global_store_b16 v1, v4, s[4:5]").len(), 1);
    assert_eq!(told(true, "global_store_b32 v1, v3, s[4:5]"), [""; 0]);
    // A store to the buffer that held the value before passes it on.
    assert_eq!(told(true, "global_store_b32 v1, v2, s[6:7]"), [""; 0]);
    assert_eq!(told(false, "global_store_b32 v1, v2, s[4:5]"), [""; 0]);
}
