// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Results of lane-wise vector ops, by mnemonic: the "VOP" sections of the RDNA3 ISA document, chapter 16, one lane at
//! a time.

use crate::num::{self, BF16, F16, F32, F64, Format};

/// One lane's inputs, with source modifiers applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct In {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    /// The destination before.
    pub old: u64,
    /// This lane's bit of the mask read: carry in, selection, or VCC of `v_div_fmas`.
    pub bit: bool,
    pub ieee: bool,
    /// Floats of 8 bits are those of gfx12.
    pub ocp: bool,
    pub lane: u32,
}

/// One lane's results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Out {
    pub value: u64,
    /// This lane's bit of the mask written.
    pub bit: Option<bool>,
}

/// The float format a name ends with.
pub fn suffix(name: &str) -> Option<(&str, Format)> {
    let (stem, ty) = name.rsplit_once('_')?;
    let format = match ty {
        "f16" => F16,
        "bf16" => BF16,
        "f32" => F32,
        "f64" => F64,
        _ => return None,
    };
    Some((stem.strip_prefix("v_")?, format))
}

/// The result; `None` for ops that are not lane-wise, or that another module checks.
pub fn value(name: &str, i: &In) -> Option<Out> {
    if name.starts_with("v_s_") {
        return None;
    }
    let plain = |value| Some(Out { value, bit: None });
    if let Some(out) = with_bit(name, i) {
        return Some(out);
    }
    if let Some(value) = integer(name, i).or_else(|| convert(name, i)) {
        return plain(value);
    }
    let (stem, format) = suffix(name)?;
    float(stem, format, i).and_then(plain)
}

/// Units in the last place by which the op's result may be off.
pub fn ulps(name: &str) -> u64 {
    let approximate =
        ["exp", "log", "exp_legacy", "log_legacy", "rcp", "rcp_iflag", "rsq", "sqrt", "sin", "cos", "tanh", "fract"];
    match suffix(name) {
        // The f64 seeds have about 24 good bits (RDNA3 ISA, V_RCP_F64).
        Some(("rcp" | "rsq" | "sqrt", F64)) => 1 << 29,
        Some((stem, _)) if approximate.contains(&stem) => 2,
        _ => 0,
    }
}

/// f32 ops of the transcendental unit, which flushes denormals whatever MODE says.
const FLUSHING: [&str; 8] = ["exp", "exp_legacy", "log", "log_legacy", "rcp", "rcp_iflag", "rsq", "sqrt"];

fn float(stem: &str, t: Format, i: &In) -> Option<u64> {
    if t == F32 && FLUSHING.contains(&stem) {
        let flush = |bits: u64| if t.is_denormal(bits) { bits & t.sign() } else { bits };
        return unflushed(stem, t, &In { a: flush(i.a & t.mask()), ..*i }).map(flush);
    }
    unflushed(stem, t, i)
}

