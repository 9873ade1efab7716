// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Clocks of waves: for each other wave, the last of its operations that come before one's own.
//!
//! A wave's operations are counted by the classes of [`super::counters`]. An operation comes before another wave's
//! once it was waited for; its issue alone orders nothing.

use super::counters::{CLASSES, Class};
use super::shadow::Stamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of waves in a clock, which bounds memory and time. A clock that would exceed it counts everything as
/// ordered: races may be missed, but no false one is reported.
const WAVES: usize = 1024;

/// Number of known operations of one wave, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Known to have been issued.
    pub issued: [u32; CLASSES],
    /// Known to have completed.
    pub back: [u32; CLASSES],
}

impl Known {
    /// True if an access comes before. Accesses to memory by the waves of one compute unit are in the order of their
    /// issue, as their cache takes them in order.
    pub fn covers(&self, stamp: &Stamp, in_order: bool) -> bool {
        // A scalar load reads memory that compilers take for constant, and order against nothing.
        let counts = if in_order || stamp.class == Class::Scalar { &self.issued } else { &self.back };
        counts[stamp.class as usize] >= stamp.n
    }

    pub fn join(&mut self, other: &Known) {
        let join = |a: &mut [u32; CLASSES], b: &[u32; CLASSES]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
        };
        join(&mut self.issued, &other.issued);
        join(&mut self.back, &other.back);
    }
}

/// Knowledge of a wave about waves that it has synchronized with through atomics, by their numbers in the dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// True if the clock exceeded its maximum: everything counts as known.
    all: bool,
    waves: BTreeMap<u32, Known>,
}

impl Clock {
    pub fn everything() -> Self {
        Clock { all: true, waves: BTreeMap::new() }
    }

    pub fn covers(&self, stamp: &Stamp, in_order: bool) -> bool {
        self.all || self.waves.get(&stamp.wave).is_some_and(|known| known.covers(stamp, in_order))
    }

    pub fn add(&mut self, wave: u32, known: &Known) {
        if self.all {
            return;
        }
        self.waves.entry(wave).or_default().join(known);
        if self.waves.len() > WAVES {
            *self = Self::everything();
        }
    }

    fn join(&mut self, other: &Clock) {
        if other.all {
            *self = Self::everything();
        }
        other.waves.iter().for_each(|(wave, known)| self.add(*wave, known));
    }
}

/// Merges another clock into this one. Mostly the two are the same.
pub(super) fn join(clock: &mut Arc<Clock>, other: &Arc<Clock>) {
    if !Arc::ptr_eq(clock, other) && **other != Clock::default() && !clock.all {
        Arc::make_mut(clock).join(other);
    }
}
