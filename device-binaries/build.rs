// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Chooses the code objects to embed and writes `embedded.rs` with them.
//!
//! Environment:
//! * `AMDGPU_RS_DEVICE_BINARY_TARGETS`: selectors (see `src/targets.rs`); default: all that are prebuilt.
//! * `AMDGPU_RS_DEVICE_BINARY_BUILD_MODE`: `prebuilt` (default) or `source`.
//! * `AMDGPU_RS_DEVICE_TOOLCHAIN`: what compiles them in mode `source` (see `src/toolchain.rs`).

#[path = "src/targets.rs"]
mod targets;
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
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=prebuilt");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?.unwrap_or_default());
    let out_dir = PathBuf::from(variable("OUT_DIR")?.unwrap_or_default());
    let selectors = variable(TARGETS)?.unwrap_or_default();
    let chosen = targets::expand(&selectors).map_err(|error| format!("{TARGETS}: {error}"))?;
    let files = match variable(BUILD_MODE)?.as_deref() {
        None | Some("" | "prebuilt") => prebuilt(&root, &chosen)?,
        Some("source") => compiled(&root, &out_dir, &chosen)?,
        Some(other) => return Err(format!("{BUILD_MODE}={other}: the modes are `prebuilt` and `source`")),
    };
    let mut text = String::from("[\n");
    for (target, file) in chosen.iter().zip(&files) {
        writeln!(text, "    embed!({:?}, {:?}),", target.to_string(), file).map_err(|error| error.to_string())?;
    }
    text.push_str("]\n");
    let path = out_dir.join("embedded.rs");
    fs::write(&path, text).map_err(|error| format!("writing {}: {error}", path.display()))
}

fn variable(name: &str) -> Result<Option<String>, String> {
    println!("cargo::rerun-if-env-changed={name}");
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

fn prebuilt(root: &Path, chosen: &[Processor]) -> Result<Vec<PathBuf>, String> {
    let file = |target: &Processor| {
        let path = root.join(format!("prebuilt/{target}.co"));
        if path.is_file() {
            return Ok(path);
        }
        Err(format!(
            "{TARGETS}: there is no prebuilt code object for {target} ({}); {BUILD_MODE}=source compiles it if the toolchain knows the \
             target, `{}` selects those there are",
            path.display(),
            targets::DEFAULT_SELECTOR
        ))
    };
    chosen.iter().map(file).collect()
}

fn compiled(root: &Path, out_dir: &Path, chosen: &[Processor]) -> Result<Vec<PathBuf>, String> {
    let name = variable(TOOLCHAIN)?.filter(|name| !name.is_empty());
    let toolchain = Toolchain::find(name.as_deref().unwrap_or(toolchain::DEFAULT_TOOLCHAIN))
        .map_err(|error| format!("{TOOLCHAIN}: {error}"))?;
    chosen.iter().map(|target| toolchain.compile(&root.join("kernels"), *target, out_dir)).collect()
}
