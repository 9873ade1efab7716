// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Waves that do not meet at barriers. Wave 1 of two is the one with `s8` not zero.

use super::{ONE_WAVE, With, run_with};
use sim_wave::{FaultKind, Finding};

/// `s8` is the number of the wave, from the first lane's id.
const WHICH_WAVE: &str = "v_lshrrev_b32_e32 v1, 5, v0
                          v_readfirstlane_b32 s8, v1
                          s_cmp_lg_u32 s8, 0";

/// Runs two waves of 32 lanes. Returns the findings, and true if the waves end.
fn two_waves(cpu: &str, lines: &[&str]) -> (Vec<Finding>, bool) {
    let text = format!("{WHICH_WAVE}\n{}\ns_endpgm", lines.join("\n"));
    let (result, found, _) = run_with(cpu, &text, With { items: 64, ..ONE_WAVE });
    let ends = match result {
        Ok(_) => true,
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Deadlock);
            false
        }
    };
    (found.into_iter().map(|(finding, _)| finding).collect(), ends)
}

#[track_caller]
fn finds(cpu: &str, lines: &[&str], ends: bool, line: &str, what: &str) -> Finding {
    let (found, ended) = two_waves(cpu, lines);
    let [finding] = &found[..] else { panic!("found {found:#?}") };
    assert_eq!((finding.check, finding.line.text.as_str()), ("sync", line), "{finding}");
    assert!(finding.what.contains(what), "{finding}");
    assert_eq!(ended, ends);
    finding.clone()
}

#[test]
fn waves_that_meet_are_in_order() {
    assert_eq!(two_waves("gfx1100", &["s_barrier", "s_barrier"]), (vec![], true));
    assert_eq!(two_waves("gfx1100", &[]), (vec![], true));
    let twice = ["s_barrier_signal -1", "s_barrier_wait -1", "s_barrier_signal -1", "s_barrier_wait -1"];
    assert_eq!(two_waves("gfx1201", &twice), (vec![], true));
    // Lanes that end before, and do not come back.
    let lines = ["s_mov_b32 exec_lo, 0xff", "s_barrier", "ds_store_b32 v0, v0"];
    assert_eq!(two_waves("gfx1100", &lines), (vec![], true));
}

#[test]
fn a_wave_ends_while_another_comes_to_a_barrier() {
    // Wave 1 jumps over the barrier.
    let finding =
        finds("gfx1100", &["s_cbranch_scc1 1", "s_barrier"], true, "s_endpgm", "the wave ends after 0 barriers");
    assert!(finding.what.contains("wave 0 has reached barrier number 1"), "{finding}");
    assert_eq!(finding.other.unwrap().text, "s_barrier");
    // Wave 0 does, and has ended before.
    let finding = finds("gfx1100", &["s_cbranch_scc0 1", "s_barrier"], true, "s_barrier", "wave 0 has ended after 0");
    assert_eq!(finding.other.unwrap().text, "s_endpgm");
}

#[test]
fn waves_that_wait_for_ever_are_named() {
    // Wave 1 waits for a barrier that wave 0 signals only after another round.
    let lines = ["s_cbranch_scc1 2", "s_barrier_signal -1", "s_barrier_wait -1", "s_barrier_wait -1"];
    let (found, ends) = two_waves("gfx1201", &lines);
    assert!(!ends);
    let texts: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("deadlock at barrier number")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("without a signal before")), "{texts:?}");
}

#[test]
fn split_barriers_come_in_pairs() {
    let signal = "s_barrier_signal -1";
    finds("gfx1201", &[signal], true, "s_endpgm", "after a signal of the barrier without a wait");
    let twice = [signal, signal, "s_barrier_wait -1", "s_barrier_wait -1"];
    finds("gfx1201", &twice, true, signal, "second signal of the barrier");
}

#[test]
fn lanes_that_jump_over_a_barrier_are_found_where_they_go_on() {
    let lines = ["s_mov_b32 exec_lo, 0xff", "s_barrier", "s_mov_b32 exec_lo, -1", "ds_store_b32 v0, v0"];
    let finding = finds("gfx1100", &lines, true, "ds_store_b32 v0, v0", "divergent");
    assert_eq!(finding.lanes, 0xffff_ff00);
    assert_eq!(finding.other.unwrap().text, "s_barrier");
    let lines = ["s_mov_b32 exec_lo, 0xff", "s_barrier", "s_mov_b32 exec_lo, -1", "s_barrier"];
    finds("gfx1100", &lines, true, "s_barrier", "divergent");
}

#[test]
fn stores_to_buffers_are_looked_at_and_those_to_scratch_are_not() {
    // A buffer without records, which nothing is written to.
    let store = "buffer_store_b32 v0, v1, s[4:7], 0 offen";
    let lines = ["s_mov_b32 exec_lo, 0xff", "s_barrier", "s_mov_b32 exec_lo, -1", store];
    finds("gfx1100", &lines, true, store, "divergent");
    // Scratch, of which the kernel has none.
    let resource = ["s_mov_b32 s4, 0", "s_mov_b32 s5, 0x80008000", "s_mov_b32 s6, -1", "s_mov_b32 s7, 0xea7000"];
    let around = ["s_mov_b64 exec, 0xff", "s_barrier", "s_mov_b64 exec, -1"];
    let store = "buffer_store_dword v0, v1, s[4:7], 0 offen\ns_endpgm";
    let text = [&resource[..], &around, &[store]].concat().join("\n");
    let (result, found, _) = run_with("gfx90a", &text, With { items: 64, ..ONE_WAVE });
    assert!(matches!(result.unwrap_err().kind, FaultKind::ScratchOutOfBounds { .. }));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn named_barriers_are_joined_and_counted() {
    let lines = ["s_mov_b32 m0, 0x20001", "s_barrier_init m0", "s_barrier_join m0", "s_barrier_signal -1"];
    let lines = [&lines[..], &["s_barrier_wait -1", "s_barrier_signal 1", "s_barrier_wait 1"]].concat();
    assert_eq!(two_waves("gfx1250", &lines), (vec![], true));
    // Of three signals two come.
    let mut stuck = lines.clone();
    stuck[0] = "s_mov_b32 m0, 0x30001";
    let what = "deadlock at named barrier 1: 2 of 3 signals have come";
    finds("gfx1250", &stuck, false, "s_barrier_wait 1", what);
    let mut unjoined = lines.clone();
    unjoined[2] = "s_nop 0";
    finds("gfx1250", &unjoined, true, "s_barrier_wait 1", "by a wave that has joined none");
    let mut uncounted = lines.clone();
    uncounted[1] = "s_nop 0";
    uncounted.truncate(6);
    finds("gfx1250", &uncounted, true, "s_barrier_signal 1", "is signalled before its member count is set");
    let mut unknown = lines.clone();
    unknown[5] = "s_barrier_signal 9";
    unknown.truncate(6);
    finds("gfx1250", &unknown, true, "s_barrier_signal 9", "there is no named barrier 9; the kernel has 4");
    // The second wave begins it anew.
    let again = ["s_mov_b32 m0, 0x30001", "s_barrier_init m0", "s_barrier_signal 1"];
    finds("gfx1250", &again, true, "s_barrier_init m0", "is initialized after 1 signals of its current phase");
}
