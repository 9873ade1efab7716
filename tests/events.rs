// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Events in command buffers.

mod support;

use amdgpu_rs::ffi::{HalRef, QUEUE_AFFINITY_ANY, iree, raw};
use support::{List, Rig, wait};

#[test]
fn a_wait_for_an_event_is_after_what_came_before_its_signal() {
    const LENGTH: usize = 1 << 16;
    let rig = Rig::new();
    let (a, b, done) = (rig.buffer(LENGTH), rig.buffer(LENGTH), rig.semaphore());
    let whole = |buffer: &support::BufferRef| {
        // SAFETY: all-zero is a reference to nothing.
        let mut reference: raw::iree_hal_buffer_ref_t = unsafe { std::mem::zeroed() };
        reference.buffer = buffer.as_ptr();
        reference.length = LENGTH;
        reference
    };
    let device = rig.device.as_ptr();
    let (mut event, mut commands) = (std::ptr::null_mut(), std::ptr::null_mut());
    let (retire, issue) = (raw::IREE_HAL_EXECUTION_STAGE_COMMAND_RETIRE, raw::IREE_HAL_EXECUTION_STAGE_COMMAND_ISSUE);
    // SAFETY: live objects and arrays of the stated lengths; what is made is released below.
    unsafe {
        iree!(raw::iree_hal_event_create(device, QUEUE_AFFINITY_ANY, 0, &raw mut event)).unwrap();
        iree!(raw::iree_hal_command_buffer_create(
            device,
            raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT,
            raw::IREE_HAL_COMMAND_CATEGORY_ANY,
            QUEUE_AFFINITY_ANY,
            0,
            &raw mut commands
        ))
        .unwrap();
        let commands = HalRef::from_owned(commands).expect("a command buffer that was made");
        let recording = commands.as_ptr();
        iree!(raw::iree_hal_command_buffer_begin(recording)).unwrap();
        iree!(raw::iree_hal_command_buffer_reset_event(recording, event, issue)).unwrap();
        iree!(raw::iree_hal_command_buffer_fill_buffer(recording, whole(&a), [7_u8].as_ptr().cast(), 1, 0)).unwrap();
        iree!(raw::iree_hal_command_buffer_signal_event(recording, event, retire)).unwrap();
        let mut events = [event.cast_const()];
        iree!(raw::iree_hal_command_buffer_wait_events(
            recording,
            1,
            events.as_mut_ptr(),
            retire,
            issue,
            0,
            std::ptr::null(),
            0,
            std::ptr::null()
        ))
        .unwrap();
        iree!(raw::iree_hal_command_buffer_copy_buffer(recording, whole(&a), whole(&b), 0)).unwrap();
        iree!(raw::iree_hal_command_buffer_end(recording)).unwrap();
        raw::iree_hal_event_release(event);
        let signal = [(&done, 1)];
        let (waits, signals) = (List::new(&[]), List::new(&signal));
        let table = raw::iree_hal_buffer_binding_table_t { count: 0, bindings: std::ptr::null() };
        iree!(raw::iree_hal_device_queue_execute(
            device,
            QUEUE_AFFINITY_ANY,
            waits.raw(),
            signals.raw(),
            recording,
            table,
            0
        ))
        .unwrap();
    }
    wait(&done, 1).unwrap();
    assert!(rig.read(&b, 0, LENGTH) == [7; LENGTH], "the copy ran before the fill was complete");
}
