// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! One cache of the model in [`super::caches`]: copies of ranges, and the state of their lines.

use std::io;
use std::ops::Range;

use hsa_abi::{HSA_GLOBAL_FLAG_COARSE_GRAINED, HsaPointerType};

use crate::machine::memory::allocation::{AllocationInfo, Mapping};

/// Bytes of a cache line.
pub const LINE: u64 = 128;

/// A cached range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedRange {
    /// Its number, which is that of its copies in all caches.
    pub number: usize,
    /// First address.
    pub base: u64,
    /// Address behind the last.
    pub end: u64,
    /// Host address of the base.
    host: u64,
    /// True if the L2 caches the range.
    pub is_shared: bool,
}

impl CachedRange {
    /// The range of an allocation, with this number.
    pub fn new(number: usize, range: &AllocationInfo) -> Self {
        let is_coarse = range.global_flags & HSA_GLOBAL_FLAG_COARSE_GRAINED != 0;
        let is_shared = is_coarse && range.pointer_type == HsaPointerType::HSA;
        Self { number, base: range.base, end: range.base + range.size, host: range.host, is_shared }
    }

    /// Host address of a line. Its first bytes may be outside of the range.
    pub fn host_line(&self, line: u64) -> u64 {
        self.host.wrapping_add(line.wrapping_sub(self.base))
    }
}

/// A cache without a limit to its size.
#[derive(Debug, Default)]
pub struct Cache {
    /// Copies, by the number of their range.
    pub copies: Vec<Option<Copied>>,
    /// Counter of invalidations. A line from an earlier epoch is read again.
    epoch: u64,
}

/// A cache's copy of a range. States of lines that were not accessed take no memory, like their data.
#[derive(Debug)]
pub struct Copied {
    /// Address of the range's first line.
    start: u64,
    data: Mapping,
    /// The cache's epoch when each line was read, plus one; zero if it was not read.
    read: Vec<u64>,
    /// Masks of each line's bytes that are not written back.
    written: Vec<u128>,
    /// Lines with such bytes.
    lines: Vec<u64>,
}

impl Copied {
    fn new(range: CachedRange) -> io::Result<Self> {
        let start = range.base / LINE * LINE;
        let size = (range.end - start).next_multiple_of(LINE) as usize;
        let count = size / LINE as usize;
        let data = Mapping::in_huge_pages(size)?;
        Ok(Self { start, data, read: vec![0; count], written: vec![0; count], lines: Vec::new() })
    }

    /// The number of a line.
    fn number(&self, line: u64) -> usize {
        ((line - self.start) / LINE) as usize
    }

    /// Mask of the bytes of a line that are not written back.
    pub fn written(&self, line: u64) -> u128 {
        self.written[self.number(line)]
    }

    /// Forgets that bytes of a line were written.
    pub fn forget_written(&mut self, line: u64, bytes: u128) {
        let number = self.number(line);
        self.written[number] &= !bytes;
    }

    /// Host address of the copy of an address.
    pub fn address(&self, address: u64) -> u64 {
        self.data.base() as u64 + (address - self.start)
    }

    /// Marks bytes of a line as written.
    pub fn write(&mut self, line: u64, bytes: u128) {
        let number = self.number(line);
        let written = &mut self.written[number];
        if *written == 0 {
            self.lines.push(line);
        }
        *written |= bytes;
    }
}

impl Cache {
    /// The copy of a range, which is made if there is none.
    pub fn copy(&mut self, range: CachedRange) -> &mut Copied {
        if self.copies.len() <= range.number {
            self.copies.resize_with(range.number + 1, || None);
        }
        self.copies[range.number].get_or_insert_with(|| Copied::new(range).expect("memory for the copies in a cache"))
    }

    /// The copy of a range, if there is one.
    fn existing(&self, range: CachedRange) -> Option<&Copied> {
        self.copies.get(range.number)?.as_ref()
    }

    /// True if the cache has a copy of the range.
    pub fn has_copy(&self, range: CachedRange) -> bool {
        self.existing(range).is_some()
    }

