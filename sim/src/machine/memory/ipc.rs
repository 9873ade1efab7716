// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Memory of other processes (`hsa_amd_ipc_memory_*`), and pages for signals of several processes.
//!
//! Allocations are private memory of their process. The first handle or DMA-BUF of an allocation moves its bytes to an
//! anonymous file, which is mapped at the same addresses, while no dispatch runs. A handle names the file by its
//! process and its descriptor there, so that it lasts as long as the allocation. Another process opens the file through
//! `/proc`. The page of a signal is such a file from the beginning.
//!
//! ROCR allocates device memory in blocks of [`DEVICE_BLOCK`] bytes, which small allocations share. The file is as
//! large as the block, and a small allocation is at its end, so that a program that ignores its offset reads other
//! bytes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::ptr;

use hsa_abi::{HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED, HsaIpcHandle, HsaPointerType, HsaStatus};
use parking_lot::Mutex;

use crate::machine::agent_id::{AgentIndex, AgentMask, CPU};
use crate::machine::memory::allocation::{Allocation, AllocationInfo, DEVICE_BLOCK, Mapping, PAGE};
use crate::machine::memory::map::{MemoryMap, OnFree};

/// Beginning of the names of allocations' files, as `/proc` shows them. Owner and flags of the allocation follow.
pub const FILE_NAME: &str = "hsa-sim-memory";

/// File of an allocation, and the allocation's offset in it.
#[derive(Debug)]
pub struct SharedFile {
    /// The file, of whole blocks.
    pub file: File,
    /// Bytes in front of the allocation.
    pub offset: u64,
}

/// Files of the allocations that have a handle or a DMA-BUF, by address. The lock is taken before that of running
/// dispatches.
#[derive(Debug, Default)]
pub struct SharedFiles(Mutex<BTreeMap<u64, SharedFile>>);

impl SharedFiles {
    /// Calls `use_file` with the file of the allocation `range`, which is moved there before if it was in none.
    pub fn with_file<T>(
        &self,
        memory: &MemoryMap,
        range: &AllocationInfo,
        use_file: impl FnOnce(&SharedFile) -> Result<T, HsaStatus>,
    ) -> Result<T, HsaStatus> {
        let mut files = self.0.lock();
        let file = match files.entry(range.base) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let file = memory.at_rest(|| move_to_file(range));
                let file = entry.insert(file.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?);
                // Other processes write it, unseen.
                memory.unwritten.forget(range.base);
                file
            }
        };
        use_file(file)
    }
}

impl OnFree for SharedFiles {
    /// Forgets an allocation. Its handles are invalid from now on.
    fn freed(&self, range: Range<u64>) {
        self.0.lock().remove(&range.start);
    }
}

/// A handle's contents.
struct Name {
    process: u32,
    fd: u32,
    /// Inode of the file, to detect that the descriptor became another file's.
    inode: u64,
    size: u64,
    owner: u32,
    global_flags: u32,
    /// Offset in the file, in pages.
    offset: u32,
}

impl Name {
    fn handle(&self) -> HsaIpcHandle {
        let low = |word: u64| word as u32;
        let high = |word: u64| (word >> 32) as u32;
        let (inode, size) = (self.inode, self.size);
        let place = self.owner | self.global_flags << 16;
        HsaIpcHandle {
            handle: [self.process, self.fd, low(inode), high(inode), low(size), high(size), place, self.offset],
        }
    }

    fn of(handle: &HsaIpcHandle) -> Self {
        let [process, fd, inode, inode_high, size, size_high, place, offset] = handle.handle;
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (inode, size) = (word(inode, inode_high), word(size, size_high));
        Self { process, fd, inode, size, owner: place & 0xffff, global_flags: place >> 16, offset }
    }

    /// Name of the whole file of a signal's page in this process.
    fn new(file: &File, size: u64, owner: AgentIndex, global_flags: u32) -> Result<Self, HsaStatus> {
        let inode = file.metadata().map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?.ino();
        let (process, fd, owner) = (std::process::id(), file.as_raw_fd() as u32, owner.0 as u32);
        Ok(Self { process, fd, inode, size, owner, global_flags, offset: 0 })
    }

    /// Bytes of the file in front of the allocation.
    fn file_offset(&self) -> u64 {
        u64::from(self.offset) * PAGE as u64
    }

    /// Opens the file, if it is still there.
    fn open(&self) -> Result<File, HsaStatus> {
        let invalid = |_: io::Error| HsaStatus::ERROR_INVALID_ARGUMENT;
        let path = format!("/proc/{}/fd/{}", self.process, self.fd);
        let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(invalid)?;
        let there = file.metadata().map_err(invalid)?;
        let end = self.size.next_multiple_of(PAGE as u64).checked_add(self.file_offset());
        let is_same = there.ino() == self.inode && end.is_some_and(|end| end <= there.len());
        if is_same { Ok(file) } else { Err(HsaStatus::ERROR_INVALID_ARGUMENT) }
    }
}

