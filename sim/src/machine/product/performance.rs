// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Performance counters of a GPU, which the commands of ROCm's aqlprofile program and read: SQ for waves, busy cycles,
//! kinds of instructions and LDS; SPI for workgroups; on gfx9 also TA and TCP for loads, stores and cache lines.
//!
//! * SQ before gfx11: counters of 64 bits in each shader engine.
//! * SQ from gfx11 on: counters of 32 bits in each work-group processor. Only even select registers choose the event.
//! * SPI: counters of 64 bits in each shader engine. On hardware they count compute pipe 0, here all work.
//! * TA and TCP: counters of 64 bits in each compute unit, each with select registers of its own.
//!
//! Every die has registers of its own. `PRED_EXEC` selects the dies that commands write and read.
//!
//! Counting requires the same register settings as on hardware. Workgroups are placed round robin: first over the dies,
//! shader engines and shader arrays, then over the processors of each. A kernel's waves and instructions count when it
//! ends. The engines and processors that ran any of them were busy for the kernel's whole run time.

use std::ops::Range;

use hsa_abi::KernelDispatchPacket;
use hsa_abi::performance::*;
use parking_lot::Mutex;
use sim_wave::{Kind, TakeTally, Tally};

use crate::machine::product::gpu::Gpu;
use crate::machine::product::workgroup_placement::{Queues, groups, items_of_groups, number_of, round_robin};

/// Number of select registers of the SQ block, and of its 32-bit result registers.
const SELECTS: u32 = 16;
const RESULTS: u32 = 32;

/// Value of `GRBM_GFX_INDEX` for an instance in all shader engines.
const ALL_ENGINES: u32 = ENGINE_BROADCAST | ARRAY_BROADCAST;

/// Event number of a select register that counts nothing.
const NONE: u32 = 0;

/// Layout of the counters.
#[derive(Clone, Copy, Debug)]
struct Plan {
    generation: Generation,
    numbering: Numbering,
    dies: usize,
    /// Shader engines of a die.
    engines: usize,
    /// Shader arrays of an engine with counters of their own; 1 if all arrays share the engine's.
    arrays: usize,
    /// Work-group processors of an array with counters of their own; on gfx9 compute units of an engine.
    processors: usize,
    /// Number of these places that workgroups run at.
    in_use: usize,
    clock_mhz: u64,
}

/// Counts of one place.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    workgroups: u64,
    waves_32: u64,
    waves_64: u64,
    busy_cycles: u64,
    instructions: Tally,
}

impl Counts {
    fn of(&self, event: Option<PerfEvent>) -> u64 {
        match event {
            None => 0,
            Some(PerfEvent::Threadgroups) => self.workgroups,
            Some(PerfEvent::BusyCycles) => self.busy_cycles,
            Some(PerfEvent::Waves) => self.waves_32 + self.waves_64,
            Some(PerfEvent::Waves32) => self.waves_32,
            Some(PerfEvent::Waves64) => self.waves_64,
            Some(event) => kind_of(event).map_or(0, |kind| self.instructions[kind as usize]),
        }
    }
}

/// Kind of instruction that an event counts, if any.
fn kind_of(event: PerfEvent) -> Option<Kind> {
    match event {
        PerfEvent::InstsValu => Some(Kind::Valu),
        PerfEvent::InstsSalu => Some(Kind::Salu),
        PerfEvent::InstsSmem => Some(Kind::Smem),
        PerfEvent::InstsLds => Some(Kind::Lds),
        PerfEvent::InstsVmem => Some(Kind::Vmem),
        PerfEvent::LdsIdxActive | PerfEvent::SqcLdsIdxActive => Some(Kind::LdsPasses),
        PerfEvent::LdsBankConflict | PerfEvent::SqcLdsBankConflict => Some(Kind::LdsConflicts),
        PerfEvent::FlatReadWavefronts => Some(Kind::FlatReads),
        PerfEvent::FlatWriteWavefronts => Some(Kind::FlatWrites),
        PerfEvent::BufferReadWavefronts => Some(Kind::BufferReads),
        PerfEvent::BufferWriteWavefronts => Some(Kind::BufferWrites),
        PerfEvent::TotalCacheAccesses => Some(Kind::Lines),
        _ => None,
    }
}

/// Tallies of a dispatch's instructions, by workgroup.
#[derive(Debug, Default)]
pub struct Instructions(Mutex<Vec<([u32; 3], Tally)>>);

