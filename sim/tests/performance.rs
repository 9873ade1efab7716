// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Performance counters that commands program and read: numbers and places of waves, and refused commands.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use common::code::*;
use common::pm4::*;
use common::*;
use hsa_abi::performance::*;
use hsa_abi::*;
use hsa_runtime64::machine::lifecycle::machine;

static GFX12: &[u8] = include_bytes!("kernels/kernels.gfx12-generic.co");
static SHARED_GFX1100: &[u8] = include_bytes!("kernels/shared.gfx1100.co");
static SHARED_GFX1201: &[u8] = include_bytes!("kernels/shared.gfx1201.co");
static SHARED_GFX942: &[u8] = include_bytes!("kernels/shared.gfx942.co");
static GFX942: &[u8] = include_bytes!("kernels/kernels.gfx942.co");

// Opcodes, from the kernel driver's headers.
const PRED_EXEC: u32 = 0x23;
const COPY_DATA: u32 = 0x40;
const EVENT_WRITE: u32 = 0x46;
const SET_SH_REG: u32 = 0x76;
const SET_UCONFIG_REG: u32 = 0x79;

// These are the same for all generations that have them.
const BUSY_CYCLES: u32 = 3;
const WAVES: u32 = 4;
const WAVES_32: u32 = 5;
const WAVES_64: u32 = 6;

/// Layout of a GPU's counters.
#[derive(Clone, Copy)]
struct Kind {
    is_gfx9: bool,
    dies: u32,
    engines: u32,
    arrays: u32,
    processors: u32,
}

const GFX1100: Kind = Kind { is_gfx9: false, dies: 1, engines: 6, arrays: 2, processors: 4 };
const GFX942_KIND: Kind = Kind { is_gfx9: true, dies: 8, engines: 4, arrays: 1, processors: 1 };
const GFX1201: Kind = Kind { is_gfx9: false, dies: 1, engines: 4, arrays: 2, processors: 4 };

fn set(register: u32, value: u32) -> Vec<u32> {
    packet(SET_UCONFIG_REG, &[register - UCONFIG_REGISTERS.start, value])
}

fn flush() -> Vec<u32> {
    packet(EVENT_WRITE, &[7 | 4 << 8])
}

fn count_queue(is_on: bool) -> Vec<u32> {
    packet(SET_SH_REG, &[COMPUTE_PERFCOUNT_ENABLE - SH_REGISTERS.start, u32::from(is_on)])
}

impl Kind {
    fn start(self, events: &[u32]) -> Vec<Vec<u32>> {
        let mut commands = vec![flush(), set(GRBM_GFX_INDEX, BROADCAST), set(CP_PERFMON_CNTL, 0)];
        commands.push(if self.is_gfx9 { set(RLC_PERFMON_CLK_CNTL, 1) } else { set(SQ_PERFCOUNTER_CTRL2, 0x1_ffff) });
        for (number, event) in (0..).zip(events) {
            let (select, value) = if self.is_gfx9 { (number, 0x0f0f_f000 | event) } else { (2 * number, *event) };
            commands.push(set(SQ_PERFCOUNTER0_SELECT + select, value));
            if self.is_gfx9 {
                commands.push(set(SQ_PERFCOUNTER_MASK, u32::MAX));
            }
            commands.push(set(SQ_PERFCOUNTER_CTRL, 0x55));
        }
        commands.extend([count_queue(true), set(CP_PERFMON_CNTL, 0), set(CP_PERFMON_CNTL, 1), flush()]);
        commands
    }

    fn stop(self) -> Vec<Vec<u32>> {
        vec![set(GRBM_GFX_INDEX, BROADCAST), set(CP_PERFMON_CNTL, 2), flush()]
    }

    /// Values of `GRBM_GFX_INDEX` for each place, in the order of the results in memory.
    fn places(self) -> Vec<u32> {
        let at = |engine: u32, array: u32, processor: u32| match self.is_gfx9 {
            true => engine << 16 | 1 << 29 | 1 << 30,
            false => engine << 16 | array << 8 | processor << 2,
        };
        let (arrays, processors) = (0..self.arrays, 0..self.processors);
        let of = move |engine| {
            let processors = processors.clone();
            arrays.clone().flat_map(move |array| processors.clone().map(move |processor| at(engine, array, processor)))
        };
        (0..self.engines).flat_map(of).collect()
    }

