// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --hip`: host CPU time of calls of a compiled function by this driver, and by IREE's HIP driver of
//! PyPI's runtime with Debian's HIP. Both run in `iree-benchmark-module`, on the sim, which consumes packets without
//! running kernels.
//!
//! CPU time is that of all threads but the sim's, found by their names. A short and a long run of the tool give the
//! time of a call: starting costs the same in both.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{self, Backend};
use xtask_core::layout::Layout;
use xtask_core::process;
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

use super::programs::{MODELS, chain};

/// Calls in a short and in a long run, times dispatches in a call.
const DISPATCHES: [u32; 2] = [8_000, 88_000];
/// Interval between readings of the threads' CPU times. Time that a process uses after the last reading is not counted.
const LOOK: Duration = Duration::from_millis(5);

/// Measures and prints a table. Set-up must have built the tools and installed HIP's runtime.
///
/// # Errors
/// When a compiler or a tool fails.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<()> {
    println!("{:10} {:>16} {:>16} {:>8}", "us a call", "this driver", "HIP driver", "ratio");
    for dispatches in MODELS {
        let name = format!("model/{dispatches}");
        let [ours, hip] = steps.step(&name, |step| {
            let source = layout.of_compiler("bench").join(format!("called-{dispatches}.mlir"));
            let folder = layout.of_compiler("bench");
            fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
            fs::write(&source, chain(dispatches)).context(|| format!("writing {}", source.display()))?;
            let call = |backend| call_time(layout, step, backend, &source, dispatches);
            Ok([call(Backend::Gpu(target))?, call(Backend::HipDriver(target))?])
        })?;
        println!("{name:10} {ours:16.0} {hip:16.0} {:8.2}", ours / hip);
    }
    Ok(())
}

/// CPU microseconds of a call.
fn call_time(layout: &Layout, step: &Step, backend: Backend, source: &Path, dispatches: u32) -> Result<f64> {
    let module = iree::compile(layout, step, source, backend)?;
    let calls = DISPATCHES.map(|all| all / dispatches);
    let [short, long] = calls.map(|calls| {
        let mut command = iree::benchmark_command(layout, backend)?;
        if let Backend::Gpu(target) = backend {
            Hsa::Sim.apply(layout, target, &mut command);
        }
        command.env("HSA_SIM_EXECUTE", "0").arg(format!("--module={}", module.display())).args([
            "--function=chain",
            "--input=64x64xf32=1",
            "--input=64x64xf32=1",
            &format!("--benchmark_min_time={calls}x"),
        ]);
        cpu_time(command)
    });
    Ok((long? - short?) / f64::from(calls[1] - calls[0]) / 1000.0)
}

/// Runs a command, and returns the CPU nanoseconds of its threads but the sim's.
fn cpu_time(mut command: Command) -> Result<f64> {
    let shown = process::display(&command);
    let running = || format!("running `{shown}`");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context(running)?;
    let mut threads = BTreeMap::new();
    let status = loop {
        if let Some(status) = child.try_wait().context(running)? {
            break status;
        }
        look(Path::new(&format!("/proc/{}/task", child.id())), &mut threads);
        thread::sleep(LOOK);
    };
    if status.success() {
        Ok(threads.values().sum::<u64>() as f64)
    } else {
        Err(Error::Failed(format!("`{shown}` ended with {}", process::describe(status))))
    }
}

/// Updates the CPU nanoseconds of threads, by their number.
fn look(folder: &Path, threads: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let time = read("schedstat").split(' ').next().and_then(|time| time.parse().ok());
        if let Some(time) = time.filter(|_| !read("comm").starts_with("hsa-sim")) {
            threads.insert(entry.file_name().to_string_lossy().into_owned(), time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_sim_are_left_out() {
        let folder = std::env::temp_dir().join(format!("bench-threads-{}", std::process::id()));
        let mut threads = BTreeMap::new();
        for (id, name, time) in
            [("7", "main\n", "30 1 2\n"), ("8", "hsa-sim-q1\n", "500 1 2\n"), ("7", "main\n", "40 1 2\n")]
        {
            let thread = folder.join(id);
            fs::create_dir_all(&thread).unwrap();
            fs::write(thread.join("comm"), name).unwrap();
            fs::write(thread.join("schedstat"), time).unwrap();
            look(&folder, &mut threads);
        }
        assert_eq!(threads, BTreeMap::from([("7".to_owned(), 40)]));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_command_that_fails_has_no_time() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        assert!(cpu_time(command).unwrap_err().to_string().contains("exit code 3"));
    }
}
