// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask cts`: runs IREE's HAL conformance tests for this driver, or for IREE's C driver, and counts their
//! cases. Exit codes of the test programs are not counts: a program whose cases are all skipped ends with 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::flavor::{Flavor, Sanitizer};
use crate::gtest::{self, Outcome, Report, Skip};
use crate::hsa::{Hsa, limit_kernels};
use crate::junit::Verdict;
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::setup;
use crate::steps::{Step, Steps};
use crate::tally::Tally;
use crate::target::Target;

/// The programs that IREE's CMake functions make for a driver.
pub const PROGRAMS: &[&str] = &[
    "buffer_tests",
    "command_buffer_tests",
    "core_tests",
    "dispatch_tests",
    "executable_tests",
    "file_tests",
    "queue_dispatch_tests",
    "queue_tests",
];

/// A program that prints nothing for this long hangs in its current case.
const SILENCE: Duration = Duration::from_secs(120);

/// Time limit of a kernel on the sim, which names the kernel. Shorter than [`SILENCE`].
const KERNEL_LIMIT: Duration = Duration::from_secs(100);

/// Parts of the names of cases that IREE's C driver fails with any HSA library. The next constants are their output and
/// the reason.
const C_DRIVER_FAILS: &[&str] =
    &["DispatchProfilingRecordsCommandBufferDispatch", "MultiDispatchProfilingFiltersCommandIndex"];
const C_DRIVER_FAILS_SAYING: &str = "(sink.command_buffer_metadata_count) >= (1), actual: 0 vs 1";
const C_DRIVER_FAILS_BECAUSE: &str = "they record with MODE_DEFAULT and expect profiling metadata of the command \
     buffer, which the C driver retains only with RETAIN_PROFILE_METADATA";

/// Source file of IREE that skips cases for the lists in a backend's registration and for missing devices. Any other
/// file skips for a reason in the case itself.
const FIXTURE: &str = "test_base.h";

/// Prefix of the skip reason if the backend's registration excludes a case.
const UNSUPPORTED: &str = "Unsupported on '";

/// True if a line reports an error of the whole program: the sim does at HSA's shutdown if objects are left; sanitizers
/// do after each report.
pub fn is_trouble(line: &str) -> bool {
    line.starts_with("SUMMARY: ") || (line.starts_with("hsa-sim: ") && line.ends_with(" left"))
}

/// Number of output lines to show of a failed case.
const FAILURE_LINES: usize = 6;

/// A HAL driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// This driver
    #[value(name = "amdgpu_rs")]
    AmdgpuRs,
    /// IREE's own driver, written in C, built beside this one
    #[value(name = "amdgpu")]
    Amdgpu,
}

/// Kind of a driver's recordings of command buffers: the values of its flag `command_buffer_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CommandBufferMode {
    /// As AQL packets
    Aql,
    /// As PM4 streams, where they can be
    Pm4,
    /// As the driver prefers
    Auto,
}

impl CommandBufferMode {
    /// Value of the flag `command_buffer_mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aql => "aql",
            Self::Pm4 => "pm4",
            Self::Auto => "auto",
        }
    }

    /// Flag of a driver that selects this mode.
    fn flag(self, is_c_driver: bool) -> String {
        let mode = self.name();
        let driver = if is_c_driver { "amdgpu" } else { "amdgpu_rs" };
        format!("--{driver}_command_buffer_mode={mode}")
    }
}

/// Options of a run of the tests.
pub struct Options<'a> {
    /// Agents of the sim, and target of the test kernels.
    pub target: &'a Target,
    /// The HSA library.
    pub hsa: &'a Hsa,
    /// Environment variables for the HSA library.
    pub variables: &'a [(&'a str, &'a str)],
    /// Conditions of this driver's tests.
    pub conditions: &'a Conditions,
    /// How the driver records command buffers; `None` for its own way.
    pub command_buffer_mode: Option<CommandBufferMode>,
    /// Number of runs of each program.
    pub repeat: u32,
    /// A GoogleTest filter, e.g. `*Semaphore*`.
    pub filter: Option<&'a str>,
}

