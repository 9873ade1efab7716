// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Floats of all widths by way of f64, in plain code: the yardstick, not the thing measured.

/// A float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub width: u32,
    pub mantissa: u32,
}

pub const F16: Format = Format { width: 16, mantissa: 10 };
pub const BF16: Format = Format { width: 16, mantissa: 7 };
pub const F32: Format = Format { width: 32, mantissa: 23 };
pub const F64: Format = Format { width: 64, mantissa: 52 };

impl Format {
    pub fn sign(self) -> u64 {
        1 << (self.width - 1)
    }

    pub fn exponent_bits(self) -> u32 {
        self.width - 1 - self.mantissa
    }

    pub fn bias(self) -> i32 {
        (1 << (self.exponent_bits() - 1)) - 1
    }

    pub fn infinity(self) -> u64 {
        ((1 << self.exponent_bits()) - 1) << self.mantissa
    }

    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// The biased exponent.
    pub fn exponent(self, bits: u64) -> i32 {
        (bits >> self.mantissa) as i32 & ((1 << self.exponent_bits()) - 1)
    }

    pub fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    pub fn is_signaling(self, bits: u64) -> bool {
        self.is_nan(bits) && bits >> (self.mantissa - 1) & 1 == 0
    }

    pub fn is_denormal(self, bits: u64) -> bool {
        self.exponent(bits) == 0 && bits & (self.sign() - 1) != 0
    }

    pub fn quiet(self, bits: u64) -> u64 {
        bits | 1 << (self.mantissa - 1)
    }

    /// The value, exactly.
    pub fn get(self, bits: u64) -> f64 {
        let bits = bits & self.mask();
        match self.width {
            64 => f64::from_bits(bits),
            32 => f64::from(f32::from_bits(bits as u32)),
            _ => {
                let fraction = (bits & ((1 << self.mantissa) - 1)) as f64;
                let exponent = self.exponent(bits);
                let scale = |e: i32| 2f64.powi(e - self.bias() - self.mantissa as i32);
                let magnitude = if self.is_nan(bits) {
                    f64::NAN
                } else if bits & (self.sign() - 1) == self.infinity() {
                    f64::INFINITY
                } else if exponent == 0 {
                    fraction * scale(1)
                } else {
                    (fraction + 2f64.powi(self.mantissa as i32)) * scale(exponent)
                };
                if bits & self.sign() != 0 { -magnitude } else { magnitude }
            }
        }
    }

    /// The nearest float, ties to even.
    pub fn round(self, value: f64) -> u64 {
        self.fit(value, |x| {
            let down = x.floor();
            let odd = down % 2.0 != 0.0;
            if x - down > 0.5 || x - down == 0.5 && odd { down + 1.0 } else { down }
        })
    }

    /// The next float toward zero.
    pub fn truncate(self, value: f64) -> u64 {
        self.fit(value, f64::floor)
    }

    /// Rounds the magnitude, scaled so that the last mantissa bit is 1, with `rounding`.
    fn fit(self, value: f64, rounding: impl Fn(f64) -> f64) -> u64 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        if value.is_nan() {
            return self.quiet(self.infinity());
        }
        if self.width == 64 || value.is_infinite() {
            return if self.width == 64 { value.to_bits() } else { sign | self.infinity() };
        }
        let magnitude = value.abs();
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias());
        let unit = 2f64.powi(exponent - self.mantissa as i32);
        let steps = rounding(magnitude / unit) as u64;
        // A carry out of the mantissa moves into the exponent, as it should.
        let bits = steps + (((exponent - 1 + self.bias()) as u64) << self.mantissa);
        if bits < self.infinity() {
            return sign | bits;
        }
        let overflow = rounding(1.75) == 2.0;
        sign | if overflow { self.infinity() } else { self.infinity() - 1 }
    }
}

/// `a * b + c`, rounded once.
pub fn fma(format: Format, a: u64, b: u64, c: u64) -> u64 {
    match format.width {
        64 => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
        32 => {
            let get = |x: u64| f32::from_bits(x as u32);
            u64::from(get(a).mul_add(get(b), get(c)).to_bits())
        }
        _ => format.round(add_odd(format.get(a) * format.get(b), format.get(c))),
    }
}

/// The sum, with its last bit set if it is not exact: rounding it again is then the same as rounding the exact sum.
pub fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || sum.to_bits() & 1 != 0 {
        return sum;
    }
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { sum.to_bits() | 1 } else { sum.to_bits() - 1 })
}

