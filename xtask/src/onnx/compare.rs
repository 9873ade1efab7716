// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Comparison of tensors: shapes, integers and Booleans must be equal, NaN agrees with NaN, infinities with themselves,
//! and other floats agree within the tolerance of their type.

use xtask_core::npy::{Raw, elements};

/// Maximum difference of two floats: `abs + rel * |expected|`.
///
/// ONNX's own runner allows 1e-7 + 1e-3 * |expected|, whatever the type. GPU and CPU approximate functions such as tanh
/// with other polynomials, whose absolute error near a zero is a few units of 2^-24; results of 16 bits are rounded to
/// 11 or 8 bits more than once.
#[derive(Clone, Copy)]
struct Tolerance {
    abs: f64,
    rel: f64,
}

const F32: Tolerance = Tolerance { abs: 1e-5, rel: 1e-3 };
const F16: Tolerance = Tolerance { abs: 2e-3, rel: 5e-3 };
const BF16: Tolerance = Tolerance { abs: 1e-2, rel: 2e-2 };

/// Compares two tensors.
///
/// # Errors
/// A message with the first element that differs, or with the shapes.
pub fn agree(actual: &Raw, expected: &Raw) -> Result<(), String> {
    if actual.shape != expected.shape {
        return Err(format!("the shape is {:?}, expected {:?}", actual.shape, expected.shape));
    }
    if width(&actual.kind) != width(&expected.kind) {
        return Err(format!("the elements are {}, expected {}", actual.kind, expected.kind));
    }
    match floats(expected).zip(floats(&Raw { kind: expected.kind.clone(), ..actual.clone() })) {
        Some(((expected, tolerance), (actual, _))) => agree_floats(&actual, &expected, tolerance),
        // The compiler drops integers' signs; the bits tell.
        None => {
            let width = width(&expected.kind);
            let mut pairs = actual.bytes.chunks(width).zip(expected.bytes.chunks(width)).enumerate();
            let are_nan = |a: &[u8], e: &[u8]| [a, e].iter().all(|bytes| is_small_nan(&expected.kind, bytes));
            match pairs.find(|(_, (a, e))| a != e && !are_nan(a, e)) {
                None => Ok(()),
                Some((index, (a, e))) => {
                    Err(format!("[{index}] is 0x{}, expected 0x{} ({})", hex(a), hex(e), expected.kind))
                }
            }
        }
    }
}

/// True if an element of the type `kind` is an 8-bit NaN, of which some types have several.
fn is_small_nan(kind: &str, bytes: &[u8]) -> bool {
    match (kind, bytes) {
        ("f8E4M3FN", [byte]) => byte & 0x7f == 0x7f,
        ("f8E5M2", [byte]) => byte & 0x7f > 0x7c,
        _ => false,
    }
}

/// Returns the elements as floats, and their tolerance; `None` if they are no floats.
fn floats(Raw { kind, bytes, .. }: &Raw) -> Option<(Vec<f64>, Tolerance)> {
    match kind.as_str() {
        "f8" | "c16" => Some((elements(bytes, f64::from_le_bytes), F32)),
        "f4" | "c8" => Some((elements(bytes, |b| f64::from(f32::from_le_bytes(b))), F32)),
        "f2" => Some((elements(bytes, |b| half(u16::from_le_bytes(b))), F16)),
        "bf16" => Some((elements(bytes, |[a, b]| f64::from(f32::from_le_bytes([0, 0, a, b]))), BF16)),
        _ => None,
    }
}

/// Returns the largest difference of two tensors of floats, relative to the largest magnitude in `expected`. NaN agrees
/// with nothing. Other elements, such as those of masks, must be equal.
///
/// # Errors
/// When the shapes differ, or elements that are no floats.
pub fn largest_difference(actual: &Raw, expected: &Raw) -> Result<f64, String> {
    if (&actual.shape, &actual.kind) != (&expected.shape, &expected.kind) {
        let (a, e) = (actual, expected);
        return Err(format!("{} of shape {:?}, expected {} of {:?}", a.kind, a.shape, e.kind, e.shape));
    }
    let (Some((actual, _)), Some((expected, _))) = (floats(actual), floats(expected)) else {
        let is_same = actual.bytes == expected.bytes;
        return if is_same { Ok(0.0) } else { Err(format!("elements of {} differ", expected.kind)) };
    };
    let size = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let difference = |(a, e): (&f64, &f64)| if a == e { 0.0 } else { (a - e).abs() };
    let differences = actual.iter().zip(&expected).map(difference);
    let largest = differences.fold(0.0, |largest: f64, x| if x.is_nan() { f64::INFINITY } else { largest.max(x) });
    Ok(if largest == 0.0 { 0.0 } else { largest / size })
}

fn agree_floats(actual: &[f64], expected: &[f64], tolerance: Tolerance) -> Result<(), String> {
    let differs = |&(_, (a, e)): &(usize, (&f64, &f64))| {
        let is_same = a == e || (a.is_nan() && e.is_nan());
        // A NaN on one side makes the comparison false.
        let is_near = (a - e).abs() <= tolerance.abs + tolerance.rel * e.abs() && e.is_finite();
        !(is_same || is_near)
    };
    let bad: Vec<_> = actual.iter().zip(expected).enumerate().filter(differs).collect();
    match bad.first() {
        None => Ok(()),
        Some((index, (a, e))) => {
            Err(format!("{} of {} differ, [{index}] is {a:e}, expected {e:e}", bad.len(), actual.len()))
        }
    }
}

