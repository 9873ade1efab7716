// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Collectives among device work.
//!
//! A command buffer with collectives is a list of stages: programs for the queue, and groups of operations
//! between them. An execution submits each stage behind the one before, ordered by a semaphore of its own, so that
//! programs and queues know nothing of collectives. A group waits like a host call. Then it runs on the thread of its
//! communicator, in the order in which executions were submitted: it copies the send buffers to the host, exchanges,
//! and copies the results back. Memory that the host can map is read and written in place, other memory by way of a
//! staging buffer and copies of the queue. RCCL, if it is the engine, exchanges the buffers themselves.
//!
//! RCCL's operations need no host between the stages if their waits are packets: the group is a [gate](Gate) in the
//! queue (`collectives::rccl`). A profile has the host order all groups, which are host calls in it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::device::LogicalDevice;
use amdgpu_collectives::bootstrap::{self, Provider, Request, Settings};
use amdgpu_collectives::rccl::{self, DeviceOperation, GpuPlace, Turn, Waiting};
use amdgpu_collectives::{Communicator, Kind, Membership, Operation, Plan};
use amdgpu_ffi::device::DeviceHandle;
use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{
    BindingTable, Borrowed, BufferHandle, BufferRef, BufferUsage, Fallible, MemoryType, RawCommandBuffer, Result,
    SemaphoreList, SemaphoreRef, Status, WHOLE_BUFFER, WeakDevice, status,
};
use amdgpu_memory::{device_address, mappable};
use amdgpu_operations::files::FileTransfers;
use amdgpu_operations::transfer::{Range, Transfer};
use amdgpu_profile::EventInfo;
use amdgpu_program::Program;
use amdgpu_program::execute::Execute;
use amdgpu_program::recorder::Recorder;
use amdgpu_queue::Queue;
use amdgpu_queue::gate::{Gate, Pass};
use amdgpu_queue::host_worker::HostTask;
use amdgpu_queue::signal_list::SignalList;
use amdgpu_queue::submit::{submit, submit_host, submit_to_ring};
use amdgpu_queue::trace::host::HostTrace;

/// The communicators of a device, by the parameters of channels. Programs create their channel at every call and get
/// the same communicator. They live as long as the device. Dropping this ends operations that wait for other ranks, and
/// waits for RCCL to end.
#[derive(Debug, Default)]
pub struct DeviceChannels {
    places: Mutex<HashMap<Request, Place>>,
}

/// The communicator of a request, none before it is connected. Its lock is held while it connects.
type Place = Arc<Mutex<Option<Arc<Communicator>>>>;

impl DeviceChannels {
    /// The communicator for `request`, made at the first call. Other calls for the same request wait meanwhile, those
    /// for other requests do not: two ranks of one device, made by two threads, wait for each other.
    ///
    /// # Errors
    /// As for [`bootstrap::connect`].
    pub fn get(
        &self,
        request: Request,
        device: &LogicalDevice,
        provider: Option<&dyn Provider>,
    ) -> Result<Arc<Communicator>> {
        let place = self.places.lock().entry(request.clone()).or_default().clone();
        let mut communicator = place.lock();
        if let Some(known) = &*communicator {
            return Ok(known.clone());
        }
        let options = device.options();
        let timeout = Duration::from_secs(options.collective_timeout);
        let settings = Settings { engine: options.collective_engine, timeout, gpu: place_of(device) };
        let made = bootstrap::connect(&request, &settings, provider).inspect_err(|_| {
            let mut places = self.places.lock();
            // The map and this call alone have it: no other call waits for it.
            if Arc::strong_count(&place) == 2 {
                places.remove(&request);
            }
        })?;
        Ok(communicator.insert(made).clone())
    }
}

/// The GPU for RCCL's kernels; none for a device of several GPUs.
fn place_of(device: &LogicalDevice) -> Option<GpuPlace> {
    let [gpu] = device.gpus() else { return None };
    let address = gpu.agent().info().pci.to_string();
    // HIP tells no function.
    let address = address.split('.').next().unwrap_or_default().to_owned();
    Some(GpuPlace { address, hsa: gpu.agent().library().path().to_owned() })
}

