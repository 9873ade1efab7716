// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! RCCL and HIP, loaded by name.
//!
//! HIP's functions are looked up through RCCL, so that both use one copy of HIP. The types are those of `rccl.h` and
//! `hip_runtime_api.h`, which have not changed since RCCL 2.13 and HIP 5.2. The functions that came later are not used:
//! splits need no `ncclCommSplit`, because the ranks of a part exchange an id of their own.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use amdgpu_ffi::{Result, Status, status};

/// Names of RCCL, the likely first.
pub(super) const NAMES: [&str; 2] = ["librccl.so.1", "librccl.so"];

/// The oldest version: 2.13.0, as `ncclGetVersion` packs it.
const OLDEST: c_int = 21300;

/// Bytes of an id (`NCCL_UNIQUE_ID_BYTES`).
pub(crate) const ID_BYTES: usize = 128;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub [u8; ID_BYTES]);

/// `hipErrorNoDevice`.
const NO_DEVICE: c_int = 100;

/// `ncclComm_t`, `hipStream_t`.
pub(super) type Handle = *mut c_void;

macro_rules! symbols {
    ($($field:ident: $name:literal, fn($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used.
        pub(super) struct Symbols { $(pub $field: unsafe extern "C" fn($($type),*) $(-> $result)?,)* }

        impl Symbols {
            /// # Errors
            /// The name of a function that is missing.
            fn load(library: &Library) -> std::result::Result<Self, &'static str> {
                // SAFETY: the functions have these types in all versions from the oldest on.
                unsafe { Ok(Self { $($field: *library.get($name.as_bytes()).map_err(|_| $name)?,)* }) }
            }
        }
    };
}

symbols! {
    get_unique_id: "ncclGetUniqueId", fn(*mut UniqueId) -> c_int;
    comm_init_rank: "ncclCommInitRank", fn(*mut Handle, c_int, UniqueId, c_int) -> c_int;
    comm_destroy: "ncclCommDestroy", fn(Handle) -> c_int;
    comm_abort: "ncclCommAbort", fn(Handle) -> c_int;
    comm_get_async_error: "ncclCommGetAsyncError", fn(Handle, *mut c_int) -> c_int;
    get_error_string: "ncclGetErrorString", fn(c_int) -> *const c_char;
    group_start: "ncclGroupStart", fn() -> c_int;
    group_end: "ncclGroupEnd", fn() -> c_int;
    all_reduce: "ncclAllReduce", fn(usize, usize, usize, c_int, c_int, Handle, Handle) -> c_int;
    reduce: "ncclReduce", fn(usize, usize, usize, c_int, c_int, c_int, Handle, Handle) -> c_int;
    reduce_scatter: "ncclReduceScatter", fn(usize, usize, usize, c_int, c_int, Handle, Handle) -> c_int;
    all_gather: "ncclAllGather", fn(usize, usize, usize, c_int, Handle, Handle) -> c_int;
    broadcast: "ncclBroadcast", fn(usize, usize, usize, c_int, c_int, Handle, Handle) -> c_int;
    send: "ncclSend", fn(usize, usize, c_int, c_int, Handle, Handle) -> c_int;
    receive: "ncclRecv", fn(usize, usize, c_int, c_int, Handle, Handle) -> c_int;
    hip_get_device_count: "hipGetDeviceCount", fn(*mut c_int) -> c_int;
    hip_device_get_pci_bus_id: "hipDeviceGetPCIBusId", fn(*mut c_char, c_int, c_int) -> c_int;
    hip_set_device: "hipSetDevice", fn(c_int) -> c_int;
    hip_device_synchronize: "hipDeviceSynchronize", fn() -> c_int;
    hip_stream_create: "hipStreamCreateWithFlags", fn(*mut Handle, c_uint) -> c_int;
    hip_stream_destroy: "hipStreamDestroy", fn(Handle) -> c_int;
    hip_stream_synchronize: "hipStreamSynchronize", fn(Handle) -> c_int;
    hip_malloc: "hipMalloc", fn(*mut usize, usize) -> c_int;
    hip_free: "hipFree", fn(usize) -> c_int;
    hip_get_error_string: "hipGetErrorString", fn(c_int) -> *const c_char;
}

/// HIP's functions for memory that is the value of an HSA signal.
pub(super) struct SignalMemory {
    /// `hipExtMallocWithFlags`.
    pub malloc: unsafe extern "C" fn(*mut usize, usize, c_uint) -> c_int,
    /// `hipStreamWaitValue64`.
    pub wait: unsafe extern "C" fn(Handle, usize, u64, c_uint, u64) -> c_int,
    /// `hipStreamWriteValue64`.
    pub write: unsafe extern "C" fn(Handle, usize, u64, c_uint) -> c_int,
    /// `hipStreamQuery`.
    pub query: unsafe extern "C" fn(Handle) -> c_int,
}

impl SignalMemory {
    fn load(library: &Library) -> Option<Self> {
        // SAFETY: the functions have had these types since HIP 4.2, which introduced two of them.
        unsafe {
            Some(Self {
                malloc: *library.get(b"hipExtMallocWithFlags\0").ok()?,
                wait: *library.get(b"hipStreamWaitValue64\0").ok()?,
                write: *library.get(b"hipStreamWriteValue64\0").ok()?,
                query: *library.get(b"hipStreamQuery\0").ok()?,
            })
        }
    }
}

/// The loaded libraries. They are never unloaded: they leave threads and handlers behind.
pub(super) struct Rccl {
    pub symbols: Symbols,
    signal_memory: Option<SignalMemory>,
    name: String,
}

impl Rccl {
    /// Loads the first of `names` that there is. `hsa` is the file of the HSA runtime that the driver uses.
    ///
    /// # Errors
    /// UNAVAILABLE without RCCL and HIP of a known version; FAILED_PRECONDITION if HIP uses another HSA runtime, to
    /// which the driver's memory is unknown.
    pub fn load(names: &[&str], hsa: &Path) -> Result<Self> {
        let mut errors = Vec::new();
        for name in names {
            // SAFETY: the initialisers of RCCL and HIP are made to run on load.
            match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
                Ok(library) => return Self::of(library, name, hsa),
                Err(error) => errors.push(error.to_string()),
            }
        }
        Err(status!(
            UNAVAILABLE,
            "no RCCL for collectives; install ROCm's RCCL (2.13 or newer) and HIP, set LD_LIBRARY_PATH, or use \
             collective_engine=tcp: {}",
            errors.join("; ")
        ))
    }

    fn of(library: Library, name: &str, hsa: &Path) -> Result<Self> {
        // SAFETY: the function has had this type since NCCL 1.
        let get_version =
            unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"ncclGetVersion\0") }.map(|get| *get);
        let mut version = 0;
        if let Ok(get_version) = get_version {
            // SAFETY: it writes an int.
            unsafe { get_version(&raw mut version) };
        }
        check_version(name, version)?;
        let symbols = Symbols::load(&library).map_err(|missing| {
            status!(UNAVAILABLE, "{name} and the libraries that it loads lack {missing}; install ROCm's RCCL and HIP")
        })?;
        // SAFETY: only the address of the function is used.
        let address = unsafe { library.get::<*mut c_void>(b"hsa_init\0") }.map(|symbol| symbol.into_raw());
        let other = address.ok().and_then(file_of);
        if other.as_deref() != Some(hsa) {
            let other = other.map_or_else(|| "none".to_owned(), |path| path.display().to_string());
            return Err(status!(
                FAILED_PRECONDITION,
                "{name} uses another HSA runtime ({other}) than this driver ({}), so that the GPU's memory is unknown \
                 to it; set libhsa_search_path or LD_LIBRARY_PATH so that both find one",
                hsa.display()
            ));
        }
        let signal_memory = SignalMemory::load(&library);
        std::mem::forget(library);
        Ok(Self { symbols, signal_memory, name: name.to_owned() })
    }

    /// The functions for signal memory.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub fn signal_memory(&self) -> Result<&SignalMemory> {
        self.signal_memory
            .as_ref()
            .ok_or_else(|| status!(UNAVAILABLE, "HIP has no signal memory; install HIP 4.2 or newer"))
    }

    /// The error of a call of RCCL that returned `code`.
    pub fn check(&self, call: &str, code: c_int) -> Result<()> {
        // SAFETY: it returns a constant string for every number.
        if code == 0 { Ok(()) } else { Err(self.error(call, code, unsafe { (self.symbols.get_error_string)(code) })) }
    }

    /// The error of a call of HIP that returned `code`.
    pub fn check_hip(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it returns a constant string for every number.
        Err(self.error(call, code, unsafe { (self.symbols.hip_get_error_string)(code) }))
    }

    fn error(&self, call: &str, code: c_int, text: *const c_char) -> Status {
        let text = match text.is_null() {
            true => "",
            // SAFETY: a constant string.
            false => unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default(),
        };
        status!(INTERNAL, "{call} of {} failed with code {code}: {text} (NCCL_DEBUG=WARN says more)", self.name)
    }

    /// The ordinal of the HIP device at a PCI address, such as `0000:03:00`, without the function.
    ///
    /// # Errors
    /// NOT_FOUND if HIP has none; FAILED_PRECONDITION if it has several, parts of a GPU.
    pub fn device_at(&self, address: &str) -> Result<c_int> {
        let mut count = 0;
        // SAFETY: it writes an int.
        let code = unsafe { (self.symbols.hip_get_device_count)(&raw mut count) };
        if code != NO_DEVICE {
            self.check_hip("hipGetDeviceCount", code)?;
        }
        let mut addresses = Vec::new();
        for ordinal in 0..count {
            let mut text = [0 as c_char; 32];
            // SAFETY: it writes a string of at most the given length. The last byte ends it in any case.
            let found = unsafe {
                let code = (self.symbols.hip_device_get_pci_bus_id)(text.as_mut_ptr(), text.len() as c_int, ordinal);
                self.check_hip("hipDeviceGetPCIBusId", code)?;
                text[31] = 0;
                CStr::from_ptr(text.as_ptr()).to_string_lossy().to_lowercase()
            };
            addresses.push(found);
        }
        let at = |text: &String| text.split('.').next() == Some(address);
        let mut found = (0..).zip(&addresses).filter(|(_, text)| at(text)).map(|(ordinal, _)| ordinal);
        match (found.next(), found.next()) {
            (Some(ordinal), None) => Ok(ordinal),
            (None, _) => Err(status!(
                NOT_FOUND,
                "HIP has no device at {address}, where this driver's GPU is; it has {addresses:?} (HIP_VISIBLE_DEVICES \
                 and ROCR_VISIBLE_DEVICES choose)"
            )),
            (Some(_), Some(_)) => Err(status!(
                FAILED_PRECONDITION,
                "HIP has several devices at {address}, parts of one GPU; the driver's part is unknown: \
                 use collective_engine=tcp"
            )),
        }
    }
}

