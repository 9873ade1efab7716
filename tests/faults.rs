// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernels that go wrong and executables that do not fit: what a program sees of them.

mod support;

use amdgpu_rs::ffi::Code;
use support::{Rig, failure, wait};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// The same for another GPU.
const FAULTS_GFX942: &[u8] = include_bytes!("testdata/faults.gfx942.co");

/// An element that is far from every allocation.
const FAR: i64 = 1 << 40;

#[test]
fn a_read_out_of_bounds_fails_the_semaphore_with_kernel_and_address() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, source, done) = (rig.buffer(4), rig.buffer(4), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "read_at"), &FAR.to_le_bytes(), &[&target, &source]).unwrap();
    let status = failure(&done, 1);
    let text = status.to_string();
    assert_eq!(status.code(), Code::DATA_LOSS, "{text}");
    for part in ["read_at", "at address 0x", "s_load_b32", "GPU 0"] {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

#[test]
fn a_write_out_of_bounds_is_a_fault_too() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "write_at"), &FAR.to_le_bytes(), &[&target]).unwrap();
    let text = failure(&done, 1).to_string();
    assert!(text.contains("write_at") && text.contains("global_store"), "{text}");
}

#[test]
fn a_trap_names_the_instruction() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
    let text = failure(&done, 1).to_string();
    assert!(text.contains("trap") && text.contains("s_trap"), "{text}");
}

#[test]
fn a_fault_fails_all_that_is_pending_and_the_device_is_lost() {
    let rig = Rig::new();
    let other = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, gate, done) = (rig.buffer(64), rig.semaphore(), rig.semaphore());
    // Behind the gate: the fault, and ten more submissions on two queues, each behind the one before.
    rig.dispatch(1, &[(&gate, 1)], &[(&done, 1)], (&faults, "write_at"), &FAR.to_le_bytes(), &[&target]).unwrap();
    for value in 2..=11 {
        let queue = 1 << (value % 2);
        rig.fill(queue, &[(&done, value - 1)], &[(&done, value)], &target, (0, 64), &[value as u8]).unwrap();
    }
    gate.borrow().signal(1).unwrap();
    assert_eq!(failure(&done, 11).code(), Code::DATA_LOSS);
    let late = rig.semaphore();
    let status = rig.fill(1, &[], &[(&late, 1)], &target, (0, 4), &[1]).expect_err("the device is lost");
    assert_eq!(status.code(), Code::DATA_LOSS);
    assert_eq!(late.borrow().query().unwrap(), 0, "a call that fails leaves its semaphores alone");
    // Another device goes on.
    let (buffer, fine) = (other.buffer(4), other.semaphore());
    other.fill(1, &[], &[(&fine, 1)], &buffer, (0, 4), &[5]).unwrap();
    wait(&fine, 1).unwrap();
    assert_eq!(other.read(&buffer, 0, 4), [5; 4]);
}

/// The other queue is busy with nothing that the fault touches, and knows no more than that its device is lost.
#[test]
fn a_fault_of_one_queue_loses_the_others() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done, late) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "write_at"), &FAR.to_le_bytes(), &[&target]).unwrap();
    assert_eq!(failure(&done, 1).code(), Code::DATA_LOSS);
    let status = rig.barrier(2, &[], &[(&late, 1)]).expect_err("the device is lost");
    assert_eq!(status.code(), Code::DATA_LOSS);
}

/// Whatever the moment of the fault, each submission is refused or its semaphore fails.
#[test]
fn submissions_while_the_device_is_being_lost_do_not_hang() {
    for round in 0..20_u64 {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, done) = (rig.buffer(4), rig.semaphore());
        rig.dispatch(1, &[], &[(&done, 1)], (&faults, "write_at"), &FAR.to_le_bytes(), &[&target]).unwrap();
        let mut accepted = Vec::new();
        for submission in 0..200 {
            let semaphore = rig.semaphore();
            match rig.barrier(1 << ((round + submission) % 2), &[], &[(&semaphore, 1)]) {
                Ok(()) => accepted.push(semaphore),
                Err(status) => assert_eq!(status.code(), Code::DATA_LOSS),
            }
        }
        for semaphore in &accepted {
            if let Err(status) = wait(semaphore, 1) {
                assert_eq!(status.code(), Code::DATA_LOSS);
            }
        }
    }
}

#[test]
fn an_executable_for_another_gpu_names_both() {
    let rig = Rig::new();
    let status = rig.executable(FAULTS_GFX942).expect_err("it is for another GPU");
    let text = status.to_string();
    assert_eq!(status.code(), Code::INCOMPATIBLE, "{text}");
    for part in ["gfx942", "gfx1100", "--iree-rocm-target=gfx1100"] {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

#[test]
fn truncated_and_damaged_executables_are_refused() {
    let rig = Rig::new();
    for length in [0, 3, 63, 64, 200, FAULTS.len() / 2, FAULTS.len() - 1] {
        assert!(rig.executable(&FAULTS[..length]).is_err(), "{length} bytes");
    }
    for position in (0..64).chain((64..FAULTS.len()).step_by(97)) {
        let mut damaged = FAULTS.to_vec();
        damaged[position] ^= 0xFF;
        // Some damage does not matter; none may end the process.
        drop(rig.executable(&damaged));
    }
}

#[test]
fn dispatches_with_wrong_arguments_are_refused() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let no_constants = rig.dispatch(1, &[], &[(&done, 1)], (&faults, "write_at"), &[], &[&target]);
    assert_eq!(no_constants.expect_err("the index is missing").code(), Code::INVALID_ARGUMENT);
    let unknown = rig.dispatch(1, &[], &[(&done, 1)], (&faults, "no_such_kernel"), &[], &[&target]);
    let text = unknown.expect_err("there is no such kernel").to_string();
    assert!(text.contains("write_at") && text.contains("NOT_FOUND"), "{text}");
    assert_eq!(done.borrow().query().unwrap(), 0);
}
