// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! PM4 commands that program, read and stop the counters of the blocks SQ, SPI, TA and TCP, for each generation of
//! GPUs.
//!
//! The registers to write and their order follow ROCm's library. Opcodes are those of the kernel driver's `soc15d.h`
//! and `nvd.h`.

use hsa_abi::aqlprofile::AqlProfileEvent;
use hsa_abi::performance::*;

pub const PRED_EXEC: u32 = 0x23;
pub const WAIT_REG_MEM: u32 = 0x3c;
const INDIRECT_BUFFER: u32 = 0x3f;
const COPY_DATA: u32 = 0x40;
pub const EVENT_WRITE: u32 = 0x46;
const ACQUIRE_MEM: u32 = 0x58;
pub const SET_SH_REG: u32 = 0x76;
const SET_UCONFIG_REG: u32 = 0x79;

/// `EVENT_WRITE`: wait until kernels have ended.
const CS_PARTIAL_FLUSH: u32 = 7 | 4 << 8;
/// `INDIRECT_BUFFER`: the buffer is valid.
const VALID: u32 = 1 << 23;

// `ACQUIRE_MEM`: writes the L2 back.
const COHER_TC_WB: u32 = 1 << 18;
const COHER_TC: u32 = 1 << 23;
const GCR_GL2_WB: u32 = 1 << 15;

/// Layout of a GPU's counters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    generation: Generation,
    numbering: Numbering,
    dies: u32,
    /// Shader engines of a die.
    engines: u32,
    /// Shader arrays of an engine, and work-group processors of an array, with counters of their own.
    arrays: u32,
    processors: u32,
}

impl Plan {
    /// Creates the plan for a GPU with these numbers of dies, of shader engines over all dies, of compute units, and of
    /// shader arrays of an engine. `None` for an unknown GPU.
    pub fn new(gfxip: &str, dies: u32, engines: u32, compute_units: u32, arrays: u32) -> Option<Self> {
        let (generation, numbering) = (Generation::of(gfxip)?, Numbering::of(gfxip)?);
        if [dies, engines, compute_units, arrays].contains(&0) {
            return None;
        }
        let engines = engines / dies;
        let (arrays, processors) = match generation {
            Generation::Gfx9 | Generation::Gfx10 => (1, 1),
            Generation::Gfx11 | Generation::Gfx12 => (arrays, (compute_units / 2).div_ceil(engines * arrays)),
        };
        Some(Self { generation, numbering, dies, engines, arrays, processors })
    }

    /// Number of dies. Each has registers of its own.
    pub fn dies(&self) -> usize {
        self.dies as usize
    }

    /// Number of values of a block's counter in a die. The values are ordered by die, then by counter.
    pub fn values_of_die(&self, block: Block) -> usize {
        let (arrays, processors) = self.parts(block);
        (self.engines * arrays * processors) as usize
    }

    /// Shader arrays of an engine, and work-group processors of an array, that have separate instances of a block.
    fn parts(&self, block: Block) -> (u32, u32) {
        match block {
            Block::Sq => (self.arrays, self.processors),
            Block::Spi | Block::Ta | Block::Tcp => (1, 1),
        }
    }

    /// True if the event can be counted.
    pub fn knows(&self, event: &AqlProfileEvent) -> bool {
        event.flags == 0
            && Block::named(event.block_name)
                .filter(|block| event.block_index < block.instances())
                .and_then(|block| PerfEvent::of(block, event.event_id, self.numbering))
                .is_some_and(PerfEvent::is_documented)
    }

