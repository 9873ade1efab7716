// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What is costly to make and goes from one operation to another.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::ffi::{Result, Status};

/// Things of which there are at most so many, those among them that nobody uses.
#[derive(Debug)]
pub struct Pool<T> {
    free: Mutex<Vec<T>>,
    /// How many were made.
    made: AtomicUsize,
    most: usize,
}

impl<T> Pool<T> {
    /// A pool of at most `most` things, of which `first` is one.
    pub fn new(first: T, most: usize) -> Self {
        Self { free: Mutex::new(vec![first]), made: AtomicUsize::new(1), most }
    }

    /// Moves things to `taken` until it has `count`, which `make` makes where there are too few.
    ///
    /// # Errors
    /// Those of `make`; `too_many` when there would be. What was moved by then stays there.
    pub fn take(
        &self,
        taken: &mut Vec<T>,
        count: usize,
        make: impl Fn() -> Result<T>,
        too_many: impl Fn() -> Status,
    ) -> Result<()> {
        {
            let mut free = self.free.lock();
            let kept = free.len().saturating_sub(count.saturating_sub(taken.len()));
            taken.extend(free.drain(kept..));
        }
        while taken.len() < count {
            let is_full = self.made.fetch_add(1, Ordering::Relaxed) >= self.most;
            let made = if is_full { Err(too_many()) } else { make() };
            match made {
                Ok(made) => taken.push(made),
                Err(status) => {
                    self.made.fetch_sub(1, Ordering::Relaxed);
                    return Err(status);
                }
            }
        }
        Ok(())
    }

    /// Takes back what nobody uses any more.
    pub fn give_back(&self, things: impl Iterator<Item = T>) {
        self.free.lock().extend(things);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::{Code, status};

    #[test]
    fn there_are_at_most_so_many() {
        let pool = Pool::new(0, 3);
        let take = |taken: &mut Vec<i32>, count, made: Result<i32>| {
            pool.take(taken, count, || made.clone(), || status!(RESOURCE_EXHAUSTED, "too many"))
        };
        let (mut first, mut second) = (Vec::new(), Vec::new());
        take(&mut first, 2, Ok(1)).unwrap();
        assert_eq!(first, [0, 1]);
        // What was not made does not count.
        for _ in 0..5 {
            let status = take(&mut second, 1, Err(status!(INTERNAL, "none made"))).unwrap_err();
            assert_eq!(status.code(), Code::INTERNAL, "{status}");
        }
        take(&mut second, 1, Ok(2)).unwrap();
        for _ in 0..2 {
            let status = take(&mut second, 2, Ok(3)).unwrap_err();
            assert_eq!(status.code(), Code::RESOURCE_EXHAUSTED, "{status}");
        }
        assert_eq!(second, [2]);
        pool.give_back(first.drain(..));
        take(&mut second, 3, Err(status!(INTERNAL, "none made"))).unwrap();
        assert_eq!(second, [2, 0, 1]);
    }
}
