// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Unordered accesses to the same bytes. Each case is run with the missing order, too, and has no finding then.

use super::{ONE_WAVE, With, run_with, target};
use sim_wave::Finding;

/// Two waves: `s8` is the number of the wave, `v1` four times the item's number in its workgroup, `v2` the same in the
/// other wave, `s[2:3]` the buffer, `s15` the workgroup.
const GFX11: &str = "s_mov_b32 s15, s2
                     s_load_b64 s[2:3], s[0:1], 0x0
                     v_lshlrev_b32 v1, 2, v0
                     v_xor_b32 v2, 0x80, v1
                     v_lshrrev_b32_e32 v3, 5, v0
                     v_readfirstlane_b32 s8, v3
                     v_mov_b32 v5, v0
                     s_cmp_lg_u32 s8, 0
                     s_waitcnt lgkmcnt(0)";

/// Start of kernels for gfx12, with its wait instructions.
const GFX12: &str = "s_load_b64 s[2:3], s[0:1], 0x0
                     v_lshlrev_b32 v1, 2, v0
                     v_xor_b32 v2, 0x80, v1
                     v_lshrrev_b32_e32 v3, 5, v0
                     v_readfirstlane_b32 s8, v3
                     v_mov_b32 v5, v0
                     s_cmp_lg_u32 s8, 0
                     s_wait_kmcnt 0x0";

/// Start of kernels for gfx9, with waves of 64 lanes.
const GFX9: &str = "s_load_dwordx2 s[2:3], s[0:1], 0x0
                    v_lshlrev_b32 v1, 2, v0
                    v_xor_b32 v2, 0x100, v1
                    v_lshrrev_b32_e32 v3, 6, v0
                    v_readfirstlane_b32 s8, v3
                    v_mov_b32 v5, v0
                    s_cmp_lg_u32 s8, 0
                    s_waitcnt lgkmcnt(0)";

const TWO_WAVES: With = With { items: 64, race: true, ..ONE_WAVE };
const SPLIT: With = With { split: true, ..TWO_WAVES };

fn found(cpu: &str, lines: &[&str], with: With) -> Vec<Finding> {
    let (prologue, items) = match cpu {
        "gfx1201" | "gfx1250" => (GFX12, with.items),
        cpu if target(cpu).is_gfx9() => (GFX9, 2 * with.items),
        _ => (GFX11, with.items),
    };
    let text = format!("{prologue}\n{}\ns_endpgm", lines.join("\n"));
    let (result, found, _) = run_with(cpu, &text, With { items, ..with });
    result.unwrap_or_else(|fault| panic!("{cpu}: {fault}"));
    found.into_iter().map(|(finding, _)| finding).collect()
}

/// Asserts that there is no finding, and that without the line `without` there are races: one at `line`, whose text
/// contains `what`.
#[track_caller]
fn orders(cpu: &str, lines: &[&str], with: With, without: usize, line: &str, what: &str) {
    let right = found(cpu, lines, with);
    assert!(right.is_empty(), "{cpu}: {} in {lines:#?}", right[0]);
    let mut lines = lines.to_vec();
    lines.remove(without);
    finds(cpu, &lines, with, line, what);
}

#[track_caller]
fn finds(cpu: &str, lines: &[&str], with: With, line: &str, what: &str) -> Finding {
    let found = found(cpu, lines, with);
    // Both waves do the same, so that the other way around there may be one as well.
    assert!(found.iter().all(|finding| finding.check == "race"), "{cpu}: found {found:#?} in {lines:#?}");
    let is_it = |finding: &&Finding| finding.line.text == line && finding.what.contains(what);
    found.iter().find(is_it).unwrap_or_else(|| panic!("{cpu}: found {found:#?} in {lines:#?}")).clone()
}

