// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector registers that a wave may read before it has written all of their lanes. The others need no zeros when the
//! wave begins, since their contents cannot be seen.

use crate::check::{self, Slice};
use crate::flow::{branch_target, falls_through, jumps_by_register};
use crate::hardware::slot;
use crate::operand::{Registers, Upper, scalar_slot};
use crate::program::Program;
use sim_isa::{Dpp, Flags, Format, Inst, Op, Operand};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Finds these registers on all paths of a wave that begins with all lanes active. `ids` is the number of registers
/// that begin with ids of work-items.
pub(crate) fn read_first<const L: usize>(program: &Program<L>, registers: Registers, ids: usize) -> Vec<Range<usize>> {
    let mut first = Known { of: vec![Written::Nowhere; registers.total()], has_all_lanes: true };
    first.of.iter_mut().take(ids).for_each(|of| *of = Written::Everywhere);
    let mut found =
        Found { registers, is_read: vec![false; registers.total()], heads: BTreeMap::new(), pending: Vec::new() };
    found.reach(program.ops[program.entry as usize].offset, &first);
    while let Some(head) = found.pending.pop() {
        let known = found.heads[&head].clone();
        found.follow(program, head, known);
    }
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for n in (0..found.is_read.len()).filter(|&n| found.is_read[n]) {
        match ranges.last_mut() {
            Some(last) if last.end == n => last.end += 1,
            _ => ranges.push(n..n + 1),
        }
    }
    ranges
}

/// Lanes of a register that have been written on all paths to a point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Written {
    Nowhere,
    /// At least those that are active at the point.
    WhereActive,
    Everywhere,
}

/// Knowledge at a point of the code.
#[derive(Clone, PartialEq)]
struct Known {
    of: Vec<Written>,
    /// No lane has become inactive.
    has_all_lanes: bool,
}

struct Found {
    registers: Registers,
    /// Registers of which some lane may be read, or kept, before it is written.
    is_read: Vec<bool>,
    /// Knowledge at the targets of branches, by their offsets.
    heads: BTreeMap<u32, Known>,
    /// Targets of branches from which the code is to be followed, again if less has become known there.
    pending: Vec<u32>,
}

impl Found {
    /// A path leads to an offset.
    fn reach(&mut self, offset: u32, known: &Known) {
        match self.heads.entry(offset) {
            Entry::Vacant(entry) => {
                entry.insert(known.clone());
            }
            Entry::Occupied(mut entry) => {
                let old = entry.get();
                let of = old.of.iter().zip(&known.of).map(|(old, new)| *old.min(new)).collect();
                let both = Known { of, has_all_lanes: old.has_all_lanes && known.has_all_lanes };
                if both == *old {
                    return;
                }
                entry.insert(both);
            }
        }
        self.pending.push(offset);
    }

    /// Follows the code from an offset on, up to the end of a wave or an offset that a branch leads to.
    fn follow<const L: usize>(&mut self, program: &Program<L>, head: u32, mut known: Known) {
        let mut offset = head;
        loop {
            if offset != head && self.heads.contains_key(&offset) {
                return self.reach(offset, &known);
            }
            let words = program.words.get(offset as usize / 4..).unwrap_or_default();
            let Ok(inst) = sim_isa::decode(program.target, words) else { return self.leave(&known) };
            if inst.op == Op::SEndpgm {
                return;
            }
            let target = branch_target(&inst, offset).filter(|_| inst.op != Op::SCallB64 && inst.op != Op::SAddPcI64);
            if target.is_none() && goes_elsewhere(&inst) {
                return self.leave(&known);
            }
            if let Some(target) = target {
                self.reach(target, &known);
            }
            if !falls_through(inst.op) {
                return;
            }
            self.step::<L>(&mut known, &Inst { dual: None, ..inst.clone() }, inst.dual.as_deref());
            if changes_lanes::<L>(&inst) {
                known.has_all_lanes = false;
                if !narrows(&inst) {
                    known.of.iter_mut().filter(|of| **of == Written::WhereActive).for_each(|of| *of = Written::Nowhere);
                }
            }
            offset += u32::from(inst.size);
        }
    }

