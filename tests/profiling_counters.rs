// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware counters in profiles: dispatches have as many waves as they have workgroups for, whatever is beside them.

#[path = "support/counters.rs"]
mod counters;
#[path = "support/hold.rs"]
mod hold;
#[path = "support/kernels.rs"]
mod kernels;
#[path = "support/sink.rs"]
mod sink;
mod support;

use std::collections::BTreeSet;

use amdgpu_rs::ffi::{Code, raw, strings};
use counters::{begin, parts, samples, sums};
use hold::Hold;
use kernels::{
    Bench, DEVICE, GFX908, GFX942, GFX1030, GFX1100, GFX1201, PATH_VARIABLE, SAMPLES, indirect_workgroups, workgroups,
};
use raw::iree_hal_profile_counter_set_record_t as SetRecord;
use raw::iree_hal_profile_dispatch_event_t as DispatchEvent;
use sink::{Sink, end, flush};
use support::recording::{Mode, Recording, direct};
use support::{Rig, failure, passes_alone, wait};

const SHARED_GFX1100: &[u8] = include_bytes!("../sim/tests/kernels/shared.gfx1100.co");
const SHARED_GFX942: &[u8] = include_bytes!("../sim/tests/kernels/shared.gfx942.co");

const RANGES: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES;
const REGIONS: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_COMMAND_REGION_EVENTS;

/// Dispatches of their own and recorded ones, two of which nothing orders, on a GPU that counts waves in so many places
/// and workgroups in so many shader engines, and whose workgroups of 64 have so many waves.
fn check(code: &[u8], values: u32, engines: u32, waves: u64) {
    let bench = Bench::new(code, &[]);
    let rig = &bench.rig;
    let sink = Sink::new();
    begin(
        &sink,
        rig,
        SAMPLES | DEVICE,
        &[("", &["SQ_WAVES", "SQ_BUSY_CYCLES"]), ("mine", &["SQ_WAVES", "SPI_CSN_NUM_THREADGROUPS"])],
    )
    .unwrap();
    bench.run("combine", 5);
    bench.run("gather", 3);
    flush(rig).unwrap();
    let recording = Recording::begin(rig, Mode::Reusable, 0);
    bench.record(&recording, "combine", 7);
    recording.fill(direct(&bench.memory[2], 0, 8), 5).unwrap();
    bench.record(&recording, "combine", 40);
    recording.barrier();
    bench.record(&recording, "gather", 1);
    recording.end();
    recording.run(rig).unwrap();
    // Operations without a dispatch have no samples.
    let done = rig.semaphore();
    rig.fill(1, &[], &[(&done, 1)], &bench.memory[0], (0, 400), &[7]).unwrap();
    wait(&done, 1).unwrap();
    end(rig).unwrap();
    assert_eq!(sink.ended(), [Code::OK]);

    let sets = parts::<SetRecord>(&sink, "counter-sets");
    let sets: Vec<_> = sets
        .iter()
        .map(|(set, name)| (set.counter_set_id, set.counter_count, set.sample_value_count, &name[..]))
        .collect();
    assert_eq!(sets, [(1, 2, 2 * values, &b"amdgpu.pmc"[..]), (2, 2, values + engines, b"mine")]);
    let groups = [5, 3, 7, 40, 1];
    let expected = groups.map(|groups| groups * waves);
    assert_eq!((sums(&sink, 1, "SQ_WAVES"), sums(&sink, 2, "SQ_WAVES")), (expected.to_vec(), expected.to_vec()));
    assert_eq!(sums(&sink, 2, "SPI_CSN_NUM_THREADGROUPS"), groups);
    assert!(sums(&sink, 1, "SQ_BUSY_CYCLES").iter().all(|cycles| *cycles > 0));

    let events: Vec<DispatchEvent> = sink.records("dispatch-events");
    assert_eq!(events.iter().map(|event| u64::from(event.workgroup_count[0])).collect::<Vec<_>>(), groups);
    let samples = samples(&sink);
    assert_eq!(samples.len(), 2 * events.len());
    assert_eq!(samples.iter().map(|(sample, _)| sample.sample_id).collect::<BTreeSet<_>>().len(), samples.len());
    for (sample, _) in &samples {
        let event = events.iter().find(|event| event.event_id == sample.dispatch_event_id).expect("its dispatch");
        assert_eq!((sample.start_tick, sample.end_tick), (event.start_tick, event.end_tick));
        assert_eq!((sample.submission_id, sample.command_buffer_id), (event.submission_id, event.command_buffer_id));
        assert_eq!((sample.executable_id, sample.function_ordinal), (event.executable_id, event.function_ordinal));
        assert_eq!((sample.command_index, sample.scope), (event.command_index, 1));
        let flags = if event.command_buffer_id == 0 { 0b101 } else { 0b111 };
        assert_eq!((sample.flags, sample.physical_device_ordinal, sample.queue_ordinal), (flags, 0, 0));
    }
    let first = rig.read(&bench.memory[0], 0, 400);
    assert_eq!(first, [7; 400], "what is beside the counters works");
}

