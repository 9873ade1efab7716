// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! One GPU of a logical device: its agent, the memory the driver itself needs there, and the device library.

// Messages go out through `amdgpu_ffi::messages` alone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod code;
pub mod coherent;
pub mod commands;
pub mod kernargs;
pub mod limits;
pub mod options;
pub mod peers;
mod query;
pub mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod topology;

use std::sync::Arc;

use amdgpu_code_object::CodeObject;
use device_binaries::DeviceShape;
use hsa_abi::{HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG, HsaAgent, HsaSignal, KernelDispatchPacket, PacketHeader};

use crate::code::SharedCode;
use crate::kernargs::{Contents, SpareBlocks};
use crate::limits::LaunchLimits;
use crate::options::{KernargMemory, Options, Pm4Publication};
use crate::streams::Streams;
use crate::topology::HostAccess;
use amdgpu_ffi::{Result, Status, fallible, status};
use amdgpu_hsa::{self as hsa, Agent, Allocation, Executable, Kernel};

/// A packet processor's way to wait for another queue's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceWait {
    /// AMD's barrier-value packet.
    BarrierValue,
    /// A PM4-IB packet whose buffer has a `WAIT_REG_MEM64` command.
    Pm4,
}

/// A GPU in use.
#[derive(Debug)]
pub struct Gpu {
    index: usize,
    info: topology::Gpu,
    cpu: topology::Cpu,
    shape: DeviceShape,
    limits: LaunchLimits,
    device_wait: Option<DeviceWait>,
    kernarg_access: HostAccess,
    spare_kernargs: SpareBlocks,
    spare_commands: SpareBlocks,
    spare_copies: SpareBlocks,
    streams: Option<Streams>,
    shared_code: SharedCode,
    kernels: [Kernel; device_binaries::Kernel::ALL.len()],
    _library: Executable,
}

impl Gpu {
    /// Loads the device library on `info`, GPU `index` of its logical device.
    ///
    /// # Errors
    /// INCOMPATIBLE when no embedded code object runs on the GPU, with a list of those embedded; UNIMPLEMENTED when
    /// recordings have to be PM4 streams and the GPU runs none, or streams have to be copied and the runtime cannot; as
    /// for [`Self::check_alive`]; the error of HSA.
    pub fn new(index: usize, info: &topology::Gpu, cpu: &topology::Cpu, options: &Options) -> Result<Arc<Self>> {
        let agent = &info.agent;
        check_alive(info)?;
        let code = select_code_object(agent)?;
        let library = Executable::load(&[agent], fallible::shared(info.loadable(code)?)?)?;
        let mut kernels = Vec::with_capacity(device_binaries::Kernel::ALL.len());
        for kernel in device_binaries::Kernel::ALL {
            kernels.push(library.kernel(kernel.symbol(), agent.handle())?);
        }
        let kernels: [Kernel; _] =
            kernels.try_into().map_err(|_| status!(INTERNAL, "the device library lost a kernel"))?;
        let streams = Streams::choose(agent.info(), options)?;
        if let Some(streams) = &streams {
            if streams.publication() != Pm4Publication::Copy {
                hsa::MemoryCopy::check(agent.library())?;
            }
            let code = CodeObject::parse(code);
            let code = code.map_err(|error| status!(INTERNAL, "reading the device library: {error}"))?;
            let kernels = device_binaries::Kernel::ALL.iter().zip(&kernels);
            let kernels = kernels.filter_map(|(kernel, loaded)| Some((code.symbol(kernel.symbol())?, loaded.object)));
            streams.add(&code, kernels);
        }
        let shape = DeviceShape {
            wavefront_size: agent.info().wavefront_size,
            compute_units: agent.info().compute_units.max(1),
        };
        let gpu = Self {
            index,
            info: info.clone(),
            cpu: cpu.clone(),
            shape,
            limits: LaunchLimits::new(info.ordinal, agent.info(), info.lds_size),
            device_wait: device_wait(&agent.info().name).filter(|_| !options.force_wait_barrier_defer),
            kernarg_access: match options.kernarg_memory {
                KernargMemory::Any => info.host_access,
                KernargMemory::Host => HostAccess::None,
            },
            spare_kernargs: SpareBlocks::new(Contents::Kernargs, options),
            spare_commands: SpareBlocks::new(Contents::Commands, options),
            spare_copies: SpareBlocks::new(Contents::CopiedCommands, options),
            streams,
            shared_code: SharedCode::default(),
            kernels,
            _library: library,
        };
        if options.preallocate_pools {
            gpu.spare_kernargs.fill(&gpu)?;
        }
        Ok(Arc::new(gpu))
    }

    /// The index of the GPU in its logical device.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Bytes to leave unused behind each part of its memory that is reported to the runtime; usually 0
    /// ([`hsa::Library::part_gap`]).
    #[inline]
    pub fn part_gap(&self) -> usize {
        self.agent().library().part_gap()
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.info.agent
    }

    /// Agent and pools.
    pub fn info(&self) -> &topology::Gpu {
        &self.info
    }

