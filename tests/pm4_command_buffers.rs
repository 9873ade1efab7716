// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recordings as PM4 streams: `src/core/program/stream.rs`.

#[path = "support/costs.rs"]
mod counting;
#[path = "support/hold.rs"]
mod hold;
#[path = "soak/kernels.rs"]
#[allow(dead_code, reason = "the soak uses more")]
mod kernels;
#[path = "support/sink.rs"]
mod sink;
#[path = "support/streams.rs"]
mod streams;
mod support;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, iree, raw};
use counting::count;
use hold::{GFX942, GFX1100, Hold, pass_time};
use sink::{Sink, end};
use streams::{Bench, COUNT, PM4, assert_is_packets, assert_is_stream, groups, on_each, slot, whole};
use support::recording::{Mode, Recording, direct, indirect};
use support::{Rig, failure, passes_alone, wait, workgroups};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

#[test]
fn known_dispatches_are_one_packet() {
    on_each("known_dispatches_are_one_packet", || {
        let bench = Bench::new(PM4);
        let (x, y, z) = (bench.buffer(|i| i), bench.buffer(|i| 7 * i), bench.buffer(|_| 0));
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        bench.combine(&recording, [whole(&z), whole(&x), whole(&y)], 3);
        for factor in 1..6 {
            recording.barrier();
            bench.combine(&recording, [whole(&x), whole(&z), whole(&y)], factor);
            recording.barrier();
            recording.copy(whole(&x), whole(&z)).unwrap();
        }
        recording.barrier();
        recording.fill(direct(&y, 0, 40), 9).unwrap();
        recording.end();
        let (mut expected, mut other) = ((0..COUNT as u32).collect::<Vec<_>>(), Vec::new());
        other.extend((0..COUNT as u32).map(|i| 7 * i));
        let done = bench.rig.semaphore();
        for round in 1..=3 {
            let submit = || recording.execute(&bench.rig, QUEUE_AFFINITY_ANY, &[], &[(&done, round)], &[]).unwrap();
            assert_is_stream(&count(submit, || wait(&done, round).unwrap()), false);
            let step = |factor: u32, z: u32, y: u32| z.wrapping_mul(factor).wrapping_add(y);
            for (x, y) in expected.iter_mut().zip(&mut other) {
                *x = (1..6).fold(step(3, *x, *y), |z, factor| step(factor, z, *y));
            }
            other[..10].fill(0x0909_0909);
            assert_eq!(bench.numbers(&z), expected, "round {round}");
            assert_eq!(bench.numbers(&y), other, "round {round}");
        }
    });
}

/// Each execution has its own table, and the next one is submitted while that is under way.
#[test]
fn tables_are_bound_by_each_execution() {
    on_each("tables_are_bound_by_each_execution", || {
        let bench = Bench::new(PM4);
        const ROUNDS: usize = 12;
        let sources: Vec<_> = (0..ROUNDS as u32).map(|round| bench.buffer(|i| 1000 * round + i)).collect();
        let targets: Vec<_> = (0..ROUNDS).map(|_| bench.buffer(|_| 0)).collect();
        let between = bench.buffer(|_| 0);
        // Slot 1 is unused; one argument is known.
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 4);
        bench.combine(&recording, [whole(&between), slot(0), slot(2)], 2);
        recording.barrier();
        bench.combine(&recording, [slot(3), whole(&between), whole(&between)], 3);
        recording.end();
        let done = bench.rig.semaphore();
        let submit = || {
            for round in 0..ROUNDS {
                let (a, b) = (&sources[round], &sources[(round + 1) % ROUNDS]);
                let all = 4 * COUNT;
                let table = [(a, 0, all), (a, 0, all), (b, 0, all), (&targets[round], 0, all)];
                let signals = [(&done, round as u64 + 1)];
                recording.execute(&bench.rig, 1, &[], &signals, &table).unwrap();
            }
        };
        let counted = count(submit, || wait(&done, ROUNDS as u64).unwrap());
        assert_eq!(counted.get("pm4_ib_packets"), Some(&(ROUNDS as u64)), "{counted:?}");
        assert_eq!(counted.get("dispatch_packets"), Some(&(ROUNDS as u64)), "{counted:?}");
        for (round, target) in targets.iter().enumerate() {
            let (a, b) = (1000 * round as u32, 1000 * ((round + 1) % ROUNDS) as u32);
            let expected: Vec<_> = (0..COUNT as u32).map(|i| 4 * (2 * (a + i) + b + i)).collect();
            assert_eq!(bench.numbers(target), expected, "round {round}");
        }
    });
}

