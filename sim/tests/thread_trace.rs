// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Thread traces that commands program: contents of their buffers, and refused commands. Tests of
//! `sim/src/machine/product/thread_trace/tokens.rs` check the encoding of tokens.

mod common;

use common::code::*;
use common::pm4::*;
use common::*;
use hsa_abi::performance::*;
use hsa_abi::thread_trace::*;
use hsa_abi::*;

static GFX12: &[u8] = include_bytes!("kernels/kernels.gfx12-generic.co");
static GFX942: &[u8] = include_bytes!("kernels/kernels.gfx942.co");

// Opcodes, from the kernel driver's headers.
const PRED_EXEC: u32 = 0x23;
const WAIT_REG_MEM: u32 = 0x3c;
const COPY_DATA: u32 = 0x40;
const EVENT_WRITE: u32 = 0x46;
const SET_SH_REG: u32 = 0x76;
const SET_UCONFIG_REG: u32 = 0x79;

fn set(register: u32, value: u32) -> Vec<u32> {
    packet(SET_UCONFIG_REG, &[register - UCONFIG_REGISTERS.start, value])
}

fn trace_queue(is_on: bool) -> Vec<u32> {
    packet(SET_SH_REG, &[COMPUTE_THREAD_TRACE_ENABLE - SH_REGISTERS.start, u32::from(is_on)])
}

/// Command that waits until bits of a register have this value.
fn wait_register(register: u32, bits: u32, value: u32) -> Vec<u32> {
    packet(WAIT_REG_MEM, &[3, register, 0, value, bits, 4])
}

/// Generation of a GPU's trace registers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gfx9,
    Gfx11,
    Gfx12,
}

impl Kind {
    /// Restricts commands to shader engine 0 of the first die.
    fn first(self, commands: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let mut all = vec![set(GRBM_GFX_INDEX, INSTANCE_BROADCAST)];
        all.extend_from_slice(commands);
        if self == Self::Gfx9 {
            all.insert(0, packet(PRED_EXEC, &[1 << 24 | all.concat().len() as u32]));
        }
        all.push(set(GRBM_GFX_INDEX, BROADCAST));
        all
    }

    fn start(self, buffer: *const u32, pages: u32) -> Vec<Vec<u32>> {
        let page = (buffer.addr() as u64 / PAGE, pages);
        let (low, high) = (page.0 as u32, (page.0 >> 32) as u32);
        let mut commands = match self {
            Self::Gfx9 => self.first(&[
                set(gfx9::SQ_THREAD_TRACE_MASK, 0xf << 8),
                set(gfx9::SQ_THREAD_TRACE_TOKEN_MASK, 0xffff),
                set(gfx9::SQ_THREAD_TRACE_TOKEN_MASK2, u32::MAX),
                set(gfx9::SQ_THREAD_TRACE_BASE, low),
                set(gfx9::SQ_THREAD_TRACE_BASE2, high),
                set(gfx9::SQ_THREAD_TRACE_SIZE, pages),
                set(gfx9::SQ_THREAD_TRACE_CTRL, gfx9::RESET_BUFFER),
                set(gfx9::SQ_THREAD_TRACE_MODE, gfx9::MASK_CS_AND_AUTOFLUSH | gfx9::MODE_ON),
            ]),
            _ => {
                let buffer = match self {
                    Self::Gfx11 => vec![
                        set(gfx11::SQ_THREAD_TRACE_BUF0_SIZE, pages << 8 | high),
                        set(gfx11::SQ_THREAD_TRACE_BUF0_BASE, low),
                    ],
                    _ => vec![
                        set(gfx12::SQ_THREAD_TRACE_BUF0_SIZE, pages),
                        set(gfx12::SQ_THREAD_TRACE_BUF0_BASE_LO, low),
                        set(gfx12::SQ_THREAD_TRACE_BUF0_BASE_HI, high),
                    ],
                };
                let what = [
                    set(gfx11::SQ_THREAD_TRACE_MASK, gfx11::WTYPE_INCLUDE_CS),
                    set(gfx11::SQ_THREAD_TRACE_TOKEN_MASK, gfx11::REG_INCLUDE_COMP),
                    set(gfx11::SQ_THREAD_TRACE_CTRL, 1),
                ];
                self.first(&[&buffer[..], &what].concat())
            }
        };
        if self != Self::Gfx9 {
            commands.push(trace_queue(true));
        }
        commands
    }

