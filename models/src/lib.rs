// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs the models of `models/models.toml` on the GPU, or on several, and on IREE's CPU backend and compares the
//! results. The file defines inputs and agreement; this module implements its text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::{Hsa, SimStats};
use xtask_core::iree::{Backend, Call, compile};
use xtask_core::layout::Layout;
use xtask_core::npy::{Array, Data};
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<Model>,
}

/// A model of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Unique name.
    pub name: String,
    file: PathBuf,
    /// Function to call.
    pub function: String,
    seed: u64,
    inputs: Vec<Input>,
    /// IREE's target device of the compiled module.
    #[serde(default)]
    device: Device,
    /// Number of tensors that the function returns.
    #[serde(default = "one")]
    pub results: usize,
    /// For a model that runs on several devices, lists of devices, separated by spaces. Each list is a run.
    #[serde(default)]
    devices: Vec<String>,
    /// Further lists, for GPUs without access to each other's memory.
    #[serde(default)]
    without_peers: Vec<String>,
    /// Further lists, for GPUs without access to each other's memory, that the driver must refuse.
    #[serde(default)]
    refused_without_peers: Vec<String>,
    tolerance: Tolerance,
}

/// A target device of IREE's compiler whose modules run on the driver.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Device {
    #[default]
    Amdgpu,
    Hip,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    shape: Vec<usize>,
    dtype: String,
    range: [f64; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tolerance {
    abs: f64,
    rel: f64,
    #[serde(rename = "reason")]
    _reason: String,
}

impl Model {
    /// True if the model runs on one device.
    fn is_for_one(&self) -> bool {
        [&self.devices, &self.without_peers, &self.refused_without_peers].iter().all(|lists| lists.is_empty())
    }

    /// Source file, in `models/`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Writes the model's inputs to files in `folder`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn make_inputs(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let write = |(index, input): (usize, &Input)| {
            let path = folder.join(format!("{}.input{index}.npy", self.name));
            make_input(input, self.seed + index as u64)?.write(&path)?;
            Ok(path)
        };
        self.inputs.iter().enumerate().map(write).collect()
    }
}

fn one() -> usize {
    1
}

/// One model that agreed: its largest difference and, on the sim, its counts.
struct Agreement {
    largest: f64,
    stats: Option<SimStats>,
}

/// One model on one machine.
struct Run<'a> {
    model: &'a Model,
    /// GPUs of the machine.
    machine: Target,
    /// The part after `amdgpu_rs://` of each device URI, for a model that runs on several devices.
    devices: Vec<&'a str>,
    /// True if the driver must refuse the run.
    is_refused: bool,
}

/// Part of the driver's error about memory that a GPU has no access to.
const REFUSAL: &str = "has no access to the memory of the buffer";

/// Part of the HIP driver's error about an empty buffer.
const HIP_REFUSAL: &str = "allocations must be >0 bytes";

impl<'a> Run<'a> {
    /// Returns all runs that `target` has enough GPUs for. If `target` is one GPU without settings, on the sim's own
    /// library, each run gets as many of it as it needs. Debian's ROCR is excluded: at the end of a process with eight
    /// devices, its `hsa_queue_destroy` hung in 5 of 600 processes (`docs/status/findings.md`).
    fn all(models: &'a [Model], target: &Target, hsa: &Hsa) -> Result<Vec<Self>> {
        let is_any_machine = target.agents() == target.as_ref() && matches!(hsa, Hsa::Sim);
        let has_peers = !["peers=no", "bar=small", "bar=none"].iter().any(|lack| target.agents().contains(lack));
        let mut runs = Vec::new();
        for model in models {
            if model.is_for_one() {
                runs.push(Self { model, machine: target.clone(), devices: Vec::new(), is_refused: false });
                continue;
            }
            let kinds = [
                (&model.devices, true, false),
                (&model.without_peers, false, false),
                (&model.refused_without_peers, false, true),
            ];
            for (lists, peers, is_refused) in kinds {
                for list in lists {
                    let needed = gpus_of(list)?;
                    let machine = if is_any_machine {
                        copies(target, needed, peers)?
                    } else if peers == has_peers && !is_refused && needed <= gpus(target) {
                        target.clone()
                    } else {
                        continue;
                    };
                    runs.push(Self { model, machine, devices: list.split(' ').collect(), is_refused });
                }
            }
        }
        Ok(runs)
    }

