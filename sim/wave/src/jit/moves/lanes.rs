// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kinds of data and patterns, and helpers for lanes.

use std::arch::x86_64::*;

/// So many dwords less one of each lane, to as many rows.
pub(in super::super) const LOAD: usize = 0;
pub(in super::super) const LOAD_U8: usize = 4;
pub(in super::super) const LOAD_I8: usize = 5;
pub(in super::super) const LOAD_U16: usize = 6;
pub(in super::super) const LOAD_I16: usize = 7;
/// To the lower half of a row, or the upper one.
pub(in super::super) const LOAD_LOW: usize = 8;
pub(in super::super) const LOAD_HIGH: usize = 9;
/// So many dwords less one.
pub(in super::super) const STORE: usize = 10;
pub(in super::super) const STORE_8: usize = 14;
pub(in super::super) const STORE_16: usize = 15;
/// Upper halves.
pub(in super::super) const STORE_HIGH: usize = 16;
/// Two dwords of each lane, with elements of 16 bits or 8, to two rows: a tile with columns in and rows out, as gfx950
/// has it. These are moves of all lanes only.
pub(in super::super) const LOAD_TILE_16: usize = 17;
pub(in super::super) const LOAD_TILE_8: usize = 18;

// How offsets lie.
pub(super) const ANYHOW: u8 = 0;
/// All are the same.
pub(super) const UNIFORM: u8 = 1;
/// Each four neighbours have the same.
pub(super) const FOURS: u8 = 2;
/// Each is one stride above the last one's.
pub(super) const LINE: u8 = 3;
/// So 16 are, or they lie anyhow if the stride is 0; others repeat them.
pub(super) const LINE_16: u8 = 4;
/// So eight are, or they lie anyhow if the stride is 0; others repeat them.
pub(super) const LINE_8: u8 = 5;
/// Each 16 neighbours' are one stride apart.
pub(super) const LINES: u8 = 6;
/// In lanes 16 apart each is 4 above the last one.
pub(super) const COLUMNS: u8 = 7;

/// Lanes that a vector register has.
pub(super) const PART: usize = 8;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn equal(a: __m256i, b: __m256i) -> bool {
    _mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b)) == -1
}

/// The numbers of eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lane_numbers() -> __m256i {
    _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)
}

/// Address of a lane's bytes.
#[inline(always)]
pub(super) unsafe fn at(host: u64, offsets: *const u32, lane: usize) -> *mut u8 {
    // SAFETY: by the contract of `Move` a row.
    let offset = unsafe { *offsets.add(lane) };
    host.wrapping_add(offset.into()) as *mut u8
}

/// Loads 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn wide(from: *const u8) -> __m256i {
    // SAFETY: by the caller's contract.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn quad(from: *const u8) -> __m128i {
    // SAFETY: by the caller's contract.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// Two of 16 bytes each, in this order.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn two_quads(low: __m128i, high: __m128i) -> __m256i {
    _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)
}

/// Both halves.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn quads(all: __m256i) -> [__m128i; 2] {
    [_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)]
}

/// Two dwords of each four of two registers: 0 and 2, or 1 and 3.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn alternate<const ODD: bool>(a: __m256i, b: __m256i) -> __m256i {
    let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    _mm256_castps_si256(if ODD { _mm256_shuffle_ps(a, b, 0xdd) } else { _mm256_shuffle_ps(a, b, 0x88) })
}

/// A part of row `n`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn row<const L: usize>(data: *const u32, n: usize, part: usize) -> __m256i {
    // SAFETY: by the caller's contract.
    unsafe { wide(data.add(n * L + PART * part).cast()) }
}

/// Writes a part of row `n`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn put<const L: usize>(data: *mut u32, n: usize, part: usize, value: __m256i) {
    // SAFETY: by the caller's contract.
    unsafe { _mm256_storeu_si256(data.add(n * L + PART * part).cast(), value) };
}

/// Exchanges rows and columns of each four by four dwords.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transpose(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [__m256i; 4] {
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}