fn unflushed(stem: &str, t: Format, i: &In) -> Option<u64> {
    let (a, b, c) = (i.a & t.mask(), i.b & t.mask(), i.c & t.mask());
    let (x, y) = (t.get(a), t.get(b));
    let least = |a, b| num::extremum(t, a, b, true, i.ieee);
    let most = |a, b| num::extremum(t, a, b, false, i.ieee);
    let special = !x.is_finite();
    Some(match stem {
        "add" => t.round(x + y),
        "sub" => t.round(x - y),
        "subrev" => t.round(y - x),
        "mul" => t.round(x * y),
        "mul_dx9_zero" if x == 0.0 || y == 0.0 => 0,
        "mul_dx9_zero" => t.round(x * y),
        "fma" => num::fma(t, a, b, c),
        "mad" | "mad_legacy" if t == F32 => mad32(stem, a, b, c),
        "mac" | "mac_legacy" if t == F32 => mad32(stem, a, b, i.old),
        "madmk" | "madak" if t == F32 => mad32(stem, a, b, c),
        "mad" | "mad_legacy" | "madmk" | "madak" => t.round(t.get(t.round(x * y)) + t.get(c)),
        "mac" => t.round(t.get(t.round(x * y)) + t.get(i.old & t.mask())),
        "fma_legacy" => num::fma(t, a, b, c),
        "fmac" => num::fma(t, a, b, i.old & t.mask()),
        "fmamk" => num::fma(t, a, b, c),
        "fmaak" => num::fma(t, a, b, c),
        "fma_dx9_zero" | "fmac_dx9_zero" => {
            let c = if stem == "fma_dx9_zero" { c } else { i.old & t.mask() };
            if x == 0.0 || y == 0.0 { c } else { num::fma(t, a, b, c) }
        }
        "min" => least(a, b),
        "max" => most(a, b),
        "min3" => least(least(a, b), c),
        "max3" => most(most(a, b), c),
        "minmax" => most(least(a, b), c),
        "maxmin" => least(most(a, b), c),
        "minimum" => propagating(t, &[a, b]).unwrap_or_else(|| least(a, b)),
        "maximum" => propagating(t, &[a, b]).unwrap_or_else(|| most(a, b)),
        "minimum3" => propagating(t, &[a, b, c]).unwrap_or_else(|| least(least(a, b), c)),
        "maximum3" => propagating(t, &[a, b, c]).unwrap_or_else(|| most(most(a, b), c)),
        "minimummaximum" => propagating(t, &[a, b, c]).unwrap_or_else(|| most(least(a, b), c)),
        "maximumminimum" => propagating(t, &[a, b, c]).unwrap_or_else(|| least(most(a, b), c)),
        "med3" => num::median(t, a, b, c, i.ieee),
        "fract" => t.round(x - x.floor()),
        "trunc" => t.round(x.trunc()),
        "ceil" => t.round(x.ceil()),
        "floor" => t.round(x.floor()),
        "rndne" => t.round(x.round_ties_even()),
        "exp" | "exp_legacy" => t.round(x.exp2()),
        "log" | "log_legacy" => t.round(x.log2()),
        "rcp" | "rcp_iflag" => t.round(1.0 / x),
        "rsq" => t.round(1.0 / x.sqrt()),
        "sqrt" => t.round(x.sqrt()),
        "tanh" => t.round(x.tanh()),
        "sin" if (2.0 * x).fract() == 0.0 => a & t.sign(),
        "cos" if (2.0 * x.fract() + 0.5).fract() == 0.0 => 0,
        "sin" => t.round((x.fract() * std::f64::consts::TAU).sin()),
        "cos" => t.round((x.fract() * std::f64::consts::TAU).cos()),
        "frexp_mant" if special || x == 0.0 => a,
        "frexp_mant" => {
            let exponent = frexp(x);
            t.round(x * 2f64.powi(-exponent / 2) * 2f64.powi(-exponent + exponent / 2))
        }
        "frexp_exp_i32" | "frexp_exp_i16" => {
            let exponent = if special || x == 0.0 { 0 } else { frexp(x) };
            if stem == "frexp_exp_i16" { u64::from(exponent as u16) } else { u64::from(exponent as u32) }
        }
        "ldexp" => num::ldexp(t, a, if t == F16 { i32::from(i.b as i16) } else { i.b as i32 }),
        "trig_preop" => num::two_over_pi(a, i.b as usize & 31),
        "div_fixup" | "div_fixup_legacy" => div_fixup(t, a, b, c),
        "cubeid" | "cubesc" | "cubetc" | "cubema" => cube(stem, x, y, t.get(c)),
        "mullit" => {
            let least = f64::from(f32::MIN);
            let z = t.get(c);
            if y <= least || y.is_nan() || z <= 0.0 || z.is_nan() { t.round(least) } else { t.round(x * y) }
        }
        _ => return None,
    })
}

/// Two roundings, and denormals flushed whatever MODE says.
fn mad32(stem: &str, a: u64, b: u64, c: u64) -> u64 {
    let flush = |bits: u64| if F32.is_denormal(bits) { bits & F32.sign() } else { bits };
    let (x, y, z) = (F32.get(flush(a)), F32.get(flush(b)), F32.get(flush(c)));
    let product = if stem.ends_with("legacy") && (x == 0.0 || y == 0.0) { 0.0 } else { x * y };
    flush(F32.round(F32.get(flush(F32.round(product))) + z))
}

/// Face, coordinates on it and twice the major axis of a direction in a cube map.
/// The first NaN, for ops whose result it is.
fn propagating(t: Format, values: &[u64]) -> Option<u64> {
    values.iter().copied().find(|value| t.is_nan(*value)).map(|nan| t.quiet(nan))
}

fn cube(stem: &str, x: f64, y: f64, z: f64) -> u64 {
    let z_is_major = z.abs() >= x.abs() && z.abs() >= y.abs();
    let y_is_major = !z_is_major && y.abs() >= x.abs();
    let (face, s, t, axis) = match (z_is_major, y_is_major) {
        (true, _) => (4.0, if z < 0.0 { -x } else { x }, -y, z),
        (_, true) => (2.0, x, if y < 0.0 { -z } else { z }, y),
        _ => (0.0, if x < 0.0 { z } else { -z }, -y, x),
    };
    F32.round(match stem {
        "cubeid" => face + if axis < 0.0 { 1.0 } else { 0.0 },
        "cubesc" => s,
        "cubetc" => t,
        _ => 2.0 * axis,
    })
}

