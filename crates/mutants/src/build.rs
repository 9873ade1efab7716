// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Builds the test programs with the driver that contains all changes, below `build/mutants`. Cargo builds the driver's
//! own tests. The linker links IREE's conformance tests from the ordinary build's other parts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::list::Mutant;
use super::programs::{Kind, Program, VARIABLE};
use super::sources::{Crate, FOLDER, Sources, entries};
use xtask_core::cts;
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::setup::{self, Build};
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

/// The crate that IREE links.
const DRIVER: &str = "amdgpu_rs";

/// Source of the module that the branches call to learn which change is in force. Each crate of the driver has one.
const MODULE: &str = "
#[allow(missing_docs)]
pub mod mutant {
    /// True if it is change `number`.
    pub fn is(number: usize) -> bool {
        static NUMBER: std::sync::LazyLock<Option<usize>> =
            std::sync::LazyLock::new(|| std::env::var(\"VARIABLE\").ok()?.parse().ok());
        *NUMBER == Some(number)
    }
}
";

fn folder(layout: &Layout) -> PathBuf {
    layout.build.join("mutants")
}

/// Folder of the driver with the changes: links to everything except its sources.
pub fn tree(layout: &Layout) -> PathBuf {
    folder(layout).join("tree")
}

/// Writes the folder. Unchanged files keep their modification time, so that cargo does not rebuild them.
///
/// # Errors
/// When the list does not fit the sources, or a file cannot be written.
pub fn write_tree(layout: &Layout, sources: &Sources, mutants: &[Mutant]) -> Result<()> {
    let tree = tree(layout);
    fs::create_dir_all(&tree).context(|| format!("making {}", tree.display()))?;
    for name in entries(&layout.root)? {
        let link = tree.join(&name);
        if !matches!(name.to_str(), Some(".git" | FOLDER | "target")) && !link.exists() {
            symlink(layout.root.join(&name), &link).context(|| format!("making {}", link.display()))?;
        }
    }
    let mut texts = sources.with_branches(mutants)?;
    for Crate { root, .. } in &sources.crates {
        let text = match texts.remove(root) {
            Some(text) => text,
            None => read(&layout.root.join(root))?,
        };
        texts.insert(root.clone(), text + &MODULE.replace("VARIABLE", VARIABLE));
    }
    write_sources(layout, Path::new(FOLDER), &texts)
}

/// Writes the files of a folder: those of `texts` with their new texts, all others as they are.
fn write_sources(layout: &Layout, folder: &Path, texts: &BTreeMap<PathBuf, String>) -> Result<()> {
    let target = tree(layout).join(folder);
    fs::create_dir_all(&target).context(|| format!("making {}", target.display()))?;
    for name in entries(&layout.root.join(folder))? {
        let file = folder.join(name);
        let (from, to) = (layout.root.join(&file), tree(layout).join(&file));
        if from.is_dir() {
            write_sources(layout, &file, texts)?;
            continue;
        }
        let text = texts.get(&file).map_or_else(|| read(&from), |text| Ok(text.clone()))?;
        if !fs::read_to_string(&to).is_ok_and(|old| old == text) {
            fs::write(&to, text).context(|| format!("writing {}", to.display()))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).context(|| format!("reading {}", path.display()))
}

/// Builds the programs: the driver's own tests, and the conformance tests for `target`.
///
/// # Errors
/// When a build fails, e.g. because a change does not compile.
pub fn programs(layout: &Layout, steps: &Steps, crates: &[Crate], target: &Target) -> Result<Vec<Program>> {
    setup::everything(layout, steps, Build::Cts(target))?;
    let mut programs = steps.step("The driver's tests with all mutants", |step| driver_tests(layout, step, crates))?;
    let folder = folder(layout).join("cts");
    steps.step("The conformance tests with all mutants", |step| {
        let library = driver(layout, step)?;
        link(layout, step, &library, &folder)
    })?;
    programs.extend(cts::PROGRAMS.iter().map(|program| Program {
        name: (*program).to_owned(),
        path: folder.join(program),
        kind: Kind::Conformance(target.clone()),
    }));
    Ok(programs)
}

/// Creates the command that runs cargo with `arguments` on the driver with the changes.
fn cargo(layout: &Layout, arguments: &[&str]) -> std::process::Command {
    let mut cargo = layout.cargo();
    cargo.current_dir(tree(layout)).args(arguments).args(["--locked", "--target-dir"]);
    cargo.arg(folder(layout).join("target"));
    cargo
}

fn driver_tests(layout: &Layout, step: &Step, crates: &[Crate]) -> Result<Vec<Program>> {
    let mut build = vec!["test", "--no-run", "--lib", "--tests"];
    build.extend(crates.iter().flat_map(|driver| ["--package", &driver.package]));
    step.run(cargo(layout, &build))?;
    // Again, with nothing left to build, for the programs' paths.
    let messages = step.capture(cargo(layout, &[&build[..], &["--message-format=json"]].concat()))?;
    let programs: Vec<_> = String::from_utf8_lossy(&messages).lines().filter_map(test_program).collect();
    if programs.is_empty() { Err(Error::setup("cargo built no tests of the driver")) } else { Ok(programs) }
}

/// Returns the test program that one of cargo's messages names.
fn test_program(message: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let target = &message["target"];
    let name = target["name"].as_str()?;
    let is_library = target["kind"].as_array()?.iter().any(|kind| kind == "lib" || kind == "rlib");
    let name = if is_library { format!("unit tests of {name}") } else { name.to_owned() };
    Some(Program { name, path, kind: Kind::Driver })
}

/// Builds the driver's static library, for the IREE of the ordinary build.
fn driver(layout: &Layout, step: &Step) -> Result<PathBuf> {
    let build = ["rustc", "--package", DRIVER, "--lib", "--crate-type", "staticlib"];
    let command = |extra: &[&str]| {
        let mut command = cargo(layout, &[&build[..], extra].concat());
        command.env("AMDGPU_RS_IREE_CONFIG", plugin(layout).join("iree_config.txt")).env("CC", "clang-22");
        command
    };
    step.run(command(&[]))?;
    let messages = step.capture(command(&["--message-format=json"]))?;
    setup::built_library(&String::from_utf8_lossy(&messages), DRIVER, ".a")
        .map(PathBuf::from)
        .ok_or_else(|| Error::setup("cargo built no static library of the driver"))
}

/// CMake's build folder of the driver.
fn plugin(layout: &Layout) -> PathBuf {
    layout.cmake().join("runtime/plugins/hal/drivers/amdgpu_rs")
}

/// Links the conformance tests with ninja's command lines, but with `library` in place of the driver.
fn link(layout: &Layout, step: &Step, library: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
    let below = |path: PathBuf| path.strip_prefix(layout.cmake()).map_or_else(|_| path.clone(), Path::to_path_buf);
    let driver = below(setup::driver_library(layout)).display().to_string();
    for program in cts::PROGRAMS {
        let target = below(setup::cts_folder(layout).join(program)).display().to_string();
        let mut ninja = layout.command("ninja");
        ninja.arg("-C").arg(layout.cmake()).args(["-t", "commands", "-s", &target]);
        let output = step.capture(ninja)?;
        let command = String::from_utf8_lossy(&output);
        let command = command.lines().last().unwrap_or_default();
        let (ours, out) = (library.display().to_string(), folder.join(program).display().to_string());
        let changed = command.replace(&driver, &ours).replace(&format!(" -o {target} "), &format!(" -o {out} "));
        if !changed.contains(&ours) || !changed.contains(&out) {
            return Err(Error::setup(format!("ninja links {target} in an unknown way: {command}")));
        }
        let mut shell = layout.command("sh");
        shell.current_dir(layout.cmake()).args(["-c", &changed]);
        step.run(shell)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_cargos_messages() {
        let program = |kind: &str, name: &str, executable: &str| {
            test_program(&format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"executable":{executable}}}"#
            ))
            .map(|program| program.name)
        };
        assert_eq!(program("test", "queues", "\"/t/queues-1\"").as_deref(), Some("queues"));
        assert_eq!(program("rlib", "driver", "\"/t/driver-1\"").as_deref(), Some("unit tests of driver"));
        assert_eq!(program("lib", "ring", "\"/t/ring-1\"").as_deref(), Some("unit tests of ring"));
        assert_eq!(program("rlib", "driver", "null"), None);
    }
}
