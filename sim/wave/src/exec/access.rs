// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Common parts of loads, stores and atomics: access checks of host memory, LDS and scratch, and parts of registers.

use super::address::Lanes;
use super::lanes::each_lane;
use crate::fault::{Access, FaultKind};
use crate::hardware::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::micro_op::Stop;
use crate::wave::{Group, Wave};
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads four bytes of host memory.
///
/// # Safety
/// `address..address + 4` is mapped and readable.
#[inline(always)]
pub(super) unsafe fn read_u32(address: u64) -> u32 {
    // SAFETY: by this function's contract; any alignment is allowed.
    unsafe { (address as *const u32).read_unaligned() }
}

/// Reads dwords of host memory. Aligned pairs are read as a whole, as GPUs do: RCCL's kernels send each dword of data
/// with a dword that says that it is there (protocol LL), and must not see the second without the first.
///
/// # Safety
/// `address..address + 4 * DWORDS` is mapped and readable.
#[inline(always)]
pub(super) unsafe fn read_dwords<const DWORDS: usize>(address: u64) -> [u32; DWORDS] {
    let mut dwords = [0; DWORDS];
    for (i, pair) in dwords.chunks_mut(2).enumerate() {
        let address = address + 8 * i as u64;
        // SAFETY: by this function's contract; pairs are aligned, and single dwords may have any alignment.
        unsafe {
            match pair {
                [low, high] if address.is_multiple_of(8) => {
                    let value = AtomicU64::from_ptr(address as *mut u64).load(Ordering::Relaxed);
                    (*low, *high) = (value as u32, (value >> 32) as u32);
                }
                _ => pair.iter_mut().zip(0..).for_each(|(dword, i)| *dword = read_u32(address + 4 * i)),
            }
        }
    }
    dwords
}

/// Writes dwords of host memory, aligned pairs as a whole.
///
/// # Safety
/// `address..address + 4 * DWORDS` is mapped and writable.
#[inline(always)]
pub(super) unsafe fn write_dwords<const DWORDS: usize>(address: u64, dwords: [u32; DWORDS]) {
    for (i, pair) in dwords.chunks(2).enumerate() {
        let address = address + 8 * i as u64;
        // SAFETY: by this function's contract; pairs are aligned, and single dwords may have any alignment.
        unsafe {
            match *pair {
                [low, high] if address.is_multiple_of(8) => {
                    let value = u64::from(low) | u64::from(high) << 32;
                    AtomicU64::from_ptr(address as *mut u64).store(value, Ordering::Relaxed);
                }
                _ => pair.iter().zip(0..).for_each(|(&dword, i)| {
                    ((address + 4 * i) as *mut u32).write_unaligned(dword);
                }),
            }
        }
    }
}

/// Checks the access rights of the host lanes, and translates their addresses to host addresses.
#[inline(always)]
pub(super) fn check_host<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    lanes: &Lanes,
    size: u32,
    access: Access,
) -> Result<(), Stop> {
    let (first, last) = lanes.span;
    match group.memory.displacement(first, last.wrapping_sub(first).saturating_add(u64::from(size)), access, false) {
        Some(0) => Ok(()),
        displacement => check_lanes(wave, group, lanes.host, displacement, (size, access)),
    }
}

/// Lane by lane, if their addresses are in more than one region, or outside of all, or displaced from the host's.
#[inline(never)]
fn check_lanes<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    lanes: u64,
    displacement: Option<u64>,
    (size, access): (u32, Access),
) -> Result<(), Stop> {
    for lane in each_lane(lanes) {
        let address = &mut wave.addresses[lane];
        *address = match displacement {
            Some(displacement) => address.wrapping_add(displacement),
            None => group.memory.check(*address, size, access, lane)?,
        };
    }
    Ok(())
}

/// Target of a lane's address outside of host memory.
enum Local {
    Lds(usize),
    Scratch(usize),
}

/// Resolves an address in an aperture, and checks it.
fn local<const L: usize>(
    wave: &Wave<L>,
    group: &Group<'_>,
    lane: usize,
    size: u32,
    access: Access,
) -> Result<Local, Stop> {
    let address = wave.addresses[lane];
    let offset = u64::from(address as u32);
    let end = offset + u64::from(size);
    let lane = lane as u32;
    match (address >> 32) as u32 {
        SHARED_APERTURE if end <= group.lds.len() as u64 => Ok(Local::Lds(offset as usize)),
        SHARED_APERTURE => {
            let limit = group.lds.len() as u32;
            Err(Stop::Fault(Box::new(FaultKind::LdsOutOfBounds { offset, size, limit, access, lane })))
        }
        PRIVATE_APERTURE if end <= u64::from(group.private_size) => Ok(Local::Scratch(offset as usize)),
        _ => {
            let limit = group.private_size;
            let offset = if (address >> 32) as u32 == PRIVATE_APERTURE {
                offset as i64
            } else {
                address.wrapping_sub(u64::from(PRIVATE_APERTURE) << 32) as i64
            };
            Err(Stop::Fault(Box::new(FaultKind::ScratchOutOfBounds { offset, size, limit, access, lane })))
        }
    }
}

