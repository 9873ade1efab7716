// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The decoded instruction: a plain struct an executor can match on.

use crate::encoding::{Format, Ty};
use crate::op::Op;
use crate::target::Target;

/// One operand, resolved from its field.
///
/// Multi-dword operands name their first register; the width is the [`Ty`] of the slot in the op's row
/// (`inst.op.info()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The slot is unused, or the field says `off`.
    None,
    /// `s0` and up.
    Sgpr(u8),
    /// `v0` and up. Where the slot is 16 bits wide, bit *i* of [`Inst::op_sel`] (bit 3 for the destination) tells which
    /// half.
    Vgpr(u8),
    /// `a0` and up: accumulation registers of CDNA. On gfx908 only matrix and `v_accvgpr_*` instructions name them;
    /// from gfx90a on they are the upper part of a lane's one register file, and memory instructions take them as data
    /// too.
    Agpr(u8),
    /// `ttmp0` and up.
    Ttmp(u8),
    /// GFX9: low half of FLAT_SCRATCH; all of it where the slot is wider.
    FlatScratchLo,
    /// GFX9: high half of FLAT_SCRATCH.
    FlatScratchHi,
    /// GFX9: low half of XNACK_MASK; all of it where the slot is wider.
    XnackMaskLo,
    /// GFX9: high half of XNACK_MASK.
    XnackMaskHi,
    /// Low half of VCC; all of it where the slot is wider (or is a lane mask).
    VccLo,
    /// High half of VCC.
    VccHi,
    /// Low half of EXEC; all of it where the slot is wider (or is a lane mask).
    ExecLo,
    /// High half of EXEC.
    ExecHi,
    /// The M0 register.
    M0,
    /// Reads zero, writes nothing.
    Null,
    /// The scalar condition code as a source.
    Scc,
    /// 1 if VCC is zero.
    Vccz,
    /// 1 if EXEC is zero.
    Execz,
    /// Base of the LDS aperture.
    SharedBase,
    /// Last address of the LDS aperture.
    SharedLimit,
    /// gfx1250: low half of the flat address of the wave's scratch; all of it where the slot is wider.
    FlatScratchBaseLo,
    /// gfx1250: high half of that address.
    FlatScratchBaseHi,
    /// Base of the scratch aperture.
    PrivateBase,
    /// Last address of the scratch aperture.
    PrivateLimit,
    /// Ordered-append wave id.
    PopsExitingWaveId,
    /// A value read from LDS at M0.
    LdsDirect,
    /// An inline constant, already as the bits of the slot's type (sign-extended integer, or a float of that width).
    Inline(u64),
    /// The 32-bit literal that follows the instruction; see [`Operand::constant`] for its widening.
    Literal(u32),
    /// gfx1250: the 64-bit literal that follows a short encoding.
    Literal64(u64),
}

impl Operand {
    /// The value of a constant operand as the bits of a slot of type `ty`; `None` for registers.
    ///
    /// A literal's low half counts for 16-bit types; it is the high half of a 64-bit float, is sign-extended for `I64`
    /// and zero-extended for other 64-bit integers (RDNA3 ISA, 6.2.4 "Literal constants").
    pub fn constant(self, ty: Ty) -> Option<u64> {
        match (self, ty) {
            (Operand::Inline(bits) | Operand::Literal64(bits), _) => Some(bits),
            (Operand::Literal(bits), Ty::F64) => Some(u64::from(bits) << 32),
            (Operand::Literal(bits), Ty::I64) => Some(i64::from(bits as i32) as u64),
            (Operand::Literal(bits), ty) if ty.is_16() => Some(u64::from(bits as u16)),
            (Operand::Literal(bits), _) => Some(u64::from(bits)),
            _ => None,
        }
    }

    /// True for an inline constant or a literal.
    pub fn is_constant(self) -> bool {
        matches!(self, Operand::Inline(_) | Operand::Literal(_) | Operand::Literal64(_))
    }

