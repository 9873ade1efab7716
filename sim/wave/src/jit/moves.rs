// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Movement of data between memory and rows of registers, all lanes active, for each pattern of the lanes' addresses.
//! Compiled code has checked that all bytes may be accessed. Pairs of dwords at a multiple of eight bytes move as a
//! whole, as in [`crate::exec`].

use std::arch::x86_64::*;

/// Moves data between rows, the first of which is given, and memory: the host address of offset zero, and the row with
/// the lanes' offsets, which may be among those that are loaded.
///
/// # Safety
/// The CPU has AVX-512 F, there are as many rows, and the bytes at each lane's address may be accessed.
pub(super) type Move = unsafe extern "sysv64" fn(data: *mut u32, host: u64, offsets: *const u32);

/// Functions of a pattern, by what they move.
pub(super) type Moves = [Move; COUNT];
/// So many dwords less one of each lane, to as many rows.
pub(super) const LOAD: usize = 0;
pub(super) const LOAD_U8: usize = 4;
pub(super) const LOAD_I8: usize = 5;
pub(super) const LOAD_U16: usize = 6;
pub(super) const LOAD_I16: usize = 7;
/// To the lower half of a row, or the upper one.
pub(super) const LOAD_LOW: usize = 8;
pub(super) const LOAD_HIGH: usize = 9;
/// So many dwords less one.
pub(super) const STORE: usize = 10;
pub(super) const STORE_8: usize = 14;
pub(super) const STORE_16: usize = 15;
/// Upper halves.
pub(super) const STORE_HIGH: usize = 16;
const COUNT: usize = 17;

// How offsets lie.
const ANYHOW: u8 = 0;
/// All are the same.
const UNIFORM: u8 = 1;
/// Each four neighbours have the same.
const FOURS: u8 = 2;
/// Each is one stride above the last one's.
const LINE: u8 = 3;
/// So 16 are, or they lie anyhow if the stride is 0; others repeat them.
const LINE_16: u8 = 4;
/// So eight are, or they lie anyhow if the stride is 0; others repeat them.
const LINE_8: u8 = 5;
/// Each 16 neighbours' are one stride apart.
const LINES: u8 = 6;

