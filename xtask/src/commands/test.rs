// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask test`: arguments and set-up.

use super::JunitOption;
use crate::tiers;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;
use xtask_core::target::Target;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Runs every test of the project, which takes about forty minutes
    #[arg(long)]
    all: bool,
    /// GPU that the sim models for models and conformance tests (default: gfx1100; with --all, each tested target)
    #[arg(long, value_name = "GFX")]
    target: Option<Target>,
    #[command(flatten)]
    junit: JunitOption,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let tier = if self.all { tiers::all } else { tiers::quick };
        self.junit.conclude(steps, tier(layout, steps, self.target))
    }
}
