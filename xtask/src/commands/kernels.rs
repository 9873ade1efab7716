// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask kernels`: arguments and set-up.

use std::time::Duration;

use super::conclude;
use sim_verify::kernels;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::Steps;
use xtask_core::target::{Target, targets_or};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// GPU that the sim models (default: every target of the sim)
    #[arg(long, value_name = "GFX")]
    target: Option<Target>,
    /// Seed of the first kernels
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of kernels on each target
    #[arg(long, value_name = "N", default_value_t = 200)]
    count: u32,
    /// Time limit on each target in seconds, instead of a number of kernels
    #[arg(long, value_name = "N", conflicts_with = "count")]
    seconds: Option<u64>,
    /// Compiler for the GPU; clang-14, Debian 12's own, supports fewer targets
    #[arg(long, value_enum, default_value = "clang-22")]
    compiler: kernels::Compiler,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { target, seed, count, seconds, compiler } = self;
        setup::sim(layout, steps)?;
        if compiler == kernels::Compiler::Clang14 {
            setup::old_clang(steps)?;
        }
        let amount = match seconds {
            Some(seconds) => kernels::Amount::Time(Duration::from_secs(seconds)),
            None => kernels::Amount::Kernels(count),
        };
        let targets = targets_or(target, compiler.targets())?;
        conclude(kernels::run(layout, steps, &targets, kernels::Options { seed, amount, compiler })?)
    }
}
