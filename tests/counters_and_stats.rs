// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hardware counters agree with the other reports of the software GPU about the same work: with `HSA_SIM_STATS`, and
//! with `HSA_SIM_PROFILE`, whose instruction texts show the class of each instruction.

#[path = "support/counters.rs"]
mod counters;
#[path = "support/kernels.rs"]
mod kernels;
#[path = "support/sink.rs"]
mod sink;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use amdgpu_rs::ffi::Code;
use kernels::{SAMPLES, find_library};
use sink::{Sink, end};
use support::recording::{Mode, Recording, direct};
use support::{Rig, passes_alone, wait, workgroups};

/// Sums by kernel and by name.
type Sums = BTreeMap<String, BTreeMap<String, u64>>;

/// Kernels by their file, each with so many workgroups of so many work-items.
const LAUNCHES: [(usize, &str, u32, u32); 8] = [
    (0, "combine", 3, 64),
    (0, "gather", 2, 64),
    (1, "transpose", 16, 256),
    (1, "reduce", 5, 256),
    (1, "histogram", 2, 256),
    (0, "combine", 40, 64),
    (1, "transpose", 1, 256),
    (0, "gather", 1, 64),
];

const BYTES: usize = 4 << 12;

/// Work-items of `combine` and `gather` that have something to do: neither all of a wave nor a whole number of waves.
const COUNT: u32 = 1000;

/// Where the software GPU writes.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Counter values of each kernel when all are launched, half of them from a command buffer.
fn count(codes: [&[u8]; 2], names: &[&str]) -> Sums {
    let (rig, sink) = (Rig::new(), Sink::new());
    let kernels = codes.map(|code| rig.executable(code).unwrap());
    let memory = [0; 3].map(|_| rig.buffer(BYTES));
    counters::begin(&sink, &rig, SAMPLES, &[("", names)]).unwrap();
    let done = rig.semaphore();
    let (alone, recorded) = LAUNCHES.split_at(LAUNCHES.len() / 2);
    let recording = Recording::begin(&rig, Mode::Reusable, 0);
    let constants: Vec<u8> = [3, COUNT].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    for (index, (file, kernel, groups, size)) in alone.iter().chain(recorded).enumerate() {
        let mut config = workgroups(*groups);
        config.workgroup_size = [*size, 1, 1];
        let constants = if *file == 0 { &constants[..] } else { &[] };
        let bindings = [0, 1, 2].map(|index: usize| direct(&memory[index], 0, BYTES));
        let bindings = &bindings[..if *kernel == "combine" { 3 } else { 2 }];
        let function = (&kernels[*file], *kernel);
        if index < alone.len() {
            let signals = [(&done, index as u64 + 1)];
            rig.dispatch_with(1, &[], &signals, function, config, constants, bindings, 0).unwrap();
        } else {
            recording.dispatch(function, config, constants, bindings, 0).unwrap();
            recording.barrier();
        }
    }
    recording.end();
    wait(&done, alone.len() as u64).unwrap();
    recording.run(&rig).unwrap();
    end(&rig).unwrap();
    assert_eq!(sink.ended(), [Code::OK]);
    let mut sums = Sums::new();
    for name in names {
        // They are in the order of the launches, as there is one queue.
        let of_launches = counters::sums(&sink, 1, name);
        assert_eq!(of_launches.len(), LAUNCHES.len());
        for (sum, (_, kernel, ..)) in of_launches.into_iter().zip(LAUNCHES) {
            *sums.entry(kernel.to_owned()).or_default().entry((*name).to_owned()).or_default() += sum;
        }
    }
    sums
}

/// A number in a line of JSON.
fn number(line: &str, name: &str) -> Option<u64> {
    let rest = line.split_once(&format!("\"{name}\":"))?.1;
    rest[..rest.find([',', '}'])?].parse().ok()
}

/// A text in one.
fn text<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    Some(line.split_once(&format!("\"{name}\":\""))?.1.split_once('"')?.0)
}

/// Figures of a `HSA_SIM_PROFILE` file, under the names of counters. LDS conflicts have the GPU's own counter names.
fn profiled(path: &Path, [active, conflicts]: [&str; 2]) -> Sums {
    let mut sums = Sums::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let of_kernel = sums.entry(text(line, "kernel").unwrap().to_owned()).or_default();
        let mut add = |name: &str, count: u64| *of_kernel.entry(name.to_owned()).or_default() += count;
        let Some(instruction) = text(line, "text") else {
            add("dispatches", number(line, "dispatches").unwrap());
            add("SQ_WAVES", number(line, "waves").unwrap());
            add("SPI_CSN_NUM_THREADGROUPS", number(line, "workgroups").unwrap());
            continue;
        };
        let field = |name: &str| number(line, name).unwrap();
        let times = field("times");
        add("wave_instructions", times);
        if let Some(class) = class(instruction) {
            add(class, times);
        }
        let is_global = ["global_", "flat_"].iter().any(|prefix| instruction.starts_with(prefix));
        if is_global {
            add("global_accesses", times);
        }
        if is_global && instruction.contains("_load_") {
            add("TA_FLAT_READ_WAVEFRONTS", times);
        }
        if is_global && instruction.contains("_store_") {
            add("TA_FLAT_WRITE_WAVEFRONTS", times);
        }
        add("TCP_TOTAL_CACHE_ACCESSES", field("lines"));
        add(active, field("passes"));
        add(conflicts, field("passes") - field("fewest_passes"));
    }
    sums
}

