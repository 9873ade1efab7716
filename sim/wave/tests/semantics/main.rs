// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What each implemented op does, against values computed apart from the executor.

mod compare;
#[path = "../../../isa/tests/common/mod.rs"]
mod llvm;
mod machine;
mod memory;
mod num;
mod reference;
mod scalar;
mod vector;

use llvm::Random;

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
