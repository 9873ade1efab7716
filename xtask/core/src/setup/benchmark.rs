// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The sources of Google Benchmark, which IREE's benchmark tools need in a newer version than Debian 12 has.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::debian::{self, Archive};
use crate::error::{Context, Result};
use crate::layout::Layout;
use crate::steps::Steps;

/// The version, for stamps.
pub const VERSION: &str = "1.9.1";

const ARCHIVE: Archive = Archive {
    path: "pool/main/b/benchmark/benchmark_1.9.1.orig.tar.gz",
    sha256: "32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981",
};

/// `iree-benchmark-replay` calls a class as 1.9.5 does, where it is in another namespace; no release of Debian has that
/// version, and its archive on PyPI is without the C++ sources.
const NEWER_NAME: &str = "namespace benchmark {\nusing internal::Benchmark;\n}\n";

/// Folder of the sources.
pub fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("google-benchmark")
}

/// Downloads and unpacks the sources, and adds a newer name to them.
///
/// # Errors
/// The reason why no mirror has the archive, for each mirror.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let folder = folder(layout);
    if !folder.join("CMakeLists.txt").is_file() {
        download(layout, steps)?;
    }
    let header = folder.join("include/benchmark/benchmark.h");
    let text = fs::read_to_string(&header).context(|| format!("reading {}", header.display()))?;
    if text.ends_with(NEWER_NAME) {
        return Ok(());
    }
    fs::write(&header, text + NEWER_NAME).context(|| format!("writing {}", header.display()))
}

fn download(layout: &Layout, steps: &Steps) -> Result<()> {
    let folder = folder(layout);
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