impl Driver {
    /// Build of IREE that contains the driver's tests.
    pub fn flavor(self, sanitizer: Option<Sanitizer>) -> Flavor {
        match (self, sanitizer) {
            (Self::Amdgpu, _) => Flavor::BesideC,
            (Self::AmdgpuRs, None) => Flavor::Plain,
            (Self::AmdgpuRs, Some(sanitizer)) => Flavor::Sanitized(sanitizer),
        }
    }
}

struct Case {
    name: String,
    outcome: Outcome,
    time: Option<Duration>,
}

/// One program's cases over all its runs.
struct Row {
    program: &'static str,
    cases: Vec<Case>,
    time: Duration,
}

/// Runs the programs, which set-up must have built. Prints the table, the reasons of skips and the failures, and
/// returns the counts.
///
/// # Errors
/// When a program is missing or cannot be started.
pub fn run(layout: &Layout, steps: &Steps, options: &Options) -> Result<Tally> {
    let name = |program| format!("CTS {program} on {}", options.hsa);
    let run = |program| steps.step(&name(program), |step| run_program(layout, step, options, program));
    let mut rows = PROGRAMS.iter().map(|program| run(*program)).collect::<Result<Vec<_>>>()?;
    let is_c_driver = layout.flavor == Flavor::BesideC;
    let mut total = print_table(&rows);
    if total.passed + total.failed + total.skipped == 0 {
        return Err(Error::setup("no case was run: does the filter fit?"));
    }
    let unexplained = print_skips(&rows, is_c_driver);
    total.skipped -= unexplained;
    total.failed += unexplained;
    if is_c_driver {
        total.known = take_known_failures(&mut rows);
        total.failed -= total.known;
    }
    print_failures(&rows, &layout.build.join("logs"));
    record(
        steps,
        &format!("CTS on {} by {}{}", options.target.agents(), options.hsa, options.conditions),
        &rows,
        is_c_driver,
    );
    Ok(total)
}

/// Runs the programs of this driver as one step `name`. Prints the failures, and returns the counts and the seconds.
///
/// # Errors
/// When a program is missing or cannot be started.
pub fn run_as_step(layout: &Layout, steps: &Steps, name: &str, options: &Options) -> Result<(Tally, f64)> {
    let rows = steps.step(name, |step| {
        PROGRAMS.iter().map(|program| run_program(layout, step, options, program)).collect::<Result<Vec<_>>>()
    })?;
    let mut total = Tally::default();
    for row in &rows {
        total += tally(&row.cases);
    }
    let skips = rows.iter().flat_map(|row| &row.cases).filter_map(|case| match &case.outcome {
        Outcome::Skipped(skip) => Some(skip),
        _ => None,
    });
    let unexplained = skips.filter(|skip| !is_explained(skip, false)).count();
    total.skipped -= unexplained;
    total.failed += unexplained;
    print_failures(&rows, &layout.build.join("logs"));
    record(steps, name, &rows, false);
    Ok((total, rows.iter().map(|row| row.time.as_secs_f64()).sum()))
}

fn run_program(layout: &Layout, step: &Step, options: &Options, program: &'static str) -> Result<Row> {
    let path = setup::cts_folder(layout).join(program);
    if !path.is_file() {
        return Err(Error::setup(format!("IREE's build made no {}", path.display())));
    }
    let command = |extra: &str| -> Command {
        let mut command = layout.command(&path);
        command.envs(options.variables.iter().copied());
        options.conditions.apply(&mut command);
        options.hsa.apply(layout, options.target, &mut command);
        limit_kernels(&mut command, KERNEL_LIMIT);
        if let Hsa::Sim = options.hsa {
            command.env("HSA_SIM_LEAKS", "1");
            if layout.flavor == Flavor::BesideC {
                command.env("LD_PRELOAD", layout.kfd_library());
            }
        }
        if let Some(sanitizer) = layout.flavor.sanitizer() {
            sanitizer.apply(&layout.root, &mut command);
        }
        let is_c_driver = layout.flavor == Flavor::BesideC;
        command.args(options.command_buffer_mode.map(|mode| mode.flag(is_c_driver)));
        command.arg(format!("--gtest_filter={}", options.filter.unwrap_or("*"))).arg(extra);
        command
    };
    let listed = gtest::listed(&String::from_utf8_lossy(&step.capture(command("--gtest_list_tests"))?));
    let start = Instant::now();
    let mut cases = Vec::new();
    for repetition in 1..=options.repeat {
        let mut run = command("--gtest_color=no");
        // Each repetition perturbs the order of unordered packets in its own way.
        let seed = (options.repeat > 1).then(|| format!("HSA_SIM_SEED={repetition}"));
        if seed.is_some() {
            step.note(&format!("{repetition} of {}", options.repeat));
            run.env("HSA_SIM_SEED", repetition.to_string());
        }
        for case in run_once(step, run, &listed)? {
            let name = seed.as_ref().map_or_else(|| case.name.clone(), |seed| format!("{}, {seed}", case.name));
            cases.push(Case { name, ..case });
        }
    }
    Ok(Row { program, cases, time: start.elapsed() })
}

