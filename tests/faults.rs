// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Errors that a program sees of kernels that go wrong and of executables that do not fit.

mod support;

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use amdgpu_rs::ffi::{Code, raw};
use hsa_abi::{HsaAgent, HsaAmdEventType, HsaStatus};
use support::one_block::{OneBlock, Policy};
use support::recording::{Mode, Recording, direct, indirect};
use support::{Rig, alone, failure, library_path, passes_alone, wait, when, workgroups};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// A kernel that holds a queue back; `testdata/kernels.c` says how it was built.
const KERNELS: &[u8] = include_bytes!("testdata/kernels.gfx1100.co");

/// Faulty kernels for gfx942.
const FAULTS_GFX942: &[u8] = include_bytes!("testdata/faults.gfx942.co");

/// An element that is far from every allocation.
const FAR: i64 = 1 << 40;

/// The address, the access, the kernel and the queue.
fn check_fault(queue: u32, kernel: &str, access: &str, instruction: &str) {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, source, done) = (rig.buffer(4), rig.buffer(4), rig.semaphore());
    let bindings = [&target, &source];
    let bindings = if kernel == "read_at" { &bindings[..] } else { &bindings[..1] };
    rig.dispatch(1 << queue, &[], &[(&done, 1)], (&faults, kernel), &FAR.to_le_bytes(), bindings).unwrap();
    let status = failure(&done, 1);
    let text = status.to_string();
    assert_eq!(status.code(), Code::DATA_LOSS, "{text}");
    let accessed = bindings.last().expect("a buffer to access");
    let address = format!("{:#x}", rig.device_address(accessed) + 4 * FAR as u64);
    let queue = format!("hardware queue {queue} (affinity {:#x}) of GPU 0", 1 << queue);
    for part in [&address, access, kernel, &queue, instruction, "start a new one"] {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

#[test]
fn a_fault_says_where_how_by_whom_and_on_which_queue() {
    let name = "a_fault_says_where_how_by_whom_and_on_which_queue";
    let test = || check_fault(0, "read_at", "read of 4 bytes", "s_load_b32");
    if let Some(said) = passes_alone(name, "gfx1100", test) {
        // The runtime does not say it when the fault is taken on.
        let line = said.lines().find(|line| line.starts_with("amdgpu_rs: ")).unwrap_or(&said);
        for part in ["GPU memory access fault at address", "kernel read_at", "hardware queue 0"] {
            assert!(line.contains(part), "{part} in: {said}");
        }
    }
}

#[test]
fn a_fault_of_the_other_queue_says_so() {
    passes_alone("a_fault_of_the_other_queue_says_so", "gfx1100", || {
        check_fault(1, "write_at", "write of 4 bytes", "global_store_b32");
    });
}

#[test]
fn a_trap_names_the_instruction() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
    let text = failure(&done, 1).to_string();
    assert!(text.contains("trap") && text.contains("s_trap"), "{text}");
}

/// It finds the device alive when the call begins, and its queue closed when it has its memory.
#[test]
fn an_allocation_in_which_the_device_is_lost_is_refused() {
    passes_alone("an_allocation_in_which_the_device_is_lost_is_refused", "gfx1100", || {
        let rig = Arc::new(Rig::new());
        let pool = OneBlock::new(&rig, Policy::Kept, 64);
        let in_call = rig.clone();
        pool.call_first(move || {
            let (rig, target, fault) = (&*in_call, in_call.buffer(4), in_call.semaphore());
            let faults = rig.executable(FAULTS).unwrap();
            rig.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &FAR.to_le_bytes(), &[&target]).unwrap();
            assert_eq!(failure(&fault, 1).code(), Code::DATA_LOSS);
        });
        let done = rig.semaphore();
        let refused = rig.alloca_from(pool.as_raw(), 1, &[], &[(&done, 1)], (64, 0)).map(drop);
        assert_eq!(refused.expect_err("the device is lost").code(), Code::DATA_LOSS);
        assert_eq!(done.borrow().query().unwrap(), 0);
    });
}

