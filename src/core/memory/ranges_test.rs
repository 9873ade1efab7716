// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Ranges compared with a model that knows the epochs with which each unit came back: every state of small ranges, and
//! long random sequences on larger ones.

use std::collections::HashSet;

use random::Random;

use super::*;

/// Axes of the model.
const AXES: usize = 3;

/// The last epoch of each axis that a requester is ordered after, or that has to pass; 0 is none.
type Epochs = [u64; AXES];

/// Bytes of a unit.
const UNIT: usize = 256;

fn pairs(epochs: &Epochs) -> Vec<Epoch> {
    let pairs = epochs.iter().enumerate().map(|(axis, epoch)| (axis as u64, *epoch));
    pairs.filter(|(_, epoch)| *epoch != 0).collect()
}

fn comes_after(requester: &Epochs, death: &Epochs) -> bool {
    requester.iter().zip(death).all(|(known, epoch)| known >= epoch)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Unit {
    Taken,
    /// Free, with the epochs that have passed once it is unused.
    Free(Epochs),
}

/// A block: its start and length, and, if it is free, its death, if that is known.
type Extent = (usize, usize, Option<Option<Vec<Epoch>>>);

/// Ranges and their model.
#[derive(Clone)]
struct Pair {
    ranges: Ranges,
    first: u32,
    units: Vec<Unit>,
    taken: Vec<Taken>,
}

impl Pair {
    fn new(units: usize, capacity: u8) -> Self {
        let mut ranges = Ranges::new(UNIT, capacity);
        let first = ranges.add(7, units * UNIT).unwrap();
        Self { ranges, first, units: vec![Unit::Free([0; AXES]); units], taken: Vec::new() }
    }

    fn units_of(taken: &Taken) -> std::ops::Range<usize> {
        assert_eq!((taken.offset % UNIT, taken.length % UNIT, taken.range), (0, 0, 7));
        taken.offset / UNIT..(taken.offset + taken.length) / UNIT
    }

    /// Takes `units`; each of them must be free, and over for the requester.
    fn take(&mut self, units: usize, requester: &Epochs) -> bool {
        let is_over = |axis: u64, epoch| requester[axis as usize] >= epoch;
        let Some(taken) = self.ranges.take(units * UNIT - 1, is_over).unwrap() else { return false };
        assert_eq!(taken.length, units * UNIT);
        for unit in Self::units_of(&taken) {
            let Unit::Free(death) = self.units[unit] else { panic!("unit {unit} is given twice") };
            assert!(comes_after(requester, &death), "unit {unit}, in use until {death:?}, goes to {requester:?}");
            self.units[unit] = Unit::Taken;
        }
        self.taken.push(taken);
        true
    }

    /// Takes `units` that may be in use. The returned frontier must cover all their uses.
    fn take_waiting(&mut self, units: usize) -> bool {
        let Some((taken, death)) = self.ranges.take_waiting(units * UNIT).unwrap() else { return false };
        let mut wait = [0; AXES];
        death.iter().for_each(|(axis, epoch)| wait[*axis as usize] = *epoch);
        assert_eq!(pairs(&wait), death, "in the order of the axes");
        for unit in Self::units_of(&taken) {
            let Unit::Free(death) = self.units[unit] else { panic!("unit {unit} is given twice") };
            assert!(comes_after(&wait, &death), "unit {unit}, in use until {death:?}, is waited for until {wait:?}");
            self.units[unit] = Unit::Taken;
        }
        self.taken.push(taken);
        true
    }

    fn give_back(&mut self, index: usize, death: &Epochs) {
        let taken = self.taken.remove(index);
        Self::units_of(&taken).for_each(|unit| self.units[unit] = Unit::Free(*death));
        self.ranges.give_back(taken.block, pairs(death).into_iter());
    }

    /// The most free units in a row that `will_do`.
    fn longest(&self, will_do: impl Fn(&Epochs) -> bool) -> usize {
        let (mut longest, mut length) = (0, 0);
        for unit in &self.units {
            length = if matches!(unit, Unit::Free(death) if will_do(death)) { length + 1 } else { 0 };
            longest = longest.max(length);
        }
        longest
    }

    /// The blocks in their order.
    fn blocks(&self) -> Vec<Extent> {
        let (mut blocks, mut at, mut before) = (Vec::new(), self.first, NONE);
        while at != NONE {
            let block = self.ranges.blocks[at as usize];
            assert_eq!(block.before, before);
            let death = || (block.pairs != UNKNOWN).then(|| self.ranges.death(at).to_vec());
            blocks.push((block.start, block.length, (block.state == State::Free).then(death)));
            (before, at) = (at, block.behind);
        }
        blocks
    }

    /// The bins, with the starts of their blocks.
    fn bins(&self) -> Vec<(usize, Vec<usize>)> {
        let mut bins = Vec::new();
        for (bin, first) in self.ranges.bins.iter().enumerate() {
            let has_blocks = self.ranges.bitmap[bin / 64] >> (bin % 64) & 1 != 0;
            assert_eq!(has_blocks, *first != NONE);
            let (mut starts, mut at, mut previous) = (Vec::new(), *first, NONE);
            while at != NONE {
                let block = self.ranges.blocks[at as usize];
                assert_eq!((block.previous, block.state, bin_of(block.length)), (previous, State::Free, bin));
                starts.push(block.start);
                (previous, at) = (at, block.next);
            }
            if has_blocks {
                bins.push((bin, starts));
            }
        }
        bins
    }

    /// Checks the invariants: blocks cover the range, free ones are in the bins, and their deaths cover each unit's
    /// epochs.
    fn check(&self) {
        let mut end = 0;
        for (start, length, death) in self.blocks() {
            assert!(start == end && length > 0);
            end += length;
            for unit in &self.units[start..end] {
                match (unit, &death) {
                    (Unit::Taken, None) | (Unit::Free(_), Some(None)) => {}
                    (Unit::Free(true_death), Some(Some(death))) => {
                        let mut claimed = [0; AXES];
                        death.iter().for_each(|(axis, epoch)| claimed[*axis as usize] = *epoch);
                        assert!(comes_after(&claimed, true_death), "{death:?} forgets some of {true_death:?}");
                    }
                    _ => panic!("units {start}..{end} are {unit:?} and {death:?}"),
                }
            }
        }
        assert_eq!(end, self.units.len());
        let mut in_bins: Vec<_> = self.bins().into_iter().flat_map(|(_, starts)| starts).collect();
        in_bins.sort_unstable();
        let free: Vec<_> = self.blocks().into_iter().filter(|it| it.2.is_some()).map(|it| it.0).collect();
        assert_eq!(in_bins, free);
    }
}

/// Every combination of epochs up to `last` of the first `axes`.
fn all_epochs(axes: usize, last: u64) -> Vec<Epochs> {
    let mut all = vec![[0; AXES]];
    for axis in 0..axes {
        all = all
            .iter()
            .flat_map(|it| {
                (0..=last).map(move |epoch| {
                    let mut it = *it;
                    it[axis] = epoch;
                    it
                })
            })
            .collect();
    }
    all
}

/// Explores every state of `units` of memory that a sequence of steps can reach, and returns their number.
fn explore(units: usize, axes: usize, last: u64, capacity: u8) -> usize {
    let epochs = all_epochs(axes, last);
    let everything = [u64::MAX; AXES];
    let (mut seen, mut new) = (HashSet::new(), vec![Pair::new(units, capacity)]);
    while let Some(state) = new.pop() {
        if !seen.insert((state.blocks(), state.bins(), state.units.clone())) {
            continue;
        }
        state.check();
        for size in 1..=units {
            for requester in &epochs {
                let mut next = state.clone();
                let is_taken = next.take(size, requester);
                // Joined neighbours may be refused to requests after each of them, but unused memory may not.
                assert!(is_taken || state.longest(|death| *death == [0; AXES]) < size);
                if is_taken {
                    new.push(next);
                }
            }
            let is_known = |death: &Epochs| pairs(death).len() <= usize::from(capacity);
            let mut next = state.clone();
            assert_eq!(next.take(size, &everything), state.longest(is_known) >= size, "of what is over for all");
            let mut next = state.clone();
            assert_eq!(next.take_waiting(size), state.longest(is_known) >= size, "of what may be waited for");
            new.push(next);
        }
        for taken in 0..state.taken.len() {
            for death in &epochs {
                let mut next = state.clone();
                next.give_back(taken, death);
                new.push(next);
            }
        }
        let mut next = state.clone();
        let is_free = state.longest(|death| *death == [0; AXES]) == units;
        assert_eq!(next.ranges.remove(next.first, |_, _| false), is_free);
        assert!(!is_free || (next.bins().is_empty() && next.ranges.add(7, units * UNIT).is_ok()));
    }
    seen.len()
}

#[test]
fn no_state_of_a_small_range_gives_memory_too_early_or_loses_any() {
    for (units, axes, last, capacity) in [(4, 2, 1, 2), (3, 2, 2, 2), (4, 2, 1, 1), (3, 3, 1, 3), (3, 3, 1, 2)] {
        let states = explore(units, axes, last, capacity);
        println!("{states} states of {units} units, {axes} axes, {last} epochs, {capacity} pairs");
        assert!(states > 500, "{states}");
    }
}

#[test]
fn no_random_sequence_gives_memory_too_early_or_loses_any() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let units = 1 + random.below(300) as usize;
        let mut pair = Pair::new(units, 1 + random.below(3) as u8);
        // The passed epochs, and the current epoch of each axis.
        let (mut passed, mut last) = ([0; AXES], [0; AXES]);
        for _ in 0..1000 {
            let axis = random.below(AXES as u32) as usize;
            match random.below(8) {
                0 => passed[axis] += (last[axis] - passed[axis]).min(u64::from(random.below(3))),
                1..=3 => {
                    let mut requester = passed;
                    requester[axis] = last[axis];
                    pair.take(1 + random.below(units as u32 / 4 + 1) as usize, &requester);
                }
                4 if random.one_in(4) => {
                    pair.take_waiting(1 + random.below(units as u32) as usize);
                }
                _ if pair.taken.is_empty() => {}
                _ => {
                    last[axis] += 1;
                    let mut death = [0; AXES];
                    death[axis] = last[axis];
                    let other = random.below(AXES as u32 * 2) as usize;
                    if other < AXES {
                        death[other] = last[other];
                    }
                    let taken = random.below(pair.taken.len() as u32) as usize;
                    pair.give_back(taken, &death);
                }
            }
        }
        pair.check();
        while !pair.taken.is_empty() {
            pair.give_back(0, &last);
        }
        let is_known = pairs(&last).len() <= usize::from(pair.ranges.capacity);
        assert!(!is_known || pair.take(units, &last) || pair.ranges.blocks.iter().any(|it| it.pairs == UNKNOWN));
    }
}

