// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Shadow memory of accesses: for each dword the last write and two reads, for as much memory as a kernel touches.
//!
//! An instruction that accesses many dwords mostly finds the same accesses at all of them. The state of a dword is
//! therefore one 16-byte value: the indices of its accesses in a table of its page. An update computed for one dword is
//! reused for all dwords with the same old value ([`Memo`]). Four dwords share one value as long as they are always
//! accessed together.

use super::counters::Class;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Load,
    /// A plain load of the value that a later compare-and-swap expects. A stale value only makes the loop run again.
    ExpectedLoad,
    /// A load past the compute unit's own caches, as atomic loads are.
    ScopedLoad,
    Store,
    /// A store of the value that other waves have stored there, without an order.
    EqualStore,
    Atomic,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The wave's number in the dispatch.
    pub wave: u32,
    /// Number of the operation in its class.
    pub n: u32,
    /// The instruction, by its number in the plan.
    pub step: u32,
    pub class: Class,
    pub deed: Deed,
    /// The bytes of the dword.
    pub mask: u8,
}

/// The wave of no access.
const NOBODY: u32 = u32::MAX;

const NONE: Stamp = Stamp { wave: NOBODY, n: 0, step: 0, class: Class::Load, deed: Deed::Load, mask: 0 };

impl Stamp {
    pub fn is_some(&self) -> bool {
        self.wave != NOBODY
    }
}

/// Recorded accesses to a dword. Writers of bytes that the last write did not cover are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub write: Stamp,
    /// Reads since that write, the latest first: by different waves, and by different workgroups if several have read.
    pub reads: [Stamp; 2],
}

impl Cell {
    /// Records a read. `is_near` returns true for waves of the reader's workgroup.
    #[inline]
    pub fn read(&mut self, stamp: Stamp, is_near: impl Fn(u32) -> bool) {
        let [last, other] = &mut self.reads;
        if last.wave != stamp.wave && last.is_some() {
            let keeps_other = other.is_some() && is_near(last.wave) && !is_near(other.wave);
            if !keeps_other {
                *other = *last;
            }
        }
        *last = stamp;
    }

    pub fn write(&mut self, stamp: Stamp) {
        *self = Cell { write: stamp, reads: [NONE; 2] };
    }
}

/// Size of a page of memory in bytes.
const PAGE: usize = 4096;
/// Size in bytes of the unit in which accesses are reported. Kernels that load more than a dword mostly load four.
const BLOCK: usize = 16;

/// A packed [`Cell`]. From the lowest bit on: the numbers of its write and its two reads in [`Page::stamps`], 32 bits
/// each, then the byte masks of the three, 4 bits each. Number 0 is no access.
type Packed = u128;

/// Address and size in bytes of an accessed unit.
pub(super) type Place = (u64, u32);

/// Accesses to neighbouring bytes.
struct Page {
    /// Bytes that share one value: a block, or a dword if less was accessed at once.
    unit: usize,
    units: Vec<Packed>,
    /// Accesses, from number 1 on, whatever their bytes.
    stamps: Vec<Stamp>,
    /// Number of accesses at which the unreferenced ones are removed.
    limit: usize,
}

impl Page {
    fn new(bytes: usize) -> Self {
        let blocks = bytes.div_ceil(BLOCK);
        Page { unit: BLOCK, units: vec![0; blocks], stamps: Vec::new(), limit: least(blocks) }
    }

    /// Bytes in all.
    fn size(&self) -> usize {
        self.unit * self.units.len()
    }

    /// Removes all accesses.
    fn clear(&mut self) {
        if !self.stamps.is_empty() {
            self.units.fill(0);
            self.stamps.clear();
        }
    }

    #[cold]
    fn split(&mut self) {
        self.units = self.units.iter().flat_map(|packed| [*packed; BLOCK / 4]).collect();
        self.unit = 4;
        self.limit = self.limit.max(least(self.units.len()));
    }

