// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! From machine code to micro-operations with resolved operands.

use crate::caching;
use crate::check;
use crate::exec::{self, Level};
use crate::fault::FaultKind;
use crate::flow::{BehindBarrier, Decoded, Reachable, branch_target, falls_through, jumps_by_register};
use crate::hardware::slot;
use crate::hwreg;
use crate::jit::Compiled;
use crate::memory::{Caching, Control, Path};
use crate::micro_op::{Crossing, Handler, MicroOp, Scaling};
use crate::operand::{Registers, Src, SrcKind, Upper};
use crate::program::{NOWHERE, Program, Refusal};
use crate::sources::Sources;
use crate::wave::SPARE_ROWS;
use sim_isa::{Dpp, Flags, Format, Inst, Matrix, Mem, Op, Operand, Select, Target, Ty};

/// Decodes the instructions reachable from byte `entry` of the code at address `base`. An instruction that cannot be
/// decoded or run becomes a micro-operation that faults. Only `registers` exist.
pub(crate) fn translate<const L: usize>(
    target: Target,
    base: u64,
    code: &[u8],
    entry: u32,
    registers: Registers,
    level: Level,
) -> Program<L> {
    let words: Vec<u32> = code.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let reachable = Reachable::find(target, &words, entry);
    let mut program = Program {
        ops: Vec::new(),
        index: vec![NOWHERE; words.len()],
        refusals: Vec::new(),
        constants: Vec::new(),
        first_constant: registers.total() + SPARE_ROWS,
        compiled: Compiled::default(),
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
        behind_barrier: BehindBarrier::default(),
    };
    builder.build(&reachable);
    program.entry = program.index[entry as usize / 4];
    program
}

struct Builder<'a, const L: usize> {
    program: &'a mut Program<L>,
    registers: Registers,
    level: Level,
    /// No-ops since the last micro-operation.
    skipped: u32,
    /// Cache operations of these no-ops.
    control: Control,
    /// Branches whose `target` is still an offset.
    jumps: Vec<(usize, u32)>,
    indexed: Indexed,
    upper: Upper,
    behind_barrier: BehindBarrier,
}

