// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Parser of a GoogleTest program's output. GoogleTest writes its XML and JSON reports only when it ends by itself, but
//! a crash or a hang must be counted too.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `[       OK ]`.
    Passed,
    /// `[  FAILED  ]`, or a crash or hang in the case, with the details.
    Failed(String),
    /// Never begun, with the event that ended the program before.
    NotRun(String),
    /// `[  SKIPPED ]`.
    Skipped(Skip),
}

/// Source and reason of a skip.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// Name of the source file that skips.
    pub file: String,
    /// Text of the skip.
    pub reason: String,
}

/// The cases of one program run.
#[derive(Default)]
pub struct Report {
    /// Ended cases in order, by full name.
    pub cases: Vec<(String, Outcome)>,
    /// Times of the cases that print one.
    pub times: BTreeMap<String, Duration>,
    announced: Option<usize>,
    running: Option<Running>,
}

struct Running {
    name: String,
    text: Vec<String>,
}

impl Report {
    /// Parses one more line of the program's output.
    pub fn line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("[ RUN      ] ") {
            self.begin(name);
            return;
        }
        let Some(running) = &mut self.running else {
            if let Some(count) = announced(line) {
                self.announce(count);
            }
            return;
        };
        // The tag can follow output of the case that did not end its line.
        let end = ["[       OK ] ", "[  FAILED  ] ", "[  SKIPPED ] "].into_iter().find_map(|tag| {
            let (before, after) = line.split_once(tag)?;
            after.starts_with(&running.name).then_some((tag, before))
        });
        let Some((tag, before)) = end else {
            running.text.push(line.to_owned());
            return;
        };
        if let Some(time) = milliseconds(line) {
            self.times.insert(running.name.clone(), time);
        }
        if !before.is_empty() {
            running.text.push(before.to_owned());
        }
        let outcome = match tag {
            "[       OK ] " => Outcome::Passed,
            "[  SKIPPED ] " => Outcome::Skipped(skip(&running.text)),
            _ => Outcome::Failed(running.text.join("\n")),
        };
        self.end_case(outcome);
    }

    /// Notes how many cases the program will run.
    pub fn announce(&mut self, count: usize) {
        self.announced = Some(count);
    }

    /// Notes the case under way.
    pub fn begin(&mut self, name: &str) {
        self.running = Some(Running { name: name.to_owned(), text: Vec::new() });
    }

    /// True if as many cases have ended as the program said it would run.
    pub fn is_complete(&self) -> bool {
        self.running.is_none() && self.announced == Some(self.cases.len())
    }

    /// Adds the cases of `listed` that did not end: the case under way failed of `how` (e.g. "signal 11"), the others
    /// were not run. To be called once, after the program's end.
    pub fn finish(&mut self, listed: &[String], how: &str) {
        let culprit = self.running.as_ref().map(|running| running.name.clone());
        if let Some(running) = &self.running {
            let mut text = running.text.clone();
            text.push(format!("the program ended in this case: {how}"));
            self.end_case(Outcome::Failed(text.join("\n")));
        }
        let because = culprit.map_or_else(|| how.to_owned(), |name| format!("{how} in {name}"));
        // Some programs have more than 100 000 cases.
        let ended: HashSet<_> = self.cases.iter().map(|(name, _)| name.clone()).collect();
        let left = listed.iter().filter(|name| !ended.contains(*name));
        self.cases.extend(left.map(|name| (name.clone(), Outcome::NotRun(because.clone()))));
    }

    /// Forgets the case under way, which another process has stopped. [`finish`](Self::finish) adds it as not run.
    pub fn interrupt(&mut self) {
        self.running = None;
    }

    /// Adds the case under way, if there is one.
    pub fn end_case(&mut self, outcome: Outcome) {
        if let Some(running) = self.running.take() {
            self.cases.push((running.name, outcome));
        }
    }
}

/// Parses the number of cases in `[==========] Running 3 tests from 2 test suites.`.
fn announced(line: &str) -> Option<usize> {
    line.strip_prefix("[==========] Running ")?.split(' ').next()?.parse().ok()
}

/// Parses the time in `… (12 ms)`.
fn milliseconds(line: &str) -> Option<Duration> {
    let (_, number) = line.strip_suffix(" ms)")?.rsplit_once('(')?;
    number.parse().ok().map(Duration::from_millis)
}

