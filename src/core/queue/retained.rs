// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The objects that submissions keep alive until they are complete.

use crate::vec_pool::VecPools;
use amdgpu_ffi::{Resource, Result};

/// The number of objects that need no memory of their own.
const INLINE: usize = 6;

/// HAL objects that a submission keeps alive until it is complete.
#[derive(Debug)]
pub enum RetainedSet {
    /// Stored in place.
    Inline([Option<Resource>; INLINE]),
    /// Stored in a vector that goes back to its queue (`Self::release`).
    Spilled(Vec<Option<Resource>>),
}

impl RetainedSet {
    /// No objects.
    pub const NONE: Self = Self::Inline([const { None }; INLINE]);

    /// At most two objects.
    #[inline(always)]
    pub fn two(first: Option<Resource>, second: Option<Resource>) -> Self {
        Self::Inline([first, second, None, None, None, None])
    }

    /// `first` and the objects of `rest`, of which there are at most `most`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    #[inline(always)]
    pub fn new(
        pools: &VecPools,
        first: Option<Resource>,
        most: usize,
        rest: impl Iterator<Item = Option<Resource>>,
    ) -> Result<Self> {
        let count = 1 + most;
        if count <= INLINE {
            let mut inline = [const { None }; INLINE];
            let [place, places @ ..] = &mut inline;
            put(place, first);
            for (place, object) in places.iter_mut().zip(rest) {
                put(place, object);
            }
            Ok(Self::Inline(inline))
        } else {
            let mut spilled = pools.take_resources(count)?;
            spilled.push(first);
            spilled.extend(rest);
            Ok(Self::Spilled(spilled))
        }
    }

    /// Releases the objects; a vector goes back to the pools of its queue. Under no lock.
    #[inline]
    pub(super) fn release(self, pools: &VecPools) {
        match self {
            Self::Inline(inline) => drop(inline),
            Self::Spilled(spilled) => pools.recycle_resources(spilled),
        }
    }
}

/// Puts `object` in an empty place.
#[inline(always)]
fn put(place: &mut Option<Resource>, object: Option<Resource>) {
    debug_assert!(place.is_none());
    // The old value is empty: its drop is skipped.
    std::mem::forget(std::mem::replace(place, object));
}
