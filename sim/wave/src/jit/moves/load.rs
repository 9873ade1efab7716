// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Loads to rows.

use super::lanes::*;
use std::arch::x86_64::*;

/// Four of 16 bytes each, in this order.
#[inline]
#[target_feature(enable = "avx512f")]
fn fours(a: __m128i, b: __m128i, c: __m128i, d: __m128i) -> __m512i {
    let low = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
    let high = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
    _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)
}

/// Every `stride`th of 32 dwords from `first` on, `lanes` of them, again and again.
const fn every(first: i32, stride: i32, lanes: i32) -> [i32; 16] {
    let mut places = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        places[lane] = (first + stride * (lane as i32 % lanes)) & 31;
        lane += 1;
    }
    places
}

/// A dword of a lane and of three that follow it.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn one(host: u64, offsets: *const u32, lane: usize) -> __m128i {
    // SAFETY: by the caller's contract.
    unsafe {
        let first = at(host, offsets, lane).cast::<i32>().read_unaligned();
        let second = at(host, offsets, lane + 1).cast::<i32>().read_unaligned();
        let third = at(host, offsets, lane + 2).cast::<i32>().read_unaligned();
        let fourth = at(host, offsets, lane + 3).cast::<i32>().read_unaligned();
        _mm_set_epi32(fourth, third, second, first)
    }
}

/// Two dwords of a lane and of the next one.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn two(host: u64, offsets: *const u32, lane: usize) -> __m128i {
    // SAFETY: by the caller's contract.
    unsafe {
        let (low, high) = (at(host, offsets, lane).cast::<i64>(), at(host, offsets, lane + 1).cast::<i64>());
        _mm_set_epi64x(high.read_unaligned(), low.read_unaligned())
    }
}

/// Two dwords of each fourth lane from `lane` on, and of those that follow them.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pairs_of_lanes(host: u64, offsets: *const u32, lane: usize) -> __m512i {
    // SAFETY: by the caller's contract.
    unsafe {
        fours(
            two(host, offsets, lane),
            two(host, offsets, lane + 4),
            two(host, offsets, lane + 8),
            two(host, offsets, lane + 12),
        )
    }
}

/// Four dwords of each fourth lane from `lane` on.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn column(host: u64, offsets: *const u32, lane: usize) -> __m512i {
    // SAFETY: by the caller's contract.
    unsafe {
        fours(
            quad(at(host, offsets, lane)),
            quad(at(host, offsets, lane + 4)),
            quad(at(host, offsets, lane + 8)),
            quad(at(host, offsets, lane + 12)),
        )
    }
}

/// Four dwords of a lane and of the fourth one behind it.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lane_and_fifth(host: u64, offsets: *const u32, lane: usize) -> __m256i {
    // SAFETY: by the caller's contract.
    unsafe {
        let low = _mm256_castsi128_si256(quad(at(host, offsets, lane)));
        _mm256_inserti128_si256(low, quad(at(host, offsets, lane + 4)), 1)
    }
}

/// Writes the only part of row `n` that is loaded, or all, which are the same.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn place<const KIND: u8, const L: usize>(data: *mut u32, n: usize, part: usize, value: __m512i) {
    // SAFETY: by the caller's contract.
    unsafe {
        if matches!(KIND, UNIFORM | LINE_16 | LINE_8) {
            for part in 0..L / 16 {
                put::<L>(data, n, part, value);
            }
        } else {
            put::<L>(data, n, part, value);
        }
    }
}

/// Writes each dword of 16 bytes to a row's four lanes of these.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn spread<const KIND: u8, const L: usize>(data: *mut u32, part: usize, value: __m512i) {
    // SAFETY: by the caller's contract.
    unsafe {
        place::<KIND, L>(data, 0, part, _mm512_shuffle_epi32(value, 0x00));
        place::<KIND, L>(data, 1, part, _mm512_shuffle_epi32(value, 0x55));
        place::<KIND, L>(data, 2, part, _mm512_shuffle_epi32(value, 0xaa));
        place::<KIND, L>(data, 3, part, _mm512_shuffle_epi32(value, 0xff));
    }
}

