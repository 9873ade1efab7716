// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered allocation and deallocation.
//!
//! An allocation returns a transient buffer at once. It takes memory from a pool when its turn comes, before its packet
//! goes into the ring, so that later submissions find the memory. Memory whose last use is ordered before this queue is
//! taken at once. Memory that may still be in use is waited for if the caller allows it. If there is none, the
//! allocation waits for the pool's next release. Such waits hold no thread (`queue/blocked.rs`).
//!
//! A deallocation gives the reservation back as soon as it is submitted, marked with its epoch. Its own queue is
//! ordered after that anyway and can take the memory at once, so that submitting ahead needs no more memory than
//! running operations one by one. Other queues know which epoch to wait for. Until the deallocation is complete, the
//! buffer keeps the memory itself (e.g. a slab of its own). Then waiters of the pool are woken once more: an allocation
//! on another queue that waits for a pool which neither grows nor lets it wait for the epoch was woken too early when
//! the memory came back.

mod wait;

use std::sync::Arc;

use amdgpu_ffi::pool::{Observation, Pool, PoolRef, RawReservation};
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{
    AllocaFlags, Blocks, Buffer, BufferHandle, BufferParams, BufferPlacement, BufferUsage, Frontier, HalRef,
    MemoryType, PlacementFlags, RawDevice, Result, retain, status, zone,
};
use amdgpu_gpu::Gpu;
use amdgpu_hsa::Part;
use amdgpu_memory::buffer::DeviceBuffer;
use amdgpu_memory::slab_provider::check_supported;
use amdgpu_memory::statistics::Statistics;
use amdgpu_memory::transient::Transient;
use amdgpu_profile::EventInfo;
use amdgpu_profile::memory::{MemoryInfo, PoolTrace};
use amdgpu_profile::session::Session;
use amdgpu_queue::Queue;
use amdgpu_queue::demand::Demand;
use amdgpu_queue::emitter::{SinglePacket, SinglePacketSpace};
use amdgpu_queue::epoch_wait::EpochWait;
use amdgpu_queue::operation::{Operation, Planned, Submit};
use amdgpu_queue::record::CompletionAction;
use wait::{Edge, Position, Reserved, wait_for_frontier, wait_for_release};

/// The ring space of a submission without work of its own: only the packet that carries its epoch.
const NOTHING: Demand = Demand { packets: 0, kernarg_bytes: 0, has_commands: false, overlapping: true };

/// The parameters of an allocation.
#[derive(Clone, Copy)]
pub struct AllocaParams<'a> {
    /// The pool to take it from.
    pub pool: Pool<'a>,
    /// The canonicalized parameters of the caller.
    pub params: BufferParams,
    /// Bytes; 0 for an empty tensor.
    pub size: usize,
    /// The lifetime, and the permitted waits.
    pub flags: AllocaFlags,
}

/// A queue-ordered allocation. Dropped before it was submitted, it gives its reservation back to the pool.
pub struct Alloca {
    /// The statistics that will count the memory; none once the buffer has it.
    statistics: Option<Arc<Statistics>>,
    /// None once it is submitted.
    buffer: Option<HalRef<Transient>>,
    params: BufferParams,
    size: usize,
    /// The caller accepts memory that has to be waited for.
    may_wait: bool,
    /// Reserved memory that the buffer does not have yet.
    reserved: Option<Reserved>,
    /// Set once the buffer has its memory: the epochs after which the memory can be reused if the allocation fails.
    staged: Option<Edge>,
    /// Logs the pool operations of the allocation, if there was a profiling session when it came to its queue. Kept to
    /// the end, because a session must not be released under a lock.
    trace: Option<Box<PoolTrace>>,
}

