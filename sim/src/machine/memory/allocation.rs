// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Allocations: mapped host memory, and the properties of a range in the memory map.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::HsaPointerType;

use crate::machine::agent_id::{AgentIndex, AgentMask};

/// Size of a page in bytes: granule and alignment of every pool.
pub const PAGE: usize = 4096;

/// Bytes of the blocks of device memory that ROCR suballocates from.
pub const DEVICE_BLOCK: usize = 2 << 20;

/// Size of a huge page of the host.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes that a mapping in huge pages has at most.
const MOST_IN_HUGE_PAGES: usize = 64 << 20;

/// Preferred addresses of mappings. They go up from one mapping to the next, so that a freed address is not reused soon
/// and an access to it is detected.
const ADDRESSES: Range<u64> = 32 << 40..96 << 40;

static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(ADDRESSES.start);

/// Host addresses between two inaccessible guard pages. Unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    base: usize,
    /// First address and size with the guard pages.
    whole: (usize, usize),
}

impl Mapping {
    /// Maps at least `size` bytes of zeroed memory.
    pub fn new(size: usize) -> io::Result<Self> {
        Self::aligned(size, PAGE)
    }

    /// As [`new`](Self::new), aligned to a power of two of at least a page.
    pub fn aligned(size: usize, alignment: usize) -> io::Result<Self> {
        let mapping = Self::reserve(size, alignment, None)?;
        mapping.allow(size)?;
        Ok(mapping)
    }

    /// As [`new`](Self::new), for memory that is likely used as a whole: its faults are of huge pages if the host has
    /// them. A large mapping has pages of the usual size, as parts of it may never be used.
    pub fn in_huge_pages(size: usize) -> io::Result<Self> {
        if !(HUGE_PAGE..=MOST_IN_HUGE_PAGES).contains(&size) {
            return Self::new(size);
        }
        let mapping = Self::aligned(size, HUGE_PAGE)?;
        // SAFETY: a hint for pages of the mapping. The host may refuse it.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(mapping.base), size, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// Gives the host access to the first `size` bytes, which are zero.
    pub fn allow(&self, size: usize) -> io::Result<()> {
        // SAFETY: the range lies inside the mapping, in front of its last guard page, by the caller's size.
        let result = unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(self.base),
                size.max(1).next_multiple_of(PAGE),
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reserves at least `size` bytes of inaccessible addresses, aligned to `alignment`, a power of two of at least a
    /// page, and at `wanted` if that is free.
    pub fn reserve(size: usize, alignment: usize, wanted: Option<u64>) -> io::Result<Self> {
        let total = size
            .max(1)
            .checked_next_multiple_of(PAGE)
            .and_then(|size| size.checked_add(PAGE + alignment))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // A hint that is taken, or beyond the host's mappable addresses, is ignored.
        let hint = match wanted {
            Some(wanted) => wanted.saturating_sub(PAGE as u64),
            None => NEXT_ADDRESS.fetch_add(total as u64, Ordering::Relaxed) % ADDRESSES.end,
        };
        let hint = if wanted.is_some() { hint } else { hint.max(ADDRESSES.start) };
        // SAFETY: an anonymous mapping without MAP_FIXED touches no other memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::with_exposed_provenance_mut(hint as usize),
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
        let start = start.expose_provenance();
        Ok(Self { base: (start + PAGE).next_multiple_of(alignment), whole: (start, total) })
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
            libc::munmap(std::ptr::with_exposed_provenance_mut(self.whole.0), self.whole.1);
        }
    }
}

/// A range of bytes in the map, and the memory behind it.
#[derive(Debug)]
pub struct Allocation {
    /// Properties of the allocation.
    pub info: AllocationInfo,
    /// True if it came from a pool, so that `hsa_amd_memory_pool_free` may free it.
    pub from_pool: bool,
    /// Mapping of the memory, if it belongs to this entry.
    pub mapping: Option<Mapping>,
}

impl From<AllocationInfo> for Allocation {
    /// A range that is not from a pool, and is mapped by another party.
    fn from(info: AllocationInfo) -> Self {
        Self { info, from_pool: false, mapping: None }
    }
}

/// Properties of a range of bytes.
#[derive(Clone, Copy, Debug)]
pub struct AllocationInfo {
    /// First address.
    pub base: u64,
    /// Host address of `base`.
    pub host: u64,
    /// Bytes that agents may access.
    pub size: u64,
    /// Agents that may access it.
    pub access: AgentMask,
    /// Agents of `access` that may not write.
    pub read_only: AgentMask,
    /// Agents of `access` that may not read.
    pub write_only: AgentMask,
    /// Type for `hsa_amd_pointer_info`.
    pub pointer_type: HsaPointerType,
    /// Agent that owns the memory.
    pub owner: AgentIndex,
    /// `HSA_GLOBAL_FLAG_*` of its pool.
    pub global_flags: u32,
    /// True if it was requested as executable.
    pub executable: bool,
    /// Pointer from `hsa_amd_pointer_info_set_userdata`.
    pub user_data: usize,
}

impl AllocationInfo {
    /// A range of `owner`'s memory with read and write access for the agents of `access`: fine-grained, at the same
    /// address for the host.
    pub fn new(base: u64, size: u64, owner: AgentIndex, access: AgentMask) -> Self {
        Self {
            base,
            host: base,
            size,
            access,
            read_only: AgentMask::default(),
            write_only: AgentMask::default(),
            pointer_type: HsaPointerType::HSA,
            owner,
            global_flags: hsa_abi::HSA_GLOBAL_FLAG_FINE_GRAINED,
            executable: false,
            user_data: 0,
        }
    }

    /// True if the range contains `address`.
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size
    }
}
