// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Stores of rows.

use super::lanes::*;
use std::arch::x86_64::*;

/// Where lanes overlap, the last one's bytes stay.
///
/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx2")]
pub(super) unsafe extern "sysv64" fn store<const KIND: u8, const STRIDE: usize, const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        let is_line = matches!(KIND, LINE | LINES) && STRIDE == 4 * DWORDS;
        let start = at(host, offsets, 0);
        for part in 0..L / PART {
            let lane = PART * part;
            let to = if KIND == LINES { at(host, offsets, lane) } else { start.wrapping_add(PART * STRIDE * part) };
            match DWORDS {
                1 if is_line => _mm256_storeu_si256(to.cast(), row::<L>(data, 0, part)),
                2 => {
                    let (a, b) = (row::<L>(data, 0, part), row::<L>(data, 1, part));
                    // Lanes 0, 1, 4 and 5, and the others.
                    let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
                    if is_line {
                        _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256(low, high, 0x20));
                        _mm256_storeu_si256(to.add(32).cast(), _mm256_permute2x128_si256(low, high, 0x31));
                        continue;
                    }
                    let (low, high) = (quads(low), quads(high));
                    for n in 0..2 {
                        let lane = lane + 4 * n;
                        let (low, high) = (_mm_castsi128_pd(low[n]), _mm_castsi128_pd(high[n]));
                        _mm_storel_pd(at(host, offsets, lane).cast(), low);
                        _mm_storeh_pd(at(host, offsets, lane + 1).cast(), low);
                        _mm_storel_pd(at(host, offsets, lane + 2).cast(), high);
                        _mm_storeh_pd(at(host, offsets, lane + 3).cast(), high);
                    }
                }
                4 => {
                    let (a, b) = (row::<L>(data, 0, part), row::<L>(data, 1, part));
                    let (c, d) = (row::<L>(data, 2, part), row::<L>(data, 3, part));
                    let [a, b, c, d] = transpose(a, b, c, d);
                    let (a, b, c, d) = (quads(a), quads(b), quads(c), quads(d));
                    for n in 0..2 {
                        let lane = lane + 4 * n;
                        _mm_storeu_si128(at(host, offsets, lane).cast(), a[n]);
                        _mm_storeu_si128(at(host, offsets, lane + 1).cast(), b[n]);
                        _mm_storeu_si128(at(host, offsets, lane + 2).cast(), c[n]);
                        _mm_storeu_si128(at(host, offsets, lane + 3).cast(), d[n]);
                    }
                }
                _ => {
                    for lane in lane..lane + PART {
                        store_lane::<DWORDS, L>(data, host, offsets, lane);
                    }
                }
            }
        }
    }
}

/// # Safety
/// As of [`Move`](super::Move).
pub(super) unsafe extern "sysv64" fn store_small<const WHAT: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    for lane in 0..L {
        // SAFETY: by this function's contract.
        unsafe { store_small_lane::<WHAT>(data, host, offsets, lane) };
    }
}

/// `DWORDS` dwords of a lane.
#[inline(always)]
pub(super) unsafe fn store_lane<const DWORDS: usize, const L: usize>(
    data: *const u32,
    host: u64,
    offsets: *const u32,
    lane: usize,
) {
    // SAFETY: by the caller's contract.
    unsafe {
        let to = at(host, offsets, lane);
        let two = |n: usize| u64::from(*data.add(n * L + lane)) | u64::from(*data.add((n + 1) * L + lane)) << 32;
        if DWORDS > 1 {
            to.cast::<u64>().write_unaligned(two(0));
        }
        match DWORDS {
            4 => to.add(8).cast::<u64>().write_unaligned(two(2)),
            1 | 3 => to.add(4 * DWORDS - 4).cast::<u32>().write_unaligned(*data.add((DWORDS - 1) * L + lane)),
            _ => {}
        }
    }
}

/// A byte or word of a lane.
#[inline(always)]
pub(super) unsafe fn store_small_lane<const WHAT: usize>(
    data: *const u32,
    host: u64,
    offsets: *const u32,
    lane: usize,
) {
    // SAFETY: by the caller's contract.
    unsafe {
        let (to, value) = (at(host, offsets, lane), *data.add(lane));
        match WHAT {
            STORE_8 => *to = value as u8,
            STORE_16 => to.cast::<u16>().write_unaligned(value as u16),
            _ => to.cast::<u16>().write_unaligned((value >> 16) as u16),
        }
    }
}

/// Stores `DWORDS` rows of each active lane at one place, and as many others at a second one, lane after lane. The last
/// argument is a row with all bits set in active lanes.
///
/// # Safety
/// As of [`Move`](super::Move), for both places.
pub(in super::super) unsafe extern "sysv64" fn store_pairs<const DWORDS: usize, const L: usize>(
    data: *const u32,
    host: u64,
    offsets: *const u32,
    second_data: *const u32,
    second_host: u64,
    active: *const u32,
) {
    for lane in 0..L {
        // SAFETY: by this function's contract.
        unsafe {
            if *active.add(lane) != 0 {
                store_lane::<DWORDS, L>(data, host, offsets, lane);
                store_lane::<DWORDS, L>(second_data, second_host, offsets, lane);
            }
        }
    }
}
