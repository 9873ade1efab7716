// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The way of a submission: waits -> plan -> reserve -> write -> record -> publish.
//!
//! [`submit`] takes an operation. If its waits are satisfied or expressible as packets, and the rings have space for
//! which no other submission waits, it is in the ring when the call returns and, unless it is large, nothing was
//! allocated. Otherwise it is boxed and resumed by the queue's submission thread. If an error is returned, the signal
//! semaphores are untouched.

use std::sync::Arc;

use crate::core::gpu::{Gpu, coherent};
use crate::core::queue::deferred::{Deferred, PendingSubmission, Resumption, RingWaiter, Work};
use crate::core::queue::emitter::{Emitter, SinglePacketSpace};
use crate::core::queue::epoch_wait::{EpochWaits, QueueOrdering};
use crate::core::queue::host_worker::HostTask;
use crate::core::queue::operation::{Operation, Planned, Progress, Submit};
use crate::core::queue::record::{Record, RingEnds};
use crate::core::queue::retained::RetainedSet;
use crate::core::queue::signal_list::SignalList;
use crate::core::queue::trace::traced::Traced;
use crate::core::queue::{Queue, Submission, semaphore, waits};
use crate::ffi::{Result, Semaphore, SemaphoreList, Status, fallible, zone};
use crate::ring::{AqlRoom, HeaderWord, KERNARG_ALIGNMENT, PacketBody, Vacancy, epoch_threshold};

/// The semaphores that a submission signals: the caller's list, or a retained one if the submission is resumed later.
trait Signals {
    /// Records on each semaphore that epoch `epoch` of `queue` will signal it.
    fn note_submitted(&self, queue: &Queue, epoch: u64);

    /// Retains the semaphores for a record. Of a caller's list at most [`SignalList::FEW`] are retained, which takes no
    /// memory.
    fn retain(self) -> SignalList;

    /// Retains the semaphores for later.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn retain_for_later(self) -> std::result::Result<SignalList, (Status, Self)>
    where
        Self: Sized;
}

impl Signals for SemaphoreList<'_> {
    #[inline(always)]
    fn note_submitted(&self, queue: &Queue, epoch: u64) {
        let mut each = self.iter();
        if let Some((semaphore, value)) = each.next() {
            semaphore::note_submitted(semaphore, value, queue, epoch);
        }
        if each.len() > 0 {
            note_more(each, queue, epoch);
        }
    }

    #[inline(always)]
    fn retain(self) -> SignalList {
        SignalList::retain_few(self)
    }

    fn retain_for_later(self) -> std::result::Result<SignalList, (Status, Self)> {
        SignalList::retain(self).map_err(|status| (status, self))
    }
}

impl Signals for SignalList {
    fn note_submitted(&self, queue: &Queue, epoch: u64) {
        note_more(self.iter().map(|(semaphore, value)| (semaphore.borrow(), value)), queue, epoch);
    }

    fn retain(self) -> SignalList {
        self
    }

    fn retain_for_later(self) -> std::result::Result<SignalList, (Status, Self)> {
        Ok(self)
    }
}

#[inline(never)]
fn note_more<'a>(signals: impl Iterator<Item = (Semaphore<'a>, u64)>, queue: &Queue, epoch: u64) {
    for (semaphore, value) in signals {
        semaphore::note_submitted(semaphore, value, queue, epoch);
    }
}

/// The state of an operation that the submission path could not submit as a whole.
enum SubmitError<S> {
    /// A ring is full. Has the objects that the operation keeps alive, and if some of its parts are in the ring
    /// already.
    RingFull(S, Option<RetainedSet>, bool),
    /// The operation waits for something other than ring space.
    Blocked(Box<dyn FnOnce(Resumption) + Send>, S),
    /// The operation is impossible. Only an operation's first part can fail.
    Rejected(Status, S),
}

