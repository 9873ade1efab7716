// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host waits: the events that end one and how soon (the submission it is for, a failure, a lost device, its timeout),
//! waits in which a device ends, and the work that runs in the waiting thread.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, Result, iree, raw, status};
use hold::{GFX1100, Hold};
use support::{List, Points, Rig, SemaphoreRef, failure, wait, when};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// A wait that sleeps for slices of time takes longer than this, unless it is lucky; one that is woken, only on a
/// machine that is busy.
const SOON: Duration = Duration::from_millis(20);

/// Checks that the shortest of a few waits ends within [`SOON`], or on a busy machine within a few times the longest of
/// as many waits for another thread.
fn ends_soon(mut time: impl FnMut() -> Duration) {
    let (mut shortest, mut usual) = (Duration::MAX, Duration::ZERO);
    for _ in 0..5 {
        shortest = shortest.min(time());
        let (send, receive) = channel();
        usual = usual.max(time_of(move || receive.recv().unwrap(), move || send.send(()).unwrap()));
    }
    println!("the shortest wait: {shortest:?}; the longest for a thread: {usual:?}");
    assert!(shortest < SOON + 4 * usual, "{shortest:?}; the longest wait for a thread: {usual:?}");
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

/// A thread that waits for a submission may be the one that handles its end. Work that completes meanwhile, while the
/// thread is in a callback, is handled by the queue's own thread, although no other thread waits and nothing more is
/// submitted.
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

/// The completion thread finds the record of whatever is complete: nothing else signals here, and nothing later wakes
/// that thread again.
#[test]
fn work_completes_without_a_thread_that_waits_for_it() {
    let rig = Rig::new();
    for _ in 0..20 {
        let (done, (reached, is_reached)) = (rig.semaphore(), channel());
        when(&done, 1, move |result| reached.send(result.is_ok()).unwrap());
        rig.barrier(1, &[], &[(&done, 1)]).unwrap();
        assert_eq!(is_reached.recv_timeout(Duration::from_secs(20)), Ok(true));
    }
}

#[test]
fn a_wait_ends_with_its_own_submission_while_later_ones_run() {
    ends_soon(|| {
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
}

#[test]
fn a_wait_ends_when_the_host_fails_the_semaphore_of_work_that_runs() {
    ends_soon(|| {
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
}

#[test]
fn a_wait_ends_when_another_queue_loses_the_device() {
    ends_soon(|| {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, done, trap) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
        let hold = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
        let lose = || rig.dispatch(2, &[], &[(&trap, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
        let took = time_of(|| assert_eq!(failure(&done, 1).code(), Code::DATA_LOSS), lose);
        drop(hold);
        took
    });
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

/// The calls that wait for semaphores.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    /// `iree_hal_semaphore_wait`, for the first one.
    One,
    /// `iree_hal_semaphore_list_wait`.
    All,
    /// `iree_hal_device_wait_semaphores` for any of them.
    Any,
}

const FLAGS: [u32; 3] =
    [raw::IREE_ASYNC_WAIT_FLAG_NONE, raw::IREE_ASYNC_WAIT_FLAG_YIELD, raw::IREE_ASYNC_WAIT_FLAG_ACTIVE];

fn relative(time: Duration) -> raw::iree_timeout_t {
    raw::iree_timeout_t { type_: raw::IREE_TIMEOUT_RELATIVE, nanos: time.as_nanos() as i64 }
}

/// A deadline that no wait which ends otherwise comes to.
const LATE: Duration = Duration::from_secs(60);

fn wait_by(rig: &Rig, call: Call, points: Points<'_>, timeout: raw::iree_timeout_t, flags: u32) -> Result<()> {
    let list = List::new(points);
    let (semaphore, value) = points[0];
    // SAFETY: live objects.
    unsafe {
        match call {
            Call::One => iree!(raw::iree_hal_semaphore_wait(semaphore.as_ptr(), value, timeout, flags)),
            Call::All => iree!(raw::iree_hal_semaphore_list_wait(list.raw(), timeout, flags)),
            Call::Any => iree!(raw::iree_hal_device_wait_semaphores(
                rig.device.as_ptr(),
                raw::IREE_ASYNC_WAIT_MODE_ANY as _,
                list.raw(),
                timeout,
                flags
            )),
        }
    }
}

/// Runs `check` for all flags and calls with a timeout that does not end the wait. IREE's own wait for several
/// semaphores, which no driver has a part in, ends at once if it is active and has a deadline: docs/status/findings.md.
fn for_each_wait(check: impl Fn(Call, raw::iree_timeout_t, u32)) {
    // SAFETY: a pure function.
    let never = unsafe { raw::iree_infinite_timeout() };
    for call in [Call::One, Call::All, Call::Any] {
        for flags in FLAGS {
            let is_broken = call != Call::One && flags == raw::IREE_ASYNC_WAIT_FLAG_ACTIVE;
            if !is_broken {
                check(call, relative(LATE), flags);
            }
            check(call, never, flags);
        }
    }
}

/// A semaphore that was reached, for waits for several.
fn reached(rig: &Rig) -> SemaphoreRef {
    let semaphore = rig.semaphore();
    semaphore.borrow().signal(1).unwrap();
    semaphore
}

#[test]
fn every_wait_ends_with_the_kernel_that_it_is_for() {
    let rig = Rig::new();
    for_each_wait(|call, timeout, flags| {
        let (first, other, pending) = (rig.semaphore(), reached(&rig), rig.semaphore());
        let second = if call == Call::Any { &pending } else { &other };
        let hold = Hold::new(&rig, GFX1100, 1, &[(&first, 1)]);
        time_of(
            || wait_by(&rig, call, &[(&first, 1), (second, 1)], timeout, flags).unwrap(),
            || {
                assert_eq!(first.borrow().query().unwrap(), 0);
                drop(hold);
            },
        );
        assert_eq!(first.borrow().query().unwrap(), 1, "{call:?}, flags {flags}");
    });
}

#[test]
fn every_wait_ends_with_a_signal_of_the_host() {
    let rig = Rig::new();
    for_each_wait(|call, timeout, flags| {
        let (first, other) = (rig.semaphore(), reached(&rig));
        let never = rig.semaphore();
        let second = if call == Call::Any { &never } else { &other };
        let wait = || wait_by(&rig, call, &[(&first, 1), (second, 1)], timeout, flags).unwrap();
        time_of(wait, || first.borrow().signal(1).unwrap());
    });
}

#[test]
fn every_wait_ends_with_the_failure_of_its_semaphore() {
    let rig = Rig::new();
    for_each_wait(|call, timeout, flags| {
        let (first, pending) = (rig.semaphore(), rig.semaphore());
        let wait = || {
            let status = wait_by(&rig, call, &[(&first, 1), (&pending, 1)], timeout, flags).unwrap_err();
            assert_eq!(status.code(), Code::ABORTED, "{call:?}, flags {flags}");
        };
        time_of(wait, || first.borrow().fail(status!(ABORTED, "on purpose")));
        wait();
    });
}

#[test]
fn a_wait_for_what_was_reached_ends_whatever_its_timeout() {
    let rig = Rig::new();
    let (first, other) = (reached(&rig), reached(&rig));
    // SAFETY: pure functions.
    let timeouts = unsafe { [raw::iree_immediate_timeout(), relative(LATE), raw::iree_infinite_timeout()] };
    for call in [Call::One, Call::All, Call::Any] {
        for (flags, timeout) in FLAGS.into_iter().flat_map(|flags| timeouts.map(|timeout| (flags, timeout))) {
            wait_by(&rig, call, &[(&first, 1), (&other, 1)], timeout, flags).unwrap();
        }
    }
}

#[test]
fn a_wait_expires_while_its_kernel_runs() {
    let rig = Rig::new();
    let (first, pending) = (rig.semaphore(), rig.semaphore());
    let hold = Hold::new(&rig, GFX1100, 1, &[(&first, 1)]);
    for call in [Call::One, Call::All, Call::Any] {
        for (flags, time) in FLAGS.into_iter().flat_map(|flags| [0, 3].map(|time| (flags, time))) {
            let start = Instant::now();
            let time = Duration::from_millis(time);
            let status = wait_by(&rig, call, &[(&first, 1), (&pending, 1)], relative(time), flags).unwrap_err();
            assert_eq!(status.code(), Code::DEADLINE_EXCEEDED, "{call:?}, flags {flags}");
            if call == Call::One {
                assert!(start.elapsed() >= time, "flags {flags}: {:?} of {time:?}", start.elapsed());
            }
        }
    }
    drop(hold);
    wait(&first, 1).unwrap();
}

#[test]
fn every_wait_ends_with_its_device() {
    for_each_wait(|call, timeout, flags| {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, first, trap) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
        let pending = rig.semaphore();
        let hold = Hold::new(&rig, GFX1100, 1, &[(&first, 1)]);
        time_of(
            || {
                let status = wait_by(&rig, call, &[(&first, 1), (&pending, 1)], timeout, flags).unwrap_err();
                assert_eq!(status.code(), Code::DATA_LOSS, "{call:?}, flags {flags}");
            },
            || rig.dispatch(2, &[], &[(&trap, 1)], (&faults, "trap"), &[], &[&target]).unwrap(),
        );
        drop(hold);
    });
}

/// The caller of a wait may hold a lock that callbacks of later work take. The thread that waits polls, so it finds the
/// end of its work before the completion thread is awake in most rounds; the later work is complete at the same moment.
#[test]
fn callbacks_of_later_work_do_not_run_in_a_thread_that_waits() {
    const ROUNDS: usize = 20;
    const LATER: u64 = 4;
    for flags in FLAGS {
        let rig = Rig::new();
        for _ in 0..ROUNDS {
            let [done, later] = [(); 2].map(|()| rig.semaphore());
            let hold = Hold::new(&rig, GFX1100, 1, &[(&done, 1)]);
            let (tell, told) = channel();
            for value in 1..=LATER {
                rig.barrier(1, &[], &[(&later, value)]).unwrap();
                let tell = tell.clone();
                when(&later, value, move |_| tell.send(std::thread::current().id()).unwrap());
            }
            std::thread::scope(|threads| {
                let (waits, begins) = channel();
                threads.spawn(move || {
                    begins.recv().unwrap();
                    drop(hold);
                });
                waits.send(()).unwrap();
                // SAFETY: a pure function.
                let never = unsafe { raw::iree_infinite_timeout() };
                wait_by(&rig, Call::One, &[(&done, 1)], never, flags).unwrap();
            });
            let threads: Vec<_> = told.into_iter().take(LATER as usize).collect();
            assert!(threads.iter().all(|thread| *thread != std::thread::current().id()), "flags {flags}");
        }
    }
}
