// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A soak: programs until the time is over, and their results.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::child::{self, Task};
use crate::generate;
use crate::kernels;
use crate::shrink;

/// How much is run, and where it begins: `<seed> <seconds> <programs>`; whichever of the last two is reached first is
/// the end. Behind them, the other arguments of `cargo xtask soak`.
const VARIABLE: &str = "AMDGPU_RS_SOAK";

/// Hardware queues on each GPU, if they were asked for: for the children, too.
pub fn queues() -> Option<usize> {
    static QUEUES: LazyLock<Option<usize>> = LazyLock::new(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (_, rest) = text.split_once("--queues ")?;
        Some(rest.split(' ').next()?.parse().expect("a number of queues"))
    });
    *QUEUES
}

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
    /// Arguments that running a program again needs besides.
    arguments: String,
}

impl Options {
    pub fn from_environment() -> Self {
        let text = std::env::var(VARIABLE).unwrap_or_else(|_| "1 3600 20".to_owned());
        let mut words = text.splitn(4, ' ');
        let mut number = || -> u64 {
            let number = words.next().and_then(|word| word.parse().ok());
            number.unwrap_or_else(|| panic!("{VARIABLE}: expected three numbers, found '{text}'"))
        };
        let (seed, seconds, programs) = (number(), number(), number());
        let arguments = words.next().map(|rest| format!(" {rest}")).unwrap_or_default();
        let sim_seed = std::env::var("HSA_SIM_SEED").ok().map(|text| text.parse().expect("HSA_SIM_SEED is a number"));
        Self { seed, time: Duration::from_secs(seconds), programs, sim_seed, arguments }
    }
}

/// Runs programs, and prints failures and counts. Returns the number of failures.
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
            tell(&Task { seed, ..task.clone() }, &what, &task, &options.arguments);
        }
    }
    let text: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!("soak counts: {}", text.join(", "));
    println!("soak tally: {passed} {failed}");
    failed
}

/// Prints a failure, how to see it again, and the smallest program that fails so.
fn tell(task: &Task, what: &str, batch: &Task, arguments: &str) {
    let Task { seed, sim_seed, .. } = *task;
    let target = kernels::agents();
    let again = |seed: u64, programs: u64| {
        format!(
            "HSA_SIM_SEED={sim_seed} cargo xtask soak --target {target}{arguments} --seed {seed} --programs {programs}"
        )
    };
    let say = |text: &str| text.lines().for_each(|line| println!("soak failure: {line}"));
    let show = |program: String| program.lines().for_each(|line| println!("soak failure:   {line}"));
    say(&format!("program {seed} of HSA_SIM_SEED {sim_seed}: {what}"));
    say(&format!("  again: {}", again(seed, 1)));
    let smallest = shrink::shrink(task, SHRINKING);
    match smallest.what {
        Some(what) => {
            say(&format!("  made smaller, it fails with: {what}"));
            show(smallest.program.to_string());
        }
        None => {
            let again = again(batch.seed, batch.count);
            say(&format!("  it did not fail again alone; with those before it: {again}"));
            show(generate::program(seed).to_string());
        }
    }
}
