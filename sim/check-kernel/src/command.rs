// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The program `check-kernel`: runs kernels once, or looks at all of their paths, and tells the findings.
//!
//! Exit codes: 0 no findings; 1 findings, or a fault of a kernel; 2 wrong usage; 3 a kernel could not run, or the
//! arguments do not fit it.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use amdgpu_code_object::Kernel;
use clap::Parser;
use hsa_runtime64::machine::product::target::TargetInfo;

use crate::arguments::Given;
use crate::code;
use crate::dump::{self, Dump, Expect};
use crate::gpu::{Buffer, Gpu, Run};
use crate::{kernargs, paths};

/// Default time limit of a kernel, so that a hanging kernel does not block a script for ever.
const TIMEOUT_SECONDS: &str = "300";

/// Runs one kernel of a code object on the software GPU, once, with checks.
///
/// Prints findings to standard error, and dumps to standard output. The GPU is the one that the code object
/// was compiled for.
#[derive(Parser)]
#[command(
    name = "check-kernel",
    bin_name = "cargo xtask check-kernel",
    after_help = "check-kernel --launches FILE runs several launches on one GPU, in order: each line of the file has \
                  the words of one, `FILE KERNEL --grid … --arg …`. Lines after # are left out; `@NAME` names a buffer \
                  of a launch before.\n\ncheck-kernel --static FILE [KERNEL] looks for missing waits on all paths of \
                  kernels, without running them."
)]
struct One {
    #[command(flatten)]
    launch: Launch,
    #[command(flatten)]
    common: Common,
}

/// Runs the launches that a file lists, in order, on one GPU.
#[derive(Parser)]
#[command(name = "check-kernel", bin_name = "cargo xtask check-kernel")]
struct Several {
    /// File with the words of a launch in each line: `FILE KERNEL --grid … --arg …`
    #[arg(long, value_name = "FILE")]
    launches: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Looks for missing waits and wait states on every path of kernels, without running them.
#[derive(Parser)]
#[command(name = "check-kernel", bin_name = "cargo xtask check-kernel")]
struct Paths {
    /// Looks at all paths, instead of a run
    #[arg(long = "static")]
    _is_static: bool,
    /// Code object, or a file that holds some, as for a run
    file: PathBuf,
    /// Name of the kernel, if it is not all of them
    kernel: Option<String>,
    /// GPU, where a file has code objects for several
    #[arg(long, value_name = "GPU")]
    target: Option<String>,
}

impl Paths {
    /// Returns true if there are no findings.
    fn run(&self) -> Result<bool, String> {
        let in_file = |error: String| format!("{}: {error}", self.file.display());
        let file = fs::read(&self.file).map_err(|error| in_file(error.to_string()))?;
        let codes = code::objects(&file).map_err(in_file)?;
        paths::check(&codes, self.kernel.as_deref(), self.target.as_deref(), say).map_err(in_file)
    }
}

/// A line of a file with launches.
#[derive(Parser)]
#[command(name = "", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    launch: Launch,
}

