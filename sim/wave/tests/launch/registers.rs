// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Waves begin with zeros in the vector registers that they can read before they write them, whatever the waves before
//! them on the same thread have left there.

use crate::rig::launch;
use crate::{Map, load_for};
use sim_isa::Target;
use sim_llvm::assemble;
use sim_wave::{Jit, Launch, run};

/// Runs a kernel over four workgroups of 64, and returns what their work-items have stored from `v2`: lines of code
/// that may change `v1` to `v9`.
fn stored(target: Target, lanes: u32, cpu: &str, body: &[&str], jit: Jit) -> Vec<u32> {
    let gfx9 = target == Target::Gfx942;
    let head = if gfx9 {
        ["s_load_dwordx2 s[6:7], s[0:1], 0x0", "s_lshl_b32 s2, s2, 8", "s_waitcnt lgkmcnt(0)"]
    } else {
        ["s_load_b64 s[6:7], s[0:1], 0x0", "s_lshl_b32 s2, s2, 8", "s_waitcnt lgkmcnt(0)"]
    };
    let tail = if gfx9 {
        ["v_lshlrev_b32 v1, 2, v0", "v_add_u32 v1, s2, v1", "global_store_dword v1, v2, s[6:7]", "s_endpgm"]
    } else {
        ["v_lshlrev_b32 v1, 2, v0", "v_add_nc_u32 v1, s2, v1", "global_store_b32 v1, v2, s[6:7]", "s_endpgm"]
    };
    let lines: Vec<String> = head.iter().chain(body).chain(&tail).map(|&line| line.to_owned()).collect();
    let code: Vec<u32> = assemble(cpu, &lines).into_iter().flat_map(Option::unwrap).collect();
    let (out, map) = (vec![u32::MAX; 256], Map::default());
    let arguments = [map.of(&out, true)];
    map.of(&arguments, false);
    let launch = Launch { jit, ..launch([256, 1, 1], [64, 1, 1], &arguments) };
    run(&load_for(target, lanes, &code), &launch, &map).unwrap();
    // SAFETY: the kernel wrote it through the address in the map.
    out.iter().map(|value| unsafe { std::ptr::read_volatile(value) }).collect()
}

#[test]
fn registers_that_are_read_first_are_zero() {
    for jit in [Jit::OFF, Jit::ALWAYS, Jit::ALWAYS.with_avx2()] {
        let body = ["v_add_nc_u32 v2, v3, v4", "v_mov_b32 v3, 7", "v_mov_b32 v4, 9"];
        assert_eq!(stored(Target::Gfx11, 32, "gfx1100", &body, jit), [0; 256]);
        // Half of it is read, and the other half is kept.
        let body =
            ["v_mov_b32 v3, 1.0", "v_cvt_f16_f32 v2, v3", "v_and_b32 v2, 0xffff0000, v2", "v_add_nc_u32 v2, v5, v2"];
        let body = [&body[..], &["v_mov_b32 v5, -1"]].concat();
        assert_eq!(stored(Target::Gfx11, 32, "gfx1100", &body, jit), [0; 256]);
        let body = ["v_add_u32 v2, v3, v3", "v_mov_b32 v3, 7"];
        assert_eq!(stored(Target::Gfx942, 64, "gfx942", &body, jit), [0; 256]);
    }
}

#[test]
fn lanes_that_were_inactive_are_zero() {
    for jit in [Jit::OFF, Jit::ALWAYS, Jit::ALWAYS.with_avx2()] {
        let body = ["s_mov_b32 exec_lo, 1", "v_mov_b32 v2, 5", "s_mov_b32 exec_lo, -1", "v_mov_b32 v3, v2"];
        let dirty = ["v_mov_b32 v2, -1", "v_mov_b32 v2, v3"];
        let expected: Vec<u32> = (0..256).map(|lane| if lane % 32 == 0 { 5 } else { 0 }).collect();
        assert_eq!(stored(Target::Gfx11, 32, "gfx1100", &[&body[..], &dirty].concat(), jit), expected);
        // Behind a branch that is not taken.
        let body = ["s_cmp_eq_u32 s2, -1", "s_cbranch_scc1 1", "v_add_nc_u32 v2, v6, v7", "v_mov_b32 v6, -1"];
        assert_eq!(stored(Target::Gfx11, 32, "gfx1100", &body, jit), [0; 256]);
    }
}

#[test]
fn lanes_and_paths_without_a_write_are_zero() {
    for jit in [Jit::OFF, Jit::ALWAYS, Jit::ALWAYS.with_avx2()] {
        let dirty = ["v_mov_b32 v3, -1"];
        let stored = |body: &[&str]| stored(Target::Gfx11, 32, "gfx1100", &[body, &dirty].concat(), jit);
        // A lane is read that was inactive where the others were written.
        let across = ["v_readlane_b32 s8, v3, 1", "s_mov_b32 exec_lo, -1", "v_mov_b32 v2, s8"];
        assert_eq!(stored(&[&["v_cmpx_gt_u32 1, v0", "v_mov_b32 v3, 7"], &across[..]].concat()), [0; 256]);
        // A branch skips the write.
        let body = ["s_cmp_eq_u32 s2, s2", "s_cbranch_scc1 1", "v_mov_b32 v3, 7", "v_mov_b32 v2, v3"];
        assert_eq!(stored(&body), [0; 256]);
        // The second turn of a loop reads what the first one wrote.
        let body = ["s_mov_b32 s8, 2", "v_mov_b32 v2, v3", "v_mov_b32 v3, 7", "s_sub_u32 s8, s8, 1"];
        let back = ["s_cmp_lg_u32 s8, 0", "s_cbranch_scc1 65531"];
        assert_eq!(stored(&[&body[..], &back].concat()), [7; 256]);
        // So does a loop of one turn not.
        let once = [&["s_mov_b32 s8, 1"], &body[1..], &back].concat();
        assert_eq!(stored(&once), [0; 256]);
    }
}

/// The last wave has only some lanes, whose neighbours are read.
#[test]
fn waves_with_some_lanes_begin_with_zeros() {
    let lines = [
        "s_load_b64 s[6:7], s[0:1], 0x0",
        "s_lshl_b32 s2, s2, 7",
        "v_lshlrev_b32 v1, 2, v0",
        "v_mov_b32 v2, 3",
        "s_mov_b32 exec_lo, -1",
        "v_add_nc_u32 v1, s2, v1",
        "s_waitcnt lgkmcnt(0)",
        "v_mbcnt_lo_u32_b32 v4, -1, 0",
        "v_lshlrev_b32 v4, 2, v4",
        "v_add_nc_u32 v4, s2, v4",
        "global_store_b32 v4, v2, s[6:7]",
        "s_endpgm",
    ];
    let code: Vec<u32> = assemble("gfx1100", &lines.map(str::to_owned)).into_iter().flat_map(Option::unwrap).collect();
    let (out, map) = (vec![u32::MAX; 64], Map::default());
    let arguments = [map.of(&out, true)];
    map.of(&arguments, false);
    let launch = Launch { jit: Jit::OFF, ..launch([40, 1, 1], [32, 1, 1], &arguments) };
    run(&load_for(Target::Gfx11, 32, &code), &launch, &map).unwrap();
    // SAFETY: the kernel wrote it through the address in the map.
    let out: Vec<u32> = out.iter().map(|value| unsafe { std::ptr::read_volatile(value) }).collect();
    let expected: Vec<u32> = (0..64).map(|lane| if lane < 40 { 3 } else { 0 }).collect();
    assert_eq!(out, expected);
}
