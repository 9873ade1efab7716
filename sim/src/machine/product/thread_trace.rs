// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Thread traces of a GPU, which the commands of ROCm's aqlprofile program: the waves of each shader engine with their
//! places, and the instructions of one compute unit's waves.
//!
//! Each shader engine of each die has registers and a buffer of its own. When a trace is turned off, its tokens are
//! written to the buffer. The write pointer and the status then give their number, and show if some had no room.
//! Tracing requires the same settings as on hardware: the tokens, the kind of shaders, and from gfx11 on the queue's
//! `COMPUTE_THREAD_TRACE_ENABLE`; except for gfx12's `SPI_SQG_EVENT_CTL`.
//!
//! Workgroups are placed round robin: first over the dies, shader engines and shader arrays, then over the units of
//! each. The workgroups of a unit begin at one SIMD after the other. A kernel's waves are traced when it ends,
//! workgroup by workgroup: the starts of its waves, then their instructions in order of execution, then their ends.
//! There are no other times.

mod tokens;

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use hsa_abi::compute::{
    COMPUTE_DISPATCH_INITIATOR, COMPUTE_NUM_THREAD_X, COMPUTE_PGM_HI, COMPUTE_PGM_LO, COMPUTE_PGM_RSRC1,
    COMPUTE_PGM_RSRC2, COMPUTE_SHADER_EN,
};
use hsa_abi::performance::{
    ARRAY_BROADCAST, BROADCAST, ENGINE_BROADCAST, GRBM_GFX_INDEX, Generation, INSTANCE_BROADCAST,
};
use hsa_abi::thread_trace::{BLOCK, PAGE, SQ_THREAD_TRACE_USERDATA_2, gfx9, gfx11, gfx12};
use hsa_abi::{KernelDescriptor, KernelDispatchPacket};
use parking_lot::Mutex;
use sim_wave::{Executed, TakeSteps};

use crate::machine::clock::{device_ticks, now};
use crate::machine::product::gpu::Gpu;
use crate::machine::product::workgroup_placement::{Queues, groups, items_of_groups, number_of, round_robin};
use tokens::{Place, Tokens, Wanted};

/// The four registers whose writes appear in the trace.
const USERDATA: RangeInclusive<u32> = SQ_THREAD_TRACE_USERDATA_2 - 2..=SQ_THREAD_TRACE_USERDATA_2 + 1;

/// Layout of the places where waves run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    generation: Generation,
    dies: usize,
    /// Shader engines of a die.
    engines: usize,
    /// Shader arrays of an engine, and units of an array.
    arrays: usize,
    units: usize,
    /// Number of these units that workgroups run at.
    in_use: usize,
}

/// Meaning of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Base,
    BaseHigh,
    Size,
    /// Size and base high of gfx11, in one register.
    SizeAndBaseHigh,
    Mask,
    Tokens,
    Instructions,
    HighWater,
    Reset,
    Control,
    Pointer,
    Status,
    Status2,
    Lost,
    UserData,
}

/// The registers and the trace of a shader engine.
#[derive(Debug, Default)]
struct Engine {
    /// First page of the buffer, and its number of pages.
    base: u64,
    pages: u32,
    mask: u32,
    tokens: u32,
    instructions: u32,
    /// The running trace, if any.
    trace: Option<Tokens>,
    /// Buffer address of the last trace, its size in bytes, and its number of tokens without room.
    start: u64,
    written: u64,
    lost: u32,
}

/// Registers and engines of a die.
#[derive(Debug)]
struct Die {
    index: u32,
    engines: Vec<Engine>,
}

/// Data of a trace that has ended, to be stored in its buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    /// Address in the buffer.
    pub address: u64,
    /// Bytes, in whole blocks of 32.
    pub bytes: Vec<u8>,
}

/// The thread traces of an agent.
#[derive(Debug)]
pub struct ThreadTrace {
    /// Layout; `None` if the GPU's traces are unknown.
    plan: Option<Plan>,
    dies: Mutex<Vec<Die>>,
    /// Queues whose waves are traced, from gfx10 on.
    pub queues: Queues,
    /// True if a trace is running.
    any: AtomicBool,
}

