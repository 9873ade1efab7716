// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask device-binaries`: compiles the kernels of `device-binaries/` for every prebuilt target of its map and
//! writes the lists of selectors, or verifies that the checked-in files match a new build.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use device_build::Toolchain;

use xtask_core::error::{Context, Error, Result};

pub use device_build::DEFAULT_TOOLCHAIN;

/// Compiles the device library of the project at `root` for all prebuilt targets into `<out_dir>/<target>.co` and
/// returns the files. `started` is called with each target's name before it is compiled.
///
/// # Errors
/// When the toolchain is missing, the sources do not compile, or a file cannot be written.
pub fn rebuild(root: &Path, toolchain: &str, out_dir: &Path, mut started: impl FnMut(&str)) -> Result<Vec<PathBuf>> {
    let toolchain = Toolchain::find(toolchain).map_err(Error::setup)?;
    fs::create_dir_all(out_dir).context(|| format!("creating {}", out_dir.display()))?;
    let kernels = root.join("device-binaries/kernels");
    let mut files = Vec::new();
    for target in device_build::prebuilt_targets() {
        started(&target.to_string());
        files.push(toolchain.compile(&kernels, target, out_dir).map_err(Error::Failed)?);
    }
    Ok(files)
}

/// Writes the files that list the selectors, from the target map.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write_lists(root: &Path) -> Result<()> {
    for (path, text) in lists(root)? {
        fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Compiles everything into the empty or missing folder `scratch`, and compares the result and the lists of selectors
/// with the checked-in files, byte for byte. `started` is called with each target's name before it is compiled.
///
/// # Errors
/// As [`rebuild`]; a failure that lists the files which differ, are missing, or belong to no target.
pub fn verify(root: &Path, toolchain: &str, scratch: &Path, started: impl FnMut(&str)) -> Result<()> {
    let prebuilt = root.join("device-binaries/prebuilt");
    let mut findings = Vec::new();
    for built in rebuild(root, toolchain, scratch, started)? {
        let expected = fs::read(&built).context(|| format!("reading {}", built.display()))?;
        findings.extend(finding(&prebuilt.join(built.file_name().unwrap_or_default()), &expected)?);
    }
    for (path, text) in lists(root)? {
        findings.extend(finding(&path, text.as_bytes())?);
    }
    findings.extend(strays(&prebuilt)?);
    if findings.is_empty() {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{}: {}; `cargo xtask device-binaries --rebuild` makes them again",
        root.join("device-binaries").display(),
        findings.join(", ")
    )))
}

/// Returns a message if a checked-in file differs from `expected`.
fn finding(path: &Path, expected: &[u8]) -> Result<Option<String>> {
    let name = Path::new(path.file_name().unwrap_or_default()).display();
    match fs::read(path) {
        Ok(found) if found == expected => Ok(None),
        Ok(_) => Ok(Some(format!("{name} differs"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(format!("{name} is missing"))),
        Err(error) => Err(Error::setup(format!("reading {}: {error}", path.display()))),
    }
}

/// Files that list the selectors, with their expected contents.
fn lists(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let folder = root.join("device-binaries");
    let readme = folder.join("README.md");
    let text = fs::read_to_string(&readme).context(|| format!("reading {}", readme.display()))?;
    Ok(vec![
        (folder.join("selectors.cmake"), cmake_list()),
        (folder.join("selectors.bzl"), bazel_list()),
        (readme, with_tables(&text, &folder.join("prebuilt"))?),
    ])
}

const GENERATED: &str = "\
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Written by `cargo xtask device-binaries --rebuild` from crates/device-build/src/targets.rs.
";

fn cmake_list() -> String {
    let names: String = device_build::selectors().iter().map(|name| format!("  {name}\n")).collect();
    format!(
        "{GENERATED}\n# Values of AMDGPU_RS_DEVICE_BINARY_TARGETS.\nset(AMDGPU_RS_DEVICE_BINARY_SELECTORS\n{names})\n"
    )
}

fn bazel_list() -> String {
    let names: String = device_build::selectors().iter().map(|name| format!("    \"{name}\",\n")).collect();
    format!(
        "{GENERATED}\n\"\"\"Selectors of device-library code objects.\"\"\"\n\nDEVICE_BINARY_SELECTORS = [\n{names}]\n"
    )
}

const TABLES_BEGIN: &str = "<!-- written by `cargo xtask device-binaries --rebuild` -->\n";
const TABLES_END: &str = "<!-- end of the written part -->\n";

/// Returns the README's text with new tables. `prebuilt` is the folder with the code objects.
fn with_tables(readme: &str, prebuilt: &Path) -> Result<String> {
    let split =
        readme.split_once(TABLES_BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(TABLES_END)?.1)));
    let Some((before, after)) = split else {
        return Err(Error::Failed(format!("device-binaries/README.md lacks the lines {TABLES_BEGIN}{TABLES_END}")));
    };
    let tables = [target_table(prebuilt), selector_table(prebuilt)].join("\n");
    Ok(format!("{before}{TABLES_BEGIN}{tables}{TABLES_END}{after}"))
}

