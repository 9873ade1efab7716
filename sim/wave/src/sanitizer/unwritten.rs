// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Uninitialized bytes of memory and LDS.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory that a [`Page`] covers.
pub const PAGE: u64 = 4096;

/// Bit mask of a page's uninitialized bytes.
pub struct Page([AtomicU64; PAGE as usize / 64]);

impl Page {
    /// Creates an uninitialized page.
    pub fn unwritten() -> Self {
        Page(std::array::from_fn(|_| AtomicU64::new(u64::MAX)))
    }

    /// Creates a fully written page.
    pub fn written() -> Self {
        Page(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// The bits of a range of at most a page, by word.
    fn words(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
        let (start, end) = (range.start % PAGE, range.start % PAGE + (range.end - range.start));
        (start / 64..end.div_ceil(64)).map(move |word| {
            let (first, last) = (start.max(64 * word), end.min(64 * word + 64));
            (word as usize, u64::MAX >> (64 - (last - first)) << (first % 64))
        })
    }

    /// Marks a range of addresses, not empty and inside the page, as written or as uninitialized.
    pub fn set(&self, range: Range<u64>, is_unwritten: bool) {
        for (word, bits) in Self::words(range) {
            let word = &self.0[word];
            // Relaxed: the order of the accesses themselves is that of these words. Mostly there is nothing to change.
            let old = word.load(Ordering::Relaxed);
            if is_unwritten && old & bits != bits {
                word.fetch_or(bits, Ordering::Relaxed);
            } else if !is_unwritten && old & bits != 0 {
                word.fetch_and(!bits, Ordering::Relaxed);
            }
        }
    }

    fn any(&self, range: Range<u64>) -> bool {
        Self::words(range).any(|(word, bits)| self.0[word].load(Ordering::Relaxed) & bits != 0)
    }

    /// Bits of the bytes from an address on, which are in one word.
    #[inline]
    fn bits(&self, address: u64, bytes: u32) -> u32 {
        let at = address % PAGE;
        (self.0[at as usize / 64].load(Ordering::Relaxed) >> (at % 64)) as u32 & (((1u64 << bytes) - 1) as u32)
    }

    /// True if the byte at an address of the page is uninitialized.
    pub fn is_unwritten(&self, address: u64) -> bool {
        let at = address % PAGE;
        self.0[at as usize / 64].load(Ordering::Relaxed) >> (at % 64) & 1 != 0
    }
}

/// Memory with known uninitialized bytes. Called from every thread that runs waves.
pub trait Unwritten: Sync {
    /// The page with this number (its address divided by [`PAGE`]); `None` if all of it counts as written. With
    /// `is_stored`, uninitialized data is about to be stored there: then it is `None` only for memory without a record.
    fn page(&self, number: u64, is_stored: bool) -> Option<Arc<Page>>;

    /// Marks all memory as written, because any of it may have been.
    fn forget(&self);
}

/// Pages by their numbers.
pub(super) trait Pages {
    /// See [`Unwritten::page`].
    fn page(&mut self, number: u64, is_stored: bool) -> Option<&Page>;
}

/// The parts of a range of addresses in each page.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let (number, start) = (at / PAGE, at);
        let end = range.end.min((number.saturating_add(1)).saturating_mul(PAGE));
        at = end;
        (start < end).then_some((number, start..end))
    })
}

/// True if any byte of a range is uninitialized.
pub(super) fn any(pages: &mut impl Pages, range: Range<u64>) -> bool {
    parts(range).any(|(number, part)| pages.page(number, false).is_some_and(|page| page.any(part)))
}

/// Mask of the uninitialized bytes among at most 32 from an address on.
#[inline]
pub(super) fn bits(pages: &mut impl Pages, address: u64, bytes: u32) -> u32 {
    if address % 64 + u64::from(bytes) <= 64 {
        return pages.page(address / PAGE, false).map_or(0, |page| page.bits(address, bytes));
    }
    let mut bits = 0;
    for (number, part) in parts(address..address.saturating_add(bytes.into())) {
        if let Some(page) = pages.page(number, false) {
            bits |= part.map(|at| u32::from(page.is_unwritten(at)) << (at - address)).fold(0, |all, bit| all | bit);
        }
    }
    bits
}

