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

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use hsa_abi::{HSA_GLOBAL_FLAG_COARSE_GRAINED, HsaFenceScope, HsaPointerType};
use parking_lot::{Mutex, MutexGuard};
use sim_wave::{Access, Control, Path, Turn};

use crate::machine::memory::allocation::{AllocationInfo, Mapping};
use crate::machine::memory::hdp::{Accesses, HostWrites};
use crate::machine::memory::map::MemoryMap;
use crate::machine::product::gpu::Gpu;
use crate::machine::product::random::Random;

/// Bytes of a cache line.
const LINE: u64 = 128;

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
    /// Generation of the memory map that the ranges belong to.
    generation: u64,
    /// Waves' turns since each unit's last write-back.
    turns: [u32; UNITS],
    random: Option<Random>,
}

/// A cached range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CachedRange {
    base: u64,
    end: u64,
    /// Host address of the base.
    host: u64,
    /// True if the L2 caches the range.
    is_shared: bool,
}

impl CachedRange {
    fn new(range: &AllocationInfo) -> Self {
        let is_coarse = range.global_flags & HSA_GLOBAL_FLAG_COARSE_GRAINED != 0;
        let is_shared = is_coarse && range.pointer_type == HsaPointerType::HSA;
        Self { base: range.base, end: range.base + range.size, host: range.host, is_shared }
    }

    /// Host address of a line. Its first bytes may be outside of the range.
    fn host_line(&self, line: u64) -> u64 {
        self.host.wrapping_add(line.wrapping_sub(self.base))
    }
}

#[derive(Debug, Default)]
struct Cache {
    /// Copies, by the base of their range.
    copies: BTreeMap<u64, Copied>,
    /// Counter of invalidations. A line from an earlier epoch is read again.
    epoch: u64,
}

/// A cache's copy of a range.
#[derive(Debug)]
struct Copied {
    /// Address of the range's first line.
    start: u64,
    data: Mapping,
    lines: HashMap<u64, Line>,
    /// Lines with written bytes.
    written: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The cache's epoch when the line was read, plus one; zero if it was not read.
    read: u64,
    /// Mask of the bytes that are not written back.
    written: u128,
}

impl Copied {
    fn new(range: CachedRange) -> io::Result<Self> {
        let start = range.base / LINE * LINE;
        let data = Mapping::new((range.end - start).next_multiple_of(LINE) as usize)?;
        Ok(Self { start, data, lines: HashMap::new(), written: Vec::new() })
    }

    fn address(&self, address: u64) -> u64 {
        self.data.base() as u64 + (address - self.start)
    }

    /// Marks bytes of a line as written.
    fn write(&mut self, line: u64, bytes: u128) {
        let state = self.lines.entry(line).or_default();
        if state.written == 0 {
            self.written.push(line);
        }
        state.written |= bytes;
    }
}

impl Cache {
    fn copy(&mut self, range: CachedRange) -> &mut Copied {
        self.copies.entry(range.base).or_insert_with(|| Copied::new(range).expect("memory for the copies in a cache"))
    }

    /// Reads a line from `source`, unless the cache has it. Keeps the bytes that were written here.
    fn read(&mut self, range: CachedRange, line: u64, source: u64) {
        let epoch = self.epoch + 1;
        let copy = self.copy(range);
        let state = copy.lines.entry(line).or_default();
        if state.read != epoch {
            state.read = epoch;
            let bytes = mask(line, &(line.max(range.base)..(line + LINE).min(range.end))) & !state.written;
            move_bytes(source, copy.address(line), bytes);
        }
    }

    /// True if the cache holds a valid copy of the line.
    fn has(&self, range: CachedRange, line: u64) -> bool {
        let state = self.copies.get(&range.base).and_then(|copy| copy.lines.get(&line));
        state.is_some_and(|state| state.read == self.epoch + 1)
    }

    /// Updates a line with written bytes from `source`, except for those bytes. Does nothing for other lines.
    fn refresh(&mut self, range: CachedRange, line: u64, source: u64) {
        self.copy(range).lines.entry(line).or_default().read = 0;
        self.read(range, line, source);
    }

