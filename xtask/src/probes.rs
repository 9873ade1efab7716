// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask probes`: the small C programs of `tests/probes` against IREE's headers. Each is run with this driver
//! and with IREE's C driver on the sim. A probe prints facts; its source lists them. README.md there describes both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bench::Drivers;
use xtask_core::error::{Context, Error, Result};
use xtask_core::flavor::Flavor;
use xtask_core::glob;
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::setup::{self, Build};
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A probe that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// The GPU of probes that do not name theirs.
const DEFAULT_AGENTS: &str = "gfx1100";

/// Options of a run.
pub struct Options<'a> {
    /// Drivers to run.
    pub drivers: Drivers,
    /// Glob that selects the probes.
    pub filter: &'a str,
    /// Prints all facts, not only the unexpected ones.
    pub facts: bool,
}

/// A probe's source, read for its directives.
#[derive(Debug, Default, PartialEq)]
struct Probe {
    name: String,
    /// The GPUs, as `HSA_SIM_AGENTS` describes them.
    agents: Option<String>,
    /// Further environment variables.
    variables: Vec<(String, String)>,
    expected: Vec<Expected>,
    /// Reason why the probe is excluded from the run of all tests.
    pending: Option<String>,
}

/// A fact that drivers must print.
#[derive(Debug, PartialEq)]
struct Expected {
    name: String,
    value: String,
    /// The only driver that must print the fact, for a deliberate difference.
    driver: Option<String>,
}

/// A fact that a driver printed.
type Fact = (String, String);

/// Runs all probes with both drivers, in a build of their own.
///
/// # Errors
/// When the build fails, a kernel or a probe's head is malformed, or no probe matches.
pub fn run_all(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let layout = layout.with(Flavor::BesideC);
    setup::everything(&layout, steps, Build::Probes)?;
    run(&layout, steps, &Options { drivers: Drivers::Both, filter: "*", facts: false })
}

/// Runs the probes and prints a line for each. Set-up must have built [`Build::Probes`].
///
/// # Errors
/// When a kernel or a probe's head is malformed, or none matches; a probe that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, options: &Options) -> Result<Tally> {
    let probes = read_all(&layout.root.join("tests/probes"))?;
    let chosen: Vec<_> = probes.iter().filter(|probe| glob::matches(options.filter, &probe.name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = probes.iter().map(|probe| probe.name.as_str()).collect();
        return Err(Error::setup(format!("no probe matches {}: there are {}", options.filter, names.join(", "))));
    }
    let kernels = Kernels::new(layout);
    let results = steps.step("Probes of both drivers", |step| {
        let mut results = Vec::new();
        for probe in &chosen {
            let folder = kernels.ensure(step, probe.target()?)?;
            for driver in options.drivers.names() {
                // By its whole name, a probe is run though it is pending.
                if probe.pending.is_some() && options.filter != probe.name {
                    continue;
                }
                step.note(&format!("{} with {driver}", probe.name));
                results.push((probe, driver, timed(|| run_one(layout, step, &folder, probe, driver))));
            }
        }
        Ok(results)
    })?;
    let mut tally = Tally::default();
    for (probe, driver, (result, time)) in results {
        let (facts, result) = match result {
            Ok(facts) => (facts.clone(), probe.judge(driver, &facts)),
            Err(error) => (Vec::new(), Err(error)),
        };
        tally.count(steps, "probes", &format!("{} with {driver}", probe.name), (result, time));
        if options.facts {
            facts.iter().for_each(|(name, value)| println!("            {name}: {value}"));
        }
    }
    for probe in chosen {
        if let Some(reason) = probe.pending.as_ref().filter(|_| options.filter != probe.name) {
            tally.skipped += 1;
            println!("  pending {}: {reason}", probe.name);
        }
    }
    Ok(tally)
}

