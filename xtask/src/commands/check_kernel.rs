// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask check-kernel`: arguments and set-up.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::check_kernel;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Arguments of check-kernel; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<ExitCode> {
        check_kernel::run(layout, steps, &self.arguments)
    }
}