    /// True if the slot is unused.
    pub fn is_none(self) -> bool {
        self == Operand::None
    }
}

/// Data-parallel-primitive control: how source 0 is taken from other lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dpp {
    /// Source 0 is the lane's own.
    #[default]
    None,
    /// 16-lane row operations.
    Row {
        /// The 9-bit `dpp_ctrl` field.
        ctrl: u16,
        /// Rows that are written, one bit each.
        row_mask: u8,
        /// Banks (groups of 4 lanes) that are written, one bit each.
        bank_mask: u8,
        /// Invalid source lanes read zero instead of disabling the write.
        bound_ctrl: bool,
        /// Inactive source lanes are fetched.
        fetch_inactive: bool,
    },
    /// An arbitrary permutation within 8 lanes.
    Lanes8 {
        /// Source lane (0..8) of lane *i* in bits `3*i..3*i+3`.
        sel: u32,
        /// Inactive source lanes are fetched.
        fetch_inactive: bool,
    },
}

/// The part of a register that sub-dword addressing (SDWA) selects. The values are those of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// Bits 0 to 7.
    Byte0,
    /// Bits 8 to 15.
    Byte1,
    /// Bits 16 to 23.
    Byte2,
    /// Bits 24 to 31.
    Byte3,
    /// Bits 0 to 15.
    Word0,
    /// Bits 16 to 31.
    Word1,
    /// All of it.
    Dword,
}

/// Effect of SDWA on the destination's bits that it does not select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// Unwritten bits become 0.
    Pad,
    /// Above the selected part they become copies of its sign, below it 0.
    Sext,
    /// Unwritten bits stay.
    Preserve,
}

/// Sub-dword addressing (GFX9, GFX10): VOP1, VOP2 and VOPC on bytes and words of registers (Vega ISA, "SDWA").
///
/// Source *i* is read as the selected part of its dword, zero-extended, or sign-extended if bit *i* of `sext` is set;
/// `neg` and `abs` of [`Inst`] apply to that. The low bits of the result go to the selected part of `dst`. VOPC ignores
/// `dst` and `unused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdwa {
    /// Where the result goes.
    pub dst: Select,
    /// Effect on the rest of the destination.
    pub unused: Unused,
    /// The parts that sources 0 and 1 are.
    pub src: [Select; 2],
    /// Bit *i*: source *i* is sign-extended.
    pub sext: u8,
}

/// Modifiers of matrix instructions (CDNA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Matrix {
    /// Broadcast of A (of `f8f6f4`: its format): groups of 2^`cbsz` blocks share the block `abid` of theirs.
    /// `v_smfmac_*`: with `abid`, the index set.
    pub cbsz: u8,
    /// The block that is broadcast.
    pub abid: u8,
    /// How the lanes of B are permuted (of `f8f6f4`: its format). The f64 ones of gfx942 have `neg` bits in its place,
    /// which are in [`Inst::neg`].
    pub blgp: u8,
}

/// Modifiers of memory instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mem {
    /// Byte offset. DS instructions of the `2addr` kind hold `offset0 | offset1 << 8`, in elements, as encoded.
    pub offset: i32,
    /// Globally coherent; on atomics: return the old value. gfx942 calls it `sc0`.
    pub glc: bool,
    /// System-level coherent. gfx942 calls it `nt`.
    pub slc: bool,
    /// gfx90a: system-coherent (`scc`). gfx942 calls it `sc1`.
    pub scc: bool,
    /// Device-level coherent.
    pub dlc: bool,
    /// Buffer: `vaddr` holds (after the index, if any) a byte offset.
    pub offen: bool,
    /// Buffer: `vaddr` starts with an index.
    pub idxen: bool,
    /// Buffer: texture-fail enable, an extra status dword is returned.
    pub tfe: bool,
    /// GFX9 and GFX10 buffer loads: data goes to LDS at M0 instead of VGPRs; `dst` is [`Operand::None`].
    pub lds: bool,
    /// DS: the global data share.
    pub gds: bool,
    /// MTBUF: the data format.
    pub buffer_format: u8,
    /// RDNA4: temporal hint; on atomics bit 0 is `glc` too.
    pub th: u8,
    /// RDNA4: the scope that must see the access: 0 work-group processor's half, 1 shader engine, 2 device, 3 system.
    pub scope: u8,
    /// gfx1250: the offset in a register beside a scalar base counts elements of the access's size, not bytes.
    pub scale_offset: bool,
    /// gfx1250: no other device writes the memory.
    pub nv: bool,
}

