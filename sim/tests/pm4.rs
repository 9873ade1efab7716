// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! PM4-IB packets: memory, waits, kernels, and refused commands.

mod common;

use std::thread;

use common::code::*;
use common::pm4::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;
use hsa_runtime64::machine::clock::device_ticks;
use hsa_runtime64::machine::exports::hsa_sim_hold;

// Opcodes and fields, from the Linux kernel's soc15d.h and Mesa's sid.h.
const NOP: u32 = 0x10;
const DISPATCH_INDIRECT: u32 = 0x16;
const WRITE_DATA: u32 = 0x37;
const WAIT_REG_MEM: u32 = 0x3c;
const COPY_DATA: u32 = 0x40;
const SET_UCONFIG_REG: u32 = 0x79;
const WAIT_REG_MEM64: u32 = 0x93;
const TO_L2: u32 = 2 << 8 | 1 << 20;
const FROM_L2: u32 = 2;
const FROM_CLOCK: u32 = 9;
const WIDE: u32 = 1 << 16;
const IN_MEMORY: u32 = 1 << 4;

/// Runs commands to their end.
fn run(hsa: &Hsa, packets: &[Vec<u32>]) {
    let queue = Queue::new(hsa.gpu(), 64);
    let commands = Commands::new(hsa, packets);
    let done = signal(1);
    queue.submit(&commands.packet(done));
    wait_for(done, 0);
    destroy(&[done]);
}

/// Runs commands that must stop the queue.
fn refuse(hsa: &Hsa, packets: &[Vec<u32>], status: HsaStatus, text: &str) {
    let queue = Queue::new(hsa.gpu(), 64);
    let commands = Commands::new(hsa, packets);
    let done = signal(1);
    queue.submit(&commands.packet(done));
    queue.wait_stopped(status);
    assert!(queue.fault().contains(text), "{} has no '{text}'", queue.fault());
    assert_eq!(load(done), 1);
    drop(queue);
    destroy(&[done]);
}

#[test]
fn memory_is_written_and_copied() {
    let hsa = Hsa::new();
    let memory = hsa.host_memory::<u32>(16);
    let at = |index: usize| memory.wrapping_add(index);
    let copy = |control: u32, source: *mut u32, target: *mut u32| {
        packet(COPY_DATA, &[control | TO_L2, low(source), high(source), low(target), high(target)])
    };
    run(
        &hsa,
        &[
            packet(WRITE_DATA, &[TO_L2, low(at(0)), high(at(0)), 1, 2, 3]),
            packet(NOP, &[0, 0]),
            vec![3 << 30 | 0x3fff << 16 | NOP << 8, 2 << 30],
            copy(FROM_L2, at(1), at(4)),
            copy(FROM_L2 | WIDE, at(0), at(6)),
            packet(COPY_DATA, &[5 | 5 << 8, 77, 0, low(at(8)), high(at(8))]),
            packet(COPY_DATA, &[5 | 5 << 8 | WIDE, 78, 79, low(at(10)), high(at(10))]),
            packet(EVENT_WRITE, &[7 | 4 << 8]),
            packet(ACQUIRE_MEM, &[0, u32::MAX, 0x1ff_ffff, 0, 0, 10, 0xc3b3]),
            packet(RELEASE_MEM, &[0x14 | 5 << 8, 1 << 16 | 3 << 24 | 1 << 29, low(at(12)), high(at(12)), 5, 6, 0]),
            packet(RELEASE_MEM, &[0x14 | 5 << 8, 2 << 29, low(at(14)), high(at(14)), 7, 8, 0]),
        ],
    );
    assert_eq!(read(memory, 16), [1, 2, 3, 0, 2, 0, 1, 2, 77, 0, 78, 79, 5, 0, 7, 8]);
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
}