    /// Commands that end the trace, and store pointer, status and lost tokens.
    fn stop(self, result: *const u32) -> Vec<Vec<u32>> {
        let registers = match self {
            Self::Gfx9 => [gfx9::SQ_THREAD_TRACE_WPTR, gfx9::SQ_THREAD_TRACE_STATUS, gfx9::SQ_THREAD_TRACE_CNTR],
            _ => [gfx11::SQ_THREAD_TRACE_WPTR, gfx11::SQ_THREAD_TRACE_STATUS2, gfx11::SQ_THREAD_TRACE_DROPPED_CNTR],
        };
        let mut commands = match self {
            Self::Gfx9 => vec![set(gfx9::SQ_THREAD_TRACE_MODE, gfx9::MASK_CS_AND_AUTOFLUSH)],
            _ => vec![
                trace_queue(false),
                packet(EVENT_WRITE, &[0x37]),
                wait_register(gfx11::SQ_THREAD_TRACE_STATUS, gfx11::FINISH_PENDING, 0),
                set(gfx11::SQ_THREAD_TRACE_CTRL, 0),
                wait_register(gfx11::SQ_THREAD_TRACE_STATUS, gfx11::BUSY, 0),
            ],
        };
        let copies = registers.into_iter().enumerate().map(|(number, register)| {
            let target = result.wrapping_add(number);
            packet(COPY_DATA, &[2 << 8 | 4, register, 0, low(target), high(target)])
        });
        commands.extend(self.first(&copies.collect::<Vec<_>>()));
        commands
    }

    /// Number of bytes written to a buffer, according to the pointer.
    fn written(self, pointer: u32, buffer: *const u32) -> u64 {
        let start = if self == Self::Gfx11 { buffer.addr() as u64 / BLOCK } else { 0 };
        u64::from(pointer.wrapping_sub(start as u32) & gfx11::OFFSET) * BLOCK
    }
}

fn run(hsa: &Hsa, queue: &Queue, commands: &[Vec<u32>]) {
    let flush = packet(EVENT_WRITE, &[7 | 4 << 8]);
    let (commands, done) = (Commands::new(hsa, &[commands, &[flush]].concat()), signal(1));
    queue.submit(&commands.packet(done));
    wait_for(done, 0);
    destroy(&[done]);
}

/// Each generation with its agent, code object and wave size.
const KINDS: [(usize, Kind, &[u8], u32); 3] =
    [(0, Kind::Gfx11, GFX11, 32), (1, Kind::Gfx9, GFX942, 64), (2, Kind::Gfx12, GFX12, 32)];

