// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Whether what IREE's C driver can be told is known here: its flags, URI parameters, environment variables and
//! profiling modes, as its sources have them, are this driver's and in `docs/parity.md`; and whether that page has what
//! this driver refuses.

mod support;

use std::collections::{BTreeMap, BTreeSet};
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
    read(&root().join("docs/parity.md"))
}

/// What follows each `begin` in `text`, up to `end`.
fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split_once(end).map(|(found, _)| found))
}

/// The flags of the C driver's sources: type and default by name.
fn flags_of_c() -> BTreeMap<String, (String, String)> {
    let text = read(&iree("hal/drivers/amdgpu/registration/driver_module.c"));
    let mut flags = BTreeMap::new();
    for arguments in text.split("\nIREE_FLAG(").skip(1) {
        let mut parts = arguments.splitn(4, ',').map(str::trim);
        let (kind, name, default) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let name = name.strip_prefix("amdgpu_").unwrap_or_else(|| panic!("a flag of another name: {name}"));
        flags.insert(name.to_owned(), (kind.to_owned(), default.trim_matches('"').to_owned()));
    }
    for arguments in text.split("\nIREE_FLAG_LIST(").skip(1) {
        let name = arguments.split(',').nth(1).unwrap().trim().strip_prefix("amdgpu_").unwrap();
        flags.insert(name.to_owned(), ("list".to_owned(), String::new()));
    }
    let count = text.matches("\nIREE_FLAG(").count() + text.matches("\nIREE_FLAG_LIST(").count();
    assert!(count > 0 && flags.len() == count, "{count} flags, of which {} were read", flags.len());
    flags
}

/// Those of this driver.
fn own_flags() -> BTreeMap<String, (String, String)> {
    let text = read(&root().join("registration/driver_module.c"));
    let mut flags = BTreeMap::new();
    for (list, kind) in [("NUMBER", "number"), ("WORD", "string"), ("SWITCH", "bool")] {
        let begin = format!("#define AMDGPU_RS_{list}_FLAGS(X)");
        let body = between(&text, &begin, "\n\n").next().expect("a list of flags");
        for arguments in body.split("\n  X(").skip(1) {
            let mut parts = arguments.splitn(3, ',').map(|part| part.trim().trim_matches('"'));
            let name = parts.next().unwrap();
            let default = if kind == "number" { "0" } else { parts.next().unwrap() };
            flags.insert(name.to_owned(), (kind.to_owned(), default.to_owned()));
        }
    }
    flags.insert("libhsa_search_path".to_owned(), ("list".to_owned(), String::new()));
    flags
}

#[test]
fn every_flag_of_the_c_driver_is_one_here_with_the_same_default() {
    let (theirs, own) = (flags_of_c(), own_flags());
    for (name, (kind, default)) in &theirs {
        let (own_kind, own_default) =
            own.get(name).unwrap_or_else(|| panic!("the C driver's flag --amdgpu_{name} is none of this driver's"));
        let kind = if kind.starts_with("int") { "number" } else { kind };
        assert_eq!((own_kind.as_str(), own_default), (kind, default), "{name}");
    }
    // They are parameters of a device's URI, too: an unknown one is answered with the known.
    let status = Rig::open("", &[("no_such_option", "1")]).map(drop).expect_err("there is none");
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
    let text = status.to_string();
    let known = text.split_once("known options: ").expect("a list").1;
    let known: BTreeSet<_> =
        known.split([',', ' ', '\n', ';']).map(str::trim).filter(|key| own.contains_key(*key)).collect();
    assert_eq!(known, own.keys().map(String::as_str).collect(), "{text}");
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
    for name in flags_of_c().keys().chain(own_flags().keys()) {
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
    assert!(missing.is_empty(), "docs/parity.md says nothing of: {missing:#?}");
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

/// The driver's sources without tests, texts in one line as the compiler has them.
fn own_sources() -> String {
    let paths = sources(&root().join("src"), &["rs"]).into_iter();
    let texts = paths.filter(|path| !path.to_str().is_some_and(|path| path.ends_with("_test.rs"))).map(|path| {
        let text = read(&path);
        let mut parts = text.split("#[cfg(test)]\nmod tests {").next().unwrap().split("\\\n");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.trim_start())
    });
    texts.collect()
}

/// The messages that the page says are left, in its order.
fn refusals(page: &str) -> Vec<&str> {
    let section = page.split_once("\n## What is refused\n").expect("a section").1;
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(message, _)| message)
        .collect()
}

#[test]
fn every_refusal_is_listed() {
    let (page, sources) = (page(), own_sources());
    let listed = refusals(&page);
    let options = |text: &str| listed.contains(&text) || listed.contains(&format!("option {text}").as_str());
    let mut found = 0;
    for code in ["UNIMPLEMENTED", "UNAVAILABLE"] {
        for rest in sources.split(&format!("{code},")).skip(1) {
            let Some(text) = rest.trim_start().strip_prefix('"') else { continue };
            let text = &text[..text.find('"').expect("the end of a text")];
            found += 1;
            // Which options those are is below.
            assert!(
                text == "option {text}" || options(text),
                "docs/parity.md does not list what is refused as '{text}'"
            );
        }
    }
    assert!(found > 10, "{found}");
    let of_options = between(&sources, "let unsupported = [", "];").next().expect("the options that are refused");
    let of_options: Vec<_> = of_options.split('"').skip(1).step_by(2).collect();
    assert!(of_options.len() > 1 && of_options.iter().all(|text| options(text)), "{of_options:?}");
}

#[test]
fn every_refusal_that_is_listed_is_in_the_sources() {
    let (page, sources) = (page(), own_sources());
    for message in refusals(&page) {
        let text = message.strip_prefix("option ").unwrap_or(message);
        assert!(sources.contains(text), "nothing says '{message}'");
    }
}

/// The C driver takes no parameters: one that it comes to take would have to be taken here.
#[test]
fn the_c_driver_takes_no_parameters() {
    for (file, function) in [
        ("logical_device.c", "iree_hal_amdgpu_logical_device_options_parse("),
        ("driver.c", "iree_hal_amdgpu_driver_options_parse("),
    ] {
        let text = read(&iree("hal/drivers/amdgpu").join(file));
        let body = between(&text, function, "\n}").next().unwrap_or_else(|| panic!("{function} in {file}"));
        assert!(!body.contains("equal("), "{function} compares keys:\n{body}");
    }
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
