// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernels that are compiled together, and their run.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::generate::{self, Kernel};
use crate::isa;
use xtask_core::error::{Context, Error, Result};
use xtask_core::hsa::Hsa;
use xtask_core::layout::Layout;
use xtask_core::process::{self, Ended};
use xtask_core::target::Target;

/// Number of kernels in a batch.
pub const KERNELS: u32 = 10;
/// A client that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);
/// Values of `HSA_SIM_JIT` with which kernels run: compiled, and in the interpreter beside compiled templates; for this
/// processor, and for AVX2. Batches have the first two and the last two in turn.
const JITS: [&str; 4] = ["always", "check,avx2", "check", "always,avx2"];
/// Flags of every compilation. The kernels access memory as several types.
const SEMANTICS: [&str; 4] = ["-w", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing"];
/// Compiler flags of the batches, in turn. GlobalISel is not among them: LLVM 22's takes values that differ between
/// lanes for scalars.
const WAYS: [&[&str]; 5] = [
    &["-O2"],
    &["-O1", "-mllvm", "-amdgpu-use-divergent-register-indexing"],
    &["-O3", "-munsafe-fp-atomics"],
    &["-O0"],
    &["-Os"],
];
const HEADER: &str = include_str!("kernels.h");
const OLD_HEADER: &str = include_str!("old.h");
const CLIENT: &str = include_str!("client.c");

/// Compiler of the kernels for a GPU.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Compiler {
    /// LLVM 22, as everything else uses
    #[value(name = "clang-22")]
    Clang22,
    /// Debian 12's, which encodes some instructions differently
    #[value(name = "clang-14")]
    Clang14,
}

impl Compiler {
    /// Name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clang22 => "clang-22",
            Self::Clang14 => "clang-14",
        }
    }

    /// Targets of the sim that the compiler supports.
    pub fn targets(self) -> &'static [&'static str] {
        match self {
            Self::Clang22 => &isa::TARGETS,
            Self::Clang14 => &["gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030"],
        }
    }
}

/// Kernels of neighbouring seeds, compiled with the same flags.
pub struct Batch<'a> {
    layout: &'a Layout,
    target: &'a Target,
    compiler: Compiler,
    folder: PathBuf,
    flags: Vec<String>,
    /// Some of [`JITS`].
    jits: &'static [&'static str],
    /// Names, seeds and texts.
    kernels: Vec<(String, u64, Kernel)>,
}

/// A kernel whose results differ between the GPU and the host.
pub struct Finding {
    /// Name of the kernel.
    pub kernel: String,
    /// Seed of the kernel.
    pub seed: u64,
    /// Compiler of the batch.
    pub compiler: Compiler,
    /// Compiler flags of the batch.
    pub flags: Vec<String>,
    /// Message of the client about the kernel.
    pub what: String,
}

/// Results of several batches.
#[derive(Default)]
pub struct Outcome {
    /// Number of kernels that were run.
    pub run: u32,
    /// Kernels whose results differ.
    pub findings: Vec<Finding>,
    /// First lines of clang's output for each batch that clang failed to compile.
    pub refused: Vec<String>,
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.run += other.run;
        self.findings.extend(other.findings);
        self.refused.extend(other.refused);
    }
}

