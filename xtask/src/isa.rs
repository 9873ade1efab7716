// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! What of each instruction set the sim knows, beside what LLVM's disassembler knows.
//!
//! LLVM has no list of opcodes to ask for: each opcode of each encoding is tried with random operands, and counts as known if LLVM takes any
//! of them for one instruction. What the sim decodes, executes and has a test for is told by its own tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::process::{self, Ended};
use crate::steps::Steps;
use crate::target::Target;

/// Operands tried for each opcode.
const TRIES: usize = 24;

/// Instructions of graphics, or of hardware that no kernel of compute can name, by how their names begin. They may stay out.
const LEFT_OUT: [&str; 6] = ["v_interp", "ds_bvh", "ds_gws", "ds_ordered", "image_", "exp"];

/// How targets encode.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    Gfx9,
    Gfx10,
    Gfx11,
    Gfx12,
}

const TARGETS: [(&str, Family); 9] = [
    ("gfx906", Family::Gfx9),
    ("gfx908", Family::Gfx9),
    ("gfx90a", Family::Gfx9),
    ("gfx942", Family::Gfx9),
    ("gfx1010", Family::Gfx10),
    ("gfx1030", Family::Gfx10),
    ("gfx1100", Family::Gfx11),
    ("gfx1201", Family::Gfx12),
    ("gfx1250", Family::Gfx12),
];

/// What the sim has of an opcode.
#[derive(Clone, Copy, Default)]
struct Known {
    decoded: bool,
    executed: bool,
    tested: bool,
}

/// Mnemonic and state by encoding and opcode.
type Table = BTreeMap<(String, u32), (String, Known)>;

/// Prints the table of `target`, or of all targets; with `missing` also the names of what is not executed.
///
/// # Errors
/// Where LLVM 22 is missing, or the sim's tests fail.
pub fn run(layout: &Layout, steps: &Steps, target: Option<&Target>, missing: bool) -> Result<()> {
    let mut chosen = TARGETS.to_vec();
    if let Some(target) = target {
        chosen.retain(|(cpu, _)| *cpu == target.as_ref());
        if chosen.is_empty() {
            let names: Vec<_> = TARGETS.iter().map(|(cpu, _)| *cpu).collect();
            return Err(Error::setup(format!("the sim has no table for {target}; those it has: {}", names.join(", "))));
        }
    }
    let llvm = llvm_mc()?;
    let own = steps.step("What the sim knows", |step| {
        let path = layout.build.join("isa-coverage.txt");
        let mut cargo = layout.cargo();
        cargo.args(["test", "--workspace", "--locked", "--test", "semantics", "every_implemented_op"]);
        cargo.env("SIM_WAVE_COVERAGE", &path);
        let shown = process::display(&cargo);
        match step.follow(cargo, None, |_| {})? {
            Ended::Exit(status) if status.success() => {}
            Ended::Exit(status) => return Err(step.failure(&shown, &process::describe(status))),
            Ended::Silent => return Err(step.failure(&shown, "no output")),
        }
        std::fs::read_to_string(&path).context(|| format!("reading {}", path.display()))
    })?;
    for (cpu, family) in chosen {
        let mut table = own_table(&own, cpu)?;
        steps.step(&format!("What LLVM knows of {cpu}"), |_| add_llvm(&llvm, cpu, family, &mut table))?;
        print(cpu, &table, missing);
    }
    Ok(())
}

fn llvm_mc() -> Result<PathBuf> {
    let debian = Path::new("/usr/lib/llvm-22/bin/llvm-mc");
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path).map(|folder| folder.join("llvm-mc-22")).find(|path| path.is_file());
    found
        .or_else(|| debian.is_file().then(|| debian.to_owned()))
        .ok_or_else(|| Error::setup("llvm-mc-22 is not on PATH: install Debian's llvm-22"))
}

/// Reads the lines that the sim's tests wrote.
fn own_table(text: &str, cpu: &str) -> Result<Table> {
    let mut table = Table::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [target, format, code, name, executed, tested] = parts[..] else {
            return Err(Error::setup(format!("unexpected line of coverage: {line}")));
        };
        if target != cpu {
            continue;
        }
        // VOP3SD is VOP3 with a second destination.
        let format = format.replace("Vop3sd", "Vop3");
        let code = code.parse().map_err(|error| Error::setup(format!("opcode in {line:?}: {error}")))?;
        let known = Known { decoded: true, executed: executed == "true", tested: tested == "true" };
        table.insert((format, code), (name.to_owned(), known));
    }
    Ok(table)
}

