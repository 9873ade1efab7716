// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! LDS that outstanding operations will write: loads from memory to LDS, and stores of other waves.
//!
//! LDS accesses of one wave are in order. Between waves, and between vector memory and LDS, only waits order accesses.

use super::counters::is_async;
use super::pending::Ticket;
use crate::check::slices;
use crate::hardware::slot;
use crate::operand::Upper;
use crate::wave::Wave;
use sim_isa::{Flags, Format, Inst, Op, Operand};
use std::ops::Range;

/// How an instruction accesses LDS, if it is a load, a store, an atomic, or vector memory that goes there. Loads and
/// stores that M0 names are left out, as are tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    place: Place,
    /// Offset in bytes of each of up to two accesses.
    offsets: [Option<u32>; 2],
    bytes: u32,
    pub writes: bool,
    /// True if it both reads and writes. Other such accesses need not wait for it.
    pub is_atomic: bool,
    /// True for a load of the value that a later compare-and-swap expects. The plan of the whole program sets it.
    pub is_expected: bool,
    /// Bits of its first register below the stored data.
    pub shift: u8,
    /// True for an arrival at a barrier, whose state others read while they wait.
    pub is_arrival: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A vector register has the address of each lane.
    Register(u16),
    /// M0 has the address of lane 0, in the bits of this mask; the lanes access one piece after the other from there
    /// on.
    Lanes(u32),
    /// M0 has one address for all lanes.
    Single,
}

impl Access {
    pub fn of<const L: usize>(inst: &Inst, upper: Upper) -> Option<Access> {
        let slices = slices::<L>(inst, upper);
        let register = |at: usize| match slices[at].operand {
            Operand::Vgpr(_) => Some(Place::Register(slices[at].first as u16)),
            _ => None,
        };
        let offset = inst.mem.offset as u32;
        if inst.format == Format::Global && is_async(inst.op) {
            let writes = !inst.op.has(Flags::STORE);
            let place = register(if writes { 4 } else { 1 })?;
            return Some(Access {
                place,
                offsets: [Some(offset), None],
                bytes: width(inst.op)?,
                writes,
                is_atomic: false,
                is_expected: false,
                shift: 0,
                is_arrival: false,
            });
        }
        if inst.mem.lds || inst.op.has(Flags::TO_LDS) {
            return Some(Access {
                place: Place::Lanes(crate::hardware::lds_mask(inst.target)),
                offsets: [Some(offset), None],
                bytes: width(inst.op)?.max(4),
                writes: true,
                is_atomic: false,
                is_expected: false,
                shift: 0,
                is_arrival: false,
            });
        }
        if matches!(inst.op, Op::DsAppend | Op::DsConsume) && !inst.mem.gds {
            let offsets = [Some(offset), None];
            return Some(Access {
                place: Place::Single,
                offsets,
                bytes: 4,
                writes: true,
                is_atomic: true,
                is_expected: false,
                shift: 0,
                is_arrival: false,
            });
        }
        let is_plain = inst.op.has(Flags::LOAD) || inst.op.has(Flags::STORE);
        // All other ops with an address and data that do not use LDS to exchange lanes.
        let is_arrival = matches!(inst.op, Op::DsAtomicAsyncBarrierArriveB64 | Op::DsAtomicBarrierArriveRtnB64);
        let is_atomic = is_arrival || !is_plain && inst.op.info().src.len() > 1 && !exchanges_lanes(inst.op);
        let is_named_by_m0 = matches!(inst.op, Op::DsLoadAddtidB32 | Op::DsStoreAddtidB32);
        if inst.format != Format::Ds
            || inst.mem.gds
            || !is_plain && !is_atomic
            || is_named_by_m0
            || matches!(inst.op, Op::DsStoreSrc2B32 | Op::DsStoreSrc2B64)
        {
            return None;
        }
        let bytes = width(inst.op)?;
        let scale = bytes * if inst.op.has(Flags::STRIDE64) { 64 } else { 1 };
        let offsets = match inst.op.has(Flags::TWO_OFFSETS) {
            true => [Some((offset & 0xff) * scale), Some((offset >> 8 & 0xff) * scale)],
            false => [Some(offset), None],
        };
        let writes = is_atomic || inst.op.has(Flags::STORE);
        let shift = if inst.op.has(Flags::D16_HI) { 16 } else { 0 };
        Some(Access { place: register(0)?, offsets, bytes, writes, is_atomic, is_expected: false, shift, is_arrival })
    }

