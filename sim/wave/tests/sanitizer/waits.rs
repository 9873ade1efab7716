// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Waits that are missing, too weak, or for the wrong counter.
//!
//! Kernels have their arguments' address in `s[0:1]`: a buffer, a number, the address of LDS for flat accesses.

use super::{ONE_WAVE, With, finds, finds_nothing, run_with};

/// Instructions of a generation for the kernels of these tests.
struct Generation {
    cpu: &'static str,
    /// The buffer's address in `s[2:3]`, complete, and each lane's offset in `v1`.
    prologue: &'static str,
    /// Loads a dword of the buffer at the lane's offset plus the appended one, into the register put for `{}`.
    load: &'static str,
    /// Stores `v5` at the lane's offset.
    store: &'static str,
    /// Waits until the counter of loads is at most the number put for `{}`.
    vmcnt: &'static str,
    /// For the counter of LDS.
    dscnt: &'static str,
    /// For the counter of scalar loads.
    kmcnt: &'static str,
    add: &'static str,
    s_load: &'static str,
    ds_load: &'static str,
    flat_load: &'static str,
}

const GFX9: Generation = Generation {
    cpu: "gfx90a",
    prologue: "s_load_dwordx2 s[2:3], s[0:1], 0x0
               v_lshlrev_b32 v1, 2, v0
               s_waitcnt lgkmcnt(0)",
    load: "global_load_dword {}, v1, s[2:3]",
    store: "global_store_dword v1, v5, s[2:3]",
    vmcnt: "s_waitcnt vmcnt({})",
    dscnt: "s_waitcnt lgkmcnt({})",
    kmcnt: "s_waitcnt lgkmcnt({})",
    add: "v_add_u32_e32",
    s_load: "s_load_dword {}, s[0:1], 0x8",
    ds_load: "ds_read_b32 {}, v1",
    flat_load: "flat_load_dword {}, v[8:9]",
};

const GFX942: Generation = Generation { cpu: "gfx942", ..GFX9 };
const GFX906: Generation = Generation { cpu: "gfx906", ..GFX9 };
const GFX10: Generation = Generation { cpu: "gfx1030", add: "v_add_nc_u32_e32", ..GFX9 };

const GFX11: Generation = Generation {
    cpu: "gfx1100",
    prologue: "s_load_b64 s[2:3], s[0:1], 0x0
               v_lshlrev_b32 v1, 2, v0
               s_waitcnt lgkmcnt(0)",
    load: "global_load_b32 {}, v1, s[2:3]",
    store: "global_store_b32 v1, v5, s[2:3]",
    add: "v_add_nc_u32_e32",
    s_load: "s_load_b32 {}, s[0:1], 0x8",
    ds_load: "ds_load_b32 {}, v1",
    flat_load: "flat_load_b32 {}, v[8:9]",
    ..GFX9
};

const GFX12: Generation = Generation {
    cpu: "gfx1201",
    prologue: "s_load_b64 s[2:3], s[0:1], 0x0
               v_lshlrev_b32 v1, 2, v0
               s_wait_kmcnt 0x0",
    vmcnt: "s_wait_loadcnt {}",
    dscnt: "s_wait_dscnt {}",
    kmcnt: "s_wait_kmcnt {}",
    ..GFX11
};

const GFX1250: Generation = Generation {
    cpu: "gfx1250",
    prologue: "s_load_b64 s[2:3], s[0:1], 0x0
               v_and_b32 v1, 0x3ff, v0
               v_lshlrev_b32 v1, 2, v1
               s_wait_kmcnt 0x0",
    ..GFX12
};

const ALL: [&Generation; 7] = [&GFX906, &GFX9, &GFX942, &GFX10, &GFX11, &GFX12, &GFX1250];

impl Generation {
    /// A kernel of these lines.
    fn kernel(&self, lines: &[&str]) -> String {
        let mut text = self.prologue.to_owned();
        for line in lines {
            text += "\n";
            text += line;
        }
        text + "\ns_endpgm"
    }

    fn is_before_gfx12(&self) -> bool {
        !self.cpu.starts_with("gfx12")
    }

    /// The wait that a finding names.
    fn missing(&self, counter: &str, n: u32) -> String {
        match self.is_before_gfx12() {
            true => format!("s_waitcnt {counter}({n}) is missing"),
            false => format!("s_wait_{counter} {n:#x} is missing"),
        }
    }

