// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The pool as C sees it (`iree/hal/pool.h`): a default pool of a device without work.

use std::ptr::{null, null_mut};

use super::*;
use crate::heaps::Heaps;
use crate::pools::DeviceMemory;
use amdgpu_ffi::pool::PoolRef;
use amdgpu_ffi::{BufferHandle, Code};
use amdgpu_gpu::options::Options;
use amdgpu_gpu::testing::{gpu, proactor};

const ALLOW_WAIT: u32 = raw::IREE_HAL_POOL_RESERVE_FLAG_ALLOW_WAIT_FRONTIER;
const DISALLOW_GROWTH: u32 = raw::IREE_HAL_POOL_RESERVE_FLAG_DISALLOW_GROWTH;

const RANGE: usize = 65536;

/// The axis of the device's queue.
const OWN_AXIS: u64 = 1 << 63;

/// The queue of a device, which has passed every epoch and knows of no other axis.
struct IdleQueue;

impl Epochs for IdleQueue {
    fn has_passed(&self, axis: u64, _epoch: u64) -> bool {
        axis == OWN_AXIS
    }
}

/// The memory of a device, and what its pools use.
struct Rig {
    _memory: DeviceMemory,
    _queue: Arc<IdleQueue>,
    _proactor: HalRef<raw::iree_async_proactor_t>,
    _proactors: HalRef<raw::iree_async_proactor_pool_t>,
}

fn params() -> BufferParams {
    let (usage, type_) = (raw::IREE_HAL_BUFFER_USAGE_TRANSFER, raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL);
    BufferParams { usage, access: 0, type_, queue_affinity: 0, min_alignment: 0 }
}

/// The memory of a device, and its pool of device memory, which its queue has used.
fn device_pool() -> (Rig, PoolRef) {
    let options = Options { default_pool_range_length: RANGE as u64, ..Options::default() };
    let (_proactors, _proactor) = proactor();
    let heaps = Heaps::new(&[gpu(&options)], 1).unwrap();
    let (queue, allocator) = (Arc::new(IdleQueue), Allocator::system());
    // SAFETY: the rig drops the pools before the proactor.
    let memory = unsafe {
        let (queues, profiler, statistics) = (Arc::downgrade(&queue), Arc::default(), Arc::default());
        DeviceMemory::new(&heaps, &options, _proactor.as_ptr(), allocator, queues, &profiler, statistics)
    }
    .unwrap();
    let pool = memory.gpu(0).select(&mut params(), 64).unwrap().retain();
    assert!(pool.borrow().downcast::<RangePool>().is_some());
    let (_, part, _) = reserve(&pool, (64, 1), &[], 0).unwrap();
    release(&pool, &part, &[(OWN_AXIS, 1)]);
    (Rig { _memory: memory, _queue: queue, _proactor, _proactors }, pool)
}

/// The pool's answer: result, reservation, and the frontier to wait for.
type Reserved = (u32, RawReservation, Vec<(u64, u64)>);

fn reserve(
    pool: &PoolRef,
    (size, alignment): (usize, usize),
    requester: &[(u64, u64)],
    flags: u32,
) -> Result<Reserved> {
    let requester = Frontier::new(requester.iter().copied());
    // SAFETY: a live pool; all-zero is valid for the plain structs, which the call fills.
    unsafe {
        let (mut reservation, mut info, mut result) = (std::mem::zeroed(), std::mem::zeroed(), u32::MAX);
        iree!(raw::iree_hal_pool_acquire_reservation(
            pool.as_ptr(),
            size,
            alignment,
            requester.as_ptr(),
            flags,
            &raw mut reservation,
            &raw mut info,
            &raw mut result
        ))?;
        let info: raw::iree_hal_pool_acquire_info_t = info;
        let wants_growth = info.flags & raw::IREE_HAL_POOL_ACQUIRE_FLAG_GROWTH_REQUIRED != 0;
        assert_eq!(wants_growth, result == raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED);
        let death = Frontier::entries_of(info.wait_frontier).iter().map(|entry| (entry.axis, entry.epoch)).collect();
        Ok((result, reservation, death))
    }
}

fn release(pool: &PoolRef, reservation: &RawReservation, death: &[(u64, u64)]) {
    let death = Frontier::new(death.iter().copied());
    // SAFETY: a live pool, and a reservation of it.
    unsafe { raw::iree_hal_pool_release_reservation(pool.as_ptr(), reservation, death.as_ptr()) };
}

#[test]
fn memory_goes_to_who_comes_after_its_frontier() {
    let (_rig, pool) = device_pool();
    let whole = (RANGE, 1);
    let start = pool.borrow().statistics();
    let (result, all, _) = reserve(&pool, whole, &[], DISALLOW_GROWTH).unwrap();
    assert_eq!((result, all.length), (raw::IREE_HAL_POOL_ACQUIRE_OK, RANGE), "it has been in use");
    release(&pool, &all, &[(1, 5), (2, 7)]);
    for requester in [&[][..], &[(1, 5)], &[(1, 5), (2, 6)], &[(2, 8)]] {
        let (result, ..) = reserve(&pool, (64, 1), requester, DISALLOW_GROWTH).unwrap();
        assert_eq!(result, raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED, "{requester:?}");
    }
    let (result, part, death) = reserve(&pool, (64, 1), &[(1, 9), (2, 7)], DISALLOW_GROWTH).unwrap();
    assert_eq!((result, part.length, death), (raw::IREE_HAL_POOL_ACQUIRE_OK, 256, vec![]));
    release(&pool, &part, &[]);
    let (result, part, _) = reserve(&pool, (64, 1), &[], DISALLOW_GROWTH).unwrap();
    assert_eq!(result, raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH, "nothing uses that part");
    release(&pool, &part, &[]);
    let end = pool.borrow().statistics();
    let counts = |it: &Statistics| [it.reserve_count, it.release_count, it.reuse_count, it.fresh_count];
    let counted: Vec<_> = counts(&end).iter().zip(counts(&start)).map(|(end, start)| end - start).collect();
    assert_eq!(counted, [3, 3, 2, 1]);
    assert_eq!((end.exhausted_count - start.exhausted_count, end.wait_count), (4, 0));
    assert!(end.reuse_miss_count > start.reuse_miss_count);
    assert_eq!((end.bytes_reserved, end.reservation_count), (0, 0));
    assert_eq!((end.bytes_free, end.bytes_committed, end.slab_count), (RANGE, RANGE, 1));
}

