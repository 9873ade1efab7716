// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench`: the host's cost of operations in this driver and in IREE's C driver, on the sim, which consumes
//! packets without running kernels. One process loads both drivers and measures them in turns (`benches/submit.c`), so
//! that their ratio also holds on a busy machine.

pub mod cost;
pub mod counts;
pub mod guard;
pub mod hip;
mod pages;
mod programs;
pub mod record;
mod results;
pub mod sim;
pub mod sim_networks;
mod start;

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use xtask_core::cts::CommandBufferMode;
use xtask_core::error::{Error, Result};
use xtask_core::flavor::Flavor;
use xtask_core::hsa::Hsa;
use xtask_core::junit::Verdict;
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::setup;
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A program that prints nothing for this long hangs in its current case.
const SILENCE: Duration = Duration::from_secs(60);

/// Name of the floor in the program's output: the least work that an operation needs (`benches/floor.c`).
const FLOOR: &str = "floor";

/// Default GPU of the sim.
pub const DEFAULT_TARGET: &str = "gfx1100";

/// Drivers to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drivers {
    /// This driver
    #[value(name = "amdgpu_rs")]
    AmdgpuRs,
    /// IREE's own driver, written in C
    #[value(name = "amdgpu")]
    Amdgpu,
    /// Both drivers, in turns
    Both,
}

impl Drivers {
    /// Build of IREE that contains the drivers.
    pub fn flavor(self) -> Flavor {
        match self {
            Self::AmdgpuRs => Flavor::Plain,
            Self::Amdgpu | Self::Both => Flavor::BesideC,
        }
    }

    /// The drivers' names in the registry.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::AmdgpuRs => &["amdgpu_rs"],
            Self::Amdgpu => &["amdgpu"],
            Self::Both => &["amdgpu_rs", "amdgpu"],
        }
    }
}

/// Options of a benchmark run.
pub struct Options<'a> {
    /// Drivers to measure.
    pub drivers: Drivers,
    /// GPU that the sim models.
    pub target: &'a Target,
    /// Number of samples of each case and driver.
    pub repeat: u32,
    /// Glob that selects the cases.
    pub filter: &'a str,
    /// How both drivers record command buffers; `None` for each driver's own way.
    pub command_buffer_mode: Option<CommandBufferMode>,
}

/// Samples of one driver and case, in nanoseconds for each operation.
#[derive(Debug, Default, PartialEq)]
struct Samples {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    refusal: Option<String>,
}

/// A case with the samples of each driver, in the order of [`Output::names`].
#[derive(Debug, PartialEq)]
struct Case {
    name: String,
    drivers: Vec<Samples>,
}

/// Parsed output of the program so far. The first name is [`FLOOR`].
struct Output {
    names: Vec<&'static str>,
    cases: Vec<Case>,
    /// Lines that are no samples, i.e. errors.
    other: Vec<String>,
}

/// Measures and prints the table, also of the cases before a failure. Set-up must have built the program.
///
/// # Errors
/// When a case fails or none matches.
pub fn run(layout: &Layout, steps: &Steps, options: &Options) -> Result<()> {
    let folder = programs::ensure(layout, steps, options.target)?;
    let (output, result) = steps.step("Measuring", |step| Ok(measure(layout, step, options, &folder)))?;
    if !output.cases.is_empty() {
        print!("{}", output.table());
    }
    result?;
    if options.filter == "*" { start::run(layout, steps, options, &folder) } else { Ok(()) }
}

/// Runs each case of this driver once, as a smoke test. Prints the cases that fail.
///
/// # Errors
/// None: a program that fails is counted.
pub fn smoke(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let target: Target = DEFAULT_TARGET.parse().map_err(Error::setup)?;
    let options =
        Options { drivers: Drivers::AmdgpuRs, target: &target, repeat: 1, filter: "*", command_buffer_mode: None };
    let folder = programs::ensure(layout, steps, &target)?;
    let (output, result) = steps.step("The benchmark's cases", |step| Ok(measure(layout, step, &options, &folder)))?;
    let mut tally = Tally::default();
    for case in &output.cases {
        let refusal = &case.drivers[1].refusal;
        let verdict = refusal.clone().map_or(Verdict::Passed, Verdict::Failed);
        steps.record("benchmark", &case.name, verdict, None);
        match refusal {
            None => tally.passed += 1,
            Some(refusal) => {
                tally.failed += 1;
                println!("  FAILED  {}: {refusal}", case.name);
            }
        }
    }
    if let Err(error) = &result {
        steps.record("benchmark", "all cases", (&result).into(), None);
        tally.failed += 1;
        println!("  FAILED  {error}");
    }
    println!("  {tally}");
    Ok(tally)
}

