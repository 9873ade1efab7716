// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The objects that submissions keep alive until they are complete.

use crate::core::queue::Queue;
use crate::ffi::{Resource, Result};

/// The number of objects that need no memory of their own.
const FEW: usize = 6;

/// HAL objects that a submission keeps alive until it is complete.
#[derive(Debug)]
pub enum Resources {
    /// Stored in place.
    Few([Option<Resource>; FEW]),
    /// Stored in a vector that goes back to its queue ([`Queue::release`]).
    Many(Vec<Option<Resource>>),
}

impl Resources {
    /// No objects.
    pub const NONE: Self = Self::Few([const { None }; FEW]);

    /// At most two objects.
    #[inline(always)]
    pub fn two(first: Option<Resource>, second: Option<Resource>) -> Self {
        Self::Few([first, second, None, None, None, None])
    }

    /// `first` and the objects of `rest`, of which there are at most `most`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    #[inline(always)]
    pub fn new(
        queue: &Queue,
        first: Option<Resource>,
        most: usize,
        rest: impl Iterator<Item = Option<Resource>>,
    ) -> Result<Self> {
        let count = 1 + most;
        if count <= FEW {
            let mut few = [const { None }; FEW];
            let [place, places @ ..] = &mut few;
            put(place, first);
            for (place, object) in places.iter_mut().zip(rest) {
                put(place, object);
            }
            Ok(Self::Few(few))
        } else {
            let mut many = queue.take_resources(count)?;
            many.push(first);
            many.extend(rest);
            Ok(Self::Many(many))
        }
    }
}

/// Puts `object` in an empty place.
#[inline(always)]
fn put(place: &mut Option<Resource>, object: Option<Resource>) {
    debug_assert!(place.is_none());
    // There is nothing to drop, which nobody need ask.
    std::mem::forget(std::mem::replace(place, object));
}

impl Queue {
    /// Releases the objects that a submission kept. Under no lock.
    #[inline]
    pub fn release(&self, resources: Resources) {
        match resources {
            Resources::Few(few) => drop(few),
            Resources::Many(many) => self.give_resources(many),
        }
    }
}