    fn of(&self, template: &str, what: &str) -> String {
        template.replace("{}", what)
    }
}

#[test]
fn a_loaded_register_is_read_after_the_wait() {
    for g in ALL {
        let (load, add) = (g.of(g.load, "v2"), format!("{} v3, v2, v2", g.add));
        let missing = g.missing(if g.is_before_gfx12() { "vmcnt" } else { "loadcnt" }, 0);
        let finding =
            finds(g.cpu, &g.kernel(&[&load, &add]), &add, &format!("that writes it has completed: {missing}"));
        assert_eq!(finding.other.unwrap().text, load);
        assert_eq!(
            finding.lanes,
            if g.prologue.contains("dwordx2") && g.cpu.starts_with("gfx9") { u64::MAX } else { 0xffff_ffff }
        );
        assert_eq!(finding.around[0].as_ref().unwrap().text, load);
        assert_eq!(finding.around[1].as_ref().unwrap().text, "s_endpgm");
        finds(g.cpu, &g.kernel(&[&load, &g.of(g.vmcnt, "1"), &add]), &add, &missing);
        finds(g.cpu, &g.kernel(&[&load, &g.of(g.dscnt, "0"), &add]), &add, &missing);
        finds_nothing(g.cpu, &g.kernel(&[&load, &g.of(g.vmcnt, "0"), &add]));
    }
}

/// The example of llvm/llvm-project issue 170367: the value stored to LDS may be from before the load.
#[test]
fn a_loaded_register_is_stored_to_lds_after_the_wait() {
    for (cpu, lines) in [
        ("gfx90a", ["global_load_dword v2, v[10:11], off", "s_waitcnt vmcnt(0)", "ds_write_b32 v3, v2"]),
        ("gfx942", ["global_load_dword v2, v[10:11], off", "s_waitcnt vmcnt(0)", "ds_write_b32 v3, v2"]),
        ("gfx1100", ["global_load_b32 v2, v[10:11], off", "s_waitcnt vmcnt(0)", "ds_store_b32 v3, v2"]),
        ("gfx1201", ["global_load_b32 v2, v[10:11], off", "s_wait_loadcnt 0x0", "ds_store_b32 v3, v2"]),
    ] {
        let [load, wait, store] = lines;
        let address = "s_load_b64 s[2:3], s[0:1], 0x0";
        let address = if cpu.starts_with("gfx9") { address.replace("_b64", "_dwordx2") } else { address.to_owned() };
        let arrives = if cpu == "gfx1201" { "s_wait_kmcnt 0x0" } else { "s_waitcnt lgkmcnt(0)" };
        let begin = format!("{address}\n{arrives}\nv_mov_b32 v10, s2\nv_mov_b32 v11, s3\n{load}");
        finds_nothing(cpu, &format!("{begin}\n{wait}\n{store}\ns_endpgm"));
        let finding = finds(cpu, &format!("{begin}\n{store}\ns_endpgm"), store, "v2 is read before the ");
        assert_eq!(finding.other.unwrap().text, load);
    }
}

#[test]
fn loads_come_back_in_order() {
    for g in ALL {
        let loads = ["v2", "v3", "v4"].map(|register| g.of(g.load, register));
        let [first, second] = ["v2", "v3"].map(|register| format!("{} v6, {register}, v1", g.add));
        let lines = |n: &str, add: &str| g.kernel(&[&loads[0], &loads[1], &loads[2], &g.of(g.vmcnt, n), add]);
        finds_nothing(g.cpu, &lines("2", &first));
        finds_nothing(g.cpu, &lines("1", &second));
        let missing = g.missing(if g.is_before_gfx12() { "vmcnt" } else { "loadcnt" }, 1);
        finds(g.cpu, &lines("2", &second), &second, &missing);
    }
}

#[test]
fn stores_count_with_loads_before_gfx10_alone() {
    for g in ALL {
        let (load, add) = (g.of(g.load, "v2"), format!("{} v3, v2, v2", g.add));
        let text = g.kernel(&[&load, g.store, &g.of(g.vmcnt, "1"), &add]);
        if g.cpu.starts_with("gfx9") {
            finds_nothing(g.cpu, &text);
        } else {
            finds(g.cpu, &text, &add, "is missing");
        }
    }
}