impl TakeTally for Instructions {
    fn take(&self, workgroup: [u32; 3], tally: &Tally) {
        self.0.lock().push((workgroup, *tally));
    }
}

/// Registers and counters of a die.
#[derive(Clone, Debug, Default)]
struct Die {
    index: u32,
    control: u32,
    stages: u32,
    mask: u32,
    force: u32,
    clock: u32,
    selects: [u32; SELECTS as usize],
    spi_selects: [u32; Block::Spi.counters() as usize],
    ta_selects: [[u32; Block::Ta.counters() as usize]; Block::Ta.instances() as usize],
    tcp_selects: [[u32; Block::Tcp.counters() as usize]; Block::Tcp.instances() as usize],
    counts: Vec<Counts>,
    /// Counts at the last sample.
    sampled: Vec<Counts>,
}

/// Performance counters of an agent.
#[derive(Debug)]
pub struct Performance {
    /// Layout; `None` if the GPU's counters are unknown.
    plan: Option<Plan>,
    dies: Mutex<Vec<Die>>,
    /// Queues whose kernels count.
    pub queues: Queues,
}

impl Plan {
    fn new(gpu: &Gpu) -> Option<Self> {
        let target = gpu.target;
        let (generation, numbering) = (Generation::of(target.name)?, Numbering::of(target.name)?);
        let (dies, engines) = (gpu.xcc as usize, (target.shader_engines / target.xcc) as usize);
        let (arrays, processors) = match generation {
            Generation::Gfx9 => (1, Block::Tcp.instances() as usize),
            Generation::Gfx10 => (1, 1),
            Generation::Gfx11 | Generation::Gfx12 => {
                let arrays = target.shader_arrays as usize;
                (arrays, (gpu.compute_units as usize / 2).div_ceil(engines * arrays).max(1))
            }
        };
        let places = dies * engines * arrays * processors;
        let units = gpu.compute_units as usize / if generation == Generation::Gfx9 { 1 } else { 2 };
        let in_use = places.min(units.max(1));
        let clock_mhz = target.clock_mhz.into();
        Some(Self { generation, numbering, dies, engines, arrays, processors, in_use, clock_mhz })
    }

    /// Number of places in a die.
    fn places(&self) -> usize {
        self.engines * self.arrays * self.processors
    }

    /// Die of the `number`-th workgroup, and its place in the die.
    fn place_of(&self, number: usize) -> (usize, usize) {
        let ([die, engine, array, processor], _) =
            round_robin(number, self.in_use, [self.dies, self.engines, self.arrays]);
        (die, (engine * self.arrays + array) * self.processors + processor)
    }

    /// True if all places of an engine share the block's counters.
    fn is_of_engine(&self, block: Block) -> bool {
        match block {
            Block::Spi => true,
            Block::Sq => self.generation < Generation::Gfx11,
            Block::Ta | Block::Tcp => false,
        }
    }

    /// Place in a die whose SQ counters count for this one.
    fn place_of_sq(&self, place: usize) -> usize {
        if self.is_of_engine(Block::Sq) { place - place % (self.arrays * self.processors) } else { place }
    }

    /// Places in a die that `GRBM_GFX_INDEX` selects for reading a counter of a block.
    fn places_at(&self, block: Block, index: u32) -> Result<Range<usize>, String> {
        let of = |name: &str, broadcast: u32, value: u32, count: usize| {
            if index & broadcast == 0 && (value as usize) < count {
                return Ok(value as usize);
            }
            if index & broadcast != 0 && count == 1 {
                return Ok(0);
            }
            Err(format!("GRBM_GFX_INDEX {index:#010x} names none of {count} {name}"))
        };
        let engine = of("shader engines", ENGINE_BROADCAST, index >> 16 & 0xff, self.engines)?;
        let of_engine = self.arrays * self.processors;
        if self.is_of_engine(block) {
            let parts = INSTANCE_BROADCAST | ARRAY_BROADCAST;
            if block == Block::Spi && index & parts != parts {
                return Err(format!("GRBM_GFX_INDEX {index:#010x} names a part of a shader engine, which has one SPI"));
            }
            return Ok(engine * of_engine..(engine + 1) * of_engine);
        }
        let array = of("shader arrays", ARRAY_BROADCAST, index >> 8 & 0xff, self.arrays)?;
        let processor = match block {
            Block::Ta | Block::Tcp => of("instances", INSTANCE_BROADCAST, index & 0xff, self.processors)?,
            // Instances of a work-group processor are in the lower two bits.
            _ => of("work-group processors", INSTANCE_BROADCAST, (index & 0xff) >> 2, self.processors)?,
        };
        let place = (engine * self.arrays + array) * self.processors + processor;
        Ok(place..place + 1)
    }

