// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Float arithmetic of the vector unit that Rust has no operator for.
//!
//! Everything is free of branches where it matters, so that loops over lanes vectorise. Transcendental functions are
//! computed in f64 and rounded once: within 1 ulp of f32, at least as good as the hardware's.

/// The f32 with the value of an f16.
#[inline(always)]
pub(crate) fn half_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let sign = u32::from(bits & 0x8000) << 16;
    // 2^112 moves the exponent bias from 15 to 127 and normalises denormals.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = (magnitude >> 23) == 0x1f;
    let value = if special { magnitude | 0x7f80_0000 } else { scaled.to_bits() };
    f32::from_bits(value | sign)
}

/// The f16 nearest to `value` (ties to even).
#[inline(always)]
pub(crate) fn f32_to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Denormal results: let the f32 adder round at 2^-24.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
    let infinite = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13) & 0x3ff } else { 0x7c00 };
    let result = if magnitude >= 0x477f_f000 {
        infinite
    } else if magnitude < 0x3880_0000 {
        denormal
    } else {
        normal
    };
    (result | sign) as u16
}

/// The f32 that rounds to the same f16 as `value` does: truncated, with the lowest bit set if inexact ("round to odd").
#[inline(always)]
pub(crate) fn f64_to_f32_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    let toward_zero = if back.abs() > value.abs() { bits.wrapping_sub(1) } else { bits };
    let odd = if back != value && !value.is_nan() { toward_zero | 1 } else { bits };
    f32::from_bits(odd)
}

/// f16 rounded toward zero.
#[inline(always)]
pub(crate) fn f32_to_half_rtz(value: f32) -> u16 {
    let nearest = f32_to_half(value);
    let overshoot = half_to_f32(nearest).abs() > value.abs();
    if overshoot { nearest - 1 } else { nearest }
}

/// The f32 of a bfloat16.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bfloat16 nearest to `value` (ties to even).
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// 2^n for `-1022 <= n <= 1023`.
#[inline(always)]
pub(crate) fn pow2(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// Nearest integer of a small `x`, as float and integer.
#[inline(always)]
fn nearest(x: f64) -> (f64, i32) {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52: the sum's low bits are the integer.
    let shifted = x + MAGIC;
    (shifted - MAGIC, shifted.to_bits() as i32)
}

/// 2^x.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    let clamped = f64::from(x).clamp(-200.0, 200.0);
    let (whole, n) = nearest(clamped);
    let t = (clamped - whole) * std::f64::consts::LN_2;
    // Taylor series: |t| < 0.35, the first term left out is below 2^-43.
    let mut p = 1.0 / 3_628_800.0;
    p = p * t + 1.0 / 362_880.0;
    p = p * t + 1.0 / 40_320.0;
    p = p * t + 1.0 / 5_040.0;
    p = p * t + 1.0 / 720.0;
    p = p * t + 1.0 / 120.0;
    p = p * t + 1.0 / 24.0;
    p = p * t + 1.0 / 6.0;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    let result = (p * pow2(n)) as f32;
    if x.is_nan() { x } else { result }
}

/// log2(x).
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    // In f64 no f32 is denormal.
    let bits = f64::from(x).to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    let upper = mantissa > std::f64::consts::SQRT_2;
    let m = if upper { mantissa * 0.5 } else { mantissa };
    let e = f64::from(exponent + i32::from(upper));
    // log(m) = 2 atanh(s), |s| < 0.172: the first term left out is below 2^-45.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    let result = (e + 2.0 * std::f64::consts::LOG2_E * s * p) as f32;
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 {
        f32::NAN
    } else if x.is_nan() || x == f32::INFINITY {
        x
    } else {
        result
    }
}

/// tanh(x).
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    f64::from(x).tanh() as f32
}

/// 1 / x.
#[inline(always)]
pub(crate) fn recip(x: f32) -> f32 {
    1.0 / x
}

/// 1 / √x.
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// `f` as the transcendental unit computes it for f32: denormals are flushed on both sides, whatever MODE says (RDNA3
/// ISA, V_EXP_F32 and its like; LLVM scales around them where denormals matter).
#[inline(always)]
pub(crate) fn flushing(x: f32, f: impl Fn(f32) -> f32) -> f32 {
    let flush = |x: f32| if x.abs() < f32::MIN_POSITIVE { x * 0.0 } else { x };
    flush(f(flush(x)))
}

/// sin(2πx): the hardware's unit is the revolution. A zero has the sign of `x`.
#[inline(always)]
pub(crate) fn sin_turns(x: f32) -> f32 {
    let sine = turns(f64::from(x.abs()));
    if x.is_sign_negative() { -sine } else { sine }
}

/// cos(2πx).
#[inline(always)]
pub(crate) fn cos_turns(x: f32) -> f32 {
    // A quarter would be lost in a large number.
    let x = f64::from(x);
    turns(x - x.round_ties_even() + 0.25)
}

