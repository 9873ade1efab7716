// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Ranges of memory, divided into blocks that are given back before their last use is over.
//!
//! A block comes back with a *death*: pairs of axis and epoch (`iree/async/frontier.h`) that have passed once the block
//! is unused. A requester is ordered after some pairs. A byte is only given to a requester that is ordered after all
//! pairs with which the byte has come back since it was last taken:
//!
//! * A block that is cut leaves its death to both parts.
//! * Free neighbours whose deaths name the same axes become one block; the later epoch of each axis counts.
//! * Other free neighbours stay apart. A requester that is ordered after the deaths of all takes them together, from
//!   the first on.
//! * A death of more pairs than the capacity is unknown: no requester is ordered after it.
//!
//! Free blocks are in bins by their length, eight bins for each power of two. A bitmap marks the bins that have any.
//! Taking a block looks at a few blocks of each bin, the latest first. If none of these will do, it looks at all free
//! blocks and their free neighbours. Only [`Ranges::take`], [`Ranges::take_waiting`] and [`Ranges::add`] allocate host
//! memory. Each fails when it cannot, and then has changed nothing.

use std::collections::TryReserveError;

/// An epoch of an axis.
pub type Epoch = (u64, u64);

type Index = u32;

/// No block.
const NONE: Index = Index::MAX;

/// In [`Block::pairs`]: the death is unknown.
const UNKNOWN: u8 = u8::MAX;

/// Bins for each power of two, as a power of two.
const STEP_BITS: u32 = 3;

/// The number of bins for lengths of 64 bits.
const BINS: usize = (64 - STEP_BITS as usize + 1) << STEP_BITS;

/// The blocks of a bin that are checked before larger blocks are.
const LOOKS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not a part of a range: unused entry for a new block.
    Spare,
    Free,
    Taken,
}

/// Part of a range.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The start in units from the beginning of the range.
    start: usize,
    /// The length in units.
    length: usize,
    /// The neighbours in the range.
    before: Index,
    behind: Index,
    /// The neighbours in its bin, or the next spare block.
    previous: Index,
    next: Index,
    range: u16,
    /// The number of pairs in its death, or [`UNKNOWN`].
    pairs: u8,
    state: State,
}

const SPARE: Block = Block {
    start: 0,
    length: 0,
    before: NONE,
    behind: NONE,
    previous: NONE,
    next: NONE,
    range: 0,
    pairs: 0,
    state: State::Spare,
};

/// Memory that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The block's number, by which it is given back.
    pub block: u32,
    /// The range that it is part of.
    pub range: u16,
    /// The offset in bytes from the beginning of the range.
    pub offset: usize,
    /// The length in bytes.
    pub length: usize,
    /// True if part of the memory has been in use before, as far as is known.
    pub was_used: bool,
}

/// Ranges of memory and their blocks.
#[derive(Clone)]
pub struct Ranges {
    /// The unit, in bytes, as a power of two.
    unit_bits: u32,
    /// The most pairs of a death.
    capacity: u8,
    blocks: Vec<Block>,
    /// `capacity` pairs for each block.
    deaths: Vec<Epoch>,
    spare: Index,
    bins: [Index; BINS],
    bitmap: [u64; BINS.div_ceil(64)],
    misses: u64,
}

impl Ranges {
    /// No ranges at first. Blocks begin at multiples of `alignment` bytes, a power of two; their deaths have at most
    /// `capacity` pairs.
    pub fn new(alignment: usize, capacity: u8) -> Self {
        Self {
            unit_bits: alignment.trailing_zeros(),
            capacity: capacity.clamp(1, UNKNOWN - 1),
            blocks: Vec::new(),
            deaths: Vec::new(),
            spare: NONE,
            bins: [NONE; BINS],
            bitmap: [0; BINS.div_ceil(64)],
            misses: 0,
        }
    }

    /// Adds the unused `range` of `length` bytes. Returns its first block, for [`Self::remove`].
    ///
    /// # Errors
    /// The error for a lack of host memory.
    pub fn add(&mut self, range: u16, length: usize) -> Result<u32, TryReserveError> {
        let block = self.spare()?;
        self.blocks[block as usize] =
            Block { length: length >> self.unit_bits, range, state: State::Free, ..self.blocks[block as usize] };
        self.insert(block);
        Ok(block)
    }

