// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask triton`: kernels in Triton's language, compiled by Triton without a GPU, run on the sim under its
//! checks and compared with NumPy. The Python programs beside this file have the kernels, compile and run them; this
//! module starts them, one for each core, and judges their reports by the list of known faults.

mod known;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use known::{Known, Verdict};
use xtask_core::error::{Error, Result};
use xtask_core::hsa::limit_kernels;
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::setup;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// The GPUs of the sim that Triton compiles for.
pub const TARGETS: [&str; 9] =
    ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250"];

/// The cases that `cargo xtask test --all` runs, a glob on each line.
const SAMPLE: &str = include_str!("sample.txt");
/// The targets that it runs them on: one of each generation that differs in matrix and LDS instructions.
const SAMPLE_TARGETS: [&str; 4] = ["gfx942", "gfx1100", "gfx1201", "gfx1250"];
/// The limit of a kernel's time on the sim.
const KERNEL_LIMIT: Duration = Duration::from_secs(120);
/// A program that prints nothing for this long hangs: more than `check.py` allows a case.
const SILENCE: Duration = Duration::from_secs(400);

/// Output of `check.py`: the number of cases, then a line for each.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Count { cases: usize },
    Case(Case),
}

/// A case that has ended.
#[derive(Deserialize)]
struct Case {
    /// The kernel and its variant.
    name: String,
    /// Result.
    outcome: Outcome,
    /// Reason of a refusal or a failure.
    detail: String,
    /// The code object, if there is one.
    path: String,
}

/// Result of a case.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// The results are NumPy's, and the sim's checks found nothing.
    Passed,
    /// Triton did not compile the kernel.
    Refused,
    /// The results differ, a check found something, or the kernel did not end.
    Failed,
}

/// Runs the cases that match `filter` on the sim's `targets`.
///
/// # Errors
/// When Triton or the sim cannot be set up, a target is none of Triton's, or no case matches. Failures are counted.
pub fn run(layout: &Layout, steps: &Steps, targets: &[Target], filter: &str) -> Result<Tally> {
    run_globs(layout, steps, targets, &[filter])
}

/// Runs the sample on the targets of the sample.
///
/// # Errors
/// As [`run`].
pub fn run_sample(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let targets: Result<Vec<Target>> = SAMPLE_TARGETS.iter().map(|name| name.parse().map_err(Error::setup)).collect();
    let globs: Vec<_> = SAMPLE.lines().filter(|line| !line.starts_with('#')).collect();
    run_globs(layout, steps, &targets?, &globs)
}

fn run_globs(layout: &Layout, steps: &Steps, targets: &[Target], globs: &[&str]) -> Result<Tally> {
    if let Some(target) = targets.iter().find(|target| !TARGETS.contains(&target.as_ref())) {
        return Err(Error::setup(format!(
            "Triton does not compile for {target} (its message for gfx1010 and gfx1030 is `unsupported target`); it does \
             for {}",
            TARGETS.join(", ")
        )));
    }
    setup::triton(layout, steps)?;
    let known = known::load()?;
    let mut total = Tally::default();
    for target in targets {
        let name = format!("Triton's kernels on {target}");
        let (cases, time) = timed(|| steps.step(&name, |step| run_on(layout, step, target, globs)));
        let tally = conclude(target, &cases?, &known);
        steps.record(&format!("triton on {target}"), "all", tally.verdict(), Some(time));
        total += tally;
    }
    Ok(total)
}

