// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --guard`: the submitting thread's counts for some operations of this driver must not exceed the
//! checked-in counts (`benches/counts.toml`, which `--update` writes).

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use super::counts::{self, Counts, KINDS};
use super::{DEFAULT_TARGET, Drivers, Options};
use xtask_core::cts::CommandBufferMode;
use xtask_core::error::{Context, Error, Result};
use xtask_core::junit::Verdict;
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};
use xtask_core::tally::Tally;

/// Cases with checked-in counts: one of each kind that is fast to count and repeats.
const CASES: [&str; 17] = [
    "barrier/submit",
    "edge/submit",
    "dispatch/submit",
    "dispatch/waits-0",
    "dispatch/waits-4",
    "dispatch/bindings-16",
    "profiled/dispatch-events/submit",
    "fill/4-KiB",
    "copy/4-KiB",
    "update/4-KiB",
    "alloca/submit",
    "record/static/10",
    "record/table/10",
    "replay/table/10/submit",
    "replay/static/1000/submit",
    "replay/table/1000/submit",
    "model/10/submit",
];

/// Further cases, run with command buffers as PM4 streams. A prefix in the figures' names tells them apart.
const STREAM_CASES: [&str; 2] = ["replay/static/16/submit", "replay/table/16/submit"];
const STREAMS: &str = "pm4/";

/// The names of all figures.
fn names() -> impl Iterator<Item = String> {
    CASES.iter().map(|case| (*case).to_owned()).chain(STREAM_CASES.iter().map(|case| format!("{STREAMS}{case}")))
}

/// Allowed relative growth of a figure.
const GROWTH: f64 = 0.03;

/// Allowed relative growth in a case that allocates memory. The C library's cost depends on when other threads free
/// memory.
const GROWTH_WITH_ALLOCATIONS: f64 = 0.10;

/// Allowed relative growth of instructions if the driver's compiler is not the one of the checked-in counts.
const GROWTH_OF_ANOTHER_COMPILER: f64 = 0.15;

/// Allowed absolute growth of rare events (all but instructions): less than one in all counted operations.
const RARE: f64 = 0.05;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    /// Output of `rustc --version` of the driver's compiler.
    compiler: String,
    /// Figures by case and kind.
    case: BTreeMap<String, BTreeMap<String, f64>>,
}

fn path(layout: &Layout) -> PathBuf {
    layout.root.join("benches/counts.toml")
}

/// Counts and compares. Prints the figures that grew, and instructions that shrank by as much. Set-up must have built
/// the benchmark of [`Drivers::AmdgpuRs`].
///
/// # Errors
/// When a case fails, or the file cannot be read. Figures that grew are counted as failures.
pub fn run(layout: &Layout, steps: &Steps) -> Result<Tally> {
    let path = path(layout);
    let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
    let figures: Figures =
        toml::from_str(&text).map_err(|error| Error::setup(format!("{}: {error}", path.display())))?;
    let (counted, compiler) = count(layout, steps)?;
    let growth = if compiler == figures.compiler { GROWTH } else { GROWTH_OF_ANOTHER_COMPILER };
    if compiler != figures.compiler {
        println!(
            "  the figures are of {}, this is {compiler}: instructions may grow by {:.0} %",
            figures.compiler,
            growth * 100.0
        );
    }
    let mut tally = Tally::default();
    for case in names() {
        let found = compare(figures.case.get(&case), counted.get(&case), growth);
        match &found {
            Ok(None) => {}
            Ok(Some(less)) => println!("  {case}: {less}; `cargo xtask bench --update` keeps that"),
            Err(more) => println!("  FAILED  {case}: {more}"),
        }
        tally.passed += usize::from(found.is_ok());
        tally.failed += usize::from(found.is_err());
        steps.record("benchmark counts", &case, found.map_or_else(Verdict::Failed, |_| Verdict::Passed), None);
    }
    println!("  {tally}");
    Ok(tally)
}

/// Counts, and replaces the checked-in file.
///
/// # Errors
/// When a case fails, or the file cannot be written.
pub fn update(layout: &Layout, steps: &Steps) -> Result<()> {
    let (counted, compiler) = count(layout, steps)?;
    let path = path(layout);
    fs::write(&path, text(&counted, &compiler)).context(|| format!("writing {}", path.display()))
}

/// Returns each case's counts, and the driver's compiler.
fn count(layout: &Layout, steps: &Steps) -> Result<(BTreeMap<String, Counts>, String)> {
    let target = DEFAULT_TARGET.parse().map_err(Error::setup)?;
    let of = |cases: &[&str], command_buffer_mode| {
        let filter = format!("@({})", cases.join("|"));
        let (drivers, repeat) = (Drivers::AmdgpuRs, 1);
        let options = Options { drivers, target: &target, repeat, filter: &filter, command_buffer_mode };
        counts::of_one_driver(layout, steps, &options)
    };
    let mut counted = of(&CASES, None)?;
    let of_streams = of(&STREAM_CASES, Some(CommandBufferMode::Pm4))?;
    counted.extend(of_streams.into_iter().map(|(case, counts)| (format!("{STREAMS}{case}"), counts)));
    Ok((counted, steps.step("The compiler's version", |step| compiler(layout, step))?))
}

