// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Consistency of `docs/sim/rocr.md`: each row describes the sim's behaviour, names existing tests, and is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/sim/rocr.md");
const SOURCES: [(&str, &str); 7] = [
    ("code", include_str!("code.rs")),
    ("environment", include_str!("environment.rs")),
    ("hip", include_str!("hip.rs")),
    ("memory", include_str!("memory.rs")),
    ("queues", include_str!("queues.rs")),
    ("runtime", include_str!("runtime.rs")),
    ("signals", include_str!("signals.rs")),
];

/// Cells of each row: function, behaviour of ROCR, sim, test.
fn rows() -> Vec<[&'static str; 4]> {
    let cells = |line: &'static str| -> Option<[&'static str; 4]> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        <[&str; 4]>::try_from(inner.split(" | ").map(str::trim).collect::<Vec<_>>()).ok()
    };
    PAGE.lines().filter_map(cells).filter(|row| row[0] != "function" && !row[0].starts_with("---")).collect()
}

/// The first word of the third cell.
fn verdict(row: &[&'static str; 4]) -> &'static str {
    row[2].split([':', ' ', ',']).next().unwrap_or_default()
}

#[test]
fn every_row_says_what_the_sim_does_and_names_tests_that_exist() {
    let names = |(module, source): &(&str, &str)| -> Vec<String> {
        let tests = source.split("#[test]\nfn ").skip(1);
        tests.map(|test| format!("{module}::{}", test.split('(').next().unwrap_or_default())).collect()
    };
    let known: BTreeSet<_> = SOURCES.iter().flat_map(names).collect();
    let mut named = BTreeSet::new();
    for row in rows() {
        let tests: Vec<_> = row[3].split('`').skip(1).step_by(2).collect();
        match verdict(&row) {
            "same" | "stricter" => {}
            "cannot" | "kinder" => assert!(tests.is_empty(), "a test of what is not done: {row:?}"),
            other => panic!("'{other}' is none of same, stricter, kinder, cannot: {row:?}"),
        }
        for test in tests {
            // Tests elsewhere are named by their file.
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(test);
            assert!(known.contains(test) || test.contains('/') && file.is_file(), "no test {test}");
            named.insert(test.to_owned());
        }
    }
    let unnamed: Vec<_> = known.difference(&named).collect();
    assert!(unnamed.is_empty(), "tests that no row names: {unnamed:?}");
}

#[test]
fn the_counts_at_the_end_are_those_of_the_rows() {
    let mut counts = BTreeMap::<_, usize>::new();
    let rows = rows();
    for row in &rows {
        *counts.entry(verdict(row)).or_default() += 1;
        *counts.entry("tested").or_default() += usize::from(row[3].contains('`'));
    }
    let count = |what| counts.get(what).copied().unwrap_or_default();
    let expected = format!(
        "{} rows: {} the same, {} stricter, {} kinder, {} not possible; {} tested.",
        rows.len(),
        count("same"),
        count("stricter"),
        count("kinder"),
        count("cannot"),
        count("tested")
    );
    assert!(PAGE.trim_end().ends_with(&expected), "the page should end: {expected}");
}
