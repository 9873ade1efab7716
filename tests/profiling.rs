// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Profiling sessions through the C API.

#[path = "support/sink.rs"]
mod sink;
mod support;

use amdgpu_rs::ffi::{Code, iree, raw, strings};
use raw::iree_hal_profile_clock_correlation_record_t as ClockSample;
use raw::iree_hal_profile_command_buffer_record_t as CommandBufferRecord;
use raw::iree_hal_profile_command_operation_record_t as CommandRecord;
use raw::iree_hal_profile_dispatch_event_t as DispatchEvent;
use raw::iree_hal_profile_event_relationship_record_t as Relationship;
use raw::iree_hal_profile_executable_record_t as ExecutableRecord;
use raw::iree_hal_profile_host_execution_event_t as HostEvent;
use raw::iree_hal_profile_memory_event_t as MemoryEvent;
use raw::iree_hal_profile_queue_device_event_t as QueueDeviceEvent;
use raw::iree_hal_profile_queue_event_t as QueueEvent;
use raw::iree_hal_profile_queue_record_t as QueueRecord;
use sink::{KERNELS, Sink, end, flush, launch};
use support::recording::{Mode, Recording, direct};
use support::{BufferRef, ExecutableRef, List, Points, Rig, wait, workgroups};

const QUEUE: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS;
const HOST: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_HOST_EXECUTION_EVENTS;
const DEVICE: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_QUEUE_EVENTS;
const MEMORY: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_MEMORY_EVENTS;
const DISPATCH: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS;

fn queue_dealloca(rig: &Rig, signals: Points<'_>, buffer: &BufferRef) {
    let (waits, signals) = (List::new(&[]), List::new(signals));
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_dealloca(
            rig.device.as_ptr(),
            1,
            waits.raw(),
            signals.raw(),
            buffer.as_ptr(),
            0
        ))
    }
    .unwrap();
}

#[test]
fn memory_has_a_life() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let (before, done) = (rig.buffer(16), rig.semaphore());
    sink.begin(&rig, MEMORY | QUEUE).unwrap();
    let first = rig.alloca(1, &[], &[(&done, 1)], 1000).unwrap();
    let second = rig.alloca(1, &[], &[(&done, 2)], 2000).unwrap();
    queue_dealloca(&rig, &[(&done, 3)], &first);
    queue_dealloca(&rig, &[(&done, 4)], &second);
    wait(&done, 4).unwrap();
    drop((before, rig.buffer(64)));
    flush(&rig).unwrap();
    end(&rig).unwrap();
    let events: Vec<MemoryEvent> = sink.records("memory-events");
    let of = |kind: u32| -> Vec<MemoryEvent> { events.iter().filter(|event| event.type_ == kind).copied().collect() };
    let allocas = of(raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_QUEUE_ALLOCA);
    let deallocas = of(raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_QUEUE_DEALLOCA);
    let ids =
        |events: &[MemoryEvent]| events.iter().map(|event| (event.allocation_id, event.length)).collect::<Vec<_>>();
    assert_eq!(ids(&allocas), [(1, 1000), (2, 2000)]);
    assert_eq!(ids(&deallocas), ids(&allocas));
    for event in allocas.iter().chain(&deallocas) {
        assert_eq!(event.flags, raw::IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_QUEUE_OPERATION);
        assert_ne!((event.submission_id, event.event_id), (0, 0));
        assert_eq!((event.physical_device_ordinal, event.queue_ordinal), (0, 0));
    }
    // A buffer from before the session has no end in it.
    let (made, freed) = (
        of(raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_BUFFER_ALLOCATE),
        of(raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_BUFFER_FREE),
    );
    assert_eq!((ids(&made), ids(&freed).len()), (ids(&freed), 1));
    assert!(made[0].host_time_ns <= freed[0].host_time_ns && made[0].length >= 64);
    let queue: Vec<QueueEvent> = sink.records("queue-events");
    let of_queue: Vec<_> = queue.iter().map(|event| (event.allocation_id, event.payload_length)).collect();
    assert_eq!(of_queue, [(1, 1000), (2, 2000), (1, 1000), (2, 2000)]);
}

