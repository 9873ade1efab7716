// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The device's allocator: unpooled memory from HSA, import and export.
//!
//! An OPAQUE_FD is a DMA-BUF of a GPU's memory. The caller of an export owns the descriptor, and closes it. An imported
//! descriptor stays the importer's.

use std::ffi::{c_int, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use hsa_abi::{HsaAgent, HsaIpcHandle, HsaPointerType, HsaStatus};

use amdgpu_ffi::tracing::{self, Stream};
use amdgpu_ffi::{
    Allocator, Blocks, Borrowed, Buffer, BufferUsage, Code, ExternalBufferFlags, HalObject, HalRef, Header, MemoryType,
    Out, QUEUE_AFFINITY_ANY, Result, Status, raw, status, thunk,
};
use amdgpu_hsa::{self as hsa, Library, PointerInfo};
use amdgpu_memory::buffer::{DeviceBuffer, Memory, NO_RELEASE, Storage};
use amdgpu_memory::heaps::{HeapKind, Heaps, Placement, canonicalize, fit};
use amdgpu_memory::statistics::Statistics;
use amdgpu_profile::Profiler;
use amdgpu_profile::memory::BufferTrace;

/// `iree_hal_amdgpu_rs_shared_memory_t` of `amdgpu_rs/api.h`: the name of a buffer's memory for other processes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory {
    handle: HsaIpcHandle,
    /// Bytes of the allocation.
    allocation_size: u64,
    /// Bytes of the buffer.
    size: u64,
}

/// `iree_hal_amdgpu_rs_buffer_share` of `amdgpu_rs/api.h`.
///
/// # Safety
/// As the header says; pointers are valid for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iree_hal_amdgpu_rs_buffer_share(
    allocator: *mut raw::iree_hal_allocator_t,
    buffer: *mut raw::iree_hal_buffer_t,
    out_memory: *mut SharedMemory,
) -> raw::iree_status_t {
    let share = || {
        // SAFETY: the caller's, alive during the call.
        let (allocator, buffer) = unsafe { (Borrowed::from_raw(allocator), Buffer::from_raw(buffer)) };
        let buffer = buffer.ok_or_else(|| status!(INVALID_ARGUMENT, "no buffer to share"))?;
        let memory = own(allocator)?.share(buffer)?;
        // SAFETY: the caller's place for the result.
        unsafe { out_memory.write(memory) };
        Ok(())
    };
    amdgpu_ffi::status::into_raw(thunk::catch(share).flatten())
}

/// `iree_hal_amdgpu_rs_buffer_attach` of `amdgpu_rs/api.h`.
///
/// # Safety
/// As the header says; pointers are valid for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iree_hal_amdgpu_rs_buffer_attach(
    allocator: *mut raw::iree_hal_allocator_t,
    params: Params,
    memory: *const SharedMemory,
    out_buffer: *mut RawBuffer,
) -> raw::iree_status_t {
    let attach = || {
        // SAFETY: the caller's, alive during the call; no value of the memory's fields is invalid.
        let (allocator, memory) = unsafe { (Borrowed::from_raw(allocator), memory.read()) };
        let buffer = own(allocator)?.attach(with_defaults(params), &memory)?;
        // SAFETY: the caller's place for the result.
        unsafe { out_buffer.write(buffer.into_raw()) };
        Ok(())
    };
    amdgpu_ffi::status::into_raw(thunk::catch(attach).flatten())
}

/// The parameters with IREE's defaults in place of zeros (`iree_hal_buffer_params_canonicalize`).
fn with_defaults(params: Params) -> Params {
    let or = |bits: u32, default: u32| if bits == 0 { default } else { bits };
    Params {
        usage: or(params.usage, raw::IREE_HAL_BUFFER_USAGE_DEFAULT),
        access: if params.access == 0 { raw::IREE_HAL_MEMORY_ACCESS_ALL as _ } else { params.access },
        type_: or(params.type_, raw::IREE_HAL_MEMORY_TYPE_OPTIMAL),
        queue_affinity: if params.queue_affinity == 0 { QUEUE_AFFINITY_ANY } else { params.queue_affinity },
        ..params
    }
}

