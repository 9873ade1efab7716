// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Data-parallel primitives: source 0 comes from other lanes (RDNA3 ISA 7.7, CDNA3 ISA 6.4).
//!
//! The handlers here put the crossed source into a spare register, narrow EXEC to the lanes that are written, and run
//! the op itself.

use super::level::{Exec, Level, select};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::sources::Sources;
use crate::wave::{Group, Row, Wave, expand};
use sim_isa::{Dpp, Flags, Op, Target};

/// The handler that wraps an op with lane crossing.
pub(crate) fn handler<const L: usize>(op: Op, level: Level) -> Handler<L> {
    // A compare that writes EXEC must not have it restored.
    if op.has(Flags::WRITES_EXEC) { select::<Crossed<true>, L>(level) } else { select::<Crossed<false>, L>(level) }
}

struct Crossed<const WRITES_EXEC: bool>;

impl<const WRITES_EXEC: bool, const L: usize> Exec<L> for Crossed<WRITES_EXEC> {
    #[inline(always)]
    fn exec(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let exec = wave.exec();
        let Some(crossing) = &op.crossing else { return Ok(()) };
        let spare = wave.vgprs;
        let mut written = exec;
        for part in 0..1 + usize::from(crossing.wide) {
            let source = wave.v[crossing.src[0].reg as usize + part];
            (wave.v[spare + part], written) = cross(&crossing.lanes, &source, exec);
        }
        if written == exec {
            // SAFETY: `inner` was selected for the same level as this handler, which runs.
            return unsafe { (op.inner)(wave, group, op) };
        }
        wave.set_exec(written);
        // SAFETY: `inner` was selected for the same level as this handler, which runs.
        let step = unsafe { (op.inner)(wave, group, op) };
        if !WRITES_EXEC {
            wave.set_exec(exec);
        }
        step
    }
}

/// Values that the lanes read, and the mask of the lanes to write.
#[inline(always)]
fn cross<const L: usize>(sources: &Sources, source: &Row<L>, exec: u64) -> (Row<L>, u64) {
    let readable = sources.readable::<L>(exec);
    let mut crossed = Row::<L>::ZERO;
    for (value, &from) in crossed.0.iter_mut().zip(&sources.from) {
        *value = source.0[usize::from(from) % L];
    }
    if readable != Wave::<L>::LANES {
        let mask = expand::<L>(readable);
        crossed.0.iter_mut().zip(&mask.0).for_each(|(value, mask)| *value &= mask);
    }
    let written = if sources.bound_ctrl { exec } else { exec & readable };
    (crossed, written & sources.selected)
}

/// True if `ctrl` is a crossing that exists on the target.
pub(crate) fn is_known(dpp: Dpp, target: Target) -> bool {
    let Dpp::Row { ctrl, .. } = dpp else { return true };
    match ctrl {
        0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x140 | 0x141 => true,
        0x130 | 0x134 | 0x138 | 0x13c | 0x142 | 0x143 => target.is_gfx9(),
        0x150..=0x15f => !target.is_gfx9() || target.has_unified_registers(),
        0x160..=0x16f => !target.is_gfx9(),
        _ => false,
    }
}
