// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs `cargo test` and counts the cases in the output of the test programs.

use std::process::Command;
use std::time::Duration;

use xtask_core::error::Result;
use xtask_core::hsa::limit_kernels;
use xtask_core::junit::{SLOW, Verdict};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::steps::Steps;
use xtask_core::tally::Tally;

/// Time limit of a test's kernel on the sim.
const KERNEL_LIMIT: Duration = Duration::from_secs(240);

/// Time limit of a test program. The slowest one takes 60 seconds on an idle machine.
const PROGRAM_LIMIT: Duration = Duration::from_secs(900);

/// Parsed output of the programs so far.
#[derive(Default)]
struct Output {
    tally: Tally,
    failed: Vec<String>,
    program: String,
    /// Result of each case: program, name, verdict.
    cases: Vec<(String, String, Verdict)>,
    /// Lines about slow programs, with the times that they print.
    slow: Vec<String>,
    /// Number of cases that the current program announced, until its summary.
    open: Option<usize>,
    /// Cases of the current program that run for over a minute.
    long: Vec<String>,
}

impl Output {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if let Some(program) = trimmed
            .strip_prefix("Running ")
            .or_else(|| trimmed.strip_prefix("Doc-tests "))
            .filter(|_| line.starts_with("  "))
        {
            self.close("it ended early");
            self.program = program.to_owned();
        } else if let Some(count) = running_count(line) {
            self.close("it ended early");
            self.open = Some(count);
        } else if let Some(case) = long_case(line) {
            self.long.push(case.to_owned());
        } else if let Some(summary) = line.strip_prefix("test result: ") {
            self.open = None;
            self.long.clear();
            self.tally += parse_summary(summary);
            if let Some(time) = finished_in(summary).filter(|time| *time >= SLOW) {
                self.slow.push(format!("slow: {:4} s {}", time.as_secs(), self.program));
            }
        } else if let Some((name, verdict)) = ended_case(line) {
            self.long.retain(|case| case != name);
            if let Verdict::Failed(_) = verdict {
                self.failed.push(format!("{}: {name}", self.program));
            }
            self.cases.push((self.program.clone(), name.to_owned(), verdict));
        }
    }

    /// Ends a program. A program without a summary crashed. It is unknown which of its cases ran, so none counts as
    /// passed.
    fn close(&mut self, how: &str) {
        if let Some(count) = self.open.take() {
            self.tally.failed += count.max(1);
            let mut what = format!("{how}; its {count} cases count as failed");
            if !self.long.is_empty() {
                what += &format!("; not ended: {}", self.long.join(", "));
                self.long.clear();
            }
            self.failed.push(format!("{}: {what}", self.program));
            self.cases.push((self.program.clone(), "the program as a whole".to_owned(), Verdict::Failed(what)));
        }
    }
}

/// Packages to test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Packages {
    /// The workspace without the software GPU, whose test build alone takes minutes.
    WithoutSim,
    /// The workspace, and the driver once more under a model checker.
    All,
}

/// Packages of the software GPU, and packages that depend on them.
const SIM: [&str; 7] = ["check-kernel", "hsa-sim", "hsakmt-sim", "sim-debug", "sim-isa", "sim-jit", "sim-wave"];

/// Runs the packages' tests, and prints the failed ones.
///
/// # Errors
/// When the tests do not compile.
pub fn run(layout: &Layout, steps: &Steps, packages: Packages) -> Result<Tally> {
    let mut tests = layout.cargo();
    tests.args(["test", "--workspace", "--no-fail-fast", "--locked"]);
    if packages == Packages::WithoutSim {
        tests.args(SIM.iter().flat_map(|package| ["--exclude", package]));
    }
    // The driver's tests run on the sim that set-up built.
    tests.env("AMDGPU_RS_TEST_HSA", layout.sim_library());
    limit_kernels(&mut tests, KERNEL_LIMIT);
    let mut tally = run_command("Unit and integration tests", tests, steps)?;
    if packages == Packages::WithoutSim {
        return Ok(tally);
    }

    // Lock-free structures of host threads, with loom's atomics in the place of the real ones.
    let mut models = layout.cargo();
    models.args(["test", "--lib", "--locked", "loom_tests"]);
    models.args(
        ["amdgpu-ffi", "amdgpu-memory", "amdgpu-queue", "amdgpu-ring"].iter().flat_map(|package| ["-p", package]),
    );
    models.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", layout.root.join("target/loom"));
    tally += run_command("Every order of host threads", models, steps)?;
    Ok(tally)
}

/// Lets `cargo test` abort each test program that takes longer than `limit`. The programs stay in the foreground, so
/// that an interrupt from the terminal ends them, too.
fn limit_programs(cargo: &mut Command, limit: Duration) {
    let seconds = limit.as_secs();
    cargo.arg("--config");
    cargo.arg(format!(
        r#"target."cfg(all())".runner = ["timeout", "--foreground", "--verbose", "--signal=ABRT", "{seconds}"]"#
    ));
}