impl SubmitError<SignalList> {
    /// This outcome with the caller's signal list in place of the one retained from it.
    fn of(self, signals: SemaphoreList<'_>) -> SubmitError<SemaphoreList<'_>> {
        let (list, error) = match self {
            Self::RingFull(list, retained, has_parts) => (list, SubmitError::RingFull(signals, retained, has_parts)),
            Self::Blocked(later, list) => (list, SubmitError::Blocked(later, signals)),
            Self::Rejected(status, list) => (list, SubmitError::Rejected(status, signals)),
        };
        list.release_unsignaled();
        error
    }
}

impl<S: Signals> SubmitError<S> {
    /// Converts the rest of a submission that found a ring full to its parked form; it keeps the `waiter` if it
    /// waited for space before. A blocked submission is resumed by the event that it waits for, and none is returned.
    ///
    /// # Errors
    /// The reason for which it is impossible, and the semaphores to signal. No part of it runs any more.
    #[cold]
    fn into_parked(
        self,
        queue: &Arc<Queue>,
        operation: impl FnOnce() -> Result<Box<dyn Operation>>,
        waits: EpochWaits,
        waiter: Option<RingWaiter>,
    ) -> std::result::Result<Option<PendingSubmission>, (Status, S)> {
        let ready = |signals: S, retained, waiter| {
            let work = match operation() {
                Ok(operation) => Work::Packets(operation),
                Err(status) => return Err((status, signals, retained)),
            };
            match signals.retain_for_later() {
                Ok(signals) => Ok(PendingSubmission { work, waits, signals, retained, failure: None, waiter }),
                Err((status, signals)) => Err((status, signals, retained)),
            }
        };
        match self {
            Self::RingFull(signals, retained, has_parts) => {
                let waiter = waiter.unwrap_or_else(|| RingWaiter::new(queue.backlog.ring_waiters()));
                ready(signals, retained, Some(waiter)).map(Some).map_err(|(status, signals, retained)| {
                    if has_parts {
                        // Until nothing of it runs, or the device is lost.
                        queue.wait_for_epoch(queue.last_epoch());
                    }
                    drop(retained);
                    (status, signals)
                })
            }
            Self::Blocked(later, signals) => {
                let ready = ready(signals, None, None).map_err(|(status, signals, _)| (status, signals))?;
                later(Resumption::new(queue.clone(), ready));
                Ok(None)
            }
            Self::Rejected(failure, signals) => Err((failure, signals)),
        }
    }
}

/// Submits the operation that `make` gives to `queue` after `waits`; `signals` follow its completion.
///
/// # Errors
/// The operation is impossible or the device lost; the signal semaphores are untouched.
#[inline(always)]
pub fn submit<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    make: impl FnOnce() -> O,
) -> Result<()> {
    if queue.shared().profiler.is_active() {
        return submit_traced(queue, waits, signals, make());
    }
    submit_or_defer(queue, waits, signals, make, |_| ())
}

/// Submits an operation that is not profiled and has no waits or signals.
///
/// # Errors
/// As for [`submit`].
#[cold]
pub fn submit_unprofiled<O: Submit>(queue: &Arc<Queue>, operation: O) -> Result<()> {
    submit_or_defer(queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || operation, |_| ())
}

/// As [`submit`], under a profiling session if there still is one.
#[cold]
#[inline(never)]
fn submit_traced<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    operation: O,
) -> Result<()> {
    let Some(session) = queue.shared().profiler.session() else {
        return submit_or_defer(queue, waits, signals, || operation, |_| ());
    };
    let counts = (waits.len(), signals.len());
    submit_or_defer(queue, waits, signals, || Traced::new(operation), |traced| traced.begin(session, queue, counts))
}

