// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Slabs: the memory that IREE's pools divide (`iree/hal/memory/slab_provider.h`), one HSA allocation each.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::buffer::{DeviceBuffer, Memory, Storage};
use crate::heaps::{Grant, HeapKind, fit};
use amdgpu_ffi::tracing::{self, Stream};
use amdgpu_ffi::{
    Allocator, Blocks, BufferParams, BufferUsage, HalObject, HalRef, Header, MemoryAccess, MemoryType, Out, Result,
    raw, status, thunk,
};
use amdgpu_gpu::coherent::CoherentUse;
use amdgpu_hsa::{Allocation, HdpFlush, MemoryPool, Part};
use amdgpu_profile::Profiler;
use amdgpu_profile::memory::BufferTrace;

/// A slab of a pool: its memory, and its trace if it is profiled.
struct Slab {
    /// Logs the slab's end before the memory is freed.
    _trace: Option<BufferTrace>,
    _coherent: Option<CoherentUse>,
    _allocation: Allocation,
}

/// `iree_hal_slab_provider_t` of this driver: slabs of one kind of memory of one GPU.
#[repr(C)]
pub struct SlabProvider {
    header: Header,
    host_allocator: Allocator,
    kind: HeapKind,
    pool: MemoryPool,
    grant: Grant,
    flush: Option<HdpFlush>,
    /// The blocks that buffers are allocated in.
    buffers: Arc<Blocks>,
    /// The GPU's index in its logical device.
    gpu: u32,
    profiler: Arc<Profiler>,
    acquired: AtomicU64,
    released: AtomicU64,
}

// SAFETY: repr(C), the header's two words are those of the C struct, VTABLE is used here only.
unsafe impl HalObject for SlabProvider {
    type Raw = raw::iree_hal_slab_provider_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.host_allocator
    }
}

static VTABLE: raw::iree_hal_slab_provider_vtable_t = raw::iree_hal_slab_provider_vtable_t {
    destroy: thunk::destroy::<SlabProvider, _>(),
    acquire_slab: thunk::method(SlabProvider::acquire_slab),
    release_slab: thunk::method(SlabProvider::release_slab),
    wrap_buffer: thunk::method(SlabProvider::wrap_buffer),
    // HSA memory is there when its allocation returns, and nothing is cached.
    prefault: thunk::method(|_: &SlabProvider, _: *mut raw::iree_hal_slab_t| ()),
    trim: thunk::method(|_: &SlabProvider, _: u32| ()),
    query_stats: thunk::method(SlabProvider::query_stats),
    query_properties: thunk::method(SlabProvider::query_properties),
};

