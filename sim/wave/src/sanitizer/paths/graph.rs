// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The control-flow graph of a kernel and of the functions that it calls.

use crate::flow::{branch_target, falls_through};
use crate::sanitizer::plan::Plan;
use sim_isa::{Inst, Op, Operand, Ty};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A basic block: instructions of which none but the last goes elsewhere than to the next.
pub(super) struct Block {
    /// Instructions, by their numbers in the plan.
    pub steps: Vec<u32>,
    /// Blocks that may follow it, and that it may follow.
    pub after: Vec<usize>,
    pub before: Vec<usize>,
}

/// The blocks that a kernel can reach.
pub(super) struct Graph {
    /// In the order of the code.
    pub blocks: Vec<Block>,
    /// Blocks that waves come to from elsewhere, with nothing outstanding: the kernel's start, and where functions that
    /// are not known return to.
    pub roots: Vec<usize>,
    /// Byte offsets of instructions behind which the code is not followed, with the reason.
    pub unknown: Vec<(u32, String)>,
}

/// A call of a known function.
struct Call {
    function: u32,
    /// Offset of the instruction behind the call.
    back: u32,
    /// First register of the pair that gets the return address.
    link: Option<u8>,
}

/// Pairs of scalar registers with an address in the code: the first register, and the byte offset.
type Known = BTreeMap<u8, u32>;

/// Instructions on the way from the kernel's start, and where they go.
#[derive(Default)]
struct Walk {
    known: BTreeMap<u32, Known>,
    /// Where instructions that are no plain ones go, without the instruction behind them if that is next.
    jumps: BTreeMap<u32, Vec<u32>>,
    calls: BTreeMap<u32, Call>,
    /// Jumps to an address in a register pair that is not known.
    loose: BTreeMap<u32, Option<u8>>,
    roots: BTreeSet<u32>,
    unknown: BTreeMap<u32, String>,
}

impl Graph {
    /// Follows the code from byte offset `entry` on. `insts` are the instructions by their offsets.
    pub fn new(plan: &Plan, insts: &HashMap<u32, (u32, Inst)>, entry: u32) -> Self {
        let mut walk = Walk::default();
        walk.roots.insert(entry);
        walk.follow(insts, entry);
        walk.find_returns(insts);
        walk.blocks(plan, insts)
    }
}

impl Walk {
    fn follow(&mut self, insts: &HashMap<u32, (u32, Inst)>, entry: u32) {
        let mut pending = vec![(entry, Known::new())];
        while let Some((offset, known)) = pending.pop() {
            let Some((_, inst)) = insts.get(&offset) else {
                self.unknown.insert(offset, "there is no instruction that can be decoded".to_owned());
                continue;
            };
            let known = match self.known.get(&offset) {
                Some(before) => {
                    let both: Known = known.into_iter().filter(|(pair, at)| before.get(pair) == Some(at)).collect();
                    if both == *before {
                        continue;
                    }
                    both
                }
                None => known,
            };
            self.known.insert(offset, known.clone());
            let next = offset + u32::from(inst.size);
            let pair = |operand: Operand| if let Operand::Sgpr(n) = operand { Some(n) } else { None };
            let target = match inst.op {
                Op::SSetpcB64 | Op::SSwappcB64 => pair(inst.src[0]).and_then(|n| known.get(&n).copied()),
                _ => branch_target(inst, offset),
            };
            let after = step(known, inst, next);
            match (inst.op, target) {
                (Op::SSwappcB64 | Op::SCallB64, Some(function)) => {
                    self.calls.insert(offset, Call { function, back: next, link: pair(inst.dst) });
                    self.jumps.insert(offset, vec![function]);
                    pending.push((next, Known::new()));
                    pending.push((function, after));
                }
                (Op::SSwappcB64, None) => {
                    let what = "the called function is unknown; it is assumed to wait for everything";
                    self.unknown.insert(offset, what.to_owned());
                    self.jumps.insert(offset, Vec::new());
                    self.roots.insert(next);
                    pending.push((next, Known::new()));
                }
                (Op::SSetpcB64 | Op::SAddPcI64 | Op::SRfeB64, None) => {
                    self.loose.insert(offset, pair(inst.src[0]));
                    self.jumps.entry(offset).or_default();
                }
                (op, target) => {
                    if let Some(target) = target {
                        let jumps = self.jumps.entry(offset).or_default();
                        if !jumps.contains(&target) {
                            jumps.push(target);
                        }
                        pending.push((target, after.clone()));
                    }
                    if falls_through(op) {
                        pending.push((next, after));
                    } else {
                        self.jumps.entry(offset).or_default();
                    }
                }
            }
        }
    }

    /// Finds where the called functions return: at a jump through the register pair of the return address. A function
    /// without one returns as one that is not known.
    fn find_returns(&mut self, insts: &HashMap<u32, (u32, Inst)>) {
        let mut returns = BTreeSet::new();
        for (function, calls) in self.calls_by_function() {
            let backs: Vec<u32> = calls.iter().map(|call| self.calls[call].back).collect();
            let links: Vec<Option<u8>> = calls.iter().map(|call| self.calls[call].link).collect();
            let body = self.body(insts, function);
            let here: Vec<u32> = self
                .loose
                .iter()
                .filter(|(at, pair)| body.contains(at) && pair.is_some() && links.contains(pair))
                .map(|(at, _)| *at)
                .collect();
            for at in &here {
                self.jumps.insert(*at, backs.clone());
                returns.insert(*at);
            }
            let goes_back = |at: &u32| self.jumps.get(at).is_some_and(|to| to.iter().any(|to| backs.contains(to)));
            if here.is_empty() && !body.iter().any(goes_back) {
                self.roots.extend(backs);
            }
        }
        for at in self.loose.keys().filter(|at| !returns.contains(at)) {
            let what = "the code jumps to an address that is not known";
            self.unknown.insert(*at, what.to_owned());
        }
    }

