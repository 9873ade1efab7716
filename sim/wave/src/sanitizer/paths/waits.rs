// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Missing waits on any path: for each operation that may be outstanding at a place, how many of its class have been
//! issued at least since. Where paths join, the lowest number of them counts, as for LLVM's `SIInsertWaitcnts`.

use super::graph::Graph;
use crate::sanitizer::counters::{Class, Issue, Waits};
use crate::sanitizer::plan::{Lanes, Plan, Span, Step};
use sim_isa::Target;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// For each class that counts an operation, how many of that class have been issued since; `None` if it is complete.
type Since = [Option<u32>; 2];

/// Outstanding operations, by the instruction that issued them.
type State = BTreeMap<u32, Since>;

/// A register is read or overwritten before an operation that writes it is complete.
pub(super) struct Missing {
    pub number: u32,
    /// The instruction that issued the operation.
    pub other: u32,
    /// Name of the register, and true if it is read.
    pub register: String,
    pub is_read: bool,
    /// The missing waits, in assembly.
    pub waits: Vec<String>,
    /// Blocks from the one to the other.
    pub path: Vec<usize>,
}

pub(super) struct WaitCheck<'a> {
    plan: &'a Plan,
    graph: &'a Graph,
    target: Target,
}

impl<'a> WaitCheck<'a> {
    pub fn new(plan: &'a Plan, graph: &'a Graph, target: Target) -> Self {
        WaitCheck { plan, graph, target }
    }

    pub fn run(&self) -> Vec<Missing> {
        let blocks = &self.graph.blocks;
        let mut states: Vec<Option<State>> = vec![None; blocks.len()];
        let mut pending: BTreeSet<usize> = self.graph.roots.iter().copied().collect();
        for root in &self.graph.roots {
            states[*root] = Some(State::new());
        }
        while let Some(at) = pending.pop_first() {
            let mut state = states[at].clone().unwrap_or_default();
            for number in &blocks[at].steps {
                self.step(*number, &mut state, |_| {});
            }
            for to in &blocks[at].after {
                if join(&mut states[*to], &state) {
                    pending.insert(*to);
                }
            }
        }
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for (at, state) in states.into_iter().enumerate() {
            let Some(mut state) = state else { continue };
            for number in &blocks[at].steps {
                self.step(*number, &mut state, |conflict| {
                    if seen.insert((*number, conflict.other)) {
                        found.push((at, *number, conflict));
                    }
                });
            }
        }
        let of_step: HashMap<u32, usize> =
            (0..blocks.len()).flat_map(|at| blocks[at].steps.iter().map(move |step| (*step, at))).collect();
        let finding = |(at, number, conflict): (usize, u32, Conflict)| {
            let waits: Vec<String> = self
                .classes(self.plan.at(conflict.other))
                .into_iter()
                .zip(conflict.since)
                .filter_map(|(class, since)| Some((class?, since?)))
                .map(|(class, since)| {
                    let needed = if class.is_ordered() { since } else { 0 };
                    class.counter(self.target).wait(self.target, needed)
                })
                .collect();
            let register = self.plan.name(conflict.register);
            let path = self.path((of_step[&conflict.other], conflict.other), (at, number));
            Missing { number, other: conflict.other, register, is_read: conflict.is_read, waits, path }
        };
        found.into_iter().map(finding).collect()
    }

    /// Classes that count an instruction's operation. Where a flat access goes is not known: before gfx10 it is in no
    /// order with others.
    fn classes(&self, step: &Step) -> [Option<Class>; 2] {
        match step.issue {
            None => [None, None],
            Some(Issue::One(class)) => [Some(class), None],
            Some(Issue::Flat(_)) if self.target.is_gfx9() => [Some(Class::FlatLoad), Some(Class::FlatLds)],
            Some(Issue::Flat(class)) => [Some(class), Some(Class::Lds)],
        }
    }

    /// Follows outstanding operations through an instruction. Reports each that the instruction does not wait for, and
    /// that is complete then.
    fn step(&self, number: u32, state: &mut State, mut tell: impl FnMut(Conflict)) {
        let step = self.plan.at(number);
        if let Some(waits) = &step.waits {
            state.retain(|other, since| self.waits(waits, *other, since));
        }
        state.retain(|other, since| match self.conflict(step, *other) {
            Some((register, is_read)) => {
                tell(Conflict { other: *other, since: *since, register, is_read });
                false
            }
            None => true,
        });
        let issued = self.classes(step);
        for class in issued.into_iter().flatten() {
            state.retain(|other, since| self.issues(class, *other, since));
        }
        if issued != [None; 2] && self.plan.writes(step).iter().any(|span| span.lanes != Lanes::ActiveByM0) {
            state.insert(number, issued.map(|class| class.map(|_| 0)));
        }
    }

