// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers through the C API.

mod support;

use amdgpu_rs::ffi::vtable::{BufferCommand, CACHE_COMMANDS};
use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, Result, WHOLE_BUFFER, iree, raw, strings};
use support::recording::{Mode, Recording, direct, indirect};
use support::{Rig, passes_alone, wait, workgroups};

/// Arguments that are known are written once, those of a table for each execution.
#[test]
fn known_arguments_and_others_are_those_of_their_commands() {
    let rig = Rig::new();
    let (kernels, done) = (rig.executable(include_bytes!("testdata/kernels.gfx1100.co")).unwrap(), rig.semaphore());
    let (known, bound) = ([(); 4].map(|()| rig.buffer(8)), [(); 2].map(|()| rig.buffer(8)));
    for slots in [0, 2] {
        let recording = Recording::begin(&rig, Mode::Reusable, slots);
        let report = |value: u8, target| {
            let constants = u32::from(value).to_le_bytes();
            recording.dispatch((&kernels, "report"), workgroups(1), &constants, &[target], 0).unwrap();
        };
        for (buffer, value) in known.iter().zip(1_u8..) {
            match value {
                1 | 4 => recording.fill(direct(buffer, 0, 4), value).unwrap(),
                _ => report(value, direct(buffer, 0, 8)),
            }
            if slots > 0 && value < 3 {
                report(10 + value, indirect(u32::from(value) - 1, 0, 8));
            }
        }
        recording.end();
        let table: Vec<_> = bound[..slots].iter().map(|buffer| (buffer, 0, 8)).collect();
        recording.execute(&rig, 1, &[], &[(&done, 1 + slots as u64)], &table).unwrap();
        wait(&done, 1 + slots as u64).unwrap();
        let first = |buffer| rig.read(buffer, 0, 1)[0];
        assert_eq!(known.each_ref().map(first), [1, 2, 3, 4]);
        assert_eq!(bound.each_ref().map(first), if slots > 0 { [11, 12] } else { [0; 2] });
        known.iter().for_each(|buffer| rig.write(buffer, 0, &[0; 8]));
    }
}

#[test]
fn commands_keep_to_their_buffers_without_validation() {
    let rig = Rig::new();
    let (buffer, done) = (rig.buffer(64), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::Unvalidated, 1);
    for (offset, length) in [(0, 65), (60, 8), (8, usize::MAX - 1)] {
        let refused = recording.fill(direct(&buffer, offset, length), 1).expect_err("past the end");
        assert_eq!(refused.code(), Code::OUT_OF_RANGE, "{offset} {length}: {refused}");
    }
    recording.fill(indirect(0, 8, 16), 7).unwrap();
    recording.end();
    for (offset, length) in [(0, 23), (41, WHOLE_BUFFER), (0, 65), (65, WHOLE_BUFFER), (usize::MAX, 24)] {
        let refused = recording
            .execute(&rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &[(&buffer, offset, length)])
            .expect_err("past the end");
        assert_eq!(refused.code(), Code::OUT_OF_RANGE, "{offset} {length}: {refused}");
    }
    assert_eq!(done.borrow().query().unwrap(), 0);
    rig.write(&buffer, 0, &[0; 64]);
    recording.execute(&rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &[(&buffer, 40, WHOLE_BUFFER)]).unwrap();
    wait(&done, 1).unwrap();
    let mut expected = [0; 64];
    expected[48..].fill(7);
    assert_eq!(rig.read(&buffer, 0, 64), expected);
}

