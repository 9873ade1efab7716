// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! f32 and f64 arithmetic (RDNA3 ISA, 16.7 to 16.12).

use super::float::*;
use super::valu::vops;

/// x · y, where 0 times anything is 0.
#[inline(always)]
fn zero_mul(x: f32, y: f32) -> f32 {
    if x == 0.0 || y == 0.0 { 0.0 } else { x * y }
}

/// x · y + z, where 0 times anything is 0.
#[inline(always)]
fn zero_fma(x: f32, y: f32, z: f32) -> f32 {
    if x == 0.0 || y == 0.0 { z } else { x.mul_add(y, z) }
}

/// Zero in place of a denormal.
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { x * 0.0 } else { x }
}

/// x · y + z, rounded twice, with denormals flushed whatever MODE says (Vega ISA, V_MAD_F32).
#[inline(always)]
fn mad32(x: f32, y: f32, z: f32) -> f32 {
    flushed(flushed(flushed(x) * flushed(y)) + flushed(z))
}

/// x · y + z, rounded twice, with 0 times anything as 0.
#[inline(always)]
fn legacy_mad32(x: f32, y: f32, z: f32) -> f32 {
    if flushed(x) == 0.0 || flushed(y) == 0.0 { mad32(0.0, 0.0, z) } else { mad32(x, y, z) }
}

/// Which face of a cube map a direction meets: 0 and 1 for ±x, 2 and 3 for ±y, 4 and 5 for ±z.
#[inline(always)]
fn cube_face(x: f32, y: f32, z: f32) -> u32 {
    if z.abs() >= x.abs() && z.abs() >= y.abs() {
        4 + u32::from(z < 0.0)
    } else if y.abs() >= x.abs() {
        2 + u32::from(y < 0.0)
    } else {
        u32::from(x < 0.0)
    }
}

