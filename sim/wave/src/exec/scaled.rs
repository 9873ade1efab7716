// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Conversions of several floats to few bits each, after a division by a scale, and back: `v_cvt_scalef32_pk*` and
//! `v_cvt_scale_pk*` of gfx1250 (CDNA5 ISA, V_CVT_SCALEF32_PK8_FP4_F32 and its like).

use super::float::{bf16_to_f32, f32_to_bf16, f32_to_half, half_to_f32, pow2};
use super::fp8::{self, Format, by_chance, code, magnitude, ocp};
use super::integer::prng;
use super::level::of_lanes;
use crate::fault::FaultKind;
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::operand::SrcKind;
use crate::wave::{Row, Wave};
use sim_isa::Op;

/// A float of at most eight bits.
pub(super) trait Small {
    const BITS: usize;
    const MANTISSA: u32;
    /// Number of elements that an instruction converts.
    const COUNT: usize;
    /// The code of `value`, its fraction rounded by `round`.
    fn encode(value: f32, round: fn(f64) -> f64) -> u32;
    /// The code under FP16_OVFL, given that without it.
    fn saturated(code: u32, value: f32) -> u32;
    /// The value of the lowest bits of `code`.
    fn decode(code: u32) -> f32;
}

macro_rules! small {
    ($($name:ident $bits:literal $mantissa:literal $count:literal
        |$value:ident, $round:ident| $encode:expr, |$code:ident| $decode:expr $(, $format:ty)?;)*) => {$(
        pub(super) struct $name;
        impl Small for $name {
            const BITS: usize = $bits;
            const MANTISSA: u32 = $mantissa;
            const COUNT: usize = $count;
            fn encode($value: f32, $round: fn(f64) -> f64) -> u32 {
                $encode
            }
            fn saturated(code: u32, _value: f32) -> u32 {
                $(let code = <$format>::saturated(code as u8, _value).into();)?
                code
            }
            fn decode($code: u32) -> f32 {
                $decode
            }
        }
    )*};
}

small! {
    Fp8 8 3 8 |value, round| ocp::to_fp8(value, round).into(), |code| ocp::fp8_to_f32(code as u8),
        fp8::Fp8;
    Bf8 8 2 8 |value, round| ocp::to_bf8(value, round).into(), |code| ocp::bf8_to_f32(code as u8),
        fp8::Bf8;
    Fp4 4 1 8 |value, round| saturated(value, 4, code(value, 1, 1, round)), |code| finite(code, 4, 1, 1);
    Fp6 6 3 16 |value, round| saturated(value, 6, code(value, 3, 1, round)), |code| finite(code, 6, 3, 1);
    Bf6 6 2 16 |value, round| saturated(value, 6, code(value, 2, 3, round)), |code| finite(code, 6, 2, 3);
}

/// A format without infinities and NaNs: NaNs and values out of range become the greatest number.
fn saturated(value: f32, bits: u32, code: i32) -> u32 {
    let most = (1 << (bits - 1)) - 1;
    let magnitude = if value.is_nan() { most } else { code.min(most) };
    magnitude as u32 | u32::from(value.is_sign_negative()) << (bits - 1)
}

/// The value of a code of such a format.
fn finite(code: u32, bits: u32, mantissa_bits: u32, bias: i32) -> f32 {
    let value = magnitude((code & ((1 << (bits - 1)) - 1)) as u8, mantissa_bits, bias);
    if code >> (bits - 1) & 1 != 0 { -value } else { value }
}

/// A [`Small`], for code that all share.
pub(super) struct Narrow {
    pub bits: usize,
    pub mantissa: u32,
    pub encode: fn(f32, fn(f64) -> f64) -> u32,
    pub saturated: fn(u32, f32) -> u32,
    pub decode: fn(u32) -> f32,
}

impl Narrow {
    pub const fn of<S: Small>() -> Self {
        let (encode, saturated, decode) = (S::encode, S::saturated, S::decode);
        Narrow { bits: S::BITS, mantissa: S::MANTISSA, encode, saturated, decode }
    }
}

/// The type of the other side.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Wide {
    F32,
    F16,
    Bf16,
}

impl Wide {
    fn bits(self) -> usize {
        if self == Wide::F32 { 32 } else { 16 }
    }

    /// The value of an element's bits, the lowest of `word`.
    pub fn value(self, word: u32) -> f32 {
        match self {
            Wide::F32 => f32::from_bits(word),
            Wide::F16 => half_to_f32(word as u16),
            Wide::Bf16 => bf16_to_f32(word as u16),
        }
    }

    /// The bits of `value`.
    pub fn round(self, value: f32) -> u32 {
        match self {
            Wide::F32 => value.to_bits(),
            Wide::F16 => f32_to_half(value).into(),
            Wide::Bf16 => f32_to_bf16(value).into(),
        }
    }
}

