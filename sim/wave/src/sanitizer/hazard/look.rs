// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! History of a wave's instructions, and searches in it for earlier ones.

use super::facts::{Facts, Kind, Regs};
use sim_isa::Target;
use std::cell::Cell;
use std::ops::Range;

/// Maximum number of micro-operations that a look goes back.
const DEPTH: usize = 64;

/// The last micro-operations of a wave.
#[derive(Clone)]
pub(crate) struct Window {
    ops: [u32; DEPTH],
    /// Total number of micro-operations so far.
    count: usize,
}

impl Window {
    pub const NEW: Window = Window { ops: [0; DEPTH], count: 0 };

    #[inline]
    pub fn push(&mut self, op: u32) {
        self.ops[self.count % DEPTH] = op;
        self.count += 1;
    }

    fn back(&self) -> impl Iterator<Item = u32> {
        (self.count.saturating_sub(DEPTH)..self.count).rev().map(|at| self.ops[at % DEPTH])
    }
}

/// A violated rule.
pub(crate) struct Hazard {
    pub what: String,
    /// The other instruction.
    pub other: u32,
}

/// A look back from an instruction.
pub(crate) struct Look<'a> {
    pub target: Target,
    /// The instruction, and its number.
    pub this: &'a Facts,
    pub number: u32,
    /// Facts of all instructions of the program.
    pub facts: &'a [Facts],
    /// The instructions of each micro-operation.
    pub of: &'a [Range<u32>],
    /// The micro-operation that it belongs to, and those before.
    pub op: u32,
    pub window: &'a Window,
    /// Instructions before those of the window, the last first, on a path that no wave has taken.
    pub path: &'a [u32],
    /// Set once all of these have been looked at.
    pub is_exhausted: Cell<bool>,
    /// True if the program sets SCHED_MODE: it waits itself for registers that hardware would wait for.
    pub is_expert: bool,
}

impl<'a> Look<'a> {
    /// The instructions that the wave executed before this one, the last first.
    pub fn back(&self) -> impl Iterator<Item = (u32, &'a Facts)> {
        let (of, facts, path) = (self.of, self.facts, self.path);
        let of_this = of[self.op as usize].start..self.number;
        let of_others = self.window.back().flat_map(move |op| of[op as usize].clone().rev());
        let end = std::iter::from_fn(|| {
            self.is_exhausted.set(true);
            None
        });
        let all = of_this.rev().chain(of_others).chain(path.iter().copied()).chain(end);
        all.map(move |number| (number, &facts[number as usize]))
    }

    /// The last instruction for which `is` holds, if fewer than `limit` wait states are between the two; and their
    /// number.
    pub fn nearest(&self, limit: u8, is: impl Fn(&Facts) -> bool) -> Option<(u32, &'a Facts, u8)> {
        self.within(limit).find(|(_, facts, _)| is(facts))
    }

    /// The instructions fewer than `limit` wait states before this one, the last first; and the number of these.
    pub fn within(&self, limit: u8) -> impl Iterator<Item = (u32, &'a Facts, u8)> {
        let before = move |states: &mut u8, (number, facts): (u32, &'a Facts)| {
            let between = *states;
            *states = states.saturating_add(facts.states);
            (between < limit).then_some((number, facts, between))
        };
        self.back().scan(0, before)
    }

    /// Finds the last instruction for which `is` holds, if fewer than `needed` wait states are between the two. `what`
    /// describes the two in the finding.
    pub fn wait_states(&self, needed: u8, what: &str, is: impl Fn(&Facts) -> bool) -> Option<Hazard> {
        let (other, _, states) = self.nearest(needed, is)?;
        Some(Self::too_few(needed, states, what, other))
    }

    /// Finds the last instruction of kind `by` that has written a register which this one reads and `which` accepts, if
    /// `needed` wait states are not between the two.
    pub fn written(&self, needed: u8, by: Kind, what: &str, which: impl Fn(Regs) -> bool) -> Option<Hazard> {
        self.this.reads().filter(|regs| which(*regs)).find_map(|regs| {
            let is = |facts: &Facts| facts.kind.intersects(by) && facts.writes_any_of(regs);
            let (other, _, states) = self.nearest(needed, is)?;
            Some(Self::too_few(needed, states, &format!("{} {what}", regs.name()), other))
        })
    }

    pub fn too_few(needed: u8, states: u8, what: &str, other: u32) -> Hazard {
        let states = if states == 1 { "there is 1".to_owned() } else { format!("there are {states}") };
        let plural = if needed == 1 { "wait state is" } else { "wait states are" };
        Hazard { what: format!("{what}: {needed} {plural} needed between the two, and {states}"), other }
    }

    /// The last instruction for which `is` holds, unless one for which `ends` holds follows it.
    pub fn since(&self, is: impl Fn(&Facts) -> bool, ends: impl Fn(&Facts) -> bool) -> Option<u32> {
        for (number, facts) in self.back() {
            if is(facts) {
                return Some(number);
            }
            if ends(facts) {
                return None;
            }
        }
        None
    }
}