    /// Copies the first `counters` counters of every place to `memory`, 64 bits each.
    fn read(self, counters: u32, memory: *mut u64) -> Vec<Vec<u32>> {
        let mut commands = vec![set(CP_PERFMON_CNTL, 1 | PERFMON_SAMPLE)];
        let mut at = memory;
        for die in 0..self.dies {
            let mut of_die = Vec::new();
            for counter in 0..counters {
                for place in self.places() {
                    of_die.extend(set(GRBM_GFX_INDEX, place));
                    for half in 0..if self.is_gfx9 { 2 } else { 1 } {
                        let target = at.wrapping_byte_add(4 * half as usize);
                        let source = SQ_PERFCOUNTER0_LO + 2 * counter + half;
                        of_die.extend(packet(COPY_DATA, &[2 << 8, source, 0, low(target), high(target)]));
                    }
                    at = at.wrapping_add(1);
                }
            }
            of_die.extend(set(GRBM_GFX_INDEX, BROADCAST));
            if self.is_gfx9 {
                commands.push(packet(PRED_EXEC, &[1 << (24 + die) | of_die.len() as u32]));
            }
            commands.push(of_die);
        }
        commands
    }

    /// Number of values of one counter.
    fn values(self) -> usize {
        (self.dies * self.engines * self.arrays * self.processors) as usize
    }
}

struct Bench<'a> {
    hsa: &'a Hsa,
    agent: HsaAgent,
    kind: Kind,
    queue: Queue,
    code: Executable,
    memory: *mut u64,
    arguments: *mut std::ffi::c_void,
    out: *mut u32,
}

impl<'a> Bench<'a> {
    fn new(hsa: &'a Hsa, agent: usize, kind: Kind, code: &[u8]) -> Self {
        let (memory, out) = (hsa.host_memory::<u64>(5 * kind.values()), hsa.host_memory::<u32>(1 << 12));
        let arguments = kernargs(hsa, FillArgs { out, value: 1, count: 1 << 12 });
        let agent = hsa.gpus[agent];
        Self {
            hsa,
            agent,
            kind,
            queue: Queue::new(agent, 64),
            code: load_code(agent, code).unwrap(),
            memory,
            arguments,
            out,
        }
    }

    fn run(&self, commands: &[Vec<u32>]) {
        let (commands, done) = (Commands::new(self.hsa, commands), signal(1));
        self.queue.submit(&commands.packet(done));
        wait_for(done, 0);
        destroy(&[done]);
    }

    /// Runs `items` work-items, in workgroups of 64, on `queue`.
    fn fill_on(&self, queue: &Queue, items: u32) {
        let done = signal(1);
        let packet =
            KernelDispatchPacket { grid_size: [items, 1, 1], ..self.code.packet("fill", 1, self.arguments, done) };
        queue.submit(&packet);
        wait_for(done, 0);
        destroy(&[done]);
    }

    /// Runs `transpose` of this code with 16 workgroups of 256 work-items.
    fn transpose(&self, code: &[u8]) {
        let (code, done) = (load_code(self.agent, code).unwrap(), signal(1));
        let arguments = kernargs(self.hsa, [self.out, self.out]);
        let packet = KernelDispatchPacket {
            workgroup_size: [256, 1, 1],
            grid_size: [1 << 12, 1, 1],
            ..code.packet("transpose", 1, arguments, done)
        };
        self.queue.submit(&packet);
        wait_for(done, 0);
        destroy(&[done]);
        assert_eq!(free(arguments), HsaStatus::SUCCESS);
    }

