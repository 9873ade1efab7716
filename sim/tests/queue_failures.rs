// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Queues that stop: malformed packets, faults, the time limit.

mod common;

use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

/// Creates a queue in a process with these settings, which runs a kernel until `flag` is not zero, and these packets
/// beside it.
fn beside_a_spinning_kernel(settings: &[(&str, &str)], packets: &[KernelDispatchPacket]) -> (Hsa, Queue) {
    for (name, value) in settings {
        // SAFETY: this process runs one test, whose runtime is not initialised.
        unsafe { std::env::set_var(name, value) };
    }
    let hsa = Hsa::new();
    let code = std::mem::ManuallyDrop::new(load_code(hsa.gpu(), GFX11).unwrap());
    let queue = Queue::new(hsa.gpu(), 64);
    let flag = hsa.host_memory::<u32>(1);
    let mut spin = code.packet("spin", 1, kernargs(&hsa, flag), HsaSignal::NULL);
    spin.header = header(HsaPacketType::KERNEL_DISPATCH, false);
    queue.submit(&spin);
    for packet in packets {
        queue.submit(packet);
    }
    (hsa, queue)
}

/// Settings, each of which makes packets without the barrier bit run at the same time.
const TOGETHER: [(&str, &str); 2] = [("HSA_SIM_MEMORY", "strict"), ("HSA_SIM_SEED", "1")];

/// A packet that names no kernel.
const NO_KERNEL: KernelDispatchPacket = KernelDispatchPacket {
    header: PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, false, HsaFenceScope::SYSTEM, HsaFenceScope::SYSTEM),
    setup: 1,
    workgroup_size: [64, 1, 1],
    reserved0: 0,
    grid_size: [64, 1, 1],
    private_segment_size: 0,
    group_segment_size: 0,
    kernel_object: 0x40,
    kernarg_address: 0,
    reserved2: 0,
    completion_signal: HsaSignal::NULL,
};

#[test]
fn the_first_failure_is_told_while_others_run() {
    passes_alone("the_first_failure_is_told_while_others_run", "gfx1100", || {
        for setting in TOGETHER {
            let (_hsa, queue) = beside_a_spinning_kernel(&[setting], &[NO_KERNEL; 3]);
            assert_eq!(queue.wait_error(), HsaStatus::ERROR_INVALID_CODE_OBJECT, "{setting:?}");
            // SAFETY: the queue is live. When this returns, nothing runs.
            assert!(unsafe { hsa_queue_inactivate(queue.queue.cast()) }.is_ok());
            assert!(queue.fault().contains("kernel object 0x40"), "{}", queue.fault());
            assert_eq!(queue.errors.lock().unwrap().len(), 1, "{setting:?}");
            // SAFETY: this process runs one test, whose runtime goes with `_hsa`.
            unsafe { std::env::remove_var(setting.0) };
        }
    });
}

#[test]
fn a_memory_fault_is_told_while_others_run() {
    passes_alone("a_memory_fault_is_told_while_others_run", "gfx1100", || {
        // The kernel arguments are nowhere.
        let (hsa, queue) = beside_a_spinning_kernel(&TOGETHER[..1], &[]);
        hsa.handle_faults();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let mut packet = code.packet("count_items", 1, ptr::without_provenance(0x1000), HsaSignal::NULL);
        packet.header = header(HsaPacketType::KERNEL_DISPATCH, false);
        queue.submit(&packet);
        wait_for_fault(|&(agent, address, _)| (agent, address) == (hsa.gpu().handle, 0x1000));
        queue.wait_stopped(HsaStatus::ERROR_MEMORY_FAULT);
    });
}

/// The watchdog must still watch the kernel after other kernels beside it have ended.
#[test]
fn a_kernel_that_runs_beside_others_is_ended_by_the_timeout() {
    passes_alone("a_kernel_that_runs_beside_others_is_ended_by_the_timeout", "gfx1100", || {
        let settings = [TOGETHER[0], ("HSA_SIM_TIMEOUT", "1")];
        let (hsa, queue) = beside_a_spinning_kernel(&settings, &[]);
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let counted = signal(1);
        let mut packet = code.packet("count_items", 1, kernargs(&hsa, hsa.host_memory::<u32>(1)), counted);
        packet.header = header(HsaPacketType::KERNEL_DISPATCH, false);
        queue.submit(&packet);
        wait_for(counted, 0);
        assert_eq!(queue.wait_error(), HsaStatus::ERROR_EXCEPTION);
        assert!(queue.fault().contains("HSA_SIM_TIMEOUT=1 in one kernel: kernel spin"), "{}", queue.fault());
        drop((queue, code));
        destroy(&[counted]);
    });
}

