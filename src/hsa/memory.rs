// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory pools, allocations, locked host memory and pointer queries (`hsa_ext_amd.h`).

use std::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use hsa_abi::{
    HSA_GLOBAL_FLAG_COARSE_GRAINED, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, HSA_GLOBAL_FLAG_FINE_GRAINED,
    HSA_GLOBAL_FLAG_KERNARG, HsaAgent, HsaAgentMemoryPoolInfo, HsaAmdSegment, HsaIpcHandle, HsaLinkType, HsaMemoryPool,
    HsaMemoryPoolAccess, HsaMemoryPoolInfo, HsaMemoryPoolLinkInfo, HsaPointerInfo, HsaPointerType, HsaStatus,
};

use super::Library;
use super::error::{Error, Result, check, check_with, optional, report};
use super::value::Value;

/// A memory pool of an agent. Clones are cheap.
#[derive(Clone, Debug)]
pub struct MemoryPool {
    library: Arc<Library>,
    handle: HsaMemoryPool,
    info: MemoryPoolInfo,
}

/// Properties of a memory pool, which do not change.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPoolInfo {
    /// The segment; only global memory is allocated.
    pub segment: HsaAmdSegment,
    /// `HSA_GLOBAL_FLAG_*` bits.
    pub global_flags: u32,
    /// Bytes of the pool.
    pub size: usize,
    /// True if memory can be allocated from it.
    pub alloc_allowed: bool,
    /// Allocations are rounded up to this many bytes.
    pub granule: usize,
    /// Allocations of whole multiples of this many bytes share no DMA-BUF with others.
    pub block: usize,
    /// Alignment of allocations in bytes.
    pub alignment: usize,
    /// Most bytes of one allocation.
    pub alloc_max_size: usize,
    /// Every agent may access its memory without a grant.
    pub accessible_by_all: bool,
}

impl MemoryPoolInfo {
    /// Coherent only at kernel boundaries.
    pub fn is_coarse_grained(&self) -> bool {
        self.global_flags & HSA_GLOBAL_FLAG_COARSE_GRAINED != 0
    }

    /// Coherent while kernels run.
    pub fn is_fine_grained(&self) -> bool {
        self.global_flags & (HSA_GLOBAL_FLAG_FINE_GRAINED | HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED) != 0
    }

    /// Fit for kernel arguments.
    pub fn is_kernarg(&self) -> bool {
        self.global_flags & HSA_GLOBAL_FLAG_KERNARG != 0
    }

    /// Global memory that can be allocated.
    pub fn is_allocatable(&self) -> bool {
        self.segment == HsaAmdSegment::GLOBAL && self.alloc_allowed
    }

    /// In words, for listings.
    pub fn describe(&self) -> String {
        let segment = match self.segment {
            HsaAmdSegment::GLOBAL => "global".to_owned(),
            HsaAmdSegment::GROUP => "group".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        };
        let mut words = vec![segment];
        let flags = [
            (HSA_GLOBAL_FLAG_FINE_GRAINED, "fine-grained"),
            (HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, "extended-scope fine-grained"),
            (HSA_GLOBAL_FLAG_COARSE_GRAINED, "coarse-grained"),
            (HSA_GLOBAL_FLAG_KERNARG, "kernarg"),
        ];
        let flags = flags.iter().filter(|(flag, _)| self.global_flags & flag != 0);
        words.extend(flags.map(|(_, word)| (*word).to_owned()));
        words.join(", ")
    }
}

impl MemoryPool {
    pub(super) fn new(library: &Arc<Library>, handle: HsaMemoryPool) -> Result<Self> {
        type P = HsaMemoryPoolInfo;
        let value = |attribute: P| {
            Value::read(
                "hsa_amd_memory_pool_get_info",
                || format!("{attribute:?}"),
                |value| {
                    // SAFETY: `value` has room for the largest attribute.
                    unsafe { (library.symbols.hsa_amd_memory_pool_get_info)(handle, attribute, value) }
                },
            )
        };
        let granule = value(P::RUNTIME_ALLOC_GRANULE)?.usize();
        let size = value(P::SIZE)?.usize();
        let segment = HsaAmdSegment(value(P::SEGMENT)?.u32());
        let info = MemoryPoolInfo {
            segment,
            // Only global memory has flags.
            global_flags: if segment == HsaAmdSegment::GLOBAL { value(P::GLOBAL_FLAGS)?.u32() } else { 0 },
            size,
            alloc_allowed: value(P::RUNTIME_ALLOC_ALLOWED)?.bool(),
            granule,
            block: optional(value(P::RUNTIME_ALLOC_REC_GRANULE))?.map_or(granule, |bytes| bytes.usize()),
            alignment: value(P::RUNTIME_ALLOC_ALIGNMENT)?.usize(),
            alloc_max_size: optional(value(P::ALLOC_MAX_SIZE))?.map_or(size, |bytes| bytes.usize()),
            accessible_by_all: value(P::ACCESSIBLE_BY_ALL)?.bool(),
        };
        Ok(Self { library: library.clone(), handle, info })
    }

