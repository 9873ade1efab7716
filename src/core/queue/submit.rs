// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The way of a submission: prepare -> waits -> reserve -> emit -> publish, each stage consuming the one before it.
//!
//! [`submit`] takes an operation. When its waits are satisfied or expressible as packets, and the rings have room for which
//! no other one waits, it is in the ring when the call returns and, unless it is a large one, nothing was allocated.
//! Otherwise it is boxed and goes on later from the queue's completion thread. An error returned here has not touched the
//! signal semaphores.

use std::sync::Arc;

use crate::core::queue::complete::{Record, RingEnds};
use crate::core::queue::deferred::{Deferred, PlaceInLine, Ready, Resumption, Work};
use crate::core::queue::operation::{Emitter, Operation, Prepared, Progress, Resources, Spans, Submit};
use crate::core::queue::timeline::SignalList;
use crate::core::queue::trace::{Trace, Traced};
use crate::core::queue::waits::{self, EpochWaits, Place};
use crate::core::queue::{Queue, Submission};
use crate::ffi::{Result, SemaphoreList, Status};
use crate::ring::{EpochProducer, KERNARG_ALIGNMENT, epoch_threshold};

/// What a submission signals: semaphores of the caller's list, or kept ones if it goes on later.
enum Signals<'a> {
    Borrowed(SemaphoreList<'a>),
    Owned(SignalList),
}

impl Signals<'_> {
    /// They go with a record, or are kept for later.
    #[inline]
    fn retain(self) -> SignalList {
        match self {
            Self::Borrowed(list) => SignalList::retain(list),
            Self::Owned(signals) => signals,
        }
    }
}

/// Where an operation is that the submission path could not bring to its end.
enum Unfinished<'a> {
    /// A ring is full; the operation may have some of its parts in the ring already.
    Parked(Signals<'a>),
    /// The operation itself has something to wait for.
    Blocked(Box<dyn FnOnce(Resumption) + Send>, Signals<'a>),
    /// Impossible. Only an operation's first part can be.
    Failed(Status, Signals<'a>),
}

impl<'a> Unfinished<'a> {
    /// What is left of a submission after this: one that found a ring full, in its place in `line` if it waited for room
    /// before. One that has something else to wait for goes on from there.
    ///
    /// # Errors
    /// Why it is impossible, and what it was to signal.
    #[cold]
    fn settle(
        self,
        queue: &Arc<Queue>,
        operation: impl FnOnce() -> Box<dyn Operation>,
        waits: EpochWaits,
        line: Option<PlaceInLine>,
    ) -> std::result::Result<Option<Ready>, (Status, Signals<'a>)> {
        let ready = |signals: Signals<'_>, place| Ready {
            work: Work::Packets(operation()),
            waits,
            signals: signals.retain(),
            failure: None,
            place,
        };
        match self {
            Self::Parked(signals) => {
                let place = line.unwrap_or_else(|| PlaceInLine::new(queue.line()));
                Ok(Some(ready(signals, Some(place))))
            }
            Self::Blocked(later, signals) => {
                later(Resumption::new(queue.clone(), ready(signals, None)));
                Ok(None)
            }
            Self::Failed(failure, signals) => Err((failure, signals)),
        }
    }
}

/// Submits `operation` to `queue` after `waits`; `signals` follow its completion.
///
/// # Errors
/// The operation is impossible or the device lost; the signal semaphores are untouched.
#[inline]
pub fn submit<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    operation: O,
) -> Result<()> {
    if queue.shared().profiler.is_active() {
        return submit_traced(queue, waits, signals, operation);
    }
    place(queue, waits, signals, operation)
}

/// The same under a profiling session, if there still is one.
#[cold]
fn submit_traced<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    operation: O,
) -> Result<()> {
    let Some(session) = queue.shared().profiler.session() else { return place(queue, waits, signals, operation) };
    let subject = operation.subject(&session);
    let trace = Trace::new(session, queue, subject, waits.len(), signals.len());
    place(queue, waits, signals, Traced::new(operation.into_owned(), trace))
}

