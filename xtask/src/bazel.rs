// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bazel`: builds the driver's Bazel targets, IREE's runtime and programs with both by Debian's Bazel, and
//! runs the programs on the sim. The workspace is `tests/bazel`, with stand-ins for the dependencies of IREE's modules.

use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

use xtask_core::error::{Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::layout::{IREE_SOURCE_VARIABLE, Layout};
use xtask_core::process::{self, Ended};
use xtask_core::setup;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

use Expected::{Fails, Prints};

/// A build that prints nothing for this long hangs. It calls cargo, which prints little.
const SILENCE: Duration = Duration::from_secs(900);

/// A program that is built and run.
struct Case {
    name: &'static str,
    program: &'static str,
    flags: &'static [&'static str],
    /// GPU that the sim models, and target of the example's code object.
    gpu: &'static str,
    expected: Expected,
}

enum Expected {
    /// The program succeeds, and one of its lines contains this text.
    Prints(&'static str),
    /// The build or the program fails, and one of the lines contains this text.
    Fails(&'static str),
}

const LIST_DEVICES: &str = "//:list_devices";
const HSACO: &str = "@amdgpu_rs//examples/hsaco";

/// Output of `examples/hsaco`.
const RESULT: &str = "2 * x + 1 = 1 3 5 ... 199";

const OPT: &[&str] = &["-c", "opt"];
const DBG: &[&str] = &["-c", "dbg"];
const ONE_GPU: &[&str] = &["-c", "opt", "--@amdgpu_rs//:device_binary_targets=gfx942"];
const NO_GPU: &[&str] = &["-c", "opt", "--@amdgpu_rs//:device_binary_targets=gfx94"];
const SOURCE: &[&str] = &["-c", "opt", "--@amdgpu_rs//:device_binary_build_mode=source"];
const NO_MODE: &[&str] = &["-c", "opt", "--@amdgpu_rs//:device_binary_build_mode=sources"];

/// Programs, in an order in which each reuses most of the build products of those before.
const CASES: &[Case] = &[
    Case {
        name: "a program that lists devices",
        program: LIST_DEVICES,
        flags: OPT,
        gpu: "gfx1100",
        expected: Prints("amdgpu_rs://GPU-"),
    },
    Case { name: "examples/hsaco", program: HSACO, flags: OPT, gpu: "gfx1100", expected: Prints(RESULT) },
    Case {
        name: "the device library for one GPU",
        program: HSACO,
        flags: ONE_GPU,
        gpu: "gfx942",
        expected: Prints(RESULT),
    },
    Case {
        name: "the device library for another GPU",
        program: HSACO,
        flags: ONE_GPU,
        gpu: "gfx1100",
        expected: Fails("no code object for `amdgcn-amd-amdhsa--gfx1100` (embedded: gfx9-4-generic)"),
    },
    Case {
        name: "a selector of no GPU",
        program: HSACO,
        flags: NO_GPU,
        gpu: "gfx942",
        expected: Fails("`gfx94` selects no target of the device library; the nearest names are gfx94X-all"),
    },
    Case {
        name: "the device library from its sources",
        program: HSACO,
        flags: SOURCE,
        gpu: "gfx1100",
        expected: Prints(RESULT),
    },
    Case {
        name: "a way to build that there is not",
        program: HSACO,
        flags: NO_MODE,
        gpu: "gfx1100",
        expected: Fails("'sources' is none of"),
    },
    Case { name: "a debug build", program: HSACO, flags: DBG, gpu: "gfx1100", expected: Prints(RESULT) },
];

/// Builds the programs and runs them on the sim, and prints a line for each.
///
/// # Errors
/// When Bazel cannot be started; a case that fails is counted.
pub fn run(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let mut tally = Tally::default();
    for case in CASES {
        let ended = steps.step(&format!("Bazel: {}", case.name), |step| Ok(timed(|| check(layout, step, case))))?;
        tally.count(steps, "Bazel", case.name, ended);
    }
    steps.step("Ending Bazel's server", |step| {
        let mut bazel = bazel(layout);
        bazel.arg("shutdown");
        step.run(bazel)
    })?;
    Ok(tally)
}

fn check(layout: &Layout, step: &Step, case: &Case) -> Result<()> {
    let mut command = bazel(layout);
    command.args([
        "run",
        "--experimental_convenience_symlinks=ignore",
        "--nosandbox_debug",
        "--color=no",
        "--curses=no",
    ]);
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    command.arg(format!("--jobs={jobs}")).args(["--repo_env=CC=clang-22", "--action_env=CARGO_TERM_COLOR=never"]);
    command.arg(format!("--repo_env={IREE_SOURCE_VARIABLE}={}", layout.iree_tree().display()));
    command.arg(format!("--action_env={IREE_SOURCE_VARIABLE}={}", layout.iree_tree().display()));
    command.args(["PATH", "HOME", "LIBCLANG_PATH"].map(|name| format!("--action_env={name}")));
    // Settings that cargo has from its environment, Bazel has from here.
    let told = ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"].into_iter().filter(|name| env::var_os(name).is_some());
    command.args(told.map(|name| format!("--action_env={name}")));
    command.args(case.flags).arg(case.program).arg("--");
    if case.program == HSACO {
        command.arg(layout.root.join(format!("examples/hsaco/saxpy.{}.hsaco", case.gpu)));
    }
    let target: Target = case.gpu.parse().map_err(Error::setup)?;
    Hsa::Sim.apply(layout, &target, &mut command);
    let mut lines = Vec::new();
    let (succeeds, how) = match step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
        Ended::Exit(status) => (status.success(), process::describe(status)),
        Ended::Silent { .. } => return Err(Error::Failed(format!("no output for {} s, killed", SILENCE.as_secs()))),
    };
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    match case.expected {
        Prints(text) if succeeds && has(text) => Ok(()),
        Fails(text) if !succeeds && has(text) => Ok(()),
        Prints(text) | Fails(text) => {
            let tail = lines[lines.len().saturating_sub(10)..].join("\n      ");
            Err(Error::Failed(format!("it ended with {how}, expected a line with '{text}':\n      {tail}")))
        }
    }
}

fn bazel(layout: &Layout) -> Command {
    let mut command = layout.command(setup::BAZEL);
    command.current_dir(layout.root.join("tests/bazel"));
    command.arg(format!("--output_user_root={}", layout.build.join("bazel").display())).arg("--max_idle_secs=60");
    command
}
