// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Buffers: memory that the driver allocated or pinned, memory that somebody else allocated on the device, or a part of
//! a pool's slab.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

use hsa_abi::HsaAgent;
use parking_lot::Mutex;

use crate::core::gpu::coherent::CoherentUse;
use crate::core::memory::statistics::Counted;
use crate::core::profile::memory::BufferTrace;
use crate::ffi::tracing::{self, Stream};
use crate::ffi::{
    Allocator, Blocks, Buffer, BufferParams, BufferUsage, HalObject, HalRef, Home, MemoryAccess, MemoryType, Result,
    iree, raw, status, thunk,
};
use crate::hsa::{Allocation, HdpFlush, HostLock, Library, Part};

/// What the end of a buffer frees.
#[derive(Debug)]
#[expect(dead_code, reason = "what is in them is freed by their drops")]
pub enum Memory {
    /// Memory of its own.
    Allocated(Allocation),
    /// Its hold on host memory of the application's.
    Locked(HostLock),
    /// Its use of a part of a pool's memory, for a runtime that looks at such, until somebody else says what is used.
    Part(Mutex<Option<Part>>),
    /// Nothing: the memory belongs to the application or to a pool.
    Borrowed,
}

/// The GPUs that get at a buffer's memory.
#[derive(Clone, Debug)]
pub enum Access {
    /// All that the HSA runtime shows.
    All,
    /// These.
    Only(Arc<[HsaAgent]>),
}

/// Where a buffer's bytes are, and whose they are.
#[derive(Debug)]
pub struct Storage {
    /// Address of the first byte for the GPUs.
    pub device: u64,
    /// Address of the first byte for the host; null when the buffer's memory type is not host-visible.
    pub host: *mut u8,
    /// What flushes host writes to it; none where nothing needs to.
    pub flush: Option<HdpFlush>,
    /// Flushes host writes to it with each submission; none where nothing needs to.
    pub coherent: Option<CoherentUse>,
    /// The agents that have access.
    pub access: Access,
    /// What to free.
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

/// A buffer that not all GPUs of the process get at: the same in all but its vtable, by which operations find without
/// another look that they may use a buffer.
#[repr(transparent)]
struct LimitedBuffer(DeviceBuffer);

// SAFETY: repr(transparent) over what begins with the C base, which is initialised with LIMITED_VTABLE; that is used
// for buffers of this kind only.
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
    /// What buffers are made in.
    pub fn blocks(host_allocator: Allocator) -> Arc<Blocks> {
        Blocks::new(host_allocator, size_of::<Self>())
    }

    /// `buffer` as one of this driver's that was not queue-allocated, if it is.
    pub fn of(buffer: Buffer<'_>) -> Option<&Self> {
        let limited = || Some(&buffer.downcast::<LimitedBuffer>()?.0);
        buffer.downcast().or_else(limited)
    }

    /// Returns true if the GPU `agent` has access to the buffer's memory.
    pub fn is_accessible_to(&self, agent: HsaAgent) -> bool {
        match &self.storage.access {
            Access::All => true,
            Access::Only(agents) => agents.contains(&agent),
        }
    }

    /// Of what it has of a pool only the first `size` bytes are in use from now on, until the result is dropped; none
    /// where nobody looks at parts.
    ///
    /// # Errors
    /// As [`Part::begin`].
    pub fn narrow(&self, library: &Arc<Library>, size: usize) -> Result<Option<Part>> {
        let Memory::Part(whole) = &self.storage.memory else { return Ok(None) };
        drop(whole.lock().take());
        Ok(Part::begin(library, self.storage.device, size)?)
    }

    /// A buffer of `size` bytes, of the memory type, access and usage of `params`, in one of [`Self::blocks`].
    /// `release` is called once, after the memory was let go of; never when this fails. `counted` is dropped with the
    /// memory.
    ///
    /// Its `allocation_size` is `size`, too, however much more HSA gave: IREE's debug allocator fills as many bytes,
    /// and refuses them itself where command buffers are validated against the buffer's length.
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

    /// Has a profile told of the buffer's end.
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

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.base.byte_length
    }

    /// The queues it is for.
    pub fn affinity(&self) -> u64 {
        self.base.placement.queue_affinity
    }

    /// What its memory is.
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
    /// Flushes what may have been written, as callers need not do it for memory that they no longer map.
    fn unmap_range(&self, offset: usize, length: usize, mapping: *mut raw::iree_hal_buffer_mapping_t) -> Result<()> {
        // SAFETY: the caller's mapping of this buffer, which IREE clears after this call.
        let access = unsafe { (*mapping).impl_.allowed_access };
        if MemoryAccess::from_bits_retain(access).contains(MemoryAccess::WRITE) {
            self.flush_range(offset, length)?;
        }
        Ok(())
    }

    /// Makes the host's writes reach the GPU. The flush is of all of the GPU's memory.
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