impl SlabProvider {
    /// A provider of slabs of `pool`, which has the kind `kind`, of GPU `gpu` of its logical device, with the access of
    /// `grant`. `flush` flushes host writes to them; `profiler` logs the slabs.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(
        host_allocator: Allocator,
        kind: HeapKind,
        pool: MemoryPool,
        grant: Grant,
        flush: Option<HdpFlush>,
        (gpu, profiler): (usize, Arc<Profiler>),
    ) -> Result<HalRef<Self>> {
        let (header, acquired, released) = (Header::new::<Self>(), AtomicU64::new(0), AtomicU64::new(0));
        let (gpu, buffers) = (gpu as u32, DeviceBuffer::blocks(host_allocator));
        HalRef::new(Self {
            header,
            host_allocator,
            kind,
            pool,
            grant,
            flush,
            buffers,
            gpu,
            profiler,
            acquired,
            released,
        })
    }

    /// The pool that the slabs are allocated from.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    fn acquire_slab(&self, length: usize, out: Out<'_, raw::iree_hal_slab_t>) -> Result<()> {
        if length == 0 {
            return Err(status!(INVALID_ARGUMENT, "slabs are not empty"));
        }
        let size = fit(self.pool.info(), length, 0)?;
        let allocation = self.pool.allocate(size, 0, &self.grant.agents)?;
        let base_ptr = allocation.as_ptr();
        tracing::allocated(Stream::Slabs, base_ptr, size);
        let trace = self.profiler.session().and_then(|session| {
            let kind = (self.kind.memory_type(), self.kind.pooled_usage());
            let provider = (&raw const *self) as u64;
            BufferTrace::slab(&session, provider, self.gpu, kind, (base_ptr as u64, size))
        });
        let coherent = self.flush.filter(|_| self.kind == HeapKind::DeviceFine).map(CoherentUse::begin);
        let slab = Box::new(Slab { _trace: trace, _coherent: coherent, _allocation: allocation });
        let provider_handle = Box::into_raw(slab) as u64;
        self.acquired.fetch_add(1, Ordering::Relaxed);
        // Pools show the slab's length to users, so it is the requested length, not HSA's rounded one.
        out.set(raw::iree_hal_slab_t { base_ptr, length, provider_handle });
        Ok(())
    }

    fn release_slab(&self, slab: *const raw::iree_hal_slab_t) {
        // SAFETY: as below; before the memory may have another owner.
        tracing::freed(Stream::Slabs, unsafe { (*slab).base_ptr });
        // SAFETY: a slab of `acquire_slab` that the pool gives back once, when nothing uses it.
        unsafe { drop(Box::from_raw((*slab).provider_handle as *mut Slab)) };
        self.released.fetch_add(1, Ordering::Relaxed);
    }

    fn wrap_buffer(
        &self,
        slab: *const raw::iree_hal_slab_t,
        offset: usize,
        size: usize,
        mut params: BufferParams,
        release: raw::iree_hal_buffer_release_callback_t,
        out: Out<'_, *mut raw::iree_hal_buffer_t>,
    ) -> Result<()> {
        // SAFETY: a slab of `acquire_slab`, alive during the call.
        let slab = unsafe { slab.read() };
        if offset.checked_add(size).is_none_or(|end| end > slab.length) {
            let length = slab.length;
            return Err(status!(OUT_OF_RANGE, "{size} bytes from {offset} on are not within a slab of {length} bytes"));
        }
        check_supported(self.kind.memory_type(), self.kind.pooled_usage(), &params)?;
        params.type_ = self.kind.memory_type().bits();
        // SAFETY: within the slab, as checked.
        let address = unsafe { slab.base_ptr.add(offset) };
        let part = Part::begin(self.pool.library(), address as u64, size)?;
        let storage = Storage {
            device: address as u64,
            host: if self.kind.is_host_visible() { address } else { std::ptr::null_mut() },
            flush: self.flush,
            // The slab's.
            coherent: None,
            access: self.grant.access.clone(),
            memory: part.map_or(Memory::Borrowed, |part| Memory::Part(Mutex::new(Some(part)))),
        };
        // Deallocation goes through the transient buffer or the pool, so this has no device of its own.
        let placement = raw::iree_hal_buffer_placement_t {
            device: std::ptr::null_mut(),
            queue_affinity: params.queue_affinity,
            flags: 0,
            reserved: 0,
        };
        out.give(DeviceBuffer::create(&self.buffers, placement, &params, size, storage, release, None)?);
        Ok(())
    }

    fn query_stats(
        &self,
        visited: *mut raw::iree_hal_slab_provider_visited_set_t,
        out: *mut raw::iree_hal_slab_provider_stats_t,
    ) {
        let this = (&raw const *self).cast::<raw::iree_hal_slab_provider_t>();
        // SAFETY: the caller's set and statistics, both to be added to.
        unsafe {
            if !raw::iree_hal_slab_provider_visited(visited, this) {
                (*out).total_acquired += self.acquired.load(Ordering::Relaxed);
                (*out).total_released += self.released.load(Ordering::Relaxed);
            }
        }
    }

    fn query_properties(&self, memory_type: *mut u32, usage: *mut u32) {
        // SAFETY: the caller's places for the results.
        unsafe {
            memory_type.write(self.kind.memory_type().bits());
            usage.write(self.kind.pooled_usage().bits());
        }
    }
}

/// Checks that memory of `memory_type` for `usage` meets `params`.
///
/// # Errors
/// INVALID_ARGUMENT with the missing properties, or for flags that IREE has no names for.
pub fn check_supported(memory_type: MemoryType, usage: BufferUsage, params: &BufferParams) -> Result<()> {
    MemoryAccess::known(params.access)?;
    let missing = MemoryType::known(params.type_)? - memory_type - MemoryType::OPTIMAL;
    if !missing.is_empty() {
        return Err(status!(INVALID_ARGUMENT, "the memory types {missing} are not among the pool's {memory_type}"));
    }
    let missing = BufferUsage::known(params.usage)? - usage;
    if !missing.is_empty() {
        return Err(status!(INVALID_ARGUMENT, "the usages {missing} are not among the pool's {usage}"));
    }
    Ok(())
}