    /// Removes the range that begins with the block `first`, if all of it is free and `is_over` holds for every pair.
    pub fn remove(&mut self, first: u32, is_over: impl Fn(u64, u64) -> bool) -> bool {
        let mut block = first;
        while block != NONE {
            if self.blocks[block as usize].state != State::Free || !self.is_over(block, &is_over) {
                return false;
            }
            block = self.blocks[block as usize].behind;
        }
        block = first;
        while block != NONE {
            let behind = self.blocks[block as usize].behind;
            self.withdraw(block);
            self.discard(block);
            block = behind;
        }
        true
    }

    /// Takes `size` bytes, 1 or more, for a requester that is ordered after each pair of axis and epoch for which
    /// `is_over` holds. None if there are not so many contiguous bytes.
    ///
    /// # Errors
    /// The error for a lack of host memory.
    #[inline]
    pub fn take(&mut self, size: usize, is_over: impl Fn(u64, u64) -> bool) -> Result<Option<Taken>, TryReserveError> {
        let units = self.units(size);
        let found = self.find(units, &is_over);
        let Some(mut first) = found.or_else(|| self.find_run(units, |it, block| it.is_over(block, &is_over))) else {
            return Ok(None);
        };
        // Usable memory in front of it is taken first: small pieces would keep large ones apart.
        loop {
            let before = self.blocks[first as usize].before;
            if before == NONE || self.blocks[before as usize].state != State::Free || !self.is_over(before, &is_over) {
                break;
            }
            first = before;
        }
        self.gather(first, units).map(Some)
    }

    /// Takes `size` bytes, 1 or more, that may still be in use, with the pairs that have passed once they are not. None
    /// if there are not so many contiguous bytes with known deaths.
    ///
    /// # Errors
    /// The error for a lack of host memory.
    pub fn take_waiting(&mut self, size: usize) -> Result<Option<(Taken, Vec<Epoch>)>, TryReserveError> {
        let units = self.units(size);
        let Some(first) = self.find_run(units, |it, block| it.blocks[block as usize].pairs != UNKNOWN) else {
            return Ok(None);
        };
        let mut death = Vec::new();
        let (mut block, mut length) = (first, 0);
        while length < units {
            for (axis, epoch) in self.death(block) {
                match death.binary_search_by_key(axis, |(axis, _)| *axis) {
                    Ok(at) => death[at].1 = (*epoch).max(death[at].1),
                    Err(at) => {
                        death.try_reserve(1)?;
                        death.insert(at, (*axis, *epoch));
                    }
                }
            }
            length += self.blocks[block as usize].length;
            block = self.blocks[block as usize].behind;
        }
        Ok(Some((self.gather(first, units)?, death)))
    }

    /// Gives back the taken `block`. Its last use is over when all pairs of `death`, in ascending order of their axes,
    /// have passed.
    ///
    /// # Panics
    /// If it is not taken.
    pub fn give_back(&mut self, block: u32, death: impl ExactSizeIterator<Item = Epoch>) {
        let it = &mut self.blocks[block as usize];
        assert!(it.state == State::Taken, "memory that is not taken is given back");
        it.state = State::Free;
        it.pairs = UNKNOWN;
        if death.len() <= usize::from(self.capacity) {
            it.pairs = death.len() as u8;
            let place = &mut self.deaths[block as usize * usize::from(self.capacity)..];
            place.iter_mut().zip(death).for_each(|(place, pair)| *place = pair);
        }
        let Block { before, behind, .. } = *it;
        if behind != NONE && self.may_join(block, behind) {
            self.withdraw(behind);
            self.join(block, behind);
        }
        if before != NONE && self.may_join(before, block) {
            self.withdraw(before);
            self.join(before, block);
            self.insert(before);
        } else {
            self.insert(block);
        }
    }

    /// The number of free blocks of sufficient length that [`Self::take`] passed over because they may still be in use.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    #[inline]
    fn units(&self, size: usize) -> usize {
        ((size - 1) >> self.unit_bits) + 1
    }

