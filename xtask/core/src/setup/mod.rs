// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Set-up: installs and builds the prerequisites of a command, from nothing if need be, and skips those that exist.

mod benchmark;
mod cmake;
mod debian;
mod fresh;
mod hsa_headers;
pub mod lock;
mod packages;
mod python;
mod rust_src;
mod sim;
mod sysroot;
mod tracy;
mod tree;

use std::time::SystemTime;

use crate::error::Result;
use crate::flavor::Flavor;
use crate::layout::Layout;
use crate::steps::Steps;
use crate::target::Target;

/// Products to build of IREE.
#[derive(Clone, Copy)]
pub enum Build<'a> {
    /// The tools with this driver.
    Tools,
    /// A driver's conformance tests with kernels for a target.
    Cts(&'a Target),
    /// The tools and a driver's conformance tests.
    ToolsAndCts(&'a Target),
    /// The benchmark, with the drivers of the flavor.
    Bench,
    /// The probes of `tests/probes`, with both drivers.
    Probes,
    /// The tools, and a program that prints the results of a replay.
    Replay,
    /// The extension module of IREE's Python bindings.
    Python,
    /// The tool that runs modules, and the program that reads its trace.
    Trace,
}

/// Installs packages, the standard library's sources, the Python environment and IREE's tree: cargo needs these to
/// build and test the workspace.
///
/// # Errors
/// When a package, a right or the network is missing.
pub fn sources(layout: &Layout, steps: &Steps) -> Result<()> {
    let _lock = lock::take(layout, steps)?;
    packages::ensure(layout, steps)?;
    rust_src::ensure(layout, steps)?;
    python::ensure(layout, steps)?;
    benchmark::ensure(layout, steps)?;
    tree::ensure(layout, steps)
}

/// Sets up [`sources`], and the sim.
///
/// # Errors
/// As [`sources`], and when the sim cannot be built.
pub fn sim(layout: &Layout, steps: &Steps) -> Result<()> {
    sources(layout, steps)?;
    let _lock = lock::take(layout, steps)?;
    sim::ensure(layout, steps)
}

/// Sets up [`sources`], the sim, and IREE in the layout's flavor.
///
/// # Errors
/// As [`sources`], and when a build fails.
pub fn everything(layout: &Layout, steps: &Steps, build: Build) -> Result<()> {
    let began = SystemTime::now();
    sources(layout, steps)?;
    let _lock = lock::take(layout, steps)?;
    if layout.flavor == Flavor::Portable {
        sysroot::ensure(layout, steps)?;
    }
    sim::ensure(layout, steps)?;
    if layout.flavor == Flavor::BesideC {
        sim::ensure_kfd(layout, steps)?;
        if !tree::has_hsa_headers(layout) {
            hsa_headers::ensure(layout, steps)?;
        }
    }
    if layout.flavor == Flavor::Traced {
        tracy::ensure(layout, steps)?;
    }
    if layout.flavor == Flavor::Python {
        packages::ensure_python_headers(steps)?;
        python::ensure_nanobind(layout, steps)?;
        tree::ensure_bindings(layout, steps)?;
    }
    cmake::ensure(layout, steps, build)?;
    match (layout.flavor, build) {
        (Flavor::Plain, Build::Tools | Build::ToolsAndCts(_)) => fresh::record(layout, began),
        _ => Ok(()),
    }
}

/// Sets up [`everything`] for the tools, for a command that runs one of them. Takes no lock where nothing has changed
/// since the last set-up of any command.
///
/// # Errors
/// As [`everything`].
pub fn tools_to_run(layout: &Layout, steps: &Steps) -> Result<()> {
    if fresh::is_current(layout) {
        return Ok(());
    }
    everything(layout, steps, Build::Tools)
}

/// Sets up [`sim()`], and Bazel.
///
/// # Errors
/// As [`sim()`].
pub fn bazel(layout: &Layout, steps: &Steps) -> Result<()> {
    sim(layout, steps)?;
    let _lock = lock::take(layout, steps)?;
    packages::ensure_bazel(steps)
}

/// Sets up the old compiler of random kernels.
///
/// # Errors
/// When it cannot be installed.
pub fn old_clang(steps: &Steps) -> Result<()> {
    packages::ensure_old_clang(steps)
}

/// Sets up [`sources`], and the tools that read ONNX models.
///
/// # Errors
/// As [`sources`].
pub fn onnx(layout: &Layout, steps: &Steps) -> Result<()> {
    python::ensure_onnx(layout, steps)
}

/// Sets up [`sources`], the builder of Python wheels, and the system that portable programs are linked against.
///
/// # Errors
/// As [`sources`].
pub fn wheel(layout: &Layout, steps: &Steps) -> Result<()> {
    sources(layout, steps)?;
    let _lock = lock::take(layout, steps)?;
    sysroot::ensure(layout, steps)?;
    python::ensure_maturin(layout, steps)
}

/// Sets up mdBook, which needs [`sources`].
///
/// # Errors
/// When pip fails.
pub fn mdbook(layout: &Layout, steps: &Steps) -> Result<()> {
    python::ensure_mdbook(layout, steps)
}

/// Sets up [`sim()`], and Triton's compiler.
///
/// # Errors
/// As [`sim()`], and when pip fails.
pub fn triton(layout: &Layout, steps: &Steps) -> Result<()> {
    sim(layout, steps)?;
    let _lock = lock::take(layout, steps)?;
    python::ensure_triton(layout, steps)
}

/// Sets up Open MPI, which needs [`sources`].
///
/// # Errors
/// When pip fails.
pub fn mpi(layout: &Layout, steps: &Steps) -> Result<()> {
    let _lock = lock::take(layout, steps)?;
    python::ensure_mpi(layout, steps)
}

pub use cmake::{TOOLS, bench_program, capture_program, cts_folder, driver_library, probes_program, replay_program};
pub use packages::{BAZEL, missing};
pub use sim::{built_library, ensure_thunk};
pub use sysroot::{GLIBC, portable_flags};
pub use tree::{BINDINGS, bindings};
