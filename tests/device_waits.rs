// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queues that wait for each other on the device: by barrier-value packets, or by PM4.

#[path = "support/hold.rs"]
mod hold;
#[path = "support/sink.rs"]
mod sink;
mod support;

use amdgpu_rs::device_address;
use amdgpu_rs::ffi::{QUEUE_AFFINITY_ANY, raw};
use hold::{Hold, pass_time};
use sink::{Sink, end};
use support::one_block::{OneBlock, Policy};
use support::{Rig, failure, passes_alone, wait};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS_GFX942: &[u8] = include_bytes!("testdata/faults.gfx942.co");
const FAULTS_GFX1100: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

#[test]
fn queues_of_gfx942_wait_for_each_other_and_are_lost_together() {
    passes_alone("queues_of_gfx942_wait_for_each_other_and_are_lost_together", "gfx942", || check(FAULTS_GFX942));
}

#[test]
fn queues_of_gfx1100_wait_for_each_other_and_are_lost_together() {
    passes_alone("queues_of_gfx1100_wait_for_each_other_and_are_lost_together", "gfx1100", || check(FAULTS_GFX1100));
}

fn check(faults: &[u8]) {
    let rig = Rig::new();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let sink = Sink::new();
    let families =
        raw::IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS | raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_QUEUE_EVENTS;
    sink.begin(&rig, families).unwrap();
    for value in 1..=200 {
        let waits = [(&done, value - 1)];
        rig.barrier(1 << (value % 2), &waits[..usize::from(value > 1)], &[(&done, value)]).unwrap();
    }
    wait(&done, 200).unwrap();
    end(&rig).unwrap();
    check_profile(&sink);
    check_memory(&rig);

    // The second queue's packets wait for an epoch that the first one never completes.
    let faults = rig.executable(faults).unwrap();
    let index = (1_i64 << 40).to_le_bytes();
    let (gate, first, second) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    rig.dispatch(1, &[], &[(&first, 1)], (&faults, "write_at"), &index, &[&target]).unwrap();
    let behind = rig.barrier(2, &[(&first, 1)], &[(&second, 1)]);
    let lost = failure(&first, 1);
    match behind {
        Ok(()) => assert_eq!(failure(&second, 1).code(), lost.code()),
        // The fault was known already.
        Err(refused) => assert_eq!(refused.code(), lost.code()),
    }
    assert_eq!(rig.barrier(2, &[], &[(&gate, 1)]).expect_err("the device is lost").code(), lost.code());
}

#[test]
fn a_wait_is_for_its_own_epoch_and_not_for_an_earlier_one() {
    passes_alone("a_wait_is_for_its_own_epoch_and_not_for_an_earlier_one", "gfx942", || {
        let rig = Rig::with(&[("hardware_queues_per_gpu", "4")]);
        let (first, second) = (rig.semaphore(), rig.semaphore());
        let [hold_first, hold_second] = [&first, &second].map(|done| Hold::new(&rig, hold::GFX942, 1, &[(done, 1)]));
        let (source, targets) = (rig.buffer(4), [rig.buffer(4), rig.buffer(4)]);
        rig.write(&source, 0, &[0; 4]);
        let done = [rig.semaphore(), rig.semaphore()];
        // Behind both on one queue; behind the one and then behind the other on the next.
        let copy = |queue, waits: &[_], index: usize| {
            rig.copy(queue, waits, &[(&done[index], 1)], (&source, 0), (&targets[index], 0), 4).unwrap();
        };
        copy(2, &[(&first, 1), (&second, 1)], 0);
        rig.barrier(4, &[(&first, 1)], &[]).unwrap();
        copy(4, &[(&second, 1)], 1);
        drop(hold_first);
        wait(&first, 1).unwrap();
        pass_time(&rig, 8);
        rig.write(&source, 0, &[7; 4]);
        drop(hold_second);
        for (done, target) in done.iter().zip(&targets) {
            wait(done, 1).unwrap();
            assert_eq!(rig.read(target, 0, 4), [7; 4]);
        }
    });
}

#[test]
fn work_that_may_go_to_any_queue_overlaps_what_it_does_not_wait_for() {
    passes_alone("work_that_may_go_to_any_queue_overlaps_what_it_does_not_wait_for", "gfx942", || {
        let rig = Rig::new();
        let [held, other, behind] = [(); 3].map(|()| rig.semaphore());
        let hold = Hold::new(&rig, hold::GFX942, QUEUE_AFFINITY_ANY, &[(&held, 1)]);
        rig.barrier(QUEUE_AFFINITY_ANY, &[(&held, 1)], &[(&behind, 1)]).unwrap();
        // The barrier behind the kernel leaves the second queue to this.
        rig.fill(QUEUE_AFFINITY_ANY, &[], &[(&other, 1)], &rig.buffer(4), (0, 4), &[1]).unwrap();
        wait(&other, 1).unwrap();
        assert_eq!([&held, &behind].map(|semaphore| semaphore.borrow().query().unwrap()), [0, 0]);
        drop(hold);
        wait(&behind, 1).unwrap();
    });
}

