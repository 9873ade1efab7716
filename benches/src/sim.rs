// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --sim`: the CPU time of kernels on the sim, beside IREE's CPU backend with the same model on the
//! same machine. Both run on one thread.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::results::{self, Origin, Sim, SimCase, SimRun, SimTimes};
use super::{pages, record};
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
pub const TARGETS: [&str; 2] = ["gfx1100", "gfx942"];

/// A model of `benches/sim`.
struct Row {
    name: &'static str,
    file: &'static str,
    inputs: &'static [&'static str],
    /// True if the guard measures the model.
    is_guarded: bool,
}

/// Allowed growth of a time and of its multiple of the CPU backend's beyond the checked-in results. Other processes on
/// the machine change both by up to a half.
const MARGIN: f64 = 1.6;

/// Processes that call a model. Pages and their order differ between processes: the CPU backend's matrix product of f32
/// takes 2.7 ms in some and 4.1 ms in others, with 100 calls in each.
const PROCESSES: u32 = 3;

const ROWS: [Row; 14] = [
    Row::guarded("matmul f32 512³", "matmul-f32", &["512x512xf32=0.5", "512x512xf32=0.25"]),
    Row::guarded("matmul f16 512³", "matmul-f16", &["512x512xf16=0.5", "512x512xf16=0.25"]),
    Row::guarded("convolution 3×3, 56×56×64, NHWC", "convolution", &["1x58x58x64xf32=0.5", "3x3x64x64xf32=0.25"]),
    Row::guarded("multiply-add of 1 M", "multiply-add", &["1048576xf32=0.5", "1048576xf32=0.25", "1048576xf32=1.5"]),
    Row::new("BERT-base layer, 128 tokens, f32", "bert-layer", &BERT),
    Row::new("matmul i8 512³", "matmul-i8", &["512x512xi8=3", "512x512xi8=-5"]),
    Row::new("softmax, 1024 rows of 1024", "softmax", &["1024x1024xf32=0.5"]),
    Row::new("layer norm, 1024 rows of 768", "layer-norm", &["1024x768xf32=0.5", "768xf32=2", "768xf32=1"]),
    Row::new(
        "attention, 12 heads, 256×64, f16",
        "attention",
        &["12x256x64xf16=0.5", "12x256x64xf16=0.25", "12x256x64xf16=1.5"],
    ),
    Row::new("depthwise 3×3, 56×56×128, NHWC", "depthwise", &["1x58x58x128xf32=0.5", "3x3x128xf32=0.25"]),
    Row::new("sums of 1024 rows of 1024", "reduction", &["1024x1024xf32=0.5"]),
    Row::new("decode: vector by 2048×2048, f16", "decode", &["1x2048xf16=0.5", "2048x2048xf16=0.25"]),
    Row::new("start of waves: negate 4 M", "negate", &["4194304xf32=0.5"]),
    Row::new("tiny: add 16", "tiny", &["16xf32=0.5"]),
];

impl Row {
    const fn new(name: &'static str, file: &'static str, inputs: &'static [&'static str]) -> Self {
        Self { name, file, inputs, is_guarded: false }
    }

    const fn guarded(name: &'static str, file: &'static str, inputs: &'static [&'static str]) -> Self {
        Self { name, file, inputs, is_guarded: true }
    }
}

/// Arguments of the layer: tokens, then weights and biases.
pub(crate) const BERT: [&str; 17] = [
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

/// The value of `HSA_SIM_JIT` for compiled code: for AVX2 on all processors, or for what this one has.
pub(crate) fn compiled(for_avx2: bool) -> &'static str {
    if for_avx2 { "1,avx2" } else { "1" }
}