impl Plan {
    fn new(gpu: &Gpu) -> Option<Self> {
        let target = gpu.target;
        // The registers of gfx10 are of those that need privileges.
        let generation = Generation::of(target.name).filter(|generation| *generation != Generation::Gfx10)?;
        let (dies, engines) = (gpu.xcc as usize, (target.shader_engines / target.xcc) as usize);
        let arrays = target.shader_arrays as usize;
        let of_unit = if generation == Generation::Gfx9 { 1 } else { 2 };
        let present = (gpu.compute_units as usize / of_unit).max(1);
        let all = (target.compute_units as usize / of_unit).max(1);
        let units = all.div_ceil(target.shader_engines as usize * arrays);
        Some(Self { generation, dies, engines, arrays, units, in_use: present.min(dies * engines * arrays * units) })
    }

    /// The die, the engine in it, the array and unit, and the first SIMD of the `number`-th workgroup.
    fn place_of(&self, number: usize) -> (usize, usize, Place) {
        let ([die, engine, array, unit], turn) =
            round_robin(number, self.in_use, [self.dies, self.engines, self.arrays]);
        (die, engine, Place { array: array as u32, unit: unit as u32, simd: turn as u32 % 4, slot: 0 })
    }

    fn register(&self, register: u32) -> Option<Register> {
        use Register as R;
        if USERDATA.contains(&register) {
            return Some(R::UserData);
        }
        let found = match self.generation {
            Generation::Gfx9 => match register {
                gfx9::SQ_THREAD_TRACE_BASE => R::Base,
                gfx9::SQ_THREAD_TRACE_BASE2 => R::BaseHigh,
                gfx9::SQ_THREAD_TRACE_SIZE => R::Size,
                gfx9::SQ_THREAD_TRACE_MASK => R::Mask,
                gfx9::SQ_THREAD_TRACE_TOKEN_MASK => R::Tokens,
                gfx9::SQ_THREAD_TRACE_TOKEN_MASK2 => R::Instructions,
                gfx9::SQ_THREAD_TRACE_HIWATER => R::HighWater,
                gfx9::SQ_THREAD_TRACE_CTRL => R::Reset,
                gfx9::SQ_THREAD_TRACE_MODE => R::Control,
                gfx9::SQ_THREAD_TRACE_WPTR => R::Pointer,
                gfx9::SQ_THREAD_TRACE_STATUS => R::Status,
                gfx9::SQ_THREAD_TRACE_CNTR => R::Lost,
                _ => return None,
            },
            Generation::Gfx10 => return None,
            Generation::Gfx11 | Generation::Gfx12 => match (register, self.generation) {
                (gfx11::SQ_THREAD_TRACE_BUF0_BASE, Generation::Gfx11) => R::Base,
                (gfx11::SQ_THREAD_TRACE_BUF0_SIZE, Generation::Gfx11) => R::SizeAndBaseHigh,
                (gfx12::SQ_THREAD_TRACE_BUF0_BASE_LO, Generation::Gfx12) => R::Base,
                (gfx12::SQ_THREAD_TRACE_BUF0_BASE_HI, Generation::Gfx12) => R::BaseHigh,
                (gfx12::SQ_THREAD_TRACE_BUF0_SIZE, Generation::Gfx12) => R::Size,
                (gfx11::SQ_THREAD_TRACE_MASK, _) => R::Mask,
                (gfx11::SQ_THREAD_TRACE_TOKEN_MASK, _) => R::Tokens,
                (gfx11::SQ_THREAD_TRACE_CTRL, _) => R::Control,
                (gfx11::SQ_THREAD_TRACE_WPTR, _) => R::Pointer,
                (gfx11::SQ_THREAD_TRACE_STATUS, _) => R::Status,
                (gfx11::SQ_THREAD_TRACE_STATUS2, _) => R::Status2,
                (gfx11::SQ_THREAD_TRACE_DROPPED_CNTR, _) => R::Lost,
                _ => return None,
            },
        };
        Some(found)
    }