/// Marks a range as written, or as uninitialized.
pub(super) fn set(pages: &mut impl Pages, range: Range<u64>, is_unwritten: bool) {
    for (number, part) in parts(range) {
        if let Some(page) = pages.page(number, is_unwritten) {
            page.set(part, is_unwritten);
        }
    }
}

/// Uninitialized bytes of a workgroup's LDS. Accesses outside of it are not made.
#[derive(Default)]
pub(super) struct Lds(Vec<Page>);

impl Lds {
    /// Begins a workgroup with `size` uninitialized bytes.
    pub fn begin(&mut self, size: usize) {
        self.0.resize_with(size.div_ceil(PAGE as usize), Page::unwritten);
        self.0.iter().for_each(|page| page.set(0..PAGE, true));
    }

    /// True if all of the `bytes` bytes from each address on are written.
    #[inline]
    pub fn is_written(&self, mut addresses: impl Iterator<Item = u32>, bytes: u32) -> bool {
        addresses.all(|at| {
            let (first, last) = (u64::from(at), u64::from(at) + u64::from(bytes) - 1);
            let word = |at: u64| match self.0.get((at / PAGE) as usize) {
                Some(page) => page.0[at as usize % PAGE as usize / 64].load(Ordering::Relaxed),
                None => 0,
            };
            let mask = u64::MAX >> (64 - bytes);
            let in_next = if first / 64 == last / 64 { 0 } else { word(last) & !(u64::MAX << 1 << (last % 64)) };
            (word(first) >> (first % 64) & mask) | in_next == 0
        })
    }

    /// Marks all of it as written.
    pub fn forget(&mut self) {
        self.0.iter().for_each(|page| page.set(0..PAGE, false));
    }
}

impl Pages for Lds {
    fn page(&mut self, number: u64, _: bool) -> Option<&Page> {
        self.0.get(number as usize)
    }
}

/// Number of pages in a thread's cache.
const KEPT: usize = 64;

/// One thread's view of memory.
pub(super) struct View<'a> {
    memory: &'a dyn Unwritten,
    /// The latest of each number modulo [`KEPT`], and all.
    latest: [(u64, Option<Arc<Page>>); KEPT],
    all: HashMap<u64, Option<Arc<Page>>>,
}

impl<'a> View<'a> {
    pub fn new(memory: &'a dyn Unwritten) -> Self {
        View { memory, latest: std::array::from_fn(|_| (u64::MAX, None)), all: HashMap::new() }
    }

    /// See [`Unwritten::forget`].
    pub fn forget(&mut self) {
        self.memory.forget();
        *self = Self::new(self.memory);
    }
}

impl Pages for View<'_> {
    fn page(&mut self, number: u64, is_stored: bool) -> Option<&Page> {
        let View { memory, latest, all } = self;
        let slot = &mut latest[number as usize % KEPT];
        if slot.0 != number {
            *slot = (number, all.entry(number).or_insert_with(|| memory.page(number, false)).clone());
        }
        if is_stored && slot.1.is_none() {
            slot.1 = memory.page(number, true);
            all.insert(number, slot.1.clone());
        }
        slot.1.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_followed_by_byte() {
        let mut lds = Lds::default();
        lds.begin(3 * PAGE as usize);
        assert_eq!(bits(&mut lds, 100, 4), 0b1111);
        set(&mut lds, 101..103, false);
        assert_eq!(bits(&mut lds, 100, 4), 0b1001);
        // Over the boundaries of words and pages.
        set(&mut lds, 60..2 * PAGE + 3, false);
        assert!(!any(&mut lds, 60..2 * PAGE + 3));
        assert_eq!(bits(&mut lds, 56, 8), 0b1111);
        assert_eq!(bits(&mut lds, 2 * PAGE - 1, 8), 0b1111_0000);
        set(&mut lds, PAGE - 1..PAGE + 1, true);
        assert_eq!(bits(&mut lds, PAGE - 2, 4), 0b0110);
        assert!(any(&mut lds, PAGE..PAGE + 1) && !any(&mut lds, PAGE + 1..PAGE + 2));
        // Beyond the end nothing is known.
        assert_eq!(bits(&mut lds, 3 * PAGE - 1, 4), 1);
    }
}
