// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers through the C API, without IREE's validation.

mod support;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, WHOLE_BUFFER};
use support::recording::{Mode, Recording, direct, indirect};
use support::{Rig, wait};

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

/// A recording larger than the rings goes in parts. What is wrong with a late command is found before the first part runs.
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
