// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Mutation test of the sim's checks on compiled models. It removes every wait, barrier, cache control and wait state
//! of the models' kernels from the module, one at a time, and runs the model with all checks. A removal that no check
//! finds must not matter: the instruction is not executed, or the results do not depend on when memory operations
//! complete or which lines caches keep. `sim/wave/tests/sanitizer/mutations.rs` tests handwritten kernels in the same
//! way, without IREE's compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use amdgpu_code_object::CodeObject;

use models::{Model, read_models};
use xtask_core::conditions::Conditions;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::iree::{Backend, Call, compile};
use xtask_core::layout::{LLVM_DIR, Layout};
use xtask_core::steps::{Step, Steps};
use xtask_core::target::Target;

/// Processors whose kernels are mutated.
pub const TARGETS: [&str; 5] = ["gfx1100", "gfx1201", "gfx1250", "gfx90a", "gfx942"];

/// `s_nop 0` of all of [`TARGETS`].
const NOP: u32 = 0xbf80_0000;

/// Seeds of delayed memory results, and of the choice of lines that caches keep.
const SEEDS: [&str; 3] = ["1", "2", "3"];

/// An instruction that orders memory accesses, waves or hazards.
struct Order {
    kernel: String,
    /// Offset in the module's bytes.
    at: usize,
    /// Offset from the beginning of the code that contains the kernel.
    offset: u64,
    words: Vec<u32>,
    /// Replacement: no-ops, or fewer wait states.
    instead: u32,
    text: String,
    kind: Kind,
    /// True if the kernel's workgroups have one wave only.
    is_alone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Wait,
    Barrier,
    Cache,
    Hazard,
}

/// Result of one removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Found,
    /// The model's inputs do not lead to the instruction.
    NotRun,
    /// The instruction is a barrier, and the workgroup has one wave.
    Alone,
    /// No finding, and the results do not depend on delayed memory or on caches.
    Same,
    /// No finding, but no run here could show a difference.
    Undecided,
    /// No finding, although the results differ.
    Missed,
}

/// Runs all models on `targets` with each instruction removed, and prints a table and the removals without a finding.
///
/// # Errors
/// When an unchanged model has findings, or a removal that matters has none.
pub fn run(layout: &Layout, steps: &Steps, targets: &[Target], only: &[String]) -> Result<()> {
    let models = read_models(layout)?;
    let mut missed = 0;
    for target in targets {
        let mut counts = BTreeMap::<(Kind, Outcome), u32>::new();
        let mut kernels = BTreeSet::new();
        steps.step(&format!("Mutations of kernels on {target}"), |step| {
            let mut seen = BTreeSet::new();
            for model in models.iter().filter(|model| only.is_empty() || only.contains(&model.name)) {
                let of_model = Rig::new(layout, step, target, model)?;
                for order in of_model.orders()? {
                    // Models of one file share its module, whose kernels are each looked at with the first that runs
                    // them.
                    let key = (model.file().to_owned(), order.at);
                    if seen.contains(&key) || !of_model.is_run(&order.kernel) {
                        continue;
                    }
                    seen.insert(key);
                    kernels.insert((model.file().to_owned(), order.kernel.clone()));
                    let outcome = of_model.outcome(&order)?;
                    step.note(&format!("{} {}: {outcome:?}", model.name, order.text));
                    *counts.entry((order.kind, outcome)).or_default() += 1;
                    if outcome != Outcome::Found {
                        let (kernel, offset, text) = (&order.kernel, order.offset, &order.text);
                        steps.say(&format!("  {target} {} {kernel} +{offset:#x} {text}: {outcome:?}", model.name));
                    }
                    missed += u32::from(outcome == Outcome::Missed);
                }
            }
            Ok(())
        })?;
        println!("{target}: {} kernels", kernels.len());
        for kind in [Kind::Wait, Kind::Barrier, Kind::Cache, Kind::Hazard] {
            let of = |outcome| counts.get(&(kind, outcome)).copied().unwrap_or_default();
            let all: u32 = counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count).sum();
            println!(
                "  {:8} {all:4} taken out, {:4} found, {:3} not run, {:3} of one wave, {:3} without a difference, {:3} \
                 undecided, {:3} missed",
                format!("{kind:?}"),
                of(Outcome::Found),
                of(Outcome::NotRun),
                of(Outcome::Alone),
                of(Outcome::Same),
                of(Outcome::Undecided),
                of(Outcome::Missed),
            );
        }
    }
    if missed == 0 { Ok(()) } else { Err(Error::Failed(format!("{missed} that matter were not found"))) }
}

/// A model on a target, with its expected results.
struct Rig<'a> {
    layout: &'a Layout,
    step: &'a Step,
    target: &'a Target,
    model: &'a Model,
    inputs: Vec<PathBuf>,
    work: PathBuf,
    module: Vec<u8>,
    right: Vec<u8>,
    /// Offsets of the executed instructions, by kernel.
    executed: BTreeMap<String, BTreeSet<u64>>,
}

