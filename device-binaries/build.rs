// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Chooses the code objects to embed and writes `embedded.rs` with them.
//!
//! Environment:
//! * `AMDGPU_RS_DEVICE_BINARY_TARGETS`: selectors (see `src/targets.rs`); default: all that are prebuilt.
//! * `AMDGPU_RS_DEVICE_BINARY_BUILD_MODE`: `prebuilt` (default) or `source`.
//! * `AMDGPU_RS_DEVICE_TOOLCHAIN`: what compiles them in mode `source` (see `src/toolchain.rs`).

#[path = "src/targets.rs"]
pub mod targets;
#[path = "src/toolchain.rs"]
mod toolchain;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use amdgpu_code_object::Processor;
use toolchain::Toolchain;

const TARGETS: &str = "AMDGPU_RS_DEVICE_BINARY_TARGETS";
const BUILD_MODE: &str = "AMDGPU_RS_DEVICE_BINARY_BUILD_MODE";
const TOOLCHAIN: &str = "AMDGPU_RS_DEVICE_TOOLCHAIN";

fn main() {
    if let Err(message) = run() {
        println!("cargo::error={}", message.replace('\n', " | "));
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=prebuilt");
    // Each by its name: builds that read cargo's list of files do not look into folders.
    for file in ["kernels.c", "kernargs.h", "kernels.ld"] {
        println!("cargo::rerun-if-changed=kernels/{file}");
    }
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    let (selectors, mode, toolchain) = (variable(TARGETS)?, variable(BUILD_MODE)?, variable(TOOLCHAIN)?);
    let code_objects = code_objects(&root, &out_dir, &selectors, &mode, &toolchain)?;
    let mut text = String::from("[\n");
    for (target, file) in code_objects {
        writeln!(text, "    embed!({:?}, {file:?}),", target.to_string()).map_err(|error| error.to_string())?;
    }
    text.push_str("]\n");
    let path = out_dir.join("embedded.rs");
    fs::write(&path, text).map_err(|error| format!("writing {}: {error}", path.display()))
}

/// The value of an environment variable; empty if there is none.
fn variable(name: &str) -> Result<String, String> {
    println!("cargo::rerun-if-env-changed={name}");
    match env::var(name) {
        Ok(value) => Ok(value),
        Err(env::VarError::NotPresent) => Ok(String::new()),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// What the variables choose, each empty for its default; `root` is the crate's folder. Mode `source` compiles into `out_dir`.
///
/// # Errors
/// Names that are none, files that are not there, and what the toolchain said.
pub fn code_objects(
    root: &Path,
    out_dir: &Path,
    selectors: &str,
    mode: &str,
    toolchain: &str,
) -> Result<Vec<(Processor, PathBuf)>, String> {
    let chosen = targets::expand(selectors).map_err(|error| format!("{TARGETS}: {error}"))?;
    let files = match mode {
        "" | "prebuilt" => prebuilt(root, &chosen)?,
        "source" => compiled(root, out_dir, &chosen, toolchain)?,
        other => return Err(format!("{BUILD_MODE}={other}: the modes are `prebuilt` and `source`")),
    };
    Ok(chosen.into_iter().zip(files).collect())
}

fn prebuilt(root: &Path, chosen: &[Processor]) -> Result<Vec<PathBuf>, String> {
    let file = |target: &Processor| root.join(format!("prebuilt/{target}.co"));
    let (there, missing): (Vec<_>, Vec<_>) = chosen.iter().partition(|target| file(target).is_file());
    if missing.is_empty() {
        return Ok(chosen.iter().map(file).collect());
    }
    let rest = match there.as_slice() {
        [] => String::new(),
        there => format!("; what is prebuilt of the selection is {TARGETS}={}", names(there)),
    };
    Err(format!(
        "{TARGETS}: there is no prebuilt code object for {} in {}; {BUILD_MODE}=source compiles it if {TOOLCHAIN} names one that knows \
         it{rest}",
        names(&missing),
        root.join("prebuilt").display(),
    ))
}

fn names(targets: &[&Processor]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn compiled(root: &Path, out_dir: &Path, chosen: &[Processor], toolchain: &str) -> Result<Vec<PathBuf>, String> {
    // Where the tools are.
    for name in ["PATH", "ROCM_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let name = if toolchain.is_empty() { toolchain::DEFAULT_TOOLCHAIN } else { toolchain };
    let toolchain = Toolchain::find(name).map_err(|error| format!("{TOOLCHAIN}: {error}"))?;
    let compile = |target: &Processor| {
        toolchain.compile(&root.join("kernels"), *target, out_dir).map_err(|error| {
            format!(
                "{error}\n{target} was not compiled by {TOOLCHAIN}={name}; if that does not know the target, name another, or leave \
                 the target out of {TARGETS}"
            )
        })
    };
    chosen.iter().map(compile).collect()
}
