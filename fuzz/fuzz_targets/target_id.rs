// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Target ids as text and as ELF flags, and their compatibility.
#![no_main]

use amdgpu_code_object::TargetId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((head, tail)) = data.split_first_chunk::<5>() else { return };
    let [abi_version, flags @ ..] = *head;
    let from_elf = TargetId::from_elf(u32::from_le_bytes(flags), abi_version).ok();
    let from_text = std::str::from_utf8(tail).ok().and_then(|text| text.parse::<TargetId>().ok());
    for target in from_elf.iter().chain(&from_text) {
        let parsed: TargetId = target.hsa_isa_name().parse().expect("what prints parses");
        assert_eq!(parsed.to_string(), target.to_string());
        assert_eq!(parsed.processor, target.processor);
        let _ = target.generic();
    }
    if let (Some(code_object), Some(agent)) = (from_elf, from_text) {
        if let Err(mismatch) = code_object.check_runs_on(&agent) {
            assert!(mismatch.to_string().contains(&agent.to_string()));
        }
    }
});
