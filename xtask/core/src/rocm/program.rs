// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! One run of a test program of ROCm's libraries.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::error::Result;
use crate::gtest::{self, Outcome, Report};
use crate::hsa::limit_kernels;
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::steps::Step;
use crate::target::Target;

use super::root::Hip;
use super::suites::Suite;
use super::thrust;

/// A program that prints nothing while it uses this much CPU time is out of time. One that does not work either for so
/// long hangs.
const SILENCE: Duration = Duration::from_secs(600);
/// Time limit of a kernel, unless the user sets one. It is shorter than [`SILENCE`], so that the sim names the kernel.
const KERNEL_LIMIT: Duration = Duration::from_secs(500);
/// SIGXCPU, the signal to a program that has used up its CPU time.
const OUT_OF_TIME: i32 = 24;
/// Name of the failure of a program that ends badly after all of its cases have passed.
const AT_EXIT: &str = "the end of the program";
/// Starts a program, which the kernel stops after some seconds of CPU time: sh -c LIMITED SECONDS PROGRAM...
const LIMITED: &str = "ulimit -c 0 && ulimit -S -t \"$0\" && exec \"$@\"";

/// One program of a suite, with the filter of its cases.
pub struct Run<'a> {
    pub suite: Suite,
    pub hip: Hip,
    pub target: &'a Target,
    /// Folder of the suite's programs, below the root.
    pub folder: &'a Path,
    pub program: &'a str,
    /// GoogleTest filter.
    pub filter: &'a str,
    /// The program is stopped after this CPU time, and the rest of its cases is skipped.
    pub limit: Option<Duration>,
}

/// How a program ended.
struct End {
    shown: String,
    is_late: bool,
    is_success: bool,
}

impl Run<'_> {
    /// Runs the program to its end or to its limit. Returns its cases, and true if it was out of time.
    ///
    /// # Errors
    /// When the program does not start.
    pub fn execute(&self, layout: &Layout, step: &Step) -> Result<(Report, bool)> {
        if self.suite == Suite::Rocthrust {
            return self.execute_thrust(layout, step);
        }
        let filter = format!("--gtest_filter={}", self.filter);
        let mut command = self.command(layout, self.limit);
        command.args([&filter, "--gtest_color=no"]);
        let mut report = Report::default();
        let end = self.follow(step, command, |line| report.line(line))?;
        if report.is_complete() {
            return Ok((whole(report, end), false));
        }
        // The list tells which cases are left. It is asked for last, because some programs take a minute to make it.
        let mut list = self.command(layout, None);
        list.args([&filter, "--gtest_list_tests"]);
        let mut listed = gtest::listed(&String::from_utf8_lossy(&step.capture(list)?));
        // GoogleTest lists the cases that their authors have switched off, and does not run them.
        listed.retain(|name| !name.split(['.', '/']).any(|part| part.starts_with("DISABLED_")));
        Ok(partial(report, &listed, &end))
    }

    /// [`execute`](Self::execute) for a program with Thrust's own test framework, which takes names of cases.
    fn execute_thrust(&self, layout: &Layout, step: &Step) -> Result<(Report, bool)> {
        let mut list = self.command(layout, None);
        list.arg("--list");
        let listed = thrust::selected(&String::from_utf8_lossy(&step.capture(list)?), self.filter);
        if listed.is_empty() {
            return Ok((Report::default(), false));
        }
        let mut command = self.command(layout, self.limit);
        command.arg("--verbose").args(&listed);
        let mut parser = thrust::Parser::default();
        let end = self.follow(step, command, |line| parser.line(line))?;
        if parser.report.is_complete() {
            return Ok((whole(parser.report, end), false));
        }
        Ok(partial(parser.report, &listed, &end))
    }

    fn command(&self, layout: &Layout, limit: Option<Duration>) -> Command {
        let mut command = super::enter(layout, self.hip, self.target, Path::new("/tmp"));
        limit_kernels(&mut command, KERNEL_LIMIT);
        // rocBLAS's tests do not print the cases that passed, unless told to.
        command.env("GTEST_LISTENER", "PASS_LINE_IN_LOG");
        if let Some(limit) = limit {
            command.args(["sh", "-c", LIMITED, &limit.as_secs().to_string()]);
        }
        command.arg(Path::new("/").join(self.folder).join(self.program));
        command
    }

    fn follow(&self, step: &Step, command: Command, each: impl FnMut(&str)) -> Result<End> {
        let silence = self.limit.map_or(SILENCE, |limit| limit + SILENCE);
        Ok(match step.follow(command, Some(silence), each)? {
            Ended::Exit(status) => End {
                shown: process::describe(status),
                is_late: status.signal() == Some(OUT_OF_TIME),
                is_success: status.success(),
            },
            Ended::Silent { is_idle: true } => {
                let shown = format!("no output and no work for {} s, killed", silence.as_secs());
                End { shown, is_late: false, is_success: false }
            }
            Ended::Silent { is_idle: false } => {
                let shown = format!("no output for {} s of CPU time, killed", silence.as_secs());
                End { shown, is_late: true, is_success: false }
            }
        })
    }
}

/// The report of a program whose cases have all ended. A bad end after them is a failure, too.
fn whole(mut report: Report, end: End) -> Report {
    let has_failed = report.cases.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    if !end.is_success && !end.is_late && !has_failed {
        report.cases.push((AT_EXIT.to_owned(), Outcome::Failed(end.shown)));
    }
    report
}

/// The report of a program that ended before some of the cases `listed`, and true if it was out of time.
fn partial(mut report: Report, listed: &[String], end: &End) -> (Report, bool) {
    if end.is_late {
        report.interrupt();
    }
    report.finish(listed, &end.shown);
    (report, end.is_late)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed() -> Report {
        let mut report = Report::default();
        for line in
            ["[==========] Running 1 test from 1 test suite.", "[ RUN      ] A.One", "[       OK ] A.One (0 ms)"]
        {
            report.line(line);
        }
        report
    }

    fn end(shown: &str, is_late: bool, is_success: bool) -> End {
        End { shown: shown.to_owned(), is_late, is_success }
    }

    #[test]
    fn a_crash_after_the_last_case_is_a_failure() {
        let report = whole(passed(), end("signal 11 (SIGSEGV)", false, false));
        assert_eq!(report.cases[1], (AT_EXIT.to_owned(), Outcome::Failed("signal 11 (SIGSEGV)".into())));
        assert_eq!(whole(passed(), end("exit code 0", false, true)).cases.len(), 1);
        assert_eq!(whole(passed(), end("signal 24", true, false)).cases.len(), 1);
    }

    #[test]
    fn the_cases_after_a_limit_were_not_run() {
        let listed = ["A.One", "A.Two"].map(str::to_owned);
        let (report, is_late) = partial(passed(), &listed, &end("signal 24", true, false));
        assert!(is_late);
        assert_eq!(report.cases[1], ("A.Two".to_owned(), Outcome::NotRun("signal 24".into())));
    }
}
