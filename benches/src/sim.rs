// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --sim`: the CPU time of kernels on the sim, beside IREE's CPU backend with the same model on the
//! same machine. Both run on one thread.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, is_newer};
use xtask_core::junit::Verdict;
use xtask_core::layout::Layout;
use xtask_core::process;
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// GPUs of the table: one without matrix cores for f32, one with.
const TARGETS: [&str; 2] = ["gfx1100", "gfx942"];

/// A model of `benches/sim`.
struct Row {
    name: &'static str,
    file: &'static str,
    inputs: &'static [&'static str],
    /// Highest ratios to the CPU backend that the guard allows, on each of [`TARGETS`], with compiled code and by the
    /// interpreter: [`MARGIN`] times those measured.
    bounds: Option<[[f64; 2]; 2]>,
}

/// Allowed growth of a ratio: other processors, and other processes on this one, change ratios by up to a half.
const MARGIN: f64 = 1.6;

const ROWS: [Row; 5] = [
    Row {
        name: "matmul f32 512³",
        file: "matmul-f32",
        inputs: &["512x512xf32=0.5", "512x512xf32=0.25"],
        bounds: Some([[8.4, 58.0], [3.9, 12.0]]),
    },
    Row {
        name: "matmul f16 512³",
        file: "matmul-f16",
        inputs: &["512x512xf16=0.5", "512x512xf16=0.25"],
        bounds: Some([[4.2, 19.0], [2.6, 7.4]]),
    },
    Row {
        name: "convolution 3×3, 56×56×64, NHWC",
        file: "convolution",
        inputs: &["1x58x58x64xf32=0.5", "3x3x64x64xf32=0.25"],
        bounds: Some([[22.0, 184.0], [5.4, 22.0]]),
    },
    Row {
        name: "multiply-add of 1 M",
        file: "multiply-add",
        inputs: &["1048576xf32=0.5", "1048576xf32=0.25", "1048576xf32=1.5"],
        bounds: Some([[13.0, 23.0], [12.0, 22.0]]),
    },
    Row { name: "BERT-base layer, 128 tokens, f32", file: "bert-layer", inputs: &BERT, bounds: None },
];

/// Arguments of the layer: tokens, then weights and biases.
const BERT: [&str; 17] = [
    "128x768xf32=0.03",
    "768x768xf32=0.03",
    "768x768xf32=0.03",
    "768x768xf32=0.03",
    "768x768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
    "768x3072xf32=0.03",
    "3072xf32=0.03",
    "3072x768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
    "768xf32=0.03",
];

/// Milliseconds of the CPU backend, and of each target: with compiled code, and by the interpreter.
type Times = (f64, [[f64; 2]; 2]);

/// Measures all rows, and prints the table.
///
/// # Errors
/// When a model does not compile or run.
pub fn run(layout: &Layout, steps: &Steps, repeat: u32) -> Result<()> {
    let mut text =
        format!("{}, one thread; milliseconds of CPU time, the least of {repeat}\n\n| model | llvm-cpu |", processor());
    let columns: String =
        TARGETS.iter().map(|target| format!(" {target} | times llvm-cpu | interpreter | times |")).collect();
    let _ = writeln!(text, "{columns}\n|{}", "---|".repeat(10));
    for row in &ROWS {
        let (cpu, sims) = steps.step(row.name, |step| measure(layout, step, row, repeat))?;
        let cells: String = sims.as_flattened().iter().map(|sim| format!(" {sim:.1} | {:.1} |", sim / cpu)).collect();
        let _ = writeln!(text, "| {} | {cpu:.2} |{cells}", row.name);
    }
    print!("{text}");
    Ok(())
}

/// Fails if a ratio of a row that has bounds is above them.
///
/// # Errors
/// When a model does not compile or run.
pub fn guard(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let mut tally = Tally::default();
    for row in &ROWS {
        let Some(bounds) = row.bounds else { continue };
        let (cpu, sims) = steps.step(row.name, |step| measure(layout, step, row, 5))?;
        let ways = TARGETS.iter().flat_map(|target| [(target, "compiled"), (target, "interpreted")]);
        for (((target, way), sim), bound) in ways.zip(sims.as_flattened()).zip(bounds.as_flattened()) {
            // Without AVX-512 little is compiled, while the CPU backend has AVX2.
            if way == "compiled" && !has_avx512() {
                continue;
            }
            let (name, ratio) = (format!("{} on {target}, {way}", row.name), sim / cpu);
            let verdict = if ratio <= *bound {
                tally.passed += 1;
                Verdict::Passed
            } else {
                tally.failed += 1;
                let why = format!(
                    "{ratio:.1} times the CPU backend's time, at most {bound:.1} is allowed ({:.1} was measured)",
                    bound / MARGIN
                );
                println!("  FAILED  {name}: {why}");
                Verdict::Failed(why)
            };
            steps.record("speed of the sim", &name, verdict, None);
        }
    }
    println!("  {tally}");
    Ok(tally)
}

