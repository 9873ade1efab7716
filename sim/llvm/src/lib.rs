// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! LLVM's machine-code tools as oracles, for the tests of `sim-isa` and `sim-wave`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Places to look for LLVM 22 tools; the second is where Debian's `llvm-22` puts them.
fn tool(name: &str) -> PathBuf {
    let versioned = format!("{name}-22");
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path).map(|dir| dir.join(&versioned)).find(|path| path.is_file());
    let debian = Path::new("/usr/lib/llvm-22/bin").join(name);
    match found {
        Some(path) => path,
        None if debian.is_file() => debian,
        None => panic!("{versioned} is neither on PATH nor at {}: install the llvm-22 package", debian.display()),
    }
}

/// Runs an LLVM tool with `input` on stdin; returns stdout and stderr.
fn run(name: &str, args: &[&str], input: &str) -> (String, String) {
    let mut child = Command::new(tool(name))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(
        output.status.code().is_some(),
        "{name} crashed after:\n{}",
        String::from_utf8_lossy(&output.stdout).lines().rev().take(4).collect::<Vec<_>>().join("\n")
    );
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Halves of VGPRs are operands of their own on RDNA3 and RDNA4 only.
fn mattr(cpu: &str) -> &'static str {
    if cpu.starts_with("gfx9") || cpu.starts_with("gfx10") { "-mattr=" } else { "-mattr=+real-true16" }
}

/// `s_movk_i32 s77, n`: marks the end of sample `n`. All targets share the encoding.
const MARK: u32 = 0xb04d_0000;

/// Disassembles each sample on its own, in one process. `None` if LLVM does not decode the words as exactly one
/// instruction.
pub fn disassemble(cpu: &str, samples: &[Vec<u32>]) -> Vec<Option<String>> {
    let mut input = String::new();
    for (at, words) in samples.iter().enumerate() {
        for group in [words.as_slice(), &[MARK | (at as u32 & 0x7fff)]] {
            input.push('[');
            for byte in group.iter().flat_map(|word| word.to_le_bytes()) {
                input.push_str(&format!("{byte:#04x} "));
            }
            input.push_str("]\n");
        }
    }
    let (stdout, stderr) =
        run("llvm-mc", &["-triple=amdgcn", &format!("-mcpu={cpu}"), mattr(cpu), "-disassemble"], &input);
    let mut refused = vec![false; samples.len()];
    for line in stderr.lines() {
        if let Some(number) =
            line.strip_prefix("<stdin>:").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok())
        {
            refused[(number - 1) / 2] = true;
        }
    }
    let mut texts = Vec::with_capacity(samples.len());
    let mut current: Vec<String> = Vec::new();
    for line in stdout.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('.')) {
        if line.starts_with("s_movk_i32 s77, ") {
            texts.push(match current.as_slice() {
                [one] if !refused[texts.len()] => Some(normal(one)),
                _ => None,
            });
            current.clear();
        } else {
            current.push(line.to_owned());
        }
    }
    assert_eq!(texts.len(), samples.len(), "llvm-mc lost track of the samples");
    texts
}

/// Assembles each line in one process, for a processor that may have a feature appended as in
/// `gfx1100,+wavefrontsize64`. `None` if LLVM refuses the line.
pub fn assemble(cpu: &str, lines: &[String]) -> Vec<Option<Vec<u32>>> {
    let input = lines.join("\n") + "\n";
    let (cpu, feature) = cpu.split_once(',').unwrap_or((cpu, ""));
    let attributes = format!("{},{feature}", mattr(cpu));
    let (stdout, stderr) = run(
        "llvm-mc",
        &["-triple=amdgcn", &format!("-mcpu={cpu}"), attributes.trim_end_matches(','), "-show-encoding"],
        &input,
    );
    let mut refused = vec![false; lines.len()];
    for line in stderr.lines().filter(|line| line.contains(": error:")) {
        if let Some(number) =
            line.strip_prefix("<stdin>:").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok())
        {
            refused[number - 1] = true;
        }
    }
    let mut encodings = stdout.lines().filter_map(|line| {
        let bytes = line.split("encoding: [").nth(1)?.split(']').next()?;
        let bytes: Vec<u8> =
            bytes.split(',').map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).unwrap()).collect();
        Some(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
    });
    let words = refused.into_iter().map(|refused| if refused { None } else { encodings.next() }).collect();
    assert!(encodings.next().is_none(), "llvm-mc lost track of the lines: {stderr}");
    words
}

/// LLVM's disassembly of a code object.
pub fn objdump(path: &Path) -> String {
    let (stdout, stderr) = run("llvm-objdump", &["-d", "--mattr=+real-true16", &path.display().to_string()], "");
    assert!(stderr.is_empty(), "{}: {stderr}", path.display());
    stdout
}

/// Removes comments, and reduces blanks to single ones.
pub fn normal(text: &str) -> String {
    let text = text.split("//").next().unwrap_or_default().split(';').next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
