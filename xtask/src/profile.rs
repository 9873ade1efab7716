// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask profile`: `iree-run-module` writes profiles, and `iree-profile` must produce every report from them
//! that `docs/using/profiling.md` describes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::replay::{Call, ONE_GPU, Place};
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// Profiling modes that every GPU of the sim supports.
const MODES: &str = "queue-events,host-execution,device-queue-events,dispatch-events,memory-events,\
                     executable-metadata,command-region-events,device-metrics,counters";

/// Further mode of gfx9, gfx11 and gfx12.
const TRACES: &str = "executable-traces";

/// Commands of `iree-profile`, each with a type of row that it writes as JSON for every profile.
const COMMANDS: [(&str, &str); 10] = [
    ("summary", "device_summary"),
    ("statistics", "statistics_row"),
    ("explain", "explain_top_function"),
    ("executable", "executable_function_dispatch_group"),
    ("dispatch", "dispatch_group"),
    ("command", "command_execution"),
    ("queue", "queue_submission"),
    ("memory", "memory_pool"),
    ("counter", "counter_group"),
    ("cat", "record"),
];

/// Last line of `iree-profile att`, which fails: IREE builds its trace decoder only with its own driver for AMD GPUs.
const WITHOUT_DECODER: &str = "unsupported iree-profile command 'att'";

/// Mode that is compatible with all but `counters`.
const RANGES: &str = "counter-ranges";

/// Types of rows of `iree-profile export` that viewers show.
const EXPORTED: [&str; 7] = [
    "dispatch_event",
    "queue_device_event",
    "host_execution_event",
    "command_region_event",
    "memory_event",
    "counter_sample",
    "device_metric_sample",
];

/// A call to profile.
struct Case {
    name: &'static str,
    call: fn(&Place) -> Result<Call>,
    /// Number of kernels that each GPU runs.
    launches: &'static [usize],
}

const CASES: &[Case] = &[
    Case { name: "the demo", call: |place| place.demo_call(ONE_GPU), launches: &[4] },
    Case { name: "a transformer", call: |place| Ok(place.transformer()?.0), launches: &[12] },
    Case { name: "a device of two GPUs", call: |place| place.two_gpus_call(), launches: &[2, 1] },
];

/// Profiles calls on the sim, and prints a line for each.
///
/// # Errors
/// When nothing could be run; a case that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let name = format!("Profiles on {target}");
    let results = steps.step(&name, |step| {
        let place = Place::new(layout, step, target, "profile")?;
        let has_traces = !target.as_ref().starts_with("gfx10");
        Ok(CASES.iter().map(|case| timed(|| check(&place, step, case, has_traces))).collect::<Vec<_>>())
    })?;
    let mut tally = Tally::default();
    for (case, ended) in CASES.iter().zip(results) {
        tally.count(steps, &name, case.name, ended);
    }
    Ok(tally)
}

fn check(place: &Place, step: &Step, case: &Case, has_traces: bool) -> Result<()> {
    step.note(case.name);
    let call = (case.call)(place)?;
    let in_ranges = waves_in_ranges(place, &call)?;
    let modes = if has_traces { format!("{MODES},{TRACES}") } else { MODES.to_owned() };
    let (profile, stats) = record(place, &call, &modes)?;
    for (command, kind) in COMMANDS {
        let text = read(place, &profile, &[command])?;
        let rows = rows(&read(place, &profile, &[command, "--format=jsonl"])?)?;
        if text.is_empty() || !rows.iter().any(|row| row["type"] == kind) {
            return Err(Error::Failed(format!("`iree-profile {command}` has no row '{kind}'")));
        }
    }
    if has_traces {
        let mut command = place.layout.command(place.layout.tool("iree-profile"));
        command.arg("att").arg(&profile);
        place.refuses(command, WITHOUT_DECODER)?;
    }
    let counters = rows(&read(place, &profile, &["counter", "--format=jsonl"])?)?;
    let counters: Vec<_> = counters.iter().filter(|row| row["type"] == "counter_group").collect();
    // Transfers are in ranges, too; those in front of the session and behind it only in the sim's figures.
    let waves = sum(&counters);
    is_at_most(waves, in_ranges, "in ranges there are")?;
    is_at_most(waves, stats["waves"].as_u64().unwrap_or(0), "HSA_SIM_STATS has")?;
    let groups = rows(&read(place, &profile, &["dispatch", "--format=jsonl"])?)?;
    for (gpu, &expected) in case.launches.iter().enumerate() {
        let of_gpu = groups.iter().filter(|row| row["type"] == "dispatch_group");
        let of_gpu = of_gpu.filter(|row| row["physical_device_ordinal"] == gpu && row["total_ns"].as_u64() > Some(0));
        let launches: u64 = of_gpu.filter_map(|row| row["valid"].as_u64()).sum();
        if launches != expected as u64 {
            return Err(Error::Failed(format!("GPU {gpu} has {launches} launches with times, not {expected}")));
        }
    }
    let exported = rows(&read(place, &profile, &["export", "--format=ireeperf-jsonl", "--output=-"])?)?;
    let is_missing = |kind: &&&str| !exported.iter().any(|row| row["record_type"] == **kind);
    if let Some(kind) = EXPORTED.iter().find(is_missing) {
        return Err(Error::Failed(format!("`iree-profile export` writes no '{kind}'")));
    }
    let launches: usize = case.launches.iter().sum();
    let traces = exported.iter().filter(|row| row["record_type"] == "executable_trace");
    match traces.filter(|row| row["format"] == "amdgpu_att" && row["data_length"].as_u64() > Some(0)).count() {
        traces if traces == if has_traces { launches } else { 0 } => Ok(()),
        traces => Err(Error::Failed(format!("{traces} of {launches} launches have traces"))),
    }
}

