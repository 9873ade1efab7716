// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask rocm`: arguments and set-up.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use super::{TargetOption, conclude};
use xtask_core::error::Result;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::rocm;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<ExitCode> {
        match self.action {
            Action::Run { hip, target: TargetOption { target }, check, program } => {
                target.check_played(&Hsa::Sim)?;
                rocm::run(layout, steps, hip, &target, check.as_deref(), &program)
            }
            Action::Test { suite, hip, target: TargetOption { target }, filter, limit } => {
                target.check_played(&Hsa::Sim)?;
                let limit = limit.map(Duration::from_secs);
                conclude(rocm::test(layout, steps, hip, suite, &target, &filter, limit)?)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Things to do with ROCm.
#[derive(Subcommand)]
enum Action {
    /// Runs a program, rocminfo or hipcc with Debian's ROCm and the sim in ROCR's place
    Run {
        /// The release of HIP
        #[arg(long, value_enum, value_name = "RELEASE", default_value = "5.7")]
        hip: rocm::Hip,
        #[command(flatten)]
        target: TargetOption,
        /// Checks that the sim makes in kernels, as in `cargo xtask run`
        #[arg(long, value_name = "CHECKS")]
        check: Option<String>,
        /// The program and its arguments, e.g. hipcc --offload-arch=gfx1100 add.hip -o add
        #[arg(last = true, required = true, value_name = "PROGRAM ARGUMENTS")]
        program: Vec<String>,
    },
    /// Runs the tests that AMD wrote for a library
    Test {
        /// The library
        #[arg(value_enum)]
        suite: rocm::Suite,
        /// The release of HIP
        #[arg(long, value_enum, value_name = "RELEASE", default_value = "5.7")]
        hip: rocm::Hip,
        #[command(flatten)]
        target: TargetOption,
        /// Runs only the cases that match, a GoogleTest filter
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// Stops each program after this CPU time and skips the rest of its cases
        #[arg(long, value_name = "SECONDS")]
        limit: Option<u64>,
    },
}
