// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Who has accessed which bytes: for each dword the last write and two reads, as much of it as a kernel touches.

use super::counters::Class;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Load,
    /// A load past the compute unit's own caches, as atomic loads are.
    ScopedLoad,
    Store,
    /// A store of what others have stored there, in no order.
    EqualStore,
    Atomic,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The wave's number in the dispatch.
    pub wave: u32,
    /// Which operation of its class it is.
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

/// The accesses to a dword that are kept. Of other bytes of it than the last write's it is forgotten who wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub write: Stamp,
    /// Since then; the latest first. Of different waves, and of different workgroups where more than one has read.
    pub reads: [Stamp; 2],
}

const EMPTY: Cell = Cell { write: NONE, reads: [NONE; 2] };

impl Cell {
    /// Notes a read. `is_near` says whether a wave is of the reader's workgroup.
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

/// Of a block; kernels that load more than a dword at once mostly load four.
const DWORDS: usize = 4;
const BLOCK: usize = 4 * DWORDS;
const PAGE: usize = 4096;

/// Bytes that were mostly accessed together.
#[derive(Clone, Debug)]
enum Block {
    Uniform(Cell),
    Dwords(Box<[Cell; DWORDS]>),
}

/// The dwords that a cell stands for: address, and bytes from there on.
pub(super) type Place = (u64, u32);

/// Calls `update` for the cells of a range of offsets in `blocks`, which begin at address `base`, with the bytes of
/// their dwords that it covers.
fn visit(blocks: &mut [Block], base: u64, (start, end): (usize, usize), update: &mut dyn FnMut(&mut Cell, Place, u8)) {
    let mut at = start;
    while at < end {
        let block = &mut blocks[at / BLOCK];
        let block_end = (at / BLOCK + 1) * BLOCK;
        if at.is_multiple_of(BLOCK) && end >= block_end {
            match block {
                Block::Uniform(cell) => update(cell, (base + at as u64, BLOCK as u32), 0xf),
                Block::Dwords(cells) => {
                    for (n, cell) in cells.iter_mut().enumerate() {
                        update(cell, (base + (at + 4 * n) as u64, 4), 0xf);
                    }
                    if cells[1..].iter().all(|cell| *cell == cells[0]) {
                        *block = Block::Uniform(cells[0]);
                    }
                }
            }
            at = block_end;
            continue;
        }
        if let Block::Uniform(cell) = block {
            *block = Block::Dwords(Box::new([*cell; DWORDS]));
        }
        let Block::Dwords(cells) = block else { continue };
        while at < end.min(block_end) {
            let dword = at / 4 * 4;
            let upto = end.min(dword + 4);
            let mask = (0xf << (at - dword)) & (0xf >> (dword + 4 - upto)) & 0xf;
            update(&mut cells[dword % BLOCK / 4], (base + dword as u64, 4), mask);
            at = upto;
        }
    }
}

/// Of a workgroup's LDS.
#[derive(Default)]
pub(super) struct Local(Vec<Block>);

impl Local {
    /// A workgroup begins with `size` bytes.
    pub fn begin(&mut self, size: usize) {
        self.0.clear();
        self.0.resize(size.div_ceil(BLOCK), Block::Uniform(EMPTY));
    }

    /// See [`visit`]; what is outside is a fault.
    pub fn visit(&mut self, (start, end): (u64, u64), update: &mut dyn FnMut(&mut Cell, Place, u8)) {
        if end <= (self.0.len() * BLOCK) as u64 {
            visit(&mut self.0, 0, (start as usize, end as usize), update);
        }
    }
}

const SHARDS: usize = 64;

/// Of a page of memory.
type Blocks = Arc<Mutex<Vec<Block>>>;

/// Of the memory that a dispatch accesses, shared by its threads.
pub(super) struct Global {
    /// By the number of the page.
    shards: Vec<Mutex<HashMap<u64, Blocks>>>,
}

/// Pages that a thread has looked up last, by their numbers modulo as many.
pub(super) struct Kept(Vec<Option<(u64, Blocks)>>);

const KEPT: usize = 256;

impl Kept {
    /// Room for none, in the place of one that is used.
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

    /// Calls `tell` with what is known of the bytes of each page: the address of 16, which of them, and the accesses.
    pub fn each_page(&self, mut tell: impl FnMut(&mut dyn Iterator<Item = (u64, u16, &Cell)>)) {
        for shard in &self.shards {
            for (page, blocks) in lock(shard).iter() {
                let blocks = lock(blocks);
                let base = page * PAGE as u64;
                let mut cells = blocks.iter().enumerate().flat_map(|(n, block)| {
                    let at = base + (n * BLOCK) as u64;
                    let cells = match block {
                        Block::Uniform(cell) => std::slice::from_ref(cell),
                        Block::Dwords(cells) => &cells[..],
                    };
                    let is_uniform = cells.len() == 1;
                    cells
                        .iter()
                        .enumerate()
                        .map(move |(dword, cell)| (at, if is_uniform { 0xffff } else { 0xf << (4 * dword) }, cell))
                });
                tell(&mut cells);
            }
        }
    }

    fn page<'k>(&self, kept: &'k mut Kept, page: u64) -> &'k Mutex<Vec<Block>> {
        let slot = &mut kept.0[page as usize % KEPT];
        if slot.as_ref().is_none_or(|(number, _)| *number != page) {
            let mut pages = lock(&self.shards[page as usize % SHARDS]);
            let new = || Arc::new(Mutex::new(vec![Block::Uniform(EMPTY); PAGE / BLOCK]));
            *slot = Some((page, pages.entry(page).or_insert_with(new).clone()));
        }
        match slot {
            Some((_, blocks)) => blocks,
            None => unreachable!("it was put there"),
        }
    }

    /// See [`visit`]. Each page is locked meanwhile.
    pub fn visit(&self, kept: &mut Kept, spans: &[(u64, u64)], update: &mut dyn FnMut(&mut Cell, Place, u8)) {
        let size = PAGE as u64;
        let mut parts = spans
            .iter()
            .flat_map(|&(start, end)| {
                (start / size..end.div_ceil(size))
                    .map(move |page| (page, start.max(page * size), end.min((page + 1) * size)))
            })
            .peekable();
        while let Some(first) = parts.next() {
            let page = first.0;
            let mut blocks = lock(self.page(kept, page));
            let mut next = Some(first);
            while let Some((_, start, end)) = next {
                let inside = ((start - page * size) as usize, (end - page * size) as usize);
                visit(&mut blocks, page * size, inside, update);
                next = parts.next_if(|(number, ..)| *number == page);
            }
        }
    }
}
