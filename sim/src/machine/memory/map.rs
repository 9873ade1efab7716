// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The memory map: which bytes exist, and which agents may access them.
//!
//! All memory is host memory. An address means the same for the host and every agent, except for memory that is locked
//! without shared virtual memory, which agents see at another address. Each allocation is its own mapping between two
//! guard pages, so that a host overrun faults at the page behind it. Agents are limited to the exact byte range that
//! was requested.
//!
//! Memory that is freed while a dispatch runs leaves the map at once, but is unmapped only when no dispatch runs any
//! more: a racing kernel gets a fault with an address, instead of a SIGSEGV in the host.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::{HsaPointerType, HsaStatus};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::machine::agent_id::{AgentIndex, AgentMask, CPU};
use crate::machine::memory::allocation::{Allocation, AllocationInfo, Mapping, PAGE};
use crate::machine::memory::suballocations::SubAllocations;
use crate::machine::memory::svm::Svm;
use crate::machine::memory::uninitialized::Unwritten;

/// Addresses up to this distance behind an allocation are described as behind it.
const GUARDED: u64 = 1 << 20;

/// Number of freed allocations that are remembered for messages.
const FREED: usize = 4096;

/// A range of the host's own memory that is locked for agents.
#[derive(Debug)]
struct Lock {
    range: AllocationInfo,
    count: usize,
    /// Addresses for agents, if they differ from the host's.
    _moved: Option<Mapping>,
}

/// Mappings that left the map while dispatches ran.
#[derive(Debug, Default)]
struct Quarantine {
    running: usize,
    mappings: Vec<Mapping>,
}

/// An observer of memory that leaves the map. Called before the memory is unmapped, without a lock of the map.
pub trait OnFree: fmt::Debug + Send + Sync {
    /// The addresses of a range left the map.
    fn freed(&self, range: Range<u64>);
}

/// All ranges of memory that agents can access.
#[derive(Debug, Default)]
pub struct MemoryMap {
    ranges: RwLock<BTreeMap<u64, Allocation>>,
    locks: RwLock<Vec<Lock>>,
    /// Shared virtual memory: attributes of the host program's own memory.
    pub svm: Svm,
    /// Suballocations that programs have announced, for the check `bounds`.
    pub parts: SubAllocations,
    /// Uninitialized memory, for the check `init`.
    pub unwritten: Unwritten,
    generation: AtomicU64,
    quarantine: Mutex<Quarantine>,
    /// First addresses and sizes of freed allocations from pools, the latest first.
    freed: Mutex<VecDeque<(u64, u64)>>,
    /// Told of freed memory.
    on_free: Vec<Arc<dyn OnFree>>,
    /// Notified when the last running dispatch ends.
    rest: Condvar,
}

impl MemoryMap {
    /// Creates an empty map that tells observers of freed memory.
    pub fn new(on_free: Vec<Arc<dyn OnFree>>) -> Self {
        Self { on_free, ..Self::default() }
    }

    /// Adds a range; it must not overlap another.
    pub fn insert(&self, allocation: Allocation) {
        self.ranges.write().insert(allocation.info.base, allocation);
    }

    /// Removes the range that starts at `base`, if `wanted` returns true, and returns its properties.
    pub fn remove(&self, base: u64, wanted: impl FnOnce(&Allocation) -> bool) -> Option<AllocationInfo> {
        let allocation = {
            let mut ranges = self.ranges.write();
            if !wanted(ranges.get(&base)?) {
                return None;
            }
            ranges.remove(&base)?
        };
        self.parts.forget(base);
        self.unwritten.forget(base);
        self.changed();
        let info = allocation.info;
        for observer in &self.on_free {
            observer.freed(info.base..info.base + info.size);
        }
        if allocation.from_pool {
            let mut freed = self.freed.lock();
            freed.truncate(FREED - 1);
            freed.push_front((info.base, info.size));
        }
        self.retire(allocation.mapping);
        Some(info)
    }

    /// Unmaps memory that has left the map, now or at the end of the last running dispatch.
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