/// GFX9's relative register numbers: between `s_set_gpr_idx_on` and `_off` the bits say which operands of vector
/// instructions have M0's low byte added. Compilers put moves alone between the two, so that the bits are known when
/// code is decoded.
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
        let [outside, inside] = reachable.parted();
        let mut next = None;
        for (offset, decoded) in outside {
            next = self.one(offset, decoded, next, reachable);
        }
        self.end(next.take());
        for (offset, decoded) in inside {
            // They set no mode, and no mode is set where a register leads into the middle of an instruction.
            (self.indexed, self.upper) = Default::default();
            next = self.one(offset, decoded, next, reachable);
        }
        self.end(next);
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

    /// The next instruction, behind one after which control is at `next`, if it comes out of that. Returns the same for
    /// this one.
    fn one(&mut self, offset: u32, decoded: &Decoded, next: Option<u32>, reachable: &Reachable) -> Option<u32> {
        self.end(next.filter(|&expected| expected != offset));
        let arrives = next == Some(offset);
        let is_target = reachable.indirect || reachable.targets.contains(&offset);
        if is_target && self.skipped > 0 {
            let mut op = self.blank(exec::nop::<L>, offset);
            op.count = std::mem::take(&mut self.skipped);
            self.program.ops.push(op);
        }
        self.program.index[offset as usize / 4] = self.program.ops.len() as u32;
        let inst = match decoded {
            Ok(inst) => inst,
            Err(error) => {
                self.refuse(Refusal::Undecoded(error.clone()), offset);
                return None;
            }
        };
        // Registers lead to entries of functions and behind calls, where the bits are zero.
        if arrives && self.upper != Upper::default() && reachable.is_branched_to(offset) {
            let what = format!("{} where paths meet, with upper bits of register numbers set", inst.op.name());
            self.refuse(Refusal::Fault(FaultKind::NotImplemented(what)), offset);
            return None;
        }
        // The bits of another path are not followed.
        if self.indexed.0 != 0 && reachable.targets.contains(&offset) {
            self.indexed = Indexed(Indexed::UNKNOWN);
        }
        if !arrives {
            self.upper = Upper::default();
            self.behind_barrier = BehindBarrier::default();
        }
        if inst.op == Op::SSetVgprMsb {
            self.upper = Upper(inst.simm as u8);
        }
        if let Some(upper) = hwreg::upper_by_setreg(inst) {
            self.upper = upper;
        }
        let gives_way = self.behind_barrier.follow(inst);
        if is_nop(inst) {
            caching::add(&mut self.control, inst, self.program.target);
            match gives_way {
                true => {
                    let op = self.blank(exec::give_way::<L>, offset);
                    self.program.ops.push(op);
                }
                false => self.skipped += 1,
            }
        } else {
            self.instruction(inst, offset);
        }
        falls_through(inst.op).then(|| offset + u32::from(inst.size))
    }

    /// Control goes on elsewhere than at the next micro-operation.
    fn end(&mut self, next: Option<u32>) {
        if let Some(expected) = next {
            self.jump_to(expected);
        }
    }

    fn blank(&mut self, run: Handler<L>, offset: u32) -> MicroOp<L> {
        MicroOp {
            run,
            code: None,
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
        let mut op = self.blank(exec::refused::<L>, offset);
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
        check::registers::<L>(inst, self.registers, self.upper)?;
        match inst.op {
            Op::SSetGprIdxOn | Op::SSetGprIdxMode => self.indexed = Indexed(inst.simm as u8 & 15),
            Op::SSetGprIdxOff => self.indexed = Indexed::default(),
            _ => {}
        }
        check::fields(inst)?;
        if self.upper != Upper::default() && (branch_target(inst, offset).is_some() || jumps_by_register(inst)) {
            let what = format!("{} with upper bits of register numbers set", inst.op.name());
            return Err(FaultKind::NotImplemented(what));
        }
        let e5m3 = match inst.clamp && inst.target == Target::Gfx1250 {
            true => exec::e5m3_handler::<L>(inst.op, self.level),
            false => None,
        };
        let clamp = inst.clamp && e5m3.is_none();
        let special = match inst.target {
            Target::Gfx950 if !clamp => exec::cdna4_handler::<L>(inst.op, self.level),
            _ => e5m3,
        };
        let chosen = match special {
            Some(chosen) => chosen,
            None => exec::handler::<L>(inst.op, clamp, self.level).map_err(FaultKind::NotImplemented)?,
        };
        let run = match inst.mem.lds {
            true => exec::lds_handler::<L>(inst.op)
                .ok_or_else(|| FaultKind::NotImplemented(format!("{} to LDS", inst.op.name())))?,
            false => chosen.run,
        };
        let mut op = self.blank(run, offset);
        op.code = Some(inst.op);
        if self.indexed.0 != 0 && is_vector(inst.format) {
            op.run = self.indexed_move(inst)?;
            op.inner = op.run;
            op.code = None;
        }
        let info = inst.op.info();
        for (i, (&operand, &ty)) in inst.src.iter().zip(info.src).enumerate() {
            op.src[i] = self.registers.source(operand, ty, inst.op_sel >> i & 1 != 0)?;
            if chosen.lane_wise && op.src[i].kind == SrcKind::Const && ty != Ty::Mask {
                op.src[i] = self.constant_rows(op.src[i].value, ty.dwords(false) > 1);
            }
        }
        if inst.op.has(Flags::READS_DST) {
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
        op.writes_exec = inst.op.has(Flags::WRITES_EXEC);
        op.plain = inst.neg | inst.abs | inst.omod == 0 && !clamp;
        op.neg = inst.neg;
        op.neg_hi = inst.neg_hi;
        op.abs = inst.abs;
        op.op_sel = inst.op_sel;
        op.op_sel_hi = inst.op_sel_hi;
        op.omod = inst.omod;
        op.clamp = clamp;
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
            lanes: Sources::new(inst.dpp, L),
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
            op.run = exec::sdwa::handler::<L>(self.level);
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

    /// VOPD: both halves read before either writes, so the half whose result the other reads runs last, or through a
    /// spare register.
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
            copy.code = Some(Op::VMovB32);
            copy.count = 0;
            copy.dst = dst + n;
            copy.src[0] = Src { kind: SrcKind::Vgpr, reg: spare + n, ..Src::NONE };
            ops.push(copy);
        }
        Ok(ops)
    }

    /// A matrix op, behind the micro-operation that puts its scales into the spare registers.
    fn scaled(&mut self, scales: &Inst, product: &Inst, offset: u32) -> Result<Vec<MicroOp<L>>, FaultKind> {
        if scales.op == Op::VMfmaLdScaleB32 {
            check::registers::<L>(scales, self.registers, self.upper)?;
            let mut load = self.blank(exec::load_scales9::<L>, offset);
            for (at, ty) in scales.op.info().src.iter().enumerate() {
                load.src[at] = self.registers.source(scales.src[at], *ty, false)?;
            }
            load.dst = self.registers.total() as u16;
            (load.op_sel, load.op_sel_hi) = (scales.op_sel, scales.op_sel_hi);
            let mut product = self.single(product, offset)?;
            product.count = 0;
            product.simm = Scaling { formats: [0; 2], sixteen: false }.to_simm();
            return Ok(vec![load, product]);
        }
        let formats = [scales.neg & 3, scales.neg_hi & 3];
        if formats.contains(&3) {
            return Err(FaultKind::NotImplemented(format!("matrix scales of formats {formats:?}")));
        }
        check::registers::<L>(scales, self.registers, self.upper)?;
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
}

/// Instructions without an effect here: caches are coherent, results are there at once, hints are hints. MSG_INTERRUPT
/// (1) tells the host to look at a signal it sees anyway, MSG_DEALLOC_VGPRS (3) frees registers at a wave's end.
fn is_nop(inst: &Inst) -> bool {
    inst.op.has(Flags::NOP) || inst.op == Op::SSendmsg && matches!(inst.simm, 1 | 3)
}

fn is_vector(format: Format) -> bool {
    use Format::*;
    matches!(format, Vop1 | Vop2 | Vopc | Vop3 | Vop3sd | Vop3p | Vopd | Vopd3)
}

/// True if a 16-bit result clears the upper half of its register on GFX9: results of the short encodings do, except of
/// multiply-adds (Vega ISA 6.2 and LLVM's `zeroesHigh16BitsOfDest`). The others leave it alone, as all do later.
fn clears_high_half(inst: &Inst) -> bool {
    let short = |format| matches!(format, Format::Vop1 | Format::Vop2);
    let is_short = inst.op.encodings(inst.target).any(|encoding| short(encoding.format));
    let multiply_add = matches!(inst.op, Op::VMacF16 | Op::VMadakF16 | Op::VMadmkF16);
    inst.op.has(Flags::CLEARS_HALF) || inst.op.info().dst.is_16() && is_short && !multiply_add
}
