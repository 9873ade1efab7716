// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernels whose launches are counted and traced.

#![allow(dead_code, reason = "each test file uses what it needs")]

use amdgpu_rs::ffi::raw;

use crate::support::recording::{Recording, direct};
use crate::support::{self, BufferRef, ExecutableRef, Rig, library_path, wait};

pub const GFX1100: &[u8] = include_bytes!("../testdata/soak.gfx1100.co");
pub const GFX1201: &[u8] = include_bytes!("../testdata/soak.gfx1201.co");
pub const GFX942: &[u8] = include_bytes!("../testdata/soak.gfx942.co");
pub const GFX908: &[u8] = include_bytes!("../testdata/soak.gfx908.co");
pub const GFX1030: &[u8] = include_bytes!("../testdata/soak.gfx1030.co");

pub const SAMPLES: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES;
pub const DEVICE: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_QUEUE_EVENTS;

pub const PATH_VARIABLE: &str = "IREE_HAL_AMDGPU_LIBAQLPROFILE_PATH";

/// Says where the library is that makes the packets, where it does not have its own name beside the HSA library. For a
/// process of one test that has no thread yet.
pub fn find_library() {
    if std::env::var_os("AMDGPU_RS_TEST_HSA").is_none() {
        let library = library_path().with_file_name("libhsa_amd_aqlprofile64.so");
        assert!(library.exists(), "build it with `cargo build -p aqlprofile-sim`");
        // SAFETY: this process has one test, and no thread that looks at the environment yet.
        unsafe { std::env::set_var(PATH_VARIABLE, library) };
    }
}

/// Kernels and their buffers.
pub struct Bench {
    pub rig: Rig,
    pub kernels: ExecutableRef,
    pub memory: [BufferRef; 3],
}

pub const COUNT: u32 = 100;

/// So many workgroups of 64 work-items.
pub fn workgroups(count: u32) -> raw::iree_hal_dispatch_config_t {
    let mut config = support::workgroups(count);
    config.workgroup_size = [64, 1, 1];
    config
}

/// So many workgroups of 64 work-items, a number that the GPU finds in memory: this, which is to stay.
pub fn indirect_workgroups(rig: &Rig, count: u32) -> (BufferRef, raw::iree_hal_dispatch_config_t) {
    let usage = raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS;
    let groups = rig.buffer_for(usage, 12);
    let words: Vec<u8> = [count, 1, 1].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    rig.write(&groups, 0, &words);
    let mut config = workgroups(0);
    config.workgroup_count_ref = direct(&groups, 0, 12);
    (groups, config)
}

impl Bench {
    pub fn new(code: &[u8], options: &[(&str, &str)]) -> Self {
        find_library();
        let rig = Rig::with(options);
        let kernels = rig.executable(code).unwrap();
        let memory = [0; 3].map(|_| rig.buffer(4 * COUNT as usize));
        Self { rig, kernels, memory }
    }

    pub fn constants(&self) -> Vec<u8> {
        [3, COUNT].iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
    }

    pub fn bindings(&self, kernel: &str) -> Vec<raw::iree_hal_buffer_ref_t> {
        let count = if kernel == "combine" { 3 } else { 2 };
        self.memory[..count].iter().map(|buffer| direct(buffer, 0, 4 * COUNT as usize)).collect()
    }

    /// Runs `groups` workgroups of 64, and waits for their end.
    pub fn run(&self, kernel: &str, groups: u32) {
        self.run_on(1, kernel, groups);
    }

    /// Runs `groups` workgroups of 64 on the queue of this affinity, and waits for their end.
    pub fn run_on(&self, queue: u64, kernel: &str, groups: u32) {
        let done = self.rig.semaphore();
        let (constants, bindings) = (self.constants(), self.bindings(kernel));
        let kernel = (&self.kernels, kernel);
        let config = workgroups(groups);
        self.rig.dispatch_with(queue, &[], &[(&done, 1)], kernel, config, &constants, &bindings, 0).unwrap();
        wait(&done, 1).unwrap();
    }

    pub fn record(&self, recording: &Recording, kernel: &str, groups: u32) {
        let (constants, bindings) = (self.constants(), self.bindings(kernel));
        recording.dispatch((&self.kernels, kernel), workgroups(groups), &constants, &bindings, 0).unwrap();
    }
}
