// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask check-kernel FILE KERNEL …`: the program of `sim/check-kernel`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use xtask_core::error::{Error, Result};
use xtask_core::layout::Layout;
use xtask_core::process;
use xtask_core::steps::Steps;

/// Builds the program and returns its path.
///
/// # Errors
/// When it cannot be built.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<String> {
    steps.step("The checker of kernels", |step| {
        let build = |extra: &[&str]| {
            let mut cargo = layout.cargo();
            cargo.args(["build", "--release", "--locked", "--package", "check-kernel"]).args(extra);
            cargo
        };
        step.run(build(&[]))?;
        // Again, with nothing left to build, for the program's path.
        let messages = step.capture(build(&["--message-format=json"]))?;
        executable(&String::from_utf8_lossy(&messages), "check-kernel")
            .ok_or_else(|| Error::setup("cargo built no program of the package check-kernel"))
    })
}

/// Builds the program, and replaces this process by it, in the caller's current folder.
///
/// # Errors
/// When it cannot be built; does not return otherwise.
pub fn run(layout: &Layout, steps: &Steps, arguments: &[OsString]) -> Result<ExitCode> {
    let mut command = Command::new(ensure(layout, steps)?);
    command.args(arguments);
    let error = command.exec();
    Err(Error::setup(format!("running `{}`: {error}", process::display(&command))))
}

/// The program that cargo's JSON messages name for `target`.
fn executable(messages: &str, target: &str) -> Option<String> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == target)
        .find_map(|message| message["executable"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"hsa_runtime64"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"check-kernel"},"executable":"/t/check-kernel"}"#,
        );
        assert_eq!(executable(messages, "check-kernel").as_deref(), Some("/t/check-kernel"));
        assert_eq!(executable(messages, "hsa_runtime64"), None);
    }
}