#[test]
fn waves_are_counted_on_gfx1100() {
    passes_alone("waves_are_counted_on_gfx1100", "gfx1100", || check(GFX1100, 48, 6, 2));
}

#[test]
fn waves_are_counted_on_gfx942() {
    passes_alone("waves_are_counted_on_gfx942", "gfx942", || check(GFX942, 32, 32, 1));
}

#[test]
fn waves_are_counted_on_gfx1201() {
    passes_alone("waves_are_counted_on_gfx1201", "gfx1201", || check(GFX1201, 32, 4, 2));
}

#[test]
fn waves_are_counted_on_gfx1030() {
    passes_alone("waves_are_counted_on_gfx1030", "gfx1030", || check(GFX1030, 4, 4, 2));
}

#[test]
fn waves_have_a_width() {
    passes_alone("waves_have_a_width", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, SAMPLES, &[("widths", &["SQ_WAVES_64", "SQ_WAVES_32"])]).unwrap();
        bench.run("combine", 9);
        end(&bench.rig).unwrap();
        assert_eq!((sums(&sink, 1, "SQ_WAVES_64"), sums(&sink, 1, "SQ_WAVES_32")), (vec![0], vec![18]));
    });
}

/// Checks the instruction counts of a wave of `gather` against its disassembly.
fn check_instructions(code: &[u8], waves: u64, expected: &[(&str, u64)]) {
    let (bench, sink) = (Bench::new(code, &[]), Sink::new());
    let names: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
    begin(&sink, &bench.rig, SAMPLES, &[("", &names)]).unwrap();
    bench.run("gather", 1);
    end(&bench.rig).unwrap();
    for (name, count) in expected {
        assert_eq!(sums(&sink, 1, name), [waves * count], "{name}");
    }
}

#[test]
fn instructions_are_counted_on_gfx1100() {
    passes_alone("instructions_are_counted_on_gfx1100", "gfx1100", || {
        let counts = [("SQ_INSTS_VALU", 26), ("SQ_INSTS_SALU", 2), ("SQ_INSTS_SMEM", 2), ("SQ_INSTS_LDS", 0)];
        let all = [("SQ_WAVES", 1), ("SQ_WAVES_32", 1), ("SQ_WAVES_64", 0)];
        check_instructions(GFX1100, 2, &[&counts[..], &all[..]].concat());
    });
}

#[test]
fn instructions_are_counted_on_gfx942() {
    passes_alone("instructions_are_counted_on_gfx942", "gfx942", || {
        let counts = [("SQ_INSTS_VALU", 27), ("SQ_INSTS_SALU", 2), ("SQ_INSTS_SMEM", 2), ("SQ_INSTS_LDS", 0)];
        check_instructions(GFX942, 1, &[&counts[..], &[("SQ_INSTS_VMEM", 2), ("SQ_WAVES", 1)]].concat());
    });
}

/// The kernel that takes the workgroups over is not the dispatch's.
#[test]
fn a_dispatch_with_indirect_counts_is_counted_alone() {
    passes_alone("a_dispatch_with_indirect_counts_is_counted_alone", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let rig = &bench.rig;
        let (_groups, config) = indirect_workgroups(rig, 6);
        let flags = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;
        let (constants, bindings, done) = (bench.constants(), bench.bindings("combine"), rig.semaphore());
        let kernel = (&bench.kernels, "combine");
        let recording = Recording::begin(rig, Mode::Reusable, 0);
        recording.dispatch(kernel, config, &constants, &bindings, flags).unwrap();
        recording.end();
        begin(&sink, rig, SAMPLES | DEVICE, &[("", &["SQ_WAVES"])]).unwrap();
        rig.dispatch_with(1, &[], &[(&done, 1)], kernel, config, &constants, &bindings, flags).unwrap();
        wait(&done, 1).unwrap();
        recording.run(rig).unwrap();
        end(rig).unwrap();
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), [12, 12]);
    });
}