fn run_command(name: &str, mut cargo: Command, steps: &Steps) -> Result<Tally> {
    limit_programs(&mut cargo, PROGRAM_LIMIT);
    let (output, log) = steps.step(name, |step| {
        let shown = process::display(&cargo);
        let mut output = Output::default();
        let ended = step.follow(cargo, None, |line| output.line(line))?;
        let how = match ended {
            Ended::Exit(status) => process::describe(status),
            Ended::Silent { .. } => "no output".to_owned(),
        };
        output.close(&how);
        let is_success = matches!(ended, Ended::Exit(status) if status.success());
        if !is_success && output.tally.failed == 0 {
            return Err(step.failure(&shown, &how));
        }
        if output.tally == Tally::default() {
            return Err(step.failure(&shown, "no test ran"));
        }
        Ok((output, step.log_path().to_path_buf()))
    })?;
    for (program, name, verdict) in output.cases {
        steps.record(&program, &name, verdict, None);
    }
    println!("  {}", output.tally);
    for slow in &output.slow {
        println!("  {slow}");
    }
    if !output.failed.is_empty() {
        println!("  failed (see {}):", log.display());
    }
    for failed in &output.failed {
        println!("    {failed}");
    }
    Ok(output.tally)
}

/// The case of a line `test <name> has been running for over 60 seconds`.
fn long_case(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.split_once(" has been running for over ").map(|(name, _)| name)
}

/// The case of a line `test <name> ... ok`, and how it ended.
fn ended_case(line: &str) -> Option<(&str, Verdict)> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let verdict = match end.split_once(',').unwrap_or((end, "")) {
        ("ok", _) => Verdict::Passed,
        ("FAILED", _) => Verdict::Failed("see the log of the step".to_owned()),
        ("ignored", reason) => Verdict::Skipped(reason.trim().to_owned()),
        _ => return None,
    };
    Some((name, verdict))
}

/// The time in `… finished in 0.01s`.
fn finished_in(summary: &str) -> Option<Duration> {
    let seconds = summary.rsplit_once("finished in ")?.1.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn running_count(line: &str) -> Option<usize> {
    let (count, rest) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(rest, "test" | "tests").then(|| count.parse().ok())?
}

/// The counts in `ok. 5 passed; 0 failed; 1 ignored; …`.
fn parse_summary(summary: &str) -> Tally {
    let count = |what: &str| {
        let parts = summary.split([';', '.']).map(str::trim);
        let mut counts = parts.filter_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        counts.next().unwrap_or(0)
    };
    Tally { passed: count("passed"), failed: count("failed"), skipped: count("ignored"), ..Tally::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Output {
        let mut output = Output::default();
        text.lines().for_each(|line| output.line(line));
        output
    }

    #[test]
    fn programs_are_added_up() {
        let output = output(
            "     Running unittests src/lib.rs (target/debug/deps/a-1)\n\
             running 3 tests\ntest a ... ok\ntest b ... FAILED\ntest c ... ignored, why\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 12.34s\n\
             \u{20}  Doc-tests a\n\
             running 1 test\ntest d ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(output.tally, Tally { passed: 2, failed: 1, skipped: 1, ..Tally::default() });
        assert_eq!(output.failed, ["unittests src/lib.rs (target/debug/deps/a-1): b"]);
        assert_eq!(output.slow, ["slow:   12 s unittests src/lib.rs (target/debug/deps/a-1)"]);
        let verdicts: Vec<_> = output.cases.into_iter().map(|(_, name, verdict)| (name, verdict)).collect();
        assert_eq!(verdicts[0], ("a".to_owned(), Verdict::Passed));
        assert!(matches!(&verdicts[1], (name, Verdict::Failed(_)) if name == "b"));
        assert_eq!(verdicts[2], ("c".to_owned(), Verdict::Skipped("why".to_owned())));
        assert_eq!(verdicts[3], ("d".to_owned(), Verdict::Passed));
    }

    #[test]
    fn a_crashed_program_fails_all_its_cases() {
        let mut output = output(
            "     Running tests/x.rs (target/debug/deps/x-1)\nrunning 7 tests\ntest a ... ok\n\
             error: test failed, to rerun pass `--test x`\n\
             \u{20}    Running tests/y.rs (target/debug/deps/y-1)\nrunning 3 tests\n\
             test c has been running for over 60 seconds\ntest d has been running for over 60 seconds\n\
             test c ... ok\n",
        );
        output.close("signal 6 (SIGABRT)");
        assert_eq!(output.tally, Tally { failed: 10, ..Tally::default() });
        let hung = "tests/y.rs (target/debug/deps/y-1): signal 6 (SIGABRT); its 3 cases count as failed; not ended: d";
        assert_eq!(output.failed[1], hung);
    }
}