    /// The HSA handle.
    #[cfg(any(test, feature = "testing"))]
    pub fn handle(&self) -> HsaMemoryPool {
        self.handle
    }

    /// The runtime of the pool.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The properties.
    pub fn info(&self) -> &MemoryPoolInfo {
        &self.info
    }

    /// Allocates `size` bytes, which `agents` and the pool's own agent can access. `flags` are
    /// `hsa_amd_memory_pool_flag_t` bits, usually 0.
    ///
    /// The memory is not initialised. The host can access it if a CPU agent is among `agents`, or the pool is a CPU's.
    ///
    /// # Errors
    /// The status of the allocation, with the pool and the size; RESOURCE_EXHAUSTED when memory is short.
    pub fn allocate(&self, size: usize, flags: u32, agents: &[HsaAgent]) -> Result<Allocation> {
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: the handle is a pool of this runtime, and the result goes to a local.
        let status =
            unsafe { (self.library.symbols.hsa_amd_memory_pool_allocate)(self.handle, size, flags, &mut address) };
        let details = || format!("{size} bytes from a pool of {} bytes ({})", self.info.size, self.info.describe());
        check_with("hsa_amd_memory_pool_allocate", status, details)?;
        let Some(address) = NonNull::new(address.cast()) else {
            let status = HsaStatus::ERROR_OUT_OF_RESOURCES;
            return Err(Error::Call { call: "hsa_amd_memory_pool_allocate", status, details: details() });
        };
        let allocation = Allocation { library: self.library.clone(), address };
        allocation.allow_access(agents)?;
        Ok(allocation)
    }
}

/// Memory allocated from a pool, freed when dropped.
///
/// Its users are not tracked: it must not be dropped while a device may access it.
#[derive(Debug)]
pub struct Allocation {
    library: Arc<Library>,
    address: NonNull<u8>,
}

// SAFETY: an allocation is an address; the runtime's functions may be called from any thread.
unsafe impl Send for Allocation {}
// SAFETY: shared references only read the address and call functions of the runtime that are thread-safe.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Registers only the first `size` bytes as used until it is freed, with a runtime that checks for accesses outside
    /// of registered parts.
    ///
    /// # Errors
    /// As for [`Part::begin`].
    pub fn narrow(&self, size: usize) -> Result<()> {
        tell_part(&self.library, self.address.as_ptr() as u64, size).map(drop)
    }

    /// The address, which is the same for the host and for every agent.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Grants access to exactly `agents` and the agent of its pool. An empty list changes nothing.
    pub fn allow_access(&self, agents: &[HsaAgent]) -> Result<()> {
        if agents.is_empty() {
            return Ok(());
        }
        // SAFETY: the list is as long as said; flags must be null; the memory is allocated.
        let status = unsafe {
            (self.library.symbols.hsa_amd_agents_allow_access)(
                agents.len() as u32,
                agents.as_ptr(),
                std::ptr::null(),
                self.address.as_ptr().cast(),
            )
        };
        check_with("hsa_amd_agents_allow_access", status, || format!("{} agents", agents.len()))
    }
}

/// A part of an allocation that is registered with a runtime that checks for accesses outside of registered parts.
/// Unregistered when dropped.
#[derive(Debug)]
pub struct Part {
    library: Arc<Library>,
    address: u64,
}

impl Part {
    /// Registers `size` bytes from `address` on, a part of an allocation, as used; none if the runtime does not track
    /// parts.
    ///
    /// # Errors
    /// The status of the call: the bytes are not in an allocation, or another part in use overlaps them.
    #[inline]
    pub fn begin(library: &Arc<Library>, address: u64, size: usize) -> Result<Option<Self>> {
        if library.part_gap() == 0 { Ok(None) } else { Self::tell(library, address, size) }
    }