/// Size of a target's checked-in file in bytes; 0 if it is missing.
fn file_bytes(prebuilt: &Path, target: &str) -> u64 {
    fs::metadata(prebuilt.join(format!("{target}.co"))).map_or(0, |file| file.len())
}

fn target_table(prebuilt: &Path) -> String {
    let mut table = String::from("| code object | prebuilt bytes | processors |\n| --- | --- | --- |\n");
    for target in device_build::code_object_targets() {
        let bytes = match device_build::is_prebuilt(target) {
            true => file_bytes(prebuilt, &target.to_string()).to_string(),
            false => "not prebuilt".to_owned(),
        };
        let processors: Vec<_> =
            device_build::processors_of(target).map(|processor| format!("`{processor}`")).collect();
        table += &format!("| `{target}` | {bytes} | {} |\n", processors.join(", "));
    }
    table
}

fn selector_table(prebuilt: &Path) -> String {
    let mut table = String::from("| selector | prebuilt bytes | processors |\n| --- | --- | --- |\n");
    let bundles = [("default", "all that have a prebuilt code object"), ("all", "all, by the fewest code objects")];
    let families = device_build::FAMILIES.iter().map(|(family, members)| {
        let members: Vec<_> = members.iter().map(|member| format!("`{member}`")).collect();
        (*family, members.join(", "))
    });
    for (selector, processors) in bundles.map(|(name, what)| (name, what.to_owned())).into_iter().chain(families) {
        let chosen = device_build::expand(selector).unwrap_or_default();
        let (there, missing): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|target| device_build::is_prebuilt(*target));
        let bytes: u64 = there.iter().map(|target| file_bytes(prebuilt, &target.to_string())).sum();
        let missing: String = missing.iter().map(|target| format!(" without `{target}`")).collect();
        let bytes = if there.is_empty() { "not prebuilt".to_owned() } else { format!("{bytes}{missing}") };
        table += &format!("| `{selector}` | {bytes} | {processors} |\n");
    }
    table
}

