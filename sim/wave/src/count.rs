// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Counts of a workgroup's instructions and accesses by kind, as hardware counters have them.

use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::profile::{Figures, Meter};
use crate::program::Program;
use crate::sanitizer::Plan;
use crate::wave::{Group, Wave};
use sim_isa::{Flags, Format, Inst, Op};

/// Kinds of counted instructions and accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Vector ALU instructions. A VOPD counts as one.
    Valu,
    /// Scalar ALU instructions, without program control and waits.
    Salu,
    /// Scalar memory.
    Smem,
    /// The local data share.
    Lds,
    /// Vector memory: buffers, and flat, global and scratch addresses.
    Vmem,
    /// Passes that accesses of LDS take with its banks ([`Figures::passes`]).
    LdsPasses,
    /// Passes of LDS that bank conflicts add.
    LdsConflicts,
    /// Loads of flat, global and scratch addresses.
    FlatReads,
    /// Stores of these.
    FlatWrites,
    /// Loads of buffers.
    BufferReads,
    /// Stores of these.
    BufferWrites,
    /// Cache lines that accesses of vector memory touch ([`Figures::lines`]).
    Lines,
}

/// Count of each [`Kind`], in the order of the variants.
pub type Tally = [u64; 12];

/// Receiver of counts.
pub trait TakeTally: Sync {
    /// Takes the tally of a workgroup's waves.
    fn take(&self, workgroup: [u32; 3], tally: &Tally);
}

/// True for waits that are encoded as scalar arithmetic with an immediate.
pub(crate) fn waits_in_sopk(op: Op) -> bool {
    matches!(op, Op::SWaitcntVscnt | Op::SWaitcntVmcnt | Op::SWaitcntExpcnt | Op::SWaitcntLgkmcnt)
}

fn kind_of(inst: &Inst) -> Option<Kind> {
    match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc => Some(Kind::Salu),
        // Waits for counters of their own are here.
        Format::Sopk => (!waits_in_sopk(inst.op)).then_some(Kind::Salu),
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

/// Kind of an instruction's vector memory access, if it loads or stores.
fn access_of(inst: &Inst) -> Option<Kind> {
    let [read, write] = match inst.format {
        Format::Flat | Format::Global | Format::Scratch => [Kind::FlatReads, Kind::FlatWrites],
        Format::Mubuf | Format::Mtbuf => [Kind::BufferReads, Kind::BufferWrites],
        _ => return None,
    };
    // Atomics are neither.
    inst.op.has(Flags::LOAD).then_some(read).or(inst.op.has(Flags::STORE).then_some(write))
}

/// Counter of one thread of a dispatch.
pub(crate) struct Count<'a, const L: usize> {
    /// Tally of one execution of each micro-operation.
    of: Vec<Tally>,
    meter: Meter<'a, L>,
    sink: &'a dyn TakeTally,
    workgroup: Option<[u32; 3]>,
    tally: Tally,
}

impl<'a, const L: usize> Count<'a, L> {
    pub fn new(program: &'a Program<L>, plan: &'a Plan, sink: &'a dyn TakeTally) -> Self {
        let mut of = vec![Tally::default(); program.ops.len()];
        for (_, op, inst) in program.instructions() {
            for kind in [kind_of(&inst), access_of(&inst)].into_iter().flatten() {
                of[op as usize][kind as usize] += 1;
            }
        }
        Self { of, meter: Meter::new(program, plan), sink, workgroup: None, tally: Tally::default() }
    }

    fn add(&mut self, kind: Kind, count: u64) {
        self.tally[kind as usize] += count;
    }

    fn end(&mut self) {
        if let Some(workgroup) = self.workgroup.take() {
            self.sink.take(workgroup, &std::mem::take(&mut self.tally));
        }
    }
}

impl<const L: usize> Observer<L> for Count<'_, L> {
    fn begin(&mut self, workgroup: [u32; 3], _: &[Wave<L>], _: &Group<'_>) {
        self.end();
        self.workgroup = Some(workgroup);
    }

    #[inline]
    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        for (sum, count) in self.tally.iter_mut().zip(&self.of[op as usize]) {
            *sum += count;
        }
        let mut did = Figures::default();
        self.meter.add(op, wave, group, &mut did);
        self.add(Kind::LdsPasses, did.passes);
        self.add(Kind::LdsConflicts, did.passes - did.fewest_passes);
        self.add(Kind::Lines, did.lines);
        Ok(())
    }
}

impl<const L: usize> Drop for Count<'_, L> {
    fn drop(&mut self) {
        self.end();
    }
}