/// The exponent that leaves a magnitude of 0.5 to 1.
fn frexp(x: f64) -> i32 {
    let scaled = if x.abs() < f64::MIN_POSITIVE { x * 2f64.powi(60) } else { x };
    let shift = if x.abs() < f64::MIN_POSITIVE { 60 } else { 0 };
    (scaled.abs().to_bits() >> 52) as i32 - 1022 - shift
}

fn div_fixup(t: Format, a: u64, b: u64, c: u64) -> u64 {
    let sign = (b ^ c) & t.sign();
    let (y, z) = (t.get(b), t.get(c));
    let underflow = match t.width {
        32 => -150,
        64 => -1075,
        _ => i32::MIN,
    };
    if t.is_nan(c) {
        t.quiet(c)
    } else if t.is_nan(b) {
        t.quiet(b)
    } else if y == 0.0 && z == 0.0 || y.is_infinite() && z.is_infinite() {
        t.sign() | t.quiet(t.infinity())
    } else if y == 0.0 || z.is_infinite() {
        sign | t.infinity()
    } else if y.is_infinite() || z == 0.0 || t.exponent(c) - t.exponent(b) < underflow {
        sign
    } else if t.is_nan(a) {
        // Not in the document: the steps before overflowed.
        sign | t.infinity()
    } else {
        sign | a & !t.sign()
    }
}

/// Ops that read or write a lane mask.
fn with_bit(name: &str, i: &In) -> Option<Out> {
    let (a, b, c) = (i.a as u32, i.b as u32, i.c as u32);
    let out = |value: u64, bit: bool| Some(Out { value, bit: Some(bit) });
    let carry = u64::from(i.bit);
    let sub = |a: u32, b: u32, borrow: u64| {
        let value = a.wrapping_sub(b).wrapping_sub(borrow as u32);
        out(u64::from(value), u64::from(b) + borrow > u64::from(a))
    };
    let add = |carry: u64| {
        let sum = u64::from(a) + u64::from(b) + carry;
        out(sum & 0xffff_ffff, sum >> 32 != 0)
    };
    match name {
        "v_add_co_u32" => add(0),
        "v_add_co_ci_u32" => add(carry),
        "v_sub_co_u32" => sub(a, b, 0),
        "v_sub_co_ci_u32" => sub(a, b, carry),
        "v_subrev_co_u32" => sub(b, a, 0),
        "v_subrev_co_ci_u32" => sub(b, a, carry),
        "v_mad_u64_u32" => {
            let wide = u128::from(a) * u128::from(b) + u128::from(i.c);
            out(wide as u64, wide >> 64 != 0)
        }
        "v_mad_i64_i32" => {
            let wide = i128::from(a as i32) * i128::from(b as i32) + i128::from(i.c as i64);
            // Of 65 bits, the highest.
            out(wide as u64, wide < 0)
        }
        "v_cndmask_b32" => Some(Out { value: u64::from(if i.bit { b } else { a }), bit: None }),
        "v_cndmask_b16" => Some(Out { value: u64::from(if i.bit { b } else { a } as u16), bit: None }),
        "v_div_fmas_f32" => Some(Out { value: div_fmas(F32, i, 64), bit: None }),
        "v_div_fmas_f64" => Some(Out { value: div_fmas(F64, i, 128), bit: None }),
        "v_div_scale_f32" => Some(div_scale(F32, u64::from(a), u64::from(b), u64::from(c), 96, 64, 23)),
        "v_div_scale_f64" => Some(div_scale(F64, i.a, i.b, i.c, 768, 128, 53)),
        _ => None,
    }
}

/// Undoes `div_scale`'s scaling of a quotient: down if a small numerator was enlarged, up if a large quotient was made
/// smaller.
fn div_fmas(t: Format, i: &In, by: i32) -> u64 {
    let value = num::fma(t, i.a, i.b, i.c);
    let up = t.exponent(i.c) > t.bias();
    if i.bit { num::ldexp(t, value, if up { by } else { -by }) } else { value }
}

