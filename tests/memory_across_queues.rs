// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Memory that a queue frees while its work still uses it must not go to another queue before that work ends.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::ops::Range;

use amdgpu_rs::device_address;
use amdgpu_rs::ffi::{Allocator, HalRef, iree, raw};
use hold::Hold;
use support::{BufferRef, Rig, SemaphoreRef, wait};

/// Bytes of a range of the default pools, and of the freed allocation.
const RANGE: usize = 1 << 20;

/// Bytes of each allocation on the other queues.
const SMALL: usize = 4096;

const MAY_WAIT: u32 = raw::IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER;

/// Creates a device with small ranges and `queues` hardware queues per GPU.
fn rig(queues: &str) -> Rig {
    Rig::with(&[("hardware_queues_per_gpu", queues), ("default_pool_range_length", "1048576")])
}

/// Device addresses of `size` bytes of a committed `buffer`.
fn place(buffer: &BufferRef, size: usize) -> Range<u64> {
    let start = device_address(buffer.borrow(), 0).unwrap();
    start..start + size as u64
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Copies device memory to the host.
fn contents(rig: &Rig, queue: u64, buffer: &BufferRef, size: usize) -> Vec<u8> {
    let (copy, done) = (rig.buffer(size), rig.semaphore());
    rig.copy(queue, &[], &[(&done, 1)], (buffer, 0), (&copy, 0), size).unwrap();
    wait(&done, 1).unwrap();
    rig.read(&copy, 0, size)
}

/// Creates one of IREE's TLSF pools, as applications do, with ranges of `length` bytes.
fn tlsf_pool(rig: &Rig, length: usize) -> HalRef<raw::iree_hal_pool_t> {
    // SAFETY: a live device; the pool retains its parts; results go to locals.
    unsafe {
        let mut backend: raw::iree_hal_queue_pool_backend_t = std::mem::zeroed();
        iree!(raw::iree_hal_device_query_queue_pool_backend(rig.device.as_ptr(), 1, &raw mut backend)).unwrap();
        let mut options: raw::iree_hal_tlsf_pool_options_t = std::mem::zeroed();
        options.tlsf_options.range_length = length;
        options.tlsf_options.alignment = 256;
        let (allocator, mut pool) = (Allocator::system().to_raw(), std::ptr::null_mut());
        let (provider, notification) = (backend.slab_provider, backend.notification);
        iree!(raw::iree_hal_tlsf_pool_create(
            options,
            provider,
            notification,
            backend.epoch_query,
            allocator,
            &raw mut pool
        ))
        .unwrap();
        HalRef::from_owned(pool).unwrap()
    }
}

/// Allocates a whole range on queue 1, fills it with 1 and frees it, all behind `hold`. Returns its addresses, and the
/// semaphore that reaches 3 at the end.
fn give_back(rig: &Rig, pool: *mut raw::iree_hal_pool_t, size: usize) -> (Range<u64>, SemaphoreRef) {
    let done = rig.semaphore();
    let buffer = rig.alloca_from(pool, 1, &[], &[(&done, 1)], (size, 0)).unwrap();
    rig.fill(1, &[(&done, 1)], &[(&done, 2)], &buffer, (0, size), &[1]).unwrap();
    let place = place(&buffer, size);
    rig.dealloca(1, &[(&done, 2)], &[(&done, 3)], &buffer).unwrap();
    (place, done)
}

/// The first request is refused the freed block. Later requests would find the rest that an allocator splits off that
/// block.
#[test]
fn no_queue_gets_memory_that_another_one_still_uses() {
    for queues in [2, 4] {
        let rig = rig(&queues.to_string());
        let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
        let (given_back, done) = give_back(&rig, std::ptr::null_mut(), RANGE);
        let mut others = Vec::new();
        for queue in (1..queues).map(|queue| 1 << queue) {
            for _ in 0..4 {
                let filled = rig.semaphore();
                let other = rig.alloca(queue, &[], &[(&filled, 1)], SMALL).unwrap();
                rig.fill(queue, &[(&filled, 1)], &[(&filled, 2)], &other, (0, SMALL), &[9]).unwrap();
                wait(&filled, 2).unwrap();
                let place = place(&other, SMALL);
                assert!(!overlap(&given_back, &place), "{place:x?} is part of {given_back:x?}, which is in use");
                others.push((queue, other));
            }
        }
        assert_eq!(done.borrow().query().unwrap(), 0, "nothing of the first queue has run yet");
        drop(hold);
        wait(&done, 3).unwrap();
        for (queue, other) in &others {
            assert_eq!(contents(&rig, *queue, other, SMALL), [9; SMALL]);
        }
        // Completed memory is free for every queue.
        let before = rig.slabs();
        let again = rig.alloca(2, &[], &[(&done, 4)], RANGE).unwrap();
        wait(&done, 4).unwrap();
        assert_eq!((place(&again, RANGE), rig.slabs()), (given_back, before));
    }
}

/// A queue that waits for the deallocation gets the memory at once, whole or in parts.
#[test]
fn a_queue_that_comes_after_the_last_use_takes_the_memory_at_once() {
    let rig = rig("2");
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let (given_back, done) = give_back(&rig, std::ptr::null_mut(), RANGE);
    let before = rig.slabs();
    let later = rig.semaphore();
    let parts = [1, 2].map(|value| rig.alloca(2, &[(&done, 3)], &[(&later, value)], SMALL).unwrap());
    for part in &parts {
        assert!(overlap(&given_back, &place(part, SMALL)));
    }
    assert!(!overlap(&place(&parts[0], SMALL), &place(&parts[1], SMALL)));
    assert_eq!(rig.slabs(), before);
    drop(hold);
    wait(&later, 2).unwrap();
}

/// IREE's TLSF pools lose the frontier of a block that they split, so the driver returns memory to them at completion.
#[test]
fn no_queue_gets_memory_of_a_tlsf_pool_that_another_one_still_uses() {
    const LENGTH: usize = 16384;
    let rig = rig("2");
    let pool = tlsf_pool(&rig, LENGTH);
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let (given_back, done) = give_back(&rig, pool.as_ptr(), LENGTH);
    for _ in 0..3 {
        let taken = rig.semaphore();
        let other = rig.alloca_from(pool.as_ptr(), 2, &[], &[(&taken, 1)], (SMALL, MAY_WAIT)).unwrap();
        wait(&taken, 1).unwrap();
        let place = place(&other, SMALL);
        assert!(!overlap(&given_back, &place), "{place:x?} is part of {given_back:x?}, which is in use");
        rig.dealloca(2, &[], &[(&taken, 2)], &other).unwrap();
        wait(&taken, 2).unwrap();
    }
    assert_eq!(done.borrow().query().unwrap(), 0);
    drop(hold);
    wait(&done, 3).unwrap();
    // The pool has the memory back.
    let before = rig.slabs();
    let again = rig.alloca_from(pool.as_ptr(), 2, &[], &[(&done, 4)], (LENGTH, 0)).unwrap();
    wait(&done, 4).unwrap();
    assert_eq!(rig.slabs(), before);
    rig.dealloca(2, &[], &[(&done, 5)], &again).unwrap();
    wait(&done, 5).unwrap();
}

/// A trim returns unused slabs to HSA; later allocations acquire new ones.
#[test]
fn unused_ranges_are_trimmed_and_used_ones_stay() {
    let rig = rig("2");
    let (done, start) = (rig.semaphore(), rig.slabs());
    let buffers = [1, 2, 3].map(|value| rig.alloca(1, &[], &[(&done, value)], RANGE).unwrap());
    wait(&done, 3).unwrap();
    let trim = || {
        // SAFETY: a live device.
        unsafe { iree!(raw::iree_hal_device_trim(rig.device.as_ptr())) }.unwrap();
        let (acquired, released) = rig.slabs();
        (acquired - start.0, released - start.1)
    };
    assert_eq!(trim(), (2, 0), "one was there");
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    rig.dealloca(1, &[], &[(&done, 4)], &buffers[1]).unwrap();
    assert_eq!(trim(), (2, 0), "it is in use");
    drop(hold);
    wait(&done, 4).unwrap();
    assert_eq!(trim(), (2, 1));
    rig.fill(1, &[], &[(&done, 5)], &buffers[2], (0, RANGE), &[3]).unwrap();
    wait(&done, 5).unwrap();
    assert_eq!(contents(&rig, 1, &buffers[2], RANGE), [3; RANGE]);
    let again = rig.alloca(1, &[], &[(&done, 6)], RANGE).unwrap();
    wait(&done, 6).unwrap();
    assert_eq!(trim(), (3, 1));
    for (value, buffer) in (7..).zip([&buffers[0], &buffers[2], &again]) {
        rig.dealloca(1, &[], &[(&done, value)], buffer).unwrap();
    }
    wait(&done, 9).unwrap();
    assert_eq!(trim(), (3, 4));
}
