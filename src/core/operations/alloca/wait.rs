// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What an allocation takes from its pool, and what it waits for when it cannot.

use smallvec::SmallVec;

use crate::core::profile::memory::PoolTrace;
use crate::core::queue::Queue;
use crate::core::queue::blocked::Blocked;
use crate::core::queue::operation::Prepared;
use crate::core::queue::waits::EpochWait;
use crate::ffi::pool::{Observation, Pool, Reservation};
use crate::ffi::{Frontier, Result};

/// Where an allocation is in the order of its device's queues.
pub struct Position {
    frontier: Frontier,
    edge: Edge,
}

/// When these epochs have passed, so has all that an allocation comes after: the last epoch of its queue, which comes
/// after everything that the queue has waited for, and those that the allocation itself waits for.
pub type Edge = SmallVec<[(u64, u64); 2]>;

impl Position {
    /// That of a submission to `queue` behind `waits`.
    pub fn new(queue: &Queue, waits: &[EpochWait]) -> Self {
        if let Some((axis, epoch)) = queue.only_epoch(waits) {
            let entry = std::iter::once((axis, epoch)).filter(|(_, epoch)| *epoch != 0);
            return Self { frontier: Frontier::new(entry.clone()), edge: entry.collect() };
        }
        let frontier = queue.frontier(waits);
        let is_edge = |axis| axis == queue.axis() || waits.iter().any(|wait| queue.axis_of(wait.queue) == axis);
        let edge = frontier.entries().filter(|(axis, _)| is_edge(*axis)).collect();
        Self { frontier, edge }
    }
}

/// Memory taken from a pool, to which somebody gives it back.
pub struct Reserved {
    /// What the pool gave.
    pub reservation: Reservation,
    /// What it may be given away after, unused.
    pub edge: Edge,
}

impl Reserved {
    /// Takes `size` bytes for an allocation at `position`, of which `trace` tells; the pool may allocate. None when it
    /// has nothing to give; else the edge of the position is the reservation's.
    ///
    /// # Errors
    /// What the pool said: an alignment it does not have, or memory that cannot be had.
    pub fn acquire(
        pool: Pool<'_>,
        size: usize,
        alignment: usize,
        position: &mut Position,
        trace: Option<&PoolTrace>,
    ) -> Result<Option<Self>> {
        let alignment = alignment.max(1);
        let answer = pool.reserve(size, alignment, &position.frontier)?;
        if let Some(trace) = trace {
            trace.reserve(pool, alignment, answer.result, answer.reservation.as_ref().map(Reservation::raw));
        }
        Ok(answer.reservation.map(|reservation| Self { reservation, edge: std::mem::take(&mut position.edge) }))
    }

    /// Gives it back to `pool`, which it is of, with what its next user must come after.
    pub fn give_back(self, pool: Pool<'_>) {
        self.reservation.give_back(pool, &Frontier::new(self.edge.iter().copied()));
    }
}

/// Blocks an allocation until its pool got something back.
pub fn wait_for_release(observation: Observation) -> Prepared {
    Prepared::Blocked(Box::new(|resumption| Blocked::until_release(resumption, observation)))
}

/// Blocks an allocation until `frontier` has passed: the last use of what it got is over then.
pub fn wait_for_frontier(frontier: Frontier) -> Prepared {
    Prepared::Blocked(Box::new(move |resumption| Blocked::until_passed(resumption, &frontier)))
}
