// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered memory through the C API.

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::time::{Duration, Instant};

use amdgpu_rs::device_address;
use amdgpu_rs::ffi::{Code, Frontier, HalRef, QUEUE_AFFINITY_ANY, Result, WHOLE_BUFFER, raw, status};
use hold::Hold;
use support::one_block::{OneBlock, Policy};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, Rig, SemaphoreRef, failure, passes_alone, wait, workgroups};

/// Kernels that fault; `testdata/faults.c` says how they were built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

const MAY_WAIT: u32 = raw::IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER;

/// Where the memory of `buffer` is, if it has any.
fn address(buffer: &BufferRef) -> Result<u64> {
    device_address(buffer.borrow(), 0)
}

/// Allocates all of `pool` on `queue`, which signals `done` at 1.
fn take(rig: &Rig, pool: &HalRef<OneBlock>, queue: u64, done: &SemaphoreRef, flags: u32) -> Result<BufferRef> {
    rig.alloca_from(pool.as_raw(), queue, &[], &[(done, 1)], (SIZE, flags))
}

/// Returns when `condition` holds, and panics if it does not come true.
fn until(description: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {description}");
        std::thread::yield_now();
    }
}

/// Bytes of each allocation of these tests.
const SIZE: usize = 4096;

/// Bytes of GPU memory that buffers have held so far: at most at a time, in all, and given back.
fn device_bytes(rig: &Rig) -> [usize; 3] {
    // SAFETY: a live allocator; all-zero statistics are valid.
    let statistics = unsafe {
        let mut statistics: raw::iree_hal_allocator_statistics_t = std::mem::zeroed();
        raw::iree_hal_allocator_query_statistics(rig.allocator(), &raw mut statistics);
        statistics
    };
    [statistics.device_bytes_peak, statistics.device_bytes_allocated, statistics.device_bytes_freed]
}

#[test]
fn statistics_count_queue_allocations_while_they_have_memory() {
    const LARGE: usize = 4 << 20;
    // An allocation larger than a range has memory of its own.
    let rig = Rig::with(&[("default_pool_range_length", "1048576")]);
    let done = rig.semaphore();
    assert_eq!(device_bytes(&rig), [0, 0, 0], "pools that nobody has taken from");
    let waiting = rig.alloca(1, &[(&done, 1)], &[(&done, 2)], SIZE).unwrap();
    let large = rig.alloca(1, &[], &[(&done, 1)], LARGE).unwrap();
    wait(&done, 2).unwrap();
    assert_eq!(device_bytes(&rig), [SIZE + LARGE, SIZE + LARGE, 0]);
    rig.dealloca(1, &[], &[(&done, 3)], &large).unwrap();
    wait(&done, 3).unwrap();
    assert_eq!(device_bytes(&rig), [SIZE + LARGE, SIZE + LARGE, LARGE]);
    // Without a deallocation, the memory goes with its buffer.
    drop(waiting);
    assert_eq!(device_bytes(&rig), [SIZE + LARGE, SIZE + LARGE, SIZE + LARGE]);
    drop(large);
}

/// IREE's debug allocator (`iree/hal/utils/debug_allocator.c`) fills so many bytes of each new buffer from a command
/// buffer. HSA's memory comes in pages, so that most buffers have less than was allocated for them.
#[test]
fn all_bytes_that_a_buffer_says_it_has_can_be_filled() {
    let rig = Rig::new();
    for size in [0, 1, 16, 5000] {
        let buffer = rig.buffer(size);
        // SAFETY: a live buffer.
        let bytes = unsafe { raw::iree_hal_buffer_allocation_size(buffer.as_ptr()) };
        let recording = Recording::begin(&rig, Mode::OneShot, 0);
        recording.fill(direct(&buffer, 0, bytes), 0xCD).unwrap();
        recording.end();
        recording.run(&rig).unwrap();
        assert_eq!(rig.read(&buffer, 0, size), vec![0xCD; size]);
    }
}

