// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Code object readers, executables, symbols, and AMD's loader extension.

use std::ffi::{c_char, c_void};

use hsa_abi::{
    HsaAgent, HsaCodeObjectReader, HsaCodeObjectStorage, HsaExecutable, HsaExecutableSymbol, HsaExecutableSymbolInfo,
    HsaFloatRoundingMode, HsaLoadedCodeObject, HsaLoadedCodeObjectCallback, HsaLoadedCodeObjectInfo,
    HsaLoaderSegmentDescriptor, HsaProfile, HsaStatus, HsaSymbolKind, KernelDescriptor,
};

use super::{Out, Value, check_signatures, guard, proceed, slice, string};
use crate::machine::code::executable::{LoadedSymbol, Storage};
use crate::machine::code::loader::SymbolKind;
use crate::machine::lifecycle::machine;

check_signatures! {
    hsa_code_object_reader_create_from_memory hsa_code_object_reader_destroy
    hsa_executable_create_alt hsa_executable_destroy hsa_executable_load_agent_code_object
    hsa_executable_freeze hsa_executable_validate_alt
    hsa_executable_get_symbol_by_name hsa_executable_symbol_get_info
    hsa_executable_iterate_symbols hsa_executable_agent_global_variable_define
}

/// The bytes must stay valid until the reader is destroyed. Loading copies them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_code_object_reader_create_from_memory(
    code_object: *const c_void,
    size: usize,
    reader: *mut HsaCodeObjectReader,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(reader)?;
        if code_object.is_null() || size == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let storage = Storage { base: code_object.expose_provenance(), size };
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(machine.executables.create_reader(storage)) };
        Ok(())
    })
}

/// See HSA Runtime 2.8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_code_object_reader_destroy(reader: HsaCodeObjectReader) -> HsaStatus {
    guard(|| machine()?.executables.destroy_reader(reader))
}

/// Ignores profile, rounding mode and options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_create_alt(
    profile: HsaProfile,
    rounding_mode: HsaFloatRoundingMode,
    _options: *const c_char,
    executable: *mut HsaExecutable,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        if profile.0 > HsaProfile::FULL.0 || rounding_mode.0 > HsaFloatRoundingMode::NEAR.0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let out = Out::new(executable)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(machine.executables.create()) };
        Ok(())
    })
}

/// A running kernel that accesses the executable's variables from now on faults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_destroy(executable: HsaExecutable) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.executables.destroy(&machine.memory, executable)
    })
}

/// A code object for another target is refused with `ERROR_INCOMPATIBLE_ARGUMENTS`, a malformed one with
/// `ERROR_INVALID_CODE_OBJECT`; standard error has the reason. The only accepted option string is "".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_load_agent_code_object(
    executable: HsaExecutable,
    agent: HsaAgent,
    reader: HsaCodeObjectReader,
    options: *const c_char,
    loaded_code_object: *mut HsaLoadedCodeObject,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        machine.executables.code_objects(executable)?;
        let storage = machine.executables.storage(reader)?;
        machine.executables.check_not_frozen(executable)?;
        // SAFETY: `options` is not null, and a text of the caller's that ends with NUL.
        if !options.is_null() && !unsafe { string(options)? }.trim().is_empty() {
            return Err(HsaStatus::ERROR);
        }
        let agent = machine.agent(agent).map_err(|_| HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS)?;
        let bytes: *const u8 = std::ptr::with_exposed_provenance(storage.base);
        // SAFETY: the reader's bytes are valid until it is destroyed, by the caller's contract.
        let bytes = unsafe { slice(bytes, storage.size)? };
        let loaded = machine.executables.load((&machine.config, &machine.memory), executable, agent, storage, bytes)?;
        if !loaded_code_object.is_null() {
            // SAFETY: not null; the rest is the caller's contract.
            unsafe { loaded_code_object.write(loaded) };
        }
        Ok(())
    })
}

/// Packets can name the executable's kernels from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_freeze(executable: HsaExecutable, _options: *const c_char) -> HsaStatus {
    guard(|| machine()?.executables.freeze(executable))
}

/// Always valid (0): loading refuses everything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_validate_alt(
    executable: HsaExecutable,
    _options: *const c_char,
    result: *mut u32,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(result)?;
        machine.executables.code_objects(executable)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(0) };
        Ok(())
    })
}

