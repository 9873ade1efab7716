// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Conversions of several floats to few bits each, after a division by a scale: `v_cvt_scalef32_pk*` of gfx1250 (CDNA4 ISA,
//! V_CVT_SCALEF32_PK32_FP6_F16 and its like, which convert other numbers of them).

use super::float::{bf16_to_f32, half_to_f32, pow2};
use super::integer::prng;
use super::small_float::{by_chance, code, ocp};
use crate::fault::FaultKind;
use crate::operand::SrcKind;
use crate::program::MicroOp;
use crate::wave::{Group, Handler, Row, Step, Stop, Wave};
use sim_isa::Op;

/// A float of at most eight bits.
trait Small {
    const BITS: usize;
    const MANTISSA: u32;
    /// How many an instruction converts.
    const COUNT: usize;
    /// The code of `value`, its fraction rounded by `round`.
    fn encode(value: f32, round: fn(f64) -> f64) -> u32;
}

macro_rules! small {
    ($($name:ident $bits:literal $mantissa:literal $count:literal |$value:ident, $round:ident| $encode:expr;)*) => {$(
        struct $name;
        impl Small for $name {
            const BITS: usize = $bits;
            const MANTISSA: u32 = $mantissa;
            const COUNT: usize = $count;
            fn encode($value: f32, $round: fn(f64) -> f64) -> u32 {
                $encode
            }
        }
    )*};
}

small! {
    Fp8 8 3 8 |value, round| ocp::to_fp8(value, round).into();
    Bf8 8 2 8 |value, round| ocp::to_bf8(value, round).into();
    Fp4 4 1 8 |value, round| saturated(value, 4, code(value, 1, 1, round));
    Fp6 6 3 16 |value, round| saturated(value, 6, code(value, 3, 1, round));
    Bf6 6 2 16 |value, round| saturated(value, 6, code(value, 2, 3, round));
}

/// A format without infinities and NaNs: what is too large, or none, is the greatest number.
fn saturated(value: f32, bits: u32, code: i32) -> u32 {
    let most = (1 << (bits - 1)) - 1;
    let magnitude = if value.is_nan() { most } else { code.min(most) };
    magnitude as u32 | u32::from(value.is_sign_negative()) << (bits - 1)
}

/// What is converted.
trait Wide {
    /// Number `i` of a row's dwords.
    fn element(dword: impl Fn(usize) -> u32, i: usize) -> f32;
}

struct F32;
struct F16;
struct Bf16;

impl Wide for F32 {
    fn element(dword: impl Fn(usize) -> u32, i: usize) -> f32 {
        f32::from_bits(dword(i))
    }
}

impl Wide for F16 {
    fn element(dword: impl Fn(usize) -> u32, i: usize) -> f32 {
        half_to_f32((dword(i / 2) >> (16 * (i % 2))) as u16)
    }
}

impl Wide for Bf16 {
    fn element(dword: impl Fn(usize) -> u32, i: usize) -> f32 {
        bf16_to_f32((dword(i / 2) >> (16 * (i % 2))) as u16)
    }
}

