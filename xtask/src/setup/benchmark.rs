// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sources of Google Benchmark, which IREE's benchmark tools need in a
//! newer version than Debian 12 has.

use std::path::PathBuf;
use std::process::Command;

use super::debian::{self, Archive};
use crate::error::Result;
use crate::layout::Layout;
use crate::steps::Steps;

/// The version, for stamps.
pub const VERSION: &str = "1.9.1";

const ARCHIVE: Archive = Archive {
    path: "pool/main/b/benchmark/benchmark_1.9.1.orig.tar.gz",
    sha256: "32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981",
};

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
        debian::ensure(layout, step, &[ARCHIVE], &folder, |archive, folder| {
            let mut tar = Command::new("tar");
            tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(folder);
            // The name of the archive's one folder is dropped.
            tar.args(["--strip-components=1", "--no-same-owner"]);
            tar
        })
    })
}
