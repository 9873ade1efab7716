// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The profiled form of an operation, which is submitted in its place.

use std::sync::Arc;

use super::Trace;
use crate::Queue;
use crate::emitter::Emitter;
use crate::epoch_wait::EpochWait;
use crate::operation::{Operation, Planned, Progress, Submit};
use crate::record::CompletionAction;
use crate::retained::RetainedSet;
use amdgpu_ffi::profile::host_time;
use amdgpu_ffi::profile::schema::ProfileData;
use amdgpu_ffi::{Code, Result};
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;

/// The trace of an operation until that is in the ring. If dropped before, the operation was accepted and never ran:
/// logs that.
#[derive(Debug)]
struct TraceGuard(Option<Box<Trace>>);

impl Drop for TraceGuard {
    fn drop(&mut self) {
        if let Some(trace) = self.0.take().filter(|trace| trace.was_deferred) {
            trace.log_host(Code::UNKNOWN);
        }
    }
}

/// An operation with its trace. It is submitted in place of the operation.
pub struct Traced<O> {
    operation: O,
    guard: TraceGuard,
}

impl<O: Operation> Traced<O> {
    /// Wraps `operation`, without a trace.
    #[inline(always)]
    pub fn new(operation: O) -> Self {
        Self { operation, guard: TraceGuard(None) }
    }

    /// Begins the trace of the operation for `session`, if the session has events of it. It is being submitted to
    /// `queue` with these numbers of waits and signals.
    #[inline(always)]
    pub fn begin(&mut self, session: Arc<Session>, queue: &Queue, (waits, signals): (usize, usize)) {
        let info = |session: &Session| self.operation.profile_event(session);
        self.guard.0 = if session.records_all() {
            // The description is made where it stays: it is large.
            Some(Trace::begin(queue.traces.take(), session, queue.ordinal(), info, waits, signals))
        } else {
            let info = info(&session);
            let is_recorded = session.records(&info);
            is_recorded.then(|| Trace::begin(queue.traces.take(), session, queue.ordinal(), |_| info, waits, signals))
        };
    }
}

impl<O: Submit> Submit for Traced<O> {
    type Owned = Traced<O::Owned>;

    fn into_owned(self) -> Result<Traced<O::Owned>> {
        let Self { operation, mut guard } = self;
        if let Some(trace) = &mut guard.0 {
            trace.was_deferred = true;
        }
        Ok(Traced { operation: operation.into_owned()?, guard })
    }
}

impl<O: Operation> Operation for Traced<O> {
    #[inline(always)]
    fn plan(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Planned> {
        let mut planned = self.operation.plan(queue, waits)?;
        if let (Planned::Ready(demand), Some(trace)) = (&mut planned, &mut self.guard.0) {
            if trace.packets.parts == 0 {
                // A submission that was not deferred is ready when it is submitted.
                trace.ready = if trace.was_deferred { host_time() } else { trace.submitted };
            }
            let Trace { session, packets, stream, .. } = &mut **trace;
            if let Some(session) = session {
                packets.prepare(session, queue.limits(), waits.len() as u32, stream.gpu, demand);
            }
        }
        Ok(planned)
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        let Some(mut trace) = self.guard.0.take() else { return self.operation.write(emitter) };
        trace.wait_packets += emitter.written();
        emitter.begin_trace(trace);
        let progress = self.operation.write(emitter);
        self.guard.0 = emitter.end_trace();
        progress
    }

    #[inline(always)]
    fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
        self.operation.retained_resources(queue)
    }

    #[inline(always)]
    fn completion_action(&mut self) -> CompletionAction {
        let action = self.operation.completion_action();
        let Some(mut trace) = self.guard.0.take() else { return action };
        // The old value is empty: its drop is skipped.
        std::mem::forget(std::mem::replace(&mut trace.then, action));
        let is_span = trace.session().wants(ProfileData::HOST_EXECUTION_EVENTS) || trace.info.memory.is_some();
        trace.started = if is_span { host_time() } else { trace.ready };
        CompletionAction::Log(trace)
    }

    fn on_submitted(&mut self, queue: &Queue, epoch: u64) {
        self.operation.on_submitted(queue, epoch);
    }

    fn profile_event(&self, session: &Session) -> EventInfo {
        self.operation.profile_event(session)
    }
}