/// A block that queue 0 gives back goes to no other queue, though the request is refused once and may be repeated.
#[test]
fn a_block_that_was_refused_once_is_refused_again() {
    let mut pair = Pair::new(9, 8);
    assert!(pair.take(9, &[0; AXES]));
    pair.give_back(0, &[1, 0, 0]);
    for _ in 0..4 {
        assert!(!pair.take(2, &[0, 9, 9]));
    }
    assert!(pair.take(2, &[1, 0, 0]));
    for _ in 0..4 {
        assert!(!pair.take(2, &[0, 9, 9]), "what is left of a block is as old as it was");
    }
}

#[test]
fn what_fits_best_is_taken_and_what_came_back_last() {
    let mut ranges = Ranges::new(UNIT, 1);
    ranges.add(0, 100 * UNIT).unwrap();
    let all = |_, _| true;
    let take = |ranges: &mut Ranges, units: usize| ranges.take(units * UNIT, all).unwrap().unwrap();
    // Lengths that are not the first of their bin.
    let [one, _, two, _] = [17, 1, 17, 1].map(|units| take(&mut ranges, units));
    ranges.give_back(one.block, [(0, 1)].into_iter());
    ranges.give_back(two.block, [(0, 2)].into_iter());
    assert_eq!(take(&mut ranges, 17).offset, two.offset);
    assert_eq!(take(&mut ranges, 17).offset, one.offset);
}

/// A small used piece at the beginning of a range does not prevent large allocations from it.
#[test]
fn what_may_be_used_is_taken_from_its_beginning_on() {
    let mut pair = Pair::new(100, 1);
    assert!(pair.take(1, &[0; AXES]));
    pair.give_back(0, &[1, 0, 0]);
    assert!(pair.take(50, &[1, 0, 0]) && pair.take(50, &[1, 0, 0]));
    pair.check();
}

#[test]
fn bins_are_in_the_order_of_lengths() {
    let lengths: Vec<_> =
        (0..usize::BITS - 1).flat_map(|bit| [1, 9, 10, 15].map(|it: usize| it.rotate_left(bit) | 1)).collect();
    for one in &lengths {
        assert!(bin_of(*one) < BINS);
        for other in &lengths {
            assert!(one > other || bin_of(*one) <= bin_of(*other), "{one} {other}");
        }
    }
}
