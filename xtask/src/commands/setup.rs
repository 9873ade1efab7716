// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask setup`: arguments and set-up.

use super::TargetOption;
use xtask_core::error::{Error, Result};
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
    /// Names the Debian packages that are missing, and does nothing else
    #[arg(long)]
    no_install: bool,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        if self.no_install {
            let (text, is_ready) = setup::missing();
            print!("{text}");
            return if is_ready { Ok(()) } else { Err(Error::Failed("set-up would install packages".to_owned())) };
        }
        self.target.target.check_compiled(&Hsa::Sim)?;
        setup::everything(layout, steps, Build::ToolsAndCts(&self.target.target))
    }
}
