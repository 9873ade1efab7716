// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Knowledge of waves about each other's accesses, and its exchange.

use super::super::clock::{self, Clock, Known};
use super::super::counters::{CLASSES, Class};
use super::super::pending::Pending;
use super::super::plan::Meeting;
use super::super::shadow::Stamp;
use super::Races;
use super::shared::Release;
use crate::memory::Control;
use std::sync::Arc;

/// State of a wave in the race check.
pub(super) struct Visitor {
    /// Operations of the wave at its last signal of the barrier, and at the one before.
    rounds: [Round; 2],
    signals: u32,
    waits: u32,
    /// True if the wave has waited for a barrier, and has not learnt yet from the waves that it met there.
    has_met: bool,
    /// True if the wave has waited for a named barrier, and has not learnt yet from the waves that it met there.
    has_met_named: bool,
    /// Clock of other waves, learnt from atomics.
    pub seen: Arc<Clock>,
    /// Parts of `seen` that reads through its compute unit's cache, and its shader array's, are sure to see.
    in_vector: Arc<Clock>,
    in_array: Arc<Clock>,
    /// gfx942: write-backs of the die's cache that are not known to be complete, and the last complete one. Each has
    /// the operations issued before it and its own number among loads.
    written: Vec<([u32; CLASSES], u32)>,
    /// Last release of the wave.
    pub released: Option<Release>,
}

#[derive(Clone, Default)]
pub(super) struct Round {
    own: Known,
    seen: Arc<Clock>,
    in_vector: Arc<Clock>,
    in_array: Arc<Clock>,
}

/// Signals at a named barrier up to a round.
#[derive(Clone, Default)]
pub(super) struct NamedRound {
    /// Number of the round plus one; 0 if there is none.
    number: u32,
    /// Operations and knowledge of the signalling waves, by wave.
    known: Vec<Known>,
    seen: Arc<Clock>,
    in_vector: Arc<Clock>,
    in_array: Arc<Clock>,
}

impl Visitor {
    /// State of a new wave, which knows `nothing` of others.
    pub fn new(nothing: &Arc<Clock>) -> Self {
        Visitor {
            rounds: Default::default(),
            signals: 0,
            waits: 0,
            has_met: false,
            has_met_named: false,
            seen: nothing.clone(),
            in_vector: nothing.clone(),
            in_array: nothing.clone(),
            written: Vec::new(),
            released: None,
        }
    }
}