/// The counter of an instruction, by its text.
fn class(instruction: &str) -> Option<&'static str> {
    const CONTROL: [&str; 9] =
        ["s_wait", "s_endpgm", "s_branch", "s_cbranch_", "s_barrier", "s_nop", "s_delay_alu", "s_clause", "s_sendmsg"];
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| instruction.starts_with(prefix));
    if starts(&CONTROL) {
        None
    } else if starts(&["v_"]) {
        Some("SQ_INSTS_VALU")
    } else if starts(&["s_load_", "s_buffer_load_"]) {
        Some("SQ_INSTS_SMEM")
    } else if starts(&["s_"]) {
        Some("SQ_INSTS_SALU")
    } else if starts(&["ds_"]) {
        Some("SQ_INSTS_LDS")
    } else {
        assert!(starts(&["global_", "flat_", "buffer_"]), "{instruction}");
        Some("SQ_INSTS_VMEM")
    }
}

/// Runs the kernels under all these counters and `HSA_SIM_STATS`, then under those that go beside `HSA_SIM_PROFILE`.
fn check(target: &str, codes: [&[u8]; 2], counters: &[&str], lds: [&str; 2]) {
    find_library();
    let (stats, profile) = (file(&format!("{target}.stats.json")), file(&format!("{target}.profile.json")));
    // SAFETY: this process has one test, and no thread that looks at the environment yet.
    unsafe { std::env::set_var("HSA_SIM_STATS", &stats) };
    let counted = count(codes, counters);
    let with_stats = std::fs::read_to_string(&stats).unwrap();
    // SAFETY: this process has one test, and the driver's threads ended with its device.
    unsafe { std::env::set_var("HSA_SIM_PROFILE", &profile) };
    let beside_profile = count(codes, &["SQ_WAVES", "SPI_CSN_NUM_THREADGROUPS"]);
    let profiled = profiled(&profile, lds);

    assert_eq!(counted.keys().collect::<Vec<_>>(), profiled.keys().collect::<Vec<_>>());
    for counted in [&counted, &beside_profile] {
        for (kernel, counters) in counted {
            for (name, sum) in counters {
                let of_kernel = profiled[kernel].get(name).copied().unwrap_or(0);
                assert_eq!(*sum, of_kernel, "{name} of {kernel} on {target}");
            }
        }
    }
    let total = |sums: &Sums, name: &str| sums.values().filter_map(|of_kernel| of_kernel.get(name)).sum::<u64>();
    for stats in [with_stats, std::fs::read_to_string(&stats).unwrap()] {
        let of_stats = |name: &str| number(&stats, name).unwrap_or_else(|| panic!("{name} in {stats}"));
        assert_eq!(of_stats("dispatches"), LAUNCHES.len() as u64);
        assert_eq!(of_stats("waves"), total(&counted, "SQ_WAVES"));
        assert_eq!(of_stats("workgroups"), total(&counted, "SPI_CSN_NUM_THREADGROUPS"));
        for name in ["dispatches", "wave_instructions", "global_accesses"] {
            assert_eq!(of_stats(name), total(&profiled, name), "{name} on {target}");
        }
    }
    // None of it is there by being 0.
    for name in counters {
        assert!(total(&counted, name) > 0, "{name} on {target}");
    }
}

#[test]
fn counters_are_what_the_gpu_says_otherwise_on_gfx942() {
    passes_alone("counters_are_what_the_gpu_says_otherwise_on_gfx942", "gfx942", || {
        let codes: [&[u8]; 2] =
            [include_bytes!("testdata/soak.gfx942.co"), include_bytes!("../sim/tests/kernels/shared.gfx942.co")];
        let lds = ["SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT"];
        let instructions = ["SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_LDS", "SQ_INSTS_VMEM"];
        let accesses = ["TCP_TOTAL_CACHE_ACCESSES", "TA_FLAT_READ_WAVEFRONTS", "TA_FLAT_WRITE_WAVEFRONTS"];
        let work = ["SQ_WAVES", "SPI_CSN_NUM_THREADGROUPS"];
        check("gfx942", codes, &[&work[..], &instructions, &lds, &accesses].concat(), lds);
    });
}

#[test]
fn counters_are_what_the_gpu_says_otherwise_on_gfx1100() {
    passes_alone("counters_are_what_the_gpu_says_otherwise_on_gfx1100", "gfx1100", || {
        let codes: [&[u8]; 2] =
            [include_bytes!("testdata/soak.gfx1100.co"), include_bytes!("../sim/tests/kernels/shared.gfx1100.co")];
        let lds = ["SQC_LDS_IDX_ACTIVE", "SQC_LDS_BANK_CONFLICT"];
        let instructions = ["SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_LDS"];
        let work = ["SQ_WAVES", "SPI_CSN_NUM_THREADGROUPS"];
        check("gfx1100", codes, &[&work[..], &instructions, &lds].concat(), lds);
    });
}
