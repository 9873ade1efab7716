// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask trace`: arguments and set-up.

use super::{TargetOption, conclude};
use crate::trace;
use xtask_core::error::Result;
use xtask_core::flavor::Flavor;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetOption,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let target = self.target.target;
        target.check_compiled(&Hsa::Sim)?;
        let layout = &layout.with(Flavor::Traced);
        setup::everything(layout, steps, Build::Trace)?;
        conclude(trace::run(layout, steps, &target)?)
    }
}
