// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Worlds whose ranks are the processes of an MPI job.
//!
//! MPI carries frames, as messages of bytes; the algorithms are this crate's own. So splits need no collective call of
//! MPI, which would block a thread that other operations need, and every element type and reduction works with every
//! library. All calls but the first are made by one thread. It polls while an operation waits for a frame or a send is
//! under way, and sleeps otherwise, because MPI has no way to wait for a message and for a request of this process at
//! once.
//!
//! The library is loaded by name. Three binary interfaces exist: Open MPI's handles are addresses of symbols, MPICH's
//! are numbers, and so are those of the standard's own (MPI 5.0, chapter 20), in a library `libmpi_abi`. All fit in a
//! machine word, which the x86-64 calling convention passes alike.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};
use parking_lot::{Condvar, Mutex};

use super::mailbox::Mailbox;
use super::world::{Frame, HEAD_BYTES, Transport, World, arrive};
use amdgpu_ffi::{Result, Status, status, thread};

/// Libraries to look for, the likely first.
const NAMES: [&str; 7] = [
    "libmpi.so.40",
    "libmpi.so.12",
    "libmpi.so",
    "libmpich.so.12",
    "libmpi_abi.so.1",
    "libmpi_abi.so.0",
    "libmpi_abi.so",
];

/// The tag of all messages.
const TAG: c_int = 2606;

/// The pauses of the polling thread while nothing happens, from the first to the longest.
const PAUSES: [Duration; 2] = [Duration::from_micros(5), Duration::from_micros(250)];

/// Longest wait for sends under way when the world ends.
const DRAIN: Duration = Duration::from_secs(5);

type Handle = usize;

/// `MPI_Status` of any of the interfaces, of which none is longer.
#[repr(C, align(8))]
struct MpiStatus([c_int; 16]);

macro_rules! symbols {
    ($($field:ident: $name:literal, fn($($type:ty),*);)*) => {
        /// The functions that are used.
        struct Symbols { $($field: unsafe extern "C" fn($($type),*) -> c_int,)* }

        impl Symbols {
            fn load(library: &Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the functions have these types in all versions of the standard, with handles as words.
                unsafe { Ok(Self { $($field: *library.get($name)?,)* }) }
            }
        }
    };
}

symbols! {
    initialized: b"MPI_Initialized\0", fn(*mut c_int);
    finalized: b"MPI_Finalized\0", fn(*mut c_int);
    init_thread: b"MPI_Init_thread\0", fn(*mut c_int, *mut c_void, c_int, *mut c_int);
    query_thread: b"MPI_Query_thread\0", fn(*mut c_int);
    finalize: b"MPI_Finalize\0", fn();
    library_version: b"MPI_Get_library_version\0", fn(*mut c_char, *mut c_int);
    comm_dup: b"MPI_Comm_dup\0", fn(Handle, *mut Handle);
    comm_rank: b"MPI_Comm_rank\0", fn(Handle, *mut c_int);
    comm_size: b"MPI_Comm_size\0", fn(Handle, *mut c_int);
    isend: b"MPI_Isend\0", fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    test: b"MPI_Test\0", fn(*mut Handle, *mut c_int, *mut MpiStatus);
    iprobe: b"MPI_Iprobe\0", fn(c_int, c_int, Handle, *mut c_int, *mut MpiStatus);
    get_count: b"MPI_Get_count\0", fn(*const MpiStatus, Handle, *mut c_int);
    receive: b"MPI_Recv\0", fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut MpiStatus);
}

/// The constants of a binary interface.
#[derive(Clone, Copy, Debug)]
struct Constants {
    world: Handle,
    byte: Handle,
    any_source: c_int,
    /// `MPI_THREAD_SERIALIZED` and `MPI_THREAD_MULTIPLE`.
    levels: [c_int; 2],
    /// The place of `MPI_SOURCE` in a status.
    source: usize,
}

/// MPICH's, and those of libraries with its interface (`mpi.h` of MPICH 3.1 and later).
const MPICH: Constants = Constants { world: 0x4400_0000, byte: 0x4c00_010d, any_source: -2, levels: [2, 3], source: 2 };

/// The standard's (MPI 5.0, A.1.1).
const STANDARD: Constants = Constants { world: 0x101, byte: 0x247, any_source: -1, levels: [2048, 4096], source: 0 };

/// A loaded library. It is never unloaded.
struct Mpi {
    symbols: Symbols,
    constants: Constants,
    name: String,
}

