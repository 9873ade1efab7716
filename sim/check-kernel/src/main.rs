// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs one kernel of a code object on the software GPU, once, with checks: a tool for authors of kernels and of
//! compilers. `docs/sim/checks.md` shows its use.
//!
//! Exit codes: 0 no findings; 1 findings, or a fault of the kernel; 2 wrong usage; 3 the kernel could not run, or the
//! arguments do not fit it.

mod arguments;
mod dump;
mod gpu;
mod kernargs;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use amdgpu_code_object::{CodeObject, Kernel, Processor, TargetId};
use clap::Parser;
use hsa_runtime64::machine::target::{self, TargetInfo};

use arguments::Given;
use dump::Dump;
use gpu::{Gpu, Run};

/// Default time limit of the kernel, so that a hanging kernel does not block a script for ever.
const TIMEOUT_SECONDS: &str = "300";

/// Runs one kernel of a code object on the software GPU, once, with checks.
///
/// Prints findings to standard error, and dumps to standard output. The GPU is the one that the code object
/// was compiled for.
#[derive(Parser)]
#[command(name = "check-kernel", bin_name = "cargo xtask check-kernel")]
struct Options {
    /// Code object: an ELF file, as `clang --target=amdgcn-amd-amdhsa` makes it (often .hsaco or .co)
    file: PathBuf,
    /// Name of the kernel
    kernel: String,
    /// Number of workgroups (blocks) in each dimension
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    grid: [u32; 3],
    /// Number of work-items (threads) of a workgroup in each dimension
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    block: [u32; 3],
    /// The next argument: `TYPE:VALUE` (i8 to i64, u8 to u64, f32, f64), `bytes:HEX`, or `buffer:SIZE[=CONTENT]`, with
    /// zero, iota-f32 (0, 1, 2 …), iota-u32, random-f32 (-1 to 1), random (bytes), file:PATH, or undefined
    #[arg(long = "arg", value_name = "ARGUMENT")]
    arguments: Vec<Given>,
    /// Bytes of LDS in addition to the kernel's own
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    dynamic_lds: u32,
    /// Bytes of scratch for each work-item, for a kernel whose stack size is unknown to its compiler
    #[arg(long, value_name = "BYTES")]
    stack: Option<u32>,
    /// Checks to make: a list of wait, sync, race, equal, hazard, bounds, clamp, init, result, separated by commas, or
    /// `all`, which leaves out equal, clamp and result
    #[arg(long, value_name = "CHECKS", default_value = "all")]
    check: String,
    /// Writes a profile of each instruction to a file (.txt, .json or .html), instead of checks
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    profile: Option<PathBuf>,
    /// Traces the run on standard error, instead of checks: `wave`, or `instruction` with the registers that each
    /// changes
    #[arg(long, value_name = "DETAIL", conflicts_with_all = ["check", "profile"])]
    trace: Option<String>,
    /// With the check `wait`: delays some results of memory operations, chosen by this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Prints the buffer that is argument N (counted from 0) after the run, as numbers of a type (`2:f32`), or
    /// writes it to a file (`2=FILE`)
    #[arg(long, value_name = "N:TYPE|N=FILE")]
    dump: Vec<Dump>,
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

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

/// Runs the kernel. Returns true if there are no findings.
fn run(options: &Options) -> Result<bool, String> {
    let bytes = fs::read(&options.file).map_err(|error| format!("{}: {error}", options.file.display()))?;
    let in_file = |error: String| format!("{}: {error}", options.file.display());
    if bytes.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") || bytes.starts_with(b"CCOB") {
        let what = "a bundle of code objects; `clang-offload-bundler --unbundle` takes one out, and \
                    `--no-gpu-bundle-output` makes none";
        return Err(in_file(what.into()));
    }
    let code = CodeObject::parse(&bytes).map_err(|error| in_file(error.to_string()))?;
    let metadata = code.metadata().map_err(|error| in_file(error.to_string()))?;
    let known = |kernel: &&Kernel| kernel.name == options.kernel || kernel.symbol == options.kernel;
    let kernel = metadata.kernels.iter().find(known).ok_or_else(|| {
        let names: Vec<_> = metadata.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        in_file(format!("no kernel {}; there are: {}", options.kernel, names.join(", ")))
    })?;
    check_geometry(kernel, options)?;
    let scratch = scratch(kernel, options.stack)?;
    kernargs::check(kernel, &options.arguments)?;
    for dump in &options.dump {
        dump.check(&options.arguments)?;
    }
    let agent = agent_for(&code.target)?;
    // SAFETY: nothing has started a thread yet.
    unsafe {
        env::set_var("HSA_SIM_AGENTS", &agent);
        // What these say to others is not meant here.
        env::set_var("HSA_SIM_EXECUTE", "1");
        for other in ["HSA_SIM_CHECK", "HSA_SIM_PROFILE"] {
            env::remove_var(other);
        }
        match (&options.profile, &options.trace) {
            (Some(file), _) => env::set_var("HSA_SIM_PROFILE", file),
            (None, Some(detail)) => env::set_var("HSA_SIM_TRACE", detail),
            (None, None) => env::set_var("HSA_SIM_CHECK", &options.check),
        }
        if env::var_os("HSA_SIM_TIMEOUT").is_none() {
            env::set_var("HSA_SIM_TIMEOUT", TIMEOUT_SECONDS);
        }
        if let Some(seed) = options.seed {
            env::set_var("HSA_SIM_SEED", seed.to_string());
        }
    }
    let gpu = Gpu::new()?;
    let buffers = options.arguments.iter().map(|given| match given {
        Given::Buffer { size, content } => gpu.buffer(*size, || content.bytes(*size)).map(Some),
        Given::Value { .. } => Ok(None),
    });
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<_> = buffers.iter().map(|buffer| buffer.as_ref().map(|buffer| buffer.address)).collect();
    let shape = kernargs::Shape { grid: options.grid, block: options.block, dynamic_lds: options.dynamic_lds };
    let fault = gpu.run(&Run {
        code: &bytes,
        kernel,
        scratch,
        shape: &shape,
        kernargs: |queue| kernargs::image(kernel, &options.arguments, &addresses, &shape, queue),
    })?;
    if let Some(text) = &fault {
        eprintln!("fault: {text}");
    }
    for dump in &options.dump {
        if let Some(buffer) = &buffers[dump.argument] {
            dump.write(&gpu.read(buffer)?)?;
        }
    }
    let findings = gpu.findings();
    let name = &kernel.name;
    match (findings, &fault) {
        (0, None) => match (&options.profile, &options.trace) {
            (Some(file), _) => eprintln!("kernel {name} on {agent}: its profile is {}", file.display()),
            (None, Some(_)) => eprintln!("kernel {name} on {agent}: not checked"),
            (None, None) => eprintln!("kernel {name} on {agent}: nothing found by {}", options.check),
        },
        (1, None) => eprintln!("kernel {name} on {agent}: 1 finding"),
        (_, None) => eprintln!("kernel {name} on {agent}: {findings} findings"),
        (_, Some(_)) => eprintln!("kernel {name} on {agent}: a fault, {findings} findings"),
    }
    Ok(findings == 0 && fault.is_none())
}

