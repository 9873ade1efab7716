// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue operations, waits and failures through the C API.

mod support;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, iree, raw, status};
use support::{List, Rig, failure, own_time, passes_alone, wait};

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
    // The second queue's work is submitted before the work it waits for.
    rig.fill(2, &[(&first, 1)], &[(&second, 1)], &buffer, (4, 4), &[2]).unwrap();
    rig.fill(1, &[(&gate, 1)], &[(&first, 1)], &buffer, (0, 8), &[1]).unwrap();
    assert_eq!(second.borrow().query().unwrap(), 0);
    gate.borrow().signal(1).unwrap();
    wait(&second, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
}

/// The newest submission that signals a semaphore says nothing of larger payloads.
#[test]
fn work_waits_for_a_payload_that_is_not_submitted_yet() {
    let rig = Rig::new();
    let (source, target) = (rig.buffer(4), rig.buffer(4));
    rig.write(&source, 0, &[1; 4]);
    let (gate, done, other) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    rig.barrier(1, &[], &[(&gate, 1)]).unwrap();
    wait(&gate, 1).unwrap();
    rig.copy(1, &[(&gate, 2)], &[(&done, 1)], (&source, 0), (&target, 0), 4).unwrap();
    // Work without waits runs meanwhile.
    for value in 1..=20 {
        rig.barrier(1, &[], &[(&other, value)]).unwrap();
        wait(&other, value).unwrap();
    }
    rig.write(&source, 0, &[2; 4]);
    gate.borrow().signal(2).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&target, 0, 4), [2; 4]);
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

/// Rings as small as they can be, and ones in which a single epoch is in flight: from eight threads on two queues, each
/// submission takes its turn and none fails.
#[test]
fn full_rings_park_submissions_of_many_threads() {
    for notification_capacity in ["1", "64"] {
        let rig = Rig::with(&[
            ("aql_queue_capacity", "64"),
            ("kernarg_capacity", "128"),
            ("notification_capacity", notification_capacity),
        ]);
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
                        let queue = 1 << ((thread as u64 + value / 50) % 2);
                        let pattern = (value as u32).to_le_bytes();
                        let range = (4 * thread, 4);
                        rig.fill(queue, &[(&done, value - 1)], &[(&done, value)], buffer, range, &pattern).unwrap();
                    }
                    wait(&done, OPERATIONS).unwrap();
                });
            }
        });
        let words = rig.read(&buffer, 0, THREADS * 4);
        assert_eq!(words, (OPERATIONS as u32).to_le_bytes().repeat(THREADS));
    }
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

/// The semaphore's proactor goes with it, after the device and the pool that made the proactor.
#[test]
fn a_semaphore_outlives_its_device() {
    let rig = Rig::new();
    let (signaled, later) = (rig.semaphore(), rig.semaphore());
    rig.barrier(1, &[], &[(&signaled, 1)]).unwrap();
    wait(&signaled, 1).unwrap();
    drop(rig);
    wait(&signaled, 1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| wait(&later, 1).unwrap());
        later.borrow().signal(1).unwrap();
    });
    later.borrow().fail(status!(ABORTED, "called off"));
    assert_eq!(failure(&later, 2).code(), Code::ABORTED);
}

#[test]
fn transfers_past_the_end_of_a_buffer_are_refused() {
    let rig = Rig::new();
    let (a, b, done) = (rig.buffer(16), rig.buffer(16), rig.semaphore());
    let signals = [(&done, 1)];
    for (offset, length) in [(0, 17), (17, 0), (8, 9), (1, usize::MAX), (2, usize::MAX - 1), (usize::MAX, 1)] {
        let filled = rig.fill(1, &[], &signals, &a, (offset, length), &[1]).expect_err("a fill past the end");
        assert_eq!(filled.code(), Code::OUT_OF_RANGE, "{offset} {length}: {filled}");
        for ranges in [((&a, offset), (&b, 0)), ((&a, 0), (&b, offset))] {
            let copied = rig.copy(1, &[], &signals, ranges.0, ranges.1, length).expect_err("a copy past the end");
            assert_eq!(copied.code(), Code::OUT_OF_RANGE, "{offset} {length}: {copied}");
        }
    }
    let overlapping = rig.copy(1, &[], &signals, (&a, 0), (&a, 4), 8).expect_err("source and target overlap");
    assert_eq!(overlapping.code(), Code::INVALID_ARGUMENT);
    assert_eq!(done.borrow().query().unwrap(), 0);
    rig.copy(1, &[], &signals, (&a, 0), (&a, 8), 8).unwrap();
    wait(&done, 1).unwrap();
}

