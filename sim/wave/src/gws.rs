// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Global wave sync: barriers of all waves of a dispatch (RDNA3 ISA and Vega ISA, DS_GWS_INIT and DS_GWS_BARRIER).

use std::sync::{Mutex, PoisonError};

/// Number of resources of a GPU.
pub(crate) const RESOURCES: usize = 64;

/// One resource.
#[derive(Clone, Copy, Debug, Default)]
struct Resource {
    /// Waves that the barrier waits for, less the last one.
    counter: u32,
    /// Completed barriers.
    rounds: u64,
}

/// A GPU's resources, which one dispatch initializes for a later one.
#[derive(Debug)]
pub struct Gws(Mutex<[Resource; RESOURCES]>);

impl Default for Gws {
    fn default() -> Self {
        Self(Mutex::new([Resource::default(); RESOURCES]))
    }
}

impl Gws {
    fn with<T>(&self, number: usize, change: impl FnOnce(&mut Resource) -> T) -> T {
        let mut resources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut resources[number % RESOURCES])
    }

    /// Sets the number of waves that the next barrier waits for, less one.
    pub(crate) fn initialize(&self, number: usize, counter: u32) {
        self.with(number, |resource| resource.counter = counter);
    }

    /// Arrives at a barrier, with the counter of the next one. Returns the round to wait for the end of, or `None` if
    /// this wave was the last one to arrive.
    pub(crate) fn arrive(&self, number: usize, next: u32) -> Option<u64> {
        self.with(number, |resource| {
            if resource.counter > 0 {
                resource.counter -= 1;
                return Some(resource.rounds);
            }
            resource.rounds += 1;
            resource.counter = next;
            None
        })
    }

    /// True if a barrier's round has ended.
    pub(crate) fn has_ended(&self, number: usize, round: u64) -> bool {
        self.with(number, |resource| resource.rounds > round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wave_completes_a_barrier_and_sets_the_next() {
        let gws = Gws::default();
        gws.initialize(3, 2);
        let waits = [gws.arrive(3, 1), gws.arrive(3, 1)];
        assert_eq!(waits, [Some(0); 2]);
        assert!(!gws.has_ended(3, 0));
        assert_eq!(gws.arrive(3, 1), None);
        assert!(gws.has_ended(3, 0));
        assert_eq!((gws.arrive(3, 0), gws.arrive(3, 0)), (Some(1), None));
        assert_eq!(gws.arrive(4, 0), None, "another resource");
    }
}
