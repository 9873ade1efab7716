// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One operation under a session: what is noted on its way, and the events that come of it.

use std::sync::Arc;

use hsa_abi::{AmdPm4IbPacket, HsaSignal};
use parking_lot::Mutex;

use crate::core::profile::regions::{self, HostClock};
use crate::core::profile::session::Session;
use crate::core::profile::{LaunchNote, Subject};
use crate::core::profile::{counters, thread_traces};
use crate::core::queue::Queue;
use crate::core::queue::complete::CompletionAction;
use crate::core::queue::operation::{Demand, Emitter, Operation, Prepared, Progress, Submit};
use crate::core::queue::resources::Resources;
use crate::core::queue::waits::EpochWait;
use crate::ffi::profile::schema::{
    DependencyStrategy, DispatchEvent, HostExecutionEvent, ProfileData, QueueDeviceEvent, QueueEvent, QueueEventKind,
    Record, flags,
};
use crate::ffi::profile::{Stream, host_time};
use crate::ffi::{Code, Result, Status, status};
use crate::hsa;
use crate::hsa::aqlprofile::{Capture, TraceCapture};

/// What a session notes of one operation. Its packets' completion signals are in it: it lives until they are complete.
/// Nobody looks at the values of these signals, which each use decrements, only at their times. Its memory goes from
/// one operation of a queue to another, and a few signals with it.
#[derive(Debug)]
pub struct Trace {
    /// None while it is nobody's.
    session: Option<Arc<Session>>,
    subject: Subject,
    stream: Stream,
    submission: u64,
    waits: u32,
    wait_packets: u32,
    signals: u32,
    was_deferred: bool,
    /// Host times, 0 until they are known.
    submitted: i64,
    ready: i64,
    started: i64,
    packets: Packets,
    /// What else happens when the submission is complete.
    then: CompletionAction,
}

/// Signals that stay with a trace from one operation to the next: most need no more.
const FEW_SIGNALS: usize = 2;

/// Most traces that are kept.
const MOST_SPARE: usize = 1024;

/// Which packets of an operation carry signals of their own.
#[derive(Debug, Default)]
struct Packets {
    /// A device queue event is wanted.
    whole: bool,
    /// Dispatch events are wanted.
    launches: bool,
    /// Events of a recording's regions are wanted.
    regions: bool,
    /// Parts that are in the ring.
    parts: u32,
    /// The part being written ends with a packet that marks its end.
    marked: bool,
    /// The signals; those from `used` on are free.
    signals: Vec<hsa::Signal>,
    used: usize,
    /// The launch whose packet comes after so many others, and whether it has a dispatch event.
    coming: Option<(u32, LaunchNote, bool)>,
    /// Launches, the signals of their packets, and what counted and traced them if something did.
    launched: Vec<(usize, LaunchNote, Option<usize>, Option<usize>)>,
    /// Launches that have dispatch events are counted.
    counts: bool,
    /// What counts them; those from `used_captures` on are free.
    captures: Vec<Capture>,
    used_captures: usize,
    /// The launch that is written now is counted.
    counting: Option<usize>,
    /// How many launches are to be traced, over all parts.
    to_trace: usize,
    /// What traces them; those from `used_traces` on are free.
    traces: Vec<TraceCapture>,
    used_traces: usize,
    /// The launch that is written now is traced.
    tracing: Option<usize>,
    /// Packets that the part has room for and no launch needed yet.
    owed: u32,
    /// Signals of the first and the last packet.
    first: Option<usize>,
    last: Option<usize>,
}

impl Packets {
    /// Whether launches carry signals.
    fn has_launches(&self) -> bool {
        self.launches || self.regions
    }

