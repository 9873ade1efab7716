// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Signals, barrier packets, malformed packets, latency.

mod common;

use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

fn destroy(signals: &[HsaSignal]) {
    for &signal in signals {
        // SAFETY: each test destroys its signals once.
        assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
    }
}

#[test]
fn waits_end_when_another_thread_changes_the_signal() {
    let _hsa = Hsa::new();
    let (ping, pong) = (signal(0), signal(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=1000 {
                wait_for(ping, i);
                // SAFETY: the signal is live.
                unsafe { hsa_signal_add_screlease(pong, 1) };
            }
        });
        for i in 1..=1000 {
            store(ping, i);
            wait_for(pong, i);
        }
    });
    destroy(&[ping, pong]);
}

#[test]
fn waits_time_out() {
    let _hsa = Hsa::new();
    let one = signal(3);
    // SAFETY: the signal is live; the arrays have one element.
    unsafe {
        let state = HsaWaitState::BLOCKED;
        let seen = hsa_signal_wait_scacquire(one, HsaSignalCondition::LT, 3, 1_000_000, state);
        assert_eq!(seen, 3);
        let (mut signal, mut condition, mut value) = (one, HsaSignalCondition::NE, 0);
        let any = |signal: &mut HsaSignal, condition: &mut _, value: &mut i64, out: &mut i64| {
            hsa_amd_signal_wait_any(1, signal, condition, value, u64::MAX, state, out)
        };
        let mut out = 0;
        assert_eq!(any(&mut signal, &mut condition, &mut value, &mut out), 0);
        assert_eq!(out, 3);
    }
    destroy(&[one]);
}

#[test]
fn wait_any_tells_which_signal_it_was() {
    let _hsa = Hsa::new();
    let mut signals = [signal(1), signal(1), signal(1)];
    thread::scope(|scope| {
        let second = signals[1];
        let waiter = scope.spawn(move || {
            let mut conditions = [HsaSignalCondition::LT; 3];
            let mut values = [0; 3];
            let mut value = 0;
            let timeout = TIMEOUT.as_nanos() as u64;
            // SAFETY: the arrays have three elements.
            let index = unsafe {
                hsa_amd_signal_wait_any(
                    3,
                    signals.as_mut_ptr(),
                    conditions.as_mut_ptr(),
                    values.as_mut_ptr(),
                    timeout,
                    HsaWaitState::BLOCKED,
                    &mut value,
                )
            };
            (index, value)
        });
        // SAFETY: the signal is live.
        unsafe { hsa_signal_subtract_relaxed(second, 5) };
        // The value is told for the first signal only.
        assert_eq!(waiter.join().unwrap(), (1, 0));
    });
    destroy(&signals);
}

#[test]
fn null_signals_do_not_hold_up_waits() {
    let _hsa = Hsa::new();
    let state = HsaWaitState::BLOCKED;
    let mut signals = [signal(1), signal(5), HsaSignal::NULL];
    let mut conditions = [HsaSignalCondition::LT, HsaSignalCondition::GTE, HsaSignalCondition::NE];
    let (mut operands, mut met) = ([1, 5, 0], [7; 3]);
    let mut all = |signals: &mut [HsaSignal; 3], timeout, met: *mut i64| {
        let (signals, conditions, operands) = (signals.as_mut_ptr(), conditions.as_mut_ptr(), operands.as_mut_ptr());
        // SAFETY: the arrays have three elements.
        unsafe {
            let all = hsa_amd_signal_wait_all(3, signals, conditions, operands, timeout, state, met);
            if all == u32::MAX {
                return (u32::MAX, all);
            }
            (hsa_amd_signal_wait_any(2, signals, conditions, operands, timeout, state, ptr::null_mut()), all)
        }
    };
    assert_eq!(all(&mut signals, 1_000_000, met.as_mut_ptr()), (u32::MAX, u32::MAX));
    assert_eq!(met, [7; 3]);
    thread::scope(|scope| {
        let first = signals[0];
        scope.spawn(move || store(first, -2));
        let timeout = TIMEOUT.as_nanos() as u64;
        assert_eq!(all(&mut signals, timeout, met.as_mut_ptr()), (0, 0));
    });
    assert_eq!(met, [-2, 5, 0]);
    assert_eq!(all(&mut signals, 0, ptr::null_mut()), (0, 0));
    destroy(&signals[..2]);
}

