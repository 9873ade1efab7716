// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Floats of 8 bits: fp8 (e4m3) and bf8 (e5m2), in the two fashions that targets have.
//!
//! The formats of gfx942 have the exponent bias `2^(bits-1)`, no infinities, and 0x80 is the only NaN. Those of gfx950
//! and gfx12, in [`ocp`], are of the Open Compute Project: IEEE's bias; bf8 has infinities and NaNs as IEEE's formats
//! have, fp8 has no infinity and only the NaNs 0x7f and 0xff. gfx1250 also has e5m3, without sign, in which 0xff alone
//! is a NaN.

use super::float::{f32_to_half_rtz, half_to_f32, pow2};
use super::valu::{Elem, F16};
use crate::micro_op::{Handler, MicroOp, Step};
use crate::wave::{Row, Wave};
use sim_isa::Op;
use std::marker::PhantomData;

/// The value of a code without sign that is a number.
#[inline(always)]
pub(super) fn magnitude(code: u8, mantissa_bits: u32, bias: i32) -> f32 {
    number(u32::from(code & 0x7f), mantissa_bits, bias)
}

/// [`magnitude`] of a code of any width.
#[inline(always)]
fn number(code: u32, mantissa_bits: u32, bias: i32) -> f32 {
    let (exponent, mantissa) = (code >> mantissa_bits, code & ((1 << mantissa_bits) - 1));
    // The unit in the last place, and how many of them; the first exponent is that of denormals.
    let unit = exponent.max(1) as i32 - bias - mantissa_bits as i32;
    let count = if exponent == 0 { mantissa } else { mantissa | 1 << mantissa_bits };
    count as f32 * f32::from_bits(((unit + 127) as u32) << 23)
}

/// The code nearest to the magnitude of `value`, as `round` cuts off fractions; too large a one is at most some
/// hundreds beyond the last.
#[inline(always)]
pub(super) fn code(value: f32, mantissa_bits: u32, bias: i32, round: fn(f64) -> f64) -> i32 {
    // Of the f32's exponent; below the first one, denormals are as far apart as it is.
    let exponent = ((value.to_bits() >> 23 & 0xff) as i32 - 127).max(1 - bias);
    let count = round(f64::from(value.abs()) * pow2(mantissa_bits as i32 - exponent));
    // A carry into the next exponent, or out of the denormals, comes out right.
    ((exponent + bias - 1) << mantissa_bits) + count.min(1024.0) as i32
}

#[inline(always)]
fn small_float(bits: u8, mantissa_bits: u32) -> f32 {
    let value = magnitude(bits, mantissa_bits, 1 << (6 - mantissa_bits));
    match bits {
        0x80 => f32::NAN,
        0x81.. => -value,
        _ => value,
    }
}

/// The f32 of an fp8 of gfx942.
#[inline(always)]
pub(crate) fn fp8_to_f32(bits: u8) -> f32 {
    small_float(bits, 3)
}

/// The f32 of a bf8 of gfx942.
#[inline(always)]
pub(crate) fn bf8_to_f32(bits: u8) -> f32 {
    small_float(bits, 2)
}

/// The small float nearest to `value`; NaN if it is too large.
#[inline(always)]
fn f32_to_small(value: f32, mantissa_bits: u32, round: fn(f64) -> f64) -> u8 {
    const NAN: u8 = 0x80;
    match code(value, mantissa_bits, 1 << (6 - mantissa_bits), round) {
        _ if value.is_nan() => NAN,
        0 => 0,
        code @ 1..=0x7f => code as u8 | if value < 0.0 { 0x80 } else { 0 },
        _ => NAN,
    }
}

/// The fp8 of gfx942 nearest to `value` (ties to even).
#[inline(always)]
pub(crate) fn f32_to_fp8(value: f32) -> u8 {
    f32_to_small(value, 3, f64::round_ties_even)
}

/// The bf8 of gfx942 nearest to `value` (ties to even).
#[inline(always)]
pub(crate) fn f32_to_bf8(value: f32) -> u8 {
    f32_to_small(value, 2, f64::round_ties_even)
}

/// A format of floats of eight bits.
pub(super) trait Format: Copy {
    /// The code of `value` under FP16_OVFL, given the code without it: overflows and infinities become the greatest
    /// number (CDNA3 and CDNA5 ISA, the tables of conversions to FP8 and BF8).
    fn saturated(code: u8, value: f32) -> u8;
}

/// fp8 and bf8 of gfx942, whose only NaN an overflow is.
#[derive(Clone, Copy)]
pub(super) struct OneNan;

impl Format for OneNan {
    fn saturated(code: u8, value: f32) -> u8 {
        let sign = if value < 0.0 { 0x80 } else { 0 };
        if code == 0x80 && !value.is_nan() { 0x7f | sign } else { code }
    }
}