    /// Makes ready for a part, and adds to `demand` what it will take: a packet that marks the end where more than one
    /// packet may, and the barrier that carries the epoch in place of the last packet.
    fn prepare(&mut self, session: &Session, queue: &Queue, waits: usize, demand: &mut Demand) {
        if !self.whole && !self.has_launches() {
            return;
        }
        let most_launches = demand.packets;
        self.prepare_captures(session, queue, waits, *demand);
        self.marked = self.whole && !(self.parts == 0 && demand.packets == 1);
        let launches = if self.has_launches() { most_launches as usize } else { 0 };
        let wanted = self.used + launches + usize::from(self.whole) + usize::from(self.marked);
        if self.signals.len() < wanted
            && let Err(status) = session.take_signals(&mut self.signals, wanted)
        {
            session.fail(
                status.annotate("a profiling session lost device events: there are no signals for their packets"),
            );
            (self.whole, self.launches, self.regions, self.marked) = (false, false, false, false);
            (self.counts, self.to_trace, self.owed) = (false, 0, 0);
            // A span that has begun has no end.
            (self.first, self.last) = (None, None);
            return;
        }
        if launches > 0 {
            self.launched.reserve(launches);
        }
        demand.packets += u32::from(self.marked) + self.owed;
        demand.overlapping = true;
    }

    /// Makes ready to count any packet of a part, and to trace as many of them as are to be.
    fn prepare_captures(&mut self, session: &Session, queue: &Queue, waits: usize, demand: Demand) {
        self.owed = 0;
        if !self.counts && !self.traces_more() {
            return;
        }
        let most = demand.packets;
        // With the packet that marks the end.
        let fits = |packets: u32| {
            let packets = most.saturating_add(packets).saturating_add(1);
            queue.check_fits(Demand { packets, ..demand }, waits as u32)
        };
        let gpu = session.stream(queue.ordinal()).gpu;
        if let Some(counters) = session.counters().filter(|_| self.counts) {
            let packets = most.saturating_mul(counters::PACKETS);
            let wanted = self.used_captures + most as usize;
            match fits(packets).and_then(|()| counters.take(gpu, &mut self.captures, wanted)) {
                Ok(()) => self.owed = packets,
                Err(status) => {
                    self.counts = false;
                    session.fail(status.annotate("a profiling session lost counter samples"));
                }
            }
        }
        let traced = (self.to_trace - self.used_traces).min(most as usize);
        if let Some(traces) = session.traces().filter(|_| traced > 0) {
            let packets = self.owed.saturating_add(traced as u32 * thread_traces::PACKETS);
            match fits(packets).and_then(|()| traces.take(gpu, &mut self.traces, self.used_traces + traced)) {
                Ok(()) => self.owed = packets,
                Err(status) => {
                    self.to_trace = self.used_traces;
                    session.fail(status.annotate("a profiling session lost executable traces"));
                }
            }
        }
    }

    /// Whether the launch comes after so many other packets, or before that, and is to be counted and traced.
    fn chosen_within(&self, distance: u32) -> bool {
        self.coming.as_ref().is_some_and(|(before, _, is_chosen)| *before <= distance && *is_chosen)
    }

    /// Whether there is a trace for one more launch.
    fn traces_more(&self) -> bool {
        self.used_traces < self.to_trace
    }

    /// Those of another operation, whose launches are noted, whose whole is, and of whose regions it is; and of which
    /// launches are counted, and so many traced.
    fn begin(&mut self, (launches, whole, regions): (bool, bool, bool), (counts, to_trace): (bool, usize)) {
        (self.launches, self.whole, self.regions) = (launches, whole, regions);
        (self.counts, self.to_trace) = (counts, to_trace);
        (self.parts, self.used, self.used_captures, self.used_traces, self.owed) = (0, 0, 0, 0, 0);
        self.marked = false;
        self.coming = None;
        (self.counting, self.tracing, self.first, self.last) = (None, None, None, None);
    }

    fn use_signal(&mut self) -> usize {
        self.used += 1;
        self.used - 1
    }

    /// The signal for the packet that is written now.
    #[inline(always)]
    fn next(&mut self) -> HsaSignal {
        let is_launch = match &mut self.coming {
            Some((0, ..)) => true,
            Some((before, ..)) => {
                *before -= 1;
                false
            }
            None => false,
        };
        let is_first = self.whole && self.first.is_none();
        if !is_launch && !is_first {
            return HsaSignal::NULL;
        }
        let index = self.use_signal();
        if is_launch && let Some((_, launch, _)) = self.coming.take() {
            self.launched.push((index, launch, self.counting, self.tracing));
        }
        if is_first {
            self.first = Some(index);
            self.last = Some(index);
        }
        self.signals[index].handle()
    }