/// Adds what LLVM knows and the sim does not. What the sim decodes LLVM knows as well: `sim-isa`'s oracle test holds that.
fn add_llvm(llvm: &Path, cpu: &str, family: Family, table: &mut Table) -> Result<()> {
    for (format, first, last) in formats(family) {
        let mut random = Random(0x5eed);
        let samples: Vec<(u32, Vec<u32>)> = (first..=last)
            .flat_map(|code| std::iter::repeat_n(code, TRIES))
            .map(|code| (code, sample(family, format, code, &mut random)))
            .collect();
        for ((code, _), name) in samples.iter().zip(disassemble(llvm, cpu, &samples)?) {
            let Some(name) = name else { continue };
            table.entry((format.to_owned(), *code)).or_insert((name, Known::default()));
        }
    }
    Ok(())
}

/// Encodings, and first and last opcode in them that is not another encoding's, nor a short one's in 64 bits.
fn formats(family: Family) -> Vec<(&'static str, u32, u32)> {
    let gfx9 = family == Family::Gfx9;
    let (smem, typed) = match family {
        Family::Gfx9 | Family::Gfx10 => (0xff, (0, 0xf)),
        Family::Gfx11 => (0x3f, (0, 0xf)),
        Family::Gfx12 => (0x3f, (0x80, 0x8f)),
    };
    let mut formats = vec![
        ("Sop1", 0, 0x7f),
        ("Sop2", 0, 0x5f),
        ("Sopc", 0, 0x7f),
        ("Sopk", 0, 0x1c),
        ("Sopp", 0, 0x7f),
        ("Vop1", 0, 0x7f),
        ("Vop2", 0, 0x3d),
        ("Vopc", 0, 0xff),
        ("Vop3p", 0, 0x7f),
        ("Ds", 0, 0xff),
        ("Smem", 0, smem),
        ("Mubuf", 0, 0x7f),
        ("Mtbuf", typed.0, typed.1),
        ("Flat", 0, 0x7f),
        ("Global", 0, 0x7f),
        ("Scratch", 0, 0x7f),
    ];
    if gfx9 {
        formats.push(("Vop3", 0x1c0, 0x37f));
    } else {
        formats.extend([("Vop3", 0x140, 0x17f), ("Vop3", 0x200, 0x3ff)]);
    }
    formats
}

/// Words of an opcode with random operands, mostly such as instructions have.
fn sample(family: Family, format: &str, code: u32, random: &mut Random) -> Vec<u32> {
    let gfx9 = family == Family::Gfx9;
    let scalar = |random: &mut Random| random.below(26) * 4;
    let lane = |random: &mut Random| random.below(120) * 2;
    // A register that may be missing.
    let maybe = |random: &mut Random| if random.below(2) == 0 { 0 } else { lane(random) };
    match format {
        "Sop1" => vec![0xbe80_0000 | scalar(random) << 16 | code << 8 | scalar(random)],
        "Sop2" => vec![0x8000_0000 | code << 23 | scalar(random) << 16 | scalar(random) << 8 | scalar(random)],
        "Sopc" => vec![0xbf00_0000 | code << 16 | scalar(random) << 8 | scalar(random)],
        "Sopk" => vec![0xb000_0000 | code << 23 | scalar(random) << 16 | random.below(0x1_0000), 0],
        "Sopp" => vec![0xbf80_0000 | code << 16 | [0, 1, random.below(0x1_0000)][random.below(3) as usize]],
        "Vop1" => {
            let source = if random.below(3) == 0 { scalar(random) } else { 256 + random.below(64) * 2 };
            vec![0x7e00_0000 | lane(random) << 17 | code << 9 | source]
        }
        "Vop2" => vec![code << 25 | lane(random) << 17 | lane(random) << 9 | (256 + lane(random))],
        "Vopc" => vec![0x7c00_0000 | code << 17 | lane(random) << 9 | (256 + lane(random))],
        "Vop3" => {
            let mut sources = [0; 3];
            let count = 1 + random.below(3) as usize;
            for source in &mut sources[..count] {
                *source = if random.below(3) == 0 { scalar(random) } else { 256 + lane(random) };
            }
            let base = if gfx9 { 0xd000_0000 } else { 0xd400_0000 };
            let dst = if random.below(2) == 0 { scalar(random) } else { lane(random) };
            let second = if random.below(4) == 0 { scalar(random) << 8 } else { 0 };
            vec![base | code << 16 | dst | second, sources[0] | sources[1] << 9 | sources[2] << 18]
        }
        "Vop3p" => {
            let tuple = |random: &mut Random| 256 + random.below(25) * 8;
            let mut sources = [tuple(random), tuple(random), tuple(random)];
            match random.below(4) {
                0 => sources[2] = 128,
                1 => (sources[1], sources[2]) = (0, 0),
                _ => {}
            }
            let base = if gfx9 { 0xd380_0000 } else { 0xcc00_0000 };
            let (low, high) = if random.below(2) == 0 { (0, 0) } else { (1 << 14, 3 << 27) };
            let accumulates = if gfx9 && code >= 0x40 && random.below(2) == 0 { 1 << 15 } else { 0 };
            let dst = random.below(25) * 8;
            vec![base | code << 16 | low | accumulates | dst, sources[0] | sources[1] << 9 | sources[2] << 18 | high]
        }
        "Ds" => {
            let offset = if random.below(2) == 0 { 0 } else { random.below(256) };
            let high = lane(random) | maybe(random) << 8 | maybe(random) << 16 | maybe(random) << 24;
            vec![0xd800_0000 | code << if gfx9 { 17 } else { 18 } | offset, high]
        }
        "Smem" => {
            let data = random.below(13) << if random.below(2) == 0 { 7 } else { 8 };
            let low = random.below(26) * 2 + data;
            match family {
                Family::Gfx9 => vec![0xc002_0000 | code << 18 | low, random.below(256)],
                Family::Gfx10 => vec![0xf400_0000 | code << 18 | low, 125 << 25],
                Family::Gfx11 => vec![0xf400_0000 | code << 18 | low, 124 << 25],
                Family::Gfx12 => vec![0xf400_0000 | code << 13 | low, 124 << 25 | random.below(256)],
            }
        }
        "Mubuf" | "Mtbuf" => buffer(family, format == "Mtbuf", code, random),
        _ => flat(family, format, code, random),
    }
}