/// A format of gfx12 with the code `OVERFLOW`, beside the bits of `SIGN`, for values that are too large.
#[derive(Clone, Copy)]
pub(super) struct Ocp<const OVERFLOW: u8, const SIGN: u8>;

impl<const OVERFLOW: u8, const SIGN: u8> Format for Ocp<OVERFLOW, SIGN> {
    fn saturated(code: u8, value: f32) -> u8 {
        if code & !SIGN == OVERFLOW && !value.is_nan() { code - 1 } else { code }
    }
}

pub(super) type Fp8 = Ocp<0x7f, 0x80>;
pub(super) type Bf8 = Ocp<0x7c, 0x80>;
pub(super) type E5m3 = Ocp<0xff, 0>;

/// Two floats of eight bits, as a result.
#[derive(Clone, Copy)]
pub(super) struct Codes<F>(u16, PhantomData<F>);

impl<F> Codes<F> {
    #[inline(always)]
    pub fn new(codes: [u8; 2]) -> Self {
        Codes(u16::from_le_bytes(codes), PhantomData)
    }
}

impl<F: Format> Elem for Codes<F> {
    const HALF: bool = true;
    const SATURATES: bool = true;
    #[inline(always)]
    fn from_bits(low: u32, _: u32) -> Self {
        Codes(low as u16, PhantomData)
    }
    #[inline(always)]
    fn to_bits(self) -> (u32, u32) {
        (self.0.into(), 0)
    }
    fn saturate(bits: u32, [low, high]: [f32; 2], _: bool) -> u32 {
        u32::from(F::saturated(bits as u8, low)) | u32::from(F::saturated((bits >> 8) as u8, high)) << 8
    }
}

/// The small floats of gfx12.
pub(crate) mod ocp {
    use super::{code, half_to_f32, magnitude, number};

    /// The f32 of an e5m3.
    #[inline(always)]
    pub fn e5m3_to_f32(bits: u8) -> f32 {
        if bits == 0xff { f32::NAN } else { number(bits.into(), 3, 15) }
    }

    /// The e5m3 of the magnitude of `value`, its fraction rounded by `round`; NaN if it is too large.
    #[inline(always)]
    pub fn to_e5m3(value: f32, round: fn(f64) -> f64) -> u8 {
        match code(value, 3, 15, round) {
            code @ 0..=0xfe if value.is_finite() => code as u8,
            _ => 0xff,
        }
    }

    /// The e5m3 nearest to the magnitude of `value` (ties to even).
    #[inline(always)]
    pub fn f32_to_e5m3(value: f32) -> u8 {
        to_e5m3(value, f64::round_ties_even)
    }

    #[inline(always)]
    fn sign(value: f32) -> u8 {
        (value.to_bits() >> 24) as u8 & 0x80
    }

    /// The f32 of an fp8.
    #[inline(always)]
    pub fn fp8_to_f32(bits: u8) -> f32 {
        let value = if bits & 0x7f == 0x7f { f32::NAN } else { magnitude(bits, 3, 7) };
        if bits >= 0x80 { -value } else { value }
    }

    /// The f32 of a bf8: half an f16.
    #[inline(always)]
    pub fn bf8_to_f32(bits: u8) -> f32 {
        half_to_f32(u16::from(bits) << 8)
    }

    /// The fp8 of `value`, its fraction rounded by `round`.
    #[inline(always)]
    pub fn to_fp8(value: f32, round: fn(f64) -> f64) -> u8 {
        sign(value)
            | match code(value, 3, 7, round) {
                code @ 0..=0x7e if !value.is_nan() => code as u8,
                _ => 0x7f,
            }
    }

    /// The bf8 of `value`, its fraction rounded by `round`.
    #[inline(always)]
    pub fn to_bf8(value: f32, round: fn(f64) -> f64) -> u8 {
        sign(value)
            | match code(value, 2, 15, round) {
                _ if value.is_nan() => 0x7f,
                code @ 0..=0x7b => code as u8,
                _ => 0x7c,
            }
    }

    /// The fp8 nearest to `value` (ties to even); NaN if it is too large.
    #[inline(always)]
    pub fn f32_to_fp8(value: f32) -> u8 {
        to_fp8(value, f64::round_ties_even)
    }

    /// The bf8 nearest to `value` (ties to even); infinite if it is too large.
    #[inline(always)]
    pub fn f32_to_bf8(value: f32) -> u8 {
        to_bf8(value, f64::round_ties_even)
    }
}