/// Runs a program to its end and returns its cases. Adds a failed case if the program left objects, or if it ended
/// badly without a failed case.
fn run_once(step: &Step, run: Command, listed: &[String]) -> Result<Vec<Case>> {
    let mut report = Report::default();
    let mut trouble = Vec::new();
    let ended = step.follow(run, Some(SILENCE), |line| {
        if is_trouble(line) {
            trouble.push(line.to_owned());
        }
        report.line(line);
    })?;
    let (how, is_good) = match ended {
        Ended::Exit(status) => (process::describe(status), status.success()),
        Ended::Silent { .. } => (format!("no output for {} s, killed", SILENCE.as_secs()), false),
    };
    report.finish(listed, &how);
    let all_held = report.cases.iter().all(|(_, outcome)| matches!(outcome, Outcome::Passed | Outcome::Skipped(_)));
    if !trouble.is_empty() || (all_held && !is_good) {
        trouble.push(format!("the program ended with {how}"));
        report.cases.push(("the program as a whole".to_owned(), Outcome::Failed(trouble.join("\n"))));
    }
    let Report { cases, times, .. } = report;
    Ok(cases.into_iter().map(|(name, outcome)| Case { time: times.get(&name).copied(), name, outcome }).collect())
}

/// Records the result of each case, by program and `place`.
fn record(steps: &Steps, place: &str, rows: &[Row], is_c_driver: bool) {
    for row in rows {
        let suite = format!("{} ({place})", row.program);
        for case in &row.cases {
            let verdict = match &case.outcome {
                Outcome::Passed => Verdict::Passed,
                Outcome::Failed(text) => Verdict::Failed(text.clone()),
                Outcome::NotRun(because) => Verdict::Failed(format!("not run: {because}")),
                Outcome::Skipped(skip) if is_explained(skip, is_c_driver) => Verdict::Skipped(skip.reason.clone()),
                Outcome::Skipped(skip) => Verdict::Failed(format!("skipped without a good reason: {}", skip.reason)),
            };
            steps.record(&suite, &case.name, verdict, case.time);
        }
    }
}

fn tally(cases: &[Case]) -> Tally {
    let mut tally = Tally::default();
    for case in cases {
        match &case.outcome {
            Outcome::Passed => tally.passed += 1,
            Outcome::Failed(_) | Outcome::NotRun(_) => tally.failed += 1,
            Outcome::Skipped(_) => tally.skipped += 1,
        }
    }
    tally
}

fn print_table(rows: &[Row]) -> Tally {
    println!("{:22} {:>7} {:>7} {:>7} {:>8}", "program", "passed", "failed", "skipped", "seconds");
    let mut total = Tally::default();
    let mut time = Duration::ZERO;
    let line = |name: &str, tally: Tally, time: Duration| {
        println!("{name:22} {:>7} {:>7} {:>7} {:>8.1}", tally.passed, tally.failed, tally.skipped, time.as_secs_f64());
    };
    for row in rows {
        let tally = tally(&row.cases);
        line(row.program, tally, row.time);
        total += tally;
        time += row.time;
    }
    line("total", total, time);
    total
}

/// True if the skip is accepted: the reason is in the case itself, or the C driver's registration, which is IREE's,
/// excludes the case. Exclusion by this driver's registration and missing devices are not accepted.
fn is_explained(skip: &Skip, is_c_driver: bool) -> bool {
    match skip.file.as_str() {
        "" => false,
        FIXTURE => is_c_driver && skip.reason.starts_with(UNSUPPORTED),
        _ => true,
    }
}

