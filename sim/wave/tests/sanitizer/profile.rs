// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Instruction counts of profiles.

use super::{ONE_WAVE, With, load, run_watched};
use sim_wave::{Collect, Figures, Kind, TakeTally, Tally, Watch};
use std::collections::BTreeMap;
use std::sync::Mutex;

#[derive(Default)]
struct Sum(Mutex<BTreeMap<u32, Figures>>);

impl Collect for Sum {
    fn collect(&self, figures: &[Figures]) {
        let mut all = self.0.lock().unwrap();
        for of in figures {
            all.entry(of.offset).or_insert(Figures { offset: of.offset, ..Figures::default() }).add(of);
        }
    }
}

/// Instructions of a kernel with their figures. Instructions that did not run have none.
fn profile(cpu: &str, text: &str, with: With) -> Vec<(String, Option<Figures>)> {
    let (kernel, sum) = (load(cpu, text, with), Sum::default());
    run_watched(&kernel, with, Watch::Profile(&sum)).0.unwrap_or_else(|fault| panic!("{cpu}: {fault}"));
    let all = sum.0.into_inner().unwrap();
    kernel.listing().into_iter().map(|line| (line.text, all.get(&line.offset).copied())).collect()
}

/// Times, bytes, lines and the fewest, passes and the fewest, of each instruction whose text has this `beginning`.
fn accesses(lines: &[(String, Option<Figures>)], beginning: &str) -> Vec<[u64; 6]> {
    let of = lines.iter().filter(|(text, _)| text.starts_with(beginning)).map(|(_, figures)| figures.unwrap());
    of.map(|of| [of.times, of.bytes, of.lines, of.fewest_lines, of.passes, of.fewest_passes]).collect()
}

const KERNEL: &str = "s_load_b64 s[2:3], s[0:1], 0x0
                      v_lshlrev_b32 v1, 2, v0
                      v_lshlrev_b32 v3, 5, v0
                      v_lshlrev_b32 v4, 7, v0
                      v_lshlrev_b32 v8, 3, v0
                      v_mov_b32 v9, 0
                      s_waitcnt lgkmcnt(0)
                      s_nop 0
                      global_load_b32 v2, v1, s[2:3]
                      global_load_b32 v2, v3, s[2:3]
                      global_load_b32 v2, v9, s[2:3]
                      ds_store_b32 v4, v0
                      ds_load_b32 v5, v1
                      ds_load_b64 v[6:7], v8
                      ds_load_b32 v5, v9
                      ds_add_u32 v9, v1
                      ds_append v5 offset:64
                      s_waitcnt vmcnt(0) lgkmcnt(0)
                      v_cmpx_gt_u32 8, v0
                      v_add_nc_u32 v10, 1, v0
                      s_cbranch_execnz 1
                      v_add_nc_u32 v10, 2, v0
                      s_endpgm";

#[test]
fn instructions_are_counted_with_what_they_access() {
    for (groups, threads) in [(1, 1), (6, 3)] {
        let lines = profile("gfx1100", KERNEL, With { groups, threads, ..ONE_WAVE });
        let times = u64::from(groups);
        let scaled = |figures: [u64; 6]| figures.map(|figure| times * figure);
        assert_eq!(accesses(&lines, "s_load_b64"), [scaled([1, 8, 0, 0, 0, 0])]);
        // Next to each other, 32 bytes apart, all the same.
        let wanted = [[1, 128, 1, 1, 0, 0], [1, 128, 8, 1, 0, 0], [1, 128, 1, 1, 0, 0]];
        assert_eq!(accesses(&lines, "global_load"), wanted.map(scaled));
        // All in one bank; in a bank each, in two passes for twice the bytes, and one dword for all.
        assert_eq!(accesses(&lines, "ds_store"), [scaled([1, 128, 0, 0, 32, 1])]);
        let wanted = [[1, 128, 0, 0, 1, 1], [1, 256, 0, 0, 2, 2], [1, 128, 0, 0, 1, 1]];
        assert_eq!(accesses(&lines, "ds_load"), wanted.map(scaled));
        // Atomics come one after the other; one lane counts for all that append.
        assert_eq!(accesses(&lines, "ds_add"), [scaled([1, 128, 0, 0, 32, 1])]);
        assert_eq!(accesses(&lines, "ds_append"), [scaled([1, 4, 0, 0, 1, 1])]);
        // No-ops are counted, though they are not run.
        assert_eq!(accesses(&lines, "s_nop"), [scaled([1, 0, 0, 0, 0, 0])]);

        let adds: Vec<_> =
            lines.iter().filter(|(text, _)| text.contains("v_add")).map(|(_, figures)| *figures).collect();
        let first = adds[0].unwrap();
        assert_eq!((first.times, first.lanes, first.divergent), (times, 8 * times, times));
        assert_eq!(adds[1], None);
        let whole = lines[1].1.unwrap();
        assert_eq!((whole.times, whole.lanes, whole.divergent), (times, 32 * times, 0));
    }
}