/// Allocation, work and deallocation, again and again, submitted while the first of it has not even begun: each takes
/// the memory of the one before. With ranges of two allocations, 64 chains would take 32 ranges without that.
#[test]
fn chains_submitted_ahead_take_the_memory_of_one() {
    const CHAINS: usize = 64;
    const LENGTH: usize = 512 << 10;
    let rig = Rig::with(&[("default_pool_range_length", "1048576")]);
    let (results, done) = (rig.buffer(4 * CHAINS), rig.semaphore());
    rig.write(&results, 0, &[0; 4 * CHAINS]);
    let before = rig.slabs();
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    for chain in 0..CHAINS {
        let at = |step| [(&done, (4 * chain + step) as u64)];
        let buffer = rig.alloca(1, &at(0), &at(1), LENGTH).unwrap();
        rig.fill(1, &at(1), &at(2), &buffer, (LENGTH - 4, 4), &[chain as u8]).unwrap();
        rig.copy(1, &at(2), &at(3), (&buffer, LENGTH - 4), (&results, 4 * chain), 4).unwrap();
        rig.dealloca(1, &at(3), &at(4), &buffer).unwrap();
    }
    assert_eq!(rig.slabs(), before, "ranges that were allocated");
    drop(hold);
    wait(&done, 4 * CHAINS as u64).unwrap();
    assert_eq!(rig.slabs(), before);
    let expected: Vec<u8> = (0..CHAINS as u8).flat_map(|chain| [chain; 4]).collect();
    assert_eq!(rig.read(&results, 0, 4 * CHAINS), expected);
}

/// The axis of the first queue, and its last epoch.
fn last_epoch(rig: &Rig) -> (u64, u64) {
    let pool = OneBlock::new(rig, Policy::Kept, SIZE);
    let (taken, freed) = (rig.semaphore(), rig.semaphore());
    let buffer = take(rig, &pool, 1, &taken, 0).unwrap();
    rig.dealloca(1, &[(&taken, 1)], &[(&freed, 1)], &buffer).unwrap();
    wait(&freed, 1).unwrap();
    pool.deaths()[0][0]
}

#[test]
fn an_epoch_passes_when_its_own_work_is_over() {
    let rig = Rig::new();
    let (axis, epoch) = last_epoch(&rig);
    let (first, second) = (Hold::new(&rig, hold::GFX1100, 1, &[]), Hold::new(&rig, hold::GFX1100, 1, &[]));
    assert!(!rig.tracker.has_passed(axis, epoch + 1));
    drop(first);
    until("the first has passed", || rig.tracker.has_passed(axis, epoch + 1));
    assert!(!rig.tracker.has_passed(axis, epoch + 2));
    drop(second);
    until("the second has passed", || rig.tracker.has_passed(axis, epoch + 2));
}

#[test]
fn who_waits_for_an_epoch_of_a_lost_device_hears_of_the_loss() {
    passes_alone("who_waits_for_an_epoch_of_a_lost_device_hears_of_the_loss", "gfx1100", || {
        let rig = Rig::new();
        let (axis, epoch) = last_epoch(&rig);
        let faults = rig.executable(FAULTS).unwrap();
        let (hold, target) = (Hold::new(&rig, hold::GFX1100, 1, &[]), rig.buffer(4));
        rig.dispatch(1, &[], &[], (&faults, "write_at"), &(1_i64 << 40).to_le_bytes(), &[&target]).unwrap();
        let frontier = Frontier::new([(axis, epoch + 2)].into_iter());
        let waiting = rig.tracker.wait(&frontier).unwrap();
        drop(hold);
        assert_eq!(waiting.wait_for(Duration::from_secs(60)).unwrap_err().code(), Code::DATA_LOSS);
    });
}