#[test]
fn recordings_longer_than_the_ring_are_counted_whole() {
    passes_alone("recordings_longer_than_the_ring_are_counted_whole", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[("aql_queue_capacity", "64")]), Sink::new());
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        let groups: Vec<u32> = (1..=50).collect();
        groups.iter().for_each(|groups| bench.record(&recording, "combine", *groups));
        recording.end();
        begin(&sink, &bench.rig, SAMPLES | REGIONS, &[("", &["SQ_WAVES"])]).unwrap();
        recording.run(&bench.rig).unwrap();
        recording.run(&bench.rig).unwrap();
        end(&bench.rig).unwrap();
        let expected: Vec<_> = groups.iter().chain(&groups).map(|groups| 2 * u64::from(*groups)).collect();
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), expected);
    });
}

#[test]
fn each_gpu_has_counters_of_its_own() {
    passes_alone("each_gpu_has_counters_of_its_own", "gfx1100,gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, SAMPLES, &[("", &["SQ_WAVES"])]).unwrap();
        // Two queues each.
        for (queue, groups) in [(1, 5), (4, 3), (8, 4), (2, 6)] {
            bench.run_on(queue, "combine", groups);
        }
        end(&bench.rig).unwrap();
        let of_gpu = |gpu: u32| -> Vec<(u32, u64)> {
            let samples = samples(&sink).into_iter().filter(|(sample, _)| sample.physical_device_ordinal == gpu);
            let set = u64::from(gpu) << 32 | 1;
            let mut found: Vec<_> = samples
                .inspect(|(sample, _)| assert_eq!(sample.counter_set_id, set))
                .map(|(sample, values)| (sample.queue_ordinal, values.iter().sum()))
                .collect();
            found.sort_unstable();
            found
        };
        // Of each the first queue.
        assert_eq!((of_gpu(0), of_gpu(1)), (vec![(0, 10), (0, 12)], vec![(0, 6), (0, 8)]));
    });
}

/// Whichever queue it is for.
#[test]
fn all_work_is_counted_on_one_queue() {
    passes_alone("all_work_is_counted_on_one_queue", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, SAMPLES, &[("", &["SQ_WAVES"])]).unwrap();
        let (held, done) = (bench.rig.semaphore(), bench.rig.semaphore());
        let hold = Hold::new(&bench.rig, hold::GFX1100, 1, &[(&held, 1)]);
        let (constants, bindings) = (bench.constants(), bench.bindings("combine"));
        let kernel = (&bench.kernels, "combine");
        for (queues, value) in [(u64::MAX, 1), (2, 2)] {
            let signals = [(&done, value)];
            bench.rig.dispatch_with(queues, &[], &signals, kernel, workgroups(5), &constants, &bindings, 0).unwrap();
        }
        drop(hold);
        wait(&done, 2).unwrap();
        wait(&held, 1).unwrap();
        end(&bench.rig).unwrap();
        let queues: Vec<_> = samples(&sink).iter().map(|(sample, _)| sample.queue_ordinal).collect();
        assert_eq!(queues, [0, 0, 0]);
        assert_eq!(sums(&sink, 1, "SQ_WAVES")[1..], [10, 10]);

        // Not when the session is over.
        let buffer = bench.rig.alloca(2, &[], &[(&done, 3)], 16).unwrap();
        // SAFETY: a live buffer.
        assert_eq!(unsafe { (*buffer.as_ptr()).placement.queue_affinity }, 2);
        wait(&done, 3).unwrap();
    });
}

#[test]
fn a_device_that_is_lost_has_the_samples_of_what_was_complete() {
    passes_alone("a_device_that_is_lost_has_the_samples_of_what_was_complete", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, SAMPLES, &[("", &["SQ_WAVES"])]).unwrap();
        bench.run("combine", 5);
        let lost = bench.rig.semaphore();
        bench.rig.dispatch(1, &[], &[(&lost, 1)], (&bench.kernels, "trap"), &[], &[&bench.memory[0]]).unwrap();
        assert_eq!(failure(&lost, 1).code(), Code::DATA_LOSS);
        end(&bench.rig).unwrap();
        assert_eq!(sink.ended(), [Code::DATA_LOSS]);
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), [10]);
    });
}

