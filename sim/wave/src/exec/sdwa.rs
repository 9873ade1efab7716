// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Sub-dword addressing of GFX9: sources that are bytes or words of registers, and results that replace one (Vega ISA
//! 6.3).
//!
//! The handlers here put the selected sources into spare registers, run the op itself, which leaves a partial result in
//! another one, and merge that into the destination.

use super::level::{Exec, Level, select};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::operand::SrcKind;
use crate::wave::{Group, Row, Wave};
use sim_isa::{Select, Unused};

/// The handler that wraps an op with sub-dword operands.
pub(crate) fn handler<const L: usize>(level: Level) -> Handler<L> {
    select::<SubDword, L>(level)
}

struct SubDword;

impl<const L: usize> Exec<L> for SubDword {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let Some((crossing, sdwa)) = op.crossing.as_ref().and_then(|c| Some((c, c.sdwa?))) else { return Ok(()) };
        let spare = wave.vgprs;
        for (at, src) in crossing.src.iter().enumerate() {
            if op.src[at].reg as usize != spare + at {
                continue;
            }
            let whole = match src.kind {
                SrcKind::Vgpr => wave.v[src.reg as usize],
                _ => Row([wave.s32(src); L]),
            };
            wave.v[spare + at] = part(&whole, sdwa.src[at], sdwa.sext >> at & 1 != 0);
        }
        // SAFETY: `inner` was selected for the same level as this handler, which runs.
        unsafe { (op.inner)(wave, group, op) }?;
        if let Some(dst) = crossing.dst {
            let merged = merge(&wave.v[dst as usize], &wave.v[spare + 2], sdwa.dst, sdwa.unused);
            wave.put(dst as usize, &merged);
        }
        Ok(())
    }
}

/// First bit and width of a part.
fn bits(select: Select) -> (u32, u32) {
    match select {
        Select::Byte0 => (0, 8),
        Select::Byte1 => (8, 8),
        Select::Byte2 => (16, 8),
        Select::Byte3 => (24, 8),
        Select::Word0 => (0, 16),
        Select::Word1 => (16, 16),
        Select::Dword => (0, 32),
    }
}

/// The selected part of each lane, extended to a dword.
fn part<const L: usize>(row: &Row<L>, select: Select, signed: bool) -> Row<L> {
    let (first, width) = bits(select);
    let up = 32 - first - width;
    let down = 32 - width;
    Row(row.0.map(|x| if signed { ((x << up) as i32 >> down) as u32 } else { x << up >> down }))
}

/// `old` with the low bits of `new` in the selected part.
fn merge<const L: usize>(old: &Row<L>, new: &Row<L>, select: Select, unused: Unused) -> Row<L> {
    let (first, width) = bits(select);
    let mask = (u64::MAX >> (64 - width) << first) as u32;
    Row(std::array::from_fn(|lane| {
        let placed = new.0[lane] << first & mask;
        match unused {
            Unused::Pad => placed,
            Unused::Preserve => old.0[lane] & !mask | placed,
            Unused::Sext => {
                let up = 32 - first - width;
                ((placed << up) as i32 >> up) as u32
            }
        }
    }))
}
