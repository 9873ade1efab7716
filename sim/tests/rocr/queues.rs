// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Queues and profiling.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::common::*;
use crate::{abort_of, every_release, in_environment};

/// Properties of a new queue.
#[derive(Clone, Copy)]
struct Ask {
    agent: HsaAgent,
    size: u32,
    kind: HsaQueueType,
    scratch: u32,
}

fn create(ask: Ask) -> Result<*mut HsaQueue, HsaStatus> {
    let mut queue = ptr::null_mut();
    let Ask { agent, size, kind, scratch } = ask;
    // SAFETY: no callback; the output is a valid place.
    let status = unsafe { hsa_queue_create(agent, size, kind, None, ptr::null_mut(), scratch, u32::MAX, &mut queue) };
    if status.is_ok() { Ok(queue) } else { Err(status) }
}

fn destroy(queue: *mut HsaQueue) -> HsaStatus {
    // SAFETY: any pointer may be passed; the runtime looks it up.
    unsafe { hsa_queue_destroy(queue) }
}

#[test]
fn queues_that_cannot_be_are_refused_each_with_its_status() {
    type S = HsaStatus;
    every_release(|hsa| {
        let good = Ask { agent: hsa.gpu(), size: 64, kind: HsaQueueType::MULTI, scratch: u32::MAX };
        for (ask, status) in [
            (Ask { size: 0, ..good }, S::ERROR_INVALID_ARGUMENT),
            (Ask { size: 96, ..good }, S::ERROR_INVALID_ARGUMENT),
            (Ask { kind: HsaQueueType(3), ..good }, S::ERROR_INVALID_ARGUMENT),
            (Ask { size: 32, ..good }, S::ERROR_INVALID_ARGUMENT),
            (Ask { size: 1 << 18, ..good }, S::ERROR_OUT_OF_RESOURCES),
            (Ask { scratch: 262_129, ..good }, S::ERROR_OUT_OF_RESOURCES),
            (Ask { agent: HsaAgent::NULL, ..good }, S::ERROR_INVALID_AGENT),
            (Ask { agent: HsaAgent::NULL, size: 0, ..good }, S::ERROR_INVALID_ARGUMENT),
            (Ask { agent: hsa.cpu, ..good }, S::ERROR),
        ] {
            assert_eq!(create(ask), Err(status), "{} packets, {:?}", ask.size, ask.kind);
        }
        for ask in [good, Ask { size: 1 << 17, ..good }, Ask { scratch: 262_128, ..good }] {
            assert_eq!(destroy(create(ask).unwrap()), S::SUCCESS);
        }
        // SAFETY: null is refused.
        let status = unsafe {
            let (none, data) = (ptr::null_mut(), ptr::null_mut());
            hsa_queue_create(good.agent, good.size, good.kind, None, data, u32::MAX, u32::MAX, none)
        };
        assert_eq!(status, S::ERROR_INVALID_ARGUMENT);
    });
}

#[test]
fn a_queue_takes_any_number_of_producers_and_begins_empty() {
    every_release(|hsa| {
        let ask = Ask { agent: hsa.gpu(), size: 64, kind: HsaQueueType::SINGLE, scratch: 0 };
        let queues = [create(ask).unwrap(), create(ask).unwrap()];
        for queue in queues {
            // SAFETY: a live queue is an `amd_queue_t`, whose ring is not written.
            unsafe {
                let amd = queue.cast::<AmdQueue>();
                assert_eq!(((*queue).queue_type, (*queue).size), (HsaQueueType::MULTI, 64));
                assert_eq!((*queue).features, HSA_QUEUE_FEATURE_KERNEL_DISPATCH);
                assert_eq!(((*amd).read_dispatch_id, (*amd).write_dispatch_id), (0, 0));
                let doorbell = (*queue).doorbell_signal.as_ptr();
                assert_eq!((*doorbell).kind, AmdSignalKind::DOORBELL);
                assert_eq!((*doorbell).queue_ptr, queue.expose_provenance() as u64);
                for slot in 0..64 {
                    let header = PacketHeader((*queue).base_address.cast::<u16>().add(32 * slot).read());
                    assert_eq!(header.packet_type(), HsaPacketType::INVALID);
                }
            }
        }
        // SAFETY: the queues are live.
        unsafe { assert_ne!((*queues[0]).id, (*queues[1]).id) };
        assert_eq!(queues.map(destroy), [HsaStatus::SUCCESS; 2]);
    });
}

#[test]
fn null_is_no_queue_for_some_and_no_argument_for_others() {
    every_release(|_| {
        let none = ptr::null_mut();
        // SAFETY: null is refused.
        unsafe {
            assert_eq!(hsa_queue_destroy(none), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_queue_inactivate(none), HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_queue_set_priority(none, HsaQueuePriority::NORMAL);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_amd_profiling_set_profiler_enabled(none, 1), HsaStatus::ERROR_INVALID_QUEUE);
            assert_eq!(hsa_amd_queue_cu_set_mask(none, 0, ptr::null()), HsaStatus::ERROR_INVALID_QUEUE);
        }
    });
}