/// The handler of a conversion that rounds by chance.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::VCvtSrFp8F32 => |wave, _, op| stochastic::<OneNan, L>(wave, op, 20, |x| f32_to_small(x, 3, f64::trunc)),
        Op::VCvtSrBf8F32 => |wave, _, op| stochastic::<OneNan, L>(wave, op, 21, |x| f32_to_small(x, 2, f64::trunc)),
        Op::VCvtSrFp8F32Gfx12 => |wave, _, op| stochastic::<Fp8, L>(wave, op, 20, |x| ocp::to_fp8(x, f64::trunc)),
        Op::VCvtSrBf8F32Gfx12 => |wave, _, op| stochastic::<Bf8, L>(wave, op, 21, |x| ocp::to_bf8(x, f64::trunc)),
        Op::VCvtSrFp8F16 => |wave, _, op| stochastic_half::<Fp8, L>(wave, op, 20, |x| ocp::to_fp8(x, f64::trunc)),
        Op::VCvtSrBf8F16 => |wave, _, op| stochastic_half::<Bf8, L>(wave, op, 21, |x| ocp::to_bf8(x, f64::trunc)),
        Op::VCvtSrPkBf16F32 => |wave, _, op| stochastic_pair(wave, op, 16, |x| (x.to_bits() >> 16) as u16),
        Op::VCvtSrPkF16F32 => |wave, _, op| stochastic_pair(wave, op, 13, f32_to_half_rtz),
        _ => return None,
    })
}

/// [`handler`] of gfx950 for ops of gfx942, with the formats of the Open Compute Project.
pub(super) fn cdna4_handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    match op {
        Op::VCvtSrFp8F32 => handler(Op::VCvtSrFp8F32Gfx12),
        Op::VCvtSrBf8F32 => handler(Op::VCvtSrBf8F32Gfx12),
        _ => None,
    }
}

/// [`handler`] of those whose clamp bit stands for another format.
pub(super) fn e5m3_handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    match op {
        Op::VCvtSrFp8F32Gfx12 => {
            Some(|wave, _, op| stochastic::<E5m3, L>(wave, op, 20, |x| ocp::to_e5m3(x, f64::trunc)))
        }
        _ => None,
    }
}

/// The upper `lost` bits of `random`, as many as the mantissa loses, added to `x`, whose mantissa is then to be cut
/// off.
#[inline(always)]
pub(super) fn by_chance(x: f32, random: u32, lost: u32) -> f32 {
    let moved = f32::from_bits((x.abs().to_bits() + (random >> (32 - lost))).min(f32::MAX.to_bits())).copysign(x);
    if x.is_finite() { moved } else { x }
}

/// Two f32, rounded by chance: each with sixteen random bits (CDNA5 ISA, V_CVT_SR_PK_BF16_F32).
fn stochastic_pair<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, lost: u32, cut: fn(f32) -> u16) -> Step {
    let result = Row(std::array::from_fn(|lane| {
        let random = wave.lane(&op.src[2], lane);
        let half = |i: usize, random: u32| {
            let x = f32::from_bits(wave.lane(&op.src[i], lane));
            let x = x.modify(op.neg >> i & 1 != 0, op.abs >> i & 1 != 0, wave.flush32);
            // A NaN stays one without its lower bits.
            u32::from(cut(if x.is_nan() { f32::NAN } else { by_chance(x, random, lost) }))
        };
        half(0, random << 16) | half(1, random & 0xffff_0000) << 16
    }));
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// An f16, rounded as [`stochastic`] rounds the f32 of the same value.
fn stochastic_half<F: Format, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    lost: u32,
    convert: fn(f32) -> u8,
) -> Step {
    let shift = 8 * u32::from(op.op_sel >> 2 & 3);
    let mut result = wave.v[op.dst as usize];
    for (lane, word) in result.0.iter_mut().enumerate() {
        let bits = wave.lane(&op.src[0], lane) >> op.src[0].shift;
        let (bits, _) = F16::modify_bits((bits & 0xffff, 0), op.neg & 1 != 0, op.abs & 1 != 0, wave.flush64);
        let moved = by_chance(half_to_f32(bits as u16), wave.lane(&op.src[1], lane), lost);
        let code = convert(moved);
        let code = if wave.saturates { F::saturated(code, moved) } else { code };
        *word = *word & !(0xff << shift) | u32::from(code) << shift;
    }
    wave.put(op.dst as usize, &result);
    Ok(())
}

/// The upper bits of source 1, as many as the mantissa loses, are added to it before it is cut off. `op_sel` chooses
/// the byte of the destination; the others stay. The document prints rounding to nearest and a mantissa that wraps
/// around; see docs/sim/numerics.md.
fn stochastic<F: Format, const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    lost: u32,
    convert: fn(f32) -> u8,
) -> Step {
    let shift = 8 * u32::from(op.op_sel >> 2 & 3);
    let mut result = wave.v[op.dst as usize];
    for (lane, word) in result.0.iter_mut().enumerate() {
        let x = f32::from_bits(wave.lane(&op.src[0], lane)).modify(op.neg & 1 != 0, op.abs & 1 != 0, wave.flush32);
        let moved = by_chance(x, wave.lane(&op.src[1], lane), lost);
        let code = convert(moved);
        let code = if wave.saturates { F::saturated(code, moved) } else { code };
        *word = *word & !(0xff << shift) | u32::from(code) << shift;
    }
    wave.put(op.dst as usize, &result);
    Ok(())
}
