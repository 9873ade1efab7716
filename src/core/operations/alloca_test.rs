// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Queue-ordered allocation as C sees it, on the runtime to test on.

use std::ptr::null_mut;

use super::*;
use crate::ffi::{Allocator, Code, iree, raw};
use crate::testing::{NO_SEMAPHORES, TestDevice, TestSemaphore, address, map_fill, map_read, params};

const TRANSFER: u32 = raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
const MAPPED: u32 = TRANSFER | raw::IREE_HAL_BUFFER_USAGE_MAPPING;
const DEVICE: u32 = raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
const HOST: u32 = raw::IREE_HAL_MEMORY_TYPE_HOST_LOCAL | raw::IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
const MAY_WAIT: u64 = raw::IREE_HAL_ALLOCA_FLAG_ALLOW_POOL_WAIT_FRONTIER as u64;

type PoolRef = HalRef<raw::iree_hal_pool_t>;

fn alloca(
    device: &TestDevice,
    (waits, signals): (raw::iree_hal_semaphore_list_t, raw::iree_hal_semaphore_list_t),
    pool: Option<&PoolRef>,
    params: BufferParams,
    (size, flags): (usize, u64),
) -> Result<BufferHandle> {
    let mut buffer = null_mut();
    let pool = pool.map_or(null_mut(), HalRef::as_ptr);
    // SAFETY: everything lives during the call; the result goes to a local, with its reference.
    unsafe {
        let out = &raw mut buffer;
        iree!(raw::iree_hal_device_queue_alloca(device.as_ptr(), 1, waits, signals, pool, params, size, flags, out))?;
        Ok(BufferHandle::from_owned(buffer).expect("a buffer"))
    }
}

fn dealloca(
    device: &TestDevice,
    waits: raw::iree_hal_semaphore_list_t,
    signals: raw::iree_hal_semaphore_list_t,
    buffer: &BufferHandle,
) -> Result<()> {
    // SAFETY: everything lives during the call.
    unsafe { iree!(raw::iree_hal_device_queue_dealloca(device.as_ptr(), 1, waits, signals, buffer.as_ptr(), 0)) }
}

/// Allocates without waits and waits for it.
fn allocated(device: &TestDevice, pool: Option<&PoolRef>, params: BufferParams, size: usize) -> BufferHandle {
    let done = device.semaphore();
    let buffer = done.at(1, |signals| alloca(device, (NO_SEMAPHORES, signals), pool, params, (size, 0))).unwrap();
    done.wait(1).unwrap();
    buffer
}

/// Deallocates without waits and waits for it.
fn deallocated(device: &TestDevice, buffer: &BufferHandle) {
    let done = device.semaphore();
    done.at(1, |signals| dealloca(device, NO_SEMAPHORES, signals, buffer)).unwrap();
    done.wait(1).unwrap();
}

