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

/// Ranges that are found without a search: as many as a kernel's buffers mostly.
const LATEST: usize = 4;

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
    /// Ranges that were accessed lately, the last one first.
    latest: [Option<CachedRange>; LATEST],
    /// A range for each number that is in use.
    numbers: Vec<Option<CachedRange>>,
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
        Self(Mutex::new(State::new(between, seed.map(Random::new))))
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
                Access::Read => _ = state.beyond_all(range, line..line + LINE),
                Access::Write | Access::Atomic => state.shared.copy(range).write(line, bytes),
            }
        }
        act(state.shared.copy(range).address(address));
    }
}

impl State {
    fn new(between: Middle, random: Option<Random>) -> Self {
        Self {
            shared: Cache::default(),
            between,
            middle: Default::default(),
            vector: Default::default(),
            scalar: Default::default(),
            ranges: BTreeMap::new(),
            latest: [None; LATEST],
            numbers: Vec::new(),
            generation: 0,
            turns: [0; UNITS],
            random,
        }
    }

    /// Removes ranges that are no longer mapped, with their written bytes.
    fn follow(&mut self, memory: &MemoryMap) {
        let generation = memory.generation().load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        self.latest = [None; LATEST];
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

    fn range(&mut self, memory: &MemoryMap, address: u64) -> Option<CachedRange> {
        let has = |range: &CachedRange| (range.base..range.end).contains(&address);
        if let Some(at) = self.latest.iter().position(|range| range.as_ref().is_some_and(has)) {
            self.latest[..=at].rotate_right(1);
            return self.latest[0];
        }
        let known = self.ranges.range(..=address).next_back().map(|(_, range)| *range).filter(has);
        let range = match known {
            Some(range) => range,
            None => {
                let number = self.numbers.iter().position(Option::is_none).unwrap_or(self.numbers.len());
                let range = CachedRange::new(number, &memory.reachable(address)?);
                self.numbers.resize(self.numbers.len().max(number + 1), None);
                self.numbers[number] = Some(range);
                self.ranges.insert(range.base, range);
                range
            }
        };
        self.latest.rotate_right(1);
        self.latest[0] = Some(range);
        Some(range)
    }

    /// Address of the first of some lines for accesses that bypass shader arrays and dies.
    fn beyond_all(&mut self, range: CachedRange, lines: Range<u64>) -> u64 {
        let (first, host) = (lines.start, range.host_line(lines.start));
        if !range.is_shared {
            return host;
        }
        self.shared.read_lines(range, lines, host);
        self.shared.copy(range).address(first)
    }

    /// Reads lines that the first cache of a path lacks.
    fn fetch(&mut self, unit: usize, path: Path, range: CachedRange, lines: Range<u64>) {
        let half = unit % HALVES;
        let beyond = self.beyond_all(range, lines.clone());
        let middle = &mut self.middle[half];
        match self.between {
            Middle::Array => {
                middle.read_lines(range, lines.clone(), beyond);
                let source = middle.copy(range).address(lines.start);
                self.first(unit, path).read_lines(range, lines, source);
            }
            Middle::Die if middle.has_copy(range) => {
                for line in lines.clone().step_by(LINE as usize) {
                    let middle = &mut self.middle[half];
                    let mut source = beyond.wrapping_add(line - lines.start);
                    if middle.written(range, line) != 0 {
                        middle.refresh(range, line, source);
                        source = middle.copy(range).address(line);
                    }
                    self.first(unit, path).read(range, line, source);
                }
            }
            _ => self.first(unit, path).read_lines(range, lines, beyond),
        }
    }

    /// Reads lines into the first cache of a path, and returns their address there.
    fn read(&mut self, unit: usize, path: Path, range: CachedRange, address: u64, size: u64) -> u64 {
        let (mut line, end) = (address / LINE * LINE, (address + size).next_multiple_of(LINE));
        while line < end {
            let missing = self.first(unit, path).lacks(range, line..end);
            if !missing.is_empty() {
                self.fetch(unit, path, range, missing.clone());
            }
            // This one is there, or all are done.
            line = missing.end + LINE;
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
        let Self { vector, middle, shared, numbers, between, .. } = self;
        let middle = &mut middle[unit % HALVES];
        vector[unit].take_written(|number, line, source, bytes| {
            let Some(range) = numbers[number] else { return };
            if *between == Middle::Array {
                middle.remove(range, line);
            }
            if range.is_shared {
                let next = if *between == Middle::Die { &mut *middle } else { &mut *shared };
                let copy = next.copy(range);
                copy.write(line, bytes);
                move_bytes(source, copy.address(line), bytes);
            } else {
                accesses.begin(range.base, line.max(range.base)..(line + LINE).min(range.end));
                move_bytes(source, range.host_line(line), bytes);
            }
        });
    }

    /// Writes a die's stores back, if there are dies.
    fn write_back_die(&mut self, half: usize) {
        let Self { middle, shared, numbers, .. } = self;
        middle[half].take_written(|number, line, source, bytes| {
            let Some(range) = numbers[number] else { return };
            let copy = shared.copy(range);
            copy.write(line, bytes);
            move_bytes(source, copy.address(line), bytes);
        });
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
            let beyond = self.beyond_all(range, line..line + LINE);
            if in_middle && self.between == Middle::Array {
                self.middle[half].read(range, line, beyond);
            } else if in_middle {
                self.middle[half].refresh(range, line, beyond);
            } else if !is_read {
                self.vector[unit].remove(range, line);
                if self.between == Middle::Die {
                    let copy = self.middle[half].copy(range);
                    move_bytes(copy.address(line), beyond, copy.written(line) & bytes);
                    copy.forget_written(line, bytes);
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
        let Self { shared, numbers, .. } = self;
        shared.take_written(|number, line, source, bytes| {
            let Some(range) = numbers[number] else { return };
            accesses.begin(range.base, line.max(range.base)..(line + LINE).min(range.end));
            move_bytes(source, range.host_line(line), bytes);
        });
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

    fn access_all(&mut self, base: u64, offsets: &[u32], size: u64, span: Range<u64>, access: Access) -> Option<u64> {
        let (unit, backing) = (self.unit, self.backing);
        let state = self.state.as_deref_mut()?;
        let range = state.range(backing.memory, span.start).filter(|range| span.end <= range.end)?;
        let addresses = offsets.iter().map(|&offset| base.wrapping_add(offset.into()));
        // Lanes side by side are on one line mostly.
        let mut last = None;
        match access {
            Access::Read => {
                for address in addresses {
                    let line = address / LINE * LINE;
                    if last != Some(line) || address + size > line + LINE {
                        state.read(unit, Path::Vector, range, address, size);
                        last = Some(line);
                    }
                }
            }
            Access::Write => {
                let copy = state.vector[unit].copy(range);
                let mut written = 0;
                for (line, bytes) in addresses.flat_map(|address| lines(address, size)) {
                    if let Some(last) = last.filter(|&last| last != line) {
                        copy.write(last, written);
                        written = 0;
                    }
                    last = Some(line);
                    written |= bytes;
                }
                last.into_iter().for_each(|line| copy.write(line, written));
            }
            Access::Atomic => return None,
        }
        Some(state.vector[unit].copy(range).address(range.base).wrapping_sub(range.base))
    }

    fn control(&mut self, control: Control) {
        self.read = None;
        if let Some(state) = self.state.as_deref_mut() {
            state.control(self.unit..self.unit + 1, self.backing, control);
        }
    }
}

#[cfg(test)]
mod tests {
    use hsa_abi::{HSA_GLOBAL_FLAG_COARSE_GRAINED, HsaPointerType};

    use super::*;
    use crate::machine::agent_id::{AgentMask, CPU};
    use crate::machine::memory::allocation::AllocationInfo;

    /// First address of a range that does not begin with a line.
    const BASE: u64 = 0x10_0028;
    const SIZE: u64 = 16;

    /// Seen by loads, and left in memory, of some accesses, one lane after the other or all at once.
    fn outcome(between: Middle, global_flags: u32, at_once: bool) -> (Vec<u8>, Vec<u8>) {
        let mut bytes: Vec<u8> = (0..4096).map(|n| (n % 251) as u8).collect();
        let host = bytes.as_mut_ptr().expose_provenance() as u64;
        let range = AllocationInfo::new(BASE, bytes.len() as u64, CPU, AgentMask::ALL);
        let range = AllocationInfo { host, global_flags, pointer_type: HsaPointerType::HSA, ..range };
        let (memory, host_writes) = (MemoryMap::default(), HostWrites::default());
        let backing = Backing { memory: &memory, host_writes: &host_writes };
        let mut state = State::new(between, None);
        let range = CachedRange::new(0, &range);
        state.ranges.insert(BASE, range);
        state.numbers.push(Some(range));
        let state = Mutex::new(state);
        let mut turn = UnitTurn { state: Some(state.lock()), backing, unit: 1, read: None };
        let mut places = |offsets: &[u32], access: Access| -> Vec<*mut u8> {
            let all = BASE..BASE + 4096;
            let once = at_once.then(|| turn.access_all(BASE, offsets, SIZE, all, access).expect("a displacement"));
            let place = |&offset: &u32| {
                let address = BASE + u64::from(offset);
                let served = match once {
                    Some(displacement) => address.wrapping_add(displacement),
                    None => turn.access(address, host + u64::from(offset), SIZE, access, Path::Vector),
                };
                std::ptr::with_exposed_provenance_mut(served as usize)
            };
            offsets.iter().map(place).collect()
        };
        let mut seen = Vec::new();
        // Some are on two lines, some overlap, some are on a line of earlier ones.
        let (loads, stores) = ([0, 16, 80, 84, 1000, 2040, 3, 4080], [84, 90, 700, 2040, 100, 4080, 0]);
        for round in 0..3 {
            for (n, place) in (1..).zip(places(&stores, Access::Write)) {
                // SAFETY: the places of an access have its bytes until the turn ends.
                unsafe { place.write_bytes(100 * round + n, SIZE as usize) };
            }
            for place in places(&loads, Access::Read) {
                // SAFETY: as above.
                seen.extend_from_slice(unsafe { std::slice::from_raw_parts(place, SIZE as usize) });
            }
            // What others change meanwhile is not seen, but for lines that are not read yet.
            // SAFETY: bytes of the memory.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(host as usize + 1000).write(round) };
        }
        turn.control(Control { write_back: true, write_back_die: true, write_back_shared: true, ..Control::default() });
        drop(turn);
        (seen, bytes)
    }

    #[test]
    fn accesses_of_all_lanes_at_once_do_what_one_after_the_other_does() {
        for between in [Middle::Nothing, Middle::Array, Middle::Die] {
            for flags in [HSA_GLOBAL_FLAG_COARSE_GRAINED, 0] {
                let (one_by_one, at_once) = (outcome(between, flags, false), outcome(between, flags, true));
                assert!(one_by_one == at_once, "{between:?}, {flags}");
                assert_eq!(at_once.1[700], 203, "the last store of a byte is in memory");
            }
        }
    }
}