/// Brings `operation` to the ring, or keeps it for later.
fn place<O: Submit>(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    mut operation: O,
) -> Result<()> {
    queue.check_alive()?;
    let mut epochs = EpochWaits::new();
    let place = match waits::resolve(queue, waits, &mut epochs) {
        Ok(Some(place)) => place,
        Ok(None) => {
            Deferred::arm(queue, Work::Packets(later(operation)), waits, SignalList::retain(signals));
            return Ok(());
        }
        Err(failure) => {
            operation.deferred();
            drop(operation);
            fail(signals, failure);
            return Ok(());
        }
    };
    let outcome = if queue.has_line() {
        stand_in_line(queue, &mut operation, &epochs, signals)
    } else {
        advance(queue, &mut operation, (&mut epochs, place), Signals::Borrowed(signals))
    };
    let Err(unfinished) = outcome else { return Ok(()) };
    match unfinished.settle(queue, || later(operation), epochs, None) {
        Ok(parked) => parked.into_iter().for_each(|ready| queue.add_ready(ready)),
        Err((failure, _)) => return Err(failure),
    }
    Ok(())
}

/// Has the operation wait for room behind others. What is impossible is said now, all the same.
#[cold]
fn stand_in_line<'a>(
    queue: &Queue,
    operation: &mut impl Operation,
    waits: &EpochWaits,
    signals: SemaphoreList<'a>,
) -> std::result::Result<(), Unfinished<'a>> {
    let signals = Signals::Borrowed(signals);
    Err(match operation.prepare(queue, waits) {
        Ok(Prepared::Ready(demand)) => match queue.check_fits(demand, waits.len()) {
            Ok(()) => Unfinished::Parked(signals),
            Err(status) => Unfinished::Failed(status, signals),
        },
        Ok(Prepared::Blocked(later)) => Unfinished::Blocked(later, signals),
        Err(status) => Unfinished::Failed(status, signals),
    })
}

/// The operation, to go on later.
#[cold]
fn later<O: Submit>(operation: O) -> Box<dyn Operation> {
    let mut operation = operation.into_owned();
    operation.deferred();
    Box::new(operation)
}

/// Fails what a submission was to signal whose wait has failed.
#[cold]
fn fail(signals: SemaphoreList<'_>, failure: Status) {
    SignalList::retain(signals).fail(failure);
}

/// Runs `task` on the host worker once `waits` are reached; the task signals `signals`.
///
/// # Errors
/// The device is lost; the signal semaphores are untouched.
pub fn submit_host(
    queue: &Arc<Queue>,
    waits: SemaphoreList<'_>,
    signals: SemaphoreList<'_>,
    task: impl FnOnce(SignalList) + Send + 'static,
) -> Result<()> {
    queue.check_alive()?;
    match waits::are_reached(waits) {
        Ok(true) => queue.run_on_host(Box::new(task), SignalList::retain(signals)),
        Ok(false) => Deferred::arm(queue, Work::Host(Box::new(task)), waits, SignalList::retain(signals)),
        Err(failure) => fail(signals, failure),
    }
    Ok(())
}

/// Goes on with submissions whose waits are over, from the completion thread; returns the ones that found a ring full.
pub fn resume(queue: &Arc<Queue>, ready: Ready) -> Option<Ready> {
    let Ready { work, mut waits, signals, failure, place } = ready;
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
            let outcome = advance(queue, &mut *operation, (&mut waits, Place::Behind), Signals::Owned(signals));
            let Err(unfinished) = outcome else { return None };
            match unfinished.settle(queue, || operation, waits, place) {
                Ok(parked) => return parked,
                Err((failure, signals)) => signals.retain().fail(failure),
            }
        }
    }
    None
}

