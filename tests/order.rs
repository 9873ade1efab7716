// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Order of work on one queue, behind a kernel that runs until the test lets it end.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::sync::mpsc;

use amdgpu_rs::ffi::raw;
use hold::{GFX1100, Hold, pass_time};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, Rig, wait, when, workgroups};

const DYNAMIC_COUNT: u32 = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;

/// A buffer with `count` workgroups for an indirect dispatch.
fn counts(rig: &Rig, count: u32) -> BufferRef {
    let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS;
    let buffer = rig.buffer_for(usage, 12);
    rig.write(&buffer, 0, &[count, 1, 1].map(u32::to_le_bytes).concat());
    buffer
}

/// Workgroup counts in `buffer`.
fn counted_by(buffer: &BufferRef) -> raw::iree_hal_dispatch_config_t {
    let mut config = workgroups(0);
    config.workgroup_count_ref = direct(buffer, 0, 12);
    config
}

/// Epochs are counted: one that completes early would complete those before it.
#[test]
fn work_that_nothing_orders_completes_after_what_is_before_it() {
    let rig = Rig::new();
    let (target, held, done) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
    let counts = counts(&rig, 1);
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    let report = rig.executable(GFX1100).unwrap();
    let (reports, value) = (rig.buffer(8), 5_u32.to_le_bytes());
    recording
        .dispatch((&report, "report"), counted_by(&counts), &value, &[direct(&reports, 0, 8)], DYNAMIC_COUNT)
        .unwrap();
    recording.end();
    for turn in 0..2 {
        let [held_at, done_at] = [&held, &done].map(|semaphore| (semaphore, turn + 1));
        let hold = Hold::new(&rig, GFX1100, 1, &[held_at]);
        match turn {
            0 => rig.fill(1, &[], &[done_at], &target, (0, 4), &[1]).unwrap(),
            _ => recording.execute(&rig, 1, &[], &[done_at], &[]).unwrap(),
        }
        pass_time(&rig, 2);
        assert_eq!([&held, &done].map(|semaphore| semaphore.borrow().query().unwrap()), [turn; 2], "the kernel runs");
        drop(hold);
        wait(&done, turn + 1).unwrap();
        wait(&held, turn + 1).unwrap();
    }
}

#[test]
fn a_command_buffer_starts_after_what_it_waits_for_on_its_queue() {
    let rig = Rig::new();
    let (source, targets) = (rig.buffer(4), [rig.buffer(4), rig.buffer(4)]);
    let (held, done) = (rig.semaphore(), rig.semaphore());
    rig.write(&source, 0, &[0; 4]);
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    for target in &targets {
        recording.copy(direct(&source, 0, 4), direct(target, 0, 4)).unwrap();
    }
    recording.end();
    let hold = Hold::new(&rig, GFX1100, 1, &[(&held, 1)]);
    recording.execute(&rig, 1, &[(&held, 1)], &[(&done, 1)], &[]).unwrap();
    pass_time(&rig, 2);
    rig.write(&source, 0, &[7; 4]);
    drop(hold);
    wait(&done, 1).unwrap();
    assert_eq!(targets.map(|target| rig.read(&target, 0, 4)), [[7; 4]; 2]);
}

/// Work that completes while the completion thread is busy is signaled in its own order.
#[test]
fn semaphores_advance_in_the_order_of_their_work() {
    let rig = Rig::new();
    let [busy, first, second, seen] = [(); 4].map(|()| rig.semaphore());
    let (started, is_busy) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let keeps_busy = move |_| {
        started.send(()).unwrap();
        // The sender goes when it may.
        let _ = may_go_on.recv();
    };
    when(&busy, 1, keeps_busy);
    for (number, semaphore) in [&first, &second].into_iter().enumerate() {
        let tell = tell.clone();
        when(semaphore, 1, move |_| tell.send(number).unwrap());
    }
    rig.barrier(1, &[], &[(&busy, 1)]).unwrap();
    is_busy.recv().unwrap();
    for semaphore in [&first, &second] {
        rig.barrier(1, &[], &[(semaphore, 1)]).unwrap();
    }
    // The other queue sees on the device that both are complete.
    rig.barrier(2, &[(&second, 1)], &[(&seen, 1)]).unwrap();
    wait(&seen, 1).unwrap();
    drop(go_on);
    assert_eq!([told.recv(), told.recv()], [Ok(0), Ok(1)]);
}

/// An indirect dispatch that nothing orders, next to a kernel that has its kernargs in caches: it shares a line with
/// them.
#[test]
fn the_device_writes_workgroup_counts_where_the_kernel_sees_them() {
    const GROUPS: usize = 6;
    let rig = Rig::new();
    let kernels = rig.executable(GFX1100).unwrap();
    let (flag, sums, reports, done) = (rig.buffer(4), rig.buffer(4 * GROUPS), rig.buffer(8 * GROUPS), rig.semaphore());
    let counts = counts(&rig, GROUPS as u32);
    // Addresses of a binding table are in the queue's kernargs, one dispatch's behind the other's.
    let recording = Recording::begin(&rig, Mode::Reusable, 3);
    let lengths = [4, 4 * GROUPS, 8 * GROUPS];
    let [flag_slot, sums_slot, reports_slot] = [0, 1, 2].map(|slot| indirect(slot, 0, lengths[slot as usize]));
    let groups = workgroups(GROUPS as u32);
    recording.dispatch((&kernels, "hold_reading"), groups, &[], &[flag_slot, sums_slot], 0).unwrap();
    let (report, value) = ((&kernels, "report_by_lane"), 5_u32.to_le_bytes());
    recording.dispatch(report, counted_by(&counts), &value, &[reports_slot], DYNAMIC_COUNT).unwrap();
    recording.end();
    let table = [(&flag, 0, lengths[0]), (&sums, 0, lengths[1]), (&reports, 0, lengths[2])];
    let expected = [5, GROUPS as u32].map(u32::to_le_bytes).concat().repeat(GROUPS);
    // How far the kernels get meanwhile is left to chance.
    for turn in 1..=12 {
        rig.write(&flag, 0, &[0; 4]);
        rig.write(&reports, 0, &[0; 8 * GROUPS]);
        recording.execute(&rig, 1, &[], &[(&done, turn)], &table).unwrap();
        pass_time(&rig, 2);
        rig.write(&flag, 0, &[1; 4]);
        wait(&done, turn).unwrap();
        assert_eq!(rig.read(&reports, 0, 8 * GROUPS), expected, "{turn}");
    }
}
