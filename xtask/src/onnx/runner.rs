// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Compiles models and calls their functions. Modules are cached by the hash of their sources.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::tests::Tensor;
use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::Backend;
use xtask_core::layout::Layout;
use xtask_core::npy::Raw;
use xtask_core::process::{self, Ended};

/// A compiler or a run that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(900);

/// Path of the compiler's output, or the first line of its error.
pub type Made = std::result::Result<PathBuf, String>;

/// Tensors from a run, or the line of its error.
pub type Results = std::result::Result<Vec<Raw>, String>;

/// Hash that is stable between runs of this program.
pub fn hash<T: Hash + ?Sized>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Temporary name beside `path`, unique to this thread. Another thread, or a run on another target, may be writing
/// `path`, too.
pub fn partial(path: &Path) -> PathBuf {
    let maker = hash(&(std::process::id(), std::thread::current().id()));
    path.with_extension(format!("{maker:x}.partial"))
}

/// One call of a model's function.
pub struct Call<'a> {
    /// Folder of the files.
    pub folder: &'a Path,
    /// The model, in that folder.
    pub mlir: &'a Path,
    /// Name of the function.
    pub function: &'a str,
    /// Arguments.
    pub inputs: &'a [Tensor],
    /// Types and expected values of the results.
    pub outputs: &'a [Tensor],
}

impl Call<'_> {
    /// Values of `--input`.
    pub fn arguments(&self) -> Vec<String> {
        let argument = |Tensor { file, kind, shape }: &Tensor| {
            let shape: String = shape.iter().map(|n| format!("{n}x")).collect();
            let kind = kind.as_ref().map_or_else(String::new, |kind| format!("{shape}{kind}="));
            format!("{kind}@{}", self.folder.join(file).display())
        };
        self.inputs.iter().map(argument).collect()
    }

    /// Reads the results in `folder`, with the types of `outputs`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read_results(&self, folder: &Path) -> Result<Vec<Raw>> {
        self.outputs.iter().map(|output| output.read(folder)).collect()
    }
}

/// Compiles and runs models. Shared by threads.
pub struct Runner<'a> {
    layout: &'a Layout,
    /// Folder of the cache.
    pub cache: PathBuf,
    /// Conditions of runs on the GPU.
    conditions: &'a Conditions,
}

impl<'a> Runner<'a> {
    /// Creates a runner with the tools of `layout`.
    pub fn new(layout: &'a Layout, conditions: &'a Conditions) -> Self {
        Self { layout, cache: layout.of_compiler("onnx"), conditions }
    }

    /// Compiles `source`. Returns the module, or the first line of the compiler's error.
    ///
    /// The first phase, from ONNX's operations to IREE's own, does not depend on the backend and is done once.
    ///
    /// # Errors
    /// When the compiler cannot be run.
    pub fn compile(&self, source: &Path, backend: Backend) -> Result<Made> {
        self.compile_with(source, backend.flags())
    }

    /// As [`Self::compile`], with a backend's flags.
    ///
    /// # Errors
    /// When the compiler cannot be run.
    pub fn compile_with(&self, source: &Path, of_backend: Vec<String>) -> Result<Made> {
        let text = fs::read(source).context(|| format!("reading {}", source.display()))?;
        // There are as many compilers at work as cores.
        let mut flags = vec!["--mlir-disable-threading".to_owned()];
        if text.windows(3).any(|window| window == b"f64") {
            // By default the compiler makes f32 of it, and arguments and results no longer fit.
            flags.push("--iree-input-demote-f64-to-f32=false".to_owned());
        }
        let key = hash(&(text, &flags, self.layout.compiler()));
        let input = [flags.as_slice(), &["--compile-to=input".to_owned()]].concat();
        match self.make(&format!("{key:016x}.mlir"), source, &input)? {
            Err(refused) => Ok(Err(refused)),
            Ok(input) => {
                flags.push("--compile-from=input".to_owned());
                flags.extend(of_backend);
                self.make(&format!("{:016x}.vmfb", hash(&(key, &flags))), &input, &flags)
            }
        }
    }

