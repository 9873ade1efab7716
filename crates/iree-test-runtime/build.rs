// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Compiles IREE's runtime with the same definitions that the driver's
//! bindings are read with.

#[path = "../../build_support/iree_tree.rs"]
mod iree_tree;

use std::path::{Path, PathBuf};

use iree_tree::Config;

/// Folders below `iree/` whose C files all belong to the library.
const FOLDERS: &[&str] = &[
    "base",
    "base/internal",
    "base/threading",
    "io",
    "async",
    "async/util",
    "async/platform/io_uring",
    "async/platform/linux",
    "async/platform/posix",
    "hal",
    "hal/memory",
    "hal/utils",
];

/// Single files beside those folders.
const FILES: &[&str] = &["hal/local/transient_buffer.c", "hal/local/profile.c"];

/// Marks in a file name of what is no part of the library on Linux, or needs
/// what is not there: other platforms, tests, the mimalloc allocator, MPI, and
/// readers of flatbuffers, whose code IREE's build generates.
const LEFT_OUT: &[&str] = &[
    "_test.c",
    "_benchmark.c",
    "_win32.c",
    "_darwin.c",
    "_kqueue.c",
    "mimalloc",
    "mpi",
    "executable_header",
    "executable_debug_info",
];

fn main() {
    if let Err(message) = run() {
        println!("cargo::error={message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../build_support/iree_tree.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .ok_or("this crate lies two folders below the project's root")?;
    let config = Config::from_environment(root)?;
    let source_dir = config.runtime_source_dir()?.join("iree");
    let mut files: Vec<PathBuf> = FILES.iter().map(|file| source_dir.join(file)).collect();
    for folder in FOLDERS {
        files.extend(c_files(&source_dir.join(folder))?);
    }
    config
        .compiler()
        .files(files)
        .opt_level(1)
        .try_compile("iree_test_runtime")
        .map_err(|error| format!("compiling IREE's runtime: {error}"))
}

fn c_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("listing {}: {error}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("listing {}: {error}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if name.ends_with(".c") && !LEFT_OUT.iter().any(|mark| name.contains(mark)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
