// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The Python environment `build/venv` with the pinned packages, and `build/hostbin` with links to the programs inside
//! them. An IREE tree that needs another version of the compiler has a pair of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::layout::{COMPILERS, Layout};
use crate::steps::{Step, Steps};

const REQUIREMENTS: &str = include_str!("../../../requirements.txt");
const ONNX_REQUIREMENTS: &str = include_str!("../../../requirements-onnx.txt");
const WHEEL_REQUIREMENTS: &str = include_str!("../../../requirements-wheel.txt");
const DOCS_REQUIREMENTS: &str = include_str!("../../../requirements-docs.txt");
const TRITON_REQUIREMENTS: &str = include_str!("../../../requirements-triton.txt");
const MPI_REQUIREMENTS: &str = include_str!("../../../requirements-mpi.txt");
const BINDINGS_REQUIREMENTS: &str = include_str!("../../../requirements-python.txt");

/// Host tools by the folder of their package inside `site-packages/iree`. The files of the same names in `venv/bin` are
/// Python wrappers, which cost a second each and which CMake cannot import.
const HOST_TOOLS: &[(&str, &[&str])] = &[
    ("compiler/_mlir_libs", &["iree-compile", "iree-link", "iree-opt", "iree-lld"]),
    ("_runtime_libs", &["iree-c-embed-data", "iree-flatcc-cli", "iree-as-module"]),
];

/// Creates or updates the environment and the links.
///
/// # Errors
/// When Python or pip fails (no network, no package for this machine).
pub fn ensure(layout: &Layout, steps: &Steps) -> Result<()> {
    let name = "Python environment with iree-compile and CMake";
    ensure_environment(steps, name, &layout.build.join("venv"), &layout.build.join("hostbin"), REQUIREMENTS)?;
    let compiler = layout.compiler();
    if compiler != COMPILERS[0] {
        let packages = REQUIREMENTS.lines().filter(|line| line.starts_with("iree-base-"));
        let requirements: String = packages.map(|line| format!("{}\n", line.replace(COMPILERS[0], compiler))).collect();
        let name = format!("iree-compile {compiler}");
        ensure_environment(steps, &name, &layout.of_compiler("venv"), &layout.host_tools(), &requirements)?;
    }
    Ok(())
}

/// Adds the packages that read ONNX models to the environment.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_onnx(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    install(steps, "Python packages for ONNX", &venv, "requirements-onnx", ONNX_REQUIREMENTS, |_| Ok(()))
}

/// Adds mdBook to the environment.
///
/// # Errors
/// When Python or pip fail (no network, no package for this machine).
pub fn ensure_mdbook(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    install(steps, "mdBook", &venv, "requirements-docs", DOCS_REQUIREMENTS, |_| Ok(()))
}

/// Adds maturin to the environment.
///
/// # Errors
/// When Python or pip fail (no network, no package for this machine).
pub fn ensure_maturin(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    install(steps, "maturin", &venv, "requirements-wheel", WHEEL_REQUIREMENTS, |_| Ok(()))
}

/// Adds Triton to the environment.
///
/// # Errors
/// When Python or pip fail (no network, no package for this machine).
pub fn ensure_triton(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    install(steps, "Triton", &venv, "requirements-triton", TRITON_REQUIREMENTS, |_| Ok(()))
}

/// Adds Open MPI to the environment.
///
/// # Errors
/// When Python or pip fail (no network, no package for this machine).
pub fn ensure_mpi(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    install(steps, "Open MPI", &venv, "requirements-mpi", MPI_REQUIREMENTS, |_| {
        // A linker script, which programs cannot load. IREE's tools look for this name.
        replace_link(Path::new("libmpi.so.40"), &venv.join("lib/libmpi.so"))
    })
}

/// Adds the packages for building IREE's Python bindings to the environment.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_nanobind(layout: &Layout, steps: &Steps) -> Result<()> {
    let venv = layout.build.join("venv");
    install(steps, "nanobind", &venv, "requirements-python", BINDINGS_REQUIREMENTS, |step| {
        replace_link(&site_packages(&venv, step)?.join("nanobind"), &nanobind(layout))
    })
}

