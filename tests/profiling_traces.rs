// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executable traces in profiles: which launches have them, and their contents.

#[path = "support/kernels.rs"]
mod kernels;
#[path = "support/sink.rs"]
mod sink;
mod support;

use std::collections::BTreeMap;

use amdgpu_rs::ffi::{Code, raw, strings};
use kernels::{Bench, DEVICE, GFX942, GFX1030, GFX1100, GFX1201, PATH_VARIABLE, SAMPLES, indirect_workgroups};
use raw::iree_hal_profile_capture_filter_t as Filter;
use raw::iree_hal_profile_dispatch_event_t as DispatchEvent;
use raw::iree_hal_profile_executable_code_object_load_record_t as LoadRecord;
use raw::iree_hal_profile_executable_trace_record_t as TraceRecord;
use sink::{Sink, end, flush};
use support::recording::{Mode, Recording, direct};
use support::{passes_alone, wait};

const TRACES: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_TRACES;

/// Chooses functions by their name.
fn functions(filter: &mut Filter, pattern: &str) {
    filter.flags |= raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_EXECUTABLE_FUNCTION_PATTERN;
    filter.executable_function_pattern = strings::view(pattern);
}

/// Each trace with its record; there is one in each chunk.
fn traces(sink: &Sink) -> Vec<(TraceRecord, Vec<u8>)> {
    let of = |chunk: sink::Chunk| {
        // SAFETY: plain data, as long as the chunk.
        let record = unsafe { chunk.bytes.as_ptr().cast::<TraceRecord>().read_unaligned() };
        let trace = chunk.bytes[record.record_length as usize..].to_vec();
        assert_eq!(record.record_length as usize, size_of::<TraceRecord>());
        assert_eq!((record.data_length as usize, chunk.truncated), (trace.len(), false));
        assert_eq!(
            (chunk.stream, chunk.gpu, chunk.queue),
            (record.stream_id, record.physical_device_ordinal, record.queue_ordinal)
        );
        (record, trace)
    };
    sink.chunks("executable-traces").into_iter().map(of).collect()
}

/// Contents of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Words of user data.
    userdata: Vec<u32>,
    starts: usize,
    ends: usize,
    /// Instructions by the kind in their tokens: vector ones as 100, those that no unit executes as 101.
    instructions: BTreeMap<u64, usize>,
}

impl Found {
    fn instruction(&mut self, kind: u64) {
        *self.instructions.entry(kind).or_default() += 1;
    }

    /// Code objects in the trace: identifier, address and length.
    fn code_objects(&self) -> Vec<(u64, u64, u64)> {
        assert_eq!(self.userdata[..2], [u32::from_le_bytes(*b"\0ROC"), 524_801], "it begins with what says so");
        let (mut words, mut found) = ([0_u64; 8], Vec::new());
        for pair in self.userdata[2..].chunks(2) {
            let (what, word) = (pair[0] >> 8, u64::from(pair[1]));
            assert_eq!(pair[0] & 0xff, 4, "a word of a code object");
            words[what as usize] = word;
            if what == 0 {
                assert_eq!(word & 3, 2, "it was loaded before the trace began");
                found.push((word >> 2, words[3] << 32 | words[2], words[4] << 32 | words[1]));
            }
        }
        found
    }
}

/// Bits of a trace from a place on.
fn bits(trace: &[u8], at: usize) -> u64 {
    let byte = |index: usize| u128::from(trace.get(at / 8 + index).copied().unwrap_or(0));
    ((0..9).map(|index| byte(index) << (8 * index)).sum::<u128>() >> (at % 8)) as u64
}

/// Reads the tokens of gfx11 and gfx12, as ROCm's decoder does.
fn read_gfx11(trace: &[u8], version: u64) -> Found {
    let (mut found, mut at) = (Found::default(), 64);
    assert_eq!((bits(trace, 0) & 0x7f, bits(trace, 0) >> 7 & 0x3f), (0x11, version));
    while at < trace.len() * 8 {
        let token = bits(trace, at);
        at += match token {
            _ if token & 0xf == 0b1001 => {
                if token >> 15 & 1 == 0 {
                    assert_eq!(token >> 16 & 0xffff, 0xc342);
                    found.userdata.push((token >> 32) as u32);
                }
                64
            }
            _ if token & 0x1f == 0b0_1100 => {
                found.starts += 1;
                32
            }
            _ if token & 0x1f == 0b1_0101 => {
                found.ends += 1;
                20
            }
            _ if token & 7 == 0b010 => {
                found.instruction(if version == 4 { token >> 12 & 0xff } else { token >> 13 & 0x7f });
                20
            }
            _ if token & 7 == 0b011 => {
                found.instruction(100);
                12
            }
            _ if token & 0xf == 0b1101 => {
                found.instruction(101);
                12
            }
            _ if token & 0xf == 0 => 4,
            _ => panic!("an unknown token {token:#x} at bit {at}"),
        };
    }
    found
}

