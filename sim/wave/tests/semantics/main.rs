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
use sim_isa::Op;
use sim_wave::is_implemented;
use std::collections::BTreeSet;

#[test]
fn lane_wise_ops() {
    let ran = machine::check(vector::cases(&mut Random(0x1a)));
    assert!(ran > 3000, "only {ran} cases ran");
}

#[test]
fn vector_compares() {
    let ran = machine::check(compare::cases(&mut Random(0x2b)));
    assert!(ran > 1500, "only {ran} cases ran");
}

#[test]
fn scalar_ops() {
    let ran = machine::check(scalar::cases(&mut Random(0x3c)));
    assert!(ran > 2000, "only {ran} cases ran");
}

#[test]
fn loads_stores_and_atomics() {
    let ran = machine::check(memory::cases(&mut Random(0x4d)));
    assert!(ran > 1000, "only {ran} cases ran");
}

#[test]
fn lds_ops() {
    let ran = machine::check(memory::lds_cases(&mut Random(0x5e)));
    assert!(ran > 300, "only {ran} cases ran");
}

#[test]
fn lane_crossings() {
    let ran = machine::check(cross::cases(&mut Random(0x6f)));
    assert!(ran > 500, "only {ran} cases ran");
}

#[test]
fn packed_ops() {
    let ran = machine::check(packed::cases(&mut Random(0x70)));
    assert!(ran > 500, "only {ran} cases ran");
}

#[test]
fn program_control() {
    machine::check(control::cases(&mut Random(0x92)));
}

#[test]
fn traps_and_stray_jumps_fault() {
    control::faults();
}

/// Every op that the executor claims has a case, and every case's op is claimed.
#[test]
fn every_implemented_op_has_a_case() {
    let random = &mut Random(0x81);
    let mut cases = vector::cases(random);
    cases.extend(compare::cases(random));
    cases.extend(scalar::cases(random));
    cases.extend(memory::cases(random));
    cases.extend(memory::lds_cases(random));
    cases.extend(cross::cases(random));
    cases.extend(packed::cases(random));
    cases.extend(control::cases(random));
    let mut tested = machine::ops(&cases);
    tested.extend(control::FAULTING);
    let implemented: BTreeSet<Op> = Op::all().filter(|op| is_implemented(*op)).collect();
    let untested: Vec<_> = implemented.difference(&tested).map(|op| op.name()).collect();
    assert!(untested.is_empty(), "{} implemented ops have no case: {untested:?}", untested.len());
    let unclaimed: Vec<_> = tested.difference(&implemented).map(|op| op.name()).collect();
    assert!(unclaimed.is_empty(), "cases exist for ops that are not implemented: {unclaimed:?}");
}
