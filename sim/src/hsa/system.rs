// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Lifetime, system attributes, extensions, events.

use std::ffi::{c_char, c_void};
use std::ops::RangeInclusive;

use hsa_abi::{
    HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, HsaAgent, HsaAmdEventType, HsaAmdSystemEventCallback, HsaEndianness,
    HsaExtension, HsaMachineModel, HsaQueue, HsaStatus, HsaSystemInfo, HsaVenAmdLoaderTable,
};

use super::{Out, Value, check_signatures, executable, guard};
use crate::machine::lifecycle::{self, machine};
use crate::machine::{self, clock};

check_signatures! {
    hsa_init hsa_shut_down hsa_status_string hsa_system_get_info
    hsa_system_major_extension_supported hsa_system_get_major_extension_table
    hsa_system_extension_supported hsa_agent_extension_supported
    hsa_amd_register_system_event_handler hsa_amd_enable_logging hsa_sim_last_fault
}

/// Minor version of the loader extension: 1.01.
const LOADER_MINOR: u16 = 1;
/// `HSA_EXTENSION_AMD_PROFILER`, the only extension that ROCR always says it has.
const AMD_PROFILER_EXTENSION: usize = 0x200;

/// Starts the machine that the environment describes, or takes another reference to it.
#[unsafe(no_mangle)]
#[allow(clippy::redundant_closure, reason = "`guard` takes the function's name from it")]
pub unsafe extern "C" fn hsa_init() -> HsaStatus {
    guard(|| lifecycle::init())
}

/// Drops a reference. The last one stops the machine and frees all its memory.
#[unsafe(no_mangle)]
#[allow(clippy::redundant_closure, reason = "`guard` takes the function's name from it")]
pub unsafe extern "C" fn hsa_shut_down() -> HsaStatus {
    guard(|| lifecycle::shut_down())
}

/// See HSA Runtime 2.2.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_status_string(status: HsaStatus, string: *mut *const c_char) -> HsaStatus {
    guard(|| {
        let out = Out::new(string)?;
        let text = status_text(status).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(text.as_ptr()) };
        Ok(())
    })
}

/// Text of a status that ROCR has a text for: all of its statuses except `ERROR_RESOURCE_BUSY`.
fn status_text(status: HsaStatus) -> Option<&'static std::ffi::CStr> {
    macro_rules! texts {
        ($($name:ident $text:literal)*) => {
            match status {
                $(HsaStatus::$name => {
                    const TEXT: &str = concat!("HSA_STATUS_", stringify!($name), ": ", $text, "\0");
                    std::ffi::CStr::from_bytes_with_nul(TEXT.as_bytes()).ok()
                })*
                _ => None,
            }
        };
    }
    texts! {
        SUCCESS "success"
        INFO_BREAK "iteration stopped by the callback"
        CU_MASK_REDUCED "the mask was set but for compute units that the process may not use"
        ERROR "unspecified error"
        ERROR_INVALID_ARGUMENT "invalid argument"
        ERROR_INVALID_QUEUE_CREATION "the agent cannot have such a queue"
        ERROR_INVALID_ALLOCATION "impossible or unknown allocation"
        ERROR_INVALID_AGENT "invalid agent"
        ERROR_INVALID_REGION "invalid region"
        ERROR_INVALID_SIGNAL "invalid signal"
        ERROR_INVALID_QUEUE "invalid queue"
        ERROR_OUT_OF_RESOURCES "out of memory, threads or another resource"
        ERROR_INVALID_PACKET_FORMAT "malformed AQL packet"
        ERROR_RESOURCE_FREE "a resource cannot be released"
        ERROR_NOT_INITIALIZED "hsa_init has not been called"
        ERROR_REFCOUNT_OVERFLOW "too many references"
        ERROR_INCOMPATIBLE_ARGUMENTS "the arguments do not go together"
        ERROR_INVALID_INDEX "invalid index"
        ERROR_INVALID_ISA "invalid instruction set"
        ERROR_INVALID_ISA_NAME "no instruction set of this name"
        ERROR_INVALID_CODE_OBJECT "invalid code object"
        ERROR_INVALID_EXECUTABLE "invalid executable"
        ERROR_FROZEN_EXECUTABLE "the executable is frozen"
        ERROR_INVALID_SYMBOL_NAME "no symbol of this name"
        ERROR_VARIABLE_ALREADY_DEFINED "the variable is defined already"
        ERROR_VARIABLE_UNDEFINED "undefined variable"
        ERROR_EXCEPTION "a kernel stopped with an error"
        ERROR_INVALID_CODE_SYMBOL "invalid symbol of a code object"
        ERROR_INVALID_EXECUTABLE_SYMBOL "invalid executable symbol"
        ERROR_INVALID_FILE "invalid file descriptor"
        ERROR_INVALID_CODE_OBJECT_READER "invalid code object reader"
        ERROR_INVALID_CACHE "invalid cache"
        ERROR_INVALID_WAVEFRONT "invalid wavefront"
        ERROR_INVALID_SIGNAL_GROUP "invalid signal group"
        ERROR_INVALID_RUNTIME_STATE "the runtime is not being configured"
        ERROR_FATAL "the queue failed and the process may have to end"
        ERROR_INVALID_MEMORY_POOL "invalid memory pool"
        ERROR_MEMORY_APERTURE_VIOLATION "access outside of an aperture"
        ERROR_ILLEGAL_INSTRUCTION "illegal or unimplemented instruction"
        ERROR_MEMORY_FAULT "access to memory the agent may not access"
        ERROR_OUT_OF_REGISTERS "the kernel needs more registers than there are"
    }
}

