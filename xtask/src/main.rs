// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The project's commands: `cargo xtask <command>`. Each command first installs and builds its prerequisites, from
//! nothing if need be. README.md shows how to use them.
//!
//! Exit codes: 0 success; 1 tests or checks failed; 2 wrong usage; 3 the command could not run. `run` exits with the
//! exit code of its tool.

#![allow(rustdoc::invalid_html_tags, reason = "the doc comments of commands are their help texts")]

mod bad_input;
mod bazel;
mod bench;
mod check;
mod check_kernel;
mod check_mutations;
mod collectives;
mod conditions;
mod configurations;
mod cts;
mod demo;
mod device_binaries;
mod dist;
mod docs;
mod error;
mod examples;
mod flavor;
mod glob;
mod gtest;
mod hsa;
mod hsa_failures;
mod imports;
mod iree;
mod isa;
mod junit;
mod kernels;
mod layout;
mod libtest;
mod lock_free;
mod models;
mod mutants;
mod npy;
mod onnx;
mod probes;
mod process;
mod profile;
mod prose;
mod python;
mod replay;
mod rocm;
mod run;
mod setup;
mod soak;
mod steps;
mod tally;
mod target;
mod tiers;
mod trace;
mod triton;
mod widths;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use conditions::Conditions;
use error::{Error, Result};
use flavor::{Flavor, Sanitizer};
use hsa::Hsa;
use layout::Layout;
use setup::Build;
use steps::Steps;
use tally::Tally;
use target::{Target, targets_or};