    /// Meaning of a register that commands may write, or of a result register.
    fn register(&self, register: u32) -> Result<Register, String> {
        let offset = |first: u32, count: u32| register.checked_sub(first).filter(|offset| *offset < count);
        if let Some(number) = offset(SQ_PERFCOUNTER0_SELECT, SELECTS) {
            return Ok(Register::Select(Block::Sq, number as usize));
        }
        let is_gfx9 = self.generation == Generation::Gfx9;
        for block in [Block::Spi, Block::Ta, Block::Tcp].into_iter().filter(|block| is_gfx9 || *block == Block::Spi) {
            for number in 0..block.counters() {
                if block.select(self.generation, number) == register {
                    return Ok(Register::Select(block, number as usize));
                }
                let (low, high) = block.result(self.generation, number);
                if register == low || Some(register) == high {
                    return Ok(Register::Result { block, select: number as usize, high: register != low });
                }
            }
        }
        if let Some(number) = offset(SQ_PERFCOUNTER0_LO, RESULTS) {
            // From gfx11 on there are half as many, and only their lower words.
            let (counter, high) = (number / 2, number % 2 == 1);
            if self.generation < Generation::Gfx11 {
                return Ok(Register::Result { block: Block::Sq, select: counter as usize, high });
            }
            if !high && counter < SELECTS / 2 {
                return Ok(Register::Result { block: Block::Sq, select: 2 * counter as usize, high });
            }
        }
        match register {
            GRBM_GFX_INDEX => Ok(Register::Index),
            CP_PERFMON_CNTL => Ok(Register::Control),
            SQ_PERFCOUNTER_CTRL => Ok(Register::Stages),
            SQ_PERFCOUNTER_CTRL2 => Ok(Register::Force),
            SQ_PERFCOUNTER_MASK if self.generation == Generation::Gfx9 => Ok(Register::Mask),
            RLC_PERFMON_CLK_CNTL if self.generation == Generation::Gfx9 => Ok(Register::Clock),
            _ => Err(format!("register {register:#x} is not a performance register of {:?}", self.generation)),
        }
    }

    /// Checks that the selected event is supported.
    fn check_select(&self, block: Block, number: usize, value: u32) -> Result<(), String> {
        // gfx9: all SIMD units; all banks and clients of the scalar cache.
        let (known, wanted) = match (block, self.generation) {
            (Block::Spi | Block::Ta | Block::Tcp, _) => (block.perf_sel(), 0),
            (Block::Sq, Generation::Gfx9) => (block.perf_sel() | 0xff << 12 | 0xf << 24, 0xf << 24),
            (Block::Sq, _) => (block.perf_sel() | 0xf << 12, 0),
        };
        let event = value & block.perf_sel();
        let is_known = event == NONE || self.event(block, value).is_some() && value & wanted == wanted;
        if is_known && value & !known == 0 {
            return Ok(());
        }
        Err(format!("{}_PERFCOUNTER{number}_SELECT {value:#010x} (event {event}) is not supported", block.name()))
    }

    /// Event that a select register chooses.
    fn event(&self, block: Block, select: u32) -> Option<PerfEvent> {
        PerfEvent::of(block, select & block.perf_sel(), self.numbering).filter(|event| event.is_documented())
    }

    /// True if a block counts kernels that end now.
    fn counts(&self, block: Block, die: &Die) -> bool {
        let has_clock = self.generation != Generation::Gfx9 || die.clock & 1 != 0;
        let is_on = match (block, self.generation) {
            (Block::Spi, _) => true,
            (Block::Ta | Block::Tcp, _) => die.stages & CS_EN != 0,
            (Block::Sq, Generation::Gfx9) => die.mask != 0 && die.stages & CS_EN != 0,
            (Block::Sq, Generation::Gfx10) => die.stages & CS_EN != 0,
            (Block::Sq, Generation::Gfx11 | Generation::Gfx12) => die.force & FORCE_EN != 0 && die.stages & CS_EN != 0,
        };
        is_on && has_clock && die.control & PERFMON_STATE == PERFMON_START
    }
}