/// The events lie within the clock samples, and none ends before it starts.
fn check_times(sink: &Sink, times: impl Iterator<Item = (u64, u64)>) {
    let samples: Vec<ClockSample> = sink.records("clock-correlations");
    assert!(samples.len() >= 2, "a session begins and ends with a sample");
    for pair in samples.windows(2) {
        assert!(pair[0].device_tick < pair[1].device_tick);
        assert!(pair[0].host_cpu_timestamp_ns < pair[1].host_cpu_timestamp_ns);
        assert!(pair[0].sample_id < pair[1].sample_id);
    }
    for sample in &samples {
        assert_eq!(sample.flags, 0b1111);
        assert!(sample.host_time_begin_ns <= sample.host_time_end_ns);
        assert_ne!((sample.host_system_timestamp, sample.host_system_frequency_hz), (0, 0));
    }
    let (first, last) = (samples[0].device_tick, samples[samples.len() - 1].device_tick);
    for (start, end) in times {
        assert!(first <= start && start <= end && end <= last, "{first} {start} {end} {last}");
    }
}

fn dispatch_times(events: &[DispatchEvent]) -> impl Iterator<Item = (u64, u64)> {
    events.iter().map(|event| (event.start_tick, event.end_tick))
}

fn find<E: Copy>(events: &[E], kind: impl Fn(&E) -> u32, wanted: u32) -> E {
    let mut found = events.iter().filter(|event| kind(event) == wanted);
    let event = found.next().expect("an event of the kind");
    assert!(found.next().is_none(), "only one event of the kind");
    *event
}

#[test]
fn fills_and_copies_have_queue_and_host_events() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let (source, target, filled, copied) = (rig.buffer(128), rig.buffer(128), rig.semaphore(), rig.semaphore());
    sink.begin(&rig, QUEUE | HOST).unwrap();
    rig.fill(1, &[], &[(&filled, 1)], &source, (0, 128), &[7]).unwrap();
    rig.copy(1, &[(&filled, 1)], &[(&copied, 1)], (&source, 0), (&target, 0), 128).unwrap();
    wait(&copied, 1).unwrap();
    assert_eq!(rig.read(&target, 0, 128), [7; 128]);
    flush(&rig).unwrap();
    end(&rig).unwrap();
    let queue_events: Vec<QueueEvent> = sink.records("queue-events");
    let host_events: Vec<HostEvent> = sink.records("host-execution-events");
    let kinds = [raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_FILL, raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_COPY];
    for (waits, kind) in kinds.into_iter().enumerate() {
        let queue = find(&queue_events, |event| event.type_, kind);
        let host = find(&host_events, |event| event.type_, kind);
        assert_eq!((queue.payload_length, queue.operation_count), (128, 1));
        assert_eq!((host.payload_length, host.operation_count), (128, 1));
        assert_eq!(queue.submission_id, host.submission_id);
        assert_ne!((queue.event_id, host.event_id, queue.submission_id), (0, 0, 0));
        assert_eq!((queue.wait_count, queue.signal_count), (waits as u32, 1));
        assert_eq!(host.status_code, Code::OK.to_raw());
        assert!(queue.host_time_ns <= queue.ready_host_time_ns);
        assert!(queue.ready_host_time_ns <= host.start_host_time_ns);
        assert!(host.start_host_time_ns <= host.end_host_time_ns);
        assert_eq!((queue.physical_device_ordinal, queue.queue_ordinal), (0, 0));
    }
    let contents = sink.contents();
    assert_eq!(contents[..2], ["devices", "queues"]);
    for absent in ["dispatch-events", "queue-device-events", "clock-correlations"] {
        assert!(!contents.iter().any(|content| content == absent), "{absent} in {contents:?}");
    }
    assert_eq!(sink.ended(), [Code::OK]);
}

#[test]
fn dispatches_have_device_times_and_names() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    sink.begin(&rig, DISPATCH).unwrap();
    // One that is loaded while the session is active, and gone before it is flushed.
    let late = rig.executable(KERNELS).unwrap();
    launch(&rig, 1, &[(&done, 1)], &kernels, &target).unwrap();
    wait(&done, 1).unwrap();
    launch(&rig, 2, &[(&done, 2)], &late, &target).unwrap();
    wait(&done, 2).unwrap();
    drop(late);
    flush(&rig).unwrap();
    end(&rig).unwrap();
    assert_eq!(rig.read(&target, 0, 4), 1_u32.to_le_bytes());
    let chunks = sink.chunks("dispatch-events");
    assert_eq!(chunks.iter().map(|chunk| (chunk.gpu, chunk.queue)).collect::<Vec<_>>(), [(0, 0), (0, 1)]);
    let streams: Vec<_> = sink.records::<QueueRecord>("queues").iter().map(|queue| queue.stream_id).collect();
    assert!(chunks.iter().all(|chunk| streams.contains(&chunk.stream)), "{chunks:?} on {streams:?}");
    let events: Vec<DispatchEvent> = sink.records("dispatch-events");
    check_times(&sink, dispatch_times(&events));
    assert!(sink.chunks("clock-correlations").len() >= 3);
    let ids: Vec<_> =
        sink.records::<ExecutableRecord>("executables").iter().map(|record| record.executable_id).collect();
    assert_eq!(ids.len(), 2);
    for (event, id) in events.iter().zip(ids) {
        assert_eq!((event.flags, event.command_index, event.command_buffer_id), (0, u32::MAX, 0));
        assert_eq!(event.workgroup_count, [1; 3]);
        assert_ne!(event.workgroup_size[0], 0);
        assert_eq!(event.executable_id, id);
        assert_eq!(function_name(&sink, event), "write_at");
    }
    let parts: Vec<Relationship> = sink.records("event-relationships");
    let parts: Vec<_> = parts.iter().map(|part| (part.source_id, part.target_id)).collect();
    assert_eq!(parts, events.iter().map(|event| (event.submission_id, event.event_id)).collect::<Vec<_>>());
    assert!(sink.chunks("queue-events").is_empty());
}