impl<'a> Rig<'a> {
    fn new(layout: &'a Layout, step: &'a Step, target: &'a Target, model: &'a Model) -> Result<Self> {
        let work = layout.build.join("check-mutations");
        fs::create_dir_all(&work).context(|| format!("making {}", work.display()))?;
        let inputs = model.make_inputs(&work)?;
        let source = layout.root.join("models").join(model.file());
        let module = compile(layout, step, &source, Backend::Gpu(target))?;
        let bytes = fs::read(&module).context(|| format!("reading {}", module.display()))?;
        let (right, executed) = (Vec::new(), BTreeMap::new());
        let mut rig = Self { layout, step, target, model, inputs, work, module: bytes, right, executed };
        let (found, right) = rig.call(&rig.module, &[("HSA_SIM_CHECK", "all")])?;
        match right {
            Some(right) if !found => rig.right = right,
            _ => return Err(Error::Failed(format!("{} has findings as it is, or fails", model.name))),
        }
        rig.executed = rig.profile()?;
        Ok(rig)
    }

    /// Runs a module. Returns true if there was a finding or the run failed, and the results if the run ended well.
    fn call(&self, module: &[u8], variables: &[(&str, &str)]) -> Result<(bool, Option<Vec<u8>>)> {
        let path = |name: &str| self.work.join(name);
        let (file, output, findings) = (path("module.vmfb"), path("output.npy"), path("findings.json"));
        fs::write(&file, module).context(|| format!("writing {}", file.display()))?;
        // Findings are appended.
        fs::write(&findings, "").context(|| format!("writing {}", findings.display()))?;
        let findings_text = findings.to_string_lossy();
        let mut variables = [variables, &[("HSA_SIM_TIMEOUT", "60")]].concat();
        if variables.iter().any(|(name, _)| *name == "HSA_SIM_CHECK") {
            variables.push(("HSA_SIM_CHECK_OUTPUT", &*findings_text));
        }
        let call = Call {
            module: &file,
            function: &self.model.function,
            inputs: &self.inputs,
            output: &output,
            results: self.model.results,
            stats: &path("stats.json"),
            variables: &variables,
            conditions: Conditions::DEFAULT,
        };
        let ended = call.run(self.layout, self.step, Backend::Gpu(self.target), &Hsa::Sim);
        let output = ended.is_ok().then(|| fs::read(&output)).transpose().context(|| "reading results".to_owned())?;
        let found = fs::read(&findings).context(|| format!("reading {}", findings.display()))?;
        Ok((!found.is_empty() || output.is_none(), output))
    }

    /// Returns the offsets of the executed instructions, by kernel, from the sim's profile.
    fn profile(&self) -> Result<BTreeMap<String, BTreeSet<u64>>> {
        let path = self.work.join("profile.json");
        self.call(&self.module, &[("HSA_SIM_PROFILE", &path.to_string_lossy())])?;
        let text = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
        let mut executed = BTreeMap::<String, BTreeSet<u64>>::new();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).map_err(|error| Error::setup(error.to_string()))?;
            let (Some(kernel), Some(offset)) = (row["kernel"].as_str(), row["offset"].as_u64()) else { continue };
            if row["times"].as_u64().is_some_and(|times| times > 0) {
                executed.entry(kernel.to_owned()).or_default().insert(offset);
            }
        }
        Ok(executed)
    }

    fn is_run(&self, kernel: &str) -> bool {
        self.executed.contains_key(kernel)
    }

    fn outcome(&self, order: &Order) -> Result<Outcome> {
        if self.executed.get(&order.kernel).is_none_or(|offsets| !offsets.contains(&order.offset)) {
            return Ok(Outcome::NotRun);
        }
        let mut module = self.module.clone();
        for n in 0..order.words.len() {
            let word = if n == 0 { order.instead } else { NOP };
            module[order.at + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
        }
        if self.call(&module, &[("HSA_SIM_CHECK", "all")])?.0 {
            return Ok(Outcome::Found);
        }
        let variables: &[(&str, &str)] = match order.kind {
            Kind::Wait => &[("HSA_SIM_CHECK", "wait")],
            Kind::Cache => &[("HSA_SIM_MEMORY", "strict")],
            Kind::Barrier if order.is_alone => return Ok(Outcome::Alone),
            Kind::Barrier | Kind::Hazard => return Ok(Outcome::Undecided),
        };
        for seed in SEEDS {
            let (_, output) = self.call(&module, &[variables, &[("HSA_SIM_SEED", seed)]].concat())?;
            if output.as_ref() != Some(&self.right) {
                return Ok(Outcome::Missed);
            }
        }
        Ok(Outcome::Same)
    }

    /// Returns the ordering instructions of the module's kernels.
    fn orders(&self) -> Result<Vec<Order>> {
        // Of ELF files for 64 bits, little-endian, of AMD's HSA.
        const MAGIC: [u8; 8] = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0x40];
        let starts = self.module.windows(8).enumerate().filter(|(_, bytes)| *bytes == MAGIC).map(|(at, _)| at);
        let mut orders = Vec::new();
        for start in starts {
            orders.extend(self.orders_of(start)?);
        }
        Ok(orders)
    }

    fn orders_of(&self, start: usize) -> Result<Vec<Order>> {
        let elf = &self.module[start..];
        let trouble = |error: amdgpu_code_object::Error| Error::Failed(format!("{}: {error}", self.model.name));
        let code = CodeObject::parse(elf).map_err(trouble)?;
        let metadata = code.metadata().map_err(trouble)?;
        let path = self.work.join("kernels.elf");
        fs::write(&path, elf).context(|| format!("writing {}", path.display()))?;
        let mut command = Command::new(Path::new(LLVM_DIR).join("bin/llvm-objdump"));
        command.args(["-d", &format!("--mcpu={}", self.target)]).arg(&path);
        let text = self.step.capture(command)?;
        let mut kernel = String::new();
        let mut orders = Vec::new();
        let mut first = None;
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
                name.clone_into(&mut kernel);
            }
            let Some((text, place)) = line.split_once("// ") else { continue };
            let Some((address, words)) = place.split_once(": ") else { continue };
            let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
            let words: Vec<u32> =
                words.split_whitespace().map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
            // The first instruction is at the section's start.
            let offset = address - *first.get_or_insert(address);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let Some((kind, instead)) = kind(&text) else { continue };
            let known = metadata.kernels.iter().find(|known| known.name == kernel);
            let at = file_offset(elf, address).filter(|at| elf.get(*at..*at + 4) == Some(&words[0].to_le_bytes()));
            let Some(at) = at else {
                return Err(Error::Failed(format!("{} at {address:#x} of {kernel} is not in the file", text)));
            };
            orders.push(Order {
                kernel: kernel.clone(),
                at: start + at,
                offset,
                words,
                instead,
                text,
                kind,
                is_alone: known.is_some_and(|known| known.max_flat_workgroup_size <= known.wavefront_size),
            });
        }
        Ok(orders)
    }
}

