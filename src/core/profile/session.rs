// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One profiling session: the data that it captures, its logs, and their output.

mod write;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::counters::{self, Count, Counters};
use crate::known_counters::Selection;
use crate::log::EventLog;
use crate::memory::MemoryLog;
use crate::metadata::{CommandRecords, ExecutableInfo};
use crate::metrics::Metrics;
use crate::thread_traces::{self, Artifact, ThreadTraces};
use crate::{EventInfo, FunctionRef, LaunchInfo};
use amdgpu_ffi::profile::schema::{
    CommandKind, CommandRecord, CommandRegionEvent, DispatchEvent, HostExecutionEvent, ProfileData, QueueDeviceEvent,
    QueueEvent,
};
use amdgpu_ffi::profile::{ProfileSink, Stream};
use amdgpu_ffi::{Result, Status, status, strings};
use amdgpu_gpu::Gpu;
use amdgpu_hsa as hsa;
use amdgpu_hsa::aqlprofile::TraceCapture;

/// Most queue, host or memory events between two flushes: these streams may lose events, and report how many.
const AGGREGATE_LIMIT: usize = 1 << 16;

/// Most dispatch and device queue events of one queue between two flushes. If one of these is lost, the session fails.
const PRECISE_LIMIT: usize = 1 << 20;

/// Data of hardware counters.
const COUNTS: ProfileData = ProfileData::COUNTER_SAMPLES.union(ProfileData::COUNTER_RANGES);

/// Data that needs dispatch events of launches: counter samples and traces refer to them.
pub const DISPATCHES: ProfileData =
    ProfileData::DISPATCH_EVENTS.union(ProfileData::COUNTER_SAMPLES).union(ProfileData::EXECUTABLE_TRACES);

/// Data with events of any operation.
const OPERATIONS: ProfileData = ProfileData::QUEUE_EVENTS
    .union(ProfileData::HOST_EXECUTION_EVENTS)
    .union(ProfileData::DEVICE_QUEUE_EVENTS)
    .union(DISPATCHES);

/// Selects the operations with device-timestamped events: they match all fields that are set.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Pattern of the function's name.
    pub function: Option<String>,
    /// The command buffer.
    pub command_buffer: Option<u64>,
    /// The position in the command buffer; a dispatch outside of command buffers has none.
    pub command_index: Option<u32>,
    /// The GPU's ordinal.
    pub gpu: Option<u32>,
    /// The queue's ordinal on its GPU.
    pub queue: Option<u32>,
}

impl Filter {
    /// True if any field is set.
    fn is_set(&self) -> bool {
        let of_place = [self.command_index, self.gpu, self.queue].iter().any(Option::is_some);
        of_place || self.function.is_some() || self.command_buffer.is_some()
    }

    fn matches_operation(&self, stream: Stream, command_buffer: u64) -> bool {
        self.gpu.is_none_or(|gpu| gpu == stream.gpu)
            && self.queue.is_none_or(|queue| queue == stream.queue)
            && self.command_buffer.is_none_or(|id| id == command_buffer)
    }

    fn matches_index(&self, command_index: u32) -> bool {
        self.command_index.is_none_or(|index| index == command_index)
    }
}

/// The data and options requested for a session.
#[derive(Debug)]
pub struct Request {
    /// The families of data.
    pub families: ProfileData,
    /// The sink for the data; none for a session of the driver's own, whose dispatches only become
    /// [`zones`](super::zones).
    pub sink: Option<ProfileSink>,
    /// Selects device-timestamped events.
    pub filter: Filter,
    /// The sets of hardware counters.
    pub counter_sets: Vec<Selection>,
}

impl Request {
    /// Refuses requests that the driver does not support.
    ///
    /// # Errors
    /// UNIMPLEMENTED, with the names; INVALID_ARGUMENT for traces without a filter, or of a queue that has no work
    /// then.
    pub fn check(&self) -> Result<()> {
        if self.families.contains(ProfileData::EXECUTABLE_TRACES) && !self.filter.is_set() {
            return Err(status!(
                INVALID_ARGUMENT,
                "executable traces are large and slow: a filter has to choose the launches that have them \
                 (--device_profiling_filter_*: functions, command buffers, commands or GPUs)"
            ));
        }
        let alone = ProfileData::EXECUTABLE_TRACES | ProfileData::COUNTER_SAMPLES;
        if let Some(queue) = self.filter.queue.filter(|queue| *queue != 0 && self.families.intersects(alone)) {
            return Err(status!(
                INVALID_ARGUMENT,
                "a filter for queue {queue} of a GPU chooses nothing: while launches are counted or traced, all work \
                 of a GPU goes to its queue 0"
            ));
        }
        if self.families.contains(COUNTS) {
            return Err(status!(
                UNIMPLEMENTED,
                "hardware counters have values either for each dispatch (counters) or for ranges of time \
                 (counter-ranges): each dispatch begins them anew"
            ));
        }
        Ok(())
    }
}

