// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernels that go wrong and executables that do not fit: what a program sees of them.

mod support;

use amdgpu_rs::ffi::Code;
use support::recording::{Mode, Recording, direct};
use support::{Rig, failure, wait};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// A kernel that holds a queue back; `testdata/kernels.c` says how it was built.
const KERNELS: &[u8] = include_bytes!("testdata/kernels.gfx1100.co");

/// The same for another GPU.
const FAULTS_GFX942: &[u8] = include_bytes!("testdata/faults.gfx942.co");

/// An element that is far from every allocation.
const FAR: i64 = 1 << 40;

/// The address, the access, the kernel and the queue.
#[test]
fn a_fault_says_where_how_by_whom_and_on_which_queue() {
    for (queue, kernel, access, instruction) in
        [(0, "read_at", "read of 4 bytes", "s_load_b32"), (1, "write_at", "write of 4 bytes", "global_store_b32")]
    {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, source, done) = (rig.buffer(4), rig.buffer(4), rig.semaphore());
        let bindings = [&target, &source];
        let bindings = if kernel == "read_at" { &bindings[..] } else { &bindings[..1] };
        rig.dispatch(1 << queue, &[], &[(&done, 1)], (&faults, kernel), &FAR.to_le_bytes(), bindings).unwrap();
        let status = failure(&done, 1);
        let text = status.to_string();
        assert_eq!(status.code(), Code::DATA_LOSS, "{text}");
        let accessed = bindings.last().expect("a buffer to access");
        let address = format!("{:#x}", rig.device_address(accessed) + 4 * FAR as u64);
        let queue = format!("hardware queue {queue} (affinity {:#x}) of GPU 0", 1 << queue);
        for part in [&address, access, kernel, &queue, instruction] {
            assert!(text.contains(part), "{part} in: {text}");
        }
    }
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

/// Ten submissions on two queues, in the ring behind the fault or waiting for it; then everything that can be asked of the device.
#[test]
fn a_fault_fails_all_that_is_pending_and_the_device_is_lost() {
    let rig = Rig::new();
    let other = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    let (target, flag, fault) = (rig.buffer(64), rig.buffer(4), rig.semaphore());
    recording.fill(direct(&target, 0, 64), 1).unwrap();
    recording.end();
    let far = FAR.to_le_bytes();
    rig.write(&flag, 0, &[0; 4]);
    rig.dispatch(1, &[], &[], (&rig.executable(KERNELS).unwrap(), "hold"), &[], &[&flag]).unwrap();
    rig.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &far, &[&target]).unwrap();
    let pending: Vec<_> = (0..10).map(|_| rig.semaphore()).collect();
    for (index, done) in pending.iter().enumerate() {
        let queue = 1 << (index % 2);
        // The first queue is in order; the second waits for the fault itself.
        let (waits, signals) = ([(&fault, 1)], [(done, 1)]);
        let waits = if queue == 1 { &waits[..0] } else { &waits[..] };
        match index / 2 {
            0 => rig.fill(queue, waits, &signals, &target, (0, 64), &[1]),
            1 => rig.update(queue, waits, &signals, &[1; 64], &target),
            2 => recording.execute(&rig, queue, waits, &signals, &[]),
            3 => rig.alloca(queue, waits, &signals, 64).map(drop),
            _ => rig.barrier(queue, waits, &signals),
        }
        .unwrap();
    }
    rig.write(&flag, 0, &[1; 4]);
    let first = failure(&fault, 1);
    assert_eq!(first.code(), Code::DATA_LOSS);
    for done in &pending {
        let status = failure(done, 1);
        assert_eq!(status.code(), first.code(), "{status}");
        assert!(status.to_string().contains("write_at"), "{status}");
    }

    let late = rig.semaphore();
    let signals = [(&late, 1)];
    let refused = [
        rig.fill(1, &[], &signals, &target, (0, 4), &[1]),
        rig.update(2, &[], &signals, &[1; 4], &target),
        rig.copy(1, &[], &signals, (&target, 0), (&target, 32), 4),
        rig.dispatch(2, &[], &signals, (&faults, "write_at"), &far, &[&target]),
        recording.execute(&rig, 1, &[], &signals, &[]),
        rig.alloca(2, &[], &signals, 64).map(drop),
        rig.host_call(1, &[], &signals),
        rig.barrier(2, &[], &signals),
    ];
    for result in refused {
        let status = result.expect_err("the device is lost");
        assert_eq!(status.code(), Code::DATA_LOSS);
        assert!(status.to_string().contains("the device is lost; recreate it"), "{status}");
    }
    assert_eq!(late.borrow().query().unwrap(), 0, "a call that fails leaves its semaphores alone");

    // Another device on the same GPU goes on, and so does one that is made now.
    for other in [&other, &Rig::new()] {
        let (buffer, fine) = (other.buffer(4), other.semaphore());
        other.fill(1, &[], &[(&fine, 1)], &buffer, (0, 4), &[5]).unwrap();
        wait(&fine, 1).unwrap();
        assert_eq!(other.read(&buffer, 0, 4), [5; 4]);
    }
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