#[test]
fn signal_operations_return_what_they_should() {
    let _hsa = Hsa::new();
    let one = signal(0b1100);
    // SAFETY: the signal is live.
    unsafe {
        hsa_signal_and_relaxed(one, 0b0110);
        assert_eq!(load(one), 0b0100);
        hsa_signal_or_scacquire(one, 0b0001);
        hsa_signal_xor_screlease(one, 0b1111);
        assert_eq!(load(one), 0b1010);
        assert_eq!(hsa_signal_exchange_scacq_screl(one, 5), 0b1010);
        assert_eq!(hsa_signal_cas_scacq_screl(one, 4, 6), 5);
        assert_eq!(load(one), 5);
        assert_eq!(hsa_signal_cas_relaxed(one, 5, 6), 5);
        assert_eq!(hsa_signal_load_relaxed(one), 6);
    }
    destroy(&[one]);
}

#[test]
fn barriers_wait_for_their_signals() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let (a, b, done) = (signal(1), signal(1), signal(2));
    queue.submit(&barrier_and(&[a, b], done));
    let mut or = barrier_and(&[a, b], done);
    or.header = header(HsaPacketType::BARRIER_OR, true);
    queue.submit(&or);
    store(a, 0);
    thread::scope(|scope| {
        // Nothing may complete while `b` is not zero.
        let waiter = scope.spawn(|| {
            // SAFETY: the signal is live.
            unsafe {
                let state = HsaWaitState::BLOCKED;
                hsa_signal_wait_scacquire(done, HsaSignalCondition::LT, 2, 2_000_000, state)
            }
        });
        assert_eq!(waiter.join().unwrap(), 2);
    });
    assert_eq!(queue.read_index().load(Ordering::Acquire), 0);
    store(b, 0);
    wait_for(done, 0);
    assert_eq!(queue.read_index().load(Ordering::Acquire), 2);
    destroy(&[a, b, done]);
}

fn barrier_value(
    signal: HsaSignal,
    condition: HsaSignalCondition,
    value: i64,
    mask: i64,
    completion: HsaSignal,
) -> AmdBarrierValuePacket {
    AmdBarrierValuePacket {
        header: AmdVendorHeader {
            header: header(HsaPacketType::VENDOR_SPECIFIC, true),
            format: AmdFormat::BARRIER_VALUE,
            reserved: 0,
        },
        reserved0: 0,
        signal,
        value,
        mask,
        condition,
        reserved1: 0,
        reserved2: [0; 2],
        completion_signal: completion,
    }
}

#[test]
fn barrier_values_compare_masked_values_across_queues() {
    let hsa = Hsa::new();
    let (first, second) = (Queue::new(hsa.gpu(), 64), Queue::new(hsa.gpu(), 64));
    let (epoch, gate, done) = (signal(100), signal(1), signal(2));
    let all = -1;
    second.submit(&barrier_value(epoch, HsaSignalCondition::LT, 99, all, done));
    second.submit(&barrier_value(epoch, HsaSignalCondition::EQ, 2, 0xf, done));
    first.submit(&barrier_and(&[gate], epoch));
    first.submit(&barrier_and(&[], epoch));
    assert_eq!(load(done), 2);
    store(gate, 0);
    // 98 is less than 99, and 98 & 15 is 2.
    wait_for(done, 0);
    assert_eq!(load(epoch), 98);
    destroy(&[epoch, gate, done]);
}

#[test]
fn the_processor_stops_in_front_of_unpublished_packets() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let (first, second) = (signal(1), signal(1));
    let (a, b) = (queue.reserve(), queue.reserve());
    let mut last = barrier_and(&[], second);
    last.header = header(HsaPacketType::BARRIER_AND, true);
    queue.publish(b, &last);
    queue.ring(b);
    let state = HsaWaitState::BLOCKED;
    // SAFETY: the signal is live.
    let seen = unsafe { hsa_signal_wait_scacquire(second, HsaSignalCondition::EQ, 0, 2_000_000, state) };
    assert_eq!(seen, 1);
    queue.publish(a, &barrier_and(&[], first));
    queue.ring(a);
    wait_for(second, 0);
    assert_eq!(load(first), 0);
    destroy(&[first, second]);
}

