// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Ranges of time in which a GPU counts: their packets on a queue, and the wait for them.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use hsa_abi::{AmdPm4IbPacket, HsaSignal};

use amdgpu_ffi::profile::schema::QueueEventKind;
use amdgpu_ffi::{Result, Status, status};
use amdgpu_hsa as hsa;
use amdgpu_profile::EventInfo;
use amdgpu_profile::counters::Count;
use amdgpu_profile::session::{Range, Session};
use amdgpu_queue::Queue;
use amdgpu_queue::demand::Demand;
use amdgpu_queue::emitter::Emitter;
use amdgpu_queue::epoch_wait::EpochWait;
use amdgpu_queue::operation::{Operation, Planned, Progress, Submit};
use amdgpu_queue::submit::submit_unprofiled;

/// The ranges that [`turn_over`] has ended and begun.
pub struct Turned {
    /// The ended range, and the tick of its end if that is known.
    pub ended: Option<(Range, Result<u64>)>,
    /// The range that has begun.
    pub begun: Option<Range>,
}

/// The error of [`turn_over`] and its arguments, unchanged; without them if their packets may still be in the queue of
/// a lost device.
pub struct Unturned {
    /// The error.
    pub status: Status,
    /// The range that still counts.
    pub ended: Option<Range>,
    /// The count that has not begun.
    pub begun: Option<Count>,
}

/// Ends the range `ended` and begins a range with `begun`, on `queue` behind the submissions in its ring. Waits until
/// both are done.
///
/// # Errors
/// The device is lost; the error of HSA; RESOURCE_EXHAUSTED if the ring is full and this is the thread that frees its
/// space.
pub fn turn_over(
    queue: &Arc<Queue>,
    session: &Session,
    ended: Option<Range>,
    begun: Option<Count>,
) -> std::result::Result<Turned, Box<Unturned>> {
    let mut signals = Vec::new();
    let epoch = match submit(queue, session, &mut signals, ended.as_ref(), begun.as_ref()) {
        Ok(epoch) => epoch,
        Err(status) => return Err(Box::new(Unturned { status, ended, begun })),
    };
    if !queue.wait_for_epoch(epoch)
        && let Some(failure) = queue.failure()
    {
        // The packets may still be in the queue.
        std::mem::forget((ended, begun, signals));
        return Err(Box::new(Unturned { status: failure.clone(), ended: None, begun: None }));
    }
    let agent = queue.gpu().agent().handle();
    let ended = ended.map(|range| (range, time_of(&signals[0], agent)));
    let begun = begun.map(|count| Range { count, start: time_of(&signals[1], agent) });
    session.return_signals(signals.into_iter());
    Ok(Turned { ended, begun })
}

/// Submits the packets of [`turn_over`] to `queue`, with two of `signals`. Returns their epoch.
fn submit(
    queue: &Arc<Queue>,
    session: &Session,
    signals: &mut Vec<hsa::Signal>,
    ended: Option<&Range>,
    begun: Option<&Count>,
) -> Result<u64> {
    session.take_signals(signals, 2)?;
    let (sender, receiver) = sync_channel(1);
    let counting = Counting {
        ends: ended.map(|range| {
            let packets = range.count.packets();
            (signals[0].handle(), [packets.read, packets.stop])
        }),
        begins: begun.map(|count| (count.packets().start, signals[1].handle())),
        submitted: Some(sender),
        must_not_wait: queue.is_drained_by_this_thread(),
    };
    submit_unprofiled(queue, counting)?;
    receiver.recv().or_else(|_| {
        queue.check_alive()?;
        Err(status!(RESOURCE_EXHAUSTED, "hardware counters cannot be read in a callback of a queue whose ring is full"))
    })
}

/// The system tick at which the barrier packet of a signal completed.
fn time_of(signal: &hsa::Signal, agent: hsa_abi::HsaAgent) -> Result<u64> {
    match signal.dispatch_time(agent)?.end {
        0 => Err(status!(DATA_LOSS, "a range of time is over and the runtime has no times for its packets")),
        tick => Ok(tick),
    }
}

/// The packets of [`turn_over`].
struct Counting {
    /// The signal of a barrier packet, and the packets that read and stop counters behind it.
    ends: Option<(HsaSignal, [AmdPm4IbPacket; 2])>,
    /// The packet that begins to count, and the signal of a barrier packet behind it.
    begins: Option<(AmdPm4IbPacket, HsaSignal)>,
    /// Receives the epoch.
    submitted: Option<SyncSender<u64>>,
    /// The operation must not wait for ring space: this thread would have to free it.
    must_not_wait: bool,
}

impl Submit for Counting {
    type Owned = Self;

    fn into_owned(mut self) -> Result<Self> {
        if self.must_not_wait {
            self.submitted = None;
        }
        Ok(self)
    }
}

impl Operation for Counting {
    fn plan(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Planned> {
        if self.submitted.is_none() {
            return Err(status!(CANCELLED, "nobody waits for it"));
        }
        let packets = self.ends.map_or(0, |_| 3) + self.begins.map_or(0, |_| 2);
        Ok(Planned::Ready(Demand { packets, overlapping: true, ..Demand::default() }))
    }

    fn write(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        if let Some((signal, packets)) = &self.ends {
            emitter.barrier_with(*signal);
            packets.iter().for_each(|packet| emitter.counter_packet(packet));
        }
        if let Some((packet, signal)) = &self.begins {
            emitter.counter_packet(packet);
            emitter.barrier_with(*signal);
        }
        Progress::Done
    }

    fn on_submitted(&mut self, _queue: &Queue, epoch: u64) {
        if let Some(sender) = self.submitted.take() {
            // There is room for it; the receiver waits.
            let _ = sender.send(epoch);
        }
    }

    fn profile_event(&self, _session: &Session) -> EventInfo {
        EventInfo::of(QueueEventKind::Barrier)
    }
}
