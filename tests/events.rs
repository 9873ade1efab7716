// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Events in command buffers.

mod support;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, Result, WHOLE_BUFFER, iree, raw};
use support::recording::{Mode, Recording, direct};
use support::{BufferRef, Rig, wait};

#[derive(Debug)]
struct EventRef(*mut raw::iree_hal_event_t);

impl Drop for EventRef {
    fn drop(&mut self) {
        // SAFETY: owned.
        unsafe { raw::iree_hal_event_release(self.0) }
    }
}

const RETIRE: u32 = raw::IREE_HAL_EXECUTION_STAGE_COMMAND_RETIRE;
const ISSUE: u32 = raw::IREE_HAL_EXECUTION_STAGE_COMMAND_ISSUE;

fn event(rig: &Rig, affinity: u64, flags: u32) -> Result<EventRef> {
    let mut event = std::ptr::null_mut();
    // SAFETY: a live device and a place for the result.
    unsafe { iree!(raw::iree_hal_event_create(rig.device.as_ptr(), affinity, flags, &raw mut event))? }
    Ok(EventRef(event))
}

fn signal(recording: &Recording, event: &EventRef) -> Result<()> {
    // SAFETY: live objects.
    unsafe { iree!(raw::iree_hal_command_buffer_signal_event(recording.as_ptr(), event.0, RETIRE)) }
}

fn reset(recording: &Recording, event: &EventRef) -> Result<()> {
    // SAFETY: live objects.
    unsafe { iree!(raw::iree_hal_command_buffer_reset_event(recording.as_ptr(), event.0, ISSUE)) }
}

fn wait_events(recording: &Recording, events: &[*const raw::iree_hal_event_t]) -> Result<()> {
    let mut events = events.to_vec();
    // SAFETY: a live command buffer and an array of the stated length; no memory barriers.
    unsafe {
        iree!(raw::iree_hal_command_buffer_wait_events(
            recording.as_ptr(),
            events.len(),
            events.as_mut_ptr(),
            RETIRE,
            ISSUE,
            0,
            std::ptr::null(),
            0,
            std::ptr::null()
        ))
    }
}

fn whole(buffer: &BufferRef) -> raw::iree_hal_buffer_ref_t {
    direct(buffer, 0, LENGTH)
}

const LENGTH: usize = 1 << 16;

#[test]
fn a_wait_for_an_event_is_after_what_came_before_its_signal() {
    let rig = Rig::new();
    let (a, b) = (rig.buffer(LENGTH), rig.buffer(LENGTH));
    let recording = Recording::begin(&rig, Mode::OneShot, 0);
    let event = event(&rig, QUEUE_AFFINITY_ANY, 0).unwrap();
    reset(&recording, &event).unwrap();
    recording.fill(whole(&a), 7).unwrap();
    signal(&recording, &event).unwrap();
    wait_events(&recording, &[event.0]).unwrap();
    recording.copy(whole(&a), whole(&b)).unwrap();
    recording.end();
    drop(event);
    recording.run(&rig).unwrap();
    assert!(rig.read(&b, 0, LENGTH) == [7; LENGTH], "the copy ran before the fill was complete");
}

/// Both on one queue, and, ordered by a semaphore, on two.
#[test]
fn a_wait_sees_what_another_command_buffer_signaled() {
    for queues in [[1, 1], [1, 2]] {
        let rig = Rig::new();
        let (a, b, done) = (rig.buffer(LENGTH), rig.buffer(LENGTH), rig.semaphore());
        let event = event(&rig, QUEUE_AFFINITY_ANY, 0).unwrap();
        let (first, second) = (Recording::begin(&rig, Mode::OneShot, 0), Recording::begin(&rig, Mode::OneShot, 0));
        first.fill(whole(&a), 7).unwrap();
        signal(&first, &event).unwrap();
        first.end();
        wait_events(&second, &[event.0]).unwrap();
        second.copy(whole(&a), whole(&b)).unwrap();
        second.end();
        let waits = [(&done, 1)];
        first.execute(&rig, queues[0], &[], &waits, &[]).unwrap();
        // On one queue the event orders the two by itself.
        let waits = &waits[..usize::from(queues[0] != queues[1])];
        second.execute(&rig, queues[1], waits, &[(&done, 2)], &[]).unwrap();
        wait(&done, 2).unwrap();
        assert!(rig.read(&b, 0, LENGTH) == [7; LENGTH], "the copy ran before the fill was complete");
    }
}

#[test]
fn unusable_events_are_refused() {
    let rig = Rig::new();
    let refused = event(&rig, QUEUE_AFFINITY_ANY, 1 << 20).expect_err("no such flag");
    assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    let refused = event(&rig, 1 << 40, 0).expect_err("no such queue");
    assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");

    let (fine, buffer) = (event(&rig, QUEUE_AFFINITY_ANY, 0).unwrap(), rig.buffer(4));
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    let foreign = buffer.as_ptr().cast_const().cast();
    for events in [[fine.0.cast_const(), std::ptr::null()], [fine.0.cast_const(), foreign]] {
        let refused = wait_events(&recording, &events).expect_err("the second is no event");
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    }
    wait_events(&recording, &[]).unwrap();

    // A recording for the second queue, an event for the first.
    let elsewhere = event(&rig, 1, 0).unwrap();
    let recording = Recording::begin_on(&rig, 2, Mode::Reusable, 0);
    for refused in
        [signal(&recording, &elsewhere), reset(&recording, &elsewhere), wait_events(&recording, &[elsewhere.0])]
    {
        let refused = refused.expect_err("an event of another queue");
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
    }
    recording.fill(direct(&buffer, 0, WHOLE_BUFFER), 3).unwrap();
    recording.end();
    recording.run(&rig).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4), [3; 4]);
}