/// The events of one queue.
struct QueueLogs {
    stream: Stream,
    dispatches: EventLog<DispatchEvent>,
    operations: EventLog<QueueDeviceEvent>,
    /// Records of counter samples; those of a dispatch are one item.
    samples: EventLog<Vec<u8>>,
    traces: EventLog<Artifact>,
}

/// Objects that events refer to, until they are written.
#[derive(Default)]
struct Objects {
    /// All executables of the session: the filter looks up their functions.
    executables: Vec<Arc<ExecutableInfo>>,
    executables_written: usize,
    matching: HashSet<FunctionRef>,
    programs: HashSet<u64>,
    /// The positions of execution barriers by command buffer, if regions are wanted.
    barriers: HashMap<u64, Arc<[u32]>>,
    /// The selected launches of a command buffer, if they are to be counted or traced.
    launches: HashMap<u64, Arc<[FunctionRef]>>,
    new_programs: Vec<CommandRecords>,
}

/// A range of time in which a GPU counts.
#[derive(Debug)]
pub struct Range {
    /// The count of the range.
    pub count: Count,
    /// The tick of its begin, if that is known.
    pub start: Result<u64>,
}

/// A profiling session.
pub struct Session {
    id: u64,
    name: String,
    families: ProfileData,
    /// The application began it.
    is_requested: bool,
    /// None once the session has ended: operations in progress then keep the session but not the sink.
    sink: Mutex<Option<ProfileSink>>,
    filter: Filter,
    library: Arc<hsa::Library>,
    gpu_count: usize,
    queues_per_gpu: u32,
    next_submission: AtomicU64,
    queue_events: EventLog<QueueEvent>,
    host_events: EventLog<HostExecutionEvent>,
    region_events: EventLog<CommandRegionEvent>,
    memory: MemoryLog,
    /// The metrics, if they are wanted.
    metrics: Option<Metrics>,
    /// The hardware counters, if dispatches or time ranges are to be counted.
    counters: Option<Counters>,
    /// The thread traces, if dispatches are to be traced.
    traces: Option<ThreadTraces>,
    /// The number of packets that a launch may have around it.
    packets_around: u32,
    /// The current range of each GPU, if ranges are wanted. Locked while a range ends and the next begins, which waits
    /// for the GPU.
    ranges: Mutex<Vec<Option<Range>>>,
    /// Records of completed ranges, each with its stream.
    range_samples: Mutex<Vec<(Stream, Vec<u8>)>>,
    queues: Vec<QueueLogs>,
    objects: Mutex<Objects>,
    /// Unused completion signals.
    signals: Mutex<Vec<hsa::Signal>>,
    failure: Mutex<Option<Status>>,
    next_clock_sample: AtomicU64,
    next_relationship: AtomicU64,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).field("families", &self.families).finish_non_exhaustive()
    }
}

