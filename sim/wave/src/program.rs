// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A kernel's instructions, decoded once into micro-operations with resolved operands.

use crate::caching;
use crate::exec::{self, Level, Scaling};
use crate::fault::FaultKind;
use crate::memory::{Caching, Control, Path};
use crate::operand::{Registers, Src, SrcKind};
use crate::wave::{Group, Handler, SPARE_ROWS, Step, Stop, Wave, slot};
use sim_isa::{DecodeError, Dpp, Format, Inst, Matrix, Mem, Op, Operand, Sdwa, Select, Target, Ty};
use std::collections::{BTreeMap, BTreeSet};

/// What a lane crossing or a selection of sub-dwords does around an op.
pub(crate) struct Crossing {
    pub dpp: Dpp,
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
    /// What `run` wraps, if there is a crossing.
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
    /// Index of a branch's target, or into [`Program::refusals`].
    pub target: u32,
    /// Byte offset in the code.
    pub offset: u32,
}

/// Backward branches that a wave takes before others get a turn.
const PATIENCE: u32 = 1 << 14;
/// The same where others cannot use the caches meanwhile.
const PATIENCE_WITH_CACHES: u32 = 1 << 6;

/// Marks offsets where no instruction starts.
const NOWHERE: u32 = u32::MAX;

/// Why an instruction cannot run.
pub(crate) enum Refusal {
    /// Looked at closer only if it is reached: where calls may go anywhere, each dword is taken for an instruction.
    Undecoded(DecodeError),
    Fault(FaultKind),
}

impl Refusal {
    /// An instruction with a name is one that the decoder lacks, or lacks an operand of.
    fn fault(&self) -> FaultKind {
        match self {
            Self::Undecoded(error) if error.mnemonic().is_some() => FaultKind::NotImplemented(error.reason()),
            Self::Undecoded(error) => FaultKind::InvalidEncoding(error.reason()),
            Self::Fault(kind) => kind.clone(),
        }
    }
}

/// The instructions that can be reached from an entry point.
pub(crate) struct Program<const L: usize> {
    pub ops: Vec<MicroOp<L>>,
    /// Micro-operation of each dword of the code.
    index: Vec<u32>,
    /// Why some instructions cannot run; reported if they are reached.
    pub refusals: Vec<Refusal>,
    /// Constants that vector instructions read, in the rows after the spare ones.
    pub constants: Vec<u32>,
    /// Address of the code.
    pub base: u64,
    pub words: Vec<u32>,
    pub target: Target,
    pub entry: u32,
}

impl<const L: usize> Program<L> {
    /// Decodes what is reachable from byte `entry` of the code at address `base`. What cannot be decoded or run becomes a
    /// micro-operation that faults. Only `registers` exist.
    pub fn new(target: Target, base: u64, code: &[u8], entry: u32, registers: Registers, level: Level) -> Self {
        let words: Vec<u32> = code.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let reachable = Reachable::find(target, &words, entry);
        let mut program = Program {
            ops: Vec::new(),
            index: vec![NOWHERE; words.len()],
            refusals: Vec::new(),
            constants: Vec::new(),
            base,
            words,
            target,
            entry: 0,
        };
        let mut builder = Builder {
            program: &mut program,
            registers,
            level,
            skipped: 0,
            control: Control::default(),
            jumps: Vec::new(),
            indexed: Indexed::default(),
            upper: Upper::default(),
        };
        builder.build(&reachable);
        program.entry = program.index[entry as usize / 4];
        program
    }

    /// Executes a wave of workgroup `workgroup` until it ends, waits at a barrier, yields or faults.
    pub fn turn(&self, wave: &mut Wave<L>, group: &mut Group<'_>, workgroup: u64) -> Stop {
        if !group.memory.begin_turn(workgroup, wave.index) {
            return self.go_on::<false>(wave, group);
        }
        let stop = self.go_on::<true>(wave, group);
        group.memory.end_turn();
        stop
    }

