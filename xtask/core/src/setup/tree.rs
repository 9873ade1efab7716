// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! IREE's source tree. The default is the one in the crate eerie-sys, copied
//! to `build/iree`; a user's checkout is never written to.
//!
//! IREE's test build needs two third-party folders that the crate lacks: googletest, from Debian's package, and Google
//! Benchmark ([`super::benchmark`]). IREE's C driver needs a third, HSA's headers ([`super::hsa_headers`]). Tracing
//! needs a fourth, Tracy ([`super::tracy`]).
//!
//! The crate also lacks IREE's Python bindings. They come from an older release of the crate, 0.4.1, with the same
//! `runtime/src`.

use std::fs;
use std::path::{Path, PathBuf};

use super::python::replace_link;
use super::{benchmark, hsa_headers, tracy};
use crate::error::{Context, Error, Result};
use crate::flavor::Flavor;
use crate::layout::Layout;
use crate::steps::{Step, Steps};

/// Release of a crate, and the feature of this package that adds it to cargo's dependencies.
#[derive(Clone, Copy)]
pub struct Release {
    /// Name of the crate.
    pub name: &'static str,
    /// Version of the crate.
    pub version: &'static str,
    /// Name of the feature.
    pub feature: &'static str,
}

/// Release of the default tree.
const TREE: Release = Release { name: "eerie-sys", version: "0.5.0", feature: "iree-tree" };
/// Release of the tree with the Python bindings.
const TREE_WITH_BINDINGS: Release = Release { name: "eerie-sys", version: "0.4.1", feature: "iree-python-bindings" };
/// Folder of the Python bindings in a tree.
pub const BINDINGS: &str = "runtime/bindings/python";
const GOOGLETEST: &str = "/usr/src/googletest";

/// Puts the default tree at `build/iree`, or checks the user's.
///
/// # Errors
/// When the crate cannot be downloaded, or a user's checkout lacks a submodule.
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    match &layout.user_tree {
        Some(tree) => check_submodules(tree),
        None => ensure_default(layout, steps),
    }
}

/// Returns the folder that CMake takes for IREE's sources: the tree itself if it has all third-party folders, else a
/// folder of links to it that adds them.
///
/// # Errors
/// When the file system refuses.
pub fn cmake_source(layout: &Layout) -> Result<PathBuf> {
    let tree = layout.iree_tree();
    if layout.flavor == Flavor::Python && !tree.join(BINDINGS).is_dir() {
        let overlay = layout.of_tree("tree-python");
        link_entries(&tree, &overlay, "runtime")?;
        link_entries(&tree.join("runtime"), &overlay.join("runtime"), "bindings")?;
        replace_link(&bindings(layout), &overlay.join(BINDINGS))?;
        return Ok(overlay);
    }
    if third_party(layout).all(|needed| needed.is_in(&tree.join("third_party"))) {
        return Ok(tree);
    }
    let overlay = layout.of_tree(match layout.flavor {
        Flavor::BesideC => "tree-amdgpu",
        Flavor::Traced => "tree-traced",
        Flavor::Plain | Flavor::Sanitized(_) | Flavor::Portable | Flavor::Python => "tree",
    });
    let third_party = overlay.join("third_party");
    link_entries(&tree, &overlay, "third_party")?;
    link_entries(&tree.join("third_party"), &third_party, "")?;
    add_third_party(layout, self::third_party(layout), &third_party)?;
    Ok(overlay)
}

/// Folder of the Python bindings for the tree in use: its own, or the one that `ensure_bindings` adds.
pub fn bindings(layout: &Layout) -> PathBuf {
    match &layout.user_tree {
        Some(tree) => tree.join(BINDINGS),
        None => layout.build.join(format!("iree-python-bindings-{}", TREE_WITH_BINDINGS.version)),
    }
}

/// Adds the Python bindings to the default tree, or checks that the user's has them.
///
/// # Errors
/// When the crate cannot be downloaded, or a user's checkout lacks the bindings.
pub fn ensure_bindings(layout: &Layout, steps: &Steps) -> Result<()> {
    let bindings = bindings(layout);
    if bindings.is_dir() {
        return Ok(());
    }
    if let Some(tree) = &layout.user_tree {
        return Err(Error::setup(format!("{} has no {BINDINGS}", tree.display())));
    }
    steps.step("IREE's Python bindings", |step| {
        let partial = bindings.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).context(|| format!("removing {}", partial.display()))?;
        }
        copy_tree(&crate_folder(layout, step, TREE_WITH_BINDINGS)?.join("iree").join(BINDINGS), &partial, step)?;
        fs::rename(&partial, &bindings).context(|| format!("making {}", bindings.display()))
    })
}

