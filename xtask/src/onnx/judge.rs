// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs one test and decides which component causes a difference. Results of the CPU backend are cached by the hash of
//! their inputs. Verdicts are cached by test, for the same driver and sim.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use amdgpu_code_object::CodeObject;
use serde::{Deserialize, Serialize};

use super::compare::agree;
use super::runner::{Call, Results, Runner, hash, make_folder, partial, status};
use super::tests::{Test, Way};
use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::Backend;
use xtask_core::layout::Layout;
use xtask_core::npy::Raw;
use xtask_core::target::Target;

/// Encodings of `s_endpgm`: up to gfx10, and since gfx11.
const ENDS: [[u8; 4]; 2] = [0xbf81_0000_u32.to_le_bytes(), 0xbfb0_0000_u32.to_le_bytes()];

/// Sources of this program that a verdict depends on.
const SOURCES: [&str; 3] = [include_str!("judge.rs"), include_str!("compare.rs"), include_str!("runner.rs")];

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The results agree with ONNX's.
    Passed,
    /// The importer or the compiler rejects the model.
    Refused,
    /// IREE's CPU backend fails in the same way, or a kernel has no end.
    Compilers,
    /// The driver or the sim is at fault.
    Ours,
}

/// An outcome with its test and its reason.
#[derive(Clone, Serialize, Deserialize)]
pub struct Verdict {
    /// The test.
    pub name: String,
    /// Result of the test.
    pub outcome: Outcome,
    /// The refusal or the difference; empty if it passed.
    pub detail: String,
}

/// Judges tests on one target. Shared by threads.
pub struct Judge<'a> {
    runner: Runner<'a>,
    target: &'a Target,
    /// Hash of the driver (in the tool), the sim, [`SOURCES`] and the conditions.
    identity: u64,
}

impl<'a> Judge<'a> {
    /// Creates a judge for `target`.
    ///
    /// # Errors
    /// When the tools are missing.
    pub fn new(layout: &'a Layout, target: &'a Target, conditions: &'a Conditions) -> Result<Self> {
        let read = |path: PathBuf| fs::read(&path).context(|| format!("reading {}", path.display()));
        let identity = hash(&(read(layout.tool("iree-run-module"))?, read(layout.sim_library())?, SOURCES, conditions));
        Ok(Self { runner: Runner::new(layout, conditions), target, identity })
    }

