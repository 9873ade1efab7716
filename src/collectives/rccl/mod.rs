// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Groups whose ranks exchange GPU memory by RCCL.
//!
//! The ranks meet, split and tell each other of failures by the frames of their [world](super::world); RCCL moves the
//! data. Each [communicator](super::Communicator) between processes has a group, which is made at once and in the
//! background. RCCL's calls may wait for other ranks for ever, so that they have a thread of their own for each group;
//! callers wait for that thread, and look at RCCL's asynchronous errors and at the world's failures meanwhile.
//! The device orders operations where it can, by gates. The host orders the others: a group begins an
//! operation when its waits are over, and its caller waits for the stream.

mod gates;
mod library;
mod turns;

use std::collections::HashSet;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::time::{Duration, Instant};

use gates::{Flight, Gates};
use library::{Handle, NAMES, Rccl, UniqueId};
use parking_lot::Mutex;

use super::line::Line;
use super::operation::{Element, Kind, Operation, Plan, Reduction};
use amdgpu_ffi::{Result, Status, messages, status, thread};

pub(super) use gates::start_watch;
pub use gates::{Entry, Waiting};
pub(super) use library::ID_BYTES;
pub use turns::Turn;
use turns::Turns;

/// The time between looks for failures of other ranks.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for an operation of which another rank has left in good order.
const LEFT: Duration = Duration::from_secs(10);

/// Longest wait of a group's release for RCCL to end aborted work, and to release the group.
pub(super) const ABORT: Duration = Duration::from_secs(10);

/// `hipStreamNonBlocking`: the stream does not wait for the null stream, on which applications may work.
const NON_BLOCKING: u32 = 1;

/// `ncclUint8`.
const BYTES: c_int = 1;

/// `ncclInProgress`.
const IN_PROGRESS: c_int = 7;

/// A GPU, as the driver knows it.
#[derive(Clone, Debug, Default)]
pub struct GpuPlace {
    /// The PCI address without the function, such as `0000:03:00`.
    pub address: String,
    /// The file of the HSA runtime.
    pub hsa: PathBuf,
}

/// A HIP device. Groups of the device share it.
pub(super) struct Device {
    rccl: &'static Rccl,
    ordinal: c_int,
    /// Held from the moment at which operations take a gate until their packets and their calls have their places.
    order: Mutex<()>,
    /// Calls of RCCL for operations behind gates, which wait for no other rank.
    gated: Arc<Line>,
    /// Operations that the host orders.
    turns: Arc<Turns>,
}

impl Drop for Device {
    fn drop(&mut self) {
        self.gated.close();
    }
}

