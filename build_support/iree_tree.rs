// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Where IREE's headers are and how they must be read. Shared by the build
//! scripts of the driver and of the test runtime, which must agree on both.

use std::path::{Path, PathBuf};

/// Names the file that CMake writes with the include folders and macro
/// definitions of its own build: lines `include=<folder>` and `define=<item>`.
pub const CONFIG_VARIABLE: &str = "AMDGPU_RS_IREE_CONFIG";

/// Names an IREE checkout (the folder that holds `runtime/src/iree`).
pub const SOURCE_VARIABLE: &str = "IREE_SOURCE_DIR";

/// Definitions of a Release build of IREE with its default options, used when
/// cargo runs by itself. Under CMake the build's own set replaces them.
///
/// `IREE_THREADING_ENABLE` sits in IREE's default compile options; the
/// allocator's two are set by `runtime/src/iree/base/CMakeLists.txt`.
/// `NDEBUG` selects the release status mode and drops debug-only fields.
const RELEASE_DEFINES: &[&str] =
    &["NDEBUG", "_GNU_SOURCE", "IREE_THREADING_ENABLE=1", "IREE_ALLOCATOR_SYSTEM_CTL=iree_allocator_libc_ctl"];

/// Include folders and macro definitions for C code that uses IREE.
pub struct Config {
    /// Folders for `-I`, in order; the first that holds `iree/base/api.h` is
    /// the runtime's source folder.
    pub includes: Vec<PathBuf>,
    /// Items for `-D`, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
}

impl Config {
    /// Reads the configuration that the environment selects: CMake's file, or
    /// a source tree with the release definitions. `manifest_dir` is the
    /// project's root; its `build/iree` is the default tree.
    ///
    /// Prints the `cargo::rerun-if` lines for what it looked at.
    ///
    /// # Errors
    /// Says which places were looked at when none holds IREE's headers, and
    /// which line of CMake's file is wrong.
    pub fn from_environment(project_root: &Path) -> Result<Self, String> {
        println!("cargo::rerun-if-env-changed={CONFIG_VARIABLE}");
        println!("cargo::rerun-if-env-changed={SOURCE_VARIABLE}");
        if let Some(path) = std::env::var_os(CONFIG_VARIABLE) {
            return Self::from_file(Path::new(&path));
        }
        let tree = find_tree(project_root)?;
        Ok(Self {
            includes: vec![tree.join("runtime/src"), tree.join("third_party/flatcc/include")],
            defines: RELEASE_DEFINES.iter().map(ToString::to_string).collect(),
        })
    }

    fn from_file(path: &Path) -> Result<Self, String> {
        println!("cargo::rerun-if-changed={}", path.display());
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("{CONFIG_VARIABLE}={}: {error}", path.display()))?;
        let mut config = Self { includes: Vec::new(), defines: Vec::new() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once('=') {
                Some(("include", folder)) => config.includes.push(PathBuf::from(folder)),
                Some(("define", item)) => config.defines.push(item.to_owned()),
                _ => {
                    return Err(format!(
                        "{}: expected `include=<folder>` or `define=<item>`, found `{line}`",
                        path.display()
                    ));
                }
            }
        }
        config.runtime_source_dir()?;
        Ok(config)
    }

    /// The folder that holds `iree/base/api.h`.
    ///
    /// # Errors
    /// Lists the include folders when none does.
    pub fn runtime_source_dir(&self) -> Result<&Path, String> {
        self.includes
            .iter()
            .map(PathBuf::as_path)
            .find(|folder| folder.join("iree/base/api.h").is_file())
            .ok_or_else(|| format!("no include folder holds iree/base/api.h; looked in {:?}", self.includes))
    }

    /// A C compiler run set up with these folders and definitions.
    pub fn compiler(&self) -> cc::Build {
        let mut build = cc::Build::new();
        build.includes(&self.includes).warnings(false).std("gnu11");
        for item in &self.defines {
            match item.split_once('=') {
                Some((name, value)) => build.define(name, value),
                None => build.define(item, None),
            };
        }
        build
    }
}

fn find_tree(project_root: &Path) -> Result<PathBuf, String> {
    let candidates = match std::env::var_os(SOURCE_VARIABLE) {
        // A checkout named by the user is the only candidate: falling back
        // to another tree would hide a typing mistake.
        Some(named) => vec![PathBuf::from(named)],
        None => vec![project_root.join("build/iree")],
    };
    candidates.iter().find(|tree| tree.join("runtime/src/iree/hal/api.h").is_file()).cloned().ok_or_else(|| {
        let tried: Vec<_> = candidates.iter().map(|tree| tree.display().to_string()).collect();
        format!(
            "IREE's runtime sources were not found (no runtime/src/iree/hal/api.h in: {}). \
                 Set {SOURCE_VARIABLE} to an IREE checkout, or run `cargo xtask setup`, \
                 which puts one at build/iree",
            tried.join(", ")
        )
    })
}
