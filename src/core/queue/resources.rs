// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What submissions keep alive until they are complete.

use crate::core::queue::Queue;
use crate::ffi::Resource;

/// So many objects need no memory of their own.
const FEW: usize = 6;

/// HAL objects that a submission keeps alive until it is complete.
#[derive(Debug)]
pub enum Resources {
    /// In place.
    Few([Option<Resource>; FEW]),
    /// In a vector that goes back to its queue ([`Queue::release`]).
    Many(Vec<Option<Resource>>),
}

impl Resources {
    /// Nothing.
    pub const NONE: Self = Self::Few([const { None }; FEW]);

    /// The objects that `nth` gives for the numbers below `count`.
    #[inline(always)]
    pub fn new(queue: &Queue, count: usize, nth: impl Fn(usize) -> Option<Resource>) -> Self {
        if count <= FEW {
            let nth = |index| if index < count { nth(index) } else { None };
            Self::Few([nth(0), nth(1), nth(2), nth(3), nth(4), nth(5)])
        } else {
            let mut many = queue.take_resources(count);
            many.extend((0..count).map(nth));
            Self::Many(many)
        }
    }
}

impl Queue {
    /// Releases what a submission kept. Under no lock.
    #[inline]
    pub fn release(&self, resources: Resources) {
        match resources {
            Resources::Few(few) => drop(few),
            Resources::Many(many) => self.give_resources(many),
        }
    }
}