fn run_one(layout: &Layout, step: &Step, folder: &Path, probe: &Probe, driver: &str) -> Result<Vec<Fact>> {
    let mut command = layout.command(setup::probes_program(layout));
    command.arg(format!("--driver={driver}")).arg(format!("--folder={}", folder.display())).arg(&probe.name);
    Hsa::Sim.apply(layout, &probe.target()?, &mut command);
    command.env("HSA_SIM_LEAKS", "1");
    if layout.flavor == Flavor::BesideC {
        command.env("LD_PRELOAD", layout.kfd_library());
    }
    command.envs(probe.variables.iter().map(|(name, value)| (name, value)));
    let (mut facts, mut notes) = (Vec::new(), Vec::new());
    let ended = step.follow(command, Some(SILENCE), |line| match line.strip_prefix("fact ") {
        Some(fact) => {
            let (name, value) = fact.split_once(": ").unwrap_or((fact, ""));
            facts.push((name.to_owned(), value.to_owned()));
        }
        None => notes.push(line.to_owned()),
    })?;
    let how = match ended {
        Ended::Exit(status) if status.success() => return Ok(facts),
        Ended::Exit(status) => process::describe(status),
        Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
    };
    let mut text = format!("ended with {how}");
    facts.iter().for_each(|(name, value)| _ = write!(text, "\n      {name}: {value}"));
    notes.iter().rev().take(12).rev().for_each(|note| _ = write!(text, "\n      {note}"));
    Err(Error::Failed(text))
}

impl Probe {
    /// Reads the directives in a source's first comment.
    fn parse(name: &str, source: &str) -> std::result::Result<Self, String> {
        let mut probe = Self { name: name.to_owned(), ..Self::default() };
        for line in source.lines().map_while(|line| line.strip_prefix("//")).map(str::trim) {
            if let Some(agents) = line.strip_prefix("agents: ") {
                probe.agents = Some(agents.to_owned());
            } else if let Some(variable) = line.strip_prefix("env: ") {
                let (name, value) = variable.split_once('=').ok_or_else(|| format!("`{line}` has no `=`"))?;
                probe.variables.push((name.to_owned(), value.to_owned()));
            } else if let Some(reason) = line.strip_prefix("pending: ") {
                probe.pending = Some(reason.to_owned());
            } else if let Some(expected) = line.strip_prefix("expect") {
                probe.expected.push(Expected::parse(expected).ok_or_else(|| {
                    format!("`{line}` is neither `expect name: value` nor `expect[driver] name: value -- reason`")
                })?);
            }
        }
        Ok(probe)
    }

    fn target(&self) -> Result<Target> {
        self.agents.as_deref().unwrap_or(DEFAULT_AGENTS).parse().map_err(Error::setup)
    }

    /// The facts that `driver` must print, in their order.
    fn expected(&self, driver: &str) -> Vec<&Expected> {
        let is_drivers = |fact: &&Expected| fact.driver.as_deref().is_none_or(|named| named == driver);
        self.expected.iter().filter(is_drivers).collect()
    }

    /// Compares the facts that `driver` printed with the expected ones.
    fn judge(&self, driver: &str, facts: &[Fact]) -> Result<()> {
        let mut wrong = String::new();
        let expected = self.expected(driver);
        for fact in &expected {
            match facts.iter().find(|(name, _)| *name == fact.name) {
                Some((_, value)) if *value == fact.value => {}
                Some((name, value)) => _ = write!(wrong, "\n      {name}: {value}, must be {}", fact.value),
                None => _ = write!(wrong, "\n      {}: not printed, must be {}", fact.name, fact.value),
            }
        }
        for (name, value) in facts {
            if !expected.iter().any(|fact| fact.name == *name) {
                _ = write!(wrong, "\n      {name}: {value}, no fact that the source states");
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Error::Failed(wrong.trim_start_matches('\n').trim_start().to_owned()))
        }
    }
}

impl Expected {
    /// Parses the text after `expect`.
    fn parse(text: &str) -> Option<Self> {
        let (driver, text) = match text.strip_prefix('[') {
            Some(rest) => {
                let (driver, text) = rest.split_once("] ")?;
                (Some(driver.to_owned()), text)
            }
            None => (None, text.strip_prefix(' ')?),
        };
        let (text, reason) = text.split_once(" -- ").map_or((text, None), |(text, reason)| (text, Some(reason)));
        // A driver that differs has a reason to.
        if driver.is_some() != reason.is_some_and(|reason| !reason.is_empty()) {
            return None;
        }
        let (name, value) = text.split_once(": ")?;
        Some(Self { name: name.to_owned(), value: value.to_owned(), driver })
    }
}

