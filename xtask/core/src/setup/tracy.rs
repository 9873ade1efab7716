// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sources of Tracy's client, for IREE's builds with tracing. They are a submodule of IREE, which the crate with
//! IREE's tree lacks. They come from the crate tracy-client-sys, whose folder `tracy` is Tracy's folder `public`.

use std::fs;
use std::path::PathBuf;

use super::tree;
use crate::error::{Context, Result};
use crate::layout::Layout;
use crate::steps::Steps;

/// Name and version of the crate, which contains Tracy 0.12.0, and the feature of this package that adds it to cargo's
/// dependencies.
const CRATE: tree::Release = tree::Release { name: "tracy-client-sys", version: "0.25.0", feature: "tracy" };

/// Replacement of Tracy's own file. No target links Tracy's library, because IREE includes Tracy's only source file in
/// one of its own.
const CMAKE_LISTS: &str = "\
add_library(TracyClient INTERFACE)
add_library(Tracy::TracyClient ALIAS TracyClient)
target_include_directories(TracyClient SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/public>)
find_package(Threads REQUIRED)
target_link_libraries(TracyClient INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
";

/// Folder of the sources.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("tracy")
}

/// Downloads the sources.
///
/// # Errors
/// When the crate cannot be downloaded.
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
