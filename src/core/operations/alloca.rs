// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered allocation and deallocation.
//!
//! An allocation returns a transient buffer at once and takes memory from a pool when its turn comes, before its
//! packet goes into the ring: whatever is submitted after it finds the memory there. The pool says how: memory whose
//! last use this queue comes after is taken as it is; memory that may still be in use is waited for if the caller
//! allows it; and when there is none, the allocation waits for the pool's next release. Such waits block a host thread
//! of the device's worker, never a completion thread and never under a lock.
//!
//! A deallocation gives the reservation back as soon as it is submitted, marked with its epoch: its queue comes after
//! that anyway and takes the memory again at once, so that what is submitted ahead needs no more memory than what runs
//! one by one; other queues know what to come after. Until the deallocation is complete the buffer keeps the memory
//! itself (a slab of its own, say). Then waiters of the pool are woken once more: an allocation of another queue that
//! waits for a pool which neither grows nor lets it wait for the epoch was woken too early when the memory came back.

mod wait;

use crate::core::memory::slab_provider::check_supported;
use crate::core::memory::transient::Transient;
use crate::core::profile::Subject;
use crate::core::profile::memory::MemoryNote;
use crate::core::profile::session::Session;
use crate::core::queue::Queue;
use crate::core::queue::complete::CompletionAction;
use crate::core::queue::operation::{Demand, Emitter, Operation, Prepared, Progress, Resources, Submit};
use crate::core::queue::waits::EpochWait;
use crate::ffi::pool::{Pool, PoolRef};
use crate::ffi::profile::schema::QueueEventKind;
use crate::ffi::{
    AllocaFlags, Allocator, Borrowed, Buffer, BufferParams, BufferUsage, Frontier, HalRef, MemoryType, Result, raw,
    retain, status,
};
use wait::{Edge, Observation, Position, Reservation, wait_for_frontier, wait_for_release};

/// What a submission without work of its own takes from the rings: the packet that carries its epoch.
const NOTHING: Demand = Demand { packets: 0, kernarg_bytes: 0, has_commands: false, overlapping: true };

/// What to allocate.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The pool to take it from.
    pub pool: Pool<'a>,
    /// What the caller asked for, canonicalized.
    pub params: BufferParams,
    /// Bytes; none is a tensor that turned out empty.
    pub size: usize,
    /// `iree_hal_alloca_flags_t` bits.
    pub flags: u64,
}

/// A queue-ordered allocation. Dropped before it was submitted, it takes what it reserved back to the pool.
pub struct Alloca(Option<Pending>);

struct Pending {
    buffer: HalRef<Transient>,
    pool: PoolRef,
    params: BufferParams,
    size: usize,
    /// The caller accepts memory that it must wait for.
    may_wait: bool,
    /// Memory that was taken and that something may still be using.
    reserved: Option<Reservation>,
    /// The buffer has its memory: when that may be somebody else's if nothing comes of the allocation.
    staged: Option<Edge>,
}

impl Alloca {
    /// The allocation, and its buffer, which is of `device`'s queue `affinity`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for unknown flags and what the pool does not hold; RESOURCE_EXHAUSTED for a size past its limit.
    pub fn new(
        request: Request<'_>,
        device: *mut raw::iree_hal_device_t,
        affinity: u64,
        host_allocator: Allocator,
    ) -> Result<(Self, HalRef<Transient>)> {
        let Request { pool, mut params, size, flags } = request;
        let flags = AllocaFlags::known(flags)?;
        let capabilities = capabilities(pool);
        let memory_type = MemoryType::from_bits_retain(capabilities.memory_type);
        check_supported(memory_type, BufferUsage::from_bits_retain(capabilities.supported_usage), &params)?;
        params.type_ = capabilities.memory_type;
        if capabilities.max_allocation_size != 0 && size > capabilities.max_allocation_size {
            let most = capabilities.max_allocation_size;
            return Err(status!(
                RESOURCE_EXHAUSTED,
                "queue_alloca of {size} bytes from a pool that gives at most {most}"
            ));
        }
        let lifetime = match flags.contains(AllocaFlags::INDETERMINATE_LIFETIME) {
            true => raw::IREE_HAL_BUFFER_PLACEMENT_FLAG_INDETERMINATE_LIFETIME,
            false => 0,
        };
        let placement = raw::iree_hal_buffer_placement_t {
            device,
            queue_affinity: affinity,
            flags: raw::IREE_HAL_BUFFER_PLACEMENT_FLAG_ASYNCHRONOUS | lifetime,
            reserved: 0,
        };
        let buffer = Transient::create(placement, params, size, host_allocator)?;
        let pending = Pending {
            buffer: buffer.clone(),
            pool: pool.retain(),
            params,
            size,
            may_wait: flags.contains(AllocaFlags::ALLOW_POOL_WAIT_FRONTIER),
            reserved: None,
            staged: None,
        };
        Ok((Self(Some(pending)), buffer))
    }
}

