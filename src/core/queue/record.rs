// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The completion record of a submission: plain data that the submission writes and the completion reads.

use std::sync::Arc;

use crate::gate::Gate;
use crate::retained::RetainedSet;
use crate::signal_list::SignalList;
use crate::trace::Trace;
use amdgpu_ffi::HalRef;
use amdgpu_memory::transient::Transient;

/// The action of a submission at its completion, before its semaphores advance.
#[derive(Debug)]
pub enum CompletionAction {
    /// Nothing.
    None,
    /// Shows a queue-allocated buffer's memory to the host.
    Commit(HalRef<Transient>),
    /// Takes a queue-allocated buffer's memory away.
    Decommit(HalRef<Transient>),
    /// Ends a gate.
    Gate(Arc<Gate>),
    /// Logs the submission's profile events and performs its own action.
    Log(Box<Trace>),
}

/// Positions in a queue's rings behind the space that a submission uses.
#[derive(Debug, Clone, Copy)]
pub struct RingEnds {
    /// In the kernarg ring.
    pub kernargs: u64,
    /// In the ring of PM4 commands.
    pub commands: u64,
}

/// The completion record of one epoch.
#[derive(Debug)]
pub struct Record {
    /// Semaphores to advance.
    pub signals: SignalList,
    /// Objects to release.
    pub retained: RetainedSet,
    /// The action before the semaphores advance.
    pub action: CompletionAction,
    /// Positions to reclaim up to.
    pub ends: RingEnds,
}

impl Record {
    /// The record of a part that signals nothing: more parts of its operation follow.
    pub fn part(ends: RingEnds) -> Self {
        Self { signals: SignalList::default(), retained: RetainedSet::NONE, action: CompletionAction::None, ends }
    }
}
