// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Float arithmetic against exact references.

use super::float::*;
use super::half::fma16;
use super::valu::F16;

/// A generator of bit patterns (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// The value of an f16 by its definition.
fn half_value(bits: u16) -> f64 {
    let exponent = i32::from(bits >> 10 & 0x1f);
    let mantissa = f64::from(bits & 0x3ff);
    let magnitude = match exponent {
        0x1f if mantissa != 0.0 => f64::NAN,
        0x1f => f64::INFINITY,
        0 => mantissa * 2f64.powi(-24),
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 != 0 { -magnitude } else { magnitude }
}

/// The f16 nearest to an exact value, found by bisection over all of them.
fn half_nearest(value: f64) -> u16 {
    if value.is_nan() {
        return 0x7e00;
    }
    let magnitude = value.abs();
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    // The largest f16 that is not above; 65536 stands in for infinity.
    let ladder = |bits: u16| if bits == 0x7c00 { 65536.0 } else { half_value(bits) };
    let (mut low, mut high) = (0u16, 0x7c01u16);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if ladder(middle) <= magnitude { low = middle } else { high = middle }
    }
    if low == 0x7c00 {
        return sign | low;
    }
    let (below, above) = (magnitude - ladder(low), ladder(low + 1) - magnitude);
    sign | if below < above || below == above && low % 2 == 0 { low } else { low + 1 }
}

#[test]
fn every_half_converts_both_ways() {
    for bits in 0..=u16::MAX {
        let value = half_to_f32(bits);
        let exact = half_value(bits);
        assert!(f64::from(value).to_bits() == exact.to_bits() || value.is_nan() && exact.is_nan(), "{bits:#x}");
        if !value.is_nan() {
            assert_eq!(f32_to_half(value), bits);
            assert_eq!(f32_to_half_rtz(value), bits);
        }
    }
}

#[test]
fn floats_round_to_the_nearest_half() {
    let mut random = Random(1);
    for bits in (0..=u16::MAX).filter(|bits| bits & 0x7fff < 0x7c00) {
        // On, just below and just above the tie with the next one, and at random between.
        let tie = f32::midpoint(half_to_f32(bits), half_to_f32(bits + 1).clamp(-65536.0, 65536.0));
        for value in [tie, tie.next_up(), tie.next_down(), tie * (1.0 + (random.next() % 512) as f32 / 1_048_576.0)] {
            assert_eq!(f32_to_half(value), half_nearest(f64::from(value)), "{value:e}");
            let truncated = f32_to_half_rtz(value);
            let (kept, next) = (half_value(truncated).abs(), half_value(truncated + 1).abs());
            assert!(kept <= f64::from(value.abs()) && f64::from(value.abs()) < next, "{value:e}");
        }
    }
    assert_eq!(f32_to_half(f32::MAX), 0x7c00);
    assert_eq!(f32_to_half(f32::NEG_INFINITY), 0xfc00);
    assert!(half_to_f32(f32_to_half(f32::NAN)).is_nan());
}

#[test]
fn half_multiply_adds_round_once() {
    let mut random = Random(2);
    for _ in 0..300_000 {
        let bits = random.next();
        let [a, b, c] = [bits as u16, (bits >> 16) as u16, (bits >> 32) as u16].map(|x| F16(half_to_f32(x)));
        let (x, y, z) = (f64::from(a.0), f64::from(b.0), f64::from(c.0));
        // Two-sum: the product is exact, `sum + error` is the exact result.
        let product = x * y;
        let sum = product + z;
        let shadow = sum - product;
        let error = (product - (sum - shadow)) + (z - shadow);
        let nudged = if error > 0.0 {
            sum.next_up()
        } else if error < 0.0 {
            sum.next_down()
        } else {
            sum
        };
        let found = f32_to_half(fma16(a, b, c).0);
        // A tie that the f64 sum only seems to be is broken by the error.
        let expected = if sum.is_finite() { half_nearest(nudged) } else { half_nearest(sum) };
        assert!(found == expected || half_value(found).is_nan() && half_value(expected).is_nan(), "{x} * {y} + {z}");
    }
}

fn ulps(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if found == nearest || found.is_nan() && nearest.is_nan() {
        return 0.0;
    }
    let unit = f64::from(nearest.abs().next_up()) - f64::from(nearest.abs());
    (f64::from(found) - exact).abs() / unit
}

