// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! gfx950: conversions of one, two or 32 floats to few bits each, after a division by a scale, and back
//! (`v_cvt_scalef32_*`), and roundings by chance to 16 bits (CDNA4 ISA, V_CVT_SCALEF32_PK_FP8_F32 and its like).

use super::float::{f32_to_half_rtz, pow2};
use super::fp8::by_chance;
use super::integer::prng;
use super::level::of_lanes;
use super::scaled::{Bf6, Bf8, Fp4, Fp6, Fp8, Narrow, Wide};
use super::valu::{Elem, put_half};
use crate::fault::FaultKind;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Row, Wave};
use sim_isa::Op;

/// The handler of an op of this module, which waves of 64 lanes alone have.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    macro_rules! pack {
        ($small:ty, $wide:ident, $count:literal, $chance:literal) => {
            |wave, _, op| pack(wave, op, &const { Narrow::of::<$small>() }, (Wide::$wide, $count, $chance))
        };
    }
    macro_rules! unpack {
        ($small:ty, $wide:ident, $count:literal) => {
            |wave, _, op| unpack(wave, op, &const { Narrow::of::<$small>() }, (Wide::$wide, $count))
        };
    }
    let handler: Handler<64> = match op {
        Op::VCvtScalef32PkFp8F32 => pack!(Fp8, F32, 2, false),
        Op::VCvtScalef32PkBf8F32 => pack!(Bf8, F32, 2, false),
        Op::VCvtScalef32SrFp8F32 => pack!(Fp8, F32, 1, true),
        Op::VCvtScalef32SrBf8F32 => pack!(Bf8, F32, 1, true),
        Op::VCvtScalef32PkF32Fp8 => unpack!(Fp8, F32, 2),
        Op::VCvtScalef32PkF32Bf8 => unpack!(Bf8, F32, 2),
        Op::VCvtScalef32F32Fp8 => unpack!(Fp8, F32, 1),
        Op::VCvtScalef32F32Bf8 => unpack!(Bf8, F32, 1),
        Op::VCvtScalef32PkFp4F32 => pack!(Fp4, F32, 2, false),
        Op::VCvtScalef32SrPkFp4F32 => pack!(Fp4, F32, 2, true),
        Op::VCvtScalef32PkF32Fp4 => unpack!(Fp4, F32, 2),
        Op::VCvtScalef32PkFp8F16 => pack!(Fp8, F16, 2, false),
        Op::VCvtScalef32PkBf8F16 => pack!(Bf8, F16, 2, false),
        Op::VCvtScalef32SrFp8F16 => pack!(Fp8, F16, 1, true),
        Op::VCvtScalef32SrBf8F16 => pack!(Bf8, F16, 1, true),
        Op::VCvtScalef32PkFp8Bf16 => pack!(Fp8, Bf16, 2, false),
        Op::VCvtScalef32PkBf8Bf16 => pack!(Bf8, Bf16, 2, false),
        Op::VCvtScalef32SrFp8Bf16 => pack!(Fp8, Bf16, 1, true),
        Op::VCvtScalef32SrBf8Bf16 => pack!(Bf8, Bf16, 1, true),
        Op::VCvtScalef32PkF16Fp8 => unpack!(Fp8, F16, 2),
        Op::VCvtScalef32PkF16Bf8 => unpack!(Bf8, F16, 2),
        Op::VCvtScalef32F16Fp8 => unpack!(Fp8, F16, 1),
        Op::VCvtScalef32F16Bf8 => unpack!(Bf8, F16, 1),
        Op::VCvtScalef32PkFp4F16 => pack!(Fp4, F16, 2, false),
        Op::VCvtScalef32PkFp4Bf16 => pack!(Fp4, Bf16, 2, false),
        Op::VCvtScalef32SrPkFp4F16 => pack!(Fp4, F16, 2, true),
        Op::VCvtScalef32SrPkFp4Bf16 => pack!(Fp4, Bf16, 2, true),
        Op::VCvtScalef32PkF16Fp4 => unpack!(Fp4, F16, 2),
        Op::VCvtScalef32PkBf16Fp4 => unpack!(Fp4, Bf16, 2),
        Op::VCvtScalef322xpk16Fp6F32 => pack!(Fp6, F32, 32, false),
        Op::VCvtScalef322xpk16Bf6F32 => pack!(Bf6, F32, 32, false),
        Op::VCvtScalef32SrPk32Fp6F32 => pack!(Fp6, F32, 32, true),
        Op::VCvtScalef32SrPk32Bf6F32 => pack!(Bf6, F32, 32, true),
        Op::VCvtScalef32Pk32F32Fp6 => unpack!(Fp6, F32, 32),
        Op::VCvtScalef32Pk32F32Bf6 => unpack!(Bf6, F32, 32),
        Op::VCvtScalef32Pk32Fp6F16 => pack!(Fp6, F16, 32, false),
        Op::VCvtScalef32Pk32Fp6Bf16 => pack!(Fp6, Bf16, 32, false),
        Op::VCvtScalef32Pk32Bf6F16 => pack!(Bf6, F16, 32, false),
        Op::VCvtScalef32Pk32Bf6Bf16 => pack!(Bf6, Bf16, 32, false),
        Op::VCvtScalef32SrPk32Fp6F16 => pack!(Fp6, F16, 32, true),
        Op::VCvtScalef32SrPk32Fp6Bf16 => pack!(Fp6, Bf16, 32, true),
        Op::VCvtScalef32SrPk32Bf6F16 => pack!(Bf6, F16, 32, true),
        Op::VCvtScalef32SrPk32Bf6Bf16 => pack!(Bf6, Bf16, 32, true),
        Op::VCvtScalef32Pk32F16Fp6 => unpack!(Fp6, F16, 32),
        Op::VCvtScalef32Pk32Bf16Fp6 => unpack!(Fp6, Bf16, 32),
        Op::VCvtScalef32Pk32F16Bf6 => unpack!(Bf6, F16, 32),
        Op::VCvtScalef32Pk32Bf16Bf6 => unpack!(Bf6, Bf16, 32),
        Op::VCvtScalef32PkBf16Fp8 => unpack!(Fp8, Bf16, 2),
        Op::VCvtScalef32PkBf16Bf8 => unpack!(Bf8, Bf16, 2),
        Op::VCvtSrF16F32 => |wave, _, op| round_by_chance(wave, op, 13, f32_to_half_rtz),
        Op::VCvtSrBf16F32 => |wave, _, op| round_by_chance(wave, op, 16, |x| (x.to_bits() >> 16) as u16),
        _ => return None,
    };
    of_lanes(handler)
}

