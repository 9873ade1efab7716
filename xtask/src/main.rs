// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The project's commands: `cargo xtask <command>`. Each command first installs and builds its prerequisites, from
//! nothing if need be. README.md shows how to use them.
//!
//! Exit codes: 0 success; 1 tests or checks failed; 2 wrong usage; 3 the command could not run. `run` exits with the
//! exit code of its tool.

#![allow(rustdoc::invalid_html_tags, reason = "the doc comments of commands are their help texts")]

mod bad_input;
mod bazel;
mod check;
mod check_kernel;
mod collectives;
mod commands;
mod configurations;
mod demo;
mod device_binaries;
mod dist;
mod docs;
mod examples;
mod hsa_failures;
mod imports;
mod libtest;
mod lock_free;
mod onnx;
mod probes;
mod profile;
mod prose;
mod python;
mod replay;
mod run;
mod soak;
mod tiers;
mod trace;
mod triton;
mod tutorials;
mod widths;

use std::process::ExitCode;

use clap::Parser;

use commands::Command;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;

/// Set-up, tests and demo of amdgpu_rs.
///
/// Every command first installs and builds what it needs, below build/ and
/// target/. IREE_SOURCE_DIR=<checkout> replaces the default IREE tree.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    /// Prints each step's commands and their output, which otherwise only go to build/logs/
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // A reader that has seen enough (`| head`) ends this process quietly.
    sigpipe::reset();
    match perform(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}

fn perform(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::from_environment()?;
    let steps = Steps::new(layout.build.join("logs")).verbose(arguments.verbose);
    arguments.command.perform(&layout, &steps)
}