/// # Errors
/// UNAVAILABLE for a version below the oldest, and for 0, which stands for none.
fn check_version(name: &str, version: c_int) -> Result<()> {
    if version >= OLDEST {
        return Ok(());
    }
    // Before 2.9 the minor version had two digits, and the major one a single digit in front.
    let (major, minor) = if version < 10000 { (version / 1000, version / 100 % 10) } else { (2, version / 100 % 100) };
    let found = match version {
        0 => "is not RCCL: it lacks ncclGetVersion".to_owned(),
        _ => format!("is RCCL {major}.{minor}"),
    };
    Err(status!(
        UNAVAILABLE,
        "{name} {found}; collectives need 2.13 or newer: install a newer ROCm, or use collective_engine=tcp"
    ))
}

/// The file that contains a function.
fn file_of(address: *mut c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: dladdr only reads the address, `info` is writable, and its name lives as long as the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let name = CStr::from_ptr(info.dli_fname);
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_old_libraries_are_named() {
        let load = |names: &[&str]| Rccl::load(names, Path::new("/hsa")).map(|_| ()).unwrap_err().to_string();
        let missing = load(&["librccl-missing.so.1", "librccl-missing.so"]);
        assert!(missing.contains("UNAVAILABLE") && missing.contains("2.13 or newer"), "{missing}");
        assert!(missing.contains("librccl-missing.so.1:") && missing.contains("collective_engine=tcp"), "{missing}");
        // A library that every system has, and that is not RCCL.
        let other = load(&["libm.so.6"]);
        assert!(other.contains("libm.so.6 is not RCCL"), "{other}");
        let old = |version| check_version("librccl.so.1", version).unwrap_err().to_string();
        assert!(old(2708).contains("is RCCL 2.7;"), "{}", old(2708));
        assert!(old(21212).contains("is RCCL 2.12;"), "{}", old(21212));
        assert!(check_version("librccl.so.1", 21304).is_ok());
    }
}