/// Number of waves in a profile of counter ranges.
fn waves_in_ranges(place: &Place, call: &Call) -> Result<u64> {
    let (profile, stats) = record(place, call, RANGES)?;
    let rows = rows(&read(place, &profile, &["counter", "--format=jsonl"])?)?;
    let rows: Vec<_> = rows.iter().filter(|row| row["type"] == "counter_group").collect();
    if rows.is_empty() || rows.iter().any(|row| row["scope"] != "device_time_range") {
        return Err(Error::Failed(format!("a profile of {RANGES} has other counters, or none: {rows:?}")));
    }
    let waves = sum(&rows);
    is_at_most(waves, stats["waves"].as_u64().unwrap_or(0), "HSA_SIM_STATS has")?;
    Ok(waves)
}

/// Sum of a counter over all rows of `iree-profile counter`.
fn sum(rows: &[&Value]) -> u64 {
    rows.iter().filter_map(|row| row["sum"].as_f64()).sum::<f64>() as u64
}

fn is_at_most(waves: u64, most: u64, whose: &str) -> Result<()> {
    if (1..=most).contains(&waves) { Ok(()) } else { Err(Error::Failed(format!("{waves} waves, {whose} {most}"))) }
}

/// Profiles a call. Returns the profile, and the sim's counts of the call (`HSA_SIM_STATS`).
fn record(place: &Place, call: &Call, modes: &str) -> Result<(PathBuf, Value)> {
    let (profile, stats) = (place.work.join("model.ireeprof"), place.work.join("stats.json"));
    let mut command = place.run_module(call, &place.work.join("result.npy"));
    command.arg(format!("--device_profiling_mode={modes}")).arg("--device_profiling_counter=SQ_WAVES");
    if modes.contains(TRACES) {
        // Traces of all functions have to be requested.
        command.arg("--device_profiling_filter_function=*");
    }
    command.arg(format!("--device_profiling_output={}", profile.display())).env("HSA_SIM_STATS", &stats);
    place.output(command)?;
    let text = fs::read_to_string(&stats).context(|| format!("reading {}", stats.display()))?;
    Ok((profile, rows(&[text])?.remove(0)))
}

fn read(place: &Place, profile: &Path, arguments: &[&str]) -> Result<Vec<String>> {
    let mut command = place.layout.command(place.layout.tool("iree-profile"));
    command.args(arguments).arg(profile);
    place.output(command)
}

fn rows(lines: &[String]) -> Result<Vec<Value>> {
    let row = |line: &String| serde_json::from_str(line).map_err(|error| Error::Failed(format!("'{line}': {error}")));
    lines.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_command_and_mode() {
        let text = include_str!("../../docs/using/profiling.md");
        for (command, _) in COMMANDS {
            assert!(text.contains(&format!("| `iree-profile {command}` |")), "{command}");
        }
        for command in ["att", "export"] {
            assert!(text.contains(&format!("| `iree-profile {command}` |")), "{command}");
        }
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(WITHOUT_DECODER));
        for mode in MODES.split(',').chain([TRACES, RANGES]) {
            assert!(text.contains(&format!("`{mode}`")), "{mode}");
        }
    }
}