/// Publishes a packet that must stop the queue, and a good one that must then not run.
fn expect_refusal<T>(packet: &T, status: HsaStatus, text: &str) {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let untouched = signal(1);
    let bad = queue.reserve();
    let good = queue.reserve();
    let mut after = barrier_and(&[], untouched);
    after.header = header(HsaPacketType::BARRIER_AND, true);
    queue.publish(good, &after);
    queue.publish(bad, packet);
    queue.ring(good);
    assert_eq!(queue.wait_error(), status);
    assert!(queue.fault().contains(text), "{}", queue.fault());
    assert_eq!(load(untouched), 1);
    assert_eq!(queue.read_index().load(Ordering::Acquire), 0);
    assert_eq!(queue.errors.lock().unwrap().len(), 1);
    drop(queue);
    destroy(&[untouched]);
}

#[test]
fn malformed_packets_stop_the_queue() {
    let _hsa = Hsa::new();
    let invalid = HsaStatus::ERROR_INVALID_PACKET_FORMAT;
    let with_header = |bits| {
        let mut packet = barrier_and(&[], HsaSignal::NULL);
        packet.header = PacketHeader(bits);
        packet
    };
    expect_refusal(&with_header(0x42), invalid, "unknown packet type");
    expect_refusal(&with_header(0x8003), invalid, "reserved bits");
    expect_refusal(&with_header(0x0603), invalid, "reserved bits");
    expect_refusal(&with_header(0x0004), invalid, "agent dispatch");

    let dead = signal(1);
    destroy(&[dead]);
    expect_refusal(&barrier_and(&[dead], HsaSignal::NULL), invalid, "not a live signal");
    expect_refusal(&barrier_and(&[], dead), invalid, "completion signal");

    let mut value = barrier_value(HsaSignal::NULL, HsaSignalCondition(9), 0, -1, HsaSignal::NULL);
    expect_refusal(&value, invalid, "unknown signal condition");
    value.header.reserved = 1;
    expect_refusal(&value, invalid, "reserved fields of a barrier-value packet");
    value.header.format = AmdFormat(77);
    expect_refusal(&value, invalid, "vendor packet format 77");
}

#[test]
fn malformed_dispatches_stop_the_queue() {
    let invalid = HsaStatus::ERROR_INVALID_PACKET_FORMAT;
    let good = NO_KERNEL;
    expect_refusal(&good, HsaStatus::ERROR_INVALID_CODE_OBJECT, "kernel object 0x40");
    expect_refusal(&KernelDispatchPacket { setup: 0, ..good }, invalid, "dimensions");
    let packet = KernelDispatchPacket { workgroup_size: [64, 32, 1], setup: 2, ..good };
    expect_refusal(&packet, invalid, "workgroup size");
    let packet = KernelDispatchPacket { grid_size: [64, 2, 1], ..good };
    expect_refusal(&packet, invalid, "unused dimension 1");
    let packet = KernelDispatchPacket { group_segment_size: 1 << 20, ..good };
    expect_refusal(&packet, invalid, "LDS");
}

#[test]
fn packets_must_be_reserved() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    queue.publish(0, &barrier_and(&[], HsaSignal::NULL));
    queue.ring(0);
    assert_eq!(queue.wait_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT);
    assert!(queue.fault().contains("reserved"), "{}", queue.fault());
}

