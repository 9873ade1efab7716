// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Tests of ROCm's libraries, which Debian has compiled for many GPUs. They check themselves.

use std::fmt;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};
use crate::gtest::{self, Outcome, Report};
use crate::hsa::limit_kernels;
use crate::junit::Verdict;
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::setup;
use crate::steps::{Step, Steps};
use crate::tally::Tally;
use crate::target::Target;

use super::root::{self, Hip, Set};

/// A program that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(600);
/// Time limit of a kernel, unless the user sets one. It is shorter than [`SILENCE`], so that the sim names the kernel.
const KERNEL_LIMIT: Duration = Duration::from_secs(500);
/// SIGXCPU, the signal to a program that has used up its CPU time.
const OUT_OF_TIME: i32 = 24;
/// Starts a program, which the kernel stops after some seconds of CPU time: sh -c LIMITED SECONDS PROGRAM...
const LIMITED: &str = "ulimit -c 0 && ulimit -S -t \"$0\" && exec \"$@\"";

/// Programs of rocRAND that `cargo xtask test --all` runs: those that take less than a second.
const SAMPLE: [&str; 10] = [
    "test_log_normal_distribution",
    "test_normal_distribution",
    "test_rocrand_generator_type",
    "test_rocrand_kernel_mtgp32",
    "test_rocrand_kernel_philox4x32_10",
    "test_rocrand_kernel_sobol32",
    "test_rocrand_kernel_sobol64",
    "test_rocrand_kernel_xorwow",
    "test_rocrand_linkage",
    "test_uniform_distribution",
];
/// A GPU that the sample runs on, for which rocRAND has code.
const SAMPLE_TARGET: &str = "gfx1100";

/// The tests of one library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Sorts, scans and reductions as CUB names them
    Hipcub,
    /// rocFFT by HIP's interface
    Hipfft,
    /// rocRAND by HIP's interface
    Hiprand,
    /// rocSPARSE by HIP's interface
    Hipsparse,
    /// Collectives on several GPUs; give it two targets, such as gfx906,gfx906; HIP 5.7
    Rccl,
    /// Linear algebra
    Rocblas,
    /// Fourier transforms, which are compiled when they run
    Rocfft,
    /// Sorts, scans and reductions
    Rocprim,
    /// Random numbers: host functions, device functions, and their distributions
    Rocrand,
    /// Sparse linear algebra
    Rocsparse,
    /// Algorithms as Thrust names them
    Rocthrust,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hipcub => "hipCUB",
            Self::Hipfft => "hipFFT",
            Self::Hiprand => "hipRAND",
            Self::Hipsparse => "hipSPARSE",
            Self::Rccl => "RCCL",
            Self::Rocblas => "rocBLAS",
            Self::Rocfft => "rocFFT",
            Self::Rocprim => "rocPRIM",
            Self::Rocrand => "rocRAND",
            Self::Rocsparse => "rocSPARSE",
            Self::Rocthrust => "rocThrust",
        })
    }
}

/// One program of a suite, with the filter of its cases.
struct Run<'a> {
    suite: Suite,
    hip: Hip,
    target: &'a Target,
    /// Folder of the suite's programs, below the root.
    folder: &'a Path,
    program: &'a str,
    /// GoogleTest filter.
    filter: &'a str,
    /// The program is stopped after this CPU time, and the rest of its cases is skipped.
    limit: Option<Duration>,
}

/// Runs the cases of a suite that match the GoogleTest filter `filter`, each program for `limit` of CPU
/// time at most.
///
/// # Errors
/// When the packages cannot be had, or a program does not start.
pub fn test(
    layout: &Layout,
    steps: &Steps,
    hip: Hip,
    suite: Suite,
    target: &Target,
    filter: &str,
    limit: Option<Duration>,
) -> Result<Tally> {
    let folder = &prepare(layout, steps, hip, suite)?;
    let shown = root::folder(layout, hip).join(folder);
    let entries = fs::read_dir(&shown).context(|| format!("reading {}", shown.display()))?;
    let mut programs: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // A script that runs all the programs.
    programs.retain(|program| program != "run-tests");
    programs.sort();
    let mut total = Tally::default();
    for program in &programs {
        total += run(layout, steps, &Run { suite, hip, target, folder, program, filter, limit })?;
    }
    if total == Tally::default() {
        return Err(Error::setup(format!("no case of {suite} matches {filter}")));
    }
    Ok(total)
}

