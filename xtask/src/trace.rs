// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask trace`: runs a model with this driver in IREE with tracing, and checks the run's trace. The trace must
//! have calls of the driver, the steps of its submissions, the work of its threads, and its memory.
//!
//! The trace is the text that IREE's console provider prints. Tracy takes the same calls. The set-up of IREE leaves out
//! Tracy's sources.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::hsa::Hsa;
use crate::iree::{Backend, compile};
use crate::layout::Layout;
use crate::process::Ended;
use crate::steps::Steps;
use crate::target::Target;

/// A program that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// Substrings that the trace of a run must have: the begin of a zone, memory that comes and goes, and names of threads.
const WANTED: [&str; 14] = [
    "\u{25ba} Device::queue_execute (",
    "\u{25ba} Device::queue_alloca (",
    "\u{25ba} DeviceAllocator::allocate_buffer (",
    "\u{25ba} submit (submit.rs:",
    "\u{25ba} resolve waits (waits.rs:",
    "\u{25ba} take memory (alloca.rs:",
    "\u{25ba} place packets (submit.rs:",
    "\u{25ba} publish (submit.rs:",
    "\u{25ba} drain (complete.rs:",
    "\u{25cf} amdgpu_rs-buffers alloc ",
    "\u{25cc} amdgpu_rs-buffers free ",
    "\u{25cf} amdgpu_rs-slabs alloc ",
    "\u{25cc} amdgpu_rs-slabs free ",
    "[amdgpu_rs-",
];

/// Runs a model on `target` and prints how often each of the above is in its trace. Set-up must have built the tools
/// with tracing.
///
/// # Errors
/// When the model fails, or one is missing.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<()> {
    let counts = steps.step("A model with tracing", |step| {
        let module = compile(layout, step, &layout.root.join("examples/embed.mlir"), Backend::Gpu(target))?;
        let mut command = layout.command(layout.tool("iree-run-module"));
        command.arg("--device=amdgpu_rs").arg(format!("--module={}", module.display()));
        command.args(["--function=scale_add", "--input=4xf32=1,2,3,4", "--input=4xf32=10,20,30,40"]);
        Hsa::Sim.apply(layout, target, &mut command);
        let mut counts: BTreeMap<&str, usize> = WANTED.into_iter().map(|wanted| (wanted, 0)).collect();
        let ended = step.follow(command, Some(SILENCE), |line| {
            for (wanted, count) in &mut counts {
                *count += usize::from(line.contains(wanted));
            }
        })?;
        match ended {
            Ended::Exit(status) if status.success() => Ok(counts),
            _ => Err(Error::Failed("the model failed".to_owned())),
        }
    })?;
    counts.iter().for_each(|(wanted, count)| println!("  {count:5} {wanted}"));
    let missing: Vec<_> = counts.iter().filter(|(_, count)| **count == 0).map(|(wanted, _)| *wanted).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::Failed(format!("not in the trace: {}", missing.join(", ")))) }
}
