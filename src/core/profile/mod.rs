// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Profiling sessions (`iree/hal/device.h`, `iree/hal/profile_schema.h`): the data that a device writes to a sink about
//! its work.
//!
//! A session is an object of its own ([`session::Session`]), which operations hold while they are in progress. A
//! submission asks the device's [`Profiler`] once for the session: a load and a branch if there is none. With a
//! session, the operation goes to the queue inside a `Traced` (`core/queue/trace.rs`), which records times, gives
//! packets completion signals of their own where device times are wanted, and logs the events when the submission is
//! complete, before its semaphores advance. Logs are bounded. Flush and end write them to the sink on the caller's
//! thread, under no lock that a queue takes.
//!
//! Device times are those that the packet processor writes to completion signals, translated by the HSA runtime to its
//! system clock (`hsa_amd_profiling_get_dispatch_time`). So the "device ticks" of a profile are ticks of that clock
//! (`HSA_SYSTEM_INFO_TIMESTAMP`) on all GPUs, and the samples that relate it to the host's clocks need only HSA.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod counters;
pub mod known_counters;
pub mod log;
pub mod memory;
pub mod metadata;
pub mod metrics;
pub mod pool;
pub mod regions;
pub mod session;
pub mod thread_traces;
pub mod zones;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::memory::MemoryInfo;
use crate::metadata::ExecutableInfo;
use crate::session::Session;
use crate::zones::Zones;
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_hsa as hsa;

/// A function of an executable, as profiles name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FunctionRef {
    /// The executable's identifier, unique in the process; 0 for none.
    pub executable: u64,
    /// The ordinal in the executable.
    pub ordinal: u32,
}

/// A launch of a function, or of a kernel of the driver's own for a recorded transfer.
#[derive(Debug, Clone, Copy)]
pub struct LaunchInfo {
    /// The function; without an executable for a transfer.
    pub function: FunctionRef,
    /// The position in the command buffer; `u32::MAX` for a dispatch outside of command buffers.
    pub command_index: u32,
    /// Zeros when the device reads them.
    pub workgroup_count: [u32; 3],
    /// Work-items.
    pub workgroup_size: [u32; 3],
    /// The device reads the workgroup counts.
    pub indirect: bool,
}

/// The description of a queue operation for profiles.
#[derive(Debug, Clone, Copy)]
pub struct EventInfo {
    /// The kind of operation.
    pub kind: QueueEventKind,
    /// The number of payload operations.
    pub operations: u32,
    /// Bytes of payload; 0 if that does not apply.
    pub length: u64,
    /// The command buffer; 0 for none.
    pub command_buffer: u64,
    /// The function, for a dispatch outside of command buffers whose span on the host is wanted.
    pub launch: Option<LaunchInfo>,
    /// The memory event, if those are wanted.
    pub memory: Option<MemoryInfo>,
}

impl EventInfo {
    /// A subject of `kind` with one operation.
    pub fn one(kind: QueueEventKind, length: u64) -> Self {
        Self { operations: 1, length, ..Self::of(kind) }
    }

    /// A subject of `kind` with none.
    pub fn of(kind: QueueEventKind) -> Self {
        Self { kind, operations: 0, length: 0, command_buffer: 0, launch: None, memory: None }
    }
}

/// The profiling state of a logical device: the active session, and the executables for later ones.
#[derive(Debug, Default)]
pub struct Profiler {
    active: AtomicBool,
    current: RwLock<Option<Arc<Session>>>,
    /// Locked while a session begins, is flushed or ends, sink calls included. Queues never take it.
    control: Mutex<()>,
    executables: Mutex<Vec<Weak<ExecutableInfo>>>,
    zones: Zones,
}

impl Profiler {
    /// True if there is a session.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// The active session.
    #[inline]
    pub fn session(&self) -> Option<Arc<Session>> {
        if !self.is_active() {
            return None;
        }
        self.current.read().clone()
    }

    /// The active session, if the application began it.
    pub fn requested_session(&self) -> Option<Arc<Session>> {
        self.session().filter(|session| session.is_requested())
    }

    /// The number of packets that a launch may have around it in the active session; 0 without one. If there are any,
    /// each launch runs alone.
    #[inline]
    pub fn packets_around(&self) -> u32 {
        if self.is_active() { self.most_around() } else { 0 }
    }

    #[cold]
    fn most_around(&self) -> u32 {
        self.session().map_or(0, |session| session.packets_around())
    }

    /// True if there is a session that counts hardware events in kernels or traces kernels.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.packets_around() > 0
    }

    /// Registers an executable with sessions, for as long as it lives.
    pub fn add_executable(&self, executable: &Arc<ExecutableInfo>) {
        let mut known = self.executables.lock();
        known.retain(|known| known.strong_count() > 0);
        known.push(Arc::downgrade(executable));
        if let Some(session) = self.session() {
            session.add_executable(executable.clone());
        }
    }

    /// The right to begin, flush and end sessions.
    pub fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock()
    }

    /// Makes `session` the active one, and registers the existing executables with it.
    pub fn publish(&self, session: &Arc<Session>) {
        let known = self.executables.lock();
        for executable in known.iter().filter_map(Weak::upgrade) {
            session.add_executable(executable);
        }
        *self.current.write() = Some(session.clone());
        self.active.store(true, Ordering::Release);
    }

    /// Ends tracing, unless the active session was not [requested](Self::requested_session). Operations in progress
    /// keep the session.
    pub fn retract(&self) -> Option<Arc<Session>> {
        let session = self.current.write().take_if(|session| session.is_requested())?;
        self.active.store(false, Ordering::Release);
        Some(session)
    }

    /// Adds a kernel to IREE's trace that the queue `ordinal`, of `queue_count`, ran at `ticks`. A kernel without an
    /// executable is a transfer's.
    pub fn add_zone(&self, library: &hsa::Library, queue: (u32, usize), function: FunctionRef, ticks: (u64, u64)) {
        let known =
            self.executables.lock().iter().filter_map(Weak::upgrade).find(|known| known.id == function.executable);
        let name = known.as_ref().and_then(|known| known.functions.get(function.ordinal as usize));
        self.zones.add(library, queue, name.map_or("transfer", |function| &function.name), ticks);
    }
}
