// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Test bench for device libraries: the driver's own and IREE's, launched as their drivers launch them.

use std::env;
use std::path::PathBuf;

use device_binaries::{DeviceShape, plan_copy, plan_fill};
use hsa_abi::*;
use hsa_runtime64::hsa::*;

use super::code::Executable;
use super::*;

/// Agents, with the file of IREE's device library for each; IREE has none for gfx908 and gfx1250.
pub const AGENTS: [(&str, Option<&str>); 9] = [
    ("gfx906", Some("gfx9-generic")),
    ("gfx908", None),
    ("gfx90a", Some("gfx90a")),
    ("gfx942", Some("gfx9-4-generic")),
    ("gfx1010", Some("gfx10-1-generic")),
    ("gfx1030", Some("gfx10-3-generic")),
    ("gfx1100", Some("gfx11-generic")),
    ("gfx1201", Some("gfx12-generic")),
    ("gfx1250", None),
];

/// One launch of a kernel.
pub struct Run {
    pub kernel: &'static str,
    pub kernargs: Vec<u8>,
    pub grid_size: u32,
    pub workgroup_size: u16,
}

/// Path of the code object of IREE's device library for a target, in the tree of IREE.
pub fn iree_binary(target: &str) -> PathBuf {
    let tree = env::var_os("IREE_SOURCE_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../build/iree"), PathBuf::from);
    tree.join("runtime/src/iree/hal/drivers/amdgpu/device/binaries/prebuilt")
        .join(format!("amdgcn-amd-amdhsa--{target}.so"))
}

/// A launch that the driver planned.
pub fn run_of<const N: usize>(launch: device_binaries::Launch<impl Sized>, kernargs: [u8; N]) -> Run {
    Run {
        kernel: launch.kernel.symbol(),
        kernargs: kernargs.to_vec(),
        grid_size: launch.grid_size,
        workgroup_size: launch.workgroup_size,
    }
}

/// The driver's launch that copies.
pub fn our_copy(device: DeviceShape, source: u64, target: u64, length: u64) -> Run {
    let launch = plan_copy(device, source, target, length).unwrap();
    run_of(launch, launch.args.to_bytes())
}

/// The driver's launch that fills.
pub fn our_fill(device: DeviceShape, target: u64, length: u64, pattern: &[u8]) -> Run {
    let launch = plan_fill(device, target, length, pattern).unwrap();
    run_of(launch, launch.args.to_bytes())
}

/// A launch of one of IREE's kernels with three 64-bit words as arguments, for `items` work-items.
pub fn iree_run(device: DeviceShape, kernel: &'static str, words: [u64; 3], items: u64) -> Run {
    let wave = u64::from(device.wavefront_size);
    let waves = items.div_ceil(wave).clamp(1, 4 * u64::from(device.compute_units));
    Run {
        kernel,
        kernargs: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        grid_size: (waves * wave) as u32,
        workgroup_size: wave as u16,
    }
}

/// An agent with a device library and memory for its kernels.
pub struct Bench {
    pub device: DeviceShape,
    pub code: Executable,
    pub queue: Queue,
    pub done: HsaSignal,
    pub source: Memory,
    pub target: Memory,
    pub kernargs: Memory,
}

/// Memory of an agent that the host can access.
pub struct Memory(pub &'static mut [u8]);

impl Memory {
    pub fn new(hsa: &Hsa, agent: HsaAgent, size: usize) -> Self {
        let address = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_KERNARG), size).unwrap();
        allow_access(address, &[agent]);
        // SAFETY: the allocation is this object's own; kernels only use it while the host waits for them.
        Self(unsafe { std::slice::from_raw_parts_mut(address.cast(), size) })
    }

    pub fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        assert_eq!(free(self.0.as_mut_ptr().cast()), HsaStatus::SUCCESS);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: destroyed once, and no packet of the queue is pending.
        assert_eq!(unsafe { hsa_signal_destroy(self.done) }, HsaStatus::SUCCESS);
    }
}

impl Bench {
    /// Creates a bench with `size` bytes each to copy from and to write to.
    pub fn new(hsa: &Hsa, agent: HsaAgent, code: Executable, size: usize) -> Self {
        let wavefront_size = agent_info(agent, HsaAgentInfo::WAVEFRONT_SIZE);
        let compute_units = agent_info(agent, HsaAgentInfo::AMD_COMPUTE_UNIT_COUNT);
        let source = Memory::new(hsa, agent, size);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for word in source.0.chunks_exact_mut(8) {
            // Xorshift: any bytes that do not repeat within a transfer.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            word.copy_from_slice(&random.to_le_bytes());
        }
        Self {
            device: DeviceShape { wavefront_size, compute_units },
            code,
            queue: Queue::new(agent, 1024),
            done: signal(0),
            source,
            target: Memory::new(hsa, agent, size),
            kernargs: Memory::new(hsa, agent, 64 * 4096),
        }
    }

    /// Runs kernels and waits until all are complete. Each gets its own kernel arguments.
    pub fn launch(&mut self, runs: &[Run]) {
        store(self.done, runs.len() as i64);
        for (index, run) in runs.iter().enumerate() {
            let slot = &mut self.kernargs.0[64 * index..][..run.kernargs.len()];
            slot.copy_from_slice(&run.kernargs);
            let packet = KernelDispatchPacket {
                header: header(HsaPacketType::KERNEL_DISPATCH, false),
                setup: 1,
                workgroup_size: [run.workgroup_size, 1, 1],
                reserved0: 0,
                grid_size: [run.grid_size, 1, 1],
                private_segment_size: 0,
                group_segment_size: 0,
                kernel_object: self.code.info(run.kernel, HsaExecutableSymbolInfo::KERNEL_OBJECT),
                kernarg_address: self.kernargs.address() + 64 * index as u64,
                reserved2: 0,
                completion_signal: self.done,
            };
            self.queue.submit(&packet);
        }
        wait_for(self.done, 0);
    }
}