    /// The CPU the GPU is attached to.
    pub fn cpu(&self) -> &topology::Cpu {
        &self.cpu
    }

    /// The device shape for plans of the device library's kernels.
    pub fn shape(&self) -> DeviceShape {
        self.shape
    }

    /// The limits of launches on this GPU.
    pub fn limits(&self) -> &LaunchLimits {
        &self.limits
    }

    /// The packet processor's way to wait for values of signals; none if it cannot.
    pub fn device_wait(&self) -> Option<DeviceWait> {
        self.device_wait
    }

    /// A kernel of the device library.
    pub fn kernel(&self, kernel: device_binaries::Kernel) -> &Kernel {
        &self.kernels[kernel as usize]
    }

    /// The packet that launches a kernel of the device library with its arguments at `kernargs`.
    pub fn library_packet<Args>(&self, launch: &device_binaries::Launch<Args>, kernargs: u64) -> KernelDispatchPacket {
        let kernel = self.kernel(launch.kernel);
        KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: 1,
            workgroup_size: [launch.workgroup_size, 1, 1],
            reserved0: 0,
            grid_size: [launch.grid_size, 1, 1],
            private_segment_size: kernel.private_size,
            group_segment_size: kernel.group_size,
            kernel_object: kernel.object,
            kernarg_address: kernargs,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
        }
    }

    /// Allocates host memory for commands of PM4-IB packets. ROCR uses executable memory for those (`AqlQueue`'s
    /// `pm4_ib_buf_`).
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn allocate_commands(&self, size: usize) -> Result<Allocation> {
        Ok(self.cpu.kernarg.allocate(size, HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG, &self.agents())?)
    }

    /// Allocates memory for kernel arguments: the GPU's own if the host can access it, so that dispatches read nothing
    /// over PCIe, otherwise the host's. Writes to it are visible to submissions after [`Self::publish_kernargs`],
    /// behind an acquire fence of the system: the GPU's L2 may hold old contents.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn allocate_kernargs(&self, size: usize) -> Result<Allocation> {
        self.allocate_stored(Contents::Kernargs, size)
    }

    /// Allocates memory that is written once. For kernel arguments it is as that of [`Self::allocate_kernargs`]. For
    /// commands it is host memory: packet processors read the GPU's own through its L2, which may hold old contents,
    /// and are not specified to carry out the acquire fence of a packet with commands before they read these. ROCR and
    /// aqlprofile use host memory, too (`AqlQueue::ExecutePM4`). For copies of commands it is the GPU's, which the host
    /// need not access ([`commands`]).
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn allocate_stored(&self, contents: Contents, size: usize) -> Result<Allocation> {
        let [gpu, _] = self.agents();
        Ok(match contents {
            Contents::Kernargs => self.kernarg_pool().allocate(size, 0, &self.agents()),
            Contents::Commands => return self.allocate_commands(size),
            Contents::CopiedCommands => self.info.coarse.allocate(size, HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG, &[gpu]),
        }?)
    }

    fn kernarg_pool(&self) -> &hsa::MemoryPool {
        match self.kernarg_access {
            HostAccess::None => &self.cpu.kernarg,
            HostAccess::Flushed(_) | HostAccess::Direct => &self.info.coarse,
        }
    }

    /// Makes this thread's writes to memory of [`Self::allocate_kernargs`] visible to later submissions.
    pub fn publish_kernargs(&self) {
        if let HostAccess::Flushed(flush) = self.kernarg_access {
            flush.flush();
        }
    }

    /// The unused blocks for `contents`.
    pub fn spare_blocks(&self, contents: Contents) -> &SpareBlocks {
        match contents {
            Contents::Kernargs => &self.spare_kernargs,
            Contents::Commands => &self.spare_commands,
            Contents::CopiedCommands => &self.spare_copies,
        }
    }

    /// Frees unused memory.
    pub fn trim(&self) {
        self.spare_kernargs.trim();
        self.spare_commands.trim();
        self.spare_copies.trim();
    }

    /// The PM4 streams of recordings; none if recordings do not become streams.
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.as_ref()
    }

    /// The code objects that executables share.
    fn shared_code(&self) -> &SharedCode {
        &self.shared_code
    }

    /// The agents that share memory of this GPU: itself and its CPU.
    pub fn agents(&self) -> [HsaAgent; 2] {
        [self.info.agent.handle(), self.cpu.agent.handle()]
    }

    /// Refuses a GPU that a fault has ended for this process.
    ///
    /// # Errors
    /// FAILED_PRECONDITION with the fault.
    pub fn check_alive(&self) -> Result<()> {
        check_alive(&self.info)
    }

    /// The GPU's name in messages.
    pub fn place(&self) -> String {
        place_of(0, &self.info)
    }

    /// The status for queue `queue` of the logical device, which stopped on this GPU: the queue's error and the fault
    /// that the runtime reported. The code is DATA_LOSS, as for a fault, whatever HSA's error: the error is not about
    /// the call that returns it.
    pub fn describe_queue_error(&self, queue: u32, error: &hsa::Error) -> Status {
        let place = place_of(1 << queue, &self.info);
        status!(DATA_LOSS, "{error}").annotate(&format!("{place} stopped; recreate the device"))
    }

    /// The status for the logical device when its GPU ended with `fault`. `busy` has a bit for each hardware queue with
    /// work in flight.
    pub fn describe_fault(&self, fault: &hsa::Fault, busy: u64) -> Status {
        let place = place_of(busy, &self.info);
        status!(DATA_LOSS, "{fault}").annotate(&format!("{place} stopped; {NEEDS_NEW_PROCESS}"))
    }

    /// The status for the logical device when its GPU stopped without a report; `busy` as for [`Self::describe_fault`].
    pub fn describe_silence(&self, busy: u64) -> Status {
        let place = place_of(busy, &self.info);
        status!(
            DATA_LOSS,
            "{place} runs nothing any more: its GPU had a fault or a reset that the HSA runtime did not report, \
             because it reports only the first one of a process; {NEEDS_NEW_PROCESS}"
        )
    }
}