/// The scale's factor: a power of two, of which the exponent of an f32 is one.
fn factor(scale: u32, sign: i32) -> f64 {
    match scale >> 23 & 0xff {
        0xff => f64::NAN,
        exponent => pow2(sign * (exponent as i32 - 127)),
    }
}

/// Converts `count` elements to `small`. The scale is the last source; before it may come random bits, which change
/// from element to element as `v_prng_b32` changes them. Of 32 floats in two sources the elements alternate.
fn pack<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    small: &Narrow,
    (wide, count, chance): (Wide, usize, bool),
) -> Step {
    let both = wide == Wide::F32 && !chance;
    let scale = 1 + usize::from(both || chance);
    let of_one = wide == Wide::F32 && (count == 1 || both && count == 2) || wide != Wide::F32 && count < 32;
    for src in &op.src[..1 + usize::from(both)] {
        let is_pair = wide != Wide::F32 && count == 2 && src.kind == SrcKind::Const;
        if !of_one && src.kind != SrcKind::Vgpr || is_pair {
            return unimplemented("a scaled conversion with operands outside of vector registers");
        }
    }
    let total = count * small.bits;
    let mut rows = [Row::<L>::ZERO; 6];
    for lane in 0..L {
        let factor = factor(wave.lane(&op.src[scale], lane), -1);
        let mut random = if chance { wave.lane(&op.src[1], lane) } else { 0 };
        for i in 0..count {
            let (at, n) = match (wide, both) {
                (Wide::F32, true) => (i % 2, i / 2),
                (Wide::F32, false) => (0, i),
                _ => (0, i / 2),
            };
            let src = &op.src[at];
            let word = match src.kind {
                SrcKind::Vgpr => wave.v[usize::from(src.reg) + n].0[lane],
                _ => wave.lane(src, lane),
            };
            let half = (word >> if count == 1 { u32::from(src.shift) } else { 16 * (i % 2) as u32 }) as u16;
            let value = wide.value(if wide == Wide::F32 { word } else { half.into() });
            let value = value.modify(op.neg >> at & 1 != 0, op.abs >> at & 1 != 0, false);
            let value = (f64::from(value) * factor) as f32;
            let code = match chance {
                true => (small.encode)(by_chance(value, random, 23 - small.mantissa), f64::trunc),
                false => (small.encode)(value, f64::round_ties_even),
            };
            let code = if wave.saturates { (small.saturated)(code, value) } else { code };
            random = prng(random);
            let (dword, shift) = (i * small.bits / 32, i * small.bits % 32);
            rows[dword].0[lane] |= code << shift;
            if shift + small.bits > 32 {
                rows[dword + 1].0[lane] |= code >> (32 - shift);
            }
        }
    }
    let dst = op.dst as usize;
    if total < 32 {
        // A part of the register, of which the rest stays.
        let shift = if total == 16 { u32::from(op.op_sel >> 3) * 16 } else { u32::from(op.op_sel >> 2) * 8 };
        let mask = ((1 << total) - 1) << shift;
        for (lane, word) in rows[0].0.iter_mut().enumerate() {
            *word = wave.v[dst].0[lane] & !mask | *word << shift;
        }
    }
    for (n, row) in rows[..total.div_ceil(32)].iter().enumerate() {
        wave.put(dst + n, row);
    }
    Ok(())
}

