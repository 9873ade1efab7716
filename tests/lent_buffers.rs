// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations and recordings that use a queue-allocated buffer whose memory has gone back to its pool.

#[path = "support/hold.rs"]
mod hold;
mod support;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, Result, Status, iree, raw};
use hold::{GFX1100, Hold};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, ExecutableRef, Rig, failure, wait, workgroups};

/// Bytes of the buffers.
const SIZE: usize = 64;

/// The use that a recording makes of a queue-allocated buffer.
#[derive(Clone, Copy, Debug)]
enum Use {
    Fill,
    CopyTo,
    CopyFrom,
    Update,
    Binding,
    WorkgroupCount,
}

const USES: [Use; 6] = [Use::Fill, Use::CopyTo, Use::CopyFrom, Use::Update, Use::Binding, Use::WorkgroupCount];

/// Records the use `what` of `buffer` and of `other`, which the host can access.
fn record(recording: &Recording, kernels: &ExecutableRef, what: Use, buffer: &BufferRef, other: &BufferRef) {
    let (target, other) = (direct(buffer, 0, SIZE), direct(other, 0, SIZE));
    let report = (kernels, "report");
    match what {
        Use::Fill => recording.fill(target, 0xee),
        Use::CopyTo => recording.copy(other, target),
        Use::CopyFrom => recording.copy(target, other),
        Use::Update => {
            let bytes = [0xee_u8; SIZE];
            // SAFETY: live objects; the bytes are captured during the call.
            unsafe {
                iree!(raw::iree_hal_command_buffer_update_buffer(
                    recording.as_ptr(),
                    bytes.as_ptr().cast(),
                    0,
                    target,
                    0
                ))
            }
        }
        Use::Binding => recording.dispatch(report, workgroups(1), &[0xee; 4], &[target], 0),
        Use::WorkgroupCount => {
            let mut config = workgroups(0);
            config.workgroup_count_ref = direct(buffer, 0, 12);
            let flags = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;
            recording.dispatch(report, config, &[0xee; 4], &[other], flags)
        }
    }
    .unwrap_or_else(|status| panic!("{what:?}: {status}"));
}

/// A queue-allocated buffer that has its memory.
fn allocated(rig: &Rig) -> BufferRef {
    let done = rig.semaphore();
    let buffer = rig.alloca(1, &[], &[(&done, 1)], SIZE).unwrap();
    wait(&done, 1).unwrap();
    buffer
}

/// Allocates the memory that was just given back, and fills it.
fn successor(rig: &Rig, address: u64) -> BufferRef {
    let done = rig.semaphore();
    let buffer = rig.alloca(1, &[], &[(&done, 1)], SIZE).unwrap();
    assert_eq!(amdgpu_rs::device_address(buffer.borrow(), 0).unwrap(), address, "memory that is used again");
    rig.fill(1, &[(&done, 1)], &[(&done, 2)], &buffer, (0, SIZE), &[7]).unwrap();
    buffer
}

fn contents(rig: &Rig, buffer: &BufferRef) -> Vec<u8> {
    let (copy, done) = (rig.buffer(SIZE), rig.semaphore());
    rig.copy(1, &[], &[(&done, 1)], (buffer, 0), (&copy, 0), SIZE).unwrap();
    wait(&done, 1).unwrap();
    rig.read(&copy, 0, SIZE)
}

fn check_refused(status: &Status, what: impl std::fmt::Debug) {
    assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{what:?}: {status}");
    let text = status.to_string();
    assert!(text.contains(&format!("buffer of {SIZE} bytes")) && text.contains("queue_dealloca"), "{what:?}: {text}");
}