impl Session {
    /// A session that has not begun, of a device with these GPUs and `queues_per_gpu` queues on each.
    ///
    /// # Errors
    /// As for [`Counters::new`] and [`ThreadTraces::new`].
    pub fn new(id: u64, name: &str, request: Request, gpus: &[Arc<Gpu>], queues_per_gpu: u32) -> Result<Self> {
        let stream = |ordinal: u32| Stream { gpu: ordinal / queues_per_gpu, queue: ordinal % queues_per_gpu };
        let logs = |ordinal| QueueLogs {
            stream: stream(ordinal),
            dispatches: EventLog::new(PRECISE_LIMIT),
            operations: EventLog::new(PRECISE_LIMIT),
            samples: EventLog::new(PRECISE_LIMIT),
            traces: EventLog::new(PRECISE_LIMIT),
        };
        let traces = request.families.contains(ProfileData::EXECUTABLE_TRACES);
        let traces = traces.then(|| ThreadTraces::new(gpus)).transpose()?;
        let counts = request.families.intersects(COUNTS);
        let packets = |family, packets| if request.families.contains(family) { packets } else { 0 };
        let packets_around = packets(ProfileData::COUNTER_SAMPLES, counters::PACKETS)
            + packets(ProfileData::EXECUTABLE_TRACES, thread_traces::PACKETS);
        let counters = counts.then(|| Counters::new(&request.counter_sets, gpus)).transpose()?;
        Ok(Self {
            id,
            name: name.to_owned(),
            metrics: request.families.contains(ProfileData::DEVICE_METRICS).then(|| Metrics::new(gpus)),
            families: request.families,
            is_requested: request.sink.is_some(),
            sink: Mutex::new(request.sink),
            filter: request.filter,
            library: gpus[0].agent().library().clone(),
            gpu_count: gpus.len(),
            queues_per_gpu,
            next_submission: AtomicU64::new(1),
            queue_events: EventLog::new(AGGREGATE_LIMIT),
            host_events: EventLog::new(AGGREGATE_LIMIT),
            region_events: EventLog::new(AGGREGATE_LIMIT),
            memory: MemoryLog::new(AGGREGATE_LIMIT),
            queues: (0..gpus.len() as u32 * queues_per_gpu).map(logs).collect(),
            objects: Mutex::default(),
            signals: Mutex::default(),
            failure: Mutex::default(),
            next_clock_sample: AtomicU64::new(1),
            next_relationship: AtomicU64::new(1),
            counters,
            traces,
            packets_around,
            ranges: Mutex::new(gpus.iter().map(|_| None).collect()),
            range_samples: Mutex::default(),
        })
    }

    /// True if the application began the session; false for the driver's own.
    pub fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// True if data of `family` was requested.
    pub fn wants(&self, family: ProfileData) -> bool {
        self.families.intersects(family)
    }

    /// True if any operation may have events.
    pub fn records_all(&self) -> bool {
        self.wants(OPERATIONS)
    }

    /// True if the operation that `subject` describes may have events.
    pub fn records(&self, subject: &EventInfo) -> bool {
        let has_regions = subject.command_buffer != 0 && self.wants(ProfileData::COMMAND_REGION_EVENTS);
        self.records_all() || has_regions || subject.memory.is_some()
    }

    /// True if packets of a command buffer may have events.
    pub fn records_packets(&self) -> bool {
        self.wants(ProfileData::DEVICE_QUEUE_EVENTS | DISPATCHES | ProfileData::COMMAND_REGION_EVENTS)
    }

    /// True if packets are to have device times.
    pub fn wants_timestamps(&self) -> bool {
        self.records_packets() || self.wants(ProfileData::COUNTER_RANGES)
    }

    /// The log of memory events, if they are wanted.
    pub fn memory(&self) -> Option<&MemoryLog> {
        self.wants(ProfileData::MEMORY_EVENTS).then_some(&self.memory)
    }

    /// The stream of the queue `ordinal` of the logical device.
    pub fn stream(&self, ordinal: u32) -> Stream {
        self.queues[ordinal as usize].stream
    }

    /// The hardware queues of the logical device.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// The identifier of a submission in all its events. Identifiers count from 1 in the order of the calls.
    pub fn next_submission(&self) -> u64 {
        self.next_submission.fetch_add(1, Ordering::Relaxed)
    }

    /// The data with device times that an operation or its launches may have.
    pub fn selected(&self, stream: Stream, command_buffer: u64) -> ProfileData {
        let is_selected = self.wants_timestamps() && self.filter.matches_operation(stream, command_buffer);
        if is_selected { self.families } else { ProfileData::empty() }
    }

    /// True if any of the data has host times.
    pub fn wants_host_times(&self) -> bool {
        let families = ProfileData::QUEUE_EVENTS | ProfileData::HOST_EXECUTION_EVENTS;
        self.wants(families | ProfileData::MEMORY_EVENTS)
    }

    /// True if a launch of such an operation is to have a dispatch event. In the driver's own session, the kernels of
    /// transfers are zones, too.
    pub fn selects_launch(&self, launch: &LaunchInfo) -> bool {
        if !self.is_requested {
            return true;
        }
        let matching = || self.objects.lock().matching.contains(&launch.function);
        self.selects_function(launch.function, launch.command_index, matching)
    }

