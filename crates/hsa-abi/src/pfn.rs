// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The type of each HSA function, under the function's own name, so that a table of symbols needs nothing but names:
//!
//! ```
//! struct Symbols {
//!     hsa_init: hsa_abi::pfn::hsa_init,
//!     hsa_shut_down: hsa_abi::pfn::hsa_shut_down,
//! }
//! ```
//!
//! Semantics, arguments and errors are those of HSA Runtime 1.2 (`hsa_*`) and `hsa_ext_amd.h`
//! (`hsa_amd_*`). Callbacks are optional here because C can pass null.

#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_void};

use crate::*;

/// Declares one function pointer type for each signature.
macro_rules! functions {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        $(#[$meta])*
        #[doc = concat!("Type of `", stringify!($name), "`.")]
        pub type $name = unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?;
    )*};
}

/// Callback of the iterations: returns [`HsaStatus::INFO_BREAK`] to stop, an error to fail.
type Iterate<T> = Option<unsafe extern "C" fn(item: T, data: *mut c_void) -> HsaStatus>;

// System and lifetime.
functions! {
    fn hsa_init() -> HsaStatus;
    fn hsa_shut_down() -> HsaStatus;
    fn hsa_status_string(status: HsaStatus, string: *mut *const c_char) -> HsaStatus;
    fn hsa_system_get_info(attribute: HsaSystemInfo, value: *mut c_void) -> HsaStatus;
    fn hsa_system_major_extension_supported(
        extension: HsaExtension, version_major: u16, version_minor: *mut u16, result: *mut bool,
    ) -> HsaStatus;
    fn hsa_system_get_major_extension_table(
        extension: HsaExtension, version_major: u16, table_length: usize, table: *mut c_void,
    ) -> HsaStatus;
    fn hsa_system_extension_supported(
        extension: u16, version_major: u16, version_minor: u16, result: *mut bool,
    ) -> HsaStatus;
    fn hsa_agent_extension_supported(
        extension: u16, agent: HsaAgent, version_major: u16, version_minor: u16, result: *mut bool,
    ) -> HsaStatus;
    fn hsa_amd_register_system_event_handler(
        callback: Option<HsaAmdSystemEventCallback>, data: *mut c_void,
    ) -> HsaStatus;
}

// Agents and instruction sets.
functions! {
    fn hsa_iterate_agents(callback: Iterate<HsaAgent>, data: *mut c_void) -> HsaStatus;
    fn hsa_agent_get_info(
        agent: HsaAgent, attribute: HsaAgentInfo, value: *mut c_void,
    ) -> HsaStatus;
    fn hsa_agent_iterate_isas(
        agent: HsaAgent, callback: Iterate<HsaIsa>, data: *mut c_void,
    ) -> HsaStatus;
    fn hsa_isa_get_info_alt(isa: HsaIsa, attribute: HsaIsaInfo, value: *mut c_void) -> HsaStatus;
    fn hsa_agent_iterate_caches(
        agent: HsaAgent, callback: Iterate<HsaCache>, data: *mut c_void,
    ) -> HsaStatus;
    fn hsa_cache_get_info(
        cache: HsaCache, attribute: HsaCacheInfo, value: *mut c_void,
    ) -> HsaStatus;
}