impl Alloca {
    /// Makes an allocation with its buffer, which is for queue `affinity` of `device`, in one of [`Transient::blocks`].
    /// `statistics` counts its memory.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for parameters that the pool does not serve; RESOURCE_EXHAUSTED for a size past its limit.
    pub fn new(
        request: AllocaParams<'_>,
        device: *mut RawDevice,
        affinity: u64,
        (blocks, statistics): (&Arc<Blocks>, &Arc<Statistics>),
    ) -> Result<(Self, HalRef<Transient>)> {
        let AllocaParams { pool, mut params, size, flags } = request;
        let capabilities = pool.capabilities();
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
        let mut placement = PlacementFlags::ASYNCHRONOUS;
        placement.set(PlacementFlags::INDETERMINATE_LIFETIME, flags.contains(AllocaFlags::INDETERMINATE_LIFETIME));
        let placement = BufferPlacement { device, queue_affinity: affinity, flags: placement.bits(), reserved: 0 };
        let (buffer, own) = Transient::create(placement, pool, params, size, blocks)?;
        let alloca = Self {
            statistics: Some(statistics.clone()),
            buffer: Some(own),
            params,
            size,
            may_wait: flags.contains(AllocaFlags::ALLOW_POOL_WAIT_FRONTIER),
            reserved: None,
            staged: None,
            trace: None,
        };
        Ok((alloca, buffer))
    }

    /// Takes memory and gives it to `buffer`, its own, or returns the wait that it needs.
    fn take_memory(&mut self, buffer: &Transient, queue: &Queue, waits: &[EpochWait]) -> Result<Planned> {
        zone!("take memory");
        let pool = buffer.pool();
        if queue.shared().profiler.is_active() && self.trace.is_none() {
            self.begin_trace(buffer, queue);
        }
        let gap = match queue.gpu().part_gap() {
            0 => 0,
            gap => self.gap(pool, gap),
        };
        if self.reserved.is_none()
            && let Some(observation) = self.reserve(pool, Position::new(queue, waits), gap)?
        {
            self.log(|trace| trace.wait(pool, None));
            return Ok(wait_for_release(observation));
        }
        // Memory that is not staged is given back when the allocation is dropped.
        let Some(Reserved { reservation, .. }) = &self.reserved else {
            return Err(status!(INTERNAL, "the pool gave no memory"));
        };
        if reservation.needs_wait() && !self.may_wait {
            return Err(status!(
                RESOURCE_EXHAUSTED,
                "the pool has only memory that other queues may still be using; allow queue_alloca to wait for it with \
                 IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER"
            ));
        }
        if let Some(frontier) = reservation.not_passed(pool, &**queue.shared()) {
            self.log(|trace| trace.wait(pool, Some(&frontier)));
            return Ok(wait_for_frontier(frontier));
        }
        let backing = reservation.materialize(pool, self.params)?;
        self.log(|trace| trace.materialize(pool, reservation.raw()));
        let part = match queue.gpu().part_gap() {
            0 => None,
            _ => self.begin_part(queue, &backing)?,
        };
        if let Some(Reserved { reservation, edge }) = self.reserved.take() {
            let (memory_type, raw) = (MemoryType::from_bits_retain(self.params.type_), reservation.into_raw());
            let counted = self.statistics.take().map(|statistics| statistics.count(memory_type, raw.length));
            // SAFETY: the buffer was made for this allocation, which alone gives it memory. It is here through `&mut
            // self`, and comes here no more once it has staged: `reserved` is empty, and `prepare` looks at `staged`.
            unsafe { buffer.stage(raw, backing, part, counted) };
            self.staged = Some(edge);
        }
        Ok(Planned::Ready(NOTHING))
    }

    /// Bytes to leave unused behind the buffer: `gap` if `pool` allows so large an allocation, otherwise 0.
    #[cold]
    fn gap(&self, pool: Pool<'_>, gap: usize) -> usize {
        let most = pool.capabilities().max_allocation_size;
        let fits = most == 0 || self.size.saturating_add(gap) <= most;
        if fits { gap } else { 0 }
    }

    /// Registers the used part of the memory with the runtime, if it checks for accesses outside of such parts.
    #[cold]
    fn begin_part(&self, queue: &Queue, backing: &BufferHandle) -> Result<Option<Part>> {
        // A pool of the application's may have other memory than HSA's.
        let Some(backing) = DeviceBuffer::of(backing.borrow()) else { return Ok(None) };
        backing.narrow(queue.gpu().agent().library(), self.size.max(1))
    }

