// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Look-up of a code object's symbols, for test objects and for every checked-in code object. One test, because the
//! environment is the process's.

mod common;

use std::path::{Path, PathBuf};
use std::{env, fs};

use amdgpu_code_object::{CodeObject, ExecutableDef};
use common::code::*;
use common::*;
use hsa_abi::*;

#[test]
fn kernels_are_found_in_the_table_that_rocr_looks_in() {
    // SAFETY: this process has one test and the runtime is not initialised, so that no other thread
    // looks at the environment.
    let set = |name, value: &str| unsafe { env::set_var(name, value) };
    set("HSA_SIM_AGENTS", "gfx906,gfx908,gfx90a,gfx942,gfx1010,gfx1030,gfx1100,gfx1201,gfx1250,gfx950,gfx1151");
    every_checked_in_code_object_names_its_kernels(&Hsa::new());

    // Without relocations, which would need `.dynsym` themselves.
    let whole = device_binaries::select("gfx1100").unwrap().elf;
    let (stripped, statically) = (without_section(whole, SHT_SYMTAB), without_section(whole, SHT_DYNSYM));
    let name = device_binaries::Kernel::ALL[0].symbol();
    let refused = load_code(Hsa::new().gpus[6], &with_names(whole)).map(|_| ());
    assert_eq!(refused, Err(HsaStatus::ERROR_INVALID_CODE_OBJECT), "80 MB of names");
    let lookups = || {
        let hsa = Hsa::new();
        [whole, &stripped, &statically].map(|elf| load_code(hsa.gpus[6], elf)?.symbol(name).map(|_| ()))
    };
    let missing = Err(HsaStatus::ERROR_INVALID_SYMBOL_NAME);
    assert_eq!(lookups(), [Ok(()), missing, Ok(())]);
    for off in ["0", "0x1"] {
        set("LOADER_USE_DYNSYM", off);
        assert_eq!(lookups(), [Ok(()), missing, Ok(())], "{off}");
    }
    for on in ["1", "", "no"] {
        set("LOADER_USE_DYNSYM", on);
        assert_eq!(lookups(), [Ok(()), Ok(()), missing], "{on}");
    }
}

fn every_checked_in_code_object_names_its_kernels(hsa: &Hsa) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    code_objects(root, &mut files);
    for folder in ["crates/code-object/testdata", "device-binaries/prebuilt", "examples/hsaco", "sim/tests/kernels"] {
        assert!(files.iter().any(|(path, _)| path.starts_with(root.join(folder))), "none in {folder}");
    }
    for (path, bytes) in files {
        let path = path.display();
        let image = ExecutableDef::parse(&bytes).map_or(&bytes[..], |definition| definition.image);
        let kernels = CodeObject::parse(image).unwrap().metadata().unwrap().kernels;
        assert!(!kernels.is_empty(), "{path}");
        let mut loads = hsa.gpus.iter().map(|&gpu| load_code(gpu, image));
        let loaded = loads.find(|load| !matches!(load, Err(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS)));
        match loaded {
            Some(Ok(code)) => {
                for kernel in kernels {
                    code.symbol(&kernel.symbol)
                        .unwrap_or_else(|status| panic!("{path}: {}: {status:?}", kernel.symbol));
                }
            }
            // The parser's samples refer to a variable that no loader here provides.
            Some(Err(HsaStatus::ERROR_VARIABLE_UNDEFINED)) if path.to_string().contains("globals-") => {}
            // The one target that has a code object and no agent.
            None if path.to_string().contains("gfx1251") => {}
            other => panic!("{path}: {:?}", other.map(|load| load.map(|_| ()))),
        }
    }
}

/// Collects all code objects of the project, alone (ELF) or in IREE's container.
fn code_objects(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            // Build output, and the fuzzers' input, much of which is damaged.
            if !["target", "build", "fuzz"].contains(&name) && !name.starts_with('.') {
                code_objects(&path, found);
            }
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let amdgpu = bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&224_u16.to_le_bytes());
        if amdgpu || bytes.starts_with(b"AMD1") || bytes.starts_with(b"HIP1") {
            found.push((path, bytes));
        }
    }
}

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;

/// The ELF file with another symbol table: 20,000 variables with the same name of 4,000 bytes.
fn with_names(elf: &[u8]) -> Vec<u8> {
    let mut elf = elf.to_vec();
    elf.resize(elf.len().next_multiple_of(8), 0);
    let strings = elf.len() as u64;
    elf.extend([&[0], [b'n'; 4000].as_slice(), &[0]].concat());
    elf.resize(elf.len().next_multiple_of(8), 0);
    let symbols = elf.len() as u64;
    // A global object in section 1.
    let symbol = [1_u32.to_le_bytes().as_slice(), &[1 << 4 | 1, 0, 1, 0], &[0; 16]].concat();
    elf.extend([0; 24]);
    elf.extend(symbol.repeat(20_000));
    let sections = elf.len() as u64;
    for (kind, offset, size, link) in
        [(0, 0, 0, 0), (SHT_SYMTAB, symbols, sections - symbols, 2), (3, strings, 4002, 0)]
    {
        let mut header = [0; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
        header[40..44].copy_from_slice(&u32::to_le_bytes(link));
        header[56..64].copy_from_slice(&24_u64.to_le_bytes());
        elf.extend(header);
    }
    elf[40..48].copy_from_slice(&sections.to_le_bytes());
    elf[60..64].copy_from_slice(&[3, 0, 0, 0]);
    elf
}

/// The ELF file with all sections of a type disabled.
fn without_section(elf: &[u8], kind: u32) -> Vec<u8> {
    let mut elf = elf.to_vec();
    let table = u64::from_le_bytes(elf[40..48].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(elf[60..62].try_into().unwrap()) as usize;
    let mut changed = 0;
    for at in (0..count).map(|index| table + 64 * index + 4) {
        if elf[at..at + 4] == kind.to_le_bytes() {
            elf[at..at + 4].fill(0);
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    elf
}
