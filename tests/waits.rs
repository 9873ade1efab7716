// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What ends a host wait, and how soon: the submission it is for, a failure, a lost device; and waits in which a device
//! ends.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, status};
use hold::{GFX1100, Hold};
use support::{Rig, failure, wait, when};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// A wait that sleeps for slices of time takes longer than this, unless it is lucky; one that is woken, only on a
/// machine that is busy.
const SOON: Duration = Duration::from_millis(20);

/// The shortest of a few times.
fn shortest(mut time: impl FnMut() -> Duration) -> Duration {
    (0..5).map(|_| time()).min().expect("a few")
}

/// Has another thread wait, then acts, and returns how long the wait went on after that.
fn time_of(wait: impl FnOnce() + Send, act: impl FnOnce()) -> Duration {
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            begun.wait();
            wait();
            Instant::now()
        });
        begun.wait();
        // Most likely the other thread sleeps then. If it does not, the wait is a short one.
        (0..50).for_each(|_| std::thread::yield_now());
        let start = Instant::now();
        act();
        waiter.join().unwrap().saturating_duration_since(start)
    })
}

/// The epoch that the wait is for is the next to complete when the host signals in its place.
#[test]
fn the_host_ends_a_wait_for_the_submission_that_runs() {
    let rig = Rig::new();
    let (first, done) = (rig.semaphore(), rig.semaphore());
    let hold = Hold::new(&rig, GFX1100, 1, &[(&first, 1)]);
    let second = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
    time_of(
        || wait(&done, 1).unwrap(),
        || {
            drop(hold);
            wait(&first, 1).unwrap();
            done.borrow().signal(1).unwrap();
        },
    );
    drop(second);
}

/// A thread that waits for a submission may be the one that handles its end. What is complete while it is at that, in a
/// callback, is handled by the queue's own thread after it, although nobody else waits and nothing more is submitted.
#[test]
fn what_completes_while_another_thread_handles_completion_is_not_forgotten() {
    for _ in 0..6 {
        let rig = Rig::new();
        let [first, second, other] = [(); 3].map(|()| rig.semaphore());
        let ((entered, enter), (leave, left), (tell, told)) = (channel(), channel::<()>(), channel());
        when(&first, 1, move |_| {
            entered.send(()).unwrap();
            let _ = left.recv();
        });
        when(&second, 1, move |result| tell.send(result).unwrap());
        let hold = Hold::new(&rig, GFX1100, 1, &[(&first, 1)]);
        std::thread::scope(|scope| {
            scope.spawn(|| wait(&first, 1).unwrap());
            (0..50).for_each(|_| std::thread::yield_now());
            drop(hold);
            enter.recv().unwrap();
            rig.barrier(1, &[], &[(&second, 1)]).unwrap();
            // The queue's own thread has its turn meanwhile.
            for value in 1..=10 {
                rig.barrier(2, &[], &[(&other, value)]).unwrap();
                wait(&other, value).unwrap();
            }
            drop(leave);
        });
        told.recv().unwrap().unwrap();
    }
}

#[test]
fn a_wait_ends_with_its_own_submission_while_later_ones_run() {
    let took = shortest(|| {
        let rig = Rig::new();
        let done = rig.semaphore();
        let hold = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
        let second = Hold::new(&rig, GFX1100, 1, &[(&done, 2)]);
        let took = time_of(|| wait(&done, 1).unwrap(), || drop(hold));
        assert_eq!(done.borrow().query().unwrap(), 1);
        drop(second);
        wait(&done, 2).unwrap();
        took
    });
    println!("the shortest wait: {took:?}");
    assert!(took < SOON, "{took:?}");
}

#[test]
fn a_wait_ends_when_the_host_fails_the_semaphore_of_work_that_runs() {
    let took = shortest(|| {
        let rig = Rig::new();
        let (done, after) = (rig.semaphore(), rig.semaphore());
        let hold = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
        let fail = || done.borrow().fail(status!(ABORTED, "called off"));
        let took = time_of(|| assert_eq!(failure(&done, 1).code(), Code::ABORTED), fail);
        drop(hold);
        rig.barrier(1, &[], &[(&after, 1)]).unwrap();
        wait(&after, 1).unwrap();
        took
    });
    println!("the shortest wait: {took:?}");
    assert!(took < SOON, "{took:?}");
}

#[test]
fn a_wait_ends_when_another_queue_loses_the_device() {
    let took = shortest(|| {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, done, trap) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
        let hold = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
        let lose = || rig.dispatch(2, &[], &[(&trap, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
        let took = time_of(|| assert_eq!(failure(&done, 1).code(), Code::DATA_LOSS), lose);
        drop(hold);
        took
    });
    println!("the shortest wait: {took:?}");
    assert!(took < SOON, "{took:?}");
}

/// Many more epochs are complete than are taken out at once, and the completion thread is busy elsewhere, so that the
/// thread that waits handles them. The callback of the first one lets the device go.
#[test]
fn a_thread_that_waits_may_release_the_device_in_a_callback_of_what_it_completes() {
    let rig = Rig::new();
    let (gate, stuck, done) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    let (entered, has_entered) = channel();
    let (leave, may_leave) = channel::<()>();
    rig.barrier(1, &[(&gate, 1)], &[(&stuck, 1)]).unwrap();
    when(&stuck, 1, move |_| {
        entered.send(()).unwrap();
        let _ = may_leave.recv();
    });
    gate.borrow().fail(status!(ABORTED, "to keep the completion thread busy"));
    has_entered.recv().unwrap();
    let hold = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
    for value in 2..=40 {
        rig.barrier(1, &[], &[(&done, value)]).unwrap();
    }
    drop(hold);
    let rig = Arc::new(Mutex::new(Some(rig)));
    let last = rig.clone();
    when(&done, 1, move |_| {
        drop(leave);
        let rig = last.lock().unwrap().take();
        drop(rig);
    });
    wait(&done, 40).unwrap();
    assert!(rig.lock().unwrap().is_none());
}
