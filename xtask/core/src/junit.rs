// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Results of all test cases: the slow ones are printed at the end, and `--junit FILE` writes all of them as JUnit XML
//! for CI systems.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::error::{Context, Error, Result};

/// Time from which a case counts as slow.
pub const SLOW: Duration = Duration::from_secs(10);
/// Maximum number of slow cases to print.
const NAMED: usize = 10;

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The case passed.
    Passed,
    /// The case failed or could not be run, with the details.
    Failed(String),
    /// The case does not apply, with the reason.
    Skipped(String),
}

/// A case that has ended.
#[derive(Clone, Debug)]
pub struct Record {
    /// Group of the case, e.g. a test program and the GPU.
    pub suite: String,
    /// Name in the group.
    pub name: String,
    /// Result.
    pub verdict: Verdict,
    /// Duration, if known.
    pub time: Option<Duration>,
}

impl<T> From<&Result<T>> for Verdict {
    fn from(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Passed,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Prints the slow cases, the slowest first.
pub fn print_slow(records: &[Record]) {
    for line in slow(records) {
        println!("{line}");
    }
}

fn slow(records: &[Record]) -> Vec<String> {
    let mut slow: Vec<_> = records.iter().filter_map(|record| Some((record.time?, record))).collect();
    slow.retain(|(time, _)| *time >= SLOW);
    slow.sort_by(|(a, _), (b, _)| b.cmp(a));
    let named = slow.iter().take(NAMED);
    named.map(|(time, record)| format!("slow: {:4} s {}: {}", time.as_secs(), record.suite, record.name)).collect()
}

/// Writes `records` to `path`.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, records: &[Record]) -> Result<()> {
    let file = File::create(path).context(|| format!("making {}", path.display()))?;
    report(records).serialize(file).map_err(|error| Error::setup(format!("writing {}: {error}", path.display())))
}

fn report(records: &[Record]) -> Report {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for record in records {
        let status = match &record.verdict {
            Verdict::Passed => TestCaseStatus::success(),
            Verdict::Failed(text) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(text.lines().next().unwrap_or_default()).set_description(text);
                status
            }
            Verdict::Skipped(reason) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(reason);
                status
            }
        };
        let mut case = TestCase::new(&record.name, status);
        case.set_classname(&record.suite);
        if let Some(time) = record.time {
            case.set_time(time);
        }
        suites.entry(&record.suite).or_insert_with(|| TestSuite::new(&record.suite)).add_test_case(case);
    }
    let mut report = Report::new("amdgpu_rs");
    report.add_test_suites(suites.into_values());
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, verdict: Verdict, seconds: u64) -> Record {
        let time = Some(Duration::from_secs(seconds));
        Record { suite: "models on gfx1100".to_owned(), name: name.to_owned(), verdict, time }
    }

    #[test]
    fn the_report_counts_and_names_what_failed_and_was_skipped() {
        let records = [
            record("add", Verdict::Passed, 1),
            record("a<b>", Verdict::Failed("it ended with signal 11\nmore & more\u{1b}[0m".to_owned()), 2),
            record("gather", Verdict::Skipped("no such thing".to_owned()), 0),
        ];
        let text = report(&records).to_string().unwrap();
        for part in [
            r#"tests="3" skipped="1" errors="0" failures="1""#,
            r#"<testcase name="a&lt;b&gt;" classname="models on gfx1100" time="2.000">"#,
            r#"<failure message="it ended with signal 11">"#,
            "more &amp; more",
            r#"<skipped message="no such thing"/>"#,
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "XML has no control characters");
    }

    #[test]
    fn the_slowest_cases_are_named_first() {
        let records =
            [record("a", Verdict::Passed, 11), record("b", Verdict::Passed, 9), record("c", Verdict::Passed, 70)];
        assert_eq!(slow(&records), ["slow:   70 s models on gfx1100: c", "slow:   11 s models on gfx1100: a"]);
    }
}