    /// Reads a line from `source`, unless the cache has it. Keeps the bytes that were written here.
    pub fn read(&mut self, range: CachedRange, line: u64, source: u64) {
        self.read_lines(range, line..line + LINE, source);
    }

    /// [`Self::read`] of lines that follow each other. `source` is that of the first one.
    pub fn read_lines(&mut self, range: CachedRange, lines: Range<u64>, source: u64) {
        let epoch = self.epoch + 1;
        let copy = self.copy(range);
        let (first, target) = (copy.number(lines.start), copy.address(lines.start));
        let numbers = first..first + ((lines.end - lines.start) / LINE) as usize;
        let states = copy.read[numbers.clone()].iter_mut().zip(&copy.written[numbers]);
        for (line, (read, written)) in lines.clone().step_by(LINE as usize).zip(states) {
            if *read != epoch {
                *read = epoch;
                let bytes = mask(line, &(line.max(range.base)..(line + LINE).min(range.end))) & !written;
                let at = line - lines.start;
                move_bytes(source.wrapping_add(at), target + at, bytes);
            }
        }
    }

    /// The first lines from the first of `lines` on of which the cache has no valid copies.
    pub fn lacks(&self, range: CachedRange, lines: Range<u64>) -> Range<u64> {
        let Some(copy) = self.existing(range) else { return lines };
        let (first, count) = (copy.number(lines.start), ((lines.end - lines.start) / LINE) as usize);
        let missing = copy.read[first..first + count].iter().take_while(|read| **read != self.epoch + 1).count();
        lines.start..lines.start + missing as u64 * LINE
    }

    /// Updates a line with written bytes from `source`, except for those bytes. Does nothing for other lines.
    pub fn refresh(&mut self, range: CachedRange, line: u64, source: u64) {
        let copy = self.copy(range);
        let number = copy.number(line);
        copy.read[number] = 0;
        self.read(range, line, source);
    }

    /// Mask of the bytes of a line that were written.
    pub fn written(&self, range: CachedRange, line: u64) -> u128 {
        self.existing(range).map_or(0, |copy| copy.written(line))
    }

    /// Removes a line together with its written bytes.
    pub fn remove(&mut self, range: CachedRange, line: u64) {
        if let Some(Some(copy)) = self.copies.get_mut(range.number) {
            let number = copy.number(line);
            (copy.read[number], copy.written[number]) = (0, 0);
        }
    }

    /// Calls `act` for each line with written bytes: number of its range, line, address of its copy, mask. Clears the
    /// masks.
    pub fn take_written(&mut self, mut act: impl FnMut(usize, u64, u64, u128)) {
        for (number, copy) in self.copies.iter_mut().enumerate() {
            let Some(copy) = copy else { continue };
            let mut lines = std::mem::take(&mut copy.lines);
            for line in lines.drain(..) {
                let at = copy.number(line);
                let bytes = std::mem::take(&mut copy.written[at]);
                if bytes != 0 {
                    act(number, line, copy.address(line), bytes);
                }
            }
            copy.lines = lines;
        }
    }

    /// Forgets all that was read.
    pub fn invalidate(&mut self) {
        self.epoch += 1;
    }
}

/// Mask of `bytes`, which lie on `line`.
pub fn mask(line: u64, bytes: &Range<u64>) -> u128 {
    let (first, count) = (bytes.start - line, bytes.end - bytes.start);
    (u128::MAX >> (128 - count)) << first
}

/// Lines of an access, with masks of the accessed bytes.
pub fn lines(address: u64, size: u64) -> impl Iterator<Item = (u64, u128)> {
    let end = address + size;
    (address / LINE * LINE..end).step_by(LINE as usize).map(move |line| {
        let bytes = line.max(address)..(line + LINE).min(end);
        (line, mask(line, &bytes))
    })
}

