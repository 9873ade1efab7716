// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Movement of data between memory and rows of registers, all lanes active, for each pattern of the lanes' addresses.
//! Compiled code has checked that all bytes may be accessed. Pairs of dwords at a multiple of eight bytes move as a
//! whole, as in [`crate::exec`].

mod lanes;
mod load;
mod store;

use lanes::*;
pub(super) use lanes::{
    LOAD, LOAD_HIGH, LOAD_I8, LOAD_I16, LOAD_LOW, LOAD_U8, LOAD_U16, STORE, STORE_8, STORE_16, STORE_HIGH,
};
use load::{load, load_small};
use std::arch::x86_64::*;
pub(super) use store::store_pairs;
use store::{store, store_small};

/// Moves data between rows, the first of which is given, and memory: the host address of offset zero, and the row with
/// the lanes' offsets, which may be among those that are loaded.
///
/// # Safety
/// The CPU has AVX-512 F, there are as many rows, and the bytes at each lane's address may be accessed.
pub(super) type Move = unsafe extern "sysv64" fn(data: *mut u32, host: u64, offsets: *const u32);
/// Functions of a pattern, by the operands that they move.
pub(super) type Moves = [Move; COUNT];
const COUNT: usize = 17;

/// All offsets are the same.
pub(super) const SAME: u32 = 1;
/// In each 16 lanes an offset is 4 above the last one's.
pub(super) const LINES_OF_4: u32 = 2;
/// Each eight lanes have the same offsets.
pub(super) const EIGHTS: u32 = 4;

/// The facts known of a row of offsets.
pub(super) struct Pattern {
    pub moves: &'static Moves,
    /// [`SAME`], [`LINES_OF_4`] and [`EIGHTS`].
    pub kind: u32,
    /// Least and greatest offset.
    pub first: u32,
    pub last: u32,
}

impl Pattern {
    /// # Safety
    /// The CPU has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn of<const L: usize>(offsets: &[u32; L]) -> Self {
        // SAFETY: rows are multiples of 16 lanes.
        unsafe {
            let row = offsets.as_ptr();
            let head = wide(row.cast());
            let mut repeats = true;
            for part in 1..L / 16 {
                repeats &= equal(wide(row.add(16 * part).cast()), head);
            }
            let one = offsets[0];
            let base = _mm512_set1_epi32(one as i32);
            if repeats && equal(head, base) {
                return Pattern { moves: &Table::<UNIFORM, 0, L>::MOVES, kind: SAME, first: one, last: one };
            }
            let stride = offsets[1].wrapping_sub(one);
            if matches!(stride, 1 | 2 | 4 | 8 | 16) {
                let steps = _mm512_mullo_epi32(_mm512_set1_epi32(stride as i32), lane_numbers());
                let line = _mm512_add_epi32(base, steps);
                let mut found = None;
                if equal(head, line) {
                    let mut goes_on = true;
                    for part in 1..L / 16 {
                        let more = _mm512_set1_epi32((16 * part) as i32 * stride as i32);
                        goes_on &= equal(wide(row.add(16 * part).cast()), _mm512_add_epi32(line, more));
                    }
                    if repeats {
                        found = Some((LINE_16, 16));
                    } else if goes_on {
                        found = Some((LINE, L as u32));
                    }
                } else if repeats && equal(head, _mm512_shuffle_i64x2(line, line, 0x44)) {
                    found = Some((LINE_8, 8));
                }
                if let Some((kind, count)) = found
                    && let Some(last) = one.checked_add(stride * (count - 1))
                {
                    let lines = match (kind, stride) {
                        (LINE_8, _) => EIGHTS,
                        (_, 4) => LINES_OF_4,
                        _ => 0,
                    };
                    return Pattern { moves: with_stride::<L>(kind, stride), kind: lines, first: one, last };
                }
            }
            let (mut low, mut high) = (head, head);
            let mut fours = true;
            for part in 0..L / 16 {
                let part = wide(row.add(16 * part).cast());
                low = _mm512_min_epu32(low, part);
                high = _mm512_max_epu32(high, part);
                fours &= equal(part, _mm512_shuffle_epi32(part, 0));
            }
            let mut kind = 0;
            let moves = if repeats && equal(head, _mm512_shuffle_i64x2(head, head, 0x44)) {
                kind = EIGHTS;
                &Table::<LINE_8, 0, L>::MOVES
            } else if fours {
                &Table::<FOURS, 0, L>::MOVES
            } else if repeats {
                &Table::<LINE_16, 0, L>::MOVES
            } else if L == 64 && are_columns(offsets) {
                &Table::<COLUMNS, 0, L>::MOVES
            } else if stride == 2 && are_lines(offsets, 2) {
                &Table::<LINES, 2, L>::MOVES
            } else if stride == 4 && are_lines(offsets, 4) {
                kind = LINES_OF_4;
                &Table::<LINES, 4, L>::MOVES
            } else {
                &Table::<ANYHOW, 0, L>::MOVES
            };
            Pattern { moves, kind, first: _mm512_reduce_min_epu32(low), last: _mm512_reduce_max_epu32(high) }
        }
    }
}

