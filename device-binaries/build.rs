// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Chooses the code objects to embed and writes `embedded.rs` with them.
//!
//! [`device_build::code_objects`] describes the environment variables.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use device_build::{BUILD_MODE, TARGETS, TOOLCHAIN, code_objects};

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