impl Drop for DeviceChannels {
    fn drop(&mut self) {
        for communicator in self.places.get_mut().values().filter_map(|place| place.lock().clone()) {
            communicator.cancel();
            communicator.release_rccl();
        }
    }
}

/// A range of a buffer or of a slot of the binding table.
#[derive(Debug)]
struct Reference {
    buffer: Option<BufferHandle>,
    slot: u32,
    offset: usize,
    length: usize,
}

impl Reference {
    fn new(reference: BufferRef<'_>) -> Self {
        let BufferRef { buffer, slot, offset, length } = reference;
        Self { buffer: buffer.map(Borrowed::retain), slot, offset, length }
    }

    /// The range and its length for an execution with `table`; none without a buffer.
    ///
    /// # Errors
    /// OUT_OF_RANGE for a range past the end of its buffer or binding.
    fn resolve(&self, table: BindingTable<'_>) -> Result<Option<Span>> {
        let out_of_range = |end: usize, size: usize| {
            status!(OUT_OF_RANGE, "a collective's buffer ends at byte {end} of a buffer or binding of {size} bytes")
        };
        let within = |size: usize, offset: usize, length: usize| {
            let length = if length == WHOLE_BUFFER { size.saturating_sub(offset) } else { length };
            match offset.checked_add(length) {
                Some(end) if end <= size => Ok(length),
                end => Err(out_of_range(end.unwrap_or(usize::MAX), size)),
            }
        };
        let (buffer, base, size) = match &self.buffer {
            Some(buffer) => (buffer.borrow(), 0, buffer.borrow().byte_length()),
            None => {
                let Some(binding) = table.get(self.slot as usize) else { return Ok(None) };
                let Some(buffer) = binding.buffer else { return Ok(None) };
                (buffer, binding.offset, within(buffer.byte_length(), binding.offset, binding.length)?)
            }
        };
        let length = within(size, self.offset, self.length)?;
        Ok(Some(Span { range: Range::new(buffer, base + self.offset).into_owned(), length }))
    }
}

/// A range of a buffer, with its length.
struct Span {
    range: Range<'static>,
    length: usize,
}

/// A collective as recorded.
#[derive(Debug)]
pub struct Recorded {
    membership: Arc<Membership>,
    operation: Operation,
    send: Reference,
    receive: Reference,
}

impl Recorded {
    /// An operation in the group `membership`. The buffers are retained.
    pub fn new(membership: Arc<Membership>, operation: Operation, send: BufferRef<'_>, receive: BufferRef<'_>) -> Self {
        Self { membership, operation, send: Reference::new(send), receive: Reference::new(receive) }
    }

    /// The operation of an execution.
    fn prepare(&self, communicator: &Communicator, table: BindingTable<'_>) -> Result<Prepared> {
        let (send, receive) = (self.send.resolve(table)?, self.receive.resolve(table)?);
        let length = |span: &Option<Span>| span.as_ref().map_or(0, |span| span.length);
        let plan = self.operation.plan(communicator.rank(), communicator.count(), length(&send), length(&receive))?;
        Ok(Prepared { plan, send, receive })
    }
}

/// A part of a recording with collectives.
#[derive(Debug)]
enum Stage {
    Program(Arc<Program>),
    /// Operations without a barrier between them. They are independent of each other.
    Group(Vec<Recorded>),
}

/// A recording with collectives.
#[derive(Debug)]
pub struct Stages {
    stages: Vec<Stage>,
}

/// A recording with collectives under way.
#[derive(Debug)]
pub struct StagesRecorder {
    stages: Vec<Stage>,
    /// Records the commands behind the last collective.
    pub recorder: Recorder,
}

impl StagesRecorder {
    /// Goes on with a recording without collectives.
    pub fn new(recorder: Recorder) -> Self {
        Self { stages: Vec::new(), recorder }
    }

