// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask mutants`: arguments and set-up.

use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Runs only the mutants whose names match, e.g. 'release-*'
    #[arg(long, value_name = "GLOB", default_value = "*")]
    filter: String,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        mutants::run(layout, steps, &self.filter)
    }
}