    /// True if a launch of a function is selected. `is_matching` compares its name with the filter.
    fn selects_function(&self, function: FunctionRef, index: u32, is_matching: impl FnOnce() -> bool) -> bool {
        let is_selected = function.executable != 0 && self.filter.matches_index(index);
        is_selected && (self.filter.function.is_none() || is_matching())
    }

    /// True if launches are counted or traced individually.
    pub fn watches_launches(&self) -> bool {
        self.packets_around() > 0
    }

    /// The launches of an operation that are to be counted or traced, if that is wanted: those of the command buffer,
    /// or the one launch.
    pub fn watched_launches(&self, command_buffer: u64, launch: Option<&LaunchInfo>) -> Option<Arc<[FunctionRef]>> {
        match launch {
            Some(launch) => self.selects_launch(launch).then(|| Arc::from([launch.function])),
            None => self.objects.lock().launches.get(&command_buffer).cloned(),
        }
    }

    /// Registers an executable to whose functions events may refer.
    pub fn add_executable(&self, executable: Arc<ExecutableInfo>) {
        if !self.is_requested {
            return;
        }
        let mut objects = self.objects.lock();
        if let Some(pattern) = &self.filter.function {
            for (ordinal, function) in executable.functions.iter().enumerate() {
                if strings::matches(&function.name, pattern) {
                    objects.matching.insert(FunctionRef { executable: executable.id, ordinal: ordinal as u32 });
                }
            }
        }
        objects.executables.push(executable.clone());
        drop(objects);
        if let Some(Err(status)) = self.traces.as_ref().map(|traces| traces.add_executable(&executable)) {
            self.fail(status.annotate("a profiling session lost executable traces"));
        }
    }

    /// Registers the command buffer `id`, which is being executed.
    pub fn add_program(&self, id: u64, records: impl FnOnce() -> CommandRecords) {
        if !self.is_requested {
            return;
        }
        let mut objects = self.objects.lock();
        if objects.programs.insert(id) {
            let records = records();
            if self.wants(ProfileData::COMMAND_REGION_EVENTS) {
                let barriers = records.commands.iter().filter(|command| command.type_ == CommandKind::Barrier as u32);
                objects.barriers.insert(id, barriers.map(|barrier| barrier.command_index).collect());
            }
            if self.watches_launches() {
                let launches = records.commands.iter().filter(|command| command.type_ == CommandKind::Dispatch as u32);
                let function_of = |command: &CommandRecord| {
                    let function = FunctionRef { executable: command.executable_id, ordinal: command.function_ordinal };
                    let matching = || objects.matching.contains(&function);
                    self.selects_function(function, command.command_index, matching).then_some(function)
                };
                let selected = launches.filter_map(function_of).collect();
                objects.launches.insert(id, selected);
            }
            objects.new_programs.push(records);
        }
    }

    /// The HSA runtime of its GPUs.
    pub fn library(&self) -> &hsa::Library {
        &self.library
    }

    /// The positions of the execution barriers of a registered command buffer, if regions are wanted.
    pub fn barriers(&self, command_buffer: u64) -> Arc<[u32]> {
        self.objects.lock().barriers.get(&command_buffer).cloned().unwrap_or_default()
    }

    /// Logs a queue event.
    pub fn log_queue_event(&self, mut event: QueueEvent) {
        self.queue_events.push(|id| {
            event.event_id = id;
            event
        });
    }

    /// Logs a span of execution as the host saw it.
    pub fn log_host_event(&self, mut event: HostExecutionEvent) {
        self.host_events.push(|id| {
            event.event_id = id;
            event
        });
    }

    /// Logs a region of a command buffer.
    pub fn log_region(&self, mut event: CommandRegionEvent) {
        self.region_events.push(|id| {
            event.event_id = id;
            event
        });
    }