/// The completion thread goes on without the device, whose last reference goes in a callback on it, and so do the ears
/// for faults: else the runtime would end the process.
#[test]
fn a_fault_is_taken_on_behind_the_release_of_the_device() {
    passes_alone("a_fault_is_taken_on_behind_the_release_of_the_device", "gfx1100", || {
        let rig = Rig::new();
        let (faults, kernels) = (rig.executable(FAULTS).unwrap(), rig.executable(KERNELS).unwrap());
        let (target, flag) = (rig.buffer(4), rig.buffer(4));
        let (first, fault) = (rig.semaphore(), rig.semaphore());
        rig.write(&flag, 0, &[0; 4]);
        let flag_address = rig.device_address(&flag) as usize;
        let (submitted, was_submitted) = channel();
        let (released, was_released) = channel();
        let rig = Arc::new(Mutex::new(Some(rig)));
        let of_callback = rig.clone();
        when(&first, 1, move |_| {
            was_submitted.recv().unwrap();
            drop(of_callback.lock().unwrap().take());
            released.send(()).unwrap();
        });
        {
            let rig = rig.lock().unwrap();
            let rig = rig.as_ref().unwrap();
            rig.barrier(1, &[], &[(&first, 1)]).unwrap();
            rig.dispatch(1, &[], &[], (&kernels, "hold"), &[], &[&flag]).unwrap();
            let (kernel, far) = ((&faults, "write_at"), FAR.to_le_bytes());
            rig.dispatch(1, &[], &[(&fault, 1)], kernel, &far, &[&target]).unwrap();
        }
        submitted.send(()).unwrap();
        was_released.recv().unwrap();
        // SAFETY: the buffer is mapped where the device has it, and is kept by the kernel that looks at it.
        unsafe { AtomicU32::from_ptr(flag_address as *mut u32) }.store(1, Ordering::Release);
        assert_eq!(failure(&fault, 1).code(), Code::DATA_LOSS);
    });
}

/// Ten submissions on two queues, in the ring behind the fault or waiting for it; then everything that can be asked of
/// the device.
#[test]
fn a_fault_fails_all_that_is_pending_and_the_device_is_lost() {
    passes_alone("a_fault_fails_all_that_is_pending_and_the_device_is_lost", "gfx1100", || {
        let rig = Rig::new();
        let other = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let recording = Recording::begin(&rig, Mode::Reusable, 0);
        let (target, flag, fault) = (rig.buffer(64), rig.buffer(4), rig.semaphore());
        recording.fill(direct(&target, 0, 64), 1).unwrap();
        recording.end();
        let far = FAR.to_le_bytes();
        rig.write(&flag, 0, &[0; 4]);
        rig.dispatch(1, &[], &[], (&rig.executable(KERNELS).unwrap(), "hold"), &[], &[&flag]).unwrap();
        rig.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &far, &[&target]).unwrap();
        let pending: Vec<_> = (0..10).map(|_| rig.semaphore()).collect();
        for (index, done) in pending.iter().enumerate() {
            let queue = 1 << (index % 2);
            // The first queue is in order; the second waits for the fault itself.
            let (waits, signals) = ([(&fault, 1)], [(done, 1)]);
            let waits = if queue == 1 { &waits[..0] } else { &waits[..] };
            match index / 2 {
                0 => rig.fill(queue, waits, &signals, &target, (0, 64), &[1]),
                1 => rig.update(queue, waits, &signals, &[1; 64], &target),
                2 => recording.execute(&rig, queue, waits, &signals, &[]),
                3 => rig.alloca(queue, waits, &signals, 64).map(drop),
                _ => rig.barrier(queue, waits, &signals),
            }
            .unwrap();
        }
        rig.write(&flag, 0, &[1; 4]);
        let first = failure(&fault, 1);
        assert_eq!(first.code(), Code::DATA_LOSS);
        for done in &pending {
            let status = failure(done, 1);
            assert_eq!(status.code(), first.code(), "{status}");
            assert!(status.to_string().contains("write_at"), "{status}");
        }

        let late = rig.semaphore();
        let signals = [(&late, 1)];
        let refused = [
            rig.fill(1, &[], &signals, &target, (0, 4), &[1]),
            rig.update(2, &[], &signals, &[1; 4], &target),
            rig.copy(1, &[], &signals, (&target, 0), (&target, 32), 4),
            rig.dispatch(2, &[], &signals, (&faults, "write_at"), &far, &[&target]),
            recording.execute(&rig, 1, &[], &signals, &[]),
            rig.alloca(2, &[], &signals, 64).map(drop),
            rig.host_call(1, &[], &signals),
            rig.barrier(2, &[], &signals),
        ];
        for result in refused {
            let status = result.expect_err("the device is lost");
            assert_eq!(status.code(), Code::DATA_LOSS);
            assert!(status.to_string().contains("the device is lost"), "{status}");
        }
        assert_eq!(late.borrow().query().unwrap(), 0, "a call that fails leaves its semaphores alone");

        // Another device on the same GPU is lost too, and none can be made.
        let status = other.barrier(1, &[], &[(&late, 1)]).expect_err("its GPU has ended");
        assert_eq!(status.code(), Code::DATA_LOSS);
        let status = Rig::open("", &[]).map(drop).expect_err("its GPU has ended");
        assert_eq!(status.code(), Code::FAILED_PRECONDITION);
        for part in ["GPU 0", "GPU memory access fault at address", "start a new one"] {
            assert!(status.to_string().contains(part), "{part} in: {status}");
        }
    });
}