#[test]
fn the_clock_is_the_devices() {
    let hsa = Hsa::new();
    let memory = hsa.host_memory::<u64>(3);
    let now = || {
        let mut ticks = 0_u64;
        // SAFETY: the attribute has this type.
        assert!(unsafe { hsa_system_get_info(HsaSystemInfo::TIMESTAMP, as_data(&mut ticks)) }.is_ok());
        ticks
    };
    let at = |index: usize| memory.wrapping_add(index);
    let before = now();
    // As gfx9 to gfx12 are asked for it: by way of memory or the L2 cache, with different cache policies.
    let stamp =
        |control, index| packet(COPY_DATA, &[control | FROM_CLOCK | WIDE, 0, 0, low(at(index)), high(at(index))]);
    run(
        &hsa,
        &[
            stamp(1 << 13 | 5 << 8 | 1 << 25, 0),
            stamp(3 << 13 | 2 << 8 | 3 << 25, 1),
            packet(RELEASE_MEM, &[0x28, 3 << 29, low(at(2)), high(at(2)), 0, 0, 0]),
        ],
    );
    let stamps = read(memory.cast(), 6);
    let stamps: Vec<u64> = stamps.chunks(2).map(|words| u64::from(words[1]) << 32 | u64::from(words[0])).collect();
    assert!(device_ticks(before) <= stamps[0] && stamps.is_sorted(), "{before} {stamps:?}");
    assert!(stamps[2] <= device_ticks(now()), "{before} {stamps:?}");
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
}

#[test]
fn waits_hold_up_what_comes_after() {
    let hsa = Hsa::new();
    let (epoch, done) = (signal(100), signal(1));
    let memory = hsa.host_memory::<u32>(4);
    // SAFETY: the signal is live and its value is only accessed atomically.
    let value = unsafe { &raw mut (*epoch.as_ptr()).value };
    let second = memory.wrapping_add(1);
    let wait64 = |function: u32, reference: u32, mask: u32| {
        packet(WAIT_REG_MEM64, &[function | IN_MEMORY, low(value), high(value), reference, 0, mask, 0, 4 | 1 << 31])
    };
    let wait32 = |function: u32, reference: u32, mask: u32| {
        packet(WAIT_REG_MEM, &[function | IN_MEMORY, low(second), high(second), reference, mask, 4])
    };
    let write = |index: usize| {
        let target = memory.wrapping_add(index);
        packet(WRITE_DATA, &[TO_L2, low(target), high(target), 1])
    };
    let commands = Commands::new(
        &hsa,
        &[
            // A condition that holds from the start does not wait: always, <=, ==, !=, >=, >, with masks.
            wait64(0, 0, 0),
            wait64(2, 100, u32::MAX),
            wait64(3, 0x64 & 0xf, 0xf),
            wait64(4, 99, u32::MAX),
            wait64(5, 100, u32::MAX),
            wait64(6, 99, u32::MAX),
            write(0),
            wait64(1, 100, u32::MAX),
            write(2),
            wait32(3, 0x10, 0xf0),
            write(3),
        ],
    );
    let queue = Queue::new(hsa.gpu(), 64);
    let written = |index: usize| {
        // SAFETY: the word is in live memory and only accessed atomically.
        unsafe { std::sync::atomic::AtomicU32::from_ptr(memory.add(index)) }
    };
    use std::sync::atomic::Ordering::{Acquire, Release};
    queue.submit(&commands.packet(done));
    while written(0).load(Acquire) == 0 {
        thread::yield_now();
    }
    assert_eq!((written(2).load(Acquire), load(done)), (0, 1));
    store(epoch, 99);
    while written(2).load(Acquire) == 0 {
        thread::yield_now();
    }
    assert_eq!((written(3).load(Acquire), load(done)), (0, 1));
    // A bare store by the host, to half of a word.
    written(1).store(0x1f, Release);
    wait_for(done, 0);
    assert_eq!(written(3).load(Acquire), 1);
    drop(queue);
    for signal in [epoch, done] {
        destroy(&[signal]);
    }
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
}

#[test]
fn a_signal_that_is_written_wakes_its_waiters() {
    let hsa = Hsa::new();
    let target = signal(0);
    // SAFETY: the signal is live.
    let value = unsafe { &raw mut (*target.as_ptr()).value };
    run(&hsa, &[packet(WRITE_DATA, &[TO_L2, low(value), high(value), 5, 0])]);
    wait_for(target, 5);
    destroy(&[target]);
}

