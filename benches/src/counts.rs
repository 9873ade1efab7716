// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask bench --counts`: instruction counts of the submitting thread for each operation (`benches/counts.c`),
//! in this driver, in IREE's C driver and of the floor.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::results::Case;
use super::{Drivers, FLOOR, Options, check, follow, number, programs, summary};
use xtask_core::error::{Error, Result};
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};

/// Counts, with their names in the table. The table has ratios of the first.
pub const KINDS: [(&str, &str); 5] = [
    ("instructions", "instructions"),
    ("locked", "locked"),
    ("allocations", "allocations"),
    ("system_calls", "system calls"),
    ("hsa_calls", "HSA calls"),
];

/// Number of times that each case is counted.
const ROUNDS: u32 = 2;

/// Maximum relative difference between the instruction counts of the rounds.
const REPEATS: f64 = 0.01;

/// Count of each of [`KINDS`] for one operation.
pub type Counts = [f64; KINDS.len()];

/// One case of one driver or the floor: its counts in each round.
#[derive(Debug, PartialEq)]
struct Row {
    case: String,
    driver: String,
    rounds: Vec<Counts>,
}

/// Parsed output of the program so far.
#[derive(Default)]
struct Output {
    rows: Vec<Row>,
    /// Cases that a driver refuses: case, driver, reason.
    refusals: Vec<[String; 3]>,
    other: Vec<String>,
}

/// Counts and prints the table. Set-up must have built the program.
///
/// # Errors
/// When a case fails or none matches.
pub fn run(layout: &Layout, steps: &Steps, options: &Options) -> Result<()> {
    let folder = programs::ensure(layout, steps, options.target)?;
    let output = steps.step("Counting", |step| count(layout, step, options, &folder))?;
    print!("{}", output.table(options.drivers.names()));
    Ok(())
}

/// Instructions of each case, of the floor and of both drivers. Set-up must have built the program.
///
/// # Errors
/// When a case fails or none matches.
pub fn cases(layout: &Layout, steps: &Steps, options: &Options) -> Result<Vec<Case>> {
    let folder = programs::ensure(layout, steps, options.target)?;
    let output = steps.step("Counting", |step| count(layout, step, options, &folder))?;
    let [ours, c] = [Drivers::AmdgpuRs, Drivers::Amdgpu].map(|driver| driver.names()[0]);
    let cases = output.cases().into_iter().map(|name| {
        let [floor, ours, c] = [FLOOR, ours, c].map(|driver| output.get(name, driver).map(|counts| counts[0]));
        Case { name: name.to_owned(), floor, ours, c }
    });
    Ok(cases.collect())
}

/// Counts the cases of one driver. Set-up must have built the program.
///
/// # Errors
/// When a case fails or none matches, or the driver refuses a case.
pub fn of_one_driver(layout: &Layout, steps: &Steps, options: &Options) -> Result<BTreeMap<String, Counts>> {
    let folder = programs::ensure(layout, steps, options.target)?;
    let output = steps.step("Counting", |step| count(layout, step, options, &folder))?;
    if let Some([case, driver, why]) = output.refusals.first() {
        return Err(Error::Failed(format!("{driver} refuses {case}: {why}")));
    }
    let rows = output.rows.iter().filter(|row| row.driver != FLOOR);
    Ok(rows.map(|row| (row.case.clone(), row.counts())).collect())
}

fn count(layout: &Layout, step: &Step, options: &Options, folder: &Path) -> Result<Output> {
    let mut output = Output::default();
    let mut arguments: Vec<_> = options.drivers.names().iter().map(|name| format!("--driver={name}")).collect();
    arguments.push("--mode=counts".to_owned());
    arguments.push(format!("--repeat={ROUNDS}"));
    let ended = follow(layout, step, options, folder, &arguments, |line| output.line(line))?;
    check(ended, &output.other)?;
    Ok(output)
}

impl Row {
    /// The mean of the rounds.
    fn counts(&self) -> Counts {
        std::array::from_fn(|kind| {
            self.rounds.iter().map(|round| round[kind]).sum::<f64>() / self.rounds.len().max(1) as f64
        })
    }

    /// True if the instruction counts of all rounds agree within [`REPEATS`].
    fn repeats(&self) -> bool {
        let instructions = self.rounds.iter().map(|round| round[0]);
        let least = instructions.clone().fold(f64::INFINITY, f64::min);
        instructions.fold(0.0, f64::max) <= least * (1.0 + REPEATS)
    }
}

