// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask collectives`: modules with collectives, compiled from StableHLO, run by a process for each rank on the
//! sim and compared with NumPy. The Python program beside this file prints the modules, and the inputs and expected
//! results of each rank; `iree-run-module` compares.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use xtask_core::error::{Context, Error, Result};
use xtask_core::glob;
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::rocm;
use xtask_core::setup;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// Time without output after which a rank hangs. RCCL's start takes half a minute, and two on a busy machine.
const SILENCE: Duration = Duration::from_secs(300);

/// Seconds for which a rank waits for others, less than [`SILENCE`].
const TIMEOUT: &str = "240";

/// GPUs of the sample in `cargo xtask test --all`. Memory of the second one's kind cannot be mapped by the host.
const SAMPLE_TARGETS: [&str; 2] = ["gfx1100", "gfx942:bar=small"];

/// Cases of the sample by MPI, which take the same algorithms.
const MPI_SAMPLE: &str = "mlp";

/// A case with a kernel for gfx1100.
const HIP_MEMORY: &str = "hip_memory";

/// Cases that are tests of the driver's, in the root with RCCL and HIP: a name, the test's file and its function.
const IN_ROOT: [(&str, &str, &str); 4] = [
    ("in_a_row", "collective_processes", "operations_in_a_row_are_ordered"),
    ("communicators", "collective_processes", "communicators_are_ordered_together"),
    ("rank_dies", "collective_processes", "a_process_that_dies_ends_the_others_operations"),
    (HIP_MEMORY, "hip_memory", "hip_and_the_driver_use_each_others_memory"),
];

/// The transport between ranks, and the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// TCP; the ranks are started with PyTorch's variables.
    Tcp,
    /// MPI; the ranks are started by Open MPI's mpirun.
    Mpi,
    /// TCP between ranks that mpirun has started: IREE's MPI provider tells them rank 0's address.
    MpirunTcp,
    /// Debian's RCCL, which the ranks load in the root of `cargo xtask rocm`; each rank has a GPU of its own.
    Rccl,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Mpi => "MPI",
            Self::MpirunTcp => "TCP under mpirun",
            Self::Rccl => "RCCL",
        }
    }
}

/// A case of `cases.py`.
#[derive(Deserialize)]
struct Case {
    name: String,
    module: String,
    /// The flags of each rank.
    ranks: Vec<Vec<String>>,
}

/// Runs the cases that match `filter` on `ranks` ranks.
///
/// # Errors
/// When something cannot be set up or compiled, or no case matches. Failures are counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target, ranks: u32, engine: Engine, filter: &str) -> Result<Tally> {
    match engine {
        Engine::Tcp => (),
        Engine::Mpi | Engine::MpirunTcp => setup::mpi(layout, steps)?,
        Engine::Rccl => rocm::rccl(layout, steps)?,
    }
    let suite = format!("collectives on {target} by {}", engine.name());
    let mut tally = Tally::default();
    let mut in_root = Vec::new();
    for (case, file, test) in IN_ROOT {
        if engine != Engine::Rccl || !glob::matches(filter, case) {
            continue;
        }
        if case == HIP_MEMORY && !target.agents().starts_with("gfx1100") {
            tally.skip(steps, &suite, case, "its kernel is for gfx1100");
            continue;
        }
        let run = |step: &Step| Ok(timed(|| run_in_root(layout, step, target, ranks, file, test)));
        in_root.push((case.to_owned(), steps.step(&format!("The driver's {test} with ROCm"), run)?));
    }
    let name = format!("Collectives of {ranks} ranks on {target} by {}", engine.name());
    let outcomes = steps.step(&name, |step| {
        let mut cases = cases(layout, step, ranks)?;
        cases.retain(|case| glob::matches(filter, &case.name));
        if cases.is_empty() && in_root.is_empty() && tally == Tally::default() {
            return Err(Error::setup(format!("no case of collectives matches {filter}")));
        }
        let folder = layout.build.join(format!("collectives/{ranks}"));
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        let total = cases.len() as u64;
        let mut outcomes = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            step.progress(index as u64, total, &case.name);
            let module = module(layout, step, &folder, target, case)?;
            let runs = |step: &Step| run_case(layout, step, target, engine, &module, case);
            outcomes.push((case.name.clone(), timed(|| runs(step))));
        }
        Ok(outcomes)
    })?;
    for (name, outcome) in outcomes.into_iter().chain(in_root) {
        tally.count(steps, &suite, &name, outcome);
    }
    Ok(tally)
}

