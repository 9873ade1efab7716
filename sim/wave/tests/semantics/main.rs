// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What each implemented op does, against values computed apart from the executor.

mod compare;
mod control;
mod cross;
#[path = "../../../isa/tests/common/mod.rs"]
mod llvm;
mod machine;
mod memory;
mod num;
mod packed;
mod reference;
mod scalar;
mod vector;

use llvm::Random;
use machine::TARGETS;
use sim_isa::Op;
use sim_wave::is_implemented;
use std::collections::BTreeSet;

#[test]
fn lane_wise_ops() {
    for target in TARGETS {
        let ran = machine::check(target, vector::cases(target, &mut Random(0x1a)));
        assert!(ran > 3000, "only {ran} cases ran");
    }
}

#[test]
fn vector_compares() {
    for target in TARGETS {
        let ran = machine::check(target, compare::cases(target, &mut Random(0x2b)));
        assert!(ran > 1500, "only {ran} cases ran");
    }
}

#[test]
fn scalar_ops() {
    for target in TARGETS {
        let ran = machine::check(target, scalar::cases(target, &mut Random(0x3c)));
        assert!(ran > 2000, "only {ran} cases ran");
    }
}

#[test]
fn loads_stores_and_atomics() {
    for target in TARGETS {
        let ran = machine::check(target, memory::cases(target, &mut Random(0x4d)));
        assert!(ran > 1000, "only {ran} cases ran");
    }
}

#[test]
fn lds_ops() {
    for target in TARGETS {
        let ran = machine::check(target, memory::lds_cases(target, &mut Random(0x5e)));
        assert!(ran > 300, "only {ran} cases ran");
    }
}

#[test]
fn lane_crossings() {
    for target in TARGETS {
        let ran = machine::check(target, cross::cases(target, &mut Random(0x6f)));
        assert!(ran > 500, "only {ran} cases ran");
    }
}

#[test]
fn packed_ops() {
    for target in TARGETS {
        let ran = machine::check(target, packed::cases(target, &mut Random(0x70)));
        assert!(ran > 500, "only {ran} cases ran");
    }
}

#[test]
fn program_control() {
    for target in TARGETS {
        machine::check(target, control::cases(target, &mut Random(0x92)));
    }
}

#[test]
fn traps_and_stray_jumps_fault() {
    control::faults();
}

/// Every op that the executor claims has a case, and every case's op is claimed.
#[test]
fn every_implemented_op_has_a_case() {
    let random = &mut Random(0x81);
    let mut tested = BTreeSet::new();
    for target in TARGETS {
        let mut cases = vector::cases(target, random);
        cases.extend(compare::cases(target, random));
        cases.extend(scalar::cases(target, random));
        cases.extend(memory::cases(target, random));
        cases.extend(memory::lds_cases(target, random));
        cases.extend(cross::cases(target, random));
        cases.extend(packed::cases(target, random));
        cases.extend(control::cases(target, random));
        tested.extend(machine::ops(target, &cases));
    }
    tested.extend(control::FAULTING);
    let implemented: BTreeSet<Op> = Op::all().filter(|op| is_implemented(*op)).collect();
    let untested: Vec<_> = implemented.difference(&tested).map(|op| op.name()).collect();
    assert!(untested.is_empty(), "{} implemented ops have no case: {untested:?}", untested.len());
    let unclaimed: Vec<_> = tested.difference(&implemented).map(|op| op.name()).collect();
    assert!(unclaimed.is_empty(), "cases exist for ops that are not implemented: {unclaimed:?}");
}
