// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Tables of `docs/status`, made from the results in `benches/results`. A section of a page begins with
//! `<!-- begin: NAME -->` and ends with `<!-- end: NAME -->`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::results::{self, Case, GpuCase, Host, Kind, Origin, Run, Sim, SimCase, SimRun, SimTimes};
use super::{DEFAULT_TARGET, GOAL, geometric_mean};
use xtask_core::error::{Context, Error, Result};

/// A section of a page.
struct Section {
    page: &'static str,
    name: &'static str,
    text: String,
}

/// Writes the sections of all pages. Returns the pages that changed.
///
/// # Errors
/// When a file cannot be read or written, or a page lacks a section.
pub fn write(root: &Path) -> Result<Vec<&'static str>> {
    let mut changed = Vec::new();
    for Section { page, name, text } in sections(root)? {
        let path = root.join(page);
        let old = fs::read_to_string(&path).context(|| format!("reading {page}"))?;
        let new = replace(&old, name, &text).ok_or_else(|| Error::setup(format!("{page} has no section {name}")))?;
        if new != old {
            fs::write(&path, new).context(|| format!("writing {page}"))?;
            changed.push(page);
        }
    }
    Ok(changed)
}

/// The page with a section's new text; `None` without such a section.
fn replace(page: &str, name: &str, text: &str) -> Option<String> {
    let [begin, end] = ["begin", "end"].map(|mark| format!("<!-- {mark}: {name} -->\n"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some([before, &begin, "\n", text, "\n", &end, after].concat())
}

fn sections(root: &Path) -> Result<Vec<Section>> {
    let host: Host = results::read(root, results::HOST)?;
    let sim: Sim = results::read(root, results::SIM)?;
    let (costs, speed, glance) =
        ("docs/status/benchmarks.md", "docs/status/sim-speed.md", "docs/status/at-a-glance.md");
    Ok(vec![
        Section { page: costs, name: "figures", text: origin(&host.origin) + "\n" + &host.figures() },
        Section { page: costs, name: "means", text: host.means() },
        Section { page: costs, name: "floor", text: host.floors() },
        Section { page: costs, name: "streams", text: host.streams() },
        Section { page: costs, name: "gpu-work", text: host.gpu_work() },
        Section { page: "docs/using/profiling.md", name: "cost", text: host.profiled() },
        Section { page: speed, name: "latest", text: latest(sim.latest()?) },
        Section { page: speed, name: "history", text: history(&sim) },
        Section { page: glance, name: "host", text: host.glance() },
        Section { page: glance, name: "speed", text: ratios(sim.latest()?) },
    ])
}

fn origin(Origin { commit, date, processor, note }: &Origin) -> String {
    let note = note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
    format!("{date}, commit {commit}, {processor}.{note}\n")
}

/// A table with these headings.
fn table(headings: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows: String = rows.into_iter().map(|cells| row(&cells)).collect();
    format!("{}|{}\n{rows}", row(headings), "---|".repeat(headings.len()))
}

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}

/// Three digits, or all before the point, and four after it for small values.
fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A multiple, with two digits.
fn times(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

/// Both drivers' instructions for a case, and their ratio.
fn instructions(case: Option<&Case>) -> String {
    let Some((ours, c, ratio)) = case.and_then(|case| Some((case.ours?, case.c?, case.ratio()?))) else {
        return String::new();
    };
    let decimals = usize::from(ours < 400.0);
    format!("{ours:.decimals$} / {c:.decimals$} = {ratio:.2}")
}

impl Run {
    fn get(&self, name: &str) -> Option<&Case> {
        self.case.iter().find(|case| case.name == name)
    }

    fn ratio(&self, name: &str) -> Option<f64> {
        self.get(name)?.ratio()
    }

    /// Ratios of the cases that `is_taken` selects.
    fn ratios(&self, is_taken: impl Fn(&str) -> bool) -> Vec<f64> {
        self.case.iter().filter(|case| is_taken(&case.name)).filter_map(Case::ratio).collect()
    }
}

/// True for cases whose time includes the software GPU's.
fn is_end_to_end(name: &str) -> bool {
    name.ends_with("/end-to-end") || name.starts_with("dispatch/chain-")
}

/// True for cases of one thread without the software GPU.
fn is_submission(name: &str) -> bool {
    !is_end_to_end(name) && !name.contains("/threads-")
}

impl Host {
    fn runs(&self, kind: Kind, pm4: bool) -> impl Iterator<Item = &Run> {
        self.run.iter().filter(move |run| run.kind == kind && run.pm4 == pm4)
    }

    fn walls(&self) -> Vec<&Run> {
        self.runs(Kind::Wall, false).collect()
    }

    /// Names of the cases that both drivers run, in the benchmark's order.
    fn names(&self) -> Vec<&str> {
        let first = self.run.iter().find(|run| run.kind == Kind::Wall && !run.pm4);
        let cases = first.into_iter().flat_map(|run| &run.case).filter(|case| case.ratio().is_some());
        cases.map(|case| case.name.as_str()).collect()
    }

    /// Headings of the runs of wall time: the GPU, or `again` for its second run.
    fn headings(&self) -> Vec<String> {
        let walls = self.walls();
        let is_second = |index: usize| walls[..index].iter().any(|run| run.target == walls[index].target);
        (0..walls.len())
            .map(|index| walls[index].target.clone() + if is_second(index) { ", again" } else { "" })
            .collect()
    }

    fn figures(&self) -> String {
        let counted = self.runs(Kind::Instructions, false).next();
        let rows = self.names().into_iter().map(|name| {
            let mut row = vec![code(name), instructions(counted.and_then(|run| run.get(name)))];
            row.extend(self.walls().iter().map(|run| shown(run.ratio(name))));
            row
        });
        table(&[strings(["case", "instructions"]), self.headings()].concat(), rows)
    }

    fn means(&self) -> String {
        let row = |name: String, ratios: Vec<f64>| {
            let good = ratios.iter().filter(|ratio| **ratio <= GOAL).count();
            vec![name, ratios.len().to_string(), shown(geometric_mean(&ratios)), good.to_string()]
        };
        let counted = self.runs(Kind::Instructions, false).map(|run| row("instructions".into(), run.ratios(|_| true)));
        let of_walls = |which: &'static str, is_taken: fn(&str) -> bool| {
            let walls = self.walls().into_iter().zip(self.headings());
            walls.map(move |(run, name)| row(format!("wall time on {name}: {which}"), run.ratios(is_taken)))
        };
        let rows = counted.chain(of_walls("submission by one thread", is_submission)).chain(of_walls("all", |_| true));
        let mut text = table(&strings(["cases", "number", "geometric mean", "at most 0.7"]), rows);
        let part = |[ours, c]: [f64; 2]| format!("{:.1}", ours / c);
        let _ = writeln!(
            text,
            "\nA device of this driver needs {} of the C driver's time from its start to the end of its first dispatch, and {} \
             of its\nresident memory.",
            part(self.start_ms),
            part(self.resident_mib)
        );
        text
    }

    fn floors(&self) -> String {
        let walls = self.walls();
        let floor = |run: &&Run, name: &str| run.get(name).and_then(|case| Some(case.floor? / case.c?));
        let names = self
            .names()
            .into_iter()
            .filter(|name| is_end_to_end(name) && walls.first().is_some_and(|run| floor(run, name).is_some()));
        let rows = names.map(|name| {
            let both = |run: &&Run| format!("{}, {}", shown(floor(run, name)), shown(run.ratio(name)));
            [code(name)].into_iter().chain(walls.iter().map(both)).collect()
        });
        table(&[strings(["floor, this driver"]), self.headings()].concat(), rows)
    }

    fn streams(&self) -> String {
        let [counted, streams] = [false, true].map(|pm4| self.runs(Kind::Instructions, pm4).next());
        let [timed, timed_streams] = [false, true].map(|pm4| self.runs(Kind::Wall, pm4).next());
        let get = |run: Option<&Run>, name| instructions(run.and_then(|run| run.get(name)));
        let ratio = |run: Option<&Run>, name| shown(run.and_then(|run| run.ratio(name)));
        let cases = [streams, timed_streams].into_iter().flatten().flat_map(|run| &run.case);
        let mut names: Vec<&str> = Vec::new();
        for case in cases.filter(|case| case.ratio().is_some()) {
            if !names.contains(&case.name.as_str()) {
                names.push(&case.name);
            }
        }
        let rows = names.into_iter().map(|name| {
            let [packets, commands] = [counted, streams].map(|run| get(run, name));
            vec![code(name), packets, commands, ratio(timed, name), ratio(timed_streams, name)]
        });
        table(&strings(["case", "instructions, `aql`", "`pm4`", "wall time, `aql`", "`pm4`"]), rows)
    }

    /// Work of the GPU for a whole execution of a command buffer.
    fn gpu_work(&self) -> String {
        let works = |name: &str| {
            let works = self.gpu.iter().filter_map(|work| {
                let case = work.case.iter().find(|case| case.name == name)?;
                let driver = if work.driver == "amdgpu_rs" { "this driver" } else { "C driver" };
                Some((format!("{driver}, {}", code(if work.pm4 { "pm4" } else { "aql" })), case))
            });
            works.collect::<Vec<_>>()
        };
        let names = self.gpu.first().into_iter().flat_map(|work| &work.case).map(|case| case.name.as_str());
        let rows = names.flat_map(|name| {
            let rows = works(name).into_iter().enumerate().map(|(index, (driver, case))| {
                let name = if index == 0 { code(name.trim_end_matches("/submit")) } else { String::new() };
                [vec![name, driver], case.of_execution()].concat()
            });
            rows.collect::<Vec<_>>()
        });
        let counts = ["packets", "PM4 commands", "barrier bits", "system acquires", "system releases", "interrupts"];
        table(&[strings(["execution", "driver"]), strings(counts)].concat(), rows)
    }

    /// Instructions under profiles.
    fn profiled(&self) -> String {
        let counted = self.runs(Kind::Instructions, false).next();
        let without = ["dispatch/submit", "alloca/submit", "replay/static/10/submit"];
        let cases = without.iter().filter_map(|name| counted?.get(name)).chain(&self.profiled);
        let rows = cases.map(|case| {
            let figure = |value: Option<f64>| value.map_or_else(|| "refused".to_owned(), |value| format!("{value:.0}"));
            vec![code(&case.name), figure(case.ours), figure(case.c)]
        });
        table(&strings(["case", "this driver", "C driver"]), rows)
    }

    fn glance(&self) -> String {
        let walls = self.walls();
        let range = |is_taken: fn(&str) -> bool| {
            let mut means: Vec<_> = walls.iter().map(|run| shown(geometric_mean(&run.ratios(is_taken)))).collect();
            means.sort();
            means.dedup();
            match (means.first(), means.last()) {
                (Some(low), Some(high)) if low != high => format!("{low} to {high}"),
                (Some(low), _) => low.clone(),
                _ => String::new(),
            }
        };
        let counted = self.runs(Kind::Instructions, false).next().map(|run| run.ratios(|_| true)).unwrap_or_default();
        let count = |is_taken: fn(&str) -> bool| walls.first().map_or(0, |run| run.ratios(is_taken).len());
        let part = |[ours, c]: [f64; 2]| format!("{:.1}", ours / c);
        let rows = [
            (format!("instructions, geometric mean of {} cases", counted.len()), shown(geometric_mean(&counted))),
            (
                format!("wall time, geometric mean of {} cases without the software GPU", count(is_submission)),
                range(is_submission),
            ),
            (format!("wall time, geometric mean of all {} cases", count(|_| true)), range(|_| true)),
            ("start to the first dispatch".to_owned(), part(self.start_ms)),
            ("resident memory of a device".to_owned(), part(self.resident_mib)),
        ];
        let rows = rows.map(|(name, figure)| vec![name, figure]);
        let mut text = table(&strings(["figure", "this driver as a part of the C driver"]), rows);
        let slower = self.names().into_iter().filter_map(|name| {
            let runs = walls.iter().filter(|run| run.target == DEFAULT_TARGET);
            let ratios: Option<Vec<f64>> = runs.map(|run| run.ratio(name)).collect();
            let ratios = ratios.filter(|ratios| ratios.iter().all(|ratio| *ratio > 1.0))?;
            let ratios: Vec<_> = ratios.into_iter().map(|ratio| shown(Some(ratio))).collect();
            Some(format!("{} ({})", code(name), ratios.join(", ")))
        });
        let slower: Vec<_> = slower.collect();
        let slower = if slower.is_empty() { "none".to_owned() } else { slower.join(", ") };
        let _ = writeln!(text, "\nSlower than in the C driver in each run on {DEFAULT_TARGET}: {slower}.");
        text
    }
}

impl GpuCase {
    /// Counts for all dispatches of the command buffer, whose number is in the name. Counts of 0 are left out.
    fn of_execution(&self) -> Vec<String> {
        let dispatches = self.name.split('/').find_map(|part| part.parse().ok()).unwrap_or(1.0);
        let counts = [
            self.packets,
            self.pm4_commands,
            self.barrier_bits,
            self.system_acquires,
            self.system_releases,
            self.interrupts,
        ];
        let shown = counts.map(|count| {
            let count = count * dispatches;
            if count < 0.05 { String::new() } else { format!("{count:.1}").trim_end_matches(".0").to_owned() }
        });
        shown.into()
    }
}

/// Times of a target by the interpreter and compiled, each with its multiple of the CPU backend's.
fn pair(
    case: &SimCase,
    SimTimes { interpreted, compiled }: SimTimes,
    cell: impl Fn(f64, Option<f64>) -> String,
) -> [String; 2] {
    [interpreted, compiled]
        .map(|time| time.map_or_else(String::new, |time| cell(time, case.llvm_cpu.map(|cpu| time / cpu))))
}

/// The table of a run.
pub fn latest(run: &SimRun) -> String {
    let cell = |time: f64, ratio: Option<f64>| match ratio {
        Some(ratio) => format!("{} ({})", digits(time), times(ratio)),
        None => digits(time),
    };
    let rows = run.case.iter().map(|case| {
        let cpu = case.llvm_cpu.map(digits).unwrap_or_default();
        [vec![case.model.clone(), cpu], pair(case, case.gfx1100, cell).into(), pair(case, case.gfx942, cell).into()]
            .concat()
    });
    let headings = ["model", "llvm-cpu", "gfx1100 interpreted", "compiled", "gfx942 interpreted", "compiled"];
    origin(&run.origin) + "\n" + &table(&strings(headings), rows)
}

fn ratios(run: &SimRun) -> String {
    let cell = |_, ratio: Option<f64>| ratio.map(times).unwrap_or_default();
    let rows = run.case.iter().map(|case| {
        [vec![case.model.clone()], pair(case, case.gfx1100, cell).into(), pair(case, case.gfx942, cell).into()].concat()
    });
    let headings = ["model, one thread", "gfx1100 interpreted", "compiled", "gfx942 interpreted", "compiled"];
    table(&strings(headings), rows)
}

/// A run of a way of execution on a target.
type Column = (&'static str, fn(&SimCase) -> Option<f64>);

/// Times of all runs for the models of the first run: a table of each way and target.
fn history(sim: &Sim) -> String {
    const COLUMNS: [Column; 4] = [
        ("gfx1100 interpreted", |case| case.gfx1100.interpreted),
        ("gfx1100 compiled", |case| case.gfx1100.compiled),
        ("gfx942 interpreted", |case| case.gfx942.interpreted),
        ("gfx942 compiled", |case| case.gfx942.compiled),
    ];
    let models: Vec<String> =
        sim.run.first().into_iter().flat_map(|run| &run.case).map(|case| case.model.clone()).collect();
    let mut text = String::new();
    for (name, time) in COLUMNS {
        let rows = sim.run.iter().filter(|run| run.case.iter().any(|case| time(case).is_some())).map(|run| {
            let of = |model: &String| {
                let case = run.case.iter().find(|case| case.model == *model);
                case.and_then(time).map(digits).unwrap_or_default()
            };
            [run.origin.commit.clone()].into_iter().chain(models.iter().map(of)).collect()
        });
        let _ = writeln!(text, "{}", table(&[vec![name.to_owned()], models.clone()].concat(), rows));
    }
    for run in &sim.run {
        let Origin { commit, date, processor, note } = &run.origin;
        let _ = writeln!(text, "* {commit}: {date}, {processor}. {}", note.as_deref().unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    /// `UPDATE_DOCS=1` writes the pages.
    #[test]
    fn the_pages_have_these_tables() {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            write(root()).unwrap();
        }
        for Section { page, name, text } in sections(root()).unwrap() {
            let old = fs::read_to_string(root().join(page)).unwrap();
            let new = replace(&old, name, &text).unwrap_or_else(|| panic!("{page} has no section {name}"));
            assert!(old == new, "{page} is stale ({name}); UPDATE_DOCS=1 cargo test -p bench tables writes it");
        }
    }

    #[test]
    fn figures_of_two_runs_become_rows_and_means() {
        let host: Host = toml::from_str(
            r#"
            commit = "1234567"
            date = "2026-11-27"
            processor = "x"
            start_ms = [3, 10]
            resident_mib = [2, 5]
            profiled = [{ name = "profiled/a/submit", ours = 70 }]
            [[gpu]]
            driver = "amdgpu_rs"
            pm4 = true
            [[gpu.case]]
            name = "replay/static/16/submit"
            packets = 0.0625
            pm4_commands = 2.6875
            barrier_bits = 0.1172
            system_acquires = 0
            system_releases = 0.0625
            interrupts = 0.0625
            [[run]]
            kind = "instructions"
            target = "gfx1100"
            case = [{ name = "a/submit", floor = 33, ours = 496, c = 1240 }]
            [[run]]
            kind = "wall"
            target = "gfx1100"
            case = [
              { name = "a/submit", ours = 30, c = 100 },
              { name = "a/end-to-end", floor = 80, ours = 120, c = 100 },
              { name = "b", ours = 1 },
            ]
            [[run]]
            kind = "wall"
            target = "gfx1100"
            case = [{ name = "a/submit", ours = 40, c = 100 }, { name = "a/end-to-end", ours = 110, c = 100 }]
            "#,
        )
        .unwrap();
        assert!(host.profiled().ends_with("\n| `profiled/a/submit` | 70 | refused |\n"), "{}", host.profiled());
        assert!(
            host.gpu_work().ends_with("\n| `replay/static/16` | this driver, `pm4` | 1 | 43 | 1.9 |  | 1 | 1 |\n"),
            "{}",
            host.gpu_work()
        );
        assert_eq!(
            host.figures(),
            "| case | instructions | gfx1100 | gfx1100, again |\n|---|---|---|---|\n\
             | `a/submit` | 496 / 1240 = 0.40 | 0.30 | 0.40 |\n| `a/end-to-end` |  | 1.20 | 1.10 |\n"
        );
        assert!(host.means().contains("| wall time on gfx1100: submission by one thread | 1 | 0.30 | 1 |\n"));
        assert!(host.means().contains("| wall time on gfx1100, again: all | 2 | 0.66 | 1 |\n"));
        assert!(host.floors().ends_with("| `a/end-to-end` | 0.80, 1.20 | , 1.10 |\n"), "{}", host.floors());
        assert!(host.glance().contains("without the software GPU | 0.30 to 0.40 |"), "{}", host.glance());
        assert!(host.glance().ends_with("in each run on gfx1100: `a/end-to-end` (1.20, 1.10).\n"), "{}", host.glance());
    }

    #[test]
    fn a_section_is_replaced_between_its_marks() {
        let page = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n";
        let new = replace(page, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- begin: x -->\n\nnew\n\n<!-- end: x -->\nb\n");
        assert_eq!(replace(page, "y", "new\n"), None);
    }
}
