// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Uninitialized GPU memory, for the check `init`: the unwritten bytes of allocations that the host never had access
//! to. All other memory counts as initialized, because host writes cannot be observed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use sim_wave::{PAGE, Page};

/// Followed allocations, by first address.
#[derive(Default)]
pub struct Unwritten(Mutex<BTreeMap<u64, Followed>>);

/// A followed allocation. No other allocation is on its pages.
struct Followed {
    end: u64,
    /// Pages with written bytes, by number; `None` for fully written ones.
    pages: HashMap<u64, Option<Arc<Page>>>,
}

impl std::fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unwritten")
    }
}

impl Unwritten {
    /// Starts to follow an allocation, which is uninitialized.
    pub fn follow(&self, range: Range<u64>) {
        self.0.lock().insert(range.start, Followed { end: range.end, pages: HashMap::new() });
    }

    /// Stops following the allocation that begins at `base`, if it is followed.
    pub fn forget(&self, base: u64) {
        self.0.lock().remove(&base);
    }

    /// Marks a range as written by something other than a kernel.
    pub fn written(&self, range: Range<u64>) {
        self.change(range, false);
    }

    /// Marks a range as uninitialized again.
    pub fn renew(&self, range: Range<u64>) {
        self.change(range, true);
    }

    /// Uninitialized parts of a range.
    pub fn ranges(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut add = |part: Range<u64>| match found.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => found.push(part),
        };
        for number in range.start / PAGE..range.end.div_ceil(PAGE) {
            let Some(page) = sim_wave::Unwritten::page(self, number, false) else { continue };
            for at in range.start.max(number * PAGE)..range.end.min((number + 1) * PAGE) {
                if page.is_unwritten(at) {
                    add(at..at + 1);
                }
            }
        }
        found
    }

    fn change(&self, range: Range<u64>, is_unwritten: bool) {
        let mut followed = self.0.lock();
        let Some((_, of)) = followed.range_mut(..=range.start).next_back().filter(|(_, of)| range.start < of.end)
        else {
            return;
        };
        for number in range.start / PAGE..range.end.min(of.end).div_ceil(PAGE) {
            let part = range.start.max(number * PAGE)..range.end.min((number + 1) * PAGE);
            let is_whole = part.end - part.start == PAGE;
            match of.pages.get(&number) {
                Some(Some(page)) => page.set(part, is_unwritten),
                None if is_unwritten => {}
                Some(None) if !is_unwritten => {}
                None if is_whole => drop(of.pages.insert(number, None)),
                Some(None) if is_whole => drop(of.pages.remove(&number)),
                entry => {
                    let page = if entry.is_some() { Page::written() } else { Page::unwritten() };
                    page.set(part, is_unwritten);
                    of.pages.insert(number, Some(Arc::new(page)));
                }
            }
        }
    }
}

impl sim_wave::Unwritten for Unwritten {
    fn page(&self, number: u64, is_stored: bool) -> Option<Arc<Page>> {
        let address = number.checked_mul(PAGE)?;
        let mut followed = self.0.lock();
        let (_, of) = followed.range_mut(..=address).next_back().filter(|(_, of)| address < of.end)?;
        let page = of.pages.entry(number).or_insert_with(|| Some(Arc::new(Page::unwritten())));
        if page.is_none() && is_stored {
            *page = Some(Arc::new(Page::written()));
        }
        page.clone()
    }

    fn forget(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_wave::Unwritten as _;

    /// True if a byte is uninitialized.
    fn is_unwritten(memory: &Unwritten, address: u64) -> bool {
        memory.page(address / PAGE, false).is_some_and(|page| page.is_unwritten(address))
    }

    #[test]
    fn allocations_are_followed_from_their_beginning() {
        let memory = Unwritten::default();
        memory.follow(16 * PAGE..20 * PAGE + 100);
        assert!(is_unwritten(&memory, 16 * PAGE) && is_unwritten(&memory, 20 * PAGE + 99));
        assert!(!is_unwritten(&memory, 16 * PAGE - 1) && !is_unwritten(&memory, 21 * PAGE));
        memory.written(17 * PAGE + 10..20 * PAGE + 1);
        let edges = [17 * PAGE + 9, 17 * PAGE + 10, 18 * PAGE, 20 * PAGE, 20 * PAGE + 1];
        assert_eq!(edges.map(|at| is_unwritten(&memory, at)), [true, false, false, false, true]);
        let parts = [17 * PAGE + 9..17 * PAGE + 10, 20 * PAGE + 1..20 * PAGE + 5];
        assert_eq!(memory.ranges(17 * PAGE + 9..20 * PAGE + 5), parts);
        // Part of it is given to somebody else.
        memory.renew(18 * PAGE - 1..18 * PAGE + 1);
        memory.renew(19 * PAGE..20 * PAGE);
        let edges = [18 * PAGE - 2, 18 * PAGE - 1, 18 * PAGE, 18 * PAGE + 1, 19 * PAGE, 20 * PAGE - 1, 20 * PAGE];
        assert_eq!(edges.map(|at| is_unwritten(&memory, at)), [false, true, true, false, true, true, false]);
        // A wholly written page is tracked again once an uninitialized value is stored to it.
        memory.written(19 * PAGE..20 * PAGE);
        memory.follow(64 * PAGE..66 * PAGE);
        memory.written(64 * PAGE..65 * PAGE);
        assert!(memory.page(64, false).is_none() && memory.page(64, true).is_some());
        Unwritten::forget(&memory, 16 * PAGE);
        assert!(!is_unwritten(&memory, 16 * PAGE));
        sim_wave::Unwritten::forget(&memory);
        assert!(!is_unwritten(&memory, 65 * PAGE));
    }
}