    /// Reads a counter of 64 bits in a die, at the place that `GRBM_GFX_INDEX` selects.
    fn read_one(&self, die: u32, index: u32, (low_word, high_word): (u32, Option<u32>)) -> u64 {
        let mut commands = set(GRBM_GFX_INDEX, index);
        for (word, register) in [(0, low_word), (4, high_word.unwrap())] {
            let target = self.memory.wrapping_byte_add(word);
            commands.extend(packet(COPY_DATA, &[2 << 8, register, 0, low(target), high(target)]));
        }
        commands.extend(set(GRBM_GFX_INDEX, BROADCAST));
        let of_die = packet(PRED_EXEC, &[1 << (24 + die) | commands.len() as u32]);
        self.run(&if self.kind.is_gfx9 { vec![of_die, commands] } else { vec![commands] });
        let words = read(self.memory.cast(), 2);
        u64::from(words[1]) << 32 | u64::from(words[0])
    }

    /// The values of each counter, by place.
    fn read(&self, counters: usize) -> Vec<Vec<u64>> {
        self.run(&self.kind.read(counters as u32, self.memory));
        let words = read(self.memory.cast(), 2 * counters * self.kind.values());
        let values: Vec<u64> = words.chunks(2).map(|words| u64::from(words[1]) << 32 | u64::from(words[0])).collect();
        // Dies one after another, each with all counters.
        let of_die = self.kind.values() / self.kind.dies as usize;
        let mut found = vec![Vec::new(); counters];
        for (number, values) in values.chunks(of_die).enumerate() {
            found[number % counters].extend(values);
        }
        found
    }

    fn end(self) {
        let Self { memory, arguments, out, .. } = self;
        for memory in [memory.cast(), arguments, out.cast()] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    }
}

#[test]
fn waves_are_counted_where_they_run() {
    passes_alone("waves_are_counted_where_they_run", "gfx1100,gfx942,gfx1201", || {
        let hsa = Hsa::new();
        // The waves of 13 workgroups, the last of which has 2 lanes, and of one of 40: of 32 lanes and of 64.
        for (agent, kind, code, waves) in
            [(0, GFX1100, GFX11, [25, 2]), (1, GFX942_KIND, GFX942, [13, 1]), (2, GFX1201, GFX12, [25, 2])]
        {
            let bench = Bench::new(&hsa, agent, kind, code);
            let before = machine().unwrap().counters.waves.load(Relaxed);
            bench.run(&kind.start(&[WAVES, BUSY_CYCLES]));
            assert_eq!(bench.read(2), [vec![0; kind.values()], vec![0; kind.values()]]);
            bench.fill_on(&bench.queue, 12 * 64 + 2);
            let [counted, busy] = bench.read(2).try_into().unwrap();
            assert_eq!(counted.iter().sum::<u64>(), waves[0]);
            assert_eq!(machine().unwrap().counters.waves.load(Relaxed) - before, waves[0]);
            assert_eq!(counted.iter().filter(|value| **value > 0).count(), 13, "{counted:?}");
            for (waves, cycles) in counted.iter().zip(&busy) {
                assert_eq!(*waves > 0, *cycles > 0, "{counted:?} {busy:?}");
            }
            // They go on, until they are stopped, and a start has them begin again.
            bench.fill_on(&bench.queue, 40);
            assert_eq!(bench.read(1)[0].iter().sum::<u64>(), waves[0] + waves[1]);
            bench.run(&kind.stop());
            bench.fill_on(&bench.queue, 40);
            bench.run(&[set(CP_PERFMON_CNTL, 2 | PERFMON_SAMPLE)]);
            bench.run(&kind.start(&[WAVES]));
            assert_eq!(bench.read(1)[0].iter().sum::<u64>(), 0);
            // Those of other queues do not count, nor this one's when it is no longer to.
            bench.fill_on(&Queue::new(hsa.gpus[agent], 64), 40);
            bench.run(&[count_queue(false)]);
            bench.fill_on(&bench.queue, 40);
            assert_eq!(bench.read(1)[0].iter().sum::<u64>(), 0);
            bench.end();
        }
    });
}

