// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask check`: static checks, which no test makes.

use std::process::Command;

use clap::CommandFactory;

use crate::Arguments;
use crate::device_binaries;
use crate::docs;
use crate::imports;
use crate::lock_free;
use crate::prose;
use crate::widths;
use xtask_core::error::{Error, Result};
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::Steps;

/// Formatting, imports, lints, documentation and its pages, packages for crates.io, and generated files that match
/// their sources. Set-up must have made IREE's tree.
///
/// # Errors
/// At the first check that does not hold.
pub fn run(layout: &Layout, steps: &Steps) -> Result<()> {
    let cargo = |name: &str, arguments: &[&str]| {
        steps.step(name, |step| {
            let mut cargo = layout.cargo();
            cargo.args(arguments).env("RUSTDOCFLAGS", "-D warnings");
            step.run(cargo)
        })
    };
    cargo("Formatting", &["fmt", "--all", "--check", "--", "--color=never"])?;
    steps.step("Imports", |_| imports::check(&layout.root))?;
    steps.step("Lock-free structures", |_| lock_free::check(&layout.root))?;
    steps.step("Documentation's links, commands and tables", |_| docs::check(&layout.root, &Arguments::command()))?;
    book(layout, steps)?;
    steps.step("First words of doc comments", |_| prose::check(&layout.root))?;
    steps.step("Widths of comments", |_| widths::check(&layout.root))?;
    cargo("Lints", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    cargo("Documentation", &["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])?;
    packaging(layout, steps)?;
    device_binaries(layout, steps, device_binaries::DEFAULT_TOOLCHAIN)
}

/// Packages that programs outside of this project can use, in the order in which they are published.
const PUBLISHED: [&str; 7] =
    ["hsa-abi", "amdgpu-code-object", "sim-isa", "sim-jit", "sim-wave", "sim-debug", "hsa-sim"];

/// Packs [`PUBLISHED`] as for crates.io, without a build, and checks that each holds its licence and its read-me.
fn packaging(layout: &Layout, steps: &Steps) -> Result<()> {
    steps.step("Packages for crates.io", |step| {
        let cargo = || {
            let mut cargo = layout.cargo();
            cargo.args(["package", "--locked", "--allow-dirty"]);
            cargo
        };
        for name in PUBLISHED {
            let mut list = cargo();
            list.args(["--list", "--package", name]);
            let listed = String::from_utf8_lossy(&step.capture(list)?).into_owned();
            for file in ["LICENSE", "README.md"] {
                if !listed.lines().any(|line| line == file) {
                    return Err(Error::Failed(format!(
                        "the package {name} holds no {file}: see `include` in its manifest"
                    )));
                }
            }
        }
        let mut pack = cargo();
        pack.arg("--no-verify").args(PUBLISHED.iter().flat_map(|name| ["--package", name]));
        pack.arg("--target-dir").arg(layout.build.join("packages"));
        step.run(pack)
    })
}

/// Builds the book of `docs/`.
fn book(layout: &Layout, steps: &Steps) -> Result<()> {
    setup::mdbook(layout, steps)?;
    steps.step("The book", |step| {
        let mut mdbook = Command::new(layout.venv_program("mdbook"));
        mdbook.arg("build").arg(&layout.root);
        step.run(mdbook)
    })
}

/// Verifies that the checked-in device binaries, and the lists of their targets, match a build of their sources.
///
/// # Errors
/// When they differ, or cannot be built.
pub fn device_binaries(layout: &Layout, steps: &Steps, toolchain: &str) -> Result<()> {
    steps.step("Device binaries are up to date", |step| {
        let scratch = layout.build.join("device-binaries");
        device_binaries::verify(&layout.root, toolchain, &scratch, |target| step.note(target))
    })
}