    /// The pairs of a known death.
    #[inline]
    fn death(&self, block: Index) -> &[Epoch] {
        let place = block as usize * usize::from(self.capacity);
        &self.deaths[place..place + usize::from(self.blocks[block as usize].pairs)]
    }

    /// Returns true if `is_over` holds for every pair of the block's death.
    #[inline]
    fn is_over(&self, block: Index, is_over: &impl Fn(u64, u64) -> bool) -> bool {
        match self.blocks[block as usize].pairs {
            0 => true,
            UNKNOWN => false,
            _ => self.death(block).iter().all(|(axis, epoch)| is_over(*axis, *epoch)),
        }
    }

    /// Returns true if both neighbours are free, with deaths of the same axes.
    fn may_join(&self, block: Index, behind: Index) -> bool {
        let (block_, behind_) = (&self.blocks[block as usize], &self.blocks[behind as usize]);
        block_.state == State::Free
            && behind_.state == State::Free
            && block_.pairs == behind_.pairs
            && (block_.pairs == UNKNOWN
                || self.death(block).iter().zip(self.death(behind)).all(|(one, other)| one.0 == other.0))
    }

    /// Makes `block` and `behind`, neighbours whose deaths name the same axes, one block. Neither is in a bin.
    fn join(&mut self, block: Index, behind: Index) {
        let capacity = usize::from(self.capacity);
        if self.blocks[block as usize].pairs != UNKNOWN {
            for pair in 0..usize::from(self.blocks[block as usize].pairs) {
                let other = self.deaths[behind as usize * capacity + pair].1;
                let epoch = &mut self.deaths[block as usize * capacity + pair].1;
                *epoch = other.max(*epoch);
            }
        }
        self.absorb(block, behind);
    }

    /// Adds `behind`, which is in no bin, to `block` in front of it.
    fn absorb(&mut self, block: Index, behind: Index) {
        let Block { length, behind: last, .. } = self.blocks[behind as usize];
        self.blocks[block as usize].length += length;
        self.blocks[block as usize].behind = last;
        if last != NONE {
            self.blocks[last as usize].before = block;
        }
        self.discard(behind);
    }

    /// A free block of at least `units` that the requester may take, among the latest few of each bin.
    #[inline]
    fn find(&mut self, units: usize, is_over: &impl Fn(u64, u64) -> bool) -> Option<Index> {
        let mut next = self.bin_from(bin_of(units));
        while let Some(bin) = next {
            let (mut block, mut looks) = (self.bins[bin], 0);
            while block != NONE && looks < LOOKS {
                if self.blocks[block as usize].length >= units {
                    if self.is_over(block, is_over) {
                        return Some(block);
                    }
                    self.misses += 1;
                }
                block = self.blocks[block as usize].next;
                looks += 1;
            }
            next = self.bin_from(bin + 1);
        }
        None
    }

    /// The first of contiguous free blocks of `units` in all for which `will_do` holds.
    #[cold]
    fn find_run(&self, units: usize, will_do: impl Fn(&Self, Index) -> bool) -> Option<Index> {
        let will_do = |block| block != NONE && self.blocks[block as usize].state == State::Free && will_do(self, block);
        let mut next = self.bin_from(0);
        while let Some(bin) = next {
            let mut first = self.bins[bin];
            while first != NONE {
                // If the block in front will do, the run is found from there.
                if will_do(first) && !will_do(self.blocks[first as usize].before) {
                    let (mut block, mut length) = (first, 0);
                    while will_do(block) {
                        length += self.blocks[block as usize].length;
                        if length >= units {
                            return Some(first);
                        }
                        block = self.blocks[block as usize].behind;
                    }
                }
                first = self.blocks[first as usize].next;
            }
            next = self.bin_from(bin + 1);
        }
        None
    }