/// The other queue is busy with nothing that the fault touches, and knows no more than that its device is lost.
#[test]
fn a_fault_of_one_queue_loses_the_others() {
    passes_alone("a_fault_of_one_queue_loses_the_others", "gfx1100", || {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, done, late) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
        rig.dispatch(1, &[], &[(&done, 1)], (&faults, "write_at"), &FAR.to_le_bytes(), &[&target]).unwrap();
        assert_eq!(failure(&done, 1).code(), Code::DATA_LOSS);
        let status = rig.barrier(2, &[], &[(&late, 1)]).expect_err("the device is lost");
        assert_eq!(status.code(), Code::DATA_LOSS);
    });
}

/// A queue error is no end of the GPU: other devices there go on, and the lost one can be made again.
#[test]
fn a_trap_leaves_other_devices_of_its_gpu_alone() {
    let (rig, other) = (Rig::new(), Rig::new());
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
    assert!(failure(&done, 1).to_string().contains("recreate the device"));
    for other in [&other, &Rig::new()] {
        let (buffer, fine) = (other.buffer(4), other.semaphore());
        other.fill(1, &[], &[(&fine, 1)], &buffer, (0, 4), &[5]).unwrap();
        wait(&fine, 1).unwrap();
        assert_eq!(other.read(&buffer, 0, 4), [5; 4]);
    }
}

/// The GPUs of the software runtime, behind the driver's back.
struct Sim(libloading::Library);

impl Sim {
    fn open() -> Self {
        // SAFETY: it is loaded and stays so.
        Self(unsafe { libloading::Library::new(library_path()) }.expect("the software runtime"))
    }

    /// The agents of GPUs.
    fn gpus(&self) -> Vec<HsaAgent> {
        unsafe extern "C" fn push(agent: HsaAgent, list: *mut c_void) -> HsaStatus {
            // SAFETY: the list is the one that is passed below.
            unsafe { (*list.cast::<Vec<HsaAgent>>()).push(agent) };
            HsaStatus::SUCCESS
        }
        type Iterate =
            unsafe extern "C" fn(unsafe extern "C" fn(HsaAgent, *mut c_void) -> HsaStatus, *mut c_void) -> HsaStatus;
        let mut list: Vec<HsaAgent> = Vec::new();
        // SAFETY: the function has this type; the callback gets the list that it expects.
        unsafe {
            let iterate = self.0.get::<Iterate>(b"hsa_iterate_agents\0").expect("a function of HSA");
            assert_eq!(iterate(push, (&raw mut list).cast()), HsaStatus::SUCCESS);
        }
        // The CPU comes first.
        list.split_off(1)
    }

    /// True if the runtime has not been shut down.
    fn is_up(&self) -> bool {
        unsafe extern "C" fn skip(_: HsaAgent, _: *mut c_void) -> HsaStatus {
            HsaStatus::SUCCESS
        }
        type Iterate =
            unsafe extern "C" fn(unsafe extern "C" fn(HsaAgent, *mut c_void) -> HsaStatus, *mut c_void) -> HsaStatus;
        // SAFETY: the function has this type.
        unsafe {
            let iterate = self.0.get::<Iterate>(b"hsa_iterate_agents\0").expect("a function of HSA");
            iterate(skip, std::ptr::null_mut()) == HsaStatus::SUCCESS
        }
    }

    /// Has a GPU meet a fault that none of the driver's queues has made.
    fn raise(&self, gpu: HsaAgent, event: HsaAmdEventType) {
        type Raise = unsafe extern "C" fn(HsaAgent, HsaAmdEventType) -> HsaStatus;
        // SAFETY: the function has this type.
        unsafe {
            let raise = self.0.get::<Raise>(b"hsa_sim_raise\0").expect("a function of the software runtime");
            assert_eq!(raise(gpu, event), HsaStatus::SUCCESS);
        }
    }
}

