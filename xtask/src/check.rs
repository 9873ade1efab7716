// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask check`: static checks, which no test makes.

use std::process::Command;

use clap::CommandFactory;

use crate::Arguments;
use crate::device_binaries;
use crate::docs;
use crate::error::Result;
use crate::imports;
use crate::layout::Layout;
use crate::lock_free;
use crate::prose;
use crate::setup;
use crate::steps::Steps;
use crate::widths;

/// Formatting, imports, lints, documentation and its pages, and generated files that match their
/// sources. Set-up must have made IREE's tree.
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
    device_binaries(layout, steps, device_binaries::DEFAULT_TOOLCHAIN)
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
