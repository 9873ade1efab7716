// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask dist`: arguments and set-up.

use crate::dist;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Packs the software GPU as a Python wheel instead, and tests it in a fresh environment
    #[arg(long)]
    wheel: bool,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        if self.wheel { dist::wheel::run(layout, steps) } else { dist::run(layout, steps) }
    }
}