    #[cold]
    fn tell(library: &Arc<Library>, address: u64, size: usize) -> Result<Option<Self>> {
        let is_told = tell_part(library, address, size)?;
        Ok(is_told.then(|| Self { library: library.clone(), address }))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(end) = self.library.symbols.hsa_sim_memory_part_end {
            // SAFETY: the address is compared alone.
            report("hsa_sim_memory_part_end", unsafe { end(std::ptr::without_provenance(self.address as usize)) });
        }
    }
}

/// Registers or unregisters a part, if the runtime tracks parts.
fn tell_part(library: &Library, address: u64, size: usize) -> Result<bool> {
    let Some(begin) = library.symbols.hsa_sim_memory_part_begin.filter(|_| library.part_gap() != 0) else {
        return Ok(false);
    };
    // SAFETY: the addresses are compared alone.
    let status = unsafe { begin(std::ptr::without_provenance(address as usize), size) };
    check_with("hsa_sim_memory_part_begin", status, || format!("{size} bytes at {address:#x}"))?;
    Ok(true)
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated by this runtime and not freed before; the owner says that no one uses it any more.
        let status = unsafe { (self.library.symbols.hsa_amd_memory_pool_free)(self.address.as_ptr().cast()) };
        report("hsa_amd_memory_pool_free", status);
    }
}

/// The name of a whole allocation for other processes of the machine (`hsa_amd_ipc_memory_create`). It is valid as long
/// as the allocation.
///
/// # Errors
/// The status of the call; `ERROR_INVALID_SYMBOL_NAME` of a runtime without such names.
pub fn share_memory(library: &Library, base: *mut u8, size: usize) -> Result<HsaIpcHandle> {
    let create = library.symbols.hsa_amd_ipc_memory_create.ok_or_else(|| no_sharing("hsa_amd_ipc_memory_create"))?;
    let mut handle = HsaIpcHandle::default();
    // SAFETY: the address is looked up; the result goes to a local.
    let status = unsafe { create(base.cast(), size, &raw mut handle) };
    check_with("hsa_amd_ipc_memory_create", status, || format!("{size} bytes at {base:p}"))?;
    Ok(handle)
}

fn no_sharing(call: &'static str) -> Error {
    let details = "the runtime has no memory of other processes".to_owned();
    Error::Call { call, status: HsaStatus::ERROR_INVALID_SYMBOL_NAME, details }
}

/// An allocation of another process, detached when dropped.
#[derive(Debug)]
pub struct Attachment {
    library: Arc<Library>,
    address: NonNull<u8>,
}

// SAFETY: an attachment is an address; the runtime's functions may be called from any thread.
unsafe impl Send for Attachment {}
// SAFETY: shared references only read the address.
unsafe impl Sync for Attachment {}

impl Attachment {
    /// Attaches the allocation of `size` bytes that `handle` names, for `agents`.
    ///
    /// # Errors
    /// The status of the call: the other process has ended, or its allocation, or the size is not the allocation's.
    pub fn new(library: &Arc<Library>, handle: &HsaIpcHandle, size: usize, agents: &[HsaAgent]) -> Result<Self> {
        let attach =
            library.symbols.hsa_amd_ipc_memory_attach.filter(|_| library.symbols.hsa_amd_ipc_memory_detach.is_some());
        let attach = attach.ok_or_else(|| no_sharing("hsa_amd_ipc_memory_attach"))?;
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: the handle and the agents are read during the call; the result goes to a local.
        let status = unsafe { attach(handle, size, agents.len() as u32, agents.as_ptr(), &raw mut address) };
        let details = || format!("{size} bytes of another process");
        check_with("hsa_amd_ipc_memory_attach", status, details)?;
        let Some(address) = NonNull::new(address.cast()) else {
            let (call, status) = ("hsa_amd_ipc_memory_attach", HsaStatus::ERROR_OUT_OF_RESOURCES);
            return Err(Error::Call { call, status, details: details() });
        };
        Ok(Self { library: library.clone(), address })
    }

    /// The address of the first byte in this process.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some(detach) = self.library.symbols.hsa_amd_ipc_memory_detach {
            // SAFETY: attached by this runtime and not detached before; the owner says that it is no longer used.
            report("hsa_amd_ipc_memory_detach", unsafe { detach(self.address.as_ptr().cast()) });
        }
    }
}

