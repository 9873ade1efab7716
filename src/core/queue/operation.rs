// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The interface of queue operations to the submission path.

use crate::Queue;
use crate::deferred::Resumption;
use crate::demand::Demand;
use crate::emitter::{Emitter, SinglePacket, SinglePacketSpace};
use crate::epoch_wait::EpochWait;
use crate::record::CompletionAction;
use crate::retained::RetainedSet;
use amdgpu_ffi::Result;
use amdgpu_gpu::Gpu;
use amdgpu_profile::EventInfo;
use amdgpu_profile::session::Session;

/// The result of [`Operation::plan`].
pub enum Planned {
    /// The part can be written with this demand.
    Ready(Demand),
    /// The part waits for something that is neither a semaphore nor a ring (memory of a pool). The function arranges
    /// for [`Resumption::resume`] to be called, on any thread.
    Blocked(Box<dyn FnOnce(Resumption) + Send>),
}

/// The result of [`Operation::write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All of it: the submission signals its semaphores when this part is complete.
    Done,
    /// More parts follow, each an epoch of its own (recorded command buffers larger than the ring).
    More,
}

/// A queue operation on its way to the ring.
///
/// The submission path calls `plan` and `write` in turns, a part at a time, until `write` says [`Progress::Done`], then
/// `completion_action` once and `on_submitted` once. An operation that will never run (a failed wait, a lost device) is
/// dropped, and its drop undoes its effects at the API.
pub trait Operation: Send {
    /// Resolves addresses and geometry of the next part. No lock is held. Every wait is satisfied, or is in `waits` and
    /// goes in front of the part as a packet. May be called again for the same part when a ring was full.
    ///
    /// # Errors
    /// The reason for which the operation is impossible. Only the first part may fail: later ones follow parts that are
    /// in the ring already.
    fn plan(&mut self, queue: &Queue, waits: &[EpochWait]) -> Result<Planned>;

    /// Writes the planned part. Runs under the queue's submission lock: no allocation beyond rare spills, no calls into
    /// IREE. By default the operation has no packets of its own.
    fn write(&mut self, _emitter: &mut Emitter<'_>) -> Progress {
        Progress::Done
    }

    /// Returns the packet of an operation that is a single packet, in place of [`Self::write`] and under the same
    /// rules. Returns none, and takes nothing of the space, if only `write` can write the part; that is the default.
    #[inline(always)]
    fn write_single(&mut self, _gpu: &Gpu, _space: &mut SinglePacketSpace) -> Option<SinglePacket> {
        None
    }

    /// Returns references to the objects that must live until the submission is complete; none by default. They are
    /// also kept while the operation waits for ring space. Called around the first part's plan, and again if that was
    /// blocked. No lock is held.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    #[inline(always)]
    fn retained_resources(&self, _queue: &Queue) -> Result<RetainedSet> {
        Ok(RetainedSet::NONE)
    }

    /// The action at the submission's completion, before semaphores are signaled; none by default. Called once, after
    /// the last part was written, under the queue's submission lock: moves and reference counts only.
    #[inline(always)]
    fn completion_action(&mut self) -> CompletionAction {
        CompletionAction::None
    }

    /// Tells the operation that it is in the ring as a whole and will be complete at `epoch` of `queue`, or is already.
    /// Called once, after `completion_action`, under no lock.
    #[inline(always)]
    fn on_submitted(&mut self, _queue: &Queue, _epoch: u64) {}

    /// Describes the operation for the profile of `session`, and registers the objects that the description refers to.
    /// Called first, if there is a session.
    fn profile_event(&self, session: &Session) -> EventInfo;
}

/// An operation at its submission. It may borrow from its caller; it outlives the call only in its owned form.
pub trait Submit: Operation + Sized {
    /// The owned form, for an operation that cannot be written now (a deferred wait, a full ring), or whose wait has
    /// failed.
    type Owned: Operation + 'static;

    /// Converts the operation to its owned form.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED; the operation was dropped.
    fn into_owned(self) -> Result<Self::Owned>;
}
