// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Checked-in results of `cargo xtask bench --write` and `--sim --write`: the files of `benches/results`. The tables of
//! `docs/status` are made from them ([`super::pages`]).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::steps::Steps;

/// File of [`Host`].
pub const HOST: &str = "benches/results/host.toml";

/// File of [`Sim`].
pub const SIM: &str = "benches/results/sim.toml";

/// Origin of figures.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Origin {
    /// Commit of the measured tree, with `-dirty` if other files than the results differed from it.
    pub commit: String,
    pub date: String,
    pub processor: String,
    /// Conditions of the measurement, if they were special.
    pub note: Option<String>,
}

/// Host costs of operations in this driver and in IREE's C driver.
#[derive(Debug, Deserialize, PartialEq)]
pub struct Host {
    #[serde(flatten)]
    pub origin: Origin,
    /// Figures of this driver and of the C driver.
    pub start_ms: [f64; 2],
    pub resident_mib: [f64; 2],
    pub vram_mib: Option<[f64; 2]>,
    /// Instructions of the submitting thread under profiles: the cases `profiled/*`.
    pub profiled: Vec<Case>,
    pub run: Vec<Run>,
    pub gpu: Vec<GpuWork>,
}

/// Work of the GPU for executions of command buffers, as the software GPU counts it, in one driver.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GpuWork {
    pub driver: String,
    /// True if the driver recorded command buffers as PM4 streams.
    #[serde(default)]
    pub pm4: bool,
    pub case: Vec<GpuCase>,
}

/// Counts for each dispatch of a command buffer.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GpuCase {
    pub name: String,
    pub packets: f64,
    pub pm4_commands: f64,
    pub barrier_bits: f64,
    pub system_acquires: f64,
    pub system_releases: f64,
    pub interrupts: f64,
}

/// One run of the benchmark.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub kind: Kind,
    pub target: String,
    /// True if both drivers recorded command buffers as PM4 streams.
    #[serde(default)]
    pub pm4: bool,
    pub case: Vec<Case>,
}

/// Unit of a run's figures.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Instructions of the submitting thread for an operation.
    Instructions,
    /// Wall time of an operation: the median, in nanoseconds.
    Wall,
}

/// Figures of a case. A driver that refuses it has none.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub floor: Option<f64>,
    pub ours: Option<f64>,
    pub c: Option<f64>,
}

impl Case {
    /// This driver's figure as a part of the C driver's.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.c?)
    }
}

/// Speed of the software GPU, the latest run last.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Sim {
    pub run: Vec<SimRun>,
}

#[derive(Debug, Deserialize, PartialEq)]
pub struct SimRun {
    #[serde(flatten)]
    pub origin: Origin,
    pub case: Vec<SimCase>,
}

/// CPU milliseconds of a model: by IREE's CPU backend, and on each target by the interpreter and by compiled code.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SimCase {
    pub model: String,
    pub llvm_cpu: Option<f64>,
    pub gfx1100: SimTimes,
    pub gfx942: SimTimes,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SimTimes {
    pub interpreted: Option<f64>,
    pub compiled: Option<f64>,
}

impl Origin {
    /// The origin of figures that this process measures.
    ///
    /// # Errors
    /// When git or `date` fails.
    pub fn now(layout: &Layout, steps: &Steps) -> Result<Self> {
        let capture = |program: &str, arguments: &[&str]| {
            steps.step("Origin of the figures", |step| {
                let mut command = Command::new(program);
                command.args(arguments).current_dir(&layout.root);
                Ok(String::from_utf8_lossy(&step.capture(command)?).trim().to_owned())
            })
        };
        let mut commit = capture("git", &["rev-parse", "--short=8", "HEAD"])?;
        let changes =
            ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!benches/results", ":!docs/status"];
        if !capture("git", &changes)?.is_empty() {
            commit += "-dirty";
        }
        Ok(Self { commit, date: capture("date", &["--utc", "+%F"])?, processor: processor(), note: None })
    }

    fn text(&self) -> String {
        let Self { commit, date, processor, note } = self;
        let mut text = format!("commit = \"{commit}\"\ndate = \"{date}\"\nprocessor = \"{processor}\"\n");
        if let Some(note) = note {
            let _ = writeln!(text, "note = \"{note}\"");
        }
        text
    }
}