    /// Commands that reset the counters and start counting `events`.
    pub fn start(&self, events: &[Counted]) -> Vec<u32> {
        let mut commands = Commands::default();
        commands.wait_idle();
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        if self.generation == Generation::Gfx9 {
            commands.configure(RLC_PERFMON_CLK_CNTL, 1);
        }
        commands.configure(CP_PERFMON_CNTL, PERFMON_RESET);
        if self.generation >= Generation::Gfx11 && events.iter().any(|event| event.block == Block::Sq) {
            // All virtual machines count, without a graphics queue that has the clock run.
            commands.configure(SQ_PERFCOUNTER_CTRL2, 0xffff << 1 | FORCE_EN);
        }
        // Shaders of every kind that there is: pixel, vertex, geometry, hull, compute.
        let vertex = if self.generation >= Generation::Gfx11 { 0 } else { 1 << 1 };
        let stages = 1 << 0 | vertex | 1 << 2 | 1 << 4 | CS_EN;
        if events.iter().any(|event| matches!(event.block, Block::Ta | Block::Tcp)) {
            commands.configure(SQ_PERFCOUNTER_CTRL, stages);
        }
        for &Counted { block, counter, event } in events {
            let instance = match block.instances() {
                1 => BROADCAST,
                _ => ENGINE_BROADCAST | ARRAY_BROADCAST | event.block_index,
            };
            commands.configure(GRBM_GFX_INDEX, instance);
            // All SIMD units, and clients and banks of the scalar cache, where these are chosen.
            let parts = match (block, self.generation) {
                (Block::Sq, Generation::Gfx9) => 0xf << 24 | 0xf << 16 | 0xf << 12,
                (Block::Sq, Generation::Gfx10) => 0xf << 12,
                _ => 0,
            };
            commands.configure(block.select(self.generation, counter), parts | event.event_id);
            if block != Block::Sq {
                continue;
            }
            if self.generation == Generation::Gfx9 {
                commands.configure(SQ_PERFCOUNTER_MASK, u32::MAX);
            }
            commands.configure(SQ_PERFCOUNTER_CTRL, stages);
        }
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        commands.packet(SET_SH_REG, &[COMPUTE_PERFCOUNT_ENABLE - SH_REGISTERS.start, 1]);
        commands.configure(CP_PERFMON_CNTL, PERFMON_RESET);
        commands.configure(CP_PERFMON_CNTL, PERFMON_START);
        commands.wait_idle();
        commands.0
    }

    /// Commands that copy the counters of `events` to `output`.
    pub fn read(&self, events: &[Counted], output: u64) -> Vec<u32> {
        let mut commands = Commands::default();
        commands.configure(CP_PERFMON_CNTL, PERFMON_START | PERFMON_SAMPLE);
        commands.wait_idle();
        let mut target = output;
        for die in 0..self.dies {
            let mut of_die = Commands::default();
            for &Counted { block, counter, event } in events {
                let (low, high) = block.result(self.generation, counter);
                for place in self.places(block, event.block_index) {
                    of_die.configure(GRBM_GFX_INDEX, place);
                    of_die.copy(self.generation, low, target);
                    if let Some(high) = high {
                        of_die.copy(self.generation, high, target + 4);
                    }
                    target += 8;
                }
            }
            of_die.configure(GRBM_GFX_INDEX, BROADCAST);
            if self.dies > 1 {
                commands.packet(PRED_EXEC, &[1 << (24 + die) | of_die.0.len() as u32]);
            }
            commands.0.append(&mut of_die.0);
        }
        commands.write_back(self.generation);
        commands.0
    }

    /// Commands that stop the counters.
    pub fn stop(&self) -> Vec<u32> {
        let mut commands = Commands::default();
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        commands.configure(CP_PERFMON_CNTL, PERFMON_STOP);
        if self.generation == Generation::Gfx9 {
            commands.configure(RLC_PERFMON_CLK_CNTL, 0);
        }
        commands.wait_idle();
        commands.0
    }

