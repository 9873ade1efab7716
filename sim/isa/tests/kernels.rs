// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Whole code objects against LLVM's disassembly of them.
//!
//! The device libraries that IREE and this project ship prebuilt are always checked; directories named in
//! `SIM_ISA_KERNELS` (separated by `:`) add their `.hsaco`, `.so` and `.co` files whose name tells a target with a
//! table.

use std::path::{Path, PathBuf};

use sim_isa::{Target, decode};
use sim_llvm::{normal, objdump};

/// Code objects in `dir` whose name mentions a target with a table.
fn code_objects(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "hsaco" || ext == "so" || ext == "co"))
        .filter(|path| target_of(path).is_some())
        .collect();
    found.sort();
    found
}

/// The target a file name tells.
fn target_of(path: &Path) -> Option<Target> {
    const NAMES: [(&str, Target); 15] = [
        ("gfx115", Target::Gfx1150),
        ("gfx11", Target::Gfx11),
        ("gfx125", Target::Gfx1250),
        ("gfx12", Target::Gfx1200),
        ("gfx1010", Target::Gfx1010),
        ("gfx10-1-generic", Target::Gfx1010),
        ("gfx1030", Target::Gfx1030),
        ("gfx10-3-generic", Target::Gfx1030),
        ("gfx906", Target::Gfx906),
        ("gfx9-generic", Target::Gfx906),
        ("gfx908", Target::Gfx908),
        ("gfx90a", Target::Gfx90a),
        ("gfx942", Target::Gfx942),
        ("gfx950", Target::Gfx950),
        ("gfx9-4-generic", Target::Gfx942),
    ];
    let file = path.file_name()?.to_string_lossy();
    NAMES.iter().find(|(name, _)| file.contains(name)).map(|(_, target)| *target)
}

/// Decodes each instruction LLVM shows in `path`; returns how many there were.
fn check(path: &Path, wrong: &mut Vec<String>) -> usize {
    let mut count = 0;
    let target = target_of(path).unwrap();
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
        let ours = match decode(target, &words) {
            Ok(inst) if usize::from(inst.size) == words.len() * 4 => inst.to_string(),
            Ok(inst) => format!("{inst} ({} bytes)", inst.size),
            Err(error) => format!("({error})"),
        };
        let by_name =
            ["s_waitcnt_depctr", "s_wait_alu", "s_barrier_wait", "s_sendmsg", "s_getreg", "s_setreg", "ds_swizzle"]
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
    let mut paths = code_objects(&prebuilt);
    paths.extend(code_objects(&root.join("device-binaries/prebuilt")));
    if let Some(dirs) = std::env::var_os("SIM_ISA_KERNELS") {
        paths.extend(std::env::split_paths(&dirs).flat_map(|dir| code_objects(&dir)));
    }
    assert!(!paths.is_empty(), "no code object with a table in {}", prebuilt.display());
    let mut wrong = Vec::new();
    let count: usize = paths.iter().map(|path| check(path, &mut wrong)).sum();
    assert!(count > 1000, "only {count} instructions in {paths:?}");
    let first = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), first.join("\n"));
}
