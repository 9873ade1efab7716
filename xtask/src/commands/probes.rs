// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask probes`: arguments and set-up.

use super::conclude;
use crate::probes;
use xtask_core::error::Result;
use xtask_core::flavor::Flavor;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Drivers to run the probes with
    #[arg(long, value_enum, default_value = "both")]
    driver: bench::Drivers,
    /// Runs only the probes that match, e.g. 'active_*'; a pending probe runs only if it is named in full
    #[arg(long, value_name = "GLOB", default_value = "*")]
    filter: String,
    /// Prints all facts
    #[arg(long)]
    facts: bool,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let layout = &layout.with(Flavor::BesideC);
        setup::everything(layout, steps, Build::Probes)?;
        let options = probes::Options { drivers: self.driver, filter: &self.filter, facts: self.facts };
        conclude(probes::run(layout, steps, &options)?)
    }
}