/// Scales `a`, which is the denominator `b` or the numerator `c`, so that the division steps neither overflow nor
/// underflow.
fn div_scale(t: Format, a: u64, b: u64, c: u64, far: i32, by: i32, tiny: i32) -> Out {
    let (x, y, z) = (t.get(a), t.get(b), t.get(c));
    let denormal = |value: f64| t.is_denormal(t.round(value));
    let scaled = |n| num::ldexp(t, a, n);
    let out = |value, bit| Out { value, bit: Some(bit) };
    // Exponents alone say whether the quotient is taken for denormal.
    let small = t.exponent(c) - t.exponent(b) <= 1 - t.bias();
    if z == 0.0 || y == 0.0 {
        out(t.quiet(t.infinity()), true)
    } else if t.exponent(c) - t.exponent(b) >= far {
        out(if x == y { scaled(by) } else { a }, true)
    } else if t.is_denormal(b) {
        out(scaled(by), false)
    } else if denormal(1.0 / y) && (small || denormal(z / y)) {
        // The document scales up here, to infinity.
        out(if x == y { scaled(-by) } else { a }, true)
    } else if denormal(1.0 / y) {
        out(scaled(-by), false)
    } else if small || denormal(z / y) {
        out(if x == z { scaled(by) } else { a }, true)
    } else if t.exponent(c) <= tiny {
        out(scaled(by), false)
    } else {
        out(a, false)
    }
}

