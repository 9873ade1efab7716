// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Traces of operations that run on host threads.

use super::Trace;
use crate::Queue;
use amdgpu_ffi::Code;
use amdgpu_ffi::profile::host_time;
use amdgpu_profile::EventInfo;

/// The trace of an operation that runs on a host thread, if it is profiled.
#[derive(Debug, Default)]
pub struct HostTrace(Option<Box<Trace>>);

impl HostTrace {
    /// The trace of an operation that is being submitted to `queue` with these numbers of waits and signals.
    /// `info` describes it.
    #[inline]
    pub fn new(queue: &Queue, info: impl FnOnce() -> EventInfo, waits: usize, signals: usize) -> Self {
        if !queue.shared().profiler.is_active() { Self(None) } else { Self::begin_trace(queue, info(), waits, signals) }
    }

    #[cold]
    #[inline(never)]
    fn begin_trace(queue: &Queue, info: EventInfo, waits: usize, signals: usize) -> Self {
        let session = queue.shared().profiler.session().filter(|session| session.records(&info));
        // None of those that go from one operation to the next: it has no packets.
        let begin =
            |session| Trace::begin(Box::new(Trace::blank()), session, queue.ordinal(), |_| info, waits, signals);
        Self(session.map(begin))
    }

    /// Notes the start of the operation.
    pub fn begin(&mut self) {
        if let Some(trace) = &mut self.0 {
            trace.ready = host_time();
            trace.started = trace.ready;
            trace.was_deferred = trace.waits > 0;
        }
    }

    /// Notes the end of the operation, with its failure if any. Its events are in the session before its semaphores
    /// advance.
    pub fn end(&self, failure: Option<Code>) {
        if let Some(trace) = &self.0 {
            trace.log_host(failure.unwrap_or(Code::OK));
        }
    }
}