    /// Takes the `units` from the beginning of `first` on, which are all free.
    #[inline]
    fn gather(&mut self, first: Index, units: usize) -> Result<Taken, TryReserveError> {
        let mut was_used = self.blocks[first as usize].pairs != 0;
        if self.blocks[first as usize].length > units {
            let rest = self.spare()?;
            self.withdraw(first);
            self.cut(first, rest, units);
        } else {
            self.withdraw(first);
            while self.blocks[first as usize].length < units {
                let missing = units - self.blocks[first as usize].length;
                let behind = self.blocks[first as usize].behind;
                was_used |= self.blocks[behind as usize].pairs != 0;
                self.withdraw(behind);
                if self.blocks[behind as usize].length <= missing {
                    self.absorb(first, behind);
                } else {
                    self.blocks[behind as usize].start += missing;
                    self.blocks[behind as usize].length -= missing;
                    self.blocks[first as usize].length = units;
                    self.insert(behind);
                }
            }
        }
        let block = &mut self.blocks[first as usize];
        block.state = State::Taken;
        block.pairs = 0;
        let (offset, length) = (block.start << self.unit_bits, units << self.unit_bits);
        Ok(Taken { block: first, range: block.range, offset, length, was_used })
    }

    /// Makes `rest` of the part of `block`, which is in no bin, behind its first `units`. Its state and death are those
    /// of `block`.
    #[inline]
    fn cut(&mut self, block: Index, rest: Index, units: usize) {
        let whole = self.blocks[block as usize];
        self.blocks[rest as usize] =
            Block { start: whole.start + units, length: whole.length - units, before: block, ..whole };
        if whole.pairs != UNKNOWN {
            let (capacity, pairs) = (usize::from(self.capacity), usize::from(whole.pairs));
            let place = block as usize * capacity;
            self.deaths.copy_within(place..place + pairs, rest as usize * capacity);
        }
        if whole.behind != NONE {
            self.blocks[whole.behind as usize].before = rest;
        }
        self.blocks[block as usize].length = units;
        self.blocks[block as usize].behind = rest;
        self.insert(rest);
    }

    /// An unused block without neighbours and death.
    #[inline]
    fn spare(&mut self) -> Result<Index, TryReserveError> {
        if self.spare == NONE {
            self.grow()?;
        }
        let block = self.spare;
        self.spare = self.blocks[block as usize].next;
        Ok(block)
    }

    #[cold]
    fn grow(&mut self) -> Result<(), TryReserveError> {
        let more = self.blocks.len().max(16).min(NONE as usize - self.blocks.len());
        self.blocks.try_reserve_exact(more)?;
        self.deaths.try_reserve_exact(more * usize::from(self.capacity))?;
        for _ in 0..more {
            let block = self.blocks.len() as Index;
            self.blocks.push(SPARE);
            self.discard(block);
        }
        self.deaths.resize(self.blocks.len() * usize::from(self.capacity), (0, 0));
        Ok(())
    }

    /// Makes a block, which is in no bin, unused.
    #[inline]
    fn discard(&mut self, block: Index) {
        let next = std::mem::replace(&mut self.spare, block);
        self.blocks[block as usize] = Block { next, ..SPARE };
    }

    /// Puts a free block into its bin.
    #[inline]
    fn insert(&mut self, block: Index) {
        let bin = bin_of(self.blocks[block as usize].length);
        let next = std::mem::replace(&mut self.bins[bin], block);
        self.blocks[block as usize].next = next;
        self.blocks[block as usize].previous = NONE;
        if next != NONE {
            self.blocks[next as usize].previous = block;
        }
        self.bitmap[bin / 64] |= 1 << (bin % 64);
    }

    /// Takes a free block out of its bin.
    #[inline]
    fn withdraw(&mut self, block: Index) {
        let Block { length, previous, next, .. } = self.blocks[block as usize];
        if next != NONE {
            self.blocks[next as usize].previous = previous;
        }
        if previous != NONE {
            self.blocks[previous as usize].next = next;
            return;
        }
        let bin = bin_of(length);
        self.bins[bin] = next;
        if next == NONE {
            self.bitmap[bin / 64] &= !(1 << (bin % 64));
        }
    }

    /// The first bin from `bin` on that has blocks.
    #[inline]
    fn bin_from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.bitmap.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bitmap.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// The bin of blocks of `units` units, 1 or more: by their power of two and the next bits below it.
#[inline]
fn bin_of(units: usize) -> usize {
    let top = units.ilog2();
    let shift = top.saturating_sub(STEP_BITS);
    ((shift as usize) << STEP_BITS) + (units >> shift)
}

#[cfg(test)]
#[path = "ranges_test.rs"]
mod tests;
