// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Counts of test cases.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::error::Result;
use crate::junit::Verdict;
use crate::steps::Steps;

/// Numbers of cases, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed, crashed or hung, or could not run because another one did.
    pub failed: usize,
    /// Cases that did not apply.
    pub skipped: usize,
    /// Cases that failed for a known reason outside of this project.
    pub known: usize,
    /// Cases left of programs that were stopped at a limit of CPU time.
    pub late: usize,
}

impl Tally {
    /// Counts a case that does not apply, records it in `steps`, and prints a line with the reason.
    pub fn skip(&mut self, steps: &Steps, suite: &str, name: &str, reason: &str) {
        steps.record(suite, name, Verdict::Skipped(reason.to_owned()), None);
        self.skipped += 1;
        println!("  skipped {name}: {reason}");
    }

    /// Combines the results of all cases.
    pub fn verdict(self) -> Verdict {
        if self.failed == 0 { Verdict::Passed } else { Verdict::Failed(self.to_string()) }
    }

    /// Counts the case `name` of `suite`, records it in `steps`, and prints a line for it.
    pub fn count(&mut self, steps: &Steps, suite: &str, name: &str, (result, time): (Result<()>, Duration)) {
        steps.record(suite, name, (&result).into(), Some(time));
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("  ok      {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("  FAILED  {name}: {error}");
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.known += other.known;
        self.late += other.late;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)?;
        if self.known > 0 {
            write!(f, ", {} known to fail", self.known)?;
        }
        if self.late > 0 { write!(f, ", {} out of time", self.late) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_tells_cases_out_of_time_from_failures() {
        let mut tally = Tally { passed: 3, skipped: 1, ..Tally::default() };
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 1 skipped");
        tally += Tally { failed: 1, known: 2, late: 4, ..Tally::default() };
        assert_eq!(tally.to_string(), "3 passed, 1 failed, 1 skipped, 2 known to fail, 4 out of time");
    }
}