/// True if the tree in use contains HSA's headers.
pub fn has_hsa_headers(layout: &Layout) -> bool {
    HSA_HEADERS.is_in(&layout.iree_tree().join("third_party"))
}

/// A folder below `third_party` that IREE's build needs.
struct ThirdParty {
    name: &'static str,
    /// A file in the folder, which an empty folder of a submodule lacks.
    file: &'static str,
    sources: fn(&Layout) -> PathBuf,
}

const TEST_SOURCES: [ThirdParty; 2] = [
    ThirdParty { name: "googletest", file: "CMakeLists.txt", sources: |_| PathBuf::from(GOOGLETEST) },
    ThirdParty { name: "benchmark", file: "CMakeLists.txt", sources: benchmark::folder },
];
const HSA_HEADERS: ThirdParty =
    ThirdParty { name: "hsa-runtime-headers", file: "include/hsa/hsa.h", sources: hsa_headers::folder };
const TRACY: ThirdParty = ThirdParty { name: "tracy", file: "CMakeLists.txt", sources: tracy::folder };

impl ThirdParty {
    fn is_in(&self, third_party: &Path) -> bool {
        third_party.join(self.name).join(self.file).is_file()
    }
}

fn third_party(layout: &Layout) -> impl Iterator<Item = ThirdParty> {
    let of_flavor = match layout.flavor {
        Flavor::BesideC => Some(HSA_HEADERS),
        Flavor::Traced => Some(TRACY),
        Flavor::Plain | Flavor::Sanitized(_) | Flavor::Portable | Flavor::Python => None,
    };
    TEST_SOURCES.into_iter().chain(of_flavor)
}

fn ensure_default(layout: &Layout, steps: &Steps) -> Result<()> {
    let tree = layout.iree_tree();
    let stamp = layout.build.join("iree.version");
    let expected = format!("{} {}, Google Benchmark {}\n", TREE.name, TREE.version, benchmark::VERSION);
    let is_current = fs::read_to_string(&stamp).is_ok_and(|text| text == expected);
    if is_current && tree.is_dir() {
        return Ok(());
    }
    steps.step("IREE's source tree", |step| {
        let source = crate_folder(layout, step, TREE)?.join("iree");
        let partial = layout.build.join("iree.partial");
        for folder in [&partial, &tree] {
            if folder.exists() {
                fs::remove_dir_all(folder).context(|| format!("removing {}", folder.display()))?;
            }
        }
        copy_tree(&source, &partial, step)?;
        // All flavors share this tree. HSA's headers are in the overlay of the one flavor that needs them.
        add_third_party(layout, TEST_SOURCES.into_iter(), &partial.join("third_party"))?;
        fs::rename(&partial, &tree).context(|| format!("making {}", tree.display()))?;
        fs::write(&stamp, expected).context(|| format!("writing {}", stamp.display()))
    })
}

