// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Data movement of gfx1250's transposing loads from memory or LDS to registers (CDNA5 ISA 10.9.2: their tiles have 16
//! rows of 16 elements, of 32 where an element has 4 or 6 bits), and of gfx950's from LDS. Which lane loads which part
//! of a column is as in AMD's simulator rocjitsu (`ds_transpose.h`), and as Triton's kernels need it of tiles in LDS.
//! Loads of gfx950 need another order than rocjitsu's: 16 lanes load the columns one after the other.

use crate::wave::Wave;

/// gfx950: where element `i` of the `count` that `lane` gets, all of row `lane % 16`, comes from: the lane that loads
/// its column, or a part of it, and its place there.
fn origin9(count: usize, lane: usize, i: usize) -> (usize, usize) {
    (lane / 16 * 16 + i * (16 / count) + lane % 16 / count, lane % count)
}

/// Where element `i` of those that `lane` gets, all of row `lane % 16`, comes from: the lane that loads its column, or
/// half of it, and its place there.
fn origin(bits: usize, lane: usize, i: usize) -> (usize, usize) {
    match bits {
        // Tiles of 8×8 in each eight lanes.
        16 => (lane & !7 | i, lane & 7),
        // Tiles of 4×8 in each four lanes.
        8 => (lane / 16 * 16 + i / 4 * 8 + lane / 8 % 2 * 4 + i % 4, lane & 7),
        6 => {
            let half = lane / 16;
            (i / 4 * 8 + i % 4 + 4 * half, lane % 16)
        }
        _ => (i % 8 + lane / 16 * 8 + i / 8 * 16, lane % 16),
    }
}

/// Writes the data that all lanes have loaded, `DWORDS` each with elements of `BITS` bits, to registers from `dst` on.
pub(super) fn put<const BITS: usize, const DWORDS: usize, const L: usize>(
    wave: &mut Wave<L>,
    dst: usize,
    loaded: &[[u32; DWORDS]; L],
) {
    // Elements of 6 bits go on in the next dword.
    let is_split = |at: usize| !32_usize.is_multiple_of(BITS) && at % 32 + BITS > 32;
    for lane in 0..L {
        let mut dwords = [0; DWORDS];
        for i in 0..32 * DWORDS / BITS {
            let (from, place) = if L == 64 { origin9(32 * DWORDS / BITS, lane, i) } else { origin(BITS, lane, i) };
            let (source, target) = (place * BITS, i * BITS);
            let mut element = loaded[from][source / 32] >> (source % 32);
            if is_split(source) {
                element |= loaded[from][source / 32 + 1] << (32 - source % 32);
            }
            element &= (1 << BITS) - 1;
            dwords[target / 32] |= element << (target % 32);
            if is_split(target) {
                dwords[target / 32 + 1] |= element >> (32 - target % 32);
            }
        }
        for (n, dword) in dwords.into_iter().enumerate() {
            wave.v[dst + n].0[lane] = dword;
        }
    }
}