/// Bytes of an element of NumPy's type `kind`, or of IREE's `bf16`, `f8…`.
fn width(kind: &str) -> usize {
    match kind {
        "bf16" => 2,
        small if small.starts_with("f8E") => 1,
        numpy => numpy.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(1),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

/// The value of an IEEE binary16.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * 2f64.powi(-24),
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw<const N: usize>(kind: &str, elements: &[[u8; N]]) -> Raw {
        Raw { shape: vec![elements.len()], kind: kind.to_owned(), bytes: elements.as_flattened().to_vec() }
    }

    #[test]
    fn floats_agree_within_the_tolerance_of_their_type() {
        let f32s = |values: &[f32]| raw("f4", &values.iter().map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        let expected = f32s(&[1.0, f32::NAN, f32::INFINITY, 0.0]);
        assert_eq!(agree(&f32s(&[1.0005, f32::NAN, f32::INFINITY, 5e-6]), &expected), Ok(()));
        for bad in [
            [1.01, f32::NAN, f32::INFINITY, 0.0],
            [1.0, 0.0, f32::INFINITY, 0.0],
            [1.0, f32::NAN, f32::MAX, 0.0],
            [1.0, f32::NAN, f32::NEG_INFINITY, 0.0],
            [f32::NAN, f32::NAN, f32::INFINITY, 0.0],
            [f32::INFINITY, f32::NAN, f32::INFINITY, 0.0],
        ] {
            assert!(agree(&f32s(&bad), &expected).is_err(), "{bad:?}");
        }
        let halves = |bits: u16| raw("f2", &[bits.to_le_bytes()]);
        assert_eq!(agree(&halves(0x3c01), &halves(0x3c00)), Ok(()));
        assert_eq!(
            agree(&halves(0x3c10), &halves(0x3c00)).unwrap_err(),
            "1 of 1 differ, [0] is 1.015625e0, expected 1e0"
        );
        assert!(agree(&raw("bf16", &[[0x80, 0x3f]]), &raw("bf16", &[[0xa0, 0x3f]])).is_err());
    }

    #[test]
    fn floats_of_8_bits_agree_to_the_bit_but_for_nan() {
        let agree = |kind, a: u8, e: u8| agree(&raw(kind, &[[a]]), &raw(kind, &[[e]]));
        assert_eq!(agree("f8E4M3FN", 0xff, 0x7f), Ok(()));
        assert_eq!(agree("f8E5M2", 0xfd, 0x7f), Ok(()));
        assert_eq!(agree("f8E4M3FN", 0x7f, 0x7e), Err("[0] is 0x7f, expected 0x7e (f8E4M3FN)".to_owned()));
        assert!(agree("f8E5M2", 0x7d, 0x7c).is_err(), "infinity is no NaN");
        assert!(agree("f8E4M3FNUZ", 0xff, 0x7f).is_err(), "nor is what has another type's code");
    }

    #[test]
    fn the_largest_difference_is_relative_to_the_largest_value() {
        let f32s = |values: [f32; 2]| raw("f4", &values.map(f32::to_le_bytes));
        let expected = f32s([4.0, -8.0]);
        assert_eq!(largest_difference(&f32s([5.0, -8.0]), &expected), Ok(0.125));
        assert_eq!(largest_difference(&expected, &expected), Ok(0.0));
        assert_eq!(largest_difference(&f32s([f32::NAN, -8.0]), &expected), Ok(f64::INFINITY));
        assert!(largest_difference(&raw("f4", &[[0; 4]]), &expected).is_err());
        assert_eq!(largest_difference(&raw("b1", &[[1]]), &raw("b1", &[[1]])), Ok(0.0));
        assert!(largest_difference(&raw("b1", &[[1]]), &raw("b1", &[[0]])).is_err());
    }

    #[test]
    fn integers_agree_by_their_bits() {
        assert_eq!(agree(&raw("i1", &[[255]]), &raw("u1", &[[255]])), Ok(()));
        let error = agree(&raw("i4", &[[1, 0, 0, 0], [2, 0, 0, 0]]), &raw("i4", &[[1, 0, 0, 0], [3, 0, 0, 0]]));
        assert_eq!(error.unwrap_err(), "[1] is 0x00000002, expected 0x00000003 (i4)");
    }

    #[test]
    fn shapes_and_widths_have_to_be_the_same() {
        let scalar = Raw { shape: vec![], ..raw("i1", &[[1]]) };
        assert!(agree(&scalar, &raw("i1", &[[1]])).is_err());
        assert!(agree(&raw("i4", &[[1, 0, 0, 0]]), &raw("i1", &[[1]])).is_err());
    }

    #[test]
    fn halves_have_the_values_of_ieee_754() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (1, 2f64.powi(-24)), (0x7c00, f64::INFINITY)]
        {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
