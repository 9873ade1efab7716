// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask check`: arguments and set-up.

use crate::error::Result;
use crate::layout::Layout;
use crate::steps::Steps;
use crate::{check, setup};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        setup::sources(layout, steps)?;
        check::run(layout, steps)
    }
}