#[test]
fn queues_can_be_destroyed_while_they_wait() {
    let hsa = Hsa::new();
    let memory = hsa.host_memory::<u64>(1);
    let wait = packet(WAIT_REG_MEM64, &[3 | IN_MEMORY, low(memory), high(memory), 1, 0, u32::MAX, 0, 4]);
    let commands = Commands::new(&hsa, &[wait]);
    let done = signal(1);
    let queue = Queue::new(hsa.gpu(), 64);
    queue.submit(&commands.packet(done));
    drop(queue);
    assert_eq!(load(done), 1);
    destroy(&[done]);
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
}

/// Also if the last ring of its doorbell, which several threads ring, was for one of the packets that ran before.
#[test]
fn a_queue_that_was_held_comes_to_what_it_was_rung_for() {
    passes_alone("a_queue_that_was_held_comes_to_what_it_was_rung_for", "gfx1100", || {
        let hsa = Hsa::new();
        let memory = hsa.host_memory::<u64>(2);
        let (runs, may_end) = (memory, memory.wrapping_add(1));
        let wait = packet(WAIT_REG_MEM64, &[3 | IN_MEMORY, low(may_end), high(may_end), 1, 0, u32::MAX, 0, 4]);
        let commands = Commands::new(&hsa, &[packet(WRITE_DATA, &[TO_L2, low(runs), high(runs), 1]), wait]);
        let (first, second) = (signal(1), signal(1));
        let queue = Queue::new(hsa.gpu(), 64);
        let ids = [queue.reserve(), queue.reserve()];
        queue.publish(ids[0], &commands.packet(first));
        queue.publish(ids[1], &barrier_and(&[], second));
        hsa_sim_hold(true);
        queue.ring(ids[1]);
        queue.ring(ids[0]);
        hsa_sim_hold(false);
        // SAFETY: memory of the host, which the commands write and read.
        while unsafe { runs.read_volatile() } == 0 {
            std::thread::yield_now();
        }
        hsa_sim_hold(true);
        // SAFETY: memory of the host, which the commands read.
        unsafe { may_end.write_volatile(1) };
        wait_for(first, 0);
        // It has time to see that it is held.
        (0..10_000).for_each(|_| std::thread::yield_now());
        hsa_sim_hold(false);
        wait_for(second, 0);
        drop(queue);
        destroy(&[first, second]);
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    });
}

