// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers through the C API, without IREE's validation.

mod support;

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, WHOLE_BUFFER, iree, raw};
use support::{BufferRef, List, Points, Rig, wait};

type CommandBufferRef = HalRef<raw::iree_hal_command_buffer_t>;

/// Begins an unvalidated recording.
fn begin(rig: &Rig, slots: usize) -> CommandBufferRef {
    let mut recording = std::ptr::null_mut();
    // SAFETY: a live device and a place for the result.
    unsafe {
        iree!(raw::iree_hal_command_buffer_create(
            rig.device.as_ptr(),
            raw::IREE_HAL_COMMAND_BUFFER_MODE_UNVALIDATED as _,
            raw::IREE_HAL_COMMAND_CATEGORY_TRANSFER as _,
            QUEUE_AFFINITY_ANY,
            slots,
            &raw mut recording,
        ))
        .expect("a command buffer");
        iree!(raw::iree_hal_command_buffer_begin(recording)).expect("a new one begins");
        HalRef::from_owned(recording).expect("a command buffer that was made")
    }
}

fn end(recording: &CommandBufferRef) {
    // SAFETY: a live command buffer.
    unsafe { iree!(raw::iree_hal_command_buffer_end(recording.as_ptr())) }.expect("a recording ends");
}

/// A reference to a buffer, or to slot 0.
fn reference(buffer: Option<&BufferRef>, offset: usize, length: usize) -> raw::iree_hal_buffer_ref_t {
    // SAFETY: all-zero is a reference to slot 0.
    let mut reference: raw::iree_hal_buffer_ref_t = unsafe { std::mem::zeroed() };
    reference.buffer = buffer.map_or(std::ptr::null_mut(), HalRef::as_ptr);
    reference.offset = offset;
    reference.length = length;
    reference
}

fn fill(recording: &CommandBufferRef, target: raw::iree_hal_buffer_ref_t, pattern: u8) -> Result<()> {
    // SAFETY: live objects; the pattern is captured during the call.
    unsafe {
        iree!(raw::iree_hal_command_buffer_fill_buffer(recording.as_ptr(), target, (&raw const pattern).cast(), 1, 0))
    }
}

fn barrier(recording: &CommandBufferRef) {
    // SAFETY: a live command buffer; no memory barriers.
    unsafe {
        iree!(raw::iree_hal_command_buffer_execution_barrier(
            recording.as_ptr(),
            0,
            0,
            0,
            0,
            std::ptr::null(),
            0,
            std::ptr::null()
        ))
    }
    .expect("a barrier");
}

/// Executes with slot 0 bound to `length` bytes at `offset` of `buffer`.
fn execute(
    rig: &Rig,
    signals: Points<'_>,
    recording: &CommandBufferRef,
    (buffer, offset, length): (&BufferRef, usize, usize),
) -> Result<()> {
    let (waits, signals) = (List::new(&[]), List::new(signals));
    let binding = raw::iree_hal_buffer_binding_t { buffer: buffer.as_ptr(), offset, length };
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_execute(
            rig.device.as_ptr(),
            1,
            waits.raw(),
            signals.raw(),
            recording.as_ptr(),
            raw::iree_hal_buffer_binding_table_t { count: 1, bindings: &raw const binding },
            0
        ))
    }
}

#[test]
fn commands_keep_to_their_buffers_without_validation() {
    let rig = Rig::new();
    let (buffer, done) = (rig.buffer(64), rig.semaphore());
    let recording = begin(&rig, 1);
    for (offset, length) in [(0, 65), (60, 8), (8, usize::MAX - 1)] {
        let refused = fill(&recording, reference(Some(&buffer), offset, length), 1).expect_err("past the end");
        assert_eq!(refused.code(), Code::OUT_OF_RANGE, "{offset} {length}: {refused}");
    }
    fill(&recording, reference(None, 8, 16), 7).unwrap();
    end(&recording);
    for (offset, length) in [(0, 23), (41, WHOLE_BUFFER), (0, 65), (65, WHOLE_BUFFER), (usize::MAX, 24)] {
        let refused = execute(&rig, &[(&done, 1)], &recording, (&buffer, offset, length)).expect_err("past the end");
        assert_eq!(refused.code(), Code::OUT_OF_RANGE, "{offset} {length}: {refused}");
    }
    assert_eq!(done.borrow().query().unwrap(), 0);
    rig.write(&buffer, 0, &[0; 64]);
    execute(&rig, &[(&done, 1)], &recording, (&buffer, 40, WHOLE_BUFFER)).unwrap();
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
    let recording = begin(&rig, 1);
    for index in 0..COMMANDS {
        fill(&recording, reference(None, index, 1), index as u8).unwrap();
        barrier(&recording);
    }
    end(&recording);
    rig.write(&buffer, 0, &[0xEE; COMMANDS]);
    let refused = execute(&rig, &[(&done, 1)], &recording, (&buffer, 0, COMMANDS - 1)).expect_err("one byte short");
    assert_eq!(refused.code(), Code::OUT_OF_RANGE);
    // After whatever may have been in the ring.
    rig.barrier(1, &[], &[(&done, 1)]).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, COMMANDS), [0xEE; COMMANDS]);
    execute(&rig, &[(&done, 2)], &recording, (&buffer, 0, WHOLE_BUFFER)).unwrap();
    drop(recording);
    wait(&done, 2).unwrap();
    let expected: Vec<_> = (0..COMMANDS).map(|index| index as u8).collect();
    assert_eq!(rig.read(&buffer, 0, COMMANDS), expected);
}
