// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sources of Tracy's client, for IREE's builds with tracing. IREE has them as a submodule, which the crate with
//! its tree leaves out. They come from the crate tracy-client-sys, whose folder `tracy` is Tracy's folder `public`.

use std::fs;
use std::path::PathBuf;

use super::tree;
use crate::error::{Context, Result};
use crate::layout::Layout;
use crate::steps::Steps;

/// The crate's name and version, and the feature of this package by which cargo knows it. It is of Tracy 0.12.0.
const CRATE: tree::Release = tree::Release { name: "tracy-client-sys", version: "0.25.0", feature: "tracy" };

/// In place of Tracy's own, whose library nobody links: IREE includes Tracy's one source file in one of its own.
const CMAKE_LISTS: &str = "\
add_library(TracyClient INTERFACE)
add_library(Tracy::TracyClient ALIAS TracyClient)
target_include_directories(TracyClient SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/public>)
find_package(Threads REQUIRED)
target_link_libraries(TracyClient INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
";

/// Where the sources are.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("tracy")
}

/// Downloads the sources.
///
/// # Errors
/// When the crate cannot be had.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let folder = folder(layout);
    if folder.join("CMakeLists.txt").is_file() {
        return Ok(());
    }
    steps.step("Tracy's sources", |step| {
        let source = tree::crate_folder(layout, step, CRATE)?.join("tracy");
        tree::copy_tree(&source, &folder.join("public"), step)?;
        // Last: it says that all is there.
        let lists = folder.join("CMakeLists.txt");
        fs::write(&lists, CMAKE_LISTS).context(|| format!("writing {}", lists.display()))
    })
}