#[test]
fn malformed_commands_stop_the_queue() {
    passes_alone("malformed_commands_stop_the_queue", "gfx1100,gfx1100", || {
        let mut hsa = Hsa::new();
        let invalid = HsaStatus::ERROR_INVALID_PACKET_FORMAT;
        let memory = hsa.host_memory::<u64>(2);
        let (lo, hi) = (low(memory), high(memory));
        let cases = [
            (vec![0], "packet of type 0"),
            (packet(SET_UCONFIG_REG, &[0, 0]), "SET_UCONFIG_REG: register 0xc000 is not a performance register"),
            (packet(0xab, &[0]), "opcode 0xab is not supported"),
            (vec![3 << 30 | 9 << 16 | WRITE_DATA << 8, 0], "WRITE_DATA of 11 dwords goes beyond the end"),
            (vec![3 << 30 | NOP << 8 | 1, 0], "NOP with bits 0x1"),
            (packet(WRITE_DATA, &[TO_L2, lo, hi]), "WRITE_DATA cannot have 4 dwords"),
            (packet(WRITE_DATA, &[TO_L2, lo + 2, hi, 0]), "not a multiple of 4"),
            (packet(WRITE_DATA, &[0, lo, hi, 0]), "WRITE_DATA to destination 0"),
            (packet(WRITE_DATA, &[TO_L2 | 1 << 16, lo, hi, 0]), "WRITE_DATA with bits 0x10000"),
            (packet(COPY_DATA, &[TO_L2 | 4, lo, hi, lo, hi]), "COPY_DATA from source 4"),
            (packet(COPY_DATA, &[TO_L2 | FROM_L2 | WIDE, lo + 4, hi, lo, hi]), "not a multiple of 8"),
            (packet(WAIT_REG_MEM64, &[7 | IN_MEMORY, lo, hi, 0, 0, 0, 0, 4]), "reserved function 7"),
            (packet(WAIT_REG_MEM64, &[3, lo, hi, 0, 0, 0, 0, 4]), "for a register"),
            (packet(WAIT_REG_MEM, &[3 | IN_MEMORY | 1 << 6, lo, hi, 0, 0, 4]), "operation 1"),
            (packet(RELEASE_MEM, &[0x14, 5 << 29, lo, hi, 0, 0, 0]), "RELEASE_MEM of data 5"),
            (packet(RELEASE_MEM, &[0x05, 1 << 29, lo, hi, 0, 0, 0]), "RELEASE_MEM at event 0x5"),
            (packet(EVENT_WRITE, &[0x2c]), "EVENT_WRITE of event 0x2c"),
            (packet(ACQUIRE_MEM, &[1, 2, 3, 4, 5, 6]), "of another GPU generation"),
            (packet(SET_SH_REG, &[0x3ff, 0, 0]), "leaves their range"),
            (packet(SET_SH_REG, &[0x214, 0]), "SET_SH_REG of 0x2e14, which is not a register of compute shaders"),
            (packet(SET_SH_REG, &[0x22d, 0]), "SET_SH_REG of 0x2e2d, which is not a register of compute shaders"),
            (packet(INDIRECT_BUFFER, &[lo, hi, 1 << 23]), "INDIRECT_BUFFER is not supported"),
            (packet(DISPATCH_DIRECT, &[1, 1, 1, 0]), "dispatch initiator 0x0"),
            (packet(DISPATCH_DIRECT, &[1, 1, 1, 1]), "needs register 0x2e0d"),
        ];
        for (command, text) in cases {
            refuse(&hsa, &[packet(NOP, &[0]), command], invalid, text);
        }
        hsa.handle_faults();
        let fault = HsaStatus::ERROR_MEMORY_FAULT;
        refuse(&hsa, &[packet(WRITE_DATA, &[TO_L2, 0x1000, 0, 1])], fault, "write of 4 bytes at 0x1000");
        let past = packet(COPY_DATA, &[TO_L2 | FROM_L2 | WIDE, lo + 16, hi, lo, hi]);
        hsa.gpus.rotate_left(1);
        refuse(&hsa, &[past], fault, "past the end of an allocation of 16 bytes");
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    });
}

#[test]
fn malformed_envelopes_stop_the_queue() {
    passes_alone("malformed_envelopes_stop_the_queue", "gfx1100", || {
        let hsa = Hsa::new();
        let commands = Commands::new(&hsa, &[packet(NOP, &[0])]);
        let good = commands.packet(HsaSignal::NULL);
        let with = |change: &dyn Fn(&mut AmdPm4IbPacket)| {
            let mut packet = good;
            change(&mut packet);
            packet
        };
        let cases: [(AmdPm4IbPacket, &str); 6] = [
            (with(&|packet| packet.dw_cnt_remain = 9), "9 remaining dwords"),
            (with(&|packet| packet.reserved[3] = 1), "reserved fields"),
            (with(&|packet| packet.ib_jump_command[0] = 0), "not an INDIRECT_BUFFER"),
            (with(&|packet| packet.ib_jump_command[3] = 2), "valid bit"),
            (with(&|packet| packet.ib_jump_command[3] = 1 << 23), "of no dwords"),
            (with(&|packet| packet.ib_jump_command[3] |= 1 << 20), "INDIRECT_BUFFER with bits 0x100000"),
        ];
        for (packet, text) in cases {
            let queue = Queue::new(hsa.gpu(), 64);
            queue.submit(&packet);
            assert_eq!(queue.wait_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT, "{text}");
            assert!(queue.fault().contains(text), "{}", queue.fault());
        }
        let queue = Queue::new(hsa.gpu(), 64);
        hsa.handle_faults();
        queue.submit(&with(&|packet| packet.ib_jump_command[1] += 4096));
        queue.wait_stopped(HsaStatus::ERROR_MEMORY_FAULT);
    });
}