    /// Mask of the bytes of a line that were written.
    fn written(&self, range: CachedRange, line: u64) -> u128 {
        self.copies.get(&range.base).and_then(|copy| copy.lines.get(&line)).map_or(0, |state| state.written)
    }

    /// Removes a line together with its written bytes.
    fn remove(&mut self, range: CachedRange, line: u64) {
        if let Some(copy) = self.copies.get_mut(&range.base) {
            copy.lines.remove(&line);
        }
    }

    fn invalidate(&mut self) {
        self.epoch += 1;
    }

    /// Returns all lines with written bytes: base of the range, line, mask. Clears the masks.
    fn take_written(&mut self) -> Vec<(u64, u64, u128)> {
        let mut taken = Vec::new();
        for (&base, copy) in &mut self.copies {
            for line in copy.written.drain(..) {
                if let Some(state) = copy.lines.get_mut(&line).filter(|state| state.written != 0) {
                    taken.push((base, line, std::mem::take(&mut state.written)));
                }
            }
        }
        taken
    }
}

/// Mask of `bytes`, which lie on `line`.
fn mask(line: u64, bytes: &Range<u64>) -> u128 {
    let (first, count) = (bytes.start - line, bytes.end - bytes.start);
    (u128::MAX >> (128 - count)) << first
}

/// Lines of an access, with masks of the accessed bytes.
fn lines(address: u64, size: u64) -> impl Iterator<Item = (u64, u128)> {
    let end = address + size;
    (address / LINE * LINE..end).step_by(LINE as usize).map(move |line| {
        let bytes = line.max(address)..(line + LINE).min(end);
        (line, mask(line, &bytes))
    })
}

/// Copies the bytes of a line whose bits are set, in pieces as large as alignment allows. The addresses are the line's.
fn move_bytes(source: u64, target: u64, mut bytes: u128) {
    while bytes != 0 {
        let at = bytes.trailing_zeros();
        let (from, to) = (source.wrapping_add(at.into()), target.wrapping_add(at.into()));
        let run = (bytes >> at).trailing_ones();
        let fits = |&size: &u32| run >= size && (from | to).is_multiple_of(size.into());
        let size = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        // SAFETY: both are mapped (a cache's copy, and memory that the machine's map has while packets run) and
        // aligned; volatile because others may access them at the same time.
        unsafe {
            match size {
                8 => (to as *mut u64).write_volatile((from as *const u64).read_volatile()),
                4 => (to as *mut u32).write_volatile((from as *const u32).read_volatile()),
                2 => (to as *mut u16).write_volatile((from as *const u16).read_volatile()),
                _ => (to as *mut u8).write_volatile((from as *const u8).read_volatile()),
            }
        }
        bytes &= !((u128::MAX >> (128 - size)) << at);
    }
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
        let is_there =
            |range: &CachedRange| memory.reachable(range.base).is_some_and(|found| CachedRange::new(&found) == *range);
        let gone: Vec<_> = self.ranges.values().filter(|range| !is_there(range)).map(|range| range.base).collect();
        for base in gone {
            self.ranges.remove(&base);
            for cache in
                self.vector.iter_mut().chain(&mut self.scalar).chain(&mut self.middle).chain([&mut self.shared])
            {
                cache.copies.remove(&base);
            }
        }
    }

    fn range(&mut self, memory: &MemoryMap, address: u64) -> Option<CachedRange> {
        let known = self.ranges.range(..=address).next_back().map(|(_, range)| *range);
        if let Some(range) = known.filter(|range| address < range.end) {
            return Some(range);
        }
        let range = CachedRange::new(&memory.reachable(address)?);
        self.ranges.insert(range.base, range);
        Some(range)
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
        for (line, _) in lines(address, size) {
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
        for (base, line, bytes) in self.vector[unit].take_written() {
            let Some(&range) = self.ranges.get(&base) else { continue };
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
                accesses.begin(base, line.max(range.base)..(line + LINE).min(range.end));
                move_bytes(source, range.host_line(line), bytes);
            }
        }
    }

    /// Writes a die's stores back, if there are dies.
    fn write_back_die(&mut self, half: usize) {
        for (base, line, bytes) in self.middle[half].take_written() {
            let Some(&range) = self.ranges.get(&base) else { continue };
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
                    let source = copy.address(line);
                    if let Some(state) = copy.lines.get_mut(&line) {
                        move_bytes(source, beyond, state.written & bytes);
                        state.written &= !bytes;
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
        for (base, line, bytes) in self.shared.take_written() {
            let Some(&range) = self.ranges.get(&base) else { continue };
            accesses.begin(base, line.max(range.base)..(line + LINE).min(range.end));
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
        Box::new(UnitTurn { state: Some(state), backing: self.backing, unit })
    }
}

struct UnitTurn<'a> {
    /// Lock of the caches during the turn; `None` on drop.
    state: Option<MutexGuard<'a, State>>,
    backing: Backing<'a>,
    unit: usize,
}

impl Drop for UnitTurn<'_> {
    fn drop(&mut self) {
        self.state.take().into_iter().for_each(MutexGuard::unlock_fair);
    }
}