    fn go_on<const CACHES: bool>(&self, wave: &mut Wave<L>, group: &mut Group<'_>) -> Stop {
        wave.patience = if CACHES { PATIENCE_WITH_CACHES } else { PATIENCE };
        loop {
            let op = &self.ops[wave.next as usize];
            if CACHES {
                group.memory.cache(&op.caching);
            }
            wave.next += 1;
            wave.count += u64::from(op.count);
            // SAFETY: the handler was selected for a level that this CPU has.
            let step = unsafe { (op.run)(wave, group, op) };
            match step {
                Ok(()) => {}
                Err(Stop::Jump(address)) => {
                    let Some(index) = self.at(address) else {
                        return Stop::Fault(Box::new(FaultKind::PcOutOfRange(address)));
                    };
                    wave.next = index;
                    wave.patience -= 1;
                    if wave.patience == 0 {
                        return Stop::Yield;
                    }
                }
                Err(Stop::Refused) => return Stop::Fault(Box::new(self.refusals[op.target as usize].fault())),
                Err(stop) => return stop,
            }
        }
    }

    /// The micro-operation at an address.
    pub fn at(&self, address: u64) -> Option<u32> {
        let offset = address.wrapping_sub(self.base);
        let index = *self.index.get(usize::try_from(offset / 4).ok()?)?;
        (offset.is_multiple_of(4) && index != NOWHERE).then_some(index)
    }
}

type Decoded = Result<Inst, DecodeError>;

/// The instructions that control flow can come to, by byte offset.
struct Reachable {
    instructions: BTreeMap<u32, Decoded>,
    /// Offsets that are jumped to.
    targets: BTreeSet<u32>,
    /// There are jumps through registers: any instruction may be a target.
    indirect: bool,
}