    #[inline]
    fn cell(stamps: &[Stamp], packed: Packed) -> Cell {
        let stamp = |at: u32| match (packed >> (32 * at)) as u32 {
            0 => NONE,
            number => Stamp { mask: (packed >> (96 + 4 * at)) as u8 & 15, ..stamps[number as usize - 1] },
        };
        Cell { write: stamp(0), reads: [stamp(1), stamp(2)] }
    }

    /// Packs a cell that replaces `old`, whose packed value is `packed`.
    #[inline]
    fn pack(stamps: &mut Vec<Stamp>, cell: &Cell, old: &Cell, packed: Packed) -> Packed {
        let of_old = [&old.write, &old.reads[0], &old.reads[1]];
        let mut number = |stamp: &Stamp| {
            if let Some(at) = of_old.iter().position(|other| *other == stamp) {
                return (packed >> (32 * at)) as u32;
            }
            let whole = Stamp { mask: 15, ..*stamp };
            // Accesses of the current instruction are the last ones.
            let last = stamps.len().saturating_sub(2);
            let at = stamps[last..].iter().position(|other| *other == whole).map(|at| last + at);
            let at = at.unwrap_or_else(|| {
                stamps.push(whole);
                stamps.len() - 1
            });
            at as u32 + 1
        };
        let all = [&cell.write, &cell.reads[0], &cell.reads[1]].into_iter().enumerate();
        all.filter(|(_, stamp)| stamp.is_some()).fold(0, |packed, (at, stamp)| {
            packed | Packed::from(number(stamp)) << (32 * at) | Packed::from(stamp.mask & 15) << (96 + 4 * at)
        })
    }

    /// Updates the units of a range of offsets, whose first one is at address `base`. Calls `update` with the mask of
    /// the bytes that the range covers in their dwords, unless `memo` has the result already. `update` returns true if
    /// the result holds for all units with the same old value.
    #[inline]
    fn visit(
        &mut self,
        base: u64,
        (start, end): (usize, usize),
        memo: &mut Memo,
        update: &mut impl FnMut(&mut Cell, Place, u8) -> bool,
    ) {
        if start >= end {
            return;
        }
        if (start | end) % self.unit != 0 && self.unit == BLOCK {
            self.split();
        }
        let Page { unit, units, stamps, .. } = self;
        let unit = *unit;
        let mut visit = |packed: &mut Packed, at: usize, mask: u8| {
            let old = Self::cell(stamps, *packed);
            let mut cell = old;
            let is_like_all = update(&mut cell, (base + (unit * at) as u64, unit as u32), mask);
            let new = Self::pack(stamps, &cell, &old, *packed);
            (std::mem::replace(packed, new), is_like_all)
        };
        // Whole units are between the two; others are dwords.
        let (first, last) = (start.div_ceil(unit), end / unit);
        if start < unit * first {
            let mask = 0xf << (start % 4) & 0xf >> (4 * first).saturating_sub(end);
            visit(&mut units[start / 4], start / 4, mask);
        }
        if first > last {
            return;
        }
        let (mut was, mut is) = (Packed::MAX, 0);
        for (at, packed) in units[first..last].iter_mut().enumerate() {
            if *packed == was {
                *packed = is;
                continue;
            }
            let known = memo.of(*packed);
            if known.0 != *packed {
                let (old, is_like_all) = visit(packed, first + at, 0xf);
                if is_like_all {
                    *known = (old, *packed);
                    (was, is) = *known;
                }
                continue;
            }
            (was, is) = *known;
            *packed = is;
        }
        if end % unit != 0 {
            visit(&mut units[last], last, 0xf >> (4 - end % 4));
        }
    }

    /// Removes the accesses that no unit refers to, if there are too many.
    #[inline]
    fn settle(&mut self) {
        if self.stamps.len() >= self.limit {
            self.sweep();
        }
    }

