// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask onnx`: arguments and set-up.

use super::{TargetOption, conclude};
use crate::onnx;
use xtask_core::conditions::Conditions;
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
    #[command(flatten)]
    conditions: Conditions,
    /// Runs only the tests that match, e.g. 'test_softmax_*'
    #[arg(long, value_name = "GLOB", default_value = "*")]
    filter: String,
    /// Number of tests that are compiled and run at the same time (default: the number of cores)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { target: TargetOption { target }, conditions, filter, jobs } = self;
        target.check_compiled(&Hsa::Sim)?;
        setup::everything(layout, steps, Build::Tools)?;
        conclude(onnx::run(layout, steps, &target, &conditions, &filter, jobs.map(usize::from))?)
    }
}
