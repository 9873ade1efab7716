// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Suballocations that a program announces. Bytes between them may not be accessed.

use std::collections::BTreeMap;
use std::ops::Range;

use hsa_abi::HsaStatus;
use parking_lot::RwLock;

/// All suballocations in use, and the allocations that ever had one.
#[derive(Debug, Default)]
pub struct SubAllocations(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    /// Ends of suballocations in use, by first address.
    parts: BTreeMap<u64, u64>,
    /// Ends of suballocations that are no longer in use, until others replace them.
    ended: BTreeMap<u64, u64>,
    /// Ends of allocations that ever had a suballocation, by first address.
    parted: BTreeMap<u64, u64>,
}

/// The last of `parts` that begins at or before `address`.
fn at_or_before(parts: &BTreeMap<u64, u64>, address: u64) -> Option<(u64, u64)> {
    parts.range(..=address).next_back().map(|(start, end)| (*start, *end))
}

impl SubAllocations {
    /// Adds a suballocation in use.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is empty, not in the allocation, or overlaps another one in use.
    pub fn add(&self, part: Range<u64>, allocation: Range<u64>) -> Result<(), HsaStatus> {
        let mut state = self.0.write();
        let before = state.parts.range(..part.end).next_back();
        let overlaps = before.is_some_and(|(_, end)| *end > part.start);
        if part.is_empty() || part.start < allocation.start || part.end > allocation.end || overlaps {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        state.ended.retain(|start, end| *end <= part.start || *start >= part.end);
        state.parts.insert(part.start, part.end);
        state.parted.insert(allocation.start, allocation.end);
        Ok(())
    }

    /// Ends the use of the suballocation that begins at `start`. Returns true if there was one.
    pub fn remove(&self, start: u64) -> bool {
        let mut state = self.0.write();
        let Some(end) = state.parts.remove(&start) else { return false };
        state.ended.insert(start, end);
        true
    }

    /// Removes the allocation that begins at `base`, with its suballocations.
    pub fn forget(&self, base: u64) {
        let mut state = self.0.write();
        if let Some(end) = state.parted.remove(&base) {
            state.parts.retain(|start, _| !(base..end).contains(start));
            state.ended.retain(|start, _| !(base..end).contains(start));
        }
    }

    /// Returns the part of `range`, an allocation, that may be accessed at `address`: all of it if it never had a
    /// suballocation, else the suballocation in use there, if any.
    pub fn around(&self, address: u64, range: Range<u64>) -> Option<Range<u64>> {
        let state = self.0.read();
        if !state.parted.contains_key(&range.start) {
            return Some(range);
        }
        let (start, end) = at_or_before(&state.parts, address)?;
        (address < end).then_some(start..end)
    }

    /// Describes the position of `address` among the suballocations of the allocation `range`; `None` if it never had
    /// one.
    pub fn describe(&self, address: u64, range: Range<u64>) -> Option<String> {
        let state = self.0.read();
        if !state.parted.contains_key(&range.start) {
            return None;
        }
        let before = at_or_before(&state.parts, address).filter(|(start, _)| *start >= range.start);
        let ended = at_or_before(&state.ended, address).filter(|(_, end)| address < *end);
        let after = state.parts.range(address..range.end).next();
        Some(match (before, ended, after) {
            (Some((start, end)), ..) if address < end => {
                format!("byte {} of a suballocation of {} bytes", address - start, end - start)
            }
            (_, Some((start, end)), _) => {
                format!("byte {} of a freed suballocation of {} bytes", address - start, end - start)
            }
            (Some((start, end)), ..) => {
                format!("{} bytes past the end of a suballocation of {} bytes", address - end, end - start)
            }
            (.., Some((start, end))) => {
                format!("{} bytes before a suballocation of {} bytes", start - address, end - start)
            }
            _ => "in no live suballocation".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_a_parted_allocation_are_there() {
        let parts = SubAllocations::default();
        assert_eq!(parts.around(150, 100..200), Some(100..200));
        parts.add(110..120, 100..200).unwrap();
        parts.add(130..140, 100..200).unwrap();
        for wrong in [105..111, 119..125, 110..120, 190..201, 150..150] {
            assert_eq!(parts.add(wrong, 100..200), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        }
        assert_eq!(parts.around(119, 100..200), Some(110..120));
        for outside in [100, 120, 129, 140] {
            assert_eq!(parts.around(outside, 100..200), None);
        }
        let place = |address| parts.describe(address, 100..200).unwrap();
        assert_eq!(place(119), "byte 9 of a suballocation of 10 bytes");
        assert_eq!(place(122), "2 bytes past the end of a suballocation of 10 bytes");
        assert_eq!(place(105), "5 bytes before a suballocation of 10 bytes");
        assert!(parts.remove(110) && !parts.remove(110));
        assert_eq!(parts.around(115, 100..200), None);
        assert_eq!(place(115), "byte 5 of a freed suballocation of 10 bytes");
        parts.add(100..112, 100..200).unwrap();
        assert_eq!(place(115), "3 bytes past the end of a suballocation of 12 bytes");
        assert_eq!(parts.describe(250, 200..300), None);
        assert_eq!(parts.around(250, 200..300), Some(200..300));
        parts.forget(100);
        assert_eq!(parts.around(135, 100..200), Some(100..200));
    }
}
