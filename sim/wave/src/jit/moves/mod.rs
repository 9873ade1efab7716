// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Movement of data between memory and rows of registers, all lanes active, for each pattern of the lanes' addresses.
//! Compiled code has checked that all bytes may be accessed. Pairs of dwords at a multiple of eight bytes move as a
//! whole, as in [`crate::exec`].

mod active;
mod lanes;
mod load;
mod store;

pub(super) use active::{active_offsets, moves as active_moves};
use lanes::*;
pub(super) use lanes::{
    LOAD, LOAD_HIGH, LOAD_I8, LOAD_I16, LOAD_LOW, LOAD_TILE_8, LOAD_TILE_16, LOAD_U8, LOAD_U16, STORE, STORE_8,
    STORE_16, STORE_HIGH,
};
use load::{load, load_small, load_tile};
use std::arch::x86_64::*;
pub(super) use store::store_pairs;
use store::{store, store_small};

/// Moves data between rows, the first of which is given, and memory: the host address of offset zero, and the row with
/// the lanes' offsets, which may be among those that are loaded.
///
/// # Safety
/// The CPU has AVX2, there are as many rows, and the bytes at each lane's address may be accessed.
pub(super) type Move = unsafe extern "sysv64" fn(data: *mut u32, host: u64, offsets: *const u32);
/// Functions of a pattern, by the operands that they move.
pub(super) type Moves = [Move; COUNT];
const COUNT: usize = 19;

/// All offsets are the same.
pub(super) const SAME: u32 = 1;
/// In each 16 lanes an offset is 4 above the last one's.
pub(super) const LINES_OF_4: u32 = 2;
/// Each eight lanes have the same offsets.
pub(super) const EIGHTS: u32 = 4;
/// All offsets are so small that they are the same with a sign.
pub(super) const NEAR: u32 = 8;

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
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn of<const L: usize>(offsets: &[u32; L]) -> Self {
        // SAFETY: rows are multiples of eight lanes.
        let part = |n: usize| unsafe { wide(offsets.as_ptr().add(PART * n).cast()) };
        let (head, next) = (part(0), part(1));
        // The parts are those of the first 16 lanes again, and these are the same.
        let mut repeats = true;
        for n in 2..L / PART {
            repeats &= equal(part(n), if n % 2 == 0 { head } else { next });
        }
        let is_eight = repeats && equal(head, next);
        let one = offsets[0];
        let base = _mm256_set1_epi32(one as i32);
        if is_eight && equal(head, base) {
            return Pattern { moves: &Table::<UNIFORM, 0, L>::MOVES, kind: SAME, first: one, last: one };
        }
        let stride = offsets[1].wrapping_sub(one);
        if matches!(stride, 1 | 2 | 4 | 8 | 16) {
            let line = line(one, stride);
            if equal(head, line) {
                let goes_on = |n: usize| equal(part(n), add(line, PART as u32 * n as u32 * stride));
                let found = if is_eight {
                    Some((LINE_8, 8))
                } else if !goes_on(1) {
                    None
                } else if repeats {
                    Some((LINE_16, 16))
                } else {
                    let mut is_line = true;
                    for n in 2..L / PART {
                        is_line &= goes_on(n);
                    }
                    is_line.then_some((LINE, L as u32))
                };
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
        }
        let (mut low, mut high) = (head, head);
        let mut fours = true;
        for n in 0..L / PART {
            let part = part(n);
            low = _mm256_min_epu32(low, part);
            high = _mm256_max_epu32(high, part);
            fours &= equal(part, _mm256_shuffle_epi32(part, 0));
        }
        let mut kind = 0;
        let moves = if is_eight {
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
        let (low, high) = (dwords(low), dwords(high));
        let (first, last) = (low.into_iter().fold(u32::MAX, u32::min), high.into_iter().fold(0, u32::max));
        Pattern { moves, kind, first, last }
    }
}

/// The dwords of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn dwords(of: __m256i) -> [u32; 8] {
    // SAFETY: both have 32 bytes.
    unsafe { std::mem::transmute(of) }
}