/// True if kernels are compiled by default on this machine.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn measure(layout: &Layout, step: &Step, row: &Row, repeat: u32) -> Result<Times> {
    let cpu = time(layout, step, row, None, repeat)?;
    let mut sims = [[0.0; 2]; 2];
    for (name, sim) in TARGETS.iter().zip(&mut sims) {
        let target = name.parse().map_err(Error::setup)?;
        for (time_of, jit) in sim.iter_mut().zip(["1", "0"]) {
            *time_of = time(layout, step, row, Some((&target, jit)), repeat)?;
        }
    }
    Ok((cpu, sims))
}

/// The least CPU time of the calls of a model, in milliseconds, on a target with a value of `HSA_SIM_JIT`, or by the
/// CPU backend.
fn time(layout: &Layout, step: &Step, row: &Row, target: Option<(&Target, &str)>, repeat: u32) -> Result<f64> {
    let backend = target.map_or(Backend::Cpu, |(target, _)| Backend::Gpu(target));
    let module = compile(layout, step, row, backend)?;
    let mut command = layout.command(layout.tool("iree-benchmark-module"));
    command.arg(format!("--device={}", backend.device())).arg(format!("--module={}", module.display()));
    command.args(["--function=main", "--benchmark_min_time=1x", "--benchmark_format=csv"]);
    command.arg(format!("--benchmark_repetitions={repeat}"));
    command.args(row.inputs.iter().map(|input| format!("--input={input}")));
    if let Some((target, jit)) = target {
        Hsa::Sim.apply(layout, target, &mut command);
        command.env("HSA_SIM_THREADS", "1").env("HSA_SIM_JIT", jit);
    }
    let shown = process::display(&command);
    let output = step.capture(command)?;
    least(&String::from_utf8_lossy(&output)).ok_or_else(|| Error::Failed(format!("`{shown}` printed no times")))
}

/// The least CPU time in the benchmark's table, in milliseconds: the fourth column, whose unit is the fifth.
fn least(table: &str) -> Option<f64> {
    let times = table.lines().filter_map(|line| {
        let mut columns = line.split(',');
        let name = columns.next()?;
        let time: f64 = columns.nth(2)?.parse().ok()?;
        let scale = match columns.next()? {
            "ns" => 1e-6,
            "us" => 1e-3,
            "ms" => 1.0,
            _ => return None,
        };
        // Means and the like follow.
        name.trim_matches('"').ends_with("real_time").then_some(time * scale)
    });
    times.min_by(f64::total_cmp)
}

/// Compiles a model, if it is new; for the CPU with all that this processor has.
fn compile(layout: &Layout, step: &Step, row: &Row, backend: Backend) -> Result<PathBuf> {
    let source = layout.root.join("benches/sim").join(row.file).with_extension("mlir");
    let folder = layout.of_compiler("bench").join("sim");
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let of = match backend {
        Backend::Gpu(target) => target.to_string(),
        _ => "cpu".to_owned(),
    };
    let module = folder.join(format!("{}-{of}.vmfb", row.file));
    let compiler = layout.host_tool("iree-compile");
    if !is_newer(&module, &[&source, &compiler]) {
        let mut command = Command::new(compiler);
        let flags = backend.flags().into_iter();
        command.args(flags.map(|flag| flag.replace("target-cpu=generic", "target-cpu=host")));
        command.arg(&source).arg("-o").arg(&module);
        step.run(command)?;
    }
    Ok(module)
}

/// Name of this machine's processor.
fn processor() -> String {
    let info = fs::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "an unknown processor".to_owned(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_of_the_table_is_taken() {
        let table = "name,iterations,real_time,cpu_time,time_unit,a\n\
            \"BM_main/process_time/real_time\",1,9.5,2500,us,\n\
            \"BM_main/process_time/real_time\",1,1.5,3,ms,\n\
            \"BM_main/process_time/real_time_mean\",2,1,1,ms,\n";
        assert_eq!(least(table), Some(2.5));
        assert_eq!(least("name,iterations\n"), None);
    }
}