/// Name of this machine's processor, with the number of its cores.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names: Vec<_> = info.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": ")).collect();
    names.first().map_or_else(|| "unknown".to_owned(), |(_, name)| format!("{name}, {} cores", names.len()))
}

/// Reads a file of results.
///
/// # Errors
/// When it cannot be read or parsed.
pub fn read<T: DeserializeOwned>(root: &Path, file: &str) -> Result<T> {
    let text = fs::read_to_string(root.join(file)).context(|| format!("reading {file}"))?;
    toml::from_str(&text).map_err(|error| Error::setup(format!("{file}: {error}")))
}

/// Writes the text of a file of results.
///
/// # Errors
/// When it cannot be written.
pub fn write(root: &Path, file: &str, text: &str) -> Result<()> {
    fs::write(root.join(file), text).context(|| format!("writing {file}"))
}

/// First lines of a file: its purpose, and the command that writes it.
fn head(purpose: &str, command: &str) -> String {
    format!("# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n#\n# {purpose}\n# Written by `{command}`.\n\n")
}

/// `, key = value`, for each value that is known. Small ones have two digits more: multiples are made of them.
fn fields(values: &[(&str, Option<f64>)]) -> String {
    let known = values.iter().filter_map(|(key, value)| {
        let value = (*value)?;
        Some(if value < 0.1 { format!("{key} = {value:.4}") } else { format!("{key} = {value:.2}") })
    });
    known.collect::<Vec<_>>().join(", ")
}

impl Case {
    fn text(&self) -> String {
        let figures = fields(&[("floor", self.floor), ("ours", self.ours), ("c", self.c)]);
        format!("  {{ name = \"{}\", {figures} }},\n", self.name)
    }
}

impl GpuCase {
    /// Counts have the digits that make sums over 10,000 dispatches whole numbers.
    fn text(&self) -> String {
        let Self { name, packets, pm4_commands, barrier_bits, system_acquires, system_releases, interrupts } = self;
        format!(
            "  {{ name = \"{name}\", packets = {packets:.5}, pm4_commands = {pm4_commands:.5}, \
             barrier_bits = {barrier_bits:.5}, system_acquires = {system_acquires:.5}, \
             system_releases = {system_releases:.5}, interrupts = {interrupts:.5} }},\n"
        )
    }
}

impl Host {
    pub fn text(&self) -> String {
        let mut text =
            head("Host cost of operations in this driver and in IREE's C driver.", "cargo xtask bench --write");
        text += &self.origin.text();
        let pairs =
            [("start_ms", Some(self.start_ms)), ("resident_mib", Some(self.resident_mib)), ("vram_mib", self.vram_mib)];
        for (key, pair) in pairs {
            if let Some([ours, c]) = pair {
                let _ = writeln!(text, "{key} = [{ours:.2}, {c:.2}]");
            }
        }
        text += "profiled = [\n";
        self.profiled.iter().for_each(|case| text += &case.text());
        text += "]\n";
        for run in &self.run {
            let kind = if run.kind == Kind::Wall { "wall" } else { "instructions" };
            let _ = writeln!(text, "\n[[run]]\nkind = \"{kind}\"\ntarget = \"{}\"", run.target);
            text += if run.pm4 { "pm4 = true\ncase = [\n" } else { "case = [\n" };
            run.case.iter().for_each(|case| text += &case.text());
            text += "]\n";
        }
        for work in &self.gpu {
            let _ = writeln!(text, "\n[[gpu]]\ndriver = \"{}\"", work.driver);
            text += if work.pm4 { "pm4 = true\ncase = [\n" } else { "case = [\n" };
            work.case.iter().for_each(|case| text += &case.text());
            text += "]\n";
        }
        text
    }
}

impl Sim {
    pub fn text(&self) -> String {
        let mut text = head(
            "CPU milliseconds of models on the software GPU, one thread. The last run is the current one.",
            "cargo xtask bench --sim --write",
        );
        let runs = self.run.iter().map(|run| {
            let mut text = format!("[[run]]\n{}case = [\n", run.origin.text());
            for case in &run.case {
                let _ = write!(text, "  {{ model = \"{}\"", case.model);
                if case.llvm_cpu.is_some() {
                    let _ = write!(text, ", {}", fields(&[("llvm_cpu", case.llvm_cpu)]));
                }
                for (target, times) in [("gfx1100", case.gfx1100), ("gfx942", case.gfx942)] {
                    let times = fields(&[("interpreted", times.interpreted), ("compiled", times.compiled)]);
                    let _ = write!(text, ", {target} = {{ {times} }}");
                }
                text += " },\n";
            }
            text + "]\n"
        });
        text += &runs.collect::<Vec<_>>().join("\n");
        text
    }