/// Measures all rows, and prints the table: `for_avx2` with code for AVX2 on all processors. With `writes` it also
/// writes them to the results and into the pages.
///
/// # Errors
/// When a model does not compile or run.
pub fn run(layout: &Layout, steps: &Steps, repeat: u32, for_avx2: bool, writes: bool) -> Result<()> {
    let origin = Origin::now(layout, steps)?;
    let cases = ROWS.iter().map(|row| steps.step(row.name, |step| measure(layout, step, row, repeat, for_avx2)));
    let run = SimRun { origin, case: cases.collect::<Result<_>>()? };
    let jit = compiled(for_avx2);
    println!(
        "HSA_SIM_JIT={jit}, one thread; CPU milliseconds, the least of {repeat} in each of {PROCESSES} processes, with times llvm-cpu in brackets\n"
    );
    print!("{}", pages::latest(&run));
    if writes {
        let mut sim: Sim = results::read(&layout.root, results::SIM)?;
        sim.add(run);
        results::write(&layout.root, results::SIM, &sim.text())?;
        record::report(layout)?;
    }
    Ok(())
}

/// Fails if a guarded row is slower than in the checked-in results by more than `MARGIN` times, both in CPU time and in
/// multiples of the CPU backend's time. Time alone fails on a slower processor. Multiples alone fail where the CPU
/// backend gains more from the processor than the simulator does. The worst value of the latest run on each processor
/// counts.
///
/// # Errors
/// When a model does not compile or run, or the results lack it.
pub fn guard(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let results: Sim = results::read(&layout.root, results::SIM)?;
    let mut tally = Tally::default();
    for row in ROWS.iter().filter(|row| row.is_guarded) {
        let known = results.latest_by_processor().flat_map(|run| &run.case).filter(|case| case.model == row.name);
        let known: Vec<_> = known.map(ways).collect();
        let now = ways(&steps.step(row.name, |step| measure(layout, step, row, 5, false))?);
        for (index, (way, cost)) in now.into_iter().enumerate() {
            // The results are of code for AVX-512.
            if way.ends_with("compiled") && !has_avx512() {
                continue;
            }
            let name = format!("{} on {way}", row.name);
            let before = known.iter().filter_map(|ways| ways[index].1).reduce(Cost::worst);
            let (Some(cost), Some(before)) = (cost, before) else {
                return Err(Error::setup(format!("{} has no model {}", results::SIM, row.name)));
            };
            let verdict = if cost.growth(before) <= MARGIN {
                tally.passed += 1;
                Verdict::Passed
            } else {
                tally.failed += 1;
                let why = format!(
                    "{cost}, each more than {MARGIN} times that of {}: {before}. Find the slower instructions with a \
                     profile, or write new results with `cargo xtask bench --sim --write`",
                    results::SIM
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

/// Cost of a model on the simulator.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// CPU milliseconds.
    time: f64,
    /// Multiple of the CPU backend's time.
    ratio: f64,
}

impl Cost {
    /// The larger time and the larger multiple of two.
    fn worst(self, other: Self) -> Self {
        Self { time: self.time.max(other.time), ratio: self.ratio.max(other.ratio) }
    }

    /// The factor by which both the time and the multiple exceed another cost's.
    fn growth(self, before: Self) -> f64 {
        (self.time / before.time).min(self.ratio / before.ratio)
    }
}

impl Display for Cost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ms and {:.1} times the CPU backend's time", self.time, self.ratio)
    }
}

/// Costs of a model's ways to run, with their names.
fn ways(case: &SimCase) -> [(&'static str, Option<Cost>); 4] {
    let of = |time: Option<f64>| Some(Cost { time: time?, ratio: time? / case.llvm_cpu? });
    [
        ("gfx1100, interpreted", of(case.gfx1100.interpreted)),
        ("gfx1100, compiled", of(case.gfx1100.compiled)),
        ("gfx942, interpreted", of(case.gfx942.interpreted)),
        ("gfx942, compiled", of(case.gfx942.compiled)),
    ]
}

/// True if kernels are compiled for AVX-512 on this machine.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn measure(layout: &Layout, step: &Step, row: &Row, repeat: u32, for_avx2: bool) -> Result<SimCase> {
    let source = layout.root.join("benches/sim").join(row.file).with_extension("mlir");
    let call = |module| Call { module, function: "main", inputs: row.inputs.iter().map(|&of| of.to_owned()).collect() };
    let on_cpu = call(compile(layout, step, &source, Backend::Cpu)?);
    let time_of = |call: &Call<'_>, target: Option<(&Target, &str)>| -> Result<Option<f64>> {
        let times = (0..PROCESSES).map(|_| time(layout, step, call, target, repeat)).collect::<Result<Vec<_>>>()?;
        Ok(times.into_iter().reduce(f64::min))
    };
    let llvm_cpu = time_of(&on_cpu, None)?;
    let [gfx1100, gfx942] = TARGETS.map(|name| {
        let target = name.parse().map_err(Error::setup)?;
        let call = call(compile(layout, step, &source, Backend::Gpu(&target))?);
        let of = |jit| time_of(&call, Some((&target, jit)));
        Ok(SimTimes { interpreted: of("0")?, compiled: of(compiled(for_avx2))? })
    });
    Ok(SimCase { model: row.name.to_owned(), llvm_cpu, gfx1100: gfx1100?, gfx942: gfx942? })
}

/// A call of a compiled model.
pub struct Call<'a> {
    /// The module.
    pub module: PathBuf,
    /// Name of the function.
    pub function: &'a str,
    /// Values of `--input`.
    pub inputs: Vec<String>,
}