// Memory.
functions! {
    fn hsa_agent_iterate_regions(
        agent: HsaAgent, callback: Iterate<HsaRegion>, data: *mut c_void,
    ) -> HsaStatus;
    fn hsa_region_get_info(
        region: HsaRegion, attribute: HsaRegionInfo, value: *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_agent_iterate_memory_pools(
        agent: HsaAgent, callback: Iterate<HsaMemoryPool>, data: *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_memory_pool_get_info(
        pool: HsaMemoryPool, attribute: HsaMemoryPoolInfo, value: *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_agent_memory_pool_get_info(
        agent: HsaAgent, pool: HsaMemoryPool, attribute: HsaAgentMemoryPoolInfo,
        value: *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_memory_pool_allocate(
        pool: HsaMemoryPool, size: usize, flags: u32, ptr: *mut *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_memory_pool_free(ptr: *mut c_void) -> HsaStatus;
    fn hsa_amd_agents_allow_access(
        agent_count: u32, agents: *const HsaAgent, flags: *const u32, ptr: *const c_void,
    ) -> HsaStatus;
    fn hsa_amd_memory_lock(
        host_ptr: *mut c_void, size: usize, agents: *mut HsaAgent, agent_count: c_int,
        agent_ptr: *mut *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_memory_unlock(host_ptr: *mut c_void) -> HsaStatus;
    fn hsa_amd_pointer_info(
        ptr: *const c_void, info: *mut HsaPointerInfo,
        alloc: Option<unsafe extern "C" fn(size: usize) -> *mut c_void>,
        accessible_count: *mut u32, accessible: *mut *mut HsaAgent,
    ) -> HsaStatus;
    fn hsa_memory_copy(dst: *mut c_void, src: *const c_void, size: usize) -> HsaStatus;
    fn hsa_amd_memory_async_copy(
        dst: *mut c_void, dst_agent: HsaAgent, src: *const c_void, src_agent: HsaAgent, size: usize,
        dep_signal_count: u32, dep_signals: *const HsaSignal, completion_signal: HsaSignal,
    ) -> HsaStatus;
    fn hsa_amd_memory_async_copy_on_engine(
        dst: *mut c_void, dst_agent: HsaAgent, src: *const c_void, src_agent: HsaAgent, size: usize,
        dep_signal_count: u32, dep_signals: *const HsaSignal, completion_signal: HsaSignal, engine: u32,
        force_engine: bool,
    ) -> HsaStatus;
    fn hsa_amd_memory_copy_engine_status(
        dst_agent: HsaAgent, src_agent: HsaAgent, engines: *mut u32,
    ) -> HsaStatus;
    fn hsa_amd_memory_async_copy_rect(
        dst: *const HsaPitchedPtr, dst_offset: *const HsaDim3, src: *const HsaPitchedPtr,
        src_offset: *const HsaDim3, range: *const HsaDim3, copy_agent: HsaAgent,
        direction: HsaCopyDirection, dep_signal_count: u32, dep_signals: *const HsaSignal,
        completion_signal: HsaSignal,
    ) -> HsaStatus;
    fn hsa_amd_profiling_async_copy_enable(enable: bool) -> HsaStatus;
    fn hsa_amd_profiling_get_async_copy_time(
        signal: HsaSignal, time: *mut HsaProfilingAsyncCopyTime,
    ) -> HsaStatus;
    fn hsa_memory_register(ptr: *mut c_void, size: usize) -> HsaStatus;
    fn hsa_memory_deregister(ptr: *mut c_void, size: usize) -> HsaStatus;
    fn hsa_amd_enable_logging(flags: *mut u8, file: *mut c_void) -> HsaStatus;
    fn hsa_amd_coherency_set_type(agent: HsaAgent, coherency: HsaCoherencyType) -> HsaStatus;
    fn hsa_amd_memory_lock_to_pool(
        host_ptr: *mut c_void, size: usize, agents: *mut HsaAgent, agent_count: c_int,
        pool: HsaMemoryPool, flags: u32, agent_ptr: *mut *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_pointer_info_set_userdata(ptr: *const c_void, user_data: *mut c_void) -> HsaStatus;
}

// Shared virtual memory.
functions! {
    fn hsa_amd_svm_attributes_get(
        ptr: *mut c_void, size: usize, attributes: *mut HsaSvmAttributePair, attribute_count: usize,
    ) -> HsaStatus;
    fn hsa_amd_svm_attributes_set(
        ptr: *mut c_void, size: usize, attributes: *mut HsaSvmAttributePair, attribute_count: usize,
    ) -> HsaStatus;
    fn hsa_amd_svm_prefetch_async(
        ptr: *mut c_void, size: usize, agent: HsaAgent, dep_signal_count: u32,
        dep_signals: *const HsaSignal, completion_signal: HsaSignal,
    ) -> HsaStatus;
}

// Virtual memory.
functions! {
    fn hsa_amd_vmem_address_reserve(
        va: *mut *mut c_void, size: usize, address: u64, flags: u64,
    ) -> HsaStatus;
    fn hsa_amd_vmem_get_access(
        va: *mut c_void, permissions: *mut HsaAccessPermission, agent: HsaAgent,
    ) -> HsaStatus;
    fn hsa_amd_vmem_export_shareable_handle(
        fd: *mut c_int, handle: HsaVmemAllocHandle, flags: u64,
    ) -> HsaStatus;
    fn hsa_amd_vmem_import_shareable_handle(fd: c_int, handle: *mut HsaVmemAllocHandle) -> HsaStatus;
    fn hsa_amd_vmem_address_reserve_align(
        va: *mut *mut c_void, size: usize, address: u64, alignment: u64, flags: u64,
    ) -> HsaStatus;
    fn hsa_amd_vmem_address_free(va: *mut c_void, size: usize) -> HsaStatus;
    fn hsa_amd_vmem_handle_create(
        pool: HsaMemoryPool, size: usize, memory_type: HsaVmemMemoryType, flags: u64,
        memory_handle: *mut HsaVmemAllocHandle,
    ) -> HsaStatus;
    fn hsa_amd_vmem_handle_release(memory_handle: HsaVmemAllocHandle) -> HsaStatus;
    fn hsa_amd_vmem_map(
        va: *mut c_void, size: usize, in_offset: usize, memory_handle: HsaVmemAllocHandle, flags: u64,
    ) -> HsaStatus;
    fn hsa_amd_vmem_unmap(va: *mut c_void, size: usize) -> HsaStatus;
    fn hsa_amd_vmem_set_access(
        va: *mut c_void, size: usize, desc: *const HsaMemoryAccessDesc, desc_count: usize,
    ) -> HsaStatus;
}

// Memory and signals of other processes and other libraries.
functions! {
    fn hsa_amd_interop_map_buffer(
        agent_count: u32, agents: *mut HsaAgent, interop_handle: c_int, flags: u32, size: *mut usize,
        ptr: *mut *mut c_void, metadata_size: *mut usize, metadata: *mut *const c_void,
    ) -> HsaStatus;
    fn hsa_amd_interop_unmap_buffer(ptr: *mut c_void) -> HsaStatus;
    fn hsa_amd_ipc_memory_create(
        ptr: *mut c_void, len: usize, handle: *mut HsaIpcHandle,
    ) -> HsaStatus;
    fn hsa_amd_ipc_memory_attach(
        handle: *const HsaIpcHandle, len: usize, agent_count: u32, mapping_agents: *const HsaAgent,
        mapped_ptr: *mut *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_ipc_memory_detach(mapped_ptr: *mut c_void) -> HsaStatus;
    fn hsa_amd_ipc_signal_create(signal: HsaSignal, handle: *mut HsaIpcHandle) -> HsaStatus;
    fn hsa_amd_ipc_signal_attach(handle: *const HsaIpcHandle, signal: *mut HsaSignal) -> HsaStatus;
    fn hsa_amd_portable_export_dmabuf(
        ptr: *const c_void, size: usize, dmabuf: *mut c_int, offset: *mut u64,
    ) -> HsaStatus;
    fn hsa_amd_portable_close_dmabuf(dmabuf: c_int) -> HsaStatus;
}

// Signals.
functions! {
    fn hsa_signal_create(
        initial_value: HsaSignalValue, consumer_count: u32, consumers: *const HsaAgent,
        signal: *mut HsaSignal,
    ) -> HsaStatus;
    fn hsa_amd_signal_create(
        initial_value: HsaSignalValue, consumer_count: u32, consumers: *const HsaAgent,
        attributes: u64, signal: *mut HsaSignal,
    ) -> HsaStatus;
    fn hsa_signal_destroy(signal: HsaSignal) -> HsaStatus;
    fn hsa_signal_load_scacquire(signal: HsaSignal) -> HsaSignalValue;
    fn hsa_signal_load_relaxed(signal: HsaSignal) -> HsaSignalValue;
    fn hsa_signal_store_relaxed(signal: HsaSignal, value: HsaSignalValue);
    fn hsa_signal_store_screlease(signal: HsaSignal, value: HsaSignalValue);
    fn hsa_signal_silent_store_relaxed(signal: HsaSignal, value: HsaSignalValue);
    fn hsa_signal_silent_store_screlease(signal: HsaSignal, value: HsaSignalValue);
    fn hsa_signal_wait_scacquire(
        signal: HsaSignal, condition: HsaSignalCondition, compare_value: HsaSignalValue,
        timeout_hint: u64, wait_state_hint: HsaWaitState,
    ) -> HsaSignalValue;
    fn hsa_signal_wait_relaxed(
        signal: HsaSignal, condition: HsaSignalCondition, compare_value: HsaSignalValue,
        timeout_hint: u64, wait_state_hint: HsaWaitState,
    ) -> HsaSignalValue;
    fn hsa_amd_signal_async_handler(
        signal: HsaSignal, condition: HsaSignalCondition, value: HsaSignalValue,
        handler: Option<HsaAmdSignalHandler>, arg: *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_signal_value_pointer(
        signal: HsaSignal, value: *mut *mut HsaSignalValue,
    ) -> HsaStatus;
    fn hsa_amd_signal_wait_any(
        signal_count: u32, signals: *mut HsaSignal, conditions: *mut HsaSignalCondition,
        values: *mut HsaSignalValue, timeout_hint: u64, wait_hint: HsaWaitState,
        satisfying_value: *mut HsaSignalValue,
    ) -> u32;
    fn hsa_amd_signal_wait_all(
        signal_count: u32, signals: *mut HsaSignal, conditions: *mut HsaSignalCondition,
        values: *mut HsaSignalValue, timeout_hint: u64, wait_hint: HsaWaitState,
        satisfying_values: *mut HsaSignalValue,
    ) -> u32;
}

/// A read-modify-write that returns the value before it.
type Exchange = unsafe extern "C" fn(signal: HsaSignal, value: HsaSignalValue) -> HsaSignalValue;
/// A compare-and-swap; returns the value before it.
type CompareAndSwap =
    unsafe extern "C" fn(signal: HsaSignal, expected: HsaSignalValue, value: HsaSignalValue) -> HsaSignalValue;
/// A read-modify-write without a result.
type Update = unsafe extern "C" fn(signal: HsaSignal, value: HsaSignalValue);

/// Declares operations that come in several memory orders.
macro_rules! operations {
    ($($type:ident: $($name:ident)*;)*) => {$($(
        #[doc = concat!("Type of `", stringify!($name), "`.")]
        pub type $name = $type;
    )*)*};
}

operations! {
    Exchange:
        hsa_signal_exchange_scacq_screl hsa_signal_exchange_scacquire
        hsa_signal_exchange_relaxed hsa_signal_exchange_screlease;
    CompareAndSwap:
        hsa_signal_cas_scacq_screl hsa_signal_cas_scacquire
        hsa_signal_cas_relaxed hsa_signal_cas_screlease;
    Update:
        hsa_signal_add_scacq_screl hsa_signal_add_scacquire
        hsa_signal_add_relaxed hsa_signal_add_screlease
        hsa_signal_subtract_scacq_screl hsa_signal_subtract_scacquire
        hsa_signal_subtract_relaxed hsa_signal_subtract_screlease
        hsa_signal_and_scacq_screl hsa_signal_and_scacquire
        hsa_signal_and_relaxed hsa_signal_and_screlease
        hsa_signal_or_scacq_screl hsa_signal_or_scacquire
        hsa_signal_or_relaxed hsa_signal_or_screlease
        hsa_signal_xor_scacq_screl hsa_signal_xor_scacquire
        hsa_signal_xor_relaxed hsa_signal_xor_screlease;
}

// Queues.
functions! {
    fn hsa_queue_create(
        agent: HsaAgent, size: u32, queue_type: HsaQueueType, callback: Option<HsaQueueCallback>,
        data: *mut c_void, private_segment_size: u32, group_segment_size: u32,
        queue: *mut *mut HsaQueue,
    ) -> HsaStatus;
    fn hsa_queue_destroy(queue: *mut HsaQueue) -> HsaStatus;
    fn hsa_queue_inactivate(queue: *mut HsaQueue) -> HsaStatus;
    fn hsa_amd_profiling_set_profiler_enabled(queue: *mut HsaQueue, enable: c_int) -> HsaStatus;
    fn hsa_amd_profiling_get_dispatch_time(
        agent: HsaAgent, signal: HsaSignal, time: *mut HsaProfilingDispatchTime,
    ) -> HsaStatus;
    fn hsa_soft_queue_create(
        region: HsaRegion, size: u32, queue_type: HsaQueueType, features: u32,
        doorbell_signal: HsaSignal, queue: *mut *mut HsaQueue,
    ) -> HsaStatus;
    fn hsa_amd_queue_get_info(
        queue: *mut HsaQueue, attribute: HsaQueueInfo, value: *mut c_void,
    ) -> HsaStatus;
    fn hsa_amd_queue_cu_set_mask(
        queue: *const HsaQueue, bit_count: u32, mask: *const u32,
    ) -> HsaStatus;
    fn hsa_amd_queue_set_priority(queue: *mut HsaQueue, priority: HsaQueuePriority) -> HsaStatus;
}

/// Reads an index of a queue.
type LoadIndex = unsafe extern "C" fn(queue: *const HsaQueue) -> u64;
/// Writes an index of a queue.
type StoreIndex = unsafe extern "C" fn(queue: *const HsaQueue, value: u64);
/// Advances an index of a queue; returns the index before it.
type AddIndex = unsafe extern "C" fn(queue: *const HsaQueue, value: u64) -> u64;
/// A compare-and-swap of an index of a queue; returns the index before it.
type CasIndex = unsafe extern "C" fn(queue: *const HsaQueue, expected: u64, value: u64) -> u64;

operations! {
    LoadIndex:
        hsa_queue_load_read_index_scacquire hsa_queue_load_read_index_relaxed
        hsa_queue_load_write_index_scacquire hsa_queue_load_write_index_relaxed;
    StoreIndex:
        hsa_queue_store_write_index_relaxed hsa_queue_store_write_index_screlease
        hsa_queue_store_read_index_relaxed hsa_queue_store_read_index_screlease;
    AddIndex:
        hsa_queue_add_write_index_scacq_screl hsa_queue_add_write_index_scacquire
        hsa_queue_add_write_index_relaxed hsa_queue_add_write_index_screlease;
    CasIndex:
        hsa_queue_cas_write_index_scacq_screl hsa_queue_cas_write_index_scacquire
        hsa_queue_cas_write_index_relaxed hsa_queue_cas_write_index_screlease;
}

// Executables.
functions! {
    fn hsa_code_object_reader_create_from_memory(
        code_object: *const c_void, size: usize, reader: *mut HsaCodeObjectReader,
    ) -> HsaStatus;
    fn hsa_code_object_reader_destroy(reader: HsaCodeObjectReader) -> HsaStatus;
    fn hsa_executable_create_alt(
        profile: HsaProfile, rounding_mode: HsaFloatRoundingMode, options: *const c_char,
        executable: *mut HsaExecutable,
    ) -> HsaStatus;
    fn hsa_executable_destroy(executable: HsaExecutable) -> HsaStatus;
    fn hsa_executable_load_agent_code_object(
        executable: HsaExecutable, agent: HsaAgent, reader: HsaCodeObjectReader,
        options: *const c_char, loaded_code_object: *mut HsaLoadedCodeObject,
    ) -> HsaStatus;
    fn hsa_executable_freeze(executable: HsaExecutable, options: *const c_char) -> HsaStatus;
    fn hsa_executable_validate_alt(
        executable: HsaExecutable, options: *const c_char, result: *mut u32,
    ) -> HsaStatus;
    fn hsa_executable_get_symbol_by_name(
        executable: HsaExecutable, name: *const c_char, agent: *const HsaAgent,
        symbol: *mut HsaExecutableSymbol,
    ) -> HsaStatus;
    fn hsa_executable_iterate_symbols(
        executable: HsaExecutable,
        callback: Option<unsafe extern "C" fn(HsaExecutable, HsaExecutableSymbol, *mut c_void) -> HsaStatus>,
        data: *mut c_void,
    ) -> HsaStatus;
    fn hsa_executable_agent_global_variable_define(
        executable: HsaExecutable, agent: HsaAgent, name: *const c_char, address: *mut c_void,
    ) -> HsaStatus;
    fn hsa_executable_symbol_get_info(
        symbol: HsaExecutableSymbol, attribute: HsaExecutableSymbolInfo, value: *mut c_void,
    ) -> HsaStatus;
}

functions! {
    /// Only in the software runtime of this project, not in ROCR. Copies the text of the last fault
    /// of `queue` (of any queue when null) into `buffer`, NUL-terminated and cut to `length` bytes;
    /// returns its whole length without the NUL, or zero when there was no fault.
    fn hsa_sim_last_fault(queue: *const HsaQueue, buffer: *mut c_char, length: usize) -> usize;
    /// Also only in the software runtime: the bytes to leave unused behind each part of an allocation that is used
    /// separately; 0 if the runtime does not track parts, so that programs need not register them.
    fn hsa_sim_memory_part_gap() -> usize;
    /// Also only in the software runtime: registers `size` bytes from `address` on, a part of an allocation, as used
    /// separately.
    fn hsa_sim_memory_part_begin(address: *const c_void, size: usize) -> HsaStatus;
    /// Also only in the software runtime: unregisters the part that begins at `address`.
    fn hsa_sim_memory_part_end(address: *const c_void) -> HsaStatus;
}
