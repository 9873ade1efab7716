// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Loads to rows.

use super::lanes::*;
use std::arch::x86_64::*;

/// A dword of a lane and of three that follow it.
#[inline]
#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
unsafe fn two(host: u64, offsets: *const u32, lane: usize) -> __m128i {
    // SAFETY: by the caller's contract.
    unsafe {
        let (low, high) = (at(host, offsets, lane).cast::<i64>(), at(host, offsets, lane + 1).cast::<i64>());
        _mm_set_epi64x(high.read_unaligned(), low.read_unaligned())
    }
}

/// Four dwords of a lane and of the fourth one behind it.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lane_and_fifth(host: u64, offsets: *const u32, lane: usize) -> __m256i {
    // SAFETY: by the caller's contract.
    unsafe { two_quads(quad(at(host, offsets, lane)), quad(at(host, offsets, lane + 4))) }
}

/// Four dwords of each of eight lanes from `lane` on, by their number in the four.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four_of_lanes(host: u64, offsets: *const u32, lane: usize) -> [__m256i; 4] {
    // SAFETY: by the caller's contract.
    unsafe {
        transpose(
            lane_and_fifth(host, offsets, lane),
            lane_and_fifth(host, offsets, lane + 1),
            lane_and_fifth(host, offsets, lane + 2),
            lane_and_fifth(host, offsets, lane + 3),
        )
    }
}

/// `DWORDS` dwords of each of eight lanes from `lane` on, by their number.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn any_lanes<const DWORDS: usize>(host: u64, offsets: *const u32, lane: usize) -> [__m256i; DWORDS] {
    let mut values = [_mm256_setzero_si256(); DWORDS];
    // SAFETY: by the caller's contract.
    unsafe {
        match DWORDS {
            // Faster than gathers.
            1 => values[0] = two_quads(one(host, offsets, lane), one(host, offsets, lane + 4)),
            2 => {
                let low = two_quads(two(host, offsets, lane), two(host, offsets, lane + 4));
                let high = two_quads(two(host, offsets, lane + 2), two(host, offsets, lane + 6));
                values.copy_from_slice(&[alternate::<false>(low, high), alternate::<true>(low, high)]);
            }
            3 => {
                values[..2].copy_from_slice(&any_lanes::<2>(host, offsets, lane));
                values[2..].copy_from_slice(&any_lanes::<1>(host.wrapping_add(8), offsets, lane));
            }
            _ => values.copy_from_slice(&four_of_lanes(host, offsets, lane)),
        }
    }
    values
}

/// A byte or word of a lane.
#[inline(always)]
pub(super) unsafe fn load_small_lane<const WHAT: usize>(data: *mut u32, host: u64, offsets: *const u32, lane: usize) {
    // SAFETY: by the caller's contract.
    unsafe {
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
}

/// Writes a part of row `n`, and all others that are the same.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn place<const KIND: u8, const L: usize>(data: *mut u32, n: usize, part: usize, value: __m256i) {
    let step = L / PART / copies::<KIND, L>();
    for copy in 0..copies::<KIND, L>() {
        // SAFETY: by the caller's contract.
        unsafe { put::<L>(data, n, part + step * copy, value) };
    }
}

/// The times that the parts of a row which differ are there.
const fn copies<const KIND: u8, const L: usize>() -> usize {
    match KIND {
        UNIFORM | LINE_8 => L / PART,
        LINE_16 => L / PART / 2,
        _ => 1,
    }
}

/// Writes each dword of 16 bytes to a row's four lanes of these.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn spread<const KIND: u8, const L: usize>(data: *mut u32, part: usize, value: __m256i) {
    // SAFETY: by the caller's contract.
    unsafe {
        place::<KIND, L>(data, 0, part, _mm256_shuffle_epi32(value, 0x00));
        place::<KIND, L>(data, 1, part, _mm256_shuffle_epi32(value, 0x55));
        place::<KIND, L>(data, 2, part, _mm256_shuffle_epi32(value, 0xaa));
        place::<KIND, L>(data, 3, part, _mm256_shuffle_epi32(value, 0xff));
    }
}

