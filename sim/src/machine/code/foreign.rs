// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Kernels that another HSA runtime loaded (with the thunk of `sim/kmt`). The machine knows as much as a packet
//! processor: a packet's address of a kernel descriptor.

use std::collections::HashMap;
use std::sync::Arc;

use hsa_abi::KernelDescriptor;
use parking_lot::Mutex;

use crate::machine::agent_id::AgentIndex;
use crate::machine::code::kernel::Kernel;
use crate::machine::code::loader::Segment;
use crate::machine::memory::allocation::AllocationInfo;
use crate::machine::memory::map::MemoryMap;

/// Kernels that packets have named, by agent and address of the descriptor.
#[derive(Default)]
pub struct Code {
    kernels: Mutex<HashMap<(usize, u64), Arc<Kernel>>>,
}

impl Code {
    /// Returns the kernel whose descriptor is at `address`, if the agent may access the descriptor and the code.
    /// Functions that it calls must be in the same allocation.
    pub fn kernel(&self, memory: &MemoryMap, agent: AgentIndex, address: u64) -> Option<Arc<Kernel>> {
        let key = (agent.0, address);
        if let Some(kernel) = self.kernels.lock().get(&key) {
            return Some(Arc::clone(kernel));
        }
        let kernel = Arc::new(load(memory, agent, address)?);
        self.kernels.lock().insert(key, Arc::clone(&kernel));
        Some(kernel)
    }

    /// Removes the kernels in freed memory.
    pub fn forget(&self, base: u64, size: u64) {
        self.kernels.lock().retain(|(_, address), _| address.wrapping_sub(base) >= size);
    }
}

fn load(memory: &MemoryMap, agent: AgentIndex, address: u64) -> Option<Kernel> {
    let range = |address: u64, size: u64| -> Option<AllocationInfo> {
        let range = memory.find(address).filter(|range| range.access.has(agent))?;
        (range.base + range.size - address >= size).then_some(range)
    };
    range(address, size_of::<KernelDescriptor>() as u64)?;
    let descriptor: *const KernelDescriptor = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the bytes are in an allocation that the caller keeps mapped, and any bytes are a descriptor.
    let descriptor = unsafe { descriptor.read_unaligned() };
    let code = range(address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset), 4)?;
    let code = Segment { base: code.base, size: code.size, executable: true, writable: false };
    Some(Kernel::new(agent, format!("at {address:#x}"), address, descriptor, code))
}