/// The expected numbers are those in the disassembly of two kernels without taken branches: vector and scalar ALU
/// instructions, scalar memory, LDS, and vector memory if there is a counter for it.
#[test]
fn instructions_are_counted_by_kind() {
    passes_alone("instructions_are_counted_by_kind", "gfx1100,gfx942", || {
        use PerfEvent::*;
        let hsa = Hsa::new();
        let of_gfx1100 = (Numbering::Gfx11, [GFX11, SHARED_GFX1100], [vec![7, 1, 2, 0], vec![13, 0, 1, 2]]);
        let of_gfx942 = (Numbering::Gfx940, [GFX942, SHARED_GFX942], [vec![5, 1, 2, 0, 1], vec![11, 0, 1, 2, 2]]);
        for (agent, kind, (numbering, [fill, shared], [of_fill, of_transpose]), lanes) in
            [(0, GFX1100, of_gfx1100, 32), (1, GFX942_KIND, of_gfx942, 64)]
        {
            let events = [InstsValu, InstsSalu, InstsSmem, InstsLds, InstsVmem];
            let events: Vec<u32> = events.into_iter().filter_map(|event| event.number(numbering)).collect();
            assert_eq!(events.len(), of_fill.len());
            let sums = |bench: &Bench, waves: u64| -> Vec<u64> {
                let sum = |values: Vec<u64>| values.iter().sum::<u64>() / waves;
                bench.read(events.len()).into_iter().map(sum).collect()
            };
            let bench = Bench::new(&hsa, agent, kind, fill);
            bench.run(&kind.start(&events));
            bench.fill_on(&bench.queue, 1 << 12);
            assert_eq!(sums(&bench, (1 << 12) / lanes), of_fill);
            // Where they run: two workgroups of two waves at the first places of gfx1100, and one at the others.
            if agent == 0 {
                let mut of_places = bench.read(1)[0].clone();
                of_places.sort_unstable();
                let (ones, twos) = of_places.split_at(32);
                assert!(ones.iter().all(|count| *count == 2 * 7) && twos.iter().all(|count| *count == 4 * 7));
            }
            bench.run(&kind.start(&events));
            assert_eq!(sums(&bench, 1), vec![0; events.len()]);
            bench.transpose(shared);
            assert_eq!(sums(&bench, (1 << 12) / lanes), of_transpose);
            bench.end();
        }
    });
}

/// The rows of `transpose` are 17 dwords long. LDS serves 32 lanes at a time, which store two rows of 16 or load two
/// columns. The first and the last of them access dwords 0 and 32 of these, which are in the same bank, so each of the
/// two accesses takes one more pass.
#[test]
fn passes_of_lds_are_counted() {
    passes_alone("passes_of_lds_are_counted", "gfx1100,gfx942,gfx1201", || {
        use PerfEvent::*;
        let hsa = Hsa::new();
        for (agent, kind, code, shared, numbering, events) in [
            (0, GFX1100, GFX11, SHARED_GFX1100, Numbering::Gfx11, [SqcLdsIdxActive, SqcLdsBankConflict]),
            (1, GFX942_KIND, GFX942, SHARED_GFX942, Numbering::Gfx940, [LdsIdxActive, LdsBankConflict]),
            (2, GFX1201, GFX12, SHARED_GFX1201, Numbering::Gfx12, [SqcLdsIdxActive, SqcLdsBankConflict]),
        ] {
            let bench = Bench::new(&hsa, agent, kind, code);
            bench.run(&kind.start(&events.map(|event| event.number(numbering).unwrap())));
            bench.transpose(shared);
            let [active, conflicts] = bench.read(2).try_into().unwrap();
            let sums = [active.iter().sum::<u64>(), conflicts.iter().sum()];
            assert_eq!(sums, [2 * 2, 2].map(|passes| passes * (1 << 12) / 32), "{:?}", numbering);
            // One of 16 workgroups in each place.
            assert_eq!(active.iter().filter(|value| **value == 4 * 256 / 32).count(), 16, "{active:?}");
            bench.end();
        }
    });
}

