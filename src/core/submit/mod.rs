// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The way of a submission: prepare -> waits -> reserve -> emit -> publish, each stage consuming the one before it.
//!
//! [`submit`] takes an operation with borrowed arguments. When its waits are satisfied or expressible as packets and the rings have room,
//! it is in the ring when the call returns and nothing was allocated. Otherwise the operation is captured and goes on later from the
//! queue's completion thread. An error returned here has not touched the signal semaphores.

pub mod deferred;
pub mod operation;
mod pm4;
pub mod waits;

use std::sync::Arc;

use self::deferred::{Deferred, HostTask, Ready, Resumption, Work};
use self::operation::{Emitter, Operation, Prepared, Progress, Resources, Spans};
use self::waits::{EpochWaits, Place, Resolution};
use crate::core::complete::{Record, RingEnds};
use crate::core::profile::trace::{Trace, Traced};
use crate::core::queue::{HostQueue, Submission};
use crate::core::semaphore::SignalList;
use crate::ffi::{Result, SemaphoreList, Status};
use crate::ring::{EpochProducer, KERNARG_ALIGNMENT, epoch_threshold};

/// Where an operation is after the submission path went on with it.
enum Outcome {
    Submitted,
    /// A ring is full; the operation may have some of its parts in the ring already.
    Parked(SignalList),
    /// The operation itself has something to wait for.
    Blocked(Box<dyn FnOnce(Resumption) + Send>, SignalList),
    /// Impossible. Only an operation's first part can be.
    Failed(Status, SignalList),
}

/// Submits `operation` to `queue` after `waits`; `signals` follow its completion.
///
/// # Errors
/// The operation is impossible or the device lost; the signal semaphores are untouched.
pub fn submit(
    queue: &Arc<HostQueue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    operation: &mut dyn Operation,
) -> Result<()> {
    let Some(session) = queue.shared().profiler.session() else { return place(queue, waits, signals, operation) };
    let subject = operation.subject(&session);
    let trace = Trace::new(session, queue, subject, waits.len(), signals.len());
    place(queue, waits, signals, &mut Traced::new(operation, trace))
}

/// Brings `operation` to the ring, or captures it for later.
fn place(
    queue: &Arc<HostQueue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    operation: &mut dyn Operation,
) -> Result<()> {
    queue.check_alive()?;
    let (mut epochs, place) = match waits::resolve(queue, waits) {
        Ok(Resolution::Ready(epochs, place)) => (epochs, place),
        Ok(Resolution::Defer) => {
            let work = Work::Packets(operation.capture()?);
            return Deferred::arm(queue, work, waits, SignalList::retain(signals));
        }
        Err(failure) => {
            operation.abandon();
            SignalList::retain(signals).fail(failure);
            return Ok(());
        }
    };
    let (later, signals) = match advance(queue, operation, (&mut epochs, place), SignalList::retain(signals)) {
        Outcome::Submitted => return Ok(()),
        Outcome::Parked(signals) => (None, signals),
        Outcome::Blocked(later, signals) => (Some(later), signals),
        Outcome::Failed(status, signals) => {
            signals.forget();
            return Err(status);
        }
    };
    let work = match operation.capture() {
        Ok(operation) => Work::Packets(operation),
        Err(status) => {
            signals.forget();
            return Err(status);
        }
    };
    let ready = Ready { work, waits: epochs, signals, failure: None };
    match later {
        None => queue.add_ready(ready),
        Some(later) => later(Resumption::new(queue.clone(), ready)),
    }
    Ok(())
}

/// Runs `task` on the host worker once `waits` are reached; the task signals `signals`.
///
/// # Errors
/// The device is lost; the signal semaphores are untouched.
pub fn submit_host(
    queue: &Arc<HostQueue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    task: HostTask,
) -> Result<()> {
    queue.check_alive()?;
    Deferred::arm(queue, Work::Host(task), waits, SignalList::retain(signals))
}