/// A binding has an offset, and so has the range of it that a command uses.
#[test]
fn offsets_of_bindings_and_commands_add_up() {
    on_each("offsets_of_bindings_and_commands_add_up", || {
        let bench = Bench::new(PM4);
        let (source, target) = (bench.buffer(|i| i), bench.buffer(|_| 0));
        let recording = Recording::begin(&bench.rig, Mode::Unvalidated, 2);
        let of = |slot, offset| indirect(slot, offset, 40);
        let constants: Vec<u8> = [1_u32, 10].iter().flat_map(|word| word.to_le_bytes()).collect();
        let bindings = [of(1, 80), of(0, 16), of(0, 16)];
        recording.dispatch((&bench.executable, "combine"), groups(), &constants, &bindings, 0).unwrap();
        recording.end();
        let done = bench.rig.semaphore();
        let submit = || {
            let table = [(&source, 400, 300), (&target, 80, 200)];
            recording.execute(&bench.rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &table).unwrap();
        };
        assert_is_stream(&count(submit, || wait(&done, 1).unwrap()), true);
        let mut expected = vec![0; COUNT];
        for (i, number) in expected[40..50].iter_mut().enumerate() {
            *number = 2 * (104 + i as u32);
        }
        assert_eq!(bench.numbers(&target), expected);
        let table = [(&source, 400, 300), (&target, 80, 100)];
        let refused = recording.execute(&bench.rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 2)], &table);
        assert!(refused.is_ok(), "the command's own end is what the kernel keeps to");
        wait(&done, 2).unwrap();
        let table = [(&source, 400, 10), (&target, 80, 100)];
        let refused = recording.execute(&bench.rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 3)], &table);
        assert_eq!(refused.expect_err("a binding that ends before the command's").code(), Code::OUT_OF_RANGE);
    });
}

/// While one queue runs a stream whose table it binds, another one runs the recording as packets.
#[test]
fn another_queue_runs_packets_meanwhile() {
    for agents in ["gfx1100", "gfx942:partitions=8"] {
        let alone = passes_alone("another_queue_runs_packets_meanwhile", agents, || {
            let bench = Bench::new(PM4);
            let holders = if kernels::agents().starts_with("gfx942") { GFX942 } else { GFX1100 };
            let (source, first, second) = (bench.buffer(|i| i), bench.buffer(|_| 0), bench.buffer(|_| 0));
            let recording = Recording::begin(&bench.rig, Mode::Reusable, 2);
            bench.combine(&recording, [slot(1), slot(0), slot(0)], 4);
            recording.end();
            let (done, other) = (bench.rig.semaphore(), bench.rig.semaphore());
            let all = 4 * COUNT;
            let run = |queue, signal, value, target| {
                let table = [(&source, 0, all), (target, 0, all)];
                recording.execute(&bench.rig, queue, &[], &[(signal, value)], &table).unwrap();
            };
            let expected: Vec<_> = (0..COUNT as u32).map(|i| 5 * i).collect();
            {
                let held = bench.rig.semaphore();
                let _hold = Hold::new(&bench.rig, holders, 1, &[(&held, 1)]);
                let counted = count(
                    || {
                        run(1, &done, 1, &first);
                        run(2, &other, 1, &second);
                    },
                    || {
                        wait(&other, 1).unwrap();
                        pass_time(&bench.rig, 2);
                        assert_eq!(done.borrow().query().unwrap(), 0, "the first queue is held");
                    },
                );
                assert_eq!(counted.get("pm4_commands"), None, "the other queue's are packets: {counted:?}");
                assert_eq!(bench.numbers(&second), expected);
                assert_eq!(bench.numbers(&first), vec![0; COUNT]);
            }
            wait(&done, 1).unwrap();
            assert_eq!(bench.numbers(&first), expected);
            // When that is over, it has the stream.
            let counted = count(|| run(2, &other, 2, &first), || wait(&other, 2).unwrap());
            assert_is_stream(&counted, true);
        });
        if alone.is_none() {
            return;
        }
    }
}

