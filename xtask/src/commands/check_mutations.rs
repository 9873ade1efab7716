// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask check-mutations`: arguments and set-up.

use sim_verify::mutations;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;
use xtask_core::target::{Target, targets_or};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// GPU that the sim models (default: five generations, one after the other)
    #[arg(long, value_name = "GFX")]
    target: Option<Target>,
    /// Names of the models, separated by commas (default: all)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    model: Vec<String>,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        setup::everything(layout, steps, Build::Tools)?;
        mutations::run(layout, steps, &targets_or(self.target, &mutations::TARGETS)?, &self.model)
    }
}