/// See HSA Runtime 2.2 and `hsa_ext_amd.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_system_get_info(attribute: HsaSystemInfo, value: *mut c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let (runtime_minor, extension_minor) = machine.config.rocr.minor_versions();
        let value = Value::new(value)?;
        let mut extensions = [0_u8; 128];
        extensions[AMD_PROFILER_EXTENSION / 8] = 1 << (AMD_PROFILER_EXTENSION % 8);
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match attribute {
                HsaSystemInfo::VERSION_MAJOR => value.put(1_u16),
                HsaSystemInfo::VERSION_MINOR => value.put(runtime_minor),
                HsaSystemInfo::TIMESTAMP => value.put(clock::now()),
                HsaSystemInfo::TIMESTAMP_FREQUENCY => value.put(machine::clock::CLOCK_HZ),
                HsaSystemInfo::SIGNAL_MAX_WAIT => value.put(u64::MAX),
                HsaSystemInfo::ENDIANNESS => value.put(HsaEndianness::LITTLE),
                HsaSystemInfo::MACHINE_MODEL => value.put(HsaMachineModel::LARGE),
                HsaSystemInfo::EXTENSIONS => value.put(extensions),
                HsaSystemInfo::AMD_BUILD_VERSION => {
                    value.put(concat!("hsa-sim ", env!("CARGO_PKG_VERSION"), "\0").as_ptr());
                }
                HsaSystemInfo::AMD_DMABUF_SUPPORTED => value.put(machine.has_dmabufs()),
                HsaSystemInfo::AMD_SVM_SUPPORTED | HsaSystemInfo::AMD_VIRTUAL_MEM_API_SUPPORTED => value.put(true),
                HsaSystemInfo::AMD_SVM_ACCESSIBLE_BY_DEFAULT
                | HsaSystemInfo::AMD_MWAITX_ENABLED
                | HsaSystemInfo::AMD_XNACK_ENABLED => value.put(false),
                HsaSystemInfo::AMD_EXT_VERSION_MAJOR => value.put(1_u16),
                HsaSystemInfo::AMD_EXT_VERSION_MINOR => value.put(extension_minor),
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            }
        }
        Ok(())
    })
}

/// Only version 1 of AMD's loader extension is supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_system_major_extension_supported(
    extension: HsaExtension,
    version_major: u16,
    version_minor: *mut u16,
    result: *mut bool,
) -> HsaStatus {
    guard(|| {
        machine()?;
        let (minor, result) = (Out::new(version_minor)?, Out::new(result)?);
        let supported = extension == HsaExtension::AMD_LOADER && version_major == 1;
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe {
            result.write(supported);
            if supported {
                minor.write(LOADER_MINOR);
            }
        }
        Ok(())
    })
}

/// Numbers of the extensions that HSA and AMD define (`hsa.h`, `hsa_extension_t`).
const EXTENSIONS: [RangeInclusive<u16>; 2] = [0..=3, 0x200..=0x202];

/// As in ROCR, every known extension but performance counters and profiling events counts as supported, whether it is
/// or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_system_extension_supported(
    extension: u16,
    version_major: u16,
    version_minor: u16,
    result: *mut bool,
) -> HsaStatus {
    guard(|| {
        machine()?;
        let out = known_extension(extension, result)?;
        let counted = ![HsaExtension::PERFORMANCE_COUNTERS.0, HsaExtension::PROFILING_EVENTS.0].contains(&extension);
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(counted && version_major <= 1 && version_minor == 0) };
        Ok(())
    })
}