/// The indirect dispatch of the driver relies on it: a kernel writes the header of a packet that is there.
#[test]
fn a_header_may_be_written_long_after_the_doorbell() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(2);
    // Once at the front of an idle queue and once behind a packet.
    for left in [1, 0] {
        if left == 0 {
            queue.submit(&barrier_and(&[], HsaSignal::NULL));
        }
        let id = queue.reserve();
        queue.ring(id);
        // SAFETY: the signal is live.
        let seen =
            unsafe { hsa_signal_wait_scacquire(done, HsaSignalCondition::EQ, left, 5_000_000, HsaWaitState::BLOCKED) };
        assert_eq!(seen, left + 1);
        queue.publish(id, &barrier_and(&[], done));
        wait_for(done, left);
    }
    destroy(&[done]);
}

#[test]
fn barriers_without_signals_do_not_wait() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let (open, closed, done) = (signal(0), signal(1), signal(4));
    let or = |signals: &[HsaSignal]| {
        let mut packet = barrier_and(signals, done);
        packet.header = header(HsaPacketType::BARRIER_OR, true);
        packet
    };
    queue.submit(&barrier_and(&[], done));
    queue.submit(&or(&[]));
    queue.submit(&barrier_and(&[HsaSignal::NULL, open], done));
    queue.submit(&or(&[HsaSignal::NULL, closed, open]));
    wait_for(done, 0);
    // A null signal does not make an OR true.
    queue.submit(&or(&[HsaSignal::NULL, closed]));
    // SAFETY: the signal is live.
    let seen = unsafe { hsa_signal_wait_scacquire(done, HsaSignalCondition::EQ, -1, 2_000_000, HsaWaitState::BLOCKED) };
    assert_eq!(seen, 0);
    store(closed, 0);
    wait_for(done, -1);
    drop(queue);
    destroy(&[open, closed, done]);
}

#[test]
fn barrier_values_know_every_condition() {
    const MIN: i64 = i64::MIN;
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let all = -1;
    // Condition, operand, mask, a value that does not meet it, a value that does.
    let cases = [
        (HsaSignalCondition::EQ, 5, all, 6, 5),
        (HsaSignalCondition::EQ, 0x30, 0xf0, 0x45, 0x35),
        (HsaSignalCondition::EQ, 0, 0, 0, 0),
        (HsaSignalCondition::NE, 5, all, 5, -5),
        (HsaSignalCondition::NE, 1, 1, 3, 2),
        (HsaSignalCondition::LT, 0, all, 0, -1),
        (HsaSignalCondition::LT, 0, MIN, i64::MAX, -1),
        (HsaSignalCondition::LT, 4, 7, 0x17, 0x13),
        (HsaSignalCondition::GTE, 0, all, MIN, 0),
        (HsaSignalCondition::GTE, 4, 7, 0x1b, 0xc),
        (HsaSignalCondition::GTE, 0, i64::MAX, MIN, MIN),
    ];
    for (condition, operand, mask, closed, open) in cases {
        let (one, done) = (signal(closed), signal(1));
        queue.submit(&barrier_value(one, condition, operand, mask, done));
        if condition.evaluate(closed & mask, operand) == Some(false) {
            // SAFETY: the signal is live.
            let seen =
                unsafe { hsa_signal_wait_scacquire(done, HsaSignalCondition::EQ, 0, 200_000, HsaWaitState::BLOCKED) };
            assert_eq!(seen, 1, "{condition:?} {operand} {mask:#x} holds for {closed}");
        }
        store(one, open);
        wait_for(done, 0);
        destroy(&[one, done]);
    }
    let done = signal(1);
    queue.submit(&barrier_value(HsaSignal::NULL, HsaSignalCondition::NE, 0, all, done));
    wait_for(done, 0);
    drop(queue);
    destroy(&[done]);
}

