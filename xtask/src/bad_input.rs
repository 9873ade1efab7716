// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Errors of `iree-run-module` and of these commands: on bad input each must end with an exit code, without a crash or
//! a hang, and with a message that names the cause.

use std::path::PathBuf;
use std::time::Duration;

use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::{LIBHSA_VARIABLE, Layout};
use xtask_core::process::{self, Ended};
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A call that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// GPU of the calls on the sim.
const TARGET: &str = "gfx1100";

/// A call that must fail.
struct Case {
    name: &'static str,
    hsa: Hsa,
    target: Target,
    module: PathBuf,
    device: &'static str,
    call: &'static [&'static str],
    /// HSA library other than the sim.
    library: Option<&'static str>,
    /// Substrings of the expected message.
    says: &'static [&'static str],
}

const ADD: &[&str] = &["--function=vector_add", "--input=1000xf32=2", "--input=1000xf32=3"];

/// The kernel writes element `0 + 256 * 2^32`.
const WRITE_FAR: &[&str] = &["--function=write_at", "--input=0", "--input=256", "--input=4xi32=7,8,9,10"];

const TRAP: &[&str] = &["--function=trap", "--input=4xi32=7,8,9,10"];

const FAULTS: &str = "tests/testdata/fault.mlir";

fn cases(layout: &Layout, step: &Step) -> Result<Vec<Case>> {
    let gpu: Target = TARGET.parse().map_err(Error::setup)?;
    let module = |source: &str, target: &Target| compile(layout, step, &layout.root.join(source), Backend::Gpu(target));
    let add = module("models/vector_add.mlir", &gpu)?;
    let case = |name, device, library, says| {
        let (hsa, target, module, call) = (Hsa::Sim, gpu.clone(), add.clone(), ADD);
        Case { name, hsa, target, module, device, call, library, says }
    };
    Ok(vec![
        case(
            "no HSA library",
            "amdgpu_rs",
            Some("/nonexistent"),
            &["NOT_FOUND", "Tried, in this order", "/nonexistent/libhsa-runtime64.so.1: no such file"],
        ),
        case("an HSA library that is none", "amdgpu_rs", Some("/dev/null"), &["no usable HSA runtime", "/dev/null"]),
        case("an unknown device", "amdgpu_rs://7", None, &["no GPU has the ordinal 7", "visible GPUs:"]),
        case(
            "an unknown knob",
            "amdgpu_rs://0?comand_buffer_mode=aql",
            None,
            &["unknown option 'comand_buffer_mode'", "did you mean 'command_buffer_mode'?"],
        ),
        Case {
            name: "a flag of IREE's driver, by its own spelling",
            call: &["--amdgpu_queue_placement=device", "--function=vector_add"],
            ..case("", "amdgpu_rs", None, &["UNIMPLEMENTED", "queue_placement"])
        },
        Case {
            name: "a list of devices without an HSA library",
            call: &["--list_devices"],
            ..case("", "amdgpu_rs", Some("/nonexistent"), &["NOT_FOUND", "/nonexistent/libhsa-runtime64.so.1"])
        },
        Case {
            name: "a module for another GPU",
            module: module("models/vector_add.mlir", &"gfx942".parse().map_err(Error::setup)?)?,
            // IREE's message: it finds no device that takes the module's formats.
            ..case("", "amdgpu_rs", None, &["INCOMPATIBLE", "not found or unavailable", "gfx942"])
        },
        Case {
            name: "a kernel that writes out of bounds",
            module: module(FAULTS, &gpu)?,
            call: WRITE_FAR,
            ..case(
                "",
                "amdgpu_rs",
                None,
                &["DATA_LOSS", "kernel write_at", "write of 4 bytes at address", "global_store_b32"],
            )
        },
    ])
}

/// Calls that cause GPU faults on AMD's HSA runtime. It reports memory faults by its system event only, and kernel
/// faults by the queue's callback.
fn cases_on_rocr(layout: &Layout, step: &Step, target: &Target) -> Result<Vec<Case>> {
    let module = compile(layout, step, &layout.root.join(FAULTS), Backend::Gpu(target))?;
    let case = |name, call, says| {
        let (hsa, target, module) = (Hsa::Rocr, target.clone(), module.clone());
        Case { name, hsa, target, module, device: "amdgpu_rs", call, library: None, says }
    };
    Ok(vec![
        case(
            "a kernel that writes out of bounds, on ROCR",
            WRITE_FAR,
            &["DATA_LOSS", "GPU memory access fault at address", "the page is not present"],
        ),
        case("a kernel that traps, on ROCR", TRAP, &["DATA_LOSS", "ERROR_EXCEPTION", "hardware queue 0"]),
    ])
}

