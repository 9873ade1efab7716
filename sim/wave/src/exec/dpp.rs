// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Data-parallel primitives: source 0 comes from other lanes (RDNA3 ISA 7.7, CDNA3 ISA 6.4).
//!
//! The handlers here put the crossed source into a spare register, narrow EXEC to the lanes that are written, and run
//! the op itself.

use super::level::{Exec, Level, select};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::wave::{Group, Row, Wave};
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
            (wave.v[spare + part], written) = cross(crossing.dpp, &source, exec);
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
fn cross<const L: usize>(dpp: Dpp, source: &Row<L>, exec: u64) -> (Row<L>, u64) {
    let mut crossed = Row::<L>::ZERO;
    match dpp {
        Dpp::None => (*source, exec),
        Dpp::Row { ctrl, row_mask, bank_mask, bound_ctrl, fetch_inactive } => {
            let mut written = 0;
            for lane in 0..L {
                let selected = row_mask >> (lane / 16 % 4) & bank_mask >> (lane % 16 / 4) & 1 != 0;
                let from = source_lane(ctrl, lane, L).filter(|&from| fetch_inactive || exec >> from & 1 != 0);
                crossed.0[lane] = from.map_or(0, |from| source.0[from]);
                written |= u64::from(selected && (bound_ctrl || from.is_some())) << lane;
            }
            (crossed, written & exec)
        }
        Dpp::Lanes8 { sel, fetch_inactive } => {
            for lane in 0..L {
                let from = lane & !7 | (sel >> (3 * (lane & 7)) & 7) as usize;
                let valid = fetch_inactive || exec >> from & 1 != 0;
                crossed.0[lane] = if valid { source.0[from] } else { 0 };
            }
            (crossed, exec)
        }
    }
}

/// The lane that `lane` of `lanes` reads, if there is one; for most controls it is in the same row of 16.
#[inline(always)]
fn source_lane(ctrl: u16, lane: usize, lanes: usize) -> Option<usize> {
    let row = lane & !15;
    let at = lane & 15;
    let n = usize::from(ctrl & 15);
    let from = match ctrl {
        // quad_perm
        0..=0xff => at & !3 | usize::from(ctrl >> (2 * (at & 3)) & 3),
        // row_shl, row_shr, row_ror
        0x101..=0x10f => at + n,
        0x111..=0x11f => at.wrapping_sub(n),
        0x121..=0x12f => (at + 16 - n) & 15,
        // wave_shl, wave_rol, wave_shr, wave_ror
        0x130 => return Some(lane + 1).filter(|&from| from < lanes),
        0x134 => return Some((lane + 1) % lanes),
        0x138 => return lane.checked_sub(1),
        0x13c => return Some((lane + lanes - 1) % lanes),
        // row_mirror, row_half_mirror
        0x140 => 15 - at,
        0x141 => at & 8 | (7 - (at & 7)),
        // row_bcast:15, row_bcast:31
        0x142 => return row.checked_sub(1),
        0x143 => return (lane & 32).checked_sub(1),
        // row_share (row_newbcast), row_xmask
        0x150..=0x15f => n,
        0x160..=0x16f => at ^ n,
        _ => return None,
    };
    (from < 16).then_some(row | from)
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