vops! {
    VAddF32(a: f32, b: f32) -> f32 { a + b }
    VSubF32(a: f32, b: f32) -> f32 { a - b }
    VSubrevF32(a: f32, b: f32) -> f32 { b - a }
    VMulF32(a: f32, b: f32) -> f32 { a * b }
    VMulDx9ZeroF32(a: f32, b: f32) -> f32 { zero_mul(a, b) }
    VFmacDx9ZeroF32(a: f32, b: f32, c: f32) -> f32 { zero_fma(a, b, c) }
    VFmaDx9ZeroF32(a: f32, b: f32, c: f32) -> f32 { zero_fma(a, b, c) }
    VFmacF32(a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) }
    VFmaF32(a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) }
    VFmamkF32(a: f32, k: f32, b: f32) -> f32 { a.mul_add(k, b) }
    VFmaakF32(a: f32, b: f32, k: f32) -> f32 { a.mul_add(b, k) }
    VMadF32(a: f32, b: f32, c: f32) -> f32 { mad32(a, b, c) }
    VMacF32(a: f32, b: f32, c: f32) -> f32 { mad32(a, b, c) }
    VMadmkF32(a: f32, k: f32, b: f32) -> f32 { mad32(a, k, b) }
    VMadakF32(a: f32, b: f32, k: f32) -> f32 { mad32(a, b, k) }
    VMadLegacyF32(a: f32, b: f32, c: f32) -> f32 { legacy_mad32(a, b, c) }
    VMacLegacyF32(a: f32, b: f32, c: f32) -> f32 { legacy_mad32(a, b, c) }
    VMinimumF32(a: f32, b: f32) -> f32 { minimum32(a, b) }
    VMaximumF32(a: f32, b: f32) -> f32 { maximum32(a, b) }
    VMinimum3F32(a: f32, b: f32, c: f32) -> f32 { minimum32(minimum32(a, b), c) }
    VMaximum3F32(a: f32, b: f32, c: f32) -> f32 { maximum32(maximum32(a, b), c) }
    VMinimummaximumF32(a: f32, b: f32, c: f32) -> f32 { maximum32(minimum32(a, b), c) }
    VMaximumminimumF32(a: f32, b: f32, c: f32) -> f32 { minimum32(maximum32(a, b), c) }
    VMullitF32(a: f32, b: f32, c: f32) -> f32 {
        // -MAX marks a light that is off.
        if b == -f32::MAX || b == f32::NEG_INFINITY || b.is_nan() || c <= 0.0 || c.is_nan() { -f32::MAX } else { a * b }
    }
    VFractF32(a: f32) -> f32 { fract32(a) }
    VTruncF32(a: f32) -> f32 { a.trunc() }
    VCeilF32(a: f32) -> f32 { a.ceil() }
    VRndneF32(a: f32) -> f32 { a.round_ties_even() }
    VFloorF32(a: f32) -> f32 { a.floor() }
    VExpF32(a: f32) -> f32 { flushing(a, exp2) }
    VExpLegacyF32(a: f32) -> f32 { flushing(a, exp2) }
    VLogF32(a: f32) -> f32 { flushing(a, log2) }
    VLogLegacyF32(a: f32) -> f32 { flushing(a, log2) }
    VRcpF32(a: f32) -> f32 { flushing(a, recip) }
    VRcpIflagF32(a: f32) -> f32 { flushing(a, recip) }
    VRsqF32(a: f32) -> f32 { flushing(a, rsqrt) }
    VSqrtF32(a: f32) -> f32 { flushing(a, f32::sqrt) }
    VTanhF32(a: f32) -> f32 { tanh(a) }
    VSinF32(a: f32) -> f32 { sin_turns(a) }
    VCosF32(a: f32) -> f32 { cos_turns(a) }
    VFrexpExpI32F32(a: f32) -> i32 { frexp64(f64::from(a)).1 }
    VFrexpMantF32(a: f32) -> f32 { frexp64(f64::from(a)).0 as f32 }
    VLdexpF32(a: f32, n: i32) -> f32 { ldexp32(a, n) }
    VDivFixupF32(a: f32, b: f32, c: f32) -> f32 { div_fixup32(a, b, c) }
    VCubeidF32(x: f32, y: f32, z: f32) -> f32 { cube_face(x, y, z) as f32 }
    VCubescF32(x: f32, y: f32, z: f32) -> f32 {
        [-z, z, x, x, x, -x][cube_face(x, y, z) as usize]
    }
    VCubetcF32(x: f32, y: f32, z: f32) -> f32 {
        [-y, -y, z, -z, -y, -y][cube_face(x, y, z) as usize]
    }
    VCubemaF32(x: f32, y: f32, z: f32) -> f32 {
        2.0 * [x, x, y, y, z, z][cube_face(x, y, z) as usize]
    }

    VAddF64(a: f64, b: f64) -> f64 { a + b }
    VMulF64(a: f64, b: f64) -> f64 { a * b }
    VFmaF64(a: f64, b: f64, c: f64) -> f64 { a.mul_add(b, c) }
    VFmamkF64(a: f64, k: f64, b: f64) -> f64 { a.mul_add(k, b) }
    VFmaakF64(a: f64, b: f64, k: f64) -> f64 { a.mul_add(b, k) }
    VFmacF64(a: f64, b: f64, c: f64) -> f64 { a.mul_add(b, c) }
    VMinimumF64(a: f64, b: f64) -> f64 { minimum64(a, b) }
    VMaximumF64(a: f64, b: f64) -> f64 { maximum64(a, b) }
    VTruncF64(a: f64) -> f64 { a.trunc() }
    VCeilF64(a: f64) -> f64 { a.ceil() }
    VRndneF64(a: f64) -> f64 { a.round_ties_even() }
    VFloorF64(a: f64) -> f64 { a.floor() }
    VFractF64(a: f64) -> f64 {
        let part = a - a.floor();
        if part >= 1.0 { f64::from_bits(0x3fef_ffff_ffff_ffff) } else { part }
    }
    VRcpF64(a: f64) -> f64 { 1.0 / a }
    VRsqF64(a: f64) -> f64 { 1.0 / a.sqrt() }
    VSqrtF64(a: f64) -> f64 { a.sqrt() }
    VFrexpExpI32F64(a: f64) -> i32 { frexp64(a).1 }
    VFrexpMantF64(a: f64) -> f64 { frexp64(a).0 }
    VLdexpF64(a: f64, n: i32) -> f64 { ldexp64(a, n) }
    VTrigPreopF64(a: f64, n: i32) -> f64 { trig_preop(a, n) }
    VDivFixupF64(a: f64, b: f64, c: f64) -> f64 { div_fixup64(a, b, c) }
}
