// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! ELF code objects, their metadata, and a loader's use of them.
#![no_main]

use amdgpu_code_object::{CodeObject, Executable, Metadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Metadata::parse(data);
    let Ok(object) = CodeObject::parse(data) else { return };
    let range = object.load_range();
    for relocation in &object.relocations {
        assert!(range.contains(&relocation.address));
        let symbol = relocation.symbol.map_or(0, |index| object.dynamic_symbols[index].address);
        let _ = relocation.patch(0x7f00_0000_0000, symbol);
    }
    for symbol in object.symbols.iter().chain(&object.dynamic_symbols) {
        let _ = object.data_at(symbol.address, symbol.size);
    }
    let _ = object.metadata();
    if let Ok(executable) = Executable::parse(data) {
        for function in &executable.functions {
            assert!(executable.code_object.symbol(&function.symbol).is_some());
            let _ = function.misplaced_parameter();
        }
    }
});