#[test]
fn a_destroyed_queue_is_none() {
    every_release(|hsa| {
        let ask = Ask { agent: hsa.gpu(), size: 64, kind: HsaQueueType::MULTI, scratch: 0 };
        let queue = create(ask).unwrap();
        assert_eq!(destroy(queue), HsaStatus::SUCCESS);
        assert_eq!(destroy(queue), HsaStatus::ERROR_INVALID_QUEUE);
    });
}

#[test]
fn what_waits_in_a_queue_that_is_inactivated_or_destroyed_never_completes() {
    every_release(|hsa| {
        let (gate, done) = (signal(1), signal(2));
        for inactivate in [true, false] {
            let queue = Queue::new(hsa.gpu(), 64);
            queue.submit(&barrier_and(&[gate], done));
            let second = barrier_and(&[], done);
            queue.submit(&second);
            if inactivate {
                // SAFETY: the queue is live.
                unsafe {
                    assert_eq!(hsa_queue_inactivate(queue.queue.cast()), HsaStatus::SUCCESS);
                    assert_eq!(hsa_queue_inactivate(queue.queue.cast()), HsaStatus::SUCCESS, "again does nothing");
                }
                assert!(queue.errors.lock().unwrap().is_empty(), "nobody is told");
            }
        }
        store(gate, 0);
        assert_eq!(load(done), 2);
        for signal in [gate, done] {
            // SAFETY: destroyed once.
            assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
        }
    });
}

unsafe extern "C" fn shut_down(_: HsaStatus, _: *mut HsaQueue, _: *mut c_void) {
    // SAFETY: no preconditions.
    let _ = unsafe { hsa_shut_down() };
}

/// Sends a malformed packet to a queue with this callback, and waits for the end of the process.
fn fail_queue(hsa: &Hsa, callback: Option<HsaQueueCallback>) {
    let (mut queue, kind, data) = (ptr::null_mut(), HsaQueueType::MULTI, ptr::null_mut());
    // SAFETY: the output is a valid place; the callback needs no data.
    let status = unsafe { hsa_queue_create(hsa.gpu(), 64, kind, callback, data, u32::MAX, u32::MAX, &mut queue) };
    assert_eq!(status, HsaStatus::SUCCESS);
    let queue = std::mem::ManuallyDrop::new(Queue { queue: queue.cast(), errors: Box::default() });
    let mut wrong = barrier_and(&[], HsaSignal::NULL);
    wrong.reserved1 = 1;
    queue.submit(&wrong);
    wait_for(signal(1), 0);
}

#[test]
fn the_runtime_cannot_be_shut_down_in_an_error_callback() {
    let text = abort_of(|hsa| fail_queue(hsa, Some(shut_down)));
    assert!(text.contains("HSA is shut down in a callback"), "{text}");
}

#[test]
fn an_error_on_a_queue_without_callback_ends_the_process() {
    let text = abort_of(|hsa| fail_queue(hsa, None));
    assert!(text.contains("has no error callback"), "{text}");
}

#[test]
fn priorities_are_three_and_not_for_queues_that_failed() {
    every_release(|hsa| {
        let queue = Queue::new(hsa.gpu(), 64);
        // SAFETY: the queue is live.
        let set = |priority| unsafe { hsa_amd_queue_set_priority(queue.queue.cast(), HsaQueuePriority(priority)) };
        assert_eq!([0, 1, 2].map(set), [HsaStatus::SUCCESS; 3]);
        assert_eq!(set(3), HsaStatus::ERROR_INVALID_ARGUMENT);
        let mut wrong = barrier_and(&[], HsaSignal::NULL);
        wrong.reserved1 = 1;
        queue.submit(&wrong);
        assert_eq!(queue.wait_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT);
        assert_eq!(set(1), HsaStatus::ERROR_INVALID_QUEUE);
    });
}

