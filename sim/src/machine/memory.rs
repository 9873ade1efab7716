// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The memory map: which bytes exist and which agent may access them.
//!
//! All memory is host memory and an address means the same for the host and every agent. Each
//! allocation is its own mapping between two guard pages, so that a host overrun faults at the page
//! after it; agents are held to the exact byte range that was asked for.
//!
//! Memory that is freed while a dispatch runs leaves the map at once but is unmapped only when no
//! dispatch runs any more: a racing kernel gets a fault with an address, not the host a SIGSEGV.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::{HsaPointerType, HsaStatus};
use parking_lot::{Mutex, RwLock};

use super::agent::{AgentIndex, AgentMask};

/// Bytes of a page; granule and alignment of every pool.
pub const PAGE: usize = 4096;

/// Addresses up to this far behind an allocation are described by it.
const GUARDED: u64 = 1 << 20;

/// Where memory is mapped if possible. Addresses go up from one mapping to the next, so that a freed
/// one is not soon reused and an access to it is seen.
const ADDRESSES: Range<u64> = 32 << 40..96 << 40;

static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(ADDRESSES.start);

/// Zeroed host memory between two inaccessible guard pages; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: usize,
    pages: usize,
}

impl Mapping {
    /// Maps at least `size` bytes.
    pub fn new(size: usize) -> io::Result<Self> {
        let pages = size.max(1).div_ceil(PAGE);
        let total = pages.checked_add(2).and_then(|pages| pages.checked_mul(PAGE)).ok_or(io::ErrorKind::OutOfMemory)?;
        // A hint that is taken, or beyond what the host can map, is ignored.
        let hint = NEXT_ADDRESS.fetch_add(total as u64, Ordering::Relaxed) % ADDRESSES.end;
        let hint = hint.max(ADDRESSES.start) as usize;
        // SAFETY: an anonymous mapping without MAP_FIXED touches no other memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::with_exposed_provenance_mut(hint),
                total,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self { base: start.expose_provenance() + PAGE, pages };
        // SAFETY: the range lies inside the mapping just made.
        let result = unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(mapping.base),
                pages * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    /// Address of the first usable byte, page-aligned.
    pub fn base(&self) -> usize {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, guard pages included, and nothing else owns it.
        unsafe {
            libc::munmap(std::ptr::with_exposed_provenance_mut(self.base - PAGE), (self.pages + 2) * PAGE);
        }
    }
}

/// A range of bytes in the map.
#[derive(Debug)]
pub struct Allocation {
    /// First address.
    pub base: u64,
    /// Bytes that agents may access.
    pub size: u64,
    /// Agents that may access it.
    pub access: AgentMask,
    /// Whether agents may write.
    pub writable: bool,
    /// What `hsa_amd_pointer_info` says it is.
    pub pointer_type: HsaPointerType,
    /// The agent whose memory it is.
    pub owner: AgentIndex,
    /// `HSA_GLOBAL_FLAG_*` of its pool.
    pub global_flags: u32,
    /// Whether `hsa_amd_memory_pool_free` may free it: it came from a pool.
    pub from_pool: bool,
    /// The mapping behind it, if it is this entry's own.
    pub mapping: Option<Mapping>,
}

impl Allocation {
    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size
    }

    fn info(&self) -> AllocationInfo {
        AllocationInfo {
            base: self.base,
            size: self.size,
            access: self.access,
            writable: self.writable,
            pointer_type: self.pointer_type,
            owner: self.owner,
            global_flags: self.global_flags,
        }
    }
}

/// An [`Allocation`]'s properties.
#[derive(Clone, Copy, Debug)]
pub struct AllocationInfo {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Agents that may access it.
    pub access: AgentMask,
    /// Whether agents may write.
    pub writable: bool,
    /// What `hsa_amd_pointer_info` says it is.
    pub pointer_type: HsaPointerType,
    /// The agent whose memory it is.
    pub owner: AgentIndex,
    /// `HSA_GLOBAL_FLAG_*` of its pool.
    pub global_flags: u32,
}

