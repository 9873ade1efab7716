// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Objects of one logical device or GPU that are used on another, with and without access to each other's memory.

#[path = "support/hold.rs"]
mod hold;
mod support;

use amdgpu_rs::ffi::{Code, Result, Status, raw};
use support::recording::{Mode, Recording, direct};
use support::{BufferRef, Points, Rig, passes_alone, wait};

const SIZE: usize = 4096;
const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const HOST: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;

/// `count` GPUs with these settings.
fn gpus(count: usize, settings: &str) -> String {
    vec![format!("gfx1100{settings}"); count].join(",")
}

/// Memory of the device's first GPU, or of its CPU, for the queues of `affinity`.
fn buffer(rig: &Rig, memory_type: u32, affinity: u64) -> BufferRef {
    let params = support::params(memory_type, raw::IREE_HAL_BUFFER_USAGE_DEFAULT);
    rig.allocate(raw::iree_hal_buffer_params_t { queue_affinity: affinity, ..params }, SIZE).unwrap()
}

/// A queue-allocated buffer of the first queue, which has its memory.
fn allocated(rig: &Rig) -> BufferRef {
    let done = rig.semaphore();
    let buffer = rig.alloca(1, &[], &[(&done, 1)], SIZE).unwrap();
    wait(&done, 1).unwrap();
    buffer
}

