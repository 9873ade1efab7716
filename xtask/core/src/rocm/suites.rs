// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Tests of ROCm's libraries, which Debian has compiled for many GPUs. They check themselves.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};
use crate::gtest::Outcome;
use crate::junit::Verdict;
use crate::layout::Layout;
use crate::setup;
use crate::steps::Steps;
use crate::tally::Tally;
use crate::target::Target;

use super::program::Run;
use super::root::{self, Hip, Set};

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
    let (report, is_late) = steps.step(&name, |step| run.execute(layout, step))?;
    let mut tally = Tally::default();
    for (case, outcome) in &report.cases {
        let verdict = match outcome {
            Outcome::Passed => {
                tally.passed += 1;
                Verdict::Passed
            }
            Outcome::NotRun(_) if is_late => {
                tally.late += 1;
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
    let end = if is_late { ", stopped" } else { "" };
    println!("{:40} {tally} ({:.1} s{end})", run.program, start.elapsed().as_secs_f64());
    Ok(tally)
}