    /// Opens the file of verdicts, to append to, and returns its verdicts by test.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn results(&self) -> Result<(File, BTreeMap<String, Verdict>)> {
        let name = format!("{}-{:016x}.jsonl", self.target, self.identity);
        let path = self.runner.cache.join("results").join(name);
        make_folder(path.parent())?;
        // A line that an interrupted run cut off is not one.
        let text = fs::read_to_string(&path).unwrap_or_default();
        let verdicts = text.lines().filter_map(|line| serde_json::from_str::<Verdict>(line).ok());
        let verdicts = verdicts.map(|verdict| (verdict.name.clone(), verdict)).collect();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok((file.context(|| format!("opening {}", path.display()))?, verdicts))
    }

    /// Runs and judges a test.
    ///
    /// # Errors
    /// When the test cannot be run.
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
                    let call = Call { folder: &test.folder, mlir, function, inputs, outputs: &test.outputs };
                    match self.runner.compile(&test.folder.join(mlir), Backend::Gpu(self.target))? {
                        Ok(module) => return self.judge_call(&test.name, &call, &module),
                        Err(refused) => refusal = refusal.or(Some(refused)),
                    }
                }
            }
        }
        Ok((Outcome::Refused, refusal.unwrap_or_default()))
    }

    fn judge_call(&self, name: &str, call: &Call, module: &Path) -> Result<(Outcome, String)> {
        let work = self.runner.cache.join("work").join(self.target.as_ref()).join(name);
        let gpu = self.runner.run(call, module, Backend::Gpu(self.target), &Hsa::Sim, &work)?;
        let expected = call.read_results(call.folder)?;
        let Err(difference) = gpu.clone().and_then(|gpu| agree_all(&gpu, &expected)) else {
            return Ok((Outcome::Passed, String::new()));
        };
        if let Err(error) = &gpu
            && let Some(kernel) = endless_kernel(module, error)?
        {
            let what = format!("the compiler made a kernel without s_endpgm for {}: {kernel}", self.target);
            return Ok((Outcome::Compilers, what));
        }
        if let Err(error) = &gpu
            && is_race_in_kernel(error)
        {
            return Ok((Outcome::Compilers, error.clone()));
        }
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

    /// Returns the results of the CPU backend. The outer error is the compiler's.
    fn on_cpu(&self, call: &Call) -> Result<std::result::Result<Results, String>> {
        let module = match self.runner.compile(&call.folder.join(call.mlir), Backend::Cpu)? {
            Ok(module) => module,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut of_inputs = vec![module.as_os_str().as_encoded_bytes().to_vec()];
        for input in call.inputs {
            of_inputs.push(input.read(call.folder)?.bytes);
        }
        let kept = self.runner.cache.join("cpu").join(format!("{:016x}", hash(&of_inputs)));
        if !kept.exists() {
            let partial = partial(&kept);
            if let Err(line) = self.runner.run(call, &module, Backend::Cpu, &Hsa::Sim, &partial)? {
                let path = partial.join("failed.txt");
                fs::write(&path, line).context(|| format!("writing {}", path.display()))?;
            }
            match fs::rename(&partial, &kept) {
                // Another one made it meanwhile.
                Err(_) if kept.exists() => {}
                renamed => renamed.context(|| format!("making {}", kept.display()))?,
            }
        }
        match fs::read_to_string(kept.join("failed.txt")) {
            Ok(line) => Ok(Ok(Err(line))),
            Err(_) => call.read_results(&kept).map(|results| Ok(Ok(results))),
        }
    }
}

/// True if `error` reports a race within a dispatch. The compiler is responsible for the order of a kernel's waves.
fn is_race_in_kernel(error: &str) -> bool {
    error.contains("race: kernel ") && !error.contains("data race between dispatches")
}

/// Returns the kernel in `module` that `error` names, if its code has no end because the compiler found it
/// `unreachable`.
fn endless_kernel(module: &Path, error: &str) -> Result<Option<String>> {
    let bytes = fs::read(module).context(|| format!("reading {}", module.display()))?;
    let files = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"\x7fELF"));
    let mut kernels =
        files.filter_map(|at| CodeObject::parse(&bytes[at..]).ok()).flat_map(|code| endless_kernels(&code));
    Ok(kernels.find(|kernel| error.contains(&format!("kernel {kernel}:"))))
}

/// Kernels without an `s_endpgm`.
fn endless_kernels(code: &CodeObject) -> Vec<String> {
    let is_endless = |kernel: &&str| {
        let function = code.symbol(kernel).and_then(|symbol| code.data_at(symbol.address, symbol.size));
        function.is_some_and(|code| !code.chunks_exact(4).any(|word| ENDS.iter().any(|end| end == word)))
    };
    let kernels = code.symbols.iter().filter_map(|symbol| symbol.name.strip_suffix(".kd"));
    kernels.filter(is_endless).map(str::to_owned).collect()
}

fn agree_all(actual: &[Raw], expected: &[Raw]) -> std::result::Result<(), String> {
    let mut pairs = actual.iter().zip(expected).enumerate();
    pairs.try_for_each(|(index, (a, e))| agree(a, e).map_err(|what| format!("result {index}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_result_that_differs_is_named() {
        let raw = |byte| Raw { shape: vec![1], kind: "u1".to_owned(), bytes: vec![byte] };
        assert_eq!(agree_all(&[raw(1), raw(2)], &[raw(1), raw(2)]), Ok(()));
        let error = agree_all(&[raw(1), raw(2)], &[raw(1), raw(3)]).unwrap_err();
        assert!(error.starts_with("result 1: "), "{error}");
    }

    #[test]
    fn a_kernel_without_an_end_is_named() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/kernels/kernels.gfx90a.co");
        let bytes = fs::read(file).unwrap();
        let endless = |bytes: &[u8]| endless_kernels(&CodeObject::parse(bytes).unwrap());
        assert_eq!(endless(&bytes), [""; 0]);
        let code = CodeObject::parse(&bytes).unwrap();
        let fill = *code.symbol("fill").unwrap();
        let segment = code.segments.iter().find(|segment| segment.executable).unwrap();
        let in_file = segment.data.as_ptr() as usize - bytes.as_ptr() as usize;
        let start = in_file + (fill.address - segment.address) as usize;
        let mut without = bytes.clone();
        without[start..start + fill.size as usize].fill(0);
        assert_eq!(endless(&without), ["fill"]);
    }
}
