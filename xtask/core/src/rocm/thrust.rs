// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Parser for the output of Thrust's own test programs. rocThrust has these, and not GoogleTest's.

use crate::glob;
use crate::gtest::{Outcome, Report, Skip};

/// Line between the failures in the summary at the end.
const RULE: &str = "================";

/// The cases of one program run with `--verbose`.
#[derive(Default)]
pub struct Parser {
    /// Ended cases.
    pub report: Report,
    /// Index of the failed case whose message the summary is printing.
    message_of: Option<usize>,
}

impl Parser {
    /// Parses one more line of the program's output.
    pub fn line(&mut self, line: &str) {
        if let Some(at) = self.message_of {
            match &mut self.report.cases[at].1 {
                Outcome::Failed(text) if !line.starts_with(RULE) => {
                    text.push_str(line);
                    text.push('\n');
                }
                _ => self.message_of = None,
            }
            return;
        }
        if let Some(count) = announced(line) {
            self.report.announce(count);
            return;
        }
        if let Some((_, name)) = line.split_once("FAILURE: ").or_else(|| line.split_once("ERROR: ")) {
            self.message_of = self
                .report
                .cases
                .iter()
                .position(|(case, outcome)| case == name && matches!(outcome, Outcome::Failed(_)));
            return;
        }
        let output = match line.strip_prefix("Running ").and_then(|rest| rest.split_once("...")) {
            Some((name, output)) => {
                self.report.begin(name);
                output
            }
            None => line,
        };
        // A carriage return overwrites what the case has printed in the line.
        match output.split_once("\r[").and_then(|(_, end)| end.split_once(']')) {
            Some(("PASS", _)) => self.report.end_case(Outcome::Passed),
            Some(("FAILURE" | "ERROR", _)) => self.report.end_case(Outcome::Failed(String::new())),
            Some(("KNOWN FAILURE", _)) => {
                let reason = "fails on GPUs, too, as its authors know".to_owned();
                self.report.end_case(Outcome::Skipped(Skip { file: String::new(), reason }));
            }
            _ => {}
        }
    }
}

/// Parses the number of cases in `Running 7 unit tests.`
fn announced(line: &str) -> Option<usize> {
    line.strip_prefix("Running ")?.strip_suffix(" unit tests.")?.parse().ok()
}

/// Names in the output of `--list` that match a GoogleTest filter: globs, and after a minus sign those to leave out.
pub fn selected(listed: &str, filter: &str) -> Vec<String> {
    let (wanted, unwanted) = filter.split_once('-').unwrap_or((filter, ""));
    let wanted = if wanted.is_empty() { "*" } else { wanted };
    let any = |globs: &str, name: &str| globs.split(':').any(|glob| glob::matches(glob, name));
    listed.lines().filter(|name| any(wanted, name) && !any(unwanted, name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_and_the_messages_of_the_summary_are_read() {
        let mut parser = Parser::default();
        let text = "Running 4 unit tests.\n\
                    Running TestA...\r[PASS]     12.5 ms TestA\n\
                    Running TestB...noise\n\
                    more\r[FAILURE]            TestB\n\
                    Running TestC...\r[KNOWN FAILURE]      TestC\n\
                    Running TestD...\r[ERROR]              TestD\n\
                    \n\
                    ================================\n\
                    FAILURE: TestB\n\
                    1 is not 2\n\
                    ================================\n\
                    KNOWN FAILURE: TestC\n\
                    later\n\
                    ================================\n\
                    ERROR: TestD\n\
                    no memory\n\
                    ================================\n\
                    Totals: 1 failures, 1 known failures, 1 errors, and 1 passes.\n";
        text.lines().for_each(|line| parser.line(line));
        assert!(parser.report.is_complete());
        let outcomes: Vec<_> = parser.report.cases.iter().map(|(name, outcome)| (name.as_str(), outcome)).collect();
        assert!(matches!(outcomes[0], ("TestA", Outcome::Passed)));
        assert_eq!(outcomes[1], ("TestB", &Outcome::Failed("1 is not 2\n".into())));
        assert!(matches!(outcomes[2], ("TestC", Outcome::Skipped(_))));
        assert_eq!(outcomes[3], ("TestD", &Outcome::Failed("no memory\n".into())));
    }

    #[test]
    fn a_crash_fails_the_case_that_ran() {
        let mut parser = Parser::default();
        parser.line("Running 2 unit tests.");
        parser.line("Running TestA...Memory access fault");
        assert!(!parser.report.is_complete());
        parser.report.finish(&["TestA", "TestB"].map(str::to_owned), "signal 6 (SIGABRT)");
        let failed = &parser.report.cases[0];
        assert_eq!(failed.0, "TestA");
        assert!(matches!(&failed.1, Outcome::Failed(text) if text.contains("SIGABRT")), "{:?}", failed.1);
        assert!(matches!(parser.report.cases[1].1, Outcome::NotRun(_)));
    }

    #[test]
    fn filters_are_those_of_google_test() {
        let listed = "TestScan\nTestScanByKey\nTestSort\n";
        assert_eq!(selected(listed, "*"), ["TestScan", "TestScanByKey", "TestSort"]);
        assert_eq!(selected(listed, "TestSort:*Key"), ["TestScanByKey", "TestSort"]);
        assert_eq!(selected(listed, "*Scan*-*Key"), ["TestScan"]);
        assert_eq!(selected(listed, "-*Key"), ["TestScan", "TestSort"]);
        assert!(selected(listed, "Scan").is_empty());
    }
}