impl<'a> Batch<'a> {
    /// Creates the batch with this number, counted from `seed`.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn new(layout: &'a Layout, target: &'a Target, compiler: Compiler, seed: u64, number: u64) -> Result<Self> {
        let seeds = (0..u64::from(KERNELS)).map(|n| seed.wrapping_mul(1_000_000) + number * u64::from(KERNELS) + n);
        let kernels = seeds.map(|seed| {
            let name = format!("k{seed}");
            let kernel = generate::kernel(&name, seed, &BTreeSet::new());
            (name, seed, kernel)
        });
        let mut flags = flags(target, number);
        if compiler == Compiler::Clang14 {
            // With registers that are indexed by values which differ between lanes, it writes the high half of 64 bits
            // over the low one.
            flags.retain(|flag| flag != "-mllvm" && !flag.contains("divergent-register-indexing"));
        }
        let (even, odd) = JITS.split_at(2);
        let jits = if number.is_multiple_of(2) { even } else { odd };
        Self::of(layout, target, compiler, &number.to_string(), flags, jits, kernels.collect())
    }

    /// Creates a batch of one kernel without the statements in `dropped`, for all of `JITS`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn single(layout: &'a Layout, target: &'a Target, finding: &Finding, dropped: &BTreeSet<u32>) -> Result<Self> {
        let kernel = generate::kernel(&finding.kernel, finding.seed, dropped);
        let kernels = vec![(finding.kernel.clone(), finding.seed, kernel)];
        Self::of(layout, target, finding.compiler, &finding.kernel, finding.flags.clone(), &JITS, kernels)
    }

    fn of(
        layout: &'a Layout,
        target: &'a Target,
        compiler: Compiler,
        name: &str,
        flags: Vec<String>,
        jits: &'static [&'static str],
        kernels: Vec<(String, u64, Kernel)>,
    ) -> Result<Self> {
        let folder = layout.build.join("kernels").join(format!("{target}-{}-{name}", compiler.name()));
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        Ok(Self { layout, target, compiler, folder, flags, jits, kernels })
    }

    /// Folder of the batch's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of statements of the first kernel, dropped ones included.
    pub fn statements(&self) -> u32 {
        self.kernels.first().map_or(0, |(_, _, kernel)| kernel.statements)
    }

    /// Compiles and runs the kernels.
    ///
    /// # Errors
    /// When the host's clang or the client fails.
    pub fn run(&self) -> Result<Outcome> {
        self.write_sources()?;
        if let Some(line) = self.compile()? {
            return Ok(Outcome { refused: vec![line], ..Outcome::default() });
        }
        let mut outcome = Outcome::default();
        for &jit in self.jits {
            outcome.run = 0;
            let mut first = 0;
            while first < self.kernels.len() {
                first += self.run_from(first, jit, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    fn write_sources(&self) -> Result<()> {
        let mut text = format!(
            "// {} -mcpu={} {}\n\n#include \"kernels.h\"\n\n",
            self.compiler.name(),
            self.target,
            self.flags.join(" ")
        );
        let mut table = String::new();
        for (name, _, kernel) in &self.kernels {
            text += &kernel.text;
            let _ = writeln!(table, "  {{\"{name}\", {name}, {}, {}}},", kernel.group_size, kernel.groups);
        }
        let count = self.kernels.len();
        let _ = write!(
            text,
            "#if !DEVICE\nconst kernel kernels[] = {{\n{table}}};\nconst u32 kernel_count = {count};\n#endif\n"
        );
        for (name, text) in
            [("kernels.c", text.as_str()), ("kernels.h", HEADER), ("old.h", OLD_HEADER), ("client.c", CLIENT)]
        {
            let path = self.folder.join(name);
            fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// Builds `kernels.co` and `client`. Returns clang's first line if it failed to compile the code object.
    fn compile(&self) -> Result<Option<String>> {
        let mut host = self.command("clang-22");
        host.args(SEMANTICS).arg("-std=c23");
        host.args(self.flags.iter().filter(|flag| flag.starts_with("-D")));
        // Each operation on an f16 is rounded to one.
        host.args(["-O0", "-mfma", "-mf16c", "-Xclang", "-ffloat16-excess-precision=none", "kernels.c", "client.c"]);
        host.arg(self.layout.sim_library()).args(["-lm", "-o", "client"]);
        host.arg(format!("-Wl,-rpath,{}", self.layout.sim_library().with_file_name("").display()));
        let shown = process::display(&host);
        if let Some(lines) = refusal(host)? {
            return Err(Error::setup(format!("`{shown}` in {}: {}", self.folder.display(), lines.join("\n"))));
        }
        for command in self.gpu_commands() {
            let shown = process::display(&command);
            if let Some(lines) = refusal(command)? {
                let told = lines.iter().find(|line| line.contains("error:") || line.contains("Assertion"));
                let told = told.or(lines.first()).map_or("no message", String::as_str);
                return Ok(Some(format!("{told} (`{shown}` in {})", self.folder.display())));
            }
        }
        Ok(None)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        command
    }

    /// Commands that build `kernels.co`, in order.
    fn gpu_commands(&self) -> Vec<Command> {
        const FOR_GPU: [&str; 2] = ["-target", "amdgcn-amd-amdhsa"];
        let mut clang = self.command(self.compiler.name());
        clang.args(SEMANTICS).arg("-nogpulib").args(&self.flags);
        let cpu = format!("-mcpu={}", self.target);
        match self.compiler {
            Compiler::Clang22 => {
                clang.args(["-x", "c", "-std=c23"]).args(FOR_GPU).arg(cpu);
                clang.args(["-fuse-ld=lld-22", "-mcode-object-version=6", "kernels.c", "-o", "kernels.co"]);
                vec![clang]
            }
            // clang 14 supports kernels in HIP only, and finds only a linker of its own version.
            Compiler::Clang14 => {
                clang.args(["-x", "hip", "-std=c++17", "-Wno-c++11-narrowing", "--cuda-device-only", "-nogpuinc"]);
                // It turns loops into calls of library functions, and cannot call them on the GPU.
                clang.arg("-fno-builtin");
                clang.arg(format!("--offload-arch={}", self.target)).args(["-S", "kernels.c", "-o", "kernels.s"]);
                let mut assembler = self.command(self.compiler.name());
                assembler.args(FOR_GPU).arg(cpu);
                assembler.args(self.flags.iter().filter(|flag| flag.starts_with("-mwavefrontsize")));
                assembler.args(["-c", "kernels.s", "-o", "kernels.o"]);
                let mut linker = self.command("ld.lld-22");
                linker.args(["-shared", "kernels.o", "-o", "kernels.co"]);
                vec![clang, assembler, linker]
            }
        }
    }

    /// Runs the client from the kernel at `first` to the last, with a value of `HSA_SIM_JIT`. Returns the number of
    /// kernels that ran.
    fn run_from(&self, first: usize, jit: &str, outcome: &mut Outcome) -> Result<usize> {
        let mut client = Command::new(self.folder.join("client"));
        client.current_dir(&self.folder).arg("kernels.co").arg(first.to_string());
        Hsa::Sim.apply(self.layout, self.target, &mut client);
        client.env("HSA_SIM_JIT", jit);
        let (mut run, mut told, mut last) = (0, Vec::new(), String::new());
        let ended = process::follow(client, Some(SILENCE), |line| {
            if line.starts_with("run ") {
                run += 1;
            } else if let Some((name, what)) = line.strip_prefix("differs ").and_then(|text| text.split_once(": ")) {
                told.push((name.to_owned(), what.to_owned()));
            } else if last.is_empty() {
                last = line.to_owned();
            }
        })
        .context(|| format!("running {}", self.folder.join("client").display()))?;
        let how = match ended {
            Ended::Exit(status) if matches!(status.code(), Some(0 | 1)) => None,
            Ended::Exit(status) => Some(process::describe(status)),
            Ended::Silent { .. } => Some(format!("no output for {} s, killed", SILENCE.as_secs())),
        };
        if let Some(how) = how {
            // The kernel that was running is the one at fault.
            let Some((name, ..)) = self.kernels.get((first + run).wrapping_sub(1)).filter(|_| run > 0) else {
                return Err(Error::setup(format!("the client in {}: {how}: {last}", self.folder.display())));
            };
            told.push((name.clone(), format!("{last} ({how}, HSA_SIM_JIT={jit})")));
        }
        for (name, what) in told {
            if outcome.findings.iter().any(|known| known.kernel == name) {
                continue;
            }
            let seed = self.kernels.iter().find(|(known, ..)| *known == name).map_or(0, |&(_, seed, _)| seed);
            let (compiler, flags) = (self.compiler, self.flags.clone());
            outcome.findings.push(Finding { kernel: name, seed, compiler, flags, what });
        }
        outcome.run += run as u32;
        Ok(run.max(1))
    }
}

/// Compiler flags of the batch with this number.
fn flags(target: &Target, number: u64) -> Vec<String> {
    let mut flags: Vec<_> = WAYS[number as usize % WAYS.len()].iter().map(|&flag| flag.to_owned()).collect();
    let (is_gfx9, has_both) = (target.as_ref().len() == 6, target.as_ref() != "gfx1250");
    let wave64 = is_gfx9 || has_both && number % 2 == 1;
    if wave64 && !is_gfx9 {
        flags.push("-mwavefrontsize64".to_owned());
    }
    flags.push(if wave64 { "-DWAVE=64" } else { "-DWAVE=32" }.to_owned());
    flags
}

/// Runs a compiler. Returns its output if it fails.
fn refusal(command: Command) -> Result<Option<Vec<String>>> {
    let shown = process::display(&command);
    let mut lines = Vec::new();
    let ended =
        process::follow(command, None, |line| lines.push(line.to_owned())).context(|| format!("running `{shown}`"))?;
    Ok(if matches!(ended, Ended::Exit(status) if status.success()) { None } else { Some(lines) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_of_both_lengths_are_compiled_in_each_way() {
        let ways = |target: &str| {
            let target = target.parse().unwrap();
            (0..10).map(|number| flags(&target, number)).collect::<BTreeSet<_>>().len()
        };
        assert_eq!([ways("gfx1100"), ways("gfx1250"), ways("gfx90a")], [10, 5, 5]);
    }
}
