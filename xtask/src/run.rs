// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask run -- iree-run-module …`.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use xtask_core::error::{Error, Result};
use xtask_core::hsa::{Hsa, limit_kernels};
use xtask_core::layout::Layout;
use xtask_core::process;
use xtask_core::target::Target;

/// Time limit of one kernel on the sim, unless the user sets one: longer than any kernel that ends, so that a hanging
/// kernel does not block a script for ever.
const KERNEL_LIMIT: Duration = Duration::from_secs(3600);

/// Replaces this process by the tool `words[0]`, with the other words as its arguments, in the caller's current folder.
/// `check` is the list of the sim's checks. Does not return on success.
///
/// # Errors
/// When there is no such tool, or when `check` is given for a library that does not run on the sim.
pub fn run(layout: &Layout, target: &Target, hsa: &Hsa, check: Option<&str>, words: &[String]) -> Result<ExitCode> {
    let Some((name, arguments)) = words.split_first() else {
        return Err(Error::setup("no tool was named"));
    };
    let mut command = Command::new(tool(layout, name)?);
    command.args(arguments);
    hsa.apply(layout, target, &mut command);
    if let Some(check) = check {
        if !hsa.is_on_sim() {
            return Err(Error::setup(format!("--check={check} is for the sim, not for {hsa}")));
        }
        command.env("HSA_SIM_CHECK", check);
    }
    limit_kernels(&mut command, KERNEL_LIMIT);
    let error = command.exec();
    Err(Error::setup(format!("running `{}`: {error}", process::display(&command))))
}

fn tool(layout: &Layout, name: &str) -> Result<std::path::PathBuf> {
    let built = layout.tool(name);
    if built.is_file() {
        return Ok(built);
    }
    let host = layout.host_tool(name);
    if host.is_file() {
        return Ok(host);
    }
    let mut known: Vec<String> = Vec::new();
    for folder in [layout.cmake().join("tools"), layout.host_tools()] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        known.extend(names.filter(|name| name.starts_with("iree-") && !name.contains('.')));
    }
    known.sort();
    Err(Error::setup(format!("no tool {name}; there are: {}", known.join(", "))))
}
