// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask soak`: arguments and set-up.

use std::time::Duration;

use super::{TargetOption, conclude};
use crate::soak;
use xtask_core::conditions::Conditions;
use xtask_core::error::Result;
use xtask_core::flavor::{Flavor, Sanitizer};
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetOption,
    /// Builds IREE's C code, the driver, the sim and the programs with a sanitizer's checks
    #[arg(long, value_enum)]
    sanitizer: Option<Sanitizer>,
    /// Time limit in minutes
    #[arg(long, value_name = "N", default_value_t = 5)]
    minutes: u64,
    /// Seed of the first program; later programs count up from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Maximum number of programs
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    programs: u64,
    #[command(flatten)]
    conditions: Conditions,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { target: TargetOption { target }, sanitizer, minutes, seed, programs, conditions } = self;
        target.check_played(&Hsa::Sim)?;
        let layout = &layout.with(sanitizer.map_or(Flavor::Plain, Flavor::Sanitized));
        setup::sim(layout, steps)?;
        let options = soak::Options { seed, time: Duration::from_secs(60 * minutes), programs };
        conclude(soak::run(layout, steps, &target, options, &conditions)?)
    }
}
