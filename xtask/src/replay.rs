// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask replay`: `iree-run-module` records its use of a device (`--device_replay_output`), and IREE's replay
//! tools repeat it without the module. The results must agree bit for bit. `docs/using/replay.md` lists the operations
//! that can be recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use random::Random;

use xtask_core::cts::Driver;
use xtask_core::error::{Context, Error, Result};
use xtask_core::flavor::Flavor;
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, compile};
use xtask_core::junit::Verdict;
use xtask_core::layout::Layout;
use xtask_core::npy::{Array, Data, Raw};
use xtask_core::process::{self, Ended};
use xtask_core::setup;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A tool that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// Parameters of `encoder.mlir`, with their numbers of rows and columns.
const WEIGHTS: [(&str, usize, usize); 5] =
    [("wq", 64, 64), ("wk", 64, 64), ("wv", 64, 64), ("w1", 64, 128), ("w2", 128, 64)];

/// Folder, GPU and drivers of recordings and replays.
pub struct Place<'a> {
    pub layout: &'a Layout,
    step: &'a Step,
    /// GPU that kernels are compiled for.
    target: &'a Target,
    recorder: Driver,
    player: Driver,
    /// Folder that only this place writes to.
    pub work: PathBuf,
}

/// Number of GPUs, and the devices that they form.
#[derive(Clone, Copy)]
pub struct Gpus {
    count: usize,
    /// Paths of `--device`.
    devices: &'static [&'static str],
}

pub const ONE_GPU: Gpus = Gpus { count: 1, devices: &["://0"] };
const TWO_DEVICES: Gpus = Gpus { count: 2, devices: &["://0", "://1"] };
/// All GPUs as one device, whose URI has no path.
const ONE_DEVICE: Gpus = Gpus { count: 2, devices: &[""] };

/// A function call to record.
pub struct Call {
    module: PathBuf,
    function: &'static str,
    inputs: Vec<String>,
    /// Further arguments of `iree-run-module`.
    pub flags: Vec<String>,
    gpus: Gpus,
}

/// A recording, and the bytes of the recorded call's result.
struct Recording {
    file: PathBuf,
    result: Vec<u8>,
    gpus: Gpus,
}

struct Case {
    name: &'static str,
    run: fn(&Place) -> Result<()>,
    /// Part of the output that identifies a failure of IREE's C driver itself.
    c_driver_says: Option<&'static str>,
}

/// On replay, the C driver reads files only by a proactor's handle, which the replay tools do not create.
const READS_NO_FILES: Option<&str> = Some("requires a proactor-backed async file handle");
/// On replay, the C driver profiles dispatches in command buffers only if they were recorded with
/// RETAIN_PROFILE_METADATA.
const TELLS_NO_DISPATCHES: Option<&str> = Some("the profile names no kernel");
/// On recording and replay, the C driver gives all devices of one process the same place in a group.
const ONE_DEVICE_A_GROUP: Option<&str> = Some("already registered");

const CASES: &[Case] = &[
    Case { name: "the demo", run: the_demo, c_driver_says: None },
    Case { name: "the demo's recording as text", run: text, c_driver_says: None },
    Case { name: "the demo's recording under Google Benchmark", run: benchmark, c_driver_says: None },
    Case { name: "the demo's recording with a profile", run: profile, c_driver_says: TELLS_NO_DISPATCHES },
    Case {
        name: "a transformer with parameters in a file",
        run: parameters_by_reference,
        c_driver_says: READS_NO_FILES,
    },
    Case {
        name: "parameters of which the recording keeps what is read",
        run: parameters_as_ranges,
        c_driver_says: None,
    },
    Case { name: "parameters that the recording keeps", run: parameters_as_a_copy, c_driver_says: None },
    Case { name: "parameters that moved elsewhere", run: parameters_elsewhere, c_driver_says: READS_NO_FILES },
    Case { name: "parameters that changed are refused", run: changed_parameters, c_driver_says: None },
    Case {
        name: "parameters in a file are refused if that is asked for",
        run: refused_parameters,
        c_driver_says: None,
    },
    Case { name: "a device of two GPUs", run: two_gpus, c_driver_says: None },
    Case { name: "two devices", run: two_devices, c_driver_says: ONE_DEVICE_A_GROUP },
    Case { name: "another kernel in the place of the recorded one", run: substitution, c_driver_says: None },
    Case { name: "another kernel with other arguments is refused", run: unfit_substitution, c_driver_says: None },
];