/// Prints each distinct reason once, with the file that skips. Returns the number of cases whose skips are not
/// accepted.
fn print_skips(rows: &[Row], is_c_driver: bool) -> usize {
    let mut skips: BTreeMap<&Skip, usize> = BTreeMap::new();
    for case in rows.iter().flat_map(|row| &row.cases) {
        if let Outcome::Skipped(skip) = &case.outcome {
            *skips.entry(skip).or_default() += 1;
        }
    }
    if skips.is_empty() {
        return 0;
    }
    let mut unexplained = 0;
    println!("\nskipped:");
    for (skip, count) in &skips {
        let is_explained = is_explained(skip, is_c_driver);
        let mark = if is_explained { "" } else { "UNEXPLAINED " };
        let reason = if skip.reason.is_empty() { "(no reason given)" } else { &skip.reason };
        println!("  {count:3} {mark}{reason} ({})", skip.file);
        if !is_explained {
            unexplained += count;
        }
    }
    if unexplained > 0 {
        println!(
            "  {unexplained} unexplained skips count as failures: only a case itself may say why it does not apply"
        );
    }
    unexplained
}

/// Removes IREE's own failures from `rows`, prints them, and returns their number.
fn take_known_failures(rows: &mut [Row]) -> usize {
    let mut known = Vec::new();
    for row in rows {
        let is_known = |case: &Case| {
            matches!(&case.outcome, Outcome::Failed(text) if text.contains(C_DRIVER_FAILS_SAYING))
                && C_DRIVER_FAILS.iter().any(|name| case.name.contains(name))
        };
        known.extend(row.cases.extract_if(.., |case| is_known(case)).map(|case| case.name));
    }
    if !known.is_empty() {
        println!("\nknown to fail with IREE's C driver: {C_DRIVER_FAILS_BECAUSE}");
        known.iter().for_each(|name| println!("  {name}"));
    }
    known.len()
}

fn print_failures(rows: &[Row], logs: &Path) {
    if rows.iter().all(|row| tally(&row.cases).failed == 0) {
        return;
    }
    println!("\nfailed (full output in {}/cts-*.log):", logs.display());
    for row in rows {
        let mut not_run: BTreeMap<&str, usize> = BTreeMap::new();
        for case in &row.cases {
            match &case.outcome {
                Outcome::Passed | Outcome::Skipped(_) => {}
                Outcome::NotRun(because) => *not_run.entry(because).or_default() += 1,
                Outcome::Failed(text) => {
                    println!("  {} {}", row.program, case.name);
                    for line in text.lines().filter(|line| !line.trim().is_empty()).take(FAILURE_LINES) {
                        println!("      {}", line.chars().take(200).collect::<String>());
                    }
                }
            }
        }
        for (because, count) in not_run {
            println!("  {} {count} cases not run: {because}", row.program);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(file: &str, reason: &str) -> Skip {
        Skip { file: file.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn only_a_case_itself_explains_its_skip() {
        assert!(is_explained(&skip("queue_test.cc", "no second queue"), false));
        let left_out = skip("test_base.h", "Unsupported on 'x': no such thing");
        assert!(!is_explained(&left_out, false));
        assert!(is_explained(&left_out, true));
        assert!(!is_explained(&skip("test_base.h", "Backend 'x' unavailable on this system"), true));
        assert!(!is_explained(&skip("", ""), false));
    }

    #[test]
    fn a_program_that_ends_badly_or_leaks_has_failed() {
        let logs = std::env::temp_dir().join(format!("xtask-cts-{}", std::process::id()));
        let steps = Steps::new(logs.clone());
        let cases = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo '[ RUN      ] A.One'; echo '[       OK ] A.One (0 ms)'; {script}")]);
            steps.step("case", |step| run_once(step, command, &["A.One".to_owned()])).unwrap()
        };
        assert_eq!(tally(&cases("exit 0")), Tally { passed: 1, ..Tally::default() });
        assert_eq!(tally(&cases("exit 66")), Tally { passed: 1, failed: 1, ..Tally::default() });
        let leaking = cases("echo 'hsa-sim: hsa_shut_down: 2 signals left'");
        assert!(matches!(&leaking[1].outcome, Outcome::Failed(text) if text.contains("2 signals left")));
        std::fs::remove_dir_all(logs).unwrap();
    }
}
