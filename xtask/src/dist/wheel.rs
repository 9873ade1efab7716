// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask dist --wheel`: the software GPU as a Python package, which `pip install` puts into any environment with
//! Python 3.11 or newer, and its tests in a fresh one.

use std::fs;
use std::path::{Path, PathBuf};

use xtask_core::error::{Context, Error, Result};
use xtask_core::flavor::{Flavor, TRIPLE};
use xtask_core::layout::Layout;
use xtask_core::setup::{self, GLIBC};
use xtask_core::steps::{Step, Steps};

/// Packages that the tests need beside the wheel.
const TEST_REQUIREMENTS: &str = include_str!("../../requirements-wheel-tests.txt");

/// Makes `build/dist/amdgpu_sim-<version>-cp311-abi3-manylinux_<glibc>_x86_64.whl`, runs the package's tests in a fresh
/// environment, and prints the path.
///
/// # Errors
/// When the wheel cannot be built, needs a newer glibc, or a test fails.
pub fn run(layout: &Layout, steps: &Steps) -> Result<()> {
    let layout = layout.with(Flavor::Portable);
    setup::wheel(&layout, steps)?;
    let folder = layout.build.join("dist/wheel");
    let wheel = steps.step("The wheel", |step| build(&layout, step, &folder))?;
    steps.step("The wheel's tests", |step| test(&layout, step, &wheel))?;
    super::checksums(&layout, steps)?;
    let size = fs::metadata(&wheel).context(|| format!("reading {}", wheel.display()))?.len();
    println!("{} ({:.1} MB)", wheel.display(), size as f64 / 1e6);
    Ok(())
}

/// Builds the wheel into an empty folder. maturin refuses a module that needs a newer glibc than its name says.
fn build(layout: &Layout, step: &Step, folder: &Path) -> Result<PathBuf> {
    super::remove(folder)?;
    let mut maturin = layout.command(layout.venv_program("maturin"));
    maturin.args(["build", "--release", "--locked", "--strip", "--target", TRIPLE]);
    maturin.args(["--compatibility", &format!("manylinux_{}_{}", GLIBC.0, GLIBC.1)]);
    maturin.arg("--manifest-path").arg(layout.root.join("sim/python/Cargo.toml"));
    maturin.arg("--target-dir").arg(layout.cargo_target()).arg("--out").arg(folder);
    setup::portable_flags(layout, &mut maturin);
    step.run(maturin)?;
    let entries = fs::read_dir(folder).context(|| format!("reading {}", folder.display()))?;
    let mut wheels =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("whl".as_ref()));
    wheels.next().ok_or_else(|| Error::setup(format!("maturin made no wheel in {}", folder.display())))
}

/// Installs the wheel into a fresh environment, and runs the package's tests there.
fn test(layout: &Layout, step: &Step, wheel: &Path) -> Result<()> {
    let venv = layout.build.join("wheel-venv");
    super::remove(&venv)?;
    let mut python = layout.command("python3");
    python.args(["-m", "venv"]).arg(&venv);
    step.run(python)?;
    let mut pip = layout.command(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).arg(wheel);
    pip.args(TEST_REQUIREMENTS.lines().filter(|line| !line.starts_with('#')));
    step.run(pip)?;
    let mut pytest = layout.command(venv.join("bin/python"));
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "--quiet"]).arg(layout.root.join("sim/python/tests"));
    // Not beside the package's sources, which an import would find first.
    pytest.current_dir(&venv);
    step.run(pytest)
}