/// A range of the host's own memory that is locked for agents.
#[derive(Debug)]
struct Lock {
    range: Allocation,
    count: usize,
}

/// Memory that left the map while dispatches ran.
#[derive(Debug, Default)]
struct Quarantine {
    running: usize,
    mappings: Vec<Mapping>,
}

/// Every range of memory that an agent can know of.
#[derive(Debug, Default)]
pub struct MemoryMap {
    ranges: RwLock<BTreeMap<u64, Allocation>>,
    locks: RwLock<Vec<Lock>>,
    generation: AtomicU64,
    quarantine: Mutex<Quarantine>,
}

impl MemoryMap {
    /// Adds a range; it must not overlap another.
    pub fn insert(&self, allocation: Allocation) {
        self.ranges.write().insert(allocation.base, allocation);
    }

    /// Removes the range that starts at `base`, if `wanted` agrees, and returns what it was.
    pub fn remove(&self, base: u64, wanted: impl FnOnce(&Allocation) -> bool) -> Option<AllocationInfo> {
        let allocation = {
            let mut ranges = self.ranges.write();
            if !wanted(ranges.get(&base)?) {
                return None;
            }
            ranges.remove(&base)?
        };
        self.changed();
        let info = allocation.info();
        self.retire(allocation.mapping);
        Some(info)
    }

    /// Unmaps memory that is no longer in the map, now or when the last running dispatch ends.
    pub fn retire(&self, mapping: Option<Mapping>) {
        let mut quarantine = self.quarantine.lock();
        quarantine.mappings.extend(mapping);
        if quarantine.running == 0 {
            quarantine.mappings.clear();
        }
    }

    /// Marks a dispatch as running until the guard is dropped.
    pub fn dispatch(&self) -> DispatchGuard<'_> {
        self.quarantine.lock().running += 1;
        DispatchGuard(self)
    }

    /// The range that contains `address`.
    pub fn find(&self, address: u64) -> Option<AllocationInfo> {
        if let Some((_, range)) = self.ranges.read().range(..=address).next_back()
            && range.contains(address)
        {
            return Some(range.info());
        }
        let locks = self.locks.read();
        locks.iter().find(|lock| lock.range.contains(address)).map(|lock| lock.range.info())
    }

    /// Where `address` lies, for messages about an access by `agent`.
    pub fn describe(&self, address: u64, agent: AgentIndex) -> String {
        if let Some(AllocationInfo { base, size, access, owner, .. }) = self.find(address) {
            let place =
                format!("the address is byte {} of an allocation of {size} bytes of agent {}", address - base, owner.0);
            return match access.has(agent) {
                true => place,
                false => format!("{place} to which agent {} was given no access", agent.0),
            };
        }
        match self.ranges.read().range(..=address).next_back() {
            Some((base, range)) if address - base < range.size + GUARDED => format!(
                "the address is {} bytes past the end of an allocation of {} bytes",
                address - base - range.size,
                range.size
            ),
            _ => "the address is in no allocation".into(),
        }
    }

    /// Lets exactly `agents` and the owner access the range that starts at `base`.
    pub fn set_access(&self, base: u64, agents: AgentMask) -> Result<(), HsaStatus> {
        let mut ranges = self.ranges.write();
        let range = ranges.get_mut(&base).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        range.access = agents | AgentMask::of(range.owner);
        drop(ranges);
        self.changed();
        Ok(())
    }

    /// Locks host memory for `agents`; locking the same range again counts.
    pub fn lock(&self, base: u64, size: u64, agents: AgentMask, cpu: AgentIndex) {
        let mut locks = self.locks.write();
        let same = |lock: &&mut Lock| lock.range.base == base && lock.range.size == size;
        if let Some(lock) = locks.iter_mut().find(same) {
            lock.count += 1;
            lock.range.access = lock.range.access | agents;
            return;
        }
        locks.push(Lock {
            range: Allocation {
                base,
                size,
                access: agents | AgentMask::of(cpu),
                writable: true,
                pointer_type: HsaPointerType::LOCKED,
                owner: cpu,
                global_flags: hsa_abi::HSA_GLOBAL_FLAG_FINE_GRAINED,
                from_pool: false,
                mapping: None,
            },
            count: 1,
        });
    }

    /// Undoes one lock of the range that starts at `base`.
    pub fn unlock(&self, base: u64) -> Result<(), HsaStatus> {
        let mut locks = self.locks.write();
        let index = locks.iter().position(|lock| lock.range.base == base).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        locks[index].count -= 1;
        if locks[index].count == 0 {
            locks.swap_remove(index);
            drop(locks);
            self.changed();
        }
        Ok(())
    }

    /// Changes whenever a range that was found before may no longer be accessible.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Ranges that came from pools and are still there: how many and how many bytes.
    pub fn live(&self) -> (usize, u64) {
        let ranges = self.ranges.read();
        let live = ranges.values().filter(|range| range.from_pool);
        live.fold((0, 0), |(count, bytes), range| (count + 1, bytes + range.size))
    }

    /// Ranges of host memory that are locked.
    pub fn locked(&self) -> usize {
        self.locks.read().len()
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// While it lives, memory that leaves the map stays mapped.
#[derive(Debug)]
pub struct DispatchGuard<'a>(&'a MemoryMap);

