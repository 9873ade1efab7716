// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One operation under a session: the data recorded during its submission (`packets`), and its events (`events`).

mod events;
pub mod host;
mod packets;
pub mod traced;

use std::sync::Arc;

use hsa_abi::{AmdPm4IbPacket, HsaSignal};
use parking_lot::Mutex;

use crate::record::CompletionAction;
use crate::trace::packets::{Launched, Packets};
use amdgpu_ffi::profile::schema::{ProfileData, QueueEventKind};
use amdgpu_ffi::profile::{Stream, host_time};
use amdgpu_ffi::{Code, Status};
use amdgpu_gpu::Gpu;
use amdgpu_profile::session::{DISPATCHES, Session};
use amdgpu_profile::{EventInfo, LaunchInfo, Profiler, counters, thread_traces};

/// The record that a session makes of one operation. It owns the completion signals of the operation's packets and
/// lives until these are complete. Each use decrements a signal; only its times are read, not its value. Traces
/// are reused by later operations of a queue, with a few of their signals.
#[derive(Debug)]
pub struct Trace {
    /// None while the trace is unused.
    session: Option<Arc<Session>>,
    info: EventInfo,
    stream: Stream,
    submission: u64,
    waits: u32,
    wait_packets: u32,
    signals: u32,
    was_deferred: bool,
    /// Host times; 0 until they are known, and if no event has them.
    submitted: i64,
    ready: i64,
    started: i64,
    packets: Packets,
    /// The action at the submission's completion.
    then: CompletionAction,
}

/// Signals that a trace keeps for its next operation: most operations need no more.
const FEW_SIGNALS: usize = 2;

/// The most unused traces that are kept.
const MOST_SPARE: usize = 1024;

impl Trace {
    fn blank() -> Self {
        Self {
            session: None,
            info: EventInfo::of(QueueEventKind::Barrier),
            stream: Stream { gpu: 0, queue: 0 },
            submission: 0,
            waits: 0,
            wait_packets: 0,
            signals: 0,
            was_deferred: false,
            submitted: 0,
            ready: 0,
            started: 0,
            packets: Packets::default(),
            then: CompletionAction::None,
        }
    }

    /// Makes `trace` the trace of an operation that is being submitted to the queue `ordinal` with `waits` and
    /// `signals` as numbers of semaphores. `info` makes the description of the operation.
    fn begin(
        mut trace: Box<Self>,
        session: Arc<Session>,
        ordinal: u32,
        info: impl FnOnce(&Session) -> EventInfo,
        waits: usize,
        signals: usize,
    ) -> Box<Self> {
        let this = &mut *trace;
        this.info = info(&session);
        let (kind, command_buffer) = (this.info.kind, this.info.command_buffer);
        let stream = session.stream(ordinal);
        let has_launches = matches!(kind, QueueEventKind::Dispatch | QueueEventKind::Execute);
        let selected = session.selected(stream, command_buffer);
        let launches = has_launches && selected.intersects(DISPATCHES);
        let whole = selected.intersects(ProfileData::DEVICE_QUEUE_EVENTS);
        let regions = command_buffer != 0 && selected.intersects(ProfileData::COMMAND_REGION_EVENTS);
        this.packets.begin((launches, whole, regions));
        if launches && session.watches_launches() {
            let watched = session.watched_launches(command_buffer, this.info.launch.as_ref());
            this.packets.watch(watched, &session);
        }
        this.stream = stream;
        this.submission = session.next_submission();
        (this.waits, this.wait_packets, this.signals) = (waits as u32, 0, signals as u32);
        this.was_deferred = false;
        let submitted = if session.wants_host_times() { host_time() } else { 0 };
        (this.submitted, this.ready, this.started) = (submitted, 0, 0);
        this.session = Some(session);
        trace
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("a trace that is an operation's has a session")
    }

    /// Announces that `before` packets come next and then the packet of the launch that `note` describes, if it is one.
    pub fn launches(&mut self, before: u32, info: impl FnOnce() -> Option<LaunchInfo>) {
        if self.packets.has_launches()
            && let Some(launch) = info()
        {
            let is_selected = self.packets.launches && self.session().selects_launch(&launch);
            if self.packets.regions || is_selected {
                self.packets.coming = Some((before, is_selected));
                self.packets.launched.push(Launched::new(launch));
            }
        }
    }

    /// True if launches are counted or traced, so that none may run beside another.
    pub fn is_counting(&self) -> bool {
        self.packets.watched.is_some()
    }

    /// The number of packets that come between the next one and the one `distance` after it in front of a launch that
    /// is counted or traced.
    pub fn packets_within(&self, distance: u32) -> u32 {
        let packets = &self.packets;
        if !packets.chosen_within(distance) {
            return 0;
        }
        u32::from(packets.counts_more()) + self.marker().map_or(0, |_| thread_traces::PACKETS_BEFORE)
    }

