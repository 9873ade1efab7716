// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Devices on GPUs of two kinds in one process.

mod support;

use amdgpu_rs::ffi::Code;
use support::{Rig, failure, wait};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// One test, since it chooses the agents of the process.
#[test]
fn a_fault_of_one_gpu_leaves_the_other_alone() {
    // SAFETY: nothing else runs in this process yet.
    unsafe { std::env::set_var("HSA_SIM_AGENTS", "gfx1100,gfx1201") };
    let (faulty, fine) = (Rig::open("0", &[]).unwrap(), Rig::open("1", &[]).unwrap());
    let faults = faulty.executable(FAULTS).unwrap();
    let refused = fine.executable(FAULTS).expect_err("it is for the other GPU").to_string();
    assert!(refused.contains("gfx1201"), "{refused}");

    // The second device's work is pending on both of its queues, some of it after a signal of the first device.
    let (target, gate, fault) = (faulty.buffer(4), faulty.semaphore(), faulty.semaphore());
    let (buffer, start) = (fine.buffer(64), fine.semaphore());
    fine.write(&buffer, 0, &[9; 64]);
    let pending: Vec<_> = (0..10).map(|_| fine.semaphore()).collect();
    for (index, done) in pending.iter().enumerate() {
        let range = (4 * index, 4);
        fine.fill(1 << (index % 2), &[(&start, 1)], &[(done, 1)], &buffer, range, &[1]).unwrap();
    }
    let dependent = fine.semaphore();
    fine.fill(1, &[(&fault, 1)], &[(&dependent, 1)], &buffer, (40, 4), &[1]).unwrap();
    let index = (1_i64 << 40).to_le_bytes();
    faulty.dispatch(1, &[(&gate, 1)], &[(&fault, 1)], (&faults, "write_at"), &index, &[&target]).unwrap();
    gate.borrow().signal(1).unwrap();

    let lost = failure(&fault, 1);
    assert_eq!(lost.code(), Code::DATA_LOSS, "{lost}");
    let refused = faulty.barrier(2, &[], &[(&gate, 2)]).expect_err("the device is lost");
    assert_eq!(refused.code(), Code::DATA_LOSS);
    let carried = failure(&dependent, 1);
    assert_eq!(carried.code(), Code::DATA_LOSS);
    assert!(carried.to_string().contains("write_at"), "{carried}");

    start.borrow().signal(1).unwrap();
    for done in &pending {
        wait(done, 1).unwrap();
    }
    let late = fine.semaphore();
    fine.fill(2, &[], &[(&late, 1)], &buffer, (44, 20), &[2]).unwrap();
    wait(&late, 1).unwrap();
    let expected = [[1; 40].as_slice(), &[9; 4], &[2; 20]].concat();
    assert_eq!(fine.read(&buffer, 0, 64), expected);

    // The kernel driver runs nothing more on the faulty GPU for this process, even if the driver has gone meanwhile.
    drop((faulty, fine, faults, target, gate, fault, buffer, start, pending, dependent, late));
    let refused = Rig::open("0", &[]).map(drop).expect_err("its GPU has ended");
    assert_eq!(refused.code(), Code::FAILED_PRECONDITION, "{refused}");
    let again = Rig::open("1", &[]).unwrap();
    let (buffer, done) = (again.buffer(4), again.semaphore());
    again.fill(1, &[], &[(&done, 1)], &buffer, (0, 4), &[3]).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(again.read(&buffer, 0, 4), [3; 4]);
}
