// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The notification ring: one record for each epoch of a hardware queue.
//!
//! Epochs number the submissions of one queue from 1. The packet processor decrements the queue's epoch signal once for
//! each; the host learns from the signal's value which epochs are complete and takes their records out of this ring in
//! order.
//!
//! Writer: the thread that holds the queue's submission lock, which guards the [`EpochProducer`]. Reader: the thread
//! that has the right to drain the queue ([`EpochRing::pop`]). A record is written before `pushed` is stored with
//! release order, and read after `pushed` was loaded with acquire order; a slot is written again only after `popped`,
//! stored with release order by the reader, was loaded with acquire order.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use amdgpu_sync::{AtomicU64, Ordering, UnsafeCell};

/// Value of a queue's epoch signal before its first submission. Half the positive range leaves room for 2^62
/// submissions and keeps every value positive, so that "less than" compares as the packet processor's signed comparison
/// does.
pub const EPOCH_INITIAL_VALUE: i64 = i64::MAX / 2;

/// The last complete epoch when the epoch signal reads `value`.
#[inline]
pub fn completed_epoch(value: i64) -> u64 {
    EPOCH_INITIAL_VALUE.wrapping_sub(value).max(0) as u64
}

/// The threshold for `epoch`: the epoch is complete when the epoch signal's value is less.
#[inline]
pub fn epoch_threshold(epoch: u64) -> i64 {
    EPOCH_INITIAL_VALUE - epoch as i64 + 1
}

/// Bounded single-producer, single-consumer ring of per-epoch records, as seen by the consumer and by others.
#[derive(Debug)]
pub struct EpochRing<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    pushed: AtomicU64,
    popped: AtomicU64,
}

// SAFETY: records cross from the producer's thread to the consumer's, which `T: Send` allows; the two never touch a
// slot at the same time (see the head comment).
unsafe impl<T: Send> Sync for EpochRing<T> {}
// SAFETY: moving the ring moves the records, which `T: Send` allows; its other fields are atomics.
unsafe impl<T: Send> Send for EpochRing<T> {}

/// The right to push to a ring. There is one per ring.
#[derive(Debug)]
pub struct EpochProducer<T>(Arc<EpochRing<T>>);

impl<T> EpochProducer<T> {
    /// Appends the record of the next epoch and returns that epoch, or gives the record back when the ring is full.
    #[cfg(test)]
    pub fn push(&mut self, record: T) -> Result<u64, T> {
        let Some(vacancy) = self.vacancy() else { return Err(record) };
        let epoch = vacancy.epoch();
        vacancy.fill(record);
        Ok(epoch)
    }

    /// The slot for the next epoch's record; none when the ring is full.
    #[inline(always)]
    pub fn vacancy(&mut self) -> Option<Vacancy<'_, T>> {
        let ring = &*self.0;
        let position = ring.pushed.load(Ordering::Relaxed);
        let is_full = position - ring.popped.load(Ordering::Acquire) == ring.slots.len() as u64;
        (!is_full).then_some(Vacancy { ring, position })
    }
}

/// A free slot of a ring for one record. There is one at a time for each ring, because it borrows the producer.
#[derive(Debug)]
pub struct Vacancy<'a, T> {
    ring: &'a EpochRing<T>,
    position: u64,
}

impl<T> Vacancy<'_, T> {
    /// The epoch of the record.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.position + 1
    }

    /// Appends `record`.
    #[inline(always)]
    pub fn fill(self, record: T) {
        let record = ManuallyDrop::new(record);
        self.ring.slot(self.position).with_mut(|slot| {
            // SAFETY: the consumer has left this slot (`popped` was loaded with acquire order) and sees it only after
            // the store below; there is no other producer, and it is borrowed. The record moves.
            unsafe { slot.cast::<T>().copy_from_nonoverlapping(&raw const *record, 1) };
        });
        self.ring.pushed.store(self.position + 1, Ordering::Release);
    }
}

impl<T> EpochRing<T> {
    /// A ring for `capacity` records, rounded up to a power of two; none if there is no memory for it.
    pub fn new(capacity: usize) -> Option<(Arc<Self>, EpochProducer<T>)> {
        let capacity = capacity.max(2).checked_next_power_of_two()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(capacity).ok()?;
        slots.extend((0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())));
        let (slots, pushed, popped) = (slots.into_boxed_slice(), AtomicU64::new(0), AtomicU64::new(0));
        let ring = Arc::new(Self { slots, pushed, popped });
        Some((ring.clone(), EpochProducer(ring)))
    }

    fn slot(&self, position: u64) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// The epoch of the last pushed record; 0 before the first.
    #[inline]
    pub fn last_epoch(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// The epoch of the last record taken out; 0 before the first.
    #[inline]
    pub fn drained_epoch(&self) -> u64 {
        self.popped.load(Ordering::Acquire)
    }

    /// Takes out the oldest record when its epoch is at most `completed`.
    ///
    /// # Safety
    /// Only one thread calls this at a time: the one with the right to drain the queue.
    pub unsafe fn pop(&self, completed: u64) -> Option<(u64, T)> {
        let position = self.popped.load(Ordering::Relaxed);
        if position >= completed || position >= self.pushed.load(Ordering::Acquire) {
            return None;
        }
        let record = self.slot(position).with_mut(|slot| {
            // SAFETY: `pushed` was loaded with acquire order, so the record is written; the caller is the only consumer
            // and moves past the slot below, so that it is read once.
            unsafe { (*slot).assume_init_read() }
        });
        self.popped.store(position + 1, Ordering::Release);
        Some((position + 1, record))
    }
}