    /// Waits until no dispatch runs, and calls `work` while none can start.
    pub fn at_rest<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut quarantine = self.quarantine.lock();
        self.rest.wait_while(&mut quarantine, |quarantine| quarantine.running > 0);
        work()
    }

    /// The range that contains `address`.
    pub fn find(&self, address: u64) -> Option<AllocationInfo> {
        if let Some((_, range)) = self.ranges.read().range(..=address).next_back()
            && range.info.contains(address)
        {
            return Some(range.info);
        }
        let locks = self.locks.read();
        locks.iter().find(|lock| lock.range.contains(address)).map(|lock| lock.range)
    }

    /// The locked memory whose host addresses contain `address`.
    pub fn find_locked(&self, address: u64) -> Option<AllocationInfo> {
        let locks = self.locks.read();
        locks.iter().map(|lock| lock.range).find(|range| address.wrapping_sub(range.host) < range.size)
    }

    /// Memory that agents see at `address`: a range, or shared virtual memory of the host program.
    pub fn reachable(&self, address: u64) -> Option<AllocationInfo> {
        self.find(address).or_else(|| self.svm.find(address))
    }

    /// Describes the memory at `address`, for messages about an access by `agent`.
    pub fn describe(&self, address: u64, agent: AgentIndex) -> String {
        if let Some(AllocationInfo { base, size, access, owner, .. }) = self.find(address) {
            if let Some(place) = self.parts.describe(address, base..base + size) {
                return format!("the address is byte {} of an allocation of {size} bytes, {place}", address - base);
            }
            let place =
                format!("the address is byte {} of an allocation of {size} bytes of agent {}", address - base, owner.0);
            return match access.has(agent) {
                true => place,
                false => format!("{place} to which agent {} was given no access", agent.0),
            };
        }
        let is_in = |(base, size): &&(u64, u64)| address.wrapping_sub(*base) < *size;
        let freed = self.freed.lock().iter().find(is_in).copied();
        if let Some((base, size)) = freed {
            return format!("the address is byte {} of an allocation of {size} bytes that was freed", address - base);
        }
        match self.ranges.read().range(..=address).next_back() {
            Some((base, range)) if address - base < range.info.size + GUARDED => format!(
                "the address is {} bytes past the end of an allocation of {} bytes",
                address - base - range.info.size,
                range.info.size
            ),
            _ => "the address is in no allocation".into(),
        }
    }

    /// Describes the allocation at `address`, for messages; `None` if there is none.
    pub fn place(&self, address: u64) -> Option<String> {
        let AllocationInfo { base, size, .. } = self.find(address)?;
        let part = self.parts.describe(address, base..base + size);
        Some(part.unwrap_or_else(|| format!("byte {} of an allocation of {size} bytes", address - base)))
    }

    /// Suballocation in use that contains an address, or the whole allocation if it never had one.
    pub fn buffer(&self, address: u64) -> Option<Range<u64>> {
        let AllocationInfo { base, size, .. } = self.find(address)?;
        self.parts.around(address, base..base + size)
    }

    /// Words of 64 bits in a range inside one allocation, with their offsets in it; none for other ranges. The caller
    /// keeps memory mapped.
    pub fn words(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let within = |info: &AllocationInfo| range.end <= info.base + info.size;
        let Some(AllocationInfo { base, host, .. }) = self.reachable(range.start).filter(within) else {
            return Vec::new();
        };
        let word = |offset: u64| {
            let at: *const u64 = std::ptr::with_exposed_provenance((range.start + offset - base + host) as usize);
            // SAFETY: the word lies in the allocation just found, which stays mapped by the caller's word; volatile
            // because the host may write it at the same time.
            (offset, unsafe { at.read_volatile() })
        };
        (0..(range.end - range.start) / 8).map(|n| word(8 * n)).collect()
    }

    /// Sets the access to the range that starts at `base` to exactly `agents` and the owner. Not for mappings of the
    /// virtual memory functions.
    pub fn set_access(&self, base: u64, agents: AgentMask) -> Result<(), HsaStatus> {
        let mut ranges = self.ranges.write();
        let range = ranges
            .get_mut(&base)
            .map(|range| &mut range.info)
            .filter(|range| range.pointer_type != HsaPointerType::HSA_VMEM);
        let range = range.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        range.access = agents | AgentMask::of(range.owner);
        if range.access.has(CPU) {
            self.unwritten.forget(base);
        }
        drop(ranges);
        self.changed();
        Ok(())
    }

    /// Changes the rights of some agents to the range that starts at `base`: read, write.
    pub fn set_rights(&self, base: u64, rights: &[(AgentIndex, bool, bool)]) {
        if let Some(Allocation { info: range, .. }) = self.ranges.write().get_mut(&base) {
            for &(agent, read, write) in rights {
                let agent = AgentMask::of(agent);
                let set = |mask: AgentMask, on: bool| if on { mask | agent } else { mask.without(agent) };
                range.access = set(range.access, read || write);
                range.read_only = set(range.read_only, read && !write);
                range.write_only = set(range.write_only, write && !read);
            }
        }
        self.changed();
    }

    /// Attaches the host program's pointer to the range or the moved lock that starts at `base`. Returns true if there
    /// is one.
    pub fn set_user_data(&self, base: u64, user_data: usize) -> bool {
        if let Some(range) = self.ranges.write().get_mut(&base) {
            range.info.user_data = user_data;
            return true;
        }
        let mut locks = self.locks.write();
        let lock = locks.iter_mut().find(|lock| lock.range.base == base && lock.range.host != base);
        lock.map(|lock| lock.range.user_data = user_data).is_some()
    }

    /// Locks host memory for `agents`, with a host pool's `global_flags`. Returns its address for agents, a new one if
    /// it `moves`. Locks of the same range are counted.
    pub fn lock(
        &self,
        (host, size): (u64, u64),
        agents: AgentMask,
        cpu: AgentIndex,
        global_flags: u32,
        moves: bool,
    ) -> io::Result<u64> {
        let mut locks = self.locks.write();
        let same = |lock: &&mut Lock| lock.range.host == host && lock.range.size == size;
        if let Some(lock) = locks.iter_mut().find(same) {
            lock.count += 1;
            lock.range.access = lock.range.access | agents;
            return Ok(lock.range.base);
        }
        let in_page = host % PAGE as u64;
        let moved = moves.then(|| Mapping::reserve((in_page + size) as usize, PAGE, None)).transpose()?;
        let base = moved.as_ref().map_or(host, |mapping| mapping.base() as u64 + in_page);
        locks.push(Lock {
            range: AllocationInfo {
                host,
                pointer_type: HsaPointerType::LOCKED,
                global_flags,
                ..AllocationInfo::new(base, size, cpu, agents | AgentMask::of(cpu))
            },
            count: 1,
            _moved: moved,
        });
        Ok(base)
    }

    /// Undoes one lock of the memory that starts at the host address `host`.
    pub fn unlock(&self, host: u64) -> Result<(), HsaStatus> {
        let mut locks = self.locks.write();
        let index = locks.iter().position(|lock| lock.range.host == host).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        locks[index].count -= 1;
        if locks[index].count == 0 {
            locks.swap_remove(index);
            drop(locks);
            self.changed();
        }
        Ok(())
    }

    /// Generation of the map. It changes whenever a known range may have become inaccessible.
    pub fn generation(&self) -> &AtomicU64 {
        &self.generation
    }

    /// Allocations from pools.
    pub fn allocations(&self) -> Vec<AllocationInfo> {
        self.ranges.read().values().filter(|range| range.from_pool).map(|range| range.info).collect()
    }

    /// Ranges of a type, as `hsa_amd_pointer_info` reports it.
    pub fn of_type(&self, pointer_type: HsaPointerType) -> Vec<AllocationInfo> {
        let ranges = self.ranges.read();
        ranges.values().map(|range| range.info).filter(|info| info.pointer_type == pointer_type).collect()
    }

    /// Makes addresses that left the map inaccessible to the host too. If a dispatch may still access them, this is
    /// left to their unmapping.
    pub fn hide(&self, base: u64, size: usize) {
        let quarantine = self.quarantine.lock();
        if quarantine.running == 0 {
            // SAFETY: the range is part of a reservation of the virtual memory functions, which owns it,
            // and no kernel runs; a host program that still uses it was told not to.
            unsafe {
                libc::mmap(
                    std::ptr::with_exposed_provenance_mut(base as usize),
                    size,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    -1,
                    0,
                );
            }
        }
    }

    /// Locked ranges of host memory.
    pub fn locked(&self) -> Vec<AllocationInfo> {
        self.locks.read().iter().map(|lock| lock.range).collect()
    }

    /// Invalidates the parts of the map that kernels have cached.
    pub fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// Guard of a running dispatch. Memory that leaves the map stays mapped while a guard exists.