/// RCCL, once it is loaded, and the devices in use.
type Loaded = Option<(&'static Rccl, Vec<Weak<Device>>)>;

impl Device {
    /// The HIP device of a GPU. Loads RCCL and HIP at the first call.
    ///
    /// # Errors
    /// As for [`Rccl::load`] and [`Rccl::device_at`].
    pub fn find(place: &GpuPlace) -> Result<Arc<Self>> {
        static LOADED: Mutex<Loaded> = Mutex::new(None);
        let mut loaded = LOADED.lock();
        let (rccl, devices) = match &mut *loaded {
            Some(loaded) => loaded,
            // One for the life of the process.
            None => loaded.insert((Box::leak(Box::new(Rccl::load(&NAMES, &place.hsa)?)), Vec::new())),
        };
        let ordinal = rccl.device_at(&place.address)?;
        devices.retain(|device| device.strong_count() > 0);
        if let Some(known) = devices.iter().filter_map(Weak::upgrade).find(|device| device.ordinal == ordinal) {
            return Ok(known);
        }
        let made =
            Arc::new(Self { rccl, ordinal, order: Mutex::default(), gated: Arc::default(), turns: Arc::default() });
        devices.push(Arc::downgrade(&made));
        Ok(made)
    }

    /// An id for a group, to be given to all its ranks.
    ///
    /// # Errors
    /// INTERNAL.
    pub fn unique_id(&self) -> Result<Vec<u8>> {
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: it writes an id.
        self.rccl.check("ncclGetUniqueId", unsafe { (self.rccl.symbols.get_unique_id)(&raw mut id) })?;
        Ok(id.0.to_vec())
    }

    /// Begins the turn of operations that the host orders, and calls `draw` in the order of the turns.
    pub fn begin_turn<R>(&self, draw: impl FnOnce() -> R) -> (Turn, R) {
        self.turns.begin(draw)
    }

    fn make_current(&self) -> Result<()> {
        // SAFETY: any number may be given.
        self.rccl.check_hip("hipSetDevice", unsafe { (self.rccl.symbols.hip_set_device)(self.ordinal) })
    }
}

/// RCCL's communicator and the stream of its operations.
#[derive(Clone, Copy)]
struct Joined {
    communicator: Handle,
    stream: Handle,
    rank: u32,
    count: u32,
}

// SAFETY: handles, which RCCL and HIP let any thread use. The group's thread alone submits.
unsafe impl Send for Joined {}
// SAFETY: as above.
unsafe impl Sync for Joined {}

impl Joined {
    /// Ends the operations of this rank. The communicator must not be used afterwards.
    fn abort(self, device: &Device) {
        // The error would change nothing.
        let _ = device.make_current();
        // SAFETY: the communicator is not used after this.
        unsafe { (device.rccl.symbols.comm_abort)(self.communicator) };
    }
}

/// An operation on device memory.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOperation {
    /// The operation.
    pub plan: Plan,
    /// Address to read from; 0 if the plan reads nothing.
    pub send: usize,
    /// Address to write to; 0 if the plan writes nothing.
    pub receive: usize,
}

impl DeviceOperation {
    /// True if the send buffer is copied first: a message that a receive of the same rank overwrites.
    fn is_copied(&self) -> bool {
        let Self { plan, send, receive } = *self;
        let is_message = matches!(plan.operation.kind, Kind::AllToAll | Kind::SendReceive { .. });
        is_message && plan.send > 0 && send < receive + plan.receive && receive < send + plan.send
    }
}

/// True if RCCL performs `operation`. The answer is the same on all ranks. Others are performed by the host: reductions
/// of 16-bit integers, which RCCL lacks, and averages of integers, which it rounds in another way.
pub fn performs(operation: &Operation) -> bool {
    match operation.reduction {
        None => true,
        Some(Reduction::Average) => {
            matches!(operation.element, Element::F16 | Element::F32 | Element::F64 | Element::Bf16)
        }
        Some(_) => data_type(operation.element).is_some(),
    }
}

/// `ncclDataType_t` of an element.
fn data_type(element: Element) -> Option<c_int> {
    Some(match element {
        Element::S8 => 0,
        Element::U8 => 1,
        Element::S32 => 2,
        Element::U32 => 3,
        Element::S64 => 4,
        Element::U64 => 5,
        Element::F16 => 6,
        Element::F32 => 7,
        Element::F64 => 8,
        Element::Bf16 => 9,
        Element::S16 | Element::U16 => return None,
    })
}

/// `ncclRedOp_t` of a reduction.
fn reduction(reduction: Reduction) -> c_int {
    match reduction {
        Reduction::Sum => 0,
        Reduction::Product => 1,
        Reduction::Maximum => 2,
        Reduction::Minimum => 3,
        Reduction::Average => 4,
    }
}

