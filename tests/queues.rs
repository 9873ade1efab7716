// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue operations, waits and failures through the C API.

mod support;

use std::sync::Barrier;
use std::time::Instant;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, status};
use support::{Rig, failure, wait};

#[test]
fn fills_and_copies_keep_to_their_ranges() {
    let rig = Rig::new();
    let (a, b) = (rig.buffer(300), rig.buffer(300));
    rig.write(&a, 0, &[0xEE; 300]);
    rig.write(&b, 0, &[0xDD; 300]);
    let done = rig.semaphore();
    rig.fill(QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &a, (3, 250), &[1]).unwrap();
    rig.copy(QUEUE_AFFINITY_ANY, &[(&done, 1)], &[(&done, 2)], (&a, 1), (&b, 7), 290).unwrap();
    wait(&done, 2).unwrap();
    let mut expected = [0xEE; 300];
    expected[3..253].fill(1);
    assert_eq!(rig.read(&a, 0, 300), expected);
    let copied = rig.read(&b, 0, 300);
    assert_eq!(copied[..7], [0xDD; 7]);
    assert_eq!(copied[7..297], expected[1..291]);
    assert_eq!(copied[297..], [0xDD; 3]);
}

#[test]
fn work_waits_for_the_host_and_for_other_queues() {
    let rig = Rig::new();
    let buffer = rig.buffer(8);
    let (gate, first, second) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    // The second queue's work is submitted before what it waits for.
    rig.fill(2, &[(&first, 1)], &[(&second, 1)], &buffer, (4, 4), &[2]).unwrap();
    rig.fill(1, &[(&gate, 1)], &[(&first, 1)], &buffer, (0, 8), &[1]).unwrap();
    assert_eq!(second.borrow().query().unwrap(), 0);
    gate.borrow().signal(1).unwrap();
    wait(&second, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn a_failed_wait_fails_what_depends_on_it_and_nothing_else() {
    let rig = Rig::new();
    let buffer = rig.buffer(4);
    rig.write(&buffer, 0, &[9; 4]);
    let (gate, after, independent) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    rig.fill(1, &[(&gate, 1)], &[(&after, 1)], &buffer, (0, 4), &[1]).unwrap();
    gate.borrow().fail(status!(ABORTED, "called off"));
    let status = failure(&after, 1);
    assert_eq!(status.code(), Code::ABORTED);
    // A wait that has failed already fails at once, without an error from the call.
    let late = rig.semaphore();
    rig.fill(1, &[(&gate, 1)], &[(&late, 1)], &buffer, (0, 4), &[1]).unwrap();
    assert_eq!(failure(&late, 1).code(), Code::ABORTED);
    rig.barrier(1, &[], &[(&independent, 1)]).unwrap();
    wait(&independent, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4), [9; 4]);
}

#[test]
fn small_rings_park_submissions_from_many_threads() {
    let options = [("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "64")];
    let rig = Rig::with(&options);
    const THREADS: usize = 8;
    const OPERATIONS: u64 = 200;
    let buffer = rig.buffer(THREADS * 4);
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rig, buffer, start) = (&rig, &buffer, &start);
            scope.spawn(move || {
                let done = rig.semaphore();
                start.wait();
                for value in 1..=OPERATIONS {
                    let pattern = (value as u32).to_le_bytes();
                    let range = (4 * thread, 4);
                    rig.fill(1, &[(&done, value - 1)], &[(&done, value)], buffer, range, &pattern).unwrap();
                }
                wait(&done, OPERATIONS).unwrap();
            });
        }
    });
    let words = rig.read(&buffer, 0, THREADS * 4);
    assert_eq!(words, (OPERATIONS as u32).to_le_bytes().repeat(THREADS));
}

/// The first epoch may be complete before the queue's completion thread runs for the first time.
#[test]
fn the_first_operation_of_a_device_completes() {
    for _ in 0..100 {
        let rig = Rig::new();
        let done = rig.semaphore();
        rig.barrier(1, &[], &[(&done, 1)]).unwrap();
        // Through a second semaphore, so that the host does not wait on the epoch itself.
        let after = rig.semaphore();
        rig.barrier(2, &[(&done, 1)], &[(&after, 1)]).unwrap();
        wait(&after, 1).unwrap();
    }
}

#[test]
fn what_waits_when_the_device_goes_is_cancelled() {
    let rig = Rig::new();
    let buffer = rig.buffer(4);
    let (gate, after) = (rig.semaphore(), rig.semaphore());
    rig.fill(1, &[(&gate, 1)], &[(&after, 1)], &buffer, (0, 4), &[1]).unwrap();
    drop(buffer);
    drop(rig);
    assert_eq!(failure(&after, 1).code(), Code::CANCELLED);
}

/// The time for a copy of 4 bytes from the call to the return of the wait. The bound is generous: it catches a thread that sleeps where it
/// should be woken.
#[test]
fn a_small_copy_makes_its_round_trip_quickly() {
    let rig = Rig::new();
    let (a, b) = (rig.buffer(4), rig.buffer(4));
    let done = rig.semaphore();
    let mut times: Vec<_> = (1..=300_u64)
        .map(|value| {
            let start = Instant::now();
            rig.copy(QUEUE_AFFINITY_ANY, &[], &[(&done, value)], (&a, 0), (&b, 0), 4).unwrap();
            wait(&done, value).unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2];
    println!("median round trip of a 4-byte copy: {median:?}");
    assert!(median.as_micros() < 2000, "{median:?}");
}