#[test]
fn kernels_are_dispatched() {
    let hsa = Hsa::new();
    let kernel = load_code(hsa.gpu(), GFX11).unwrap();
    let out = hsa.host_memory::<u32>(256);
    let counts = hsa.host_memory::<u32>(3);
    let arguments = kernargs(&hsa, FillArgs { out, value: 5, count: 256 });
    let mut commands = registers(&kernel, "fill", arguments);
    commands.push(packet(DISPATCH_DIRECT, &[2, 1, 1, WAVE32]));
    commands.push(packet(EVENT_WRITE, &[7 | 4 << 8]));
    // A word that a kernel wrote can be copied, and be the next dispatch's size.
    let last = out.wrapping_add(127);
    commands.push(packet(COPY_DATA, &[TO_L2 | FROM_L2, low(last), high(last), low(counts), high(counts)]));
    run(&hsa, &commands);
    assert_eq!(read(out, 256), [(5..133).collect::<Vec<u32>>(), vec![0; 128]].concat());
    assert_eq!(read(counts, 1), [132]);

    let mut commands = registers(&kernel, "fill", arguments);
    commands.push(packet(WRITE_DATA, &[TO_L2, low(counts), high(counts), 4, 1, 1]));
    commands.push(packet(DISPATCH_INDIRECT, &[low(counts), high(counts), WAVE32]));
    commands.push(packet(EVENT_WRITE, &[7 | 4 << 8]));
    run(&hsa, &commands);
    assert_eq!(read(out, 256), (5..261).collect::<Vec<u32>>());
    for memory in [out.cast(), counts.cast(), arguments] {
        assert_eq!(free(memory), HsaStatus::SUCCESS);
    }
}

