// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The loaded HSA runtime.
//!
//! A [`Library`] is one reference to the runtime (`hsa_init` … `hsa_shut_down`). Every other object of this module
//! holds an `Arc` of it, so that the runtime is up while any of them is in use. The file itself is never unloaded: ROCR
//! has threads and exit handlers that must not lose their code.
//!
//! All functions may be called from any thread.

use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use hsa_abi::{HsaAgent, HsaEndianness, HsaExtension, HsaMachineModel, HsaStatus, HsaSystemInfo, HsaVenAmdLoaderTable};
use parking_lot::Mutex;

use super::discovery::{self, Candidate, Machine, Target};
use super::error::{Attempt, Error, Result, check_with, optional, report};
use super::symbols::Symbols;
use super::value::{Value, collect};
use super::{Agent, events};

/// Libraries in use, so that loading one twice gives the same object and one set of event handlers.
static LIVE: Mutex<Vec<Weak<Library>>> = Mutex::new(Vec::new());

/// An HSA runtime, loaded and initialised.
#[derive(Debug)]
pub struct Library {
    pub(super) symbols: Symbols,
    path: PathBuf,
    system: SystemInfo,
    reports_faults: bool,
    part_gap: usize,
}

/// The runtime's properties of the system.
#[derive(Clone, Debug, Default)]
pub struct SystemInfo {
    /// HSA version: major (always 1) and minor. ROCR reports its release's, or 1.1 for any release built without
    /// rocprofiler-register (`HSA_VERSION_MINOR` in its `CMakeLists.txt`); `build` and `amd_extension` are more
    /// precise.
    pub version: (u16, u16),
    /// The runtime's name of its build (`HSA_AMD_SYSTEM_INFO_BUILD_VERSION`).
    pub build: Option<String>,
    /// Version of AMD's extension (`hsa_ext_amd.h`): major and minor, which grows with each addition. None if the
    /// runtime does not report it.
    pub amd_extension: Option<(u16, u16)>,
    /// Ticks per second of system timestamps.
    pub timestamp_frequency: u64,
    /// Shared virtual memory is supported.
    pub svm_supported: bool,
    /// All host memory is accessible to every agent without being locked.
    pub svm_accessible_by_default: bool,
    /// Page faults of GPUs can be retried.
    pub xnack_enabled: bool,
    /// Memory can be exported as DMA-BUF.
    pub dmabuf_supported: bool,
}

impl Library {
    /// Finds, loads and initialises the runtime: only in `search_paths` if there are any, otherwise in the places and
    /// the order of [`discovery`].
    ///
    /// # Errors
    /// [`Error::NoLibrary`] with each place tried and the reason why it was not used, [`Error::Incompatible`], or the
    /// status of `hsa_init`.
    pub fn load(search_paths: &[PathBuf]) -> Result<Arc<Self>> {
        Self::load_first(discovery::candidates(search_paths, &Machine))
    }

    fn load_first(candidates: Vec<Candidate>) -> Result<Arc<Self>> {
        let mut attempts = Vec::new();
        for Candidate { origin, target } in candidates {
            let path = match &target {
                Target::Open(path) => Some(path.clone()),
                Target::AlreadyLoaded(name) => Some(PathBuf::from(name)),
                Target::Absent(_) => None,
            };
            match open(&target) {
                Ok(symbols) => return Self::initialise(symbols, path.unwrap_or_default()),
                Err((reason, opened)) => attempts.push(Attempt { origin, path, reason, opened }),
            }
        }
        Err(Error::NoLibrary { attempts })
    }