/// Whatever runs in a range counts, on a GPU whose counters have so many values and whose workgroups of 64 so many
/// waves.
fn check_ranges(code: &[u8], values: u32, waves: u64) {
    let (bench, sink) = (Bench::new(code, &[]), Sink::new());
    bench.run("combine", 2);
    begin(&sink, &bench.rig, RANGES, &[("", &["SQ_WAVES", "SQ_BUSY_CYCLES"]), ("mine", &["SQ_WAVES"])]).unwrap();
    for (queues, groups) in [(1, 5), (2, 3), (u64::MAX, 4)] {
        bench.run_on(queues, "combine", groups);
    }
    flush(&bench.rig).unwrap();
    flush(&bench.rig).unwrap();
    let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
    bench.record(&recording, "combine", 7);
    bench.record(&recording, "gather", 6);
    recording.end();
    recording.run(&bench.rig).unwrap();
    end(&bench.rig).unwrap();
    bench.run("combine", 2);
    assert_eq!(sink.ended(), [Code::OK]);

    let expected = [12 * waves, 0, 13 * waves];
    assert_eq!((sums(&sink, 1, "SQ_WAVES"), sums(&sink, 2, "SQ_WAVES")), (expected.to_vec(), expected.to_vec()));
    let was_busy: Vec<_> = sums(&sink, 1, "SQ_BUSY_CYCLES").iter().map(|cycles| *cycles > 0).collect();
    assert_eq!(was_busy, [true, false, true]);
    let mut last = 0;
    for (sample, of_set) in samples(&sink) {
        assert_eq!(of_set.len() as u32, if sample.counter_set_id == 1 { 2 * values } else { values });
        assert_eq!((sample.scope, sample.flags, sample.physical_device_ordinal), (3, 0b100, 0));
        assert_eq!((sample.dispatch_event_id, sample.submission_id, sample.executable_id), (0, 0, 0));
        assert!(sample.start_tick < sample.end_tick);
        if sample.counter_set_id == 1 {
            assert!(last <= sample.start_tick, "ranges do not overlap");
            last = sample.end_tick;
        }
    }
    assert!(sink.chunks("dispatch-events").iter().all(|chunk| chunk.bytes.is_empty()));
}

#[test]
fn ranges_count_whatever_runs_on_gfx1100() {
    passes_alone("ranges_count_whatever_runs_on_gfx1100", "gfx1100", || check_ranges(GFX1100, 48, 2));
}

#[test]
fn ranges_count_whatever_runs_on_gfx942() {
    passes_alone("ranges_count_whatever_runs_on_gfx942", "gfx942", || check_ranges(GFX942, 32, 1));
}

#[test]
fn each_gpu_has_ranges_of_its_own() {
    passes_alone("each_gpu_has_ranges_of_its_own", "gfx1100,gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, RANGES | DEVICE, &[("", &["SQ_WAVES"])]).unwrap();
        for (queue, groups) in [(1, 5), (4, 3), (8, 4), (2, 6)] {
            bench.run_on(queue, "combine", groups);
        }
        end(&bench.rig).unwrap();
        let samples = samples(&sink);
        let found: Vec<(u32, u64)> =
            samples.iter().map(|(sample, values)| (sample.physical_device_ordinal, values.iter().sum())).collect();
        assert_eq!(found, [(0, 22), (1, 14)]);
        // The profile tells of the four dispatches alone.
        let operations: Vec<raw::iree_hal_profile_queue_device_event_t> = sink.records("queue-device-events");
        assert_eq!(operations.len(), 4);
    });
}

#[test]
fn a_flush_reads_a_range_while_the_first_queue_is_busy() {
    passes_alone("a_flush_reads_a_range_while_the_first_queue_is_busy", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, RANGES, &[("", &["SQ_WAVES"])]).unwrap();
        bench.run("combine", 5);
        let held = bench.rig.semaphore();
        let hold = Hold::new(&bench.rig, hold::GFX1100, 1, &[(&held, 1)]);
        flush(&bench.rig).unwrap();
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), [10]);
        drop(hold);
        wait(&held, 1).unwrap();
        end(&bench.rig).unwrap();
        let after = sums(&sink, 1, "SQ_WAVES");
        assert!(after.len() == 2 && after[1] > 0, "{after:?}");
    });
}