/// The handler of an op of this module.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    Some(match op {
        Op::VCvtScalef32Pk8Fp8F32 => pack::<Fp8, F32, false, L>,
        Op::VCvtScalef32Pk8Fp8F16 => pack::<Fp8, F16, false, L>,
        Op::VCvtScalef32Pk8Fp8Bf16 => pack::<Fp8, Bf16, false, L>,
        Op::VCvtScalef32Pk8Bf8F32 => pack::<Bf8, F32, false, L>,
        Op::VCvtScalef32Pk8Bf8F16 => pack::<Bf8, F16, false, L>,
        Op::VCvtScalef32Pk8Bf8Bf16 => pack::<Bf8, Bf16, false, L>,
        Op::VCvtScalef32Pk8Fp4F32 => pack::<Fp4, F32, false, L>,
        Op::VCvtScalef32Pk8Fp4F16 => pack::<Fp4, F16, false, L>,
        Op::VCvtScalef32Pk8Fp4Bf16 => pack::<Fp4, Bf16, false, L>,
        Op::VCvtScalef32Pk16Fp6F32 => pack::<Fp6, F32, false, L>,
        Op::VCvtScalef32Pk16Fp6F16 => pack::<Fp6, F16, false, L>,
        Op::VCvtScalef32Pk16Fp6Bf16 => pack::<Fp6, Bf16, false, L>,
        Op::VCvtScalef32Pk16Bf6F32 => pack::<Bf6, F32, false, L>,
        Op::VCvtScalef32Pk16Bf6F16 => pack::<Bf6, F16, false, L>,
        Op::VCvtScalef32Pk16Bf6Bf16 => pack::<Bf6, Bf16, false, L>,
        Op::VCvtScalef32SrPk8Fp8F32 => pack::<Fp8, F32, true, L>,
        Op::VCvtScalef32SrPk8Fp8F16 => pack::<Fp8, F16, true, L>,
        Op::VCvtScalef32SrPk8Fp8Bf16 => pack::<Fp8, Bf16, true, L>,
        Op::VCvtScalef32SrPk8Bf8F32 => pack::<Bf8, F32, true, L>,
        Op::VCvtScalef32SrPk8Bf8F16 => pack::<Bf8, F16, true, L>,
        Op::VCvtScalef32SrPk8Bf8Bf16 => pack::<Bf8, Bf16, true, L>,
        Op::VCvtScalef32SrPk8Fp4F32 => pack::<Fp4, F32, true, L>,
        Op::VCvtScalef32SrPk8Fp4F16 => pack::<Fp4, F16, true, L>,
        Op::VCvtScalef32SrPk8Fp4Bf16 => pack::<Fp4, Bf16, true, L>,
        Op::VCvtScalef32SrPk16Fp6F32 => pack::<Fp6, F32, true, L>,
        Op::VCvtScalef32SrPk16Fp6F16 => pack::<Fp6, F16, true, L>,
        Op::VCvtScalef32SrPk16Fp6Bf16 => pack::<Fp6, Bf16, true, L>,
        Op::VCvtScalef32SrPk16Bf6F32 => pack::<Bf6, F32, true, L>,
        Op::VCvtScalef32SrPk16Bf6F16 => pack::<Bf6, F16, true, L>,
        Op::VCvtScalef32SrPk16Bf6Bf16 => pack::<Bf6, Bf16, true, L>,
        _ => return None,
    })
}

/// The scale is the exponent of an f32, the last source; before it may come random bits, which every element moves on.
fn pack<S: Small, W: Wide, const CHANCE: bool, const L: usize>(
    wave: &mut Wave<L>,
    _: &mut Group<'_>,
    op: &MicroOp<L>,
) -> Step {
    if op.src[0].kind != SrcKind::Vgpr {
        let what = "a scaled conversion of what is not in vector registers".to_owned();
        return Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))));
    }
    let mut rows = [Row::<L>::ZERO; 3];
    for lane in 0..L {
        let exponent = wave.lane(&op.src[if CHANCE { 2 } else { 1 }], lane) >> 23 & 0xff;
        let factor = if exponent == 0xff { f64::NAN } else { pow2(127 - exponent as i32) };
        let mut random = if CHANCE { wave.lane(&op.src[1], lane) } else { 0 };
        for i in 0..S::COUNT {
            let value = W::element(|n| wave.v[op.src[0].reg as usize + n].0[lane], i);
            let value = (f64::from(value) * factor) as f32;
            let code = match CHANCE {
                true => S::encode(by_chance(value, random, 23 - S::MANTISSA), f64::trunc),
                false => S::encode(value, f64::round_ties_even),
            };
            random = prng(random);
            let (dword, shift) = (i * S::BITS / 32, i * S::BITS % 32);
            rows[dword].0[lane] |= code << shift;
            if shift + S::BITS > 32 {
                rows[dword + 1].0[lane] |= code >> (32 - shift);
            }
        }
    }
    for (n, row) in rows[..S::COUNT * S::BITS / 32].iter().enumerate() {
        wave.put(op.dst as usize + n, row);
    }
    Ok(())
}