#[derive(clap::Args)]
struct Launch {
    /// Code object: an ELF file, as `clang --target=amdgcn-amd-amdhsa` makes it (often .hsaco or .co), or a file that
    /// holds some: an executable or a module (.vmfb) of IREE, an uncompressed bundle
    file: PathBuf,
    /// Name of the kernel, as compiled or in C++: `scale`, `ns::scale`, `scale(float*, int)`
    kernel: String,
    /// Number of workgroups (blocks) in each dimension
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    grid: [u32; 3],
    /// Number of work-items (threads) of a workgroup in each dimension
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    block: [u32; 3],
    /// The next argument: `TYPE:VALUE` (i8 to i64, u8 to u64, f16, bf16, f32, f64), `bytes:HEX`, `local:SIZE` (LDS),
    /// `npy:PATH`, or `buffer:SIZE[=CONTENT]`, with zero, iota-f32 (0, 1, 2 …), iota-u32, random-f32 (-1 to 1), random
    /// (bytes), TYPE:NUMBER,NUMBER… (again and again), file:PATH, npy:PATH, or undefined. `@NAME=buffer:…` names a
    /// buffer, and `@NAME[+OFFSET]` is an address in it
    #[arg(long = "arg", value_name = "ARGUMENT")]
    arguments: Vec<Given>,
    /// Bytes of LDS in addition to the kernel's own
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    dynamic_lds: u32,
    /// Bytes of scratch for each work-item, for a kernel whose stack size is unknown to its compiler
    #[arg(long, value_name = "BYTES")]
    stack: Option<u32>,
    /// Prints the buffer that is argument N (counted from 0) after the run, as numbers of a type (`2:f32`), or
    /// writes it to a file (`2=FILE`, `2:f32=FILE.npy`). Uninitialized numbers are printed as `-`, with the check init
    #[arg(long, value_name = "N:TYPE|N=FILE|N:TYPE=FILE")]
    dump: Vec<Dump>,
    /// Compares the buffer that is argument N after the run: with numbers (`2:f32=1,2,3`, again and again), or with a
    /// content of --arg (`2:f32=npy:PATH`). A difference is a finding
    #[arg(long, value_name = "N:TYPE=CONTENT")]
    expect: Vec<Expect>,
    /// Difference that --expect allows for floating-point numbers, times 1 + the size of the expected number
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0)]
    tolerance: f64,
}

#[derive(clap::Args)]
struct Common {
    /// Checks to make: a list of wait, sync, race, equal, hazard, bounds, clamp, init, result, separated by commas;
    /// `all`, which leaves out equal, clamp and result; or `none`
    #[arg(long, value_name = "CHECKS", default_value = "all")]
    check: String,
    /// GPU, where a file has code objects for several
    #[arg(long, value_name = "GPU")]
    target: Option<String>,
    /// Writes a profile of each instruction to a file (.txt, .json or .html), instead of checks
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    profile: Option<PathBuf>,
    /// Traces the run on standard error, instead of checks: `wave`, or `instruction` with the registers that each
    /// changes; `,workgroup=X:Y:Z` and `,wave=N` behind it choose some of them
    #[arg(long, value_name = "DETAIL", conflicts_with_all = ["check", "profile"])]
    trace: Option<String>,
    /// Runs under a debugger, with commands from standard input; `help` lists them. With checks, as without
    #[arg(long, conflicts_with_all = ["profile", "trace", "seed"])]
    debug: bool,
    /// Runs under the debugger, with the commands of a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["debug", "profile", "trace", "seed"])]
    debug_script: Option<PathBuf>,
    /// Runs under the debugger, for an editor that connects to a port of this machine and speaks the Debug Adapter
    /// Protocol. 0 is a free one, which standard error tells
    #[arg(long, value_name = "PORT", conflicts_with_all = ["debug", "debug_script", "profile", "trace", "seed"])]
    dap: Option<u16>,
    /// With the check `wait`: delays some results of memory operations, chosen by this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn sizes(text: &str) -> Result<[u32; 3], String> {
    let mut sizes = [1; 3];
    let given: Vec<&str> = text.split(',').collect();
    if given.len() > 3 {
        return Err("there are three dimensions".into());
    }
    for (size, text) in sizes.iter_mut().zip(given) {
        *size = text.trim().parse().ok().filter(|&size| size > 0).ok_or("expected positive numbers, e.g. 64,1,1")?;
    }
    Ok(sizes)
}

/// Prints a line to standard error. A closed one does not matter: the exit code tells the result, too.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs the program with these words, of which the first is its name. Returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    if words.iter().any(|word| word == "--static") {
        return match Paths::try_parse_from(words) {
            Ok(paths) => conclude(paths.run()),
            Err(error) => {
                let _ = error.print();
                error.exit_code() as u8
            }
        };
    }
    let is_several = words.iter().any(|word| word.to_string_lossy().starts_with("--launches"));
    let parsed = if is_several {
        Several::try_parse_from(words).map(|several| (read(&several.launches), several.common))
    } else {
        One::try_parse_from(words).map(|one| (Ok(vec![one.launch]), one.common))
    };
    let (launches, common) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    conclude(launches.and_then(|launches| run(&launches, &common)))
}