/// All symbols belong to agents, so a look-up without an agent finds none. Kernels' names end in `.kd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_get_symbol_by_name(
    executable: HsaExecutable,
    name: *const c_char,
    agent: *const HsaAgent,
    symbol: *mut HsaExecutableSymbol,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(symbol)?;
        // SAFETY: the caller's contract; the agent is null or valid.
        let (name, agent) = unsafe { (string(name)?, agent.as_ref().copied().unwrap_or(HsaAgent::NULL)) };
        let symbol = machine.executables.find_symbol(executable, name, agent)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(symbol) };
        Ok(())
    })
}

/// Calls back for each symbol: first those of the code object that was loaded first, in the order of its symbol table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_iterate_symbols(
    executable: HsaExecutable,
    callback: Option<unsafe extern "C" fn(HsaExecutable, HsaExecutableSymbol, *mut c_void) -> HsaStatus>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        for symbol in machine.executables.symbols(executable)? {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(executable, symbol, data) })?;
        }
        Ok(())
    })
}

/// The variable can be looked up as a symbol of size 0 from now on. Does not look at the address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_agent_global_variable_define(
    executable: HsaExecutable,
    agent: HsaAgent,
    name: *const c_char,
    address: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        // SAFETY: the caller's contract.
        let name = unsafe { string(name)? };
        machine.executables.define(executable, machine.agent(agent)?.handle(), name, address.expose_provenance() as u64)
    })
}

/// Attributes of kernels fail for variables, and the other way round, except that both have their address under both
/// names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_symbol_get_info(
    symbol: HsaExecutableSymbol,
    attribute: HsaExecutableSymbolInfo,
    value: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let symbol = machine()?.executables.symbol(symbol)?;
        let value = Value::new(value)?;
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match symbol.symbol.kind {
                SymbolKind::Kernel(descriptor) => kernel_info(&symbol, &descriptor, attribute, value),
                SymbolKind::Variable { size, writable } => variable_info(&symbol, (size, writable), attribute, value),
            }
        }
    })
}

/// # Safety
/// `value` has room for the attribute's type.
unsafe fn symbol_info(
    symbol: &LoadedSymbol,
    kind: HsaSymbolKind,
    attribute: HsaExecutableSymbolInfo,
    value: Value,
) -> Result<(), HsaStatus> {
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaExecutableSymbolInfo::TYPE => value.put(kind),
            HsaExecutableSymbolInfo::NAME_LENGTH => value.put(symbol.symbol.name.len() as u32),
            HsaExecutableSymbolInfo::NAME => value.put_bytes(&symbol.symbol.name),
            HsaExecutableSymbolInfo::AGENT => value.put(symbol.agent),
            HsaExecutableSymbolInfo::KERNEL_OBJECT | HsaExecutableSymbolInfo::VARIABLE_ADDRESS => {
                value.put(symbol.symbol.address);
            }
            HsaExecutableSymbolInfo::LINKAGE => value.put(1_u32),
            HsaExecutableSymbolInfo::IS_DEFINITION => value.put(true),
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
    Ok(())
}

/// # Safety
/// `value` has room for the attribute's type.
unsafe fn kernel_info(
    symbol: &LoadedSymbol,
    descriptor: &KernelDescriptor,
    attribute: HsaExecutableSymbolInfo,
    value: Value,
) -> Result<(), HsaStatus> {
    /// The least alignment HSA allows, which AMD's compilers never exceed.
    const KERNARG_ALIGNMENT: u32 = 16;
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaExecutableSymbolInfo::KERNEL_KERNARG_SEGMENT_SIZE => {
                value.put(descriptor.kernarg_size);
            }
            HsaExecutableSymbolInfo::KERNEL_KERNARG_SEGMENT_ALIGNMENT => {
                value.put(KERNARG_ALIGNMENT);
            }
            HsaExecutableSymbolInfo::KERNEL_GROUP_SEGMENT_SIZE => {
                value.put(descriptor.group_segment_fixed_size);
            }
            HsaExecutableSymbolInfo::KERNEL_PRIVATE_SEGMENT_SIZE => {
                value.put(descriptor.private_segment_fixed_size);
            }
            HsaExecutableSymbolInfo::KERNEL_DYNAMIC_CALLSTACK => {
                value.put(descriptor.kernel_code_properties.uses_dynamic_stack() != 0);
            }
            _ => return symbol_info(symbol, HsaSymbolKind::KERNEL, attribute, value),
        }
    }
    Ok(())
}

