// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask demo`: arguments and set-up.

use std::path::PathBuf;

use super::{HsaOption, TargetOption};
use crate::{demo, onnx};
use xtask_core::error::{Error, Result};
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Kind of input to read
    #[arg(value_enum, default_value = "digits")]
    what: Reads,
    /// Picture whose text `ocr` reads, e.g. a PNG (default: demo/sign.png)
    image: Option<PathBuf>,
    #[command(flatten)]
    target: TargetOption,
    #[command(flatten)]
    hsa: HsaOption,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        let Self { what, image, target: TargetOption { target }, hsa } = self;
        if matches!(what, Reads::Digits) && image.is_some() {
            return Err(Error::setup("the digits' pictures are its own: `demo ocr IMAGE` reads one of yours"));
        }
        target.check_compiled(&hsa.hsa)?;
        setup::everything(layout, steps, Build::Tools)?;
        hsa.ensure(layout, steps)?;
        match what {
            Reads::Digits => demo::run(layout, steps, &target, &hsa.hsa),
            Reads::Ocr => onnx::ocr::run(layout, steps, &target, &hsa.hsa, image.as_deref()),
        }
    }
}

/// Input of the demo.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Reads {
    /// Handwritten digits
    Digits,
    /// The text in a picture
    Ocr,
}
