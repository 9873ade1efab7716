// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask replay`: arguments and set-up.

use super::{TargetOption, conclude};
use crate::replay;
use xtask_core::error::Result;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;
use xtask_core::{cts, setup};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetOption,
    /// Driver that records: `amdgpu_rs` replays its own recordings; `amdgpu` and `amdgpu_rs` replay each other's
    #[arg(long, value_enum, default_value = "amdgpu_rs")]
    driver: cts::Driver,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let target = self.target.target;
        target.check_compiled(&Hsa::Sim)?;
        let layout = &layout.with(self.driver.flavor(None));
        setup::everything(layout, steps, Build::Replay)?;
        conclude(replay::run(layout, steps, &target)?)
    }
}