    /// Values of `GRBM_GFX_INDEX` that select each copy of a block's instance in a die for reading.
    fn places(self, block: Block, instance: u32) -> impl Iterator<Item = u32> {
        let has_parts = self.generation >= Generation::Gfx11 && block == Block::Sq;
        let (arrays, processors) = self.parts(block);
        (0..self.engines * arrays * processors).map(move |number| {
            let (rest, processor) = (number / processors, number % processors);
            let (engine, array) = (rest / arrays, rest % arrays);
            let parts = match block.instances() {
                1 if has_parts => array << 8 | processor << 2,
                1 => ARRAY_BROADCAST | INSTANCE_BROADCAST,
                _ => ARRAY_BROADCAST | instance,
            };
            engine << 16 | parts
        })
    }
}

/// An event, with the counter of its block that counts it.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub block: Block,
    counter: u32,
    pub event: AqlProfileEvent,
}

/// Assigns each event a counter of its block's instance, in their order, at most `most` of each instance. `None` if an
/// instance has too few, or a block is unknown.
pub fn assign(events: &[AqlProfileEvent], most: u32) -> Option<Vec<Counted>> {
    let mut assigned: Vec<Counted> = Vec::with_capacity(events.len());
    for &event in events {
        let block = Block::named(event.block_name)?;
        let is_beside = |other: &&Counted| (other.block, other.event.block_index) == (block, event.block_index);
        let counter = assigned.iter().filter(is_beside).count() as u32;
        if counter >= block.counters().min(most) {
            return None;
        }
        assigned.push(Counted { block, counter, event });
    }
    Some(assigned)
}

/// Command that jumps to a buffer of this number of dwords at `address`.
pub fn jump(address: u64, dwords: usize) -> [u32; 4] {
    [3 << 30 | 2 << 16 | INDIRECT_BUFFER << 8, address as u32, (address >> 32) as u32, dwords as u32 | VALID]
}

/// Sequence of commands.
#[derive(Default)]
pub struct Commands(pub Vec<u32>);

impl Commands {
    /// Adds a command with a header and this body.
    pub fn packet(&mut self, opcode: u32, body: &[u32]) {
        self.0.push(3 << 30 | (body.len() as u32 - 1) << 16 | opcode << 8);
        self.0.extend(body);
    }

    /// Adds a write to one of the die's own registers.
    pub fn configure(&mut self, register: u32, value: u32) {
        self.packet(SET_UCONFIG_REG, &[register - UCONFIG_REGISTERS.start, value]);
    }

    /// Adds a wait until kernels have ended.
    pub fn wait_idle(&mut self) {
        self.packet(EVENT_WRITE, &[CS_PARTIAL_FLUSH]);
    }

    /// Adds a copy of a register to memory.
    pub fn copy(&mut self, generation: Generation, register: u32, target: u64) {
        let to = if generation == Generation::Gfx9 { 5 << 8 } else { 2 << 8 };
        self.packet(COPY_DATA, &[to, register, 0, target as u32, (target >> 32) as u32]);
    }

    /// Adds a write-back of the L2.
    pub fn write_back(&mut self, generation: Generation) {
        match generation {
            Generation::Gfx9 => self.packet(ACQUIRE_MEM, &[COHER_TC | COHER_TC_WB, u32::MAX, 0xff, 0, 0, 10]),
            _ => self.packet(ACQUIRE_MEM, &[0, u32::MAX, 0xff, 0, 0, 10, GCR_GL2_WB]),
        }
    }
}

#[cfg(test)]
mod tests {
    use hsa_abi::aqlprofile::AqlProfileBlock;

    use super::*;

    #[test]
    fn counters_are_where_the_generation_has_them() {
        let values = |plan: Option<Plan>| {
            plan.map(|plan| (plan.dies(), plan.values_of_die(Block::Sq), plan.values_of_die(Block::Spi)))
        };
        assert_eq!(values(Plan::new("gfx1100", 1, 6, 96, 2)), Some((1, 48, 6)));
        assert_eq!(values(Plan::new("gfx1201", 1, 4, 64, 2)), Some((1, 32, 4)));
        assert_eq!(values(Plan::new("gfx1030", 1, 4, 80, 2)), Some((1, 4, 4)));
        assert_eq!(values(Plan::new("gfx942", 8, 32, 304, 1)), Some((8, 4, 4)));
        assert_eq!(values(Plan::new("gfx1250", 8, 32, 256, 1)), None);
        assert_eq!(values(Plan::new("gfx1100", 0, 6, 96, 2)), None);
    }

