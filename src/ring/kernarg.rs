// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The kernarg ring: kernel arguments of the submissions in flight. A ring of the same kind has their PM4 commands.
//!
//! Writer: the thread that holds the queue's submission lock. Reader: the device, between the publication of a packet
//! and the completion of its epoch. The host reclaims a span by storing its end position
//! ([`KernargReclaimer::reclaim`]) when the epoch is drained; positions only grow and are taken modulo the capacity. A
//! span never wraps: the rest at the end of the memory is skipped. When nothing is in use and `WARM_BYTES` are
//! written, the rest is skipped, too, because the recently written memory is still in the processor's caches.

use std::ops::Range;
use std::ptr::NonNull;

use amdgpu_sync::{Arc, AtomicU64, Ordering};

/// Alignment and granularity of spans, in bytes: the largest kernarg alignment the driver accepts, and a cache line.
pub const KERNARG_ALIGNMENT: u64 = 64;

/// Bytes that a ring writes before it starts over in an idle moment. With fewer, the memory is still in the cache of
/// another core that has read it (as the software GPU does), which makes writes slower than uncached memory; with more,
/// it is no longer in the writer's cache.
const WARM_BYTES: u64 = 256 << 10;

/// A ring over memory that host and device share. The host only writes it: it may be device memory, which is slow to
/// read.
#[derive(Debug)]
pub struct KernargRing {
    base: NonNull<u8>,
    capacity: u64,
    write: u64,
    /// The start of the oldest span, set when nothing else was in use: everything before it is free, reclaimed or not.
    oldest: u64,
    reclaimed: Arc<AtomicU64>,
}

// SAFETY: the memory behind `base` belongs to the ring for its lifetime; the ring is used by one thread at a time
// (`&mut self`).
unsafe impl Send for KernargRing {}

/// A reserved span.
#[derive(Debug, Clone, Copy)]
pub struct KernargSpan {
    /// First byte; aligned to [`KERNARG_ALIGNMENT`]. The same address on host and device.
    pub base: NonNull<u8>,
    /// The length in bytes.
    pub length: u64,
    /// Position to hand to [`KernargReclaimer::reclaim`] when the epoch that uses the span is complete.
    pub end: u64,
}

/// The completion side's handle, which gives spans back.
#[derive(Debug, Clone)]
pub struct KernargReclaimer(Arc<AtomicU64>);

impl KernargReclaimer {
    /// Gives back everything before position `end`. Positions arrive in epoch order from the thread with the right to
    /// drain.
    #[inline]
    pub fn reclaim(&self, end: u64) {
        self.0.store(end, Ordering::Release);
    }
}

impl KernargRing {
    /// A ring over `capacity` bytes at `base`.
    ///
    /// # Safety
    /// `base` is valid for reads and writes of `capacity` bytes until the ring is dropped, aligned to
    /// [`KERNARG_ALIGNMENT`], not used by other host code, and visible to the device at the same address.
    /// `capacity` is a power of two of at least the alignment.
    pub unsafe fn new(base: NonNull<u8>, capacity: u64) -> Self {
        debug_assert!(capacity.is_power_of_two() && capacity >= KERNARG_ALIGNMENT);
        debug_assert!((base.as_ptr() as u64).is_multiple_of(KERNARG_ALIGNMENT));
        Self { base, capacity, write: 0, oldest: 0, reclaimed: Arc::new(AtomicU64::new(0)) }
    }

    /// The handle through which the completion side gives spans back.
    pub fn reclaimer(&self) -> KernargReclaimer {
        KernargReclaimer(self.reclaimed.clone())
    }

    /// The ring's size in bytes: no span can be longer.
    #[cfg(all(test, not(loom)))]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The position after the last reserved span.
    #[inline]
    pub fn position(&self) -> u64 {
        self.write
    }

    /// True if [`Self::reserve`] would return `length` bytes now.
    #[inline]
    pub fn has_room(&self, length: u64) -> bool {
        self.place(length).is_some()
    }

    /// Reserves `length` bytes; none if they are not free now. A length of 0 gives an empty span at the current
    /// position.
    #[inline(always)]
    pub fn reserve(&mut self, length: u64) -> Option<KernargSpan> {
        let (positions, oldest) = self.place(length)?;
        (self.write, self.oldest) = (positions.end, oldest);
        let offset = positions.start & (self.capacity - 1);
        // SAFETY: `offset` is below the capacity, so the address is inside the ring's memory.
        let base = unsafe { self.base.add(offset as usize) };
        Some(KernargSpan { base, length: positions.end - positions.start, end: self.write })
    }

