// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Control flow: the reachable instructions, and where waves give way to others.

use sim_isa::{DecodeError, Flags, Format, Inst, Op, Target, Ty};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Decoded = Result<Inst, DecodeError>;

/// Reachable instructions, by byte offset.
pub(crate) struct Reachable {
    /// Where waves begin.
    entry: u32,
    pub instructions: BTreeMap<u32, Decoded>,
    /// Offsets of jump targets.
    pub targets: BTreeSet<u32>,
    /// True if there are jumps to addresses in registers: any instruction may be a target.
    pub indirect: bool,
}

impl Reachable {
    pub fn find(target: Target, words: &[u32], entry: u32) -> Self {
        let mut found =
            Reachable { entry, instructions: BTreeMap::new(), targets: BTreeSet::from([entry]), indirect: false };
        found.follow(target, words, entry);
        if found.indirect {
            for offset in (0..words.len() as u32 * 4).step_by(4) {
                found.follow(target, words, offset);
            }
        }
        found
    }

    fn follow(&mut self, target: Target, words: &[u32], start: u32) {
        let mut pending = vec![start];
        while let Some(mut offset) = pending.pop() {
            while (offset as usize) < words.len() * 4 && !self.instructions.contains_key(&offset) {
                let decoded = sim_isa::decode(target, &words[offset as usize / 4..]);
                let Ok(inst) = &decoded else {
                    self.instructions.insert(offset, decoded);
                    break;
                };
                let size = u32::from(inst.size);
                let op = inst.op;
                if let Some(to) = branch_target(inst, offset) {
                    self.targets.insert(to);
                    pending.push(to);
                }
                self.indirect |= jumps_by_register(inst);
                self.instructions.insert(offset, decoded);
                if !falls_through(op) {
                    break;
                }
                offset += size;
            }
        }
    }

    /// True if a branch leads to this offset, or waves begin there. Where each dword is decoded, a dword in the
    /// middle of an instruction is no branch.
    pub fn is_branched_to(&self, offset: u32) -> bool {
        let mut end = 0;
        let mut branches = self.instructions.iter().filter_map(|(&at, decoded)| {
            let inst = decoded.as_ref().ok()?;
            let is_inside = at < end;
            if !is_inside {
                end = at + u32::from(inst.size);
            }
            branch_target(inst, at).filter(|_| !(self.indirect && is_inside))
        });
        offset == self.entry || self.targets.contains(&offset) && branches.any(|target| target == offset)
    }

    /// Instructions that do not overlap earlier ones, and instructions that begin inside of others. If any instruction
    /// may be a jump target, the second half of one is decoded as an instruction as well.
    pub fn parted(&self) -> [Vec<(u32, &Decoded)>; 2] {
        let mut end = 0;
        let (inside, outside) =
            self.instructions.iter().map(|(&offset, decoded)| (offset, decoded)).partition(|&(offset, decoded)| {
                let is_inside = offset < end;
                if let (false, Ok(inst)) = (is_inside, decoded) {
                    end = offset + u32::from(inst.size);
                }
                is_inside
            });
        [outside, inside]
    }
}

/// True for jumps to an address in a register.
pub(crate) fn jumps_by_register(inst: &Inst) -> bool {
    matches!(inst.op, Op::SSetpcB64 | Op::SSwappcB64) || inst.op == Op::SAddPcI64 && !inst.src[0].is_constant()
}

/// True if execution can continue with the next instruction.
pub(crate) fn falls_through(op: Op) -> bool {
    !matches!(
        op,
        Op::SEndpgm
            | Op::SEndpgmSaved
            | Op::SEndpgmOrderedPsDone
            | Op::SBranch
            | Op::SSetpcB64
            | Op::SAddPcI64
            | Op::SRfeB64
            | Op::SCodeEnd
    )
}

/// Target of a branch at `offset`, in bytes. It may be outside the code.
pub(crate) fn branch_target(inst: &Inst, offset: u32) -> Option<u32> {
    use Op::*;
    if inst.op == SAddPcI64 {
        let by = inst.src[0].constant(Ty::I64)?;
        return Some(offset.wrapping_add(u32::from(inst.size)).wrapping_add(by as u32));
    }
    matches!(
        inst.op,
        SBranch
            | SCbranchScc0
            | SCbranchScc1
            | SCbranchVccz
            | SCbranchVccnz
            | SCbranchExecz
            | SCbranchExecnz
            | SCallB64
    )
    .then(|| offset.wrapping_add(4).wrapping_add_signed(i32::from(inst.simm) * 4))
}

/// The straight line behind a barrier, up to its first wait for memory, at which a wave gives way if it has branched on
/// LDS.
///
/// Waves take turns, so that one could read memory, wait for it and write LDS before another one has read LDS behind
/// the same barrier. On a GPU, memory takes far longer than LDS. Kernels rely on that where nothing orders the two
/// (RCCL's loop over its work). The check `race` tells of them in any case.
#[derive(Clone, Copy, Default)]
pub(crate) enum BehindBarrier {
    /// No barrier is before the instruction, or the line has ended.
    #[default]
    No,
    /// LDS has not been read.
    Begun,
    /// LDS has been read, and no branch has been passed since.
    Read,
    /// A branch has been passed, too.
    Branched,
}

impl BehindBarrier {
    /// Goes on by an instruction of the line. Returns true if waves give way at it.
    pub fn follow(&mut self, inst: &Inst) -> bool {
        let gives_way = matches!(self, Self::Branched) && waits_for_loads(inst);
        *self = match *self {
            _ if matches!(inst.op, Op::SBarrier | Op::SBarrierWait) => Self::Begun,
            _ if gives_way => Self::No,
            Self::Begun if inst.format == Format::Ds && inst.op.has(Flags::LOAD) => Self::Read,
            Self::Read if inst.op.has(Flags::BRANCH) => Self::Branched,
            same => same,
        };
        gives_way
    }
}

/// True if loads from memory are waited for.
fn waits_for_loads(inst: &Inst) -> bool {
    let simm = inst.simm as u16;
    let most = match inst.op {
        Op::SWaitcnt if inst.target.is_gfx11() => simm >> 10,
        Op::SWaitcnt => simm & 15 | simm >> 10 & 0x30,
        Op::SWaitcntVmcnt | Op::SWaitLoadcnt => simm,
        Op::SWaitLoadcntDscnt => simm >> 8,
        _ => return false,
    };
    most & 0x3f != 0x3f
}