/// As a client that profiles may do it: only the layout of a signal counts.
#[test]
fn packets_take_signals_in_memory_of_the_clients() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let memory = hsa.host_memory::<AmdSignal>(2);
    // SAFETY: the memory is zeroed, has room for two signals, and is this test's own.
    unsafe {
        (*memory).kind = AmdSignalKind::USER;
        (*memory).value = 1;
        assert!(hsa_amd_profiling_set_profiler_enabled(queue.queue.cast(), 1).is_ok());
    }
    let (mine, done) = (HsaSignal { handle: memory.addr() as u64 }, signal(1));
    queue.submit(&barrier_and(&[], mine));
    let mut second = barrier_and(&[mine], done);
    second.header = header(HsaPacketType::BARRIER_AND, true);
    queue.submit(&second);
    wait_for(done, 0);
    // SAFETY: the packet is complete.
    let (value, start, end) = unsafe { ((*memory).value, (*memory).start_ts, (*memory).end_ts) };
    assert!(value == 0 && start != 0 && start <= end);
    // Not a signal: of kind 0, not aligned, beyond the memory.
    for handle in [mine.handle + 64, mine.handle + 8, mine.handle + 128] {
        let bad = Queue::new(hsa.gpu(), 64);
        bad.submit(&barrier_and(&[], HsaSignal { handle }));
        assert_eq!(bad.wait_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT);
        assert!(bad.fault().contains("is not a live signal"), "{}", bad.fault());
    }
    drop(queue);
    destroy(&[done]);
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
}

#[test]
fn many_producers_fill_a_small_ring() {
    const PRODUCERS: i64 = 4;
    const PACKETS: i64 = 2000;
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(PRODUCERS * PACKETS);
    thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                for _ in 0..PACKETS {
                    queue.submit(&barrier_and(&[], done));
                }
            });
        }
    });
    wait_for(done, 0);
    assert_eq!(queue.read_index().load(Ordering::Acquire), (PRODUCERS * PACKETS) as u64);
    assert!(queue.errors.lock().unwrap().is_empty());
    destroy(&[done]);
}

/// A queue of its own process, whose runtime has these settings, that runs a kernel until `flag` is not zero, and these
/// packets beside it.
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

/// Packets without the barrier bit run at the same time with these.
const TOGETHER: [(&str, &str); 2] = [("HSA_SIM_MEMORY", "strict"), ("HSA_SIM_SEED", "1")];

/// Of a kernel that is none.
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
fn a_seed_changes_the_order_of_what_is_not_ordered() {
    passes_alone("a_seed_changes_the_order_of_what_is_not_ordered", "gfx1100", || {
        const ROUNDS: usize = 200;
        // SAFETY: this process runs one test, whose runtime is not initialised.
        unsafe { std::env::set_var("HSA_SIM_SEED", "1") };
        let hsa = Hsa::new();
        let queue = Queue::new(hsa.gpu(), 64);
        // SAFETY: the queue is live.
        assert!(unsafe { hsa_amd_profiling_set_profiler_enabled(queue.queue.cast(), 1) }.is_ok());
        let signals = [signal(1), signal(1)];
        // Whether the second ended first.
        let reversed = |barrier: bool| {
            signals.iter().for_each(|&signal| store(signal, 1));
            let ids = signals.map(|_| queue.reserve());
            for (id, signal) in ids.into_iter().zip(signals).rev() {
                let header = header(HsaPacketType::BARRIER_AND, barrier);
                queue.publish(id, &BarrierAndPacket { header, ..barrier_and(&[], signal) });
            }
            queue.ring(ids[1]);
            let ends = signals.map(|signal| {
                wait_for(signal, 0);
                // SAFETY: the packet is complete.
                unsafe { (*signal.as_ptr()).end_ts }
            });
            ends[1] < ends[0]
        };
        let count = |barrier| (0..ROUNDS).filter(|_| reversed(barrier)).count();
        assert_eq!(count(true), 0);
        let unordered = count(false);
        println!("{unordered} of {ROUNDS}");
        assert!((ROUNDS / 20..ROUNDS * 3 / 4).contains(&unordered), "{unordered}");
        drop(queue);
        destroy(&signals);
    });
}

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

/// What ends beside it does not take a kernel from those whose time is looked at.
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
    value.reserved1 = 1;
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