    /// Records a collective. Behind any other command, barriers included, it begins a new group.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; those of the end of a program.
    pub fn collective(self, collective: Recorded) -> Result<Self> {
        let Self { mut stages, mut recorder } = self;
        if recorder.is_untouched()
            && let Some(Stage::Group(group)) = stages.last_mut()
        {
            group.try_push(collective)?;
            return Ok(Self { stages, recorder });
        }
        let program;
        (program, recorder) = recorder.cut()?;
        if let Some(program) = program {
            stages.try_push(Stage::Program(program))?;
        }
        stages.try_push(Stage::Group(vec![collective]))?;
        Ok(Self { stages, recorder })
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// As for [`Recorder::finish`].
    pub fn finish(self) -> Result<Arc<Stages>> {
        let Self { mut stages, recorder } = self;
        let program = recorder.finish()?;
        if !program.is_empty() {
            stages.try_push(Stage::Program(program))?;
        }
        Ok(Arc::new(Stages { stages }))
    }
}

/// An execution of a recording with collectives.
pub struct StagesExecution<'a> {
    /// The queue of all stages.
    pub queue: &'a Arc<Queue>,
    /// The device of the queue.
    pub device: WeakDevice,
    /// The staging memory of the device.
    pub files: &'a FileTransfers,
    /// The semaphores to wait for and to signal.
    pub semaphores: (SemaphoreList<'a>, SemaphoreList<'a>),
    /// The command buffer of the recording.
    pub command_buffer: Borrowed<'a, RawCommandBuffer>,
    /// The binding table, and whether the caller keeps its buffers alive.
    pub table: (BindingTable<'a>, bool),
}

/// A stage of an execution that was checked.
enum Ready<'a> {
    Program(&'a Arc<Program>),
    Group(Arc<Communicator>, Vec<Prepared>),
}

impl Stages {
    /// Submits the stages.
    ///
    /// # Errors
    /// Unusable buffers, bindings or counts, a failed split: nothing was submitted. The error of a submission: the
    /// stages before it run, and the signal semaphores are untouched.
    pub fn execute(&self, execution: &StagesExecution<'_>) -> Result<()> {
        let ready = self.prepare(execution.table.0)?;
        let (waits, signals) = execution.semaphores;
        let last = ready.len().saturating_sub(1);
        let device = execution.device.upgrade().ok_or_else(device_gone)?;
        let link = if last > 0 { Some(device.borrow().create_semaphore(execution.affinity())?) } else { None };
        drop(device);
        for (index, stage) in ready.into_iter().enumerate() {
            let index = index as u64;
            with_point(link.as_ref().filter(|_| index > 0), index, waits, |waits| {
                with_point(link.as_ref().filter(|_| index < last as u64), index + 1, signals, |signals| {
                    execution.submit(stage, waits, signals)
                })
            })?;
        }
        Ok(())
    }

