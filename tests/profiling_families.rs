// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Families of profile records beyond events of queues and dispatches, through the C API: code objects, pools and
//! slabs, regions of command buffers, metrics.

#[path = "support/sink.rs"]
mod sink;
mod support;

use amdgpu_rs::ffi::raw;
use raw::iree_hal_profile_clock_correlation_record_t as ClockSample;
use raw::iree_hal_profile_command_region_event_t as RegionEvent;
use raw::iree_hal_profile_device_metric_descriptor_record_t as MetricRecord;
use raw::iree_hal_profile_device_metric_sample_record_t as SampleRecord;
use raw::iree_hal_profile_device_metric_source_record_t as SourceRecord;
use raw::iree_hal_profile_dispatch_event_t as DispatchEvent;
use raw::iree_hal_profile_executable_code_object_load_record_t as LoadRecord;
use raw::iree_hal_profile_executable_code_object_record_t as CodeObjectRecord;
use raw::iree_hal_profile_executable_record_t as ExecutableRecord;
use raw::iree_hal_profile_memory_event_t as MemoryEvent;
use sink::{KERNELS, Sink, end, flush};
use support::recording::{Mode, Recording, direct};
use support::{Rig, passes_alone, wait, workgroups};

const MEMORY: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_MEMORY_EVENTS;
const DISPATCH: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS;
const METADATA: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_METADATA;
const METRICS: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_METRICS;
const REGIONS: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_COMMAND_REGION_EVENTS;

/// Code objects and their bytes.
fn code_objects(sink: &Sink) -> Vec<(CodeObjectRecord, Vec<u8>)> {
    let one = |chunk: sink::Chunk| {
        // SAFETY: plain data of this size, followed by the code.
        let record = unsafe { chunk.bytes.as_ptr().cast::<CodeObjectRecord>().read_unaligned() };
        assert_eq!(record.record_length as usize, chunk.bytes.len(), "one code object in a chunk");
        let code = chunk.bytes[size_of::<CodeObjectRecord>()..].to_vec();
        assert_eq!(record.data_length as usize, code.len());
        (record, code)
    };
    sink.chunks("executable-code-objects").into_iter().map(one).collect()
}

#[test]
fn code_objects_are_told_with_their_bytes_and_where_they_are() {
    passes_alone("code_objects_are_told_with_their_bytes_and_where_they_are", "gfx1100,gfx1100", || {
        let rig = Rig::open("0,1", &[]).unwrap();
        let sink = Sink::new();
        let first = rig.executable(KERNELS).unwrap();
        sink.begin(&rig, METADATA).unwrap();
        let second = rig.executable(KERNELS).unwrap();
        end(&rig).unwrap();
        let executables: Vec<ExecutableRecord> = sink.records("executables");
        let (objects, loads) = (code_objects(&sink), sink.records::<LoadRecord>("executable-code-object-loads"));
        assert_eq!((executables.len(), objects.len(), loads.len()), (2, 2, 4));
        for (executable, (object, code)) in executables.iter().zip(&objects) {
            assert_eq!(code, KERNELS);
            assert_eq!((object.executable_id, object.code_object_id), (executable.executable_id, object.executable_id));
            assert_eq!((executable.flags, object.flags), (1, 1));
            assert_eq!(executable.code_object_hash, object.code_object_hash);
            assert_eq!(object.code_object_hash, objects[0].0.code_object_hash);
            let own = loads.iter().filter(|load| load.code_object_id == object.code_object_id);
            let (gpus, deltas): (Vec<_>, Vec<_>) =
                own.map(|load| (load.physical_device_ordinal, load.load_delta)).unzip();
            assert_eq!(gpus, [0, 1]);
            assert_ne!(deltas[0], deltas[1]);
        }
        // Executables of the same bytes share the loaded code.
        assert_eq!(loads[0].load_delta, loads[2].load_delta);
        // As long as the segments of the file, which take whole pages.
        assert!(loads.iter().all(|load| load.load_size >= 4096 && load.load_delta % 4096 == 0));
        // Profiles of times only do not carry code.
        let times = Sink::new();
        times.begin(&rig, DISPATCH).unwrap();
        end(&rig).unwrap();
        assert_eq!(times.records::<ExecutableRecord>("executables").len(), 2);
        assert!(times.chunks("executable-code-objects").is_empty());
        drop((first, second));
    });
}