#[test]
fn memory_that_is_not_over_goes_to_who_can_wait_and_comes_back_as_it_was() {
    let (_rig, pool) = device_pool();
    let (_, first, _) = reserve(&pool, (RANGE / 2, 1), &[], 0).unwrap();
    let (_, second, _) = reserve(&pool, (RANGE / 2, 1), &[], DISALLOW_GROWTH).unwrap();
    release(&pool, &first, &[(1, 5)]);
    release(&pool, &second, &[(2, 7)]);
    for _ in 0..2 {
        let (result, all, death) = reserve(&pool, (RANGE, 1), &[(1, 5)], ALLOW_WAIT | DISALLOW_GROWTH).unwrap();
        assert_eq!((result, death), (raw::IREE_HAL_POOL_ACQUIRE_OK_NEEDS_WAIT, vec![(1, 5), (2, 7)]));
        // The pool's own frontier, as a requester that does not wait gives it back.
        let own = pool.borrow().downcast::<RangePool>().unwrap().state.lock().waits[0].1.as_ptr();
        // SAFETY: a live pool, a reservation of it, and its frontier.
        unsafe { raw::iree_hal_pool_release_reservation(pool.as_ptr(), &raw const all, own) };
    }
    assert_eq!(pool.borrow().statistics().wait_count, 2);
    let (result, all, _) = reserve(&pool, (RANGE, 1), &[(1, 5), (2, 7)], DISALLOW_GROWTH).unwrap();
    assert_eq!(result, raw::IREE_HAL_POOL_ACQUIRE_OK);
    release(&pool, &all, &[]);
    // A request that may grow the pool does so first.
    let (_, all, _) = reserve(&pool, (RANGE, 1), &[], DISALLOW_GROWTH).unwrap();
    release(&pool, &all, &[(1, 9)]);
    let (result, fresh, _) = reserve(&pool, (RANGE, 1), &[], ALLOW_WAIT).unwrap();
    assert_eq!((result, fresh.slab_index), (raw::IREE_HAL_POOL_ACQUIRE_OK_FRESH, 1));
    release(&pool, &fresh, &[]);
}

/// The memory comes back with more axes than the device has queues, all unknown to the device.
#[test]
fn memory_of_too_many_axes_is_not_used_again() {
    let (_rig, pool) = device_pool();
    let (_, all, _) = reserve(&pool, (RANGE, 1), &[], DISALLOW_GROWTH).unwrap();
    let many: Vec<_> = (1..=40).map(|axis| (axis, 1)).collect();
    release(&pool, &all, &many);
    let (result, ..) = reserve(&pool, (64, 1), &many, ALLOW_WAIT | DISALLOW_GROWTH).unwrap();
    assert_eq!(result, raw::IREE_HAL_POOL_ACQUIRE_EXHAUSTED);
}

#[test]
fn what_no_range_can_give_is_refused() {
    let (_rig, pool) = device_pool();
    let code = |request| reserve(&pool, request, &[], 0).map(drop).unwrap_err().code();
    assert_eq!(code((0, 1)), Code::INVALID_ARGUMENT);
    assert_eq!(code((64, 0)), Code::INVALID_ARGUMENT);
    assert_eq!(code((64, 48)), Code::INVALID_ARGUMENT);
    assert_eq!(code((64, 512)), Code::INVALID_ARGUMENT, "more than the pool's alignment");
    assert_eq!(code((RANGE + 1, 1)), Code::OUT_OF_RANGE);
    let capabilities = pool.borrow().capabilities();
    assert_eq!((capabilities.min_allocation_size, capabilities.max_allocation_size), (1, RANGE));
}

#[test]
fn a_buffer_that_owns_its_reservation_gives_it_back() {
    let (_rig, pool) = device_pool();
    // SAFETY: a live pool; the result goes to a local, with its reference.
    let buffer = unsafe {
        let mut buffer = null_mut();
        let timeout = raw::iree_make_timeout_ms(0);
        iree!(raw::iree_hal_pool_allocate_buffer(pool.as_ptr(), params(), 1000, null(), timeout, &raw mut buffer))
            .unwrap();
        BufferHandle::from_owned(buffer).unwrap()
    };
    let statistics = pool.borrow().statistics();
    assert_eq!((statistics.bytes_reserved, statistics.reservation_count), (1024, 1));
    assert!(pool.borrow().is_in_use());
    drop(buffer);
    assert_eq!(pool.borrow().statistics().bytes_reserved, 0);
    assert!(!pool.borrow().is_in_use());
}