/// A recording without a table may have any number of executions at a time, on any queues.
#[test]
fn all_queues_run_what_binds_nothing() {
    on_each("all_queues_run_what_binds_nothing", || {
        let bench = Bench::new(PM4);
        let (source, target) = (bench.buffer(|i| i), bench.buffer(|_| 0));
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        bench.combine(&recording, [whole(&target), whole(&source), whole(&source)], 4);
        recording.end();
        let (done, other) = (bench.rig.semaphore(), bench.rig.semaphore());
        let submit = || {
            for value in 1..=8 {
                recording.execute(&bench.rig, 1, &[], &[(&done, value)], &[]).unwrap();
                recording.execute(&bench.rig, 2, &[], &[(&other, value)], &[]).unwrap();
            }
        };
        let counted = count(submit, || {
            wait(&done, 8).unwrap();
            wait(&other, 8).unwrap();
        });
        assert_eq!((counted.get("pm4_ib_packets"), counted.get("dispatch_packets")), (Some(&16), None), "{counted:?}");
        assert_eq!(bench.numbers(&target), (0..COUNT as u32).map(|i| 5 * i).collect::<Vec<_>>());
    });
}

#[test]
fn ten_thousand_dispatches_are_one_packet() {
    for agents in ["gfx1100", "gfx90a"] {
        let alone = passes_alone("ten_thousand_dispatches_are_one_packet", agents, || {
            const DISPATCHES: usize = 10_000;
            let bench = Bench::new(PM4);
            let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
            for is_bound in [false, true] {
                let recording = Recording::begin(&bench.rig, Mode::Reusable, 2);
                let targets = if is_bound { [slot(0), slot(0), slot(1)] } else { [whole(&x), whole(&x), whole(&y)] };
                for _ in 0..DISPATCHES {
                    bench.combine(&recording, targets, 1);
                    recording.barrier();
                }
                recording.end();
                let done = bench.rig.semaphore();
                let table = [(&x, 0, 4 * COUNT), (&y, 0, 4 * COUNT)];
                let table = &table[..if is_bound { 2 } else { 0 }];
                let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, 1)], table).unwrap();
                assert_is_stream(&count(submit, || wait(&done, 1).unwrap()), is_bound);
            }
            let expected: Vec<_> = (0..COUNT as u32).map(|i| i + 2 * DISPATCHES as u32).collect();
            assert_eq!(bench.numbers(&x), expected);
        });
        if alone.is_none() {
            return;
        }
    }
}

/// Memory of a stream and of its buffers stays until executions are over. The next stream may get the same memory.
#[test]
fn streams_outlive_their_command_buffers() {
    on_each("streams_outlive_their_command_buffers", || {
        let bench = Bench::new(PM4);
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        let done = bench.rig.semaphore();
        for value in 1..=20 {
            let recording = Recording::begin(&bench.rig, Mode::Reusable, 1);
            bench.combine(&recording, [slot(0), slot(0), whole(&y)], 1);
            recording.barrier();
            bench.combine(&recording, [slot(0), slot(0), whole(&y)], value as u32 % 3);
            recording.end();
            let waits = [(&done, value - 1)];
            let table = [(&x, 0, 4 * COUNT)];
            recording.execute(&bench.rig, 1, &waits[..usize::from(value > 1)], &[(&done, value)], &table).unwrap();
        }
        wait(&done, 20).unwrap();
        let step = |number: u32, value: u32| (number + 1).wrapping_mul(value % 3).wrapping_add(1);
        let expected: Vec<_> = (0..COUNT as u32).map(|i| (1..=20).fold(i, step)).collect();
        assert_eq!(bench.numbers(&x), expected);
    });
}