/// Exit code of a run that had no findings, had some, or failed.
fn conclude(result: Result<bool, String>) -> u8 {
    match result {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            say(&format!("error: {error}"));
            3
        }
    }
}

/// Reads a file with launches.
fn read(path: &PathBuf) -> Result<Vec<Launch>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let launches = lines.map(|(index, line)| {
        let words = line.split_whitespace();
        let parsed = Line::try_parse_from(words).map(|line| line.launch);
        parsed.map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))
    });
    let launches = launches.collect::<Result<Vec<_>, _>>()?;
    if launches.is_empty() { Err(format!("{}: no launch", path.display())) } else { Ok(launches) }
}

/// Runs the launches. Returns true if there are no findings.
fn run(launches: &[Launch], common: &Common) -> Result<bool, String> {
    let in_file = |launch: &Launch, error: String| format!("{}: {error}", launch.file.display());
    let files =
        launches.iter().map(|launch| fs::read(&launch.file).map_err(|error| in_file(launch, error.to_string())));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let codes = launches.iter().zip(&files);
    let codes = codes.map(|(launch, file)| code::objects(file).map_err(|error| in_file(launch, error)));
    let codes = codes.collect::<Result<Vec<_>, _>>()?;
    let mut agent: Option<String> = common.target.clone();
    let mut found = Vec::new();
    for (launch, codes) in launches.iter().zip(&codes) {
        let one = code::find(codes, &launch.kernel, agent.as_deref()).map_err(|error| in_file(launch, error))?;
        match &agent {
            None => agent = Some(one.agent.to_owned()),
            Some(agent) if agent != one.agent => {
                return Err(in_file(launch, format!("{} is for {}, not for {agent}", launch.kernel, one.agent)));
            }
            Some(_) => {}
        }
        launch.check(one.kernel)?;
        found.push(one);
    }
    let Some(agent) = agent else { return Err("no launch".into()) };
    set_up(common, &agent);
    let gpu = Gpu::new()?;
    let mut state = State { gpu, named: HashMap::new(), told: 0, loaded: HashMap::new() };
    let mut is_clean = true;
    for (launch, found) in launches.iter().zip(&found) {
        let before = state.findings();
        let fault = state.launch(launch, found, common.checks_result())?;
        let (findings, name) = (state.findings() - before, &found.kernel.name);
        let name = code::demangled(name).unwrap_or_else(|| name.clone());
        say(&match (findings, &fault) {
            (0, None) => match (&common.profile, &common.trace) {
                (Some(file), _) => format!("kernel {name} on {agent}: its profile is {}", file.display()),
                (None, Some(_)) => format!("kernel {name} on {agent}: not checked"),
                (None, None) => format!("kernel {name} on {agent}: nothing found by {}", common.check),
            },
            (1, None) => format!("kernel {name} on {agent}: 1 finding"),
            (_, None) => format!("kernel {name} on {agent}: {findings} findings"),
            (_, Some(_)) => format!("kernel {name} on {agent}: a fault, {findings} findings"),
        });
        is_clean &= findings == 0 && fault.is_none();
        if fault.is_some() {
            break;
        }
    }
    state.gpu.end_debugger();
    Ok(is_clean)
}

