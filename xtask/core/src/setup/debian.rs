// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Files from releases of Debian other than 12, whose own versions are too old or too new. They come from the mirrors
//! that apt uses, are verified by their hash, and are unpacked below `build/` but not installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::steps::Step;

/// A file of Debian's archive.
pub struct Archive {
    /// Path below a mirror's folder.
    pub path: &'static str,
    /// SHA-256 in hexadecimal digits.
    pub sha256: &'static str,
}

/// Downloads `archives`, and fills `folder` with the command that `unpack` creates for each file and folder. The folder
/// appears only when it is complete.
///
/// # Errors
/// The reason why no mirror has an archive, for each mirror.
pub fn ensure(
    layout: &Layout,
    step: &Step,
    archives: &[Archive],
    folder: &Path,
    unpack: impl Fn(&Path, &Path) -> Command,
) -> Result<()> {
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
    fs::create_dir_all(&partial).context(|| format!("making {}", partial.display()))?;
    let file = folder.with_extension("archive");
    let script = layout.root.join("xtask/core/src/setup/debian.py");
    for archive in archives {
        let mut download = Command::new(layout.venv_program("python3"));
        download.arg(&script).arg(&file).args([archive.sha256, archive.path]).args(&mirrors);
        step.run(download)?;
        step.run(unpack(&file, &partial))?;
    }
    fs::remove_file(&file).context(|| format!("removing {}", file.display()))?;
    fs::rename(&partial, folder).context(|| format!("making {}", folder.display()))
}