/// Submits an operation or defers it. `make` makes the operation in place and `begin` is called on it there: moving it
/// would cost as much as a packet does.
#[inline(always)]
fn submit_or_defer<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    make: impl FnOnce() -> O,
    begin: impl FnOnce(&mut O),
) -> Result<()> {
    zone!("submit");
    let mut operation = make();
    begin(&mut operation);
    queue.check_alive()?;
    let mut epochs = EpochWaits::new();
    let ordering = match waits::resolve(queue, waits, &mut epochs) {
        Ok(Some(ordering)) => ordering,
        Ok(None) => {
            return Deferred::arm_all(queue, waits, signals, || Ok(Work::Packets(into_deferred(operation)?)));
        }
        Err(failure) => {
            // Accepted, and never run.
            drop(operation.into_owned());
            fail(signals, failure);
            return Ok(());
        }
    };
    let outcome = if queue.backlog.has_ring_waiters() {
        park_behind_waiters(queue, &mut operation, &epochs, signals)
    } else if signals.len() > SignalList::FEW {
        emit_parts_of_many_signals(queue, &mut operation, (&mut epochs, ordering), signals)
    } else {
        emit_parts(queue, &mut operation, (&mut epochs, ordering), signals, None)
    };
    let Err(error) = outcome else { return Ok(()) };
    match error.into_parked(queue, || into_deferred(operation), epochs, None) {
        Ok(parked) => parked.into_iter().for_each(|ready| queue.add_ready(ready)),
        Err((failure, _)) => return Err(failure),
    }
    Ok(())
}

/// Parks the operation behind others that wait for ring space. Permanent errors are still returned immediately.
#[cold]
fn park_behind_waiters<S: Signals>(
    queue: &Queue,
    operation: &mut impl Operation,
    waits: &EpochWaits,
    signals: S,
) -> std::result::Result<(), SubmitError<S>> {
    Err(match operation.plan(queue, waits) {
        Ok(Planned::Ready(demand)) => match queue.check_fits(demand, waits.len() as u32) {
            Ok(()) => SubmitError::RingFull(signals, None, false),
            Err(status) => SubmitError::Rejected(status, signals),
        },
        Ok(Planned::Blocked(later)) => SubmitError::Blocked(later, signals),
        Err(status) => SubmitError::Rejected(status, signals),
    })
}

/// The owned form of the operation, to be resumed later.
///
/// # Errors
/// RESOURCE_EXHAUSTED.
#[cold]
fn into_deferred<O: Submit>(operation: O) -> Result<Box<dyn Operation>> {
    let operation = fallible::boxed(operation.into_owned()?)?;
    Ok(operation)
}

/// Fails the signal semaphores of a submission whose wait has failed.
#[cold]
fn fail(signals: SemaphoreList<'_>, failure: Status) {
    for (semaphore, _) in signals.iter() {
        semaphore.fail(failure.clone());
    }
}

/// Runs `task` on the host worker once `waits` are reached; the task signals `signals`.
///
/// # Errors
/// The device is lost, or RESOURCE_EXHAUSTED; the signal semaphores are untouched.
pub fn submit_host(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    task: HostTask,
) -> Result<()> {
    queue.check_alive()?;
    match waits::are_reached(waits) {
        Ok(true) => queue.run_on_host(task, SignalList::retain(signals)?),
        Ok(false) => Deferred::arm_all(queue, waits, signals, || Ok(Work::Host(task)))?,
        Err(failure) => fail(signals, failure),
    }
    Ok(())
}

/// Resumes a submission whose waits are over, on the submission thread. Returns it if it found a ring full.
pub fn resume(queue: &Arc<Queue>, pending: PendingSubmission) -> Option<PendingSubmission> {
    zone!("resume");
    let PendingSubmission { work, mut waits, signals, retained, failure, waiter } = pending;
    // A queue that is stopping goes on with what was accepted: the ring may hold some of its parts already.
    let failure = failure.or_else(|| queue.check_not_lost().err());
    match (work, failure) {
        (work, Some(failure)) => {
            if queue.failure().is_some() {
                // Parts of it may run: not on memory that it lets go.
                queue.inactivate();
            }
            drop(work);
            signals.fail(failure);
        }
        (Work::Host(task), None) => queue.run_on_host(task, signals),
        (Work::Packets(mut operation), None) => {
            let outcome =
                emit_parts(queue, &mut *operation, (&mut waits, QueueOrdering::AfterPrior), signals, retained);
            let Err(error) = outcome else { return None };
            match error.into_parked(queue, || Ok(operation), waits, waiter) {
                Ok(parked) => return parked,
                Err((failure, signals)) => signals.fail(failure),
            }
        }
    }
    None
}

