// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The part of the client that loads and dispatches kernels.

use std::ffi::{CString, c_void};
use std::ptr;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use super::{Hsa, as_data, header};

pub static GFX11: &[u8] = include_bytes!("../kernels/kernels.gfx11-generic.co");

/// A frozen executable with one code object.
pub struct Executable {
    agent: HsaAgent,
    pub executable: HsaExecutable,
}

pub fn load_code(agent: HsaAgent, bytes: &[u8]) -> Result<Executable, HsaStatus> {
    let mut executable = HsaExecutable::NULL;
    let mut reader = HsaCodeObjectReader::NULL;
    // SAFETY: the bytes outlive the reader, the outputs are valid places.
    unsafe {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        assert!(hsa_code_object_reader_create_from_memory(data, size, &mut reader).is_ok());
        let (profile, rounding) = (HsaProfile::BASE, HsaFloatRoundingMode::NEAR);
        let out = &mut executable;
        assert!(hsa_executable_create_alt(profile, rounding, ptr::null(), out).is_ok());
        let loaded = Executable { agent, executable };
        let status = hsa_executable_load_agent_code_object(executable, agent, reader, ptr::null(), ptr::null_mut());
        assert!(hsa_code_object_reader_destroy(reader).is_ok());
        if status != HsaStatus::SUCCESS {
            return Err(status);
        }
        assert!(hsa_executable_freeze(executable, ptr::null()).is_ok());
        let status = hsa_executable_freeze(executable, ptr::null());
        assert_eq!(status, HsaStatus::ERROR_FROZEN_EXECUTABLE);
        Ok(loaded)
    }
}

impl Executable {
    pub fn symbol(&self, name: &str) -> Result<HsaExecutableSymbol, HsaStatus> {
        let name = CString::new(name).unwrap();
        let mut symbol = HsaExecutableSymbol::NULL;
        // SAFETY: the name is a C string, the output a valid place.
        let status =
            unsafe { hsa_executable_get_symbol_by_name(self.executable, name.as_ptr(), &self.agent, &mut symbol) };
        if status == HsaStatus::SUCCESS { Ok(symbol) } else { Err(status) }
    }

    pub fn info<T: Default>(&self, name: &str, attribute: HsaExecutableSymbolInfo) -> T {
        let mut value = T::default();
        let symbol = self.symbol(name).unwrap();
        // SAFETY: the tests ask with the attribute's type.
        let status = unsafe { hsa_executable_symbol_get_info(symbol, attribute, as_data(&mut value)) };
        assert_eq!(status, HsaStatus::SUCCESS);
        value
    }

    /// A packet that runs `kernel` with `groups` workgroups of 64.
    pub fn packet(
        &self,
        kernel: &str,
        groups: u32,
        kernargs: *const c_void,
        completion_signal: HsaSignal,
    ) -> KernelDispatchPacket {
        let name = format!("{kernel}.kd");
        KernelDispatchPacket {
            header: header(HsaPacketType::KERNEL_DISPATCH, true),
            setup: 1,
            workgroup_size: [64, 1, 1],
            reserved0: 0,
            grid_size: [64 * groups, 1, 1],
            private_segment_size: self.info(&name, HsaExecutableSymbolInfo::KERNEL_PRIVATE_SEGMENT_SIZE),
            group_segment_size: self.info(&name, HsaExecutableSymbolInfo::KERNEL_GROUP_SEGMENT_SIZE),
            kernel_object: self.info(&name, HsaExecutableSymbolInfo::KERNEL_OBJECT),
            kernarg_address: kernargs.addr() as u64,
            reserved2: 0,
            completion_signal,
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        assert_eq!(unsafe { hsa_executable_destroy(self.executable) }, HsaStatus::SUCCESS);
    }
}

#[repr(C)]
pub struct FillArgs {
    pub out: *mut u32,
    pub value: u32,
    pub count: u32,
}

/// Kernel arguments in memory that the GPU may read.
pub fn kernargs<T>(hsa: &Hsa, value: T) -> *mut c_void {
    let memory = hsa.host_memory::<T>(1);
    // SAFETY: the memory is this test's own and large enough.
    unsafe { memory.write(value) };
    memory.cast()
}

pub fn read(memory: *const u32, count: usize) -> Vec<u32> {
    // SAFETY: the tests read their own allocations, after the kernels that write it.
    unsafe { std::slice::from_raw_parts(memory, count).to_vec() }
}
