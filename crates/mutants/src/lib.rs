// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask mutants`: applies small changes to the driver that would be wrong on hardware, and checks that a test
//! fails for each. The tests are the driver's own and IREE's conformance tests, on the sim with cache modelling
//! (`HSA_SIM_MEMORY=strict`).
//!
//! One driver contains all changes: each place has a branch for each change of it, and an environment variable selects
//! the change in force. So there is one build, and a change costs only the tests up to the first that fails.

mod build;
mod list;
mod programs;
mod sources;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use list::Mutant;
use programs::{Case, Program};
use sources::Sources;
use xtask_core::error::{Error, Result};
use xtask_core::glob;
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};

/// GPU of the conformance tests. The driver's tests choose their own.
const TARGET: &str = "gfx1100";

/// Seeds of further runs of the conformance tests, after a run without a seed.
const SEEDS: [u32; 2] = [1, 2];

/// Time limit of a program with a change, which may make it hang: this time plus this multiple of its time without.
const PATIENCE: (Duration, u32) = (Duration::from_secs(15), 4);

/// A run of a program that passes without any change.
struct Run<'a> {
    program: &'a Program,
    seed: Option<u32>,
    time: Duration,
}

/// Result of a change.
struct Row<'a> {
    mutant: &'a Mutant,
    /// Test case that detected the change.
    caught_by: Option<Case>,
    time: Duration,
}

impl Row<'_> {
    /// True if the result matches the list: a test detected the change exactly if the list has no proof for it.
    fn is_expected(&self) -> bool {
        self.caught_by.is_some() != self.mutant.proof.is_some()
    }

    fn line(&self) -> String {
        let (outcome, by) = match &self.caught_by {
            Some(case) => ("caught", case.to_string()),
            None if self.mutant.proof.is_some() => ("missed", "which is proved to do no harm".to_owned()),
            None => ("missed", format!("({})", self.mutant.why)),
        };
        format!("{:44} {outcome} {:>6.1} s  {by}", self.mutant.name, self.time.as_secs_f64())
    }
}

/// Tests the changes whose names match the glob `filter`, and prints a line for each and the counts.
///
/// # Errors
/// When the list does not fit the driver, when a test fails without any change, or when a change without a proof is
/// not detected.
pub fn run(layout: &Layout, steps: &Steps, filter: &str) -> Result<()> {
    let mut mutants = list::load(&layout.root)?;
    let sources = Sources::read(&layout.root)?;
    build::write_tree(layout, &sources, &mutants)?;
    let programs = build::programs(layout, steps, &sources.crates, &TARGET.parse().map_err(Error::setup)?)?;
    mutants.retain(|mutant| glob::matches(filter, &mutant.name));
    if mutants.is_empty() {
        return Err(Error::setup(format!("no change's name matches {filter}")));
    }
    let runs = steps.step("Tests of the unchanged driver", |step| baseline(layout, step, &programs))?;
    let mut rows = steps.step("Mutants", |step| attempt_all(layout, step, &runs, &mutants))?;
    rows.sort_by_key(|row| row.mutant.number);
    rows.iter().for_each(|row| println!("{}", row.line()));
    conclude(&rows)
}

fn conclude(rows: &[Row]) -> Result<()> {
    let unexpected: Vec<_> = rows.iter().filter(|row| !row.is_expected()).collect();
    for row in unexpected.iter().filter(|row| row.caught_by.is_some()) {
        println!("{}: the list has a proof that it does no harm, which is wrong", row.mutant.name);
    }
    let caught = rows.iter().filter(|row| row.caught_by.is_some()).count();
    println!("{caught} caught, {} missed", rows.len() - caught);
    match unexpected.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} changes are not what the list says"))),
    }
}

/// Runs everything without a change. The quickest run comes first in the result.
fn baseline<'a>(layout: &Layout, step: &Step, programs: &'a [Program]) -> Result<Vec<Run<'a>>> {
    let seeds = |program: &Program| if program.takes_seeds() { SEEDS.as_slice() } else { &[] };
    let all: Vec<_> = programs
        .iter()
        .flat_map(|program| {
            [None].into_iter().chain(seeds(program).iter().copied().map(Some)).map(move |seed| (program, seed))
        })
        .collect();
    let mut runs = Vec::new();
    for (index, (program, seed)) in all.iter().enumerate() {
        step.progress(index as u64, all.len() as u64, &program.name);
        let start = Instant::now();
        if let Some(failure) = program.run(layout, step, &programs::Options { seed: *seed, ..Default::default() })? {
            return Err(Error::setup(format!("without any change {} fails:\n{}", failure.case, failure.text)));
        }
        runs.push(Run { program, seed: *seed, time: start.elapsed() });
    }
    // Runs with seeds come last, for mutants that nothing else catches.
    runs.sort_by_key(|run| (run.seed, run.time));
    Ok(runs)
}

/// Tests changes, one at a time on each core.
fn attempt_all<'a>(layout: &Layout, step: &Step, runs: &[Run], mutants: &'a [Mutant]) -> Result<Vec<Row<'a>>> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let row = attempt(layout, step, runs, mutant).map(|caught_by| Row {
                        mutant,
                        caught_by,
                        time: start.elapsed(),
                    });
                    // The receiver is gone after an error.
                    if sender.send(row).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut rows = Vec::new();
        for row in results {
            let row: Row = row?;
            if let Some(case) = &row.caught_by {
                row.mutant.remember(&case.to_string())?;
            }
            step.log(&row.line())?;
            step.progress(rows.len() as u64 + 1, mutants.len() as u64, &row.mutant.name);
            rows.push(row);
        }
        Ok(rows)
    })
}

/// Runs tests with a change until one fails, beginning with the case that last detected it.
fn attempt(layout: &Layout, step: &Step, runs: &[Run], mutant: &Mutant) -> Result<Option<Case>> {
    let options = |run: &Run| programs::Options {
        mutant: Some(mutant.number),
        seed: run.seed,
        case: None,
        limit: Some(PATIENCE.0 + PATIENCE.1 * run.time),
    };
    if let Some(last) = mutant.caught_by.as_deref().map(Case::parse)
        && let Some(run) = runs.iter().find(|run| run.program.name == last.program && run.seed == last.seed)
    {
        let again = programs::Options { case: last.name.as_deref(), ..options(run) };
        if let Some(failure) = run.program.run(layout, step, &again)? {
            return Ok(Some(failure.case));
        }
    }
    for run in runs {
        let Some(failure) = run.program.run(layout, step, &options(run))? else { continue };
        // On a busy machine a program may exceed its time without any change, too.
        let unchanged = programs::Options { mutant: None, ..options(run) };
        if run.program.run(layout, step, &unchanged)?.is_none() {
            return Ok(Some(failure.case));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_proved_may_be_missed_and_nothing_else() {
        let expected = |proof: Option<&str>, caught: bool| {
            let mutant = Mutant { proof: proof.map(Into::into), ..Mutant::default() };
            let caught_by = caught.then(|| Case::parse("queues"));
            Row { mutant: &mutant, caught_by, time: Duration::ZERO }.is_expected()
        };
        assert!(expected(None, true) && expected(Some("it is so"), false));
        assert!(!expected(None, false) && !expected(Some("it is so"), true));
    }
}