/// As [`emit_parts`], for more signals than can be retained without memory. Retains them first, while an error can
/// still be returned.
#[cold]
#[inline(never)]
fn emit_parts_of_many_signals<'a>(
    queue: &Arc<Queue>,
    operation: &mut dyn Operation,
    waits: (&mut EpochWaits, QueueOrdering),
    signals: SemaphoreList<'a>,
) -> std::result::Result<(), SubmitError<SemaphoreList<'a>>> {
    let retained = match SignalList::retain(signals) {
        Ok(retained) => retained,
        Err(status) => return Err(SubmitError::Rejected(status, signals)),
    };
    let error = emit_parts(queue, operation, waits, retained, None);
    error.map_err(|error| error.of(signals))
}

/// Emits the operation's parts into the ring, one epoch each, until it is done or a ring is full. `retained` has the
/// objects that the operation keeps alive, if it was asked for them before.
#[inline(always)]
fn emit_parts<S: Signals>(
    queue: &Arc<Queue>,
    operation: &mut (impl Operation + ?Sized),
    (waits, mut ordering): (&mut EpochWaits, QueueOrdering),
    signals: S,
    retained: Option<RetainedSet>,
) -> std::result::Result<(), SubmitError<S>> {
    zone!("place packets");
    let retained = match retained {
        Some(retained) => retained,
        None => match operation.retained_resources(queue) {
            Ok(retained) => retained,
            Err(status) => return Err(SubmitError::Rejected(status, signals)),
        },
    };
    let mut has_parts = false;
    loop {
        let demand = match operation.plan(queue, waits) {
            Ok(Planned::Ready(demand)) => demand,
            Ok(Planned::Blocked(later)) => return Err(SubmitError::Blocked(later, signals)),
            Err(status) => return Err(SubmitError::Rejected(status, signals)),
        };
        let mut wait_count = waits.len() as u32;
        if let Err(status) = queue.check_fits(demand, wait_count) {
            return Err(SubmitError::Rejected(status, signals));
        }
        let mut submission = queue.rings.lock();
        if submission.closed {
            drop(submission);
            return Err(SubmitError::Rejected(closed(queue), signals));
        }
        if wait_count > 0 {
            waits.retain(|wait| !submission.has_waited_for(wait));
            wait_count = waits.len() as u32;
        }
        // With nothing to run, the last wait carries the epoch.
        let overlapping = demand.overlapping && (demand.packets > 0 || wait_count == 0);
        let packet_count = demand.packets + wait_count + u32::from(overlapping);
        let Submission { aql, kernargs, commands, records, waited, .. } = &mut *submission;
        let Some(record) = records.vacancy() else {
            return Err(SubmitError::RingFull(signals, Some(retained), has_parts));
        };
        let Some(packets) = aql.room(packet_count) else {
            return Err(SubmitError::RingFull(signals, Some(retained), has_parts));
        };
        let command_bytes = u64::from(wait_count + u32::from(demand.has_commands)) * KERNARG_ALIGNMENT;
        if command_bytes > 0 && commands.as_ref().is_some_and(|commands| !commands.has_room(command_bytes)) {
            return Err(SubmitError::RingFull(signals, Some(retained), has_parts));
        }
        let Some(kernargs) = kernargs.reserve(demand.kernarg_bytes) else {
            return Err(SubmitError::RingFull(signals, Some(retained), has_parts));
        };
        let mut command_span = None;
        let mut ends = RingEnds { kernargs: kernargs.end, commands: 0 };
        if let Some(commands) = commands {
            if command_bytes > 0 {
                command_span = commands.reserve(command_bytes);
            }
            ends.commands = commands.position();
        }
        let (gpu, epoch, epoch_signal) = (queue.gpu(), record.epoch(), queue.epoch.handle());
        if demand.packets > 0 {
            queue.frontier.record_work(epoch);
        }
        if packet_count == 1
            && wait_count == 0
            && let Some(single) = operation.write_single(gpu, &mut SinglePacketSpace::new(kernargs, command_span))
        {
            let (body, header) = single.packet(ordering, epoch_signal);
            let flush = (demand.kernarg_bytes > 0).then_some(&**gpu);
            commit(
                queue,
                operation,
                record,
                signals,
                retained,
                ends,
                UnpublishedPacket { packets, body, header, flush },
            );
            drop(submission);
            operation.on_submitted(queue, epoch);
            return Ok(());
        }
        let spans = (kernargs, command_span);
        let mut emitter = Emitter::new(gpu, packets.reserve(), spans, epoch_signal, (overlapping, ordering));
        if wait_count > 0 {
            for wait in waits.iter() {
                emitter.wait_below(wait.signal, epoch_threshold(wait.epoch));
            }
        }
        let progress = operation.write(&mut emitter);
        // A panic up to here leaves packets that do nothing, without a record.
        emitter.end();
        if wait_count > 0 {
            for wait in waits.iter() {
                waited[wait.queue as usize] = wait.epoch;
                queue.frontier.record_wait(wait.queue);
            }
            waits.clear();
        }
        if progress == Progress::More {
            record.fill(Record::part(ends));
            emitter.publish();
            // The next part starts after this one has, and so behind what this one is behind; what else orders them is
            // recorded.
            ordering = QueueOrdering::Unordered;
            has_parts = true;
            continue;
        }
        commit(queue, operation, record, signals, retained, ends, &mut emitter);
        drop(emitter);
        drop(submission);
        operation.on_submitted(queue, epoch);
        return Ok(());
    }
}