    /// Reserves memory of `pool`, with an unused `gap` in bytes behind it if possible. Returns none once it is
    /// reserved, or an observation of the next release.
    fn reserve(&mut self, pool: Pool<'_>, mut position: Position, gap: usize) -> Result<Option<Observation>> {
        // Pools have no empty reservations, and kernels are given an address all the same.
        let size = self.size.max(1);
        let (alignment, trace) = (self.params.min_alignment, self.trace.as_deref());
        if gap != 0 {
            // A pool of limited size may have no room for gaps.
            let wide = size.saturating_add(gap);
            if let Ok(Some(reserved)) = Reserved::acquire(pool, wide, alignment, &mut position, trace) {
                self.reserved = Some(reserved);
                return Ok(None);
            }
        }
        let mut attempt = || Reserved::acquire(pool, size, alignment, &mut position, trace);
        self.reserved = attempt()?;
        if self.reserved.is_some() {
            return Ok(None);
        }
        // The observer is woken by releases and passed epochs from here on, so that one more attempt is enough.
        let observation = pool.observe()?;
        self.reserved = attempt()?;
        Ok(self.reserved.is_none().then_some(observation))
    }

    #[cold]
    fn begin_trace(&mut self, buffer: &Transient, queue: &Queue) {
        self.trace = queue.shared().profiler.session().and_then(|session| {
            let stream = session.stream(queue.ordinal());
            PoolTrace::new(session, stream, buffer.buffer(), buffer.pool()).map(Box::new)
        });
    }

    fn log(&self, what: impl FnOnce(&PoolTrace)) {
        if let Some(trace) = &self.trace {
            what(trace);
        }
    }
}

impl Drop for Alloca {
    fn drop(&mut self) {
        let Some(buffer) = &self.buffer else { return };
        let pool = buffer.pool();
        if let Some(reserved) = self.reserved.take() {
            let reservation = *reserved.reservation.raw();
            reserved.give_back(pool);
            self.log(|trace| trace.release(pool, &reservation));
        }
        if let Some(edge) = &self.staged {
            let reservation = buffer.reservation();
            buffer.decommit();
            buffer.release(&Frontier::new(edge.iter().copied()));
            if let Some(reservation) = reservation {
                self.log(|trace| trace.release(pool, &reservation));
            }
        }
        self.log(|trace| trace.forget(buffer.buffer()));
    }
}

impl Submit for Alloca {
    type Owned = Self;

    fn into_owned(self) -> Result<Self> {
        Ok(self)
    }
}

impl Operation for Alloca {
    /// Takes memory and gives it to the buffer, or returns the wait that it needs.
    fn plan(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Planned> {
        if self.staged.is_some() {
            return Ok(Planned::Ready(NOTHING));
        }
        let submitted = || status!(INTERNAL, "an allocation was submitted twice");
        // Not through `self`, of which other fields change; its own reference stays.
        let buffer = self.buffer.take().ok_or_else(submitted)?;
        let result = self.take_memory(&buffer, queue, waits);
        self.buffer = Some(buffer);
        result
    }

    #[inline(always)]
    fn write_single(&mut self, _gpu: &Gpu, _room: &mut SinglePacketSpace) -> Option<SinglePacket> {
        Some(SinglePacket::Barrier)
    }

    fn completion_action(&mut self) -> CompletionAction {
        // The memory is the buffer's from here on.
        self.buffer.take().map_or(CompletionAction::None, CompletionAction::Commit)
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        let kind = QueueEventKind::Alloca;
        let Some(buffer) = &self.buffer else { return EventInfo::one(kind, 0) };
        let memory = MemoryInfo::alloca(session, buffer.buffer(), buffer.pool());
        EventInfo { memory, ..EventInfo::one(kind, self.size as u64) }
    }
}

/// A queue-ordered deallocation. Dropped before it was submitted, it leaves the buffer as it was.
pub struct Dealloca<'a> {
    /// The buffer, until the deallocation is in the ring.
    claimed: Option<HalRef<Transient>>,
    /// The buffer, which retains its pool, from the submission until the reservation is given back: the application may
    /// release both once the deallocation is complete.
    submitted: Option<HalRef<Transient>>,
    /// The buffer, in the submitting call, whose caller retains it: giving back the reservation needs no reference
    /// then.
    caller: Option<&'a Transient>,
    /// Logs the return of the memory, if there was a profiling session when the deallocation came to its queue.
    /// Captured beforehand, because completion may have changed the buffer by then.
    trace: Option<Box<Return>>,
}