/// Checks that the memory is another buffer's from the deallocation's place in the queue's ring on, complete or not.
fn check_recordings(options: &[(&str, &str)]) {
    let rig = Rig::with(options);
    let kernels = rig.executable(GFX1100).unwrap();
    for mode in [Mode::Reusable, Mode::OneShot, Mode::Unretained] {
        for what in USES {
            for is_complete in [true, false] {
                let (over, other, buffer) = (rig.semaphore(), rig.buffer(SIZE), allocated(&rig));
                let recording = Recording::begin(&rig, mode, 0);
                record(&recording, &kernels, what, &buffer, &other);
                recording.end();
                if mode != Mode::OneShot && !matches!(what, Use::WorkgroupCount) {
                    recording.run(&rig).unwrap_or_else(|status| panic!("{what:?} in time: {status}"));
                }
                let address = amdgpu_rs::device_address(buffer.borrow(), 0).unwrap();
                let hold = (!is_complete).then(|| Hold::new(&rig, GFX1100, 1, &[]));
                rig.dealloca(1, &[], &[(&over, 1)], &buffer).unwrap();
                if is_complete {
                    wait(&over, 1).unwrap();
                }
                let next = successor(&rig, address);
                let refused = recording.run(&rig).expect_err("the memory is another buffer's");
                check_refused(&refused, (mode, what, is_complete));
                drop(hold);
                assert_eq!(contents(&rig, &next), [7; SIZE], "{mode:?} {what:?} {is_complete}");
                rig.dealloca(1, &[], &[(&over, 2)], &next).unwrap();
                wait(&over, 2).unwrap();
            }
        }
    }
}

#[test]
fn a_recording_does_not_use_memory_that_was_given_back() {
    check_recordings(&[]);
}

#[test]
fn a_stream_does_not_use_memory_that_was_given_back() {
    check_recordings(&[("command_buffer_mode", "pm4")]);
}

/// Semaphores give the order, not the calls.
#[test]
fn a_deallocation_that_waits_for_an_execution_may_be_submitted_before_it() {
    let rig = Rig::new();
    let (kernels, ran, over) = (rig.executable(GFX1100).unwrap(), rig.semaphore(), rig.semaphore());
    let (buffer, other) = (allocated(&rig), rig.buffer(SIZE));
    let recording = Recording::begin(&rig, Mode::Reusable, 1);
    record(&recording, &kernels, Use::Fill, &buffer, &other);
    recording.copy(indirect(0, 0, SIZE), direct(&other, 0, SIZE)).unwrap();
    recording.end();
    rig.dealloca(1, &[(&ran, 1)], &[(&over, 1)], &buffer).unwrap();
    recording.execute(&rig, 1, &[], &[(&ran, 1)], &[(&buffer, 0, SIZE)]).unwrap();
    wait(&over, 1).unwrap();
    assert_eq!(rig.read(&other, 0, 1).len(), 1);
}

/// A submission that waits for a semaphore finds out when its turn comes.
#[test]
fn an_execution_that_waits_fails_when_the_memory_is_gone_by_then() {
    let rig = Rig::new();
    let (kernels, gate, ran, over) =
        (rig.executable(GFX1100).unwrap(), rig.semaphore(), rig.semaphore(), rig.semaphore());
    let (buffer, other) = (allocated(&rig), rig.buffer(SIZE));
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    record(&recording, &kernels, Use::Binding, &buffer, &other);
    recording.end();
    recording.execute(&rig, 1, &[(&gate, 1)], &[(&ran, 1)], &[]).unwrap();
    rig.dealloca(1, &[], &[(&over, 1)], &buffer).unwrap();
    wait(&over, 1).unwrap();
    gate.borrow().signal(1).unwrap();
    check_refused(&failure(&ran, 1), "a deferred execution");
}

/// Operations that are not recorded, and slots of binding tables.
#[test]
fn no_operation_uses_memory_that_was_given_back() {
    let rig = Rig::new();
    let kernels = rig.executable(GFX1100).unwrap();
    let (done, over, other, buffer) = (rig.semaphore(), rig.semaphore(), rig.buffer(SIZE), allocated(&rig));
    let recording = Recording::begin(&rig, Mode::Reusable, 1);
    recording.fill(indirect(0, 0, SIZE), 7).unwrap();
    recording.end();
    let address = amdgpu_rs::device_address(buffer.borrow(), 0).unwrap();
    let hold = Hold::new(&rig, GFX1100, 1, &[]);
    rig.dealloca(1, &[], &[(&over, 1)], &buffer).unwrap();
    let next = successor(&rig, address);
    let signals = [(&done, 1)];
    let calls: [(&str, Result<()>); 6] = [
        ("fill", rig.fill(1, &[], &signals, &buffer, (0, SIZE), &[9])),
        ("copy to", rig.copy(1, &[], &signals, (&other, 0), (&buffer, 0), SIZE)),
        ("copy from", rig.copy(1, &[], &signals, (&buffer, 0), (&other, 0), SIZE)),
        ("update", rig.update(1, &[], &signals, &[9; SIZE], &buffer)),
        ("dispatch", rig.dispatch(1, &[], &signals, (&kernels, "report"), &[9; 4], &[&buffer])),
        ("slot", recording.execute(&rig, QUEUE_AFFINITY_ANY, &[], &signals, &[(&buffer, 0, SIZE)])),
    ];
    for (name, result) in calls {
        check_refused(&result.expect_err(name), name);
    }
    drop(hold);
    assert_eq!(done.borrow().query().unwrap(), 0);
    assert_eq!(contents(&rig, &next), [7; SIZE]);
}