#[test]
fn waves_go_over_engines_first() {
    passes_alone("waves_go_over_engines_first", "gfx1100", || {
        let hsa = Hsa::new();
        let bench = Bench::new(&hsa, 0, GFX1100, GFX11);
        bench.run(&GFX1100.start(&[WAVES_32, WAVES_64]));
        bench.fill_on(&bench.queue, 7 * 64);
        let [narrow, wide] = bench.read(2).try_into().unwrap();
        // Places are engines of 8: the first processor of each, and the seventh workgroup in the first's second array.
        let mut expected = BTreeMap::from([0, 8, 16, 24, 32, 40].map(|place| (place, 2)));
        expected.insert(4, 2);
        let found: BTreeMap<_, _> = narrow.into_iter().enumerate().filter(|(_, value)| *value > 0).collect();
        assert_eq!(found, expected);
        assert_eq!(wide, [0; 48]);
        bench.end();
    });
}

/// The SPI block launches workgroups. It counts by shader engine, in 64 bits and with registers of its own.
#[test]
fn workgroups_are_counted_by_engine() {
    passes_alone("workgroups_are_counted_by_engine", "gfx1100,gfx942", || {
        let hsa = Hsa::new();
        for (agent, kind, code, numbering, generation) in [
            (0, GFX1100, GFX11, Numbering::Gfx11, Generation::Gfx11),
            (1, GFX942_KIND, GFX942, Numbering::Gfx940, Generation::Gfx9),
        ] {
            let bench = Bench::new(&hsa, agent, kind, code);
            let event = PerfEvent::Threadgroups.number(numbering).unwrap();
            // The last counter, whose registers are not beside the others'.
            let (select, result) = (Block::Spi.select(generation, 5), Block::Spi.result(generation, 5));
            let mut start = vec![set(GRBM_GFX_INDEX, BROADCAST), set(CP_PERFMON_CNTL, 0), set(select, event)];
            if kind.is_gfx9 {
                start.push(set(RLC_PERFMON_CLK_CNTL, 1));
            }
            start.extend([count_queue(true), set(CP_PERFMON_CNTL, 1)]);
            bench.run(&start);
            bench.fill_on(&bench.queue, 13 * 64 + 2);
            bench.run(&[set(CP_PERFMON_CNTL, 1 | PERFMON_SAMPLE)]);
            let places = (0..kind.dies).flat_map(|die| (0..kind.engines).map(move |engine| (die, engine)));
            let value =
                |(die, engine)| bench.read_one(die, engine << 16 | ARRAY_BROADCAST | INSTANCE_BROADCAST, result);
            let values: Vec<u64> = places.map(value).collect();
            // Fourteen go to six engines, or to eight dies of four.
            let expected = match agent {
                0 => vec![3, 3, 2, 2, 2, 2],
                _ => (0..32).map(|place| u64::from(place % 4 == 0 || place % 4 == 1 && place < 24)).collect(),
            };
            assert_eq!(values, expected);
            bench.end();
        }
    });
}

