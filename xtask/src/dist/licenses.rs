// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Licences of the parts of a release that are not this project's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::sbom::Component;
use super::{copy, write};
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::steps::Step;

/// Prefixes of the names of files with a licence's text.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE"];

/// Third-party sources in IREE's tools.
const OF_IREE: [&str; 2] = ["benchmark", "flatcc"];

/// Debian's copyright file of googletest, which is part of `iree-check-module`.
const GOOGLETEST: &str = "/usr/share/doc/googletest/copyright";

/// Fills `folder` with the texts, in a folder for each part, and with the list `crates.txt`. Returns the crates.
///
/// # Errors
/// When a text is missing.
pub fn collect(layout: &Layout, step: &Step, folder: &Path) -> Result<Vec<Component>> {
    let tree = layout.iree_tree();
    copy_texts(&tree, &folder.join("iree"))?;
    for name in OF_IREE {
        copy_texts(&tree.join("third_party").join(name), &folder.join(name))?;
    }
    copy(Path::new(GOOGLETEST), &folder.join("googletest/copyright"))?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "sysroot"]);
    let rust = PathBuf::from(String::from_utf8_lossy(&step.capture(rustc)?).trim());
    let library = "COPYRIGHT-library.html";
    copy(&rust.join("share/doc/rust").join(library), &folder.join("rust").join(library))?;
    crates(layout, step, folder)
}

/// Collects the licences of the crates in the driver, the sim and its library of counters.
fn crates(layout: &Layout, step: &Step, folder: &Path) -> Result<Vec<Component>> {
    let mut tree = layout.cargo();
    tree.args(["tree", "--locked", "--edges", "normal"]);
    tree.args(["--package", "amdgpu_rs", "--package", "aqlprofile-sim", "--package", "hsa-sim"]);
    tree.args(["--prefix", "none", "--format", "{p}\t{l}"]);
    let listed = String::from_utf8_lossy(&step.capture(tree)?).into_owned();
    let mut lines: Vec<_> = listed.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    lines.sort_unstable();
    lines.dedup();
    // Those of this project are named with their folder.
    lines.retain(|line| line.contains('\t') && !line.contains(" (/"));
    let mut metadata = layout.cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    let metadata: serde_json::Value = serde_json::from_slice(&step.capture(metadata)?)
        .map_err(|error| Error::setup(format!("reading cargo's metadata: {error}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut list, mut crates) = (String::new(), Vec::new());
    for line in lines {
        let (package, license) = line.split_once('\t').unwrap_or((line, ""));
        let mut words = package.split(' ');
        let (name, version) =
            (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim_start_matches('v'));
        let found = packages.iter().find(|package| package["name"] == name && package["version"] == version);
        let manifest = found.and_then(|package| package["manifest_path"].as_str());
        let sources = manifest.and_then(|path| Path::new(path).parent());
        let sources = sources.ok_or_else(|| Error::setup(format!("cargo's metadata does not name {package}")))?;
        let texts = folder.join(format!("{name}-{version}"));
        if license == "Apache-2.0" && texts_of(sources)?.is_empty() {
            // Such as flatbuffers. This licence has one text, which is a part of the project's own.
            copy(&layout.root.join("LICENSE"), &texts.join("LICENSE"))?;
        } else {
            copy_texts(sources, &texts)?;
        }
        list += &format!("{name} {version}: {license}\n");
        crates.push((name.to_owned(), Some(version.to_owned()), license.to_owned()));
    }
    write(&folder.join("crates.txt"), &list)?;
    Ok(crates)
}

/// Licence texts in `folder`.
fn texts_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).context(|| format!("reading {}", folder.display()))? {
        let path = entry.context(|| format!("reading {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|known| name.starts_with(known)) {
            texts.push(path);
        }
    }
    Ok(texts)
}

/// Copies the licence texts in `from` to `to`.
fn copy_texts(from: &Path, to: &Path) -> Result<()> {
    let texts = texts_of(from)?;
    if texts.is_empty() {
        return Err(Error::setup(format!("{} holds no licence's text", from.display())));
    }
    texts.iter().try_for_each(|path| copy(path, &to.join(path.file_name().unwrap_or_default())))
}
