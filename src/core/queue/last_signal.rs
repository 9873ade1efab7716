// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The newest submission that signals a semaphore, written and read without a lock.

use amdgpu_sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

/// Times that a writer checks whether another writer is done.
const TRIES: u32 = if cfg!(loom) { 1 } else { 100 };

/// The newest submission that signals a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSignal {
    /// Ordinal of the queue, within the logical device that made the semaphore.
    pub queue: u32,
    /// The submission's epoch.
    pub epoch: u64,
    /// The payload it signals.
    pub value: u64,
}

/// The newest submission that signals a semaphore. A sequence lock: several threads write it, and readers try again
/// when a write was under way.
#[derive(Debug, Default)]
pub struct LastSignalCell {
    /// Odd during a write; 0 before the first.
    sequence: AtomicU64,
    queue: AtomicU64,
    epoch: AtomicU64,
    value: AtomicU64,
    /// The payload of the submission before the newest. Payloads up to it are signaled by others.
    before: AtomicU64,
}

impl LastSignalCell {
    /// The submission and the payload of the one before it; none before the first write.
    #[inline(always)]
    pub fn read(&self) -> Option<(LastSignal, u64)> {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence == 0 {
                return None;
            }
            let newest = LastSignal {
                queue: self.queue.load(Ordering::Relaxed) as u32,
                epoch: self.epoch.load(Ordering::Relaxed),
                value: self.value.load(Ordering::Relaxed),
            };
            let before = self.before.load(Ordering::Relaxed);
            // Orders the reads above before the second read of the sequence.
            fence(Ordering::Acquire);
            if !sequence.is_multiple_of(2) {
                // The system may have put the writer to sleep.
                yield_now();
            } else if self.sequence.load(Ordering::Relaxed) == sequence {
                return Some((newest, before));
            }
        }
    }

    /// Notes a submission as the newest, unless one that signals a larger payload has been noted. Gives up if another
    /// thread takes longer than a few stores to note its own: the system has preempted it then, and the caller holds a
    /// submission lock. A wait for a payload that was not noted is merely deferred. Returns true if the submission was
    /// noted.
    #[inline(always)]
    pub fn write(&self, signal: LastSignal) -> bool {
        let mut sequence = self.sequence.load(Ordering::Relaxed);
        let mut tries = 0;
        while sequence % 2 == 1 || !self.begin(sequence) {
            if tries == TRIES {
                return false;
            }
            tries += 1;
            spin_loop();
            sequence = self.sequence.load(Ordering::Relaxed);
        }
        // A reader that sees one of the following stores sees the odd sequence.
        fence(Ordering::Release);
        let before = self.value.load(Ordering::Relaxed);
        // Submissions on other queues may be noted out of the payloads' order: the larger payload is the later promise.
        if before <= signal.value {
            self.queue.store(signal.queue.into(), Ordering::Relaxed);
            self.epoch.store(signal.epoch, Ordering::Relaxed);
            self.value.store(signal.value, Ordering::Relaxed);
            self.before.store(before, Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
        true
    }

    /// Takes the right to write if the sequence is still `sequence`.
    fn begin(&self, sequence: u64) -> bool {
        let begun = self.sequence.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed);
        begun.is_ok()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    fn signal(value: u64) -> LastSignal {
        LastSignal { queue: value as u32 + 10, epoch: value + 20, value }
    }

    fn check(seen: Option<(LastSignal, u64)>) -> u64 {
        let Some((newest, before)) = seen else { return 0 };
        assert_eq!(newest, signal(newest.value), "fields of two submissions");
        assert!(before < newest.value, "{before} was before {}", newest.value);
        newest.value
    }

    /// Every order of two threads that changes hands no more than three times.
    fn check_orders(run: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(run);
    }

    #[test]
    fn readers_see_whole_submissions_and_never_older_ones() {
        check_orders(|| {
            let pending = Arc::new(LastSignalCell::default());
            pending.write(signal(1));
            let reader = {
                let pending = pending.clone();
                loom::thread::spawn(move || {
                    let first = check(pending.read());
                    let second = check(pending.read());
                    assert!(first <= second, "{second} was seen after {first}");
                })
            };
            pending.write(signal(2));
            reader.join().unwrap();
        });
    }

    #[test]
    fn the_larger_noted_payload_stays_whichever_is_written_last() {
        check_orders(|| {
            let pending = Arc::new(LastSignalCell::default());
            let writer = {
                let pending = pending.clone();
                loom::thread::spawn(move || pending.write(signal(2)))
            };
            let first = pending.write(signal(1));
            let second = writer.join().unwrap();
            assert_eq!(check(pending.read()), if second { 2 } else { 1 });
            assert!(first || second);
        });
    }
}