/// No queue is told of a reset. Idle devices are lost as well, and later calls say why.
#[test]
fn a_reset_loses_the_devices_of_its_gpu() {
    let said = passes_alone("a_reset_loses_the_devices_of_its_gpu", "gfx1100,gfx1100", || {
        let (busy, idle, fine) = (Rig::new(), Rig::new(), Rig::open("1", &[]).unwrap());
        let kernels = busy.executable(KERNELS).unwrap();
        let (flag, held, late) = (busy.buffer(4), busy.semaphore(), idle.semaphore());
        busy.write(&flag, 0, &[0; 4]);
        busy.dispatch(2, &[], &[(&held, 1)], (&kernels, "hold"), &[], &[&flag]).unwrap();
        let sim = Sim::open();
        sim.raise(sim.gpus()[0], HsaAmdEventType::GPU_HW_EXCEPTION);
        let status = failure(&held, 1);
        for part in ["GPU hang or reset", "hardware queue 1 (affinity 0x2) of GPU 0", "start a new one"] {
            assert!(status.to_string().contains(part), "{part} in: {status}");
        }
        // Devices hear of it one after the other: this one may not have when it is given something to do.
        let status = idle.barrier(1, &[], &[(&late, 1)]).err().unwrap_or_else(|| failure(&late, 1));
        assert!(status.to_string().contains("GPU hang or reset"), "{status}");
        let done = fine.semaphore();
        fine.barrier(1, &[], &[(&done, 1)]).unwrap();
        wait(&done, 1).unwrap();
        busy.write(&flag, 0, &[1; 4]);
    });
    assert!(said.is_none_or(|said| said.contains("amdgpu_rs: ") && said.contains("GPU hang or reset")));
}

/// The driver leaves a GPU fault of another HSA user to that user, or to the runtime, which ends the process with a
/// message.
#[test]
fn a_fault_that_is_not_of_the_drivers_making_is_not_swallowed() {
    for agents in ["gfx1100,gfx1100", "gfx1100"] {
        let name = "a_fault_that_is_not_of_the_drivers_making_is_not_swallowed";
        let ended = alone(name, agents, || {
            // Its device is idle, or on another GPU.
            let rig = Rig::new();
            let (buffer, done) = (rig.buffer(4), rig.semaphore());
            rig.fill(1, &[], &[(&done, 1)], &buffer, (0, 4), &[1]).unwrap();
            wait(&done, 1).unwrap();
            let sim = Sim::open();
            sim.raise(*sim.gpus().last().expect("a GPU"), HsaAmdEventType::GPU_MEMORY_FAULT);
            std::thread::park();
        });
        if let Some((status, said)) = ended {
            assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
            assert!(said.contains("no handler took care"), "{said}");
        }
    }
}

/// A device that was released in a callback of one of its queues is not told of a later fault.
#[test]
fn a_device_that_went_in_a_callback_hears_of_no_fault() {
    let name = "a_device_that_went_in_a_callback_hears_of_no_fault";
    let ended = alone(name, "gfx1100", || {
        let rig = Rig::new();
        // The buffer keeps the runtime up.
        let (done, buffer) = (rig.semaphore(), rig.buffer(4));
        let device = Arc::new(Mutex::new(Some(rig)));
        let of_callback = device.clone();
        let (left, was_left) = channel();
        when(&done, 1, move |_| {
            drop(of_callback.lock().unwrap().take());
            left.send(()).unwrap();
        });
        device.lock().unwrap().as_ref().unwrap().barrier(1, &[], &[(&done, 1)]).unwrap();
        was_left.recv().unwrap();
        let is_completing = || {
            let threads = std::fs::read_dir("/proc/self/task").unwrap();
            let names = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).ok());
            names.into_iter().any(|name| name.starts_with("amdgpu_rs-q"))
        };
        while is_completing() {
            std::thread::yield_now();
        }
        let sim = Sim::open();
        sim.raise(sim.gpus()[0], HsaAmdEventType::GPU_HW_EXCEPTION);
        std::thread::park();
        drop(buffer);
    });
    if let Some((status, said)) = ended {
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("no handler took care"), "{said}");
    }
}