/// Instances of a block that `GRBM_GFX_INDEX` selects for writing, in all engines.
fn instances_at(block: Block, index: u32) -> Result<Range<usize>, String> {
    let (instance, instances) = ((index & 0xff) as usize, block.instances() as usize);
    match index & BROADCAST {
        BROADCAST => Ok(0..instances),
        ALL_ENGINES if instance < instances => Ok(instance..instance + 1),
        _ => Err(format!("GRBM_GFX_INDEX {index:#010x} names none of {instances} instances in all shader engines")),
    }
}

/// Meaning of a register.
enum Register {
    Index,
    Control,
    Stages,
    Mask,
    Force,
    Clock,
    Select(Block, usize),
    Result { block: Block, select: usize, high: bool },
}

impl Performance {
    /// Creates the counters of a GPU; the CPU has none.
    pub fn new(gpu: Option<&Gpu>) -> Self {
        let plan = gpu.and_then(Plan::new);
        let die = |plan: &Plan| {
            let none = vec![Counts::default(); plan.places()];
            Die { index: BROADCAST, counts: none.clone(), sampled: none, ..Die::default() }
        };
        Self {
            plan,
            dies: Mutex::new(plan.map(|plan| vec![die(&plan); plan.dies]).unwrap_or_default()),
            queues: Queues::default(),
        }
    }

    fn plan(&self) -> Result<&Plan, String> {
        self.plan.as_ref().ok_or_else(|| "this GPU's performance registers are not known".to_owned())
    }

    /// Writes a register of the dies whose bits are set in `selected`.
    pub fn write(&self, selected: u32, register: u32, value: u32) -> Result<(), String> {
        let plan = self.plan()?;
        let kind = plan.register(register)?;
        let mut dies = self.dies.lock();
        for (_, die) in dies.iter_mut().enumerate().filter(|(number, _)| selected >> number & 1 != 0) {
            let is_whole = die.index & BROADCAST == BROADCAST || matches!(kind, Register::Index | Register::Control);
            if !is_whole && !matches!(kind, Register::Select(Block::Ta | Block::Tcp, _)) {
                return Err(format!(
                    "register {register:#x} is written for a part of a die, GRBM_GFX_INDEX being {:#x}",
                    die.index
                ));
            }
            match kind {
                Register::Index => die.index = value,
                Register::Control => die.set_control(value)?,
                Register::Stages => die.stages = value,
                Register::Mask => die.mask = value,
                Register::Force => die.force = value,
                Register::Clock => die.clock = value,
                Register::Select(block, number) => {
                    plan.check_select(block, number, value)?;
                    for instance in instances_at(block, die.index)? {
                        *die.select_mut(block, instance, number) = value;
                    }
                }
                Register::Result { .. } => return Err(format!("register {register:#x} is only read")),
            }
        }
        Ok(())
    }

    /// Reads a result register of the die whose bit is set in `selected`.
    pub fn read(&self, selected: u32, register: u32) -> Result<u32, String> {
        let plan = self.plan()?;
        let Register::Result { block, select, high } = plan.register(register)? else {
            return Err(format!("register {register:#x} is only written"));
        };
        let dies = self.dies.lock();
        let mut of = dies.iter().enumerate().filter(|(number, _)| selected >> number & 1 != 0);
        let (Some((_, die)), None) = (of.next(), of.next()) else {
            return Err(format!("register {register:#x} is read from several dies to one place, without PRED_EXEC"));
        };
        let places = plan.places_at(block, die.index)?;
        let instance = if block.instances() > 1 { places.start % plan.processors } else { 0 };
        let event = plan.event(block, die.selects(block)[instance * block.counters() as usize + select]);
        let value: u64 = die.sampled[places].iter().map(|counts| counts.of(event)).sum();
        Ok(if high { (value >> 32) as u32 } else { value as u32 })
    }

    /// Layout, if kernels of a queue count.
    fn plan_for(&self, queue: u64) -> Option<&Plan> {
        self.plan.as_ref().filter(|_| self.queues.has(queue))
    }

    /// True if instructions of a queue's kernels must be counted.
    pub fn wants_instructions(&self, queue: u64) -> bool {
        let Some(plan) = self.plan_for(queue) else { return false };
        let dies = self.dies.lock();
        dies.iter().any(|die| {
            let counting = Block::ALL.into_iter().filter(|block| plan.counts(*block, die));
            let mut events =
                counting.flat_map(|block| die.selects(block).iter().map(move |select| plan.event(block, *select)));
            events.any(|event| event.and_then(kind_of).is_some())
        })
    }