/// With strict memory: a kernel that is not waited for runs beside the commands behind it.
#[test]
fn dispatches_overlap_what_does_not_wait_for_them() {
    passes_alone("dispatches_overlap_what_does_not_wait_for_them", "gfx1100", || {
        // SAFETY: nothing else runs in this process while the runtime is down.
        unsafe { std::env::set_var("HSA_SIM_MEMORY", "strict") };
        let hsa = Hsa::new();
        let kernel = load_code(hsa.gpu(), GFX11).unwrap();
        let flag = hsa.host_memory::<u32>(1);
        let arguments = kernargs(&hsa, flag);
        let mut commands = registers(&kernel, "spin", arguments);
        commands.push(packet(DISPATCH_DIRECT, &[1, 1, 1, WAVE32]));
        commands.push(packet(WRITE_DATA, &[TO_L2, low(flag), high(flag), 1]));
        commands.push(packet(EVENT_WRITE, &[7 | 4 << 8]));
        run(&hsa, &commands);
        for memory in [flag.cast(), arguments] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}

/// With strict memory: a packet with commands reads them through the L2, whatever fence it has itself.
#[test]
fn commands_are_read_before_their_packet_acquires() {
    passes_alone("commands_are_read_before_their_packet_acquires", "gfx1100:hdp=trusted", || {
        // SAFETY: nothing else runs in this process while the runtime is down.
        unsafe { std::env::set_var("HSA_SIM_MEMORY", "strict") };
        let hsa = Hsa::new();
        let (queue, done, word) = (Queue::new(hsa.gpu(), 64), signal(0), hsa.host_memory::<u32>(1));
        let write = |value| [packet(WRITE_DATA, &[TO_L2, low(word), high(word), value])];
        for (owner, stale) in [(hsa.gpu(), 1), (hsa.cpu, 2)] {
            let flag = if owner == hsa.cpu { HSA_GLOBAL_FLAG_KERNARG } else { HSA_GLOBAL_FLAG_COARSE_GRAINED };
            let commands = Commands::in_pool(&hsa, hsa.pool(owner, flag), &write(1));
            let run = |acquire| {
                store(done, 1);
                let mut packet = commands.packet(done);
                let release = HsaFenceScope::SYSTEM;
                packet.header.header = PacketHeader::new(HsaPacketType::VENDOR_SPECIFIC, true, acquire, release);
                queue.submit(&packet);
                wait_for(done, 0);
                // SAFETY: the packet is complete.
                unsafe { word.read_volatile() }
            };
            assert_eq!(run(HsaFenceScope::NONE), 1);
            commands.rewrite(&write(2));
            assert_eq!(run(HsaFenceScope::SYSTEM), stale, "memory of {owner:?}");
            // That fence was behind them: now they are read anew.
            assert_eq!(run(HsaFenceScope::NONE), 2);
        }
        assert_eq!(free(word.cast()), HsaStatus::SUCCESS);
        destroy(&[done]);
    });
}

/// Each die's packet processor waits for its own part of a dispatch.
#[test]
fn nothing_waits_for_other_dies() {
    passes_alone("nothing_waits_for_other_dies", "gfx942", || {
        // SAFETY: nothing else runs in this process while the runtime is down.
        unsafe { std::env::set_var("HSA_SIM_MEMORY", "strict") };
        let hsa = Hsa::new();
        let kernel = load_code(hsa.gpu(), include_bytes!("kernels/kernels.gfx942.co")).unwrap();
        let flag = hsa.host_memory::<u32>(1);
        let arguments = kernargs(&hsa, flag);
        let mut commands = registers_of(&kernel, "spin", arguments, 0x22d);
        commands.push(packet(DISPATCH_DIRECT, &[1, 1, 1, 1 | 1 << 2]));
        commands.push(packet(EVENT_WRITE, &[7 | 4 << 8]));
        commands.push(packet(WRITE_DATA, &[TO_L2, low(flag), high(flag), 1]));
        run(&hsa, &commands);
        for memory in [flag.cast(), arguments] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn registers_must_be_the_kernels() {
    passes_alone("registers_must_be_the_kernels", "gfx1100", || {
        let hsa = Hsa::new();
        let kernel = load_code(hsa.gpu(), GFX11).unwrap();
        let out = hsa.host_memory::<u32>(64);
        let arguments = kernargs(&hsa, FillArgs { out, value: 5, count: 64 });
        let invalid = HsaStatus::ERROR_INVALID_PACKET_FORMAT;
        let refuse_with = |change: Vec<u32>, dispatch: [u32; 4], status, text| {
            let mut commands = registers(&kernel, "fill", arguments);
            commands.extend([change, packet(DISPATCH_DIRECT, &dispatch)]);
            refuse(&hsa, &commands, status, text);
        };
        let set = |offset, value| packet(SET_SH_REG, &[offset, value]);
        let one = [1, 1, 1, WAVE32];
        let code = HsaStatus::ERROR_INVALID_CODE_OBJECT;
        refuse_with(set(PGM_LO, 7), one, code, "no kernel of a frozen executable begins at");
        refuse_with(set(PGM_RSRC1, 7), one, invalid, "COMPUTE_PGM_RSRC1 to 3");
        refuse_with(set(START_X + 3, 2048), one, invalid, "workgroup size [2048, 1, 1]");
        refuse_with(set(START_X + 3, 1 << 16), one, invalid, "partial workgroups");
        refuse_with(set(START_X, 1), [1, 1, 1, 1 | 1 << 15], invalid, "starts at another workgroup");
        refuse_with(set(RESTART_X + 1, 1), one, invalid, "COMPUTE_RESTART_X");
        let text = "(dword 25, DISPATCH_DIRECT): the commands end, and none waits for the dispatches before it";
        refuse_with(packet(NOP, &[0]), [0, 1, 1, WAVE32], invalid, text);
        refuse_with(packet(NOP, &[0]), [1, 1, 1, 1 | 1 << 2], invalid, "another wave size");
        refuse_with(packet(NOP, &[0]), [1 << 30, 1, 1, WAVE32], invalid, "too large");
        hsa.handle_faults();
        refuse_with(set(USER_DATA_0 + 1, 0), one, HsaStatus::ERROR_MEMORY_FAULT, "kernel arguments at");
        assert_eq!(read(out, 64), [0; 64]);
        for memory in [out.cast(), arguments] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}