    #[cold]
    fn sweep(&mut self) {
        let mut numbers = vec![0; self.stamps.len() + 1];
        let mut kept = Vec::new();
        for packed in &mut self.units {
            let of = [0, 32, 64].map(|shift| match (*packed >> shift) as u32 as usize {
                0 => 0,
                number => {
                    if numbers[number] == 0 {
                        kept.push(self.stamps[number - 1]);
                        numbers[number] = kept.len();
                    }
                    (numbers[number] as Packed) << shift
                }
            });
            *packed = *packed >> 96 << 96 | of[0] | of[1] | of[2];
        }
        self.limit = least(self.units.len()).max(2 * kept.len());
        self.stamps = kept;
    }
}

/// Minimum number of accesses to keep for a number of units, so that a pass over the units is worth its cost.
fn least(units: usize) -> usize {
    units.max(64) / 2
}

/// Cache of an instruction's updates: old and new values of units, of which a few are likely to recur.
struct Memo([(Packed, Packed); MEMO]);

const MEMO: usize = 8;

impl Memo {
    /// An empty cache: no unit has the old value `Packed::MAX`.
    fn new() -> Self {
        Memo([(Packed::MAX, 0); MEMO])
    }

    #[inline]
    fn of(&mut self, packed: Packed) -> &mut (Packed, Packed) {
        // Consecutive writes have consecutive numbers.
        &mut self.0[(packed as usize ^ (packed >> 32) as usize) % MEMO]
    }
}

/// Accesses to a workgroup's LDS.
#[derive(Default)]
pub(super) struct Local(Option<Page>);

impl Local {
    /// Begins a workgroup with `size` bytes.
    pub fn begin(&mut self, size: usize) {
        match &mut self.0 {
            Some(page) if page.size() == size.next_multiple_of(BLOCK) => page.clear(),
            page => *page = Some(Page::new(size)),
        }
    }

    /// See [`Page::visit`]. Bytes outside of LDS are ignored.
    pub fn visit(&mut self, spans: &[(u64, u64)], update: &mut impl FnMut(&mut Cell, Place, u8) -> bool) {
        let Some(page) = &mut self.0 else { return };
        page.settle();
        let mut memo = Memo::new();
        let size = page.size() as u64;
        for &(start, end) in spans.iter().filter(|(_, end)| *end <= size) {
            page.visit(0, (start as usize, end as usize), &mut memo, update);
        }
    }
}

const SHARDS: usize = 64;

/// Accesses to a page of memory.
type OfPage = Arc<Mutex<Page>>;

/// Adjacent blocks of 16 bytes with the same accesses.
pub(super) struct Run {
    pub address: u64,
    pub blocks: u32,
    /// Mask of a block's bytes, lowest first.
    pub bytes: u16,
    pub cell: Cell,
}

/// Accesses to the memory of a dispatch, shared by its threads.
pub(super) struct Global {
    /// Pages by their numbers.
    shards: Vec<Mutex<HashMap<u64, OfPage>>>,
}

/// Cache of the pages that a thread has looked up last, by their numbers modulo its size.
pub(super) struct Kept(Vec<Option<(u64, OfPage)>>);

const KEPT: usize = 256;

impl Kept {
    /// An empty cache, to stand in for one in use.
    pub fn none() -> Self {
        Kept(Vec::new())
    }
}