/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx2")]
pub(super) unsafe extern "sysv64" fn load<const KIND: u8, const STRIDE: usize, const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    let is_line = matches!(KIND, LINE | LINE_16 | LINE_8 | LINES) && STRIDE == 4 * DWORDS;
    // SAFETY: by this function's contract: each lane's bytes, which are next to the others' in lines and columns.
    unsafe {
        if KIND == COLUMNS && DWORDS == 1 {
            for half in 0..2 {
                let rows = four_of_lanes(host, offsets, PART * half);
                for (n, row) in rows.into_iter().enumerate() {
                    put::<L>(data, 0, 2 * n + half, row);
                }
            }
            return;
        }
        let start = at(host, offsets, 0);
        for part in 0..L / PART / copies::<KIND, L>() {
            let lane = PART * part;
            let from = if KIND == LINES { at(host, offsets, lane) } else { start.wrapping_add(PART * STRIDE * part) };
            match (KIND, DWORDS) {
                (UNIFORM, 4) => spread::<KIND, L>(data, part, _mm256_broadcastsi128_si256(quad(start))),
                (UNIFORM, 2) => {
                    let value = _mm256_set1_epi64x(start.cast::<i64>().read_unaligned());
                    place::<KIND, L>(data, 0, part, _mm256_shuffle_epi32(value, 0xa0));
                    place::<KIND, L>(data, 1, part, _mm256_shuffle_epi32(value, 0xf5));
                }
                (UNIFORM, 1) => {
                    place::<KIND, L>(data, 0, part, _mm256_set1_epi32(start.cast::<i32>().read_unaligned()));
                }
                (_, 1) if is_line => place::<KIND, L>(data, 0, part, wide(from)),
                (_, 2) if is_line => {
                    // Eight bytes of lanes 0, 1, 4, 5, and of lanes 2, 3, 6, 7.
                    let (a, b) = (wide(from), wide(from.add(32)));
                    let (low, high) = (_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
                    place::<KIND, L>(data, 0, part, alternate::<false>(low, high));
                    place::<KIND, L>(data, 1, part, alternate::<true>(low, high));
                }
                (FOURS, 4) => spread::<KIND, L>(data, part, lane_and_fifth(host, offsets, lane)),
                _ => {
                    for (n, row) in any_lanes::<DWORDS>(host, offsets, lane).into_iter().enumerate() {
                        place::<KIND, L>(data, n, part, row);
                    }
                }
            }
        }
    }
}

/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx2")]
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
    let is_line = matches!(KIND, LINE | LINE_16 | LINE_8 | LINES) && STRIDE == if is_byte { 1 } else { 2 };
    // SAFETY: by this function's contract.
    unsafe {
        let start = at(host, offsets, 0);
        if KIND != UNIFORM && !is_line {
            for lane in 0..L {
                load_small_lane::<WHAT>(data, host, offsets, lane);
            }
            return;
        }
        for part in 0..L / PART {
            let lane = PART * part;
            let from = match KIND {
                LINE => start.add(STRIDE * lane),
                LINE_16 => start.add(STRIDE * (lane % 16)),
                LINES => at(host, offsets, lane),
                _ => start,
            };
            let value = match (KIND, is_byte) {
                (UNIFORM, true) => _mm256_set1_epi32((*from).into()),
                (UNIFORM, false) => _mm256_set1_epi32(from.cast::<u16>().read_unaligned().into()),
                (_, true) => _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())),
                (_, false) => _mm256_cvtepu16_epi32(quad(from)),
            };
            let old = row::<L>(data, 0, part);
            let result = match WHAT {
                LOAD_I8 => _mm256_srai_epi32(_mm256_slli_epi32(value, 24), 24),
                LOAD_I16 => _mm256_srai_epi32(_mm256_slli_epi32(value, 16), 16),
                LOAD_LOW => _mm256_or_si256(_mm256_slli_epi32(_mm256_srli_epi32(old, 16), 16), value),
                LOAD_HIGH => {
                    let low = _mm256_srli_epi32(_mm256_slli_epi32(old, 16), 16);
                    _mm256_or_si256(low, _mm256_slli_epi32(value, 16))
                }
                _ => value,
            };
            put::<L>(data, 0, part, result);
        }
    }
}

/// Loads a tile with elements of `BITS` bits: element *i* of a lane is number 16 *i* + *lane* of those that its 16
/// lanes load.
///
/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx2")]
pub(super) unsafe extern "sysv64" fn load_tile<const BITS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    for group in 0..L / 16 {
        let (lane, part) = (16 * group, 2 * group);
        // SAFETY: by this function's contract. All lanes of a group are loaded before their rows are written.
        unsafe {
            let mut lanes = [_mm_setzero_si128(); 8];
            for (n, value) in lanes.iter_mut().enumerate() {
                *value = two(host, offsets, lane + 2 * n);
            }
            let (halves, _) = lanes.as_chunks::<4>();
            for (n, &[a, b, c, d]) in halves.iter().enumerate() {
                if BITS == 16 {
                    let (even, odd) = (two_quads(a, b), two_quads(c, d));
                    let (low, high) = (_mm256_unpacklo_epi16(even, odd), _mm256_unpackhi_epi16(even, odd));
                    put::<L>(data, n, part, _mm256_permute2x128_si256(low, high, 0x20));
                    put::<L>(data, n, part + 1, _mm256_permute2x128_si256(low, high, 0x31));
                } else {
                    let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
                    put::<L>(data, n, part, two_quads(_mm_unpacklo_epi16(ab, cd), _mm_unpackhi_epi16(ab, cd)));
                    let (ab, cd) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
                    put::<L>(data, n, part + 1, two_quads(_mm_unpacklo_epi16(ab, cd), _mm_unpackhi_epi16(ab, cd)));
                }
            }
        }
    }
}
