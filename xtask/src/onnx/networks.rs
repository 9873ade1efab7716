// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask models --onnx`: the real networks of `models/onnx.toml`, on the GPU and by onnxruntime.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bench::sim::{TARGETS, flags};
use bench::sim_networks::Network as Measured;
use serde::Deserialize;

use super::compare::largest_difference;
use super::runner::{Runner, hash, make_folder};
use super::tests::Test;
use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::glob;
use xtask_core::hsa::{Hsa, SimStats};
use xtask_core::iree::Backend;
use xtask_core::layout::Layout;
use xtask_core::setup;
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// Scripts that make the inputs and the models. A change of the scripts makes them again.
const SCRIPTS: [&str; 3] = [include_str!("networks.py"), include_str!("common.py"), include_str!("ocr.py")];

#[derive(Deserialize)]
struct File {
    network: Vec<Network>,
}

/// One network, without the fields that only the scripts read.
#[derive(Deserialize)]
struct Network {
    name: String,
    about: String,
    package: String,
    sha256: String,
    tolerance: f64,
}

/// Result of a network that agreed.
struct Agreement {
    /// Largest difference, relative to the largest magnitude.
    difference: f64,
    /// Counts of the `iree-run-module`.
    stats: SimStats,
}

/// Runs all networks on each target and prints a line for each.
///
/// # Errors
/// When the packages cannot be downloaded. A network that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, targets: &[Target], conditions: &Conditions, filter: &str) -> Result<Tally> {
    let mut networks = read_networks(layout)?;
    networks.retain(|network| glob::matches(filter, &network.name));
    if networks.is_empty() {
        return Err(Error::setup(format!("no network of models/onnx.toml matches {filter}")));
    }
    let folder = import(layout, steps, filter)?;
    let mut tally = Tally::default();
    for target in targets {
        let results = steps.step(&format!("Networks on {target} against onnxruntime{conditions}"), |step| {
            Ok(networks
                .iter()
                .map(|network| run_network(layout, step, target, conditions, network, &folder))
                .collect::<Vec<_>>())
        })?;
        for (network, result) in networks.iter().zip(results) {
            match result {
                Ok(agreement) => {
                    tally.passed += 1;
                    print_agreement(target, network, &agreement);
                }
                Err(error) => {
                    tally.failed += 1;
                    println!("  FAILED  {target:8} {:18} {error}", network.name);
                }
            }
        }
    }
    Ok(tally)
}

/// Imports the networks whose names match the glob `filter`. Returns their folder, in which each network has a
/// folder of its name.
///
/// # Errors
/// When the packages cannot be downloaded.
pub fn import(layout: &Layout, steps: &Steps, filter: &str) -> Result<PathBuf> {
    setup::onnx(layout, steps)?;
    let text = fs::read(list(layout)).context(|| "reading models/onnx.toml".to_owned())?;
    let folder = layout.of_compiler("onnx").join(format!("networks-{:08x}", hash(&(SCRIPTS, text)) as u32));
    let wheels = fetch(layout, steps, filter)?;
    steps.step("Importing the networks", |step| {
        let mut python = Command::new(layout.venv_program("python3"));
        python.arg(layout.root.join("xtask/src/onnx/networks.py")).arg(&layout.root);
        python.arg(wheels).arg(&folder).arg(filter);
        step.run(python)
    })?;
    Ok(folder)
}

/// Compiles the network in `folder`, a folder inside the one from [`import`]. Returns the path of the module.
///
/// # Errors
/// When the compiler rejects it.
pub fn compile(layout: &Layout, folder: &Path, target: &Target) -> Result<PathBuf> {
    let test = Test::read(folder)?;
    let source = folder.join(test.call()?.mlir);
    Runner::new(layout, Conditions::DEFAULT).compile(&source, Backend::Gpu(target))?.map_err(Error::Failed)
}

/// Networks that `cargo xtask bench --sim --networks` measures.
const MEASURED: [&str; 2] = ["centerface", "ppocr-recognition"];