/// Set-up, tests and demo of amdgpu_rs.
///
/// Every command first installs and builds what it needs, below build/ and
/// target/. IREE_SOURCE_DIR=<checkout> replaces the default IREE tree.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    /// Prints each step's commands and their output, which otherwise only go to build/logs/
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Installs and builds everything that the other commands need
    Setup {
        #[command(flatten)]
        target: TargetOption,
        /// Names the Debian packages that are missing, and does nothing else
        #[arg(long)]
        no_install: bool,
    },
    /// Recognizes handwritten digits with a compiled model on the sim, or the text in a picture
    Demo {
        /// Kind of input to read
        #[arg(value_enum, default_value = "digits")]
        what: Reads,
        /// Picture whose text `ocr` reads, e.g. a PNG (default: demo/sign.png)
        image: Option<PathBuf>,
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        hsa: HsaOption,
    },
    /// Tests the driver, the models, one GPU's conformance and samples of the rest in ten minutes; `--all`: everything
    Test {
        /// Runs every test of the project, which takes about forty minutes
        #[arg(long)]
        all: bool,
        /// GPU that the sim models for models and conformance tests (default: gfx1100; with --all, each tested target)
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        #[command(flatten)]
        junit: JunitOption,
    },
    /// Runs IREE's HAL conformance tests for a driver
    Cts {
        /// Driver to test
        #[arg(long, value_enum, default_value = "amdgpu_rs")]
        driver: cts::Driver,
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        hsa: HsaOption,
        /// Builds IREE's C code, the driver and the sim with a sanitizer's checks
        #[arg(long, value_enum, conflicts_with = "driver")]
        sanitizer: Option<Sanitizer>,
        /// Number of runs of each test program, each with another HSA_SIM_SEED
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        /// Runs only the test cases that match, e.g. '*Semaphore*' (a GoogleTest filter)
        #[arg(long, value_name = "GLOB")]
        filter: Option<String>,
        /// How command buffers are recorded (default: the driver's own way)
        #[arg(long, value_enum, value_name = "MODE")]
        command_buffer_mode: Option<cts::CommandBufferMode>,
        #[command(flatten)]
        conditions: Conditions,
        /// Tests every configuration of GPUs and build options in turn and prints a table of the results
        #[arg(
            long,
            conflicts_with_all = [
                "driver", "target", "hsa", "sanitizer", "repeat", "filter", "command_buffer_mode", "check", "queues"
            ]
        )]
        configurations: bool,
        #[command(flatten)]
        junit: JunitOption,
    },
    /// Applies small wrong changes to the driver (mutants/*.toml), and checks that a test fails for each
    Mutants {
        /// Runs only the mutants whose names match, e.g. 'release-*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
    },
    /// Runs the models of models/ on the sim and compares the results with the CPU's
    Models {
        /// GPU that the sim models (default: all tested targets)
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        #[command(flatten)]
        hsa: HsaOption,
        /// Runs real networks from PyPI packages, which are downloaded, instead, and compares them with onnxruntime
        #[arg(long, conflicts_with = "hsa")]
        onnx: bool,
        /// Compares with IREE's own HIP driver, bit by bit, in place of the CPU; takes ROCm's programs from `rocm`
        #[arg(long, conflicts_with_all = ["hsa", "onnx", "queues"])]
        hip: bool,
        /// Runs only the networks that match, e.g. 'silero-*'
        #[arg(long, value_name = "GLOB", default_value = "*", requires = "onnx")]
        filter: String,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Runs ONNX's backend tests on the sim
    Onnx {
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        conditions: Conditions,
        /// Runs only the tests that match, e.g. 'test_softmax_*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// Number of tests that are compiled and run at the same time (default: the number of cores)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Runs the small C programs of tests/probes with this driver and IREE's C driver on the sim, and compares the
    /// facts that they print with those that their sources state
    Probes {
        /// Drivers to run the probes with
        #[arg(long, value_enum, default_value = "both")]
        driver: bench::Drivers,
        /// Runs only the probes that match, e.g. 'active_*'; a pending probe runs only if it is named in full
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// Prints all facts
        #[arg(long)]
        facts: bool,
    },
    /// Records what IREE's tools do with a device, replays it, and compares the results
    Replay {
        #[command(flatten)]
        target: TargetOption,
        /// Driver that records: `amdgpu_rs` replays its own recordings; `amdgpu` and `amdgpu_rs` replay each other's
        #[arg(long, value_enum, default_value = "amdgpu_rs")]
        driver: cts::Driver,
    },
    /// Writes profiles of models and reads them back with every report of IREE's iree-profile
    Profile {
        #[command(flatten)]
        target: TargetOption,
    },
    /// Builds the driver and programs that use it with Bazel, and runs them on the sim
    Bazel,
    /// Builds IREE's Python bindings with the driver, and runs models with them on the sim
    Python {
        #[command(flatten)]
        target: TargetOption,
    },
    /// Builds IREE with Tracy and the driver, and checks a model's trace for the driver's steps, memory and kernels
    Trace {
        #[command(flatten)]
        target: TargetOption,
    },
    /// Runs random kernels on the sim and on the host, and compares the results
    Kernels {
        /// GPU that the sim models (default: every target of the sim)
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// Seed of the first kernels
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Number of kernels on each target
        #[arg(long, value_name = "N", default_value_t = 200)]
        count: u32,
        /// Time limit on each target in seconds, instead of a number of kernels
        #[arg(long, value_name = "N", conflicts_with = "count")]
        seconds: Option<u64>,
        /// Compiler for the GPU; clang-14, Debian 12's own, supports fewer targets
        #[arg(long, value_enum, default_value = "clang-22")]
        compiler: kernels::Compiler,
    },
    /// Compiles kernels in Triton's language, runs them on the sim with its checks, and compares the results with
    /// NumPy's
    Triton {
        /// GPU that the sim models (default: every target of Triton)
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// Runs only the cases that match, e.g. 'matmul_*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
    },
    /// Runs modules with collectives by a process for each rank on the sim, and compares the results with NumPy's
    Collectives {
        #[command(flatten)]
        target: TargetOption,
        /// Number of ranks
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
        ranks: u32,
        /// Transport between the ranks
        #[arg(long, value_enum, default_value = "tcp")]
        engine: collectives::Engine,
        /// Runs only the cases that match, e.g. 'all_reduce_*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
    },
    /// Runs programs of ROCm (HIP, AMD's tests) on the sim, from Debian's packages below build/
    Rocm {
        #[command(subcommand)]
        action: RocmAction,
    },
    /// Runs random HAL programs on the sim with cache modelling, and compares memory with a model of it
    Soak {
        #[command(flatten)]
        target: TargetOption,
        /// Builds IREE's C code, the driver, the sim and the programs with a sanitizer's checks
        #[arg(long, value_enum)]
        sanitizer: Option<Sanitizer>,
        /// Time limit in minutes
        #[arg(long, value_name = "N", default_value_t = 5)]
        minutes: u64,
        /// Seed of the first program; later programs count up from it
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Maximum number of programs
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        programs: u64,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Measures the host's cost of operations next to IREE's C driver, on the sim without running kernels
    Bench {
        /// Drivers to measure
        #[arg(long, value_enum, default_value = "both")]
        driver: bench::Drivers,
        /// GPU that the sim models
        #[arg(long, default_value = bench::DEFAULT_TARGET, value_name = "GFX")]
        target: Target,
        /// Number of measurements of each case; the drivers take turns
        #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        /// Counts the submitting thread's instructions, locked ones, allocations and system calls instead of time
        #[arg(long, conflicts_with = "repeat")]
        counts: bool,
        /// Counts the GPU's work for each operation (packets, fences, interrupts and so on) instead of measuring time
        #[arg(long, conflicts_with_all = ["repeat", "counts"])]
        gpu_cost: bool,
        /// Fails if the counts of some operations of this driver exceed the checked-in counts in benches/counts.toml
        #[arg(long, conflicts_with_all = ["driver", "target", "repeat", "counts", "gpu_cost", "filter"])]
        guard: bool,
        /// Replaces the checked-in counts
        #[arg(long, conflicts_with_all = ["driver", "target", "repeat", "counts", "gpu_cost", "filter", "guard"])]
        update: bool,
        /// Measures the CPU time of models' kernels on the sim, beside IREE's CPU backend; with --guard, fails if
        /// ratios exceed bounds
        #[arg(long, conflicts_with_all = ["driver", "target", "counts", "gpu_cost", "filter", "update"])]
        sim: bool,
        /// Runs only the cases that match, e.g. 'dispatch*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// How command buffers are recorded (default: the drivers' own way)
        #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["guard", "update"])]
        command_buffer_mode: Option<cts::CommandBufferMode>,
    },
    /// Removes waits, barriers, cache controls and wait states from the models' kernels, one at a time, and reports
    /// which removals the sim's checks find
    CheckMutations {
        /// GPU that the sim models (default: five generations, one after the other)
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// Names of the models, separated by commas (default: all)
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        model: Vec<String>,
    },
    /// Runs one of IREE's tools, built with the driver, on an HSA library
    Run {
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        hsa: HsaOption,
        /// Checks that the sim makes in kernels: a list of `wait,sync,race,equal,hazard,bounds,clamp,init,result`, or
        /// `all`, which leaves out `equal`, `clamp` and `result`; see docs/sim/checks.md
        #[arg(long, value_name = "CHECKS")]
        check: Option<String>,
        /// The tool and its arguments, e.g. iree-run-module --list_devices
        #[arg(last = true, required = true, value_name = "TOOL ARGUMENTS")]
        tool: Vec<String>,
    },
    /// Runs one kernel of a code object on the sim, with checks; needs nothing of IREE
    #[command(disable_help_flag = true)]
    CheckKernel {
        /// Arguments of check-kernel; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Builds the device library's code objects from their sources
    DeviceBinaries {
        #[command(flatten)]
        action: DeviceBinariesAction,
        /// Compiler: `clang-22`, `rocm`, `rocm:<folder>` or `zig`
        #[arg(long, default_value = device_binaries::DEFAULT_TOOLCHAIN)]
        toolchain: String,
    },
    /// Counts the instructions that LLVM's disassembler knows, and those that the sim decodes, executes and tests
    Isa {
        /// Target processor (default: every target of the sim)
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// Lists the instructions that the sim does not execute
        #[arg(long)]
        missing: bool,
        /// Regenerates the decoder's list of names of instructions that it does not decode, for its error messages
        #[arg(long, conflicts_with_all = ["target", "missing"])]
        names: bool,
    },
    /// Packs the sim, IREE's tools with the driver, and the driver as a library into an archive for other machines
    Dist {
        /// Packs the software GPU as a Python wheel instead, and tests it in a fresh environment
        #[arg(long)]
        wheel: bool,
    },
    /// Checks formatting, imports, lints, documentation and generated files
    Check,
}

#[derive(Subcommand)]
enum RocmAction {
    /// Runs a program, rocminfo or hipcc with Debian's ROCm and the sim in ROCR's place
    Run {
        #[command(flatten)]
        target: TargetOption,
        /// Checks that the sim makes in kernels, as in `cargo xtask run`
        #[arg(long, value_name = "CHECKS")]
        check: Option<String>,
        /// The program and its arguments, e.g. hipcc --offload-arch=gfx1100 add.hip -o add
        #[arg(last = true, required = true, value_name = "PROGRAM ARGUMENTS")]
        program: Vec<String>,
    },
    /// Runs the tests that AMD wrote for a library
    Test {
        /// The library
        #[arg(value_enum)]
        suite: rocm::Suite,
        #[command(flatten)]
        target: TargetOption,
        /// Runs only the cases that match, a GoogleTest filter
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// Stops each program after this time and skips the rest of its cases
        #[arg(long, value_name = "SECONDS")]
        limit: Option<u64>,
    },
}

/// Input of the demo.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Reads {
    /// Handwritten digits
    Digits,
    /// The text in a picture
    Ocr,
}

#[derive(clap::Args)]
struct TargetOption {
    /// GPU that the sim models and that kernels are compiled for; with several, separated by commas, the first
    #[arg(long, env = "HSA_SIM_AGENTS", default_value = "gfx1100", value_name = "GFX")]
    target: Target,
}

#[derive(clap::Args)]
struct JunitOption {
    /// Writes the result of each test case to a JUnit XML file, for CI systems
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl JunitOption {
    /// Ends a command that ran tests: names the slow ones in `result`, and writes the JUnit file if one was asked for.
    fn conclude(&self, steps: &Steps, result: Result<Tally>) -> Result<()> {
        let records = steps.records();
        junit::print_slow(&records);
        if let Some(path) = &self.junit {
            junit::write(path, &records)?;
        }
        conclude(result?)
    }
}

#[derive(clap::Args)]
struct HsaOption {
    /// HSA library: `sim`, `rocr` (AMD's runtime from Debian, on the sim's machine), or the path of a library or of
    /// the folder that holds it
    #[arg(long, default_value = "sim", value_name = "sim|rocr|PATH")]
    hsa: Hsa,
}

impl HsaOption {
    /// Installs the library's prerequisites beyond [`setup::everything`].
    fn ensure(&self, layout: &Layout, steps: &Steps) -> Result<()> {
        match self.hsa {
            Hsa::Rocr => setup::ensure_thunk(layout, steps),
            Hsa::Sim | Hsa::Path(_) => Ok(()),
        }
    }
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct DeviceBinariesAction {
    /// Replaces the checked-in files
    #[arg(long)]
    rebuild: bool,
    /// Fails if the checked-in files differ from a build of their sources
    #[arg(long)]
    verify: bool,
}

fn main() -> ExitCode {
    // A reader that has seen enough (`| head`) ends this process quietly.
    sigpipe::reset();
    let arguments = Arguments::parse();
    match perform(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}

fn perform(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::from_environment()?;
    let steps = Steps::new(layout.build.join("logs")).verbose(arguments.verbose);
    match arguments.command {
        Command::Setup { no_install: true, .. } => {
            let (text, is_ready) = setup::missing();
            print!("{text}");
            if !is_ready {
                return Err(Error::Failed("set-up would install packages".to_owned()));
            }
        }
        Command::Setup { target, no_install: false } => {
            target.target.check_compiled(&Hsa::Sim)?;
            setup::everything(&layout, &steps, Build::ToolsAndCts(&target.target))?;
        }
        Command::Demo { what, image, target, hsa } => {
            if matches!(what, Reads::Digits) && image.is_some() {
                return Err(Error::setup("the digits' pictures are its own: `demo ocr IMAGE` reads one of yours"));
            }
            target.target.check_compiled(&hsa.hsa)?;
            setup::everything(&layout, &steps, Build::Tools)?;
            hsa.ensure(&layout, &steps)?;
            match what {
                Reads::Digits => demo::run(&layout, &steps, &target.target, &hsa.hsa)?,
                Reads::Ocr => onnx::ocr::run(&layout, &steps, &target.target, &hsa.hsa, image.as_deref())?,
            }
        }
        Command::Models { target, hsa, onnx, hip, filter, conditions } => {
            conditions.check_hsa(&hsa.hsa)?;
            target.iter().try_for_each(|target| target.check_compiled(&hsa.hsa))?;
            setup::everything(&layout, &steps, Build::Tools)?;
            hsa.ensure(&layout, &steps)?;
            conclude(if onnx {
                onnx::networks::run(
                    &layout,
                    &steps,
                    &targets_or(target, &configurations::TARGETS)?,
                    &conditions,
                    &filter,
                )?
            } else if hip {
                rocm::runtime(&layout, &steps)?;
                let mut total = Tally::default();
                for target in &targets_or(target, &rocm::TARGETS)? {
                    total += models::run_beside_hip(&layout, &steps, target, &conditions)?;
                }
                total
            } else {
                let all = [configurations::TARGETS.as_slice(), &tiers::MODELS_TARGETS].concat();
                let mut total = Tally::default();
                for target in &targets_or(target, &all)? {
                    total += models::run(&layout, &steps, target, &hsa.hsa, &conditions)?;
                }
                total
            })?;
        }
        Command::CheckMutations { target, model } => {
            setup::everything(&layout, &steps, Build::Tools)?;
            check_mutations::run(&layout, &steps, &targets_or(target, &check_mutations::TARGETS)?, &model)?;
        }
        Command::Test { all, target, junit } => {
            let tier = if all { tiers::all } else { tiers::quick };
            junit.conclude(&steps, tier(&layout, &steps, target))?;
        }
        Command::Cts { configurations: true, junit, .. } => {
            junit.conclude(&steps, configurations::run_all(&layout, &steps))?;
        }
        Command::Cts {
            driver,
            target,
            hsa,
            sanitizer,
            repeat,
            filter,
            command_buffer_mode,
            conditions,
            configurations: false,
            junit,
        } => {
            target.target.check_compiled(&hsa.hsa)?;
            conditions.check_hsa(&hsa.hsa)?;
            if driver == cts::Driver::Amdgpu && conditions.queues.is_some() {
                return Err(Error::setup("IREE's C driver has no flag for a number of queues"));
            }
            let layout = layout.with(driver.flavor(sanitizer));
            setup::everything(&layout, &steps, Build::Cts(&target.target))?;
            hsa.ensure(&layout, &steps)?;
            let (target, hsa, filter) = (&target.target, &hsa.hsa, filter.as_deref());
            let options = cts::Options {
                target,
                hsa,
                variables: &[],
                conditions: &conditions,
                command_buffer_mode,
                repeat,
                filter,
            };
            junit.conclude(&steps, cts::run(&layout, &steps, &options))?;
        }
        Command::Mutants { filter } => mutants::run(&layout, &steps, &filter)?,
        Command::Onnx { target, conditions, filter, jobs } => {
            target.target.check_compiled(&Hsa::Sim)?;
            setup::everything(&layout, &steps, Build::Tools)?;
            let jobs = jobs.map(usize::from);
            conclude(onnx::run(&layout, &steps, &target.target, &conditions, &filter, jobs)?)?;
        }
        Command::Probes { driver, filter, facts } => {
            let layout = layout.with(Flavor::BesideC);
            setup::everything(&layout, &steps, Build::Probes)?;
            conclude(probes::run(&layout, &steps, &probes::Options { drivers: driver, filter: &filter, facts })?)?;
        }
        Command::Replay { target, driver } => {
            target.target.check_compiled(&Hsa::Sim)?;
            let layout = layout.with(driver.flavor(None));
            setup::everything(&layout, &steps, Build::Replay)?;
            conclude(replay::run(&layout, &steps, &target.target)?)?;
        }
        Command::Profile { target } => {
            target.target.check_compiled(&Hsa::Sim)?;
            setup::everything(&layout, &steps, Build::Tools)?;
            conclude(profile::run(&layout, &steps, &target.target)?)?;
        }
        Command::Bazel => {
            setup::bazel(&layout, &steps)?;
            conclude(bazel::run(&layout, &steps)?)?;
        }
        Command::Python { target } => {
            target.target.check_compiled(&Hsa::Sim)?;
            let layout = layout.with(Flavor::Python);
            setup::everything(&layout, &steps, Build::Python)?;
            conclude(python::run(&layout, &steps, &target.target)?)?;
        }
        Command::Trace { target } => {
            target.target.check_compiled(&Hsa::Sim)?;
            let layout = layout.with(Flavor::Traced);
            setup::everything(&layout, &steps, Build::Trace)?;
            conclude(trace::run(&layout, &steps, &target.target)?)?;
        }
        Command::Kernels { target, seed, count, seconds, compiler } => {
            setup::sim(&layout, &steps)?;
            if compiler == kernels::Compiler::Clang14 {
                setup::old_clang(&steps)?;
            }
            let amount = match seconds {
                Some(seconds) => kernels::Amount::Time(Duration::from_secs(seconds)),
                None => kernels::Amount::Kernels(count),
            };
            let targets = targets_or(target, compiler.targets())?;
            conclude(kernels::run(&layout, &steps, &targets, kernels::Options { seed, amount, compiler })?)?;
        }
        Command::Triton { target, filter } => {
            conclude(triton::run(&layout, &steps, &targets_or(target, &triton::TARGETS)?, &filter)?)?;
        }
        Command::Collectives { target, ranks, engine, filter } => {
            target.target.check_compiled(&Hsa::Sim)?;
            setup::everything(&layout, &steps, Build::Tools)?;
            conclude(collectives::run(&layout, &steps, &target.target, ranks, engine, &filter)?)?;
        }
        Command::Rocm { action: RocmAction::Run { target, check, program } } => {
            target.target.check_played(&Hsa::Sim)?;
            return rocm::run(&layout, &steps, &target.target, check.as_deref(), &program);
        }
        Command::Rocm { action: RocmAction::Test { suite, target, filter, limit } } => {
            target.target.check_played(&Hsa::Sim)?;
            let limit = limit.map(Duration::from_secs);
            conclude(rocm::test(&layout, &steps, suite, &target.target, &filter, limit)?)?;
        }
        Command::Soak { target, sanitizer, minutes, seed, programs, conditions } => {
            target.target.check_played(&Hsa::Sim)?;
            let layout = layout.with(sanitizer.map_or(Flavor::Plain, Flavor::Sanitized));
            setup::sim(&layout, &steps)?;
            let options = soak::Options { seed, time: Duration::from_secs(60 * minutes), programs };
            conclude(soak::run(&layout, &steps, &target.target, options, &conditions)?)?;
        }
        Command::Bench { sim: true, guard: true, .. } => {
            setup::everything(&layout, &steps, Build::Tools)?;
            conclude(bench::sim::guard(&layout, &steps)?)?;
        }
        Command::Bench { guard: true, .. } => {
            setup::everything(&layout, &steps, Build::Bench)?;
            conclude(bench::guard::run(&layout, &steps)?)?;
        }
        Command::Bench { sim: true, repeat, .. } => {
            setup::everything(&layout, &steps, Build::Tools)?;
            bench::sim::run(&layout, &steps, repeat)?;
        }
        Command::Bench { update: true, .. } => {
            setup::everything(&layout, &steps, Build::Bench)?;
            bench::guard::update(&layout, &steps)?;
        }
        Command::Bench {
            driver,
            target,
            repeat,
            counts,
            gpu_cost,
            filter,
            command_buffer_mode,
            guard: false,
            update: false,
            sim: false,
        } => {
            target.check_compiled(&Hsa::Sim)?;
            let layout = layout.with(driver.flavor());
            setup::everything(&layout, &steps, Build::Bench)?;
            let options =
                bench::Options { drivers: driver, target: &target, repeat, filter: &filter, command_buffer_mode };
            let run = match (counts, gpu_cost) {
                (true, _) => bench::counts::run,
                (_, true) => bench::cost::run,
                (false, false) => bench::run,
            };
            run(&layout, &steps, &options)?;
        }
        Command::Run { target, hsa, check, tool } => {
            target.target.check_played(&hsa.hsa)?;
            setup::tools_to_run(&layout, &steps)?;
            hsa.ensure(&layout, &steps)?;
            return run::run(&layout, &target.target, &hsa.hsa, check.as_deref(), &tool);
        }
        Command::CheckKernel { arguments } => return check_kernel::run(&layout, &steps, &arguments),
        Command::DeviceBinaries { action, toolchain } => {
            setup::sources(&layout, &steps)?;
            if action.rebuild {
                rebuild_device_binaries(&layout, &steps, &toolchain)?;
            } else {
                check::device_binaries(&layout, &steps, &toolchain)?;
            }
        }
        Command::Isa { names: true, .. } => isa::write_names(&layout, &steps)?,
        Command::Isa { target, missing, .. } => isa::run(&layout, &steps, target.as_ref(), missing)?,
        Command::Dist { wheel: false } => dist::run(&layout, &steps)?,
        Command::Dist { wheel: true } => dist::wheel::run(&layout, &steps)?,
        Command::Check => {
            setup::sources(&layout, &steps)?;
            check::run(&layout, &steps)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn rebuild_device_binaries(layout: &Layout, steps: &Steps, toolchain: &str) -> Result<()> {
    steps.step("Device binaries", |step| {
        let folder = layout.root.join("device-binaries/prebuilt");
        device_binaries::rebuild(&layout.root, toolchain, &folder, |target| step.note(target))?;
        device_binaries::write_lists(&layout.root)
    })
}

/// Prints the closing line. Failures become the exit code.
fn conclude(total: Tally) -> Result<()> {
    println!("{total}");
    if total.failed == 0 { Ok(()) } else { Err(Error::Failed(format!("{} test cases failed", total.failed))) }
}
