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

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn equal(a: __m512i, b: __m512i) -> bool {
    _mm512_cmpneq_epi32_mask(a, b) == 0
}

/// The numbers of 16 lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lane_numbers() -> __m512i {
    _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
}

/// Address of a lane's bytes.
#[inline(always)]
pub(super) unsafe fn at(host: u64, offsets: *const u32, lane: usize) -> *mut u8 {
    // SAFETY: by the contract of `Move` a row.
    let offset = unsafe { *offsets.add(lane) };
    host.wrapping_add(offset.into()) as *mut u8
}

/// A permutation of the dwords of two vectors, each of which is four bits and a bit that is set for the second one.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn permute(a: __m512i, b: __m512i, places: &[i32; 16]) -> __m512i {
    // SAFETY: it has 16 dwords.
    _mm512_permutex2var_epi32(a, unsafe { _mm512_loadu_si512(places.as_ptr().cast()) }, b)
}

/// Loads 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn wide(from: *const u8) -> __m512i {
    // SAFETY: by the caller's contract.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn quad(from: *const u8) -> __m128i {
    // SAFETY: by the caller's contract.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// Writes a part of row `n`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn put<const L: usize>(data: *mut u32, n: usize, part: usize, value: __m512i) {
    // SAFETY: by the caller's contract.
    unsafe { _mm512_storeu_si512(data.add(n * L + 16 * part).cast(), value) };
}

/// Exchanges rows and columns of each four by four dwords.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// A part of row `n`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn row<const L: usize>(data: *const u32, n: usize, part: usize) -> __m512i {
    // SAFETY: by the caller's contract.
    unsafe { _mm512_loadu_si512(data.add(n * L + 16 * part).cast()) }
}

/// The four parts of 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn quads(all: __m512i) -> [__m128i; 4] {
    [
        _mm512_castsi512_si128(all),
        _mm512_extracti32x4_epi32(all, 1),
        _mm512_extracti32x4_epi32(all, 2),
        _mm512_extracti32x4_epi32(all, 3),
    ]
}
