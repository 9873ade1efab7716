// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Encodings of instructions, and the types of their operands.

use crate::target::Targets;

/// The encoding an instruction was found in (RDNA3 ISA document, chapter 15 "Microcode Formats").
///
/// One [`Op`](crate::Op) may have several encodings (`v_add_f32` is VOP2, VOP3 or half a VOPD). Operands and modifiers
/// are in the same fields of [`Inst`](crate::Inst) in all of them, so an executor rarely needs the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Format {
    /// Scalar, one source.
    Sop1,
    /// Scalar, two sources.
    Sop2,
    /// Scalar with a 16-bit immediate.
    Sopk,
    /// Scalar compare.
    Sopc,
    /// Scalar program control.
    Sopp,
    /// Scalar memory.
    Smem,
    /// Vector, one source.
    Vop1,
    /// Vector, two sources.
    Vop2,
    /// Vector compare.
    Vopc,
    /// Vector, 64-bit encoding with up to three sources and modifiers.
    Vop3,
    /// VOP3 with a scalar destination in place of `abs` and `op_sel`.
    Vop3sd,
    /// Packed vector.
    Vop3p,
    /// Two vector operations issued as one (wave32 only).
    Vopd,
    /// Two vector operations in three dwords, with up to three sources and `neg` in each operation (gfx1250).
    Vopd3,
    /// Local and global data share.
    Ds,
    /// Untyped buffer memory.
    Mubuf,
    /// Typed buffer memory.
    Mtbuf,
    /// Flat memory.
    Flat,
    /// Global memory.
    Global,
    /// Scratch memory.
    Scratch,
    /// The encoding of images, which gfx1250 has for tensors.
    Vimage,
}

/// The type of an operand slot: its width and how constants in it are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// No operand.
    None,
    /// 16-bit integer, in a half of a VGPR (`v0.l`, `v0.h`); takes no `neg` or `abs`.
    I16,
    /// Half float, in a half of a VGPR.
    F16,
    /// bfloat16, in a half of a VGPR.
    BF16,
    /// 32 bits, integer or float.
    B32,
    /// 32-bit integer beside floats: takes no `neg` or `abs`.
    I32,
    /// 64-bit integer or untyped bits; literals are zero-extended.
    B64,
    /// 64-bit signed integer; literals are sign-extended.
    I64,
    /// 64-bit float; literals are its high half.
    F64,
    /// Two half floats in a dword.
    V2F16,
    /// Two bfloat16 in a dword.
    V2BF16,
    /// Two 16-bit integers in a dword.
    V2I16,
    /// Two 32-bit floats.
    V2F32,
    /// 96 bits.
    B96,
    /// 128 bits.
    B128,
    /// 192 bits.
    B192,
    /// 256 bits.
    B256,
    /// Four 64-bit floats.
    V4F64,
    /// 384 bits.
    B384,
    /// 512 bits.
    B512,
    /// 1024 bits.
    B1024,
    /// One bit per lane: one dword in wave32, two in wave64.
    Mask,
    /// A 32-bit scalar register, written by a vector instruction.
    S32,
    /// The mandatory 32-bit literal of `v_fmaak_f32` and its like.
    K32,
    /// The mandatory literal of 16-bit ops.
    K16,
    /// The mandatory 64-bit literal of `v_fmaak_f64` and `v_fmamk_f64`.
    K64,
}

impl Ty {
    /// Registers the operand takes (a 16-bit one: 1). `wave64` matters for lane masks only.
    pub const fn dwords(self, wave64: bool) -> u8 {
        match self {
            Ty::None => 0,
            Ty::I16 | Ty::F16 | Ty::BF16 | Ty::K16 => 1,
            Ty::B32 | Ty::I32 | Ty::S32 | Ty::K32 | Ty::V2F16 | Ty::V2BF16 | Ty::V2I16 => 1,
            Ty::B64 | Ty::I64 | Ty::F64 | Ty::K64 | Ty::V2F32 => 2,
            Ty::B96 => 3,
            Ty::B128 => 4,
            Ty::B192 => 6,
            Ty::B256 | Ty::V4F64 => 8,
            Ty::B384 => 12,
            Ty::B512 => 16,
            Ty::B1024 => 32,
            Ty::Mask => 1 + wave64 as u8,
        }
    }

    /// True for a single 16-bit value.
    pub const fn is_16(self) -> bool {
        matches!(self, Ty::I16 | Ty::F16 | Ty::BF16)
    }
}

/// How some targets encode an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The targets.
    pub targets: Targets,
    /// The shortest encoding; VOP1, VOP2 and VOPC ops also have a VOP3 one.
    pub format: Format,
    /// The opcode in that encoding.
    pub code: u16,
    /// The mnemonic on those targets, without `_e32`/`_e64`/`_dpp`.
    pub name: &'static str,
}
