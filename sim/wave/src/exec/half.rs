// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! f16 arithmetic and 16-bit integers.
//!
//! Sums, products and quotients of f16 values rounded to f32 and then to f16 are correctly rounded: f32 has more than
//! twice the precision. Fused multiply-adds go through f64.

use super::float::*;
use super::valu::{Bf16, F16, vops};

/// a · b + c, to be rounded once to f16.
#[inline(always)]
pub(super) fn fma16(a: F16, b: F16, c: F16) -> F16 {
    // The product is exact in f64; the sum is exact or far from a tie between two f16 values.
    F16(f64_to_f32_odd(f64::from(a.0) * f64::from(b.0) + f64::from(c.0)))
}

/// a · b + c, to be rounded once to bfloat16.
#[inline(always)]
pub(super) fn fma_bf16(a: Bf16, b: Bf16, c: Bf16) -> Bf16 {
    // The product is exact in f64, the sum may be far from it: its last bit then says that something is missing.
    let (product, addend) = (f64::from(a.0) * f64::from(b.0), f64::from(c.0));
    let sum = product + addend;
    let part = sum - product;
    let error = (product - (sum - part)) + (addend - part);
    let even = sum.to_bits() & 1 == 0;
    let odd = match (error > 0.0) == (sum > 0.0) {
        true => sum.to_bits() | 1,
        false => sum.to_bits().wrapping_sub(1),
    };
    let inexact = sum.is_finite() && error != 0.0 && even;
    Bf16(f64_to_f32_odd(if inexact { f64::from_bits(odd) } else { sum }))
}

/// a · b + c, rounded twice.
#[inline(always)]
fn mad16(a: F16, b: F16, c: F16) -> F16 {
    F16(half_to_f32(f32_to_half(a.0 * b.0)) + c.0)
}

#[inline(always)]
fn med3_i16(a: i16, b: i16, c: i16) -> i16 {
    a.min(b).max(a.max(b).min(c))
}

#[inline(always)]
fn med3_u16(a: u16, b: u16, c: u16) -> u16 {
    a.min(b).max(a.max(b).min(c))
}

