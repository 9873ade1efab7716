// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! ROCm's aqlprofile library (`libhsa-amd-aqlprofile64`), which makes the packets that count events on a GPU and that
//! trace waves ([`traces`]).
//!
//! It is loaded on first use. The places, highest priority first:
//!
//! 1. `IREE_HAL_AMDGPU_LIBAQLPROFILE_PATH` (a directory or a file). If set and not empty, no other place is tried.
//! 2. The directory of the HSA runtime in use.
//! 3. The loader's own search.
//!
//! Like the HSA runtime it is never unloaded. Its functions may be called from any thread, but one at a time: it keeps
//! state for packets in a process-wide map without a lock (ROCm's `pm4_factory.cpp`).

pub mod traces;

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString, c_void};
use std::fmt::Write;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hsa_abi::aqlprofile::{
    self as abi, AqlProfileAgent, AqlProfileAgentInfo, AqlProfileAgentVersion, AqlProfileBuffer, AqlProfileHandle,
    AqlProfilePackets, AqlProfileRequest, AqlProfileVersion,
};
use hsa_abi::performance;
use hsa_abi::{HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG, HsaAgent, HsaAgentInfo, HsaStatus};
use parking_lot::Mutex;

pub use hsa_abi::aqlprofile::AqlProfileEvent as Event;
pub use traces::{Marker, TraceCapture, TraceTarget, TracedAgent};

use super::error::{self, check_with, optional};
use super::value::Value;
use super::{Agent, Allocation, Library, MemoryPool};
use amdgpu_ffi::{Result, status};
use traces::TraceSymbols;

/// Environment variable that names the library (directory or file), shared with IREE's C driver.
const PATH_VARIABLE: &str = "IREE_HAL_AMDGPU_LIBAQLPROFILE_PATH";

/// File names of the library: the soname first, then the development link.
const LIBRARY_NAMES: [&str; 2] = ["libhsa-amd-aqlprofile64.so.1", "libhsa-amd-aqlprofile64.so"];

/// The version of the library's interface.
const MAJOR_VERSION: u32 = 1;

/// Held while the library is called. Its callbacks do not take it.
static CALLS: Mutex<()> = Mutex::new(());

/// A loaded aqlprofile library.
#[derive(Debug)]
pub struct AqlProfile {
    symbols: Symbols,
    /// The functions of traces, or the name of one that is missing.
    traces: std::result::Result<TraceSymbols, &'static str>,
    path: PathBuf,
}

#[derive(Debug)]
struct Symbols {
    register: abi::aqlprofile_register_agent_info,
    validate: abi::aqlprofile_validate_pmc_event,
    create: abi::aqlprofile_pmc_create_packets,
    delete: abi::aqlprofile_pmc_delete_packets,
    iterate: abi::aqlprofile_pmc_iterate_data,
    error_string: Option<abi::hsa_ven_amd_aqlprofile_error_string>,
}

/// The places to try, each with its step of the search order.
fn candidates(named: Option<OsString>, runtime: &Path) -> Vec<(&'static str, PathBuf)> {
    let in_directory =
        |origin, directory: &Path| LIBRARY_NAMES.map(|name| (origin, directory.join(name))).into_iter().collect();
    if let Some(named) = named.filter(|named| !named.is_empty()).map(PathBuf::from) {
        let names_a_library = named.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if names_a_library && !named.is_dir() {
            return vec![(PATH_VARIABLE, named)];
        }
        return in_directory(PATH_VARIABLE, &named);
    }
    let beside = runtime.parent().filter(|directory| !directory.as_os_str().is_empty());
    let mut list: Vec<_> =
        beside.map(|directory| in_directory("beside the HSA runtime", directory)).unwrap_or_default();
    list.extend(LIBRARY_NAMES.map(|name| ("loader default", PathBuf::from(name))));
    list
}

impl AqlProfile {
    /// Finds and loads the library for `runtime`; messages name `purpose`.
    ///
    /// # Errors
    /// NOT_FOUND with each place tried and the reason why it was not used.
    pub fn load(runtime: &Library, purpose: &str) -> Result<Arc<Self>> {
        let mut tried = String::new();
        for (origin, path) in candidates(std::env::var_os(PATH_VARIABLE), runtime.path()) {
            match Self::open(&path) {
                Ok(library) => return Ok(Arc::new(library)),
                Err(reason) => {
                    let _ = write!(tried, "\n  [{origin}] {}: {reason}", path.display());
                }
            }
        }
        let name = LIBRARY_NAMES[0];
        Err(status!(
            NOT_FOUND,
            "{purpose} need ROCm's aqlprofile library ({name}). Tried, in this order:{tried}\nInstall it beside the \
             HSA runtime, or name its directory or file with {PATH_VARIABLE}=<path>."
        ))
    }