/// Puts the operation's parts into the ring, one epoch each, until it is done or a ring is full.
#[inline]
fn advance<'a>(
    queue: &Arc<Queue>,
    operation: &mut (impl Operation + ?Sized),
    (waits, mut place): (&mut EpochWaits, Place),
    signals: Signals<'a>,
) -> std::result::Result<(), Unfinished<'a>> {
    let mut keep = Resources::new();
    loop {
        let demand = match operation.prepare(queue, waits) {
            Ok(Prepared::Ready(demand)) => demand,
            Ok(Prepared::Blocked(later)) => return Err(Unfinished::Blocked(later, signals)),
            Err(status) => return Err(Unfinished::Failed(status, signals)),
        };
        if let Err(status) = queue.check_fits(demand, waits.len()) {
            return Err(Unfinished::Failed(status, signals));
        }
        if keep.is_empty() {
            keep = operation.keep(queue);
        }
        let mut submission = queue.lock_submission();
        if submission.closed {
            let stopped = || crate::status!(FAILED_PRECONDITION, "the queue has stopped");
            return Err(Unfinished::Failed(queue.check_alive().err().unwrap_or_else(stopped), signals));
        }
        if !waits.is_empty() {
            waits.retain(|wait| !submission.has_waited_for(wait));
        }
        // With nothing to run, the last wait carries the epoch.
        let overlapping = demand.overlapping && (demand.packets > 0 || waits.is_empty());
        let packet_count = demand.packets + waits.len() as u32 + u32::from(overlapping);
        if queue.records().is_full() || !submission.aql.has_room(packet_count) {
            return Err(Unfinished::Parked(signals));
        }
        let command_bytes = (waits.len() as u64 + u64::from(demand.has_commands)) * KERNARG_ALIGNMENT;
        if submission.commands.as_ref().is_some_and(|commands| !commands.has_room(command_bytes)) {
            return Err(Unfinished::Parked(signals));
        }
        let kernarg_bytes = demand.kernarg_bytes.next_multiple_of(KERNARG_ALIGNMENT);
        let Some(kernargs) = submission.kernargs.reserve(kernarg_bytes) else {
            return Err(Unfinished::Parked(signals));
        };
        let Submission { aql, waited, waited_queues, records, commands, .. } = &mut *submission;
        let commands = commands.as_mut().and_then(|commands| commands.reserve(command_bytes));
        let ends = RingEnds { kernargs: kernargs.end, commands: commands.map_or(0, |commands| commands.end) };
        let Some(reservation) = aql.reserve(packet_count) else {
            return Err(Unfinished::Parked(signals));
        };
        let spans = Spans { kernargs, kernarg_bytes, commands };
        let mut emitter =
            Emitter::new(queue.gpu(), reservation, spans, queue.epoch_signal().handle(), (overlapping, place));
        for wait in waits.iter() {
            emitter.wait_below(wait.signal, epoch_threshold(wait.epoch));
            waited[wait.queue as usize] = wait.epoch;
            *waited_queues |= 1 << wait.queue;
        }
        waits.clear();
        if demand.packets > 0 {
            queue.note_work(queue.records().last_epoch() + 1);
        }
        if operation.emit(&mut emitter) == Progress::More {
            push_record(records, Record::part(ends));
            emitter.publish();
            // The next part starts after this one has, and so behind what this one is behind; what else orders them is recorded.
            place = Place::Anywhere;
            continue;
        }
        let action = operation.finish();
        let epoch = queue.records().last_epoch() + 1;
        let signals = signals.retain();
        signals.note_submitted(queue, epoch);
        // The record first, so that completion finds it, then the packets.
        push_record(records, Record { signals, keep, action, ends });
        emitter.publish();
        drop(submission);
        operation.submitted(queue, epoch);
        return Ok(());
    }
}

/// Appends the record of the next epoch, for which there is room.
#[inline]
fn push_record(records: &mut EpochProducer<Record>, record: Record) {
    records.push_with_room(record);
}
