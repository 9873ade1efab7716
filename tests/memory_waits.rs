// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Allocations that wait for memory of their pool.

#[path = "support/hold.rs"]
mod hold;
mod support;

use amdgpu_rs::ffi::{Allocator, Code, HalRef, iree, raw};
use hold::Hold;
use support::one_block::{OneBlock, Policy};
use support::{Rig, failure, passes_alone, wait};

/// Kernels that fault; `testdata/faults.c` says how they were built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

const SIZE: usize = 4096;

const MAY_WAIT: u32 = raw::IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER;

/// How many threads of this process have this name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|other| other.trim_end() == name).count()
}

/// A pool of IREE's that has [`SIZE`] bytes to give, and outlives the device.
fn small_pool(rig: &Rig) -> HalRef<raw::iree_hal_pool_t> {
    // SAFETY: a live device; the pool retains its parts; results go to locals.
    unsafe {
        let mut backend: raw::iree_hal_queue_pool_backend_t = std::mem::zeroed();
        iree!(raw::iree_hal_device_query_queue_pool_backend(rig.device.as_ptr(), 1, &raw mut backend)).unwrap();
        let mut options: raw::iree_hal_tlsf_pool_options_t = std::mem::zeroed();
        options.tlsf_options.range_length = SIZE;
        options.budget_limit = SIZE;
        let (allocator, mut pool) = (Allocator::system().to_raw(), std::ptr::null_mut());
        let (provider, notification) = (backend.slab_provider, backend.notification);
        let query = raw::iree_hal_pool_epoch_query_null();
        iree!(raw::iree_hal_tlsf_pool_create(options, provider, notification, query, allocator, &raw mut pool))
            .unwrap();
        HalRef::from_owned(pool).unwrap()
    }
}

/// They take turns with one block, and an allocation without a wait does not wait for them.
#[test]
fn allocations_that_wait_hold_no_thread_and_nobody_up() {
    passes_alone("allocations_that_wait_hold_no_thread_and_nobody_up", "gfx1100", || {
        const WAITING: usize = 200;
        let rig = Rig::new();
        let (pool, taken) = (OneBlock::new(&rig, Policy::Kept, SIZE), rig.semaphore());
        let first = rig.alloca_from(pool.as_raw(), 1, &[], &[(&taken, 1)], (SIZE, 0)).unwrap();
        wait(&taken, 1).unwrap();
        let take_turn = |_| {
            let done = rig.semaphore();
            let buffer = rig.alloca_from(pool.as_raw(), 2, &[], &[(&done, 1)], (SIZE, MAY_WAIT)).unwrap();
            rig.dealloca(2, &[(&done, 1)], &[(&done, 2)], &buffer).unwrap();
            done
        };
        let waiting: Vec<_> = (0..WAITING).map(take_turn).collect();
        assert_eq!(threads("amdgpu_rs-host"), 0);
        let called = rig.semaphore();
        rig.host_call(1, &[], &[(&called, 1)]).unwrap();
        wait(&called, 1).unwrap();
        assert!(waiting.iter().all(|done| done.borrow().query().unwrap() == 0));
        rig.dealloca(1, &[], &[], &first).unwrap();
        for done in &waiting {
            wait(done, 2).unwrap();
        }
        assert_eq!(pool.deaths().len(), 1 + WAITING, "given back once each");
    });
}

#[test]
fn a_device_goes_although_allocations_wait() {
    let rig = Rig::new();
    let (pool, taken) = (small_pool(&rig), rig.semaphore());
    let first = rig.alloca_from(pool.as_ptr(), 1, &[], &[(&taken, 1)], (SIZE, 0)).unwrap();
    wait(&taken, 1).unwrap();
    let done: Vec<_> = (0..20).map(|_| rig.semaphore()).collect();
    for (index, done) in done.iter().enumerate() {
        drop(rig.alloca_from(pool.as_ptr(), 1 << (index % 2), &[], &[(done, 1)], (SIZE, MAY_WAIT)).unwrap());
    }
    // The pool's notification needs its proactor.
    let proactors = rig.proactors.clone();
    drop(rig);
    for done in &done {
        assert_eq!(done.borrow().query().unwrap_err().code(), Code::CANCELLED);
    }
    drop((first, done, pool, proactors));
}

/// The pool has the memory again before the allocation asks, but gives it only when its last use is over.
#[test]
fn an_allocation_gets_memory_when_its_last_use_is_over() {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, Policy::Kept, SIZE);
    let (taken, done) = (rig.semaphore(), rig.semaphore());
    let first = rig.alloca_from(pool.as_raw(), 1, &[], &[(&taken, 1)], (SIZE, 0)).unwrap();
    wait(&taken, 1).unwrap();
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    rig.dealloca(1, &[], &[], &first).unwrap();
    let second = rig.alloca_from(pool.as_raw(), 2, &[], &[(&done, 1)], (SIZE, MAY_WAIT)).unwrap();
    assert_eq!(done.borrow().query().unwrap(), 0);
    drop(hold);
    wait(&done, 1).unwrap();
    drop((first, second));
}

/// An allocation waits for the block of a pool, which is in use, or `is_given_back` behind a kernel that runs. Each
/// waits alone: a failing operation gives memory back, which would wake another one.
fn hears_of_the_loss(policy: Policy, is_given_back: bool) {
    let rig = Rig::new();
    let pool = OneBlock::new(&rig, policy, SIZE);
    let (taken, done) = (rig.semaphore(), rig.semaphore());
    let held = rig.alloca_from(pool.as_raw(), 1, &[], &[(&taken, 1)], (SIZE, 0)).unwrap();
    wait(&taken, 1).unwrap();
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
    if is_given_back {
        rig.dealloca(1, &[], &[], &held).unwrap();
    }
    let waiting = rig.alloca_from(pool.as_raw(), 2, &[], &[(&done, 1)], (SIZE, MAY_WAIT)).unwrap();
    let (faults, target) = (rig.executable(FAULTS).unwrap(), rig.buffer(4));
    rig.dispatch(2, &[], &[], (&faults, "write_at"), &(1_i64 << 40).to_le_bytes(), &[&target]).unwrap();
    assert_eq!(failure(&done, 1).code(), Code::DATA_LOSS);
    drop(hold);
    drop((held, waiting));
}

#[test]
fn an_allocation_that_waits_for_a_pool_hears_of_the_loss_of_its_device() {
    let name = "an_allocation_that_waits_for_a_pool_hears_of_the_loss_of_its_device";
    passes_alone(name, "gfx1100", || hears_of_the_loss(Policy::Kept, false));
}

#[test]
fn an_allocation_that_waits_for_an_epoch_hears_of_the_loss_of_its_device() {
    let name = "an_allocation_that_waits_for_an_epoch_hears_of_the_loss_of_its_device";
    passes_alone(name, "gfx1100", || hears_of_the_loss(Policy::Waitable, true));
}
