// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Checks that `docs/status/parity.md` explains each flag, environment variable and profiling mode that IREE's C driver
//! has by its sources, and names tests that exist. The probes compare the two drivers' behaviour and messages
//! (`tests/probes`: `flags`, `queries`, `capabilities`, `memory_types`, `embedding` and others), in a program that has
//! both.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use amdgpu_rs::ffi::Code;
use support::Rig;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the IREE tree in use.
fn iree(path: &str) -> PathBuf {
    let tree = std::env::var_os("IREE_SOURCE_DIR").map_or_else(|| root().join("build/iree"), PathBuf::from);
    tree.join("runtime/src/iree").join(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page() -> String {
    read(&root().join("docs/status/parity.md"))
}

/// Texts between each `begin` in `text` and the next `end`.
fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split_once(end).map(|(found, _)| found))
}

/// The names of the C driver's flags, as its sources have them.
fn flags_of_c() -> BTreeSet<String> {
    let text = read(&iree("hal/drivers/amdgpu/registration/driver_module.c"));
    let declarations = ["\nIREE_FLAG(", "\nIREE_FLAG_LIST("];
    let names = declarations.iter().flat_map(|begin| text.split(begin).skip(1)).map(|arguments| {
        let name = arguments.split(',').nth(1).unwrap().trim();
        name.strip_prefix("amdgpu_").unwrap_or_else(|| panic!("a flag of another name: {name}")).to_owned()
    });
    let names: BTreeSet<_> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

/// Flags of this driver.
fn own_flags() -> BTreeSet<String> {
    let text = read(&root().join("registration/driver_module.c"));
    let lists = ["NUMBER", "WORD", "SWITCH"].map(|list| {
        let begin = format!("#define AMDGPU_RS_{list}_FLAGS(X)");
        between(&text, &begin, "\n\n").next().expect("a list of flags").to_owned()
    });
    let names = lists.iter().flat_map(|list| between(list, "\n  X(", ",")).map(|name| name.trim().to_owned());
    names.chain(["libhsa_search_path".to_owned()]).collect()
}

#[test]
fn every_flag_is_a_parameter_of_a_uri() {
    let own = own_flags();
    // An unknown one is answered with the known.
    let status = Rig::open("", &[("no_such_option", "1")]).map(drop).expect_err("there is none");
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
    let text = status.to_string();
    let known = text.split_once("known options: ").expect("a list").1;
    let known: BTreeSet<_> =
        known.split([',', ' ', '\n', ';']).map(str::trim).filter(|key| own.contains(*key)).collect();
    assert_eq!(known, own.iter().map(String::as_str).collect(), "{text}");
}

#[test]
fn every_flag_and_variable_and_mode_is_explained() {
    let page = page();
    let mut missing = Vec::new();
    let mut check = |what: &str, name: &str| {
        if !page.contains(&format!("`{name}`")) {
            missing.push(format!("{what} {name}"));
        }
    };
    for name in flags_of_c().union(&own_flags()) {
        check("flag", name);
    }
    for path in sources(&iree("hal/drivers/amdgpu"), &["c", "h"]) {
        let text = read(&path);
        for name in between(&text, "getenv(\"", "\")") {
            check("variable", name);
        }
    }
    let tool = read(&iree("tooling/device_util.c"));
    let modes = between(&tool, "iree_hal_device_profiling_data_families_from_flags(", "\n}").next().expect("modes");
    let modes: Vec<_> = between(modes, "IREE_SV(\"", "\")").collect();
    assert!(modes.len() > 5, "{modes:?}");
    for mode in modes {
        // Another name for counter-ranges.
        if mode != "pmc-ranges" {
            check("profiling mode", mode);
        }
    }
    let begin_of_flags = ["IREE_FLAG(", "IREE_FLAG_LIST("];
    let names = begin_of_flags.iter().flat_map(|begin| between(&tool, begin, ")")).filter_map(|arguments| {
        arguments.split(',').nth(1).map(str::trim).filter(|name| name.starts_with("device_capture_"))
    });
    for name in names.collect::<Vec<_>>() {
        check("flag of IREE's tools", &format!("--{name}"));
    }
    assert!(missing.is_empty(), "docs/status/parity.md says nothing of: {missing:#?}");
}

/// Files below `folder` of these kinds.
fn sources(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path, extensions));
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known)) {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_tests_that_the_page_names_exist() {
    let page = page();
    let mut named = 0;
    for line in page.lines() {
        // A file, and the functions after it up to the next file.
        let mut file = None;
        for (name, is_function) in between_ticks(line) {
            if name.ends_with(".rs") && name.contains('/') {
                let text = read(&root().join(name));
                file = Some((name, text));
            } else if let Some((path, text)) = &file
                && is_function
            {
                assert!(text.contains(&format!("fn {name}(")), "{path} has no {name}");
                named += 1;
            }
        }
    }
    assert!(named > 20, "{named}");
}

/// The parts of a line in backticks, each with whether it comes after a `›` or in a list after one.
fn between_ticks(line: &str) -> Vec<(&str, bool)> {
    let parts: Vec<_> = line.split('`').collect();
    let mut after_mark = false;
    let mut found = Vec::new();
    for pair in parts.chunks(2) {
        let [before, name] = pair else { break };
        after_mark = before.contains('›') || (after_mark && before.trim() == ",");
        found.push((*name, after_mark));
    }
    found
}