impl<T> Drop for EpochRing<T> {
    fn drop(&mut self) {
        let last = self.last_epoch();
        // SAFETY: `&mut self` excludes every other producer and consumer.
        while unsafe { self.pop(last) }.is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn epoch_values_round_trip() {
        assert_eq!(completed_epoch(EPOCH_INITIAL_VALUE), 0);
        for epoch in (1..=1000).chain([1 << 40, (1 << 62) - 1]) {
            let complete = EPOCH_INITIAL_VALUE - epoch as i64;
            assert_eq!(completed_epoch(complete), epoch);
            assert!(complete < epoch_threshold(epoch));
            assert!(complete + 1 >= epoch_threshold(epoch));
        }
    }

    #[test]
    fn gives_back_what_does_not_fit_and_keeps_order() {
        let (ring, mut producer) = EpochRing::new(2).unwrap();
        assert_eq!(producer.push("a"), Ok(1));
        assert_eq!(producer.push("b"), Ok(2));
        assert_eq!(producer.push("c"), Err("c"));
        // SAFETY: one thread.
        unsafe {
            assert_eq!(ring.pop(0), None);
            assert_eq!(ring.pop(1), Some((1, "a")));
            assert_eq!(ring.pop(1), None);
            assert_eq!(producer.push("c"), Ok(3));
            assert_eq!(ring.pop(9), Some((2, "b")));
            assert_eq!(ring.pop(9), Some((3, "c")));
            assert_eq!(ring.pop(9), None);
        }
        assert_eq!((ring.last_epoch(), ring.drained_epoch()), (3, 3));
    }

    /// All orders of eight steps, each a push or a pop with some epochs complete, in rings of two and four slots.
    #[test]
    fn records_come_out_once_in_order_and_not_before_their_epochs() {
        for capacity in [2, 4] {
            for order in 0..4_u32.pow(8) {
                let (ring, mut producer) = EpochRing::new(capacity).unwrap();
                let (mut pushed, mut popped) = (0, 0);
                for step in 0..8 {
                    let full = pushed - popped == capacity as u64;
                    assert_eq!(
                        (producer.vacancy().is_none(), ring.last_epoch(), ring.drained_epoch()),
                        (full, pushed, popped)
                    );
                    match order >> (2 * step) & 3 {
                        0 | 1 => {
                            let result = producer.push(pushed + 1);
                            assert_eq!(result, if full { Err(pushed + 1) } else { Ok(pushed + 1) });
                            pushed += u64::from(!full);
                        }
                        more => {
                            // None of those that are left, or one of them: whether it was pushed or not.
                            let completed = popped + u64::from(more - 2);
                            let is_there = popped < completed && popped < pushed;
                            // SAFETY: one thread.
                            let record = unsafe { ring.pop(completed) };
                            assert_eq!(record, is_there.then_some((popped + 1, popped + 1)));
                            popped += u64::from(is_there);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn drops_what_was_never_taken() {
        let token = std::sync::Arc::new(());
        let (ring, mut producer) = EpochRing::new(4).unwrap();
        for _ in 0..3 {
            producer.push(token.clone()).unwrap();
        }
        drop((ring, producer));
        assert_eq!(std::sync::Arc::strong_count(&token), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn records_cross_threads_whole_and_in_order() {
        loom::model(|| {
            let (ring, mut records) = EpochRing::new(2).unwrap();
            let producer = loom::thread::spawn(move || {
                let mut next = 0_u64;
                while next < 3 {
                    match records.push(Box::new(next)) {
                        Ok(epoch) => {
                            next += 1;
                            assert_eq!(epoch, next);
                        }
                        Err(_) => loom::thread::yield_now(),
                    }
                }
            });
            let mut seen = 0;
            while seen < 3 {
                // SAFETY: the only consumer.
                match unsafe { ring.pop(u64::MAX) } {
                    Some((epoch, value)) => {
                        assert_eq!((epoch, *value), (seen + 1, seen));
                        seen += 1;
                    }
                    None => loom::thread::yield_now(),
                }
            }
            producer.join().unwrap();
        });
    }
}
