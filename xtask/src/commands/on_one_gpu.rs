// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask profile`, `python` and `trace`: commands that run their cases on one GPU of the sim. Arguments and
//! set-up.

use super::{TargetOption, conclude};
use xtask_core::error::Result;
use xtask_core::flavor::Flavor;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup::{self, Build};
use xtask_core::steps::Steps;
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// Arguments of the commands.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetOption,
}

/// The cases of a command, and their set-up.
pub struct Cases {
    /// Build of IREE.
    pub flavor: Flavor,
    /// Parts to build.
    pub build: Build<'static>,
    /// Runs the cases.
    pub run: fn(&Layout, &Steps, &Target) -> Result<Tally>,
}

impl Arguments {
    /// Performs a command.
    ///
    /// # Errors
    /// When set-up fails, or the cases do.
    pub fn perform(self, layout: &Layout, steps: &Steps, cases: &Cases) -> Result<()> {
        let target = self.target.target;
        target.check_compiled(&Hsa::Sim)?;
        let layout = &layout.with(cases.flavor);
        setup::everything(layout, steps, cases.build)?;
        conclude((cases.run)(layout, steps, &target)?)
    }
}