/// Sets the sim's variables, before HSA is initialized.
fn set_up(common: &Common, agent: &str) {
    // SAFETY: nothing has started a thread yet.
    unsafe {
        env::set_var("HSA_SIM_AGENTS", agent);
        // Values that the user set for other programs do not apply here.
        env::set_var("HSA_SIM_EXECUTE", "1");
        for other in ["HSA_SIM_CHECK", "HSA_SIM_DEBUG", "HSA_SIM_PROFILE"] {
            env::remove_var(other);
        }
        if common.debug {
            env::set_var("HSA_SIM_DEBUG", "console");
        } else if let Some(port) = common.dap {
            env::set_var("HSA_SIM_DEBUG", format!("dap:{port}"));
        } else if let Some(path) = &common.debug_script {
            let mut script = OsString::from("script:");
            script.push(path);
            env::set_var("HSA_SIM_DEBUG", script);
        }
        match (&common.profile, &common.trace) {
            (Some(file), _) => env::set_var("HSA_SIM_PROFILE", file),
            (None, Some(detail)) => env::set_var("HSA_SIM_TRACE", detail),
            (None, None) if common.check == "none" => {}
            (None, None) => env::set_var("HSA_SIM_CHECK", &common.check),
        }
        if env::var_os("HSA_SIM_TIMEOUT").is_none() {
            env::set_var("HSA_SIM_TIMEOUT", TIMEOUT_SECONDS);
        }
        if let Some(seed) = common.seed {
            env::set_var("HSA_SIM_SEED", seed.to_string());
        }
    }
}

impl Common {
    /// True if uninitialized bytes of results are findings.
    fn checks_result(&self) -> bool {
        self.check.split(',').any(|check| check.trim() == "result")
    }
}

impl Launch {
    /// Checks that the kernel can be launched so.
    fn check(&self, kernel: &Kernel) -> Result<(), String> {
        check_geometry(kernel, self.grid, self.block)?;
        scratch(kernel, self.stack)?;
        kernargs::check(kernel, &self.arguments)?;
        self.dump.iter().try_for_each(|dump| dump::check("--dump", dump.argument, &self.arguments))?;
        self.expect.iter().try_for_each(|expect| dump::check("--expect", expect.argument, &self.arguments))
    }
}

/// The GPU, and the buffers and findings of the launches so far.
struct State {
    gpu: Gpu,
    named: HashMap<String, Buffer>,
    /// Differences and uninitialized results.
    told: u64,
    /// Handles of kernels by the address of their code object and their symbol.
    loaded: HashMap<(usize, String), u64>,
}

impl State {
    fn findings(&self) -> u64 {
        self.gpu.findings() + self.told
    }

    /// Runs a launch and prints its dumps. Returns the text of its fault.
    fn launch(&mut self, launch: &Launch, found: &code::Found, checks_result: bool) -> Result<Option<String>, String> {
        let kernel = found.kernel;
        let mut buffers: Vec<Option<Buffer>> = Vec::new();
        for given in &launch.arguments {
            buffers.push(match given {
                Given::Buffer { name, size, content } => {
                    let buffer = self.gpu.buffer(*size, || content.bytes(*size))?;
                    if let Some(name) = name
                        && self.named.insert(name.clone(), buffer).is_some()
                    {
                        return Err(format!("two buffers are called @{name}"));
                    }
                    Some(buffer)
                }
                Given::Alias { name, offset } => {
                    let buffer = self.named.get(name).ok_or_else(|| format!("no buffer before is called @{name}"))?;
                    if *offset >= buffer.size {
                        return Err(format!("@{name}+{offset}: the buffer has {} bytes", buffer.size));
                    }
                    Some(Buffer { address: buffer.address + *offset as u64, size: buffer.size - offset })
                }
                Given::Value { .. } | Given::Local { .. } => None,
            });
        }
        let (local, dynamic_lds) = kernargs::place_local(kernel, &launch.arguments, launch.dynamic_lds);
        let addresses = buffers.iter().zip(&local);
        let addresses: Vec<_> =
            addresses.map(|(buffer, at)| buffer.map(|buffer| buffer.address).or(at.map(u64::from))).collect();
        let shape = kernargs::Shape { grid: launch.grid, block: launch.block, dynamic_lds };
        let key = (found.bytes.as_ptr().addr(), kernel.symbol.clone());
        let object = match self.loaded.get(&key) {
            Some(object) => *object,
            None => self.gpu.load(found.bytes, &kernel.symbol)?,
        };
        self.loaded.insert(key, object);
        let fault = self.gpu.run(&Run {
            object,
            kernel,
            printf: found.printf,
            scratch: scratch(kernel, launch.stack)?,
            shape: &shape,
            kernargs: |host| kernargs::image(kernel, &launch.arguments, &addresses, &shape, host),
        })?;
        if let Some(text) = &fault {
            say(&format!("fault: {text}"));
            let null = kernargs::null_arguments(kernel);
            if !null.is_empty() {
                say(&format!(
                    "note: the kernel's code uses hidden arguments that are null in this launch: {}",
                    null.join(", ")
                ));
            }
        }
        for dump in &launch.dump {
            if let Some(buffer) = &buffers[dump.argument] {
                dump.write(&self.gpu.read(buffer)?, &self.gpu.unwritten(buffer))?;
            }
        }
        if fault.is_some() {
            return Ok(fault);
        }
        for expect in &launch.expect {
            if let Some(buffer) = &buffers[expect.argument]
                && let Some(text) = expect.differences(&self.gpu.read(buffer)?, launch.tolerance)?
            {
                say(&text);
                self.told += 1;
            }
        }
        let looked_at = launch.dump.iter().map(|dump| dump.argument).chain(launch.expect.iter().map(|it| it.argument));
        let mut looked_at: Vec<_> = looked_at.collect();
        looked_at.sort_unstable();
        looked_at.dedup();
        for argument in looked_at.into_iter().filter(|_| checks_result) {
            if let Some(buffer) = &buffers[argument]
                && let Some(text) = dump::uninitialized(argument, buffer.size, &self.gpu.unwritten(buffer))
            {
                say(&text);
                self.told += 1;
            }
        }
        Ok(None)
    }
}