/// Runs the sample of rocRAND's tests.
///
/// # Errors
/// As [`test()`].
pub fn run_sample(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let suite = Suite::Rocrand;
    let hip = Hip::V5_7;
    let folder = &prepare(layout, steps, hip, suite)?;
    let target = &SAMPLE_TARGET.parse().map_err(Error::setup)?;
    let mut total = Tally::default();
    for program in SAMPLE {
        total += run(layout, steps, &Run { suite, hip, target, folder, program, filter: "*", limit: None })?;
    }
    Ok(total)
}

/// Installs a suite in the root. Returns the folder of its programs, below the root.
fn prepare(layout: &Layout, steps: &Steps, hip: Hip, suite: Suite) -> Result<PathBuf> {
    setup::sim(layout, steps)?;
    root::ensure(layout, steps, hip, Set::Tests(suite))?;
    root::tests(hip, suite).ok_or_else(|| Error::setup(format!("{suite} has no tests for HIP {}", hip.name())))
}

fn run(layout: &Layout, steps: &Steps, run: &Run) -> Result<Tally> {
    let name = format!("{} on {}: {}", run.suite, run.target.agents(), run.program);
    let start = Instant::now();
    let (report, is_late) = steps.step(&name, |step| execute(layout, step, run))?;
    let mut tally = Tally::default();
    for (case, outcome) in &report.cases {
        let verdict = match outcome {
            Outcome::Passed => {
                tally.passed += 1;
                Verdict::Passed
            }
            Outcome::NotRun(_) if is_late => {
                tally.skipped += 1;
                Verdict::Skipped("out of time".to_owned())
            }
            Outcome::Skipped(skip) => {
                tally.skipped += 1;
                Verdict::Skipped(skip.reason.clone())
            }
            Outcome::Failed(text) | Outcome::NotRun(text) => {
                tally.failed += 1;
                println!("  FAILED  {} {case}: {text}", run.program);
                Verdict::Failed(text.clone())
            }
        };
        steps.record(&name, case, verdict, report.times.get(case).copied());
    }
    let end = if is_late { ", stopped at its limit" } else { "" };
    println!("{:40} {tally} ({:.1} s{end})", run.program, start.elapsed().as_secs_f64());
    Ok(tally)
}

/// Runs a program to its end or to its limit. Returns its cases, and true if it was stopped at its limit.
fn execute(layout: &Layout, step: &Step, run: &Run) -> Result<(Report, bool)> {
    let command = |limit: Option<Duration>| -> Command {
        let mut command = super::enter(layout, run.hip, run.target, Path::new("/tmp"));
        limit_kernels(&mut command, KERNEL_LIMIT);
        // rocBLAS's tests do not print the cases that passed, unless told to.
        command.env("GTEST_LISTENER", "PASS_LINE_IN_LOG");
        if let Some(limit) = limit {
            command.args(["sh", "-c", LIMITED, &limit.as_secs().to_string()]);
        }
        command.arg(Path::new("/").join(run.folder).join(run.program));
        command.arg(format!("--gtest_filter={}", run.filter));
        command
    };
    let mut list = command(None);
    list.arg("--gtest_list_tests");
    let mut listed = gtest::listed(&String::from_utf8_lossy(&step.capture(list)?));
    // GoogleTest lists the cases that their authors have switched off, and does not run them.
    listed.retain(|name| !name.split(['.', '/']).any(|part| part.starts_with("DISABLED_")));
    let mut report = Report::default();
    if listed.is_empty() {
        return Ok((report, false));
    }
    let mut command = command(run.limit);
    command.arg("--gtest_color=no");
    let ended = step.follow(command, Some(run.limit.map_or(SILENCE, |limit| limit + SILENCE)), |line| {
        report.line(line);
    })?;
    let (how, is_late) = match ended {
        Ended::Exit(status) => (process::describe(status), status.signal() == Some(OUT_OF_TIME)),
        Ended::Silent => (format!("no output for {} s, killed", SILENCE.as_secs()), false),
    };
    if is_late {
        report.interrupt();
    }
    report.finish(&listed, &how);
    Ok((report, is_late))
}