/// Submits with `submit` and waits.
fn run(rig: &Rig, submit: impl FnOnce(Points<'_>) -> Result<()>) -> Result<()> {
    let done = rig.semaphore();
    submit(&[(&done, 1)])?;
    wait(&done, 1)
}

/// Each way in which an operation on `queue` of `rig` uses `buffer`, of which it makes `value`s.
fn uses(rig: &Rig, queue: u64, buffer: &BufferRef, value: u8) -> [Result<()>; 6] {
    let own = self::buffer(rig, DEVICE, queue);
    let kernels = rig.executable(hold::GFX1100).unwrap();
    let recorded = || {
        let recording = Recording::begin_on(rig, queue, Mode::Unvalidated, 0);
        recording.fill(direct(buffer, 0, SIZE), value)?;
        recording.end();
        run(rig, |done| recording.execute(rig, queue, &[], done, &[]))
    };
    let bound = || {
        let recording = Recording::begin_on(rig, queue, Mode::Reusable, 1);
        recording.fill(support::recording::indirect(0, 0, SIZE), value)?;
        recording.end();
        run(rig, |done| recording.execute(rig, queue, &[], done, &[(buffer, 0, SIZE)]))
    };
    [
        run(rig, |done| rig.copy(queue, &[], done, (buffer, 0), (&own, 0), SIZE)),
        run(rig, |done| rig.dispatch(queue, &[], done, (&kernels, "report"), &[value; 4], &[buffer])),
        recorded(),
        bound(),
        run(rig, |done| rig.update(queue, &[], done, &vec![value; SIZE], buffer)),
        run(rig, |done| rig.fill(queue, &[], done, buffer, (0, SIZE), &[value])),
    ]
}

/// The bytes of a buffer that the queue `queue` of `rig` gets at.
fn bytes(rig: &Rig, queue: u64, buffer: &BufferRef) -> Vec<u8> {
    let host = rig.buffer(SIZE);
    run(rig, |done| rig.copy(queue, &[], done, (buffer, 0), (&host, 0), SIZE)).unwrap();
    rig.read(&host, 0, SIZE)
}

fn check_refused(status: &Status) {
    assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
    for part in ["GPU 1", "has no access to the memory of the buffer", "HOST_LOCAL|DEVICE_VISIBLE"] {
        assert!(status.to_string().contains(part), "{part} in: {status}");
    }
}

#[test]
fn devices_use_each_others_memory() {
    for count in [2, 4, 8] {
        passes_alone("devices_use_each_others_memory", &gpus(count, ""), || {
            let rigs: Vec<_> = (0..).map_while(|gpu: usize| Rig::open(&gpu.to_string(), &[]).ok()).collect();
            assert!(rigs.len() >= 2);
            for (owner, user) in (0..rigs.len()).map(|owner| (&rigs[owner], &rigs[(owner + 1) % rigs.len()])) {
                for buffer in [buffer(owner, DEVICE, 0), buffer(owner, HOST, 0), allocated(owner)] {
                    for used in uses(user, 2, &buffer, 7) {
                        used.unwrap();
                    }
                    assert_eq!(bytes(owner, 1, &buffer), [7; SIZE]);
                }
            }
        });
    }
}

/// Nothing of the refused reaches a queue: both devices go on.
#[test]
fn memory_that_a_gpu_has_no_access_to_is_refused() {
    passes_alone("memory_that_a_gpu_has_no_access_to_is_refused", &gpus(2, ":peers=no"), || {
        let (owner, user) = (Rig::open("0", &[]).unwrap(), Rig::open("1", &[]).unwrap());
        for buffer in [buffer(&owner, DEVICE, 0), allocated(&owner)] {
            for used in uses(&user, 2, &buffer, 7) {
                check_refused(&used.expect_err("there is no link"));
            }
            for used in uses(&owner, 2, &buffer, 5) {
                used.unwrap();
            }
            assert_eq!(bytes(&owner, 1, &buffer), [5; SIZE]);
        }
        let host = buffer(&owner, HOST, 0);
        for rig in [&owner, &user] {
            for used in uses(rig, 2, &host, 3) {
                used.unwrap();
            }
        }
        assert_eq!(bytes(&owner, 1, &host), [3; SIZE]);
        for used in uses(&user, 1, &allocated(&user), 4) {
            used.unwrap();
        }
    });
}

/// The GPUs of one device, whichever queues the memory was for.
#[test]
fn gpus_of_one_device_use_each_others_memory_or_are_refused() {
    for settings in ["", ":peers=no"] {
        passes_alone("gpus_of_one_device_use_each_others_memory_or_are_refused", &gpus(2, settings), || {
            // The child knows its GPUs, not the loop.
            let is_accessible = !std::env::var("HSA_SIM_AGENTS").unwrap().contains("peers=no");
            let rig = Rig::new();
            for buffer in [buffer(&rig, DEVICE, 1), buffer(&rig, DEVICE, 0), allocated(&rig)] {
                for used in uses(&rig, 4, &buffer, 7) {
                    match used {
                        Ok(()) => assert!(is_accessible),
                        Err(refused) if is_accessible => panic!("{refused}"),
                        Err(refused) => check_refused(&refused),
                    }
                }
                for used in uses(&rig, 2, &buffer, 9) {
                    used.unwrap();
                }
                assert_eq!(bytes(&rig, 1, &buffer), [9; SIZE]);
            }
        });
    }
}

#[test]
fn code_of_another_device_is_refused_where_it_is_not_loaded() {
    passes_alone("code_of_another_device_is_refused_where_it_is_not_loaded", &gpus(2, ""), || {
        let (own, other, both) = (Rig::open("0", &[]).unwrap(), Rig::open("1", &[]).unwrap(), Rig::new());
        let target = buffer(&own, HOST, 0);
        let recorded = |rig: &Rig, affinity| {
            let recording = Recording::begin_on(rig, affinity, Mode::Reusable, 0);
            recording.fill(direct(&target, 0, SIZE), 6).unwrap();
            recording.end();
            recording
        };
        let dispatch = |rig: &Rig, of: &Rig, queue| {
            let kernels = of.executable(hold::GFX1100).unwrap();
            run(rig, |done| rig.dispatch(queue, &[], done, (&kernels, "report"), &[1; 4], &[&target]))
        };
        let execute =
            |rig: &Rig, recording: &Recording, queue| run(rig, |done| recording.execute(rig, queue, &[], done, &[]));
        let refused = dispatch(&own, &other, 1).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
        assert!(refused.to_string().contains("executable") && refused.to_string().contains("GPU 0"), "{refused}");
        // Of a device with fewer GPUs.
        assert_eq!(dispatch(&both, &own, 4).unwrap_err().code(), Code::INVALID_ARGUMENT);
        let refused = execute(&own, &recorded(&other, 0), 1).unwrap_err();
        assert_eq!(refused.code(), Code::INVALID_ARGUMENT, "{refused}");
        assert!(refused.to_string().contains("command buffer recorded for GPU 1"), "{refused}");
        assert_eq!(execute(&both, &recorded(&both, 1), 4).unwrap_err().code(), Code::INVALID_ARGUMENT);
        let recording = Recording::begin_on(&own, 0, Mode::Reusable, 0);
        let kernels = other.executable(hold::GFX1100).unwrap();
        let kernel = (&kernels, "report");
        let refused = recording.dispatch(kernel, support::workgroups(1), &[1; 4], &[direct(&target, 0, SIZE)], 0);
        assert_eq!(refused.unwrap_err().code(), Code::INVALID_ARGUMENT);
        // Devices on one GPU share its executables and recordings, whatever its ordinal in either.
        dispatch(&other, &both, 1).unwrap();
        dispatch(&both, &other, 4).unwrap();
        execute(&other, &recorded(&both, 4), 1).unwrap();
        execute(&both, &recorded(&other, 0), 4).unwrap();
        execute(&own, &recorded(&own, 0), 1).unwrap();
        assert_eq!(bytes(&own, 1, &target), [6; SIZE]);
    });
}
