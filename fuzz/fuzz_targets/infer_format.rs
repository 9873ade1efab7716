// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Format and size of executables of known and unknown length.
#![no_main]

use amdgpu_code_object::{SizeProbe, infer_format, probe_size};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut prefix = 0;
    let probed = loop {
        match probe_size(&data[..prefix]) {
            Ok(SizeProbe::Size(size)) => break Some(size),
            Ok(SizeProbe::NeedPrefix(needed)) => {
                assert!(needed > prefix as u64);
                if needed > data.len() as u64 {
                    break None;
                }
                prefix = needed as usize;
            }
            Err(_) => break None,
        }
    };
    if let Ok(format) = infer_format(data) {
        assert_eq!(probed, Some(format.size));
        assert!(format.size <= data.len() as u64);
    }
});