#[derive(Debug)]
pub struct DispatchGuard<'a>(&'a MemoryMap);

impl Drop for DispatchGuard<'_> {
    fn drop(&mut self) {
        let running = {
            let mut quarantine = self.0.quarantine.lock();
            quarantine.running -= 1;
            quarantine.running
        };
        if running == 0 {
            self.0.rest.notify_all();
        }
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
        let info = AllocationInfo::new(base, size as u64, AgentIndex(1), access);
        map.insert(Allocation { info, from_pool: true, mapping: Some(mapping) });
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
    fn freed_memory_is_named() {
        let (map, base) = map_with(16, AgentMask::default());
        assert!(map.remove(base, |range| range.from_pool).is_some());
        let place = map.describe(base + 15, AgentIndex(1));
        assert_eq!(place, "the address is byte 15 of an allocation of 16 bytes that was freed");
        assert_eq!(map.describe(base + 16, AgentIndex(1)), "the address is in no allocation");
    }

    #[test]
    fn freed_memory_outlives_running_dispatches() {
        let (map, base) = map_with(PAGE, AgentMask::default());
        let generation = map.generation().load(Ordering::Relaxed);
        let dispatch = map.dispatch();
        assert!(map.remove(base, |range| range.from_pool).is_some());
        assert!(map.find(base).is_none());
        assert_ne!(map.generation().load(Ordering::Relaxed), generation);
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
        for moves in [false, true] {
            let lock = || map.lock((0x1010, 8), gpu, AgentIndex(0), 0, moves).unwrap();
            let base = lock();
            assert_eq!(lock(), base);
            assert_eq!((base != 0x1010, base % PAGE as u64), (moves, 0x10));
            map.unlock(0x1010).unwrap();
            assert_eq!(map.find(base + 7).unwrap().host, 0x1010);
            assert_eq!(map.find(0x1010).is_some(), !moves);
            assert_eq!(map.find_locked(0x1017).unwrap().base, base);
            map.unlock(0x1010).unwrap();
            assert!(map.find(base).is_none() && map.find_locked(0x1010).is_none());
            assert_eq!(map.unlock(0x1010), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        }
    }
}
