// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Work whose size the caller decides, as much of it as needs more than a few bytes: long lists, recordings and tables,
//! submitted at once and for later. Its own allocations stay below the size that fails ([`crate::rust_memory`]).

use amdgpu_rs::ffi::{QUEUE_AFFINITY_ANY, Result, SemaphoreRef, iree, raw};

use crate::support::recording::{Recording, direct, indirect};
use crate::support::{BufferRef, ExecutableRef, List, Points, Rig, wait, workgroups};

/// Semaphores of a list, slots of a binding table, dispatches of a recording.
const MANY: usize = 250;

/// Bytes of an update.
const UPDATE: usize = 3000;

/// Goes through it, with `target`, which host and device see, and a kernel of `executable`.
///
/// # Errors
/// The first that a step returned or that a semaphore failed with.
pub fn run(rig: &Rig, executable: &ExecutableRef, target: &BufferRef) -> Result<()> {
    let mut semaphores = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        semaphores.push(rig.try_semaphore()?);
    }
    let (gate, done) = (rig.try_semaphore()?, rig.try_semaphore()?);
    let list: [_; MANY] = std::array::from_fn(|index| (&semaphores[index], 1));
    // All signaled by one, waited for by one.
    rig.barrier(1, &[], &list)?;
    rig.barrier(2, &list, &[(&done, 1)])?;
    wait(&done, 1)?;
    for is_one_shot in [false, true] {
        let recording = record(rig, is_one_shot, executable, target)?;
        let value = done.borrow().query()? + 1;
        if !is_one_shot {
            execute(rig, &recording, &[], &[(&done, value)], target)?;
            wait(&done, value)?;
        }
        later(&gate, &semaphores, |waits| execute(rig, &recording, waits, &[(&done, value + 1)], target))?;
        wait(&done, value + 1)?;
    }
    let (bytes, value) = ([1; UPDATE], done.borrow().query()? + 1);
    rig.update(1, &[], &[(&done, value)], &bytes, target)?;
    later(&gate, &semaphores, |waits| rig.update(2, waits, &[(&done, value + 1)], &bytes, target))?;
    later(&gate, &semaphores, |waits| {
        let kernel = (executable, "add");
        rig.dispatch(1, waits, &[(&done, value + 2)], kernel, &[1, 0, 0, 0], &[target, target])
    })?;
    later(&gate, &semaphores, |waits| rig.host_call(1, waits, &[(&done, value + 3)]))?;
    wait(&done, value + 3)
}

/// Submits behind all of `semaphores` and a step of `gate`, which is taken then.
fn later(
    gate: &SemaphoreRef,
    semaphores: &[SemaphoreRef],
    submit: impl FnOnce(Points<'_>) -> Result<()>,
) -> Result<()> {
    let step = gate.borrow().query()? + 1;
    let waits: [_; MANY + 1] = std::array::from_fn(|index| semaphores.get(index).map_or((gate, step), |it| (it, 1)));
    submit(&waits)?;
    gate.borrow().signal(step)
}

/// Executes `recording` with all slots bound to `target`.
fn execute(rig: &Rig, recording: &Recording, waits: Points<'_>, signals: Points<'_>, target: &BufferRef) -> Result<()> {
    let (waits, signals) = (List::new(waits), List::new(signals));
    let bindings: [_; MANY] =
        std::array::from_fn(|_| raw::iree_hal_buffer_binding_t { buffer: target.as_ptr(), offset: 0, length: 64 });
    let table = raw::iree_hal_buffer_binding_table_t { count: MANY, bindings: bindings.as_ptr() };
    let (device, recording) = (rig.device.as_ptr(), recording.as_ptr());
    // SAFETY: live objects.
    unsafe { iree!(raw::iree_hal_device_queue_execute(device, 1, waits.raw(), signals.raw(), recording, table, 0)) }
}

/// Dispatches with buffers and slots, and commands with steps of their own.
fn record(rig: &Rig, is_one_shot: bool, executable: &ExecutableRef, target: &BufferRef) -> Result<Recording> {
    let mode = if is_one_shot { raw::IREE_HAL_COMMAND_BUFFER_MODE_ONE_SHOT } else { 0 };
    let recording = Recording::create(rig, QUEUE_AFFINITY_ANY, mode, MANY)?;
    // SAFETY: a live command buffer.
    unsafe { iree!(raw::iree_hal_command_buffer_begin(recording.as_ptr())) }?;
    for slot in 0..MANY as u32 {
        let bindings = [direct(target, 0, 64), indirect(slot, 0, 64)];
        let bindings = if slot % 2 == 0 { [bindings[0]; 2] } else { bindings };
        recording.dispatch((executable, "add"), workgroups(1), &[1, 0, 0, 0], &bindings, 0)?;
        recording.barrier_with(0, 0, 0, &[])?;
        recording.fill(indirect(slot, 0, 4), 1)?;
        recording.fill(direct(target, 0, 4), 1)?;
        recording.barrier_with(0, 0, 0, &[])?;
    }
    // SAFETY: live objects; the bytes are captured during the call.
    unsafe {
        let bytes = [1_u8; UPDATE];
        let target = direct(target, 0, UPDATE);
        iree!(raw::iree_hal_command_buffer_update_buffer(recording.as_ptr(), bytes.as_ptr().cast(), 0, target, 0))?;
        iree!(raw::iree_hal_command_buffer_end(recording.as_ptr()))?;
    }
    Ok(recording)
}