/// The memory of a stream that is over is copied to for the next one. Whatever the GPU's L2 has of it, each execution
/// acquires from the system before its commands are read.
#[test]
fn copied_streams_are_run_from_the_gpus_memory() {
    on_each("copied_streams_are_run_from_the_gpus_memory", || {
        for mode in ["host-async-copy", "host-async-copy-nonblocking"] {
            let bench = Bench::new(&[PM4[0], ("pm4_command_buffer_publication_mode", mode)]);
            let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
            let mut expected: Vec<_> = (0..COUNT as u32).collect();
            let table = [(&x, 0, 4 * COUNT)];
            for round in 0..12 {
                let is_bound = round % 3 == 2;
                let target = if is_bound { slot(0) } else { whole(&x) };
                let recording = Recording::begin(&bench.rig, Mode::Reusable, 1);
                bench.combine(&recording, [target, target, whole(&y)], round % 4);
                recording.barrier();
                bench.combine(&recording, [target, target, whole(&y)], 3);
                recording.end();
                let done = bench.rig.semaphore();
                for value in 1..=2 {
                    let submit = || {
                        let table = &table[..usize::from(is_bound)];
                        recording.execute(&bench.rig, 1, &[], &[(&done, value)], table).unwrap();
                    };
                    let counted = count(submit, || wait(&done, value).unwrap());
                    let counts =
                        ["pm4_ib_packets", "dispatch_packets", "barrier_packets"].map(|name| counted.get(name));
                    let (bind, acquire) = if is_bound { (Some(&1), None) } else { (None, Some(&1)) };
                    assert_eq!(counts, [Some(&1), bind, acquire], "{mode}: {counted:?}");
                    assert_eq!(counted.get("acquires_system"), Some(&1), "{mode}: {counted:?}");
                    assert_eq!(counted.get("acquires_none"), None, "{mode}: {counted:?}");
                    for number in &mut expected {
                        *number = (*number).wrapping_mul(round % 4).wrapping_add(1).wrapping_mul(3).wrapping_add(1);
                    }
                    assert_eq!(bench.numbers(&x), expected, "{mode}, round {round}");
                }
            }
        }
    });
}

/// Executions wait for copies that have just begun, and so do recordings that go without one.
#[test]
fn copies_that_have_just_begun_are_waited_for() {
    on_each("copies_that_have_just_begun_are_waited_for", || {
        let mode = ("pm4_command_buffer_publication_mode", "host-async-copy-nonblocking");
        let bench = Bench::new(&[PM4[0], mode]);
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        let done = bench.rig.semaphore();
        let mut expected: Vec<_> = (0..COUNT as u32).collect();
        for round in 0..100 {
            let [_, recording] = [7, round].map(|factor| {
                let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
                for _ in 0..1 + round % 5 {
                    bench.combine(&recording, [whole(&x), whole(&x), whole(&y)], factor);
                    recording.barrier();
                }
                recording.end();
                recording
            });
            let value = u64::from(round) + 1;
            recording.execute(&bench.rig, 1, &[], &[(&done, value)], &[]).unwrap();
            // So that the next one begins at once.
            wait(&done, value).unwrap();
            for number in &mut expected {
                *number = (0..1 + round % 5).fold(*number, |number, _| number.wrapping_mul(round).wrapping_add(1));
            }
        }
        assert_eq!(bench.numbers(&x), expected);
    });
}

/// On a GPU that has faulted no copy completes: the recording or its execution fails, and nothing waits for ever.
#[test]
fn copies_end_with_their_gpu() {
    passes_alone("copies_end_with_their_gpu", "gfx1100", || {
        let modes = ["host-async-copy", "host-async-copy-nonblocking"];
        let benches = modes.map(|mode| Bench::new(&[PM4[0], ("pm4_command_buffer_publication_mode", mode)]));
        let recordings = benches.each_ref().map(|bench| {
            let (x, recording) = (bench.buffer(|i| i), Recording::begin(&bench.rig, Mode::Reusable, 0));
            bench.combine(&recording, [whole(&x), whole(&x), whole(&x)], 1);
            recording
        });
        let (rig, far) = (&benches[0].rig, (1_i64 << 40).to_le_bytes());
        let (faults, target, fault) = (rig.executable(FAULTS).unwrap(), rig.buffer(4), rig.semaphore());
        rig.dispatch(1, &[], &[(&fault, 1)], (&faults, "write_at"), &far, &[&target]).unwrap();
        assert_eq!(failure(&fault, 1).code(), Code::DATA_LOSS);
        // SAFETY: live command buffers.
        let [waited_for, begun] = recordings
            .each_ref()
            .map(|recording| unsafe { iree!(raw::iree_hal_command_buffer_end(recording.as_ptr())) });
        let text = waited_for.expect_err("nothing is copied").to_string();
        assert!(text.contains("were not copied: GPU memory access fault"), "{text}");
        begun.expect("nobody has waited yet");
        let (bench, done) = (&benches[1], benches[1].rig.semaphore());
        assert!(recordings[1].execute(&bench.rig, 1, &[], &[(&done, 1)], &[]).is_err(), "a GPU that has ended");
    });
}

