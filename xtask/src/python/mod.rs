// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `cargo xtask python`: builds a package of IREE's Python bindings with the driver, below `build/`, and runs models on
//! NumPy arrays with it, on the sim.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::onnx::networks;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, compile};
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::setup;
use xtask_core::steps::{Step, Steps, timed};
use xtask_core::tally::Tally;
use xtask_core::target::Target;

/// A script that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// Python package that contains the extension module.
const LIBRARIES: &str = "_runtime_libs";

/// Network to run.
const NETWORK: &str = "magika";

/// Output of the example.
const EXAMPLE: &str = "[12. 24. 36. 48.]";

/// The package and the environment of its tests.
struct Place<'a> {
    layout: &'a Layout,
    step: &'a Step,
    target: &'a Target,
    /// Folder for `PYTHONPATH`.
    package: &'a Path,
}

/// Builds the package from the products of set-up, runs cases with it, and prints a line for each and how to import it.
///
/// # Errors
/// When there is no package. A case that fails is counted.
pub fn run(layout: &Layout, steps: &Steps, target: &Target) -> Result<Tally> {
    let package = &layout.of_tree("python");
    steps.step("The Python package", |step| make_package(layout, step, package))?;
    let network = networks::import(layout, steps, NETWORK)?.join(NETWORK);
    let name = format!("Python on {target}");
    let cases = steps.step(&name, |step| {
        let place = Place { layout, step, target, package };
        Ok([
            ("the driver and its devices", timed(|| place.devices())),
            ("examples/python/run_model.py", timed(|| place.example())),
            ("a product of 512x512 matrices, against NumPy", timed(|| place.matmul())),
            ("the demo, against IREE's CPU backend", timed(|| place.demo())),
            ("the network magika, against onnxruntime", timed(|| place.network(&network))),
        ])
    })?;
    let mut tally = Tally::default();
    for (case, ended) in cases {
        tally.count(steps, &name, case, ended);
    }
    println!("  PYTHONPATH={} {}", package.display(), layout.venv_program("python3").display());
    Ok(tally)
}

impl Place<'_> {
    fn devices(&self) -> Result<()> {
        self.case("devices", &[self.package])
    }

    fn example(&self) -> Result<()> {
        let module = self.compile("examples/embed.mlir", Backend::Gpu(self.target))?;
        let mut python = self.python("examples/python/run_model.py");
        python.arg(module).args(["scale_add", "1,2,3,4", "10,20,30,40"]);
        let lines = self.output(python)?;
        if lines.iter().any(|line| line == EXAMPLE) {
            return Ok(());
        }
        Err(Error::Failed(format!("it printed no {EXAMPLE}:\n      {}", lines.join("\n      "))))
    }

    fn matmul(&self) -> Result<()> {
        self.case("matmul", &[&self.compile("xtask/src/python/matmul_512.mlir", Backend::Gpu(self.target))?])
    }

    fn demo(&self) -> Result<()> {
        let [gpu, cpu] =
            [Backend::Gpu(self.target), Backend::Cpu].map(|backend| self.compile("demo/digits.mlir", backend));
        self.case("demo", &[&gpu?, &cpu?, &self.layout.root.join("demo")])
    }

    fn network(&self, folder: &Path) -> Result<()> {
        let module = networks::compile(self.layout, folder, self.target)?;
        self.case("network", &[&module, folder, &self.layout.root.join("models/onnx.toml")])
    }

    fn compile(&self, source: &str, backend: Backend) -> Result<PathBuf> {
        compile(self.layout, self.step, &self.layout.root.join(source), backend)
    }

    /// Runs a case of the script beside this file.
    fn case(&self, name: &str, arguments: &[&Path]) -> Result<()> {
        let mut python = self.python("xtask/src/python/cases.py");
        python.arg(name).args(arguments);
        self.output(python).map(|_| ())
    }

    fn python(&self, script: &str) -> Command {
        let mut python = self.layout.command(self.layout.venv_program("python3"));
        python.env("PYTHONPATH", self.package).arg(self.layout.root.join(script));
        Hsa::Sim.apply(self.layout, self.target, &mut python);
        python
    }

    /// Runs a script that must succeed, and returns its output.
    fn output(&self, python: Command) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let how = match self.step.follow(python, Some(SILENCE), |line| lines.push(line.to_owned()))? {
            Ended::Exit(status) if status.success() => return Ok(lines),
            Ended::Exit(status) => process::describe(status),
            Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
        };
        let tail = lines[lines.len().saturating_sub(10)..].join("\n      ");
        Err(Error::Failed(format!("it ended with {how}:\n      {tail}")))
    }
}

/// Builds the package: IREE's Python code, the extension module, and the files that IREE's own packaging would add.
fn make_package(layout: &Layout, step: &Step, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context(|| format!("removing {}", folder.display()))?;
    }
    let libraries = folder.join("iree").join(LIBRARIES);
    fs::create_dir_all(&libraries).context(|| format!("making {}", libraries.display()))?;
    for name in ["runtime", "_runtime"] {
        let mut copy = layout.command("cp");
        copy.arg("-r").arg(setup::bindings(layout).join("iree").join(name)).arg(folder.join("iree"));
        step.run(copy)?;
    }
    let module = extension_module(&layout.cmake().join(setup::BINDINGS).join("iree").join(LIBRARIES))?;
    let copied = libraries.join(module.file_name().unwrap_or_default());
    fs::copy(&module, &copied).context(|| format!("copying {}", module.display()))?;
    let version = concat!(
        "PACKAGE_SUFFIX = \"-amdgpu-rs\"\nVERSION = \"",
        env!("CARGO_PKG_VERSION"),
        "\"\nREVISIONS: dict[str, str] = {}\n"
    );
    for (name, text) in [("__init__.py", ""), ("version.py", version)] {
        let file = libraries.join(name);
        fs::write(&file, text).context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// Finds the extension module that the build left in `folder`. Its name ends in the version of Python.
fn extension_module(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).context(|| format!("reading {}", folder.display()))?;
    let mut files = entries.flatten().map(|entry| entry.path());
    files
        .find(|path| path.extension().is_some_and(|extension| extension == "so"))
        .ok_or_else(|| Error::setup(format!("IREE's build made no extension module in {}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_module_is_the_shared_library() {
        let folder = std::env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("iree-as-module"), "").unwrap();
        let error = extension_module(&folder).unwrap_err().to_string();
        assert!(error.contains("no extension module"), "{error}");
        let module = folder.join("_runtime.cpython-311-x86_64-linux-gnu.so");
        fs::write(&module, "").unwrap();
        assert_eq!(extension_module(&folder).unwrap(), module);
        fs::remove_dir_all(folder).unwrap();
    }
}
