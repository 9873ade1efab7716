// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Cache model of a GPU, for `HSA_SIM_MEMORY=strict`. Written data stays invisible to others, and read data stays
//! stale, for as long as the memory model allows (HSA SysArch 3; AMDGPUUsage, "Memory Model"). So a missing fence gives
//! a wrong result.
//!
//! The model has a few compute units, each with a vector cache, in front of a shared cache, the L2. Two units each
//! share a scalar cache. A unit keeps vector stores until one of these events:
//!
//! * one of its waves waits for its stores, or has an instruction performed in the L2 (an atomic, a store of agent
//!   scope or more, a write-back);
//! * a packet releases to its agent;
//! * waves have had many turns, or nothing has run for a while.
//!
//! The L2 holds coarse-grained memory only; fine-grained memory, and memory from outside of pools, is not cached there.
//! Packets that release to or acquire from the system, and instructions of system scope, write back and invalidate the
//! L2.
//!
//! From gfx10 on, each shader array has a read cache between units and L2, the GL1. In WGP mode the waves of a
//! workgroup run on two units of one array. A gfx942 with several dies has an L2 in each die, and spreads workgroups
//! over the dies. Its memory is local to all of them: when a die writes back, the hardware invalidates the lines that
//! other dies have read (MTYPE RW with probes; AMDGPUUsage, "Memory Model GFX942", and Linux,
//! `gmc_v9_0_get_coherence_flags`). So the visible effect is that a die keeps its writes until an instruction or a
//! packet releases to the agent. Stores and atomics of agent scope bypass the die. The model's L2 is common to all
//! dies, so that memory for the host needs system scope with one die or several.
//!
//! Caches have no capacity limit. With a seed, lines are sometimes written back or invalidated without need.
//!
//! The model is more lenient than a GPU in two ways: loads wait for loads, and code is read once. The HSA runtime
//! invalidates instruction caches after it has loaded code (ROCR, `GpuAgent::InvalidateCodeCaches`, called by the
//! loader), and only the loader can write code that packets name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use hsa_abi::HsaFenceScope;
use parking_lot::{Mutex, MutexGuard};
use sim_wave::{Access, Control, Path, Turn};

use crate::machine::memory::cache::{Cache, CachedRange, LINE, lines, move_bytes};
use crate::machine::memory::hdp::{Accesses, HostWrites};
use crate::machine::memory::map::MemoryMap;
use crate::machine::product::gpu::Gpu;
use crate::machine::product::random::Random;

/// Number of modelled compute units, each with a vector cache.
const UNITS: usize = 4;

/// Number of shader arrays or dies. Units belong to them in turns.
const HALVES: usize = 2;

/// Number of waves' turns, on any unit, after which a unit writes its stores back, so that a polling wave sees them
/// eventually.
const TURNS: u32 = 1 << 10;

/// The caches of an agent.
#[derive(Debug)]
pub struct AgentCaches(Mutex<State>);

/// Caches between the units' caches and the L2, one for each half of the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    Nothing,
    /// A shader array's read cache, GL1.
    Array,
    /// A die's written lines.
    Die,
}

#[derive(Debug)]
struct State {
    shared: Cache,
    between: Middle,
    middle: [Cache; HALVES],
    vector: [Cache; UNITS],
    scalar: [Cache; HALVES],
    /// Ranges that were accessed, by address.
    ranges: BTreeMap<u64, CachedRange>,
    /// The range that was accessed last.
    latest: Option<CachedRange>,
    /// A range for each number that is in use.
    numbers: Vec<Option<u64>>,
    /// Generation of the memory map that the ranges belong to.
    generation: u64,
    /// Waves' turns since each unit's last write-back.
    turns: [u32; UNITS],
    random: Option<Random>,
}

impl AgentCaches {
    /// Creates empty caches.
    pub fn new(gpu: &Gpu, seed: Option<u64>) -> Self {
        let between = match gpu.target.name.starts_with("gfx9") {
            false => Middle::Array,
            true if gpu.xcc > 1 => Middle::Die,
            true => Middle::Nothing,
        };
        Self(Mutex::new(State {
            shared: Cache::default(),
            between,
            middle: Default::default(),
            vector: Default::default(),
            scalar: Default::default(),
            ranges: BTreeMap::new(),
            latest: None,
            numbers: Vec::new(),
            generation: 0,
            turns: [0; UNITS],
            random: seed.map(Random::new),
        }))
    }

    /// Performs a packet's acquire fence. The caller keeps memory mapped, as in the functions below.
    pub fn acquire(&self, backing: Backing<'_>, scope: HsaFenceScope) {
        let (agent, system) = (scope != HsaFenceScope::NONE, scope == HsaFenceScope::SYSTEM);
        self.control(
            backing,
            Control {
                invalidate_vector: agent,
                invalidate_array: agent,
                invalidate_scalar: agent,
                invalidate_shared: system,
                ..Control::default()
            },
        );
    }

