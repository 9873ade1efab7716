// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Objects that submissions keep alive, and objects that they leave to a caller who promises to keep them.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::sync::atomic::{AtomicI32, Ordering};

use amdgpu_rs::ffi::raw;
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
    // What an epoch keeps goes after its semaphores advance: the end of the queue is behind that.
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

/// Of a dispatch and of a fill, in a recording and when that is gone.
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
        // What an epoch keeps goes after its semaphores advance: the end of the queue is behind that.
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
