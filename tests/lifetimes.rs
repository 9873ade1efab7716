// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Objects that submissions keep alive, and objects that a caller promises to keep alive itself.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::sync::atomic::{AtomicI32, Ordering};

use amdgpu_rs::ffi::{Code, iree, raw};
use hold::{GFX1100, Hold};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, Rig, wait, workgroups};

/// References to `buffer`.
fn references(buffer: &BufferRef) -> i32 {
    // SAFETY: the buffer lives, and begins with its count, which is only accessed atomically.
    unsafe { AtomicI32::from_ptr(buffer.as_ptr().cast()) }.load(Ordering::Relaxed)
}

/// References that a dispatch with `flags` adds to its buffer while it waits behind a kernel that runs, on another
/// semaphore if it `waits` for the host, and when it is over.
fn added(flags: u32, waits: bool) -> [i32; 2] {
    let rig = Rig::new();
    let (kernels, buffer) = (rig.executable(GFX1100).unwrap(), rig.buffer(8));
    let (gate, done) = (rig.semaphore(), rig.semaphore());
    let gates: &[_] = if waits { &[(&gate, 1)] } else { &[] };
    let hold = Hold::new(&rig, GFX1100, 1, &[]);
    let before = references(&buffer);
    let (kernel, value, bindings) = ((&kernels, "report"), 5_u32.to_le_bytes(), [direct(&buffer, 0, 8)]);
    rig.dispatch_with(1, gates, &[(&done, 1)], kernel, workgroups(1), &value, &bindings, flags).unwrap();
    let meanwhile = references(&buffer) - before;
    gate.borrow().signal(1).unwrap();
    drop(hold);
    wait(&done, 1).unwrap();
    // Objects that an epoch retains go after its semaphores advance. The end of the queue is behind that.
    rig.barrier(1, &[(&done, 1)], &[(&done, 2)]).unwrap();
    wait(&done, 2).unwrap();
    [meanwhile, references(&buffer) - before]
}

#[test]
fn a_dispatch_keeps_its_buffers_unless_the_caller_does() {
    const BORROWS: u32 = raw::IREE_HAL_DISPATCH_FLAG_BORROW_RESOURCE_LIFETIMES;
    assert_eq!(added(0, false), [1, 0]);
    assert_eq!(added(BORROWS, false), [0, 0]);
    assert_eq!(added(0, true), [1, 0], "what goes on later keeps them");
    assert_eq!(added(BORROWS, true), [1, 0], "as long as it has not begun");
}

#[test]
fn a_copy_keeps_its_buffers() {
    let rig = Rig::new();
    let (source, target, done) = (rig.buffer(8), rig.buffer(8), rig.semaphore());
    let before = [&source, &target].map(references);
    let hold = Hold::new(&rig, GFX1100, 1, &[]);
    rig.copy(1, &[], &[(&done, 1)], (&source, 0), (&target, 0), 8).unwrap();
    assert_eq!([&source, &target].map(references), before.map(|count| count + 1));
    drop(hold);
    wait(&done, 1).unwrap();
}

/// The last dispatch of a recording may end before those beside it.
#[test]
fn a_recording_lasts_as_long_as_its_longest_dispatch() {
    let rig = Rig::new();
    let (kernels, flag, target, done) =
        (rig.executable(GFX1100).unwrap(), rig.buffer(4), rig.buffer(8), rig.semaphore());
    rig.write(&flag, 0, &[0; 4]);
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    recording.dispatch((&kernels, "hold"), workgroups(1), &[], &[direct(&flag, 0, 4)], 0).unwrap();
    let (kernel, value) = ((&kernels, "report"), 5_u32.to_le_bytes());
    recording.dispatch(kernel, workgroups(1), &value, &[direct(&target, 0, 8)], 0).unwrap();
    recording.end();
    recording.execute(&rig, 1, &[], &[(&done, 1)], &[]).unwrap();
    let soon = raw::iree_timeout_t { type_: raw::IREE_TIMEOUT_RELATIVE, nanos: 200_000_000 };
    // SAFETY: the semaphore lives.
    let waited = unsafe { iree!(raw::iree_hal_semaphore_wait(done.as_ptr(), 1, soon, 0)) };
    rig.write(&flag, 0, &[1, 0, 0, 0]);
    assert_eq!(waited.expect_err("the first one still runs").code(), Code::DEADLINE_EXCEEDED);
    wait(&done, 1).unwrap();
}

/// Buffers of a dispatch and of a fill, in a recording and when that is gone.
#[test]
fn a_recording_keeps_its_buffers_unless_the_caller_does() {
    let rig = Rig::new();
    let (kernels, done) = (rig.executable(GFX1100).unwrap(), rig.semaphore());
    for (mode, kept, turn) in [(Mode::Reusable, 1, 1), (Mode::Unretained, 0, 3)] {
        let buffers = [rig.buffer(8), rig.buffer(4)];
        let before = buffers.each_ref().map(references);
        let recording = Recording::begin(&rig, mode, 0);
        let (kernel, bindings) = ((&kernels, "report"), [direct(&buffers[0], 0, 8)]);
        recording.dispatch(kernel, workgroups(1), &5_u32.to_le_bytes(), &bindings, 0).unwrap();
        recording.fill(direct(&buffers[1], 0, 4), 7).unwrap();
        recording.end();
        assert_eq!(buffers.each_ref().map(references), before.map(|count| count + kept));
        recording.execute(&rig, 1, &[], &[(&done, turn)], &[]).unwrap();
        wait(&done, turn).unwrap();
        assert_eq!((&rig.read(&buffers[0], 0, 4)[..], rig.read(&buffers[1], 0, 4)), (&[5, 0, 0, 0][..], vec![7; 4]));
        // Objects that an epoch retains go after its semaphores advance. The end of the queue is behind that.
        rig.barrier(1, &[], &[(&done, turn + 1)]).unwrap();
        wait(&done, turn + 1).unwrap();
        drop(recording);
        assert_eq!(buffers.each_ref().map(references), before);
    }
}

/// A recording executed with more slots than are resolved without memory of their own, now and later.
#[test]
fn long_binding_tables_are_kept() {
    const SLOTS: usize = 40;
    let rig = Rig::new();
    let (gate, done) = (rig.semaphore(), rig.semaphore());
    let (source, targets) = (rig.buffer(4), [(); SLOTS].map(|()| rig.buffer(4)));
    let recording = Recording::begin(&rig, Mode::Reusable, SLOTS);
    for slot in 0..SLOTS as u32 {
        recording.copy(direct(&source, 0, 4), indirect(slot, 0, 4)).unwrap();
    }
    recording.end();
    let table = targets.each_ref().map(|target| (target, 0, 4));
    for (turn, waits) in [(1, &[][..]), (2, &[(&gate, 1)])] {
        rig.write(&source, 0, &[turn as u8; 4]);
        recording.execute(&rig, 1, waits, &[(&done, turn)], &table).unwrap();
        if turn == 2 {
            gate.borrow().signal(1).unwrap();
        }
        wait(&done, turn).unwrap();
        for target in &targets {
            assert_eq!(rig.read(target, 0, 4), [turn as u8; 4]);
        }
    }
}
