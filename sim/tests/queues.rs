// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Barrier packets, order, the words of queues, latency.

mod common;

use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

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

#[test]
fn barrier_values_compare_masked_values_across_queues() {
    let hsa = Hsa::new();
    let (first, second) = (Queue::new(hsa.gpu(), 64), Queue::new(hsa.gpu(), 64));
    let (epoch, gate, done) = (signal(100), signal(1), signal(2));
    let all = -1;
    let mut with_junk = barrier_value(epoch, HsaSignalCondition::LT, 99, all, done);
    // As HIP 5.7 leaves it.
    (with_junk.reserved0, with_junk.reserved1, with_junk.reserved2) = (6, 7, [8, 9]);
    second.submit(&with_junk);
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

/// The processor must not look for packets at the creation of its queue.
#[test]
fn packets_wait_for_the_doorbell() {
    let hsa = Hsa::new();
    let queues: [Queue; 16] = std::array::from_fn(|_| Queue::new(hsa.gpu(), 64));
    let done = signal(16);
    for queue in &queues {
        queue.publish(queue.reserve(), &barrier_and(&[], done));
    }
    // By then the processors have begun.
    let (last, last_done) = (Queue::new(hsa.gpu(), 64), signal(1));
    last.submit(&barrier_and(&[], last_done));
    wait_for(last_done, 0);
    assert_eq!(load(done), 16);
    for (left, queue) in (0..16).rev().zip(&queues) {
        queue.ring(0);
        wait_for(done, left);
    }
    destroy(&[done, last_done]);
}

/// The driver's indirect dispatch relies on it: a kernel writes the header of a packet whose doorbell was rung before.
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

/// A profiling client may do so: only the layout of a signal matters.
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
fn a_clock_of_instructions_gives_equal_times_to_equal_kernels() {
    passes_alone("a_clock_of_instructions_gives_equal_times_to_equal_kernels", "gfx1100", || {
        // SAFETY: this process runs one test, whose runtime is not initialised.
        unsafe { std::env::set_var("HSA_SIM_CLOCK", "instructions") };
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let queue = Queue::new(hsa.gpu(), 64);
        // SAFETY: the queue is live.
        assert!(unsafe { hsa_amd_profiling_set_profiler_enabled(queue.queue.cast(), 1) }.is_ok());
        let out = hsa.host_memory::<u32>(1000);
        let done = signal(1);
        let mut last = 0;
        // Ticks of a run with so many workgroups.
        let mut ticks = |groups: u32| {
            store(done, 1);
            queue.submit(&code.packet("fill", groups, kernargs(&hsa, FillArgs { out, value: 7, count: 1000 }), done));
            wait_for(done, 0);
            // SAFETY: the packet is complete.
            let (start, end) = unsafe { ((*done.as_ptr()).start_ts, (*done.as_ptr()).end_ts) };
            assert!(start >= last, "{start} {last}");
            last = end;
            end - start
        };
        // Two workgroups of two waves with 18 instructions each are 72 ns, rounded up to ticks of 10 ns.
        assert_eq!([ticks(2), ticks(2), ticks(2)], [8; 3]);
        assert_eq!([ticks(10), ticks(10)], [36; 2]);
        drop(queue);
        destroy(&[done]);
    });
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

/// As in the driver: one thread rings by a bare store and waits for another one, which blocks on the signal all the
/// time. The budget is the project's for a whole 4-byte copy; a busy machine may need ten times as much.
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