impl Races<'_> {
    /// Records that a wave comes to a barrier.
    pub fn meet<const L: usize>(&mut self, wave: usize, meeting: Meeting, pending: &Pending<L>) {
        let visitor = &mut self.visitors[wave];
        if matches!(meeting, Meeting::Signal | Meeting::Both) {
            let Visitor { seen, in_vector, in_array, .. } = visitor;
            visitor.rounds[visitor.signals as usize % 2] = Round {
                own: pending.known(),
                seen: seen.clone(),
                in_vector: in_vector.clone(),
                in_array: in_array.clone(),
            };
            visitor.signals += 1;
        }
        if matches!(meeting, Meeting::Wait | Meeting::Both) {
            visitor.waits += 1;
            visitor.has_met = true;
        }
    }

    /// Records that a wave continues. If it has met others at a barrier, it acquires their operations up to then.
    /// `named` is the named barrier that it has joined, and the number of its rounds that are over for the wave.
    #[inline]
    pub fn go_on(&mut self, wave: usize, named: (usize, u32)) {
        if std::mem::take(&mut self.visitors[wave].has_met) {
            self.learn(wave);
        }
        if std::mem::take(&mut self.visitors[wave].has_met_named) {
            self.learn_named(wave, named);
        }
    }

    /// Records that a wave signals a named barrier in this round.
    pub fn signal_named<const L: usize>(&mut self, wave: usize, barrier: usize, round: u32, pending: &Pending<L>) {
        let count = self.visitors.len();
        if self.named.len() <= barrier {
            self.named.resize_with(barrier + 1, Default::default);
        }
        let [even, odd] = &mut self.named[barrier];
        let (this, last) = if round.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        if this.number != round + 1 {
            // A wave that waits for this round also acquires the last one.
            *this = NamedRound { number: round + 1, ..last.clone() };
            this.known.resize(count, Known::default());
        }
        for (other, known) in this.known.iter_mut().enumerate() {
            match other == wave {
                true => known.join(&pending.known()),
                false => known.join(&self.known[wave * count + other]),
            }
        }
        let visitor = &self.visitors[wave];
        clock::join(&mut this.seen, &visitor.seen);
        clock::join(&mut this.in_vector, &visitor.in_vector);
        clock::join(&mut this.in_array, &visitor.in_array);
    }

    /// Records that a wave waits for the named barrier that it has joined.
    pub fn wait_named(&mut self, wave: usize) {
        self.visitors[wave].has_met_named = true;
    }

    #[cold]
    fn learn_named(&mut self, wave: usize, (joined, rounds): (usize, u32)) {
        let count = self.visitors.len();
        let Some(named) = joined.checked_sub(1).and_then(|barrier| self.named.get(barrier)).cloned() else { return };
        for round in named.iter().filter(|round| (1..=rounds).contains(&round.number)) {
            for (other, known) in round.known.iter().enumerate().filter(|(other, _)| *other != wave) {
                self.known[wave * count + other].join(known);
            }
            let visitor = &mut self.visitors[wave];
            clock::join(&mut visitor.seen, &round.seen);
            clock::join(&mut visitor.in_array, &round.in_array);
            if !self.shared.is_split {
                clock::join(&mut visitor.in_vector, &round.in_vector);
            }
        }
    }

    #[cold]
    fn learn(&mut self, wave: usize) {
        let count = self.visitors.len();
        let waits = self.visitors[wave].waits;
        for other in (0..count).filter(|other| *other != wave) {
            // A wave that has ended before does not count.
            if self.visitors[other].signals < waits {
                continue;
            }
            let round = self.visitors[other].rounds[(waits as usize - 1) % 2].clone();
            self.known[wave * count + other].join(&round.own);
            let visitor = &mut self.visitors[wave];
            clock::join(&mut visitor.seen, &round.seen);
            clock::join(&mut visitor.in_array, &round.in_array);
            if !self.shared.is_split {
                clock::join(&mut visitor.in_vector, &round.in_vector);
            }
        }
    }

    /// Records a cache operation of a wave.
    pub fn control<const L: usize>(&mut self, wave: usize, control: &Control, pending: &Pending<L>) {
        let count = self.visitors.len();
        let visitor = &mut self.visitors[wave];
        if control.invalidate_vector {
            visitor.in_vector = visitor.seen.clone();
            self.fresh[wave * count..(wave + 1) * count].copy_from_slice(&self.known[wave * count..(wave + 1) * count]);
        }
        if control.invalidate_array {
            visitor.in_array = visitor.seen.clone();
        }
        if control.write_back_die {
            let Known { issued, back } = pending.known();
            let is_over = |&(_, n): &([u32; CLASSES], u32)| back[Class::Load as usize] >= n;
            if let Some(last) = visitor.written.iter().rposition(is_over) {
                visitor.written.drain(..last);
            }
            // The operation has not been counted yet.
            visitor.written.push((issued, issued[Class::Load as usize] + 1));
        }
    }

    /// True if an access comes before the current operation of `wave`.
    pub(super) fn is_before(&self, wave: usize, stamp: &Stamp, is_lds: bool, is_cached: bool) -> bool {
        let visitor = &self.visitors[wave];
        let count = self.visitors.len();
        let is_split = self.shared.is_split;
        let of_group = stamp.wave.wrapping_sub(self.first) as usize;
        if of_group < count {
            let in_order = !is_lds && !is_split;
            let needs_fresh = is_cached && is_split;
            let known = if needs_fresh { &self.fresh } else { &self.known };
            let seen = if needs_fresh { &visitor.in_vector } else { &visitor.seen };
            return known[wave * count + of_group].covers(stamp, in_order) || seen.covers(stamp, in_order);
        }
        if !is_cached {
            return visitor.seen.covers(stamp, false);
        }
        // gfx9 has no cache for a shader array.
        visitor.in_vector.covers(stamp, false)
            && (self.shared.target.is_gfx9() || visitor.in_array.covers(stamp, false))
    }

    /// Knowledge that `wave` releases by an atomic or a store. With `is_async` its asynchronous loads are done, which
    /// it need not have waited for.
    pub(super) fn release<const L: usize>(
        &self,
        wave: usize,
        pending: &Pending<L>,
        is_lds: bool,
        is_async: bool,
    ) -> Arc<Clock> {
        let count = self.visitors.len();
        let mut own = pending.known();
        if is_async {
            own.back[Class::AsyncLoad as usize] = own.issued[Class::AsyncLoad as usize];
        }
        if self.shared.target.is_cdna3_or_later() && !is_lds {
            // Up to a write-back that the wave has waited for.
            let done = self.visitors[wave].written.iter().rfind(|(_, n)| own.back[Class::Load as usize] >= *n);
            let written = done.map_or([0; CLASSES], |(issued, _)| *issued);
            own.back.iter_mut().zip(written).for_each(|(back, written)| *back = (*back).min(written));
        }
        let mut clock = self.visitors[wave].seen.clone();
        let changed = Arc::make_mut(&mut clock);
        for other in 0..count {
            let mut known = if other == wave { own } else { self.known[wave * count + other] };
            if known == Known::default() {
                continue;
            }
            if other != wave && !self.shared.is_split {
                // Their stores are in front of this one in the compute unit's way to memory.
                known.back = known.issued;
            }
            changed.add(self.first + other as u32, &known);
        }
        clock
    }
}
