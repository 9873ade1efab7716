// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sources of Rust's standard library, which builds for ThreadSanitizer compile: see [`Sanitizer::instrument`].

use std::path::Path;

use crate::error::{Error, Result};
use crate::flavor::{Flavor, Sanitizer};
use crate::layout::Layout;
use crate::steps::Steps;

/// Adds the sources to the Rust toolchain in use, if the layout's flavor needs them and they are missing.
///
/// # Errors
/// When rustup is missing, or fails.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    if layout.flavor != Flavor::Sanitized(Sanitizer::Thread) {
        return Ok(());
    }
    steps.step("Sources of Rust's standard library", |step| {
        let mut rustc = layout.command("rustc");
        rustc.args(["--print", "sysroot"]);
        let sysroot = step.capture(rustc)?;
        let sources = Path::new(String::from_utf8_lossy(&sysroot).trim()).join("lib/rustlib/src/rust/library");
        if sources.is_dir() {
            return Ok(());
        }
        let mut rustup = layout.command("rustup");
        rustup.args(["component", "add", "rust-src"]);
        step.run(rustup).map_err(|error| Error::setup(format!("ThreadSanitizer needs {}: {error}", sources.display())))
    })
}