/// Returns the kind of an ordering instruction, and its replacement; `None` for all others.
fn kind(text: &str) -> Option<(Kind, u32)> {
    let starts = |with: &[&str]| with.iter().any(|start| text.starts_with(start));
    if let Some(n) = text.strip_prefix("s_nop ") {
        // One wait state stays: there is no instruction that takes none.
        return n.trim_start_matches("0x").parse::<u32>().is_ok_and(|n| n > 0).then_some((Kind::Hazard, NOP));
    }
    if starts(&["s_waitcnt_depctr", "s_wait_alu", "s_wait_xcnt", "v_nop"]) {
        return Some((Kind::Hazard, NOP));
    }
    if starts(&["s_wait"]) {
        return Some((Kind::Wait, NOP));
    }
    if starts(&["s_barrier"]) {
        return Some((Kind::Barrier, NOP));
    }
    starts(&["buffer_gl", "buffer_inv", "buffer_wb", "global_inv", "global_wb"]).then_some((Kind::Cache, NOP))
}

/// File offset of a virtual address of an ELF file.
fn file_offset(elf: &[u8], address: u64) -> Option<usize> {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(elf.get(at..at + bytes)?);
        Some(u64::from_le_bytes(number))
    };
    let (table, size, count) = (number(0x20, 8)? as usize, number(0x36, 2)? as usize, number(0x38, 2)? as usize);
    (0..count).map(|n| table + n * size).find_map(|header| {
        let (kind, offset) = (number(header, 4)?, number(header + 8, 8)?);
        let (start, bytes) = (number(header + 16, 8)?, number(header + 32, 8)?);
        let is_in = kind == 1 && address.wrapping_sub(start) < bytes;
        is_in.then(|| (offset + (address - start)) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_orders_is_known_by_its_text() {
        for (text, expected) in [
            ("s_waitcnt vmcnt(0)", Some(Kind::Wait)),
            ("s_wait_loadcnt 0x0", Some(Kind::Wait)),
            ("s_waitcnt_depctr 0xfff", Some(Kind::Hazard)),
            ("s_wait_alu 0xfffe", Some(Kind::Hazard)),
            ("s_wait_xcnt 0x0", Some(Kind::Hazard)),
            ("s_nop 3", Some(Kind::Hazard)),
            ("s_nop 0", None),
            ("s_barrier_signal -1", Some(Kind::Barrier)),
            ("buffer_inv sc1", Some(Kind::Cache)),
            ("buffer_load_dword v0, v1, s[0:3], 0 offen", None),
            ("s_endpgm", None),
        ] {
            assert_eq!(kind(text).map(|(kind, _)| kind), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_found_by_their_segments() {
        let mut elf = vec![0; 0x200];
        let mut put =
            |at: usize, value: u64, bytes: usize| elf[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        put(0x20, 0x40, 8);
        put(0x36, 56, 2);
        put(0x38, 1, 2);
        put(0x40, 1, 4);
        put(0x48, 0x100, 8);
        put(0x50, 0x1100, 8);
        put(0x60, 0x80, 8);
        assert_eq!(file_offset(&elf, 0x1110), Some(0x110));
        assert_eq!(file_offset(&elf, 0x1180), None);
        assert_eq!(file_offset(&elf, 0x10f0), None);
        assert_eq!(file_offset(&[], 0), None);
    }
}
