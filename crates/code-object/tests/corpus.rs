// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Replays the fuzz corpus (`fuzz/seeds`): nothing may panic, seeds that are valid must stay so.

use std::fs;
use std::path::PathBuf;

use amdgpu_code_object::{CodeObject, Executable, ExecutableDef, Metadata, TargetId, infer_format, probe_size};

/// Name and contents of each seed of a fuzz target.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("a folder's entry").path();
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.file_name().expect("a file").to_string_lossy().into_owned(), bytes)
        })
        .collect();
    assert!(!seeds.is_empty(), "{} is empty", folder.display());
    seeds
}

#[test]
fn elf() {
    for (name, bytes) in seeds("elf") {
        let metadata = Metadata::parse(&bytes).is_ok();
        let executable = CodeObject::parse(&bytes).is_ok() && Executable::parse(&bytes).is_ok();
        assert_eq!((metadata, executable), (name == "metadata", name.starts_with("globals")), "{name}");
    }
}

#[test]
fn amd1() {
    for (name, content) in seeds("amd1") {
        let mut bytes = b"AMD1\0\0\0\0".to_vec();
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.resize(64, 0);
        bytes.extend(content);
        let valid = ExecutableDef::parse(&bytes).is_ok() && Executable::parse(&bytes).is_ok();
        assert_eq!(valid, name.starts_with("kernels"), "{name}");
    }
}

#[test]
fn target_id() {
    for (name, bytes) in seeds("target_id") {
        let (head, text) = bytes.split_first_chunk::<5>().expect("a seed has at least five bytes");
        let [abi_version, flags @ ..] = *head;
        let code_object = TargetId::from_elf(u32::from_le_bytes(flags), abi_version);
        let agent = std::str::from_utf8(text).ok().and_then(|text| text.parse::<TargetId>().ok());
        if let (Ok(code_object), Some(agent)) = (code_object, agent) {
            let _ = code_object.check_runs_on(&agent);
            assert_eq!(agent.to_string().parse(), Ok(agent), "{name}");
        }
    }
}

#[test]
fn format_inference() {
    for (name, bytes) in seeds("infer_format") {
        let format = infer_format(&bytes);
        if let Ok(format) = &format {
            assert!(probe_size(&bytes).is_ok() && format.size <= bytes.len() as u64, "{name}");
        }
        assert_eq!(format.is_ok(), ["elf", "amd1"].contains(&name.as_str()), "{name}");
    }
}