    /// The positions of the next `length` bytes, if they are free now, and the oldest position in use after their
    /// reservation.
    #[inline(always)]
    fn place(&self, length: u64) -> Option<(Range<u64>, u64)> {
        let oldest = self.reclaimed.load(Ordering::Acquire).max(self.oldest);
        if length == 0 {
            return Some((self.write..self.write, oldest));
        }
        let length = length.checked_next_multiple_of(KERNARG_ALIGNMENT)?;
        if length > self.capacity {
            return None;
        }
        let is_unused = oldest == self.write;
        let offset = self.write & (self.capacity - 1);
        let starts_over = offset + length > self.capacity || is_unused && offset >= WARM_BYTES;
        let beginning = (self.write + self.capacity - 1) & !(self.capacity - 1);
        let start = if starts_over { beginning } else { self.write };
        let oldest = if is_unused { start } else { oldest };
        (start + length - oldest <= self.capacity).then_some((start..start + length, oldest))
    }
}

impl KernargSpan {
    /// Takes the first `length` bytes off the span.
    ///
    /// # Panics
    /// If the span is shorter.
    #[inline(always)]
    pub fn take(&mut self, length: u64) -> Self {
        assert!(length <= self.length, "more kernargs taken than asked for");
        let taken = Self { length, ..*self };
        // SAFETY: not past the end of the span, as asserted.
        self.base = unsafe { self.base.add(length as usize) };
        self.length -= length;
        taken
    }

    /// Writes `bytes` at byte `offset` of the span.
    ///
    /// # Safety
    /// `offset + bytes.len()` is at most the length the span was reserved with, and its epoch is not published yet.
    #[inline(always)]
    pub unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: in bounds by the contract above; the span is ours alone until it is published.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(offset), bytes.len()) };
    }
}

/// A type that devices read as words.
///
/// # Safety
/// It has no padding, and all bit patterns are valid.
pub unsafe trait Word: Copy {}

// SAFETY: an integer has none.
unsafe impl Word for u32 {}
// SAFETY: an integer has no padding.
unsafe impl Word for u64 {}

