// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The packets of one operation that carry completion signals of their own, or are counted and traced.

use std::sync::Arc;

use hsa_abi::HsaSignal;

use crate::demand::{Demand, RingLimits};
use amdgpu_ffi::Status;
use amdgpu_hsa as hsa;
use amdgpu_hsa::aqlprofile::TraceCapture;
use amdgpu_profile::counters::Count;
use amdgpu_profile::pool::Pooled;
use amdgpu_profile::session::Session;
use amdgpu_profile::{FunctionRef, LaunchInfo, counters, thread_traces};

/// The packets of an operation that carry signals of their own, with these signals, counters and traces.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// A device queue event is wanted.
    whole: bool,
    /// Dispatch events are wanted.
    pub(super) launches: bool,
    /// Events of a recording's regions are wanted.
    pub(super) regions: bool,
    /// The number of parts that are in the ring.
    pub(super) parts: u32,
    /// The part being written ends with a packet that marks its end.
    pub(super) marked: bool,
    /// The signals; those from `used` on are free.
    pub(super) signals: Vec<hsa::Signal>,
    used: usize,
    /// The number of packets before the packet of the last announced launch, and if it has a dispatch event.
    pub(super) coming: Option<(u32, bool)>,
    pub(super) launched: Vec<Launched>,
    /// The launches of all parts that may be counted or traced, in their order.
    pub(super) watched: Option<Arc<[FunctionRef]>>,
    /// How many of them, from the first on, are counted.
    pub(super) to_count: usize,
    /// The counter samples; those from `used_counts` on are free.
    pub(super) counts: Vec<Count>,
    pub(super) used_counts: usize,
    /// The counter sample of the launch being written, if it is counted.
    pub(super) counting: Option<usize>,
    /// How many of them, from the first on, are traced.
    pub(super) to_trace: usize,
    /// The thread traces; those from `used_traces` on are free.
    pub(super) traces: Vec<Pooled<TraceCapture>>,
    pub(super) used_traces: usize,
    /// The thread trace of the launch being written, if it is traced.
    pub(super) tracing: Option<usize>,
    /// Packets that are reserved in the part and that no launch has needed yet.
    pub(super) owed: u32,
    /// Signals of the first and the last packet.
    pub(super) first: Option<usize>,
    pub(super) last: Option<usize>,
}

/// A launch of the operation.
#[derive(Debug)]
pub(super) struct Launched {
    /// The index of its packet's signal.
    pub(super) signal: usize,
    pub(super) info: LaunchInfo,
    /// The indices of its counter sample and its thread trace, if it has them.
    pub(super) count: Option<usize>,
    pub(super) trace: Option<usize>,
}

impl Launched {
    /// A launch whose packet is not written yet.
    pub(super) fn new(info: LaunchInfo) -> Self {
        Self { signal: 0, info, count: None, trace: None }
    }
}

impl Packets {
    /// True if launches carry signals.
    pub(super) fn has_launches(&self) -> bool {
        self.launches || self.regions
    }

    /// Prepares for a part on the session's GPU `gpu`, and adds its packets to `demand`: a packet that marks the end if
    /// the part may have more than one packet, and the packets for counters and traces. A barrier carries the epoch in
    /// place of the last packet.
    pub(super) fn prepare(&mut self, session: &Session, limits: RingLimits, waits: u32, gpu: u32, demand: &mut Demand) {
        if !self.whole && !self.has_launches() {
            return;
        }
        let most_launches = demand.packets;
        self.prepare_captures(session, limits, waits, gpu, *demand);
        self.marked = self.whole && !(self.parts == 0 && demand.packets == 1);
        let launches = if self.has_launches() { most_launches as usize } else { 0 };
        let wanted = self.used + launches + usize::from(self.whole) + usize::from(self.marked);
        if self.signals.len() < wanted
            && let Err(status) = session.take_signals(&mut self.signals, wanted)
        {
            session.fail(
                status.annotate("a profiling session lost device events: there are no signals for their packets"),
            );
            (self.whole, self.launches, self.regions, self.marked) = (false, false, false, false);
            (self.to_count, self.to_trace, self.owed) = (0, 0, 0);
            // A span that has begun has no end.
            (self.first, self.last) = (None, None);
            return;
        }
        if launches > 0 {
            self.launched.reserve(launches);
        }
        demand.packets += u32::from(self.marked) + self.owed;
        demand.overlapping = true;
    }