/// Commands of this program that must end with an exit code and a message. `TARGET` stands for the target of the
/// conformance tests.
const COMMANDS: &[(&str, i32, &str)] = &[
    ("cts --target TARGET --filter nothing", 3, "no case was run"),
    ("bench --driver amdgpu_rs --filter nothing", 3, "no case matches"),
    ("onnx --filter nothing", 3, "none of ONNX's tests matches"),
    ("bench --target gfx1030", 3, "iree-compile does not know it. There are: gfx908"),
    ("demo --target gfx906", 3, "iree-compile does not know it. There are: gfx908"),
    ("run --target gfx1100,gfx1033 -- iree-run-module", 3, "the sim does not simulate it. There are: gfx906"),
    ("run -- iree-run", 3, "no tool iree-run; there are: "),
    ("models --target gfx9", 2, "expected a processor name"),
];

/// Runs one of [`COMMANDS`] and checks its exit code and message.
fn ends_well(layout: &Layout, step: &Step, target: &Target, (words, code, says): (&str, i32, &str)) -> Result<()> {
    step.note(words);
    let program = std::env::current_exe().context(|| "finding this program".to_owned())?;
    let mut command = layout.command(program);
    command
        .env_remove("HSA_SIM_AGENTS")
        .args(words.split(' ').map(|word| if word == "TARGET" { target.as_ref() } else { word }));
    let mut output = String::new();
    let ended = step.follow(command, None, |line| output += &format!("{line}\n"))?;
    match ended {
        Ended::Exit(status) if status.code() == Some(code) && output.contains(says) => Ok(()),
        Ended::Exit(status) => {
            let how = process::describe(status);
            Err(Error::Failed(format!("ended with {how}, expected exit code {code} and '{says}':\n{output}")))
        }
        Ended::Silent { .. } => Err(Error::Failed("no output".to_owned())),
    }
}

/// Makes each call and prints one line for it. The conformance tests are built for `target`.
///
/// # Errors
/// When a module cannot be compiled. A case without the expected failure is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let results = steps.step("Bad input", |step| {
        let cases = cases(layout, step)?;
        let calls = cases.iter().map(|case| (case.name, fails_well(layout, step, case)));
        let commands = COMMANDS.iter().map(|command| (command.0, ends_well(layout, step, target, *command)));
        Ok(calls.chain(commands).collect::<Vec<_>>())
    })?;
    Ok(count(steps, results))
}

/// Makes the calls on AMD's HSA runtime, which needs the thunk library ([`xtask_core::setup::ensure_thunk`]).
/// [`FAULTS`] must have kernels for `target`.
///
/// # Errors
/// When a module cannot be compiled. A case without the expected failure is counted.
pub fn run_on_rocr(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let results = steps.step("Faults on ROCR", |step| {
        let cases = cases_on_rocr(layout, step, target)?;
        Ok(cases.iter().map(|case| (case.name, fails_well(layout, step, case))).collect::<Vec<_>>())
    })?;
    Ok(count(steps, results))
}

/// Prints a line for each call and counts them.
fn count(steps: &Steps, results: Vec<(&str, Result<()>)>) -> Tally {
    let mut tally = Tally::default();
    for (name, result) in results {
        steps.record("bad input", name, (&result).into(), None);
        match result {
            Ok(()) => {
                tally.passed += 1;
                println!("  ok      {name}");
            }
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {name}: {error}");
            }
        }
    }
    tally
}

fn fails_well(layout: &Layout, step: &Step, case: &Case) -> Result<()> {
    step.note(case.name);
    let mut command = layout.command(layout.tool("iree-run-module"));
    command.arg(format!("--device={}", case.device)).arg(format!("--module={}", case.module.display())).args(case.call);
    case.hsa.apply(layout, &case.target, &mut command);
    if let Some(library) = case.library {
        command.env(LIBHSA_VARIABLE, library);
    }
    let mut output = String::new();
    let ended = step.follow(command, Some(SILENCE), |line| {
        output.push_str(line);
        output.push('\n');
    })?;
    match ended {
        Ended::Silent { .. } => return Err(Error::Failed(format!("no output for {} s", SILENCE.as_secs()))),
        Ended::Exit(status) if status.code() != Some(1) => {
            return Err(Error::Failed(format!("ended with {}, expected exit code 1", process::describe(status))));
        }
        Ended::Exit(_) => {}
    }
    match case.says.iter().find(|part| !output.contains(**part)) {
        None if matches!(case.hsa, Hsa::Sim) && output.contains("hsa-sim: queue") => {
            Err(Error::Failed(format!("the fault is told twice:\n{output}")))
        }
        None => Ok(()),
        Some(part) => Err(Error::Failed(format!("the message lacks '{part}':\n{output}"))),
    }
}
