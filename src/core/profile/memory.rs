// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory events: buffers and queue allocations, when they come and when they go. What the pools do behind queue allocations is IREE's and
//! not told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::core::profile::log::{EventLog, Taken};
use crate::core::profile::session::Session;
use crate::ffi::profile::host_time;
use crate::ffi::profile::schema::{MemoryEvent, MemoryEventKind, Record, flags};
use crate::ffi::{Buffer, BufferParams, BufferUsage, MemoryType};

/// A session's memory events.
pub struct MemoryLog {
    events: EventLog<MemoryEvent>,
    next_allocation: AtomicU64,
    /// The allocations of queues that are not deallocated yet, by the address of their buffer object.
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

/// What a queue does with memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryNote {
    kind: MemoryEventKind,
    /// Identifies the allocation in the session.
    pub allocation: u64,
    memory_type: MemoryType,
    usage: BufferUsage,
    length: u64,
}

impl MemoryNote {
    /// The allocation of the transient buffer `buffer`, when `session` wants memory events.
    pub fn alloca(session: &Session, buffer: Buffer<'_>) -> Option<Self> {
        let memory = session.memory()?;
        let allocation = memory.next_allocation();
        memory.queue_allocations.lock().insert(buffer.as_ptr() as usize, allocation);
        Some(Self::new(MemoryEventKind::QueueAlloca, allocation, buffer))
    }

    /// Its deallocation. One from before the session is a new allocation to it.
    pub fn dealloca(session: &Session, buffer: Buffer<'_>) -> Option<Self> {
        let memory = session.memory()?;
        let known = memory.queue_allocations.lock().remove(&(buffer.as_ptr() as usize));
        let allocation = known.unwrap_or_else(|| memory.next_allocation());
        Some(Self::new(MemoryEventKind::QueueDealloca, allocation, buffer))
    }

    fn new(kind: MemoryEventKind, allocation: u64, buffer: Buffer<'_>) -> Self {
        let (memory_type, usage) = (buffer.memory_type(), buffer.allowed_usage());
        Self { kind, allocation, memory_type, usage, length: buffer.byte_length() as u64 }
    }

    /// The event, but for where and when.
    pub fn event(&self) -> MemoryEvent {
        let mut event = MemoryEvent::blank();
        event.type_ = self.kind as u32;
        event.flags = flags::MEMORY_OF_QUEUE;
        event.allocation_id = self.allocation;
        event.memory_type = self.memory_type.bits().into();
        event.buffer_usage = self.usage.bits().into();
        event.length = self.length;
        event
    }
}

/// The life of a buffer that came while a session was active: logs its end when it is dropped.
pub struct BufferTrace {
    session: Weak<Session>,
    /// The event of its end.
    end: MemoryEvent,
}

impl BufferTrace {
    /// Logs that a buffer was allocated, or imported, on the GPU of ordinal `gpu`; none when `session` wants no memory events. `address` is
    /// its memory on the device, `length` in bytes.
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