#[test]
fn transcendental_functions_are_within_one_unit() {
    let mut random = Random(3);
    for _ in 0..200_000 {
        let bits = random.next();
        let any = f32::from_bits(bits as u32);
        assert!(ulps(exp2(any), f64::from(any).exp2()) < 0.51, "2^{any:e}");
        assert!(ulps(log2(any), f64::from(any).log2()) < 0.51, "log2 {any:e}");
        let small = (bits >> 40) as f32 / (1 << 20) as f32 - 8.0;
        assert!(ulps(exp2(small), f64::from(small).exp2()) < 0.51, "2^{small:e}");
        let near_one = 1.0 + small / 16.0;
        assert!(ulps(log2(near_one), f64::from(near_one).log2()) < 0.51, "log2 {near_one:e}");
        // Turns are reduced exactly, then the reference is good.
        let turn = f64::from(small) - f64::from(small).round();
        let (sine, cosine) = (turn * std::f64::consts::TAU).sin_cos();
        assert!((f64::from(sin_turns(small)) - sine).abs() < 1e-7 * sine.abs() + 1e-15, "sin {small:e}");
        assert!((f64::from(cos_turns(small)) - cosine).abs() < 1e-7 * cosine.abs() + 1e-15, "cos {small:e}");
    }
    assert_eq!((exp2(f32::INFINITY), exp2(f32::NEG_INFINITY)), (f32::INFINITY, 0.0));
    assert_eq!((log2(0.0), log2(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
    assert!(exp2(f32::NAN).is_nan() && log2(-1.0).is_nan() && log2(f32::NAN).is_nan());
    assert!(sin_turns(f32::INFINITY).is_nan());
}

#[test]
fn scaling_rounds_once() {
    let mut random = Random(4);
    for _ in 0..100_000 {
        let bits = random.next();
        let (x, n) = (f64::from_bits(bits), (random.next() % 4400) as i32 - 2200);
        let (mantissa, exponent) = frexp64(x);
        if x.is_finite() && x != 0.0 {
            assert!((0.5..1.0).contains(&mantissa.abs()), "{x:e}");
            assert_eq!(ldexp64(mantissa, exponent), x);
        }
        let small = f32::from_bits(bits as u32);
        let m = n % 300;
        assert_eq!(ldexp32(small, m).to_bits(), ((f64::from(small) * 2f64.powi(m)) as f32).to_bits());
    }
    // 3 · 2^-1075 is a tie between 2^-1074 and 2^-1073 when rounded once.
    assert_eq!(ldexp64(3.0, -1075).to_bits(), 2);
    assert_eq!(ldexp64(1.0, -1075).to_bits(), 0);
    assert_eq!(ldexp64(f64::from_bits(1), 2097), 2f64.powi(1023));
}

/// The sequence that LLVM makes of an f32 division.
fn divide32(n: f32, d: f32) -> f32 {
    let (dd, _) = div_scale32(d, d, n);
    let (nn, scaled) = div_scale32(n, d, n);
    let r = 1.0 / dd;
    let e = (-dd).mul_add(r, 1.0);
    let r = e.mul_add(r, r);
    let q = nn * r;
    let e = (-dd).mul_add(q, nn);
    let q = e.mul_add(r, q);
    let e = (-dd).mul_add(q, nn);
    div_fixup32(div_fmas32(e, r, q, scaled), d, n)
}

/// The sequence that LLVM makes of an f64 division.
fn divide64(n: f64, d: f64) -> f64 {
    let (dd, _) = div_scale64(d, d, n);
    let (nn, scaled) = div_scale64(n, d, n);
    let r = 1.0 / dd;
    let r = (-dd).mul_add(r, 1.0).mul_add(r, r);
    let r = (-dd).mul_add(r, 1.0).mul_add(r, r);
    let q = nn * r;
    let e = (-dd).mul_add(q, nn);
    div_fixup64(div_fmas64(e, r, q, scaled), d, n)
}

#[test]
fn division_sequences_divide() {
    let mut random = Random(5);
    let special32 = [0.0, -0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, 3e38, f32::INFINITY, f32::NAN, -7.0];
    let mut pairs: Vec<(f32, f32)> = special32.iter().flat_map(|&n| special32.map(|d| (n, d))).collect();
    pairs.extend((0..300_000).map(|_| {
        let bits = random.next();
        (f32::from_bits(bits as u32), f32::from_bits((bits >> 32) as u32))
    }));
    for (n, d) in pairs {
        let (found, exact) = (divide32(n, d), n / d);
        // A denormal quotient is rounded a second time when it is scaled back.
        let off = found.to_bits().abs_diff(exact.to_bits());
        let tolerance = u32::from(exact.is_subnormal() || found.is_subnormal());
        assert!(off <= tolerance || found.is_nan() && exact.is_nan(), "{n:e} / {d:e}: {found:e}, not {exact:e}");
    }
    for _ in 0..300_000 {
        let (n, d) = (f64::from_bits(random.next()), f64::from_bits(random.next()));
        let (found, exact) = (divide64(n, d), n / d);
        let off = found.to_bits().abs_diff(exact.to_bits());
        let tolerance = u64::from(exact.is_subnormal() || found.is_subnormal());
        assert!(off <= tolerance || found.is_nan() && exact.is_nan(), "{n:e} / {d:e}: {found:e}, not {exact:e}");
    }
}