    fn name(&self) -> String {
        let devices = if self.devices.is_empty() { String::new() } else { format!(" on {}", self.devices.join(" ")) };
        let peers = if self.machine.agents().contains("peers=no") { " without peers" } else { "" };
        format!("{}{devices}{peers}", self.model.name)
    }
}

/// Number of GPUs that the list of devices needs.
fn gpus_of(list: &str) -> Result<usize> {
    let ordinals = list.split([' ', ',']).map(str::parse::<usize>);
    let last = ordinals.max_by_key(|ordinal| ordinal.clone().unwrap_or(usize::MAX));
    let last = last.and_then(std::result::Result::ok);
    last.map(|last| last + 1).ok_or_else(|| Error::setup(format!("models.toml: no list of devices: '{list}'")))
}

/// Number of GPUs of `target`. Each partition counts.
fn gpus(target: &Target) -> usize {
    let agents = target.agents().split(',');
    let of_item = |item: &str| {
        let is_gpu = item.contains(':') || !item.contains('=');
        let parts = item.rsplit_once("partitions=").and_then(|(_, number)| number.parse::<usize>().ok());
        usize::from(is_gpu) + parts.map_or(0, |parts| parts - 1)
    };
    agents.map(of_item).sum()
}

/// `count` copies of the GPU, with or without access to each other's memory.
fn copies(target: &Target, count: usize, peers: bool) -> Result<Target> {
    let one = if peers { target.agents().to_owned() } else { target.agents_with("peers=no") };
    vec![one; count].join(",").parse().map_err(Error::setup)
}

/// Result of a model, and the time that it took.
type Outcome = (Result<Agreement>, Duration);

/// Device and environment of a run of models.
struct Place<'a> {
    hsa: &'a Hsa,
    /// Further environment variables.
    variables: &'a [(&'a str, &'a str)],
    conditions: &'a Conditions,
}

/// Runs all models on `target` and prints one line for each.
///
/// # Errors
/// When the list cannot be read; a model that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target, hsa: &Hsa, conditions: &Conditions) -> Result<Tally> {
    let models = read_all(layout)?;
    let runs = Run::all(&models, target, hsa)?;
    let results =
        steps.step(&format!("Models on {target} by {hsa} against the CPU{conditions}"), |step| {
            match refusal(layout, step, target)? {
                Some(refusal) => Ok(Err(refusal)),
                None => run_models(layout, step, &runs, &Place { hsa, variables: &[], conditions }).map(Ok),
            }
        })?;
    let results = match results {
        Ok(results) => results,
        Err(refusal) => {
            println!("  refused {target:16} iree-compile: {refusal}");
            return Ok(Tally { skipped: runs.len(), ..Tally::default() });
        }
    };
    let mut tally = Tally::default();
    for (run, (result, time)) in runs.iter().zip(results) {
        let name = run.name();
        steps.record(&format!("models on {target} by {hsa}{conditions}"), &name, (&result).into(), Some(time));
        match result {
            Ok(agreement) => {
                tally.passed += 1;
                let counts = agreement
                    .stats
                    .map_or_else(String::new, |stats| format!(", {} wave-instructions", stats.wave_instructions));
                if run.is_refused {
                    println!("  ok      {name:36} is refused");
                } else {
                    println!("  ok      {name:36} differs by {:.1e}{counts}", agreement.largest);
                }
            }
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {name:36} {error}");
            }
        }
    }
    Ok(tally)
}

/// Runs all models on the sim with further environment variables, and prints the models that fail. Also returns the
/// time in seconds.
///
/// # Errors
/// When the list cannot be read.
pub fn run_configured(
    layout: &Layout,
    steps: &Steps,
    name: &str,
    target: &Target,
    variables: &[(&str, &str)],
) -> Result<(Tally, f64)> {
    let models = read_all(layout)?;
    let runs = Run::all(&models, target, &Hsa::Sim)?;
    let place = Place { hsa: &Hsa::Sim, variables, conditions: Conditions::DEFAULT };
    let results =
        steps.step(&format!("Models on {name} against the CPU"), |step| run_models(layout, step, &runs, &place))?;
    let seconds = results.iter().map(|(_, time)| time.as_secs_f64()).sum();
    let mut tally = Tally::default();
    for (run, (result, time)) in runs.iter().zip(results) {
        steps.record(&format!("models on {name}"), &run.name(), (&result).into(), Some(time));
        match result {
            Ok(_) => tally.passed += 1,
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {:36} {error}", run.name());
            }
        }
    }
    Ok((tally, seconds))
}

