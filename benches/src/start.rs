// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Start-up cost of a driver: the time to the end of the first dispatch, and the memory of a device. Each figure is
//! measured in a process of its own.

use std::fmt::Write;
use std::path::Path;

use super::{Options, check, follow, median, number, ratio};
use xtask_core::error::Result;
use xtask_core::layout::Layout;
use xtask_core::steps::{Step, Steps};

/// Figures of a line of the program: name in the table, and the program's units in one unit of the table.
const KINDS: [(&str, f64); 3] =
    [("start to first dispatch, ms", 1e6), ("resident, MiB", (1 << 20) as f64), ("VRAM, MiB", (1 << 20) as f64)];

/// Figures of all processes for each of [`KINDS`].
type Figures = [Vec<f64>; KINDS.len()];

/// Measures each driver `repeat` times and prints the table.
///
/// # Errors
/// When a driver cannot be started.
pub fn run(layout: &Layout, steps: &Steps, options: &Options, folder: &Path) -> Result<()> {
    let names = options.drivers.names();
    print!("{}", table(names, &measure(layout, steps, options, folder)?));
    Ok(())
}

/// Medians of each of [`KINDS`], of this driver and of the C driver.
///
/// # Errors
/// When a driver cannot be started.
pub fn medians(layout: &Layout, steps: &Steps, options: &Options, folder: &Path) -> Result<[[f64; 2]; KINDS.len()]> {
    let figures = measure(layout, steps, options, folder)?;
    Ok(std::array::from_fn(|kind| {
        [0, 1].map(|driver| median(&figures[driver][kind]).unwrap_or_default() / KINDS[kind].1)
    }))
}

/// Starts each driver `repeat` times.
fn measure(layout: &Layout, steps: &Steps, options: &Options, folder: &Path) -> Result<Vec<Figures>> {
    let names = options.drivers.names();
    let mut figures = vec![Figures::default(); names.len()];
    steps.step("Starting", |step| {
        for _ in 0..options.repeat {
            for (name, figures) in names.iter().zip(&mut figures) {
                let new = start(layout, step, options, folder, name)?;
                figures.iter_mut().zip(new).for_each(|(all, new)| all.push(new));
            }
        }
        Ok(())
    })?;
    Ok(figures)
}

fn start(layout: &Layout, step: &Step, options: &Options, folder: &Path, driver: &str) -> Result<[f64; KINDS.len()]> {
    let arguments = [format!("--driver={driver}"), "--mode=start".to_owned()];
    let (mut found, mut other) = (None, Vec::new());
    let ended = follow(layout, step, options, folder, &arguments, |line| match parse(line) {
        Some(figures) => found = Some(figures),
        None => other.push(line.to_owned()),
    })?;
    check(ended, &other)?;
    found.ok_or_else(|| xtask_core::error::Error::Failed(format!("{driver} printed no figures")))
}

/// Parses a line of the format that `benches/submit.c` describes. Returns `None` for any other line.
fn parse(line: &str) -> Option<[f64; KINDS.len()]> {
    let words: Vec<_> = line.split(' ').collect();
    let ["start", _, figures @ ..] = &words[..] else { return None };
    let figures: Vec<f64> = figures.iter().map(|figure| figure.parse().ok()).collect::<Option<_>>()?;
    figures.try_into().ok()
}

fn table(names: &[&str], figures: &[Figures]) -> String {
    let mut text = format!("{:29}", "a device");
    for name in names {
        let _ = write!(text, " {name:>10}");
    }
    text += if names.len() == 2 { "   ratio\n" } else { "\n" };
    for (kind, (title, unit)) in KINDS.iter().enumerate() {
        let _ = write!(text, "{title:29}");
        for figures in figures {
            let _ = write!(text, " {}", number(median(&figures[kind]).map(|value| value / unit), 10, 2));
        }
        if let [ours, others] = figures {
            let _ = write!(text, " {}", number(ratio(&ours[kind], &others[kind]), 7, 2));
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_medians_in_units_and_ratios() {
        assert_eq!(parse("start amdgpu_rs 1000000 2097152 x"), None);
        assert_eq!(parse("start amdgpu_rs 1000000 2097152"), None);
        let of = |line| parse(line).unwrap().map(|figure| vec![figure]);
        let figures = [of("start amdgpu_rs 1000000 2097152 1048576"), of("start amdgpu 4000000 4194304 1048576")];
        let table = table(&["amdgpu_rs", "amdgpu"], &figures);
        let ends: Vec<_> = table.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(ends, ["ratio", "0.25", "0.50", "1.00"]);
        assert!(table.contains(" 1.00       4.00"), "{table}");
    }
}