    /// Logs a dispatch on the queue `ordinal`, with the data of `count` and `trace` if it has them.
    ///
    /// # Errors
    /// As for [`Counters::sample_records`] and [`ThreadTraces::artifacts`].
    pub fn log_dispatch(
        &self,
        ordinal: u32,
        mut event: DispatchEvent,
        count: Option<&Count>,
        trace: Option<&TraceCapture>,
    ) -> Result<()> {
        if !self.is_requested {
            return Ok(());
        }
        let logs = &self.queues[ordinal as usize];
        let logged = logs.dispatches.push(|id| {
            event.event_id = id;
            event
        });
        self.fail_unless(logged);
        if let (Some(counters), Some(count), true) = (&self.counters, count, logged) {
            let records = counters.sample_records(logs.stream, &event, count)?;
            let logged = logs.samples.push(|_| records);
            self.fail_unless(logged);
            if logged {
                count.keep();
            }
        }
        if let (Some(traces), Some(trace), true) = (&self.traces, trace, logged) {
            let read = traces.artifacts(logs.stream, &event, trace)?;
            for artifact in read.artifacts {
                self.fail_unless(logs.traces.push(|_| artifact));
            }
            if let Some(lost) = read.lost {
                self.fail(status!(RESOURCE_EXHAUSTED, "an executable trace is not whole: {lost}"));
            }
        }
        Ok(())
    }

    /// Logs a span of the queue `ordinal` on the device.
    pub fn log_operation(&self, ordinal: u32, mut event: QueueDeviceEvent) {
        let logged = self.queues[ordinal as usize].operations.push(|id| {
            event.event_id = id;
            event
        });
        self.fail_unless(logged);
    }

    fn fail_unless(&self, logged: bool) {
        if !logged {
            self.fail(status!(
                RESOURCE_EXHAUSTED,
                "a profiling session lost device events: more than {PRECISE_LIMIT} of one queue since the last flush; flush more often, \
                 or select fewer with a capture filter"
            ));
        }
    }

    /// Fails the session, which cannot deliver all requested data: flush and end return the first such error.
    pub fn fail(&self, status: Status) {
        self.failure.lock().get_or_insert(status);
    }

    /// Moves completion signals to `signals` until it has `count`.
    ///
    /// # Errors
    /// The error of HSA for a new signal.
    pub fn take_signals(&self, signals: &mut Vec<hsa::Signal>, count: usize) -> Result<()> {
        {
            let mut free = self.signals.lock();
            let kept = free.len().saturating_sub(count.saturating_sub(signals.len()));
            signals.extend(free.drain(kept..));
        }
        while signals.len() < count {
            // No host thread waits on them, so that they need no interrupt.
            signals.push(hsa::Signal::new(&self.library, 1, &[], hsa_abi::HSA_AMD_SIGNAL_AMD_GPU_ONLY)?);
        }
        Ok(())
    }

    /// Takes back signals whose packets are complete.
    pub fn return_signals(&self, signals: impl Iterator<Item = hsa::Signal>) {
        self.signals.lock().extend(signals);
    }

    /// The hardware counters for samples of launches.
    pub fn counters(&self) -> Option<&Counters> {
        self.counters.as_ref().filter(|_| self.wants(ProfileData::COUNTER_SAMPLES))
    }

    /// The thread traces for launches.
    pub fn traces(&self) -> Option<&ThreadTraces> {
        self.traces.as_ref()
    }

    /// The number of packets that a launch may have around it.
    pub fn packets_around(&self) -> u32 {
        self.packets_around
    }

    /// The hardware counters for samples of time ranges.
    pub fn range_counters(&self) -> Option<&Counters> {
        self.counters.as_ref().filter(|_| self.wants(ProfileData::COUNTER_RANGES))
    }

    /// The current range of each GPU. The holder of the lock may submit work and wait for it.
    pub fn ranges(&self) -> &Mutex<Vec<Option<Range>>> {
        &self.ranges
    }

    /// Logs a range that has ended at the tick `end`, read on the queue `ordinal`.
    ///
    /// # Errors
    /// As for [`Counters::range_records`]; the error of its begin if that is not known.
    pub fn log_range(&self, ordinal: u32, range: &Range, end: u64) -> Result<()> {
        let Some(counters) = self.range_counters() else { return Ok(()) };
        let (stream, start) = (self.stream(ordinal), range.start.clone()?);
        // The runtime adjusts its translation of ticks now and then.
        let records = counters.range_records(stream, (start, end.max(start)), &range.count)?;
        range.count.keep();
        self.range_samples.lock().push((stream, records));
        Ok(())
    }
}
