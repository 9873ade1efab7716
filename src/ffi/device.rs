// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Calls of the driver to devices through their public interface (`iree/hal/device.h`).

use super::lists::{Buffer, Semaphore};
use super::object::{Borrowed, HalRef};
use super::semaphore::SemaphoreRef;
use super::status::Result;
use super::{BufferHandle, BufferParams, iree, raw, status};

/// A device of any driver.
pub type DeviceHandle = HalRef<raw::iree_hal_device_t>;

impl Borrowed<'_, raw::iree_hal_device_t> {
    /// A buffer of `size` bytes from the device's allocator.
    ///
    /// # Errors
    /// The error of the allocator.
    pub fn allocate_buffer(self, params: BufferParams, size: usize) -> Result<BufferHandle> {
        let mut buffer = std::ptr::null_mut();
        // SAFETY: the device lives; the result goes to a local, with its reference.
        let buffer = unsafe {
            let allocator = raw::iree_hal_device_allocator(self.as_ptr());
            iree!(raw::iree_hal_allocator_allocate_buffer(allocator, params, size, &raw mut buffer))?;
            HalRef::from_owned(buffer)
        };
        buffer.ok_or_else(|| status!(INTERNAL, "the device made no buffer"))
    }

    /// A semaphore at 0 for the queues of `affinity`.
    ///
    /// # Errors
    /// The error of the device.
    pub fn create_semaphore(self, affinity: u64) -> Result<SemaphoreRef> {
        let mut semaphore = std::ptr::null_mut();
        // SAFETY: the device lives; the result goes to a local, with its reference.
        let semaphore = unsafe {
            iree!(raw::iree_hal_semaphore_create(self.as_ptr(), affinity, 0, 0, &raw mut semaphore))?;
            HalRef::from_owned(semaphore)
        };
        semaphore.ok_or_else(|| status!(INTERNAL, "the device made no semaphore"))
    }

    /// Copies `length` bytes on a queue of `affinity`, between two ranges that are a buffer and an offset in bytes.
    /// Then signals `semaphore` to `value`.
    ///
    /// # Errors
    /// The error of the device.
    pub fn copy(
        self,
        affinity: u64,
        (source, source_offset): (Buffer<'_>, usize),
        (target, target_offset): (Buffer<'_>, usize),
        length: usize,
        (semaphore, mut value): (Semaphore<'_>, u64),
    ) -> Result<()> {
        let nothing = raw::iree_hal_semaphore_list_t {
            count: 0,
            semaphores: std::ptr::null_mut(),
            payload_values: std::ptr::null_mut(),
        };
        let mut semaphore = semaphore.as_ptr();
        let signals =
            raw::iree_hal_semaphore_list_t { count: 1, semaphores: &raw mut semaphore, payload_values: &raw mut value };
        // SAFETY: device, buffers and semaphore live; the lists live during the call, which retains the
        // objects that it needs longer.
        unsafe {
            iree!(raw::iree_hal_device_queue_copy(
                self.as_ptr(),
                affinity,
                nothing,
                signals,
                source.as_ptr(),
                source_offset,
                target.as_ptr(),
                target_offset,
                length,
                0,
            ))
        }
    }
}
