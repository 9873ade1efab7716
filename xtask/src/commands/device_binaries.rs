// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask device-binaries`: arguments and set-up.

use crate::{check, device_binaries};
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::Steps;

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    action: Action,
    /// Compiler: `clang-22`, `rocm`, `rocm:<folder>` or `zig`
    #[arg(long, default_value = device_binaries::DEFAULT_TOOLCHAIN)]
    toolchain: String,
}

impl Arguments {
    /// Performs the command.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<()> {
        setup::sources(layout, steps)?;
        if !self.action.rebuild {
            return check::device_binaries(layout, steps, &self.toolchain);
        }
        steps.step("Device binaries", |step| {
            let folder = layout.root.join("device-binaries/prebuilt");
            device_binaries::rebuild(&layout.root, &self.toolchain, &folder, |target| step.note(target))?;
            device_binaries::write_lists(&layout.root)
        })
    }
}

/// Things to do with the files.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Action {
    /// Replaces the checked-in files
    #[arg(long)]
    rebuild: bool,
    /// Fails if the checked-in files differ from a build of their sources
    #[arg(long)]
    verify: bool,
}