impl Default for Kept {
    fn default() -> Self {
        Kept(vec![None; KEPT])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Global {
    pub fn new() -> Self {
        Global { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Calls `tell` with the accesses to each page.
    pub fn each_page(&self, mut tell: impl FnMut(&[Run])) {
        let mut runs = Vec::<Run>::new();
        for shard in &self.shards {
            for (number, page) in lock(shard).iter() {
                let page = lock(page);
                runs.clear();
                let mut last = 0;
                for (n, block) in page.units.chunks_exact(BLOCK / page.unit).enumerate() {
                    let is_uniform = block.iter().all(|packed| *packed == block[0]);
                    if is_uniform && block[0] != 0 && block[0] == last {
                        runs.last_mut().into_iter().for_each(|run| run.blocks += 1);
                        continue;
                    }
                    last = if is_uniform { block[0] } else { 0 };
                    let address = number * PAGE as u64 + (BLOCK * n) as u64;
                    let of = if is_uniform { &block[..1] } else { block };
                    for (dword, packed) in of.iter().enumerate().filter(|(_, packed)| **packed != 0) {
                        let bytes = if is_uniform { 0xffff } else { 0xf << (4 * dword) };
                        runs.push(Run { address, blocks: 1, bytes, cell: Page::cell(&page.stamps, *packed) });
                    }
                }
                tell(&runs);
            }
        }
    }

    fn page<'k>(&self, kept: &'k mut Kept, page: u64) -> &'k Mutex<Page> {
        let slot = &mut kept.0[page as usize % KEPT];
        if slot.as_ref().is_none_or(|(number, _)| *number != page) {
            let mut pages = lock(&self.shards[page as usize % SHARDS]);
            let new = || Arc::new(Mutex::new(Page::new(PAGE)));
            *slot = Some((page, pages.entry(page).or_insert_with(new).clone()));
        }
        match slot {
            Some((_, page)) => page,
            None => unreachable!("it was put there"),
        }
    }

    /// See [`Page::visit`]. Holds the lock of the page meanwhile.
    pub fn visit(&self, kept: &mut Kept, spans: &[(u64, u64)], update: &mut impl FnMut(&mut Cell, Place, u8) -> bool) {
        let size = PAGE as u64;
        let mut rest = spans.iter().copied();
        let mut part = rest.next();
        while let Some((start, _)) = part {
            let number = start / size;
            let base = number * size;
            let mut page = lock(self.page(kept, number));
            page.settle();
            let mut memo = Memo::new();
            while let Some((start, end)) = part.filter(|(start, _)| start / size == number) {
                let upto = end.min(base + size);
                page.visit(base, ((start - base) as usize, (upto - base) as usize), &mut memo, update);
                part = if upto < end { Some((upto, end)) } else { rest.next() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Cell = Cell { write: NONE, reads: [NONE; 2] };

    fn stamp(n: u32) -> Stamp {
        Stamp { wave: n % 7, n, step: n / 3, class: Class::Lds, deed: Deed::Store, mask: 0 }
    }

    #[test]
    fn dwords_keep_their_accesses_when_others_are_forgotten() {
        let mut local = Local::default();
        local.begin(1 << 10);
        let mut cells = [EMPTY; 256];
        for n in 0..5000_u32 {
            let (mut start, mut bytes) = (u64::from(n * 37 % 1000), 1 + u64::from(n % 24));
            if n < 400 {
                // Blocks have one value each so far.
                (start, bytes) = (start / 16 * 16, 16 * (1 + u64::from(n % 2)));
            }
            let update = |cell: &mut Cell, mask: u8| {
                let stamp = Stamp { mask, ..stamp(n) };
                if n.is_multiple_of(3) { cell.write(stamp) } else { cell.read(stamp, |wave| wave < 4) }
            };
            let before = cells;
            for (at, cell) in cells.iter_mut().enumerate() {
                let covers = |byte: &u64| (start..start + bytes).contains(&(4 * at as u64 + byte));
                let mask = (0..4).filter(covers).fold(0, |mask, byte| mask | 1 << byte);
                if mask != 0 {
                    update(cell, mask);
                }
            }
            local.visit(&[(start, start + bytes)], &mut |cell, (address, bytes), mask| {
                let first = address as usize / 4;
                assert!(before[first..first + bytes as usize / 4].iter().all(|before| before == cell), "access {n}");
                update(cell, mask);
                true
            });
            assert_eq!(local.0.as_ref().unwrap().unit, if n < 400 { 16 } else { 4 });
        }
        let page = local.0.unwrap();
        assert!(page.stamps.len() <= page.limit, "{} accesses are kept", page.stamps.len());
        assert!(page.limit <= 4 * 3 * 256);
        for (packed, cell) in page.units.iter().zip(&cells) {
            assert_eq!(Page::cell(&page.stamps, *packed), *cell);
        }
    }
}