/// Packets that are written, or known, but not published.
trait Publish {
    /// Stores the headers and rings the doorbell.
    fn publish(self);
}

impl Publish for &mut Emitter<'_> {
    #[inline(always)]
    fn publish(self) {
        zone!("publish");
        Emitter::publish(self);
    }
}

/// The only packet of a submission, and its reserved slot.
struct UnpublishedPacket<'a> {
    packets: AqlRoom<'a>,
    body: PacketBody,
    header: HeaderWord,
    /// The GPU whose kernargs are to be published, if there are any.
    flush: Option<&'a Gpu>,
}

impl Publish for UnpublishedPacket<'_> {
    #[inline(always)]
    fn publish(self) {
        zone!("publish");
        if let Some(gpu) = self.flush {
            gpu.publish_kernargs();
        }
        coherent::publish();
        let mut packet = self.packets.reserve();
        packet.write(&self.body, Some(self.header));
        packet.publish();
    }
}

/// Ends an operation whose last packets are written, or known, but not published: fills the completion record, then
/// publishes the packets.
#[inline(always)]
fn commit<S: Signals>(
    queue: &Queue,
    operation: &mut (impl Operation + ?Sized),
    record: Vacancy<'_, Record>,
    signals: S,
    retained: RetainedSet,
    ends: RingEnds,
    packets: impl Publish,
) {
    let epoch = record.epoch();
    let action = operation.completion_action();
    signals.note_submitted(queue, epoch);
    let signals = signals.retain();
    // The record first, so that completion finds it, then the packets.
    record.fill(Record { signals, retained, action, ends });
    packets.publish();
}

