// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered memory through the C API.

mod support;

use amdgpu_rs::ffi::{QUEUE_AFFINITY_ANY, WHOLE_BUFFER};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, Rig, wait, workgroups};

/// Kernels; `testdata/kernels.c` says how they were built.
const KERNELS: &[u8] = include_bytes!("testdata/kernels.gfx1100.co");

/// Tensors that turn out empty go through what full ones do, and nothing changes.
#[test]
fn every_operation_takes_empty_buffers() {
    let rig = Rig::new();
    let kernels = rig.executable(KERNELS).unwrap();
    let kernel = (&kernels, "report");
    let full = rig.buffer(64);
    rig.write(&full, 0, &[9; 64]);
    let done = rig.semaphore();
    let queued = rig.alloca(1, &[], &[(&done, 1)], 0).unwrap();
    let run = |empty: &BufferRef, next: u64| {
        let mut last = next;
        let mut step = |call: &dyn Fn(support::Points<'_>, support::Points<'_>)| {
            call(&[(&done, last)], &[(&done, last + 1)]);
            last += 1;
        };
        step(&|waits, signals| rig.fill(1, waits, signals, empty, (0, 0), &[1]).unwrap());
        step(&|waits, signals| rig.fill(1, waits, signals, &full, (64, 0), &[1, 2, 3, 4]).unwrap());
        step(&|waits, signals| rig.copy(1, waits, signals, (empty, 0), (&full, 64), 0).unwrap());
        step(&|waits, signals| rig.copy(1, waits, signals, (&full, 3), (empty, 0), 0).unwrap());
        step(&|waits, signals| rig.update(1, waits, signals, &[], empty).unwrap());
        for binding in [direct(empty, 0, 0), direct(empty, 0, WHOLE_BUFFER), direct(&full, 64, WHOLE_BUFFER)] {
            step(&|waits, signals| {
                let none = workgroups(0);
                rig.dispatch_with(1, waits, signals, kernel, none, &[0; 4], &[binding], 0).unwrap();
            });
        }
        for mode in [Mode::OneShot, Mode::Reusable, Mode::Unvalidated] {
            let recording = Recording::begin(&rig, mode, usize::from(mode != Mode::OneShot));
            recording.fill(direct(empty, 0, WHOLE_BUFFER), 1).unwrap();
            recording.copy(direct(empty, 0, 0), direct(&full, 0, 0)).unwrap();
            recording.dispatch(kernel, workgroups(0), &[0; 4], &[direct(empty, 0, 0)], 0).unwrap();
            let table: &[_] = if mode == Mode::OneShot { &[] } else { &[(empty, 0, WHOLE_BUFFER)] };
            if !table.is_empty() {
                recording.fill(indirect(0, 0, WHOLE_BUFFER), 1).unwrap();
                recording.dispatch(kernel, workgroups(0), &[0; 4], &[indirect(0, 0, 0)], 0).unwrap();
            }
            recording.end();
            step(&|waits, signals| recording.execute(&rig, QUEUE_AFFINITY_ANY, waits, signals, table).unwrap());
        }
        last
    };
    let last = run(&queued, 1);
    let last = run(&rig.buffer(0), last);
    rig.dealloca(1, &[(&done, last)], &[(&done, last + 1)], &queued).unwrap();
    wait(&done, last + 1).unwrap();
    assert_eq!(rig.read(&full, 0, 64), [9; 64]);
    assert_eq!(rig.read(&rig.buffer(0), 0, 0), []);
}
