// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Whole code objects against LLVM's disassembly of them.
//!
//! The device library that IREE ships prebuilt is always checked; directories named in `SIM_ISA_KERNELS` (separated by `:`) add their
//! `.hsaco` and `.so` files.

mod common;

use std::path::{Path, PathBuf};

use common::{normal, objdump};
use sim_isa::{Target, decode};

/// Code objects in `dir` whose name mentions gfx11, or all of them.
fn code_objects(dir: &Path, all: bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "hsaco" || ext == "so"))
        .filter(|path| all || path.to_string_lossy().contains("gfx11"))
        .collect();
    found.sort();
    found
}

/// Decodes each instruction LLVM shows in `path`; returns how many there were.
fn check(path: &Path, wrong: &mut Vec<String>) -> usize {
    let mut count = 0;
    for line in objdump(path).lines() {
        // `\tv_mov_b32_e32 v0, 0    // 000000001900: 7E000280 <label+0x10>`
        let Some((theirs, rest)) = line.split_once("//") else { continue };
        let Some((_, words)) = rest.split_once(": ") else { continue };
        let words: Vec<u32> = words.split_whitespace().map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
        if words.is_empty() {
            continue;
        }
        count += 1;
        let theirs = normal(theirs);
        let ours = match decode(Target::Gfx11, &words) {
            Ok(inst) if usize::from(inst.size) == words.len() * 4 => inst.to_string(),
            Ok(inst) => format!("{inst} ({} bytes)", inst.size),
            Err(error) => format!("({error})"),
        };
        let by_name = ["s_waitcnt_depctr", "s_sendmsg", "s_getreg", "s_setreg", "ds_swizzle"]
            .iter()
            .any(|op| theirs.starts_with(op));
        let same = if by_name { ours.split(' ').next() == theirs.split(' ').next() } else { ours == theirs };
        if !same {
            wrong.push(format!("{}: {words:08x?}\n  LLVM {theirs}\n  ours {ours}", path.display()));
        }
    }
    count
}

#[test]
fn kernels_read_as_llvm_reads_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let iree = std::env::var_os("IREE_SOURCE_DIR").map_or_else(|| root.join("build/iree"), PathBuf::from);
    let prebuilt = iree.join("runtime/src/iree/hal/drivers/amdgpu/device/binaries/prebuilt");
    let mut paths = code_objects(&prebuilt, false);
    if let Some(dirs) = std::env::var_os("SIM_ISA_KERNELS") {
        paths.extend(std::env::split_paths(&dirs).flat_map(|dir| code_objects(&dir, true)));
    }
    assert!(!paths.is_empty(), "no gfx11 code object in {}", prebuilt.display());
    let mut wrong = Vec::new();
    let count: usize = paths.iter().map(|path| check(path, &mut wrong)).sum();
    assert!(count > 1000, "only {count} instructions in {paths:?}");
    let first = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), first.join("\n"));
}
