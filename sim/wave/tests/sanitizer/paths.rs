// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Waits and wait states that are missing on paths which the run of a test does not take.
//!
//! In the kernels, `name:` is a label, `@name` its distance from a branch, and lines with a `?` are the ones needed on
//! a path that is taken only if the number among the arguments is 1, which it is not.

use super::{ONE_WAVE, With, load, run_with, target};
use sim_wave::{PathFinding, PathReport};
use std::collections::HashMap;

/// Names of instructions and waits of a generation.
struct Generation {
    cpu: &'static str,
    s_load: [&'static str; 2],
    load: &'static str,
    ds_load: &'static str,
    /// Waits for loads, LDS and scalar loads.
    waits: [&'static str; 3],
}

const GENERATIONS: [Generation; 6] = [
    Generation {
        cpu: "gfx90a",
        s_load: ["s_load_dword", "s_load_dwordx2"],
        load: "global_load_dword",
        ds_load: "ds_read_b32",
        waits: ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"],
    },
    Generation {
        cpu: "gfx950",
        s_load: ["s_load_dword", "s_load_dwordx2"],
        load: "global_load_dword",
        ds_load: "ds_read_b32",
        waits: ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"],
    },
    Generation {
        cpu: "gfx1100",
        s_load: ["s_load_b32", "s_load_b64"],
        load: "global_load_b32",
        ds_load: "ds_load_b32",
        waits: ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"],
    },
    Generation {
        cpu: "gfx1151",
        s_load: ["s_load_b32", "s_load_b64"],
        load: "global_load_b32",
        ds_load: "ds_load_b32",
        waits: ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"],
    },
    Generation {
        cpu: "gfx1201",
        s_load: ["s_load_b32", "s_load_b64"],
        load: "global_load_b32",
        ds_load: "ds_load_b32",
        waits: ["s_wait_loadcnt 0x0", "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0"],
    },
    Generation {
        cpu: "gfx1250",
        s_load: ["s_load_b32", "s_load_b64"],
        load: "global_load_b32",
        ds_load: "ds_load_b32",
        waits: ["s_wait_loadcnt 0x0", "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0"],
    },
];

/// Kernels, each with the text of its finding. SCC is 0 at their start.
const WAITS: [(&str, &str); 20] = [
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         ? LOADCNT
         v_mov_b32_e32 v3, v2
         end:",
        "v2 is read",
    ),
    // The load is behind both, and one of them waits for it.
    (
        "LOAD v2, v1, s[2:3]
         s_cbranch_scc1 @cold
         LOADCNT
         s_branch @join
         cold:
         s_mov_b32 s11, 0
         ? LOADCNT
         join:
         v_mov_b32_e32 v3, v2",
        "v2 is read",
    ),
    (
        "s_cbranch_scc0 @end
         S_LOAD s12, s[0:1], 0x8
         ? KMCNT
         s_mov_b32 s13, s12
         end:",
        "s12 is read",
    ),
    (
        "s_cbranch_scc0 @end
         DS_LOAD v2, v1
         s_mov_b32 s11, 0
         s_branch @next
         next:
         ? DSCNT
         v_mov_b32_e32 v2, 0
         end:",
        "v2 is overwritten",
    ),
    // Around a loop.
    (
        "v_mov_b32_e32 v2, 0
         head:
         v_mov_b32_e32 v3, v2
         LOAD v2, v1, s[2:3]
         s_cbranch_scc0 @out
         s_cmp_eq_u32 s10, 2
         ? LOADCNT
         s_branch @head
         out:
         LOADCNT
         v_mov_b32_e32 v3, v2",
        "v2 is read",
    ),
    // Of two loads, the older one is waited for.
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         LOAD v3, v1, s[2:3] offset:128
         ? ONE_LOAD_LEFT
         v_mov_b32_e32 v4, v2
         LOADCNT
         v_mov_b32_e32 v5, v3
         end:",
        "v2 is read",
    ),
    // One path waits for the older load only.
    (
        "LOAD v2, v1, s[2:3]
         LOAD v3, v1, s[2:3]
         s_cbranch_scc1 @cold
         LOADCNT
         s_branch @join
         cold:
         ONE_LOAD_LEFT
         ? LOADCNT
         join:
         v_mov_b32_e32 v4, v3",
        "v3 is read",
    ),
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         ? LOADCNT
         v_mov_b32_e32 v2, 0
         end:",
        "v2 is overwritten",
    ),
    // The base of a load.
    (
        "s_cbranch_scc0 @end
         S_LOAD_PAIR s[4:5], s[0:1], 0x0
         ? KMCNT
         LOAD v2, v1, s[4:5]
         LOADCNT
         end:",
        "s4 is read",
    ),
    // The condition of a branch.
    (
        "s_cbranch_scc0 @end
         S_LOAD s12, s[0:1], 0x8
         ? KMCNT
         s_cmp_eq_u32 s12, 0
         s_cbranch_scc1 @end
         s_mov_b32 s13, 0
         end:",
        "s12 is read",
    ),
    (
        "s_cbranch_scc0 @end
         S_LOAD s12, s[0:1], 0x8
         ? KMCNT
         s_mov_b32 s12, 0
         end:",
        "s12 is overwritten",
    ),
    // Around a loop that runs once.
    (
        "v_mov_b32_e32 v2, 0
         head:
         v_mov_b32_e32 v3, v2
         DS_LOAD v2, v1
         s_cbranch_scc0 @out
         s_cmp_eq_u32 s10, 2
         ? DSCNT
         s_branch @head
         out:
         DSCNT
         v_mov_b32_e32 v3, v2",
        "v2 is read",
    ),
    (
        "s_cbranch_scc0 @end
         DS_LOAD v2, v1
         ? DSCNT
         DS_STORE v1, v2
         end:",
        "v2 is read",
    ),
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         ? LOADCNT
         STORE v1, v2, s[2:3]
         end:",
        "v2 is read",
    ),
    // The offset of a load from another load.
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         ? LOADCNT
         LOAD v3, v2, s[2:3]
         LOADCNT
         end:",
        "v2 is read",
    ),
    // A branch behind another one.
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         s_cmp_eq_u32 s10, 3
         s_cbranch_scc1 @deep
         LOADCNT
         s_branch @use
         deep:
         s_mov_b32 s11, 0
         ? LOADCNT
         use:
         v_mov_b32_e32 v3, v2
         end:",
        "v2 is read",
    ),
    // Behind a loop that is left out.
    (
        "v_mov_b32_e32 v2, 0
         s_cbranch_scc0 @out
         head:
         LOAD v3, v1, s[2:3]
         s_cmp_eq_u32 s10, 2
         LOADCNT
         LOAD v2, v1, s[2:3]
         s_cbranch_scc1 @head
         ? LOADCNT
         out:
         v_mov_b32_e32 v4, v2",
        "v2 is read",
    ),
    // One path waits for another kind of access.
    (
        "DS_LOAD v2, v1
         s_cbranch_scc1 @cold
         DSCNT
         s_branch @join
         cold:
         LOADCNT
         ? DSCNT
         join:
         v_mov_b32_e32 v3, v2",
        "v2 is read",
    ),
    (
        "s_cbranch_scc0 @end
         LOAD v2, v1, s[2:3]
         ? LOADCNT
         v_readfirstlane_b32 s11, v2
         end:",
        "v2 is read",
    ),
    // A path for waves without active lanes.
    (
        "s_cbranch_execnz @end
         LOAD v2, v1, s[2:3]
         ? LOADCNT
         v_mov_b32_e32 v3, v2
         end:",
        "v2 is read",
    ),
];

