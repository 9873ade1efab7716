// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executed instructions of a workgroup's waves in their order, for thread traces.

use crate::count::waits_in_sopk;
use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::program::{NOWHERE, Program};
use crate::wave::{Group, Wave};
use sim_isa::{Flags, Format, Inst, Op};

/// Class of an instruction in a thread trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Vector arithmetic.
    Valu,
    /// Scalar arithmetic.
    Salu,
    /// Scalar memory.
    Smem,
    /// The local data share.
    Lds {
        /// True for stores.
        writes: bool,
    },
    /// Buffers, and global and scratch addresses.
    Vmem {
        /// True for stores.
        writes: bool,
    },
    /// Flat addresses.
    Flat {
        /// True for stores.
        writes: bool,
    },
    /// A branch that is taken.
    Jump,
    /// One that is not.
    Next,
    /// A message to the host or another unit.
    Message,
    /// A barrier.
    Barrier,
    /// No execution unit: waits, and other instructions that only delay a wave.
    Immediate,
}

/// An instruction that a wave has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The wave's number in its workgroup.
    pub wave: u32,
    /// Class of the instruction.
    pub class: Class,
}

/// Receiver of executed instructions.
pub trait TakeSteps: Sync {
    /// Maximum number of instructions to record for a workgroup; 0 for most workgroups.
    fn most(&self, workgroup: [u32; 3]) -> usize;

    /// Takes the executed instructions of a workgroup's waves, from the beginning on.
    fn take(&self, workgroup: [u32; 3], steps: Vec<Executed>);
}

/// Class of an instruction, of a branch as not taken. `None` for an instruction that ends a wave, which has no token.
fn class_of(inst: &Inst) -> Option<Class> {
    let writes = inst.op.has(Flags::STORE);
    match inst.format {
        Format::Sopp if inst.op.has(Flags::BRANCH) => Some(Class::Next),
        Format::Sopp if matches!(inst.op, Op::SEndpgm | Op::SEndpgmSaved | Op::SEndpgmOrderedPsDone) => None,
        Format::Sopp if matches!(inst.op, Op::SSendmsg | Op::SSendmsghalt) => Some(Class::Message),
        Format::Sopp | Format::Sop1 if inst.op.has(Flags::BARRIER) => Some(Class::Barrier),
        Format::Sopp => Some(Class::Immediate),
        Format::Sopk if waits_in_sopk(inst.op) => Some(Class::Immediate),
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk => Some(Class::Salu),
        Format::Smem => Some(Class::Smem),
        Format::Vop1
        | Format::Vop2
        | Format::Vopc
        | Format::Vop3
        | Format::Vop3sd
        | Format::Vop3p
        | Format::Vopd
        | Format::Vopd3 => Some(Class::Valu),
        // Ops with `store` in their name, atomics among them. No document was found that gives their tokens.
        Format::Ds => Some(Class::Lds { writes: inst.op.name().contains("store") }),
        Format::Flat => Some(Class::Flat { writes }),
        Format::Mubuf | Format::Mtbuf | Format::Global | Format::Scratch | Format::Vimage => {
            Some(Class::Vmem { writes })
        }
    }
}

/// Follows the waves of one thread of a dispatch.
pub(crate) struct Steps<'a> {
    /// The instructions of each micro-operation, and the micro-operation behind them.
    of: Vec<(Vec<Class>, u32)>,
    sink: &'a dyn TakeSteps,
    workgroup: Option<[u32; 3]>,
    most: usize,
    steps: Vec<Executed>,
    /// By wave, the place of a branch in `steps` and the micro-operation behind it.
    branches: Vec<Option<(usize, u32)>>,
}

impl<'a> Steps<'a> {
    pub fn new<const L: usize>(program: &Program<L>, sink: &'a dyn TakeSteps) -> Self {
        let mut of = vec![(Vec::new(), NOWHERE); program.ops.len()];
        for (at, op, inst) in program.instructions() {
            let (classes, behind) = &mut of[op as usize];
            classes.extend(class_of(&inst));
            let next = program.index[at + 1..].iter().copied().find(|next| *next != NOWHERE && *next != op);
            *behind = next.unwrap_or(NOWHERE);
        }
        Self { of, sink, workgroup: None, most: 0, steps: Vec::new(), branches: Vec::new() }
    }

    fn end(&mut self) {
        if let Some(workgroup) = self.workgroup.take().filter(|_| self.most > 0) {
            self.sink.take(workgroup, std::mem::take(&mut self.steps));
        }
    }
}

impl<const L: usize> Observer<L> for Steps<'_> {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], _: &Group<'_>) {
        self.end();
        self.workgroup = Some(workgroup);
        self.most = self.sink.most(workgroup);
        self.branches.clear();
        self.branches.resize(waves.len(), None);
    }

    #[inline]
    fn before(&mut self, op: u32, wave: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        if self.steps.len() >= self.most {
            return Ok(());
        }
        let number = wave.index;
        if let Some((place, behind)) = self.branches[number as usize].take()
            && behind != op
        {
            self.steps[place].class = Class::Jump;
        }
        let (classes, behind) = &self.of[op as usize];
        for &class in classes {
            if class == Class::Next {
                self.branches[number as usize] = Some((self.steps.len(), *behind));
            }
            self.steps.push(Executed { wave: number, class });
        }
        Ok(())
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
