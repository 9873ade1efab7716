// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask soak`: random HAL programs, `tests/soak`, on the sim with cache modelling; without it for
//! ThreadSanitizer and for the sim's checks.

use std::path::Path;
use std::time::Duration;

use xtask_core::conditions::Conditions;
use xtask_core::error::{Error, Result};
use xtask_core::flavor::Sanitizer;
use xtask_core::hsa::{Hsa, limit_kernels};
use xtask_core::junit::Verdict;
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::setup;
use xtask_core::steps::{Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A soak that prints nothing for this long hangs: longer than the limit of a program and of its reduction.
const SILENCE: Duration = Duration::from_secs(400);

/// Time limit of a program's kernel on the sim.
const KERNEL_LIMIT: Duration = Duration::from_secs(60);

/// Prefix of the lines about failed programs.
const FAILURE: &str = "soak failure: ";

/// Options of a soak.
#[derive(Clone, Copy)]
pub struct Options {
    /// Seed of the first program.
    pub seed: u64,
    /// Time limit.
    pub time: Duration,
    /// Maximum number of programs.
    pub programs: u64,
}

/// Parsed output of a soak.
#[derive(Default)]
struct Output {
    failures: Vec<String>,
    counts: String,
    tally: Option<Tally>,
}

impl Output {
    fn line(&mut self, line: &str) {
        if let Some(failure) = line.strip_prefix(FAILURE) {
            self.failures.push(failure.to_owned());
        } else if let Some(counts) = line.strip_prefix("soak counts: ") {
            self.counts = counts.to_owned();
        } else if let Some(tally) = line.strip_prefix("soak tally: ") {
            let numbers =
                tally.split_once(' ').and_then(|(passed, failed)| Some((passed.parse().ok()?, failed.parse().ok()?)));
            self.tally = numbers.map(|(passed, failed)| Tally { passed, failed, ..Tally::default() });
        }
    }
}

/// Runs programs on the sim's `target`, and prints the reduced failures and the counts.
///
/// # Errors
/// When the soak cannot be built, or does not end properly.
pub fn run(
    layout: &Layout,
    steps: &Steps,
    target: &Target,
    options: Options,
    conditions: &Conditions,
) -> Result<Tally> {
    let sanitizer = layout.flavor.sanitizer();
    let place = format!("{}{}{conditions}", target.agents(), layout.flavor.suffix());
    let (result, time) = timed(|| {
        steps.step(&format!("Soak on {place}"), |step| {
            let mut cargo = layout.cargo();
            cargo.args(["test", "--workspace", "--locked", "--test", "soak", "--no-run", "--message-format=json"]);
            if let Some(sanitizer) = sanitizer {
                sanitizer.instrument(&mut cargo);
                cargo.arg("--target-dir").arg(layout.cargo_target());
            }
            let messages = step.capture(cargo)?;
            let program = setup::built_library(&String::from_utf8_lossy(&messages), "soak", "")
                .ok_or_else(|| Error::setup("cargo built no test `soak`"))?;
            let mut command = layout.command(Path::new(&program));
            command.args(["--exact", "soak", "--nocapture"]);
            Hsa::Sim.apply(layout, target, &mut command);
            limit_kernels(&mut command, KERNEL_LIMIT);
            command.env("AMDGPU_RS_TEST_HSA", layout.sim_library());
            let Options { seed, time, programs } = options;
            let mut amount = format!("{seed} {} {programs}", time.as_secs());
            if let Some(sanitizer) = sanitizer {
                sanitizer.apply(&layout.root, &mut command);
                amount += &format!(" --sanitizer {}", sanitizer.name());
                // Caches move whole lines, while a host may write their other bytes: a race to ThreadSanitizer.
                if sanitizer == Sanitizer::Thread {
                    command.env("HSA_SIM_MEMORY", "coherent");
                }
            }
            if let Some(queues) = conditions.queues {
                amount += &format!(" --queues {queues}");
            }
            if let Some(check) = &conditions.check {
                amount += &format!(" --check {check}");
                // Where caches are modelled, stores of the same bytes by two workgroups are told as well.
                command.env("HSA_SIM_MEMORY", "coherent");
            }
            conditions.apply_check(&mut command);
            command.env("AMDGPU_RS_SOAK", amount);
            let shown = process::display(&command);
            let mut output = Output::default();
            let (how, is_good) = match step.follow(command, Some(SILENCE), |line| output.line(line))? {
                Ended::Exit(status) => (process::describe(status), status.success()),
                Ended::Silent { .. } => (format!("no output for {} s, killed", SILENCE.as_secs()), false),
            };
            match output.tally {
                // A run that fails although no program failed prints its own report.
                Some(tally) if is_good || tally.failed > 0 => Ok((output, tally)),
                _ => Err(step.failure(&shown, &how)),
            }
        })
    });
    let (output, tally) = result?;
    for (index, line) in output.failures.iter().enumerate() {
        let mark = if index == 0 || line.starts_with("program ") { "  FAILED  " } else { "          " };
        println!("{mark}{line}");
    }
    println!("  {target}: {}", output.counts);
    let verdict = match tally.failed {
        0 => Verdict::Passed,
        _ => Verdict::Failed(output.failures.join("\n")),
    };
    steps.record(&format!("soak on {place}"), "random programs", verdict, Some(time));
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_is_summed_up() {
        let mut output = Output::default();
        for line in ["12 programs", "soak failure: program 7: wrong", "soak counts: 3 fills", "soak tally: 12 1"] {
            output.line(line);
        }
        assert_eq!(output.tally, Some(Tally { passed: 12, failed: 1, ..Tally::default() }));
        assert_eq!(output.failures, ["program 7: wrong"]);
        assert_eq!(output.counts, "3 fills");
    }
}
