// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How many instructions of each kind a workgroup executes, as hardware counters tell.

use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::program::{NOWHERE, Program};
use crate::wave::{Group, Wave};
use sim_isa::{Format, Inst};

/// Kinds of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Vector ones that compute; two in one (VOPD) are one.
    Valu,
    /// Scalar ones that compute. Program control, waits among it, is none.
    Salu,
    /// Scalar memory.
    Smem,
    /// The local data share.
    Lds,
    /// Vector memory: buffers, and flat, global and scratch addresses.
    Vmem,
}

/// How many instructions there are of each [`Kind`], in their order.
pub type Tally = [u64; 5];

/// Takes what is counted.
pub trait TakeTally: Sync {
    /// What the waves of a workgroup executed.
    fn take(&self, workgroup: [u32; 3], tally: &Tally);
}

fn kind_of(inst: &Inst) -> Option<Kind> {
    match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc => Some(Kind::Salu),
        // Waits for counters of their own are here.
        Format::Sopk => (!inst.op.name().starts_with("s_wait")).then_some(Kind::Salu),
        Format::Sopp => None,
        Format::Smem => Some(Kind::Smem),
        Format::Vop1
        | Format::Vop2
        | Format::Vopc
        | Format::Vop3
        | Format::Vop3sd
        | Format::Vop3p
        | Format::Vopd
        | Format::Vopd3 => Some(Kind::Valu),
        Format::Ds => Some(Kind::Lds),
        Format::Mubuf | Format::Mtbuf | Format::Flat | Format::Global | Format::Scratch | Format::Vimage => {
            Some(Kind::Vmem)
        }
    }
}

/// Counts in one thread of a dispatch.
pub(crate) struct Count<'a> {
    /// What each micro-operation stands for.
    of: Vec<Tally>,
    sink: &'a dyn TakeTally,
    workgroup: Option<[u32; 3]>,
    tally: Tally,
}

impl<'a> Count<'a> {
    pub fn new<const L: usize>(program: &Program<L>, sink: &'a dyn TakeTally) -> Self {
        let mut of = vec![Tally::default(); program.ops.len()];
        for (at, &op) in program.index.iter().enumerate().filter(|(_, op)| **op != NOWHERE) {
            if let Some(kind) = sim_isa::decode(program.target, &program.words[at..]).ok().as_ref().and_then(kind_of) {
                of[op as usize][kind as usize] += 1;
            }
        }
        Self { of, sink, workgroup: None, tally: Tally::default() }
    }

    fn end(&mut self) {
        if let Some(workgroup) = self.workgroup.take() {
            self.sink.take(workgroup, &std::mem::take(&mut self.tally));
        }
    }
}

impl<const L: usize> Observer<L> for Count<'_> {
    fn begin(&mut self, workgroup: [u32; 3], _: &[Wave<L>], _: &Group<'_>) {
        self.end();
        self.workgroup = Some(workgroup);
    }

    #[inline]
    fn before(&mut self, op: u32, _: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        for (sum, count) in self.tally.iter_mut().zip(&self.of[op as usize]) {
            *sum += count;
        }
        Ok(())
    }

    #[inline]
    fn after(&mut self, _: u32, _: &mut Wave<L>) -> Progress {
        Ok(())
    }

    fn stuck(&mut self, _: &Wave<L>, _: &Group<'_>) {}
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