    /// Mask of the lanes of `exec` that access LDS by themselves. For `ds_append`, one lane accesses it for all.
    pub fn lanes(&self, exec: u64) -> u64 {
        if self.place == Place::Single { exec & exec.wrapping_neg() } else { exec }
    }

    /// Bytes that a lane accesses.
    pub fn ranges<const L: usize>(&self, wave: &Wave<L>, lane: usize) -> impl Iterator<Item = Range<usize>> + use<L> {
        let (start, bytes) = (self.start(wave, lane), self.bytes);
        self.offsets.into_iter().flatten().map(move |offset| range(start, offset, bytes))
    }

    /// Bytes of a lane in one of the up to two accesses.
    #[inline]
    pub fn part<const L: usize>(&self, part: usize, wave: &Wave<L>, lane: usize) -> Option<Range<usize>> {
        self.offsets[part].map(|offset| range(self.start(wave, lane), offset, self.bytes))
    }

    /// The register that has the addresses of all lanes, if one has; and the offset and bytes of one of the up to two
    /// accesses.
    #[inline]
    pub fn by_register(&self, part: usize) -> Option<(u16, u32, u32)> {
        match (self.place, self.offsets[part]) {
            (Place::Register(n), Some(offset)) => Some((n, offset, self.bytes)),
            _ => None,
        }
    }

    #[inline]
    fn start<const L: usize>(&self, wave: &Wave<L>, lane: usize) -> u32 {
        match self.place {
            Place::Register(n) => wave.v[usize::from(n)].0[lane],
            Place::Lanes(mask) => (wave.s[slot::M0] & mask) + self.bytes * lane as u32,
            Place::Single => wave.s[slot::M0] & 0xffff,
        }
    }
}

fn range(start: u32, offset: u32, bytes: u32) -> Range<usize> {
    let at = start.wrapping_add(offset) as usize;
    at..at + bytes as usize
}

/// True for ops that exchange lanes through the crossbar of LDS, without its memory.
pub(super) fn exchanges_lanes(op: Op) -> bool {
    matches!(op, Op::DsPermuteB32 | Op::DsBpermuteB32 | Op::DsBpermuteFiB32 | Op::DsSwizzleB32)
}

/// Size in bytes of an access, from the end of its mnemonic: `_b128`, `_i8`, `_u16_d16_hi`, `_pk_add_f16`. The types in
/// its row are those of registers.
pub(super) fn width(op: Op) -> Option<u32> {
    let name = op.name();
    let bits = |part: &str| part.trim_start_matches(['b', 'f', 'i', 'u']).parse::<u32>().ok();
    let size = name.split('_').rev().filter(|part| part.starts_with(['b', 'f', 'i', 'u'])).find_map(bits)? / 8;
    Some(if name.contains("_pk_") { 2 * size } else { size })
}

/// A write to a dword of LDS.
#[derive(Clone, Copy)]
pub(super) struct Write {
    /// The wave that issued it.
    pub wave: u32,
    pub ticket: Ticket,
    /// The instruction, by its number in the plan.
    pub step: u32,
}

/// Minimum number of writes to keep.
const KEPT: u64 = 1 << 12;

/// The last writes to the dwords of a workgroup's LDS.
#[derive(Default)]
pub(super) struct Writes {
    /// Number of the last write to each dword. Numbers below `first` are of other workgroups.
    dwords: Vec<u64>,
    first: u64,
    /// Writes of the workgroup, from number `first` on.
    writes: Vec<Write>,
    /// Numbers of the writes that may not be complete.
    open: Vec<u64>,
}

impl Writes {
    /// Begins another workgroup, which has written nothing yet.
    pub fn clear(&mut self) {
        // No write has number 0.
        self.first = self.first.max(1) + self.writes.len() as u64;
        self.writes.clear();
        self.open.clear();
    }