/// Reads the tokens of gfx9.
fn read_gfx9(trace: &[u8], engine: u64) -> Found {
    const LENGTHS: [usize; 16] = [16, 64, 64, 32, 16, 48, 16, 16, 16, 16, 16, 64, 48, 32, 64, 48];
    let (mut found, mut at) = (Found::default(), 64);
    let header = bits(trace, 0);
    assert_eq!((header & 0x1fff, header >> 16 & 0xf, header >> 20 & 0x1f, header >> 26), (0x11, 0xf, 1, engine));
    while at < trace.len() * 8 {
        let token = bits(trace, at);
        match token & 0xf {
            2 => found.userdata.push((token >> 32) as u32),
            3 => found.starts += 1,
            6 => found.ends += 1,
            10 => found.instruction(token >> 11 & 0x1f),
            13 if (0..10).any(|wave| token >> (8 + 2 * wave) & 3 == 3) => found.instruction(101),
            _ => {}
        }
        at += LENGTHS[(token & 0xf) as usize];
    }
    found
}

/// Dispatches of their own and recorded ones on a GPU that has so many shader engines and runs workgroups of 64 in so
/// many waves, of which the workgroup that is the `detailed`-th is the first to have its instructions traced.
fn check(code: &[u8], engines: u32, waves: u32, detailed: u32, read: fn(&[u8]) -> Found) {
    let bench = Bench::new(code, &[]);
    let (rig, sink) = (&bench.rig, Sink::new());
    sink.begin_with(rig, TRACES | DEVICE, |filter| functions(filter, "comb*")).unwrap();
    bench.run("combine", 5);
    bench.run("gather", 3);
    flush(rig).unwrap();
    assert_eq!(traces(&sink).len(), 1);
    let recording = Recording::begin(rig, Mode::Reusable, 0);
    bench.record(&recording, "combine", 200);
    recording.fill(direct(&bench.memory[2], 0, 8), 5).unwrap();
    bench.record(&recording, "gather", 1);
    recording.barrier();
    bench.record(&recording, "combine", 40);
    recording.end();
    recording.run(rig).unwrap();
    recording.run(rig).unwrap();
    end(rig).unwrap();
    assert_eq!(sink.ended(), [Code::OK]);

    let events: Vec<DispatchEvent> = sink.records("dispatch-events");
    let groups = [5, 200, 40, 200, 40];
    assert_eq!(events.iter().map(|event| event.workgroup_count[0]).collect::<Vec<_>>(), groups);
    let loads: Vec<LoadRecord> = sink.records("executable-code-object-loads");
    assert_eq!(sink.chunks("executable-code-objects").len(), 1);
    let traces = traces(&sink);
    assert_eq!(traces.len(), groups.len());
    for (number, ((record, trace), groups)) in traces.iter().zip(groups).enumerate() {
        let event = events.iter().find(|event| event.event_id == record.dispatch_event_id).expect("its dispatch");
        assert_eq!(event.workgroup_count[0], groups);
        assert_eq!((record.submission_id, record.command_buffer_id), (event.submission_id, event.command_buffer_id));
        assert_eq!((record.executable_id, record.function_ordinal), (event.executable_id, event.function_ordinal));
        assert_eq!((record.command_index, record.trace_id), (event.command_index, number as u64 + 1));
        assert_eq!((record.format, record.shader_engine), (1, 0));
        assert_eq!(record.flags, if event.command_buffer_id == 0 { 0b01 } else { 0b11 });
        let found = read(trace);
        let load = loads.iter().find(|load| load.executable_id == record.executable_id).expect("it is loaded");
        assert_eq!(found.code_objects(), [(load.code_object_id, load.load_delta as u64, load.load_size)]);
        let expected = (groups.div_ceil(engines) * waves) as usize;
        assert_eq!((found.starts, found.ends), (expected, expected), "{groups} workgroups");
        // Few workgroups do not reach the unit whose instructions are traced.
        assert_eq!(found.instructions.is_empty(), groups < detailed, "{groups} workgroups: {:?}", found.instructions);
    }
}

