// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Scalar f32 and f16 arithmetic of RDNA3.5 and RDNA4 (their ISA documents, "SALU floating point"). RDNA3.5 has IEEE
//! mode, which RDNA4 lacks: its minima and maxima are as those of its vector unit.

use super::float::*;
use super::min_max::Number;
use super::valu::{Elem, F16, Finish, flushes, saturated_half};
use crate::micro_op::{Handler, MicroOp};
use crate::operand::Src;
use crate::wave::{Group, Wave};
use sim_isa::Op;

/// An f32 operand; a denormal is flushed if MODE says so.
fn read<const L: usize>(wave: &Wave<L>, src: &Src) -> f32 {
    flushed(wave, f32::from_bits(wave.s32(src)))
}

fn flushed<const L: usize>(wave: &Wave<L>, x: f32) -> f32 {
    if wave.flush32 && x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

fn write<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, result: f32) {
    let result = flushed(wave, result);
    wave.set_s(op.dst as usize, result.to_bits());
}

/// An f16 operand; a denormal is flushed if MODE says so.
fn read_half<const L: usize>(wave: &Wave<L>, src: &Src) -> f32 {
    half_to_f32(flushed_half(wave, wave.s32(src) as u16))
}

fn flushed_half<const L: usize>(wave: &Wave<L>, bits: u16) -> u16 {
    if wave.flush64 && bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

/// The upper half of the register becomes zero.
fn write_half<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, result: f32) {
    let half = f32_to_half(result);
    let half = if wave.saturates { saturated_half(half.into(), result.is_finite()) as u16 } else { half };
    let result = flushed_half(wave, half);
    wave.set_s(op.dst as usize, u32::from(result));
}

macro_rules! extrema {
    ($($single:ident $half:ident $of:path;)*) => {
        /// The handler of a minimum or maximum that prefers a number to a NaN.
        fn extremum<const L: usize>(op: Op) -> Option<Handler<L>> {
            Some(match op {
                $(
                    Op::$single => |wave, group, op| {
                        let result = $of(read(wave, &op.src[0]), read(wave, &op.src[1]), group.ieee(wave));
                        write(wave, op, result);
                        Ok(())
                    },
                    Op::$half => |wave, group, op| {
                        let result = $of(read_half(wave, &op.src[0]), read_half(wave, &op.src[1]), group.ieee(wave));
                        write_half(wave, op, result);
                        Ok(())
                    },
                )*
                _ => return None,
            })
        }
    };
}

extrema! {
    SMinNumF32 SMinNumF16 f32::least;
    SMaxNumF32 SMaxNumF16 f32::most;
}

/// Scalar f16 arithmetic. As in `half.rs`, sums and products are rounded once, by way of f32, and the fused op by way
/// of f64.
fn half<const L: usize>(op: Op) -> Option<Handler<L>> {
    macro_rules! table {
        ($($name:ident ($a:ident, $b:ident, $c:ident) $body:expr;)*) => {
            Some(match op {
                $(Op::$name => |wave, _, op| {
                    let [$a, $b, $c] = [0, 1, 2].map(|i| read_half(wave, &op.src[i]));
                    write_half(wave, op, $body);
                    Ok(())
                },)*
                Op::SCvtHiF32F16 => |wave, _, op| {
                    let value = half_to_f32(flushed_half(wave, (wave.s32(&op.src[0]) >> 16) as u16));
                    write(wave, op, value);
                    Ok(())
                },
                Op::SCvtPkRtzF16F32 => |wave, _, op| {
                    let half = |i: usize| u32::from(flushed_half(wave, f32_to_half_rtz(read(wave, &op.src[i]))));
                    let pair = half(0) | half(1) << 16;
                    wave.set_s(op.dst as usize, pair);
                    Ok(())
                },
                Op::SCvtF16F32 => |wave, _, op| {
                    let value = read(wave, &op.src[0]);
                    write_half(wave, op, value);
                    Ok(())
                },
                Op::SCvtF32F16 => |wave, _, op| {
                    let value = read_half(wave, &op.src[0]);
                    write(wave, op, value);
                    Ok(())
                },
                _ => return None,
            })
        };
    }
    table! {
        SAddF16(a, b, _c) a + b;
        SSubF16(a, b, _c) a - b;
        SMulF16(a, b, _c) a * b;
        SMinimumF16(a, b, _c) minimum32(a, b);
        SMaximumF16(a, b, _c) maximum32(a, b);
        SCeilF16(a, _b, _c) a.ceil();
        SFloorF16(a, _b, _c) a.floor();
        STruncF16(a, _b, _c) a.trunc();
        SRndneF16(a, _b, _c) a.round_ties_even();
        SFmacF16(a, b, c) f64_to_f32_odd(f64::from(a) * f64::from(b) + f64::from(c));
    }
}

/// A transcendental op of the vector unit whose operand and result are scalar.
fn transcendental<E: Elem, const L: usize>(wave: &mut Wave<L>, group: &Group<'_>, op: &MicroOp<L>, f: impl Fn(E) -> E) {
    let flush = flushes::<E, L>(wave);
    let x = E::from_bits(wave.s32(&op.src[0]), 0).modify(op.neg & 1 != 0, op.abs & 1 != 0, flush);
    let result = f(x).finish(Finish::new::<E, L>(wave, group, op));
    wave.set_s(op.dst as usize, result.to_bits().0);
}