#[test]
fn scalar_loads_come_back_in_any_order() {
    for g in ALL {
        let (first, second) = (g.of(g.s_load, "s8"), g.of(g.s_load, "s9"));
        let missing = g.missing(if g.is_before_gfx12() { "lgkmcnt" } else { "kmcnt" }, 0);
        let add = "s_add_i32 s10, s8, s8".to_owned();
        let add = if g.is_before_gfx12() { add } else { "s_add_co_i32 s10, s8, s8".to_owned() };
        let lines = |n: &str| g.kernel(&[&first, &second, &g.of(g.kmcnt, n), &add]);
        finds(g.cpu, &g.kernel(&[&first, &add]), &add, &missing);
        finds(g.cpu, &lines("1"), &add, &missing);
        finds_nothing(g.cpu, &lines("0"));
        // A vector instruction reads it as well.
        let vector = "v_mov_b32_e32 v3, s8";
        finds(g.cpu, &g.kernel(&[&first, vector]), vector, &missing);
        // The second of two registers.
        let pair = g.of(g.s_load, "s[8:9]").replace("b32", "b64").replace("dword ", "dwordx2 ").replace("0x8", "0x0");
        let vector = "v_mov_b32_e32 v3, s9";
        let finding = finds(g.cpu, &g.kernel(&[&pair, vector]), vector, "s9 is read");
        assert_eq!(finding.lanes, 0);
        finds_nothing(g.cpu, &g.kernel(&[&pair, "v_mov_b32_e32 v3, s10"]));
    }
}

/// Before gfx12 `lgkmcnt` counts both: LDS comes back in order, so that a wait tells of it whatever else there is;
/// scalar loads are back when nothing is outstanding.
#[test]
fn lds_and_scalar_loads_share_a_counter_before_gfx12() {
    for g in ALL {
        let (lds, scalar) = (["v2", "v3"].map(|register| g.of(g.ds_load, register)), g.of(g.s_load, "s8"));
        let add = format!("{} v4, v2, v2", g.add);
        let text = |n: &str| g.kernel(&[&lds[0], &lds[1], &scalar, &g.of(g.dscnt, n), &add]);
        finds_nothing(g.cpu, &text("1"));
        let missing = g.missing(if g.is_before_gfx12() { "lgkmcnt" } else { "dscnt" }, 1);
        finds(g.cpu, &text("2"), &add, &missing);
        let read = "v_mov_b32_e32 v5, s8";
        let text = g.kernel(&[&scalar, &lds[0], &g.of(g.dscnt, "0"), read]);
        if g.is_before_gfx12() {
            finds_nothing(g.cpu, &text);
            finds(g.cpu, &g.kernel(&[&scalar, &lds[0], &g.of(g.dscnt, "1"), read]), read, "s8 is read");
        } else {
            finds(g.cpu, &text, read, "s_wait_kmcnt 0x0 is missing");
        }
    }
}

/// A flat access counts for memory and for LDS, and is back where it went.
#[test]
fn flat_loads_are_waited_for_where_they_went() {
    for g in ALL {
        let load = g.of(g.flat_load, "v2");
        let use_it = format!("{} v3, v2, v2", g.add);
        let global = ["v_mov_b32_e32 v8, s2", "v_mov_b32_e32 v9, s3"];
        let [vm, ds] = if g.is_before_gfx12() { ["vmcnt", "lgkmcnt"] } else { ["loadcnt", "dscnt"] };
        let text = |wait: &str| g.kernel(&[global[0], global[1], &load, wait, &use_it]);
        finds(g.cpu, &text(&g.of(g.dscnt, "0")), &use_it, &g.missing(vm, 0));
        finds_nothing(g.cpu, &text(&g.of(g.vmcnt, "0")));
        let aperture = format!("v_mov_b32_e32 v9, {:#x}", sim_wave::SHARED_APERTURE);
        let text = |wait: &str| g.kernel(&["v_mov_b32_e32 v8, 0", &aperture, &load, wait, &use_it]);
        finds(g.cpu, &text(&g.of(g.vmcnt, "0")), &use_it, &g.missing(ds, 0));
        finds_nothing(g.cpu, &text(&g.of(g.dscnt, "0")));
    }
}