    pub fn note<const L: usize>(&mut self, access: &Access, wave: &Wave<L>, write: Write) {
        let number = self.first + self.writes.len() as u64;
        self.writes.push(write);
        self.open.push(number);
        for lane in active(wave) {
            for range in access.ranges(wave, lane) {
                // Dwords outside are not written.
                if range.end > 1 << 20 {
                    continue;
                }
                let dwords = range.start / 4..range.end.div_ceil(4);
                if dwords.end > self.dwords.len() {
                    self.dwords.resize(dwords.end, 0);
                }
                self.dwords[dwords].fill(number);
            }
        }
    }

    /// Forgets complete writes, and the oldest ones beyond [`KEPT`], which waves that ended without a wait may leave.
    pub fn settle(&mut self, is_back: impl Fn(&Write) -> bool) {
        let (first, writes) = (self.first, &self.writes);
        self.open.retain(|number| !is_back(&writes[(number - first) as usize]));
        let oldest = self.open.first().copied().unwrap_or(first + writes.len() as u64);
        let kept = oldest.max((first + writes.len() as u64).saturating_sub(KEPT));
        self.writes.drain(..(kept - first) as usize);
        self.open.retain(|number| *number >= kept);
        self.first = kept;
    }

    /// True if there are so many writes that a search for complete ones is worth it.
    pub fn is_full(&self) -> bool {
        self.writes.len() as u64 >= 2 * KEPT
    }

    /// The outstanding write that an access conflicts with, the address, and the mask of the lanes that access it.
    /// `is_settled` returns true for writes that cannot conflict.
    pub fn under<const L: usize>(
        &self,
        access: &Access,
        wave: &Wave<L>,
        is_settled: impl Fn(&Write) -> bool,
    ) -> Option<(Write, usize, u64)> {
        let write = |number: u64| number.checked_sub(self.first).map(|n| self.writes[n as usize]);
        if self.open.iter().all(|&number| write(number).is_none_or(|write| is_settled(&write))) {
            return None;
        }
        let mut found: Option<(Write, usize, u64)> = None;
        for lane in active(wave) {
            for at in access.ranges(wave, lane).flat_map(|range| range.start / 4..range.end.div_ceil(4)) {
                let number = self.dwords.get(at).copied().unwrap_or_default();
                let Some(write) = write(number).filter(|write| !is_settled(write)) else { continue };
                let (known, _, lanes) = found.get_or_insert((write, 4 * at, 0));
                if (known.wave, known.step) == (write.wave, write.step) {
                    *lanes |= 1 << lane;
                }
            }
        }
        found
    }
}

fn active<const L: usize>(wave: &Wave<L>) -> impl Iterator<Item = usize> + use<L> {
    let exec = wave.exec();
    (0..L).filter(move |lane| exec >> lane & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sanitizer::counters::Class;

    #[test]
    fn what_is_back_or_too_old_is_forgotten() {
        let count = 2 * KEPT;
        let mut writes = Writes { first: 1, ..Writes::default() };
        for n in 1..=count {
            let ticket = Ticket { class: Class::Lds, n: n as u32 };
            writes.writes.push(Write { wave: 0, ticket, step: 0 });
            writes.open.push(n);
        }
        assert!(writes.is_full());
        writes.settle(|write| u64::from(write.ticket.n) <= count - 10);
        assert_eq!((writes.writes.len(), writes.open.len(), writes.first), (10, 10, count - 9));
        assert_eq!(writes.writes[0].ticket.n, writes.first as u32);
        writes.settle(|_| true);
        assert_eq!((writes.writes.len(), writes.open.len(), writes.first), (0, 0, count + 1));
        // A wave that has ended does not wait any more.
        for n in 0..count {
            let ticket = Ticket { class: Class::Lds, n: n as u32 };
            writes.writes.push(Write { wave: 0, ticket, step: 0 });
            writes.open.push(count + 1 + n);
        }
        writes.settle(|_| false);
        assert_eq!((writes.writes.len() as u64, writes.open.len() as u64), (KEPT, KEPT));
    }
}
