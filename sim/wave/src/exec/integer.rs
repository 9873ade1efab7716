// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! 32-bit and 64-bit integer ops.

use super::valu::vops;

/// The low 24 bits, unsigned.
#[inline(always)]
fn u24(x: u32) -> u32 {
    x & 0x00ff_ffff
}

/// The low 24 bits, signed.
#[inline(always)]
fn i24(x: i32) -> i32 {
    x << 8 >> 8
}

/// Byte `i` of a dword.
#[inline(always)]
fn byte(x: u32, i: u32) -> u32 {
    x >> (8 * i) & 0xff
}

/// Bits `offset..offset + width`, unsigned.
#[inline(always)]
pub(super) fn bfe_u32(a: u32, offset: u32, width: u32) -> u32 {
    (a >> (offset & 31)) & ((1 << (width & 31)) - 1)
}

/// Bits `offset..offset + width`, sign-extended.
#[inline(always)]
pub(super) fn bfe_i32(a: u32, offset: u32, width: u32) -> u32 {
    let field = (a as i32 >> (offset & 31)) as u32 & ((1 << (width & 31)) - 1);
    let sign = (1u32 << (width & 31)) >> 1;
    (field ^ sign).wrapping_sub(sign)
}

#[inline(always)]
fn perm(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(a) << 32 | u64::from(b);
    let mut result = 0;
    for i in 0..4 {
        let sel = byte(selector, i);
        let value = match sel {
            0..=7 => (bytes >> (8 * sel)) as u32 & 0xff,
            8..=11 => 0xff * ((bytes >> (16 * (sel - 8) + 15)) as u32 & 1),
            12 => 0,
            _ => 0xff,
        };
        result |= value << (8 * i);
    }
    result
}

#[inline(always)]
fn sad_u8(a: u32, b: u32) -> u32 {
    (0..4).map(|i| byte(a, i).abs_diff(byte(b, i))).sum()
}

/// Sum of absolute differences where the reference byte is not zero.
#[inline(always)]
pub(super) fn msad_u8(a: u32, b: u32) -> u32 {
    (0..4).map(|i| if byte(b, i) == 0 { 0 } else { byte(a, i).abs_diff(byte(b, i)) }).sum()
}

/// Four 16-bit sums over a sliding window of bytes.
#[inline(always)]
fn quad(a: u64, b: u32, c: u64, sum: fn(u32, u32) -> u32) -> u64 {
    (0..4).fold(0, |result, i| {
        let total = u64::from(sum((a >> (8 * i)) as u32, b)) + (c >> (16 * i) & 0xffff);
        result | (total & 0xffff) << (16 * i)
    })
}

/// The next state of the generator of random numbers, a shift register (CDNA4 ISA, V_PRNG_B32).
#[inline(always)]
pub(super) fn prng(state: u32) -> u32 {
    state << 1 ^ if state >> 31 != 0 { 197 } else { 0 }
}

/// The low four bits of each byte.
#[inline(always)]
fn nibbles(bytes: [u8; 4]) -> u16 {
    (0..4).map(|i| u16::from(bytes[i] & 15) << (4 * i)).sum()
}

