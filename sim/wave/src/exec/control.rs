// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Micro-operations without an instruction of their own.

use crate::micro_op::{MicroOp, Step, Stop};
use crate::wave::{Group, Wave};

/// No-ops that are jumped to.
pub(crate) fn nop<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Ok(())
}

/// Lets the other waves of the workgroup have their turns.
pub(crate) fn give_way<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Err(Stop::GiveWay)
}

/// Stops at an instruction that cannot run.
pub(crate) fn refused<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Err(Stop::Refused)
}

/// Goes on elsewhere, without being an instruction.
pub(crate) fn jump<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let backward = op.target < wave.next;
    wave.next = op.target;
    if backward {
        wave.branch_budget -= 1;
        if wave.branch_budget == 0 {
            return Err(Stop::Yield);
        }
    }
    Ok(())
}

/// Copies all lanes of a register, which already holds the values that inactive lanes must keep.
pub(crate) fn copy_row<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let row = wave.v[op.src[0].reg as usize];
    wave.put(op.dst as usize, &row);
    Ok(())
}
