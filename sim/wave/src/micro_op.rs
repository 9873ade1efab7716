// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Micro-operations, the executable form of instructions, and their results.

use crate::fault::FaultKind;
use crate::memory::Caching;
use crate::operand::Src;
use crate::sources::Sources;
use crate::wave::{Group, Wave};
use sim_isa::{Matrix, Mem, Op, Sdwa};

/// Reason to leave the straight line of micro-operations.
#[derive(Debug)]
pub(crate) enum Stop {
    /// `s_endpgm`.
    End,
    /// Continue when all waves have signalled the barrier as often as this one has waited for it, or when the named
    /// barrier that it has joined completes.
    Barrier,
    /// Let other waves run (`s_sleep`, end of a time slice).
    Yield,
    /// Let the other waves of the workgroup run, at a wait for memory.
    GiveWay,
    /// The kernel is wrong, or the simulator cannot go on.
    Fault(Box<FaultKind>),
    /// Go on at this address.
    Jump(u64),
    /// The observer wants to look at the workgroup. The wave goes on with the same micro-operation.
    Pause,
    /// The instruction cannot run, for the reason in the program's list of refusals.
    Refused,
}

impl From<Box<FaultKind>> for Stop {
    fn from(kind: Box<FaultKind>) -> Self {
        Stop::Fault(kind)
    }
}

/// Result of a micro-operation: go on with [`Wave::next`], or stop.
pub(crate) type Step = Result<(), Stop>;

/// Executes one micro-operation.
///
/// # Safety
/// The CPU must have the features of the `Level` the handler was selected for.
pub(crate) type Handler<const L: usize> = unsafe fn(&mut Wave<L>, &mut Group<'_>, &MicroOp<L>) -> Step;

/// Lane crossing, or selection of sub-dwords, around an op.
pub(crate) struct Crossing {
    pub lanes: Sources,
    pub sdwa: Option<Sdwa>,
    /// The op's sources 0 and 1; its own [`MicroOp::src`] are the spare registers that these are put into.
    pub src: [Src; 2],
    /// Source 0 is two registers.
    pub wide: bool,
    /// The register that part of the result goes to; the op itself writes the third spare one.
    pub dst: Option<u16>,
}

/// One instruction (or half a VOPD), ready to run.
pub(crate) struct MicroOp<const L: usize> {
    pub run: Handler<L>,
    /// The instruction, if `run` is the handler of one.
    pub code: Option<Op>,
    /// Handler that `run` wraps, if there is a crossing.
    pub inner: Handler<L>,
    pub crossing: Option<Box<Crossing>>,
    pub src: [Src; 4],
    /// Destination: a VGPR or a scalar slot.
    pub dst: u16,
    /// Scalar slot of the second destination.
    pub sdst: u16,
    /// There is a destination.
    pub has_dst: bool,
    /// Destination is the high half of its VGPR.
    pub dst_high: bool,
    /// A 16-bit result clears the other half of its VGPR.
    pub dst_clears: bool,
    /// The result goes to EXEC too.
    pub writes_exec: bool,
    /// No source or output modifiers.
    pub plain: bool,
    pub neg: u8,
    pub neg_hi: u8,
    pub abs: u8,
    pub op_sel: u8,
    pub op_sel_hi: u8,
    pub omod: u8,
    pub clamp: bool,
    pub simm: i16,
    pub mem: Mem,
    pub caching: Caching,
    pub matrix: Matrix,
    /// Instructions this stands for: itself and no-ops before it; 0 for the second half of a VOPD.
    pub count: u32,
    /// Index of a branch's target, or into `Program::refusals`.
    pub target: u32,
    /// Byte offset in the code.
    pub offset: u32,
}

/// How a matrix op's blocks are scaled, in [`MicroOp::simm`].
#[derive(Clone, Copy)]
pub(crate) struct Scaling {
    /// Formats of A's and B's scales: 0 E8M0, 1 E5M3, 2 E4M3.
    pub formats: [u8; 2],
    /// A scale is for 16 elements along K, not 32.
    pub sixteen: bool,
}

impl Scaling {
    const SCALED: i16 = 0x20;

    pub fn to_simm(self) -> i16 {
        let [a, b] = self.formats.map(i16::from);
        Self::SCALED | a | b << 2 | i16::from(self.sixteen) << 4
    }

    pub fn from_simm(simm: i16) -> Option<Self> {
        let formats = [simm & 3, simm >> 2 & 3].map(|format| format as u8);
        (simm & Self::SCALED != 0).then_some(Scaling { formats, sixteen: simm & 0x10 != 0 })
    }
}
