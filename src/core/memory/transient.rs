// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-allocated buffers: handles that exist before their memory.
//!
//! `stage` gives the handle the memory, for queue operations. `commit` shows the memory to the host, once the
//! allocation's signals are due. `decommit` takes it away. The pool reservation belongs to the handle from `stage` on
//! until it is released: possibly before `decommit`, and at the latest when the handle is destroyed.
//!
//! IREE has such a buffer (`iree/hal/local/transient_buffer.h`), whose every function takes a lock. This one is read
//! without a lock by operations.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::buffer::DeviceBuffer;
use crate::one_shot::OneShot;
use crate::range_pool::RangePool;
use crate::statistics::Counted;
use amdgpu_ffi::pool::{Pool, PoolRef, RawReservation};
use amdgpu_ffi::{
    Allocator, Blocks, Borrowed, Buffer, BufferHandle, BufferParams, BufferPlacement, Frontier, HalObject, HalRef,
    Home, Result, Status, iree, raw, status, thunk,
};
use amdgpu_hsa::Part;

/// `iree_hal_buffer_t` of a queue allocation.
#[repr(C)]
pub struct Transient {
    base: raw::iree_hal_buffer_t,
    home: ManuallyDrop<Home>,
    /// The pool of the reservation; retained while there are shares of it.
    pool: NonNull<raw::iree_hal_pool_t>,
    /// The number of users of the pool: the return of the reservation, and the end of the deallocation. Afterwards the
    /// application may release the pool, and the device, whose own pools it does not outlive.
    pool_shares: AtomicU8,
    /// The reservation with its [`Use`], from `stage` until it is given back.
    reserved: OneShot<RawReservation, Use>,
    /// The buffer over the memory, retained; null before `stage` and after `decommit`. Used under the lock of
    /// `is_committed`.
    backing: AtomicPtr<raw::iree_hal_buffer_t>,
    /// The device address of the first byte; 0 while there is no backing, or one that is not this driver's.
    address: AtomicU64,
    is_dealloca_queued: AtomicBool,
    /// The memory may belong to another buffer: the reservation was given back, or is about to be. Never cleared.
    is_gone: AtomicBool,
    /// True if the pool may get the memory back before its last use is over.
    keeps_frontiers: bool,
    /// Where a recording that uses the buffer lists it; a hint, of the last one that looked.
    listed_at: AtomicU32,
    /// True if the host may map the memory. Locked to change that, to take the memory away and to map it: an allocation
    /// and its deallocation on different queues, which the GPU orders by itself, may be completed by two threads at
    /// once.
    is_committed: Mutex<bool>,
}

/// State that ends with the reservation.
struct Use {
    /// The registered part of the memory, for runtimes that track parts.
    part: Option<Part>,
    /// The reservation's count in the statistics.
    counted: Option<Counted>,
}

// SAFETY: the base is IREE's own thread-safe buffer, and so is the pool; pools, buffers and parts may be used from any
// thread; a reservation is plain.
unsafe impl Send for Transient {}
// SAFETY: fields that change are atomic, locked, or written once before the buffer is shared; pools lock themselves.
unsafe impl Sync for Transient {}

// SAFETY: repr(C), the C base is first and initialised with VTABLE, which is used here only.
unsafe impl HalObject for Transient {
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
    destroy: thunk::destroy::<Transient, _>(),
    map_range: thunk::method(Transient::map_range),
    unmap_range: thunk::method(Transient::unmap_range),
    invalidate_range: thunk::method(Transient::invalidate_range),
    flush_range: thunk::method(Transient::flush_range),
};

impl Transient {
    /// The blocks that queue-allocated buffers are allocated in.
    pub fn blocks(host_allocator: Allocator) -> Arc<Blocks> {
        Blocks::new(host_allocator, size_of::<Self>())
    }