/// The range's packets stand in line behind others for which the ring has no room.
#[test]
fn a_flush_waits_for_room_in_a_full_ring() {
    passes_alone("a_flush_waits_for_room_in_a_full_ring", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[("aql_queue_capacity", "64")]), Sink::new());
        let rig = &bench.rig;
        begin(&sink, rig, RANGES, &[("", &["SQ_WAVES"])]).unwrap();
        let (held, done) = (rig.semaphore(), rig.semaphore());
        let hold = Hold::new(rig, hold::GFX1100, 2, &[(&held, 1)]);
        let (constants, bindings, kernel) = (bench.constants(), bench.bindings("combine"), (&bench.kernels, "combine"));
        for value in 1..=100 {
            let signals = [(&done, value)];
            rig.dispatch_with(2, &[], &signals, kernel, workgroups(1), &constants, &bindings, 0).unwrap();
        }
        std::thread::scope(|scope| {
            let flushing = scope.spawn(|| flush(rig));
            hold::pass_time(rig, 1);
            drop(hold);
            flushing.join().unwrap().unwrap();
        });
        // All that was in front of the range's end is in it.
        let ended = sums(&sink, 1, "SQ_WAVES");
        assert!(ended.len() == 1 && ended[0] >= 200, "{ended:?}");
        wait(&done, 100).unwrap();
        end(rig).unwrap();
        assert_eq!(sink.ended(), [Code::OK]);
    });
}

#[test]
fn a_device_that_is_lost_has_the_ranges_that_were_over() {
    passes_alone("a_device_that_is_lost_has_the_ranges_that_were_over", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, RANGES, &[("", &["SQ_WAVES"])]).unwrap();
        bench.run("combine", 5);
        flush(&bench.rig).unwrap();
        let lost = bench.rig.semaphore();
        bench.rig.dispatch(1, &[], &[(&lost, 1)], (&bench.kernels, "trap"), &[], &[&bench.memory[0]]).unwrap();
        assert_eq!(failure(&lost, 1).code(), Code::DATA_LOSS);
        let status = end(&bench.rig).expect_err("a range has no end");
        assert!(status.to_string().contains("lost a range of hardware counters"), "{status}");
        assert_eq!(sink.ended(), [Code::DATA_LOSS]);
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), [10]);
        // Where no range can begin there is no session.
        let again = Sink::new();
        let status = begin(&again, &bench.rig, RANGES, &[("", &["SQ_WAVES"])]).expect_err("lost");
        assert_eq!(status.code(), Code::DATA_LOSS, "{status}");
        assert_eq!(again.ended(), [Code::DATA_LOSS]);
        end(&bench.rig).unwrap();
        assert_eq!(again.ended(), [Code::DATA_LOSS]);
    });
}

/// A GPU's second queue cannot be told when it began; the first one counts by then.
#[test]
fn what_has_begun_stops_where_not_all_can_begin() {
    let name = "what_has_begun_stops_where_not_all_can_begin";
    let said = passes_alone(name, "gfx1100", || {
        // SAFETY: this process has one test, and no thread that looks at the environment yet.
        unsafe {
            std::env::set_var("HSA_SIM_FAIL", "hsa_amd_profiling_get_dispatch_time:2");
            std::env::set_var("HSA_SIM_TRACE", "packets");
        }
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let status = begin(&sink, &bench.rig, RANGES, &[("", &["SQ_WAVES"])]).expect_err("it has no times");
        assert!(status.to_string().contains("hsa_amd_profiling_get_dispatch_time"), "{status}");
        assert_eq!((sink.ended().len(), samples(&sink).len()), (1, 0));
        // There is no session, and there can be another one.
        let again = Sink::new();
        begin(&again, &bench.rig, RANGES, &[("", &["SQ_WAVES"])]).unwrap();
        bench.run("combine", 5);
        eprintln!("the second ends");
        end(&bench.rig).unwrap();
        assert_eq!((again.ended(), sums(&again, 1, "SQ_WAVES")), (vec![Code::OK], vec![10]));
    });
    let Some(said) = said else { return };
    let states: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once("CP_PERFMON_CNTL = ").map(|(_, state)| state).or(line.strip_prefix("the ")))
        .collect();
    // Of each begin a reset and a start, of the end a sample and a stop.
    let begun = ["0x0", "0x0", "0x1"].repeat(2);
    let over = ["0x401", "0x2"];
    assert_eq!(states, [&begun[..], &over, &begun, &["second ends"], &over].concat(), "{said}");
}