fn buffer(family: Family, typed: bool, code: u32, random: &mut Random) -> Vec<u32> {
    let (resource, data, address) = (random.below(25), random.below(120) * 2, random.below(120) * 2);
    let addressing = random.below(4);
    let address = if addressing == 0 { 0 } else { address };
    let data_format = if typed { 1 + random.below(60) } else { 0 };
    if family == Family::Gfx12 {
        let hint = random.below(2) << 20;
        let high = data | resource << 11 | addressing << 30 | hint | data_format << 23;
        return vec![0xc400_0000 | code << 14 | 124, high, address];
    }
    // What has no operands wants zeros.
    if !typed && random.below(4) == 0 {
        return vec![0xe000_0000 | code << 18, 0];
    }
    let returns = random.below(2) << 14;
    let lds = if !typed && family != Family::Gfx11 && random.below(4) == 0 { 1 << 16 } else { 0 };
    let data = if lds != 0 { 0 } else { data };
    let (in_low, in_high) = if family == Family::Gfx11 { (0, addressing << 22) } else { (addressing << 12, 0) };
    let low = match (typed, family) {
        (false, _) => 0xe000_0000 | code << 18 | lds,
        (true, Family::Gfx10) => 0xe800_0000 | (code & 7) << 16 | data_format << 19,
        (true, _) => 0xe800_0000 | code << 15 | data_format << 19,
    };
    let upper_code = if typed && family == Family::Gfx10 { (code >> 3) << 21 } else { 0 };
    vec![low | in_low | returns, address | data << 8 | resource << 16 | in_high | upper_code | 128 << 24]
}

fn flat(family: Family, format: &str, code: u32, random: &mut Random) -> Vec<u32> {
    let segment = ["Flat", "Scratch", "Global"].iter().position(|name| *name == format).unwrap_or_default() as u32;
    let register = |random: &mut Random| if random.below(2) == 0 { 0 } else { random.below(120) * 2 };
    let (address, data, dst) = (register(random), register(random), register(random));
    let none = match family {
        Family::Gfx9 => 127,
        Family::Gfx10 => 125,
        Family::Gfx11 | Family::Gfx12 => 124,
    };
    // GFX9's flat accesses have no scalar address: the field is zero.
    let base = match (segment, family) {
        (0, Family::Gfx9) => 0,
        (0, _) => none,
        _ if random.below(2) == 0 => none,
        _ => random.below(26) * 4,
    };
    let returns = random.below(2);
    match family {
        Family::Gfx12 => {
            let has_address = if segment == 1 { random.below(2) << 17 } else { 0 };
            vec![
                0xec00_0000 | segment << 24 | code << 14 | base,
                dst | data << 23 | returns << 20 | has_address,
                address,
            ]
        }
        Family::Gfx11 => {
            let has_address = if segment == 1 { random.below(2) << 23 } else { 0 };
            let low = 0xdc00_0000 | code << 18 | segment << 16 | returns << 14;
            vec![low, address | data << 8 | base << 16 | dst << 24 | has_address]
        }
        _ => {
            let low = 0xdc00_0000 | code << 18 | segment << 14 | returns << 16;
            vec![low, address | data << 8 | base << 16 | dst << 24]
        }
    }
}