/// As in ROCR, a GPU counts as supporting every known extension, and a CPU none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_extension_supported(
    extension: u16,
    agent: HsaAgent,
    version_major: u16,
    version_minor: u16,
    result: *mut bool,
) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let out = known_extension(extension, result)?;
        let is_gpu = machine.agent(agent)?.gpu.is_some();
        // SAFETY: checked for null; the rest is the caller's contract.
        unsafe { out.write(is_gpu && version_major <= 1 && version_minor == 0) };
        Ok(())
    })
}

/// Checks the number of an extension and the place of an answer about it.
fn known_extension(extension: u16, result: *mut bool) -> Result<Out<bool>, HsaStatus> {
    if !EXTENSIONS.iter().any(|known| known.contains(&extension)) {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    Out::new(result)
}

/// Fills as much of the loader extension's table as the caller has room for. Leaves entries beyond 1.01 unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_system_get_major_extension_table(
    extension: HsaExtension,
    version_major: u16,
    table_length: usize,
    table: *mut c_void,
) -> HsaStatus {
    guard(|| {
        machine()?;
        let table = Out::new(table)?.0.cast::<u8>();
        if extension != HsaExtension::AMD_LOADER || version_major != 1 || table_length == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let ours = HsaVenAmdLoaderTable {
            query_host_address: Some(executable::query_host_address),
            query_segment_descriptors: Some(executable::query_segment_descriptors),
            query_executable: Some(executable::query_executable),
            executable_iterate_loaded_code_objects: Some(executable::iterate_loaded_code_objects),
            loaded_code_object_get_info: Some(executable::loaded_code_object_get_info),
        };
        let length = table_length.min(size_of_val(&ours));
        // SAFETY: the caller's table has `table_length` bytes, ours has at least `length`.
        unsafe { table.copy_from_nonoverlapping((&raw const ours).cast(), length) };
        Ok(())
    })
}

/// Logs nothing. The flags are about the packets of ROCR's own copy kernels, and copies here need none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_enable_logging(flags: *mut u8, _file: *mut c_void) -> HsaStatus {
    guard(|| {
        machine()?;
        Out::new(flags).map(drop)
    })
}

/// See [`machine::events`] for the events and their receivers. Handlers are called in the order of their registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_register_system_event_handler(
    callback: Option<HsaAmdSystemEventCallback>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        machine()?.events.add_handler(callback, data);
        Ok(())
    })
}

/// Not part of HSA. Raises a memory fault of a GPU at address 0 that none of its queues has caused, or resets the GPU
/// as the kernel driver does when it hangs; see [`machine::events`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_raise(agent: HsaAgent, event: HsaAmdEventType) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let agent = machine.agent(agent)?.index;
        machine.evict(agent);
        match event {
            HsaAmdEventType::GPU_MEMORY_FAULT => {
                machine.events.memory_fault(agent, 0, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT);
            }
            HsaAmdEventType::GPU_HW_EXCEPTION => machine.events.reset(agent),
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
        Ok(())
    })
}

/// Not part of HSA, whose error callback has only a status. Copies the text of the fault that stopped `queue`, or of
/// the last fault of any queue when `queue` is null, into `buffer`: the kernel, pc, mnemonic, encoding and address, or
/// the error in a packet. The text is cut to `length` bytes with its NUL. The result is its whole length without the
/// NUL; zero if there is no fault. It may be called from the error callback. From the first call on, faults are no
/// longer printed, because the program shows them itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_sim_last_fault(queue: *const HsaQueue, buffer: *mut c_char, length: usize) -> usize {
    let mut text = String::new();
    let _ = guard(|| {
        let machine = machine()?;
        machine.leave_faults_to_the_program();
        let fault = match queue.is_null() {
            true => machine.last_fault(),
            false => machine.queue(queue.addr() as u64)?.fault(),
        };
        text = fault.unwrap_or_default();
        Ok(())
    });
    if !buffer.is_null() && length > 0 {
        let copied = text.len().min(length - 1);
        // SAFETY: the caller's buffer has `length` bytes, of which at most `copied + 1` are written.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), copied);
            buffer.add(copied).write(0);
        }
    }
    text.len()
}
