// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Failing HSA calls under `iree-run-module`: one run of a model for each HSA call that it makes, with that call
//! failing. Each run must end with an exit code and a message that names the call, and leave nothing in the sim.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use xtask_core::error::{Error, Result};
use xtask_core::hsa::{Hsa, SimStats};
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A run that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// Prefix of the sim's line about objects that are left.
const LEFT: &str = "hsa_shut_down: ";

/// Expected effect of a failed call on the program.
enum Effect {
    /// The run fails.
    Failure,
    /// A release fails. The error has no caller to go to: the driver logs it to standard error, and the object is left.
    Release,
    /// None. The driver works without the call.
    None,
}

impl Effect {
    fn of(function: &str) -> Self {
        match function {
            // Runtimes that have another program's handler refuse it.
            "hsa_amd_register_system_event_handler" => Self::None,
            "hsa_amd_memory_pool_free" | "hsa_amd_memory_unlock" | "hsa_queue_inactivate" | "hsa_shut_down" => {
                Self::Release
            }
            name if name.ends_with("_destroy") => Self::Release,
            _ => Self::Failure,
        }
    }
}

/// Runs the model once for each HSA call. Prints one line for all calls that fail cleanly, and one for each other.
///
/// # Errors
/// When the module cannot be compiled, or does not run without failures.
pub fn run(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let results = steps.step("Failing HSA calls", |step| {
        let target: Target = "gfx1100".parse().map_err(Error::setup)?;
        let module = compile(layout, step, &layout.root.join("models/vector_add.mlir"), Backend::Gpu(&target))?;
        let model = Model { layout, step, target, module };
        let mut results = Vec::new();
        for (function, uses) in model.calls()? {
            for number in 1..=uses {
                step.note(&format!("{function}, call {number} of {uses}"));
                results.push((format!("{function}:{number}"), model.fails_well(&function, number)));
            }
        }
        Ok(results)
    })?;
    let mut tally = Tally::default();
    for (call, result) in results {
        steps.record("failing HSA calls", &call, (&result).into(), None);
        match result {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {call}: {error}");
            }
        }
    }
    println!("  {} failing HSA calls: {} clean", tally.passed + tally.failed, tally.passed);
    Ok(tally)
}

struct Model<'a> {
    layout: &'a Layout,
    step: &'a Step,
    target: Target,
    module: PathBuf,
}

impl Model<'_> {
    fn command(&self) -> Command {
        let mut command = self.layout.command(self.layout.tool("iree-run-module"));
        command
            .arg("--device=amdgpu_rs")
            .arg(format!("--module={}", self.module.display()))
            .args(["--function=vector_add", "--input=1000xf32=2", "--input=1000xf32=3"])
            .env("HSA_SIM_LEAKS", "1");
        Hsa::Sim.apply(self.layout, &self.target, &mut command);
        command
    }

    /// Returns the functions that the run calls, with their numbers of calls.
    fn calls(&self) -> Result<Vec<(String, u64)>> {
        let stats: &Path = &self.module.with_extension("stats.json");
        let mut command = self.command();
        command.env("HSA_SIM_STATS", stats);
        self.step.run(command)?;
        Ok(SimStats::read(stats)?.calls.into_iter().collect())
    }

    /// Runs with call `number` of `function` failing, and checks the end of the run.
    fn fails_well(&self, function: &str, number: u64) -> Result<()> {
        let mut command = self.command();
        command.env("HSA_SIM_FAIL", format!("{function}:{number}"));
        let mut lines = Vec::new();
        let status = match self.step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
            Ended::Silent { .. } => return Err(Error::Failed(format!("no output for {} s", SILENCE.as_secs()))),
            Ended::Exit(status) => status,
        };
        let (code, told, left) = match Effect::of(function) {
            Effect::Failure => (1, true, 0),
            // Its own failure is that the sim, and all that is left, is not heard of any more.
            Effect::Release if function == "hsa_shut_down" => (0, true, 0),
            Effect::Release => (0, true, 1),
            Effect::None => (0, false, 0),
        };
        let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        let failed = |wrong: String| Err(Error::Failed(format!("{wrong}:\n      {}", lines.join("\n      "))));
        if status.code() != Some(code) {
            return failed(format!("ended with {}, expected exit code {code}", process::describe(status)));
        }
        if told != (count(&format!("{function} failed")) > 0) {
            return failed("the failed call is not named".to_owned());
        }
        match count(LEFT) {
            found if found == left => Ok(()),
            found => failed(format!("{found} kinds of things left in the sim, expected {left}")),
        }
    }
}