#[test]
fn queues_can_be_destroyed_while_they_wait() {
    let hsa = Hsa::new();
    let (never, done) = (signal(1), signal(1));
    let queue = Queue::new(hsa.gpu(), 64);
    queue.submit(&barrier_and(&[never], done));
    drop(queue);
    assert_eq!(load(done), 1);
    destroy(&[never, done]);
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

/// What is on the agent never ends, on whichever queue and of whoever; the program hears of the first fault only.
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

/// ROCR does not even listen then.
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

/// Has a queue of `agent` meet a memory fault, of which its error callback is not told.
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

/// The default, when no handler takes care of a fault: each is asked.
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

/// What ROCR does from 2025-03 on when it expires is undefined.
#[test]
fn a_wait_for_any_that_expires_ends_the_process() {
    let ended = alone("a_wait_for_any_that_expires_ends_the_process", "gfx1100", || {
        let _hsa = Hsa::new();
        let (mut signal, mut condition, mut value) = (signal(3), HsaSignalCondition::NE, 3);
        let state = HsaWaitState::BLOCKED;
        // SAFETY: the signal is live; the arrays have one element.
        unsafe { hsa_amd_signal_wait_any(1, &mut signal, &mut condition, &mut value, 1_000, state, ptr::null_mut()) };
    });
    if let Some((status, text)) = ended {
        assert!(!status.success() && text.contains("hsa_amd_signal_wait_any timed out"), "{text}");
    }
}

/// As the driver does it: one thread rings by a bare store and waits for another one, which blocks on
/// the signal all the time. The budget is the project's for a whole 4-byte copy; a busy machine may use
/// ten times as much.
#[test]
fn a_round_trip_is_quick() {
    const ROUNDS: i64 = 200;
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let epoch = signal(ROUNDS);
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for left in (0..ROUNDS).rev() {
                wait_for(epoch, left);
                sender.send(left).unwrap();
            }
        });
        let mut times: Vec<_> = (0..ROUNDS)
            .rev()
            .map(|left| {
                let start = Instant::now();
                queue.submit(&barrier_and(&[], epoch));
                assert_eq!(receiver.recv(), Ok(left));
                start.elapsed()
            })
            .collect();
        times.sort();
        let (median, late) = (times[100], times[180]);
        println!("round trip: median {median:?}, 90th percentile {late:?}");
        assert!(median < Duration::from_millis(2), "median {median:?}");
    });
    destroy(&[epoch]);
}

#[test]
fn queues_describe_themselves_and_take_hints() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let raw = queue.queue.cast::<HsaQueue>();
    let (mut agent, mut doorbell) = (HsaAgent::NULL, 0_u64);
    let invalid = HsaStatus::ERROR_INVALID_ARGUMENT;
    // SAFETY: the queue is live, the outputs have the attributes' types, masks have the bits said.
    unsafe {
        assert!(hsa_amd_queue_get_info(raw, HsaQueueInfo::AGENT, as_data(&mut agent)).is_ok());
        assert!(hsa_amd_queue_get_info(raw, HsaQueueInfo::DOORBELL_ID, as_data(&mut doorbell)).is_ok());
        assert_eq!(hsa_amd_queue_get_info(raw, HsaQueueInfo(2), as_data(&mut doorbell)), invalid);
        assert_eq!(agent, hsa.gpu());
        assert_eq!(doorbell, (*(*raw).doorbell_signal.as_ptr()).value as u64);

        for priority in [HsaQueuePriority::LOW, HsaQueuePriority::NORMAL, HsaQueuePriority::HIGH] {
            assert_eq!(hsa_amd_queue_set_priority(raw, priority), HsaStatus::SUCCESS);
        }
        assert_eq!(hsa_amd_queue_set_priority(raw, HsaQueuePriority(3)), invalid);
        let bad = ptr::from_mut(&mut agent).cast();
        assert_eq!(hsa_amd_queue_set_priority(bad, HsaQueuePriority::LOW), HsaStatus::ERROR_INVALID_QUEUE);

        assert_eq!(hsa_amd_queue_cu_set_mask(raw, 0, ptr::null()), HsaStatus::SUCCESS);
        assert_eq!(hsa_amd_queue_cu_set_mask(raw, 64, [0x33, 3].as_ptr()), HsaStatus::SUCCESS);
        assert_eq!(hsa_amd_queue_cu_set_mask(raw, 32, [0x6].as_ptr()), invalid);
        assert_eq!(hsa_amd_queue_cu_set_mask(raw, 31, [0x3].as_ptr()), invalid);
        assert_eq!(hsa_amd_queue_cu_set_mask(raw, 32, ptr::null()), invalid);
    }
}

