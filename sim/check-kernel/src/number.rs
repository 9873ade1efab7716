// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Types of numbers in arguments and buffers: parsing, formatting and comparison.

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Signed, 1 byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// Unsigned, 1 byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Type {
    /// Each type with its name, its size in bytes and NumPy's name for it. NumPy has no bf16; its bits are `<u2` there.
    const ALL: [(&'static str, Self, usize, &'static str); 12] = [
        ("i8", Self::I8, 1, "|i1"),
        ("i16", Self::I16, 2, "<i2"),
        ("i32", Self::I32, 4, "<i4"),
        ("i64", Self::I64, 8, "<i8"),
        ("u8", Self::U8, 1, "|u1"),
        ("u16", Self::U16, 2, "<u2"),
        ("u32", Self::U32, 4, "<u4"),
        ("u64", Self::U64, 8, "<u8"),
        ("f16", Self::F16, 2, "<f2"),
        ("bf16", Self::Bf16, 2, "<u2"),
        ("f32", Self::F32, 4, "<f4"),
        ("f64", Self::F64, 8, "<f8"),
    ];

    /// Returns the type of this name, with the name.
    pub fn named(name: &str) -> Option<(&'static str, Self)> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|&(name, ty, ..)| (name, ty))
    }

    /// Names of the types, for messages.
    pub fn names() -> String {
        Self::ALL.map(|(name, ..)| name).join(", ")
    }

    fn row(self) -> &'static (&'static str, Self, usize, &'static str) {
        &Self::ALL[self as usize]
    }

    /// Size in bytes.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// NumPy's name of the type, `descr` in an `.npy` file.
    pub fn numpy(self) -> &'static str {
        self.row().3
    }

    /// True for floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// Parses a number. Integers may be hexadecimal, after `0x`. `None` if it is no number of this type.
    pub fn parse(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::F16 => return Some(f16(text.parse().ok()?).to_le_bytes().to_vec()),
            Self::Bf16 => return Some(bf16(text.parse().ok()?).to_le_bytes().to_vec()),
            Self::F32 => return Some(text.parse::<f32>().ok()?.to_le_bytes().to_vec()),
            Self::F64 => return Some(text.parse::<f64>().ok()?.to_le_bytes().to_vec()),
            _ => {}
        }
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let number = sign * i128::from(unsigned(digits)?);
        let bits = 8 * self.size() as u32;
        let range = match self {
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => -(1_i128 << (bits - 1))..1_i128 << (bits - 1),
            _ => 0..1_i128 << bits,
        };
        range.contains(&number).then(|| number.to_le_bytes()[..self.size()].to_vec())
    }

    /// Formats the number that these bytes encode.
    pub fn show(self, bytes: &[u8]) -> String {
        let number = wide(bytes);
        match self {
            Self::I8 => (number as i8).to_string(),
            Self::I16 => (number as i16).to_string(),
            Self::I32 => (number as i32).to_string(),
            Self::I64 => (number as i64).to_string(),
            Self::F16 | Self::Bf16 | Self::F32 => (self.float(bytes) as f32).to_string(),
            Self::F64 => f64::from_bits(number).to_string(),
            _ => number.to_string(),
        }
    }

    /// The floating-point number that these bytes encode.
    fn float(self, bytes: &[u8]) -> f64 {
        let bits = wide(bytes);
        match self {
            Self::F16 => from_f16(bits as u16),
            Self::Bf16 => f32::from_bits((bits as u32) << 16).into(),
            Self::F32 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }

    /// True if two numbers differ: integers at all, floating-point ones by more than `tolerance * (1 + |wanted|)`.
    pub fn differ(self, got: &[u8], wanted: &[u8], tolerance: f64) -> bool {
        if !self.is_float() || got == wanted {
            return got != wanted;
        }
        let (got, wanted) = (self.float(got), self.float(wanted));
        let is_same = got == wanted || got.is_nan() && wanted.is_nan();
        // Infinities differ from everything else, and so do not-a-numbers.
        let is_near = wanted.is_finite() && (got - wanted).abs() <= tolerance * (1.0 + wanted.abs());
        !(is_same || is_near)
    }
}

fn wide(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// Parses a number, hexadecimal after `0x`.
pub fn unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Rounds to the nearest binary16 number, halfway cases to even.
fn f16(number: f64) -> u16 {
    let sign = ((number.to_bits() >> 48) & 0x8000) as u16;
    let magnitude = number.abs();
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    // 65520 is halfway between the largest number and the next power of two.
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    let exponent = (((magnitude.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(-14);
    // Multiples of the last bit's value: up to 2^11, exact in an f64.
    let units = (magnitude * 2_f64.powi(10 - exponent)).round_ties_even() as u16;
    // A carry into the exponent is right as it is.
    sign | ((exponent + 14) as u16 * 0x400 + units)
}

fn from_f16(bits: u16) -> f64 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    match (exponent, fraction) {
        (0x1f, 0.0) => sign * f64::INFINITY,
        (0x1f, _) => f64::NAN,
        (0, _) => sign * fraction * 2_f64.powi(-24),
        _ => sign * (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    }
}

/// Rounds to the nearest bf16 number, halfway cases to even.
fn bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_row() {
        for (name, ty, ..) in Type::ALL {
            assert_eq!(ty.row().0, name);
        }
    }

    #[test]
    fn each_f16_is_the_nearest_to_itself() {
        for bits in 0..=u16::MAX {
            let number = from_f16(bits);
            assert!(number.is_nan() || f16(number) == bits, "{bits:#x}: {number}");
        }
        // Halfway to even, at the smallest, in the middle, and beyond the largest.
        let cases =
            [(2_f64.powi(-25), 0), (1.5 * 2_f64.powi(-24), 2), (1.0 + 2_f64.powi(-11), 0x3c00), (65519.0, 0x7bff)];
        for (number, bits) in cases {
            assert_eq!(f16(number), bits, "{number}");
        }
        assert_eq!([f16(-65520.0), f16(1.0 + 3.0 * 2_f64.powi(-11))], [0xfc00, 0x3c02]);
    }

    #[test]
    fn bf16_is_rounded_to_even() {
        let of = |bits: u32| bf16(f32::from_bits(bits));
        assert_eq!(
            [of(0x3f80_8000), of(0x3f81_8000), of(0x3f80_8001), of(0x7f7f_ffff)],
            [0x3f80, 0x3f82, 0x3f81, 0x7f80]
        );
    }

    #[test]
    fn numbers_differ_by_more_than_the_tolerance() {
        let differ =
            |got: f32, wanted: f32, tolerance| Type::F32.differ(&got.to_le_bytes(), &wanted.to_le_bytes(), tolerance);
        assert!(!differ(1.0, 1.0, 0.0) && !differ(0.0, -0.0, 0.0) && !differ(f32::NAN, f32::NAN, 0.0));
        assert!(!differ(100.1, 100.0, 0.01) && differ(102.0, 100.0, 0.01) && differ(f32::NAN, 1.0, 9.0));
        assert!(differ(1.0, f32::INFINITY, 1.0) && Type::I8.differ(&[1], &[2], 5.0));
    }
}