    /// Engines of a die that `GRBM_GFX_INDEX` selects: all, or one. A trace covers a whole engine, whose first array
    /// has the registers.
    fn engines_at(&self, index: u32) -> Result<std::ops::Range<usize>, String> {
        let engine = (index >> 16 & 0xff) as usize;
        if index & INSTANCE_BROADCAST == 0 || index & ARRAY_BROADCAST == 0 && index >> 8 & 0xff != 0 {
            return Err(format!("GRBM_GFX_INDEX {index:#010x} names a part of a shader engine"));
        }
        match index & ENGINE_BROADCAST != 0 {
            true => Ok(0..self.engines),
            false if engine < self.engines => Ok(engine..engine + 1),
            false => Err(format!("GRBM_GFX_INDEX {index:#010x} names none of {} shader engines", self.engines)),
        }
    }

    fn is_on(&self, control: u32) -> bool {
        match self.generation {
            Generation::Gfx9 => control & gfx9::MODE == gfx9::MODE_ON,
            _ => control & gfx11::MODE != 0,
        }
    }

    fn wanted(&self, engine: &Engine, control: u32) -> Wanted {
        let waves = match self.generation {
            Generation::Gfx9 => control >> 18 & 7 != 0,
            _ => engine.mask & gfx11::WTYPE_INCLUDE_CS != 0,
        };
        Wanted { waves, mask: engine.mask, tokens: engine.tokens, instructions: engine.instructions }
    }
}

impl Engine {
    /// Begins or ends a trace.
    fn control(&mut self, plan: &Plan, control: u32) -> Result<Option<Finished>, String> {
        match (plan.is_on(control), self.trace.take()) {
            (true, None) => {
                if self.pages == 0 || self.base == 0 {
                    return Err("a thread trace begins that has no buffer".to_owned());
                }
                let (limit, ticks) = (u64::from(self.pages) * PAGE, device_ticks(now()));
                let wanted = plan.wanted(self, control);
                self.trace = Some(Tokens::new(plan.generation, wanted, limit as usize, ticks));
                (self.start, self.written, self.lost) = (self.base * PAGE, 0, 0);
                Ok(None)
            }
            // The registers now belong to the next trace.
            (true, under_way) => {
                self.trace = under_way;
                Ok(None)
            }
            (false, Some(trace)) => {
                self.lost = trace.lost;
                let bytes = trace.finish(BLOCK as usize);
                self.written = bytes.len() as u64;
                Ok(Some(Finished { address: self.start, bytes }))
            }
            (false, None) => Ok(None),
        }
    }

    fn read(&self, plan: &Plan, register: Register) -> Option<u32> {
        let is_gfx9 = plan.generation == Generation::Gfx9;
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        match register {
            Register::Pointer if is_gfx9 => Some((self.written / BLOCK) as u32 & gfx9::OFFSET),
            Register::Pointer => {
                let start = if plan.generation == Generation::Gfx11 { self.start } else { 0 };
                Some(((start + self.written) / BLOCK) as u32 & gfx11::OFFSET)
            }
            Register::Status if is_gfx9 => {
                Some(flag(self.trace.is_some(), gfx9::BUSY) | flag(self.lost > 0, gfx9::FULL))
            }
            Register::Status => Some(flag(self.trace.is_some(), gfx11::BUSY)),
            Register::Status2 => Some(flag(self.lost > 0, gfx11::BUF0_FULL)),
            Register::Lost => Some(self.lost),
            _ => None,
        }
    }
}

impl ThreadTrace {
    /// Creates the traces of a GPU; the CPU has none.
    pub fn new(gpu: Option<&Gpu>) -> Self {
        let plan = gpu.and_then(Plan::new);
        let engines = |plan: &Plan| (0..plan.engines).map(|_| Engine::default()).collect();
        let dies =
            plan.iter().flat_map(|plan| (0..plan.dies).map(|_| Die { index: BROADCAST, engines: engines(plan) }));
        Self { dies: Mutex::new(dies.collect()), plan, queues: Queues::default(), any: AtomicBool::new(false) }
    }

