// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Fallible allocation of host memory whose amount a caller or a file decides.
//!
//! Running out of memory is an error here. Rust's allocator ends the process instead for `Vec::push` and its like. The
//! driver uses those only for data of a fixed size (`docs/design/memory.md`, "Host memory").

use std::alloc::Layout;
use std::borrow::Cow;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::{Array, SmallVec};

use super::status::{Result, Status};

/// Vectors with fallible growth. An error leaves a vector unchanged.
pub trait Fallible<T> {
    /// Appends `item`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn try_push(&mut self, item: T) -> Result<()>;

    /// Reserves room for `more` items.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn make_room(&mut self, more: usize) -> Result<()>;

    /// Resizes to `length` items; new ones are clones of `item`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn try_resize(&mut self, length: usize, item: T) -> Result<()>
    where
        T: Clone;

    /// Appends `items`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    fn try_extend(&mut self, items: impl ExactSizeIterator<Item = T>) -> Result<()>;
}

impl<T> Fallible<T> for Vec<T> {
    #[inline(always)]
    fn try_push(&mut self, item: T) -> Result<()> {
        if self.len() == self.capacity() {
            grow(self, 1)?;
        }
        self.push(item);
        Ok(())
    }

    #[inline(always)]
    fn make_room(&mut self, more: usize) -> Result<()> {
        if self.capacity() - self.len() < more { grow(self, more) } else { Ok(()) }
    }

    #[inline]
    fn try_resize(&mut self, length: usize, item: T) -> Result<()>
    where
        T: Clone,
    {
        self.make_room(length.saturating_sub(self.len()))?;
        self.resize(length, item);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, items: impl ExactSizeIterator<Item = T>) -> Result<()> {
        self.make_room(items.len())?;
        self.extend(items);
        Ok(())
    }
}

/// Reserves room in `items` for `more` items.
///
/// # Errors
/// RESOURCE_EXHAUSTED.
#[inline]
pub fn make_room<A: Array>(items: &mut SmallVec<A>, more: usize) -> Result<()> {
    items
        .try_reserve(more)
        .map_err(|_| exhausted(items.len().saturating_add(more).saturating_mul(size_of::<A::Item>())))
}

#[cold]
#[inline(never)]
fn grow<T>(vector: &mut Vec<T>, more: usize) -> Result<()> {
    vector.try_reserve(more).map_err(|_| exhausted(vector.len().saturating_add(more).saturating_mul(size_of::<T>())))
}

/// The error for a failed allocation of `bytes` bytes.
#[cold]
pub fn exhausted(bytes: usize) -> Status {
    crate::status!(RESOURCE_EXHAUSTED, "the host has no memory for {bytes} bytes of the driver's")
}

/// `value`, on the heap.
///
/// # Errors
/// RESOURCE_EXHAUSTED.
pub fn boxed<T>(value: T) -> Result<Box<T>> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(Box::new(value));
    }
    // SAFETY: the layout is of some bytes.
    let Some(place) = NonNull::new(unsafe { std::alloc::alloc(layout) }) else { return Err(exhausted(layout.size())) };
    let place = place.cast::<T>();
    // SAFETY: memory of the allocator that boxes have, for a `T`, which is written first.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place.as_ptr()))
    }
}

/// A vector of `items`.
///
/// # Errors
/// RESOURCE_EXHAUSTED.
pub fn collect<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(items.len()).map_err(|_| exhausted(items.len().saturating_mul(size_of::<T>())))?;
    vector.extend(items);
    Ok(vector)
}

/// A copy of `items`.
///
/// # Errors
/// RESOURCE_EXHAUSTED.
pub fn copy<T: Copy>(items: &[T]) -> Result<Vec<T>> {
    collect(items.iter().copied())
}

/// Shares `bytes`; borrowed ones are copied.
///
/// # Errors
/// RESOURCE_EXHAUSTED.
pub fn shared(bytes: Cow<'_, [u8]>) -> Result<Arc<Vec<u8>>> {
    Ok(Arc::new(match bytes {
        Cow::Borrowed(bytes) => copy(bytes)?,
        Cow::Owned(bytes) => bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_no_memory_has_room_for_is_refused_and_changes_nothing() {
        const HUGE: usize = isize::MAX as usize;
        let mut vector = vec![1_u64, 2];
        let refusals = [
            vector.make_room(HUGE),
            vector.try_resize(HUGE, 0),
            vector.try_extend((0..HUGE).map(|item| item as u64)),
            collect(0..HUGE).map(drop),
        ];
        for refused in refusals {
            assert_eq!(refused.unwrap_err().code(), Code::RESOURCE_EXHAUSTED);
        }
        assert_eq!(vector, [1, 2]);
        vector.try_push(3).unwrap();
        vector.try_extend([4].into_iter()).unwrap();
        vector.try_resize(6, 5).unwrap();
        assert_eq!(vector, [1, 2, 3, 4, 5, 5]);
        assert_eq!(copy(&vector).unwrap(), vector);
        assert_eq!((*boxed(vector.clone()).unwrap(), *boxed(()).unwrap()), (vector, ()));
    }
}
