// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs the programs of `examples/` and compares what they print.

use std::process::Command;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::hsa::Hsa;
use crate::iree::{Backend, compile};
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::steps::{Step, Steps};
use crate::tally::Tally;
use crate::target::Target;

/// An example: its name, what makes its command, and a line that it prints.
type Example = (&'static str, fn(&Layout, &Step, &Target) -> Result<Command>, &'static str);

const EXAMPLES: &[Example] = &[("embed", embed, "[12.0, 24.0, 36.0, 48.0]")];

/// A program that prints nothing for this long, compilation included, hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// Runs each example on the sim and prints one line for it.
///
/// # Errors
/// None: an example that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let results = steps.step(&format!("Examples on {target}"), |step| {
        Ok(EXAMPLES.iter().map(|example| prints_as_expected(layout, step, target, example)).collect::<Vec<_>>())
    })?;
    let mut tally = Tally::default();
    for ((name, ..), result) in EXAMPLES.iter().zip(results) {
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
    Ok(tally)
}

fn prints_as_expected(layout: &Layout, step: &Step, target: &Target, example: &Example) -> Result<()> {
    let (name, command, expected) = example;
    step.note(name);
    let mut command = command(layout, step, target)?;
    Hsa::Sim.apply(layout, target, &mut command);
    let mut lines = Vec::new();
    let how = match step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
        Ended::Exit(status) if !status.success() => process::describe(status),
        Ended::Exit(_) if lines.iter().any(|line| line == expected) => return Ok(()),
        Ended::Exit(_) => format!("no line '{expected}'"),
        Ended::Silent => format!("no output for {} s, killed", SILENCE.as_secs()),
    };
    let tail = lines[lines.len().saturating_sub(10)..].join("\n      ");
    Err(Error::Failed(format!("it ended with {how}:\n      {tail}")))
}

/// A Rust program that loads a module and calls a function.
fn embed(layout: &Layout, step: &Step, target: &Target) -> Result<Command> {
    let module = compile(layout, step, &layout.root.join("examples/embed.mlir"), Backend::Gpu(target))?;
    let mut cargo = layout.cargo();
    cargo.args(["run", "--quiet", "--locked", "--example", "embed", "--"]).arg(module);
    cargo.args(["module.scale_add", "4xf32=1,2,3,4", "4xf32=10,20,30,40"]);
    Ok(cargo)
}
