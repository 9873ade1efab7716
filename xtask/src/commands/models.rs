// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask models`: arguments and set-up.

use super::{HsaOption, conclude};
use crate::{configurations, onnx, tiers};
use xtask_core::conditions::Conditions;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;
use xtask_core::tally::Tally;
use xtask_core::target::{Target, targets_or};
use xtask_core::{rocm, setup};

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// GPU that the sim models (default: all tested targets)
    #[arg(long, value_name = "GFX")]
    target: Option<Target>,
    #[command(flatten)]
    hsa: HsaOption,
    /// Runs real networks from PyPI packages, which are downloaded, instead, and compares them with onnxruntime
    #[arg(long, conflicts_with = "hsa")]
    onnx: bool,
    /// Compares with IREE's own HIP driver, bit by bit, in place of the CPU; takes ROCm's programs from `rocm`
    #[arg(long, conflicts_with_all = ["hsa", "onnx", "queues"])]
    hip: bool,
    /// Runs only the networks that match, e.g. 'silero-*'
    #[arg(long, value_name = "GLOB", default_value = "*", requires = "onnx")]
    filter: String,
    #[command(flatten)]
    conditions: Conditions,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { target, hsa, onnx, hip, filter, conditions } = self;
        conditions.check_hsa(&hsa.hsa)?;
        // The models are skipped on a GPU that iree-compile does not know, as by `cargo xtask test --all`.
        let check = if onnx || hip { Target::check_compiled } else { Target::check_played };
        target.iter().try_for_each(|target| check(target, &hsa.hsa))?;
        setup::everything(layout, steps, Build::Tools)?;
        hsa.ensure(layout, steps)?;
        if onnx {
            let targets = targets_or(target, &configurations::TARGETS)?;
            return conclude(onnx::networks::run(layout, steps, &targets, &conditions, &filter)?);
        }
        let mut total = Tally::default();
        if hip {
            rocm::runtime(layout, steps)?;
            for target in &targets_or(target, &rocm::TARGETS)? {
                total += models::run_beside_hip(layout, steps, target, &conditions)?;
            }
            return conclude(total);
        }
        let all = [configurations::TARGETS.as_slice(), &tiers::MODELS_TARGETS].concat();
        for target in &targets_or(target, &all)? {
            total += models::run(layout, steps, target, &hsa.hsa, &conditions)?;
        }
        conclude(total)
    }
}