    /// Checks everything that depends on the binding table, and divides groups by communicators.
    fn prepare(&self, table: BindingTable<'_>) -> Result<Vec<Ready<'_>>> {
        let mut ready = Vec::new();
        for stage in &self.stages {
            match stage {
                Stage::Program(program) => {
                    Execute::check(program, table)?;
                    ready.try_push(Ready::Program(program))?;
                }
                Stage::Group(group) => {
                    let first = ready.len();
                    for recorded in group {
                        let communicator = recorded.membership.communicator()?;
                        let prepared = recorded.prepare(&communicator, table)?;
                        let own = ready[first..].iter_mut().find_map(|ready| match ready {
                            Ready::Group(other, group) if Arc::ptr_eq(other, &communicator) => Some(group),
                            _ => None,
                        });
                        match own {
                            Some(group) => group.try_push(prepared)?,
                            None => ready.try_push(Ready::Group(communicator, vec![prepared]))?,
                        }
                    }
                }
            }
        }
        Ok(ready)
    }
}

/// Calls `body` with the list of `semaphore` alone, or with `other` if there is none.
fn with_point<R>(
    semaphore: Option<&SemaphoreRef>,
    value: u64,
    other: SemaphoreList<'_>,
    body: impl FnOnce(SemaphoreList<'_>) -> R,
) -> R {
    match semaphore {
        Some(semaphore) => SemaphoreList::with_one(semaphore.borrow(), value, body),
        None => body(other),
    }
}

impl StagesExecution<'_> {
    fn affinity(&self) -> u64 {
        1 << self.queue.ordinal()
    }

    fn submit(&self, stage: Ready<'_>, waits: SemaphoreList<'_>, signals: SemaphoreList<'_>) -> Result<()> {
        let queue = self.queue;
        let (communicator, operations) = match stage {
            Ready::Program(program) => {
                let (table, borrows) = self.table;
                return submit(queue, waits, signals, || Execute::new(program, self.command_buffer, table, borrows));
            }
            Ready::Group(communicator, operations) => (communicator, operations),
        };
        if self.submit_gate(&communicator, &operations, waits, signals)? {
            return Ok(());
        }
        let bytes = operations.iter().map(|operation| operation.plan.send as u64).sum();
        let event =
            EventInfo { operations: operations.len() as u32, ..EventInfo::one(QueueEventKind::HostCall, bytes) };
        let trace = HostTrace::new(queue, || event, waits.len(), signals.len());
        let (queue, device, files) = (queue.clone(), self.device.clone(), self.files.clone());
        // Its place among the operations of the communicator is that of this submission, whenever the waits are over.
        let (ticket, turn) = communicator.reserve();
        let job = Job { operations, queue, device, files, affinity: self.affinity(), trace, turn };
        let run = move |signals| ticket.run(move |communicator| job.run(communicator, signals));
        submit_host(self.queue, waits, signals, HostTask::boxed(run)?)
    }

    /// Submits operations that the device orders. Returns false, having done nothing, if the host is to order them.
    fn submit_gate(
        &self,
        communicator: &Arc<Communicator>,
        operations: &[Prepared],
        waits: SemaphoreList<'_>,
        signals: SemaphoreList<'_>,
    ) -> Result<bool> {
        let needs_host = |Prepared { plan, .. }: &Prepared| {
            // A receiver without a sender is zeroed by the host.
            let is_zeroed = matches!(plan.operation.kind, Kind::SendReceive { source: None, .. });
            is_zeroed || !rccl::performs(&plan.operation)
        };
        if !communicator.has_rccl() || self.queue.shared().profiler.is_active() || operations.iter().any(needs_host) {
            return Ok(false);
        }
        // Queue-allocated buffers may have no memory yet.
        let Ok(moved) = on_device(operations, self.queue) else { return Ok(false) };
        let Some(entry) = communicator.enter(&moved) else { return Ok(false) };
        let mut buffers = Vec::new();
        for span in operations.iter().flat_map(|operation| [&operation.send, &operation.receive]).flatten() {
            buffers.try_push(span.range.buffer.borrow().retain())?;
        }
        let gate = Gate::new(entry.signals());
        gate.keep(buffers);
        let is_submitted = submit_to_ring(self.queue, waits, signals, Pass(gate.clone()))?;
        if is_submitted {
            entry.issue(moved, Arc::new(Blocked { gate, queue: self.queue.clone() }));
        }
        Ok(is_submitted)
    }
}

/// A queue that waits at a gate.
struct Blocked {
    gate: Arc<Gate>,
    queue: Arc<Queue>,
}

impl Waiting for Blocked {
    fn is_over(&self) -> bool {
        self.gate.is_over()
    }

    fn failure(&self) -> Option<Status> {
        self.queue.failure().cloned()
    }