/// # Errors
/// INVALID_ARGUMENT for another driver's allocator.
fn own(allocator: Option<Borrowed<'_, raw::iree_hal_allocator_t>>) -> Result<&DeviceAllocator> {
    let own = allocator.and_then(Borrowed::downcast);
    own.ok_or_else(|| status!(INVALID_ARGUMENT, "the allocator is not that of a device of this driver"))
}

/// `iree_hal_allocator_t` of this driver.
#[repr(C)]
pub struct DeviceAllocator {
    header: Header,
    host_allocator: Allocator,
    // Goes into the placement of buffers and is never followed: the device owns the allocator.
    device: *mut raw::iree_hal_device_t,
    library: Arc<Library>,
    heaps: Arc<Heaps>,
    profiler: Arc<Profiler>,
    statistics: Arc<Statistics>,
    /// The blocks that buffers are allocated in.
    buffers: Arc<Blocks>,
}

// SAFETY: the device's address is only a value here; the rest is Send and Sync.
unsafe impl Send for DeviceAllocator {}
// SAFETY: the device's address is not dereferenced through `&self`; the rest is Sync.
unsafe impl Sync for DeviceAllocator {}

// SAFETY: repr(C), the header is first, VTABLE is used here only.
unsafe impl HalObject for DeviceAllocator {
    type Raw = raw::iree_hal_allocator_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

type RawBuffer = *mut raw::iree_hal_buffer_t;
type RawPhysical = *mut raw::iree_hal_physical_memory_t;
type Params = raw::iree_hal_buffer_params_t;

static VTABLE: raw::iree_hal_allocator_vtable_t = raw::iree_hal_allocator_vtable_t {
    destroy: thunk::destroy::<DeviceAllocator, _>(),
    host_allocator: thunk::method(|this: &DeviceAllocator| this.host_allocator),
    // Freed memory goes back to HSA at once.
    trim: thunk::method(|_: &DeviceAllocator| Ok(())),
    query_statistics: thunk::method(DeviceAllocator::query_statistics),
    query_memory_heaps: thunk::method(DeviceAllocator::query_memory_heaps),
    query_buffer_compatibility: thunk::method(DeviceAllocator::query_buffer_compatibility),
    allocate_buffer: thunk::method(DeviceAllocator::allocate_buffer),
    deallocate_buffer: thunk::method(DeviceAllocator::deallocate_buffer),
    import_buffer: thunk::method(DeviceAllocator::import_buffer),
    export_buffer: thunk::method(DeviceAllocator::export_buffer),
    supports_virtual_memory: thunk::method(|_: &DeviceAllocator| false),
    virtual_memory_query_granularity: thunk::method(|_: &DeviceAllocator, _: Params, _: *mut usize, _: *mut usize| {
        no_virtual_memory("virtual_memory_query_granularity")
    }),
    virtual_memory_reserve: thunk::method(|_: &DeviceAllocator, _: u64, _: usize, _: *mut RawBuffer| {
        no_virtual_memory("virtual_memory_reserve")
    }),
    virtual_memory_release: thunk::method(|_: &DeviceAllocator, _: RawBuffer| {
        no_virtual_memory("virtual_memory_release")
    }),
    physical_memory_allocate: thunk::method(
        |_: &DeviceAllocator, _: Params, _: usize, _: Allocator, _: *mut RawPhysical| {
            no_virtual_memory("physical_memory_allocate")
        },
    ),
    physical_memory_free: thunk::method(|_: &DeviceAllocator, _: RawPhysical| {
        no_virtual_memory("physical_memory_free")
    }),
    virtual_memory_map: thunk::method(
        |_: &DeviceAllocator, _: RawBuffer, _: usize, _: RawPhysical, _: usize, _: usize| {
            no_virtual_memory("virtual_memory_map")
        },
    ),
    virtual_memory_unmap: thunk::method(|_: &DeviceAllocator, _: RawBuffer, _: usize, _: usize| {
        no_virtual_memory("virtual_memory_unmap")
    }),
    virtual_memory_protect: thunk::method(
        |_: &DeviceAllocator, _: RawBuffer, _: usize, _: usize, _: u64, _: raw::iree_hal_memory_protection_t| {
            no_virtual_memory("virtual_memory_protect")
        },
    ),
    virtual_memory_advise: thunk::method(
        |_: &DeviceAllocator, _: RawBuffer, _: usize, _: usize, _: u64, _: raw::iree_hal_memory_advice_t| {
            no_virtual_memory("virtual_memory_advise")
        },
    ),
};

fn no_virtual_memory(call: &str) -> Result<()> {
    Err(status!(UNIMPLEMENTED, "amdgpu_rs allocators have no virtual memory ({call})"))
}

impl DeviceAllocator {
    /// The allocator of `device` over `heaps`, which reports `statistics` as the device's.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(
        host_allocator: Allocator,
        device: *mut raw::iree_hal_device_t,
        library: Arc<Library>,
        heaps: Arc<Heaps>,
        profiler: Arc<Profiler>,
        statistics: Arc<Statistics>,
    ) -> Result<HalRef<Self>> {
        let (header, buffers) = (Header::new::<Self>(), DeviceBuffer::blocks(host_allocator));
        HalRef::new(Self { header, host_allocator, device, library, heaps, profiler, statistics, buffers })
    }