/// The handler of an op of this module, which waves of 32 lanes alone have.
pub(super) fn handler<const L: usize>(op: Op) -> Option<Handler<L>> {
    macro_rules! pack {
        ($small:ty, $wide:ident, $chance:literal) => {
            |wave, _, op| pack(wave, op, &const { Narrow::of::<$small>() }, (Wide::$wide, <$small>::COUNT, $chance))
        };
    }
    macro_rules! unpack {
        ($small:ty, $wide:ident) => {
            |wave, _, op| unpack(wave, op, &const { Narrow::of::<$small>() }, (Wide::$wide, <$small>::COUNT))
        };
    }
    let handler: Handler<32> = match op {
        Op::VCvtScalef32Pk8Fp8F32 => pack!(Fp8, F32, false),
        Op::VCvtScalef32Pk8Fp8F16 => pack!(Fp8, F16, false),
        Op::VCvtScalef32Pk8Fp8Bf16 => pack!(Fp8, Bf16, false),
        Op::VCvtScalef32Pk8Bf8F32 => pack!(Bf8, F32, false),
        Op::VCvtScalef32Pk8Bf8F16 => pack!(Bf8, F16, false),
        Op::VCvtScalef32Pk8Bf8Bf16 => pack!(Bf8, Bf16, false),
        Op::VCvtScalef32Pk8Fp4F32 => pack!(Fp4, F32, false),
        Op::VCvtScalef32Pk8Fp4F16 => pack!(Fp4, F16, false),
        Op::VCvtScalef32Pk8Fp4Bf16 => pack!(Fp4, Bf16, false),
        Op::VCvtScalef32Pk16Fp6F32 => pack!(Fp6, F32, false),
        Op::VCvtScalef32Pk16Fp6F16 => pack!(Fp6, F16, false),
        Op::VCvtScalef32Pk16Fp6Bf16 => pack!(Fp6, Bf16, false),
        Op::VCvtScalef32Pk16Bf6F32 => pack!(Bf6, F32, false),
        Op::VCvtScalef32Pk16Bf6F16 => pack!(Bf6, F16, false),
        Op::VCvtScalef32Pk16Bf6Bf16 => pack!(Bf6, Bf16, false),
        Op::VCvtScalef32SrPk8Fp8F32 => pack!(Fp8, F32, true),
        Op::VCvtScalef32SrPk8Fp8F16 => pack!(Fp8, F16, true),
        Op::VCvtScalef32SrPk8Fp8Bf16 => pack!(Fp8, Bf16, true),
        Op::VCvtScalef32SrPk8Bf8F32 => pack!(Bf8, F32, true),
        Op::VCvtScalef32SrPk8Bf8F16 => pack!(Bf8, F16, true),
        Op::VCvtScalef32SrPk8Bf8Bf16 => pack!(Bf8, Bf16, true),
        Op::VCvtScalef32SrPk8Fp4F32 => pack!(Fp4, F32, true),
        Op::VCvtScalef32SrPk8Fp4F16 => pack!(Fp4, F16, true),
        Op::VCvtScalef32SrPk8Fp4Bf16 => pack!(Fp4, Bf16, true),
        Op::VCvtScalef32SrPk16Fp6F32 => pack!(Fp6, F32, true),
        Op::VCvtScalef32SrPk16Fp6F16 => pack!(Fp6, F16, true),
        Op::VCvtScalef32SrPk16Fp6Bf16 => pack!(Fp6, Bf16, true),
        Op::VCvtScalef32SrPk16Bf6F32 => pack!(Bf6, F32, true),
        Op::VCvtScalef32SrPk16Bf6F16 => pack!(Bf6, F16, true),
        Op::VCvtScalef32SrPk16Bf6Bf16 => pack!(Bf6, Bf16, true),
        Op::VCvtScalePk8F32Fp4 => unpack!(Fp4, F32),
        Op::VCvtScalePk8F16Fp4 => unpack!(Fp4, F16),
        Op::VCvtScalePk8Bf16Fp4 => unpack!(Fp4, Bf16),
        Op::VCvtScalePk8F32Fp8 => unpack!(Fp8, F32),
        Op::VCvtScalePk8F16Fp8 => unpack!(Fp8, F16),
        Op::VCvtScalePk8Bf16Fp8 => unpack!(Fp8, Bf16),
        Op::VCvtScalePk8F32Bf8 => unpack!(Bf8, F32),
        Op::VCvtScalePk8F16Bf8 => unpack!(Bf8, F16),
        Op::VCvtScalePk8Bf16Bf8 => unpack!(Bf8, Bf16),
        Op::VCvtScalePk16F32Fp6 => unpack!(Fp6, F32),
        Op::VCvtScalePk16F16Fp6 => unpack!(Fp6, F16),
        Op::VCvtScalePk16Bf16Fp6 => unpack!(Fp6, Bf16),
        Op::VCvtScalePk16F32Bf6 => unpack!(Bf6, F32),
        Op::VCvtScalePk16F16Bf6 => unpack!(Bf6, F16),
        Op::VCvtScalePk16Bf16Bf6 => unpack!(Bf6, Bf16),
        _ => return None,
    };
    of_lanes(handler)
}

