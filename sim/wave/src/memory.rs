// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host memory as a kernel sees it: ranges with access rights, looked up through a small cache.

use crate::fault::{Access, FaultKind};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of addresses with uniform access rights for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Host address of `base`.
    pub host: u64,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores are allowed; atomics need both.
    pub writable: bool,
}

impl Region {
    fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => self.readable,
            Access::Write => self.writable,
            Access::Atomic => self.readable && self.writable,
        }
    }
}

/// The address space of an agent.
///
/// Called from every thread that runs waves.
pub trait Memory: Sync {
    /// The region that holds `addr`, or `None` if nothing is mapped there. The region must stay mapped in this process
    /// until [`Memory::generation`] changes and the accesses in flight are over: the caller reads and writes it at its
    /// host address.
    fn region(&self, addr: u64) -> Option<Region>;

    /// A number that changes, with release semantics, whenever a region is removed, shrunk or loses rights.
    fn generation(&self) -> &AtomicU64;

    /// Model of the caches in front of the memory; `None` if all of it is coherent.
    fn caches(&self) -> Option<&dyn Caches> {
        None
    }
}

/// Caches that may serve an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// All caches of its compute unit for vector memory.
    Vector,
    /// All caches except its compute unit's own.
    Array,
    /// All caches of its compute unit for scalar memory.
    Scalar,
    /// The caches that the agent's compute units share.
    Shared,
}

/// Cache operations of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Invalidates the compute unit's vector caches.
    pub invalidate_vector: bool,
    /// Invalidates the shader array's caches.
    pub invalidate_array: bool,
    /// Invalidates the compute unit's scalar caches.
    pub invalidate_scalar: bool,
    /// Invalidates the caches that the agent's compute units share.
    pub invalidate_shared: bool,
    /// Writes the compute unit's stores back to the shared caches.
    pub write_back: bool,
    /// Writes the die's stores back to where the agent's other dies see them.
    pub write_back_die: bool,
    /// Writes the shared caches back to memory.
    pub write_back_shared: bool,
}

/// Use of caches by an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caching {
    /// Path through the caches, if it accesses memory.
    pub path: Path,
    /// Cache operations of the preceding instructions that did nothing else.
    pub before: Control,
}

/// The caches of an agent.
pub trait Caches: Sync {
    /// Acquires the caches for a turn of wave `wave` of workgroup `workgroup`, which ends when other waves run.
    fn turn(&self, workgroup: u64, wave: u32) -> Box<dyn Turn + '_>;

    /// True if other workgroups cannot use the caches during a turn.
    fn are_exclusive(&self) -> bool {
        true
    }
}

/// The caches during one wave's turn. No other wave uses them meanwhile.
pub trait Turn {
    /// Host address of the bytes that serve an access of `size` bytes at `address`. The host address of memory itself
    /// is `host`.
    /// Valid until the turn ends.
    fn access(&mut self, address: u64, host: u64, size: u64, access: Access, path: Path) -> u64;

    /// Loads or stores of `size` bytes at `base` plus each offset, all within `span`, in the order of the offsets, by
    /// way of [`Path::Vector`]. Returns the offset from addresses to the host addresses of the bytes that serve them.
    /// `None` if there is not one for all; nothing has been accessed then.
    fn access_all(&mut self, _base: u64, _offsets: &[u32], _size: u64, _span: Range<u64>, _: Access) -> Option<u64> {
        None
    }

    /// Executes cache operations.
    fn control(&mut self, control: Control);
}

const ENTRIES: usize = 8;

const EMPTY: Region = Region { base: 1, size: 0, host: 1, readable: false, writable: false };

/// One thread's view of a [`Memory`].
pub(crate) struct Translator<'a> {
    memory: &'a dyn Memory,
    /// The memory's generation.
    current: &'a AtomicU64,
    /// The generation that the entries are of.
    generation: u64,
    entries: [Region; ENTRIES],
    /// Entry to replace next.
    victim: usize,
    /// Caches in between, while a wave runs.
    turn: Option<Box<dyn Turn + 'a>>,
    /// Caches that may serve the current instruction.
    path: Path,
}

impl<'a> Translator<'a> {
    pub fn new(memory: &'a dyn Memory) -> Self {
        let current = memory.generation();
        Translator {
            memory,
            current,
            generation: current.load(Ordering::Acquire),
            entries: [EMPTY; ENTRIES],
            victim: 0,
            turn: None,
            path: Path::Vector,
        }
    }

