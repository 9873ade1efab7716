// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered allocation from the default pools, and from a pool that the application made.

mod support;

use std::ptr::null_mut;

use amdgpu_rs::device_address;
use amdgpu_rs::ffi::{Allocator, Code, HalRef, Result, iree, raw, status};
use support::{BufferRef, Rig, SemaphoreRef, map_fill, map_read, params, wait};

const TRANSFER: u32 = raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
const MAPPED: u32 = TRANSFER | raw::IREE_HAL_BUFFER_USAGE_MAPPING;
const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const HOST: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
const MAY_WAIT: u64 = raw::IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER as u64;

type Pool = *mut raw::iree_hal_pool_t;
type PoolRef = HalRef<raw::iree_hal_pool_t>;

const DEFAULT_POOL: Pool = null_mut();

/// The device address of a byte of `buffer`.
fn address(buffer: &BufferRef, offset: usize) -> Result<u64> {
    device_address(buffer.borrow(), offset)
}

/// Allocates without waits and waits for it.
fn allocated(rig: &Rig, pool: Pool, params: raw::iree_hal_buffer_params_t, size: usize) -> BufferRef {
    let done = rig.semaphore();
    let buffer = rig.alloca_of(params, pool, 1, (&[], &[(&done, 1)]), (size, 0)).unwrap();
    wait(&done, 1).unwrap();
    buffer
}

/// Deallocates without waits and waits for it.
fn deallocated(rig: &Rig, buffer: &BufferRef) {
    let done = rig.semaphore();
    rig.dealloca(1, &[], &[(&done, 1)], buffer).unwrap();
    wait(&done, 1).unwrap();
}

/// A pool over the device's slabs with 4096 bytes.
fn small_pool(rig: &Rig) -> PoolRef {
    let mut pool = null_mut();
    // SAFETY: the device lives; the pool retains what it is made of; results go to locals.
    unsafe {
        let mut backend = std::mem::zeroed();
        iree!(raw::iree_hal_device_query_queue_pool_backend(rig.device.as_ptr(), 1, &raw mut backend)).unwrap();
        let mut options: raw::iree_hal_tlsf_pool_options_t = std::mem::zeroed();
        options.tlsf_options.range_length = 4096;
        options.tlsf_options.alignment = 256;
        options.tlsf_options.frontier_capacity = 2;
        options.budget_limit = 4096;
        let allocator = Allocator::system().to_raw();
        let (provider, notification) = (backend.slab_provider, backend.notification);
        let query = raw::iree_hal_pool_epoch_query_null();
        iree!(raw::iree_hal_tlsf_pool_create(options, provider, notification, query, allocator, &raw mut pool))
            .unwrap();
        PoolRef::from_owned(pool).unwrap()
    }
}

#[test]
fn memory_comes_and_goes_with_the_queue() {
    let rig = Rig::new();
    let buffer = allocated(&rig, DEFAULT_POOL, params(HOST, MAPPED), 1000);
    map_fill(&buffer, 7).unwrap();
    assert_eq!(map_read(&buffer, 998, 2).unwrap(), [7, 7]);
    assert_eq!(address(&buffer, 10).unwrap(), address(&buffer, 0).unwrap() + 10);
    deallocated(&rig, &buffer);
    assert_eq!(map_fill(&buffer, 7).unwrap_err().code(), Code::FAILED_PRECONDITION);
    assert_eq!(address(&buffer, 0).unwrap_err().code(), Code::INVALID_ARGUMENT);
    let again = rig.dealloca(1, &[], &[], &buffer).unwrap_err();
    assert_eq!(again.code(), Code::FAILED_PRECONDITION);
}

#[test]
fn every_kind_of_memory_and_size_has_a_default_pool() {
    let rig = Rig::new();
    let visible = DEVICE | raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE;
    for (memory_type, size) in [(DEVICE, 4096), (DEVICE, 65 << 20), (HOST, 4096), (visible, 4096)] {
        let buffer = allocated(&rig, DEFAULT_POOL, params(memory_type, TRANSFER), size);
        assert_ne!(address(&buffer, size).unwrap(), 0);
        deallocated(&rig, &buffer);
    }
    // SAFETY: the device lives.
    unsafe { iree!(raw::iree_hal_device_trim(rig.device.as_ptr())) }.unwrap();
}