/// The scale is the exponent of an f32, the last source; before it may come random bits, sixteen for each element.
fn pack<const L: usize>(
    wave: &mut Wave<L>,
    op: &MicroOp<L>,
    small: &Narrow,
    (wide, count, chance): (Wide, usize, bool),
) -> Step {
    if op.src[0].kind != SrcKind::Vgpr {
        return unimplemented("a scaled conversion with operands outside of vector registers".to_owned());
    }
    let mut rows = [Row::<L>::ZERO; 3];
    for lane in 0..L {
        let exponent = wave.lane(&op.src[if chance { 2 } else { 1 }], lane) >> 23 & 0xff;
        let factor = if exponent == 0xff { f64::NAN } else { pow2(127 - exponent as i32) };
        let mut random = if chance { wave.lane(&op.src[1], lane) } else { 0 };
        for i in 0..count {
            let at = i * wide.bits();
            let value = wide.value(wave.v[op.src[0].reg as usize + at / 32].0[lane] >> (at % 32));
            let value = (f64::from(value) * factor) as f32;
            let code = if chance {
                (small.encode)(by_chance(value, random >> (16 * (i % 2)) << 16, 23 - small.mantissa), f64::trunc)
            } else {
                (small.encode)(value, f64::round_ties_even)
            };
            let code = if wave.saturates { (small.saturated)(code, value) } else { code };
            if i % 2 == 1 {
                random = prng(random);
            }
            let (dword, shift) = (i * small.bits / 32, i * small.bits % 32);
            rows[dword].0[lane] |= code << shift;
            if shift + small.bits > 32 {
                rows[dword + 1].0[lane] |= code >> (32 - shift);
            }
        }
    }
    for (n, row) in rows[..count * small.bits / 32].iter().enumerate() {
        wave.put(op.dst as usize + n, row);
    }
    Ok(())
}

/// The byte of a scale, an exponent, that `lane` takes, and the lane it takes it from, as `scale_sel` says (MLIR's
/// `getScaleSel`): lanes 16 apart share a dword of scales, one of the lower or of the upper half of the wave. Both take
/// the same byte of it with formats of eight bits, and bytes side by side with others. Other values of `select`,
/// for blocks of 16 elements, are left out, because the sources differ.
fn scale_at(bits: usize, select: u8, lane: usize) -> Option<(usize, u32)> {
    match (bits, select) {
        (8, 0..16) if select.is_multiple_of(2) => {
            Some((usize::from(select >> 3) * 16 + lane % 16, u32::from(select >> 1 & 3)))
        }
        (4 | 6, 0 | 2 | 4 | 6) => {
            Some((usize::from(select >> 2) * 16 + lane % 16, u32::from(select & 2) + (lane / 16 % 2) as u32))
        }
        _ => None,
    }
}

/// Elements times the power of two that their scale is; 255 is NaN.
fn unpack<const L: usize>(wave: &mut Wave<L>, op: &MicroOp<L>, small: &Narrow, (wide, count): (Wide, usize)) -> Step {
    if op.src[0].kind != SrcKind::Vgpr {
        return unimplemented("a scaled conversion with operands outside of vector registers".to_owned());
    }
    let mut rows = [Row::<L>::ZERO; 16];
    for lane in 0..L {
        let Some((from, byte)) = scale_at(small.bits, op.op_sel, lane) else {
            return unimplemented(format!("scale_sel:{} of elements of {} bits", op.op_sel, small.bits));
        };
        let exponent = wave.lane(&op.src[1], from) >> (8 * byte) & 0xff;
        let factor = if exponent == 0xff { f64::NAN } else { pow2(exponent as i32 - 127) };
        for i in 0..count {
            let (dword, shift) = (i * small.bits / 32, i * small.bits % 32);
            let word = |n: usize| u64::from(wave.v[op.src[0].reg as usize + n].0[lane]);
            let beyond = if shift + small.bits > 32 { word(dword + 1) << 32 } else { 0 };
            let value = (small.decode)(((word(dword) | beyond) >> shift) as u32);
            let bits = wide.round((f64::from(value) * factor) as f32);
            rows[i * wide.bits() / 32].0[lane] |= bits << (i * wide.bits() % 32);
        }
    }
    for (n, row) in rows[..count * wide.bits() / 32].iter().enumerate() {
        wave.put(op.dst as usize + n, row);
    }
    Ok(())
}

fn unimplemented(what: String) -> Step {
    Err(Stop::Fault(Box::new(FaultKind::NotImplemented(what))))
}