    /// Takes counter samples and thread traces for as many of the remaining watched launches as the part may have.
    fn prepare_captures(&mut self, session: &Session, limits: RingLimits, waits: u32, gpu: u32, demand: Demand) {
        self.owed = 0;
        let Some(watched) = self.watched.clone() else { return };
        let most = demand.packets;
        // With the packet that marks the end.
        let fits = |packets: u32| {
            let packets = most.saturating_add(packets).saturating_add(1);
            limits.check_fits(Demand { packets, ..demand }, waits)
        };
        let counted = (self.to_count - self.used_counts).min(most as usize);
        if let Some(counters) = session.counters().filter(|_| counted > 0) {
            let packets = (counted as u32).saturating_mul(counters::PACKETS);
            let wanted = self.used_counts + counted;
            let mut take = || {
                fits(packets)?;
                for function in watched.iter().take(wanted).skip(self.counts.len()) {
                    self.counts.push(counters.take(gpu, *function)?);
                }
                Ok(())
            };
            match take() {
                Ok(()) => self.owed = packets,
                Err(status) => {
                    self.to_count = self.used_counts;
                    session.fail(Status::annotate(status, "a profiling session lost counter samples"));
                }
            }
        }
        let traced = (self.to_trace - self.used_traces).min(most as usize);
        if let Some(traces) = session.traces().filter(|_| traced > 0) {
            let packets = self.owed.saturating_add(traced as u32 * thread_traces::PACKETS);
            let wanted = self.used_traces + traced;
            let mut take = || {
                fits(packets)?;
                while self.traces.len() < wanted {
                    self.traces.push(traces.take(gpu)?);
                }
                Ok(())
            };
            match take() {
                Ok(()) => self.owed = packets,
                Err(status) => {
                    self.to_trace = self.used_traces;
                    session.fail(Status::annotate(status, "a profiling session lost executable traces"));
                }
            }
        }
    }

    /// True if the announced launch is at most `distance` packets away and is to be counted and traced.
    pub(super) fn chosen_within(&self, distance: u32) -> bool {
        self.coming.as_ref().is_some_and(|(before, is_chosen)| *before <= distance && *is_chosen)
    }

    /// True if there is a counter sample for one more launch.
    pub(super) fn counts_more(&self) -> bool {
        self.used_counts < self.to_count
    }

    /// True if there is a thread trace for one more launch.
    pub(super) fn traces_more(&self) -> bool {
        self.used_traces < self.to_trace
    }

    /// Selects the launches `watched` for the counters and traces of `session`.
    #[cold]
    pub(super) fn watch(&mut self, watched: Option<Arc<[FunctionRef]>>, session: &Session) {
        let count = watched.as_ref().map_or(0, |watched| watched.len());
        self.to_count = if session.counters().is_some() { count } else { 0 };
        self.to_trace = if session.traces().is_some() { count } else { 0 };
        self.watched = watched;
    }

    /// Resets the packets for a new operation. The flags select launch, whole-operation and region events.
    pub(super) fn begin(&mut self, (launches, whole, regions): (bool, bool, bool)) {
        (self.launches, self.whole, self.regions) = (launches, whole, regions);
        (self.to_count, self.to_trace) = (0, 0);
        (self.parts, self.used, self.used_counts, self.used_traces, self.owed) = (0, 0, 0, 0, 0);
        self.marked = false;
        self.coming = None;
        (self.counting, self.tracing, self.first, self.last) = (None, None, None, None);
    }

    fn use_signal(&mut self) -> usize {
        self.used += 1;
        self.used - 1
    }

    /// The signal for the packet that is written now.
    #[inline(always)]
    pub(super) fn next(&mut self) -> HsaSignal {
        let is_launch = match &mut self.coming {
            Some((0, _)) => true,
            Some((before, _)) => {
                *before -= 1;
                false
            }
            None => false,
        };
        let is_first = self.whole && self.first.is_none();
        if !is_launch && !is_first {
            return HsaSignal::NULL;
        }
        let index = self.use_signal();
        if is_launch && let Some(launched) = self.launched.last_mut() {
            self.coming = None;
            (launched.signal, launched.count, launched.trace) = (index, self.counting, self.tracing);
        }
        if is_first {
            self.first = Some(index);
            self.last = Some(index);
        }
        self.signals[index].handle()
    }

    /// The signal of the packet that marks the end.
    pub(super) fn mark(&mut self) -> HsaSignal {
        let index = self.use_signal();
        self.first.get_or_insert(index);
        self.last = Some(index);
        self.signals[index].handle()
    }
}