/// `value * 2^n`, rounded once.
pub fn ldexp(format: Format, bits: u64, n: i32) -> u64 {
    let value = format.get(bits);
    if format.width < 64 {
        return format.round(value * 2f64.powi(n.clamp(-400, 400)));
    }
    if value == 0.0 || !value.is_finite() {
        return value.to_bits();
    }
    let sign = bits & F64.sign();
    let normal = if format.is_denormal(bits) { value.abs() * 2f64.powi(60) } else { value.abs() };
    let shift = if format.is_denormal(bits) { 60 } else { 0 };
    let mantissa = normal.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let exponent = (normal.to_bits() >> 52) as i32 - shift + n.clamp(-5000, 5000);
    if exponent >= 2047 {
        return sign | F64.infinity();
    }
    if exponent >= 1 {
        return sign | (exponent as u64) << 52 | mantissa & ((1 << 52) - 1);
    }
    let drop = (1 - exponent).min(60) as u32;
    let (kept, rest, half) = (mantissa >> drop, mantissa & ((1 << drop) - 1), 1u64 << (drop - 1));
    sign | (kept + u64::from(rest > half || rest == half && kept & 1 != 0))
}

/// The smaller (`least`) or larger of two: IEEE mode quiets signaling NaNs, a quiet NaN loses, -0 is below +0.
pub fn extremum(format: Format, a: u64, b: u64, least: bool, ieee: bool) -> u64 {
    let (x, y) = (format.get(a), format.get(b));
    if ieee && format.is_signaling(a) {
        return format.quiet(a);
    }
    if ieee && format.is_signaling(b) {
        return format.quiet(b);
    }
    if format.is_nan(b) {
        return a;
    }
    if format.is_nan(a) {
        return b;
    }
    let below = x < y || x == y && a & format.sign() != 0;
    if below == least { a } else { b }
}

/// The middle one; with a NaN among them the least.
pub fn median(format: Format, a: u64, b: u64, c: u64, ieee: bool) -> u64 {
    let pick = |a, b, least| extremum(format, a, b, least, ieee);
    if [a, b, c].iter().any(|x| format.is_nan(*x)) {
        return pick(pick(a, b, true), c, true);
    }
    pick(pick(a, b, true), pick(pick(a, b, false), c, true), false)
}

/// A float as an integer of the given range: toward zero, out of range to the end of it, NaN to 0.
pub fn to_integer(value: f64, least: i64, most: i64) -> i64 {
    if value.is_nan() { 0 } else { value.trunc().clamp(least as f64, most as f64) as i64 }
}

/// `v_cmp_class` bit of a float (RDNA3 ISA, V_CMP_CLASS_F32).
pub fn class(format: Format, bits: u64) -> u32 {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    let kind = |if_negative: u32, if_positive: u32| if negative { if_negative } else { if_positive };
    let at = if format.is_signaling(bits) {
        0
    } else if format.is_nan(bits) {
        1
    } else if magnitude == format.infinity() {
        kind(2, 9)
    } else if magnitude == 0 {
        kind(5, 6)
    } else if format.is_denormal(bits) {
        kind(4, 7)
    } else {
        kind(3, 8)
    };
    1 << at
}

/// Clamped to 0..1, NaN to 0 (DX10_CLAMP).
pub fn clamp(format: Format, bits: u64) -> u64 {
    let value = format.get(bits);
    if value.is_nan() || value <= 0.0 {
        0
    } else if value > 1.0 {
        format.round(1.0)
    } else {
        bits
    }
}

/// 2/π in digits of 24 bits after the point.
const TWO_OVER_PI: [u32; 51] = [
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163, 0xabdebb, 0xc561b7,
    0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5, 0x2ebb44, 0x84e99c,
    0x7026b4, 0x5f7e41, 0x3991d6, 0x398353, 0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8, 0x97ffde, 0x05980f, 0xef2f11,
    0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d, 0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7,
    0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08, 0x560330, 0x46fc7b, 0x000000,
];

/// 53 bits of 2/π for the reduction of `x`, scaled up for the largest; bits too small for a double are lost (RDNA4
/// ISA, V_TRIG_PREOP_F64).
pub fn two_over_pi(x: u64, segment: usize) -> u64 {
    let exponent = x >> 52 & 0x7ff;
    let first = 53 * segment + exponent.saturating_sub(1077) as usize;
    let scale = if exponent >= 1968 { 128 } else { 0 };
    let bits = (first..first + 53)
        .filter(|at| TWO_OVER_PI.get(at / 24).is_some_and(|digit| digit << (at % 24) >> 23 & 1 != 0));
    let power = |exponent: i32| match exponent {
        -1022.. => f64::from_bits(((exponent + 1023) as u64) << 52),
        -1074.. => f64::from_bits(1 << (exponent + 1074)),
        _ => 0.0,
    };
    bits.map(|at| power(scale - 1 - at as i32)).sum::<f64>().to_bits()
}
