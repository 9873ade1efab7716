// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reductions of elements in bytes, little-endian.

use super::operation::{Element, Reduction};

/// An element type that reductions compute with.
trait Number: Copy {
    const SIZE: usize;

    fn read(bytes: &[u8]) -> Self;

    fn write(self, bytes: &mut [u8]);

    fn sum(self, other: Self) -> Self;

    fn product(self, other: Self) -> Self;

    fn minimum(self, other: Self) -> Self;

    fn maximum(self, other: Self) -> Self;

    fn divided(self, ranks: u32) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const SIZE: usize = size_of::<$type>();

            fn read(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$type>()];
                word.copy_from_slice(bytes);
                Self::from_le_bytes(word)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn minimum(self, other: Self) -> Self {
                self.min(other)
            }

            fn maximum(self, other: Self) -> Self {
                self.max(other)
            }

            fn divided(self, ranks: u32) -> Self {
                // Every type is wide enough or the quotient is 0; the detour keeps small types from overflow.
                (i128::from(self) / i128::from(ranks)) as Self
            }
        }
    )*};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty, $word:ty, $calculated:ty, $from:expr, $to:expr;)*) => {$(
        impl Number for $type {
            const SIZE: usize = size_of::<$word>();

            fn read(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$word>()];
                word.copy_from_slice(bytes);
                Self($from(<$word>::from_le_bytes(word)))
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$to(self.0).to_le_bytes());
            }

            fn sum(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }

            fn product(self, other: Self) -> Self {
                Self(self.0 * other.0)
            }

            fn minimum(self, other: Self) -> Self {
                if self.0 < other.0 || self.0.is_nan() { self } else { other }
            }

            fn maximum(self, other: Self) -> Self {
                if self.0 > other.0 || self.0.is_nan() { self } else { other }
            }

            fn divided(self, ranks: u32) -> Self {
                Self(self.0 / <$calculated>::from(Ranks(ranks)))
            }
        }
    )*};
}

/// A number of ranks, as a floating-point number.
struct Ranks(u32);

impl From<Ranks> for f32 {
    fn from(ranks: Ranks) -> Self {
        ranks.0 as Self
    }
}

impl From<Ranks> for f64 {
    fn from(ranks: Ranks) -> Self {
        Self::from(ranks.0)
    }
}

#[derive(Clone, Copy)]
struct F16(f32);
#[derive(Clone, Copy)]
struct Bf16(f32);
#[derive(Clone, Copy)]
struct F32(f32);
#[derive(Clone, Copy)]
struct F64(f64);

floats! {
    F16, u16, f32, half_to_single, single_to_half;
    Bf16, u16, f32, brain_to_single, single_to_brain;
    F32, u32, f32, f32::from_bits, f32::to_bits;
    F64, u64, f64, f64::from_bits, f64::to_bits;
}

fn brain_to_single(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to nearest, ties to even.
fn single_to_brain(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // Quiet, with the upper payload.
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn half_to_single(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1f, u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // Subnormal: the fraction in units of 2^-24.
        0 => fraction as f32 * f32::from_bits(0x3380_0000),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((u32::from(exponent) + 112) << 23 | fraction << 13),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// Rounds to nearest, ties to even.
fn single_to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    let half = if value.is_nan() {
        0x7e00 | (magnitude >> 13 & 0x3ff) as u16
    } else if magnitude >= 0x477f_f000 {
        // From 65520 on it rounds to infinity.
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        ((magnitude - 0x3800_0000 + 0xfff + (magnitude >> 13 & 1)) >> 13) as u16
    } else {
        // Subnormal: adding 0.5 leaves the fraction in units of 2^-24, rounded as float addition rounds.
        (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000) as u16
    };
    sign | half
}

fn fold<T: Number>(target: &mut [u8], other: &[u8], function: impl Fn(T, T) -> T) {
    for (target, other) in target.chunks_exact_mut(T::SIZE).zip(other.chunks_exact(T::SIZE)) {
        function(T::read(target), T::read(other)).write(target);
    }
}

fn combine_as<T: Number>(reduction: Reduction, target: &mut [u8], other: &[u8]) {
    match reduction {
        Reduction::Sum | Reduction::Average => fold(target, other, T::sum),
        Reduction::Product => fold(target, other, T::product),
        Reduction::Minimum => fold(target, other, T::minimum),
        Reduction::Maximum => fold(target, other, T::maximum),
    }
}

fn divide_as<T: Number>(target: &mut [u8], ranks: u32) {
    for target in target.chunks_exact_mut(T::SIZE) {
        T::read(target).divided(ranks).write(target);
    }
}

macro_rules! by_element {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            Element::S8 => $function::<i8>($($argument),*),
            Element::U8 => $function::<u8>($($argument),*),
            Element::S16 => $function::<i16>($($argument),*),
            Element::U16 => $function::<u16>($($argument),*),
            Element::S32 => $function::<i32>($($argument),*),
            Element::U32 => $function::<u32>($($argument),*),
            Element::S64 => $function::<i64>($($argument),*),
            Element::U64 => $function::<u64>($($argument),*),
            Element::F16 => $function::<F16>($($argument),*),
            Element::F32 => $function::<F32>($($argument),*),
            Element::F64 => $function::<F64>($($argument),*),
            Element::Bf16 => $function::<Bf16>($($argument),*),
        }
    };
}