/// Reads the probes of a folder, by their names.
fn read_all(folder: &Path) -> Result<Vec<Probe>> {
    let reading = || format!("reading {}", folder.display());
    let mut probes = BTreeMap::new();
    for entry in fs::read_dir(folder).context(reading)? {
        let path = entry.context(reading)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "c") && name != "probe" {
            let source = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
            let probe = Probe::parse(&name, &source)
                .map_err(|message| Error::setup(format!("{}: {message}", path.display())))?;
            probes.insert(name, probe);
        }
    }
    Ok(probes.into_values().collect())
}

/// Code objects that probes load. They are rebuilt when older than their sources.
struct Kernels {
    sources: Vec<PathBuf>,
    build: PathBuf,
}

impl Kernels {
    fn new(layout: &Layout) -> Self {
        let folder = layout.root.join("tests/probes/kernels");
        let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension != "h");
        let sources = files.filter(is_source).chain([layout.root.join("tests/testdata/kernels.c")]).collect();
        Self { sources, build: layout.build.join("probes") }
    }

    /// Builds the code objects for the first GPU of `target`, and returns their folder.
    fn ensure(&self, step: &Step, target: Target) -> Result<PathBuf> {
        let folder = self.build.join(target.as_ref());
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        for source in &self.sources {
            let text = fs::read_to_string(source).context(|| format!("reading {}", source.display()))?;
            // Assembly is for one GPU.
            let other = |line: &str| line.starts_with(".amdgcn_target") && !line.contains(target.as_ref());
            if text.lines().any(other) {
                continue;
            }
            let object = folder.join(source.with_extension("co").file_name().unwrap_or_default());
            let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
            if modified(&object).is_some_and(|time| Some(time) > modified(source)) {
                continue;
            }
            let mut clang = Command::new("clang-22");
            clang.args(["-target", "amdgcn-amd-amdhsa", "-fuse-ld=lld-22"]).arg(format!("-mcpu={target}"));
            if source.extension().is_some_and(|extension| extension == "c") {
                clang.args(["-x", "c", "-std=c23", "-nogpulib", "-O2", "-fno-ident", "-Wl,--discard-all"]);
                let flags = text.lines().find_map(|line| line.strip_prefix("// flags: "));
                clang.args(flags.unwrap_or("-mcode-object-version=5").split_whitespace());
            }
            clang.arg(source).arg("-o").arg(&object);
            step.run(clang)?;
        }
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(head: &str) -> Probe {
        Probe::parse("x", head).unwrap()
    }

    fn facts(facts: &[(&str, &str)]) -> Vec<Fact> {
        facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_head_states_facts_of_both_drivers_and_of_one() {
        let probe = probe(
            "// SPDX\n//\n// agents: gfx1100,gfx942\n// env: A=b=c\n// expect a: OK\n// expect[amdgpu] b: 1 -- it counts\n\
             // expect[amdgpu_rs] b: 2 -- so does this\n\n// expect c: 1\n",
        );
        assert_eq!(probe.agents.as_deref(), Some("gfx1100,gfx942"));
        assert_eq!(probe.variables, [("A".to_owned(), "b=c".to_owned())]);
        assert!(probe.judge("amdgpu", &facts(&[("a", "OK"), ("b", "1")])).is_ok());
        assert!(probe.judge("amdgpu_rs", &facts(&[("a", "OK"), ("b", "2")])).is_ok());
        let error = probe.judge("amdgpu_rs", &facts(&[("a", "LOST"), ("c", "1")])).unwrap_err().to_string();
        for part in ["a: LOST, must be OK", "b: not printed, must be 2", "c: 1, no fact"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_difference_without_a_reason_is_refused() {
        for line in ["// expect[amdgpu] a: 1", "// expect a: 1 -- why", "// expect a", "// expected: 1", "// env: A"] {
            assert!(Probe::parse("x", line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_probe_states_its_facts() {
        let probes = read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/probes")).unwrap();
        assert!(!probes.is_empty());
        for probe in probes {
            assert!(!probe.expected.is_empty() || probe.pending.is_some(), "{}", probe.name);
        }
    }
}
