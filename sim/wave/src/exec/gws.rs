// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Global wave sync. M0 and the offset name the resource; the first active lane has the counter.

use crate::fault::FaultKind;
use crate::gws::{Gws, RESOURCES};
use crate::hardware::slot;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::wave::{Group, Wave};
use sim_isa::Op;

/// The handler of an op on global wave sync.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::DsGwsInit => initialize,
        Op::DsGwsBarrier => barrier,
        _ => return None,
    })
}

fn resource<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> usize {
    ((wave.s[slot::M0] >> 16 & 0x3f) as usize + op.mem.offset as usize) % RESOURCES
}

fn counter<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> u32 {
    let lanes = wave.exec() & Wave::<L>::LANES;
    let lane = if lanes == 0 { 0 } else { lanes.trailing_zeros() as usize };
    wave.v[op.src[0].reg as usize].0[lane]
}

fn gws<'a>(group: &Group<'a>) -> Result<&'a Gws, Stop> {
    let missing = || FaultKind::NotImplemented("global wave sync without a GPU".to_owned());
    group.gws.ok_or_else(|| Stop::Fault(Box::new(missing())))
}

fn initialize<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    gws(group)?.initialize(resource(wave, op), counter(wave, op));
    Ok(())
}

fn barrier<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let number = resource(wave, op);
    let Some(round) = gws(group)?.arrive(number, counter(wave, op)) else { return Ok(()) };
    wave.gws = Some((number, round));
    Err(Stop::Barrier)
}
