// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Properties of an instruction that hazard rules use.

use crate::check::{self, Slice};
use crate::hardware::slot;
use crate::operand::{Upper, scalar_slot};
use sim_isa::{Dpp, Flags, Format, Inst, Op, Operand, Select, Target};

bitflags::bitflags! {
    /// Kinds of instructions, as LLVM tells them apart (`SIInstrFlags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Kind: u32 {
        /// Vector arithmetic, matrices among it.
        const VALU = 1 << 0;
        /// Scalar arithmetic and program control.
        const SALU = 1 << 1;
        /// `SALU` ops that are program control or waits.
        const CONTROL = 1 << 2;
        const SMEM = 1 << 3;
        /// Buffers, global memory, scratch and flat addresses.
        const VMEM = 1 << 4;
        /// `VMEM` ops with flat addresses.
        const FLAT = 1 << 5;
        const LDS = 1 << 6;
        /// Store of more than 64 bits of data.
        const WIDE_STORE = 1 << 7;
        /// A transcendental function.
        const TRANS = 1 << 8;
        /// `v_mfma_*`, `v_smfmac_*`.
        const MFMA = 1 << 9;
        /// `MFMA` ops of f64.
        const DGEMM = 1 << 10;
        /// `MFMA` and `WMMA` ops of the XDL unit of gfx942 and gfx1250: of types other than f32 and f64.
        const XDL = 1 << 11;
        /// Sparse matrix op: the third source is the index, and the destination is the addend.
        const SPARSE = 1 << 12;
        /// Dot products.
        const DOT = 1 << 13;
        /// Reads other lanes of a row.
        const DPP = 1 << 14;
        /// Writes part of its destination, with shifted bits.
        const PARTIAL = 1 << 15;
        /// `v_readlane`, `v_writelane`.
        const LANE = 1 << 16;
        /// `v_readlane`, `v_readfirstlane`.
        const READ_LANE = 1 << 17;
        const PERMLANE = 1 << 18;
        /// `v_cmpx_*`.
        const CMPX = 1 << 19;
        const READS_EXEC = 1 << 20;
        const WRITES_EXEC = 1 << 21;
        /// GFX9: reads M0 early.
        const READS_M0 = 1 << 22;
        const GETREG = 1 << 23;
        const SETREG = 1 << 24;
        /// Reads VCC as it is when it begins.
        const DIV_FMAS = 1 << 25;
        /// Matrix ops of RDNA.
        const WMMA = 1 << 26;
        const BRANCH = 1 << 27;
        /// Reads a lane mask: a carry, or a selector.
        const MASKED = 1 << 28;
        /// `v_fma_f64`, `v_fmac_f64`.
        const FMA_F64 = 1 << 29;
        /// `v_nop`.
        const NOP = 1 << 30;
        /// Vector memory in the FLAT encoding: accesses to flat addresses, global memory and scratch.
        const FLAT_ENCODED = 1 << 31;
    }
}

/// Consecutive registers, numbered from 0: vector registers, then accumulation registers, then scalar slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Regs {
    first: u16,
    count: u16,
}

impl Regs {
    const ACCUMULATION: u16 = 0x4000;
    const SCALARS: u16 = 0x8000;

    pub const VCC: Regs = Regs::scalar(slot::VCC, 2);
    pub const EXEC: Regs = Regs::scalar(slot::EXEC, 2);
    pub const M0: Regs = Regs::scalar(slot::M0, 1);

    const fn scalar(slot: usize, count: u16) -> Regs {
        Regs { first: Self::SCALARS + slot as u16, count }
    }

    pub fn overlaps(self, other: Regs) -> bool {
        self.first < other.first + other.count && other.first < self.first + self.count
    }

    /// The registers of `whole` that are among these, a bit for each from the first one on.
    pub fn part_of(self, whole: Regs) -> u64 {
        let one = |n: u16| Regs { first: whole.first + n, count: 1 };
        (0..whole.count).filter(|n| self.overlaps(one(*n))).fold(0, |bits, n| bits | 1 << n)
    }

    pub fn is_scalar(self) -> bool {
        self.first >= Self::SCALARS
    }

    pub fn is_vector(self) -> bool {
        self.first < Self::ACCUMULATION
    }

    /// True for accumulation registers.
    pub fn is_accumulation(self) -> bool {
        !self.is_vector() && !self.is_scalar()
    }

