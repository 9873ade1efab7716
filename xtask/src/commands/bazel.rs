// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bazel`: arguments and set-up.

use super::conclude;
use crate::bazel;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        setup::bazel(layout, steps)?;
        conclude(bazel::run(layout, steps)?)
    }
}