/// Code objects in `prebuilt` that belong to no target.
fn strays(prebuilt: &Path) -> Result<Vec<String>> {
    let action = || format!("listing {}", prebuilt.display());
    let mut strays = Vec::new();
    for entry in fs::read_dir(prebuilt).context(action)? {
        let path = entry.context(action)?.path();
        let is_target = |stem: &str| device_build::prebuilt_targets().iter().any(|target| target.to_string() == stem);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if path.extension().is_some_and(|extension| extension == "co") && !stem.is_some_and(is_target) {
            strays.push(format!("{} belongs to no target", path.display()));
        }
    }
    strays.sort();
    Ok(strays)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use xtask_core::layout::LLVM_DIR;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    fn scratch(name: &str) -> PathBuf {
        let scratch = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&scratch).unwrap();
        scratch
    }

    #[test]
    fn the_checked_in_files_are_what_the_compiler_makes() {
        let scratch = scratch("device-binaries-verify");
        let mut targets = Vec::new();
        let result = verify(root(), DEFAULT_TOOLCHAIN, &scratch, |target| targets.push(target.to_owned()));
        fs::remove_dir_all(&scratch).unwrap();
        result.unwrap();
        assert_eq!(targets.len(), device_build::prebuilt_targets().len());
    }

    #[test]
    fn a_rocm_installations_llvm_is_found_in_both_its_places() {
        let scratch = scratch("device-binaries-rocm");
        let verify = |rocm: &str| verify(root(), &format!("rocm:{rocm}"), &scratch.join("built"), |_| ());
        let llvm = |place: &str| {
            let place = scratch.join(place);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(LLVM_DIR, place).unwrap();
        };
        llvm("old/llvm");
        llvm("new/lib/llvm");
        let found = ["old", "new"].map(|rocm| verify(&scratch.join(rocm).display().to_string()));
        let missing = verify(&scratch.display().to_string()).unwrap_err().to_string();
        let relative = verify("some/rocm").unwrap_err().to_string();
        fs::remove_dir_all(&scratch).unwrap();

        for result in found {
            result.unwrap();
        }
        assert!(missing.contains("no clang and ld.lld in") && missing.contains("ROCM_PATH"), "{missing}");
        let absolute = std::env::current_dir().unwrap().join("some/rocm/llvm/bin");
        assert!(relative.contains(&absolute.display().to_string()), "{relative}");
    }

    /// Returns CMake's error about a value of AMDGPU_RS_DEVICE_BINARY_TARGETS, if it refuses it.
    fn cmake_refusal(selectors: &str) -> Option<String> {
        let output = Command::new(root().join("build/venv/bin/cmake"))
            .arg(format!("-DAMDGPU_RS_DEVICE_BINARY_TARGETS={selectors}"))
            .arg("-P")
            .arg(root().join("device-binaries/selection.cmake"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), text.is_empty(), "{text}");
        // CMake breaks the lines.
        (!output.status.success()).then(|| text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn cmake_takes_what_cargo_takes() {
        for selectors in ["default", "", ";;,", "gfx1100", "gfx1201; gfx90a,gfx1200\tgfx110X-all ", "all"] {
            device_build::expand(selectors).unwrap();
            assert_eq!(cmake_refusal(selectors), None, "{selectors:?}");
        }
    }

    #[test]
    fn cmake_names_the_nearest_selectors() {
        let long = "g".repeat(50_000);
        for (selectors, name, nearest) in [
            ("gfx1105", "gfx1105", "gfx110X-all, gfx110X-dgpu, gfx110X-igpu, gfx1100, gfx1101, gfx1102, gfx1103;"),
            ("gfx1100;gfx90A", "gfx90A", "gfx90a-dcgpu, gfx90a;"),
            ("dgpu,gfx1100", "dgpu", "dgpu-all;"),
            ("gfx90a:xnack+", "gfx90a:xnack+", "gfx90a-dcgpu, gfx90a;"),
            ("[x${]*\\", "[x${]*\\", "default, all, "),
            ("OFF", "OFF", "default, all, "),
            (&long, &long[..40], "gfx900-dgpu, "),
        ] {
            device_build::expand(selectors).unwrap_err();
            let text = cmake_refusal(selectors).unwrap_or_else(|| panic!("{selectors} is taken"));
            assert!(text.contains(&format!("`{name}` selects no target")), "{text}");
            assert!(text.contains(&format!("nearest names are {nearest}")), "{text}");
        }
    }

    #[test]
    fn a_changed_a_missing_and_a_stray_file_are_found() {
        let scratch = scratch("device-binaries-findings");
        let project = scratch.join("project");
        let prebuilt = project.join("device-binaries/prebuilt");
        let kernels = project.join("device-binaries/kernels");
        fs::create_dir_all(&kernels).unwrap();
        for file in ["kernels/kernels.c", "kernels/kernargs.h", "kernels/kernels.ld", "README.md"] {
            let file = Path::new("device-binaries").join(file);
            fs::copy(root().join(&file), project.join(&file)).unwrap();
        }
        rebuild(&project, DEFAULT_TOOLCHAIN, &prebuilt, |_| ()).unwrap();
        write_lists(&project).unwrap();
        let verify = || verify(&project, DEFAULT_TOOLCHAIN, &scratch.join("built"), |_| ());
        verify().unwrap();

        let path = prebuilt.join("gfx90a.co");
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
        fs::remove_file(prebuilt.join("gfx908.co")).unwrap();
        fs::write(prebuilt.join("gfx7.co"), "").unwrap();
        let error = verify().unwrap_err().to_string();
        fs::remove_file(project.join("device-binaries/selectors.bzl")).unwrap();
        let lists = verify().unwrap_err().to_string();
        fs::write(kernels.join("kernels.c"), "nonsense").unwrap();
        let broken = verify().unwrap_err().to_string();
        fs::remove_dir_all(&scratch).unwrap();

        assert!(error.contains("gfx90a.co differs"), "{error}");
        assert!(error.contains("gfx908.co is missing"), "{error}");
        assert!(error.contains("gfx7.co belongs to no target"), "{error}");
        assert!(!error.contains("gfx11") && !error.contains("selectors"), "{error}");
        assert!(lists.contains("selectors.bzl is missing"), "{lists}");
        assert!(broken.contains("clang-22") && broken.contains("error:"), "{broken}");
    }
}