#[test]
fn an_empty_allocation_is_one_like_any_other() {
    let rig = Rig::new();
    for (memory_type, usage) in [(DEVICE, TRANSFER), (HOST, MAPPED)] {
        let buffer = allocated(&rig, DEFAULT_POOL, params(memory_type, usage), 0);
        assert_eq!(buffer.borrow().byte_length(), 0);
        assert_ne!(address(&buffer, 0).unwrap(), 0, "kernels are given an address");
        assert_eq!(address(&buffer, 1).unwrap_err().code(), Code::OUT_OF_RANGE);
        if usage == MAPPED {
            assert_eq!(map_read(&buffer, 0, 0).unwrap(), []);
            map_fill(&buffer, 1).unwrap();
        }
        deallocated(&rig, &buffer);
        let again = rig.dealloca(1, &[], &[], &buffer).unwrap_err();
        assert_eq!(again.code(), Code::FAILED_PRECONDITION);
    }
}

#[test]
fn what_no_pool_can_give_is_refused_before_anything_happens() {
    let rig = Rig::new();
    let pool = small_pool(&rig);
    let done = rig.semaphore();
    let refuse = |pool, params, size, flags| {
        let result = rig.alloca_of(params, pool, 1, (&[], &[(&done, 1)]), (size, flags));
        result.map(drop).unwrap_err().code()
    };
    assert_eq!(refuse(DEFAULT_POOL, params(DEVICE, TRANSFER), 64, 1 << 40), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(DEFAULT_POOL, params(DEVICE, MAPPED), 64, 0), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(pool.as_ptr(), params(HOST, TRANSFER), 64, 0), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(pool.as_ptr(), params(DEVICE, MAPPED), 64, 0), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(pool.as_ptr(), params(DEVICE, TRANSFER), 8192, 0), Code::RESOURCE_EXHAUSTED);
    assert_eq!(done.borrow().query().unwrap(), 0);
}

/// All memory of a [`small_pool`], an allocation that waits for it, and the semaphore that this one signals.
fn full_and_waiting(rig: &Rig, pool: &PoolRef) -> (BufferRef, BufferRef, SemaphoreRef) {
    let params = params(DEVICE, TRANSFER);
    let first = allocated(rig, pool.as_ptr(), params, 4096);
    let done = rig.semaphore();
    let second = rig.alloca_of(params, pool.as_ptr(), 1, (&[], &[(&done, 1)]), (4096, MAY_WAIT)).unwrap();
    (first, second, done)
}

#[test]
fn an_allocation_waits_for_its_pools_next_release() {
    let rig = Rig::new();
    let pool = small_pool(&rig);
    let (first, second, done) = full_and_waiting(&rig, &pool);
    assert_eq!(done.borrow().query().unwrap(), 0);
    assert_eq!(address(&second, 0).unwrap_err().code(), Code::FAILED_PRECONDITION, "it has no memory yet");
    let start = address(&first, 0).unwrap();
    deallocated(&rig, &first);
    wait(&done, 1).unwrap();
    assert_eq!(address(&second, 0).unwrap(), start);
    deallocated(&rig, &second);
}

#[test]
fn an_allocation_that_waits_when_the_device_goes_is_cancelled() {
    let rig = Rig::new();
    let pool = small_pool(&rig);
    let (first, second, done) = full_and_waiting(&rig, &pool);
    // The pool's notification needs its proactor.
    let proactors = rig.proactors.clone();
    drop(rig);
    assert_eq!(done.borrow().query().unwrap_err().code(), Code::CANCELLED);
    drop((first, second, pool, done));
    drop(proactors);
}

#[test]
fn failed_waits_leave_memory_as_it_was() {
    let rig = Rig::new();
    let gate = rig.semaphore();
    let done = rig.semaphore();
    let later = rig.semaphore();
    let buffer = allocated(&rig, DEFAULT_POOL, params(HOST, MAPPED), 64);
    // Both wait for the gate, which opens by failing.
    let local = params(DEVICE, TRANSFER);
    let never = rig.alloca_of(local, DEFAULT_POOL, 1, (&[(&gate, 1)], &[(&done, 1)]), (64, 0)).unwrap();
    rig.dealloca(1, &[(&gate, 1)], &[(&later, 1)], &buffer).unwrap();
    let twice = rig.dealloca(1, &[], &[], &buffer).unwrap_err();
    assert_eq!(twice.code(), Code::FAILED_PRECONDITION, "the waiting one has claimed it");
    gate.borrow().fail(status!(ABORTED, "on purpose"));
    assert_eq!(wait(&done, 1).unwrap_err().code(), Code::ABORTED);
    assert_eq!(wait(&later, 1).unwrap_err().code(), Code::ABORTED);
    assert_eq!(address(&never, 0).unwrap_err().code(), Code::FAILED_PRECONDITION);
    map_fill(&buffer, 3).unwrap();
    deallocated(&rig, &buffer);
}
