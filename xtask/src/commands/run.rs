// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask run`: arguments and set-up.

use std::process::ExitCode;

use super::{HsaOption, TargetOption};
use crate::run;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetOption,
    #[command(flatten)]
    hsa: HsaOption,
    /// Checks that the sim makes in kernels: a list of `wait,sync,race,equal,hazard,bounds,clamp,init,result`, or
    /// `all`, which leaves out `equal`, `clamp` and `result`; see docs/sim/checks.md
    #[arg(long, value_name = "CHECKS")]
    check: Option<String>,
    /// The tool and its arguments, e.g. iree-run-module --list_devices
    #[arg(last = true, required = true, value_name = "TOOL ARGUMENTS")]
    tool: Vec<String>,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<ExitCode> {
        let Self { target: TargetOption { target }, hsa, check, tool } = self;
        target.check_played(&hsa.hsa)?;
        setup::tools_to_run(layout, steps)?;
        hsa.ensure(layout, steps)?;
        run::run(layout, &target, &hsa.hsa, check.as_deref(), &tool)
    }
}