/// Runs the sample: all cases by TCP, and one by each way of MPI, which is skipped where Open MPI cannot be installed.
///
/// # Errors
/// As [`run`].
pub fn run_sample(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let mut total = Tally::default();
    let targets: Result<Vec<Target>> = SAMPLE_TARGETS.iter().map(|name| name.parse().map_err(Error::setup)).collect();
    let targets = targets?;
    for target in &targets {
        total += run(layout, steps, target, 4, Engine::Tcp, "*")?;
    }
    if let Err(error) = setup::mpi(layout, steps) {
        println!("  skipped collectives by MPI: {error}");
        total.skipped += 2;
        return Ok(total);
    }
    for engine in [Engine::Mpi, Engine::MpirunTcp] {
        total += run(layout, steps, &targets[0], 4, engine, MPI_SAMPLE)?;
    }
    Ok(total)
}

fn cases(layout: &Layout, step: &Step, ranks: u32) -> Result<Vec<Case>> {
    let mut python = Command::new(layout.venv_program("python3"));
    python.arg("-B").arg(layout.root.join("xtask/src/collectives/cases.py")).arg(ranks.to_string());
    let text = step.capture(python)?;
    serde_json::from_slice(&text).map_err(|error| Error::setup(format!("cases.py: {error}")))
}

/// The compiled module of a case. It is compiled again only when its text has changed.
fn module(layout: &Layout, step: &Step, folder: &Path, target: &Target, case: &Case) -> Result<PathBuf> {
    // The compiled file gets this name too, and stands beside the models' files.
    let ranks = case.ranks.len();
    let source = folder.join(format!("collectives_{ranks}_{}.mlir", case.name));
    if fs::read_to_string(&source).ok().as_deref() != Some(&case.module) {
        fs::write(&source, &case.module).context(|| format!("writing {}", source.display()))?;
    }
    compile(layout, step, &source, Backend::Gpu(target))
}

