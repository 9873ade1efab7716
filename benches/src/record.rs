// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --write`: measures the figures of `docs/status/benchmarks.md`, and writes them to
//! `benches/results` and into the pages.

use super::results::{self, Case, Host, Kind, Origin, Run};
use super::{DEFAULT_TARGET, Drivers, Options, cost, counts, measure, median, pages, programs, start};
use xtask_core::cts::CommandBufferMode;
use xtask_core::error::{Error, Result};
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;

/// GPUs whose wall times are measured.
const TARGETS: [&str; 2] = [DEFAULT_TARGET, "gfx942"];

/// Number of runs of each GPU. Their difference shows the noise of the machine.
const ROUNDS: u32 = 2;

/// Cases of the tables of operations.
const CASES: &str = "!(profiled/*)";

/// Cases under a profile.
const PROFILED: &str = "profiled/*";

/// Cases whose work on the GPU is in a table.
const GPU_WORK: &str = "replay/*/@(16|512|10000)/submit";

/// Cases that record or execute command buffers.
const COMMAND_BUFFERS: &str = "re*/*";

/// Measures all runs, with `repeat` samples each. Set-up must have built the program with both drivers.
///
/// # Errors
/// When a case fails, or a file cannot be written.
pub fn run(layout: &Layout, steps: &Steps, repeat: u32) -> Result<()> {
    let origin = Origin::now(layout, steps)?;
    let streams = Some(CommandBufferMode::Pm4);
    let mut run = Vec::new();
    let mut add = |kind, target: &str, filter, command_buffer_mode| {
        let options = Options {
            drivers: Drivers::Both,
            target: &target.parse().map_err(Error::setup)?,
            repeat,
            filter,
            command_buffer_mode,
        };
        let case = match kind {
            Kind::Instructions => counts::cases(layout, steps, &options)?,
            Kind::Wall => wall(layout, steps, &options)?,
        };
        run.push(Run { kind, target: target.to_owned(), pm4: command_buffer_mode.is_some(), case });
        Ok(())
    };
    add(Kind::Instructions, DEFAULT_TARGET, CASES, None)?;
    add(Kind::Instructions, DEFAULT_TARGET, COMMAND_BUFFERS, streams)?;
    for _ in 0..ROUNDS {
        TARGETS.iter().try_for_each(|target| add(Kind::Wall, target, CASES, None))?;
    }
    add(Kind::Wall, DEFAULT_TARGET, COMMAND_BUFFERS, streams)?;

    let target = &DEFAULT_TARGET.parse().map_err(Error::setup)?;
    let options = Options { drivers: Drivers::Both, target, repeat, filter: "*", command_buffer_mode: None };
    let profiled = counts::cases(layout, steps, &Options { filter: PROFILED, ..options })?;
    let mut gpu = Vec::new();
    for command_buffer_mode in [Some(CommandBufferMode::Aql), streams] {
        gpu.extend(cost::work(layout, steps, &Options { filter: GPU_WORK, command_buffer_mode, ..options })?);
    }
    let folder = programs::ensure(layout, steps, target)?;
    let [start_ms, resident_mib, vram_mib] = start::medians(layout, steps, &options, &folder)?;
    let host = Host { origin, start_ms, resident_mib, vram_mib: Some(vram_mib), profiled, run, gpu };
    results::write(&layout.root, results::HOST, &host.text())?;
    report(layout)
}

/// Writes the tables of the pages and names the pages that changed.
///
/// # Errors
/// When a page cannot be written.
pub fn report(layout: &Layout) -> Result<()> {
    for page in pages::write(&layout.root)? {
        println!("wrote {page}");
    }
    Ok(())
}

/// Median wall times.
fn wall(layout: &Layout, steps: &Steps, options: &Options) -> Result<Vec<Case>> {
    let folder = programs::ensure(layout, steps, options.target)?;
    let (output, result) = steps.step("Measuring", |step| Ok(measure(layout, step, options, &folder)))?;
    result?;
    let cases = output.cases.into_iter().map(|case| {
        let [floor, ours, c] = [0, 1, 2].map(|driver| median(&case.drivers[driver].wall));
        Case { name: case.name, floor, ours, c }
    });
    Ok(cases.collect())
}