/// Makes cargo download a release of a crate, and returns its folder. The feature makes the optional dependency part of
/// the resolution; cargo builds nothing of it.
///
/// # Errors
/// When cargo cannot download it.
pub fn crate_folder(layout: &Layout, step: &Step, Release { name, version, feature }: Release) -> Result<PathBuf> {
    let mut metadata = layout.cargo();
    metadata
        .args(["metadata", "--format-version", "1", "--locked", "--features", feature])
        .arg("--manifest-path")
        .arg(layout.root.join("xtask/Cargo.toml"));
    let output = step.capture(metadata)?;
    let parsed: serde_json::Value =
        serde_json::from_slice(&output).map_err(|error| Error::setup(format!("reading cargo's metadata: {error}")))?;
    let manifest = parsed["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == name && package["version"] == version)
        .and_then(|package| package["manifest_path"].as_str())
        .ok_or_else(|| Error::setup(format!("cargo's metadata does not name {name} {version}")))?;
    Ok(Path::new(manifest).parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// Copies a folder with its contents.
///
/// # Errors
/// When the file system refuses.
pub fn copy_tree(from: &Path, to: &Path, step: &Step) -> Result<()> {
    fs::create_dir_all(to).context(|| format!("making {}", to.display()))?;
    let entries = fs::read_dir(from).context(|| format!("reading {}", from.display()))?;
    for entry in entries {
        let entry = entry.context(|| format!("reading {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        step.note(&source.display().to_string());
        if source.is_dir() {
            copy_tree(&source, &target, step)?;
        } else {
            fs::copy(&source, &target).context(|| format!("copying {}", source.display()))?;
        }
    }
    Ok(())
}

/// Fills `overlay` with links to the entries of `tree`, except `left_out`.
fn link_entries(tree: &Path, overlay: &Path, left_out: &str) -> Result<()> {
    fs::create_dir_all(overlay).context(|| format!("making {}", overlay.display()))?;
    let entries = fs::read_dir(tree).context(|| format!("reading {}", tree.display()))?;
    for entry in entries {
        let entry = entry.context(|| format!("reading {}", tree.display()))?;
        let link = overlay.join(entry.file_name());
        if entry.file_name() != left_out && !link.exists() {
            replace_link(&entry.path(), &link)?;
        }
    }
    Ok(())
}

fn add_third_party(layout: &Layout, needed: impl Iterator<Item = ThirdParty>, third_party: &Path) -> Result<()> {
    for needed in needed {
        if !needed.is_in(third_party) {
            replace_link(&(needed.sources)(layout), &third_party.join(needed.name))?;
        }
    }
    Ok(())
}

fn check_submodules(tree: &Path) -> Result<()> {
    if tree.join("third_party/flatcc/include").is_dir() {
        return Ok(());
    }
    Err(Error::setup(format!(
        "{} lacks third_party/flatcc; run there: git submodule update --init third_party/flatcc",
        tree.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkout without googletest and benchmark (an uninitialised submodule is an empty folder), and its layout.
    fn checkout(name: &str) -> (PathBuf, Layout) {
        let scratch = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let tree = scratch.join("tree");
        fs::create_dir_all(tree.join("third_party/googletest")).unwrap();
        fs::create_dir_all(tree.join("third_party/flatcc/include")).unwrap();
        fs::write(tree.join("CMakeLists.txt"), "").unwrap();
        let layout = Layout {
            root: scratch.clone(),
            build: scratch.join("build"),
            user_tree: Some(tree),
            flavor: Flavor::Plain,
        };
        fs::create_dir_all(benchmark::folder(&layout)).unwrap();
        fs::write(benchmark::folder(&layout).join("CMakeLists.txt"), "").unwrap();
        (scratch, layout)
    }

    #[test]
    fn a_users_tree_is_completed_without_writing_to_it() {
        let (scratch, layout) = checkout("overlay");
        let source = cmake_source(&layout).unwrap();
        cmake_source(&layout).expect("a second time");
        assert_ne!(source, layout.iree_tree());
        for file in ["CMakeLists.txt", "third_party/benchmark/CMakeLists.txt", "third_party/flatcc/include"] {
            assert!(source.join(file).exists(), "{file}");
        }
        let tree = layout.iree_tree();
        assert!(!tree.join("third_party/benchmark").exists());
        assert_eq!(fs::read_dir(tree.join("third_party/googletest")).unwrap().count(), 0);
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn the_bindings_are_beside_the_default_tree() {
        let (scratch, layout) = checkout("bindings");
        let layout = Layout { user_tree: None, flavor: Flavor::Python, ..layout };
        let tree = layout.iree_tree();
        for folder in [&tree.join("runtime/src"), &bindings(&layout)] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        let source = cmake_source(&layout).unwrap();
        cmake_source(&layout).expect("a second time");
        for folder in ["runtime/src", BINDINGS] {
            assert!(source.join(folder).join("file").is_file(), "{folder}");
        }
        assert!(!tree.join("runtime/bindings").exists());
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_users_tree_has_its_own_bindings() {
        let (scratch, layout) = checkout("own-bindings");
        let layout = layout.with(Flavor::Python);
        let steps = Steps::new(scratch.join("logs"));
        let error = ensure_bindings(&layout, &steps).unwrap_err().to_string();
        assert!(error.ends_with("has no runtime/bindings/python"), "{error}");
        fs::create_dir_all(layout.iree_tree().join(BINDINGS)).unwrap();
        ensure_bindings(&layout, &steps).unwrap();
        assert!(cmake_source(&layout).unwrap().join(BINDINGS).is_dir());
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_missing_submodule_is_named() {
        let (scratch, layout) = checkout("submodule");
        let tree = layout.iree_tree();
        check_submodules(&tree).unwrap();
        fs::remove_dir_all(tree.join("third_party/flatcc")).unwrap();
        let error = check_submodules(&tree).unwrap_err().to_string();
        assert!(error.contains("git submodule update --init third_party/flatcc"), "{error}");
        fs::remove_dir_all(scratch).unwrap();
    }
}