    fn query_statistics(&self, out: Out<'_, raw::iree_hal_allocator_statistics_t>) {
        out.set(self.statistics.query().to_raw());
    }

    fn query_memory_heaps(
        &self,
        capacity: usize,
        heaps: *mut raw::iree_hal_allocator_memory_heap_t,
        out_count: *mut usize,
    ) -> Result<()> {
        let list: Vec<_> = self.heaps.list().collect();
        if !out_count.is_null() {
            // SAFETY: the caller's place for the count.
            unsafe { out_count.write(list.len()) };
        }
        if capacity < list.len() {
            // How callers ask for the count: without a message.
            return Err(Status::from_code(Code::OUT_OF_RANGE));
        }
        for (index, (kind, max_allocation_size, min_alignment)) in list.into_iter().enumerate() {
            let heap = raw::iree_hal_allocator_memory_heap_t {
                type_: kind.memory_type().bits(),
                allowed_usage: kind.allowed_usage().bits(),
                max_allocation_size,
                min_alignment,
            };
            // SAFETY: the caller's array has room for `capacity` heaps.
            unsafe { heaps.add(index).write(heap) };
        }
        Ok(())
    }

    fn query_buffer_compatibility(&self, params: *mut Params, size: *mut usize) -> u32 {
        // SAFETY: both are the caller's, to be changed in place.
        let (params, size) = unsafe { (&mut *params, &mut *size) };
        let wants_device_local = MemoryType::from_bits_retain(params.type_).contains(MemoryType::DEVICE_LOCAL);
        let Ok(placement) = self.heaps.place(params) else { return raw::IREE_HAL_BUFFER_COMPATIBILITY_NONE };
        let is_empty = *size == 0;
        let Ok(rounded) = allocation_size(&placement, params, *size) else {
            return raw::IREE_HAL_BUFFER_COMPATIBILITY_NONE;
        };
        *size = rounded;
        let mut compatibility =
            raw::IREE_HAL_BUFFER_COMPATIBILITY_ALLOCATABLE | raw::IREE_HAL_BUFFER_COMPATIBILITY_IMPORTABLE;
        let usage = BufferUsage::from_bits_retain(params.usage);
        if usage.intersects(BufferUsage::TRANSFER) {
            compatibility |= raw::IREE_HAL_BUFFER_COMPATIBILITY_QUEUE_TRANSFER;
        }
        if usage.intersects(BufferUsage::DISPATCH) {
            compatibility |= raw::IREE_HAL_BUFFER_COMPATIBILITY_QUEUE_DISPATCH;
        }
        // Far from the host, which better stages data for kernels, or from the kernels.
        let is_far = match placement.kind {
            HeapKind::DeviceCoarse => return compatibility | raw::IREE_HAL_BUFFER_COMPATIBILITY_EXPORTABLE,
            HeapKind::DeviceVisible | HeapKind::DeviceFine => {
                compatibility |= raw::IREE_HAL_BUFFER_COMPATIBILITY_EXPORTABLE;
                true
            }
            HeapKind::HostFine => wants_device_local,
        };
        if is_far && !is_empty {
            // No data need no staging.
            compatibility |= raw::IREE_HAL_BUFFER_COMPATIBILITY_LOW_PERFORMANCE;
        }
        compatibility
    }