/// Path of a link to the package nanobind, wherever the environment has it.
pub fn nanobind(layout: &Layout) -> PathBuf {
    layout.build.join("nanobind")
}

fn ensure_environment(steps: &Steps, name: &str, venv: &Path, hostbin: &Path, requirements: &str) -> Result<()> {
    install(steps, name, venv, "requirements", requirements, |step| link_host_tools(hostbin, venv, step))
}

/// Installs the packages of a list into an environment, which is created if it is missing, and then runs `after`. Does
/// nothing if that was done before.
fn install(
    steps: &Steps,
    name: &str,
    venv: &Path,
    list: &str,
    requirements: &str,
    after: impl FnOnce(&Step) -> Result<()>,
) -> Result<()> {
    let stamp = venv.join(format!("{list}.installed"));
    if fs::read_to_string(&stamp).is_ok_and(|text| text == requirements) {
        return Ok(());
    }
    steps.step(name, |step| {
        if !venv.join("bin/pip").exists() {
            let mut create = Command::new("python3");
            create.args(["-m", "venv", "--clear"]).arg(venv);
            step.run(create)?;
        }
        let list = venv.join(format!("{list}.txt"));
        fs::write(&list, requirements).context(|| format!("writing {}", list.display()))?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--progress-bar", "off", "--disable-pip-version-check", "-r"]).arg(&list);
        step.run(pip)?;
        after(step)?;
        fs::write(&stamp, requirements).context(|| format!("writing {}", stamp.display()))
    })
}

fn link_host_tools(hostbin: &Path, venv: &Path, step: &Step) -> Result<()> {
    let packages = site_packages(venv, step)?;
    for (folder, tools) in HOST_TOOLS {
        for tool in *tools {
            let program = packages.join("iree").join(folder).join(tool);
            if !program.is_file() {
                return Err(Error::setup(format!("IREE's Python packages do not hold {}", program.display())));
            }
            replace_link(&program, &hostbin.join(tool))?;
        }
    }
    let compiler = hostbin.join("iree-compile");
    let real = compiler.canonicalize().context(|| format!("resolving {}", compiler.display()))?;
    if real.to_string_lossy().contains(char::is_whitespace) { wrap_compiler(&compiler) } else { Ok(()) }
}

/// Replaces the link to `iree-compile` by a script. The compiler finds its linker by itself, but does not quote the
/// linker's path, which fails if the path contains blanks. It calls the linker when it compiles for the CPU, and when
/// it folds constants for a GPU.
fn wrap_compiler(compiler: &Path) -> Result<()> {
    let action = || format!("writing {}", compiler.display());
    let program = fs::read_link(compiler).context(action)?;
    let linker = compiler.with_file_name("iree-lld");
    let (program, linker) = (program.display(), linker.display());
    let script = format!("#!/bin/sh\nexec '{program}' '--iree-llvmcpu-embedded-linker-path={linker}' \"$@\"\n");
    fs::remove_file(compiler).context(action)?;
    fs::write(compiler, script).context(action)?;
    fs::set_permissions(compiler, fs::Permissions::from_mode(0o755)).context(action)
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
/// When the file system refuses.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_compiler_gets_its_linker_and_all_arguments() {
        let folder = std::env::temp_dir().join(format!("xtask-wrapped compiler-{}", std::process::id()));
        fs::create_dir_all(folder.join("hostbin")).unwrap();
        let program = folder.join("real");
        fs::write(&program, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let compiler = folder.join("hostbin/iree-compile");
        replace_link(&program, &compiler).unwrap();
        wrap_compiler(&compiler).unwrap();
        let output = Command::new(&compiler).args(["a b", ""]).output().unwrap();
        let linker = folder.join("hostbin/iree-lld");
        let expected = format!("<--iree-llvmcpu-embedded-linker-path={}><a b><>", linker.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_dir_all(folder).unwrap();
    }
}