/// An exact integer result, and the range that clamping cuts it to.
pub fn saturating(name: &str, i: &In) -> Option<(i128, i128, i128)> {
    let (stem, bits, signed) = match name.rsplit_once('_')? {
        (stem @ ("v_add_nc" | "v_sub_nc"), "u64") => (stem, 64, false),
        (stem, "u32") => (stem, 32, false),
        (stem, "i32") => (stem, 32, true),
        (stem, "u16") if !stem.starts_with("v_mad_u32") => (stem, 16, false),
        (stem, "i16") if !stem.starts_with("v_mad_i32") => (stem, 16, true),
        ("v_mad_u32", "u16") => {
            return Some((wide(i.a, 16, false) * wide(i.b, 16, false) + wide(i.c, 32, false), 0, u32::MAX.into()));
        }
        ("v_mad_i32", "i16") => {
            return Some((
                wide(i.a, 16, true) * wide(i.b, 16, true) + wide(i.c, 32, true),
                i32::MIN.into(),
                i32::MAX.into(),
            ));
        }
        ("v_mad_u32", "u24") => {
            return Some((wide(i.a, 24, false) * wide(i.b, 24, false) + wide(i.c, 32, false), 0, u32::MAX.into()));
        }
        ("v_mad_i32", "i24") => {
            return Some((
                wide(i.a, 24, true) * wide(i.b, 24, true) + wide(i.c, 32, true),
                i32::MIN.into(),
                i32::MAX.into(),
            ));
        }
        _ => return None,
    };
    let (a, b, c) = (wide(i.a, bits, signed), wide(i.b, bits, signed), wide(i.c, bits, signed));
    let exact = match stem {
        "v_subrev" => b - a,
        "v_mad_legacy" => a * b + c,
        "v_add_nc" => a + b,
        "v_sub_nc" => a - b,
        "v_subrev_nc" => b - a,
        "v_mad" => a * b + c,
        _ => return None,
    };
    Some(if signed { (exact, -(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (exact, 0, (1 << bits) - 1) })
}

/// The low `bits` as a number.
pub fn wide(value: u64, bits: u32, signed: bool) -> i128 {
    let value = i128::from(value) & ((1 << bits) - 1);
    if signed && value >> (bits - 1) != 0 { value - (1 << bits) } else { value }
}

fn integer(name: &str, i: &In) -> Option<u64> {
    if let Some((exact, ..)) = saturating(name, i) {
        let bits = match name {
            _ if name.ends_with("16") && !name.contains("32") => 16,
            _ if name.ends_with("64") => 64,
            _ => 32,
        };
        return Some(exact as u64 & (u64::MAX >> (64 - bits)));
    }
    if let Some(value) = extremum(name, i) {
        return Some(value);
    }
    let (a, b, c) = (i.a as u32, i.b as u32, i.c as u32);
    let bytes = |x: u32| x.to_le_bytes();
    let sad =
        |a: u32, b: u32| -> u32 { bytes(a).into_iter().zip(bytes(b)).map(|(a, b)| u32::from(a.abs_diff(b))).sum() };
    let masked_sad = |a: u32, b: u32| -> u32 {
        bytes(a).into_iter().zip(bytes(b)).map(|(a, b)| if b == 0 { 0 } else { u32::from(a.abs_diff(b)) }).sum()
    };
    let quad = |sum: &dyn Fn(u32, u32) -> u32| -> u64 {
        let part =
            |n: u64| u64::from(sum((i.a >> (8 * n)) as u32, b) as u16).wrapping_add(i.c >> (16 * n) & 0xffff) & 0xffff;
        (0..4).map(|n| part(n) << (16 * n)).sum()
    };
    let double = u64::from(a) << 32 | u64::from(b);
    Some(match name {
        "v_mov_b32" => a.into(),
        "v_mov_b64" => i.a,
        "v_mul_u64" => i.a.wrapping_mul(i.b),
        // A shift register of 32 bits.
        "v_prng_b32" => u64::from(a.wrapping_mul(2)) ^ if a & 0x8000_0000 != 0 { 197 } else { 0 },
        "v_sat_pk4_i4_i8" => {
            let cut = |n: u32| (wide(i.a >> (8 * n), 8, true).clamp(-8, 7) as u64 & 15) << (4 * n);
            (0..4).map(cut).sum()
        }
        "v_sat_pk4_u4_u8" => (0..4).map(|n| (i.a >> (8 * n) & 0xff).min(15) << (4 * n)).sum(),
        "v_ashr_pk_i8_i32" | "v_ashr_pk_u8_i32" => {
            let (least, most) = if name.contains("i8") { (-128, 127) } else { (0, 255) };
            let cut = |x: u64| (wide(x, 32, true) >> (c & 31)).clamp(least, most) as u64 & 0xff;
            i.old & 0xffff_0000 | cut(i.a) | cut(i.b) << 8
        }
        "v_lshl_add_u64" => (i.a << (b & 7)).wrapping_add(i.c),
        "v_mov_b16" => (a as u16).into(),
        "v_not_b32" => (!a).into(),
        "v_not_b16" => (!a as u16).into(),
        "v_bfrev_b32" => a.reverse_bits().into(),
        "v_clz_i32_u32" => if a == 0 { u32::MAX } else { a.leading_zeros() }.into(),
        "v_ctz_i32_b32" => if a == 0 { u32::MAX } else { a.trailing_zeros() }.into(),
        "v_cls_i32" => {
            let same = if a >> 31 != 0 { a.leading_ones() } else { a.leading_zeros() };
            if same == 32 { u32::MAX } else { same }.into()
        }
        "v_mul_lo_u16" => (a as u16).wrapping_mul(b as u16).into(),
        "v_mul_lo_u32" | "v_mul_lo_i32" => a.wrapping_mul(b).into(),
        "v_mul_hi_u32" => (u64::from(a) * u64::from(b)) >> 32,
        "v_mul_hi_i32" => ((wide(i.a, 32, true) * wide(i.b, 32, true)) >> 32) as u64 & 0xffff_ffff,
        "v_mul_i32_i24" => (wide(i.a, 24, true) * wide(i.b, 24, true)) as u64 & 0xffff_ffff,
        "v_mul_hi_i32_i24" => ((wide(i.a, 24, true) * wide(i.b, 24, true)) >> 32) as u64 & 0xffff_ffff,
        "v_mul_u32_u24" => (wide(i.a, 24, false) * wide(i.b, 24, false)) as u64 & 0xffff_ffff,
        "v_mul_hi_u32_u24" => ((wide(i.a, 24, false) * wide(i.b, 24, false)) >> 32) as u64,
        "v_lshlrev_b16" => u64::from((b as u16) << (a & 15)),
        "v_lshrrev_b16" => u64::from((b as u16) >> (a & 15)),
        "v_ashrrev_i16" => u64::from(((b as i16) >> (a & 15)) as u16),
        "v_lshlrev_b32" => u64::from(b << (a & 31)),
        "v_lshrrev_b32" => u64::from(b >> (a & 31)),
        "v_ashrrev_i32" => u64::from(((b as i32) >> (a & 31)) as u32),
        "v_lshlrev_b64" => i.b << (a & 63),
        "v_lshrrev_b64" => i.b >> (a & 63),
        "v_ashrrev_i64" => ((i.b as i64) >> (a & 63)) as u64,
        "v_and_b32" => (a & b).into(),
        "v_or_b32" => (a | b).into(),
        "v_xor_b32" => (a ^ b).into(),
        "v_xnor_b32" => (!(a ^ b)).into(),
        "v_and_b16" => ((a & b) as u16).into(),
        "v_or_b16" => ((a | b) as u16).into(),
        "v_xor_b16" => ((a ^ b) as u16).into(),
        "v_bfe_u32" => (u64::from(a) >> (b & 31)) & ((1 << (c & 31)) - 1),
        "v_bfe_i32" => {
            let width = c & 31;
            let field = (i64::from(a as i32) >> (b & 31)) as u64;
            if width == 0 { 0 } else { wide(field, width, true) as u64 & 0xffff_ffff }
        }
        "v_bfi_b32" => (a & b | !a & c).into(),
        "v_bfm_b32" => u64::from(((1u32 << (a & 31)) - 1) << (b & 31)),
        "v_bcnt_u32_b32" => a.count_ones().wrapping_add(b).into(),
        "v_mbcnt_lo_u32_b32" => {
            let below = if i.lane >= 32 { u32::MAX } else { (1 << i.lane) - 1 };
            (a & below).count_ones().wrapping_add(b).into()
        }
        "v_mbcnt_hi_u32_b32" => {
            let below = if i.lane >= 32 { (1u64 << (i.lane - 32)) as u32 - 1 } else { 0 };
            (a & below).count_ones().wrapping_add(b).into()
        }
        "v_lerp_u8" => {
            let part = |n: u32| ((a >> n & 0xff) + (b >> n & 0xff) + (c >> n & 1)) >> 1 << n;
            (part(0) | part(8) | part(16) | part(24)).into()
        }
        "v_alignbit_b32" => double >> (c & 31) & 0xffff_ffff,
        "v_alignbyte_b32" => double >> (8 * (c & 3)) & 0xffff_ffff,
        "v_sad_u8" => sad(a, b).wrapping_add(c).into(),
        "v_sad_hi_u8" => (sad(a, b) << 16).wrapping_add(c).into(),
        "v_sad_u16" => {
            let part = |n: u32| u32::from(((a >> n) as u16).abs_diff((b >> n) as u16));
            part(0).wrapping_add(part(16)).wrapping_add(c).into()
        }
        "v_sad_u32" => a.abs_diff(b).wrapping_add(c).into(),
        "v_msad_u8" => masked_sad(a, b).wrapping_add(c).into(),
        "v_qsad_pk_u16_u8" => quad(&sad),
        "v_mqsad_pk_u16_u8" => quad(&masked_sad),
        "v_perm_b32" => {
            let select = |selector: u8| match selector {
                0..=7 => (double >> (8 * selector)) as u8,
                8..=11 => {
                    if double >> (16 * (selector - 8) + 15) & 1 != 0 {
                        0xff
                    } else {
                        0
                    }
                }
                12 => 0,
                _ => 0xff,
            };
            u32::from_le_bytes(bytes(c).map(select)).into()
        }
        "v_xad_u32" => (a ^ b).wrapping_add(c).into(),
        "v_lshl_add_u32" => (a << (b & 31)).wrapping_add(c).into(),
        "v_add_lshl_u32" => (a.wrapping_add(b) << (c & 31)).into(),
        "v_add3_u32" => a.wrapping_add(b).wrapping_add(c).into(),
        "v_lshl_or_b32" => ((a << (b & 31)) | c).into(),
        "v_and_or_b32" => (a & b | c).into(),
        "v_or3_b32" => (a | b | c).into(),
        "v_xor3_b32" => (a ^ b ^ c).into(),
        _ => return None,
    })
}

/// `min`, `max`, `med3` and the like of integers.
fn extremum(name: &str, i: &In) -> Option<u64> {
    let (stem, ty) = name.rsplit_once('_')?;
    let bits = match ty {
        "u16" | "i16" => 16,
        "u32" | "i32" => 32,
        "u64" | "i64" => 64,
        _ => return None,
    };
    let get = |value| wide(value, bits, ty.starts_with('i'));
    let (a, b, c) = (get(i.a), get(i.b), get(i.c));
    let (least, most) =
        if ty.starts_with('i') { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let saturated_sum: i128 = (a + b).clamp(least, most);
    let value = match stem {
        "v_min" => a.min(b),
        "v_max" => a.max(b),
        "v_min3" => a.min(b).min(c),
        "v_max3" => a.max(b).max(c),
        "v_med3" => a.min(b).max(a.max(b).min(c)),
        "v_minmax" => a.min(b).max(c),
        "v_maxmin" => a.max(b).min(c),
        "v_add_max" => saturated_sum.max(c),
        "v_add_min" => saturated_sum.min(c),
        _ => return None,
    };
    Some(value as u64 & (u64::MAX >> (64 - bits)))
}

fn convert(name: &str, i: &In) -> Option<u64> {
    let a = i.a as u32;
    let (x16, x32, x64) = (F16.get(i.a), F32.get(i.a), F64.get(i.a));
    let (y16, y32) = (F16.get(i.b), F32.get(i.b));
    let pair = |low: u64, high: u64| low & 0xffff | (high & 0xffff) << 16;
    let i32_of = |x: f64| num::to_integer(x, i32::MIN.into(), i32::MAX.into()) as u64 & 0xffff_ffff;
    let u32_of = |x: f64| num::to_integer(x, 0, u32::MAX.into()) as u64;
    let i16_of = |x: f64| num::to_integer(x, i16::MIN.into(), i16::MAX.into()) as u64 & 0xffff;
    let u16_of = |x: f64| num::to_integer(x, 0, u16::MAX.into()) as u64;
    let snorm = |x: f64| i16_of((x.clamp(-1.0, 1.0) * 32767.0).round_ties_even());
    let unorm = |x: f64| u16_of((x.clamp(0.0, 1.0) * 65535.0).round_ties_even());
    Some(match name {
        "v_cvt_i32_f64" => i32_of(x64),
        "v_cvt_u32_f64" => u32_of(x64),
        "v_cvt_i32_f32" => i32_of(x32),
        "v_cvt_u32_f32" => u32_of(x32),
        "v_cvt_i16_f16" => i16_of(x16),
        "v_cvt_u16_f16" => u16_of(x16),
        "v_cvt_nearest_i32_f32" => i32_of(F32.get(F32.round(x32 + 0.5)).floor()),
        "v_cvt_floor_i32_f32" => i32_of(x32.floor()),
        "v_cvt_f64_i32" => f64::from(a as i32).to_bits(),
        "v_cvt_f64_u32" => f64::from(a).to_bits(),
        "v_cvt_f32_i32" => F32.round(f64::from(a as i32)),
        "v_cvt_f32_u32" => F32.round(f64::from(a)),
        "v_cvt_f16_u16" => F16.round(f64::from(a as u16)),
        "v_cvt_f16_i16" => F16.round(f64::from(a as i16)),
        "v_cvt_f32_ubyte0" | "v_cvt_f32_ubyte1" | "v_cvt_f32_ubyte2" | "v_cvt_f32_ubyte3" => {
            let at = name.as_bytes()[name.len() - 1] - b'0';
            F32.round(f64::from(a.to_le_bytes()[usize::from(at)]))
        }
        // Two's complement sixteenths.
        "v_cvt_off_f32_i4" => F32.round(wide(i.a, 4, true) as f64 / 16.0),
        "v_cvt_f16_f32" => F16.round(x32),
        "v_cvt_f32_f16" => F32.round(x16),
        "v_cvt_f32_f64" => F32.round(x64),
        "v_cvt_f64_f32" => F64.round(x32),
        "v_cvt_i32_i16" => wide(i.a, 16, true) as u64 & 0xffff_ffff,
        "v_cvt_u32_u16" => (a as u16).into(),
        "v_cvt_norm_i16_f16" => snorm(x16),
        "v_cvt_norm_u16_f16" => unorm(x16),
        "v_cvt_pk_norm_i16_f16" => pair(snorm(x16), snorm(y16)),
        "v_cvt_pk_norm_u16_f16" => pair(unorm(x16), unorm(y16)),
        "v_cvt_pk_norm_i16_f32" => pair(snorm(x32), snorm(y32)),
        "v_cvt_pk_norm_u16_f32" => pair(unorm(x32), unorm(y32)),
        "v_cvt_pk_i16_f32" => pair(i16_of(x32), i16_of(y32)),
        "v_cvt_pk_u16_f32" => pair(u16_of(x32), u16_of(y32)),
        "v_cvt_pk_i16_i32" => {
            let cut = |x: u64| wide(x, 32, true).clamp(-0x8000, 0x7fff) as u64;
            pair(cut(i.a), cut(i.b))
        }
        "v_cvt_pk_u16_u32" => {
            let cut = |x: u64| wide(x, 32, false).min(0xffff) as u64;
            pair(cut(i.a), cut(i.b))
        }
        "v_cvt_pk_rtz_f16_f32" => pair(F16.truncate(x32), F16.truncate(y32)),
        "v_cvt_pk_f16_f32" => pair(F16.round(x32), F16.round(y32)),
        "v_cvt_pk_bf16_f32" => pair(BF16.round(x32), BF16.round(y32)),
        "v_cvt_f32_bf16" => F32.round(BF16.get(i.a)),
        "v_cvt_f16_fp8" => F16.round(small_float(i.a as u8, 3, i.ocp)),
        "v_cvt_f16_bf8" => F16.round(small_float(i.a as u8, 2, i.ocp)),
        "v_cvt_pk_f16_fp8" | "v_cvt_pk_f16_bf8" => {
            let mantissa = if name.ends_with("fp8") { 3 } else { 2 };
            let part = |shift: u32| F16.round(small_float((i.a >> shift) as u8, mantissa, i.ocp));
            pair(part(0), part(8))
        }
        "v_cvt_pk_fp8_f16" | "v_cvt_pk_bf8_f16" => {
            let mantissa = if name.contains("_fp8") { 3 } else { 2 };
            to_small_float(x16, mantissa, i.ocp) | to_small_float(F16.get(i.a >> 16), mantissa, i.ocp) << 8
        }
        "v_cvt_f32_fp8" => F32.round(small_float(i.a as u8, 3, i.ocp)),
        "v_cvt_f32_bf8" => F32.round(small_float(i.a as u8, 2, i.ocp)),
        "v_cvt_pk_f32_fp8" | "v_cvt_pk_f32_bf8" => {
            let mantissa = if name.ends_with("fp8") { 3 } else { 2 };
            let part = |shift: u32| F32.round(small_float((i.a >> shift) as u8, mantissa, i.ocp));
            part(0) | part(8) << 32
        }
        "v_cvt_pk_fp8_f32" | "v_cvt_pk_bf8_f32" => {
            let mantissa = if name.ends_with("fp8_f32") { 3 } else { 2 };
            let of = |x: f64| to_small_float(x, mantissa, i.ocp);
            i.old & 0xffff_0000 | of(x32) | of(y32) << 8
        }
        "v_cvt_pkaccum_u8_f32" => {
            let shift = 8 * (i.b as u32 & 3);
            let byte = num::to_integer(x32, 0, 255) as u32;
            u64::from(i.old as u32 & !(0xff << shift) | byte << shift)
        }
        "v_cvt_pk_u8_f32" => {
            let shift = 8 * (i.b as u32 & 3);
            let byte = num::to_integer(x32, 0, 255) as u32;
            u64::from(i.c as u32 & !(0xff << shift) | byte << shift)
        }
        "v_mad_nc_u64_u32" => u64::from(i.a as u32).wrapping_mul(u64::from(i.b as u32)).wrapping_add(i.c),
        "v_mad_nc_i64_i32" => i64::from(i.a as i32).wrapping_mul(i64::from(i.b as i32)).wrapping_add(i.c as i64) as u64,
        "v_pack_b32_f16" => pair(i.a, i.b),
        "v_sat_pk_u8_i16" => {
            let cut = |x: u64| wide(x, 16, true).clamp(0, 255) as u64;
            cut(i.a) | cut(i.a >> 16) << 8
        }
        "v_dot2_f16_f16" => dot2(F16, F16, i),
        "v_dot2_bf16_bf16" => dot2(BF16, BF16, i),
        "v_dot2acc_f32_f16" => dot2(F16, F32, &In { c: i.old, ..*i }),
        _ => return None,
    })
}

/// A float of 8 bits. On gfx942 there are no infinities and 0x80 is the NaN; on gfx12 (`ocp`) the bias is one less, bf8
/// is as IEEE's formats are, and fp8 has no infinity and one NaN of each sign.
pub fn small_float(bits: u8, mantissa: u32, ocp: bool) -> f64 {
    let code = bits & 0x7f;
    let (exponent, fraction) = (i32::from(code) >> mantissa, f64::from(bits & ((1 << mantissa) - 1)));
    let unit = 2f64.powi(-(mantissa as i32));
    let bias = (1 << (6 - mantissa)) - i32::from(ocp);
    let magnitude = match exponent {
        _ if !ocp && bits == 0x80 || ocp && code > if mantissa == 3 { 0x7e } else { 0x7c } => f64::NAN,
        _ if ocp && mantissa == 2 && code == 0x7c => f64::INFINITY,
        0 => fraction * unit * 2f64.powi(1 - bias),
        n => (1.0 + fraction * unit) * 2f64.powi(n - bias),
    };
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// The nearest of all finite ones, the even one of two; half a step or more beyond the last one is NaN, or infinite.
pub fn to_small_float(value: f64, mantissa: u32, ocp: bool) -> u64 {
    let most = match (ocp, mantissa) {
        (false, _) => 0x7f,
        (true, 3) => 0x7e,
        (true, _) => 0x7b,
    };
    let get = |code: u8| small_float(code, mantissa, ocp);
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    // Half a step beyond the greatest number is even, or odd.
    let over = value.abs() - get(most) - (get(most) - get(most - 1)) / 2.0;
    if value.is_nan() || over > 0.0 || over == 0.0 && most & 1 != 0 {
        return match (ocp, mantissa) {
            (false, _) => 0x80,
            (true, 2) if !value.is_nan() => sign | 0x7c,
            (true, _) => sign | 0x7f,
        };
    }
    let distance = |code: u8| (get(code) - value.abs()).abs();
    let nearest = (0..=most).min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1)))).unwrap();
    u64::from(nearest) | if ocp || nearest != 0 { sign } else { 0 }
}

/// `c + a.low * b.low + a.high * b.high`, rounded after each step.
pub fn dot2(from: Format, to: Format, i: &In) -> u64 {
    let product = |shift: u32| from.get(i.a >> shift & 0xffff) * from.get(i.b >> shift & 0xffff);
    let low = to.round(add_product(to.get(i.c), product(0)));
    to.round(add_product(to.get(low), product(16)))
}

fn add_product(sum: f64, product: f64) -> f64 {
    num::add_odd(sum, product)
}