/// Before gfx10 one that went to LDS makes the counter of vector memory go down early.
#[test]
fn flat_loads_are_in_order_from_gfx10_on() {
    for g in ALL {
        let aperture = format!("v_mov_b32_e32 v9, {:#x}", sim_wave::SHARED_APERTURE);
        let (load, flat) = (g.of(g.load, "v2"), g.of(g.flat_load, "v4"));
        let use_it = format!("{} v3, v2, v2", g.add);
        let text = g.kernel(&["v_mov_b32_e32 v8, 0", &aperture, &load, &flat, &g.of(g.vmcnt, "1"), &use_it]);
        if g.cpu.starts_with("gfx9") {
            finds(g.cpu, &text, &use_it, &g.missing("vmcnt", 0));
        } else {
            finds_nothing(g.cpu, &text);
        }
    }
}

#[test]
fn a_register_that_will_be_written_is_not_overwritten() {
    for g in ALL {
        let load = g.of(g.load, "v2");
        let text = g.kernel(&[&load, "v_mov_b32_e32 v2, 0"]);
        finds(g.cpu, &text, "v_mov_b32_e32 v2, 0", "v2 is overwritten before");
        finds_nothing(g.cpu, &g.kernel(&[&load, &g.of(g.vmcnt, "0"), "v_mov_b32_e32 v2, 0"]));
        // Of two loads the later one wins, until gfx12; LDS and memory do not know of each other.
        let again = g.kernel(&[&load, &load]);
        match g.is_before_gfx12() {
            true => finds_nothing(g.cpu, &again),
            false => drop(finds(g.cpu, &again, &load, "s_wait_loadcnt 0x0 is missing")),
        }
        let lds = g.of(g.ds_load, "v2");
        finds_nothing(g.cpu, &g.kernel(&[&lds, &lds]));
        finds(g.cpu, &g.kernel(&[&load, &lds]), &lds, "v2 is overwritten before");
        let scalar = g.of(g.s_load, "s8");
        finds(g.cpu, &g.kernel(&[&scalar, &scalar]), &scalar, "s8 is overwritten before");
    }
}

#[test]
fn what_an_operation_reads_may_be_overwritten_at_once() {
    for g in ALL {
        finds_nothing(g.cpu, &g.kernel(&[&g.of(g.load, "v2"), "v_mov_b32_e32 v1, 0"]));
        finds_nothing(g.cpu, &g.kernel(&[g.store, "v_mov_b32_e32 v5, 0"]));
        // Its own address.
        finds_nothing(g.cpu, &g.kernel(&[&g.of(g.load, "v1"), &g.of(g.vmcnt, "0"), "v_mov_b32_e32 v2, v1"]));
    }
}

/// Lanes that are not loaded keep their values.
#[test]
fn other_lanes_are_not_concerned() {
    let g = &GFX11;
    let load = g.of(g.load, "v2");
    let (odd, even) = ("s_mov_b32 exec_lo, 0xaaaaaaaa", "s_mov_b32 exec_lo, 0x55555555");
    finds_nothing(g.cpu, &g.kernel(&[odd, &load, even, "v_mov_b32_e32 v2, 0"]));
    let finding = finds(
        g.cpu,
        &g.kernel(&[odd, &load, "s_mov_b32 exec_lo, 0xff", "v_mov_b32_e32 v2, 0"]),
        "v_mov_b32_e32 v2, 0",
        "v2 is overwritten",
    );
    assert_eq!(finding.lanes, 0xaa);
    // One that reads another lane, active or not.
    let readlane = "v_readlane_b32 s8, v2, 1";
    finds(g.cpu, &g.kernel(&[odd, &load, even, readlane]), readlane, "v2 is read");
}

#[test]
fn registers_that_are_not_named_are_read_as_well() {
    let g = &GFX11;
    let vcc = g.of(g.s_load, "vcc_lo");
    finds(g.cpu, &g.kernel(&[&vcc, "s_cbranch_vccz 0"]), "s_cbranch_vccz 0", "vcc_lo is read");
    let fmas = "v_div_fmas_f32 v3, v4, v5, v6";
    finds(g.cpu, &g.kernel(&[&vcc, fmas]), fmas, "vcc_lo is read");
    // The old value of the destination, both halves of a VOPD.
    let load = g.of(g.load, "v2");
    let fmac = "v_fmac_f32_e32 v2, v4, v5";
    finds(g.cpu, &g.kernel(&[&load, fmac]), fmac, "v2 is read");
    let dual = "v_dual_mov_b32 v4, v7 :: v_dual_add_f32 v5, v2, v3";
    finds(g.cpu, &g.kernel(&[&load, dual]), dual, "v2 is read");
    // The data of a store, its address, a scalar address.
    finds(g.cpu, &g.kernel(&[&g.of(g.load, "v5"), g.store]), g.store, "v5 is read");
    finds(g.cpu, &g.kernel(&[&g.of(g.load, "v1"), g.store]), g.store, "v1 is read");
    let pointer = "s_load_b64 s[2:3], s[0:1], null";
    finds(g.cpu, &g.kernel(&[pointer, g.store]), g.store, "s2 is read");
    // Accumulation registers.
    let g = &GFX9;
    let load = g.of(g.load, "a2");
    let read = "v_accvgpr_read_b32 v3, a2";
    finds(g.cpu, &g.kernel(&[&load, read]), read, "a2 is read");
}