/// Copies from LDS or scratch.
pub(super) fn load_local<const L: usize>(
    wave: &Wave<L>,
    group: &Group<'_>,
    lane: usize,
    bytes: &mut [u8],
) -> Result<(), Stop> {
    match local(wave, group, lane, bytes.len() as u32, Access::Read)? {
        Local::Lds(offset) => bytes.copy_from_slice(&group.lds[offset..offset + bytes.len()]),
        Local::Scratch(offset) if (offset | bytes.len()).is_multiple_of(4) => {
            for (i, dword) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
                *dword = wave.scratch[offset / 4 + i].0[lane].to_le_bytes();
            }
        }
        Local::Scratch(offset) => {
            for (i, byte) in bytes.iter_mut().enumerate() {
                let at = offset + i;
                *byte = (wave.scratch[at / 4].0[lane] >> (8 * (at % 4))) as u8;
            }
        }
    }
    Ok(())
}

/// Copies to LDS or scratch.
pub(super) fn store_local<const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    lane: usize,
    bytes: &[u8],
) -> Result<(), Stop> {
    match local(wave, group, lane, bytes.len() as u32, Access::Write)? {
        Local::Lds(offset) => group.lds[offset..offset + bytes.len()].copy_from_slice(bytes),
        Local::Scratch(offset) if (offset | bytes.len()).is_multiple_of(4) => {
            for (i, dword) in bytes.as_chunks().0.iter().enumerate() {
                wave.scratch[offset / 4 + i].0[lane] = u32::from_le_bytes(*dword);
            }
        }
        Local::Scratch(offset) => {
            for (i, byte) in bytes.iter().enumerate() {
                let at = offset + i;
                let shift = 8 * (at % 4);
                let dword = &mut wave.scratch[at / 4].0[lane];
                *dword = *dword & !(0xff << shift) | u32::from(*byte) << shift;
            }
        }
    }
    Ok(())
}

/// A loaded value fills the register.
pub(super) const WHOLE: u8 = 0;
/// A load that fills the low half of registers; the high half stays.
pub(super) const LOW: u8 = 1;
/// A load that fills the high half of registers; the low half stays.
pub(super) const HIGH: u8 = 2;

/// Writes a loaded byte or word to its register.
pub(super) fn place(old: u32, value: u32, place: u8) -> u32 {
    match place {
        WHOLE => value,
        LOW => old & 0xffff_0000 | value & 0xffff,
        _ => old & 0x0000_ffff | value << 16,
    }
}

/// Extends a byte or word.
pub(super) fn extend(bytes: &[u8], signed: bool) -> u32 {
    match (bytes, signed) {
        ([byte], false) => u32::from(*byte),
        ([byte], true) => i32::from(*byte as i8) as u32,
        (_, false) => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        (_, true) => i32::from(i16::from_le_bytes([bytes[0], bytes[1]])) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Writes and reads `DWORDS` dwords at all places of a dword in a pair, and in a dword.
    fn round_trips<const DWORDS: usize>() {
        for offset in 0..8 {
            let mut bytes = [0xee_u64; 4];
            let address = bytes.as_mut_ptr() as u64 + offset;
            let values: [u32; DWORDS] = std::array::from_fn(|i| 0x0102_0304 * (i as u32 + 1));
            // SAFETY: at most 16 bytes from the eighth on, of 32.
            let (read, byte) = unsafe {
                write_dwords(address, values);
                (read_dwords(address), ((address + 4 * DWORDS as u64) as *const u8).read())
            };
            let end = offset as usize + 4 * DWORDS;
            assert_eq!((read, byte), (values, if end.is_multiple_of(8) { 0xee } else { 0 }), "offset {offset}");
            // SAFETY: as above.
            let low: Vec<_> = (0..4 * DWORDS as u64).map(|i| unsafe { ((address + i) as *const u8).read() }).collect();
            assert_eq!(low, values.map(u32::to_le_bytes).concat(), "offset {offset}");
        }
    }

    #[test]
    fn dwords_are_moved_at_any_alignment() {
        round_trips::<1>();
        round_trips::<2>();
        round_trips::<3>();
        round_trips::<4>();
    }

    #[test]
    fn aligned_pairs_of_dwords_are_read_and_written_as_a_whole() {
        const ROUNDS: u32 = 1 << 20;
        let memory = [const { AtomicU64::new(0) }; 2];
        let address = memory.as_ptr() as u64;
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    // SAFETY: 16 bytes of atomics.
                    unsafe { write_dwords(address, [round, round, round, round]) };
                }
            });
            let mut last = 0;
            while last < ROUNDS {
                // SAFETY: as above.
                let [low, high, ..]: [u32; 4] = unsafe { read_dwords(address) };
                assert_eq!(low, high, "half of a store of 8 bytes was seen");
                last = low;
            }
        });
    }
}