/// Goes on with submissions whose waits are over, from the completion thread; returns the ones that found a ring full.
pub fn resume(queue: &Arc<HostQueue>, ready: Ready) -> Option<Ready> {
    let Ready { work, mut waits, signals, failure } = ready;
    // A queue that is stopping goes on with what was accepted: the ring may hold some of its parts already.
    let failure = failure.or_else(|| queue.check_not_lost().err());
    match (work, failure) {
        (Work::Packets(mut operation), Some(failure)) => {
            operation.abandon();
            signals.fail(failure);
        }
        (Work::Host(task), Some(failure)) => {
            drop(task);
            signals.fail(failure);
        }
        (Work::Host(task), None) => queue.run_on_host(task, signals),
        (Work::Packets(mut operation), None) => {
            match advance(queue, &mut *operation, (&mut waits, Place::Behind), signals) {
                Outcome::Submitted => {}
                Outcome::Parked(signals) => {
                    return Some(Ready { work: Work::Packets(operation), waits, signals, failure: None });
                }
                Outcome::Blocked(later, signals) => {
                    let ready = Ready { work: Work::Packets(operation), waits, signals, failure: None };
                    later(Resumption::new(queue.clone(), ready));
                }
                Outcome::Failed(failure, signals) => {
                    operation.abandon();
                    signals.fail(failure);
                }
            }
        }
    }
    None
}

/// Puts the operation's parts into the ring, one epoch each, until it is done or a ring is full.
fn advance(
    queue: &Arc<HostQueue>,
    operation: &mut dyn Operation,
    (waits, mut place): (&mut EpochWaits, Place),
    signals: SignalList,
) -> Outcome {
    loop {
        let demand = match operation.prepare(queue, waits) {
            Ok(Prepared::Ready(demand)) => demand,
            Ok(Prepared::Blocked(later)) => return Outcome::Blocked(later, signals),
            Err(status) => return Outcome::Failed(status, signals),
        };
        if let Err(status) = queue.check_fits(demand, waits.len()) {
            return Outcome::Failed(status, signals);
        }
        let mut submission = queue.lock_submission();
        if submission.closed {
            let stopped = || crate::status!(FAILED_PRECONDITION, "the queue has stopped");
            return Outcome::Failed(queue.check_alive().err().unwrap_or_else(stopped), signals);
        }
        waits.retain(|wait| !submission.has_waited_for(wait));
        // With nothing to run, the last wait carries the epoch.
        let overlapping = demand.overlapping && (demand.packets > 0 || waits.is_empty());
        let packet_count = demand.packets + waits.len() as u32 + u32::from(overlapping);
        if queue.records().is_full() || submission.aql.free() < packet_count {
            return Outcome::Parked(signals);
        }
        let command_bytes = waits.len() as u64 * KERNARG_ALIGNMENT;
        if submission.commands.as_ref().is_some_and(|commands| !commands.has_room(command_bytes)) {
            return Outcome::Parked(signals);
        }
        let kernarg_bytes = demand.kernarg_bytes.next_multiple_of(KERNARG_ALIGNMENT);
        let Some(kernargs) = submission.kernargs.reserve(kernarg_bytes) else {
            return Outcome::Parked(signals);
        };
        let Submission { aql, waited, records, commands, .. } = &mut *submission;
        let commands = commands.as_mut().and_then(|commands| commands.reserve(command_bytes));
        let ends = RingEnds { kernargs: kernargs.end, commands: commands.map_or(0, |commands| commands.end) };
        let Some(reservation) = aql.reserve(packet_count) else {
            return Outcome::Parked(signals);
        };
        let spans = Spans { kernargs, kernarg_bytes, commands };
        let mut emitter =
            Emitter::new(queue.gpu(), reservation, spans, queue.epoch_signal().handle(), (overlapping, place));
        for wait in waits.drain(..) {
            emitter.wait_below(wait.signal, epoch_threshold(wait.epoch));
            waited[wait.queue as usize] = wait.epoch;
        }
        if operation.emit(&mut emitter) == Progress::More {
            push_record(records, Record::part(ends));
            emitter.publish();
            // Recorded barriers between the parts are the queue's order.
            place = Place::Behind;
            continue;
        }
        let mut keep = Resources::new();
        let action = operation.finish(&mut keep);
        let epoch = queue.records().last_epoch() + 1;
        signals.note_submitted(queue, epoch);
        // The record first, so that completion finds it, then the packets.
        push_record(records, Record { signals, keep, action, ends });
        emitter.publish();
        drop(submission);
        operation.submitted(queue.axis(), epoch);
        return Outcome::Submitted;
    }
}

/// Appends the record of the next epoch, for which there is room.
fn push_record(records: &mut EpochProducer<Record>, record: Record) {
    assert!(records.push(record).is_ok(), "the notification ring was checked for room");
}