/// Runs the models for one device by this driver and by IREE's HIP driver, with the same code, and prints one line for
/// each. Results that differ in a bit fail.
///
/// # Errors
/// When the list cannot be read, or HIP cannot be had; a model that fails is counted.
pub fn run_beside_hip(layout: &Layout, steps: &Steps, target: &Target, conditions: &Conditions) -> Result<Tally> {
    let models = read_models(layout)?;
    let work = layout.build.join("models");
    fs::create_dir_all(&work).context(|| format!("making {}", work.display()))?;
    let place = Place { hsa: &Hsa::Sim, variables: &[], conditions };
    let results = steps.step(&format!("Models on {target} beside IREE's HIP driver{conditions}"), |step| {
        if let Some(refusal) = refusal(layout, step, target)? {
            return Err(Error::setup(format!("iree-compile: {refusal}")));
        }
        let run = |model: &Model| {
            step.note(&model.name);
            timed(|| run_on_both(layout, step, &place, model, target, &work))
        };
        Ok(models.iter().map(run).collect::<Vec<_>>())
    })?;
    let mut tally = Tally::default();
    for (model, (result, time)) in models.iter().zip(results) {
        steps.record(&format!("models on {target} beside HIP{conditions}"), &model.name, (&result).into(), Some(time));
        match result {
            Ok(how) => {
                tally.passed += 1;
                println!("  ok      {:36} {how}", model.name);
            }
            Err(error) => {
                tally.failed += 1;
                println!("  FAILED  {:36} {error}", model.name);
            }
        }
    }
    Ok(tally)
}

fn run_on_both(
    layout: &Layout,
    step: &Step,
    place: &Place,
    model: &Model,
    target: &Target,
    work: &Path,
) -> Result<&'static str> {
    let inputs = model.make_inputs(work)?;
    let results = |backend| {
        call(layout, step, place, model, &inputs, backend, work)?;
        let output = output(model, backend, work);
        fs::read(&output).context(|| format!("reading {}", output.display()))
    };
    let ours = results(Backend::Hip(target))?;
    let is_empty = model.inputs.iter().any(|input| input.shape.contains(&0));
    match results(Backend::HipDriver(target)) {
        Err(Error::Failed(text)) if is_empty && text.contains(HIP_REFUSAL) => {
            Ok("the HIP driver refuses empty buffers")
        }
        Err(error) => Err(error),
        Ok(_) if is_empty => Err(Error::Failed("the HIP driver now takes empty buffers: compare them".to_owned())),
        Ok(theirs) if theirs == ours => Ok("the same bits"),
        Ok(_) => Err(Error::Failed("the drivers' results differ".to_owned())),
    }
}

fn run_models(layout: &Layout, step: &Step, runs: &[Run], place: &Place) -> Result<Vec<Outcome>> {
    let work = layout.build.join("models");
    fs::create_dir_all(&work).context(|| format!("making {}", work.display()))?;
    let run = |run: &Run| {
        step.note(&run.name());
        timed(|| run_model(layout, step, place, run, &work))
    };
    Ok(runs.iter().map(run).collect())
}

/// Reads the list's models that run on one device.
///
/// # Errors
/// When the file cannot be read or parsed.
pub fn read_models(layout: &Layout) -> Result<Vec<Model>> {
    let mut models = read_all(layout)?;
    models.retain(Model::is_for_one);
    Ok(models)
}

fn read_all(layout: &Layout) -> Result<Vec<Model>> {
    read_file(&layout.root.join("models/models.toml"))
}

fn read_file(path: &Path) -> Result<Vec<Model>> {
    let text = fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
    let file: File = toml::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))?;
    Ok(file.model)
}

/// Returns the compiler's error if it does not know the target.
fn refusal(layout: &Layout, step: &Step, target: &Target) -> Result<Option<String>> {
    let mut compiler = Command::new(layout.host_tool("iree-compile"));
    compiler.args(Backend::Gpu(target).flags()).arg("-").args(["-o", "/dev/null"]);
    let mut refusal = None;
    step.follow(compiler, None, |line| {
        let unknown = line.split_once("error: ").map(|(_, text)| text).filter(|text| text.starts_with("Unknown"));
        refusal = refusal.take().or(unknown.map(str::to_owned));
    })?;
    Ok(refusal)
}