/// A wait of a queue counts for all work that follows on it: an allocation takes memory without waiting for its last
/// use again.
#[test]
fn an_allocation_comes_after_what_its_queue_has_waited_for() {
    passes_alone("an_allocation_comes_after_what_its_queue_has_waited_for", "gfx942", || {
        const SIZE: usize = 4096;
        let rig = Rig::new();
        let pool = OneBlock::new(&rig, Policy::Waitable, SIZE);
        let [taken, held, freed, again] = [(); 4].map(|()| rig.semaphore());
        let buffer = rig.alloca_from(pool.as_raw(), 1, &[], &[(&taken, 1)], (SIZE, 0)).unwrap();
        let hold = Hold::new(&rig, hold::GFX942, 1, &[(&held, 1)]);
        rig.dealloca(1, &[], &[(&freed, 1)], &buffer).unwrap();
        rig.barrier(2, &[(&freed, 1)], &[]).unwrap();
        let second = rig.alloca_from(pool.as_raw(), 2, &[], &[(&again, 1)], (SIZE, 0)).unwrap();
        drop(hold);
        wait(&again, 1).unwrap();
        let done = rig.semaphore();
        rig.dealloca(2, &[], &[(&done, 1)], &second).unwrap();
        wait(&done, 1).unwrap();
    });
}

/// The last of several waits is for another GPU, which has written memory that this GPU's L2 holds, since one of its
/// queues read it after the first wait.
#[test]
fn each_wait_makes_what_another_gpu_wrote_visible() {
    passes_alone("each_wait_makes_what_another_gpu_wrote_visible", "gfx942,gfx942", || {
        let rig = Rig::with(&[("hardware_queues_per_gpu", "2")]);
        let shared =
            rig.try_buffer(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, raw::IREE_HAL_BUFFER_USAGE_DEFAULT, 4).unwrap();
        let (early, target) = (rig.buffer(4), rig.buffer(4));
        let [written, first, second, read, changed, done] = [(); 6].map(|()| rig.semaphore());
        rig.fill(1, &[], &[(&written, 1)], &shared, (0, 4), &[1]).unwrap();
        wait(&written, 1).unwrap();
        let [hold_first, hold_second] = [&first, &second].map(|done| Hold::new(&rig, hold::GFX942, 2, &[(done, 1)]));
        rig.copy(2, &[], &[(&read, 1)], (&shared, 0), (&early, 0), 4).unwrap();
        rig.fill(4, &[(&read, 1)], &[(&changed, 1)], &shared, (0, 4), &[2]).unwrap();
        rig.copy(1, &[(&first, 1), (&changed, 1)], &[(&done, 1)], (&shared, 0), (&target, 0), 4).unwrap();
        drop(hold_first);
        wait(&first, 1).unwrap();
        pass_time(&rig, 8);
        drop(hold_second);
        wait(&done, 1).unwrap();
        assert_eq!((rig.read(&early, 0, 4), rig.read(&target, 0, 4)), (vec![1; 4], vec![2; 4]));
    });
}

/// An allocation takes memory that the other queue still uses when it waits on the device for the deallocation, and
/// then the queues take turns with it.
fn check_memory(rig: &Rig) {
    const SIZE: usize = 4096;
    const TURNS: u64 = 16;
    // In the only block that the pool has, and only for operations after its last use.
    let pool = OneBlock::new(rig, Policy::Waitable, SIZE);
    let (long, results, done) = (rig.buffer(16 << 20), rig.buffer(4 * TURNS as usize), rig.semaphore());
    rig.fill(2, &[], &[(&done, 1)], &long, (0, 16 << 20), &[1]).unwrap();
    let mut starts = Vec::new();
    for turn in 0..TURNS {
        let at = |step| [(&done, 1 + 4 * turn + step)];
        let queue = 1 << (turn % 2);
        let buffer = rig.alloca_from(pool.as_raw(), queue, &at(0), &at(1), (SIZE, 0)).unwrap();
        starts.push(device_address(buffer.borrow(), 0).unwrap());
        rig.fill(queue, &at(1), &at(2), &buffer, (0, 4), &[turn as u8]).unwrap();
        rig.copy(queue, &at(2), &at(3), (&buffer, 0), (&results, 4 * turn as usize), 4).unwrap();
        rig.dealloca(queue, &at(3), &at(4), &buffer).unwrap();
    }
    wait(&done, 1 + 4 * TURNS).unwrap();
    assert!(starts.iter().all(|start| *start == starts[0]), "{starts:x?}");
    assert_eq!((pool.exhausted(), pool.deaths().len()), (0, TURNS as usize));
    let expected: Vec<u8> = (0..TURNS as u8).flat_map(|turn| [turn; 4]).collect();
    assert_eq!(rig.read(&results, 0, 4 * TURNS as usize), expected);
}

/// Each barrier starts on the device after the one before it ended, and its waits are packets unless they were over.
fn check_profile(sink: &Sink) {
    let mut spans: Vec<raw::iree_hal_profile_queue_device_event_t> = sink.records("queue-device-events");
    let mut events: Vec<raw::iree_hal_profile_queue_event_t> = sink.records("queue-events");
    assert_eq!((spans.len(), events.len()), (200, 200));
    spans.sort_by_key(|span| span.submission_id);
    events.sort_by_key(|event| event.submission_id);
    for (index, pair) in spans.windows(2).enumerate() {
        assert_ne!(pair[0].queue_ordinal, pair[1].queue_ordinal);
        assert!(pair[0].end_tick <= pair[1].start_tick, "{index}");
    }
    let on_device = raw::IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_DEVICE_BARRIER;
    for event in events {
        assert_eq!(event.dependency_strategy == on_device, event.barrier_count > 0);
        assert!(event.barrier_count <= event.wait_count && event.flags == 0);
    }
}