/// Numbers of eight lanes, each so much above the last one's.
#[inline]
#[target_feature(enable = "avx2")]
fn line(first: u32, stride: u32) -> __m256i {
    add(_mm256_mullo_epi32(_mm256_set1_epi32(stride as i32), lane_numbers()), first)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(to: __m256i, constant: u32) -> __m256i {
    _mm256_add_epi32(to, _mm256_set1_epi32(constant as i32))
}

/// True if each 16 lanes have offsets that are so far apart.
#[inline]
#[target_feature(enable = "avx2")]
fn are_lines<const L: usize>(offsets: &[u32; L], stride: u32) -> bool {
    let mut are_lines = true;
    for part in offsets.as_chunks::<16>().0 {
        let line = line(part[0], stride);
        // SAFETY: it has 16 offsets.
        let (low, high) = unsafe { (wide(part.as_ptr().cast()), wide(part[PART..].as_ptr().cast())) };
        are_lines &= equal(low, line) && equal(high, add(line, PART as u32 * stride)) && part[0] <= part[15];
    }
    are_lines
}

/// True if lanes 16 apart have neighbouring dwords.
#[inline]
#[target_feature(enable = "avx2")]
fn are_columns<const L: usize>(offsets: &[u32; L]) -> bool {
    // SAFETY: rows are multiples of eight lanes.
    let part = |n: usize| unsafe { wide(offsets.as_ptr().add(PART * n).cast()) };
    let mut are_columns = true;
    for n in 2..L / PART {
        are_columns &= equal(part(n), add(part(n % 2), 4 * (n as u32 / 2)));
    }
    are_columns && offsets[..16].iter().all(|&offset| offset <= u32::MAX - 12)
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
        load_tile::<16, L>,
        load_tile::<8, L>,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    const BYTES: usize = 2048;

    /// Moves lane after lane of those that are active, by the number of the move.
    fn lane_by_lane<const L: usize>(
        what: usize,
        rows: &mut [[u32; L]; 4],
        memory: &mut [u8],
        offsets: &[u32; L],
        exec: u64,
    ) {
        for lane in (0..L).filter(|lane| exec >> lane & 1 != 0) {
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
                LOAD_TILE_16 | LOAD_TILE_8 => {
                    // Element `i` of a lane is number 16 `i` + `lane` of those that its 16 lanes load.
                    let size = if what == LOAD_TILE_16 { 2 } else { 1 };
                    let bytes: [u8; 8] = std::array::from_fn(|n| {
                        let at = (n / size * 16 + lane % 16) * size + n % size;
                        memory[offsets[lane / 16 * 16 + at / 8] as usize + at % 8]
                    });
                    let (dwords, _) = bytes.as_chunks::<4>();
                    (rows[0][lane], rows[1][lane]) = (u32::from_le_bytes(dwords[0]), u32::from_le_bytes(dwords[1]));
                }
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
            // SAFETY: the caller has found that the CPU has AVX2.
            let pattern = unsafe { Pattern::of(&offsets) };
            let bounds = (*offsets.iter().min().unwrap(), *offsets.iter().max().unwrap());
            assert_eq!((pattern.first, pattern.last), bounds, "{offsets:?}");
            let exec = u64::from(random.next()) << 32 | u64::from(random.next()) | 1 << random.below(L as u32);
            let active: [u32; L] = std::array::from_fn(|lane| if exec >> lane & 1 != 0 { u32::MAX } else { 0 });
            // Inactive lanes have any offset.
            let some = offsets.map(|offset| if random.one_in(2) { offset } else { random.next() });
            let some: [u32; L] = std::array::from_fn(|n| if active[n] != 0 { offsets[n] } else { some[n] });
            for what in 0..COUNT {
                let start: Vec<u8> = (0..BYTES).map(|_| random.next() as u8).collect();
                let start_rows = [[0; L]; 4].map(|row: [u32; L]| row.map(|_| random.next()));
                let only_whole = matches!(what, LOAD_TILE_16 | LOAD_TILE_8);
                for exec in [u64::MAX, exec].into_iter().take(if only_whole { 1 } else { 2 }) {
                    let (mut memory, mut rows) = (start.clone(), start_rows);
                    let (mut expected, mut expected_rows) = (start.clone(), start_rows);
                    lane_by_lane(what, &mut expected_rows, &mut expected, &offsets, exec);
                    let (data, host) = (rows.as_mut_ptr().cast(), memory.as_mut_ptr() as u64);
                    // SAFETY: offsets of at most 1040 and 16 bytes are within the memory, and there are four rows.
                    unsafe {
                        if exec == u64::MAX {
                            pattern.moves[what](data, host, offsets.as_ptr());
                        } else {
                            active_moves::<L>()[what](data, host, some.as_ptr(), active.as_ptr());
                        }
                    }
                    assert!(rows == expected_rows && memory == expected, "move {what} with {offsets:?}, {exec:#x}");
                }
            }
        }
    }

    #[test]
    fn moves_do_what_lanes_do_one_after_the_other() {
        if is_x86_feature_detected!("avx2") {
            check_lanes::<32>();
            check_lanes::<64>();
        }
    }
}