#[test]
fn a_stream_that_is_not_copied_fails_its_recording() {
    on_each("a_stream_that_is_not_copied_fails_its_recording", || {
        // SAFETY: nothing else runs in this process while there is no device.
        unsafe { std::env::set_var("HSA_SIM_FAIL", "hsa_amd_memory_async_copy:1") };
        let mode = ("pm4_command_buffer_publication_mode", "host-async-copy-nonblocking");
        let bench = Bench::new(&[PM4[0], mode]);
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        bench.combine(&recording, [whole(&x), whole(&x), whole(&y)], 1);
        // SAFETY: a live command buffer.
        let failed = unsafe { iree!(raw::iree_hal_command_buffer_end(recording.as_ptr())) }.expect_err("no copy");
        let text = failed.to_string();
        assert!(text.contains("hsa_amd_memory_async_copy failed") && text.contains("publishing a PM4"), "{text}");
        // The next one is copied.
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        bench.combine(&recording, [whole(&x), whole(&x), whole(&y)], 1);
        recording.end();
        let done = bench.rig.semaphore();
        recording.execute(&bench.rig, 1, &[], &[(&done, 1)], &[]).unwrap();
        wait(&done, 1).unwrap();
        assert_eq!(bench.numbers(&x), (1..=COUNT as u32).collect::<Vec<_>>());
    });
}

/// A profile has each dispatch with its times, as packets have them; before and behind it the recording is a stream, as
/// it is under profiles that have nothing of packets.
#[test]
fn profiles_see_packets() {
    on_each("profiles_see_packets", || {
        let bench = Bench::new(PM4);
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 1);
        for _ in 0..5 {
            bench.combine(&recording, [slot(0), slot(0), whole(&y)], 1);
            recording.barrier();
        }
        recording.end();
        let done = bench.rig.semaphore();
        let run = |value| {
            let table = [(&x, 0, 4 * COUNT)];
            let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, value)], &table).unwrap();
            count(submit, || wait(&done, value).unwrap())
        };
        assert_is_stream(&run(1), true);
        let sink = Sink::new();
        sink.begin(&bench.rig, raw::IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS).unwrap();
        assert_is_packets(&run(2), 5);
        end(&bench.rig).unwrap();
        let events: Vec<raw::iree_hal_profile_dispatch_event_t> = sink.records("dispatch-events");
        assert_eq!(events.len(), 5);
        assert!(events.iter().all(|event| event.start_tick != 0 && event.end_tick >= event.start_tick));
        assert_is_stream(&run(3), true);
        // Of the whole execution, and of none: these profiles have nothing of packets.
        let operations = [
            (raw::IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS, 1),
            (raw::IREE_HAL_DEVICE_PROFILING_DATA_MEMORY_EVENTS, 0),
        ];
        for (value, (families, count)) in (4..).zip(operations) {
            let sink = Sink::new();
            sink.begin(&bench.rig, families).unwrap();
            assert_is_stream(&run(value), true);
            end(&bench.rig).unwrap();
            let events: Vec<raw::iree_hal_profile_queue_event_t> = sink.records("queue-events");
            assert_eq!(events.iter().map(|event| event.operation_count).collect::<Vec<_>>(), vec![5; count]);
        }
        assert_eq!(bench.numbers(&x), (0..COUNT as u32).map(|i| i + 25).collect::<Vec<_>>());
    });
}

