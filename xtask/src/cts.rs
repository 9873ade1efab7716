// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask cts`: runs IREE's HAL conformance tests for this driver and
//! counts their cases. Exit codes of the test programs are not counts: a
//! program whose cases are all skipped ends with 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::gtest::{self, Outcome, Report};
use crate::hsa::Hsa;
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::setup;
use crate::steps::{Step, Steps};
use crate::tally::Tally;
use crate::target::Target;

/// The programs that IREE's CMake functions make for a driver.
const PROGRAMS: &[&str] = &[
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

/// Reasons that come from the backend's own list of exclusions
/// (`cts/backends.cc`), where each case is named and its reason stated. Any
/// other skip means that something was missing.
const EXPLAINED: &[&str] = &["Unsupported on '", "Expected failure (xfail) on '"];

/// How much of a failed case's output is shown.
const FAILURE_LINES: usize = 6;

/// What to run and how often.
pub struct Options<'a> {
    /// What the agents are and what the test kernels are compiled for.
    pub target: &'a Target,
    /// The HSA library.
    pub hsa: &'a Hsa,
    /// How many times each program is run.
    pub repeat: u32,
    /// A GoogleTest filter, e.g. `*Semaphore*`.
    pub filter: Option<&'a str>,
}

/// One program's cases over all its runs.
struct Row {
    program: &'static str,
    cases: Vec<(String, Outcome)>,
    time: Duration,
}

/// Runs the programs (set-up must have built them), prints the table, the
/// skips' reasons and the failures, and returns the counts.
///
/// # Errors
/// When a program is missing or cannot be started.
pub fn run(layout: &Layout, steps: &Steps, options: &Options) -> Result<Tally> {
    let folder = setup::cts_folder(layout);
    let mut rows = Vec::new();
    for &program in PROGRAMS {
        let path = folder.join(program);
        if !path.is_file() {
            return Err(Error::setup(format!("IREE's build made no {}", path.display())));
        }
        rows.push(steps.step(&format!("CTS {program}"), |step| run_program(layout, step, options, &path, program))?);
    }
    let total = print_table(&rows);
    let unexplained = print_skips(&rows);
    print_failures(&rows, &layout.build.join("logs"));
    if total.passed + total.failed + total.skipped == 0 {
        return Err(Error::setup("no case was run: does the filter fit?"));
    }
    if unexplained > 0 {
        println!(
            "\n{unexplained} unexplained skips count as failures: such a case should have run, or be named in cts/backends.cc"
        );
    }
    Ok(Tally { failed: total.failed + unexplained, skipped: total.skipped - unexplained, ..total })
}

fn run_program(layout: &Layout, step: &Step, options: &Options, path: &Path, program: &'static str) -> Result<Row> {
    let command = |extra: &str| -> Command {
        let mut command = layout.command(path);
        options.hsa.apply(layout, options.target, &mut command);
        command.arg(format!("--gtest_filter={}", options.filter.unwrap_or("*"))).arg(extra);
        command
    };
    let listed = gtest::listed(&String::from_utf8_lossy(&step.capture(command("--gtest_list_tests"))?));
    let start = Instant::now();
    let mut cases = Vec::new();
    for _ in 0..options.repeat {
        let mut report = Report::default();
        let run = command("--gtest_color=no");
        let ended = step.follow(run, Some(SILENCE), |line| report.line(line))?;
        let how = match ended {
            Ended::Exit(status) => process::describe(status),
            Ended::Silent => format!("no output for {} s, killed", SILENCE.as_secs()),
        };
        report.finish(&listed, &how);
        cases.append(&mut report.cases);
    }
    Ok(Row { program, cases, time: start.elapsed() })
}

fn tally(cases: &[(String, Outcome)]) -> Tally {
    let mut tally = Tally::default();
    for (_, outcome) in cases {
        match outcome {
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

/// Prints each distinct reason once and returns how many cases were skipped
/// without one from the backend's list.
fn print_skips(rows: &[Row]) -> usize {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, outcome) in rows.iter().flat_map(|row| &row.cases) {
        if let Outcome::Skipped(reason) = outcome {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut unexplained = 0;
    if !reasons.is_empty() {
        println!("\nskipped:");
    }
    for (reason, count) in reasons {
        let is_explained = EXPLAINED.iter().any(|start| reason.starts_with(start));
        let mark = if is_explained { "" } else { "UNEXPLAINED " };
        let reason = if reason.is_empty() { "(no reason given)" } else { reason };
        println!("  {count:3} {mark}{reason}");
        if !is_explained {
            unexplained += count;
        }
    }
    unexplained
}

fn print_failures(rows: &[Row], logs: &Path) {
    if rows.iter().all(|row| tally(&row.cases).failed == 0) {
        return;
    }
    println!("\nfailed (full output in {}/cts-*.log):", logs.display());
    for row in rows {
        let mut not_run: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, outcome) in &row.cases {
            match outcome {
                Outcome::Passed | Outcome::Skipped(_) => {}
                Outcome::NotRun(because) => *not_run.entry(because).or_default() += 1,
                Outcome::Failed(text) => {
                    println!("  {} {name}", row.program);
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
