// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The virtual memory functions (`hsa_amd_vmem_*` of `hsa_ext_amd.h`): reserved address ranges, memory that is created
//! without an address, and mappings of the memory in the ranges.
//!
//! Memory is an anonymous file, so that it can be mapped at several addresses at once. Each mapping is an entry of the
//! memory map, without access until access is set.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use hsa_abi::{HsaPointerType, HsaStatus, HsaVmemAllocHandle};
use parking_lot::Mutex;

use crate::machine::agent_id::{AgentIndex, AgentMask, Pool};
use crate::machine::memory::allocation::{AllocationInfo, Mapping, PAGE};
use crate::machine::memory::map::MemoryMap;

/// Beginning of the files' names, as `/proc` shows them. The agent and the place of the pool among its pools follow.
const FILE_NAME: &str = "hsa-sim-vmem";

#[derive(Debug)]
struct Reservation {
    size: usize,
    mapping: Mapping,
}

#[derive(Debug)]
struct Memory {
    file: OwnedFd,
    size: usize,
    pool: Pool,
    released: bool,
    mapped: usize,
}

#[derive(Debug, Default)]
struct State {
    reservations: BTreeMap<u64, Reservation>,
    memories: HashMap<u64, Memory>,
    /// Size and the memory's handle, by address.
    mappings: BTreeMap<u64, (usize, u64)>,
    next_handle: u64,
}

impl State {
    /// Frees memory that is released and mapped nowhere.
    fn collect(&mut self, handle: u64) {
        if self.memories.get(&handle).is_some_and(|memory| memory.released && memory.mapped == 0) {
            self.memories.remove(&handle);
        }
    }

    /// The memory mapped at exactly these addresses.
    fn mapping(&self, base: u64, size: usize) -> Result<u64, HsaStatus> {
        let &(mapped, handle) = self.mappings.get(&base).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        if mapped == size { Ok(handle) } else { Err(HsaStatus::ERROR_INVALID_ARGUMENT) }
    }

    fn is_reserved(&self, base: u64, size: usize) -> bool {
        let around = self.reservations.range(..=base).next_back();
        around.is_some_and(|(start, reservation)| {
            (base - start).checked_add(size as u64).is_some_and(|end| end <= reservation.size as u64)
        })
    }

    fn is_free(&self, base: u64, size: usize) -> bool {
        let before = self.mappings.range(..base + size as u64).next_back();
        before.is_none_or(|(start, (bytes, _))| start + *bytes as u64 <= base)
    }
}

/// All reservations, memory and mappings.
#[derive(Debug, Default)]
pub struct Vmem(Mutex<State>);

fn out_of_resources(_: io::Error) -> HsaStatus {
    HsaStatus::ERROR_OUT_OF_RESOURCES
}

impl Vmem {
    /// Reserves `size` bytes of addresses, a multiple of the page size, at `wanted` if that is free.
    pub fn reserve(&self, size: usize, alignment: usize, wanted: Option<u64>) -> Result<u64, HsaStatus> {
        let alignment = if alignment == 0 { PAGE } else { alignment };
        if size == 0 || !size.is_multiple_of(PAGE) || alignment < PAGE || !alignment.is_power_of_two() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let mapping = Mapping::reserve(size, alignment, wanted).map_err(out_of_resources)?;
        let base = mapping.base() as u64;
        self.0.lock().reservations.insert(base, Reservation { size, mapping });
        Ok(base)
    }

    /// Frees a whole reservation. Nothing may be mapped in it.
    pub fn free(&self, map: &MemoryMap, base: u64, size: usize) -> Result<(), HsaStatus> {
        let reservation = {
            let mut state = self.0.lock();
            let reserved = state.reservations.get(&base).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?.size;
            if reserved != size {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            }
            if !state.is_free(base, size) {
                return Err(HsaStatus::ERROR_RESOURCE_FREE);
            }
            state.reservations.remove(&base)
        };
        map.retire(reservation.map(|reservation| reservation.mapping));
        Ok(())
    }

    /// Creates zeroed memory of a pool, without an address.
    pub fn create(&self, pool: Pool, size: usize, limit: u64) -> Result<HsaVmemAllocHandle, HsaStatus> {
        if size == 0 || !size.is_multiple_of(PAGE) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if !pool.allocatable() || size as u64 > limit {
            return Err(HsaStatus::ERROR_INVALID_ALLOCATION);
        }
        let name = format!("{FILE_NAME}-{}-{}\0", pool.owner.0, pool.slot);
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(name.as_ptr().cast(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), size as libc::off_t) } != 0 {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        let mut state = self.0.lock();
        state.next_handle += 1;
        let handle = state.next_handle;
        state.memories.insert(handle, Memory { file, size, pool, released: false, mapped: 0 });
        Ok(HsaVmemAllocHandle { handle })
    }

    /// Another descriptor of a memory's file. The file's name tells its pool, so that another process finds it.
    pub fn export(&self, handle: HsaVmemAllocHandle) -> Result<OwnedFd, HsaStatus> {
        let state = self.0.lock();
        let memory = state.memories.get(&handle.handle).filter(|memory| !memory.released);
        let file = &memory.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?.file;
        file.try_clone().map_err(out_of_resources)
    }

