// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask cts`: arguments and set-up.

use super::{HsaOption, JunitOption, TargetOption};
use crate::configurations;
use xtask_core::conditions::Conditions;
use xtask_core::error::{Error, Result};
use xtask_core::flavor::Sanitizer;
use xtask_core::layout::Layout;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;
use xtask_core::{cts, setup};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Driver to test
    #[arg(long, value_enum, default_value = "amdgpu_rs")]
    driver: cts::Driver,
    #[command(flatten)]
    target: TargetOption,
    #[command(flatten)]
    hsa: HsaOption,
    /// Builds IREE's C code, the driver and the sim with a sanitizer's checks
    #[arg(long, value_enum, conflicts_with = "driver")]
    sanitizer: Option<Sanitizer>,
    /// Number of runs of each test program, each with another HSA_SIM_SEED
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Runs only the test cases that match, e.g. '*Semaphore*' (a GoogleTest filter)
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How command buffers are recorded (default: the driver's own way)
    #[arg(long, value_enum, value_name = "MODE")]
    command_buffer_mode: Option<cts::CommandBufferMode>,
    #[command(flatten)]
    conditions: Conditions,
    /// Tests every configuration of GPUs and build options in turn and prints a table of the results
    #[arg(
        long,
        conflicts_with_all = [
            "driver", "target", "hsa", "sanitizer", "repeat", "filter", "command_buffer_mode", "check", "queues"
        ]
    )]
    configurations: bool,
    #[command(flatten)]
    junit: JunitOption,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { driver, target: TargetOption { target }, hsa, repeat, command_buffer_mode, conditions, .. } = self;
        if self.configurations {
            return self.junit.conclude(steps, configurations::run_all(layout, steps));
        }
        target.check_compiled(&hsa.hsa)?;
        conditions.check_hsa(&hsa.hsa)?;
        if driver == cts::Driver::Amdgpu && conditions.queues.is_some() {
            return Err(Error::setup("IREE's C driver has no flag for a number of queues"));
        }
        let layout = &layout.with(driver.flavor(self.sanitizer));
        setup::everything(layout, steps, Build::Cts(&target))?;
        hsa.ensure(layout, steps)?;
        let options = cts::Options {
            target: &target,
            hsa: &hsa.hsa,
            variables: &[],
            conditions: &conditions,
            command_buffer_mode,
            repeat,
            filter: self.filter.as_deref(),
        };
        self.junit.conclude(steps, cts::run(layout, steps, &options))
    }
}
