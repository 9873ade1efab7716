// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Makes everything a command needs, from nothing, and does nothing where it
//! is already there.

mod benchmark;
mod cmake;
mod packages;
mod python;
mod sim;
mod tree;

use crate::error::Result;
use crate::layout::Layout;
use crate::steps::Steps;
use crate::target::Target;

/// What is to be built of IREE besides its tools.
#[derive(Clone, Copy)]
pub enum Build<'a> {
    /// The tools with this driver.
    Tools,
    /// The tools and the driver's conformance tests with kernels for a target.
    ToolsAndCts(&'a Target),
}

/// Packages, Python environment and IREE's tree: what cargo needs to build
/// and test the workspace.
///
/// # Errors
/// When a package, a right or the network is missing.
pub fn sources(layout: &Layout, steps: &Steps) -> Result<()> {
    packages::ensure(steps)?;
    python::ensure(layout, steps)?;
    benchmark::ensure(layout, steps)?;
    tree::ensure(layout, steps)
}

/// All of [`sources`], IREE's tools built with this driver, and the sim.
///
/// # Errors
/// As [`sources`], and when a build fails.
pub fn everything(layout: &Layout, steps: &Steps, build: Build) -> Result<()> {
    sources(layout, steps)?;
    sim::ensure(layout, steps)?;
    cmake::ensure(layout, steps, build)
}

pub use cmake::cts_folder;
