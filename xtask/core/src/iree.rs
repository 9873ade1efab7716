// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Calls IREE's tools: `iree-compile`, only where its result is older than its source, and `iree-run-module`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::conditions::Conditions;
use crate::error::{Context, Error, Result};
use crate::hsa::{Hsa, SimStats};
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::rocm;
use crate::steps::Step;
use crate::target::Target;

/// A call that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// Target backend of a compiled module.
#[derive(Clone, Copy)]
pub enum Backend<'a> {
    /// IREE's CPU backend: the reference.
    Cpu,
    /// IREE's CPU backend, as [`DEVICES`] devices.
    CpuDevices,
    /// A GPU.
    Gpu(&'a Target),
    /// A GPU, with code for IREE's HIP driver.
    Hip(&'a Target),
    /// A GPU, with that code on IREE's HIP driver, as PyPI's runtime has it, in the root of `cargo xtask rocm`.
    HipDriver(&'a Target),
    /// [`DEVICES`] devices on GPUs, which take the list's entries in turn. An entry is the part of a device's URI after
    /// `amdgpu_rs://`, and may name several GPUs.
    GpuDevices(&'a Target, &'a [&'a str]),
}

/// Number of devices of a module for several devices. Their names are `d0`, `d1` and so on.
pub const DEVICES: usize = 8;

impl<'a> Backend<'a> {
    /// Flags of `iree-compile` for this backend.
    pub fn flags(self) -> Vec<String> {
        match self {
            Self::Cpu => [vec!["--iree-hal-target-device=local".to_owned()], cpu_flags()].concat(),
            Self::CpuDevices => [target_devices("local"), cpu_flags()].concat(),
            Self::Gpu(target) => {
                vec!["--iree-hal-target-device=amdgpu".to_owned(), format!("--iree-rocm-target={target}")]
            }
            Self::Hip(target) | Self::HipDriver(target) => {
                vec!["--iree-hal-target-device=hip".to_owned(), format!("--iree-rocm-target={target}")]
            }
            Self::GpuDevices(target, _) => {
                [target_devices("amdgpu"), vec![format!("--iree-rocm-target={target}")]].concat()
            }
        }
    }

    /// Name of the driver that runs modules of this backend.
    pub fn device(self) -> &'static str {
        match self {
            Self::Cpu | Self::CpuDevices => "local-sync",
            Self::Gpu(_) | Self::Hip(_) | Self::GpuDevices(..) => "amdgpu_rs",
            Self::HipDriver(_) => "hip",
        }
    }

    /// Each `--device` of `iree-run-module` for modules of this backend.
    fn devices(self) -> Vec<String> {
        match self {
            Self::CpuDevices => vec![self.device().to_owned(); DEVICES],
            Self::GpuDevices(_, list) => {
                list.iter().cycle().take(DEVICES).map(|part| format!("{}://{part}", self.device())).collect()
            }
            Self::Cpu | Self::Gpu(_) | Self::Hip(_) | Self::HipDriver(_) => vec![self.device().to_owned()],
        }
    }

    /// The GPU, or `None` for the CPU backend.
    pub fn gpu(self) -> Option<&'a Target> {
        match self {
            Self::Cpu | Self::CpuDevices => None,
            Self::Gpu(target) | Self::Hip(target) | Self::HipDriver(target) | Self::GpuDevices(target, _) => {
                Some(target)
            }
        }
    }
}

fn cpu_flags() -> Vec<String> {
    ["--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=generic"].map(str::to_owned).into()
}

/// Flags that declare the devices of a module for several devices. `d<n>` is the n-th device of `kind` at run time.
fn target_devices(kind: &str) -> Vec<String> {
    (0..DEVICES).map(|n| format!("--iree-hal-target-device=d{n}={kind}[{n}]")).collect()
}

impl fmt::Display for Backend<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu | Self::CpuDevices => f.write_str("the CPU"),
            Self::Gpu(target) | Self::GpuDevices(target, _) => target.fmt(f),
            Self::Hip(target) | Self::HipDriver(target) => write!(f, "{target} by HIP"),
        }
    }
}

/// Compiles `source` and returns the module's path, below `build/modules`.
///
/// # Errors
/// When the compiler fails.
pub fn compile(layout: &Layout, step: &Step, source: &Path, backend: Backend) -> Result<PathBuf> {
    let folder = layout.of_compiler("modules").join(match backend {
        Backend::Cpu | Backend::CpuDevices => "cpu".to_owned(),
        Backend::Gpu(target) | Backend::GpuDevices(target, _) => target.to_string(),
        Backend::Hip(target) | Backend::HipDriver(target) => format!("{target}-hip"),
    });
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let name = source.file_stem().unwrap_or_default();
    let module = folder.join(name).with_extension("vmfb");
    let compiler = layout.host_tool("iree-compile");
    if is_newer(&module, &[source, &compiler]) {
        return Ok(module);
    }
    step.note(&format!("compiling {} for {backend}", source.display()));
    let mut command = Command::new(compiler);
    command.args(backend.flags()).arg(source).arg("-o").arg(&module);
    // Kernels that a module brings along lie beside it.
    let beside = source.parent().unwrap_or(Path::new("."));
    command.arg(format!("--iree-hal-executable-object-search-path={}", beside.display()));
    step.run(command)?;
    Ok(module)
}