/// # Safety
/// `value` has room for the attribute's type.
unsafe fn variable_info(
    symbol: &LoadedSymbol,
    (size, writable): (u64, bool),
    attribute: HsaExecutableSymbolInfo,
    value: Value,
) -> Result<(), HsaStatus> {
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaExecutableSymbolInfo::VARIABLE_SIZE => value.put(size as u32),
            HsaExecutableSymbolInfo::VARIABLE_ALLOCATION | HsaExecutableSymbolInfo::VARIABLE_SEGMENT => {
                value.put(0_u32)
            }
            // The wrong way round, as ROCR says it.
            HsaExecutableSymbolInfo::VARIABLE_IS_CONST => value.put(writable),
            _ => return symbol_info(symbol, HsaSymbolKind::VARIABLE, attribute, value),
        }
    }
    Ok(())
}

/// Loader extension: loaded addresses are host addresses.
pub(super) unsafe extern "C" fn query_host_address(
    device_address: *const c_void,
    host_address: *mut *const c_void,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(host_address)?;
        machine.executables.code_object_at(device_address.addr() as u64).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(device_address) };
        Ok(())
    })
}

/// Loader extension: returns that this runtime does not support it.
pub(super) unsafe extern "C" fn query_segment_descriptors(
    _descriptors: *mut HsaLoaderSegmentDescriptor,
    _count: *mut usize,
) -> HsaStatus {
    eprintln!("hsa-sim: hsa_ven_amd_loader_query_segment_descriptors is not supported");
    HsaStatus::ERROR
}

/// Loader extension: the executable that a loaded address belongs to.
pub(super) unsafe extern "C" fn query_executable(
    device_address: *const c_void,
    executable: *mut HsaExecutable,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = Out::new(executable)?;
        let code_object = machine
            .executables
            .code_object_at(device_address.addr() as u64)
            .ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(code_object.executable) };
        Ok(())
    })
}

/// Loader extension: calls back for each loaded code object, in the order of loading.
pub(super) unsafe extern "C" fn iterate_loaded_code_objects(
    executable: HsaExecutable,
    callback: Option<HsaLoadedCodeObjectCallback>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        for code_object in machine()?.executables.code_objects(executable)? {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(executable, code_object, data) })?;
        }
        Ok(())
    })
}

/// Loader extension: attributes of a loaded code object, which always came from memory.
pub(super) unsafe extern "C" fn loaded_code_object_get_info(
    loaded_code_object: HsaLoadedCodeObject,
    attribute: HsaLoadedCodeObjectInfo,
    value: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let object = machine()?.executables.code_object(loaded_code_object)?;
        let value = Value::new(value)?;
        // As ROCR names code objects in memory (LLVM "Code Object URI").
        let process = std::process::id();
        let Storage { base, size } = object.storage;
        let uri = format!("memory://{process}#offset={base:#x}&size={size}");
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match attribute {
                HsaLoadedCodeObjectInfo::EXECUTABLE => value.put(object.executable),
                HsaLoadedCodeObjectInfo::KIND => value.put(2_u32),
                HsaLoadedCodeObjectInfo::AGENT => value.put(object.agent),
                HsaLoadedCodeObjectInfo::CODE_OBJECT_STORAGE_TYPE => {
                    value.put(HsaCodeObjectStorage::MEMORY);
                }
                HsaLoadedCodeObjectInfo::CODE_OBJECT_STORAGE_MEMORY_BASE => value.put(base as u64),
                HsaLoadedCodeObjectInfo::CODE_OBJECT_STORAGE_MEMORY_SIZE => value.put(size as u64),
                HsaLoadedCodeObjectInfo::LOAD_DELTA => value.put(object.delta),
                HsaLoadedCodeObjectInfo::LOAD_BASE => value.put(object.base),
                HsaLoadedCodeObjectInfo::LOAD_SIZE => value.put(object.size),
                HsaLoadedCodeObjectInfo::URI_LENGTH => value.put(uri.len() as u32),
                HsaLoadedCodeObjectInfo::URI => value.put_bytes(&uri),
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            }
        }
        Ok(())
    })
}