/// Stores and cache lines of `fill`, whose waves store 256 bytes each, and no loads. 40 workgroups run on 32 engines,
/// so that the first engine of each of the eight dies has two, in two compute units. Each unit counts its own
/// selection.
#[test]
fn accesses_are_counted_by_compute_unit() {
    passes_alone("accesses_are_counted_by_compute_unit", "gfx942", || {
        let hsa = Hsa::new();
        let bench = Bench::new(&hsa, 0, GFX942_KIND, GFX942);
        let number = |event: PerfEvent| event.number(Numbering::Gfx940).unwrap();
        // The last counter of each block.
        let counters = [(Block::Ta, 1, PerfEvent::FlatWriteWavefronts), (Block::Tcp, 3, PerfEvent::TotalCacheAccesses)];
        let start = |instances: u32, stages: u32| {
            let mut start = vec![set(GRBM_GFX_INDEX, BROADCAST), set(CP_PERFMON_CNTL, 0), set(RLC_PERFMON_CLK_CNTL, 1)];
            start.push(set(SQ_PERFCOUNTER_CTRL, stages));
            for (block, counter, event) in counters {
                start.push(set(block.select(Generation::Gfx9, counter), 0));
                for instance in 0..instances {
                    start.push(set(GRBM_GFX_INDEX, ENGINE_BROADCAST | ARRAY_BROADCAST | instance));
                    start.push(set(block.select(Generation::Gfx9, counter), number(event)));
                }
                start.push(set(GRBM_GFX_INDEX, BROADCAST));
            }
            start.extend([count_queue(true), set(CP_PERFMON_CNTL, 1)]);
            bench.run(&start);
            bench.fill_on(&bench.queue, 40 * 64);
            bench.run(&[set(CP_PERFMON_CNTL, 1 | PERFMON_SAMPLE)]);
            counters.map(|(block, counter, _)| {
                let result = block.result(Generation::Gfx9, counter);
                let value = |(die, engine, instance): (u32, u32, u32)| {
                    bench.read_one(die, engine << 16 | ARRAY_BROADCAST | instance, result)
                };
                [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (7, 0, 1), (7, 3, 0), (7, 3, 15)].map(value)
            })
        };
        let stores = [1, 1, 1, 0, 1, 1, 0];
        assert_eq!(start(16, CS_EN), [stores, stores.map(|count| 2 * count)]);
        // Of the first instances alone.
        let stores = [1, 0, 1, 0, 0, 1, 0];
        assert_eq!(start(1, CS_EN), [stores, stores.map(|count| 2 * count)]);
        assert_eq!(start(16, 0), [[0; 7]; 2]);
        bench.end();
    });
}

#[test]
fn what_is_not_set_up_does_not_count() {
    passes_alone("what_is_not_set_up_does_not_count", "gfx1100,gfx942", || {
        let hsa = Hsa::new();
        for (agent, kind, code, unset) in [
            (
                0,
                GFX1100,
                GFX11,
                &[SQ_PERFCOUNTER_CTRL, SQ_PERFCOUNTER_CTRL2, SQ_PERFCOUNTER0_SELECT, CP_PERFMON_CNTL][..],
            ),
            (1, GFX942_KIND, GFX942, &[SQ_PERFCOUNTER_CTRL, SQ_PERFCOUNTER_MASK, RLC_PERFMON_CLK_CNTL]),
        ] {
            let bench = Bench::new(&hsa, agent, kind, code);
            for &register in unset {
                bench.run(&kind.start(&[WAVES]));
                bench.run(&[set(register, 0)]);
                bench.fill_on(&bench.queue, 64);
                assert_eq!(bench.read(1)[0].iter().sum::<u64>(), 0, "{register:#x}");
            }
            bench.end();
        }
    });
}