/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx512f")]
pub(super) unsafe extern "sysv64" fn load<const KIND: u8, const STRIDE: usize, const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    let is_line = STRIDE == 4 * DWORDS;
    // Parts of rows that differ.
    let parts = if matches!(KIND, UNIFORM | LINE_16 | LINE_8) { 1 } else { L / 16 };
    // SAFETY: by this function's contract: each lane's bytes, which are next to the others' in lines and columns.
    unsafe {
        if KIND == COLUMNS && DWORDS == 1 {
            let (a, b) = (column(host, offsets, 0), column(host, offsets, 1));
            let (c, d) = (column(host, offsets, 2), column(host, offsets, 3));
            let [a, b, c, d] = transpose(a, b, c, d);
            put::<L>(data, 0, 0, a);
            put::<L>(data, 0, 1, b);
            put::<L>(data, 0, 2, c);
            put::<L>(data, 0, 3, d);
            return;
        }
        let start = at(host, offsets, 0);
        for part in 0..parts {
            let lane = 16 * part;
            let from = if KIND == LINES { at(host, offsets, lane) } else { start.wrapping_add(16 * STRIDE * part) };
            match (KIND, DWORDS) {
                (UNIFORM, 4) => spread::<KIND, L>(data, part, _mm512_broadcast_i32x4(quad(start))),
                (UNIFORM, 2) => {
                    let value = _mm512_set1_epi64(start.cast::<i64>().read_unaligned());
                    place::<KIND, L>(data, 0, part, _mm512_shuffle_epi32(value, 0xa0));
                    place::<KIND, L>(data, 1, part, _mm512_shuffle_epi32(value, 0xf5));
                }
                (UNIFORM, 1) => {
                    place::<KIND, L>(data, 0, part, _mm512_set1_epi32(start.cast::<i32>().read_unaligned()));
                }
                (LINE | LINE_16 | LINES, 1) if is_line => place::<KIND, L>(data, 0, part, wide(from)),
                (LINE_8, 1) if is_line => {
                    let value = _mm256_loadu_si256(start.cast());
                    place::<KIND, L>(data, 0, part, _mm512_broadcast_i64x4(value));
                }
                (LINE | LINE_16, 2) if is_line => {
                    let (a, b) = (wide(from), wide(from.add(64)));
                    place::<KIND, L>(data, 0, part, permute(a, b, const { &every(0, 2, 16) }));
                    place::<KIND, L>(data, 1, part, permute(a, b, const { &every(1, 2, 16) }));
                }
                (LINE_8, 2) if is_line => {
                    let a = wide(start);
                    place::<KIND, L>(data, 0, part, permute(a, a, const { &every(0, 2, 8) }));
                    place::<KIND, L>(data, 1, part, permute(a, a, const { &every(1, 2, 8) }));
                }
                (LINE | LINE_16, 4) if is_line => {
                    let (a, b) = (wide(from), wide(from.add(64)));
                    let (c, d) = (wide(from.add(128)), wide(from.add(192)));
                    let (low, high) = (permute(a, b, const { &pairs(0) }), permute(c, d, const { &pairs(0) }));
                    place::<KIND, L>(data, 0, part, _mm512_shuffle_i64x2(low, high, 0x44));
                    place::<KIND, L>(data, 1, part, _mm512_shuffle_i64x2(low, high, 0xee));
                    let (low, high) = (permute(a, b, const { &pairs(2) }), permute(c, d, const { &pairs(2) }));
                    place::<KIND, L>(data, 2, part, _mm512_shuffle_i64x2(low, high, 0x44));
                    place::<KIND, L>(data, 3, part, _mm512_shuffle_i64x2(low, high, 0xee));
                }
                (LINE_8, 4) if is_line => {
                    let (a, b) = (wide(start), wide(start.add(64)));
                    place::<KIND, L>(data, 0, part, permute(a, b, const { &every(0, 4, 8) }));
                    place::<KIND, L>(data, 1, part, permute(a, b, const { &every(1, 4, 8) }));
                    place::<KIND, L>(data, 2, part, permute(a, b, const { &every(2, 4, 8) }));
                    place::<KIND, L>(data, 3, part, permute(a, b, const { &every(3, 4, 8) }));
                }
                (LINE_8, 4) => {
                    let (a, b) = (lane_and_fifth(host, offsets, 0), lane_and_fifth(host, offsets, 1));
                    let (c, d) = (lane_and_fifth(host, offsets, 2), lane_and_fifth(host, offsets, 3));
                    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
                    place::<KIND, L>(data, 0, part, _mm512_broadcast_i64x4(_mm256_unpacklo_epi64(ab, cd)));
                    place::<KIND, L>(data, 1, part, _mm512_broadcast_i64x4(_mm256_unpackhi_epi64(ab, cd)));
                    let (ab, cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
                    place::<KIND, L>(data, 2, part, _mm512_broadcast_i64x4(_mm256_unpacklo_epi64(ab, cd)));
                    place::<KIND, L>(data, 3, part, _mm512_broadcast_i64x4(_mm256_unpackhi_epi64(ab, cd)));
                }
                (FOURS, 4) => spread::<KIND, L>(data, part, column(host, offsets, lane)),
                (_, 4) => {
                    let (a, b) = (column(host, offsets, lane), column(host, offsets, lane + 1));
                    let (c, d) = (column(host, offsets, lane + 2), column(host, offsets, lane + 3));
                    let [a, b, c, d] = transpose(a, b, c, d);
                    place::<KIND, L>(data, 0, part, a);
                    place::<KIND, L>(data, 1, part, b);
                    place::<KIND, L>(data, 2, part, c);
                    place::<KIND, L>(data, 3, part, d);
                }
                (_, 2) => {
                    let a = _mm512_castsi512_ps(pairs_of_lanes(host, offsets, lane));
                    let b = _mm512_castsi512_ps(pairs_of_lanes(host, offsets, lane + 2));
                    place::<KIND, L>(data, 0, part, _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)));
                    place::<KIND, L>(data, 1, part, _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
                }
                (_, 1) => {
                    // Faster than gathers.
                    let value = fours(
                        one(host, offsets, lane),
                        one(host, offsets, lane + 4),
                        one(host, offsets, lane + 8),
                        one(host, offsets, lane + 12),
                    );
                    place::<KIND, L>(data, 0, part, value);
                }
                _ => {
                    let end = if parts == 1 { L } else { lane + 16 };
                    for n in lane..end {
                        let from = at(host, offsets, n);
                        let first = from.cast::<u64>().read_unaligned();
                        let last = from.add(8).cast::<u32>().read_unaligned();
                        *data.add(n) = first as u32;
                        *data.add(L + n) = (first >> 32) as u32;
                        *data.add(2 * L + n) = last;
                    }
                }
            }
        }
    }
}