    fn open(path: &Path) -> std::result::Result<Self, String> {
        if path.is_absolute() && !path.exists() {
            return Err("no such file".to_owned());
        }
        // SAFETY: opening runs the library's initialisers. This is a file of the library's name, or one that the user
        // named as it; there is no more to be known of it beforehand.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
        // SAFETY: it goes by the name of the library whose functions have these types.
        let symbols = unsafe { Symbols::load(&library) };
        let symbols = symbols.map_err(|missing| format!("it lacks {missing}; a newer ROCm has it"))?;
        // SAFETY: it goes by the name of the library whose function has this type.
        let version = unsafe { version(&library) }?;
        if version.major != MAJOR_VERSION {
            let AqlProfileVersion { major, minor, patch } = version;
            return Err(format!("it is version {major}.{minor}.{patch}, and {MAJOR_VERSION}.x is needed"));
        }
        // SAFETY: it goes by the name of the library whose functions have these types.
        let traces = unsafe { TraceSymbols::load(&library) };
        let _ = ManuallyDrop::new(library);
        Ok(Self { symbols, traces, path: path.to_path_buf() })
    }

    /// Converts the status of a call to a result; an error has the library's own text.
    fn check(&self, call: &'static str, status: HsaStatus) -> error::Result<()> {
        check_with(call, status, || {
            let mut text = std::ptr::null();
            // SAFETY: the result goes to a local.
            let known = self.symbols.error_string.is_some_and(|get| unsafe { get(&mut text) }.is_ok());
            let text = match known && !text.is_null() {
                // SAFETY: the library gives a C string.
                true => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
                false => String::new(),
            };
            format!("{} in {}", text.trim(), self.path.display())
        })
    }

    /// Registers a GPU with the library, which can make packets for it afterwards.
    ///
    /// # Errors
    /// The error of the runtime or of the library, which does not support every GPU.
    pub fn register(self: &Arc<Self>, agent: &Agent, memory: CaptureMemory) -> Result<Arc<CountedAgent>> {
        let query = |attribute| {
            Value::read(
                "hsa_agent_get_info",
                || format!("{attribute:?}"),
                |value| {
                    // SAFETY: `value` has room for the largest attribute.
                    unsafe { (agent.library().symbols.hsa_agent_get_info)(agent.handle(), attribute, value) }
                },
            )
        };
        type A = HsaAgentInfo;
        let number = |attribute| Ok::<_, error::Error>(query(attribute)?.u32());
        let name = CString::new(agent.info().name.as_str()).unwrap_or_default();
        let info = AqlProfileAgentInfo {
            agent_gfxip: name.as_ptr(),
            // Runtimes that do not know of dies know GPUs of one.
            xcc_num: optional(query(A::AMD_NUM_XCC))?.map_or(1, |value| value.u32()),
            se_num: number(A::AMD_NUM_SHADER_ENGINES)?,
            cu_num: number(A::AMD_COMPUTE_UNIT_COUNT)?,
            shader_arrays_per_se: number(A::AMD_NUM_SHADER_ARRAYS_PER_SE)?,
            domain: number(A::AMD_DOMAIN)?,
            location_id: number(A::AMD_BDFID)?,
        };
        let mut handle = AqlProfileAgent::default();
        let _calls = CALLS.lock();
        // SAFETY: the struct is of the version named, its name lives during the call; the result goes to a local.
        let status =
            unsafe { (self.symbols.register)(&mut handle, (&raw const info).cast(), AqlProfileAgentVersion::V1) };
        self.check("aqlprofile_register_agent_info", status)?;
        Ok(Arc::new(CountedAgent { library: self.clone(), handle, memory }))
    }
}

/// # Safety
/// `library` is an aqlprofile library.
unsafe fn version(library: &libloading::Library) -> std::result::Result<AqlProfileVersion, String> {
    // SAFETY: the caller's contract.
    let get = unsafe { library.get::<abi::aqlprofile_get_version>(b"aqlprofile_get_version\0") };
    let get = get.map_err(|_| "it lacks aqlprofile_get_version; a newer ROCm has it".to_owned())?;
    let mut version = AqlProfileVersion::default();
    // SAFETY: the result goes to a local.
    match unsafe { get(&mut version) } {
        HsaStatus::SUCCESS => Ok(version),
        status => Err(format!("aqlprofile_get_version failed: {status:?}")),
    }
}

