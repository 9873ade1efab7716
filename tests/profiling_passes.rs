// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware counters that the hardware does not count at once.

#[path = "support/counters.rs"]
mod counters;
#[path = "support/kernels.rs"]
mod kernels;
#[path = "support/sink.rs"]
mod sink;
mod support;

use std::collections::BTreeSet;

use amdgpu_rs::ffi::{Code, raw};
use counters::{begin, parts, samples, sums};
use kernels::{Bench, GFX1100, SAMPLES};
use raw::iree_hal_profile_counter_set_record_t as SetRecord;
use sink::{Sink, end, flush};
use support::passes_alone;
use support::recording::{Mode, Recording};

const RANGES: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES;

/// Has the GPUs count so many events at a time. For a process of one test that has no thread yet.
fn count_at_a_time(events: &str) {
    // SAFETY: this process has one test, and no thread that looks at the environment yet.
    unsafe { std::env::set_var("HSA_SIM_COUNTERS", events) };
}

/// The sets that a profile tells of.
fn sets(sink: &Sink) -> Vec<(u64, u32, u32, String)> {
    let sets = parts::<SetRecord>(sink, "counter-sets").into_iter();
    let text = |name| String::from_utf8(name).unwrap();
    sets.map(|(set, name)| (set.counter_set_id, set.counter_count, set.sample_value_count, text(name))).collect()
}

/// Each kernel's launches count one pass after another, recorded ones among them.
#[test]
fn counters_that_do_not_fit_are_counted_in_passes() {
    let said = passes_alone("counters_that_do_not_fit_are_counted_in_passes", "gfx1100", || {
        count_at_a_time("3");
        // SAFETY: this process has one test, and no thread that looks at the environment yet.
        unsafe { std::env::set_var("HSA_SIM_LEAKS", "1") };
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let first = ["SQ_WAVES", "SQ_INSTS_VALU", "SQ_INSTS_SALU"];
        let second = ["SQ_INSTS_SMEM", "SQ_INSTS_LDS", "SQ_WAVES_32"];
        let names = [&first[..], &second, &["SQ_WAVES_64", "SQ_BUSY_CYCLES"]].concat();
        begin(&sink, &bench.rig, SAMPLES, &[("", &names), ("mine", &["SQ_BUSY_CYCLES", "SQ_WAVES_64"])]).unwrap();
        for (kernel, groups) in
            [("gather", 1), ("combine", 5), ("gather", 1), ("combine", 6), ("combine", 7), ("gather", 1), ("gather", 1)]
        {
            bench.run(kernel, groups);
        }
        let recording = Recording::begin(&bench.rig, Mode::Reusable, 0);
        for (kernel, groups) in [("gather", 1), ("combine", 8), ("gather", 1)] {
            bench.record(&recording, kernel, groups);
        }
        recording.end();
        recording.run(&bench.rig).unwrap();
        end(&bench.rig).unwrap();
        assert_eq!(sink.ended(), [Code::OK]);

        let pass = |name: &str, pass: u32| format!("{name} (pass {pass} of 3)");
        let of_default = [(1, 3, 144, pass("amdgpu.pmc", 1)), (2, 3, 144, pass("amdgpu.pmc", 2))];
        let rest = [(3, 2, 96, pass("amdgpu.pmc", 3)), (4, 2, 96, pass("mine", 3))];
        assert_eq!(sets(&sink), [of_default, rest].concat());
        // Launches of `gather` and of 5 and 8 workgroups of `combine`; instructions of a wave of `gather`.
        assert_eq!(sums(&sink, 1, "SQ_WAVES"), [2, 10, 2, 16]);
        let of_gather = |set, name| -> Vec<u64> {
            let waves = if set == 1 { sums(&sink, 1, "SQ_WAVES") } else { sums(&sink, 2, "SQ_WAVES_32") };
            sums(&sink, set, name).into_iter().zip(waves).filter(|(_, waves)| *waves == 2).map(|(sum, _)| sum).collect()
        };
        assert_eq!((of_gather(1, "SQ_INSTS_VALU"), of_gather(1, "SQ_INSTS_SALU")), (vec![52, 52], vec![4, 4]));
        assert_eq!(sums(&sink, 2, "SQ_WAVES_32"), [2, 12, 2]);
        assert_eq!((of_gather(2, "SQ_INSTS_SMEM"), of_gather(2, "SQ_INSTS_LDS")), (vec![4, 4], vec![0, 0]));
        assert_eq!((sums(&sink, 3, "SQ_WAVES_64"), sums(&sink, 4, "SQ_WAVES_64")), (vec![0; 3], vec![0; 3]));
        for set in [3, 4] {
            assert!(sums(&sink, set, "SQ_BUSY_CYCLES").iter().all(|cycles| *cycles > 0));
        }
        // Each launch has the samples of one pass.
        let of_launches: Vec<_> = samples(&sink).iter().map(|(sample, _)| sample.dispatch_event_id).collect();
        assert_eq!((of_launches.len(), of_launches.iter().collect::<BTreeSet<_>>().len()), (4 + 3 + 2 * 3, 10));
        begin(&Sink::new(), &bench.rig, SAMPLES, &[("", &names), ("mine", &["SQ_BUSY_CYCLES", "SQ_WAVES_64"])])
            .unwrap();
        end(&bench.rig).unwrap();
    });
    let Some(said) = said else { return };
    assert!(!said.contains(" left"), "what was tried and did not fit keeps the runtime up: {said}");
    let told: Vec<_> = said.lines().filter(|line| line.contains("passes")).collect();
    assert!(matches!(told[..], [line] if line.contains("in 3 passes")), "{said}");
    assert!(told[0].contains("'amdgpu.pmc (pass 2 of 3)': SQ_INSTS_SMEM, SQ_INSTS_LDS, SQ_WAVES_32;"), "{said}");
}

#[test]
fn ranges_count_one_pass_after_another() {
    passes_alone("ranges_count_one_pass_after_another", "gfx1100,gfx1100", || {
        count_at_a_time("1");
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        begin(&sink, &bench.rig, RANGES, &[("", &["SQ_WAVES", "SQ_WAVES_32"])]).unwrap();
        for groups in [5, 3, 4] {
            bench.run("combine", groups);
            bench.run_on(4, "combine", groups + 10);
            flush(&bench.rig).unwrap();
        }
        end(&bench.rig).unwrap();
        let other = 1 << 32;
        assert_eq!((sums(&sink, 1, "SQ_WAVES"), sums(&sink, 2, "SQ_WAVES_32")), (vec![10, 8], vec![6, 0]));
        assert_eq!(
            (sums(&sink, other + 1, "SQ_WAVES"), sums(&sink, other + 2, "SQ_WAVES_32")),
            (vec![30, 28], vec![26, 0])
        );
    });
}

#[test]
fn a_counter_that_does_not_fit_alone_is_refused() {
    passes_alone("a_counter_that_does_not_fit_alone_is_refused", "gfx1100", || {
        count_at_a_time("0");
        let (bench, sink) = (Bench::new(GFX1100, &[]), Sink::new());
        let status = begin(&sink, &bench.rig, SAMPLES, &[("", &["SQ_WAVES", "SQ_WAVES_32"])]).expect_err("refused");
        assert!(status.to_string().contains("counting hardware counters of gfx1100"), "{status}");
        assert!(status.to_string().contains("aqlprofile_pmc_create_packets"), "{status}");
        assert_eq!(sink.seen.lock().unwrap().begun, 0);
    });
}