/// A recording with an operation that streams do not support is recorded as packets as a whole.
#[test]
fn what_no_stream_has_is_packets() {
    on_each("what_no_stream_has_is_packets", || {
        let bench = Bench::new(PM4);
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS;
        let counts = bench.rig.buffer_for(usage, 12);
        let bytes: Vec<u8> = [COUNT.div_ceil(64) as u32, 1, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
        bench.rig.write(&counts, 0, &bytes);
        let all = 4 * COUNT;
        type Record<'a> = &'a dyn Fn(&Recording);
        let cases: [(&str, Mode, Record<'_>, u64); 5] = [
            ("one-shot", Mode::OneShot, &|_| {}, 1),
            ("a fill of a slot", Mode::Reusable, &|recording| recording.fill(slot(0), 0).unwrap(), 2),
            ("a copy of a slot", Mode::Reusable, &|recording| recording.copy(slot(0), whole(&y)).unwrap(), 2),
            (
                "an update",
                Mode::Reusable,
                &|recording| {
                    let bytes = [0_u8; 16];
                    // SAFETY: live objects; the bytes are captured during the call.
                    unsafe {
                        amdgpu_rs::ffi::iree!(raw::iree_hal_command_buffer_update_buffer(
                            recording.as_ptr(),
                            bytes.as_ptr().cast(),
                            0,
                            direct(&y, 0, 16),
                            0
                        ))
                    }
                    .unwrap();
                },
                2,
            ),
            (
                "workgroup counts in a buffer",
                Mode::Reusable,
                &|recording| {
                    let mut config = groups();
                    config.workgroup_count_ref = direct(&counts, 0, 12);
                    let constants: Vec<u8> = [1, COUNT as u32].iter().flat_map(|word| word.to_le_bytes()).collect();
                    let flags = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;
                    let bindings = [whole(&y), whole(&y), whole(&y)];
                    let combine = (&bench.executable, "combine");
                    recording.dispatch(combine, config, &constants, &bindings, flags).unwrap();
                },
                3,
            ),
        ];
        for (what, mode, record, packets) in cases {
            let recording = Recording::begin(&bench.rig, mode, 1);
            bench.combine(&recording, [slot(0), slot(0), slot(0)], 1);
            recording.barrier();
            record(&recording);
            recording.end();
            let done = bench.rig.semaphore();
            let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, 1)], &[(&x, 0, all)]).unwrap();
            let counted = count(submit, || wait(&done, 1).unwrap());
            println!("{what}");
            assert_is_packets(&counted, packets);
        }
    });
}

/// A kernel that wants its packet's address goes by packets.
#[test]
fn kernels_that_want_their_packet_get_one() {
    passes_alone("kernels_that_want_their_packet_get_one", "gfx942:partitions=8", || {
        let rig = Rig::with(PM4);
        let executable = rig.executable(GFX942).unwrap();
        let target = rig.buffer(16);
        let done = rig.semaphore();
        for (value, name, is_stream) in [(1, "report", true), (2, "report_by_lane", false)] {
            let recording = Recording::begin(&rig, Mode::Reusable, 0);
            let constants = 7_u32.to_le_bytes();
            recording.dispatch((&executable, name), workgroups(2), &constants, &[direct(&target, 0, 16)], 0).unwrap();
            recording.end();
            let submit = || recording.execute(&rig, 1, &[], &[(&done, value)], &[]).unwrap();
            let counted = count(submit, || wait(&done, value).unwrap());
            if is_stream {
                assert_is_stream(&counted, false)
            } else {
                assert_is_packets(&counted, 1)
            }
            let expected: Vec<u8> = [7_u32, 2, 7, 2].iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(rig.read(&target, 0, 16), expected, "{name}");
            rig.write(&target, 0, &[0; 16]);
        }
    });
}