impl Symbols {
    /// # Safety
    /// `library` is an aqlprofile library that is not unloaded while these are in use.
    unsafe fn load(library: &libloading::Library) -> std::result::Result<Self, &'static str> {
        macro_rules! find {
            ($name:ident) => {
                // SAFETY: the caller says that an export of this name has this type.
                match unsafe { library.get::<abi::$name>(concat!(stringify!($name), "\0").as_bytes()) } {
                    Ok(found) => Ok(*found),
                    Err(_) => Err(stringify!($name)),
                }
            };
        }
        Ok(Self {
            register: find!(aqlprofile_register_agent_info)?,
            validate: find!(aqlprofile_validate_pmc_event)?,
            create: find!(aqlprofile_pmc_create_packets)?,
            delete: find!(aqlprofile_pmc_delete_packets)?,
            iterate: find!(aqlprofile_pmc_iterate_data)?,
            error_string: find!(hsa_ven_amd_aqlprofile_error_string).ok(),
        })
    }
}

/// The pools for the memory of captures.
#[derive(Clone, Debug)]
pub struct CaptureMemory {
    /// Host memory that both the host and the GPU access: fine-grained.
    pub host: MemoryPool,
    /// GPU memory.
    pub device: MemoryPool,
    /// The agents with access to it.
    pub agents: Vec<HsaAgent>,
}

/// A GPU with event counters.
#[derive(Debug)]
pub struct CountedAgent {
    library: Arc<AqlProfile>,
    handle: AqlProfileAgent,
    memory: CaptureMemory,
}

impl CountedAgent {
    /// True if the GPU can count `event`.
    ///
    /// # Errors
    /// The error of the library.
    pub fn knows(&self, event: &Event) -> Result<bool> {
        let mut known = false;
        let _calls = CALLS.lock();
        // SAFETY: a valid event; the result goes to a local.
        let status = unsafe { (self.library.symbols.validate)(self.handle, event, &mut known) };
        self.library.check("aqlprofile_validate_pmc_event", status)?;
        Ok(known)
    }

    /// Makes packets that count `events`, no more than the hardware counts at a time. Each event is counted in all
    /// instances of its block.
    ///
    /// # Errors
    /// The error of the library: `ERROR` if the hardware cannot count so many at a time.
    pub fn capture(self: &Arc<Self>, events: &[Event]) -> error::Result<Capture> {
        let memory = Arc::new(Memory { pools: self.memory.clone(), allocations: Mutex::default() });
        let of_instances = |event: &Event| {
            let (event, block) = (*event, performance::Block::named(event.block_name));
            let instances = block.map_or(1, performance::Block::instances);
            (0..instances).map(move |block_index| Event { block_index, ..event })
        };
        let events: Vec<Event> = events.iter().flat_map(of_instances).collect();
        let request =
            AqlProfileRequest { agent: self.handle, events: events.as_ptr(), event_count: events.len() as u32 };
        let mut handle = AqlProfileHandle::default();
        let mut packets = std::mem::MaybeUninit::<AqlProfilePackets>::zeroed();
        let data = Arc::as_ptr(&memory);
        let calls = CALLS.lock();
        // SAFETY: the events are as many as said; results go to locals; the callbacks take this data, which lives until
        // the packets are deleted, or for ever.
        let status = unsafe {
            let out = packets.as_mut_ptr();
            (self.library.symbols.create)(&mut handle, out, request, allocate, free, copy, data.cast_mut().cast())
        };
        if let Err(error) = self.library.check("aqlprofile_pmc_create_packets", status) {
            // The library frees its allocations for the failed call when the process ends. Usually there are none,
            // because it first checks that there are counters for all events.
            if !memory.allocations.lock().is_empty() {
                std::mem::forget(memory);
            }
            return Err(error);
        }
        drop(calls);
        // SAFETY: the library has filled them in; they are integers in any case.
        let packets = unsafe { packets.assume_init() };
        Ok(Capture { agent: self.clone(), handle, packets: Box::new(packets), _memory: memory })
    }
}

/// Packets that count events, for one use at a time, and their memory. It must not be dropped while one of them is in a
/// queue.
#[derive(Debug)]
pub struct Capture {
    agent: Arc<CountedAgent>,
    handle: AqlProfileHandle,
    packets: Box<AqlProfilePackets>,
    /// The library's allocations.
    _memory: Arc<Memory>,
}

impl Capture {
    /// The packets, without headers and completion signals.
    pub fn packets(&self) -> &AqlProfilePackets {
        &self.packets
    }

