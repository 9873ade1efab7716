// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `--check` and `--queues` of commands that run work on the sim: the sim's checks, and the driver's number of hardware
//! queues. Memory that is given back too early shows in work that several queues share.

use std::fmt;
use std::process::Command;

use crate::error::{Error, Result};
use crate::hsa::Hsa;

/// Conditions that work is run under.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// What the sim checks, as for `run`, e.g. `race`: a finding is a failure
    #[arg(long, value_name = "CHECKS")]
    pub check: Option<String>,
    /// How many hardware queues the driver makes on each GPU, if not its default, two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub queues: Option<u8>,
}

impl Conditions {
    /// The driver's and the sim's own.
    pub const DEFAULT: &Self = &Self { check: None, queues: None };

    /// The check for races on so many hardware queues; the driver's default if none.
    pub fn race(queues: Option<u8>) -> Self {
        Self { check: Some("race".to_owned()), queues }
    }

    /// Refuses checks on a library that is not on the sim's machine.
    ///
    /// # Errors
    /// When there are some.
    pub fn check_hsa(&self, hsa: &Hsa) -> Result<()> {
        match &self.check {
            Some(check) if !hsa.is_on_sim() => {
                Err(Error::setup(format!("--check={check} is for the sim, not for {hsa}")))
            }
            _ => Ok(()),
        }
    }

    /// Has the sim in `command` make the checks.
    pub fn apply_check(&self, command: &mut Command) {
        if let Some(check) = &self.check {
            command.env("HSA_SIM_CHECK", check).env("HSA_SIM_CHECK_FATAL", "1");
        }
    }

    /// Sets all of them for a program with IREE's flags and this driver.
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