fn of(events: &[MemoryEvent], kind: u32) -> Vec<MemoryEvent> {
    events.iter().filter(|event| event.type_ == kind).copied().collect()
}

#[test]
fn pools_and_slabs_have_a_life() {
    // Two that do not fit one range of the default pool, which begins with one, and a larger one than a range: a slab
    // of its own.
    const LENGTHS: [usize; 3] = [40_000, 40_000, 1 << 20];
    let (rig, sink) = (Rig::with(&[("default_pool_range_length", "65536")]), Sink::new());
    let done = rig.semaphore();
    sink.begin(&rig, MEMORY).unwrap();
    let buffers: Vec<_> = (0..)
        .zip(LENGTHS)
        .map(|(n, length)| rig.alloca(2, &[(&done, n)], &[(&done, n + 1)], length).unwrap())
        .collect();
    for (n, buffer) in (3..).zip(&buffers) {
        rig.dealloca(2, &[(&done, n)], &[(&done, n + 1)], buffer).unwrap();
    }
    wait(&done, 6).unwrap();
    drop(buffers);
    end(&rig).unwrap();
    let events: Vec<MemoryEvent> = sink.records("memory-events");
    let queue = |kind| of(&events, kind).iter().map(|event| event.allocation_id).collect::<Vec<_>>();
    let allocations = queue(raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_QUEUE_ALLOCA);
    assert_eq!(allocations.len(), 3);
    let reserves = of(&events, raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_RESERVE);
    let made = of(&events, raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_MATERIALIZE);
    let releases = of(&events, raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_RELEASE);
    let stats = raw::IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_POOL_STATS;
    let reservation = raw::IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_POOL_RESERVATION;
    let flags = raw::IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_QUEUE_OPERATION | stats | reservation;
    for events in [&reserves, &made, &releases] {
        let of_events: Vec<_> = events.iter().map(|event| event.allocation_id).collect();
        let mut sorted = of_events.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, allocations, "each allocation once");
        for event in events {
            assert_eq!((event.flags, event.physical_device_ordinal, event.queue_ordinal), (flags, 0, 1));
            assert_ne!((event.pool_id, event.backing_id), (0, 0));
        }
    }
    for ((reserve, made), length) in reserves.iter().zip(&made).zip(LENGTHS.map(|length| length as u64)) {
        assert_eq!((reserve.pool_id, reserve.backing_id, reserve.offset), (made.pool_id, made.backing_id, made.offset));
        assert!(reserve.length >= length && reserve.length < 2 * length, "{} of {length}", reserve.length);
        assert!(reserve.host_time_ns <= made.host_time_ns);
        assert!(reserve.pool_bytes_reserved >= reserve.length && reserve.pool_reservation_count >= 1);
        assert_eq!(reserve.result, raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH);
    }
    assert_eq!(reserves.iter().map(|event| event.pool_slab_count).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(reserves[0].pool_id, reserves[1].pool_id);
    assert_ne!(reserves[0].pool_id, reserves[2].pool_id);
    assert_eq!(releases.iter().map(|event| event.pool_reservation_count).collect::<Vec<_>>(), [1, 0, 0]);
    // One slab for the second range, and one for an allocation that fits none; that one goes with its buffer.
    let got = of(&events, raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_SLAB_ACQUIRE);
    let back = of(&events, raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_SLAB_RELEASE);
    assert_eq!(got.iter().map(|event| event.length).collect::<Vec<_>>(), [65536, 1 << 20]);
    let names = |event: &MemoryEvent| (event.allocation_id, event.backing_id, event.length, event.pool_id);
    assert_eq!(back.iter().map(names).collect::<Vec<_>>(), [names(&got[1])]);
    assert!(got.iter().all(|slab| !allocations.contains(&slab.allocation_id) && slab.queue_ordinal == u32::MAX));
}