    /// Slots of scalar registers that an instruction names for a value, with VCC among them: not EXEC, M0 or null.
    pub fn named(self) -> impl Iterator<Item = usize> {
        let slots = if self.is_scalar() { self.first..self.first + self.count } else { 0..0 };
        slots.map(|n| usize::from(n - Self::SCALARS)).filter(|slot| *slot < slot::NULL)
    }

    /// Name in assembly.
    pub fn name(self) -> String {
        let range = |letter: &str, first: u16| match self.count {
            1 => format!("{letter}{first}"),
            count => format!("{letter}[{first}:{}]", first + count - 1),
        };
        match self.first {
            first if first < Self::ACCUMULATION => range("v", first),
            first if first < Self::SCALARS => range("a", first - Self::ACCUMULATION),
            first => match usize::from(first - Self::SCALARS) {
                slot::VCC => "vcc".to_owned(),
                slot::EXEC => "exec".to_owned(),
                slot::M0 => "m0".to_owned(),
                slot => range("s", slot as u16),
            },
        }
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub op: Op,
    pub kind: Kind,
    /// Wait states that it takes: one, except for `s_nop`.
    pub states: u8,
    /// Passes of a matrix op of CDNA and gfx1250.
    pub passes: u8,
    /// Registers of the four sources, the destination, the scalar one.
    slots: [Option<Regs>; 6],
    /// Both halves of a pair of ops.
    second: Option<Box<Facts>>,
    /// True if the destination is a source as well.
    reads_dst: bool,
    /// True if the first source is a destination as well.
    writes_src: bool,
    /// Reads of `src_flat_scratch_base_lo` or `_hi`, which s102 and s103 are on gfx1250.
    pub scratch_base: Option<Regs>,
    /// True if a 32-bit constant follows it.
    pub has_literal: bool,
    /// The immediate: of `s_waitcnt_depctr` and other waits, and the hardware register of `s_setreg` and `s_getreg`.
    pub simm: u16,
}

impl Facts {
    /// A source, if it is registers.
    pub fn src(&self, at: usize) -> Option<Regs> {
        self.slots[at]
    }

    pub fn dst(&self) -> Option<Regs> {
        self.slots[4]
    }

    /// Registers that it names and reads.
    pub fn reads(&self) -> impl Iterator<Item = Regs> {
        let second = self.second.iter().flat_map(|second| second.slots[..4].iter().copied());
        let dst = self.slots[4].filter(|_| self.reads_dst);
        self.slots[..4].iter().copied().chain(second).flatten().chain(dst)
    }

    /// Registers that it names and writes.
    pub fn writes(&self) -> impl Iterator<Item = Regs> {
        let second = self.second.iter().flat_map(|second| second.slots[4..].iter().copied());
        let src = self.slots[0].filter(|_| self.writes_src);
        self.slots[4..].iter().copied().chain(second).flatten().chain(src)
    }

    pub fn reads_any_of(&self, regs: Regs) -> bool {
        self.reads().any(|read| read.overlaps(regs))
    }

    pub fn writes_any_of(&self, regs: Regs) -> bool {
        self.writes().any(|written| written.overlaps(regs))
            || self.kind.contains(Kind::WRITES_EXEC) && regs.overlaps(Regs::EXEC)
    }

    /// True if it waits for a field of `s_waitcnt_depctr`, which is `s_wait_alu` on gfx12, to be 0 (RDNA3.5 ISA, 16.5
    /// and LLVM's `AMDGPU::DepCtr`).
    pub fn waits_for(&self, field: AluCounter) -> bool {
        let (shift, bits) = match field {
            AluCounter::VaVdst => (12, 4),
            AluCounter::VaSdst => (9, 3),
            AluCounter::VmVsrc => (2, 3),
            AluCounter::VaVcc => (1, 1),
            AluCounter::SaSdst => (0, 1),
        };
        self.op == Op::SWaitcntDepctr && self.simm >> shift & ((1 << bits) - 1) == 0
    }