/// True if `product` is there, and newer than all `sources`.
pub fn is_newer(product: &Path, sources: &[&Path]) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let product = modified(product);
    product.is_some() && sources.iter().all(|source| modified(source) < product)
}

/// One call of one function through `iree-run-module`.
pub struct Call<'a> {
    /// The compiled module.
    pub module: &'a Path,
    /// The function's name.
    pub function: &'a str,
    /// `.npy` files, one for each argument.
    pub inputs: &'a [PathBuf],
    /// File for the results, one array after the other.
    pub output: &'a Path,
    /// Number of the function's results.
    pub results: usize,
    /// File for the sim's counts.
    pub stats: &'a Path,
    /// Further environment variables.
    pub variables: &'a [(&'a str, &'a str)],
    /// Conditions of runs on the GPU.
    pub conditions: &'a Conditions,
}

impl Call<'_> {
    /// Runs the call. Returns the sim's counts if it ran on the sim.
    ///
    /// # Errors
    /// A failure with the tool's last lines if the tool fails.
    pub fn run(&self, layout: &Layout, step: &Step, backend: Backend, hsa: &Hsa) -> Result<Option<SimStats>> {
        for stale in [self.output, self.stats] {
            if stale.exists() {
                fs::remove_file(stale).context(|| format!("removing {}", stale.display()))?;
            }
        }
        let mut command = match backend {
            Backend::HipDriver(target) => hip_command(layout, target, "iree-run-module")?,
            _ => layout.command(layout.tool("iree-run-module")),
        };
        command
            .args(backend.devices().iter().map(|device| format!("--device={device}")))
            .arg(format!("--module={}", self.module.display()))
            .arg(format!("--function={}", self.function));
        for input in self.inputs {
            command.arg(format!("--input=@{}", input.display()));
        }
        for _ in 0..self.results {
            command.arg(format!("--output=+{}", self.output.display()));
        }
        let mut is_on_sim = false;
        if let Backend::HipDriver(_) = backend {
            self.conditions.apply_check(&mut command);
        } else if let Some(target) = backend.gpu() {
            command.envs(self.variables.iter().copied());
            self.conditions.apply(&mut command);
            hsa.apply(layout, target, &mut command);
            is_on_sim = hsa.is_on_sim();
            if is_on_sim {
                command.env("HSA_SIM_STATS", self.stats);
            }
        }
        let mut lines = Vec::new();
        let how = match step.follow(command, Some(SILENCE), |line| lines.push(line.to_owned()))? {
            Ended::Exit(status) if status.success() => {
                return is_on_sim.then(|| SimStats::read(self.stats)).transpose();
            }
            Ended::Exit(status) => process::describe(status),
            Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
        };
        let tail = lines[lines.len().saturating_sub(5)..].join("\n      ");
        Err(Error::Failed(format!("{} ended with {how}:\n      {tail}", backend.device())))
    }
}

/// `iree-benchmark-module` for a backend; the arguments that name a module follow.
///
/// # Errors
/// When there is no tool with the backend's driver.
pub fn benchmark_command(layout: &Layout, backend: Backend) -> Result<Command> {
    let tool = "iree-benchmark-module";
    let mut command = match backend {
        Backend::HipDriver(target) => hip_command(layout, target, tool)?,
        _ => layout.command(layout.tool(tool)),
    };
    command.args(backend.devices().iter().map(|device| format!("--device={device}")));
    Ok(command)
}

/// A tool of PyPI's runtime with Debian's HIP, in the root of `cargo xtask rocm`; its arguments follow.
fn hip_command(layout: &Layout, target: &Target, tool: &str) -> Result<Command> {
    let versions = layout.venv_program("../lib");
    let versions = fs::read_dir(&versions).context(|| format!("reading {}", versions.display()))?;
    let folder = "site-packages/iree/_runtime_libs";
    let mut tools = versions.flatten().map(|version| version.path().join(folder).join(tool));
    let tool = tools.find(|path| path.exists()).ok_or_else(|| Error::setup("no iree-base-runtime in build/venv"))?;
    let mut command = rocm::enter(layout, rocm::Hip::V5_7, target, &layout.root);
    command.arg(tool).arg("--hip_dylib_path=/usr/lib/x86_64-linux-gnu");
    Ok(command)
}
