// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The Python environment `build/venv` with the pinned packages, and
//! `build/hostbin`, which links to the programs inside them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::steps::{Step, Steps};

const REQUIREMENTS: &str = include_str!("../../requirements.txt");

/// Host tools by the folder of their package inside `site-packages/iree`. The
/// files of the same names in `venv/bin` are Python wrappers, which cost a
/// second each and which CMake cannot import.
const HOST_TOOLS: &[(&str, &[&str])] = &[
    ("compiler/_mlir_libs", &["iree-compile", "iree-link", "iree-opt", "iree-lld"]),
    ("_runtime_libs", &["iree-c-embed-data", "iree-flatcc-cli", "iree-as-module"]),
];

/// Makes or updates the environment and the links.
///
/// # Errors
/// When Python or pip fail (no network, no package for this machine).
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    let stamp = venv.join("requirements.installed");
    let is_current = fs::read_to_string(&stamp).is_ok_and(|text| text == REQUIREMENTS);
    if !is_current {
        steps.step("Python environment with iree-compile and CMake", |step| {
            if !venv.join("bin/pip").exists() {
                let mut create = Command::new("python3");
                create.args(["-m", "venv", "--clear"]).arg(&venv);
                step.run(create)?;
            }
            let mut install = Command::new(venv.join("bin/pip"));
            install
                .args(["install", "--progress-bar", "off", "--disable-pip-version-check", "-r"])
                .arg(layout.root.join("xtask/requirements.txt"));
            step.run(install)?;
            link_host_tools(layout, &venv, step)?;
            fs::write(&stamp, REQUIREMENTS).context(|| format!("writing {}", stamp.display()))
        })?;
    }
    Ok(())
}

fn link_host_tools(layout: &Layout, venv: &Path, step: &Step) -> Result<()> {
    let packages = site_packages(venv, step)?;
    for (folder, tools) in HOST_TOOLS {
        for tool in *tools {
            let program = packages.join("iree").join(folder).join(tool);
            if !program.is_file() {
                return Err(Error::setup(format!("IREE's Python packages do not hold {}", program.display())));
            }
            replace_link(&program, &layout.host_tool(tool))?;
        }
    }
    Ok(())
}

fn site_packages(venv: &Path, step: &Step) -> Result<PathBuf> {
    let mut python = Command::new(venv.join("bin/python3"));
    python.args(["-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]);
    let output = step.capture(python)?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output).trim()))
}

/// Makes `link` a symbolic link to `original`, whatever it was before.
///
/// # Errors
/// Those of the file system.
pub fn replace_link(original: &Path, link: &Path) -> Result<()> {
    let action = || format!("linking {} to {}", link.display(), original.display());
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder).context(action)?;
    }
    if link.symlink_metadata().is_ok() {
        fs::remove_file(link).context(action)?;
    }
    symlink(original, link).context(action)
}