/// Allocations from before a session give their memory back in it, under a name of their own.
#[test]
fn what_a_session_finds_allocated_goes_back_in_it() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let done = rig.semaphore();
    let buffer = rig.alloca(1, &[], &[(&done, 1)], 1000).unwrap();
    wait(&done, 1).unwrap();
    sink.begin(&rig, MEMORY).unwrap();
    rig.dealloca(1, &[(&done, 1)], &[(&done, 2)], &buffer).unwrap();
    wait(&done, 2).unwrap();
    end(&rig).unwrap();
    let mut events: Vec<MemoryEvent> = sink.records("memory-events");
    events.sort_by_key(|event| event.type_);
    let kinds: Vec<_> = events.iter().map(|event| (event.type_, event.allocation_id)).collect();
    let release = raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_RELEASE;
    assert_eq!(kinds, [(release, 1), (raw::IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_QUEUE_DEALLOCA, 1)]);
}

/// Regions lie between barriers, one after the other, around the dispatches that are in them.
#[test]
fn regions_of_a_command_buffer_have_host_times() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let kernels = rig.executable(KERNELS).unwrap();
    let (target, done) = (rig.buffer(8), rig.semaphore());
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    let write = |offset| {
        let target = [direct(&target, offset, 4)];
        recording.dispatch((&kernels, "write_at"), workgroups(1), &0_u64.to_le_bytes(), &target, 0).unwrap();
    };
    write(0);
    write(4);
    recording.barrier();
    recording.barrier();
    recording.fill(direct(&target, 0, 8), 5).unwrap();
    recording.barrier();
    write(0);
    recording.end();
    sink.begin(&rig, REGIONS | DISPATCH).unwrap();
    for value in 1..=2 {
        recording.execute(&rig, 1, &[(&done, value - 1)], &[(&done, value)], &[]).unwrap();
    }
    rig.fill(1, &[(&done, 2)], &[(&done, 3)], &target, (0, 4), &[1]).unwrap();
    wait(&done, 3).unwrap();
    flush(&rig).unwrap();
    end(&rig).unwrap();
    let (events, dispatches): (Vec<RegionEvent>, Vec<DispatchEvent>) =
        (sink.records("command-region-events"), sink.records("dispatch-events"));
    // A barrier that nothing lies before makes no region, and a fill of a queue's is none.
    let indices: Vec<_> = events.iter().map(|event| event.command_region.index).collect();
    assert_eq!(indices, [0, 2, 3, 0, 2, 3]);
    let counts: Vec<_> = events.iter().map(|event| event.command_region.dispatch_count).collect();
    assert_eq!(counts, [2, 1, 1, 2, 1, 1]);
    let next: Vec<_> = events.iter().map(|event| (event.flags, event.next_command_region.index)).collect();
    let (more, last) = (
        raw::IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_COMMAND_BUFFER
            | raw::IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_HAS_NEXT_REGION,
        raw::IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_COMMAND_BUFFER
            | raw::IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_TERMINAL,
    );
    assert_eq!(next[..3], [(more, 2), (more, 3), (last, -1)]);
    assert_eq!(next[3..], next[..3]);
    assert_eq!(dispatches.len(), 6, "the fill is no dispatch");
    let clocks: Vec<ClockSample> = sink.records("clock-correlations");
    let (first, end) = (clocks[0].host_time_begin_ns, clocks[clocks.len() - 1].host_time_end_ns);
    let mut previous = first;
    for event in &events {
        let region = &event.command_region;
        let (start, end_of_region) = (region.start_host_time_ns, region.end_host_time_ns);
        // The two readings of the clocks are some nanoseconds apart.
        assert!(previous <= start + 10_000 && start <= end_of_region && end_of_region <= end + 10_000);
        previous = end_of_region;
        assert_eq!((event.queue.physical_device_ordinal, event.queue.queue_ordinal), (0, 0));
        assert_eq!(event.command_buffer_id, dispatches[0].command_buffer_id);
        assert!(region.tile_count >= region.dispatch_count && event.scheduler.worker_count > 0);
        let inside = dispatches.iter().filter(|dispatch| dispatch.submission_id == event.submission_id).count();
        assert_eq!(inside, 3);
    }
    assert_eq!(events.iter().map(|event| event.event_id).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

/// Records of `content`, each with the bytes that follow it.
fn records_with<R: Copy>(sink: &Sink, content: &str) -> Vec<(R, Vec<u8>)> {
    let mut found = Vec::new();
    for chunk in sink.chunks(content) {
        let mut rest = &chunk.bytes[..];
        while let Some(length) = rest.first_chunk() {
            let (bytes, after) = rest.split_at(u32::from_ne_bytes(*length) as usize);
            // SAFETY: plain data of this size.
            let record = unsafe { bytes.as_ptr().cast::<R>().read_unaligned() };
            found.push((record, bytes[size_of::<R>()..].to_vec()));
            rest = after;
        }
    }
    found
}

#[test]
fn metrics_of_a_gpu_without_sysfs_are_its_memory() {
    const LARGE: usize = 8 << 20;
    let said = passes_alone("metrics_of_a_gpu_without_sysfs_are_its_memory", "gfx1100", || {
        let rig = Rig::new();
        for _ in 0..2 {
            let sink = Sink::new();
            sink.begin(&rig, METRICS).unwrap();
            let buffer = rig.try_buffer(
                raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL,
                raw::IREE_HAL_BUFFER_USAGE_TRANSFER | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_STORAGE,
                LARGE,
            );
            flush(&rig).unwrap();
            drop(buffer.unwrap());
            end(&rig).unwrap();
            check_metrics(&sink, LARGE as u64);
        }
    });
    // One line, whatever number of sessions.
    let Some(said) = said else { return };
    let told: Vec<_> = said.lines().filter(|line| line.contains("no device metrics")).collect();
    assert_eq!(told.len(), 1, "{said}");
    assert!(told[0].contains("temperature.edge") && !told[0].contains("memory.local"), "{told:?}");
}

/// The samples of a session in which `length` bytes were allocated before it was flushed, and freed before it ended.
fn check_metrics(sink: &Sink, length: u64) {
    let sources: Vec<(SourceRecord, _)> = records_with(sink, "device-metric-sources");
    let metrics: Vec<(MetricRecord, Vec<u8>)> = records_with(sink, "device-metric-descriptors");
    let samples: Vec<(SampleRecord, Vec<u8>)> = records_with(sink, "device-metric-samples");
    assert_eq!(sources.len(), 1);
    let (source, name) = &sources[0];
    assert!(name.starts_with(b"hsa.agent."), "{}", String::from_utf8_lossy(name));
    assert_eq!((source.metric_count, source.physical_device_ordinal, source.source_id), (2, 0, 1));
    let names: Vec<_> = metrics.iter().map(|(metric, texts)| &texts[..metric.name_length as usize]).collect();
    assert_eq!(names, [&b"memory.local.used"[..], b"memory.local.total"]);
    assert!(metrics.iter().all(|(metric, _)| metric.unit == raw::IREE_HAL_PROFILE_METRIC_UNIT_BYTES));
    assert_eq!(samples.iter().map(|(sample, _)| sample.sample_id).collect::<Vec<_>>(), [1, 2, 3]);
    let values: Vec<Vec<u64>> = samples
        .iter()
        .map(|(sample, values)| {
            assert_eq!((sample.flags, sample.value_count, sample.source_id), (0, 2, 1));
            assert!(sample.host_time_begin_ns <= sample.host_time_end_ns);
            let words: Vec<_> = values.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            let ids: Vec<_> = words.chunks(3).map(|value| (value[0], value[2])).collect();
            assert_eq!(ids, metrics.iter().map(|(metric, _)| (metric.metric_id, 0)).collect::<Vec<_>>());
            words.chunks(3).map(|value| value[1]).collect()
        })
        .collect();
    let [begin, flushed, ended] = &values[..] else { panic!("three samples") };
    assert_eq!((flushed[0] - begin[0], flushed[0] - ended[0]), (length, length));
    assert!(begin[1] > flushed[0] && begin[1] == ended[1]);
}