/// A DMA-BUF of the device memory that contains `size` bytes from `base` on, and the offset of `base` in it. None if
/// the runtime has no DMA-BUFs. The memory lasts as long as the descriptor and its mappings.
///
/// # Errors
/// The status of the call: the memory is the host's, or in no allocation, or there are too many descriptors.
pub fn export_dmabuf(library: &Library, base: *const u8, size: usize) -> Result<Option<(OwnedFd, u64)>> {
    let export = library.symbols.hsa_amd_portable_export_dmabuf.filter(|_| library.system().dmabuf_supported);
    let Some(export) = export else { return Ok(None) };
    let (mut fd, mut offset) = (-1, 0);
    // SAFETY: the address is looked up; the results go to locals.
    let status = unsafe { export(base.cast(), size, &raw mut fd, &raw mut offset) };
    check_with("hsa_amd_portable_export_dmabuf", status, || format!("{size} bytes at {base:p}"))?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(Some((unsafe { OwnedFd::from_raw_fd(fd) }, offset)))
}

/// A mapped DMA-BUF, unmapped when dropped. Needs its descriptor no more.
#[derive(Debug)]
pub struct MappedDmaBuf {
    library: Arc<Library>,
    address: NonNull<u8>,
}

// SAFETY: a mapping is an address; the runtime's functions may be called from any thread.
unsafe impl Send for MappedDmaBuf {}
// SAFETY: shared references only read the address.
unsafe impl Sync for MappedDmaBuf {}

impl MappedDmaBuf {
    /// Maps the DMA-BUF that is open as `fd` for `agents`. None if the runtime has no DMA-BUFs.
    ///
    /// # Errors
    /// The status of the call: the descriptor is not of a GPU's memory, or an agent has no access to that.
    pub fn new(library: &Arc<Library>, fd: c_int, agents: &[HsaAgent]) -> Result<Option<Self>> {
        let symbols = &library.symbols;
        let is_supported = library.system().dmabuf_supported && symbols.hsa_amd_interop_unmap_buffer.is_some();
        let Some(map) = symbols.hsa_amd_interop_map_buffer.filter(|_| is_supported) else { return Ok(None) };
        let (mut size, mut address): (usize, *mut c_void) = (0, std::ptr::null_mut());
        let (count, list, none) = (agents.len() as u32, agents.as_ptr().cast_mut(), std::ptr::null_mut());
        // SAFETY: the agents are only read, during the call; the results go to locals.
        let status = unsafe { map(count, list, fd, 0, &raw mut size, &raw mut address, none, std::ptr::null_mut()) };
        let (call, details) = ("hsa_amd_interop_map_buffer", || format!("descriptor {fd}"));
        check_with(call, status, details)?;
        match NonNull::new(address.cast()) {
            Some(address) => Ok(Some(Self { library: library.clone(), address })),
            None => Err(Error::Call { call, status: HsaStatus::ERROR_OUT_OF_RESOURCES, details: details() }),
        }
    }

    /// The address of the first byte.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for MappedDmaBuf {
    fn drop(&mut self) {
        if let Some(unmap) = self.library.symbols.hsa_amd_interop_unmap_buffer {
            // SAFETY: mapped by this runtime and not unmapped before; the owner says that it is no longer used.
            report("hsa_amd_interop_unmap_buffer", unsafe { unmap(self.address.as_ptr().cast()) });
        }
    }
}

/// Host memory made accessible to agents, unlocked when dropped.
#[derive(Debug)]
pub struct HostLock {
    library: Arc<Library>,
    host: NonNull<u8>,
    device: *mut u8,
}

// SAFETY: a lock is two addresses; the runtime's functions may be called from any thread.
unsafe impl Send for HostLock {}
// SAFETY: shared references only read the addresses.
unsafe impl Sync for HostLock {}

impl HostLock {
    /// The address at which the agents see the memory.
    pub fn device_ptr(&self) -> *mut u8 {
        self.device
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // SAFETY: locked by this runtime and not unlocked before.
        let status = unsafe { (self.library.symbols.hsa_amd_memory_unlock)(self.host.as_ptr().cast()) };
        report("hsa_amd_memory_unlock", status);
    }
}

/// Pins `size` bytes of host memory and makes them accessible to `agents` (to every GPU if empty).
///
/// # Errors
/// The status of the call.
///
/// # Safety
/// The memory must stay mapped until the lock is dropped, and must not be freed while an agent may access it.
pub unsafe fn lock_host(
    library: &Arc<Library>,
    host: NonNull<u8>,
    size: usize,
    agents: &[HsaAgent],
) -> Result<HostLock> {
    let mut list = agents.to_vec();
    let list_ptr = if list.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() };
    let mut device: *mut c_void = std::ptr::null_mut();
    // SAFETY: the list is as long as said; the caller vouches for the memory.
    let status = unsafe {
        (library.symbols.hsa_amd_memory_lock)(host.as_ptr().cast(), size, list_ptr, list.len() as i32, &mut device)
    };
    check_with("hsa_amd_memory_lock", status, || format!("{size} bytes at {host:p}"))?;
    Ok(HostLock { library: library.clone(), host, device: device.cast() })
}

