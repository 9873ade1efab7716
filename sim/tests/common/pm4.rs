// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Part of the client for the packet processors' own commands, PM4.

use std::ffi::c_void;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use super::code::Executable;
use super::{Hsa, allow_access, free, header};

// Opcodes, from the Linux kernel's soc15d.h.
pub const DISPATCH_DIRECT: u32 = 0x15;
pub const INDIRECT_BUFFER: u32 = 0x3f;
pub const EVENT_WRITE: u32 = 0x46;
pub const RELEASE_MEM: u32 = 0x49;
pub const ACQUIRE_MEM: u32 = 0x58;
pub const SET_SH_REG: u32 = 0x76;

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

// Compute registers, as offsets from the first shader register.
pub const START_X: u32 = 0x204;
pub const PGM_LO: u32 = 0x20c;
pub const RESTART_X: u32 = 0x21b;
pub const PGM_RSRC1: u32 = 0x212;
pub const PGM_RSRC3: u32 = 0x228;
pub const USER_DATA_0: u32 = 0x240;
pub const WAVE32: u32 = 1 | 1 << 2 | 1 << 15;

/// Commands that set the registers of a kernel with one-dimensional workgroups of 64.
pub fn registers(kernel: &Executable, name: &str, arguments: *const c_void) -> Vec<Vec<u32>> {
    registers_of(kernel, name, arguments, PGM_RSRC3)
}

/// Commands that set the registers of a kernel with one-dimensional workgroups of 64 and `COMPUTE_PGM_RSRC3` of
/// `rsrc3`.
pub fn registers_of(kernel: &Executable, name: &str, arguments: *const c_void, rsrc3: u32) -> Vec<Vec<u32>> {
    let object: u64 = kernel.info(&format!("{name}.kd"), HsaExecutableSymbolInfo::KERNEL_OBJECT);
    let descriptor: *const KernelDescriptor = std::ptr::with_exposed_provenance(object as usize);
    // SAFETY: a kernel object is the address of its descriptor.
    let descriptor = unsafe { descriptor.read() };
    let entry = object.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let (rsrc1, rsrc2) = (descriptor.compute_pgm_rsrc1.0, descriptor.compute_pgm_rsrc2.0);
    vec![
        packet(SET_SH_REG, &[PGM_LO, (entry >> 8) as u32, (entry >> 40) as u32]),
        packet(SET_SH_REG, &[PGM_RSRC1, rsrc1, rsrc2]),
        packet(SET_SH_REG, &[rsrc3, descriptor.compute_pgm_rsrc3]),
        packet(SET_SH_REG, &[START_X, 0, 0, 0, 64, 1, 1]),
        packet(SET_SH_REG, &[USER_DATA_0, low(arguments), high(arguments)]),
    ]
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

    /// Creates commands in a pool that the host can access.
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

    /// Overwrites the commands with as many others. No packet may use them.
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