    /// The packet that puts a marker of the next launch's code into a thread trace, if the launch is to be traced. If
    /// an executable has no marker, the session has failed.
    fn marker(&self) -> Option<AmdPm4IbPacket> {
        let launched = self.packets.launched.last().filter(|_| self.packets.traces_more())?;
        self.session.as_ref()?.traces()?.marker(self.stream.gpu, launched.info.function.executable)
    }

    /// The packets that start counting and tracing the launch that is written next, if that is wanted.
    pub fn start_counting(&mut self) -> impl Iterator<Item = AmdPm4IbPacket> + use<> {
        let (mut count, mut trace) = (None, [None; thread_traces::PACKETS_BEFORE as usize]);
        if self.packets.chosen_within(0) {
            let marker = self.marker();
            let packets = &mut self.packets;
            if packets.counts_more() {
                count = Some(packets.counts[packets.used_counts].packets().start);
                packets.counting = Some(packets.used_counts);
                packets.used_counts += 1;
                packets.owed -= counters::PACKETS;
            }
            if let Some(marker) = marker {
                packets.tracing = Some(packets.used_traces);
                packets.used_traces += 1;
                packets.owed -= thread_traces::PACKETS;
                trace = [Some(packets.traces[packets.used_traces - 1].packets().start), Some(marker)];
            }
        }
        count.into_iter().chain(trace.into_iter().flatten())
    }

    /// The packets that end the trace of the launch just written, and read and stop its counters; none if it is neither
    /// traced nor counted.
    pub fn stop_counting(&mut self) -> impl Iterator<Item = AmdPm4IbPacket> + use<> {
        let packets = &mut self.packets;
        let trace = packets.tracing.take().map(|trace| packets.traces[trace].packets().stop);
        let count = packets.counting.take().map(|counting| {
            let packets = packets.counts[counting].packets();
            [packets.read, packets.stop]
        });
        trace.into_iter().chain(count.into_iter().flatten())
    }

    /// Takes one of the packets of this part that no launch needed. It has to be written all the same.
    pub fn take_owed(&mut self) -> bool {
        let is_owed = self.packets.owed > 0;
        self.packets.owed -= u32::from(is_owed);
        is_owed
    }

    /// The signal for the packet that is written now.
    #[inline(always)]
    pub fn next_signal(&mut self) -> HsaSignal {
        self.packets.next()
    }

    /// Ends the operation's own packets of this part. Returns the signal for the packet that marks their end, if there
    /// is one.
    pub fn end_part(&mut self) -> Option<HsaSignal> {
        self.packets.parts += 1;
        std::mem::take(&mut self.packets.marked).then(|| self.packets.mark())
    }

    /// Takes out the operation's own action at its completion.
    pub fn take_action(&mut self) -> CompletionAction {
        std::mem::replace(&mut self.then, CompletionAction::None)
    }

    /// Logs the events of the submission, which is complete on the queue with this GPU and ordinal.
    pub fn log_completion(&self, queue: (&Gpu, u32), profiler: &Profiler) {
        self.log_host(Code::OK);
        if let Err(status) = self.log_device(queue, profiler) {
            self.session().fail(status);
        }
    }

    /// Clears the trace for reuse by other operations.
    fn clear(&mut self) {
        let Some(session) = self.session.take() else { return };
        let packets = &mut self.packets;
        packets.launched.clear();
        if packets.signals.len() > FEW_SIGNALS {
            session.return_signals(packets.signals.drain(FEW_SIGNALS..));
        }
        packets.counts.clear();
        packets.traces.clear();
        packets.watched = None;
    }

    /// Logs the failure of the submission in the ring. Its packets may not have run: they have no events.
    pub fn log_failure(&self, failure: &Status) {
        self.log_host(failure.code());
    }
}

/// Unused traces, for later operations of a queue.
#[derive(Debug, Default)]
pub(super) struct TracePool(
    #[expect(clippy::vec_box, reason = "they go in and out by a pointer")] Mutex<Vec<Box<Trace>>>,
);

impl TracePool {
    fn take(&self) -> Box<Trace> {
        let unused = self.0.lock().pop();
        unused.unwrap_or_else(|| Box::new(Trace::blank()))
    }

    /// Takes back the trace of a complete operation. Under no lock.
    pub(super) fn recycle(&self, mut trace: Box<Trace>) {
        trace.clear();
        let mut traces = self.0.lock();
        if traces.len() < MOST_SPARE {
            traces.push(trace);
        }
    }

    /// Drops the unused traces: the session is over.
    pub(super) fn clear(&self) {
        let traces = std::mem::take(&mut *self.0.lock());
        drop(traces);
    }
}