/// A kernel whose arguments are preloaded begins with code that loads them.
#[test]
fn preloaded_arguments_are_loaded() {
    // `testdata/soak.c`, built with `-mllvm -amdgpu-kernarg-preload-count=8`, too.
    const GFX90A: &[u8] = include_bytes!("testdata/preloading.gfx90a.co");
    const GFX942: &[u8] = include_bytes!("testdata/preloading.gfx942.co");
    for agents in ["gfx90a", "gfx942:partitions=8"] {
        let alone = passes_alone("preloaded_arguments_are_loaded", agents, || {
            let code = if kernels::agents() == "gfx90a" { GFX90A } else { GFX942 };
            let rig = Rig::with(PM4);
            let executable = rig.executable(code).unwrap();
            let bench = Bench { rig, executable };
            let (x, y) = (bench.buffer(|i| i), bench.buffer(|i| 5 * i));
            let recording = Recording::begin(&bench.rig, Mode::Reusable, 1);
            bench.combine(&recording, [whole(&x), whole(&x), whole(&y)], 2);
            recording.barrier();
            bench.combine(&recording, [slot(0), whole(&x), slot(0)], 3);
            recording.end();
            let done = bench.rig.semaphore();
            let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, 1)], &[(&y, 0, 4 * COUNT)]).unwrap();
            assert_is_stream(&count(submit, || wait(&done, 1).unwrap()), true);
            assert_eq!(bench.numbers(&x), (0..COUNT as u32).map(|i| 7 * i).collect::<Vec<_>>());
            assert_eq!(bench.numbers(&y), (0..COUNT as u32).map(|i| 26 * i).collect::<Vec<_>>());
        });
        if alone.is_none() {
            return;
        }
    }
}

/// `auto` takes streams where they were tried, for recordings that are long enough.
#[test]
fn auto_takes_what_was_tried_and_is_worth_it() {
    const EXPERIMENT: (&str, &str) = ("experimental_pm4_command_buffers", "true");
    // Whether it takes them without and with that.
    const CASES: [(&str, [bool; 2]); 6] = [
        ("gfx1100", [true, true]),
        ("gfx942:partitions=8", [true, true]),
        ("gfx942", [false, false]),
        ("gfx1201", [false, true]),
        ("gfx90a", [false, true]),
        ("gfx906", [false, false]),
    ];
    for (agents, takes) in CASES {
        let alone = passes_alone("auto_takes_what_was_tried_and_is_worth_it", agents, || {
            // In a process of its own.
            let own = CASES.iter().find(|(agents, _)| *agents == kernels::agents());
            let takes = own.map_or(takes, |(_, takes)| *takes);
            let options = [("command_buffer_mode", "auto"), EXPERIMENT];
            for (options, takes) in [(&options[..1], takes[0]), (&options, takes[1])] {
                let bench = Bench::new(options);
                let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
                for (dispatches, is_long) in [(2, false), (100, true)] {
                    let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
                    for _ in 0..dispatches {
                        bench.combine(&recording, [whole(&x), whole(&x), whole(&y)], 1);
                        recording.barrier();
                    }
                    recording.end();
                    let done = bench.rig.semaphore();
                    let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, 1)], &[]).unwrap();
                    let counted = count(submit, || wait(&done, 1).unwrap());
                    if takes && is_long {
                        assert_is_stream(&counted, false);
                    } else {
                        assert_is_packets(&counted, dispatches);
                    }
                }
                assert_eq!(bench.numbers(&x), (0..COUNT as u32).map(|i| i + 102).collect::<Vec<_>>());
            }
        });
        if alone.is_none() {
            return;
        }
    }
}

/// Recordings for whose stream there is no memory are packets, and the reason is told, once.
#[test]
fn without_memory_for_streams_there_are_packets() {
    let name = "without_memory_for_streams_there_are_packets";
    let said = passes_alone(name, "gfx1100", || {
        let none = [("device_block_pool_small_capacity", "1000000000000"), ("preallocate_pools", "false")];
        let bench = Bench::new(&[PM4, &none].concat());
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        for _ in 0..2 {
            // Without a table there is no memory for the packets' kernargs, either.
            let recording = Recording::begin(&bench.rig, Mode::Reusable, 1);
            bench.combine(&recording, [slot(0), slot(0), whole(&y)], 1);
            recording.end();
            let done = bench.rig.semaphore();
            let table = [(&x, 0, 4 * COUNT)];
            let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, 1)], &table).unwrap();
            assert_is_packets(&count(submit, || wait(&done, 1).unwrap()), 1);
        }
        assert_eq!(bench.numbers(&x), (0..COUNT as u32).map(|i| i + 2).collect::<Vec<_>>());
    });
    let Some(said) = said else { return };
    let told = "amdgpu_rs: a command buffer is AQL packets, as there is no PM4 stream for it: ";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    assert!(said.contains("(device_block_pool_*)"), "{said}");
}