    /// Code that is not known follows: it may read all registers.
    fn leave(&mut self, known: &Known) {
        for (is_read, of) in self.is_read.iter_mut().zip(&known.of) {
            *is_read |= *of != Written::Everywhere;
        }
    }

    /// Follows an instruction, or the two of a VOPD, which both read before they write.
    fn step<const L: usize>(&mut self, known: &mut Known, first: &Inst, second: Option<&Inst>) {
        let both = [Some(first), second];
        for inst in both.into_iter().flatten() {
            let keeps = !writes_all(inst);
            let needed = if reads_active_lanes(inst) { Written::WhereActive } else { Written::Everywhere };
            for (at, slice) in check::slices::<L>(inst, Upper::default()).into_iter().enumerate() {
                if at < 4 || keeps {
                    for n in self.numbers(&slice) {
                        self.is_read[n] |= known.of[n] < needed;
                    }
                }
            }
        }
        let written = if known.has_all_lanes { Written::Everywhere } else { Written::WhereActive };
        for inst in both.into_iter().flatten().filter(|inst| writes_all(inst)) {
            for n in self.numbers(&check::slices::<L>(inst, Upper::default())[4]) {
                known.of[n] = known.of[n].max(written);
            }
        }
    }

    /// Numbers of the vector registers of a slice.
    fn numbers(&self, slice: &Slice) -> Range<usize> {
        let first = match slice.operand {
            Operand::Vgpr(_) => slice.first,
            Operand::Agpr(_) => self.registers.vector + slice.first,
            _ => return 0..0,
        };
        let total = self.is_read.len();
        first.min(total)..(first + slice.dwords).min(total)
    }
}

/// True for instructions after which another one than the next may follow, or registers have other numbers.
fn goes_elsewhere(inst: &Inst) -> bool {
    !falls_through(inst.op)
        || jumps_by_register(inst)
        || inst.op.info().flags.intersects(Flags::BRANCH | Flags::RELATIVE)
        || matches!(inst.op, Op::SSetVgprMsb | Op::SSetregB32 | Op::SSetregImm32B32)
        || matches!(inst.op, Op::SSetGprIdxOn | Op::SSetGprIdxMode | Op::SSetGprIdxIdx)
}

/// True if an instruction may write EXEC.
fn changes_lanes<const L: usize>(inst: &Inst) -> bool {
    let exec = |Slice { operand, dwords, .. }: &Slice| {
        scalar_slot(*operand).is_some_and(|first| first != slot::NULL && first + dwords > slot::EXEC)
    };
    inst.op.info().flags.intersects(Flags::WRITES_EXEC | Flags::SAVES_EXEC)
        || check::slices::<L>(inst, Upper::default())[4..].iter().any(exec)
}

/// True if no lane becomes active where an instruction writes EXEC.
fn narrows(inst: &Inst) -> bool {
    match inst.op {
        Op::SAndSaveexecB32 | Op::SAndSaveexecB64 | Op::SAndNot0SaveexecB32 | Op::SAndNot0SaveexecB64 => true,
        Op::SAndB32 | Op::SAndB64 => inst.src[..2].contains(&inst.dst),
        Op::SAndNot1B32 | Op::SAndNot1B64 => inst.src[0] == inst.dst,
        op => op.has(Flags::WRITES_EXEC),
    }
}

/// True if an instruction reads the active lanes of its operands alone.
fn reads_active_lanes(inst: &Inst) -> bool {
    let flags = inst.op.info().flags;
    let across = Flags::CROSSES_LANES | Flags::PERMLANE | Flags::MATRIX | Flags::TILES;
    let elsewhere = Flags::TO_LDS | Flags::ASYNC | Flags::TRANSPOSES | Flags::BLOCK;
    let is_plain = match inst.format {
        Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Vop3sd | Format::Vop3p | Format::Vopc | Format::Vopd => {
            !matches!(inst.op, Op::VReadfirstlaneB32 | Op::VReadlaneB32 | Op::VWritelaneB32)
        }
        Format::Ds | Format::Mubuf | Format::Flat | Format::Global | Format::Scratch => {
            flags.intersects(Flags::LOAD | Flags::STORE)
        }
        _ => false,
    };
    is_plain && !flags.intersects(across | elsewhere) && inst.dpp == Dpp::None
}