/// Parses a skipped case's output. The reason follows `file:line: Skipped`.
fn skip(text: &[String]) -> Skip {
    let found = text.iter().enumerate().find_map(|(at, line)| Some((at, line.strip_suffix(": Skipped")?)));
    let (start, place) = found.map_or((0, ""), |(at, place)| (at + 1, place));
    let path = place.rsplit_once(':').map_or(place, |(path, _)| path);
    let lines = text[start..].iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    Skip { file: path.rsplit('/').next().unwrap_or_default().to_owned(), reason: lines.collect::<Vec<_>>().join(" ") }
}

/// Parses full names from the output of `--gtest_list_tests`.
pub fn listed(output: &str) -> Vec<String> {
    let mut suite = "";
    let mut names = Vec::new();
    for line in output.lines() {
        let name = line.split("  #").next().unwrap_or_default();
        match name.strip_prefix("  ") {
            Some(case) if !suite.is_empty() => names.push(format!("{suite}{}", case.trim())),
            _ if name.trim_end().ends_with('.') => suite = name.trim_end(),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        report
    }

    #[test]
    fn all_outcomes_are_told_apart() {
        let report = report(
            "[==========] Running 3 tests from 1 test suite.\n\
             [ RUN      ] CTS/A.One/x\n\
             noise[       OK ] CTS/A.One/x (0 ms)\n\
             [ RUN      ] CTS/A.Two/x\n\
             util/base.h:318: Skipped\n\
             Unsupported on 'x': no such thing\n\
             \n\
             [  SKIPPED ] CTS/A.Two/x (0 ms)\n\
             [ RUN      ] CTS/A.Three/x\n\
             a.cc:3: Failure\n\
             Expected 1\n\
             [  FAILED  ] CTS/A.Three/x, where GetParam() = x (5 ms)\n\
             [  SKIPPED ] 1 test, listed below:\n\
             [  SKIPPED ] CTS/A.Two/x\n\
             [  FAILED  ] 1 test, listed below:\n\
             [  FAILED  ] CTS/A.Three/x\n",
        );
        let expected = [
            ("CTS/A.One/x", Outcome::Passed),
            (
                "CTS/A.Two/x",
                Outcome::Skipped(Skip { file: "base.h".into(), reason: "Unsupported on 'x': no such thing".into() }),
            ),
            ("CTS/A.Three/x", Outcome::Failed("a.cc:3: Failure\nExpected 1".into())),
        ];
        let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome));
        assert_eq!(report.cases, expected);
        assert_eq!(report.times["CTS/A.Three/x"], Duration::from_millis(5));
    }

    #[test]
    fn a_crash_fails_its_case_and_the_rest() {
        let mut report = report("[ RUN      ] A.One\n[       OK ] A.One (0 ms)\n[ RUN      ] A.Two\nboom\n");
        let listed = ["A.One", "A.Two", "A.Three"].map(str::to_owned);
        report.finish(&listed, "signal 11 (SIGSEGV)");
        assert_eq!(report.cases.len(), 3);
        assert_eq!(report.cases[0].1, Outcome::Passed);
        assert_eq!(
            report.cases[1].1,
            Outcome::Failed("boom\nthe program ended in this case: signal 11 (SIGSEGV)".into())
        );
        assert_eq!(report.cases[2].1, Outcome::NotRun("signal 11 (SIGSEGV) in A.Two".into()));
    }

    #[test]
    fn a_report_is_complete_when_all_announced_cases_have_ended() {
        let mut report = report("[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.One\n");
        assert!(!report.is_complete());
        report.line("[       OK ] A.One (0 ms)");
        assert!(!report.is_complete());
        report.line("[ RUN      ] A.Two");
        report.line("[  FAILED  ] A.Two (0 ms)");
        assert!(report.is_complete());
        let mut none = self::report("Note: Google Test filter = x\n");
        assert!(!none.is_complete());
        none.line("[==========] Running 0 tests from 0 test suites.");
        assert!(none.is_complete());
    }

    #[test]
    fn an_interrupted_case_was_not_run() {
        let mut report = report("[ RUN      ] A.One\n[       OK ] A.One (0 ms)\n[ RUN      ] A.Two\nhalf\n");
        report.interrupt();
        report.finish(&["A.One", "A.Two"].map(str::to_owned), "signal 24");
        let expected = [("A.One", Outcome::Passed), ("A.Two", Outcome::NotRun("signal 24".into()))];
        assert_eq!(report.cases, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
    }

    #[test]
    fn lists_are_read() {
        let text =
            "CTS/DriverTest.\n  ByID/local_sync  # GetParam() = local_sync\n  ByPath/local_sync  # x\nPlain.\n  Case\n";
        assert_eq!(listed(text), ["CTS/DriverTest.ByID/local_sync", "CTS/DriverTest.ByPath/local_sync", "Plain.Case"]);
    }
}