impl Pending {
    /// Takes memory and gives it to the buffer, or says what to wait for.
    fn prepare(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Prepared> {
        if self.staged.is_some() {
            return Ok(Prepared::Ready(NOTHING));
        }
        let reservation = match self.reserved.take() {
            Some(reservation) => reservation,
            None => match self.reserve(&Position::new(queue, waits))? {
                Ok(reservation) => reservation,
                Err(observation) => return Ok(wait_for_release(queue, observation)),
            },
        };
        if reservation.needs_wait() && !self.may_wait {
            // The reservation's drop gives it back as it was.
            return Err(status!(
                RESOURCE_EXHAUSTED,
                "the pool has only memory that other queues may still be using; allow queue_alloca to wait for it with \
                 IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER"
            ));
        }
        if let Some(frontier) = reservation.not_passed(queue.tracker()) {
            self.reserved = Some(reservation);
            return Ok(wait_for_frontier(queue, frontier));
        }
        self.stage(reservation)?;
        Ok(Prepared::Ready(NOTHING))
    }

    /// Reserves memory, or observes the release that may make it possible.
    fn reserve(&self, position: &Position) -> Result<std::result::Result<Reservation, Observation>> {
        // Pools have no empty reservations, and kernels are given an address all the same.
        let size = self.size.max(1);
        let attempt = || Reservation::acquire(&self.pool, size, self.params.min_alignment, position);
        if let Some(reservation) = attempt()? {
            return Ok(Ok(reservation));
        }
        // What is released from here on, or passes, wakes the observer, so one more look is enough.
        let observation = Observation::begin(self.pool.borrow())?;
        Ok(attempt()?.ok_or(observation))
    }

    fn stage(&mut self, reservation: Reservation) -> Result<()> {
        let backing = reservation.materialize(self.params)?;
        let (reservation, edge) = reservation.into_raw();
        self.buffer.stage(self.pool.borrow(), reservation, backing);
        self.staged = Some(edge);
        Ok(())
    }
}

impl Drop for Alloca {
    fn drop(&mut self) {
        if let Some(Pending { buffer, staged: Some(edge), .. }) = &self.0 {
            buffer.decommit();
            buffer.release(&Frontier::new(edge.iter().copied()));
        }
    }
}

impl Submit for Alloca {
    type Owned = Self;