/// A group of ranks. Dropping it [releases](Self::release) it.
pub(super) struct Group {
    device: Arc<Device>,
    /// Calls of RCCL.
    calls: Arc<Line>,
    /// Set once all ranks have joined.
    joined: Arc<OnceLock<Joined>>,
    /// Set with the group's joining, if HIP has signal memory.
    gates: Arc<OnceLock<Arc<Gates>>>,
    /// The ranks that messages have gone to (true) or come from (false).
    met: Mutex<HashSet<(u32, bool)>>,
    /// Set by the first failure; no operation begins any more. Read by the threads that call RCCL before they do.
    failed: Arc<Mutex<bool>>,
    /// The end of the operation that has failed, until [`Self::abort`] takes it.
    unfinished: Mutex<Option<Receiver<Result<()>>>>,
    /// Closed when RCCL has ended aborted work.
    aborted: Mutex<Option<Receiver<()>>>,
}

/// The place of the first call of a group.
pub(super) struct JoinTicket {
    calls: Arc<Line>,
    number: Option<u64>,
    device: Arc<Device>,
    joined: Arc<OnceLock<Joined>>,
    gates: Arc<OnceLock<Arc<Gates>>>,
}

impl JoinTicket {
    /// Joins the group of `id` as rank `rank` of `count`, on the group's thread, in `turn`. Does not wait. `check` is
    /// asked for a failure of the group meanwhile. An error goes to `report`.
    pub fn join(
        mut self,
        id: &[u8],
        (rank, count): (u32, u32),
        turn: Turn,
        check: impl Fn() -> Result<()> + Send + 'static,
        report: impl FnOnce(Status) + Send + 'static,
    ) {
        let Some(number) = self.number.take() else { return };
        let mut unique = UniqueId([0; ID_BYTES]);
        unique.0.copy_from_slice(&id[..ID_BYTES]);
        let (device, joined, gates) = (self.device.clone(), self.joined.clone(), self.gates.clone());
        let join = move || {
            turn.wait(LOOK, check)?;
            initialize(&device, unique, (rank, count)).map(|made| (device, made))
        };
        let job = move || match join() {
            Ok((device, made)) => {
                match Gates::new(device.rccl) {
                    Ok(made) => drop(gates.set(Arc::new(made))),
                    Err(status) => tell_of_host_order(&status),
                }
                // Nobody else joins the group.
                let _ = joined.set(made);
            }
            Err(status) => report(status),
        };
        // Without a thread no rank joins, and the first operation says so.
        let _ = self.calls.run(number, Box::new(job), "amdgpu_rs-rccl");
    }
}

impl Drop for JoinTicket {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            let _ = self.calls.run(number, Box::new(|| ()), "amdgpu_rs-rccl");
        }
    }
}

/// Joins while nothing runs on the device's streams. RCCL 2.13.4 writes a communicator's parts by HIP's null stream and
/// others, and reads them in its first kernel: with streams of waiting gates in the same hardware queue that kernel has
/// faulted.
fn initialize(device: &Device, id: UniqueId, (rank, count): (u32, u32)) -> Result<Joined> {
    let (rccl, symbols) = (device.rccl, &device.rccl.symbols);
    device.make_current()?;
    device.gated.wait_until_idle(Duration::MAX);
    // SAFETY: it takes nothing.
    rccl.check_hip("hipDeviceSynchronize", unsafe { (symbols.hip_device_synchronize)() })?;
    let (mut communicator, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the results go to locals; the id is that of the group.
    unsafe {
        let code = (symbols.comm_init_rank)(&raw mut communicator, count as c_int, id, rank as c_int);
        rccl.check("ncclCommInitRank", code)?;
        rccl.check_hip("hipStreamCreateWithFlags", (symbols.hip_stream_create)(&raw mut stream, NON_BLOCKING))?;
    }
    Ok(Joined { communicator, stream, rank, count })
}

/// Says once why the device orders no collectives.
fn tell_of_host_order(status: &Status) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| messages::emit(&format!("the host orders RCCL's collectives, which costs time: {status}")));
}

fn timed_out(timeout: Duration) -> Status {
    status!(
        DEADLINE_EXCEEDED,
        "a collective waited {timeout:?} for RCCL: a rank has ended, hangs, or does not make the same calls in the \
         same order (option collective_timeout)"
    )
}