/// Kernels of a processor, each with a part of the text of its finding.
const HAZARDS: [(&str, &str, &str); 11] = [
    (
        "gfx90a",
        "s_cbranch_scc0 @end
         v_readfirstlane_b32 s4, v0
         ? s_nop 4
         global_load_dword v2, v3, s[4:5]
         end:",
        "5 wait states are needed",
    ),
    (
        "gfx906",
        "s_cbranch_scc0 @join
         v_readfirstlane_b32 s11, v0
         ? s_nop 3
         join:
         v_readlane_b32 s12, v0, s11",
        "selects a lane: 4 wait states are needed",
    ),
    (
        "gfx942",
        "s_cbranch_scc0 @join
         v_exp_f32_e32 v2, v1
         ? s_nop 0
         join:
         v_mov_b32_e32 v3, v2",
        "is written by a transcendental",
    ),
    (
        "gfx942",
        "head:
         v_mov_b32_e32 v3, v20
         v_mfma_f32_16x16x4_f32 v[20:23], v4, v5, v[20:23]
         s_cbranch_scc0 @out
         s_cmp_eq_u32 s10, 2
         ? s_nop 7
         ? s_nop 7
         s_branch @head
         out:",
        "is written by a matrix op",
    ),
    (
        "gfx950",
        "s_cbranch_scc0 @join
         v_mov_b32_e32 v2, v1
         ? s_nop 1
         join:
         v_permlane32_swap_b32 v2, v3",
        "is written by vector arithmetic and exchanged with other lanes",
    ),
    (
        "gfx950",
        "s_cbranch_scc0 @join
         v_cvt_sr_bf16_f32 v2, v1, v3 op_sel:[0,0,1]
         ? s_nop 0
         join:
         v_mov_b32_e32 v5, v2",
        "v2 is written in part",
    ),
    (
        "gfx1010",
        "s_cbranch_scc0 @end
         global_load_dword v2, v1, s[2:3]
         ? s_waitcnt_depctr 0xffe3
         s_mov_b32 s2, 0
         end:",
        "vm_vsrc(0) is needed",
    ),
    (
        "gfx1100",
        "s_cbranch_scc0 @join
         v_exp_f32_e32 v2, v1
         ? s_waitcnt_depctr 0xfff
         join:
         v_mov_b32_e32 v3, v2",
        "va_vdst(0) is needed",
    ),
    (
        "gfx1151",
        "s_cbranch_scc0 @join
         v_cmpx_eq_u32_e32 v0, v1
         ? v_mov_b32_e32 v2, v2
         join:
         v_permlane16_b32 v3, v1, s4, s5",
        "exec is written by v_cmpx before a permutation",
    ),
    (
        "gfx1201",
        "v_add_f32_e32 v2, s11, v0
         s_cbranch_scc0 @join
         s_mov_b32 s11, 0
         ? s_wait_alu depctr_sa_sdst(0)
         join:
         v_add_f32_e32 v2, s11, v0",
        "sa_sdst(0) is needed",
    ),
    (
        "gfx1250",
        "s_cbranch_scc0 @join
         v_wmma_f32_16x16x32_f16 v[8:15], v[16:23], v[24:31], v[8:15]
         ? v_nop
         ? v_nop
         ? v_nop
         ? v_nop
         join:
         v_mov_b32_e32 v17, v1",
        "is a register of a matrix op",
    ),
];