#[test]
fn a_barrier_orders_lds() {
    let lines = ["ds_store_b32 v1, v5", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_load_b32 v6, v2"];
    orders("gfx1100", &lines, TWO_WAVES, 2, "ds_load_b32 v6, v2", "previous write by wave 0 at ");
    let lines = ["ds_write_b32 v1, v5", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b32 v6, v2"];
    for cpu in ["gfx90a", "gfx942"] {
        orders(cpu, &lines, TWO_WAVES, 2, "ds_read_b32 v6, v2", "previous write by wave 0 at ");
    }
}

#[test]
fn a_barrier_orders_what_was_waited_for() {
    let load = "ds_load_b32 v6, v2";
    let lines = ["ds_store_b32 v1, v5", "s_waitcnt lgkmcnt(0)", "s_barrier", load];
    orders("gfx1100", &lines, TWO_WAVES, 1, load, "previous ");
    let split = ["ds_store_b32 v1, v5", "s_wait_dscnt 0x0", "s_barrier_signal -1", "s_barrier_wait -1", load];
    orders("gfx1201", &split, TWO_WAVES, 1, load, "previous ");
    // The wait is too late after the signal.
    let late = ["ds_store_b32 v1, v5", "s_barrier_signal -1", "s_wait_dscnt 0x0", "s_barrier_wait -1", load];
    finds("gfx1201", &late, TWO_WAVES, load, "previous ");
}

#[test]
fn what_one_reads_another_does_not_overwrite() {
    // Wave 0 reads bytes that wave 1 overwrites.
    let lines = ["ds_load_b32 v6, v2", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_store_b32 v1, v5"];
    orders("gfx1100", &lines, TWO_WAVES, 2, "ds_load_b32 v6, v2", "previous write by wave 0 at ");
    // Wave 1 alone does.
    let lines = ["s_cbranch_scc1 2", "ds_load_b32 v6, v2", "s_cbranch_scc0 2", "ds_store_b32 v1, v5"];
    finds("gfx1100", &lines, TWO_WAVES, "ds_store_b32 v1, v5", "previous read by wave 0 at ");
}

#[test]
fn a_barrier_orders_what_was_before_it_alone() {
    // Wave 0 stores after the barrier, before wave 1 continues from it.
    let lines = ["s_barrier", "ds_store_b32 v1, v5", "ds_load_b32 v6, v2"];
    finds("gfx1100", &lines, TWO_WAVES, "ds_load_b32 v6, v2", "previous write by wave 0 at ");
    // Barriers follow each other, so that wave 0 is at the second one when wave 1 leaves the first.
    let lines = [
        "s_barrier",
        "ds_store_b32 v1, v5",
        "s_waitcnt lgkmcnt(0)",
        "s_cbranch_scc0 2",
        "ds_load_b32 v6, v2",
        "s_barrier",
    ];
    finds("gfx1100", &lines, TWO_WAVES, "ds_load_b32 v6, v2", "previous write by wave 0 at ");
}

#[test]
fn bytes_are_told_apart() {
    // Neighbouring bytes of a dword, by two waves.
    let lines = ["v_mov_b32 v4, s8", "ds_store_b8 v4, v5"];
    let none = found("gfx1100", &["s_mov_b32 exec_lo, 1", lines[0], lines[1]], TWO_WAVES);
    assert!(none.is_empty(), "{}", none[0]);
    let lines = ["s_mov_b32 exec_lo, 1", "v_mov_b32 v4, s8", "ds_store_b16 v4, v5"];
    finds("gfx1100", &lines, TWO_WAVES, "ds_store_b16 v4, v5", "previous write by wave 0 at ");
}

/// As in copies with unaligned ends: the second store begins within the bytes that the first one wrote.
#[test]
fn stores_that_overlap_are_compared_where_they_do() {
    let lines = ["s_mov_b32 exec_lo, 1", "v_mov_b32 v5, 0x07070707", "v_mov_b32 v4, s8", "ds_store_b16 v4, v5"];
    let none = found("gfx1100", &lines, TWO_WAVES);
    assert!(none.is_empty(), "{}", none[0]);
    let equal = found("gfx1100", &lines, With { equal: true, ..TWO_WAVES });
    assert_eq!(equal[0].check, "equal");
}

#[test]
fn lanes_of_one_instruction_store_the_same_or_elsewhere() {
    let lines = ["v_mov_b32 v4, 0", "ds_store_b32 v4, v5"];
    let one_wave = With { items: 32, ..TWO_WAVES };
    let finding = finds("gfx1100", &lines, one_wave, "ds_store_b32 v4, v5", "write by several lanes of wave 0 at +");
    assert_eq!(finding.lanes, 0xffff_ffff);
    let same = ["v_mov_b32 v4, 0", "ds_store_b32 v4, v4"];
    assert!(found("gfx1100", &same, one_wave).is_empty());
    let equal = found("gfx1100", &same, With { equal: true, ..one_wave });
    assert_eq!(equal[0].check, "equal");
    // To memory as well, and by several waves.
    let lines = ["v_mov_b32 v4, 0", "global_store_b32 v4, v5, s[2:3]"];
    finds("gfx1100", &lines, one_wave, lines[1], "write by several lanes of wave");
    let same = ["v_mov_b32 v4, 4", "global_store_b32 v4, v4, s[2:3]", "global_load_b32 v6, v4, s[2:3]"];
    let none = found("gfx1100", &same, TWO_WAVES);
    assert!(none.is_empty(), "{}", none[0]);
    assert!(!found("gfx1100", &same, With { equal: true, ..TWO_WAVES }).is_empty());
}

#[test]
fn threads_see_what_each_other_stores() {
    // Two workgroups each, at about the same time, store the same value to untouched memory.
    let with = With { items: 32, groups: 512, threads: 2, ..TWO_WAVES };
    let lines = [
        "s_lshr_b32 s14, s15, 1",
        "s_lshl_b32 s13, s14, 2",
        "s_addk_i32 s14, 0x1000",
        "v_mov_b32 v1, s13",
        "v_mov_b32 v5, s14",
        "s_movk_i32 s12, 2000",
        "s_addk_i32 s12, -1",
        "s_cmp_lg_u32 s12, 0",
        "s_cbranch_scc1 -3",
        "s_mov_b32 exec_lo, 1",
        "global_store_b32 v1, v5, s[2:3]",
    ];
    for _ in 0..20 {
        let none = found("gfx1100", &lines, with);
        assert!(none.is_empty(), "{}", none[0]);
    }
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let lines = ["v_mov_b32 v4, 0", "ds_add_u32 v4, v5", "global_atomic_add_u32 v4, v5, s[2:3]"];
    assert!(found("gfx1100", &lines, TWO_WAVES).is_empty());
    let lines = ["v_mov_b32 v4, 0", "ds_add_u32 v4, v5", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_load_b32 v6, v4"];
    orders("gfx1100", &lines, TWO_WAVES, 3, "ds_add_u32 v4, v5", "previous read by wave 0 at ");
    // Where wave 1 does not change it itself.
    let lines = ["v_mov_b32 v4, 0", "s_cbranch_scc1 2", "ds_add_u32 v4, v5", "ds_load_b32 v6, v4"];
    finds("gfx1100", &lines, TWO_WAVES, "ds_load_b32 v6, v4", "previous atomic by wave 0 at ");
}

#[test]
fn compute_units_have_caches_of_their_own() {
    let load = "global_load_b32 v6, v2, s[2:3]";
    let lines = ["global_store_b32 v1, v5, s[2:3]", "s_waitcnt_vscnt null, 0x0", "s_barrier", "buffer_gl0_inv", load];
    for without in 1..4 {
        orders("gfx1100", &lines, SPLIT, without, load, "previous write by wave ");
    }
    // The waves of one compute unit have one cache, which takes accesses in order.
    assert!(found("gfx1100", &[lines[0], lines[2], lines[4]], TWO_WAVES).is_empty());
    finds("gfx1100", &[lines[0], lines[4]], TWO_WAVES, load, "previous write by wave 0 at ");
    let load = "global_load_dword v6, v2, s[2:3]";
    let lines = ["global_store_dword v1, v5, s[2:3]", "s_barrier", load];
    for cpu in ["gfx90a", "gfx942"] {
        orders(cpu, &lines, TWO_WAVES, 1, load, "previous write by wave 0 at ");
    }
}

/// Each of two workgroups of one wave stores and increments a counter. The second one reads the first one's data if the
/// counter says that the first one is done.
const LAST: With = With { items: 32, groups: 2, ..TWO_WAVES };

#[test]
fn atomics_order_workgroups() {
    let load = "global_load_b32 v6, v4, s[2:3] offset:8";
    let lines = [
        "v_mov_b32 v4, 0",
        "s_mov_b32 exec_lo, 1",
        "v_mov_b32 v7, 1",
        "global_atomic_add_u32 v8, v4, v7, s[2:3] offset:512 glc",
        "s_waitcnt vmcnt(0)",
        "v_readfirstlane_b32 s9, v8",
        // 128 is the buffer's value there.
        "s_cmp_lg_u32 s9, 0x80",
        "s_cbranch_scc1 6",
        "global_store_b32 v4, v7, s[2:3] offset:8",
        "s_waitcnt_vscnt null, 0x0",
        "global_atomic_add_u32 v4, v7, s[2:3] offset:516",
        "s_nop 0",
        "global_atomic_add_u32 v8, v4, v7, s[2:3] offset:516 glc",
        "s_waitcnt vmcnt(0)",
        "buffer_gl1_inv",
        "buffer_gl0_inv",
        load,
    ];
    let none = found("gfx1100", &lines, LAST);
    assert!(none.is_empty(), "{}", none[0]);
    // Without the wait, either invalidation, or the atomic that reads.
    for without in [9, 12, 14, 15] {
        let mut wrong = lines;
        // As many dwords, so that the branch goes where it did.
        wrong[without] = "s_nop 0";
        finds("gfx1100", &wrong, LAST, load, "previous write by wave 0 of workgroup (0, 0, 0) at ");
    }
}

/// gfx12 may do an atomic in a cache that no other compute unit has, or no other shader engine.
#[test]
fn atomics_of_gfx12_reach_whom_their_scope_says() {
    let add = |scope: &str| format!("global_atomic_add_u32 v4, v5, s[2:3]{scope}");
    let scopes = ["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"];
    for (scope, name) in scopes.into_iter().zip(["SCOPE_CU", "SCOPE_SE", "", ""]) {
        let add = add(scope);
        for cpu in ["gfx1201", "gfx1250"] {
            let lines = ["v_mov_b32 v4, 0", &add];
            if name.is_empty() {
                assert!(found(cpu, &lines, LAST).is_empty(), "{cpu}: {add}");
            } else {
                let what = format!(": an atomic's {name} does not reach the other wave");
                let finding = finds(cpu, &lines, LAST, &add, &what);
                assert!(finding.what.contains("previous atomic by wave 0 of workgroup (0, 0, 0) at +"), "{finding}");
            }
            // To a counter of each workgroup's own.
            assert!(found(cpu, &["v_mov_b32 v4, ttmp9", "v_lshlrev_b32 v4, 2, v4", &add], LAST).is_empty());
            assert!(found(cpu, &lines, TWO_WAVES).is_empty(), "{cpu}: {add}");
        }
        // The waves of a workgroup on both units of a WGP.
        let found = found("gfx1201", &["v_mov_b32 v4, 0", &add], SPLIT);
        assert_eq!(found.len(), usize::from(name == "SCOPE_CU"), "{add}");
    }
    // It takes both: one workgroup has the larger scope, or reads with it.
    let load = "global_load_b32 v6, v4, s[2:3] scope:SCOPE_DEV";
    for other in [&add(scopes[2]), load] {
        let first = add(scopes[0]);
        let lines = ["v_mov_b32 v4, 0", "s_cmp_lg_u32 ttmp9, 0", "s_cbranch_scc1 4", &first, "s_endpgm", other];
        finds("gfx1201", &lines, LAST, other, "an atomic's SCOPE_CU does not reach");
    }
    // LDS is the workgroup's.
    assert!(found("gfx1201", &["v_mov_b32 v4, 0", "ds_add_u32 v4, v5"], SPLIT).is_empty());
}

/// Atomics of any scope may follow each other, if something of the device's scope has them do so.
#[test]
fn atomics_of_a_small_scope_can_be_in_order() {
    let add = "global_atomic_add_u32 v4, v7, s[2:3] offset:8";
    let lines = [
        "v_mov_b32 v4, 0",
        "s_mov_b32 exec_lo, 1",
        "v_mov_b32 v7, 1",
        "global_atomic_add_u32 v8, v4, v7, s[2:3] offset:512 th:TH_ATOMIC_RETURN scope:SCOPE_DEV",
        "s_wait_loadcnt 0x0",
        "v_readfirstlane_b32 s9, v8",
        // 128 is the buffer's value there.
        "s_cmp_lg_u32 s9, 0x80",
        "s_cbranch_scc1 8",
        add,
        "s_wait_storecnt 0x0",
        "global_atomic_add_u32 v4, v7, s[2:3] offset:516 scope:SCOPE_DEV",
        "s_endpgm",
        "global_atomic_add_u32 v8, v4, v7, s[2:3] offset:516 th:TH_ATOMIC_RETURN scope:SCOPE_DEV",
        "s_wait_loadcnt 0x0",
        "global_inv scope:SCOPE_DEV",
        add,
    ];
    let none = found("gfx1201", &lines, LAST);
    assert!(none.is_empty(), "{}", none[0]);
    // Without the wait, and without the invalidation: the unit's cache may have older data.
    let mut wrong = lines;
    wrong[9] = "s_nop 0";
    finds("gfx1201", &wrong, LAST, add, "an atomic's SCOPE_CU does not reach");
    finds("gfx1201", &[&lines[..14], &lines[15..]].concat(), LAST, add, "an atomic's SCOPE_CU does not reach");
}

#[test]
fn workgroups_do_not_share_lds() {
    let with = With { items: 32, groups: 4, ..TWO_WAVES };
    assert!(found("gfx1100", &["ds_store_b32 v1, v5", "ds_load_b32 v6, v2"], with).is_empty());
    // To the same place they store the same.
    assert!(found("gfx1100", &["global_store_b32 v1, v5, s[2:3]"], with).is_empty());
    let lines = ["v_mov_b32 v5, s15", "global_store_b32 v1, v5, s[2:3]"];
    finds("gfx1100", &lines, with, lines[1], "previous write by wave 0 of workgroup (0, 0, 0) at ");
}

#[test]
fn arguments_end_where_the_kernel_says() {
    // The descriptor of these tests says 24 bytes, which compilers may read 32 of.
    let with = With { bounds: true, race: false, ..ONE_WAVE };
    assert!(found("gfx1100", &["s_load_b128 s[4:7], s[0:1], 0x10", "s_waitcnt lgkmcnt(0)"], with).is_empty());
    let found = found("gfx1100", &["s_load_b128 s[4:7], s[0:1], 0x14", "s_waitcnt lgkmcnt(0)"], with);
    assert_eq!(found[0].check, "bounds");
    assert!(
        found[0].what.contains("out-of-bounds read of kernel arguments: 16 bytes at offset 20, of 24"),
        "{}",
        found[0]
    );
}

/// Wave 0 produces, wave 1 consumes.
#[test]
fn named_barriers_order_lds() {
    let load = "ds_load_b32 v6, v2";
    let lines = [
        "s_mov_b32 m0, 0x10001",
        "s_barrier_init m0",
        "s_barrier_join m0",
        "s_barrier_signal -1",
        "s_barrier_wait -1",
        "s_cmp_lg_u32 s8, 0",
        "s_cbranch_scc1 4",
        "ds_store_b32 v1, v5",
        "s_wait_dscnt 0x0",
        "s_barrier_signal 1",
        "s_endpgm",
        "s_barrier_wait 1",
        load,
    ];
    // A store has two dwords.
    let mut right = lines;
    right[6] = "s_cbranch_scc1 5";
    let none = found("gfx1250", &right, TWO_WAVES);
    assert!(none.is_empty(), "{}", none[0]);
    for without in [8, 11] {
        let mut wrong = right;
        wrong[without] = "s_nop 0";
        finds("gfx1250", &wrong, TWO_WAVES, load, "previous write by wave 0 at ");
    }
    // A store behind the signal is not ordered.
    let mut wrong = right;
    wrong.swap(8, 9);
    finds("gfx1250", &wrong, TWO_WAVES, load, "previous write by wave 0 at ");
}

/// For atomics that a GPU lacks, compilers load the value that a compare-and-swap then expects. A stale value makes the
/// loop run once more.
#[test]
fn loads_of_what_a_compare_and_swap_expects_are_no_races() {
    let cases: [(&str, [&str; 2], &str, &str); 4] = [
        (
            "gfx1100",
            ["global_load_b32 v7, v4, s[2:3]", "s_waitcnt vmcnt(0)"],
            "v_add_nc_u32 v6, 1, v7",
            "global_atomic_cmpswap_b32 v8, v4, v[6:7], s[2:3] glc",
        ),
        (
            "gfx1201",
            ["global_load_b32 v7, v4, s[2:3]", "s_wait_loadcnt 0x0"],
            "v_add_nc_u32 v6, 1, v7",
            "global_atomic_cmpswap_b32 v8, v4, v[6:7], s[2:3] th:TH_ATOMIC_RETURN scope:SCOPE_DEV",
        ),
        (
            "gfx942",
            ["global_load_dword v7, v4, s[2:3]", "s_waitcnt vmcnt(0)"],
            "v_add_u32 v6, 1, v7",
            "global_atomic_cmpswap v8, v4, v[6:7], s[2:3] sc0",
        ),
        (
            "gfx1100",
            ["ds_load_b32 v7, v4", "s_waitcnt lgkmcnt(0)"],
            "v_add_nc_u32 v6, 1, v7",
            "ds_cmpstore_rtn_b32 v8, v4, v6, v7",
        ),
    ];
    for (cpu, [load, wait], add, swap) in cases {
        let lines = ["v_mov_b32 v4, 0", load, wait, add, swap, wait];
        let none = found(cpu, &lines, TWO_WAVES);
        assert!(none.is_empty(), "{cpu}: {}", none[0]);
        // The loaded value is not the expected one, or is overwritten in between.
        let other = load.replace("v7", "v9");
        assert!(!found(cpu, &["v_mov_b32 v4, 0", &other, wait, add, swap, wait], TWO_WAVES).is_empty(), "{cpu}");
        let overwritten = ["v_mov_b32 v4, 0", load, wait, "v_mov_b32 v7, 0", swap, wait];
        assert!(!found(cpu, &overwritten, TWO_WAVES).is_empty(), "{cpu}");
        // Plain stores race with it all the same.
        let store = match load {
            _ if load.starts_with("ds") => "ds_store_b32 v4, v5",
            _ if cpu == "gfx942" => "global_store_dword v4, v5, s[2:3]",
            _ => "global_store_b32 v4, v5, s[2:3]",
        };
        let stored = ["v_mov_b32 v4, 0", store, load, wait, add, swap, wait];
        assert!(!found(cpu, &stored, TWO_WAVES).is_empty(), "{cpu}");
    }
}

/// Where the address is uniform, the first load of such a loop is scalar.
#[test]
fn scalar_loads_of_what_a_compare_and_swap_expects_are_no_races() {
    let wait = "s_waitcnt lgkmcnt(0)";
    let narrow = (
        "s_load_b32 s8, s[2:3], 0x0",
        vec!["v_mov_b32 v7, s8"],
        "global_atomic_cmpswap_b32 v10, v4, v[6:7], s[2:3] glc",
    );
    let wide = (
        "s_load_b64 s[8:9], s[2:3], 0x0",
        vec!["v_dual_mov_b32 v8, s8 :: v_dual_mov_b32 v9, s9"],
        "global_atomic_cmpswap_b64 v[10:11], v4, v[6:9], s[2:3] glc",
    );
    for (load, moves, swap) in [narrow, wide] {
        let lines = |between: &[&'static str], moves: &[&'static str]| {
            let begin = ["v_mov_b32 v4, 0", "v_mov_b32 v6, 1", "v_mov_b32 v7, 0", load, wait];
            [&begin, between, moves, &[swap, "s_waitcnt vmcnt(0)"]].concat()
        };
        let none = found("gfx1100", &lines(&[], &moves), TWO_WAVES);
        assert!(none.is_empty(), "{swap}: {}", none[0]);
        assert!(!found("gfx1100", &lines(&["s_mov_b32 s8, 0"], &moves), TWO_WAVES).is_empty(), "{swap}");
        assert!(!found("gfx1100", &lines(&[], &["v_mov_b32 v8, s8"]), TWO_WAVES).is_empty(), "{swap}");
    }
}

/// LDS has no caches for a flat access to go by.
#[test]
fn volatile_accesses_of_lds_are_no_atomics() {
    // The third argument is where flat accesses reach LDS.
    let lines = |load: &'static str| {
        let own = "v_add_co_u32 v6, vcc_lo, s10, v1";
        let other = "v_add_co_u32 v8, vcc_lo, s10, v2";
        let high = ["v_mov_b32 v7, s11", "v_mov_b32 v9, s11"];
        let address = ["s_load_b64 s[10:11], s[0:1], 0x10", "s_waitcnt lgkmcnt(0)"];
        [&address[..], &[own, other], &high, &["flat_store_b32 v[6:7], v5", load, "s_waitcnt vmcnt(0) lgkmcnt(0)"]]
            .concat()
    };
    for load in ["flat_load_b32 v10, v[8:9] glc dlc", "flat_load_b32 v10, v[8:9]"] {
        let found = found("gfx1100", &lines(load), TWO_WAVES);
        assert!(found.iter().any(|finding| finding.line.text == load), "{load}: {found:#?}");
    }
}

/// A wave that has waited for a write-back knows that its die's cache has written its stores back.
#[test]
fn a_write_back_that_is_not_waited_for_releases_nothing() {
    let load = "global_load_dword v6, v4, s[2:3] offset:8";
    let lines = [
        "v_mov_b32 v4, 0",
        "s_mov_b64 exec, 1",
        "v_mov_b32 v7, 1",
        "global_atomic_add v8, v4, v7, s[2:3] offset:512 sc0 sc1",
        "s_waitcnt vmcnt(0)",
        "v_readfirstlane_b32 s9, v8",
        // 128 is the buffer's value there.
        "s_cmpk_lg_u32 s9, 0x80",
        "s_cbranch_scc1 9",
        "global_store_dword v4, v7, s[2:3] offset:8",
        "s_waitcnt vmcnt(0)",
        "buffer_wbl2 sc1",
        "s_waitcnt vmcnt(0)",
        "global_atomic_add v4, v7, s[2:3] offset:516 sc1",
        "s_endpgm",
        "global_atomic_add v8, v4, v7, s[2:3] offset:516 sc0 sc1",
        "s_waitcnt vmcnt(0)",
        "buffer_inv sc1",
        load,
    ];
    let none = found("gfx942", &lines, LAST);
    assert!(none.is_empty(), "{}", none[0]);
    // The write-back, and the wait behind it; LLVM has none in front of it.
    for (without, nops) in [(10, 2), (11, 1)] {
        let mut wrong = lines.to_vec();
        wrong.splice(without..=without, std::iter::repeat_n("s_nop 0", nops));
        finds("gfx942", &wrong, LAST, load, "previous write by wave 0 of workgroup (0, 0, 0) at ");
    }
}

/// Waves that wait for an LDS barrier read its state, which others' arrivals change, and then the others' stores.
#[test]
fn arrivals_at_a_barrier_in_lds_order_waves() {
    let text = "v_lshlrev_b32 v1, 2, v0
         v_mov_b32 v2, 0
         v_mov_b64 v[4:5], 0x100000001
         v_cmp_eq_u32 vcc_lo, 0, v0
         s_and_saveexec_b32 s4, vcc_lo
         ds_store_b64 v2, v[4:5]
         s_mov_b32 exec_lo, s4
         s_wait_dscnt 0x0
         s_barrier_signal -1
         s_barrier_wait -1
         ds_store_b32 v1, v0 offset:64
         v_mov_b64 v[4:5], 1
         s_wait_dscnt 0x0
         ds_atomic_barrier_arrive_rtn_b64 v[6:7], v2, v[4:5]
         ds_load_b32 v8, v2
         s_wait_dscnt 0x0
         v_and_b32 v8, 0x20000000, v8
         v_cmp_eq_u32 vcc_lo, 0, v8
         s_cbranch_vccnz 65529
         v_xor_b32 v1, 0x80, v1
         ds_load_b32 v3, v1 offset:64
         s_wait_dscnt 0x0
         s_endpgm";
    let with = With { items: 64, race: true, ..ONE_WAVE };
    let found = |text: &str| {
        let (result, found, _) = run_with("gfx1250", text, with);
        result.unwrap();
        found
    };
    assert!(found(text).is_empty(), "{:?}", found(text));
    // An asynchronous load is in front of an arrival of its kind, and of no other one.
    let load = "s_load_b64 s[2:3], s[0:1], 0x0
                v_mov_b32 v9, v1
                s_wait_kmcnt 0x0
                global_load_async_to_lds_b32 v1, v9, s[2:3] offset:64";
    let loaded = text.replace("ds_store_b32 v1, v0 offset:64", load);
    let told = found(&loaded);
    assert!(told.len() == 1 && told[0].0.to_string().contains("previous write by "), "{told:?}");
    let arrival = "ds_atomic_barrier_arrive_rtn_b64 v[6:7], v2, v[4:5]";
    let ordered = loaded.replace(arrival, "ds_atomic_async_barrier_arrive_b64 v2");
    assert!(found(&ordered).is_empty(), "{:?}", found(&ordered));
}