/// Combines the elements of `other` into those of `target`. An average is summed.
pub fn combine(element: Element, reduction: Reduction, target: &mut [u8], other: &[u8]) {
    by_element!(element, combine_as(reduction, target, other));
}

/// Ends a reduction over `ranks` ranks: divides the sums of an average.
pub fn finish(element: Element, reduction: Reduction, target: &mut [u8], ranks: u32) {
    if reduction == Reduction::Average {
        by_element!(element, divide_as(target, ranks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<const N: usize>(element: Element, reduction: Reduction, a: [u8; N], b: [u8; N]) -> [u8; N] {
        let mut target = a;
        combine(element, reduction, &mut target, &b);
        target
    }

    #[test]
    fn halves_and_brains_survive_the_way_to_single_and_back() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (half_to_single(bits), brain_to_single(bits));
            assert!(half.is_nan() || single_to_half(half) == bits, "half {bits:#x}");
            assert!(brain.is_nan() || single_to_brain(brain) == bits, "brain {bits:#x}");
            assert_eq!(half.is_nan(), half_to_single(single_to_half(half)).is_nan());
            assert_eq!(brain.is_nan(), brain_to_single(single_to_brain(brain)).is_nan());
        }
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        for (value, half) in
            [(2049.0, 2048.0), (2051.0, 2052.0), (65519.0, 65504.0), (3e-8, 5.960_464_5e-8), (2.9e-8, 0.0)]
        {
            assert_eq!(half_to_single(single_to_half(value)), half, "{value}");
        }
        assert_eq!(half_to_single(single_to_half(65520.0)), f32::INFINITY);
        for (value, brain) in [(257.0, 256.0), (259.0, 260.0), (-257.0, -256.0)] {
            assert_eq!(brain_to_single(single_to_brain(value)), brain, "{value}");
        }
    }

    #[test]
    fn reductions_follow_the_elements_type() {
        let minus_one = [0xff; 4];
        assert_eq!(combined(Element::S32, Reduction::Maximum, minus_one, [1, 0, 0, 0]), [1, 0, 0, 0]);
        assert_eq!(combined(Element::U32, Reduction::Maximum, minus_one, [1, 0, 0, 0]), minus_one);
        assert_eq!(combined(Element::S8, Reduction::Sum, [100], [100]), [200]);
        assert_eq!(combined(Element::U16, Reduction::Product, [3, 1], [2, 0]), [6, 2]);
        let (nan, one) = (f32::NAN.to_le_bytes(), 1.0_f32.to_le_bytes());
        for (a, b) in [(nan, one), (one, nan)] {
            for reduction in [Reduction::Minimum, Reduction::Maximum] {
                assert!(f32::from_le_bytes(combined(Element::F32, reduction, a, b)).is_nan());
            }
        }
        let mut average = 10.0_f64.to_le_bytes();
        finish(Element::F64, Reduction::Average, &mut average, 4);
        assert_eq!(f64::from_le_bytes(average), 2.5);
        let mut average = (-7_i8).to_le_bytes();
        finish(Element::S8, Reduction::Average, &mut average, 200);
        assert_eq!(average, [0]);
    }
}
