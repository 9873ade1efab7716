// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Gates: work of another library that a queue waits for on the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hsa_abi::HsaSignal;
use parking_lot::Mutex;

use crate::Queue;
use crate::demand::Demand;
use crate::emitter::Emitter;
use crate::epoch_wait::EpochWait;
use crate::operation::{Operation, Planned, Progress, Submit};
use crate::record::CompletionAction;
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{BufferHandle, Result};
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;

/// Work of another library between two submissions. The queue lowers `begin` from 1 to 0, and goes on when `end` is 0.
#[derive(Debug)]
pub struct Gate {
    begin: HsaSignal,
    end: HsaSignal,
    is_over: AtomicBool,
    /// The buffers of the work. If it fails they stay, because the library may still use them.
    buffers: Mutex<Vec<BufferHandle>>,
}

impl Gate {
    /// A gate whose signals are 1.
    pub fn new((begin, end): (u64, u64)) -> Arc<Self> {
        let [begin, end] = [begin, end].map(|handle| HsaSignal { handle });
        Arc::new(Self { begin, end, is_over: AtomicBool::new(false), buffers: Mutex::default() })
    }

    /// Keeps buffers until the queue goes on. The gate must not have been opened.
    pub fn keep(&self, buffers: Vec<BufferHandle>) {
        *self.buffers.lock() = buffers;
    }

    /// True when the queue has gone on.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends the gate: the queue has gone on.
    pub(super) fn end(&self) {
        let buffers = std::mem::take(&mut *self.buffers.lock());
        drop(buffers);
        self.is_over.store(true, Ordering::Release);
    }
}

/// The operation of a queue that waits at a gate.
#[derive(Debug)]
pub struct Pass(pub Arc<Gate>);

impl Submit for Pass {
    type Owned = Self;

    fn into_owned(self) -> Result<Self> {
        Ok(self)
    }
}

impl Operation for Pass {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        Ok(Planned::Ready(Demand { packets: 2, ..Demand::default() }))
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        emitter.gate(self.0.begin, self.0.end);
        Progress::Done
    }

    fn completion_action(&mut self) -> CompletionAction {
        CompletionAction::Gate(self.0.clone())
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        EventInfo::of(QueueEventKind::HostCall)
    }
}