    /// Offsets of the calls of each function.
    fn calls_by_function(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut by_function = BTreeMap::<u32, Vec<u32>>::new();
        for (at, call) in &self.calls {
            by_function.entry(call.function).or_default().push(*at);
        }
        by_function
    }

    /// Offsets of a function's instructions, without those of the functions that it calls.
    fn body(&self, insts: &HashMap<u32, (u32, Inst)>, function: u32) -> BTreeSet<u32> {
        let mut body = BTreeSet::new();
        let mut pending = vec![function];
        while let Some(offset) = pending.pop() {
            if self.known.contains_key(&offset) && body.insert(offset) {
                match self.calls.get(&offset) {
                    Some(call) => pending.push(call.back),
                    None => pending.extend(self.successors(insts, offset)),
                }
            }
        }
        body
    }

    /// Offsets of the instructions that may follow one.
    fn successors(&self, insts: &HashMap<u32, (u32, Inst)>, offset: u32) -> Vec<u32> {
        let inst = &insts[&offset].1;
        let next = offset + u32::from(inst.size);
        let is_call = matches!(inst.op, Op::SSwappcB64 | Op::SCallB64);
        let falls = (falls_through(inst.op) && !is_call).then_some(next);
        self.jumps.get(&offset).into_iter().flatten().copied().chain(falls).collect()
    }

    fn blocks(self, plan: &Plan, insts: &HashMap<u32, (u32, Inst)>) -> Graph {
        let offsets: Vec<u32> = self.known.keys().copied().collect();
        let mut starts: BTreeSet<u32> = self.roots.clone();
        for (at, to) in &self.jumps {
            starts.extend(to);
            starts.insert(at + u32::from(insts[at].1.size));
        }
        let mut blocks: Vec<Block> = Vec::new();
        let mut of_offset = HashMap::new();
        let mut next = None;
        for offset in offsets {
            if next != Some(offset) || starts.contains(&offset) {
                of_offset.insert(offset, blocks.len());
                blocks.push(Block { steps: Vec::new(), after: Vec::new(), before: Vec::new() });
            }
            let (number, inst) = &insts[&offset];
            if let Some(block) = blocks.last_mut() {
                block.steps.push(*number);
            }
            next = Some(offset + u32::from(inst.size));
        }
        for at in 0..blocks.len() {
            let last = blocks[at].steps.last().map_or(0, |step| plan.at(*step).offset);
            let mut after: Vec<usize> =
                self.successors(insts, last).iter().filter_map(|to| of_offset.get(to).copied()).collect();
            after.sort_unstable();
            after.dedup();
            for to in &after {
                blocks[*to].before.push(at);
            }
            blocks[at].after = after;
        }
        let roots = self.roots.iter().filter_map(|root| of_offset.get(root).copied()).collect();
        Graph { blocks, roots, unknown: self.unknown.into_iter().collect() }
    }
}

/// Follows addresses of code through an instruction, behind which `next` is. Compilers add the distance of a function
/// to the address that `s_getpc_b64` gives, in two halves before gfx12.
fn step(mut known: Known, inst: &Inst, next: u32) -> Known {
    let constant = |at: usize, ty: Ty| inst.src[at].constant(ty).map(|value| value as u32);
    let of = |operand: Operand| if let Operand::Sgpr(n) = operand { known.get(&n).copied() } else { None };
    let value = match inst.op {
        Op::SGetpcB64 | Op::SSwappcB64 | Op::SCallB64 => Some(next),
        Op::SMovB64 => of(inst.src[0]),
        Op::SAddU32 if inst.dst == inst.src[0] => of(inst.src[0]).zip(constant(1, Ty::B32)).map(sum),
        Op::SAddU32 if inst.dst == inst.src[1] => of(inst.src[1]).zip(constant(0, Ty::B32)).map(sum),
        Op::SAddNcU64 => of(inst.src[0]).zip(constant(1, Ty::I64)).map(sum),
        // The carry, and the sign, of the high half.
        Op::SAddcU32 | Op::SSextI32I16 if inst.src.contains(&inst.dst) => return known,
        _ => None,
    };
    let halves = std::iter::once(inst).chain(inst.dual.as_deref());
    for half in halves {
        let info = half.op.info();
        for (operand, ty) in [(half.dst, info.dst), (half.sdst, info.sdst)] {
            if let Operand::Sgpr(n) = operand {
                let end = u16::from(n) + u16::from(ty.dwords(true));
                known.retain(|pair, _| u16::from(*pair) + 1 < n.into() || u16::from(*pair) >= end);
            }
        }
    }
    if let (Some(value), Operand::Sgpr(n)) = (value, inst.dst) {
        known.insert(n, value);
    }
    known
}

fn sum((address, distance): (u32, u32)) -> u32 {
    address.wrapping_add(distance)
}
