// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask dist`: packs the sim, IREE's tools with the driver, and the driver as a library for a build of IREE
//! into an archive, for users who build nothing. The archive runs from any folder, on any x86-64 Linux whose glibc is
//! at least as new as the version that the archive states.

mod licenses;
mod sbom;
pub mod wheel;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask_core::error::{Context, Error, Result};
use xtask_core::flavor::Flavor;
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::{LIBHSA_VARIABLE, LLVM_DIR, Layout};
use xtask_core::setup::{self, Build, GLIBC, TOOLS};
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

/// Sources in the archive's folder `driver`, for `IREE_CMAKE_PLUGIN_PATHS`.
const DRIVER: [&str; 9] = [
    "CMakeLists.txt",
    "iree_runtime_plugin.cmake",
    "build_support/iree.cmake",
    "build_support/iree_headers.cmake",
    "build_support/versions.cmake",
    "registration/driver_module.c",
    "include/amdgpu_rs/amdgpu_api.h",
    "include/amdgpu_rs/api.h",
    "include/amdgpu_rs/driver_module.h",
];

/// Target of the archive's example.
const TARGET: &str = "gfx1100";

/// Makes `build/dist/amdgpu_rs-<version>-x86_64-linux.tar.gz`, runs its example, and prints the path.
///
/// # Errors
/// When a part cannot be built, needs a newer glibc, or the example does not run.
pub fn run(layout: &Layout, steps: &Steps) -> Result<()> {
    let layout = layout.with(Flavor::Portable);
    setup::everything(&layout, steps, Build::Tools)?;
    let name = format!("amdgpu_rs-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let folder = layout.build.join("dist").join(&name);
    let archive = layout.build.join("dist").join(format!("{name}.tar.gz"));
    let glibc = steps.step("The release's files", |step| {
        remove(&folder)?;
        fill(&layout, step, &folder)
    })?;
    steps.step("The release's example", |step| try_example(&layout, step, &folder))?;
    steps.step("The archive", |step| {
        let mut tar = Command::new("tar");
        // The same files make the same archive.
        tar.args([
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mtime=@0",
            "--use-compress-program=gzip -9n",
        ]);
        tar.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(layout.build.join("dist")).arg(&name);
        step.run(tar)
    })?;
    checksums(&layout, steps)?;
    let size = fs::metadata(&archive).context(|| format!("reading {}", archive.display()))?.len();
    println!("{} ({:.1} MB), for glibc {glibc} or newer", archive.display(), size as f64 / 1e6);
    Ok(())
}

/// Copies everything into `folder`. Returns the glibc version that it needs.
fn fill(layout: &Layout, step: &Step, folder: &Path) -> Result<String> {
    let mut newest = BTreeSet::new();
    for tool in TOOLS {
        let program = folder.join("bin").join(tool);
        strip(step, &layout.tool(tool), &program)?;
        newest.extend(glibc_versions(step, &program)?);
    }
    for library in [layout.sim_library(), layout.counters_library()] {
        let stripped = folder.join("lib").join(library.file_name().unwrap_or_default());
        strip(step, &library, &stripped)?;
        newest.extend(glibc_versions(step, &stripped)?);
    }
    let newest = newest.last().copied().unwrap_or_default();
    if newest > GLIBC {
        let (major, minor) = newest;
        return Err(Error::setup(format!(
            "the release would need glibc {major}.{minor}, newer than {}.{}",
            GLIBC.0, GLIBC.1
        )));
    }
    let glibc = format!("{}.{}", newest.0, newest.1);

    let driver = folder.join("driver");
    for file in DRIVER {
        copy(&layout.root.join(file), &driver.join(file))?;
    }
    strip(step, &setup::driver_library(layout), &driver.join("lib/libamdgpu_rs.a"))?;
    let mut digest = layout.command(layout.venv_program("cmake"));
    digest.arg(format!("-DIREE_SOURCE_DIR={}", layout.iree_tree().display()));
    digest.arg(format!("-DOUTPUT={}", driver.join("lib/iree-headers.txt").display()));
    digest.arg("-P").arg(layout.root.join("build_support/write_iree_headers.cmake"));
    step.run(digest)?;

    let target: Target = TARGET.parse().map_err(Error::setup)?;
    let example = folder.join("example");
    let module = compile(layout, step, &layout.root.join("demo/digits.mlir"), Backend::Gpu(&target))?;
    copy(&module, &example.join(format!("digits.{TARGET}.vmfb")))?;
    copy(&layout.root.join("demo/test_images.npy"), &example.join("test_images.npy"))?;
    copy(&layout.root.join("demo/README.md"), &example.join("README.md"))?;

    copy(&layout.root.join("LICENSE"), &folder.join("LICENSE"))?;
    let crates = licenses::collect(layout, step, &folder.join("licenses"))?;
    let lock = fs::read_to_string(layout.root.join("Cargo.lock")).context(|| "reading Cargo.lock".to_owned())?;
    write(&folder.join("sbom.cdx.json"), &sbom::text(&crates, &parts(layout)?, &lock)?)?;
    let readme = include_str!("README.md").replace("{glibc}", &glibc).replace("{version}", env!("CARGO_PKG_VERSION"));
    write(&folder.join("README.md"), &readme)?;
    write(&folder.join("VERSIONS"), &versions(layout, step, &glibc)?)?;
    Ok(glibc)
}

/// Parts of the tools that are no crates.
fn parts(layout: &Layout) -> Result<[sbom::Component; 5]> {
    let iree = iree_version(layout)?;
    let parts = [
        ("IREE", Some(&*iree), "Apache-2.0 WITH LLVM-exception"),
        ("flatcc", None, "Apache-2.0"),
        ("benchmark", None, "Apache-2.0"),
        ("googletest", None, "BSD-3-Clause"),
        ("libstdc++", Some("10.2.1"), "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ];
    Ok(parts.map(|(name, version, license)| (name.to_owned(), version.map(str::to_owned), license.to_owned())))
}

/// Text with the versions of the archive's sources and tools.
fn versions(layout: &Layout, step: &Step, glibc: &str) -> Result<String> {
    let first_line = |program: &str, argument: &str| {
        let mut command = layout.command(program);
        command.arg(argument);
        let text = String::from_utf8_lossy(&step.capture(command)?).into_owned();
        Ok::<_, Error>(text.lines().next().unwrap_or_default().to_owned())
    };
    let mut git = layout.command("git");
    git.args(["rev-parse", "HEAD"]);
    // A copy of the sources without their history has no commit.
    let commit =
        step.capture(git).map_or_else(|_| "unknown".to_owned(), |id| String::from_utf8_lossy(&id).trim().to_owned());
    Ok(format!(
        "amdgpu_rs {}, commit {commit}\nIREE {}\nneeds glibc {glibc}; linked against Debian 11's glibc {}.{}, libstdc++ 10.2.1 \
         within the tools\n{}\n{}\n",
        env!("CARGO_PKG_VERSION"),
        iree_version(layout)?,
        GLIBC.0,
        GLIBC.1,
        first_line("rustc", "--version")?,
        first_line("clang-22", "--version")?,
    ))
}

/// The version that IREE's tree states.
fn iree_version(layout: &Layout) -> Result<String> {
    let stated = fs::read_to_string(layout.iree_tree().join("runtime/version.json"))
        .context(|| "reading IREE's version".to_owned())?;
    let stated: serde_json::Value = serde_json::from_str(&stated).unwrap_or_default();
    Ok(stated["package-version"].as_str().unwrap_or("unknown").to_owned())
}

/// Writes `build/dist/SHA256SUMS`, for `sha256sum --check`, of the archives and wheels there.
fn checksums(layout: &Layout, steps: &Steps) -> Result<()> {
    steps.step("The checksums", |step| {
        let dist = layout.build.join("dist");
        let files = released(&dist)?;
        let mut sums = Command::new("sha256sum");
        sums.args(&files).current_dir(&dist);
        write(&dist.join("SHA256SUMS"), &String::from_utf8_lossy(&step.capture(sums)?))
    })
}

/// Archives and wheels in the folder `dist`, by their paths from there, sorted.
fn released(dist: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for folder in [dist.to_owned(), dist.join("wheel")].iter().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder).context(|| format!("reading {}", folder.display()))? {
            let path = entry.context(|| format!("reading {}", folder.display()))?.path();
            if path.extension().is_some_and(|end| end == "gz" || end == "whl") {
                files.insert(path.strip_prefix(dist).unwrap_or(&path).to_owned());
            }
        }
    }
    Ok(files)
}

/// Runs the example from a folder other than the one it was made in, and without this machine's environment variables.
fn try_example(layout: &Layout, step: &Step, folder: &Path) -> Result<()> {
    let elsewhere = layout.build.join("dist/moved here");
    remove(&elsewhere)?;
    fs::rename(folder, &elsewhere).context(|| format!("moving {}", folder.display()))?;
    let mut command = Command::new(elsewhere.join("bin/iree-run-module"));
    command.env_clear().env(LIBHSA_VARIABLE, "lib").current_dir(&elsewhere);
    command.args(["--device=amdgpu_rs", &format!("--module=example/digits.{TARGET}.vmfb")]);
    command.args(["--function=classify", "--input=@example/test_images.npy"]);
    let result = step.run(command);
    fs::rename(&elsewhere, folder).context(|| format!("moving {}", elsewhere.display()))?;
    result
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Copies a library or program without debug information.
fn strip(step: &Step, from: &Path, to: &Path) -> Result<()> {
    make_folder_of(to)?;
    let mut strip = Command::new(Path::new(LLVM_DIR).join("bin/llvm-strip"));
    strip.arg("--strip-debug").arg(from).arg("-o").arg(to);
    step.run(strip)
}

/// Versions of glibc whose symbols a program or library uses.
fn glibc_versions(step: &Step, program: &Path) -> Result<BTreeSet<(u32, u32)>> {
    let mut objdump = Command::new(Path::new(LLVM_DIR).join("bin/llvm-objdump"));
    objdump.arg("--private-headers").arg(program);
    Ok(required_glibc(&String::from_utf8_lossy(&step.capture(objdump)?)))
}

fn required_glibc(headers: &str) -> BTreeSet<(u32, u32)> {
    let names = headers.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let numbers = names.filter_map(|version| {
        let mut parts = version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    numbers.collect()
}

fn copy(from: &Path, to: &PathBuf) -> Result<()> {
    make_folder_of(to)?;
    fs::copy(from, to).context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    make_folder_of(path)?;
    fs::write(path, text).context(|| format!("writing {}", path.display()))
}

fn make_folder_of(file: &Path) -> Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_of_archives_and_wheels() {
        let dist = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        for file in ["b.tar.gz", "wheel/a.whl", "SHA256SUMS", "a-folder/c.tar.gz"] {
            write(&dist.join(file), "").unwrap();
        }
        let expected = ["b.tar.gz", "wheel/a.whl"].map(PathBuf::from);
        assert_eq!(released(&dist).unwrap(), expected.into());
        fs::remove_dir_all(dist).unwrap();
    }

    #[test]
    fn the_newest_glibc_is_found_by_number() {
        let headers = "Version References:\n  required from libm.so.6:\n    0x0 0x00 03 GLIBC_2.29\n\
                       0x0 0x00 02 GLIBC_2.2.5\n 0x0 GLIBC_2.3\n 0x0 GCC_4.2.0\n 0x0 GLIBC_PRIVATE\n";
        assert_eq!(required_glibc(headers).last(), Some(&(2, 29)));
        assert_eq!(required_glibc("no versions"), BTreeSet::new());
    }
}
