// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory events: allocations and frees of buffers, of queue allocations with their pool reservations, and of the slabs
//! of pools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::log::{EventLog, Taken};
use crate::session::Session;
use amdgpu_ffi::pool::{Pool, RawReservation};
use amdgpu_ffi::profile::schema::{MemoryEvent, MemoryEventKind, Record, flags};
use amdgpu_ffi::profile::{Stream, host_time};
use amdgpu_ffi::{Buffer, BufferParams, BufferUsage, Frontier, MemoryType};

/// A session's memory events.
pub struct MemoryLog {
    events: EventLog<MemoryEvent>,
    next_allocation: AtomicU64,
    /// The queue allocations without a deallocation yet, by the address of their buffer object.
    queue_allocations: Mutex<HashMap<usize, u64>>,
}

impl MemoryLog {
    /// An empty log of at most `limit` events.
    pub fn new(limit: usize) -> Self {
        Self { events: EventLog::new(limit), next_allocation: AtomicU64::new(1), queue_allocations: Mutex::default() }
    }

    fn next_allocation(&self) -> u64 {
        self.next_allocation.fetch_add(1, Ordering::Relaxed)
    }

    /// The session's identifier for the queue allocation `buffer`. An allocation from before the session gets a new
    /// one.
    fn queue_allocation(&self, buffer: Buffer<'_>) -> u64 {
        let mut known = self.queue_allocations.lock();
        *known.entry(buffer.as_ptr() as usize).or_insert_with(|| self.next_allocation())
    }

    /// Appends an event.
    pub fn push(&self, mut event: MemoryEvent) {
        self.events.push(|id| {
            event.event_id = id;
            event
        });
    }

    /// Empties the log.
    pub fn take(&self) -> Taken<MemoryEvent> {
        self.events.take()
    }
}

/// The memory event of a queue operation.
#[derive(Debug, Clone, Copy)]
pub struct MemoryInfo {
    kind: MemoryEventKind,
    /// The identifier of the allocation in the session.
    pub allocation: u64,
    memory_type: MemoryType,
    usage: BufferUsage,
    length: u64,
    /// The pool of an allocation.
    pool: u64,
}

impl MemoryInfo {
    /// The allocation of the transient buffer `buffer` from `pool`; none if `session` wants no memory events.
    pub fn alloca(session: &Session, buffer: Buffer<'_>, pool: Pool<'_>) -> Option<Self> {
        let memory = session.memory()?;
        let allocation = memory.next_allocation();
        memory.queue_allocations.lock().insert(buffer.as_ptr() as usize, allocation);
        Some(Self { pool: pool.as_ptr() as u64, ..Self::new(MemoryEventKind::QueueAlloca, allocation, buffer) })
    }

    /// The deallocation of `buffer`; none if `session` wants no memory events.
    pub fn dealloca(session: &Session, buffer: Buffer<'_>) -> Option<Self> {
        let allocation = session.memory()?.queue_allocation(buffer);
        Some(Self::new(MemoryEventKind::QueueDealloca, allocation, buffer))
    }

    fn new(kind: MemoryEventKind, allocation: u64, buffer: Buffer<'_>) -> Self {
        let (memory_type, usage) = (buffer.memory_type(), buffer.allowed_usage());
        Self { kind, allocation, memory_type, usage, length: buffer.byte_length() as u64, pool: 0 }
    }

    /// The event, without its stream and time.
    pub fn event(&self) -> MemoryEvent {
        let mut event = MemoryEvent::blank();
        event.type_ = self.kind as u32;
        event.flags = flags::MEMORY_OF_QUEUE;
        event.allocation_id = self.allocation;
        event.memory_type = self.memory_type.bits().into();
        event.buffer_usage = self.usage.bits().into();
        event.length = self.length;
        event.pool_id = self.pool;
        event
    }
}

/// Logs the pool operations of a queue allocation, while a session wants them.
pub struct PoolTrace {
    session: Arc<Session>,
    /// The common part of its events.
    event: MemoryEvent,
}

impl PoolTrace {
    /// A trace for the allocation `buffer` of `stream`; none if `session` wants no memory events.
    pub fn new(session: Arc<Session>, stream: Stream, buffer: Buffer<'_>, pool: Pool<'_>) -> Option<Self> {
        let mut event = MemoryEvent::blank();
        event.flags = flags::MEMORY_OF_QUEUE;
        event.allocation_id = session.memory()?.queue_allocation(buffer);
        event.pool_id = pool.as_ptr() as u64;
        event.physical_device_ordinal = stream.gpu;
        event.queue_ordinal = stream.queue;
        event.memory_type = buffer.memory_type().bits().into();
        event.buffer_usage = buffer.allowed_usage().bits().into();
        event.length = buffer.byte_length() as u64;
        Some(Self { session, event })
    }

    fn log(&self, kind: MemoryEventKind, pool: Pool<'_>, change: impl FnOnce(&mut MemoryEvent)) {
        let Some(memory) = self.session.memory() else { return };
        let mut event = self.event;
        event.type_ = kind as u32;
        event.host_time_ns = host_time();
        let stats = pool.statistics();
        event.flags |= flags::MEMORY_POOL_STATS;
        event.pool_bytes_reserved = stats.bytes_reserved as u64;
        event.pool_bytes_free = stats.bytes_free as u64;
        event.pool_bytes_committed = stats.bytes_committed as u64;
        event.pool_budget_limit = stats.budget_limit as u64;
        event.pool_reservation_count = stats.reservation_count;
        event.pool_slab_count = stats.slab_count;
        change(&mut event);
        memory.push(event);
    }