impl Reachable {
    fn find(target: Target, words: &[u32], entry: u32) -> Self {
        let mut found = Reachable { instructions: BTreeMap::new(), targets: BTreeSet::from([entry]), indirect: false };
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
}

/// Whether it goes on where a register says.
fn jumps_by_register(inst: &Inst) -> bool {
    matches!(inst.op, Op::SSetpcB64 | Op::SSwappcB64) || inst.op == Op::SAddPcI64 && !inst.src[0].is_constant()
}

/// Whether the next instruction can follow.
fn falls_through(op: Op) -> bool {
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

/// Where a branch at `offset` goes, in bytes (it may be outside the code).
fn branch_target(inst: &Inst, offset: u32) -> Option<u32> {
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

/// Instructions without an effect here: caches are coherent, results are there at once, hints are hints.
fn is_nop(op: Op, simm: i16) -> bool {
    use Op::*;
    match op {
        SNop
        | SClause
        | SDelayAlu
        | SWaitcnt
        | SWaitcntVscnt
        | SWaitcntVmcnt
        | SWaitcntExpcnt
        | SWaitcntLgkmcnt
        | SWaitcntDepctr
        | SWaitIdle
        | SWaitLoadcnt
        | SWaitStorecnt
        | SWaitSamplecnt
        | SWaitBvhcnt
        | SWaitExpcnt
        | SWaitDscnt
        | SWaitKmcnt
        | SWaitXcnt
        | SWaitAsynccnt
        | SWaitTensorcnt
        | SMonitorSleep
        | SSetprioIncWg
        | SSetVgprMsb
        | FlatPrefetchB8
        | SWaitLoadcntDscnt
        | SWaitStorecntDscnt
        | SSetInstPrefetchDistance
        | SSetprio
        | SIncperflevel
        | SDecperflevel
        | STtracedata
        | STtracedataImm
        | SIcacheInv
        | SDcacheInv
        | SGl1Inv
        | BufferGl0Inv
        | BufferGl1Inv
        | SDcacheWb
        | SDcacheInvVol
        | SDcacheWbVol
        | BufferWbl2
        | BufferInvl2
        | BufferInv
        | BufferWbinvl1
        | BufferWbinvl1Vol
        | VClrexcp
        | GlobalInv
        | GlobalWb
        | GlobalWbinv
        | GlobalPrefetchB8
        | SPrefetchInst
        | SPrefetchInstPcRel
        | SPrefetchData
        | SPrefetchDataPcRel
        | SBufferPrefetchData
        | SAtcProbe
        | SAtcProbeBuffer
        | SDcacheDiscard
        | SDcacheDiscardX2
        | SWakeup
        | SWakeupBarrier
        | SVersion
        | SCbranchCdbgsys
        | SCbranchCdbguser
        | SCbranchCdbgsysOrUser
        | SCbranchCdbgsysAndUser
        | VNop
        | VPipeflush
        | DsNop => true,
        // MSG_INTERRUPT (1) tells the host to look at a signal it sees anyway, MSG_DEALLOC_VGPRS (3) frees registers at a wave's end.
        SSendmsg => matches!(simm, 1 | 3),
        _ => false,
    }
}

/// Whether the op is executed (or skipped as a no-op): the list that tests go by.
pub fn is_implemented(op: Op) -> bool {
    is_nop(op, 1)
        || exec::handler::<32>(op, false, Level::Base).is_ok()
        || exec::handler::<64>(op, false, Level::Base).is_ok()
}

struct Builder<'a, const L: usize> {
    program: &'a mut Program<L>,
    registers: Registers,
    level: Level,
    /// No-ops since the last micro-operation.
    skipped: u32,
    /// What those have done to caches.
    control: Control,
    /// Branches whose `target` is still an offset.
    jumps: Vec<(usize, u32)>,
    indexed: Indexed,
    upper: Upper,
}

/// The two upper bits of gfx1250's VGPR numbers, as `s_set_vgpr_msb` gave them last: of sources 0 to 2 and the destination. Compilers put
/// zeros back before a block ends, so that they are known when code is decoded; a jump with others is refused.
#[derive(Clone, Copy, Default, PartialEq)]
struct Upper(u8);

impl Upper {
    const DESTINATION: usize = 3;

    /// What is added to the register numbers of an instruction's sources and destination (LLVM's `getVGPRLoweringOperandTables`).
    fn of(self, inst: &Inst) -> ([u16; 4], u16) {
        let bits = |slot: usize| u16::from(self.0 >> (2 * slot) & 3) * 256;
        let destination = bits(Self::DESTINATION);
        match inst.format {
            // Scales of matrix ops are never above.
            _ if inst.op.loads_scales() => ([0; 4], 0),
            // What a buffer access loads or stores is its destination.
            Format::Mubuf | Format::Mtbuf => ([bits(0), destination, 0, 0], destination),
            _ => ([bits(0), bits(1), bits(2), 0], destination),
        }
    }
}

/// GFX9's relative register numbers: between `s_set_gpr_idx_on` and `_off` the bits say which operands of vector instructions have M0's
/// low byte added. Compilers put moves alone between the two, so that the bits are known when code is decoded.
#[derive(Clone, Copy, Default)]
struct Indexed(u8);

impl Indexed {
    const SOURCE_0: u8 = 1;
    const DESTINATION: u8 = 8;
    /// After a branch into the middle: vector instructions are refused.
    const UNKNOWN: u8 = 0x80;
}

impl<const L: usize> Builder<'_, L> {
    fn build(&mut self, reachable: &Reachable) {
        let mut next = None;
        // Of the last instruction that does not begin inside another.
        let mut end = 0;
        for (&offset, decoded) in &reachable.instructions {
            // The instruction before this one runs on to somewhere else.
            if let Some(expected) = next.filter(|&expected| expected != offset) {
                self.jump_to(expected);
            }
            let is_target = reachable.indirect || reachable.targets.contains(&offset);
            if is_target && self.skipped > 0 {
                let mut op = self.blank(exec::nop::<L>, offset);
                op.count = std::mem::take(&mut self.skipped);
                self.program.ops.push(op);
            }
            self.program.index[offset as usize / 4] = self.program.ops.len() as u32;
            let arrives = next.is_some();
            next = None;
            // Where any instruction may be a target, the second half of one is translated too: it sets no mode for what comes after.
            let is_inside = offset < end;
            let modes = (self.indexed, self.upper);
            match decoded {
                Ok(inst) if is_target && arrives && self.upper != Upper::default() => {
                    let what = format!("{} where paths meet, with upper bits of register numbers set", inst.op.name());
                    self.refuse(Refusal::Fault(FaultKind::NotImplemented(what)), offset);
                }
                Ok(inst) => {
                    // The bits of another path are not followed.
                    if self.indexed.0 != 0 && reachable.targets.contains(&offset) {
                        self.indexed = Indexed(Indexed::UNKNOWN);
                    }
                    if falls_through(inst.op) {
                        next = Some(offset + u32::from(inst.size));
                    }
                    if !arrives {
                        self.upper = Upper::default();
                    }
                    if inst.op == Op::SSetVgprMsb {
                        self.upper = Upper(inst.simm as u8);
                    }
                    if is_nop(inst.op, inst.simm) {
                        self.skipped += 1;
                        caching::add(&mut self.control, inst, self.program.target);
                    } else {
                        self.instruction(inst, offset);
                    }
                }
                Err(error) => self.refuse(Refusal::Undecoded(error.clone()), offset),
            }
            if is_inside {
                (self.indexed, self.upper) = modes;
            } else if let Ok(inst) = decoded {
                end = offset + u32::from(inst.size);
            }
        }
        if let Some(expected) = next {
            self.jump_to(expected);
        }
        for (index, offset) in std::mem::take(&mut self.jumps) {
            let target = self.program.at(self.program.base.wrapping_add(u64::from(offset)));
            match target {
                Some(target) => self.program.ops[index].target = target,
                None => {
                    let at = self.program.ops[index].offset;
                    let address = self.program.base.wrapping_add(i64::from(offset as i32) as u64);
                    self.refuse(Refusal::Fault(FaultKind::PcOutOfRange(address)), at);
                    self.program.ops[index].target = self.program.ops.len() as u32 - 1;
                }
            }
        }
    }

    fn blank(&mut self, run: Handler<L>, offset: u32) -> MicroOp<L> {
        MicroOp {
            run,
            inner: run,
            crossing: None,
            src: [Src::NONE; 4],
            dst: slot::NULL as u16,
            sdst: slot::NULL as u16,
            has_dst: false,
            dst_high: false,
            dst_clears: false,
            writes_exec: false,
            plain: true,
            neg: 0,
            neg_hi: 0,
            abs: 0,
            op_sel: 0,
            op_sel_hi: 0,
            omod: 0,
            clamp: false,
            simm: 0,
            mem: Mem::default(),
            caching: Caching { path: Path::Vector, before: std::mem::take(&mut self.control) },
            matrix: Matrix::default(),
            count: 1 + std::mem::take(&mut self.skipped),
            target: 0,
            offset,
        }
    }

    /// Goes on at another offset than that of the next micro-operation.
    fn jump_to(&mut self, offset: u32) {
        let mut op = self.blank(exec::jump::<L>, offset);
        op.count -= 1;
        self.jumps.push((self.program.ops.len(), offset));
        self.program.ops.push(op);
    }

    fn refuse(&mut self, refusal: Refusal, offset: u32) {
        let mut op = self.blank(refused::<L>, offset);
        op.target = self.program.refusals.len() as u32;
        self.program.refusals.push(refusal);
        self.program.ops.push(op);
    }

    fn instruction(&mut self, inst: &Inst, offset: u32) {
        let translated = match &inst.dual {
            None => self.single(inst, offset).map(|op| vec![op]),
            Some(product) if inst.op.loads_scales() => self.scaled(inst, product, offset),
            Some(second) => self.pair(inst, second, offset),
        };
        match translated {
            Ok(ops) => {
                if let Some(to) = branch_target(inst, offset) {
                    self.jumps.push((self.program.ops.len(), to));
                }
                self.program.ops.extend(ops);
            }
            Err(kind) => self.refuse(Refusal::Fault(kind), offset),
        }
    }

    fn single(&mut self, inst: &Inst, offset: u32) -> Result<MicroOp<L>, FaultKind> {
        self.check_registers(inst)?;
        match inst.op {
            Op::SSetGprIdxOn | Op::SSetGprIdxMode => self.indexed = Indexed(inst.simm as u8 & 15),
            Op::SSetGprIdxOff => self.indexed = Indexed::default(),
            _ => {}
        }
        check_hardware_register(inst)?;
        check_scaled(inst)?;
        check_signs(inst)?;
        if self.upper != Upper::default() && (branch_target(inst, offset).is_some() || jumps_by_register(inst)) {
            let what = format!("{} with upper bits of register numbers set", inst.op.name());
            return Err(FaultKind::NotImplemented(what));
        }
        let chosen = exec::handler::<L>(inst.op, inst.clamp, self.level).map_err(FaultKind::NotImplemented)?;
        let run = match inst.mem.lds {
            true => exec::lds_handler::<L>(inst.op)
                .ok_or_else(|| FaultKind::NotImplemented(format!("{} to LDS", inst.op.name())))?,
            false => chosen.run,
        };
        let mut op = self.blank(run, offset);
        if self.indexed.0 != 0 && inst.op.name().starts_with("v_") {
            op.run = self.indexed_move(inst)?;
            op.inner = op.run;
        }
        let info = inst.op.info();
        for (i, (&operand, &ty)) in inst.src.iter().zip(info.src).enumerate() {
            op.src[i] = self.registers.source(operand, ty, inst.op_sel >> i & 1 != 0)?;
            if chosen.lane_wise && op.src[i].kind == SrcKind::Const && ty != Ty::Mask {
                op.src[i] = self.constant_rows(op.src[i].value, ty.dwords(false) > 1);
            }
        }
        if exec::reads_destination(inst.op) {
            op.src[info.src.len()] = self.registers.source(inst.dst, info.dst, inst.op_sel & 8 != 0)?;
        }
        if matches!(inst.op, Op::VCvtF32Fp8Gfx12 | Op::VCvtF32Bf8Gfx12 | Op::VCvtF16Fp8 | Op::VCvtF16Bf8) {
            // The bits of the byte's number are reversed (RDNA4 ISA, V_CVT_F32_FP8).
            op.src[0].shift = (inst.op_sel & 1) * 16 + (inst.op_sel >> 1 & 1) * 8;
        }
        if inst.format == Format::Flat && !inst.src[2].is_none() {
            op.src[2] = self.registers.source(inst.src[2], Ty::B64, false)?;
        }
        op.dst = self.registers.destination(inst.dst)?;
        let (upper, of_destination) = self.upper.of(inst);
        for (at, src) in op.src.iter_mut().enumerate() {
            match inst.src[at] {
                Operand::Vgpr(_) => src.reg += upper[at],
                // The old value of the destination.
                Operand::None if src.kind == SrcKind::Vgpr => src.reg += of_destination,
                _ => {}
            }
        }
        if let Operand::Vgpr(_) = inst.dst {
            op.dst += of_destination;
        }
        op.has_dst = inst.dst != Operand::None;
        op.sdst = self.registers.destination(inst.sdst)?;
        let half_result = info.dst.is_16()
            || matches!(inst.op, Op::VCvtPkFp8F32 | Op::VCvtPkBf8F32 | Op::VAshrPkI8I32 | Op::VAshrPkU8I32);
        op.dst_high = half_result && inst.op_sel & 8 != 0;
        op.dst_clears = inst.target.is_gfx9() && clears_high_half(inst);
        op.writes_exec = inst.op.name().starts_with("v_cmpx");
        op.plain = inst.neg | inst.abs | inst.omod == 0 && !inst.clamp;
        op.neg = inst.neg;
        op.neg_hi = inst.neg_hi;
        op.abs = inst.abs;
        op.op_sel = inst.op_sel;
        op.op_sel_hi = inst.op_sel_hi;
        op.omod = inst.omod;
        op.clamp = inst.clamp;
        op.simm = if inst.op == Op::SAddPcI64 { i16::from(inst.size) } else { inst.simm };
        op.mem = inst.mem;
        op.caching.path = caching::path(inst, self.program.target);
        op.matrix = inst.matrix;
        self.cross(inst, &mut op)?;
        Ok(op)
    }

    /// The handler of a move whose registers have M0 added.
    fn indexed_move(&self, inst: &Inst) -> Result<Handler<L>, FaultKind> {
        let plain = inst.op == Op::VMovB32 && inst.dpp == Dpp::None && inst.sdwa.is_none();
        match self.indexed.0 {
            Indexed::SOURCE_0 if plain => Ok(exec::indexed_move::<true, false, L>),
            Indexed::DESTINATION if plain => Ok(exec::indexed_move::<false, true, L>),
            bits => Err(FaultKind::NotImplemented(format!("{} with register index mode {bits:#x}", inst.op.name()))),
        }
    }

    /// Wraps an op whose sources come from other lanes, or are parts of registers.
    fn cross(&self, inst: &Inst, op: &mut MicroOp<L>) -> Result<(), FaultKind> {
        if inst.dpp == Dpp::None && inst.sdwa.is_none() {
            return Ok(());
        }
        let spare = self.registers.total() as u16;
        let mut crossing = Crossing {
            dpp: inst.dpp,
            sdwa: inst.sdwa,
            src: [op.src[0], op.src[1]],
            wide: inst.src_ty(0).dwords(false) == 2,
            dst: None,
        };
        let register = |n: u16| Src { kind: SrcKind::Vgpr, shift: 0, reg: spare + n, value: 0 };
        op.src[0] = Src { shift: op.src[0].shift, ..register(0) };
        if let Some(sdwa) = inst.sdwa {
            if op.src[1].kind != SrcKind::None && inst.src_ty(1) != Ty::Mask {
                op.src[1] = register(1);
            }
            if sdwa.dst != Select::Dword && matches!(inst.dst, Operand::Vgpr(_)) {
                crossing.dst = Some(op.dst);
                op.dst = spare + 2;
            }
            op.run = exec::sdwa::handler::<L>(inst.op, self.level);
        } else {
            if !exec::dpp::is_known(inst.dpp, inst.target) || !matches!(inst.src[0], Operand::Vgpr(_)) {
                return Err(FaultKind::NotImplemented(format!("{:?} of {:?}", inst.dpp, inst.src[0])));
            }
            op.run = exec::dpp::handler::<L>(inst.op, self.level);
        }
        op.crossing = Some(Box::new(crossing));
        Ok(())
    }

    /// The register of a constant that vector instructions read: broadcast once, not each time.
    fn constant_rows(&mut self, value: u64, wide: bool) -> Src {
        let constants = &mut self.program.constants;
        let dwords: &[u32] = if wide { &[value as u32, (value >> 32) as u32] } else { &[value as u32] };
        let at = constants.windows(dwords.len()).position(|window| window == dwords).unwrap_or_else(|| {
            constants.extend_from_slice(dwords);
            constants.len() - dwords.len()
        });
        Src { kind: SrcKind::Vgpr, shift: 0, reg: (self.registers.total() + SPARE_ROWS + at) as u16, value: 0 }
    }

    /// VOPD: both halves read before either writes, so the half whose result the other reads runs last, or through a spare register.
    fn pair(&mut self, x: &Inst, y: &Inst, offset: u32) -> Result<Vec<MicroOp<L>>, FaultKind> {
        let first = Inst { dual: None, ..x.clone() };
        let mut first = self.single(&first, offset)?;
        let mut second = self.single(y, offset)?;
        let width = |ty: Ty| usize::from(ty.dwords(false));
        // Whether `reader` has a source among the registers that `writer` writes.
        let reads = |inst: &Inst, reader: &MicroOp<L>, other: &Inst, writer: &MicroOp<L>| {
            let written = usize::from(writer.dst)..usize::from(writer.dst) + width(other.op.info().dst);
            reader.src.iter().enumerate().any(|(at, src)| {
                let first = usize::from(src.reg);
                let end = first + width(inst.op.info().src.get(at).copied().unwrap_or(inst.op.info().dst));
                src.kind == SrcKind::Vgpr && first < written.end && written.start < end
            })
        };
        second.count = 0;
        if !reads(y, &second, x, &first) {
            return Ok(vec![first, second]);
        }
        if !reads(x, &first, y, &second) {
            std::mem::swap(&mut first.count, &mut second.count);
            return Ok(vec![second, first]);
        }
        let (dst, spare) = (first.dst, self.registers.total() as u16);
        first.dst = spare;
        let mut ops = vec![first, second];
        for n in 0..width(x.op.info().dst) as u16 {
            let mut copy = self.blank(exec::copy_row::<L>, offset);
            copy.count = 0;
            copy.dst = dst + n;
            copy.src[0] = Src { kind: SrcKind::Vgpr, reg: spare + n, ..Src::NONE };
            ops.push(copy);
        }
        Ok(ops)
    }

    /// A matrix op, after what puts its scales into the spare registers.
    fn scaled(&mut self, scales: &Inst, product: &Inst, offset: u32) -> Result<Vec<MicroOp<L>>, FaultKind> {
        let formats = [scales.neg & 3, scales.neg_hi & 3];
        if formats.contains(&3) {
            return Err(FaultKind::NotImplemented(format!("matrix scales of formats {formats:?}")));
        }
        self.check_registers(scales)?;
        let mut load = self.blank(exec::load_scales::<L>, offset);
        for (at, ty) in scales.op.info().src.iter().enumerate() {
            load.src[at] = self.registers.source(scales.src[at], *ty, false)?;
        }
        load.dst = self.registers.total() as u16;
        // 32 rows of A take the scales of all lanes.
        load.op_sel = if product.op == Op::VWmmaF3232x16x128F4 { 0 } else { scales.op_sel };
        load.op_sel_hi = scales.op_sel_hi;
        let mut product = self.single(product, offset)?;
        product.count = 0;
        product.simm = Scaling { formats, sixteen: scales.op == Op::VWmmaLdScale16PairedB64 }.to_simm();
        Ok(vec![load, product])
    }

    /// Every register an instruction names must exist.
    fn check_registers(&self, inst: &Inst) -> Result<(), FaultKind> {
        let info = inst.op.info();
        // Tiles of WMMA, for which the row has the registers of wave32, are spread over more lanes in wave64; factors on gfx11 are copied.
        let spread = L > 32 && ["v_wmma_", "v_swmmac_"].iter().any(|kind| inst.op.name().starts_with(kind));
        let first_spread = if inst.target.is_gfx12() { 0 } else { 2 };
        let mut operands: Vec<(Operand, Ty, bool)> =
            (0..4).map(|at| (inst.src[at], inst.src_ty(at), spread && at >= first_spread)).collect();
        operands.push((inst.dst, info.dst, spread));
        operands.push((inst.sdst, info.sdst, false));
        let (upper, of_destination) = self.upper.of(inst);
        let upper = upper.into_iter().chain([of_destination, 0]);
        for ((operand, ty, spread), upper) in operands.into_iter().zip(upper) {
            let dwords = usize::from(ty.dwords(L > 32)).div_ceil(if spread { 2 } else { 1 }).max(1);
            let (first, limit, file) = match operand {
                Operand::Vgpr(n) => (usize::from(n) + usize::from(upper), self.registers.vector, 'v'),
                Operand::Agpr(n) => (usize::from(n), self.registers.accumulation, 'a'),
                Operand::Sgpr(n) => (usize::from(n), slot::SGPRS + 2, 's'),
                _ => continue,
            };
            if first + dwords > limit {
                let last = first + dwords - 1;
                return Err(FaultKind::RegisterOutOfRange(format!("{file}{last}, the kernel has {limit}")));
            }
        }
        Ok(())
    }
}

/// The numbers of hardware registers other than MODE mean something else on gfx12, where of them only the counter of cycles is simulated. On
/// gfx1250 there is
/// what kernels begin with: bit 25 of MODE, how memory accesses are repeated after page faults (there are none), and bits 6 to 9 of
/// IB_STS2. Its MODE also has upper bits of register numbers.
fn check_hardware_register(inst: &Inst) -> Result<(), FaultKind> {
    const MODE: u16 = 1;
    const IB_STS2: u16 = 28;
    const SHADER_CYCLES: [u16; 2] = [29, 30];
    let simm = inst.simm as u16;
    let (register, first, width) = (simm & 0x3f, simm >> 6 & 0x1f, (simm >> 11) + 1);
    if !inst.target.is_gfx12() || !matches!(inst.op, Op::SGetregB32 | Op::SSetregB32 | Op::SSetregImm32B32) {
        return Ok(());
    }
    let known = match (inst.target, register) {
        (Target::Gfx1250, MODE) => first + width <= 8 || (first, width) == (25, 1),
        (Target::Gfx1250, IB_STS2) => inst.op == Op::SGetregB32 && (first, width) == (6, 4),
        (_, register) if SHADER_CYCLES.contains(&register) => inst.op == Op::SGetregB32,
        (_, register) => register == MODE,
    };
    if known {
        return Ok(());
    }
    let what = format!("{width} bits from {first} of hardware register {register} of {:?}", inst.target);
    Err(FaultKind::NotImplemented(what))
}

/// Elements are counted by the register beside a scalar base, or in scratch; without one `scale_offset` means nothing.
fn check_scaled(inst: &Inst) -> Result<(), FaultKind> {
    let offset = match inst.format {
        Format::Smem => inst.src[1],
        Format::Flat | Format::Global if !inst.src[2].is_none() => inst.src[0],
        Format::Scratch => inst.src[0],
        _ => Operand::None,
    };
    if inst.mem.scale_offset && offset.is_none() {
        let what = format!("{} with scale_offset but no offset in a register", inst.op.name());
        return Err(FaultKind::NotImplemented(what));
    }
    Ok(())
}

/// One bit is for the signs of both of a pair of f16 (CDNA5 ISA, V_CVT_PK_FP8_F16), which no compiler has emitted yet.
fn check_signs(inst: &Inst) -> Result<(), FaultKind> {
    if matches!(inst.op, Op::VCvtPkFp8F16 | Op::VCvtPkBf8F16) && inst.neg | inst.abs != 0 {
        return Err(FaultKind::NotImplemented(format!("{} with neg or abs", inst.op.name())));
    }
    Ok(())
}

/// Whether a 16-bit result clears the upper half of its register on GFX9: those of the short encodings do, but for multiply-adds
/// (Vega ISA 6.2 and LLVM's `zeroesHigh16BitsOfDest`). The others leave it alone, as all do later.
fn clears_high_half(inst: &Inst) -> bool {
    let short = |format| matches!(format, Format::Vop1 | Format::Vop2);
    let is_short = inst.op.encodings(inst.target).any(|encoding| short(encoding.format));
    let multiply_add = matches!(inst.op, Op::VMacF16 | Op::VMadakF16 | Op::VMadmkF16);
    inst.op.info().dst.is_16() && (is_short && !multiply_add || inst.op.name().contains("_legacy_"))
}

/// Stops at an instruction that cannot run.
fn refused<const L: usize>(_: &mut Wave<L>, _: &mut Group<'_>, _: &MicroOp<L>) -> Step {
    Err(Stop::Refused)
}