    fn initialise(symbols: Symbols, path: PathBuf) -> Result<Arc<Self>> {
        let mut live = LIVE.lock();
        live.retain(|library| library.strong_count() > 0);
        let same = |library: &Arc<Self>| library.symbols.hsa_init as usize == symbols.hsa_init as usize;
        if let Some(library) = live.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(library);
        }
        let path = file_of(&symbols).unwrap_or(path);
        // SAFETY: hsa_init takes nothing and may be called at any time.
        let status = unsafe { (symbols.hsa_init)() };
        check_with("hsa_init", status, || {
            // ROCR gives this status for whatever keeps it from the kernel driver, and no other.
            let advice = match status {
                HsaStatus::ERROR_OUT_OF_RESOURCES => {
                    "; is the amdgpu kernel driver loaded, and may this user open /dev/kfd (groups render and video)?"
                }
                _ => "",
            };
            format!("in {}{advice}", path.display())
        })?;
        // From here on the reference is given back by drop.
        // SAFETY: it takes nothing, and the runtime is up.
        let part_gap = symbols.hsa_sim_memory_part_gap.map_or(0, |gap| unsafe { gap() });
        let mut library = Self { symbols, path, system: SystemInfo::default(), reports_faults: false, part_gap };
        library.system = library.query_system()?;
        library.reports_faults = events::register(&library)?;
        // Faults become errors of this driver: the software runtime need not print them.
        let _ = library.last_fault(std::ptr::null());
        let library = Arc::new(library);
        live.push(Arc::downgrade(&library));
        Ok(library)
    }

    /// The library that is in use and has this [`events::key`].
    pub(super) fn of_key(key: usize) -> Option<Arc<Self>> {
        LIVE.lock().iter().filter_map(Weak::upgrade).find(|library| events::key(library) == key)
    }

    /// The path of the loaded file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The runtime's properties of the system.
    pub fn system(&self) -> &SystemInfo {
        &self.system
    }

    /// True if memory faults are reported to [`listen`](super::listen) with their address. Otherwise (an old ROCm), the
    /// runtime ends the process on a memory fault.
    pub fn reports_faults(&self) -> bool {
        self.reports_faults
    }

    /// Bytes to leave unused behind each part of an allocation, for a runtime that checks for accesses outside of
    /// registered parts ([`Part`](super::Part)); 0 for all others, including ROCR.
    #[inline]
    pub fn part_gap(&self) -> usize {
        self.part_gap
    }

    /// Every agent of the system in the runtime's order (`ROCR_VISIBLE_DEVICES` filters GPUs), with its properties.
    pub fn agents(self: &Arc<Self>) -> Result<Vec<Agent>> {
        let handles: Vec<HsaAgent> = collect("hsa_iterate_agents", |callback, data| {
            // SAFETY: `collect` gives a callback and data that go together, for the length of this call.
            unsafe { (self.symbols.hsa_iterate_agents)(Some(callback), data) }
        })?;
        handles.into_iter().map(|handle| Agent::new(self, handle)).collect()
    }

    /// The text of the last fault of `queue`, if the runtime keeps it (this project's software runtime does).
    ///
    /// `queue` must be null (any queue) or a live queue of this runtime.
    pub(super) fn last_fault(&self, queue: *const hsa_abi::HsaQueue) -> Option<String> {
        let last_fault = self.symbols.hsa_sim_last_fault?;
        let mut buffer = [0_u8; 4096];
        // SAFETY: the buffer is as long as we say, and callers give a queue as documented.
        let length = unsafe { last_fault(queue, buffer.as_mut_ptr().cast(), buffer.len()) };
        if length == 0 {
            return None;
        }
        let text = CStr::from_bytes_until_nul(&buffer).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn query(&self, attribute: HsaSystemInfo) -> Result<Value> {
        Value::read(
            "hsa_system_get_info",
            || format!("{attribute:?}"),
            |value| {
                // SAFETY: `value` has room for the largest attribute.
                unsafe { (self.symbols.hsa_system_get_info)(attribute, value) }
            },
        )
    }

    fn query_system(&self) -> Result<SystemInfo> {
        let incompatible = |reason: String| Error::Incompatible { library: self.path.clone(), reason };
        let major = self.query(HsaSystemInfo::VERSION_MAJOR)?.u16();
        if major != 1 {
            return Err(incompatible(format!("it implements HSA {major}.x, and 1.x is needed")));
        }
        if HsaEndianness(self.query(HsaSystemInfo::ENDIANNESS)?.u32()) != HsaEndianness::LITTLE {
            return Err(incompatible("it is for a big-endian system".to_owned()));
        }
        if HsaMachineModel(self.query(HsaSystemInfo::MACHINE_MODEL)?.u32()) != HsaMachineModel::LARGE {
            return Err(incompatible("it is for the small (32-bit) machine model".to_owned()));
        }
        // AMD's attributes came one by one: one that a runtime does not know is not supported.
        let has = |attribute| Ok(optional(self.query(attribute))?.is_some_and(|value| value.bool()));
        let number = |attribute| Ok(optional(self.query(attribute))?.map(|value| value.u16()));
        let amd_major = number(HsaSystemInfo::AMD_EXT_VERSION_MAJOR)?;
        let amd_minor = number(HsaSystemInfo::AMD_EXT_VERSION_MINOR)?;
        // SAFETY: the attribute is a C string that lives as long as the runtime.
        let build = optional(self.query(HsaSystemInfo::AMD_BUILD_VERSION))?.and_then(|value| unsafe { value.string() });
        Ok(SystemInfo {
            version: (major, self.query(HsaSystemInfo::VERSION_MINOR)?.u16()),
            build,
            amd_extension: amd_major.zip(amd_minor),
            timestamp_frequency: self.query(HsaSystemInfo::TIMESTAMP_FREQUENCY)?.u64(),
            svm_supported: has(HsaSystemInfo::AMD_SVM_SUPPORTED)?,
            svm_accessible_by_default: has(HsaSystemInfo::AMD_SVM_ACCESSIBLE_BY_DEFAULT)?,
            xnack_enabled: has(HsaSystemInfo::AMD_XNACK_ENABLED)?,
            dmabuf_supported: has(HsaSystemInfo::AMD_DMABUF_SUPPORTED)?,
        })
    }

    /// The current time in ticks of `SystemInfo::timestamp_frequency`.
    pub fn timestamp(&self) -> Result<u64> {
        self.query(HsaSystemInfo::TIMESTAMP).map(|value| value.u64())
    }

    /// The functions of AMD's loader extension (`hsa_ven_amd_loader.h`); none if the runtime lacks it.
    pub(super) fn loader(&self) -> Result<Option<HsaVenAmdLoaderTable>> {
        let Some(get) = self.symbols.hsa_system_get_major_extension_table else { return Ok(None) };
        let mut table = HsaVenAmdLoaderTable::default();
        let length = size_of_val(&table);
        // SAFETY: the table is as long as we say, and of the version that its type is of.
        let status = unsafe { get(HsaExtension::AMD_LOADER, 1, length, (&raw mut table).cast()) };
        let answer = check_with("hsa_system_get_major_extension_table", status, || "AMD's loader extension".to_owned());
        Ok(optional(answer)?.map(|()| table))
    }

    pub(super) fn missing(&self, function: &'static str, purpose: &'static str) -> Error {
        Error::MissingFunction { function, purpose, library: self.path.clone() }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it undoes the hsa_init of `initialise`; every object of the runtime holds an `Arc` of this, so none
        // is left.
        let status = unsafe { (self.symbols.hsa_shut_down)() };
        report("hsa_shut_down", status);
    }
}