/// The bindings before the one for which a dispatch is refused ask nothing of executions' tables.
#[test]
fn a_refused_dispatch_asks_nothing_of_the_table() {
    let rig = Rig::new();
    let (kernels, done) = (rig.executable(include_bytes!("testdata/kernels.gfx1100.co")).unwrap(), rig.semaphore());
    let (buffer, other) = (rig.buffer(64), rig.buffer(64));
    let recording = Recording::begin(&rig, Mode::Unvalidated, 1);
    for (target, code) in [(direct(&other, 60, 8), Code::OUT_OF_RANGE), (indirect(1, 0, 8), Code::INVALID_ARGUMENT)] {
        let bindings = [indirect(0, 48, 8), target];
        let refused = recording.dispatch((&kernels, "hold_reading"), workgroups(1), &[], &bindings, 0);
        let refused = refused.expect_err("a target that is not there");
        assert_eq!(refused.code(), code, "{refused}");
    }
    recording.dispatch((&kernels, "report"), workgroups(1), &7_u32.to_le_bytes(), &[indirect(0, 8, 8)], 0).unwrap();
    recording.end();
    recording.execute(&rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &[(&buffer, 0, 16)]).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&buffer, 8, 1), [7]);
}

/// A recording larger than the rings goes in parts. An error of a late command is found before the first part runs.
#[test]
fn a_long_recording_runs_whole_or_not_at_all() {
    let rig = Rig::with(&[("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "64")]);
    const COMMANDS: usize = 300;
    let (buffer, done) = (rig.buffer(COMMANDS), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::Unvalidated, 1);
    for index in 0..COMMANDS {
        recording.fill(indirect(0, index, 1), index as u8).unwrap();
        recording.barrier();
    }
    recording.end();
    rig.write(&buffer, 0, &[0xEE; COMMANDS]);
    let refused = recording
        .execute(&rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &[(&buffer, 0, COMMANDS - 1)])
        .expect_err("one byte short");
    assert_eq!(refused.code(), Code::OUT_OF_RANGE);
    // After whatever may have been in the ring.
    rig.barrier(1, &[], &[(&done, 1)]).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, COMMANDS), [0xEE; COMMANDS]);
    recording.execute(&rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 2)], &[(&buffer, 0, WHOLE_BUFFER)]).unwrap();
    drop(recording);
    wait(&done, 2).unwrap();
    let expected: Vec<_> = (0..COMMANDS).map(|index| index as u8).collect();
    assert_eq!(rig.read(&buffer, 0, COMMANDS), expected);
}

/// The packet processor may free the slots of packets after it has signaled their ends.
#[test]
fn a_long_recording_goes_on_when_a_ring_is_full_of_what_is_over() {
    passes_alone("a_long_recording_goes_on_when_a_ring_is_full_of_what_is_over", "gfx1100:read_index=late", || {
        let rig = Rig::with(&[("aql_queue_capacity", "64"), ("kernarg_capacity", "128")]);
        let buffer = rig.buffer(300);
        let recording = Recording::begin(&rig, Mode::OneShot, 0);
        for index in 0..300 {
            recording.fill(direct(&buffer, index, 1), index as u8).unwrap();
        }
        recording.end();
        recording.run(&rig).unwrap();
        assert_eq!(rig.read(&buffer, 0, 300), (0..300).map(|index| index as u8).collect::<Vec<_>>());
    });
}

/// Chains of copies, each behind a barrier that names other stages, accesses and buffers.
#[test]
fn every_barrier_orders_what_is_around_it() {
    const LENGTH: usize = 1 << 14;
    let memory = |source_scope, target_scope| raw::iree_hal_memory_barrier_t { source_scope, target_scope };
    let barriers: &[(u32, u32, &[raw::iree_hal_memory_barrier_t])] = &[
        (0, 0, &[]),
        (raw::IREE_HAL_EXECUTION_STAGE_TRANSFER, raw::IREE_HAL_EXECUTION_STAGE_TRANSFER, &[]),
        (
            raw::IREE_HAL_EXECUTION_STAGE_DISPATCH,
            raw::IREE_HAL_EXECUTION_STAGE_COMMAND_PROCESS,
            &[memory(raw::IREE_HAL_ACCESS_SCOPE_DISPATCH_WRITE, raw::IREE_HAL_ACCESS_SCOPE_INDIRECT_COMMAND_READ)],
        ),
        (
            raw::IREE_HAL_EXECUTION_STAGE_HOST,
            raw::IREE_HAL_EXECUTION_STAGE_TRANSFER,
            &[memory(raw::IREE_HAL_ACCESS_SCOPE_HOST_WRITE, raw::IREE_HAL_ACCESS_SCOPE_TRANSFER_READ)],
        ),
    ];
    let rig = Rig::new();
    let buffers: Vec<_> = (0..=barriers.len()).map(|_| rig.buffer(LENGTH)).collect();
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    recording.fill(direct(&buffers[0], 0, LENGTH), 7).unwrap();
    for (pair, (source, target, memory)) in buffers.windows(2).zip(barriers) {
        recording.barrier_with(*source, *target, 0, memory).unwrap();
        recording.copy(direct(&pair[0], 0, LENGTH), direct(&pair[1], 0, LENGTH)).unwrap();
    }
    let refused = recording.barrier_with(0, 0, 1, &[]).expect_err("no such flag");
    assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    recording.end();
    recording.run(&rig).unwrap();
    assert!(rig.read(&buffers[barriers.len()], 0, LENGTH) == [7; LENGTH], "a copy overtook what it depends on");
}