    pub fn of<const L: usize>(inst: &Inst, upper: Upper) -> Self {
        if let (Op::VMfmaLdScaleB32, Some(product)) = (inst.op, &inst.dual) {
            // A matrix op that reads scales, too.
            let scales = Self::of::<L>(&Inst { dual: None, ..inst.clone() }, upper);
            let product = Self::of::<L>(product, upper);
            return Facts { kind: product.kind | scales.kind, second: Some(Box::new(scales)), ..product };
        }
        let mut slots = [None; 6];
        for (at, Slice { operand, first, dwords }) in check::slices::<L>(inst, upper).into_iter().enumerate() {
            let count = dwords as u16;
            slots[at] = match operand {
                Operand::Vgpr(_) => Some(Regs { first: first as u16, count }),
                Operand::Agpr(_) => Some(Regs { first: Regs::ACCUMULATION + first as u16, count }),
                other => match scalar_slot(other) {
                    Some(slot) if slot != slot::NULL => Some(Regs::scalar(slot, count)),
                    _ => None,
                },
            };
        }
        let second = inst.dual.as_ref().map(|second| Box::new(Self::of::<L>(second, upper)));
        let mut kind = kind(inst, &slots);
        kind.set(Kind::DPP, inst.dpp != Dpp::None);
        if let Some(second) = &second {
            kind |= second.kind;
        }
        Facts {
            op: inst.op,
            kind,
            states: if inst.op == Op::SNop { (inst.simm as u8 & 15) + 1 } else { 1 },
            passes: match () {
                () if kind.contains(Kind::MFMA) => passes(inst),
                () if kind.contains(Kind::WMMA) => passes_of_wmma(inst),
                () => 0,
            },
            slots,
            second,
            reads_dst: inst.op.info().flags.intersects(Flags::READS_DST | Flags::DST_BYTE | Flags::DST_WORD)
                || kind.contains(Kind::SPARSE),
            writes_src: matches!(
                inst.op,
                Op::VSwapB32 | Op::VSwapB16 | Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32
            ),
            scratch_base: scratch_base(inst),
            has_literal: inst.src.iter().any(|src| matches!(src, Operand::Literal(_))),
            simm: inst.simm as u16,
        }
    }

    /// A buffer access whose offset is in a register.
    pub fn is_buffer_with_offset(&self) -> bool {
        self.kind.contains(Kind::VMEM) && !self.kind.contains(Kind::FLAT_ENCODED) && self.slots[3].is_some()
    }

    /// Facts of the matrix op itself, or of the one that follows in the same instruction and takes its scales.
    pub fn matrix(&self) -> &Facts {
        self.second.as_deref().filter(|_| self.op.loads_scales()).unwrap_or(self)
    }