#[test]
fn unknown_registers_and_events_stop_the_queue() {
    passes_alone("unknown_registers_and_events_stop_the_queue", "gfx1100,gfx942,gfx1250", || {
        let hsa = Hsa::new();
        let memory = hsa.host_memory::<u32>(1);
        let copy = |register| packet(COPY_DATA, &[2 << 8 | 4, register, 0, low(memory), high(memory)]);
        let wide = packet(COPY_DATA, &[2 << 8 | 1 << 16, SQ_PERFCOUNTER0_LO, 0, low(memory), high(memory)]);
        let cases = [
            (0, vec![set(0xd000, 1)], "SET_UCONFIG_REG: register 0xd000 is not a performance register of Gfx11"),
            (0, vec![set(SQ_PERFCOUNTER_MASK, 1)], "register 0xd9e1 is not a performance register"),
            (0, vec![set(SQ_PERFCOUNTER0_LO, 1)], "register 0xd1c0 is only read"),
            (0, vec![set(SQ_PERFCOUNTER0_SELECT + 2, 77)], "SQ_PERFCOUNTER2_SELECT 0x0000004d (event 77)"),
            (0, vec![set(SQ_PERFCOUNTER0_SELECT, 4 | 1 << 20)], "SQ_PERFCOUNTER0_SELECT 0x00100004"),
            (0, vec![set(SPI_PERFCOUNTER0_SELECT, 4)], "SPI_PERFCOUNTER0_SELECT 0x00000004 (event 4)"),
            (0, vec![set(SPI_PERFCOUNTER0_SELECT, 46 | 1 << 10)], "SPI_PERFCOUNTER0_SELECT 0x0000042e"),
            (0, vec![set(SPI_PERFCOUNTER0_SELECT + 4, 46)], "register 0xd984 is not a performance register"),
            (0, vec![set(CP_PERFMON_CNTL, 3)], "CP_PERFMON_CNTL 0x3"),
            (0, vec![set(GRBM_GFX_INDEX, 0), set(SQ_PERFCOUNTER_CTRL, 1)], "written for a part of a die"),
            (0, vec![packet(SET_UCONFIG_REG, &[0x3fff, 0, 0])], "leaves their range"),
            (0, vec![packet(PRED_EXEC, &[1 << 24])], "PRED_EXEC is not supported"),
            (0, vec![copy(SQ_PERFCOUNTER0_LO)], "0xe0000000 names none of 6 shader engines"),
            (0, vec![set(GRBM_GFX_INDEX, 6 << 16), copy(SQ_PERFCOUNTER0_LO)], "none of 6 shader engines"),
            (0, vec![set(GRBM_GFX_INDEX, 2 << 8), copy(SQ_PERFCOUNTER0_LO)], "none of 2 shader arrays"),
            (0, vec![set(GRBM_GFX_INDEX, 4 << 2), copy(SQ_PERFCOUNTER0_LO)], "none of 4 work-group processors"),
            (0, vec![copy(SQ_PERFCOUNTER0_LO + 1)], "register 0xd1c1 is not a performance register"),
            (0, vec![copy(CP_PERFMON_CNTL)], "COPY_DATA: register 0xd808 is only written"),
            (0, vec![wide], "COPY_DATA from source 0"),
            (1, vec![set(SQ_PERFCOUNTER0_SELECT, 0x0f0f_f005)], "event 5"),
            (1, vec![set(SQ_PERFCOUNTER0_SELECT, 4)], "event 4"),
            (1, vec![set(GRBM_GFX_INDEX, 0), copy(SQ_PERFCOUNTER0_LO)], "from several dies to one place"),
            (1, vec![set(TA_PERFCOUNTER0_SELECT, 52 | 1 << 8)], "TA_PERFCOUNTER0_SELECT 0x00000134"),
            (1, vec![set(TCP_PERFCOUNTER0_SELECT + 5, 4)], "TCP_PERFCOUNTER3_SELECT 0x00000004 (event 4)"),
            (1, vec![set(TCP_PERFCOUNTER0_SELECT + 3, 60)], "register 0xdb43 is not a performance register"),
            (1, vec![set(GRBM_GFX_INDEX, 5 << 29 | 16), set(TA_PERFCOUNTER0_SELECT, 52)], "names none of 16 instances"),
            (
                1,
                vec![set(GRBM_GFX_INDEX, 1 << 29), set(TA_PERFCOUNTER0_SELECT, 52)],
                "none of 16 instances in all shader",
            ),
            (0, vec![set(TA_PERFCOUNTER0_SELECT, 52)], "register 0xdac0 is not a performance register of Gfx11"),
            (2, vec![set(GRBM_GFX_INDEX, 0)], "this GPU's performance registers are not known"),
        ];
        for (agent, commands, text) in cases {
            let queue = Queue::new(hsa.gpus[agent], 64);
            let commands = Commands::new(&hsa, &commands);
            queue.submit(&commands.packet(HsaSignal::NULL));
            queue.wait_stopped(HsaStatus::ERROR_INVALID_PACKET_FORMAT);
            assert!(queue.fault().contains(text), "{} has no '{text}'", queue.fault());
            drop(queue);
            // The next one begins anew.
            let again = Queue::new(hsa.gpus[agent], 64);
            let reset = match agent {
                2 => vec![],
                _ => vec![set(GRBM_GFX_INDEX, BROADCAST)],
            };
            let done = signal(1);
            let commands = Commands::new(&hsa, &[reset, vec![flush()]].concat());
            again.submit(&commands.packet(done));
            wait_for(done, 0);
            destroy(&[done]);
        }
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    });
}
