// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Faults that the HSA runtime does not report: all but the first of a process, and any without interrupts.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, SemaphoreRef};
use hold::{Hold, pass_time};
use support::{BufferRef, Rig, failure, passes_alone, wait};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

const EIGHT: &str = "gfx1100,gfx1100,gfx1100,gfx1100,gfx1100,gfx1100,gfx1100,gfx1100";

/// A device on each of the eight GPUs, with a kernel on its second queue that faults, or will once its turn comes.
fn faulting_devices() -> Vec<(Rig, SemaphoreRef, BufferRef)> {
    let devices = (0..8).map(|gpu| {
        let rig = Rig::open(&gpu.to_string(), &[]).unwrap();
        let (fault, target) = (rig.semaphore(), rig.buffer(4));
        let faults = rig.executable(FAULTS).unwrap();
        rig.dispatch(2, &[], &[(&fault, 1)], (&faults, "write_at"), &(1_i64 << 40).to_le_bytes(), &[&target]).unwrap();
        (rig, fault, target)
    });
    devices.collect()
}

#[test]
fn eight_gpus_that_fault_are_all_lost() {
    passes_alone("eight_gpus_that_fault_are_all_lost", EIGHT, || {
        let devices = faulting_devices();
        let mut untold = 0;
        for (gpu, (rig, fault, _)) in devices.iter().enumerate() {
            let lost = failure(fault, 1);
            assert_eq!(lost.code(), Code::DATA_LOSS, "{lost}");
            for part in [format!("of GPU {gpu}"), "queue 1 (affinity 0x2)".to_owned(), "start a new one".to_owned()] {
                assert!(lost.to_string().contains(&part), "{part} in: {lost}");
            }
            untold += usize::from(lost.to_string().contains("runs nothing any more"));
            let refused = rig.barrier(1, &[], &[]).expect_err("the device is lost");
            assert_eq!(refused.code(), Code::DATA_LOSS, "{refused}");
        }
        assert_eq!(untold, 7, "the runtime tells of the first");
    });
}

/// No thread waits for anything but the release of the devices.
#[test]
fn devices_whose_faults_were_not_told_are_released() {
    passes_alone("devices_whose_faults_were_not_told_are_released", EIGHT, || drop(faulting_devices()));
}

/// A kernel that runs on while others fault has no fault.
#[test]
fn a_long_kernel_beside_faults_is_completed() {
    passes_alone("a_long_kernel_beside_faults_is_completed", "gfx1100,gfx1100,gfx1100", || {
        let (fine, faulty) = (Rig::open("2", &[]).unwrap(), Rig::open("0", &[]).unwrap());
        let held = [fine.semaphore(), fine.semaphore()];
        let holds = [1, 2].map(|queue| Hold::new(&fine, hold::GFX1100, queue, &[(&held[queue as usize - 1], 1)]));
        let (faults, target, fault) = (faulty.executable(FAULTS).unwrap(), faulty.buffer(4), faulty.semaphore());
        let far = (1_i64 << 40).to_le_bytes();
        faulty.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &far, &[&target]).unwrap();
        assert_eq!(failure(&fault, 1).code(), Code::DATA_LOSS);
        // Made after the fault: looked after from the start. Meanwhile the kernels above are asked about, too.
        let late = Rig::open("1", &[]).unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(1500) {
            pass_time(&late, 1);
        }
        assert_eq!([0, 1].map(|queue: usize| held[queue].borrow().query().unwrap()), [0, 0]);
        drop(holds);
        held.iter().for_each(|held| wait(held, 1).unwrap());
        // And now a fault on the device that was made late.
        let (faults, target, fault) = (late.executable(FAULTS).unwrap(), late.buffer(4), late.semaphore());
        late.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &far, &[&target]).unwrap();
        let lost = failure(&fault, 1);
        assert!(lost.to_string().contains("runs nothing any more"), "{lost}");
    });
}

#[test]
fn without_interrupts_a_fault_is_found_out() {
    passes_alone("without_interrupts_a_fault_is_found_out", "gfx1100", || {
        // SAFETY: nothing else runs in this process yet.
        unsafe { std::env::set_var("HSA_ENABLE_INTERRUPT", "0") };
        let rig = Rig::new();
        let (faults, target, fault) = (rig.executable(FAULTS).unwrap(), rig.buffer(4), rig.semaphore());
        rig.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &(1_i64 << 40).to_le_bytes(), &[&target]).unwrap();
        let lost = failure(&fault, 1);
        assert_eq!(lost.code(), Code::DATA_LOSS, "{lost}");
        assert!(lost.to_string().contains("runs nothing any more"), "{lost}");
    });
}
