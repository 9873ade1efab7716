// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! AMD1 flatbuffers; the file header is supplied, so that all mutations go into the flatbuffer.
#![no_main]

use amdgpu_code_object::{Executable, ExecutableDef};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = b"AMD1\0\0\0\0".to_vec();
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(data);
    let Ok(definition) = ExecutableDef::parse(&bytes) else { return };
    assert!(!definition.image.is_empty());
    if let Ok(executable) = Executable::parse(&bytes) {
        assert_eq!(executable.functions.len(), definition.exports.len());
        for function in &executable.functions {
            let layout = function.kernarg_layout;
            assert!(layout.total_size >= layout.explicit_size);
        }
    }
});