#[test]
fn gfx12_waits_for_two_counters_at_once() {
    let g = &GFX12;
    let (load, lds) = (g.of(g.load, "v2"), g.of(g.ds_load, "v3"));
    let add = "v_add_nc_u32_e32 v4, v2, v3";
    let text = |wait: &str| g.kernel(&[&load, &lds, wait, add]);
    finds_nothing(g.cpu, &text("s_wait_loadcnt_dscnt 0x0"));
    finds(g.cpu, &text("s_wait_loadcnt_dscnt 0x100"), add, "s_wait_loadcnt 0x0 is missing");
    finds(g.cpu, &text("s_wait_loadcnt_dscnt 0x1"), add, "s_wait_dscnt 0x0 is missing");
    finds(g.cpu, &text("s_wait_storecnt_dscnt 0x0"), add, "s_wait_loadcnt 0x0 is missing");
    // An atomic that returns counts as a load, one that does not as a store.
    let returns = "global_atomic_add_u32 v2, v1, v5, s[2:3] th:TH_ATOMIC_RETURN";
    finds_nothing(g.cpu, &g.kernel(&[returns, "s_wait_loadcnt 0x0", "v_mov_b32_e32 v4, v2"]));
    finds(
        g.cpu,
        &g.kernel(&[returns, "s_wait_storecnt 0x0", "v_mov_b32_e32 v4, v2"]),
        "v_mov_b32_e32 v4, v2",
        "loadcnt",
    );
    let alone = "global_atomic_add_u32 v1, v5, s[2:3]";
    let text = g.kernel(&[&load, alone, "s_wait_loadcnt 0x1", "v_mov_b32_e32 v4, v2"]);
    finds(g.cpu, &text, "v_mov_b32_e32 v4, v2", "loadcnt");
    // An invalidation is counted.
    let text = g.kernel(&[&load, "global_inv scope:SCOPE_DEV", "s_wait_loadcnt 0x1", "v_mov_b32_e32 v4, v2"]);
    finds_nothing(g.cpu, &text);
}

#[test]
fn messages_with_an_answer_are_waited_for() {
    for (g, counter) in [(&GFX11, "s_waitcnt lgkmcnt(0)"), (&GFX12, "s_wait_kmcnt 0x0")] {
        let message = "s_sendmsg_rtn_b64 s[8:9], sendmsg(MSG_RTN_GET_REALTIME)";
        let read = "s_mov_b32 s10, s9";
        finds(g.cpu, &g.kernel(&[message, read]), read, &format!("{counter} is missing"));
        finds_nothing(g.cpu, &g.kernel(&[message, counter, read]));
    }
}

/// A counter does not exceed its field: a load with 63 later ones is complete.
#[test]
fn counters_have_a_highest_value() {
    let g = &GFX11;
    let (first, rest) = (g.of(g.load, "v2"), g.of(g.load, "v3"));
    let read = "v_mov_b32_e32 v4, v2";
    let text = |loads: usize| {
        let mut lines = vec![first.as_str()];
        lines.extend(std::iter::repeat_n(rest.as_str(), loads));
        g.kernel(&[lines.join("\n").as_str(), read])
    };
    finds(g.cpu, &text(62), read, "s_waitcnt vmcnt(62) is missing");
    finds_nothing(g.cpu, &text(63));
}

#[test]
fn blocks_load_the_registers_that_m0_chooses() {
    let g = &GFX12;
    let lines = |read: &str| {
        g.kernel(&["s_mov_b32 m0, 0x5", "global_load_block v[16:47], v1, s[2:3]", &format!("v_mov_b32_e32 v4, {read}")])
    };
    finds_nothing(g.cpu, &lines("v17"));
    finds(g.cpu, &lines("v18"), "v_mov_b32_e32 v4, v18", "v18 is read");
}

