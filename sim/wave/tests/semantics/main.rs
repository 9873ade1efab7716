// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Result of each implemented op, against values that are computed independently of the executor.

mod compare;
mod control;
mod cross;
mod effect;
mod gfx1250;
mod gfx950;
mod lds;
mod machine;
mod matrix;
mod memory;
mod microscaling;
mod num;
mod packed;
mod reference;
mod registers;
mod scalar;
mod scalar_memory;
mod swmmac;
mod tensor;
mod typed;
mod vector;

use machine::{MACHINES, Machine};
use random::Random;
use sim_isa::{Op, Target};
use std::collections::BTreeSet;

#[test]
fn lane_wise_ops() {
    for machine in MACHINES {
        let ran = machine::check(machine, vector::cases(machine, &mut Random(0x1a)));
        assert!(ran > 3000, "only {ran} cases ran");
    }
}

#[test]
fn vector_compares() {
    for machine in MACHINES {
        let ran = machine::check(machine, compare::cases(machine, &mut Random(0x2b)));
        assert!(ran > 1500, "only {ran} cases ran");
    }
}

/// LLVM up to 15 has 0 in the destination field of `v_cmpx_*_e64`, which hardware does not look at from gfx10 on.
#[test]
fn compares_to_exec_write_nothing_else() {
    for machine in MACHINES.into_iter().filter(|machine| !machine.gfx9()) {
        let mut cases = compare::cases(machine, &mut Random(0x2c));
        cases.retain(|case| case.text.starts_with("v_cmpx_") && case.text.contains("_e64"));
        let mut code = machine::machine_code(machine, &cases);
        code.iter_mut().flatten().for_each(|words| words[0] &= !0xff);
        let ran = machine::check_code(machine, cases, code);
        assert!(ran > 500, "only {ran} cases ran");
    }
}

#[test]
fn scalar_ops() {
    for machine in MACHINES {
        let ran = machine::check(machine, scalar::cases(machine, &mut Random(0x3c)));
        assert!(ran > 2000, "only {ran} cases ran");
    }
}

#[test]
fn loads_stores_and_atomics() {
    for machine in MACHINES {
        let ran = machine::check(machine, memory::cases(machine, &mut Random(0x4d)));
        assert!(ran > 1000, "only {ran} cases ran");
    }
}

#[test]
fn lds_ops() {
    for machine in MACHINES {
        let ran = machine::check(machine, lds::cases(machine, &mut Random(0x5e)));
        assert!(ran > 300, "only {ran} cases ran");
    }
}

#[test]
fn lane_crossings() {
    for machine in MACHINES {
        let ran = machine::check(machine, cross::cases(machine, &mut Random(0x6f)));
        assert!(ran > 400, "only {ran} cases ran");
    }
}

#[test]
fn packed_ops() {
    for machine in MACHINES {
        let ran = machine::check(machine, packed::cases(machine, &mut Random(0x70)));
        // gfx90c has no dot products.
        assert!(ran > 150, "only {ran} cases ran");
    }
}

#[test]
fn program_control() {
    for machine in MACHINES {
        machine::check(machine, control::cases(machine, &mut Random(0x92)));
    }
}

#[test]
fn what_gfx1250_adds() {
    for machine in MACHINES {
        machine::check(machine, gfx1250::cases(machine, &mut Random(0xa4)));
    }
}

#[test]
fn what_gfx950_adds() {
    for machine in MACHINES {
        machine::check(machine, gfx950::cases(machine, &mut Random(0xa5)));
    }
}

#[test]
fn floats_that_share_scales() {
    for machine in MACHINES {
        machine::check(machine, microscaling::cases(machine, &mut Random(0xb5)));
    }
}

#[test]
fn tiles_of_tensors() {
    for machine in MACHINES {
        machine::check(machine, tensor::cases(machine, &mut Random(0xc6)));
    }
}

#[test]
fn traps_and_stray_jumps_fault() {
    control::faults();
}

