// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The way of a submission: waits -> plan -> reserve -> write -> record -> publish.
//!
//! [`submit`] takes an operation. If its waits are satisfied or expressible as packets, and the rings have space for
//! which no other submission waits, it is in the ring when the call returns and, unless it is large, nothing was
//! allocated. Otherwise it is boxed and resumed by the queue's submission thread. If an error is returned, the signal
//! semaphores are untouched.

use std::sync::Arc;

use crate::deferred::{Deferred, PendingSubmission, Resumption, RingWaiter, Work};
use crate::emitter::{Emitter, SinglePacketSpace};
use crate::epoch_wait::{EpochWaits, QueueOrdering};
use crate::host_worker::HostTask;
use crate::operation::{Operation, Planned, Progress, Submit};
use crate::record::{Record, RingEnds};
use crate::retained::RetainedSet;
use crate::signal_list::SignalList;
use crate::signals::Signals;
use crate::trace::traced::Traced;
use crate::{Queue, Submission, waits};
use amdgpu_ffi::{Result, SemaphoreList, Status, fallible, zone};
use amdgpu_gpu::{Gpu, coherent};
use amdgpu_ring::{AqlRoom, HeaderWord, KERNARG_ALIGNMENT, PacketBody, Vacancy, epoch_threshold};

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

/// Submits an operation or defers it.
#[inline(always)]
fn submit_or_defer<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    make: impl FnOnce() -> O,
    begin: impl FnOnce(&mut O),
) -> Result<()> {
    submit_or(queue, waits, signals, make, begin, |operation, failure| match failure {
        None => Deferred::arm_all(queue, waits, signals, || Ok(Work::Packets(into_deferred(operation)?))),
        Some(failure) => {
            // Accepted, and never run.
            drop(operation.into_owned());
            fail(signals, failure);
            Ok(())
        }
    })
}

/// As [`submit`], without a profile and only if the host need not wait for anything: otherwise nothing is done, and
/// false is returned. No callback runs.
#[cold]
pub fn submit_to_ring<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    operation: O,
) -> Result<bool> {
    let mut is_submitted = true;
    submit_or(
        queue,
        waits,
        signals,
        || operation,
        |_| (),
        |_, _| {
            is_submitted = false;
            Ok(())
        },
    )?;
    Ok(is_submitted)
}

/// Submits an operation, or passes it to `other` if only the host can see one of the waits, or one has failed. `make`
/// makes the operation in place and `begin` is called on it there: moving it would cost as much as a packet does.
#[inline(always)]
fn submit_or<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    make: impl FnOnce() -> O,
    begin: impl FnOnce(&mut O),
    other: impl FnOnce(O, Option<Status>) -> Result<()>,
) -> Result<()> {
    zone!("submit");
    let mut operation = make();
    begin(&mut operation);
    queue.check_alive()?;
    let mut epochs = EpochWaits::new();
    let ordering = match waits::resolve(queue, waits, &mut epochs) {
        Ok(Some(ordering)) => ordering,
        Ok(None) => return other(operation, None),
        Err(failure) => return other(operation, Some(failure)),
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
    // A queue that is stopping goes on with accepted work: the ring may hold some of its parts already.
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
            // The next part starts after this one has, and so behind all work before this one; their further order is
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
    signals.record_submission(queue, epoch);
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
    let stopped = || amdgpu_ffi::status!(FAILED_PRECONDITION, "the queue has stopped");
    queue.check_alive().err().unwrap_or_else(stopped)
}

#[cfg(test)]
#[path = "submit_test.rs"]
mod tests;