/// The bytes of `words` in the order of devices: GPUs are little-endian, as are all hosts that have one.
#[inline]
pub fn bytes_of<W: Word>(words: &[W]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: words have no padding, and bytes no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// The bytes of `words`, for writing.
#[inline]
pub fn bytes_of_mut<W: Word>(words: &mut [W]) -> &mut [u8] {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: words have no padding, any bytes make one, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Clone)]
    #[repr(align(64))]
    struct Memory([u8; 256]);

    #[test]
    fn skips_the_tail_and_waits_for_reclaim() {
        let mut memory = Box::new(Memory([0; 256]));
        let base = NonNull::new(memory.0.as_mut_ptr()).unwrap();
        // SAFETY: the memory outlives the ring.
        let mut ring = unsafe { KernargRing::new(base, 256) };
        let reclaimer = ring.reclaimer();
        let a = ring.reserve(100).unwrap();
        assert_eq!((a.base, a.end), (base, 128));
        let b = ring.reserve(64).unwrap();
        assert_eq!(b.end, 192);
        assert!(ring.reserve(128).is_none(), "would wrap into what is in use");
        assert!(ring.reserve(257).is_none(), "longer than the ring");
        reclaimer.reclaim(a.end);
        let c = ring.reserve(128).unwrap();
        assert_eq!((c.base, c.end), (base, 256 + 128));
        assert!(ring.reserve(256).is_none());
        reclaimer.reclaim(c.end);
        assert_eq!(ring.reserve(256).unwrap().base, base, "an empty ring holds its whole capacity");
        // SAFETY: the span has 128 bytes.
        unsafe { c.write(4, &[7; 8]) };
        assert_eq!(memory.0[3..13], [0, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    }

    #[test]
    fn starts_over_when_idle_after_warm_bytes() {
        let capacity = 4 * WARM_BYTES;
        let mut memory = vec![Memory([0; 256]); (capacity / 256) as usize];
        let base = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
        // SAFETY: the memory outlives the ring.
        let mut ring = unsafe { KernargRing::new(base, capacity) };
        let reclaimer = ring.reclaimer();
        let mut offset = |bytes| {
            let span = ring.reserve(bytes).unwrap();
            (span.base.as_ptr() as u64 - base.as_ptr() as u64, span.end)
        };
        for expected in (0..WARM_BYTES).step_by(1 << 10).chain([0]) {
            let (at, end) = offset(1 << 10);
            assert_eq!(at, expected);
            reclaimer.reclaim(end);
        }
        // As long as something is in use the ring goes on.
        for expected in (1 << 10..capacity).step_by(1 << 10) {
            assert_eq!(offset(1 << 10).0, expected);
        }
    }

    /// All orders of up to six steps, each a reservation of any length or the end of the oldest epoch, in rings of up
    /// to four units, from the beginning and from positions near the end of the memory: spans are whole, within the
    /// memory, apart from all that are in use, and refused only if they do not fit behind or before those.
    #[test]
    fn spans_in_use_never_overlap_and_what_fits_is_given() {
        const UNIT: u64 = KERNARG_ALIGNMENT;
        /// Checks a ring after some steps, and all further steps. `in_use` has start, length and end of the spans in
        /// use.
        fn explore(ring: &mut KernargRing, in_use: &[(u64, u64, u64)], steps: u32) {
            if steps == 0 {
                return;
            }
            let (base, capacity, position) = (ring.base.as_ptr() as u64, ring.capacity(), ring.position());
            let (reclaimed, oldest) = (ring.reclaimed.load(Ordering::Relaxed), ring.oldest);
            let used = position - reclaimed.max(oldest);
            for length in 0..=capacity / UNIT + 1 {
                let length = length * UNIT;
                if let Some(span) = ring.reserve(length) {
                    let (start, end) = (span.base.as_ptr() as u64 - base, span.base.as_ptr() as u64 - base + length);
                    assert!(end <= capacity, "{start} and {length} of {capacity}");
                    for (other, other_length, _) in in_use {
                        assert!(length == 0 || *other_length == 0 || end <= *other || other + other_length <= start);
                    }
                    assert_eq!((span.end, start % UNIT), (ring.position(), 0));
                    let more = [in_use, &[(start, length, span.end)]].concat();
                    explore(ring, &more, steps - 1);
                } else {
                    // Neither at the position, nor at the beginning when the rest of the memory is skipped.
                    let offset = position % capacity;
                    let skipped = if offset + length > capacity { capacity - offset } else { 0 };
                    assert!(
                        length > capacity || used != 0 && used + skipped + length > capacity,
                        "{length} of {capacity}"
                    );
                    assert_eq!(ring.position(), position);
                }
                (ring.write, ring.oldest) = (position, oldest);
            }
            if let [(_, _, end), rest @ ..] = in_use {
                ring.reclaimer().reclaim(*end);
                explore(ring, rest, steps - 1);
                ring.reclaimed.store(reclaimed, Ordering::Relaxed);
            }
        }
        let mut memory = Box::new(Memory([0; 256]));
        let base = NonNull::new(memory.0.as_mut_ptr()).unwrap();
        for capacity in [UNIT, 2 * UNIT, 4 * UNIT] {
            for start in [
                0,
                capacity - UNIT,
                (1 << 40) + capacity / 2 / UNIT * UNIT,
                (u64::MAX - 64 * UNIT).next_multiple_of(capacity),
            ] {
                // SAFETY: the memory outlives the ring.
                let mut ring = unsafe { KernargRing::new(base, capacity) };
                ring.write = start;
                ring.reclaimer().reclaim(start);
                explore(&mut ring, &[], 6);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use amdgpu_sync::UnsafeCell;

    #[repr(align(64))]
    struct Memory([u8; 2 * KERNARG_ALIGNMENT as usize]);

    #[test]
    fn a_span_is_written_again_only_after_its_epoch_is_drained() {
        const SPANS: u64 = 3;
        // Every order that changes hands no more than three times.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let mut memory = Box::new(Memory([0; _]));
            let base = NonNull::new(memory.0.as_mut_ptr()).unwrap();
            // SAFETY: the memory outlives the ring: the thread that has it is joined.
            let mut ring = unsafe { KernargRing::new(base, size_of::<Memory>() as u64) };
            let reclaimer = ring.reclaimer();
            // The memory, as loom sees it, and how far it is published.
            let units = Arc::new([0, 1].map(UnsafeCell::new));
            let published = Arc::new(AtomicU64::new(0));
            let unit = move |units: &[UnsafeCell<u64>; 2], end: u64, f: &dyn Fn(&mut u64)| {
                let index = (end / KERNARG_ALIGNMENT - 1) % 2;
                // SAFETY: loom checks that no other thread accesses the unit.
                units[index as usize].with_mut(|unit| f(unsafe { &mut *unit }));
            };
            let producer = {
                let (units, published) = (units.clone(), published.clone());
                loom::thread::spawn(move || {
                    for number in 1..=SPANS {
                        let span = loop {
                            match ring.reserve(KERNARG_ALIGNMENT) {
                                Some(span) => break span,
                                None => loom::thread::yield_now(),
                            }
                        };
                        unit(&units, span.end, &|unit| *unit = number);
                        published.store(span.end, Ordering::Release);
                    }
                })
            };
            for number in 1..=SPANS {
                let end = number * KERNARG_ALIGNMENT;
                while published.load(Ordering::Acquire) < end {
                    loom::thread::yield_now();
                }
                unit(&units, end, &|unit| assert_eq!(*unit, number));
                reclaimer.reclaim(end);
            }
            producer.join().unwrap();
        });
    }
}