    /// Takes over memory of this process or another whose file is open as `fd`. `pool` finds an agent's pool by its
    /// position.
    pub fn import(
        &self,
        pool: impl Fn(usize, usize) -> Option<Pool>,
        fd: c_int,
    ) -> Result<HsaVmemAllocHandle, HsaStatus> {
        let foreign = HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS;
        let link = fs::read_link(format!("/proc/self/fd/{fd}")).map_err(|_| foreign)?;
        let name = link.to_str().and_then(|name| name.strip_prefix("/memfd:")?.strip_prefix(FILE_NAME));
        let name = name.ok_or(foreign)?.trim_end_matches(" (deleted)");
        let numbers: Vec<usize> = name.split('-').filter_map(|number| number.parse().ok()).collect();
        let &[owner, slot] = &*numbers else { return Err(foreign) };
        let pool = pool(owner, slot).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        // SAFETY: the descriptor was open just now; a bad one makes the call fail.
        let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(out_of_resources)?;
        let size =
            fs::File::from(file.try_clone().map_err(out_of_resources)?).metadata().map_err(out_of_resources)?.len();
        let mut state = self.0.lock();
        state.next_handle += 1;
        let handle = state.next_handle;
        let memory = Memory { file, size: size as usize, pool, released: false, mapped: 0 };
        state.memories.insert(handle, memory);
        Ok(HsaVmemAllocHandle { handle })
    }

    /// Releases memory. It is freed with its last mapping.
    pub fn release(&self, handle: HsaVmemAllocHandle) -> Result<(), HsaStatus> {
        let mut state = self.0.lock();
        let memory = state.memories.get_mut(&handle.handle).filter(|memory| !memory.released);
        memory.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?.released = true;
        state.collect(handle.handle);
        Ok(())
    }

    /// Maps all of a memory at reserved and unmapped addresses.
    pub fn map(&self, map: &MemoryMap, base: u64, size: usize, handle: HsaVmemAllocHandle) -> Result<(), HsaStatus> {
        let mut state = self.0.lock();
        if !state.is_reserved(base, size) || !state.is_free(base, size) || !base.is_multiple_of(PAGE as u64) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let memory = state.memories.get_mut(&handle.handle).filter(|memory| !memory.released && memory.size == size);
        let memory = memory.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: the range is part of a reservation, which is ours, and nothing is mapped in it.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::with_exposed_provenance_mut(base as usize),
                size,
                libc::PROT_NONE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                memory.file.as_raw_fd(),
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        let pool = memory.pool;
        memory.mapped += 1;
        state.mappings.insert(base, (size, handle.handle));
        drop(state);
        let info = AllocationInfo {
            pointer_type: HsaPointerType::HSA_VMEM,
            global_flags: pool.global_flags,
            ..AllocationInfo::new(base, size as u64, pool.owner, AgentMask::default())
        };
        map.insert(info.into());
        Ok(())
    }

    /// Undoes a whole mapping.
    pub fn unmap(&self, map: &MemoryMap, base: u64, size: usize) -> Result<(), HsaStatus> {
        let mut state = self.0.lock();
        let handle = state.mapping(base, size)?;
        state.mappings.remove(&base);
        if let Some(memory) = state.memories.get_mut(&handle) {
            memory.mapped -= 1;
        }
        state.collect(handle);
        drop(state);
        map.remove(base, |_| true);
        map.hide(base, size);
        Ok(())
    }

    /// Changes the rights of some agents to a whole mapping: read, write.
    pub fn set_access(
        &self,
        map: &MemoryMap,
        base: u64,
        size: usize,
        rights: &[(AgentIndex, bool, bool)],
    ) -> Result<(), HsaStatus> {
        let state = self.0.lock();
        state.mapping(base, size)?;
        // The host runs the kernels of all agents, whose rights the memory map has.
        // SAFETY: the mapping was made by `map` and is still there.
        let result = unsafe {
            let base = std::ptr::with_exposed_provenance_mut(base as usize);
            libc::mprotect(base, size, libc::PROT_READ | libc::PROT_WRITE)
        };
        if result != 0 {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        drop(state);
        map.set_rights(base, rights);
        Ok(())
    }

    /// Changes the rights of some agents to the mapping that contains `address`, and to the adjacent mappings behind
    /// it.
    pub fn allow(&self, map: &MemoryMap, address: u64, rights: &[(AgentIndex, bool, bool)]) -> Result<(), HsaStatus> {
        let run = {
            let state = self.0.lock();
            let around = state.mappings.range(..=address).next_back();
            let (&start, _) = around
                .filter(|(start, (bytes, _))| address - **start < *bytes as u64)
                .ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
            let mut next = start;
            let follows = |&(&base, &(bytes, _)): &(&u64, &(usize, u64))| {
                let follows = base == next;
                next = base + bytes as u64;
                follows
            };
            let run = state.mappings.range(start..).take_while(follows);
            run.map(|(&base, &(bytes, _))| (base, bytes)).collect::<Vec<_>>()
        };
        run.into_iter().try_for_each(|(base, bytes)| self.set_access(map, base, bytes, rights))
    }

    /// All reservations: base and size.
    pub fn reservations(&self) -> Vec<(u64, usize)> {
        self.0.lock().reservations.iter().map(|(&base, reservation)| (base, reservation.size)).collect()
    }

    /// All memory that is not released: handle, size and owner.
    pub fn memories(&self) -> Vec<(u64, usize, AgentIndex)> {
        let state = self.0.lock();
        let kept = state.memories.iter().filter(|(_, memory)| !memory.released);
        let mut kept: Vec<_> = kept.map(|(&handle, memory)| (handle, memory.size, memory.pool.owner)).collect();
        kept.sort_by_key(|&(handle, ..)| handle);
        kept
    }

    /// The reservation that contains `address`: base and size.
    pub fn reservation(&self, address: u64) -> Option<(u64, usize)> {
        let state = self.0.lock();
        let (&base, reservation) = state.reservations.range(..=address).next_back()?;
        (address - base < reservation.size as u64).then_some((base, reservation.size))
    }
}