/// The facts known of a row of offsets.
pub(super) struct Pattern {
    pub moves: &'static Moves,
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
                return Pattern { moves: &Table::<UNIFORM, 0, L>::MOVES, first: one, last: one };
            }
            let stride = offsets[1].wrapping_sub(one);
            let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            if matches!(stride, 1 | 2 | 4 | 8 | 16) {
                let steps = _mm512_mullo_epi32(_mm512_set1_epi32(stride as i32), lanes);
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
                    return Pattern { moves: with_stride::<L>(kind, stride), first: one, last };
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
            let moves = if repeats && equal(head, _mm512_shuffle_i64x2(head, head, 0x44)) {
                &Table::<LINE_8, 0, L>::MOVES
            } else if fours {
                &Table::<FOURS, 0, L>::MOVES
            } else if repeats {
                &Table::<LINE_16, 0, L>::MOVES
            } else if stride == 2 && are_lines(offsets, 2) {
                &Table::<LINES, 2, L>::MOVES
            } else if stride == 4 && are_lines(offsets, 4) {
                &Table::<LINES, 4, L>::MOVES
            } else {
                &Table::<ANYHOW, 0, L>::MOVES
            };
            Pattern { moves, first: _mm512_reduce_min_epu32(low), last: _mm512_reduce_max_epu32(high) }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn equal(a: __m512i, b: __m512i) -> bool {
    _mm512_cmpneq_epi32_mask(a, b) == 0
}

/// True if each 16 lanes have offsets that are so far apart.
#[inline]
#[target_feature(enable = "avx512f")]
fn are_lines<const L: usize>(offsets: &[u32; L], stride: u32) -> bool {
    let steps = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(|lane| stride * lane);
    offsets.as_chunks::<16>().0.iter().all(|part| {
        let line = steps.map(|step| part[0].wrapping_add(step));
        *part == line && part[0] <= part[15]
    })
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

/// Address of a lane's bytes.
#[inline(always)]
unsafe fn at(host: u64, offsets: *const u32, lane: usize) -> *mut u8 {
    // SAFETY: by the contract of `Move` a row.
    let offset = unsafe { *offsets.add(lane) };
    host.wrapping_add(offset.into()) as *mut u8
}

/// Four of 16 bytes each, in this order.
#[inline]
#[target_feature(enable = "avx512f")]
fn fours(a: __m128i, b: __m128i, c: __m128i, d: __m128i) -> __m512i {
    let low = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
    let high = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
    _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)
}

/// A permutation of the dwords of two vectors, each of which is four bits and a bit that is set for the second one.
#[inline]
#[target_feature(enable = "avx512f")]
fn permute(a: __m512i, b: __m512i, places: &[i32; 16]) -> __m512i {
    // SAFETY: it has 16 dwords.
    _mm512_permutex2var_epi32(a, unsafe { _mm512_loadu_si512(places.as_ptr().cast()) }, b)
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

/// Loads 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn wide(from: *const u8) -> __m512i {
    // SAFETY: by the caller's contract.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn quad(from: *const u8) -> __m128i {
    // SAFETY: by the caller's contract.
    unsafe { _mm_loadu_si128(from.cast()) }
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

/// Writes a part of row `n`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put<const L: usize>(data: *mut u32, n: usize, part: usize, value: __m512i) {
    // SAFETY: by the caller's contract.
    unsafe { _mm512_storeu_si512(data.add(n * L + 16 * part).cast(), value) };
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
/// As of [`Move`].
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn load<const KIND: u8, const STRIDE: usize, const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
) {
    let is_line = STRIDE == 4 * DWORDS;
    // Parts of rows that differ.
    let parts = if matches!(KIND, UNIFORM | LINE_16 | LINE_8) { 1 } else { L / 16 };
    // SAFETY: by this function's contract: each lane's bytes, which are next to the others' in lines.
    unsafe {
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
                    let base = _mm512_set1_epi64(host as i64);
                    let low = _mm512_cvtepu32_epi64(_mm256_loadu_si256(offsets.add(lane).cast()));
                    let high = _mm512_cvtepu32_epi64(_mm256_loadu_si256(offsets.add(lane + 8).cast()));
                    let low = _mm512_i64gather_epi32(_mm512_add_epi64(low, base), std::ptr::null(), 1);
                    let high = _mm512_i64gather_epi32(_mm512_add_epi64(high, base), std::ptr::null(), 1);
                    let value = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
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

/// Exchanges rows and columns of each four by four dwords.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// # Safety
/// As of [`Move`].
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn load_small<const KIND: u8, const STRIDE: usize, const WHAT: usize, const L: usize>(
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

/// Where lanes overlap, the last one's bytes stay.
///
/// # Safety
/// As of [`Move`].
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn store<const KIND: u8, const STRIDE: usize, const DWORDS: usize, const L: usize>(
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

/// A part of row `n`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn row<const L: usize>(data: *const u32, n: usize, part: usize) -> __m512i {
    // SAFETY: by the caller's contract.
    unsafe { _mm512_loadu_si512(data.add(n * L + 16 * part).cast()) }
}

/// The four parts of 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn quads(all: __m512i) -> [__m128i; 4] {
    [
        _mm512_castsi512_si128(all),
        _mm512_extracti32x4_epi32(all, 1),
        _mm512_extracti32x4_epi32(all, 2),
        _mm512_extracti32x4_epi32(all, 3),
    ]
}

/// # Safety
/// As of [`Move`].
unsafe extern "sysv64" fn store_small<const WHAT: usize, const L: usize>(
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
/// As of [`Move`], for both places.
pub(super) unsafe extern "sysv64" fn store_pairs<const DWORDS: usize, const L: usize>(
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
