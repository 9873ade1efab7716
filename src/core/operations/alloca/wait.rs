// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The reservations of allocations, and their waits for memory.

use smallvec::SmallVec;

use amdgpu_ffi::pool::{Observation, Pool, Reservation};
use amdgpu_ffi::{Frontier, Result};
use amdgpu_profile::memory::PoolTrace;
use amdgpu_queue::Queue;
use amdgpu_queue::blocked::Blocked;
use amdgpu_queue::epoch_wait::EpochWait;
use amdgpu_queue::operation::Planned;

/// The position of an allocation in the order of its device's queues.
pub struct Position {
    frontier: Frontier,
    edge: Edge,
}

/// Epochs after which everything that an allocation is ordered after has passed: the last epoch of its queue, which
/// covers the queue's own waits, and the epochs that the allocation itself waits for.
pub type Edge = SmallVec<[(u64, u64); 2]>;

impl Position {
    /// The position of a submission to `queue` behind `waits`.
    pub fn new(queue: &Queue, waits: &[EpochWait]) -> Self {
        if let Some((axis, epoch)) = queue.single_entry_frontier(waits) {
            let entry = std::iter::once((axis, epoch)).filter(|(_, epoch)| *epoch != 0);
            return Self { frontier: Frontier::new(entry.clone()), edge: entry.collect() };
        }
        let frontier = queue.frontier(waits);
        let is_edge = |axis| axis == queue.axis() || waits.iter().any(|wait| queue.axis_of(wait.queue) == axis);
        let edge = frontier.entries().filter(|(axis, _)| is_edge(*axis)).collect();
        Self { frontier, edge }
    }
}

/// Memory reserved from a pool, to be given back.
pub struct Reserved {
    /// The reservation.
    pub reservation: Reservation,
    /// The epochs after which it can be reused if it is given back unused.
    pub edge: Edge,
}

impl Reserved {
    /// Reserves `size` bytes for an allocation at `position`, logged by `trace`. The pool may allocate. Returns none if
    /// the pool has no memory; otherwise the reservation gets the position's edge.
    ///
    /// # Errors
    /// The error of the pool: an unsupported alignment, or no memory.
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

    /// Gives the memory back to `pool`, its own, with the epochs that its next user must wait for.
    pub fn give_back(self, pool: Pool<'_>) {
        self.reservation.give_back(pool, &Frontier::new(self.edge.iter().copied()));
    }
}

/// Blocks an allocation until memory comes back to its pool.
pub fn wait_for_release(observation: Observation) -> Planned {
    Planned::Blocked(Box::new(|resumption| Blocked::until_release(resumption, observation)))
}

/// Blocks an allocation until `frontier` has passed, i.e. until the last use of its memory is over.
pub fn wait_for_frontier(frontier: Frontier) -> Planned {
    Planned::Blocked(Box::new(move |resumption| Blocked::until_passed(resumption, &frontier)))
}