    fn stop(&self, status: &Status) {
        self.queue.shared().mark_lost(status.clone());
        self.queue.inactivate();
    }
}

/// `operations` with the addresses of their buffers.
fn on_device<'a>(operations: impl IntoIterator<Item = &'a Prepared>, queue: &Queue) -> Result<Vec<DeviceOperation>> {
    let address = |span: &Option<Span>, length: usize| -> Result<usize> {
        let Some(span) = span.as_ref().filter(|_| length > 0) else { return Ok(0) };
        let address = device_address(span.range.buffer.borrow(), span.range.offset, queue.gpu())?;
        Ok(address as usize)
    };
    let mut moved = Vec::new();
    for Prepared { plan, send, receive } in operations {
        let (send, receive) = (address(send, plan.send)?, address(receive, plan.receive)?);
        moved.try_push(DeviceOperation { plan: *plan, send, receive })?;
    }
    Ok(moved)
}

/// An operation with its buffers.
struct Prepared {
    plan: Plan,
    send: Option<Span>,
    receive: Option<Span>,
}

/// A group of operations whose waits are over.
struct Job {
    operations: Vec<Prepared>,
    queue: Arc<Queue>,
    device: WeakDevice,
    files: FileTransfers,
    affinity: u64,
    trace: HostTrace,
    /// Ends before the semaphores advance: whoever waits for them may have the device order what follows.
    turn: Option<Turn>,
}

impl Job {
    fn run(mut self, communicator: &Arc<Communicator>, signals: SignalList) {
        self.trace.begin();
        let result = self.perform(communicator).map_err(|status| {
            let kinds: Vec<_> = self.operations.iter().map(|operation| operation.plan.operation.kind).collect();
            status.annotate(&format!("rank {} of {} in {kinds:?}", communicator.rank(), communicator.count()))
        });
        if let Err(status) = &result {
            communicator.abort(status);
        }
        self.trace.end(result.as_ref().err().map(Status::code));
        let in_use = communicator.is_unfinished().then(|| std::mem::take(&mut self.operations));
        // Before the semaphores advance, so that whoever waits for them and then releases the last reference does so on
        // its own thread.
        drop(self);
        match result {
            Ok(()) => signals.signal(),
            Err(status) => {
                signals.fail(status.clone());
                if let Some(buffers) = in_use {
                    communicator.abort_rccl(&status, Box::new(buffers));
                }
            }
        }
    }

    fn perform(&self, communicator: &Communicator) -> Result<()> {
        let by_rccl = |operation: &&Prepared| communicator.has_rccl() && rccl::performs(&operation.plan.operation);
        let (on_device, on_host): (Vec<_>, Vec<_>) = self.operations.iter().partition(by_rccl);
        if !on_device.is_empty() {
            self.perform_on_device(communicator, &on_device)?;
        }
        let mut sends = Vec::new();
        for Prepared { plan, send, .. } in on_host.iter().copied() {
            sends.try_push(self.access(send.as_ref(), plan.send, |mover, range| mover.read(range, plan.send))?)?;
        }
        let mut received = Vec::new();
        for (operation, send) in on_host.iter().zip(sends) {
            received.try_push(communicator.perform(&operation.plan, send)?)?;
        }
        for (Prepared { plan, receive, .. }, bytes) in on_host.iter().copied().zip(&received) {
            self.access(receive.as_ref(), plan.receive, |mover, range| mover.write(range, bytes).map(|()| Vec::new()))?;
        }
        Ok(())
    }

    /// Has RCCL perform `operations` on the buffers themselves.
    fn perform_on_device(&self, communicator: &Communicator, operations: &[&Prepared]) -> Result<()> {
        communicator.perform_on_device(on_device(operations.iter().copied(), &self.queue)?, self.turn.as_ref())?;
        for Prepared { plan, receive, .. } in operations {
            if matches!(plan.operation.kind, Kind::SendReceive { source: None, .. }) {
                let mut zeros = Vec::new();
                zeros.try_resize(plan.receive, 0)?;
                let write = |mover: &mut Mover<'_>, range: &Range<'static>| mover.write(range, &zeros);
                self.access(receive.as_ref(), plan.receive, |mover, range| write(mover, range).map(|()| Vec::new()))?;
            }
        }
        Ok(())
    }

