// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A soak: programs until the time is over, and what became of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::child::{self, Task};
use crate::generate;
use crate::kernels;
use crate::shrink;

/// How much is run, and where it begins: `<seed> <seconds> <programs>`; whichever of the last two is reached first is the end.
const VARIABLE: &str = "AMDGPU_RS_SOAK";

/// Programs of a process.
const BATCH: u64 = 25;

/// How long a program that failed is made smaller.
const SHRINKING: Duration = Duration::from_secs(180);

/// After so many programs that failed, there is enough to look at.
const MOST_FAILURES: u64 = 3;

pub struct Options {
    seed: u64,
    time: Duration,
    programs: u64,
    /// The sim's seed, if it is not to be another one in each process.
    sim_seed: Option<u64>,
}

impl Options {
    pub fn from_environment() -> Self {
        let text = std::env::var(VARIABLE).unwrap_or_else(|_| "1 3600 20".to_owned());
        let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [seed, seconds, programs] = numbers[..] else {
            panic!("{VARIABLE}: expected three numbers, found '{text}'")
        };
        let sim_seed = std::env::var("HSA_SIM_SEED").ok().map(|text| text.parse().expect("HSA_SIM_SEED is a number"));
        Self { seed, time: Duration::from_secs(seconds), programs, sim_seed }
    }
}

/// Runs programs and prints what failed and the counts; how many failed.
pub fn run(options: &Options) -> u64 {
    let deadline = Instant::now() + options.time;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut next, end) = (options.seed, options.seed.saturating_add(options.programs));
    let (mut passed, mut failed) = (0, 0);
    while next < end && Instant::now() < deadline && failed < MOST_FAILURES {
        let sim_seed = options.sim_seed.unwrap_or(1 + next % 1000);
        let task = Task::new(next, BATCH.min(end - next), sim_seed);
        let mut now = passed;
        let ended = child::run(&task, Some(deadline), || {
            now += 1;
            println!("{now} programs");
        });
        passed += ended.passed;
        next += ended.passed;
        for (name, count) in ended.counts {
            *counts.entry(name).or_default() += count;
        }
        if let Some((seed, what)) = ended.failure {
            failed += 1;
            next = seed + 1;
            tell(&Task { seed, ..task.clone() }, &what, &task);
        }
    }
    let text: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!("soak counts: {}", text.join(", "));
    println!("soak tally: {passed} {failed}");
    failed
}

/// Prints a failure, how to see it again, and the smallest program that fails so.
fn tell(task: &Task, what: &str, batch: &Task) {
    let target = kernels::agents();
    let again = |seed: u64, programs: u64| {
        format!("HSA_SIM_SEED={} cargo xtask soak --target {target} --seed {seed} --programs {programs}", task.sim_seed)
    };
    println!("soak failure: program {} of HSA_SIM_SEED {}: {what}", task.seed, task.sim_seed);
    println!("soak failure:   again: {}", again(task.seed, 1));
    let smallest = shrink::shrink(task, SHRINKING);
    let Some(what) = smallest.what else {
        println!(
            "soak failure:   it did not fail again alone; with those before it: {}",
            again(batch.seed, batch.count)
        );
        for line in generate::program(task.seed).to_string().lines() {
            println!("soak failure:   {line}");
        }
        return;
    };
    println!("soak failure:   made smaller, it fails with: {what}");
    for line in smallest.program.to_string().lines() {
        println!("soak failure:   {line}");
    }
}