#[test]
fn a_deallocation_gives_memory_back_when_it_is_submitted() {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, Policy::Kept, SIZE);
    let (first_done, freed, second_done, second_freed) =
        (rig.semaphore(), rig.semaphore(), rig.semaphore(), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let first = take(&rig, &pool, 1, &first_done, 0).unwrap();
    let start = address(&first).unwrap();
    rig.dealloca(1, &[(&first_done, 1)], &[(&freed, 1)], &first).unwrap();
    let deaths = pool.deaths();
    assert!(!pool.is_taken());
    let [(_, epoch)] = deaths[0][..] else { panic!("one epoch of one queue: {deaths:?}") };
    assert_eq!(epoch, 3, "hold, allocation, deallocation");
    // The same queue comes after that anyway.
    let second = take(&rig, &pool, 1, &second_done, 0).unwrap();
    assert_eq!(address(&second).unwrap(), start);
    rig.dealloca(1, &[], &[(&second_freed, 1)], &second).unwrap();
    assert_eq!(freed.borrow().query().unwrap(), 0);
    drop(hold);
    wait(&second_freed, 1).unwrap();
    assert_eq!(pool.exhausted(), 0);
    assert_eq!(pool.deaths().len(), 2, "given back once each");
}

#[test]
fn another_queue_waits_for_memory_that_it_does_not_come_after() {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, Policy::Waitable, SIZE);
    let (first_done, second_done, late) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let first = take(&rig, &pool, 1, &first_done, 0).unwrap();
    let start = address(&first).unwrap();
    rig.dealloca(1, &[], &[], &first).unwrap();
    let refused = take(&rig, &pool, 2, &late, 0).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::RESOURCE_EXHAUSTED);
    let deaths = pool.deaths();
    assert_eq!(deaths[0], deaths[1], "the refused block still has its frontier");
    let second = take(&rig, &pool, 2, &second_done, MAY_WAIT).unwrap();
    assert_eq!(address(&second).unwrap_err().code(), Code::FAILED_PRECONDITION, "it has no memory yet");
    assert_eq!(second_done.borrow().query().unwrap(), 0);
    drop(hold);
    wait(&second_done, 1).unwrap();
    assert_eq!(address(&second).unwrap(), start);
}

/// The pool keeps its block until the last use is over, cannot grow, and reports releases only: a waiter is woken
/// when the block comes back, too early, and once more when its last use is over.
#[test]
fn an_allocation_that_is_woken_too_early_is_woken_again() {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, Policy::Kept, SIZE);
    let (first_done, second_done) = (rig.semaphore(), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let first = take(&rig, &pool, 1, &first_done, 0).unwrap();
    let start = address(&first).unwrap();
    let second = take(&rig, &pool, 2, &second_done, MAY_WAIT).unwrap();
    let looks = pool.exhausted();
    assert_eq!(looks, 2, "before it observes releases and after");
    rig.dealloca(1, &[], &[], &first).unwrap();
    until("it looked again", || pool.exhausted() >= looks + 2);
    assert_eq!(second_done.borrow().query().unwrap(), 0);
    drop(hold);
    until("it was woken again", || second_done.borrow().query().unwrap() == 1);
    assert_eq!(address(&second).unwrap(), start);
}

/// The operation alone holds the pool and the buffer, and the pool would fail as it goes with its block taken.
#[test]
fn a_pool_stays_while_an_allocation_of_it_is_under_way() {
    let rig = Rig::new();
    let (pool, done) = (OneBlock::new(&rig, Policy::Kept, SIZE), rig.semaphore());
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    drop(take(&rig, &pool, 1, &done, 0).unwrap());
    drop(pool);
    drop(hold);
    wait(&done, 1).unwrap();
}

/// The queue takes memory whose last use precedes it, but is not over.
#[test]
fn memory_that_an_allocation_could_not_use_goes_back_with_what_its_queue_is_at() {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, Policy::Broken, SIZE);
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let refused = take(&rig, &pool, 1, &rig.semaphore(), 0).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::INTERNAL, "{refused}");
    let deaths = pool.deaths();
    let [(axis, epoch)] = deaths[0][..] else { panic!("one epoch of one queue: {deaths:?}") };
    assert!(!rig.tracker.has_passed(axis, epoch), "the kernel still runs");
    drop(hold);
    until("the kernel's epoch has passed", || rig.tracker.has_passed(axis, epoch));
}