unsafe extern "C" fn advise(
    recording: *mut raw::iree_hal_command_buffer_t,
    target: raw::iree_hal_buffer_ref_t,
) -> *mut raw::iree_status_handle_t {
    // SAFETY: the caller's.
    unsafe { raw::iree_hal_command_buffer_advise_buffer(recording, target, 0, 0, 0) }
}

/// Advice, flushes and invalidations: between commands they change nothing, and they keep to their buffers.
#[test]
fn hints_and_cache_maintenance_are_accepted_for_what_exists() {
    let commands = [&[advise as BufferCommand], CACHE_COMMANDS].concat();
    let rig = Rig::new();
    let (a, b, done) = (rig.buffer(64), rig.buffer(64), rig.semaphore());
    for mode in [Mode::Reusable, Mode::Unvalidated] {
        let recording = Recording::begin(&rig, mode, 1);
        recording.fill(direct(&a, 0, 64), 5).unwrap();
        recording.barrier();
        for command in &commands {
            // SAFETY: live objects.
            let command = |target| unsafe { iree!(command(recording.as_ptr(), target)) };
            command(direct(&a, 0, 64)).unwrap();
            command(indirect(0, 8, 8)).unwrap();
            assert!(command(direct(&a, 8, 57)).is_err(), "past the end");
            assert!(command(indirect(1, 0, 8)).is_err(), "no such slot");
        }
        recording.barrier();
        recording.copy(direct(&a, 0, 64), indirect(0, 0, 64)).unwrap();
        recording.end();
        rig.write(&b, 0, &[0; 64]);
        // IREE's validation expects the table to have the slots.
        if mode == Mode::Unvalidated {
            assert!(recording.execute(&rig, 1, &[], &[(&done, 1)], &[]).is_err(), "slot 0 is not bound");
        }
        let signal = rig.semaphore();
        recording.execute(&rig, 1, &[], &[(&signal, 1)], &[(&b, 0, 64)]).unwrap();
        wait(&signal, 1).unwrap();
        assert_eq!(rig.read(&b, 0, 64), [5; 64]);
    }
    assert_eq!(done.borrow().query().unwrap(), 0);
}

fn begin_group(recording: &Recording) -> Result<()> {
    // SAFETY: a live command buffer; all-zero is no color, and there is no location.
    unsafe {
        iree!(raw::iree_hal_command_buffer_begin_debug_group(
            recording.as_ptr(),
            strings::view("group"),
            std::mem::zeroed(),
            std::ptr::null()
        ))
    }
}

fn end_group(recording: &Recording) -> Result<()> {
    // SAFETY: a live command buffer.
    unsafe { iree!(raw::iree_hal_command_buffer_end_debug_group(recording.as_ptr())) }
}