/// Runs a case; a failure has the last lines of the first rank that fails.
fn run_case(layout: &Layout, step: &Step, target: &Target, engine: Engine, module: &Path, case: &Case) -> Result<()> {
    let commands = if matches!(engine, Engine::Tcp | Engine::Rccl) {
        let port = free_port()?;
        let rank = |(rank, flags): (usize, &Vec<String>)| {
            let mut command = match engine {
                Engine::Rccl => rccl_tool(layout, target, module, flags, case.ranks.len()),
                _ => tool(layout, target, module, flags),
            };
            let variables =
                [("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string()), ("MASTER_PORT", port.clone())];
            command.envs(variables).env("WORLD_SIZE", case.ranks.len().to_string()).env("MASTER_ADDR", "127.0.0.1");
            command
        };
        case.ranks.iter().enumerate().map(rank).collect()
    } else {
        vec![mpirun(layout, target, engine, module, case)]
    };
    let follow = |(rank, command): (usize, Command)| {
        let mut lines = Vec::new();
        let ended = process::follow(command, Some(SILENCE), |line| lines.push(line.to_owned()));
        for line in &lines {
            step.log(&format!("{} rank {rank}: {line}", case.name))?;
        }
        let how = match ended.context(|| "starting a rank".to_owned())? {
            Ended::Exit(status) if status.success() => return Ok(()),
            Ended::Exit(status) => process::describe(status),
            Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
        };
        let tail = lines[lines.len().saturating_sub(5)..].join("\n      ");
        Err(Error::Failed(format!("rank {rank} ended with {how}:\n      {tail}")))
    };
    thread::scope(|scope| {
        let each = |command| scope.spawn(move || follow(command));
        let threads: Vec<_> = commands.into_iter().enumerate().map(each).collect();
        let panicked = || Err(Error::setup("a thread that follows a rank panicked"));
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect();
        results.into_iter().collect()
    })
}

/// Runs a test of the driver's in the root with RCCL. There is a GPU for each rank.
fn run_in_root(layout: &Layout, step: &Step, target: &Target, ranks: u32, file: &str, test: &str) -> Result<()> {
    let mut cargo = layout.cargo();
    cargo.args(["test", "--locked", "--test", file, "--no-run", "--message-format=json"]);
    let messages = step.capture(cargo)?;
    let program = setup::built_library(&String::from_utf8_lossy(&messages), file, "")
        .ok_or_else(|| Error::setup(format!("cargo built no test `{file}`")))?;
    let mut command = rocm::enter(layout, rocm::Hip::V5_7, target, &layout.root);
    command.args([program.as_str(), "--exact", test, "--nocapture"]);
    command.env("AMDGPU_RS_TEST_HSA", layout.sim_library()).env("AMDGPU_RS_TEST_COLLECTIVE_ENGINE", "rccl");
    command.env("AMDGPU_RS_TEST_HIP", "1").env("AMDGPU_RS_TEST_COLLECTIVE_RANKS", ranks.to_string());
    command.env("HSA_SIM_AGENTS", vec![target.agents(); ranks as usize].join(","));
    let mut lines = Vec::new();
    match step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
        Ended::Exit(status) if status.success() => Ok(()),
        Ended::Exit(_) => Err(Error::Failed(lines[lines.len().saturating_sub(20)..].join("\n      "))),
        Ended::Silent { .. } => Err(Error::Failed(format!("no output for {} s, killed", SILENCE.as_secs()))),
    }
}

/// `iree-run-module` for one rank. Its GPU is the one of the rank, where there are several.
fn tool(layout: &Layout, target: &Target, module: &Path, flags: &[String]) -> Command {
    let mut command = layout.command(layout.tool("iree-run-module"));
    command.args(["--device=amdgpu_rs://local", "--function=main"]);
    command.arg(format!("--module={}", module.display())).args(flags);
    command.arg(format!("--amdgpu_rs_collective_timeout={TIMEOUT}"));
    Hsa::Sim.apply(layout, target, &mut command);
    command
}

/// `iree-run-module` for one rank in the root with RCCL. There is a GPU for each rank.
fn rccl_tool(layout: &Layout, target: &Target, module: &Path, flags: &[String], ranks: usize) -> Command {
    let outside = tool(layout, target, module, flags);
    let mut command = rocm::enter(layout, rocm::Hip::V5_7, target, &layout.root);
    command.arg(outside.get_program()).args(outside.get_args());
    command.arg("--amdgpu_rs_collective_engine=rccl");
    command.envs(outside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("HSA_SIM_AGENTS", vec![target.agents(); ranks].join(","));
    command
}

/// Open MPI's launcher with the ranks of a case.
fn mpirun(layout: &Layout, target: &Target, engine: Engine, module: &Path, case: &Case) -> Command {
    let mut command = layout.command(layout.venv_program("mpirun"));
    command.args(["--oversubscribe", "--bind-to", "none"]);
    for (rank, flags) in case.ranks.iter().enumerate() {
        let one = tool(layout, target, module, flags);
        if rank > 0 {
            command.arg(":");
        }
        command.args(["-n", "1"]).arg(one.get_program()).args(one.get_args());
        let engine = if engine == Engine::Mpi { "mpi" } else { "tcp" };
        command.arg(format!("--amdgpu_rs_collective_engine={engine}"));
    }
    Hsa::Sim.apply(layout, target, &mut command);
    // Where IREE looks for `libmpi.so`.
    command.env("LD_LIBRARY_PATH", layout.build.join("venv/lib")).env("OMPI_MPI_THREAD_LEVEL", "3");
    // Containers run as root.
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command
}

/// A port that nothing listens at.
///
/// # Errors
/// When the system has none.
pub fn free_port() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port().to_string()).context(|| "finding a free port".to_owned())
}
