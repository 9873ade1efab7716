// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Builds the test programs with the driver that contains all changes, below `build/mutants`. Cargo builds the driver's
//! own tests. The linker links IREE's conformance tests from the ordinary build's other parts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::list::{Mutant, with_branches};
use super::programs::{Kind, Program, VARIABLE};
use xtask_core::cts;
use xtask_core::error::{Context, Error, Result};
use xtask_core::layout::Layout;
use xtask_core::setup::{self, Build};
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

/// Source of the module that the branches call to learn which change is in force.
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
pub fn write_tree(layout: &Layout, mutants: &[Mutant]) -> Result<()> {
    let tree = tree(layout);
    fs::create_dir_all(&tree).context(|| format!("making {}", tree.display()))?;
    for name in entries(&layout.root)? {
        let link = tree.join(&name);
        if !matches!(name.to_str(), Some(".git" | "src" | "target")) && !link.exists() {
            symlink(layout.root.join(&name), &link).context(|| format!("making {}", link.display()))?;
        }
    }
    let files: BTreeSet<_> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
    if let Some(file) = files.iter().find(|file| !file.starts_with("src") || !layout.root.join(file).is_file()) {
        return Err(Error::setup(format!("mutants of {}, which is no source of the driver", file.display())));
    }
    write_sources(layout, Path::new("src"), mutants)
}

fn write_sources(layout: &Layout, folder: &Path, mutants: &[Mutant]) -> Result<()> {
    let target = tree(layout).join(folder);
    fs::create_dir_all(&target).context(|| format!("making {}", target.display()))?;
    for name in entries(&layout.root.join(folder))? {
        let file = folder.join(name);
        let (from, to) = (layout.root.join(&file), tree(layout).join(&file));
        if from.is_dir() {
            write_sources(layout, &file, mutants)?;
            continue;
        }
        let source = fs::read_to_string(&from).context(|| format!("reading {}", from.display()))?;
        let mut changed = with_branches(&source, &file, mutants)?;
        if file == Path::new("src/lib.rs") {
            changed += &MODULE.replace("VARIABLE", VARIABLE);
        }
        if !fs::read_to_string(&to).is_ok_and(|old| old == changed) {
            fs::write(&to, changed).context(|| format!("writing {}", to.display()))?;
        }
    }
    Ok(())
}

/// Names of a folder's entries.
fn entries(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let context = || format!("reading {}", folder.display());
    let entries = fs::read_dir(folder).context(context)?;
    entries.map(|entry| Ok(entry.context(context)?.file_name())).collect()
}

/// Builds the programs: the driver's own tests, and the conformance tests for `target`.
///
/// # Errors
/// When a build fails, e.g. because a change does not compile.
pub fn programs(layout: &Layout, steps: &Steps, target: &Target) -> Result<Vec<Program>> {
    setup::everything(layout, steps, Build::Cts(target))?;
    let mut programs = steps.step("The driver's tests with all mutants", |step| driver_tests(layout, step))?;
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
    cargo.current_dir(tree(layout)).args(arguments).args(["--locked", "--package", "amdgpu_rs", "--target-dir"]);
    cargo.arg(folder(layout).join("target"));
    cargo
}

fn driver_tests(layout: &Layout, step: &Step) -> Result<Vec<Program>> {
    let build = ["test", "--no-run", "--lib", "--tests"];
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
    let is_library = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "rlib");
    let name = if is_library { "unit tests" } else { message["target"]["name"].as_str()? };
    Some(Program { name: name.to_owned(), path, kind: Kind::Driver })
}

/// Builds the driver's static library, for the IREE of the ordinary build.
fn driver(layout: &Layout, step: &Step) -> Result<PathBuf> {
    let build = ["rustc", "--lib", "--crate-type", "staticlib"];
    let command = |extra: &[&str]| {
        let mut command = cargo(layout, &[&build[..], extra].concat());
        command.env("AMDGPU_RS_IREE_CONFIG", plugin(layout).join("iree_config.txt")).env("CC", "clang-22");
        command
    };
    step.run(command(&[]))?;
    let messages = step.capture(command(&["--message-format=json"]))?;
    setup::built_library(&String::from_utf8_lossy(&messages), "amdgpu_rs", ".a")
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
        let program = |kind: &str, executable: &str| {
            test_program(&format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"queues"}},"executable":{executable}}}"#
            ))
            .map(|program| program.name)
        };
        assert_eq!(program("test", "\"/t/queues-1\"").as_deref(), Some("queues"));
        assert_eq!(program("rlib", "\"/t/queues-1\"").as_deref(), Some("unit tests"));
        assert_eq!(program("rlib", "null"), None);
    }
}