    /// Compiles `source` with `flags`, or takes the result `name` from the cache.
    fn make(&self, name: &str, source: &Path, flags: &[String]) -> Result<Made> {
        let product = self.cache.join("modules").join(name);
        let refused = product.with_extension("refused");
        if product.exists() {
            return Ok(Ok(product));
        }
        if let Ok(line) = fs::read_to_string(&refused) {
            return Ok(Err(line));
        }
        make_folder(product.parent())?;
        let partial = partial(&product);
        let mut command = Command::new(self.layout.host_tool("iree-compile"));
        command.args(flags).arg(source).arg("-o").arg(&partial);
        let (kept, result) = match end(command)? {
            Ok(()) => (product.clone(), Ok(product)),
            Err(line) => {
                fs::write(&partial, &line).context(|| format!("writing {}", partial.display()))?;
                (refused, Err(line))
            }
        };
        fs::rename(&partial, &kept).context(|| format!("making {}", kept.display()))?;
        Ok(result)
    }

    /// Runs a call. The results stay in the folder `work`, with the sim's counts in `stats.json`.
    ///
    /// # Errors
    /// When the tool cannot be run.
    pub fn run(&self, call: &Call, module: &Path, backend: Backend, hsa: &Hsa, work: &Path) -> Result<Results> {
        if work.exists() {
            fs::remove_dir_all(work).context(|| format!("removing {}", work.display()))?;
        }
        make_folder(Some(work))?;
        let mut command = self.layout.command(self.layout.tool("iree-run-module"));
        command
            .arg(format!("--device={}", backend.device()))
            .arg(format!("--module={}", module.display()))
            .arg(format!("--function={}", call.function));
        command.args(call.arguments().iter().map(|argument| format!("--input={argument}")));
        for output in call.outputs {
            command.arg(format!("--output=@{}", work.join(&output.file).display()));
        }
        if let Some(target) = backend.gpu() {
            hsa.apply(self.layout, target, &mut command);
            self.conditions.apply(&mut command);
            command.env("HSA_SIM_STATS", work.join("stats.json"));
        }
        match end(command)? {
            Ok(()) => call.read_results(work).map(Ok),
            Err(line) => Ok(Err(line)),
        }
    }
}

/// Runs a tool to its end. The inner error is the first error line of its output.
fn end(command: Command) -> Result<std::result::Result<(), String>> {
    let shown = process::display(&command);
    let mut lines = Vec::new();
    let ended = process::follow(command, Some(SILENCE), |line| lines.push(line.to_owned()));
    let how = match ended.context(|| format!("running `{shown}`"))? {
        Ended::Exit(status) if status.success() => return Ok(Ok(())),
        Ended::Exit(status) => process::describe(status),
        Ended::Silent { .. } => format!("no output for {} s, killed", SILENCE.as_secs()),
    };
    Ok(Err(lines.iter().find_map(|line| told_error(line)).map_or(how, str::to_owned)))
}

/// Returns the error text of a line, after the compiler's `file:line:column: error: ` or the runtime's `file.c:line: `.
/// The runtime leaves out the latter for errors of a device.
fn told_error(line: &str) -> Option<&str> {
    let compilers = line.split_once(" error: ").map(|(_, text)| text);
    let is_status = |text: &&str| {
        let code = text.split(';').next().unwrap_or_default();
        text.contains(';') && code.len() > 4 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let runtimes = || [Some(line), line.split_once(": ").map(|(_, text)| text)].into_iter().flatten().find(is_status);
    compilers.or_else(runtimes)
}

/// Returns the status code at the start of a line of the runtime, or the whole line.
pub fn status(line: &str) -> &str {
    line.split(';').next().unwrap_or(line)
}

/// Creates a folder and its parents.
///
/// # Errors
/// When the file system refuses.
pub fn make_folder(folder: Option<&Path>) -> Result<()> {
    let folder = folder.ok_or_else(|| Error::setup("a file without a folder"))?;
    fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_without_its_place() {
        let compilers = "/a/model.mlir:5:10: error: failed to legalize operation 'torch.operator'";
        assert_eq!(told_error(compilers), Some("failed to legalize operation 'torch.operator'"));
        let runtimes = "/iree/runtime/src/iree/hal/x.c:20: INVALID_ARGUMENT; the shape is wrong; while invoking";
        assert_eq!(told_error(runtimes), Some("INVALID_ARGUMENT; the shape is wrong; while invoking"));
        assert_eq!(status(told_error(runtimes).unwrap()), "INVALID_ARGUMENT");
        let devices = "DATA_LOSS; a hardware queue failed: ERROR_EXCEPTION; while invoking";
        assert_eq!(told_error(devices), Some(devices));
        assert_eq!(told_error("EXEC @main"), None);
        assert_eq!(told_error("note: see; this"), None);
    }
}
