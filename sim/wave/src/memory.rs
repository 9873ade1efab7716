// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host memory as a kernel sees it: ranges with access rights, looked up through a small cache.

use crate::fault::{Access, FaultKind};

/// A range of addresses that one kernel may access, all of it in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores are allowed; atomics need both.
    pub writable: bool,
}

/// The address space of an agent. Device addresses are host addresses.
///
/// Called from every thread that runs waves.
pub trait Memory: Sync {
    /// The region that holds `addr`, or `None` if nothing is mapped there. What is returned must stay mapped in this process until
    /// [`Memory::generation`] changes and the accesses in flight are over: the caller reads and writes it directly.
    fn region(&self, addr: u64) -> Option<Region>;

    /// A number that changes whenever a region is removed, shrunk or loses rights.
    fn generation(&self) -> u64;
}

const ENTRIES: usize = 8;

const EMPTY: Region = Region { base: 1, size: 0, readable: false, writable: false };

/// One thread's view of a [`Memory`].
pub(crate) struct Translator<'a> {
    memory: &'a dyn Memory,
    generation: u64,
    entries: [Region; ENTRIES],
    /// The entry replaced next.
    victim: usize,
}

impl<'a> Translator<'a> {
    pub fn new(memory: &'a dyn Memory) -> Self {
        Translator { memory, generation: memory.generation(), entries: [EMPTY; ENTRIES], victim: 0 }
    }

    /// The region of `addr`, from the cache if it may still be trusted.
    #[inline]
    fn region(&mut self, addr: u64) -> Option<Region> {
        let generation = self.memory.generation();
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

    /// Whether all of `addr..addr + size` lies in one region that allows `access`.
    #[inline]
    pub fn allows(&mut self, addr: u64, size: u64, access: Access) -> bool {
        self.violation(addr, size, access).is_none()
    }

    /// Why `addr..addr + size` may not be accessed; `None` if it may.
    #[inline]
    fn violation(&mut self, addr: u64, size: u64, access: Access) -> Option<&'static str> {
        let Some(region) = self.region(addr) else {
            return Some("nothing is mapped there");
        };
        if region.size - (addr - region.base) < size {
            return Some("it runs over the end of its allocation");
        }
        let allowed = match access {
            Access::Read => region.readable,
            Access::Write => region.writable,
            Access::Atomic => region.readable && region.writable,
        };
        (!allowed).then_some("the allocation does not allow this access")
    }

    /// Checks one lane's access.
    #[inline]
    pub fn check(&mut self, address: u64, size: u32, access: Access, lane: usize) -> Result<(), Box<FaultKind>> {
        match self.violation(address, u64::from(size), access) {
            None => Ok(()),
            Some(reason) => {
                Err(Box::new(FaultKind::MemoryViolation { address, size, access, lane: lane as u32, reason }))
            }
        }
    }
}