#[test]
fn debug_groups_nest_and_balance() {
    let rig = Rig::new();
    let buffer = rig.buffer(4);
    let recording = Recording::begin(&rig, Mode::Unvalidated, 0);
    let refused = end_group(&recording).expect_err("none is open");
    assert_eq!(refused.code(), Code::FAILED_PRECONDITION, "{refused}");
    begin_group(&recording).unwrap();
    begin_group(&recording).unwrap();
    recording.fill(direct(&buffer, 0, 4), 9).unwrap();
    end_group(&recording).unwrap();
    end_group(&recording).unwrap();
    recording.end();
    assert!(begin_group(&recording).is_err(), "the recording has ended");
    recording.run(&rig).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4), [9; 4]);

    let recording = Recording::begin(&rig, Mode::Unvalidated, 0);
    begin_group(&recording).unwrap();
    // SAFETY: a live command buffer.
    let refused = unsafe { iree!(raw::iree_hal_command_buffer_end(recording.as_ptr())) }.expect_err("one is open");
    assert_eq!(refused.code(), Code::FAILED_PRECONDITION, "{refused}");
}

/// A refused execution does not count.
#[test]
fn a_one_shot_recording_executes_once() {
    let rig = Rig::new();
    let (buffer, done) = (rig.buffer(16), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::OneShot, 1);
    recording.fill(indirect(0, 0, 16), 4).unwrap();
    recording.end();
    let refused = recording.execute(&rig, 1, &[], &[(&done, 1)], &[(&buffer, 8, 8)]).expect_err("8 bytes short");
    assert_eq!(refused.code(), Code::OUT_OF_RANGE, "{refused}");
    recording.execute(&rig, 1, &[], &[(&done, 1)], &[(&buffer, 0, 16)]).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, 16), [4; 16]);
    let refused = recording.execute(&rig, 1, &[], &[(&done, 2)], &[(&buffer, 0, 16)]).expect_err("it is spent");
    assert_eq!(refused.code(), Code::FAILED_PRECONDITION, "{refused}");
    assert_eq!(done.borrow().query().unwrap(), 1);
}

/// IREE's own rules, checked before the driver is asked: inline recordings are one-shot, take no binding table and wait
/// for nothing.
#[test]
fn inline_recordings_are_one_shot_without_table_and_waits() {
    const INLINE: u32 = raw::IREE_HAL_COMMAND_BUFFER_MODE_ALLOW_INLINE_EXECUTION;
    const ONE_SHOT: u32 = raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT;
    let rig = Rig::new();
    let (buffer, done) = (rig.buffer(4), rig.semaphore());
    for (mode, slots) in [(INLINE, 0), (INLINE | ONE_SHOT, 1)] {
        let refused = Recording::create(&rig, QUEUE_AFFINITY_ANY, mode, slots).err().expect("refused");
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    }
    let recording = Recording::create(&rig, QUEUE_AFFINITY_ANY, INLINE | ONE_SHOT, 0).unwrap();
    // SAFETY: a live command buffer.
    unsafe { iree!(raw::iree_hal_command_buffer_begin(recording.as_ptr())) }.unwrap();
    recording.fill(direct(&buffer, 0, 4), 6).unwrap();
    recording.end();
    let refused = recording.execute(&rig, 1, &[(&done, 1)], &[(&done, 2)], &[]).expect_err("it waits");
    assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    recording.run(&rig).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4), [6; 4]);
}

/// Recorded all the while that its allocation goes on, a buffer is one without memory or one with it, and never another
/// driver's.
#[test]
fn a_buffer_may_get_its_memory_while_it_is_recorded() {
    let rig = Rig::new();
    for _ in 0..100 {
        let (gate, allocated, over) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
        let buffer = rig.alloca(1, &[(&gate, 1)], &[(&allocated, 1)], 64).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| gate.borrow().signal(1).unwrap());
            while allocated.borrow().query().unwrap() == 0 {
                let recording = Recording::begin(&rig, Mode::Unvalidated, 0);
                for _ in 0..20 {
                    recording.fill(direct(&buffer, 0, 64), 7).unwrap();
                }
            }
        });
        rig.dealloca(1, &[], &[(&over, 1)], &buffer).unwrap();
        wait(&over, 1).unwrap();
    }
}
