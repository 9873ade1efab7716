// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queues that wait for each other on the device: by barrier-value packets, or by PM4.

#[path = "support/sink.rs"]
mod sink;
mod support;

use amdgpu_rs::core::memory::device_address;
use amdgpu_rs::ffi::raw;
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

/// An allocation takes memory that the other queue still uses when it waits on the device for the deallocation, and then the queues take
/// turns with it.
fn check_memory(rig: &Rig) {
    const SIZE: usize = 4096;
    const TURNS: u64 = 16;
    // In the only block that the pool has, and only for those who come after its last use.
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