fn run_model(layout: &Layout, step: &Step, place: &Place, run: &Run, work: &Path) -> Result<Agreement> {
    let model = run.model;
    let inputs = model.make_inputs(work)?;
    let call = |backend: Backend| {
        let counts = call(layout, step, place, model, &inputs, backend, work)?;
        Ok::<_, Error>((Array::read_all(&output(model, backend, work))?, counts))
    };
    let (cpu, gpu) = match model.device {
        _ if !run.devices.is_empty() => (Backend::CpuDevices, Backend::GpuDevices(&run.machine, &run.devices)),
        Device::Amdgpu => (Backend::Cpu, Backend::Gpu(&run.machine)),
        Device::Hip => (Backend::Cpu, Backend::Hip(&run.machine)),
    };
    if run.is_refused {
        return match call(gpu) {
            Err(Error::Failed(text)) if text.contains(REFUSAL) => Ok(Agreement { largest: 0.0, stats: None }),
            Err(error) => Err(error),
            Ok(_) => Err(Error::Failed(format!("ran, where the driver should say that a GPU {REFUSAL}"))),
        };
    }
    let (expected, _) = call(cpu)?;
    let (actual, stats) = call(gpu)?;
    let largest = compare(&actual, &expected, &model.tolerance).map_err(Error::Failed)?;
    Ok(Agreement { largest, stats })
}

/// File of the model's results by the driver of `backend`.
fn output(model: &Model, backend: Backend, work: &Path) -> PathBuf {
    work.join(format!("{}.{}.npy", model.name, backend.device()))
}

/// Compiles the model and calls its function. Returns the sim's counts.
fn call(
    layout: &Layout,
    step: &Step,
    place: &Place,
    model: &Model,
    inputs: &[PathBuf],
    backend: Backend,
    work: &Path,
) -> Result<Option<SimStats>> {
    let module = compile(layout, step, &layout.root.join("models").join(&model.file), backend)?;
    let call = Call {
        module: &module,
        function: &model.function,
        inputs,
        output: &output(model, backend, work),
        results: model.results,
        stats: &work.join(format!("{}.stats.json", model.name)),
        variables: place.variables,
        conditions: place.conditions,
    };
    call.run(layout, step, backend, place.hsa)
}

/// The SplitMix64 generator of the list's head comment.
struct SplitMix64(u64);

impl SplitMix64 {
    /// The next number in [0, 1), exact in `f64`.
    fn next_unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f64 / f64::from(1 << 24)
    }
}

fn make_input(input: &Input, seed: u64) -> Result<Array> {
    let count = input.shape.iter().product::<usize>();
    let [low, high] = input.range;
    let mut random = SplitMix64(seed);
    let mut next = || random.next_unit() * (high - low);
    let data = match input.dtype.as_str() {
        "f32" => Data::F32((0..count).map(|_| (low + next()) as f32).collect()),
        "i32" => Data::I32((0..count).map(|_| (low + next().floor()) as i32).collect()),
        other => return Err(Error::setup(format!("models.toml: unknown dtype {other}"))),
    };
    Ok(Array { shape: input.shape.clone(), data })
}

/// Returns the largest absolute difference, or a message about the values that do not agree.
fn compare(actual: &[Array], expected: &[Array], tolerance: &Tolerance) -> std::result::Result<f64, String> {
    if actual.len() != expected.len() {
        return Err(format!("{} results, the CPU has {}", actual.len(), expected.len()));
    }
    let mut largest = 0.0_f64;
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        if a.shape != e.shape {
            return Err(format!("result {index} has shape {:?}, the CPU's {:?}", a.shape, e.shape));
        }
        let difference = match (&a.data, &e.data) {
            (Data::F32(a), Data::F32(e)) => compare_floats(a, e, tolerance),
            (a, e) if a == e => Ok(0.0),
            _ => Err("integers differ".to_owned()),
        };
        largest = largest.max(difference.map_err(|what| format!("result {index}: {what}"))?);
    }
    Ok(largest)
}