/// Converts `count` elements of `small`, times the scale.
fn unpack<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, small: &Narrow, (wide, count): (Wide, usize)) -> Step {
    let src = &op.src[0];
    if count == 32 && src.kind != SrcKind::Vgpr {
        return unimplemented("a scaled conversion with operands outside of vector registers");
    }
    let first = match count * small.bits {
        8 => 8 * usize::from(op.op_sel & 3),
        16 => 16 * usize::from(op.op_sel & 1),
        _ => 0,
    };
    let mut rows = [Row::<L>::ZERO; 32];
    for lane in 0..L {
        let factor = factor(wave.lane(&op.src[1], lane), 1);
        for i in 0..count {
            let at = first + i * small.bits;
            let (dword, shift) = (at / 32, at % 32);
            let word = |n: usize| match src.kind {
                SrcKind::Vgpr => u64::from(wave.v[usize::from(src.reg) + n].0[lane]),
                _ => u64::from(wave.lane(src, lane)),
            };
            let beyond = if shift + small.bits > 32 { word(dword + 1) << 32 } else { 0 };
            let code = (word(dword) | beyond) >> shift & ((1 << small.bits) - 1);
            let value = (f64::from((small.decode)(code as u32)) * factor) as f32;
            match wide {
                Wide::F32 => rows[i].0[lane] = wide.round(value),
                _ => rows[i / 2].0[lane] |= wide.round(value) << (16 * (i % 2)),
            }
        }
    }
    let dst = op.dst as usize;
    if wide != Wide::F32 && count == 1 {
        put_half(wave, dst, op.op_sel & 8 != 0, &rows[0]);
        return Ok(());
    }
    let registers = if wide == Wide::F32 { count } else { count / 2 };
    for (n, row) in rows[..registers].iter().enumerate() {
        wave.put(dst + n, row);
    }
    Ok(())
}

/// An f32 in 16 bits: the upper bits of source 1, as many as the mantissa loses, are added before it is cut off.
fn round_by_chance<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, lost: u32, cut: fn(f32) -> u16) -> Step {
    let result = Row(std::array::from_fn(|lane| {
        let x = f32::from_bits(wave.lane(&op.src[0], lane));
        let x = x.modify(op.neg & 1 != 0, op.abs & 1 != 0, wave.flush32);
        // A NaN stays one without its lower bits.
        let moved = if x.is_nan() { f32::NAN } else { by_chance(x, wave.lane(&op.src[1], lane), lost) };
        u32::from(cut(moved))
    }));
    put_half(wave, op.dst as usize, op.op_sel & 8 != 0, &result);
    Ok(())
}

fn unimplemented(what: &str) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what.to_owned()))))
}
