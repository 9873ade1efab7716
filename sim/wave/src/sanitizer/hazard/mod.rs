// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hazards that hardware leaves to software: pairs of instructions that need other instructions, or waits, between
//! them.
//!
//! The rules are those of `GCNHazardRecognizer.cpp` of LLVM 22; each names its function there. They are checked in the
//! order in which a wave executes the code, across branches. Wait states are counted as there: one for an instruction,
//! `n + 1` for `s_nop n`. Other waits are `s_waitcnt_depctr` and its like, and instructions that imply them.
//!
//! Modules name only those before them: [`facts`], [`look`], the rules ([`gfx9`], [`matrix`], [`rdna`]), [`sgprs`].

mod facts;
mod gfx9;
mod look;
mod matrix;
mod rdna;
mod sgprs;

pub(crate) use facts::Facts;
use facts::Kind;
use look::Look;
pub(crate) use look::{Hazard, Window};
pub(crate) use sgprs::Sgprs;
use sim_isa::Target;
use std::cell::Cell;
use std::ops::Range;

/// Required distance of two kinds of instructions.
struct Rule {
    on: &'static [Target],
    /// The rule is about an instruction of one of these kinds, with
    earlier: Kind,
    /// one of these behind it.
    later: Kind,
    /// if there are fewer wait states than these between the two.
    within: u8,
    look: fn(&Look) -> Option<Hazard>,
}

/// The last are for waves of 64 lanes alone.
const RULES: [&[Rule]; 4] = [gfx9::RULES, matrix::RULES, rdna::RULES, rdna::WIDE_RULES];

/// Rules for the instructions of a program.
#[derive(Default)]
pub(crate) struct Hazards {
    /// Facts of each instruction.
    facts: Vec<Facts>,
    /// Rules whose instructions the program has.
    rules: Vec<&'static Rule>,
    /// For each instruction, a bit for each rule to look at.
    asks: Vec<u32>,
    /// True if scalar registers have to be tracked.
    follows: bool,
    /// See [`Look::is_expert`].
    is_expert: bool,
    target: Option<Target>,
}

/// Result of a rule on a path.
pub(crate) enum OnPath {
    Nothing,
    Found(Hazard),
    /// Instructions before the path may matter.
    TooShort,
}

/// History of a wave's instructions.
#[derive(Clone)]
pub(crate) struct Trail {
    window: Window,
    sgprs: Sgprs,
    /// Wait states that it has taken.
    states: u64,
    /// Number of wait states at the end of the last instruction of each kind, by the kind's bit.
    last: [u64; 32],
}

impl Trail {
    /// History of a new wave, without earlier instructions in reach.
    pub const NEW: Trail = Trail { window: Window::NEW, sgprs: Sgprs::NEW, states: 1 << 32, last: [0; 32] };

    /// True if an instruction of one of these kinds is fewer than `states` wait states back.
    #[inline]
    fn has_within(&self, kinds: Kind, states: u8) -> bool {
        bits(kinds.bits()).any(|bit| self.states - self.last[bit] < u64::from(states)) || states == u8::MAX
    }

    /// Records an executed instruction.
    #[inline]
    fn step(&mut self, facts: &Facts) {
        self.states += u64::from(facts.states);
        bits(facts.kind.bits()).for_each(|bit| self.last[bit] = self.states);
    }
}

/// The numbers of the bits that are set.
#[inline]
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

impl Hazards {
    /// For a program's instructions.
    pub fn new((target, wave64): (Target, bool), facts: Vec<Facts>) -> Self {
        let present = facts.iter().fold(Kind::empty(), |kinds, facts| kinds | facts.kind);
        let can_matter = |rule: &&Rule| {
            rule.on.contains(&target) && present.intersects(rule.earlier) && present.intersects(rule.later)
        };
        let rules: Vec<&'static Rule> =
            RULES.into_iter().take(if wave64 { 4 } else { 3 }).flatten().filter(can_matter).collect();
        let bit = |facts: &Facts, (n, rule): (usize, &&Rule)| u32::from(facts.kind.intersects(rule.later)) << n;
        let asks =
            facts.iter().map(|facts| rules.iter().enumerate().fold(0, |bits, rule| bits | bit(facts, rule))).collect();
        const SCHED_MODE: u16 = 26;
        let sets = |facts: &Facts| facts.kind.contains(Kind::SETREG) && facts.simm & 63 == SCHED_MODE;
        let is_expert = target.is_gfx12() && facts.iter().any(sets);
        Hazards { facts, rules, asks, follows: target == Target::Gfx1200, is_expert, target: Some(target) }
    }

    /// True if there is anything to check.
    pub fn is_there(&self) -> bool {
        self.follows || !self.rules.is_empty()
    }

    /// True if scalar registers have to be tracked.
    pub fn follows(&self) -> bool {
        self.follows
    }

    pub fn facts(&self, number: u32) -> &Facts {
        &self.facts[number as usize]
    }

    /// The rules about an instruction, for [`Self::on_path`].
    pub fn rules_of(&self, number: u32) -> impl Iterator<Item = usize> + use<> {
        bits(self.asks[number as usize])
    }

    /// Checks a rule for an instruction behind those of a path, the last first.
    pub fn on_path(&self, rule: usize, number: u32, path: &[u32]) -> OnPath {
        let (rule, Some(target)) = (self.rules[rule], self.target) else { return OnPath::Nothing };
        if rule.within != u8::MAX {
            let mut states = 0;
            let mut steps = path.iter().map(|number| self.facts(*number));
            loop {
                match steps.next() {
                    _ if states >= u32::from(rule.within) => return OnPath::Nothing,
                    None => return OnPath::TooShort,
                    Some(facts) if facts.kind.intersects(rule.earlier) => break,
                    Some(facts) => states += u32::from(facts.states),
                }
            }
        }
        // It has no micro-operation.
        let nothing = number..number;
        let look = Look {
            target,
            this: self.facts(number),
            number,
            facts: &self.facts,
            of: std::slice::from_ref(&nothing),
            op: 0,
            window: &Window::NEW,
            path,
            is_exhausted: Cell::new(false),
            is_expert: self.is_expert,
        };
        match (rule.look)(&look) {
            Some(hazard) => OnPath::Found(hazard),
            None if look.is_exhausted.get() => OnPath::TooShort,
            None => OnPath::Nothing,
        }
    }

    /// Checks micro-operation `op`, which a wave reaches after `trail`. `of` are the instructions of each. Reports each
    /// violated rule with its instruction.
    #[inline]
    pub fn step(
        &self,
        (op, of): (u32, &[Range<u32>]),
        (target, wave64): (Target, bool),
        trail: &mut Trail,
        mut tell: impl FnMut(u32, Hazard),
    ) {
        for number in of[op as usize].clone() {
            let this = &self.facts[number as usize];
            for rule in bits(self.asks[number as usize]).map(|at| self.rules[at]) {
                if !trail.has_within(rule.earlier, rule.within) {
                    continue;
                }
                let (facts, window, is_expert) = (&self.facts, &trail.window, self.is_expert);
                let (path, is_exhausted) = (&[][..], Cell::new(false));
                let look = Look { target, this, number, facts, of, op, window, path, is_exhausted, is_expert };
                if let Some(hazard) = (rule.look)(&look) {
                    tell(number, hazard);
                }
            }
            if self.follows
                && let Some(hazard) = trail.sgprs.step(number, this, wave64)
            {
                tell(number, hazard);
            }
            trail.step(this);
        }
        trail.window.push(op);
    }
}
