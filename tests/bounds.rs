// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Accesses outside of buffers that are carved out of larger allocations: a runtime that looks at such is told of each.

mod support;

use amdgpu_rs::ffi::Code;
use support::{BufferRef, ExecutableRef, Rig, failure, passes_alone, wait};

/// `write_at` writes an element of a buffer, whatever its length; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// Runs `test`, which is all of the test function `name`, in a process whose runtime looks at bounds.
fn checked(name: &str, test: impl FnOnce(&Rig, &ExecutableRef)) {
    passes_alone(name, "gfx1100", || {
        // SAFETY: nothing else runs in this process yet.
        unsafe { std::env::set_var("HSA_SIM_CHECK", "bounds") };
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        test(&rig, &faults);
    });
}

/// A queue-allocated buffer that has its memory.
fn allocated(rig: &Rig, size: usize) -> BufferRef {
    let done = rig.semaphore();
    let buffer = rig.alloca(1, &[], &[(&done, 1)], size).unwrap();
    wait(&done, 1).unwrap();
    buffer
}

/// Writes element `index` of 4 bytes of a buffer, which must succeed.
fn write(rig: &Rig, faults: &ExecutableRef, buffer: &BufferRef, index: i64) {
    let done = rig.semaphore();
    rig.dispatch(1, &[], &[(&done, 1)], (faults, "write_at"), &index.to_le_bytes(), &[buffer]).unwrap();
    wait(&done, 1).unwrap();
}

/// Writes an element outside of the buffer, which must fail with `place` in the error.
fn write_outside(rig: &Rig, faults: &ExecutableRef, buffer: &BufferRef, index: i64, place: &str) {
    let done = rig.semaphore();
    rig.dispatch(1, &[], &[(&done, 1)], (faults, "write_at"), &index.to_le_bytes(), &[buffer]).unwrap();
    let status = failure(&done, 1);
    assert_eq!(status.code(), Code::DATA_LOSS, "{status}");
    let text = status.to_string();
    assert!(text.contains(place) && text.contains("write_at"), "{text}");
}

#[test]
fn an_element_past_a_queue_allocated_buffer_is_outside() {
    checked("an_element_past_a_queue_allocated_buffer_is_outside", |rig, faults| {
        // Neighbours in one slab, whose sizes are such that a pool puts one right behind the other.
        let buffers = [allocated(rig, 4096), allocated(rig, 4096), allocated(rig, 4096)];
        for buffer in &buffers {
            write(rig, faults, buffer, 0);
            write(rig, faults, buffer, 1023);
        }
        write_outside(rig, faults, &buffers[0], 1024, "0 bytes past the end of a suballocation of 4096");
    });
}

#[test]
fn an_element_past_a_buffer_of_the_allocator_is_outside_though_its_pages_are_not() {
    checked("an_element_past_a_buffer_of_the_allocator_is_outside_though_its_pages_are_not", |rig, faults| {
        let buffer = rig.buffer(1000);
        write(rig, faults, &buffer, 249);
        write_outside(rig, faults, &buffer, 250, "0 bytes past the end of a suballocation of 1000");
    });
}

#[test]
fn memory_that_went_back_to_its_pool_is_nobodys_until_it_is_carved_again() {
    checked("memory_that_went_back_to_its_pool_is_nobodys_until_it_is_carved_again", |rig, faults| {
        // Carved out of one range, one behind the other, with a gap of 4096 bytes between them.
        let (kept, gone) = (allocated(rig, 4096), allocated(rig, 4096));
        let of_gone = 8192 / 4;
        write(rig, faults, &kept, of_gone + 3);
        let done = rig.semaphore();
        rig.dealloca(1, &[], &[(&done, 1)], &gone).unwrap();
        wait(&done, 1).unwrap();
        // The pool gives the same memory again, which then is in use.
        let again = allocated(rig, 1000);
        write(rig, faults, &kept, of_gone + 249);
        rig.dealloca(1, &[], &[(&done, 2)], &again).unwrap();
        wait(&done, 2).unwrap();
        write_outside(rig, faults, &kept, of_gone + 3, "byte 12 of a freed suballocation of 1000 bytes");
    });
}

/// Work submitted ahead uses memory whose deallocation is already submitted.
#[test]
fn memory_is_in_use_until_the_gpu_is_done_with_it() {
    checked("memory_is_in_use_until_the_gpu_is_done_with_it", |rig, faults| {
        let hold = rig.semaphore();
        let done = rig.semaphore();
        let mut at = 0;
        for _ in 0..8 {
            let waits = if at == 0 { vec![(&hold, 1)] } else { vec![(&done, at)] };
            let buffer = rig.alloca(1, &waits, &[(&done, at + 1)], 1000).unwrap();
            let index = 249i64.to_le_bytes();
            let (waits, signals) = ([(&done, at + 1)], [(&done, at + 2)]);
            rig.dispatch(1, &waits, &signals, (faults, "write_at"), &index, &[&buffer]).unwrap();
            rig.dealloca(1, &[(&done, at + 2)], &[(&done, at + 3)], &buffer).unwrap();
            at += 3;
        }
        hold.borrow().signal(1).unwrap();
        wait(&done, at).unwrap();
    });
}