/// The lines of a text, with numbers for the labels. Without those that need not be there, if `is_whole` is false.
fn resolved(cpu: &str, text: &str, is_whole: bool) -> String {
    let lines = text.lines().map(str::trim).filter(|line| is_whole || !line.starts_with('?'));
    let mut labels = HashMap::new();
    let mut kept = Vec::new();
    for line in lines.map(|line| line.trim_start_matches('?').trim()).filter(|line| !line.is_empty()) {
        match line.strip_suffix(':') {
            Some(label) => drop(labels.insert(label, kept.len())),
            None => kept.push(line),
        }
    }
    let plain = |line: &&str| line.split_once('@').map_or((*line).to_owned(), |(start, _)| format!("{start}0"));
    let sizes = sim_llvm::assemble(cpu, &kept.iter().map(plain).collect::<Vec<_>>());
    let dwords = |line: usize| sizes[..line].iter().flatten().map(Vec::len).sum::<usize>() as i64;
    let number = |(at, line): (usize, &&str)| match line.split_once('@') {
        Some((start, label)) => format!("{start}{}", (dwords(labels[label]) - dwords(at) - 1) & 0xffff),
        None => (*line).to_owned(),
    };
    kept.iter().enumerate().map(number).collect::<Vec<_>>().join("\n")
}

fn report(cpu: &str, text: &str) -> PathReport {
    load(cpu, text, ONE_WAVE).check_paths()
}

/// Asserts that a kernel has no findings, and one of its lines with a `?` are missing, which a run does not see.
#[track_caller]
fn needs(cpu: &str, text: &str, hazard: bool, what: &str) {
    let whole = report(cpu, &resolved(cpu, text, true));
    assert!(whole.findings.is_empty() && whole.unknown.is_empty(), "{cpu}: {whole:?} in {text}");
    let broken = resolved(cpu, text, false);
    let items = if target(cpu).is_gfx9() { 64 } else { 32 };
    let (result, found, _) = run_with(cpu, &broken, With { items, hazard, ..ONE_WAVE });
    assert!(result.is_ok() && found.is_empty(), "{cpu}: {found:?} in {broken}");
    let PathReport { findings, unknown, .. } = report(cpu, &broken);
    let [PathFinding { check, what: said, path, .. }] = &findings[..] else {
        panic!("{cpu}: {findings:?} in {broken}")
    };
    assert!(said.contains(what), "{cpu}: {said}");
    assert_eq!(*check, if hazard { "hazard" } else { "wait" });
    assert!(unknown.is_empty() && !path.is_empty(), "{cpu}: {unknown:?}, {path:?}");
}

fn prologue([dword, pair]: [&str; 2], wait: &str) -> String {
    format!(
        "{pair} s[2:3], s[0:1], 0x0
         {dword} s10, s[0:1], 0x8
         v_and_b32 v1, 31, v0
         v_lshlrev_b32 v1, 2, v1
         {wait}
         s_cmp_eq_u32 s10, 1
         "
    )
}