    #[test]
    fn events_are_known_by_generation() {
        let knows = |gfxip, event_id, block_index| {
            let event = AqlProfileEvent { block_index, event_id, flags: 0, block_name: AqlProfileBlock::SQ };
            Plan::new(gfxip, 1, 4, 64, 2).unwrap().knows(&event)
        };
        assert_eq!([2, 3, 4, 5, 6, 7].map(|event| knows("gfx90a", event, 0)), [false, true, true, false, false, false]);
        assert_eq!([2, 3, 4, 5, 6, 7].map(|event| knows("gfx1201", event, 0)), [false, true, true, true, true, false]);
        // Vector instructions.
        let valu = [("gfx90a", 0x1a), ("gfx1030", 0x40), ("gfx1100", 0x3e), ("gfx1201", 0x32)];
        assert!(valu.iter().all(|(gfxip, event)| knows(gfxip, *event, 0)));
        assert!(!knows("gfx1201", 0x1a, 0));
        assert!(!knows("gfx1201", 4, 1));
        // Vector memory, each in front of flat instructions on the next.
        for (gfxip, event) in [("gfx906", 29), ("gfx908", 30), ("gfx90a", 55), ("gfx942", 59)] {
            assert_eq!([event, event - 1].map(|event| knows(gfxip, event, 0)), [true, false], "{gfxip}");
        }
        // Workgroups, of the block that launches them.
        for (gfxip, event_id) in [("gfx906", 65), ("gfx90a", 49), ("gfx942", 49), ("gfx1100", 46), ("gfx1201", 47)] {
            let event = AqlProfileEvent { block_index: 0, event_id, flags: 0, block_name: AqlProfileBlock::SPI };
            let plan = Plan::new(gfxip, 1, 4, 64, 2).unwrap();
            assert!(plan.knows(&event), "{gfxip}");
            assert!(!plan.knows(&AqlProfileEvent { event_id: 4, ..event }), "{gfxip}");
        }
    }

    #[test]
    fn each_block_has_counters_of_its_own() {
        let event = |block_name, event_id| AqlProfileEvent { block_index: 0, event_id, flags: 0, block_name };
        let (waves, groups) = (event(AqlProfileBlock::SQ, 4), event(AqlProfileBlock::SPI, 46));
        let mut events = vec![waves; 8];
        events.insert(3, groups);
        let assigned = assign(&events, 8).unwrap();
        let of = |at: usize| (assigned[at].block, assigned[at].counter);
        assert_eq!((of(3), of(4), of(8)), ((Block::Spi, 0), (Block::Sq, 3), (Block::Sq, 7)));
        events.push(waves);
        assert!(assign(&events, 8).is_none());
        assert!(assign(&[groups; 6], 8).is_some() && assign(&[groups; 7], 8).is_none());
        assert!(assign(&[waves, groups], 1).is_some() && assign(&[waves, waves], 1).is_none());
        // Instances have some each.
        let of = |block_index| AqlProfileEvent { block_index, ..event(AqlProfileBlock::TA, 52) };
        let assigned = assign(&[of(0), of(15), of(0), of(15)], 8).unwrap();
        assert_eq!(assigned.iter().map(|counted| counted.counter).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert!(assign(&[of(15); 3], 8).is_none());
        let knows = |gfxip, event| Plan::new(gfxip, 1, 4, 64, 2).unwrap().knows(&event);
        assert!(knows("gfx942", of(15)) && !knows("gfx942", of(16)) && !knows("gfx1100", of(0)));
    }
}