/// True if an instruction writes all bits of its destination in all active lanes, or has none in vector registers.
fn writes_all(inst: &Inst) -> bool {
    let flags = inst.op.info().flags;
    let is_plain = match inst.format {
        Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Vop3sd | Format::Vop3p | Format::Vopd => {
            let lanes = Flags::CROSSES_LANES | Flags::MATRIX | Flags::TILES;
            let parts = Flags::HALVES | Flags::DST_WORD | Flags::DST_BYTE;
            !flags.intersects(lanes | parts)
                && !inst.op.info().dst.is_16()
                && !matches!(
                    inst.op,
                    Op::VWritelaneB32 | Op::VSwapB32 | Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32
                )
                && !matches!(inst.op, Op::VAshrPkI8I32 | Op::VAshrPkU8I32)
        }
        Format::Global | Format::Mubuf => {
            let parts = Flags::D16 | Flags::D16_HI | Flags::CONVERTS | Flags::BLOCK;
            let elsewhere = Flags::TO_LDS | Flags::ASYNC | Flags::TRANSPOSES;
            flags.contains(Flags::LOAD) && !flags.intersects(parts | elsewhere) && !inst.mem.lds
        }
        _ => false,
    };
    is_plain && !flags.contains(Flags::READS_DST) && inst.dpp == Dpp::None && inst.sdwa.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Level;
    use crate::translate::translate;
    use sim_isa::Target;

    fn found(words: &[u32]) -> Vec<usize> {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let registers = Registers { vector: 8, accumulation: 0 };
        let program = translate::<32>(Target::Gfx11, 0, &code, 0, registers, Level::detect());
        read_first(&program, registers, 1).into_iter().flatten().collect()
    }

    const ENDS: u32 = 0xbfb0_0000;
    /// `v_mov_b32 v1, v0`, `v_mov_b32 v2, v1`, `v_cmpx_gt_u32 v0, v0`, `s_or_b32 exec_lo, exec_lo, s0`.
    const WRITES_1: u32 = 0x7e02_0300;
    const READS_1: u32 = 0x7e04_0301;
    const NARROWS: u32 = 0x7d98_0100;
    const WIDENS: u32 = 0x8c7e_007e;

    #[test]
    fn lanes_that_became_inactive_need_no_zeros_until_they_are_active_again() {
        assert_eq!(found(&[NARROWS, WRITES_1, READS_1, ENDS]), []);
        assert_eq!(found(&[NARROWS, WRITES_1, WIDENS, READS_1, ENDS]), [1]);
        assert_eq!(found(&[WRITES_1, NARROWS, WIDENS, READS_1, ENDS]), []);
    }

    #[test]
    fn all_paths_count() {
        // `s_cbranch_execz` to the end, over the write, and over both.
        assert_eq!(found(&[0xbfa5_0002, WRITES_1, READS_1, ENDS]), []);
        assert_eq!(found(&[0xbfa5_0001, WRITES_1, READS_1, ENDS]), [1]);
        // `s_cbranch_scc1` back to the read, which follows the write first.
        assert_eq!(found(&[WRITES_1, READS_1, 0xbfa2_fffe, ENDS]), []);
        // `s_branch` over the write, which follows the read later.
        assert_eq!(found(&[0xbfa0_0001, WRITES_1, READS_1, 0xbfa2_fffd, ENDS]), [1]);
        // An instruction that does not decode.
        assert_eq!(found(&[WRITES_1, 0xffff_ffff]), [2, 3, 4, 5, 6, 7]);
    }
}