/// The least CPU time of a number of calls, in milliseconds, on a target with a value of `HSA_SIM_JIT`, or by the CPU
/// backend.
///
/// # Errors
/// When the model does not run.
pub fn time(
    layout: &Layout,
    step: &Step,
    call: &Call<'_>,
    target: Option<(&Target, &str)>,
    repeat: u32,
) -> Result<f64> {
    let backend = target.map_or(Backend::Cpu, |(target, _)| Backend::Gpu(target));
    let Call { module, function, inputs } = call;
    let mut command = layout.command(layout.tool("iree-benchmark-module"));
    command.arg(format!("--device={}", backend.device())).arg(format!("--module={}", module.display()));
    command.args(["--benchmark_min_time=1x", "--benchmark_format=csv"]);
    command.args([format!("--function={function}"), format!("--benchmark_repetitions={repeat}")]);
    command.args(inputs.iter().map(|input| format!("--input={input}")));
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

/// Flags of the compiler: for the CPU with all that this processor has.
pub fn flags(backend: Backend) -> Vec<String> {
    backend.flags().iter().map(|flag| flag.replace("target-cpu=generic", "target-cpu=host")).collect()
}

/// Compiles a model, if it is new.
pub(crate) fn compile(layout: &Layout, step: &Step, source: &Path, backend: Backend) -> Result<PathBuf> {
    let folder = layout.of_compiler("bench").join("sim");
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let of = match backend {
        Backend::Gpu(target) => target.to_string(),
        _ => "cpu".to_owned(),
    };
    let name = source.file_stem().unwrap_or_default().display();
    let module = folder.join(format!("{name}-{of}.vmfb"));
    let compiler = layout.host_tool("iree-compile");
    if !is_newer(&module, &[source, &compiler]) {
        let mut command = Command::new(compiler);
        command.args(flags(backend)).arg(source).arg("-o").arg(&module);
        step.run(command)?;
    }
    Ok(module)
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

    #[test]
    fn a_cost_grows_by_the_lesser_of_its_time_and_its_multiple() {
        let before = Cost { time: 10.0, ratio: 5.0 };
        let slower_machine = Cost { time: 30.0, ratio: 5.0 };
        assert_eq!(slower_machine.growth(before), 1.0);
        let quicker_backend = Cost { time: 10.0, ratio: 15.0 };
        assert_eq!(quicker_backend.growth(before), 1.0);
        let slower_simulator = Cost { time: 20.0, ratio: 10.0 };
        assert_eq!(slower_simulator.growth(before), 2.0);
    }
}
