// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! DMA-BUFs: descriptors of device memory, which other processes map (`hsa_amd_portable_export_dmabuf`,
//! `hsa_amd_interop_map_buffer`).
//!
//! A descriptor refers to the [file](super::ipc) of an allocation. The name of the file tells the owner and the flags
//! of the memory. The descriptor is of the kind O_PATH: nothing but the functions here reads, writes or resizes the
//! file.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use hsa_abi::{HSA_GLOBAL_FLAG_COARSE_GRAINED, HsaPointerType, HsaStatus};

use crate::machine::agent_id::{AgentIndex, AgentMask, CPU};
use crate::machine::memory::allocation::{Allocation, AllocationInfo, Mapping, PAGE};
use crate::machine::memory::ipc::{FILE_NAME, SharedFiles, map_at};
use crate::machine::memory::map::MemoryMap;

/// Alignment of mapped DMA-BUFs, that of libhsakmt for images.
const ALIGNMENT: usize = 256 << 10;

/// Makes a descriptor of the device memory that contains `size` bytes from `address` on, and returns it with the offset
/// of `address`. The memory lasts as long as the descriptor and its mappings.
pub fn export(files: &SharedFiles, memory: &MemoryMap, address: u64, size: u64) -> Result<(OwnedFd, u64), HsaStatus> {
    // ROCR counts whole pages. Allocations begin at a page.
    let range = memory.find(address & !(PAGE as u64 - 1)).filter(|range| range.pointer_type == HsaPointerType::HSA);
    let range = range.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
    let (offset, bytes) = (address - range.base, range.size.next_multiple_of(PAGE as u64));
    if offset.checked_add(size).is_none_or(|end| end > bytes) {
        return Err(HsaStatus::ERROR_INVALID_ALLOCATION);
    }
    if range.owner == CPU {
        return Err(HsaStatus::ERROR_INVALID_AGENT);
    }
    files.with_file(memory, &range, |shared| {
        let path = format!("/proc/self/fd/{}", shared.file.as_raw_fd());
        let descriptor = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
        let descriptor = descriptor.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        Ok((descriptor.into(), shared.offset + offset))
    })
}

/// Device memory behind a descriptor.
#[derive(Debug)]
pub struct DmaBuf {
    file: File,
    bytes: u64,
    /// Agent that owns the memory.
    pub owner: AgentIndex,
}

impl DmaBuf {
    /// Device memory of this process or another that is open as `fd`, which stays the caller's.
    ///
    /// # Errors
    /// ERROR for any other file, and for a number that is no open file.
    pub fn open(fd: c_int) -> Result<Self, HsaStatus> {
        let path = format!("/proc/self/fd/{fd}");
        let link = fs::read_link(&path).map_err(|_| HsaStatus::ERROR)?;
        let name = link.to_str().and_then(|name| name.strip_prefix("/memfd:")?.strip_prefix(FILE_NAME));
        let owner = name.and_then(|name| name.strip_prefix('-')?.split('-').next()?.parse().ok());
        let owner = owner.map(AgentIndex).filter(|owner| *owner != CPU).ok_or(HsaStatus::ERROR)?;
        let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(|_| HsaStatus::ERROR)?;
        let bytes = file.metadata().map_err(|_| HsaStatus::ERROR)?.len();
        Ok(Self { file, bytes, owner })
    }

    /// Maps all of it for the agents of `access`, and returns its address and size. Mapped memory is coarse-grained.
    pub fn map(&self, memory: &MemoryMap, access: AgentMask) -> Result<(u64, usize), HsaStatus> {
        let out_of_resources = |_: io::Error| HsaStatus::ERROR_OUT_OF_RESOURCES;
        let mapping = Mapping::reserve(self.bytes as usize, ALIGNMENT, None).map_err(out_of_resources)?;
        let base = mapping.base() as u64;
        map_at(base, self.bytes, &self.file, 0).map_err(out_of_resources)?;
        let info = AllocationInfo {
            global_flags: HSA_GLOBAL_FLAG_COARSE_GRAINED,
            pointer_type: HsaPointerType::GRAPHICS,
            ..AllocationInfo::new(base, self.bytes, self.owner, access)
        };
        memory.insert(Allocation { mapping: Some(mapping), ..info.into() });
        Ok((base, self.bytes as usize))
    }
}

/// Unmaps a DMA-BUF, if one is mapped there.
pub fn unmap(memory: &MemoryMap, base: u64) {
    memory.remove(base, |range| range.info.pointer_type == HsaPointerType::GRAPHICS);
}