/// Records and replays on the sim, and prints a line for each case. In a build with IREE's C driver, each driver
/// replays the recordings of the other.
///
/// # Errors
/// When nothing could be run. A case that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let (rust, c) = (Driver::AmdgpuRs, Driver::Amdgpu);
    let pairs: &[_] = if layout.flavor == Flavor::BesideC { &[(c, rust), (rust, c)] } else { &[(rust, rust)] };
    let mixes = tools_mix_devices(layout)?;
    let mut tally = Tally::default();
    for &(recorder, player) in pairs {
        let name = format!("Replaying on {} what {} records on {target}", uri(player), uri(recorder));
        let results = steps.step(&name, |step| {
            let folder = format!("replay/{}-{}", uri(recorder), uri(player));
            let place = Place { recorder, player, ..Place::new(layout, step, target, &folder)? };
            let run = |case: &Case| {
                step.note(case.name);
                timed(|| (case.run)(&place))
            };
            Ok(CASES.iter().map(run).collect::<Vec<_>>())
        })?;
        for (case, (result, time)) in CASES.iter().zip(results) {
            // Recording or replaying it has one device of a group; the others are of its replays.
            let is_its = player == c || (recorder == c && case.c_driver_says == ONE_DEVICE_A_GROUP);
            let of_tools = mixes.then_some((MIXED, "of IREE's tools:"));
            let known = case.c_driver_says.filter(|_| is_its).map(|text| (text, "the C driver's:")).or(of_tools);
            let (verdict, text, whose) = match (result, known) {
                (Ok(()), _) => (Verdict::Passed, String::new(), ""),
                (Err(error), Some((text, whose))) if error.to_string().contains(text) => {
                    (Verdict::Skipped(error.to_string()), format!(": {error}"), whose)
                }
                (Err(error), _) => (Verdict::Failed(error.to_string()), format!(": {error}"), ""),
            };
            let (count, word) = match verdict {
                Verdict::Passed => (&mut tally.passed, "ok     "),
                Verdict::Skipped(_) => (&mut tally.known, whose),
                Verdict::Failed(_) => (&mut tally.failed, "FAILED "),
            };
            *count += 1;
            println!("  {word} {}{text}", case.name);
            steps.record(&name, case.name, verdict, Some(time));
        }
    }
    Ok(tally)
}

/// Part of this driver's error about the inputs that [`tools_mix_devices`] describes.
const MIXED: &str = "the buffer was made by another driver";

/// True if IREE's tools, while they record, create inputs with the recorder's allocator and copy to them with the
/// device itself, which does not know the buffer. The tools of 3.12 do so; since 3.13 the recorder's device does both.
/// The error does not occur on devices whose memory the host maps.
fn tools_mix_devices(layout: &Layout) -> Result<bool> {
    let path = layout.iree_tree().join("runtime/src/iree/tooling/context_util.c");
    let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
    Ok(!text.contains("recording_device"))
}

/// The name of a driver in `--device`.
fn uri(driver: Driver) -> &'static str {
    match driver {
        Driver::AmdgpuRs => "amdgpu_rs",
        Driver::Amdgpu => "amdgpu",
    }
}