#[test]
fn masks_of_compute_units_are_words_and_name_them_in_pairs_from_gfx10_on() {
    let agents = [("HSA_SIM_AGENTS", "gfx1100,gfx942")];
    crate::in_environment(&agents, |hsa| {
        for (gpu, odd) in [(0, HsaStatus::ERROR_INVALID_ARGUMENT), (1, HsaStatus::SUCCESS)] {
            let queue = Queue::new(hsa.gpus[gpu], 64);
            // SAFETY: the queue is live; the masks are as long as said.
            let set = |bits, mask: &[u32]| unsafe {
                hsa_amd_queue_cu_set_mask(
                    queue.queue.cast(),
                    bits,
                    if mask.is_empty() { ptr::null() } else { mask.as_ptr() },
                )
            };
            assert_eq!(set(32, &[3]), HsaStatus::SUCCESS);
            assert_eq!(set(32, &[1]), odd);
            assert_eq!(set(31, &[3]), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(set(32, &[]), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(set(0, &[]), HsaStatus::SUCCESS);
        }
    });
}

fn dispatch_time(agent: HsaAgent, signal: HsaSignal) -> Result<(u64, u64), HsaStatus> {
    let mut time = HsaProfilingDispatchTime { start: 0, end: 0 };
    // SAFETY: the output is a valid place.
    let status = unsafe { hsa_amd_profiling_get_dispatch_time(agent, signal, &mut time) };
    if status.is_ok() { Ok((time.start, time.end)) } else { Err(status) }
}

#[test]
fn dispatch_times_need_a_gpu_a_signal_and_a_place() {
    every_release(|hsa| {
        let one = signal(0);
        assert_eq!(dispatch_time(HsaAgent::NULL, one), Err(HsaStatus::ERROR_INVALID_AGENT));
        assert_eq!(dispatch_time(hsa.cpu, one), Err(HsaStatus::ERROR_INVALID_AGENT));
        assert_eq!(dispatch_time(hsa.gpu(), HsaSignal::NULL), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        // SAFETY: null is refused; destroyed once.
        unsafe {
            let status = hsa_amd_profiling_get_dispatch_time(hsa.gpu(), one, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_signal_destroy(one), HsaStatus::SUCCESS);
        }
        assert_eq!(dispatch_time(hsa.gpu(), one), Err(HsaStatus::ERROR_INVALID_SIGNAL));
    });
}

#[test]
fn signals_have_device_ticks_that_the_runtime_translates_if_there_are_any() {
    every_release(|hsa| {
        let mut now = 0_u64;
        let (done, queue) = (signal(2), Queue::new(hsa.gpu(), 64));
        let stamps = || {
            // SAFETY: the signal is live; a stamp is a word.
            let stamp = |field: *mut u64| unsafe { AtomicU64::from_ptr(field) }.load(Ordering::Relaxed);
            // SAFETY: the signal is live.
            unsafe { (stamp(&raw mut (*done.as_ptr()).start_ts), stamp(&raw mut (*done.as_ptr()).end_ts)) }
        };
        // SAFETY: the place has the attribute's type.
        assert!(unsafe { hsa_system_get_info(HsaSystemInfo::TIMESTAMP, as_data(&mut now)) }.is_ok());
        queue.submit(&barrier_and(&[], done));
        wait_for(done, 1);
        assert_eq!(stamps(), (0, 0), "without profiling nothing is stamped");
        let (start, end) = dispatch_time(hsa.gpu(), done).expect("and nobody says so");
        assert!(start == end && start < now, "{start} {end}");
        // SAFETY: the queue is live.
        assert!(unsafe { hsa_amd_profiling_set_profiler_enabled(queue.queue.cast(), 1) }.is_ok());
        queue.submit(&barrier_and(&[], done));
        wait_for(done, 0);
        let (raw, (start, end)) = (stamps(), dispatch_time(hsa.gpu(), done).unwrap());
        // A tick of the device is ten of the system.
        assert!(now < start + 10 && start <= end, "{now} {start} {end}");
        assert_eq!(raw.1 - raw.0, (end - start) / 10);
        assert_ne!(raw.0, start);
        // SAFETY: the queue is live.
        assert!(unsafe { hsa_amd_profiling_set_profiler_enabled(queue.queue.cast(), 0) }.is_ok());
        drop(queue);
        // SAFETY: destroyed once.
        assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
    });
}

#[test]
fn cooperative_queues_of_a_gpu_are_one() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx1100,gfx90a")], |hsa| {
        let ask = |gpu| Ask { agent: hsa.gpus[gpu], size: 64, kind: HsaQueueType::COOPERATIVE, scratch: u32::MAX };
        let [first, again, other] = [0, 0, 1].map(|gpu| create(ask(gpu)).unwrap());
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!(
            [first, again, first].map(destroy),
            [HsaStatus::SUCCESS, HsaStatus::SUCCESS, HsaStatus::ERROR_INVALID_QUEUE]
        );
        assert_eq!(destroy(other), HsaStatus::SUCCESS);
    });
}

#[test]
fn cooperative_queues_are_where_the_kernel_driver_has_them() {
    const GPUS: (&str, &str) = ("HSA_SIM_AGENTS", "gfx1010,gfx1030,gfx1201");
    for (release, expected) in [("6.2", [false, true, false]), ("7.0", [false, true, true])] {
        in_environment(&[GPUS, ("HSA_SIM_ROCR", release)], |hsa| {
            for (&agent, expected) in hsa.gpus.iter().zip(expected) {
                assert_eq!(agent_info::<bool>(agent, HsaAgentInfo::AMD_COOPERATIVE_QUEUES), expected);
                let queue = create(Ask { agent, size: 64, kind: HsaQueueType::COOPERATIVE, scratch: u32::MAX });
                if expected {
                    assert_eq!(destroy(queue.unwrap()), HsaStatus::SUCCESS);
                } else {
                    assert_eq!(queue, Err(HsaStatus::ERROR_INVALID_QUEUE_CREATION));
                }
            }
        });
    }
}
