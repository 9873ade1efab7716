// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Missing wait states on any path. A rule looks back from an instruction, first in its block; where it looks at all of
//! that, it looks again with each block before it, and so on. Where that makes too many paths, it looks at each block
//! once, as LLVM's `getWaitStatesSince` does.

use super::graph::Graph;
use crate::sanitizer::hazard::{Hazard, Hazards, OnPath, Sgprs};
use std::collections::{HashSet, VecDeque};

/// Most instructions that a rule looks at on a path.
const LENGTH: usize = 256;

/// Most paths on which a rule looks back from one instruction, before it looks at each block once.
const PATHS: u32 = 4096;

/// A violated rule.
pub(super) struct Violation {
    pub number: u32,
    pub hazard: Hazard,
    /// Blocks from the other instruction's to this one's.
    pub path: Vec<usize>,
}

pub(super) struct HazardCheck<'a> {
    hazards: &'a Hazards,
    graph: &'a Graph,
    wave64: bool,
}

/// The blocks of a path and the instructions of all of them before the instruction that is looked at, the last first.
struct Way {
    blocks: Vec<usize>,
    steps: Vec<u32>,
    /// Paths that may still be looked at.
    left: u32,
    /// The blocks looked at, if each is looked at once.
    seen: Option<HashSet<usize>>,
}

impl<'a> HazardCheck<'a> {
    pub fn new(hazards: &'a Hazards, graph: &'a Graph, wave64: bool) -> Self {
        HazardCheck { hazards, graph, wave64 }
    }

    pub fn run(&self) -> Vec<Violation> {
        let mut found = self.scalars();
        for (at, block) in self.graph.blocks.iter().enumerate() {
            for (index, number) in block.steps.iter().enumerate() {
                for rule in self.hazards.rules_of(*number) {
                    let steps: Vec<u32> = block.steps[..index].iter().rev().take(LENGTH).copied().collect();
                    let mut way = Way { blocks: vec![at], steps: steps.clone(), left: PATHS, seen: None };
                    let mut hazard = self.look(rule, *number, &mut way);
                    if way.left == 0 {
                        way = Way { blocks: vec![at], steps, left: u32::MAX, seen: Some(HashSet::new()) };
                        hazard = self.look(rule, *number, &mut way);
                    }
                    if let Some(hazard) = hazard {
                        let path = self.trim(&way, hazard.other);
                        found.push(Violation { number: *number, hazard, path });
                    }
                }
            }
        }
        found
    }

    /// Looks back on a path, and on those that go further back. If it finds something, the path stays as it is then.
    fn look(&self, rule: usize, number: u32, way: &mut Way) -> Option<Hazard> {
        match self.hazards.on_path(rule, number, &way.steps) {
            OnPath::Nothing => return None,
            OnPath::Found(hazard) => return Some(hazard),
            OnPath::TooShort if way.steps.len() >= LENGTH => return None,
            OnPath::TooShort => {}
        }
        let (first, length) = (*way.blocks.last()?, way.steps.len());
        for before in &self.graph.blocks[first].before {
            if way.left == 0 {
                return None;
            }
            if way.seen.as_mut().is_some_and(|seen| !seen.insert(*before)) {
                continue;
            }
            way.left -= 1;
            way.blocks.push(*before);
            way.steps.extend(self.graph.blocks[*before].steps.iter().rev());
            if let Some(hazard) = self.look(rule, number, way) {
                return Some(hazard);
            }
            way.steps.truncate(length);
            way.blocks.pop();
        }
        None
    }

    /// The blocks of a path from the nearest one with an instruction on, in the order of the path.
    fn trim(&self, way: &Way, other: u32) -> Vec<usize> {
        let has = |block: &usize| self.graph.blocks[*block].steps.contains(&other);
        // The block of the instruction itself counts only if the other is in front of it there.
        let inside = way.blocks.iter().skip(1).map(|block| self.graph.blocks[*block].steps.len()).sum::<usize>();
        let own = way.steps.len().saturating_sub(inside);
        let nearest = match way.steps[..own].contains(&other) {
            true => 0,
            false => way.blocks.iter().skip(1).position(has).map_or(0, |at| at + 1),
        };
        let mut path: Vec<usize> = way.blocks[..=nearest].to_vec();
        path.reverse();
        path
    }

    /// Scalar registers of gfx12, whose history goes through the whole code: where paths join, an access that is
    /// outstanding on one of them, or was read there, counts.
    fn scalars(&self) -> Vec<Violation> {
        let blocks = &self.graph.blocks;
        let mut found = Vec::new();
        if !self.hazards.follows() {
            return found;
        }
        let mut states: Vec<Option<Sgprs>> = vec![None; blocks.len()];
        let mut pending: VecDeque<usize> = self.graph.roots.iter().copied().collect();
        for root in &self.graph.roots {
            states[*root] = Some(Sgprs::NEW);
        }
        let step = |state: &mut Sgprs, number: u32| state.step(number, self.hazards.facts(number), self.wave64);
        while let Some(at) = pending.pop_front() {
            let Some(mut state) = states[at].clone() else { continue };
            for number in &blocks[at].steps {
                step(&mut state, *number);
            }
            for to in &blocks[at].after {
                let is_more = match &mut states[*to] {
                    Some(known) => known.join(&state),
                    none => {
                        *none = Some(state.clone());
                        true
                    }
                };
                if is_more {
                    pending.push_back(*to);
                }
            }
        }
        for (at, state) in states.into_iter().enumerate() {
            let Some(mut state) = state else { continue };
            for number in &blocks[at].steps {
                if let Some(hazard) = step(&mut state, *number) {
                    let path = self.shortest(hazard.other, at);
                    found.push(Violation { number: *number, hazard, path });
                }
            }
        }
        found
    }

    /// The blocks of a shortest way from an instruction's block to another.
    fn shortest(&self, other: u32, to: usize) -> Vec<usize> {
        let blocks = &self.graph.blocks;
        let Some(from) = blocks.iter().position(|block| block.steps.contains(&other)) else { return vec![to] };
        let mut came = vec![None; blocks.len()];
        let mut pending = VecDeque::from([from]);
        while let Some(at) = pending.pop_front() {
            if at == to {
                break;
            }
            for next in &blocks[at].after {
                if came[*next].is_none() && *next != from {
                    came[*next] = Some(at);
                    pending.push_back(*next);
                }
            }
        }
        let mut path: Vec<usize> = std::iter::successors(Some(to), |at| came[*at]).collect();
        path.reverse();
        path
    }
}