    /// Logs a reservation: the pool was asked for memory with this `alignment` in bytes and answered `result`
    /// (`iree_hal_pool_acquire_result_t`), with `reservation` if it gave memory.
    pub fn reserve(&self, pool: Pool<'_>, alignment: usize, result: u32, reservation: Option<&RawReservation>) {
        self.log(MemoryEventKind::PoolReserve, pool, |event| {
            event.result = result;
            event.alignment = alignment as u64;
            if let Some(reservation) = reservation {
                reserved(event, reservation);
            }
        });
    }

    /// Logs that the memory became a buffer's.
    pub fn materialize(&self, pool: Pool<'_>, reservation: &RawReservation) {
        self.log(MemoryEventKind::PoolMaterialize, pool, |event| reserved(event, reservation));
    }

    /// Logs that the memory went back to the pool.
    pub fn release(&self, pool: Pool<'_>, reservation: &RawReservation) {
        self.log(MemoryEventKind::PoolRelease, pool, |event| reserved(event, reservation));
    }

    /// Logs a wait of the allocation: for `frontier`, the last use of its memory, or for a release if there is none.
    pub fn wait(&self, pool: Pool<'_>, frontier: Option<&Frontier>) {
        self.log(MemoryEventKind::PoolWait, pool, |event| match frontier {
            Some(frontier) => {
                event.flags |= flags::MEMORY_WAIT_FRONTIER;
                event.frontier_entry_count = frontier.entries().count() as u32;
            }
            None => event.flags |= flags::MEMORY_WAIT_NOTIFICATION,
        });
    }

    /// Forgets the buffer, which has no pool memory any more: another one may get its address.
    pub fn forget(&self, buffer: Buffer<'_>) {
        if let Some(memory) = self.session.memory() {
            memory.queue_allocations.lock().remove(&(buffer.as_ptr() as usize));
        }
    }
}

fn reserved(event: &mut MemoryEvent, reservation: &RawReservation) {
    event.flags |= flags::MEMORY_POOL_RESERVATION;
    event.backing_id = reservation.block_handle;
    event.offset = reservation.offset as u64;
    event.length = reservation.length as u64;
}

/// The trace of a buffer or slab that was made during a session. Logs its end when dropped.
pub struct BufferTrace {
    session: Weak<Session>,
    /// The event of the end.
    end: MemoryEvent,
}

impl BufferTrace {
    /// Logs that a buffer was allocated or imported on the GPU of ordinal `gpu`. None if `session` wants no memory
    /// events. `address` is the device address of its memory, `length` is in bytes.
    pub fn begin(
        session: &Arc<Session>,
        imported: bool,
        params: &BufferParams,
        gpu: u32,
        (address, length): (u64, usize),
    ) -> Option<Self> {
        let memory = session.memory()?;
        let mut event = MemoryEvent::blank();
        event.allocation_id = memory.next_allocation();
        event.physical_device_ordinal = gpu;
        event.backing_id = address;
        event.memory_type = params.type_.into();
        event.buffer_usage = params.usage.into();
        event.length = length as u64;
        event.alignment = params.min_alignment as u64;
        event.host_time_ns = host_time();
        let end = if imported {
            event.flags = flags::MEMORY_EXTERNALLY_OWNED;
            event.type_ = MemoryEventKind::BufferImport as u32;
            MemoryEventKind::BufferUnimport
        } else {
            event.type_ = MemoryEventKind::BufferAllocate as u32;
            MemoryEventKind::BufferFree
        };
        memory.push(event);
        event.type_ = end as u32;
        Some(Self { session: Arc::downgrade(session), end: event })
    }

    /// Logs that pools got a slab of `length` bytes at `address` from `provider`, for memory of this kind on the GPU of
    /// ordinal `gpu`. None if `session` wants no memory events.
    pub fn slab(
        session: &Arc<Session>,
        provider: u64,
        gpu: u32,
        (memory_type, usage): (MemoryType, BufferUsage),
        (address, length): (u64, usize),
    ) -> Option<Self> {
        let memory = session.memory()?;
        let mut event = MemoryEvent::blank();
        event.type_ = MemoryEventKind::SlabAcquire as u32;
        event.allocation_id = memory.next_allocation();
        event.physical_device_ordinal = gpu;
        event.pool_id = provider;
        event.backing_id = address;
        event.memory_type = memory_type.bits().into();
        event.buffer_usage = usage.bits().into();
        event.length = length as u64;
        event.host_time_ns = host_time();
        memory.push(event);
        event.type_ = MemoryEventKind::SlabRelease as u32;
        Some(Self { session: Arc::downgrade(session), end: event })
    }
}

impl Drop for BufferTrace {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade()
            && let Some(memory) = session.memory()
        {
            self.end.host_time_ns = host_time();
            memory.push(self.end);
        }
    }
}