#[derive(Default)]
struct Told(Mutex<Tally>);

impl TakeTally for Told {
    fn take(&self, _: [u32; 3], tally: &Tally) {
        self.0.lock().unwrap().iter_mut().zip(tally).for_each(|(sum, count)| *sum += count);
    }
}

#[test]
fn hardware_counters_are_told_the_same() {
    for (groups, threads) in [(1, 1), (6, 3)] {
        let with = With { groups, threads, ..ONE_WAVE };
        let lines = profile("gfx1100", KERNEL, with);
        let sum = |of: fn(&Figures) -> u64| lines.iter().flat_map(|(_, figures)| figures).map(of).sum::<u64>();
        let tally = Told::default();
        run_watched(&load("gfx1100", KERNEL, with), with, Watch::Count(&tally)).0.unwrap();
        let told = |kind| tally.0.lock().unwrap()[kind as usize];
        assert_eq!(told(Kind::LdsPasses), sum(|of| of.passes));
        assert_eq!(told(Kind::LdsConflicts), sum(|of| of.passes - of.fewest_passes));
        // Two accesses of 32 passes each, of which one would have done, and five more passes.
        assert_eq!(
            [Kind::LdsPasses, Kind::LdsConflicts].map(told),
            [2 * 32 + 5, 2 * 31].map(|passes| passes * u64::from(groups))
        );
    }
}

/// Two loads, two stores and an atomic of 256 bytes that are next to each other.
#[test]
fn loads_stores_and_lines_are_told() {
    let text = "s_load_dwordx2 s[4:5], s[0:1], 0x0
                v_lshlrev_b32 v1, 2, v0
                s_mov_b32 s6, -1
                s_mov_b32 s7, 0x27000
                s_waitcnt lgkmcnt(0)
                global_load_dword v2, v1, s[4:5]
                buffer_load_dword v3, v1, s[4:7], 0 offen
                s_waitcnt vmcnt(0)
                global_store_dword v1, v2, s[4:5]
                buffer_store_dword v3, v1, s[4:7], 0 offen
                global_atomic_add v1, v0, s[4:5]
                s_endpgm";
    for (cpu, count) in [("gfx90a", 4), ("gfx942", 2)] {
        let with = With { items: 64, ..ONE_WAVE };
        let lines: u64 = profile(cpu, text, with).iter().flat_map(|(_, figures)| figures).map(|of| of.lines).sum();
        let told = Told::default();
        run_watched(&load(cpu, text, with), with, Watch::Count(&told)).0.unwrap();
        let tally = told.0.into_inner().unwrap();
        use Kind::*;
        let told = [FlatReads, FlatWrites, BufferReads, BufferWrites, Vmem, Lines].map(|kind| tally[kind as usize]);
        assert_eq!((told, lines), ([1, 1, 1, 1, 5, 5 * count], 5 * count), "{cpu}");
    }
}

#[test]
fn lines_are_as_long_as_the_target_has_them() {
    let text = "s_load_dwordx2 s[2:3], s[0:1], 0x0
                v_lshlrev_b32 v1, 2, v0
                s_waitcnt lgkmcnt(0)
                global_load_dword v2, v1, s[2:3]
                ds_write_b32 v1, v0
                s_waitcnt vmcnt(0) lgkmcnt(0)
                s_endpgm";
    for (cpu, count) in [("gfx90a", 4), ("gfx942", 2)] {
        let lines = profile(cpu, text, With { items: 64, ..ONE_WAVE });
        assert_eq!(accesses(&lines, "global_load"), [[1, 256, count, count, 0, 0]], "{cpu}");
        // 32 lanes at once.
        assert_eq!(accesses(&lines, "ds_"), [[1, 256, 0, 0, 2, 2]], "{cpu}");
    }
}
