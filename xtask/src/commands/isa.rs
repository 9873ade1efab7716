// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask isa`: arguments and set-up.

use sim_verify::isa;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;
use xtask_core::target::Target;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Target processor (default: every target of the sim)
    #[arg(long, value_name = "GFX")]
    target: Option<Target>,
    /// Lists the instructions that the sim does not execute
    #[arg(long)]
    missing: bool,
    /// Regenerates the decoder's list of names of instructions that it does not decode, for its error messages
    #[arg(long, conflicts_with_all = ["target", "missing"])]
    names: bool,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        if self.names {
            return isa::write_names(layout, steps);
        }
        isa::run(layout, steps, self.target.as_ref(), self.missing)
    }
}
