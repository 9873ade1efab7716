// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Inline constants (RDNA3 ISA 6.2.3).

use crate::encoding::Ty;

/// An integer inline constant as the bits of `ty` (RDNA3 ISA 6.2.3: sign-extended to the operand's width).
pub(crate) fn integer(value: i64, ty: Ty) -> u64 {
    match ty.dwords(false) {
        _ if ty.is_16() => u64::from(value as u16),
        2 => value as u64,
        _ if ty == Ty::V4F64 => value as u64,
        _ => u64::from(value as u32),
    }
}

/// A float inline constant, by its place after code 240, as the bits of `ty`.
///
/// 16-bit constants of packed f16 stand in the low half; packed integers and bf16 get the 32-bit float, whose high half
/// is the bf16 (LLVM 23, which chooses that half for both lanes of `v_pk_*_bf16`; LLVM 22 takes it for the low one).
pub(crate) fn float(at: usize, ty: Ty) -> u64 {
    const F16: [u16; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];
    const F32: [u32; 9] = [
        0x3f00_0000,
        0xbf00_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x4000_0000,
        0xc000_0000,
        0x4080_0000,
        0xc080_0000,
        0x3e22_f983,
    ];
    /// 1/(2π) as the hardware has it.
    const INV_2PI_F64: u64 = 0x3fc4_5f30_6dc9_c882;
    match ty {
        Ty::I16 | Ty::F16 | Ty::V2F16 => u64::from(F16[at]),
        Ty::BF16 => u64::from(F32[at] >> 16),
        Ty::B64 | Ty::I64 | Ty::F64 | Ty::V4F64 if at == 8 => INV_2PI_F64,
        Ty::B64 | Ty::I64 | Ty::F64 | Ty::V4F64 => f64::from(f32::from_bits(F32[at])).to_bits(),
        _ => u64::from(F32[at]),
    }
}

/// The place after code 240 of the float constant that reads as `bits` in a slot of type `ty`.
pub(crate) fn float_constant(bits: u64, ty: Ty) -> Option<usize> {
    (0..9).find(|&at| float(at, ty) == bits)
}
