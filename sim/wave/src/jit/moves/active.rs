// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Movement of the active lanes' data alone.

use super::lanes::*;
use super::load::{any_lanes, load_small_lane};
use super::store::{store_lane, store_small_lane};
use std::arch::x86_64::*;

/// A [`Move`](super::Move) that has a row with all bits set in the active lanes, of which there is one.
///
/// # Safety
/// As of [`Move`](super::Move), for the active lanes alone.
pub(in super::super) type ActiveMove = unsafe extern "sysv64" fn(*mut u32, u64, *const u32, *const u32);

/// The functions, by the operands that they move.
pub(in super::super) const fn moves<const L: usize>() -> [ActiveMove; LOAD_TILE_16] {
    [
        load::<1, L>,
        load::<2, L>,
        load::<3, L>,
        load::<4, L>,
        load_small::<LOAD_U8, L>,
        load_small::<LOAD_I8, L>,
        load_small::<LOAD_U16, L>,
        load_small::<LOAD_I16, L>,
        load_small::<LOAD_LOW, L>,
        load_small::<LOAD_HIGH, L>,
        store::<1, L>,
        store::<2, L>,
        store::<3, L>,
        store::<4, L>,
        store_small::<STORE_8, L>,
        store_small::<STORE_16, L>,
        store_small::<STORE_HIGH, L>,
    ]
}

/// The offsets of a row, with an active lane's in place of those of inactive lanes. `None` if all are inactive.
#[target_feature(enable = "avx2")]
pub(in super::super) fn active_offsets<const L: usize>(offsets: &[u32; L], active: &[u32; L]) -> Option<[u32; L]> {
    let one = offsets[active.iter().position(|&lane| lane != 0)?];
    Some(std::array::from_fn(|lane| offsets[lane] & active[lane] | one & !active[lane]))
}

/// The numbers of the active lanes.
unsafe fn lanes<const L: usize>(active: *const u32) -> impl Iterator<Item = usize> {
    // SAFETY: by the contract of the functions here.
    (0..L).filter(move |&lane| unsafe { *active.add(lane) } != 0)
}

#[target_feature(enable = "avx2")]
unsafe extern "sysv64" fn load<const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
    active: *const u32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        for part in 0..L / PART {
            let mask = row::<L>(active, 0, part);
            let bits = _mm256_movemask_ps(_mm256_castsi256_ps(mask)) as u32;
            if bits == 0 {
                continue;
            }
            // Inactive lanes load the first active one's.
            let one = _mm256_set1_epi32(*offsets.add(PART * part + bits.trailing_zeros() as usize) as i32);
            let mut own = [0u32; PART];
            put::<PART>(own.as_mut_ptr(), 0, 0, _mm256_blendv_epi8(one, row::<L>(offsets, 0, part), mask));
            for (n, value) in any_lanes::<DWORDS>(host, own.as_ptr(), 0).into_iter().enumerate() {
                put::<L>(data, n, part, _mm256_blendv_epi8(row::<L>(data, n, part), value, mask));
            }
        }
    }
}

unsafe extern "sysv64" fn load_small<const WHAT: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
    active: *const u32,
) {
    // SAFETY: by this function's contract.
    unsafe { lanes::<L>(active).for_each(|lane| load_small_lane::<WHAT>(data, host, offsets, lane)) };
}

unsafe extern "sysv64" fn store<const DWORDS: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
    active: *const u32,
) {
    // SAFETY: by this function's contract.
    unsafe { lanes::<L>(active).for_each(|lane| store_lane::<DWORDS, L>(data, host, offsets, lane)) };
}

unsafe extern "sysv64" fn store_small<const WHAT: usize, const L: usize>(
    data: *mut u32,
    host: u64,
    offsets: *const u32,
    active: *const u32,
) {
    // SAFETY: by this function's contract.
    unsafe { lanes::<L>(active).for_each(|lane| store_small_lane::<WHAT>(data, host, offsets, lane)) };
}