/// Checks that the kernel can be launched with these dimensions.
///
/// # Errors
/// The limit that they exceed.
pub fn check_geometry(kernel: &Kernel, grid: [u32; 3], block: [u32; 3]) -> Result<(), String> {
    let [x, y, z] = block;
    let items = block.iter().try_fold(1_u64, |items, &size| items.checked_mul(size.into()));
    let most = u64::from(kernel.max_flat_workgroup_size.min(TargetInfo::MAX_WORKGROUP));
    if items.is_none_or(|items| items > most) {
        let items = items.map_or("too many".to_owned(), |items| items.to_string());
        return Err(format!(
            "--block {x},{y},{z} is {items} work-items; {} was compiled for at most {most}",
            kernel.name
        ));
    }
    if let Some([rx, ry, rz]) = kernel.required_workgroup_size.filter(|required| *required != block) {
        return Err(format!("--block {x},{y},{z}: {} was compiled for workgroups of {rx},{ry},{rz}", kernel.name));
    }
    let fits = (0..3).all(|i| grid[i].checked_mul(block[i]).is_some());
    if fits { Ok(()) } else { Err("the grid has more than 2^32 - 1 work-items in a dimension".into()) }
}

/// Bytes of scratch for each work-item. With recursion or calls by pointers, the compiler knows the kernel's own need
/// only (AMDGPUUsage, `.uses_dynamic_stack`).
///
/// # Errors
/// When `stack` is missing, too small, or not for this kernel.
pub fn scratch(kernel: &Kernel, stack: Option<u32>) -> Result<u32, String> {
    let (name, own) = (&kernel.name, kernel.private_segment_size);
    match (kernel.uses_dynamic_stack, stack) {
        (false, None) => Ok(own),
        (false, Some(_)) => Err(format!("--stack: {name} has a stack of {own} bytes, which its compiler knows")),
        (true, None) => Err(format!(
            "{name} has a stack of a size that its compiler does not know (.uses_dynamic_stack), of more than {own} \
             bytes: --stack says how many a work-item has"
        )),
        (true, Some(stack)) if stack < own => Err(format!("--stack {stack}: {name} itself needs {own} bytes")),
        (true, Some(stack)) => Ok(stack),
    }
}