impl<'a> Place<'a> {
    /// Creates a place with this driver only, and an empty folder `folder` in the build's.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn new(layout: &'a Layout, step: &'a Step, target: &'a Target, folder: &str) -> Result<Self> {
        let work = layout.build.join(folder);
        if work.exists() {
            fs::remove_dir_all(&work).context(|| format!("removing {}", work.display()))?;
        }
        fs::create_dir_all(&work).context(|| format!("making {}", work.display()))?;
        Ok(Self { layout, step, target, recorder: Driver::AmdgpuRs, player: Driver::AmdgpuRs, work })
    }

    fn compile(&self, source: &str) -> Result<PathBuf> {
        compile(self.layout, self.step, &self.layout.root.join(source), Backend::Gpu(self.target))
    }

    /// Creates the command of one of IREE's tools with its devices.
    fn tool(&self, program: &Path, driver: Driver, gpus: Gpus) -> Command {
        let mut command = self.layout.command(program);
        Hsa::Sim.apply(self.layout, self.target, &mut command);
        let agents = command.get_envs().find_map(|(name, value)| (name == "HSA_SIM_AGENTS").then_some(value?));
        let agents = agents.unwrap_or_default().to_string_lossy().into_owned();
        command.env("HSA_SIM_AGENTS", vec![agents; gpus.count].join(","));
        if self.layout.flavor == Flavor::BesideC {
            command.env("LD_PRELOAD", self.layout.kfd_library());
        }
        command.args(gpus.devices.iter().map(|path| format!("--device={}{path}", uri(driver))));
        command
    }

    /// Runs a tool and returns its output.
    ///
    /// # Errors
    /// The last lines of the output if the tool fails or hangs.
    pub fn output(&self, command: Command) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let how = match self.step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
            Ended::Exit(status) if status.success() => return Ok(lines),
            Ended::Exit(status) => process::describe(status),
            Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
        };
        let tail = lines[lines.len().saturating_sub(6)..].join("\n      ");
        Err(Error::Failed(format!("it ended with {how}:\n      {tail}")))
    }

    /// Runs a tool that must fail with `says` in its output.
    ///
    /// # Errors
    /// When it does not fail, or the output does not contain `says`.
    pub fn refuses(&self, command: Command, says: &str) -> Result<()> {
        match self.output(command) {
            Ok(_) => Err(Error::Failed(format!("it was not refused with '{says}'"))),
            Err(error) if error.to_string().contains(says) => Ok(()),
            Err(error) => Err(Error::Failed(format!("it does not say '{says}': {error}"))),
        }
    }

    /// Creates the `iree-run-module` command of a call, with its result written to a file.
    pub fn run_module(&self, call: &Call, result: &Path) -> Command {
        let mut command = self.tool(&self.layout.tool("iree-run-module"), self.recorder, call.gpus);
        command.arg(format!("--module={}", call.module.display())).arg(format!("--function={}", call.function));
        command.args(call.inputs.iter().map(|input| format!("--input={input}"))).args(&call.flags);
        command.arg(format!("--output=@{}", result.display()));
        command
    }

    /// Runs a call without recording it and returns the result's bytes.
    fn call(&self, call: &Call) -> Result<Vec<u8>> {
        let file = self.work.join("result.npy");
        self.output(self.run_module(call, &file))?;
        Ok(Raw::read(&file)?.bytes)
    }

    /// Records a call. Its result must equal the result without recording.
    fn record(&self, call: &Call, name: &str, flags: &[&str]) -> Result<Recording> {
        let (file, result) = (self.work.join(format!("{name}.ireereplay")), self.work.join("recorded.npy"));
        let mut command = self.run_module(call, &result);
        command.arg(format!("--device_replay_output={}", file.display())).args(flags);
        self.output(command)?;
        let result = Raw::read(&result)?.bytes;
        if result == self.call(call)? {
            Ok(Recording { file, result, gpus: call.gpus })
        } else {
            Err(Error::Failed("the call has another result when it is recorded".to_owned()))
        }
    }

    fn replay_tool(&self, recording: &Recording, program: &Path, flags: &[String]) -> Command {
        let mut command = self.tool(program, self.player, recording.gpus);
        command.args(flags).arg(&recording.file);
        command
    }

    fn run_replay(&self, recording: &Recording, flags: &[String]) -> Command {
        let mut command = self.replay_tool(recording, &setup::replay_program(self.layout), flags);
        command.env("REPLAY_OUTPUTS", self.work.join("outputs"));
        command
    }

    /// Replays a recording. The result must be `expected`.
    fn replays_to(&self, recording: &Recording, flags: &[String], expected: &[u8]) -> Result<()> {
        self.output(self.run_replay(recording, flags))?;
        let file = self.work.join("outputs");
        let bytes = fs::read(&file).context(|| format!("reading {}", file.display()))?;
        fs::remove_file(&file).context(|| format!("removing {}", file.display()))?;
        match last_buffer(&bytes).and_then(|buffer| buffer.get(..expected.len())) {
            Some(result) if result == expected => Ok(()),
            Some(_) => Err(Error::Failed("the result is not the recorded call's".to_owned())),
            None => Err(Error::Failed("the replay left no buffer of the result's size".to_owned())),
        }
    }

    /// Replays a recording. The result must be that of the recorded call.
    fn replays(&self, recording: &Recording, flags: &[String]) -> Result<()> {
        self.replays_to(recording, flags, &recording.result)
    }

    /// The demo's call.
    ///
    /// # Errors
    /// When the compiler fails.
    pub fn demo_call(&self, gpus: Gpus) -> Result<Call> {
        let images = self.layout.root.join("demo/test_images.npy");
        Ok(Call {
            module: self.compile("demo/digits.mlir")?,
            function: "classify",
            inputs: vec![format!("@{}", images.display())],
            flags: Vec::new(),
            gpus,
        })
    }

    fn demo(&self, gpus: Gpus) -> Result<Recording> {
        self.record(&self.demo_call(gpus)?, "demo", &[])
    }

    /// Returns a call of the transformer, and the new file with its parameters.
    ///
    /// # Errors
    /// When the compiler fails, or a file cannot be written.
    pub fn transformer(&self) -> Result<(Call, PathBuf)> {
        let parameters = self.work.join("captured/weights.safetensors");
        write_parameters(&parameters)?;
        let call = Call {
            module: self.compile("tests/replay/encoder.mlir")?,
            function: "encode",
            inputs: vec![self.input("tokens", &[32, 64])?],
            flags: vec![format!("--parameters=model={}", parameters.display())],
            gpus: ONE_GPU,
        };
        Ok((call, parameters))
    }

    /// Returns a call on a device of two GPUs. Both run kernels; the second's inputs are results of the first.
    ///
    /// # Errors
    /// When the compiler fails, or a file cannot be written.
    pub fn two_gpus_call(&self) -> Result<Call> {
        let module = self.work.join("two_gpus.vmfb");
        let mut compiler = Command::new(self.layout.host_tool("iree-compile"));
        compiler.arg("--iree-hal-target-device=gpus=amdgpu").arg(format!("--iree-rocm-target={}", self.target));
        compiler.arg("-o").arg(&module).arg(self.layout.root.join("tests/replay/two_gpus.mlir"));
        self.step.run(compiler)?;
        let inputs = vec![self.input("x", &[64, 64])?, self.input("y", &[64, 64])?];
        Ok(Call { module, function: "main", inputs, flags: Vec::new(), gpus: ONE_DEVICE })
    }

    /// Returns a call of a module with two arrays of 64 elements.
    fn small(&self, source: &str) -> Result<Call> {
        let (x, y) = (self.input("x", &[64])?, self.input("y", &[64])?);
        Ok(Call {
            module: self.compile(source)?,
            function: "main",
            inputs: vec![x, y],
            flags: Vec::new(),
            gpus: ONE_GPU,
        })
    }

    /// Returns an `iree-run-module` input argument: an array in a file.
    fn input(&self, name: &str, shape: &[usize]) -> Result<String> {
        let path = self.work.join(format!("{name}.npy"));
        let data = Data::F32(numbers(name, shape.iter().product()));
        Array { shape: shape.to_vec(), data }.write(&path)?;
        Ok(format!("@{}", path.display()))
    }

    /// Returns the file of a module's only executable.
    fn executable(&self, module: &Path) -> Result<PathBuf> {
        let folder = self.work.join(module.file_stem().unwrap_or_default());
        let mut python = Command::new(self.layout.venv_program("python3"));
        python.args(["-m", "zipfile", "-e"]).arg(module).arg(&folder);
        self.step.run(python)?;
        let entries = fs::read_dir(&folder).context(|| format!("reading {}", folder.display()))?;
        let mut files = entries.flatten().map(|entry| entry.path()).filter(|path| !path.ends_with("module.fb"));
        files.next().ok_or_else(|| Error::setup(format!("{} holds no executable", module.display())))
    }
}