impl Generation {
    fn text(&self, text: &str) -> String {
        let [loads, lds, scalars] = self.waits;
        let one_left = loads.replace("(0)", "(1)").replace("0x0", "0x1");
        let (store, ds_store) = (self.load.replace("load", "store"), self.ds_load.replace("read", "write"));
        let ds_store = ds_store.replace("load", "store");
        let mut text = prologue(self.s_load, scalars) + text + "\ns_endpgm";
        // A name is replaced before the names that are a part of it.
        for (name, with) in [
            ("ONE_LOAD_LEFT", one_left.as_str()),
            ("LOADCNT", loads),
            ("DSCNT", lds),
            ("KMCNT", scalars),
            ("DS_LOAD", self.ds_load),
            ("DS_STORE", &ds_store),
            ("STORE", &store),
            ("S_LOAD_PAIR", self.s_load[1]),
            ("S_LOAD", self.s_load[0]),
            ("LOAD", self.load),
        ] {
            text = text.replace(name, with);
        }
        text
    }
}

#[test]
fn waits_are_missed_on_paths_that_are_not_taken() {
    for generation in &GENERATIONS {
        for (text, what) in WAITS {
            needs(generation.cpu, &generation.text(text), false, what);
        }
    }
}

#[test]
fn wait_states_are_missed_on_paths_that_are_not_taken() {
    for (cpu, text, what) in HAZARDS {
        let (s_load, wait) = match target(cpu).is_gfx12() {
            true => (["s_load_b32", "s_load_b64"], "s_wait_kmcnt 0x0"),
            false => (["s_load_dword", "s_load_dwordx2"], "s_waitcnt lgkmcnt(0)"),
        };
        let end = "\ns_nop 7\ns_nop 7\ns_nop 7\ns_endpgm";
        needs(cpu, &(prologue(s_load, wait) + text + end), true, what);
    }
}

#[test]
fn a_finding_shows_its_path() {
    let generation = &GENERATIONS[0];
    let text = resolved(generation.cpu, &generation.text(WAITS[1].0), false);
    let report = report(generation.cpu, &text);
    let finding = &report.findings[0];
    let path: Vec<&str> = finding.path.iter().map(|line| line.text.as_str()).collect();
    // The blocks of the load, of the arm that does not wait, and of the read.
    assert_eq!(path, ["s_load_dwordx2 s[2:3], s[0:1], 0x0", "s_mov_b32 s11, 0", "v_mov_b32_e32 v3, v2"]);
    let shown = finding.to_string();
    assert!(shown.contains("... by") && shown.contains("s_mov_b32 s11, 0"), "{shown}");
    let what = "v2 is read before the global_load_dword that writes it has completed: s_waitcnt vmcnt(0) is missing";
    assert_eq!(finding.what, what);
    assert_eq!(report.blocks, 4);
}

/// Functions are followed through the address that compilers compute for them, back to where they are called from.
#[test]
fn calls_are_followed_where_they_are_known() {
    let function = |wait: &str| {
        // The distances are those of `function` from the instructions behind `s_getpc_b64`.
        format!(
            "s_getpc_b64 s[4:5]
             s_add_u32 s4, s4, 44
             s_addc_u32 s5, s5, 0
             s_swappc_b64 s[30:31], s[4:5]
             v_mov_b32_e32 v3, v2
             s_getpc_b64 s[4:5]
             s_add_u32 s4, s4, 24
             s_addc_u32 s5, s5, 0
             s_swappc_b64 s[30:31], s[4:5]
             v_mov_b32_e32 v3, v2
             s_endpgm
             s_nop 0
             s_waitcnt lgkmcnt(0)
             ds_read_b32 v2, v1
             {wait}
             s_setpc_b64 s[30:31]"
        )
    };
    let right = report("gfx1030", &function("s_waitcnt lgkmcnt(0)"));
    assert!(right.findings.is_empty() && right.unknown.is_empty(), "{right:?}");
    // Both calls return without the wait.
    let wrong = report("gfx1030", &function("s_nop 0"));
    assert!(wrong.unknown.is_empty(), "{wrong:?}");
    let at: Vec<u32> = wrong.findings.iter().map(|finding| finding.line.offset).collect();
    assert_eq!(at, [16, 36], "{wrong:?}");
    // A pointer is reported and not followed; the code behind the call is checked.
    let pointer = report(
        "gfx1030",
        "s_load_dwordx2 s[4:5], s[0:1], 0x0
         s_waitcnt lgkmcnt(0)
         s_swappc_b64 s[30:31], s[4:5]
         ds_read_b32 v2, v1
         v_mov_b32_e32 v3, v2
         s_setpc_b64 s[6:7]",
    );
    let said: Vec<&str> = pointer.unknown.iter().map(|(line, _)| line.text.as_str()).collect();
    assert_eq!(said, ["s_swappc_b64 s[30:31], s[4:5]", "s_setpc_b64 s[6:7]"]);
    assert_eq!(pointer.findings.len(), 1, "{pointer:?}");
}
