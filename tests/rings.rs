// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rings of packets and kernel arguments that are full while their queue is held.

#[path = "support/hold.rs"]
mod hold;
mod support;

use amdgpu_rs::ffi::Code;
use hold::Hold;
use support::recording::direct;
use support::{BufferRef, Rig, SemaphoreRef, wait, workgroups};

/// 64 packets, and 8 KiB of arguments: those of the kernel that holds a queue and of some updates.
const RINGS: [(&str, &str); 2] = [("aql_queue_capacity", "64"), ("kernarg_capacity", "128")];

/// Updates behind the kernel, and bytes of each: more than the ring has arguments for.
const UPDATES: usize = 40;
const LENGTH: usize = 256;

/// Updates of a buffer each, which nothing orders, up to `done` at [`UPDATES`].
fn update(rig: &Rig, done: &SemaphoreRef) -> Vec<BufferRef> {
    let one = |index| {
        let target = rig.buffer(LENGTH);
        rig.update(1, &[], &[(done, 1 + index as u64)], &[1 + index as u8; LENGTH], &target).unwrap();
        target
    };
    (0..UPDATES).map(one).collect()
}

/// Checks the bytes that [`update`] has written, when it is complete.
fn check(rig: &Rig, done: &SemaphoreRef, targets: &[BufferRef]) {
    wait(done, UPDATES as u64).unwrap();
    for (value, target) in (1..).zip(targets) {
        assert_eq!(rig.read(target, 0, LENGTH), [value; LENGTH]);
    }
}

#[test]
fn arguments_stay_until_their_packets_have_run() {
    let rig = Rig::with(&RINGS);
    let done = rig.semaphore();
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let targets = update(&rig, &done);
    drop(hold);
    check(&rig, &done, &targets);
}

/// Work that repeatedly finds no room for its packets must not take kernel arguments each time, because no epoch would
/// free them.
#[test]
fn work_that_finds_no_room_for_packets_takes_no_arguments() {
    let rig = Rig::with(&RINGS);
    let done = rig.semaphore();
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    for _ in 0..63 {
        rig.barrier(1, &[], &[]).unwrap();
    }
    let targets = update(&rig, &done);
    drop(hold);
    check(&rig, &done, &targets);
}

/// Else a row of small ones would keep a large one from ever finding room.
#[test]
fn what_waits_for_room_is_not_overtaken() {
    const LARGE: usize = 7 << 10;
    let rig = Rig::with(&RINGS);
    let (large, small) = (rig.semaphore(), rig.semaphore());
    let (target, bytes) = (rig.buffer(LARGE), rig.buffer(4));
    for turn in 1..=8 {
        // One update is in the ring, and leaves no room for another one.
        let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
        rig.update(1, &[], &[(&large, 2 * turn - 1)], &[1; LARGE], &target).unwrap();
        rig.update(1, &[], &[(&large, 2 * turn)], &[2; LARGE], &target).unwrap();
        rig.fill(1, &[], &[(&small, turn)], &bytes, (0, 4), &[turn as u8]).unwrap();
        drop(hold);
        wait(&small, turn).unwrap();
        assert_eq!(large.borrow().query().unwrap(), 2 * turn);
    }
}

#[test]
fn what_is_impossible_is_refused_behind_others_too() {
    let rig = Rig::with(&RINGS);
    let kernels = rig.executable(hold::GFX1100).unwrap();
    let (done, refused, reports) = (rig.semaphore(), rig.semaphore(), rig.buffer(8));
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    for _ in 0..63 {
        rig.barrier(1, &[], &[]).unwrap();
    }
    rig.barrier(1, &[], &[(&done, 1)]).unwrap();
    let mut config = workgroups(u32::MAX);
    config.workgroup_size = [64, 1, 1];
    let bindings = [direct(&reports, 0, 8)];
    let failure =
        rig.dispatch_with(1, &[], &[(&refused, 1)], (&kernels, "report"), config, &[0; 4], &bindings, 0).unwrap_err();
    assert_eq!(failure.code(), Code::INVALID_ARGUMENT, "{failure}");
    drop(hold);
    wait(&done, 1).unwrap();
    assert_eq!(refused.borrow().query().unwrap(), 0, "its semaphores are untouched");
}
