// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The workflow of GitHub Actions and the container recipe do what `.ci/run` does.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The project's commands in a script or a workflow, in order. The report of the tests does not count.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("cargo xtask "));
    lines.map(|line| line.replace(" --junit report.xml", "")).collect()
}

/// The packages that a text has apt-get install.
fn packages(text: &str) -> Vec<&str> {
    let line = text.lines().find(|line| line.contains("apt-get install")).expect("a line installs packages");
    let (_, names) = line.split_once("--no-install-recommends ").expect("the line names packages");
    names.split_whitespace().take_while(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())).collect()
}

#[test]
fn the_workflow_runs_the_commands_of_the_ci_script() {
    let script = commands(&read(".ci/run"));
    assert!(script.len() >= 2, "{script:?}");
    assert_eq!(commands(&read(".github/workflows/ci.yml")), script);
}

#[test]
fn the_workflow_and_the_container_have_what_the_ci_script_installs() {
    let script = read(".ci/run");
    let needed = packages(&script);
    assert!(needed.contains(&"gcc"), "{needed:?}");
    for path in [".github/workflows/ci.yml", "Containerfile"] {
        let text = read(path);
        let installed = packages(&text);
        let missing: Vec<_> = needed.iter().filter(|name| !installed.contains(name)).collect();
        assert!(missing.is_empty(), "{path} does not install {missing:?}");
    }
}

#[test]
fn the_workflow_and_the_container_have_the_rust_that_the_project_asks_for() {
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a Rust version");
    let version = version.trim_matches('"');
    assert!(read(".github/workflows/ci.yml").contains(&format!("RUST: \"{version}\"")));
    assert!(read("Containerfile").contains(&format!("ARG RUST={version}\n")));
}