/// The name that the metadata has for the function of an event.
fn function_name(sink: &Sink, event: &DispatchEvent) -> String {
    type Function = raw::iree_hal_profile_executable_function_record_t;
    for chunk in sink.chunks("executable-functions") {
        let mut rest = &chunk.bytes[..];
        while !rest.is_empty() {
            // SAFETY: plain data of this size, followed by its name.
            let record = unsafe { rest.as_ptr().cast::<Function>().read_unaligned() };
            let (bytes, after) = rest.split_at(record.record_length as usize);
            let name = &bytes[size_of::<Function>()..];
            assert_eq!(name.len(), record.name_length as usize);
            if (record.executable_id, record.function_ordinal) == (event.executable_id, event.function_ordinal) {
                return String::from_utf8(name.to_vec()).unwrap();
            }
            rest = after;
        }
    }
    panic!("no metadata of the function");
}

#[test]
fn a_dispatch_has_queue_and_host_events() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    sink.begin(&rig, QUEUE | HOST).unwrap();
    launch(&rig, 1, &[(&done, 1)], &kernels, &target).unwrap();
    wait(&done, 1).unwrap();
    end(&rig).unwrap();
    let (queue, host): (Vec<QueueEvent>, Vec<HostEvent>) =
        (sink.records("queue-events"), sink.records("host-execution-events"));
    let kind = raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_DISPATCH;
    assert_eq!((queue.len(), queue[0].type_, queue[0].operation_count), (1, kind, 1));
    assert_eq!((host.len(), host[0].type_, host[0].submission_id), (1, kind, queue[0].submission_id));
    assert_eq!(queue[0].dependency_strategy, raw::IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_NONE);
    assert_ne!(host[0].executable_id, 0);
    assert_eq!(host[0].workgroup_count, [1; 3]);
}

/// One span for each operation, whatever it has for packets.
#[test]
fn operations_have_spans_on_the_device() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(64), rig.semaphore());
    sink.begin(&rig, DEVICE).unwrap();
    launch(&rig, 1, &[(&done, 1)], &kernels, &target).unwrap();
    rig.fill(1, &[(&done, 1)], &[(&done, 2)], &target, (0, 64), &[9]).unwrap();
    rig.barrier(1, &[(&done, 2)], &[(&done, 3)]).unwrap();
    rig.fill(1, &[(&done, 3)], &[(&done, 4)], &target, (0, 0), &[9]).unwrap();
    wait(&done, 4).unwrap();
    end(&rig).unwrap();
    assert_eq!(rig.read(&target, 0, 64), [9; 64]);
    let events: Vec<QueueDeviceEvent> = sink.records("queue-device-events");
    let fill = raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_FILL;
    let kinds = [raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_DISPATCH, fill, raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_BARRIER];
    assert_eq!(events.iter().map(|event| event.type_).collect::<Vec<_>>(), [kinds[0], fill, kinds[2], fill]);
    assert_eq!(events.iter().map(|event| event.operation_count).collect::<Vec<_>>(), [1, 1, 0, 1]);
    check_times(&sink, events.iter().map(|event| (event.start_tick, event.end_tick)));
    for pair in events.windows(2) {
        assert!(pair[0].end_tick <= pair[1].start_tick, "a queue runs submissions in order");
        assert!(pair[0].event_id < pair[1].event_id && pair[0].submission_id < pair[1].submission_id);
    }
    assert!(sink.chunks("dispatch-events").is_empty());
}

