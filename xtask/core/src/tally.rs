// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Counts of test cases.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::error::Result;
use crate::junit::Verdict;
use crate::steps::Steps;

/// Numbers of passed, failed and skipped cases.
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
}

impl Tally {
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
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)?;
        if self.known > 0 { write!(f, ", {} known to fail", self.known) } else { Ok(()) }
    }
}
