// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reuse of objects that are expensive to make.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use amdgpu_ffi::{Result, Status};

/// A pool of a limited number of objects.
#[derive(Debug)]
pub struct Pool<T> {
    /// The unused objects.
    free: Arc<Mutex<Vec<T>>>,
    /// The number of objects that were made.
    made: AtomicUsize,
    most: usize,
}

impl<T> Pool<T> {
    /// A pool of at most `most` objects, including `first`.
    pub fn new(first: T, most: usize) -> Self {
        Self { free: Arc::new(Mutex::new(vec![first])), made: AtomicUsize::new(1), most }
    }

    /// Takes an unused object, or one that `make` makes.
    ///
    /// # Errors
    /// The error of `make`; `too_many` if there are too many objects.
    pub fn take(&self, make: impl FnOnce() -> Result<T>, too_many: impl FnOnce() -> Status) -> Result<Pooled<T>> {
        let free = self.free.lock().pop();
        let thing = free.map_or_else(|| self.make(make, too_many), Ok)?;
        Ok(Pooled { thing: Some(thing), free: self.free.clone() })
    }

    #[cold]
    fn make(&self, make: impl FnOnce() -> Result<T>, too_many: impl FnOnce() -> Status) -> Result<T> {
        let is_full = self.made.fetch_add(1, Ordering::Relaxed) >= self.most;
        let made = if is_full { Err(too_many()) } else { make() };
        made.inspect_err(|_| {
            self.made.fetch_sub(1, Ordering::Relaxed);
        })
    }
}

/// An object of a pool, to which it goes back when dropped.
#[derive(Debug)]
pub struct Pooled<T> {
    /// None only during drop.
    thing: Option<T>,
    free: Arc<Mutex<Vec<T>>>,
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect("there until it is dropped")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        self.free.lock().extend(self.thing.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_ffi::{Code, status};

    #[test]
    fn there_are_at_most_so_many() {
        let pool = Pool::new(0, 3);
        let take = |made: Result<i32>| pool.take(|| made, || status!(RESOURCE_EXHAUSTED, "too many"));
        let first = [take(Ok(1)).unwrap(), take(Ok(1)).unwrap()];
        assert_eq!([*first[0], *first[1]], [0, 1]);
        // Failed calls of `make` do not count.
        for _ in 0..5 {
            let status = take(Err(status!(INTERNAL, "none made"))).unwrap_err();
            assert_eq!(status.code(), Code::INTERNAL, "{status}");
        }
        let second = take(Ok(2)).unwrap();
        for _ in 0..2 {
            let status = take(Ok(3)).unwrap_err();
            assert_eq!(status.code(), Code::RESOURCE_EXHAUSTED, "{status}");
        }
        drop(first);
        let third = [(); 2].map(|()| take(Err(status!(INTERNAL, "none made"))).unwrap());
        assert_eq!([*second, *third[0], *third[1]], [2, 1, 0]);
    }
}
