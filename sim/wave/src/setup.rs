// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The scalar registers beyond the SGPRs that hardware sets before a wave's first instruction.
//!
//! Before gfx12, trap temporaries belong to the trap handler. User code reads zeros there, whatever a debugger has
//! asked hardware to put into them (ROCdbgapi, `architecture.cpp`: the packet's number, workgroup ids and the wave's
//! number). From gfx12 on user code can read them, and has its workgroup's ids and the wave's number there alone
//! (AMDGPUUsage, "Initial Kernel Execution State"; LLVM, `llvm.amdgcn.wave.id`; ROCdbgapi, `gfx12_architecture_t`).

use crate::fault::FaultKind;
use crate::hardware::slot;
use crate::launch::Launch;
use crate::wave::Wave;
use sim_isa::{Operand, Target};

/// The value that hardware puts into a trap temporary.
#[derive(Clone, Copy)]
enum Content {
    /// The workgroup's id in x.
    GroupX,
    /// The workgroup's ids in y, in the low half, and z.
    GroupYz,
    /// The packet's number in bits 0 to 24, the wave's in its workgroup in bits 25 to 29, and in bit 30 whether the
    /// grid has more than one dimension. Bit 31 is a debugger's.
    Wave,
    /// Where the workgroup is in its cluster, and the cluster's size. Nothing is launched in clusters: all is zero.
    Cluster,
}

/// Trap temporaries that hardware sets: number, targets and content.
const TRAP_TEMPORARIES: [(u8, &[Target], Content); 4] = [
    (6, &[Target::Gfx1250], Content::Cluster),
    (7, &[Target::Gfx1200, Target::Gfx1250], Content::GroupYz),
    (8, &[Target::Gfx1200, Target::Gfx1250], Content::Wave),
    (9, &[Target::Gfx1200, Target::Gfx1250], Content::GroupX),
];

fn set_on(target: Target) -> impl Iterator<Item = (u8, Content)> {
    TRAP_TEMPORARIES
        .iter()
        .filter(move |(_, targets, _)| targets.contains(&target))
        .map(|&(n, _, content)| (n, content))
}

/// Sets the trap temporaries of wave `index` of the workgroup with id `group`.
pub(crate) fn trap_temporaries<const L: usize>(
    target: Target,
    wave: &mut Wave<L>,
    launch: &Launch<'_>,
    group: [u32; 3],
    index: u32,
) {
    let dimensions = launch.packet.setup & 3;
    for (n, content) in set_on(target) {
        wave.s[slot::TTMP + usize::from(n)] = match content {
            Content::GroupX => group[0],
            Content::GroupYz => group[1] & 0xffff | group[2] << 16,
            Content::Wave => {
                launch.dispatch_id as u32 & 0x1ff_ffff | (index & 0x1f) << 25 | u32::from(dimensions > 1) << 30
            }
            Content::Cluster => 0,
        };
    }
}

/// Refuses to read trap temporaries that hardware has not set, and to write the others, which user code cannot change.
/// Writes to the rest have no effect that user code can see; LLVM saves M0 in `ttmp2` behind gfx11's `s_trap`.
pub(crate) fn check(target: Target, operand: Operand, dwords: usize, is_written: bool) -> Result<(), FaultKind> {
    let Operand::Ttmp(first) = operand else { return Ok(()) };
    let is_set = |n: &u8| set_on(target).any(|(set, _)| set == *n);
    match (first..first + dwords as u8).find(|n| is_set(n) == is_written) {
        None => Ok(()),
        Some(n) if is_written => Err(FaultKind::NotImplemented(format!("writing ttmp{n}, which user code cannot"))),
        Some(n) => {
            Err(FaultKind::NotImplemented(format!("reading ttmp{n}, which hardware does not set on {target:?}")))
        }
    }
}