impl Output {
    fn line(&mut self, line: &str) {
        if self.count(line).is_some() {
            return;
        }
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["refused", case, driver, why] => self.refusals.push([case, driver, why].map(str::to_owned)),
            _ => self.other.push(line.to_owned()),
        }
    }

    /// Parses a line of the format that `benches/submit.c` describes. Returns `None` for any other line.
    fn count(&mut self, line: &str) -> Option<()> {
        let words: Vec<_> = line.split(' ').collect();
        let ["count", case, driver, operations, name, count] = words[..] else { return None };
        let count = count.parse::<f64>().ok()? / operations.parse::<f64>().ok()?;
        let kind = KINDS.iter().position(|(known, _)| *known == name)?;
        let index = self.rows.iter().position(|row| row.case == case && row.driver == driver).unwrap_or_else(|| {
            self.rows.push(Row { case: case.to_owned(), driver: driver.to_owned(), rounds: Vec::new() });
            self.rows.len() - 1
        });
        let rounds = &mut self.rows[index].rounds;
        if kind == 0 {
            rounds.push([0.0; KINDS.len()]);
        }
        rounds.last_mut()?[kind] = count;
        Some(())
    }

    fn get(&self, case: &str, driver: &str) -> Option<Counts> {
        self.rows.iter().find(|row| row.case == case && row.driver == driver).map(Row::counts)
    }

    /// The cases, in their order.
    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases
    }

    /// Formats the table: instructions of the floor and of each driver; with two drivers, the ratio of the first one's
    /// to the second one's; the ratio of the first one's to the floor's; then each driver's other counts.
    fn table(&self, names: &[&str]) -> String {
        let mut text = format!("{:29} {:>9}", "instructions per operation", FLOOR);
        for name in names {
            let _ = write!(text, " {name:>10}");
        }
        if names.len() == 2 {
            text += "   ratio";
        }
        text += " / floor";
        for (_, title) in &KINDS[1..] {
            let _ = write!(text, "   {:>width$}", title, width = 8 * names.len() - 1);
        }
        text += "\n";
        let mut ratios = Vec::new();
        for case in self.cases() {
            let counts: Vec<_> = names.iter().map(|name| self.get(case, name)).collect();
            let floor = self.get(case, FLOOR).map(|counts| counts[0]);
            let _ = write!(text, "{case:29} {}", number(floor, 9, 1));
            for counts in &counts {
                let _ = write!(text, " {}", number(counts.map(|counts| counts[0]), 10, 1));
            }
            if let [ours, others] = counts[..] {
                let ratio = ours.zip(others).map(|(ours, others)| ours[0] / others[0]);
                ratios.extend(ratio);
                let _ = write!(text, " {}", number(ratio, 7, 2));
            }
            let to_floor = counts[0].zip(floor).map(|(ours, floor)| ours[0] / floor);
            let _ = write!(text, " {}", number(to_floor, 7, 1));
            for kind in 1..KINDS.len() {
                text += "  ";
                for counts in &counts {
                    let _ = write!(text, " {}", number(counts.map(|counts| counts[kind]), 7, 2));
                }
            }
            text += "\n";
        }
        text += &summary("instructions", &ratios);
        for row in self.rows.iter().filter(|row| !row.repeats()) {
            let rounds: Vec<_> = row.rounds.iter().map(|round| format!("{:.1}", round[0])).collect();
            let _ = writeln!(text, "{} of {} does not repeat: {}", row.case, row.driver, rounds.join(", "));
        }
        for [case, driver, why] in &self.refusals {
            let _ = writeln!(text, "{driver} refuses {case}: {why}");
        }
        text
    }
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
    fn counts_are_for_each_operation_and_means_of_rounds() {
        let output = output(
            "count a amdgpu_rs 4 instructions 400\ncount a amdgpu_rs 4 locked 8\ncount a amdgpu 4 instructions 1600\n\
             count a floor 4 instructions 40\ncount a amdgpu_rs 4 instructions 402\ncount a amdgpu_rs 4 locked 8",
        );
        let table = output.table(&["amdgpu_rs", "amdgpu"]);
        let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..7], ["a", "10.0", "100.2", "400.0", "0.25", "10.0", "2.00"]);
        assert!(!table.contains("does not repeat"), "{table}");
        assert!(table.contains("geometric mean of instructions: 0.25; at most 0.70: 1 of 1 cases"), "{table}");
    }

    #[test]
    fn rounds_that_differ_and_refusals_are_told() {
        let output = output(
            "count a amdgpu_rs 1 instructions 100\ncount a amdgpu_rs 1 instructions 102\nrefused b amdgpu x.c:1: UNIMPLEMENTED",
        );
        let table = output.table(&["amdgpu_rs", "amdgpu"]);
        assert!(table.contains("a of amdgpu_rs does not repeat: 100.0, 102.0"), "{table}");
        assert!(table.contains("amdgpu refuses b: x.c:1: UNIMPLEMENTED"), "{table}");
    }

    #[test]
    fn lines_of_other_forms_are_errors() {
        assert_eq!(output("count a amdgpu_rs x locked 1\ncount a amdgpu_rs 1 unheard_of 1\nno").other.len(), 3);
    }
}
