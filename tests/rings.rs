// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Rings of packets and kernel arguments that are full while their queue is held.

#[path = "support/hold.rs"]
mod hold;
mod support;

use hold::Hold;
use support::{BufferRef, Rig, SemaphoreRef, wait};

/// 64 packets, and arguments of the kernel that holds a queue and of a few fills.
const RINGS: [(&str, &str); 2] = [("aql_queue_capacity", "64"), ("kernarg_capacity", "1024")];

/// Fills behind the kernel: more than the ring has arguments for.
const FILLS: usize = 40;

/// Fills a byte each of `target`, which nothing orders, up to `done` at [`FILLS`].
fn fill(rig: &Rig, target: &BufferRef, done: &SemaphoreRef) {
    for index in 0..FILLS {
        rig.fill(1, &[], &[(done, 1 + index as u64)], target, (index, 1), &[1 + index as u8]).unwrap();
    }
}

/// Checks what [`fill`] has filled.
fn check(rig: &Rig, target: &BufferRef) {
    assert_eq!(rig.read(target, 0, FILLS), (1..=FILLS as u8).collect::<Vec<_>>());
}

#[test]
fn arguments_stay_until_their_packets_have_run() {
    let rig = Rig::with(&RINGS);
    let (target, done) = (rig.buffer(FILLS), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    fill(&rig, &target, &done);
    drop(hold);
    wait(&done, FILLS as u64).unwrap();
    check(&rig, &target);
}

/// What finds no room for its packets again and again must not take arguments each time, which no epoch would give back.
#[test]
fn work_that_finds_no_room_for_packets_takes_no_arguments() {
    let rig = Rig::with(&RINGS);
    let (target, done) = (rig.buffer(FILLS), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    for _ in 0..63 {
        rig.barrier(1, &[], &[]).unwrap();
    }
    fill(&rig, &target, &done);
    drop(hold);
    wait(&done, FILLS as u64).unwrap();
    check(&rig, &target);
}