impl Mpi {
    /// The interface of a library.
    fn of(library: Library, name: &str) -> Result<Self> {
        let unusable =
            |error: &dyn std::fmt::Display| status!(UNAVAILABLE, "{name} is not a usable MPI library: {error}");
        let symbols = Symbols::load(&library).map_err(|error| unusable(&error))?;
        // SAFETY: only the addresses of the two symbols are used.
        let address =
            |name: &[u8]| unsafe { library.get::<*mut c_void>(name) }.map(|symbol| symbol.into_raw() as Handle);
        let open = address(b"ompi_mpi_comm_world\0").and_then(|world| Ok((world, address(b"ompi_mpi_byte\0")?)));
        let constants = match open {
            Ok((world, byte)) => Constants { world, byte, any_source: -1, levels: [2, 3], source: 0 },
            Err(_) if name.contains("libmpi_abi") => STANDARD,
            Err(_) => {
                let version = symbols.version();
                let has_mpichs = ["MPICH", "Intel", "MVAPICH", "CRAY"].iter().any(|maker| version.contains(maker));
                if !has_mpichs {
                    return Err(unusable(&format!(
                        "neither Open MPI nor MPICH nor the standard's interface: {version}"
                    )));
                }
                MPICH
            }
        };
        // Loaded for the life of the process: MPI leaves threads and handlers behind.
        std::mem::forget(library);
        Ok(Self { symbols, constants, name: name.to_owned() })
    }

    /// The library that the process has loaded already, if any.
    fn loaded() -> Option<Result<Self>> {
        NAMES.iter().find_map(|name| {
            // SAFETY: nothing is loaded, so that nothing of it runs.
            let library = unsafe { Library::open(Some(*name), RTLD_LAZY | libc::RTLD_NOLOAD) };
            library.ok().map(|library| Self::of(library, name))
        })
    }

    /// Loads one of the usual names, unless one is loaded already.
    fn load() -> Result<Self> {
        if let Some(loaded) = Self::loaded() {
            return loaded;
        }
        let mut errors = Vec::new();
        for name in NAMES {
            // SAFETY: an MPI library's initialisers are made to run on load. Its plugins look for its symbols globally.
            match unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_GLOBAL) } {
                Ok(library) => return Self::of(library, name),
                Err(error) => errors.push(error.to_string()),
            }
        }
        Err(status!(
            UNAVAILABLE,
            "no MPI library for collectives; install Open MPI or MPICH, set LD_LIBRARY_PATH, or use \
             collective_engine=tcp: {}",
            errors.join("; ")
        ))
    }

    /// Fails with the name of the call.
    fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(status!(INTERNAL, "{call} of {} failed with code {code}", self.name)) }
    }

    fn query(&self, call: &str, function: unsafe extern "C" fn(*mut c_int) -> c_int) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: the function writes an int.
        self.check(call, unsafe { function(&raw mut value) })?;
        Ok(value)
    }

    /// True between initialisation and finalisation.
    fn is_running(&self) -> Result<bool> {
        let initialized = self.query("MPI_Initialized", self.symbols.initialized)? != 0;
        Ok(initialized && self.query("MPI_Finalized", self.symbols.finalized)? == 0)
    }

    /// True if any thread may call, one at a time at least.
    fn allows_threads(&self) -> Result<bool> {
        Ok(self.query("MPI_Query_thread", self.symbols.query_thread)? >= self.constants.levels[0])
    }

    /// A number of the group of all processes.
    fn query_world(&self, call: &str, function: unsafe extern "C" fn(Handle, *mut c_int) -> c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: MPI runs; the function writes an int.
        self.check(call, unsafe { function(self.constants.world, &raw mut value) })?;
        Ok(value as u32)
    }
}

impl Symbols {
    fn version(&self) -> String {
        // `MPI_MAX_LIBRARY_VERSION_STRING` is 8192 in MPICH and the standard's interface, and 256 in Open MPI.
        let (mut text, mut length) = ([0 as c_char; 8192], 0);
        // SAFETY: the buffer is as long as any library asks; MPI allows the call at any time. The text ends with a NUL.
        unsafe {
            (self.library_version)(text.as_mut_ptr(), &raw mut length);
            text[8191] = 0;
            CStr::from_ptr(text.as_ptr()).to_string_lossy().lines().next().unwrap_or_default().to_owned()
        }
    }
}

/// True if the process runs under MPI in such a way that the driver may call it.
pub fn is_ready() -> bool {
    let ready = |mpi: Mpi| Ok(mpi.is_running()? && mpi.allows_threads()?);
    Mpi::loaded().is_some_and(|mpi| mpi.and_then(ready).unwrap_or(false))
}