/// Every op that the executor claims has a case, and every case's op is claimed.
///
/// The file that `SIM_WAVE_COVERAGE` names gets a line for each encoding in the table: the processor, the encoding, the
/// opcode, the mnemonic there, whether it is executed, and whether a case runs it there; of the processor in
/// `SIM_WAVE_TARGET` alone if that is set, and nothing else is then checked. `cargo xtask isa` reads it.
#[test]
fn every_implemented_op_has_a_case() {
    let random = &mut Random(0x81);
    let chosen = std::env::var("SIM_WAVE_TARGET").ok();
    let is_chosen = |machine: &Machine| {
        let cpu = machine::cpu(*machine).split(',').next();
        chosen.is_none() || cpu == chosen.as_deref()
    };
    let mut tested: Vec<(Machine, BTreeSet<Op>)> = Vec::new();
    for machine in MACHINES.into_iter().filter(is_chosen) {
        let mut cases = vector::cases(machine, random);
        cases.extend(compare::cases(machine, random));
        cases.extend(scalar::cases(machine, random));
        cases.extend(memory::cases(machine, random));
        cases.extend(lds::cases(machine, random));
        cases.extend(cross::cases(machine, random));
        cases.extend(packed::cases(machine, random));
        cases.extend(control::cases(machine, random));
        cases.extend(gfx1250::cases(machine, random));
        cases.extend(gfx950::cases(machine, random));
        cases.extend(microscaling::cases(machine, random));
        cases.extend(tensor::cases(machine, random));
        let mut ops = machine::ops(machine, &cases);
        ops.extend(control::FAULTING);
        ops.extend(lds::COOPERATIVE);
        tested.push((machine, ops));
    }
    if let Some(path) = std::env::var_os("SIM_WAVE_COVERAGE") {
        std::fs::write(&path, coverage(&tested)).unwrap_or_else(|error| panic!("writing {path:?}: {error}"));
    }
    if chosen.is_some() {
        return;
    }
    let tested: BTreeSet<Op> = tested.into_iter().flat_map(|(_, ops)| ops).collect();
    let implemented: BTreeSet<Op> = MACHINES.into_iter().flat_map(machine::implemented).collect();
    let untested: Vec<_> = implemented.difference(&tested).map(|op| op.name()).collect();
    assert!(untested.is_empty(), "{} implemented ops have no case: {untested:?}", untested.len());
    let unclaimed: Vec<_> = tested.difference(&implemented).map(|op| op.name()).collect();
    assert!(unclaimed.is_empty(), "cases exist for ops that are not implemented: {unclaimed:?}");
}

/// Instructions that are decoded and not executed (docs/sim/numerics.md says why), by mnemonic. Those that are not
/// decoded are in `sim-isa`'s `names.txt`.
const LEFT_OUT: &[&str] = &[
    // Trap handlers, debuggers, the end of code.
    "s_code_end",
    "s_endpgm_saved",
    "s_rfe_b64",
    "s_sendmsghalt",
    "s_sethalt",
    "s_setkill",
    // Of inline assembly alone.
    "s_scratch_load_b128",
    "s_scratch_load_b32",
    "s_scratch_load_b64",
    "s_scratch_store_b128",
    "s_scratch_store_b32",
    "s_scratch_store_b64",
    "s_subvector_loop_begin",
    "s_subvector_loop_end",
    // Graphics.
    "ds_add_gs_reg_rtn",
    "ds_sub_gs_reg_rtn",
    "s_endpgm_ordered_ps_done",
    "s_wait_event",
    "v_screen_partition_4se_b32",
];

/// Ops that gfx1250 executes and that stop a kernel of gfx1201: named barriers.
const STOPS_ON_GFX1201: [&str; 3] = ["s_barrier_init", "s_barrier_join", "s_barrier_leave"];

#[test]
fn what_is_left_out_is_listed() {
    let here = |op: &Op| MACHINES.iter().any(|machine| machine.has(*op));
    let left_out: BTreeSet<_> =
        Op::all().filter(|op| here(op) && !sim_wave::is_implemented(*op)).map(|op| op.name()).collect();
    assert_eq!(left_out, LEFT_OUT.iter().copied().collect());
}

fn coverage(tested: &[(Machine, BTreeSet<Op>)]) -> String {
    let mut lines = String::new();
    let mut seen: Vec<Target> = Vec::new();
    for (machine, _) in tested {
        let target = machine.target;
        if seen.contains(&target) {
            continue;
        }
        seen.push(target);
        for op in Op::all() {
            let has_case = tested.iter().any(|(machine, ops)| machine.target == target && ops.contains(&op));
            for encoding in op.encodings(target) {
                let cpu = machine::cpu(*machine).split(',').next().unwrap_or_default();
                let stops = target == Target::Gfx1200 && STOPS_ON_GFX1201.contains(&op.name());
                let executed = sim_wave::is_implemented(op) && !stops;
                let line = format!("{cpu} {:?} {} {}", encoding.format, encoding.code, encoding.name);
                lines += &format!("{line} {executed} {has_case}\n");
            }
        }
    }
    lines
}