/// A decoded instruction.
///
/// Slots by kind (see the op's row for which exist and how wide they are):
///
/// | kind | `dst` | `sdst` | `src` |
/// |---|---|---|---|
/// | SOP1, SOP2, SOPC | scalar destination | | sources in text order |
/// | SOPK | scalar destination | | the register compared, set or waited for; the literal of `s_setreg_imm32_b32`; the immediate is `simm` |
/// | SOPP | | | the immediate is `simm` |
/// | SMEM | data | | base, scalar offset (or none), data of stores |
/// | VOP1, VOP2, VOP3, VOP3P | destination | carry out (`VccLo` where implied) | sources in text order, carry in last (`VccLo` where implied) |
/// | VOPC | lane mask: `VccLo`, `ExecLo` for `v_cmpx_*`, or an SGPR | | sources |
/// | DS | destination | | address, data 0, data 1 |
/// | FLAT, GLOBAL, SCRATCH | destination | | vector address (or none), data, scalar address (or none) |
/// | VIMAGE | | | the four parts of a tensor's descriptor, the last two perhaps missing |
/// | MUBUF, MTBUF | destination (loads; atomics with `glc`) | | vector address (or none), data (stores, atomics), resource, scalar offset |
///
/// `v_fmac_*` and the like also read `dst`; `v_swap_*` exchange `dst` and `src[0]`; `v_fmaak`/`v_fmamk` have their
/// constant as a literal among the sources, in text order.
///
/// On GFX9 and GFX10, 16-bit slots are low halves of registers, except where `op_sel` of VOP3 says otherwise. On GFX9,
/// `v_cmpx_*` write EXEC in addition to `dst`; a lane mask is always two dwords; `s_set_gpr_idx_on` has its mode bits
/// in `simm`; `v_mfma_*` and `v_smfmac_*` are VOP3P with AGPRs or VGPRs as their fields say (`v_smfmac_*` also read
/// `dst`, and `src[2]` is the index). DPP is [`Dpp::Row`] with controls that RDNA lacks: 0x130 `wave_shl:1`, 0x134
/// `wave_rol:1`, 0x138 `wave_shr:1`, 0x13c `wave_ror:1`, 0x142 `row_bcast:15`, 0x143 `row_bcast:31`; from gfx90a on
/// 0x150 to 0x15f `row_newbcast:n`, which is `row_share`.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// The target it was decoded for.
    pub target: Target,
    /// Operation.
    pub op: Op,
    /// The encoding it was found in.
    pub format: Format,
    /// Length in bytes: 4, 8, 12 or 16, literal and DPP dwords included; 0 in a second half.
    pub size: u8,
    /// Destination.
    pub dst: Operand,
    /// Scalar destination beside `dst`.
    pub sdst: Operand,
    /// Sources; unused ones are [`Operand::None`].
    pub src: [Operand; 4],
    /// Negate source *i* (VOP3P: its low half), after `abs`.
    pub neg: u8,
    /// VOP3P: negate the high half of source *i*.
    pub neg_hi: u8,
    /// Absolute value of source *i*.
    pub abs: u8,
    /// Bit *i*: source *i* (3: the destination) is the high half of its register. VOP3P: half used by the low result.
    /// Set the same way for the `.h` registers of the short encodings.
    /// `v_permlane16` and `v_permlanex16`: bit 0 fetches inactive lanes, bit 1 is bound-control.
    /// `v_cvt_sr_fp8_f32` and `v_cvt_sr_bf8_f32`: bits 2 and 3 are the number of the byte that is written.
    /// `v_cvt_scale_pk*`: which scale. `v_wmma_f32_16x16x128_f8f6f4`: A's format, and B's in `op_sel_hi`.
    pub op_sel: u8,
    /// VOP3P: half of source *i* used by the high result. `v_fma_mix*`: source *i* is 16 bits wide.
    pub op_sel_hi: u8,
    /// Clamp the result (floats to 0..1, integers to their range).
    pub clamp: bool,
    /// Output multiplier of float results: 0 none, 1 ×2, 2 ×4, 3 ÷2.
    pub omod: u8,
    /// Lane crossing of source 0.
    pub dpp: Dpp,
    /// GFX9, GFX10: parts of registers in place of all of them.
    pub sdwa: Option<Sdwa>,
    /// CDNA: modifiers of `v_mfma_*` and `v_smfmac_*`.
    pub matrix: Matrix,
    /// The 16-bit immediate of SOPK and SOPP.
    pub simm: i16,
    /// Memory modifiers.
    pub mem: Mem,
    /// The second (Y) half of VOPD and VOPD3. Both halves read their sources before either writes. Of
    /// `v_wmma_ld_scale_paired_b32` and its like the matrix op that has the scales (gfx1250, VOP3PX2); bit 0 of
    /// `op_sel` and `op_sel_hi` is then the half of the lanes that has A's and B's, bit 2 a hint, and `neg` and
    /// `neg_hi` are the scales' formats. Of `v_mfma_ld_scale_b32` (gfx950) bits 0 and 1 of `op_sel`, and above them of
    /// `op_sel_hi`, are the bytes that are A's and B's scales.
    pub dual: Option<Box<Inst>>,
}

