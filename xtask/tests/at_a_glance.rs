// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The figures of `docs/status/at-a-glance.md` are those of the pages that it summarizes. The package `bench` compares
//! the tables of benchmarks with their files.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join("docs").join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn glance() -> String {
    read("status/at-a-glance.md")
}

/// Cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The rows below the line with these headings, without the rule.
fn table<'a>(page: &'a str, headings: &str) -> Vec<Vec<&'a str>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(headings)).skip(2);
    let rows: Vec<_> = lines.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table {headings}");
    rows
}

/// The sums of cells `N of M`.
fn sum(cells: &[&str]) -> (u32, u32) {
    let parts = cells.iter().map(|cell| cell.split_once(" of ").unwrap_or_else(|| panic!("{cell} is no rate")));
    parts.fold((0, 0), |(found, all), (a, b)| (found + a.parse::<u32>().unwrap(), all + b.parse::<u32>().unwrap()))
}

#[test]
fn models_and_conformance_are_those_of_verification() {
    let (glance, source) = (glance(), read("status/verification.md"));
    let source = table(&source, "| GPU | models | HAL conformance |");
    for row in table(&glance, "| GPU | models like the CPU |") {
        for gpu in row[0].split(", ") {
            let known = source.iter().find(|known| known[0].split(", ").any(|name| name == gpu)).expect(gpu);
            let is_compiled = !known[1].starts_with("refused");
            let expected = if is_compiled { [known[1], known[2]] } else { ["not compiled", "not run"] };
            assert_eq!([row[1], row[2]], expected, "{gpu}");
        }
    }
}

#[test]
fn triton_figures_are_those_of_its_page() {
    let (glance, page) = (glance(), read("sim/triton.md"));
    let heading = page.lines().find(|line| line.starts_with("| family |")).map(cells).expect("a table of families");
    let all = table(&page, "| family |").into_iter().find(|row| row[0] == "all").expect("a row of all");
    let mut compared = 0;
    for row in table(&glance, "| GPU | models like the CPU |") {
        let Some(column) = heading.iter().position(|gpu| *gpu == row[0]) else { continue };
        assert_eq!(row[3], format!("{} of {}", all[column], all[1]), "{}", row[0]);
        compared += 1;
    }
    assert_eq!(compared, heading.len() - 2);
}

#[test]
fn detection_rates_are_sums_of_their_page() {
    let (glance, page) = (glance(), read("status/checks.md"));
    let rows = table(&glance, "| removed from compiled kernels |");
    let models = table(&page, "| removed | of 56 kernels |");
    assert_eq!(sum(&[rows[0][1]]), sum(&models.iter().find(|row| row[0] == "waits").expect("waits")[2..]));
    let paths = table(&page, "| removed | removals |");
    let paths = paths.iter().filter(|row| !row[0].starts_with("a random") && !row[0].starts_with("random"));
    let (found, all) = paths.fold((0, 0), |(found, all), row| {
        (found + row[2].parse::<u32>().unwrap(), all + row[1].parse::<u32>().unwrap())
    });
    assert_eq!(sum(&[rows[1][1]]), (found, all));
}