    /// Adds a completed kernel of a queue, with its run time and wave size, and with its instructions if they were
    /// counted.
    pub fn add(
        &self,
        queue: u64,
        packet: &KernelDispatchPacket,
        lanes: u32,
        nanoseconds: u64,
        instructions: Option<&Instructions>,
    ) {
        let Some(plan) = self.plan_for(queue) else { return };
        let mut dies = self.dies.lock();
        let counting_in = |block| dies.iter().map(|die| plan.counts(block, die)).collect::<Vec<_>>();
        let (counting, launching, accessing) =
            (counting_in(Block::Sq), counting_in(Block::Spi), counting_in(Block::Tcp));
        if ![&counting, &launching, &accessing].into_iter().flatten().any(|counts| *counts) {
            return;
        }
        let mut was_busy = vec![vec![false; plan.places()]; plan.dies];
        for (number, items) in items_of_groups(packet).enumerate() {
            let (die, place) = plan.place_of(number);
            let counts = &mut dies[die].counts[place];
            counts.workgroups += u64::from(launching[die]);
            if counting[die] {
                *if lanes == 32 { &mut counts.waves_32 } else { &mut counts.waves_64 } +=
                    u64::from(items.div_ceil(lanes));
                was_busy[die][plan.place_of_sq(place)] = true;
            }
        }
        let groups = groups(packet);
        for (workgroup, tally) in instructions.iter().flat_map(|instructions| instructions.0.lock().clone()) {
            let (die, place) = plan.place_of(number_of(groups, workgroup));
            let counts = &mut dies[die].counts[place].instructions;
            for (kind, (sum, count)) in counts.iter_mut().zip(tally).enumerate() {
                // TA and TCP count from here on.
                let is_counted = if kind < Kind::FlatReads as usize { counting[die] } else { accessing[die] };
                *sum += if is_counted { count } else { 0 };
            }
        }
        let cycles = nanoseconds * plan.clock_mhz / 1000;
        for (die, places) in dies.iter_mut().zip(was_busy) {
            for (counts, _) in die.counts.iter_mut().zip(places).filter(|(_, was_busy)| *was_busy) {
                counts.busy_cycles += cycles;
            }
        }
    }
}

impl Die {
    fn selects(&self, block: Block) -> &[u32] {
        match block {
            Block::Sq => &self.selects,
            Block::Spi => &self.spi_selects,
            Block::Ta => self.ta_selects.as_flattened(),
            Block::Tcp => self.tcp_selects.as_flattened(),
        }
    }

    fn select_mut(&mut self, block: Block, instance: usize, number: usize) -> &mut u32 {
        match block {
            Block::Sq => &mut self.selects[number],
            Block::Spi => &mut self.spi_selects[number],
            Block::Ta => &mut self.ta_selects[instance][number],
            Block::Tcp => &mut self.tcp_selects[instance][number],
        }
    }

    fn set_control(&mut self, value: u32) -> Result<(), String> {
        if value & !(PERFMON_STATE | PERFMON_SAMPLE) != 0 || value & PERFMON_STATE > PERFMON_STOP {
            return Err(format!("CP_PERFMON_CNTL {value:#x} is not supported"));
        }
        self.control = value;
        if value & PERFMON_STATE == PERFMON_RESET {
            self.counts.fill(Counts::default());
        }
        if value & PERFMON_SAMPLE != 0 {
            self.sampled.clone_from(&self.counts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::product::gpu;

    #[test]
    fn workgroups_go_over_engines_first_and_over_no_more_than_there_are() {
        let plan = |list: &str| Plan::new(&gpu::parse(list).unwrap()[0]).unwrap();
        let gfx1100 = plan("gfx1100");
        assert_eq!((gfx1100.places(), gfx1100.in_use), (48, 48));
        // Places are by engine, then array, then processor.
        assert_eq!([0, 1, 5, 6, 12, 47, 48].map(|number| gfx1100.place_of(number).1), [0, 8, 40, 4, 1, 47, 0]);
        let small = plan("gfx1100:cus=4");
        assert_eq!((small.places(), small.in_use), (12, 2));
        let gfx942 = plan("gfx942");
        assert_eq!((gfx942.dies, gfx942.places(), gfx942.in_use), (8, 64, 304));
        let places = [0, 1, 8, 31, 32, 304].map(|number| gfx942.place_of(number));
        assert_eq!(places, [(0, 0), (1, 0), (0, 16), (7, 48), (0, 1), (0, 0)]);
        assert!(Plan::new(&gpu::parse("gfx1250").unwrap()[0]).is_none());
    }
}