/// Joins the world of all processes of the job. All of them must call this, and all wait for it.
///
/// # Errors
/// UNAVAILABLE without an MPI library; FAILED_PRECONDITION if MPI was initialised for one thread only, or is over;
/// INTERNAL for a call that fails.
pub fn join(timeout: Duration) -> Result<Arc<World>> {
    let mpi = Arc::new(Mpi::load()?);
    let was_initialized = mpi.query("MPI_Initialized", mpi.symbols.initialized)? != 0;
    if !was_initialized {
        initialize(&mpi)?;
    }
    if !mpi.is_running()? {
        return Err(status!(
            FAILED_PRECONDITION,
            "MPI was finalized in this process (MPI_Finalize); it cannot run collectives"
        ));
    }
    if !mpi.allows_threads()? {
        return Err(status!(
            FAILED_PRECONDITION,
            "MPI was initialised for one thread, and collectives run on another: set OMPI_MPI_THREAD_LEVEL=3 (Open \
             MPI) or MPIR_CVAR_DEFAULT_THREAD_LEVEL=MPI_THREAD_MULTIPLE (MPICH), call MPI_Init_thread, or use \
             collective_engine=tcp"
        ));
    }
    let rank = mpi.query_world("MPI_Comm_rank", mpi.symbols.comm_rank)?;
    let count = mpi.query_world("MPI_Comm_size", mpi.symbols.comm_size)?;
    // So that no message of the application is taken for one of these.
    let mut communicator = 0;
    // SAFETY: MPI runs; the function writes a handle.
    mpi.check("MPI_Comm_dup", unsafe { (mpi.symbols.comm_dup)(mpi.constants.world, &raw mut communicator) })?;
    let mailbox = Arc::<Mailbox>::default();
    let shared = Arc::new(Shared::default());
    let poller = Poller { mpi, communicator, mailbox: mailbox.clone(), shared: shared.clone() };
    let poller = thread::spawn("amdgpu_rs-mpi".to_owned(), move || poller.run())
        .map_err(|error| status!(RESOURCE_EXHAUSTED, "starting a thread for MPI: {error}"))?;
    let transport = Messages { shared, poller: Some(poller) };
    Ok(World::new((rank, count), timeout, mailbox, Box::new(transport)))
}

/// Initialises MPI, and has it finalised at the end of the process.
fn initialize(mpi: &Arc<Mpi>) -> Result<()> {
    static FINALIZER: OnceLock<Arc<Mpi>> = OnceLock::new();
    extern "C" fn finalize() {
        if let Some(mpi) = FINALIZER.get()
            && mpi.is_running().unwrap_or(false)
        {
            // SAFETY: MPI runs; the pollers have ended with their worlds, or poll no more when they see its end.
            unsafe { (mpi.symbols.finalize)() };
        }
    }
    let mut provided = 0;
    // SAFETY: null arguments are allowed since MPI 2.
    let code = unsafe {
        let none = std::ptr::null_mut();
        (mpi.symbols.init_thread)(none, std::ptr::null_mut(), mpi.constants.levels[1], &raw mut provided)
    };
    mpi.check("MPI_Init_thread", code)?;
    if FINALIZER.set(mpi.clone()).is_ok() {
        // SAFETY: the function is there until the end: the library of a thread stays loaded, and one is started next.
        unsafe { libc::atexit(finalize) };
    }
    Ok(())
}

/// The state that senders and the polling thread share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    outgoing: VecDeque<(u32, Frame)>,
    /// Operations that wait for a frame.
    waiting: usize,
    is_over: bool,
    failure: Option<Status>,
}

/// The transport of one process.
struct Messages {
    shared: Arc<Shared>,
    poller: Option<JoinHandle<()>>,
}

impl Messages {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock());
        self.shared.changed.notify_all();
    }
}

impl Transport for Messages {
    fn send(&self, target: u32, frame: Frame) -> Result<()> {
        let mut state = self.shared.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state.outgoing.push_back((target, frame));
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn begin_wait(&self) {
        self.change(|state| state.waiting += 1);
    }

    fn end_wait(&self) {
        self.change(|state| state.waiting -= 1);
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.change(|state| state.is_over = true);
        if let Some(poller) = self.poller.take() {
            let _ = poller.join();
        }
    }
}

/// A send under way. MPI reads the bytes until the request is complete.
struct Sending {
    request: Handle,
    _bytes: Vec<u8>,
}

struct Poller {
    mpi: Arc<Mpi>,
    communicator: Handle,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
}

impl Poller {
    fn run(self) {
        let mut sending = Vec::new();
        if let Err(failure) = self.poll(&mut sending) {
            self.shared.state.lock().failure = Some(failure.clone());
            self.mailbox.fail(failure);
        }
        // MPI may still read unsent buffers.
        std::mem::forget(sending);
    }

