// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --gpu-cost`: the GPU's work for each operation in this driver and in IREE's C driver, as the sim
//! counts it (`sim/src/machine/report/costs.rs`; docs/status/benchmarks.md explains each count). Each driver runs in a
//! process of its own, so that the memory figures are one driver's.

use std::cmp::Ordering;
use std::fmt::Write;
use std::path::Path;

use super::results::{GpuCase, GpuWork};
use super::{Options, check, follow, programs};
use xtask_core::cts::CommandBufferMode;
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};

/// Counts of the sim, with their names in the table, and true if a lower count is better.
const KINDS: [(&str, &str, bool); 16] = [
    ("dispatch_packets", "dispatch packets", true),
    ("barrier_packets", "barrier packets", true),
    ("barrier_value_packets", "barrier-value packets", true),
    ("pm4_ib_packets", "PM4-IB packets", true),
    ("pm4_commands", "PM4 commands", true),
    ("barrier_bits", "barrier bits", true),
    ("acquires_none", "acquires: none", false),
    ("acquires_agent", "acquires: agent", false),
    ("acquires_system", "acquires: system", true),
    ("releases_none", "releases: none", false),
    ("releases_agent", "releases: agent", false),
    ("releases_system", "releases: system", true),
    ("kernarg_lines", "kernarg lines over PCIe", true),
    ("interrupts", "interrupts", true),
    ("host_round_trips", "host round trips", true),
    (VRAM, "VRAM in the end, MiB", true),
];

const VRAM: &str = "vram_bytes";

/// One driver's counts of a case.
#[derive(Debug, PartialEq)]
struct Row {
    case: String,
    /// Count of each of [`KINDS`] for one operation; memory in MiB.
    counts: [Option<f64>; KINDS.len()],
}

impl Row {
    fn case(&self) -> GpuCase {
        let of = |name: &str| KINDS.iter().position(|(known, ..)| *known == name).and_then(|kind| self.counts[kind]);
        let sum = |names: &[&str]| names.iter().filter_map(|name| of(name)).sum();
        GpuCase {
            name: self.case.clone(),
            packets: sum(&["dispatch_packets", "barrier_packets", "barrier_value_packets", "pm4_ib_packets"]),
            pm4_commands: sum(&["pm4_commands"]),
            barrier_bits: sum(&["barrier_bits"]),
            system_acquires: sum(&["acquires_system"]),
            system_releases: sum(&["releases_system"]),
            interrupts: sum(&["interrupts"]),
        }
    }
}

/// Parsed output of one driver's process so far.
#[derive(Default)]
struct Output {
    rows: Vec<Row>,
    /// Cases that the driver refuses, with the reasons.
    refusals: Vec<(String, String)>,
    other: Vec<String>,
}

/// Counts of both drivers. Set-up must have built the program.
///
/// # Errors
/// When a case fails or none matches.
pub fn work(layout: &Layout, steps: &Steps, options: &Options) -> Result<Vec<GpuWork>> {
    let folder = programs::ensure(layout, steps, options.target)?;
    let of_driver = |name: &&str| {
        let output = steps.step("Counting", |step| count(layout, step, options, &folder, name))?;
        let case = output.rows.iter().map(Row::case).collect();
        Ok(GpuWork {
            driver: (*name).to_owned(),
            pm4: options.command_buffer_mode == Some(CommandBufferMode::Pm4),
            case,
        })
    };
    options.drivers.names().iter().map(of_driver).collect()
}

/// Counts and prints the table. Set-up must have built the program.
///
/// # Errors
/// When a case fails or none matches.
pub fn run(layout: &Layout, steps: &Steps, options: &Options) -> Result<()> {
    let names = options.drivers.names();
    let folder = programs::ensure(layout, steps, options.target)?;
    let outputs =
        steps.step("Counting", |step| names.iter().map(|name| count(layout, step, options, &folder, name)).collect());
    let outputs: Vec<Output> = outputs?;
    print!("{}", table(names, &outputs));
    Ok(())
}

fn count(layout: &Layout, step: &Step, options: &Options, folder: &Path, driver: &str) -> Result<Output> {
    let mut output = Output::default();
    let arguments = [format!("--driver={driver}"), "--mode=gpu-cost".to_owned()];
    let ended = follow(layout, step, options, folder, &arguments, |line| output.line(line))?;
    check(ended, &output.other)?;
    Ok(output)
}