    /// True if the register belongs to thread traces.
    pub fn has(&self, register: u32) -> bool {
        self.plan.is_some_and(|plan| plan.register(register).is_some())
    }

    /// Writes a register of the dies whose bits are set in `selected`. Returns the data of traces that have ended.
    pub fn write(&self, selected: u32, register: u32, value: u32) -> Result<Vec<Finished>, String> {
        let Some(plan) = &self.plan else { return Ok(Vec::new()) };
        let mut finished = Vec::new();
        let mut dies = self.dies.lock();
        for (_, die) in dies.iter_mut().enumerate().filter(|(number, _)| selected >> number & 1 != 0) {
            if register == GRBM_GFX_INDEX {
                die.index = value;
                continue;
            }
            let kind =
                plan.register(register).ok_or_else(|| format!("register {register:#x} is not a register of traces"))?;
            for engine in &mut die.engines[plan.engines_at(die.index)?] {
                let name = |text: &str| format!("register {register:#x} of thread traces {text}");
                match kind {
                    Register::UserData => {
                        if let Some(trace) = &mut engine.trace {
                            trace.register(register, value, false);
                        }
                    }
                    Register::Control => finished.extend(engine.control(plan, value)?),
                    Register::BaseHigh if value >> 4 != 0 => return Err(name("has 4 bits")),
                    Register::Size if value >> 22 != 0 => return Err(name("has 22 bits")),
                    Register::SizeAndBaseHigh if value & !(0x3f_ffff << 8 | 0xf) != 0 => {
                        return Err(name("has other bits set"));
                    }
                    Register::Reset if value == gfx9::RESET_BUFFER => (engine.written, engine.lost) = (0, 0),
                    Register::Reset => return Err(name("is set without RESET_BUFFER alone")),
                    // The initial value, or flags to be cleared.
                    Register::Pointer | Register::Status if value == 0 => (engine.written, engine.lost) = (0, 0),
                    Register::HighWater => {}
                    Register::Base => engine.base = engine.base & !0xffff_ffff | u64::from(value),
                    Register::BaseHigh => engine.base = engine.base & 0xffff_ffff | u64::from(value) << 32,
                    Register::Size => engine.pages = value,
                    Register::SizeAndBaseHigh => {
                        engine.pages = value >> 8 & 0x3f_ffff;
                        engine.base = engine.base & 0xffff_ffff | u64::from(value & 0xf) << 32;
                    }
                    Register::Mask => engine.mask = value,
                    Register::Tokens => engine.tokens = value,
                    Register::Instructions => engine.instructions = value,
                    _ => return Err(name("is only read")),
                }
            }
        }
        let is_any = dies.iter().flat_map(|die| &die.engines).any(|engine| engine.trace.is_some());
        self.any.store(is_any, Ordering::Relaxed);
        Ok(finished)
    }

    /// Reads a register of the selected shader engine in the die whose bit is set in `selected`. The status can be read
    /// of several engines; the result is the OR of their bits.
    pub fn read(&self, selected: u32, register: u32) -> Result<u32, String> {
        let plan = self.plan.as_ref().ok_or("this GPU's thread traces are not known")?;
        let kind =
            plan.register(register).ok_or_else(|| format!("register {register:#x} is not a register of traces"))?;
        let mut value = None;
        for (_, die) in self.dies.lock().iter().enumerate().filter(|(number, _)| selected >> number & 1 != 0) {
            for engine in &die.engines[plan.engines_at(die.index)?] {
                let of_engine =
                    engine.read(plan, kind).ok_or_else(|| format!("register {register:#x} is only written"))?;
                value = match value {
                    None => Some(of_engine),
                    Some(others) if kind == Register::Status => Some(others | of_engine),
                    Some(_) => return Err(format!("register {register:#x} is read of several shader engines")),
                };
            }
        }
        value.ok_or_else(|| "no die is named".to_owned())
    }