#[test]
fn launches_are_traced_on_gfx1100() {
    passes_alone("launches_are_traced_on_gfx1100", "gfx1100", || {
        check(GFX1100, 6, 2, 109, |trace| {
            let found = read_gfx11(trace, 3);
            let kind = |kind| found.instructions.get(&kind).copied().unwrap_or(0);
            // Scalar memory, scalar, and vector instructions; of these most.
            let counts = [kind(1), kind(0), kind(100)];
            assert!(counts == [0; 3] || counts[0] > 0 && counts[1] < counts[2], "{:?}", found.instructions);
            found
        });
    });
}

#[test]
fn launches_are_traced_on_gfx1201() {
    passes_alone("launches_are_traced_on_gfx1201", "gfx1201", || {
        check(GFX1201, 4, 2, 73, |trace| read_gfx11(trace, 4))
    });
}

#[test]
fn launches_are_traced_on_gfx942() {
    passes_alone("launches_are_traced_on_gfx942", "gfx942", || check(GFX942, 32, 1, 33, |trace| read_gfx9(trace, 0)));
}

/// The kernel that takes the workgroups over is not the dispatch's; counters go with traces.
#[test]
fn a_dispatch_with_indirect_counts_is_traced_alone() {
    passes_alone("a_dispatch_with_indirect_counts_is_traced_alone", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let rig = &bench.rig;
        let (_groups, config) = indirect_workgroups(rig, 7);
        let flags = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;
        let (constants, bindings, done) = (bench.constants(), bench.bindings("combine"), rig.semaphore());
        let kernel = (&bench.kernels, "combine");
        let recording = Recording::begin(rig, Mode::Reusable, 0);
        recording.dispatch(kernel, config, &constants, &bindings, flags).unwrap();
        bench.record(&recording, "combine", 13);
        recording.end();
        let name = strings::view("SQ_WAVES");
        // SAFETY: all-zero is a selection of nothing.
        let mut selection: raw::iree_hal_profile_counter_set_selection_t = unsafe { std::mem::zeroed() };
        (selection.counter_name_count, selection.counter_names) = (1, &raw const name);
        sink.begin_options(rig, TRACES | SAMPLES, |options| {
            functions(&mut options.capture_filter, "combine");
            (options.counter_set_count, options.counter_sets) = (1, &raw const selection);
        })
        .unwrap();
        rig.dispatch_with(1, &[], &[(&done, 1)], kernel, config, &constants, &bindings, flags).unwrap();
        wait(&done, 1).unwrap();
        recording.run(rig).unwrap();
        end(rig).unwrap();
        let starts: Vec<_> = traces(&sink).iter().map(|(_, trace)| read_gfx11(trace, 3).starts).collect();
        assert_eq!(starts, [4, 4, 6]);
        assert_eq!(
            sink.chunks("counter-samples").iter().map(|chunk| chunk.bytes.len()).sum::<usize>(),
            3 * (112 + 48 * 8)
        );
    });
}

