// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Vector registers that a wave may read before it has written all of their lanes. The others need no zeros when the
//! wave begins, since their contents cannot be seen.

use crate::check::{self, Slice};
use crate::flow::{branch_target, falls_through, jumps_by_register};
use crate::hardware::slot;
use crate::operand::{Registers, Upper, scalar_slot};
use crate::program::Program;
use sim_isa::{Dpp, Flags, Format, Inst, Op, Operand};
use std::ops::Range;

/// Finds these registers from the straight line of code with which waves begin, all of whose lanes are active. `ids` is
/// the number of registers that begin with ids of work-items.
pub(crate) fn read_first<const L: usize>(program: &Program<L>, registers: Registers, ids: usize) -> Vec<Range<usize>> {
    let mut found = Found { registers, of: vec![Known::Nothing; registers.total()] };
    found.of.iter_mut().take(ids).for_each(|of| *of = Known::Written);
    let mut at = program.ops[program.entry as usize].offset as usize / 4;
    let is_all = loop {
        let Ok(inst) = sim_isa::decode(program.target, program.words.get(at..).unwrap_or_default()) else {
            break false;
        };
        if inst.op == Op::SEndpgm {
            break true;
        }
        if leaves_the_line::<L>(&inst, at as u32 * 4) {
            break false;
        }
        found.step::<L>(&Inst { dual: None, ..inst.clone() }, inst.dual.as_deref());
        at += usize::from(inst.size) / 4;
    };
    let is_wanted = |of: &Known| *of == Known::Read || *of == Known::Nothing && !is_all;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for n in (0..found.of.len()).filter(|&n| is_wanted(&found.of[n])) {
        match ranges.last_mut() {
            Some(last) if last.end == n => last.end += 1,
            _ => ranges.push(n..n + 1),
        }
    }
    ranges
}

/// Knowledge of a register.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    /// All lanes have been written before any was read.
    Written,
    /// Some lane may have been read, or kept, before it was written.
    Read,
}

struct Found {
    registers: Registers,
    of: Vec<Known>,
}

impl Found {
    /// Follows an instruction, or the two of a VOPD, which both read before they write.
    fn step<const L: usize>(&mut self, first: &Inst, second: Option<&Inst>) {
        let both = [Some(first), second];
        for inst in both.into_iter().flatten() {
            let keeps = !writes_all(inst);
            for (at, slice) in check::slices::<L>(inst, Upper::default()).into_iter().enumerate() {
                if at < 4 || keeps {
                    self.mark(&slice, Known::Read);
                }
            }
        }
        for inst in both.into_iter().flatten() {
            self.mark(&check::slices::<L>(inst, Upper::default())[4], Known::Written);
        }
    }

    /// Marks registers of which nothing is known.
    fn mark(&mut self, slice: &Slice, known: Known) {
        let first = match slice.operand {
            Operand::Vgpr(_) => slice.first,
            Operand::Agpr(_) => self.registers.vector + slice.first,
            _ => return,
        };
        let of = self.of.iter_mut().skip(first).take(slice.dwords);
        of.filter(|of| **of == Known::Nothing).for_each(|of| *of = known);
    }
}

/// True for instructions after which another one than the next may follow, some lanes may be inactive, or registers
/// have other numbers.
fn leaves_the_line<const L: usize>(inst: &Inst, offset: u32) -> bool {
    let exec = |Slice { operand, dwords, .. }: &Slice| {
        scalar_slot(*operand).is_some_and(|first| first != slot::NULL && first + dwords > slot::EXEC)
    };
    !falls_through(inst.op)
        || jumps_by_register(inst)
        || branch_target(inst, offset).is_some()
        || inst.op.info().flags.intersects(Flags::BRANCH | Flags::WRITES_EXEC | Flags::SAVES_EXEC | Flags::RELATIVE)
        || check::slices::<L>(inst, Upper::default())[4..].iter().any(exec)
        || matches!(inst.op, Op::SSetVgprMsb | Op::SSetregB32 | Op::SSetregImm32B32)
        || matches!(inst.op, Op::SSetGprIdxOn | Op::SSetGprIdxMode | Op::SSetGprIdxIdx)
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