/// Makes a handle of the whole allocation at `base`, of `size` bytes or as many in whole pages.
pub fn create(files: &SharedFiles, memory: &MemoryMap, base: u64, size: usize) -> Result<HsaIpcHandle, HsaStatus> {
    let range = memory.find(base).filter(|range| range.base == base && range.base == range.host);
    let range = range.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
    let is_whole = [range.size, range.size.next_multiple_of(PAGE as u64)].contains(&(size as u64));
    if range.pointer_type != HsaPointerType::HSA || !is_whole {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    files.with_file(memory, &range, |SharedFile { file, offset }| {
        let name = Name::new(file, range.size, range.owner, range.global_flags)?;
        Ok(Name { offset: (offset / PAGE as u64) as u32, ..name }.handle())
    })
}

/// An anonymous file of `bytes` zeros, which `/proc` shows as `name`.
fn anonymous_file(name: &str, bytes: u64) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(bytes)?;
    Ok(file)
}

/// Moves private memory to a file that is mapped in its place.
fn move_to_file(range: &AllocationInfo) -> io::Result<SharedFile> {
    let bytes = range.size.next_multiple_of(PAGE as u64);
    let is_in_block = range.owner != CPU && !range.executable;
    let file_bytes = if is_in_block { bytes.next_multiple_of(DEVICE_BLOCK as u64) } else { bytes };
    let offset = if file_bytes == DEVICE_BLOCK as u64 { file_bytes - bytes } else { 0 };
    let name = format!("{FILE_NAME}-{}-{}", range.owner.0, range.global_flags);
    let file = anonymous_file(&name, file_bytes)?;
    // SAFETY: these are the pages of an allocation, which stays while its owner makes a handle.
    let contents =
        unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(range.base as usize), bytes as usize) };
    file.write_all_at(contents, offset)?;
    map_at(range.base, bytes, &file, offset)?;
    Ok(SharedFile { file, offset })
}

/// Maps a file from `offset` on in place of the pages at `base`.
pub fn map_at(base: u64, bytes: u64, file: &File, offset: u64) -> io::Result<()> {
    // SAFETY: the range is part of a mapping that the caller owns, and the file has as many bytes.
    let mapped = unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(base as usize),
            bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Maps the memory that a handle names, for the agents of `access` and its owner, one of the machine's
/// `agents` agents.
pub fn attach(
    memory: &MemoryMap,
    agents: usize,
    handle: &HsaIpcHandle,
    size: usize,
    access: AgentMask,
) -> Result<u64, HsaStatus> {
    let name = Name::of(handle);
    let bytes = name.size.next_multiple_of(PAGE as u64);
    let owner = AgentIndex(name.owner as usize);
    if owner.0 >= agents || ![name.size, bytes].contains(&(size as u64)) {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let file = name.open()?;
    let alignment = if owner == CPU { PAGE } else { DEVICE_BLOCK };
    let out_of_resources = |_: io::Error| HsaStatus::ERROR_OUT_OF_RESOURCES;
    let mapping = Mapping::reserve(bytes as usize, alignment, None).map_err(out_of_resources)?;
    let base = mapping.base() as u64;
    map_at(base, bytes, &file, name.file_offset()).map_err(out_of_resources)?;
    let info = AllocationInfo {
        global_flags: if name.global_flags == 0 { HSA_GLOBAL_FLAG_COARSE_GRAINED } else { name.global_flags },
        pointer_type: HsaPointerType::IPC,
        ..AllocationInfo::new(base, name.size, owner, access | AgentMask::of(owner))
    };
    memory.insert(Allocation { mapping: Some(mapping), ..info.into() });
    Ok(base)
}

/// Unmaps attached memory.
pub fn detach(memory: &MemoryMap, base: u64) -> Result<(), HsaStatus> {
    let removed = memory.remove(base, |range| range.info.pointer_type == HsaPointerType::IPC);
    removed.map(drop).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)
}

/// A page that processes share. It holds one signal.
#[derive(Debug)]
pub struct SharedPage {
    mapping: Mapping,
    file: File,
}

impl SharedPage {
    /// A page of zeros.
    pub fn new() -> io::Result<Self> {
        Self::map(anonymous_file("hsa-sim-signal", PAGE as u64)?)
    }

    /// The page that a handle names.
    pub fn open(handle: &HsaIpcHandle) -> Result<Self, HsaStatus> {
        let name = Name::of(handle);
        if name.size != PAGE as u64 || name.owner != CPU.0 as u32 || name.offset != 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        Self::map(name.open()?).map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)
    }

    fn map(file: File) -> io::Result<Self> {
        let mapping = Mapping::reserve(PAGE, PAGE, None)?;
        map_at(mapping.base() as u64, PAGE as u64, &file, 0)?;
        Ok(Self { mapping, file })
    }

    /// Its mapping in this process.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Its handle, which is valid while this process has the page.
    pub fn handle(&self) -> Result<HsaIpcHandle, HsaStatus> {
        Ok(Name::new(&self.file, PAGE as u64, CPU, HSA_GLOBAL_FLAG_FINE_GRAINED)?.handle())
    }

    /// Gives the page up to the other processes. Zeros of this process alone take its place.
    pub fn leave(self) -> io::Result<Mapping> {
        // SAFETY: the page belongs to the mapping, and its users expect zeros from now on.
        let mapped = unsafe {
            libc::mmap(
                ptr::with_exposed_provenance_mut(self.mapping.base()),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(self.mapping) }
    }
}