#[test]
fn filters_choose_gpus_queues_and_commands() {
    passes_alone("filters_choose_gpus_queues_and_commands", "gfx1100,gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let rig = &bench.rig;
        let run_all = || [1, 2, 4, 8].into_iter().for_each(|queue| bench.run_on(queue, "combine", 1));
        sink.begin_with(rig, TRACES, |filter| {
            filter.flags = raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_PHYSICAL_DEVICE_ORDINAL;
            filter.physical_device_ordinal = 1;
        })
        .unwrap();
        run_all();
        end(rig).unwrap();
        let places: Vec<_> =
            traces(&sink).iter().map(|(of, _)| (of.physical_device_ordinal, of.queue_ordinal)).collect();
        // All work of a GPU goes to its first queue.
        assert_eq!(places, [(1, 0), (1, 0)]);
        for (record, trace) in traces(&sink) {
            let loads: Vec<LoadRecord> = sink.records("executable-code-object-loads");
            let of = |load: &&LoadRecord| load.physical_device_ordinal == record.physical_device_ordinal;
            let load = loads.iter().find(of).unwrap();
            assert_eq!(read_gfx11(&trace, 3).code_objects()[0].1, load.load_delta as u64);
        }

        let sink = Sink::new();
        sink.begin_with(rig, TRACES, |filter| {
            filter.flags = raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_COMMAND_INDEX;
            filter.command_index = 1;
        })
        .unwrap();
        let recording = Recording::begin(rig, Mode::OneShot, 0);
        (1..=3).for_each(|groups| bench.record(&recording, "combine", 6 * groups));
        recording.end();
        recording.run(rig).unwrap();
        run_all();
        end(rig).unwrap();
        let found: Vec<_> =
            traces(&sink).iter().map(|(of, trace)| (of.command_index, read_gfx11(trace, 3).starts)).collect();
        assert_eq!(found, [(1, 4)]);
    });
}

#[test]
fn more_traces_than_there_is_memory_for_fail_the_session() {
    passes_alone("more_traces_than_there_is_memory_for_fail_the_session", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        (0..65).for_each(|_| bench.record(&recording, "gather", 1));
        recording.end();
        sink.begin_with(&bench.rig, TRACES, |filter| functions(filter, "gather")).unwrap();
        // One after another there are as many as one likes.
        (0..70).for_each(|_| bench.run("gather", 1));
        flush(&bench.rig).unwrap();
        assert_eq!(traces(&sink).len(), 70);
        recording.run(&bench.rig).unwrap();
        let status = end(&bench.rig).expect_err("too many at a time");
        assert_eq!(status.code(), Code::RESOURCE_EXHAUSTED, "{status}");
        assert!(status.to_string().contains("more than 64 launches would be traced"), "{status}");
        // The work was done all the same, and told of.
        assert_eq!(sink.records::<DispatchEvent>("dispatch-events").len(), 70 + 65);
    });
}

#[test]
fn traces_of_everything_are_refused() {
    passes_alone("traces_of_everything_are_refused", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let status = sink.begin(&bench.rig, TRACES).expect_err("there is no filter");
        assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
        assert!(status.to_string().contains("--device_profiling_filter_*"), "{status}");
        let status = sink.begin_with(&bench.rig, TRACES, |filter| {
            filter.flags = raw::IREE_HAL_PROFILE_CAPTURE_FILTER_FLAG_QUEUE_ORDINAL;
            filter.queue_ordinal = 1;
        });
        let status = status.expect_err("nothing runs there");
        assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
        assert!(status.to_string().contains("a filter for queue 1 of a GPU chooses nothing"), "{status}");
        assert_eq!(sink.seen.lock().unwrap().begun, 0);
        // The device can still be profiled.
        sink.begin_with(&bench.rig, TRACES, |filter| functions(filter, "*")).unwrap();
        bench.run("gather", 1);
        end(&bench.rig).unwrap();
        assert_eq!(traces(&sink).len(), 1);
    });
}

#[test]
fn a_gpu_without_traces_is_named() {
    passes_alone("a_gpu_without_traces_is_named", "gfx1030", || {
        let (bench, sink) = (Bench::new(GFX1030, &[]), Sink::new());
        let begun = sink.begin_with(&bench.rig, TRACES, |filter| functions(filter, "*"));
        let text = begun.expect_err("no traces").to_string();
        assert!(text.contains("the thread traces of gfx1030 are not known"), "{text}");
        assert_eq!(sink.seen.lock().unwrap().begun, 0);
    });
}

#[test]
fn without_the_library_nothing_is_traced() {
    passes_alone("without_the_library_nothing_is_traced", "gfx1100", || {
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        // SAFETY: this process has one test; the driver's threads do not look at the environment.
        unsafe { std::env::set_var(PATH_VARIABLE, "/nowhere") };
        let status = sink.begin_with(&bench.rig, TRACES, |filter| functions(filter, "*")).expect_err("no library");
        assert_eq!(status.code(), Code::NOT_FOUND, "{status}");
        assert!(status.to_string().contains("executable traces need ROCm's aqlprofile library"), "{status}");
    });
}