/// Compiles and runs cases, one at a time on each core. They come in the order of their names.
fn run_on(layout: &Layout, step: &Step, target: &Target, globs: &[&str]) -> Result<Vec<Case>> {
    let jobs = thread::available_parallelism().map_or(1, NonZero::get);
    let (sender, lines) = mpsc::channel();
    let mut cases = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|job| {
                let command = checker(layout, target, globs, &format!("{job}/{jobs}"));
                let sender = sender.clone();
                scope.spawn(move || follow(command, |line| sender.send(line).is_ok()))
            })
            .collect();
        drop(sender);
        let mut total = 0;
        for line in lines {
            match line {
                Line::Count { cases } => total = cases,
                Line::Case(case) => {
                    step.log(&format!("{:?} {} {} {}", case.outcome, case.name, case.path, case.detail))?;
                    cases.push(case);
                    step.progress(cases.len() as u64, total as u64, cases.last().map_or("", |case| &case.name));
                }
            }
        }
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::setup("a thread that follows a program panicked")))
        })
    })?;
    if cases.is_empty() {
        return Err(Error::setup(format!("no case of Triton's kernels matches {}", globs.join(" "))));
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// The program that compiles and runs a share of the cases.
fn checker(layout: &Layout, target: &Target, globs: &[&str], shard: &str) -> Command {
    let mut python = Command::new(layout.venv_program("python3"));
    python.arg("-B").arg(layout.root.join("xtask/src/triton/check.py"));
    python.args(["--target", target.as_ref(), "--shard", shard, "--library"]).arg(layout.sim_library()).args(globs);
    python.env("TRITON_CACHE_DIR", layout.build.join("triton/cache"));
    python.env("HSA_SIM_AGENTS", target.agents()).env("HSA_SIM_CHECK", "all");
    limit_kernels(&mut python, KERNEL_LIMIT);
    python
}

/// Runs a program to its end, and hands on its lines while `each` takes them.
fn follow(command: Command, mut each: impl FnMut(Line) -> bool) -> Result<()> {
    let shown = process::display(&command);
    let mut others = Vec::new();
    let ended = process::follow(command, Some(SILENCE), |line| match serde_json::from_str(line) {
        Ok(line) => {
            each(line);
        }
        Err(_) => others.push(line.to_owned()),
    });
    let how = match ended {
        Ok(Ended::Exit(status)) if status.success() => return Ok(()),
        Ok(Ended::Exit(status)) => process::describe(status),
        Ok(Ended::Silent { .. }) => format!("no output for {} s, killed", SILENCE.as_secs()),
        Err(error) => error.to_string(),
    };
    let last = others.last().map_or("", String::as_str);
    Err(Error::setup(format!("`{shown}`: {how}: {last}")))
}

/// Prints failures and, by their reasons, the others that did not pass; counts them.
fn conclude(target: &Target, cases: &[Case], known: &[Known]) -> Tally {
    let mut tally = Tally::default();
    let mut reasons = BTreeMap::<(&str, &str), usize>::new();
    for case in cases {
        match known::judge(known, target.as_ref(), case) {
            Verdict::Passed => tally.passed += 1,
            Verdict::Refused(why) => {
                tally.skipped += 1;
                *reasons.entry(("not compiled", why)).or_default() += 1;
            }
            Verdict::Known(why) => {
                tally.known += 1;
                *reasons.entry(("known", why)).or_default() += 1;
            }
            Verdict::Failed(why) => {
                tally.failed += 1;
                println!("  FAILED  {} on {target}: {why}", case.name);
                if !case.path.is_empty() {
                    println!("          {}", case.path);
                }
            }
        }
    }
    for ((kind, why), count) in reasons {
        println!("  {count:4} {kind}: {why}");
    }
    println!("  {target}: {tally}");
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkers_lines_are_understood() {
        let count = serde_json::from_str(r#"{"cases": 3}"#).unwrap();
        assert!(matches!(count, Line::Count { cases: 3 }));
        let case = r#"{"name": "add_f32", "outcome": "refused", "detail": "no", "path": "", "seconds": 0.5}"#;
        let Line::Case(case) = serde_json::from_str(case).unwrap() else { panic!("{case} is no case") };
        assert_eq!((case.name.as_str(), case.outcome), ("add_f32", Outcome::Refused));
    }

    #[test]
    fn globs_of_the_sample_are_not_empty() {
        assert!(SAMPLE.lines().all(|line| !line.is_empty() && !xtask_core::glob::matches(line, "")));
    }
}
