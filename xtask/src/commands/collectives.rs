// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask collectives`: arguments and set-up.

use super::{TargetOption, conclude};
use crate::collectives;
use xtask_core::error::Result;
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
    /// Number of ranks
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    ranks: u32,
    /// Transport between the ranks
    #[arg(long, value_enum, default_value = "tcp")]
    engine: collectives::Engine,
    /// Runs only the cases that match, e.g. 'all_reduce_*'
    #[arg(long, value_name = "GLOB", default_value = "*")]
    filter: String,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { target: TargetOption { target }, ranks, engine, filter } = self;
        target.check_compiled(&Hsa::Sim)?;
        setup::everything(layout, steps, Build::Tools)?;
        conclude(collectives::run(layout, steps, &target, ranks, engine, &filter)?)
    }
}