fn the_demo(place: &Place) -> Result<()> {
    place.replays(&place.demo(ONE_GPU)?, &[])
}

fn text(place: &Place) -> Result<()> {
    let recording = place.demo(ONE_GPU)?;
    let mut command = place.layout.command(place.layout.tool("iree-dump-replay"));
    command.arg("--format=jsonl").arg(&recording.file);
    let lines = place.output(command)?;
    let mut executions = 0;
    for line in &lines {
        let row: serde_json::Value =
            serde_json::from_str(line).map_err(|error| Error::Failed(format!("'{line}': {error}")))?;
        executions += usize::from(row["operation"] == "device.queue_execute");
    }
    if executions > 0 { Ok(()) } else { Err(Error::Failed("it names no execution of a command buffer".to_owned())) }
}

fn benchmark(place: &Place) -> Result<()> {
    let recording = place.demo(ONE_GPU)?;
    let flags = ["--benchmark_min_time=3x", "--replay_scope=execute"].map(str::to_owned);
    let lines = place.output(place.replay_tool(&recording, &place.layout.tool("iree-benchmark-replay"), &flags))?;
    let measured = |line: &&String| line.contains(" ms ") && line.contains("execute");
    if lines.iter().any(|line| measured(&line)) {
        Ok(())
    } else {
        Err(Error::Failed(format!("it tells no time: {}", lines.join("\n"))))
    }
}

