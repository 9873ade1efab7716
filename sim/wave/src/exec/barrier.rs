// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Barriers: the workgroup's, and the named ones that a kernel of gfx1250 asks for (CDNA5 ISA 5.6; RDNA4 ISA,
//! S_BARRIER_SIGNAL).

use crate::fault::FaultKind;
use crate::hardware::slot;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Group, Named, Wave};
use sim_isa::{Op, Target};

/// Numbers of barriers; those from 1 on are named ones, 0 is none.
const WORKGROUP: i32 = -1;
const WORKGROUP_TRAP: i32 = -2;
const CLUSTER: i32 = -3;
const CLUSTER_TRAP: i32 = -4;

/// The handler of a barrier op.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::SBarrier => both,
        Op::SBarrierSignal => |wave, group, op| signal(wave, group, op, false),
        Op::SBarrierSignalIsfirst => |wave, group, op| signal(wave, group, op, true),
        Op::SBarrierWait => wait,
        Op::SBarrierInit => init,
        Op::SBarrierJoin => join,
        Op::SBarrierLeave => leave,
        Op::SGetBarrierState => state,
        _ => return None,
    })
}

/// `s_barrier`: signals and waits.
fn both<const L: usize>(wave: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    wave.signals += 1;
    wave.waits += 1;
    Err(Stop::Barrier)
}

/// The barrier that an operand names: M0's low bits, which can name no others than named ones, or a constant. With M0
/// comes the number of members, unless that is zero.
fn operand<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> (i32, Option<u32>) {
    let src = &op.src[0];
    if src.kind == SrcKind::Scalar && usize::from(src.reg) == slot::M0 {
        let m0 = wave.s[slot::M0];
        return ((m0 & 0x1f) as i32, Some(m0 >> 16 & 0x7f).filter(|members| *members != 0));
    }
    (wave.s32(src) as i32, None)
}

/// Number of the named barrier that an instruction names, from 1 on, and the number of signals that complete it if the
/// instruction has that. The kernel need not have the barrier.
pub(crate) fn named_number<const L: usize>(wave: &Wave<L>, op: &MicroOp<L>) -> Option<(usize, Option<u32>)> {
    let (number, members) = operand(wave, op);
    usize::try_from(number).ok().filter(|number| *number > 0).map(|number| (number, members))
}

/// Named barrier of a number; `None` if the kernel has not so many. Operations on barriers that it lacks are ignored.
fn named<'a>(group: &'a mut Group<'_>, number: i32) -> Option<&'a mut Named> {
    usize::try_from(number).ok()?.checked_sub(1).and_then(|at| group.named.get_mut(at))
}

/// Refuses an operation that only gfx1250's document describes on other targets.
fn only_gfx1250(group: &Group<'_>, what: &str) -> Step {
    if group.target == Target::Gfx1250 { Ok(()) } else { unimplemented(format!("{what} of {:?}", group.target)) }
}

/// Sets SCC for the first wave to signal in each round. For a workgroup of a single wave SCC is zero (RDNA4 ISA).
fn signal<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>, tells_first: bool) -> Step {
    let (number, members) = operand(wave, op);
    let first = match number {
        WORKGROUP => {
            let first = group.arrived == 0;
            wave.signals += 1;
            group.arrived = (group.arrived + 1) % group.waves.max(1);
            first && group.waves > 1
        }
        // The trap handlers' own, and those of clusters, of which there are none.
        WORKGROUP_TRAP => false,
        CLUSTER | CLUSTER_TRAP => return only_gfx1250(group, &format!("barrier {number}")),
        0 => false,
        _ => {
            only_gfx1250(group, &format!("barrier {number}"))?;
            let Some(barrier) = named(group, number) else { return Ok(()) };
            let first = barrier.signals == 0;
            barrier.members = members.unwrap_or(barrier.members);
            barrier.signals += 1;
            barrier.finish_if_complete();
            first
        }
    };
    if tells_first {
        wave.scc = first;
    }
    Ok(())
}

/// Waits for a barrier. For any named barrier number, the wave waits for the one that it has joined.
fn wait<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    match i32::from(op.simm) {
        WORKGROUP => {
            wave.waits += 1;
            Err(Stop::Barrier)
        }
        WORKGROUP_TRAP | 0 => Ok(()),
        number => {
            only_gfx1250(group, &format!("waiting for barrier {number}"))?;
            if number < 0 || wave.joined == 0 || wave.passes_named(group) {
                return Ok(());
            }
            wave.at_named = true;
            Err(Stop::Barrier)
        }
    }
}

fn init<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    only_gfx1250(group, "s_barrier_init")?;
    let (number, members) = operand(wave, op);
    if let Some(barrier) = named(group, number) {
        barrier.members = members.unwrap_or(barrier.members);
        barrier.signals = 0;
    }
    Ok(())
}

/// Joins a named barrier: the wave's later waits are for its rounds from here on.
fn join<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    only_gfx1250(group, "s_barrier_join")?;
    let (number, _) = operand(wave, op);
    if !(1..=16).contains(&number) {
        wave.joined = 0;
    } else if let Some(barrier) = named(group, number) {
        (wave.joined, wave.seen) = (number as usize, barrier.rounds);
    }
    Ok(())
}

/// Leaves a named barrier, and sets SCC for the last wave to leave. No effect without named barriers.
fn leave<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    only_gfx1250(group, "s_barrier_leave")?;
    if group.named.is_empty() {
        return Ok(());
    }
    wave.scc = true;
    if let Some(barrier) = named(group, wave.joined as i32) {
        barrier.members = barrier.members.saturating_sub(1);
        wave.scc = barrier.members == 0;
        barrier.finish_if_complete();
    }
    wave.joined = 0;
    Ok(())
}

/// Counts of signals and members, and whether the barrier is valid; on gfx1250 how many named ones there are, in fours.
fn state<const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
    let (number, _) = operand(wave, op);
    let [signals, members] = match number {
        WORKGROUP if group.waves > 1 => [group.arrived, group.waves],
        // A single wave has no barrier, whose state is not valid.
        WORKGROUP => [0, 0],
        _ => {
            only_gfx1250(group, &format!("the state of barrier {number}"))?;
            match named(group, number) {
                Some(barrier) => [barrier.signals, barrier.members],
                None => {
                    wave.set_s(op.dst as usize, 0);
                    return Ok(());
                }
            }
        }
    };
    let fours = group.named.len() as u32 / 4;
    wave.set_s(op.dst as usize, fours << 24 | signals << 16 | members << 4 | u32::from(members != 0 || number > 0));
    Ok(())
}

fn unimplemented(what: String) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))))
}