fn pattern(filter: &mut raw::iree_hal_profile_capture_filter_t, pattern: &'static str) {
    filter.flags |= raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_EXECUTABLE_FUNCTION_PATTERN;
    filter.executable_function_pattern = strings::view(pattern);
}

#[test]
fn filters_select_functions_and_queues() {
    let rig = Rig::new();
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let mut value = 0;
    let mut count = |change: fn(&mut raw::iree_hal_profile_capture_filter_t)| {
        let sink = Sink::new();
        sink.begin_with(&rig, DISPATCH | DEVICE, change).unwrap();
        for queue in [1, 2] {
            value += 1;
            launch(&rig, queue, &[(&done, value)], &kernels, &target).unwrap();
            wait(&done, value).unwrap();
        }
        end(&rig).unwrap();
        assert_eq!(sink.ended(), [Code::OK]);
        let dispatches: Vec<DispatchEvent> = sink.records("dispatch-events");
        check_times(&sink, dispatch_times(&dispatches));
        (dispatches.len(), sink.records::<QueueDeviceEvent>("queue-device-events").len())
    };
    assert_eq!(count(|_| {}), (2, 2));
    assert_eq!(count(|filter| pattern(filter, "never-matches-*")), (0, 2));
    assert_eq!(count(|filter| pattern(filter, "write_*")), (2, 2));
    let on_queue = |filter: &mut raw::iree_hal_profile_capture_filter_t| {
        filter.flags |= raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_QUEUE_ORDINAL;
        filter.queue_ordinal = 1;
    };
    assert_eq!(count(on_queue), (1, 1));
    let on_gpu = |filter: &mut raw::iree_hal_profile_capture_filter_t| {
        filter.flags |= raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_PHYSICAL_DEVICE_ORDINAL;
        filter.physical_device_ordinal = 1;
    };
    assert_eq!(count(on_gpu), (0, 0));
    // Dispatches of their own have no index.
    let at_index = |filter: &mut raw::iree_hal_profile_capture_filter_t| {
        filter.flags |= raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_COMMAND_INDEX;
        filter.command_index = 0;
    };
    assert_eq!(count(at_index), (0, 2));
}

/// Records `count` launches of `write_at`, each followed by a barrier, and a fill with a barrier at the end.
fn record(rig: &Rig, kernels: &ExecutableRef, target: &BufferRef, count: usize) -> Recording {
    let recording = Recording::begin(rig, Mode::Reusable, 0);
    for _ in 0..count {
        let constants = 0_u64.to_le_bytes();
        let target = [direct(target, 0, 4)];
        recording.dispatch((kernels, "write_at"), workgroups(1), &constants, &target, 0).unwrap();
        recording.barrier();
    }
    recording.fill(direct(target, 0, 4), 5).unwrap();
    recording.barrier();
    recording.end();
    recording
}

#[test]
fn dispatches_of_command_buffers_are_joined_to_their_commands() {
    let rig = Rig::new();
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let recording = record(&rig, &kernels, &target, 2);
    for (value, wanted) in [(1, None), (2, Some(2))] {
        let sink = Sink::new();
        sink.begin_with(&rig, DISPATCH | QUEUE, |filter| {
            if let Some(index) = wanted {
                filter.flags = raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_COMMAND_INDEX;
                filter.command_index = index;
            }
        })
        .unwrap();
        recording.execute(&rig, 1, &[], &[(&done, value)], &[]).unwrap();
        wait(&done, value).unwrap();
        flush(&rig).unwrap();
        end(&rig).unwrap();
        let buffers: Vec<CommandBufferRecord> = sink.records("command-buffers");
        let commands: Vec<CommandRecord> = sink.records("command-operations");
        assert_eq!(buffers.len(), 1);
        assert!(commands.iter().all(|command| command.command_buffer_id == buffers[0].command_buffer_id));
        let (dispatch, barrier, fill) = (
            raw::IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_DISPATCH,
            raw::IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_BARRIER,
            raw::IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_FILL,
        );
        let kinds: Vec<_> = commands.iter().map(|command| (command.command_index, command.type_)).collect();
        assert_eq!(kinds, [(0, dispatch), (1, barrier), (2, dispatch), (3, barrier), (4, fill), (5, barrier)]);
        let events: Vec<DispatchEvent> = sink.records("dispatch-events");
        check_times(&sink, dispatch_times(&events));
        let indices: Vec<_> = events.iter().map(|event| event.command_index).collect();
        assert_eq!(indices, wanted.map_or(vec![0, 2], |index| vec![index]));
        for event in &events {
            assert_eq!(event.flags, raw::IREE_HAL_PROFILE_DISPATCH_EVENT_FLAG_COMMAND_BUFFER);
            assert_eq!(event.command_buffer_id, buffers[0].command_buffer_id);
            let command = commands[event.command_index as usize];
            assert_eq!(
                (command.executable_id, command.function_ordinal),
                (event.executable_id, event.function_ordinal)
            );
            assert_eq!(command.workgroup_count, event.workgroup_count);
            assert_eq!(event.workgroup_count, [1; 3]);
        }
        let queue: Vec<QueueEvent> = sink.records("queue-events");
        assert_eq!((queue.len(), queue[0].type_), (1, raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_EXECUTE));
        assert_eq!((queue[0].command_buffer_id, queue[0].operation_count), (buffers[0].command_buffer_id, 3));
    }
}