    /// Performs a packet's release fence.
    pub fn release(&self, backing: Backing<'_>, scope: HsaFenceScope) {
        let (agent, system) = (scope != HsaFenceScope::NONE, scope == HsaFenceScope::SYSTEM);
        let control =
            Control { write_back: agent, write_back_die: agent, write_back_shared: system, ..Control::default() };
        self.control(backing, control);
    }

    /// Performs a packet's cache operations on the caches of all units.
    pub fn control(&self, backing: Backing<'_>, control: Control) {
        if control != Control::default() {
            let mut state = self.0.lock();
            state.follow(backing.memory);
            state.control(0..UNITS, backing, control);
        }
    }

    /// Writes the units' stores back, after a while in which nothing has run.
    pub fn drain(&self, backing: Backing<'_>) {
        let _memory = backing.memory.dispatch();
        self.control(backing, Control { write_back: true, ..Control::default() });
    }

    /// Removes lines from the L2 before the packet processor polls this memory, which it must see change in host
    /// memory.
    pub fn pass(&self, backing: Backing<'_>, address: u64, size: u64) {
        let mut state = self.0.lock();
        state.follow(backing.memory);
        if let Some(range) = state.range(backing.memory, address).filter(|range| range.is_shared) {
            (0..HALVES).for_each(|half| state.write_back_die(half));
            state.write_back_shared(backing);
            lines(address, size).for_each(|(line, _)| state.shared.remove(range, line));
        }
    }

    /// Performs an access of the packet processor itself, which goes through the L2. Calls `act` with the address of
    /// the bytes in the L2, or with their host address `host` if the L2 does not cache the memory. Dies are written
    /// back first.
    pub fn through(
        &self,
        backing: Backing<'_>,
        (address, host, size): (u64, u64, u64),
        access: Access,
        act: impl FnOnce(u64),
    ) {
        let mut state = self.0.lock();
        state.follow(backing.memory);
        let Some(range) = state.range(backing.memory, address).filter(|range| range.is_shared) else {
            drop(state);
            return act(host);
        };
        (0..HALVES).for_each(|half| state.write_back_die(half));
        for (line, bytes) in lines(address, size) {
            match access {
                Access::Read => _ = state.beyond_all(range, line),
                Access::Write | Access::Atomic => state.shared.copy(range).write(line, bytes),
            }
        }
        act(state.shared.copy(range).address(address));
    }
}

impl State {
    /// Removes ranges that are no longer mapped, with their written bytes.
    fn follow(&mut self, memory: &MemoryMap) {
        let generation = memory.generation().load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        self.latest = None;
        let is_there = |range: &CachedRange| {
            memory.reachable(range.base).is_some_and(|found| CachedRange::new(range.number, &found) == *range)
        };
        let gone: Vec<_> = self.ranges.values().filter(|range| !is_there(range)).copied().collect();
        for CachedRange { base, number, .. } in gone {
            self.ranges.remove(&base);
            self.numbers[number] = None;
            for cache in
                self.vector.iter_mut().chain(&mut self.scalar).chain(&mut self.middle).chain([&mut self.shared])
            {
                cache.copies.get_mut(number).into_iter().for_each(|copy| *copy = None);
            }
        }
    }

    /// The range with a number.
    fn numbered(&self, number: usize) -> Option<CachedRange> {
        self.numbers[number].map(|base| self.ranges[&base])
    }

    fn range(&mut self, memory: &MemoryMap, address: u64) -> Option<CachedRange> {
        if let Some(range) = self.latest.filter(|range| (range.base..range.end).contains(&address)) {
            return Some(range);
        }
        let known = self.ranges.range(..=address).next_back().map(|(_, range)| *range);
        self.latest = known.filter(|range| address < range.end);
        if self.latest.is_none() {
            let number = self.numbers.iter().position(Option::is_none).unwrap_or(self.numbers.len());
            let range = CachedRange::new(number, &memory.reachable(address)?);
            self.numbers.resize(self.numbers.len().max(number + 1), None);
            self.numbers[number] = Some(range.base);
            self.ranges.insert(range.base, range);
            self.latest = Some(range);
        }
        self.latest
    }

    /// Address of a line for accesses that bypass shader arrays and dies.
    fn beyond_all(&mut self, range: CachedRange, line: u64) -> u64 {
        let host = range.host_line(line);
        if !range.is_shared {
            return host;
        }
        self.shared.read(range, line, host);
        self.shared.copy(range).address(line)
    }

