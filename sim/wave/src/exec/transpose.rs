// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Data movement of gfx1250's transposing loads from memory or LDS to registers (CDNA5 ISA 10.9.2: their tiles have 16
//! rows of 16 elements, of 32 where an element has 4 or 6 bits), and of gfx950's from LDS. Which lane loads which part
//! of a column is as in AMD's simulator rocjitsu (`ds_transpose.h`), and as Triton's kernels need it of tiles in LDS.
//! Halves of a wave of 64 lanes have tiles of their own.

use crate::wave::Wave;

/// Where element `i` of those that `lane` gets, all of row `lane % 16`, comes from: the lane that loads its column, or
/// half of it, and its place there.
fn origin(bits: usize, dwords: usize, lane: usize, i: usize) -> (usize, usize) {
    match bits {
        // gfx950: tiles of 4×16 in each 16 lanes.
        16 if dwords == 2 => (lane / 16 * 16 + 4 * i + lane % 16 / 4, lane % 4),
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
    for lane in 0..L {
        let mut dwords = [0; DWORDS];
        for i in 0..32 * DWORDS / BITS {
            let (from, place) = origin(BITS, DWORDS, lane % 32, i);
            let from = lane / 32 * 32 + from;
            for bit in 0..BITS {
                let (source, target) = (place * BITS + bit, i * BITS + bit);
                dwords[target / 32] |= (loaded[from][source / 32] >> (source % 32) & 1) << (target % 32);
            }
        }
        for (n, dword) in dwords.into_iter().enumerate() {
            wave.v[dst + n].0[lane] = dword;
        }
    }
}