/// The reason for which the queue takes no more submissions. If that is the loss of its device, parts of an operation
/// may still run: stops the hardware, so that they do not use memory that the operation releases.
#[cold]
fn closed(queue: &Queue) -> Status {
    if queue.failure().is_some() {
        queue.inactivate();
    }
    let stopped = || crate::status!(FAILED_PRECONDITION, "the queue has stopped");
    queue.check_alive().err().unwrap_or_else(stopped)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::ptr::null_mut;
    use std::sync::Mutex;

    use super::*;
    use crate::core::operations::transfer::Barrier;
    use crate::core::profile::EventInfo;
    use crate::core::profile::session::Session;
    use crate::core::queue::demand::Demand;
    use crate::core::queue::epoch_wait::EpochWait;
    use crate::core::queue::record::CompletionAction;
    use crate::ffi::profile::schema::QueueEventKind;
    use crate::ffi::{BufferHandle, Resource, iree, raw, status};
    use crate::testing::{self, List, Rig, params};

    /// The first queue of the rig's device, idle.
    fn queue(rig: &Rig) -> Arc<Queue> {
        let (queue, _) = testing::queue(rig);
        queue.wait_until_drained();
        queue
    }

    /// Records if the hardware of a queue was stopped when a buffer was destroyed.
    struct Witness {
        queue: Arc<Queue>,
        was_stopped: Mutex<Option<bool>>,
    }

    unsafe extern "C" fn note_end(witness: *mut c_void, _buffer: *mut raw::iree_hal_buffer_t) {
        // SAFETY: the witness lives until the test ends.
        let witness = unsafe { &*witness.cast::<Witness>() };
        *witness.was_stopped.lock().unwrap() = Some(witness.queue.inactivated.is_completed());
    }

    /// Memory whose end calls `witness`.
    fn memory(rig: &Rig, bytes: &mut [u64], witness: &Witness) -> BufferHandle {
        let mut buffer = null_mut();
        // SAFETY: the bytes and the witness outlive the buffer; the result goes to a local, with its reference.
        unsafe {
            let mut external: raw::iree_hal_external_buffer_t = std::mem::zeroed();
            external.type_ = raw::IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION;
            external.size = size_of_val(bytes);
            external.handle.host_allocation.ptr = bytes.as_mut_ptr().cast();
            let usage = raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
            let host = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
            let release = raw::iree_hal_buffer_release_callback_t {
                fn_: Some(note_end),
                user_data: (&raw const *witness).cast_mut().cast(),
            };
            let (allocator, params) = (rig.allocator(), params(host, usage));
            iree!(raw::iree_hal_allocator_import_buffer(
                allocator,
                params,
                &raw mut external,
                release,
                &raw mut buffer
            ))
            .unwrap();
            BufferHandle::from_owned(buffer).unwrap()
        }
    }

    /// An operation whose device is lost and whose ring is closed when it has retained what it uses.
    struct Unlucky(Mutex<Option<Resource>>);

    impl Operation for Unlucky {
        fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
            Ok(Planned::Ready(Demand { overlapping: true, ..Demand::default() }))
        }

        fn write(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
            Progress::Done
        }

        fn retained_resources(&self, queue: &Queue) -> Result<RetainedSet> {
            // Nobody is woken: the submission thread would stop the hardware, too.
            let _ = queue.shared().lost_status.set(status!(DATA_LOSS, "on purpose"));
            queue.rings.lock().closed = true;
            RetainedSet::new(queue.vec_pools(), self.0.lock().unwrap().take(), 0, std::iter::empty())
        }

        fn completion_action(&mut self) -> CompletionAction {
            CompletionAction::None
        }

        fn profile_event(&self, _session: &Session) -> EventInfo {
            EventInfo::of(QueueEventKind::Barrier)
        }
    }

    impl Submit for Unlucky {
        type Owned = Self;

        fn into_owned(self) -> Result<Self> {
            Ok(self)
        }
    }

    #[test]
    fn a_lost_device_is_stopped_before_memory_goes_that_its_packets_may_use() {
        let rig = Rig::new();
        let witness = Witness { queue: queue(&rig), was_stopped: Mutex::default() };
        let mut bytes = vec![0; 1024];
        let kept = memory(&rig, &mut bytes, &witness).into_resource();
        let unlucky = Unlucky(Mutex::new(Some(kept)));
        let refused = submit(&witness.queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || unlucky).unwrap_err();
        assert_eq!(refused.code(), crate::ffi::Code::DATA_LOSS);
        assert_eq!(*witness.was_stopped.lock().unwrap(), Some(true));
        drop(submit(&witness.queue, SemaphoreList::EMPTY, SemaphoreList::EMPTY, || Barrier));
    }

    /// An operation that writes fewer packets than it asked for.
    struct Careless;

    impl Operation for Careless {
        fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
            Ok(Planned::Ready(Demand { packets: 2, ..Demand::default() }))
        }

        fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
            emitter.barrier();
            Progress::Done
        }

        fn retained_resources(&self, _queue: &Queue) -> Result<RetainedSet> {
            Ok(RetainedSet::NONE)
        }

        fn completion_action(&mut self) -> CompletionAction {
            CompletionAction::None
        }

        fn profile_event(&self, _session: &Session) -> EventInfo {
            EventInfo::of(QueueEventKind::Barrier)
        }
    }

    impl Submit for Careless {
        type Owned = Self;

        fn into_owned(self) -> Result<Self> {
            Ok(self)
        }
    }

    /// An operation that is impossible.
    struct Impossible;

    impl Operation for Impossible {
        fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
            Err(status!(INVALID_ARGUMENT, "on purpose"))
        }

        fn write(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
            Progress::Done
        }

        fn retained_resources(&self, _queue: &Queue) -> Result<RetainedSet> {
            Ok(RetainedSet::NONE)
        }

        fn completion_action(&mut self) -> CompletionAction {
            CompletionAction::None
        }

        fn profile_event(&self, _session: &Session) -> EventInfo {
            EventInfo::of(QueueEventKind::Barrier)
        }
    }

    impl Submit for Impossible {
        type Owned = Self;

        fn into_owned(self) -> Result<Self> {
            Ok(self)
        }
    }

    #[test]
    fn signals_of_what_is_refused_are_untouched_however_many() {
        let rig = Rig::new();
        let queue = queue(&rig);
        for count in 1..=4 {
            let semaphores: Vec<_> = (0..count).map(|_| rig.semaphore()).collect();
            let signals: Vec<_> = semaphores.iter().map(|semaphore| (semaphore, 1)).collect();
            let list = List::new(&signals);
            let list = list.raw();
            // SAFETY: the list and its semaphores live as long as this.
            let list = unsafe { SemaphoreList::from_raw(&list) }.unwrap();
            let refused = submit(&queue, SemaphoreList::EMPTY, list, || Impossible).unwrap_err();
            assert_eq!(refused.code(), crate::ffi::Code::INVALID_ARGUMENT);
            for semaphore in &semaphores {
                assert_eq!(semaphore.borrow().query().unwrap(), 0, "of {count}");
            }
            submit(&queue, SemaphoreList::EMPTY, list, || Barrier).unwrap();
            for semaphore in &semaphores {
                testing::wait(semaphore, 1).unwrap();
            }
        }
    }

    #[test]
    fn a_submission_that_panics_takes_no_epoch() {
        let rig = Rig::new();
        let queue = queue(&rig);
        let none = SemaphoreList::EMPTY;
        let submission = std::panic::AssertUnwindSafe(|| submit(&queue, none, none, || Careless));
        assert!(std::panic::catch_unwind(submission).is_err());
        assert_eq!(queue.single_entry_frontier(&[]), Some((queue.axis(), 1)));
    }

    #[test]
    fn a_frontier_of_many_queues_is_whole() {
        let rig = Rig::new();
        let queue = queue(&rig);
        let axes = |frontier: crate::ffi::Frontier| frontier.entries().map(|(_, epoch)| epoch).collect::<Vec<_>>();
        assert_eq!(queue.single_entry_frontier(&[]), Some((queue.axis(), 1)));
        {
            let mut submission = queue.rings.lock();
            for ordinal in 1..64 {
                submission.waited[ordinal] = ordinal as u64;
                queue.frontier.record_wait(ordinal as u32);
            }
        }
        assert_eq!(queue.single_entry_frontier(&[]), None);
        let epochs: Vec<_> = (1..64).collect();
        assert_eq!(axes(queue.frontier(&[]))[1..], epochs);
    }
}
