// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Buffers: memory that the driver allocated or pinned, memory allocated on the device by others, or a part of a pool's
//! slab.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

use hsa_abi::HsaAgent;
use parking_lot::Mutex;

use crate::statistics::Counted;
use amdgpu_ffi::tracing::{self, Stream};
use amdgpu_ffi::{
    Allocator, Blocks, Buffer, BufferParams, BufferUsage, HalObject, HalRef, Home, MemoryAccess, MemoryType, Result,
    iree, raw, status, thunk,
};
use amdgpu_gpu::coherent::CoherentUse;
use amdgpu_hsa::{Allocation, Attachment, HdpFlush, HostLock, Library, MappedDmaBuf, Part};
use amdgpu_profile::memory::BufferTrace;

/// The memory that a buffer frees at its end.
#[derive(Debug)]
pub enum Memory {
    /// An allocation of its own.
    Allocated(Allocation),
    /// Memory of another process.
    Attached(Attachment),
    /// Memory behind a descriptor.
    Mapped(MappedDmaBuf),
    /// The pin of host memory of the application.
    Locked(HostLock),
    /// The part of a pool's memory that is registered as used, if the runtime tracks parts, until another owner
    /// registers it.
    Part(Mutex<Option<Part>>),
    /// Nothing: the memory belongs to the application or to a pool.
    Borrowed,
}

/// The GPUs that have access to a buffer's memory.
#[derive(Clone, Debug)]
pub enum Access {
    /// All GPUs that the HSA runtime shows.
    All,
    /// These.
    Only(Arc<[HsaAgent]>),
}

/// The location of a buffer's bytes, and their owner.
#[derive(Debug)]
pub struct Storage {
    /// Address of the first byte for the GPUs.
    pub device: u64,
    /// Address of the first byte for the host; null when the buffer's memory type is not host-visible.
    pub host: *mut u8,
    /// Flushes host writes to the memory; none if that is not needed.
    pub flush: Option<HdpFlush>,
    /// Has host writes to the memory flushed by each submission; none if that is not needed.
    pub coherent: Option<CoherentUse>,
    /// The agents that have access.
    pub access: Access,
    /// The memory to free.
    pub memory: Memory,
}

/// `iree_hal_buffer_t` of this driver.
#[repr(C)]
pub struct DeviceBuffer {
    base: raw::iree_hal_buffer_t,
    home: ManuallyDrop<Home>,
    storage: Storage,
    release: raw::iree_hal_buffer_release_callback_t,
    counted: Option<Counted>,
    trace: OnceLock<BufferTrace>,
}

// SAFETY: the base is IREE's own thread-safe buffer; the addresses are only handed out; IREE's release callbacks may
// come from any thread.
unsafe impl Send for DeviceBuffer {}
// SAFETY: of the base only the reference count changes, which is atomic; the rest is Sync or does not change.
unsafe impl Sync for DeviceBuffer {}

// SAFETY: repr(C), the C base is first and initialised with VTABLE, which is used here only.
unsafe impl HalObject for DeviceBuffer {
    type Raw = raw::iree_hal_buffer_t;

    fn vtable() -> *const c_void {
        (&raw const VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.home.allocator()
    }

    fn home(&self) -> Option<&ManuallyDrop<Home>> {
        Some(&self.home)
    }
}

static VTABLE: raw::iree_hal_buffer_vtable_t = raw::iree_hal_buffer_vtable_t {
    recycle: Some(raw::iree_hal_buffer_recycle),
    destroy: thunk::destroy::<DeviceBuffer, _>(),
    map_range: thunk::method(DeviceBuffer::map_range),
    unmap_range: thunk::method(DeviceBuffer::unmap_range),
    // The host's caches hold nothing of the GPU's memory, and snoop its writes to the host's.
    invalidate_range: thunk::method(|_: &DeviceBuffer, _: usize, _: usize| Ok(())),
    flush_range: thunk::method(DeviceBuffer::flush_range),
};

/// A buffer that some GPUs of the process have no access to. It differs in its vtable alone, by which operations
/// recognize buffers that they may use without further checks.
#[repr(transparent)]
struct LimitedBuffer(DeviceBuffer);

// SAFETY: repr(transparent) over a struct that begins with the C base, which is initialised with LIMITED_VTABLE; that
// is used for buffers of this kind only.
unsafe impl HalObject for LimitedBuffer {
    type Raw = raw::iree_hal_buffer_t;

