// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask trace`: runs a model with this driver in IREE with Tracy, and checks the run's trace. The trace must
//! have calls of the driver, the steps of its submissions, the work of its threads, its memory, and its kernels.
//!
//! `tests/trace/capture.cc` reads the trace and counts its zones and memory events.

use std::time::Duration;

use xtask_core::error::{Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::Layout;
use xtask_core::process::Ended;
use xtask_core::setup;
use xtask_core::steps::{Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A program that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// Zones that the trace of a run must have: slots of the HAL, and steps of submissions and of the driver's threads.
const ZONES: [&str; 8] = [
    "Device::queue_execute",
    "Device::queue_alloca",
    "DeviceAllocator::allocate_buffer",
    "submit",
    "resolve waits",
    "take memory",
    "place packets",
    "drain",
];

/// Streams of memory, which must be empty at the end.
const STREAMS: [&str; 2] = ["amdgpu_rs-buffers", "amdgpu_rs-slabs"];

/// The counts of a trace, as `capture` prints them.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    /// Numbers of all zones, of the driver's zones, and of zones without an end.
    zones: [usize; 3],
    /// The driver's zones by name.
    named: Vec<(String, usize)>,
    /// Streams of memory with their allocations and frees.
    memory: Vec<(String, usize, usize)>,
    /// Rows of GPU zones with their zones, and how many of these have times.
    rows: Vec<(String, usize, usize)>,
    /// Names of GPU zones.
    kernels: Vec<(String, usize)>,
    threads: Vec<String>,
}

impl Trace {
    /// Reads one line of `capture`'s. Lines of the program itself are passed over.
    fn read(&mut self, line: &str) {
        let fields: Vec<_> = line.split('\t').collect();
        let number = |text: &str| text.parse().unwrap_or_default();
        match *fields.as_slice() {
            ["zones", all, driver, open] => self.zones = [all, driver, open].map(number),
            ["zone", name, count] => self.named.push((name.to_owned(), number(count))),
            ["memory", name, allocations, frees] => {
                self.memory.push((name.to_owned(), number(allocations), number(frees)));
            }
            ["gpu", name, zones, timed] => self.rows.push((name.to_owned(), number(zones), number(timed))),
            ["kernel", name, count] => self.kernels.push((name.to_owned(), number(count))),
            ["thread", name] => self.threads.push(name.to_owned()),
            _ => {}
        }
    }

    /// Each check, with its name.
    fn checks(&self) -> [(&'static str, Result<()>); 5] {
        [
            ("zones of calls and steps", self.check_zones()),
            ("zones end", self.check_ends()),
            ("memory is given back", self.check_memory()),
            ("kernels with their times", self.check_kernels()),
            ("threads have names", self.check_threads()),
        ]
    }

    fn check_zones(&self) -> Result<()> {
        let has = |wanted: &str| self.named.iter().any(|(name, count)| name == wanted && *count > 0);
        let missing: Vec<_> = ZONES.into_iter().filter(|zone| !has(zone)).collect();
        demand(missing.is_empty(), || format!("the trace has no zones {}", missing.join(", ")))
    }

    fn check_ends(&self) -> Result<()> {
        let [all, _, open] = self.zones;
        demand(all > 0 && open == 0, || format!("{open} of {all} zones have no end"))
    }

    fn check_memory(&self) -> Result<()> {
        STREAMS.into_iter().try_for_each(|stream| match self.memory.iter().find(|(name, ..)| name == stream) {
            None => Err(Error::Failed(format!("the trace has no memory {stream}"))),
            Some((_, allocations, frees)) => {
                demand(allocations == frees, || format!("{stream}: {allocations} allocations and {frees} frees"))
            }
        })
    }

    fn check_kernels(&self) -> Result<()> {
        let untimed = self.rows.iter().find(|(_, zones, timed)| zones != timed);
        if let Some((row, zones, timed)) = untimed {
            return Err(Error::Failed(format!("{row}: {zones} GPU zones, of which {timed} have plausible times")));
        }
        let has = |wanted: &str| self.kernels.iter().any(|(name, count)| name.contains(wanted) && *count > 0);
        let names: Vec<_> = self.kernels.iter().map(|(name, _)| name.as_str()).collect();
        demand(has("_dispatch_") && has("transfer"), || format!("GPU zones: {}", names.join(", ")))
    }

    fn check_threads(&self) -> Result<()> {
        let names = self.threads.join(", ");
        demand(names.contains("amdgpu_rs-q"), || format!("threads: {names}"))
    }

    fn print(&self) {
        let [all, driver, _] = self.zones;
        println!("  {driver} zones of the driver, {all} in all");
        self.rows.iter().for_each(|(name, zones, _)| println!("  {name}: {zones} GPU zones"));
        self.memory.iter().for_each(|(name, allocations, frees)| {
            println!("  {name}: {allocations} allocations, {frees} frees");
        });
    }
}

fn demand(holds: bool, failure: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Failed(failure())) }
}

/// Runs a model on `target` and checks its trace. Set-up must have built [`setup::Build::Trace`].
///
/// # Errors
/// When the model cannot be compiled or run, or its trace cannot be read; a trace that lacks something is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let trace = steps.step("A model with tracing", |step| {
        let module = compile(layout, step, &layout.root.join("examples/embed.mlir"), Backend::Gpu(target))?;
        let mut command = layout.command(setup::capture_program(layout));
        command.arg(layout.tool("iree-run-module"));
        command.arg("--device=amdgpu_rs").arg(format!("--module={}", module.display()));
        command.args(["--function=scale_add", "--input=4xf32=1,2,3,4", "--input=4xf32=10,20,30,40"]);
        Hsa::Sim.apply(layout, target, &mut command);
        let mut trace = Trace::default();
        match step.follow(command, Some(SILENCE), |line| trace.read(line))? {
            Ended::Exit(status) if status.success() => Ok(trace),
            _ => Err(Error::Failed("the model failed, or its trace could not be read".to_owned())),
        }
    })?;
    trace.print();
    let mut tally = Tally::default();
    for (name, result) in trace.checks() {
        let (result, time) = timed(|| result);
        tally.count(steps, "trace", name, (result, time));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_judged_by_its_counts() {
        let mut trace = Trace::default();
        let zones = ZONES.map(|zone| format!("zone\t{zone}\t2"));
        let lines = [
            "zones\t30\t16\t0",
            "EXEC @scale_add",
            "memory\tamdgpu_rs-buffers\t3\t3",
            "memory\tamdgpu_rs-slabs\t1\t1",
            "gpu\tamdgpu_rs queue 0\t3\t3",
            "kernel\tscale_add_dispatch_0\t1",
            "kernel\ttransfer\t2",
            "thread\tamdgpu_rs-q0",
        ];
        lines.into_iter().chain(zones.iter().map(String::as_str)).for_each(|line| trace.read(line));
        assert_eq!((trace.zones, trace.named.len()), ([30, 16, 0], ZONES.len()));
        let failures = |trace: &Trace| {
            trace.checks().into_iter().filter_map(|(name, result)| result.is_err().then_some(name)).collect::<Vec<_>>()
        };
        assert_eq!(failures(&trace), [""; 0]);
        trace.memory[0].2 = 2;
        trace.rows[0].2 = 0;
        assert_eq!(failures(&trace), ["memory is given back", "kernels with their times"]);
        let all = ["zones of calls and steps", "zones end", "memory is given back", "kernels with their times"];
        assert_eq!(failures(&Trace::default())[..4], all);
    }
}
