// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The software HSA runtime, built by cargo and put where HSA programs find
//! it under its own name; and what stands in for `/dev/kfd` beside it.

use std::fs;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::steps::Steps;

/// Builds `build/sim/libhsa-runtime64.so.1`, or a sanitized one.
///
/// # Errors
/// When the build fails.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    steps.step("The sim", |step| {
        let build = |extra: &[&str]| {
            let mut cargo = layout.cargo();
            cargo.args(["build", "--release", "--locked", "--package", "hsa-sim"]).args(extra);
            if let Some(sanitizer) = layout.flavor.sanitizer() {
                sanitizer.instrument(&mut cargo);
                cargo.arg("--target-dir").arg(layout.root.join("target").join(sanitizer.name()));
            }
            cargo
        };
        step.run(build(&[]))?;
        // Again, with nothing left to build, for the library's path.
        let messages = step.capture(build(&["--message-format=json"]))?;
        let library = built_library(&String::from_utf8_lossy(&messages), "hsa_runtime64", ".so")
            .ok_or_else(|| Error::setup("cargo built no shared library of the package hsa-sim"))?;

        let target = layout.sim_library();
        let new = fs::read(&library).context(|| format!("reading {library}"))?;
        if fs::read(&target).is_ok_and(|old| old == new) {
            return Ok(());
        }
        // Written aside and renamed: a running process keeps the file it has.
        let partial = target.with_extension("partial");
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
        }
        fs::write(&partial, new).context(|| format!("writing {}", partial.display()))?;
        fs::rename(&partial, &target).context(|| format!("making {}", target.display()))
    })
}

/// Compiles the library that gives IREE's C driver its `/dev/kfd` on a machine
/// without AMD's kernel driver, to be preloaded; see `cts/kfd.c`.
///
/// # Errors
/// When the compiler fails.
pub fn ensure_kfd(layout: &Layout, steps: &Steps) -> Result<()> {
    steps.step("A stand-in for /dev/kfd", |step| {
        let mut clang = layout.command("clang-22");
        clang.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        clang.arg(layout.kfd_library()).arg(layout.root.join("cts/kfd.c"));
        step.run(clang)
    })
}

/// The library with that suffix that cargo's JSON messages name for `target`.
pub fn built_library(messages: &str, target: &str, suffix: &str) -> Option<String> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == target)
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(str::to_owned))
        .find(|name| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::built_library;

    #[test]
    fn the_library_is_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"libc"},"filenames":["/t/liblibc.rlib"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"hsa_runtime64"},"filenames":["/t/libhsa_runtime64.rlib","/t/libhsa_runtime64.so"]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        assert_eq!(built_library(messages, "hsa_runtime64", ".so").as_deref(), Some("/t/libhsa_runtime64.so"));
        assert_eq!(built_library("not json\n", "hsa_runtime64", ".so"), None);
    }
}
