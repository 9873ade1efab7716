// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Builds IREE's runtime with CMake, from the tree of the driver's bindings, and links it.
//!
//! Output, below `OUT_DIR`: the files that `CMakeLists.txt` lists. The driver's build script
//! finds `iree_config.txt` in `DEP_IREE_RUNTIME_CONFIG`.

use std::env;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use build_support::{find_tree, plain_path};

/// The lowest version of CMake that IREE accepts.
const CMAKE_VERSION: (u32, u32) = (3, 26);

/// Parts of an IREE tree that the build reads.
const TREE_PARTS: &[&str] =
    &["CMakeLists.txt", "build_tools/cmake", "build_tools/third_party", "runtime", "third_party/flatcc"];

fn main() {
    if let Err(message) = run() {
        println!("cargo::error={message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_dir.ancestors().nth(2).ok_or("this crate lies two folders below the project's root")?;
    let tree = find_tree(root)?;
    // CMake keeps absolute paths, and two links to one tree are one tree.
    let tree = plain_path(&tree.canonicalize().map_err(|error| format!("{}: {error}", tree.display()))?)?;
    for part in TREE_PARTS {
        println!("cargo::rerun-if-changed={}", tree.join(part).display());
    }
    for part in ["build.rs", "CMakeLists.txt"] {
        println!("cargo::rerun-if-changed={part}");
    }
    println!("cargo::rerun-if-changed=../../build_support/iree.cmake");

    // Ends the build script with CMake's output if the build fails.
    let folder = cmake::Config::new(plain_path(root)?.join("crates/iree-runtime"))
        .generator("Ninja")
        // Whatever the profile of the Rust code is: IREE as it is used.
        .profile("Release")
        .define("AMDGPU_RS_IREE_SOURCE_DIR", &tree)
        .build_target("amdgpu_rs_iree")
        .env("PATH", tool_path(root)?)
        .out_dir(build_dir()?)
        .build()
        .join("build");
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=amdgpu_rs_iree");
    println!("cargo::metadata=config={}", folder.join("iree_config.txt").display());
    Ok(())
}

/// A build folder for the compilers in the environment: CMake cannot change the compilers of a configured folder.
fn build_dir() -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    for variable in ["CC", "CFLAGS", "CXX", "CXXFLAGS"] {
        println!("cargo::rerun-if-env-changed={variable}");
        env::var_os(variable).hash(&mut hasher);
    }
    let out_dir = env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?;
    Ok(plain_path(Path::new(&out_dir))?.join(format!("{:016x}", hasher.finish())))
}

/// The search path for CMake and its tools, with set-up's CMake first.
fn tool_path(root: &Path) -> Result<OsString, String> {
    let mut folders = vec![root.join("build/venv/bin")];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let find = |tool: &str| {
        let mut files = folders.iter().map(|folder| folder.join(tool));
        files.find(|file| file.is_file()).ok_or_else(|| {
            format!(
                "building IREE's runtime needs {tool}, which is not in PATH. Install it, or run \
                 `cargo xtask setup` in {}",
                root.display()
            )
        })
    };
    let (cmake, _ninja) = (find("cmake")?, find("ninja")?);
    if env::var_os("CXX").is_none() {
        // IREE's project has C++ in it, though the runtime has not.
        find("c++")?;
    }
    check_version(&cmake, root)?;
    env::join_paths(&folders).map_err(|error| format!("PATH: {error}"))
}

fn check_version(cmake: &Path, root: &Path) -> Result<(), String> {
    let output = Command::new(cmake).arg("--version").output();
    let output = output.map_err(|error| format!("running {}: {error}", cmake.display()))?;
    // "cmake version 3.31.6"
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    let mut numbers = first.rsplit(' ').next().unwrap_or_default().split('.').map_while(|part| part.parse().ok());
    if numbers.next().zip(numbers.next()).is_some_and(|version| version >= CMAKE_VERSION) {
        return Ok(());
    }
    let (major, minor) = CMAKE_VERSION;
    Err(format!(
        "building IREE's runtime needs CMake {major}.{minor} or newer, and {} is '{first}'. Put a newer one first \
         in PATH, or run `cargo xtask setup` in {}",
        cmake.display(),
        root.display()
    ))
}