impl Turn for UnitTurn<'_> {
    fn access(&mut self, address: u64, host: u64, size: u64, access: Access, path: Path) -> u64 {
        let (unit, backing) = (self.unit, self.backing);
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
            (Path::Vector | Path::Scalar, Access::Read) => state.read(unit, path, range, address, size),
            _ => {
                state.write_back(unit, backing);
                state.pass_units(unit, (path, access), range, (address, host, size))
            }
        }
    }

    fn control(&mut self, control: Control) {
        if let Some(state) = self.state.as_deref_mut() {
            state.control(self.unit..self.unit + 1, self.backing, control);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(memory: &mut [u8], base: u64) -> CachedRange {
        let host = memory.as_mut_ptr().expose_provenance() as u64;
        CachedRange { base, end: base + memory.len() as u64, host, is_shared: true }
    }

    fn byte(cache: &mut Cache, range: CachedRange, address: u64) -> u8 {
        let copy = cache.copy(range).address(address);
        // SAFETY: a byte of the cache's copy.
        unsafe { std::ptr::with_exposed_provenance::<u8>(copy as usize).read() }
    }

    #[test]
    fn a_cache_keeps_what_it_has_read_until_it_is_invalidated_and_what_was_written_longer() {
        let mut memory = vec![1; 300];
        // A range that neither begins nor ends with a line.
        let range = range(&mut memory, 1000);
        let line = 1024;
        let mut cache = Cache::default();
        cache.read(range, line, range.host_line(line));
        assert_eq!(byte(&mut cache, range, 1030), 1);
        memory[30..34].fill(2);
        cache.read(range, line, range.host_line(line));
        assert_eq!(byte(&mut cache, range, 1030), 1, "the line is there");
        cache.copy(range).write(line, mask(line, &(1031..1033)));
        cache.invalidate();
        cache.read(range, line, range.host_line(line));
        let seen = [1030, 1031, 1032, 1033].map(|address| byte(&mut cache, range, address));
        assert_eq!(seen, [2, 1, 1, 2], "the written bytes stay");
        assert_eq!(cache.take_written(), [(1000, line, 3 << 7)]);
        assert_eq!(cache.take_written(), []);
        for line in [896, 1280] {
            cache.read(range, line, range.host_line(line));
        }
        assert_eq!([1000, 1299].map(|address| byte(&mut cache, range, address)), [1, 1]);
    }

    #[test]
    fn an_access_touches_its_bytes_of_all_of_its_lines() {
        let touched: Vec<_> = lines(250, 10).collect();
        assert_eq!(touched, [(128, 0x3f << 122), (256, 0xf)]);
        assert_eq!(lines(256, 128).collect::<Vec<_>>(), [(256, u128::MAX)]);
    }

    #[test]
    fn bytes_are_moved_by_mask() {
        let (source, mut target) = ((0..=127).collect::<Vec<u8>>(), vec![0xff_u8; 128]);
        let masks = 0b1011 | 0xff << 8 | 0x7f << 17 | 1 << 127;
        let from = source.as_ptr().expose_provenance() as u64;
        move_bytes(from, target.as_mut_ptr().expose_provenance() as u64, masks);
        for (at, &byte) in target.iter().enumerate() {
            let expected = if masks >> at & 1 == 1 { at as u8 } else { 0xff };
            assert_eq!(byte, expected, "byte {at}");
        }
    }
}