    /// Address of a line for accesses that bypass a unit's caches.
    fn beyond_units(&mut self, half: usize, range: CachedRange, line: u64) -> u64 {
        let beyond = self.beyond_all(range, line);
        match self.between {
            Middle::Array => self.middle[half].read(range, line, beyond),
            Middle::Die if self.middle[half].written(range, line) != 0 => {
                self.middle[half].refresh(range, line, beyond)
            }
            _ => return beyond,
        }
        self.middle[half].copy(range).address(line)
    }

    /// Reads lines into the first cache of a path, and returns their address there.
    fn read(&mut self, unit: usize, path: Path, range: CachedRange, address: u64, size: u64) -> u64 {
        let half = unit % HALVES;
        for line in (address / LINE * LINE..address + size).step_by(LINE as usize) {
            if !self.first(unit, path).has(range, line) {
                let source = self.beyond_units(half, range, line);
                self.first(unit, path).read(range, line, source);
            }
        }
        self.first(unit, path).copy(range).address(address)
    }

    fn first(&mut self, unit: usize, path: Path) -> &mut Cache {
        if path == Path::Scalar { &mut self.scalar[unit % HALVES] } else { &mut self.vector[unit] }
    }

    /// Writes a unit's stores back.
    fn write_back(&mut self, unit: usize, backing: Backing<'_>) {
        self.turns[unit] = 0;
        let accesses = Accesses::new(backing.host_writes);
        let half = unit % HALVES;
        for (number, line, bytes) in self.vector[unit].take_written() {
            let Some(range) = self.numbered(number) else { continue };
            let source = self.vector[unit].copy(range).address(line);
            if self.between == Middle::Array {
                self.middle[half].remove(range, line);
            }
            if range.is_shared {
                let next = if self.between == Middle::Die { &mut self.middle[half] } else { &mut self.shared };
                let copy = next.copy(range);
                copy.write(line, bytes);
                move_bytes(source, copy.address(line), bytes);
            } else {
                accesses.begin(range.base, line.max(range.base)..(line + LINE).min(range.end));
                move_bytes(source, range.host_line(line), bytes);
            }
        }
    }

    /// Writes a die's stores back, if there are dies.
    fn write_back_die(&mut self, half: usize) {
        for (number, line, bytes) in self.middle[half].take_written() {
            let Some(range) = self.numbered(number) else { continue };
            let copy = self.shared.copy(range);
            copy.write(line, bytes);
            move_bytes(self.middle[half].copy(range).address(line), copy.address(line), bytes);
        }
    }

    /// Performs an access that bypasses the unit's caches, and returns the address of its memory.
    fn pass_units(
        &mut self,
        unit: usize,
        (path, access): (Path, Access),
        range: CachedRange,
        (address, host, size): (u64, u64, u64),
    ) -> u64 {
        let half = unit % HALVES;
        let is_read = access == Access::Read;
        // A die's bytes are where all of the access can be served from, or nowhere.
        let in_middle = is_read
            && match self.between {
                Middle::Array => path == Path::Array,
                Middle::Die => lines(address, size).any(|(line, _)| self.middle[half].written(range, line) != 0),
                Middle::Nothing => false,
            };
        for (line, bytes) in lines(address, size) {
            let beyond = self.beyond_all(range, line);
            if in_middle && self.between == Middle::Array {
                self.middle[half].read(range, line, beyond);
            } else if in_middle {
                self.middle[half].refresh(range, line, beyond);
            } else if !is_read {
                self.vector[unit].remove(range, line);
                if self.between == Middle::Die {
                    let copy = self.middle[half].copy(range);
                    let written = copy.line(line).written;
                    if written & bytes != 0 {
                        move_bytes(copy.address(line), beyond, written & bytes);
                        copy.line_mut(line).written = written & !bytes;
                    }
                } else {
                    self.middle[half].remove(range, line);
                }
                if range.is_shared {
                    self.shared.copy(range).write(line, bytes);
                }
            }
        }
        match (in_middle, range.is_shared) {
            (true, _) => self.middle[half].copy(range).address(address),
            (false, true) => self.shared.copy(range).address(address),
            (false, false) => host,
        }
    }

    fn write_back_shared(&mut self, backing: Backing<'_>) {
        let accesses = Accesses::new(backing.host_writes);
        for (number, line, bytes) in self.shared.take_written() {
            let Some(range) = self.numbered(number) else { continue };
            accesses.begin(range.base, line.max(range.base)..(line + LINE).min(range.end));
            move_bytes(self.shared.copy(range).address(line), range.host_line(line), bytes);
        }
    }