    /// Sends and receives until the world ends.
    fn poll(&self, sending: &mut Vec<Sending>) -> Result<()> {
        let mut pause = PAUSES[0];
        let mut drained_by = None;
        loop {
            let outgoing = {
                let mut state = self.shared.state.lock();
                while state.outgoing.is_empty() && sending.is_empty() && state.waiting == 0 && !state.is_over {
                    self.shared.changed.wait(&mut state);
                }
                if state.is_over {
                    let is_done = state.outgoing.is_empty() && sending.is_empty();
                    let deadline = *drained_by.get_or_insert_with(|| Instant::now() + DRAIN);
                    if is_done || Instant::now() >= deadline {
                        return Ok(());
                    }
                }
                std::mem::take(&mut state.outgoing)
            };
            if !self.mpi.is_running()? {
                return Err(status!(FAILED_PRECONDITION, "MPI has ended in this process while collectives need it"));
            }
            let mut is_idle = outgoing.is_empty();
            for (target, frame) in outgoing {
                sending.push(self.send(target, &frame)?);
            }
            let before = sending.len();
            for index in (0..before).rev() {
                if self.is_sent(&mut sending[index])? {
                    sending.swap_remove(index);
                }
            }
            is_idle &= sending.len() == before && !self.receive()?;
            if is_idle {
                let mut state = self.shared.state.lock();
                if state.outgoing.is_empty() {
                    self.shared.changed.wait_for(&mut state, pause);
                }
                pause = (pause * 2).min(PAUSES[1]);
            } else {
                pause = PAUSES[0];
            }
        }
    }

    fn send(&self, target: u32, frame: &Frame) -> Result<Sending> {
        let bytes = [frame.head().as_slice(), &frame.payload].concat();
        let mut request = 0;
        let Constants { byte, .. } = self.mpi.constants;
        // SAFETY: the bytes live until the request is complete, or for ever.
        let code = unsafe {
            let (data, length) = (bytes.as_ptr().cast(), bytes.len() as c_int);
            (self.mpi.symbols.isend)(data, length, byte, target as c_int, TAG, self.communicator, &raw mut request)
        };
        self.mpi.check("MPI_Isend", code)?;
        Ok(Sending { request, _bytes: bytes })
    }

    fn is_sent(&self, sending: &mut Sending) -> Result<bool> {
        let (mut flag, mut status) = (0, MpiStatus([0; 16]));
        // SAFETY: a request of this communicator; flag and status are locals.
        let code = unsafe { (self.mpi.symbols.test)(&raw mut sending.request, &raw mut flag, &raw mut status) };
        self.mpi.check("MPI_Test", code)?;
        Ok(flag != 0)
    }

    /// Receives a message, if there is one. No other thread receives on the communicator, so that the message found is
    /// the one received.
    fn receive(&self) -> Result<bool> {
        let (mut flag, mut length, mut status) = (0, 0, MpiStatus([0; 16]));
        let (symbols, Constants { byte, any_source, source, .. }) = (&self.mpi.symbols, self.mpi.constants);
        // SAFETY: flag and status are locals.
        let code = unsafe { (symbols.iprobe)(any_source, TAG, self.communicator, &raw mut flag, &raw mut status) };
        self.mpi.check("MPI_Iprobe", code)?;
        if flag == 0 {
            return Ok(false);
        }
        // SAFETY: the status of the probe.
        self.mpi.check("MPI_Get_count", unsafe { (symbols.get_count)(&raw const status, byte, &raw mut length) })?;
        let (sender, mut bytes) = (status.0[source], vec![0_u8; length.max(0) as usize]);
        // SAFETY: the buffer has the length of the message.
        let code = unsafe {
            let data = bytes.as_mut_ptr().cast();
            (symbols.receive)(data, length, byte, sender, TAG, self.communicator, &raw mut status)
        };
        self.mpi.check("MPI_Recv", code)?;
        let head = bytes.first_chunk::<HEAD_BYTES>().and_then(Frame::read_head);
        let Some((key, _)) = head.filter(|(key, size)| size + HEAD_BYTES == bytes.len() && key.source == sender as u32)
        else {
            return Err(status!(INTERNAL, "a message of {length} bytes from rank {sender} by MPI is not a frame"));
        };
        bytes.drain(..HEAD_BYTES);
        arrive(&self.mailbox, key, bytes);
        Ok(true)
    }
}