/// Every launch of a recording that goes to the ring in parts has its times, and the whole has one span around them.
#[test]
fn a_recording_longer_than_the_ring_is_whole_in_the_profile() {
    const COUNT: usize = 200;
    let rig = Rig::with(&[("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "64")]);
    let sink = Sink::new();
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let recording = record(&rig, &kernels, &target, COUNT);
    sink.begin(&rig, DISPATCH | DEVICE).unwrap();
    for value in 1..=3 {
        recording.execute(&rig, 1, &[(&done, value - 1)], &[(&done, value)], &[]).unwrap();
    }
    wait(&done, 3).unwrap();
    assert_eq!(rig.read(&target, 0, 4), [5; 4]);
    end(&rig).unwrap();
    let (dispatches, spans): (Vec<DispatchEvent>, Vec<QueueDeviceEvent>) =
        (sink.records("dispatch-events"), sink.records("queue-device-events"));
    assert_eq!((dispatches.len(), spans.len()), (3 * COUNT, 3));
    check_times(&sink, dispatch_times(&dispatches));
    for (span, dispatches) in spans.iter().zip(dispatches.chunks(COUNT)) {
        let indices: Vec<_> = dispatches.iter().map(|event| event.command_index).collect();
        assert_eq!(indices, (0..COUNT as u32).map(|index| 2 * index).collect::<Vec<_>>());
        for event in dispatches {
            assert_eq!(event.submission_id, span.submission_id);
            assert!(span.start_tick <= event.start_tick && event.end_tick <= span.end_tick);
        }
        for pair in dispatches.windows(2) {
            assert!(pair[0].end_tick <= pair[1].start_tick, "barriers are between them");
        }
    }
}

#[test]
fn indirect_dispatches_say_so() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let kernels = rig.executable(KERNELS).unwrap();
    let parameters = raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS;
    let (target, counts, done) = (rig.buffer(4), rig.buffer_for(parameters, 12), rig.semaphore());
    rig.write(&counts, 0, &[1_u32; 3].map(u32::to_le_bytes).concat());
    sink.begin(&rig, DISPATCH | DEVICE).unwrap();
    let flags = [
        raw::IREE_HAL_DISPATCH_FLAG_STATIC_INDIRECT_PARAMETERS,
        raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS,
    ];
    for (value, flag) in (1..).zip(flags) {
        let mut config = workgroups(0);
        config.workgroup_count_ref = direct(&counts, 0, 12);
        let (constants, target) = (0_u64.to_le_bytes(), [direct(&target, 0, 4)]);
        let signals = [(&done, value)];
        rig.dispatch_with(1, &[], &signals, (&kernels, "write_at"), config, &constants, &target, flag).unwrap();
        wait(&done, value).unwrap();
    }
    end(&rig).unwrap();
    assert_eq!(rig.read(&target, 0, 4), 1_u32.to_le_bytes());
    let (dispatches, spans): (Vec<DispatchEvent>, Vec<QueueDeviceEvent>) =
        (sink.records("dispatch-events"), sink.records("queue-device-events"));
    assert_eq!((dispatches.len(), spans.len()), (2, 2));
    check_times(&sink, dispatch_times(&dispatches));
    for (event, span) in dispatches.iter().zip(&spans) {
        assert_eq!(event.flags, raw::IREE_HAL_PROFILE_DISPATCH_EVENT_FLAG_INDIRECT_PARAMETERS);
        assert_eq!((event.workgroup_count, event.command_index), ([0; 3], u32::MAX));
        // The kernel that reads the counts is part of the operation and not of the dispatch.
        assert!(span.start_tick < event.start_tick && event.end_tick <= span.end_tick);
    }
}