    fn placement(&self, affinity: u64) -> raw::iree_hal_buffer_placement_t {
        raw::iree_hal_buffer_placement_t { device: self.device, queue_affinity: affinity, flags: 0, reserved: 0 }
    }

    fn allocate_buffer(&self, params: *const Params, size: usize, out: Out<'_, RawBuffer>) -> Result<()> {
        // SAFETY: the caller's parameters, valid during the call.
        let params = unsafe { params.read() };
        out.give(self.allocate(params, size, NO_RELEASE)?);
        Ok(())
    }

    /// Allocates a buffer. An empty one has an address, too.
    fn allocate(
        &self,
        mut params: Params,
        size: usize,
        release: raw::iree_hal_buffer_release_callback_t,
    ) -> Result<HalRef<DeviceBuffer>> {
        let placement = self.heaps.place(&mut params)?;
        let allocation_size = allocation_size(&placement, &params, size)?;
        let grant = self.heaps.grant(placement.kind, placement.gpu);
        let allocation = placement.pool.allocate(allocation_size, 0, &grant.agents)?;
        allocation.narrow(size.max(1))?;
        let address = allocation.as_ptr();
        let storage = Storage {
            device: address as u64,
            host: if placement.kind.is_host_visible() { address } else { std::ptr::null_mut() },
            flush: self.heaps.flush(placement.gpu, placement.kind),
            coherent: self.heaps.coherent_use(placement.gpu, placement.kind),
            access: grant.access.clone(),
            memory: Memory::Allocated(allocation),
        };
        let buffer = DeviceBuffer::create(
            &self.buffers,
            self.placement(params.queue_affinity),
            &params,
            size,
            storage,
            release,
            Some(self.statistics.clone().count(placement.kind.memory_type(), allocation_size)),
        )?;
        tracing::allocated(Stream::Buffers, address, allocation_size);
        self.trace(&buffer, allocation_size, false, &params, placement.gpu);
        Ok(buffer)
    }

    /// Logs a new buffer with `size` bytes of memory in a profiling session.
    fn trace(&self, buffer: &DeviceBuffer, size: usize, imported: bool, params: &Params, gpu: usize) {
        let Some(session) = self.profiler.session() else { return };
        let memory = (buffer.device_address(), size);
        if let Some(trace) = BufferTrace::begin(&session, imported, params, gpu as u32, memory) {
            buffer.follow(trace);
        }
    }

    /// Ends a buffer that a pooling allocator has claimed.
    fn deallocate_buffer(&self, buffer: Buffer<'_>) {
        // SAFETY: the caller hands over the buffer's end: nothing refers to it any more.
        unsafe { raw::iree_hal_buffer_destroy(buffer.as_ptr()) };
    }