/// The access of an agent to a pool's memory.
#[derive(Clone, Debug)]
pub struct PoolAccess {
    /// Never, by default, or after a grant.
    pub access: HsaMemoryPoolAccess,
    /// The links on the way; none to an agent's own memory.
    pub links: Vec<HsaMemoryPoolLinkInfo>,
}

impl PoolAccess {
    pub(super) fn query(library: &Library, agent: HsaAgent, pool: &MemoryPool) -> Result<Self> {
        type I = HsaAgentMemoryPoolInfo;
        let query = |attribute: I, value: *mut c_void| {
            // SAFETY: callers give room for the attribute they ask for.
            unsafe { (library.symbols.hsa_amd_agent_memory_pool_get_info)(agent, pool.handle, attribute, value) }
        };
        let call = "hsa_amd_agent_memory_pool_get_info";
        let read = |attribute: I| Value::read(call, || format!("{attribute:?}"), |value| query(attribute, value));
        let access = HsaMemoryPoolAccess(read(I::ACCESS)?.u32());
        let hops = read(I::NUM_LINK_HOPS)?.u32() as usize;
        let empty = HsaMemoryPoolLinkInfo {
            min_latency: 0,
            max_latency: 0,
            min_bandwidth: 0,
            max_bandwidth: 0,
            atomic_support_32bit: false,
            atomic_support_64bit: false,
            coherent_support: false,
            link_type: HsaLinkType::HYPERTRANSPORT,
            numa_distance: 0,
        };
        let mut links = vec![empty; hops];
        if hops > 0 {
            check(call, query(I::LINK_INFO, links.as_mut_ptr().cast()))?;
        }
        Ok(Self { access, links })
    }
}

/// The runtime's properties of a pointer.
#[derive(Clone, Debug)]
pub struct PointerInfo {
    /// The kind of memory; [`HsaPointerType::UNKNOWN`] if the runtime does not know it.
    pub kind: HsaPointerType,
    /// Start of the allocation for agents.
    pub agent_base: *mut u8,
    /// Bytes of the allocation.
    pub size: usize,
    /// The agent that owns the memory.
    pub owner: HsaAgent,
    /// Coherent while kernels run.
    pub is_fine_grained: bool,
    /// The GPUs that may access it.
    pub accessible: Vec<HsaAgent>,
}

/// Asks the runtime about the memory at `pointer`, which may be any address.
pub fn pointer_info(library: &Library, pointer: *const u8) -> Result<PointerInfo> {
    let mut info = HsaPointerInfo {
        size: size_of::<HsaPointerInfo>() as u32,
        pointer_type: HsaPointerType::UNKNOWN,
        agent_base_address: std::ptr::null_mut(),
        host_base_address: std::ptr::null_mut(),
        size_in_bytes: 0,
        user_data: std::ptr::null_mut(),
        agent_owner: HsaAgent::NULL,
        global_flags: 0,
    };
    let mut count = 0;
    let mut agents: *mut HsaAgent = std::ptr::null_mut();
    // SAFETY: the pointer is only looked up; results go to locals; malloc is an allocator as wanted.
    let status = unsafe {
        (library.symbols.hsa_amd_pointer_info)(pointer.cast(), &mut info, Some(libc::malloc), &mut count, &mut agents)
    };
    check_with("hsa_amd_pointer_info", status, || format!("{pointer:p}"))?;
    let mut accessible = Vec::new();
    if !agents.is_null() {
        // SAFETY: the runtime filled `count` agents into memory that it had from malloc, and left it to us.
        unsafe {
            accessible.extend_from_slice(std::slice::from_raw_parts(agents, count as usize));
            libc::free(agents.cast());
        }
    }
    Ok(PointerInfo {
        kind: info.pointer_type,
        agent_base: info.agent_base_address.cast(),
        size: info.size_in_bytes,
        owner: info.agent_owner,
        is_fine_grained: info.global_flags & HSA_GLOBAL_FLAG_FINE_GRAINED != 0,
        accessible,
    })
}
