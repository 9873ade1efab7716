// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Conversions. Float to integer truncates, saturates and turns NaN into 0 unless the name says otherwise, as Rust's
//! `as` does.

use super::float::*;
use super::fp8::*;
use super::valu::{Bf16, Byte, Elem, F16, Halves, vops};

/// To a fraction of 32767, rounded to nearest even.
#[inline(always)]
fn snorm(x: f32) -> u16 {
    (f64::from(x.clamp(-1.0, 1.0)) * 32767.0).round_ties_even() as i16 as u16
}

/// To a fraction of 65535, rounded to nearest even.
#[inline(always)]
fn unorm(x: f32) -> u16 {
    (f64::from(x.clamp(0.0, 1.0)) * 65535.0).round_ties_even() as u16
}

#[inline(always)]
fn pack(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

#[inline(always)]
fn half_pair(low: f32, high: f32) -> u32 {
    pack(f32_to_half(low), f32_to_half(high))
}

#[inline(always)]
fn pair(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

vops! {
    VCvtI32F64(a: f64) -> i32 { a as i32 }
    VCvtF64I32(a: i32) -> f64 { f64::from(a) }
    VCvtF32I32(a: i32) -> f32 { a as f32 }
    VCvtF32U32(a: u32) -> f32 { a as f32 }
    VCvtU32F32(a: f32) -> u32 { a as u32 }
    VCvtI32F32(a: f32) -> i32 { a as i32 }
    VCvtF16F32(a: f32) -> F16 { F16(a) }
    VCvtF32F16(a: F16) -> f32 { a.0 }
    VCvtNearestI32F32(a: f32) -> i32 { (a + 0.5).floor() as i32 }
    VCvtFloorI32F32(a: f32) -> i32 { a.floor() as i32 }
    VCvtOffF32I4(a: i32) -> f32 { (a << 28 >> 28) as f32 / 16.0 }
    VCvtF32F64(a: f64) -> f32 { a as f32 }
    VCvtF64F32(a: f32) -> f64 { f64::from(a) }
    VCvtF32Ubyte0(a: u32) -> f32 { (a & 0xff) as f32 }
    VCvtF32Ubyte1(a: u32) -> f32 { (a >> 8 & 0xff) as f32 }
    VCvtF32Ubyte2(a: u32) -> f32 { (a >> 16 & 0xff) as f32 }
    VCvtF32Ubyte3(a: u32) -> f32 { (a >> 24) as f32 }
    VCvtU32F64(a: f64) -> u32 { a as u32 }
    VCvtF64U32(a: u32) -> f64 { f64::from(a) }
    VCvtF16U16(a: u16) -> F16 { F16(f32::from(a)) }
    VCvtF16I16(a: i16) -> F16 { F16(f32::from(a)) }
    VCvtU16F16(a: F16) -> u16 { a.0 as u16 }
    VCvtI16F16(a: F16) -> i16 { a.0 as i16 }
    VCvtI32I16(a: i16) -> i32 { i32::from(a) }
    VCvtU32U16(a: u16) -> u32 { u32::from(a) }
    VCvtNormI16F16(a: F16) -> u16 { snorm(a.0) }
    VCvtNormU16F16(a: F16) -> u16 { unorm(a.0) }
    VSatPkU8I16(a: u32) -> u16 {
        let saturate = |x: u32| (x as i16).clamp(0, 255) as u16;
        saturate(a) | saturate(a >> 16) << 8
    }
    VCvtPkRtzF16F32(a: f32, b: f32) -> Halves { Halves(pack(f32_to_half_rtz(a), f32_to_half_rtz(b))) }
    VCvtPkF16F32(a: f32, b: f32) -> Halves { Halves(pack(f32_to_half(a), f32_to_half(b))) }
    VCvtPkBf16F32(a: f32, b: f32) -> u32 { pack(f32_to_bf16(a), f32_to_bf16(b)) }
    VCvtPkI16F32(a: f32, b: f32) -> u32 { pack(a as i16 as u16, b as i16 as u16) }
    VCvtPkU16F32(a: f32, b: f32) -> u32 { pack(a as u16, b as u16) }
    VCvtPkNormI16F32(a: f32, b: f32) -> u32 { pack(snorm(a), snorm(b)) }
    VCvtPkNormU16F32(a: f32, b: f32) -> u32 { pack(unorm(a), unorm(b)) }
    VCvtPkNormI16F16(a: F16, b: F16) -> u32 { pack(snorm(a.0), snorm(b.0)) }
    VCvtPkNormU16F16(a: F16, b: F16) -> u32 { pack(unorm(a.0), unorm(b.0)) }
    VCvtPkU16U32(a: u32, b: u32) -> u32 { pack(a.min(0xffff) as u16, b.min(0xffff) as u16) }
    VCvtPkI16I32(a: i32, b: i32) -> u32 { pack(a.clamp(-0x8000, 0x7fff) as u16, b.clamp(-0x8000, 0x7fff) as u16) }
    VCvtF32Fp8(a: u32) -> f32 { fp8_to_f32(a as u8) }
    VCvtF32Bf8(a: u32) -> f32 { bf8_to_f32(a as u8) }
    // `op_sel` chooses the byte, or the half.
    VCvtF32Fp8Gfx12(a: Byte) -> f32 { ocp::fp8_to_f32(a.0) }
    VCvtF32Bf8Gfx12(a: Byte) -> f32 { ocp::bf8_to_f32(a.0) }
    VCvtF16Fp8(a: Byte) -> F16 { F16(ocp::fp8_to_f32(a.0)) }
    VCvtF16Bf8(a: Byte) -> F16 { F16(ocp::bf8_to_f32(a.0)) }
    VCvtPkF16Fp8(a: u16) -> u32 { half_pair(ocp::fp8_to_f32(a as u8), ocp::fp8_to_f32((a >> 8) as u8)) }
    VCvtPkF16Bf8(a: u16) -> u32 { half_pair(ocp::bf8_to_f32(a as u8), ocp::bf8_to_f32((a >> 8) as u8)) }
    VCvtPkFp8F16(a: Halves) -> Codes<Fp8> { Codes::new(a.floats().map(ocp::f32_to_fp8)) }
    VCvtPkBf8F16(a: Halves) -> Codes<Bf8> { Codes::new(a.floats().map(ocp::f32_to_bf8)) }
    VCvtF32Bf16(a: Bf16) -> f32 { a.0 }
    VCvtPkF32Fp8Gfx12(a: u16) -> u64 { pair(ocp::fp8_to_f32(a as u8), ocp::fp8_to_f32((a >> 8) as u8)) }
    VCvtPkF32Bf8Gfx12(a: u16) -> u64 { pair(ocp::bf8_to_f32(a as u8), ocp::bf8_to_f32((a >> 8) as u8)) }
    VCvtPkFp8F32Gfx12(a: f32, b: f32) -> Codes<Fp8> { Codes::new([a, b].map(ocp::f32_to_fp8)) }
    VCvtPkBf8F32Gfx12(a: f32, b: f32) -> Codes<Bf8> { Codes::new([a, b].map(ocp::f32_to_bf8)) }
    VCvtPkF32Fp8(a: u32) -> u64 { pair(fp8_to_f32(a as u8), fp8_to_f32((a >> 8) as u8)) }
    VCvtPkF32Bf8(a: u32) -> u64 { pair(bf8_to_f32(a as u8), bf8_to_f32((a >> 8) as u8)) }
    // `op_sel` chooses the half of the destination.
    VCvtPkFp8F32(a: f32, b: f32) -> Codes<OneNan> { Codes::new([a, b].map(f32_to_fp8)) }
    VCvtPkBf8F32(a: f32, b: f32) -> Codes<OneNan> { Codes::new([a, b].map(f32_to_bf8)) }
    VCvtPkaccumU8F32(a: f32, n: u32, c: u32) -> u32 {
        let shift = 8 * (n & 3);
        c & !(0xff << shift) | u32::from(a.round_ties_even() as u8) << shift
    }
    VCvtPkU8F32(a: f32, n: u32, c: u32) -> u32 {
        let shift = 8 * (n & 3);
        c & !(0xff << shift) | u32::from(a.round_ties_even() as u8) << shift
    }
}

/// gfx1250: those whose clamp bit stands for e5m3.
mod e5m3 {
    use super::*;

    vops! {
        VCvtF32Fp8Gfx12(a: Byte) -> f32 { ocp::e5m3_to_f32(a.0) }
        VCvtPkFp8F16(a: Halves) -> Codes<E5m3> { Codes::new(a.floats().map(ocp::f32_to_e5m3)) }
        VCvtPkFp8F32Gfx12(a: f32, b: f32) -> Codes<E5m3> { Codes::new([a, b].map(ocp::f32_to_e5m3)) }
    }
}

pub(super) use e5m3::handler as e5m3_handler;

/// gfx950: conversions of gfx942 with the formats of the Open Compute Project (CDNA4 ISA, V_CVT_F32_FP8 and its like).
mod cdna4 {
    use super::*;

    vops! {
        VCvtF32Fp8(a: u32) -> f32 { ocp::fp8_to_f32(a as u8) }
        VCvtF32Bf8(a: u32) -> f32 { ocp::bf8_to_f32(a as u8) }
        VCvtPkF32Fp8(a: u32) -> u64 { pair(ocp::fp8_to_f32(a as u8), ocp::fp8_to_f32((a >> 8) as u8)) }
        VCvtPkF32Bf8(a: u32) -> u64 { pair(ocp::bf8_to_f32(a as u8), ocp::bf8_to_f32((a >> 8) as u8)) }
        VCvtPkFp8F32(a: f32, b: f32) -> Codes<Fp8> { Codes::new([a, b].map(ocp::f32_to_fp8)) }
        VCvtPkBf8F32(a: f32, b: f32) -> Codes<Bf8> { Codes::new([a, b].map(ocp::f32_to_bf8)) }
    }
}

pub(super) use cdna4::handler as cdna4_handler;
