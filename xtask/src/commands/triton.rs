// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask triton`: arguments and set-up.

use super::conclude;
use crate::triton;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;
use xtask_core::target::{Target, targets_or};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// GPU that the sim models (default: every target of Triton)
    #[arg(long, value_name = "GFX")]
    target: Option<Target>,
    /// Runs only the cases that match, e.g. 'matmul_*'
    #[arg(long, value_name = "GLOB", default_value = "*")]
    filter: String,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        conclude(triton::run(layout, steps, &targets_or(self.target, &triton::TARGETS)?, &self.filter)?)
    }
}