/// True if each 16 lanes have offsets that are so far apart.
#[inline]
#[target_feature(enable = "avx512f")]
fn are_lines<const L: usize>(offsets: &[u32; L], stride: u32) -> bool {
    let steps = _mm512_mullo_epi32(_mm512_set1_epi32(stride as i32), lane_numbers());
    let mut are_lines = true;
    for part in offsets.as_chunks::<16>().0 {
        let line = _mm512_add_epi32(_mm512_set1_epi32(part[0] as i32), steps);
        // SAFETY: it has 16 offsets.
        are_lines &= equal(unsafe { wide(part.as_ptr().cast()) }, line) && part[0] <= part[15];
    }
    are_lines
}

/// True if lanes 16 apart have neighbouring dwords.
#[inline]
#[target_feature(enable = "avx512f")]
fn are_columns<const L: usize>(offsets: &[u32; L]) -> bool {
    let parts = offsets.as_chunks::<16>().0;
    // SAFETY: each part has 16 offsets.
    let part = |n: usize| unsafe { wide(parts[n].as_ptr().cast()) };
    let mut are_columns = true;
    for n in 1..parts.len() {
        are_columns &= equal(part(n), _mm512_add_epi32(part(0), _mm512_set1_epi32(4 * n as i32)));
    }
    are_columns && _mm512_reduce_max_epu32(part(0)) <= u32::MAX - 12
}

/// The functions of a kind of lines with a stride.
fn with_stride<const L: usize>(kind: u8, stride: u32) -> &'static Moves {
    macro_rules! of {
        ($kind:ident) => {
            match stride {
                1 => &Table::<$kind, 1, L>::MOVES,
                2 => &Table::<$kind, 2, L>::MOVES,
                4 => &Table::<$kind, 4, L>::MOVES,
                8 => &Table::<$kind, 8, L>::MOVES,
                _ => &Table::<$kind, 16, L>::MOVES,
            }
        };
    }
    match kind {
        LINE => of!(LINE),
        LINE_16 => of!(LINE_16),
        _ => of!(LINE_8),
    }
}

struct Table<const KIND: u8, const STRIDE: usize, const L: usize>;