#[test]
fn filters_choose_what_is_counted() {
    passes_alone("filters_choose_what_is_counted", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let name = strings::view("SQ_WAVES");
        // SAFETY: all-zero is a selection of nothing.
        let mut selection: raw::iree_hal_profile_counter_set_selection_t = unsafe { std::mem::zeroed() };
        (selection.counter_name_count, selection.counter_names) = (1, &raw const name);
        sink.begin_options(&bench.rig, SAMPLES, |options| {
            (options.counter_set_count, options.counter_sets) = (1, &raw const selection);
            options.capture_filter.flags = raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_EXECUTABLE_FUNCTION_PATTERN;
            options.capture_filter.executable_function_pattern = strings::view("gath*");
        })
        .unwrap();
        bench.run("combine", 5);
        bench.run("gather", 3);
        end(&bench.rig).unwrap();
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), [6]);
    });
}

#[test]
fn counters_that_there_are_none_of_are_refused_by_name() {
    passes_alone("counters_that_there_are_none_of_are_refused_by_name", "gfx942", || {
        let (bench, sink) = (Bench::new(GFX942, &[]), Sink::new());
        for (counters, code, text) in [
            (
                &["SQ_WAVES", "SQ_TEA"][..],
                Code::UNIMPLEMENTED,
                "no hardware counter 'SQ_TEA'; there are SQ_WAVES, SQ_W",
            ),
            (&["SQ_WAVES", "SQ_WAVES"], Code::INVALID_ARGUMENT, "'mine' of hardware counters has SQ_WAVES twice"),
            (&["SQ_WAVES_32"], Code::UNIMPLEMENTED, "gfx942 has no hardware counter SQ_WAVES_32"),
            (&["SQ_INSTS_FLAT"], Code::FAILED_PRECONDITION, "the aqlprofile library counts no SQ_INSTS_FLAT on gfx942"),
            (&[], Code::INVALID_ARGUMENT, ""),
        ] {
            let status = begin(&sink, &bench.rig, SAMPLES, &[("mine", counters)]).expect_err("refused");
            assert_eq!(status.code(), code, "{status}");
            assert!(status.to_string().contains(text), "{status}");
        }
        assert_eq!(sink.seen.lock().unwrap().begun, 0);
    });
}

#[test]
fn a_library_that_is_missing_is_named() {
    passes_alone("a_library_that_is_missing_is_named", "gfx1100", || {
        let (rig, sink) = (Rig::new(), Sink::new());
        // SAFETY: this process has one test, whose threads are the driver's, which do not look at the environment.
        unsafe { std::env::set_var(PATH_VARIABLE, "/nowhere") };
        let status = begin(&sink, &rig, SAMPLES, &[("", &["SQ_WAVES"])]).expect_err("there is none");
        assert_eq!(status.code(), Code::NOT_FOUND, "{status}");
        for text in ["/nowhere/libhsa-amd-aqlprofile64.so.1: no such file", PATH_VARIABLE] {
            assert!(status.to_string().contains(text), "{status}");
        }
        assert_eq!(sink.seen.lock().unwrap().begun, 0);
        // A session without counters needs no library.
        sink.begin(&rig, DEVICE).unwrap();
        end(&rig).unwrap();
    });
}