    /// Acquires the caches for a wave of `workgroup` until [`Translator::end_turn`]. Returns false if there are none.
    pub fn begin_turn(&mut self, workgroup: u64, wave: u32) -> bool {
        self.turn = self.memory.caches().map(|caches| caches.turn(workgroup, wave));
        self.turn.is_some()
    }

    pub fn end_turn(&mut self) {
        self.turn = None;
    }

    /// Prepares for an instruction.
    pub fn cache(&mut self, caching: &Caching) {
        self.path = caching.path;
        if caching.before != Control::default()
            && let Some(turn) = &mut self.turn
        {
            turn.control(caching.before);
        }
    }

    /// The region of `addr`, from the cache if it may still be trusted.
    #[inline]
    fn region(&mut self, addr: u64) -> Option<Region> {
        let generation = self.current.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.entries = [EMPTY; ENTRIES];
        }
        for entry in &self.entries {
            if addr.wrapping_sub(entry.base) < entry.size {
                return Some(*entry);
            }
        }
        self.miss(addr)
    }

    #[cold]
    fn miss(&mut self, addr: u64) -> Option<Region> {
        let region = self.memory.region(addr)?;
        if addr.wrapping_sub(region.base) >= region.size {
            return None;
        }
        self.entries[self.victim] = region;
        self.victim = (self.victim + 1) % ENTRIES;
        Some(region)
    }

    /// The memory's generation.
    pub fn generation(&self) -> &'a AtomicU64 {
        self.current
    }

    /// The region of `addr`, with the generation in which it is that. `None` unless it allows `access`, without caches
    /// in between.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[inline]
    pub fn region_of(&mut self, addr: u64, access: Access) -> Option<(Region, u64)> {
        if self.turn.is_some() {
            return None;
        }
        let region = self.region(addr).filter(|region| region.allows(access))?;
        Some((region, self.generation))
    }

    /// Host address of `addr..addr + size`, if all of it lies in one region that allows `access`; else the reason. That
    /// of the memory itself, not of a cache.
    #[inline]
    fn uncached(&mut self, addr: u64, size: u64, access: Access) -> Result<u64, &'static str> {
        let Some(mut region) = self.region(addr) else {
            return Err("nothing is mapped there");
        };
        if region.size - (addr - region.base) < size {
            // One that was found for an address in front may end sooner than this one's.
            region = self.miss(addr).unwrap_or(region);
        }
        let offset = addr - region.base;
        if region.size - offset < size {
            return Err("it crosses the end of its allocation");
        }
        if !region.allows(access) {
            return Err("the allocation does not allow this access");
        }
        Ok(region.host + offset)
    }

    /// [`Self::uncached`], or the address in the cache that serves the access.
    #[inline]
    fn host(&mut self, addr: u64, size: u64, access: Access) -> Result<u64, &'static str> {
        let host = self.uncached(addr, size, access)?;
        match &mut self.turn {
            None => Ok(host),
            Some(turn) => Ok(turn.access(addr, host, size, access, self.path)),
        }
    }

    /// Offset from addresses in `addr..addr + size` to host addresses, for a wrapping addition. `None` unless all of
    /// them lie in one region that allows `access`. With caches in between `None`, too, but for an access that
    /// `is_whole`, to all of these bytes, through its compute unit's cache alone, which serves it like one of each
    /// byte.
    #[inline]
    pub fn displacement(&mut self, addr: u64, size: u64, access: Access, is_whole: bool) -> Option<u64> {
        if self.turn.is_some() && !(is_whole && self.path == Path::Vector && access != Access::Atomic) {
            return None;
        }
        self.host(addr, size, access).ok().map(|host| host.wrapping_sub(addr))
    }

    /// True if accesses go through caches.
    #[inline]
    pub fn has_caches(&self) -> bool {
        self.turn.is_some()
    }

    /// [`Self::displacement`] with caches in between, for accesses of `size` bytes at `base` plus each offset, all
    /// within `span`. `None`, too, for accesses that do not go through their compute unit's cache alone.
    pub fn displacement_of_all(
        &mut self,
        (base, offsets): (u64, &[u32]),
        size: u64,
        span: Range<u64>,
        access: Access,
    ) -> Option<u64> {
        if self.path != Path::Vector || access == Access::Atomic {
            return None;
        }
        self.uncached(span.start, span.end - span.start, access).ok()?;
        self.turn.as_mut()?.access_all(base, offsets, size, span, access)
    }

    /// Checks one lane's access, and returns the host's address for it.
    #[inline]
    pub fn check(&mut self, address: u64, size: u32, access: Access, lane: usize) -> Result<u64, Box<FaultKind>> {
        self.host(address, u64::from(size), access)
            .map_err(|reason| Box::new(FaultKind::MemoryViolation { address, size, access, lane: lane as u32, reason }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Finds the first region that has an address, not the longest.
    struct Regions {
        regions: Mutex<Vec<Region>>,
        generation: AtomicU64,
    }

    impl Memory for Regions {
        fn region(&self, address: u64) -> Option<Region> {
            let regions = self.regions.lock().unwrap();
            regions.iter().find(|region| address.wrapping_sub(region.base) < region.size).copied()
        }

        fn generation(&self) -> &AtomicU64 {
            &self.generation
        }
    }

    impl Regions {
        fn of(regions: &[Region]) -> Self {
            Self { regions: Mutex::new(regions.to_vec()), generation: AtomicU64::new(0) }
        }
    }

    /// Where the host has it at twice the address.
    fn region(base: u64, end: u64) -> Region {
        Region { base, size: end - base, host: 2 * base, readable: true, writable: true }
    }

    /// The host's address, or why there is none.
    fn check(translator: &mut Translator<'_>, address: u64, size: u32, access: Access) -> Result<u64, &'static str> {
        translator.check(address, size, access, 0).map_err(|kind| match *kind {
            FaultKind::MemoryViolation { reason, .. } => reason,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn an_access_lies_in_one_region() {
        let memory = Regions::of(&[region(100, 200), region(200, 300)]);
        let mut translator = Translator::new(&memory);
        let mut read = |address, size| check(&mut translator, address, size, Access::Read);
        assert_eq!(read(99, 1), Err("nothing is mapped there"));
        assert_eq!(read(100, 4), Ok(200));
        assert_eq!(read(196, 4), Ok(296));
        assert_eq!(read(197, 4), Err("it crosses the end of its allocation"));
        assert_eq!(read(200, 100), Ok(400));
        assert_eq!(read(299, 1), Ok(499));
        assert_eq!(read(300, 1), Err("nothing is mapped there"));
    }

    /// As regions end where the host has written without a flush, or somewhere behind the address that they are for.
    #[test]
    fn a_region_of_an_address_in_front_may_end_sooner() {
        let memory = Regions::of(&[region(100, 150), region(120, 200)]);
        let mut translator = Translator::new(&memory);
        assert_eq!(check(&mut translator, 140, 4, Access::Read), Ok(240));
        assert_eq!(check(&mut translator, 148, 4, Access::Read), Err("it crosses the end of its allocation"));
        // Both are known now, and the first still ends there.
        memory.regions.lock().unwrap().swap(0, 1);
        assert_eq!(check(&mut translator, 148, 4, Access::Read), Ok(268));
        assert_eq!(check(&mut translator, 148, 60, Access::Read), Err("it crosses the end of its allocation"));
    }

    #[test]
    fn what_was_found_is_trusted_until_the_generation_changes() {
        let memory = Regions::of(&[region(100, 200)]);
        let mut translator = Translator::new(&memory);
        assert_eq!(check(&mut translator, 100, 4, Access::Read), Ok(200));
        memory.regions.lock().unwrap().clear();
        assert_eq!(check(&mut translator, 100, 4, Access::Read), Ok(200));
        memory.generation.fetch_add(1, Ordering::Relaxed);
        assert_eq!(check(&mut translator, 100, 4, Access::Read), Err("nothing is mapped there"));
    }

    #[test]
    fn a_region_allows_what_it_says() {
        let read_only = Region { writable: false, ..region(0, 8) };
        let write_only = Region { readable: false, ..region(8, 16) };
        let memory = Regions::of(&[read_only, write_only, region(16, 24)]);
        let mut translator = Translator::new(&memory);
        let allowed = [0, 8, 16].map(|address| {
            [Access::Read, Access::Write, Access::Atomic]
                .map(|access| check(&mut translator, address, 8, access) == Ok(2 * address))
        });
        assert_eq!(allowed, [[true, false, false], [false, true, false], [true, true, true]]);
    }

    /// More regions than there is room for.
    #[test]
    fn all_regions_are_found_again() {
        let regions: Vec<_> = (0..3 * ENTRIES as u64).map(|i| region(100 * i, 100 * i + 50)).collect();
        let memory = Regions::of(&regions);
        let mut translator = Translator::new(&memory);
        for base in regions.iter().chain(&regions).map(|region| region.base) {
            assert_eq!(translator.displacement(base + 49, 1, Access::Write, false), Some(base));
            assert_eq!(translator.displacement(base + 50, 1, Access::Write, false), None);
        }
    }
}
