// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs one test program with one change, and returns the first failed case.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::build;
use xtask_core::cts;
use xtask_core::error::{Context, Result};
use xtask_core::gtest::{Outcome, Report};
use xtask_core::hsa::{Hsa, limit_kernels};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::steps::Step;
use xtask_core::target::Target;

/// Environment variable with the number of the change in force.
pub const VARIABLE: &str = "AMDGPU_RS_MUTANT";

/// Time limit of a run without a change.
const BASELINE_LIMIT: Duration = Duration::from_secs(600);

/// Time after which a kernel counts as hanging.
const KERNEL_LIMIT: Duration = Duration::from_secs(60);

/// Number of last lines of a failed run to keep.
const TAIL_LINES: usize = 20;

/// Cases of the driver that compare times, which differ with cache modelling.
const MEASURES: [&str; 2] =
    ["a_small_copy_makes_its_round_trip_quickly", "releasing_many_deferred_submissions_takes_work_in_proportion"];

/// A test program.
pub struct Program {
    /// Name in messages and in the list.
    pub name: String,
    /// Path of the program.
    pub path: PathBuf,
    /// Format of its output.
    pub kind: Kind,
}

/// Origin of a program's tests.
pub enum Kind {
    /// The driver's own tests.
    Driver,
    /// IREE's conformance tests, on this GPU.
    Conformance(Target),
}

/// Options of a program's run.
#[derive(Default)]
pub struct Options<'a> {
    /// Number of the change in force.
    pub mutant: Option<usize>,
    /// Value of `HSA_SIM_SEED`.
    pub seed: Option<u32>,
    /// Only case to run.
    pub case: Option<&'a str>,
    /// Time limit.
    pub limit: Option<Duration>,
}

/// A test case, as the list names it: `queue_tests, seed 1: Name/x`.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the program.
    pub program: String,
    /// The seed.
    pub seed: Option<u32>,
    /// Name of the case in the program; `None` if no case failed but the program ended badly.
    pub name: Option<String>,
}

/// A failed run.
pub struct Failure {
    /// The first case that failed.
    pub case: Case,
    /// Last lines of the output.
    pub text: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        self.seed.map_or(Ok(()), |seed| write!(f, ", seed {seed}"))?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, ": {name}"))
    }
}

impl Case {
    /// Parses a case as the list names it.
    pub fn parse(text: &str) -> Self {
        let (program, name) =
            text.split_once(": ").map_or((text, None), |(program, name)| (program, Some(name.into())));
        let (program, seed) =
            program.split_once(", seed ").map_or((program, None), |(program, seed)| (program, seed.parse().ok()));
        Self { program: program.to_owned(), seed, name }
    }
}

impl Program {
    /// True if seeds make a difference.
    pub fn takes_seeds(&self) -> bool {
        matches!(self.kind, Kind::Conformance(_))
    }

    /// Runs the program. Returns `None` if all cases pass.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn run(&self, layout: &Layout, step: &Step, options: &Options) -> Result<Option<Failure>> {
        let command = self.command(layout, options);
        step.log(&format!("$ {}", process::display(&command)))?;
        let (mut report, mut first, mut trouble) = (Report::default(), None, false);
        let mut tail = VecDeque::new();
        let ended = process::follow(command, None, |line| {
            if tail.len() == TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line.chars().take(200).collect::<String>());
            match self.kind {
                Kind::Driver if first.is_none() => first = failed_case(line),
                Kind::Driver => {}
                Kind::Conformance(_) => {
                    trouble |= cts::is_trouble(line);
                    report.line(line);
                }
            }
        })
        .context(|| format!("running {}", self.path.display()))?;
        let (how, is_good) = match ended {
            Ended::Exit(status) => (process::describe(status), status.success() && !trouble),
            Ended::Silent { .. } => ("no output".to_owned(), false),
        };
        if is_good {
            return Ok(None);
        }
        report.finish(&[], &how);
        let is_failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
        let name =
            first.or_else(|| report.cases.into_iter().find(|(_, outcome)| is_failed(outcome)).map(|case| case.0));
        let text = tail.into_iter().map(|line| format!("  {line}\n")).collect::<String>() + "  it ended with " + &how;
        step.log(&text)?;
        Ok(Some(Failure { case: Case { program: self.name.clone(), seed: options.seed, name }, text }))
    }

    fn command(&self, layout: &Layout, options: &Options) -> Command {
        // Ends the processes that tests start, too.
        let mut command = layout.command("timeout");
        let limit = options.limit.unwrap_or(BASELINE_LIMIT).as_secs();
        command.args(["--signal=KILL", &limit.to_string()]).arg(&self.path).env("HSA_SIM_MEMORY", "strict");
        match &self.kind {
            Kind::Driver => {
                command.current_dir(build::tree(layout)).env("AMDGPU_RS_TEST_HSA", layout.sim_library());
                limit_kernels(&mut command, KERNEL_LIMIT);
                match options.case {
                    Some(case) => command.args(["--exact", case]),
                    None => command.args(MEASURES.iter().flat_map(|case| ["--skip", case])),
                };
            }
            Kind::Conformance(target) => {
                Hsa::Sim.apply(layout, target, &mut command);
                limit_kernels(&mut command, KERNEL_LIMIT);
                command.env("HSA_SIM_LEAKS", "1").env("GTEST_FAIL_FAST", "1").arg("--gtest_color=no");
                command.args(options.case.map(|case| format!("--gtest_filter={case}")));
            }
        }
        if let Some(mutant) = options.mutant {
            command.env(VARIABLE, mutant.to_string());
        }
        if let Some(seed) = options.seed {
            command.env("HSA_SIM_SEED", seed.to_string());
        }
        command
    }
}

/// Returns the failed case that a line of a Rust test program names.
fn failed_case(line: &str) -> Option<String> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    (end == "FAILED").then(|| name.trim_end_matches(" - should panic").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_s_names_of_cases_are_read_as_they_are_written() {
        for text in ["queues", "queues: a::b", "queue_tests, seed 2: CTS/A.B/x", "queue_tests, seed 2"] {
            assert_eq!(Case::parse(text).to_string(), text);
        }
        let case = Case::parse("queue_tests, seed 2: CTS/A.B/x");
        let expected = Case { program: "queue_tests".into(), seed: Some(2), name: Some("CTS/A.B/x".into()) };
        assert_eq!(case, expected);
    }

    #[test]
    fn only_failed_cases_of_rust_tests_are_failed() {
        assert_eq!(failed_case("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(failed_case("test a::b ... ok"), None);
        assert_eq!(failed_case("test result: FAILED. 1 passed; 1 failed"), None);
    }
}
