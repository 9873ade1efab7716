// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Set-up of the tests of PM4 streams: GPUs, buffers and kernels, and checks of an execution's costs.

use amdgpu_rs::ffi::raw;

use super::counting::Costs;
use super::kernels;
use super::support::recording::{Recording, direct, indirect};
use super::support::{BufferRef, ExecutableRef, Rig, passes_alone, workgroups};

/// GPUs that run streams. A gfx942 does where each of its dies is a GPU of its own.
const AGENTS: [&str; 4] = ["gfx1100", "gfx90a", "gfx942:partitions=8", "gfx1201"];

/// Elements of the buffers.
pub const COUNT: usize = 200;

/// Command buffers as PM4 streams.
pub const PM4: &[(&str, &str)] = &[("command_buffer_mode", "pm4")];

/// Runs `test`, which is all of the test function `name`, on each of those GPUs, in a process of its own, with caches
/// that keep data until a fence, and packets and dispatches that overlap where nothing orders them.
pub fn on_each(name: &str, test: impl Fn()) {
    for agents in AGENTS {
        let alone = passes_alone(name, agents, || {
            // SAFETY: nothing else runs in this process while there is no device.
            unsafe {
                std::env::set_var("HSA_SIM_MEMORY", "strict");
                std::env::set_var("HSA_SIM_SEED", "7");
            }
            test();
        });
        if alone.is_none() {
            return;
        }
    }
}

/// Buffers of `COUNT` numbers, and the kernels of `testdata/soak.c`.
pub struct Bench {
    pub rig: Rig,
    pub executable: ExecutableRef,
}

impl Bench {
    pub fn new(options: &[(&str, &str)]) -> Self {
        let rig = Rig::with(options);
        let executable = rig.executable(kernels::of_first_agent()).expect("kernels for the GPU");
        Self { rig, executable }
    }

    pub fn buffer(&self, numbers: impl Fn(u32) -> u32) -> BufferRef {
        let buffer = self.rig.buffer(4 * COUNT);
        let bytes: Vec<u8> = (0..COUNT as u32).flat_map(|i| numbers(i).to_le_bytes()).collect();
        self.rig.write(&buffer, 0, &bytes);
        buffer
    }

    pub fn numbers(&self, buffer: &BufferRef) -> Vec<u32> {
        let bytes = self.rig.read(buffer, 0, 4 * COUNT);
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Records `target = a * factor + b`.
    pub fn combine(&self, recording: &Recording, [target, a, b]: [raw::iree_hal_buffer_ref_t; 3], factor: u32) {
        let constants: Vec<u8> = [factor, COUNT as u32].iter().flat_map(|word| word.to_le_bytes()).collect();
        let groups = groups();
        recording.dispatch((&self.executable, "combine"), groups, &constants, &[target, a, b], 0).unwrap();
    }
}

/// Enough workgroups for `COUNT` elements.
pub fn groups() -> raw::iree_hal_dispatch_config_t {
    let mut config = workgroups(COUNT.div_ceil(64) as u32);
    config.workgroup_size = [64, 1, 1];
    config
}

pub fn whole(buffer: &BufferRef) -> raw::iree_hal_buffer_ref_t {
    direct(buffer, 0, 4 * COUNT)
}

pub fn slot(slot: u32) -> raw::iree_hal_buffer_ref_t {
    indirect(slot, 0, 4 * COUNT)
}

/// Checks the costs of an execution as a stream: one packet, and one more that binds its table if it has one.
pub fn assert_is_stream(counted: &Costs, is_bound: bool) {
    assert_eq!(counted.get("pm4_ib_packets"), Some(&1), "{counted:?}");
    assert_eq!(counted.get("dispatch_packets").copied().unwrap_or(0), u64::from(is_bound), "{counted:?}");
    assert_eq!(counted.get("barrier_packets"), None, "{counted:?}");
}

pub fn assert_is_packets(counted: &Costs, packets: u64) {
    assert_eq!(counted.get("pm4_commands"), None, "{counted:?}");
    assert_eq!(counted.get("dispatch_packets"), Some(&packets), "{counted:?}");
}