/// ROCR's `hsa_queue_destroy` waits for the end of the callback.
#[test]
fn an_error_callback_must_not_destroy_its_queue() {
    unsafe extern "C" fn destroy_it(_: HsaStatus, queue: *mut HsaQueue, _: *mut std::ffi::c_void) {
        // SAFETY: the queue is the callback's.
        let _ = unsafe { hsa_queue_destroy(queue) };
    }
    let ended = alone("an_error_callback_must_not_destroy_its_queue", "gfx1100", || {
        let hsa = Hsa::new();
        let mut queue = ptr::null_mut();
        let kind = HsaQueueType::MULTI;
        // SAFETY: the output is a valid place.
        let status =
            unsafe { hsa_queue_create(hsa.gpu(), 64, kind, Some(destroy_it), ptr::null_mut(), 0, 0, &mut queue) };
        assert_eq!(status, HsaStatus::SUCCESS);
        let queue = std::mem::ManuallyDrop::new(Queue { queue: queue.cast(), errors: Box::default() });
        let mut packet = barrier_and(&[], HsaSignal::NULL);
        packet.header = PacketHeader(0x42);
        queue.submit(&packet);
        thread::sleep(TIMEOUT);
    });
    if let Some((status, text)) = ended {
        assert!(!status.success() && text.contains("destroyed in its own error callback"), "{text}");
    }
}

/// Nothing on the agent ever completes, on any queue of the process. The program is told of the first fault only.
#[test]
fn a_memory_fault_ends_its_agent_for_the_process() {
    passes_alone("a_memory_fault_ends_its_agent_for_the_process", "gfx1100,gfx1100", || {
        let hsa = Hsa::new();
        hsa.handle_faults();
        let (gate, done) = (signal(1), signal(4));
        let waiting = Queue::new(hsa.gpu(), 64);
        waiting.submit(&barrier_and(&[gate], done));
        fault(hsa.gpus[0]);
        store(gate, 0);
        waiting.submit(&barrier_and(&[], done));
        let later = Queue::new(hsa.gpu(), 64);
        later.submit(&barrier_and(&[], done));
        let other = Queue::new(hsa.gpus[1], 64);
        other.submit(&barrier_and(&[], done));
        wait_for(done, 3);
        fault(hsa.gpus[1]);
        wait_for_fault(|_| true);
        assert_eq!((load(done), FAULTS.lock().unwrap().len()), (3, 1));
        drop((waiting, later, other));
        destroy(&[gate, done]);
    });
}

/// Without interrupts, ROCR does not even listen for faults.
#[test]
fn without_interrupts_the_program_is_told_of_no_fault() {
    passes_alone("without_interrupts_the_program_is_told_of_no_fault", "gfx1100", || {
        // SAFETY: this process runs one test, and its runtime is not initialised.
        unsafe { std::env::set_var("HSA_ENABLE_INTERRUPT", "0") };
        let hsa = Hsa::new();
        hsa.handle_faults();
        fault(hsa.gpu());
        // The last reference's end waits for callbacks that are due.
        drop(hsa);
        assert!(FAULTS.lock().unwrap().is_empty());
    });
}

/// Causes a memory fault of a queue of `agent`. The queue's error callback is not called.
fn fault(agent: HsaAgent) {
    let queue = Queue::new(agent, 64);
    queue.submit(&AmdPm4IbPacket {
        header: AmdVendorHeader {
            header: header(HsaPacketType::VENDOR_SPECIFIC, true),
            format: AmdFormat::PM4_IB,
            reserved: 0,
        },
        // One dword of commands at 0x1000, where nothing is.
        ib_jump_command: [3 << 30 | 2 << 16 | 0x3f << 8, 0x1000, 0, 1 | 1 << 23],
        dw_cnt_remain: AmdPm4IbPacket::DW_CNT_REMAIN,
        reserved: [0; 8],
        completion_signal: HsaSignal::NULL,
    });
    queue.wait_stopped(HsaStatus::ERROR_MEMORY_FAULT);
}

/// The default if no handler accepts a fault. All handlers are called.
#[test]
fn a_fault_that_no_handler_takes_care_of_ends_the_process() {
    unsafe extern "C" fn refuse(_: *const HsaAmdEvent, _: *mut std::ffi::c_void) -> HsaStatus {
        eprintln!("asked");
        HsaStatus::ERROR
    }
    let ended = alone("a_fault_that_no_handler_takes_care_of_ends_the_process", "gfx1100", || {
        let hsa = Hsa::new();
        // SAFETY: the callback needs no data.
        let register = || unsafe { hsa_amd_register_system_event_handler(Some(refuse), ptr::null_mut()) };
        assert!(register().is_ok() && register().is_ok());
        fault(hsa.gpu());
        thread::sleep(TIMEOUT);
    });
    if let Some((status, text)) = ended {
        assert!(!status.success() && text.contains("asked\nasked\nhsa-sim: no handler took care"), "{text}");
    }
}