fn profile(place: &Place) -> Result<()> {
    let recording = place.demo(ONE_GPU)?;
    let profile = place.work.join("replay.ireeprof");
    let output = format!("--device_profiling_output={}", profile.display());
    place.replays(&recording, &["--device_profiling_mode=dispatch-events".to_owned(), output])?;
    let mut command = place.layout.command(place.layout.tool("iree-profile"));
    command.arg("dispatch").arg(&profile);
    let lines = place.output(command)?;
    if lines.iter().any(|line| line.contains("classify")) {
        Ok(())
    } else {
        Err(Error::Failed(format!("the profile names no kernel: {}", lines.join("\n"))))
    }
}

fn parameters_by_reference(place: &Place) -> Result<()> {
    let (call, _) = place.transformer()?;
    place.replays(&place.record(&call, "reference", &["--device_replay_file_policy=reference"])?, &[])
}

/// Parameters recorded as file ranges: the replay must fail without the file.
fn parameters_as_ranges(place: &Place) -> Result<()> {
    let (call, parameters) = place.transformer()?;
    let recording = place.record(&call, "ranges", &["--device_replay_file_policy=capture-ranges"])?;
    fs::remove_file(&parameters).context(|| format!("removing {}", parameters.display()))?;
    place.replays(&recording, &[])
}

/// Parameters recorded as a copy: the replay does not need the file.
fn parameters_as_a_copy(place: &Place) -> Result<()> {
    let (call, parameters) = place.transformer()?;
    let recording = place.record(&call, "copy", &["--device_replay_file_policy=capture-all"])?;
    fs::remove_file(&parameters).context(|| format!("removing {}", parameters.display()))?;
    place.replays(&recording, &[])
}

/// The replay must accept a copy in another folder if the recording identifies files by their contents.
fn parameters_elsewhere(place: &Place) -> Result<()> {
    let (call, parameters) = place.transformer()?;
    let recording = place.record(&call, "digest", &["--device_replay_file_validation=digest"])?;
    write_parameters(&place.work.join("moved/weights.safetensors"))?;
    fs::remove_file(&parameters).context(|| format!("removing {}", parameters.display()))?;
    let folder = |name: &str| place.work.join(name).display().to_string();
    let remap = format!("--replay_file_remap={}={}", folder("captured"), folder("moved"));
    place.refuses(place.run_replay(&recording, &[]), "opening external replay file")?;
    place.replays(&recording, &[remap])
}

/// The replay must refuse a rewritten file if the recording identifies files by time and path.
fn changed_parameters(place: &Place) -> Result<()> {
    let (call, parameters) = place.transformer()?;
    let recording = place.record(&call, "identity", &["--device_replay_file_validation=identity"])?;
    fs::remove_file(&parameters).context(|| format!("removing {}", parameters.display()))?;
    write_parameters(&parameters)?;
    place.refuses(place.run_replay(&recording, &[]), "identity mismatch")
}

