// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Compiles and runs one test and says whose fault a difference is. Modules
//! and results of the CPU backend are kept, by the hash of what they come
//! from; verdicts as well, by test, for the same driver and sim.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::compare::agree;
use super::tests::{Tensor, Test, Way};
use crate::error::{Context, Error, Result};
use crate::hsa::Hsa;
use crate::iree::Backend;
use crate::layout::Layout;
use crate::npy::Raw;
use crate::process::{self, Ended};
use crate::target::Target;

/// A compiler or a run that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(300);

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The results are ONNX's.
    Passed,
    /// The importer or the compiler does not take it.
    Refused,
    /// IREE's CPU backend fails in the same way.
    Compilers,
    /// The driver's or the sim's fault.
    Ours,
}

/// An outcome with its test and its reason.
#[derive(Clone, Serialize, Deserialize)]
pub struct Verdict {
    /// The test.
    pub name: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The refusal or the difference; empty if it passed.
    pub detail: String,
}

/// The tensors that a run gave, or the line that says why it gave none.
type Results = std::result::Result<Vec<Raw>, String>;

/// Judges tests on one target. Shared by threads.
pub struct Judge<'a> {
    layout: &'a Layout,
    target: &'a Target,
    cache: PathBuf,
    /// Of the driver (in the tool), the sim and this program.
    identity: u64,
}

/// A hash that is the same in each run of this program.
pub fn hash<T: Hash + ?Sized>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl<'a> Judge<'a> {
    /// A judge for `target`.
    ///
    /// # Errors
    /// When the tools are not there.
    pub fn new(layout: &'a Layout, target: &'a Target) -> Result<Self> {
        let read = |path: PathBuf| fs::read(&path).context(|| format!("reading {}", path.display()));
        let this = std::env::current_exe().context(|| "finding this program".to_owned())?;
        let identity = hash(&[read(layout.tool("iree-run-module"))?, read(layout.sim_library())?, read(this)?]);
        Ok(Self { layout, target, cache: layout.of_compiler("onnx"), identity })
    }

    /// The file that verdicts are added to, and those in it, by test.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn results(&self) -> Result<(File, BTreeMap<String, Verdict>)> {
        let name = format!("{}-{:016x}.jsonl", self.target, self.identity);
        let path = self.cache.join("results").join(name);
        make_folder(path.parent())?;
        // A line that an interrupted run cut off is not one.
        let text = fs::read_to_string(&path).unwrap_or_default();
        let verdicts = text.lines().filter_map(|line| serde_json::from_str::<Verdict>(line).ok());
        let verdicts = verdicts.map(|verdict| (verdict.name.clone(), verdict)).collect();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok((file.context(|| format!("opening {}", path.display()))?, verdicts))
    }

    /// Judges a test.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn verdict(&self, test: &Test) -> Result<Verdict> {
        let (outcome, detail) = self.judge(test)?;
        Ok(Verdict { name: test.name.clone(), outcome, detail })
    }

    fn judge(&self, test: &Test) -> Result<(Outcome, String)> {
        let mut refusal = None;
        for way in &test.ways {
            match way {
                Way::Refused { refused } => refusal = refusal.or(Some(refused.clone())),
                Way::Imported { mlir, function, inputs } => {
                    let call = Call { test, source: test.folder.join(mlir), function, inputs };
                    match self.compile(&call.source, Backend::Gpu(self.target))? {
                        Ok(module) => return self.judge_call(&call, &module),
                        Err(refused) => refusal = refusal.or(Some(refused)),
                    }
                }
            }
        }
        Ok((Outcome::Refused, refusal.unwrap_or_default()))
    }

    fn judge_call(&self, call: &Call, module: &Path) -> Result<(Outcome, String)> {
        let test = call.test;
        let work = self.cache.join("work").join(self.target.as_ref()).join(&test.name);
        let gpu = self.run(call, module, Backend::Gpu(self.target), &work)?;
        let expected = test.outputs.iter().map(|tensor| tensor.read(&test.folder)).collect::<Result<Vec<_>>>()?;
        let Err(difference) = gpu.clone().and_then(|gpu| agree_all(&gpu, &expected)) else {
            return Ok((Outcome::Passed, String::new()));
        };
        let cpu = match self.on_cpu(call)? {
            Ok(cpu) => cpu,
            Err(refused) => {
                return Ok((Outcome::Ours, format!("{difference}; the compiler refuses it for the CPU: {refused}")));
            }
        };
        let is_same = match (&gpu, &cpu) {
            (Ok(gpu), Ok(cpu)) => agree_all(gpu, cpu).is_ok(),
            (Err(gpu), Err(cpu)) => status(gpu) == status(cpu),
            _ => false,
        };
        if is_same {
            return Ok((Outcome::Compilers, difference));
        }
        let cpu = cpu.and_then(|cpu| agree_all(&cpu, &expected));
        Ok((
            Outcome::Ours,
            match cpu {
                Ok(()) => difference,
                Err(cpu) => format!("{difference}; on the CPU {cpu}"),
            },
        ))
    }

    /// The results of the CPU backend; the outer error is the compiler's.
    fn on_cpu(&self, call: &Call) -> Result<std::result::Result<Results, String>> {
        let module = match self.compile(&call.source, Backend::Cpu)? {
            Ok(module) => module,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut of_inputs = vec![module.as_os_str().as_encoded_bytes().to_vec()];
        for input in call.inputs {
            of_inputs.push(input.read(&call.test.folder)?.bytes);
        }
        let kept = self.cache.join("cpu").join(format!("{:016x}", hash(&of_inputs)));
        if !kept.exists() {
            let partial = kept.with_extension(format!("{}.partial", self.target));
            if let Err(line) = self.run(call, &module, Backend::Cpu, &partial)? {
                let path = partial.join("failed.txt");
                fs::write(&path, line).context(|| format!("writing {}", path.display()))?;
            }
            fs::rename(&partial, &kept).context(|| format!("making {}", kept.display()))?;
        }
        match fs::read_to_string(kept.join("failed.txt")) {
            Ok(line) => Ok(Ok(Err(line))),
            Err(_) => call.read_results(&kept).map(|results| Ok(Ok(results))),
        }
    }

    /// The module of `source`, or the first line of the compiler's error.
    fn compile(&self, source: &Path, backend: Backend) -> Result<std::result::Result<PathBuf, String>> {
        let text = fs::read(source).context(|| format!("reading {}", source.display()))?;
        let key = hash(&(text, backend.flags(), self.layout.compiler()));
        let module = self.cache.join("modules").join(format!("{key:016x}.vmfb"));
        let refused = module.with_extension("refused");
        if module.exists() {
            return Ok(Ok(module));
        }
        if let Ok(line) = fs::read_to_string(&refused) {
            return Ok(Err(line));
        }
        make_folder(module.parent())?;
        let partial = module.with_extension("partial");
        let mut command = Command::new(self.layout.host_tool("iree-compile"));
        command.args(backend.flags()).arg(source).arg("-o").arg(&partial);
        match end(command)? {
            Ok(()) => {
                fs::rename(&partial, &module).context(|| format!("making {}", module.display()))?;
                Ok(Ok(module))
            }
            Err(line) => {
                fs::write(&refused, &line).context(|| format!("writing {}", refused.display()))?;
                Ok(Err(line))
            }
        }
    }

    /// Runs a call; its results stay in the folder `work`.
    fn run(&self, call: &Call, module: &Path, backend: Backend, work: &Path) -> Result<Results> {
        if work.exists() {
            fs::remove_dir_all(work).context(|| format!("removing {}", work.display()))?;
        }
        make_folder(Some(work))?;
        let mut command = self.layout.command(self.layout.tool("iree-run-module"));
        command
            .arg(format!("--device={}", backend.device()))
            .arg(format!("--module={}", module.display()))
            .arg(format!("--function={}", call.function));
        for Tensor { file, kind, shape } in call.inputs {
            let shape: String = shape.iter().map(|n| format!("{n}x")).collect();
            let kind = kind.as_ref().map_or_else(String::new, |kind| format!("{shape}{kind}="));
            command.arg(format!("--input={kind}@{}", call.test.folder.join(file).display()));
        }
        for output in &call.test.outputs {
            command.arg(format!("--output=@{}", work.join(&output.file).display()));
        }
        if let Backend::Gpu(target) = backend {
            Hsa::Sim.apply(self.layout, target, &mut command);
        }
        match end(command)? {
            Ok(()) => call.read_results(work).map(Ok),
            Err(line) => Ok(Err(line)),
        }
    }
}