    /// True if an operation may be outstanding behind a wait.
    fn waits(&self, waits: &Waits, other: u32, since: &mut Since) -> bool {
        let classes = self.classes(self.plan.at(other));
        for (class, since) in classes.into_iter().zip(since.iter_mut()) {
            let Some(class) = class else { continue };
            let most = waits.0[class.counter(self.target) as usize].map(u32::from);
            let is_complete = most.is_some_and(|most| match class.is_ordered() {
                true => since.is_some_and(|since| since >= most),
                false => most == 0,
            });
            if is_complete {
                *since = None;
            }
        }
        *since != [None; 2]
    }

    /// True if an operation may be outstanding behind the issue of another, which waits for room in the counter.
    fn issues(&self, class: Class, other: u32, since: &mut Since) -> bool {
        let limit = class.counter(self.target).limit(self.target);
        let classes = self.classes(self.plan.at(other));
        for (_, since) in classes.into_iter().zip(since.iter_mut()).filter(|(of, _)| *of == Some(class)) {
            *since = since.map(|since| since + 1).filter(|since| *since < limit || !class.is_ordered());
            *since = since.map(|since| since.min(limit));
        }
        *since != [None; 2]
    }

    /// The first register that an instruction reads or overwrites although an outstanding operation will write it, and
    /// true if it reads the register.
    fn conflict(&self, step: &Step, other: u32) -> Option<(u16, bool)> {
        let by = self.plan.at(other);
        let common = |span: &Span| {
            let is_known = |one: &&Span| one.lanes != Lanes::ActiveByM0;
            self.plan.writes(by).iter().filter(is_known).find_map(|written| {
                let first = span.first.max(written.first);
                let end = (span.first + span.count).min(written.first + written.count);
                (first < end && span.halves & written.halves != 0 && is_known(&span)).then_some(first)
            })
        };
        let classes = self.classes(by);
        let is_in_order = classes[1].is_none()
            && classes[0]
                .is_some_and(|class| class.writes_in_order(self.target) && step.issue == Some(Issue::One(class)));
        let read = self.plan.reads(step).iter().find_map(common).map(|register| (register, true));
        read.or_else(|| {
            let written = self.plan.writes(step).iter().find_map(common);
            written.filter(|_| !is_in_order).map(|register| (register, false))
        })
    }

    /// A shortest path on which an operation of instruction `other` is outstanding at another instruction.
    fn path(&self, (from, other): (usize, u32), (to, number): (usize, u32)) -> Vec<usize> {
        let blocks = &self.graph.blocks;
        let start = blocks[from].steps.iter().position(|step| *step == other).map_or(0, |at| at + 1);
        let since = self.classes(self.plan.at(other)).map(|class| class.map(|_| 0));
        // Each place with the one that it was reached from.
        let mut places: Vec<(usize, Since, Option<usize>)> = vec![(from, since, None)];
        let mut seen = BTreeSet::new();
        let mut pending = VecDeque::from([(0, start)]);
        while let Some((place, start)) = pending.pop_front() {
            let (block, mut since, _) = places[place];
            let mut is_outstanding = true;
            for step in &blocks[block].steps[start..] {
                if let Some(waits) = &self.plan.at(*step).waits {
                    is_outstanding = self.waits(waits, other, &mut since);
                }
                if (block, *step) == (to, number) && is_outstanding {
                    let mut path: Vec<usize> =
                        std::iter::successors(Some(place), |place| places[*place].2).map(|n| places[n].0).collect();
                    path.reverse();
                    return path;
                }
                // Its own next operation takes its place.
                is_outstanding &= *step != other;
                for class in self.classes(self.plan.at(*step)).into_iter().flatten() {
                    is_outstanding = is_outstanding && self.issues(class, other, &mut since);
                }
                if !is_outstanding {
                    break;
                }
            }
            if is_outstanding {
                for next in &blocks[block].after {
                    if seen.insert((*next, since)) {
                        places.push((*next, since, Some(place)));
                        pending.push_back((places.len() - 1, 0));
                    }
                }
            }
        }
        Vec::new()
    }
}

struct Conflict {
    other: u32,
    since: Since,
    register: u16,
    is_read: bool,
}

/// Adds the operations that may be outstanding on another path. True if that is more.
fn join(into: &mut Option<State>, from: &State) -> bool {
    let Some(into) = into else {
        *into = Some(from.clone());
        return true;
    };
    let mut is_more = false;
    for (number, since) in from {
        match into.get_mut(number) {
            None => {
                into.insert(*number, *since);
                is_more = true;
            }
            Some(known) => {
                for (known, since) in known.iter_mut().zip(since) {
                    let least = known.iter().chain(since).min().copied();
                    is_more |= least != *known;
                    *known = least;
                }
            }
        }
    }
    is_more
}