impl Inst {
    /// The type of source `at`: that of the row, except for vector addresses of memory instructions, which take one
    /// VGPR (a buffer's index or offset alone, a global's offset to a scalar base) or two.
    pub fn src_ty(&self, at: usize) -> Ty {
        let narrow = match self.format {
            Format::Mubuf | Format::Mtbuf => !(self.mem.offen && self.mem.idxen),
            Format::Flat | Format::Global | Format::Scratch => !self.src[2].is_none(),
            _ => false,
        };
        let ty = self.op.info().src.get(at).copied().unwrap_or(Ty::None);
        if self.op == Op::VWmmaF3216x16x128F8f6f4 && at < 2 {
            return match if at == 0 { self.op_sel } else { self.op_sel_hi } {
                2 | 3 => Ty::B384,
                4 => Ty::B256,
                _ => Ty::B512,
            };
        }
        if self.op.has_matrix_formats() && at < 2 {
            return match if at == 0 { self.matrix.cbsz } else { self.matrix.blgp } {
                2 | 3 => Ty::B192,
                4 => Ty::B128,
                _ => Ty::B256,
            };
        }
        if at == 0 && narrow && ty != Ty::None { Ty::B32 } else { ty }
    }

    /// An instruction with every slot empty.
    pub(crate) fn new(target: Target, op: Op, format: Format) -> Self {
        Inst {
            target,
            op,
            format,
            size: 0,
            dst: Operand::None,
            sdst: Operand::None,
            src: [Operand::None; 4],
            neg: 0,
            neg_hi: 0,
            abs: 0,
            op_sel: 0,
            op_sel_hi: 0,
            clamp: false,
            omod: 0,
            dpp: Dpp::None,
            sdwa: None,
            matrix: Matrix::default(),
            simm: 0,
            mem: Mem::default(),
            dual: None,
        }
    }
}