#[test]
fn a_deallocation_that_never_runs_gives_nothing_back() {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, Policy::Kept, SIZE);
    let (taken, gate, freed) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    let buffer = take(&rig, &pool, 1, &taken, 0).unwrap();
    rig.dealloca(1, &[(&taken, 1), (&gate, 1)], &[(&freed, 1)], &buffer).unwrap();
    assert!(pool.is_taken(), "it waits");
    gate.borrow().fail(status!(ABORTED, "called off"));
    assert_eq!(failure(&freed, 1).code(), Code::ABORTED);
    assert!(pool.is_taken());
    rig.fill(1, &[], &[], &buffer, (0, SIZE), &[1]).unwrap();
    let again = rig.semaphore();
    rig.dealloca(1, &[], &[(&again, 1)], &buffer).unwrap();
    assert!(!pool.is_taken());
    let twice = rig.dealloca(1, &[], &[], &buffer).unwrap_err();
    assert_eq!(twice.code(), Code::FAILED_PRECONDITION);
    wait(&again, 1).unwrap();
    assert_eq!(pool.deaths().len(), 1);
}

/// An allocation that took memory which earlier work may still use, and never ran: the device was lost while it waited
/// for room in a ring.
#[test]
fn memory_that_was_not_used_comes_back_as_old_as_it_was() {
    let rig = Rig::with(&[("notification_capacity", "4")]);
    let pool = OneBlock::new(&rig, Policy::Kept, SIZE);
    let (kernels, faults) = (rig.executable(hold::GFX1100).unwrap(), rig.executable(FAULTS).unwrap());
    let (flag, target) = (rig.buffer(4), rig.buffer(4));
    rig.write(&flag, 0, &[0; 4]);
    // One epoch, so that no room becomes free before the fault.
    let recording = Recording::begin(&rig, Mode::OneShot, 0);
    recording.dispatch((&kernels, "hold"), workgroups(1), &[], &[direct(&flag, 0, 4)], 0).unwrap();
    recording.barrier();
    recording.dispatch((&faults, "trap"), workgroups(1), &[], &[direct(&target, 0, 4)], 0).unwrap();
    recording.end();
    let (trapped, taken, never) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    recording.execute(&rig, 1, &[], &[(&trapped, 1)], &[]).unwrap();
    let first = take(&rig, &pool, 1, &taken, 0).unwrap();
    rig.dealloca(1, &[], &[], &first).unwrap();
    rig.barrier(1, &[], &[]).unwrap();
    let second = take(&rig, &pool, 1, &never, 0).unwrap();
    let was_taken = pool.is_taken();
    rig.write(&flag, 0, &[1; 4]);
    assert_eq!(failure(&trapped, 1).code(), failure(&never, 1).code());
    assert!(was_taken && !pool.is_taken());
    let deaths = pool.deaths();
    let ([(axis, epoch)], [(later_axis, later_epoch)]) = (&deaths[0][..], &deaths[1][..]) else {
        panic!("not one epoch each: {deaths:?}")
    };
    assert!(axis == later_axis && later_epoch >= epoch, "{deaths:?}");
    drop((first, second));
}

/// An allocation that is too large for a range gets a slab of its own. The slab is freed when the deallocation is
/// complete and not before.
#[test]
fn memory_of_its_own_is_freed_when_its_last_use_is_over() {
    let rig = Rig::with(&[("default_pool_range_length", "1048576")]);
    let (results, done) = (rig.buffer(4), rig.semaphore());
    let (acquired, released) = rig.slabs();
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    let buffer = rig.alloca(1, &[], &[(&done, 1)], 2 << 20).unwrap();
    rig.fill(1, &[], &[], &buffer, (0, 4), &[5]).unwrap();
    rig.copy(1, &[], &[], (&buffer, 0), (&results, 0), 4).unwrap();
    rig.dealloca(1, &[], &[(&done, 2)], &buffer).unwrap();
    drop(buffer);
    assert_eq!(rig.slabs(), (acquired + 1, released));
    drop(hold);
    wait(&done, 2).unwrap();
    assert_eq!(rig.slabs(), (acquired + 1, released + 1));
    assert_eq!(rig.read(&results, 0, 4), [5; 4]);
}