    /// Writes back, and then invalidates, the caches of `units` and the ones beyond, as `control` says.
    fn control(&mut self, units: Range<usize>, backing: Backing<'_>, control: Control) {
        for unit in units.clone().filter(|_| control.write_back) {
            self.write_back(unit, backing);
        }
        for unit in units {
            let half = unit % HALVES;
            if control.write_back_die || control.write_back_shared {
                self.write_back_die(half);
            }
            if control.invalidate_vector {
                self.vector[unit].invalidate();
            }
            if control.invalidate_array {
                self.middle[half].invalidate();
            }
            if control.invalidate_scalar {
                self.scalar[half].invalidate();
            }
        }
        if control.write_back_shared {
            self.write_back_shared(backing);
        }
        if control.invalidate_shared {
            self.shared.invalidate();
        }
    }

    /// Begins a turn of a unit's wave: writes back overdue stores, and with a seed makes random write-backs and
    /// invalidations.
    fn begin(&mut self, unit: usize, backing: Backing<'_>) {
        for unit in 0..UNITS {
            self.turns[unit] += 1;
            if self.turns[unit] > TURNS {
                self.write_back(unit, backing);
            }
        }
        let Some(random) = &mut self.random else { return };
        match random.below(32) {
            0 | 1 => self.write_back(unit, backing),
            2 | 3 => self.vector[unit].invalidate(),
            4 => self.scalar[unit % HALVES].invalidate(),
            5 => self.shared.invalidate(),
            6 => self.write_back_shared(backing),
            7 => self.middle[unit % HALVES].invalidate(),
            8 => self.write_back_die(unit % HALVES),
            _ => {}
        }
    }
}

/// The memory behind caches, and the host writes to it that are not flushed.
#[derive(Clone, Copy)]
pub struct Backing<'a> {
    /// The memory map.
    pub memory: &'a MemoryMap,
    /// The host writes.
    pub host_writes: &'a HostWrites,
}

/// The caches of an agent, together with the memory behind them.
pub struct Cached<'a> {
    /// The agent's caches.
    pub caches: &'a AgentCaches,
    /// The memory behind them.
    pub backing: Backing<'a>,
    /// Compute unit of a dispatch's first workgroup. Further workgroups have the units that follow.
    pub first_unit: u64,
    /// True if the waves of a workgroup run on two units of the same half.
    pub has_two_units: bool,
}

impl sim_wave::Caches for Cached<'_> {
    fn turn(&self, workgroup: u64, wave: u32) -> Box<dyn Turn + '_> {
        let place = self.first_unit.wrapping_add(workgroup) as usize;
        let unit = match self.has_two_units {
            true => place % HALVES + HALVES * (wave as usize % (UNITS / HALVES)),
            false => place % UNITS,
        };
        let mut state = self.caches.0.lock();
        state.follow(self.backing.memory);
        state.begin(unit, self.backing);
        Box::new(UnitTurn { state: Some(state), backing: self.backing, unit, read: None })
    }
}

struct UnitTurn<'a> {
    /// Lock of the caches during the turn; `None` on drop.
    state: Option<MutexGuard<'a, State>>,
    backing: Backing<'a>,
    unit: usize,
    /// The line that was read last, and its host address, if it is whole: lanes read the same ones again and again.
    read: Option<(Path, u64, u64)>,
}

impl Drop for UnitTurn<'_> {
    fn drop(&mut self) {
        self.state.take().into_iter().for_each(MutexGuard::unlock_fair);
    }
}

impl Turn for UnitTurn<'_> {
    fn access(&mut self, address: u64, host: u64, size: u64, access: Access, path: Path) -> u64 {
        let (unit, backing) = (self.unit, self.backing);
        let line = address / LINE * LINE;
        if let Some((of, there, host)) = self.read
            && (access, path, line) == (Access::Read, of, there)
            && address + size <= line + LINE
        {
            return host + (address - line);
        }
        let Some(state) = self.state.as_deref_mut() else { return host };
        let Some(range) = state.range(backing.memory, address).filter(|range| address + size <= range.end) else {
            return host;
        };
        match (path, access) {
            (Path::Vector, Access::Write) => {
                let copy = state.vector[unit].copy(range);
                lines(address, size).for_each(|(line, bytes)| copy.write(line, bytes));
                copy.address(address)
            }
            (Path::Vector | Path::Scalar, Access::Read) => {
                let at = state.read(unit, path, range, address, size);
                let is_whole = line >= range.base && line + LINE <= range.end;
                self.read = is_whole.then(|| (path, line, at - (address - line)));
                at
            }
            _ => {
                self.read = None;
                state.write_back(unit, backing);
                state.pass_units(unit, (path, access), range, (address, host, size))
            }
        }
    }

    fn control(&mut self, control: Control) {
        self.read = None;
        if let Some(state) = self.state.as_deref_mut() {
            state.control(self.unit..self.unit + 1, self.backing, control);
        }
    }
}
