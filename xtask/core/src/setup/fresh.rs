// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A stamp that says for which sources a set-up was complete. A command that finds it current builds nothing, so it
//! takes no lock and does not wait for the set-up of another command.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Context, Result};
use crate::layout::Layout;

/// Files and folders of the checkout that the tools, the driver and the sim are built from, and the set-up itself.
const SOURCES: [&str; 18] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "CMakeLists.txt",
    "benches",
    "build.rs",
    "build_support",
    "crates",
    "cts",
    "device-binaries",
    "include",
    "iree_runtime_plugin.cmake",
    "registration",
    "sim",
    "src",
    "tests",
    "wrapper.h",
    "xtask",
];

/// Environment variables that change the products of a build.
const VARIABLES: [&str; 6] = ["CARGO_TARGET_DIR", "CC", "CFLAGS", "CXX", "LIBCLANG_PATH", "RUSTFLAGS"];

fn stamp(layout: &Layout) -> PathBuf {
    layout.cmake().join("tools-set-up.txt")
}

/// The settings for which a set-up was complete.
fn settings() -> String {
    let value = |name| std::env::var(name).unwrap_or_default();
    VARIABLES.map(|name| format!("{name}={}\n", value(name))).concat()
}

/// True if the tools, the driver and the sim exist, and nothing that they are built from has changed since their
/// set-up. The user's own tree of IREE is never taken for unchanged.
pub fn is_current(layout: &Layout) -> bool {
    if layout.user_tree.is_some() || !layout.tool("iree-run-module").exists() || !layout.sim_library().exists() {
        return false;
    }
    let stamp = stamp(layout);
    let written = fs::metadata(&stamp).and_then(|of| of.modified());
    let (Ok(text), Ok(written)) = (fs::read_to_string(&stamp), written) else { return false };
    text == settings() && SOURCES.iter().all(|name| is_older(&layout.root.join(name), written))
}

/// True if nothing below a path was changed at `time` or later. A removal changes the folder.
fn is_older(path: &Path, time: SystemTime) -> bool {
    let Ok(of) = fs::symlink_metadata(path) else { return true };
    let is_older_itself = of.modified().is_ok_and(|changed| changed < time);
    let entries = || fs::read_dir(path).into_iter().flatten().flatten();
    is_older_itself && (!of.is_dir() || entries().all(|entry| is_older(&entry.path(), time)))
}

/// Records that everything is set up for the sources as they were at `began`.
///
/// # Errors
/// When the stamp cannot be written.
pub fn record(layout: &Layout, began: SystemTime) -> Result<()> {
    let path = stamp(layout);
    let shown = || format!("writing {}", path.display());
    fs::write(&path, settings()).context(shown)?;
    fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(began)).context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flavor::Flavor;
    use std::time::Duration;

    #[test]
    fn a_change_of_a_source_makes_a_set_up_old() {
        let root = std::env::temp_dir().join(format!("xtask-fresh-{}", std::process::id()));
        let mut layout =
            Layout { root: root.clone(), build: root.join("build"), user_tree: None, flavor: Flavor::Plain };
        fs::create_dir_all(root.join("src/core")).unwrap();
        fs::create_dir_all(layout.cmake().join("tools")).unwrap();
        let now = SystemTime::now();
        record(&layout, now + Duration::from_secs(60)).unwrap();
        assert!(!is_current(&layout), "nothing is built");
        fs::write(layout.tool("iree-run-module"), "").unwrap();
        fs::create_dir_all(layout.sim_library().parent().unwrap()).unwrap();
        fs::write(layout.sim_library(), "").unwrap();
        assert!(is_current(&layout));
        record(&layout, now - Duration::from_secs(60)).unwrap();
        assert!(!is_current(&layout), "the sources are newer");
        record(&layout, now + Duration::from_secs(60)).unwrap();
        layout.user_tree = Some(root.clone());
        assert!(!is_current(&layout), "a tree of the user's");
        fs::remove_dir_all(root).unwrap();
    }
}