    fn import_buffer(
        &self,
        params: *const Params,
        external: *mut raw::iree_hal_external_buffer_t,
        release: raw::iree_hal_buffer_release_callback_t,
        out: Out<'_, RawBuffer>,
    ) -> Result<()> {
        // SAFETY: the caller's, valid during the call.
        let (params, external) = unsafe { (params.read(), &*external) };
        ExternalBufferFlags::known(external.flags)?;
        const HOST: u32 = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION;
        const DEVICE: u32 = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION;
        if external.size == 0 && matches!(external.type_, HOST | DEVICE) {
            // There is nothing to pin or to look up: an empty tensor, whose address may be null.
            out.give(self.allocate(params, 0, release)?);
            return Ok(());
        }
        let buffer = match external.type_ {
            HOST => {
                // SAFETY: the member that the type names.
                let host = unsafe { external.handle.host_allocation.ptr };
                self.import_host(params, check_import(host.cast(), &params)?, external.size, release)?
            }
            DEVICE => {
                // SAFETY: the member that the type names.
                let device = unsafe { external.handle.device_allocation.ptr };
                let device = check_import(device as *mut u8, &params)?;
                self.import_device(params, device, external.size, (release, Memory::Borrowed))?
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_FD => {
                // SAFETY: the member that the type names.
                let fd = unsafe { external.handle.opaque_fd.fd };
                self.import_descriptor(params, fd, external.size, release)?
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_WIN32 => {
                return Err(status!(UNIMPLEMENTED, "importing OPAQUE_WIN32 buffers is not supported"));
            }
            other => return Err(status!(INVALID_ARGUMENT, "{other} is not a type of external buffers")),
        };
        let imported = Params { type_: buffer.memory_type().bits(), ..params };
        self.trace(&buffer, buffer.size(), true, &imported, self.heaps.gpu_of(buffer.affinity()));
        out.give(buffer);
        Ok(())
    }

    /// Pins host memory and makes it accessible to all GPUs.
    fn import_host(
        &self,
        mut params: Params,
        host: NonNull<u8>,
        size: usize,
        release: raw::iree_hal_buffer_release_callback_t,
    ) -> Result<HalRef<DeviceBuffer>> {
        let affinity = self.heaps.select(&mut params)?;
        canonicalize(&mut params, &[HeapKind::HostFine])?;
        let grant = self.heaps.grant(HeapKind::HostFine, self.heaps.gpu_of(affinity));
        // SAFETY: the importer keeps the memory until the release callback was called, after the lock is gone.
        let lock = unsafe { hsa::lock_host(&self.library, host, size, &grant.agents) };
        let lock = lock.map_err(|error| not_pinned(&error, host, size))?;
        let (device, memory) = (lock.device_ptr() as u64, Memory::Locked(lock));
        let access = grant.access.clone();
        let storage = Storage { device, host: host.as_ptr(), flush: None, coherent: None, access, memory };
        let placement = self.placement(affinity);
        DeviceBuffer::create(&self.buffers, placement, &params, size, storage, release, None)
    }

    /// The name of a buffer's memory for other processes.
    ///
    /// # Errors
    /// UNAVAILABLE for a buffer that is not a whole allocation of a GPU's memory; the status of the runtime.
    pub fn share(&self, buffer: Buffer<'_>) -> Result<SharedMemory> {
        let unavailable = || {
            status!(
                UNAVAILABLE,
                "only whole buffers of GPU memory that this driver's allocator has made can be shared with other \
                 processes: no spans, no imported, queue-allocated or empty ones, and no host memory"
            )
        };
        let buffer = DeviceBuffer::of(buffer).filter(|buffer| buffer.size() > 0 && buffer.is_own_allocation());
        let buffer = buffer.filter(|buffer| buffer.memory_type().contains(MemoryType::DEVICE_LOCAL));
        let buffer = buffer.ok_or_else(unavailable)?;
        let base: *mut u8 = std::ptr::with_exposed_provenance_mut(buffer.device_address() as usize);
        let info = hsa::pointer_info(&self.library, base)?;
        let handle = hsa::share_memory(&self.library, base, info.size)?;
        Ok(SharedMemory { handle, allocation_size: info.size as u64, size: buffer.size() as u64 })
    }

    /// A buffer of the memory of another process.
    ///
    /// # Errors
    /// As for [`hsa::Attachment::new`] and an import of device memory.
    pub fn attach(&self, params: Params, shared: &SharedMemory) -> Result<HalRef<DeviceBuffer>> {
        if shared.size == 0 || shared.size > shared.allocation_size {
            return Err(status!(INVALID_ARGUMENT, "the handle was not made by iree_hal_amdgpu_rs_buffer_share"));
        }
        let mut placed = params;
        let affinity = self.heaps.select(&mut placed)?;
        let agents = self.agents_of(affinity);
        let (length, size) = (shared.allocation_size as usize, shared.size as usize);
        let attachment = hsa::Attachment::new(&self.library, &shared.handle, length, &agents)?;
        let (address, memory) = (attachment.address(), Memory::Attached(attachment));
        let buffer =
            self.import_device(params, check_import(address.as_ptr(), &params)?, size, (NO_RELEASE, memory))?;
        self.trace(&buffer, size, true, &placed, self.heaps.gpu_of(buffer.affinity()));
        Ok(buffer)
    }

    /// Maps the first `size` bytes of the memory behind a DMA-BUF. The descriptor stays the importer's, which may close
    /// it at once: the buffer keeps the memory.
    fn import_descriptor(
        &self,
        params: Params,
        fd: c_int,
        size: usize,
        release: raw::iree_hal_buffer_release_callback_t,
    ) -> Result<HalRef<DeviceBuffer>> {
        if size == 0 {
            return Err(status!(INVALID_ARGUMENT, "cannot import 0 bytes of an OPAQUE_FD"));
        }
        let mut placed = params;
        let agents = self.agents_of(self.heaps.select(&mut placed)?);
        let mapped = hsa::MappedDmaBuf::new(&self.library, fd, &agents).map_err(|error| not_mapped(&error, fd))?;
        let mapped = mapped.ok_or_else(|| no_descriptors("importing"))?;
        let address = check_import(mapped.address().as_ptr(), &params)?;
        self.import_device(params, address, size, (release, Memory::Mapped(mapped)))
    }

    /// The agents of the GPUs that the queues of `affinity` belong to.
    fn agents_of(&self, affinity: u64) -> Vec<HsaAgent> {
        let gpus = (0..self.heaps.gpu_count()).filter(|gpu| affinity & self.heaps.queues_of(*gpu) != 0);
        gpus.map(|gpu| self.heaps.agent(gpu)).collect()
    }

    /// A DMA-BUF of a buffer's memory, which the caller owns. The memory lasts as long as the buffer, the descriptor
    /// and every import of it.
    ///
    /// HSA gives the offset of the memory in the DMA-BUF, for which IREE's handles have no place. Buffers with the
    /// usage SHARING_EXPORT have whole blocks of memory (see [`allocation_size`]), at offset 0, and reveal no others.
    fn export_descriptor(&self, buffer: &DeviceBuffer) -> Result<OwnedFd> {
        let has_blocks = buffer.allowed_usage().contains(BufferUsage::SHARING_EXPORT)
            && buffer.memory_type().contains(MemoryType::DEVICE_LOCAL);
        if !has_blocks || !buffer.is_own_allocation() || buffer.size() == 0 {
            return Err(status!(
                UNAVAILABLE,
                "only GPU memory that this driver's allocator has made with the usage SHARING_EXPORT can be exported \
                 as an OPAQUE_FD: no imported or empty buffers, and no host memory"
            ));
        }
        let base = std::ptr::with_exposed_provenance(buffer.device_address() as usize);
        match hsa::export_dmabuf(&self.library, base, buffer.size())? {
            Some((descriptor, 0)) => Ok(descriptor),
            Some((_, offset)) => Err(status!(
                UNAVAILABLE,
                "the buffer is at byte {offset} of its DMA-BUF, and OPAQUE_FD buffers have no offset; export it with \
                 hsa_amd_portable_export_dmabuf"
            )),
            None => Err(no_descriptors("exporting")),
        }
    }

    /// Wraps memory that was allocated through HSA on one of the device's GPUs. Its access rights are not changed.
    fn import_device(
        &self,
        mut params: Params,
        device: NonNull<u8>,
        size: usize,
        (release, memory): (raw::iree_hal_buffer_release_callback_t, Memory),
    ) -> Result<HalRef<DeviceBuffer>> {
        let affinity = self.heaps.select(&mut params)?;
        let info = hsa::pointer_info(&self.library, device.as_ptr())?;
        let owner = self.check_device_memory(&info, device, size, affinity)?;
        // ROCR tells a host address of all memory; whether the host gets at it depends on the GPU alone.
        let fine = HeapKind::DeviceFine;
        let is_mapped = info.kind == HsaPointerType::GRAPHICS;
        let kind = if is_mapped {
            // The host has no access.
            canonicalize(&mut params, &[HeapKind::DeviceCoarse])?
        } else if info.is_fine_grained && self.heaps.pool(owner, fine).is_some() {
            canonicalize(&mut params, &[fine])?
        } else {
            let mut kinds = vec![HeapKind::DeviceCoarse, HeapKind::DeviceVisible];
            kinds.retain(|kind| self.heaps.pool(owner, *kind).is_some());
            canonicalize(&mut params, &kinds)?
        };
        let host = if kind.is_host_visible() { device.as_ptr() } else { std::ptr::null_mut() };
        let (flush, coherent) = (self.heaps.flush(owner, kind), self.heaps.coherent_use(owner, kind));
        let mut agents = info.accessible;
        if !is_mapped {
            agents.push(info.owner);
        }
        let access = self.heaps.access_of(&agents);
        let storage = Storage { device: device.as_ptr() as u64, host, flush, coherent, access, memory };
        let placement = self.placement(affinity);
        DeviceBuffer::create(&self.buffers, placement, &params, size, storage, release, None)
    }

    /// Checks that `size` bytes from `device` on are memory of one of the device's GPUs that the GPUs of `affinity` can
    /// access, and returns its owner.
    fn check_device_memory(
        &self,
        info: &PointerInfo,
        device: NonNull<u8>,
        size: usize,
        affinity: u64,
    ) -> Result<usize> {
        match info.kind {
            HsaPointerType::HSA | HsaPointerType::HSA_VMEM | HsaPointerType::IPC | HsaPointerType::GRAPHICS => {}
            HsaPointerType::LOCKED => {
                return Err(status!(
                    INVALID_ARGUMENT,
                    "{device:p} is pinned host memory; import it as a HOST_ALLOCATION"
                ));
            }
            kind => {
                return Err(status!(
                    INVALID_ARGUMENT,
                    "{device:p} is not memory that HSA allocated (pointer type {kind:?})"
                ));
            }
        }
        let owner = self.heaps.find_gpu(info.owner).ok_or_else(|| {
            status!(PERMISSION_DENIED, "the memory at {device:p} does not belong to a GPU of this device")
        })?;
        let offset = (device.as_ptr() as usize).checked_sub(info.agent_base as usize);
        if offset.and_then(|offset| offset.checked_add(size)).is_none_or(|end| end > info.size) {
            return Err(status!(
                OUT_OF_RANGE,
                "{size} bytes from {device:p} on are not within the allocation of {} bytes at {:p}",
                info.size,
                info.agent_base
            ));
        }
        for gpu in 0..self.heaps.gpu_count() {
            let agent = self.heaps.agent(gpu);
            // A mapping gives its owner no access by itself.
            let has_access = agent == info.owner && info.kind != HsaPointerType::GRAPHICS;
            if affinity & self.heaps.queues_of(gpu) != 0 && !has_access && !info.accessible.contains(&agent) {
                return Err(status!(
                    PERMISSION_DENIED,
                    "GPU {gpu} of the device has no access to the memory at {device:p}; allow it with \
                     hsa_amd_agents_allow_access, or import for the queues of the GPU that owns it"
                ));
            }
        }
        Ok(owner)
    }

    fn export_buffer(
        &self,
        buffer: Buffer<'_>,
        requested_type: raw::iree_hal_external_buffer_type_t,
        _flags: ExternalBufferFlags,
        out: Out<'_, raw::iree_hal_external_buffer_t>,
    ) -> Result<()> {
        let buffer = DeviceBuffer::of(buffer).ok_or_else(|| {
            status!(
                UNAVAILABLE,
                "only whole buffers of this driver can be exported, no spans and no queue-allocated ones"
            )
        })?;
        // SAFETY: all-zero is a valid external buffer.
        let mut external: raw::iree_hal_external_buffer_t = unsafe { std::mem::zeroed() };
        external.type_ = requested_type;
        external.size = buffer.size();
        match requested_type {
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION
                if buffer.memory_type().contains(MemoryType::DEVICE_LOCAL) =>
            {
                external.handle.device_allocation.ptr = buffer.device_address();
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION if !buffer.host_address().is_null() => {
                external.handle.host_allocation.ptr = buffer.host_address().cast();
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION => {
                return Err(status!(UNAVAILABLE, "host memory cannot be exported as a DEVICE_ALLOCATION"));
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION => {
                return Err(status!(
                    UNAVAILABLE,
                    "the host has no access to the buffer, which a HOST_ALLOCATION needs"
                ));
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_FD => {
                external.handle.opaque_fd.fd = self.export_descriptor(buffer)?.into_raw_fd();
            }
            raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_OPAQUE_WIN32 => {
                return Err(status!(UNIMPLEMENTED, "exporting buffers as OPAQUE_WIN32 is not supported"));
            }
            other => return Err(status!(INVALID_ARGUMENT, "{other} is not a type of external buffers")),
        }
        out.set(external);
        Ok(())
    }
}

/// Bytes to allocate for a buffer of `size` bytes. GPU memory that is to be exported gets whole blocks: smaller
/// allocations share a block, and a DMA-BUF is of whole blocks.
///
/// # Errors
/// As for [`fit`].
fn allocation_size(placement: &Placement<'_>, params: &Params, size: usize) -> Result<usize> {
    let info = placement.pool.info();
    let is_exported = BufferUsage::from_bits_retain(params.usage).contains(BufferUsage::SHARING_EXPORT);
    let in_blocks = match is_exported && placement.kind.is_device_local() {
        true => size.max(1).checked_next_multiple_of(info.block.max(1)),
        false => None,
    };
    fit(info, in_blocks.unwrap_or(size), params.min_alignment)
}

#[cold]
fn no_descriptors(doing: &str) -> Status {
    status!(
        UNIMPLEMENTED,
        "{doing} OPAQUE_FD buffers needs DMA-BUFs, which the HSA runtime or the kernel driver does not have \
         (HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED)"
    )
}

/// The error for a descriptor that cannot be mapped. HSA has no status for other files.
#[cold]
fn not_mapped(error: &hsa::Error, fd: c_int) -> Status {
    match error.status() {
        Some(HsaStatus::ERROR) => {
            status!(INVALID_ARGUMENT, "the OPAQUE_FD {fd} is no open DMA-BUF of a GPU's memory; {error}")
        }
        _ => error.clone().into(),
    }
}

/// The error for host memory that cannot be imported. HSA has no status for missing memory.
#[cold]
fn not_pinned(error: &hsa::Error, host: NonNull<u8>, size: usize) -> Status {
    match error.status() {
        Some(HsaStatus::ERROR) => status!(
            INVALID_ARGUMENT,
            "cannot import {size} bytes of host memory at {host:p}: all of them must be mapped, to be read and written; \
             {error}"
        ),
        _ => error.clone().into(),
    }
}

/// The address to import, if it is valid.
fn check_import(address: *mut u8, params: &Params) -> Result<NonNull<u8>> {
    let address =
        NonNull::new(address).ok_or_else(|| status!(INVALID_ARGUMENT, "cannot import memory at a null address"))?;
    let alignment = params.min_alignment;
    if alignment != 0 && !(alignment.is_power_of_two() && address.as_ptr() as usize & (alignment - 1) == 0) {
        return Err(status!(
            INVALID_ARGUMENT,
            "memory at {address:p} is not aligned to {alignment} bytes, a power of two"
        ));
    }
    Ok(address)
}

#[cfg(test)]
#[path = "allocator_test.rs"]
mod tests;
