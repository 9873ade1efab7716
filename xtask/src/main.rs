// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The project's commands: `cargo xtask <command>`. Each one first makes
//! what it needs, from nothing if need be; README.md shows their use.
//!
//! Exit codes: 0 all is well; 1 it ran and found failures; 2 wrong usage;
//! 3 it could not be run. `run` ends with its tool's own exit code.

#![allow(rustdoc::invalid_html_tags, reason = "the doc comments of commands are their help texts")]

mod bad_input;
mod bazel;
mod bench;
mod check;
mod check_kernel;
mod check_mutations;
mod conditions;
mod configurations;
mod cts;
mod demo;
mod device_binaries;
mod dist;
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
mod python;
mod replay;
mod run;
mod setup;
mod soak;
mod steps;
mod tally;
mod target;
mod tiers;
mod trace;
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
    /// Shows what each step runs and prints, which otherwise only goes to build/logs/
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes everything the other commands need
    Setup {
        #[command(flatten)]
        target: TargetOption,
    },
    /// Reads handwritten digits with a compiled model on the sim, or the text in a picture
    Demo {
        /// What is read
        #[arg(value_enum, default_value = "digits")]
        what: Reads,
        /// The picture whose text `ocr` reads, e.g. a PNG; demo/sign.png if not given
        image: Option<PathBuf>,
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        hsa: HsaOption,
    },
    /// Tests the driver, the models, one GPU's conformance and samples of the rest in ten minutes; `--all`: everything
    Test {
        /// Every test of the project, in forty minutes or so
        #[arg(long)]
        all: bool,
        /// The GPU that the sim plays for models and conformance tests; gfx1100 or, with --all, each one tested if not given
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        #[command(flatten)]
        junit: JunitOption,
    },
    /// Runs IREE's HAL conformance tests for a driver
    Cts {
        /// Whose tests
        #[arg(long, value_enum, default_value = "amdgpu_rs")]
        driver: cts::Driver,
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        hsa: HsaOption,
        /// Builds IREE's C code, the driver and the sim with a sanitizer's checks
        #[arg(long, value_enum, conflicts_with = "driver")]
        sanitizer: Option<Sanitizer>,
        /// How many times each test program is run; each time with another HSA_SIM_SEED
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        /// Only the cases that match, e.g. '*Semaphore*' (a GoogleTest filter)
        #[arg(long, value_name = "GLOB")]
        filter: Option<String>,
        /// How command buffers are recorded, if not in the driver's own way
        #[arg(long, value_enum, value_name = "MODE")]
        command_buffer_mode: Option<cts::CommandBufferMode>,
        #[command(flatten)]
        conditions: Conditions,
        /// On all kinds of GPUs and ways to build them in, in turn, with a table of the results
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
    /// Changes the driver in small wrong ways (mutants/*.toml), and sees that a test fails of each
    Mutants {
        /// Only those whose names match, e.g. 'release-*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
    },
    /// Runs the models of models/ on the sim and compares the results with the CPU's
    Models {
        /// The GPU that the sim plays; all that are tested if not given
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        #[command(flatten)]
        hsa: HsaOption,
        /// Real networks from packages of PyPI instead, which are downloaded, compared with onnxruntime
        #[arg(long, conflicts_with = "hsa")]
        onnx: bool,
        /// Only the networks that match, e.g. 'silero-*'
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
        /// Only the tests that match, e.g. 'test_softmax_*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// How many tests are compiled and run at the same time; as many as there are cores if not given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Runs the small C programs of tests/probes with this driver and IREE's C driver on the sim, and compares the
    /// facts that they print with those that their sources state
    Probes {
        /// With which driver
        #[arg(long, value_enum, default_value = "both")]
        driver: bench::Drivers,
        /// Only the probes that match, e.g. 'active_*'; those that are pending, too, if one is named in full
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
        /// Whose recordings: this driver's, on itself; or those of IREE's C driver on this one, and the other way round
        #[arg(long, value_enum, default_value = "amdgpu_rs")]
        driver: cts::Driver,
    },
    /// Writes profiles of models, and has IREE's iree-profile tell all it can of them
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
    /// Builds IREE with tracing and the driver, and looks for the driver's steps in the trace of a model
    Trace {
        #[command(flatten)]
        target: TargetOption,
    },
    /// Runs random kernels on the sim and on the host, and compares their results
    Kernels {
        /// The GPU that the sim plays; all that it can if not given
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// Which kernels
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// How many kernels on each target
        #[arg(long, value_name = "N", default_value_t = 200)]
        count: u32,
        /// For how long on each target, instead of a number
        #[arg(long, value_name = "N", conflicts_with = "count")]
        seconds: Option<u64>,
    },
    /// Runs random programs for the HAL on the sim that plays caches, and compares memory with a model of it
    Soak {
        #[command(flatten)]
        target: TargetOption,
        /// Builds IREE's C code, the driver, the sim and the programs with a sanitizer's checks
        #[arg(long, value_enum)]
        sanitizer: Option<Sanitizer>,
        /// For how long
        #[arg(long, value_name = "N", default_value_t = 5)]
        minutes: u64,
        /// The first program; the others have the numbers behind it
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// How many programs at most
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        programs: u64,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Measures what operations cost the host, beside IREE's C driver, on the sim without running kernels
    Bench {
        /// Whose operations
        #[arg(long, value_enum, default_value = "both")]
        driver: bench::Drivers,
        /// The GPU that the sim plays
        #[arg(long, default_value = bench::DEFAULT_TARGET, value_name = "GFX")]
        target: Target,
        /// How many times each case is measured; the drivers take turns
        #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        /// Counts instructions, locked ones, allocations and system calls of the submitting thread instead
        #[arg(long, conflicts_with = "repeat")]
        counts: bool,
        /// Counts what operations ask of the GPU (packets, fences, interrupts and so on) instead of measuring time
        #[arg(long, conflicts_with_all = ["repeat", "counts"])]
        gpu_cost: bool,
        /// Fails if the counts of some operations of this driver grew over those checked in, benches/counts.toml
        #[arg(long, conflicts_with_all = ["driver", "target", "repeat", "counts", "gpu_cost", "filter"])]
        guard: bool,
        /// Replaces the counts that are checked in
        #[arg(long, conflicts_with_all = ["driver", "target", "repeat", "counts", "gpu_cost", "filter", "guard"])]
        update: bool,
        /// Only the cases that match, e.g. 'dispatch*'
        #[arg(long, value_name = "GLOB", default_value = "*")]
        filter: String,
        /// How command buffers are recorded, if not in the drivers' own way
        #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["guard", "update"])]
        command_buffer_mode: Option<cts::CommandBufferMode>,
    },
    /// Takes waits, barriers, cache controls and wait states out of the models' kernels, one at a time, and tells which
    /// of that the sim's checks find
    CheckMutations {
        /// The GPU; four generations, one after the other, if not given
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// The models, by their names, several with commas between; all if not given
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        model: Vec<String>,
    },
    /// Runs one of IREE's tools, built with the driver, on an HSA library
    Run {
        #[command(flatten)]
        target: TargetOption,
        #[command(flatten)]
        hsa: HsaOption,
        /// What the sim checks in kernels: `wait,sync,race,equal,hazard,bounds,clamp,init,result`, some of these, or
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
        /// `--help` shows them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Builds the device library's code objects from their sources
    DeviceBinaries {
        #[command(flatten)]
        action: DeviceBinariesAction,
        /// `clang-22`, `rocm`, `rocm:<folder>` or `zig`
        #[arg(long, default_value = device_binaries::DEFAULT_TOOLCHAIN)]
        toolchain: String,
    },
    /// Counts the instructions that LLVM's disassembler knows, and those of them the sim decodes, executes and tests
    Isa {
        /// The processor; all that the sim has tables for if not given
        #[arg(long, value_name = "GFX")]
        target: Option<Target>,
        /// Names what is not executed
        #[arg(long)]
        missing: bool,
        /// Writes the names that the decoder's errors have for what it does not decode
        #[arg(long, conflicts_with_all = ["target", "missing"])]
        names: bool,
    },
    /// Makes an archive of the sim, IREE's tools with the driver, and the driver as a library, for other machines
    Dist,
    /// Checks formatting, imports, lints, documentation and generated files
    Check,
}

/// What the demo reads.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Reads {
    /// Handwritten digits
    Digits,
    /// The text in a picture
    Ocr,
}

#[derive(clap::Args)]
struct TargetOption {
    /// The GPU that the sim plays and that kernels are compiled for; several behind commas, kernels for the first
    #[arg(long, env = "HSA_SIM_AGENTS", default_value = "gfx1100", value_name = "GFX")]
    target: Target,
}

#[derive(clap::Args)]
struct JunitOption {
    /// Writes what became of each case to a file, as JUnit does, for CI systems to show
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl JunitOption {
    /// Ends a command that ran tests, which gave `result`: names slow ones, and writes the file if there is to be one.
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
    /// `sim`, `rocr` (AMD's, as Debian packages it, on the sim's machine), or the path of an HSA library or of
    /// the folder that holds it
    #[arg(long, default_value = "sim", value_name = "sim|rocr|PATH")]
    hsa: Hsa,
}

impl HsaOption {
    /// Makes what the library needs beyond [`setup::everything`].
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
    /// Fails if the checked-in files are not what their sources give
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
        Command::Setup { target } => {
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
        Command::Models { target, hsa, onnx, filter, conditions } => {
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
            setup::everything(&layout, &steps, Build::Tools)?;
            trace::run(&layout, &steps, &target.target)?;
        }
        Command::Kernels { target, seed, count, seconds } => {
            setup::sim(&layout, &steps)?;
            let amount = match seconds {
                Some(seconds) => kernels::Amount::Time(Duration::from_secs(seconds)),
                None => kernels::Amount::Kernels(count),
            };
            let targets = targets_or(target, &isa::TARGETS)?;
            conclude(kernels::run(&layout, &steps, &targets, kernels::Options { seed, amount })?)?;
        }
        Command::Soak { target, sanitizer, minutes, seed, programs, conditions } => {
            target.target.check_played(&Hsa::Sim)?;
            let layout = layout.with(sanitizer.map_or(Flavor::Plain, Flavor::Sanitized));
            setup::sim(&layout, &steps)?;
            let options = soak::Options { seed, time: Duration::from_secs(60 * minutes), programs };
            conclude(soak::run(&layout, &steps, &target.target, options, &conditions)?)?;
        }
        Command::Bench { guard: true, .. } => {
            setup::everything(&layout, &steps, Build::Bench)?;
            conclude(bench::guard::run(&layout, &steps)?)?;
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
            setup::everything(&layout, &steps, Build::Tools)?;
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
        Command::Dist => dist::run(&layout, &steps)?,
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

/// Prints the closing line; failures become the exit code.
fn conclude(total: Tally) -> Result<()> {
    println!("{total}");
    if total.failed == 0 { Ok(()) } else { Err(Error::Failed(format!("{} test cases failed", total.failed))) }
}