/// Checks that the kernel can be launched with these dimensions.
fn check_geometry(kernel: &Kernel, options: &Options) -> Result<(), String> {
    let [x, y, z] = options.block;
    let items = options.block.iter().try_fold(1_u64, |items, &size| items.checked_mul(size.into()));
    let most = u64::from(kernel.max_flat_workgroup_size.min(TargetInfo::MAX_WORKGROUP));
    if items.is_none_or(|items| items > most) {
        let items = items.map_or("too many".to_owned(), |items| items.to_string());
        return Err(format!(
            "--block {x},{y},{z} is {items} work-items; {} was compiled for at most {most}",
            kernel.name
        ));
    }
    if let Some([rx, ry, rz]) = kernel.required_workgroup_size.filter(|required| *required != options.block) {
        return Err(format!("--block {x},{y},{z}: {} was compiled for workgroups of {rx},{ry},{rz}", kernel.name));
    }
    let fits = (0..3).all(|i| options.grid[i].checked_mul(options.block[i]).is_some());
    if fits { Ok(()) } else { Err("the grid has more than 2^32 - 1 work-items in a dimension".into()) }
}

/// Bytes of scratch for each work-item. With recursion or calls by pointers, the compiler knows the kernel's own need
/// only (AMDGPUUsage, `.uses_dynamic_stack`).
fn scratch(kernel: &Kernel, stack: Option<u32>) -> Result<u32, String> {
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

/// Value of `HSA_SIM_AGENTS` for a GPU of the sim that runs code for `target`.
fn agent_for(target: &TargetId) -> Result<String, String> {
    let runs = |name: &&str| {
        let Ok(processor) = name.parse::<Processor>() else { return false };
        let generic = TargetId::new(processor).generic().map(|generic| generic.processor);
        processor == target.processor || generic == Some(target.processor)
    };
    let names = target::names();
    names.split(", ").find(runs).map(str::to_owned).ok_or_else(|| {
        format!("the code object is for {}, which the sim does not play; it plays {names}", target.processor)
    })
}
