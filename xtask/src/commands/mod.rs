// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The commands, each with its arguments and set-up in the file of its name, and their common options.

mod bazel;
mod bench;
mod check;
mod check_kernel;
mod check_mutations;
mod collectives;
mod cts;
mod demo;
mod device_binaries;
mod dist;
mod isa;
mod kernels;
mod models;
mod mutants;
mod on_one_gpu;
mod onnx;
mod probes;
mod replay;
mod rocm;
mod run;
mod setup;
mod soak;
mod test;
mod triton;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::{profile, python, trace};
use on_one_gpu::Cases;
use xtask_core::error::{Error, Result};
use xtask_core::flavor::Flavor;
use xtask_core::hsa::Hsa;
use xtask_core::junit;
use xtask_core::layout::Layout;
use xtask_core::setup::Build;
use xtask_core::steps::Steps;
use xtask_core::tally::Tally;
use xtask_core::target::Target;

const PROFILE: Cases = Cases { flavor: Flavor::Plain, build: Build::Tools, run: profile::run };
const PYTHON: Cases = Cases { flavor: Flavor::Python, build: Build::Python, run: python::run };
const TRACE: Cases = Cases { flavor: Flavor::Traced, build: Build::Trace, run: trace::run };

/// A command with its arguments. The comments are the help texts.
#[derive(Subcommand)]
pub enum Command {
    /// Installs and builds everything that the other commands need
    Setup(setup::Arguments),
    /// Recognizes handwritten digits with a compiled model on the sim, or the text in a picture
    Demo(demo::Arguments),
    /// Tests the driver, the models, one GPU's conformance and samples of the rest in ten minutes; `--all`: everything
    Test(test::Arguments),
    /// Runs IREE's HAL conformance tests for a driver
    Cts(cts::Arguments),
    /// Applies small wrong changes to the driver (mutants/*.toml), and checks that a test fails for each
    Mutants(mutants::Arguments),
    /// Runs the models of models/ on the sim and compares the results with the CPU's
    Models(models::Arguments),
    /// Runs ONNX's backend tests on the sim
    Onnx(onnx::Arguments),
    /// Runs the small C programs of tests/probes with this driver and IREE's C driver on the sim, and compares the
    /// facts that they print with those that their sources state
    Probes(probes::Arguments),
    /// Records what IREE's tools do with a device, replays it, and compares the results
    Replay(replay::Arguments),
    /// Writes profiles of models and reads them back with every report of IREE's iree-profile
    Profile(on_one_gpu::Arguments),
    /// Builds the driver and programs that use it with Bazel, and runs them on the sim
    Bazel(bazel::Arguments),
    /// Builds IREE's Python bindings with the driver, and runs models with them on the sim
    Python(on_one_gpu::Arguments),
    /// Builds IREE with Tracy and the driver, and checks a model's trace for the driver's steps, memory and kernels
    Trace(on_one_gpu::Arguments),
    /// Runs random kernels on the sim and on the host, and compares the results
    Kernels(kernels::Arguments),
    /// Compiles kernels in Triton's language, runs them on the sim with its checks, and compares the results with
    /// NumPy's
    Triton(triton::Arguments),
    /// Runs modules with collectives by a process for each rank on the sim, and compares the results with NumPy's
    Collectives(collectives::Arguments),
    /// Runs programs of ROCm (HIP, AMD's tests) on the sim, from Debian's packages below build/
    Rocm(rocm::Arguments),
    /// Runs random HAL programs on the sim with cache modelling, and compares memory with a model of it
    Soak(soak::Arguments),
    /// Measures the host's cost of operations next to IREE's C driver, on the sim without running kernels
    Bench(bench::Arguments),
    /// Removes waits, barriers, cache controls and wait states from the models' kernels, one at a time, and reports
    /// which removals the sim's checks find
    CheckMutations(check_mutations::Arguments),
    /// Runs one of IREE's tools, built with the driver, on an HSA library
    Run(run::Arguments),
    /// Runs one kernel of a code object on the sim, with checks; needs nothing of IREE
    #[command(disable_help_flag = true)]
    CheckKernel(check_kernel::Arguments),
    /// Builds the device library's code objects from their sources
    DeviceBinaries(device_binaries::Arguments),
    /// Counts the instructions that LLVM's disassembler knows, and those that the sim decodes, executes and tests
    Isa(isa::Arguments),
    /// Packs the sim, IREE's tools with the driver, and the driver as a library into an archive for other machines
    Dist(dist::Arguments),
    /// Checks formatting, imports, lints, documentation and generated files
    Check(check::Arguments),
}

