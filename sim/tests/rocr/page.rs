// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Consistency of `docs/sim/rocr.md`: each entry describes the sim's behaviour, names existing tests, and is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/sim/rocr.md");
const SOURCES: [(&str, &str); 8] = [
    ("code", include_str!("code.rs")),
    ("dmabuf", include_str!("dmabuf.rs")),
    ("environment", include_str!("environment.rs")),
    ("hip", include_str!("hip.rs")),
    ("memory", include_str!("memory.rs")),
    ("queues", include_str!("queues.rs")),
    ("runtime", include_str!("runtime.rs")),
    ("signals", include_str!("signals.rs")),
];

/// An entry of the page: `* **function**: behaviour of ROCR. *Sim:* behaviour. *Test:* tests.`
#[derive(Debug)]
struct Entry {
    sim: &'static str,
    /// Text after `*Test:*`; empty without it.
    tests: &'static str,
}

impl Entry {
    /// The first word of the sim's behaviour.
    fn verdict(&self) -> &'static str {
        self.sim.split([':', ' ', ',', '.']).next().unwrap_or_default()
    }
}

/// All entries. Every list item below the first heading of a section has to be one.
fn entries() -> Vec<Entry> {
    let entry = |item: &'static str| {
        let item = item.split("\n\n").next().unwrap_or_default();
        let (_, sim) = item.split_once("*Sim:* ").unwrap_or_else(|| panic!("no behaviour of the sim: {item}"));
        let (sim, tests) = sim.split_once("*Test:*").unwrap_or((sim, ""));
        Entry { sim, tests }
    };
    let (_, sections) = PAGE.split_once("\n## ").expect("a section");
    sections.split("\n* **").skip(1).map(entry).collect()
}

#[test]
fn every_entry_has_the_sims_behaviour_and_names_tests_that_exist() {
    let names = |(module, source): &(&str, &str)| -> Vec<String> {
        let tests = source.split("#[test]\nfn ").skip(1);
        tests.map(|test| format!("{module}::{}", test.split('(').next().unwrap_or_default())).collect()
    };
    let known: BTreeSet<_> = SOURCES.iter().flat_map(names).collect();
    let mut named = BTreeSet::new();
    for entry in entries() {
        let tests: Vec<_> = entry.tests.split('`').skip(1).step_by(2).collect();
        match entry.verdict() {
            "same" | "stricter" => {}
            "cannot" | "kinder" => assert!(tests.is_empty(), "a test of missing behaviour: {entry:?}"),
            other => panic!("'{other}' is none of same, stricter, kinder, cannot: {entry:?}"),
        }
        for test in tests {
            // Tests elsewhere are named by their file.
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(test);
            assert!(known.contains(test) || test.contains('/') && file.is_file(), "no test {test}");
            named.insert(test.to_owned());
        }
    }
    let unnamed: Vec<_> = known.difference(&named).collect();
    assert!(unnamed.is_empty(), "tests that no entry names: {unnamed:?}");
}

#[test]
fn the_counts_at_the_end_are_those_of_the_entries() {
    let mut counts = BTreeMap::<_, usize>::new();
    let entries = entries();
    for entry in &entries {
        *counts.entry(entry.verdict()).or_default() += 1;
        *counts.entry("tested").or_default() += usize::from(!entry.tests.is_empty());
    }
    let count = |what| counts.get(what).copied().unwrap_or_default();
    let expected = format!(
        "{} entries: {} the same, {} stricter, {} kinder, {} not possible; {} tested.",
        entries.len(),
        count("same"),
        count("stricter"),
        count("kinder"),
        count("cannot"),
        count("tested")
    );
    assert!(PAGE.trim_end().ends_with(&expected), "the page should end: {expected}");
}