    /// Layout, if waves of a queue are traced.
    fn plan_for(&self, queue: u64) -> Option<&Plan> {
        let plan = self.plan.as_ref().filter(|_| self.any.load(Ordering::Relaxed))?;
        (plan.generation == Generation::Gfx9 || self.queues.has(queue)).then_some(plan)
    }

    /// Returns a collector for the instructions of a queue's kernel, if any are traced.
    pub fn follow(&self, queue: u64, packet: &KernelDispatchPacket) -> Option<Follower> {
        let plan = *self.plan_for(queue)?;
        let (groups, mut targets, mut most) = (groups(packet), HashSet::new(), 0);
        for (number, die) in self.dies.lock().iter().enumerate() {
            for (engine, trace) in
                die.engines.iter().enumerate().filter_map(|(at, engine)| Some((at, engine.trace.as_ref()?)))
            {
                for unit in 0..plan.arrays * plan.units {
                    let (array, unit) = ((unit % plan.arrays) as u32, (unit / plan.arrays) as u32);
                    if trace.wanted().instructions_of(plan.generation, array, unit) {
                        targets.insert((number, engine, array, unit));
                        // A token is of 12 bits at least.
                        most += trace.limit() * 2 / 3;
                    }
                }
            }
        }
        let kept = Mutex::new((most, HashMap::new()));
        (!targets.is_empty()).then_some(Follower { plan, groups, targets, kept })
    }

    /// Adds a completed kernel of a queue, with its wave size, and with its instructions if they were collected.
    pub fn add(
        &self,
        queue: u64,
        packet: &KernelDispatchPacket,
        (entry, descriptor): (u64, &KernelDescriptor),
        lanes: u32,
        follower: Option<Follower>,
    ) {
        let Some(plan) = self.plan_for(queue) else { return };
        let mut steps = follower.map(|follower| follower.kept.into_inner().1).unwrap_or_default();
        let sizes = packet.workgroup_size.map(u32::from);
        let registers = [
            (COMPUTE_NUM_THREAD_X, sizes[0]),
            (COMPUTE_NUM_THREAD_X + 1, sizes[1]),
            (COMPUTE_NUM_THREAD_X + 2, sizes[2]),
            (COMPUTE_PGM_LO, (entry >> 8) as u32),
            (COMPUTE_PGM_HI, (entry >> 40) as u32),
            (COMPUTE_PGM_RSRC1, descriptor.compute_pgm_rsrc1.0),
            (COMPUTE_PGM_RSRC2, descriptor.compute_pgm_rsrc2.0),
            (COMPUTE_DISPATCH_INITIATOR, COMPUTE_SHADER_EN),
        ];
        let mut dies = self.dies.lock();
        for trace in dies.iter_mut().flat_map(|die| &mut die.engines).filter_map(|engine| engine.trace.as_mut()) {
            registers.into_iter().for_each(|(register, value)| trace.register(register, value, true));
        }
        for (number, items) in items_of_groups(packet).enumerate() {
            let (die, engine, first) = plan.place_of(number);
            let Some(trace) = &mut dies[die].engines[engine].trace else { continue };
            let place = |wave: u32| Place { simd: (first.simd + wave) % 4, slot: wave / 4, ..first };
            let waves = 0..items.div_ceil(lanes);
            waves.clone().for_each(|wave| trace.wave_start(place(wave), lanes.min(items - wave * lanes)));
            for Executed { wave, class } in steps.remove(&number).unwrap_or_default() {
                trace.instruction(place(wave), class);
            }
            waves.for_each(|wave| trace.wave_end(place(wave)));
        }
    }
}

/// Collector of the instructions of a dispatch's traced workgroups.
pub struct Follower {
    plan: Plan,
    /// Number of workgroups in each dimension.
    groups: [u32; 3],
    /// Dies, engines, arrays and units with traced workgroups.
    targets: HashSet<(usize, usize, u32, u32)>,
    /// Number of further instructions with room in the buffer, and the collected ones by number of the workgroup.
    kept: Mutex<(usize, HashMap<usize, Vec<Executed>>)>,
}