vops! {
    VAddF16(a: F16, b: F16) -> F16 { F16(a.0 + b.0) }
    VSubF16(a: F16, b: F16) -> F16 { F16(a.0 - b.0) }
    VSubrevF16(a: F16, b: F16) -> F16 { F16(b.0 - a.0) }
    VMulF16(a: F16, b: F16) -> F16 { F16(a.0 * b.0) }
    VFmacF16(a: F16, b: F16, c: F16) -> F16 { fma16(a, b, c) }
    VFmaF16(a: F16, b: F16, c: F16) -> F16 { fma16(a, b, c) }
    VFmaLegacyF16(a: F16, b: F16, c: F16) -> F16 { fma16(a, b, c) }
    VMadF16(a: F16, b: F16, c: F16) -> F16 { mad16(a, b, c) }
    VMadLegacyF16(a: F16, b: F16, c: F16) -> F16 { mad16(a, b, c) }
    VMacF16(a: F16, b: F16, c: F16) -> F16 { mad16(a, b, c) }
    VMadmkF16(a: F16, k: F16, b: F16) -> F16 { mad16(a, k, b) }
    VMadakF16(a: F16, b: F16, k: F16) -> F16 { mad16(a, b, k) }
    VFmamkF16(a: F16, k: F16, b: F16) -> F16 { fma16(a, k, b) }
    VFmaakF16(a: F16, b: F16, k: F16) -> F16 { fma16(a, b, k) }
    VMinimumF16(a: F16, b: F16) -> F16 { F16(minimum32(a.0, b.0)) }
    VMaximumF16(a: F16, b: F16) -> F16 { F16(maximum32(a.0, b.0)) }
    VMinimum3F16(a: F16, b: F16, c: F16) -> F16 { F16(minimum32(minimum32(a.0, b.0), c.0)) }
    VMaximum3F16(a: F16, b: F16, c: F16) -> F16 { F16(maximum32(maximum32(a.0, b.0), c.0)) }
    VMinimummaximumF16(a: F16, b: F16, c: F16) -> F16 { F16(maximum32(minimum32(a.0, b.0), c.0)) }
    VMaximumminimumF16(a: F16, b: F16, c: F16) -> F16 { F16(minimum32(maximum32(a.0, b.0), c.0)) }
    VRcpF16(a: F16) -> F16 { F16(1.0 / a.0) }
    VSqrtF16(a: F16) -> F16 { F16(a.0.sqrt()) }
    VRsqF16(a: F16) -> F16 { F16(rsqrt(a.0)) }
    VLogF16(a: F16) -> F16 { F16(log2(a.0)) }
    VExpF16(a: F16) -> F16 { F16(exp2(a.0)) }
    VTanhF16(a: F16) -> F16 { F16(tanh(a.0)) }
    VRcpBf16(a: Bf16) -> Bf16 { Bf16(1.0 / a.0) }
    VSqrtBf16(a: Bf16) -> Bf16 { Bf16(a.0.sqrt()) }
    VRsqBf16(a: Bf16) -> Bf16 { Bf16(rsqrt(a.0)) }
    VLogBf16(a: Bf16) -> Bf16 { Bf16(log2(a.0)) }
    VExpBf16(a: Bf16) -> Bf16 { Bf16(exp2(a.0)) }
    VSinBf16(a: Bf16) -> Bf16 { Bf16(sin_turns(a.0)) }
    VCosBf16(a: Bf16) -> Bf16 { Bf16(cos_turns(a.0)) }
    VTanhBf16(a: Bf16) -> Bf16 { Bf16(tanh(a.0)) }
    VSinF16(a: F16) -> F16 { F16(sin_turns(a.0)) }
    VCosF16(a: F16) -> F16 { F16(cos_turns(a.0)) }
    VFrexpMantF16(a: F16) -> F16 { F16(frexp64(f64::from(a.0)).0 as f32) }
    VFrexpExpI16F16(a: F16) -> i16 { frexp64(f64::from(a.0)).1 as i16 }
    VFloorF16(a: F16) -> F16 { F16(a.0.floor()) }
    VCeilF16(a: F16) -> F16 { F16(a.0.ceil()) }
    VTruncF16(a: F16) -> F16 { F16(a.0.trunc()) }
    VRndneF16(a: F16) -> F16 { F16(a.0.round_ties_even()) }
    // The largest f16 below 1.
    VFractF16(a: F16) -> F16 {
        let part = a.0 - a.0.floor();
        F16(if part > 0.999_511_7 { 0.999_511_7 } else { part })
    }
    VLdexpF16(a: F16, n: i16) -> F16 { F16(ldexp32(a.0, i32::from(n))) }
    VDivFixupLegacyF16(a: F16, b: F16, c: F16) -> F16 { F16(div_fixup32(a.0, b.0, c.0)) }
    VDivFixupF16(a: F16, b: F16, c: F16) -> F16 {
        // The quotient of f16 values cannot leave f32's range.
        F16(div_fixup32(a.0, b.0, c.0))
    }
    VMovB16(a: u16) -> u16 { a }
    VNotB16(a: u16) -> u16 { !a }
    VAndB16(a: u16, b: u16) -> u16 { a & b }
    VOrB16(a: u16, b: u16) -> u16 { a | b }
    VXorB16(a: u16, b: u16) -> u16 { a ^ b }
    VAddNcU16(a: u16, b: u16) -> u16 { a.wrapping_add(b) }
    VSubNcU16(a: u16, b: u16) -> u16 { a.wrapping_sub(b) }
    VAddNcI16(a: u16, b: u16) -> u16 { a.wrapping_add(b) }
    VSubNcI16(a: u16, b: u16) -> u16 { a.wrapping_sub(b) }
    VSubrevU16(a: u16, b: u16) -> u16 { b.wrapping_sub(a) }
    VMulLoU16(a: u16, b: u16) -> u16 { a.wrapping_mul(b) }
    VMadU16(a: u16, b: u16, c: u16) -> u16 { a.wrapping_mul(b).wrapping_add(c) }
    VMadI16(a: u16, b: u16, c: u16) -> u16 { a.wrapping_mul(b).wrapping_add(c) }
    VMadLegacyU16(a: u16, b: u16, c: u16) -> u16 { a.wrapping_mul(b).wrapping_add(c) }
    VMadLegacyI16(a: u16, b: u16, c: u16) -> u16 { a.wrapping_mul(b).wrapping_add(c) }
    VMaxU16(a: u16, b: u16) -> u16 { a.max(b) }
    VMinU16(a: u16, b: u16) -> u16 { a.min(b) }
    VMaxI16(a: i16, b: i16) -> i16 { a.max(b) }
    VMinI16(a: i16, b: i16) -> i16 { a.min(b) }
    VMax3U16(a: u16, b: u16, c: u16) -> u16 { a.max(b).max(c) }
    VMin3U16(a: u16, b: u16, c: u16) -> u16 { a.min(b).min(c) }
    VMed3U16(a: u16, b: u16, c: u16) -> u16 { med3_u16(a, b, c) }
    VMax3I16(a: i16, b: i16, c: i16) -> i16 { a.max(b).max(c) }
    VMin3I16(a: i16, b: i16, c: i16) -> i16 { a.min(b).min(c) }
    VMed3I16(a: i16, b: i16, c: i16) -> i16 { med3_i16(a, b, c) }
    VLshlrevB16(n: u16, a: u16) -> u16 { a << (n & 15) }
    VLshrrevB16(n: u16, a: u16) -> u16 { a >> (n & 15) }
    VAshrrevI16(n: u16, a: i16) -> i16 { a >> (n & 15) }
    VPackB32F16(a: u16, b: u16) -> u32 { u32::from(a) | u32::from(b) << 16 }
    VMadU32U16(a: u16, b: u16, c: u32) -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) }
    VMadI32I16(a: i16, b: i16, c: u32) -> u32 { (i32::from(a) * i32::from(b)).wrapping_add(c as i32) as u32 }
}
