// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sources of Google Benchmark, which IREE's benchmark tools need in a
//! newer version than Debian 12 has: those of Debian 13, from the mirrors that
//! apt uses.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::steps::Steps;

/// The version, for stamps.
pub const VERSION: &str = "1.9.1";

const ARCHIVE: &str = "pool/main/b/benchmark/benchmark_1.9.1.orig.tar.gz";
const SHA256: &str = "32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981";

/// Where the sources are.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("google-benchmark")
}

/// Downloads and unpacks the sources.
///
/// # Errors
/// With each mirror and why it does not give the archive.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let folder = folder(layout);
    if folder.join("CMakeLists.txt").is_file() {
        return Ok(());
    }
    steps.step("Google Benchmark's sources", |step| {
        let mut targets = Command::new("apt-get");
        targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
        let output = String::from_utf8_lossy(&step.capture(targets)?).into_owned();
        let mut mirrors: Vec<&str> = output.lines().filter(|line| line.starts_with("http")).collect();
        mirrors.sort_unstable();
        mirrors.dedup();
        if mirrors.is_empty() {
            return Err(Error::setup("apt knows no mirror; run apt-get update"));
        }
        let partial = folder.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).context(|| format!("removing {}", partial.display()))?;
        }
        let mut download = Command::new(layout.venv_program("python3"));
        let script = layout.root.join("xtask/src/setup/benchmark.py");
        download.arg(script).arg(&partial).args([SHA256, ARCHIVE]).args(mirrors);
        step.run(download)?;
        fs::rename(&partial, &folder).context(|| format!("making {}", folder.display()))
    })
}
