// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernels: descriptor, code and decoded instructions.

use std::sync::{Arc, OnceLock};

use hsa_abi::{KernargPreload, KernelDescriptor};
use sim_isa::Target;
use sim_wave::{Fault, Line};

use crate::machine::agent_id::AgentIndex;
use crate::machine::code::loader::Segment;
use crate::machine::code::source::Sources;

/// A kernel that packets can name. Its code is decoded at its first dispatch.
pub struct Kernel {
    /// Agent that it is loaded for.
    pub agent: AgentIndex,
    /// Name, for messages.
    pub name: String,
    /// Address of the descriptor, by which packets name the kernel.
    pub descriptor_address: u64,
    /// Descriptor of the kernel.
    pub descriptor: KernelDescriptor,
    /// Debug information of its code object, if requested.
    pub sources: Option<Arc<Sources>>,
    /// Instructions of the kernel for a debugger, made at the first dispatch.
    pub for_debugger: OnceLock<Arc<sim_debug::Code>>,
    /// Segment of its code.
    pub code: Segment,
    decoded: OnceLock<Result<sim_wave::Kernel, Box<Fault>>>,
    /// The decoded kernel from its first instruction on. `decoded` skips the first ones if a packet processor preloads
    /// the arguments.
    decoded_whole: OnceLock<Result<sim_wave::Kernel, Box<Fault>>>,
}

impl Kernel {
    /// Creates a kernel of an image. `code` is the segment that contains its entry point.
    pub fn new(
        agent: AgentIndex,
        name: String,
        descriptor_address: u64,
        descriptor: KernelDescriptor,
        code: Segment,
    ) -> Self {
        Self {
            agent,
            name,
            descriptor_address,
            descriptor,
            sources: None,
            for_debugger: OnceLock::new(),
            code,
            decoded: OnceLock::new(),
            decoded_whole: OnceLock::new(),
        }
    }

    /// Address of its first instruction.
    pub fn entry(&self) -> u64 {
        self.descriptor_address.wrapping_add_signed(self.descriptor.kernel_code_entry_byte_offset)
    }

    /// The instruction at an offset of its code, if it has been decoded.
    pub fn line(&self, offset: u32) -> Option<Line> {
        let mut line = self.decoded.get()?.as_ref().ok()?.line(offset);
        line.source = self.source(line.pc);
        Some(line)
    }

    /// Source file and line of the instruction at an address, if debug information is requested and has them.
    pub fn source(&self, pc: u64) -> Option<String> {
        self.sources.as_ref()?.locate([pc].into_iter()).pop()?
    }

    /// True if its waves may synchronize with others through memory.
    pub fn synchronizes(&self) -> bool {
        self.decoded.get().and_then(|kernel| kernel.as_ref().ok()).is_none_or(sim_wave::Kernel::synchronizes)
    }

    /// Number of lanes of a wave.
    pub fn lanes(&self, target: Target) -> u32 {
        let wave32 = self.descriptor.kernel_code_properties.enable_wavefront_size32() != 0;
        if wave32 && !target.is_gfx9() { 32 } else { 64 }
    }

    /// True if the waves of a workgroup run on both compute units of a WGP.
    pub fn has_two_units(&self, target: Target) -> bool {
        !target.is_gfx9() && self.descriptor.compute_pgm_rsrc1.wgp_mode() != 0
    }

    /// Decodes the kernel, with the preload of arguments if a packet dispatches it. Commands state the start address,
    /// so that nothing is skipped. The caller keeps the kernel's image mapped.
    pub fn decode(&self, target: Target, is_commanded: bool) -> Result<&sim_wave::Kernel, &Fault> {
        let is_whole = is_commanded && self.descriptor.kernarg_preload.length() != 0;
        let mut descriptor = self.descriptor;
        if is_whole {
            descriptor.kernarg_preload = KernargPreload(0);
        }
        let load = || {
            let code: *const u8 = std::ptr::with_exposed_provenance(self.code.base as usize);
            // SAFETY: the segment lies in the kernel's image, which the caller keeps mapped; no
            // thread writes code while it is decoded, or the host program would also break it on a GPU.
            let code = unsafe { std::slice::from_raw_parts(code, self.code.size as usize) };
            sim_wave::Kernel::load(target, self.code.base, code, &descriptor, self.descriptor_address, &self.name)
        };
        let decoded = if is_whole { &self.decoded_whole } else { &self.decoded };
        decoded.get_or_init(load).as_ref().map_err(|fault| &**fault)
    }
}
