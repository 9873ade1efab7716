// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Build of the device library of `device-binaries/`: the map of its code objects, the choice among them, and their
//! compiler. For that crate's build script and `cargo xtask device-binaries`.

mod targets;
mod toolchain;

use std::path::{Path, PathBuf};

use amdgpu_code_object::Processor;

pub use targets::{
    DEFAULT_SELECTOR, FAMILIES, UnknownSelector, code_object_targets, expand, is_prebuilt, prebuilt_targets,
    processors_of, selectors,
};
pub use toolchain::{DEFAULT_TOOLCHAIN, TOOLCHAINS, Toolchain};

/// Environment variable with the selectors that [`expand`] takes; default: all prebuilt targets.
pub const TARGETS: &str = "AMDGPU_RS_DEVICE_BINARY_TARGETS";
/// Environment variable with the build mode: `prebuilt` (default) or `source`.
pub const BUILD_MODE: &str = "AMDGPU_RS_DEVICE_BINARY_BUILD_MODE";
/// Environment variable with the toolchain for mode `source`; see [`Toolchain::find`].
pub const TOOLCHAIN: &str = "AMDGPU_RS_DEVICE_TOOLCHAIN";

/// Returns the code objects that the variables choose, each variable empty for its default. `root` is the folder
/// `device-binaries`. Mode `source` compiles into `out_dir`, and prints the variables that it depends on for cargo, as
/// build scripts do.
///
/// # Errors
/// Unknown names, missing files, and errors of the toolchain.
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
    let name = if toolchain.is_empty() { DEFAULT_TOOLCHAIN } else { toolchain };
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
