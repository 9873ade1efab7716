// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The software HSA runtime: cargo builds it, and set-up puts it under the name that HSA programs load, with a library
//! that simulates `/dev/kfd` beside it.

use std::fs;
use std::path::{Path, PathBuf};

use super::sysroot;
use crate::error::{Context, Error, Result};
use crate::flavor::Flavor;
use crate::hsa::DEBIAN_ROCR;
use crate::layout::Layout;
use crate::steps::Steps;

/// Builds `build/sim/libhsa-runtime64.so.1`, or a sanitized one, and the counter library beside it.
///
/// # Errors
/// When the build fails.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    steps.step("The sim", |step| {
        let build = |extra: &[&str]| {
            let mut cargo = layout.cargo();
            cargo.args(["build", "--release", "--locked", "--package", "hsa-sim", "--package", "aqlprofile-sim"]);
            cargo.args(extra);
            match layout.flavor {
                Flavor::Plain | Flavor::BesideC | Flavor::Python | Flavor::Traced => return cargo,
                Flavor::Sanitized(sanitizer) => sanitizer.instrument(&mut cargo),
                Flavor::Portable => sysroot::link_against(layout, &mut cargo),
            }
            cargo.arg("--target-dir").arg(layout.cargo_target());
            cargo
        };
        step.run(build(&[]))?;
        // Again, with nothing left to build, for the libraries' paths.
        let messages = step.capture(build(&["--message-format=json"]))?;
        let messages = String::from_utf8_lossy(&messages);
        let libraries = [("hsa_runtime64", layout.sim_library()), ("hsa_amd_aqlprofile64", layout.counters_library())];
        libraries.iter().try_for_each(|(name, target)| {
            let library = built_library(&messages, name, ".so")
                .ok_or_else(|| Error::setup(format!("cargo built no shared library {name}")))?;
            place(&library, target)
        })
    })
}

/// Copies a library to its place, if it is not there already.
fn place(library: &str, target: &Path) -> Result<()> {
    let new = fs::read(library).context(|| format!("reading {library}"))?;
    if fs::read(target).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let partial = partial(target)?;
    fs::write(&partial, new).context(|| format!("writing {}", partial.display()))?;
    fs::rename(&partial, target).context(|| format!("making {}", target.display()))
}

/// Temporary path of a library, to be renamed: a running process keeps the file that it has loaded. Creates the folder.
fn partial(target: &Path) -> Result<PathBuf> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
    }
    Ok(target.with_extension("partial"))
}

/// Builds `build/rocr/libhsakmt.so.1`: the sim's machine with the kernel driver's interface for AMD's HSA runtime.
///
/// # Errors
/// When the build fails, or AMD's HSA runtime is missing.
pub fn ensure_thunk(layout: &Layout, steps: &Steps) -> Result<()> {
    if !Path::new(DEBIAN_ROCR).exists() {
        return Err(Error::setup(format!("there is no {DEBIAN_ROCR}; Debian 12 has it in libhsa-runtime64-1")));
    }
    steps.step("The sim for AMD's HSA runtime", |step| {
        let build = |extra: &[&str]| {
            let mut cargo = layout.cargo();
            cargo.args(["build", "--release", "--locked", "--package", "hsakmt-sim"]).args(extra);
            cargo
        };
        step.run(build(&[]))?;
        let messages = step.capture(build(&["--message-format=json"]))?;
        let archive = built_library(&String::from_utf8_lossy(&messages), "hsakmt", ".a")
            .ok_or_else(|| Error::setup("cargo built no static library of the package hsakmt-sim"))?;
        let target = layout.thunk_library();
        let partial = partial(&target)?;
        // Cargo cannot give a shared library's symbols a version, which this one's are wanted with.
        let mut clang = layout.command("clang-22");
        clang.args(["-shared", "-fuse-ld=lld", "-Wl,--soname=libhsakmt.so.1,--strip-debug", "-o"]).arg(&partial);
        clang.arg(format!("-Wl,--version-script={}", layout.root.join("sim/kmt/libhsakmt.map").display()));
        clang.args(["-Wl,--whole-archive", &archive, "-Wl,--no-whole-archive", "-lgcc_s", "-lm"]);
        step.run(clang)?;
        fs::rename(&partial, &target).context(|| format!("making {}", target.display()))
    })
}

/// Compiles a library to preload that gives IREE's C driver a `/dev/kfd` on a machine without AMD's kernel driver; see
/// `cts/kfd.c`.
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

/// Returns the library with this suffix that cargo's JSON messages name for `target`.
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
