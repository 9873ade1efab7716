// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask device-binaries`: compiles the kernels of `device-binaries/`
//! for every target of its map, or checks that the checked-in files are what
//! the compiler makes.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::process;

#[path = "../../device-binaries/src/targets.rs"]
mod targets;

use targets::{TARGETS, Target};

/// The tools, by the names of Debian's packages clang-22, lld-22 and llvm-22.
/// The checked-in files are reproducible with this version only.
const COMPILER: &str = "clang-22";
const LINKER: &str = "ld.lld-22";
const OBJCOPY: &str = "llvm-objcopy-22";

/// Compiles the device library of the project at `root` for all targets into
/// `<out_dir>/<target>.co` and returns the files. `started` is called with
/// each target's name before it is compiled.
///
/// # Errors
/// A missing tool, sources that do not compile, or a file that cannot be
/// written.
pub fn rebuild(root: &Path, out_dir: &Path, mut started: impl FnMut(&str)) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out_dir).context(|| format!("creating {}", out_dir.display()))?;
    let mut files = Vec::with_capacity(TARGETS.len());
    for target in &TARGETS {
        started(target.name);
        files.push(compile(root, out_dir, target)?);
    }
    Ok(files)
}

/// Compiles everything into the empty or missing folder `scratch` and compares
/// with the checked-in files byte for byte. `started` is called with each
/// target's name before it is compiled.
///
/// # Errors
/// Those of [`rebuild`]; a failure that lists the files which differ, are
/// missing, or belong to no target.
pub fn verify(root: &Path, scratch: &Path, started: impl FnMut(&str)) -> Result<()> {
    let prebuilt = root.join("device-binaries/prebuilt");
    let mut findings = Vec::new();
    for built in rebuild(root, scratch, started)? {
        let name = Path::new(built.file_name().unwrap_or_default());
        let checked_in = prebuilt.join(name);
        let expected = fs::read(&built).context(|| format!("reading {}", built.display()))?;
        match fs::read(&checked_in) {
            Ok(found) if found == expected => {}
            Ok(_) => findings.push(format!("{} differs", name.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                findings.push(format!("{} is missing", name.display()));
            }
            Err(error) => {
                return Err(Error::setup(format!("reading {}: {error}", checked_in.display())));
            }
        }
    }
    findings.extend(strays(&prebuilt)?);
    if findings.is_empty() {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{}: {}; `cargo xtask device-binaries --rebuild` makes them again",
        prebuilt.display(),
        findings.join(", ")
    )))
}

/// Code objects in `prebuilt` that belong to no target.
fn strays(prebuilt: &Path) -> Result<Vec<String>> {
    let action = || format!("listing {}", prebuilt.display());
    let mut strays = Vec::new();
    for entry in fs::read_dir(prebuilt).context(action)? {
        let path = entry.context(action)?.path();
        let is_target = |stem: &str| TARGETS.iter().any(|target| target.name == stem);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if path.extension().is_some_and(|extension| extension == "co") && !stem.is_some_and(is_target) {
            strays.push(format!("{} belongs to no target", path.display()));
        }
    }
    strays.sort();
    Ok(strays)
}

fn compile(root: &Path, out_dir: &Path, target: &Target) -> Result<PathBuf> {
    let kernels = root.join("device-binaries/kernels");
    let object = out_dir.join(format!("{}.o", target.name));
    let code_object = out_dir.join(format!("{}.co", target.name));
    run(Command::new(COMPILER)
        .current_dir(&kernels)
        .args(["-x", "c", "-std=c23", "--target=amdgcn-amd-amdhsa"])
        .arg(format!("-mcpu={}", target.name))
        .args(["-nogpulib", "-nostdlib", "-O3", "-mcode-object-version=6"])
        .args(["-fno-ident", "-fvisibility=hidden"])
        .args(["-Wall", "-Wextra", "-Werror", "-c", "kernels.c", "-o"])
        .arg(absolute(&object)?))?;
    run(Command::new(LINKER)
        .args(["-m", "elf64_amdgpu", "-shared", "--no-undefined"])
        .args(["--build-id=none", "-z", "norelro"])
        .arg(&object)
        .arg("-o")
        .arg(&code_object))?;
    run(Command::new(OBJCOPY)
        .args(["--discard-all", "--remove-section=.comment"])
        .arg("--remove-section=.AMDGPU.gpr_maximums")
        .arg(&code_object))?;
    fs::remove_file(&object).context(|| format!("removing {}", object.display()))?;
    Ok(code_object)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).context(|| format!("resolving {}", path.display()))
}

/// Runs a tool to its end; its output is shown only when it fails.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| {
        Error::setup(format!(
            "cannot start {}: {error}; Debian has it in the packages clang-22, lld-22, llvm-22",
            command.get_program().to_string_lossy()
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{}\nended with {}:\n{}",
        process::display(command),
        process::describe(output.status),
        String::from_utf8_lossy(&output.stderr).trim_end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let result = verify(root(), &scratch, |target| targets.push(target.to_owned()));
        fs::remove_dir_all(&scratch).unwrap();
        result.unwrap();
        assert_eq!(targets.len(), TARGETS.len());
    }

    #[test]
    fn a_changed_a_missing_and_a_stray_file_are_found() {
        let scratch = scratch("device-binaries-findings");
        let project = scratch.join("project");
        let prebuilt = project.join("device-binaries/prebuilt");
        let kernels = project.join("device-binaries/kernels");
        fs::create_dir_all(&kernels).unwrap();
        for file in ["kernels.c", "kernargs.h"] {
            let source = root().join("device-binaries/kernels").join(file);
            fs::copy(source, kernels.join(file)).unwrap();
        }
        rebuild(&project, &prebuilt, |_| ()).unwrap();
        let verify = || verify(&project, &scratch.join("built"), |_| ());
        verify().unwrap();

        let path = prebuilt.join("gfx90a.co");
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
        fs::remove_file(prebuilt.join("gfx908.co")).unwrap();
        fs::write(prebuilt.join("gfx7.co"), "").unwrap();
        let error = verify().unwrap_err().to_string();
        fs::write(kernels.join("kernels.c"), "nonsense").unwrap();
        let broken = verify().unwrap_err().to_string();
        fs::remove_dir_all(&scratch).unwrap();

        assert!(error.contains("gfx90a.co differs"), "{error}");
        assert!(error.contains("gfx908.co is missing"), "{error}");
        assert!(error.contains("gfx7.co belongs to no target"), "{error}");
        assert!(!error.contains("gfx11"), "{error}");
        assert!(broken.contains("clang-22") && broken.contains("error:"), "{broken}");
    }
}
