// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `--check` and `--queues` of commands that run work on the sim: the sim's checks, and the driver's number of hardware
//! queues. Memory that is freed too early shows in work that shares it between queues.

use std::fmt;
use std::process::Command;

use crate::error::{Error, Result};
use crate::hsa::Hsa;

/// Conditions that work is run under.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// Checks that the sim makes, as for `run`, e.g. `race`; a finding is a failure
    #[arg(long, value_name = "CHECKS")]
    pub check: Option<String>,
    /// Number of hardware queues that the driver makes on each GPU (default: the driver's, two)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub queues: Option<u8>,
}

impl Conditions {
    /// No checks, and the driver's default number of queues.
    pub const DEFAULT: &Self = &Self { check: None, queues: None };

    /// The race check, on `queues` hardware queues, or on the driver's default number.
    pub fn race(queues: Option<u8>) -> Self {
        Self { check: Some("race".to_owned()), queues }
    }

    /// Refuses checks on a library that does not run on the sim.
    ///
    /// # Errors
    /// When there are checks.
    pub fn check_hsa(&self, hsa: &Hsa) -> Result<()> {
        match &self.check {
            Some(check) if !hsa.is_on_sim() => {
                Err(Error::setup(format!("--check={check} is for the sim, not for {hsa}")))
            }
            _ => Ok(()),
        }
    }

    /// Sets the sim's checks in the environment of `command`.
    pub fn apply_check(&self, command: &mut Command) {
        if let Some(check) = &self.check {
            command.env("HSA_SIM_CHECK", check).env("HSA_SIM_CHECK_FATAL", "1");
        }
    }

    /// Sets all conditions for a program with IREE's flags and this driver.
    pub fn apply(&self, command: &mut Command) {
        self.apply_check(command);
        command.args(self.queues.map(|queues| format!("--amdgpu_rs_hardware_queues_per_gpu={queues}")));
    }
}

/// Prints the suffix of a run's name; nothing by default.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(check) = &self.check {
            write!(f, ", checking {check}")?;
        }
        match self.queues {
            Some(queues) => write!(f, ", {queues} queues"),
            None => Ok(()),
        }
    }
}