/// Permutation to dwords `n` and `n + 1` of four in each of eight lanes: first all `n`, then all `n + 1`.
const fn pairs(n: i32) -> [i32; 16] {
    let mut places = [0; 16];
    let mut lane = 0;
    while lane < 8 {
        places[lane] = n + 4 * lane as i32;
        places[8 + lane] = n + 1 + 4 * lane as i32;
        lane += 1;
    }
    places
}

/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx512f")]
pub(super) unsafe extern "sysv64" fn load_small<
    const KIND: u8,
    const STRIDE: usize,
    const WHAT: usize,
    const L: usize,
>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    let is_byte = matches!(WHAT, LOAD_U8 | LOAD_I8);
    let is_line = matches!(KIND, LINE | LINE_16 | LINES) && STRIDE == if is_byte { 1 } else { 2 };
    // SAFETY: by this function's contract.
    unsafe {
        let start = at(host, offsets, 0);
        if KIND != UNIFORM && !is_line {
            for lane in 0..L {
                let (from, to) = (at(host, offsets, lane), data.add(lane));
                let half = to.cast::<u16>();
                match WHAT {
                    LOAD_U8 => *to = u32::from(*from),
                    LOAD_I8 => *to = *from.cast::<i8>() as u32,
                    LOAD_U16 => *to = u32::from(from.cast::<u16>().read_unaligned()),
                    LOAD_I16 => *to = from.cast::<i16>().read_unaligned() as u32,
                    LOAD_LOW => *half = from.cast::<u16>().read_unaligned(),
                    _ => *half.add(1) = from.cast::<u16>().read_unaligned(),
                }
            }
            return;
        }
        let mut value = match KIND {
            UNIFORM if is_byte => _mm512_set1_epi32((*start).into()),
            UNIFORM => _mm512_set1_epi32(start.cast::<u16>().read_unaligned().into()),
            _ => _mm512_setzero_si512(),
        };
        for part in 0..L / 16 {
            if is_line && (part == 0 || KIND != LINE_16) {
                let from = if KIND == LINES { at(host, offsets, 16 * part) } else { start.add(16 * STRIDE * part) };
                value = match is_byte {
                    true => _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())),
                    false => _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())),
                };
            }
            let old = row::<L>(data, 0, part);
            let result = match WHAT {
                LOAD_I8 => _mm512_srai_epi32(_mm512_slli_epi32(value, 24), 24),
                LOAD_I16 => _mm512_srai_epi32(_mm512_slli_epi32(value, 16), 16),
                LOAD_LOW => _mm512_or_si512(_mm512_slli_epi32(_mm512_srli_epi32(old, 16), 16), value),
                LOAD_HIGH => {
                    let low = _mm512_srli_epi32(_mm512_slli_epi32(old, 16), 16);
                    _mm512_or_si512(low, _mm512_slli_epi32(value, 16))
                }
                _ => value,
            };
            put::<L>(data, 0, part, result);
        }
    }
}
