// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The part of the client that has packet processors execute commands of their own.

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use super::{Hsa, allow_access, free, header};

// Opcodes, from the Linux kernel's soc15d.h.
pub const INDIRECT_BUFFER: u32 = 0x3f;
pub const RELEASE_MEM: u32 = 0x49;
pub const ACQUIRE_MEM: u32 = 0x58;

/// A command with its header.
pub fn packet(opcode: u32, body: &[u32]) -> Vec<u32> {
    let mut dwords = vec![3 << 30 | (body.len() as u32 - 1) << 16 | opcode << 8];
    dwords.extend(body);
    dwords
}

pub fn low<T>(address: *const T) -> u32 {
    address.addr() as u32
}

pub fn high<T>(address: *const T) -> u32 {
    (address.addr() >> 32) as u32
}

/// Commands in memory that the GPU may read.
pub struct Commands {
    memory: *mut u32,
    dwords: u32,
}

impl Commands {
    pub fn new(hsa: &Hsa, packets: &[Vec<u32>]) -> Self {
        Self::in_pool(hsa, hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_KERNARG), packets)
    }

    /// The same in a pool that the host gets at.
    pub fn in_pool(hsa: &Hsa, pool: HsaMemoryPool, packets: &[Vec<u32>]) -> Self {
        let all = packets.concat();
        let mut memory = std::ptr::null_mut();
        // SAFETY: the output is a valid place.
        let status = unsafe {
            hsa_amd_memory_pool_allocate(pool, all.len() * 4, HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG, &mut memory)
        };
        assert_eq!(status, HsaStatus::SUCCESS);
        allow_access(memory, &[&hsa.gpus[..], &[hsa.cpu]].concat());
        let commands = Self { memory: memory.cast(), dwords: all.len() as u32 };
        commands.rewrite(packets);
        commands
    }

    /// Has the host write others, as many, in their place, which no packet uses.
    pub fn rewrite(&self, packets: &[Vec<u32>]) {
        let all = packets.concat();
        assert_eq!(all.len(), self.dwords as usize);
        // SAFETY: the memory has as many dwords.
        unsafe { self.memory.copy_from_nonoverlapping(all.as_ptr(), all.len()) };
    }

    pub fn packet(&self, completion_signal: HsaSignal) -> AmdPm4IbPacket {
        AmdPm4IbPacket {
            header: AmdVendorHeader {
                header: header(HsaPacketType::VENDOR_SPECIFIC, true),
                format: AmdFormat::PM4_IB,
                reserved: 0,
            },
            ib_jump_command: [
                3 << 30 | 2 << 16 | INDIRECT_BUFFER << 8,
                low(self.memory),
                high(self.memory),
                self.dwords | 1 << 23,
            ],
            dw_cnt_remain: AmdPm4IbPacket::DW_CNT_REMAIN,
            reserved: [0; 8],
            completion_signal,
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        assert_eq!(free(self.memory.cast()), HsaStatus::SUCCESS);
    }
}
