// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Counts of test cases.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::error::Result;
use crate::junit::Verdict;
use crate::steps::Steps;

/// How many cases passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that ran and held.
    pub passed: usize,
    /// Cases that failed, crashed, hung, or could not run because of one.
    pub failed: usize,
    /// Cases that did not apply.
    pub skipped: usize,
    /// Cases that failed for a reason that lies elsewhere and is known.
    pub known: usize,
}

impl Tally {
    /// What became of all the cases, as one.
    pub fn verdict(self) -> Verdict {
        if self.failed == 0 { Verdict::Passed } else { Verdict::Failed(self.to_string()) }
    }

    /// Counts the case `name` of `suite`, notes it in `steps`, and prints a line for it.
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
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)?;
        if self.known > 0 { write!(f, ", {} known to fail", self.known) } else { Ok(()) }
    }
}