/// Each pair of instructions is told once, and counted.
#[test]
fn findings_are_told_once_and_counted() {
    let g = &GFX11;
    let (load, store) = (g.of(g.load, "v5"), g.store);
    let text = g.kernel(&[&load, store, &load, store]);
    let (result, found, _) = run_with(g.cpu, &text, With { items: 96, ..ONE_WAVE });
    result.unwrap();
    let counts: Vec<_> = found.iter().map(|(finding, times)| (finding.line.offset, *times)).collect();
    assert_eq!(counts, [(24, 3), (40, 3)]);
    let (finding, _) = &found[0];
    assert_eq!((finding.check, finding.wave, finding.workgroup), ("wait", 0, [0; 3]));
    assert_eq!(finding.pc, super::CODE + 24);
    let shown = finding.to_string();
    for part in ["wait: kernel under_test: v5 is read", "  > 0x100018 (+0x18)  global_store_b32 v1, v5, s[2:3]"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_fatal_finding_is_a_fault() {
    let g = &GFX11;
    let text = g.kernel(&[&g.of(g.load, "v5"), g.store]);
    let (result, found, buffer) = run_with(g.cpu, &text, With { fatal: true, ..ONE_WAVE });
    let fault = result.unwrap_err();
    assert!(fault.to_string().contains("v5 is read before"), "{fault}");
    assert_eq!((fault.mnemonic.as_str(), fault.pc), ("global_store_b32", found[0].0.pc));
    assert_eq!(buffer[1], 1, "the store has run");
}

/// With a seed, a program without the wait computes with the old value of the register, and one with it is unchanged.
#[test]
fn results_arrive_late_with_a_seed() {
    for g in ALL {
        let lines = |wait: &str| {
            let load = g.of(g.load, "v2");
            g.kernel(&["v_mov_b32_e32 v2, 0x64", &load, wait, &format!("{} v5, v2, v2", g.add), g.store])
        };
        let (with_wait, without) = (lines(&g.of(g.vmcnt, "0")), lines("s_nop 0"));
        let mut seen = [false; 2];
        for seed in 0..16 {
            let lanes = if g.cpu.starts_with("gfx9") { 64 } else { 32 };
            let with = With { items: lanes, seed: Some(seed), ..ONE_WAVE };
            let (result, found, buffer) = run_with(g.cpu, &with_wait, with);
            result.unwrap();
            assert!(found.is_empty());
            assert_eq!(buffer[3], 6, "{}", g.cpu);
            let (_, found, buffer) = run_with(g.cpu, &without, with);
            assert_eq!(found.len(), 1);
            match buffer[3] {
                200 => seen[0] = true,
                6 => seen[1] = true,
                other => panic!("{}: {other}", g.cpu),
            }
        }
        assert_eq!(seen, [true; 2], "{}", g.cpu);
    }
}

/// Of two loads into a register, which need no wait between them before gfx12, the second one's result stays.
#[test]
fn the_last_of_two_late_results_stays() {
    for g in ALL.into_iter().filter(|g| g.is_before_gfx12()) {
        let (first, second) = (g.of(g.load, "v2") + " offset:16", g.of(g.load, "v2"));
        let add = format!("{} v5, v2, v2", g.add);
        let text = g.kernel(&[&first, &second, &g.of(g.vmcnt, "0"), &add, g.store]);
        let items = if g.cpu.starts_with("gfx9") { 64 } else { 32 };
        for seed in 0..16 {
            let (result, found, buffer) = run_with(g.cpu, &text, With { items, seed: Some(seed), ..ONE_WAVE });
            result.unwrap();
            assert!(found.is_empty());
            assert_eq!(buffer[3], 6, "{} with seed {seed}", g.cpu);
        }
    }
}

/// Loads that write LDS are waited for as those that write registers.
#[test]
fn lds_that_a_load_writes_is_read_after_the_wait() {
    for (g, load, read) in [
        (&GFX942, "global_load_lds_dword v1, s[2:3]", "ds_read_b32 v2, v1"),
        (&GFX9, "buffer_load_dword v1, s[4:7], 0 offen lds", "ds_read_b32 v2, v1"),
        (&GFX1250, "global_load_async_to_lds_b32 v1, v1, s[2:3]", "ds_load_b32 v2, v1"),
    ] {
        let resource =
            ["s_mov_b32 m0, 0", "s_mov_b32 s4, s2", "s_mov_b32 s5, s3", "s_mov_b32 s6, 0x400", "s_mov_b32 s7, 0x20000"];
        let lines = |wait: &str| g.kernel(&[resource.as_slice(), &[load, wait, read]].concat());
        let missing = if g.is_before_gfx12() { "s_waitcnt vmcnt(0)" } else { "s_wait_asynccnt 0x0" };
        let finding = finds(g.cpu, &lines("s_nop 0"), read, &format!("{missing} is missing there"));
        assert_eq!(finding.other.unwrap().text, load);
        finds(g.cpu, &lines(&g.of(g.dscnt, "0")), read, " of wave 0 that writes it has completed: ");
        finds_nothing(g.cpu, &lines(missing));
        // Other places.
        let elsewhere = "v_add_nc_u32_e32 v1, 0x800, v1";
        let elsewhere = if g.is_before_gfx12() { "v_add_u32_e32 v1, 0x800, v1" } else { elsewhere };
        finds_nothing(g.cpu, &g.kernel(&[resource.as_slice(), &[load, elsewhere, read]].concat()));
    }
}

/// Within a wave LDS is in order; for other waves a store is there after its wait.
#[test]
fn lds_that_another_wave_stores_is_read_after_its_wait() {
    let kernel = |wait: &str, address: &str| {
        format!(
            "v_lshlrev_b32_e32 v1, 2, v0
             ds_store_b32 v1, v0
             {wait}
             s_barrier
             {address}
             ds_load_b32 v3, v2"
        ) + "\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    };
    // Each lane reads the value that the same lane of the other wave has stored.
    let (other, own) = ("v_xor_b32_e32 v2, 0x80, v1", "v_mov_b32_e32 v2, v1");
    let found = |text: &str| {
        let (result, found, _) = run_with("gfx1100", text, With { items: 64, ..ONE_WAVE });
        result.unwrap();
        found
    };
    assert_eq!(found(&kernel("s_waitcnt lgkmcnt(0)", other)), []);
    assert_eq!(found(&kernel("s_nop 0", own)), []);
    let found = found(&kernel("s_waitcnt lgkmcnt(1)", other));
    let [(finding, times)] = &found[..] else { panic!("{found:#?}") };
    // Wave 0 comes first, and finds wave 1 as it stands at the barrier; that finds wave 0 at its end.
    assert_eq!((finding.line.text.as_str(), *times), ("ds_load_b32 v3, v2", 1));
    assert!(
        finding.what.contains("LDS byte 0x80 is read before the ds_store_b32 of wave 1 that writes it"),
        "{finding}"
    );
    assert_eq!(finding.other.as_ref().unwrap().text, "ds_store_b32 v1, v0");
}

/// From gfx11 on loads and stores of one half of a register need not wait for those of the other; vector arithmetic
/// must, whichever half it names (LLVM's `FeatureD16Writes32BitVgpr`).
#[test]
fn halves_of_a_register_are_apart() {
    let (low, high) = ("global_load_d16_b16 v2, v1, s[2:3]", "global_load_d16_hi_b16 v2, v1, s[2:3] offset:64");
    let (store, store_high) = ("global_store_b16 v1, v2, s[2:3]", "global_store_d16_hi_b16 v1, v2, s[2:3] offset:64");
    for g in [&GFX11, &GFX12, &GFX1250] {
        let [one, none] = [1, 0].map(|n| g.vmcnt.replace("{}", &n.to_string()));
        finds_nothing(g.cpu, &g.kernel(&[low, high, &one, store, &none, store_high]));
        finds(g.cpu, &g.kernel(&[low, high, store, &none]), store, "v2 is read before");
        finds(g.cpu, &g.kernel(&[low, high, &one, store_high, &none]), store_high, "v2 is read before");
        // The low half is there; the instruction may write the whole register, or wait for it.
        let whole = "v_mov_b32_e32 v3, v2";
        finds(g.cpu, &g.kernel(&[low, high, &one, whole, &none]), whole, "v2 is read before");
        let half = "v_mov_b16_e32 v3.l, v2.l";
        finds(g.cpu, &g.kernel(&[low, high, &one, half, &none]), half, "v2 is read before");
        let half = "v_mov_b16_e32 v2.l, v0.l";
        finds(g.cpu, &g.kernel(&[high, half, &none]), half, "v2 is overwritten before");
        // From LDS it comes in another order, which LLVM 23 does not wait for either.
        let lds = "ds_load_u16_d16_hi v2, v1";
        let both = [&none, &g.dscnt.replace("{}", "0")];
        finds_nothing(g.cpu, &g.kernel(&[low, lds, both[0], both[1]]));
    }
    // Before, a load of one half keeps the other.
    let [low, high] = ["", "_hi"].map(|half| format!("global_load_short_d16{half} v2, v1, s[2:3]"));
    let store = "global_store_short v1, v2, s[2:3]";
    let text = GFX9.kernel(&[&low, &high, "s_waitcnt vmcnt(1)", store, "s_waitcnt vmcnt(0)"]);
    finds(GFX9.cpu, &text, store, "v2 is read before");
}

/// The check has 128 marks for the registers that a kernel loads: here `v2` and `s81` have the same.
#[test]
fn more_registers_than_marks_are_told_apart() {
    let mut loads: Vec<String> = (4..32).step_by(4).map(|n| format!("v[{n}:{}]", n + 3)).collect();
    loads.extend((0..32).step_by(4).map(|n| format!("a[{n}:{}]", n + 3)));
    let vector = loads.iter().map(|to| format!("global_load_dwordx4 {to}, v1, s[2:3]\n"));
    let scalar = (16..80).step_by(16).map(|n| format!("s_load_dwordx16 s[{n}:{}], s[2:3], 0x0\n", n + 15));
    let loads: String = vector.chain(scalar).collect();
    let load_v2 = GFX9.of(GFX9.load, "v2");
    let (load_s81, use_s81, use_v2) =
        ("s_load_dwordx16 s[80:95], s[2:3], 0x0", "s_mov_b32 s4, s81", "v_mov_b32_e32 v3, v2");
    let all_back = "s_waitcnt vmcnt(0) lgkmcnt(0)";
    let kernel = |lines: &[&str]| GFX9.kernel(&[&[&loads, all_back], lines].concat());
    let text = kernel(&[&load_v2, load_s81, "s_waitcnt lgkmcnt(0)", use_s81, use_v2, all_back]);
    finds(GFX9.cpu, &text, use_v2, &GFX9.missing("vmcnt", 0));
    let text = kernel(&[load_s81, &load_v2, "s_waitcnt vmcnt(0)", use_v2, use_s81, all_back]);
    finds(GFX9.cpu, &text, use_s81, &GFX9.missing("lgkmcnt", 0));
    finds_nothing(GFX9.cpu, &kernel(&[load_s81, &load_v2, all_back, use_v2, use_s81]));
}

/// Unreached bytes may be no code at all.
#[test]
fn code_that_is_not_reached_may_name_registers_that_the_kernel_has_not() {
    for (dwords, unreached) in [(1, "v_mov_b32_e32 v250, v251"), (2, "global_load_b32 v250, v1, s[2:3]")] {
        let branch = format!("s_cbranch_scc1 {dwords}");
        finds_nothing(GFX11.cpu, &GFX11.kernel(&["s_cmp_eq_u32 s0, s0", &branch, unreached]));
    }
}

/// Reached code that names such registers is a fault, with any checks.
#[test]
fn code_that_is_reached_and_names_registers_that_the_kernel_has_not_is_a_fault() {
    let loads = [
        (&GFX11, "global_load_b32 v250, v1, s[2:3]"),
        (&GFX11, "global_load_b128 v[62:65], v1, s[2:3]"),
        (&GFX9, "global_load_dword v32, v1, s[2:3]"),
        (&GFX9, "global_load_dwordx4 a[30:33], v1, s[2:3]"),
    ];
    let other = [With { race: true, ..ONE_WAVE }, With { init: true, ..ONE_WAVE }, With { hazard: true, ..ONE_WAVE }];
    let seeds = (0..4).map(|seed| With { seed: Some(seed), ..ONE_WAVE });
    for with in seeds.chain(other) {
        for (g, load) in loads {
            let (result, _, _) = run_with(g.cpu, &g.kernel(&[load]), with);
            let fault = result.expect_err("the kernel has not that many registers").to_string();
            assert!(fault.contains("the kernel has"), "{load}: {fault}");
        }
    }
}