#[inline(always)]
fn turns(x: f64) -> f32 {
    // To [-1/2, 1/2], then by symmetry to [-1/4, 1/4].
    let r = x - x.round_ties_even();
    let folded = if r > 0.25 {
        0.5 - r
    } else if r < -0.25 {
        -0.5 - r
    } else {
        r
    };
    let t = folded * std::f64::consts::TAU;
    let z = t * t;
    // Taylor series up to t^15, |t| <= pi/2.
    let mut p = -1.0 / 1_307_674_368_000.0;
    p = p * z + 1.0 / 6_227_020_800.0;
    p = p * z - 1.0 / 39_916_800.0;
    p = p * z + 1.0 / 362_880.0;
    p = p * z - 1.0 / 5_040.0;
    p = p * z + 1.0 / 120.0;
    p = p * z - 1.0 / 6.0;
    p = p * z + 1.0;
    (t * p) as f32
}

/// x · 2^n, rounded once.
#[inline(always)]
pub(crate) fn ldexp32(x: f32, n: i32) -> f32 {
    (f64::from(x) * pow2(n.clamp(-400, 400))) as f32
}

/// The bits of 2/π after the point, from the highest on: 1201 of them (RDNA4 ISA, V_TRIG_PREOP_F64).
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_0000,
];

/// The `segment`th 53 bits of 2/π; later ones for an `x` so large that the first would only make whole turns (RDNA4
/// ISA, V_TRIG_PREOP_F64). Denormals are cut off.
pub(crate) fn trig_preop(x: f64, segment: i32) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as usize;
    let shift = (segment as usize & 31) * 53 + exponent.saturating_sub(1077);
    let word = |n: usize| u128::from(TWO_OVER_PI.get(n).copied().unwrap_or_default());
    let bits = (word(shift / 64) << 64 | word(shift / 64 + 1)) << (shift % 64) >> 75;
    let scale = -53 - shift as i32 + if exponent >= 1968 { 128 } else { 0 };
    let lost = (-1074 - scale).clamp(0, 63);
    ldexp64((bits >> lost) as f64, scale + lost)
}

/// x · 2^n, rounded once.
pub(crate) fn ldexp64(x: f64, n: i32) -> f64 {
    let mut n = n.clamp(-2200, 2200);
    let mut x = x;
    while n > 1023 {
        x *= pow2(1023);
        n -= 1023;
    }
    // Keep 53 bits of room above the denormals until the last, rounding, step.
    while n < -1022 {
        x *= pow2(-1022 + 53);
        n += 1022 - 53;
    }
    x * pow2(n)
}

/// Mantissa in [1/2, 1) and exponent of a float, as `frexp`; other values give themselves and 0.
#[inline(always)]
pub(crate) fn frexp64(x: f64) -> (f64, i32) {
    let denormal = x.abs() < f64::MIN_POSITIVE;
    let normal = if denormal { x * pow2(54) } else { x };
    let bits = normal.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022 - if denormal { 54 } else { 0 };
    let mantissa = f64::from_bits(bits & 0x800f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000);
    if x == 0.0 || !x.is_finite() { (x, 0) } else { (mantissa, exponent) }
}

/// The part above the next lower integer, below 1 even after rounding.
#[inline(always)]
pub(crate) fn fract32(x: f32) -> f32 {
    let part = x - x.floor();
    if part >= 1.0 { f32::from_bits(0x3f7f_ffff) } else { part }
}

macro_rules! min_max {
    ($min:ident, $max:ident, $float:ty) => {
        /// The lesser; a number rather than NaN; -0 below +0.
        #[inline(always)]
        pub(crate) fn $min(a: $float, b: $float) -> $float {
            let ordered = if a < b {
                a
            } else if b < a {
                b
            } else {
                <$float>::from_bits(a.to_bits() | b.to_bits())
            };
            if a.is_nan() {
                b
            } else if b.is_nan() {
                a
            } else {
                ordered
            }
        }

        /// The greater; a number rather than NaN; +0 above -0.
        #[inline(always)]
        pub(crate) fn $max(a: $float, b: $float) -> $float {
            let ordered = if a > b {
                a
            } else if b > a {
                b
            } else {
                <$float>::from_bits(a.to_bits() & b.to_bits())
            };
            if a.is_nan() {
                b
            } else if b.is_nan() {
                a
            } else {
                ordered
            }
        }
    };
}

min_max!(min32, max32, f32);
min_max!(min64, max64, f64);

macro_rules! minimum_maximum {
    ($minimum:ident, $maximum:ident, $min:ident, $max:ident, $float:ty) => {
        /// The lesser; NaN if one is.
        #[inline(always)]
        pub(crate) fn $minimum(a: $float, b: $float) -> $float {
            if a.is_nan() || b.is_nan() { a + b } else { $min(a, b) }
        }

        /// The greater; NaN if one is.
        #[inline(always)]
        pub(crate) fn $maximum(a: $float, b: $float) -> $float {
            if a.is_nan() || b.is_nan() { a + b } else { $max(a, b) }
        }
    };
}