    fn into_owned(self) -> Self {
        self
    }
}

impl Operation for Alloca {
    fn prepare(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Prepared> {
        match &mut self.0 {
            Some(pending) => pending.prepare(queue, waits),
            None => Err(status!(INTERNAL, "an allocation was submitted twice")),
        }
    }

    fn emit(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
        Progress::Done
    }

    fn keep(&self, _queue: &Queue) -> Resources {
        Resources::new()
    }

    fn finish(&mut self) -> CompletionAction {
        // The memory is the buffer's from here on.
        let Some(Pending { buffer, pool, .. }) = self.0.take() else { return CompletionAction::None };
        CompletionAction::Commit(buffer, pool)
    }

    fn subject(&self, session: &Session) -> Subject {
        let kind = QueueEventKind::Alloca;
        let Some(pending) = &self.0 else { return Subject::one(kind, 0) };
        let memory = MemoryNote::alloca(session, pending.buffer.buffer());
        Subject { memory, ..Subject::one(kind, pending.size as u64) }
    }
}

fn capabilities(pool: Pool<'_>) -> raw::iree_hal_pool_capabilities_t {
    // SAFETY: the pool lives; all-zero capabilities are valid, and the call fills them.
    unsafe {
        let mut capabilities: raw::iree_hal_pool_capabilities_t = std::mem::zeroed();
        raw::iree_hal_pool_query_capabilities(pool.as_ptr(), &raw mut capabilities);
        capabilities
    }
}

/// A queue-ordered deallocation. Dropped before it was submitted, it leaves the buffer as it was.
#[derive(Debug, Default)]
pub struct Dealloca {
    /// The buffer, until the deallocation is in the ring.
    claimed: Option<HalRef<Transient>>,
    /// What its memory is reserved in.
    pool: Option<PoolRef>,
    /// The buffer, from then until the reservation is given back, and its pool: the application may let go of that once the deallocation
    /// is complete.
    submitted: Option<(HalRef<Transient>, Option<PoolRef>)>,
}

impl Dealloca {
    /// Claims the deallocation of `buffer`, which may be a span; none for buffers that were not queue-allocated.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when it is claimed already; INVALID_ARGUMENT when another device than `device` allocated it.
    pub fn new(buffer: Buffer<'_>, device: *mut raw::iree_hal_device_t) -> Result<Option<Self>> {
        // SAFETY: the buffer lives and keeps the allocation that it is a part of.
        let allocated = unsafe { Borrowed::from_raw((*buffer.as_ptr()).allocated_buffer) };
        let Some(allocated) = allocated else { return Ok(None) };
        // SAFETY: as above; the placement does not change.
        let placement = unsafe { (&raw const (*allocated.as_ptr()).placement).read() };
        let is_of_a_queue = placement.flags & raw::IREE_HAL_BUFFER_PLACEMENT_FLAG_ASYNCHRONOUS != 0;
        if is_of_a_queue && placement.device != device {
            return Err(status!(
                INVALID_ARGUMENT,
                "the buffer was allocated by another device; deallocate it there (IREE_HAL_DEALLOCA_FLAG_PREFER_ORIGIN)"
            ));
        }
        let Some(transient) = Transient::of(allocated) else { return Ok(None) };
        if !transient.begin_dealloca() {
            return Err(status!(FAILED_PRECONDITION, "the buffer was deallocated by queue_dealloca before"));
        }
        Ok(Some(Self { claimed: Some(retain(transient)), pool: None, submitted: None }))
    }
}

impl Submit for Dealloca {
    type Owned = Self;

    fn into_owned(self) -> Self {
        self
    }
}

impl Operation for Dealloca {
    fn prepare(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Prepared> {
        self.pool = self.claimed.as_ref().and_then(|buffer| buffer.pool());
        Ok(Prepared::Ready(NOTHING))
    }

    fn emit(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
        Progress::Done
    }

    fn keep(&self, _queue: &Queue) -> Resources {
        Resources::new()
    }

    fn finish(&mut self) -> CompletionAction {
        let Some(buffer) = self.claimed.take() else { return CompletionAction::None };
        let pool = self.pool.take();
        self.submitted = Some((buffer.clone(), pool.clone()));
        CompletionAction::Decommit(buffer, pool)
    }

    fn submitted(&mut self, queue: &Queue, epoch: u64) {
        if let Some((buffer, pool)) = self.submitted.take() {
            buffer.release(&Frontier::new([(queue.axis(), epoch)].into_iter()));
            drop(buffer);
            drop(pool);
        }
    }

    fn subject(&self, session: &Session) -> Subject {
        let kind = QueueEventKind::Dealloca;
        let Some(buffer) = self.claimed.as_ref().map(|buffer| buffer.buffer()) else { return Subject::one(kind, 0) };
        let memory = MemoryNote::dealloca(session, buffer);
        Subject { memory, ..Subject::one(kind, buffer.byte_length() as u64) }
    }
}

impl Drop for Dealloca {
    fn drop(&mut self) {
        if let Some(buffer) = self.claimed.take() {
            buffer.abort_dealloca();
        }
    }
}

#[cfg(test)]
#[path = "alloca_test.rs"]
mod tests;