impl Drop for DispatchGuard<'_> {
    fn drop(&mut self) {
        self.0.quarantine.lock().running -= 1;
        self.0.retire(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map_with(size: usize, access: AgentMask) -> (MemoryMap, u64) {
        let map = MemoryMap::default();
        let mapping = Mapping::new(size).unwrap();
        let base = mapping.base() as u64;
        map.insert(Allocation {
            base,
            size: size as u64,
            access,
            writable: true,
            pointer_type: HsaPointerType::HSA,
            owner: AgentIndex(1),
            global_flags: 0,
            from_pool: true,
            mapping: Some(mapping),
        });
        (map, base)
    }

    #[test]
    fn ranges_end_at_the_exact_byte() {
        let (map, base) = map_with(5, AgentMask::default());
        assert!(map.find(base - 1).is_none());
        assert_eq!(map.find(base + 4).unwrap().size, 5);
        assert!(map.find(base + 5).is_none());
    }

    #[test]
    fn freed_memory_outlives_running_dispatches() {
        let (map, base) = map_with(PAGE, AgentMask::default());
        let generation = map.generation();
        let dispatch = map.dispatch();
        assert!(map.remove(base, |range| range.from_pool).is_some());
        assert!(map.find(base).is_none());
        assert_ne!(map.generation(), generation);
        // SAFETY: the running dispatch keeps the page mapped, and no one else uses it.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(base as usize).write_volatile(1) };
        assert_eq!(map.quarantine.lock().mappings.len(), 1);
        drop(dispatch);
        assert!(map.quarantine.lock().mappings.is_empty());
    }

    #[test]
    fn access_is_replaced_but_never_taken_from_the_owner() {
        let (map, base) = map_with(16, AgentMask::of(AgentIndex(1)));
        map.set_access(base, AgentMask::of(AgentIndex(0))).unwrap();
        let access = map.find(base).unwrap().access;
        assert!(access.has(AgentIndex(0)) && access.has(AgentIndex(1)));
        map.set_access(base, AgentMask::default()).unwrap();
        assert!(!map.find(base).unwrap().access.has(AgentIndex(0)));
        assert_eq!(map.set_access(base + 1, AgentMask::default()), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
    }

    #[test]
    fn locks_nest() {
        let map = MemoryMap::default();
        let gpu = AgentMask::of(AgentIndex(1));
        map.lock(0x1000, 8, gpu, AgentIndex(0));
        map.lock(0x1000, 8, gpu, AgentIndex(0));
        map.unlock(0x1000).unwrap();
        assert!(map.find(0x1007).is_some());
        map.unlock(0x1000).unwrap();
        assert!(map.find(0x1007).is_none());
        assert_eq!(map.unlock(0x1000), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
    }
}