vops! {
    VMovB32(a: u32) -> u32 { a }
    VMovB64(a: u64) -> u64 { a }
    VAccvgprReadB32(a: u32) -> u32 { a }
    VAccvgprWriteB32(a: u32) -> u32 { a }
    VAccvgprMovB32(a: u32) -> u32 { a }
    VNotB32(a: u32) -> u32 { !a }
    VBfrevB32(a: u32) -> u32 { a.reverse_bits() }
    VClzI32U32(a: u32) -> i32 { if a == 0 { -1 } else { a.leading_zeros() as i32 } }
    VCtzI32B32(a: u32) -> i32 { if a == 0 { -1 } else { a.trailing_zeros() as i32 } }
    VClsI32(a: u32) -> i32 {
        let same = (a ^ (a as i32 >> 31) as u32).leading_zeros() as i32;
        if same == 32 { -1 } else { same }
    }
    VAndB32(a: u32, b: u32) -> u32 { a & b }
    VOrB32(a: u32, b: u32) -> u32 { a | b }
    VXorB32(a: u32, b: u32) -> u32 { a ^ b }
    VXnorB32(a: u32, b: u32) -> u32 { !(a ^ b) }
    VAddNcU32(a: u32, b: u32) -> u32 { a.wrapping_add(b) }
    VSubNcU32(a: u32, b: u32) -> u32 { a.wrapping_sub(b) }
    VSubrevNcU32(a: u32, b: u32) -> u32 { b.wrapping_sub(a) }
    VAddNcI32(a: u32, b: u32) -> u32 { a.wrapping_add(b) }
    VSubNcI32(a: u32, b: u32) -> u32 { a.wrapping_sub(b) }
    VMinI32(a: i32, b: i32) -> i32 { a.min(b) }
    VMaxI32(a: i32, b: i32) -> i32 { a.max(b) }
    VMinU32(a: u32, b: u32) -> u32 { a.min(b) }
    VMaxU32(a: u32, b: u32) -> u32 { a.max(b) }
    VMin3I32(a: i32, b: i32, c: i32) -> i32 { a.min(b).min(c) }
    VMax3I32(a: i32, b: i32, c: i32) -> i32 { a.max(b).max(c) }
    VMed3I32(a: i32, b: i32, c: i32) -> i32 { a.min(b).max(a.max(b).min(c)) }
    VMin3U32(a: u32, b: u32, c: u32) -> u32 { a.min(b).min(c) }
    VMax3U32(a: u32, b: u32, c: u32) -> u32 { a.max(b).max(c) }
    VMed3U32(a: u32, b: u32, c: u32) -> u32 { a.min(b).max(a.max(b).min(c)) }
    VMaxminU32(a: u32, b: u32, c: u32) -> u32 { a.max(b).min(c) }
    VMinmaxU32(a: u32, b: u32, c: u32) -> u32 { a.min(b).max(c) }
    VMaxminI32(a: i32, b: i32, c: i32) -> i32 { a.max(b).min(c) }
    VMinmaxI32(a: i32, b: i32, c: i32) -> i32 { a.min(b).max(c) }
    VMulI32I24(a: i32, b: i32) -> i32 { i24(a).wrapping_mul(i24(b)) }
    VMulHiI32I24(a: i32, b: i32) -> i32 { ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as i32 }
    VMulU32U24(a: u32, b: u32) -> u32 { u24(a).wrapping_mul(u24(b)) }
    VMulHiU32U24(a: u32, b: u32) -> u32 { ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32 }
    VMadI32I24(a: i32, b: i32, c: i32) -> i32 { i24(a).wrapping_mul(i24(b)).wrapping_add(c) }
    VMadU32U24(a: u32, b: u32, c: u32) -> u32 { u24(a).wrapping_mul(u24(b)).wrapping_add(c) }
    VMulLoU32(a: u32, b: u32) -> u32 { a.wrapping_mul(b) }
    VMadU32(a: u32, b: u32, c: u32) -> u32 { a.wrapping_mul(b).wrapping_add(c) }
    VMadNcU64U32(a: u32, b: u32, c: u64) -> u64 { (u64::from(a) * u64::from(b)).wrapping_add(c) }
    VMadNcI64I32(a: i32, b: i32, c: i64) -> i64 { (i64::from(a) * i64::from(b)).wrapping_add(c) }
    VMulLoI32(a: u32, b: u32) -> u32 { a.wrapping_mul(b) }
    VMulHiU32(a: u32, b: u32) -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 }
    VMulHiI32(a: i32, b: i32) -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 }
    VLshlrevB32(n: u32, a: u32) -> u32 { a << (n & 31) }
    VLshrrevB32(n: u32, a: u32) -> u32 { a >> (n & 31) }
    VAshrrevI32(n: u32, a: i32) -> i32 { a >> (n & 31) }
    VLshlrevB64(n: u32, a: u64) -> u64 { a << (n & 63) }
    VLshrrevB64(n: u32, a: u64) -> u64 { a >> (n & 63) }
    VAshrrevI64(n: u32, a: i64) -> i64 { a >> (n & 63) }
    VBfeU32(a: u32, b: u32, c: u32) -> u32 { bfe_u32(a, b, c) }
    VBfeI32(a: u32, b: u32, c: u32) -> u32 { bfe_i32(a, b, c) }
    VBfiB32(a: u32, b: u32, c: u32) -> u32 { (a & b) | (!a & c) }
    VBfmB32(a: u32, b: u32) -> u32 { ((1 << (a & 31)) - 1) << (b & 31) }
    VBcntU32B32(a: u32, b: u32) -> u32 { a.count_ones().wrapping_add(b) }
    VAlignbitB32(a: u32, b: u32, n: u16) -> u32 { ((u64::from(a) << 32 | u64::from(b)) >> (n & 31)) as u32 }
    VAlignbyteB32(a: u32, b: u32, n: u16) -> u32 { ((u64::from(a) << 32 | u64::from(b)) >> (8 * (n & 3))) as u32 }
    VPermB32(a: u32, b: u32, c: u32) -> u32 { perm(a, b, c) }
    VLerpU8(a: u32, b: u32, c: u32) -> u32 {
        (0..4).map(|i| ((byte(a, i) + byte(b, i) + (byte(c, i) & 1)) >> 1) << (8 * i)).sum()
    }
    VSadU8(a: u32, b: u32, c: u32) -> u32 { sad_u8(a, b).wrapping_add(c) }
    VSadHiU8(a: u32, b: u32, c: u32) -> u32 { (sad_u8(a, b) << 16).wrapping_add(c) }
    VSadU16(a: u32, b: u32, c: u32) -> u32 {
        (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
    }
    VSadU32(a: u32, b: u32, c: u32) -> u32 { a.abs_diff(b).wrapping_add(c) }
    VMsadU8(a: u32, b: u32, c: u32) -> u32 { msad_u8(a, b).wrapping_add(c) }
    VQsadPkU16U8(a: u64, b: u32, c: u64) -> u64 { quad(a, b, c, sad_u8) }
    VMqsadPkU16U8(a: u64, b: u32, c: u64) -> u64 { quad(a, b, c, msad_u8) }
    VXor3B32(a: u32, b: u32, c: u32) -> u32 { a ^ b ^ c }
    VXadU32(a: u32, b: u32, c: u32) -> u32 { (a ^ b).wrapping_add(c) }
    VAdd3U32(a: u32, b: u32, c: u32) -> u32 { a.wrapping_add(b).wrapping_add(c) }
    VOr3B32(a: u32, b: u32, c: u32) -> u32 { a | b | c }
    VAndOrB32(a: u32, b: u32, c: u32) -> u32 { (a & b) | c }
    VLshlAddU32(a: u32, n: u32, c: u32) -> u32 { (a << (n & 31)).wrapping_add(c) }
    VAddLshlU32(a: u32, b: u32, n: u32) -> u32 { a.wrapping_add(b) << (n & 31) }
    VLshlOrB32(a: u32, n: u32, c: u32) -> u32 { (a << (n & 31)) | c }
    VAddNcU64(a: u64, b: u64) -> u64 { a.wrapping_add(b) }
    VSubNcU64(a: u64, b: u64) -> u64 { a.wrapping_sub(b) }
    VMulU64(a: u64, b: u64) -> u64 { a.wrapping_mul(b) }
    VMinU64(a: u64, b: u64) -> u64 { a.min(b) }
    VMaxU64(a: u64, b: u64) -> u64 { a.max(b) }
    VMinI64(a: i64, b: i64) -> i64 { a.min(b) }
    VMaxI64(a: i64, b: i64) -> i64 { a.max(b) }
    VAddMaxU32(a: u32, b: u32, c: u32) -> u32 { a.saturating_add(b).max(c) }
    VAddMinU32(a: u32, b: u32, c: u32) -> u32 { a.saturating_add(b).min(c) }
    VAddMaxI32(a: i32, b: i32, c: i32) -> i32 { a.saturating_add(b).max(c) }
    VAddMinI32(a: i32, b: i32, c: i32) -> i32 { a.saturating_add(b).min(c) }
    VAshrPkI8I32(a: i32, b: i32, n: u32) -> u16 {
        u16::from_le_bytes([a, b].map(|x| (x >> (n & 31)).clamp(-128, 127) as u8))
    }
    VAshrPkU8I32(a: i32, b: i32, n: u32) -> u16 { u16::from_le_bytes([a, b].map(|x| (x >> (n & 31)).clamp(0, 255) as u8)) }
    VPrngB32(a: u32) -> u32 { prng(a) }
    VSatPk4I4I8(a: u32) -> u16 { nibbles(a.to_le_bytes().map(|x| (x as i8).clamp(-8, 7) as u8)) }
    VSatPk4U4U8(a: u32) -> u16 { nibbles(a.to_le_bytes().map(|x| x.min(15))) }
    VLshlAddU64(a: u64, n: u32, c: u64) -> u64 { (a << (n & 7)).wrapping_add(c) }
}