    /// The mask of lanes that it reads, if it reads one.
    pub fn mask(&self) -> Option<Regs> {
        match self.kind {
            kind if kind.contains(Kind::DIV_FMAS) => Some(Regs::VCC),
            kind if kind.contains(Kind::MASKED) => self.slots[2],
            _ => None,
        }
    }
}

/// Fields of `s_waitcnt_depctr`.
#[derive(Clone, Copy)]
pub(crate) enum AluCounter {
    /// Vector results of vector arithmetic.
    VaVdst,
    /// Scalar results of vector arithmetic.
    VaSdst,
    /// Sources of vector memory.
    VmVsrc,
    /// VCC as a result of vector arithmetic.
    VaVcc,
    /// Results of scalar arithmetic.
    SaSdst,
}

fn kind(inst: &Inst, slots: &[Option<Regs>; 6]) -> Kind {
    use Format::*;
    let mut kind = match inst.format {
        Sopp => Kind::SALU | Kind::CONTROL,
        Sop1 | Sop2 | Sopk | Sopc => Kind::SALU,
        Smem => Kind::SMEM,
        Vop1 | Vop2 | Vopc | Vop3 | Vop3sd | Vop3p | Vopd | Vopd3 => Kind::VALU,
        Ds => Kind::LDS | Kind::READS_EXEC,
        Flat => Kind::VMEM | Kind::FLAT | Kind::READS_EXEC,
        Mubuf | Mtbuf | Global | Scratch => Kind::VMEM | Kind::READS_EXEC,
        Vimage => Kind::empty(),
    };
    let is = |exec: &Option<Regs>| exec.is_some_and(|regs| regs.overlaps(Regs::EXEC));
    let (scalar, vector) = (kind.contains(Kind::SALU), kind.contains(Kind::VALU));
    let saves = inst.op.has(Flags::SAVES_EXEC);
    let branches_on_exec = matches!(inst.op, Op::SCbranchExecz | Op::SCbranchExecnz);
    if scalar && (slots[..4].iter().any(is) || saves || branches_on_exec) {
        kind |= Kind::READS_EXEC;
    }
    let compares_to_exec = inst.op.has(Flags::WRITES_EXEC);
    if slots[4..].iter().any(is) || saves || compares_to_exec {
        kind |= Kind::WRITES_EXEC;
    }
    let is_store = inst.op.has(Flags::STORE) || inst.op.has(Flags::ATOMIC);
    let data = slots[1].map_or(0, |data| data.count);
    // Before gfx942 a buffer's data may be overwritten where the offset is in a register (LLVM, `createsVALUHazard`).
    let has_offset = matches!(inst.format, Mubuf | Mtbuf) && slots[3].is_some() && !inst.target.is_cdna3_or_later();
    let is_mfma = inst.op.has(Flags::MATRIX) && !matches!(inst.op, Op::VAccvgprReadB32 | Op::VAccvgprWriteB32);
    let is_wmma = inst.op.has(Flags::TILES) && !inst.op.loads_scales();
    // LLVM, `getWMMAIsXDL`.
    let is_xdl_wmma = is_wmma && inst.target == Target::Gfx1250 && inst.op != Op::VWmmaF3216x16x4F32;
    let is_partial = vector
        && match inst.sdwa {
            Some(sdwa) => !matches!(inst.format, Vopc) && sdwa.dst != Select::Dword,
            // Conversions to fp8 choose the byte or the word that they write.
            None => {
                let chooses_bytes = rounds_by_chance(inst.op) || inst.op.has(Flags::DST_BYTE);
                let is_fp4_by_chance = matches!(
                    inst.op,
                    Op::VCvtScalef32SrPkFp4F32 | Op::VCvtScalef32SrPkFp4F16 | Op::VCvtScalef32SrPkFp4Bf16
                );
                is_fp4_by_chance || inst.op_sel >> 2 != 0 && (chooses_bytes || inst.op_sel >> 3 != 0)
            }
        };
    let sends = matches!(inst.op, Op::SSendmsg | Op::SSendmsghalt | Op::SSendmsgRtnB32 | Op::SSendmsgRtnB64);
    let is_div_fmas = matches!(inst.op, Op::VDivFmasF32 | Op::VDivFmasF64);
    for (flag, holds) in [
        (Kind::WIDE_STORE, kind.contains(Kind::VMEM) && is_store && data > 2 && !has_offset),
        (Kind::TRANS, inst.op.has(Flags::TRANSCENDENTAL)),
        (Kind::MFMA, is_mfma),
        (Kind::DGEMM, is_dgemm(inst.op)),
        (Kind::XDL, is_mfma && is_xdl(inst) || is_xdl_wmma),
        (Kind::SPARSE, is_mfma && inst.op.has(Flags::SPARSE)),
        (Kind::DOT, inst.op.has(Flags::DOT)),
        (Kind::PARTIAL, is_partial),
        (Kind::LANE, matches!(inst.op, Op::VReadlaneB32 | Op::VWritelaneB32)),
        (Kind::READ_LANE, matches!(inst.op, Op::VReadlaneB32 | Op::VReadfirstlaneB32)),
        (Kind::PERMLANE, inst.op.has(Flags::CROSSES_LANES)),
        (Kind::CMPX, compares_to_exec),
        (
            Kind::READS_M0,
            scalar && inst.op.has(Flags::RELATIVE)
                || sends
                || matches!(inst.op, Op::DsAppend | Op::DsConsume)
                || inst.op.has(Flags::BY_LANE)
                || inst.op.has(Flags::TO_LDS)
                || inst.mem.lds
                || inst.mem.gds,
        ),
        (Kind::GETREG, inst.op == Op::SGetregB32),
        (Kind::SETREG, matches!(inst.op, Op::SSetregB32 | Op::SSetregImm32B32)),
        (Kind::DIV_FMAS, is_div_fmas),
        (Kind::WMMA, is_wmma),
        (Kind::BRANCH, inst.format == Sopp && inst.op.has(Flags::BRANCH)),
        (Kind::MASKED, is_div_fmas || reads_mask(inst.op)),
        (Kind::FMA_F64, matches!(inst.op, Op::VFmaF64 | Op::VFmacF64)),
        (Kind::NOP, inst.op == Op::VNop),
        (Kind::FLAT_ENCODED, matches!(inst.format, Flat | Global | Scratch)),
    ] {
        kind.set(flag, holds);
    }
    kind
}

/// True for ops of the XDL unit: on gfx942 all matrix ops except f32 and f64 (LLVM, `is_gfx940_xdl`).
fn is_xdl(inst: &Inst) -> bool {
    let is_f32 = matches!(
        inst.op,
        Op::VMfmaF3232x32x12bF32
            | Op::VMfmaF3216x16x14bF32
            | Op::VMfmaF324x4x116bF32
            | Op::VMfmaF3232x32x2F32
            | Op::VMfmaF3216x16x4F32
    );
    !is_dgemm(inst.op) && (!inst.target.is_cdna3_or_later() || !is_f32)
}

/// A matrix op of f64.
fn is_dgemm(op: Op) -> bool {
    matches!(op, Op::VMfmaF6416x16x4F64 | Op::VMfmaF644x4x44bF64)
}

/// True for ops that select by a lane mask, or add a carry from one.
fn reads_mask(op: Op) -> bool {
    use Op::*;
    matches!(op, VCndmaskB32 | VCndmaskB16 | VAddCoCiU32 | VSubCoCiU32 | VSubrevCoCiU32)
}

/// `v_cvt_sr_*`.
fn rounds_by_chance(op: Op) -> bool {
    matches!(
        op,
        Op::VCvtSrFp8F32
            | Op::VCvtSrBf8F32
            | Op::VCvtSrFp8F32Gfx12
            | Op::VCvtSrBf8F32Gfx12
            | Op::VCvtSrFp8F16
            | Op::VCvtSrBf8F16
            | Op::VCvtSrPkBf16F32
            | Op::VCvtSrPkF16F32
    )
}

/// Passes of a matrix op, as LLVM schedules them (`SISchedule.td`; `llvm-mca -instruction-tables` prints them as the
/// cycles of the unit). They depend on the shape, which is in the mnemonic only.
fn passes(inst: &Inst) -> u8 {
    let name = inst.op.name();
    let full = if name.contains("_4x4x") {
        if is_dgemm(inst.op) { 4 } else { 2 }
    } else if name.contains("_16x16x") {
        8
    } else {
        16
    };
    let has_blocks = ["_2b_", "_4b_", "_16b_"].iter().any(|blocks| name.contains(blocks));
    // Factors of 8 bits take longer than those of 6 and 4.
    let has_bytes = inst.op.has_matrix_formats() && (inst.matrix.cbsz < 2 || inst.matrix.blgp < 2);
    let is_half = inst.target.is_cdna3_or_later() && !has_blocks && !has_bytes && is_xdl(inst);
    if is_half { full / 2 } else { full }
}

/// Passes of a matrix op of gfx1250 for which other ops must stay away from its registers, of stepping B0
/// (ROCm/llvm-project pull requests 2915 and 3197): 4 cycles for `16x16x64` of fp8 and bf8, and for `f8f6f4` of two
/// factors of 4 bits, which leave room for one op beside them. Stepping A0, and LLVM 22 and 24, have more. That the
/// factors are integers the mnemonic says: the types of the row are those of registers.
fn passes_of_wmma(inst: &Inst) -> u8 {
    const FP4: u8 = 4;
    let name = inst.op.name();
    let is_integer = name.ends_with("_iu8") || name.ends_with("_iu4");
    // `op_sel` and `op_sel_hi` are the formats.
    let is_fp4 = inst.op == Op::VWmmaF3216x16x128F8f6f4 && inst.op_sel == FP4 && inst.op_sel_hi == FP4;
    let is_short = is_fp4 || name.contains("_16x16x64_fp8") || name.contains("_16x16x64_bf8");
    match inst.op.has(Flags::SPARSE) {
        true if is_integer => 8,
        true => 4,
        false if is_integer => 16,
        false if is_short => 2,
        false => 8,
    }
}

fn scratch_base(inst: &Inst) -> Option<Regs> {
    inst.src.iter().find_map(|operand| match operand {
        Operand::FlatScratchBaseLo => Some(Regs::scalar(102, 2)),
        Operand::FlatScratchBaseHi => Some(Regs::scalar(103, 1)),
        _ => None,
    })
}
