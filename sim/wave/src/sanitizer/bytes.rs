// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Bytes of an access that may be a race, and the values written there.

use super::counters::Class;
use super::shadow::{Deed, Place, Stamp};
use crate::exec;
use crate::micro_op::MicroOp;
use crate::wave::{Group, Wave};

/// Two unordered accesses to common bytes.
pub(super) struct Hit {
    /// The earlier access; `None` if it is another lane of the same instruction.
    pub other: Option<Stamp>,
    pub deed: Deed,
    pub is_lds: bool,
    pub address: u64,
    /// Mask of the later access's lanes.
    pub lanes: u64,
    /// True if both write the same value.
    pub is_equal: bool,
    /// Scope of an atomic, if it is too small to order the two.
    pub scope: Option<u8>,
}

/// An access under way.
pub(super) struct Doing<'a, const L: usize> {
    pub stamp: Stamp,
    pub is_lds: bool,
    /// True if it reads through the caches of its compute unit.
    pub is_cached: bool,
    pub op: &'a MicroOp<L>,
    pub shift: u8,
    pub returns: bool,
    /// See [`Touch::scope`](super::touch::Touch::scope).
    pub scope: Option<u8>,
    /// Index of the data register.
    pub part: usize,
}

/// A lane's bytes.
pub(super) type Bytes = (u64, u64, u8);

/// Collects the bytes of all lanes and merges adjacent ranges. Bytes that several lanes access mostly appear once.
pub(super) fn spans(lanes: &[Bytes], spans: &mut Vec<(u64, u64)>) {
    const SEEN: usize = 128;
    spans.clear();
    let Some((&(start, end, _), rest)) = lanes.split_first() else { return };
    let size = end - start;
    let mut seen = [u64::MAX; SEEN];
    // Fibonacci hashing; a start address that another has evicted is handled twice.
    let mut is_seen = |start: u64| {
        let place = &mut seen[((start >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize];
        std::mem::replace(place, start) == start
    };
    is_seen(start);
    // Outside of `spans`, so that it stays in registers: each lane has to wait for it.
    let mut last = (start, end);
    for &(start, end, _) in rest {
        if (last.0..=last.1).contains(&start) {
            last.1 = last.1.max(end);
        } else if !is_seen(start) || end - start != size {
            spans.push(std::mem::replace(&mut last, (start, end)));
        }
    }
    spans.push(last);
}

/// True if two accesses of different waves are a race without an order. Before gfx942 an instruction does not state if
/// a store is atomic, so any store may be, and a load past caches counts as atomic.
pub(super) fn conflicts(deed: Deed, other: Deed, is_lds: bool) -> bool {
    use Deed::{Atomic, EqualStore, ExpectedLoad, ScopedLoad, Store};
    match (deed, other) {
        (Atomic, Atomic | ExpectedLoad) | (ExpectedLoad, Atomic) => false,
        (ScopedLoad, _) | (_, ScopedLoad) => false,
        (Atomic, Store | EqualStore) | (Store, Atomic) => is_lds,
        _ => true,
    }
}

pub(super) fn hit<const L: usize>(
    doing: &Doing<'_, L>,
    lanes: &[Bytes],
    other: Option<Stamp>,
    (address, bytes): Place,
    is_equal: bool,
) -> Hit {
    let end = address + u64::from(bytes);
    let lanes = lanes.iter().filter(|(first, last, _)| *first < end && address < *last);
    let lanes = lanes.fold(0, |set, (.., lane)| set | 1u64 << lane);
    Hit { other, deed: doing.stamp.deed, is_lds: doing.is_lds, address, lanes, is_equal, scope: None }
}

/// The byte that a lane stores at an address.
fn stored<const L: usize>(doing: &Doing<'_, L>, wave: &Wave<L>, &(start, _, lane): &Bytes, address: u64) -> u8 {
    let at = (address - start) as usize + usize::from(doing.shift / 8);
    let register = doing.op.src[doing.part].reg as usize + at / 4;
    (wave.v[register].0[usize::from(lane)] >> (8 * (at % 4))) as u8
}

/// The lanes of a store that write the same bytes. `lanes` are in the order of their addresses.
pub(super) fn overlap<const L: usize>(doing: &Doing<'_, L>, lanes: &[Bytes], wave: &Wave<L>) -> Option<Hit> {
    // From memory to LDS: the value is not known yet.
    let is_known = !doing.op.mem.lds && doing.stamp.class != Class::AsyncLoad;
    let pairs = lanes.windows(2).filter(|pair| pair[1].0 < pair[0].1);
    let mut found: Option<Hit> = None;
    for pair in pairs {
        let (start, end) = (pair[1].0, pair[0].1.min(pair[1].1));
        let differs = |at: u64| stored(doing, wave, &pair[0], at) != stored(doing, wave, &pair[1], at);
        let is_equal = !is_known || !(start..end).any(differs);
        if found.as_ref().is_none_or(|found| found.is_equal && !is_equal) {
            found = Some(hit(doing, lanes, None, (start, (end - start) as u32), is_equal));
        }
    }
    found
}

/// True if a store leaves memory unchanged.
pub(super) fn stores_what_is_there<const L: usize>(
    doing: &Doing<'_, L>,
    lanes: &[Bytes],
    (address, bytes): Place,
    mask: u8,
    wave: &Wave<L>,
    group: &mut Group<'_>,
) -> bool {
    if doing.op.mem.lds || doing.stamp.class == Class::AsyncLoad {
        return false;
    }
    let written = (address..address + u64::from(bytes)).filter(|at| mask >> (at % 4) & 1 != 0);
    let mut there = written.map(|at| {
        let lane = lanes.iter().rfind(|(start, end, _)| (*start..*end).contains(&at))?;
        let now = match doing.is_lds {
            true => group.lds.get(at as usize).copied(),
            false => exec::peek(group, at, 1).map(|byte| byte as u8),
        };
        Some(now? == stored(doing, wave, lane, at))
    });
    there.all(|same| same == Some(true))
}
