// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How a submission waits for its semaphores: not at all, by a packet in front of it, or by deferral until the host
//! sees them reached.

use crate::Queue;
use crate::epoch_wait::{EpochWait, EpochWaits, QueueOrdering};
use crate::last_signal::LastSignal;
use crate::semaphore::{payload, payload_and_timeline};
use crate::timeline::Timeline;
use amdgpu_ffi::{Result, Semaphore, SemaphoreList, zone};

/// Resolves `waits` for a submission to `queue` at this moment. If the submission can go to the ring now, adds the
/// packets that it needs in front to `epochs` and returns its ordering. Returns none if only the host can see one of
/// the waits.
///
/// Work of the same queue needs no packet: the submission comes behind it. Work of another queue of the same logical
/// device that is known to be submitted needs one packet where the packet processor has such a packet, and none when an
/// earlier submission of this queue has waited for it.
///
/// # Errors
/// The failure of a wait semaphore that has failed.
#[inline(always)]
pub fn resolve(queue: &Queue, waits: SemaphoreList<'_>, epochs: &mut EpochWaits) -> Result<Option<QueueOrdering>> {
    zone!("resolve waits");
    let mut ordering = QueueOrdering::Unordered;
    let mut waits = waits.iter();
    while let Some((semaphore, value)) = waits.next() {
        let (now, timeline) = payload_and_timeline(semaphore)?;
        if now >= value {
            continue;
        }
        let timeline = timeline.filter(|timeline| timeline.device_id() == queue.shared().id);
        let Some(last) = timeline.and_then(Timeline::last_signal).filter(|last| last.value >= value) else {
            return by_host(waits);
        };
        if last.queue != queue.ordinal() && !add_epoch(queue, last, epochs) {
            return by_host(waits);
        }
        ordering = QueueOrdering::AfterPrior;
    }
    Ok(Some(ordering))
}

/// Returns none, for a wait on the host, unless one of the `rest` has failed.
#[inline(never)]
fn by_host<'a>(rest: impl Iterator<Item = (Semaphore<'a>, u64)>) -> Result<Option<QueueOrdering>> {
    for (semaphore, _) in rest {
        payload(semaphore)?;
    }
    Ok(None)
}

/// True if the host need not wait for any of `waits`.
///
/// # Errors
/// The failure of a wait semaphore that has failed.
pub fn are_reached(waits: SemaphoreList<'_>) -> Result<bool> {
    let mut reached = true;
    for (semaphore, value) in waits.iter() {
        let now = payload(semaphore)?;
        reached &= now >= value;
    }
    Ok(reached)
}

/// Adds the wait for `last`, of another queue, to `epochs`. Returns false if the packet processor cannot do it.
#[inline(never)]
fn add_epoch(queue: &Queue, last: LastSignal, epochs: &mut EpochWaits) -> bool {
    if queue.gpu().device_wait().is_none() {
        return false;
    }
    match epochs.iter_mut().find(|wait| wait.queue == last.queue) {
        Some(wait) => wait.epoch = wait.epoch.max(last.epoch),
        None => {
            epochs.push(EpochWait { queue: last.queue, signal: queue.epoch_signal_of(last.queue), epoch: last.epoch })
        }
    }
    true
}