fn compiler(layout: &Layout, step: &Step) -> Result<String> {
    let mut rustc = layout.command(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg("--version");
    Ok(String::from_utf8_lossy(&step.capture(rustc)?).trim().to_owned())
}

/// Returns a message for each figure that grew, or, if none did, tells if instructions shrank by as much.
fn compare(
    figures: Option<&BTreeMap<String, f64>>,
    counts: Option<&Counts>,
    growth: f64,
) -> std::result::Result<Option<String>, String> {
    let (Some(figures), Some(counts)) = (figures, counts) else {
        return Err("it has no figures; `cargo xtask bench --update` writes them".to_owned());
    };
    let allocates = figures.get("allocations").is_some_and(|&figure| figure > 0.0);
    let least = if allocates { GROWTH_WITH_ALLOCATIONS } else { GROWTH };
    let mut grown = Vec::new();
    let mut shrunk = None;
    for (index, (kind, title)) in KINDS.iter().enumerate() {
        let Some(&figure) = figures.get(*kind) else {
            grown.push(format!("no figure of {title}"));
            continue;
        };
        let (growth, rare) = if index == 0 { (growth.max(least), 0.0) } else { (least, RARE) };
        let change = || format!("{:.1} {title}, {figure:.1} before", counts[index]);
        if counts[index] > figure * (1.0 + growth) + rare {
            grown.push(change());
        } else if index == 0 && counts[index] < figure * (1.0 - growth) {
            shrunk = Some(change());
        }
    }
    if grown.is_empty() { Ok(shrunk) } else { Err(grown.join("; ")) }
}

fn text(counted: &BTreeMap<String, Counts>, compiler: &str) -> String {
    let mut text = format!(
        "# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n#\n\
         # Work of the submitting thread for an operation of this driver on {DEFAULT_TARGET}, for `cargo xtask bench --guard`.\n\
         # Written by `cargo xtask bench --update`; docs/status/benchmarks.md defines the counts.\n\n\
         compiler = \"{compiler}\"\n"
    );
    for case in names() {
        let Some(counts) = counted.get(&case) else { continue };
        let _ = writeln!(text, "\n[case.\"{case}\"]");
        for ((kind, _), count) in KINDS.iter().zip(counts) {
            let _ = writeln!(text, "{kind} = {count:.2}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{self, Host, Kind};

    const COUNTS: Counts = [1000.0, 10.0, 0.0, 0.0, 0.0];

    fn figures() -> Figures {
        toml::from_str(&text(&BTreeMap::from([("barrier/submit".to_owned(), COUNTS)]), "rustc 1")).unwrap()
    }

    fn compared(counts: Counts, growth: f64) -> std::result::Result<Option<String>, String> {
        compare(figures().case.get("barrier/submit"), Some(&counts), growth)
    }

    #[test]
    fn figures_are_read_as_they_are_written() {
        assert_eq!(figures().compiler, "rustc 1");
        assert_eq!(compared(COUNTS, GROWTH), Ok(None));
    }

    #[test]
    fn instructions_of_the_results_are_about_those_of_the_guard() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = fs::read_to_string(root.join("benches/counts.toml")).unwrap();
        let guarded: Figures = toml::from_str(&text).unwrap();
        let host: Host = results::read(root, results::HOST).unwrap();
        let run = host.run.iter().find(|run| run.kind == Kind::Instructions && !run.pm4).expect("a run that counts");
        for name in CASES.iter().filter(|name| !name.starts_with("profiled/")) {
            let counted = run.case.iter().find(|case| case.name == *name).and_then(|case| case.ours).expect(name);
            let guard = guarded.case[*name]["instructions"];
            let growth = (counted / guard - 1.0).abs();
            assert!(growth < GROWTH_WITH_ALLOCATIONS, "{name}: {counted} in the results, {guard} in counts.toml");
        }
    }

    #[test]
    fn growth_fails_by_its_kind() {
        assert_eq!(compared([1029.0, 10.3, 0.04, 0.0, 0.0], GROWTH), Ok(None));
        assert_eq!(
            compared([1031.0, 10.0, 1.0, 0.0, 0.0], GROWTH),
            Err("1031.0 instructions, 1000.0 before; 1.0 allocations, 0.0 before".to_owned())
        );
        assert_eq!(compared([1031.0, 10.0, 0.0, 0.0, 0.0], GROWTH_OF_ANOTHER_COMPILER), Ok(None));
        assert!(compared([1000.0, 11.0, 0.0, 0.0, 0.0], GROWTH_OF_ANOTHER_COMPILER).is_err());
    }

    #[test]
    fn a_case_that_allocates_may_grow_more() {
        let figures = BTreeMap::from(KINDS.map(|(kind, _)| (kind.to_owned(), 100.0)));
        assert_eq!(compare(Some(&figures), Some(&[109.0; KINDS.len()]), GROWTH), Ok(None));
        assert!(compare(Some(&figures), Some(&[111.0; KINDS.len()]), GROWTH).is_err());
    }

    #[test]
    fn less_is_told() {
        assert_eq!(
            compared([900.0, 10.0, 0.0, 0.0, 0.0], GROWTH),
            Ok(Some("900.0 instructions, 1000.0 before".into()))
        );
    }

    #[test]
    fn a_case_without_figures_fails() {
        assert!(compare(None, Some(&COUNTS), GROWTH).is_err());
        assert!(compare(figures().case.get("barrier/submit"), None, GROWTH).is_err());
    }
}
