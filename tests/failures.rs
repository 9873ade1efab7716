// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Semaphores that the host fails.

mod support;

use amdgpu_rs::ffi::{Code, status};
use support::recording::{Mode, Recording, direct};
use support::{Rig, SemaphoreRef, failure, wait};

/// Every kind of operation on two queues, each after the one before it, behind a gate that fails: none runs, all fail
/// with the gate's status, and the device lives.
#[test]
fn a_failed_semaphore_fails_everything_behind_it() {
    let rig = Rig::new();
    let buffer = rig.buffer(64);
    rig.write(&buffer, 0, &[9; 64]);
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    recording.fill(direct(&buffer, 0, 64), 1).unwrap();
    recording.end();
    for fails_first in [false, true] {
        let chain: Vec<SemaphoreRef> = (0..9).map(|_| rig.semaphore()).collect();
        let fail = || chain[0].borrow().fail(status!(ABORTED, "called off by the host"));
        if fails_first {
            fail();
        }
        for (index, pair) in chain.windows(2).enumerate() {
            let (queue, waits, signals) = (1 << (index % 2), [(&pair[0], 1)], [(&pair[1], 1)]);
            match index {
                0 => rig.fill(queue, &waits, &signals, &buffer, (0, 64), &[1]),
                1 => rig.update(queue, &waits, &signals, &[1; 64], &buffer),
                2 => rig.copy(queue, &waits, &signals, (&buffer, 0), (&buffer, 32), 32),
                3 => recording.execute(&rig, queue, &waits, &signals, &[]),
                4 => rig.alloca(queue, &waits, &signals, 64).map(drop),
                5 => rig.host_call(queue, &waits, &signals),
                6 => rig.barrier(queue, &waits, &signals),
                _ => rig.fill(queue, &waits, &signals, &buffer, (0, 64), &[2]),
            }
            .unwrap();
        }
        if !fails_first {
            assert_eq!(chain[8].borrow().query().unwrap(), 0);
            fail();
        }
        for semaphore in &chain {
            let status = failure(semaphore, 1);
            assert_eq!(status.code(), Code::ABORTED);
            assert!(status.to_string().contains("called off by the host"), "{status}");
        }
        let fine = rig.semaphore();
        rig.copy(2, &[], &[(&fine, 1)], (&buffer, 0), (&buffer, 32), 32).unwrap();
        wait(&fine, 1).unwrap();
        assert_eq!(rig.read(&buffer, 0, 64), [9; 64]);
    }
}

/// One of several waits fails while the others are not reached, or are reached already.
#[test]
fn one_failed_wait_of_many_is_enough() {
    let rig = Rig::new();
    let buffer = rig.buffer(4);
    rig.write(&buffer, 0, &[9; 4]);
    for failing in 0..3 {
        let waits: Vec<_> = (0..3).map(|_| rig.semaphore()).collect();
        let done = rig.semaphore();
        waits[(failing + 1) % 3].borrow().signal(1).unwrap();
        let points: Vec<_> = waits.iter().map(|semaphore| (semaphore, 1)).collect();
        rig.fill(1, &points, &[(&done, 1)], &buffer, (0, 4), &[1]).unwrap();
        waits[failing].borrow().fail(status!(ABORTED, "called off"));
        // The submission has nothing to signal before its last wait is over.
        waits[(failing + 2) % 3].borrow().signal(1).unwrap();
        assert_eq!(failure(&done, 1).code(), Code::ABORTED);
    }
    assert_eq!(rig.read(&buffer, 0, 4), [9; 4]);
}

/// The host fails a semaphore whose submission is on its way: its waiters return, and the queue goes on.
#[test]
fn a_semaphore_that_fails_before_its_signal_stays_failed() {
    let rig = Rig::new();
    let buffer = rig.buffer(4);
    for _ in 0..100 {
        let (done, after, fine) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
        rig.fill(1, &[], &[(&done, 1)], &buffer, (0, 4), &[1]).unwrap();
        done.borrow().fail(status!(ABORTED, "called off"));
        assert_eq!(failure(&done, 2).code(), Code::ABORTED);
        rig.fill(2, &[(&done, 2)], &[(&after, 1)], &buffer, (0, 4), &[2]).unwrap();
        assert_eq!(failure(&after, 1).code(), Code::ABORTED);
        rig.barrier(1, &[], &[(&fine, 1)]).unwrap();
        wait(&fine, 1).unwrap();
    }
}