    /// Calls `body` to move `length` bytes, if there are any.
    fn access(
        &self,
        span: Option<&Span>,
        length: usize,
        body: impl FnOnce(&mut Mover<'_>, &Range<'static>) -> Result<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let Some(span) = span.filter(|_| length > 0) else { return Ok(Vec::new()) };
        // Not kept while the operation waits for other ranks.
        let device = self.device.upgrade().ok_or_else(device_gone)?;
        body(&mut Mover { job: self, device: &device, staging: None, submitted: 0 }, &span.range)
    }
}

fn device_gone() -> Status {
    status!(CANCELLED, "the device was destroyed before a collective ran")
}

/// Moves bytes between a buffer and the host.
struct Mover<'a> {
    job: &'a Job,
    device: &'a DeviceHandle,
    /// Staging memory, and the semaphore that its copies signal.
    staging: Option<(BufferHandle, SemaphoreRef)>,
    submitted: u64,
}

impl Mover<'_> {
    fn read(&mut self, range: &Range<'_>, length: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_resize(length, 0)?;
        if let Some((buffer, offset)) = Self::direct(range)? {
            buffer.borrow().read(offset, &mut bytes)?;
            return Ok(bytes);
        }
        self.in_chunks(length, |mover, staging, chunk| {
            let target = Range::new(staging.borrow(), 0);
            mover.copy(Self::part(range, chunk.start), target, chunk.len())?;
            staging.borrow().read(0, &mut bytes[chunk])
        })?;
        Ok(bytes)
    }

    fn write(&mut self, range: &Range<'_>, bytes: &[u8]) -> Result<()> {
        if let Some((buffer, offset)) = Self::direct(range)? {
            return buffer.borrow().write(offset, bytes);
        }
        self.in_chunks(bytes.len(), |mover, staging, chunk| {
            staging.borrow().write(0, &bytes[chunk.clone()])?;
            let source = Range::new(staging.borrow(), 0);
            mover.copy(source, Self::part(range, chunk.start), chunk.len())
        })
    }

    /// The buffer to map in place of a range in host memory, and the offset in it. GPU memory is not mapped even where
    /// it could be: the host reads it slowly.
    fn direct(range: &Range<'_>) -> Result<Option<(BufferHandle, usize)>> {
        let (buffer, offset) = mappable(range.buffer.borrow(), range.offset)?;
        let is_local = buffer.borrow().memory_type().contains(MemoryType::HOST_LOCAL | MemoryType::HOST_VISIBLE);
        let is_mappable = is_local && buffer.borrow().allowed_usage().contains(BufferUsage::MAPPING_SCOPED);
        Ok(is_mappable.then_some((buffer, offset)))
    }

    fn part<'a>(range: &'a Range<'_>, offset: usize) -> Range<'a> {
        Range::new(range.buffer.borrow(), range.offset + offset)
    }

    /// Calls `body` for each part of `length` bytes that staging memory takes.
    fn in_chunks(
        &mut self,
        length: usize,
        mut body: impl FnMut(&mut Self, &BufferHandle, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let Job { files, affinity, .. } = self.job;
        let staging = files.take_staging(self.device, *affinity, length)?;
        self.staging = Some((staging.clone(), self.device.borrow().create_semaphore(*affinity)?));
        let size = staging.borrow().byte_length();
        for start in (0..length).step_by(size) {
            body(self, &staging, start..length.min(start + size))?;
        }
        self.staging = None;
        // After a failure it is unknown whether the device still copies.
        files.give_staging(*affinity, staging);
        Ok(())
    }

    /// Copies on the queue, and waits.
    fn copy(&mut self, source: Range<'_>, target: Range<'_>, length: usize) -> Result<()> {
        let Some((_, semaphore)) = &self.staging else { return Ok(()) };
        self.submitted += 1;
        SemaphoreList::with_one(semaphore.borrow(), self.submitted, |signals| {
            submit(&self.job.queue, SemaphoreList::EMPTY, signals, || Transfer::copy(source, target, length))
        })?;
        semaphore.borrow().wait(self.submitted)
    }
}