fn refused_parameters(place: &Place) -> Result<()> {
    let (call, _) = place.transformer()?;
    let mut command = place.run_module(&call, &place.work.join("refused.npy"));
    let file = place.work.join("refused.ireereplay");
    command.arg(format!("--device_replay_output={}", file.display())).arg("--device_replay_file_policy=fail");
    place.refuses(command, "external file")
}

fn two_gpus(place: &Place) -> Result<()> {
    place.replays(&place.record(&place.two_gpus_call()?, "two_gpus", &[])?, &[])
}

/// A group of two devices, of which the call uses one.
fn two_devices(place: &Place) -> Result<()> {
    let recording = place.demo(TWO_DEVICES)?;
    place.replays(&recording, &[])?;
    let alone = Recording { gpus: ONE_GPU, ..recording };
    place.refuses(place.run_replay(&alone, &[]), "replay references more devices than provided")
}

fn substitution(place: &Place) -> Result<()> {
    let recording = place.record(&place.small("tests/replay/scale_add.mlir")?, "substituted", &[])?;
    let other = place.small("tests/replay/scale_multiply.mlir")?;
    let expected = place.call(&other)?;
    if expected == recording.result {
        return Err(Error::Failed("both kernels have the same result".to_owned()));
    }
    let executable = place.executable(&other.module)?;
    place.replays(&recording, &[])?;
    place.replays_to(&recording, &[format!("--replay_executable_substitution=all={}", executable.display())], &expected)
}

fn unfit_substitution(place: &Place) -> Result<()> {
    let recording = place.record(&place.small("tests/replay/scale_add.mlir")?, "unfit", &[])?;
    let executable = place.executable(&place.compile("examples/embed.mlir")?)?;
    let flag = format!("--replay_executable_substitution=all={}", executable.display());
    place.refuses(place.run_replay(&recording, &[flag]), "looking up replay function")
}

/// Writes the transformer's parameters as a file of safetensors: the length of a header in JSON, the header, the data
/// (<https://huggingface.co/docs/safetensors>).
fn write_parameters(path: &Path) -> Result<()> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, rows, columns) in WEIGHTS {
        let start = data.len();
        data.extend(numbers(name, rows * columns).iter().flat_map(|number| number.to_le_bytes()));
        let offsets = [start, data.len()];
        header.insert(
            name.to_owned(),
            serde_json::json!({"dtype": "F32", "shape": [rows, columns], "data_offsets": offsets}),
        );
    }
    let mut header = serde_json::Value::Object(header).to_string().into_bytes();
    // Data that is aligned as IREE wants it may be read in place.
    header.resize((header.len() + 8).next_multiple_of(64) - 8, b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
    }
    fs::write(path, bytes).context(|| format!("writing {}", path.display()))
}

/// Numbers from -0.5 to 0.5, seeded by a name.
fn numbers(name: &str, count: usize) -> Vec<f32> {
    let seed = name.bytes().fold(0, |seed, byte| seed << 8 | u64::from(byte));
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(1 << 20) as f32 / (1 << 20) as f32 - 0.5).collect()
}

/// Returns the last of the buffers that the replay wrote. Each has its length in 8 bytes, then the data.
fn last_buffer(mut bytes: &[u8]) -> Option<&[u8]> {
    let mut last = None;
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let buffer;
        (buffer, bytes) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        last = Some(buffer);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_buffer_is_found_and_a_file_cut_short_has_none() {
        let bytes = [[2, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[8, 9], &[1, 0, 0, 0, 0, 0, 0, 0], &[7]].concat();
        assert_eq!(last_buffer(&bytes), Some([7].as_slice()));
        assert_eq!(last_buffer(&bytes[..bytes.len() - 1]), None);
        assert_eq!(last_buffer(&[]), None);
    }

    #[test]
    fn numbers_are_in_their_range_and_differ_by_name() {
        assert!(numbers("x", 1000).iter().all(|number| (-0.5..0.5).contains(number)));
        assert_ne!(numbers("x", 4), numbers("y", 4));
    }
}