impl Output {
    fn line(&mut self, line: &str) {
        if self.count(line).is_some() {
            return;
        }
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["refused", case, _, why] => self.refusals.push((case.to_owned(), why.to_owned())),
            _ => self.other.push(line.to_owned()),
        }
    }

    /// Parses a line of the format that `benches/submit.c` describes. Returns `None` for any other line.
    fn count(&mut self, line: &str) -> Option<()> {
        let words: Vec<_> = line.split(' ').collect();
        let (case, name, count) = match words[..] {
            ["cost", case, _, operations, name, count] => {
                (case, name, count.parse::<f64>().ok()? / operations.parse::<f64>().ok()?)
            }
            ["level", case, _, name, value] => (case, name, value.parse::<f64>().ok()? / f64::from(1 << 20)),
            _ => return None,
        };
        let kind = KINDS.iter().position(|(known, ..)| *known == name)?;
        if self.rows.last().is_none_or(|row| row.case != case) {
            self.rows.push(Row { case: case.to_owned(), counts: [None; KINDS.len()] });
        }
        self.rows.last_mut()?.counts[kind] = Some(count);
        Some(())
    }

    fn get(&self, case: &str, kind: usize) -> Option<f64> {
        self.rows.iter().find(|row| row.case == case)?.counts[kind]
    }
}

/// Formats the counts of each driver and, with two drivers, the ratios of the first one's to the second one's. Leaves
/// out counts that are 0 for all drivers.
fn table(names: &[&str], outputs: &[Output]) -> String {
    let mut text = format!("{:29}", "for each operation");
    for name in names {
        text += &format!(" {name:>12}");
    }
    text += if names.len() == 2 { "    ratio\n" } else { "\n" };
    let (mut lower, mut same, mut higher) = (0, 0, 0);
    let cases = outputs.iter().max_by_key(|output| output.rows.len()).map_or(&[][..], |output| &output.rows);
    for case in cases.iter().map(|row| &row.case) {
        let _ = writeln!(text, "{case}");
        for (kind, (_, title, less_is_better)) in KINDS.iter().enumerate() {
            let counts: Vec<_> = outputs.iter().map(|output| output.get(case, kind)).collect();
            if counts.iter().all(|count| count.is_none_or(|count| count == 0.0)) {
                continue;
            }
            let _ = write!(text, "  {title:27}");
            for count in &counts {
                text += &count.map_or_else(|| format!(" {:>12}", "refused"), |count| format!(" {count:12.4}"));
            }
            if let [Some(ours), Some(others)] = counts[..] {
                let _ = write!(text, " {:>8}", ratio(ours, others));
                if *less_is_better {
                    *match ours.total_cmp(&others) {
                        Ordering::Less => &mut lower,
                        Ordering::Equal => &mut same,
                        Ordering::Greater => &mut higher,
                    } += 1;
                }
            }
            text += "\n";
        }
    }
    for (name, output) in names.iter().zip(outputs) {
        for (case, why) in &output.refusals {
            let _ = writeln!(text, "{name} refuses {case}: {why}");
        }
    }
    if let [ours, others] = names {
        let _ = writeln!(
            text,
            "Of the counts of which less is better, {ours} has {lower} lower than {others}, {same} the same, {higher} higher."
        );
    }
    text
}

fn ratio(ours: f64, others: f64) -> String {
    if others == 0.0 { "-".to_owned() } else { format!("{:.2}", ours / others) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Output {
        let mut output = Output::default();
        text.lines().for_each(|line| output.line(line));
        output
    }

    #[test]
    fn counts_are_for_each_operation_and_those_of_nothing_are_left_out() {
        let ours = output(
            "cost a amdgpu_rs 4 dispatch_packets 4\ncost a amdgpu_rs 4 interrupts 2\ncost a amdgpu_rs 4 pm4_commands 0\n\
             level a amdgpu_rs vram_bytes 1048576",
        );
        let others = output(
            "cost a amdgpu 4 dispatch_packets 4\ncost a amdgpu 4 interrupts 4\ncost a amdgpu 4 pm4_commands 0\n\
             level a amdgpu vram_bytes 0",
        );
        let table = table(&["amdgpu_rs", "amdgpu"], &[ours, others]);
        let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["a"]);
        assert_eq!(rows[2], ["dispatch", "packets", "1.0000", "1.0000", "1.00"]);
        assert_eq!(rows[3], ["interrupts", "0.5000", "1.0000", "0.50"]);
        assert_eq!(rows[4], ["VRAM", "in", "the", "end,", "MiB", "1.0000", "0.0000", "-"]);
        assert!(table.ends_with("amdgpu_rs has 1 lower than amdgpu, 1 the same, 1 higher.\n"), "{table}");
    }

    #[test]
    fn a_refused_case_has_no_counts_and_a_reason() {
        let ours = output("cost a amdgpu_rs 1 interrupts 1\ncost b amdgpu_rs 1 interrupts 1");
        let others = output("cost a amdgpu 1 interrupts 1\nrefused b amdgpu x.c:1: UNIMPLEMENTED");
        let table = table(&["amdgpu_rs", "amdgpu"], &[ours, others]);
        assert!(table.contains("refused"), "{table}");
        assert!(table.contains("amdgpu refuses b: x.c:1: UNIMPLEMENTED"), "{table}");
    }

    #[test]
    fn lines_of_other_forms_are_errors() {
        let text = "cost a amdgpu_rs x interrupts 1\ncost a amdgpu_rs 1 unheard_of 1\nlevel a amdgpu_rs vram_bytes\nno";
        assert_eq!(output(text).other.len(), 4);
    }
}