    /// Makes a buffer without memory, with two references, for memory of `pool`, in one of [`Self::blocks`].
    /// `placement` has the flag ASYNCHRONOUS.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn create(
        placement: BufferPlacement,
        pool: Pool<'_>,
        params: BufferParams,
        size: usize,
        blocks: &Arc<Blocks>,
    ) -> Result<(HalRef<Self>, HalRef<Self>)> {
        let keeps_frontiers = pool.downcast::<RangePool>().is_some() || pool.keeps_frontiers();
        // SAFETY: the closure initialises every field; there are two references.
        unsafe {
            let buffer = HalRef::new_in_block(blocks, |buffer: *mut Self, home| {
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
                    &raw const VTABLE,
                    base,
                );
                (&raw mut (*buffer).home).write(home);
                let pool = NonNull::new(pool.retain().into_ptr()).expect("a pool is not null");
                (&raw mut (*buffer).pool).write(pool);
                (&raw mut (*buffer).pool_shares).write(AtomicU8::new(2));
                (&raw mut (*buffer).reserved).write(OneShot::default());
                (&raw mut (*buffer).backing).write(AtomicPtr::new(null_mut()));
                (&raw mut (*buffer).address).write(AtomicU64::new(0));
                (&raw mut (*buffer).is_dealloca_queued).write(AtomicBool::new(false));
                (&raw mut (*buffer).is_gone).write(AtomicBool::new(false));
                (&raw mut (*buffer).keeps_frontiers).write(keeps_frontiers);
                (&raw mut (*buffer).listed_at).write(AtomicU32::new(0));
                (&raw mut (*buffer).is_committed).write(Mutex::new(false));
                // There is no other holder yet.
                (*base).resource.ref_count = 2;
            })?;
            let other = HalRef::from_owned(buffer.as_ptr()).expect("an object is not null");
            Ok((buffer, other))
        }
    }

    /// `buffer` as a queue-allocated one; none if it is not.
    #[inline]
    pub fn of(buffer: Buffer<'_>) -> Option<&Self> {
        buffer.downcast()
    }

    /// The buffer.
    pub fn buffer(&self) -> Buffer<'_> {
        // SAFETY: this object is a live buffer.
        unsafe { Borrowed::from_raw((&raw const self.base).cast_mut()) }.expect("an object is not null")
    }

    /// The device address of the memory for queue operations; none before `stage`, after `decommit`, and if the memory
    /// is not this driver's.
    #[inline]
    pub fn device_address(&self) -> Option<u64> {
        match self.address.load(Ordering::Acquire) {
            0 => None,
            address => Some(address),
        }
    }

    /// The buffer over the memory, retained: a deallocation may complete at any time.
    pub fn backing(&self) -> Option<BufferHandle> {
        let _held = self.is_committed.lock();
        self.held_backing().map(Borrowed::retain)
    }

    /// The buffer over the memory. The caller holds the lock of `is_committed` while it uses it.
    fn held_backing(&self) -> Option<Buffer<'_>> {
        // SAFETY: null or a buffer that this one has a reference to until another thread has the lock.
        unsafe { Borrowed::from_raw(self.backing.load(Ordering::Acquire)) }
    }

    /// Returns true if the memory may be another buffer's: its deallocation is in a queue's ring, or its allocation
    /// failed. Later submissions must not use it. A deallocation that still waits for semaphores changes nothing:
    /// semaphores, not the order of calls, say which operation comes first.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// The error for an operation that uses a buffer that is gone.
    #[cold]
    pub fn gone(&self) -> Status {
        status!(
            INVALID_ARGUMENT,
            "a queue-allocated buffer of {} bytes ({:p}) was given back by queue_dealloca before the operation that uses it was \
             submitted; its memory may be another buffer's: submit the operation first, or have the deallocation wait for it",
            self.buffer().byte_length(),
            self
        )
    }

    /// The index at which the last recording that looked lists the buffer. A hint; any number.
    #[inline]
    pub fn listed_at(&self) -> usize {
        self.listed_at.load(Ordering::Relaxed) as usize
    }

    /// Stores the hint for [`Self::listed_at`].
    #[inline]
    pub fn set_listed_at(&self, index: usize) {
        self.listed_at.store(index as u32, Ordering::Relaxed);
    }

    /// True if a deallocation was accepted.
    pub fn is_dealloca_queued(&self) -> bool {
        self.is_dealloca_queued.load(Ordering::Acquire)
    }

    /// Claims the one deallocation; false when it is taken.
    pub fn begin_dealloca(&self) -> bool {
        !self.is_dealloca_queued.swap(true, Ordering::AcqRel)
    }

    /// Gives the claim back: the deallocation will not run.
    pub fn abort_dealloca(&self) {
        self.is_dealloca_queued.store(false, Ordering::Release);
    }

    /// Gives the buffer its reservation of the pool and the memory, whose registered part is `part`. The memory is
    /// counted until the reservation is given back.
    ///
    /// # Safety
    /// The buffer's only call of this function, ever, on whatever thread.
    pub unsafe fn stage(
        &self,
        reservation: RawReservation,
        backing: BufferHandle,
        part: Option<Part>,
        counted: Option<Counted>,
    ) {
        // SAFETY: the only publication, by the caller's contract.
        unsafe { self.reserved.publish(reservation, Use { part, counted }) };
        // If not all GPUs have access to the memory, each operation checks the backing.
        let address = backing.borrow().downcast::<DeviceBuffer>().map_or(0, DeviceBuffer::device_address);
        self.backing.store(backing.into_ptr(), Ordering::Release);
        self.address.store(address, Ordering::Release);
    }

    /// Shows the staged memory to the host, unless a deallocation has taken it away already.
    pub fn commit(&self) {
        let mut is_committed = self.is_committed.lock();
        *is_committed = self.held_backing().is_some();
    }

    /// Takes the memory away. Nothing uses it any more.
    pub fn decommit(&self) {
        let backing = {
            let mut is_committed = self.is_committed.lock();
            *is_committed = false;
            self.is_gone.store(true, Ordering::Release);
            self.address.store(0, Ordering::Release);
            self.backing.swap(null_mut(), Ordering::AcqRel)
        };
        // Which may free it: under no lock.
        // SAFETY: null or a buffer with a reference that was this one's, which was not taken.
        drop(unsafe { BufferHandle::from_owned(backing) });
    }

    /// The memory's pool. Valid until [`Self::end`].
    #[inline]
    pub fn pool(&self) -> Pool<'_> {
        // SAFETY: there is a share at least until then.
        unsafe { Borrowed::new(self.pool) }
    }

    /// Ends the claimed deallocation: the pool is not needed for it any more.
    pub fn end(&self) {
        self.drop_share();
    }

    fn drop_share(&self) {
        if self.pool_shares.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.drop_pool();
        }
    }

    fn drop_pool(&self) {
        // SAFETY: the reference that came with the buffer, when its last share is gone.
        drop(unsafe { PoolRef::from_owned(self.pool.as_ptr()) });
    }

    /// The reservation, if it was not given back.
    pub fn reservation(&self) -> Option<RawReservation> {
        self.reserved.get()
    }

    /// Gives the reservation back, unless that was done. The memory's last use is over when `death` has passed; it has
    /// passed if the pool does not keep frontiers. The pool gets `death` in any case, as its users may rely on other
    /// queues not getting the memory early.
    pub fn release(&self, death: &Frontier) {
        self.release_behind(death.as_ptr());
    }

    /// Gives the reservation back, unless that was done, if the pool keeps frontiers. The memory's last use is over
    /// when `death` has passed. The buffer is [gone](Self::is_gone) in any case.
    pub fn release_early(&self, death: &Frontier) {
        self.is_gone.store(true, Ordering::Release);
        if self.keeps_frontiers {
            self.release_behind(death.as_ptr());
        }
    }

    fn release_behind(&self, death: *const raw::iree_async_frontier_t) {
        if let Some((reservation, Use { part, counted })) = self.reserved.take() {
            self.is_gone.store(true, Ordering::Release);
            drop((part, counted));
            // SAFETY: a reservation that was not given back, which this call alone does; the pool is kept; the frontier
            // is null or valid during the call.
            unsafe { raw::iree_hal_pool_release_reservation(self.pool.as_ptr(), reservation, death) };
            self.drop_share();
        }
    }

    /// The memory for host access.
    ///
    /// # Errors
    /// FAILED_PRECONDITION before the allocation is complete and once the deallocation is submitted.
    fn for_host(&self) -> Result<BufferHandle> {
        if self.is_dealloca_queued() {
            return Err(status!(FAILED_PRECONDITION, "the buffer was deallocated by queue_dealloca"));
        }
        let is_committed = self.is_committed.lock();
        let backing = self.held_backing().filter(|_| *is_committed).map(Borrowed::retain);
        backing.ok_or_else(|| {
            status!(
                FAILED_PRECONDITION,
                "the buffer has no memory yet; wait for what its queue_alloca signals before mapping it"
            )
        })
    }

    fn map_range(
        &self,
        mode: raw::iree_hal_mapping_mode_t,
        access: raw::iree_hal_memory_access_t,
        offset: usize,
        length: usize,
        mapping: *mut raw::iree_hal_buffer_mapping_t,
    ) -> Result<()> {
        let backing = self.for_host()?;
        let map = vtable_of(&backing).map_range.ok_or_else(unmappable)?;
        // SAFETY: the backing's own function, and the caller's mapping, which has a reference to this buffer.
        unsafe {
            iree!(map(backing.as_ptr(), mode, access, offset, length, mapping))?;
            // A scoped mapping is unmapped in the memory itself, whatever this buffer's memory is by then.
            if (*mapping).impl_.is_persistent() == 0 {
                let this = std::mem::replace(&mut (*mapping).buffer, backing.into_ptr());
                drop(BufferHandle::from_owned(this));
            }
        }
        Ok(())
    }

    fn unmap_range(&self, offset: usize, length: usize, mapping: *mut raw::iree_hal_buffer_mapping_t) -> Result<()> {
        let backing = self.for_host()?;
        let unmap = vtable_of(&backing).unmap_range.ok_or_else(unmappable)?;
        // SAFETY: the backing's own function and the caller's mapping.
        unsafe { iree!(unmap(backing.as_ptr(), offset, length, mapping)) }
    }

    fn invalidate_range(&self, offset: usize, length: usize) -> Result<()> {
        let backing = self.for_host()?;
        let invalidate = vtable_of(&backing).invalidate_range.ok_or_else(unmappable)?;
        // SAFETY: the backing's own function.
        unsafe { iree!(invalidate(backing.as_ptr(), offset, length)) }
    }

    fn flush_range(&self, offset: usize, length: usize) -> Result<()> {
        let backing = self.for_host()?;
        let flush = vtable_of(&backing).flush_range.ok_or_else(unmappable)?;
        // SAFETY: the backing's own function.
        unsafe { iree!(flush(backing.as_ptr(), offset, length)) }
    }
}

impl Drop for Transient {
    fn drop(&mut self) {
        self.decommit();
        self.release_behind(null());
        if *self.pool_shares.get_mut() > 0 {
            self.drop_pool();
        }
    }
}

/// The vtable of a buffer of any kind.
fn vtable_of(buffer: &BufferHandle) -> &raw::iree_hal_buffer_vtable_t {
    // SAFETY: the buffer lives, and so does its vtable.
    unsafe { &*(*buffer.as_ptr()).resource.vtable.cast() }
}

fn unmappable() -> Status {
    status!(UNIMPLEMENTED, "the memory of the pool cannot be mapped")
}
