// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The profiled form of an operation, which is submitted in its place.

use std::sync::Arc;

use super::Trace;
use crate::core::profile::Subject;
use crate::core::profile::session::Session;
use crate::core::queue::Queue;
use crate::core::queue::complete::CompletionAction;
use crate::core::queue::operation::{Emitter, Operation, Prepared, Progress, Submit};
use crate::core::queue::resources::Resources;
use crate::core::queue::waits::EpochWait;
use crate::ffi::profile::host_time;
use crate::ffi::profile::schema::ProfileData;
use crate::ffi::{Code, Result};

/// The trace of an operation until that is in the ring. If dropped before, the operation was accepted and never ran:
/// logs that.
#[derive(Debug)]
struct Note(Option<Box<Trace>>);

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(trace) = self.0.take().filter(|trace| trace.was_deferred) {
            trace.log_host(Code::UNKNOWN);
        }
    }
}

/// An operation with its trace. It is submitted in place of the operation.
pub struct Traced<O> {
    operation: O,
    note: Note,
}

impl<O: Operation> Traced<O> {
    /// Wraps `operation`, without a trace.
    #[inline(always)]
    pub fn new(operation: O) -> Self {
        Self { operation, note: Note(None) }
    }

    /// Begins the trace of the operation for `session`, if the session has events of it. It is being submitted to
    /// `queue` with these numbers of waits and signals.
    #[inline(always)]
    pub fn begin(&mut self, session: Arc<Session>, queue: &Queue, (waits, signals): (usize, usize)) {
        let subject = |session: &Session| self.operation.subject(session);
        self.note.0 = if session.notes_all() {
            // The subject is made where it stays: it is large.
            Some(Trace::begin(queue.take_trace(), session, queue, subject, waits, signals))
        } else {
            let subject = subject(&session);
            let is_noted = session.notes(&subject);
            is_noted.then(|| Trace::begin(queue.take_trace(), session, queue, |_| subject, waits, signals))
        };
    }
}

impl<O: Submit> Submit for Traced<O> {
    type Owned = Traced<O::Owned>;

    fn into_owned(self) -> Result<Traced<O::Owned>> {
        Ok(Traced { operation: self.operation.into_owned()?, note: self.note })
    }
}

impl<O: Operation> Operation for Traced<O> {
    fn prepare(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Prepared> {
        let mut prepared = self.operation.prepare(queue, waits)?;
        if let (Prepared::Ready(demand), Some(trace)) = (&mut prepared, &mut self.note.0) {
            if trace.packets.parts == 0 {
                // A submission that was not deferred is ready when it is submitted.
                trace.ready = if trace.was_deferred { host_time() } else { trace.submitted };
            }
            let Trace { session, packets, .. } = &mut **trace;
            if let Some(session) = session {
                packets.prepare(session, queue, waits.len(), demand);
            }
        }
        Ok(prepared)
    }

    fn emit(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        let Some(mut trace) = self.note.0.take() else { return self.operation.emit(emitter) };
        trace.wait_packets += emitter.written();
        emitter.begin_trace(trace);
        let progress = self.operation.emit(emitter);
        self.note.0 = emitter.end_trace();
        progress
    }

    fn keep(&self, queue: &Queue) -> Result<Resources> {
        self.operation.keep(queue)
    }

    fn finish(&mut self) -> CompletionAction {
        let action = self.operation.finish();
        let Some(mut trace) = self.note.0.take() else { return action };
        // There is nothing to drop, which nobody need ask.
        std::mem::forget(std::mem::replace(&mut trace.then, action));
        let is_span = trace.session().wants(ProfileData::HOST_EXECUTION_EVENTS) || trace.subject.memory.is_some();
        trace.started = if is_span { host_time() } else { trace.ready };
        CompletionAction::Log(trace)
    }

    fn submitted(&mut self, queue: &Queue, epoch: u64) {
        self.operation.submitted(queue, epoch);
    }

    fn deferred(&mut self) {
        self.operation.deferred();
        if let Some(trace) = &mut self.note.0 {
            trace.was_deferred = true;
        }
    }

    fn subject(&self, session: &Session) -> Subject {
        self.operation.subject(session)
    }
}