/// The remedy for a fault after which the kernel driver evicts the process from a GPU.
const NEEDS_NEW_PROCESS: &str = "the kernel driver runs nothing more on this GPU for this process: start a new one";

fn check_alive(gpu: &topology::Gpu) -> Result<()> {
    match hsa::fault_of(gpu.agent.library(), gpu.agent.handle()) {
        None => Ok(()),
        Some(fault) => {
            let place = place_of(0, gpu);
            Err(status!(FAILED_PRECONDITION, "{place} had a fault earlier: {fault}; {NEEDS_NEW_PROCESS}"))
        }
    }
}

/// Describes hardware queues, given by their affinity bits, and their GPU.
fn place_of(queues: u64, gpu: &topology::Gpu) -> String {
    let info = gpu.agent.info();
    let gpu = format!("GPU {} ({}, {})", gpu.ordinal, info.product, info.name);
    let ordinals: Vec<_> = (0..u64::BITS).filter(|bit| queues >> bit & 1 != 0).map(|bit| bit.to_string()).collect();
    match ordinals.len() {
        0 => gpu,
        1 => format!("hardware queue {} (affinity {queues:#x}) of {gpu}", ordinals[0]),
        _ => format!("one of the hardware queues {} (affinity {queues:#x}) of {gpu}", ordinals.join(", ")),
    }
}

/// The prebuilt code object for the first of the agent's ISAs that has one.
fn select_code_object(agent: &Agent) -> Result<&'static [u8]> {
    let mut missing = None;
    for isa in &agent.info().isas {
        match device_binaries::select(&isa.name) {
            Ok(code_object) => return Ok(code_object.elf),
            Err(error) => {
                missing.get_or_insert(error);
            }
        }
    }
    Err(match missing {
        Some(error) => status!(INCOMPATIBLE, "{error}"),
        None => status!(INCOMPATIBLE, "the agent {} reports no instruction set", agent.info().name),
    })
}

/// The way in which the packet processor of a GPU of this name waits.
///
/// Barrier-value packets: gfx90a, and gfx9.4 with steppings 0 to 2 (gfx950 reports the same firmware interface).
/// `WAIT_REG_MEM64`: from gfx10 on (Linux `nvd.h`, which is for gfx10 to gfx12; IREE's C driver uses it on gfx1100,
/// where its authors tested it), except gfx12.5, which has other fields in the command. The others, mainly gfx906 and
/// gfx908, wait on the host.
fn device_wait(name: &str) -> Option<DeviceWait> {
    match name {
        "gfx90a" | "gfx940" | "gfx941" | "gfx942" | "gfx950" => Some(DeviceWait::BarrierValue),
        _ if ["gfx10", "gfx11", "gfx120"].iter().any(|family| name.starts_with(family)) && name.len() == 7 => {
            Some(DeviceWait::Pm4)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_stopped_is_no_error_of_its_callers() {
        let gpu = testing::gpu(&Options::default());
        for status in [
            hsa_abi::HsaStatus::ERROR_INVALID_PACKET_FORMAT,
            hsa_abi::HsaStatus::ERROR_OUT_OF_RESOURCES,
            hsa_abi::HsaStatus(0x7777),
        ] {
            let error = hsa::Error::Call { call: "a hardware queue", status, details: "by a test".to_owned() };
            let status = gpu.describe_queue_error(1, &error);
            assert_eq!(status.code(), amdgpu_ffi::Code::DATA_LOSS, "{status}");
            assert!(status.to_string().contains("by a test") && status.to_string().contains("queue 1"), "{status}");
        }
    }

    #[test]
    fn gpus_wait_in_the_way_that_their_packet_processors_have() {
        for (name, wait) in [
            ("gfx906", None),
            ("gfx908", None),
            ("gfx90a", Some(DeviceWait::BarrierValue)),
            ("gfx942", Some(DeviceWait::BarrierValue)),
            ("gfx1030", Some(DeviceWait::Pm4)),
            ("gfx1100", Some(DeviceWait::Pm4)),
            ("gfx1201", Some(DeviceWait::Pm4)),
            ("gfx1250", None),
        ] {
            assert_eq!(device_wait(name), wait, "{name}");
        }
    }
}