    fn vtable() -> *const c_void {
        (&raw const LIMITED_VTABLE).cast()
    }

    fn host_allocator(&self) -> Allocator {
        self.0.host_allocator()
    }

    fn home(&self) -> Option<&ManuallyDrop<Home>> {
        self.0.home()
    }
}

static LIMITED_VTABLE: raw::iree_hal_buffer_vtable_t = raw::iree_hal_buffer_vtable_t {
    recycle: Some(raw::iree_hal_buffer_recycle),
    destroy: thunk::destroy::<LimitedBuffer, _>(),
    map_range: thunk::method(
        |this: &LimitedBuffer,
         mode: raw::iree_hal_mapping_mode_t,
         access: raw::iree_hal_memory_access_t,
         offset: usize,
         length: usize,
         mapping: *mut raw::iree_hal_buffer_mapping_t| {
            this.0.map_range(mode, access, offset, length, mapping)
        },
    ),
    unmap_range: thunk::method(
        |this: &LimitedBuffer, offset: usize, length: usize, mapping: *mut raw::iree_hal_buffer_mapping_t| {
            this.0.unmap_range(offset, length, mapping)
        },
    ),
    invalidate_range: thunk::method(|_: &LimitedBuffer, _: usize, _: usize| Ok(())),
    flush_range: thunk::method(|this: &LimitedBuffer, offset: usize, length: usize| this.0.flush_range(offset, length)),
};

/// No release callback.
pub const NO_RELEASE: raw::iree_hal_buffer_release_callback_t =
    raw::iree_hal_buffer_release_callback_t { fn_: None, user_data: std::ptr::null_mut() };

impl DeviceBuffer {
    /// The blocks that buffers are allocated in.
    pub fn blocks(host_allocator: Allocator) -> Arc<Blocks> {
        Blocks::new(host_allocator, size_of::<Self>())
    }

    /// `buffer` as a buffer of this driver that was not queue-allocated; none if it is another one.
    pub fn of(buffer: Buffer<'_>) -> Option<&Self> {
        let limited = || Some(&buffer.downcast::<LimitedBuffer>()?.0);
        buffer.downcast().or_else(limited)
    }

    /// True if the driver's allocator has allocated the memory for this buffer alone.
    pub fn is_own_allocation(&self) -> bool {
        matches!(self.storage.memory, Memory::Allocated(_))
    }

    /// Returns true if the GPU `agent` has access to the buffer's memory.
    pub fn is_accessible_to(&self, agent: HsaAgent) -> bool {
        match &self.storage.access {
            Access::All => true,
            Access::Only(agents) => agents.contains(&agent),
        }
    }

    /// Registers only the first `size` bytes of the buffer's pool memory as used, until the result is dropped; none if
    /// the runtime does not track parts.
    ///
    /// # Errors
    /// As for [`Part::begin`].
    pub fn narrow(&self, library: &Arc<Library>, size: usize) -> Result<Option<Part>> {
        let Memory::Part(whole) = &self.storage.memory else { return Ok(None) };
        drop(whole.lock().take());
        Ok(Part::begin(library, self.storage.device, size)?)
    }

    /// Creates a buffer of `size` bytes, of the memory type, access and usage of `params`, in one of [`Self::blocks`].
    /// `release` is called once, after the memory was released; never when this fails. `counted` is dropped with the
    /// memory.
    ///
    /// Its `allocation_size` is `size`, too, even if HSA allocated more: IREE's debug allocator fills that many bytes,
    /// and would refuse its own fill where command buffers are validated against the buffer's length.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; the storage is freed.
    pub fn create(
        blocks: &Arc<Blocks>,
        placement: raw::iree_hal_buffer_placement_t,
        params: &BufferParams,
        size: usize,
        storage: Storage,
        release: raw::iree_hal_buffer_release_callback_t,
        counted: Option<Counted>,
    ) -> Result<HalRef<Self>> {
        let vtable = match storage.access {
            Access::All => &raw const VTABLE,
            Access::Only(_) => &raw const LIMITED_VTABLE,
        };
        // SAFETY: the closure initialises every field.
        unsafe {
            HalRef::new_in_block(blocks, |buffer: *mut Self, home| {
                let base = &raw mut (*buffer).base;
                // IREE leaves some fields as they are.
                base.write_bytes(0, 1);
                raw::iree_hal_buffer_initialize(
                    placement,
                    base,
                    size,
                    0,
                    size,
                    params.type_,
                    params.access,
                    params.usage,
                    vtable,
                    base,
                );
                (&raw mut (*buffer).home).write(home);
                (&raw mut (*buffer).storage).write(storage);
                (&raw mut (*buffer).release).write(release);
                (&raw mut (*buffer).counted).write(counted);
                (&raw mut (*buffer).trace).write(OnceLock::new());
            })
        }
    }