    /// The signal of the packet that marks the end.
    fn mark(&mut self) -> HsaSignal {
        let index = self.use_signal();
        self.first.get_or_insert(index);
        self.last = Some(index);
        self.signals[index].handle()
    }
}

impl Trace {
    fn blank() -> Self {
        Self {
            session: None,
            subject: Subject::of(QueueEventKind::Barrier),
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

    /// The trace of an operation that is being submitted to `queue` with so many waits and signals, and of which
    /// `subject` tells.
    fn begin(
        session: Arc<Session>,
        queue: &Queue,
        subject: impl FnOnce(&Session) -> Subject,
        waits: usize,
        signals: usize,
    ) -> Box<Self> {
        let mut trace = queue.take_trace();
        let this = &mut *trace;
        this.subject = subject(&session);
        let (kind, command_buffer) = (this.subject.kind, this.subject.command_buffer);
        let stream = session.stream(queue.ordinal());
        let has_launches = matches!(kind, QueueEventKind::Dispatch | QueueEventKind::Execute);
        let launches = has_launches && session.selects_launches(stream, command_buffer);
        let whole = session.selects_operation(stream, command_buffer);
        let regions = command_buffer != 0 && session.selects_regions(stream, command_buffer);
        let to_trace = if launches { session.traced_launches(command_buffer, this.subject.launch.as_ref()) } else { 0 };
        this.packets.begin((launches, whole, regions), (launches && session.counters().is_some(), to_trace));
        this.stream = stream;
        this.submission = session.next_submission();
        (this.waits, this.wait_packets, this.signals) = (waits as u32, 0, signals as u32);
        this.was_deferred = false;
        (this.submitted, this.ready, this.started) = (host_time(), 0, 0);
        this.session = Some(session);
        trace
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("a trace that is an operation's has a session")
    }

    /// The packets to come are `before` others and then the one of the launch that `note` describes, if it is one.
    pub fn launches(&mut self, before: u32, note: impl FnOnce() -> Option<LaunchNote>) {
        if self.packets.has_launches()
            && let Some(launch) = note()
        {
            let is_selected = self.packets.launches && self.session().selects_launch(&launch);
            if self.packets.regions || is_selected {
                self.packets.coming = Some((before, launch, is_selected));
            }
        }
    }

    /// Whether launches are counted or traced, so that none may run beside another.
    pub fn is_counting(&self) -> bool {
        self.packets.counts || self.packets.to_trace > 0
    }

    /// Packets that come between the next one and the one `distance` after it, in front of a launch that is counted or
    /// traced.
    pub fn packets_within(&self, distance: u32) -> u32 {
        let packets = &self.packets;
        if !packets.chosen_within(distance) {
            return 0;
        }
        u32::from(packets.counts) + self.marker().map_or(0, |_| thread_traces::PACKETS_BEFORE)
    }

    /// The packet that tells a trace of the code of the launch that comes, if that is to be traced. The session has
    /// failed where an executable has none.
    fn marker(&self) -> Option<AmdPm4IbPacket> {
        let (_, launch, _) = self.packets.coming.as_ref().filter(|_| self.packets.traces_more())?;
        self.session.as_ref()?.traces()?.marker(self.stream.gpu, launch.function.executable)
    }

    /// The packets that start to count and trace the launch that is written now, if it is to be.
    pub fn start_counting(&mut self) -> impl Iterator<Item = AmdPm4IbPacket> + use<> {
        let (mut count, mut trace) = (None, [None; thread_traces::PACKETS_BEFORE as usize]);
        if self.packets.chosen_within(0) {
            let marker = self.marker();
            let packets = &mut self.packets;
            if packets.counts {
                packets.counting = Some(packets.used_captures);
                packets.used_captures += 1;
                packets.owed -= counters::PACKETS;
                count = Some(packets.captures[packets.used_captures - 1].packets().start);
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

    /// The packets that end the trace of the launch that was written, and read and stop what counted it, if something
    /// did.
    pub fn stop_counting(&mut self) -> impl Iterator<Item = AmdPm4IbPacket> + use<> {
        let packets = &mut self.packets;
        let trace = packets.tracing.take().map(|trace| packets.traces[trace].packets().stop);
        let count = packets.counting.take().map(|capture| {
            let packets = packets.captures[capture].packets();
            [packets.read, packets.stop]
        });
        trace.into_iter().chain(count.into_iter().flatten())
    }

    /// One of the packets of this part that no launch needed, which has to be written all the same.
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

    /// The operation's own packets of this part are written; the signal of the packet that marks their end, if one
    /// does.
    pub fn end_part(&mut self) -> Option<HsaSignal> {
        self.packets.parts += 1;
        std::mem::take(&mut self.packets.marked).then(|| self.packets.mark())
    }

    /// The submission of `queue` is complete: logs its events and does what else happens then.
    pub fn complete(mut self: Box<Self>, queue: &Queue, epoch: u64) {
        std::mem::replace(&mut self.then, CompletionAction::None).complete(queue, epoch);
        self.log_host(Code::OK);
        if let Err(status) = self.log_device(queue) {
            self.session().fail(status);
        }
        queue.give_trace(self);
    }

    /// Leaves to other operations what they may need.
    fn clear(&mut self) {
        let Some(session) = self.session.take() else { return };
        let packets = &mut self.packets;
        packets.launched.clear();
        if packets.signals.len() > FEW_SIGNALS {
            session.return_signals(packets.signals.drain(FEW_SIGNALS..));
        }
        if let Some(counters) = session.counters() {
            counters.give_back(self.stream.gpu, packets.captures.drain(..));
        }
        if let Some(traces) = session.traces() {
            traces.give_back(self.stream.gpu, packets.traces.drain(..));
        }
    }

    /// The submission failed when it was in the ring. Its packets may not have run: they make no events.
    pub fn fail(mut self: Box<Self>, failure: &Status) {
        std::mem::replace(&mut self.then, CompletionAction::None).fail(failure);
        self.log_host(failure.code());
    }

    /// Logs that the operation was submitted, and, when it was started, the span until now.
    fn log_host(&self, code: Code) {
        let session = self.session();
        if session.wants(ProfileData::QUEUE_EVENTS) {
            session.log_queue_event(self.queue_event());
        }
        if let Some(note) = &self.subject.memory
            && let Some(memory) = session.memory()
            && self.started != 0
        {
            let mut event = note.event();
            event.host_time_ns = self.started;
            event.submission_id = self.submission;
            event.physical_device_ordinal = self.stream.gpu;
            event.queue_ordinal = self.stream.queue;
            memory.push(event);
        }
        if self.started != 0 && session.wants(ProfileData::HOST_EXECUTION_EVENTS) {
            session.log_host_event(self.host_event(code));
        }
    }

    fn allocation(&self) -> u64 {
        self.subject.memory.map_or(0, |note| note.allocation)
    }

    fn flags(&self) -> u32 {
        if self.was_deferred { flags::QUEUE_SOFTWARE_DEFERRED } else { 0 }
    }

    fn queue_event(&self) -> QueueEvent {
        let mut event = QueueEvent::blank();
        event.type_ = self.subject.kind as u32;
        event.flags = self.flags();
        event.dependency_strategy = if self.was_deferred {
            DependencyStrategy::SoftwareDefer
        } else if self.waits == 0 {
            DependencyStrategy::None
        } else if self.wait_packets > 0 {
            DependencyStrategy::DeviceBarrier
        } else {
            DependencyStrategy::Inline
        } as u32;
        event.host_time_ns = self.submitted;
        event.submission_id = self.submission;
        event.command_buffer_id = self.subject.command_buffer;
        event.allocation_id = self.allocation();
        event.stream_id = self.stream.id();
        event.physical_device_ordinal = self.stream.gpu;
        event.queue_ordinal = self.stream.queue;
        event.wait_count = self.waits;
        event.signal_count = self.signals;
        event.barrier_count = self.wait_packets;
        event.operation_count = self.subject.operations;
        event.payload_length = self.subject.length;
        event.ready_host_time_ns = self.ready;
        event
    }

    /// The span as the host sees it: from the doorbell, or the start on a host thread, until the host knows that it is
    /// complete.
    fn host_event(&self, code: Code) -> HostExecutionEvent {
        let mut event = HostExecutionEvent::blank();
        event.type_ = self.subject.kind as u32;
        // Nothing is executed in the call that submits it.
        event.flags = flags::HOST_DEFERRED;
        event.status_code = code.to_raw();
        event.submission_id = self.submission;
        event.command_buffer_id = self.subject.command_buffer;
        event.allocation_id = self.allocation();
        if self.subject.command_buffer != 0 {
            event.flags |= flags::HOST_OF_COMMAND_BUFFER;
        }
        if let Some(launch) = &self.subject.launch {
            event.executable_id = launch.function.executable;
            event.function_ordinal = launch.function.ordinal;
            event.workgroup_count = launch.workgroup_count;
            event.workgroup_size = launch.workgroup_size;
            if launch.indirect {
                event.flags |= flags::HOST_INDIRECT_PARAMETERS;
            }
        }
        event.stream_id = self.stream.id();
        event.physical_device_ordinal = self.stream.gpu;
        event.queue_ordinal = self.stream.queue;
        event.start_host_time_ns = self.started;
        event.end_host_time_ns = host_time();
        event.payload_length = self.subject.length;
        event.operation_count = self.subject.operations;
        event
    }

    /// Logs the events that have device times.
    fn log_device(&self, queue: &Queue) -> Result<()> {
        let (session, ordinal) = (self.session(), queue.ordinal());
        let mut launches = Vec::new();
        for (signal, launch, capture, trace) in &self.packets.launched {
            let (start, end) = self.times(queue, *signal)?;
            if self.packets.launches && session.selects_launch(launch) {
                let capture = capture.map(|capture| &self.packets.captures[capture]);
                let trace = trace.map(|trace| &self.packets.traces[trace]);
                session.log_dispatch(ordinal, self.dispatch_event(launch, start, end), capture, trace)?;
            }
            if self.packets.regions {
                launches.push((*launch, (start, end)));
            }
        }
        if self.packets.regions {
            self.log_regions(queue, &launches)?;
        }
        if let (Some(first), Some(last)) = (self.packets.first, self.packets.last) {
            let (start, end) = self.times(queue, first)?;
            let end = if first == last { end } else { self.times(queue, last)?.1 };
            session.log_operation(ordinal, self.device_event(start, end));
        }
        Ok(())
    }

    fn log_regions(&self, queue: &Queue, launches: &[(LaunchNote, (u64, u64))]) -> Result<()> {
        let session = self.session();
        let barriers = session.barriers(self.subject.command_buffer);
        for mut event in regions::events(&barriers, launches, HostClock::new(session.library())?) {
            event.submission_id = self.submission;
            event.command_buffer_id = self.subject.command_buffer;
            event.stream_id = self.stream.id();
            event.queue.physical_device_ordinal = self.stream.gpu;
            event.queue.queue_ordinal = self.stream.queue;
            event.scheduler.worker_count = queue.gpu().agent().info().compute_units;
            session.log_region(event);
        }
        Ok(())
    }

    /// When the packet of a signal began and ended.
    fn times(&self, queue: &Queue, signal: usize) -> Result<(u64, u64)> {
        let time = self.packets.signals[signal].dispatch_time(queue.gpu().agent().handle())?;
        if time.start == 0 || time.end == 0 {
            return Err(status!(DATA_LOSS, "a profiled packet is complete and the runtime has no times for it"));
        }
        // The runtime adjusts its translation between the two clocks now and then, perhaps between two translations.
        Ok((time.start, time.end.max(time.start)))
    }

    fn dispatch_event(&self, launch: &LaunchNote, start: u64, end: u64) -> DispatchEvent {
        let mut event = DispatchEvent::blank();
        if self.subject.command_buffer != 0 {
            event.flags |= flags::DISPATCH_OF_COMMAND_BUFFER;
        }
        if launch.indirect {
            event.flags |= flags::DISPATCH_INDIRECT_PARAMETERS;
        }
        event.submission_id = self.submission;
        event.command_buffer_id = self.subject.command_buffer;
        event.executable_id = launch.function.executable;
        event.command_index = launch.command_index;
        event.function_ordinal = launch.function.ordinal;
        event.workgroup_count = launch.workgroup_count;
        event.workgroup_size = launch.workgroup_size;
        (event.start_tick, event.end_tick) = (start, end);
        event
    }

    fn device_event(&self, start: u64, end: u64) -> QueueDeviceEvent {
        let mut event = QueueDeviceEvent::blank();
        event.type_ = self.subject.kind as u32;
        event.flags = self.flags();
        event.submission_id = self.submission;
        event.command_buffer_id = self.subject.command_buffer;
        event.allocation_id = self.allocation();
        event.stream_id = self.stream.id();
        event.payload_length = self.subject.length;
        event.physical_device_ordinal = self.stream.gpu;
        event.queue_ordinal = self.stream.queue;
        event.operation_count = self.subject.operations;
        (event.start_tick, event.end_tick) = (start, end.max(start));
        event
    }
}

/// The trace of an operation that runs on a host thread, if it is profiled.
#[derive(Debug, Default)]
pub struct HostTrace(Option<Box<Trace>>);

impl HostTrace {
    /// The trace of an operation that is being submitted to `queue` with so many waits and signals.
    pub fn new(queue: &Queue, subject: Subject, waits: usize, signals: usize) -> Self {
        let session = queue.shared().profiler.session();
        Self(session.map(|session| Trace::begin(session, queue, |_| subject, waits, signals)))
    }

    /// The operation runs from now on.
    pub fn begin(&mut self) {
        if let Some(trace) = &mut self.0 {
            trace.ready = host_time();
            trace.started = trace.ready;
            trace.was_deferred = trace.waits > 0;
        }
    }

    /// It has run, with this failure if any. Whoever sees its semaphores advance after this finds its events in the
    /// session.
    pub fn end(&self, failure: Option<Code>) {
        if let Some(trace) = &self.0 {
            trace.log_host(failure.unwrap_or(Code::OK));
        }
    }
}

/// The trace of an operation until that is in the ring. Dropped before, when the operation was accepted and never ran,
/// it logs that.
#[derive(Debug)]
struct Note(Option<Box<Trace>>);

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(trace) = self.0.take().filter(|trace| trace.was_deferred) {
            trace.log_host(Code::UNKNOWN);
        }
    }
}

/// An operation with its trace, submitted in its place.
pub struct Traced<O> {
    operation: O,
    note: Note,
}

impl<O: Operation> Traced<O> {
    /// The operation, which is not traced yet.
    #[inline(always)]
    pub fn new(operation: O) -> Self {
        Self { operation, note: Note(None) }
    }

    /// Has it traced for `session`: it is being submitted to `queue` with so many waits and signals.
    #[inline(always)]
    pub fn begin(&mut self, session: Arc<Session>, queue: &Queue, (waits, signals): (usize, usize)) {
        let subject = |session: &Session| self.operation.subject(session);
        self.note.0 = Some(Trace::begin(session, queue, subject, waits, signals));
    }
}

impl<O: Submit> Submit for Traced<O> {
    type Owned = Traced<O::Owned>;

    fn into_owned(self) -> Traced<O::Owned> {
        Traced { operation: self.operation.into_owned(), note: self.note }
    }
}

impl<O: Operation> Operation for Traced<O> {
    fn prepare(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Prepared> {
        let mut prepared = self.operation.prepare(queue, waits)?;
        if let (Prepared::Ready(demand), Some(trace)) = (&mut prepared, &mut self.note.0) {
            if trace.packets.parts == 0 {
                // What has nothing to wait for is ready when it is submitted.
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

    fn keep(&self, queue: &Queue) -> Resources {
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

/// Traces that are nobody's, for operations to come.
#[derive(Debug, Default)]
pub(super) struct SpareTraces(
    #[expect(clippy::vec_box, reason = "they go in and out by a pointer")] Mutex<Vec<Box<Trace>>>,
);

impl Queue {
    fn take_trace(&self) -> Box<Trace> {
        let spare = self.spare_traces.0.lock().pop();
        spare.unwrap_or_else(|| Box::new(Trace::blank()))
    }

    /// Takes a trace back whose operation is complete. Under no lock.
    fn give_trace(&self, mut trace: Box<Trace>) {
        trace.clear();
        let mut traces = self.spare_traces.0.lock();
        if traces.len() < MOST_SPARE {
            traces.push(trace);
        }
    }

    /// Lets go of what traces to come would use: there is no session any more.
    pub fn forget_traces(&self) {
        let traces = std::mem::take(&mut *self.spare_traces.0.lock());
        drop(traces);
    }
}