/// A recording of many commands with few buffers that wait for their memory looks them up once.
#[test]
fn buffers_without_memory_are_entries_once_however_often_they_are_used() {
    const BUFFERS: usize = 20;
    const COMMANDS: usize = 400;
    let rig = Rig::new();
    let kernels = rig.executable(GFX1100).unwrap();
    let (gate, ran, done) = (rig.semaphore(), rig.semaphore(), [(); BUFFERS].map(|()| rig.semaphore()));
    let buffers: Vec<_> =
        done.iter().map(|done| rig.alloca(1, &[(&gate, 1)], &[(done, 1)], 4 * SIZE).unwrap()).collect();
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    for command in 0..COMMANDS {
        let target = direct(&buffers[command % BUFFERS], command / BUFFERS % 4 * SIZE, SIZE);
        let value = (command as u32).to_le_bytes();
        recording.dispatch((&kernels, "report"), workgroups(1), &value, &[target], 0).unwrap();
        recording.barrier();
    }
    recording.end();
    let refused = recording.execute(&rig, 1, &[], &[(&ran, 1)], &[]).expect_err("no memory yet");
    assert_eq!(refused.code(), Code::FAILED_PRECONDITION, "{refused}");
    gate.borrow().signal(1).unwrap();
    done.iter().for_each(|done| wait(done, 1).unwrap());
    recording.execute(&rig, 1, &[], &[(&ran, 1)], &[]).unwrap();
    wait(&ran, 1).unwrap();
    for (at, buffer) in buffers.iter().enumerate() {
        // The last four commands of each.
        for part in 0..4 {
            let last = COMMANDS - BUFFERS * (4 - part) + at;
            let (copy, offset) = (rig.buffer(4), last / BUFFERS % 4 * SIZE);
            rig.copy(1, &[], &[(&ran, 2 + (4 * at + part) as u64)], (buffer, offset), (&copy, 0), 4).unwrap();
            wait(&ran, 2 + (4 * at + part) as u64).unwrap();
            assert_eq!(rig.read(&copy, 0, 4), (last as u32).to_le_bytes());
        }
    }
}

/// A command that a recording cannot hold is refused with the remedy in the message.
#[test]
fn what_a_recording_has_no_room_to_name_is_refused_by_its_name() {
    const MOST: usize = 1 << 20;
    let rig = Rig::new();
    let kernels = rig.executable(GFX1100).unwrap();
    let (gate, done) = (rig.semaphore(), rig.semaphore());
    let waiting = rig.alloca(1, &[(&gate, 1)], &[(&done, 1)], SIZE).unwrap();
    let recording = Recording::begin(&rig, Mode::Unvalidated, MOST + 1);
    let dispatch = |target| recording.dispatch((&kernels, "report"), workgroups(1), &[0; 4], &[target], 0);
    for (target, code, part) in [
        (direct(&waiting, 0, SIZE), Code::RESOURCE_EXHAUSTED, "queue-allocated buffers that have no memory yet"),
        (indirect(MOST as u32, 0, SIZE), Code::UNIMPLEMENTED, "slot 1048576 of the binding table"),
        (indirect(0, 1 << 43, SIZE), Code::UNIMPLEMENTED, "begins 8796093022208 bytes into a buffer"),
    ] {
        let status = dispatch(target).expect_err(part);
        assert_eq!(status.code(), code, "{status}");
        assert!(status.to_string().contains(part), "{status}");
    }
    dispatch(indirect(MOST as u32 - 1, 0, SIZE)).unwrap();
    gate.borrow().signal(1).unwrap();
    wait(&done, 1).unwrap();
    dispatch(direct(&waiting, 0, SIZE)).unwrap();
    recording.end();
}