/// A pool over the device's slabs that has 4096 bytes to give.
fn small_pool(device: &TestDevice) -> PoolRef {
    let mut pool = null_mut();
    // SAFETY: the device lives; the pool retains what it is made of; results go to locals.
    unsafe {
        let mut backend = std::mem::zeroed();
        iree!(raw::iree_hal_device_query_queue_pool_backend(device.as_ptr(), 1, &raw mut backend)).unwrap();
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
    let device = TestDevice::new();
    let buffer = allocated(&device, None, params(HOST, MAPPED), 1000);
    map_fill(&buffer, 7).unwrap();
    assert_eq!(map_read(&buffer, 998, 2).unwrap(), [7, 7]);
    assert_eq!(address(&buffer, 10).unwrap(), address(&buffer, 0).unwrap() + 10);
    deallocated(&device, &buffer);
    assert_eq!(map_fill(&buffer, 7).unwrap_err().code(), Code::FAILED_PRECONDITION);
    assert_eq!(address(&buffer, 0).unwrap_err().code(), Code::INVALID_ARGUMENT);
    let again = dealloca(&device, NO_SEMAPHORES, NO_SEMAPHORES, &buffer).unwrap_err();
    assert_eq!(again.code(), Code::FAILED_PRECONDITION);
}

#[test]
fn every_kind_of_memory_and_size_has_a_default_pool() {
    let device = TestDevice::new();
    let visible = DEVICE | raw::IREE_HAL_MEMORY_TYPE_HOST_VISIBLE;
    for (memory_type, size) in [(DEVICE, 4096), (DEVICE, 65 << 20), (HOST, 4096), (visible, 4096)] {
        let buffer = allocated(&device, None, params(memory_type, TRANSFER), size);
        assert_ne!(address(&buffer, size).unwrap(), 0);
        deallocated(&device, &buffer);
    }
    // SAFETY: the device lives.
    unsafe { iree!(raw::iree_hal_device_trim(device.as_ptr())) }.unwrap();
}

#[test]
fn an_empty_allocation_is_one_like_any_other() {
    let device = TestDevice::new();
    for (memory_type, usage) in [(DEVICE, TRANSFER), (HOST, MAPPED)] {
        let buffer = allocated(&device, None, params(memory_type, usage), 0);
        assert_eq!(buffer.borrow().byte_length(), 0);
        assert_ne!(address(&buffer, 0).unwrap(), 0, "kernels are given an address");
        assert_eq!(address(&buffer, 1).unwrap_err().code(), Code::OUT_OF_RANGE);
        if usage == MAPPED {
            assert_eq!(map_read(&buffer, 0, 0).unwrap(), []);
            map_fill(&buffer, 1).unwrap();
        }
        deallocated(&device, &buffer);
        let again = dealloca(&device, NO_SEMAPHORES, NO_SEMAPHORES, &buffer).unwrap_err();
        assert_eq!(again.code(), Code::FAILED_PRECONDITION);
    }
}

#[test]
fn what_no_pool_can_give_is_refused_before_anything_happens() {
    let device = TestDevice::new();
    let pool = small_pool(&device);
    let done = device.semaphore();
    let refuse = |pool, params, size, flags| {
        let result = done.at(1, |signals| alloca(&device, (NO_SEMAPHORES, signals), pool, params, (size, flags)));
        result.map(drop).unwrap_err().code()
    };
    assert_eq!(refuse(None, params(DEVICE, TRANSFER), 64, 1 << 40), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(None, params(DEVICE, MAPPED), 64, 0), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(Some(&pool), params(HOST, TRANSFER), 64, 0), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(Some(&pool), params(DEVICE, MAPPED), 64, 0), Code::INVALID_ARGUMENT);
    assert_eq!(refuse(Some(&pool), params(DEVICE, TRANSFER), 8192, 0), Code::RESOURCE_EXHAUSTED);
    assert_eq!(done.query().unwrap(), 0);
}

#[test]
fn an_allocation_waits_for_its_pools_next_release() {
    let device = TestDevice::new();
    let pool = small_pool(&device);
    let first = allocated(&device, Some(&pool), params(DEVICE, TRANSFER), 4096);
    let done = device.semaphore();
    let second = done
        .at(1, |signals| {
            alloca(&device, (NO_SEMAPHORES, signals), Some(&pool), params(DEVICE, TRANSFER), (4096, MAY_WAIT))
        })
        .unwrap();
    assert_eq!(done.query().unwrap(), 0);
    assert_eq!(address(&second, 0).unwrap_err().code(), Code::FAILED_PRECONDITION, "it has no memory yet");
    let start = address(&first, 0).unwrap();
    deallocated(&device, &first);
    done.wait(1).unwrap();
    assert_eq!(address(&second, 0).unwrap(), start);
    deallocated(&device, &second);
}

#[test]
fn an_allocation_that_waits_when_the_device_goes_is_cancelled() {
    let device = TestDevice::new();
    let pool = small_pool(&device);
    let first = allocated(&device, Some(&pool), params(DEVICE, TRANSFER), 4096);
    let done = device.semaphore();
    let second = done
        .at(1, |signals| {
            alloca(&device, (NO_SEMAPHORES, signals), Some(&pool), params(DEVICE, TRANSFER), (4096, MAY_WAIT))
        })
        .unwrap();
    // The pool's notification needs its proactor.
    let proactors = device.proactors.clone();
    drop(device);
    assert_eq!(done.query().unwrap_err().code(), Code::CANCELLED);
    drop((first, second, pool, done));
    drop(proactors);
}

#[test]
fn failed_waits_leave_memory_as_it_was() {
    let device = TestDevice::new();
    let gate = device.semaphore();
    let done = device.semaphore();
    let later = device.semaphore();
    let both = |waits: &TestSemaphore, signals: &TestSemaphore, call: &dyn Fn(_, _) -> Result<BufferHandle>| {
        waits.at(1, |waits| signals.at(1, |signals| call(waits, signals)))
    };
    let buffer = allocated(&device, None, params(HOST, MAPPED), 64);
    // Both wait for the gate, which opens by failing.
    let never = both(&gate, &done, &|waits, signals| {
        alloca(&device, (waits, signals), None, params(DEVICE, TRANSFER), (64, 0))
    });
    let never = never.unwrap();
    let queued =
        both(&gate, &later, &|waits, signals| dealloca(&device, waits, signals, &buffer).map(|()| buffer.clone()));
    drop(queued.unwrap());
    let twice = dealloca(&device, NO_SEMAPHORES, NO_SEMAPHORES, &buffer).unwrap_err();
    assert_eq!(twice.code(), Code::FAILED_PRECONDITION, "the waiting one has claimed it");
    gate.0.borrow().fail(status!(ABORTED, "on purpose"));
    assert_eq!(done.wait(1).unwrap_err().code(), Code::ABORTED);
    assert_eq!(later.wait(1).unwrap_err().code(), Code::ABORTED);
    assert_eq!(address(&never, 0).unwrap_err().code(), Code::FAILED_PRECONDITION);
    map_fill(&buffer, 3).unwrap();
    deallocated(&device, &buffer);
}
