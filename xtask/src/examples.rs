// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs the programs of `examples/` and compares their output.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::collectives;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::setup::built_library;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A program of `examples/`.
struct Example {
    name: &'static str,
    command: fn(&Layout, &Step, &Target) -> Result<Command>,
    /// Expected line of its output.
    prints: &'static str,
    /// Targets of its kernels; `None` if it compiles them itself.
    targets: Option<&'static [&'static str]>,
}

const EXAMPLES: &[Example] = &[
    Example { name: "embed", command: embed, prints: "[12.0, 24.0, 36.0, 48.0]", targets: None },
    Example { name: "hsaco", command: hsaco, prints: "2 * x + 1 = 1 3 5 ... 199", targets: PREBUILT },
    Example {
        name: "hsaco, a CMake project beside IREE's build",
        command: hsaco_by_cmake,
        prints: "2 * x + 1 = 1 3 5 ... 199",
        targets: PREBUILT,
    },
    Example { name: "custom-dispatch", command: custom_dispatch, prints: "4xf32=2 -4 -1.5 -12", targets: PREBUILT },
    Example {
        name: "tensor-parallel",
        command: tensor_parallel,
        prints: "all 4 ranks agree with the whole block",
        targets: None,
    },
    Example { name: "python", command: python, prints: "[12. 24. 36. 48.]", targets: None },
];

const PREBUILT: Option<&[&str]> = Some(&["gfx1100", "gfx942"]);

/// A program that prints nothing for this long, compilation included, hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// Runs the examples that have kernels for `target` on the sim and prints one line for each.
///
/// # Errors
/// None: an example that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let has_kernels = |example: &&Example| example.targets.is_none_or(|targets| targets.contains(&target.as_ref()));
    let examples: Vec<_> = EXAMPLES.iter().filter(has_kernels).collect();
    let results = steps.step(&format!("Examples on {target}"), |step| {
        let run = |example: &&Example| timed(|| prints_as_expected(layout, step, target, example));
        Ok(examples.iter().map(run).collect::<Vec<_>>())
    })?;
    let mut tally = Tally::default();
    for (example, (result, time)) in examples.iter().zip(results) {
        steps.record(&format!("examples on {target}"), example.name, (&result).into(), Some(time));
        match result {
            Ok(()) => {
                tally.passed += 1;
                println!("  ok      {}", example.name);
            }
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {}: {error}", example.name);
            }
        }
    }
    Ok(tally)
}

fn prints_as_expected(layout: &Layout, step: &Step, target: &Target, example: &Example) -> Result<()> {
    step.note(example.name);
    let mut command = (example.command)(layout, step, target)?;
    Hsa::Sim.apply(layout, target, &mut command);
    let mut lines = Vec::new();
    let how = match step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
        Ended::Exit(status) if !status.success() => process::describe(status),
        Ended::Exit(_) if lines.iter().any(|line| line == example.prints) => return Ok(()),
        Ended::Exit(_) => format!("no line '{}'", example.prints),
        Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
    };
    let tail = lines[lines.len().saturating_sub(10)..].join("\n      ");
    Err(Error::Failed(format!("it ended with {how}:\n      {tail}")))
}

/// Command of a Rust program that loads a module and calls a function.
fn embed(layout: &Layout, step: &Step, target: &Target) -> Result<Command> {
    let module = compile(layout, step, &layout.root.join("examples/embed.mlir"), Backend::Gpu(target))?;
    let mut cargo = layout.cargo();
    cargo.args(["run", "--quiet", "--locked", "--example", "embed", "--"]).arg(module);
    cargo.args(["module.scale_add", "4xf32=1,2,3,4", "4xf32=10,20,30,40"]);
    Ok(cargo)
}

