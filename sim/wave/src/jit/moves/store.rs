// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Stores of rows.

use super::lanes::*;
use std::arch::x86_64::*;

/// Where lanes overlap, the last one's bytes stay.
///
/// # Safety
/// As of [`Move`](super::Move).
#[target_feature(enable = "avx512f")]
pub(super) unsafe extern "sysv64" fn store<const KIND: u8, const STRIDE: usize, const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        let is_line = KIND == LINE && STRIDE == 4 * DWORDS;
        let start = at(host, offsets, 0);
        if KIND == LINES && STRIDE == 4 * DWORDS {
            for part in 0..L / 16 {
                _mm512_storeu_si512(at(host, offsets, 16 * part).cast(), row::<L>(data, 0, part));
            }
            return;
        }
        for part in 0..L / 16 {
            let lane = 16 * part;
            let to = start.wrapping_add(16 * STRIDE * part);
            match DWORDS {
                1 if is_line => _mm512_storeu_si512(to.cast(), row::<L>(data, 0, part)),
                2 => {
                    let (a, b) = (row::<L>(data, 0, part), row::<L>(data, 1, part));
                    // Lanes 0, 1, 4, 5, 8 and so on, and the others.
                    let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                    if is_line {
                        const FIRST: [i32; 16] = [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23];
                        const SECOND: [i32; 16] = [8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31];
                        _mm512_storeu_si512(to.cast(), permute(low, high, &FIRST));
                        _mm512_storeu_si512(to.add(64).cast(), permute(low, high, &SECOND));
                        continue;
                    }
                    let (low, high) = (quads(low), quads(high));
                    for n in 0..4 {
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
                    for n in 0..4 {
                        let lane = lane + 4 * n;
                        _mm_storeu_si128(at(host, offsets, lane).cast(), a[n]);
                        _mm_storeu_si128(at(host, offsets, lane + 1).cast(), b[n]);
                        _mm_storeu_si128(at(host, offsets, lane + 2).cast(), c[n]);
                        _mm_storeu_si128(at(host, offsets, lane + 3).cast(), d[n]);
                    }
                }
                _ => {
                    for n in lane..lane + 16 {
                        let to = at(host, offsets, n);
                        if DWORDS == 3 {
                            let low = u64::from(*data.add(n)) | u64::from(*data.add(L + n)) << 32;
                            to.cast::<u64>().write_unaligned(low);
                            to.add(8).cast::<u32>().write_unaligned(*data.add(2 * L + n));
                        } else {
                            to.cast::<u32>().write_unaligned(*data.add(n));
                        }
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
    for n in 0..L {
        // SAFETY: by this function's contract.
        unsafe {
            let (to, value) = (at(host, offsets, n), *data.add(n));
            match WHAT {
                STORE_8 => *to = value as u8,
                STORE_16 => to.cast::<u16>().write_unaligned(value as u16),
                _ => to.cast::<u16>().write_unaligned((value >> 16) as u16),
            }
        }
    }
}

/// Stores `DWORDS` rows of each lane at one place, and as many others at a second one, lane after lane.
///
/// # Safety
/// As of [`Move`](super::Move), for both places.
pub(in super::super) unsafe extern "sysv64" fn store_pairs<const DWORDS: usize, const L: usize>(
    data: *const u32,
    host: u64,
    offsets: *const u32,
    second_data: *const u32,
    second_host: u64,
) {
    for lane in 0..L {
        for (data, host) in [(data, host), (second_data, second_host)] {
            // SAFETY: by this function's contract.
            unsafe {
                let to = at(host, offsets, lane);
                if DWORDS == 2 {
                    let value = u64::from(*data.add(lane)) | u64::from(*data.add(L + lane)) << 32;
                    to.cast::<u64>().write_unaligned(value);
                } else {
                    to.cast::<u32>().write_unaligned(*data.add(lane));
                }
            }
        }
    }
}
