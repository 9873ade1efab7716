// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! AMD's loader extension (`hsa_ven_amd_loader.h`), version 1.

use core::ffi::c_void;

use crate::{HsaAgent, HsaExecutable, HsaLoadedCodeObject, HsaStatus};

c_enum! {
    /// `hsa_ven_amd_loader_loaded_code_object_info_t`.
    HsaLoadedCodeObjectInfo: u32 {
        /// [`HsaExecutable`].
        EXECUTABLE = 1,
        /// `u32`: 1 program, 2 agent.
        KIND = 2,
        /// [`HsaAgent`].
        AGENT = 3,
        /// [`HsaCodeObjectStorage`].
        CODE_OBJECT_STORAGE_TYPE = 4,
        /// `u64` address of the code object's bytes.
        CODE_OBJECT_STORAGE_MEMORY_BASE = 5,
        /// `u64` bytes.
        CODE_OBJECT_STORAGE_MEMORY_SIZE = 6,
        /// `c_int` file descriptor.
        CODE_OBJECT_STORAGE_FILE = 7,
        /// `i64`: the difference of a loaded address and the code object's address.
        LOAD_DELTA = 8,
        /// `u64` address where it is loaded.
        LOAD_BASE = 9,
        /// `u64` bytes in memory.
        LOAD_SIZE = 10,
        /// `u32` bytes without a NUL.
        URI_LENGTH = 11,
        /// `[c_char; URI_LENGTH]`, not NUL-terminated.
        URI = 12,
    }
}

c_enum! {
    /// `hsa_ven_amd_loader_code_object_storage_type_t`.
    HsaCodeObjectStorage: u32 {
        /// None.
        NONE = 0,
        /// A file.
        FILE = 1,
        /// Memory.
        MEMORY = 2,
    }
}

/// `hsa_ven_amd_loader_segment_descriptor_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HsaLoaderSegmentDescriptor {
    /// The agent.
    pub agent: HsaAgent,
    /// The executable.
    pub executable: HsaExecutable,
    /// Where the code object came from.
    pub storage_type: HsaCodeObjectStorage,
    /// Start of the code object in host memory.
    pub storage_base: *const c_void,
    /// Bytes of the code object.
    pub storage_size: usize,
    /// Offset of the segment in the code object.
    pub storage_offset: usize,
    /// Address of the loaded segment.
    pub segment_base: *const c_void,
    /// Bytes of the loaded segment.
    pub segment_size: usize,
}

assert_layout!(HsaLoaderSegmentDescriptor, size 64, storage_type @ 16, storage_base @ 24,
    segment_base @ 48, segment_size @ 56);

/// Callback of `hsa_ven_amd_loader_executable_iterate_loaded_code_objects`.
pub type HsaLoadedCodeObjectCallback =
    unsafe extern "C" fn(HsaExecutable, HsaLoadedCodeObject, data: *mut c_void) -> HsaStatus;

/// `hsa_ven_amd_loader_1_01_pfn_t`: the table that `hsa_system_get_major_extension_table` fills for
/// [`AMD_LOADER`](crate::HsaExtension::AMD_LOADER) version 1, up to the functions of 1.01.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HsaVenAmdLoaderTable {
    /// Host address of a loaded device address.
    pub query_host_address:
        Option<unsafe extern "C" fn(device_address: *const c_void, host_address: *mut *const c_void) -> HsaStatus>,
    /// Descriptors of every loaded segment.
    pub query_segment_descriptors:
        Option<unsafe extern "C" fn(descriptors: *mut HsaLoaderSegmentDescriptor, count: *mut usize) -> HsaStatus>,
    /// The executable that a device address was loaded for.
    pub query_executable:
        Option<unsafe extern "C" fn(device_address: *const c_void, executable: *mut HsaExecutable) -> HsaStatus>,
    /// Calls back for each loaded code object of an executable.
    pub executable_iterate_loaded_code_objects: Option<
        unsafe extern "C" fn(
            executable: HsaExecutable,
            callback: Option<HsaLoadedCodeObjectCallback>,
            data: *mut c_void,
        ) -> HsaStatus,
    >,
    /// Queries an [`HsaLoadedCodeObjectInfo`].
    pub loaded_code_object_get_info: Option<
        unsafe extern "C" fn(
            loaded_code_object: HsaLoadedCodeObject,
            attribute: HsaLoadedCodeObjectInfo,
            value: *mut c_void,
        ) -> HsaStatus,
    >,
}

assert_layout!(HsaVenAmdLoaderTable, size 40, loaded_code_object_get_info @ 32);