impl Command {
    /// Performs the command. Returns the exit code.
    ///
    /// # Errors
    /// When set-up fails, or the command or its tests do.
    pub fn perform(self, layout: &Layout, steps: &Steps) -> Result<ExitCode> {
        match self {
            Self::Setup(arguments) => arguments.perform(layout, steps)?,
            Self::Demo(arguments) => arguments.perform(layout, steps)?,
            Self::Test(arguments) => arguments.perform(layout, steps)?,
            Self::Cts(arguments) => arguments.perform(layout, steps)?,
            Self::Mutants(arguments) => arguments.perform(layout, steps)?,
            Self::Models(arguments) => arguments.perform(layout, steps)?,
            Self::Onnx(arguments) => arguments.perform(layout, steps)?,
            Self::Probes(arguments) => arguments.perform(layout, steps)?,
            Self::Replay(arguments) => arguments.perform(layout, steps)?,
            Self::Profile(arguments) => arguments.perform(layout, steps, &PROFILE)?,
            Self::Bazel(arguments) => arguments.perform(layout, steps)?,
            Self::Python(arguments) => arguments.perform(layout, steps, &PYTHON)?,
            Self::Trace(arguments) => arguments.perform(layout, steps, &TRACE)?,
            Self::Kernels(arguments) => arguments.perform(layout, steps)?,
            Self::Triton(arguments) => arguments.perform(layout, steps)?,
            Self::Collectives(arguments) => arguments.perform(layout, steps)?,
            Self::Rocm(arguments) => return arguments.perform(layout, steps),
            Self::Soak(arguments) => arguments.perform(layout, steps)?,
            Self::Bench(arguments) => arguments.perform(layout, steps)?,
            Self::CheckMutations(arguments) => arguments.perform(layout, steps)?,
            Self::Run(arguments) => return arguments.perform(layout, steps),
            Self::CheckKernel(arguments) => return arguments.perform(layout, steps),
            Self::DeviceBinaries(arguments) => arguments.perform(layout, steps)?,
            Self::Isa(arguments) => arguments.perform(layout, steps)?,
            Self::Dist(arguments) => arguments.perform(layout, steps)?,
            Self::Check(arguments) => arguments.perform(layout, steps)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Option `--target` of commands for one GPU.
#[derive(clap::Args)]
pub struct TargetOption {
    /// GPU that the sim models and that kernels are compiled for; with several, separated by commas, the first
    #[arg(long, env = "HSA_SIM_AGENTS", default_value = "gfx1100", value_name = "GFX")]
    pub target: Target,
}

/// Option `--junit` of commands that run tests.
#[derive(clap::Args)]
pub struct JunitOption {
    /// Writes the result of each test case to a JUnit XML file, for CI systems
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl JunitOption {
    /// Ends a command that ran tests: names the slow ones in `result`, and writes the JUnit file if one was asked for.
    pub fn conclude(&self, steps: &Steps, result: Result<Tally>) -> Result<()> {
        let records = steps.records();
        junit::print_slow(&records);
        if let Some(path) = &self.junit {
            junit::write(path, &records)?;
        }
        conclude(result?)
    }
}

/// Option `--hsa` of commands that run on any HSA library.
#[derive(clap::Args)]
pub struct HsaOption {
    /// HSA library: `sim`, `rocr` (AMD's runtime from Debian, on the sim's machine), or the path of a library or of
    /// the folder that holds it
    #[arg(long, default_value = "sim", value_name = "sim|rocr|PATH")]
    pub hsa: Hsa,
}

impl HsaOption {
    /// Installs the library's prerequisites beyond [`xtask_core::setup::everything`].
    pub fn ensure(&self, layout: &Layout, steps: &Steps) -> Result<()> {
        match self.hsa {
            Hsa::Rocr => xtask_core::setup::ensure_thunk(layout, steps),
            Hsa::Sim | Hsa::Path(_) => Ok(()),
        }
    }
}

/// Prints the closing line. Failures become the exit code.
pub fn conclude(total: Tally) -> Result<()> {
    println!("{total}");
    if total.failed == 0 { Ok(()) } else { Err(Error::Failed(format!("{} test cases failed", total.failed))) }
}