#[test]
fn a_wait_ends_when_the_host_signals_or_fails_what_a_queue_was_to_signal() {
    let rig = Rig::new();
    let (blocked, signaled, failed) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    let (entered, leave) = (Barrier::new(2), Barrier::new(2));
    let source = rig.buffer(4);
    std::thread::scope(|scope| {
        // Two waiters of submissions that are behind a gate.
        rig.fill(1, &[(&blocked, 1)], &[(&signaled, 1)], &source, (0, 4), &[1]).unwrap();
        rig.fill(1, &[(&blocked, 1)], &[(&failed, 1)], &source, (0, 4), &[1]).unwrap();
        let waiters = scope.spawn(|| {
            entered.wait();
            wait(&signaled, 1).unwrap();
            assert_eq!(failure(&failed, 1).code(), Code::ABORTED);
            leave.wait();
        });
        entered.wait();
        signaled.borrow().signal(2).unwrap();
        failed.borrow().fail(status!(ABORTED, "called off"));
        leave.wait();
        waiters.join().unwrap();
        blocked.borrow().signal(1).unwrap();
    });
}

/// An update much larger than the kernarg ring goes in parts, which find the ring full: the device goes away while it
/// is half done.
#[test]
fn what_is_half_in_the_ring_when_the_device_goes_is_completed() {
    let options = [("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "64")];
    for _ in 0..20 {
        let rig = Rig::with(&options);
        let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| i.to_le_bytes()[1]).collect();
        let (buffer, done) = (rig.buffer(bytes.len()), rig.semaphore());
        rig.update(1, &[], &[(&done, 1)], &bytes, &buffer).unwrap();
        drop(bytes);
        drop(buffer);
        drop(rig);
        wait(&done, 1).unwrap();
    }
}

#[test]
fn unknown_flags_are_refused() {
    let rig = Rig::new();
    // SAFETY: live objects and empty lists.
    let refused = unsafe {
        let nothing = List::new(&[]).raw();
        iree!(raw::iree_hal_device_queue_barrier(rig.device.as_ptr(), 1, nothing, nothing, 1 << 40))
    };
    assert_eq!(refused.expect_err("no such flag").code(), Code::INVALID_ARGUMENT);
}

/// The packet processor gives slots back long after it has signaled their packets' completion: a submission finds the
/// ring full with nothing in flight, whose end would say that there is room.
#[test]
fn a_ring_whose_slots_come_free_late_does_not_stall_its_queue() {
    let name = "a_ring_whose_slots_come_free_late_does_not_stall_its_queue";
    passes_alone(name, "gfx1100:read_index=late", full_rings_never_stall_a_queue);
}

/// The larger the number of submissions on a tiny ring, the more often one finds it full with nothing in flight.
#[test]
fn full_rings_never_stall_a_queue() {
    let rig = Rig::with(&[("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "64")]);
    let (buffer, done) = (rig.buffer(4096), rig.semaphore());
    for value in 1..=2000 {
        let waits = [(&done, value - 1)];
        rig.fill(1, &waits[..usize::from(value > 1)], &[(&done, value)], &buffer, (0, 4096), &[value as u8]).unwrap();
    }
    wait(&done, 2000).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4096), [2000_u64 as u8; 4096]);
}

/// The time for a copy of 4 bytes from the call to the return of the wait. The bound is for the shortest of many, which
/// a busy machine does not lengthen: it catches a thread that sleeps for a while where it should be woken.
#[test]
fn a_small_copy_makes_its_round_trip_quickly() {
    let rig = Rig::new();
    let (a, b) = (rig.buffer(4), rig.buffer(4));
    let done = rig.semaphore();
    let times = (1..=300_u64).map(|value| {
        let start = Instant::now();
        rig.copy(QUEUE_AFFINITY_ANY, &[], &[(&done, value)], (&a, 0), (&b, 0), 4).unwrap();
        wait(&done, value).unwrap();
        start.elapsed()
    });
    let shortest = times.min().expect("many");
    assert!(shortest < Duration::from_millis(2), "{shortest:?}");
}

#[test]
fn releasing_many_deferred_submissions_takes_work_in_proportion() {
    let rig = Rig::new();
    let work = |count: u64| {
        let gate = rig.semaphore();
        for _ in 0..count {
            rig.barrier(1, &[(&gate, 1)], &[]).unwrap();
        }
        let begin = own_time();
        gate.borrow().signal(1).unwrap();
        own_time() - begin
    };
    // The least of some: others may take the thread's caches.
    let least = |count| (0..3).map(|_| work(count)).fold(f64::INFINITY, f64::min);
    let (few, many) = (least(2_500), least(20_000));
    assert!(many < 24.0 * few, "8 times the submissions take {many} s in place of {few} s");
}

#[test]
fn semaphores_with_unknown_flags_or_for_no_queue_are_refused() {
    let rig = Rig::new();
    let create = |affinity, flags| {
        let mut semaphore = std::ptr::null_mut();
        // SAFETY: a live device and a place for the result, which is released at once.
        unsafe {
            iree!(raw::iree_hal_semaphore_create(rig.device.as_ptr(), affinity, 0, flags, &raw mut semaphore))?;
            drop(HalRef::from_owned(semaphore));
            Ok(())
        }
    };
    let known: u32 = raw::IREE_HAL_SEMAPHORE_FLAG_DEVICE_LOCAL
        | raw::IREE_HAL_SEMAPHORE_FLAG_HOST_INTERRUPT
        | raw::IREE_HAL_SEMAPHORE_FLAG_EXPORTABLE
        | raw::IREE_HAL_SEMAPHORE_FLAG_EXPORTABLE_TIMEPOINTS
        | raw::IREE_HAL_SEMAPHORE_FLAG_SINGLE_PRODUCER;
    let refusal = |result: Result<()>| result.expect_err("it is wrong").to_string();
    create(QUEUE_AFFINITY_ANY, known.into()).unwrap();
    create(0, 0).unwrap();
    let text = refusal(create(QUEUE_AFFINITY_ANY, 1 << 40));
    assert!(text.contains("unknown semaphore flags 0x10000000000"), "{text}");
    let text = refusal(create(1 << 60, 0));
    assert!(text.contains("queue affinity 0x1000000000000000 names none"), "{text}");
    // SAFETY: a live device.
    let text = refusal(unsafe { iree!(raw::iree_hal_device_queue_flush(rig.device.as_ptr(), 1 << 60)) });
    assert!(text.contains("queue affinity 0x1000000000000000 names none"), "{text}");
}

#[test]
fn the_device_is_identified_by_the_uuid_of_its_gpu() {
    let rig = Rig::new();
    // SAFETY: all-zero is a device without capabilities; a live device and a place for the result.
    let capabilities = unsafe {
        let mut capabilities: raw::iree_hal_device_capabilities_t = std::mem::zeroed();
        iree!(raw::iree_hal_device_query_capabilities(rig.device.as_ptr(), &raw mut capabilities)).unwrap();
        capabilities
    };
    assert!(capabilities.has_physical_device_uuid);
    // The digits of the simulated gfx1100's `GPU-53494d000000744c`.
    let digits: String = capabilities.physical_device_uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digits, "53494d000000744c0000000000000000");
}