/// Command of a C program, linked with the library that cargo builds, that loads a code object and launches a kernel.
/// The commands that build it are those of its README.
fn hsaco(layout: &Layout, step: &Step, target: &Target) -> Result<Command> {
    let mut cargo = layout.cargo();
    cargo.args(["build", "--locked", "--features", "standalone", "--message-format=json"]);
    let messages = step.capture(cargo)?;
    let library = built_library(&String::from_utf8_lossy(&messages), "amdgpu_rs", ".a")
        .ok_or_else(|| Error::setup("cargo built no static library of the package amdgpu_rs"))?;
    let folder = layout.root.join("examples/hsaco");
    let work = layout.build.join("examples");
    fs::create_dir_all(&work).context(|| format!("making {}", work.display()))?;
    let program = work.join("hsaco");
    let mut clang = layout.command("clang-22");
    clang.args(["-O2", "-DNDEBUG", "-DIREE_THREADING_ENABLE=1", "-DIREE_ALLOCATOR_SYSTEM_CTL=iree_allocator_libc_ctl"]);
    clang.arg("-Iinclude").arg("-I").arg(layout.iree_tree().join("runtime/src"));
    clang.arg(folder.join("hsaco.c")).arg(library).args(["-lm", "-o"]).arg(&program);
    step.run(clang)?;
    let mut command = layout.command(program);
    command.arg(folder.join(format!("saxpy.{target}.hsaco")));
    Ok(command)
}

/// Command of the same program, as a project of its own that finds the CMake targets that IREE's build exports.
fn hsaco_by_cmake(layout: &Layout, step: &Step, target: &Target) -> Result<Command> {
    let folder = layout.root.join("examples/hsaco");
    let work = layout.build.join("examples/consumer");
    let mut cmake = layout.command(layout.venv_program("cmake"));
    cmake.args(["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_COMPILER=clang-22", "-S"]).arg(&folder);
    cmake.arg(format!("-DIREERuntime_DIR={}", layout.cmake().join("lib/cmake/IREE").display()));
    cmake.arg("-B").arg(&work);
    step.run(cmake)?;
    let mut ninja = layout.command("ninja");
    ninja.arg("-C").arg(&work);
    step.run(ninja)?;
    let mut command = layout.command(work.join("hsaco"));
    command.arg(folder.join(format!("saxpy.{target}.hsaco")));
    Ok(command)
}

/// Command of a script that runs a transformer block with a process for each of four ranks.
fn tensor_parallel(layout: &Layout, step: &Step, target: &Target) -> Result<Command> {
    let example = layout.root.join("examples/tensor-parallel");
    // For each target: the script takes the module from the folder.
    let folder = layout.build.join(format!("examples/tensor-parallel-{target}"));
    let mut python = layout.command(layout.venv_program("python3"));
    python.arg("-B").arg(example.join("block.py")).arg("4").arg(&folder);
    step.run(python)?;
    let mut compiler = layout.command(layout.host_tool("iree-compile"));
    compiler.args(Backend::Gpu(target).flags()).arg(folder.join("block.mlir"));
    compiler.arg("-o").arg(folder.join("block.vmfb"));
    step.run(compiler)?;
    let mut script = layout.command(example.join("start.sh"));
    script.arg("4").arg(&folder).env("IREE_RUN_MODULE", layout.tool("iree-run-module"));
    script.env("MASTER_PORT", collectives::free_port()?);
    Ok(script)
}

/// Command of a Python program that runs a model on arrays, here on the CPU: PyPI's package of IREE's runtime lacks
/// this driver.
fn python(layout: &Layout, step: &Step, _: &Target) -> Result<Command> {
    let module = compile(layout, step, &layout.root.join("examples/embed.mlir"), Backend::Cpu)?;
    let mut python = layout.command(layout.venv_program("python3"));
    python.arg(layout.root.join("examples/python/run_model.py")).arg("--device=local-sync").arg(module);
    python.args(["scale_add", "1,2,3,4", "10,20,30,40"]);
    Ok(python)
}

/// Command that runs a module with a kernel that IREE did not compile.
fn custom_dispatch(layout: &Layout, step: &Step, target: &Target) -> Result<Command> {
    let source = layout.root.join("examples/custom-dispatch/leaky_relu.mlir");
    let module = compile(layout, step, &source, Backend::Gpu(target))?;
    let mut command = layout.command(layout.tool("iree-run-module"));
    command.arg("--device=amdgpu_rs").arg(format!("--module={}", module.display()));
    command.args(["--function=main", "--input=4xf32=1,-2,3,-4", "--input=4xf32=1,2,-3,4"]);
    Ok(command)
}