/// The listener to faults has the GPUs, which keep the runtime up.
#[test]
fn a_device_that_goes_lets_the_runtime_go() {
    passes_alone("a_device_that_goes_lets_the_runtime_go", "gfx1100", || {
        let (sim, rig) = (Sim::open(), Rig::new());
        assert!(sim.is_up());
        drop(rig);
        assert!(!sim.is_up());
    });
}

/// Whatever the moment of the fault, each submission is refused or its semaphore fails.
#[test]
fn submissions_while_the_device_is_being_lost_do_not_hang() {
    for round in 0..20_u64 {
        let rig = Rig::new();
        let faults = rig.executable(FAULTS).unwrap();
        let (target, done) = (rig.buffer(4), rig.semaphore());
        rig.dispatch(1, &[], &[(&done, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
        let mut accepted = Vec::new();
        for submission in 0..200 {
            let semaphore = rig.semaphore();
            match rig.barrier(1 << ((round + submission) % 2), &[], &[(&semaphore, 1)]) {
                Ok(()) => accepted.push(semaphore),
                Err(status) => assert_eq!(status.code(), Code::DATA_LOSS),
            }
        }
        for semaphore in &accepted {
            if let Err(status) = wait(semaphore, 1) {
                assert_eq!(status.code(), Code::DATA_LOSS);
            }
        }
    }
}

#[test]
fn an_executable_for_another_gpu_names_both() {
    let rig = Rig::new();
    let status = rig.executable(FAULTS_GFX942).expect_err("it is for another GPU");
    let text = status.to_string();
    assert_eq!(status.code(), Code::INCOMPATIBLE, "{text}");
    for part in ["gfx942", "gfx1100", "--iree-rocm-target=gfx1100"] {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

#[test]
fn truncated_and_damaged_executables_are_refused() {
    let rig = Rig::new();
    for length in [0, 3, 63, 64, 200, FAULTS.len() / 2, FAULTS.len() - 1] {
        assert!(rig.executable(&FAULTS[..length]).is_err(), "{length} bytes");
    }
    for position in (0..64).chain((64..FAULTS.len()).step_by(97)) {
        let mut damaged = FAULTS.to_vec();
        damaged[position] ^= 0xFF;
        // Some damage does not matter; none may end the process.
        drop(rig.executable(&damaged));
    }
}

#[test]
fn dispatches_with_wrong_arguments_are_refused() {
    let rig = Rig::new();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let no_constants = rig.dispatch(1, &[], &[(&done, 1)], (&faults, "write_at"), &[], &[&target]);
    assert_eq!(no_constants.expect_err("the index is missing").code(), Code::INVALID_ARGUMENT);
    let store_only = rig.buffer_for(raw::IREE_HAL_BUFFER_USAGE_TRANSFER, 4);
    let bound = |binding| {
        let constants = 0_u64.to_le_bytes();
        let dispatched =
            rig.dispatch_with(1, &[], &[(&done, 1)], (&faults, "write_at"), workgroups(1), &constants, &[binding], 0);
        let refused = dispatched.expect_err("the binding is wrong");
        (refused.code(), refused.to_string())
    };
    // SAFETY: all-zero is a reference to no buffer, and a live one may name a slot as well.
    let nothing: raw::iree_hal_buffer_ref_t = unsafe { std::mem::zeroed() };
    let mut both = direct(&target, 0, 4);
    both.set_buffer_slot(1);
    for (binding, code, text) in [
        (nothing, Code::INVALID_ARGUMENT, "it names no buffer"),
        (indirect(2, 0, 4), Code::INVALID_ARGUMENT, "it names slot 2"),
        (both, Code::INVALID_ARGUMENT, "it names slot 1"),
        (direct(&store_only, 0, 4), Code::PERMISSION_DENIED, "usage"),
        (direct(&target, 4, 4), Code::OUT_OF_RANGE, "4 bytes from 4 on"),
    ] {
        let (found, message) = bound(binding);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text) && message.ends_with("binding 0"), "{message}");
    }
    let unknown = rig.dispatch(1, &[], &[(&done, 1)], (&faults, "no_such_kernel"), &[], &[&target]);
    let text = unknown.expect_err("there is no such kernel").to_string();
    assert!(text.contains("write_at") && text.contains("NOT_FOUND"), "{text}");
    assert_eq!(done.borrow().query().unwrap(), 0);
}
