// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Compiling the kernels, with any of the tool sets that hold clang and lld with the AMDGPU target.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use amdgpu_code_object::Processor;

/// The toolchain of the checked-in files: Debian's packages `clang-22` and `lld-22`.
pub const DEFAULT_TOOLCHAIN: &str = "clang-22";

/// The names of toolchains, for messages.
pub const TOOLCHAINS: &str = "`clang-22` (Debian's packages clang-22 and lld-22), `rocm` (ROCM_PATH, else /opt/rocm), \
     `rocm:<folder>`, or `zig` (the Python package ziglang: `pip install ziglang`)";

/// A compiler and a linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The compiler with its first arguments.
    compiler: Vec<PathBuf>,
    /// The linker with its first arguments.
    linker: Vec<PathBuf>,
}

impl Toolchain {
    /// The toolchain of this name; see [`TOOLCHAINS`].
    ///
    /// # Errors
    /// An unknown name, or missing tools.
    pub fn find(name: &str) -> Result<Self, String> {
        match name.split_once(':').unwrap_or((name, "")) {
            // The warnings of this compiler alone are known.
            ("clang-22", "") => {
                Ok(Self { compiler: vec!["clang-22".into(), "-Werror".into()], linker: vec!["ld.lld-22".into()] })
            }
            ("rocm", "") => {
                let root = env::var_os("ROCM_PATH").filter(|root| !root.is_empty());
                Self::rocm(Path::new(&root.unwrap_or_else(|| "/opt/rocm".into())))
            }
            ("rocm", root) => Self::rocm(Path::new(root)),
            ("zig", "") => Self::zig(),
            _ => Err(format!("`{name}` names no toolchain; there are {TOOLCHAINS}")),
        }
    }

    /// The LLVM inside of a ROCm installation.
    fn rocm(root: &Path) -> Result<Self, String> {
        // The tools are run in another folder.
        let root = absolute(root)?;
        let places = ["llvm/bin", "lib/llvm/bin"].map(|place| root.join(place));
        let found = places.iter().find(|place| place.join("clang").is_file() && place.join("ld.lld").is_file());
        let Some(place) = found else {
            return Err(format!(
                "no clang and ld.lld in {}; name a ROCm installation by ROCM_PATH or `rocm:<folder>`",
                places.each_ref().map(|place| place.display().to_string()).join(" or ")
            ));
        };
        Ok(Self { compiler: vec![place.join("clang")], linker: vec![place.join("ld.lld")] })
    }

    /// The LLVM inside of Zig. Its clang does not find the headers that stand beside it.
    fn zig() -> Result<Self, String> {
        let python = "import ziglang, os; print(os.path.dirname(ziglang.__file__))";
        let output = Command::new("python3").args(["-c", python]).output();
        let folder =
            output.ok().filter(|output| output.status.success()).and_then(|o| String::from_utf8(o.stdout).ok());
        let Some(folder) = folder.as_deref().map(|folder| Path::new(folder.trim_end())) else {
            return Err("python3 has no module ziglang; `pip install ziglang` installs it".to_owned());
        };
        let zig = folder.join("zig");
        let include = folder.join("lib/include");
        Ok(Self {
            compiler: vec![zig.clone(), "clang".into(), "-isystem".into(), include],
            linker: vec![zig, "ld.lld".into()],
        })
    }

    /// Compiles the kernels in `kernels` for one target into `out_dir/<target>.co` and returns that path.
    ///
    /// # Errors
    /// A tool that cannot be started, or the output of a tool that failed.
    pub fn compile(&self, kernels: &Path, target: Processor, out_dir: &Path) -> Result<PathBuf, String> {
        let object = out_dir.join(format!("{target}.o"));
        let code_object = out_dir.join(format!("{target}.co"));
        // The oldest version that has the target: ROCR before ROCm 6.2 refuses 6.
        let version = if matches!(target, Processor::Exact { .. }) { 5 } else { 6 };
        run(command(&self.compiler)
            .current_dir(kernels)
            .args(["-x", "c", "-std=c23", "--target=amdgcn-amd-amdhsa"])
            .arg(format!("-mcpu={target}"))
            .args(["-nogpulib", "-nostdlib", "-Os"])
            .arg(format!("-mcode-object-version={version}"))
            .args(["-fno-ident", "-fvisibility=hidden"])
            .args(["-Wall", "-Wextra", "-c", "kernels.c", "-o"])
            .arg(absolute(&object)?))?;
        run(command(&self.linker)
            .current_dir(kernels)
            .args(["-m", "elf64_amdgpu", "-shared", "--no-undefined", "--discard-all"])
            .args(["--build-id=none", "-z", "norelro", "-T", "kernels.ld"])
            .arg(absolute(&object)?)
            .arg("-o")
            .arg(absolute(&code_object)?))?;
        std::fs::remove_file(&object).map_err(|error| format!("removing {}: {error}", object.display()))?;
        Ok(code_object)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("resolving {}: {error}", path.display()))
}

fn command(program: &[PathBuf]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    command
}

/// Runs a tool to its end; its output is shown only when it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot start {program}: {error}; the toolchains are {TOOLCHAINS}"))?;
    if output.status.success() {
        return Ok(());
    }
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    Err(format!(
        "{program} {}\nended with {}:\n{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    ))
}