/// The mnemonic of each sample that LLVM takes for one instruction. A crash of llvm-mc costs the sample that it was at.
fn disassemble(llvm: &Path, cpu: &str, samples: &[(u32, Vec<u32>)]) -> Result<Vec<Option<String>>> {
    /// `s_movk_i32 s77, n` on all targets.
    const MARK: u32 = 0xb04d_0000;
    let mut names = Vec::with_capacity(samples.len());
    while names.len() < samples.len() {
        let rest = &samples[names.len()..];
        let mut input = String::new();
        for words in rest.iter().map(|(_, words)| words.as_slice()) {
            for group in [words, &[MARK]] {
                let bytes = group.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:#04x} "));
                input += &format!("[{}]\n", bytes.collect::<String>());
            }
        }
        let mut child = Command::new(llvm)
            .args(["-triple=amdgcn", &format!("-mcpu={cpu}"), "-disassemble"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context(|| format!("starting {}", llvm.display()))?;
        let stdin = child.stdin.take();
        // The pipes are emptied while they are filled.
        let writer = std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().context(|| "reading what llvm-mc says".to_owned())?;
        drop(writer.join());
        let refused: BTreeSet<usize> = String::from_utf8_lossy(&output.stderr)
            .lines()
            .filter_map(|line| line.strip_prefix("<stdin>:")?.split(':').next()?.parse::<usize>().ok())
            .map(|line| (line - 1) / 2)
            .collect();
        let (mut current, mut at) = (Vec::new(), 0);
        for line in String::from_utf8_lossy(&output.stdout).lines().map(str::trim) {
            if line.starts_with("s_movk_i32 s77, ") {
                let name: Option<&String> = match current.as_slice() {
                    [name] if !refused.contains(&at) => Some(name),
                    _ => None,
                };
                names.push(name.cloned());
                (current, at) = (Vec::new(), at + 1);
            } else if !line.is_empty() && !line.starts_with('.') {
                let sound = !line.contains("Invalid");
                current.extend(line.split_whitespace().next().filter(|_| sound).map(str::to_owned));
            }
        }
        if at < rest.len() {
            names.push(None);
        }
    }
    Ok(names)
}

fn print(cpu: &str, table: &Table, missing: bool) {
    println!("{cpu}");
    println!("  {:<8} {:>5} {:>8} {:>9} {:>7} {:>9}", "encoding", "LLVM", "decoded", "executed", "tested", "left out");
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|prefix| name.starts_with(prefix));
    let mut total = [0; 5];
    let formats: BTreeSet<&String> = table.keys().map(|(format, _)| format).collect();
    for format in formats {
        let mut counts = [0; 5];
        for (_, (name, known)) in table.iter().filter(|((of, _), _)| of == format) {
            counts[0] += 1;
            counts[1] += usize::from(known.decoded);
            counts[2] += usize::from(known.executed);
            counts[3] += usize::from(known.tested);
            counts[4] += usize::from(!known.executed && is_left_out(name));
        }
        row(format, counts);
        (0..5).for_each(|at| total[at] += counts[at]);
    }
    row("all", total);
    if !missing {
        return;
    }
    for (what, decoded) in [("decoded but not executed", true), ("not decoded", false)] {
        let names: BTreeSet<&str> = table
            .values()
            .filter(|(name, known)| !known.executed && known.decoded == decoded && !is_left_out(name))
            .map(|(name, _)| name.as_str())
            .collect();
        println!("  {what} ({}): {}", names.len(), names.into_iter().collect::<Vec<_>>().join(" "));
    }
}

fn row(name: &str, [llvm, decoded, executed, tested, left_out]: [usize; 5]) {
    println!("  {:<8} {llvm:>5} {decoded:>8} {executed:>9} {tested:>7} {left_out:>9}", name.to_lowercase());
}

/// A fixed sequence of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32 % end
    }
}