    /// Adds a run, in the place of one of the same commit on this processor.
    pub fn add(&mut self, run: SimRun) {
        let of = |run: &SimRun| (run.origin.commit.clone(), run.origin.processor.clone());
        self.run.retain(|known| of(known) != of(&run));
        self.run.push(run);
    }

    /// The last run on each processor of those that measured the CPU backend, too.
    pub fn latest_by_processor(&self) -> impl Iterator<Item = &SimRun> {
        let complete = |run: &&SimRun| run.case.iter().all(|case| case.llvm_cpu.is_some());
        let runs: BTreeMap<_, _> = self.run.iter().filter(complete).map(|run| (&run.origin.processor, run)).collect();
        runs.into_values()
    }

    /// The last run.
    ///
    /// # Errors
    /// When there is none.
    pub fn latest(&self) -> Result<&SimRun> {
        self.run.last().ok_or_else(|| Error::setup(format!("{SIM} has no run")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(commit: &str, note: Option<&str>) -> Origin {
        let [commit, date, processor] = [commit, "2026-11-27", "x, 2 cores"].map(str::to_owned);
        Origin { commit, date, processor, note: note.map(str::to_owned) }
    }

    #[test]
    fn host_figures_are_read_as_they_are_written() {
        let refused = Case { name: "b".into(), ours: Some(0.25), ..Case::default() };
        let case = Case { name: "a/submit".into(), floor: Some(33.0), ours: Some(496.0), c: Some(1235.5) };
        let counted = GpuCase { name: "replay/a/16/submit".into(), packets: 0.0625, ..GpuCase::default() };
        let run = |kind, pm4, case| Run { kind, target: "gfx1100".into(), pm4, case };
        let host = Host {
            origin: origin("1234567", Some("a loaded machine")),
            start_ms: [0.5, 1.0],
            resident_mib: [2.0, 3.0],
            vram_mib: None,
            profiled: vec![Case { name: "profiled/a/submit".into(), ours: Some(7.0), ..Case::default() }],
            run: vec![run(Kind::Instructions, false, vec![case]), run(Kind::Wall, true, vec![refused])],
            gpu: vec![GpuWork { driver: "amdgpu".into(), pm4: true, case: vec![counted] }],
        };
        assert_eq!(toml::from_str::<Host>(&host.text()).unwrap(), host);
    }

    #[test]
    fn a_run_replaces_one_of_the_same_commit() {
        let case = SimCase {
            model: "m".into(),
            llvm_cpu: Some(0.0025),
            gfx1100: SimTimes { interpreted: Some(80.0), compiled: None },
            gfx942: SimTimes::default(),
        };
        let mut sim = Sim::default();
        for (commit, note) in [("a", Some("first")), ("b", None), ("a", None)] {
            sim.add(SimRun { origin: origin(commit, note), case: vec![case.clone()] });
        }
        assert_eq!(sim.run.iter().map(|run| run.origin.commit.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(sim.latest().unwrap().origin.note, None);
        assert_eq!(toml::from_str::<Sim>(&sim.text()).unwrap(), sim);
    }

    #[test]
    fn each_processor_has_its_latest_complete_run() {
        let run = |commit: &str, processor: &str, llvm_cpu| {
            let origin = Origin { processor: processor.to_owned(), ..origin(commit, None) };
            let times = SimTimes::default();
            SimRun { origin, case: vec![SimCase { model: "m".into(), llvm_cpu, gfx1100: times, gfx942: times }] }
        };
        let mut sim = Sim::default();
        for (commit, processor, llvm_cpu) in
            [("a", "x", Some(1.0)), ("a", "y", Some(2.0)), ("b", "x", Some(3.0)), ("c", "x", None)]
        {
            sim.add(run(commit, processor, llvm_cpu));
        }
        let of = |run: &SimRun| (run.origin.commit.clone(), run.origin.processor.clone());
        let latest: Vec<_> = sim.latest_by_processor().map(of).collect();
        assert_eq!(latest, [("b", "x"), ("a", "y")].map(|(commit, on)| (commit.to_owned(), on.to_owned())));
    }
}