/// The forms with `clamp`, which saturate.
mod clamped {
    use super::{i24, u24, vops};

    vops! {
        VAddNcU32(a: u32, b: u32) -> u32 { a.saturating_add(b) }
        VSubNcU32(a: u32, b: u32) -> u32 { a.saturating_sub(b) }
        VSubrevNcU32(a: u32, b: u32) -> u32 { b.saturating_sub(a) }
        VAddNcI32(a: i32, b: i32) -> i32 { a.saturating_add(b) }
        VSubNcI32(a: i32, b: i32) -> i32 { a.saturating_sub(b) }
        VAddNcU16(a: u16, b: u16) -> u16 { a.saturating_add(b) }
        VSubNcU16(a: u16, b: u16) -> u16 { a.saturating_sub(b) }
        VAddNcI16(a: i16, b: i16) -> i16 { a.saturating_add(b) }
        VSubNcI16(a: i16, b: i16) -> i16 { a.saturating_sub(b) }
        VAddNcU64(a: u64, b: u64) -> u64 { a.saturating_add(b) }
        VSubNcU64(a: u64, b: u64) -> u64 { a.saturating_sub(b) }
        VAddMaxU32(a: u32, b: u32, c: u32) -> u32 { a.saturating_add(b).max(c) }
        VAddMinU32(a: u32, b: u32, c: u32) -> u32 { a.saturating_add(b).min(c) }
        VAddMaxI32(a: i32, b: i32, c: i32) -> i32 { a.saturating_add(b).max(c).max(0) }
        VAddMinI32(a: i32, b: i32, c: i32) -> i32 { a.saturating_add(b).min(c).max(0) }
        VMadU32U24(a: u32, b: u32, c: u32) -> u32 {
            (u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c)).min(u64::from(u32::MAX)) as u32
        }
        VMadI32I24(a: i32, b: i32, c: i32) -> i32 {
            (i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
        }
        VMadU16(a: u16, b: u16, c: u16) -> u16 { (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16 }
        VMadI16(a: i16, b: i16, c: i16) -> i16 {
            (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-0x8000, 0x7fff) as i16
        }
    }
}

pub(super) use clamped::handler as saturating;