#[test]
fn indices_are_the_words_of_the_queue() {
    let hsa = Hsa::new();
    let queue = Queue::new(hsa.gpu(), 64);
    let raw = queue.queue.cast::<HsaQueue>();
    let done = signal(1);
    // SAFETY: the queue is live.
    unsafe {
        assert_eq!(hsa_queue_add_write_index_relaxed(raw, 1), 0);
        assert_eq!(hsa_queue_add_write_index_scacq_screl(raw, 0), 1);
        assert_eq!(hsa_queue_cas_write_index_scacquire(raw, 0, 9), 1);
        assert_eq!(hsa_queue_cas_write_index_scacq_screl(raw, 1, 0), 1);
        assert_eq!(hsa_queue_cas_write_index_screlease(raw, 0, 2), 0);
        assert_eq!(hsa_queue_load_write_index_scacquire(raw), 2);
        hsa_queue_store_write_index_screlease(raw, 1);
        assert_eq!(hsa_queue_load_write_index_relaxed(raw), queue.write_index().load(Ordering::Relaxed));
        queue.publish(0, &barrier_and(&[], done));
        hsa_signal_store_screlease((*raw).doorbell_signal, 0);
        wait_for(done, 0);
        assert_eq!(hsa_queue_load_read_index_scacquire(raw), 1);
        hsa_queue_store_read_index_screlease(raw, 0);
        assert_eq!(hsa_queue_load_read_index_relaxed(raw), 1, "the packet processor's own");
    }
    destroy(&[done]);
}

#[test]
fn soft_queues_are_processed_by_their_maker() {
    let hsa = Hsa::new();
    let mut regions: Vec<HsaRegion> = Vec::new();
    let doorbell = signal(-1);
    let mut queue = ptr::null_mut();
    let features = HSA_QUEUE_FEATURE_AGENT_DISPATCH;
    // SAFETY: the callback gets the vector it expects; outputs are valid places; the queue is live until
    // it is destroyed.
    unsafe {
        assert!(hsa_agent_iterate_regions(hsa.cpu, Some(push::<HsaRegion>), as_data(&mut regions)).is_ok());
        let region = regions[0];
        let mut make = |region, size, features, doorbell| {
            hsa_soft_queue_create(region, size, HsaQueueType::SINGLE, features, doorbell, &mut queue)
        };
        let invalid = HsaStatus::ERROR_INVALID_ARGUMENT;
        assert_eq!(make(region, 6, features, doorbell), invalid);
        assert_eq!(make(region, 8, 0, doorbell), invalid);
        assert_eq!(make(region, 8, features, HsaSignal::NULL), invalid);
        assert_eq!(make(HsaRegion::NULL, 8, features, doorbell), HsaStatus::ERROR_INVALID_REGION);
        assert_eq!(make(region, 8, features, doorbell), HsaStatus::SUCCESS);

        assert_eq!(((*queue).size, (*queue).features, (*queue).doorbell_signal), (8, features, doorbell));
        let slots: *const u16 = (*queue).base_address.cast();
        assert_eq!(slots.add(7 * 32).read(), PacketHeader::INVALID.0);
        let id = hsa_queue_add_write_index_screlease(queue, 1);
        let consumer = queue.expose_provenance();
        thread::scope(|scope| {
            scope.spawn(move || {
                wait_for(doorbell, 0);
                hsa_queue_store_read_index_screlease(ptr::with_exposed_provenance(consumer), 1);
                store(doorbell, -1);
            });
            hsa_signal_store_screlease((*queue).doorbell_signal, id as i64);
            wait_for(doorbell, -1);
        });
        assert_eq!(hsa_queue_load_read_index_scacquire(queue), 1);
        assert_eq!(hsa_queue_destroy(queue), HsaStatus::SUCCESS);
        assert_eq!(hsa_queue_destroy(queue), HsaStatus::ERROR_INVALID_QUEUE);
    }
    destroy(&[doorbell]);
}