    /// Logs the buffer's end in a profile.
    pub fn follow(&self, trace: BufferTrace) {
        // Followed once, when it was made.
        let _ = self.trace.set(trace);
    }

    /// Address of the first byte for the GPUs.
    pub fn device_address(&self) -> u64 {
        self.storage.device
    }

    /// Address of the first byte for the host; null when the host has no access.
    pub fn host_address(&self) -> *mut u8 {
        self.storage.host
    }

    /// The length in bytes.
    pub fn size(&self) -> usize {
        self.base.byte_length
    }

    /// The usage it is allowed for.
    pub fn allowed_usage(&self) -> BufferUsage {
        BufferUsage::from_bits_retain(self.base.allowed_usage)
    }

    /// The affinity bits of the queues it is for.
    pub fn affinity(&self) -> u64 {
        self.base.placement.queue_affinity
    }

    /// The memory type.
    pub fn memory_type(&self) -> MemoryType {
        MemoryType::from_bits_retain(self.base.memory_type)
    }

    fn map_range(
        &self,
        mode: raw::iree_hal_mapping_mode_t,
        _access: raw::iree_hal_memory_access_t,
        offset: usize,
        length: usize,
        mapping: *mut raw::iree_hal_buffer_mapping_t,
    ) -> Result<()> {
        let usage = if mode == raw::IREE_HAL_MAPPING_MODE_PERSISTENT {
            BufferUsage::MAPPING_PERSISTENT
        } else {
            BufferUsage::MAPPING_SCOPED
        };
        // SAFETY: plain values.
        unsafe {
            iree!(raw::iree_hal_buffer_validate_memory_type(self.base.memory_type, MemoryType::HOST_VISIBLE.bits()))?;
            iree!(raw::iree_hal_buffer_validate_usage(self.base.allowed_usage, usage.bits()))?;
        }
        if self.storage.host.is_null() {
            return Err(status!(FAILED_PRECONDITION, "the host has no access to the buffer's memory"));
        }
        let size = self.size();
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(status!(
                OUT_OF_RANGE,
                "{length} bytes from {offset} on are not within a buffer of {size} bytes"
            ));
        }
        // SAFETY: within the allocation as checked; the mapping is the caller's to fill.
        unsafe {
            let data = self.storage.host.add(offset);
            (&raw mut (*mapping).contents).write(raw::iree_byte_span_t { data, data_length: length });
        }
        Ok(())
    }
}

impl DeviceBuffer {
    /// Flushes the host's writes: callers need not flush memory that they no longer map.
    fn unmap_range(&self, offset: usize, length: usize, mapping: *mut raw::iree_hal_buffer_mapping_t) -> Result<()> {
        // SAFETY: the caller's mapping of this buffer, which IREE clears after this call.
        let access = unsafe { (*mapping).impl_.allowed_access };
        if MemoryAccess::from_bits_retain(access).contains(MemoryAccess::WRITE) {
            self.flush_range(offset, length)?;
        }
        Ok(())
    }

    /// Makes the host's writes visible to the GPU. Flushes all of the GPU's memory.
    fn flush_range(&self, _offset: usize, _length: usize) -> Result<()> {
        if let Some(flush) = self.storage.flush {
            flush.flush();
        }
        Ok(())
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        drop(self.storage.coherent.take());
        if let Memory::Allocated(allocation) = &self.storage.memory {
            tracing::freed(Stream::Buffers, allocation.as_ptr());
        }
        drop(std::mem::replace(&mut self.storage.memory, Memory::Borrowed));
        drop(self.counted.take());
        if let Some(release) = self.release.fn_ {
            // SAFETY: the callback that came with the memory, called this once; the buffer is still readable.
            unsafe { release(self.release.user_data, &raw mut self.base) };
        }
    }
}