/// The caller's knowledge of the other ranks.
pub(super) trait Others {
    /// The failure of the group or the death of one of its ranks.
    fn failure(&self) -> Option<Status>;

    /// The leave of one of its ranks in good order.
    fn left(&self) -> Option<Status>;
}

impl Group {
    /// A group that no rank has joined, and the place of its first call.
    pub fn new(device: Arc<Device>) -> (Self, JoinTicket) {
        let (calls, joined) = (Arc::<Line>::default(), Arc::<OnceLock<Joined>>::default());
        let (number, gates) = (Some(calls.draw()), Arc::<OnceLock<Arc<Gates>>>::default());
        let (device_too, joined_too, gates_too) = (device.clone(), joined.clone(), gates.clone());
        let ticket =
            JoinTicket { calls: calls.clone(), number, device: device_too, joined: joined_too, gates: gates_too };
        let (met, failed, unfinished, aborted) = (Mutex::default(), Arc::default(), Mutex::default(), Mutex::default());
        (Self { device, calls, joined, gates, met, failed, unfinished, aborted }, ticket)
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Performs operations that are independent of each other, and waits for their end. One caller at a time. Its
    /// [turn](Turn) has come, and has not ended.
    ///
    /// # Errors
    /// The failure of the group, of RCCL, or of another rank; DEADLINE_EXCEEDED after `timeout`. The group is over, and
    /// RCCL may still use the memory if [`Self::is_unfinished`]: the caller must then [abort](Self::abort) the group.
    pub fn perform(&self, operations: Vec<DeviceOperation>, timeout: Duration, others: &dyn Others) -> Result<()> {
        if *self.failed.lock() {
            return Err(status!(ABORTED, "RCCL's communicator has failed before"));
        }
        let (device, joined, failed) = (self.device.clone(), self.joined.clone(), self.failed.clone());
        let messages: Vec<_> = operations.iter().flat_map(|operation| self.messages(&operation.plan)).collect();
        let ended = self.call(move || {
            // Streams go on in the order of the submissions. No gate is taken before the caller's turn has ended.
            device.gated.wait_until_idle(Duration::MAX);
            let joined = match *failed.lock() {
                true => Err(status!(ABORTED, "the collective was aborted before it began")),
                false => joined.get().ok_or_else(|| status!(ABORTED, "the rank has not joined RCCL's communicator")),
            }?;
            perform(&device, *joined, &operations)
        })?;
        let result = self.wait(&ended, timeout, others);
        if result.is_err() {
            let mut failed = self.failed.lock();
            *failed = true;
            // A rank that has not joined will not begin.
            *self.unfinished.lock() = self.joined.get().map(|_| ended);
        } else {
            self.met.lock().extend(messages);
        }
        result
    }

    /// The ranks that a plan's messages go to (true) or come from (false).
    fn messages(&self, plan: &Plan) -> Vec<(u32, bool)> {
        match plan.operation.kind {
            Kind::AllToAll => {
                let count = self.joined.get().map_or(0, |joined| joined.count);
                (0..count).flat_map(|rank| [(rank, true), (rank, false)]).collect()
            }
            Kind::Send { target } => vec![(target, true)],
            Kind::Receive { source } => vec![(source, false)],
            Kind::SendReceive { target, source } => {
                target.map(|rank| (rank, true)).into_iter().chain(source.map(|rank| (rank, false))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// True if the messages of a plan are not the first ones between their ranks, for which RCCL connects them.
    fn has_met(&self, plan: &Plan) -> bool {
        let met = self.met.lock();
        self.messages(plan).iter().all(|message| met.contains(message))
    }

    /// True if a failed operation may still use its memory.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished.lock().is_some()
    }

    /// Stops the queues that wait behind gates, and has RCCL end the operations that have failed with `status`. Does
    /// not wait for RCCL. `retained` is dropped when RCCL has ended, and never if it does not end: RCCL's kernels may
    /// use it until then.
    pub fn abort(&self, status: &Status, retained: Box<dyn Send>) {
        *self.failed.lock() = true;
        let flights = self.gates.get().map_or_else(Vec::new, |gates| gates.take_flights());
        // All of them before any gate opens.
        flights.iter().for_each(|flight| flight.stop(status));
        flights.iter().for_each(Flight::open);
        let ended = self.unfinished.lock().take();
        let mut aborted = self.aborted.lock();
        let Some(joined) = self.joined.get().copied().filter(|_| ended.is_some() || !flights.is_empty()) else {
            return;
        };
        if aborted.is_some() {
            // The calls that come after an abort end by themselves. RCCL may still use what the earlier ones use.
            std::mem::forget((flights, retained));
            return;
        }
        let (sender, is_aborted) = channel();
        *aborted = Some(is_aborted);
        let (device, retained) = (self.device.clone(), ManuallyDrop::new((retained, flights)));
        // The threads of the calls may be in one that only the abort ends.
        let spawned = thread::spawn("amdgpu_rs-abort".to_owned(), move || {
            joined.abort(&device);
            // An error means that the call has ended, too.
            ended.iter().for_each(|ended| drop(ended.recv()));
            retained.1.iter().for_each(Flight::wait);
            // SAFETY: a stream of this group's.
            unsafe { (device.rccl.symbols.hip_stream_synchronize)(joined.stream) };
            drop(ManuallyDrop::into_inner(retained));
            drop(sender);
        });
        if let Err(error) = spawned {
            messages::emit(&format!("RCCL was not told to abort a collective: starting a thread: {error}"));
        }
    }

    /// True if a queue waits behind a gate.
    pub fn has_flights(&self) -> bool {
        self.gates.get().is_some_and(|gates| gates.are_busy())
    }

    /// Runs a call on the group's thread; its result arrives at the returned end.
    fn call(&self, call: impl FnOnce() -> Result<()> + Send + 'static) -> Result<Receiver<Result<()>>> {
        let (sender, receiver) = channel();
        // Without a receiver the result is not needed.
        let job = Box::new(move || drop(sender.send(call())));
        let number = self.calls.draw();
        let no_thread = |error| status!(RESOURCE_EXHAUSTED, "starting a thread for RCCL: {error}");
        self.calls.run(number, job, "amdgpu_rs-rccl").map_err(no_thread)?;
        Ok(receiver)
    }

    fn wait(&self, ended: &Receiver<Result<()>>, timeout: Duration, others: &dyn Others) -> Result<()> {
        let begin = Instant::now();
        let mut left_since = None;
        loop {
            match ended.recv_timeout(LOOK) {
                Ok(result) => return result.map_err(|status| others.failure().unwrap_or(status)),
                Err(RecvTimeoutError::Disconnected) => return Err(status!(INTERNAL, "a call of RCCL has panicked")),
                Err(RecvTimeoutError::Timeout) => (),
            }
            if let Some(failure) = others.failure() {
                return Err(failure);
            }
            self.check_asynchronous()?;
            if let Some(left) = others.left() {
                let since = *left_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= LEFT {
                    return Err(left);
                }
            }
            if begin.elapsed() >= timeout {
                return Err(timed_out(timeout));
            }
        }
    }

    /// RCCL's error of an operation that runs.
    fn check_asynchronous(&self) -> Result<()> {
        let Some(joined) = self.joined.get() else { return Ok(()) };
        let (rccl, mut error) = (self.device.rccl, 0);
        // Held: an abort frees the communicator.
        let failed = self.failed.lock();
        if *failed {
            return Err(status!(ABORTED, "RCCL's communicator has failed before"));
        }
        // SAFETY: the communicator lives as long as the group; the result goes to a local.
        let code = unsafe { (rccl.symbols.comm_get_async_error)(joined.communicator, &raw mut error) };
        rccl.check("ncclCommGetAsyncError", code)?;
        if error == IN_PROGRESS { Ok(()) } else { rccl.check("a collective", error) }
    }

    /// Has RCCL release the group, and waits for that, or for the end of an aborted operation, for [`ABORT`] at most.
    /// A process that ends while a thread is in RCCL or HIP crashes in their destructors.
    pub fn release(&self) {
        if self.calls.is_closed() {
            return;
        }
        if self.has_flights() {
            self.abort(&status!(CANCELLED, "the device was destroyed before a collective ended"), Box::new(()));
        }
        self.gates.get().iter().for_each(|gates| gates.close());
        if let Some(aborted) = self.aborted.lock().take() {
            if aborted.recv_timeout(ABORT) == Err(RecvTimeoutError::Timeout) {
                messages::emit(&format!(
                    "RCCL has not ended an aborted collective within {ABORT:?}; its memory is kept"
                ));
            }
        } else {
            let (device, joined) = (self.device.clone(), self.joined.clone());
            let released = self.call(move || {
                let Some(joined) = joined.get() else { return Ok(()) };
                let symbols = &device.rccl.symbols;
                device.make_current()?;
                // SAFETY: nothing runs on the stream, and the group is no longer used.
                unsafe {
                    device.rccl.check("ncclCommDestroy", (symbols.comm_destroy)(joined.communicator))?;
                    device.rccl.check_hip("hipStreamDestroy", (symbols.hip_stream_destroy)(joined.stream))
                }
            });
            *self.failed.lock() = true;
            if let Ok(released) = released {
                let _ = released.recv_timeout(ABORT);
            }
        }
        self.calls.close();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.release();
    }
}

/// Submits operations as one group of RCCL's, and waits for the stream.
fn perform(device: &Device, joined: Joined, operations: &[DeviceOperation]) -> Result<()> {
    device.make_current()?;
    let mut submission = Submission { rccl: device.rccl, joined, copies: Vec::new() };
    let result = submission.perform(operations);
    submission.release();
    result
}

/// Operations under way.
struct Submission {
    rccl: &'static Rccl,
    joined: Joined,
    /// Memory of HIP's with copies of send buffers.
    copies: Vec<usize>,
}

impl Submission {
    fn perform(&mut self, operations: &[DeviceOperation]) -> Result<()> {
        let mut moved = Vec::new();
        for operation in operations {
            moved.push(self.apart(*operation)?);
        }
        self.group(|submission| moved.iter().try_for_each(|operation| submission.submit(operation)))?;
        // SAFETY: a stream of this group's.
        let code = unsafe { (self.rccl.symbols.hip_stream_synchronize)(self.joined.stream) };
        self.rccl.check_hip("hipStreamSynchronize", code)
    }

    /// Calls `body` between the begin and the end of a group.
    fn group(&self, body: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let symbols = &self.rccl.symbols;
        // SAFETY: it takes nothing.
        self.rccl.check("ncclGroupStart", unsafe { (symbols.group_start)() })?;
        let result = body(self);
        // SAFETY: it takes nothing. The end is due after errors, too.
        result.and(self.rccl.check("ncclGroupEnd", unsafe { (symbols.group_end)() }))
    }

    /// The operation with a send buffer that no receive of the same rank overwrites. Messages in place are sent from a
    /// copy, which RCCL itself makes: HIP's copies take no memory that HIP has not allocated.
    fn apart(&mut self, operation: DeviceOperation) -> Result<DeviceOperation> {
        if !operation.is_copied() {
            return Ok(operation);
        }
        let DeviceOperation { plan, send, .. } = operation;
        let (symbols, mut copy) = (&self.rccl.symbols, 0);
        // SAFETY: the result goes to a local.
        self.rccl.check_hip("hipMalloc", unsafe { (symbols.hip_malloc)(&raw mut copy, plan.send) })?;
        self.copies.push(copy);
        self.group(|submission| {
            let own = submission.joined.rank;
            submission.send(send, plan.send, own)?;
            submission.receive(copy, plan.send, own)
        })?;
        Ok(DeviceOperation { send: copy, ..operation })
    }

    fn release(&mut self) {
        for copy in self.copies.drain(..) {
            // SAFETY: memory of `hip_malloc`; the stream is idle or aborted.
            unsafe { (self.rccl.symbols.hip_free)(copy) };
        }
    }

    fn submit(&self, operation: &DeviceOperation) -> Result<()> {
        let DeviceOperation { plan, send, receive } = *operation;
        let Operation { kind, element, .. } = plan.operation;
        let (Joined { communicator, stream, rank, count }, symbols) = (self.joined, &self.rccl.symbols);
        // Data is moved as bytes, so that every type can be.
        let reduces = || -> Result<(c_int, c_int)> {
            let types = data_type(element).zip(plan.operation.reduction.map(reduction));
            types.ok_or_else(|| status!(UNIMPLEMENTED, "RCCL has no {kind:?} of {element:?}"))
        };
        let elements = |bytes: usize| bytes / element.size();
        // SAFETY: memory that the device reads and writes, in the plan's lengths, for as long as the operation runs.
        let (call, code) = unsafe {
            match kind {
                Kind::AllGather => {
                    ("ncclAllGather", (symbols.all_gather)(send, receive, plan.send, BYTES, communicator, stream))
                }
                Kind::AllReduce => {
                    let ((data, function), count) = (reduces()?, elements(plan.send));
                    let code = (symbols.all_reduce)(send, receive, count, data, function, communicator, stream);
                    ("ncclAllReduce", code)
                }
                Kind::ReduceScatter => {
                    let ((data, function), count) = (reduces()?, elements(plan.receive));
                    let code = (symbols.reduce_scatter)(send, receive, count, data, function, communicator, stream);
                    ("ncclReduceScatter", code)
                }
                Kind::Reduce { root } => {
                    let ((data, function), count, root) = (reduces()?, elements(plan.send), root as c_int);
                    let code = (symbols.reduce)(send, receive, count, data, function, root, communicator, stream);
                    ("ncclReduce", code)
                }
                Kind::Broadcast { root } => {
                    // In place: the root's receive buffer is left alone.
                    let (address, length) = if root == rank { (send, plan.send) } else { (receive, plan.receive) };
                    let root = root as c_int;
                    let code = (symbols.broadcast)(address, address, length, BYTES, root, communicator, stream);
                    ("ncclBroadcast", code)
                }
                Kind::AllToAll => {
                    let block = plan.send / count as usize;
                    for peer in 0..count {
                        self.send(send + block * peer as usize, block, peer)?;
                        self.receive(receive + block * peer as usize, block, peer)?;
                    }
                    return Ok(());
                }
                Kind::Send { target } => return self.send(send, plan.send, target),
                Kind::Receive { source } => return self.receive(receive, plan.receive, source),
                Kind::SendReceive { target, source } => {
                    target.map_or(Ok(()), |target| self.send(send, plan.send, target))?;
                    return source.map_or(Ok(()), |source| self.receive(receive, plan.receive, source));
                }
            }
        };
        self.rccl.check(call, code)
    }

    fn send(&self, address: usize, length: usize, peer: u32) -> Result<()> {
        let Joined { communicator, stream, .. } = self.joined;
        // SAFETY: memory that the device reads, for as long as the operation runs.
        let code = unsafe { (self.rccl.symbols.send)(address, length, BYTES, peer as c_int, communicator, stream) };
        self.rccl.check("ncclSend", code)
    }

    fn receive(&self, address: usize, length: usize, peer: u32) -> Result<()> {
        let Joined { communicator, stream, .. } = self.joined;
        // SAFETY: memory that the device writes, for as long as the operation runs.
        let code = unsafe { (self.rccl.symbols.receive)(address, length, BYTES, peer as c_int, communicator, stream) };
        self.rccl.check("ncclRecv", code)
    }
}