/// Sixteen workgroups of a kernel that stores rows of 17 dwords to LDS and loads their columns: of 32 lanes that are
/// served at a time, two want the same bank in each of both.
fn check_lds(code: &[u8], [active, conflicts]: [&str; 2]) {
    let (bench, sink) = (Bench::new(code, &[]), Sink::new());
    let rig = &bench.rig;
    begin(&sink, rig, SAMPLES, &[("", &[active, conflicts])]).unwrap();
    let memory = [0; 2].map(|_| rig.buffer(4 << 12));
    let bindings = [0, 1].map(|index: usize| direct(&memory[index], 0, 4 << 12));
    let mut config = workgroups(16);
    config.workgroup_size = [256, 1, 1];
    let done = rig.semaphore();
    rig.dispatch_with(1, &[], &[(&done, 1)], (&bench.kernels, "transpose"), config, &[], &bindings, 0).unwrap();
    wait(&done, 1).unwrap();
    end(rig).unwrap();
    let groups = (1 << 12) / 32;
    let [active, conflicts] = [active, conflicts].map(|name| sums(&sink, 1, name)[0]);
    assert_eq!((active, conflicts), (4 * groups, 2 * groups));
    // The bytes that lanes accessed, as rocprofiler-compute takes them from both: a store and a load of each work-item.
    assert_eq!((active - conflicts) * 4 * 32, (1 << 12) * 2 * 4);
}

#[test]
fn passes_of_lds_are_counted_on_gfx942() {
    passes_alone("passes_of_lds_are_counted_on_gfx942", "gfx942", || {
        check_lds(SHARED_GFX942, ["SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT"]);
    });
}

#[test]
fn passes_of_lds_are_counted_on_gfx1100() {
    passes_alone("passes_of_lds_are_counted_on_gfx1100", "gfx1100", || {
        let names = ["SQC_LDS_IDX_ACTIVE", "SQC_LDS_BANK_CONFLICT"];
        check_lds(SHARED_GFX1100, names);
        // Those of gfx9 have other names.
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let status = begin(&sink, &bench.rig, SAMPLES, &[("", &["SQ_LDS_IDX_ACTIVE"])]).expect_err("refused");
        assert!(status.to_string().contains("gfx1100 has no hardware counter SQ_LDS_IDX_ACTIVE"), "{status}");
    });
}

/// A wave of 64 lanes that loads two numbers for each and stores one, in so many cache lines each; so many instances of
/// each block count.
fn check_accesses(code: &[u8], lines: u64, instances: usize) {
    let (bench, sink) = (Bench::new(code, &[]), Sink::new());
    let loads = ["TA_FLAT_READ_WAVEFRONTS", "TA_FLAT_WRITE_WAVEFRONTS"];
    let all = ["TCP_TOTAL_CACHE_ACCESSES", loads[0], loads[1], "SQ_WAVES"];
    begin(&sink, &bench.rig, SAMPLES, &[("flat", &all), ("", &["TCP_TOTAL_CACHE_ACCESSES"])]).unwrap();
    bench.run("combine", 1);
    end(&bench.rig).unwrap();
    assert_eq!(all.map(|name| sums(&sink, 1, name)), [3 * lines, 2, 1, 1].map(|sum| vec![sum]));
    let samples = samples(&sink);
    assert_eq!(samples[1].1.len(), instances);
    assert_eq!(sums(&sink, 2, all[0]), [3 * lines]);
    // All of it is in one compute unit.
    assert_eq!(samples[1].1.iter().filter(|value| **value > 0).count(), 1);
    // There are none by buffers.
    let again = Sink::new();
    let buffers = ["TA_BUFFER_READ_WAVEFRONTS", "TA_BUFFER_WRITE_WAVEFRONTS"];
    begin(&again, &bench.rig, SAMPLES, &[("", &buffers)]).unwrap();
    bench.run("combine", 1);
    end(&bench.rig).unwrap();
    assert_eq!(buffers.map(|name| sums(&again, 1, name)), [vec![0], vec![0]]);
}

#[test]
fn accesses_are_counted_on_gfx942() {
    passes_alone("accesses_are_counted_on_gfx942", "gfx942", || check_accesses(GFX942, 2, 8 * 4 * 16));
}

#[test]
fn accesses_are_counted_on_gfx908() {
    passes_alone("accesses_are_counted_on_gfx908", "gfx908", || check_accesses(GFX908, 4, 8 * 16));
}

#[test]
fn accesses_are_refused_on_gfx1100() {
    passes_alone("accesses_are_refused_on_gfx1100", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let status = begin(&sink, &bench.rig, SAMPLES, &[("", &["TCP_TOTAL_CACHE_ACCESSES"])]).expect_err("refused");
        assert_eq!(status.code(), Code::UNIMPLEMENTED, "{status}");
        assert!(status.to_string().contains("gfx1100 has no hardware counter TCP_TOTAL_CACHE_ACCESSES"), "{status}");
    });
}