/// Opens a candidate. The error has the reason why it cannot be used, and true if it could be opened at all.
fn open(target: &Target) -> std::result::Result<Symbols, (String, bool)> {
    let library = match target {
        Target::Absent(reason) => return Err((reason.clone(), false)),
        Target::Open(path) if path.is_absolute() && !path.exists() => {
            return Err(("no such file".to_owned(), false));
        }
        Target::Open(path) => {
            // SAFETY: opening runs the library's initialisers. This is a file of the HSA runtime's name, or one that
            // the user named as the HSA runtime; there is no more to be known of it beforehand.
            unsafe { libloading::Library::new(path) }.map_err(|error| (reason_of(&error, path), false))?
        }
        Target::AlreadyLoaded(name) => {
            use libloading::os::unix::Library;
            // SAFETY: with RTLD_NOLOAD nothing is loaded and no initialiser is run.
            let library = unsafe { Library::open(Some(name), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
            library.map_err(|_| ("not loaded in this process".to_owned(), false))?.into()
        }
    };
    // Never unloaded once it is used; see the module's head.
    let library = ManuallyDrop::new(library);
    // SAFETY: it goes by the name of the HSA runtime, and stays loaded.
    unsafe { Symbols::load(&library) }.map_err(|missing| {
        drop(ManuallyDrop::into_inner(library));
        let text = format!("it lacks {}, which this driver needs; a newer ROCm has it", missing.join(", "));
        (text, true)
    })
}

/// The loader's error text, without the path that it begins with.
fn reason_of(error: &libloading::Error, path: &Path) -> String {
    let text = match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    let prefix = format!("{}: ", path.display());
    text.strip_prefix(&prefix).unwrap_or(&text).to_owned()
}

/// The file from which the functions were loaded.
fn file_of(symbols: &Symbols) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: dladdr only reads the address, and all-zero is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr only reads the address, and `info` is writable.
    let found = unsafe { libc::dladdr(symbols.hsa_init as *const libc::c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a NUL-terminated string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
#[path = "library_test.rs"]
mod tests;
