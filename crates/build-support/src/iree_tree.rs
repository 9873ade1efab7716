// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The location of IREE's sources.

use std::path::{Path, PathBuf};

/// Names an IREE checkout (the folder that holds `runtime/src/iree`).
const SOURCE_VARIABLE: &str = "IREE_SOURCE_DIR";

/// The IREE checkout that the environment names, else `build/iree` in the project's root; for a build script, which
/// runs again when the variable changes.
///
/// The places that were tried, if none is a checkout.
/// Says which places were looked at when none is a checkout.
pub fn find_tree(project_root: &Path) -> Result<PathBuf, String> {
    println!("cargo::rerun-if-env-changed={SOURCE_VARIABLE}");
    let candidates = match std::env::var_os(SOURCE_VARIABLE) {
        // A checkout named by the user is the only candidate: falling back to another tree would hide a typing mistake.
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
