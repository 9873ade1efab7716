// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask demo ocr`: reads the text in a picture with the networks of PP-OCR, which run on the driver. `ocr.py`
//! does the steps between the networks.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::networks;
use super::runner::{Runner, hash};
use super::tests::Test;
use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::{Hsa, SimStats};
use xtask_core::iree::Backend;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

/// The file that `fetch` downloads.
const WHEEL: &str = "rapidocr_onnxruntime-1.4.4-py3-none-any.whl";
const SCRIPTS: [&str; 2] = [include_str!("ocr.py"), include_str!("common.py")];
/// Default picture.
const PICTURE: &str = "demo/sign.png";

/// Sums over all calls of the networks.
#[derive(Default)]
struct Work {
    calls: usize,
    dispatches: u64,
    wave_instructions: u64,
    kernels: Duration,
}

/// Reads `picture` on `target` and prints its text.
///
/// # Errors
/// When the picture cannot be read or a network fails.
pub fn run(layout: &Layout, steps: &Steps, target: &Target, hsa: &Hsa, picture: Option<&Path>) -> Result<()> {
    let default = layout.root.join(PICTURE);
    let picture = match picture {
        Some(path) => path.canonicalize().context(|| format!("reading {}", path.display()))?,
        None => default,
    };
    setup::onnx(layout, steps)?;
    let wheel = networks::fetch(layout, steps, "ppocr-*")?.join(WHEEL);
    let folder = layout.of_compiler("onnx").join(format!("ocr-{:08x}", hash(&SCRIPTS) as u32));
    let python = |what: &str| {
        let mut command = Command::new(layout.venv_program("python3"));
        command.arg(layout.root.join("xtask/src/onnx/ocr.py")).arg(what).arg(&folder).arg(&picture);
        command
    };
    let mut work = Work::default();
    steps.step(&format!("Finding text on {target}"), |step| {
        let mut detect = python("detect");
        detect.arg(&wheel);
        step.run(detect)?;
        work.infer(layout, step, target, hsa, &folder.join("detect"))
    })?;
    let lines = steps.step(&format!("Reading lines on {target}"), |step| {
        step.run(python("lines"))?;
        for index in 0..boxes(&folder)? {
            work.infer(layout, step, target, hsa, &folder.join(format!("turn_{index}")))?;
            work.infer(layout, step, target, hsa, &folder.join(format!("read_{index}")))?;
        }
        step.capture(python("read"))
    })?;
    println!("\n left   top right bottom   sure   text");
    print!("{}", String::from_utf8_lossy(&lines));
    println!("picture               {}", folder.join("picture.png").display());
    if matches!(hsa, Hsa::Sim) {
        let seconds = work.kernels.as_secs_f64();
        println!(
            "work on the sim       {} calls of networks, {} dispatches, {} wave-instructions of {target} in {seconds:.1} s",
            work.calls, work.dispatches, work.wave_instructions
        );
    }
    Ok(())
}

impl Work {
    /// Runs the call in the folder `call`, and writes its results to the subfolder `gpu`.
    fn infer(&mut self, layout: &Layout, step: &Step, target: &Target, hsa: &Hsa, call: &Path) -> Result<()> {
        let runner = Runner::new(layout, Conditions::DEFAULT);
        let test = Test::read(call)?;
        let to_run = test.call()?;
        step.note(&format!("compiling {} for {target}", to_run.mlir.display()));
        let module = runner.compile(&call.join(to_run.mlir), Backend::Gpu(target))?.map_err(Error::Failed)?;
        step.note(&format!("running {}", test.name));
        let results = call.join("gpu");
        runner.run(&to_run, &module, Backend::Gpu(target), hsa, &results)?.map_err(Error::Failed)?;
        self.calls += 1;
        if matches!(hsa, Hsa::Sim) {
            let stats = SimStats::read(&results.join("stats.json"))?;
            self.dispatches += stats.dispatches;
            self.wave_instructions += stats.wave_instructions;
            self.kernels += Duration::from_nanos(stats.execute_ns);
        }
        Ok(())
    }
}

/// Number of text boxes that were found.
fn boxes(folder: &Path) -> Result<usize> {
    let path = folder.join("boxes.json");
    let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
    let boxes: Vec<[u32; 4]> =
        serde_json::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))?;
    Ok(boxes.len())
}
