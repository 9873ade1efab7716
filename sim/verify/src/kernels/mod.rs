// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask kernels`: random kernels in C, compiled by clang for a GPU and for the host, run on both, compared bit
//! for bit. The seed decides the statements of a batch's kernels, and the batch's number the compiler flags. A kernel
//! whose results differ is then reduced.

mod batch;
mod expression;
mod generate;
mod reduce;

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use batch::Compiler;
use batch::{Batch, Finding, Outcome};
use xtask_core::error::{Error, Result};
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// Amount of work on each target.
#[derive(Clone, Copy)]
pub enum Amount {
    /// Number of kernels, rounded up to whole batches.
    Kernels(u32),
    /// Time limit.
    Time(Duration),
}

/// Seed and amount of the kernels on each target.
#[derive(Clone, Copy)]
pub struct Options {
    /// Seed of the first batch.
    pub seed: u64,
    /// Number of kernels or time limit.
    pub amount: Amount,
    /// Compiler of the kernels for the GPU.
    pub compiler: Compiler,
}

/// Sample of `cargo xtask test`: each set of compiler flags, and the first ones with the other wave size.
pub const SAMPLE: Options = Options { seed: 100, amount: Amount::Kernels(70), compiler: Compiler::Clang22 };
/// Sample of `cargo xtask test` with the old compiler.
const OLD_SAMPLE: Options = Options { seed: 100, amount: Amount::Kernels(50), compiler: Compiler::Clang14 };

/// Runs random kernels on the sim's `targets`.
///
/// # Errors
/// When clang or the sim is missing, or the sim or the compiler does not support a target. Kernels that differ are
/// counted as failures.
pub fn run(layout: &Layout, steps: &Steps, targets: &[Target], options: Options) -> Result<Tally> {
    let known = options.compiler.targets();
    // clang 22 compiles for every GPU of the sim; the list has one GPU of each instruction set.
    let is_known = |target: &&Target| {
        known.contains(&target.as_ref()) || options.compiler == Compiler::Clang22 && target.is_played()
    };
    if let Some(unknown) = targets.iter().find(|target| !is_known(target)) {
        let compiler = options.compiler.name();
        return Err(Error::setup(format!("{compiler} or the sim do not know {unknown}, but {}", known.join(", "))));
    }
    let mut total = Tally::default();
    for target in targets {
        let name = match options.compiler {
            Compiler::Clang22 => format!("Random kernels on {target}"),
            old => format!("Random kernels of {} on {target}", old.name()),
        };
        let (outcome, time) = timed(|| steps.step(&name, |step| run_on(layout, step, target, options)));
        let tally = conclude(layout, steps, target, &outcome?)?;
        steps.record(&name.to_lowercase(), "all", tally.verdict(), Some(time));
        total += tally;
    }
    Ok(total)
}

/// Runs `OLD_SAMPLE` on those of `targets` that the old compiler supports. Where the compiler cannot be installed,
/// the sample is skipped.
///
/// # Errors
/// As for [`run`].
pub fn run_old_sample(layout: &Layout, steps: &Steps, targets: &[Target]) -> Result<Tally> {
    let compiler = OLD_SAMPLE.compiler;
    let is_known = |target: &&Target| compiler.targets().contains(&target.as_ref());
    let targets: Vec<_> = targets.iter().filter(is_known).cloned().collect();
    if targets.is_empty() {
        return Ok(Tally::default());
    }
    if let Err(error) = setup::old_clang(steps) {
        println!("  skipped random kernels of {}: {error}", compiler.name());
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    run(layout, steps, &targets, OLD_SAMPLE)
}

/// Runs batches in parallel, one on each core.
fn run_on(layout: &Layout, step: &Step, target: &Target, options: Options) -> Result<Outcome> {
    let seen = Mutex::new(Outcome::default());
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let is_over = |number: usize| match options.amount {
        Amount::Kernels(count) => number as u32 * batch::KERNELS >= count,
        Amount::Time(time) => start.elapsed() >= time,
    };
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if is_over(number) {
                return Ok(());
            }
            let found = Batch::new(layout, target, options.compiler, options.seed, number as u64)?.run()?;
            let mut seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *seen += found;
        }
    };
    thread::scope(|scope| {
        let jobs = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::park_timeout(Duration::from_millis(100));
            let seen = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            step.note(&format!("{} kernels, {} differ", seen.run, seen.findings.len()));
        }
        let mut ended = workers.into_iter().map(|worker| worker.join());
        ended.try_for_each(|result| result.unwrap_or_else(|_| Err(Error::setup("a worker panicked"))))
    })?;
    Ok(seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Reduces and prints the kernels that differ, and prints the counts.
fn conclude(layout: &Layout, steps: &Steps, target: &Target, outcome: &Outcome) -> Result<Tally> {
    for (index, Finding { kernel, what, .. }) in outcome.findings.iter().enumerate() {
        println!("  FAILED  {kernel} on {target}: {what}");
        if index < reduce::MOST {
            let folder = steps.step(&format!("Reducing {kernel}"), |step| {
                reduce::reduce(layout, step, target, &outcome.findings[index])
            })?;
            println!("          {}", folder.display());
        }
    }
    for refused in &outcome.refused {
        println!("  clang   {refused}");
    }
    let tally = Tally {
        passed: outcome.run as usize - outcome.findings.len(),
        failed: outcome.findings.len(),
        skipped: outcome.refused.len(),
        ..Tally::default()
    };
    println!(
        "  {target}: {} random kernels agree with the host, {} differ, {} batches that clang cannot compile",
        tally.passed, tally.failed, tally.skipped
    );
    Ok(tally)
}