macro_rules! transcendentals {
    ($($single:ident $half:ident $f:expr;)*) => {
        /// The handler of a scalar transcendental op.
        pub(super) fn transcendental_handler<const L: usize>(op: Op) -> Option<Handler<L>> {
            Some(match op {
                $(
                    Op::$single => |wave, group, op| {
                        transcendental(wave, group, op, |x: f32| flushing(x, $f));
                        Ok(())
                    },
                    Op::$half => |wave, group, op| {
                        transcendental(wave, group, op, |x: F16| F16($f(x.0)));
                        Ok(())
                    },
                )*
                _ => return None,
            })
        }
    };
}

transcendentals! {
    VSExpF32 VSExpF16 exp2;
    VSLogF32 VSLogF16 log2;
    VSRcpF32 VSRcpF16 recip;
    VSRsqF32 VSRsqF16 rsqrt;
    VSSqrtF32 VSSqrtF16 f32::sqrt;
}

macro_rules! float_ops {
    (
        results { $($name:ident ($a:ident $(, $b:ident $(, $c:ident)?)?) $body:expr;)* }
        compares { $($compare:ident $half:ident ($x:ident, $y:ident) $holds:expr;)* }
    ) => {
        /// The handler of a scalar float op.
        pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
            Some(match op {
                $(Op::$name => |wave, _, op| {
                    let $a = read(wave, &op.src[0]);
                    $(
                        let $b = read(wave, &op.src[1]);
                        $(let $c = read(wave, &op.src[2]);)?
                    )?
                    write(wave, op, $body);
                    Ok(())
                },)*
                $(Op::$compare => |wave, _, op| {
                    let ($x, $y) = (read(wave, &op.src[0]), read(wave, &op.src[1]));
                    wave.scc = $holds;
                    Ok(())
                },
                Op::$half => |wave, _, op| {
                    let ($x, $y) = (read_half(wave, &op.src[0]), read_half(wave, &op.src[1]));
                    wave.scc = $holds;
                    Ok(())
                },)*
                Op::SCvtF32I32 => |wave, _, op| {
                    let value = wave.s32(&op.src[0]) as i32 as f32;
                    wave.set_s(op.dst as usize, value.to_bits());
                    Ok(())
                },
                Op::SCvtF32U32 => |wave, _, op| {
                    let value = wave.s32(&op.src[0]) as f32;
                    wave.set_s(op.dst as usize, value.to_bits());
                    Ok(())
                },
                Op::SCvtI32F32 => |wave, _, op| {
                    let value = read(wave, &op.src[0]) as i32;
                    wave.set_s(op.dst as usize, value as u32);
                    Ok(())
                },
                Op::SCvtU32F32 => |wave, _, op| {
                    let value = read(wave, &op.src[0]) as u32;
                    wave.set_s(op.dst as usize, value);
                    Ok(())
                },
                _ => return extremum(op).or_else(|| half(op)),
            })
        }
    };
}

float_ops! {
    results {
        SAddF32(a, b) a + b;
        SSubF32(a, b) a - b;
        SMulF32(a, b) a * b;
        SMinimumF32(a, b) minimum32(a, b);
        SMaximumF32(a, b) maximum32(a, b);
        SFmacF32(a, b, c) a.mul_add(b, c);
        SFmaakF32(a, b, k) a.mul_add(b, k);
        SFmamkF32(a, k, b) a.mul_add(k, b);
        SCeilF32(a) a.ceil();
        SFloorF32(a) a.floor();
        STruncF32(a) a.trunc();
        SRndneF32(a) a.round_ties_even();
    }
    compares {
        SCmpLtF32 SCmpLtF16 (a, b) a < b;
        SCmpEqF32 SCmpEqF16 (a, b) a == b;
        SCmpLeF32 SCmpLeF16 (a, b) a <= b;
        SCmpGtF32 SCmpGtF16 (a, b) a > b;
        SCmpLgF32 SCmpLgF16 (a, b) a.partial_cmp(&b).is_some_and(|order| order.is_ne());
        SCmpGeF32 SCmpGeF16 (a, b) a >= b;
        SCmpOF32 SCmpOF16 (a, b) !a.is_nan() && !b.is_nan();
        SCmpUF32 SCmpUF16 (a, b) a.is_nan() || b.is_nan();
        SCmpNgeF32 SCmpNgeF16 (a, b) a.partial_cmp(&b).is_none_or(|order| order.is_lt());
        SCmpNlgF32 SCmpNlgF16 (a, b) a.partial_cmp(&b).is_none_or(|order| order.is_eq());
        SCmpNgtF32 SCmpNgtF16 (a, b) a.partial_cmp(&b).is_none_or(|order| order.is_le());
        SCmpNleF32 SCmpNleF16 (a, b) a.partial_cmp(&b).is_none_or(|order| order.is_gt());
        SCmpNeqF32 SCmpNeqF16 (a, b) a != b;
        SCmpNltF32 SCmpNltF16 (a, b) a.partial_cmp(&b).is_none_or(|order| order.is_ge());
    }
}