impl<const KIND: u8, const STRIDE: usize, const L: usize> Table<KIND, STRIDE, L> {
    const MOVES: Moves = [
        load::<KIND, STRIDE, 1, L>,
        load::<KIND, STRIDE, 2, L>,
        load::<KIND, STRIDE, 3, L>,
        load::<KIND, STRIDE, 4, L>,
        load_small::<KIND, STRIDE, LOAD_U8, L>,
        load_small::<KIND, STRIDE, LOAD_I8, L>,
        load_small::<KIND, STRIDE, LOAD_U16, L>,
        load_small::<KIND, STRIDE, LOAD_I16, L>,
        load_small::<KIND, STRIDE, LOAD_LOW, L>,
        load_small::<KIND, STRIDE, LOAD_HIGH, L>,
        store::<KIND, STRIDE, 1, L>,
        store::<KIND, STRIDE, 2, L>,
        store::<KIND, STRIDE, 3, L>,
        store::<KIND, STRIDE, 4, L>,
        store_small::<STORE_8, L>,
        store_small::<STORE_16, L>,
        store_small::<STORE_HIGH, L>,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    const BYTES: usize = 2048;

    /// Moves lane after lane, by the number of the move.
    fn lane_by_lane<const L: usize>(what: usize, rows: &mut [[u32; L]; 4], memory: &mut [u8], offsets: &[u32; L]) {
        for lane in 0..L {
            let at = offsets[lane] as usize;
            let word = u32::from(u16::from_le_bytes([memory[at], memory[at + 1]]));
            let old = rows[0][lane];
            match what {
                LOAD..LOAD_U8 => {
                    for n in 0..=what - LOAD {
                        let bytes = memory[at + 4 * n..][..4].try_into().unwrap();
                        rows[n][lane] = u32::from_le_bytes(bytes);
                    }
                }
                LOAD_U8 => rows[0][lane] = memory[at].into(),
                LOAD_I8 => rows[0][lane] = memory[at] as i8 as u32,
                LOAD_U16 => rows[0][lane] = word,
                LOAD_I16 => rows[0][lane] = word as i16 as u32,
                LOAD_LOW => rows[0][lane] = old & 0xffff_0000 | word,
                LOAD_HIGH => rows[0][lane] = old & 0xffff | word << 16,
                STORE..STORE_8 => {
                    for n in 0..=what - STORE {
                        memory[at + 4 * n..][..4].copy_from_slice(&rows[n][lane].to_le_bytes());
                    }
                }
                STORE_8 => memory[at] = old as u8,
                STORE_16 => memory[at..at + 2].copy_from_slice(&(old as u16).to_le_bytes()),
                _ => memory[at..at + 2].copy_from_slice(&((old >> 16) as u16).to_le_bytes()),
            }
        }
    }

    fn check_lanes<const L: usize>() {
        let mut random = Random::new(0x51);
        let lines = [1, 2, 4, 8, 16, 12].into_iter().flat_map(|stride| {
            [L as u32, 16, 8].map(|period| -> [u32; L] { std::array::from_fn(|n| 40 + n as u32 % period * stride) })
        });
        let mut patterns: Vec<[u32; L]> = lines.collect();
        let columns: [u32; 16] = std::array::from_fn(|_| random.below(500));
        patterns.push(std::array::from_fn(|n| columns[n % 16] + n as u32 / 16 * 4));
        for stride in [2, 4] {
            patterns.push(std::array::from_fn(|n| 40 + n as u32 % 16 * stride + n as u32 / 16 * 100));
            patterns.push(std::array::from_fn(|n| 240 + n as u32 % 16 * stride - n as u32 / 16 * 20));
        }
        patterns.push([77; L]);
        patterns.push(std::array::from_fn(|n| n as u32 / 4 * 36));
        patterns.push(std::array::from_fn(|n| n as u32 / 8 * 100));
        patterns.push(std::array::from_fn(|_| random.below(512)));
        let some: [u32; 16] = std::array::from_fn(|_| random.below(512));
        patterns.push(std::array::from_fn(|n| some[n % 16]));
        patterns.push(std::array::from_fn(|n| some[n % 8]));
        patterns.push(std::array::from_fn(|n| some[n / 4 % 2]));
        for offsets in patterns {
            // SAFETY: the caller has found that the CPU has AVX-512 F.
            let pattern = unsafe { Pattern::of(&offsets) };
            let bounds = (*offsets.iter().min().unwrap(), *offsets.iter().max().unwrap());
            assert_eq!((pattern.first, pattern.last), bounds, "{offsets:?}");
            for (what, run) in pattern.moves.iter().enumerate() {
                let mut memory: Vec<u8> = (0..BYTES).map(|_| random.next() as u8).collect();
                let mut rows = [[0; L]; 4].map(|row: [u32; L]| row.map(|_| random.next()));
                let (mut expected, mut expected_rows) = (memory.clone(), rows);
                lane_by_lane(what, &mut expected_rows, &mut expected, &offsets);
                // SAFETY: offsets of at most 1040 and 16 bytes are within the memory, and there are four rows.
                unsafe { run(rows.as_mut_ptr().cast(), memory.as_mut_ptr() as u64, offsets.as_ptr()) };
                assert!(rows == expected_rows && memory == expected, "move {what} with {offsets:?}");
            }
        }
    }

    #[test]
    fn moves_do_what_lanes_do_one_after_the_other() {
        if is_x86_feature_detected!("avx512f") {
            check_lanes::<32>();
            check_lanes::<64>();
        }
    }
}
