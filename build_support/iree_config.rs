// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! How IREE's headers must be read.

use std::path::{Path, PathBuf};

use build_support::find_tree;

/// Names the file that an IREE build by CMake writes about itself; see [`Config::from_file`].
const CONFIG_VARIABLE: &str = "AMDGPU_RS_IREE_CONFIG";

/// Definitions of a Release build of IREE with its default options, used when
/// cargo runs by itself. Under CMake the build's own set replaces them.
///
/// `IREE_THREADING_ENABLE` sits in IREE's default compile options; the allocator's two are set by
/// `runtime/src/iree/base/CMakeLists.txt`. `NDEBUG` selects the release status mode and drops debug-only fields.
const RELEASE_DEFINES: &[&str] =
    &["NDEBUG", "_GNU_SOURCE", "IREE_THREADING_ENABLE=1", "IREE_ALLOCATOR_SYSTEM_CTL=iree_allocator_libc_ctl"];

/// Include folders, macro definitions and options for C code that uses IREE.
pub struct Config {
    /// Folders for `-I`, in order; the first that holds `iree/base/api.h` is the runtime's source folder.
    pub includes: Vec<PathBuf>,
    /// Items for `-D`, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Compiler options that the headers can tell: `-fsanitize=` ones.
    pub options: Vec<String>,
}

impl Config {
    /// The configuration that the environment selects: CMake's file, or a source tree with the release definitions.
    ///
    /// Prints the `cargo::rerun-if` lines for what it looked at.
    ///
    /// # Errors
    /// Says which places were looked at when none holds IREE's headers, and which line of CMake's file is wrong.
    pub fn from_environment(project_root: &Path) -> Result<Self, String> {
        println!("cargo::rerun-if-env-changed={CONFIG_VARIABLE}");
        if let Some(path) = std::env::var_os(CONFIG_VARIABLE) {
            println!("cargo::rerun-if-changed={}", Path::new(&path).display());
            return Self::from_file(Path::new(&path));
        }
        let tree = find_tree(project_root)?;
        Ok(Self {
            includes: vec![tree.join("runtime/src"), tree.join("third_party/flatcc/include")],
            defines: RELEASE_DEFINES.iter().map(ToString::to_string).collect(),
            options: Vec::new(),
        })
    }

    /// Reads the file that `build_support/iree.cmake` writes: lines
    /// `include=<folder>`, `define=<item>` and `option=<option>`.
    ///
    /// # Errors
    /// Names the file that cannot be read, and the line that is wrong.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        let mut config = Self { includes: Vec::new(), defines: Vec::new(), options: Vec::new() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once('=') {
                Some(("include", folder)) => config.includes.push(PathBuf::from(folder)),
                Some(("define", item)) => config.defines.push(item.to_owned()),
                Some(("option", option)) => config.options.push(option.to_owned()),
                _ => {
                    return Err(format!(
                        "{}: expected `include=<folder>`, `define=<item>` or `option=<option>`, found `{line}`",
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

    /// A C compiler run set up with these folders, definitions and options.
    pub fn compiler(&self) -> cc::Build {
        let mut build = cc::Build::new();
        build.includes(&self.includes).flags(&self.options).warnings(false).std("gnu11");
        for item in &self.defines {
            match item.split_once('=') {
                Some((name, value)) => build.define(name, value),
                None => build.define(item, None),
            };
        }
        build
    }
}