/// Imports and compiles the networks that are measured.
///
/// # Errors
/// When the packages cannot be downloaded, or the compiler rejects a network.
pub fn measured(layout: &Layout, steps: &Steps) -> Result<Vec<Measured>> {
    let runner = Runner::new(layout, Conditions::DEFAULT);
    MEASURED
        .iter()
        .map(|&name| {
            let test = Test::read(&import(layout, steps, name)?.join(name))?;
            let call = test.call()?;
            let source = call.folder.join(call.mlir);
            let compile = |backend| runner.compile_with(&source, flags(backend))?.map_err(Error::Failed);
            let [first, second] = TARGETS.map(|target| target.parse::<Target>());
            let (first, second) = (first.map_err(Error::setup)?, second.map_err(Error::setup)?);
            let modules = steps.step(&format!("Compiling {name}"), |_| {
                Ok([compile(Backend::Cpu)?, compile(Backend::Gpu(&first))?, compile(Backend::Gpu(&second))?])
            })?;
            let inputs = call.arguments();
            Ok(Measured { name: name.to_owned(), function: call.function.to_owned(), inputs, modules })
        })
        .collect()
}

fn run_network(
    layout: &Layout,
    step: &Step,
    target: &Target,
    conditions: &Conditions,
    network: &Network,
    folder: &Path,
) -> Result<Agreement> {
    let runner = Runner::new(layout, conditions);
    let test = Test::read(&folder.join(&network.name))?;
    let call = test.call()?;
    step.note(&format!("compiling {} for {target}", network.name));
    let module = runner.compile(&call.folder.join(call.mlir), Backend::Gpu(target))?.map_err(Error::Failed)?;
    step.note(&format!("running {} on {target}", network.name));
    let work = test.folder.join(target.as_ref());
    let results = runner.run(&call, &module, Backend::Gpu(target), &Hsa::Sim, &work)?.map_err(Error::Failed)?;
    let mut difference = 0.0_f64;
    for (index, (actual, expected)) in results.iter().zip(call.read_results(call.folder)?).enumerate() {
        let found = largest_difference(actual, &expected);
        difference = difference.max(found.map_err(|what| Error::Failed(format!("result {index}: {what}")))?);
    }
    if difference > network.tolerance {
        let tolerance = network.tolerance;
        return Err(Error::Failed(format!(
            "differs by {difference:.1e} of the largest value, more than {tolerance:.0e}"
        )));
    }
    Ok(Agreement { difference, stats: SimStats::read(&work.join("stats.json"))? })
}

fn print_agreement(target: &Target, network: &Network, agreement: &Agreement) {
    let Agreement { difference, stats } = agreement;
    let [kernels, cpu] = [stats.execute_ns, stats.cpu_ns].map(|time| Duration::from_nanos(time).as_secs_f64());
    let millions = stats.wave_instructions as f64 / 1e6;
    println!(
        "  ok      {target:8} {:18} {:36} differs by {difference:.1e}; {cpu:6.2} s of CPU time, {kernels:6.2} s in kernels, \
         {millions:8.1} million wave-instructions",
        network.name, network.about,
    );
}

/// Downloads the packages of the networks whose names match the glob `filter`. Returns the packages' folder, which may
/// contain other packages as well.
///
/// # Errors
/// When a package cannot be downloaded, or its hash differs from the list's.
pub fn fetch(layout: &Layout, steps: &Steps, filter: &str) -> Result<PathBuf> {
    let chosen = read_networks(layout)?.into_iter().filter(|network| glob::matches(filter, &network.name));
    let lines: BTreeSet<_> =
        chosen.map(|network| format!("{} --hash=sha256:{}\n", network.package, network.sha256)).collect();
    let requirements: String = lines.into_iter().collect();
    let wheels = layout.build.join("onnx/wheels");
    let stamp = wheels.join(format!("{:08x}.downloaded", hash(&requirements) as u32));
    if stamp.exists() {
        return Ok(wheels);
    }
    make_folder(Some(&wheels))?;
    steps.step("Downloading networks", |step| {
        let list = wheels.join("requirements.txt");
        fs::write(&list, &requirements).context(|| format!("writing {}", list.display()))?;
        let mut pip = Command::new(layout.venv_program("pip"));
        pip.args(["download", "--progress-bar", "off", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
        pip.arg("--dest").arg(&wheels).arg("-r").arg(&list);
        step.run(pip)?;
        fs::write(&stamp, &requirements).context(|| format!("writing {}", stamp.display()))
    })?;
    Ok(wheels)
}

fn read_networks(layout: &Layout) -> Result<Vec<Network>> {
    let path = list(layout);
    let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
    let file: File = toml::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))?;
    Ok(file.network)
}

fn list(layout: &Layout) -> PathBuf {
    layout.root.join("models/onnx.toml")
}