/// Copies the bytes of a line whose bits are set, in pieces as large as alignment allows. The addresses are the line's.
pub fn move_bytes(source: u64, target: u64, mut bytes: u128) {
    if bytes == u128::MAX && (source | target).is_multiple_of(8) {
        for at in (0..LINE).step_by(8) {
            // SAFETY: as below.
            unsafe { ((target + at) as *mut u64).write_volatile(((source + at) as *const u64).read_volatile()) };
        }
        return;
    }
    while bytes != 0 {
        let at = bytes.trailing_zeros();
        let (from, to) = (source.wrapping_add(at.into()), target.wrapping_add(at.into()));
        let run = (bytes >> at).trailing_ones();
        let fits = |&size: &u32| run >= size && (from | to).is_multiple_of(size.into());
        let size = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        // SAFETY: both are mapped (a cache's copy, and memory that the machine's map has while packets run) and
        // aligned; volatile because others may access them at the same time.
        unsafe {
            match size {
                8 => (to as *mut u64).write_volatile((from as *const u64).read_volatile()),
                4 => (to as *mut u32).write_volatile((from as *const u32).read_volatile()),
                2 => (to as *mut u16).write_volatile((from as *const u16).read_volatile()),
                _ => (to as *mut u8).write_volatile((from as *const u8).read_volatile()),
            }
        }
        bytes &= !((u128::MAX >> (128 - size)) << at);
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn range(memory: &mut [u8], base: u64) -> CachedRange {
        let host = memory.as_mut_ptr().expose_provenance() as u64;
        CachedRange { number: 1, base, end: base + memory.len() as u64, host, is_shared: true }
    }

    fn byte(cache: &mut Cache, range: CachedRange, address: u64) -> u8 {
        let copy = cache.copy(range).address(address);
        // SAFETY: a byte of the cache's copy.
        unsafe { std::ptr::with_exposed_provenance::<u8>(copy as usize).read() }
    }

    #[test]
    fn a_cache_keeps_what_it_has_read_until_it_is_invalidated_and_what_was_written_longer() {
        let mut memory = vec![1; 300];
        // A range that neither begins nor ends with a line.
        let range = range(&mut memory, 1000);
        let line = 1024;
        let mut cache = Cache::default();
        cache.read(range, line, range.host_line(line));
        assert_eq!(byte(&mut cache, range, 1030), 1);
        memory[30..34].fill(2);
        cache.read(range, line, range.host_line(line));
        assert_eq!(byte(&mut cache, range, 1030), 1, "the line is there");
        cache.copy(range).write(line, mask(line, &(1031..1033)));
        cache.invalidate();
        cache.read(range, line, range.host_line(line));
        let seen = [1030, 1031, 1032, 1033].map(|address| byte(&mut cache, range, address));
        assert_eq!(seen, [2, 1, 1, 2], "the written bytes stay");
        let written = |cache: &mut Cache| {
            let mut all = Vec::new();
            cache.take_written(|number, line, _, bytes| all.push((number, line, bytes)));
            all
        };
        assert_eq!(written(&mut cache), [(1, line, 3 << 7)]);
        assert_eq!(written(&mut cache), []);
        for line in [896, 1280] {
            cache.read(range, line, range.host_line(line));
        }
        assert_eq!([1000, 1299].map(|address| byte(&mut cache, range, address)), [1, 1]);
    }

    #[test]
    fn an_access_touches_its_bytes_of_all_of_its_lines() {
        let touched: Vec<_> = lines(250, 10).collect();
        assert_eq!(touched, [(128, 0x3f << 122), (256, 0xf)]);
        assert_eq!(lines(256, 128).collect::<Vec<_>>(), [(256, u128::MAX)]);
    }

    #[test]
    fn bytes_are_moved_by_mask() {
        let (source, mut target) = ((0..=127).collect::<Vec<u8>>(), vec![0xff_u8; 128]);
        let masks = 0b1011 | 0xff << 8 | 0x7f << 17 | 1 << 127;
        let from = source.as_ptr().expose_provenance() as u64;
        move_bytes(from, target.as_mut_ptr().expose_provenance() as u64, masks);
        for (at, &byte) in target.iter().enumerate() {
            let expected = if masks >> at & 1 == 1 { at as u8 } else { 0xff };
            assert_eq!(byte, expected, "byte {at}");
        }
    }
}