/// Memory that goes back to its pool, and the session that logs it.
struct Return {
    trace: PoolTrace,
    pool: PoolRef,
    reservation: RawReservation,
}

impl<'a> Dealloca<'a> {
    /// Claims the deallocation of `buffer`, which may be a span; none for buffers that were not queue-allocated.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when it is claimed already; INVALID_ARGUMENT when another device than `device` allocated it.
    pub fn new(buffer: Buffer<'a>, device: *mut RawDevice) -> Result<Option<Self>> {
        let Some(allocated) = buffer.allocated() else { return Ok(None) };
        let placement = allocated.placement();
        let is_of_a_queue = placement.flags & PlacementFlags::ASYNCHRONOUS.bits() != 0;
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
        Ok(Some(Self { claimed: Some(retain(transient)), submitted: None, caller: Some(transient), trace: None }))
    }

    #[cold]
    fn begin_trace(&mut self, queue: &Queue) {
        let Some(buffer) = &self.claimed else { return };
        self.trace = queue.shared().profiler.session().and_then(|session| {
            let reservation = buffer.reservation()?;
            let stream = session.stream(queue.ordinal());
            let trace = PoolTrace::new(session, stream, buffer.buffer(), buffer.pool())?;
            Some(Box::new(Return { trace, pool: buffer.pool().retain(), reservation }))
        });
    }
}

impl Submit for Dealloca<'_> {
    type Owned = Dealloca<'static>;

    fn into_owned(mut self) -> Result<Self::Owned> {
        // Taken out, because the rest is dropped.
        let (claimed, trace) = (self.claimed.take(), self.trace.take());
        Ok(Dealloca { claimed, submitted: None, caller: None, trace })
    }
}

impl Operation for Dealloca<'_> {
    fn plan(&mut self, queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        if queue.shared().profiler.is_active() && self.trace.is_none() {
            self.begin_trace(queue);
        }
        Ok(Planned::Ready(NOTHING))
    }

    #[inline(always)]
    fn write_single(&mut self, _gpu: &Gpu, _room: &mut SinglePacketSpace) -> Option<SinglePacket> {
        Some(SinglePacket::Barrier)
    }

    fn completion_action(&mut self) -> CompletionAction {
        let Some(buffer) = self.claimed.take() else { return CompletionAction::None };
        self.submitted = self.caller.is_none().then(|| buffer.clone());
        CompletionAction::Decommit(buffer)
    }

    fn on_submitted(&mut self, queue: &Queue, epoch: u64) {
        let own = self.submitted.take();
        if let Some(buffer) = self.caller.or(own.as_deref()) {
            // For a runtime that tracks parts the memory is used until the GPU is done: then completion gives it back.
            if queue.gpu().part_gap() == 0 {
                buffer.release_early(&Frontier::new([(queue.axis(), epoch)].into_iter()));
            }
            if let Some(told) = &self.trace {
                told.trace.release(told.pool.borrow(), &told.reservation);
                told.trace.forget(buffer.buffer());
            }
        }
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        let kind = QueueEventKind::Dealloca;
        let Some(buffer) = self.claimed.as_ref().map(|buffer| buffer.buffer()) else { return EventInfo::one(kind, 0) };
        let memory = MemoryInfo::dealloca(session, buffer);
        EventInfo { memory, ..EventInfo::one(kind, buffer.byte_length() as u64) }
    }
}

impl Drop for Dealloca<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.claimed.take() {
            buffer.abort_dealloca();
        }
    }
}