/// One call of a test's function.
struct Call<'a> {
    test: &'a Test,
    source: PathBuf,
    function: &'a str,
    inputs: &'a [Tensor],
}

impl Call<'_> {
    fn read_results(&self, folder: &Path) -> Result<Vec<Raw>> {
        self.test.outputs.iter().map(|output| output.read(folder)).collect()
    }
}

fn agree_all(actual: &[Raw], expected: &[Raw]) -> std::result::Result<(), String> {
    let mut pairs = actual.iter().zip(expected).enumerate();
    pairs.try_for_each(|(index, (a, e))| agree(a, e).map_err(|what| format!("result {index}: {what}")))
}

/// Runs a tool to its end; the inner error is its first line that tells one.
fn end(command: Command) -> Result<std::result::Result<(), String>> {
    let shown = process::display(&command);
    let mut lines = Vec::new();
    let ended = process::follow(command, Some(SILENCE), |line| lines.push(line.to_owned()));
    let how = match ended.context(|| format!("running `{shown}`"))? {
        Ended::Exit(status) if status.success() => return Ok(Ok(())),
        Ended::Exit(status) => process::describe(status),
        Ended::Silent => format!("no output for {} s, killed", SILENCE.as_secs()),
    };
    Ok(Err(lines.iter().find_map(|line| told_error(line)).map_or(how, str::to_owned)))
}

/// What a line says after the compiler's `file:line:column: error: ` or the
/// runtime's `file.c:line: `.
fn told_error(line: &str) -> Option<&str> {
    let compilers = line.split_once(" error: ").map(|(_, text)| text);
    let is_status = |text: &&str| {
        let code = text.split(';').next().unwrap_or_default();
        text.contains(';') && code.len() > 4 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    compilers.or_else(|| line.split_once(": ").map(|(_, text)| text).filter(is_status))
}

/// The status code that a line of the runtime begins with, or the whole line.
fn status(line: &str) -> &str {
    line.split(';').next().unwrap_or(line)
}

fn make_folder(folder: Option<&Path>) -> Result<()> {
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
        assert_eq!(told_error("EXEC @main"), None);
        assert_eq!(told_error("note: see; this"), None);
    }

    #[test]
    fn the_first_result_that_differs_is_named() {
        let raw = |byte| Raw { shape: vec![1], kind: "u1".to_owned(), bytes: vec![byte] };
        assert_eq!(agree_all(&[raw(1), raw(2)], &[raw(1), raw(2)]), Ok(()));
        let error = agree_all(&[raw(1), raw(2)], &[raw(1), raw(3)]).unwrap_err();
        assert!(error.starts_with("result 1: "), "{error}");
    }
}