/// Free neighbours become one block with the frontiers of all of them.
#[test]
fn memory_that_many_queues_gave_back_is_used_again() {
    const QUEUES: usize = 16;
    const RANGE: usize = 1 << 20;
    let rig = Rig::with(&[("hardware_queues_per_gpu", "16"), ("default_pool_range_length", "1048576")]);
    let before = rig.slabs();
    let done: Vec<_> = (0..QUEUES).map(|_| rig.semaphore()).collect();
    let buffers: Vec<_> = done
        .iter()
        .enumerate()
        .map(|(queue, done)| rig.alloca(1 << queue, &[], &[(done, 1)], RANGE / QUEUES).unwrap())
        .collect();
    for (queue, (done, buffer)) in done.iter().zip(&buffers).enumerate() {
        rig.dealloca(1 << queue, &[(done, 1)], &[(done, 2)], buffer).unwrap();
        wait(done, 2).unwrap();
    }
    let all = rig.alloca(1, &[], &[(&done[0], 3)], RANGE).unwrap();
    wait(&done[0], 3).unwrap();
    assert_eq!(rig.slabs(), before);
    drop(all);
}

/// Empty tensors take the same steps as full ones, and nothing changes.
#[test]
fn every_operation_takes_empty_buffers() {
    let rig = Rig::new();
    let kernels = rig.executable(hold::GFX1100).unwrap();
    let kernel = (&kernels, "report");
    let full = rig.buffer(64);
    rig.write(&full, 0, &[9; 64]);
    let done = rig.semaphore();
    let queued = rig.alloca(1, &[], &[(&done, 1)], 0).unwrap();
    let run = |empty: &BufferRef, next: u64| {
        let mut last = next;
        let mut step = |call: &dyn Fn(support::Points<'_>, support::Points<'_>)| {
            call(&[(&done, last)], &[(&done, last + 1)]);
            last += 1;
        };
        step(&|waits, signals| rig.fill(1, waits, signals, empty, (0, 0), &[1]).unwrap());
        step(&|waits, signals| rig.fill(1, waits, signals, &full, (64, 0), &[1, 2, 3, 4]).unwrap());
        step(&|waits, signals| rig.copy(1, waits, signals, (empty, 0), (&full, 64), 0).unwrap());
        step(&|waits, signals| rig.copy(1, waits, signals, (&full, 3), (empty, 0), 0).unwrap());
        step(&|waits, signals| rig.update(1, waits, signals, &[], empty).unwrap());
        for binding in [direct(empty, 0, 0), direct(empty, 0, WHOLE_BUFFER), direct(&full, 64, WHOLE_BUFFER)] {
            step(&|waits, signals| {
                let none = workgroups(0);
                rig.dispatch_with(1, waits, signals, kernel, none, &[0; 4], &[binding], 0).unwrap();
            });
        }
        for mode in [Mode::OneShot, Mode::Reusable, Mode::Unvalidated] {
            let recording = Recording::begin(&rig, mode, usize::from(mode != Mode::OneShot));
            recording.fill(direct(empty, 0, WHOLE_BUFFER), 1).unwrap();
            recording.copy(direct(empty, 0, 0), direct(&full, 0, 0)).unwrap();
            recording.dispatch(kernel, workgroups(0), &[0; 4], &[direct(empty, 0, 0)], 0).unwrap();
            let table: &[_] = if mode == Mode::OneShot { &[] } else { &[(empty, 0, WHOLE_BUFFER)] };
            if !table.is_empty() {
                recording.fill(indirect(0, 0, WHOLE_BUFFER), 1).unwrap();
                recording.dispatch(kernel, workgroups(0), &[0; 4], &[indirect(0, 0, 0)], 0).unwrap();
            }
            recording.end();
            step(&|waits, signals| recording.execute(&rig, QUEUE_AFFINITY_ANY, waits, signals, table).unwrap());
        }
        last
    };
    let last = run(&queued, 1);
    let last = run(&rig.buffer(0), last);
    rig.dealloca(1, &[(&done, last)], &[(&done, last + 1)], &queued).unwrap();
    wait(&done, last + 1).unwrap();
    assert_eq!(rig.read(&full, 0, 64), [9; 64]);
    assert_eq!(rig.read(&rig.buffer(0), 0, 0), []);
}