impl TakeSteps for Follower {
    fn most(&self, workgroup: [u32; 3]) -> usize {
        let (die, engine, place) = self.plan.place_of(number_of(self.groups, workgroup));
        let is_target = self.targets.contains(&(die, engine, place.array, place.unit));
        if is_target { self.kept.lock().0 } else { 0 }
    }

    fn take(&self, workgroup: [u32; 3], steps: Vec<Executed>) {
        let mut kept = self.kept.lock();
        kept.0 = kept.0.saturating_sub(steps.len());
        kept.1.insert(number_of(self.groups, workgroup), steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::product::gpu;

    fn traces(list: &str) -> ThreadTrace {
        ThreadTrace::new(Some(&gpu::parse(list).unwrap()[0]))
    }

    #[test]
    fn workgroups_go_over_engines_first_and_begin_at_each_simd() {
        let place = |traces: &ThreadTrace, number| {
            let (die, engine, place) = traces.plan.unwrap().place_of(number);
            (die, engine, place.array, place.unit, place.simd)
        };
        let gfx1100 = traces("gfx1100");
        assert_eq!(place(&gfx1100, 0), (0, 0, 0, 0, 0));
        assert_eq!(
            [1, 6, 12].map(|number| place(&gfx1100, number)),
            [(0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0)]
        );
        assert_eq!(place(&gfx1100, 48), (0, 0, 0, 0, 1));
        let gfx942 = traces("gfx942");
        assert_eq!(
            [1, 8, 32].map(|number| place(&gfx942, number)),
            [(1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0)]
        );
        assert!(traces("gfx1030").plan.is_none() && traces("gfx1250").plan.is_none());
    }

    #[test]
    fn what_is_written_of_an_engine_is_of_that_one() {
        let traces = traces("gfx1100");
        let write = |register, value| traces.write(1, register, value);
        write(GRBM_GFX_INDEX, 2 << 16 | INSTANCE_BROADCAST).unwrap();
        assert!(write(gfx11::SQ_THREAD_TRACE_CTRL, 1).unwrap_err().contains("no buffer"));
        write(gfx11::SQ_THREAD_TRACE_BUF0_BASE, 0x1234).unwrap();
        write(gfx11::SQ_THREAD_TRACE_BUF0_SIZE, 3 << 8).unwrap();
        write(gfx11::SQ_THREAD_TRACE_TOKEN_MASK, gfx11::REG_INCLUDE_COMP).unwrap();
        write(gfx11::SQ_THREAD_TRACE_CTRL, 1).unwrap();
        // Writes from here on belong to the next trace.
        write(gfx11::SQ_THREAD_TRACE_BUF0_BASE, 0x5678).unwrap();
        write(GRBM_GFX_INDEX, BROADCAST).unwrap();
        write(SQ_THREAD_TRACE_USERDATA_2, 7).unwrap();
        assert_eq!(traces.read(1, gfx11::SQ_THREAD_TRACE_STATUS), Ok(gfx11::BUSY));
        let finished = write(gfx11::SQ_THREAD_TRACE_CTRL, 0).unwrap();
        // A header and a register.
        assert_eq!(finished.iter().map(|of| (of.address, of.bytes.len())).collect::<Vec<_>>(), [(0x123_4000, 32)]);
        assert!(traces.read(1, gfx11::SQ_THREAD_TRACE_WPTR).unwrap_err().contains("several"));
        write(GRBM_GFX_INDEX, 2 << 16 | INSTANCE_BROADCAST).unwrap();
        assert_eq!(traces.read(1, gfx11::SQ_THREAD_TRACE_WPTR), Ok(0x123_4000 / 32 + 1));
        write(GRBM_GFX_INDEX, 6 << 16 | INSTANCE_BROADCAST).unwrap();
        assert!(write(gfx11::SQ_THREAD_TRACE_MASK, 0).unwrap_err().contains("none of 6"));
        assert!(!traces.has(gfx9::SQ_THREAD_TRACE_MODE));
    }
}
