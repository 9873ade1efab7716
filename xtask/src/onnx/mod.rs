// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask onnx`: ONNX's backend tests, from the wheel of the package `onnx`, imported by `iree-import-onnx`,
//! compiled for a GPU, run through the driver and compared with the results that ONNX expects. Where they differ,
//! IREE's CPU backend tells whether the compiler or this project is wrong.

mod compare;
mod judge;
pub mod networks;
pub mod ocr;
mod runner;
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use judge::{Judge, Outcome, Verdict};
use tests::Test;
use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// Globs of the tests that `cargo xtask test` runs, one on each line.
const SAMPLE: &str = include_str!("sample.txt");
/// Number of refusals to print. The file of results has all.
const SHOWN_REFUSALS: usize = 12;

/// Runs the tests whose names match `filter` on the sim's `target`, `jobs` at a time (default: one for each core).
///
/// # Errors
/// When a test cannot be judged. A test that fails is counted.
pub fn run(
    layout: &Layout,
    steps: &Steps,
    target: &Target,
    conditions: &Conditions,
    filter: &str,
    jobs: Option<usize>,
) -> Result<Tally> {
    let verdicts = judge_all(layout, steps, (target, conditions), &[filter], jobs)?;
    print_refusals(&verdicts);
    Ok(conclude(target, &verdicts))
}

/// Runs the sample.
///
/// # Errors
/// When a test cannot be judged. A test that fails is counted.
pub fn run_sample(layout: &Layout, steps: &Steps, target: &Target, conditions: &Conditions) -> Result<Tally> {
    let globs: Vec<_> = SAMPLE.lines().filter(|line| !line.starts_with('#')).collect();
    Ok(conclude(target, &judge_all(layout, steps, (target, conditions), &globs, None)?))
}

fn judge_all(
    layout: &Layout,
    steps: &Steps,
    (target, conditions): (&Target, &Conditions),
    globs: &[&str],
    jobs: Option<usize>,
) -> Result<Vec<Verdict>> {
    setup::onnx(layout, steps)?;
    let tests = tests::import(layout, steps, globs)?;
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    steps.step(&format!("{} of ONNX's tests on {target}{conditions}", tests.len()), |step| {
        let judge = Judge::new(layout, target, conditions)?;
        judge_in_parallel(step, &judge, &tests, jobs)
    })
}

/// Judges tests on `jobs` threads. Takes cached verdicts from the file of results, and appends each new verdict to it.
fn judge_in_parallel(step: &Step, judge: &Judge, tests: &[Test], jobs: usize) -> Result<Vec<Verdict>> {
    let (mut file, known) = judge.results()?;
    let (mut verdicts, todo): (Vec<_>, Vec<_>) = tests.iter().map(|test| (known.get(&test.name), test)).fold(
        (Vec::new(), Vec::new()),
        |(mut verdicts, mut todo), (verdict, test)| {
            match verdict {
                Some(verdict) => verdicts.push(verdict.clone()),
                None => todo.push(test),
            }
            (verdicts, todo)
        },
    );
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next, todo) = (sender.clone(), &next, &todo);
            scope.spawn(move || {
                while let Some(test) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver is gone after an error.
                    if sender.send(judge.verdict(test)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for verdict in results {
            let verdict: Verdict = verdict?;
            let line = serde_json::to_string(&verdict).map_err(|error| Error::setup(error.to_string()))?;
            writeln!(file, "{line}").context(|| "writing the file of results".to_owned())?;
            verdicts.push(verdict);
            let name = verdicts.last().map_or("", |verdict| &verdict.name);
            step.progress(verdicts.len() as u64, tests.len() as u64, name);
        }
        Ok::<_, Error>(())
    })?;
    verdicts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(verdicts)
}

/// Returns the ONNX operation that the compiler has no lowering for, or the whole line.
fn reason(line: &str) -> &str {
    let operation = line.split_once("name = \"").and_then(|(_, rest)| rest.split('"').next());
    operation.filter(|_| line.contains("'torch.operator'")).unwrap_or(line)
}

/// Prints the refusals of the importer and the compiler, counted by their first lines.
fn print_refusals(verdicts: &[Verdict]) {
    let mut counts = BTreeMap::<&str, usize>::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Refused) {
        *counts.entry(reason(&verdict.detail)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(line, count)| (std::cmp::Reverse(count), line));
    for (line, count) in counts.iter().take(SHOWN_REFUSALS) {
        println!("  {count:4} refused: {}", line.chars().take(120).collect::<String>());
    }
    let others: usize = counts.iter().skip(SHOWN_REFUSALS).map(|(_, count)| count).sum();
    if others > 0 {
        println!("  {others:4} refused for other reasons");
    }
}

/// Prints the failures and the counts.
fn conclude(target: &Target, verdicts: &[Verdict]) -> Tally {
    for verdict in verdicts {
        match verdict.outcome {
            Outcome::Compilers => println!("  compiler {:40} {}", verdict.name, verdict.detail),
            Outcome::Ours => println!("  FAILED   {:40} {}", verdict.name, verdict.detail),
            Outcome::Passed | Outcome::Refused => {}
        }
    }
    let count = |outcome| verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
    let (refused, compilers) = (count(Outcome::Refused), count(Outcome::Compilers));
    let tally = Tally {
        passed: count(Outcome::Passed),
        failed: count(Outcome::Ours),
        skipped: refused,
        known: compilers,
        ..Tally::default()
    };
    println!(
        "  {target}: {} of {} tests passed, {refused} refused by the importer or the compiler, {compilers} the compiler's \
         (wrong on the CPU backend in the same way, or a kernel without an end), {} ours",
        tally.passed,
        verdicts.len(),
        tally.failed
    );
    tally
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn an_operation_without_a_lowering_is_named() {
        let line = "failed to legalize operation 'torch.operator' that was explicitly marked illegal: \
                    %1 = \"torch.operator\"(%arg0) <{name = \"onnx.Det\"}> : (!torch.vtensor<[2,2],f32>)";
        assert_eq!(reason(line), "onnx.Det");
        assert_eq!(reason("input x is a sequence"), "input x is a sequence");
    }
}