/// GPUs that have no streams say so when they are asked for.
#[test]
fn a_gpu_without_streams_refuses_them() {
    for (agents, text) in [
        ("gfx906", "option command_buffer_mode=pm4 on gfx906: there are PM4 command buffers on gfx90a, gfx942"),
        ("gfx1030", "option command_buffer_mode=pm4 on gfx1030"),
        ("gfx942", "option command_buffer_mode=pm4 on gfx942: this partition has 8 dies"),
    ] {
        let alone = passes_alone("a_gpu_without_streams_refuses_them", agents, || {
            let Err(refused) = Rig::open("", PM4) else { panic!("it has a device") };
            assert_eq!(refused.code(), Code::UNIMPLEMENTED, "{refused}");
            eprintln!("{refused}");
        });
        let Some(said) = alone else { return };
        assert!(said.contains(text), "{said}");
    }
}

/// Executions that wait for room in the rings have the stream for when there is some.
#[test]
fn streams_wait_for_room() {
    on_each("streams_wait_for_room", || {
        let small = [("aql_queue_capacity", "64"), ("kernarg_capacity", "128"), ("notification_capacity", "2")];
        let bench = Bench::new(&[PM4, &small].concat());
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|i| 3 * i));
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 20);
        bench.combine(&recording, [slot(0), slot(0), slot(19)], 1);
        recording.end();
        let done = bench.rig.semaphore();
        let mut table = vec![(&x, 0, 4 * COUNT); 20];
        const EXECUTIONS: u64 = 200;
        let counted = count(
            || {
                for value in 1..=EXECUTIONS {
                    table[19].0 = if value.is_multiple_of(2) { &x } else { &y };
                    let waits = [(&done, value - 1)];
                    let waits = &waits[..usize::from(value > 1)];
                    recording.execute(&bench.rig, 1, waits, &[(&done, value)], &table).unwrap();
                }
            },
            || wait(&done, EXECUTIONS).unwrap(),
        );
        assert_eq!(counted.get("pm4_ib_packets"), Some(&EXECUTIONS), "{counted:?}");
        let step =
            |value: u64, number: u32, y: u32| number.wrapping_add(if value.is_multiple_of(2) { number } else { y });
        let expected: Vec<_> =
            (0..COUNT as u32).map(|i| (1..=EXECUTIONS).fold(i, |number, value| step(value, number, 3 * i))).collect();
        assert_eq!(bench.numbers(&x), expected);
    });
}

/// A table that the ring of kernel arguments has no room for goes with the packets.
#[test]
fn a_table_larger_than_the_ring_is_packets() {
    passes_alone("a_table_larger_than_the_ring_is_packets", "gfx1100", || {
        let options = [PM4[0], ("aql_queue_capacity", "64"), ("kernarg_capacity", "128")];
        let bench = Bench::new(&options);
        let (x, y) = (bench.buffer(|i| i), bench.buffer(|_| 1));
        for (slots, is_stream) in [(8, true), (1500, false)] {
            let recording = Recording::begin(&bench.rig, Mode::Reusable, slots);
            bench.combine(&recording, [slot(slots as u32 - 1), slot(0), whole(&y)], 1);
            recording.end();
            let done = bench.rig.semaphore();
            let table: Vec<_> = (0..slots).map(|_| (&x, 0, 4 * COUNT)).collect();
            let submit = || recording.execute(&bench.rig, 1, &[], &[(&done, 1)], &table).unwrap();
            let counted = count(submit, || wait(&done, 1).unwrap());
            if is_stream { assert_is_stream(&counted, true) } else { assert_is_packets(&counted, 1) }
        }
        assert_eq!(bench.numbers(&x), (0..COUNT as u32).map(|i| i + 2).collect::<Vec<_>>());
    });
}