minimum_maximum!(minimum32, maximum32, min32, max32, f32);
minimum_maximum!(minimum64, maximum64, min64, max64, f64);

macro_rules! division {
    ($scale:ident, $fixup:ident, $class:ident, $float:ty, $bits:ty, $mantissa:literal, $mask:literal, $step:literal, $far:literal,
     $tiny:literal, $lost:literal, $ldexp:path) => {
        #[inline(always)]
        fn $class(x: $float) -> i32 {
            ((x.to_bits() >> $mantissa) & $mask) as i32
        }

        /// `v_div_scale`: operand `s0` scaled so that `s2 / s1` can be refined without overflow or loss, and whether
        /// the quotient must be scaled back by `v_div_fmas` (RDNA3 ISA, V_DIV_SCALE; docs/sim/numerics.md).
        pub(crate) fn $scale(s0: $float, s1: $float, s2: $float) -> ($float, bool) {
            let up = $ldexp(s0, $step);
            // By the exponents alone, as hardware's results show.
            let may_be_denormal = $class(s2) - $class(s1) <= 1 - $mask / 2;
            let quotient_denormal = may_be_denormal || (s2 / s1).is_subnormal();
            let reciprocal_denormal = (1.0 / s1).is_subnormal();
            if s1 == 0.0 || s2 == 0.0 {
                (<$float>::NAN, true)
            } else if $class(s2) - $class(s1) >= $far {
                (if s0 == s1 { up } else { s0 }, true)
            } else if s1.is_subnormal() {
                (up, false)
            } else if reciprocal_denormal && quotient_denormal {
                // The document prints the opposite sign; only this one keeps the denominator finite.
                (if s0 == s1 { $ldexp(s0, -$step) } else { s0 }, true)
            } else if reciprocal_denormal {
                ($ldexp(s0, -$step), false)
            } else if quotient_denormal {
                (if s0 == s2 { up } else { s0 }, true)
            } else if $class(s2) <= $tiny {
                (up, false)
            } else {
                (s0, false)
            }
        }

        /// `v_div_fixup`: quotient `s0` of `s2 / s1`, with the special cases put right (RDNA3 ISA, V_DIV_FIXUP).
        #[inline(always)]
        pub(crate) fn $fixup(s0: $float, s1: $float, s2: $float) -> $float {
            let sign = <$float>::from_bits((s1.to_bits() ^ s2.to_bits()) & !(<$bits>::MAX >> 1));
            let magnitude = if s1 == 0.0 && s2 == 0.0 || s1.is_infinite() && s2.is_infinite() {
                return -<$float>::NAN;
            } else if s1 == 0.0 || s2.is_infinite() {
                <$float>::INFINITY
            } else if s1.is_infinite() || s2 == 0.0 {
                0.0
            } else if $class(s2) - $class(s1) < -$lost {
                0.0
            } else if s0.is_nan() {
                // The refinement overflowed; this is hardware's result, though not in the document.
                <$float>::INFINITY
            } else {
                s0.abs()
            };
            if s2.is_nan() {
                s2 + 0.0
            } else if s1.is_nan() {
                s1 + 0.0
            } else {
                magnitude.copysign(sign)
            }
        }
    };
}

division!(div_scale32, div_fixup32, exponent32, f32, u32, 23, 0xff, 64, 96, 23, 150, ldexp32);
division!(div_scale64, div_fixup64, exponent64, f64, u64, 52, 0x7ff, 128, 768, 53, 1075, ldexp64);

/// `v_div_fmas_f32`: fused multiply-add, then the scale that `v_div_scale_f32` asked for.
#[inline(always)]
pub(crate) fn div_fmas32(s0: f32, s1: f32, s2: f32, scaled: bool) -> f32 {
    let product = s0.mul_add(s1, s2);
    let step = if exponent32(s2) > 127 { 64 } else { -64 };
    if scaled { ldexp32(product, step) } else { product }
}

/// `v_div_fmas_f64`.
#[inline(always)]
pub(crate) fn div_fmas64(s0: f64, s1: f64, s2: f64, scaled: bool) -> f64 {
    let product = s0.mul_add(s1, s2);
    let step = if exponent64(s2) > 1023 { 128 } else { -128 };
    if scaled { ldexp64(product, step) } else { product }
}

/// The class of a float as a bit of `v_cmp_class`: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0,
/// +denormal, +normal, +inf.
#[inline(always)]
pub(crate) fn class_bit(sign: bool, exponent: u64, exponent_max: u64, mantissa: u64, quiet: u64) -> u32 {
    if exponent == exponent_max && mantissa != 0 {
        return if mantissa & quiet != 0 { 1 << 1 } else { 1 };
    }
    let distance = if exponent == exponent_max {
        3
    } else if exponent != 0 {
        2
    } else if mantissa != 0 {
        1
    } else {
        0
    };
    if sign { 1 << (5 - distance) } else { 1 << (6 + distance) }
}
