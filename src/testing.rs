// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! For tests: a logical device on the runtime to test on, in a device group, used as C uses it.

#[path = "../tests/support/memory.rs"]
mod memory;

use std::ptr::null_mut;

use crate::api::device;
use crate::core::gpu::options::Options;
use crate::core::gpu::topology::Topology;
use crate::ffi::{
    self, Allocator, Borrowed, BufferHandle, FrontierTracker, HalRef, Result, SemaphoreRef, TIME_INFINITE_FUTURE, iree,
    raw,
};
use crate::hsa::testing::library;

pub(crate) use memory::{map_read, params};

/// A device in a group of its own.
pub(crate) struct TestDevice {
    group: *mut raw::iree_hal_device_group_t,
    device: HalRef<raw::iree_hal_device_t>,
    /// Threads for its asynchronous I/O.
    pub proactors: HalRef<raw::iree_async_proactor_pool_t>,
}

impl TestDevice {
    /// All GPUs of the runtime to test on, with default options.
    pub fn new() -> Self {
        let system = Allocator::system();
        let (mut pool, mut tracker, mut group) = (null_mut(), null_mut(), null_mut());
        // SAFETY: valid arguments; results go to locals with their references, and the group is released in `drop`.
        unsafe {
            let options = raw::iree_async_proactor_pool_options_default();
            iree!(raw::iree_async_proactor_pool_create(1, std::ptr::null(), options, system.to_raw(), &raw mut pool))
                .expect("a proactor pool");
            let pool = HalRef::from_owned(pool).expect("a proactor pool");
            let selection = Topology::new(&library()).and_then(|topology| topology.select("")).expect("a GPU");
            let device =
                device::create("amdgpu_rs", selection, Options::default(), pool.borrow(), system).expect("a device");
            let device = HalRef::from_owned(device.into_raw()).expect("a device");
            let options = raw::iree_async_frontier_tracker_options_default();
            iree!(raw::iree_async_frontier_tracker_create(options, system.to_raw(), &raw mut tracker))
                .expect("a tracker");
            let tracker = FrontierTracker::from_owned(tracker).expect("a tracker");
            iree!(raw::iree_hal_device_group_create_from_device(
                device.as_ptr(),
                tracker.as_ptr(),
                system.to_raw(),
                &raw mut group
            ))
            .expect("a device group");
            Self { group, device, proactors: pool }
        }
    }

    /// The device.
    pub fn as_ptr(&self) -> *mut raw::iree_hal_device_t {
        self.device.as_ptr()
    }

    /// Its allocator.
    pub fn allocator(&self) -> *mut raw::iree_hal_allocator_t {
        // SAFETY: the device lives.
        unsafe { raw::iree_hal_device_allocator(self.as_ptr()) }
    }

    /// A semaphore at 0.
    pub fn semaphore(&self) -> TestSemaphore {
        let mut semaphore = null_mut();
        // SAFETY: the device lives; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_semaphore_create(self.as_ptr(), u64::MAX, 0, 0, &raw mut semaphore))
                .expect("a semaphore");
            TestSemaphore(SemaphoreRef::from_owned(semaphore).expect("a semaphore"))
        }
    }

    /// `iree_hal_allocator_allocate_buffer`.
    pub fn allocate(&self, params: raw::iree_hal_buffer_params_t, size: usize) -> Result<BufferHandle> {
        let mut buffer = null_mut();
        // SAFETY: the allocator lives; the result goes to a local, with its reference.
        unsafe {
            iree!(raw::iree_hal_allocator_allocate_buffer(self.allocator(), params, size, &raw mut buffer))?;
            Ok(BufferHandle::from_owned(buffer).expect("a buffer"))
        }
    }
}

impl Drop for TestDevice {
    fn drop(&mut self) {
        // SAFETY: the reference of `new`.
        unsafe { raw::iree_hal_device_group_release(self.group) };
    }
}

/// A semaphore of a test.
#[derive(Clone)]
pub(crate) struct TestSemaphore(pub SemaphoreRef);

impl TestSemaphore {
    /// Runs `call` with the list that names payload `value` of this semaphore.
    pub fn at<R>(&self, value: u64, call: impl FnOnce(raw::iree_hal_semaphore_list_t) -> R) -> R {
        let (mut semaphore, mut value) = (self.0.as_ptr(), value);
        call(raw::iree_hal_semaphore_list_t {
            count: 1,
            semaphores: &raw mut semaphore,
            payload_values: &raw mut value,
        })
    }

    /// Waits for payload `value`.
    pub fn wait(&self, value: u64) -> Result<()> {
        let timeout = raw::iree_timeout_t { type_: raw::IREE_TIMEOUT_ABSOLUTE, nanos: TIME_INFINITE_FUTURE };
        // SAFETY: the semaphore lives.
        unsafe { iree!(raw::iree_hal_semaphore_wait(self.0.as_ptr(), value, timeout, 0)) }
    }

    /// The payload now.
    pub fn query(&self) -> Result<u64> {
        self.0.borrow().query()
    }
}

/// The list of no semaphores.
pub(crate) const NO_SEMAPHORES: raw::iree_hal_semaphore_list_t =
    raw::iree_hal_semaphore_list_t { count: 0, semaphores: null_mut(), payload_values: null_mut() };

/// Fills all of a mappable buffer from the host.
pub(crate) fn map_fill(buffer: &BufferHandle, value: u8) -> Result<()> {
    // SAFETY: the buffer and the pattern live.
    unsafe { iree!(raw::iree_hal_buffer_map_fill(buffer.as_ptr(), 0, usize::MAX, (&raw const value).cast(), 1)) }
}

/// A span of `buffer`.
pub(crate) fn span(buffer: &BufferHandle, offset: usize, length: usize) -> BufferHandle {
    let mut result = null_mut();
    // SAFETY: the buffer lives; the result goes to a local, with its reference.
    unsafe {
        let allocator = Allocator::system().to_raw();
        iree!(raw::iree_hal_buffer_subspan(buffer.as_ptr(), offset, length, allocator, &raw mut result))
            .expect("a span");
        BufferHandle::from_owned(result).expect("a span")
    }
}

/// The device address of a byte of `buffer`.
pub(crate) fn address(buffer: &BufferHandle, offset: usize) -> Result<u64> {
    let buffer: Borrowed<'_, _> = buffer.borrow();
    crate::core::memory::device_address(buffer, offset)
}