fn compare_floats(actual: &[f32], expected: &[f32], tolerance: &Tolerance) -> std::result::Result<f64, String> {
    let mut largest = 0.0_f64;
    let mut bad = Vec::new();
    for (index, (&a, &e)) in actual.iter().zip(expected).enumerate() {
        let is_same = a == e || (a.is_nan() && e.is_nan());
        let difference = (f64::from(a) - f64::from(e)).abs();
        if is_same {
            continue;
        }
        largest = largest.max(difference);
        // A NaN on one side makes the comparison false.
        let is_near = difference <= tolerance.abs + tolerance.rel * f64::from(e).abs();
        if !is_near || e.is_infinite() {
            bad.push((index, a, e));
        }
    }
    match bad.first() {
        None => Ok(largest),
        Some((index, a, e)) => Err(format!(
            "{} of {} elements disagree, first [{index}]: {a:e}, the CPU has {e:e}",
            bad.len(),
            actual.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOSE: Tolerance = Tolerance { abs: 0.1, rel: 0.0, _reason: String::new() };

    #[test]
    fn the_generator_is_splitmix64() {
        // The published first output of the state 1234567.
        let mut z = SplitMix64(1_234_567);
        assert_eq!(z.next_unit(), (6_457_827_717_110_365_317_u64 >> 40) as f64 / 16_777_216.0);
    }

    #[test]
    fn inputs_stay_in_their_range() {
        let input = |dtype: &str| Input { shape: vec![10, 100], dtype: dtype.into(), range: [-3.0, 4.0] };
        let Data::F32(floats) = make_input(&input("f32"), 1).unwrap().data else { panic!() };
        assert!(floats.iter().all(|x| (-3.0..4.0).contains(x)));
        let Data::I32(integers) = make_input(&input("i32"), 1).unwrap().data else { panic!() };
        assert_eq!((integers.iter().min(), integers.iter().max()), (Some(&-3), Some(&3)));
        assert!(make_input(&input("f16"), 1).is_err());
    }

    #[test]
    fn nan_and_infinity_agree_only_with_themselves() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert_eq!(compare_floats(&[nan, inf, 1.05], &[nan, inf, 1.0], &LOOSE).map(|d| d < 0.1), Ok(true));
        for (a, e) in [(nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (-inf, inf), (1.2, 1.0)] {
            assert!(compare_floats(&[a], &[e], &LOOSE).is_err(), "{a} {e}");
        }
    }

    #[test]
    fn models_for_several_gpus_run_on_the_machines_that_have_them() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models.toml");
        let models = read_file(&path).unwrap();
        let names = |target: &str, hsa: &Hsa| {
            let runs = Run::all(&models, &target.parse().unwrap(), hsa).unwrap();
            let several = runs.into_iter().filter(|run| !run.model.is_for_one());
            several.map(|run| format!("{}: {}", run.name(), run.machine.agents())).collect::<Vec<_>>()
        };
        let everywhere = names("gfx1100", &Hsa::Sim);
        for run in [
            "ping_pong on 0 1: gfx1100,gfx1100",
            "ping_pong on 0 1 without peers: gfx1100:peers=no,gfx1100:peers=no",
            "data_parallel on 0,1 2,3: gfx1100,gfx1100,gfx1100,gfx1100",
        ] {
            assert!(everywhere.iter().any(|name| name == run), "{run} is not among {everywhere:?}");
        }
        let rocr = names("gfx90a", &Hsa::Rocr);
        for none in [rocr, names("gfx1100", &Hsa::Path("/opt/rocm".into())), names("gfx1100:bar=small", &Hsa::Sim)] {
            assert_eq!(none, [""; 0]);
        }
        let pair = names("gfx1100:cus=4,gfx1100", &Hsa::Sim);
        assert!(pair.contains(&"ping_pong on 0 1: gfx1100:cus=4,gfx1100".to_owned()), "{pair:?}");
        assert!(pair.iter().all(|name| !name.contains('2')), "{pair:?}");
        let alone = names("gfx1100:peers=no,gfx1100:peers=no", &Hsa::Sim);
        assert!(!alone.is_empty() && alone.iter().all(|name| name.contains("without peers")), "{alone:?}");
        assert_eq!(gpus(&"gfx942:memory=shared,partitions=8,gfx942".parse().unwrap()), 9);
    }

    #[test]
    fn the_models_file_is_well_formed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models.toml");
        let models = read_file(&path).unwrap();
        assert!(!models.is_empty());
        for model in models {
            let file = path.with_file_name(&model.file);
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains(&format!("@{}(", model.function)), "{}", model.name);
        }
    }
}