    /// The values of the complete read packet: several for each event, one for each part of the GPU that counts,
    /// including instances of its block. The values do not tell the parts.
    ///
    /// # Errors
    /// The error of the library.
    pub fn values(&self) -> Result<Vec<(Event, u64)>> {
        let mut values = Vec::new();
        let _calls = CALLS.lock();
        // SAFETY: the callback takes a vector of this type.
        let status = unsafe { (self.agent.library.symbols.iterate)(self.handle, take, (&raw mut values).cast()) };
        self.agent.library.check("aqlprofile_pmc_iterate_data", status)?;
        Ok(values)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _calls = CALLS.lock();
        // SAFETY: the handle is the library's own, and is deleted once; no packet is in a queue. It gives its memory
        // back to `_memory`, which is dropped after this.
        unsafe { (self.agent.library.symbols.delete)(self.handle) };
    }
}

/// The library's allocations for a capture, by address.
#[derive(Debug)]
struct Memory {
    pools: CaptureMemory,
    allocations: Mutex<HashMap<usize, Allocation>>,
}

unsafe extern "C" fn allocate(
    address: *mut *mut c_void,
    size: u64,
    flags: AqlProfileBuffer,
    data: *mut c_void,
) -> HsaStatus {
    // SAFETY: the data given with this callback; it lives as long as the capture.
    let memory = unsafe { &*data.cast::<Memory>() };
    let CaptureMemory { host, device, agents } = &memory.pools;
    let for_host = flags.has(AqlProfileBuffer::HOST_ACCESS);
    if !for_host && !flags.has(AqlProfileBuffer::DEVICE_ACCESS) {
        return HsaStatus::ERROR_INVALID_ARGUMENT;
    }
    // Commands are in memory that the caches may keep; packet processors run executable memory.
    let is_code = for_host && [AqlProfileBuffer::NONCOHERENT, AqlProfileBuffer::NO_HINT].contains(&flags.hint());
    let pool_flags = if is_code { HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG } else { 0 };
    let pool = if for_host { host } else { device };
    let allocation = match pool.allocate(size as usize, pool_flags, agents) {
        Ok(allocation) => allocation,
        // Not by that which says that there are too few counters.
        Err(error) => {
            let status = error.status().filter(|status| *status != HsaStatus::ERROR);
            return status.unwrap_or(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
    };
    let start = allocation.as_ptr();
    if for_host {
        // SAFETY: so many bytes were allocated, which the host accesses, and no other code has the address.
        unsafe { start.write_bytes(0, size as usize) };
    }
    memory.allocations.lock().insert(start as usize, allocation);
    // SAFETY: the library gives a valid place.
    unsafe { address.write(start.cast()) };
    HsaStatus::SUCCESS
}

unsafe extern "C" fn free(address: *mut c_void, data: *mut c_void) {
    // SAFETY: `data` is the `Memory` that was handed over with this function; it outlives its packets.
    let memory = unsafe { &*data.cast::<Memory>() };
    let freed = memory.allocations.lock().remove(&(address as usize));
    drop(freed);
}

unsafe extern "C" fn copy(target: *mut c_void, source: *const c_void, size: usize, _data: *mut c_void) -> HsaStatus {
    // SAFETY: the library copies to memory that it has allocated for the host, from memory of its own.
    unsafe { target.cast::<u8>().copy_from_nonoverlapping(source.cast(), size) };
    HsaStatus::SUCCESS
}

unsafe extern "C" fn take(event: Event, _instance: u64, value: u64, data: *mut c_void) -> HsaStatus {
    // SAFETY: the data given with this callback, for the length of the iteration.
    unsafe { &mut *data.cast::<Vec<(Event, u64)>>() }.push((Event { block_index: 0, ..event }, value));
    HsaStatus::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_place_is_the_only_one() {
        let paths = |named: Option<&str>| -> Vec<String> {
            let list = candidates(named.map(OsString::from), Path::new("/opt/rocm/lib/libhsa-runtime64.so.1"));
            list.into_iter().map(|(_, path)| path.display().to_string()).collect()
        };
        let [soname, link] = LIBRARY_NAMES;
        let expected = [format!("/opt/rocm/lib/{soname}"), format!("/opt/rocm/lib/{link}"), soname.into(), link.into()];
        assert_eq!(paths(None), expected);
        assert_eq!(paths(Some("")), expected);
        assert_eq!(paths(Some("/nowhere")), [format!("/nowhere/{soname}"), format!("/nowhere/{link}")]);
        assert_eq!(paths(Some("/nowhere/libcounts.so.7")), ["/nowhere/libcounts.so.7"]);
    }
}