fn measure(layout: &Layout, step: &Step, options: &Options, folder: &Path) -> (Output, Result<()>) {
    let names = options.drivers.names();
    let mut output = Output::new(names);
    let mut arguments: Vec<_> = names.iter().map(|name| format!("--driver={name}")).collect();
    arguments.push(format!("--repeat={}", options.repeat));
    let ended = follow(layout, step, options, folder, &arguments, |line| output.line(line));
    let result = ended.and_then(|ended| check(ended, &output.other));
    (output, result)
}

/// Runs the program with `arguments` and passes each line of its output to `line`.
fn follow(
    layout: &Layout,
    step: &Step,
    options: &Options,
    folder: &Path,
    arguments: &[String],
    line: impl FnMut(&str),
) -> Result<Ended> {
    let mut command = layout.command(setup::bench_program(layout));
    command.arg(format!("--folder={}", folder.display()));
    command.arg(format!("--sim={}", layout.sim_library().display()));
    command.arg(format!("--filter={}", options.filter)).args(arguments);
    command.args(options.command_buffer_mode.map(|mode| format!("--command-buffer-mode={}", mode.name())));
    Hsa::Sim.apply(layout, options.target, &mut command);
    command.env("HSA_SIM_EXECUTE", "0");
    if layout.flavor == Flavor::BesideC {
        command.env("LD_PRELOAD", layout.kfd_library());
    }
    step.follow(command, Some(SILENCE), line)
}

/// Returns an error if the program failed. `other` are the lines of its output that are no measurements.
fn check(ended: Ended, other: &[String]) -> Result<()> {
    let how = match ended {
        Ended::Exit(status) if status.success() => return Ok(()),
        Ended::Exit(status) => process::describe(status),
        Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
    };
    if other.iter().any(|line| line.contains("no case matches")) {
        return Err(Error::setup(other.join("\n  ")));
    }
    Err(Error::Failed(format!("the benchmark ended with {how}\n  {}", other.join("\n  "))))
}

impl Output {
    fn new(drivers: &[&'static str]) -> Self {
        Self { names: [&[FLOOR], drivers].concat(), cases: Vec::new(), other: Vec::new() }
    }

    fn line(&mut self, line: &str) {
        if self.sample(line).is_none() {
            self.other.push(line.to_owned());
        }
    }

    /// Parses a line of the format that `benches/submit.c` describes. Returns `None` for any other line.
    fn sample(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let (name, rest) = rest.split_once(' ')?;
        let (driver, rest) = rest.split_once(' ')?;
        let driver = self.names.iter().position(|name| *name == driver)?;
        match kind {
            "refused" => self.of(name, driver).refusal = Some(rest.to_owned()),
            "sample" => {
                let numbers: Vec<f64> = rest.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
                let &[operations, wall, cpu] = numbers.as_slice() else { return None };
                let samples = self.of(name, driver);
                samples.wall.push(wall / operations);
                samples.cpu.push(cpu / operations);
            }
            _ => return None,
        }
        Some(())
    }

    fn of(&mut self, case: &str, driver: usize) -> &mut Samples {
        let index = self.cases.iter().position(|known| known.name == case).unwrap_or_else(|| {
            let drivers = self.names.iter().map(|_| Samples::default()).collect();
            self.cases.push(Case { name: case.to_owned(), drivers });
            self.cases.len() - 1
        });
        &mut self.cases[index].drivers[driver]
    }

    /// Formats the table: the floor's wall time, the wall and CPU time of each driver and, with two drivers, the ratio
    /// of the first one's to the second one's.
    fn table(&self) -> String {
        let mut text = format!("{:29} {FLOOR:>9}", "ns for each operation");
        for name in &self.names[1..] {
            text += &format!(" {:>15} {:>8}", format!("{name} wall"), "CPU");
        }
        if let [_, ours, others] = self.names[..] {
            text += &format!("   {ours} / {others}: wall, CPU");
        }
        text += "\n";
        let mut ratios = Vec::new();
        for case in &self.cases {
            let _ = write!(text, "{:29} {}", case.name, number(median(&case.drivers[0].wall), 9, 0));
            for samples in &case.drivers[1..] {
                let (wall, cpu) = (median(&samples.wall), median(&samples.cpu));
                let _ = match (wall, cpu) {
                    (Some(wall), Some(cpu)) => write!(text, " {wall:9.0} {:>5} {cpu:8.0}", spread(&samples.wall)),
                    _ => write!(text, " {:>24}", "refused"),
                };
            }
            if let [_, ours, others] = case.drivers.as_slice()
                && let Some(wall) = ratio(&ours.wall, &others.wall)
                && let Some(cpu) = ratio(&ours.cpu, &others.cpu)
            {
                let _ = write!(text, "   {wall:8.2} {cpu:8.2}");
                ratios.push(wall);
            }
            text += "\n";
        }
        text += &summary("wall time", &ratios);
        for (case, (name, samples)) in
            self.cases.iter().flat_map(|case| self.names.iter().zip(&case.drivers).map(move |driver| (case, driver)))
        {
            if let Some(refusal) = &samples.refusal {
                let _ = writeln!(text, "{name} refuses {}: {refusal}", case.name);
            }
        }
        text
    }
}

/// The value at a fraction of the sorted values.
fn quantile(values: &[f64], fraction: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * fraction).round() as usize])
}

fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Half of the interquartile range of the values, relative to their median.
fn spread(values: &[f64]) -> String {
    match (quantile(values, 0.25), median(values), quantile(values, 0.75)) {
        (Some(low), Some(median), Some(high)) if median > 0.0 => format!("±{:.0}%", (high - low) / median * 50.0),
        _ => String::new(),
    }
}

/// Formats a column of a table.
fn number(value: Option<f64>, width: usize, decimals: usize) -> String {
    value.map_or_else(|| format!("{:>width$}", "-"), |value| format!("{value:width$.decimals$}"))
}

/// Maximum ratio of this driver's time to the other one's that meets the goal, in each case.
const GOAL: f64 = 0.7;

/// Formats the geometric mean of the ratios and the number of ratios that meet [`GOAL`]; empty if there are no ratios.
fn summary(what: &str, ratios: &[f64]) -> String {
    let Some(mean) = geometric_mean(ratios) else { return String::new() };
    let count = ratios.len();
    let good = ratios.iter().filter(|ratio| **ratio <= GOAL).count();
    format!("geometric mean of {what}: {mean:.2}; at most {GOAL:.2}: {good} of {count} cases\n")
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

fn ratio(ours: &[f64], others: &[f64]) -> Option<f64> {
    Some(median(ours)? / median(others)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(drivers: Drivers, text: &str) -> Output {
        let mut output = Output::new(drivers.names());
        text.lines().for_each(|line| output.line(line));
        output
    }

    #[test]
    fn samples_become_medians_spreads_and_ratios() {
        let output = output(
            Drivers::Both,
            "sample a/submit floor 10 70 70\nsample a/submit amdgpu_rs 10 1000 5000\nsample a/submit amdgpu 10 2000 4000\n\
             sample a/submit amdgpu_rs 10 1200 5000\nsample a/submit amdgpu 10 2000 4000\n\
             sample a/submit amdgpu_rs 10 9000 5000\nsample a/submit amdgpu 10 2000 4000",
        );
        assert!(output.other.is_empty());
        assert_eq!(output.cases[0].drivers[1].wall, [100.0, 120.0, 900.0]);
        let table = output.table();
        let row = table.lines().nth(1).unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(words, ["a/submit", "7", "120", "±325%", "500", "200", "±0%", "400", "0.60", "1.25"]);
        assert!(table.ends_with("geometric mean of wall time: 0.60; at most 0.70: 1 of 1 cases\n"), "{table}");
    }

    #[test]
    fn a_case_that_a_driver_refuses_is_named_with_its_reason() {
        let output = output(
            Drivers::Both,
            "sample b amdgpu_rs 1 10 10\nrefused b amdgpu x.c:1: UNIMPLEMENTED; no such thing\nan error\n",
        );
        assert_eq!(output.other, ["an error"]);
        let table = output.table();
        assert!(table.contains("refused"), "{table}");
        assert!(table.contains("amdgpu refuses b: x.c:1: UNIMPLEMENTED; no such thing"), "{table}");
    }

    #[test]
    fn lines_of_other_forms_are_errors() {
        let text = "sample a amdgpu_rs 1 x 2\nsample a other 1 2 3\nsample a amdgpu_rs 1 2";
        assert_eq!(output(Drivers::AmdgpuRs, text).other.len(), 3);
    }

    #[test]
    fn quantiles_of_few_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0, 5.0], 0.25), Some(2.0));
        assert_eq!(spread(&[]), "");
    }
}