#[test]
fn traces_hold_what_ran_while_they_were_on() {
    passes_alone("traces_hold_what_ran_while_they_were_on", "gfx1100,gfx942,gfx1201", || {
        let hsa = Hsa::new();
        let pages = 4;
        let (buffer, result) = (hsa.host_memory::<u32>(pages as usize * 1024), hsa.host_memory::<u32>(3));
        let out = hsa.host_memory::<u32>(1 << 12);
        let arguments = kernargs(&hsa, FillArgs { out, value: 1, count: 1 << 12 });
        for (agent, kind, code, lanes) in KINDS {
            let gpu = hsa.gpus[agent];
            let (queue, other) = (Queue::new(gpu, 64), Queue::new(gpu, 64));
            let code = load_code(gpu, code).unwrap();
            let fill = |queue: &Queue, items: u32| {
                let done = signal(1);
                queue.submit(&KernelDispatchPacket {
                    grid_size: [items, 1, 1],
                    ..code.packet("fill", 1, arguments, done)
                });
                wait_for(done, 0);
                destroy(&[done]);
            };
            let length = |items: u32, while_on: &dyn Fn()| {
                // SAFETY: as many dwords, which no other code uses now.
                unsafe { buffer.write_bytes(0xee, pages as usize * 1024) };
                run(&hsa, &queue, &kind.start(buffer, pages));
                fill(&queue, items);
                while_on();
                assert_eq!(read(buffer, 1), [0xeeee_eeee], "tokens come when the trace ends");
                run(&hsa, &queue, &kind.stop(result));
                let [pointer, status, lost] = read(result, 3).try_into().unwrap();
                assert_eq!((status, lost), (0, 0));
                let length = kind.written(pointer, buffer);
                let words = read(buffer, pages as usize * 1024);
                assert!(words[0] != 0xeeee_eeee && words[length as usize / 4] == 0xeeee_eeee);
                length
            };
            // Of one wave, whose instructions are traced, and of more of them.
            let of_one = length(lanes, &|| {});
            assert!((64..256).contains(&of_one), "{of_one}");
            assert!(length(64, &|| {}) >= of_one);
            // Another queue's waves are traced up to gfx9 only, where no queue is asked.
            let with_other = length(lanes, &|| fill(&other, 4096));
            assert_eq!(with_other > of_one, kind == Kind::Gfx9, "{with_other} after {of_one}");
            // A kernel that runs while tracing is off is not in the next trace.
            fill(&queue, 4096);
            assert_eq!(length(lanes, &|| {}), of_one);
        }
        for memory in [buffer.cast(), result.cast(), out.cast(), arguments] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn full_buffers_say_so() {
    passes_alone("full_buffers_say_so", "gfx1100,gfx942,gfx1201", || {
        let hsa = Hsa::new();
        let (buffer, result) = (hsa.host_memory::<u32>(2048), hsa.host_memory::<u32>(3));
        let out = hsa.host_memory::<u32>(1 << 12);
        let arguments = kernargs(&hsa, FillArgs { out, value: 1, count: 1 << 12 });
        for (agent, kind, code, _) in KINDS {
            let gpu = hsa.gpus[agent];
            let (queue, code) = (Queue::new(gpu, 64), load_code(gpu, code).unwrap());
            // SAFETY: as many dwords, which no other code uses now.
            unsafe { buffer.write_bytes(0xee, 2048) };
            run(&hsa, &queue, &kind.start(buffer, 1));
            for _ in 0..100 {
                let done = signal(1);
                queue.submit(&KernelDispatchPacket {
                    grid_size: [1 << 12, 1, 1],
                    ..code.packet("fill", 1, arguments, done)
                });
                wait_for(done, 0);
                destroy(&[done]);
            }
            run(&hsa, &queue, &kind.stop(result));
            let [pointer, status, lost] = read(result, 3).try_into().unwrap();
            let full = if kind == Kind::Gfx9 { gfx9::FULL } else { gfx11::BUF0_FULL };
            assert!(status == full && lost > 0, "{status:#x} {lost}");
            assert_eq!(kind.written(pointer, buffer), PAGE);
            assert_eq!(read(buffer.wrapping_add(1024), 1024), [0xeeee_eeee; 1024], "what is behind it is untouched");
        }
        for memory in [buffer.cast(), result.cast(), out.cast(), arguments] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn what_traces_have_not_stops_the_queue() {
    passes_alone("what_traces_have_not_stops_the_queue", "gfx1100,gfx942,gfx1030", || {
        let hsa = Hsa::new();
        let memory = hsa.host_memory::<u32>(1);
        let copy = |register| packet(COPY_DATA, &[2 << 8 | 4, register, 0, low(memory), high(memory)]);
        let (gfx9, gfx11) = (gfx9::SQ_THREAD_TRACE_MODE, gfx11::SQ_THREAD_TRACE_CTRL);
        let cases = [
            (0, vec![set(gfx9, 0)], "register 0xc336 is not a performance register"),
            (1, vec![set(gfx11, 0)], "register 0xd9ec is not a performance register"),
            (2, vec![set(gfx11, 0)], "register 0xd9ec is not a performance register"),
            (0, vec![set(gfx11, 1)], "a thread trace begins that has no buffer"),
            (0, vec![set(gfx11::SQ_THREAD_TRACE_STATUS, 1)], "is only read"),
            (0, vec![set(GRBM_GFX_INDEX, 0), set(gfx11, 0)], "names a part of a shader engine"),
            (0, vec![copy(gfx11::SQ_THREAD_TRACE_WPTR)], "of several shader engines"),
            (0, vec![copy(gfx11)], "is only written"),
            (
                0,
                vec![wait_register(gfx11::SQ_THREAD_TRACE_STATUS, gfx11::BUSY, gfx11::BUSY)],
                "a wait for register 0xd9f4, which is 0x0 and stays so",
            ),
            (1, vec![packet(EVENT_WRITE, &[0x37])], "EVENT_WRITE of event 0x37"),
            (1, vec![set(gfx9::SQ_THREAD_TRACE_BASE2, 0x10)], "has 4 bits"),
            (1, vec![set(gfx9::SQ_THREAD_TRACE_SIZE, 1 << 22)], "has 22 bits"),
            (1, vec![set(gfx9::SQ_THREAD_TRACE_CTRL, 0)], "is set without RESET_BUFFER alone"),
            (0, vec![set(gfx11::SQ_THREAD_TRACE_BUF0_SIZE, 1 << 4)], "has other bits set"),
        ];
        for (agent, commands, text) in cases {
            let queue = Queue::new(hsa.gpus[agent], 64);
            let commands = Commands::new(&hsa, &commands);
            queue.submit(&commands.packet(HsaSignal::NULL));
            queue.wait_stopped(HsaStatus::ERROR_INVALID_PACKET_FORMAT);
            assert!(queue.fault().contains(text), "{} has no '{text}'", queue.fault());
            drop(queue);
            // The next one begins anew.
            run(&hsa, &Queue::new(hsa.gpus[agent], 64), &[set(GRBM_GFX_INDEX, BROADCAST)]);
        }
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    });
}
